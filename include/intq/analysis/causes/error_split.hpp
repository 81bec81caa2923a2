// SPDX-License-Identifier: MIT
//
// error_split: the error of each operator, split into one part per cause. Layer: analysis (docs/debugging.md).
#ifndef INTQ_ANALYSIS_CAUSES_ERROR_SPLIT_HPP
#define INTQ_ANALYSIS_CAUSES_ERROR_SPLIT_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "intq/analysis/compare/internal/layer_pairs.hpp"
#include "intq/analysis/models/analysed_model.hpp"
#include "intq/analysis/models/call_inputs.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// The causes of an operator's error, in the order in which they are switched on.
enum class ErrorPart : std::uint8_t { inherited, weight_rounding, input_clipping, input_rounding, requantization };
inline constexpr std::size_t error_part_count = 5;

/// "inherited", "weight_rounding", "input_clipping", "input_rounding", "requantization".
const char* name_of(ErrorPart part);

/// The parts of one operator's error in numbers. Each norm is the square root of the sum of squares over all elements.
struct OperatorErrorSplit {
    LayerPair pair{};
    std::string mod_name, op_type;                 // of the prepared model
    double signal = 0.0;                           // norm of the baseline's output
    double total = 0.0;                            // norm of the error
    std::array<double, error_part_count> norms{};  // of the parts, whose sum is the error: they may cancel each other
    /// The share of each part in the error: its inner product with the error, over the error's square. They add up to
    /// 1; a part that reduces the error is below 0. All are 0 without an error.
    std::array<double, error_part_count> shares{};

    double norm(ErrorPart part) const { return norms[static_cast<std::size_t>(part)]; }
    double share(ErrorPart part) const { return shares[static_cast<std::size_t>(part)]; }
    /// The part with the largest share.
    ErrorPart largest() const;
};

/// The parts of one operator as tensors: float64, of the shape of its output, or of its first output if it has several.
struct ErrorTensors {
    LayerPair pair{};
    std::array<Tensor, error_part_count> parts{};
    Tensor baseline{};  // the baseline's output

    const Tensor& part(ErrorPart part) const { return parts[static_cast<std::size_t>(part)]; }
};

struct ErrorSplitOptions {
    /// Sees the tensors of each operator, which are dropped afterwards.
    std::function<void(const ErrorTensors&)> visit{};
};

/// Splits the error of each operator of a prepared model on a case. Let y(x, w) be the operator's result in real
/// numbers, and x0 and w its input and weight in the baseline:
///
///     inherited         y(x1, w)  - baseline    x1: the value from the program's earlier operators, before it is
///                                               quantized for this one
///     weight rounding   y(x1, w~) - y(x1, w)    w~: the weight on its grid
///     input clipping    y(x2, w~) - y(x1, w~)   x2: x1 cut off at the ends of its grid
///     input rounding    y(x3, w~) - y(x2, w~)   x3: the codes that the program's operator reads
///     requantization    y~ - y(x3, w~)          y~: the output of the program's operator
///
/// Each part is the difference of two runs; there is no remainder. Requantization includes the rounding
/// of the output; for an operator that reads this output, the same rounding is a part of its input. A QuantStub is only
/// a quantizer: it has only the parts of its input.
///
/// @param baseline  a float model, or another corresponding one
/// @param model     prepared and calibrated; it is as before when the call ends
/// @param table     kernels of the target that the model was prepared for
/// @throws Error as pair_layers() and ExactSimulation do
///
/// Memory   the codes of all operators of the model, and the outputs of the baseline that wait for their partners
/// Cost     two runs of the models, and four of each operator
std::vector<OperatorErrorSplit> split_error(const AnalysedModel& baseline,
                                            const std::shared_ptr<quantization::PreparedModel>& model,
                                            const kernels::KernelTable& table, const CallInputs& inputs,
                                            const ErrorSplitOptions& options = {});

/// A table: the error of each operator in percent of its signal, and the share of each part in percent of the error.
std::string to_string(const std::vector<OperatorErrorSplit>& splits);
/// {"mod_name": …, "op_type": …, "signal": …, "total": …, "norms": {"inherited": …, …}, "shares": {…}}
std::string to_json(const OperatorErrorSplit& split);
/// A list of them.
std::string to_json(const std::vector<OperatorErrorSplit>& splits);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_causes)

