// SPDX-License-Identifier: MIT
#include "options.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <system_error>

namespace intq_tool {

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;

namespace {

/// Samples in one batch of calibration, and in one run in float.
constexpr index_t batch_size = 16;

DType dtype_of(const std::string& name) { return name == "int16" ? DType::int16 : DType::int8; }

}  // namespace

// --- targets --------------------------------------------------------------------------------------------------------

std::vector<std::string> target_names() {
    std::vector<std::string> names;
    const program::BackendTables best = program::runnable_tables().front();
    for (const kernels::KernelTable* table : best.tables) names.emplace_back(table->policy().name);
    return names;
}

const kernels::KernelTable& find_table(const std::string& target, const std::string& backend) {
    const std::string wanted = backend.empty() ? program::best_table<target::fp32>().backend : backend;
    for (const program::BackendTables& tables : program::runnable_tables())
        if (tables.name == wanted)
            for (const kernels::KernelTable* table : tables.tables)
                if (table->policy().name == target) return *table;
    std::string names;
    for (const program::BackendTables& tables : program::runnable_tables())
        names += (names.empty() ? "" : ", ") + std::string(tables.name);
    throw Error("this program has no kernels of the backend " + in_quotes(wanted) + " for the target " + target +
                " that this CPU runs; its backends: " + names);
}

// --- models ---------------------------------------------------------------------------------------------------------

interop::onnx::Model read_onnx(const std::string& path) {
    if (std::filesystem::path(path).extension() == ".tflite")
        throw Error(path,
                    "is a TFLite model, and this command takes ONNX; `intq codegen` and `intq run` take TFLite "
                    "models of codes");
    if (is_program_file(path))
        throw Error(path, "is a program file, and this command takes an ONNX model; `intq info` describes it");
    return interop::onnx::read_model(path);
}

std::vector<InputInfo> inputs_of(const interop::onnx::Model& file) {
    std::vector<InputInfo> inputs;
    for (const auto& input : file.graph.inputs) {
        const auto has_value = [&](const auto& tensor) { return tensor.name == input.name; };
        const auto& values = file.graph.initializers;
        if (std::none_of(values.begin(), values.end(), has_value)) inputs.push_back({input.name, input.shape});
    }
    return inputs;
}

namespace {

/// Puts DeQuantStubs before the outputs of a model that has several, with the names of these, by which a program then
/// knows them.
void name_outputs(graph::GraphModule& model, const std::vector<std::string>& names) {
    graph::Node& output = model.graph().output_node();
    if (names.size() < 2) return;
    std::map<graph::Node*, std::string> stubs;
    for (std::size_t i = 0; i < output.operands().size() && i < names.size(); ++i)
        stubs.emplace(output.operands()[i], names[i]);
    for (graph::Node* value : output.inputs()) {
        if (value->op() == graph::Op::placeholder) continue;
        std::string name = stubs.at(value);
        const auto is_of_names = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
        std::replace_if(
            name.begin(), name.end(), [&](char c) { return !is_of_names(c); }, '_');
        if (name.empty()) name = "output";
        while (model.has_child(name)) name += "_";
        model.add_child(name, std::make_shared<nn::DeQuantStub>());
        const auto at = model.graph().before(output);
        output.replace_input(*value, model.graph().call_module(name, {*value}));
    }
}

FloatModel model_of(const std::string& path, const interop::onnx::Model& file) {
    FloatModel model;
    try {
        model.module = interop::onnx::import_model(file);
    } catch (const Error& error) {
        throw Error(path, error);
    }
    model.module->eval();
    model.inputs = inputs_of(file);
    std::error_code ignored;
    model.file_bytes = std::filesystem::file_size(path, ignored);
    for (const auto& node : file.graph.nodes) model.is_quantized |= node.op_type == "QuantizeLinear";
    for (const auto& output : file.graph.outputs) model.outputs.push_back(output.name);
    name_outputs(*model.module, model.outputs);
    add_stubs(*model.module);
    return model;
}

}  // namespace

FloatModel read_model(const std::string& path) { return model_of(path, read_onnx(path)); }

void require_unquantized(const std::string& path, const interop::onnx::Model& file) {
    for (const auto& node : file.graph.nodes)
        if (node.op_type == "QuantizeLinear")
            throw Error(
                path, "the model is quantized already, it holds QuantizeLinear; `intq run` and `intq compare` take it");
}

FloatModel read_unquantized_model(const std::string& path) {
    const interop::onnx::Model file = read_onnx(path);
    require_unquantized(path, file);
    return model_of(path, file);
}

void require_one_input_and_output(const std::string& path, const FloatModel& model) {
    const auto refuse = [&](const char* what, const std::string& first, const std::string& second, std::size_t count) {
        throw Error(path, "it has " + std::to_string(count) + " " + what + ", " + in_quotes(first) + ", " +
                              in_quotes(second) + (count > 2 ? " ..." : "") + "; this command takes models of one");
    };
    if (model.inputs.size() > 1) refuse("inputs", model.inputs[0].name, model.inputs[1].name, model.inputs.size());
    if (model.outputs.size() > 1) refuse("outputs", model.outputs[0], model.outputs[1], model.outputs.size());
}

Samples first_of(const Samples& samples, index_t count) {
    Samples first;
    for (const Tensor& each : samples) first.push_back(each.batch(0, std::min(count, each.extent(0))));
    return first;
}

std::vector<Tensor> run_float(graph::GraphModule& model, const Samples& samples, index_t batch) {
    const BatchSource source = batches_of(samples, batch);
    std::vector<std::vector<Tensor>> parts;  // of each output
    io::Progress progress("float model", static_cast<std::int64_t>(source.count));
    for (std::size_t i = 0; i < source.count; ++i) {
        const std::vector<Tensor> outputs = nn::tensors_of(model.dispatch("forward", source.values(i)));
        parts.resize(outputs.size());
        for (std::size_t output = 0; output < outputs.size(); ++output) parts[output].push_back(outputs[output]);
        progress.update(static_cast<std::int64_t>(i + 1));
    }
    std::vector<Tensor> outputs;
    for (const std::vector<Tensor>& part : parts) outputs.push_back(nn::float_operators::cat(part, 0));
    return outputs;
}

// --- outputs --------------------------------------------------------------------------------------------------------

bool is_same_file(const std::string& a, const std::string& b) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(a, ignored) == std::filesystem::weakly_canonical(b, ignored);
}

