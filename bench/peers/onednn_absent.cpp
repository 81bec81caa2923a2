// SPDX-License-Identifier: MIT
#include "peer.hpp"

namespace intq_bench {

std::string describe_onednn() {
    return "oneDNN: skipped, neither version 2 nor 3 was found when the bench was built (Debian: libdnnl-dev)";
}

void limit_onednn(const std::string&) {}

std::vector<PeerCase> onednn_cases(const LayerShape&, const ElementTypes&) { return {}; }
std::vector<PeerCase> onednn_streaming_cases(StreamingOp, const StreamingShape&) { return {}; }

std::vector<PeerCase> onednn_networks(const Network&) { return {}; }

}  // namespace intq_bench
