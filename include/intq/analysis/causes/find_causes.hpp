// SPDX-License-Identifier: MIT
//
// find_causes: why one quantizer loses accuracy, from its values. Long because all causes are read from the same
// numbers of one quantizer. Layer: analysis (docs/debugging.md).
#ifndef INTQ_ANALYSIS_CAUSES_FIND_CAUSES_HPP
#define INTQ_ANALYSIS_CAUSES_FIND_CAUSES_HPP

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "intq/analysis/causes/cause.hpp"
#include "intq/analysis/models/analysed_model.hpp"
#include "intq/analysis/models/call_inputs.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {
class FakeQuantize;
class PreparedWeight;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// The thresholds of the causes.
namespace cause_limits {

inline constexpr double outlier = 6.0;         // times the median of the channels' magnitudes
inline constexpr double outlier_range = 4.0;   // times the largest magnitude of the other channels
inline constexpr double constant = 1e-3;       // of its magnitude: the largest spread of a dead channel
inline constexpr double tiny_variance = 1e-2;  // of the median of a batch norm's variances
inline constexpr double one_sign = 0.4;        // of the far end: the least distance of the near end from 0
inline constexpr double uncovered = 1.2;       // times the range that calibration saw
inline constexpr double shared = 8.0;          // times the magnitude of the smallest operand
inline constexpr double per_tensor = 8.0;      // times the median magnitude of a weight's channels
inline constexpr double saturating = 4.0;      // times the width of the non-flat part of a function

}  // namespace cause_limits

/// A quantizer of a prepared model, its values in the float model, and its operator.
struct QuantizerCase {
    std::string mod_name, op_type;
    quantization::FakeQuantize* quantizer = nullptr;
    Tensor values{};                                      // real values: the output in the float model, or the weight
    int channel_axis = 1;                                 // of values
    std::vector<Tensor> operands{};                       // that the operator reads in the float model
    std::vector<std::string> readers{};                   // types of the operators that read the output
    const quantization::PreparedWeight* layer = nullptr;  // null for an output
    std::vector<double> variances{};                      // of the batch norm behind it; empty without one
};

/// The output quantizers and weight quantizers of a prepared model, with their values in the float model on a case.
///
/// @param operators  qualified names; the others are left out
std::vector<QuantizerCase> quantizer_cases(const nn::ModulePtr& float_model,
                                           const std::shared_ptr<quantization::PreparedModel>& prepared,
                                           const CallInputs& inputs, const std::vector<std::string>& operators);

/// The causes that the values of a quantizer show, the most certain first; too_few_codes if they show none.
std::vector<CauseFinding> find_causes(const QuantizerCase& one);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_causes)

#    include <algorithm>
#    include <cmath>
#    include <cstdio>
#    include <optional>
#    include <utility>

#    include "intq/analysis/compare/compare_layers.hpp"
#    include "intq/analysis/compare/internal/layer_pairs.hpp"
#    include "intq/analysis/models/internal/graph_source.hpp"
#    include "intq/arith/quantize.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/conv.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The values of one channel in numbers.
struct ChannelNumbers {
    double lowest = 0.0, highest = 0.0;
    bool any = false;

    void add(double value) {
        lowest = any ? (std::min)(lowest, value) : value;
        highest = any ? (std::max)(highest, value) : value;
        any = true;
    }
    double magnitude() const { return (std::max)((std::abs)(lowest), (std::abs)(highest)); }
};

/// @param axis  of the channels; -1: all values are one channel
INTQ_INLINE std::vector<ChannelNumbers> channels_of(const Tensor& tensor, int axis) {
    const Tensor rows = tensor.contiguous();
    index_t inner = 1;
    for (int i = axis + 1; i < rows.rank() && axis >= 0; ++i) inner *= rows.extent(i);
    const index_t count = axis < 0 ? 1 : rows.extent(axis);
    std::vector<ChannelNumbers> channels(static_cast<std::size_t>(count));
    const auto values = rows.flat<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
        channels[axis < 0 ? 0 : i / static_cast<std::size_t>(inner) % channels.size()].add(
            static_cast<double>(values[i]));
    return channels;
}

