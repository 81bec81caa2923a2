// SPDX-License-Identifier: MIT
//
// Float resizing of images. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_RESIZE_HPP
#define INTQ_NN_FLOAT_OPERATORS_RESIZE_HPP

#include <optional>
#include <string>
#include <vector>

#include "intq/arith/resize.hpp"
#include "intq/core/op_params.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

using arith::Resize;
using arith::ResizeOrigin;

/// Factors of height and width, and whose rule they follow.
struct ScaleFactor {
    double height = 1;
    double width = 1;
    ResizeOrigin origin = ResizeOrigin::torch_factor;
    friend bool operator==(const ScaleFactor&, const ScaleFactor&) = default;
};

/// Either the size of the result or the factors; with factors the size is fl(in · factor).
///
/// With a factor, an output cell lies at d / factor and not at d · in / out, as in PyTorch unless
/// recompute_scale_factor is set; the two differ where in · factor is not an integer. The cells are those of
/// arith::resize_tap(), by the rule of the factor's origin.
struct InterpolateOptions {
    std::optional<Size2d> size{};
    std::optional<ScaleFactor> scale_factor{};
    Resize rule = Resize::nearest;
};

/// "nearest", "nearest-exact", "bilinear", as PyTorch writes them. Throws for another one, and for align_corners
/// without bilinear.
Resize resize_rule(const std::string& mode, bool align_corners);

/// The scales of the two axes, as the table of a resize takes them.
arith::ResizeScales resize_scales(const InterpolateOptions& options);

/// Throws for options that fit no image: both a size and a factor or neither, an extent outside 1 to
/// arith::largest_resized, a factor that is not positive and finite.
void check_interpolate_options(const InterpolateOptions& options);

/// The size of the result.
///
/// @throws Error where it is empty or beyond arith::largest_resized; for corners that ONNX does not align
Size2d interpolated_size(const InterpolateOptions& options, Size2d in);

/// Resizes images.
///
///     nearest        cell fl(d·in/out)                    nearest_exact  cell fl((d + 1/2)·in/out)
///     nearest_half_down  as nearest_exact, and of two cells that are as near the first; ONNX's default
///     half_pixel     between the two cells around (d + 1/2)·in/out - 1/2
///     align_corners  between the two cells around d·(in - 1)/(out - 1)
///
/// @param x  (N, C, H, W)
///
/// Result   bilinear in double, rounded once; nearest copies, and keeps per-tensor qparams
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

/// The cells around an output cell along one axis, and the share of the second.
struct Tap {
    index_t first, second;
    double weight;
};

/// The taps of each row and each column of the result.
struct Taps {
    std::vector<Tap> rows, columns;
};
Taps interpolation_taps(const InterpolateOptions& options, Size2d in);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <algorithm>
#    include <cmath>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/axes.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The real place of an output cell of a bilinear rule.
INTQ_INLINE double real_position(Resize rule, index_t d, index_t in, index_t out, const arith::ResizeScale& scale) {
    const auto at = static_cast<double>(d), from = static_cast<double>(in), to = static_cast<double>(out);
    if (rule == Resize::align_corners) return out > 1 ? at * (from - 1) / (to - 1) : 0.0;
    if (scale.origin != arith::ResizeOrigin::extents)
        return static_cast<double>(arith::factor_position(scale, d, in, out));
    return (std::max)(arith::dmul(at + 0.5, from / to) - 0.5, 0.0);
}

// Along one axis. Nearest cells are the same as for codes.
INTQ_INLINE std::vector<Tap> real_taps(Resize rule, index_t in, index_t out, const arith::ResizeScale& scale) {
    std::vector<Tap> taps;
    for (index_t d = 0; d < out; ++d) {
        if (arith::is_nearest(rule)) {
            const index_t cell = arith::resize_tap(rule, d, in, out, scale).first;
            taps.push_back({cell, cell, 0.0});
            continue;
        }
        const double position = real_position(rule, d, in, out, scale);
        const index_t first = std::clamp<index_t>(static_cast<index_t>(position), 0, in - 1);
        taps.push_back({first, (std::min)(first + 1, in - 1), position - static_cast<double>(first)});
    }
    return taps;
}

INTQ_INLINE float blend(const float* plane, index_t width, const Tap& row, const Tap& column) {
    if (row.weight == 0.0 && column.weight == 0.0) return plane[row.first * width + column.first];
    const auto cell = [&](index_t h, index_t w) { return static_cast<double>(plane[h * width + w]); };
    const auto mix = [&](index_t h) {
        return arith::dmul(cell(h, column.first), 1.0 - column.weight) +
               arith::dmul(cell(h, column.second), column.weight);
    };
    return static_cast<float>(arith::dmul(mix(row.first), 1.0 - row.weight) + arith::dmul(mix(row.second), row.weight));
}

}  // namespace detail

