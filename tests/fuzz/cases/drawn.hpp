// SPDX-License-Identifier: MIT
//
// What the cases of kernels draw: memory, scales, codes, sizes; and what a case gives. A seed draws the same case on
// every machine: a call has one argument that draws, and these units are compiled without contraction. No exceptions,
// for boards.
#ifndef INTQ_TESTS_FUZZ_CASES_DRAWN_HPP
#define INTQ_TESTS_FUZZ_CASES_DRAWN_HPP

#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "intq/kernels/operators/operator_table.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "kernels/drawn.hpp"

namespace intq::test::fuzz {

using kernels::KernelTable;
using Bytes = std::vector<unsigned char>;

struct Fault {
    const char* what;
};

/// The bytes of a case; none where the parameters are refused, or the table has no row; or a fault that bytes do not
/// show.
struct Outcome {
    std::optional<Bytes> bytes;
    const char* fault = nullptr;

    Outcome() = default;
    Outcome(Bytes given) : bytes(std::move(given)) {}
    Outcome(Fault found) : fault(found.what) {}
};

/// Random bytes beside a page without access, at one end or the other.
class Given {
public:
    Given(Draw& draw, index_t size) : buffer_(static_cast<std::size_t>(size), side(draw)) {
        for (index_t i = 0; i < size; ++i) bytes()[i] = static_cast<unsigned char>(draw.bits());
    }
    template <class T> T* as() { return buffer_.as<T>(); }
    unsigned char* bytes() { return buffer_.as<unsigned char>(); }
    static GuardedBuffer::Against side(Draw& draw) {
        return draw.one_in(2) ? GuardedBuffer::Against::end : GuardedBuffer::Against::begin;
    }

private:
    GuardedBuffer buffer_;
};

/// An output: what was written, and that nothing was written around it.
class Taken {
public:
    Taken(Draw& draw, index_t size) : buffer_(static_cast<std::size_t>(size), Given::side(draw)) {}
    template <class T> T* as() { return buffer_.as<T>(); }
    Bytes bytes() { return {as<unsigned char>(), as<unsigned char>() + buffer_.size()}; }
    Outcome outcome() {
        if (!buffer_.is_intact()) return Fault{"wrote around its output"};
        return bytes();
    }

private:
    GuardedBuffer buffer_;
};

inline float draw_scale(Draw& draw) {
    const int exponent = static_cast<int>(draw.one_in(12) ? draw.extent(-126, 100) : draw.extent(-12, 4));
    return std::ldexp(draw.real(0.5f, 1.0f), exponent);
}
/// Near another one mostly, so that results are not all at the ends.
inline float draw_scale_near(Draw& draw, float scale) {
    return draw.one_in(8) ? draw_scale(draw) : scale * draw.real(0.2f, 5.0f);
}

struct Drawn {
    DType dtype;
    index_t element;
    bool has_zero_points;

    Drawn(Draw& draw, const KernelTable& table)
        : dtype(draw.one_in(3) ? DType::int16 : DType::int8),
          element(size_of(dtype)),
          has_zero_points(table.policy().zero_points) {}
    arith::CodesOf codes(Draw& draw, float scale) const {
        const auto zero_point = draw_code(draw, lowest_code(dtype), highest_code(dtype));
        return {scale, has_zero_points ? static_cast<std::int32_t>(zero_point) : 0, dtype};
    }
    arith::OutputCodes clamp(Draw& draw, const arith::CodesOf& out) const {
        if (!draw.one_in(4))
            return arith::make_output_codes(lowest_code(dtype), highest_code(dtype), out.zero_point, out.scale,
                                            static_cast<Activation>(draw.between(0, 2)));
        const std::int64_t low = draw.between(lowest_code(dtype), highest_code(dtype));
        return {out.zero_point, static_cast<std::int32_t>(low),
                static_cast<std::int32_t>(draw.between(low, highest_code(dtype)))};
    }
};

inline index_t draw_size(Draw& draw) { return draw.one_in(6) ? draw.extent(0, 40000) : draw.extent(0, 300); }

template <class Row, class Matches> const Row* find(std::span<const Row> rows, Matches&& matches) {
    for (const Row& row : rows)
        if (matches(row)) return &row;
    return nullptr;
}

}  // namespace intq::test::fuzz

#endif  // INTQ_TESTS_FUZZ_CASES_DRAWN_HPP
