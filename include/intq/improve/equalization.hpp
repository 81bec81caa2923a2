// SPDX-License-Identifier: MIT
//
// Cross-layer equalization: evens out the ranges of the channels between two layers. Layer: improve.
#ifndef INTQ_IMPROVE_EQUALIZATION_HPP
#define INTQ_IMPROVE_EQUALIZATION_HPP

#include <string>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/core/abi.hpp"
#include "intq/core/dtype.hpp"
#include "intq/improve/equalization_pair.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/qconfig/qconfig.hpp"

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

struct EqualizationOptions {
    int most_sweeps = 100;
    double tolerance = 1e-4;  // a sweep is the last where no factor is farther from 1
};

/// Two layers separated only by operators that commute with a positive factor per channel.
struct EqualizedPair {
    std::string first, second;  // qualified names
    index_t channels = 0;
    index_t bounded = 0;   // channels whose factor the bound holds, see EqualizationPair
    index_t absorbed = 0;  // channels whose constant part went into the second layer's bias; with samples
    /// Mean squared error of the second layer's product with both layers and their inputs rounded; with samples.
    double error_without = 0.0, error = 0.0;
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
/// for each pair of neighbours and channel i between them, over and over, until nothing moves. Then r1 = r2 in all of
/// them, except those whose factor a bias bounds (EqualizationPair), and the product of the per-tensor precisions of
/// each channel is the largest. Between the two may be relu, leaky_relu, pooling, interpolate, identity, dropout and a
/// flatten before a linear layer, each read by nobody else. A depthwise layer is evened out on both sides. A channel
/// whose weights are all 0 gets the common factor.
///
/// The model's function stays the same, up to float rounding. ReLU6 prevents equalization: it cuts at 6 whatever the
/// channel's factor (the paper's authors put ReLU in its place first).
///
/// @param model  changed in place; its layers are those of the module that it was traced from
/// @throws Error for a model that holds quantizers: equalize before prepare
///
/// Source   Nagel et al. 2019, arXiv 1906.04721, section 4.1
EqualizationReport equalize(graph::GraphModule& model, const EqualizationOptions& options = {});

/// The same, judged on samples: a pair keeps its factors only where rounding costs both layers less with them than
/// without. The others are in `blocked`, with both errors.
///
///     c[i] = max(0, smallest value of channel i behind the first layer)
///     b1[i] -= c[i],  b2 += w2 c
///
/// comes before the factors of a pair, so that a constant part needs no codes, and bounds no factor. It is left out
/// where the second layer, or an operator between, does not produce the same constant at every place: a convolution
/// with zero padding, a transposed one. On data whose channel falls below c, the model's function changes.
///
/// @param model    in evaluation
/// @param samples  some tens do
/// @param qconfig  the one that prepare will assign to the layers
/// @throws Error as above, for a source without data, and for a qconfig without a quantizer of weights or outputs
///
/// Memory   a copy of the model, and the inputs of one layer over all samples
/// Cost     two passes over the samples, and one for each pair; once more where pairs were left out
/// Source   Nagel et al. 2019, arXiv 1906.04721, sections 4.1 and 4.2 (absorbing high biases)
EqualizationReport equalize(graph::GraphModule& model, const quantization::BatchSource& samples,
                            const quantization::QConfig& qconfig, const arith::PolicyRecord& target,
                            const EqualizationOptions& options = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(improve)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <map>
#    include <memory>
#    include <set>
#    include <span>

#    include "intq/core/shape.hpp"
#    include "intq/graph/graph_module.hpp"
#    include "intq/graph/interpreter.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/improve/layer_calls.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/elementwise.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/nn/model/module.hpp"
#    include "intq/nn/model/value.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/quantization/operators/operator_table.hpp"
#    include "intq/quantization/prepare/prepare_layer.hpp"
#    include "intq/tensor/float_sums.hpp"
#    include "intq/tensor/quantize.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE const std::string& first_name(const EqualizationPair& pair) { return pair.path().front()->target(); }

/// Steps over all pairs, until nothing moves.
INTQ_INLINE void sweep(std::vector<EqualizationPair>& pairs, const EqualizationOptions& options,
                       EqualizationReport& report) {
    for (EqualizationPair& pair : pairs) pair.begin();
    report.sweeps = 0;
    while (report.sweeps < options.most_sweeps && !pairs.empty()) {
        ++report.sweeps;
        report.largest_factor = 0;
        for (EqualizationPair& pair : pairs) report.largest_factor = (std::max)(report.largest_factor, pair.step());
        if (report.largest_factor <= options.tolerance) break;
    }
    for (const EqualizationPair& pair : pairs)
        report.pairs.push_back({first_name(pair), pair.path().back()->target(), pair.channels(), pair.bounded()});
}

/// The constant parts of the channels behind each pair's first layer, by its name; none where they cannot be absorbed.
using ConstantParts = std::map<std::string, std::vector<double>>;

/// Applies the operators between two layers to the first one's output.
INTQ_INLINE Tensor through(graph::GraphModule& model, const EqualizationPair& pair, Tensor y) {
    const auto& path = pair.path();
    for (std::size_t i = 1; i + 1 < path.size(); ++i)
        y = graph::Interpreter::evaluate(*path[i], model, {{path[i - 1], nn::Value(y)}}).tensor();
    return y;
}

/// Whether the operators behind the first layer turn constant channels into constant channels.
///
/// @param shape  of one sample behind the first layer
INTQ_INLINE bool keeps_constants(graph::GraphModule& model, const EqualizationPair& pair, const Shape& shape, int axis,
                                 const std::vector<double>& constants) {
    Tensor y = Tensor::empty(shape);
    const Shape blocks = tensor_detail::blocks_around(y, axis);
    for (index_t i = 0; i < y.size(); ++i)
        y.flat<float>()[static_cast<std::size_t>(i)] =
            static_cast<float>(constants[static_cast<std::size_t>(i / blocks[2] % blocks[1])]);
    const Tensor z = pair.second().apply(through(model, pair, y), pair.second().weight()).contiguous();
    const int behind = pair.second().channel_axis() < 0 ? z.rank() - 1 : pair.second().channel_axis();
    const Shape places = tensor_detail::blocks_around(z, behind);
    const auto values = z.flat<float>();
    float largest = 0;
    for (const float value : values) largest = (std::max)(largest, (std::abs)(value));
    for (index_t i = 0; i < z.size(); ++i) {
        const index_t first = i / places[2] % places[1] * places[2];  // of this channel in the first block
        if ((std::abs)(values[static_cast<std::size_t>(i)] - values[static_cast<std::size_t>(first)]) > 1e-5f * largest)
            return false;
    }
    return true;
}

INTQ_INLINE ConstantParts constant_parts(graph::GraphModule& model, const std::vector<EqualizationPair>& pairs,
                                         const quantization::BatchSource& samples) {
    struct Seen {
        Shape shape;
        int axis = 1;
        std::vector<double> lowest;
    };
    std::map<std::string, Seen> seen;
    std::set<std::string> names;
    for (const EqualizationPair& pair : pairs) names.insert(pair.path().front()->name());
    for_each_batch(samples, "equalize", [&](std::span<const nn::Value> batch) {
        run_and_visit(
            model, batch, names, [&](const graph::Node& node, std::span<const nn::Value>, const nn::Value& output) {
                const Tensor y = output.tensor().contiguous();
                Seen& of = seen[node.target()];
                of.shape = y.batch(0, 1).shape();
                of.axis = dynamic_cast<const nn::Weighted&>(*graph::module_of(node, model)).channel_axis();
                if (of.axis < 0) of.axis += y.rank();
                const Shape blocks = tensor_detail::blocks_around(y, of.axis);
                of.lowest.resize(static_cast<std::size_t>(blocks[1]), HUGE_VAL);
                for (index_t i = 0; i < y.size(); ++i) {
                    double& lowest = of.lowest[static_cast<std::size_t>(i / blocks[2] % blocks[1])];
                    lowest = (std::min)(lowest, static_cast<double>(y.flat<float>()[static_cast<std::size_t>(i)]));
                }
            });
    });
    ConstantParts parts;
    for (const EqualizationPair& pair : pairs) {
        Seen& of = seen.at(first_name(pair));
        for (double& lowest : of.lowest) lowest = (std::max)(0.0, lowest);
        if (keeps_constants(model, pair, of.shape, of.axis, of.lowest)) parts[first_name(pair)] = of.lowest;
    }
    return parts;
}

/// The cost of rounding for two layers on the inputs of the first.
class RoundedPair {
public:
    RoundedPair(graph::GraphModule& model, const EqualizationPair& pair, const quantization::QConfig& qconfig,
                const arith::PolicyRecord& target)
        : model_(model), pair_(pair), qconfig_(qconfig), target_(target), operators_(model) {}

    /// Reads the inputs of the first layer.
    void run(const quantization::BatchSource& samples) {
        const graph::Node& node = *pair_.path().front();
        for_each_batch(samples, "equalize", [&](std::span<const nn::Value> batch) {
            run_and_visit(model_, batch, {node.name()},
                          [&](const graph::Node&, std::span<const nn::Value> inputs, const nn::Value&) {
                              inputs_.push_back(inputs[0].tensor().contiguous());
                          });
        });
    }

    /// Mean squared error of the second layer's product with the current weights.
    double error() {
        const auto input = activation(), between = activation();
        for (const Tensor& x : inputs_) {
            input->observe(x);
            between->observe(behind_first(x, pair_.first().weight()));
        }
        for (const auto& quantizer : {input, between}) {
            quantizer->update_qparams();
            quantizer->enable_observer(false);
            quantizer->enable_fake_quant(true);
        }
        const auto first = rounded(*pair_.path().front(), pair_.first()),
                   second = rounded(*pair_.path().back(), pair_.second());
        double sum = 0;
        std::size_t count = 0;
        for (const Tensor& x : inputs_) {
            const Tensor exact = behind_first(x, pair_.first().weight());
            const Tensor wanted = pair_.second().apply(exact, pair_.second().weight()).contiguous();
            const Tensor seen = (*input)(x).tensor();
            const Tensor given = (*between)(behind_first(seen, weight_of(*first, seen, x))).tensor();
            const Tensor z = pair_.second().apply(given, weight_of(*second, given, exact)).contiguous();
            const auto a = wanted.flat<float>(), b = z.flat<float>();
            for (std::size_t i = 0; i < a.size(); ++i) {
                const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
                sum += difference * difference;
            }
            count += a.size();
        }
        return sum / static_cast<double>(count);
    }

private:
    std::shared_ptr<quantization::FakeQuantize> activation() const {
        return quantization::make_activation_quantizer(first_name(pair_), *qconfig_.output, target_,
                                                       quantization::Compatibility::horizon);
    }
    std::shared_ptr<nn::Weighted> rounded(const graph::Node& node, const nn::Weighted& layer) {
        return quantization::with_weight_quantizer(node.target(), layer, operators_.of(node), *qconfig_.weight, target_,
                                                   quantization::Compatibility::horizon);
    }
    // The operand of a fused add, where the layer has one, is not rounded.
    static Tensor weight_of(const nn::Weighted& layer, const Tensor& x, const Tensor& operand) {
        const std::vector<nn::Value> inputs{x, operand};
        return dynamic_cast<const quantization::PreparedWeight&>(layer).quantized_weight(nn::Arguments(inputs));
    }
    Tensor behind_first(const Tensor& x, const Tensor& weight) {
        const nn::Weighted& layer = pair_.first();
        const Tensor y = nn::float_operators::activate(layer.apply(x, weight), layer.fusion().activation);
        return through(model_, pair_, y);
    }

    graph::GraphModule& model_;
    const EqualizationPair& pair_;
    const quantization::QConfig& qconfig_;
    const arith::PolicyRecord& target_;
    quantization::NodeOperators operators_;
    std::vector<Tensor> inputs_;
};

/// Pairs of a model, but for those that are left out, with their constants absorbed and their factors applied.
INTQ_INLINE std::vector<EqualizationPair> equalize_but(graph::GraphModule& model, const std::set<std::string>& left_out,
                                                       const ConstantParts& parts, const EqualizationOptions& options,
                                                       EqualizationReport& report) {
    std::vector<EqualizationPair> pairs = equalization_pairs(model, report.blocked);
    std::erase_if(pairs, [&](const auto& pair) { return left_out.count(first_name(pair)) != 0; });
    for (const EqualizationPair& pair : pairs)
        if (const auto part = parts.find(first_name(pair)); part != parts.end()) pair.absorb(part->second);
    sweep(pairs, options, report);
    return pairs;
}

/// Both errors of each pair.
INTQ_INLINE void judge(graph::GraphModule& model, const std::vector<EqualizationPair>& pairs,
                       const ConstantParts& parts, const quantization::BatchSource& samples,
                       const quantization::QConfig& qconfig, const arith::PolicyRecord& target,
                       EqualizationReport& report) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        const EqualizationPair& pair = pairs[i];
        nn::Weighted &first = pair.first(), &second = pair.second();
        RoundedPair rounded(model, pair, qconfig, target);
        rounded.run(samples);
        EqualizedPair& entry = report.pairs[i];
        entry.error = rounded.error();
        const Tensor weights[] = {first.weight(), second.weight()}, biases[] = {first.bias(), second.bias()};
        std::vector<double> back = pair.factors();
        for (double& factor : back) factor = 1.0 / factor;
        pair.scale(back);
        if (const auto part = parts.find(first_name(pair)); part != parts.end()) {
            std::vector<double> given = part->second;
            entry.absorbed = std::count_if(given.begin(), given.end(), [](double c) { return c > 0; });
            for (double& constant : given) constant = -constant;
            pair.absorb(given);
        }
        entry.error_without = rounded.error();
        first.set_weight(weights[0]), second.set_weight(weights[1]);
        if (biases[0].defined()) first.set_bias(biases[0]);
        if (biases[1].defined()) second.set_bias(biases[1]);
    }
}

}  // namespace detail

