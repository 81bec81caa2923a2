// SPDX-License-Identifier: MIT
//
// Observers as modules: each method by its name, merging, processes, refusals, what one pass tells.
#include "intq/quantization/observers/observer_modules.hpp"

#include <algorithm>
#include <barrier>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "intq/observers/histogram_search.hpp"
#include "intq/observers/kl.hpp"
#include "intq/observers/mix.hpp"
#include "intq/observers/mse.hpp"
#include "intq/observers/percentile.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::message_of;
using test::random_tensor;

namespace {

std::vector<intq::Tensor> batches_of(int count, unsigned seed) {
    std::vector<intq::Tensor> batches;
    for (int i = 0; i < count; ++i)
        batches.push_back(
            random_tensor(Shape(5, 3, 40), seed + static_cast<unsigned>(i), 1.0f + static_cast<float>(i)));
    return batches;
}

template <class O>
std::shared_ptr<O> observed(const std::vector<intq::Tensor>& batches, const ObserverOptions& options) {
    auto observer = std::make_shared<O>(options);
    for (const intq::Tensor& batch : batches) observer->observe(batch);
    return observer;
}

bool same(const intq::OwnedQParams& a, const intq::OwnedQParams& b) {
    return test::same_bits(a.scales, b.scales) && a.zero_points == b.zero_points && a.axis == b.axis;
}

bool same_buffers(Observer& a, Observer& b) {
    const auto mine = a.named_buffers(), other = b.named_buffers();
    for (std::size_t i = 0; i < mine.size(); ++i) {
        const intq::Tensor &x = *mine[i].value, &y = *other[i].value;
        if (x.bytes() != y.bytes() ||
            (x.bytes() != 0 && std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.bytes())) != 0))
            return false;
    }
    return mine.size() == other.size();
}

/// Two threads that stand for two processes.
class TwoProcesses {
public:
    class Member : public StateReduction {
    public:
        explicit Member(TwoProcesses& all) : all_(all) {}
        void minimum(std::span<float> v) override {
            all_.reduce<float>(v, [](float a, float b) { return std::min(a, b); });
        }
        void maximum(std::span<float> v) override {
            all_.reduce<float>(v, [](float a, float b) { return std::max(a, b); });
        }
        void sum(std::span<std::int64_t> v) override { all_.reduce<std::int64_t>(v, std::plus<>()); }

    private:
        TwoProcesses& all_;
    };

    /// What both say at the same time.
    template <class Make> std::pair<intq::OwnedQParams, intq::OwnedQParams> run(const Make& make) {
        intq::OwnedQParams results[2];
        const auto process = [&](int rank) {
            ObserverOptions options;
            options.is_sync_quantize = true;
            options.reduction = std::make_shared<Member>(*this);
            results[rank] = make(rank, options)->calculate_qparams();
        };
        std::thread other(process, 1);
        process(0);
        other.join();
        return {results[0], results[1]};
    }

private:
    template <class T, class Op> void reduce(std::span<T> values, Op op) {
        {
            const std::lock_guard lock(mutex_);
            const bool first = joined_.empty();
            for (std::size_t i = 0; i < values.size(); ++i) {
                const auto value = static_cast<long double>(values[i]);
                if (first)
                    joined_.push_back(value);
                else
                    joined_[i] = static_cast<long double>(op(static_cast<T>(joined_[i]), values[i]));
            }
        }
        barrier_.arrive_and_wait();
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(joined_[i]);
        barrier_.arrive_and_wait();
        {
            const std::lock_guard lock(mutex_);
            joined_.clear();
        }
        barrier_.arrive_and_wait();
    }
    std::mutex mutex_;
    std::barrier<> barrier_{2};
    std::vector<long double> joined_;
};

}  // namespace

