// SPDX-License-Identifier: MIT
//
// quantize_weight_only: int8 weights per channel, activations in float. Layer: quantization
// (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_DYNAMIC_WEIGHT_ONLY_HPP
#define INTQ_QUANTIZATION_DYNAMIC_WEIGHT_ONLY_HPP

#include <map>
#include <string>
#include <vector>

#include "intq/nn/layers/embedding.hpp"
#include "intq/nn/layers/weighted.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/modules/weight_codes.hpp"
#include "intq/tensor/quantize.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// A layer, fused or not, whose weight is int8 codes with a scale for each output channel. It computes in float with
/// the weight that the codes represent: it takes a quarter of the memory, and the float layer's time plus dequantizing.
///
/// Buffers: weight (int8), weight_scale; the bias stays a parameter. Prepare leaves it in float.
///
/// @tparam Base  nn::Linear, nn::Conv1d, nn::Conv2d or nn::ConvTranspose2d
template <class Base> class WeightOnly : public nn::Cloneable<WeightOnly<Base>, nn::Fused<Base>> {
public:
    explicit WeightOnly(const Base& layer)
        : nn::Cloneable<WeightOnly<Base>, nn::Fused<Base>>(nn::Fused<Base>(layer, layer.fusion())) {
        const Tensor weight = layer.weight();
        std::erase_if(this->parameters(), [](const auto& parameter) { return parameter.name == "weight"; });
        add_codes(*this, "weight", weight, layer.weight_channel_axis());
    }

    std::string type_name() const override { return "weight_only." + nn::Fused<Base>::type_name(); }
    std::string operator_name() const override { return type_name(); }

protected:
    Tensor effective_weight(nn::Arguments) override {
        const Tensor codes = codes_of(*this, "weight");
        return dequantize(codes, *codes.qparams());
    }
};

/// An Embedding of int8 codes with a scale for each row; only the rows that are asked for become real numbers.
class WeightOnlyEmbedding : public nn::Cloneable<WeightOnlyEmbedding> {
public:
    explicit WeightOnlyEmbedding(const nn::Embedding& layer);

    std::string type_name() const override { return "weight_only.Embedding"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
};

struct WeightOnlyOptions {
    /// Types or qualified names of modules and whether they are quantized; others are not. Empty: all.
    std::map<std::string, bool> spec{};
    bool inplace = false;
};

/// A model whose convolutions, linear layers and embeddings have int8 weights; no data is needed.
///
/// @throws Error for an entry of the specification that no such layer matches, with the nearest names; for a prepared
///         model
nn::ModulePtr quantize_weight_only(const nn::ModulePtr& model, const WeightOnlyOptions& options = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_dynamic)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <memory>

#    include "intq/arith/quantize.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/axes.hpp"
#    include "intq/nn/float_operators/embedding.hpp"
#    include "intq/nn/layers/conv.hpp"
#    include "intq/nn/layers/linear.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/quantization/modules/replace_modules.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE WeightOnlyEmbedding::WeightOnlyEmbedding(const nn::Embedding& layer) {
    add_codes(*this, "weight", layer.weight(), 0);
}

INTQ_INLINE nn::Value WeightOnlyEmbedding::forward(nn::Arguments arguments) {
    const Tensor& codes = tensor("weight");
    const auto scales = tensor("weight_scale").flat<float>();
    const index_t width = codes.extent(1);
    Shape shape = arguments.tensor(0).shape();
    const auto rows = nn::float_operators::row_numbers(arguments.tensor(0), codes.extent(0));
    nn::float_operators::append_extent(shape, width, "embedding");
    Tensor y = Tensor::empty(shape);
    float* to = y.flat<float>().data();
    for (const index_t row : rows) {
        const std::int8_t* from = codes.flat<std::int8_t>().data() + row * width;
        const arith::ScaleZeroPoint qparams{scales[static_cast<std::size_t>(row)], 0};
        to = std::transform(from, from + width, to, [&](std::int8_t code) { return arith::dequantize(code, qparams); });
    }
    return y;
}

namespace detail {

template <class Base> nn::ModulePtr weight_only_as(const nn::Module& module) {
    const auto* layer = dynamic_cast<const Base*>(&module);
    return layer == nullptr ? nullptr : std::make_shared<WeightOnly<Base>>(*layer);
}

INTQ_INLINE nn::ModulePtr weight_only_embedding(const nn::Module& module) {
    const auto* table = dynamic_cast<const nn::Embedding*>(&module);
    return table == nullptr ? nullptr : std::make_shared<WeightOnlyEmbedding>(*table);
}

/// The module with codes; null for one without a weight, or with codes already.
INTQ_INLINE nn::ModulePtr weight_only_of(const nn::Module& module) {
    if (module.type_name().rfind("weight_only.", 0) == 0) return nullptr;
    for (const auto make : {&weight_only_as<nn::Linear>, &weight_only_as<nn::Conv2d>, &weight_only_as<nn::Conv1d>,
                            &weight_only_as<nn::ConvTranspose2d>, &weight_only_embedding})
        if (nn::ModulePtr made = make(module)) {
            made->train(module.training());
            return made;
        }
    return nullptr;
}

}  // namespace detail

INTQ_INLINE nn::ModulePtr quantize_weight_only(const nn::ModulePtr& model, const WeightOnlyOptions& options) {
    static_cast<void>(nn::given_model(model, "quantize_weight_only"));
    ModuleTable spec(options.spec);
    const auto replacer = [&](const std::string& name, const nn::ModulePtr& module) -> nn::ModulePtr {
        if (dynamic_cast<const PreparedWeight*>(module.get()) != nullptr)
            throw Error("quantize_weight_only: " + name + " (" + module->type_name() + ")",
                        "the model is prepared already; quantize its weights first, prepare leaves them so");
        nn::ModulePtr made = detail::weight_only_of(*module);
        if (made == nullptr || options.spec.empty()) return made;
        const bool* wanted = spec.find(name, module->type_name());
        return wanted != nullptr && *wanted ? made : module;
    };
    const Replacements replacements = plan_replacements(options.inplace ? model : nn::clone(model), replacer);
    spec.check_all_matched("quantize_weight_only");
    return replacements.apply();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_dynamic)
#endif  // INTQ_QUANTIZATION_DYNAMIC_WEIGHT_ONLY_HPP
