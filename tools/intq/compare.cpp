// SPDX-License-Identifier: MIT
//
// intq compare: what was lost.
#include "evaluation.hpp"
#include "options.hpp"

namespace intq_tool {

namespace {

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;

// --- compare --------------------------------------------------------------------------------------------------------

struct CompareOptions {
    std::string model, program;
    DataOptions data;
    bool is_json = false;
};

/// How near one output of the integers is to float.
struct OutputMetrics {
    double sqnr, cosine, mean_error, largest_error;
};

OutputMetrics metrics_of(const Tensor& expected, const Tensor& given) {
    numeric_suite::TensorComparison comparison;
    comparison.add(expected.flat<float>(), given.flat<float>(), expected.shape());
    return {sqnr_of(expected, given), comparison.cosine(), comparison.l1(), comparison.atol()};
}

/// Throws for outputs that are not those of the float model.
void check_outputs(const CompareOptions& options, const std::vector<Tensor>& expected,
                   const std::vector<Tensor>& given) {
    if (given.size() != expected.size())
        throw Error(options.program, "it has " + std::to_string(given.size()) + " outputs, and the model " +
                                         std::to_string(expected.size()));
    for (std::size_t i = 0; i < given.size(); ++i)
        if (given[i].size() != expected[i].size())
            throw Error(options.program, std::string("it returns ") + name_of(given[i].dtype()) + " " +
                                             intq::to_string(given[i].shape()) + ", and the model " +
                                             name_of(expected[i].dtype()) + " " + intq::to_string(expected[i].shape()));
}

/// The metrics of one output; of several, those of the farthest, and a table of all.
void report_metrics(Report& report, const std::vector<std::string>& names, const std::vector<OutputMetrics>& all) {
    OutputMetrics worst = all.front();
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const OutputMetrics& each = all[i];
        worst.sqnr = worse_sqnr(worst.sqnr, each.sqnr);
        worst.cosine = std::min(worst.cosine, each.cosine);
        worst.mean_error = std::max(worst.mean_error, each.mean_error);
        worst.largest_error = std::max(worst.largest_error, each.largest_error);
        rows.push_back({names.at(i), digits("%.7g", each.sqnr), digits("%.7g", each.cosine),
                        digits("%.7g", each.mean_error), digits("%.7g", each.largest_error)});
    }
    report.number("SQNR", worst.sqnr, "dB");
    report.number("cosine", worst.cosine);
    report.number("mean error", worst.mean_error);
    report.number("largest error", worst.largest_error);
    if (all.size() > 1)
        report.table("outputs",
                     {{"output"},
                      {"SQNR", io::Align::right},
                      {"cosine", io::Align::right},
                      {"mean error", io::Align::right},
                      {"largest error", io::Align::right}},
                     rows);
}

int compare(const CompareOptions& options) {
    const auto model = read_model(options.model);
    const ProgramFile file = read_runnable(options.program, {.batch = 16});
    require_self_test(options.program, file);
    if (file.keeps_state())
        throw Error(options.program,
                    "it keeps state, which the float model takes and gives; compare the program that `intq quantize` "
                    "writes without --state, which computes the same, or compare what `intq run` writes with "
                    "the steps of the float model");
    const std::size_t inputs = file.inputs().size();
    if (inputs != model.inputs.size())
        throw Error(options.program, "it takes " + std::to_string(inputs) + " inputs, and the model " +
                                         std::to_string(model.inputs.size()));
    const Samples samples = options.data.read(model.inputs);
    require_proportion(options.model, model, samples);
    const std::vector<Tensor> expected = run_float(*model.module, samples);
    const std::vector<Tensor> given =
        file.run_real(file.takes_pixels() ? options.data.read_pixels(model.inputs) : samples);
    check_outputs(options, expected, given);
    std::vector<OutputMetrics> metrics;
    std::vector<std::string> names;  // of outputs that are real numbers
    for (std::size_t i = 0; i < given.size(); ++i) {
        if (are_indices(expected[i])) continue;
        metrics.push_back(metrics_of(expected[i], given[i]));
        names.push_back(model.outputs.at(i));
    }
    Report report(options.is_json);
    report.count("samples", samples.front().extent(0));
    report_indices(report, model.outputs, expected, given);
    if (!metrics.empty()) report_metrics(report, names, metrics);
    if (expected.size() == 1 && expected[0].rank() == 2 && !metrics.empty())
        report.count("same class", count_equal(classes_of(expected[0]), classes_of(given[0])));
    report.print();
    for (const OutputMetrics& each : metrics) require_number(options.program, each.sqnr);
    return 0;
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
    auto options = std::make_shared<CompareOptions>();
    CLI::App* command = app.add_subcommand("compare", "outputs of a program file beside the float model's");
    command->add_option("model", options->model, "ONNX file of the float model")->required()->option_text("MODEL");
    command->add_option("program", options->program, runnable_help)->required()->option_text("PROGRAM");
    options->data.add_to(*command, "samples");
    command->add_flag("--json", options->is_json, "print one JSON object");
    add_examples(*command, {"intq compare model.onnx model.intq --data test.npy"});
    command->callback([options, &action] { action = [options] { return compare(*options); }; });
}

}  // namespace intq_tool
