// SPDX-License-Identifier: MIT
//
// Healthy networks of random shapes, and defects of quantization that are planted in them.
#ifndef INTQ_TESTS_ANALYSIS_PLANTED_DEFECTS_HPP
#define INTQ_TESTS_ANALYSIS_PLANTED_DEFECTS_HPP

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "analysis/models.hpp"
#include "intq/analysis/advisor.hpp"
#include "intq/analysis/models/analysed_model.hpp"
#include "intq/graph/operators.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/quantization/modules/prepared_layers.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"

namespace intq::test {

/// conv, bn, relu.
struct ConvStage : nn::Cloneable<ConvStage> {
    ConvStage(index_t in, index_t out, index_t kernel, index_t padding, index_t groups, unsigned seed) {
        auto conv = std::make_shared<nn::Conv2d>(
            nn::Conv2dOptions{in, out, nn::square_window(kernel, 1, padding), groups, false});
        conv->set_weight(random_tensor(conv->weight().shape(), seed, 0.3f));
        add_child("conv", conv);
        add_child("bn", make_batch_norm<nn::BatchNorm2d>(out, seed + 1));
        auto& bn = find("bn");
        for (float& value : bn.tensor("weight").flat<float>()) value = 1.0f + 0.1f * value;
        for (float& value : bn.tensor("bias").flat<float>()) value = 0.2f * value;
        add_child("relu", std::make_shared<nn::ReLU>());
    }
    std::string type_name() const override { return "ConvStage"; }
    nn::Value forward(nn::Arguments a) override { return call("relu", call("bn", call("conv", a[0]))); }
};

/// conv, bn, relu, conv, bn, and the input added.
struct ResidualStage : nn::Cloneable<ResidualStage> {
    ResidualStage(index_t channels, unsigned seed) {
        add_child("inner", std::make_shared<ConvStage>(channels, channels, 3, 1, 1, seed));
        add_child("outer", std::make_shared<ConvStage>(channels, channels, 3, 1, 1, seed + 5));
        add_child("add", std::make_shared<nn::FloatFunctional>());
    }
    std::string type_name() const override { return "ResidualStage"; }
    nn::Value forward(nn::Arguments a) override {
        return nn::call_add(*this, "add", call("outer", call("inner", a[0])), a[0]);
    }
};

/// Two stages side by side, the second one of two channels, joined by cat.
struct BranchStage : nn::Cloneable<BranchStage> {
    BranchStage(index_t channels, unsigned seed) {
        add_child("wide", std::make_shared<ConvStage>(channels, channels, 3, 1, 1, seed));
        add_child("narrow", std::make_shared<ConvStage>(channels, 2, 1, 0, 1, seed + 5));
        add_child("cat", std::make_shared<nn::FloatFunctional>());
    }
    std::string type_name() const override { return "BranchStage"; }
    nn::Value forward(nn::Arguments a) override {
        const nn::Value wide = call("wide", a[0]), narrow = call("narrow", a[0]);
        return nn::call_cat(*this, "cat", {wide, narrow}, 1);
    }
};

/// stem, stages, a last stage, average, linear; between stubs.
struct HealthyNet : nn::Cloneable<HealthyNet> {
    std::vector<std::string> names;  // of the stages in order

    HealthyNet(const std::vector<std::string>& kinds, index_t channels, unsigned seed) {
        const auto add = [&](const std::string& name, const nn::ModulePtr& module) {
            add_child(name, module);
            names.push_back(name);
        };
        add_child("quant", std::make_shared<nn::QuantStub>());
        add("stem", std::make_shared<ConvStage>(3, channels, 3, 0, 1, seed));
        index_t now = channels;
        for (std::size_t i = 0; i < kinds.size(); ++i) {
            const std::string name = kinds[i] + std::to_string(i);
            const unsigned own = seed + 100 * static_cast<unsigned>(i + 1);
            if (kinds[i] == "plain") add(name, std::make_shared<ConvStage>(now, now, 3, 1, 1, own));
            if (kinds[i] == "depthwise") add(name, std::make_shared<ConvStage>(now, now, 3, 1, now, own));
            if (kinds[i] == "residual") add(name, std::make_shared<ResidualStage>(now, own));
            if (kinds[i] == "branch") {
                add(name, std::make_shared<BranchStage>(now, own));
                now += 2;
            }
        }
        add("last", std::make_shared<ConvStage>(now, 2 * channels, 3, 1, 1, seed + 900));
        add_child("pool", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{2, 2}));
        add_child("flatten", std::make_shared<nn::Flatten>());
        add_child("fc", make_linear(8 * channels, 6, seed + 950));
        add_child("dequant", std::make_shared<nn::DeQuantStub>());
        eval();
    }
    std::string type_name() const override { return "HealthyNet"; }
    nn::Value forward(nn::Arguments a) override {
        nn::Value x = call("quant", a[0]);
        for (const std::string& name : names) x = call(name, x);
        return call("dequant", call("fc", call("flatten", call("pool", x))));
    }
};

