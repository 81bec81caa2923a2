// SPDX-License-Identifier: MIT
//
// Shared by all range observers: minimum and maximum of one batch, and the state on caller's memory.
// Layer: observers (docs/arithmetic.md section 1, docs/workflow.md section 1).
#ifndef INTQ_OBSERVERS_RANGE_HPP
#define INTQ_OBSERVERS_RANGE_HPP

#include <limits>
#include <span>

#include "intq/arith/quantize.hpp"
#include "intq/kernels/streaming/check_finite.hpp"
#include "intq/simd/base/primitives.hpp"

namespace intq::observers {
inline namespace INTQ_CORE_ABI {

/// Axis of an observer that keeps one range for the whole tensor.
inline constexpr int per_tensor = -1;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::observers

namespace intq::observers {
inline namespace INTQ_ABI {

/// Floats that an observer of `channels` ranges needs: its state and one batch.
constexpr index_t range_memory_size(index_t channels) noexcept { return 4 * channels; }

namespace detail {

inline void clear_range(std::span<float> lowest, std::span<float> highest) noexcept {
    for (float& value : lowest) value = std::numeric_limits<float>::infinity();
    for (float& value : highest) value = -std::numeric_limits<float>::infinity();
}

inline Status assign_range(std::span<const float> lowest, std::span<const float> highest, std::span<float> to_lowest,
                           std::span<float> to_highest) noexcept {
    if (lowest.size() != to_lowest.size() || highest.size() != to_lowest.size())
        return {StatusCode::shape_mismatch, OpKind::observe, Field::channels,
                static_cast<index_t>(lowest.size() != to_lowest.size() ? lowest.size() : highest.size()),
                static_cast<index_t>(to_lowest.size())};
    for (std::size_t i = 0; i < lowest.size(); ++i) {
        if (!arith::is_finite(lowest[i]) || !arith::is_finite(highest[i]))
            return {StatusCode::not_finite, OpKind::observe, Field::input, static_cast<index_t>(i), 0};
        if (lowest[i] > highest[i])
            return {StatusCode::value_out_of_range, OpKind::observe, Field::input, static_cast<index_t>(i), 0};
    }
    for (std::size_t i = 0; i < lowest.size(); ++i) {
        to_lowest[i] = arith::fadd(lowest[i], 0.0f);
        to_highest[i] = arith::fadd(highest[i], 0.0f);
    }
    return {};
}

inline Result<arith::ScaleZeroPoint> qparams_of_channel(std::span<const float> lowest, std::span<const float> highest,
                                                        bool seen, const arith::RangeRule& rule,
                                                        index_t channel) noexcept {
    const Status status = arith::check_range_rule(rule, DType::int32);
    if (!status.ok()) return status;
    if (!seen) return arith::ScaleZeroPoint{};
    const auto i = static_cast<std::size_t>(channel);
    const Result<arith::ScaleZeroPoint> result = arith::qparams_from_range(lowest[i], highest[i], rule);
    if (result.ok()) return result;
    Status failure = result.status();
    failure.given = channel;
    return failure;
}

inline Status qparams_of_channels(std::span<const float> lowest, std::span<const float> highest, bool seen,
                                  const arith::RangeRule& rule, std::span<float> scales,
                                  std::span<std::int32_t> zero_points) INTQ_NOEXCEPT {
    const auto channels = static_cast<index_t>(lowest.size()), given = static_cast<index_t>(scales.size());
    if (given != channels) return {StatusCode::shape_mismatch, OpKind::observe, Field::channels, given, channels};
    if (!zero_points.empty() && zero_points.size() != scales.size())
        return {StatusCode::shape_mismatch, OpKind::observe, Field::zero_point,
                static_cast<index_t>(zero_points.size()), channels};
    for (index_t channel = 0; channel < channels; ++channel) {
        const Result<arith::ScaleZeroPoint> result = qparams_of_channel(lowest, highest, seen, rule, channel);
        if (!result.ok()) return result.status();
        if (zero_points.empty() && result->zero_point != 0)
            return {StatusCode::missing, OpKind::observe, Field::zero_point, channel, 0};
    }
    for (index_t channel = 0; channel < channels; ++channel) {
        const Result<arith::ScaleZeroPoint> result = qparams_of_channel(lowest, highest, seen, rule, channel);
        scales[static_cast<std::size_t>(channel)] = result->scale;
        if (!zero_points.empty()) zero_points[static_cast<std::size_t>(channel)] = result->zero_point;
    }
    return {};
}

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::observers

namespace intq::observers {
inline namespace INTQ_CORE_ABI {

/// Ranges of the channels of a tensor, or one for all of it, on caller's memory; copies share the memory.
/// Base of the observers that follow; it updates nothing by itself.
class RangeState {
public:
    /// @param memory  range_memory_size(channels) floats, which must outlive the observer
    /// @param axis    channel axis; per_tensor takes one channel
    INTQ_ALWAYS_INLINE RangeState(std::span<float> memory, int axis) INTQ_NOEXCEPT : memory_(memory), axis_(axis) {
        INTQ_ASSERT(!memory.empty() && memory.size() % 4 == 0 && (axis >= 0 || memory.size() == 4));
        reset();
    }

    INTQ_ALWAYS_INLINE int axis() const noexcept { return axis_; }
    INTQ_ALWAYS_INLINE index_t channels() const noexcept { return static_cast<index_t>(memory_.size() / 4); }
    /// Whether any data was seen since the start or reset().
    INTQ_ALWAYS_INLINE bool seen() const noexcept { return seen_; }
    /// One value a channel; +infinity and -infinity while no data was seen. A zero is positive.
    INTQ_ALWAYS_INLINE std::span<const float> lowest() const noexcept { return part(0); }
    INTQ_ALWAYS_INLINE std::span<const float> highest() const noexcept { return part(1); }

    INTQ_ALWAYS_INLINE void reset() noexcept {
        detail::clear_range(part(0), part(1));
        seen_ = false;
    }

    /// Takes ranges from elsewhere: a checkpoint, another process.
    ///
    /// @return ok; shape_mismatch of channels; not_finite or value_out_of_range (lowest > highest) with the channel,
    ///         and then the state is as before
    INTQ_ALWAYS_INLINE Status assign(std::span<const float> lowest, std::span<const float> highest) noexcept {
        const Status status = detail::assign_range(lowest, highest, part(0), part(1));
        if (status.ok()) seen_ = true;
        return status;
    }

    /// Scale and zero point of one channel; scale 1 and zero point 0 while no data was seen.
    ///
    /// @return the pair; the errors of check_range_rule() and qparams_from_range(), with the channel
    INTQ_ALWAYS_INLINE Result<arith::ScaleZeroPoint> qparams(const arith::RangeRule& rule = {},
                                                             index_t channel = 0) const INTQ_NOEXCEPT {
        INTQ_ASSERT(channel >= 0 && channel < channels());
        return detail::qparams_of_channel(part(0), part(1), seen_, rule, channel);
    }

    /// Scales and zero points of all channels.
    ///
    /// @param scales       (channels)
    /// @param zero_points  (channels), or empty where all are 0
    /// @return ok; shape_mismatch of channels; missing zero_point where one is needed; the errors of qparams() of a
    ///         channel. Nothing is written unless all is well
    INTQ_ALWAYS_INLINE Status qparams(const arith::RangeRule& rule, std::span<float> scales,
                                      std::span<std::int32_t> zero_points) const INTQ_NOEXCEPT {
        return detail::qparams_of_channels(part(0), part(1), seen_, rule, scales, zero_points);
    }

protected:
    /// Parts of the memory: 0 and 1 the state's lowest and highest, 2 and 3 those of the last batch.
    INTQ_ALWAYS_INLINE std::span<float> part(std::size_t i) const noexcept {
        const std::size_t count = memory_.size() / 4;
        return memory_.subspan(i * count, count);
    }

    /// Ranges of one batch into parts 2 and 3.
    /// @return as update() of the observers
    template <class Backend, class View> Status measure(const View& x) INTQ_NOEXCEPT;

    INTQ_ALWAYS_INLINE void set_seen() noexcept { seen_ = true; }

private:
    std::span<float> memory_;
    int axis_;
    bool seen_ = false;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::observers

namespace intq::observers {
inline namespace INTQ_ABI {

namespace detail {

/// Running extremes in lanes. min and max lose a NaN that the next value overwrites; poison keeps it: x · 0 is 0 for
/// finite x and NaN for the others.
template <class L> struct Extremes {
    typename L::f32 lowest, highest, poison;

    static INTQ_ALWAYS_INLINE Extremes start(typename L::f32 x) { return {x, x, L::mul(x, L::set(0.0f))}; }
    INTQ_ALWAYS_INLINE void add(typename L::f32 value) {
        const auto x = simd::hold<L>(value);
        lowest = (L::min)(lowest, x);
        highest = (L::max)(highest, x);
        if constexpr (requires { L::mul_add(x, x, x); }) {
            poison = L::mul_add(x, L::set(0.0f), poison);
        } else {
            poison = L::add(poison, L::sub(x, x));
        }
    }
    INTQ_ALWAYS_INLINE void add(const Extremes& other) {
        lowest = (L::min)(lowest, other.lowest);
        highest = (L::max)(highest, other.highest);
        poison = L::add(poison, other.poison);
    }
};

template <class L> struct RangeOp {
    float* lowest;
    float* highest;
    bool* finite;

    void run(index_t channel, index_t count, const float* x) const {
        if (count < L::width()) {
            reduce<arith::scalar_lanes>(channel, count, x);
        } else {
            reduce<L>(channel, count, x);
        }
    }

    /// With few channels, as many rows as a vector has lanes are joined: then every vector is whole.
    void rows(index_t first, index_t channels, index_t rows, const float* x) const {
        constexpr index_t most = 64;
        const index_t repeats = L::width(), wide = channels * repeats;
        index_t done = 0;
        if (wide <= most && rows >= repeats) {
            float low[most], high[most];
            for (index_t i = 0; i < wide; ++i) {
                low[i] = lowest[first + i % channels];
                high[i] = highest[first + i % channels];
            }
            columns(wide, rows / repeats, x, low, high);
            for (index_t i = 0; i < wide; ++i) widen(first + i % channels, low[i], high[i]);
            done = rows / repeats * repeats;
        }
        if (done < rows) columns(channels, rows - done, x + done * channels, lowest + first, highest + first);
    }

private:
    INTQ_ALWAYS_INLINE void widen(index_t channel, float low, float high) const {
        lowest[channel] = low < lowest[channel] ? low : lowest[channel];
        highest[channel] = high > highest[channel] ? high : highest[channel];
    }

    /// Four vectors of columns at a time: pieces of whole cache lines, and chains that hide the latency.
    void columns(index_t channels, index_t rows, const float* x, float* low, float* high) const {
        kernels::for_each_four_vectors<L>(
            channels,
            [&](index_t column) INTQ_ALWAYS_INLINE_LAMBDA {
                constexpr index_t width = L::width();
                const float* from = x + column;
                auto a = Extremes<L>::start(L::load(from)), b = Extremes<L>::start(L::load(from + width)),
                     c = Extremes<L>::start(L::load(from + 2 * width)),
                     d = Extremes<L>::start(L::load(from + 3 * width));
                for (index_t row = 1; row < rows; ++row) {
                    from += channels;
                    a.add(L::load(from));
                    b.add(L::load(from + width));
                    c.add(L::load(from + 2 * width));
                    d.add(L::load(from + 3 * width));
                }
                finish(a, low + column, high + column, width);
                finish(b, low + column + width, high + column + width, width);
                finish(c, low + column + 2 * width, high + column + 2 * width, width);
                finish(d, low + column + 3 * width, high + column + 3 * width, width);
            },
            [&](index_t column, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
                auto all = Extremes<L>::start(kernels::load_floats<L>(x + column, lanes));
                for (index_t row = 1; row < rows; ++row)
                    all.add(kernels::load_floats<L>(x + row * channels + column, lanes));
                finish(all, low + column, high + column, lanes);
            });
    }
    INTQ_ALWAYS_INLINE void finish(const Extremes<L>& all, float* low, float* high, index_t lanes) const {
        using kernels::load_floats, kernels::store_floats;
        store_floats<L>(low, (L::min)(load_floats<L>(low, lanes), all.lowest), lanes);
        store_floats<L>(high, (L::max)(load_floats<L>(high, lanes), all.highest), lanes);
        if (!L::all_finite(all.poison)) *finite = false;
    }

    /// Four chains hide the latency. The last vector overlaps the one before it: extremes may be taken twice.
    /// @pre count >= lanes' width
    template <class Width> void reduce(index_t channel, index_t count, const float* x) const {
        const index_t width = Width::width();
        auto a = Extremes<Width>::start(Width::load(x)), b = a, c = a, d = a;
        index_t i = width;
        for (; i + 4 * width <= count; i += 4 * width) {
            a.add(Width::load(x + i));
            b.add(Width::load(x + i + width));
            c.add(Width::load(x + i + 2 * width));
            d.add(Width::load(x + i + 3 * width));
        }
        for (; i + width <= count; i += width) a.add(Width::load(x + i));
        b.add(Width::load(x + count - width));
        a.add(b);
        c.add(d);
        a.add(c);
        widen(channel, Width::reduce_min(a.lowest), Width::reduce_max(a.highest));
        if (!Width::all_finite(a.poison)) *finite = false;
    }
};

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::observers

namespace intq::observers {
inline namespace INTQ_CORE_ABI {

template <class Backend, class View> Status RangeState::measure(const View& x) INTQ_NOEXCEPT {
    if (axis_ >= View::rank)
        return {StatusCode::value_out_of_range, OpKind::observe, Field::axis, axis_, View::rank - 1};
    if (axis_ >= 0 && x.extent(axis_) != channels())
        return {StatusCode::shape_mismatch, OpKind::observe, Field::channels, x.extent(axis_), channels()};
    detail::clear_range(part(2), part(3));
    bool finite = true;
    kernels::walk_views(detail::RangeOp<simd::lanes<Backend>>{part(2).data(), part(3).data(), &finite}, axis_, serial,
                        x);
    if (!finite) return kernels::check_finite<Backend>(x);
    // Backends differ in which of -0 and +0 they keep; the observer's zero is positive.
    for (float& value : part(2)) value = arith::fadd(value, 0.0f);
    for (float& value : part(3)) value = arith::fadd(value, 0.0f);
    return {};
}

}  // namespace INTQ_CORE_ABI
}  // namespace intq::observers

#endif  // INTQ_OBSERVERS_RANGE_HPP
