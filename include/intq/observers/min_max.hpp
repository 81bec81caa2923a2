// SPDX-License-Identifier: MIT
//
// MinMaxRange: the smallest and largest values ever seen, per tensor or per channel. Layer: observers
// (docs/workflow.md section 1). The modules MinMaxObserver and PerChannelMinMaxObserver build on it.
#ifndef INTQ_OBSERVERS_MIN_MAX_HPP
#define INTQ_OBSERVERS_MIN_MAX_HPP

#include "intq/observers/range.hpp"
#include "intq/simd/select.hpp"

namespace intq::observers {
inline namespace INTQ_ABI {
namespace detail {

inline void widen_range(std::span<const float> batch_lowest, std::span<const float> batch_highest, std::span<float> low,
                        std::span<float> high) noexcept {
    for (std::size_t i = 0; i < low.size(); ++i) {
        if (batch_lowest[i] < low[i]) low[i] = batch_lowest[i];
        if (batch_highest[i] > high[i]) high[i] = batch_highest[i];
    }
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::observers

namespace intq::observers {
inline namespace INTQ_CORE_ABI {

/// Running range of all data.
///
///     lowest[c] = min over all batches of min(x_c),   highest[c] = max over all batches of max(x_c)
///
///     float memory[4];
///     MinMaxRange range(memory);
///     if (const Status status = range.update(x); !status.ok()) …
///     const auto qparams = range.qparams();               // int8, symmetric
///
/// Result   exact; the same bits in any order of the data, on every backend and layout
/// Memory   range_memory_size(channels) floats of the caller, independent of the amount of data
/// Source   PyTorch MinMaxObserver and PerChannelMinMaxObserver
class MinMaxRange : public RangeState {
public:
    /// @param memory  range_memory_size(channels) floats
    /// @param axis    channel axis, or per_tensor
    explicit INTQ_ALWAYS_INLINE MinMaxRange(std::span<float> memory, int axis = per_tensor) INTQ_NOEXCEPT
        : RangeState(memory, axis) {}

    /// Adds a batch; an empty one is skipped.
    ///
    /// @return ok; value_out_of_range of axis; shape_mismatch of channels; not_finite of input with the row-major
    ///         number of the first NaN or infinity. Then the state is as before
    template <class Backend = simd::default_backend, class X, int Rank, class LayoutTag, class ExtentsType>
    Status update(const TensorView<X, Rank, LayoutTag, ExtentsType>& x) INTQ_NOEXCEPT {
        if (x.empty()) return {};
        const TensorView<const float, Rank, LayoutTag, ExtentsType> input = x;
        const Status status = measure<Backend>(input);
        if (!status.ok()) return status;
        widen(part(2), part(3));
        return {};
    }

    /// Adds the data of another observer: two shards merged equal one pass over all of the data.
    ///
    /// @return ok; shape_mismatch of channels, and then the state is as before
    INTQ_ALWAYS_INLINE Status merge(const MinMaxRange& other) noexcept {
        if (other.channels() != channels())
            return {StatusCode::shape_mismatch, OpKind::observe, Field::channels, other.channels(), channels()};
        if (other.seen()) widen(other.lowest(), other.highest());
        return {};
    }

private:
    INTQ_ALWAYS_INLINE void widen(std::span<const float> batch_lowest, std::span<const float> batch_highest) noexcept {
        detail::widen_range(batch_lowest, batch_highest, part(0), part(1));
        set_seen();
    }
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::observers

#endif  // INTQ_OBSERVERS_MIN_MAX_HPP
