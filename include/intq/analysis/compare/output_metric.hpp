// SPDX-License-Identifier: MIT
//
// The distance between the outputs of two models, in a named metric. Layer: analysis (docs/workflow.md section 6).
#ifndef INTQ_ANALYSIS_COMPARE_OUTPUT_METRIC_HPP
#define INTQ_ANALYSIS_COMPARE_OUTPUT_METRIC_HPP

#include <functional>
#include <string>
#include <vector>

#include "intq/nn/model/module.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/numeric_suite/metrics/tensor_comparison.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// A user's metric of two tensors, the baseline's first.
using CustomMetric = std::function<double(const Tensor& baseline, const Tensor& analysis)>;

/// A metric, and which of its values are bad.
struct OutputMetric {
    std::string name;
    CustomMetric of{};
    bool least_is_worst = false;  // Cosine, SQNR

    bool is_worse(double a, double b) const noexcept { return least_is_worst ? a < b : a > b; }
};

/// Cosine, MSE, L1, KL, SQNR, Atol or Rtol.
///
/// @throws Error for another name, listing these; for "custom", which is a function of the caller
OutputMetric output_metric(const std::string& name);

/// The tensors of a value by their place in it: "0" for a single one, "1", "1.0" inside tuples.
std::vector<nn::Named<Tensor>> named_outputs(const nn::Value& value);

/// The metric of the outputs of two models; with several outputs, of the worst.
///
/// @param output  one of named_outputs(); empty: all of them
/// @throws Error if there is no such output, where the outputs differ in number or size, and where a value or the
///         metric is NaN, naming the output and the model
double compare_outputs(const nn::Value& baseline, const nn::Value& analysis, const OutputMetric& metric,
                       const std::string& output = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_compare)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <utility>

#    include "intq/analysis/models/analysed_model.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE OutputMetric output_metric(const std::string& name) {
    using Comparison = numeric_suite::TensorComparison;
    struct Row {
        const char* name;
        double (Comparison::*of)() const noexcept;
        bool least_is_worst;
    };
    static constexpr Row rows[] = {{"Cosine", &Comparison::cosine, true}, {"MSE", &Comparison::mse, false},
                                   {"L1", &Comparison::l1, false},        {"KL", &Comparison::kl, false},
                                   {"SQNR", &Comparison::sqnr, true},     {"Atol", &Comparison::atol, false},
                                   {"Rtol", &Comparison::rtol, false}};
    std::string names;
    for (const Row& row : rows) {
        if (row.name == name) {
            const auto of = row.of;
            return {name,
                    [of](const Tensor& x, const Tensor& y) {
                        Comparison comparison;
                        comparison.add(x.flat<float>(), y.flat<float>(), x.shape());
                        return (comparison.*of)();
                    },
                    row.least_is_worst};
        }
        names += (names.empty() ? "" : ", ") + std::string(row.name);
    }
    if (name == "custom")
        throw Error(
            "the metric \"custom\" is a function of yours, and none was given: auto_find_bad_case() takes it as "
            "custom_metric_func, of the two tensors of an output; elsewhere the metrics are " +
            names);
    throw Error("there is no metric \"" + name + "\"; the metrics are " + names);
}

namespace detail {

INTQ_INLINE void add_outputs(const std::string& path, const nn::Value& value, std::vector<nn::Named<Tensor>>& out) {
    if (value.is_tensor()) out.push_back({path.empty() ? "0" : path, real_values(value.tensor())});
    if (!value.is_tuple()) return;
    for (std::size_t i = 0; i < value.tuple().size(); ++i)
        add_outputs((path.empty() ? "" : path + ".") + std::to_string(i), value.tuple()[i], out);
}

INTQ_INLINE void check_no_nan(const nn::Named<Tensor>& output, const char* whose) {
    const auto values = output.value.flat<float>();
    if (std::any_of(values.begin(), values.end(), [](float value) { return std::isnan(value); }))
        throw Error(std::string("the output ") + output.name + " of the " + whose + " model",
                    "it holds NaN, and no metric says how bad that is; set_bad_case() takes these inputs, and "
                    "compare_per_layer() names the first layer that produces NaN");
}

}  // namespace detail

INTQ_INLINE std::vector<nn::Named<Tensor>> named_outputs(const nn::Value& value) {
    std::vector<nn::Named<Tensor>> result;
    detail::add_outputs("", value, result);
    return result;
}

INTQ_INLINE double compare_outputs(const nn::Value& baseline, const nn::Value& analysis, const OutputMetric& metric,
                                   const std::string& output) {
    const auto x = named_outputs(baseline), y = named_outputs(analysis);
    if (x.size() != y.size() || x.empty())
        throw Error("the models do not correspond: the baseline has " + std::to_string(x.size()) +
                    " outputs, the analysed model " + std::to_string(y.size()));
    std::vector<std::string> names;
    double worst = 0.0;
    bool any = false;
    for (std::size_t i = 0; i < x.size(); ++i) {
        names.push_back(x[i].name);
        if (!output.empty() && x[i].name != output) continue;
        detail::check_no_nan(x[i], "baseline");
        detail::check_no_nan(y[i], "analysed");
        if (x[i].value.size() != y[i].value.size())
            throw Error("the models do not correspond: the output " + x[i].name + " of the baseline is " +
                        to_string(x[i].value.shape()) + ", the analysed model's " + to_string(y[i].value.shape()));
        const double value = metric.of(x[i].value, y[i].value);
        if (std::isnan(value)) throw Error("the output " + x[i].name, "its " + metric.name + " is NaN");
        if (!any || metric.is_worse(value, worst)) worst = value;
        any = true;
    }
    if (!any)
        throw Error("the model has no output \"" + output + "\"; its outputs are " + nearest_names(output, names));
    return worst;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_compare)
#endif  // INTQ_ANALYSIS_COMPARE_OUTPUT_METRIC_HPP
