// SPDX-License-Identifier: MIT
//
// Improvements are kept only where they improve: over networks with planted weak channels and biases, and on data that
// neither calibrated nor judged.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/improve/adaround.hpp"
#include "intq/improve/bias_correction.hpp"
#include "intq/improve/equalization.hpp"
#include "intq/improve/take_better.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/fuse/fuse_fx.hpp"
#include "intq/quantization/observers/range_observers.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using Catch::Matchers::Contains;
using intq::Tensor;
using test::make_conv;
using test::message_of;

namespace {

/// An output channel's weights and bias, each times a factor, and a constant on the bias.
void plant(nn::Conv2d& conv, index_t channel, float weights, float bias_factor, float bias) {
    Tensor w = conv.weight().clone(), b = conv.bias().clone();
    const index_t each = w.size() / w.extent(0);
    for (index_t i = 0; i < each; ++i) w.flat<float>()[static_cast<std::size_t>(channel * each + i)] *= weights;
    float& own = b.flat<float>()[static_cast<std::size_t>(channel)];
    own = own * bias_factor + bias;
    conv.set_weight(w);
    conv.set_bias(b);
}

/// The weights that read an input channel, in one group, times a factor.
void plant_reader(nn::Conv2d& conv, index_t channel, float factor) {
    Tensor w = conv.weight().clone();
    const index_t taps = w.extent(2) * w.extent(3);
    for (index_t i = 0; i < w.size(); ++i)
        if (i / taps % w.extent(1) == channel) w.flat<float>()[static_cast<std::size_t>(i)] *= factor;
    conv.set_weight(w);
}

nn::ModulePtr two_layers(const nn::ModulePtr& first, const nn::ModulePtr& second) {
    return test::stubbed({{"first", first}, {"second", second}}, [](test::LambdaModel& m, nn::Arguments x) {
        return m.call("second", nn::relu(m.call("first", x[0])));
    });
}

/// Networks with nearly dead channels of large bias, half of them with channels that one layer makes large and the next
/// small.
nn::ModulePtr planted_network(unsigned k) {
    const index_t groups = k % 3 == 1 ? 8 : 1, kernel = k % 2 == 0 ? 3 : 1;
    const auto a = make_conv(3, 8, 3, 100 + k), b = make_conv(8, 8, k % 3 == 2 ? 1 : 3, 200 + k, 1, groups),
               c = make_conv(8, 5, kernel, 300 + k);
    plant(*a, 1, std::pow(10.0f, -1.0f - static_cast<float>(k % 6)), 0.0f, 0.5f + static_cast<float>(k % 4));
    plant(*b, 2, std::pow(10.0f, -1.0f - static_cast<float>(k % 5)), 0.0f, 1.0f + static_cast<float>(k % 3));
    plant(*b, 3, 1e-3f, 1.0f, -2.0f);
    if (k % 4 < 2) {
        plant(*a, 5, 20.0f, 1.0f, 0.0f);
        if (groups == 1) plant_reader(*b, 5, 0.05f);
        plant(*b, 6, 12.0f, 4.0f, 0.0f);
        plant_reader(*c, 6, 0.1f);
    }
    return test::stubbed({{"a", a}, {"b", b}, {"c", c}}, [](test::LambdaModel& m, nn::Arguments x) {
        return m.call("c", nn::relu(m.call("b", nn::relu(m.call("a", x[0])))));
    });
}

/// Images; those of every other network have means.
Tensor images_of(unsigned k, index_t count, unsigned seed) {
    Tensor images = test::random_tensor(Shape(count, 3, 8, 8), seed + k);
    if (k % 2 == 1)
        for (float& value : images.flat<float>()) value = value * 0.3f + 1.0f;
    return images;
}

/// Affine activations as the target has them; weights with one scale a tensor in every other network.
QConfig qconfig_of(unsigned k) {
    QConfig qconfig = get_default_qconfig(target::fp32::policy);
    qconfig.output->options.observer = observer_factory<MinMaxObserver>();
    if (k / 2 % 2 == 0) return qconfig;
    qconfig.weight->options.observer = observer_factory<MinMaxObserver>();
    qconfig.weight->options.observer_options.ch_axis = -1;
    return qconfig;
}

std::shared_ptr<PreparedModel> calibrated(const nn::Module& model, const QConfig& qconfig, const Tensor& images) {
    auto prepared = prepare_calibration_fx(model, QConfigMapping().set_global(qconfig), target::fp32::policy);
    calibrate(*prepared, images, 8);
    return prepared;
}

std::shared_ptr<graph::GraphModule> copy_of(const graph::GraphModule& model) {
    return std::dynamic_pointer_cast<graph::GraphModule>(nn::clone(static_cast<const nn::Module&>(model)));
}

double first_of(const Tensor& batch) { return static_cast<double>(batch.contiguous().flat<float>()[0]); }

improve::AdaRoundOptions quick_rounding() {
    improve::AdaRoundOptions options;
    options.iterations = 40;
    options.rate = 0.03;
    options.batch_size = 8;
    return options;
}

}  // namespace

