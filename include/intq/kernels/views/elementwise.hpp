// SPDX-License-Identifier: MIT
//
// requantize, add, mul, relu and cat of codes as functions on views. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_VIEWS_ELEMENTWISE_HPP
#define INTQ_KERNELS_VIEWS_ELEMENTWISE_HPP

#include <span>
#include <type_traits>
#include <utility>

#include "intq/arith/codes.hpp"
#include "intq/arith/elementwise.hpp"
#include "intq/arith/make_requantize.hpp"
#include "intq/arith/target.hpp"
#include "intq/core/executor.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/streaming/elementwise.hpp"
#include "intq/kernels/views/code_view.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// Zero point and clamp of an output that uses all codes of its type.
constexpr arith::OutputCodes all_codes(const arith::CodesOf& out, Activation activation) noexcept {
    return arith::make_output_codes(lowest_code(out.dtype), highest_code(out.dtype), out.zero_point, out.scale,
                                    activation);
}

/// @return ok; shape_mismatch naming the operand, with the first extents that differ
template <class X, class Y, class Out>
constexpr Status check_operands(const X& x, const Y& y, const Out& out, OpKind op) noexcept {
    if (const Status status = check_extents(out.shape(), x.shape(), op, Field::input); !status) return status;
    return check_extents(out.shape(), y.shape(), op, Field::second_input);
}

}  // namespace detail

// --- requantize ------------------------------------------------------------------------------------------------------

/// Parameters of requantize() for a target; see make_requantize() with a policy.
///
/// @return the parameters; the errors of that function
template <class TargetType>
requires arith::Target<TargetType>
constexpr Result<RequantizeParams> make_requantize(const arith::CodesOf& in, const arith::CodesOf& out) noexcept {
    return make_requantize(TargetType::policy, in, out, detail::all_codes(out, Activation::none));
}

/// @return ok; shape_mismatch of output, with the first extents that differ; the errors of check_requantize_params()
template <class TargetType, CodeView X, CodeView Out>
requires arith::Target<TargetType> && SameOrder<X, Out>
constexpr Status check_requantize(const X& x, const RequantizeParams& params, const Out& out) noexcept {
    constexpr OpKind op = OpKind::requantize;
    if (const Status status = detail::check_extents(x.shape(), out.shape(), op, Field::output); !status) return status;
    return check_requantize_params(TargetType::policy, params, dtype_of<typename X::element_type>,
                                   dtype_of<typename Out::element_type>, op);
}

/// Codes at another scale, with another zero point, or of another type.
///
///     out[i] = requantize(x[i] - zp_in)
///
/// @tparam TargetType  the arithmetic contract; see arith/target.hpp
/// @param x       int8 or int16 codes, row_major or channels_last
/// @param params  made by make_requantize() for the same target
/// @param out     shaped and ordered as x; must not overlap it
/// @pre   check_requantize()
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(n); bound by memory
/// Source   docs/arithmetic.md section 2
template <class TargetType, class Backend = simd::default_backend, CodeView X, CodeOutput Out>
requires arith::Target<TargetType> && SameOrder<X, Out>
void requantize(const X& x, const RequantizeParams& params, const Out& out,
                const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_requantize<TargetType>(x, params, out).ok());
    using Policy = detail::NarrowPolicy<TargetType>;
    const index_t size = x.size();
    requantize_codes<Backend, Policy, typename X::value_type, typename Out::value_type>({.params = &params,
                                                                                         .x = x.data(),
                                                                                         .y = out.data(),
                                                                                         .rows = 1,
                                                                                         .columns = size,
                                                                                         .x_stride = size,
                                                                                         .y_stride = size,
                                                                                         .executor = &executor});
}

// --- add, sub --------------------------------------------------------------------------------------------------------

/// Parameters of add() for a target; see arith::make_add().
///
/// @param activation  clamps the sum
/// @return the parameters; the errors of arith::make_add()
template <class TargetType>
requires arith::Target<TargetType>
constexpr Result<arith::AddParams> make_add(const arith::CodesOf& x, const arith::CodesOf& y, const arith::CodesOf& out,
                                            Activation activation = Activation::none) noexcept {
    return arith::make_add(TargetType::policy, x, y, out, detail::all_codes(out, activation));
}

/// The same for x - y; add() runs it.
template <class TargetType>
requires arith::Target<TargetType>
constexpr Result<arith::AddParams> make_sub(const arith::CodesOf& x, const arith::CodesOf& y, const arith::CodesOf& out,
                                            Activation activation = Activation::none) noexcept {
    return arith::make_sub(TargetType::policy, x, y, out, detail::all_codes(out, activation));
}

