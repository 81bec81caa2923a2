// SPDX-License-Identifier: MIT
//
// How element-wise kernels and observers go over views: per tensor or per channel, any layout. Layer: kernels
// (docs/design.md section 5, the third skeleton).
//
// An operation has two bodies, both over contiguous memory:
//
//     op.run(channel, count, pointers...)                 `count` elements of one channel
//     op.rows(first, channels, rows, pointers...)         `rows` rows, each of `channels` elements: element c of
//                                                         a row belongs to channel first + c
//
// Every contiguous layout comes down to them (ChannelBlocks); other views pass through a buffer on the stack.
#ifndef INTQ_KERNELS_STREAMING_CHANNEL_WALK_HPP
#define INTQ_KERNELS_STREAMING_CHANNEL_WALK_HPP

#include <type_traits>

#include "intq/arith/requantize.hpp"
#include "intq/core/channel_blocks.hpp"
#include "intq/core/executor.hpp"
#include "intq/core/qparams.hpp"
#include "intq/core/quotient.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Elements of one task of the executor: by shape only, so that threads cannot change bits.
inline constexpr index_t chunk_elements = index_t{1} << 15;

/// Elements that a view without unit stride is gathered into.
inline constexpr index_t stage_elements = 64;

constexpr index_t smaller(index_t a, index_t b) noexcept { return a < b ? a : b; }
constexpr index_t chunks_of(index_t count, index_t chunk) noexcept { return quotient_up(count, chunk); }

/// ok, or the first extents that differ.
/// @pre equal ranks
constexpr Status check_extents(const Shape& expected, const Shape& given, OpKind op, Field field) noexcept {
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(expected.rank); ++axis)
        if (given.extents[axis] != expected.extents[axis])
            return {StatusCode::shape_mismatch, op, field, given.extents[axis], expected.extents[axis]};
    return {};
}

/// Goes over contiguous memory: pointers of the operation's tensors, all in the same order.
template <class Op, class... T>
void walk_blocks(const Op& op, const ChannelBlocks& blocks, const Executor& executor, T*... at) {
    if (blocks.size() == 0) return;
    if (blocks.inner == 1 && blocks.channels > 1) {
        const index_t step = blocks.channels < chunk_elements ? quotient(chunk_elements, blocks.channels) : 1;
        executor(chunks_of(blocks.outer, step), [&](index_t chunk) {
            const index_t first = chunk * step;
            op.rows(0, blocks.channels, smaller(step, blocks.outer - first), (at + first * blocks.channels)...);
        });
        return;
    }
    executor(chunks_of(blocks.size(), chunk_elements), [&](index_t chunk) {
        const index_t last = smaller((chunk + 1) * chunk_elements, blocks.size());
        for (index_t first = chunk * chunk_elements; first < last;) {
            const index_t run = quotient(first, blocks.inner);
            const index_t end = smaller(last, (run + 1) * blocks.inner);
            op.run(run - quotient(run, blocks.channels) * blocks.channels, end - first, (at + first)...);
            first = end;
        }
    });
}

/// A row of a view along its last axis, a piece at a time in contiguous memory: the row itself where its stride
/// is 1, else a copy.
template <class T> class StagedRow {
public:
    template <class View> StagedRow(const View& view, const typename View::Index& index) : data_(view.data()) {
        const auto strides = view.strides();
        for (std::size_t axis = 0; axis < index.size(); ++axis) data_ += index[axis] * strides[axis];
        stride_ = strides.back();
    }

    T* open(index_t first, index_t count) noexcept {
        if (stride_ == 1) return data_ + first;
        if constexpr (std::is_const_v<T>)
            for (index_t i = 0; i < count; ++i) buffer_[i] = data_[(first + i) * stride_];
        return buffer_;
    }
    void close(index_t first, index_t count) const noexcept {
        if constexpr (!std::is_const_v<T>)
            if (stride_ != 1)
                for (index_t i = 0; i < count; ++i) data_[(first + i) * stride_] = buffer_[i];
    }

private:
    T* data_;
    index_t stride_;
    std::remove_const_t<T> buffer_[stage_elements];
};