void require_writable(const std::string& path, const std::vector<std::string>& inputs) {
    std::error_code ignored;
    if (path.empty()) throw Error("an output has no name");
    for (const std::string& input : inputs)
        if (!input.empty() && std::filesystem::equivalent(path, input, ignored) &&
            !std::filesystem::is_character_file(path, ignored))
            throw Error(path, "cannot be written: it is a file that this command reads");
    if (std::filesystem::is_directory(path, ignored)) throw Error(path, "cannot be written: it is a folder");
    if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) return;
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    // The file is replaced by a new one, so the folder decides.
    if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0)
        throw Error(path, "cannot be created: " + std::generic_category().message(errno));
}

CLI::Validator above_zero() {
    const auto check = [](const std::string& word) -> std::string {
        int value = 0;
        const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        const bool is_number = error == std::errc() && stop == word.data() + word.size();
        if (error == std::errc::result_out_of_range)
            return "expected a whole number up to " + std::to_string(std::numeric_limits<int>::max()) + ", given " +
                   in_quotes(word);
        return is_number && value > 0 ? "" : "expected a whole number above 0, given " + in_quotes(word);
    };
    return CLI::Validator(check, "");
}

CLI::Validator a_number() {
    const auto check = [](const std::string& word) -> std::string {
        float value = 0.0f;
        const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        const bool is_number = error == std::errc() && stop == word.data() + word.size() && value - value == 0.0f;
        return is_number ? "" : "expected a number, given " + in_quotes(word);
    };
    return CLI::Validator(check, "");
}

