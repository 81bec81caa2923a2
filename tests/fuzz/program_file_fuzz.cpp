// SPDX-License-Identifier: MIT
//
// libFuzzer target: any bytes are a program file that is refused, or one that runs: inside its arena, without a fault,
// to results that do not depend on what lay in the arena before. The checksum is put right, or nothing else would be
// reached. Built with clang only:
//
//     clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -Itests tests/fuzz/program_file_fuzz.cpp
//         -o program_file_fuzz
//     ./program_file_fuzz -max_total_time=60 <corpus folder> tests/fuzz/corpus/program_file
//
// The first byte chooses a target, and a file whose bytes are changed or, with its highest bit, that the rest of the
// input is the file. Each change has four bytes: where (24 bits, from the start of the numbers), and what the byte
// becomes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "intq/deploy/program_writer.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "runtime/fill_ids.hpp"
#include "runtime/operator_program.hpp"
#include "runtime/small_program.hpp"

namespace {

using namespace intq;
using namespace intq::test;

struct Base {
    const kernels::KernelTable* table;
    std::vector<std::byte> file;
};

/// One golden run of zeros and one on a pattern.
deploy::GoldenRecord golden_of(const runtime::Program& program, const kernels::KernelTable& table) {
    std::vector<Tensor> zeros;
    for (const std::int32_t input : program.inputs) {
        const runtime::ProgramTensor& tensor = program.tensor(input);
        Shape shape = tensor.shape;
        shape[0] = 1;
        zeros.push_back(Tensor::zeros(shape, tensor.dtype, tensor.layout));
    }
    return deploy::record_golden_runs(program, table, zeros, 1);
}

template <class TargetType> void add_bases(std::vector<Base>& bases, const oracle::Target& target) {
    const kernels::KernelTable& table = kernels::kernel_table<TargetType, simd::scalar>;
    const SmallProgram small(table, target);
    const OperatorProgram operators(table);
    for (const runtime::Program& program : {small.program(), operators.program()})
        bases.push_back({&table, deploy::serialize_program(program, table, golden_of(program, table))});
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

/// Bytes of exactly this size at buffer_alignment, so that a read beyond them is seen.
class Block {
public:
    explicit Block(std::size_t size) : bytes_(static_cast<std::byte*>(::operator new(size, alignment))), size_(size) {}
    ~Block() { ::operator delete(bytes_, alignment); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    std::byte* data() const { return bytes_; }
    std::span<const std::byte> bytes() const { return {bytes_, size_}; }
    Workspace workspace() const { return {bytes_, static_cast<index_t>(size_)}; }

private:
    static constexpr std::align_val_t alignment{static_cast<std::size_t>(buffer_alignment)};
    std::byte* bytes_;
    std::size_t size_;
};

/// The outputs after a run in an arena that was full of `before`.
std::vector<std::byte> run(const runtime::LoadedProgram& loaded, const kernels::KernelTable& table,
                           unsigned char before) {
    const runtime::Program& program = loaded.program;
    const Block arena(static_cast<std::size_t>(program.arena_size));
    std::memset(arena.data(), before, static_cast<std::size_t>(program.arena_size));
    for (const std::int32_t input : program.inputs) {
        const runtime::ProgramTensor& tensor = program.tensor(input);
        Draw draw(static_cast<std::uint64_t>(input));
        auto* const to = static_cast<unsigned char*>(runtime::tensor_data(program, arena.data(), input));
        if (fill_ids(tensor, to, draw)) continue;
        for (index_t i = 0; i < tensor.bytes(); ++i) to[i] = static_cast<unsigned char>(draw.between(0, 255));
    }
    runtime::execute(program, table, arena.data(), program.max_batch);
    std::vector<std::byte> outputs;
    for (const std::int32_t output : program.outputs) {
        const auto* const y = static_cast<const std::byte*>(runtime::tensor_data(program, arena.data(), output));
        outputs.insert(outputs.end(), y, y + program.tensor(output).bytes());
    }
    // Golden inputs and checksums are as long as they are said to be. A run of each is enough.
    runtime::GoldenRuns golden = loaded.golden;
    golden.count = golden.count < 2 ? golden.count : 2;
    golden.patterns = golden.patterns < 1 ? golden.patterns : 1;
    (void)runtime::self_test(program, golden, table, arena.data());
    return outputs;
}

std::vector<std::byte> changed(const Base& base, const std::uint8_t* data, std::size_t size) {
    std::vector<std::byte> file = base.file;
    for (std::size_t at = 0; at + 4 <= size && at < 40; at += 4) {
        const std::size_t place = data[at] | std::size_t{data[at + 1]} << 8 | std::size_t{data[at + 2]} << 16;
        constexpr std::size_t first = offsetof(runtime::ProgramFileHeader, file_bytes);
        file[first + place % (file.size() - first)] = static_cast<std::byte>(data[at + 3]);
    }
    return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) return 0;
    const Base& base = bases()[data[0] % 128 % bases().size()];
    const auto* const rest = reinterpret_cast<const std::byte*>(data) + 1;
    std::vector<std::byte> file =
        data[0] >= 128 ? std::vector<std::byte>(rest, rest + size - 1) : changed(base, data + 1, size - 1);
    if (file.size() >= sizeof(runtime::ProgramFileHeader)) {
        const std::uint32_t sum = crc32(std::span<const std::byte>(file).subspan(runtime::checksummed_from));
        std::memcpy(file.data() + offsetof(runtime::ProgramFileHeader, checksum), &sum, sizeof sum);
    }
    const Block block(file.size());
    if (!file.empty()) std::memcpy(block.data(), file.data(), file.size());
    (void)runtime::program_file_names(block.bytes());
    const Result<index_t> needed = runtime::program_tables_size(block.bytes(), *base.table);
    bool is_sound = needed.ok();
    // Unchanged files are sound, or nothing would be tested.
    if (size < 5 && data[0] < 128 && !is_sound) __builtin_trap();
    if (!is_sound) return 0;
    // No small file asks for much memory.
    if (*needed > (64 << 20)) __builtin_trap();
    const Block tables(static_cast<std::size_t>(*needed));
    const auto loaded = runtime::load_program(block.bytes(), *base.table, tables.workspace());
    if (size < 5 && data[0] < 128 && !loaded) __builtin_trap();
    if (!loaded || loaded->program.arena_size > (1 << 20)) return 0;
    if (run(*loaded, *base.table, 0) != run(*loaded, *base.table, 0xa5)) __builtin_trap();
    return 0;
}