/// @param channel  the row's, or negative when the row runs over the channels
template <class Op, class... Row> void walk_row(const Op& op, index_t channel, index_t count, Row&&... row) {
    for (index_t first = 0; first < count; first += stage_elements) {
        const index_t piece = smaller(stage_elements, count - first);
        if (channel < 0) {
            op.rows(first, piece, 1, row.open(first, piece)...);
        } else {
            op.run(channel, piece, row.open(first, piece)...);
        }
        (row.close(first, piece), ...);
    }
}

/// Goes over views of any strides, row by row along the last axis.
template <class Op, class View, class... More>
void walk_rows(const Op& op, int axis, const Executor& executor, const View& view, const More&... more) {
    constexpr auto last = static_cast<std::size_t>(View::rank - 1);
    const typename View::Index extents = view.extents();
    const index_t length = extents[last];
    if (view.empty()) return;
    const index_t rows = view.size() / length;
    const index_t step = length < chunk_elements ? chunk_elements / length : 1;
    executor(chunks_of(rows, step), [&](index_t chunk) {
        for (index_t row = chunk * step; row < smaller((chunk + 1) * step, rows); ++row) {
            typename View::Index index{};
            index_t rest = row;
            for (std::size_t i = last; i-- > 0;) {
                index[i] = rest % extents[i];
                rest /= extents[i];
            }
            const bool over_channels = axis == View::rank - 1;
            const index_t channel = over_channels ? -1 : axis < 0 ? 0 : index[static_cast<std::size_t>(axis)];
            walk_row(op, channel, length, StagedRow<typename View::element_type>(view, index),
                     StagedRow<typename More::element_type>(more, index)...);
        }
    });
}

/// Whether views of equal extents are contiguous in the same order, so that walk_blocks() can go over them.
template <class View, class... More> constexpr bool same_order(const View& view, const More&... more) {
    return view.is_contiguous() && ((more.strides() == view.strides()) && ...);
}

}  // namespace detail

/// walk_blocks() where that is possible, else walk_rows(). Tensors that are read are views of const.
template <class Op, class View, class... More>
void walk_views(const Op& op, int axis, const Executor& executor, const View& view, const More&... more) {
    if (detail::same_order(view, more...)) {
        detail::walk_blocks(op, channel_blocks(view, axis), executor, view.data(), more.data()...);
    } else {
        detail::walk_rows(op, axis, executor, view, more...);
    }
}

// --- loops of the bodies -----------------------------------------------------------------------------------------

/// body(i, lanes) for each vector of a run: `lanes` is width(), and for the last one the rest.
template <class L, class Body> INTQ_ALWAYS_INLINE void for_each_vector(index_t count, Body&& body) {
    index_t i = 0;
    for (; i + L::width() <= count; i += L::width()) body(i, L::width());
    if (i < count) body(i, count - i);
}

namespace detail {

/// Whether a kernel has only one loop over single numbers: where lanes are numbers and code is to be small.
template <class L> inline constexpr bool is_one_by_one = INTQ_SMALL&& std::is_base_of_v<arith::scalar_lanes, L>;

/// The same for what a board runs seldom: its lanes are numbers, with loops of their own for what is common.
template <class L>
inline constexpr bool is_seldom_one_by_one = is_one_by_one<L> || (std::is_base_of_v<arith::scalar_lanes, L> &&
                                                                  !std::is_same_v<arith::scalar_lanes, L>);

}  // namespace detail

/// The same with two bodies: four(i) for each four whole vectors, one(i, lanes) for the rest.
template <class L, class Four, class One>
INTQ_ALWAYS_INLINE void for_each_four_vectors(index_t count, [[maybe_unused]] Four&& four, One&& one) {
    index_t i = 0;
    if constexpr (detail::is_one_by_one<L>) {
        for (; i < count; ++i) one(i, index_t{1});
        return;
    }
    for (; i + 4 * L::width() <= count; i += 4 * L::width()) four(i);
    // A difference: of a sum that it takes for one that fits, g++ 12 warns where it knows the count.
    for (; count - i >= L::width(); i += L::width()) one(i, L::width());
    if (i < count) one(i, count - i);
}

