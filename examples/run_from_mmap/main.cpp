// SPDX-License-Identifier: MIT
//
// A program out of a file that is mapped and never copied: its weights are used where they lie in the page cache, and
// two threads run it at the same time, each in an arena that this program allocates.
//
//     run_from_mmap [program.intq]       without a file, one of the shipped network is written first
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "intq/deploy/program_writer.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/io/describe.hpp"
#include "intq/io/error.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/runtime/execute.hpp"
#include "intq/runtime/load_program.hpp"
#include "intq/tensor/npy.hpp"

namespace {

using namespace intq;

/// The kernels of every machine, in the arithmetic of TFLite. A file runs on the kernels that it was packed for.
const kernels::KernelTable& table = kernels::kernel_table<target::tflite<>, simd::scalar>;

// --- a file ----------------------------------------------------------------------------------------------------------

/// The shipped network, quantized, as a program file with two golden runs.
void write_shipped_network(const std::filesystem::path& path) {
    const std::string data = INTQ_EXAMPLES_DIR "/digits/data/";
    const auto model = interop::onnx::import_file(data + "digits_resnet.onnx");
    quantization::add_stubs(*model);
    const auto prepared = quantization::prepare_calibration_fx(*model, table.policy());
    const Tensor images = load_npy(data + "calibration_images.npy");
    quantization::calibrate(*prepared, images, 20);
    const auto program = quantization::lower(quantization::convert_fx(*prepared), table).shared_program();
    const Tensor golden = images.batch(0, 2);
    deploy::write_program(path, *program, deploy::record_golden_runs(*program, std::span(&golden, 1)));
}

/// A file that is mapped to be read: who wrote to its bytes would not live on.
class Mapping {
public:
    explicit Mapping(const std::filesystem::path& path) {
        const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        struct stat status {};
        const bool is_open = file >= 0 && ::fstat(file, &status) == 0;
        size_ = is_open ? static_cast<std::size_t>(status.st_size) : 0;
        data_ = size_ > 0 ? ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
        if (file >= 0) ::close(file);  // the mapping stays
        if (data_ == MAP_FAILED) throw Error(path.string(), "it cannot be mapped");
    }
    ~Mapping() { ::munmap(data_, size_); }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    /// At an address that is a multiple of a page, so of buffer_alignment too.
    std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
    bool holds(const void* pointer) const {
        const auto* const first = static_cast<const std::byte*>(data_);
        const std::less<const void*> before;
        return !before(pointer, first) && before(pointer, first + size_);
    }

private:
    std::size_t size_ = 0;
    void* data_ = nullptr;
};

// --- memory of this program ------------------------------------------------------------------------------------------

struct FreeAligned {
    void operator()(std::byte* bytes) const { ::operator delete (bytes, std::align_val_t{64}); }
};
using Block = std::unique_ptr<std::byte, FreeAligned>;
static_assert(buffer_alignment == 64);

Block allocate(index_t bytes) {
    return Block(static_cast<std::byte*>(::operator new (static_cast<std::size_t>(bytes), std::align_val_t{64})));
}

// --- runs ------------------------------------------------------------------------------------------------------------

using Bytes = std::vector<std::byte>;

/// Input number `index` of a program, one image of random bytes of its type.
void write_input(const runtime::Program& program, std::byte* arena, unsigned index) {
    std::uint32_t state = index * 7919u + 1u;
    for (const std::int32_t input : program.inputs) {
        const runtime::ProgramTensor& tensor = program.tensor(input);
        void* const to = runtime::tensor_data(program, arena, input);
        for (index_t i = 0; i < tensor.elements_per_image(); ++i) {
            state = state * 1664525u + 1013904223u;
            if (tensor.dtype == DType::float32)
                static_cast<float*>(to)[i] = static_cast<float>(state >> 8) / 16777216.0f;
            else
                std::memcpy(static_cast<std::byte*>(to) + i * size_of(tensor.dtype), &state,
                            static_cast<std::size_t>(size_of(tensor.dtype)));
        }
    }
}

/// What the program gives for the inputs first, first + step, ... below `count`, in an arena of the caller.
void run(const runtime::Program& program, std::byte* arena, unsigned first, unsigned step, std::span<Bytes> outputs) {
    for (auto i = first; i < outputs.size(); i += step) {
        write_input(program, arena, i);
        runtime::execute(program, table, arena, 1);
        for (const std::int32_t output : program.outputs) {
            const runtime::ProgramTensor& tensor = program.tensor(output);
            const auto* const y = static_cast<const std::byte*>(runtime::tensor_data(program, arena, output));
            outputs[i].insert(outputs[i].end(), y, y + tensor.elements_per_image() * size_of(tensor.dtype));
        }
    }
}

/// Whether the weights of every convolution and linear layer lie in the mapping; prints where the first ones do.
bool weights_lie_in(const Mapping& file, const runtime::Program& program) {
    int layers = 0, mapped = 0;
    for (const runtime::Instruction& instruction : program.instructions) {
        if (instruction.params.kind != kernels::ParamKind::conv) continue;
        const void* const weights = instruction.params_as<kernels::ConvParams>().packed.weights;
        if (layers++ == 0)
            std::printf("first weights  %p, byte %td of the file at %p\n", weights,
                        static_cast<const std::byte*>(weights) - file.bytes().data(),
                        static_cast<const void*>(file.bytes().data()));
        mapped += file.holds(weights);
    }
    std::printf("weights        of %d of %d layers are read from the mapping\n", mapped, layers);
    return mapped == layers;
}

int map_and_run(const std::filesystem::path& path) {
    const Mapping file(path);
    const auto tables_size = runtime::program_tables_size(file.bytes(), table);
    throw_if_failed(tables_size.status(), path.string());
    const Block tables = allocate(*tables_size);
    const auto loaded = runtime::load_program(file.bytes(), table, {tables.get(), *tables_size});
    throw_if_failed(loaded.status(), path.string());
    const runtime::Program& program = loaded->program;
    std::printf("file           %zu bytes, mapped\ntables         %td bytes\narena          %td bytes a thread\n",
                file.bytes().size(), *tables_size, program.arena_size);
    const bool are_mapped = weights_lie_in(file, program);

    // One after the other, in one arena; then by two threads at the same time. The program is the same object.
    std::vector<Bytes> expected(64), given(64);
    const Block arena = allocate(program.arena_size),
                others[2] = {allocate(program.arena_size), allocate(program.arena_size)};
    run(program, arena.get(), 0, 1, expected);
    std::thread odd([&] { run(program, others[1].get(), 1, 2, given); });
    run(program, others[0].get(), 0, 2, given);
    odd.join();
    const bool is_equal = given == expected && expected[0] != expected[1];
    const bool is_golden = runtime::self_test(program, loaded->golden, table, arena.get()).is_none();
    std::printf("two threads    %zu runs, outputs %s\n", given.size(), is_equal ? "equal" : "DIFFER");
    std::printf("golden runs    %td, %s\n", loaded->golden.count, is_golden ? "equal" : "DIFFERENT");
    if (!are_mapped || !is_equal || !is_golden) return 1;
    std::printf("all agree, and no weight was copied\n");
    return 0;
}

}  // namespace

int main(int count, char** arguments) try {
    if (count > 1) return map_and_run(arguments[1]);
    const auto path = std::filesystem::temp_directory_path() / ("intq-mmap-" + std::to_string(::getpid()) + ".intq");
    write_shipped_network(path);
    const int status = map_and_run(path);
    std::filesystem::remove(path);
    return status;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
