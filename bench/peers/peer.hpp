// SPDX-License-Identifier: MIT
//
// Other libraries' kernels for the same layers, run in the same process. A peer that is not installed is a unit that
// returns nothing and says so.
#ifndef INTQ_BENCH_PEERS_PEER_HPP
#define INTQ_BENCH_PEERS_PEER_HPP

#include <functional>
#include <string>
#include <vector>

#include "support/element_types.hpp"
#include "support/shapes.hpp"

namespace intq_bench {

/// A layer made ready: weights reordered, memory allocated. `run` keeps it alive.
struct PeerCase {
    std::string name;  // the library and the types of its activations
    std::function<void()> run;
};

/// Keeps oneDNN from using more than an instruction set, by a name as --peer-isa takes it; before its first use.
///
/// @throws Error where the name is unknown, or the CPU has less
void limit_onednn(const std::string& isa);

/// Name, version and the instruction set that it uses; or why it does not run here.
std::string describe_onednn();

/// What oneDNN has for a layer: signed and unsigned activations for int8, float32 for itself and for int16, which it
/// does not multiply.
std::vector<PeerCase> onednn_cases(const LayerShape& shape, const ElementTypes& types);

}  // namespace intq_bench

#endif  // INTQ_BENCH_PEERS_PEER_HPP
