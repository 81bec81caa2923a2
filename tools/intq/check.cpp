// SPDX-License-Identifier: MIT
//
// intq check: which operators of a model lower for a target, before any calibration.
#include <algorithm>
#include <map>
#include <sstream>

#include "options.hpp"

namespace intq_tool {

namespace {

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;

struct CheckOptions {
    std::string model, dtype = "int8", weight_dtype = "int8";
    std::vector<std::string> targets, shape;
    bool is_json = false;
};

using Rows = std::vector<std::vector<std::string>>;

/// Whole numbers above 0 with commas between them; empty where the text is something else.
std::vector<index_t> extents_of(const std::string& text) {
    std::vector<index_t> extents;
    std::istringstream words(text);
    for (std::string word; std::getline(words, word, ',');) {
        if (!above_zero()(word).empty()) return {};
        extents.push_back(std::stoi(word));
    }
    return extents.size() <= static_cast<std::size_t>(max_rank) ? extents : std::vector<index_t>();
}

/// The shapes of --shape by the names of inputs; of a lone list of numbers by the name "".
std::map<std::string, std::vector<index_t>> shapes_of(const CheckOptions& options) {
    const auto refuse = [](const std::string& why) { throw CLI::ValidationError("--shape", why); };
    std::map<std::string, std::vector<index_t>> shapes;
    for (const std::string& word : options.shape) {
        const std::size_t sign = word.rfind('=');
        const std::string name = sign == word.npos ? "" : word.substr(0, sign);
        const std::vector<index_t> extents = extents_of(sign == word.npos ? word : word.substr(sign + 1));
        if (extents.empty())
            refuse("expected a whole number above 0, given " + in_quotes(word) +
                   "; for several inputs NAME=EXTENT,EXTENT,...");
        std::vector<index_t>& shape = shapes[name];
        if (!name.empty() && !shape.empty()) refuse("the input " + in_quotes(name) + " is given twice");
        shape.insert(shape.end(), extents.begin(), extents.end());
        if (shape.size() > static_cast<std::size_t>(max_rank))
            refuse("at most " + std::to_string(max_rank) + " extents are possible");
    }
    if (shapes.size() > 1 && shapes.count("") != 0) refuse("numbers are mixed with NAME=EXTENT,EXTENT,...");
    return shapes;
}

/// The shape of --shape for an input, or that of the file with two samples where it states all other extents; of
/// rank 0 where it is not known.
Shape shape_of(const CheckOptions& options, const InputInfo& input, const std::vector<index_t>* given) {
    std::vector<index_t> extents = input.extents;
    // Other extents than those of the file are a question that may be asked.
    if (given != nullptr && !extents.empty() && given->size() != extents.size())
        throw Error(options.model, "the input " + in_quotes(input.name) + " takes " + describe_shape(extents) +
                                       ", and --shape says " + describe_shape(*given));
    if (given != nullptr)
        extents = *given;
    else if (!extents.empty())
        extents[0] = 2;  // of one sample nobody sees whether it is mixed with others
    Shape shape;
    if (std::find(extents.begin(), extents.end(), -1) != extents.end() ||
        extents.size() > static_cast<std::size_t>(max_rank))
        return shape;
    for (const index_t extent : extents) shape.extents[static_cast<std::size_t>(shape.rank++)] = extent;
    return shape;
}

/// A tensor for each input; empty where the shape of one is not known.
std::vector<Tensor> example_inputs(const CheckOptions& options, const std::vector<InputInfo>& inputs) {
    auto shapes = shapes_of(options);
    const auto lone = shapes.find("");
    if (lone != shapes.end() && inputs.size() > 1)
        throw Error(options.model, "it has " + std::to_string(inputs.size()) + " inputs, " + in_quotes(inputs[0].name) +
                                       ", " + in_quotes(inputs[1].name) + (inputs.size() > 2 ? " ..." : "") +
                                       "; give --shape NAME=EXTENT,EXTENT,...");
    std::vector<Tensor> examples;
    bool is_known = true;
    for (const InputInfo& input : inputs) {
        const auto named = shapes.find(input.name);
        const auto* given = lone != shapes.end() ? &lone->second : named != shapes.end() ? &named->second : nullptr;
        const Shape shape = shape_of(options, input, given);
        is_known = is_known && shape.rank > 0;
        if (is_known) examples.push_back(Tensor::of_shape(shape, input.takes_ids ? DType::int64 : DType::float32));
        if (named != shapes.end()) shapes.erase(named);
    }
    if (lone == shapes.end() && !shapes.empty())
        throw Error(options.model, "it has no input " + in_quotes(shapes.begin()->first) + ", which --shape names");
    return is_known ? examples : std::vector<Tensor>();
}

/// What a target says of a model.
LoweringReport report_of(const graph::GraphModule& model, const std::string& target, const CheckOptions& check,
                         const std::vector<Tensor>& examples) {
    QuantizeOptions quantize;
    quantize.target = target;
    quantize.dtype = check.dtype;
    quantize.weight_dtype = check.weight_dtype;
    PrepareOptions options;
    options.example_inputs = examples;
    try {
        return lowering_report(model, quantize.mapping(), quantize.table().policy(), options);
    } catch (const Error& error) {
        return {.refusals = {Refusal{"", "", error.what()}}, .undecided = {}};
    }
}

void append(Rows& rows, const std::string& target, const std::vector<Refusal>& refusals) {
    for (const Refusal& refusal : refusals) rows.push_back({target, refusal.layer, refusal.type, refusal.reason});
}

/// What no target takes, because the import refuses it.
std::vector<Refusal> refused_by_import(const CheckOptions& options, const interop::onnx::Model& file) {
    std::vector<Refusal> refusals;
    try {
        for (const interop::onnx::RefusedNode& node : interop::onnx::find_refused_nodes(file))
            refusals.push_back({node.layer, node.op_type, node.reason});
    } catch (const Error& error) {
        throw Error(options.model, error);
    }
    return refusals;
}

int check(const CheckOptions& options) {
    const interop::onnx::Model file = read_onnx(options.model);
    require_unquantized(options.model, file);
    const std::vector<Tensor> examples = example_inputs(options, inputs_of(file));
    const std::vector<Refusal> not_imported = refused_by_import(options, file);
    const FloatModel model = not_imported.empty() ? read_model(options.model) : FloatModel{};
    if (not_imported.empty() && !examples.empty()) require_proportion(options.model, model, examples);
    const std::vector<std::string> targets = options.targets.empty() ? target_names() : options.targets;
    Rows refused, undecided;
    Report report(options.is_json);
    for (const std::string& target : targets) {
        const LoweringReport of_target = not_imported.empty()
                                             ? report_of(*model.module, target, options, examples)
                                             : LoweringReport{.refusals = not_imported, .undecided = {}};
        const std::string count = std::to_string(of_target.refusals.size());
        report.text(target, of_target.lowers() ? "all operators lower" : count + " do not lower");
        append(refused, target, of_target.refusals);
        append(undecided, target, of_target.undecided);
    }
    if (!not_imported.empty())
        report.text("not asked", "what reads the values of these operators, and what depends on shapes");
    else if (examples.empty())
        report.text("not asked", "what depends on shapes: the file leaves extents open; give --shape");
    const Report::Columns columns{{"target"}, {"node"}, {"type"}, {"reason"}};
    if (!refused.empty() || report.is_json()) report.table("refusals", columns, refused);
    if (!undecided.empty() || report.is_json()) report.table("depends on calibration", columns, undecided);
    report.print();
    return refused.empty() ? 0 : 1;
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
    add_weight_dtype(*command, options->weight_dtype);
    command
        ->add_option("--shape", options->shape,
                     "of the input, with its samples: what depends on shapes is checked too; default: the file's, "
                     "with two samples. For several inputs: NAME=EXTENT,EXTENT,... for each")
        ->option_text("EXTENT...");
    command->add_flag("--json", options->is_json, "print one JSON object");
    add_examples(*command, {"intq check model.onnx", "intq check model.onnx --target litert --shape 1 3 224 224",
                            "intq check pair.onnx --shape a=1,3,64,64 b=1,10"});
    command->callback([options, &action] {
        shapes_of(*options);
        action = [options] { return check(*options); };
    });
}

}  // namespace intq_tool
