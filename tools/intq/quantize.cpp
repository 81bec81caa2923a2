// SPDX-License-Identifier: MIT
//
// intq quantize: a float ONNX model becomes a program file, a header, JSON or a quantized ONNX model. intq codegen: a
// model that is quantized already becomes a header, a program file or JSON.
#include <algorithm>
#include <cmath>
#include <optional>

#include "emit.hpp"
#include "evaluation.hpp"

namespace intq_tool {

namespace {

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;

/// Samples in one run of what is measured.
constexpr index_t measured_batch = 16;

constexpr const char* keep_channels_option = "--keep-constant-channels";

void add_keep_channels(CLI::App& command, bool& keeps) {
    command.add_flag(keep_channels_option, keeps,
                     "leave channels in that no output depends on, for whoever compares every layer");
}

// --- quantize -------------------------------------------------------------------------------------------------------

struct Options {
    std::string model, memory_drawing;
    PackingOptions packing;
    EmitOptions emit;
    DataOptions data;
    QuantizeOptions quantize;
    std::optional<double> least_sqnr;
    int batch = 1, golden = 1;
    std::string image_layout;  // "chw", "hwc"; empty: the program takes real numbers
    bool is_portable = false, is_json = false, keeps_constant_channels = false, keeps_state = false;

    LoweringOptions lowering() const {
        return {batch, image_inputs(),
                keeps_constant_channels ? program::ConstantChannels::keep : program::ConstantChannels::drop};
    }
    std::vector<ImageInput> image_inputs() const {
        if (image_layout.empty()) return {};
        return {{"", data.normalize.mean, data.normalize.deviation,
                 image_layout == "hwc" ? Layout::channels_last : Layout::row_major}};
    }

    /// What the program is packed for; empty: the best of this CPU. Firmware is written for another machine, so a
    /// header is for `scalar` unless a backend is named.
    std::string packed_for() const { return packing.backend_or(is_portable || emit.is("header") ? "scalar" : ""); }
    /// The kernels that run here.
    const kernels::KernelTable& table() const { return quantize.table(runs_here(packed_for()) ? packed_for() : ""); }
};

template <class Predicate> bool all_values(const Tensor& tensor, Predicate is_so) {
    const Tensor values = tensor.contiguous();
    return std::all_of(values.flat<float>().begin(), values.flat<float>().end(), is_so);
}

/// Adds how near the integers are, of several outputs the one that is farthest, and throws where that is not near
/// enough, or says nothing.
void report_sqnr(const Options& options, Report& report, const std::vector<std::string>& names,
                 const std::vector<Tensor>& expected, const std::vector<Tensor>& given) {
    const std::string& output = options.emit.output;
    report_indices(report, names, expected, given);
    std::vector<std::size_t> reals;
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (!are_indices(expected[i])) reals.push_back(i);
    if (reals.empty() && options.least_sqnr)
        throw Error(output,
                    "not written: the model returns indices alone, which have no SQNR, and --min-sqnr asks for one");
    if (reals.empty()) return;
    for (const auto* outputs : {&expected, &given})
        for (const std::size_t i : reals)
            if (!all_values(outputs->at(i), [](float value) { return std::isfinite(value); }))
                throw Error(output,
                            "not written: on these samples the outputs hold NaN or infinity, in float or in "
                            "integers");
    std::vector<double> all_sqnrs;
    for (const std::size_t i : reals) all_sqnrs.push_back(sqnr_of(expected[i], given.at(i)));
    const auto worst = std::min_element(all_sqnrs.begin(), all_sqnrs.end());
    const double sqnr = *worst;
    const bool is_zero = all_values(expected[reals[static_cast<std::size_t>(worst - all_sqnrs.begin())]],
                                    [](float value) { return value == 0.0f; });
    if (options.least_sqnr && std::isinf(sqnr))
        throw Error(output, std::string("not written: ") +
                                (sqnr > 0 ? "all outputs on the samples are equal to those in float"
                                          : "in float all outputs on the samples are 0") +
                                ", as with samples that are constant, so the SQNR says nothing, and --min-sqnr asks "
                                "for one");
    if (options.least_sqnr && !(sqnr >= *options.least_sqnr))
        throw Error(output, "not written: the SQNR is " + std::to_string(sqnr) + " dB, and --min-sqnr asks for " +
                                std::to_string(*options.least_sqnr) + " dB");
    if (is_zero && sqnr < 0)
        report.text("SQNR on these samples", "none: in float all outputs are 0");
    else
        report.number("SQNR on these samples", sqnr, "dB");
    if (reals.size() < 2) return;
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < reals.size(); ++i) rows.push_back({names.at(reals[i]), digits("%.7g", all_sqnrs[i])});
    report.table("outputs", {{"output"}, {"SQNR", io::Align::right}}, rows);
}

/// Samples as a program takes them: codes where it keeps state.
Samples as_taken(const runtime::Program& program, const arith::PolicyRecord& target, Samples samples) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
        const runtime::ProgramTensor& x = program.tensor(program.inputs[i]);
        if (program.is_state(program.inputs[i]))
            samples[i] = intq::quantize(samples[i].contiguous(), OwnedQParams::of(x.qparams, x.dtype), target.quantize);
    }
    return samples;
}

