// SPDX-License-Identifier: MIT
//
// Prints checksums of program files, of headers, and of what packing makes of them, and whether files pass their self
// tests. A big-endian machine prints the same: it reads, runs, packs and writes the files of any other.
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "intq/deploy/generate_cpp.hpp"
#include "intq/deploy/pack_program.hpp"
#include "intq/deploy/program_writer.hpp"
#include "intq/io/file.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "runtime/operator_program.hpp"
#include "runtime/small_program.hpp"

namespace {

using namespace intq;

std::uint32_t sum_of(std::span<const std::byte> bytes) { return crc32(bytes); }

/// Reads a file, tests it, and packs it for each backend.
void print_file(const char* name, const std::vector<std::byte>& bytes, const kernels::KernelTable& table) {
    std::printf("%s on %s: %zu bytes, %08x\n", name, table.policy().name, bytes.size(),
                static_cast<unsigned>(sum_of(bytes)));
    const program::AlignedBytes file(static_cast<index_t>(bytes.size()));
    std::memcpy(file.data(), bytes.data(), bytes.size());
    const std::span<const std::byte> view(file.data(), bytes.size());
    const program::AlignedBytes memory(value_or_throw(runtime::program_tables_size(view, table)));
    const auto read = value_or_throw(runtime::load_program(view, table, memory.workspace()));
    const program::AlignedBytes arena(read.program.arena_size);
    const runtime::Difference found = runtime::self_test(read.program, read.golden, table, arena.data());
    std::printf("    %d runs, self test: %d\n", static_cast<int>(read.golden.runs()),
                static_cast<int>(found.instruction));
    const deploy::GoldenRecord golden = deploy::copy_golden_runs(read.golden, read.program);
    for (const simd::BackendRow& backend : simd::backend_rows) {
        const kernels::KernelTable board = deploy::describe_kernels(table, backend.name);
        const auto packed = deploy::pack_program(read.program, table, board);
        std::printf("    packed for %s: %08x\n", backend.name,
                    static_cast<unsigned>(sum_of(deploy::serialize_program(packed->program(), board, golden))));
    }
}

/// Two images of real numbers for a program of one input; none for a program that takes others.
std::vector<Tensor> images_of(const runtime::Program& program) {
    const runtime::ProgramTensor& input = program.tensor(program.inputs[0]);
    if (program.inputs.size() != 1 || input.dtype != DType::float32) return {};
    Shape shape = input.shape;
    shape[0] = 2;
    Tensor images = Tensor::empty(shape);
    test::Draw draw(7);
    for (float& value : images.flat<float>()) value = draw.real(-3.0f, 3.0f);
    return {images};
}

/// Codes of images in planes, of one to four channels, which kernels interleave.
template <class Target> void print_planes() {
    constexpr index_t pixels = 23;
    const QParams qparams = QParams::per_tensor(0.05f, 3, DType::int8);
    for (index_t channels = 1; channels <= 4; ++channels) {
        std::vector<float> x(static_cast<std::size_t>(channels * pixels));
        std::vector<std::int8_t> y(x.size());
        test::Draw draw(static_cast<std::uint64_t>(channels));
        for (float& value : x) value = draw.real(-3.0f, 3.0f);
        kernels::kernel_table<Target, simd::scalar>.quantize[0].run_nchw(x.data(), 1, channels, pixels, pixels, qparams,
                                                                         y.data(), serial);
        std::printf("%d planes: %08x\n", static_cast<int>(channels),
                    static_cast<unsigned>(sum_of(std::as_bytes(std::span(y)))));
    }
}

template <class Target> void print_files(const test::oracle::Target& target) {
    const kernels::KernelTable& table = kernels::kernel_table<Target, simd::scalar>;
    const test::SmallProgram small(table, target);
    const test::OperatorProgram all(table);
    for (const auto& [name, program] : {std::pair{"small", small.program()}, {"operators", all.program()}}) {
        const deploy::GoldenRecord golden = deploy::record_golden_runs(program, table, images_of(program), 3);
        print_file(name, deploy::serialize_program(program, table, golden), table);
    }
}

}  // namespace

int main() {
    print_files<target::tflite<>>(test::oracle::tflite_double());
    print_files<target::fp32>(test::oracle::fp32());
    print_planes<target::fp32>();
    return 0;
}