INTQ_INLINE Resize resize_rule(const std::string& mode, bool align_corners) {
    if (mode == "bilinear") return align_corners ? Resize::align_corners : Resize::half_pixel;
    if (align_corners) throw Error("interpolate: align_corners has a meaning with bilinear only, given " + mode);
    if (mode == "nearest") return Resize::nearest;
    if (mode == "nearest-exact") return Resize::nearest_exact;
    throw Error("interpolate: the modes are nearest, nearest-exact and bilinear, given \"" + mode + "\"");
}

INTQ_INLINE arith::ResizeScales resize_scales(const InterpolateOptions& options) {
    if (!options.scale_factor) return {};
    const ScaleFactor& factor = *options.scale_factor;
    return {{factor.origin, factor.height}, {factor.origin, factor.width}};
}

INTQ_INLINE void check_interpolate_options(const InterpolateOptions& options) {
    if (options.size.has_value() == options.scale_factor.has_value())
        throw Error("interpolate: either a size or a scale factor is needed");
    const auto given = [](auto height, auto width) { return std::to_string(height) + " x " + std::to_string(width); };
    if (options.size)
        for (const index_t extent : {options.size->height, options.size->width})
            if (extent < 1 || extent > arith::largest_resized)
                throw Error("interpolate: extents must be 1 to " + std::to_string(arith::largest_resized) + ", given " +
                            given(options.size->height, options.size->width));
    const auto is_factor = [](double factor) { return factor > 0.0 && std::isfinite(factor); };
    if (options.scale_factor && !(is_factor(options.scale_factor->height) && is_factor(options.scale_factor->width)))
        throw Error("interpolate: the factors must be positive and finite, given " +
                    given(options.scale_factor->height, options.scale_factor->width));
}

INTQ_INLINE Size2d interpolated_size(const InterpolateOptions& options, Size2d in) {
    check_interpolate_options(options);
    const arith::ResizeScales scales = resize_scales(options);
    const Size2d out = options.size.value_or(
        Size2d{arith::resized_extent(scales.height, in.height), arith::resized_extent(scales.width, in.width)});
    for (const index_t extent : {in.height, in.width, out.height, out.width})
        if (extent < 1 || extent > arith::largest_resized)
            throw Error("interpolate: extents must be 1 to " + std::to_string(arith::largest_resized) + ", given " +
                        std::to_string(in.height) + " x " + std::to_string(in.width) + " to " +
                        std::to_string(out.height) + " x " + std::to_string(out.width));
    if (options.rule == Resize::align_corners &&
        !(arith::aligns_corners(scales.height, in.height) && arith::aligns_corners(scales.width, in.width)))
        throw Error("interpolate: align_corners with ONNX's scales " + std::to_string(scales.height.factor) + " and " +
                    std::to_string(scales.width.factor) + " needs whole sizes, given " + std::to_string(in.height) +
                    " x " + std::to_string(in.width) + "; give the sizes instead");
    return out;
}

INTQ_INLINE Taps interpolation_taps(const InterpolateOptions& options, Size2d in) {
    const Size2d out = interpolated_size(options, in);
    const arith::ResizeScales scales = arith::scales_between(resize_scales(options), in, out);
    return {detail::real_taps(options.rule, in.height, out.height, scales.height),
            detail::real_taps(options.rule, in.width, out.width, scales.width)};
}

INTQ_INLINE Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
    if (x.rank() != 4) throw Error("interpolate: the input must have rank 4, given " + to_string(x.shape()));
    const Size2d in{x.extent(2), x.extent(3)};
    x.expect_dtype("flat", DType::float32);
    if (detail::is_of_shapes(x)) {
        const Size2d out = interpolated_size(options, in);
        Tensor y = Tensor::of_shape(Shape(x.extent(0), x.extent(1), out.height, out.width));
        if (arith::is_nearest(options.rule)) detail::keep_qparams(x, y);
        return y;
    }
    const Taps taps = interpolation_taps(options, in);
    const Tensor input = x.contiguous();
    Tensor y = Tensor::empty(Shape(x.extent(0), x.extent(1), static_cast<index_t>(taps.rows.size()),
                                   static_cast<index_t>(taps.columns.size())));
    const float* plane = input.flat<float>().data();
    float* to = y.flat<float>().data();
    for (index_t p = 0; p < x.extent(0) * x.extent(1); ++p, plane += in.height * in.width)
        for (const Tap& row : taps.rows)
            for (const Tap& column : taps.columns) *to++ = detail::blend(plane, in.width, row, column);
    if (arith::is_nearest(options.rule)) detail::keep_qparams(x, y);
    return y;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_RESIZE_HPP
