// SPDX-License-Identifier: MIT
//
// AdaRound: learns which weights to round up and which down, one layer after the other. Layer: improve.
#ifndef INTQ_IMPROVE_ADAROUND_HPP
#define INTQ_IMPROVE_ADAROUND_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/improve/layer_calls.hpp"
#include "intq/io/progress.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

struct AdaRoundOptions {
    int iterations = 10000;  // a layer; a thousand do for a small one
    index_t batch_size = 32;
    double rate = 1e-2;  // of Adam
    double regularization = 0.01;
    double warm_start = 0.2;  // the part of the iterations without regularization
    double first_beta = 20.0, last_beta = 2.0;
    std::uint64_t seed = 0;                                 // of the order of samples
    std::vector<std::string> layers{};                      // qualified names; none: all
    io::ShowProgress show = io::ShowProgress::on_terminal;  // a layer takes seconds to minutes
};

/// The gain of a layer: mean squared errors of its output against the float layer's, over all data.
struct RoundedLayer {
    std::string layer;
    double nearest_error = 0.0;  // rounded to nearest
    double error = 0.0;          // as it is now; never above nearest_error
    index_t changed = 0;         // weights that are not the nearest codes
};

struct AdaRoundReport {
    std::vector<RoundedLayer> layers{};
    std::vector<SkippedLayer> skipped{};
};

/// Rounds the weights of a calibrated model so that its layers compute nearly what they did in float.
///
///     minimise over V   |f(w x) - f(w~ x~)|²  +  lambda · sum of 1 - |2 h(V) - 1|^beta
///     w~ = s · clamp(floor(w / s) + h(V), quant_min, quant_max)
///     h(V) = clamp(1.2 · sigmoid(V) - 0.1, 0, 1)
///
/// x is the layer's input in float, x~ its input behind the quantized layers before it, and f its activation. The
/// square is summed over channels and averaged over the rest. V starts where w~ = w. beta falls linearly from
/// first_beta to last_beta, so that h is free first and 0 or 1 in the end; then h >= 1/2 is up. A layer that did not
/// gain by it keeps its nearest codes.
///
/// The weights of a layer that gained become the rounded ones, each less than one step from where it was (unless it was
/// cut off). Its quantizer is fixed on the grid of the rounding, so calibrating again does not help it. The other
/// layers keep their real weights, and their quantizers still observe.
///
/// @param model   prepared and calibrated; changed in place, and left in the state `validation`
/// @param source  some hundreds of samples, more than the layer has weights to an output; labels are not needed
/// @throws Error for a quantizer that saw no data, a layer that keeps a batch norm, a weight that its quantizer does
///         not round, a name in options.layers that is not a layer, and a source without data
///
/// Memory   the inputs and outputs of one layer over all data, and a copy of the model
/// Cost     per layer: two passes over the data, and `iterations` forward and backward steps of only that layer
/// Source   Nagel et al. 2020, arXiv 2004.10568
AdaRoundReport adaround(quantization::PreparedModel& model, const quantization::BatchSource& source,
                        const AdaRoundOptions& options = {});

/// zeta - gamma and gamma of the paper, whose zeta is 1.1.
inline constexpr double stretch = 1.2, stretch_lowest = -0.1;

/// (zeta - gamma) · sigmoid(v) + gamma
double stretched_sigmoid(double v);
/// h of AdaRound.
///
///     h(v) = clamp(stretched_sigmoid(v), 0, 1)
///
/// Source   Louizos et al. 2018, arXiv 1712.01312, in the form of arXiv 2004.10568, equation 23
double rectified_sigmoid(double v);
/// 0 where h is clamped.
double rectified_sigmoid_gradient(double v);
/// The v whose h is `h`, in (0, 1) or at its ends.
double rectified_sigmoid_inverse(double h);
/// d/dh of 1 - |2h - 1|^beta
double rounding_cost_gradient(double h, double beta);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(improve)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <memory>
#    include <set>
#    include <span>