TEST_CASE("Every range method read after one pass is what its observer says after a pass of its own") {
    const auto batches = batches_of(4, 1);
    const auto all = observed<StatisticsObserver>(batches, {});
    for (const RangeMethod method : all_range_methods) {
        INFO(name_of(method));
        const auto own = observer_table().at(name_of(method)).per_tensor({});
        for (const intq::Tensor& batch : batches) own->observe(batch);
        all->set_method(method);
        CHECK(same(all->calculate_qparams(), own->calculate_qparams()));
        const auto choices = all->choose(method);
        REQUIRE(choices.size() == 1);
        CHECK(choices[0].range.lowest == all->ranges().lowest[0]);
        CHECK(choices[0].error > 0.0);
    }
    // The method of the least error is none of the others' betters.
    for (const RangeMethod method : all_range_methods)
        CHECK(all->choose(RangeMethod::mse)[0].error <= all->choose(method)[0].error * 1.05);
    CHECK(StatisticsObserver().choose(RangeMethod::kl).empty());
}

TEST_CASE("Each method of the table is its formula, with the options that the formula takes") {
    ObserverOptions options{.percentile = 98.5, .mse = {40, 3}, .mix_percentiles = {0.97, 0.9}, .std_multiplier = 1.5};
    options.bins = 700;
    const auto batches = batches_of(3, 90);
    const auto statistics = observed<StatisticsObserver>(batches, options);
    std::vector<std::int64_t> counts(700);
    observers::GridHistogram data(counts);
    for (const intq::Tensor& batch : batches) {
        std::vector<std::uint32_t> scratch(
            static_cast<std::size_t>(kernels::grid_histogram_scratch_size(batch.size(), 700)));
        REQUIRE(data.update(batch.view<float, 3>(), scratch).ok());
    }
    std::vector<float> floats(1400);
    std::vector<double> doubles(static_cast<std::size_t>(observers::kl_scratch_size(700)));
    const double mix[] = {0.97, 0.9};
    const std::map<std::string, observers::ValueRange> expected{
        {"min_max", data.range()},
        {"percentile", observers::percentile_range(data, 0.985)},
        {"histogram", observers::search_range(data, 256, floats)},
        {"mse", *observers::mse_range(data, {}, {40, 3})},
        {"kl", observers::kl_range(data, {}, doubles)},
        {"mix", *observers::mix_range(data, {}, mix)},
        {"clip_std", observers::clip_std_range(data, 1.5)},
    };
    CHECK(expected.size() == std::size(all_range_methods));
    for (const RangeMethod method : all_range_methods) {
        INFO(name_of(method));
        REQUIRE(expected.count(name_of(method)) == 1);
        CHECK(statistics->choose(method).at(0).range == expected.at(name_of(method)));
    }
}

TEST_CASE("The pages list every observer of the table: calibration.md by name and class, workflow.md by class") {
    const auto lines = [](const std::string& page) {
        std::ifstream file(INTQ_TESTS_DIR "/../docs/" + page);
        std::vector<std::string> rows;
        for (std::string line; std::getline(file, line);)
            if (line.starts_with("| `")) rows.push_back(line);
        REQUIRE(!rows.empty());
        return rows;
    };
    const auto calibration = lines("calibration.md"), workflow = lines("workflow.md");
    const auto has_row = [](const std::vector<std::string>& rows, const std::string& start, const std::string& type) {
        return std::any_of(rows.begin(), rows.end(), [&](const std::string& row) {
            return row.starts_with(start) && row.find("`" + type + "`") != std::string::npos;
        });
    };
    for (const NamedObserver& row : observer_table().rows())
        for (const bool per_channel : {false, true}) {
            const ObserverFactory& factory = per_channel ? row.per_channel : row.per_tensor;
            if (!factory) continue;
            const std::string type = factory({.ch_axis = per_channel ? 0 : -1})->type_name();
            INFO(row.name << ", " << type);
            CHECK(has_row(calibration, "| `" + row.name + "` | `", type));
            CHECK(has_row(workflow, "| `", type));
        }
}

