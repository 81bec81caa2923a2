// SPDX-License-Identifier: MIT
//
// intq pack: a program file for the kernels of another machine.
#include "emit.hpp"

namespace intq_tool {

using namespace intq;

namespace {

struct PackCommand {
    std::string program;
    PackingOptions packing;
    EmitOptions emit;
    bool is_json = false;
};

int pack(const PackCommand& options) {
    require_writable(options.emit.output, {options.program});
    const std::string backend = options.packing.backend_or("");
    if (!is_program_file(options.program))
        throw Error(options.program,
                    "is no program file; `intq quantize` and `intq codegen` write one of a model, for any CPU");
    const ProgramFile file = read_program_file(options.program);
    // The runs are copied, and a board could not tell whether a difference is its own fault.
    require_self_test(options.program, file);
    const auto packed = packed_for(file.lowered.shared_program(), backend, options.packing);
    options.packing.require_arena(options.program, packed->program());
    write_program(options.emit, packed->program(), packed->table(),
                  deploy::copy_golden_runs(file.golden, file.lowered.program().program()));
    Report report(options.is_json);
    report.text("written", options.emit.output);
    report.text("target", file.table->policy().name);
    report.text("packed for", backend);
    report.dropped(program::dropped_work(packed->program()));
    report.flash(packed->program(), packed->table());
    report_rows(packed->program(), report);
    report.count("arena", packed->arena_bytes(), "bytes");
    report.count("golden runs", file.golden.count);
    report.print();
    return 0;
}

}  // namespace

void add_pack(CLI::App& app, Action& action) {
    auto options = std::make_shared<PackCommand>();
    options->emit.kind = "program";
    CLI::App* command = app.add_subcommand("pack", "pack a program file for the kernels of another machine");
    command->add_option("program", options->program, "program file (.intq), packed for any kernels")
        ->required()
        ->option_text("PROGRAM");
    command->add_option("-o,--output", options->emit.output, "the program file that is written")
        ->required()
        ->option_text("FILE");
    options->packing.add_to(*command, "");
    options->packing.add_rows_to(*command);
    command->add_flag("--json", options->is_json, "print one JSON object");
    group_options(*command, "Output", {"--output", "--backend", "--cpu", "--rows", "--arena", "--cache"});
    add_examples(*command, {"intq quantize model.onnx --data calibration.npy --portable -o model.intq",
                            "intq pack model.intq --cpu cortex-m4 -o model_m4.intq"});
    command->callback([options, &action] {
        if (!options->packing.is_given())
            throw CLI::ValidationError("--cpu or --backend", "one of them is needed, and says what to pack for");
        options->packing.check_rows();
        const std::string other = command_of_output(options->emit.output, {".intq"});
        if (!other.empty())
            throw CLI::ValidationError("--output", "`intq pack` writes a program file, .intq; " + other);
        action = [options] { return pack(*options); };
    });
}

}  // namespace intq_tool
