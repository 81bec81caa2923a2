// SPDX-License-Identifier: MIT
//
// Attention and RotaryEmbedding of opset 23 as the operators that they are made of. Long because what is written of a
// node depends on all of its inputs and attributes. Layer: interop.
//
// Source   https://github.com/onnx/onnx/blob/main/docs/Operators.md, Attention and RotaryEmbedding
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_EXPAND_ATTENTION_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_EXPAND_ATTENTION_HPP

#include <optional>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// The model without these operators; none if it has none.
///
///     Attention         MatMul(Softmax(softcap(scale · MatMul(q, kᵀ)) + masks), v), of heads
///     RotaryEmbedding   x · cos + turned(x) · sin, where turned(x) is (-x₂, x₁) of its halves, or of pairs
///
/// Keys and values of fewer heads are repeated. past_key and past_value come before k and v, and present_key and
/// present_value are the whole. A row whose keys are all hidden is 0, where constants hide them. A node stays, and its
/// row says why, where it has another output or input, and where a shape that is needed is not known
/// (`why_not_expanded`).
std::optional<Model> with_attention_expanded(const Model& model);

class NodeImport;

namespace operators {
/// The rows of nodes that stay: refuse.
void attention(NodeImport& node);
void rotary_embedding(NodeImport& node);
}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <iterator>
#    include <limits>
#    include <map>
#    include <set>
#    include <span>
#    include <string>
#    include <utility>
#    include <variant>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/interop/onnx/internal/nodes/constants_of.hpp"
#    include "intq/interop/onnx/internal/nodes/graph_editor.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/read/limits.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

using Attributes = std::vector<Attribute>;

INTQ_INLINE std::int64_t integer_of(const Node& node, std::string_view name, std::int64_t otherwise) {
    const auto values = integers_of_attribute(node, name);
    return values && values->size() == 1 ? values->front() : otherwise;
}
INTQ_INLINE float number_of(const Node& node, std::string_view name, float otherwise) {
    for (const Attribute& attribute : node.attributes)
        if (const auto* const value = std::get_if<float>(&attribute.value); value && attribute.name == name)
            return *value;
    return otherwise;
}
INTQ_INLINE bool has(const Node& node, std::size_t input) {
    return input < node.inputs.size() && !node.inputs[input].empty();
}

enum class AttentionValue : std::uint8_t { whole, zero_or_one, real, real_from_zero };
struct AttentionAttribute {
    std::string_view op_type, name;
    AttentionValue value;
};
inline constexpr AttentionAttribute attention_attributes[] = {
    {"Attention", "is_causal", AttentionValue::zero_or_one},
    {"Attention", "kv_num_heads", AttentionValue::whole},
    {"Attention", "left_window_size", AttentionValue::whole},
    {"Attention", "q_num_heads", AttentionValue::whole},
    {"Attention", "qk_matmul_output_mode", AttentionValue::whole},
    {"Attention", "right_window_size", AttentionValue::whole},
    {"Attention", "scale", AttentionValue::real},
    {"Attention", "softcap", AttentionValue::real_from_zero},
    {"Attention", "softmax_precision", AttentionValue::whole},
    {"RotaryEmbedding", "interleaved", AttentionValue::zero_or_one},
    {"RotaryEmbedding", "num_heads", AttentionValue::whole},
    {"RotaryEmbedding", "rotary_embedding_dim", AttentionValue::whole},
};

INTQ_INLINE std::string why_value_is_refused(AttentionValue expected, const AttributeValue& value) {
    const auto* const number = std::get_if<std::int64_t>(&value);
    if (expected == AttentionValue::whole) return number != nullptr ? "" : "is no integer";
    if (expected == AttentionValue::zero_or_one) {
        if (number == nullptr) return "is no integer, expected 0 or 1";
        return *number == 0 || *number == 1 ? "" : "is " + std::to_string(*number) + ", expected 0 or 1";
    }
    const auto* const real = std::get_if<float>(&value);
    if (real == nullptr) return "is no real number";
    if (!std::isfinite(*real)) return "is " + shortest_text(static_cast<double>(*real)) + ", expected a finite number";
    const bool is_low = expected == AttentionValue::real_from_zero && *real < 0.0F;
    return is_low ? "is " + shortest_text(static_cast<double>(*real)) + ", expected 0 or more" : "";
}

