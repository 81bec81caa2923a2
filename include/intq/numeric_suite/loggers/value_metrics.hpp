// SPDX-License-Identifier: MIT
//
// Metrics of layer outputs: tensors, codes, tuples, lists. Layer: numeric_suite (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_LOGGERS_VALUE_METRICS_HPP
#define INTQ_NUMERIC_SUITE_LOGGERS_VALUE_METRICS_HPP

#include <functional>
#include <span>

#include "intq/nn/model/value.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

/// How far a value is from its reference; any function of two values.
using ComparisonFunction = std::function<nn::Value(const nn::Value& x, const nn::Value& y)>;

/// A metric of numbers, such as compute_mse.
using Metric = float (*)(std::span<const float> x, std::span<const float> y);

/// A metric of two values.
///
/// Codes become real values first. For two tuples it returns the list of their items' metrics, as many as the shorter
/// one has. Shapes may broadcast. Values that are then not float32 have no metric: the result is none.
///
/// @throws Error for shapes that do not broadcast, and for a tuple beside a tensor
///
/// Source   torch.ao.ns.fx.utils.maybe_dequantize_first_two_tensor_args_and_handle_tuples
nn::Value compare_values(Metric metric, const nn::Value& x, const nn::Value& y);

/// The same as a ComparisonFunction.
ComparisonFunction comparison_of(Metric metric);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_loggers)

#    include <algorithm>
#    include <cstddef>
#    include <string>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/elementwise.hpp"
#    include "intq/numeric_suite/loggers/results.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// A tensor, broadcast to the common shape of both.
INTQ_INLINE Tensor broadcast_with(const Tensor& x, const Tensor& other) {
    if (x.shape() == other.shape()) return x.contiguous();
    try {
        return nn::float_operators::add(x.contiguous(), Tensor::zeros(other.shape()));
    } catch (const Error&) {
        throw Error("a metric compares tensors of one shape, or of shapes that broadcast, given " +
                    to_string(x.shape()) + " and " + to_string(other.shape()));
    }
}

}  // namespace detail

INTQ_INLINE nn::Value compare_values(Metric metric, const nn::Value& x, const nn::Value& y) {
    if (x.is_tuple() && y.is_tuple()) {
        nn::Value::Tuple items;
        for (std::size_t i = 0; i < (std::min)(x.tuple().size(), y.tuple().size()); ++i)
            items.push_back(compare_values(metric, x.tuple()[i], y.tuple()[i]));
        return items;
    }
    if (!x.is_tensor() || !y.is_tensor())
        throw Error(std::string("a metric compares two tensors or two tuples, given ") + x.kind_name() + " and " +
                    y.kind_name());
    const Tensor a = dequantized(x).tensor(), b = dequantized(y).tensor();
    if (a.dtype() != DType::float32 || b.dtype() != DType::float32) return {};
    const Tensor p = detail::broadcast_with(a, b), q = detail::broadcast_with(b, a);
    return metric(p.flat<float>(), q.flat<float>());
}

INTQ_INLINE ComparisonFunction comparison_of(Metric metric) {
    return [metric](const nn::Value& x, const nn::Value& y) { return compare_values(metric, x, y); };
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

#endif  // INTQ_DEFINES(numeric_suite_loggers)
#endif  // INTQ_NUMERIC_SUITE_LOGGERS_VALUE_METRICS_HPP