namespace detail {

/// Channels whose parameters a kernel keeps in the nearest cache.
inline constexpr index_t channel_block = 256;

/// Goes over rows of channels in the order of memory, in pieces of at most channel_block elements. With few channels, a
/// piece is several rows: their parameters repeat.
///
/// @param fill  fill(first, count, at): the parameters of channels [first, first + count) go to places at, at + 1, …
/// @param body  body(offset, count): elements offset … of the memory use the parameters from place 0 on
template <class Fill, class Body>
INTQ_ALWAYS_INLINE void for_each_piece(index_t channels, index_t rows, Fill&& fill, Body&& body) {
    if (channels <= channel_block / 2) {
        const index_t repeats = smaller(quotient(channel_block, channels), rows), piece = repeats * channels;
        for (index_t at = 0; at < piece; at += channels) fill(0, channels, at);
        for (index_t offset = 0; offset < rows * channels; offset += piece)
            body(offset, smaller(piece, rows * channels - offset));
        return;
    }
    for (index_t first = 0; first < channels; first += channel_block) {
        const index_t count = smaller(channel_block, channels - first);
        fill(first, count, 0);
        for (index_t row = 0; row < rows; ++row) body(row * channels + first, count);
    }
}

// --- per-channel parameters ---------------------------------------------------------------------------------------

/// Scales and zero points of the channels of a piece, in memory.
struct ChannelPairs {
    alignas(64) float scale[channel_block];
    alignas(64) std::int32_t zero_point[channel_block];

    void fill(const QParams& qparams, index_t first, index_t count, index_t at) {
        for (index_t i = 0; i < count; ++i) {
            scale[at + i] = qparams.scale(first + i);
            zero_point[at + i] = qparams.zero_point(first + i);
        }
    }
};

/// Scale and zero point of one channel in all lanes.
template <class L> INTQ_ALWAYS_INLINE typename L::f32 scale_of(const QParams& qparams, index_t channel) {
    return L::set(qparams.scale(qparams.is_per_channel() ? channel : 0));
}
template <class L> INTQ_ALWAYS_INLINE typename L::i32 zero_point_of(const QParams& qparams, index_t channel) {
    return L::set(qparams.zero_point(qparams.is_per_channel() ? channel : 0));
}

}  // namespace detail

// --- elements in memory ----------------------------------------------------------------------------------------------

/// `count` floats, at most L::width(); lanes behind them are 0.
template <class L> INTQ_ALWAYS_INLINE typename L::f32 load_floats(const float* from, index_t count) {
    return count == L::width() ? L::load(from) : L::load(from, count);
}

/// The first `count` lanes.
template <class L> INTQ_ALWAYS_INLINE void store_floats(float* to, typename L::f32 values, index_t count) {
    if constexpr (requires { L::store(to, values); })
        if (count == L::width()) return L::store(to, values);
    L::store(to, values, count);
}

