// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "intq/io/text_table.hpp"
#include "results.hpp"

namespace intq_bench {

namespace {

using intq::io::Align;
using intq::io::TableStyle;
using intq::io::TextTable;

/// In the order of their first appearance.
template <class Get> std::vector<std::string> distinct(const std::vector<const Row*>& rows, Get&& get) {
    std::vector<std::string> found;
    for (const Row* row : rows)
        for (const std::string& text : get(*row))
            if (std::find(found.begin(), found.end(), text) == found.end()) found.push_back(text);
    return found;
}

std::vector<std::string> peer_names(const Row& row) {
    std::vector<std::string> names;
    for (const PeerTime& peer : row.peers) names.push_back(peer.name);
    return names;
}

const PeerTime* find_peer(const Row& row, const std::string& name) {
    for (const PeerTime& peer : row.peers)
        if (peer.name == name) return &peer;
    return nullptr;
}

std::string percent(const std::optional<double>& part) {
    return part ? fmt::format("{:.1f}", *part * 100.0) : std::string("-");
}
std::string microseconds(double seconds) { return fmt::format("{:.{}f}", seconds * 1e6, seconds < 1e-5 ? 3 : 1); }

std::vector<std::string> cells_of(const Row& row, const std::vector<std::string>& peers, bool has_arenas) {
    const bool measured = row.seconds > 0.0;
    std::vector<std::string> cells{row.layer,
                                   row.target,
                                   row.backend,
                                   measured ? microseconds(row.seconds) : "-",
                                   measured ? percent(row.spread) : "-",
                                   measured ? fmt::format("{:.1f}", row.operations / row.seconds * 1e-9) : "-",
                                   percent(row.part_of_peak),
                                   percent(row.part_of_limit)};
    if (has_arenas) cells.push_back(row.arena ? fmt::format("{:.0f}", *row.arena) : "-");
    for (const std::string& name : peers) {
        const PeerTime* const peer = find_peer(row, name);
        cells.push_back(peer != nullptr ? microseconds(peer->seconds) : "-");
        cells.push_back(peer != nullptr && peer->ratio ? fmt::format("{:.2f}", *peer->ratio) : "-");
    }
    return cells;
}

void print_table(const std::vector<const Row*>& rows) {
    const std::vector<std::string> peers = distinct(rows, peer_names);
    std::vector<TextTable::Column> columns{{"layer"},
                                           {"target"},
                                           {"backend"},
                                           {"us", Align::right},
                                           {"+-%", Align::right},
                                           {"GOP/s", Align::right},
                                           {"% peak", Align::right},
                                           {"% limit", Align::right}};
    const bool has_arenas =
        std::any_of(rows.begin(), rows.end(), [](const Row* row) { return row->arena.has_value(); });
    if (has_arenas) columns.push_back({"arena bytes", Align::right});
    for (const std::string& name : peers) {
        columns.push_back({name + " us", Align::right});
        columns.push_back({"ratio", Align::right});
    }
    TextTable table(columns);
    for (const Row* row : rows) table.add_row(cells_of(*row, peers, has_arenas));
    fmt::print("{}\n", table.str(TableStyle::simple));
}

/// Each reason once, with the kernels and layers that it concerns.
void print_refusals(const std::vector<const Row*>& rows) {
    std::vector<const Row*> refused;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(refused),
                 [](const Row* row) { return !row->refused.empty(); });
    for (const std::string& reason : distinct(refused, [](const Row& row) { return std::vector{row.refused}; })) {
        std::vector<const Row*> of_reason;
        std::copy_if(refused.begin(), refused.end(), std::back_inserter(of_reason),
                     [&](const Row* row) { return row->refused == reason; });
        const auto kernels =
            distinct(of_reason, [](const Row& row) { return std::vector{row.target + "/" + row.backend}; });
        const auto layers = distinct(of_reason, [](const Row& row) { return std::vector{row.layer}; });
        fmt::print("refused: {}\n  by {}\n  {} layers: {}\n", reason, fmt::join(kernels, ", "), layers.size(),
                   fmt::join(layers, " "));
    }
}

struct Mean {
    double logarithms = 0.0, least = 0.0;
    int count = 0;

