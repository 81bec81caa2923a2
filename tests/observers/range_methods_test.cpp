// SPDX-License-Identifier: MIT
//
// The range methods against the data themselves: percentiles, errors, divergence, moments, cliffs.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "intq/observers/kl.hpp"
#include "intq/observers/mix.hpp"
#include "intq/observers/mse.hpp"
#include "intq/observers/percentile.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using observers::GridHistogram;
using observers::ValueRange;

using Values = std::vector<float>;

struct Observed {
    Observed(const Values& x, index_t bins = 2048) : memory(static_cast<std::size_t>(bins)), histogram(memory) {
        const auto size = static_cast<index_t>(x.size());
        std::vector<std::uint32_t> scratch(static_cast<std::size_t>(kernels::grid_histogram_scratch_size(size, bins)));
        REQUIRE(histogram.update(TensorView<const float, 1>(x.data(), {size}), scratch).ok());
    }
    Observed(const Observed&) = delete;
    Observed& operator=(const Observed&) = delete;
    std::vector<std::int64_t> memory;
    GridHistogram histogram;
};

Values normal_values(std::size_t count, unsigned seed, float mean = 0.0f, float deviation = 1.0f) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(mean, deviation);
    Values values(count);
    for (float& x : values) x = normal(random);
    return values;
}

/// Heavy tails: some values far out.
Values heavy_values(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::student_t_distribution<float> heavy(3.0f);
    Values values(count);
    for (float& x : values) x = heavy(random);
    return values;
}

const arith::RangeRule int8{}, int16{-32768, 32767}, uint8{0, 255, arith::QuantScheme::affine};

/// Sum of squared errors of fake-quantizing the data, one by one.
double real_error(const Values& values, const ValueRange& range, const arith::RangeRule& rule) {
    const auto qparams = arith::qparams_from_range(range.lowest, range.highest, rule);
    double sum = 0.0;
    for (const float x : values) {
        const double y = arith::fake_quantize(x, *qparams, {rule.quant_min, rule.quant_max});
        sum += (static_cast<double>(x) - y) * (static_cast<double>(x) - y);
    }
    return sum;
}

/// The error of a histogram whose bins are filled with `samples` values each, evenly.
double sampled_error(const GridHistogram& histogram, const ValueRange& range, const arith::RangeRule& rule) {
    const auto qparams = arith::qparams_from_range(range.lowest, range.highest, rule);
    const double scale = static_cast<double>(qparams->scale);
    const int samples = 4000;
    double sum = 0.0;
    for (index_t bin = 0; bin < histogram.used(); ++bin) {
        const auto [from, to] = histogram.interval(bin);
        double mean = 0.0;
        for (int i = 0; i < samples; ++i) {
            const double x = from + (to - from) * (i + 0.5) / samples;
            const double code = std::clamp(std::nearbyint(x / scale) + qparams->zero_point,
                                           static_cast<double>(rule.quant_min), static_cast<double>(rule.quant_max));
            mean += std::pow(x - (code - qparams->zero_point) * scale, 2) / samples;
        }
        sum += mean * static_cast<double>(histogram.counts()[static_cast<std::size_t>(bin)]);
    }
    return sum;
}

/// KL calibration by its definition: for each length the two distributions are written out.
double plain_kl_threshold(const GridHistogram& histogram, index_t levels) {
    std::vector<double> counts;
    for (index_t i = 0; i < histogram.used(); ++i) {
        const std::int64_t bin = histogram.state().grid.first + i;
        const auto magnitude = static_cast<std::size_t>(bin >= 0 ? bin : -bin - 1);
        if (counts.size() <= magnitude) counts.resize(magnitude + 1);
        counts[magnitude] += static_cast<double>(histogram.counts()[static_cast<std::size_t>(i)]);
    }
    counts[0] = counts[1];
    double least = INFINITY, best = static_cast<double>(counts.size());
    for (std::size_t length = std::max<std::size_t>(static_cast<std::size_t>(levels), 128); length <= counts.size();
         ++length) {
        std::vector<double> p(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(length)), q(length);
        for (std::size_t i = length; i < counts.size(); ++i) p.back() += counts[i];
        for (std::size_t level = 0; level < static_cast<std::size_t>(levels); ++level) {
            const std::size_t from = length * level / static_cast<std::size_t>(levels),
                              to = length * (level + 1) / static_cast<std::size_t>(levels);
            double mass = 0.0, places = 0.0;
            for (std::size_t i = from; i < to; ++i) {
                mass += counts[i];
                places += p[i] > 0.0 ? 1.0 : 0.0;
            }
            for (std::size_t i = from; i < to; ++i) q[i] = p[i] > 0.0 ? mass / places : 0.0;
        }
        double p_sum = 0.0, q_sum = 0.0, divergence = 0.0;
        for (std::size_t i = 0; i < length; ++i) {
            p_sum += p[i];
            q_sum += q[i];
        }
        for (std::size_t i = 0; i < length; ++i)
            if (p[i] > 0.0)
                divergence += q[i] > 0.0 ? p[i] / p_sum * std::log(p[i] / p_sum / (q[i] / q_sum)) : INFINITY;
        if (divergence < least - 1e-12) {
            least = divergence;
            best = static_cast<double>(length);
        }
    }
    return best * histogram.width();
}

}  // namespace

