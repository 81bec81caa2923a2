// SPDX-License-Identifier: MIT
//
// All observers, and their names. Layer: quantization (docs/workflow.md section 1).
#ifndef INTQ_QUANTIZATION_OBSERVERS_OBSERVER_MODULES_HPP
#define INTQ_QUANTIZATION_OBSERVERS_OBSERVER_MODULES_HPP

#include <string>

#include "intq/quantization/observers/named_table.hpp"
#include "intq/quantization/observers/observer.hpp"
#include "intq/quantization/observers/range_methods.hpp"
#include "intq/quantization/observers/range_observers.hpp"
#include "intq/quantization/observers/statistics_observers.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// A row of the table of observers, with its name in qconfigs.
struct NamedObserver {
    std::string name;
    ObserverFactory per_tensor;
    ObserverFactory per_channel;  // empty: there is none
};

/// The observers by name; more may be added.
NamedTable<NamedObserver>& observer_table();

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_observers)

namespace detail {

/// The row of a range method's observer.
template <RangeMethod Method> NamedObserver named_observer() {
    const auto factory = observer_factory<MethodObserver<Method>>();
    constexpr RangeMethodRow row = range_method_row(Method);
    return {row.name, factory, row.channels == RangeMethodRow::Channels::per_channel ? factory : ObserverFactory{}};
}

}  // namespace detail

INTQ_INLINE NamedTable<NamedObserver>& observer_table() {
    static NamedTable<NamedObserver> table = [] {
        NamedTable<NamedObserver> rows("observer");
        rows.add({"min_max", observer_factory<MinMaxObserver>(), observer_factory<PerChannelMinMaxObserver>()});
        rows.add({"moving_average", observer_factory<MovingAverageMinMaxObserver>(),
                  observer_factory<MovingAveragePerChannelMinMaxObserver>()});
        rows.add({"fixed_scale", observer_factory<FixedScaleObserver>(), {}});
        rows.add({"clip", observer_factory<ClipObserver>(), observer_factory<ClipObserver>()});
#    define INTQ_DETAIL_METHOD(name, observer, ...) rows.add(detail::named_observer<RangeMethod::name>());
        INTQ_RANGE_METHODS(INTQ_DETAIL_METHOD)
#    undef INTQ_DETAIL_METHOD
        return rows;
    }();
    return table;
}

#endif  // INTQ_DEFINES(quantization_observers)

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_QUANTIZATION_OBSERVERS_OBSERVER_MODULES_HPP
