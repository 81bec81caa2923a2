// SPDX-License-Identifier: MIT
//
// calibrate: runs a prepared model over batches, and can stop and resume. Layer: quantization
// (docs/workflow.md sections 1, 4).
#ifndef INTQ_QUANTIZATION_PREPARE_CALIBRATE_HPP
#define INTQ_QUANTIZATION_PREPARE_CALIBRATE_HPP

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "intq/io/progress.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/quantization/fake_quantize/grid_choice.hpp"
#include "intq/quantization/observers/statistics_observers.hpp"
#include "intq/quantization/prepare/calibration_report.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Batches by number; one at a time is in memory.
struct BatchSource {
    std::size_t count = 0;
    std::function<Tensor(std::size_t)> batch{};                // of a model with one input
    std::function<std::vector<Tensor>(std::size_t)> inputs{};  // of a model with several: a tensor for each

    /// One batch, a value for each input of the model. Throws for a source without a function.
    std::vector<nn::Value> values(std::size_t number) const;
};

BatchSource batches_of(std::span<const Tensor> batches);

/// The samples of one tensor, batch_size at a time.
BatchSource batches_of(const Tensor& samples, index_t batch_size);

/// For a model with several inputs: a batch is a tensor for each of them.
BatchSource batches_of(std::span<const std::vector<Tensor>> batches);

/// The samples of a tensor for each input, batch_size at a time.
///
/// @throws Error for tensors with different numbers of samples
BatchSource batches_of(const std::vector<Tensor>& samples, index_t batch_size);

/// The .npy files of a folder in the order of their names, each one a batch. Throws if there is none.
BatchSource npy_batches(const std::filesystem::path& folder);

/// Whether all inputs of a batch hold elements; other batches are skipped.
bool has_data(const std::vector<nn::Value>& batch);

/// Called after each batch of a calibration.
using CalibrationProgress = std::function<void(std::size_t done, std::size_t total)>;

struct CalibrationOptions {
    std::size_t first = 0;        // batches already done: the result of load_calibration()
    std::size_t most = SIZE_MAX;  // batches of this call; the rest can follow
    CalibrationProgress progress{};
    io::ShowProgress show = io::ShowProgress::never;  // a progress bar
};

/// Runs a prepared model over batches with its quantizers in the state `calibration`, and leaves them in `validation`.
/// Throws for a set without data; for NaN or infinity in a tensor, naming the node, and then no observer has seen any
/// of that batch. The model's modules are looked up once, so `source` and `progress` must not replace any.
///
/// Result   the scales have the same bits on every machine, with FMA or without (FloatSums::reproducible)
/// Memory   one batch and the observers, whatever the number of batches
CalibrationReport calibrate(PreparedModel& model, const BatchSource& source, const CalibrationOptions& options = {});

CalibrationReport calibrate(PreparedModel& model, std::span<const Tensor> batches,
                            const CalibrationProgress& progress = {});
CalibrationReport calibrate(PreparedModel& model, const Tensor& samples, index_t batch_size,
                            const CalibrationProgress& progress = {});

/// The same for a model with several inputs.
CalibrationReport calibrate(PreparedModel& model, std::span<const std::vector<Tensor>> batches,
                            const CalibrationProgress& progress = {});

/// Runs a model on every batch of a data set, and changes nothing else: PyTorch's function of this name, for
/// quantize(model, default_eval_fn, data, …) and in place of a loop.
struct DefaultEvalFunction {
    void operator()(nn::Module& model, const BatchSource& data) const;
    void operator()(nn::Module& model, std::span<const Tensor> data) const;
};
inline constexpr DefaultEvalFunction default_eval_fn;

/// Reads the ranges of all statistics observers (StatisticsObserver and derived classes) by another method, without
/// another pass over the data.
///
/// @return the number of quantizers that have such an observer
int set_range_method(nn::Module& model, RangeMethod method);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <algorithm>
#    include <cmath>
#    include <system_error>
#    include <utility>

#    include "intq/graph/graph_module.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/quantizer_of.hpp"
#    include "intq/tensor/float_sums.hpp"
#    include "intq/tensor/npy.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE BatchSource batches_of(std::span<const Tensor> batches) {
    return {batches.size(), [batches](std::size_t i) { return batches[i]; }, {}};
}

INTQ_INLINE BatchSource batches_of(std::span<const std::vector<Tensor>> batches) {
    return {batches.size(), {}, [batches](std::size_t i) { return batches[i]; }};
}

INTQ_INLINE std::vector<nn::Value> BatchSource::values(std::size_t number) const {
    if (!inputs && !batch) throw Error("BatchSource: it has no function `batch`");
    if (!inputs) return {batch(number)};
    const std::vector<Tensor> tensors = inputs(number);
    return {tensors.begin(), tensors.end()};
}

INTQ_INLINE void DefaultEvalFunction::operator()(nn::Module& model, const BatchSource& data) const {
    for (std::size_t i = 0; i < data.count; ++i) model.dispatch("forward", data.values(i));
}

