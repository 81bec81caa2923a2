// SPDX-License-Identifier: MIT
//
// intq profile: where the accuracy was lost.
#include <algorithm>
#include <filesystem>

#include "costs.hpp"
#include "options.hpp"

namespace intq_tool {

namespace {

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;

/// Samples in one run of the profiler.
constexpr index_t profiled_batch = 16;

struct ProfileOptions {
    std::string model, folder;
    DataOptions data;
    QuantizeOptions quantize;
    bool has_sensitivity = false, has_costs = false, is_json = false;
};

using Rows = std::vector<std::vector<std::string>>;

/// Writes what the values of a model are, operator by operator, over all samples.
void write_statistics(const analysis::AnalysedModel& model, const Tensor& samples,
                      const std::filesystem::path& folder) {
    analysis::ModelProfiler profiler(model, folder);
    io::Progress progress("profiler", samples.extent(0));
    for (index_t first = 0; first < samples.extent(0); first += profiled_batch) {
        const index_t count = std::min(profiled_batch, samples.extent(0) - first);
        profiler(analysis::CallInputs(std::vector<nn::Value>{samples.batch(first, count)}));
        progress.update(first + count);
    }
    profiler.get_info_manager().table();
}

/// The layers that are farthest from float.
Rows worst_layers(std::vector<analysis::LayerComparison> layers) {
    std::erase_if(layers, [](const auto& layer) { return !layer.has_metrics(); });  // inside a fused layer
    io::sort_stably(layers, [](const auto& x, const auto& y) { return x.metrics.cosine() < y.metrics.cosine(); });
    Rows rows;
    for (std::size_t i = 0; i < std::min<std::size_t>(5, layers.size()); ++i)
        rows.push_back({layers[i].mod_name, layers[i].analy_op_type, digits("%.7f", layers[i].metrics.cosine()),
                        digits("%.2f", layers[i].metrics.sqnr())});
    return rows;
}

Rows rows_of(const std::vector<SensitiveOperator>& sensitivity) {
    Rows rows;
    for (const SensitiveOperator& op : sensitivity)
        rows.push_back({op.op_name, op.sensitive_type, digits("%.7f", op.metric)});
    return rows;
}

/// Writes the costs, and shows them with their sums, between which budgets lie.
void add_costs(const ProfileOptions& options, const std::vector<improve::LayerCosts>& costs, Report& report) {
    const std::filesystem::path file = std::filesystem::path(options.folder) / "layer_costs.txt";
    improve::write_layer_costs(file, costs);
    Rows rows;
    improve::TypeCost int8, int16;
    for (const improve::LayerCosts& layer : costs) {
        rows.push_back({layer.layer, digits("%.7f", layer.int8.loss), digits("%.3g", layer.int8.seconds),
                        digits("%.3g", layer.int16.seconds)});
        int8 = {int8.loss + layer.int8.loss, int8.seconds + layer.int8.seconds};
        int16 = {int16.loss + layer.int16.loss, int16.seconds + layer.int16.seconds};
    }
    report.table("costs",
                 {{"layer"},
                  {"loss in int8", io::Align::right},
                  {"seconds in int8", io::Align::right},
                  {"seconds in int16", io::Align::right}},
                 rows);
    report.text("costs of layers", file.string());
    report.number("loss of int8", int8.loss);
    report.number("time of int8", int8.seconds, "s");
    report.number("time of int16", int16.seconds, "s");
}

int profile(const ProfileOptions& options) {
    const FloatModel model = read_unquantized_model(options.model);
    require_one_input_and_output(options.model, model);
    if (options.folder.empty()) throw Error("--output names no folder");
    const Tensor samples = options.data.read(model.inputs).front();
    require_proportion(options.model, model, std::span(&samples, 1));
    io::make_folder(options.folder);
    PrepareNotes notes;
    const auto prepared = prepare(*model.module, {samples}, options.quantize, &notes);
    analysis::QuantAnalysis analysis(model.module, prepared, "fake_quant", options.folder);
    const analysis::BadCase bad = analysis.auto_find_bad_case(analysis::cases_of(batches_of(samples, 1)));
    analysis.save_bad_case();
    analysis.run();
    const auto layers = analysis.compare_per_layer();
    const std::filesystem::path profiles = std::filesystem::path(options.folder) / "model_profiler";
    write_statistics(model.module, samples, profiles / "float");
    write_statistics(prepared, samples, profiles / "quantized");
    Report report(options.is_json);
    report.text("folder", options.folder);
    report.improvements(notes);
    report.text("statistics of all samples", profiles.string());
    report.count("worst sample", static_cast<long long>(bad.index));
    report.number("L1 of its output", bad.metric);
    report.table("worst layers", {{"layer"}, {"type"}, {"cosine", io::Align::right}, {"SQNR", io::Align::right}},
                 worst_layers(layers));
    Rows rows;
    for (const analysis::LayerAdvice& advice : analysis.advice())
        rows.push_back({advice.mod_name, advice.abnormal_info, advice.advice});
    if (!rows.empty()) report.table("advice", {{"layer"}, {"what"}, {"advice"}}, rows);
    if (options.has_sensitivity || options.has_costs) {
        const std::vector<SensitiveOperator> sensitivity = analysis.sensitivity();
        report.table("sensitivity", {{"layer"}, {"quantizer"}, {"L1", io::Align::right}}, rows_of(sensitivity));
        if (options.has_costs)
            add_costs(options, measure_costs(*model.module, samples, options.quantize, sensitivity), report);
    }
    report.warnings(notes);
    report.print();
    return 0;
}

}  // namespace

void add_profile(CLI::App& app, Action& action) {
    auto options = std::make_shared<ProfileOptions>();
    CLI::App* command = app.add_subcommand(
        "profile",
        "find the layer that lost the accuracy: write the files of QuantAnalysis, and the tables of ModelProfiler");
    command->add_option("model", options->model, "ONNX file of the float model")->required()->option_text("MODEL");
    options->data.add_to(*command, "samples that set the scales; the worst of them is analysed");
    options->quantize.add_to(*command);
    command->add_option("-o,--output", options->folder, "folder of the files")->required()->option_text("FOLDER");
    command->add_flag("--sensitivity", options->has_sensitivity, "also rank the operators by their sensitivity");
    command->add_flag("--layer-costs", options->has_costs,
                      "also write what each layer costs in int8 and in int16: its sensitivity, and its time on this "
                      "machine");
    command->add_flag("--json", options->is_json, "print one JSON object");
    group_options(*command, "Output", {"--output"});
    add_examples(*command, {"intq profile model.onnx --data data.npy --target bayes --sensitivity -o out",
                            "intq quantize model.onnx --data data.npy --target bayes \\",
                            "    --sensitive-ops out/sensitive_ops.txt --top-k 3 -o model.intq"});
    command->callback([options, &action] { action = [options] { return profile(*options); }; });
}

}  // namespace intq_tool
