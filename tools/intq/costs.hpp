// SPDX-License-Identifier: MIT
//
// What the layers of a model cost in each type, for the choice of types within a budget.
#ifndef INTQ_TOOLS_INTQ_COSTS_HPP
#define INTQ_TOOLS_INTQ_COSTS_HPP

#include <span>
#include <vector>

#include "options.hpp"

namespace intq_tool {

/// Runs the model in int8 and in int16, in turns, one sample at a time.
///
/// @param sensitivity  of QuantAnalysis, whose metric grows with the loss
/// @return seconds are medians; 0 for a layer that is part of another one's instruction
std::vector<intq::improve::LayerCosts> measure_costs(
    const intq::graph::GraphModule& model, const Tensor& samples, const QuantizeOptions& options,
    std::span<const intq::quantization::SensitiveOperator> sensitivity);

}  // namespace intq_tool

#endif  // INTQ_TOOLS_INTQ_COSTS_HPP
