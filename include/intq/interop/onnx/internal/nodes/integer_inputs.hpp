// SPDX-License-Identifier: MIT
//
// Inputs of integers that are real numbers for the model, such as a mask of 0 and 1: those that a file casts, and masks
// that it compares with a number. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_INTEGER_INPUTS_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_INTEGER_INPUTS_HPP

#include <optional>
#include <set>
#include <string>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// The model without the comparisons of mask_inputs() (import.hpp); none if it has none. With m of 0 and 1, where it
/// hides at 0:
///
///     Where(m == 0, fill, x)    x + (1 - m)·(-1e9), for a fill of -1e4 or below, such as -inf
///     Where(m == 0, 0, x)       x·m
std::optional<Model> with_masks_as_reals(const Model& model);

namespace detail {

/// The names of the inputs of int64 or int32 whose every reader is a Cast to float32, perhaps behind moves. A model
/// takes them as real numbers.
///
/// Cost     one pass over the nodes, whatever a file says of them
std::set<std::string> integers_as_reals(const Graph& graph);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <iterator>
#    include <map>
#    include <string_view>
#    include <utility>
#    include <variant>

#    include "intq/core/dtype.hpp"
#    include "intq/interop/onnx/internal/nodes/constants_of.hpp"
#    include "intq/interop/onnx/internal/nodes/graph_editor.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE bool is_cast_to_float(const Node& node) {
    constexpr std::int64_t float_code = 1;
    return node.op_type == "Cast" &&
           std::any_of(node.attributes.begin(), node.attributes.end(), [](const Attribute& attribute) {
               const auto* const to = std::get_if<std::int64_t>(&attribute.value);
               return attribute.name == "to" && to != nullptr && *to == float_code;
           });
}

INTQ_INLINE bool is_move_of_integers(const Node& node) {
    static constexpr std::string_view moves[] = {"Unsqueeze", "Squeeze", "Reshape", "Transpose",
                                                 "Flatten",   "Slice",   "Expand",  "Identity"};
    return !node.outputs.empty() && std::find(std::begin(moves), std::end(moves), node.op_type) != std::end(moves);
}

INTQ_INLINE std::set<std::string> integers_as_reals(const Graph& graph) {
    std::map<std::string, std::string> input_of;  // of an input, and of what moves made of it
    for (const ValueInfo& input : graph.inputs)
        if (input.dtype == DType::int64 || input.dtype == DType::int32) input_of[input.name] = input.name;
    std::set<std::string> cast, read_otherwise;
    for (const Node& node : graph.nodes)
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
            const auto known = input_of.find(node.inputs[i]);
            if (known == input_of.end()) continue;
            const std::string input = known->second;
            if (is_cast_to_float(node))
                cast.insert(input);
            else if (i == 0 && is_move_of_integers(node))
                input_of.emplace(node.outputs[0], input);
            else
                read_otherwise.insert(input);
        }
    for (const ValueInfo& output : graph.outputs)
        if (const auto known = input_of.find(output.name); known != input_of.end())
            read_otherwise.insert(known->second);
    for (const std::string& input : read_otherwise) cast.erase(input);
    return cast;
}

/// Fills at or below this hide a score; the model adds them, and `hidden` in place of -inf.
inline constexpr double least_hiding = -1e4;
inline constexpr float hidden = -1e9F;

INTQ_INLINE bool is_cast_to_bool(const Node& node) {
    constexpr std::int64_t bool_code = 9;
    const auto to = integers_of_attribute(node, "to");
    return node.op_type == "Cast" && to && to->size() == 1 && to->front() == bool_code;
}

/// Finds what is made of masks, node by node in their order.
class MaskSearch {
public:
    /// What a name holds: integers of an input, or whether they are 1, or 0.
    struct Value {
        std::string input;
        bool is_condition = false;
    };