#    include <algorithm>
#    include <cmath>
#    include <cstdio>
#    include <map>
#    include <optional>
#    include <utility>

#    include "intq/analysis/compare/internal/waiting_run.hpp"
#    include "intq/analysis/models/internal/graph_source.hpp"
#    include "intq/graph/interpreter.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/json_text.hpp"
#    include "intq/io/text_table.hpp"
#    include "intq/nn/layers/quantize.hpp"
#    include "intq/numeric_suite/loggers/results.hpp"
#    include "intq/quantization/convert/exact_simulation.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE const char* name_of(ErrorPart part) {
    static constexpr const char* names[error_part_count] = {"inherited", "weight_rounding", "input_clipping",
                                                            "input_rounding", "requantization"};
    return names[static_cast<std::size_t>(part)];
}

INTQ_INLINE ErrorPart OperatorErrorSplit::largest() const {
    return static_cast<ErrorPart>(std::max_element(shares.begin(), shares.end()) - shares.begin());
}

namespace detail {

/// x - y of float32 tensors of one shape, in float64, which is exact except for values of very different sizes.
INTQ_INLINE Tensor exact_difference(const Tensor& x, const Tensor& y) {
    const Tensor a = x.contiguous(), b = y.contiguous();
    Tensor result = Tensor::empty(x.shape(), DType::float64);
    const auto p = a.flat<float>(), q = b.flat<float>();
    const auto to = result.flat<double>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<double>(p[i]) - static_cast<double>(q[i]);
    return result;
}

/// x cut off at the ends of the grid; per tensor.
INTQ_INLINE Tensor clipped(const Tensor& x, const OwnedQParams& grid) {
    const double zero = grid.zero_points.empty() ? 0.0 : static_cast<double>(grid.zero_points[0]);
    const double scale = static_cast<double>(grid.scale());
    const auto lowest = static_cast<float>((static_cast<double>(grid.quant_min) - zero) * scale),
               highest = static_cast<float>((static_cast<double>(grid.quant_max) - zero) * scale);
    Tensor result = x.contiguous().clone();
    for (float& value : result.flat<float>()) value = std::clamp(value, lowest, highest);
    result.set_qparams(grid);
    return result;
}

/// Puts numbers to the parts.
INTQ_INLINE OperatorErrorSplit measure(const ErrorTensors& tensors, const AnalysedOperator& op) {
    OperatorErrorSplit split{tensors.pair, op.mod_name, op.op_type};
    const auto values = [](const Tensor& tensor) { return tensor.flat<double>(); };
    std::array<double, error_part_count> squares{}, products{};
    double total = 0.0;
    for (std::size_t i = 0; i < values(tensors.parts[0]).size(); ++i) {
        double error = 0.0;
        for (const Tensor& part : tensors.parts) error += values(part)[i];
        total += error * error;
        for (std::size_t k = 0; k < error_part_count; ++k) {
            const double part = values(tensors.parts[k])[i];
            squares[k] += part * part;
            products[k] += part * error;
        }
    }
    double signal = 0.0;
    for (const float value : tensors.baseline.flat<float>())
        signal += static_cast<double>(value) * static_cast<double>(value);
    if (!std::isfinite(total) || !std::isfinite(signal))
        throw Error("split_error: " + op.mod_name, "it produces NaN or infinity on this case");
    split.signal = std::sqrt(signal);
    split.total = std::sqrt(total);
    for (std::size_t k = 0; k < error_part_count; ++k) {
        split.norms[k] = std::sqrt(squares[k]);
        split.shares[k] = total > 0.0 ? products[k] / total : 0.0;
    }
    return split;
}

/// Goes through the operators of a prepared model beside a finished run of its exact simulation.
class ErrorSplitter {
public:
    ErrorSplitter(const AnalysedModel& baseline, const std::shared_ptr<quantization::PreparedModel>& model,
                  const kernels::KernelTable& table, const CallInputs& inputs)
        : source_(model, {}),
          root_(*source_.graph()),
          simulation_(*model, table, batch_of(inputs.in_order(source_.input_names()))),
          baseline_run_(baseline, inputs),
          state_(root_),
          sums_(FloatSums::reproducible) {
        for (const LayerPair& pair : pair_layers(baseline.operators(), source_.operators())) {
            if (pair.is_inner) continue;
            partners_[pair.analysis] = pair;
            baseline_run_.expect(pair.baseline);
        }
        std::vector<Tensor> tensors;
        for (const nn::Value& value : inputs.in_order(source_.input_names())) tensors.push_back(value.tensor());
        simulation_.run(tensors);
    }

