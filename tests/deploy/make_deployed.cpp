// SPDX-License-Identifier: MIT
//
// Writes the small networks as program files and as headers, with what they shall give, into a folder for scalar, which
// every machine has, and into <folder>_dsp and <folder>_helium for these backends, whose instructions it has in C++
// (INTQ_EMULATES_DSP, INTQ_EMULATES_HELIUM):
//
//     <name>.intq        the program file
//     <name>.hpp         the generated header
//     <name>_file.hpp    the bytes of the program file, for a board without files
//     <name>.txt         what deployed.cpp shall print
//     <name>_layers.txt  a line for each instruction: what it does, on which shapes, and its multiplications; one for
//                        all that run row by row together
//     <name>.svg         its arena
//
// Into <folder>_dotprod it writes what a count needs, the header and the two files behind it, of programs that are
// packed for kernels that this machine lacks.
//
// It prints the arena of each beside its lower bound, and fails where it is more than 1.1 of that, or where a network
// that shall run row by row does not. With a second argument it writes MobileNetV2 instead, whose headers are large.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "deploy/small_networks.hpp"
#include "intq/deploy/flash_report.hpp"
#include "intq/deploy/generate_cpp.hpp"
#include "intq/deploy/header_program.hpp"
#include "intq/deploy/memory_report.hpp"
#include "intq/deploy/pack_program.hpp"
#include "intq/io/error.hpp"
#include "intq/io/file.hpp"

namespace {

using namespace intq;
using namespace intq::test;

std::string bytes_source(const std::string& name, std::span<const std::byte> bytes) {
    std::string list;
    for (const std::byte byte : bytes) list += std::to_string(static_cast<int>(byte)) + ',';
    return "// SPDX-License-Identifier: MIT\n#include <cstddef>\nalignas(64) inline constexpr unsigned char " + name +
           "_file[] = {" + list + "};\n";
}

/// What deployed.cpp prints of a sound model.
std::string expected_of(const std::string& name, const program::OwnedProgram& owned) {
    const runtime::Program& program = owned.program();
    const Shape shape = program.tensor(program.inputs[0]).shape;
    const DType dtype = program.tensor(program.inputs[0]).dtype;
    // Bytes in the order of the caller's memory, which is channels last.
    Tensor image = Tensor::empty(shape, dtype, dtype == DType::uint8 ? Layout::channels_last : Layout::row_major);
    if (dtype == DType::uint8)
        fill_pattern(reinterpret_cast<std::uint8_t*>(image.data()), shape.size());
    else
        fill_pattern(image.flat<float>().data(), shape.size());
    const Tensor y = owned.run(image);
    char text[80];
    std::snprintf(text, sizeof text, ": output %08x\nself test passed\nfile agrees\n",
                  static_cast<unsigned>(crc32({y.data(), static_cast<std::size_t>(y.bytes())})));
    return name + text;
}

/// The extents of an image as `HxWxC`; of one pixel and of a vector its channels.
std::string extents_of(const Shape& shape) {
    if (shape.rank == 4 && shape[2] * shape[3] == 1) return std::to_string(shape[1]);
    std::string text;
    for (int axis = 1; axis < shape.rank; ++axis)  // of (N, C, H, W)
        text += (axis > 1 ? "x" : "") + std::to_string(shape[shape.rank == 4 ? axis % 3 + 1 : axis]);
    return text;
}

index_t multiplications_of(const runtime::Program& program, const runtime::Instruction& instruction) {
    if (instruction.params.kind != kernels::ParamKind::conv) return 0;
    const auto& packed = instruction.params_as<kernels::ConvParams>().packed;
    return program.tensor(instruction.output).shape.size() * packed.taps() * packed.group_inputs();
}

/// As in `conv_3x3_s2_16x16x32_8x8x64 1179648`: taps on padding count as multiplications.
std::string layer_line(const runtime::Program& program, const runtime::Instruction& instruction) {
    const Shape& x = program.tensor(program.operands_of(instruction)[0]).shape;
    const Shape& y = program.tensor(instruction.output).shape;
    const std::string in = extents_of(x), out = extents_of(y);
    std::string name = name_of(instruction.op);
    if (instruction.op == OpKind::conv2d) {
        const auto& packed = instruction.params_as<kernels::ConvParams>().packed;
        const Window2d& window = packed.window;
        name = std::string(packed.is_depthwise ? "depthwise_" : "conv_") + std::to_string(window.kernel.height) + "x" +
               std::to_string(window.kernel.width) + "_s" + std::to_string(window.stride.height);
    }
    return name + "_" + in + (in == out ? "" : "_" + out) + " " +
           std::to_string(multiplications_of(program, instruction)) + "\n";
}

/// The lines of all instructions, of which those of a group have one, as in `rows_of_7_144x144x3_36x36x8 3939840`.
std::string layer_lines(const runtime::Program& program) {
    std::string lines;
    const runtime::RowGroup* group = program.groups.data();
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        if (group == program.groups.data() + program.groups.size() || static_cast<std::size_t>(group->first) != i) {
            lines += layer_line(program, program.instructions[i]);
            continue;
        }
        const auto of_group = program.instructions.subspan(i, static_cast<std::size_t>(group->count));
        index_t multiplications = 0;
        for (const runtime::Instruction& instruction : of_group)
            multiplications += multiplications_of(program, instruction);
        lines += "rows_of_" + std::to_string(group->count) + "_" +
                 extents_of(program.tensor(program.operands_of(of_group.front())[0]).shape) + "_" +
                 extents_of(program.tensor(of_group.back().output).shape) + " " + std::to_string(multiplications) +
                 "\n";
        i += of_group.size() - 1;
        ++group;
    }
    return lines;
}

