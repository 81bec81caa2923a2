// SPDX-License-Identifier: MIT
//
// Whole networks through a program, one image at a time: on one and on two threads, beside oneDNN's chain of the same
// layers in the same process in turns, and beside ONNX Runtime in child processes between them.
#include <fmt/format.h>

#include <cstdio>
#include <deque>
#include <filesystem>
#include <regex>
#include <thread>

#include "intq/io/text_table.hpp"
#include "intq/tensor/thread_pool.hpp"
#include "models/mobilenet_v2.hpp"
#include "models/resnet18.hpp"
#include "peers/peer.hpp"
#include "programs/lowered_network.hpp"
#include "programs/network_table.hpp"
#include "programs/onnxruntime_child.hpp"
#include "support/arguments.hpp"
#include "support/clock.hpp"
#include "support/results.hpp"

namespace {

using namespace intq_bench;
using intq::io::Align;
using intq::io::TextTable;

// --- what two threads can do -----------------------------------------------------------------------------------------

/// The rate of the peak loop on all threads of a pool at once, over its rate on one: what the machine gives to work
/// that shares nothing.
double peak_scaling(intq::ThreadPool& pool, const PeakLoop& loop, const Sampling& sampling) {
    const auto run = [&](intq::index_t) { loop.run(100000); };
    const std::vector<Contender> contenders{{[&] { run(0); }}, {[&] { pool.executor()(pool.threads(), run); }}};
    const std::vector<Measurement> measured = measure_in_turns(contenders, sampling);
    return pool.threads() * median_ratio(measured[0], measured[1]);
}

// --- instructions ----------------------------------------------------------------------------------------------------

/// Seconds of each instruction, from the moment that the one before it ended.
struct InstructionTimes {
    std::vector<std::vector<double>> seconds;
    double last = 0.0;

