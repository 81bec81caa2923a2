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

/// Factors of height and width.
struct ScaleFactor {
    double height = 1;
    double width = 1;
    friend bool operator==(const ScaleFactor&, const ScaleFactor&) = default;
};

/// Either the size of the result or the factors; with factors the size is fl(in · factor).
///
/// Where a factor is given, an output cell lies at d / factor and not at d · in / out, as in PyTorch unless
/// recompute_scale_factor is set; the two differ where in · factor is not an integer.
struct InterpolateOptions {
    std::optional<Size2d> size{};
    std::optional<ScaleFactor> scale_factor{};
    Resize rule = Resize::nearest;
};

/// "nearest", "nearest-exact", "bilinear", as PyTorch writes them. Throws for another one, and for align_corners
/// without bilinear.
Resize resize_rule(const std::string& mode, bool align_corners);

/// The size of the result.
Size2d interpolated_size(const InterpolateOptions& options, Size2d in);

/// Resizes images.
///
///     nearest        cell fl(d·in/out)                    nearest_exact  cell fl((d + 1/2)·in/out)
///     half_pixel     between the two cells around (d + 1/2)·in/out - 1/2
///     align_corners  between the two cells around d·(in - 1)/(out - 1)
///
/// @param x  (N, C, H, W)
///
/// Result   bilinear in double, rounded once; nearest copies, and keeps per-tensor qparams
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

/// The cells around an output cell along one axis, and the part of the second.
struct Tap {
    index_t first, second;
    double weight;
};

/// Of each row and each column of the result.
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

INTQ_INLINE Tap real_tap(Resize rule, index_t d, index_t in, index_t out, double step) {
    const auto at = static_cast<double>(d);
    const auto inside = [in](double cell) {
        return std::clamp<index_t>(static_cast<index_t>(std::floor(cell)), 0, in - 1);
    };
    double position = 0;
    if (rule == Resize::nearest || rule == Resize::nearest_exact) {
        const index_t cell = inside(rule == Resize::nearest ? at * step : (at + 0.5) * step);
        return {cell, cell, 0.0};
    }
    if (rule == Resize::half_pixel) {
        position = std::max((at + 0.5) * step - 0.5, 0.0);
    } else if (out > 1) {
        position = at * static_cast<double>(in - 1) / static_cast<double>(out - 1);
    }
    const index_t first = inside(position);
    return {first, std::min(first + 1, in - 1), position - static_cast<double>(first)};
}

// Along one axis. Nearest cells by in and out are whole numbers, so that they are taken from the exact rule.
INTQ_INLINE std::vector<Tap> real_taps(Resize rule, index_t in, index_t out, std::optional<double> factor) {
    const bool by_extents = !factor || static_cast<double>(in) * *factor == static_cast<double>(out);
    const double step = by_extents ? static_cast<double>(in) / static_cast<double>(out) : 1.0 / *factor;
    std::vector<Tap> taps;
    for (index_t d = 0; d < out; ++d)
        if (by_extents && (rule == Resize::nearest || rule == Resize::nearest_exact)) {
            const index_t cell = arith::resize_tap(rule, d, in, out).first;
            taps.push_back({cell, cell, 0.0});
        } else {
            taps.push_back(real_tap(rule, d, in, out, step));
        }
    return taps;
}

INTQ_INLINE float blend(const float* plane, index_t width, const Tap& row, const Tap& column) {
    if (row.weight == 0.0 && column.weight == 0.0) return plane[row.first * width + column.first];
    const auto cell = [&](index_t h, index_t w) { return static_cast<double>(plane[h * width + w]); };
    const auto mix = [&](index_t h) {
        return cell(h, column.first) * (1.0 - column.weight) + cell(h, column.second) * column.weight;
    };
    return static_cast<float>(mix(row.first) * (1.0 - row.weight) + mix(row.second) * row.weight);
}

}  // namespace detail

INTQ_INLINE Resize resize_rule(const std::string& mode, bool align_corners) {
    if (mode == "bilinear") return align_corners ? Resize::align_corners : Resize::half_pixel;
    if (align_corners) throw Error("interpolate: align_corners has a meaning with bilinear only, given " + mode);
    if (mode == "nearest") return Resize::nearest;
    if (mode == "nearest-exact") return Resize::nearest_exact;
    throw Error("interpolate: the modes are nearest, nearest-exact and bilinear, given \"" + mode + "\"");
}

INTQ_INLINE Size2d interpolated_size(const InterpolateOptions& options, Size2d in) {
    if (options.size.has_value() == options.scale_factor.has_value())
        throw Error("interpolate: either a size or a scale factor is needed");
    Size2d out = options.size.value_or(Size2d{});
    if (options.scale_factor) {
        const auto scaled = [](index_t extent, double factor) {
            const double wanted = std::floor(static_cast<double>(extent) * factor);
            return wanted >= 1 && wanted <= static_cast<double>(arith::largest_resized) ? static_cast<index_t>(wanted)
                                                                                        : index_t{0};
        };
        out = {scaled(in.height, options.scale_factor->height), scaled(in.width, options.scale_factor->width)};
    }
    for (const index_t extent : {in.height, in.width, out.height, out.width})
        if (extent < 1 || extent > arith::largest_resized)
            throw Error("interpolate: extents must be 1 to " + std::to_string(arith::largest_resized) + ", given " +
                        std::to_string(in.height) + " x " + std::to_string(in.width) + " to " +
                        std::to_string(out.height) + " x " + std::to_string(out.width));
    return out;
}

INTQ_INLINE Taps interpolation_taps(const InterpolateOptions& options, Size2d in) {
    const Size2d out = interpolated_size(options, in);
    const auto factor = [&](double ScaleFactor::*side) {
        return options.scale_factor ? std::optional((*options.scale_factor).*side) : std::nullopt;
    };
    return {detail::real_taps(options.rule, in.height, out.height, factor(&ScaleFactor::height)),
            detail::real_taps(options.rule, in.width, out.width, factor(&ScaleFactor::width))};
}

INTQ_INLINE Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
    if (x.rank() != 4) throw Error("interpolate: the input must have rank 4, given " + to_string(x.shape()));
    const Size2d in{x.extent(2), x.extent(3)};
    const Taps taps = interpolation_taps(options, in);
    const Tensor input = x.contiguous();
    Tensor y = Tensor::empty(Shape(x.extent(0), x.extent(1), static_cast<index_t>(taps.rows.size()),
                                   static_cast<index_t>(taps.columns.size())));
    const float* plane = input.flat<float>().data();
    float* to = y.flat<float>().data();
    for (index_t p = 0; p < x.extent(0) * x.extent(1); ++p, plane += in.height * in.width)
        for (const Tap& row : taps.rows)
            for (const Tap& column : taps.columns) *to++ = detail::blend(plane, in.width, row, column);
    if (options.rule == Resize::nearest || options.rule == Resize::nearest_exact) detail::keep_qparams(x, y);
    return y;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_RESIZE_HPP
