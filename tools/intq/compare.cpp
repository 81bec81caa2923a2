// SPDX-License-Identifier: MIT
//
// intq check and compare: what lowers, and what was lost.
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
///
/// @param shape  of an input; rank 0 where none is known
std::vector<std::vector<std::string>> refusals_of(const graph::GraphModule& model, const std::string& target,
                                                  const std::string& dtype, const Shape& shape) {
    QuantizeOptions quantize;
    quantize.target = target;
    quantize.dtype = dtype;
    PrepareOptions prepare_options;
    if (shape.rank > 0) prepare_options.example_inputs = {Tensor::zeros(shape)};
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

/// The shape of --shape, or that of the file with one sample where it states all other extents.
Shape shape_to_check(const CheckOptions& options, const FloatModel& model) {
    std::vector<index_t> extents = options.shape;
    if (!extents.empty()) {
        require_one_input(options.model, model);
        // Other extents than those of the file are a question that may be asked.
        if (!model.input.empty() && extents.size() != model.input.size())
            throw Error(options.model,
                        "takes " + describe_shape(model.input) + ", and --shape says " + describe_shape(extents));
    } else if (model.inputs.size() == 1) {
        extents = model.input;
        if (!extents.empty()) extents[0] = 1;
    }
    Shape shape;
    if (std::find(extents.begin(), extents.end(), -1) != extents.end() ||
        extents.size() > static_cast<std::size_t>(max_rank))
        return shape;
    for (const index_t extent : extents) shape.extents[static_cast<std::size_t>(shape.rank++)] = extent;
    return shape;
}

int check(const CheckOptions& options) {
    const auto model = read_unquantized_model(options.model);
    const Shape shape = shape_to_check(options, model);
    const std::vector<std::string> targets = options.targets.empty() ? target_names() : options.targets;
    std::vector<std::vector<std::string>> rows;
    Report report(options.is_json);
    for (const std::string& target : targets) {
        const auto refused = refusals_of(*model.module, target, options.dtype, shape);
        report.text(target, refused.empty() ? "all operators lower" : std::to_string(refused.size()) + " do not lower");
        rows.insert(rows.end(), refused.begin(), refused.end());
    }
    if (!rows.empty() || report.is_json()) report.table("refusals", {{"target"}, {"node"}, {"type"}, {"reason"}}, rows);
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
    const ProgramFile file = read_runnable(options.program, {.batch = 16});
    const Tensor samples = options.data.read(model.input);
    const Tensor expected = run_float(*model.module, samples);
    const std::vector<Tensor> outputs =
        file.run_real(file.takes_pixels() ? options.data.read_pixels(model.input) : samples);
    if (outputs.size() != 1)
        throw Error(options.program, "it gives " + std::to_string(outputs.size()) + " outputs, and the model one");
    const Tensor& given = outputs.front();
    if (given.size() != expected.size())
        throw Error(options.program, std::string("it gives ") + name_of(given.dtype()) + " " +
                                         intq::to_string(given.shape()) + ", and the model float32 " +
                                         intq::to_string(expected.shape()));
    numeric_suite::TensorComparison comparison;
    comparison.add(expected.flat<float>(), given.flat<float>(), expected.shape());
    Report report(options.is_json);
    report.count("samples", samples.extent(0));
    report.number("SQNR", sqnr_of(expected, given), "dB");
    report.number("cosine", comparison.cosine());
    report.number("mean error", comparison.l1());
    report.number("largest error", comparison.atol());
    if (expected.rank() == 2) report.count("same class", count_equal(classes_of(expected), classes_of(given)));
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
    command->add_option("--dtype", options->dtype, "int8 or int16; default: int8")
        ->check(CLI::IsMember({"int8", "int16"}))
        ->option_text("TYPE");
    command
        ->add_option("--shape", options->shape, "of the input, with its samples: what depends on shapes is checked too")
        ->check(above_zero())
        ->expected(1, max_rank)
        ->option_text("EXTENT...");
    command->add_flag("--json", options->is_json, "print one JSON object");
    add_examples(*command, {"intq check model.onnx", "intq check model.onnx --target litert --shape 1 3 224 224"});
    command->callback([options, &action] { action = [options] { return check(*options); }; });
}

void add_compare(CLI::App& app, Action& action) {
    auto options = std::make_shared<CompareOptions>();
    CLI::App* command = app.add_subcommand("compare", "outputs of a program file beside those of the float model");
    command->add_option("model", options->model, "ONNX file of the float model")->required()->option_text("MODEL");
    command->add_option("program", options->program, runnable_help)->required()->option_text("PROGRAM");
    options->data.add_to(*command, "samples");
    command->add_flag("--json", options->is_json, "print one JSON object");
    add_examples(*command, {"intq compare model.onnx model.intq --data test.npy"});
    command->callback([options, &action] { action = [options] { return compare(*options); }; });
}

}  // namespace intq_tool
