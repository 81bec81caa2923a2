// SPDX-License-Identifier: MIT
//
// Histogram counts: against PyTorch's, against a plain loop, on every backend, layout and executor.
#include "intq/observers/histogram.hpp"

#include <cmath>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/guarded_buffer.hpp"
#include "support/odd_width.hpp"
#include "support/tensors.hpp"

namespace {

using nlohmann::json;
using namespace intq;
using arith::HistogramRange;
using intq::test::BackwardExecutor;
using intq::test::for_each_backend;
using intq::test::golden_floats;
using intq::test::golden_histogram;
using intq::test::GuardedBuffer;
using intq::test::TestTensor;
using observers::HistogramCounts;

using Counts = std::vector<std::int64_t>;

std::vector<std::uint32_t> scratch_for(index_t size, index_t bins) {
    // Garbage: the kernel clears what it uses.
    return std::vector<std::uint32_t>(static_cast<std::size_t>(kernels::histogram_scratch_size(size, bins)), 77);
}

/// torch.histc, element by element; the last count is that of what it ignores.
Counts plain_histogram(const std::vector<float>& values, const HistogramRange& range, index_t bins) {
    Counts counts(static_cast<std::size_t>(bins) + 1);
    for (const float x : values) {
        std::size_t bin = static_cast<std::size_t>(bins);
        if (x >= range.lowest && x <= range.highest) {
            const volatile float distance = x - range.lowest, width = range.highest - range.lowest;
            const volatile float scaled = distance * static_cast<float>(bins);
            const volatile float position = scaled / width;
            bin = std::min(static_cast<std::size_t>(position), static_cast<std::size_t>(bins - 1));
        }
        ++counts[bin];
    }
    return counts;
}

/// Random values in and around the range, each edge of a bin and its neighbours, NaN and infinities.
std::vector<float> edge_values(const HistogramRange& range, index_t bins, std::size_t count) {
    std::mt19937 random(5);
    const float width = range.highest - range.lowest;
    std::uniform_real_distribution<float> inside(range.lowest - 0.1f * width, range.highest + 0.1f * width);
    constexpr float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> values;
    while (values.size() < count) {
        const auto all = static_cast<std::uint32_t>(bins);
        const double part = static_cast<double>(random() % (all + 1)) / all;
        const auto edge = static_cast<float>(static_cast<double>(range.lowest) + static_cast<double>(width) * part);
        const float special[] = {range.lowest, range.highest, 0.0f, -0.0f, infinity, -infinity, std::nanf("")};
        values.push_back(inside(random));
        values.push_back(edge);
        values.push_back(std::nextafter(edge, infinity));
        values.push_back(std::nextafter(edge, -infinity));
        values.push_back(special[random() % 7]);
    }
    values.resize(count);
    return values;
}

template <class Backend> Counts count(const std::vector<float>& values, const HistogramRange& range, index_t bins) {
    Counts counts(static_cast<std::size_t>(bins) + 1, 3);  // the kernel adds
    auto scratch = scratch_for(static_cast<index_t>(values.size()), bins);
    kernels::histogram<Backend>(TensorView<const float, 1>(values.data(), {static_cast<index_t>(values.size())}), range,
                                counts, scratch);
    for (auto& each : counts) each -= 3;
    return counts;
}

// --- golden numbers --------------------------------------------------------------------------------------------------
/// The range of the first batch, if the later ones do not leave it; a range that grows needs the observer's remapping.
bool fixed_range(const json& row, HistogramRange& range) {
    bool first = true;
    for (const json& batch : row.at("batches")) {
        const std::vector<float> x = golden_floats(batch.at("data"));
        if (x.empty()) return false;
        const auto [lowest, highest] = std::minmax_element(x.begin(), x.end());
        if (!std::isfinite(*lowest) || !std::isfinite(*highest)) return false;
        if (!first && (*lowest < range.lowest || *highest > range.highest)) return false;
        if (first) range = {*lowest, *highest};
        first = false;
    }
    return !first;
}

bool check_golden(const json& row) {
    HistogramRange range;
    if (row.contains("error") || !fixed_range(row, range)) return false;
    range = arith::histogram_range(range.lowest, range.highest);
    const index_t bins = row.at("args").at("bins");
    Counts memory(static_cast<std::size_t>(bins) + 1);
    HistogramCounts counts(memory, range);
    for (const json& batch : row.at("batches")) {
        const std::vector<float> x = golden_floats(batch.at("data"));
        const auto size = static_cast<index_t>(x.size());
        auto scratch = scratch_for(size, bins);
        counts.update(TensorView<const float, 1>(x.data(), {size}), scratch);
    }
    INFO(row.at("name").get<std::string>());
    const std::vector<float> got(counts.counts().begin(), counts.counts().end());
    CHECK(got == golden_histogram(row, bins));
    CHECK(counts.ignored() == 0);
    return true;
}

}  // namespace

TEST_CASE("Counts of a fixed range equal PyTorch's histogram observer's") {
    int cases = 0;
    for (const json& row : intq::test::golden_cases("histogram")) cases += check_golden(row) ? 1 : 0;
    CHECK(cases == 17);
}

