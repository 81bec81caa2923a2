// SPDX-License-Identifier: MIT
//
// Float models as the commands take them, and the kernels of a target.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "options.hpp"

namespace intq_tool {

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;

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

bool runs_here(const std::string& backend) {
    const std::vector<program::BackendTables> tables = program::runnable_tables();
    return std::any_of(tables.begin(), tables.end(), [&](const auto& each) { return each.name == backend; });
}

void PackingOptions::add_to(CLI::App& command, const std::string& otherwise) {
    std::vector<std::string> cpus;
    for (const deploy::BoardCpu& row : deploy::board_cpus) cpus.emplace_back(row.name);
    auto* by_name =
        command
            .add_option("--backend", backend,
                        "pack the weights for these kernels" + (otherwise.empty() ? "" : "; default: " + otherwise))
            ->check(a_backend())
            ->option_text("NAME");
    command
        .add_option("--cpu", cpu,
                    "pack the weights for the best kernels of a board's CPU: " + CLI::detail::join(cpus, ", "))
        ->check(CLI::IsMember(cpus))
        ->excludes(by_name)
        ->option_text("NAME");
}

std::string PackingOptions::backend_or(const std::string& otherwise) const {
    if (const deploy::BoardCpu* const row = deploy::find_board_cpu(cpu)) return row->backend;
    return backend.empty() ? otherwise : backend;
}

void PackingOptions::add_rows_to(CLI::App& command) {
    command
        .add_option("--rows", mode,
                    "memory: layers run row by row where that makes the arena smaller; speed: where that keeps them in "
                    "a cache of --cache bytes; off: on whole tensors; default: as the program does, a model on whole "
                    "tensors")
        ->check(CLI::IsMember({"off", "memory", "speed"}))
        ->option_text("MODE");
    command
        .add_option("--arena", arena,
                    "row by row, with as few steps as an arena of so many bytes allows; default: the smallest arena")
        ->check(CLI::Range(index_t{1}, index_t{1} << 40))
        ->option_text("BYTES");
    command.add_option("--cache", cache, "the bytes of the cache that --rows speed keeps layers in, as L2 of one core")
        ->check(CLI::Range(index_t{1}, index_t{1} << 40))
        ->option_text("BYTES");
}

void PackingOptions::check_rows() const {
    if (mode == "off" && arena > 0)
        throw CLI::ValidationError("--arena", "asks for rows, and --rows off for whole tensors");
    if (mode == "speed" && arena > 0) throw CLI::ValidationError("--arena", "belongs to --rows memory");
    if (mode == "speed" && cache == 0)
        throw CLI::ValidationError("--rows", "speed needs --cache, the bytes of a cache");
    if (mode != "speed" && cache > 0) throw CLI::ValidationError("--cache", "belongs to --rows speed");
}

program::RowOptions PackingOptions::rows() const {
    using enum program::RowMode;
    return {mode == "off" ? off : mode == "speed" ? speed : memory, arena, cache};
}

void PackingOptions::require_arena(const std::string& path, const runtime::Program& program) const {
    if (arena > 0 && program.arena_size > arena)
        throw Error(path, "--arena asks for " + std::to_string(arena) +
                              " bytes, and the smallest arena that was found, row by row, takes " +
                              std::to_string(program.arena_size));
}

std::shared_ptr<program::OwnedProgram> packed_for(std::shared_ptr<program::OwnedProgram> program,
                                                  const std::string& backend, const PackingOptions& options) {
    const kernels::KernelTable& table = program->table();
    const bool is_packed = table.backend == backend;
    if (is_packed && !options.changes_rows()) return program;
    const kernels::KernelTable to = is_packed            ? table
                                    : runs_here(backend) ? find_table(table.policy().name, backend)
                                                         : deploy::describe_kernels(table, backend);
    if (!options.changes_rows()) return deploy::pack_program(program->program(), table, to);
    return deploy::pack_program(program->program(), table, to, options.rows());
}

// --- models ---------------------------------------------------------------------------------------------------------

bool is_program_file(const std::string& path) {
    const auto& magic = runtime::program_file_magic;
    const std::vector<std::byte> bytes = io::read_file(path);
    return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

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
    const std::set<std::string> positions = interop::onnx::position_inputs(file);
    const std::set<std::string> masks = interop::onnx::mask_inputs(file);
    for (const auto& input : file.graph.inputs) {
        const auto has_value = [&](const auto& tensor) { return tensor.name == input.name; };
        const auto& values = file.graph.initializers;
        if (std::none_of(values.begin(), values.end(), has_value))
            inputs.push_back(
                {input.name, input.shape, interop::onnx::takes_ids(file, input.name), masks.count(input.name) != 0});
        // The model takes them as (N, T).
        if (!inputs.empty() && inputs.back().name == input.name && positions.count(input.name) != 0)
            inputs.back().extents = {1, input.shape.empty() ? 1 : input.shape[0]};
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
    model.is_quantized = interop::onnx::is_quantized(file);
    for (const auto& output : file.graph.outputs) model.outputs.push_back(output.name);
    name_outputs(*model.module, model.outputs);
    add_stubs(*model.module);
    return model;
}

}  // namespace

FloatModel read_model(const std::string& path) { return model_of(path, read_onnx(path)); }

void require_unquantized(const std::string& path, const interop::onnx::Model& file) {
    if (interop::onnx::is_quantized(file))
        throw Error(path, "the model is quantized already, it holds quantizers; `intq run` and `intq compare` take it");
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

}  // namespace intq_tool
