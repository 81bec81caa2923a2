// SPDX-License-Identifier: MIT
//
// The steps from an accumulator to a stored code: sumin, requantize, clamp, narrow. Layer: kernels.
//
// The accumulator starts from the bias, which costs nothing here. Composed at compile time: no branch.
#ifndef INTQ_KERNELS_CONV_EPILOGUE_HPP
#define INTQ_KERNELS_CONV_EPILOGUE_HPP

#include <type_traits>

#include "intq/arith/requantize.hpp"
#include "intq/kernels/packing/packed_conv2d.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/simd/base/primitives.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// Sums of each type in lanes: one number in all of them, memory, and acc + x·w.
template <class L, class Acc> struct LaneSum;
template <class L> struct LaneSum<L, std::int32_t> {
    using I32 = typename L::i32;
    static INTQ_ALWAYS_INLINE I32 set(std::int32_t x) noexcept { return L::set(x); }
    static INTQ_ALWAYS_INLINE I32 load(const std::int32_t* from) noexcept { return L::load(from); }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, I32 acc) noexcept { L::store(to, acc); }
    static INTQ_ALWAYS_INLINE I32 multiply_add(I32 acc, I32 x, I32 w) noexcept { return L::add(acc, L::mul(x, w)); }
};
template <class L> struct LaneSum<L, std::int64_t> {
    using I32 = typename L::i32;
    using I64 = typename L::i64;
    static INTQ_ALWAYS_INLINE I64 set(std::int64_t x) noexcept { return L::set_i64(x); }
    static INTQ_ALWAYS_INLINE I64 load(const std::int64_t* from) noexcept { return L::load_i64(from); }
    static INTQ_ALWAYS_INLINE void store(std::int64_t* to, I64 acc) noexcept { L::store_i64(to, acc); }
    static INTQ_ALWAYS_INLINE I64 multiply_add(I64 acc, I32 x, I32 w) noexcept {
        return L::add(acc, L::mul_wide(x, w));
    }
};
template <class L> struct LaneSum<L, float> {
    using F32 = typename L::f32;
    static INTQ_ALWAYS_INLINE F32 load(const float* from) noexcept { return L::load(from); }
    static INTQ_ALWAYS_INLINE void store(float* to, F32 acc) noexcept { L::store(to, acc); }
    static INTQ_ALWAYS_INLINE F32 multiply_add(F32 acc, F32 x, F32 w) noexcept {
        return simd::add_product<L>(acc, x, w);
    }
};

}  // namespace detail

/// Marks an epilogue without a fused add.
struct no_sumin {};

