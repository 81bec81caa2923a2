// SPDX-License-Identifier: MIT
//
// ShareObserver: the share of the data's elements that equal each of a few given numbers. Layer: quantization
// (docs/workflow.md section 4, "Whose grid").
#ifndef INTQ_QUANTIZATION_OBSERVERS_SHARE_OBSERVER_HPP
#define INTQ_QUANTIZATION_OBSERVERS_SHARE_OBSERVER_HPP

#include <string>
#include <vector>

#include "intq/nn/model/module.hpp"
#include "intq/quantization/observers/range_observers.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Counts the elements of a tensor, and those that equal each number:
///
///     share[i] = |{x : x = numbers[i]}| / |{x}|
///
/// Its state is the counts and the range of MinMaxObserver. Merging two observers equals one pass over all data.
///
/// Result   exact
/// Memory   one count per number
class ShareObserver : public nn::Cloneable<ShareObserver, MinMaxObserver> {
public:
    /// @param options  per tensor; is_sync_quantize joins the counts of all processes
    ShareObserver(const ObserverOptions& options, std::vector<float> numbers);

    INTQ_INLINE std::string type_name() const override;
    const std::vector<float>& numbers() const noexcept { return numbers_; }
    /// One share for each number; zeros if no data was seen.
    std::vector<double> shares() const;
    /// Throws if the counts, loaded from a file, cannot come from data.
    INTQ_INLINE void check_state() const override;

protected:
    INTQ_INLINE Status add(const RowView& x, int axis) override;
    INTQ_INLINE void merge_state(const Observer& other) override;

private:
    std::vector<float> numbers_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_observers)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The buffer: the number of all elements, then the count of each number.
inline constexpr const char* share_counts = "counts";

}  // namespace detail

INTQ_INLINE ShareObserver::ShareObserver(const ObserverOptions& options, std::vector<float> numbers)
    : Cloneable(MinMaxObserver(options)), numbers_(std::move(numbers)) {
    add_buffer(detail::share_counts, Tensor());
}

INTQ_INLINE std::string ShareObserver::type_name() const { return "ShareObserver"; }

INTQ_INLINE Status ShareObserver::add(const RowView& x, int axis) {
    if (const Status status = MinMaxObserver::add(x, axis); !status.ok()) return status;
    const Tensor& known = tensor(detail::share_counts);
    Tensor counts =
        known.defined() ? known.clone() : Tensor::zeros(Shape(static_cast<index_t>(numbers_.size()) + 1), DType::int64);
    const auto values = counts.flat<std::int64_t>();
    for (index_t outer = 0; outer < x.extent(0); ++outer)
        for (index_t channel = 0; channel < x.extent(1); ++channel)
            for (index_t inner = 0; inner < x.extent(2); ++inner)
                for (std::size_t i = 0; i < numbers_.size(); ++i)
                    values[i + 1] += x(outer, channel, inner) == numbers_[i] ? 1 : 0;
    values[0] += x.extent(0) * x.extent(1) * x.extent(2);
    tensor(detail::share_counts) = counts;
    return {};
}

INTQ_INLINE void ShareObserver::merge_state(const Observer& other) {
    const auto& more = dynamic_cast<const ShareObserver&>(other);
    if (more.numbers_ != numbers_) throw Error(type_name() + ": it counts other numbers than the one to merge");
    const Tensor &own = tensor(detail::share_counts), &given = more.tensor(detail::share_counts);
    if (given.defined()) {
        Tensor sum = given.clone();
        if (own.defined())
            std::ranges::transform(own.flat<std::int64_t>(), given.flat<std::int64_t>(),
                                   sum.flat<std::int64_t>().begin(), std::plus<>());
        tensor(detail::share_counts) = sum;
    }
    MinMaxObserver::merge_state(other);
}

INTQ_INLINE std::vector<double> ShareObserver::shares() const {
    std::vector<std::int64_t> counts(numbers_.size() + 1);
    if (const Tensor& own = tensor(detail::share_counts); own.defined())
        std::ranges::copy(own.flat<std::int64_t>(), counts.begin());
    if (options().is_sync_quantize) options().reduction->sum(counts);
    std::vector<double> shares;
    for (std::size_t i = 0; i < numbers_.size(); ++i)
        shares.push_back(counts[0] == 0 ? 0.0 : static_cast<double>(counts[i + 1]) / static_cast<double>(counts[0]));
    return shares;
}

INTQ_INLINE void ShareObserver::check_state() const {
    MinMaxObserver::check_state();
    check_buffer(detail::share_counts, DType::int64, Shape(static_cast<index_t>(numbers_.size()) + 1));
    const Tensor& counts = tensor(detail::share_counts);
    if (!counts.defined()) return;
    const auto values = counts.flat<std::int64_t>();
    for (const std::int64_t count : values)
        if (count < 0 || count > values[0])
            throw Error(type_name() + ": of " + std::to_string(values[0]) + " elements " + std::to_string(count) +
                        " are one number");
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_observers)
#endif  // INTQ_QUANTIZATION_OBSERVERS_SHARE_OBSERVER_HPP