/// Says which inputs are state, and which take rows and are not.
void report_states(const QuantizedGraph& quantized, const runtime::Program& program, Report& report) {
    index_t bytes = 0;
    std::vector<std::vector<std::string>> rows;
    for (const runtime::StatePair& state : program.states) {
        const runtime::ProgramTensor& x = program.tensor(state.input);
        bytes += x.bytes();
        rows.push_back({x.name, name_of(x.dtype), intq::to_string(x.shape)});
    }
    if (rows.empty()) return;
    report.count("state in the arena", bytes, "bytes");
    report.table("states", {{"input"}, {"dtype"}, {"shape"}}, rows);
    rows.clear();
    for (const InputThatIsNoState& input : inputs_that_are_no_state(quantized))
        rows.push_back({input.name, input.reason});
    if (!rows.empty()) report.table("caches that stay inputs", {{"input"}, {"reason"}}, rows);
}

/// Refuses --state where no input is state, and where nothing else is an output.
void require_states(const Options& options, const QuantizedGraph& quantized, const runtime::Program& program) {
    if (program.states.empty()) {
        std::string reasons;
        for (const InputThatIsNoState& input : inputs_that_are_no_state(quantized))
            reasons += (reasons.empty() ? "" : "; ") + in_quotes(input.name) + ": " + input.reason;
        throw Error(options.model,
                    "--state asks for inputs that stay in the program, and it has none: " +
                        (reasons.empty() ? "no input takes rows by index_copy whose result is an output" : reasons));
    }
    if (program::without_state(program, program.outputs).empty())
        throw Error(options.model,
                    "--state leaves no output: each is a cache that would stay in the program, and a run would give "
                    "nothing; add an output for what a step computes, or leave --state out");
}

