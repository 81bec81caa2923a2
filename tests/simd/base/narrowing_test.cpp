// SPDX-License-Identifier: MIT
//
// What epilogues need beyond plain arithmetic: high products, rounding to int32, narrowing of four vectors,
// offset-binary. Against the scalar meaning of each, and within guarded memory.
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "intq/arith/requantize.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/odd_width.hpp"

namespace {

using intq::index_t;
using intq::test::GuardedBuffer;

template <class L> void rounding_saturates() {
    std::vector<float> values{0.0f,          0.5f,      -0.5f,      1.5f,        2.5f,     -2.5f,
                              2147483520.0f, 0x1p31f,   -0x1p31f,   -0x1.8p31f,  1e30f,    -1e30f,
                              INFINITY,      -INFINITY, 8388607.5f, -8388607.5f, 0x1p-149f};
    std::mt19937 bits(3);
    for (int i = 0; i < 4000; ++i)
        values.push_back(static_cast<float>(static_cast<std::int32_t>(bits())) * (i % 2 == 0 ? 0x1p-20f : 1.25f));
    const auto width = static_cast<std::size_t>(L::width());
    values.resize((values.size() + width - 1) / width * width, 1.5f);
    for (const int mode : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
        std::size_t wrong = 0;
        for (std::size_t at = 0; at < values.size(); at += width) {
            std::vector<std::int32_t> got(width);
            std::fesetround(mode);
            L::store(got.data(), L::round_to_i32(L::load(values.data() + at)), L::width());
            std::fesetround(FE_TONEAREST);
            for (std::size_t i = 0; i < width; ++i) {
                const double x = std::nearbyint(static_cast<double>(values[at + i]));
                wrong += static_cast<double>(got[i]) != std::fmin(std::fmax(x, -0x1p31), 2147483520.0);
            }
        }
        CHECK(wrong == 0);
    }
}

/// From memory to memory, as NearestMode asks.
template <class L> [[gnu::noinline]] void round_vector(const float* from, std::int32_t* to) {
    L::store(to, intq::simd::NearestLanes<L>::round_to_i32(L::load(from)));
}

template <class L> void nearest_mode_rounds_and_goes() {
    std::vector<float> values{0.0f, 0.5f, -0.5f, 1.5f, 2.5f, -2.5f, 0.49f, -1.51f, 0x1.fffffep30f, -0x1p31f};
    const auto width = static_cast<std::size_t>(L::width());
    values.resize((values.size() + width - 1) / width * width, 3.5f);
    for (const int mode : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
        std::vector<std::int32_t> got(values.size());
        std::fesetround(mode);
        {
            [[maybe_unused]] const intq::simd::NearestMode<L> nearest;
            for (std::size_t at = 0; at < values.size(); at += width) round_vector<L>(&values[at], &got[at]);
        }
        const volatile float one = 1.0f, tiny = 1e-30f;
        const float above = one + tiny, below = -one - tiny;
        std::fesetround(FE_TONEAREST);
        CHECK((above > 1.0f) == (mode == FE_UPWARD));
        CHECK((below < -1.0f) == (mode == FE_DOWNWARD));
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < values.size(); ++i)
            wrong += static_cast<double>(got[i]) != std::nearbyint(static_cast<double>(values[i]));
        CHECK(wrong == 0);
    }
}

/// clamp(code + zero_point, lowest, highest) in 64 bits.
std::int8_t expected_code(std::int32_t code, const intq::arith::OutputCodes& out) {
    const std::int64_t sum = std::int64_t{code} + out.zero_point;
    return static_cast<std::int8_t>(sum < out.lowest ? out.lowest : sum > out.highest ? out.highest : sum);
}

/// Codes of all sizes, a third of them at the ends of the narrower types.
std::vector<std::int32_t> draw_codes(std::mt19937& bits, std::size_t size) {
    const std::int32_t ends[] = {INT32_MIN, INT32_MAX, 32767, -32768, 32768, -32769, 127, -129, 0, 255, -256};
    std::vector<std::int32_t> codes(size);
    for (auto& code : codes)
        code = bits() % 3 == 0 ? ends[bits() % std::size(ends)] : static_cast<std::int32_t>(bits()) >> bits() % 32;
    return codes;
}