/// @return ok; shape_mismatch of input or second_input, with the first extents that differ from the output's; the
///         errors of arith::check_add_params()
template <class TargetType, CodeView X, CodeView Y, CodeView Out>
requires arith::Target<TargetType> && SameCodes<X, Out> && SameCodes<Y, Out>
constexpr Status check_add(const X& x, const Y& y, const arith::AddParams& params, const Out& out) noexcept {
    if (const Status status = detail::check_operands(x, y, out, OpKind::add); !status) return status;
    return arith::check_add_params(TargetType::policy, params, dtype_of<typename Out::element_type>, OpKind::add);
}

/// The sum of two tensors of codes; their difference with the parameters of make_sub().
///
///     out[i] = requantize(x[i]·s_x + y[i]·s_y), by the target's formula in arith/elementwise.hpp
///
/// @tparam TargetType  the arithmetic contract; see arith/target.hpp
/// @param x, y    int8 or int16 codes, row_major or channels_last
/// @param params  made by make_add() or make_sub() for the same target
/// @param out     shaped, ordered and typed as x and y; may be one of them
/// @pre   check_add()
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(n); bound by memory
/// Source   docs/arithmetic.md section 4
template <class TargetType, class Backend = simd::default_backend, CodeView X, CodeView Y, CodeOutput Out>
requires arith::Target<TargetType> && SameCodes<X, Out> && SameCodes<Y, Out>
void add(const X& x, const Y& y, const arith::AddParams& params, const Out& out,
         const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_add<TargetType>(x, y, params, out).ok());
    add_codes<Backend, detail::NarrowPolicy<TargetType>, typename Out::value_type>({.params = &params,
                                                                                    .x = x.data(),
                                                                                    .y = y.data(),
                                                                                    .out = out.data(),
                                                                                    .size = out.size(),
                                                                                    .executor = &executor});
}

// --- mul -------------------------------------------------------------------------------------------------------------

/// Parameters of mul() for a target; see arith::make_mul().
///
/// @param activation  clamps the product
/// @return the parameters; the errors of arith::make_mul()
template <class TargetType>
requires arith::Target<TargetType>
constexpr Result<arith::MulParams> make_mul(const arith::CodesOf& x, const arith::CodesOf& y, const arith::CodesOf& out,
                                            Activation activation = Activation::none) noexcept {
    return arith::make_mul(TargetType::policy, x, y, out, detail::all_codes(out, activation));
}

/// @return ok; shape_mismatch of input or second_input, with the first extents that differ from the output's; the
///         errors of arith::check_mul_params()
template <class TargetType, CodeView X, CodeView Y, CodeView Out>
requires arith::Target<TargetType> && SameCodes<X, Out> && SameCodes<Y, Out>
constexpr Status check_mul(const X& x, const Y& y, const arith::MulParams& params, const Out& out) noexcept {
    if (const Status status = detail::check_operands(x, y, out, OpKind::mul); !status) return status;
    return arith::check_mul_params(TargetType::policy, params, dtype_of<typename Out::element_type>);
}

/// The product of two tensors of codes, element by element.
///
///     out[i] = requantize((x[i] - zp_x)·(y[i] - zp_y))
///
/// @tparam TargetType  the arithmetic contract; see arith/target.hpp
/// @param x, y    int8 or int16 codes, row_major or channels_last
/// @param params  made by make_mul() for the same target
/// @param out     shaped, ordered and typed as x and y; may be one of them
/// @pre   check_mul()
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(n)
/// Source   docs/arithmetic.md section 4
template <class TargetType, class Backend = simd::default_backend, CodeView X, CodeView Y, CodeOutput Out>
requires arith::Target<TargetType> && SameCodes<X, Out> && SameCodes<Y, Out>
void mul(const X& x, const Y& y, const arith::MulParams& params, const Out& out,
         const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_mul<TargetType>(x, y, params, out).ok());
    mul_codes<Backend, detail::NarrowPolicy<TargetType>, typename Out::value_type>({.params = &params,
                                                                                    .x = x.data(),
                                                                                    .y = y.data(),
                                                                                    .out = out.data(),
                                                                                    .size = out.size(),
                                                                                    .executor = &executor});
}

// --- relu, relu6 -----------------------------------------------------------------------------------------------------

/// The bounds of relu() on codes whose scale stays: 0 and, with Activation::relu6, 6.
///
/// @return the bounds; the errors of arith::check_codes()
template <class TargetType>
requires arith::Target<TargetType>
constexpr Result<arith::OutputCodes> make_relu(const arith::CodesOf& x,
                                               Activation activation = Activation::relu) noexcept {
    if (const Status status = arith::check_codes(TargetType::policy, x, OpKind::relu, Field::input); !status)
        return status;
    return detail::all_codes(x, activation);
}