/// Gives each batch norm the statistics that its convolution has on a batch.
inline void measure_batch_norms(const nn::ModulePtr& net, const Tensor& x) {
    const analysis::AnalysedModel model(net);
    const auto run = model.run({x});
    analysis::AnalysedCall call;
    while (run->next(call)) {
        const std::string& name = model.operators()[call.index].mod_name;
        if (name.size() < 5 || name.substr(name.size() - 5) != ".conv") continue;
        nn::Module& bn = net->find(name.substr(0, name.size() - 4) + "bn");
        const Tensor y = call.outputs.front().contiguous();
        const auto values = y.flat<float>();
        const auto channels = static_cast<std::size_t>(y.extent(1)),
                   plane = static_cast<std::size_t>(y.extent(2) * y.extent(3));
        std::vector<double> sum(channels), squares(channels);
        for (std::size_t i = 0; i < values.size(); ++i) {
            const double value = static_cast<double>(values[i]);
            sum[i / plane % channels] += value;
            squares[i / plane % channels] += value * value;
        }
        const double count = static_cast<double>(values.size() / channels);
        for (std::size_t c = 0; c < channels; ++c) {
            bn.tensor("running_mean").flat<float>()[c] = static_cast<float>(sum[c] / count);
            bn.tensor("running_var").flat<float>()[c] =
                static_cast<float>(squares[c] / count - sum[c] / count * (sum[c] / count));
        }
    }
}

/// A network with one defect, what was planted, and the same without it.
struct PlantedDefect {
    analysis::Cause cause{};
    std::string layer;  // where
    analysis::QuantizationRecipe healthy{}, planted{};
    Tensor bad_case{}, healthy_case{};
};

/// Draws networks and defects; a seed gives the same ones everywhere.
class DefectGenerator {
public:
    explicit DefectGenerator(unsigned seed) : random_(seed) {}

    static constexpr std::size_t kinds = 10;

