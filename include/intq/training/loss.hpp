// SPDX-License-Identifier: MIT
//
// Losses and their gradients: cross-entropy, mean squared error, distillation. Layer: training.
#ifndef INTQ_TRAINING_LOSS_HPP
#define INTQ_TRAINING_LOSS_HPP

#include <span>

#include "intq/core/dtype.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// A loss, and its gradient for its input tensor.
struct Loss {
    double value = 0.0;
    Tensor gradient{};
};

/// Mean cross-entropy of rows of logits.
///
///     p = softmax(logits[n]),  t[k] = (1 - smoothing)·[k == labels[n]] + smoothing / K
///     value = 1/N · sum_n sum_k -t[k] · log p[k];   gradient[n, k] = (p[k] - t[k]) / N
///
/// @param logits  (N, K)
/// @param labels  (N), each in [0, K)
///
/// Result   in double, the gradient rounded once
Loss cross_entropy(const Tensor& logits, std::span<const index_t> labels, double smoothing = 0.0);

/// Mean of (x - target)² over all elements.
Loss mse_loss(const Tensor& x, const Tensor& target);

/// The distance of a student from its teacher.
///
///     value = T² / N · sum_n KL(softmax(teacher[n] / T) || softmax(student[n] / T))
///
/// @param student, teacher  logits (N, K)
/// @param temperature       T, positive
///
/// Source   Hinton, Vinyals, Dean 2015
Loss distillation_loss(const Tensor& student, const Tensor& teacher, double temperature = 1.0);

/// a_weight · a + b_weight · b, for losses of the same tensor.
Loss combine(const Loss& a, double a_weight, const Loss& b, double b_weight);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training)

#    include <cmath>
#    include <cstddef>
#    include <string>
#    include <vector>

#    include "intq/io/error.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void check_logits(const Tensor& logits, const char* loss) {
    if (logits.rank() != 2 || logits.size() == 0)
        throw Error(loss, "the logits have shape " + to_string(logits.shape()) + ", expected (N, classes)");
}

INTQ_INLINE void check_same_shape(const Tensor& a, const Tensor& b, const char* loss) {
    if (!(a.shape() == b.shape()) || a.size() == 0)
        throw Error(loss, "the shapes " + to_string(a.shape()) + " and " + to_string(b.shape()) +
                              " must be equal and not empty");
}

/// log softmax(row / temperature)
INTQ_INLINE std::vector<double> log_softmax(std::span<const float> row, double temperature) {
    std::vector<double> result(row.size());
    double largest = -HUGE_VAL, sum = 0;
    for (const float x : row) largest = std::fmax(largest, static_cast<double>(x) / temperature);
    for (const float x : row) sum += std::exp(static_cast<double>(x) / temperature - largest);
    for (std::size_t k = 0; k < row.size(); ++k)
        result[k] = static_cast<double>(row[k]) / temperature - largest - std::log(sum);
    return result;
}

INTQ_INLINE std::span<const float> row_of(const Tensor& matrix, index_t row) {
    const auto width = static_cast<std::size_t>(matrix.extent(1));
    return matrix.flat<float>().subspan(static_cast<std::size_t>(row) * width, width);
}

}  // namespace detail

INTQ_INLINE Loss cross_entropy(const Tensor& logits, std::span<const index_t> labels, double smoothing) {
    detail::check_logits(logits, "cross_entropy");
    const index_t samples = logits.extent(0), classes = logits.extent(1);
    if (static_cast<index_t>(labels.size()) != samples)
        throw Error("cross_entropy",
                    std::to_string(labels.size()) + " labels given for " + std::to_string(samples) + " rows of logits");
    if (!(smoothing >= 0.0 && smoothing <= 1.0))
        throw Error("cross_entropy", "label smoothing must be in [0, 1], given " + std::to_string(smoothing));
    Loss loss{0.0, Tensor::empty(logits.shape())};
    const auto gradient = loss.gradient.flat<float>();
    const double share = 1.0 / static_cast<double>(samples);
    for (index_t n = 0; n < samples; ++n) {
        const index_t label = labels[static_cast<std::size_t>(n)];
        if (label < 0 || label >= classes)
            throw Error("cross_entropy", "the label of sample " + std::to_string(n) + " is " + std::to_string(label) +
                                             ", expected 0 to " + std::to_string(classes - 1));
        const std::vector<double> logs = detail::log_softmax(detail::row_of(logits, n), 1.0);
        for (index_t k = 0; k < classes; ++k) {
            const double log_p = logs[static_cast<std::size_t>(k)];
            const double target = (k == label ? 1.0 - smoothing : 0.0) + smoothing / static_cast<double>(classes);
            if (target != 0.0) loss.value -= share * target * log_p;
            gradient[static_cast<std::size_t>(n * classes + k)] =
                static_cast<float>(share * (std::exp(log_p) - target));
        }
    }
    return loss;
}

INTQ_INLINE Loss mse_loss(const Tensor& x, const Tensor& target) {
    detail::check_same_shape(x, target, "mse_loss");
    const Tensor values = x.contiguous(), targets = target.contiguous();
    Loss loss{0.0, Tensor::empty(x.shape())};
    const auto gradient = loss.gradient.flat<float>();
    const double share = 1.0 / static_cast<double>(x.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) {
        const double error =
            static_cast<double>(values.flat<float>()[i]) - static_cast<double>(targets.flat<float>()[i]);
        loss.value += share * error * error;
        gradient[i] = static_cast<float>(2.0 * share * error);
    }
    return loss;
}

INTQ_INLINE Loss distillation_loss(const Tensor& student, const Tensor& teacher, double temperature) {
    detail::check_logits(student, "distillation_loss");
    detail::check_same_shape(student, teacher, "distillation_loss");
    if (!(temperature > 0.0))
        throw Error("distillation_loss", "the temperature must be positive, given " + std::to_string(temperature));
    Loss loss{0.0, Tensor::empty(student.shape())};
    const index_t samples = student.extent(0), classes = student.extent(1);
    const double share = 1.0 / static_cast<double>(samples);
    for (index_t n = 0; n < samples; ++n) {
        const std::vector<double> log_p = detail::log_softmax(detail::row_of(student, n), temperature);
        const std::vector<double> log_t = detail::log_softmax(detail::row_of(teacher, n), temperature);
        for (std::size_t k = 0; k < log_p.size(); ++k) {
            const double target = std::exp(log_t[k]);
            if (target > 0.0) loss.value += temperature * temperature * share * target * (log_t[k] - log_p[k]);
            loss.gradient.flat<float>()[static_cast<std::size_t>(n * classes) + k] =
                static_cast<float>(temperature * share * (std::exp(log_p[k]) - target));
        }
    }
    return loss;
}

INTQ_INLINE Loss combine(const Loss& a, double a_weight, const Loss& b, double b_weight) {
    detail::check_same_shape(a.gradient, b.gradient, "combine");
    Loss loss{a_weight * a.value + b_weight * b.value, Tensor::empty(a.gradient.shape())};
    const auto gradient = loss.gradient.flat<float>();
    for (std::size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = static_cast<float>(a_weight * static_cast<double>(a.gradient.flat<float>()[i]) +
                                         b_weight * static_cast<double>(b.gradient.flat<float>()[i]));
    return loss;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training)
#endif  // INTQ_TRAINING_LOSS_HPP
