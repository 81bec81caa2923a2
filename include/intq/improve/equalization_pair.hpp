// SPDX-License-Identifier: MIT
//
// Two layers that can be equalized: how they are found, and the factors of the channels between them. Layer: improve.
#ifndef INTQ_IMPROVE_EQUALIZATION_PAIR_HPP
#define INTQ_IMPROVE_EQUALIZATION_PAIR_HPP

#include <string>
#include <utility>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/graph/node.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {
class GraphModule;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {
class Weighted;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

/// A layer that was not equalized with a following one.
struct NotEqualized {
    std::string layer;
    std::string reason;
};

/// Two consecutive layers, and the factors of the channels between them. Nothing else reads these channels.
///
///     r1[i] = max |w1[i, ...]|,  r2[i] = max |w2[..., i, ...]|,  s[i] = sqrt(r1[i] / r2[i])
///
/// **The bound.** A channel that the data hardly moves has small weights and may have a large bias. The product of all
/// steps, T[i], is kept so large that no bias comes to decide the range of the activation:
///
///     A = max(4 · m · max r1, max b1),  m = the median of |b1[i]| / r1[i]         (all of the model as it was)
///     g = max over i of (r1[i] / T[i]) / max r1                                   (the growth of all channels)
///     T[i] >= min(1, |b1[i]| / A) / g
///
/// Let X be the unknown reach of the layer's input, so that channel i reaches about max(r1[i]·X, b1[i]). Before, the
/// activation reaches A(X) = max(X · max r1, max b1); with the bound, and X >= 4·m, at most g · A(X). So the only cost
/// of a bias is the common factor g, which the next layer's weights undo: rounding the activation adds A · r2[i] behind
/// the next layer, in no channel more than the largest was before. 4·m is the reach of a batch norm's channels, whose
/// deviation is about their bias, and which reach about four deviations.
class EqualizationPair {
public:
    /// @param path     the nodes from the first layer to the second
    /// @param columns  of the second layer's weight for each channel
    EqualizationPair(nn::Weighted& first, nn::Weighted& second, std::vector<const graph::Node*> path, index_t columns)
        : first_(&first), second_(&second), path_(std::move(path)), columns_(columns) {}

    nn::Weighted& first() const noexcept { return *first_; }
    nn::Weighted& second() const noexcept { return *second_; }
    const std::vector<const graph::Node*>& path() const noexcept { return path_; }
    index_t channels() const;

    /// Makes the current weights and biases the reference of the factors.
    void begin();
    /// One step, T[i] *= s[i] as far as the bound allows; returns how far the largest factor is from 1.
    double step();
    /// T.
    const std::vector<double>& factors() const noexcept { return total_; }
    /// Channels that the bound holds.
    index_t bounded() const noexcept { return bounded_; }
    /// Divides the first layer's channels, and multiplies the second's.
    void scale(const std::vector<double>& factors) const;
    /// Subtracts a constant from each channel, and adds its effect in the second layer to that layer's bias.
    void absorb(const std::vector<double>& constants) const;

private:
    std::vector<double> ranges_of_first() const;
    std::vector<double> ranges_of_second() const;

    nn::Weighted* first_;
    nn::Weighted* second_;
    std::vector<const graph::Node*> path_;
    index_t columns_, bounded_ = 0;
    std::vector<double> total_, start_, least_;  // T, r1, and the bound before the division by g
};

/// The pairs of a float model in the order in which they run.
///
/// @param blocked  the other layers, with the obstacle
/// @throws Error for a model that holds quantizers
std::vector<EqualizationPair> equalization_pairs(graph::GraphModule& model, std::vector<NotEqualized>& blocked);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(improve)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>

#    include "intq/core/op_params.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/graph/graph_module.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/conv.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/nn/model/module.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/operators/operator_table.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Which input and output channel each element of a layer's weight belongs to.
class ChannelMap {
public:
    explicit ChannelMap(const nn::Weighted& layer) : rows_(layer.weight().extent(0)), inner_(layer.weight().extent(1)) {
        taps_ = layer.weight().size() / (rows_ * inner_);
        if (const auto* conv = dynamic_cast<const nn::Conv2d*>(&layer)) groups_ = conv->options().groups;
        if (const auto* conv = dynamic_cast<const nn::Conv1d*>(&layer)) groups_ = conv->options().groups;
        if (const auto* conv = dynamic_cast<const nn::ConvTranspose2d*>(&layer)) {
            groups_ = conv->options().groups;
            is_transposed_ = true;
        }
    }
    index_t outputs() const noexcept { return is_transposed_ ? inner_ * groups_ : rows_; }
    index_t inputs() const noexcept { return is_transposed_ ? rows_ : inner_ * groups_; }
    index_t output(index_t element) const noexcept { return is_transposed_ ? column(element) : row(element); }
    index_t input(index_t element) const noexcept { return is_transposed_ ? row(element) : column(element); }

private:
    index_t row(index_t element) const noexcept { return element / taps_ / inner_; }
    // The channel that the second axis counts, which begins anew in each group.
    index_t column(index_t element) const noexcept {
        return row(element) / (rows_ / groups_) * inner_ + element / taps_ % inner_;
    }

