// SPDX-License-Identifier: MIT
//
// Which inputs of a program a generated header reads where its caller has them, and that nothing else changes.
#include "intq/deploy/header_program.hpp"

#include <cstring>
#include <vector>

#include "intq/program/owned_program.hpp"
#include "intq/runtime/self_test.hpp"
#include "kernels/tables/tables.hpp"
#include "runtime/small_program.hpp"
#include "support/catch.hpp"

using namespace intq;
namespace oracle = intq::test::oracle;
using program::AlignedBytes;

namespace {

const kernels::KernelTable& table() { return test::scalar_table<target::tflite<arith::double_rounding>>(); }

/// Golden runs of one image of zeros.
deploy::GoldenRecord golden_of(const runtime::Program& program, index_t count, index_t patterns) {
    deploy::GoldenRecord golden;
    golden.count = count;
    golden.patterns = patterns;
    for (const std::int32_t input : program.inputs)
        golden.inputs.resize(golden.inputs.size() + static_cast<std::size_t>(program.tensor(input).bytes()));
    return golden;
}

std::vector<std::byte> output_of(const runtime::Program& program, std::byte* arena) {
    const runtime::ProgramTensor& y = program.tensor(program.outputs[0]);
    const auto* const first = static_cast<const std::byte*>(runtime::tensor_data(program, arena, program.outputs[0]));
    return {first, first + y.bytes()};
}

}  // namespace

TEST_CASE("an input is read where its caller has it: the same bytes, in a smaller arena") {
    const test::SmallProgram small(table(), oracle::tflite_double());
    const runtime::Program whole = small.program();
    const deploy::HeaderProgram header = deploy::header_program(whole, table(), golden_of(whole, 1, 4));
    const std::int32_t input = whole.inputs[0];
    REQUIRE(header.program.tensor(input).is_given());
    REQUIRE(runtime::check_program(header.program, table()).ok());
    CHECK(header.program.arena_size < whole.arena_size);

    std::vector<float> x(static_cast<std::size_t>(whole.tensor(input).shape.size()));
    test::Draw draw(1);
    for (float& value : x) value = draw.real(-3.0f, 3.0f);
    const std::vector<float> before = x;
    const AlignedBytes first(whole.arena_size), second(header.program.arena_size);
    std::memcpy(runtime::tensor_data(whole, first.data(), input), x.data(), x.size() * sizeof(float));
    runtime::execute(whole, table(), first.data(), whole.max_batch);
    const void* const given[] = {x.data()};
    runtime::execute(header.program, table(), second.data(), whole.max_batch, serial, {}, given);
    CHECK(output_of(whole, first.data()) == output_of(header.program, second.data()));
    CHECK(x == before);
}

TEST_CASE("inputs stay in the arena where another operator reads them, or the self test has no image for them") {
    test::SmallProgram small(table(), oracle::tflite_double());
    const std::int32_t input = small.inputs[0];
    const auto is_given = [&](index_t count, index_t patterns) {
        const runtime::Program program = small.program();
        return deploy::header_program(program, table(), golden_of(program, count, patterns))
            .program.tensor(input)
            .is_given();
    };
    CHECK(is_given(1, 4));
    CHECK(is_given(0, 0));
    CHECK_FALSE(is_given(0, 4));
    SECTION("another operator") {
        small.instructions[0].op = OpKind::relu;
        CHECK_FALSE(is_given(1, 4));
    }
    SECTION("an output of the program") {
        small.outputs[0] = input;
        CHECK_FALSE(is_given(1, 4));
    }
    SECTION("stated bounds") {
        small.tensors[static_cast<std::size_t>(input)].has_stated_bounds = true;
        CHECK_FALSE(is_given(1, 4));
    }
}
