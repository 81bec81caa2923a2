// SPDX-License-Identifier: MIT
//
// Solves the knapsack problem exactly, for the mixed choice of types. Layer: improve.
#ifndef INTQ_IMPROVE_INTERNAL_KNAPSACK_HPP
#define INTQ_IMPROVE_INTERNAL_KNAPSACK_HPP

#include <span>
#include <vector>

#include "intq/core/abi.hpp"

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

struct KnapsackItem {
    double weight = 0.0;  // positive
    double value = 0.0;   // positive
};

/// The items of the largest value whose weight is within a capacity.
///
///     maximise sum of value[i]·chosen[i]   where   sum of weight[i]·chosen[i] <= capacity
///
/// Items are taken in the order of value/weight. After k items a list holds weight and value of each choice among those
/// k that no other beats, so both weight and value rise along the list (Nemhauser, Ullmann). A choice is dropped where
///   1. it is above the capacity,
///   2. another one has no larger weight and no smaller value, or
///   3. its bound is below the value of a known choice: the bound adds the remaining items while they fit, and the
///      fitting part of the first that does not (Dantzig).
///
/// Proof that the best remains. No weight is negative, so rule 1 drops only choices that no completion makes possible.
/// For rule 2, let p beat q: each completion of q, added to p, has no larger weight and no smaller value. That holds in
/// floating point too, where both add the same numbers in the same order and a rounded sum is monotone in each operand.
/// For rule 3, the bound is the optimum of the problem with fractions of the remaining items, whose solutions include
/// every completion; the comparison leaves a margin of 2^-40 for the rounding of its sums. So after the last item the
/// list holds a choice of the largest value, the last in the list.
///
/// @throws Error for a weight or value that is not positive and finite; where more than 2^22 choices are undecided,
///         which only contrived items cause
///
/// Result   no choice within the capacity has a larger value, sums taken in the order of value/weight
/// Memory   8 bytes for each choice that was ever kept
std::vector<bool> solve_knapsack(std::span<const KnapsackItem> items, double capacity);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(improve)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <cstdio>
#    include <numeric>
#    include <string>

#    include "intq/io/error.hpp"

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

class KnapsackSearch {
public:
    KnapsackSearch(std::span<const KnapsackItem> items, double capacity)
        : items_(items), capacity_(capacity), order_(items.size()) {
        std::iota(order_.begin(), order_.end(), std::size_t{0});
        std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
            const double left = items[a].value / items[a].weight, right = items[b].value / items[b].weight;
            return left != right ? left > right : a < b;
        });
        weights_.push_back(0.0);
        values_.push_back(0.0);
        for (const std::size_t i : order_) {
            weights_.push_back(weights_.back() + items[i].weight);
            values_.push_back(values_.back() + items[i].value);
        }
    }

    std::vector<bool> run() {
        std::vector<Choice> choices{{0.0, 0.0, -1}};
        for (std::size_t k = 0; k < order_.size(); ++k) {
            for (const Choice& choice : choices) known_ = (std::max)(known_, greedy(choice, k));
            choices = with_item(choices, k);
        }
        std::vector<bool> chosen(items_.size());
        for (std::int32_t link = choices.back().link; link >= 0; link = links_[static_cast<std::size_t>(link)].before)
            chosen[order_[static_cast<std::size_t>(links_[static_cast<std::size_t>(link)].item)]] = true;
        return chosen;
    }

private:
    struct Choice {
        double weight, value;
        std::int32_t link;  // its last item; -1: none
    };
    struct Link {
        std::int32_t before, item;
    };
    static constexpr std::size_t most = std::size_t{1} << 22;

    // How many of the items from k on fit in order; the rest of the capacity is left over.
    std::size_t fitting(double left, std::size_t k) const {
        const auto end =
            std::upper_bound(weights_.begin() + static_cast<std::ptrdiff_t>(k) + 1, weights_.end(), weights_[k] + left);
        return static_cast<std::size_t>(end - weights_.begin()) - 1;
    }

    // The bound of Dantzig for the items from k on.
    double bound(const Choice& choice, std::size_t k) const {
        const double left = capacity_ - choice.weight;
        const std::size_t end = fitting(left, k);
        double value = choice.value + (values_[end] - values_[k]);
        if (end < order_.size()) {
            const KnapsackItem& item = items_[order_[end]];
            value += item.value * (std::min)((std::max)(left - (weights_[end] - weights_[k]), 0.0) / item.weight, 1.0);
        }
        return value;
    }

    // A value that the choice surely reaches: the items from k on while they fit, less the rounding of the sums.
    double greedy(const Choice& choice, std::size_t k) const {
        const double margin = weights_.back() * 0x1p-40;
        const std::size_t end = (std::max)(fitting(capacity_ - choice.weight - margin, k), k);
        return choice.value + (values_[end] - values_[k]);
    }

    // The lists without and with item k merged, the lightest first; among equal weights the most valuable.
    std::vector<Choice> with_item(const std::vector<Choice>& choices, std::size_t k) {
        const KnapsackItem& item = items_[order_[k]];
        const double least = known_ - values_.back() * 0x1p-40;
        std::vector<Choice> merged;
        const auto keep = [&](const Choice& choice, bool takes) {
            if (!merged.empty() && choice.value <= merged.back().value) return;
            if (choice.weight > capacity_ || bound(choice, k + 1) < least) return;
            if (!merged.empty() && merged.back().weight == choice.weight) merged.pop_back();
            merged.push_back(choice);
            if (!takes) return;
            links_.push_back({choice.link, static_cast<std::int32_t>(k)});
            merged.back().link = static_cast<std::int32_t>(links_.size()) - 1;
        };
        std::size_t without = 0, with = 0;
        while (without < choices.size() || with < choices.size()) {
            const double next = with < choices.size() ? choices[with].weight + item.weight : 0.0;
            if (with == choices.size() || (without < choices.size() && choices[without].weight <= next)) {
                keep(choices[without++], false);
            } else {
                keep({next, choices[with].value + item.value, choices[with].link}, true);
                ++with;
            }
        }
        if (links_.size() > most)
            throw Error("solve_knapsack: more than 2^22 choices are undecided among " + std::to_string(items_.size()) +
                        " items; round their weights and values to fewer digits");
        return merged;
    }

    std::span<const KnapsackItem> items_;
    double capacity_;
    std::vector<std::size_t> order_;
    std::vector<double> weights_, values_;  // sums of the first k in that order
    std::vector<Link> links_;
    double known_ = 0.0;  // value of the best choice that is known
};

}  // namespace detail

namespace detail {

/// A number of any size in a few characters.
INTQ_INLINE std::string short_number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

}  // namespace detail

INTQ_INLINE std::vector<bool> solve_knapsack(std::span<const KnapsackItem> items, double capacity) {
    for (const KnapsackItem& item : items)
        if (!(item.weight > 0.0 && item.weight < 1e300 && item.value > 0.0 && item.value < 1e300))
            throw Error("solve_knapsack: an item has weight " + detail::short_number(item.weight) + " and value " +
                        detail::short_number(item.value) + "; both must be positive and finite");
    if (!(capacity >= 0.0)) throw Error("solve_knapsack: the capacity is " + detail::short_number(capacity));
    return detail::KnapsackSearch(items, capacity).run();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

#endif  // INTQ_DEFINES(improve)
#endif  // INTQ_IMPROVE_INTERNAL_KNAPSACK_HPP
