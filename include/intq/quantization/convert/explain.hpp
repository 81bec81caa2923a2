// SPDX-License-Identifier: MIT
//
// explain: how each step of a converted model runs, and why not in integers. Layer: quantization
// (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_CONVERT_EXPLAIN_HPP
#define INTQ_QUANTIZATION_CONVERT_EXPLAIN_HPP

#include <algorithm>
#include <string>
#include <vector>

#include "intq/kernels/table/rows.hpp"
#include "intq/program/dropped_channels.hpp"
#include "intq/program/row_plan.hpp"
#include "intq/program/row_summary.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// One step of a converted model.
struct ExplainedStep {
    std::string node;    // of the graph
    std::string module;  // qualified name; "" for a function
    std::string type;
    std::string dtypes;   // "int8 x int8 -> int8": input, weight, output
    std::string kernel;   // "gemm/s8s8s8/per_channel"; "float" or "custom module" where no kernel of the target runs
    std::string backend;  // "" if no kernel runs it
    std::string reason;   // why in float, why no kernel, why another than its kind has, or why a larger table; else ""
    bool is_fallback = false;
};

struct Explanation {
    std::string target, backend;
    std::vector<ExplainedStep> steps;
    program::DroppedWork dropped{};             // what lower() leaves out; empty of a model that is no single program
    std::vector<program::RowSummary> groups{};  // that run row by row; empty of such a model too

    bool has_fallback() const;
    /// Strict: throws the Error that lists every fallback with its reason.
    void check_strict() const;
};

/// Each step with its types, kernel and backend, the channels that the program does without, and its groups of rows.
/// Steps in float carry the reasons that prepare recorded.
///
/// @param table   kernels of the target that the model was converted for, on the backend that is to run
/// @param report  of the prepared model; without it the reasons of fallbacks are general
/// @param rows    with which the model is to be lowered
Explanation explain(const QuantizedGraph& quantized, const kernels::KernelTable& table,
                    const PrepareReport* report = nullptr, const program::RowOptions& rows = {});

/// A table, one row per step; behind it one of the layers that lose channels, and one of groups of rows.
std::string to_string(const Explanation& explanation);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_convert)

#    include <utility>

#    include "intq/arith/block_table.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/text_table.hpp"
#    include "intq/kernels/operators/conv.hpp"
#    include "intq/kernels/operators/unary.hpp"
#    include "intq/quantization/convert/exact_simulation.hpp"
#    include "intq/quantization/convert/lower.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/custom.hpp"
#    include "intq/quantization/operators/float_step.hpp"
#    include "intq/quantization/operators/internal/host_layer.hpp"
#    include "intq/runtime/program.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE bool Explanation::has_fallback() const {
    return std::any_of(steps.begin(), steps.end(), [](const ExplainedStep& step) { return step.is_fallback; });
}

namespace detail {

/// "s8" for int8: a type in labels of kernels.
INTQ_INLINE std::string label_of(DType dtype) {
    const std::string prefix = dtype == DType::float32 ? "f" : dtype == DType::uint8 ? "u" : "s";
    return prefix + std::to_string(8 * size_of(dtype));
}

INTQ_INLINE void explain_conv(const kernels::PackedConv2d& packed, const WeightedStep& weighted, ExplainedStep& step) {
    step.kernel = std::string(packed.is_depthwise ? "depthwise" : "gemm") + "/" + label_of(packed.input_dtype) +
                  label_of(packed.weight_dtype) + label_of(packed.output_dtype) +
                  (weighted.weight_qparams.is_per_channel() ? "/per_channel" : "/per_tensor");
    if (packed.groups > 1 && !packed.is_depthwise)
        step.reason = "a gemm for each of " + std::to_string(packed.groups) +
                      " groups: the depthwise kernel needs as many output channels as groups";
    if (weighted.spread) step.reason = "a transposed convolution runs as a convolution of the image put apart";
}

/// Of a function of int16 codes by knots in blocks (arith/block_table.hpp).
INTQ_INLINE std::string explain_blocks(index_t words) {
    return "its table has " + std::to_string(2 * words) + " bytes: with one of " +
           std::to_string(2 * arith::int16_table_size) + " codes would be more than one off";
}

INTQ_INLINE void explain_kernel(const QuantizedGraph& quantized, const QuantizedNode& node,
                                const kernels::KernelTable& table, ExplainedStep& step) {
    step.backend = table.backend;
    const auto program = lower_step(quantized, node, table, 1);
    for (const runtime::Instruction& instruction : program->program().instructions) {
        const auto* weighted = node.as<WeightedStep>();
        std::string kernel = name_of(instruction.op);
        if (weighted != nullptr && (instruction.op == OpKind::conv2d || instruction.op == OpKind::linear)) {
            ExplainedStep conv;
            explain_conv(instruction.params_as<kernels::ConvParams>().packed, *weighted, conv);
            kernel = conv.kernel;
            step.reason = conv.reason;
        } else {
            kernel += "/" + label_of(quantized.input(node, 0).dtype) + label_of(quantized.output(node).dtype);
            if (instruction.op == OpKind::lookup_table)
                if (const index_t size = instruction.params_as<kernels::LookUpParams>().size;
                    arith::is_block_table_size(size))
                    step.reason = explain_blocks(size);
        }
        step.kernel += (step.kernel.empty() ? "" : ", ") + kernel;
    }
}

INTQ_INLINE std::string dtypes_of(const QuantizedGraph& quantized, const QuantizedNode& node) {
    std::string text;
    for (const int input : node.inputs) {
        const std::string name = name_of(quantized.tensor(input).dtype);
        if (text.find(name) == std::string::npos) text += (text.empty() ? "" : ", ") + name;
    }
    if (const auto* weighted = node.as<WeightedStep>()) text += std::string(" x ") + name_of(weighted->weight.dtype());
    return text + (text.empty() ? "" : " -> ") + name_of(quantized.output(node).dtype);
}

}  // namespace detail

