// SPDX-License-Identifier: MIT
//
// OwnedProgram::run() reads an image where its tensor has it, and computes what execute() computes in the arena.
// Which inputs these are is tested by deploy/header_program.
#include "intq/program/given_inputs.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "intq/program/owned_program.hpp"
#include "kernels/tables/tables.hpp"
#include "runtime/small_program.hpp"
#include "support/catch.hpp"

using namespace intq;
namespace oracle = intq::test::oracle;

namespace {

const kernels::KernelTable& table() { return test::scalar_table<target::tflite<arith::double_rounding>>(); }

/// Images in the order (N, C, H, W), batch after batch.
std::string run_in_arena(const runtime::Program& program, const Tensor& images) {
    const program::AlignedBytes arena(program.arena_size);
    const runtime::ProgramTensor& x = program.tensor(program.inputs[0]);
    const runtime::ProgramTensor& y = program.tensor(program.outputs[0]);
    std::string result;
    for (index_t first = 0; first < images.shape()[0]; first += program.max_batch) {
        const index_t batch = std::min(program.max_batch, images.shape()[0] - first);
        std::memcpy(runtime::tensor_data(program, arena.data(), program.inputs[0]),
                    images.data() + first * x.bytes() / program.max_batch,
                    static_cast<std::size_t>(batch * x.bytes() / program.max_batch));
        runtime::execute(program, table(), arena.data(), batch);
        result.append(static_cast<const char*>(runtime::tensor_data(program, arena.data(), program.outputs[0])),
                      static_cast<std::size_t>(batch * y.bytes() / program.max_batch));
    }
    return result;
}

std::string bytes_of(const Tensor& tensor) {
    return {reinterpret_cast<const char*>(tensor.data()), static_cast<std::size_t>(tensor.bytes())};
}

}  // namespace

TEST_CASE("a run reads images where their tensor has them, and leaves them as they are") {
    const test::SmallProgram small(table(), oracle::tflite_double());
    const program::OwnedProgram owned(std::make_unique<program::ProgramStorage>(), small.program(), table());
    const std::int32_t input = owned.program().inputs[0];
    Shape shape = owned.program().tensor(input).shape;
    shape[0] = 2 * owned.max_batch() + 1;
    Tensor images = Tensor::empty(shape, DType::float32);
    test::Draw draw(3);
    for (index_t i = 0; i < shape.size(); ++i) reinterpret_cast<float*>(images.data())[i] = draw.real(-3.0f, 3.0f);
    const std::string before = bytes_of(images), expected = run_in_arena(owned.program(), images);

    struct Seen {
        int runs = 0, given = 0;
    } seen;
    const auto look = [](void* context, const runtime::Program& program, index_t instruction, const void*, index_t) {
        auto& counts = *static_cast<Seen*>(context);
        counts.runs += instruction == 0 ? 1 : 0;
        counts.given += instruction == 0 && program.tensor(program.inputs[0]).is_given() ? 1 : 0;
    };
    CHECK(bytes_of(owned.run(images, serial, {look, &seen})) == expected);
    CHECK(seen.runs == 3);
    CHECK(seen.given == 3);
    CHECK(bytes_of(images) == before);
    // The program that others execute has a place for the image in its arena.
    CHECK_FALSE(owned.program().tensor(input).is_given());

    const Tensor rearranged = images.to_layout(Layout::channels_last);
    CHECK(bytes_of(owned.run(rearranged)) == expected);
}

TEST_CASE("inputs of different numbers of samples are named, with both numbers") {
    const test::SmallProgram small(table(), oracle::tflite_double());
    runtime::Program program = small.program();
    const std::vector<std::int32_t> twice{program.inputs[0], program.inputs[0]};
    program.inputs = twice;
    Shape shape = program.tensor(twice[0]).shape;
    std::vector<Tensor> inputs;
    for (const index_t samples : {5, 2}) {
        shape[0] = samples;
        inputs.push_back(Tensor::of_shape(shape));
    }
    CHECK_THROWS_WITH(program::check_inputs(program, inputs),
                      Catch::Contains("input 1") && Catch::Contains("2 samples, and input 0 has 5"));
    inputs[1] = inputs[0];
    CHECK(program::check_inputs(program, inputs) == 5);
}
