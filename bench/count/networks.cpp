// SPDX-License-Identifier: MIT
//
// Runs a program file once on one backend, with a mark behind each instruction, under the plugin of
// count_instructions.c. Its codes must be those of the golden run of the file. Prints a line for each instruction: its
// kind, and its products. Compiled with
//
//     -DINTQ_COUNTED=<tag of simd>
//
//     networks <program file>
//
// bench/count/networks joins the lines and the counts.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "intq/embedded.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "intq/runtime/load_program.hpp"
#include "intq/runtime/self_test.hpp"

/// One instruction, which the plugin knows by its name.
extern "C" [[gnu::noinline]] void intq_mark() noexcept { asm volatile(""); }

namespace {

using namespace intq;

const kernels::KernelTable& table = kernels::kernel_table<target::fp32, simd::INTQ_COUNTED>;
void (*volatile mark)() noexcept = &intq_mark;

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "networks: %s\n", what);
    std::exit(1);
}

/// Bytes at buffer_alignment.
struct Memory {
    explicit Memory(index_t count) : size(round_up(count, buffer_alignment)) {
        bytes = static_cast<std::byte*>(std::aligned_alloc(buffer_alignment, static_cast<std::size_t>(size)));
        if (bytes == nullptr) fail("no memory");
    }
    ~Memory() { std::free(bytes); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    index_t size;
    std::byte* bytes;
};

std::vector<std::byte> read_file(const char* path) {
    std::FILE* const file = std::fopen(path, "rb");
    if (file == nullptr) fail("the file cannot be read");
    std::vector<std::byte> bytes;
    std::byte part[65536];
    for (std::size_t size; (size = std::fread(part, 1, sizeof part, file)) > 0;)
        bytes.insert(bytes.end(), part, part + size);
    std::fclose(file);
    return bytes;
}

/// As in `conv_3x3 115605504`: taps on padding count as products.
void print(const runtime::Program& program, const runtime::Instruction& instruction) {
    if (instruction.params.kind != kernels::ParamKind::conv) {
        std::printf("%s 0\n", name_of(instruction.op));
        return;
    }
    const kernels::PackedConv2d& packed = instruction.params_as<kernels::ConvParams>().packed;
    const Size2d kernel = packed.window.kernel;
    const Shape& in = program.tensor(program.operands_of(instruction)[0]).shape;
    const bool is_linear = in.rank != 4 || (in[2] == kernel.height && in[3] == kernel.width);
    const char* const name = packed.is_depthwise ? "depthwise" : is_linear ? "linear" : "conv";
    std::printf("%s", name);
    if (!is_linear) std::printf("_%dx%d", static_cast<int>(kernel.height), static_cast<int>(kernel.width));
    std::printf(" %lld\n", static_cast<long long>(program.tensor(instruction.output).shape.size() * packed.taps() *
                                                  packed.group_inputs()));
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 2) return 2;
    const std::vector<std::byte> read = read_file(arguments[1]);
    Memory file(static_cast<index_t>(read.size()));
    std::memcpy(file.bytes, read.data(), read.size());
    const std::span<const std::byte> bytes(file.bytes, read.size());
    const Result<index_t> size = runtime::program_tables_size(bytes, table);
    if (!size) fail(name_of(size.status().code));
    Memory tables(*size);
    const auto loaded = runtime::load_program(bytes, table, {tables.bytes, tables.size});
    if (!loaded) fail(name_of(loaded.status().code));
    const runtime::Program& program = loaded->program;
    Memory arena(program.arena_size);
    if (loaded->golden.count != 1 || !runtime::self_test(program, loaded->golden, table, arena.bytes).is_none())
        fail("the codes differ from those of the golden run");
    runtime::write_inputs(program, arena.bytes, loaded->golden.inputs);
    mark();
    const auto mark_instruction = [](void*, const runtime::Program&, index_t, const void*, index_t) { mark(); };
    if (!runtime::execute(program, table, arena.bytes, 1, serial, {mark_instruction, nullptr}))
        fail("a bound is broken");
    for (const runtime::Instruction& instruction : program.instructions) print(program, instruction);
}
