// SPDX-License-Identifier: MIT
//
// Convolutions, linear layers and matrix products: our kernels and other libraries' in alternating samples of one
// process, one thread, against the machine's peak of the same moment.
//
// A kernel whose bytes differ from scalar's is not measured: the bench ends with an error.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "conv_tables.hpp"
#include "peers/peer.hpp"
#include "support/benchmarks.hpp"
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

const FloatKernel& floats_of(const ConvTable& tables, const ElementTypes& types) {
    return types.is_reproducible ? tables.reproducible_floats : tables.floats;
}

void require_conformance(const ConvTable& tables, const LayerShape& shape, const ElementTypes& types) {
    ConvCase expected(*tables.scalar, tables.scalar_floats, smaller(shape), types);
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

/// Seconds to read the weights where the layer is one vector times a matrix, which may take longer than the
/// instructions; 0 elsewhere.
double reading_seconds(const LayerShape& shape, const ElementTypes& types) {
    if (shape.out_elements() != shape.outputs || shape.is_depthwise()) return 0.0;
    const auto weights = static_cast<std::size_t>(shape.weight_elements() * size_of(types.weight));
    return static_cast<double>(weights) / read_rate(weights, 0.05);
}

/// The part of the limit that a row reaches: of the instructions', or of reading the weights where that is longer.
std::optional<double> part_of_limit(const Row& row, const LayerShape& shape, const ElementTypes& types,
                                    const PeakLoop* peak, double reading_seconds) {
    if (peak == nullptr || !row.part_of_peak) return std::nullopt;
    const std::optional<double> limit = limit_of_peak(shape, types.input, *peak);
    if (!limit) return std::nullopt;
    return std::max(*row.part_of_peak / *limit, reading_seconds / row.seconds);
}

/// The tables and types that the arguments choose.
struct Choice {
    std::vector<ConvTable> tables;
    std::vector<ElementTypes> types;

    explicit Choice(const Arguments& arguments) {
        const std::vector<ConvTable> all = all_tables();
        const std::vector<std::string> best{all.front().table->backend};
        for (const ConvTable& one : all)
            if (is_chosen(arguments.backends, best, one.table->backend) &&
                is_chosen(arguments.targets, {"fp32"}, one.table->policy().name))
                tables.push_back(one);
        for (const ElementTypes& one : all_types)
            if (is_chosen(arguments.types, {"s8s8s8", "s16s8s16", "f32f32f32", "f32f32f32_reproducible"}, one.name))
                types.push_back(one);
    }
};

/// A layer with one combination of types: the chosen kernels of ours, and other libraries'.
class LayerTurns {
public:
    LayerTurns(const Arguments& arguments, const Choice& choice, std::string group, LayerShape shape,
               ElementTypes types)
        : shape_(std::move(shape)), types_(types), alone_(arguments.alone) {
        for (const ConvTable& tables : choice.tables) {
            Row row = row_of(group, *tables.table, shape_, types);
            if (arguments.matches(row.label()))
                ours_.push_back({tables, std::move(row), peak_of(tables.table->backend, types.input)});
        }
    }

    std::vector<std::string> labels() const {
        std::vector<std::string> labels;
        for (const Ours& one : ours_) labels.push_back(one.row.label());
        return labels;
    }

    std::vector<Contender> prepare() {
        std::vector<Contender> contenders;
        for (Ours& one : ours_) contenders.push_back(make_ready(one));
        reading_seconds_ = reading_seconds(shape_, types_);
        peers_.clear();
        for (PeerCase& peer : alone_ ? std::vector<PeerCase>() : onednn_cases(shape_, types_)) {
            peers_.push_back(peer.name);
            contenders.push_back({std::move(peer.run)});
        }
        return contenders;
    }

    /// One for each label.
    std::vector<Row> rows(std::span<const Measurement> measured) const {
        std::vector<Row> rows;
        const bool all_refuse =
            std::all_of(ours_.begin(), ours_.end(), [](const Ours& one) { return !one.row.refused.empty(); });
        for (std::size_t i = 0; i < ours_.size(); ++i) {
            Row row = ours_[i].row;
            const bool has_time = row.refused.empty();
            if (has_time) fill(row, measured[i], ours_[i].peak);
            row.part_of_limit = part_of_limit(row, shape_, types_, ours_[i].peak, reading_seconds_);
            // Where all of ours refuse, the first row shows what the peers need.
            for (std::size_t p = 0; (has_time || (all_refuse && i == 0)) && p < peers_.size(); ++p) {
                const Measurement& other = measured[ours_.size() + p];
                row.peers.push_back({peers_[p], other.median_seconds(), std::nullopt});
                if (has_time) row.peers.back().ratio = median_ratio(other, measured[i]);
            }
            rows.push_back(std::move(row));
        }
        return rows;
    }

private:
    struct Ours {
        ConvTable tables;
        Row row;
        const PeakLoop* peak = nullptr;
    };

    Contender make_ready(Ours& one) const {
        std::shared_ptr<ConvCase> layer;
        try {
            layer = std::make_shared<ConvCase>(*one.tables.table, floats_of(one.tables, types_), shape_, types_);
        } catch (const intq::Error& refusal) {
            one.row.refused = refusal.what();
            return {{}, nullptr, refusal.what()};
        }
        require_conformance(one.tables, shape_, types_);
        return {[layer] { layer->run(); }, one.peak};
    }

    LayerShape shape_;
    ElementTypes types_;
    bool alone_;
    double reading_seconds_ = 0.0;
    std::vector<Ours> ours_;
    std::vector<std::string> peers_;
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

/// Calls visit(turns, is_last) for each layer and combination of types that the arguments choose; is_last: of its file.
template <class Visit> void for_each_layer(const Arguments& arguments, const Visit& visit) {
    const Choice choice(arguments);
    for (const std::string& path : chosen_files(arguments)) {
        const std::string group = std::filesystem::path(path).filename().string();
        std::vector<std::shared_ptr<LayerTurns>> layers;
        for (const LayerShape& shape : read_shapes(path))
            for (const ElementTypes& types : choice.types)
                if (auto layer = std::make_shared<LayerTurns>(arguments, choice, group, shape, types);
                    !layer->labels().empty())
                    layers.push_back(std::move(layer));
        for (const auto& layer : layers) visit(layer, layer == layers.back());
    }
}

/// The rows that the arguments choose, without peers.
std::vector<Row> measure_alone(Arguments arguments) {
    arguments.alone = true;
    std::vector<Row> rows;
    for_each_layer(arguments, [&](const std::shared_ptr<LayerTurns>& layer, bool) {
        const std::vector<Contender> contenders = layer->prepare();
        for (Row& row : layer->rows(measure_in_turns(contenders, arguments.sampling()))) rows.push_back(std::move(row));
    });
    return rows;
}

/// The same for the rows whose labels an expression matches, of every shape, target, backend and type.
std::vector<Row> measure_labels(const std::string& filter) {
    Arguments arguments;
    arguments.filter = filter;
    arguments.backends = arguments.targets = arguments.types = {"all"};
    return measure_alone(arguments);
}

std::vector<std::string> backend_names() {
    std::vector<std::string> names;
    for (const ConvTable& tables : all_tables())
        if (const std::string name = tables.table->backend; std::find(names.begin(), names.end(), name) == names.end())
            names.push_back(name);
    return names;
}

int compare(const Arguments& arguments) {
    Benchmarks benchmarks(arguments);
    Results results;
    results.peers.push_back(describe_onednn());
    Benchmarks::describe("oneDNN", describe_onednn());
    for_each_layer(arguments, [&](const std::shared_ptr<LayerTurns>& layer, bool is_last) {
        benchmarks.add({layer->labels(), [layer] { return layer->prepare(); },
                        [layer](std::size_t row, std::span<const Measurement> measured) {
                            return counters_of(layer->rows(measured)[row]);
                        },
                        [layer, is_last, &results, &arguments](std::span<const Measurement> measured) {
                            for (Row& row : layer->rows(measured)) results.rows.push_back(std::move(row));
                            if (is_last && arguments.prints_tables()) print_group(results, results.rows.back().group);
                        }});
    });
    if (benchmarks.size() == 0) return report_nothing_chosen(arguments, backend_names());
    if (arguments.only_lists()) return benchmarks.run(), 0;

    results.machine = measure_machine(arguments.quick);
    if (arguments.prints_tables()) {
        print_machine(results.machine);
        for (const std::string& peer : results.peers) fmt::print("{}\n", peer);
        print_legend();
    }
    benchmarks.run();
    if (arguments.prints_tables()) print_summary(results);
    write_json(results, arguments.output + "/results.json");
    write_roofline(results, arguments.output + "/roofline.svg");
    return 0;
}

int run(const Arguments& arguments) {
    if (!arguments.peer_isa.empty()) limit_onednn(arguments.peer_isa);
    if (!arguments.check && !arguments.record) return compare(arguments);
    const Machine machine = measure_machine(true);
    if (arguments.check) return check_recorded_ratios(recorded_path, machine.cpu_key, measure_labels);
    record_ratios(recorded_path, machine.cpu_key, [&] { return measure_alone(arguments); });
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return intq_bench::run_bench(argc, argv, "Measures convolutions, linear layers and matrix products.", run);
}
