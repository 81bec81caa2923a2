// SPDX-License-Identifier: MIT
//
// What an ONNX graph makes of positions of tokens, which a decoder takes as an input: views of them, conditions and
// masks. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_POSITION_VALUE_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_POSITION_VALUE_HPP

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "intq/core/shape.hpp"
#include "intq/graph/node.hpp"
#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// A value that is made of positions. In the model they are an input (N, T), T of each sample; a file may have them as
/// (T), which are those of its one sample.
struct PositionValue {
    enum class Kind : std::uint8_t {
        none,
        positions,  // clamp(themselves + offset, low, high), in some shape
        condition,  // on a column: whether it is at a position, or up to it
        mask,       // 0 for columns up to the position, and `fill` behind it
        rows,       // of a table, one for each position, without an axis of samples: the node has one before the axes
        is_nan      // whether elements of `node` are
    };
    Kind kind = Kind::none;
    graph::Node* node = nullptr;  // the input; of rows the embedding
    std::int64_t offset = 0;
    std::int64_t low = (std::numeric_limits<std::int64_t>::min)(), high = (std::numeric_limits<std::int64_t>::max)();
    bool is_equality = false;
    bool is_negated = false;
    double fill = 0.0;
    index_t columns = 0;      // of a condition or a mask
    std::size_t axis = 0;     // that counts them, in the dims of the value
    bool is_in_rows = false;  // the axis before counts the positions; else there is one

    bool is_bounded() const noexcept {
        return low != (std::numeric_limits<std::int64_t>::min)() || high != (std::numeric_limits<std::int64_t>::max)();
    }
};

/// The attribute of a ScatterND that is read along another axis than the first, because the samples were moved there
/// (nodes/samples_first.hpp). ONNX has no such attribute, so that its "axis" in a file is refused.
inline constexpr const char* scatter_axis = "intq.axis";

/// How a message says what a value holds.
std::string describe(PositionValue::Kind kind);

/// The inputs of a graph that are positions: integers (T), or a single one, that are compared, or say where values are
/// copied to.
std::set<std::string> position_inputs(const Graph& graph);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include "intq/core/dtype.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string describe(PositionValue::Kind kind) {
    switch (kind) {
        case PositionValue::Kind::condition:
            return "is a condition on positions, which Where alone reads";
        case PositionValue::Kind::mask:
            return "is a mask by positions, which an Add to scores alone reads";
        case PositionValue::Kind::rows:
            return "has a row for each position and no axis of samples, which Add, Mul, Reshape and Unsqueeze alone "
                   "read";
        case PositionValue::Kind::is_nan:
            return "says which elements are NaN, which a Where of these and 0 behind a softmax alone reads";
        default:
            return "holds ids or positions, which a Gather of rows of a constant, ScatterND, ScatterElements, "
                   "comparisons "
                   "with a range, an Add or Sub of a number and a clamp alone read";
    }
}

INTQ_INLINE std::set<std::string> position_inputs(const Graph& graph) {
    static constexpr std::string_view views[] = {"Unsqueeze", "Squeeze",  "Reshape", "Cast",
                                                 "Expand",    "Identity", "Add"};
    static constexpr std::string_view readers[] = {"Equal",          "Less",      "LessOrEqual",    "Greater",
                                                   "GreaterOrEqual", "ScatterND", "ScatterElements"};
    const auto has = [](const auto& names, const std::string& name) {
        for (const std::string_view each : names)
            if (each == name) return true;
        return false;
    };
    std::map<std::string, std::string> input_of;  // of a view
    for (const ValueInfo& input : graph.inputs)
        if ((input.dtype == DType::int64 || input.dtype == DType::int32) && input.has_shape && input.shape.size() < 2)
            input_of[input.name] = input.name;
    std::set<std::string> found;
    for (const Node& node : graph.nodes)
        for (const std::string& name : node.inputs) {
            const auto known = input_of.find(name);
            if (known == input_of.end()) continue;
            const std::string input = known->second;
            if (has(readers, node.op_type)) found.insert(input);
            if (has(views, node.op_type))
                for (const std::string& output : node.outputs) input_of.emplace(output, input);
        }
    return found;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_POSITION_VALUE_HPP
