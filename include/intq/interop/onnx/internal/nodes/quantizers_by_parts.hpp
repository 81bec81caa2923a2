// SPDX-License-Identifier: MIT
//
// Quantizers that a model writes as a division, a rounding, a clamp and a product, as hand-written quantization-aware
// training does: QuantizeLinear and DequantizeLinear in their place. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_QUANTIZERS_BY_PARTS_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_QUANTIZERS_BY_PARTS_HPP

#include <optional>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// The model with QuantizeLinear, Clip and DequantizeLinear for each quantizer that is written in parts; none where it
/// has no such.
///
///     Clip(Round(x / s), low, high) · s
///     (Clip(Round(x / s) + z, low, high) - z) · s
///
/// Both mean what QuantizeLinear means, code for code. s and z are constants, one or one for each channel, and the same
/// in both places. z, low and high are whole numbers of int8, uint8 or int16, and z is between the two. Without z, Clip
/// may come before Round. A product with a power of two is a quotient. Of a quantizer q of x, x + (q - x) is q as well:
/// the rounding of these two operators is the trace of an estimator that lets gradients through.
///
/// In such a model, a constant weight whose real numbers lie on a grid (nodes/layer_codes.hpp) becomes codes: exporters
/// compute the quantizer of a constant.
std::optional<Model> with_quantizers_joined(const Model& model);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <map>
#    include <set>
#    include <span>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/interop/onnx/internal/nodes/constants_of.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/graph_editor.hpp"
#    include "intq/interop/onnx/internal/nodes/layer_codes.hpp"
#    include "intq/interop/onnx/internal/read/limits.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Reads the nodes once, in their order.
class QuantizerSearch {
public:
    explicit QuantizerSearch(const Graph& graph) : graph_(graph), constants_(graph), editor_(graph) {
        for (const ValueInfo& input : graph.inputs) {
            if (constants_.tensor(input.name) == nullptr) computed_.insert(input.name);
            if (input.has_shape) shapes_.emplace(input.name, input.shape);
        }
    }

    bool run() {
        for (const Node& node : graph_.nodes) {
            const bool is_read = is_of_onnx(node) && node.outputs.size() == 1 && !constants_.add(node);
            const bool is_computed = std::any_of(node.inputs.begin(), node.inputs.end(),
                                                 [&](const std::string& name) { return computed_.count(name) != 0; });
            if (is_computed) computed_.insert(node.outputs.begin(), node.outputs.end());
            if (!is_read || !add(node)) editor_.keep(node);
        }
        return editor_.has_changed();
    }
    GraphEditor& editor() { return editor_; }

private:
    /// Numbers that are broadcast with a value: one, or one for each channel of an axis.
    struct Numbers {
        std::vector<float> values;
        std::int64_t axis = 0;  // counted from the end, below 0; 0 for one number
        std::string made_by{};  // in place of the values: nodes of constants, which the import computes
        std::size_t count = 1;
        friend bool operator==(const Numbers&, const Numbers&) = default;
    };
    /// What a value is of x.
    struct Part {
        std::string x;
        Numbers scale;
        Numbers zero{{0.0F}};
        std::optional<std::pair<float, float>> bounds{};
        bool is_rounded = false, has_zero = false;  // whether z is still in it
    };

    /// @return whether the node is read as another one, which is in the editor
    bool add(const Node& node) {
        const std::string& op = node.op_type;
        if (op == "Round" && node.inputs.size() == 1) return pass(node, [](Part& part) { part.is_rounded = true; });
        if (op == "Clip" && node.inputs.size() == 3) return add_bounds(node);
        if (node.inputs.size() != 2) return false;
        if (op == "Div") return add_quotient(node);
        if (op == "Add") return add_sum(node);
        if (op == "Sub") return add_difference(node);
        return op == "Mul" && add_product(node);
    }

    const Part* part_of(const std::string& value) const {
        const auto found = parts_.find(value);
        return found == parts_.end() ? nullptr : &found->second;
    }
    /// The output is what input 0 is, changed.
    template <class Change> bool pass(const Node& node, const Change& change) {
        if (const Part* const part = part_of(node.inputs[0])) {
            Part changed = *part;
            change(changed);
            parts_[node.outputs[0]] = std::move(changed);
        }
        return false;
    }

