// SPDX-License-Identifier: MIT
//
// A product of two operands with all its numbers, drawn from a seed, as the oracle and as the library take it.
#ifndef INTQ_TESTS_KERNELS_MATMUL_PROBLEM_HPP
#define INTQ_TESTS_KERNELS_MATMUL_PROBLEM_HPP

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "intq/kernels/matmul/matmul_call.hpp"
#include "kernels/oracle_bridge.hpp"
#include "reference/matmul.hpp"

namespace intq::test {

/// How the codes of an operand lie in its image.
enum class Lie {
    plain,       // in the order in which they are read
    exchanged,   // the last two axes exchanged
    slice,       // some columns of a wider matrix
    heads,       // the matrices interleaved: (T, h, d) read as (h, T, d)
    backwards,   // steps below 0
    repeated,    // steps of 0: several matrices, lines or columns are one
    gapped,      // some elements apart
    flat,        // in their order, as one axis
    straddling,  // axes that are not those of the matrices
    count_
};

struct Axis {
    index_t extent, step;
};

/// Any axes of `size` elements together.
inline std::vector<Axis> straddling_axes(Draw& draw, index_t size) {
    std::vector<Axis> axes;
    for (int axis = 1; axis < max_rank; ++axis) {
        index_t extent = draw.between(1, std::min<index_t>(size, 12));
        while (size % extent != 0) --extent;
        axes.push_back({extent, draw.between(-40, 40)});
        size /= extent;
    }
    axes.push_back({size, draw.between(-3, 3)});
    return axes;
}

/// The axes of an operand of `count` matrices, whose lines have `inner` elements.
inline std::vector<Axis> lying_axes(Draw& draw, Lie lie, index_t count, index_t lines, index_t inner) {
    if (lie == Lie::flat) return {{count * lines * inner, 1}};
    if (lie == Lie::straddling) return straddling_axes(draw, count * lines * inner);
    const bool is_exchanged = lie == Lie::exchanged || (lie != Lie::plain && draw.one_in(2));
    const index_t dense = is_exchanged ? lines : inner, other = is_exchanged ? inner : lines;
    const index_t width = dense + (lie == Lie::slice ? draw.between(1, 9) : 0);
    const index_t unit = lie == Lie::gapped ? draw.between(2, 3) : 1;
    const bool is_interleaved = lie == Lie::heads;
    const index_t far = (is_interleaved ? count * dense : width) * unit;
    const index_t matrix = is_interleaved ? dense : other * width * unit;
    std::vector<Axis> axes{{count, matrix}, {lines, is_exchanged ? unit : far}, {inner, is_exchanged ? far : unit}};
    if (lie != Lie::backwards && lie != Lie::repeated) return axes;
    const auto changed = draw.between(1, 7);  // at least one of the three axes
    for (std::size_t axis = 0; axis < 3; ++axis)
        if ((changed >> axis & 1) != 0) axes[axis].step *= lie == Lie::backwards ? -1 : 0;
    return axes;
}

struct MatmulOperand {
    Codes codes;
    kernels::MoveParams places;
    index_t image = 0;            // elements of an image
    std::vector<std::int64_t> x;  // of all images

    /// What is read of an image, in its order.
    std::vector<std::int64_t> read(index_t at) const {
        const std::vector<std::int64_t> extents(places.extents, places.extents + places.rank);
        const std::vector<std::int64_t> steps(places.steps, places.steps + places.rank);
        std::vector<std::int64_t> codes_read;
        for (const std::int64_t place : oracle::places_of(extents, steps, places.offset))
            codes_read.push_back(x[static_cast<std::size_t>(at * image + place)]);
        return codes_read;
    }
};

/// Places and image of an operand with these axes. Some axes become two, and some have one element.
inline void place(Draw& draw, std::vector<Axis> axes, MatmulOperand& operand) {
    for (std::size_t i = 0; i < axes.size() && axes.size() < max_rank; ++i) {
        if (axes[i].extent % 2 == 0 && draw.one_in(4)) {
            axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(i), {axes[i].extent / 2, 2 * axes[i].step});
            axes[++i].extent = 2;
        } else if (draw.one_in(16)) {
            axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(i++), {1, draw.between(-1000000, 1000000)});
        }
    }
    index_t lowest = 0, highest = 0;
    operand.places.rank = static_cast<int>(axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i) {
        operand.places.extents[i] = axes[i].extent;
        operand.places.steps[i] = axes[i].step;
        (axes[i].step < 0 ? lowest : highest) += axes[i].step * (axes[i].extent - 1);
    }
    operand.places.offset = draw.between(0, 5) - lowest;
    operand.image = operand.places.offset + highest + 1 + draw.between(0, 5);
}

struct MatmulProblem {
    DType dtype = DType::int8;
    index_t batch = 1, count = 1, rows = 1, columns = 1, inner = 1;
    MatmulOperand operands[2];
    Codes out;
    std::int64_t lowest = 0, highest = 0;  // the clamp
    std::vector<oracle::wide> sums;        // in the order of the output

    index_t size() const { return batch * count * rows * columns; }
    kernels::MatmulShape shape() const { return {rows, columns, inner, {operands[0].places, operands[1].places}}; }
    arith::OutputCodes output_codes() const {
        return {out.zero_point, static_cast<std::int32_t>(lowest), static_cast<std::int32_t>(highest)};
    }
    /// With the whole range of codes; the clamp comes behind.
    oracle::Matmul for_oracle() const {
        return {rows, columns, inner, operands[0].codes.for_oracle(), operands[1].codes.for_oracle(), out.for_oracle()};
    }
    std::string label() const {
        return std::to_string(batch) + "x" + std::to_string(count) + "x" + std::to_string(rows) + "x" +
               std::to_string(columns) + "x" + std::to_string(inner) + ", zero points " +
               std::to_string(operands[0].codes.zero_point) + " and " + std::to_string(operands[1].codes.zero_point);
    }
};

