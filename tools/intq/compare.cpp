// SPDX-License-Identifier: MIT
//
// intq check, compare and profile: what lowers, what was lost, and where.
#include <algorithm>

#include "evaluation.hpp"
#include "options.hpp"

namespace intq_tool {

namespace {

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;

// --- check ----------------------------------------------------------------------------------------------------------

struct CheckOptions {
    std::string model, dtype = "int8";
    std::vector<std::string> targets;
    std::vector<index_t> shape;
    bool is_json = false;
};

/// Why a target does not take the whole model; empty where it does.
std::vector<std::vector<std::string>> refusals_of(const graph::GraphModule& model, const std::string& target,
                                                  const CheckOptions& options) {
    QuantizeOptions quantize;
    quantize.target = target;
    quantize.dtype = options.dtype;
    PrepareOptions prepare_options;
    if (!options.shape.empty()) {
        Shape shape;
        for (const index_t extent : options.shape) shape.extents[static_cast<std::size_t>(shape.rank++)] = extent;
        prepare_options.example_inputs = {Tensor::zeros(shape)};
    }
    std::vector<std::vector<std::string>> rows;
    try {
        const auto prepared =
            prepare_calibration_fx(model, quantize.mapping(), quantize.table().policy(), prepare_options);
        for (const FloatFallback& fallback : prepared->report().fallbacks)
            rows.push_back({target, fallback.node, fallback.type, fallback.reason});
    } catch (const Error& error) {
        rows.push_back({target, "", "", error.what()});
    }
    return rows;
}

int check(const CheckOptions& options) {
    const auto model = read_model(options.model);
    const std::vector<std::string> targets = options.targets.empty() ? target_names() : options.targets;
    std::vector<std::vector<std::string>> rows;
    Report report(options.is_json);
    for (const std::string& target : targets) {
        const auto refused = refusals_of(*model.module, target, options);
        report.text(target, refused.empty() ? "all operators lower" : std::to_string(refused.size()) + " do not lower");
        rows.insert(rows.end(), refused.begin(), refused.end());
    }
    if (!rows.empty()) report.table("refusals", {{"target"}, {"node"}, {"type"}, {"reason"}}, rows);
    report.print();
    return rows.empty() ? 0 : 1;
}

// --- compare --------------------------------------------------------------------------------------------------------

struct CompareOptions {
    std::string model, program;
    DataOptions data;
    bool is_json = false;
};

int compare(const CompareOptions& options) {
    const auto model = read_model(options.model);
    const ProgramFile file = read_runnable(options.program);
    const Tensor samples = options.data.read(model.input);
    const Tensor expected = run_float(*model.module, samples);
    const Tensor given = file.lowered.run(samples);
    if (given.dtype() != DType::float32 || given.size() != expected.size())
        throw Error(options.program, std::string("it gives ") + name_of(given.dtype()) + " " +
                                         intq::to_string(given.shape()) + ", and the model float32 " +
                                         intq::to_string(expected.shape()));
    numeric_suite::TensorComparison comparison;
    comparison.add(expected.flat<float>(), given.flat<float>(), expected.shape());
    Report report(options.is_json);
    report.count("samples", samples.extent(0));
    report.number("SQNR", comparison.sqnr(), "dB");
    report.number("cosine", comparison.cosine());
    report.number("mean error", comparison.l1());
    report.number("largest error", comparison.atol());
    if (expected.rank() == 2) report.count("same class", count_equal(classes_of(expected), classes_of(given)));
    report.print();
    return 0;
}

// --- profile --------------------------------------------------------------------------------------------------------

struct ProfileOptions {
    std::string model, folder;
    DataOptions data;
    QuantizeOptions quantize;
    bool has_sensitivity = false, is_json = false;
};

int profile(const ProfileOptions& options) {
    const auto model = read_model(options.model);
    const Tensor samples = options.data.read(model.input);
    const auto prepared = prepare(*model.module, samples, options.quantize);
    analysis::QuantAnalysis analysis(model.module, prepared, "fake_quant", options.folder);
    const analysis::BadCase bad = analysis.auto_find_bad_case(analysis::cases_of(batches_of(samples, 1)));
    analysis.save_bad_case();
    analysis.run();
    auto layers = analysis.compare_per_layer();
    Report report(options.is_json);
    report.text("folder", options.folder);
    report.count("worst sample", static_cast<long long>(bad.index));
    report.number("L1 of its output", bad.metric);
    io::sort_stably(layers, [](const auto& x, const auto& y) { return x.metrics.cosine() < y.metrics.cosine(); });
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < std::min<std::size_t>(5, layers.size()); ++i) {
        rows.push_back({layers[i].mod_name, layers[i].analy_op_type, digits("%.7f", layers[i].metrics.cosine()),
                        digits("%.2f", layers[i].metrics.sqnr())});
    }
    report.table("worst layers", {{"layer"}, {"type"}, {"cosine"}, {"SQNR"}}, rows);
    rows.clear();
    for (const analysis::LayerAdvice& advice : analysis.advice())
        rows.push_back({advice.mod_name, advice.abnormal_info, advice.advice});
    if (!rows.empty()) report.table("advice", {{"layer"}, {"what"}, {"advice"}}, rows);
    if (options.has_sensitivity) {
        rows.clear();
        for (const SensitiveOperator& op : analysis.sensitivity())
            rows.push_back({op.op_name, op.sensitive_type, digits("%.7f", op.metric)});
        report.table("sensitivity", {{"layer"}, {"quantizer"}, {"L1"}}, rows);
    }
    report.print();
    return 0;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
    auto options = std::make_shared<CheckOptions>();
    CLI::App* command =
        app.add_subcommand("check", "which operators of a model lower for a target, before any calibration");
    command->add_option("model", options->model, "ONNX file of the float model")->required()->option_text("MODEL");
    command->add_option("--target", options->targets, "one or more; default: all")
        ->check(CLI::IsMember(target_names()))
        ->option_text("NAME...");
    command->add_option("--dtype", options->dtype, "int8 or int16")->check(CLI::IsMember({"int8", "int16"}));
    command
        ->add_option("--shape", options->shape, "of the input, with its samples: what depends on shapes is checked too")
        ->check(CLI::PositiveNumber)
        ->option_text("EXTENT...");
    command->add_flag("--json", options->is_json, "print one JSON object");
    command->callback([options, &action] { action = [options] { return check(*options); }; });
}

void add_compare(CLI::App& app, Action& action) {
    auto options = std::make_shared<CompareOptions>();
    CLI::App* command = app.add_subcommand("compare", "outputs of a program file beside those of the float model");
    command->add_option("model", options->model, "ONNX file of the float model")->required()->option_text("MODEL");
    command->add_option("program", options->program, "program file (.intq), or quantized ONNX model (.onnx)")
        ->required()
        ->option_text("PROGRAM");
    options->data.add_to(*command, "samples");
    command->add_flag("--json", options->is_json, "print one JSON object");
    command->callback([options, &action] { action = [options] { return compare(*options); }; });
}

void add_profile(CLI::App& app, Action& action) {
    auto options = std::make_shared<ProfileOptions>();
    CLI::App* command =
        app.add_subcommand("profile", "find the layer that lost the accuracy; writes the files of QuantAnalysis");
    command->add_option("model", options->model, "ONNX file of the float model")->required()->option_text("MODEL");
    options->data.add_to(*command, "samples that set the scales; the worst of them is analysed");
    options->quantize.add_to(*command);
    command->add_option("-o,--output", options->folder, "folder of the files")->required()->option_text("FOLDER");
    command->add_flag("--sensitivity", options->has_sensitivity, "also rank the operators by their sensitivity");
    command->add_flag("--json", options->is_json, "print one JSON object");
    command->callback([options, &action] { action = [options] { return profile(*options); }; });
}

}  // namespace intq_tool
