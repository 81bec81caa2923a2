// SPDX-License-Identifier: MIT
//
// intq targets: one float model on every target, and what each cost; for one target layer by layer. Long because both
// tables are of the same models, quantized and run in one way.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "evaluation.hpp"

namespace intq_tool {

namespace {

using namespace intq;
using intq::Tensor;

/// Images per batch of calibration.
constexpr index_t calibration_batch = 20;
/// Images that the table of layers is made from.
constexpr index_t layer_images = 200;

const std::string shipped = INTQ_TOOL_EXAMPLES "/digits/data/";

/// A target with a type and a scheme of activations: one row of the comparison.
struct Configuration {
    std::string target;
    DType dtype, weight_dtype;
    arith::QuantScheme scheme;
    const kernels::KernelTable* kernels;

    const char* scheme_name() const { return scheme == arith::QuantScheme::affine ? "affine" : "symmetric"; }
};

/// fp32 and tflite in int8, affine, which is their default, and symmetric, and in int16; litert, bernoulli2 and bayes
/// in int8; litert, bayes and meta in int16 (meta with int16 weights).
std::vector<Configuration> all_configurations() {
    constexpr auto affine = arith::QuantScheme::affine, symmetric = arith::QuantScheme::symmetric;
    std::vector<Configuration> rows;
    const auto add = [&](const char* target, DType dtype, DType weight_dtype, arith::QuantScheme scheme) {
        rows.push_back({target, dtype, weight_dtype, scheme, &find_table(target)});
    };
    for (const char* target : {"fp32", "tflite"}) {
        for (const auto scheme : {affine, symmetric}) add(target, DType::int8, DType::int8, scheme);
        add(target, DType::int16, DType::int8, symmetric);
    }
    add("litert", DType::int8, DType::int8, affine);
    add("litert", DType::int16, DType::int8, symmetric);
    add("bernoulli2", DType::int8, DType::int8, symmetric);
    add("bayes", DType::int8, DType::int8, symmetric);
    add("bayes", DType::int16, DType::int8, symmetric);
    add("meta", DType::int16, DType::int16, symmetric);
    return rows;
}

struct Arguments {
    std::string model = shipped + "digits_resnet.onnx";
    std::string calibration = shipped + "calibration_images.npy";
    std::string images = shipped + "test_images.npy";
    std::string labels;                 // empty: those of the shipped images, and none of others
    std::string target, dtype, scheme;  // empty: all
    std::string layers = "bayes";
    NormalizeOptions normalize;
    int calibration_count = 0;  // 0: all
    int batch = 20;
    bool is_json = false;
};

struct Data {
    Tensor calibration, images;
    std::optional<std::vector<index_t>> labels;
};

std::vector<index_t> read_labels(const std::string& path, index_t count) {
    const Tensor labels = intq::load_npy(path);
    if (labels.rank() != 1 || labels.extent(0) != count)
        throw Error(path, "expected one label for each of " + std::to_string(count) + " images, given shape " +
                              intq::to_string(labels.shape()));
    std::vector<index_t> classes;
    const auto take = [&](auto values) { classes.assign(values.begin(), values.end()); };
    if (labels.dtype() == DType::int64)
        take(labels.flat<std::int64_t>());
    else if (labels.dtype() == DType::int32)
        take(labels.flat<std::int32_t>());
    else if (labels.dtype() == DType::uint8)
        take(labels.flat<std::uint8_t>());
    else
        throw Error(path, std::string("labels must be int64, int32 or uint8, given ") + name_of(labels.dtype()));
    return classes;
}

Data read_data(const Arguments& arguments, const std::vector<index_t>& input) {
    Data data;
    data.calibration = read_samples(arguments.calibration, arguments.normalize, input, arguments.calibration_count);
    data.images = read_samples(arguments.images, arguments.normalize, input);
    const Arguments defaults;
    const std::string labels = arguments.labels.empty() && arguments.images == defaults.images
                                   ? shipped + "test_labels.npy"
                                   : arguments.labels;
    if (!labels.empty() && labels != "none") data.labels = read_labels(labels, data.images.extent(0));
    return data;
}

/// Fuses, calibrates and converts the model for one configuration.
quantization::QuantizedGraph quantize_for(const Configuration& configuration, const graph::GraphModule& model,
                                          const Tensor& calibration) {
    // Few images calibrate here: each counts in full, where the default's moving average would forget all but the
    // first.
    quantization::QConfig qconfig = quantization::get_default_qconfig(configuration.kernels->policy(),
                                                                      configuration.dtype, configuration.weight_dtype);
    qconfig.output->options.observer_options.scheme = configuration.scheme;
    qconfig.output->options.observer = quantization::observer_factory<quantization::MinMaxObserver>();
    const auto mapping = quantization::QConfigMapping().set_global(qconfig);
    const auto prepared = quantization::prepare_calibration_fx(model, mapping, configuration.kernels->policy());
    io::Progress progress(configuration.target + " calibration", calibration.extent(0));
    quantization::calibrate(*prepared, calibration, calibration_batch, [&](std::size_t done, std::size_t) {
        progress.update(static_cast<std::int64_t>(done) * calibration_batch);
    });
    return quantization::convert_fx(*prepared);
}

std::string percent(index_t part, index_t whole) {
    return digits("%.2f %%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

/// How many samples have the class that float gives them; of outputs that are no classes, nothing.
std::string agreement(const Tensor& logits, const Tensor& reference) {
    if (reference.rank() != 2) return "-";
    return percent(count_equal(classes_of(logits), classes_of(reference)), reference.extent(0));
}

std::string accuracy(const Tensor& logits, const Data& data) {
    return data.labels ? percent(count_equal(classes_of(logits), *data.labels), data.images.extent(0)) : "-";
}

struct Timed {
    Tensor logits;
    double microseconds_per_image;
};

Timed timed(index_t images, const std::function<Tensor()>& run) {
    const auto start = std::chrono::steady_clock::now();
    Tensor logits = run();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    return {logits, time.count() / static_cast<double>(images)};
}

index_t float_bytes(graph::GraphModule& model) {
    index_t bytes = 0;
    for (const auto& parameter : model.named_parameters()) bytes += parameter.value->bytes();
    for (const auto& buffer : model.named_buffers()) bytes += buffer.value->bytes();
    return bytes;
}

using Rows = std::vector<std::vector<std::string>>;

/// Rows of targets, and the reason of the first configuration that refused, where all did.
struct Comparison {
    Rows rows;
    std::optional<std::string> refusal;
};

const Report::Columns target_columns{{"target"},
                                     {"dtype"},
                                     {"scheme"},
                                     {"accuracy", io::Align::right},
                                     {"correct", io::Align::right},
                                     {"as float", io::Align::right},
                                     {"SQNR dB", io::Align::right},
                                     {"model bytes", io::Align::right},
                                     {"arena bytes, 1 image", io::Align::right},
                                     {"us/image", io::Align::right},
                                     {"refusal"}};

std::string correct(const Tensor& logits, const Data& data) {
    return data.labels ? std::to_string(count_equal(classes_of(logits), *data.labels)) + "/" +
                             std::to_string(data.images.extent(0))
                       : "-";
}

/// What one configuration gives.
std::vector<std::string> row_of(const Configuration& configuration, const graph::GraphModule& model, const Data& data,
                                const Tensor& reference, index_t batch) {
    const index_t count = data.images.extent(0);
    const auto quantized = quantize_for(configuration, model, data.calibration);
    const auto lowered = quantization::lower(quantized, *configuration.kernels, batch);
    // What a board needs, which runs one image at a time.
    const auto of_one = quantization::lower(quantized, *configuration.kernels, 1);
    const Timed result = timed(count, [&] { return lowered.run(data.images); });
    const double sqnr = sqnr_of(reference, result.logits);
    require_number(configuration.target, sqnr);
    return {configuration.target,
            name_of(configuration.dtype),
            configuration.scheme_name(),
            accuracy(result.logits, data),
            correct(result.logits, data),
            agreement(result.logits, reference),
            digits("%.2f", sqnr),
            std::to_string(lowered.program().packed_bytes()),
            std::to_string(of_one.program().arena_bytes()),
            digits("%.1f", result.microseconds_per_image),
            ""};
}

/// One row for float, one for each configuration: what it gives, or why it refuses the model.
Comparison compare_targets(const std::vector<Configuration>& configurations, graph::GraphModule& model,
                           const Data& data, const Arguments& arguments) {
    Comparison comparison;
    const index_t count = data.images.extent(0);
    const Timed reference = timed(count, [&] { return run_float(model, {data.images}, arguments.batch).front(); });
    if (are_indices(reference.logits))
        throw Error(arguments.model,
                    "it returns indices, and classes are counted from scores; end it before its ArgMax");
    comparison.rows.push_back({"float", "float32", "-", accuracy(reference.logits, data),
                               correct(reference.logits, data), agreement(reference.logits, reference.logits), "-",
                               std::to_string(float_bytes(model)), "-",
                               digits("%.1f", reference.microseconds_per_image), ""});
    std::size_t refused = 0;
    for (const Configuration& configuration : configurations) try {
            comparison.rows.push_back(row_of(configuration, model, data, reference.logits, arguments.batch));
        } catch (const Error& error) {
            ++refused;
            if (!comparison.refusal) comparison.refusal = error.what();
            std::vector<std::string> row{configuration.target, name_of(configuration.dtype),
                                         configuration.scheme_name()};
            row.resize(10, "-");
            row.push_back(std::string("refused: ") + error.what());
            comparison.rows.push_back(row);
        }
    if (refused < configurations.size()) comparison.refusal.reset();
    return comparison;
}

const Report::Columns layer_columns{{"layer"},
                                    {"type"},
                                    {"dtype"},
                                    {"scale", io::Align::right},
                                    {"SQNR dB", io::Align::right},
                                    {"cosine", io::Align::right}};

/// What a table of layers knows of the float model, by the names of modules and of other nodes.
struct FloatLayers {
    std::map<std::string, Tensor> outputs;
    std::map<std::string, std::string> only_readers;
};

FloatLayers layers_of(graph::GraphModule& model, const Tensor& images) {
    FloatLayers layers;
    const auto name_of_layer = [](const graph::Node& node) {
        return node.op() == graph::Op::call_module ? node.target() : node.name();
    };
    const std::vector<nn::Value> inputs{images};
    model.run(inputs, [&](const graph::Node& node, const nn::Value& value) {
        if (value.is_tensor()) layers.outputs[name_of_layer(node)] = value.tensor().contiguous();
        if (node.users().size() == 1) layers.only_readers[name_of_layer(node)] = name_of_layer(*node.users().front());
    });
    return layers;
}

/// The float output that an instruction computes: that of its layer, or of the reader that was folded into it, which
/// has no instruction of its own. An add takes its relu in this way.
const Tensor* float_output_of(const std::string& instruction, const FloatLayers& layers,
                              const std::set<std::string>& instructions) {
    std::string name = instruction;
    for (auto reader = layers.only_readers.find(name);
         reader != layers.only_readers.end() && instructions.count(reader->second) == 0 &&
         layers.outputs.count(reader->second) != 0;
         reader = layers.only_readers.find(name))
        name = reader->second;
    const auto output = layers.outputs.find(name);
    return output == layers.outputs.end() ? nullptr : &output->second;
}

/// The layers of one configuration beside those of the fused float model.
Rows compare_layers(const Configuration& configuration, const graph::GraphModule& model, const Data& data) {
    Rows rows;
    const Tensor images = data.images.batch(0, std::min(layer_images, data.images.extent(0)));
    const auto fused = quantization::fuse_fx(model, {.fused_add = configuration.kernels->policy().fused_add});
    const FloatLayers expected = layers_of(*fused, images);
    const auto lowered = quantization::lower(quantize_for(configuration, model, data.calibration),
                                             *configuration.kernels, images.extent(0));
    const runtime::Program& program = lowered.whole_program().program();
    intq::program::KeptOutputs kept(program, images.extent(0));
    lowered.whole_program().run(images, serial, kept.hook());
    std::set<std::string> names;
    for (const runtime::Instruction& instruction : program.instructions) names.insert(instruction.name);
    for (const runtime::Instruction& instruction : program.instructions) {
        if (instruction.op == OpKind::layout_change) continue;
        const Tensor y = kept.tensor(instruction.output).value();
        const auto& grid = y.qparams();
        const Tensor given = grid ? dequantize(y, *grid) : y.contiguous();
        const Tensor* const known = float_output_of(instruction.name, expected, names);
        std::string sqnr = "-", cosine = "-";
        if (known != nullptr && known->size() == given.size()) {
            const auto a = known->flat<float>(), b = given.flat<float>();
            sqnr = digits("%.2f", static_cast<double>(numeric_suite::compute_sqnr(a, b)));
            cosine = digits("%.6f", static_cast<double>(numeric_suite::compute_cosine_similarity(a, b)));
        }
        const std::string scale = !grid                    ? "-"
                                  : grid->is_per_channel() ? "per channel"
                                                           : digits("%.7g", static_cast<double>(grid->scale()));
        rows.push_back({instruction.name, instruction.type, name_of(y.dtype()), scale, sqnr, cosine});
    }
    return rows;
}

std::vector<Configuration> chosen(const Arguments& arguments) {
    std::vector<Configuration> result;
    for (const Configuration& configuration : all_configurations())
        if ((arguments.target.empty() || arguments.target == configuration.target) &&
            (arguments.dtype.empty() || arguments.dtype == name_of(configuration.dtype)) &&
            (arguments.scheme.empty() || arguments.scheme == configuration.scheme_name()))
            result.push_back(configuration);
    if (result.empty())
        throw Error("no configuration here has what --target, --dtype and --scheme ask for: " + arguments.target + " " +
                    arguments.dtype + " " + arguments.scheme + "; see --help");
    return result;
}

/// Adds the layers of the chosen configuration, where one was chosen.
void add_layers(Report& report, const std::vector<Configuration>& configurations, const graph::GraphModule& model,
                const Data& data, const Arguments& arguments) {
    if (arguments.layers == "none") return;
    const std::string wanted = arguments.target.empty() ? arguments.layers : arguments.target;
    const auto chosen = std::find_if(configurations.begin(), configurations.end(),
                                     [&](const Configuration& row) { return row.target == wanted; });
    if (chosen == configurations.end()) return;
    const std::string title =
        "layers of " + wanted + ", " + name_of(chosen->dtype) + ", " + chosen->scheme_name() + ", against float";
    try {
        report.table("layers", layer_columns, compare_layers(*chosen, model, data), title);
    } catch (const Error& error) {
        report.text(title, std::string("refused: ") + error.what());
    }
}

int run(const Arguments& arguments) {
    const std::vector<Configuration> configurations = chosen(arguments);
    const FloatModel model = read_unquantized_model(arguments.model);
    require_one_input_and_output(arguments.model, model);
    const Data data = read_data(arguments, model.inputs.front().extents);
    require_proportion(arguments.model, model, std::span(&data.images, 1));
    Report report(arguments.is_json);
    report.text("model", arguments.model);
    report.count("calibration images", data.calibration.extent(0));
    report.text("test images", intq::to_string(data.images.shape()));
    report.text("runs on", configurations.front().kernels->backend);
    const Comparison targets = compare_targets(configurations, *model.module, data, arguments);
    report.table("targets", target_columns, targets.rows);
    if (!targets.refusal) add_layers(report, configurations, *model.module, data, arguments);
    report.print();
    if (targets.refusal) throw Error(*targets.refusal);
    return 0;
}

}  // namespace

void add_targets(CLI::App& app, Action& action) {
    auto arguments = std::make_shared<Arguments>();
    CLI::App& command = *app.add_subcommand(
        "targets", "compare all targets on a model: accuracy, SQNR, size and time, and the layers of one target");
    Arguments& a = *arguments;
    command.add_option("--model", a.model, "ONNX file of the float model; default: the shipped digits")
        ->option_text("FILE");
    command
        .add_option("--calibration", a.calibration,
                    "images (N, C, H, W) that set the scales, float32 or uint8, or other float32 samples (N, ...), "
                    ".npy, or a folder of PNG and JPEG pictures")
        ->option_text("FILE|FOLDER");
    command.add_option("--images", a.images, "images or samples to test on, like --calibration")
        ->option_text("FILE|FOLDER");
    command
        .add_option("--labels", a.labels,
                    "their classes, integers (N), .npy; default: the shipped images' own, and none for others")
        ->option_text("FILE");
    a.normalize.add_to(command);
    const std::vector<std::string> names{"fp32", "tflite", "litert", "bernoulli2", "bayes", "meta"};
    command.add_option("--target", a.target, "fp32, tflite, litert, bernoulli2, bayes or meta; default: all of them")
        ->check(CLI::IsMember(names))
        ->option_text("NAME");
    command.add_option("--dtype", a.dtype, "int8 or int16; default: both")
        ->check(CLI::IsMember({"int8", "int16"}))
        ->option_text("TYPE");
    command.add_option("--scheme", a.scheme, "affine or symmetric activations; default: both")
        ->check(CLI::IsMember({"affine", "symmetric"}))
        ->option_text("NAME");
    auto with_none = names;
    with_none.push_back("none");
    command.add_option("--layers", a.layers, "target of the table of layers (default: bayes, or the one of --target)")
        ->check(CLI::IsMember(with_none))
        ->option_text("NAME");
    command.add_option("--calibration-count", a.calibration_count, "use only the first COUNT calibration images")
        ->check(above_zero())
        ->option_text("COUNT");
    command.add_option("--batch", a.batch, "images in a run of the program (default: 20)")
        ->check(CLI::Range(1, 4096))
        ->option_text("COUNT");
    command.add_flag("--json", a.is_json, "print one JSON object");
    group_options(command, "Data", {"--model", "--calibration", "--images", "--labels", "--calibration-count"});
    group_options(command, "Rows", {"--target", "--dtype", "--scheme", "--layers", "--batch"});
    add_examples(command, {"intq targets", "intq targets --model model.onnx --calibration calibration.npy \\",
                           "    --images test.npy --labels labels.npy --layers tflite"});
    command.callback([arguments, &action] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace intq_tool
