// SPDX-License-Identifier: MIT
//
// Layer norm and RMS norm of codes as functions on views. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_VIEWS_LAYER_NORM_HPP
#define INTQ_KERNELS_VIEWS_LAYER_NORM_HPP

#include <cstdint>
#include <span>
#include <type_traits>

#include "intq/arith/layer_norm.hpp"
#include "intq/arith/target.hpp"
#include "intq/core/executor.hpp"
#include "intq/kernels/streaming/layer_norm.hpp"
#include "intq/kernels/views/code_view.hpp"
#include "intq/kernels/views/elementwise.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// The integers of layer_norm(). The codes of weight and bias lie in the caller's memory.
struct LayerNormNumbers {
    arith::LayerNormParams params{};
    std::span<const std::int32_t> weight{};
    std::span<const std::int32_t> bias{};
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// @param bias  as long as weight, or empty for 0
template <class TargetType>
constexpr Result<LayerNormNumbers> make_norm_numbers(const arith::CodesOf& in, const arith::CodesOf& out,
                                                     std::span<const float> weight, std::span<const float> bias,
                                                     double eps, bool is_centered,
                                                     std::span<std::int32_t> memory) noexcept {
    constexpr OpKind op = OpKind::layer_norm;
    const auto count = static_cast<index_t>(weight.size());
    if (!bias.empty() && bias.size() != weight.size())
        return Status{StatusCode::shape_mismatch, op, Field::bias, static_cast<index_t>(bias.size()), count};
    if (memory.size() != 2 * weight.size())
        return Status{StatusCode::shape_mismatch, op, Field::storage, static_cast<index_t>(memory.size()), 2 * count};
    const auto scale = arith::layer_norm_scale(weight, bias);
    if (!scale) return scale.status();
    const auto params = arith::make_layer_norm(TargetType::policy, in, out, all_codes(out, Activation::none), count,
                                               eps, *scale, is_centered);
    if (!params) return params.status();
    for (std::size_t i = 0; i < weight.size(); ++i) {
        memory[i] = arith::code_of_power(weight[i], scale->weight());
        memory[weight.size() + i] = bias.empty() ? 0 : arith::code_of_power(bias[i], scale->accumulator());
    }
    return LayerNormNumbers{*params, memory.first(weight.size()), memory.last(weight.size())};
}

/// Whether the last `count` elements in the order of memory are all of some axes: of channels_last, the channels.
template <class View> constexpr bool are_last_in_memory(const View& view, index_t count) noexcept {
    if (View::rank >= 3 && std::is_same_v<typename View::layout_type, channels_last>) return view.extent(1) == count;
    index_t elements = 1;
    for (int axis = View::rank; axis-- > 0;)
        if ((elements *= view.extent(axis)) == count) return true;
    return false;
}

}  // namespace detail

/// The integers of layer_norm() for real weights.
///
/// @tparam TargetType  the arithmetic contract; see arith/target.hpp
/// @param in, out  of the codes; the types decide the kernel
/// @param weight   of each feature, row_major where the features have several axes
/// @param bias     as long as weight
/// @param eps      finite, not negative
/// @param memory   twice as long as weight; must live as long as the result
/// @return the integers; shape_mismatch of bias and storage; the errors of arith::layer_norm_scale() and
///         arith::make_layer_norm()
template <class TargetType>
requires arith::Target<TargetType>
constexpr Result<LayerNormNumbers> make_layer_norm(const arith::CodesOf& in, const arith::CodesOf& out,
                                                   std::span<const float> weight, std::span<const float> bias,
                                                   double eps, std::span<std::int32_t> memory) noexcept {
    return detail::make_norm_numbers<TargetType>(in, out, weight, bias, eps, true, memory);
}

/// The same for an RMS norm, which has no bias: layer_norm() then divides by the root mean square.
template <class TargetType>
requires arith::Target<TargetType>
constexpr Result<LayerNormNumbers> make_rms_norm(const arith::CodesOf& in, const arith::CodesOf& out,
                                                 std::span<const float> weight, double eps,
                                                 std::span<std::int32_t> memory) noexcept {
    return detail::make_norm_numbers<TargetType>(in, out, weight, {}, eps, false, memory);
}

/// @return ok; shape_mismatch of output, with the first extents that differ; value_out_of_range of axis if the features
///         are not the last axes; shape_mismatch of bias; the errors of arith::check_layer_norm_params()
template <class TargetType, CodeView X, CodeView Out>
requires arith::Target<TargetType> && SameCodes<X, Out>
constexpr Status check_layer_norm(const X& x, const LayerNormNumbers& numbers, const Out& out) noexcept {
    constexpr OpKind op = OpKind::layer_norm;
    constexpr DType dtype = dtype_of<typename X::value_type>;
    if (const Status status = detail::check_extents(x.shape(), out.shape(), op, Field::output); !status) return status;
    const auto count = static_cast<index_t>(numbers.weight.size());
    if (count == 0 || !detail::are_last_in_memory(x, count))
        return {StatusCode::value_out_of_range, op, Field::axis, count, x.extent(X::rank - 1)};
    if (numbers.bias.size() != numbers.weight.size())
        return {StatusCode::shape_mismatch, op, Field::bias, static_cast<index_t>(numbers.bias.size()), count};
    return arith::check_layer_norm_params(TargetType::policy, numbers.params, dtype, dtype, count);
}

/// Normalizes the features of each place: the last axes of row_major views, the channels of channels_last ones.
///
///     out = requantize((x - m) / sqrt(mean((x - m)²) + eps) · weight + bias)
///
/// m is the mean of the features, and 0 for an RMS norm.
///
/// @tparam TargetType  the arithmetic contract; see arith/target.hpp
/// @param x        int8 or int16 codes, row_major or channels_last
/// @param numbers  made by make_layer_norm() or make_rms_norm() for the same target and types
/// @param out      shaped, ordered and typed as x; may be x
/// @pre   check_layer_norm()
///
/// Result   exact by the formulas of arith/layer_norm.hpp; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(n)
/// Source   docs/arithmetic.md section 4
template <class TargetType, CodeView X, CodeOutput Out>
requires arith::Target<TargetType> && SameCodes<X, Out>
void layer_norm(const X& x, const LayerNormNumbers& numbers, const Out& out,
                const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_layer_norm<TargetType>(x, numbers, out).ok());
    using Code = typename Out::value_type;
    const auto count = static_cast<index_t>(numbers.weight.size());
    layer_norm_codes<arith::RequantizePolicy<TargetType, std::int32_t>, Code, Code>({.params = &numbers.params,
                                                                                     .weight = numbers.weight.data(),
                                                                                     .bias = numbers.bias.data(),
                                                                                     .x = x.data(),
                                                                                     .y = out.data(),
                                                                                     .samples = x.size() / count,
                                                                                     .count = count,
                                                                                     .executor = &executor});
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_VIEWS_LAYER_NORM_HPP
