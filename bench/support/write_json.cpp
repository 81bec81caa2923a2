// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <fstream>

#include "intq/io/error.hpp"
#include "results.hpp"

namespace intq_bench {

namespace {

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        if (static_cast<unsigned char>(c) < ' ') {
            result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
            result += c;
        }
    }
    return result + '"';
}

std::string number(double value) { return fmt::format("{:.6g}", value); }
std::string number(const std::optional<double>& value) { return value ? number(*value) : "null"; }

std::string joined(const std::vector<std::string>& parts, const char* separator) {
    return fmt::format("{}", fmt::join(parts, separator));
}

std::string text_of(const Machine& machine) {
    std::vector<std::string> peaks, memory;
    for (const PeakRate& rate : machine.peaks)
        peaks.push_back(
            rate.skipped.empty()
                ? fmt::format(R"({{"name": {}, "gops": {}}})", quoted(rate.name), number(rate.operations * 1e-9))
                : fmt::format(R"({{"name": {}, "skipped": {}}})", quoted(rate.name), quoted(rate.skipped)));
    for (const MemoryLevel& level : machine.memory)
        memory.push_back(fmt::format(
            R"({{"name": {}, "bytes": {}, "working_set": {}, "read_gbs": {}, "copied_gbs": {}}})", quoted(level.name),
            level.size, level.working_set, number(level.read * 1e-9), number(level.copy * 1e-9)));
    return fmt::format(
        "{{\n    \"cpu\": {}, \"cpu_key\": {}, \"compiler\": {},\n    \"peaks\": [\n      {}\n    ],\n"
        "    \"memory\": [\n      {}\n    ]\n  }}",
        quoted(machine.cpu), quoted(machine.cpu_key), quoted(machine.compiler), joined(peaks, ",\n      "),
        joined(memory, ",\n      "));
}

std::string text_of(const Row& row) {
    std::vector<std::string> peers;
    for (const PeerTime& peer : row.peers)
        peers.push_back(fmt::format(R"({{"name": {}, "us": {}, "ratio": {}}})", quoted(peer.name),
                                    number(peer.seconds * 1e6), number(peer.ratio)));
    std::string text = fmt::format(R"({{"shapes": {}, "label": {}, "depthwise": {}, "operations": {}, "bytes": {}, )",
                                   quoted(row.group), quoted(row.label()), row.is_depthwise, number(row.operations),
                                   number(row.bytes));
    if (row.refused.empty()) {
        text +=
            fmt::format(R"("us": {}, "spread": {}, "gops": {}, "peak": {}, "part_of_peak": {}, "part_of_limit": {}, )",
                        number(row.seconds * 1e6), number(row.spread), number(row.operations / row.seconds * 1e-9),
                        quoted(row.peak), number(row.part_of_peak), number(row.part_of_limit));
    } else {
        text += fmt::format(R"("refused": {}, )", quoted(row.refused));
    }
    if (row.arena) text += fmt::format(R"("arena_bytes": {:.0f}, )", *row.arena);
    return text + fmt::format("\"peers\": [{}]}}", joined(peers, ", "));
}

}  // namespace

void write_json(const Results& results, const std::string& path) {
    std::vector<std::string> rows, peers;
    for (const Row& row : results.rows) rows.push_back(text_of(row));
    for (const std::string& peer : results.peers) peers.push_back(quoted(peer));
    std::ofstream file(path);
    file << fmt::format("{{\n  \"machine\": {},\n  \"peers\": [{}],\n  \"rows\": [\n    {}\n  ]\n}}\n",
                        text_of(results.machine), joined(peers, ", "), joined(rows, ",\n    "));
    if (!file.flush()) throw intq::Error(path, "cannot be written");
}

}  // namespace intq_bench
