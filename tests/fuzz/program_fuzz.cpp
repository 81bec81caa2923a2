// SPDX-License-Identifier: MIT
//
// libFuzzer target: a sound program, changed here and there, is refused by its check or runs: inside its arena, without
// a fault, to results that do not depend on what lay in the arena before. Built with clang only:
//
//     clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -Itests tests/fuzz/program_fuzz.cpp
//         -o program_fuzz
//     ./program_fuzz -max_total_time=60 <corpus folder> tests/fuzz/corpus/program
//
// The first byte chooses the program and its target. Each change after it has ten bytes: the field, how it changes, and
// a value.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "intq/kernels/table/kernel_table.hpp"
#include "intq/runtime/execute.hpp"
#include "runtime/fill_ids.hpp"
#include "runtime/operator_program.hpp"
#include "runtime/program_image.hpp"
#include "runtime/small_program.hpp"

namespace {

using namespace intq;
using namespace intq::test;

struct Base {
    const kernels::KernelTable* table;
    ProgramImage image;
};

template <class TargetType> void add_bases(std::vector<Base>& bases, const oracle::Target& target) {
    const kernels::KernelTable& table = kernels::kernel_table<TargetType, simd::scalar>;
    const SmallProgram small(table, target);
    const OperatorProgram operators(table);
    bases.push_back({&table, write_program(small.program(), table.packing)});
    bases.push_back({&table, write_program(operators.program(), table.packing)});
}

const std::vector<Base>& bases() {
    static const std::vector<Base> all = [] {
        std::vector<Base> list;
        add_bases<target::fp32>(list, oracle::fp32());
        add_bases<target::tflite<arith::double_rounding>>(list, oracle::tflite_double());
        add_bases<target::bpu<march::bayes>>(list, oracle::bayes());
        return list;
    }();
    return all;
}

/// Numbers that hurt, of any width.
constexpr std::int64_t edges[] = {0,          1,         -1,        2,          3,          7,          31,
                                  32,         63,        64,        127,        128,        -128,       -129,
                                  255,        256,       32767,     -32768,     INT32_MAX,  INT32_MIN,  INT64_MAX,
                                  INT64_MIN,  1 << 24,   1 << 30,   0x7f800000, 0x7fc00000, 0x00000001, 0x7f7fffff,
                                  0x3f000000, -0x800000, 1LL << 40, 1LL << 62};

void change(std::vector<unsigned char>& bytes, const ProgramImage& image, const std::uint8_t* edit) {
    std::uint16_t field = 0;
    std::int64_t value = 0;
    std::memcpy(&field, edit, 2);
    std::memcpy(&value, edit + 3, 7);
    const ProgramImage::Place to = image.fields[field % image.fields.size()];
    std::int64_t now = 0;
    std::memcpy(&now, bytes.data() + to.at, to.size);
    switch (edit[2] % 4) {
        case 0:
            now = value;
            break;
        case 1:
            now =
                static_cast<std::int64_t>(static_cast<std::uint64_t>(now) + static_cast<std::uint64_t>(value % 17) - 8);
            break;
        case 2:
            now = edges[static_cast<std::size_t>(value & 31)];
            break;
        default: {  // what another field of this size has
            const ProgramImage::Place from =
                image.fields[static_cast<std::size_t>(value & 0xffff) % image.fields.size()];
            if (from.size == to.size) std::memcpy(&now, image.bytes.data() + from.at, from.size);
        }
    }
    std::memcpy(bytes.data() + to.at, &now, to.size);
}

/// The outputs after a run in an arena that was full of `before`.
std::vector<unsigned char> run(const runtime::Program& program, const kernels::KernelTable& table,
                               unsigned char before) {
    const auto size = static_cast<std::size_t>(program.arena_size);
    auto* const arena = static_cast<std::byte*>(::operator new (size, std::align_val_t{buffer_alignment}));
    std::memset(arena, before, size);
    for (const std::int32_t input : program.inputs) {
        const runtime::ProgramTensor& tensor = program.tensor(input);
        auto* const to = static_cast<unsigned char*>(runtime::tensor_data(program, arena, input));
        Draw draw(static_cast<std::uint64_t>(input));
        if (fill_ids(tensor, to, draw)) continue;
        for (index_t i = 0; i < tensor.bytes(); ++i) to[i] = static_cast<unsigned char>(draw.between(0, 255));
    }
    runtime::execute(program, table, arena, program.max_batch);
    std::vector<unsigned char> outputs;
    for (const std::int32_t output : program.outputs) {
        const auto* const y = static_cast<const unsigned char*>(runtime::tensor_data(program, arena, output));
        outputs.insert(outputs.end(), y, y + program.tensor(output).bytes());
    }
    ::operator delete (arena, std::align_val_t{buffer_alignment});
    return outputs;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) return 0;
    const Base& base = bases()[data[0] % bases().size()];
    std::vector<unsigned char> bytes = base.image.bytes;
    for (std::size_t at = 1; at + 10 <= size && at < 101; at += 10) change(bytes, base.image, data + at);
    const ReadProgram read(bytes, base.table->packing);
    if (!read.is_whole()) return 0;
    const runtime::Program program = read.program();
    const bool is_sound = runtime::check_program(program, *base.table).ok();
    // Unchanged programs are sound, or nothing would be tested.
    if (size < 11 && !is_sound) __builtin_trap();
    if (!is_sound || program.arena_size > (1 << 20)) return 0;
    if (run(program, *base.table, 0) != run(program, *base.table, 0xa5)) __builtin_trap();
    return 0;
}
