// SPDX-License-Identifier: MIT
//
// Planted fault: reaches a room below it by a forward declaration.
#ifndef INTQ_GRAPH_PLANTED_HPP
#define INTQ_GRAPH_PLANTED_HPP

namespace intq::improve {
struct Planted;
}  // namespace intq::improve

#endif  // INTQ_GRAPH_PLANTED_HPP