TEST_CASE("Observers merge to what one of them would have seen, in any order") {
    const auto batches = batches_of(6, 20);
    std::vector<intq::Tensor> backwards(batches.rbegin(), batches.rend());
    for (const NamedObserver& row : observer_table().rows()) {
        if (row.name == "moving_average" || row.name == "fixed_scale") continue;
        INFO(row.name);
        for (const bool per_channel : {false, true}) {
            const ObserverFactory& factory = per_channel ? row.per_channel : row.per_tensor;
            if (!factory) continue;
            const ObserverOptions options{.ch_axis = per_channel ? 1 : -1};
            const auto whole = factory(options), first = factory(options), second = factory(options),
                       empty = factory(options);
            for (const intq::Tensor& batch : backwards) whole->observe(batch);
            for (std::size_t i = 0; i < batches.size(); ++i) (i % 2 == 0 ? first : second)->observe(batches[i]);
            first->merge(*empty);
            empty->merge(*second);
            empty->merge(*first);
            CHECK(same_buffers(*empty, *whole));
            CHECK(same(empty->calculate_qparams(), whole->calculate_qparams()));
        }
    }
    MinMaxObserver min_max;
    CHECK(message_of<Error>([&] { min_max.merge(KLObserver()); }).find("same class") != std::string::npos);
    const auto average = observed<MovingAverageMinMaxObserver>(batches, {});
    CHECK(message_of<Error>([&] { average->merge(*average); }).find("order of the batches") != std::string::npos);
    const auto torch = observed<HistogramObserver>(batches, {.compatibility = Compatibility::torch});
    CHECK(message_of<Error>([&] { torch->merge(*torch); }).find("order of the batches") != std::string::npos);
    const auto three = observed<MSEObserver>(batches, {.ch_axis = 1}),
               five = observed<MSEObserver>(batches, {.ch_axis = 0});
    CHECK_THROWS_AS(three->merge(*five), Error);
}

TEST_CASE("is_sync_quantize gives every process the qparams of all data, and leaves its state alone") {
    const auto batches = batches_of(5, 40);
    const std::vector<intq::Tensor> parts[2] = {{batches[0], batches[4]}, {batches[1], batches[2], batches[3]}};
    TwoProcesses processes;
    for (const RangeMethod method : all_range_methods)
        for (const int axis : {-1, 1}) {
            const NamedObserver& row = observer_table().at(name_of(method));
            if (axis == 1 && !row.per_channel) continue;
            const ObserverFactory& factory = axis < 0 ? row.per_tensor : row.per_channel;
            const auto whole = factory({.ch_axis = axis});
            for (const intq::Tensor& batch : batches) whole->observe(batch);
            const auto [first, second] = processes.run([&](int rank, ObserverOptions options) {
                options.ch_axis = axis;
                const auto observer = factory(options);
                for (const intq::Tensor& batch : parts[rank]) observer->observe(batch);
                return observer;
            });
            INFO(row.name << " axis " << axis);
            CHECK((same(first, whole->calculate_qparams()) && same(second, whole->calculate_qparams())));
        }
    // A process without data takes part; none at all is scale 1.
    const auto one = observed<MSEObserver>(parts[0], {});
    const auto [first, second] = processes.run([&](int rank, const ObserverOptions& options) {
        return rank == 0 ? observed<MSEObserver>(parts[0], options) : std::make_shared<MSEObserver>(options);
    });
    CHECK((same(first, one->calculate_qparams()) && same(second, first)));
    const auto nobody =
        processes.run([](int, const ObserverOptions& options) { return std::make_shared<KLObserver>(options); });
    CHECK(nobody.first.scales == std::vector<float>{1.0f});
    CHECK(message_of<Error>([] { MinMaxObserver({.is_sync_quantize = true}); }).find("reduction") != std::string::npos);
}

