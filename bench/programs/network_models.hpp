// SPDX-License-Identifier: MIT
//
// The networks that network_bench measures, with random weights: those of bench/models, and two of MLPerf Tiny, which
// the tests deploy. A unit of its own, because it includes what these need.
#ifndef INTQ_BENCH_PROGRAMS_NETWORK_MODELS_HPP
#define INTQ_BENCH_PROGRAMS_NETWORK_MODELS_HPP

#include <string>
#include <vector>

#include "intq/nn.hpp"

namespace intq_bench {

struct FloatNetwork {
    intq::nn::ModulePtr model;
    intq::Shape image;  // with a batch of 1
};

struct NetworkModel {
    std::string name;
    FloatNetwork (*make)();
    bool is_large = true;  // it takes about a millisecond or more: two threads may gain
};

/// In the order of the table.
std::vector<NetworkModel> network_models();

}  // namespace intq_bench

#endif  // INTQ_BENCH_PROGRAMS_NETWORK_MODELS_HPP