// --- quantizing -----------------------------------------------------------------------------------------------------

void QuantizeOptions::add_to(CLI::App& command) {
    command.add_option("--target", target, "the arithmetic; default: fp32")
        ->check(CLI::IsMember(target_names()))
        ->option_text("NAME");
    command.add_option("--dtype", dtype, "codes of activations: int8 or int16; default: int8")
        ->check(CLI::IsMember({"int8", "int16"}))
        ->option_text("TYPE");
    command.add_option("--scheme", scheme, "affine or symmetric activations; default: the target's")
        ->check(CLI::IsMember({"affine", "symmetric"}))
        ->option_text("NAME");
    std::string observers;
    for (const NamedObserver& row : observer_table().rows()) observers += (observers.empty() ? "" : ", ") + row.name;
    command.add_option("--observer", observer, "how a range is chosen: " + observers + "; default: min_max")
        ->option_text("NAME");
    command.add_option("--int16", int16, "layers whose outputs are int16, by name")->option_text("LAYER...");
    auto* list = command
                     .add_option("--sensitive-ops", sensitive_operators,
                                 "the list that `intq profile --sensitivity` writes: the first of it become int16")
                     ->option_text("FILE");
    auto* top = command.add_option("--top-k", top_k, "how many of --sensitive-ops")
                    ->check(above_zero())
                    ->needs(list)
                    ->option_text("COUNT");
    list->needs(top);
    auto* of_costs =
        command
            .add_option("--costs", costs,
                        "the file that `intq profile --layer-costs` writes: the layers that shall be int16 "
                        "within a budget are chosen by it")
            ->excludes(list)
            ->option_text("FILE");
    auto* seconds = command
                        .add_option("--max-seconds", most_seconds,
                                    "the least loss within this time of all layers of --costs, for one sample")
                        ->check(a_number())
                        ->needs(of_costs)
                        ->option_text("SECONDS");
    command.add_option("--max-loss", most_loss, "the least time within this sum of all losses of --costs")
        ->check(a_number())
        ->needs(of_costs)
        ->excludes(seconds)
        ->option_text("LOSS");
    command.parse_complete_callback([&command] {
        if (command.count("--costs") > 0 && command.count("--max-seconds") + command.count("--max-loss") == 0)
            throw CLI::ValidationError("--costs", "needs a budget, --max-seconds or --max-loss");
    });
    command.add_option("--float", in_float, "layers that stay in float, by name")->option_text("LAYER...");
    command.add_flag("--equalize", equalize, "equalize the weights of neighbouring layers first, where that helps");
    command.add_flag("--bias-correction", correct_bias, "correct the mean of each layer's error, where that helps");
    auto* rounds = command.add_flag("--adaround", adaround,
                                    "choose the rounding of each weight by the layer's output, where that helps");
    command
        .add_option("--adaround-iterations", adaround_iterations,
                    "for each layer; default: " + std::to_string(adaround_iterations))
        ->check(CLI::Range(1, 10'000'000))
        ->needs(rounds)
        ->option_text("COUNT");
    group_options(command, "Quantization",
                  {"--target", "--dtype", "--scheme", "--observer", "--int16", "--sensitive-ops", "--top-k", "--costs",
                   "--max-seconds", "--max-loss", "--float", "--equalize", "--bias-correction", "--adaround",
                   "--adaround-iterations"});
}

void QuantizeOptions::set_uniform(const std::string& type) {
    dtype = type;
    sensitive_operators.clear();
    costs.clear();
    int16.clear();
    adaround = correct_bias = false;
}

const kernels::KernelTable& QuantizeOptions::table(const std::string& backend) const {
    return find_table(target, backend);
}

QConfig QuantizeOptions::qconfig(const std::string& type) const {
    QConfig qconfig = get_default_qconfig(table().policy(), dtype_of(type), DType::int8);
    ObserverOptions& output = qconfig.output->options.observer_options;
    if (!scheme.empty())
        output.scheme = scheme == "affine" ? arith::QuantScheme::affine : arith::QuantScheme::symmetric;
    // A moving average would forget all but the first of few batches.
    qconfig.output->options.observer = observer_table().at(observer.empty() ? "min_max" : observer).per_tensor;
    return qconfig;
}

