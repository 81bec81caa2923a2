// SPDX-License-Identifier: MIT
//
// How a model is quantized, as the options say.
#include <algorithm>
#include <optional>

#include "options.hpp"

namespace intq_tool {

using namespace intq;
using namespace intq::quantization;

namespace {

/// Samples in one batch of calibration.
constexpr index_t batch_size = 16;

DType dtype_of(const std::string& name) { return name == "int16" ? DType::int16 : DType::int8; }

}  // namespace

void add_weight_dtype(CLI::App& command, std::string& weight_dtype) {
    command.add_option("--weight-dtype", weight_dtype, "weights of layers in int16: int8 or int16; default: int8")
        ->check(CLI::IsMember({"int8", "int16"}))
        ->option_text("TYPE");
}

void QuantizeOptions::add_to(CLI::App& command) {
    command.add_option("--target", target, "the arithmetic; default: fp32")
        ->check(CLI::IsMember(target_names()))
        ->option_text("NAME");
    command.add_option("--dtype", dtype, "codes of activations: int8 or int16; default: int8")
        ->check(CLI::IsMember({"int8", "int16"}))
        ->option_text("TYPE");
    add_weight_dtype(command, weight_dtype);
    command.add_option("--scheme", scheme, "affine or symmetric activations; default: the target's")
        ->check(CLI::IsMember({"affine", "symmetric"}))
        ->option_text("NAME");
    std::string observers;
    for (const NamedObserver& row : observer_table().rows()) observers += (observers.empty() ? "" : ", ") + row.name;
    command.add_option("--observer", observer, "how a range is chosen: " + observers + "; default: min_max")
        ->option_text("NAME");
    command
        .add_option("--preset", preset,
                    "transformer: residual adds, norms and what they pass on in int16, all else in int8")
        ->check(CLI::IsMember({"transformer"}))
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
    command.parse_complete_callback([&command, this] {
        if (weight_dtype == "int16" && dtype != "int16" && int16.empty() && preset.empty() &&
            sensitive_operators.empty() && costs.empty())
            throw CLI::ValidationError("--weight-dtype",
                                       "is for layers in int16, and --dtype, --int16, --preset, "
                                       "--sensitive-ops or --costs asks for some");
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
                  {"--target", "--dtype", "--weight-dtype", "--scheme", "--observer", "--preset", "--int16",
                   "--sensitive-ops", "--top-k", "--costs", "--max-seconds", "--max-loss", "--float", "--equalize",
                   "--bias-correction", "--adaround", "--adaround-iterations"});
}

void QuantizeOptions::set_uniform(const std::string& type) {
    dtype = type;
    sensitive_operators.clear();
    costs.clear();
    int16.clear();
    preset.clear();
    adaround = correct_bias = false;
}

const kernels::KernelTable& QuantizeOptions::table(const std::string& backend) const {
    return find_table(target, backend);
}

QConfig QuantizeOptions::qconfig(const std::string& type) const {
    const std::string& weights = type == "int16" ? weight_dtype : type;
    QConfig qconfig = get_default_qconfig(table().policy(), dtype_of(type), dtype_of(weights));
    ObserverOptions& output = qconfig.output->options.observer_options;
    if (!scheme.empty())
        output.scheme = scheme == "affine" ? arith::QuantScheme::affine : arith::QuantScheme::symmetric;
    // A moving average would forget all but the first of few batches.
    qconfig.output->options.observer = observer_table().at(observer.empty() ? "min_max" : observer).per_tensor;
    return qconfig;
}

std::vector<StreamLayer> QuantizeOptions::apply_preset(const nn::Module& model) {
    if (preset.empty()) return {};
    std::vector<StreamLayer> layers = residual_stream(model, table().policy());
    for (const StreamLayer& layer : layers) int16.push_back(layer.name);
    return layers;
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
                                       const QuantizeOptions& given, PrepareNotes* notes) {
    QuantizeOptions options = given;
    PrepareNotes found;
    found.stream = options.apply_preset(model);
    const arith::PolicyRecord& policy = options.table().policy();
    if (!options.preset.empty()) found.left = norms_outside_stream(model, policy);
    const auto fused = fuse_fx(model, {.fused_add = policy.fused_add});
    auto [prepared, report] = calibrated(*fused, calibration, options);
    // Small enough batches that some are left to judge.
    const BatchSource samples =
        batches_of(calibration, std::clamp<index_t>((calibration.front().extent(0) + 3) / 4, 1, batch_size));
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