/// Lowers, measures and writes a program.
void write_lowered(const Options& options, const QuantizedGraph& quantized, const Samples& samples,
                   const std::vector<std::string>& names, const std::vector<Tensor>& expected, Report& report) {
    const kernels::KernelTable& table = options.table();
    const LoweredModel lowered = lower(quantized, table, options.lowering());
    if (lowered.tail() != nullptr)
        throw Error(options.model,
                    "its last operators stay in float, and a program holds integers alone; `intq check` names those "
                    "that --float does not");
    // The samples hold the state, so what takes it as real numbers is measured: the same instructions otherwise.
    LoweringOptions stateful = options.lowering();
    stateful.keeps_state = options.keeps_state;
    const LoweredModel kept = options.keeps_state ? lower(quantized, table, stateful) : lowered;
    if (options.keeps_state) require_states(options, quantized, kept.program().program());
    const std::string backend = options.packed_for().empty() ? table.backend : options.packed_for();
    const auto packed = packed_for(kept.shared_program(), backend, options.packing);
    const runtime::Program& program = packed->program();
    const deploy::GoldenRecord golden = deploy::record_golden_runs(
        kept.program(), as_taken(kept.program().program(), table.policy(), first_of(samples, options.golden)));
    const deploy::HeaderProgram written = program_of_output(options.emit, program, packed->table(), golden);
    options.packing.require_arena(options.model, written.program);
    const deploy::MemoryReport memory = deploy::memory_report(written.program, packed->table());
    report.text("packed for", backend);
    report.count("instructions", static_cast<long long>(program.instructions.size()));
    report.dropped(program::dropped_work(program, kept.whole_program().program()));
    report.flash(program, packed->table());
    report.int16_weights(program);
    report_inputs(options.emit, written.program, report);
    report_rows(written.program, report);
    report_states(quantized, written.program, report);
    report.count("arena", memory.arena, "bytes");
    report.count("lower bound of the arena", memory.lower_bound, "bytes");
    report.text("peak", memory.peak_name);
    report_sqnr(options, report, names, expected, lowered.run(samples));
    if (!options.emit.is("json")) report.count("golden runs", golden.count);
    // The drawing first: where it cannot be written, there is no program either.
    if (!options.memory_drawing.empty()) io::write_file(options.memory_drawing, memory.to_svg());
    write_program(options.emit, program, packed->table(), golden);
}

int quantize(const Options& options) {
    options.packed_for();  // a wrong name is said before the long work
    std::vector<std::string> inputs = options.data.paths();
    inputs.insert(inputs.end(), {options.model, options.quantize.costs, options.quantize.sensitive_operators});
    require_writable(options.emit.output, inputs);
    if (!options.memory_drawing.empty()) {
        require_writable(options.memory_drawing, inputs);
        if (is_same_file(options.memory_drawing, options.emit.output))
            throw Error(options.memory_drawing, "is both --output and --memory-svg");
    }
    const FloatModel model = read_unquantized_model(options.model);
    if (!options.image_layout.empty() && model.inputs.size() > 1)
        throw Error(options.model, "--image-input is for models of one input, and this one has " +
                                       std::to_string(model.inputs.size()));
    const Samples samples = options.data.read(model.inputs);
    require_proportion(options.model, model, samples);
    // What the program takes.
    const Samples given = options.image_layout.empty() ? samples : options.data.read_pixels(model.inputs);
    PrepareNotes notes;
    const auto prepared = prepare(*model.module, samples, options.quantize, &notes);
    const QuantizedGraph quantized = convert_fx(*prepared);
    const std::vector<Tensor> expected = run_float(*model.module, samples);
    Report report(options.is_json);
    report.text("written", options.emit.output);
    report.text("form", options.emit.kind);
    report.text("target", options.table().policy().name);
    report.improvements(notes);
    if (options.emit.is("onnx")) {
        // An ONNX model may have parts in float, which a program has not.
        report_sqnr(options, report, model.outputs, expected,
                    HybridModel(quantized, options.table(), measured_batch).run(samples));
        write_onnx(options.emit, model, quantized);
    } else {
        write_lowered(options, quantized, given, model.outputs, expected, report);
    }
    report.warnings(notes);
    report.print();
    return 0;
}

/// Refuses what has no meaning for the form that is written.
void resolve(Options& options, const CLI::App& command) {
    options.emit.resolve(command);
    if (options.emit.is("onnx"))
        for (const char* option : {"--backend", "--cpu", "--portable", "--batch", "--golden", "--state", "--memory-svg",
                                   "--image-input", "--rows", "--arena", "--cache", keep_channels_option})
            if (command.count(option) > 0) throw CLI::ValidationError(option, "an ONNX model holds no program");
    if (options.emit.is("header") && options.batch != 1)
        throw CLI::ValidationError("--batch", "a header is generated for one sample at a time");
    if (options.emit.is("json") && command.count("--golden") > 0)
        throw CLI::ValidationError("--golden", "JSON holds no golden runs");
}