    std::vector<OperatorErrorSplit> run(const ErrorSplitOptions& options) {
        std::vector<OperatorErrorSplit> splits;
        for (const graph::Node* node : source_.graph()->graph().nodes()) {
            const auto index = source_.operator_at(*node);
            if (!index) continue;
            ErrorTensors tensors;
            if (!split(*node, *index, tensors)) continue;
            splits.push_back(measure(tensors, source_.operators()[*index]));
            if (options.visit) options.visit(tensors);
        }
        return splits;
    }

private:
    /// The values that one operator reads: x1, x2 and x3 of split_error().
    struct Inputs {
        graph::Interpreter::Values arriving, clipped, read;
    };

    static index_t batch_of(const std::vector<nn::Value>& inputs) {
        for (const nn::Value& input : inputs)
            if (!input.is_tensor() || input.tensor().rank() == 0)
                throw Error("split_error: the model is simulated on batches of tensors, given another input");
        if (inputs.empty()) throw Error("split_error: the case has no inputs");
        return inputs.front().tensor().extent(0);
    }

    bool split(const graph::Node& node, std::size_t index, ErrorTensors& tensors) {
        Inputs inputs;
        if (!resolve(node, inputs)) return false;
        nn::Module* const module = graph::module_of(node, root_);
        const graph::Node* const quantizer = quantizer_behind(node, root_) != nullptr ? node.users().front() : nullptr;
        const auto given = simulation_.value_of(quantizer != nullptr ? quantizer->name() : node.name());
        const auto* const prepared = dynamic_cast<quantization::PreparedWeight*>(module);
        Tensor in_float, weight, cut, rounded;
        if (prepared != nullptr) prepared->weight_fake_quant().enable_fake_quant(false);
        const bool is_tensor = evaluate(node, inputs.arriving, in_float);
        if (prepared != nullptr) prepared->weight_fake_quant().enable_fake_quant(true);
        if (!is_tensor || !given) return false;
        weight = in_float;
        if (prepared != nullptr) evaluate(node, inputs.arriving, weight);
        if (dynamic_cast<nn::QuantStub*>(module) != nullptr && given->qparams()) {
            cut = clipped(weight, *given->qparams());
            rounded = *given;
        } else {
            evaluate(node, inputs.clipped, cut);
            evaluate(node, inputs.read, rounded);
        }
        before_quantizer_[&node] = rounded;
        if (dynamic_cast<nn::QuantStub*>(module) != nullptr) before_quantizer_[&node] = in_float;
        const auto partner = partners_.find(index);
        if (partner == partners_.end()) return false;
        tensors.pair = partner->second;
        tensors.baseline = baseline_output(partner->second.baseline);
        if (!tensors.baseline.defined()) return false;
        check_same_shape(source_.operators()[index].mod_name, tensors.baseline, *given);
        tensors.parts = {exact_difference(in_float, tensors.baseline), exact_difference(weight, in_float),
                         exact_difference(cut, weight), exact_difference(rounded, cut),
                         exact_difference(*given, rounded)};
        return true;
    }

