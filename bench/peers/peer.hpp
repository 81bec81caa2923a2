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
#include "support/network.hpp"
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

/// A streaming kernel on images of int8 codes, channels last; window and output count for pooling alone.
enum class StreamingOp { quantize, dequantize, add, max_pool, avg_pool };
struct StreamingShape {
    intq::index_t batch = 1;
    intq::index_t channels = 1;
    intq::Size2d in{1, 1};
    intq::Window2d window{};
};

/// oneDNN's primitive for it: a reorder between float32 and int8 with one scale, a binary add with two, a pooling.
std::vector<PeerCase> onednn_streaming_cases(StreamingOp op, const StreamingShape& shape);

/// The chain of oneDNN's primitives for a network with random weights: unsigned activations, then signed ones. Layers
/// are fused as ours (bias, scales, add, activation), weights are reordered and memory is allocated beforehand. The
/// float image is quantized and the logits are float, as ours.
std::vector<PeerCase> onednn_networks(const Network& network);

}  // namespace intq_bench

#endif  // INTQ_BENCH_PEERS_PEER_HPP