INTQ_INLINE EqualizationReport equalize(graph::GraphModule& model, const EqualizationOptions& options) {
    EqualizationReport report;
    detail::equalize_but(model, {}, {}, options, report);
    return report;
}

INTQ_INLINE EqualizationReport equalize(graph::GraphModule& model, const quantization::BatchSource& samples,
                                        const quantization::QConfig& qconfig, const arith::PolicyRecord& target,
                                        const EqualizationOptions& options) {
    if (!qconfig.output || !qconfig.weight)
        throw Error(std::string("equalize: its qconfig has no quantizer of ") +
                    (qconfig.weight ? "outputs" : "weights"));
    // The choice is the same on every CPU.
    const FloatSumsScope reproducible(FloatSums::reproducible);
    std::set<std::string> left_out;
    std::vector<NotEqualized> rejected, ignored;
    const detail::ConstantParts parts = detail::constant_parts(model, equalization_pairs(model, ignored), samples);
    for (;;) {
        const auto trial =
            std::dynamic_pointer_cast<graph::GraphModule>(nn::clone(static_cast<const nn::Module&>(model)));
        EqualizationReport report;
        const auto pairs = detail::equalize_but(*trial, left_out, parts, options, report);
        detail::judge(*trial, pairs, parts, samples, qconfig, target, report);
        const std::size_t before = left_out.size();
        for (const EqualizedPair& pair : report.pairs)
            if (pair.error > pair.error_without) {
                const auto text = [](double error) { return shortest_text(static_cast<float>(error)); };
                left_out.insert(pair.first);
                rejected.push_back({pair.first,
                                    "rounding costs both layers more with its factors: a mean squared error "
                                    "of " +
                                        text(pair.error) + " on the samples, and " + text(pair.error_without) +
                                        " without"});
            }
        if (left_out.size() > before) continue;
        EqualizationReport applied;
        detail::equalize_but(model, left_out, parts, options, applied);
        report.blocked.insert(report.blocked.end(), rejected.begin(), rejected.end());
        return report;
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

#endif  // INTQ_DEFINES(improve)
#endif  // INTQ_IMPROVE_EQUALIZATION_HPP