template <class L> void quads_conform() {
    constexpr index_t width = L::width();
    constexpr auto size = static_cast<std::size_t>(4 * width);
    std::mt19937 bits(5);
    for (const auto& [zero_point, lowest, highest] :
         {std::array{0, -128, 127}, {0, 0, 127}, {-128, -128, 127}, {127, -128, 127}, {-5, -5, 100}, {3, 3, 3}}) {
        intq::simd::unroll<4>([&](auto last_vector) {
            const intq::arith::OutputCodes out{zero_point, lowest, highest};
            const typename L::CodeQuad quad(zero_point, lowest, highest);
            for (index_t count = last_vector * width; count <= (last_vector + 1) * width; ++count) {
                const auto codes = draw_codes(bits, size);
                GuardedBuffer memory(static_cast<std::size_t>(count));
                [&]<int... V>(std::integer_sequence<int, V...>) {
                    quad.store(memory.as<std::int8_t>(), count, L::load(codes.data() + V * width)...);
                }
                (std::make_integer_sequence<int, last_vector + 1>{});
                std::size_t wrong = 0;
                for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
                    wrong += memory.as<std::int8_t>()[i] != expected_code(codes[i], out);
                CHECK(wrong == 0);
                CHECK(memory.is_intact());
            }
        });
        for (index_t count = 0; count <= 4 * width; ++count) {
            const intq::arith::OutputCodes out{zero_point, lowest, highest};
            const typename L::CodeQuad quad(zero_point, lowest, highest);
            const auto codes = draw_codes(bits, size);
            const auto vector = [&](index_t v) { return L::load(codes.data() + v * width); };
            if constexpr (requires { quad.store_runs(nullptr, vector(0), vector(0), vector(0), vector(0), 0); }) {
                GuardedBuffer dealt(static_cast<std::size_t>(count));
                quad.store_runs(dealt.as<std::int8_t>(), vector(0), vector(1), vector(2), vector(3), count);
                std::size_t misplaced = 0;
                for (index_t i = 0; i < count; ++i) {
                    // Runs of four go to the vectors in turn.
                    const index_t lane = i / 4 % 4 * width + i / 16 * 4 + i % 4;
                    misplaced +=
                        dealt.as<std::int8_t>()[i] != expected_code(codes[static_cast<std::size_t>(lane)], out);
                }
                CHECK(misplaced == 0);
                CHECK(dealt.is_intact());
            }
        }
    }
}

/// Two or four rows at once, where a backend narrows them together.
template <class L, std::size_t Rows> void rows_conform() {
    constexpr index_t row_width = 4 * L::width() / index_t{Rows};
    const intq::arith::OutputCodes out{-5, -100, 100};
    const typename L::CodeQuad quad(out.zero_point, out.lowest, out.highest);
    std::mt19937 bits(7);
    for (index_t count = 1; count <= row_width; ++count) {
        const auto codes = draw_codes(bits, static_cast<std::size_t>(4 * L::width()));
        const auto vector = [&](index_t v) { return L::load(codes.data() + v * L::width()); };
        const typename L::i32 code[] = {vector(0), vector(1), vector(2), vector(3)};
        std::deque<GuardedBuffer> rows;
        for (std::size_t r = 0; r < Rows; ++r) rows.emplace_back(static_cast<std::size_t>(count));
        std::int8_t* to[Rows];
        for (std::size_t r = 0; r < Rows; ++r) to[r] = rows[r].template as<std::int8_t>();
        quad.store_rows(to, count, code);
        std::size_t wrong = 0;
        for (std::size_t r = 0; r < Rows; ++r) {
            for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
                wrong += to[r][i] != expected_code(codes[r * static_cast<std::size_t>(row_width) + i], out);
            CHECK(rows[r].is_intact());
        }
        CHECK(wrong == 0);
    }
}