INTQ_INLINE Explanation explain(const QuantizedGraph& quantized, const kernels::KernelTable& table,
                                const PrepareReport* report, const program::RowOptions& rows) {
    Explanation result{quantized.target.name, table.backend, {}, {}, {}};
    for (const QuantizedNode& node : quantized.nodes) {
        ExplainedStep step{node.name, node.module, node.type, detail::dtypes_of(quantized, node), "", "", "", false};
        if (node.as<FloatStep>() != nullptr) {
            step.kernel = "float";
            step.is_fallback = true;
            step.reason = "its input is real: it follows a step in float, or is outside the stubs";
            if (report != nullptr)
                for (const FloatFallback& fallback : report->fallbacks)
                    if (fallback.node == node.name) step.reason = fallback.reason;
        } else if (node.as<ConstantStep>() != nullptr) {
            step.kernel = "constant";
        } else if (node.as<HostLayerStep>() != nullptr) {
            step.kernel = "float";
            step.reason = detail::no_integer_form;
            step.is_fallback = true;
        } else if (node.as<CustomStep>() != nullptr) {
            step.kernel = "custom module";
            step.reason = "the module of a user runs it";
            step.is_fallback = true;
        } else {
            try {
                detail::explain_kernel(quantized, node, table, step);
            } catch (const Error& error) {
                step.kernel = "none";
                step.reason = error.what();
                step.is_fallback = true;
            }
        }
        result.steps.push_back(std::move(step));
    }
    try {
        const LoweredModel lowered = lower(quantized, table, {.rows = rows});
        result.groups = program::row_summaries(lowered.program().program());
        result.dropped = program::dropped_work(lowered.program().program(), lowered.whole_program().program());
    } catch (const Error&) {  // the steps say why
    }
    return result;
}

INTQ_INLINE void Explanation::check_strict() const {
    std::string text;
    for (const ExplainedStep& step : steps)
        if (step.is_fallback)
            text += (text.empty() ? "" : "; ") + step.node + " (" + step.type + "): " + step.kernel + ", because " +
                    step.reason;
    if (!text.empty()) throw Error("strict: not all of the model runs in kernels of the target " + target, text);
}

INTQ_INLINE std::string to_string(const Explanation& explanation) {
    io::TextTable table({{"node"}, {"type"}, {"dtypes"}, {"kernel"}, {"backend"}, {"reason"}});
    for (const ExplainedStep& step : explanation.steps)
        table.add_row({step.node, step.type, step.dtypes, step.kernel, step.backend, step.reason});
    return "target " + explanation.target + ", backend " + explanation.backend + "\n" +
           table.str(io::TableStyle::simple) + to_string(explanation.dropped) + program::to_string(explanation.groups);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_convert)
#endif  // INTQ_QUANTIZATION_CONVERT_EXPLAIN_HPP
