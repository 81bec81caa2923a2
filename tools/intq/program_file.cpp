// SPDX-License-Identifier: MIT
//
// What runs as integers: program files, quantized ONNX models, and TFLite models.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <utility>

#include "options.hpp"

namespace intq_tool {

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;

namespace {

/// The grid of a tensor of codes.
OwnedQParams owned(const runtime::ProgramTensor& tensor) {
    OwnedQParams qparams = OwnedQParams::of(tensor.qparams, tensor.dtype);
    if (!tensor.has_stated_bounds) return qparams;
    // A run refuses a code outside of stated bounds; clamped to them, it would not see one.
    qparams.quant_min = lowest_code(tensor.dtype);
    qparams.quant_max = highest_code(tensor.dtype);
    return qparams;
}

}  // namespace

std::vector<InputInfo> ProgramFile::inputs() const {
    const runtime::Program& program = lowered.program().program();
    std::vector<InputInfo> inputs;
    for (const std::int32_t index : program::without_state(program, program.inputs)) {
        const runtime::ProgramTensor& tensor = program.tensor(index);
        inputs.push_back({.name = tensor.name, .takes_ids = tensor.dtype == DType::int32});
        for (int axis = 0; axis < tensor.shape.rank; ++axis) inputs.back().extents.push_back(tensor.shape[axis]);
    }
    return inputs;
}

std::vector<std::string> ProgramFile::outputs() const {
    const runtime::Program& program = lowered.program().program();
    std::vector<std::string> names;
    const std::vector<std::int32_t> outputs = program::without_state(program, program.outputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const bool is_named = names_of_outputs.size() == outputs.size();
        const std::string name = is_named ? names_of_outputs[i] : program.tensor(outputs[i]).name;
        std::string free = name;
        for (int k = 1; std::find(names.begin(), names.end(), free) != names.end(); ++k)
            free = name + "_" + std::to_string(k);
        names.push_back(free);
    }
    return names;
}

DType ProgramFile::input_type(std::size_t input) const {
    const runtime::Program& program = lowered.program().program();
    return program.tensor(program::without_state(program, program.inputs)[input]).dtype;
}

bool ProgramFile::takes_codes(std::size_t input) const {
    return input_type(input) == DType::int8 || input_type(input) == DType::int16;
}

Tensor ProgramFile::codes_of(std::size_t input, const Tensor& samples) const {
    const runtime::Program& program = lowered.program().program();
    const runtime::ProgramTensor& x = program.tensor(program::without_state(program, program.inputs)[input]);
    interop::tflite::ProgramEnd end{x.name, {}, owned(x), true};
    for (int axis = 0; axis < x.shape.rank; ++axis)
        end.dims.push_back(x.shape[interop::tflite::program_axis(axis, static_cast<std::size_t>(x.shape.rank))]);
    return interop::tflite::quantize_input(samples, end);
}

std::vector<Tensor> ProgramFile::run(const Samples& samples) const {
    if (!keeps_state()) return lowered.run(samples);
    program::Session session(lowered.shared_program());
    std::vector<std::vector<Tensor>> parts;  // of each output
    for (index_t step = 0; step < samples.at(0).extent(0); ++step) {
        Samples inputs;
        for (const Tensor& each : samples) inputs.push_back(each.batch(step, 1));
        const std::vector<Tensor> outputs = session.run(inputs);
        parts.resize(outputs.size());
        for (std::size_t i = 0; i < outputs.size(); ++i) parts[i].push_back(outputs[i]);
    }
    std::vector<Tensor> results;
    for (const std::vector<Tensor>& part : parts) results.push_back(nn::float_operators::cat(part, 0));
    return results;
}

std::vector<Tensor> ProgramFile::run_real(const Samples& samples) const {
    Samples given = samples;
    for (std::size_t i = 0; i < given.size(); ++i)
        if (takes_codes(i) && given[i].dtype() == DType::float32) given[i] = codes_of(i, given[i]);
    std::vector<Tensor> results = lowered.run(given);
    const runtime::Program& program = lowered.program().program();
    for (std::size_t i = 0; i < results.size(); ++i)
        if (results[i].dtype() != DType::float32)
            results[i] = dequantize(results[i], owned(program.tensor(program.outputs[i])));
    return results;
}

Samples DataOptions::read_for(const ProgramFile& program) const {
    std::vector<ProgramInput> inputs;
    for (const InputInfo& info : program.inputs()) {
        const std::size_t i = inputs.size();
        inputs.push_back({info, program.input_type(i), {}});
        if (program.takes_codes(i))
            inputs[i].codes_of = [&program, i](const Tensor& x) { return program.codes_of(i, x); };
    }
    return read_as(inputs);
}

namespace {

/// The target and the backend that a program file was made for.
std::pair<std::string, std::string> names_of_file(const std::string& path) {
    const std::vector<std::byte> bytes = io::read_file(path);
    const program::AlignedBytes file(std::max<index_t>(1, static_cast<index_t>(bytes.size())));
    std::copy(bytes.begin(), bytes.end(), file.data());
    const auto names = runtime::program_file_names({file.data(), bytes.size()});
    throw_if_failed(names.status(), path);
    return {names->target, names->backend};
}

}  // namespace

namespace {

/// A program file for kernels of another order of weights: read as it is, and packed for them.
ProgramFile read_for_other_kernels(const std::string& path, const kernels::KernelTable& table,
                                   const std::string& packed_for) {
    const auto board = std::make_shared<const kernels::KernelTable>(deploy::describe_kernels(table, packed_for));
    const deploy::ProgramOfFile file = deploy::read_program(path, *board);
    require_proportion(path, file.program->program());
    ProgramFile made{LoweredModel(deploy::pack_program(file.program->program(), *board, table), nullptr), file.golden,
                     &table};
    made.of_board = file.program;
    made.packed_for = packed_for;
    made.board = board;
    return made;
}

}  // namespace

ProgramFile read_program_file(const std::string& path, const std::string& chosen) try {
    const char* const named = std::getenv("INTQ_BACKEND");
    const bool is_named = chosen.empty() && named != nullptr && *named != '\0';
    const std::string backend = is_named ? program::best_backend().name : chosen;
    const auto [target, made_for] = names_of_file(path);
    std::string reason, reason_of_others;
    const kernels::KernelTable* best = nullptr;
    for (const program::BackendTables& tables : program::runnable_tables()) {
        if (!backend.empty() && tables.name != backend) continue;
        for (const kernels::KernelTable* table : tables.tables) try {
                if (target != table->policy().name) continue;
                if (best == nullptr) best = table;
                deploy::ProgramOfFile file = deploy::read_program(path, *table);
                require_proportion(path, file.program->program());
                ProgramFile read{LoweredModel(std::move(file.program), nullptr), file.golden, table};
                read.packed_for = made_for;
                return read;
            } catch (const Error& error) {
                // What is wrong with the file is said by the kernels that it was made for.
                (tables.name == made_for ? reason : reason_of_others) = error.what();
            }
    }
    const bool is_foreign = best != nullptr && kernels::find_packing(made_for.c_str()) != nullptr;
    if (is_foreign && reason.empty()) return read_for_other_kernels(path, *best, made_for);
    if (reason.empty()) reason = reason_of_others;
    const std::string kernels = backend.empty() ? "" : " and the backend " + backend;
    throw Error(reason.empty() ? path + ": this program has no kernels for the target " + target + kernels : reason);
} catch (const std::bad_alloc&) {
    throw Error(path, "the memory is not enough to run it: its arena, or a tensor of it, is too large");
}

namespace {

runtime::Difference difference_of(const ProgramFile& file) {
    const runtime::Program& program = file.lowered.program().program();
    const program::AlignedBytes arena(program.arena_size);
    return runtime::self_test(program, file.golden, *file.table, arena.data());
}

}  // namespace

std::string self_test(const ProgramFile& file) {
    if (file.golden.runs() == 0) return "none: it has no golden runs";
    const runtime::Difference difference = difference_of(file);
    if (difference.is_none()) return "passed";
    const runtime::Program& program = file.lowered.program().program();
    return std::string("differs first in ") +
           program.instructions[static_cast<std::size_t>(difference.instruction)].name;
}

bool passes_self_test(const ProgramFile& file) { return file.golden.runs() == 0 || difference_of(file).is_none(); }

void require_self_test(const std::string& path, const ProgramFile& file) {
    if (!passes_self_test(file))
        throw Error(path, "its self test fails: it " + self_test(file) +
                              ", so it computes something else than where it was made");
}

void add_tflite_options(CLI::App& command, std::string& target, std::vector<std::string>& bounds) {
    command
        .add_option(
            "--target", target,
            "the arithmetic of a TFLite model: litert, which computes LiteRT's bytes, or tflite, which computes "
            "TFLite Micro's; default: litert")
        ->check(CLI::IsMember({"litert", "tflite"}))
        ->option_text("NAME");
    command
        .add_option("--bounds", bounds,
                    "bounds of the codes of a tensor of a TFLite model, which its sums of 32 bits rely on and each run "
                    "checks; may be given several times")
        ->allow_extra_args(false)
        ->option_text("NAME=LOWEST:HIGHEST");
}

namespace {

std::int32_t code_of(const std::string& text, const std::string& option) {
    std::int32_t code = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code);
    if (error != std::errc{} || end != text.data() + text.size() || text.empty())
        throw Error("--bounds: expected NAME=LOWEST:HIGHEST, given " + in_quotes(option));
    return code;
}

/// A name may have the signs that separate it from its bounds.
interop::tflite::StatedBounds bounds_of(const std::vector<std::string>& options) {
    interop::tflite::StatedBounds bounds;
    for (const std::string& option : options) {
        const std::size_t equals = option.rfind('='), colon = option.rfind(':');
        if (equals == std::string::npos || colon == std::string::npos || colon < equals || equals == 0)
            throw Error("--bounds: expected NAME=LOWEST:HIGHEST, given " + in_quotes(option));
        bounds[option.substr(0, equals)] = {code_of(option.substr(equals + 1, colon - equals - 1), option),
                                            code_of(option.substr(colon + 1), option)};
    }
    return bounds;
}

}  // namespace