#    include "intq/core/shape.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/move.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/nn/model/module.hpp"
#    include "intq/nn/model/value.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/tensor/owned_qparams.hpp"
#    include "intq/tensor/quantize.hpp"
#    include "intq/tensor/tensor.hpp"
#    include "intq/training/batches.hpp"
#    include "intq/training/gradients.hpp"
#    include "intq/training/gradients/context.hpp"
#    include "intq/training/loss.hpp"
#    include "intq/training/optimizer.hpp"

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE double stretched_sigmoid(double v) { return stretch / (1.0 + std::exp(-v)) + stretch_lowest; }

INTQ_INLINE double rectified_sigmoid(double v) { return std::clamp(stretched_sigmoid(v), 0.0, 1.0); }

INTQ_INLINE double rectified_sigmoid_gradient(double v) {
    const double h = stretched_sigmoid(v), above = h - stretch_lowest;
    return h > 0.0 && h < 1.0 ? above * (stretch - above) / stretch : 0.0;
}

INTQ_INLINE double rectified_sigmoid_inverse(double h) { return -std::log(stretch / (h - stretch_lowest) - 1.0); }

INTQ_INLINE double rounding_cost_gradient(double h, double beta) {
    const double distance = 2.0 * h - 1.0;
    return -2.0 * beta * std::copysign(std::pow((std::abs)(distance), beta - 1.0), distance);
}

namespace detail {

/// A layer's calls over all data, sample after sample.
struct LayerData {
    std::vector<Tensor> inputs;  // one an argument
    Tensor target;               // the float layer's output
    OwnedQParams grid;           // of the weight, with the scales for this input

    index_t samples() const { return target.extent(0); }
};

INTQ_INLINE LayerData layer_data(quantization::PreparedModel& model, quantization::PreparedModel& reference,
                                 const LayerCall& call, const quantization::BatchSource& source) {
    LayerData data;
    std::vector<std::vector<Tensor>> inputs;
    std::vector<Tensor> targets;
    const std::set<std::string> name{call.node->name()};
    for_each_batch(source, "adaround", [&](std::span<const nn::Value> batch) {
        run_and_visit(model, batch, name, [&](const graph::Node&, std::span<const nn::Value> values, const nn::Value&) {
            if (inputs.empty()) {
                const Tensor weight = call.prepared->quantized_weight(nn::Arguments(values));
                if (!weight.qparams())
                    throw Error(call.layer, "its " + call.prepared->weight_fake_quant().type_name() +
                                                " does not round the weight; there is no grid to round it to");
                data.grid = *weight.qparams();
            }
            inputs.resize(values.size());
            for (std::size_t i = 0; i < values.size(); ++i) inputs[i].push_back(values[i].tensor().contiguous());
        });
        run_and_visit(reference, batch, name,
                      [&](const graph::Node&, std::span<const nn::Value>, const nn::Value& output) {
                          targets.push_back(output.tensor().contiguous());
                      });
    });
    for (const auto& parts : inputs) data.inputs.push_back(nn::float_operators::cat(parts, 0));
    data.target = nn::float_operators::cat(targets, 0);
    return data;
}

/// One layer with weights between two codes.
class SoftlyRounded {
public:
    SoftlyRounded(const LayerCall& call, const LayerData& data)
        : call_(call),
          data_(data),
          layer_(std::dynamic_pointer_cast<nn::Weighted>(nn::clone(static_cast<const nn::Module&>(*call.weighted)))),
          rows_(training::all_gradient_rows()) {
        quantization::FakeQuantize& quantizer =
            dynamic_cast<quantization::PreparedWeight&>(*layer_).weight_fake_quant();
        quantizer.enable_observer(false);
        quantizer.enable_fake_quant(false);
        row_ = training::find_gradient(rows_, layer_->operator_name(), layer_.get());
        if (row_ == nullptr) throw Error(call.layer, "there is no gradient of " + layer_->type_name());
        const Tensor weight = call.weighted->weight().contiguous();
        const Shape blocks = tensor_detail::blocks_around(weight, data.grid.axis);
        v_ = Tensor::empty(weight.shape());
        for (index_t i = 0; i < weight.size(); ++i) {
            const auto at = static_cast<std::size_t>(i);
            const std::size_t channel = static_cast<std::size_t>(i / blocks[2] % blocks[1]);
            scales_.push_back(static_cast<double>(data.grid.scales[data.grid.is_per_channel() ? channel : 0]));
            const double steps = static_cast<double>(weight.flat<float>()[at]) / scales_.back();
            floors_.push_back(std::floor(steps));
            v_.flat<float>()[at] = static_cast<float>(rectified_sigmoid_inverse(steps - floors_.back()));
        }
    }

