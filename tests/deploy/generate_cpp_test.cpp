// SPDX-License-Identifier: MIT
//
// What a generated header says, and what is refused. That it compiles and runs is seen on the machines of
// tests/conformance.
#include "intq/deploy/generate_cpp.hpp"

#include <string>

#include "kernels/tables/tables.hpp"
#include "runtime/operator_program.hpp"
#include "runtime/small_program.hpp"
#include "support/catch.hpp"

using namespace intq;
namespace oracle = intq::test::oracle;
using Catch::Matchers::Contains;

namespace {

const kernels::KernelTable& table() { return test::scalar_table<target::tflite<>>(); }

/// A program of one image: a table of codes, and a sum.
struct OneImage {
    explicit OneImage(index_t batch = 1) {
        const test::Codes codes{0.05f, 3, DType::int8};
        const Shape shape(batch, index_t{4});
        for (int i = 0; i < 3; ++i)
            tensors[i] = {DType::int8, shape, codes.for_library(), 64 * i, "", Layout::channels_last};
        for (int i = 0; i < 256; ++i) entries[i] = static_cast<std::int8_t>(i - 128);
        look_up = {entries, arith::int8_table_size};
        add = test::value_of(arith::make_add(table().policy(), codes.codes_of(), codes.codes_of(), codes.codes_of(),
                                             codes.output_codes()));
        instructions[0] = {OpKind::lookup_table, 0, 1, 0, 1, "a \"table\"", "", {&look_up}};
        instructions[1] = {OpKind::add, 0, 2, 1, 2, "sum", "", {&add}};
        program.instructions = instructions;
        program.tensors = tensors;
        program.operands = operands;
        program.inputs = inputs;
        program.outputs = outputs;
        program.arena_size = 256;
        program.max_batch = batch;
    }
    std::int8_t entries[256];
    kernels::LookUpParams look_up;
    arith::AddParams add;
    runtime::ProgramTensor tensors[3];
    runtime::Instruction instructions[2];
    const std::int32_t operands[3] = {0, 0, 1}, inputs[1] = {0}, outputs[1] = {2};
    runtime::Program program;
};

}  // namespace

TEST_CASE("a header holds the kernels that its program needs, and no others") {
    const OneImage one;
    const std::string text = deploy::generate_cpp(one.program, table());
    CHECK_THAT(text, Contains("add_rows[] = {all.add["));
    CHECK_THAT(text, Contains("look_up_rows[] = {all.look_up["));
    for (const char* const family : {"conv_rows[", "pool_rows[", "softmax_rows[", "quantize_rows[", "requantize_rows["})
        CHECK_THAT(text, !Contains(family));
    CHECK_THAT(text, Contains("run_step<program, table, 0>(arena);  // lookup_table"));
    CHECK_THAT(text, Contains("a \\042table\\042"));
    CHECK_THAT(text, Contains("inline void run(const std::int8_t* x0, std::int8_t* y0)"));
    CHECK_THAT(text, Contains("arena_bytes = 128;"));  // planned anew: the sum takes the place of an operand
    CHECK(text == deploy::generate_cpp(one.program, table()));
}

TEST_CASE("a header holds the kernel of an average's rule, and not that of the other") {
    const test::Codes codes{0.05f, 3, DType::int8};
    for (const bool is_mean : {false, true}) {
        const auto average =
            is_mean ? arith::make_mean(table().policy(), codes.codes_of(), codes.codes_of(), codes.output_codes(), 4)
                    : arith::make_average(table().policy(), codes.codes_of(), codes.codes_of(), codes.output_codes(), 4,
                                          PoolDivisor::kernel_cells, false);
        const kernels::PoolParams pool{{{2, 2}, {2, 2}, {}, {1, 1}}, test::value_of(average)};
        const runtime::ProgramTensor tensors[] = {
            {DType::int8, Shape(index_t{1}, index_t{4}, index_t{2}, index_t{2}), codes.for_library(), 0, ""},
            {DType::int8, Shape(index_t{1}, index_t{4}, index_t{1}, index_t{1}), codes.for_library(), 64, ""}};
        const runtime::Instruction instructions[] = {{OpKind::avg_pool2d, 0, 1, 0, 1, "pool", "", {&pool}}};
        const std::int32_t input[] = {0}, output[] = {1};
        runtime::Program program;
        program.instructions = instructions;
        program.tensors = tensors;
        program.operands = program.inputs = input;
        program.outputs = output;
        program.arena_size = 128;
        CHECK_THAT(deploy::generate_cpp(program, table()),
                   Contains(is_mean ? "pool_rows[] = {all.pool[4]};" : "pool_rows[] = {all.pool[2]};"));
        // The reader of a program refuses it where the row of its rule is missing.
        kernels::KernelTable lacking = table();
        lacking.pool = is_mean ? lacking.pool.first(4) : lacking.pool.last(2);
        CHECK(runtime::check_program(program, lacking) ==
              Status{StatusCode::unsupported, OpKind::avg_pool2d, Field::input, static_cast<int>(DType::int8), 0});
    }
}

TEST_CASE("a header for pixels takes bytes") {
    OneImage one;
    const kernels::QuantizeImageParams pixels{one.entries, 1, DType::int8};
    one.tensors[0].dtype = DType::uint8;
    one.instructions[0] = {OpKind::quantize_image, 0, 1, 0, 1, "camera", "", {&pixels}};
    const std::int32_t operands[3] = {0, 1, 1};
    one.program.operands = operands;
    const std::string text = deploy::generate_cpp(one.program, table());
    CHECK_THAT(text, Contains("inline void run(const std::uint8_t* x0, std::int8_t* y0)"));
    CHECK_THAT(text, Contains("intq::kernels::QuantizeImageParams p0[]"));
    // They are read where they are; the two tensors of codes share a place, because the sum is written over its
    // operand.
    CHECK_THAT(text, !Contains("std::memcpy(arena"));
    CHECK_THAT(text, Contains("run_step<program, table, 0>(arena, given);  // quantize_image"));
    CHECK_THAT(text, Contains("arena_bytes = 64;"));
    CHECK_THAT(text, !Contains("quantize_rows["));
}

TEST_CASE("a header is refused for more than one image, a name that is none, and a foreign target") {
    const OneImage one, two(2);
    CHECK_THROWS_WITH(deploy::generate_cpp(two.program, table()), Contains("max_batch of 1, given 2"));
    for (const char* const name : {"", "1st", "a-b", "a::b", "class", "xor", "intq"})
        CHECK_THROWS_WITH(deploy::generate_cpp(one.program, table(), {}, {.name = name}), Contains("namespace"));
    arith::PolicyRecord policy = table().policy();
    policy.name = "my_chip";
    kernels::KernelTable foreign = table();
    foreign.packing.policy = &policy;
    CHECK_THROWS_WITH(deploy::generate_cpp(one.program, foreign), Contains("no target 'my_chip'"));
    CHECK_THAT(deploy::generate_cpp(one.program, foreign, {}, {.target = "my_chip"}),
               Contains("intq::kernels::kernel_table<my_chip, intq::simd::scalar>"));
    runtime::Program unsound = one.program;
    unsound.arena_size = 64;
    CHECK_THROWS_WITH(deploy::generate_cpp(unsound, table()), Contains("the program to generate"));
}
