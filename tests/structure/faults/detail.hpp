// SPDX-License-Identifier: MIT
//
// Planted fault: names the detail of another layer, through an alias.
#ifndef INTQ_GRAPH_PLANTED_HPP
#define INTQ_GRAPH_PLANTED_HPP

#include "intq/nn/float_operators/axes.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {
namespace axes = nn::float_operators::detail;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_GRAPH_PLANTED_HPP
