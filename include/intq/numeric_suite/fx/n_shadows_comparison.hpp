// SPDX-License-Identifier: MIT
//
// The results of n-shadows by layer and candidate, and their table. Layer: numeric_suite (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_FX_N_SHADOWS_COMPARISON_HPP
#define INTQ_NUMERIC_SUITE_FX_N_SHADOWS_COMPARISON_HPP

#include <string>
#include <vector>

#include "intq/nn/model/value.hpp"
#include "intq/numeric_suite/fx/results.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

/// How far a candidate's layer is from the float one.
struct NShadowsCandidate {
    std::string qconfig_str{};
    std::string comparison_fn_name{};
    std::vector<double> cmp_raw{};  // one for each run
    double cmp_mean = 0;
};
struct NShadowsComparison {
    std::string ref_node_name{};
    std::string ref_node_target_type{};
    std::string fqn{};
    Ordered<NShadowsCandidate> candidates{};  // by number, from "1"
};
using NShadowsComparisons = Ordered<NShadowsComparison>;
std::string to_json(const NShadowsComparison& comparison, TensorJson = TensorJson::shape);
std::string to_json(const NShadowsCandidate& candidate, TensorJson = TensorJson::shape);

/// The results by layer: "subgraph_<m>".
NShadowsComparisons create_results_comparison(const NSResults& results);

/// The means as a table, one row for each layer and one column for each candidate. As in PyTorch, the column "0" is
/// candidate 1; unlike PyTorch's, a candidate without a shadow leaves its cell empty.
std::string comparisons_n_shadows_table(const NSResults& results);
/// Prints it.
void print_comparisons_n_shadows_model(const NSResults& results);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_fx)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdio>
#    include <limits>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/io/json_text.hpp"
#    include "intq/io/text_table.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string to_json(const NShadowsCandidate& candidate, TensorJson tensors) {
    ValueList raw(candidate.cmp_raw.begin(), candidate.cmp_raw.end());
    return io::JsonObject()
        .add_text("qconfig_str", candidate.qconfig_str)
        .add_text("comparison_fn_name", candidate.comparison_fn_name)
        .add("cmp_raw", numeric_suite::to_json(raw, tensors))
        .add("cmp_mean", numeric_suite::to_json(nn::Value(candidate.cmp_mean), tensors))
        .str();
}

INTQ_INLINE std::string to_json(const NShadowsComparison& comparison, TensorJson tensors) {
    return io::JsonObject()
        .add_text("ref_node_name", comparison.ref_node_name)
        .add_text("ref_node_target_type", comparison.ref_node_target_type)
        .add_text("fqn", comparison.fqn)
        .add("candidates", numeric_suite::to_json(comparison.candidates, tensors))
        .str();
}

namespace detail {

/// {"subgraph_<m>", "<n>"} of "subgraph_<m>_<n>".
INTQ_INLINE std::pair<std::string, std::string> parts_of_subgraph(const std::string& name) {
    const auto bar = name.rfind('_');
    if (name.rfind("subgraph_", 0) != 0 || bar == std::string::npos || bar < 9)
        throw Error("create_results_comparison: \"" + name +
                    "\" is not of the form subgraph_<m>_<n>; give the results of extract_results_n_shadows_model()");
    return {name.substr(0, bar), name.substr(bar + 1)};
}

INTQ_INLINE NShadowsCandidate candidate_of(const NSSingleResult& result) {
    NShadowsCandidate candidate{result.qconfig_str.value_or(""), result.comparison_fn_name, {}, 0};
    for (const nn::Value& value : result.comparisons)  // values without a metric have none
        candidate.cmp_raw.push_back(value.is_none() ? std::numeric_limits<double>::quiet_NaN() : value.number());
    for (const double value : candidate.cmp_raw) candidate.cmp_mean += value;
    candidate.cmp_mean /= static_cast<double>(candidate.cmp_raw.size());
    return candidate;
}

/// Numbers as texts of one width whose decimal points are aligned.
INTQ_INLINE std::vector<std::string> aligned_numbers(const std::vector<std::string>& numbers) {
    std::size_t behind = 0;
    const auto digits_behind = [](const std::string& number) {
        const auto point = number.find('.');
        return point == std::string::npos ? 0 : number.size() - point;
    };
    for (const std::string& number : numbers) behind = (std::max)(behind, digits_behind(number));
    std::vector<std::string> result;
    for (const std::string& number : numbers)
        result.push_back(number + std::string(behind - digits_behind(number), ' '));
    return result;
}

INTQ_INLINE std::string six_digits(double number) {
    if (std::isnan(number)) return "nan";  // whatever its sign
    char text[32];
    std::snprintf(text, sizeof(text), "%g", number);
    return text;
}

}  // namespace detail

INTQ_INLINE NShadowsComparisons create_results_comparison(const NSResults& results) {
    NShadowsComparisons comparisons;
    for (const auto& [model, kinds] : results)
        for (const auto& [kind, subgraphs] : kinds)
            for (const auto& [name, list] : subgraphs) {
                const auto [subgraph, number] = detail::parts_of_subgraph(name);
                const NSSingleResult& result = list.at(0);
                NShadowsComparison& comparison = comparisons[subgraph];
                comparison.ref_node_name = result.ref_node_name;
                comparison.ref_node_target_type = result.ref_node_target_type;
                comparison.fqn = result.fqn.value_or("");
                if (number != "0") comparison.candidates[number] = detail::candidate_of(result);
            }
    return comparisons;
}

INTQ_INLINE std::string comparisons_n_shadows_table(const NSResults& results) {
    const NShadowsComparisons comparisons = create_results_comparison(results);
    std::size_t candidates = 0;
    for (const auto& [subgraph, comparison] : comparisons)
        for (const std::string& number : comparison.candidates.keys())
            candidates = (std::max)(candidates, static_cast<std::size_t>(std::stoul(number)));
    std::vector<io::TextTable::Column> columns{{"node_name"}, {"node_type"}, {"fqn"}};
    std::vector<std::vector<std::string>> cells;  // by candidate
    for (std::size_t n = 1; n <= candidates; ++n) {
        columns.push_back({std::to_string(n - 1), io::Align::right});
        std::vector<std::string> numbers;
        for (const auto& [subgraph, comparison] : comparisons) {
            const NShadowsCandidate* candidate = comparison.candidates.find(std::to_string(n));
            numbers.push_back(candidate == nullptr ? "" : detail::six_digits(candidate->cmp_mean));
        }
        cells.push_back(detail::aligned_numbers(numbers));
    }
    io::TextTable table(std::move(columns));
    std::size_t row = 0;
    for (const auto& [subgraph, comparison] : comparisons) {
        std::vector<std::string> line{comparison.ref_node_name, comparison.ref_node_target_type, comparison.fqn};
        for (const auto& column : cells) line.push_back(column[row]);
        table.add_row(std::move(line));
        ++row;
    }
    return table.str(io::TableStyle::simple);
}

INTQ_INLINE void print_comparisons_n_shadows_model(const NSResults& results) {
    std::fputs(comparisons_n_shadows_table(results).c_str(), stdout);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

#endif  // INTQ_DEFINES(numeric_suite_fx)
#endif  // INTQ_NUMERIC_SUITE_FX_N_SHADOWS_COMPARISON_HPP
