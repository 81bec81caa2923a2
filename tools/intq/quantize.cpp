// SPDX-License-Identifier: MIT
//
// intq quantize: a float ONNX model becomes a program file.
#include "options.hpp"

namespace intq_tool {

namespace {

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;

struct Options {
    std::string model, output, memory_drawing;
    DataOptions data;
    QuantizeOptions quantize;
    int batch = 1, golden = 1;
    bool is_portable = false, is_json = false;
};

int run(const Options& options) {
    const auto model = read_model(options.model);
    const Tensor samples = options.data.read();
    const auto prepared = prepare(*model, samples, options.quantize);
    const QuantizedGraph quantized = convert_fx(*prepared);
    const kernels::KernelTable& table = options.quantize.table(options.is_portable);
    const LoweredModel lowered = lower(quantized, table, options.batch);
    if (lowered.tail() != nullptr)
        throw Error(
            options.model,
            "its last operators stay in float, and a program file holds integers alone; `intq check` names them");
    const program::OwnedProgram& program = lowered.program();
    const Tensor first = samples.batch(0, std::min<index_t>(options.golden, samples.extent(0)));
    deploy::write_program(options.output, program, deploy::record_golden_runs(program, std::span(&first, 1)));
    const deploy::MemoryReport memory = deploy::memory_report(program.program(), table);
    if (!options.memory_drawing.empty()) io::write_file(options.memory_drawing, memory.to_svg());

    const Tensor expected = run_float(*model, samples), given = lowered.run(samples);
    Report report(options.is_json);
    report.text("written", options.output);
    report.text("target", table.policy().name);
    report.text("packed for", table.backend);
    report.count("instructions", static_cast<long long>(program.program().instructions.size()));
    report.count("constants", program.packed_bytes(), "bytes");
    report.count("arena", program.arena_bytes(), "bytes");
    report.count("lower bound of the arena", memory.lower_bound, "bytes");
    report.text("peak", memory.peak_name);
    report.number("SQNR on these samples",
                  static_cast<double>(numeric_suite::compute_sqnr(expected.flat<float>(), given.flat<float>())), "dB");
    report.print();
    return 0;
}

}  // namespace

void add_quantize(CLI::App& app, Action& action) {
    auto options = std::make_shared<Options>();
    CLI::App* command = app.add_subcommand("quantize", "calibrate a float ONNX model and write a program file");
    command->add_option("model", options->model, "ONNX file of the float model")->required()->option_text("MODEL");
    options->data.add_to(*command, "samples that set the scales");
    options->quantize.add_to(*command);
    command->add_option("-o,--output", options->output, "the program file (.intq)")->required()->option_text("FILE");
    command->add_option("--batch", options->batch, "samples in one run of the program; default: 1")
        ->check(CLI::Range(1, 4096))
        ->option_text("COUNT");
    command->add_option("--golden", options->golden, "runs that the file holds for its self test; default: 1")
        ->check(CLI::Range(0, 1024))
        ->option_text("COUNT");
    command->add_flag("--portable", options->is_portable, "pack the weights for `scalar`, which every build has");
    command->add_option("--memory-svg", options->memory_drawing, "also draw what the arena holds")->option_text("FILE");
    command->add_flag("--json", options->is_json, "print one JSON object");
    command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace intq_tool