/// What is wrong with the first attribute of an Attention or a RotaryEmbedding that is not known, is of another type,
/// or has another value than its operator defines; empty where none is.
INTQ_INLINE std::string why_attributes_are_refused(const Node& node) {
    for (const Attribute& attribute : node.attributes) {
        const auto* const row = std::find_if(std::begin(attention_attributes), std::end(attention_attributes),
                                             [&](const AttentionAttribute& known) {
                                                 return known.op_type == node.op_type && known.name == attribute.name;
                                             });
        const std::string what = "the attribute " + in_quotes(attribute.name) + " ";
        if (row == std::end(attention_attributes)) return what + "is not supported";
        if (const std::string reason = why_value_is_refused(row->value, attribute.value); !reason.empty())
            return what + reason;
    }
    return {};
}

/// The shapes of a graph's values, and which of them hold bools, as far as the file says it.
class ValueHints {
public:
    explicit ValueHints(const Graph& graph) : graph_(graph), constants_(graph) {
        for (const FileTensor& tensor : graph.initializers) {
            shapes_[tensor.name] = tensor.dims;
            if (tensor.dtype == DType::uint8) bools_.insert(tensor.name);
        }
        for (const auto* values : {&graph.inputs, &graph.outputs})
            for (const ValueInfo& value : *values) {
                if (value.has_shape) shapes_.emplace(value.name, value.shape);
                if (value.type == "bool") bools_.insert(value.name);
            }
    }
    void add(const Node& node) {
        constants_.add(node);
        static const std::set<std::string_view> relations{"And",  "Or",      "Not",         "Equal",
                                                          "Less", "Greater", "LessOrEqual", "GreaterOrEqual"};
        static const std::set<std::string_view> moves{"Reshape", "Unsqueeze", "Squeeze", "Expand",
                                                      "Slice",   "Concat",    "Gather",  "Identity"};
        const bool moves_bools =
            moves.count(node.op_type) != 0 && !node.inputs.empty() && bools_.count(node.inputs[0]) != 0;
        const bool casts = node.op_type == "Cast" && integer_of(node, "to", 0) == 9;
        if (moves_bools || casts || relations.count(node.op_type) != 0)
            bools_.insert(node.outputs.begin(), node.outputs.end());
    }
    const ConstantsOf& constants() const { return constants_; }
    bool is_bool(const std::string& name) const { return bools_.count(name) != 0; }
    /// The extent of an axis; -1 where it is not known, or beyond that of every value.
    index_t extent(const std::string& name, std::size_t axis) const {
        for (const auto* shapes : {&shapes_, &graph_.shapes})
            if (const auto found = shapes->find(name); found != shapes->end())
                return axis < found->second.size() && found->second[axis] <= max_extent ? found->second[axis] : -1;
        return -1;
    }

private:
    const Graph& graph_;
    ConstantsOf constants_;
    std::map<std::string, std::vector<index_t>> shapes_;
    std::set<std::string> bools_;
};

/// An Attention as it is written: with all that its expansion needs.
struct AttentionForm {
    bool has_heads = false;  // an axis of them, before the tokens
    index_t q_heads = -1, kv_heads = -1, head_size = -1, value_size = -1;
    index_t queries = -1, keys = -1, past = 0;
    bool is_causal = false;
    std::int64_t left = -1, right = -1;  // tokens of a window; -1 for all
    bool has_own_mask() const { return is_causal || left >= 0 || right >= 0; }
};

