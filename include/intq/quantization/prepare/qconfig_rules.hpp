// SPDX-License-Identifier: MIT
//
// Rules that add entries to a QConfigMapping: outputs of high precision, sensitive operators in int16. Layer:
// quantization (docs/workflow.md sections 3 and 6).
#ifndef INTQ_QUANTIZATION_PREPARE_QCONFIG_RULES_HPP
#define INTQ_QUANTIZATION_PREPARE_QCONFIG_RULES_HPP

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/qconfig/qconfig.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Sets a qconfig without output quantizer for each conv and linear that feeds only DeQuantStubs: their int32
/// accumulators are the outputs of the model.
///
/// @param model  with its stubs
/// @return the qualified names of these modules
std::vector<std::string> set_high_precision_output(QConfigMapping& mapping, const nn::Module& model,
                                                   const QConfig& qconfig, const graph::TraceOptions& trace = {});

/// A line of a sensitivity list.
struct SensitiveOperator {
    std::string op_name;
    std::string sensitive_type;  // activation, weight, both
    std::string op_type;
    double metric = 0.0;
};

/// Reads lines `op_name sensitive_type op_type metric`, the most sensitive operator first. A first line of titles,
/// lines of dashes and empty lines are skipped. Throws the Error that names file and line for any other.
std::vector<SensitiveOperator> read_sensitivity_list(const std::filesystem::path& path);

/// The number of operators taken from a list, and their qconfigs.
struct SensitiveRule {
    std::size_t top_k = 0;  // the first k of the list
    double ratio = 0.0;     // or this part of it, rounded up; only one of the two is set
    QConfig qconfig = get_default_calib_qconfig(DType::int16, DType::int8);
    bool int16_weights = false;  // for operators whose weight is sensitive; else these are skipped
};

/// Entries by module name for the first operators of a list: the rule's output quantizer if the activation is
/// sensitive, int16 weights if the weight is and the rule allows it. Earlier entries by name are replaced. The last
/// layer keeps its accumulator as output, if it has one (QConfig::keeps_high_precision). Operators that choose or move
/// codes (max pool, flatten) or keep their input's scale on every target (interpolate) are skipped, since they have no
/// quantizer.
///
/// @return the names of the operators that were set
/// @throws Error for a rule without top_k and ratio or with both, and for an unknown sensitive_type; the mapping is as
///         before
std::vector<std::string> set_sensitive_operators(QConfigMapping& mapping, std::span<const SensitiveOperator> list,
                                                 const SensitiveRule& rule);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <algorithm>
#    include <charconv>
#    include <cmath>
#    include <map>
#    include <string_view>
#    include <system_error>
#    include <utility>

#    include "intq/graph/operator_rows.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/file.hpp"
#    include "intq/nn/layers/quantize.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/fuse/fuse_fx.hpp"
#    include "intq/quantization/modules/stubs.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::vector<std::string> set_high_precision_output(QConfigMapping& mapping, const nn::Module& model,
                                                               const QConfig& qconfig,
                                                               const graph::TraceOptions& trace) {
    if (qconfig.output) throw Error("set_high_precision_output: the qconfig has an output quantizer");
    const auto traced = traced_clone(model, trace);
    std::vector<std::string> names;
    for (const graph::Node* node : traced->graph().nodes()) {
        if (dynamic_cast<const nn::Weighted*>(graph::module_of(*node, *traced)) == nullptr || node->users().empty())
            continue;
        const bool alone = std::all_of(node->users().begin(), node->users().end(), [&](const graph::Node* user) {
            return detail::calls<nn::DeQuantStub>(*user, *traced);
        });
        if (!alone) continue;
        mapping.set_module_name(node->target(), qconfig);
        names.push_back(node->target());
    }
    return names;
}