TEST_CASE("A percentile leaves out as many values as it says, to one bin") {
    for (const Values& values : {normal_values(20000, 1), heavy_values(20000, 2), normal_values(5000, 3, 40.0f, 0.1f),
                                 normal_values(5000, 4, -3.0f, 1.0f), Values{1.0f, 2.0f, 3.0f}})
        for (const index_t bins : {64, 2048})
            for (const double part : {0.0, 0.5, 0.9, 0.99, 0.9999, 1.0}) {
                const Observed observed(values, bins);
                const GridHistogram& histogram = observed.histogram;
                const ValueRange range = observers::percentile_range(histogram, part);
                const double threshold = static_cast<double>(std::max(-range.lowest, range.highest));
                const double width = histogram.width();
                const double may_leave = (1.0 - part) * static_cast<double>(values.size());
                const auto beyond = [&](double t) {
                    return static_cast<double>(std::count_if(
                        values.begin(), values.end(), [&](float x) { return std::fabs(static_cast<double>(x)) > t; }));
                };
                INFO("part " << part << " bins " << bins << " threshold " << threshold << " width " << width);
                CHECK(beyond(threshold) <= may_leave);
                CHECK(beyond(threshold - 1.0001 * width) + 0.5 >= may_leave);
                CHECK((range.lowest >= histogram.range().lowest && range.highest <= histogram.range().highest));
            }
}

TEST_CASE("The error of a range is the integral of rounding and clipping over evenly filled bins") {
    for (const Values& values : {normal_values(3000, 5), heavy_values(3000, 6), normal_values(3000, 7, 2.0f, 0.5f)})
        for (const arith::RangeRule& rule : {int8, uint8, arith::RangeRule{-8, 7}})
            for (const float part : {1.0f, 0.6f, 0.1f}) {
                const Observed observed(values, 200);
                const ValueRange all = observed.histogram.range();
                const ValueRange range{all.lowest * part, all.highest * part};
                const double error = *observers::quantization_error(observed.histogram, range, rule);
                const double expected = sampled_error(observed.histogram, range, rule);
                CHECK(std::fabs(error - expected) < 2e-4 * expected);
            }
}

TEST_CASE("The error of a range is that of the data: of points exactly, of many values within two percent") {
    const Observed constant(Values(10, 0.3f));
    const double step = static_cast<double>(arith::qparams_from_range(-1.0f, 1.0f)->scale);
    const double miss = static_cast<double>(0.3f) - std::nearbyint(static_cast<double>(0.3f) / step) * step;
    const double error = *observers::quantization_error(constant.histogram, {-1.0f, 1.0f}, int8);
    CHECK(std::fabs(error - 10 * miss * miss) < 1e-9 * error);
    const Values values = normal_values(200000, 8);
    const Observed observed(values);
    for (const float end : {1.0f, 2.0f, 4.0f})
        for (const arith::RangeRule& rule : {int8, int16}) {
            const double real = real_error(values, {-end, end}, rule);
            CHECK(std::fabs(*observers::quantization_error(observed.histogram, {-end, end}, rule) - real) <
                  0.02 * real);
        }
}