namespace detail {

/// `count` codes; uint8 as the signed byte that its bits say, brought back to 0 … 255.
template <class L, class Code>
INTQ_ALWAYS_INLINE constexpr typename L::i32 load_codes(const Code* from, index_t count) {
    if constexpr (std::is_same_v<Code, std::uint8_t>) {
        const auto bits = load_codes<L>(reinterpret_cast<const std::int8_t*>(from), count);
        return L::sub(bits, L::mul(L::shift_right(bits, L::set(31)), L::set(256)));
    } else {
        return count == L::width() ? L::load(from) : L::load(from, count);
    }
}

template <class L, class Code>
INTQ_ALWAYS_INLINE constexpr void store_codes(Code* to, typename L::i32 codes, index_t count) {
    if constexpr (std::is_same_v<Code, std::uint8_t>) {
        L::store(reinterpret_cast<std::int8_t*>(to), L::sub(codes, L::set(128)), count);
        for (index_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(to[i] ^ 0x80);
    } else {
        if constexpr (requires { L::store(to, codes); })
            if (count == L::width()) return L::store(to, codes);
        L::store(to, codes, count);
    }
}

/// Stores codes(i, lanes), codes of the elements from i on, for a run of elements; int8 four vectors at a time.
template <class L, class Code, class Codes> INTQ_ALWAYS_INLINE void store_run(Code* to, index_t count, Codes&& codes) {
    const auto one = [&](index_t i, index_t lanes)
                         INTQ_ALWAYS_INLINE_LAMBDA { store_codes<L>(to + i, codes(i, lanes), lanes); };
    if constexpr (std::is_same_v<Code, std::int8_t>) {
        constexpr index_t width = L::width();
        for_each_four_vectors<L>(
            count,
            [&](index_t i) INTQ_ALWAYS_INLINE_LAMBDA {
                L::store_four(to + i, codes(i, width), codes(i + width, width), codes(i + 2 * width, width),
                              codes(i + 3 * width, width));
            },
            one);
    } else {
        for_each_vector<L>(count, one);
    }
}

/// Stores clamp(scaled + zero_point, lowest, highest) of four vectors; the clamp is done on bytes where the backend
/// can.
template <class L, class Code> struct CodeStore {
    arith::OutputLanes<L> out;

    explicit INTQ_ALWAYS_INLINE CodeStore(const arith::OutputCodes& codes) : out(codes) {}
    template <class I32> INTQ_ALWAYS_INLINE void four(Code* to, I32 a, I32 b, I32 c, I32 d) const {
        if constexpr (std::is_same_v<Code, std::int8_t>) {
            L::store_four(to, out.code(a), out.code(b), out.code(c), out.code(d));
        } else {
            constexpr index_t width = L::width();
            L::store(to, out.code(a));
            L::store(to + width, out.code(b));
            L::store(to + 2 * width, out.code(c));
            L::store(to + 3 * width, out.code(d));
        }
    }
};
template <class L>
requires requires { typename L::CodeQuad; }
struct CodeStore<L, std::int8_t> {
    typename L::CodeQuad quad;

    explicit INTQ_ALWAYS_INLINE CodeStore(const arith::OutputCodes& codes)
        : quad(codes.zero_point, codes.lowest, codes.highest) {}
    template <class I32> INTQ_ALWAYS_INLINE void four(std::int8_t* to, I32 a, I32 b, I32 c, I32 d) const {
        quad.store(to, 4 * L::width(), a, b, c, d);
    }
};

/// Stores clamp(scaled(i, lanes) + zero_point, lowest, highest), as store_run.
template <class L, class Code, class Scaled>
INTQ_ALWAYS_INLINE void store_scaled_run(Code* to, index_t count, const arith::OutputCodes& codes, Scaled&& scaled) {
    const arith::OutputLanes<L> out(codes);
    if constexpr (std::is_same_v<Code, std::int8_t>) {
        constexpr index_t width = L::width();
        const CodeStore<L, Code> store(codes);
        for_each_four_vectors<L>(
            count,
            [&](index_t i) INTQ_ALWAYS_INLINE_LAMBDA {
                store.four(to + i, scaled(i, width), scaled(i + width, width), scaled(i + 2 * width, width),
                           scaled(i + 3 * width, width));
            },
            [&](index_t i, index_t lanes)
                INTQ_ALWAYS_INLINE_LAMBDA { store_codes<L>(to + i, out.code(scaled(i, lanes)), lanes); });
    } else {
        store_run<L>(to, count,
                     [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA { return out.code(scaled(i, lanes)); });
    }
}

/// Whether four vectors of reals are rounded, narrowed and stored at once.
template <class L>
concept HasRoundingStore = requires(typename L::CodeQuad quad, typename L::f32 v, std::int8_t* to) {
    quad.store_rounded(to, v, v, v, v);
};

/// Stores clamp(R(real(i, lanes)) + zero_point, lowest, highest), as store_run; R rounds to the nearest, ties to even,
/// and makes 0 of NaN.
template <class L, class Code, class Real>
INTQ_ALWAYS_INLINE void store_rounded_run(Code* to, index_t count, const arith::OutputCodes& codes, Real&& real) {
    const auto scaled = [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
        return L::round_to_i32(L::replace_nan(real(i, lanes), L::set(0.0f)));
    };
    if constexpr (std::is_same_v<Code, std::int8_t> && HasRoundingStore<L>) {
        constexpr index_t width = L::width();
        const arith::OutputLanes<L> out(codes);
        const typename L::CodeQuad quad(codes.zero_point, codes.lowest, codes.highest);
        for_each_four_vectors<L>(
            count,
            [&](index_t i) INTQ_ALWAYS_INLINE_LAMBDA {
                quad.store_rounded(to + i, real(i, width), real(i + width, width), real(i + 2 * width, width),
                                   real(i + 3 * width, width));
            },
            [&](index_t i, index_t lanes)
                INTQ_ALWAYS_INLINE_LAMBDA { store_codes<L>(to + i, out.code(scaled(i, lanes)), lanes); });
    } else {
        store_scaled_run<L>(to, count, codes, scaled);
    }
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_CHANNEL_WALK_HPP