    PlantedDefect make(std::size_t kind) {
        using analysis::Cause;
        static constexpr Cause causes[kinds] = {Cause::outlier_channel,
                                                Cause::dead_channel,
                                                Cause::tiny_batch_norm_variance,
                                                Cause::wrong_axis,
                                                Cause::scale_too_small,
                                                Cause::scale_on_cliff,
                                                Cause::shared_scale,
                                                Cause::per_tensor_depthwise,
                                                Cause::range_of_one_sign,
                                                Cause::calibration_does_not_cover};
        PlantedDefect defect;
        defect.cause = causes[kind % kinds];
        draw_network(defect.cause);
        defect.healthy = recipe(net_);
        defect.healthy_case = batch(3);
        defect.bad_case = defect.healthy_case;
        net_ = nn::clone(net_);
        defect.planted = recipe(net_);
        plant(defect);
        return defect;
    }

private:
    double uniform(double low, double high) {
        return low + (high - low) * static_cast<double>(random_()) / 4294967296.0;
    }
    std::size_t index(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
    Tensor batch(unsigned number) const { return random_tensor(Shape(4, 3, 12, 12), data_seed_ + number); }

    void draw_network(analysis::Cause cause) {
        static const std::vector<std::string> all{"plain", "depthwise", "residual", "branch"};
        using analysis::Cause;
        std::vector<std::string> stages(2 + index(2));
        for (std::string& stage : stages) stage = all[index(all.size())];
        // A defect in a weight is made together with the stage before it, which must be one convolution; one in an
        // output is undone by the stage behind it, which must be one convolution over all channels.
        const bool is_in_weight = cause == Cause::per_tensor_depthwise || cause == Cause::wrong_axis;
        const std::size_t at = is_in_weight ? 0 : index(stages.size());
        stages[at] = cause == Cause::shared_scale           ? "branch"
                     : cause == Cause::per_tensor_depthwise ? "depthwise"
                                                            : "plain";
        if (at + 1 < stages.size()) stages[at + 1] = "plain";
        channels_ = static_cast<index_t>(8 + 2 * index(5));
        data_seed_ = static_cast<unsigned>(random_());
        const auto net = std::make_shared<HealthyNet>(stages, channels_, static_cast<unsigned>(random_() % 100000));
        stage_ = net->names[at + 1];
        next_ = net->names[at + 2];
        before_ = net->names[at];
        net_ = net;
        measure_batch_norms(net_, batch(0));
    }

    analysis::QuantizationRecipe recipe(const nn::ModulePtr& net) const {
        analysis::QuantizationRecipe result;
        result.float_model = net;
        result.mapping = quantization::get_default_qconfig_mapping(bayes);
        result.target = bayes;
        result.calibration = batches({batch(0), batch(1), batch(3)});
        return result;
    }
    static quantization::BatchSource batches(std::vector<Tensor> all) {
        const std::size_t count = all.size();
        return {count, [all = std::move(all)](std::size_t i) { return all[i]; }};
    }

    nn::Conv2d& conv(const std::string& stage) { return dynamic_cast<nn::Conv2d&>(net_->find(stage + ".conv")); }
    std::span<float> norm(const std::string& stage, const char* name) {
        return net_->find(stage + ".bn").tensor(name).flat<float>();
    }

    void scale_input_channel(const std::string& stage, index_t channel, double factor) {
        Tensor weight = conv(stage).weight().contiguous().clone();
        const index_t inner = weight.extent(1), taps = weight.extent(2) * weight.extent(3);
        const auto values = weight.flat<float>();
        for (index_t i = 0; i < weight.size(); ++i)
            if (i / taps % inner == channel) values[static_cast<std::size_t>(i)] *= static_cast<float>(factor);
        conv(stage).set_weight(weight);
    }
    void scale_norm(const std::string& stage, index_t channel, double factor) {
        for (const char* name : {"weight", "bias"})
            norm(stage, name)[static_cast<std::size_t>(channel)] *= static_cast<float>(factor);
    }

    void plant(PlantedDefect& defect) {
        using analysis::Cause;
        defect.layer = stage_ + ".conv";
        const index_t channel = static_cast<index_t>(index(static_cast<std::size_t>(channels_)));
        const auto c = static_cast<std::size_t>(channel);
        switch (defect.cause) {
            case Cause::outlier_channel: {
                const double factor = uniform(20, 40);
                scale_norm(stage_, channel, factor);
                scale_input_channel(next_, channel, 1 / factor);
                return;
            }
            case Cause::dead_channel:
                norm(stage_, "weight")[c] = 0.0f;
                norm(stage_, "bias")[c] = static_cast<float>(uniform(60, 120));
                scale_input_channel(next_, channel, 0.0);
                return;
            case Cause::tiny_batch_norm_variance: {
                const double factor = uniform(20, 40);
                norm(stage_, "running_var")[c] /= static_cast<float>(factor * factor);
                scale_input_channel(next_, channel, 1 / factor);
                return;
            }
            case Cause::shared_scale: {
                defect.layer = stage_ + ".cat";
                const double factor = uniform(20, 40);
                for (index_t i = 0; i < 2; ++i) {
                    scale_norm(stage_ + ".narrow", i, factor);
                    scale_input_channel(next_, conv(next_).weight().extent(1) - 2 + i, 1 / factor);
                }
                put_weights_on_grid(defect, next_);
                return;
            }
            default:
                plant_in_recipe(defect);
        }
    }

    void plant_in_recipe(PlantedDefect& defect) {
        using analysis::Cause;
        using namespace quantization;
        switch (defect.cause) {
            case Cause::wrong_axis:
                for (index_t i = 0; i < conv(stage_).weight().extent(1); ++i) {
                    const double factor = std::exp2(uniform(-1.2, 1.2));
                    scale_norm(before_, i, factor);
                    scale_input_channel(stage_, i, 1 / factor);
                }
                defect.planted.afterwards.push_back([name = defect.layer](PreparedModel& model, const BatchSource&) {
                    give_scales_of_axis_1(model, name);
                });
                return;
            case Cause::scale_too_small: {
                const auto factor = static_cast<float>(uniform(6, 12));
                defect.planted.afterwards.push_back(
                    [name = defect.layer, factor](PreparedModel& model, const BatchSource&) {
                        FakeQuantize& quantizer = output_quantizer(model, name);
                        quantizer.set_qparams(quantizer.qparams().scale() / factor);
                    });
                return;
            }
            case Cause::scale_on_cliff: {
                const double percentile = uniform(80, 90);
                defect.planted.mapping.set_module_name(
                    defect.layer,
                    get_default_calib_qconfig(QConfigArguments{
                        .activation_qkwargs =
                            [=](FakeQuantizeOptions& options) { options.observer_options.percentile = percentile; },
                        .activation_observer = "percentile"}));
                return;
            }
            case Cause::per_tensor_depthwise:
                plant_large_filter();
                defect.planted.mapping.set_module_name(
                    defect.layer,
                    get_default_calib_qconfig(QConfigArguments{.weight_qkwargs = [](FakeQuantizeOptions& options) {
                        options.observer = observer_factory<MinMaxObserver>();
                        options.observer_options.ch_axis = -1;
                    }}));
                return;
            case Cause::range_of_one_sign:
                plant_offset(defect);
                return;
            default: {
                defect.layer = "quant";
                const auto factor = static_cast<float>(1 / uniform(4, 8));
                std::vector<Tensor> darker;
                for (unsigned i = 0; i < 3; ++i) {
                    darker.push_back(batch(i));
                    for (float& value : darker.back().flat<float>()) value *= factor;
                }
                defect.planted.calibration = batches(darker);
            }
        }
    }

    /// Makes one channel's filter much larger than the others, and what it reads smaller.
    void plant_large_filter() {
        const auto channel = static_cast<index_t>(index(static_cast<std::size_t>(channels_)));
        const double factor = uniform(20, 40);
        scale_norm(before_, channel, 1 / factor);
        Tensor weight = conv(stage_).weight().contiguous().clone();
        const index_t row = weight.size() / weight.extent(0);
        for (index_t i = channel * row; i < (channel + 1) * row; ++i)
            weight.flat<float>()[static_cast<std::size_t>(i)] *= static_cast<float>(factor);
        conv(stage_).set_weight(weight);
    }

    /// Moves the weights of a stage to a grid that is given, so that what it reads meets no rounding of weights.
    void put_weights_on_grid(PlantedDefect& defect, const std::string& stage) {
        Tensor weight = conv(stage).weight().contiguous().clone();
        const std::size_t rows = static_cast<std::size_t>(weight.extent(0)),
                          row = static_cast<std::size_t>(weight.size()) / rows;
        for (std::size_t o = 0; o < rows; ++o) {
            const auto values = weight.flat<float>().subspan(o * row, row);
            const float step = largest_of(values) / 127.0f;
            for (float& value : values) value = std::nearbyint(value / step) * step;
        }
        conv(stage).set_weight(weight);
        defect.planted.afterwards.push_back(
            [name = stage + ".conv"](quantization::PreparedModel& model, const quantization::BatchSource&) {
                auto& layer = dynamic_cast<quantization::PreparedWeight&>(model.find(name));
                const Tensor own = layer.observed_weight().contiguous();
                const std::size_t count = static_cast<std::size_t>(own.extent(0)),
                                  length = static_cast<std::size_t>(own.size()) / count;
                std::vector<float> scales;
                for (std::size_t o = 0; o < count; ++o)
                    scales.push_back(largest_of(own.flat<float>().subspan(o * length, length)) / 127.0f);
                layer.weight_fake_quant().set_qparams(scales);
            });
    }
    static float largest_of(std::span<const float> values) {
        float largest = 0.0f;
        for (const float value : values) largest = std::max(largest, std::abs(value));
        return largest;
    }

    void plant_offset(PlantedDefect& defect) {
        defect.layer = "quant";
        const auto offset = static_cast<float>(uniform(30, 60));
        put_weights_on_grid(defect, "stem");
        const auto shifted = [&](unsigned number) {
            Tensor x = batch(number);
            for (float& value : x.flat<float>()) value += offset;
            return x;
        };
        measure_batch_norms(net_, shifted(0));
        defect.planted.calibration = batches({shifted(0), shifted(1), shifted(3)});
        defect.bad_case = shifted(3);
    }

    static quantization::FakeQuantize& output_quantizer(quantization::PreparedModel& model, const std::string& layer) {
        for (const graph::Node* node : model.graph().nodes())
            if (node->target() == layer)
                return dynamic_cast<quantization::FakeQuantize&>(*graph::module_of(*node->users().front(), model));
        throw Error("no layer " + layer);
    }

    static void give_scales_of_axis_1(quantization::PreparedModel& model, const std::string& name) {
        auto& layer = dynamic_cast<quantization::PreparedWeight&>(model.find(name));
        const Tensor weight = layer.observed_weight().contiguous();
        const index_t inner = weight.extent(1), taps = weight.extent(2) * weight.extent(3);
        std::vector<float> scales(static_cast<std::size_t>(inner));
        for (index_t i = 0; i < weight.size(); ++i) {
            float& scale = scales[static_cast<std::size_t>(i / taps % inner)];
            scale = std::max(scale, std::abs(weight.flat<float>()[static_cast<std::size_t>(i)]) / 127.0f);
        }
        layer.weight_fake_quant().set_qparams(scales);
    }

    std::mt19937 random_;
    nn::ModulePtr net_;
    std::string before_, stage_, next_;
    index_t channels_ = 0;
    unsigned data_seed_ = 0;
};

}  // namespace intq::test

#endif  // INTQ_TESTS_ANALYSIS_PLANTED_DEFECTS_HPP
