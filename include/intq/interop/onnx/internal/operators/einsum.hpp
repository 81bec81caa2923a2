// SPDX-License-Identifier: MIT
//
// Einsum of two operands, as moves around a product of matrices or a Linear. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_EINSUM_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_EINSUM_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// The letters of an operand are axes of four kinds: of both operands and the result (batches), of one operand and the
/// result (rows of the first, columns of the second), and of both operands alone, which are summed.
///
///     reshape(permute(a), (batches, rows, sums)) · reshape(permute(b), (batches, sums, columns))
///
/// Axis 0 of the result is axis 0 of both operands, or of the one that is computed beside a constant, which is the
/// weight of a Linear. Each letter is once in an operand; extents but the samples' are known.
///
/// @throws Error  for other equations
void einsum(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <map>
#    include <memory>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/shape.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/operators/move.hpp"
#    include "intq/interop/onnx/internal/operators/rearrange.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/linear.hpp"
#    include "intq/nn/layers/move.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// "bij,bjk->bik" in its three parts, and the axes by their kinds.
struct Equation {
    std::string text, a, b, result;
    std::string batches, rows, sums, columns;
};

[[noreturn]] INTQ_INLINE void refuse_equation(const Equation& equation, const std::string& why) {
    throw Error("the equation " + in_quotes(equation.text) + " " + why);
}

INTQ_INLINE void check_letters(const Equation& equation, const std::string& letters) {
    if (letters.empty() || letters.size() > static_cast<std::size_t>(max_rank))
        refuse_equation(equation, "has an operand of " + std::to_string(letters.size()) + " axes; supported are 1 to " +
                                      std::to_string(max_rank));
    for (std::size_t i = 0; i < letters.size(); ++i) {
        const char one = letters[i];
        if (!((one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z')))
            refuse_equation(equation, "has another character than letters in " + in_quotes(letters));
        if (letters.find(one, i + 1) != std::string::npos)
            refuse_equation(equation, "has the axis " + std::string(1, one) + " twice in " + in_quotes(letters));
    }
}

INTQ_INLINE bool holds(const std::string& letters, char one) { return letters.find(one) != std::string::npos; }

INTQ_INLINE Equation read_equation(NodeImport& node) {
    Equation read{.text = node.text("equation", ""),
                  .a = {},
                  .b = {},
                  .result = {},
                  .batches = {},
                  .rows = {},
                  .sums = {},
                  .columns = {}};
    std::string text = read.text;
    text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
    const std::size_t comma = text.find(','), arrow = text.find("->");
    if (comma == std::string::npos || arrow == std::string::npos || arrow < comma)
        refuse_equation(read, "is not that of two operands and a result");
    read.a = text.substr(0, comma);
    read.b = text.substr(comma + 1, arrow - comma - 1);
    read.result = text.substr(arrow + 2);
    for (const std::string* const letters : {&read.a, &read.b, &read.result}) check_letters(read, *letters);
    return read;
}

INTQ_INLINE void sort_axes(Equation& equation) {
    for (const char one : equation.a) {
        const bool in_b = holds(equation.b, one), in_result = holds(equation.result, one);
        if (!in_b && !in_result) refuse_equation(equation, "sums the axis " + std::string(1, one) + " of one operand");
        (in_b ? in_result ? equation.batches : equation.sums : equation.rows) += one;
    }
    for (const char one : equation.b) {
        if (holds(equation.a, one)) continue;
        if (!holds(equation.result, one))
            refuse_equation(equation, "sums the axis " + std::string(1, one) + " of one operand");
        equation.columns += one;
    }
    for (const char one : equation.result)
        if (!holds(equation.a, one) && !holds(equation.b, one))
            refuse_equation(equation, "has the axis " + std::string(1, one) + " of no operand");
}

/// The places of `wanted` in `letters`.
INTQ_INLINE std::vector<std::int64_t> places_of(const std::string& wanted, const std::string& letters) {
    std::vector<std::int64_t> places;
    for (const char one : wanted) places.push_back(static_cast<std::int64_t>(letters.find(one)));
    return places;
}

/// @param has_constant  b is one
INTQ_INLINE void check_samples(const Equation& equation, bool has_constant) {
    const char samples = equation.result[0];
    if (has_constant && !equation.batches.empty())
        refuse_equation(equation, "has the axis " + std::string(1, equation.batches[0]) +
                                      " of a constant and of the result, which no Linear has");
    if (has_constant && equation.sums.empty()) refuse_equation(equation, "sums no axis, as a Linear does");
    if (equation.a[0] != samples || (!has_constant && equation.b[0] != samples))
        refuse_equation(equation,
                        "moves the samples: axis 0 of the result must be axis 0 of each operand that is "
                        "computed");
}

using Extents = std::map<char, index_t>;

/// Notes the extents of an operand's axes; those of one letter must be equal.
INTQ_INLINE void note_extents(const Equation& equation, const std::string& letters, const Dims& dims,
                              Extents& extents) {
    if (!dims) throw Error("the rank of an operand is not known");
    if (dims->size() != letters.size())
        refuse_equation(
            equation, "has " + std::to_string(letters.size()) + " axes for a value of shape " + describe_shape(*dims));
    for (std::size_t i = 0; i < letters.size(); ++i) {
        const index_t extent = (*dims)[i];
        if (extent == 0 || (extent < 0 && letters[i] != equation.result[0]))
            refuse_equation(equation, "takes a value of shape " + describe_shape(*dims) +
                                          ", expected extents that are known behind the samples");
        const auto [known, is_new] = extents.emplace(letters[i], extent);
        if (!is_new && extent >= 0 && known->second >= 0 && known->second != extent)
            refuse_equation(equation, "has the axis " + std::string(1, letters[i]) + " of " +
                                          std::to_string(known->second) + " and of " + std::to_string(extent));
        known->second = (std::max)(known->second, extent);
    }
}

INTQ_INLINE std::vector<index_t> dims_of_axes(const std::string& letters, const Extents& extents) {
    std::vector<index_t> dims;
    for (const char one : letters) dims.push_back(extents.at(one));
    return dims;
}

INTQ_INLINE index_t product_of_axes(const std::string& letters, const Extents& extents) {
    return product_of(dims_of_axes(letters, extents), 0, letters.size());
}

/// An operand as matrices: its batches, and two groups of axes joined to one each.
INTQ_INLINE graph::Node& make_matrices(NodeImport& node, graph::Node& x, const std::string& letters,
                                       const Equation& equation, const std::string& first, const std::string& second,
                                       const Extents& extents) {
    graph::Node& turned = make_permute(node, x, places_of(equation.batches + first + second, letters));
    if (first.size() == 1 && second.size() == 1) return turned;
    std::vector<index_t> dims = dims_of_axes(equation.batches, extents);
    dims.push_back(product_of_axes(first, extents));
    dims.push_back(product_of_axes(second, extents));
    return make_reshape(node, turned, std::move(dims));
}

/// The result, of a value whose axes are `letters` joined in some groups.
INTQ_INLINE void call_result(NodeImport& node, graph::Node& joined, bool is_joined, const std::string& letters,
                             const Equation& equation, const Extents& extents) {
    graph::Node& apart = is_joined ? make_reshape(node, joined, dims_of_axes(letters, extents)) : joined;
    graph::Node& result = make_permute(node, apart, places_of(equation.result, letters));
    node.set_output({.node = &result, .dims = dims_of_axes(equation.result, extents)});
}

INTQ_INLINE void call_product(NodeImport& node, const Equation& equation, const Extents& extents) {
    graph::Node& a = make_matrices(node, node.value(0), equation.a, equation, equation.rows, equation.sums, extents);
    graph::Node& b = make_matrices(node, node.value(1), equation.b, equation, equation.sums, equation.columns, extents);
    graph::Node& product = node.make_function(nn::matmul_function, {a, b}, true);
    const bool is_joined = equation.rows.size() != 1 || equation.columns.size() != 1;
    call_result(node, product, is_joined, equation.batches + equation.rows + equation.columns, equation, extents);
}

/// The constant b as the weight of a Linear: (columns, sums).
INTQ_INLINE Tensor weight_of_columns(const FileTensor& constant, const Equation& equation, const Extents& extents) {
    const std::string order = equation.columns + equation.sums;
    const std::vector<index_t>& dims = constant.dims;
    const index_t columns = product_of_axes(equation.columns, extents), sums = product_of_axes(equation.sums, extents);
    Tensor weight = Tensor::empty(Shape(columns, sums));
    const auto from = constant.as<float>();
    const auto to = weight.flat<float>();
    std::vector<index_t> strides, at(order.size(), 0);
    for (const std::int64_t axis : places_of(order, equation.b))
        strides.push_back(product_of(dims, static_cast<std::size_t>(axis) + 1, dims.size()));
    index_t place = 0;
    for (float& element : to) {
        element = from[static_cast<std::size_t>(place)];
        for (std::size_t i = order.size(); i-- > 0;) {
            place += strides[i];
            if (++at[i] < extents.at(order[i])) break;
            place -= strides[i] * at[i];
            at[i] = 0;
        }
    }
    return weight;
}

INTQ_INLINE void call_linear_of(NodeImport& node, const Equation& equation, const Extents& extents, std::size_t x) {
    const FileTensor& constant = node.float_constant(1 - x, "constant operand");
    Tensor weight = weight_of_columns(constant, equation, extents);
    graph::Node& turned = make_permute(node, node.value(x), places_of(equation.rows + equation.sums, equation.a));
    std::vector<index_t> dims = dims_of_axes(equation.rows, extents);
    dims.push_back(weight.extent(1));
    graph::Node& rows = equation.sums.size() == 1 ? turned : make_reshape(node, turned, std::move(dims));
    auto linear = std::make_shared<nn::Linear>(nn::LinearOptions{weight.extent(1), weight.extent(0), false});
    linear->set_weight(std::move(weight));
    graph::Node& product = node.make_module(linear, {rows});
    call_result(node, product, equation.columns.size() != 1, equation.rows + equation.columns, equation, extents);
}

INTQ_INLINE void einsum(NodeImport& node) {
    if (node.input_count() != 2)
        throw Error("it has " + std::to_string(node.input_count()) + " operands; supported are 2");
    Equation equation = read_equation(node);
    const std::size_t x = node.is_constant(0) ? 1 : 0;
    if (x == 1) std::swap(equation.a, equation.b);
    sort_axes(equation);
    check_samples(equation, node.is_constant(1 - x));
    Extents extents;
    note_extents(equation, equation.a, node.dims(x), extents);
    note_extents(equation, equation.b, node.dims(1 - x), extents);
    if (node.is_constant(1 - x)) return call_linear_of(node, equation, extents, x);
    call_product(node, equation, extents);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_EINSUM_HPP
