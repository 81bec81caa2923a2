// SPDX-License-Identifier: MIT
//
// take_better: keeps a change of a quantized model only where it brings the model nearer to float. Layer: improve.
#ifndef INTQ_IMPROVE_TAKE_BETTER_HPP
#define INTQ_IMPROVE_TAKE_BETTER_HPP

#include <functional>
#include <memory>
#include <string>

#include "intq/core/abi.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {
class GraphModule;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

/// The result of a comparison of two models: SQNR in dB against the float model.
struct BetterOf {
    double without = 0.0, with = 0.0;
    bool is_kept = false;  // the change: with > without
};

/// "kept: 41.20 dB on the samples that judge, 38.98 dB without", or "left out: 1.62 dB …".
std::string to_string(const BetterOf& choice);

/// Samples from which a change is learned, and samples that judge it.
struct HeldOut {
    quantization::BatchSource learn, judge;
};

/// Every fourth batch judges, or the last one of fewer than four. A single batch is both: use smaller ones.
HeldOut hold_out(const quantization::BatchSource& samples);

/// SQNR of a model's outputs over samples, infinite where they are equal; of several outputs the lowest.
///
/// @param reference  the float model
/// @throws Error for a source without data, and for models with different outputs
///
/// Result   the same bits on every CPU
double sqnr_on(graph::GraphModule& reference, graph::GraphModule& model, const quantization::BatchSource& samples);

/// Takes the better of two calibrated models of one float model: `model` becomes `changed` where its SQNR is higher.
/// Both are left in the state `validation`.
///
///     const auto equalized = …;  // the float model equalized, prepared and calibrated
///     const BetterOf choice = take_better(prepared, equalized, *fused, held.judge);
BetterOf take_better(std::shared_ptr<quantization::PreparedModel>& model,
                     const std::shared_ptr<quantization::PreparedModel>& changed, graph::GraphModule& reference,
                     const quantization::BatchSource& judge);

/// A change of a calibrated model, from samples.
using Improvement = std::function<void(quantization::PreparedModel& model, const quantization::BatchSource& learn)>;

/// Changes a copy on the samples that hold_out() sets aside for learning, and takes the better by the others.
///
///     const auto choice = improve_if_better(prepared, *float_model, samples,
///                                           [](auto& model, const auto& learn) { adaround(model, learn); });
///
/// @param reference  the float model that `model` was prepared from, not the prepared one in float: an earlier change,
///                   such as AdaRound, has rounded the weights of the latter
/// Memory   a copy of the model
BetterOf improve_if_better(std::shared_ptr<quantization::PreparedModel>& model, graph::GraphModule& reference,
                           const quantization::BatchSource& samples, const Improvement& change);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(improve)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdio>
#    include <span>
#    include <utility>
#    include <vector>

#    include "intq/graph/graph_module.hpp"
#    include "intq/improve/layer_calls.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/model/value.hpp"
#    include "intq/numeric_suite/metrics/tensor_comparison.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/tensor/float_sums.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string to_string(const BetterOf& choice) {
    char text[160];
    std::snprintf(text, sizeof(text), "%s: %.2f dB on the samples that judge, %.2f dB without",
                  choice.is_kept ? "kept" : "left out", choice.with, choice.without);
    return text;
}

namespace detail {

INTQ_INLINE quantization::BatchSource batches_at(const quantization::BatchSource& all,
                                                 std::vector<std::size_t> places) {
    const std::size_t count = places.size();
    if (!all.batch && !all.inputs) throw Error("BatchSource: it has no function `batch`");
    quantization::BatchSource some{count, {}, {}};
    if (all.inputs)
        some.inputs = [all, places](std::size_t i) { return all.inputs(places.at(i)); };
    else
        some.batch = [all, places](std::size_t i) { return all.batch(places.at(i)); };
    return some;
}

}  // namespace detail

INTQ_INLINE HeldOut hold_out(const quantization::BatchSource& samples) {
    if (samples.count < 2) return {samples, samples};
    std::vector<std::size_t> learn, judge;
    for (std::size_t i = 0; i < samples.count; ++i)
        (samples.count < 4 ? i + 1 == samples.count : i % 4 == 3) ? judge.push_back(i) : learn.push_back(i);
    return {detail::batches_at(samples, std::move(learn)), detail::batches_at(samples, std::move(judge))};
}

INTQ_INLINE double sqnr_on(graph::GraphModule& reference, graph::GraphModule& model,
                           const quantization::BatchSource& samples) {
    const FloatSumsScope reproducible(FloatSums::reproducible);
    std::vector<numeric_suite::TensorComparison> outputs;
    for_each_batch(samples, "sqnr_on", [&](std::span<const nn::Value> batch) {
        const std::vector<Tensor> wanted = nn::tensors_of(reference.run(batch, {})),
                                  given = nn::tensors_of(model.run(batch, {}));
        if (wanted.size() != given.size())
            throw Error("sqnr_on: the models have " + std::to_string(wanted.size()) + " and " +
                        std::to_string(given.size()) + " outputs");
        outputs.resize(wanted.size());
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            const Tensor x = wanted[i].contiguous(), y = given[i].contiguous();
            if (x.dtype() != DType::float32)
                throw Error("sqnr_on: output " + std::to_string(i) + " is " + name_of(x.dtype()) +
                            " indices, which have no SQNR");
            outputs[i].add(x.flat<float>(), y.flat<float>(), x.shape());
        }
    });
    double lowest = HUGE_VAL;
    for (const auto& output : outputs) {
        if (output.mse() == 0.0) continue;  // equal, also where all is 0
        if (std::isnan(output.sqnr())) return output.sqnr();
        lowest = (std::min)(lowest, output.sqnr());
    }
    return lowest;
}

INTQ_INLINE BetterOf take_better(std::shared_ptr<quantization::PreparedModel>& model,
                                 const std::shared_ptr<quantization::PreparedModel>& changed,
                                 graph::GraphModule& reference, const quantization::BatchSource& judge) {
    for (const auto& each : {model, changed}) set_fake_quantize(*each, quantization::FakeQuantState::validation);
    BetterOf choice{sqnr_on(reference, *model, judge), sqnr_on(reference, *changed, judge)};
    choice.is_kept = choice.with > choice.without;
    if (choice.is_kept) model = changed;
    return choice;
}

INTQ_INLINE BetterOf improve_if_better(std::shared_ptr<quantization::PreparedModel>& model,
                                       graph::GraphModule& reference, const quantization::BatchSource& samples,
                                       const Improvement& change) {
    if (!change) throw Error("improve_if_better: `change` is empty; it must be a function that changes the model");
    const HeldOut held = hold_out(samples);
    const auto changed =
        std::dynamic_pointer_cast<quantization::PreparedModel>(nn::clone(static_cast<const nn::Module&>(*model)));
    change(*changed, held.learn);
    return take_better(model, changed, reference, held.judge);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

#endif  // INTQ_DEFINES(improve)
#endif  // INTQ_IMPROVE_TAKE_BETTER_HPP