TEST_CASE("Every observer skips empty tensors, says when it saw nothing, and refuses NaN without a change") {
    intq::Tensor bad = random_tensor(Shape(2, 3, 4), 5, 9.0f);
    for (const NamedObserver& row : observer_table().rows()) {
        INFO(row.name);
        const auto observer = row.per_tensor({});
        CHECK(observer->seen() == (row.name == "fixed_scale"));
        CHECK(observer->calculate_qparams().scales == std::vector<float>{1.0f});
        observer->observe(intq::Tensor::empty(Shape(0, 3)));
        CHECK(observer->seen() == (row.name == "fixed_scale"));
        observer->observe(random_tensor(Shape(2, 3, 4), 6));
        const auto before = nn::clone(observer);
        for (const float value : {std::nanf(""), INFINITY}) {
            bad.flat<float>()[7] = value;
            const std::string message = message_of<Error>([&] { observer->observe(bad); });
            CHECK(message.find(observer->type_name() + " of a tensor (2, 3, 4)") != std::string::npos);
            CHECK(message.find("element 7") != std::string::npos);
        }
        CHECK(same_buffers(*observer, *before));
    }
    MSEObserver channels({.ch_axis = 1});
    channels.observe(random_tensor(Shape(2, 3, 4), 6));
    const auto before = nn::clone(static_cast<const nn::Module&>(channels));
    CHECK(message_of<Error>([&] { channels.observe(bad); }).find("element 7") != std::string::npos);
    CHECK(same_buffers(channels, static_cast<Observer&>(*before)));
    CHECK(message_of<Error>([&] { channels.observe(random_tensor(Shape(2, 4, 4), 6)); }).find("4 channels") !=
          std::string::npos);
}

TEST_CASE("Per channel is each channel on its own") {
    const auto batches = batches_of(3, 60);
    const auto all = observed<MSEObserver>(batches, {.ch_axis = 1});
    for (index_t c = 0; c < 3; ++c) {
        MSEObserver one;
        for (const intq::Tensor& batch : batches) {
            intq::Tensor slice = intq::Tensor::empty(Shape(5, 40));
            for (index_t n = 0; n < 5; ++n)
                for (index_t i = 0; i < 40; ++i)
                    slice.flat<float>()[static_cast<std::size_t>(n * 40 + i)] =
                        batch.flat<float>()[static_cast<std::size_t>((n * 3 + c) * 40 + i)];
            one.observe(slice);
        }
        CHECK(one.calculate_qparams().scales[0] == all->calculate_qparams().scales[static_cast<std::size_t>(c)]);
    }
}

TEST_CASE("A clip bounds the range, a fixed scale ignores the data") {
    ClipObserver clip({.xmin = -0.5f, .xmax = 2.0f});
    clip.observe(intq::Tensor::from(Shape(2), {-3.0f, 1.5f}));
    CHECK((clip.ranges().lowest[0] == -0.5f && clip.ranges().highest[0] == 1.5f));
    clip.observe(intq::Tensor::from(Shape(1), {9.0f}));
    CHECK(clip.ranges().highest[0] == 2.0f);
    CHECK(clip.calculate_qparams().scales[0] == 2.0f / 127.5f);
    CHECK_THROWS_AS(ClipObserver({.xmin = 1.0f, .xmax = 0.0f}), Error);

    FixedScaleObserver fixed({.dtype = DType::int16, .scale = 0.25f});
    fixed.observe(random_tensor(Shape(30), 7));
    CHECK(fixed.calculate_qparams().scales == std::vector<float>{0.25f});
    CHECK(fixed.calculate_qparams().dtype == DType::int16);
    CHECK_THROWS_AS(FixedScaleObserver({.scale = 0.0f}), Error);
    CHECK_THROWS_AS(FixedScaleObserver({.scale = 1.0f, .zero_point = 200}), Error);
    CHECK_THROWS_AS(FixedScaleObserver({.scale = 1.0f, .zero_point = 5}), Error);  // symmetric
    const FixedScaleObserver affine({.scheme = arith::QuantScheme::affine, .scale = 1.0f, .zero_point = 5});
    CHECK(affine.calculate_qparams().zero_points == std::vector<std::int32_t>{5});
}