/// The sums of a problem, of which the codes and their places are known.
inline std::vector<oracle::wide> sums_of(const MatmulProblem& p) {
    std::vector<oracle::wide> sums;
    const auto a_size = static_cast<std::ptrdiff_t>(p.rows * p.inner),
               b_size = static_cast<std::ptrdiff_t>(p.columns * p.inner);
    for (index_t image = 0; image < p.batch; ++image) {
        const auto all_a = p.operands[0].read(image), all_b = p.operands[1].read(image);
        for (std::ptrdiff_t m = 0; m < p.count; ++m) {
            const std::vector<std::int64_t> a(all_a.begin() + m * a_size, all_a.begin() + (m + 1) * a_size);
            std::vector<std::int64_t> b;  // (k, j), as the page has it
            for (index_t k = 0; k < p.inner; ++k)
                for (index_t j = 0; j < p.columns; ++j)
                    b.push_back(all_b[static_cast<std::size_t>(m * b_size + j * p.inner + k)]);
            const auto of_matrix = oracle::matmul_accumulators(p.for_oracle(), a, b);
            sums.insert(sums.end(), of_matrix.begin(), of_matrix.end());
        }
    }
    return sums;
}

/// Codes that are drawn, all the lowest, all the highest, or of both ends.
inline void fill(Draw& draw, index_t batch, MatmulOperand& operand) {
    const auto kind = draw.between(0, 7);
    const std::int64_t low = operand.codes.lowest(), high = operand.codes.highest();
    for (index_t i = 0; i < batch * operand.image; ++i)
        operand.x.push_back(kind == 0   ? low
                            : kind == 1 ? high
                            : kind == 2 ? (draw.one_in(2) ? low : high)
                            : kind == 3 ? draw.between(low, high)
                                        : draw_code(draw, low, high));
}

inline std::int32_t draw_zero_point(Draw& draw, const Codes& codes) {
    const auto kind = draw.between(0, 4);
    return static_cast<std::int32_t>(kind == 0   ? 0
                                     : kind == 1 ? codes.lowest()
                                     : kind == 2 ? codes.highest()
                                                 : draw.between(codes.lowest(), codes.highest()));
}

/// Extents around the widths of vectors and tiles.
inline void draw_extents(Draw& draw, MatmulProblem& p) {
    constexpr index_t units[] = {4, 8, 16, 32, 64, 128};
    p.rows = draw.between(1, 40);
    p.columns = draw.one_in(2) ? draw.between(1, 140) : units[draw.between(0, 5)] + draw.between(-1, 1);
    p.inner = draw.one_in(12)  ? 700
              : draw.one_in(2) ? draw.between(1, 70)
                               : units[draw.between(0, 4)] + draw.between(-1, 1);
    p.batch = draw.between(1, 3);
    p.count = draw.between(1, 4);
    constexpr index_t most = 200'000;  // products: the oracle takes its time
    while (p.size() * p.inner > most && p.batch > 1) --p.batch;
    while (p.size() * p.inner > most && p.count > 1) --p.count;
    while (p.size() * p.inner > 2 * most) p.rows = (p.rows + 1) / 2;
}

/// A scale of the output with which most codes lie within their range, or, seldom, any.
inline float draw_output_scale(Draw& draw, const MatmulProblem& p) {
    double largest = 1.0;
    for (const oracle::wide sum : p.sums) largest = std::max(largest, std::fabs(static_cast<double>(sum)));
    const double steps = largest / static_cast<double>(highest_code(p.dtype));
    const auto power = draw.one_in(20) ? draw.between(-24, 10) : 0;
    return std::ldexp(p.operands[0].codes.scale * p.operands[1].codes.scale * static_cast<float>(steps) *
                          std::exp2(draw.real(-1.0f, 2.0f)),
                      static_cast<int>(power));
}

inline MatmulProblem draw_matmul(std::uint64_t seed, DType dtype, bool zero_points) {
    Draw draw(seed);
    MatmulProblem p;
    p.dtype = dtype;
    draw_extents(draw, p);
    for (int i = 0; i < 2; ++i) {
        MatmulOperand& operand = p.operands[i];
        operand.codes = {std::exp2(draw.real(-12.0f, -2.0f)), 0, dtype};
        if (zero_points) operand.codes.zero_point = draw_zero_point(draw, operand.codes);
        const auto lie = static_cast<Lie>(draw.between(0, static_cast<int>(Lie::count_) - 1));
        place(draw, lying_axes(draw, lie, p.count, i == 0 ? p.rows : p.columns, p.inner), operand);
        fill(draw, p.batch, operand);
    }
    p.sums = sums_of(p);
    p.out = {draw_output_scale(draw, p), 0, dtype};
    if (zero_points) p.out.zero_point = draw_zero_point(draw, p.out);
    p.lowest = p.out.lowest(), p.highest = p.out.highest();
    if (draw.one_in(3)) {
        p.lowest = draw.between(p.lowest, p.out.zero_point);
        p.highest = draw.between(p.out.zero_point, p.highest);
    }
    return p;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_KERNELS_MATMUL_PROBLEM_HPP