template <class L> void flips_conform() {
    for (index_t size = 0; size < 200; ++size) {
        const auto count = static_cast<std::size_t>(size);
        GuardedBuffer from(count), to(count);
        for (std::size_t i = 0; i < count; ++i) from.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(7 * i + count);
        L::flip_top_bits(from.as<std::uint8_t>(), to.as<std::uint8_t>(), size);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i)
            wrong += to.as<std::uint8_t>()[i] != static_cast<std::uint8_t>(from.as<std::uint8_t>()[i] + 128);
        CHECK(wrong == 0);
        CHECK(to.is_intact());
    }
}

template <class L> void widens_conform() {
    for (index_t size = 0; size < 200; ++size) {
        const auto count = static_cast<std::size_t>(size);
        GuardedBuffer from(count), to(count * sizeof(std::int16_t));
        for (std::size_t i = 0; i < count; ++i) from.as<std::int8_t>()[i] = static_cast<std::int8_t>(77 * i + count);
        L::widen_bytes(from.as<std::int8_t>(), to.as<std::int16_t>(), size);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i)
            wrong += to.as<std::int16_t>()[i] != static_cast<std::int8_t>(77 * i + count);
        CHECK(wrong == 0);
        CHECK(to.is_intact());
    }
}

template <class L> void products_conform() {
    using One = intq::arith::scalar_lanes;
    const std::int32_t ends[] = {INT32_MIN + 1, INT32_MAX, -1, 0, 1, 32767, -32768, 1 << 30, -(1 << 30)};
    std::mt19937 bits(11);
    const auto width = static_cast<std::size_t>(L::width());
    std::size_t wrong = 0;
    for (int i = 0; i < 3000; ++i) {
        std::vector<std::int32_t> a(width), b(width), high(width), product(width), both(width);
        for (std::size_t lane = 0; lane < width; ++lane) {
            a[lane] = bits() % 4 == 0 ? ends[bits() % std::size(ends)] : static_cast<std::int32_t>(bits());
            b[lane] = bits() % 4 == 0 ? ends[bits() % std::size(ends)] : static_cast<std::int32_t>(bits());
        }
        L::store(high.data(), L::sqrdmulh(L::load(a.data()), L::load(b.data())), L::width());
        L::store(both.data(), L::bit_and(L::load(a.data()), L::load(b.data())), L::width());
        for (std::size_t lane = 0; lane < width; ++lane) {
            wrong += high[lane] != One::sqrdmulh(a[lane], b[lane]);
            wrong += both[lane] != (a[lane] & b[lane]);
            a[lane] = static_cast<std::int16_t>(a[lane]);
            b[lane] &= 32767;
        }
        L::store(product.data(), L::mul_short(L::load(a.data()), L::load(b.data())), L::width());
        for (std::size_t lane = 0; lane < width; ++lane) wrong += product[lane] != a[lane] * b[lane];
    }
    CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("codes are multiplied, rounded, narrowed and flipped as their scalar meaning says") {
    intq::test::for_each_backend(intq::test::all_backends{}, [](auto backend) {
        using L = intq::simd::lanes<decltype(backend)>;
        SECTION(decltype(backend)::name) {
            rounding_saturates<L>();
            nearest_mode_rounds_and_goes<L>();
            products_conform<L>();
            if constexpr (requires { typename L::CodeQuad; }) quads_conform<L>();
            if constexpr (requires(typename L::CodeQuad quad, std::int8_t* const(&to)[2],
                                   const typename L::i32(&code)[4]) { quad.store_rows(to, index_t{}, code); }) {
                rows_conform<L, 2>();
                rows_conform<L, 4>();
            }
            if constexpr (requires(std::uint8_t * p) { L::flip_top_bits(p, p, 1); }) flips_conform<L>();
            if constexpr (requires(std::int16_t * p) { L::widen_bytes(nullptr, p, 1); }) widens_conform<L>();
        }
    });
}