    explicit MaskSearch(const Graph& graph) : constants_(graph) {
        for (const ValueInfo& input : graph.inputs)
            if ((input.dtype == DType::int64 || input.dtype == DType::int32) && input.shape.size() > 1)
                values_[input.name] = {input.name};
        for (const Node& node : graph.nodes) add(node);
        for (const ValueInfo& output : graph.outputs)
            if (const Value* const value = find(output.name)) refused_.insert(value->input);
    }

    std::set<std::string> masks() const {
        std::set<std::string> result = compared_;
        for (const std::string& input : refused_) result.erase(input);
        return result;
    }
    /// What a name holds of a mask; null for another name.
    const Value* mask(const std::string& name) const {
        const Value* const value = find(name);
        return value != nullptr && compared_.count(value->input) != 0 && refused_.count(value->input) == 0 ? value
                                                                                                           : nullptr;
    }
    /// The number that an Equal compares integers with, 0 or 1; none for another node.
    std::optional<std::int64_t> compared_with(const Node& node) const {
        if (node.op_type != "Equal" || node.inputs.size() != 2) return std::nullopt;
        for (const std::string& name : node.inputs) {
            const FileTensor* const number = constants_.tensor(name);
            if (number == nullptr || number->size() != 1 || number->dims.size() > 1) continue;
            const std::int64_t value = number->dtype == DType::int64   ? number->as<std::int64_t>()[0]
                                       : number->dtype == DType::int32 ? number->as<std::int32_t>()[0]
                                                                       : -1;
            if (value == 0 || value == 1) return value;
        }
        return std::nullopt;
    }
    /// The input of a Where that is a number which hides the other one, or makes it 0; none for another node.
    std::optional<std::size_t> fill_of(const Node& node) const {
        if (node.op_type != "Where" || node.inputs.size() != 3) return std::nullopt;
        for (const std::size_t fill : {std::size_t{1}, std::size_t{2}}) {
            const auto number = number_in(node.inputs[fill]);
            const bool is_other_computed = !number_in(node.inputs[3 - fill]) &&
                                           constants_.tensor(node.inputs[3 - fill]) == nullptr &&
                                           find(node.inputs[3 - fill]) == nullptr;
            if (number && is_other_computed && (*number == 0.0 || *number <= least_hiding)) return fill;
        }
        return std::nullopt;
    }
    /// What a Where fills in that fill_of() found, finite.
    float fill(const std::string& name) const {
        const double number = number_in(name).value_or(0.0);
        return std::isfinite(number) ? static_cast<float>(number) : hidden;
    }

private:
    const Value* find(const std::string& name) const {
        const auto found = values_.find(name);
        return found == values_.end() ? nullptr : &found->second;
    }
    std::optional<double> number_in(const std::string& name) const {
        const FileTensor* const tensor = constants_.tensor(name);
        if (tensor == nullptr) return constants_.number(name);
        if (tensor->dtype != DType::float32 || tensor->size() != 1) return std::nullopt;
        return static_cast<double>(tensor->as<float>()[0]);
    }

    void add(const Node& node) {
        constants_.add(node);
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
            const Value* const found = find(node.inputs[i]);
            if (found == nullptr) continue;
            const Value value = *found;
            if (!is_of_onnx(node) || node.outputs.size() != 1 || !reads(node, i, value)) refused_.insert(value.input);
        }
    }
    /// @return whether a node that reads a mask is one of those that are replaced or stay
    bool reads(const Node& node, std::size_t i, const Value& value) {
        if (i == 0 && is_cast_to_float(node)) return true;
        if (value.is_condition && i == 0 && fill_of(node)) return true;
        const bool compares = !value.is_condition && (compared_with(node).has_value() || is_cast_to_bool(node));
        const bool stays = i == 0 && (is_move_of_integers(node) ||
                                      (value.is_condition && (node.op_type == "Not" || is_cast_to_bool(node))));
        if (!compares && !stays) return false;
        if (compares) compared_.insert(value.input);
        values_[node.outputs[0]] = {value.input, compares || value.is_condition};
        return true;
    }

    ConstantsOf constants_;
    std::map<std::string, Value> values_;
    std::set<std::string> compared_, refused_;
};