INTQ_INLINE AttentionForm form_of(const Node& node, const ValueHints& hints) {
    AttentionForm form;
    form.q_heads = integer_of(node, "q_num_heads", 0), form.kv_heads = integer_of(node, "kv_num_heads", 0);
    form.has_heads = form.q_heads < 1 || form.kv_heads < 1;
    const std::string &q = node.inputs[0], &k = node.inputs[1], &v = node.inputs[2];
    const std::size_t tokens = form.has_heads ? 2 : 1;
    form.queries = hints.extent(q, tokens), form.keys = hints.extent(k, tokens);
    form.head_size = hints.extent(q, tokens + 1), form.value_size = hints.extent(v, tokens + 1);
    if (form.has_heads) form.q_heads = hints.extent(q, 1), form.kv_heads = hints.extent(k, 1);
    if (!form.has_heads) form.head_size /= form.q_heads, form.value_size /= form.kv_heads;
    if (has(node, 4)) form.past = hints.extent(node.inputs[4], 2);
    form.is_causal = integer_of(node, "is_causal", 0) != 0;
    form.left = integer_of(node, "left_window_size", -1), form.right = integer_of(node, "right_window_size", -1);
    return form;
}

/// What keeps an Attention from being expanded; "" if nothing does.
INTQ_INLINE std::string why_not_expanded(const Node& node, const AttentionForm& form) {
    if (node.inputs.size() < 3) return "it has " + std::to_string(node.inputs.size()) + " inputs, expected 3 or more";
    if (const std::string reason = why_attributes_are_refused(node); !reason.empty()) return reason;
    if (has(node, 6)) return "nonpad_kv_seqlen, the number of keys of each sample, is not supported";
    if (has(node, 4) != has(node, 5)) return "it has past_key or past_value, expected both";
    if (node.outputs.size() > 3 && !node.outputs[3].empty()) return "the output qk_matmul_output is not supported";
    const bool is_known = form.head_size > 0 && form.q_heads > 0 && form.kv_heads > 0;
    if (!is_known) return "the file does not say the shapes of its queries and keys";
    if (form.q_heads % form.kv_heads != 0)
        return std::to_string(form.q_heads) + " heads of queries are no multiple of " + std::to_string(form.kv_heads) +
               " of keys";
    const bool needs_tokens = form.has_own_mask() || form.q_heads != form.kv_heads;
    if (needs_tokens && (form.queries < 1 || form.keys < 1 || form.past < 0 || form.value_size < 1))
        return "the file does not say the numbers of queries and keys";
    return {};
}

/// Writes one Attention or RotaryEmbedding.
class AttentionWriter {
public:
    AttentionWriter(const Node& node, GraphEditor& editor, const ValueHints& hints)
        : node_(node), editor_(editor), hints_(hints) {}

    void write_attention(const AttentionForm& form) {
        std::string q = with_heads(node_.inputs[0], form.has_heads ? 0 : form.q_heads);
        std::string k = whole(1, 4, form), v = whole(2, 5, form);
        if (form.q_heads != form.kv_heads) {
            k = repeated(k, form, form.head_size);
            v = repeated(v, form, form.value_size);
        }
        const std::string turned = add("Transpose", {k}, {{"perm", Axes{0, 1, 3, 2}}}, ".keys");
        const float scale = number_of(node_, "scale", 0.0F);
        const double factor =
            scale != 0.0F ? static_cast<double>(scale) : 1.0 / std::sqrt(static_cast<double>(form.head_size));
        std::string scores = add("MatMul", {q, turned}, {}, ".scores");
        scores = times(scores, static_cast<float>(factor));
        if (const float cap = number_of(node_, "softcap", 0.0F); cap > 0.0F)
            scores = times(add("Tanh", {times(scores, 1.0F / cap)}, {}, ".softcap"), cap);
        scores = masked(scores, form);
        std::string shares = add("Softmax", {scores}, {{"axis", std::int64_t{-1}}}, ".softmax");
        if (!seeing_.empty()) shares = add("Mul", {shares, seeing_}, {}, ".seeing");
        if (form.has_heads) return finish("MatMul", {shares, v});
        const std::string mixed = add("MatMul", {shares, v}, {}, ".mixed");
        finish("Reshape", {add("Transpose", {mixed}, {{"perm", Axes{0, 2, 1, 3}}}, ".tokens"),
                           editor_.constant(Axes{0, 0, -1}, node_)});
    }

