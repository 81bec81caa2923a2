// SPDX-License-Identifier: MIT
//
// compare_weights: the weights of a float and of a quantized model side by side. Layer: numeric_suite
// (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_EAGER_COMPARE_WEIGHTS_HPP
#define INTQ_NUMERIC_SUITE_EAGER_COMPARE_WEIGHTS_HPP

#include <optional>
#include <string>
#include <vector>

#include "intq/nn/model/module.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "intq/numeric_suite/loggers/results.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

/// A weight in the float model, and as the codes of the quantized one.
struct WeightPair {
    Tensor float_, quantized;
};
using WeightDict = Ordered<WeightPair>;
std::string to_json(const WeightPair& pair, TensorJson tensors = TensorJson::shape);

/// The state of a model with PyTorch's names and contents for quantized modules: state_dict() of a converted model.
///
/// A converted convolution has weight, bias, scale and zero_point; a converted or dynamic linear layer has its weight
/// as _packed_params._packed_params; a dynamic LSTM has _all_weight_values.<k>.param, the weight of the hidden state in
/// layer k, and _all_weight_values.<k>.param_ih, the weight of the input, which PyTorch keeps in the same entry. Other
/// modules have their parameters and buffers. A weight consists of codes that carry their scales.
///
/// The codes of a layer that has not been called come from its weight's quantizer; a call may raise their scale so that
/// the bias fits (docs/arithmetic.md section 3).
nn::StateDict quantized_state_dict(nn::Module& model);

/// The name among `names` that corresponds to a name of the quantized model, if any.
///
/// The last part of `key` must be `postfix`. The parts before it must equal the name without its last part, or without
/// its last two, because a fused layer has its members below it. For _packed_params the last two parts of the key are
/// also dropped.
std::optional<std::string> find_match(const std::vector<std::string>& names, const std::string& key,
                                      const std::string& postfix);

/// The weights of both models by the names of the quantized one.
///
///     for (const auto& [name, weight] : compare_weights(nn::state_dict(*model), quantized_state_dict(*quantized)))
///         std::printf("%s %f\n", name.c_str(), compute_error(weight.float_, weight.quantized));
///
/// @param float_dict      state_dict() of the float model, fused or not
/// @param quantized_dict  quantized_state_dict() of the quantized model
/// @throws Error where no weight of the quantized model has a partner, because the models do not correspond, and where
///         no weight holds codes, because quantized_dict is not a quantized_state_dict()
///
/// Source   torch.ao.ns._numeric_suite.compare_weights
WeightDict compare_weights(const nn::StateDict& float_dict, const nn::StateDict& quantized_dict);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_eager)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <string_view>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/io/json_text.hpp"
#    include "intq/io/nearest_names.hpp"
#    include "intq/nn/layers/lstm.hpp"
#    include "intq/quantization/convert/quantized_module.hpp"
#    include "intq/quantization/dynamic/dynamic_modules.hpp"
#    include "intq/quantization/modules/weight_codes.hpp"
#    include "intq/quantization/operators/reference.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string to_json(const WeightPair& pair, TensorJson tensors) {
    return io::JsonObject()
        .add("float", to_json(nn::Value(pair.float_), tensors))
        .add("quantized", to_json(nn::Value(pair.quantized), tensors))
        .str();
}

