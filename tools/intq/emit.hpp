// SPDX-License-Identifier: MIT
//
// The forms in which a quantized model leaves the tool: a program file, a C++ header, JSON, or ONNX.
#ifndef INTQ_TOOLS_INTQ_EMIT_HPP
#define INTQ_TOOLS_INTQ_EMIT_HPP

#include <filesystem>
#include <string>

#include "options.hpp"

namespace intq_tool {

/// What is written, and how.
struct EmitOptions {
    std::string output;             // the file
    std::string kind;               // program, header, onnx or json; empty: what the output's extension says
    std::string name = "model";     // the namespace of a header
    std::string onnx_form = "qdq";  // or operators
    std::filesystem::path library;  // the folder whose intq/embedded.hpp a header holds
    bool is_single_file = false;
    intq::program::RowOptions rows{intq::program::RowMode::memory};  // of a header with groups

    /// The output, and the options of a header.
    void add_header_options(CLI::App& command);
    /// The same, and the choice of the form.
    void add_to(CLI::App& command);
    /// Completes the options once all are read.
    ///
    /// @throws CLI::ParseError  for an extension that says nothing, and options of another form
    void resolve(const CLI::App& command);
    bool is(const char* form) const { return kind == form; }
};

/// Of an output whose extension says a form that a command does not write: which command does; else empty.
///
/// @param written  the extensions of what it writes
std::string command_of_output(const std::string& output, const std::vector<std::string>& written);

/// Writes a program as a program file, a header or JSON; a file appears complete or not at all.
///
/// @param golden  of record_golden_runs(), or empty; JSON holds none
/// @throws Error  as deploy::serialize_program(), deploy::generate_cpp() and io::write_file() do
void write_program(const EmitOptions& options, const intq::runtime::Program& program,
                   const intq::kernels::KernelTable& table, const intq::deploy::GoldenRecord& golden);

/// The program as the output will run it, of which memory is reported: a header's inputs may lie outside the arena.
intq::deploy::HeaderProgram program_of_output(const EmitOptions& options, const intq::runtime::Program& program,
                                              const intq::kernels::KernelTable& table,
                                              const intq::deploy::GoldenRecord& golden);

/// Says which instructions run by rows, where some do.
void report_rows(const intq::runtime::Program& program, Report& report);

/// Says of a header where its inputs are read.
void report_inputs(const EmitOptions& options, const intq::runtime::Program& program, Report& report);

/// Writes a converted model as ONNX, with the names of the float model and an open batch.
void write_onnx(const EmitOptions& options, const FloatModel& model,
                const intq::quantization::QuantizedGraph& quantized);

/// A program for scripts: target, arena, every tensor with its scales, every instruction with its operands.
std::string program_json(const intq::runtime::Program& program, const intq::kernels::KernelTable& table);

}  // namespace intq_tool

#endif  // INTQ_TOOLS_INTQ_EMIT_HPP