    index_t rows_, inner_, taps_ = 1, groups_ = 1;
    bool is_transposed_ = false;
};

/// Finds the layer that a layer's channels go to.
class EqualizationWalk {
public:
    EqualizationWalk(graph::GraphModule& model, quantization::NodeOperators& operators, const graph::Node& first)
        : model_(model), operators_(operators), first_(first) {}

    /// Null where something is in between; `reason` says what.
    nn::Weighted* run(std::string& reason) {
        auto& layer = weighted(first_);
        if (layer.norm() != nullptr) return stop(reason, "its batch norm is not folded");
        if (layer.fusion().add) return stop(reason, "an add is fused into it");
        if (layer.fusion().activation == Activation::relu6) return stop(reason, "relu6 follows it");
        is_vector_ = layer.channel_axis() < 0;
        for (const graph::Node* node = &first_;;) {
            path_.push_back(node);
            if (count_calls(*node) > 1) return stop(reason, "the module of %" + node->name() + " is called twice");
            if (node->users().size() != 1) return stop(reason, "%" + node->name() + " has several readers");
            const graph::Node* reader = node->users()[0];
            if (reader->args().empty() || reader->args()[0].node() != node) return stop(reason, *reader);
            if (reader->op() != graph::Op::output && is_weighted(*reader)) return accept(reason, *reader);
            if (!passes(*reader)) return stop(reason, *reader);
            node = reader;
        }
    }
    const graph::Node* second() const noexcept { return second_; }
    /// From the first layer's node to the second's.
    const std::vector<const graph::Node*>& path() const noexcept { return path_; }
    /// Columns of the second layer's weight for each channel.
    index_t columns() const noexcept { return columns_; }

private:
    bool is_weighted(const graph::Node& node) const {
        return dynamic_cast<const nn::Weighted*>(graph::module_of(node, model_)) != nullptr;
    }
    nn::Weighted& weighted(const graph::Node& node) const {
        return dynamic_cast<nn::Weighted&>(*graph::module_of(node, model_));
    }
    index_t count_calls(const graph::Node& node) const {
        const nn::Module* module = graph::module_of(node, model_);
        const auto all = model_.graph().nodes();
        return module == nullptr ? 1 : std::count_if(all.begin(), all.end(), [&](const graph::Node* other) {
            return dynamic_cast<nn::Weighted*>(graph::module_of(*other, model_)) != nullptr &&
                   graph::module_of(*other, model_) == module;
        });
    }

    bool passes(const graph::Node& node) {
        using quantization::ChannelFactors;
        const ChannelFactors factors = operators_.of(node).channel_factors;
        if (factors == ChannelFactors::anywhere) return true;
        if (factors == ChannelFactors::lost || is_vector_) return false;
        if (factors == ChannelFactors::of_planes) return true;
        is_flat_ = is_vector_ = starts_at_channels(node);
        return is_flat_;
    }
    bool starts_at_channels(const graph::Node& node) const {
        if (const auto* flatten = dynamic_cast<const nn::Flatten*>(graph::module_of(node, model_)))
            return flatten->start_axis() == 1 && flatten->end_axis() == -1;
        return node.args() == graph::ArgumentList{node.args()[0], 1} ||
               node.args() == graph::ArgumentList{node.args()[0], 1, -1};
    }

