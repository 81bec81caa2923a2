// SPDX-License-Identifier: MIT
//
// Generated headers and the files of the same programs on any machine: compiled with -DINTQ_MODELS_HEADER="<header>",
// which includes <name>.hpp and <name>_file.hpp of each network, and defines INTQ_MODELS(X) as X(<name>) X(<name>)...
//
// For each network it prints a checksum of the output on a pattern, the verdict of the self test, and whether the
// program out of the file gives the same bytes. One program holds them all, because compilers take longer for the
// kernels of every operator, with which files are checked, than for a network.
#include <cstdint>
#include <cstdio>
#include <type_traits>

#include INTQ_MODELS_HEADER
#include "pattern.hpp"

namespace {

using namespace intq;

alignas(buffer_alignment) std::byte tables[64 * 1024];
alignas(buffer_alignment) std::byte file_arena[192 * 1024];  // holds the input as well

/// Whether the program in `file` gives the bytes `y` on `x`, and passes its self test.
bool file_agrees(std::span<const std::byte> file, const kernels::KernelTable& table, const std::byte* x,
                 std::span<const std::byte> y) {
    const auto loaded = runtime::load_program(file, table, {tables, sizeof tables});
    if (!loaded) {
        std::printf("the file is refused: %s of %s\n", name_of(loaded.status().code), name_of(loaded.status().field));
        return false;
    }
    const runtime::Program& program = loaded->program;
    if (program.arena_size > static_cast<index_t>(sizeof file_arena)) return false;
    runtime::write_inputs(program, file_arena, x);
    runtime::execute(program, table, file_arena, 1);
    const void* output = runtime::tensor_data(program, file_arena, program.outputs[0]);
    const bool is_same = std::memcmp(output, y.data(), y.size()) == 0;
    return is_same && runtime::self_test(program, loaded->golden, table, file_arena).is_none();
}

template <class Model> void print_model(const char* name, std::span<const std::byte> file) {
    static std::conditional_t<Model::input.dtype == DType::uint8, std::uint8_t, float> x[Model::input.shape.size()];
    static float y[Model::output.shape.size()];
    test::fill_pattern(x, Model::input.shape.size());
    Model::run(x, y);
    const auto bytes = std::as_bytes(std::span(y));
    std::printf("%s: output %08x\n", name, static_cast<unsigned>(crc32(bytes)));
    const runtime::SelfTestResult result = Model::self_test();
    if (result)
        std::printf("self test passed\n");
    else
        std::printf("self test failed: %s\n", result.constants_are_whole ? result.layer : "constants");
    const bool agrees = file_agrees(file, Model::all, reinterpret_cast<const std::byte*>(x), bytes);
    std::printf(agrees ? "file agrees\n" : "file differs\n");
}

/// A generated header as a type.
#define INTQ_DEPLOYED_MODEL(name)                                                          \
    struct name##_model {                                                                  \
        static constexpr const auto& input = name::data::tensors[name::data::inputs[0]];   \
        static constexpr const auto& output = name::data::tensors[name::data::outputs[0]]; \
        static constexpr const auto& all = name::data::all;                                \
        template <class X, class Y> static void run(X& x, Y& y) { name::run(x, y); }       \
        static runtime::SelfTestResult self_test() { return name::self_test(); }           \
    };
INTQ_MODELS(INTQ_DEPLOYED_MODEL)

}  // namespace

int main() {
#define INTQ_PRINT_MODEL(name) print_model<name##_model>(#name, std::as_bytes(std::span(name##_file)));
    INTQ_MODELS(INTQ_PRINT_MODEL)
    return 0;
}