/// y[n …] = Policy(acc, channel n …, sumin[n …]) for one vector of output channels.
///
/// @tparam Policy  requantize policy of arith/requantize.hpp
/// @tparam E       element type of the fused add's operand, or no_sumin
template <class L, class Policy, class Y, class Sumin> class Epilogue {
    static constexpr bool adds = !std::is_same_v<Sumin, no_sumin>;
    struct Nothing {};
    template <class PolicyType, bool Adds> struct SuminOf { using type = Nothing; };
    template <class PolicyType> struct SuminOf<PolicyType, true> {
        using type = typename PolicyType::template SuminChannel<L>;
    };
    struct NoQuad {
        constexpr NoQuad(std::int32_t, std::int32_t, std::int32_t) noexcept {}
    };
    template <class Lanes> struct QuadOf { using type = NoQuad; };
    // Only the last vector of a quad may lack lanes. Vectors of one code fill a panel, of which several may be empty.
    template <class Lanes>
    requires requires {
        typename Lanes::CodeQuad;
        requires Lanes::width()
        > 1;
    }
    struct QuadOf<Lanes> {
        using type = typename Lanes::CodeQuad;
    };
    using Quad = typename QuadOf<L>::type;

public:
    explicit INTQ_ALWAYS_INLINE Epilogue(const PackedConv2d& packed) noexcept
        : out_(packed.codes),
          quad_(packed.codes.zero_point, packed.codes.lowest, packed.codes.highest),
          words_(packed.words),
          sumin_words_(packed.sumin_words),
          stride_(packed.padded_outputs()) {}

    /// @param words  in place of the layer's: `stride` apart, from the first channel on
    INTQ_ALWAYS_INLINE Epilogue(const PackedConv2d& packed, const std::int32_t* words, index_t stride) noexcept
        : Epilogue(packed) {
        words_ = words;
        stride_ = stride;
    }

    /// The parameters of the vector of channels that starts at padded channel `at`.
    struct Channels {
        typename Policy::template Channel<L> requantize;
        [[no_unique_address]] typename SuminOf<Policy, adds>::type sumin;
    };
    INTQ_ALWAYS_INLINE Channels channels(index_t at) const noexcept {
        if constexpr (adds) {
            return {Policy::template load<L>(words_ + at, stride_),
                    Policy::template load_sumin<L>(sumin_words_ + at, stride_)};
        } else {
            return {Policy::template load<L>(words_ + at, stride_), {}};
        }
    }

    /// @param e  operand of the fused add at the same place as y; not read without one
    template <class Acc>
    INTQ_ALWAYS_INLINE void store(const Acc& acc, const Channels& channels, const Sumin* e, Y* y,
                                  index_t count) const noexcept {
        if constexpr (adds) {
            write(y, Policy::template apply_sumin<L>(acc, read(e, count), channels.requantize, channels.sumin, out_),
                  count);
        } else {
            write(y, Policy::template apply<L>(acc, channels.requantize, out_), count);
        }
    }

    /// Whether the codes of up to four vectors are narrowed together.
    static constexpr bool has_quads = std::is_same_v<Y, std::int8_t> && !std::is_same_v<Quad, NoQuad>;

    /// Whether that is possible for vectors in the order of a whole depthwise block.
    static constexpr bool has_run_quads = requires(Quad quad, typename L::i32 v, std::int8_t* to) {
        quad.store_runs(to, v, v, v, v, index_t{});
    };

    /// And in the order of a block that two pixels fill.
    static constexpr bool has_pair_quads = has_quads && requires(Quad quad, typename L::i32 v, std::int8_t* to) {
        quad.store_pair(to, to, v, v, v, v, index_t{});
    };

    /// And of four rows in the order of MatrixTile's pairs.
    static constexpr bool has_paired_rows =
        has_quads && !adds && requires(Quad quad, std::int8_t* const (&to)[4], const typename L::i32 (&code)[12]) {
        quad.store_paired_rows(to, code);
    };

    /// Rows of `Vectors` vectors that can be narrowed together.
    template <int Vectors> static constexpr int rows_together() noexcept {
        constexpr int rows = 4 / Vectors;
        using I32 = typename L::i32;
        constexpr bool is_possible =
            requires(Quad quad, std::int8_t* const(&to)[array_size(rows)], const I32(&code)[4]) {
            quad.store_rows(to, index_t{}, code);
        };
        return rows > 1 && is_possible ? rows : 1;
    }

    /// rows_together() rows, which lie at places[r] of y and of the operand: sum(r, v) are the lanes of a vector.
    template <int Vectors, class Sum>
    INTQ_ALWAYS_INLINE void store_rows(const Sum& sum, index_t at, const Sumin* e, Y* y, const index_t* places,
                                       index_t count) const noexcept {
        store_rows_by<Vectors>(
            sum, [&](int v) INTQ_ALWAYS_INLINE_LAMBDA { return channels(at + v * L::width()); }, e, y, places, count);
    }
    template <int Vectors, class Sum>
    INTQ_ALWAYS_INLINE void store_rows(const Sum& sum, const Channels* channels, const Sumin* e, Y* y,
                                       const index_t* places, index_t count) const noexcept {
        store_rows_by<Vectors>(
            sum, [&](int v) INTQ_ALWAYS_INLINE_LAMBDA { return channels[v]; }, e, y, places, count);
    }

    /// `Vectors` vectors of one row: sum(integral_constant<int, v>) are the lanes of vector v.
    ///
    /// @param at  the padded channel of the first lane
    template <int Vectors, class Sum>
    INTQ_ALWAYS_INLINE void store_quad(const Sum& sum, index_t at, const Sumin* e, Y* y, index_t count) const noexcept {
        const auto code = [&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
            const index_t first = v * L::width(), left = count - first;
            return scaled(sum(v), channels(at + first), e + (adds ? first : 0),
                          v + 1 < Vectors || left > L::width() ? L::width() : left);
        };
        [&]<int... Vector>(std::integer_sequence<int, Vector...>) INTQ_ALWAYS_INLINE_LAMBDA {
            quad_.store(y, count, code(std::integral_constant<int, Vector>{})...);
        }
        (std::make_integer_sequence<int, Vectors>{});
    }

    /// The first `count` channels of `Vectors` vectors of one row, of which only the last may lack lanes:
    /// sum(integral_constant<int, v>) are the lanes of vector v.
    template <int Vectors, class Sum>
    INTQ_ALWAYS_INLINE void store_channels(const Sum& sum, const Channels* channels, const Sumin* e, Y* y,
                                           index_t count) const noexcept {
        constexpr index_t last = (Vectors - 1) * L::width();
        const auto lanes = [&](auto v)
                               INTQ_ALWAYS_INLINE_LAMBDA { return v + 1 < Vectors ? L::width() : count - last; };
        [&]<int... Vector>(std::integer_sequence<int, Vector...>) INTQ_ALWAYS_INLINE_LAMBDA {
            if constexpr (has_quads)
                quad_.store(y, count,
                            scaled(sum(std::integral_constant<int, Vector>{}), channels[Vector],
                                   e + (adds ? Vector * L::width() : 0), lanes(Vector))...);
            else
                (store(sum(std::integral_constant<int, Vector>{}), channels[Vector],
                       e + (adds ? Vector * L::width() : 0), y + Vector * L::width(), lanes(Vector)),
                 ...);
        }
        (std::make_integer_sequence<int, Vectors>{});
    }

    /// The first `count` channels of a whole depthwise block of four vectors.
    ///
    /// @param sum  sum(integral_constant<int, v>) returns vector v
    /// @param e    in the block's order, and readable to its end
    template <class Sum>
    INTQ_ALWAYS_INLINE void store_runs(Sum&& sum, const Channels* channels, const Sumin* e, Y* y,
                                       index_t count) const noexcept {
        const auto code = [&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
            return scaled(sum(v), channels[v], e + (adds ? v * L::width() : 0), L::width());
        };
        using std::integral_constant;
        quad_.store_runs(y, code(integral_constant<int, 0>{}), code(integral_constant<int, 1>{}),
                         code(integral_constant<int, 2>{}), code(integral_constant<int, 3>{}), count);
    }

    /// The first `count` channels of either half of a block of four vectors: of two pixels. Without a fused add.
    template <class Sum>
    INTQ_ALWAYS_INLINE void store_pair(Sum&& sum, const Channels* channels, Y* low, Y* high,
                                       index_t count) const noexcept {
        const auto code = [&](auto v)
                              INTQ_ALWAYS_INLINE_LAMBDA { return scaled(sum(v), channels[v], nullptr, L::width()); };
        using std::integral_constant;
        quad_.store_pair(low, high, code(integral_constant<int, 0>{}), code(integral_constant<int, 1>{}),
                         code(integral_constant<int, 2>{}), code(integral_constant<int, 3>{}), count);
    }

    /// Four rows of twelve columns in the order of MatrixTile's pairs. Without a fused add.
    ///
    /// @param sum  sum(integral_constant<int, v>) returns vector v of twelve, six of either pair
    template <class Sum>
    INTQ_ALWAYS_INLINE void store_paired_rows(Sum&& sum, const Channels* channels, Y* const (&to)[4]) const noexcept {
        typename L::i32 code[12];
        simd::unroll<12>(
            [&](auto v) INTQ_ALWAYS_INLINE_LAMBDA { code[v] = scaled(sum(v), channels[v % 6], nullptr, L::width()); });
        quad_.store_paired_rows(to, code);
    }

private:
    /// @param channels_of  channels_of(v) returns the parameters of vector v
    template <int Vectors, class Sum, class ChannelsOf>
    INTQ_ALWAYS_INLINE void store_rows_by(const Sum& sum, const ChannelsOf& channels_of, const Sumin* e, Y* y,
                                          const index_t* places, index_t count) const noexcept {
        constexpr int rows = rows_together<Vectors>();
        typename L::i32 code[4];
        INTQ_UNROLL
        for (int i = 0; i < 4; ++i) {
            const int r = i / Vectors;
            const index_t first = i % Vectors * L::width(), left = count - first;
            code[i] = scaled(sum(r, i % Vectors), channels_of(i % Vectors), e + (adds ? places[r] + first : 0),
                             i % Vectors + 1 < Vectors || left > L::width() ? L::width() : left);
        }
        Y* to[array_size(rows)];
        INTQ_UNROLL
        for (int r = 0; r < rows; ++r) to[r] = y + places[r];
        quad_.store_rows(to, count, code);
    }

    template <class T> static INTQ_ALWAYS_INLINE auto read(const T* from, index_t count) noexcept {
        if constexpr (std::is_same_v<T, float>)
            return load_floats<L>(from, count);
        else
            return L::load(from, count);
    }
    template <class T, class Lanes> static INTQ_ALWAYS_INLINE void write(T* to, Lanes lanes, index_t count) noexcept {
        if constexpr (std::is_same_v<T, float>)
            store_floats<L>(to, lanes, count);
        else
            L::store(to, lanes, count);
    }

    /// The input of a quad from one vector of sums.
    template <class Acc>
    INTQ_ALWAYS_INLINE typename L::i32 scaled(const Acc& acc, const Channels& channels, const Sumin* e,
                                              index_t count) const noexcept {
        if constexpr (adds) {
            // A load of a whole vector needs no mask.
            const auto operand = count == L::width() ? L::load(e) : L::load(e, count);
            return Policy::template scaled_sumin<L>(acc, operand, channels.requantize, channels.sumin, out_);
        } else {
            return Policy::template scaled<L>(acc, channels.requantize, out_);
        }
    }

    arith::OutputLanes<L> out_;
    [[no_unique_address]] Quad quad_;
    const std::int32_t* words_;
    const std::int32_t* sumin_words_;
    index_t stride_;
};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_EPILOGUE_HPP