/// Writes the nodes that read masks.
class MaskWriter {
public:
    MaskWriter(const MaskSearch& search, GraphEditor& editor) : search_(search), editor_(editor) {}

    void write(const Node& node) {
        const MaskSearch::Value* const read = mask_of(node);
        if (read == nullptr) return editor_.keep(node);
        if (!read->is_condition) {
            const std::optional<std::int64_t> number = search_.compared_with(node);
            if (!number && !is_cast_to_bool(node)) return editor_.keep(node);  // a move, or a cast to real numbers
            const std::string& integers = search_.mask(node.inputs[0]) != nullptr ? node.inputs[0] : node.inputs[1];
            const std::string reals = editor_.add(node, "Cast", {integers}, {{"to", std::int64_t{1}}}, ".reals");
            conditions_[node.outputs[0]] = {reals, number == 0};
            return;
        }
        const auto known = conditions_.find(node.inputs[0]);
        if (known == conditions_.end()) return editor_.keep(node);  // it is read before it is computed
        const Condition condition = known->second;
        if (const auto fill = search_.fill_of(node)) return write_where(node, condition, *fill);
        if (is_cast_to_float(node)) return finish(node, "Identity", {reals_of(node, condition)});
        if (node.op_type == "Not" || is_cast_to_bool(node)) {
            conditions_[node.outputs[0]] = {condition.reals, condition.is_negated != (node.op_type == "Not")};
            return;
        }
        Node moved = node;
        moved.inputs[0] = condition.reals;
        editor_.push(std::move(moved));
        conditions_[node.outputs[0]] = {node.outputs[0], condition.is_negated};
    }

private:
    /// Holds where the real numbers are 1, or where they are 0.
    struct Condition {
        std::string reals;
        bool is_negated = false;
    };

    const MaskSearch::Value* mask_of(const Node& node) const {
        for (const std::string& name : node.inputs)
            if (const MaskSearch::Value* const value = search_.mask(name)) return value;
        return nullptr;
    }
    void finish(const Node& node, const char* op_type, std::vector<std::string> inputs) {
        Node last = GraphEditor::in_place_of(node, op_type, std::move(inputs));
        last.outputs = node.outputs;
        editor_.push(std::move(last));
    }
    /// 1 where a condition holds and 0 elsewhere.
    std::string reals_of(const Node& node, const Condition& condition) {
        if (!condition.is_negated) return condition.reals;
        std::string& known = complements_[condition.reals];
        if (known.empty())
            known = editor_.add(node, "Sub", {editor_.constant(1.0F, node), condition.reals}, {}, ".hides");
        return known;
    }
    void write_where(const Node& node, Condition condition, std::size_t fill) {
        const std::string& x = node.inputs[3 - fill];
        const float number = search_.fill(node.inputs[fill]);
        const bool is_zero = number == 0.0F;
        // Where 1 hides, or where 1 keeps.
        condition.is_negated = condition.is_negated != ((fill == 2) != is_zero);
        const std::string factor = reals_of(node, condition);
        if (is_zero) return finish(node, "Mul", {x, factor});
        std::string& added = added_[{factor, number}];
        if (added.empty()) added = editor_.add(node, "Mul", {factor, editor_.constant(number, node)}, {}, ".mask");
        finish(node, "Add", {x, added});
    }

    const MaskSearch& search_;
    GraphEditor& editor_;
    std::map<std::string, Condition> conditions_;
    std::map<std::string, std::string> complements_;              // of real numbers, each written once
    std::map<std::pair<std::string, float>, std::string> added_;  // of real numbers times a fill, the same
};

}  // namespace detail

INTQ_INLINE std::optional<Model> with_masks_as_reals(const Model& model) {
    const detail::MaskSearch search(model.graph);
    if (search.masks().empty()) return std::nullopt;
    GraphEditor editor(model.graph);
    detail::MaskWriter writer(search, editor);
    for (const Node& node : model.graph.nodes) writer.write(node);
    return editor.apply_to(model);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_INTEGER_INPUTS_HPP
