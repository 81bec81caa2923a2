// SPDX-License-Identifier: MIT
//
// intq run: a program file on samples. intq info: what a model or a program file holds.
#include <filesystem>
#include <map>
#include <span>

#include "options.hpp"

namespace intq_tool {

namespace {

using namespace intq;
using intq::Tensor;

struct RunOptions {
    std::string program, output, backend, target;
    std::vector<std::string> bounds;
    DataOptions data;
    bool is_json = false;
};

bool is_archive(const std::string& path) { return std::filesystem::path(path).extension() == ".npz"; }

void write_outputs(const std::string& path, const std::vector<std::string>& names, const std::vector<Tensor>& outputs) {
    if (!is_archive(path)) return io::write_npy(path, to_array(outputs[0]));
    std::vector<io::NamedArray> arrays;
    for (std::size_t i = 0; i < outputs.size(); ++i) arrays.push_back({names[i], to_array(outputs[i])});
    io::write_npz(path, arrays);
}

int run(const RunOptions& options) {
    std::vector<std::string> inputs = options.data.paths();
    inputs.push_back(options.program);
    require_writable(options.output, inputs);
    const ProgramFile file = read_runnable(options.program, {options.backend, options.target, 16, options.bounds});
    require_self_test(options.program, file);
    const std::vector<std::string> names = file.outputs();
    if (names.empty()) throw Error(options.program, "it has no output but its state, so a run has nothing to write");
    if (names.size() > 1 && !is_archive(options.output))
        throw Error(options.output, options.program + " has " + std::to_string(names.size()) + " outputs, " +
                                        in_quotes(names[0]) + ", " + in_quotes(names[1]) +
                                        (names.size() > 2 ? " ..." : "") +
                                        "; name a .npz file, which holds an array for each");
    const std::vector<Tensor> outputs = file.run(options.data.read_for(file));
    write_outputs(options.output, names, outputs);
    Report report(options.is_json);
    report.text("written", options.output);
    if (outputs.size() == 1) {
        report.text("shape", intq::to_string(outputs[0].shape()));
        report.text("dtype", name_of(outputs[0].dtype()));
    }
    report.text("packed for", file.packed_for);
    report.text("runs on", file.table->backend);
    if (file.keeps_state()) report.text("samples", "steps of one sequence");
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < outputs.size(); ++i)
        rows.push_back({names[i], intq::to_string(outputs[i].shape()), name_of(outputs[i].dtype())});
    if (outputs.size() > 1) report.table("outputs", {{"output"}, {"shape"}, {"dtype"}}, rows);
    report.print();
    return 0;
}

struct InfoOptions {
    std::string path;
    std::string memory_drawing;
    bool is_json = false, shows_instructions = false;
};

/// The inputs or outputs as a board sees them: type, shape, and the order of the bytes where there is a choice.
///
/// @param names  of those that are no state
void report_ends(Report& report, const std::string& what, const runtime::Program& program,
                 std::span<const std::int32_t> ends, const std::vector<std::string>& names) {
    std::vector<std::vector<std::string>> rows;
    std::size_t named = 0;
    for (const std::int32_t index : ends) {
        const runtime::ProgramTensor& tensor = program.tensor(index);
        const bool has_order = tensor.shape.rank > 2 && tensor.shape[1] != 1, is_state = program.is_state(index);
        rows.push_back({is_state ? tensor.name : names.at(named++), name_of(tensor.dtype),
                        intq::to_string(tensor.shape), has_order ? name_of(tensor.layout) : "",
                        is_state ? "state" : ""});
    }
    report.table(what + "s", {{what}, {"dtype"}, {"shape"}, {"in memory"}, {"kept"}}, rows);
}

/// @throws Error where the self test fails, after all that there is to say
int describe_program(const InfoOptions& options, const ProgramFile& file, Report& report) {
    const runtime::Program& program = file.as_written().program();
    const kernels::KernelTable* table = &file.as_written().table();
    const deploy::MemoryReport memory = deploy::memory_report(program, *table);
    if (!options.memory_drawing.empty()) io::write_file(options.memory_drawing, memory.to_svg());
    report.text("target", table->policy().name);
    report.text("packed for", file.packed_for);
    report.text("runs on", file.table->backend);
    report.count("largest batch", program.max_batch);
    report.count("instructions", static_cast<long long>(program.instructions.size()));
    report.dropped(program::dropped_work(program));
    report.flash(program, *table);
    report.count("arena", memory.arena, "bytes");
    report.count("lower bound of the arena", memory.lower_bound, "bytes");
    report.text("peak", memory.peak_name);
    report.count("golden runs", file.golden.count);
    report.count("golden runs on patterns", file.golden.patterns);
    report.text("self test", self_test(file));
    std::vector<std::string> inputs;
    for (const InputInfo& input : file.inputs()) inputs.push_back(input.name);
    report_ends(report, "input", program, program.inputs, inputs);
    report_ends(report, "output", program, program.outputs, file.outputs());
    std::vector<std::vector<std::string>> occupants;
    for (const deploy::ArenaOccupant& occupant : memory.at(memory.peak))
        occupants.push_back({occupant.name, std::to_string(occupant.bytes), std::to_string(occupant.offset),
                             occupant.is_scratch ? "scratch" : "tensor"});
    report.table("occupants of the peak",
                 {{"name"}, {"bytes", io::Align::right}, {"offset", io::Align::right}, {"kind"}}, occupants);
    if (options.shows_instructions) {
        std::vector<std::vector<std::string>> rows;
        for (const runtime::Instruction& instruction : program.instructions) {
            const runtime::ProgramTensor& out = program.tensor(instruction.output);
            rows.push_back({instruction.name, instruction.type, name_of(instruction.op), name_of(out.dtype),
                            intq::to_string(out.shape)});
        }
        report.table("list of instructions", {{"layer"}, {"type"}, {"operator"}, {"dtype"}, {"shape"}}, rows,
                     "instructions");
    }
    report.print();
    require_self_test(options.path, file);
    return 0;
}

int describe_model(const InfoOptions& options, Report& report) {
    if (!options.memory_drawing.empty())
        throw Error(options.path, "--memory-svg is for a program file, and this is not one");
    if (options.shows_instructions)
        throw Error(options.path, "--instructions is for a program file, and this is not one");
    const auto model = interop::onnx::import_file(options.path);
    long long parameters = 0;
    for (const auto& parameter : model->named_parameters()) parameters += parameter.value->size();
    std::map<std::string, long long> types;
    for (const graph::Node* node : model->graph().nodes())
        if (node->op() != graph::Op::placeholder && node->op() != graph::Op::output)
            ++types[graph::type_of(*node, *model)];
    report.count("inputs", static_cast<long long>(model->graph().placeholders().size()));
    report.count("parameters", parameters);
    std::vector<std::vector<std::string>> rows;
    for (const auto& [type, count] : types) rows.push_back({type, std::to_string(count)});
    report.table("operators", {{"type"}, {"count", io::Align::right}}, rows);
    report.print();
    return 0;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
    auto options = std::make_shared<RunOptions>();
    CLI::App* command = app.add_subcommand("run", "run a program file on samples");
    command->add_option("program", options->program, runnable_help)->required()->option_text("PROGRAM");
    options->data.add_to(*command, "samples");
    command
        ->add_option("-o,--output", options->output,
                     "the outputs: a .npy file, or a .npz file with an array for each output")
        ->required()
        ->option_text("FILE");
    command
        ->add_option("--backend", options->backend,
                     "kernels that shall run it; default: those of INTQ_BACKEND, or the best of this CPU")
        ->check(a_backend())
        ->option_text("NAME");
    add_tflite_options(*command, options->target, options->bounds);
    command->add_flag("--json", options->is_json, "print one JSON object");
    group_options(*command, "Output", {"--output"});
    add_examples(*command, {"intq run model.intq --data test.npy -o logits.npy",
                            "intq run model.tflite --data codes.npy -o codes_out.npy",
                            "intq run detector.intq --data image=a.npy --data size=b.npy -o outputs.npz"});
    command->callback([options, &action] { action = [options] { return run(*options); }; });
}

void add_info(CLI::App& app, Action& action) {
    auto options = std::make_shared<InfoOptions>();
    CLI::App* command = app.add_subcommand("info", "what a model or a program file holds; runs the self test");
    command->add_option("file", options->path, "ONNX model, TFLite model or program file")
        ->required()
        ->option_text("FILE");
    command->add_option("--memory-svg", options->memory_drawing, "also draw what the arena of a program holds")
        ->option_text("FILE");
    command->add_flag("--instructions", options->shows_instructions, "also list the instructions of a program");
    command->add_flag("--json", options->is_json, "print one JSON object");
    add_examples(*command, {"intq info model.onnx", "intq info model.intq --instructions --memory-svg arena.svg"});
    command->callback([options, &action] {
        action = [options] {
            Report report(options->is_json);
            report.text("file", options->path);
            if (!options->memory_drawing.empty()) require_writable(options->memory_drawing, {options->path});
            if (is_program_file(options->path))
                return describe_program(*options, read_program_file(options->path), report);
            if (std::filesystem::path(options->path).extension() == ".tflite")
                return describe_program(*options, read_runnable(options->path, {}), report);
            return describe_model(*options, report);
        };
    });
}

}  // namespace intq_tool