INTQ_INLINE void DefaultEvalFunction::operator()(nn::Module& model, std::span<const Tensor> data) const {
    (*this)(model, batches_of(data));
}

INTQ_INLINE CalibrationReport calibrate(PreparedModel& model, std::span<const std::vector<Tensor>> batches,
                                        const CalibrationProgress& progress) {
    return calibrate(model, batches_of(batches), {.progress = progress});
}

INTQ_INLINE CalibrationReport calibrate(PreparedModel& model, std::span<const Tensor> batches,
                                        const CalibrationProgress& progress) {
    return calibrate(model, batches_of(batches), {.progress = progress});
}

INTQ_INLINE CalibrationReport calibrate(PreparedModel& model, const Tensor& samples, index_t batch_size,
                                        const CalibrationProgress& progress) {
    return calibrate(model, batches_of(samples, batch_size), {.progress = progress});
}

namespace detail {

/// The buffers of the quantizers of a model.
INTQ_INLINE std::vector<Tensor*> observed_buffers(nn::Module& model) {
    std::vector<Tensor*> buffers;
    nn::for_each_module(model, [&](const std::string&, nn::Module& module) {
        if (dynamic_cast<Quantizer*>(&module) != nullptr || dynamic_cast<Observer*>(&module) != nullptr)
            for (auto& buffer : module.buffers()) buffers.push_back(&buffer.value);
    });
    return buffers;
}

/// An observer replaces its tensors and does not write into them, so handles are a copy of its state.
INTQ_INLINE void calibrate_batch(PreparedModel& model, const std::vector<nn::Value>& batch,
                                 const std::vector<Tensor*>& observed) {
    std::vector<Tensor> before;
    for (const Tensor* buffer : observed) before.push_back(*buffer);
    try {
        model.dispatch("forward", batch);
    } catch (...) {
        for (std::size_t i = 0; i < observed.size(); ++i) *observed[i] = before[i];
        throw;
    }
}

INTQ_INLINE bool is_of_weight(const std::string& name) { return name.ends_with("weight_fake_quant"); }

/// Counts a moving average, if most of its range is that of the first batch.
INTQ_INLINE void note_few_batches(const std::string& name, const FakeQuantize& quantizer, CalibrationReport& report) {
    const Observer& observer = quantizer.observer();
    const float constant = observer.options().averaging_constant;
    const double share = std::pow(1.0 - static_cast<double>(constant), static_cast<double>(report.done) - 1.0);
    if (is_of_weight(name) || quantizer.has_given_qparams() || !observer.seen() || report.done < 2 || share <= 0.5 ||
        !observer.type_name().starts_with("MovingAverage"))
        return;
    const auto same = [&](const FewBatches& few) { return few.averaging_constant == constant; };
    auto few = std::find_if(report.few_batches.begin(), report.few_batches.end(), same);
    if (few == report.few_batches.end())
        few = report.few_batches.insert(few, FewBatches{0, report.done, constant, share});
    ++few->quantizers;
}

/// Whether a quantizer of activations observed only one number, which says nothing about a range.
INTQ_INLINE bool saw_one_value(const std::string& name, const FakeQuantize& quantizer) {
    if (is_of_weight(name) || quantizer.has_given_qparams() || !quantizer.observer().seen()) return false;
    const Tensor lowest = quantizer.observer().tensor("min_val"), highest = quantizer.observer().tensor("max_val");
    return lowest.defined() && highest.defined() && lowest.flat<float>()[0] == highest.flat<float>()[0];
}

/// Maps the name of each quantizer that a graph calls to the node that it reads.
INTQ_INLINE std::map<std::string, std::string> values_of_quantizers(nn::Module& model) {
    std::map<std::string, std::string> values;
    auto* const traced = dynamic_cast<graph::GraphModule*>(&model);
    if (traced == nullptr) return values;
    for (const graph::Node* node : traced->graph().nodes()) {
        const Quantizer* const quantizer = quantizer_of(*node, *traced);
        if (quantizer == nullptr || node->inputs().empty()) continue;
        const std::string value = graph::layer_name(*node->inputs()[0]);
        values.emplace(node->target(), value);
        if (dynamic_cast<const GridChoiceFakeQuantize*>(quantizer) != nullptr)
            values.emplace(node->target() + ".own", value);
    }
    return values;
}

INTQ_INLINE void report_findings(nn::Module& model, CalibrationReport& report) {
    report.rounded = values_of_quantizers(model);
    for (const auto& module : model.named_modules()) {
        const auto* quantizer = dynamic_cast<const FakeQuantize*>(module.value);
        if (quantizer == nullptr) continue;
        if (!quantizer->has_qparams()) report.unseen.push_back(module.name);
        if (saw_one_value(module.name, *quantizer))
            report.constants.push_back({module.name, quantizer->observer().tensor("min_val").flat<float>()[0]});
        note_few_batches(module.name, *quantizer, report);
        const auto* statistics = dynamic_cast<const StatisticsObserver*>(&quantizer->observer());
        if (statistics == nullptr) continue;
        index_t channel = 0;
        for (const RangeChoice& choice : statistics->choose(statistics->method())) {
            if (choice.cliff.is_cliff() || choice.cliff.clips_most() || choice.cliff.keeps_little())
                report.cliffs.push_back({module.name, channel, choice});
            ++channel;
        }
    }
}

}  // namespace detail