    void write_rotary(bool is_interleaved, std::int64_t heads, std::int64_t rotated) {
        const std::string x = with_heads(node_.inputs[0], heads);
        const std::string part = rotated > 0 ? sliced(x, 0, rotated) : x;
        const auto cosine = cache(1), sine = cache(2);
        const std::string minus = add("Neg", {sine});
        std::string turned, of_cosine, of_sine;
        if (is_interleaved) {
            const std::string pairs = reshaped(part, {0, 0, 0, -1, 2});
            turned = reshaped(joined({sliced(pairs, 1, 2), sliced(pairs, 0, 1)}), {0, 0, 0, -1});
            of_cosine = paired(cosine, cosine), of_sine = paired(minus, sine);
        } else {
            Node halves = GraphEditor::in_place_of(node_, "Split", {part},
                                                   {{"axis", std::int64_t{-1}}, {"num_outputs", std::int64_t{2}}});
            halves.outputs = {editor_.fresh(node_.outputs[0]), editor_.fresh(node_.outputs[0])};
            turned = [&] {
                const std::vector<std::string> names = halves.outputs;
                editor_.push(std::move(halves));
                return joined({names[1], names[0]});
            }();
            of_cosine = joined({cosine, cosine}), of_sine = joined({minus, sine});
        }
        std::string y = add("Add", {add("Mul", {part, of_cosine}), add("Mul", {turned, of_sine})});
        if (rotated > 0) y = joined({y, sliced(x, rotated, (std::numeric_limits<std::int64_t>::max)())});
        if (heads < 1) return finish("Identity", {y});
        finish("Reshape", {add("Transpose", {y}, {{"perm", Axes{0, 2, 1, 3}}}, ".tokens"),
                           editor_.constant(Axes{0, 0, -1}, node_)});
    }

private:
    using Axes = std::vector<std::int64_t>;
    static constexpr float infinity = std::numeric_limits<float>::infinity();

    std::string add(const char* op_type, std::vector<std::string> inputs, Attributes attributes = {},
                    const char* suffix = "") {
        return editor_.add(node_, op_type, std::move(inputs), std::move(attributes), suffix);
    }
    void finish(const char* op_type, std::vector<std::string> inputs) {
        Node last = GraphEditor::in_place_of(node_, op_type, std::move(inputs));
        last.outputs = {node_.outputs[0]};
        editor_.push(std::move(last));
    }
    std::string reshaped(const std::string& x, Axes shape) {
        return add("Reshape", {x, editor_.constant(shape, node_)});
    }
    std::string times(const std::string& x, float factor) {
        return add("Mul", {x, editor_.constant(factor, node_)}, {}, ".scale");
    }
    std::string joined(std::vector<std::string> parts) {
        return add("Concat", std::move(parts), {{"axis", std::int64_t{-1}}});
    }
    std::string sliced(const std::string& x, std::int64_t first, std::int64_t end) {
        return add("Slice", {x, editor_.constant(Axes{first}, node_), editor_.constant(Axes{end}, node_),
                             editor_.constant(Axes{-1}, node_)});
    }
    /// (N, tokens, heads · size) as (N, heads, tokens, size); as it is for 0 heads.
    std::string with_heads(const std::string& x, std::int64_t heads) {
        if (heads < 1) return x;
        return add("Transpose", {reshaped(x, {0, 0, heads, -1})}, {{"perm", Axes{0, 2, 1, 3}}}, ".heads");
    }

    /// Keys or values with those of the past in front, which are an output of the node too.
    std::string whole(std::size_t input, std::size_t past, const AttentionForm& form) {
        std::string x = with_heads(node_.inputs[input], form.has_heads ? 0 : form.kv_heads);
        if (has(node_, past)) x = add("Concat", {node_.inputs[past], x}, {{"axis", std::int64_t{2}}}, ".present");
        if (node_.outputs.size() > input && !node_.outputs[input].empty()) {
            Node present = GraphEditor::in_place_of(node_, "Identity", {x});
            present.outputs = {node_.outputs[input]};
            editor_.push(std::move(present));
        }
        return x;
    }
    /// Each head of keys or values for the heads of queries that share it.
    std::string repeated(const std::string& x, const AttentionForm& form, index_t size) {
        const std::string apart = add("Unsqueeze", {x, editor_.constant(Axes{2}, node_)});
        const Axes times{1, 1, form.q_heads / form.kv_heads, 1, 1};
        const std::string all = add("Expand", {apart, editor_.constant(times, node_)}, {}, ".repeat");
        return reshaped(all, {0, form.q_heads, form.keys + form.past, size});
    }

