// SPDX-License-Identifier: MIT
//
// MovingAverageRange: exponential moving average of the batches' ranges, per tensor or per channel.
// Layer: observers (docs/workflow.md section 1). The modules MovingAverageMinMaxObserver and
// MovingAveragePerChannelMinMaxObserver build on it.
#ifndef INTQ_OBSERVERS_MOVING_AVERAGE_HPP
#define INTQ_OBSERVERS_MOVING_AVERAGE_HPP

#include "intq/arith/ieee.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/observers/range.hpp"
#include "intq/simd/select.hpp"

namespace intq::observers {
inline namespace INTQ_CORE_ABI {

/// Moving average of ranges.
///
///     first batch:  m = batch
///     then:         m = fadd(m, fmul(c, fadd(batch, -m)))     for lowest and highest of each channel
///
/// The order of the batches matters: there is no merge.
///
/// Result   exact; the same bits on every backend and layout
/// Memory   range_memory_size(channels) floats of the caller, independent of the amount of data
/// Source   PyTorch MovingAverageMinMaxObserver and MovingAveragePerChannelMinMaxObserver
class MovingAverageRange : public RangeState {
public:
    /// @param memory              range_memory_size(channels) floats
    /// @param axis                channel axis, or per_tensor
    /// @param averaging_constant  c, in [0, 1]: 0 freezes the first batch, 1 follows the last one
    explicit INTQ_ALWAYS_INLINE MovingAverageRange(std::span<float> memory, int axis = per_tensor,
                                                   float averaging_constant = 0.01f) INTQ_NOEXCEPT
        : RangeState(memory, axis) {
        set_averaging_constant(averaging_constant);
    }

    INTQ_ALWAYS_INLINE float averaging_constant() const noexcept { return averaging_constant_; }
    /// @pre 0 <= value <= 1
    INTQ_ALWAYS_INLINE void set_averaging_constant(float value) INTQ_NOEXCEPT {
        INTQ_ASSERT(value >= 0.0f && value <= 1.0f);
        averaging_constant_ = value;
    }

    /// Adds a batch; an empty one is skipped.
    ///
    /// @return ok; value_out_of_range of axis; shape_mismatch of channels; not_finite of input with the row-major
    ///         number of the first NaN or infinity; scale_out_of_range with the channel whose average overflows.
    ///         Then the state is as before
    template <class Backend = simd::default_backend, class X, int Rank, class LayoutTag, class ExtentsType>
    Status update(const TensorView<X, Rank, LayoutTag, ExtentsType>& x) INTQ_NOEXCEPT {
        if (x.empty()) return {};
        const TensorView<const float, Rank, LayoutTag, ExtentsType> input = x;
        const Status status = measure<Backend>(input);
        if (!status.ok()) return status;
        if (seen()) {
            average<simd::lanes<Backend>>(part(0), part(2));
            average<simd::lanes<Backend>>(part(1), part(3));
        }
        for (std::size_t i = 0; i < part(2).size(); ++i)
            if (!arith::is_finite(part(2)[i]) || !arith::is_finite(part(3)[i]))
                return {StatusCode::scale_out_of_range, OpKind::observe, Field::scale, static_cast<index_t>(i), 0};
        for (std::size_t i = 0; i < part(2).size(); ++i) {
            part(0)[i] = part(2)[i];
            part(1)[i] = part(3)[i];
        }
        set_seen();
        return {};
    }

private:
    /// batch becomes the new average of both.
    template <class L> void average(std::span<const float> mean, std::span<float> batch) const noexcept {
        const auto constant = L::set(averaging_constant_);
        kernels::for_each_vector<L>(
            static_cast<index_t>(mean.size()), [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
                const auto m = kernels::load_floats<L>(mean.data() + i, lanes);
                const auto now = kernels::load_floats<L>(batch.data() + i, lanes);
                kernels::store_floats<L>(batch.data() + i, L::add(m, L::mul(constant, L::sub(now, m))), lanes);
            });
    }

    float averaging_constant_ = 0.01f;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::observers

#endif  // INTQ_OBSERVERS_MOVING_AVERAGE_HPP