    void add(double value) {
        least = count == 0 ? value : std::min(least, value);
        logarithms += std::log(value);
        ++count;
    }
    std::string text(double factor, int digits) const {
        if (count == 0) return "-";
        return fmt::format("{:.{}f} (least {:.{}f})", factor * std::exp(logarithms / count), digits, factor * least,
                           digits);
    }
};

/// One line of the summary.
std::vector<std::string> summary_of(const std::string& title, const std::vector<const Row*>& rows,
                                    const std::vector<std::string>& peers) {
    Mean peak, limit;
    std::vector<Mean> ratios(peers.size());
    for (const Row* row : rows) {
        if (row->part_of_peak) peak.add(*row->part_of_peak);
        if (row->part_of_limit) limit.add(*row->part_of_limit);
        for (std::size_t i = 0; i < peers.size(); ++i)
            if (const PeerTime* const peer = find_peer(*row, peers[i]); peer != nullptr && peer->ratio)
                ratios[i].add(*peer->ratio);
    }
    std::vector<std::string> cells{title, fmt::format("{}", rows.size()), peak.text(100.0, 1), limit.text(100.0, 1)};
    for (const Mean& ratio : ratios) cells.push_back(ratio.text(1.0, 2));
    return cells;
}

std::string kind_of(const Row& row) {
    return fmt::format("{}{}/{}/{}", row.is_depthwise ? "depthwise " : "", row.types, row.target, row.backend);
}

}  // namespace

void fill(Row& row, const Measurement& own, const PeakLoop* peak) {
    row.seconds = own.median_seconds();
    row.spread = own.spread();
    if (peak == nullptr) return;
    row.peak = peak->name;
    row.part_of_peak = own.part_of_peak(row.operations);
}

Counters counters_of(const Row& row) {
    Counters counters;
    if (row.operations > 0.0) counters.emplace_back("GOP/s", row.operations / row.seconds * 1e-9);
    counters.emplace_back("spread", row.spread);
    if (row.part_of_peak) counters.emplace_back("part of peak", *row.part_of_peak);
    if (row.part_of_limit) counters.emplace_back("part of limit", *row.part_of_limit);
    if (row.arena) counters.emplace_back("arena bytes", *row.arena);
    for (const PeerTime& peer : row.peers)
        if (peer.ratio) counters.emplace_back(peer.name + " / ours", *peer.ratio);
    return counters;
}

void print_legend() {
    fmt::print(
        "\n"
        "us       median time of one call\n"
        "+-%      from the 10 % to the 90 % quantile of the samples, of the median\n"
        "% peak   of the backend's dot product, measured just before each sample\n"
        "% limit  of what the shape allows: bench/support/limits.hpp; a vector times a matrix: reading the matrix\n"
        "ratio    the other library's time / ours, median over rounds in which both ran\n");
}

void print_group(const Results& results, const std::string& group) {
    std::vector<const Row*> rows;
    for (const Row& row : results.rows)
        if (row.group == group) rows.push_back(&row);
    for (const std::string& types : distinct(rows, [](const Row& row) { return std::vector{row.types}; })) {
        std::vector<const Row*> of_types;
        std::copy_if(rows.begin(), rows.end(), std::back_inserter(of_types),
                     [&](const Row* row) { return row->types == types; });
        fmt::print("\n{}, {}\n\n", group, types);
        std::vector<const Row*> with_times;
        std::copy_if(of_types.begin(), of_types.end(), std::back_inserter(with_times),
                     [](const Row* row) { return row->refused.empty() || !row->peers.empty(); });
        if (!with_times.empty()) print_table(with_times);
        print_refusals(of_types);
    }
    std::fflush(stdout);
}

void print_summary(const Results& results) {
    std::vector<const Row*> rows;
    for (const Row& row : results.rows)
        if (row.refused.empty()) rows.push_back(&row);
    if (rows.empty()) return;
    const std::vector<std::string> peers = distinct(rows, peer_names);
    std::vector<TextTable::Column> columns{
        {"geometric mean"}, {"layers", Align::right}, {"% peak", Align::right}, {"% limit", Align::right}};
    for (const std::string& name : peers) columns.push_back({name + " / ours", Align::right});
    TextTable table(columns);
    for (const std::string& kind : distinct(rows, [](const Row& row) { return std::vector{kind_of(row)}; })) {
        std::vector<const Row*> of_kind;
        std::copy_if(rows.begin(), rows.end(), std::back_inserter(of_kind),
                     [&](const Row* row) { return kind_of(*row) == kind; });
        table.add_row(summary_of(kind, of_kind, peers));
    }
    fmt::print("\n{}", table.str(TableStyle::simple));
    std::fflush(stdout);
}

}  // namespace intq_bench
