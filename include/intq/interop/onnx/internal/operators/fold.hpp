// SPDX-License-Identifier: MIT
//
// Nodes that are computed while the model is read: arithmetic on constants, and Shape. Exporters write the target of a
// Reshape in this way. Long because each is a short separate function. Layer: interop.
//
// An unknown extent is an element like others where elements are only moved: Shape, Gather and Concat may carry the
// batch to a Reshape. Arithmetic with it is refused.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_FOLD_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_FOLD_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// Computes a node whose inputs are constants, where its operator is one of the table below.
/// @return false where it is not, or an input is not a constant
bool fold_constants(NodeImport& node);

/// The row of an operator that is only read on constants: refuses any other input.
void of_constants(NodeImport& node);

/// The extents of a value, as far as they are known.
void shape(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <iterator>
#    include <limits>
#    include <optional>
#    include <string>
#    include <type_traits>
#    include <utility>
#    include <variant>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/operators/fold_logic.hpp"
#    include "intq/interop/onnx/internal/operators/fold_moves.hpp"
#    include "intq/interop/onnx/internal/operators/reduce.hpp"
#    include "intq/interop/onnx/internal/read/element_types.hpp"
#    include "intq/interop/onnx/internal/read/limits.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

namespace folding {

using detail::max_folded;

/// Calls compute(T{}) for the element type of a constant.
template <class Compute> FileTensor with_type(DType dtype, const Compute& compute) {
    if (dtype == DType::int64) return compute(std::int64_t{});
    if (dtype == DType::int32) return compute(std::int32_t{});
    if (dtype == DType::float32) return compute(float{});
    throw Error(std::string("constants of dtype ") + name_of(dtype) + " are not computed");
}

template <class T> void check_is_known(T value) {
    if constexpr (std::is_same_v<T, std::int64_t>)
        if (value != -1 && is_unknown_extent(value))
            throw Error("it computes with an extent that is known only when the model runs");
}

/// The same, with the types of codes and float64.
template <class Compute> FileTensor with_any_type(DType dtype, const Compute& compute) {
    if (dtype == DType::float64) return compute(double{});
    if (dtype == DType::int8) return compute(std::int8_t{});
    if (dtype == DType::uint8) return compute(std::uint8_t{});
    if (dtype == DType::int16) return compute(std::int16_t{});
    return with_type(dtype, compute);
}

enum class Arithmetic { add, sub, mul, div, mod, min, max };

template <class T> T compute(Arithmetic op, T a, T b) {
    check_is_known(a), check_is_known(b);
    if (op == Arithmetic::min) return (std::min)(a, b);
    if (op == Arithmetic::max) return (std::max)(a, b);
    if constexpr (std::is_floating_point_v<T>) {
        switch (op) {
            case Arithmetic::add:
                return a + b;
            case Arithmetic::sub:
                return a - b;
            case Arithmetic::mul:
                return a * b;
            case Arithmetic::div:
                return a / b;
            default:
                throw Error("the remainder of floats is not supported");
        }
    } else {
        T result = 0;
        const bool divides = op == Arithmetic::div || op == Arithmetic::mod;
        if (divides && (b == 0 || (b == -1 && a == (std::numeric_limits<T>::min)())))
            throw Error("it divides " + std::to_string(a) + " by " + std::to_string(b));
        // The remainder has the sign of the divisor, as in Python.
        if (op == Arithmetic::mod) return static_cast<T>(a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0));
        if (divides) return a / b;
        const bool overflows = op == Arithmetic::add   ? __builtin_add_overflow(a, b, &result)
                               : op == Arithmetic::sub ? __builtin_sub_overflow(a, b, &result)
                                                       : __builtin_mul_overflow(a, b, &result);
        if (overflows) throw Error("its result overflows its dtype");
        return result;
    }
}

template <Arithmetic op> FileTensor fold_arithmetic(NodeImport& node) {
    node.expect_inputs(2, 2);
    if (op == Arithmetic::mod && node.integer("fmod", 0) != 0) throw Error("fmod is not supported");
    const FileTensor &a = node.constant(0, "left operand"), &b = node.constant(1, "right operand");
    if (a.dtype != b.dtype)
        throw Error(std::string("its operands have the dtypes ") + name_of(a.dtype) + " and " + name_of(b.dtype));
    const std::vector<index_t> dims = *broadcast_dims(a.dims, b.dims);
    return with_type(a.dtype, [&]<class T>(T) {
        FileTensor result = folded(a.dtype, dims);
        const auto x = a.as<T>(), y = b.as<T>();
        const auto to = elements<T>(result);
        for (std::size_t i = 0; i < to.size(); ++i)
            to[i] = compute<T>(op, x[broadcast_index(static_cast<index_t>(i), dims, a.dims)],
                               y[broadcast_index(static_cast<index_t>(i), dims, b.dims)]);
        return result;
    });
}

/// a op b op c ... of the elements along axes, in their order; for `mean`, of floats alone, over their number.
template <Arithmetic op, bool mean = false> FileTensor fold_reduction(NodeImport& node) {
    const FileTensor& from = node.constant(0, "input");
    const ReducedAxes reduced = read_axes(node, op == Arithmetic::add && !mean ? 13 : 18);
    if (reduced.leaves) return from;
    if (from.size() == 0) throw Error("it reduces a constant without elements");
    std::vector<index_t> kept(from.dims);  // with extent 1 along the axes
    for (std::size_t axis = 0; axis < kept.size(); ++axis)
        if (reduced.axes.empty()) kept[axis] = 1;
    for (const std::int64_t axis : reduced.axes) kept[axis_in(axis, from.dims)] = 1;
    return with_type(from.dtype, [&]<class T>(T) {
        FileTensor result = folded(from.dtype, *reduced_dims(from.dims, reduced.axes, reduced.keepdim));
        const auto x = from.as<T>();
        const auto to = elements<T>(result);
        std::vector<bool> is_begun(to.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
            const std::size_t at = broadcast_index(static_cast<index_t>(i), from.dims, kept);
            to[at] = is_begun[at] ? compute<T>(op, to[at], x[i]) : x[i];
            is_begun[at] = true;
        }
        if constexpr (mean && !std::is_floating_point_v<T>) throw Error("the mean of integers is not supported");
        if constexpr (mean)
            for (T& value : to) value /= static_cast<T>(x.size() / to.size());
        return result;
    });
}

enum class Single { neg, floor, ceil };

template <Single op> FileTensor fold_single(NodeImport& node) {
    node.expect_inputs(1, 1);
    const FileTensor& from = node.constant(0, "input");
    return with_type(from.dtype, [&]<class T>(T) {
        FileTensor result = from;
        for (T& value : elements<T>(result)) {
            check_is_known(value);
            if constexpr (op == Single::neg) value = compute<T>(Arithmetic::sub, T{0}, value);
            if constexpr (op == Single::floor) value = static_cast<T>(std::floor(value));
            if constexpr (op == Single::ceil) value = static_cast<T>(std::ceil(value));
        }
        return result;
    });
}

template <class To, class From> To cast(From value) {
    if constexpr (std::is_floating_point_v<To>) {
        check_is_known(value);
        return static_cast<To>(value);
    } else if constexpr (std::is_floating_point_v<From>) {
        // The bounds are powers of two or 0, so they are floats.
        const auto low = static_cast<From>((std::numeric_limits<To>::min)());
        const From high = static_cast<From>((std::numeric_limits<To>::max)() / 2 + 1) * 2;
        if (!(value >= low && value < high))
            throw Error("the number " + std::to_string(value) + " does not fit the dtype that it is cast to");
        return static_cast<To>(value);
    } else {
        if (!std::is_same_v<To, From>) check_is_known(value);
        const auto wide = static_cast<std::int64_t>(value);
        if (wide < std::int64_t{(std::numeric_limits<To>::min)()} ||
            wide > std::int64_t{(std::numeric_limits<To>::max)()})
            throw Error("the number " + std::to_string(value) + " does not fit the dtype that it is cast to");
        return static_cast<To>(value);
    }
}

INTQ_INLINE FileTensor fold_cast(NodeImport& node) {
    node.expect_inputs(1, 1);
    const FileTensor& from = node.constant(0, "input");
    const std::int64_t code = node.integer("to", 0);
    node.integer("saturate", 1);    // concerns float8 only
    node.text("round_mode", "up");  // the same
    constexpr DType types[] = {DType::none, DType::float32, DType::uint8, DType::int8,
                               DType::none, DType::int16,   DType::int32, DType::int64};
    if (code == 9)
        return with_any_type(from.dtype, [&]<class From>(From) {
            FileTensor result = folded(DType::uint8, from.dims);
            const auto values = from.as<From>();
            const auto target = elements<std::uint8_t>(result);
            for (std::size_t i = 0; i < target.size(); ++i) target[i] = values[i] != From{0} ? 1 : 0;
            return result;
        });
    const DType to = code > 0 && code < static_cast<std::int64_t>(std::size(types)) ? types[code] : DType::none;
    if (to == DType::none)
        throw Error("a cast of a constant to " + detail::describe_element_type(code) +
                    " is not supported; expected float32, int8, uint8, int16, int32, int64 or bool");
    if (to == from.dtype) return from;
    return with_any_type(to, [&]<class To>(To) {
        FileTensor result = folded(to, from.dims);
        return with_any_type(from.dtype, [&]<class From>(From) {
            const auto values = from.as<From>();
            const auto target = elements<To>(result);
            for (std::size_t i = 0; i < target.size(); ++i) target[i] = cast<To>(values[i]);
            return std::move(result);
        });
    });
}

INTQ_INLINE FileTensor fold_clip(NodeImport& node) {
    node.expect_inputs(1, 3);
    const FileTensor& from = node.constant(0, "input");
    return with_any_type(from.dtype, [&]<class T>(T) {
        const auto bound = [&](std::size_t i, const char* what, T otherwise) {
            if (!node.has_input(i)) return otherwise;
            const FileTensor& tensor = node.constant(i, what);
            const auto values = tensor.as<T>();
            if (values.size() != 1)
                throw Error(std::string("the ") + what + " has " + std::to_string(values.size()) +
                            " elements, expected 1");
            return values[0];
        };
        const T low = bound(1, "min", std::numeric_limits<T>::lowest());
        const T high = bound(2, "max", (std::numeric_limits<T>::max)());
        FileTensor result = from;
        for (T& value : elements<T>(result)) {
            check_is_known(value);
            value = (std::min)((std::max)(value, low), high);
        }
        return result;
    });
}

INTQ_INLINE FileTensor fold_constant_of_shape(NodeImport& node) {
    node.expect_inputs(1, 1);
    const auto shape = node.constant(0, "shape").as<std::int64_t>();
    const AttributeValue* const given = node.raw_attribute("value");
    const auto* const value = given != nullptr ? std::get_if<FileTensor>(given) : nullptr;
    if ((given != nullptr && value == nullptr) || (value != nullptr && value->size() != 1))
        throw Error("the attribute value is not a tensor of one element");
    for (const std::int64_t extent : shape)
        if (extent < 0) throw Error("the shape " + describe_shape(shape) + " holds a negative extent");
    FileTensor result = folded(value != nullptr ? value->dtype : DType::float32, {shape.begin(), shape.end()});
    for (index_t i = 0; value != nullptr && i < result.size(); ++i) copy_elements(*value, 0, result, i, 1);
    return result;
}

/// How many numbers a range has: max(0, ceil((limit - start) / delta)).
INTQ_INLINE double range_size(double start, double limit, double delta) {
    if (!std::isfinite(start) || !std::isfinite(limit) || !std::isfinite(delta))
        throw Error("its start, limit or delta is NaN or infinite");
    return (std::max)(0.0, std::ceil((limit - start) / delta));
}
INTQ_INLINE double range_size(std::int64_t start, std::int64_t limit, std::int64_t delta) {
    if (start == limit || (start < limit) != (delta > 0)) return 0;
    const auto between = [](std::int64_t from, std::int64_t to) {
        return static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);
    };
    const std::uint64_t room = start < limit ? between(start, limit) : between(limit, start),
                        step = delta > 0 ? between(0, delta) : between(delta, 0);
    return static_cast<double>(room / step + (room % step != 0 ? 1 : 0));
}

