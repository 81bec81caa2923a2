// SPDX-License-Identifier: MIT
//
// Cross-layer equalization: evens out the ranges of the channels between two layers. Layer: improve.
#ifndef INTQ_IMPROVE_EQUALIZATION_HPP
#define INTQ_IMPROVE_EQUALIZATION_HPP

#include <string>
#include <vector>

#include "intq/core/abi.hpp"
#include "intq/core/dtype.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {
class GraphModule;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

struct EqualizationOptions {
    int most_sweeps = 100;
    double tolerance = 1e-4;  // a sweep is the last where no factor is farther from 1
};

/// Two layers between which only operators stand that commute with a positive factor a channel.
struct EqualizedPair {
    std::string first, second;  // qualified names
    index_t channels = 0;
};

/// A layer behind which nothing was equalized.
struct NotEqualized {
    std::string layer;
    std::string reason;
};

struct EqualizationReport {
    std::vector<EqualizedPair> pairs{};
    std::vector<NotEqualized> blocked{};
    int sweeps = 0;
    double largest_factor = 0.0;  // |s - 1| of the last sweep
};

/// Equalizes the weights of a float model whose batch norms are folded (quantization::fuse_fx).
///
///     r1[i] = max |w1[i, ...]|,  r2[i] = max |w2[..., i, ...]|,  s[i] = sqrt(r1[i] / r2[i])
///     w1[i, ...] /= s[i],  b1[i] /= s[i],  w2[..., i, ...] *= s[i]
///
/// for each pair of neighbours and channel i between them, over and over, until nothing moves: then r1 = r2 in all of
/// them, and the product of the per-tensor precisions of each channel is the largest. Between the two may stand relu,
/// leaky_relu, pooling, interpolate, identity, dropout and a flatten before a linear layer, each read by nobody else. A
/// depthwise layer is evened out on both sides. A channel whose weights are all 0 stays.
///
/// The function of the model stays, up to float rounding. ReLU6 stops it: it cuts at 6 whatever the channel's factor
/// (the paper's authors put ReLU in its place first).
///
/// @param model  changed in place; its layers are those of the module that it was traced from
/// @throws Error for a model that holds quantizers: equalize before prepare
///
/// Source   Nagel et al. 2019, arXiv 1906.04721, section 4.1
EqualizationReport equalize(graph::GraphModule& model, const EqualizationOptions& options = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(improve)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <utility>

#    include "intq/core/op_params.hpp"
#    include "intq/graph/graph_module.hpp"
#    include "intq/graph/node.hpp"
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

    /// Null where something stands between; `reason` says what.
    nn::Weighted* run(std::string& reason) {
        auto& layer = weighted(first_);
        if (layer.norm() != nullptr) return stop(reason, "its batch norm is not folded");
        if (layer.fusion().add) return stop(reason, "an add is fused into it");
        if (layer.fusion().activation == Activation::relu6) return stop(reason, "relu6 stands behind it");
        is_vector_ = layer.channel_axis() < 0;
        for (const graph::Node* node = &first_;;) {
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
        return &layer;
    }
    nn::Weighted* stop(std::string& reason, const graph::Node& node) const {
        return stop(reason, "%" + node.name() + " (" + graph::operator_of(node, model_) + ") stands behind it");
    }
    static nn::Weighted* stop(std::string& reason, std::string sentence) {
        reason = std::move(sentence);
        return nullptr;
    }

    graph::GraphModule& model_;
    quantization::NodeOperators& operators_;
    const graph::Node& first_;
    const graph::Node* second_ = nullptr;
    index_t columns_ = 1;
    bool is_vector_ = false;  // the channels are the last axis
    bool is_flat_ = false;
};

/// Two layers whose channels are one after the other.
struct EqualizationPair {
    nn::Weighted* first;
    nn::Weighted* second;
    index_t columns;

    /// One step; gives back how far the largest factor is from 1.
    double equalize() const {
        const ChannelMap from(*first), to(*second);
        const auto out = [&](index_t i) { return static_cast<std::size_t>(from.output(i)); };
        const auto in = [&](index_t i) { return static_cast<std::size_t>(to.input(i) / columns); };
        const auto ranges = [&](const nn::Weighted& layer, const auto& channel) {
            std::vector<double> result(static_cast<std::size_t>(from.outputs()));
            const Tensor weight = layer.weight().contiguous();
            for (index_t i = 0; i < weight.size(); ++i) {
                double& range = result[channel(i)];
                range =
                    std::max(range, std::abs(static_cast<double>(weight.flat<float>()[static_cast<std::size_t>(i)])));
            }
            return result;
        };
        const std::vector<double> r1 = ranges(*first, out), r2 = ranges(*second, in);
        std::vector<double> factor(r1.size(), 1.0);
        double farthest = 0;
        for (std::size_t c = 0; c < r1.size(); ++c) {
            if (r1[c] > 0 && r2[c] > 0) factor[c] = std::sqrt(r1[c] / r2[c]);
            farthest = std::max(farthest, std::abs(factor[c] - 1.0));
        }
        const auto scaled = [](const Tensor& tensor, const auto& by) {
            Tensor result = tensor.contiguous().clone();
            const auto values = result.flat<float>();
            for (std::size_t i = 0; i < values.size(); ++i)
                values[i] = static_cast<float>(static_cast<double>(values[i]) * by(static_cast<index_t>(i)));
            return result;
        };
        first->set_weight(scaled(first->weight(), [&](index_t i) { return 1.0 / factor[out(i)]; }));
        if (first->has_bias())
            first->set_bias(
                scaled(first->bias(), [&](index_t i) { return 1.0 / factor[static_cast<std::size_t>(i)]; }));
        second->set_weight(scaled(second->weight(), [&](index_t i) { return factor[in(i)]; }));
        return farthest;
    }
};

}  // namespace detail

INTQ_INLINE EqualizationReport equalize(graph::GraphModule& model, const EqualizationOptions& options) {
    EqualizationReport report;
    std::vector<detail::EqualizationPair> pairs;
    quantization::NodeOperators operators(model);
    for (const graph::Node* node : model.graph().nodes()) {
        const nn::Module* module = graph::module_of(*node, model);
        if (module != nullptr && module->has_child("weight_fake_quant"))
            throw Error(node->target(), "the model is prepared already; equalize before prepare");
        if (dynamic_cast<const nn::Weighted*>(module) == nullptr) continue;
        detail::EqualizationWalk walk(model, operators, *node);
        std::string reason;
        auto* const first = dynamic_cast<nn::Weighted*>(graph::module_of(*node, model));
        if (nn::Weighted* second = walk.run(reason)) {
            pairs.push_back({first, second, walk.columns()});
            report.pairs.push_back({node->target(), walk.second()->target(), detail::ChannelMap(*first).outputs()});
        } else {
            report.blocked.push_back({node->target(), reason});
        }
    }
    while (report.sweeps < options.most_sweeps && !pairs.empty()) {
        ++report.sweeps;
        report.largest_factor = 0;
        for (const detail::EqualizationPair& pair : pairs)
            report.largest_factor = std::max(report.largest_factor, pair.equalize());
        if (report.largest_factor <= options.tolerance) break;
    }
    return report;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

#endif  // INTQ_DEFINES(improve)
#endif  // INTQ_IMPROVE_EQUALIZATION_HPP
