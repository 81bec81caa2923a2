// SPDX-License-Identifier: MIT
#include "emit.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <span>
#include <system_error>

namespace intq_tool {

using namespace intq;

namespace {

/// The folder that holds intq/embedded.hpp: that of the installation which this program belongs to, or its source.
std::filesystem::path library_folder() {
    std::error_code ignored;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
    for (const std::filesystem::path& folder :
         {program.parent_path() / ".." / "include", std::filesystem::path(INTQ_TOOL_LIBRARY)})
        if (std::filesystem::exists(folder / "intq" / "embedded.hpp", ignored)) return folder;
    throw CLI::ValidationError("--single-file", "the headers of intq are not beside this program; give --library");
}

std::string json_real(float value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.9g", static_cast<double>(value));
    return digits;
}

const auto json_count = [](auto value) { return std::to_string(value); };

std::string json_list(const auto& values, const auto& write) {
    return io::write_json_list(values, write, io::JsonStyle::spaced);
}

std::string tensor_json(const runtime::ProgramTensor& tensor) {
    std::vector<index_t> extents;
    for (int axis = 0; axis < tensor.shape.rank; ++axis) extents.push_back(tensor.shape[axis]);
    io::JsonObject object(io::JsonStyle::spaced);
    object.add_text("name", tensor.name)
        .add_text("dtype", name_of(tensor.dtype))
        .add("shape", json_list(extents, json_count))
        .add_text("layout", name_of(tensor.layout))
        .add("offset", json_count(tensor.offset));
    if (tensor.ring != 0) object.add("ring", json_count(tensor.ring));
    if (tensor.dtype == DType::float32) return object.str();
    const OwnedQParams q = OwnedQParams::of(tensor.qparams, tensor.dtype);
    return object.add("axis", q.is_per_channel() ? json_count(q.axis) : "null")
        .add("scale", json_list(q.scales, json_real))
        .add("zero_point", json_list(q.zero_points, json_count))
        .add("quant_min", json_count(q.quant_min))
        .add("quant_max", json_count(q.quant_max))
        .str();
}

std::string state_json(const runtime::StatePair& state) {
    return io::JsonObject(io::JsonStyle::spaced)
        .add("input", json_count(state.input))
        .add("output", json_count(state.output))
        .str();
}

std::string instruction_json(const runtime::Program& program, const runtime::Instruction& instruction) {
    return io::JsonObject(io::JsonStyle::spaced)
        .add_text("name", instruction.name)
        .add_text("type", instruction.type)
        .add_text("operator", name_of(instruction.op))
        .add("operands", json_list(program.operands_of(instruction), json_count))
        .add("output", json_count(instruction.output))
        .add("rows", json_count(instruction.rows))
        .str();
}

}  // namespace

// --- options --------------------------------------------------------------------------------------------------------

void EmitOptions::add_header_options(CLI::App& command) {
    command.add_option("-o,--output", output, "the file that is written")->required()->option_text("FILE");
    command.add_option("--name", name, "of a header: its namespace; default: model")->option_text("NAME");
    auto* single = command.add_flag("--single-file", is_single_file,
                                    "of a header: the library's text is in it, so that it needs no other file");
    command.add_option("--library", library, "where --single-file finds intq/embedded.hpp; default: this installation")
        ->needs(single)
        ->option_text("FOLDER");
    group_options(command, "Output", {"--output", "--name", "--single-file", "--library"});
}

void EmitOptions::add_to(CLI::App& command) {
    add_header_options(command);
    command
        .add_option("--emit", kind,
                    "program, header, onnx or json; default: by the extension .intq, .hpp or .h, .onnx, .json")
        ->check(CLI::IsMember({"program", "header", "onnx", "json"}))
        ->option_text("FORM");
    command.add_option("--onnx-form", onnx_form, "of an ONNX file: qdq or operators; default: qdq")
        ->check(CLI::IsMember({"qdq", "operators"}))
        ->option_text("FORM");
    group_options(command, "Output", {"--emit", "--onnx-form"});
}

namespace {

/// What an extension says; empty for others.
std::string kind_of(const std::string& output) {
    static const std::map<std::string, std::string> kinds{
        {".intq", "program"}, {".hpp", "header"}, {".h", "header"}, {".onnx", "onnx"}, {".json", "json"}};
    const auto known = kinds.find(std::filesystem::path(output).extension().string());
    return known == kinds.end() ? "" : known->second;
}

}  // namespace

std::string command_of_output(const std::string& output, const std::vector<std::string>& written) {
    const std::string extension = std::filesystem::path(output).extension().string(), kind = kind_of(output);
    if (kind.empty() || std::find(written.begin(), written.end(), extension) != written.end()) return "";
    const std::string command = kind == "onnx" ? "quantize" : kind == "program" ? "pack" : "codegen";
    return "`intq " + command + "` writes " + extension + (kind == "onnx" ? ", of a float model" : "");
}

void EmitOptions::resolve(const CLI::App& command) {
    const std::string known = kind_of(output);
    if (kind.empty() && known.empty())
        throw CLI::ValidationError("--output", "'" + output +
                                                   "' does not say what to write; give --emit, or an output that ends "
                                                   "in .intq, .hpp, .h, .onnx or .json");
    if (kind.empty()) kind = known;
    const auto refuse = [&](const char* option, const char* form) {
        if (!is(form) && command.get_option_no_throw(option) != nullptr && command.count(option) > 0)
            throw CLI::ValidationError(option, std::string("is for --emit ") + form + ", and this writes " + kind);
    };
    for (const char* option : {"--name", "--single-file", "--library"}) refuse(option, "header");
    refuse("--onnx-form", "onnx");
    if (is_single_file && library.empty()) library = library_folder();
}

// --- writing --------------------------------------------------------------------------------------------------------

std::string program_json(const runtime::Program& program, const kernels::KernelTable& table) {
    const auto lines = [](const auto& values, const auto& text_of) {
        std::string text;
        for (const auto& value : values) text += (text.empty() ? "\n    " : ",\n    ") + text_of(value);
        return "[" + text + "\n  ]";
    };
    return std::string("{\n  \"target\": \"") + table.policy().name + "\",\n  \"backend\": \"" + table.backend +
           "\",\n  \"max_batch\": " + std::to_string(program.max_batch) +
           ",\n  \"arena_bytes\": " + std::to_string(program.arena_size) +
           ",\n  \"inputs\": " + json_list(program.inputs, json_count) +
           ",\n  \"outputs\": " + json_list(program.outputs, json_count) +
           ",\n  \"states\": " + json_list(program.states, state_json) +
           ",\n  \"tensors\": " + lines(program.tensors, tensor_json) + ",\n  \"instructions\": " +
           lines(program.instructions, [&](const auto& step) { return instruction_json(program, step); }) + "\n}\n";
}

void write_program(const EmitOptions& options, const runtime::Program& program, const kernels::KernelTable& table,
                   const deploy::GoldenRecord& golden) {
    if (options.is("program")) {
        io::write_file(options.output, deploy::serialize_program(program, table, golden));
    } else if (options.is("header")) {
        deploy::GenerateOptions generate;
        generate.name = options.name;
        generate.library = options.library;
        generate.rows = options.rows;
        io::write_file(options.output, deploy::generate_cpp(program, table, golden, generate));
    } else {
        io::write_file(options.output, program_json(program, table));
    }
}

deploy::HeaderProgram program_of_output(const EmitOptions& options, const runtime::Program& program,
                                        const kernels::KernelTable& table, const deploy::GoldenRecord& golden) {
    if (options.is("header")) return deploy::header_program(program, table, golden, options.rows);
    deploy::HeaderProgram same;
    same.program = program;
    return same;
}

void report_rows(const runtime::Program& program, Report& report) {
    if (program.groups.empty()) return;
    long long instructions = 0;
    std::vector<std::vector<std::string>> rows;
    for (const program::RowSummary& group : program::row_summaries(program)) {
        instructions += group.instructions;
        rows.push_back({group.first, group.last, std::to_string(group.instructions), std::to_string(group.rings),
                        std::to_string(group.whole), std::to_string(group.scratch), std::to_string(group.steps)});
    }
    report.text("rows", std::to_string(instructions) + " of " + std::to_string(program.instructions.size()) +
                            " instructions run row by row, in " + std::to_string(program.groups.size()) +
                            (program.groups.size() == 1 ? " group" : " groups"));
    using io::Align;
    report.table("groups",
                 {{"from"},
                  {"to"},
                  {"layers", Align::right},
                  {"bytes of rings", Align::right},
                  {"whole", Align::right},
                  {"scratch", Align::right},
                  {"steps", Align::right}},
                 rows);
}

void report_inputs(const EmitOptions& options, const runtime::Program& program, Report& report) {
    if (!options.is("header")) return;
    std::vector<std::vector<std::string>> rows;
    bool may_be_given = false;
    for (const std::int32_t index : program::without_state(program, program.inputs)) {
        const runtime::ProgramTensor& input = program.tensor(index);
        may_be_given |= !input.is_given() && (input.dtype == DType::float32 || input.dtype == DType::uint8);
        rows.push_back({input.name, input.is_given() ? "read where the caller has it" : "copied into the arena"});
    }
    report.table("inputs", {{"input"}, {"of a run"}}, rows,
                 may_be_given ? "inputs; one of floats or pixels is not copied, where a golden run has samples" : "");
}

void write_onnx(const EmitOptions& options, const FloatModel& model, const quantization::QuantizedGraph& quantized) {
    namespace onnx = interop::onnx;
    onnx::ExportOptions write;
    write.form = options.onnx_form == "qdq" ? onnx::QuantizedForm::qdq : onnx::QuantizedForm::operators;
    for (const InputInfo& input : model.inputs) write.input_names.push_back(input.name);
    write.output_names = model.outputs;
    for (const auto* names : {&write.input_names, &write.output_names})
        for (const std::string& name : *names) write.dynamic_axes[name] = {{0, "batch"}};
    onnx::export_to_onnx(quantized, options.output, write);
}

}  // namespace intq_tool