/// start + i·delta; of floats rounded once.
template <class T> FileTensor range_of(DType dtype, T start, T limit, T delta) {
    using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;
    if (delta == T{0}) throw Error("the delta is 0");
    const double size = range_size(Wide{start}, Wide{limit}, Wide{delta});
    if (size > static_cast<double>(max_folded)) throw Error("its result has too many elements");
    FileTensor result = folded(dtype, {static_cast<index_t>(size)});
    Wide at = 0;
    for (T& value : elements<T>(result)) value = static_cast<T>(Wide{start} + Wide{delta} * at++);
    return result;
}

INTQ_INLINE FileTensor fold_range(NodeImport& node) {
    node.expect_inputs(3, 3);
    const DType dtype = node.constant(0, "start").dtype;
    return with_type(dtype, [&]<class T>(T) {
        const auto one = [&](std::size_t i, const char* what) {
            const FileTensor& tensor = node.constant(i, what);
            if (tensor.dtype != dtype)
                throw Error(std::string("the ") + what + " has dtype " + name_of(tensor.dtype) + ", the start " +
                            name_of(dtype));
            const auto values = tensor.as<T>();
            if (values.size() != 1) throw Error(std::string("the ") + what + " is not one number");
            if (std::is_same_v<T, std::int64_t> && is_unknown_extent(static_cast<std::int64_t>(values[0])))
                throw Error(std::string("the ") + what +
                            " is an extent that is known only when the model runs; as_strided of an open batch is "
                            "written in this way: take its elements by reshapes, permutes and slices");
            return values[0];
        };
        const T start = one(0, "start"), limit = one(1, "limit"), delta = one(2, "delta");
        return range_of<T>(dtype, start, limit, delta);
    });
}