TEST_CASE("In torch mode the histogram observer has PyTorch's counts, search and qparams") {
    int cases = 0;
    for (const auto& row : test::golden_cases("histogram")) {
        if (row.contains("error") || !row.contains("search_min")) continue;
        if (row.at("name") == "inf") continue;  // refused
        const bool symmetric = row.at("args").at("qscheme").get<std::string>().ends_with("symmetric");
        ObserverOptions options{.dtype = symmetric ? DType::int8 : DType::uint8};
        options.scheme = symmetric ? arith::QuantScheme::symmetric : arith::QuantScheme::affine;
        options.bins = row.at("args").at("bins");
        options.compatibility = Compatibility::torch;
        if (options.bins < 16) continue;  // fewer than a grid can have
        HistogramObserver observer(options);
        for (const auto& batch : row.at("batches")) {
            const auto x = test::golden_floats(batch.at("data"));
            observer.observe(intq::Tensor::from(Shape(static_cast<index_t>(x.size())), x));
        }
        INFO(row.at("name").get<std::string>());
        const intq::OwnedQParams qparams = observer.calculate_qparams();
        CHECK(test::same_bits(qparams.scales, test::golden_floats(row.at("scale"))));
        CHECK((qparams.zero_points.empty() ? 0 : qparams.zero_points[0]) == row.at("zero_point").at(0).get<int>());
        ++cases;
    }
    CHECK(cases == 27);
    // A fake-quantizer in torch mode asks its observer for PyTorch's.
    CHECK(observed<HistogramObserver>(batches_of(3, 80), {.compatibility = Compatibility::torch})
              ->tensor("histogram")
              .dtype() == DType::float32);
}

TEST_CASE("The state is as large after many batches as after one, and a damaged one is refused") {
    KLObserver observer;
    observer.observe(random_tensor(Shape(100), 1));
    const auto bytes = [&] {
        index_t sum = 0;
        for (const auto& buffer : observer.named_buffers()) sum += buffer.value->bytes();
        return sum;
    };
    const index_t first = bytes();
    for (unsigned i = 0; i < 50; ++i) observer.observe(random_tensor(Shape(1000), i, static_cast<float>(i)));
    CHECK(bytes() == first);
    CHECK(first == 2048 * 8 + 2 * 4 + 2 * 4);
    observer.tensor("grid").flat<std::int32_t>()[0] += 1;
    CHECK(message_of<Error>([&] { observer.calculate_qparams(); }).find("KLObserver") != std::string::npos);
    CHECK_THROWS_AS(observer.observe(random_tensor(Shape(10), 1)), Error);
}

TEST_CASE("Arguments that make no sense are refused") {
    CHECK_THROWS_AS(StatisticsObserver({.bins = 15}), Error);
    CHECK_THROWS_AS(PercentileObserver({.percentile = 100.5}), Error);
    CHECK_THROWS_AS(PercentileObserver({.ch_axis = 0}), Error);
    for (const int axis : {-2, -7, max_rank}) {
        INFO(axis);
        const std::string sentence =
            "an observer's ch_axis is -1, for per tensor, or an axis counted from the front, 0 to 5; given " +
            std::to_string(axis);
        CHECK(message_of<Error>([&] { PerChannelMinMaxObserver({.ch_axis = axis}); }) == sentence);
        CHECK(message_of<Error>([&] { MSEObserver({.ch_axis = axis}); }) == sentence);
        CHECK_THROWS_AS(MinMaxObserver({.ch_axis = axis}), Error);
    }
    CHECK_THROWS_AS(MSEObserver({.mse = {0, 1}}), Error);
    CHECK_THROWS_AS(MSEObserver({.mse = {95, 0}}), Error);
    CHECK_THROWS_AS(KLObserver({.bins = 511}), Error);
    CHECK_THROWS_AS(MixObserver({.mix_percentiles = {}}), Error);
    CHECK_THROWS_AS(MixObserver({.mix_percentiles = {1.5}}), Error);
    CHECK_THROWS_AS(ClipStdObserver({.std_multiplier = 0.0}), Error);
    CHECK_THROWS_AS(ClipStdObserver({.std_multiplier = std::numeric_limits<double>::infinity()}), Error);
    for (const float bad : {-1.0f, 7.0f, std::numeric_limits<float>::quiet_NaN()})
        CHECK_THROWS_AS(MovingAverageMinMaxObserver({.averaging_constant = bad}), Error);
}
