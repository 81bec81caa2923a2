// SPDX-License-Identifier: MIT
//
// Writes ResNet-18 and MobileNetV2 with random weights as program files, packed for a backend, each with a golden run
// of `scalar`. A host packs for any backend.
//
//     network_files <backend> <folder>
#include <cstdio>
#include <exception>

#include "intq/deploy/pack_program.hpp"
#include "intq/deploy/program_writer.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "models/mobilenet_v2.hpp"
#include "models/resnet.hpp"
#include "programs/lowered_network.hpp"

namespace {

using namespace intq;

template <class Model> void write(const char* name, const std::string& backend, const std::string& folder) {
    const Shape image(1, 3, 224, 224);
    const kernels::KernelTable& scalar = kernels::kernel_table<target::fp32, simd::scalar>;
    const kernels::KernelTable packed_for = deploy::describe_kernels(scalar, backend);
    const intq_bench::LoweredNetwork network(name, Model(), image, scalar);
    const Tensor x = intq_bench::RandomLayers(5).normal(image, 0.0, 1.0);
    const deploy::GoldenRecord golden = deploy::record_golden_runs(network.program(), scalar, {&x, 1}, 0);
    const auto packed = deploy::pack_program(network.program(), scalar, packed_for);
    deploy::write_program(folder + "/" + name + ".intq", *packed, golden);
}

}  // namespace

int main(int count, char** arguments) try {
    if (count != 3) {
        std::fprintf(stderr, "usage: network_files <backend> <folder>\n");
        return 2;
    }
    write<intq_bench::ResNet18>("resnet_18", arguments[1], arguments[2]);
    write<intq_bench::MobileNetV2>("mobilenet_v2", arguments[1], arguments[2]);
} catch (const std::exception& error) {
    std::fprintf(stderr, "network_files: %s\n", error.what());
    return 1;
}