    /// Scores with -inf where a mask hides a key.
    std::string masked(std::string scores, const AttentionForm& form) {
        const FileTensor* const mask = constant_mask(form);
        if (has(node_, 3) && mask == nullptr) {
            const std::string& given = node_.inputs[3];
            scores = hints_.is_bool(given) ? add("Where", {given, scores, lowest()}, {}, ".mask")
                                           : add("Add", {scores, given}, {}, ".mask");
        }
        return mask == nullptr && !form.has_own_mask() ? scores : masked_by_constants(std::move(scores), mask, form);
    }
    std::string lowest() { return editor_.constant(-infinity, node_); }

    /// The mask of the node where it is a constant of rows of all keys, one for each query or one for all; else null.
    const FileTensor* constant_mask(const AttentionForm& form) const {
        const FileTensor* const mask = has(node_, 3) ? hints_.constants().tensor(node_.inputs[3]) : nullptr;
        if (mask == nullptr || (mask->dtype != DType::uint8 && mask->dtype != DType::float32)) return nullptr;
        const std::vector<index_t>& dims = mask->dims;
        if (dims.size() < 2 || mask->size() < 1 || form.past < 0 || form.keys < 1 || form.queries < 1) return nullptr;
        const index_t rows = dims[dims.size() - 2], columns = dims.back();
        const bool is_small = mask->size() / (rows * columns) * form.queries <= max_folded / columns;
        return (rows == 1 || rows == form.queries) && columns == form.keys + form.past && is_small ? mask : nullptr;
    }

    /// By a constant of the file, and by the node's own masks. A softmax of -inf alone is NaN, where Attention is 0: a
    /// row whose keys are all hidden keeps its scores, and `seeing_` is 0 there.
    std::string masked_by_constants(std::string scores, const FileTensor* mask, const AttentionForm& form) {
        const index_t keys = form.keys + form.past;
        const bool adds = mask != nullptr && mask->dtype == DType::float32;
        std::vector<index_t> dims = mask == nullptr ? std::vector<index_t>(2) : mask->dims;
        const bool is_shared = mask != nullptr && dims[dims.size() - 2] == 1;
        dims[dims.size() - 2] = form.queries, dims.back() = keys;
        const index_t rows = mask == nullptr ? form.queries : mask->size() / keys * (is_shared ? form.queries : 1);
        FileTensor seen{.name = {}, .dtype = DType::uint8, .dims = dims, .data = {}};
        std::vector<float> added, seeing;  // of elements, and of rows
        for (index_t row = 0; row < rows; ++row) {
            const std::size_t first = seen.data.size();
            const index_t of_mask = is_shared ? row / form.queries : row;
            for (index_t j = 0; j < keys; ++j) {
                const auto at = static_cast<std::size_t>(of_mask * keys + j);
                if (adds) added.push_back(mask->as<float>()[at]);
                const bool is_given =
                    mask == nullptr || (adds ? added.back() != -infinity : mask->as<std::uint8_t>()[at] != 0);
                seen.data.push_back(is_given && sees(form, row % form.queries, j) ? std::byte{1} : std::byte{0});
            }
            const auto begin = seen.data.begin() + static_cast<std::ptrdiff_t>(first);
            seeing.push_back(std::find(begin, seen.data.end(), std::byte{1}) == seen.data.end() ? 0.0F : 1.0F);
            if (seeing.back() == 1.0F) continue;
            std::fill(begin, seen.data.end(), std::byte{1});
            if (adds) std::fill(added.begin() + static_cast<std::ptrdiff_t>(first), added.end(), 0.0F);
        }
        if (adds) scores = add("Add", {scores, numbers(added, dims)}, {}, ".mask");
        if (!adds || form.has_own_mask())
            scores = add("Where", {editor_.constant(std::move(seen), node_), scores, lowest()}, {}, ".causal");
        dims.back() = 1;
        if (std::find(seeing.begin(), seeing.end(), 0.0F) != seeing.end()) seeing_ = numbers(seeing, dims);
        return scores;
    }
    std::string numbers(const std::vector<float>& values, const std::vector<index_t>& dims) {
        const auto bytes = std::as_bytes(std::span<const float>(values));
        return editor_.constant(
            FileTensor{.name = {}, .dtype = DType::float32, .dims = dims, .data = {bytes.begin(), bytes.end()}}, node_);
    }
    /// Whether the node's own masks let query i see key j.
    static bool sees(const AttentionForm& form, index_t i, index_t j) {
        const index_t back = i + form.past - j;  // how far a key lies before its query
        return (!form.is_causal || back >= 0) && (form.left < 0 || back <= form.left) &&
               (form.right < 0 || -back <= form.right);
    }

