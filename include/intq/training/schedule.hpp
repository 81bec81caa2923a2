// SPDX-License-Identifier: MIT
//
// Learning-rate schedules: functions of the step only, so the step number is their whole state. Layer: training.
#ifndef INTQ_TRAINING_SCHEDULE_HPP
#define INTQ_TRAINING_SCHEDULE_HPP

#include <cstdint>
#include <functional>

#include "intq/core/abi.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// The learning rate of a step; steps count from 0, one for each batch.
using Schedule = std::function<double(std::int64_t step)>;

Schedule constant_rate(double rate);

/// rate · factor^floor(step / every): PyTorch's StepLR.
Schedule step_rate(double rate, std::int64_t every, double factor);

/// Half a cosine from `rate` at step 0 to `lowest` at step `steps`, and `lowest` from there on: PyTorch's
/// CosineAnnealingLR up to its T_max.
Schedule cosine_rate(double rate, std::int64_t steps, double lowest = 0.0);

/// A linear rise over `steps` steps to the first rate of `schedule`, which then begins:
///
///     rate(i) = schedule(0) · (i + 1) / (steps + 1) for i < steps, else schedule(i - steps)
Schedule warm_up(std::int64_t steps, Schedule schedule);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training)

#    include <algorithm>
#    include <cmath>
#    include <numbers>
#    include <string>
#    include <utility>

#    include "intq/io/error.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Schedule constant_rate(double rate) {
    return [rate](std::int64_t) { return rate; };
}

INTQ_INLINE Schedule step_rate(double rate, std::int64_t every, double factor) {
    if (every < 1) throw Error("step_rate", "the steps must be at least 1, given " + std::to_string(every));
    return [=](std::int64_t step) { return rate * std::pow(factor, static_cast<double>(step / every)); };
}

INTQ_INLINE Schedule cosine_rate(double rate, std::int64_t steps, double lowest) {
    if (steps < 1) throw Error("cosine_rate", "the steps must be at least 1, given " + std::to_string(steps));
    return [=](std::int64_t step) {
        const double part = static_cast<double>((std::min)(step, steps)) / static_cast<double>(steps);
        return lowest + (rate - lowest) * (1.0 + std::cos(std::numbers::pi * part)) / 2.0;
    };
}

INTQ_INLINE Schedule warm_up(std::int64_t steps, Schedule schedule) {
    if (steps < 0) throw Error("warm_up", "the steps must not be negative, given " + std::to_string(steps));
    return [steps, schedule = std::move(schedule)](std::int64_t step) {
        if (step >= steps) return schedule(step - steps);
        return schedule(0) * static_cast<double>(step + 1) / static_cast<double>(steps + 1);
    };
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training)
#endif  // INTQ_TRAINING_SCHEDULE_HPP