TEST_CASE("The MSE and mixed ranges err on the data hardly more than the best candidate") {
    for (const Values& values : {normal_values(30000, 11), heavy_values(30000, 12), normal_values(30000, 13, 3.0f)})
        for (const arith::RangeRule& rule : {int8, uint8, arith::RangeRule{-8, 7}}) {
            const Observed observed(values);
            const ValueRange all = observed.histogram.range();
            double least = INFINITY;
            for (int i = 0; i < 95; ++i) {
                const float part = 1.0f - 0.01f * static_cast<float>(i);
                least = std::min(least, real_error(values, {all.lowest * part, all.highest * part}, rule));
            }
            CHECK(real_error(values, *observers::mse_range(observed.histogram, rule), rule) < 1.02 * least);
            const double mixed = real_error(values, *observers::mix_range(observed.histogram, rule), rule);
            for (const double percentile : observers::mix_percentiles)
                CHECK(mixed <
                      1.02 * real_error(values, observers::percentile_range(observed.histogram, percentile), rule));
        }
    // Four bits on normal data: the known optimum is near 2.7 deviations, far inside the extremes.
    const Observed observed(normal_values(100000, 14));
    const ValueRange four_bits = *observers::mse_range(observed.histogram, {-8, 7});
    CHECK((four_bits.highest > 2.2f && four_bits.highest < 3.2f));
    CHECK(*observers::mse_range(observed.histogram, int16) == observed.histogram.range());
    const ValueRange strided = *observers::mse_range(observed.histogram, {-8, 7}, {95, 10});
    const float steps = 10.0f * (1.0f - strided.highest / observed.histogram.range().highest);
    CHECK(std::fabs(steps - std::nearbyint(steps)) < 1e-3f);
}

TEST_CASE("The KL range is the one of the definition") {
    std::vector<double> scratch(static_cast<std::size_t>(observers::kl_scratch_size(2048)));
    int shrunk = 0;
    for (const Values& values : {normal_values(20000, 21), heavy_values(20000, 22), normal_values(3000, 23, 0.5f, 0.2f),
                                 heavy_values(500, 24)})
        for (const index_t bins : {600, 2048}) {
            const Observed observed(values, bins);
            const ValueRange range = observers::kl_range(observed.histogram, int8, scratch);
            const double threshold = plain_kl_threshold(observed.histogram, 128);
            const ValueRange all = observed.histogram.range();
            CHECK(range == ValueRange{std::max(all.lowest, static_cast<float>(-threshold)),
                                      std::min(all.highest, static_cast<float>(threshold))});
            shrunk += range == all ? 0 : 1;
            const ValueRange four_bits = observers::kl_range(observed.histogram, {-8, 7}, scratch);
            CHECK(four_bits.highest ==
                  std::min(all.highest, static_cast<float>(plain_kl_threshold(observed.histogram, 8))));
        }
    CHECK(shrunk >= 4);
    // Zeros of a ReLU change nothing, many as they are.
    Values positive = normal_values(20000, 27), with_zeros;
    for (float& x : positive) x = std::fabs(x);
    with_zeros = positive;
    with_zeros.resize(200000);
    CHECK(observers::kl_range(Observed(with_zeros).histogram, int8, scratch).highest ==
          observers::kl_range(Observed(positive).histogram, int8, scratch).highest);
    CHECK(observers::kl_range(Observed(with_zeros).histogram, int8, scratch).highest > 2.0f);
    // With more levels than bins nothing can be told, and nothing is cut.
    const Observed observed(heavy_values(1000, 25));
    CHECK(observers::kl_range(observed.histogram, int16, scratch) == observed.histogram.range());
    // Far from 0 there are more magnitudes than bins.
    const Observed far(normal_values(4000, 26, 1000.0f, 0.1f));
    const ValueRange range = observers::kl_range(far.histogram, int8, scratch);
    CHECK((range.lowest == far.histogram.range().lowest && range.highest > 999.0f));
}

