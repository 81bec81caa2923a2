// SPDX-License-Identifier: MIT
//
// All observers, and their names. Layer: quantization (docs/workflow.md section 1).
#ifndef INTQ_QUANTIZATION_OBSERVERS_OBSERVER_MODULES_HPP
#define INTQ_QUANTIZATION_OBSERVERS_OBSERVER_MODULES_HPP

#include <string>

#include "intq/quantization/observers/named_table.hpp"
#include "intq/quantization/observers/observer.hpp"
#include "intq/quantization/observers/range_observers.hpp"
#include "intq/quantization/observers/statistics_observers.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// A row of the table of observers: the word that a qconfig is made with.
struct NamedObserver {
    std::string name;
    ObserverFactory per_tensor;
    ObserverFactory per_channel;  // empty: there is none
};

/// The observers by name; open for more.
NamedTable<NamedObserver>& observer_table();

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_observers)

INTQ_INLINE NamedTable<NamedObserver>& observer_table() {
    static NamedTable<NamedObserver> table = [] {
        NamedTable<NamedObserver> rows("observer");
        rows.add({"min_max", observer_factory<MinMaxObserver>(), observer_factory<PerChannelMinMaxObserver>()});
        rows.add({"moving_average", observer_factory<MovingAverageMinMaxObserver>(),
                  observer_factory<MovingAveragePerChannelMinMaxObserver>()});
        rows.add({"fixed_scale", observer_factory<FixedScaleObserver>(), {}});
        rows.add({"clip", observer_factory<ClipObserver>(), observer_factory<ClipObserver>()});
        rows.add({"percentile", observer_factory<PercentileObserver>(), {}});
        rows.add({"histogram", observer_factory<HistogramObserver>(), {}});
        rows.add({"mse", observer_factory<MSEObserver>(), observer_factory<MSEObserver>()});
        rows.add({"kl", observer_factory<KLObserver>(), {}});
        rows.add({"mix", observer_factory<MixObserver>(), {}});
        rows.add({"clip_std", observer_factory<ClipStdObserver>(), {}});
        return rows;
    }();
    return table;
}

#endif  // INTQ_DEFINES(quantization_observers)

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_QUANTIZATION_OBSERVERS_OBSERVER_MODULES_HPP
