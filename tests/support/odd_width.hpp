// SPDX-License-Identifier: MIT
//
// Two backends of 3 and of 5 lanes in plain C++: tails, partial panels and fallbacks on every machine. They plug in
// as any user's backend does: a tag, its lanes and, where the packing asks for one, a tile.
#ifndef INTQ_TESTS_SUPPORT_ODD_WIDTH_HPP
#define INTQ_TESTS_SUPPORT_ODD_WIDTH_HPP

#include <algorithm>
#include <array>
#include <cstdint>

#include "intq/simd/select.hpp"

namespace intq::test {

/// Width lanes, each the specification's own.
template <int Width> struct OddLanes {
    using One = arith::scalar_lanes;
    template <class T> struct Vector { std::array<T, static_cast<std::size_t>(Width)> lane{}; };
    using i32 = Vector<std::int32_t>;
    using i64 = Vector<std::int64_t>;
    using f32 = Vector<float>;

    static constexpr index_t width() noexcept { return Width; }

    // --- memory ---------------------------------------------------------------------------------------------
    template <class T> static i32 load(const T* from, index_t count) {
        return each<i32>([&](std::size_t i) { return i < size(count) ? std::int32_t{from[i]} : 0; });
    }
    static f32 load(const float* from, index_t count) {
        return each<f32>([&](std::size_t i) { return i < size(count) ? from[i] : 0.0f; });
    }
    static i64 load_i64(const std::int64_t* from, index_t count) {
        return each<i64>([&](std::size_t i) { return i < size(count) ? from[i] : 0; });
    }
    template <class T> static auto load(const T* from) { return load(from, Width); }
    static i64 load_i64(const std::int64_t* from) { return load_i64(from, Width); }
    template <class T> static void store(T* to, i32 x, index_t count) {
        for (std::size_t i = 0; i < size(count); ++i) One::store(to + i, x.lane[i], 1);
    }
    static void store(float* to, f32 x, index_t count) {
        for (std::size_t i = 0; i < size(count); ++i) to[i] = x.lane[i];
    }
    static void store_i64(std::int64_t* to, i64 x, index_t count) {
        for (std::size_t i = 0; i < size(count); ++i) to[i] = x.lane[i];
    }
    template <class T, class V> static void store(T* to, V x) { store(to, x, Width); }
    static void store_i64(std::int64_t* to, i64 x) { store_i64(to, x, Width); }

    static void store_four(std::int8_t* to, i32 a, i32 b, i32 c, i32 d) {
        for (const i32& x : {a, b, c, d}) {
            store(to, x);
            to += Width;
        }
    }
    static void add_to(double* sums, f32 a, f32 b, f32 c, f32 d) {
        for (std::size_t i = 0; i < a.lane.size(); ++i)
            One::add_to(sums + i, a.lane[i], b.lane[i], c.lane[i], d.lane[i]);
    }

    // --- packed codes ---------------------------------------------------------------------------------------
    template <class T> struct packed { T code[std::size_t{4 * Width} / sizeof(T)]; };
    template <class T> static constexpr index_t packed_width() noexcept {
        return index_t{std::size_t{4 * Width} / sizeof(T)};
    }
    template <class T> static packed<T> load_packed(const T* from, index_t count) noexcept {
        packed<T> x{};
        for (index_t i = 0; i < count; ++i) x.code[i] = from[i];
        return x;
    }
    template <class T> static void store_packed(T* to, packed<T> x, index_t count) noexcept {
        for (index_t i = 0; i < count; ++i) to[i] = x.code[i];
    }
    template <class T> static packed<T> load_packed(const T* from) noexcept {
        return load_packed(from, packed_width<T>());
    }
    template <class T> static void store_packed(T* to, packed<T> x) noexcept { store_packed(to, x, packed_width<T>()); }
    static i32 gather_below(const std::int32_t* table, std::int32_t from, const std::int8_t* index) noexcept {
        return each<i32>([&](std::size_t i) { return table[from - index[i]]; });
    }
    class EntrySums {
    public:
        void add(const std::uint64_t* entries, const std::int8_t* index, std::int16_t* high) noexcept {
            for (int i = 0; i < 8; ++i) {
                total_ += entries[index[i]];
                high[i] = static_cast<std::int16_t>(entries[index[i]] >> 48);
            }
        }
        std::uint64_t total() const noexcept { return total_; }

    private:
        std::uint64_t total_ = 0;
    };
    static std::int32_t largest_packed(const packed<std::int8_t>& x) noexcept {
        return *std::max_element(std::begin(x.code), std::end(x.code));
    }
    template <class T> static packed<T> set_packed(T value) noexcept {
        packed<T> x;
        for (T& code : x.code) code = value;
        return x;
    }
    template <class T> static packed<T> min_packed(packed<T> a, packed<T> b) noexcept {
        for (index_t i = 0; i < packed_width<T>(); ++i) a.code[i] = One::min_packed(a.code[i], b.code[i]);
        return a;
    }
    template <class T> static packed<T> max_packed(packed<T> a, packed<T> b) noexcept {
        for (index_t i = 0; i < packed_width<T>(); ++i) a.code[i] = One::max_packed(a.code[i], b.code[i]);
        return a;
    }
    using table = One::table;
    static table load_table(const std::int8_t* entries) noexcept { return {entries}; }
    static packed<std::int8_t> look_up(const table& t, packed<std::int8_t> x) noexcept {
        for (std::int8_t& code : x.code) code = One::look_up(t, code);
        return x;
    }

    static i32 gather_pair(const std::int16_t* from, i32 index) {
        return map<i32>([&](std::int32_t i) { return One::gather_pair(from, i); }, index);
    }

    // --- arithmetic -----------------------------------------------------------------------------------------
    static i32 set(std::int32_t value) { return fill<i32>(value); }
    static f32 set(float value) { return fill<f32>(value); }
    static i64 set_i64(std::int64_t value) { return fill<i64>(value); }
    template <class V> static V add(V a, V b) {
        return map<V>([](auto... x) { return One::add(x...); }, a, b);
    }
    template <class V> static V sub(V a, V b) {
        return map<V>([](auto... x) { return One::sub(x...); }, a, b);
    }
    template <class V> static V mul(V a, V b) {
        return map<V>([](auto... x) { return One::mul(x...); }, a, b);
    }
    template <class V> static V min(V a, V b) {
        return map<V>([](auto... x) { return One::min(x...); }, a, b);
    }
    template <class V> static V max(V a, V b) {
        return map<V>([](auto... x) { return One::max(x...); }, a, b);
    }
    template <class V> static V shift_left(V a, V n) {
        return map<V>([](auto... x) { return One::shift_left(x...); }, a, n);
    }
    template <class V> static V shift_right(V a, V n) {
        return map<V>([](auto... x) { return One::shift_right(x...); }, a, n);
    }
    static i64 widen(i32 a) { return map<i64>(One::widen, a); }
    static i64 mul_wide(i32 a, i32 b) { return map<i64>(One::mul_wide, a, b); }
    static i32 sqrdmulh(i32 a, i32 b) { return map<i32>(One::sqrdmulh, a, b); }
    static i32 mul_short(i32 a, i32 b) { return map<i32>(One::mul_short, a, b); }
    static i32 bit_and(i32 a, i32 b) { return map<i32>(One::bit_and, a, b); }
    static i32 narrow(i64 a) { return map<i32>(One::narrow, a); }
    static f32 div(f32 a, f32 b) { return map<f32>(One::div, a, b); }
    static f32 fma(f32 a, f32 b, f32 c) { return map<f32>(One::fma, a, b, c); }
    static f32 floor(f32 a) { return map<f32>(One::floor, a); }
    static f32 round_half_even(f32 a) { return map<f32>(One::round_half_even, a); }
    static f32 replace_nan(f32 a, f32 b) { return map<f32>(One::replace_nan, a, b); }
    static f32 keep_inside(f32 a, f32 low, f32 high, f32 b) { return map<f32>(One::keep_inside, a, low, high, b); }
    static f32 choose_inside(f32 a, f32 low, f32 high, f32 b, f32 c) {
        return map<f32>(One::choose_inside, a, low, high, b, c);
    }
    template <class V> static f32 to_f32(V a) {
        return map<f32>([](auto x) { return One::to_f32(x); }, a);
    }
    static i32 to_i32(f32 a) { return map<i32>(One::to_i32, a); }
    static i32 round_to_i32(f32 a) { return map<i32>(One::round_to_i32, a); }
    static i32 round_small_to_i32(f32 a) { return map<i32>(One::round_small_to_i32, a); }
    static f32 from_bits(i32 a) { return map<f32>(One::from_bits, a); }

    // --- reductions -----------------------------------------------------------------------------------------
    static float reduce_min(f32 a) {
        float result = a.lane[0];
        for (const float x : a.lane) result = One::min(x, result);
        return One::reduce_min(result);
    }
    static float reduce_max(f32 a) {
        float result = a.lane[0];
        for (const float x : a.lane) result = One::max(x, result);
        return One::reduce_max(result);
    }
    static bool all_finite(f32 a) {
        for (const float x : a.lane)
            if (!One::all_finite(x)) return false;
        return true;
    }

private:
    static std::size_t size(index_t count) { return static_cast<std::size_t>(count); }
    template <class V, class Function> static V each(Function&& function) {
        V result;
        for (std::size_t i = 0; i < result.lane.size(); ++i) result.lane[i] = function(i);
        return result;
    }
    template <class V, class T> static V fill(T value) {
        V result;
        result.lane.fill(value);
        return result;
    }
    template <class V, class Function, class... In> static V map(Function&& function, const In&... in) {
        return each<V>([&](std::size_t i) { return function(in.lane[i]...); });
    }
};

/// The tag. With 5 lanes, 8-bit activations are offset-binary, all integer groups have depth 2, and depthwise blocks of
/// two vectors deal their channels out in turn.
template <int Width> struct odd_width : simd::scalar {
    static constexpr const char* name = Width == 3 ? "odd_width<3>" : "odd_width<5>";
    static constexpr bool grouped = Width == 5;
    static constexpr index_t panel = grouped ? 5 : 6;
    static constexpr simd::Packing int8_packing{panel, grouped ? 2 : 1,
                                                grouped ? simd::Staging::offset_binary : simd::Staging::as_is};
    static constexpr simd::Packing int16_packing{panel, grouped ? 2 : 1, simd::Staging::as_is};
    static constexpr simd::Packing wide_packing{panel, 1, simd::Staging::as_is};
    static constexpr simd::Packing float_packing{panel, 1, simd::Staging::as_is};
    static constexpr simd::DepthwisePacking depthwise_int8_packing =
        grouped ? simd::DepthwisePacking{10, 5, 1, 2, simd::Staging::offset_binary} : simd::DepthwisePacking{};
    static constexpr simd::DepthwisePacking depthwise_int16_packing =
        grouped ? simd::DepthwisePacking{10, 5, 1, 2, simd::Staging::as_is} : simd::DepthwisePacking{};
    static constexpr simd::DepthwisePacking depthwise_float_packing =
        grouped ? simd::DepthwisePacking{10, 5, 5, 1, simd::Staging::as_is} : simd::DepthwisePacking{};
};

/// Two products a column and step, in loops.
template <class X, class W> struct OddPairTile {
    using activation = X;
    using weight = W;
    static constexpr index_t columns = 5;
    static constexpr index_t depth = 2;
    static constexpr int vectors = 1;
    static constexpr int narrowest = 1;
    static constexpr int planes = 1;
    using shared = OddPairTile;
    static constexpr int max_rows(int) { return 3; }

    template <int Rows, int Vectors> struct Registers {
        void start(const std::int32_t* bias) {
            for (auto& row : acc) row = OddLanes<5>::load(bias);
        }
        void step(const X* const* x, index_t k, const W* w) { step_part(x, k, depth, w); }
        void step_part(const X* const* x, index_t k, index_t count, const W* w) {
            for (std::size_t r = 0; r < acc.size(); ++r)
                for (std::size_t c = 0; c < acc[r].lane.size(); ++c)
                    for (index_t i = 0; i < count; ++i)
                        acc[r].lane[c] =
                            One::add(acc[r].lane[c], One::mul(x[r][k + i], w[2 * c + static_cast<std::size_t>(i)]));
        }
        OddLanes<5>::i32 drain(int row, int) const { return acc[static_cast<std::size_t>(row)]; }

        using One = arith::scalar_lanes;
        std::array<OddLanes<5>::i32, static_cast<std::size_t>(Rows)> acc;
    };
};

/// A depthwise tile in loops: pairs of rows, channel i of a block of two vectors in lane i / 2 of vector i mod 2.
///
/// @tparam Offset  what is added to an element when it is read
template <class X, class W, int Offset> struct OddDepthwiseTile {
    using element = X;
    using weight = W;
    using L = OddLanes<5>;
    using One = arith::scalar_lanes;
    static constexpr int vectors = 2;
    static constexpr index_t depth = 2, columns = 10, run = 1;
    static constexpr int kept_weights = 6;

    template <int Vectors> struct Column {
        template <int Count> void load(const X* const* rows, index_t channels) {
            for (index_t i = 0; i < channels; ++i)
                for (index_t r = 0; r < Count; ++r) at(place(i), r) = rows[r][i] + Offset;
        }
        void fill(std::int32_t zero_point) { group.fill(zero_point + Offset); }

        static index_t place(index_t i) { return i % Vectors * L::width() + i / Vectors; }
        std::int32_t& at(index_t lane, index_t row) { return group[static_cast<std::size_t>(2 * lane + row)]; }
        std::array<std::int32_t, static_cast<std::size_t>(10 * Vectors)> group{};
    };
    template <int Vectors> struct Weights {
        void load(const W* from) {
            for (std::size_t i = 0; i < group.size(); ++i) group[i] = from[i];
        }
        std::array<std::int32_t, static_cast<std::size_t>(10 * Vectors)> group{};
    };
    template <int Vectors> struct Sums {
        void start(const std::int32_t* bias) {
            for (std::size_t lane = 0; lane < acc.size(); ++lane) acc[lane] = bias[lane];
        }
        void add(const Column<Vectors>& x, const Weights<Vectors>& w) {
            for (std::size_t i = 0; i < x.group.size(); ++i)
                acc[i / 2] = One::add(acc[i / 2], One::mul(x.group[i], w.group[i]));
        }
        L::i32 drain(int vector) const { return L::load(acc.data() + vector * L::width()); }

        std::array<std::int32_t, static_cast<std::size_t>(5 * Vectors)> acc{};
    };
};

/// The usable backends of this unit and the two odd ones. Sanitized builds, which compile many times as long, have the
/// best backend, whose masks and tails are the most, scalar and one odd width.
template <class List> struct WithOddWidths;
template <class... Backend> struct WithOddWidths<simd::BackendList<Backend...>> {
    using type = simd::BackendList<Backend..., odd_width<3>, odd_width<5>>;
};
#ifdef INTQ_TEST_FEW_BACKENDS
using all_backends = simd::BackendList<simd::default_backend, simd::scalar, odd_width<3>>;
#else
using all_backends = typename WithOddWidths<simd::usable_backends>::type;
#endif

/// Calls function(Backend{}) for each backend of a list.
template <class... Backend, class Function> void for_each_backend(simd::BackendList<Backend...>, Function&& function) {
    (function(Backend{}), ...);
}

}  // namespace intq::test

namespace intq::simd {
inline namespace INTQ_ABI {

template <int Width> struct LanesOf<test::odd_width<Width>> { using type = test::OddLanes<Width>; };

template <>
struct Tile<test::odd_width<5>, std::int8_t, std::int8_t, std::int32_t> : test::OddPairTile<std::uint8_t, std::int8_t> {
};
template <>
struct DepthwiseTile<test::odd_width<5>, std::int8_t, std::int8_t, std::int32_t>
    : test::OddDepthwiseTile<std::int8_t, std::int8_t, 128> {};
template <>
struct DepthwiseTile<test::odd_width<5>, std::uint8_t, std::int8_t, std::int32_t>
    : test::OddDepthwiseTile<std::uint8_t, std::int8_t, 0> {};
template <class W>
struct DepthwiseTile<test::odd_width<5>, std::int16_t, W, std::int32_t>
    : test::OddDepthwiseTile<std::int16_t, std::int16_t, 0> {};
template <class W>
struct Tile<test::odd_width<5>, std::int16_t, W, std::int32_t> : test::OddPairTile<std::int16_t, std::int16_t> {};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_TESTS_SUPPORT_ODD_WIDTH_HPP