INTQ_INLINE bool has_data(const std::vector<nn::Value>& batch) {
    return !batch.empty() &&
           std::all_of(batch.begin(), batch.end(), [](const nn::Value& input) { return input.tensor().size() > 0; });
}

INTQ_INLINE BatchSource batches_of(const Tensor& samples, index_t batch_size) {
    if (batch_size < 1)
        throw Error("calibrate: the batch size must be at least 1, given " + std::to_string(batch_size));
    const index_t count = samples.rank() > 0 ? samples.extent(0) : 0;
    return {static_cast<std::size_t>((count + batch_size - 1) / batch_size),
            [=](std::size_t i) {
                const index_t first = static_cast<index_t>(i) * batch_size;
                return samples.batch(first, (std::min)(batch_size, count - first));
            },
            {}};
}

INTQ_INLINE BatchSource batches_of(const std::vector<Tensor>& samples, index_t batch_size) {
    if (samples.empty()) throw Error("calibrate: no tensor of samples is given");
    std::vector<BatchSource> sources;
    for (const Tensor& input : samples) {
        sources.push_back(batches_of(input, batch_size));
        if (input.extent(0) != samples[0].extent(0))
            throw Error("calibrate: input " + std::to_string(sources.size()) + " has " +
                        std::to_string(input.extent(0)) + " samples, the first one " +
                        std::to_string(samples[0].extent(0)));
    }
    const std::size_t count = sources[0].count;
    return {count, {}, [sources = std::move(sources)](std::size_t i) {
                std::vector<Tensor> inputs;
                for (const BatchSource& source : sources) inputs.push_back(source.batch(i));
                return inputs;
            }};
}

INTQ_INLINE BatchSource npy_batches(const std::filesystem::path& folder) {
    std::error_code reason;
    std::vector<std::filesystem::path> files;
    for (auto entry = std::filesystem::directory_iterator(folder, reason);
         !reason && entry != std::filesystem::directory_iterator(); entry.increment(reason))
        if (entry->path().extension() == ".npy") files.push_back(entry->path());
    if (reason) throw Error(folder.string(), "cannot be read: " + reason.message());
    if (files.empty()) throw Error(folder.string(), "there is no .npy file in this folder");
    std::sort(files.begin(), files.end());
    return {files.size(), [files](std::size_t i) { return load_npy(files[i]); }, {}};
}

INTQ_INLINE CalibrationReport calibrate(PreparedModel& model, const BatchSource& source,
                                        const CalibrationOptions& options) {
    constexpr const char* empty = "calibrate: the calibration set is empty; give at least one batch";
    if (source.count == 0) throw Error(empty);
    if (options.first > source.count)
        throw Error("calibrate: " + std::to_string(options.first) + " batches are said to be done, the set has " +
                    std::to_string(source.count));
    const std::size_t last = options.first + (std::min)(options.most, source.count - options.first);
    set_fake_quantize(model, FakeQuantState::calibration);
    const FloatSumsScope reproducible(FloatSums::reproducible);
    const std::vector<Tensor*> observed = detail::observed_buffers(model);
    bool any = options.first > 0 || last == options.first;
    {
        io::Progress bar("calibration", static_cast<std::int64_t>(source.count), options.show);
        for (std::size_t i = options.first; i < last; ++i) {
            const std::vector<nn::Value> batch = source.values(i);
            try {
                if (has_data(batch)) {
                    detail::calibrate_batch(model, batch, observed);
                    any = true;
                }
            } catch (const Error& error) {
                throw Error("calibrate: batch " + std::to_string(i), error);
            }
            bar.update(static_cast<std::int64_t>(i + 1));
            if (options.progress) options.progress(i + 1, source.count);
        }
    }
    if (!any) throw Error(empty);
    set_fake_quantize(model, FakeQuantState::validation);
    CalibrationReport report{last, source.count};
    detail::report_findings(model, report);
    report.kept = kept_grids(model);
    report.lost = find_lost_operands(model);
    return report;
}

INTQ_INLINE int set_range_method(nn::Module& model, RangeMethod method) {
    int changed = 0;
    for (const auto& module : model.named_modules()) {
        auto* quantizer = dynamic_cast<FakeQuantize*>(module.value);
        if (quantizer == nullptr) continue;
        auto* statistics = dynamic_cast<StatisticsObserver*>(&quantizer->observer());
        if (statistics == nullptr) continue;
        statistics->set_method(method);
        quantizer->update_qparams();
        ++changed;
    }
    choose_grids_again(model);
    return changed;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_CALIBRATE_HPP
