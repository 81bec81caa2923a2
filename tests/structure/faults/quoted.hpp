// SPDX-License-Identifier: MIT
//
// Planted, and right: nn::Module, intq::graph::Node and "observers::" stand in comments and literals only.
#ifndef INTQ_CORE_PLANTED_HPP
#define INTQ_CORE_PLANTED_HPP

#include "intq/core/dtype.hpp"  // not "intq/nn/model/module.hpp"

/* #include "intq/graph/node.hpp"
   improve::adaround */
#define INTQ_PLANTED_TEXT "nn::Module \" improve::adaround"
#define INTQ_PLANTED_RAW R"(training::Trainer " " simd::avx2)"

namespace intq {
namespace planted {
struct nn {
    static constexpr char separated = 1'000 > 0 ? '"' : '\'';  // quantization::prepare '
    static constexpr int training = 0x1'f;
};
}  // namespace planted
inline constexpr char planted_separated = planted::nn::separated;
}  // namespace intq

#endif  // INTQ_CORE_PLANTED_HPP