/// @return ok; shape_mismatch of output, with the first extents that differ; value_out_of_range of quant_range: bounds
///         that cross or are not codes
template <CodeView X, CodeView Out>
requires SameCodes<X, Out>
constexpr Status check_relu(const X& x, const arith::OutputCodes& bounds, const Out& out) noexcept {
    constexpr OpKind op = OpKind::relu;
    constexpr DType dtype = dtype_of<typename Out::element_type>;
    if (const Status status = detail::check_extents(x.shape(), out.shape(), op, Field::output); !status) return status;
    if (bounds.lowest < lowest_code(dtype) || bounds.lowest > bounds.highest)
        return {StatusCode::value_out_of_range, op, Field::quant_range, bounds.lowest, lowest_code(dtype)};
    if (bounds.highest > highest_code(dtype))
        return {StatusCode::value_out_of_range, op, Field::quant_range, bounds.highest, highest_code(dtype)};
    return {};
}

/// Clamps codes. The scale stays.
///
///     out[i] = min(max(x[i], lowest), highest)
///
/// @param x       int8 or int16 codes, row_major or channels_last
/// @param bounds  made by make_relu()
/// @param out     shaped, ordered and typed as x; may be x
/// @pre   check_relu()
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(n); bound by memory
template <class Backend = simd::default_backend, CodeView X, CodeOutput Out>
requires SameCodes<X, Out>
void relu(const X& x, const arith::OutputCodes& bounds, const Out& out,
          const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_relu(x, bounds, out).ok());
    clamp_codes<Backend, typename Out::value_type>(
        {.codes = bounds, .x = x.data(), .y = out.data(), .size = out.size(), .executor = &executor});
}

// --- cat -------------------------------------------------------------------------------------------------------------

/// The views in an array, a span or another range of contiguous memory.
template <class Inputs> using ViewOf = std::remove_cvref_t<decltype(*std::data(std::declval<const Inputs&>()))>;

/// @param params  one for each input, made by make_requantize() from its codes to the output's
/// @return ok; value_out_of_range of axis; missing of input without one, of scale where the parameters are not as many;
///         shape_mismatch of input, with the first extents that differ, and of axis where the extents do not add up;
///         the errors of check_requantize_params()
template <class TargetType, class Inputs, CodeView Out>
requires arith::Target<TargetType> && SameOrder<ViewOf<Inputs>, Out>
constexpr Status check_cat(const Inputs& views, std::span<const RequantizeParams> params, int axis,
                           const Out& out) noexcept {
    constexpr OpKind op = OpKind::cat;
    using X = ViewOf<Inputs>;
    const std::span<const X> inputs(std::data(views), std::size(views));
    if (const Status status = detail::check_axis<Out>(axis, op); !status) return status;
    if (inputs.empty()) return {StatusCode::missing, op, Field::input, 0, 1};
    if (params.size() != inputs.size())
        return {StatusCode::missing, op, Field::scale, static_cast<std::int64_t>(params.size()),
                static_cast<std::int64_t>(inputs.size())};
    const Shape whole = out.shape();
    index_t extent = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        Shape expected = whole;
        const Shape given = inputs[i].shape();
        expected[axis] = given[axis];
        extent += given[axis];
        if (const Status status = detail::check_extents(expected, given, op, Field::input); !status) return status;
        const Status status = check_requantize_params(TargetType::policy, params[i], dtype_of<typename X::element_type>,
                                                      dtype_of<typename Out::element_type>, op);
        if (!status) return status;
    }
    if (extent != whole[axis]) return {StatusCode::shape_mismatch, op, Field::axis, extent, whole[axis]};
    return {};
}

/// Inputs one behind the other along an axis, each requantized to the output's scale.
///
///     out[…, first_k + i, …] = requantize(inputs[k][…, i, …] - zp_k),   first_k = extents of the inputs before k
///
/// @tparam TargetType  the arithmetic contract; see arith/target.hpp
/// @param views   an array or a span of views of int8 or int16 codes, row_major or channels_last: the inputs
/// @param params  one for each input, made by make_requantize(); equal scales and zero points pass codes through
/// @param axis    a logical index: 1 is the channels
/// @param out     ordered as the inputs; must not overlap them
/// @pre   check_cat()
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(n); bound by memory
/// Source   docs/arithmetic.md section 4
template <class TargetType, class Backend = simd::default_backend, class Inputs, CodeOutput Out>
requires arith::Target<TargetType> && SameOrder<ViewOf<Inputs>, Out>
void cat(const Inputs& views, std::span<const RequantizeParams> params, int axis, const Out& out,
         const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_cat<TargetType>(views, params, axis, out).ok());
    using Policy = detail::NarrowPolicy<TargetType>;
    using X = ViewOf<Inputs>;
    const std::span<const X> inputs(std::data(views), std::size(views));
    const detail::AxisRun whole = detail::axis_run(out, axis);
    auto* to = out.data();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const index_t columns = inputs[i].extent(axis) * whole.inner;
        requantize_codes<Backend, Policy, typename X::value_type, typename Out::value_type>(
            {.params = &params[i],
             .x = inputs[i].data(),
             .y = to,
             .rows = whole.outer,
             .columns = columns,
             .x_stride = columns,
             .y_stride = whole.count * whole.inner,
             .executor = &executor});
        to += columns;
    }
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_VIEWS_ELEMENTWISE_HPP