    /// The weight where `part(i)` is added to the lower code of element i.
    template <class Part> Tensor weight_with(const Part& part) const {
        Tensor weight = Tensor::empty(v_.shape());
        for (std::size_t i = 0; i < scales_.size(); ++i)
            weight.flat<float>()[i] = static_cast<float>(scales_[i] * clamped(floors_[i] + part(i)));
        return weight;
    }
    Tensor soft_weight() const {
        return weight_with([&](std::size_t i) { return rectified_sigmoid(v(i)); });
    }
    Tensor hard_weight() const {
        return weight_with([&](std::size_t i) { return rectified_sigmoid(v(i)) >= 0.5 ? 1.0 : 0.0; });
    }

    /// Mean squared error over all data with a weight.
    double error_with(const Tensor& weight, index_t batch_size) {
        double sum = 0;
        for (index_t first = 0; first < data_.samples(); first += batch_size) {
            const index_t count = (std::min)(batch_size, data_.samples() - first);
            std::vector<nn::Value> inputs;
            for (const Tensor& input : data_.inputs) inputs.emplace_back(input.batch(first, count));
            sum += training::mse_loss(forward(weight, inputs), data_.target.batch(first, count)).value *
                   static_cast<double>(count);
        }
        return sum / static_cast<double>(data_.samples());
    }

    /// One step of Adam on some samples; no regularization where beta is 0.
    void step(std::span<const index_t> samples, double beta, const AdaRoundOptions& options) {
        std::vector<nn::Value> inputs;
        for (const Tensor& input : data_.inputs) inputs.emplace_back(training::gather(input, samples));
        const Tensor weight = soft_weight();
        const nn::Value output(forward(weight, inputs));
        const training::Loss loss = training::mse_loss(output.tensor(), training::gather(data_.target, samples));
        const Tensor by_weight = weight_gradient(inputs, output, loss.gradient);
        const auto channels = static_cast<double>(output.tensor().extent(call_.channel_axis(output.tensor())));
        Tensor gradient = Tensor::empty(v_.shape());
        for (std::size_t i = 0; i < scales_.size(); ++i) {
            const double h = rectified_sigmoid(v(i)), code = floors_[i] + h;
            double slope =
                code == clamped(code) ? channels * scales_[i] * static_cast<double>(by_weight.flat<float>()[i]) : 0.0;
            if (beta > 0.0) slope += options.regularization * rounding_cost_gradient(h, beta);
            gradient.flat<float>()[i] = static_cast<float>(slope * rectified_sigmoid_gradient(v(i)));
        }
        adam_.step({{"v", &v_}}, {{"v", gradient}}, options.rate);
    }

private:
    double v(std::size_t i) const { return static_cast<double>(v_.flat<float>()[i]); }
    double clamped(double code) const {
        return std::clamp(code, static_cast<double>(data_.grid.quant_min), static_cast<double>(data_.grid.quant_max));
    }
    Tensor forward(const Tensor& weight, std::span<const nn::Value> inputs) {
        layer_->set_weight(weight);
        return layer_->dispatch("forward", inputs).tensor();
    }
    Tensor weight_gradient(std::span<const nn::Value> inputs, const nn::Value& output, const Tensor& gradient) {
        const training::FinishedCall call{layer_.get(), nn::Arguments(inputs), &output, {}};
        training::GradientContext context(call, std::span(&gradient, 1), rows_, std::vector<bool>(inputs.size()));
        row_->backward(context);
        for (const auto& [parameter, found] : context.parameter_gradients())
            if (parameter.shares_buffer_with(layer_->weight())) return found.contiguous();
        throw Error(call_.layer, "its backward computes no gradient for the weight");
    }