QConfigMapping QuantizeOptions::mapping() const {
    QConfigMapping mapping = QConfigMapping().set_global(qconfig(dtype));
    if (!sensitive_operators.empty()) {
        SensitiveRule rule;
        rule.top_k = static_cast<std::size_t>(top_k);
        rule.qconfig = qconfig("int16");
        const auto list = read_sensitivity_list(sensitive_operators);
        if (list.empty()) throw Error(sensitive_operators, "no line of it names an operator");
        set_sensitive_operators(mapping, list, rule);
    }
    if (!costs.empty()) {
        const auto measured = improve::read_layer_costs(costs);
        const auto choice = most_seconds ? improve::choose_within_seconds(measured, *most_seconds)
                                         : improve::choose_within_loss(measured, most_loss.value());
        improve::set_mixed_precision(mapping, choice, qconfig("int16"));
    }
    for (const std::string& layer : int16) mapping.set_module_name(layer, qconfig("int16"));
    for (const std::string& layer : in_float) mapping.set_module_name(layer, std::nullopt);
    return mapping;
}

namespace {

struct Calibrated {
    std::shared_ptr<PreparedModel> model;
    CalibrationReport report;
};

Calibrated calibrated(const graph::GraphModule& fused, const Samples& calibration, const QuantizeOptions& options) {
    // Two samples, so that what mixes them is refused before the calibration.
    auto prepared = prepare_calibration_fx(fused, options.mapping(), options.table().policy(),
                                           {.example_inputs = first_of(calibration, 2)});
    const index_t samples = calibration.front().extent(0);
    io::Progress progress("calibration", samples);
    CalibrationOptions run;
    run.progress = [&](std::size_t done, std::size_t) {
        progress.update(std::min<std::int64_t>(static_cast<std::int64_t>(done) * batch_size, samples));
    };
    CalibrationReport report = calibrate(*prepared, batches_of(calibration, batch_size), run);
    return {std::move(prepared), std::move(report)};
}

}  // namespace

std::shared_ptr<PreparedModel> prepare(const graph::GraphModule& model, const Samples& calibration,
                                       const QuantizeOptions& options, PrepareNotes* notes) {
    const arith::PolicyRecord& policy = options.table().policy();
    const auto fused = fuse_fx(model, {.fused_add = policy.fused_add});
    auto [prepared, report] = calibrated(*fused, calibration, options);
    // Small enough batches that some are left to judge.
    const BatchSource samples =
        batches_of(calibration, std::clamp<index_t>((calibration.front().extent(0) + 3) / 4, 1, batch_size));
    PrepareNotes found;
    const auto keep = [&](const char* name, const improve::BetterOf& choice) {
        found.improvements.push_back({name, to_string(choice)});
    };
    if (options.equalize) {
        const improve::HeldOut held = improve::hold_out(samples);
        const auto equalized = fuse_fx(model, {.fused_add = policy.fused_add});
        improve::equalize(*equalized, held.learn, options.qconfig(options.dtype), policy);
        Calibrated changed = calibrated(*equalized, calibration, options);
        const improve::BetterOf choice = improve::take_better(prepared, changed.model, *fused, held.judge);
        if (choice.is_kept) report = std::move(changed.report);
        keep("equalization", choice);
    }
    if (options.adaround)
        keep("adaround", improve::improve_if_better(prepared, *fused, samples, [&](auto& changed, const auto& learn) {
                 improve::adaround(changed, learn, {.iterations = options.adaround_iterations});
             }));
    if (options.correct_bias)
        keep("bias correction",
             improve::improve_if_better(prepared, *fused, samples, [](auto& changed, const auto& learn) {
                 improve::correct_bias(changed, learn);
             }));
    found.calibration = std::move(report);
    if (notes != nullptr) *notes = std::move(found);
    return prepared;
}

}  // namespace intq_tool
