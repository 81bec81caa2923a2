// SPDX-License-Identifier: MIT
//
// Planted fault: opens the namespace of another layer and names its detail there.
#ifndef INTQ_GRAPH_PLANTED_HPP
#define INTQ_GRAPH_PLANTED_HPP

#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {
using detail::collect_modules;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_GRAPH_PLANTED_HPP