ProgramFile read_runnable(const std::string& path, const ProgramChoice& choice) {
    const std::string extension = std::filesystem::path(path).extension().string();
    if (extension == ".tflite") {
        const kernels::KernelTable& table =
            find_table(choice.target.empty() ? "litert" : choice.target, choice.backend);
        // A file of a few bytes must not take the memory of a large model.
        std::error_code ignored;
        const auto bytes = static_cast<index_t>(std::filesystem::file_size(path, ignored));
        const interop::tflite::ImportOptions options{.limits = {.tensor_bytes = (index_t{48} << 20) + 256 * bytes,
                                                                .total_bytes = (index_t{64} << 20) + 256 * bytes,
                                                                .copied_bytes = index_t{96} << 20},
                                                     .bounds = bounds_of(choice.bounds),
                                                     .constant_channels = choice.constant_channels};
        const interop::tflite::ImportedProgram imported = interop::tflite::import_file(path, table, options);
        ProgramFile file{LoweredModel(imported.program, nullptr, imported.whole), {}, &table};
        for (const interop::tflite::ProgramEnd& output : imported.outputs) file.names_of_outputs.push_back(output.name);
        return file;
    }
    if (!choice.bounds.empty()) throw Error(path, "--bounds is for TFLite models");
    if (!choice.target.empty())
        throw Error(path, "--target is for TFLite models; a program file has a target, and an ONNX model has fp32");
    if (extension != ".onnx") return read_program_file(path, choice.backend);
    const kernels::KernelTable& table = find_table("fp32", choice.backend);
    const QuantizedGraph quantized = interop::onnx::import_quantized_file(path);
    try {
        require_proportion(path, quantized, choice.batch);
        ProgramFile file{lower(quantized, table, {choice.batch, {}, choice.constant_channels}), {}, &table};
        for (const auto& output : interop::onnx::read_model(path).graph.outputs)
            file.names_of_outputs.push_back(output.name);
        return file;
    } catch (const Error& error) {
        if (!read_model(path).is_quantized)
            throw Error(path, "is a model of real numbers; `intq quantize` makes a program of it");
        throw Error(path, error);
    }
}

}  // namespace intq_tool