// --- codegen --------------------------------------------------------------------------------------------------------

struct CodegenOptions {
    std::string program, target;
    PackingOptions packing;
    std::vector<std::string> bounds;
    EmitOptions emit;
    DataOptions data;
    int golden = 1;
    bool is_json = false, keeps_constant_channels = false;
};

int codegen(const CodegenOptions& options) {
    std::vector<std::string> inputs = options.data.paths();
    inputs.push_back(options.program);
    require_writable(options.emit.output, inputs);
    const std::string backend = options.packing.backend_or("scalar");
    // A file is packed for one backend; a model is lowered for the kernels that are asked for, where they run here.
    const bool is_file = is_program_file(options.program);
    const ProgramFile file = read_runnable(
        options.program,
        {is_file || !runs_here(backend) ? "" : backend, options.target, 1, options.bounds,
         options.keeps_constant_channels ? program::ConstantChannels::keep : program::ConstantChannels::drop});
    if (is_file && options.keeps_constant_channels)
        throw Error(options.program, std::string(keep_channels_option) +
                                         " is for models; a program file has the channels that were left in it");
    if (is_file) require_self_test(options.program, file);
    const program::OwnedProgram& program = file.lowered.program();
    const auto packed = packed_for(file.lowered.shared_program(), backend, options.packing);
    if (options.emit.is("header") && program.program().max_batch != 1)
        throw Error(options.program,
                    "one run of it holds " + std::string(is_file ? "up to " : "") +
                        std::to_string(program.program().max_batch) + " samples, and a header is generated for one: " +
                        (is_file ? "write the program with `intq quantize --batch 1`, which is the default"
                                 : "give its inputs a first extent of 1 where the model is made, or write a program "
                                   "file, -o model.intq, which holds them all"));
    deploy::GoldenRecord golden = deploy::copy_golden_runs(file.golden, program.program());
    if (options.data.is_given()) {
        golden = deploy::record_golden_runs(program, first_of(options.data.read_for(file), options.golden));
    } else if (!is_file) {
        golden = deploy::record_golden_runs(program, {});  // on patterns
    }
    const deploy::HeaderProgram written = program_of_output(options.emit, packed->program(), packed->table(), golden);
    options.packing.require_arena(options.program, written.program);
    write_program(options.emit, packed->program(), packed->table(), golden);
    Report report(options.is_json);
    report.text("written", options.emit.output);
    report.text("form", options.emit.kind);
    report.text("target", file.table->policy().name);
    report.text("packed for", backend);
    report.dropped(program::dropped_work(packed->program(), file.lowered.whole_program().program()));
    report_inputs(options.emit, written.program, report);
    report_rows(written.program, report);
    report.count("arena", written.program.arena_size, "bytes");
    report.count("golden runs", golden.count);
    report.print();
    return 0;
}

}  // namespace