    const LayerCall& call_;
    const LayerData& data_;
    std::shared_ptr<nn::Weighted> layer_;
    std::vector<training::GradientRow> rows_;
    const training::GradientRow* row_ = nullptr;
    std::vector<double> scales_, floors_;
    Tensor v_;
    training::Adam adam_;
};

/// beta of an iteration; 0 in the warm start.
INTQ_INLINE double beta_of(int iteration, const AdaRoundOptions& options) {
    const double part = static_cast<double>(iteration) / static_cast<double>((std::max)(options.iterations, 1));
    if (part < options.warm_start) return 0.0;
    const double rest = (part - options.warm_start) / (1.0 - options.warm_start);
    return options.first_beta + (options.last_beta - options.first_beta) * rest;
}

INTQ_INLINE void learn(SoftlyRounded& rounding, const std::string& layer, index_t samples,
                       const AdaRoundOptions& options) {
    io::Progress progress("adaround of " + layer, options.iterations, options.show);
    const index_t batch = (std::min)(options.batch_size, samples);
    std::vector<index_t> order;
    std::uint64_t epoch = 0;
    for (int iteration = 0; iteration < options.iterations; ++iteration) {
        if (static_cast<index_t>(order.size()) < batch)
            order = training::shuffled_order(samples, options.seed + epoch++);
        rounding.step(std::span(order).last(static_cast<std::size_t>(batch)), beta_of(iteration, options), options);
        order.resize(order.size() - static_cast<std::size_t>(batch));
        progress.update(iteration + 1);
    }
}

INTQ_INLINE RoundedLayer round_layer(const LayerCall& call, const LayerData& data, const AdaRoundOptions& options) {
    quantization::FakeQuantize& quantizer = call.prepared->weight_fake_quant();
    const Tensor nearest = fake_quantize(call.weighted->weight(), data.grid, quantizer.rule());
    SoftlyRounded rounding(call, data);
    RoundedLayer result{call.layer, rounding.error_with(nearest, options.batch_size)};
    learn(rounding, call.layer, data.samples(), options);
    const Tensor learnt = rounding.hard_weight();
    result.error = rounding.error_with(learnt, options.batch_size);
    if (!(result.error < result.nearest_error)) {
        result.error = result.nearest_error;
        return result;
    }
    for (std::size_t i = 0; i < learnt.flat<float>().size(); ++i)
        result.changed += learnt.flat<float>()[i] != nearest.flat<float>()[i];
    call.weighted->set_weight(learnt);
    quantizer.set_qparams(data.grid);  // the codes were learned on this grid
    return result;
}

}  // namespace detail

INTQ_INLINE AdaRoundReport adaround(quantization::PreparedModel& model, const quantization::BatchSource& source,
                                    const AdaRoundOptions& options) {
    if (options.batch_size < 1) throw Error("adaround: the batch size must be at least 1");
    if (options.iterations < 1)
        throw Error("adaround: iterations must be at least 1, given " + std::to_string(options.iterations));
    AdaRoundReport report;
    const std::vector<LayerCall> calls = layer_calls(model, report.skipped);
    for (const std::string& name : options.layers)
        if (std::none_of(calls.begin(), calls.end(), [&](const LayerCall& call) { return call.layer == name; }))
            throw Error("adaround: there is no layer \"" + name + "\" with a weight quantizer that is called once");
    const auto rows = training::all_gradient_rows();
    const auto reference = float_copy(model);
    set_fake_quantize(model, quantization::FakeQuantState::validation);
    for (const LayerCall& call : calls) {
        const auto& chosen = options.layers;
        if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), call.layer) == chosen.end()) continue;
        if (training::find_gradient(rows, call.weighted->operator_name(), call.weighted) == nullptr) {
            report.skipped.push_back({call.layer, "training has no gradient of " + call.weighted->operator_name()});
            continue;
        }
        const detail::LayerData data = detail::layer_data(model, *reference, call, source);
        report.layers.push_back(detail::round_layer(call, data, options));
    }
    return report;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

#endif  // INTQ_DEFINES(improve)
#endif  // INTQ_IMPROVE_ADAROUND_HPP
