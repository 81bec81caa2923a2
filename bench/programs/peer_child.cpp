// SPDX-License-Identifier: MIT
#include "peer_child.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "intq/io/error.hpp"

namespace intq_bench {

namespace {

/// What ends a script that lacks a package.
constexpr int skipped = 77;

struct Finished {
    int status;
    std::string text;
};

/// A word of a shell's command line that means itself.
std::string quoted(const std::string& word) {
    std::string result = "'";
    for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return result + "'";
}

Finished run_script(const ChildPeer& peer, const std::string& isa, const std::string& arguments) {
    const char* const python = std::getenv("INTQ_PYTHON");
    const std::string command = quoted(python != nullptr ? python : "python3") + " " +
                                quoted(std::string(INTQ_BENCH_DIR "/peers/") + peer.script) +
                                (isa.empty() ? "" : " --isa " + quoted(isa)) + " " + arguments;
    std::FILE* const pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) throw intq::Error(command, "cannot be started");
    Finished finished{0, {}};
    std::array<char, 256> buffer;
    for (std::size_t size; (size = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
        finished.text.append(buffer.data(), size);
    const int status = pclose(pipe);
    finished.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    while (!finished.text.empty() && finished.text.back() == '\n') finished.text.pop_back();
    return finished;
}

}  // namespace

const std::vector<ChildPeer>& child_peers() {
    static const std::vector<ChildPeer> peers{{"ONNX Runtime", "onnxruntime_network.py", {"u8", "s8"}},
                                              {"OpenVINO", "openvino_network.py", {"u8"}},
                                              {"LiteRT", "litert_network.py", {"s8"}}};
    return peers;
}

std::string describe_child(const ChildPeer& peer, const std::string& isa) {
    const Finished finished = run_script(peer, isa, "--version 2>/dev/null");
    if (finished.status == 0) return finished.text;
    return std::string(peer.name) + ": skipped, " +
           (finished.status == skipped ? finished.text : std::string("its script does not run (see INTQ_PYTHON)"));
}

std::optional<double> child_seconds(const ChildPeer& peer, const std::string& path, const std::string& types,
                                    const std::string& isa, double seconds) {
    const Finished finished = run_script(peer, isa, fmt::format("{} {} {}", quoted(path), types, seconds));
    if (finished.status == skipped || finished.status == 127) return std::nullopt;
    if (finished.status != 0)
        throw intq::Error(path, std::string(peer.name) + "'s script ended with an error: " + finished.text);
    return std::stod(finished.text) * 1e-6;
}

}  // namespace intq_bench