TEST_CASE("Improvements of 40 networks with planted channels: on other data none loses more than 0.3 dB") {
    struct Count {
        int kept = 0, left_out = 0;
        double worst = std::numeric_limits<double>::infinity(), best = -worst, worst_applied = worst;

        /// @param applied  what the change gives where nobody compares
        void add(double gain, double applied, bool is_kept) {
            ++(is_kept ? kept : left_out);
            worst = std::min(worst, gain);
            best = std::max(best, gain);
            worst_applied = std::min(worst_applied, applied);
        }
    };
    std::map<std::string, Count> counts;
    for (unsigned k = 0; k < 40; ++k) {
        const auto fused = fuse_fx(*planted_network(k));
        const QConfig qconfig = qconfig_of(k);
        const Tensor images = images_of(k, 32, 5000);
        const BatchSource samples = batches_of(images, 4), other = batches_of(images_of(k, 64, 6000), 16);
        const auto plain = calibrated(*fused, qconfig, images);
        const double without = improve::sqnr_on(*fused, *plain, other);
        const improve::Improvement rounds = [](PreparedModel& model, const BatchSource& learn) {
            improve::adaround(model, learn, quick_rounding());
        };
        const improve::Improvement corrects = [](PreparedModel& model, const BatchSource& learn) {
            improve::correct_bias(model, learn);
        };
        const auto gain_of = [&](PreparedModel& model) { return improve::sqnr_on(*fused, model, other) - without; };
        const auto check = [&](const std::string& what, PreparedModel& model, PreparedModel& applied, bool is_kept) {
            const double gain = gain_of(model);
            INFO(what << " of network " << k << ": " << without << " dB without, " << gain << " dB gained");
            CHECK(gain >= -0.3);
            counts[what].add(gain, gain_of(applied), is_kept);
        };

        const improve::HeldOut held = improve::hold_out(samples);
        const auto equalized = copy_of(*fused);
        improve::equalize(*equalized, held.learn, qconfig, target::fp32::policy);
        auto all = plain;
        const auto changed = calibrated(*equalized, qconfig, images);
        const auto choice = improve::take_better(all, changed, *fused, held.judge);
        check("equalization", *all, *changed, choice.is_kept);
        for (const auto& [what, change] : {std::pair("AdaRound", &rounds), std::pair("bias correction", &corrects)}) {
            auto model = plain;
            const bool is_kept = improve::improve_if_better(model, *fused, samples, *change).is_kept;
            CHECK((model == plain) == !is_kept);
            const auto applied =
                std::dynamic_pointer_cast<PreparedModel>(nn::clone(static_cast<const nn::Module&>(*plain)));
            (*change)(*applied, held.learn);
            check(what, *model, *applied, is_kept);
            // Judged beside the float model, also where AdaRound has rounded the weights before.
            const double before = improve::sqnr_on(*fused, *all, held.judge);
            const improve::BetterOf one = improve::improve_if_better(all, *fused, samples, *change);
            CHECK(one.without == before);
            CHECK(improve::sqnr_on(*fused, *all, held.judge) == (one.is_kept ? one.with : before));
        }
        check("all three", *all, *all, true);
    }
    for (const auto& [what, count] : counts) {
        WARN(what << ": " << count.kept << " kept, " << count.left_out << " left out; the worst " << count.worst
                  << " dB (" << count.worst_applied << " dB where nobody compares), the best " << count.best << " dB");
        CHECK(count.kept >= 20);
        CHECK(count.best > 3.0);
        if (what != "all three") CHECK(count.left_out >= 1);
        if (what == "AdaRound") CHECK(count.worst_applied < -0.3);  // so the comparison is needed
    }
}

TEST_CASE("Equalization without data: a bias bounds the factor of a nearly dead channel, and of no other") {
    const auto first = make_conv(3, 6, 3, 1), second = make_conv(6, 5, 3, 2);
    plant(*first, 2, 1e-6f, 0.0f, 1.5f);
    const auto fused = fuse_fx(*two_layers(first, second));
    const Tensor images = test::random_tensor(Shape(16, 3, 8, 8), 3),
                 other = test::random_tensor(Shape(32, 3, 8, 8), 4);
    const QConfig qconfig = qconfig_of(0);
    const double without = improve::sqnr_on(*fused, *calibrated(*fused, qconfig, images), batches_of(other, 8));
    const auto equalized = copy_of(*fused);
    const auto report = improve::equalize(*equalized);
    REQUIRE(report.pairs.size() == 1);
    CHECK(report.pairs[0].bounded == 1);
    const double with = improve::sqnr_on(*fused, *calibrated(*equalized, qconfig, images), batches_of(other, 8));
    INFO(without << " dB without, " << with << " dB with");
    CHECK(with > without - 3.0);  // factors without a bound lose 35 dB
}

