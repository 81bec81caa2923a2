// SPDX-License-Identifier: MIT
//
// Other libraries on a network, in child processes: the scripts of bench/peers that take its description.
#ifndef INTQ_BENCH_PROGRAMS_PEER_CHILD_HPP
#define INTQ_BENCH_PROGRAMS_PEER_CHILD_HPP

#include <optional>
#include <string>
#include <vector>

namespace intq_bench {

struct ChildPeer {
    const char* name;
    const char* script;              // in bench/peers
    std::vector<const char*> types;  // of the activations: u8 or s8
};

/// All of them, in the order of the table. Each runs with both types of activations, unless its script says why not.
const std::vector<ChildPeer>& child_peers();

/// Name, version and instruction set; or why it does not run here. INTQ_PYTHON names another interpreter than python3.
///
/// @param isa  what limits it, by a name as --peer-isa takes it; or empty
std::string describe_child(const ChildPeer& peer, const std::string& isa);

/// Median seconds of one image through a network that write_network() wrote.
///
/// @param types    one of the peer's
/// @param isa      as for describe_child()
/// @param seconds  how long to measure
/// @return none where the peer is not installed
/// @throws Error where the script fails otherwise
std::optional<double> child_seconds(const ChildPeer& peer, const std::string& path, const std::string& types,
                                    const std::string& isa, double seconds);

}  // namespace intq_bench

#endif  // INTQ_BENCH_PROGRAMS_PEER_CHILD_HPP