void add_quantize(CLI::App& app, Action& action) {
    auto options = std::make_shared<Options>();
    CLI::App* command = app.add_subcommand("quantize", "calibrate a float ONNX model, and write it in integers");
    command->add_option("model", options->model, "ONNX file of the float model")->required()->option_text("MODEL");
    options->data.add_to(*command, "samples that set the scales");
    options->quantize.add_to(*command);
    options->emit.add_to(*command);
    command->add_option("--min-sqnr", options->least_sqnr, "write nothing where the SQNR on the samples is below")
        ->check(a_number())
        ->option_text("DB");
    command->add_option("--batch", options->batch, "samples in one run of the program; default: 1")
        ->check(CLI::Range(1, 4096))
        ->option_text("COUNT");
    command->add_option("--golden", options->golden, "runs that the output holds for its self test; default: 1")
        ->check(CLI::Range(0, 1024))
        ->option_text("COUNT");
    command->add_flag("--state", options->keeps_state,
                      "caches stay in the program: inputs into which rows are copied, and the outputs that are the "
                      "result. A run then takes and gives the others");
    auto* portable = command->add_flag("--portable", options->is_portable,
                                       "pack the weights for `scalar`, which every build has, as a header does");
    options->packing.add_to(*command, "the best of this CPU, and scalar for a header");
    options->packing.add_rows_to(*command);
    for (const char* other : {"--backend", "--cpu"}) portable->excludes(command->get_option(other));
    command->add_option("--memory-svg", options->memory_drawing, "also draw what the arena holds")->option_text("FILE");
    command
        ->add_option("--image-input", options->image_layout,
                     "the program takes uint8 images, and holds --mean and --deviation: chw for planes of a channel, "
                     "hwc for pixels with their channels")
        ->check(CLI::IsMember({"chw", "hwc"}))
        ->option_text("LAYOUT");
    add_keep_channels(*command, options->keeps_constant_channels);
    command->add_flag("--json", options->is_json, "print one JSON object");
    group_options(*command, "Output",
                  {"--min-sqnr", "--batch", "--golden", "--state", "--portable", "--backend", "--cpu", "--memory-svg",
                   "--rows", "--arena", "--cache", "--image-input", keep_channels_option});
    add_examples(*command,
                 {"intq quantize model.onnx --data data.npy --target tflite -o model.intq",
                  "intq quantize model.onnx --data pictures/ --mean 0.485 0.456 0.406 \\",
                  "    --deviation 0.229 0.224 0.225 --observer percentile -o model.onnx",
                  "intq quantize model.onnx --data data.npy --min-sqnr 30 --single-file \\", "    -o model.hpp"});
    command->callback([options, command, &action] {
        resolve(*options, *command);
        options->packing.check_rows();
        options->emit.rows = options->packing.rows();
        action = [options] { return quantize(*options); };
    });
}

void add_codegen(CLI::App& app, Action& action) {
    auto options = std::make_shared<CodegenOptions>();
    CLI::App* command = app.add_subcommand(
        "codegen", "write a quantized model as a C++ header for a board, or as a program file or JSON");
    command->add_option("program", options->program, runnable_help)->required()->option_text("PROGRAM");
    options->emit.add_header_options(*command);
    add_tflite_options(*command, options->target, options->bounds);
    options->packing.add_to(*command, "scalar");
    options->packing.add_rows_to(*command);
    options->data.add_to(*command, "samples of the golden runs, in place of the file's", false);
    command->add_option("--golden", options->golden, "runs of --data that the output holds; default: 1")
        ->check(CLI::Range(0, 1024))
        ->needs(command->get_option("--data"))
        ->option_text("COUNT");
    add_keep_channels(*command, options->keeps_constant_channels);
    command->add_flag("--json", options->is_json, "print one JSON object");
    group_options(*command, "Output",
                  {"--backend", "--cpu", "--rows", "--arena", "--cache", "--golden", "--target", "--bounds",
                   keep_channels_option});
    add_examples(*command, {"intq quantize model.onnx --data calibration.npy --portable -o model.intq",
                            "intq codegen model.intq --cpu cortex-m4 --single-file -o model.hpp",
                            "intq codegen model.tflite --target tflite -o model.hpp"});
    command->callback([options, command, &action] {
        const std::string extension = std::filesystem::path(options->emit.output).extension().string();
        const std::string other = command_of_output(options->emit.output, {".hpp", ".h", ".intq", ".json"});
        if (!other.empty())
            throw CLI::ValidationError("--output", "`intq codegen` writes .hpp, .h, .intq and .json; " + other);
        options->emit.kind = extension == ".intq" ? "program" : extension == ".json" ? "json" : "header";
        options->emit.resolve(*command);
        options->packing.check_rows();
        options->emit.rows = options->packing.rows();
        action = [options] { return codegen(*options); };
    });
}

}  // namespace intq_tool