TEST_CASE("Equalization on samples absorbs constants where the next layer gives one constant at every place") {
    for (const index_t kernel : {1, 3}) {
        CAPTURE(kernel);
        const auto first = make_conv(3, 6, 3, 1), second = make_conv(6, 5, kernel, 2);  // padded where kernel is 3
        plant(*first, 2, 1e-2f, 0.0f, 1.5f);
        plant(*first, 4, 20.0f, 1.0f, 0.0f);  // so that factors pay in any case
        plant_reader(*second, 4, 0.05f);
        const auto fused = fuse_fx(*two_layers(first, second));
        const Tensor images = test::random_tensor(Shape(16, 3, 8, 8), 3);
        const Tensor before = (*fused)(images).tensor();
        const auto report = improve::equalize(*fused, batches_of(images, 4), qconfig_of(0), target::fp32::policy);
        REQUIRE(report.pairs.size() == 1);
        CHECK(report.pairs[0].absorbed == (kernel == 1 ? 1 : 0));
        CHECK(report.pairs[0].error < report.pairs[0].error_without);
        CHECK(test::largest_difference((*fused)(images).tensor(), before) < 1e-4);  // of values of some tens
        // What is left of the constant is less than the channel's own swing.
        const auto& layer = dynamic_cast<const nn::Weighted&>(fused->find("first"));
        const Tensor y = nn::float_operators::relu(layer.apply(images, layer.weight()));
        float lowest = y.flat<float>()[2 * 64];
        for (index_t n = 0; n < 16; ++n)
            for (index_t i = 0; i < 64; ++i)
                lowest = std::min(lowest, y.flat<float>()[static_cast<std::size_t>((n * 6 + 2) * 64 + i)]);
        CHECK((lowest < 1e-4f) == (kernel == 1));
    }
}

TEST_CASE("A pair whose factors cost more than they give keeps its weights, and the report has both errors") {
    const auto first = make_conv(3, 8, 1, 1), second = make_conv(8, 8, 1, 2);
    // Weights with a scale for each channel need no factor, and the next layer reads few channels, which are small.
    for (index_t c = 0; c < 4; ++c) {
        plant(*first, c, 0.01f, 0.01f, 0.0f);
        plant_reader(*second, c, 1e-6f);
    }
    const auto fused = fuse_fx(*two_layers(first, second));
    const Tensor weight = dynamic_cast<const nn::Weighted&>(fused->find("first")).weight().clone();
    const Tensor images = test::random_tensor(Shape(16, 3, 8, 8), 3);
    const auto report = improve::equalize(*fused, batches_of(images, 4), qconfig_of(0), target::fp32::policy);
    std::string reason;
    for (const auto& blocked : report.blocked)
        if (blocked.layer == "first") reason = blocked.reason;
    CHECK(report.pairs.empty());
    CHECK_THAT(reason, Contains("costs both layers more") && Contains("mean squared error"));
    CHECK(test::largest_difference(dynamic_cast<const nn::Weighted&>(fused->find("first")).weight(), weight) == 0.0);
}

TEST_CASE("What judges is not what was learned from, and a change that harms leaves the model") {
    const auto fused = fuse_fx(*planted_network(0));
    const Tensor images = images_of(0, 32, 5000);
    for (const index_t batch : {4, 12, 32}) {  // of 8, 3 and 1 batches
        const BatchSource samples = batches_of(images, batch);
        const improve::HeldOut held = improve::hold_out(samples);
        std::vector<double> learned, judged;
        for (std::size_t i = 0; i < held.learn.count; ++i) learned.push_back(first_of(held.learn.batch(i)));
        for (std::size_t i = 0; i < held.judge.count; ++i) judged.push_back(first_of(held.judge.batch(i)));
        CHECK(judged.size() == (batch == 4 ? 2 : 1));
        CHECK(learned.size() + judged.size() == (batch == 32 ? 2 : samples.count));
        for (const double value : judged)
            CHECK((std::find(learned.begin(), learned.end(), value) == learned.end()) == (batch != 32));
    }
    auto model = calibrated(*fused, qconfig_of(0), images);
    const auto before = model;
    const improve::BetterOf choice = improve::improve_if_better(
        model, *fused, batches_of(images, 4), [](PreparedModel& changed, const BatchSource&) {
            auto& layer = dynamic_cast<nn::Weighted&>(changed.find("c"));
            layer.set_bias(test::random_tensor(layer.bias().shape(), 1, 100.0f));
        });
    CHECK(model == before);
    CHECK_FALSE(choice.is_kept);
    CHECK(choice.with < choice.without);
    CHECK_THAT(to_string(choice), Contains("left out: -") && Contains(" dB on the samples that judge, "));
    CHECK(improve::sqnr_on(*model, *model, batches_of(images, 4)) == std::numeric_limits<double>::infinity());
    CHECK_THAT(message_of<Error>([&] { improve::improve_if_better(model, *fused, batches_of(images, 4), nullptr); }),
               Contains("`change` is empty"));
    QConfig no_output = qconfig_of(0);
    no_output.output.reset();
    CHECK_THAT(
        message_of<Error>([&] { improve::equalize(*fused, batches_of(images, 4), no_output, target::fp32::policy); }),
        Contains("equalize: its qconfig has no quantizer of outputs"));
    CHECK_THAT(
        message_of<Error>([&] { improve::equalize(*fused, BatchSource(), qconfig_of(0), target::fp32::policy); }),
        Contains("equalize: there is no data"));
}