    static void take(void* context, const intq::runtime::Program&, intq::index_t instruction, const void*,
                     intq::index_t) {
        auto& self = *static_cast<InstructionTimes*>(context);
        const double end = now();
        self.seconds[static_cast<std::size_t>(instruction)].push_back(end - self.last);
        self.last = now();
    }
};

/// Median of each instruction over `runs` runs.
std::vector<double> instruction_times(const LoweredNetwork& network, const intq::Executor& executor, int runs) {
    InstructionTimes times;
    times.seconds.resize(network.program().instructions.size());
    for (int run = 0; run < runs; ++run) {
        times.last = now();
        network.run(executor, {&InstructionTimes::take, &times});
    }
    std::vector<double> medians;
    for (const std::vector<double>& samples : times.seconds) medians.push_back(median(samples));
    return medians;
}

void print_instructions(const LoweredNetwork& network, intq::ThreadPool* pool, int runs) {
    std::vector<TextTable::Column> columns{
        {"instruction"}, {"operator"}, {"us", Align::right}, {"GOP/s", Align::right}};
    if (pool != nullptr) columns.push_back({"two threads", Align::right});
    TextTable table(columns);
    const std::vector<double> one = instruction_times(network, intq::serial, runs);
    const std::vector<double> two =
        pool != nullptr ? instruction_times(network, pool->executor(), runs) : std::vector<double>();
    for (std::size_t i = 0; i < one.size(); ++i) {
        const intq::runtime::Instruction& instruction = network.program().instructions[i];
        const bool has_weights = instruction.op == intq::OpKind::conv2d || instruction.op == intq::OpKind::linear;
        const double operations = has_weights ? shape_of(network.program(), instruction).operations() : 0.0;
        std::vector<std::string> cells{instruction.name, name_of(instruction.op), fmt::format("{:.1f}", one[i] * 1e6),
                                       has_weights ? fmt::format("{:.0f}", operations / one[i] * 1e-9) : "-"};
        if (pool != nullptr) cells.push_back(fmt::format("{:.2f} x", one[i] / two[i]));
        table.add_row(cells);
    }
    fmt::print("{}\n", table.str(intq::io::TableStyle::simple));
}

// --- networks --------------------------------------------------------------------------------------------------------

Row row_of(const LoweredNetwork& network, const Network& description) {
    Row row;
    row.group = "networks";
    row.op = "program";
    row.types = "s8s8s8";
    row.granularity = "per_channel";
    row.target = network.table().policy().name;
    row.backend = network.table().backend;
    row.layer = network.name();
    row.operations = description.operations();
    return row;
}

void fill(Row& row, const Measurement& own, const PeakLoop* peak) {
    row.seconds = own.median_seconds();
    row.spread = own.spread();
    if (peak == nullptr) return;
    row.peak = peak->name;
    row.part_of_peak = own.part_of_peak(row.operations);
}

/// ONNX Runtime's time, with the ratio to our own, taken before and after it.
void add_onnxruntime(Row& row, const LoweredNetwork& network, const std::string& path, const Arguments& arguments) {
    const Contender ours{[&] { network.run(intq::serial); }};
    const auto own_seconds = [&] {
        return measure_in_turns(std::span(&ours, 1), arguments.sampling())[0].median_seconds();
    };
    for (const char* types : {"u8", "s8"}) {
        std::vector<double> theirs, ratios;
        for (int round = 0; round < (arguments.quick ? 1 : 5); ++round) {
            const double before = own_seconds();
            const std::optional<double> seconds = onnxruntime_seconds(path, types, arguments.sampling().seconds);
            if (!seconds) return;
            theirs.push_back(*seconds);
            ratios.push_back(2.0 * *seconds / (before + own_seconds()));
        }
        row.peers.push_back({std::string("ONNX Runtime ") + types, median(theirs), median(ratios)});
    }
}

/// The network beside the peers, on one thread.
Row measure(const LoweredNetwork& network, const Arguments& arguments) {
    const Network description = network.description();
    const PeakLoop* const peak = peak_of(network.table().backend, intq::DType::int8);
    const std::vector<PeerCase> peers = arguments.alone ? std::vector<PeerCase>() : onednn_networks(description);
    std::vector<Contender> contenders{{[&] { network.run(intq::serial); }, peak}};
    for (const PeerCase& peer : peers) contenders.push_back({peer.run});
    const std::vector<Measurement> measured = measure_in_turns(contenders, arguments.sampling());
    Row row = row_of(network, description);
    fill(row, measured[0], peak);
    for (std::size_t i = 0; i < peers.size(); ++i)
        row.peers.push_back(
            {peers[i].name, measured[i + 1].median_seconds(), median_ratio(measured[i + 1], measured[0])});
    const std::string path = arguments.output + "/" + network.name() + ".network.txt";
    write_network(description, path);
    if (!arguments.alone) add_onnxruntime(row, network, path, arguments);
    return row;
}

/// The network on all threads of a pool, beside itself on one.
/// @pre  no peer has run in this process or beside it: its threads may still spin, and then two threads share what one
///       of ours has for itself
Row measure_threads(const LoweredNetwork& network, intq::ThreadPool& pool, const Arguments& arguments) {
    const std::vector<Contender> threads{{[&] { network.run(intq::serial); }}, {[&] { network.run(pool.executor()); }}};
    const std::vector<Measurement> scaling = measure_in_turns(threads, arguments.sampling());
    Row row = row_of(network, network.description());
    row.layer += fmt::format(" on {} threads", pool.threads());
    fill(row, scaling[1], nullptr);
    row.peers.push_back({"one thread", scaling[0].median_seconds(), median_ratio(scaling[0], scaling[1])});
    return row;
}

/// The logits must be those of scalar kernels, on two threads too.
void require_conformance(const LoweredNetwork& network, const intq::nn::Module& model, intq::ThreadPool* pool) {
    const LoweredNetwork reference(network.name(), model, scalar_network_table());
    reference.run(intq::serial);
    network.run(intq::serial);
    if (network.output() != reference.output())
        throw intq::Error(network.name(),
                          std::string("the bytes of ") + network.table().backend + " differ from scalar's");
    if (pool == nullptr) return;
    network.run(pool->executor());
    if (network.output() != reference.output())
        throw intq::Error(network.name(), "two threads give other bytes than one");
}

int run(const Arguments& arguments) {
    const intq::kernels::KernelTable& table = network_table();
    if (!is_chosen(arguments.backends, {table.backend}, table.backend))
        return report_nothing_chosen("network_bench", arguments, {table.backend});
    std::filesystem::create_directories(arguments.output);
    // Before this thread is bound to one processor: the others may run on the rest.
    std::optional<intq::ThreadPool> pool;
    if (std::thread::hardware_concurrency() >= 2) pool.emplace(2);
    Results results;
    results.machine = measure_machine(arguments.quick);
    const PeakLoop* const peak = peak_of(table.backend, intq::DType::int8);
    if (!pool)
        fmt::print("two threads: skipped, this process may use one processor only\n");
    else if (peak != nullptr)
        fmt::print("two threads run {} {:.2f} times as often as one\n", peak->name,
                   peak_scaling(*pool, *peak, arguments.sampling()));

    const std::regex filter(arguments.filter);
    std::deque<LoweredNetwork> networks;
    const auto add = [&](const char* name, const intq::nn::Module& model) {
        networks.emplace_back(name, model, table);
        if (std::regex_search(row_of(networks.back(), {}).label(), filter))
            require_conformance(networks.back(), model, pool ? &*pool : nullptr);
        else
            networks.pop_back();
    };
    add("resnet18", ResNet18());
    add("mobilenet_v2", MobileNetV2());

    // Two threads first, before a peer has started threads of its own.
    std::vector<Row> on_threads;
    for (const LoweredNetwork& network : networks) {
        if (pool) on_threads.push_back(measure_threads(network, *pool, arguments));
        if (!arguments.quick) print_instructions(network, pool ? &*pool : nullptr, 50);
    }

    results.peers = {describe_onednn(), describe_onnxruntime()};
    for (const std::string& peer : results.peers) fmt::print("{}\n", peer);
    for (std::size_t i = 0; i < networks.size(); ++i) {
        results.rows.push_back(measure(networks[i], arguments));
        if (pool) results.rows.push_back(on_threads[i]);
    }
    if (results.rows.empty()) return report_nothing_chosen("network_bench", arguments, {table.backend});
    print_group(results, "networks");
    write_json(results, arguments.output + "/networks.json");
    return 0;
}

}  // namespace

int main(int argc, char** argv) try {
    CLI::App app("Measures whole networks: ResNet-18 and MobileNetV2, one image at a time.");
    Arguments arguments;
    add_options(app, arguments);
    CLI11_PARSE(app, argc, argv);
    if (arguments.check || arguments.record) return 0;  // it has no recorded ratios
    return run(arguments);
} catch (const std::exception& error) {
    std::fprintf(stderr, "network_bench: %s\n", error.what());
    return 1;
}
