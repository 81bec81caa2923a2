// SPDX-License-Identifier: MIT
//
// Lifetimes and plans of whole programs: what takes the place of what, and what the report says of it.
#include "intq/deploy/memory_report.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "intq/program/lifetimes.hpp"
#include "intq/program/owned_program.hpp"
#include "kernels/tables/tables.hpp"
#include "runtime/fill_ids.hpp"
#include "runtime/operator_program.hpp"
#include "runtime/small_program.hpp"
#include "support/catch.hpp"

using namespace intq;
namespace oracle = intq::test::oracle;
using program::AlignedBytes;

namespace {

const kernels::KernelTable& table() { return test::scalar_table<target::tflite<arith::double_rounding>>(); }

/// Bytes of the output after a run on inputs of the code or number 1.
std::vector<std::byte> output_of(const runtime::Program& program) {
    const AlignedBytes arena(program.arena_size);
    for (const std::int32_t input : program.inputs) {
        const runtime::ProgramTensor& tensor = program.tensor(input);
        void* const to = runtime::tensor_data(program, arena.data(), input);
        test::Draw draw(static_cast<std::uint64_t>(input) + 1);
        if (test::fill_ids(tensor, to, draw)) continue;
        for (index_t i = 0; i < tensor.shape.size(); ++i)
            if (tensor.dtype == DType::float32)
                static_cast<float*>(to)[i] = draw.real(-3.0f, 3.0f);
            else
                static_cast<std::int8_t*>(to)[i] = static_cast<std::int8_t>(draw.between(-128, 127));
    }
    runtime::execute(program, table(), arena.data(), program.max_batch);
    const runtime::ProgramTensor& y = program.tensor(program.outputs[0]);
    const auto* const first =
        static_cast<const std::byte*>(runtime::tensor_data(program, arena.data(), program.outputs[0]));
    return {first, first + y.bytes()};
}

/// The program with a new plan.
struct Planned {
    explicit Planned(const runtime::Program& from)
        : lives(program::lifetimes_of(from, table())),
          tensors(from.tensors.begin(), from.tensors.end()),
          program(from) {
        program.arena_size = program::plan(lives);
        for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].offset = lives.tensors[i].offset;
        program.tensors = tensors;
        program.workspace_size = lives.edges.back().bytes;
        program.workspace_offset = lives.edges.back().offset;
    }
    program::ProgramLifetimes lives;
    std::vector<runtime::ProgramTensor> tensors;
    runtime::Program program;
};

}  // namespace

TEST_CASE("a program that is planned again is sound, smaller, and gives the same bytes") {
    const test::SmallProgram small(table(), oracle::tflite_double());
    const test::OperatorProgram operators(table());
    for (const runtime::Program& program : {small.program(), operators.program()}) {
        const Planned planned(program);
        REQUIRE(runtime::check_program(planned.program, table()).ok());
        CHECK(planned.program.arena_size <= program.arena_size);
        CHECK(planned.program.arena_size >= program::lower_bound_of(planned.lives, 1));
        CHECK(output_of(planned.program) == output_of(program));
    }
}

TEST_CASE("tensors lie above the scratch of the instructions during which they live, where that takes less") {
    // Two instructions, the first with much scratch: x -> y -> z.
    program::ProgramLifetimes lives;
    lives.tensors = {{1024, -1, 0}, {4096, 0, 1}, {1920, 1, 2}};
    lives.edges = lives.tensors;
    lives.edges.push_back({2048, 0, 1});
    lives.edge_of = {0, 1, 2};
    lives.workspaces = {2048, 64};
    // With the scratch as an edge of 2048 bytes, the second instruction needs 4096 + 1920 + 2048.
    CHECK(program::plan(lives) == 1024 + 4096 + 2048);
    CHECK(program::lower_bound_of(lives) == 1024 + 4096 + 2048);
    CHECK(lives.edges.back().offset == 0);
    CHECK(lives.edges.back().bytes == 2048);
    CHECK(lives.tensors[0].offset >= 2048);
    CHECK(lives.tensors[1].offset >= 2048);
    CHECK(lives.tensors[2].offset >= 64);
    // Where all need as much of it, it is an edge as before.
    lives.workspaces = {2048, 2048};
    for (runtime::Lifetime& edge : lives.edges) edge.lowest = 0;
    CHECK(program::plan(lives) == 4096 + 1920 + 2048);
}

TEST_CASE("an element-wise operator takes the place of an operand that nothing reads afterwards, and of no other") {
    const test::SmallProgram small(table(), oracle::tflite_double());
    const Planned planned(small.program());
    int in_place = 0, operators = 0;
    for (std::size_t i = 0; i < planned.program.instructions.size(); ++i) {
        const runtime::Instruction& instruction = planned.program.instructions[i];
        const kernels::ProgramOperator& row = *kernels::find_operator(instruction.op);
        const bool may = row.runs_in_place != nullptr && row.runs_in_place(instruction.params);
        const auto output = static_cast<std::size_t>(instruction.output);
        bool shares = false, may_share = false;
        for (const std::int32_t operand : planned.program.operands_of(instruction)) {
            const auto x = static_cast<std::size_t>(operand);
            shares |= planned.lives.edge_of[x] == planned.lives.edge_of[output];
            may_share |= planned.lives.tensors[x].last == static_cast<std::int32_t>(i) &&
                         planned.tensors[x].bytes() == planned.tensors[output].bytes();
        }
        CHECK(shares == (may && may_share));
        in_place += shares;
        operators += may;
    }
    CHECK(operators == 2);  // add and relu
    CHECK(in_place == 2);
}

TEST_CASE("the report names the arena, its bound and who occupies the peak") {
    const test::SmallProgram small(table(), oracle::tflite_double());
    const Planned planned(small.program());
    const deploy::MemoryReport report = deploy::memory_report(planned.program, table());
    CHECK(report.arena == planned.program.arena_size);
    // Images of (3, 8, 6, 5) codes: the first convolution's output, what the second reads and writes, and their sum in
    // the place of one.
    index_t sum = 0;
    const auto occupants = report.at(report.peak);
    for (std::size_t i = 0; i < occupants.size(); ++i) {
        sum += occupants[i].bytes;
        if (i > 0) CHECK(occupants[i].bytes <= occupants[i - 1].bytes);
        CHECK(occupants[i].offset + occupants[i].bytes <= report.arena);
    }
    CHECK(sum >= report.lower_bound);
    CHECK(report.to_text().find(std::to_string(report.arena) + " bytes") != std::string::npos);
    CHECK(report.to_text().find(report.peak_name) != std::string::npos);
    const std::string svg = report.to_svg();
    std::size_t rectangles = 0;
    for (std::size_t at = svg.find("<rect"); at != std::string::npos; at = svg.find("<rect", at + 1)) ++rectangles;
    CHECK(rectangles == report.occupants.size());
    CHECK(svg.substr(0, 4) == "<svg");
    CHECK(svg.substr(svg.size() - 7) == "</svg>\n");
    deploy::MemoryReport named = report;
    named.occupants[0].name = "a\xff<b&\x1b";
    CHECK(named.to_svg().find("<title>a\\xff&lt;b&amp;\\x1b: ") != std::string::npos);
    CHECK(is_utf8(named.to_svg()));
}
