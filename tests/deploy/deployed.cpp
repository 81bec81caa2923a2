// SPDX-License-Identifier: MIT
//
// A generated header and the file of the same program on any machine: compiled with
//
//     -DINTQ_MODEL=<name> -DINTQ_MODEL_HEADER="<name>.hpp" -DINTQ_MODEL_FILE="<name>_file.hpp"
//
// It prints a checksum of the output on a pattern, the verdict of the self test, and whether the program out of the
// file gives the same bytes.
#include <cstdint>
#include <cstdio>
#include <type_traits>

#include INTQ_MODEL_HEADER
#include INTQ_MODEL_FILE
#include "pattern.hpp"

#define INTQ_JOIN_NAMES(a, b) a##b
#define INTQ_FILE_OF(name) INTQ_JOIN_NAMES(name, _file)

namespace {

using namespace intq;
namespace model = INTQ_MODEL;

constexpr std::size_t inputs = static_cast<std::size_t>(model::data::tensors[model::data::inputs[0]].shape.size());
constexpr std::size_t outputs = static_cast<std::size_t>(model::data::tensors[model::data::outputs[0]].shape.size());

constexpr bool takes_pixels = model::data::tensors[model::data::inputs[0]].dtype == DType::uint8;
std::conditional_t<takes_pixels, std::uint8_t, float> x[inputs];
float y[outputs];
alignas(buffer_alignment) std::byte tables[64 * 1024];
alignas(buffer_alignment) std::byte file_arena[192 * 1024];  // holds the input as well

bool file_agrees() {
    const auto file = std::as_bytes(std::span(INTQ_FILE_OF(INTQ_MODEL)));
    const auto& table = model::data::all;  // with what a file is checked against
    const auto loaded = runtime::load_program(file, table, {tables, sizeof tables});
    if (!loaded) {
        std::printf("the file is refused: %s of %s\n", name_of(loaded.status().code), name_of(loaded.status().field));
        return false;
    }
    const runtime::Program& program = loaded->program;
    if (program.arena_size > static_cast<index_t>(sizeof file_arena)) return false;
    runtime::write_inputs(program, file_arena, reinterpret_cast<const std::byte*>(x));
    runtime::execute(program, table, file_arena, 1);
    const bool is_same = std::memcmp(runtime::tensor_data(program, file_arena, program.outputs[0]), y, sizeof y) == 0;
    return is_same && runtime::self_test(program, loaded->golden, table, file_arena).is_none();
}

}  // namespace

int main() {
    test::fill_pattern(x, static_cast<index_t>(inputs));
    model::run(x, y);
    std::printf("output %08x\n", static_cast<unsigned>(crc32(std::as_bytes(std::span(y)))));
    const runtime::SelfTestResult result = model::self_test();
    if (result)
        std::printf("self test passed\n");
    else
        std::printf("self test failed: %s\n", result.constants_are_whole ? result.layer : "constants");
    std::printf(file_agrees() ? "file agrees\n" : "file differs\n");
    return 0;
}
