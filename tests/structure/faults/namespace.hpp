// SPDX-License-Identifier: MIT
//
// Planted fault: names a room and includes it by another room's header only.
#ifndef INTQ_GRAPH_PLANTED_HPP
#define INTQ_GRAPH_PLANTED_HPP

#include "intq/core/abi.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {
inline observers::Planted planted(nn::Planted nn);
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_GRAPH_PLANTED_HPP