    /// Cosines or sines as (N or 1, 1, tokens, half).
    std::string cache(std::size_t input) {
        std::string rows = node_.inputs[input];
        if (has(node_, 3)) rows = add("Gather", {rows, node_.inputs[3]}, {{"axis", std::int64_t{0}}}, ".positions");
        return add("Unsqueeze", {rows, editor_.constant(Axes{1}, node_)});
    }
    /// a and b in turn along the last axis.
    std::string paired(const std::string& a, const std::string& b) {
        const auto apart = [&](const std::string& x) {
            return add("Unsqueeze", {x, editor_.constant(Axes{-1}, node_)});
        };
        return reshaped(joined({apart(a), apart(b)}), {0, 0, 0, -1});
    }

    const Node& node_;
    GraphEditor& editor_;
    const ValueHints& hints_;
    std::string seeing_;  // 0 for the rows whose keys are all hidden by constants; none without such
};

/// @return whether the node was one of these operators, and could be expanded
INTQ_INLINE bool expand_attention(const Node& node, GraphEditor& editor, const ValueHints& hints) {
    if (!is_of_onnx(node) || node.outputs.empty()) return false;
    AttentionWriter writer(node, editor, hints);
    if (node.op_type == "Attention" && node.inputs.size() >= 3) {
        const AttentionForm form = form_of(node, hints);
        const bool is_small =
            !form.has_own_mask() || (form.queries <= max_folded && form.keys + form.past <= max_folded &&
                                     form.queries * (form.keys + form.past) <= max_folded);
        if (!why_not_expanded(node, form).empty() || !is_small) return false;
        writer.write_attention(form);
        return true;
    }
    const bool is_rotary = node.op_type == "RotaryEmbedding" && node.inputs.size() >= 3;
    if (!is_rotary || !why_attributes_are_refused(node).empty()) return false;
    writer.write_rotary(integer_of(node, "interleaved", 0) != 0, integer_of(node, "num_heads", 0),
                        integer_of(node, "rotary_embedding_dim", 0));
    return true;
}

}  // namespace detail

INTQ_INLINE std::optional<Model> with_attention_expanded(const Model& model) {
    const auto is_one = [](const Node& node) {
        return node.op_type == "Attention" || node.op_type == "RotaryEmbedding";
    };
    if (model.opset < 23 || std::none_of(model.graph.nodes.begin(), model.graph.nodes.end(), is_one))
        return std::nullopt;
    detail::ValueHints hints(model.graph);
    GraphEditor editor(model.graph);
    for (const Node& node : model.graph.nodes) {
        hints.add(node);
        if (!detail::expand_attention(node, editor, hints)) editor.keep(node);
    }
    if (!editor.has_changed()) return std::nullopt;
    return editor.apply_to(model);
}

namespace operators {

INTQ_INLINE void attention(NodeImport& node) {
    const Node& in_file = node.node();
    detail::AttentionForm form{.q_heads = 1, .kv_heads = 1, .head_size = 1};  // what does not depend on shapes
    const std::string reason = detail::why_not_expanded(in_file, form);
    throw Error(!reason.empty()
                    ? reason
                    : "the file does not say the shapes of its queries, keys and values, or they do not fit");
}

INTQ_INLINE void rotary_embedding(NodeImport& node) {
    node.expect_inputs(3, 4);
    throw Error(detail::why_attributes_are_refused(node.node()));
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_EXPAND_ATTENTION_HPP