TEST_CASE("Moments are those of the data to a bin; the clipped range stays inside the extremes") {
    const Values values = normal_values(50000, 31, 5.0f, 2.0f);
    const Observed observed(values);
    double mean = 0.0, square = 0.0;
    for (const float x : values) mean += static_cast<double>(x) / 50000.0;
    for (const float x : values) square += std::pow(static_cast<double>(x) - mean, 2) / 50000.0;
    const auto moments = observers::moments(observed.histogram);
    CHECK(std::fabs(moments.mean - mean) < 0.5 * observed.histogram.width());
    CHECK(std::fabs(moments.deviation - std::sqrt(square)) < 1e-4);
    const ValueRange range = observers::clip_std_range(observed.histogram);
    CHECK(std::fabs(range.highest - 11.0f) < 0.1f);
    CHECK(std::fabs(range.lowest + 1.0f) < 0.1f);
    CHECK(observers::clip_std_range(observed.histogram, 100.0) == observed.histogram.range());
    const Observed constant(Values(7, 0.7f));
    CHECK(observers::moments(constant.histogram).deviation == 0.0);
    CHECK(observers::clip_std_range(constant.histogram) == ValueRange{0.7f, 0.7f});
}

TEST_CASE("A range beside a gap of outliers stands on a cliff, one in clean data does not") {
    Values values = normal_values(100000, 41);
    const Observed clean(values);
    const auto percentile = [](const Observed& observed, double part) {
        return *observers::find_cliff(observed.histogram, observers::percentile_range(observed.histogram, part), int8);
    };
    CHECK_FALSE(percentile(clean, 0.9999).is_cliff());
    CHECK_FALSE(observers::find_cliff(clean.histogram, clean.histogram.range(), int8)->is_cliff());
    for (std::size_t i = 0; i < 15; ++i) values[i * 97] = 60.0f;
    const Observed outliers(values);
    const auto cliff = percentile(outliers, 0.9998);
    CHECK(cliff.is_cliff());
    CHECK((cliff.wider.highest == 60.0f && cliff.narrower.highest < 5.0f));
    CHECK_FALSE(percentile(outliers, 0.9).is_cliff());
    CHECK_FALSE(observers::find_cliff(Observed(Values(5, 1.0f)).histogram, {1.0f, 1.0f}, int8)->is_cliff());
    // Many values at the very ends lie inside.
    const Observed ends({-1.0f, -1.0f, 1.0f, 1.0f, 0.3f, 0.1f});
    CHECK(observers::find_cliff(ends.histogram, {-1.0f, 1.0f}, int8)->tail == 1e-5);
    CHECK(observers::find_cliff(ends.histogram, {-0.5f, 0.5f}, int8)->tail == 0.5);
}

TEST_CASE("A range that leaves out most of its data at a loss is found where its neighbours are as bad") {
    // Of a relu: half zeros, and a tail in which no percentile stands out.
    Values values(5000, 0.0f);
    for (int i = 0; i < 5000; ++i) values.push_back(std::pow((static_cast<float>(i) + 0.5f) / 5000.0f, -0.4f) - 1.0f);
    const Observed relu(values);
    const ValueRange narrow = observers::percentile_range(relu.histogram, 0.99);
    const auto found = *observers::find_cliff(relu.histogram, narrow, int8);
    CHECK_FALSE(found.is_cliff());
    CHECK(found.clips_most());
    const double all = static_cast<double>(relu.histogram.range().highest);
    CHECK(std::fabs(found.kept - static_cast<double>(narrow.highest) / all) < 1e-12);
    CHECK(found.error > 10.0 * found.whole_error);
    CHECK(std::fabs(found.error / real_error(values, narrow, int8) - 1.0) < 0.05);
    CHECK_FALSE(observers::find_cliff(relu.histogram, relu.histogram.range(), int8)->clips_most());
    // More than half is kept.
    CHECK_FALSE(observers::find_cliff(relu.histogram, {0.0f, 0.6f * values[5000]}, int8)->clips_most());
    // One outlier: with four bits the finer steps are worth more than it.
    Values outlier(4000);
    for (std::size_t i = 0; i < outlier.size(); ++i) outlier[i] = std::sin(static_cast<float>(i));
    outlier[7] = 4.0f;
    const Observed one(outlier);
    CHECK_FALSE(observers::find_cliff(one.histogram, {-1.0f, 1.0f}, {-8, 7})->clips_most());
    CHECK(observers::find_cliff(one.histogram, {-1.0f, 1.0f}, int8)->clips_most());
    // Data of zeros have no range.
    CHECK_FALSE(observers::find_cliff(Observed(Values(5, 0.0f)).histogram, {0.0f, 0.0f}, int8)->clips_most());
}