    /// The numbers of a constant that is broadcast with `x`; none where it could add axes to it.
    std::optional<Numbers> numbers(const std::string& name, const std::string& x) const {
        if (const auto one = constants_.number(name)) return Numbers{{static_cast<float>(*one)}};
        const std::vector<index_t>*const dims = shape_of(name), *const whole = shape_of(x);
        if (computed_.count(name) != 0 || dims == nullptr) return std::nullopt;
        if (!dims->empty() && (whole == nullptr || dims->size() > whole->size())) return std::nullopt;
        Numbers result;
        for (std::size_t i = 0; i < dims->size(); ++i) {
            if ((*dims)[i] == 1) continue;
            if (result.axis != 0 || (*dims)[i] < 1 || (*dims)[i] > max_folded) return std::nullopt;
            result.axis = static_cast<std::int64_t>(i) - static_cast<std::int64_t>(dims->size());
            result.count = static_cast<std::size_t>((*dims)[i]);
        }
        if (const FileTensor* const tensor = constants_.tensor(name)) {
            if (tensor->dtype != DType::float32) return std::nullopt;
            const auto values = tensor->as<float>();
            result.values.assign(values.begin(), values.end());
        } else {
            result.made_by = name;
        }
        return result;
    }
    const std::vector<index_t>* shape_of(const std::string& value) const {
        if (const FileTensor* const tensor = constants_.tensor(value)) return &tensor->dims;
        for (const auto* shapes : {&shapes_, &graph_.shapes})
            if (const auto found = shapes->find(value); found != shapes->end()) return &found->second;
        return nullptr;
    }
    static bool are_whole(const Numbers& numbers) {
        return numbers.made_by.empty() && std::all_of(numbers.values.begin(), numbers.values.end(),
                                                      [](float number) { return std::nearbyint(number) == number; });
    }

    bool add_quotient(const Node& node) {
        note_scaled(node.outputs[0], node.inputs[0], numbers(node.inputs[1], node.inputs[0]));
        return false;
    }
    void note_scaled(const std::string& quotient, const std::string& x, std::optional<Numbers> scale) {
        if (!scale || part_of(x) != nullptr) return;
        const auto& values = scale->values;
        if (std::all_of(values.begin(), values.end(), [](float s) { return s > 0.0F && std::isfinite(s); }))
            parts_[quotient] = {.x = x, .scale = std::move(*scale)};
    }

    bool add_bounds(const Node& node) {
        const auto low = constants_.number(node.inputs[1]), high = constants_.number(node.inputs[2]);
        if (!low || !high || std::nearbyint(*low) != *low || std::nearbyint(*high) != *high || *low >= *high)
            return false;
        const Part* const part = part_of(node.inputs[0]);
        if (part == nullptr || part->bounds) return false;
        return pass(node, [&](Part& bounded) {
            bounded.bounds = {static_cast<float>(*low), static_cast<float>(*high)};
        });
    }

    bool add_sum(const Node& node) {
        for (const std::size_t c : {1U, 0U}) {
            const std::string& term = node.inputs[1 - c];
            if (const auto found = differences_.find(node.inputs[c]); found != differences_.end())
                if (found->second.second == term) {
                    Node same = GraphEditor::in_place_of(node, "Identity", {found->second.first});
                    same.outputs = node.outputs;
                    editor_.push(std::move(same));
                    quantized_[node.outputs[0]] = term;
                    return true;
                }
            const Part* const part = part_of(term);
            if (part == nullptr || !part->is_rounded || part->bounds || part->has_zero) continue;
            const auto zero = numbers(node.inputs[c], part->x);
            if (!zero || !are_whole(*zero)) continue;
            Part moved = *part;
            moved.zero = *zero, moved.has_zero = true;
            parts_[node.outputs[0]] = std::move(moved);
        }
        return false;
    }

    bool add_difference(const Node& node) {
        if (const auto found = quantized_.find(node.inputs[0]);
            found != quantized_.end() && found->second == node.inputs[1])
            differences_[node.outputs[0]] = {node.inputs[0], node.inputs[1]};
        const Part* const part = part_of(node.inputs[0]);
        if (part == nullptr || !part->has_zero || !part->bounds || numbers(node.inputs[1], part->x) != part->zero)
            return false;
        return pass(node, [](Part& changed) { changed.has_zero = false; });
    }