/// Operators that are computed on constants. Where a node only moves elements, their channel axis moves with them.
struct FoldRow {
    const char* op_type;
    FileTensor (*fold)(NodeImport&);
    std::optional<int> (*moved_axis)(NodeImport&, int, const FileTensor&, const FileTensor&) = nullptr;
};
inline constexpr FoldRow fold_rows[] = {
    {"Abs", &fold_abs},
    {"Add", &fold_arithmetic<Arithmetic::add>},
    {"And", &fold_and},
    {"Cast", &fold_cast, &reshaped_axis},
    {"Ceil", &fold_single<Single::ceil>},
    {"Clip", &fold_clip},
    {"Concat", &fold_concat},
    {"ConstantOfShape", &fold_constant_of_shape},
    {"Cos", &fold_cos},
    {"Div", &fold_arithmetic<Arithmetic::div>},
    {"Equal", &fold_equal},
    {"Exp", &fold_exp},
    {"Flatten", &fold_flatten, &reshaped_axis},
    {"Floor", &fold_single<Single::floor>},
    {"Gather", &fold_gather},
    {"GatherND", &fold_gather_nd},
    {"Greater", &fold_greater},
    {"GreaterOrEqual", &fold_greater_or_equal},
    {"Less", &fold_less},
    {"LessOrEqual", &fold_less_or_equal},
    {"Log", &fold_log},
    {"MatMul", &fold_matmul},
    {"Max", &fold_arithmetic<Arithmetic::max>},
    {"Min", &fold_arithmetic<Arithmetic::min>},
    {"Mod", &fold_arithmetic<Arithmetic::mod>},
    {"Mul", &fold_arithmetic<Arithmetic::mul>},
    {"Neg", &fold_single<Single::neg>},
    {"Not", &fold_not},
    {"Or", &fold_or},
    {"Pow", &fold_pow},
    {"Range", &fold_range},
    {"Reciprocal", &fold_reciprocal},
    {"ReduceMax", &fold_reduction<Arithmetic::max>},
    {"ReduceMean", &fold_reduction<Arithmetic::add, true>},
    {"ReduceMin", &fold_reduction<Arithmetic::min>},
    {"ReduceProd", &fold_reduction<Arithmetic::mul>},
    {"ReduceSum", &fold_reduction<Arithmetic::add>},
    {"Relu", &fold_relu},
    {"Reshape", &fold_reshape, &reshaped_axis},
    {"ScatterND", &fold_scatter_nd},
    {"Sigmoid", &fold_sigmoid},
    {"Sin", &fold_sin},
    {"Slice", &fold_slice},
    {"Sqrt", &fold_sqrt},
    {"Squeeze", &fold_squeeze, &reshaped_axis},
    {"Sub", &fold_arithmetic<Arithmetic::sub>},
    {"Tanh", &fold_tanh},
    {"Transpose", &fold_transpose, &transposed_axis},
    {"Trilu", &fold_trilu},
    {"Unsqueeze", &fold_unsqueeze, &reshaped_axis},
    {"Where", &fold_where},
};