TEST_CASE("Every backend counts each value into the bin of torch.histc, and ignores what is outside") {
    for_each_backend(intq::test::all_backends{}, [](auto backend) {
        using Backend = decltype(backend);
        std::cout << "histogram on " << Backend::name << "\n";
        for (const HistogramRange& range :
             {HistogramRange{-1.0f, 0.9f}, HistogramRange{0.0f, 1.0f}, HistogramRange{-3.7f, 1e6f},
              HistogramRange{1e-38f, 3e-38f}, HistogramRange{16777210.0f, 16777216.0f}})
            for (const index_t bins : {1, 8, 255, 2048})
                for (const std::size_t size : {0u, 1u, 3u, 17u, 63u, 64u, 65u, 5000u}) {
                    const auto values = edge_values(range, bins, size);
                    INFO(Backend::name << ' ' << range.lowest << ' ' << range.highest << " bins " << bins << " size "
                                       << size);
                    CHECK(count<Backend>(values, range, bins) == plain_histogram(values, range, bins));
                }
    });
}

TEST_CASE("Tasks, layouts and merging in any order leave the counts as they are") {
    const HistogramRange range{-2.0f, 2.5f};
    const index_t bins = 100, size = 5 * kernels::detail::histogram_step(bins) + 7;
    const auto values = edge_values(range, bins, static_cast<std::size_t>(size));
    const Counts expected = plain_histogram(values, range, bins);
    BackwardExecutor backward;
    Counts memory(static_cast<std::size_t>(bins) + 1), first_memory(memory), second_memory(memory);
    HistogramCounts counts(memory, range), first(first_memory, range), second(second_memory, range);
    auto scratch = scratch_for(size, bins);
    counts.update(TensorView<const float, 1>(values.data(), {size}), scratch, backward.executor());
    CHECK(memory == expected);
    CHECK(backward.tasks == 6);
    CHECK(counts.total() + counts.ignored() == size);

    const index_t part = 1234;
    first.update(TensorView<const float, 1>(values.data(), {part}), scratch);
    second.update(TensorView<const float, 1>(values.data() + part, {size - part}), scratch);
    CHECK(second.merge(first).ok());
    CHECK(second_memory == expected);

    const std::array<index_t, 3> extents{3, 5, 67};
    TestTensor<float, 3, strided> tensor(extents);
    std::size_t next = 0;
    tensor.fill([&](const auto&) { return values[next++]; });
    counts.reset();
    counts.update(tensor.view(), scratch);
    CHECK(memory == plain_histogram({values.begin(), values.begin() + static_cast<std::ptrdiff_t>(next)}, range, bins));
}

TEST_CASE("The histogram stays inside its buffers") {
    const HistogramRange range{-1.0f, 1.0f};
    const index_t bins = 13, size = 77;
    const auto values = edge_values(range, bins, static_cast<std::size_t>(size));
    const auto words = static_cast<std::size_t>(kernels::histogram_scratch_size(size, bins));
    for (const auto against : {GuardedBuffer::Against::end, GuardedBuffer::Against::begin}) {
        GuardedBuffer x(values.size() * sizeof(float), against), counts(14 * sizeof(std::int64_t), against),
            scratch(words * sizeof(std::uint32_t), against);
        std::copy(values.begin(), values.end(), x.as<float>());
        HistogramCounts histogram({counts.as<std::int64_t>(), 14}, range);
        histogram.update(TensorView<const float, 1>(x.as<float>(), {size}), {scratch.as<std::uint32_t>(), words});
        CHECK((counts.is_intact() && scratch.is_intact()));
        CHECK(histogram.total() + histogram.ignored() == size);
    }
}

TEST_CASE("Ranges and numbers of bins that have no histogram are refused") {
    CHECK(arith::check_histogram({-1.0f, 1.0f}, 2048).ok());
    CHECK(arith::check_histogram({-1.0f, 1.0f}, 0) ==
          Status{StatusCode::value_out_of_range, OpKind::observe, Field::channels, 0, 1});
    CHECK(arith::check_histogram({-1.0f, 1.0f}, arith::most_histogram_bins + 1).field == Field::channels);
    CHECK(arith::check_histogram({1.0f, 1.0f}, 8).code == StatusCode::value_out_of_range);
    CHECK(arith::check_histogram({-3e38f, 3e38f}, 8).code == StatusCode::not_finite);
    CHECK(arith::check_histogram({0.0f, 3e38f}, 2048).code == StatusCode::not_finite);
    CHECK(arith::check_histogram({0.0f, std::nanf("")}, 8).code == StatusCode::not_finite);
    CHECK(arith::histogram_range(5.0f, 5.0f) == HistogramRange{4.0f, 6.0f});
    CHECK(arith::histogram_range(5.0f, 6.0f) == HistogramRange{5.0f, 6.0f});
    Counts memory(9), other_memory(9), fewer(8);
    HistogramCounts counts(memory, {0.0f, 1.0f}), other(other_memory, {0.0f, 2.0f}), short_one(fewer, {0.0f, 1.0f});
    CHECK(counts.merge(other).code == StatusCode::value_out_of_range);
    CHECK(counts.merge(short_one) == Status{StatusCode::shape_mismatch, OpKind::observe, Field::channels, 7, 8});
}
