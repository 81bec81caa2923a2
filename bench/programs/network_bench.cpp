// SPDX-License-Identifier: MIT
//
// Whole networks through a program, one image at a time: on one and on two threads, beside oneDNN's chain of the same
// layers in the same process in turns, and beside ONNX Runtime, OpenVINO and LiteRT in child processes between them.
#include <fmt/format.h>

#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <thread>

#include "intq/tensor/thread_pool.hpp"
#include "peers/peer.hpp"
#include "programs/instruction_times.hpp"
#include "programs/lowered_network.hpp"
#include "programs/network_models.hpp"
#include "programs/network_table.hpp"
#include "programs/peer_child.hpp"
#include "support/benchmarks.hpp"
#include "support/clock.hpp"
#include "support/results.hpp"

namespace {

using namespace intq_bench;

// --- what two threads can do -----------------------------------------------------------------------------------------

/// The rate of the peak loop on all threads of a pool at once, over its rate on one: what the machine gives to work
/// that shares nothing.
double peak_scaling(intq::ThreadPool& pool, const PeakLoop& loop, const Sampling& sampling) {
    const auto run = [&](intq::index_t) { loop.run(100000); };
    const std::vector<Contender> contenders{{[&] { run(0); }}, {[&] { pool.executor()(pool.threads(), run); }}};
    const std::vector<Measurement> measured = measure_in_turns(contenders, sampling);
    return pool.threads() * median_ratio(measured[0], measured[1]);
}

// --- networks --------------------------------------------------------------------------------------------------------

/// The logits must be those of scalar kernels, on two threads too.
void require_conformance(const LoweredNetwork& network, const FloatNetwork& made, intq::ThreadPool* pool) {
    const LoweredNetwork reference(network.name(), *made.model, made.image, scalar_network_table());
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

/// A network that is lowered when it is first asked for.
class NamedNetwork {
public:
    /// @param pool  on which its bytes must be those of one thread; may be null
    NamedNetwork(NetworkModel model, intq::ThreadPool* pool) : model_(std::move(model)), pool_(pool) {}

    bool is_large() const { return model_.is_large; }
    Row row() const {
        Row row;
        row.group = "networks";
        row.op = "program";
        row.types = "s8s8s8";
        row.granularity = "per_channel";
        row.target = network_table().policy().name;
        row.backend = network_table().backend;
        row.layer = model_.name;
        return row;
    }
    const LoweredNetwork& lowered() {
        if (!network_) {
            const FloatNetwork made = model_.make();
            network_.emplace(model_.name, *made.model, made.image, network_table());
            require_conformance(*network_, made, pool_);
        }
        return *network_;
    }

private:
    NetworkModel model_;
    intq::ThreadPool* pool_;
    std::optional<LoweredNetwork> network_;
};

/// A peer of a child process with one type of activations, over the rounds.
struct ChildTimes {
    const ChildPeer* peer;
    const char* types;
    bool is_installed = true;
    std::vector<double> seconds{}, ratios{};
};

/// The child peers' times, with the ratios to our own, taken before and after each: ours, one, ours, the next. Those
/// that are not installed are left out.
std::vector<PeerTime> measure_children(const LoweredNetwork& network, const std::string& path,
                                       const Arguments& arguments) {
    const Contender ours{[&] { network.run(intq::serial); }};
    const auto own_seconds = [&] {
        return measure_in_turns(std::span(&ours, 1), arguments.sampling())[0].median_seconds();
    };
    std::vector<ChildTimes> children;
    for (const ChildPeer& peer : child_peers())
        for (const char* types : peer.types) children.push_back({&peer, types});
    double before = own_seconds();
    for (int round = 0; round < (arguments.quick ? 1 : 5); ++round)
        for (ChildTimes& child : children) {
            if (!child.is_installed) continue;
            const std::optional<double> seconds =
                child_seconds(*child.peer, path, child.types, arguments.peer_isa, arguments.sampling().seconds);
            child.is_installed = seconds.has_value();
            if (!seconds) continue;
            const double after = own_seconds();
            child.seconds.push_back(*seconds);
            child.ratios.push_back(2.0 * *seconds / (before + after));
            before = after;
        }
    std::vector<PeerTime> peers;
    for (const ChildTimes& child : children)
        if (child.is_installed)
            peers.push_back(
                {fmt::format("{} {}", child.peer->name, child.types), median(child.seconds), median(child.ratios)});
    return peers;
}

/// A network beside the peers, on one thread.
class NetworkTurns {
public:
    NetworkTurns(NamedNetwork& network, const Arguments& arguments) : network_(&network), arguments_(&arguments) {}

    std::vector<Contender> prepare() {
        const LoweredNetwork& network = network_->lowered();
        description_ = network.description();
        std::vector<Contender> contenders{{[&network] { network.run(intq::serial); }, peak_}};
        names_.clear();
        for (PeerCase& peer : onednn_networks(description_)) {
            names_.push_back(peer.name);
            contenders.push_back({std::move(peer.run)});
        }
        return contenders;
    }
    /// In child processes, behind each measurement.
    void measure_beside() {
        const std::string path = arguments_->output + "/" + description_.name + ".network.txt";
        write_network(description_, path);
        beside_.push_back(measure_children(network_->lowered(), path, *arguments_));
    }
    /// @param beside  the measurements of child peers that belong to the samples
    Row row_of(std::span<const Measurement> measured, std::span<const std::vector<PeerTime>> beside) const {
        Row row = network_->row();
        row.operations = description_.operations();
        row.arena = static_cast<double>(network_->lowered().program().arena_size);
        fill(row, measured[0], peak_);
        for (std::size_t i = 0; i < names_.size(); ++i)
            row.peers.push_back(
                {names_[i], measured[i + 1].median_seconds(), median_ratio(measured[i + 1], measured[0])});
        for (std::size_t i = 0; i < beside.front().size(); ++i) {
            std::vector<double> seconds, ratios;
            for (const std::vector<PeerTime>& peers : beside) {
                seconds.push_back(peers[i].seconds);
                ratios.push_back(*peers[i].ratio);
            }
            row.peers.push_back({beside.front()[i].name, median(seconds), median(ratios)});
        }
        return row;
    }
    std::span<const std::vector<PeerTime>> beside() const noexcept { return beside_; }

private:
    NamedNetwork* network_;
    const Arguments* arguments_;
    const PeakLoop* peak_ = peak_of(network_table().backend, intq::DType::int8);
    Network description_;
    std::vector<std::string> names_;
    std::vector<std::vector<PeerTime>> beside_;
};

void add_one_thread(Benchmarks& benchmarks, NamedNetwork& network, const Arguments& arguments, std::vector<Row>& rows) {
    const std::string label = network.row().label();
    if (!arguments.matches(label)) return;
    const auto turns = std::make_shared<NetworkTurns>(network, arguments);
    benchmarks.add({{label},
                    [turns] { return turns->prepare(); },
                    [turns](std::size_t, std::span<const Measurement> measured) {
                        return counters_of(turns->row_of(measured, turns->beside().last(1)));
                    },
                    [turns, &rows](std::span<const Measurement> measured) {
                        rows.push_back(turns->row_of(measured, turns->beside()));
                    },
                    [turns] { turns->measure_beside(); }});
}

/// A network on all threads of a pool, beside itself on one.
/// @pre  no peer runs before it in this process: its threads may still spin, and then two threads share what one of
/// ours
///       has for itself
void add_threads(Benchmarks& benchmarks, NamedNetwork& network, intq::ThreadPool& pool, const Arguments& arguments,
                 std::vector<Row>& rows) {
    Row row = network.row();
    row.layer += fmt::format("_on_{}_threads", pool.threads());
    if (!arguments.matches(row.label())) return;
    const auto filled = [row, &network](std::span<const Measurement> measured) {
        Row result = row;
        result.operations = network.lowered().description().operations();
        result.arena = static_cast<double>(network.lowered().program().arena_size);
        fill(result, measured[0], nullptr);
        result.peers.push_back({"one thread", measured[1].median_seconds(), median_ratio(measured[1], measured[0])});
        return result;
    };
    benchmarks.add(
        {{row.label()},
         [&] {
             const LoweredNetwork& lowered = network.lowered();
             return std::vector<Contender>{{[&] { lowered.run(pool.executor()); }},
                                           {[&] { lowered.run(intq::serial); }}};
         },
         [filled](std::size_t, std::span<const Measurement> measured) { return counters_of(filled(measured)); },
         [&, filled](std::span<const Measurement> measured) { rows.push_back(filled(measured)); }});
}

/// What the machine gives to two threads, and each network by instructions and by what its time is spent on.
void print_parts(std::deque<NamedNetwork>& networks, intq::ThreadPool* pool, const Arguments& arguments) {
    const PeakLoop* const peak = peak_of(network_table().backend, intq::DType::int8);
    if (pool == nullptr)
        fmt::print("two threads: skipped, this process may use one processor only\n");
    else if (peak != nullptr)
        fmt::print("two threads run {} {:.2f} times as often as one\n", peak->name,
                   peak_scaling(*pool, *peak, arguments.sampling()));
    if (arguments.quick) return;
    constexpr int runs = 50;
    std::vector<NamedSplit> splits;
    for (NamedNetwork& named : networks) {
        if (!arguments.matches(named.row().label())) continue;
        const LoweredNetwork& network = named.lowered();
        const InstructionTimes one = measure_instructions(network, intq::serial, peak, runs);
        std::optional<InstructionTimes> two;
        if (pool != nullptr) two = measure_instructions(network, pool->executor(), nullptr, runs);
        print_instructions(network, one, two ? &*two : nullptr);
        if (peak != nullptr) splits.push_back({network.name(), split_of(network, one)});
    }
    print_splits(splits);
}

/// Lowers each network, which throws where its bytes differ; nothing is measured.
int check_conformance(std::deque<NamedNetwork>& networks, const Arguments& arguments) {
    int checked = 0;
    for (NamedNetwork& network : networks) {
        const std::string label = network.row().label();
        if (!arguments.matches(label)) continue;
        network.lowered();
        fmt::print("{}: the bytes of scalar\n", label);
        ++checked;
    }
    return checked > 0 ? 0 : report_nothing_chosen(arguments, {network_table().backend});
}

int run(const Arguments& arguments) {
    if (arguments.record) return nothing_chosen;  // it has no recorded ratios
    const std::string backend = network_table().backend;
    if (!is_chosen(arguments.backends, {backend}, backend)) return report_nothing_chosen(arguments, {backend});
    if (!arguments.peer_isa.empty()) limit_onednn(arguments.peer_isa);
    // Before this thread is bound to one processor: the others may run on the rest.
    std::optional<intq::ThreadPool> threads;
    if (std::thread::hardware_concurrency() >= 2) threads.emplace(2);
    intq::ThreadPool* const pool = threads ? &*threads : nullptr;
    std::deque<NamedNetwork> networks;
    for (const NetworkModel& model : network_models()) networks.emplace_back(model, pool);

    if (arguments.check) return check_conformance(networks, arguments);

    // Two threads first, before a peer has started threads of its own.
    Benchmarks benchmarks(arguments);
    Results results;
    if (pool != nullptr)
        for (NamedNetwork& network : networks)
            if (network.is_large()) add_threads(benchmarks, network, *pool, arguments, results.rows);
    for (NamedNetwork& network : networks) add_one_thread(benchmarks, network, arguments, results.rows);
    if (benchmarks.size() == 0) return report_nothing_chosen(arguments, {backend});
    if (arguments.only_lists()) return benchmarks.run(), 0;

    results.machine = measure_machine(arguments.quick);
    results.peers = {describe_onednn()};
    Benchmarks::describe("oneDNN", results.peers[0]);
    for (const ChildPeer& peer : child_peers()) {
        results.peers.push_back(describe_child(peer, arguments.peer_isa));
        Benchmarks::describe(peer.name, results.peers.back());
    }
    if (arguments.prints_tables()) {
        print_parts(networks, pool, arguments);
        for (const std::string& peer : results.peers) fmt::print("{}\n", peer);
    }
    benchmarks.run();
    if (arguments.prints_tables()) print_group(results, "networks");
    write_json(results, arguments.output + "/networks.json");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return intq_bench::run_bench(
        argc, argv,
        "Measures whole networks, one image at a time: ResNet-18 and 50, MobileNetV1 and V2, DS-CNN and ResNet-8.",
        run);
}
