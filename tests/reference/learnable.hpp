// SPDX-License-Identifier: MIT
//
// Oracle: gradients of one element under LSQ, in the words of PyTorch's operator, with the C library's fma.
// Layer: tests/reference (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_LEARNABLE_HPP
#define INTQ_TESTS_REFERENCE_LEARNABLE_HPP

#include "quantize.hpp"

namespace intq_reference {

struct LearnableTerms {
    float x, scale, zero_point;
};

/// @param q  its zero point is the rounded one
inline LearnableTerms learnable_backward(float x, float gradient, const QParams& q, float grad_factor,
                                         const QuantizePolicy& policy = {}) {
    LearnableTerms terms{fake_quantize_backward(x, gradient, q, true, policy), 0.0F, 0.0F};
    const double code = quantize_unclamped(x, q, policy);
    const float from_zero = static_cast<float>(quantize(x, q, policy) - q.zero_point);
    if (code >= static_cast<double>(q.qmin) && code <= static_cast<double>(q.qmax)) {
        const float residue = std::fma(from_zero, q.scale, -x);
        terms.scale = fmul(fmul(fmul(gradient, residue), fdiv(1.0F, q.scale)), grad_factor);
    } else {
        terms.scale = fmul(fmul(gradient, from_zero), grad_factor);
        terms.zero_point = fmul(fmul(-gradient, q.scale), grad_factor);
    }
    return terms;
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_LEARNABLE_HPP