INTQ_INLINE double median(std::vector<double> values) {
    if (values.empty()) return 0.0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

INTQ_INLINE std::vector<double> magnitudes_of(const std::vector<ChannelNumbers>& channels) {
    std::vector<double> result;
    for (const ChannelNumbers& channel : channels) result.push_back(channel.magnitude());
    return result;
}

/// Few digits, for sentences.
INTQ_INLINE std::string in_short(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
}

/// Sums of squared errors: of the values that a grid cuts off, and of those that it rounds.
struct GridErrors {
    double clipping = 0.0, rounding = 0.0;
};

INTQ_INLINE GridErrors errors_on_grid(const Tensor& x, const OwnedQParams& grid, const arith::QuantizeRule& rule) {
    const Tensor real = x.contiguous(), rounded = fake_quantize(real, grid, rule);
    const auto p = real.flat<float>(), q = rounded.flat<float>();
    const int axis = grid.axis;
    index_t inner = 1;
    for (int i = axis + 1; i < real.rank() && axis >= 0; ++i) inner *= real.extent(i);
    GridErrors errors;
    for (std::size_t i = 0; i < p.size(); ++i) {
        const std::size_t c = axis < 0 ? 0 : i / static_cast<std::size_t>(inner) % grid.scales.size();
        const double error = static_cast<double>(p[i]) - static_cast<double>(q[i]);
        // Up to half a step outside the grid, a value is rounded to the last code like values inside.
        const bool is_cut = (std::abs)(error) > 0.51 * static_cast<double>(grid.scales[c]);
        (is_cut ? errors.clipping : errors.rounding) += error * error;
    }
    return errors;
}

class CauseFinder {
public:
    explicit CauseFinder(const QuantizerCase& one)
        : one_(one),
          grid_(one.layer != nullptr ? one.layer->weight_qparams() : one.quantizer->qparams()),
          all_(channels_of(one.values, -1).front()),
          channels_(channels_of(one.values, one.channel_axis)) {}

    std::vector<CauseFinding> run() {
        const GridErrors errors = errors_on_grid(one_.values, grid_, one_.quantizer->rule());
        if (one_.layer != nullptr) {
            find_wrong_axis();
            if (findings_.empty() && errors.clipping > errors.rounding) find_clipping();
            find_per_tensor();
        } else {
            if (errors.clipping > errors.rounding) find_clipping();
            find_channels();
            find_shared_scale();
            find_one_sign();
            find_saturation();
        }
        if (findings_.empty())
            say(Cause::too_few_codes, "its values show nothing unusual; the output is sensitive to their rounding");
        return std::move(findings_);
    }

private:
    void say(Cause cause, std::string reason, std::vector<index_t> channels = {}) {
        findings_.push_back(
            {one_.mod_name, one_.op_type, cause, one_.layer != nullptr, std::move(channels), std::move(reason)});
    }

    double reach() const {
        double reach = 0.0;
        for (const float scale : grid_.scales) reach = (std::max)(reach, static_cast<double>(scale));
        return reach * static_cast<double>((std::max)(grid_.quant_max, -grid_.quant_min));
    }
    std::string ends() const { return in_short(all_.lowest) + " to " + in_short(all_.highest); }

    void find_clipping() {
        const std::string reaches = "its values reach from " + ends() + ", its codes to " + in_short(reach());
        quantization::Observer& observer = one_.quantizer->observer();
        const Tensor* const lowest = observer.find_tensor("min_val");
        const Tensor* const highest = observer.find_tensor("max_val");
        const bool has_data = lowest != nullptr && lowest->defined() && highest != nullptr && highest->defined();
        if (one_.quantizer->has_given_qparams() || !has_data) {
            say(Cause::scale_too_small, reaches + ", and its scale was given");
            return;
        }
        const double seen =
            (std::max)(channels_of(*lowest, -1).front().magnitude(), channels_of(*highest, -1).front().magnitude());
        if (all_.magnitude() > cause_limits::uncovered * seen)
            say(Cause::calibration_does_not_cover,
                "its values reach from " + ends() + ", and calibration saw none beyond " + in_short(seen));
        else
            say(Cause::scale_on_cliff,
                reaches + ", though calibration saw " + in_short(seen) + " (" + observer.type_name() + ")");
    }

    std::vector<index_t> outliers(double& size, double& others) const {
        const std::vector<double> magnitudes = magnitudes_of(channels_);
        const double middle = median(magnitudes);
        std::vector<index_t> found;
        size = others = 0.0;
        for (std::size_t c = 0; c < magnitudes.size(); ++c) {
            const bool is_outlier = magnitudes[c] > cause_limits::outlier * middle;
            if (is_outlier) found.push_back(static_cast<index_t>(c));
            double& largest = is_outlier ? size : others;
            largest = (std::max)(largest, magnitudes[c]);
        }
        const bool are_few = found.size() <= std::max<std::size_t>(1, magnitudes.size() / 4);
        if (!are_few || size < cause_limits::outlier_range * others) found.clear();
        return found;
    }

    void find_channels() {
        double size = 0.0, others = 0.0;
        const std::vector<index_t> found = outliers(size, others);
        if (found.empty()) return;
        const auto first = static_cast<std::size_t>(found.front());
        const std::string numbers = "channel " + std::to_string(found.front()) + " reaches " + in_short(size) +
                                    ", the others " + in_short(others);
        const ChannelNumbers& channel = channels_[first];
        if (channel.highest - channel.lowest <= cause_limits::constant * channel.magnitude()) {
            say(Cause::dead_channel, numbers + "; it is " + in_short(channel.highest) + " everywhere", found);
            return;
        }
        const double middle = median(one_.variances);
        if (first < one_.variances.size() && one_.variances[first] < cause_limits::tiny_variance * middle) {
            say(Cause::tiny_batch_norm_variance,
                numbers + "; its batch norm divides by the root of " + in_short(one_.variances[first]) +
                    ", where the median is " + in_short(middle),
                found);
            return;
        }
        say(Cause::outlier_channel, numbers, found);
    }

    void find_shared_scale() {
        if (one_.op_type != "cat" && one_.op_type != "FloatFunctional.cat") return;
        std::vector<double> sizes;
        for (const Tensor& operand : one_.operands) sizes.push_back(channels_of(operand, -1).front().magnitude());
        if (sizes.size() < 2) return;
        const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
        if (*most < cause_limits::shared * *least) return;
        findings_.clear();  // the channels of the larger operand are not outliers
        say(Cause::shared_scale,
            "its operands reach " + in_short(*least) + " and " + in_short(*most) + ", and share one scale");
    }

    void find_one_sign() {
        const double nearer = (std::min)((std::abs)(all_.lowest), (std::abs)(all_.highest));
        if (all_.lowest * all_.highest <= 0.0 || nearer < cause_limits::one_sign * all_.magnitude()) return;
        if (!grid_.zero_points.empty() && grid_.zero_points[0] != 0) return;
        say(Cause::range_of_one_sign,
            "its values lie from " + ends() + ", and no code between 0 and " + in_short(nearer) + " is used");
    }

    // Values farther from 0 make no difference to these functions.
    void find_saturation() {
        static const std::map<std::string, double> widths{{"Sigmoid", 6.0}, {"sigmoid", 6.0},     {"Tanh", 3.0},
                                                          {"tanh", 3.0},    {"Hardsigmoid", 3.0}, {"hardsigmoid", 3.0},
                                                          {"ReLU6", 6.0},   {"relu6", 6.0},       {"Hardtanh", 1.0}};
        for (const std::string& reader : one_.readers) {
            const auto width = widths.find(reader);
            if (width == widths.end() || one_.readers.size() != 1) continue;
            if (all_.magnitude() < cause_limits::saturating * width->second) continue;
            say(Cause::saturating_layer, "its values reach from " + ends() + ", and " + reader +
                                             " after it is flat beyond " + in_short(width->second));
        }
    }

    void find_wrong_axis() {
        const int own = one_.layer->layer().weight_channel_axis(), other = 1 - own;
        if (grid_.scales.size() < 2 || one_.values.rank() < 2 ||
            one_.values.extent(other) != static_cast<index_t>(grid_.scales.size()))
            return;
        const double along_own = distance_to(own), along_other = distance_to(other);
        if (along_other < 0.25 * along_own)
            say(Cause::wrong_axis, "its scales are along axis " + std::to_string(other) +
                                       " of the weight, and its output channels lie on axis " + std::to_string(own));
    }

    // How far the scales are from the magnitudes along an axis: the spread of their ratios' logarithms.
    double distance_to(int axis) const {
        const std::vector<double> magnitudes = magnitudes_of(channels_of(one_.values, axis));
        if (magnitudes.size() != grid_.scales.size()) return 1e9;
        std::vector<double> ratios;
        for (std::size_t c = 0; c < magnitudes.size(); ++c)
            if (magnitudes[c] > 0.0) ratios.push_back(std::log(magnitudes[c] / static_cast<double>(grid_.scales[c])));
        const double middle = median(ratios);
        double sum = 0.0;
        for (const double ratio : ratios) sum += (std::abs)(ratio - middle);
        return sum;
    }

    void find_per_tensor() {
        if (grid_.is_per_channel() || one_.quantizer->channel_axis() >= 0) return;
        const std::vector<double> magnitudes = magnitudes_of(channels_);
        const double largest = *std::max_element(magnitudes.begin(), magnitudes.end()), middle = median(magnitudes);
        const auto* const conv = dynamic_cast<const nn::Conv2d*>(&one_.layer->layer());
        const bool is_depthwise = conv != nullptr && conv->options().groups > 1 && conv->weight().extent(1) == 1;
        if (!is_depthwise && largest < cause_limits::per_tensor * middle) return;
        say(is_depthwise ? Cause::per_tensor_depthwise : Cause::per_tensor_weight,
            "its weight has one scale, and its channels reach " + in_short(largest) + ", the median " +
                in_short(middle));
    }

    const QuantizerCase& one_;
    OwnedQParams grid_;
    ChannelNumbers all_;
    std::vector<ChannelNumbers> channels_;
    std::vector<CauseFinding> findings_;
};

INTQ_INLINE std::vector<double> variances_behind(const AnalysedOperator& op, nn::Module& float_model) {
    for (const nn::FusedMember& member : op.members) {
        if (member.type.rfind("BatchNorm", 0) != 0) continue;
        const Tensor* const variance = float_model.find_tensor(member.module + ".running_var");
        if (variance == nullptr) continue;
        const auto values = variance->flat<float>();
        return {values.begin(), values.end()};
    }
    return {};
}

INTQ_INLINE int channel_axis_of(const Tensor& tensor) { return tensor.rank() > 2 ? 1 : tensor.rank() - 1; }

}  // namespace detail