    nn::Weighted* accept(std::string& reason, const graph::Node& node) {
        auto& layer = weighted(node);
        const index_t channels = ChannelMap(weighted(first_)).outputs(), inputs = ChannelMap(layer).inputs();
        if (count_calls(node) > 1) return stop(reason, "the module of %" + node.name() + " is called twice");
        if ((layer.channel_axis() < 0) != is_vector_ || inputs % channels != 0 || (!is_flat_ && inputs != channels))
            return stop(reason, "its channels are not those that %" + node.name() + " takes");
        columns_ = inputs / channels;
        second_ = &node;
        path_.push_back(&node);
        return &layer;
    }
    nn::Weighted* stop(std::string& reason, const graph::Node& node) const {
        return stop(reason, "%" + node.name() + " (" + graph::operator_of(node, model_) + ") follows it");
    }
    static nn::Weighted* stop(std::string& reason, std::string sentence) {
        reason = std::move(sentence);
        return nullptr;
    }

    graph::GraphModule& model_;
    quantization::NodeOperators& operators_;
    const graph::Node& first_;
    const graph::Node* second_ = nullptr;
    std::vector<const graph::Node*> path_;
    index_t columns_ = 1;
    bool is_vector_ = false;  // the channels are the last axis
    bool is_flat_ = false;
};

/// The largest magnitude of each channel of a weight.
template <class Channel>
std::vector<double> channel_ranges(const Tensor& weight, index_t channels, const Channel& channel_of) {
    std::vector<double> ranges(static_cast<std::size_t>(channels));
    const Tensor values = weight.contiguous();
    for (index_t i = 0; i < values.size(); ++i) {
        double& range = ranges[static_cast<std::size_t>(channel_of(i))];
        range = (std::max)(range, (std::abs)(static_cast<double>(values.flat<float>()[static_cast<std::size_t>(i)])));
    }
    return ranges;
}

/// Each element times a factor.
template <class Factor> Tensor scaled(const Tensor& tensor, const Factor& factor_of) {
    Tensor result = tensor.contiguous().clone();
    const auto values = result.flat<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(static_cast<double>(values[i]) * factor_of(static_cast<index_t>(i)));
    return result;
}

INTQ_INLINE std::vector<double> bias_of(const nn::Weighted& layer, std::size_t channels) {
    std::vector<double> values(channels);
    if (!layer.has_bias()) return values;
    const Tensor bias = layer.bias().contiguous();
    for (std::size_t c = 0; c < channels; ++c) values[c] = static_cast<double>(bias.flat<float>()[c]);
    return values;
}

}  // namespace detail

INTQ_INLINE index_t EqualizationPair::channels() const { return detail::ChannelMap(*first_).outputs(); }

INTQ_INLINE std::vector<double> EqualizationPair::ranges_of_first() const {
    const detail::ChannelMap map(*first_);
    return detail::channel_ranges(first_->weight(), channels(), [&](index_t i) { return map.output(i); });
}

INTQ_INLINE std::vector<double> EqualizationPair::ranges_of_second() const {
    const detail::ChannelMap map(*second_);
    return detail::channel_ranges(second_->weight(), channels(), [&](index_t i) { return map.input(i) / columns_; });
}

INTQ_INLINE void EqualizationPair::begin() {
    start_ = ranges_of_first();
    total_.assign(start_.size(), 1.0);
    least_.assign(start_.size(), 0.0);
    const std::vector<double> bias = detail::bias_of(*first_, start_.size());
    std::vector<double> by_weight;
    for (std::size_t c = 0; c < start_.size(); ++c)
        if (start_[c] > 0) by_weight.push_back((std::abs)(bias[c]) / start_[c]);
    if (by_weight.empty()) return;
    const auto median = by_weight.begin() + static_cast<std::ptrdiff_t>(by_weight.size() / 2);
    std::nth_element(by_weight.begin(), median, by_weight.end());
    const double reach = (std::max)(4.0 * *median * *std::max_element(start_.begin(), start_.end()),
                                    *std::max_element(bias.begin(), bias.end()));
    for (std::size_t c = 0; c < bias.size(); ++c)
        if (bias[c] != 0.0) least_[c] = reach > 0 ? (std::min)(1.0, (std::abs)(bias[c]) / reach) : 1.0;
}

