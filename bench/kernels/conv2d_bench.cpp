// SPDX-License-Identifier: MIT
//
// Convolutions, linear layers and matrix products: our kernels and other libraries' in alternating samples of one
// process, one thread, against the machine's peak of the same moment.
//
// A kernel whose bytes differ from scalar's is not measured: the bench ends with an error.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <regex>

#include "conv_tables.hpp"
#include "peers/peer.hpp"
#include "support/arguments.hpp"
#include "support/conv_case.hpp"
#include "support/limits.hpp"
#include "support/recorded_ratios.hpp"
#include "support/results.hpp"

namespace {

using namespace intq_bench;
using intq::kernels::KernelTable;

/// A layer of the same window and channels on few pixels: enough for every tail, quick on scalar.
LayerShape smaller(LayerShape shape) {
    shape.batch = std::min<intq::index_t>(shape.batch, 33);
    shape.in.height = std::min<intq::index_t>(shape.in.height, 9);
    shape.in.width = std::min<intq::index_t>(shape.in.width, 9);
    return shape;
}

const intq::kernels::FloatTable* floats_of(const ConvTable& tables, const ElementTypes& types) {
    return types.is_reproducible ? tables.float_reproducible : tables.float_table;
}

void require_conformance(const ConvTable& tables, const LayerShape& shape, const ElementTypes& types) {
    ConvCase expected(*tables.scalar, tables.float_scalar, smaller(shape), types);
    ConvCase actual(*tables.table, floats_of(tables, types), smaller(shape), types);
    expected.run();
    actual.run();
    if (!actual.has_output_of(expected))
        throw intq::Error(shape.name, std::string("the bytes of ") + tables.table->backend + " differ from scalar's");
}

Row row_of(const std::string& group, const KernelTable& table, const LayerShape& shape, const ElementTypes& types) {
    Row row;
    row.group = group;
    row.op = name_of(shape.op);
    row.types = types.name;
    row.granularity = types.input == intq::DType::float32 ? "none" : "per_channel";
    row.target = table.policy().name;
    row.backend = table.backend;
    row.layer = shape.name;
    row.is_depthwise = shape.is_depthwise();
    row.operations = shape.operations();
    row.bytes = bytes_of(shape, types.input, types.weight, types.output);
    return row;
}

/// The part of the limit that a row reaches: of the instructions', or, for one vector times a matrix, of the time to
/// read the weights where that is longer.
std::optional<double> part_of_limit(const Row& row, const LayerShape& shape, const ElementTypes& types,
                                    const PeakLoop* peak) {
    if (peak == nullptr || !row.part_of_peak) return std::nullopt;
    const std::optional<double> limit = limit_of_peak(shape, types.input, *peak);
    if (!limit) return std::nullopt;
    const double part = *row.part_of_peak / *limit;
    if (shape.out_elements() != shape.outputs || shape.is_depthwise()) return part;
    const auto weights = static_cast<std::size_t>(shape.weight_elements() * size_of(types.weight));
    return std::max(part, static_cast<double>(weights) / read_rate(weights, 0.05) / row.seconds);
}

class Bench {
public:
    Bench(const Arguments& arguments, Results& results) : arguments_(&arguments), results_(&results) {
        std::vector<ConvTable> all = fp32_tables();
        for (const auto& more : {tflite_tables(), bpu_tables()}) all.insert(all.end(), more.begin(), more.end());
        const std::vector<std::string> best{all.front().table->backend};
        for (const ConvTable& tables : all)
            if (is_chosen(arguments.backends, best, tables.table->backend) &&
                is_chosen(arguments.targets, {"fp32"}, tables.table->policy().name))
                tables_.push_back(tables);
        for (const ElementTypes& types : all_types)
            if (is_chosen(arguments.types, {"s8s8s8", "s16s8s16", "f32f32f32", "f32f32f32_reproducible"}, types.name))
                types_.push_back(types);
    }

    void measure(const std::string& group, const LayerShape& shape) {
        for (const ElementTypes& types : types_) measure(group, shape, types);
    }

private:
    /// One of ours, ready to run.
    struct Ours {
        Row row;
        std::unique_ptr<ConvCase> layer;
        const PeakLoop* peak = nullptr;
    };

    std::vector<Ours> prepare(const std::string& group, const LayerShape& shape, const ElementTypes& types) const {
        std::vector<Ours> all;
        const std::regex filter(arguments_->filter);
        for (const ConvTable& tables : tables_) {
            Ours ours{row_of(group, *tables.table, shape, types), nullptr, peak_of(tables.table->backend, types.input)};
            if (!std::regex_search(ours.row.label(), filter)) continue;
            try {
                ours.layer = std::make_unique<ConvCase>(*tables.table, floats_of(tables, types), shape, types);
            } catch (const intq::Error& refusal) {
                ours.row.refused = refusal.what();
            }
            if (ours.layer != nullptr) require_conformance(tables, shape, types);
            all.push_back(std::move(ours));
        }
        return all;
    }