namespace detail {

INTQ_INLINE bool is_sensitive_type(std::string_view type) {
    return type == "activation" || type == "weight" || type == "both";
}

/// Whether operators of a type, module or function, have no quantizer of their own, whatever the target.
INTQ_INLINE bool keeps_codes(std::string_view type) {
    for (const graph::OperatorSpelling& spelling : graph::operator_spellings)
        if (spelling.key == type) {
            type = spelling.name;
            break;
        }
    return type != "relu" && graph::may_keep_grid(graph::numbers_of(type));  // an add has its quantizer behind its relu
}

}  // namespace detail

INTQ_INLINE std::vector<SensitiveOperator> read_sensitivity_list(const std::filesystem::path& path) {
    const std::vector<std::byte> bytes = io::read_file(path);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::vector<SensitiveOperator> list;
    std::size_t number = 0, start = 0;
    while (start < text.size()) {
        const std::size_t end = (std::min)(text.find('\n', start), text.size());
        const std::string line(text.substr(start, end - start));
        start = end + 1;
        ++number;
        const std::vector<std::string> words = io::words_of(line);
        if (words.empty() || line.find_first_not_of(" \t\r-+|=") == std::string::npos) continue;
        if (list.empty() && words[0] == "op_name") continue;
        const auto fail = [&](const std::string& what) {
            throw Error(path.string() + ":" + std::to_string(number), what + ", given " + in_quotes(line));
        };
        if (words.size() != 4) fail("expected op_name, sensitive_type, op_type and metric");
        SensitiveOperator op{words[0], words[1], words[2]};
        if (!detail::is_sensitive_type(op.sensitive_type))
            fail("the sensitive_type must be activation, weight or both");
        const char* last = words[3].data() + words[3].size();
        const auto [stop, error] = std::from_chars(words[3].data(), last, op.metric);
        if (error != std::errc() || stop != last || !std::isfinite(op.metric)) fail("the metric must be a number");
        list.push_back(std::move(op));
    }
    return list;
}

INTQ_INLINE std::vector<std::string> set_sensitive_operators(QConfigMapping& mapping,
                                                             std::span<const SensitiveOperator> list,
                                                             const SensitiveRule& rule) {
    if ((rule.top_k != 0) == (rule.ratio != 0.0) || !(rule.ratio >= 0.0 && rule.ratio <= 1.0))
        throw Error("set_sensitive_operators: give either top_k or a ratio in 0 … 1, given " +
                    std::to_string(rule.top_k) + " and " + std::to_string(rule.ratio));
    for (const SensitiveOperator& op : list)
        if (!detail::is_sensitive_type(op.sensitive_type))
            throw Error("set_sensitive_operators: the sensitive_type of " + op.op_name +
                        " must be activation, weight or both, given " + in_quotes(op.sensitive_type));
    const auto by_ratio = static_cast<std::size_t>(std::ceil(rule.ratio * static_cast<double>(list.size())));
    const std::size_t count = (std::min)(list.size(), rule.top_k != 0 ? rule.top_k : by_ratio);
    std::map<std::string, std::pair<bool, bool>> wanted;  // activation, weight
    std::vector<std::string> names;
    for (const SensitiveOperator& op : list.first(count)) {
        const bool activation = op.sensitive_type != "weight";
        const bool weight = op.sensitive_type != "activation" && rule.int16_weights;
        if ((!activation && !weight) || detail::keeps_codes(op.op_type)) continue;
        if (wanted.count(op.op_name) == 0) names.push_back(op.op_name);
        auto& [has_activation, has_weight] = wanted[op.op_name];
        has_activation = has_activation || activation;
        has_weight = has_weight || weight;
    }
    for (const std::string& name : names) {
        const auto [activation, weight] = wanted.at(name);
        QConfig qconfig = rule.qconfig;
        qconfig.keeps_high_precision = true;
        if (!activation && qconfig.output) qconfig.output->options.observer_options.dtype = DType::int8;
        if (weight && qconfig.weight) qconfig.weight->options.observer_options.dtype = DType::int16;
        mapping.set_module_name(name, qconfig);
    }
    return names;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_QCONFIG_RULES_HPP