bool write(const NamedNetwork& network, const kernels::KernelTable& table, const std::filesystem::path& folder) {
    const auto owned = lowered(network, table);
    const Tensor images = images_of(network, 1, 5);
    const deploy::GoldenRecord golden = deploy::record_golden_runs(*owned, std::span<const Tensor>(&images, 1));
    const auto path = [&](const char* ending) { return folder / (network.name + ending); };
    const std::vector<std::byte> file = deploy::serialize_program(owned->program(), owned->table(), golden);
    io::write_file(path(".intq"), file);
    io::write_file(path("_file.hpp"), bytes_source(network.name, file));
    deploy::GenerateOptions options;
    options.name = network.name;
    if (network.rows.mode != program::RowMode::off) options.rows = network.rows;
    io::write_file(path(".hpp"), deploy::generate_cpp(owned->program(), owned->table(), golden, options));
    io::write_file(path(".txt"), expected_of(network.name, *owned));
    const deploy::HeaderProgram header = deploy::header_program(owned->program(), owned->table(), golden, options.rows);
    io::write_file(path("_layers.txt"), layer_lines(header.program));
    const deploy::MemoryReport report = deploy::memory_report(header.program, owned->table());
    io::write_file(path(".svg"), report.to_svg());
    const deploy::FlashReport flash = deploy::flash_report(owned->program(), owned->table());
    std::printf("%s: %zu instructions, %zu bytes of file\n%s%s", network.name.c_str(),
                owned->program().instructions.size(), file.size(), flash.to_text().c_str(), report.to_text().c_str());
    if (network.rows.mode != program::RowMode::off) {  // rings of a small network are mostly padding
        const bool runs_by_rows = !owned->program().groups.empty() && !header.program.groups.empty();
        const bool adds_rows = std::ranges::any_of(header.program.tensors, &runtime::ProgramTensor::holds_sums);
        if (!runs_by_rows || !adds_rows)
            std::fprintf(stderr, "%s runs on whole tensors, or adds no rows up\n", network.name.c_str());
        return runs_by_rows && adds_rows;
    }
    if (report.arena * 100 <= report.lower_bound * 110) return true;
    std::fprintf(stderr, "the arena of %s is much more than its lower bound\n", network.name.c_str());
    return false;
}

/// Of scalar's program, packed for another backend.
void write_packed(const NamedNetwork& network, const char* backend, const std::filesystem::path& folder) {
    const auto owned = lowered(network);
    const Tensor images = images_of(network, 1, 5);
    const deploy::GoldenRecord golden = deploy::record_golden_runs(*owned, std::span<const Tensor>(&images, 1));
    const kernels::KernelTable to = deploy::describe_kernels(owned->table(), backend);
    const auto packed = deploy::pack_program(owned->program(), owned->table(), to);
    deploy::GenerateOptions options;
    options.name = network.name;
    if (network.rows.mode != program::RowMode::off) options.rows = network.rows;
    io::write_file(folder / (network.name + ".hpp"), deploy::generate_cpp(packed->program(), to, golden, options));
    io::write_file(folder / (network.name + ".txt"), expected_of(network.name, *owned));
    const deploy::HeaderProgram header = deploy::header_program(packed->program(), to, golden, options.rows);
    io::write_file(folder / (network.name + "_layers.txt"), layer_lines(header.program));
}

}  // namespace

int main(int count, char** arguments) try {
    if (count != 2 && (count != 3 || std::string(arguments[2]) != "mobilenet_v2")) {
        std::fprintf(stderr, "usage: make_deployed <folder> [mobilenet_v2]\n");
        return 2;
    }
    const std::string folder = arguments[1];
    const std::vector<NamedNetwork> networks =
        count == 3
            ? std::vector<NamedNetwork>{mobilenet_v2(), mobilenet_v2_rows()}
            : std::vector<NamedNetwork>{ds_cnn(),      resnet_8(),   mobilenet_v1(),       autoencoder(),
                                        small_image(), small_rows(), with_int16(ds_cnn()), with_int16(resnet_8())};
    bool are_right = true;
    const auto write_all = [&](const kernels::KernelTable& table, const std::string& ending) {
        io::make_folder(folder + ending);
        std::printf("%s\n", table.backend);
        for (const NamedNetwork& network : networks) are_right &= write(network, table, folder + ending);
    };
    write_all(kernels::kernel_table<target::tflite<>, simd::scalar>, "");
    if (count == 2)  // what a Cortex-M0+ calls
        are_right &=
            write(with_int16(small_attention()), kernels::kernel_table<target::tflite<>, simd::scalar>, folder);
    write_all(kernels::kernel_table<target::tflite<>, simd::dsp>, "_dsp");
    write_all(kernels::kernel_table<target::tflite<>, simd::helium>, "_helium");
    io::make_folder(folder + "_dotprod");
    for (const NamedNetwork& network : networks)
        if (!network.takes_pixels && network.name != "small_rows")
            write_packed(network, "dotprod", folder + "_dotprod");
    return are_right ? 0 : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
