// SPDX-License-Identifier: MIT
//
// Oracle, part 10: the product of two matrices of codes, docs/arithmetic.md section 4, matmul. Over the mathematical
// integers, one matrix at a time. Layer: tests/reference (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_MATMUL_HPP
#define INTQ_TESTS_REFERENCE_MATMUL_HPP

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "requantize.hpp"

namespace intq_reference {

/// y[i, j] = requantize(sum_k (a[i, k] - zp_a)·(b[k, j] - zp_b)); i < rows, j < columns, k < inner.
struct Matmul {
    std::int64_t rows = 1;
    std::int64_t columns = 1;
    std::int64_t inner = 1;
    QParams a;
    QParams b;
    QParams out;

    /// s_acc, in float32 on every target.
    float scale() const { return fmul(a.scale, b.scale); }
};

/// n·lo … n·hi, with lo and hi the least and the largest product of two codes less their zero points.
struct MatmulRange {
    wide lowest = 0;
    wide highest = 0;
};

inline MatmulRange matmul_range(const QParams& a, const QParams& b, wide n) {
    wide lo = power_of_two(100);
    wide hi = -power_of_two(100);
    for (const std::int64_t x : {a.qmin, a.qmax}) {
        for (const std::int64_t y : {b.qmin, b.qmax}) {
            const wide product = (wide{x} - a.zero_point) * (wide{y} - b.zero_point);
            lo = product < lo ? product : lo;
            hi = product > hi ? product : hi;
        }
    }
    return {n * lo, n * hi};
}

/// Refuses n below 1 or above 2^30, and a bound that leaves 32 bits (int8), 2^53 (int16 on fp32) or 2^47 - 1 (int16 on
/// the tflite family).
inline void refuse_matmul_sum(const Target& target, const QParams& a, const QParams& b, wide n) {
    refuse_activation(target, a);
    refuse_activation(target, b);
    if (a.bits != b.bits || (a.bits != 8 && a.bits != 16)) {
        throw Refused("matmul: the operands have one type, int8 or int16");
    }
    if (n < 1 || n > power_of_two(30)) {
        throw Refused("matmul: 1 to 2^30 products, not " + to_text(n));
    }
    const MatmulRange range = matmul_range(a, b, n);
    const auto leaves = [&](wide lowest, wide highest) { return range.lowest < lowest || range.highest > highest; };
    const bool is_refused = a.bits == 8
                                ? leaves(-power_of_two(31), power_of_two(31) - 1)
                                : (target.kind == Target::Kind::fp32 && leaves(-power_of_two(53), power_of_two(53))) ||
                                      (target.is_tflite() && leaves(1 - power_of_two(47), power_of_two(47) - 1));
    if (is_refused) {
        throw Refused("matmul: a sum of " + to_text(n) + " products can be " + to_text(range.lowest) + " or " +
                      to_text(range.highest));
    }
}

inline bool is_normal_and_positive(float x) { return x > 0.0F && std::fpclassify(x) == FP_NORMAL; }

/// Refuses what the rule of the target cannot scale, section 2: a ratio, or a sum that the proof allows.
inline void refuse_matmul_scales(const Target& target, const Matmul& layer) {
    refuse_activation(target, layer.out);
    if (!is_normal_and_positive(layer.scale())) {
        throw Refused("matmul: an s_acc that is not normal");
    }
    const float ratio = fp32_ratio(layer.scale(), 1.0F, layer.out);
    if (target.kind == Target::Kind::fp32 && (!(ratio > 0.0F) || std::isinf(ratio))) {
        throw Refused("fp32: a scale that is 0 or infinite in float32");
    }
    if (target.is_bpu() && !is_normal_and_positive(ratio)) {
        throw Refused("bpu: a ratio that is not normal");
    }
    const MatmulRange range = matmul_range(layer.a, layer.b, layer.inner);
    for (const wide acc : {range.lowest, range.highest}) {
        requantize_accumulator(target, acc, layer.scale(), 1.0F, layer.a.bits, layer.out);
    }
}

inline void refuse_matmul(const Target& target, const Matmul& layer) {
    refuse_matmul_sum(target, layer.a, layer.b, layer.inner);
    if (layer.out.bits != layer.a.bits) {
        throw Refused("matmul: the output has the type of the operands");
    }
    refuse_matmul_scales(target, layer);
}

/// acc of one matrix, row-major.
/// @param a, b  (rows, inner) and (inner, columns), row-major; codes, zero point included
inline std::vector<wide> matmul_accumulators(const Matmul& layer, const std::vector<std::int64_t>& a,
                                             const std::vector<std::int64_t>& b) {
    if (static_cast<std::int64_t>(a.size()) != layer.rows * layer.inner ||
        static_cast<std::int64_t>(b.size()) != layer.inner * layer.columns) {
        throw std::invalid_argument("oracle: matmul of other sizes");
    }
    std::vector<wide> sums;
    for (std::int64_t i = 0; i < layer.rows; ++i) {
        for (std::int64_t j = 0; j < layer.columns; ++j) {
            wide acc = 0;
            for (std::int64_t k = 0; k < layer.inner; ++k) {
                const wide x = a[static_cast<std::size_t>(i * layer.inner + k)];
                const wide y = b[static_cast<std::size_t>(k * layer.columns + j)];
                acc += (x - layer.a.zero_point) * (y - layer.b.zero_point);
            }
            sums.push_back(acc);
        }
    }
    return sums;
}

/// The code of one sum: as of the accumulator of a convolution without a bias.
inline std::int64_t matmul_code(const Target& target, const Matmul& layer, wide acc) {
    return requantize_accumulator(target, acc, layer.scale(), 1.0F, layer.a.bits, layer.out, Role::gemm);
}

/// The codes of one matrix, row-major.
inline std::vector<std::int64_t> matmul(const Target& target, const Matmul& layer, const std::vector<std::int64_t>& a,
                                        const std::vector<std::int64_t>& b) {
    refuse_matmul(target, layer);
    std::vector<std::int64_t> codes;
    for (const wide acc : matmul_accumulators(layer, a, b)) {
        codes.push_back(matmul_code(target, layer, acc));
    }
    return codes;
}

/// The element of an image that each element of a product's operand is, in its order.
///
///     x[offset + i0·steps[0] + i1·steps[1] + …],  the last index runs first
inline std::vector<std::int64_t> places_of(const std::vector<std::int64_t>& extents,
                                           const std::vector<std::int64_t>& steps, std::int64_t offset) {
    std::vector<std::int64_t> places{offset};
    for (std::size_t axis = 0; axis < extents.size(); ++axis) {
        std::vector<std::int64_t> next;
        for (const std::int64_t from : places) {
            for (std::int64_t i = 0; i < extents[axis]; ++i) {
                next.push_back(from + i * steps[axis]);
            }
        }
        places = next;
    }
    return places;
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_MATMUL_HPP