INTQ_INLINE double EqualizationPair::step() {
    const std::vector<double> r1 = ranges_of_first(), r2 = ranges_of_second();
    std::vector<double> wanted(r1.size());
    double grown = 0;
    for (std::size_t c = 0; c < r1.size(); ++c) {
        if (!(r1[c] > 0 && r2[c] > 0)) continue;
        wanted[c] = total_[c] * std::sqrt(r1[c] / r2[c]);
        grown = (std::max)(grown, start_[c] / wanted[c]);
    }
    if (!(grown > 0)) return 0;
    grown /= *std::max_element(start_.begin(), start_.end());
    double farthest = 0;
    std::vector<double> factors(r1.size(), 1.0);
    bounded_ = 0;
    for (std::size_t c = 0; c < r1.size(); ++c) {
        // A channel without weights on one side gets the common 1/g.
        const double total = wanted[c] > 0 ? (std::max)(wanted[c], least_[c] / grown) : 1.0 / grown;
        bounded_ += wanted[c] > 0 && total > wanted[c];
        factors[c] = total / total_[c];
        total_[c] = total;
        farthest = (std::max)(farthest, (std::abs)(factors[c] - 1.0));
    }
    scale(factors);
    return farthest;
}

INTQ_INLINE void EqualizationPair::scale(const std::vector<double>& factors) const {
    const detail::ChannelMap from(*first_), to(*second_);
    const auto of = [&](index_t channel) { return factors[static_cast<std::size_t>(channel)]; };
    first_->set_weight(detail::scaled(first_->weight(), [&](index_t i) { return 1.0 / of(from.output(i)); }));
    if (first_->has_bias()) first_->set_bias(detail::scaled(first_->bias(), [&](index_t i) { return 1.0 / of(i); }));
    second_->set_weight(detail::scaled(second_->weight(), [&](index_t i) { return of(to.input(i) / columns_); }));
}

INTQ_INLINE void EqualizationPair::absorb(const std::vector<double>& constants) const {
    if (std::all_of(constants.begin(), constants.end(), [](double c) { return c == 0.0; })) return;
    const detail::ChannelMap map(*second_);
    const std::vector<double> own = detail::bias_of(*first_, constants.size());
    Tensor bias = Tensor::empty(Shape(static_cast<index_t>(own.size())));
    for (std::size_t c = 0; c < own.size(); ++c) bias.flat<float>()[c] = static_cast<float>(own[c] - constants[c]);
    first_->set_bias(bias);
    std::vector<double> behind = detail::bias_of(*second_, static_cast<std::size_t>(map.outputs()));
    const Tensor weight = second_->weight().contiguous();
    for (index_t i = 0; i < weight.size(); ++i)
        behind[static_cast<std::size_t>(map.output(i))] +=
            static_cast<double>(weight.flat<float>()[static_cast<std::size_t>(i)]) *
            constants[static_cast<std::size_t>(map.input(i) / columns_)];
    bias = Tensor::empty(Shape(static_cast<index_t>(behind.size())));
    for (std::size_t c = 0; c < behind.size(); ++c) bias.flat<float>()[c] = static_cast<float>(behind[c]);
    second_->set_bias(bias);
}

INTQ_INLINE std::vector<EqualizationPair> equalization_pairs(graph::GraphModule& model,
                                                             std::vector<NotEqualized>& blocked) {
    std::vector<EqualizationPair> pairs;
    quantization::NodeOperators operators(model);
    for (const graph::Node* node : model.graph().nodes()) {
        nn::Module* module = graph::module_of(*node, model);
        if (module != nullptr && module->has_child("weight_fake_quant"))
            throw Error(node->target(), "the model is prepared already; equalize before prepare");
        auto* const first = dynamic_cast<nn::Weighted*>(module);
        if (first == nullptr) continue;
        detail::EqualizationWalk walk(model, operators, *node);
        std::string reason;
        if (nn::Weighted* second = walk.run(reason))
            pairs.emplace_back(*first, *second, walk.path(), walk.columns());
        else
            blocked.push_back({node->target(), reason});
    }
    return pairs;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

#endif  // INTQ_DEFINES(improve)
#endif  // INTQ_IMPROVE_EQUALIZATION_PAIR_HPP