/// The grid of a constant that DequantizeLinear made of codes, behind a node that moves its elements; nothing where the
/// channels no longer lie along one axis.
INTQ_INLINE std::optional<CodedConstant> moved_codes(NodeImport& node, const FoldRow& row, const FileTensor& to) {
    if (row.moved_axis == nullptr || to.dtype != DType::float32) return std::nullopt;
    const CodedConstant* const coded = node.coded_constant(0);
    if (coded == nullptr || (row.moved_axis == &transposed_axis && !coded->codes.empty())) return std::nullopt;
    CodedConstant moved = *coded;
    if (!moved.grid.is_per_channel()) return moved;
    const auto axis = row.moved_axis(node, moved.grid.axis, node.constant(0, "data"), to);
    if (!axis) return std::nullopt;
    moved.grid.axis = *axis;
    return moved;
}

}  // namespace folding

INTQ_INLINE bool fold_constants(NodeImport& node) {
    for (const folding::FoldRow& row : folding::fold_rows)
        if (node.node().op_type == row.op_type && node.input_count() > 0 && node.has_all_elements()) {
            FileTensor result = row.fold(node);
            std::optional<CodedConstant> coded = folding::moved_codes(node, row, result);
            node.set_folded(std::move(result), std::move(coded));
            return true;
        }
    return false;
}

INTQ_INLINE void of_constants(NodeImport& node) {
    for (std::size_t i = 0; i < node.input_count(); ++i)
        if (node.has_input(i)) node.constant(i, "input");
    throw Error("it has no inputs");
}

INTQ_INLINE void shape(NodeImport& node) {
    node.expect_inputs(1, 1);
    const Dims& known = node.ids(0) != nullptr ? node.any_value(0, "input").dims : node.dims(0);
    if (!known) throw Error("the rank of the input is not known");
    const std::vector<index_t>& dims = *known;
    const auto rank = static_cast<std::int64_t>(dims.size());
    std::int64_t start = 0, end = rank;
    if (node.opset() >= 15) start = node.integer("start", 0), end = node.integer("end", rank);
    const auto inside = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
    start = inside(start), end = (std::max)(inside(end), start);
    FileTensor result = folding::folded(DType::int64, {end - start});
    std::copy(dims.begin() + start, dims.begin() + end, folding::elements<std::int64_t>(result).begin());
    node.set_folded(std::move(result));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_FOLD_HPP