    void measure(const std::string& group, const LayerShape& shape, const ElementTypes& types) {
        const std::vector<Ours> ours = prepare(group, shape, types);
        if (ours.empty()) return;
        const std::vector<PeerCase> peers = arguments_->alone ? std::vector<PeerCase>() : onednn_cases(shape, types);
        std::vector<Contender> contenders;
        for (const Ours& one : ours)
            if (one.layer != nullptr) contenders.push_back({[&one] { one.layer->run(); }, one.peak});
        const std::size_t first_peer = contenders.size();
        for (const PeerCase& peer : peers) contenders.push_back({peer.run, nullptr});
        const std::vector<Measurement> measured = measure_in_turns(contenders, arguments_->sampling());

        const Measurement* next = measured.data();
        for (const Ours& one : ours) {
            const Measurement* const own = one.layer != nullptr ? next++ : nullptr;
            Row row = one.row;
            if (own != nullptr) fill(row, *own, one.peak);
            row.part_of_limit = part_of_limit(row, shape, types, one.peak);
            // Where all of ours refuse, the first row shows what the peers need.
            const bool shows_peers = own != nullptr || (first_peer == 0 && &one == &ours.front());
            for (std::size_t i = 0; shows_peers && i < peers.size(); ++i) {
                const Measurement& other = measured[first_peer + i];
                row.peers.push_back({peers[i].name, other.median_seconds(), std::nullopt});
                if (own != nullptr) row.peers.back().ratio = median_ratio(other, *own);
            }
            results_->rows.push_back(std::move(row));
        }
    }

    static void fill(Row& row, const Measurement& own, const PeakLoop* peak) {
        row.seconds = own.median_seconds();
        row.spread = own.spread();
        if (peak == nullptr) return;
        row.peak = peak->name;
        row.part_of_peak = own.part_of_peak(row.operations);
    }

    const Arguments* arguments_;
    Results* results_;
    std::vector<ConvTable> tables_;
    std::vector<ElementTypes> types_;
};

const std::string shapes_folder = INTQ_BENCH_DIR "/shapes";
const std::string recorded_path = INTQ_BENCH_DIR "/recorded_ratios.txt";

std::vector<std::string> chosen_files(const Arguments& arguments) {
    if (arguments.shapes.empty() && arguments.quick) return {shapes_folder + "/list.txt"};
    if (arguments.shapes.empty()) return shape_files(shapes_folder);
    std::vector<std::string> paths;
    for (const std::string& path : arguments.shapes)
        paths.push_back(std::filesystem::exists(path) ? path : shapes_folder + "/" + path);
    return paths;
}

void measure_files(const Arguments& arguments, Results& results) {
    Bench bench(arguments, results);
    const bool is_terminal = isatty(STDERR_FILENO) != 0;
    for (const std::string& path : chosen_files(arguments)) {
        const std::string group = std::filesystem::path(path).filename().string();
        const std::vector<LayerShape> shapes = read_shapes(path);
        for (std::size_t i = 0; i < shapes.size(); ++i) {
            if (is_terminal) fmt::print(stderr, "\r{} {}/{} \033[K", group, i + 1, shapes.size());
            bench.measure(group, shapes[i]);
        }
        if (is_terminal) fmt::print(stderr, "\r\033[K");
        print_group(results, group);
    }
}

/// The rows that the arguments choose, without peers.
std::vector<Row> measure_alone(Arguments arguments, const Machine& machine) {
    arguments.alone = true;
    Results results;
    results.machine = machine;
    measure_files(arguments, results);
    return results.rows;
}

/// The same for the rows whose labels an expression matches, of every shape, target, backend and type.
std::vector<Row> measure_labels(const std::string& filter, const Machine& machine) {
    Arguments arguments;
    arguments.filter = filter;
    arguments.backends = arguments.targets = arguments.types = {"all"};
    return measure_alone(arguments, machine);
}

std::vector<std::string> backend_names() {
    std::vector<std::string> names;
    for (const ConvTable& tables : fp32_tables()) names.push_back(tables.table->backend);
    return names;
}

int compare(const Arguments& arguments) {
    Results results;
    results.machine = measure_machine(arguments.quick);
    results.peers.push_back(describe_onednn());
    print_machine(results.machine);
    for (const std::string& peer : results.peers) fmt::print("{}\n", peer);
    print_legend();
    measure_files(arguments, results);
    if (results.rows.empty()) return report_nothing_chosen("conv2d_bench", arguments, backend_names());
    print_summary(results);
    std::filesystem::create_directories(arguments.output);
    write_json(results, arguments.output + "/results.json");
    write_roofline(results, arguments.output + "/roofline.svg");
    return 0;
}

int run(const Arguments& arguments) {
    if (!arguments.peer_isa.empty()) limit_onednn(arguments.peer_isa);
    if (!arguments.check && !arguments.record) return compare(arguments);
    const Machine machine = measure_machine(true);
    if (arguments.check)
        return check_recorded_ratios(recorded_path, machine.cpu_key,
                                     [&](const std::string& filter) { return measure_labels(filter, machine); });
    record_ratios(recorded_path, machine.cpu_key, [&] { return measure_alone(arguments, machine); });
    return 0;
}

}  // namespace

int main(int argc, char** argv) try {
    CLI::App app("Measures convolutions, linear layers and matrix products.");
    Arguments arguments;
    add_options(app, arguments);
    CLI11_PARSE(app, argc, argv);
    return run(arguments);
} catch (const std::exception& error) {
    std::fprintf(stderr, "conv2d_bench: %s\n", error.what());
    return 1;
}