    bool resolve(const graph::Node& node, Inputs& inputs) {
        for (const graph::Node* input : node.inputs()) {
            const auto read = value(*input);
            if (!read) return false;
            inputs.read[input] = inputs.clipped[input] = inputs.arriving[input] = *read;
            if (dynamic_cast<const quantization::Quantizer*>(graph::module_of(*input, root_)) == nullptr) continue;
            const auto before = before_quantizer_.find(input->inputs().front());
            const std::optional<Tensor> arriving =
                before != before_quantizer_.end() ? std::optional(before->second) : value(*input->inputs().front());
            if (!arriving || !read->qparams()) continue;
            inputs.clipped[input] = clipped(*arriving, *read->qparams());
            Tensor unrounded = *arriving;
            unrounded.set_qparams(read->qparams());
            inputs.arriving[input] = unrounded;
        }
        return true;
    }

    std::optional<Tensor> value(const graph::Node& node) const {
        if (node.op() == graph::Op::get_attr) return graph::Interpreter::evaluate(node, root_, {}).tensor();
        auto known = simulation_.value_of(node.name());
        if (known) known = known->contiguous();
        return known;
    }

    bool evaluate(const graph::Node& node, const graph::Interpreter::Values& values, Tensor& result) const {
        const nn::Value value = graph::Interpreter::evaluate(node, root_, values);
        if (value.is_tensor()) result = real_values(value.tensor());
        return value.is_tensor();
    }

    Tensor baseline_output(std::size_t index) {
        const std::vector<Tensor>* outputs = baseline_run_.outputs_of(index);
        const Tensor result = outputs == nullptr || outputs->empty() ? Tensor() : outputs->front();
        baseline_run_.release(index);
        return result;
    }

    GraphSource source_;
    graph::GraphModule& root_;
    quantization::ExactSimulation simulation_;
    WaitingRun baseline_run_;
    ValidationScope state_;
    FloatSumsScope sums_;
    std::map<std::size_t, LayerPair> partners_;  // by operator of the prepared model
    std::map<const graph::Node*, Tensor> before_quantizer_;
};

INTQ_INLINE std::string parts_json(const std::array<double, error_part_count>& parts) {
    io::JsonObject object;
    for (std::size_t k = 0; k < error_part_count; ++k)
        object.add(name_of(static_cast<ErrorPart>(k)), numeric_suite::to_json(nn::Value(parts[k])));
    return object.str();
}

}  // namespace detail

INTQ_INLINE std::vector<OperatorErrorSplit> split_error(const AnalysedModel& baseline,
                                                        const std::shared_ptr<quantization::PreparedModel>& model,
                                                        const kernels::KernelTable& table, const CallInputs& inputs,
                                                        const ErrorSplitOptions& options) {
    if (model == nullptr) throw Error("split_error: the model is null");
    return detail::ErrorSplitter(baseline, model, table, inputs).run(options);
}

INTQ_INLINE std::string to_string(const std::vector<OperatorErrorSplit>& splits) {
    using io::Align;
    io::TextTable table({{"mod_name"},
                         {"op_type"},
                         {"error %", Align::right},
                         {"inherited", Align::right},
                         {"weight", Align::right},
                         {"clipping", Align::right},
                         {"rounding", Align::right},
                         {"requantization", Align::right}});
    const auto percent = [](double part) {
        char text[32];
        std::snprintf(text, sizeof text, "%.1f", 100.0 * part);
        return std::string(text);
    };
    for (const OperatorErrorSplit& split : splits) {
        std::vector<std::string> row{split.mod_name, split.op_type,
                                     percent(split.signal > 0.0 ? split.total / split.signal : split.total)};
        for (const double share : split.shares) row.push_back(percent(share));
        table.add_row(std::move(row));
    }
    return table.str();
}

INTQ_INLINE std::string to_json(const OperatorErrorSplit& split) {
    using numeric_suite::to_json;
    return io::JsonObject()
        .add_text("mod_name", split.mod_name)
        .add_text("op_type", split.op_type)
        .add("signal", to_json(nn::Value(split.signal)))
        .add("total", to_json(nn::Value(split.total)))
        .add("norms", detail::parts_json(split.norms))
        .add("shares", detail::parts_json(split.shares))
        .str();
}

INTQ_INLINE std::string to_json(const std::vector<OperatorErrorSplit>& splits) {
    return io::write_json_list(splits, [](const OperatorErrorSplit& split) { return to_json(split); });
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_causes)
#endif  // INTQ_ANALYSIS_CAUSES_ERROR_SPLIT_HPP