    bool add_product(const Node& node) {
        for (const std::size_t c : {1U, 0U}) {
            const std::string& value = node.inputs[1 - c];
            const Part* const part = part_of(value);
            auto factor = numbers(node.inputs[c], part == nullptr ? value : part->x);
            if (!factor) continue;
            if (part != nullptr && part->is_rounded && part->bounds && !part->has_zero && *factor == part->scale)
                return add_quantizer(node, *part);
            if (part == nullptr && inverse_of_powers_of_two(*factor)) note_scaled(node.outputs[0], value, factor);
        }
        return false;
    }
    /// Makes numbers their inverses.
    /// @return whether these are exact
    static bool inverse_of_powers_of_two(Numbers& numbers) {
        if (!numbers.made_by.empty()) return false;
        int exponent = 0;
        for (float& number : numbers.values) {
            if (std::frexp(number, &exponent) != 0.5F) return false;
            number = 1.0F / number;
        }
        return true;
    }

    /// A type of codes, with its least and its greatest one.
    struct CodeType {
        DType type;
        float low, high;
    };
    /// The type that has all codes of a quantizer; null where none has them.
    static const CodeType* type_of(const Part& part) {
        static constexpr CodeType types[] = {
            {DType::int8, -128.0F, 127.0F}, {DType::uint8, 0.0F, 255.0F}, {DType::int16, -32768.0F, 32767.0F}};
        const float low = part.bounds->first, high = part.bounds->second;
        const auto is_between = [&](float zero) { return zero >= low && zero <= high; };
        if (!std::all_of(part.zero.values.begin(), part.zero.values.end(), is_between)) return nullptr;
        for (const CodeType& type : types)
            if (low >= type.low && high <= type.high) return &type;
        return nullptr;
    }

    /// A constant of codes.
    std::string codes(const std::vector<float>& values, bool is_scalar, DType type, const Node& node) {
        FileTensor tensor{.name = {}, .dtype = type, .dims = {}, .data = {}};
        if (!is_scalar) tensor.dims = {static_cast<index_t>(values.size())};
        for (const float value : values) {
            const auto code = static_cast<std::int32_t>(value);
            const auto wide = static_cast<std::int16_t>(code);
            const auto narrow = static_cast<std::uint8_t>(code);
            const auto bytes =
                type == DType::int16 ? std::as_bytes(std::span(&wide, 1)) : std::as_bytes(std::span(&narrow, 1));
            tensor.data.insert(tensor.data.end(), bytes.begin(), bytes.end());
        }
        return editor_.constant(std::move(tensor), node);
    }

    /// Scales as QuantizeLinear takes them: a number, or a list.
    std::string list(const Numbers& numbers, const Node& node) {
        std::vector<index_t> dims;
        if (numbers.axis != 0) dims = {static_cast<index_t>(numbers.count)};
        if (!numbers.made_by.empty())
            return editor_.add(
                node, "Reshape",
                {numbers.made_by, editor_.constant(std::vector<std::int64_t>(dims.begin(), dims.end()), node)}, {},
                ".scale");
        const auto bytes = std::as_bytes(std::span<const float>(numbers.values));
        return editor_.constant(
            FileTensor{
                .name = {}, .dtype = DType::float32, .dims = std::move(dims), .data = {bytes.begin(), bytes.end()}},
            node);
    }

    bool add_quantizer(const Node& node, const Part& part) {
        const CodeType* const codes_type = type_of(part);
        const std::size_t count = part.scale.count;
        std::vector<float> zeros = part.zero.values;
        if (zeros.size() == 1) zeros.resize(count, zeros[0]);
        const bool has_own_axis = part.zero.count > 1 && part.zero.axis != part.scale.axis;
        if (codes_type == nullptr || zeros.size() != count || has_own_axis) return false;
        const DType type = codes_type->type;
        const bool is_scalar = part.scale.axis == 0;
        const std::string scale = list(part.scale, node), zero = codes(zeros, is_scalar, type, node);
        std::vector<Attribute> axis;
        if (!is_scalar) axis = {{"axis", part.scale.axis}};
        std::string made = editor_.add(node, "QuantizeLinear", {part.x, scale, zero}, axis, ".quantize");
        const auto [low, high] = *part.bounds;
        if (low > codes_type->low || high < codes_type->high)
            made = editor_.add(node, "Clip", {made, codes({low}, true, type, node), codes({high}, true, type, node)},
                               {}, ".clip");
        Node last = GraphEditor::in_place_of(node, "DequantizeLinear", {made, scale, zero}, axis);
        last.outputs = node.outputs;
        editor_.push(std::move(last));
        quantized_[node.outputs[0]] = part.x;
        return true;
    }