INTQ_INLINE std::vector<QuantizerCase> quantizer_cases(const nn::ModulePtr& float_model,
                                                       const std::shared_ptr<quantization::PreparedModel>& prepared,
                                                       const CallInputs& inputs,
                                                       const std::vector<std::string>& names) {
    const AnalysedModel baseline(float_model), analysed(prepared);
    const auto& source = dynamic_cast<const detail::GraphSource&>(*analysed.source());
    const auto& operators = analysed.operators();
    const auto is_asked = [&](std::size_t index) {
        return std::find(names.begin(), names.end(), operators[index].mod_name) != names.end();
    };
    std::map<std::size_t, Tensor> outputs;                 // by operator of the prepared model
    std::map<std::size_t, std::size_t> first_of, last_of;  // operators of the baseline
    const auto pairs = pair_layers(baseline.operators(), operators);
    for (const LayerPair& pair : pairs) {
        first_of.emplace(pair.analysis, pair.baseline);
        last_of[pair.analysis] = pair.baseline;
    }
    std::map<std::size_t, std::vector<Tensor>> operands;  // by operator of the baseline
    SideBySideHooks hooks;
    hooks.show = io::ShowProgress::never;
    hooks.pair = [&](const LayerPair& pair, std::span<const Tensor> y, std::span<const Tensor>) {
        if (is_asked(pair.analysis) && !y.empty()) outputs[pair.analysis] = y.front().clone();
    };
    hooks.baseline = [&](const AnalysedCall& call) {
        for (const auto& [analysis, first] : first_of)
            if (first == call.index && is_asked(analysis))
                for (const OperatorInput& input : call.inputs) operands[first].push_back(input.tensor);
    };
    run_side_by_side(baseline, analysed, inputs, pairs, hooks);
    std::vector<QuantizerCase> cases;
    for (const graph::Node* node : source.graph()->graph().nodes()) {
        const auto index = source.operator_at(*node);
        if (!index || !is_asked(*index)) continue;
        QuantizerCase one{operators[*index].mod_name, operators[*index].op_type};
        if (first_of.count(*index) != 0) one.operands = operands[first_of.at(*index)];
        for (const AnalysedOperator& op : operators)
            if (std::find(op.inputs.begin(), op.inputs.end(), *index) != op.inputs.end())
                one.readers.push_back(op.op_type);
        one.variances = detail::variances_behind(operators[*index], *float_model);
        if (const auto* layer = dynamic_cast<quantization::PreparedWeight*>(graph::module_of(*node, *source.graph()))) {
            QuantizerCase weight = one;
            weight.quantizer = &layer->weight_fake_quant();
            weight.values = layer->observed_weight();
            weight.channel_axis = layer->layer().weight_channel_axis();
            weight.layer = layer;
            cases.push_back(std::move(weight));
        }
        one.quantizer = const_cast<quantization::FakeQuantize*>(
            quantization::own_quantizer(detail::quantizer_behind(*node, *source.graph())));
        if (one.quantizer == nullptr || outputs.count(*index) == 0) continue;
        one.values = outputs.at(*index);
        one.channel_axis = detail::channel_axis_of(one.values);
        cases.push_back(std::move(one));
    }
    return cases;
}

INTQ_INLINE std::vector<CauseFinding> find_causes(const QuantizerCase& one) { return detail::CauseFinder(one).run(); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_causes)
#endif  // INTQ_ANALYSIS_CAUSES_FIND_CAUSES_HPP