namespace detail {

using Parts = std::vector<std::string_view>;

INTQ_INLINE Parts parts_of(std::string_view name) {
    Parts parts;
    for (auto dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
        parts.push_back(name.substr(0, dot));
        name.remove_prefix(dot + 1);
    }
    parts.push_back(name);
    return parts;
}

INTQ_INLINE Parts without_last(const Parts& parts, std::size_t count) {
    return {parts.begin(), parts.end() - static_cast<std::ptrdiff_t>((std::min)(count, parts.size()))};
}

INTQ_INLINE std::optional<std::string> find_parts(const std::vector<std::string>& names, const Parts& wanted) {
    for (const std::size_t dropped : {std::size_t{1}, std::size_t{2}})
        for (const std::string& name : names) {
            const Parts parts = parts_of(name);
            // A tensor of the model itself does not match its children's: "weight" is not "fc.weight".
            if (wanted.empty() && parts.size() != 1) continue;
            if (without_last(parts, dropped) == wanted) return name;
        }
    return std::nullopt;
}

INTQ_INLINE void add_tensor(nn::StateDict& state, const std::string& path, const char* name, Tensor tensor) {
    if (tensor.defined()) state.push_back({nn::join_path(path, name), std::move(tensor)});
}

INTQ_INLINE void add_output_grid(nn::StateDict& state, const std::string& path, const OwnedQParams& grid) {
    if (grid.is_per_channel()) return;  // an accumulator
    add_tensor(state, path, "scale", Tensor::from<float>(Shape(1), {grid.scale()}));
    const std::int64_t zero_point = grid.zero_points.empty() ? 0 : grid.zero_points[0];
    add_tensor(state, path, "zero_point", Tensor::from<std::int64_t>(Shape(1), {zero_point}));
}

INTQ_INLINE void add_quantized_module(nn::StateDict& state, const std::string& path,
                                      const quantization::QuantizedModule& module) {
    const bool is_linear = module.type_name().rfind("QuantizedLinear", 0) == 0;
    if (!is_linear && module.has_weight()) {
        add_tensor(state, path, "weight", module.weight_codes());
        add_tensor(state, path, "bias", module.bias());
    }
    if (const auto grid = module.known_output_qparams()) add_output_grid(state, path, *grid);
    if (is_linear && module.has_weight())
        add_tensor(state, path, "_packed_params._packed_params", module.weight_codes());
}

INTQ_INLINE void add_dynamic_lstm(nn::StateDict& state, const std::string& path,
                                  const quantization::DynamicLSTM& lstm) {
    for (index_t layer = 0; layer < lstm.options().num_layers; ++layer)
        for (index_t direction = 0; direction < lstm.directions(); ++direction) {
            const std::string suffix = nn::LSTM::suffix_of(layer, direction);
            const std::string name =
                "_all_weight_values." + std::to_string(layer * lstm.directions() + direction) + ".param";
            add_tensor(state, path, (name + "_ih").c_str(), quantization::codes_of(lstm, "weight_ih" + suffix));
            add_tensor(state, path, name.c_str(), quantization::codes_of(lstm, "weight_hh" + suffix));
        }
}

INTQ_INLINE void add_module_state(nn::StateDict& state, const std::string& path, nn::Module& module) {
    if (const auto* quantized = dynamic_cast<const quantization::QuantizedModule*>(&module))
        return add_quantized_module(state, path, *quantized);
    if (const auto* quantize = dynamic_cast<const quantization::Quantize*>(&module))
        return add_output_grid(state, path, quantize->qparams());
    if (const auto* lstm = dynamic_cast<const quantization::DynamicLSTM*>(&module))
        return add_dynamic_lstm(state, path, *lstm);
    if (dynamic_cast<const quantization::DynamicLinear*>(&module) != nullptr)
        return add_tensor(state, path, "_packed_params._packed_params", quantization::codes_of(module, "weight"));
    const bool has_codes = module.type_name().rfind("weight_only.", 0) == 0;
    for (const auto* list : {&module.parameters(), &module.buffers()})
        for (const auto& item : *list)
            add_tensor(state, path, item.name.c_str(),
                       has_codes && item.name == "weight" ? quantization::codes_of(module, "weight") : item.value);
}

INTQ_INLINE bool is_weight(const std::string& name) {
    const std::string_view last = parts_of(name).back();
    return last.rfind("weight", 0) == 0 && last.find("scale") == std::string_view::npos;
}

/// The name in the float model of a weight in the quantized one.
INTQ_INLINE std::optional<std::string> partner_of(const std::vector<std::string>& names, const std::string& key) {
    const Parts parts = parts_of(key);
    if (parts.back() == "weight") return find_match(names, key, "weight");
    if (parts.back() == "_packed_params") return find_match(names, key, "_packed_params");
    if (parts.size() < 3 || parts[parts.size() - 3] != "_all_weight_values") return std::nullopt;
    const std::string kind = parts.back() == "param_ih" ? "weight_ih_l" : "weight_hh_l";
    std::string wanted;
    for (const std::string_view part : without_last(parts, 3)) wanted += std::string(part) + ".";
    wanted += kind + std::string(parts[parts.size() - 2]);
    for (const std::string& name : names)
        if (name == wanted) return name;
    return std::nullopt;
}

}  // namespace detail

INTQ_INLINE std::optional<std::string> find_match(const std::vector<std::string>& names, const std::string& key,
                                                  const std::string& postfix) {
    const detail::Parts parts = detail::parts_of(key);
    if (parts.back() != postfix) return std::nullopt;
    if (auto found = detail::find_parts(names, detail::without_last(parts, 1))) return found;
    if (postfix != "_packed_params" || parts.size() < 2) return std::nullopt;
    return detail::find_parts(names, detail::without_last(parts, 2));
}

INTQ_INLINE nn::StateDict quantized_state_dict(nn::Module& model) {
    nn::StateDict state;
    for (const auto& module : model.named_modules()) detail::add_module_state(state, module.name, *module.value);
    return state;
}

INTQ_INLINE WeightDict compare_weights(const nn::StateDict& float_dict, const nn::StateDict& quantized_dict) {
    std::vector<std::string> names, keys;
    for (const auto& item : float_dict)
        if (detail::is_weight(item.name)) names.push_back(item.name);
    WeightDict result;
    for (const auto& item : quantized_dict) {
        keys.push_back(item.name);
        if (const auto name = detail::partner_of(names, item.name))
            result[item.name] = {*nn::find_named(float_dict, *name), item.value};
    }
    const bool has_codes = std::any_of(quantized_dict.begin(), quantized_dict.end(), [](const auto& item) {
        return item.value.dtype() == DType::int8 || item.value.dtype() == DType::int16;
    });
    if (!has_codes)
        throw Error(
            "compare_weights: the second dictionary holds no codes, so it is not from a quantized model; give "
            "quantized_state_dict(*model) of the converted model, because its state_dict() has no weights");
    if (result.empty())
        throw Error(
            "compare_weights: no weight of the quantized model has a partner in the float model, so the models "
            "do not correspond. Weights of the float model: " +
            nearest_names(keys.empty() ? "" : keys[0], names) +
            "; of the quantized model: " + nearest_names(names.empty() ? "" : names[0], keys));
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

#endif  // INTQ_DEFINES(numeric_suite_eager)
#endif  // INTQ_NUMERIC_SUITE_EAGER_COMPARE_WEIGHTS_HPP
