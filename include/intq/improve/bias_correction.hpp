// SPDX-License-Identifier: MIT
//
// Bias correction: subtracts quantization's mean error in each output channel from the bias. Layer: improve.
#ifndef INTQ_IMPROVE_BIAS_CORRECTION_HPP
#define INTQ_IMPROVE_BIAS_CORRECTION_HPP

#include <string>
#include <vector>

#include "intq/improve/layer_calls.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

/// The mean error of a layer's output channels over all data, before its activation.
struct BiasShift {
    std::string layer;
    double largest = 0.0;        // magnitude over the channels: the part that was removed
    double largest_after = 0.0;  // the same after the correction
};

struct BiasCorrectionReport {
    std::vector<BiasShift> layers{};
    std::vector<SkippedLayer> skipped{};
};

/// Corrects the biases of a calibrated model.
///
///     bias[c] -= mean(y_q[c]) - mean(y[c]),   y = product(x, w) + bias [+ second argument]
///
/// y is the layer's output in float, y_q its quantized output behind layers that are already quantized and corrected.
/// Both are taken before the activation, so that the mean error of each channel over this data is 0 up to rounding. A
/// layer without a bias gets one. The scales stay: calibrate with more data than a shift of one mean can leave.
///
/// @param model   prepared and calibrated; changed in place, and left in the state `validation`
/// @param source  a few hundred samples; labels are not needed
/// @throws Error for a quantizer that saw no data, and for a source without data
///
/// Memory   one batch and a copy of the model
/// Cost     one pass over the data in float, and two quantized ones per layer
/// Source   Nagel et al. 2019, arXiv 1906.04721, section 4.2 (empirical)
BiasCorrectionReport correct_bias(quantization::PreparedModel& model, const quantization::BatchSource& source);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(improve)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <map>
#    include <set>
#    include <span>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/nn/float_operators/elementwise.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/nn/model/value.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/tensor/quantize.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Means of output channels over batches.
class ChannelMeans {
public:
    void add(const Tensor& y, int axis) {
        const Tensor values = y.contiguous();
        const Shape blocks = tensor_detail::blocks_around(values, axis);
        sums_.resize(static_cast<std::size_t>(blocks[1]));
        const auto flat = values.flat<float>();
        for (std::size_t i = 0; i < flat.size(); ++i)
            sums_[i / static_cast<std::size_t>(blocks[2]) % sums_.size()] += static_cast<double>(flat[i]);
        count_ += blocks[0] * blocks[2];
    }
    double mean(std::size_t channel) const { return sums_.at(channel) / static_cast<double>(count_); }
    std::size_t channels() const noexcept { return sums_.size(); }

private:
    std::vector<double> sums_;
    index_t count_ = 0;
};

/// A layer's output before its activation.
INTQ_INLINE Tensor before_activation(const nn::Weighted& layer, const Tensor& weight,
                                     std::span<const nn::Value> inputs) {
    const Tensor product = layer.apply(inputs[0].tensor(), weight);
    return layer.fusion().add ? nn::float_operators::add(product, inputs[1].tensor()) : product;
}

INTQ_INLINE ChannelMeans quantized_means(quantization::PreparedModel& model, const quantization::BatchSource& source,
                                         const LayerCall& call) {
    ChannelMeans means;
    for_each_batch(source, "correct_bias", [&](std::span<const nn::Value> batch) {
        run_and_visit(model, batch, {call.node->name()},
                      [&](const graph::Node&, std::span<const nn::Value> inputs, const nn::Value& output) {
                          const Tensor weight = call.prepared->quantized_weight(nn::Arguments(inputs));
                          means.add(before_activation(*call.weighted, weight, inputs),
                                    call.channel_axis(output.tensor()));
                      });
    });
    return means;
}

}  // namespace detail

INTQ_INLINE BiasCorrectionReport correct_bias(quantization::PreparedModel& model,
                                              const quantization::BatchSource& source) {
    BiasCorrectionReport report;
    const std::vector<LayerCall> calls = layer_calls(model, report.skipped);
    std::set<std::string> names;
    std::map<std::string, const LayerCall*> by_name;
    for (const LayerCall& call : calls) {
        names.insert(call.node->name());
        by_name[call.node->name()] = &call;
    }
    std::map<std::string, detail::ChannelMeans> wanted;
    const auto reference = float_copy(model);
    for_each_batch(source, "correct_bias", [&](std::span<const nn::Value> batch) {
        run_and_visit(*reference, batch, names,
                      [&](const graph::Node& node, std::span<const nn::Value> inputs, const nn::Value& output) {
                          const auto& layer = dynamic_cast<const nn::Weighted&>(*graph::module_of(node, *reference));
                          wanted[node.name()].add(detail::before_activation(layer, layer.weight(), inputs),
                                                  by_name.at(node.name())->channel_axis(output.tensor()));
                      });
    });

    set_fake_quantize(model, quantization::FakeQuantState::validation);
    for (const LayerCall& call : calls) {
        const detail::ChannelMeans& means = wanted.at(call.node->name());
        const auto largest_error = [&](const detail::ChannelMeans& given) {
            double largest = 0;
            for (std::size_t c = 0; c < means.channels(); ++c)
                largest = (std::max)(largest, (std::abs)(given.mean(c) - means.mean(c)));
            return largest;
        };
        const detail::ChannelMeans given = detail::quantized_means(model, source, call);
        Tensor bias = call.weighted->has_bias() ? call.weighted->bias().contiguous().clone()
                                                : Tensor::zeros(Shape(static_cast<index_t>(means.channels())));
        for (std::size_t c = 0; c < means.channels(); ++c) {
            float& b = bias.flat<float>()[c];
            b = static_cast<float>(static_cast<double>(b) - (given.mean(c) - means.mean(c)));
        }
        call.weighted->set_bias(bias);
        report.layers.push_back(
            {call.layer, largest_error(given), largest_error(detail::quantized_means(model, source, call))});
    }
    return report;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

#endif  // INTQ_DEFINES(improve)
#endif  // INTQ_IMPROVE_BIAS_CORRECTION_HPP