    const Graph& graph_;
    ConstantsOf constants_;
    GraphEditor editor_;
    std::map<std::string, std::vector<index_t>> shapes_;  // of inputs
    std::set<std::string> computed_;                      // values that depend on an input
    std::map<std::string, Part> parts_;
    std::map<std::string, std::string> quantized_;                            // x of a quantizer's output
    std::map<std::string, std::pair<std::string, std::string>> differences_;  // q and x of q - x
};

/// The axis of the output channels of a layer's weight; none for another operator.
INTQ_INLINE std::optional<std::size_t> channel_axis_of(const Node& node, std::size_t rank) {
    if (!is_of_onnx(node) || rank < 2) return std::nullopt;
    if (node.op_type == "Conv") return 0;
    if (node.op_type == "ConvTranspose") return 1;
    if (node.op_type == "MatMul") return rank - 1;
    if (node.op_type != "Gemm") return std::nullopt;
    return integers_of_attribute(node, "transB") == std::vector<std::int64_t>{1} ? 0 : 1;
}

/// Codes in place of the constant weights that lie on a grid.
class WeightCodes {
public:
    WeightCodes(const Model& model) : graph_(model.graph), constants_(model.graph), editor_(model.graph) {}

    Model run(Model model) {
        for (const Node& node : graph_.nodes) {
            constants_.add(node);
            const std::string codes = node.inputs.size() > 1 ? codes_of(node) : std::string();
            if (codes.empty()) {
                editor_.keep(node);
                continue;
            }
            Node layer = node;
            layer.inputs[1] = codes;
            editor_.push(std::move(layer));
        }
        return editor_.apply_to(std::move(model));
    }

private:
    /// The weight of a layer from codes; "" where it has no grid.
    std::string codes_of(const Node& node) {
        const FileTensor* const weight = constants_.tensor(node.inputs[1]);
        if (weight == nullptr || weight->dtype != DType::float32 || weight->size() == 0) return {};
        const auto axis = channel_axis_of(node, weight->dims.size());
        if (!axis) return {};
        const auto made = made_.find({weight, *axis});
        if (made != made_.end()) return made->second;
        return made_[{weight, *axis}] = make(node, *weight, *axis);
    }
    std::string make(const Node& node, const FileTensor& weight, std::size_t axis) {
        const auto channels = static_cast<std::size_t>(weight.dims[axis]);
        const auto inner = static_cast<std::size_t>(product_of(weight.dims, axis + 1, weight.dims.size()));
        const auto grid = find_weight_grid(weight.as<float>(), channels, inner);
        if (!grid) return {};
        const auto codes = std::as_bytes(std::span<const std::int8_t>(grid->codes));
        const auto scales = std::as_bytes(std::span<const float>(grid->scales));
        std::vector<Attribute> attributes;
        FileTensor scale{.name = {}, .dtype = DType::float32, .dims = {}, .data = {scales.begin(), scales.end()}};
        if (grid->scales.size() > 1) {
            scale.dims = {static_cast<index_t>(channels)};
            attributes = {{"axis", static_cast<std::int64_t>(axis)}};
        }
        const std::string values = editor_.constant(
            FileTensor{.name = {}, .dtype = DType::int8, .dims = weight.dims, .data = {codes.begin(), codes.end()}},
            node);
        return editor_.add(node, "DequantizeLinear", {values, editor_.constant(std::move(scale), node)},
                           std::move(attributes), ".weight");
    }

    const Graph& graph_;
    ConstantsOf constants_;
    GraphEditor editor_;
    std::map<std::pair<const FileTensor*, std::size_t>, std::string> made_;
};

}  // namespace detail

INTQ_INLINE std::optional<Model> with_quantizers_joined(const Model& model) {
    detail::QuantizerSearch search(model.graph);
    if (!search.run()) return std::nullopt;
    const Model joined = search.editor().apply_to(model);
    return detail::WeightCodes(joined).run(joined);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_QUANTIZERS_BY_PARTS_HPP
