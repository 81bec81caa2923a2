// SPDX-License-Identifier: MIT
#include "sampling.hpp"

#include <cmath>

#include "clock.hpp"

namespace intq_bench {

namespace {

/// Calls that last sample_seconds, from a trial of at least three calls and a millisecond.
int calls_of_sample(const Contender& contender, double sample_seconds) {
    if (!contender.run) return 0;
    contender.run();
    const double start = now();
    int calls = 0;
    while (calls < 3 || now() - start < 1e-3) {
        contender.run();
        if (++calls >= 3 && now() - start > 0.05) break;
    }
    const double once = (now() - start) / calls;
    return std::max(1, static_cast<int>(std::ceil(sample_seconds / once)));
}

/// Three calls, one of those that last: a single one does not fetch megabytes of weights into a victim cache again.
void warm(const Contender& contender) {
    const double start = now();
    for (int i = 0; i < 3 && (i == 0 || now() - start < 2e-3); ++i) contender.run();
}

void take_sample(const Contender& contender, int calls, Measurement& to) {
    if (!contender.run) return;
    warm(contender);
    if (contender.peak != nullptr) to.peak_rates.push_back(rate_now(*contender.peak));
    const double start = now();
    for (int i = 0; i < calls; ++i) contender.run();
    to.seconds.push_back((now() - start) / calls);
}

}  // namespace

double Measurement::median_seconds() const { return median(seconds); }

double Measurement::spread() const { return (quantile(seconds, 0.9) - quantile(seconds, 0.1)) / median_seconds(); }

double Measurement::part_of_peak(double operations) const {
    std::vector<double> parts;
    for (std::size_t i = 0; i < peak_rates.size(); ++i) parts.push_back(operations / (seconds[i] * peak_rates[i]));
    return median(parts);
}

void Measurement::append(const Measurement& other) {
    seconds.insert(seconds.end(), other.seconds.begin(), other.seconds.end());
    peak_rates.insert(peak_rates.end(), other.peak_rates.begin(), other.peak_rates.end());
}

std::vector<Measurement> measure_in_turns(std::span<const Contender> contenders, const Sampling& sampling) {
    std::vector<int> calls;
    for (const Contender& contender : contenders) calls.push_back(calls_of_sample(contender, sampling.sample_seconds));
    std::vector<Measurement> measured(contenders.size());
    const double end = now() + sampling.seconds * static_cast<double>(contenders.size());
    for (std::size_t round = 0; round < sampling.rounds || now() < end; ++round)
        for (std::size_t i = 0; i < contenders.size(); ++i) take_sample(contenders[i], calls[i], measured[i]);
    return measured;
}

double median_ratio(const Measurement& other, const Measurement& ours) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < ours.seconds.size(); ++i) ratios.push_back(other.seconds[i] / ours.seconds[i]);
    return median(ratios);
}

}  // namespace intq_bench
