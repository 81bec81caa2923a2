// SPDX-License-Identifier: MIT
//
// All observers, and their names. Layer: quantization (WORKFLOW section 1).
#ifndef INTQ_QUANTIZATION_OBSERVER_MODULES_HPP
#define INTQ_QUANTIZATION_OBSERVER_MODULES_HPP

#include "intq/quantization/range_observers.hpp"
#include "intq/quantization/statistics_observers.hpp"

namespace intq::inline INTQ_ABI::quantization {

/// A row of the table of observers: the word that a qconfig is made with.
struct NamedObserver {
    std::string name;
    ObserverFactory per_tensor;
    ObserverFactory per_channel;  // empty: there is none
};

/// The observers by name. Registering one adds a row, or replaces that of its name.
class ObserverTable {
public:
    static ObserverTable& instance() {
        static ObserverTable table;
        return table;
    }
    void add(NamedObserver row) {
        for (NamedObserver& known : rows_)
            if (known.name == row.name) {
                known = std::move(row);
                return;
            }
        rows_.push_back(std::move(row));
    }
    const std::vector<NamedObserver>& rows() const noexcept { return rows_; }
    /// Null where there is none.
    const NamedObserver* find(const std::string& name) const noexcept {
        for (const NamedObserver& row : rows_)
            if (row.name == name) return &row;
        return nullptr;
    }

private:
    ObserverTable() {
        add({"moving_average", observer_factory<MovingAverageMinMaxObserver>(),
             observer_factory<MovingAveragePerChannelMinMaxObserver>()});
        add({"min_max", observer_factory<MinMaxObserver>(), observer_factory<PerChannelMinMaxObserver>()});
        add({"fixed_scale", observer_factory<FixedScaleObserver>(), {}});
        add({"clip", observer_factory<ClipObserver>(), observer_factory<ClipObserver>()});
        add({"percentile", observer_factory<PercentileObserver>(), {}});
        add({"histogram", observer_factory<HistogramObserver>(), {}});
        add({"mse", observer_factory<MSEObserver>(), observer_factory<MSEObserver>()});
        add({"kl", observer_factory<KLObserver>(), {}});
        add({"mix", observer_factory<MixObserver>(), {}});
        add({"clip_std", observer_factory<ClipStdObserver>(), {}});
    }

    std::vector<NamedObserver> rows_;
};

}  // namespace intq::inline INTQ_ABI::quantization

#endif  // INTQ_QUANTIZATION_OBSERVER_MODULES_HPP
