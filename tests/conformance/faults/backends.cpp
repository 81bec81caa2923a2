// SPDX-License-Identifier: MIT
//
// Faults in the headers of backends (spoil_header.cmake), each behind a switch: says for each fault which backends then
// differ from simd::scalar. Compiled with -D"INTQ_BACKENDS_WITH_FAULTS(X)=X(<backend>) ...", behind the folders of the
// spoiled headers.
#include <cstdint>

/// The fault that is on: none, or that of a backend.
inline int intq_fault = 0;
namespace intq_faults {
#define INTQ_NAME_FAULT(backend) backend,
enum : int { none, INTQ_BACKENDS_WITH_FAULTS(INTQ_NAME_FAULT) };
#undef INTQ_NAME_FAULT
}  // namespace intq_faults
#define INTQ_FAULT_IN(backend) (::intq_fault == ::intq_faults::backend)

#include <cstdio>
#include <cstring>

#include "intq/embedded.hpp"

namespace {

using namespace intq;
using Target = target::tflite<>;

constexpr index_t most_bytes = 64 * 1024;
alignas(buffer_alignment) std::byte storage[most_bytes], workspace[most_bytes];
alignas(buffer_alignment) std::int8_t x[4096], expected[4096], y[4096];
std::int8_t weights[9 * 24 * 24];

struct Layer {
    index_t inputs, outputs, kernel;
};
constexpr Layer layers[] = {{24, 20, 3}, {24, 24, 1}};
constexpr Size2d image{7, 9};

/// @return false where the layer is refused
template <class Backend> bool run(const Layer& layer, std::int8_t* to) {
    kernels::Conv2dSpec spec;
    spec.window.kernel = {layer.kernel, layer.kernel};
    spec.in_channels = layer.inputs;
    spec.out_channels = layer.outputs;
    spec.weight_codes = weights;
    spec.input = QParams::per_tensor(0.02f, 3, DType::int8);
    spec.weight = QParams::per_tensor(0.01f, 0, DType::int8);
    spec.output = QParams::per_tensor(0.3f, -4, DType::int8);
    const auto packed = kernels::make_conv2d<Target, Backend>(spec, {storage, most_bytes});
    const auto geometry = kernels::make_conv2d_geometry(spec.window, 1, image);
    if (!packed || !geometry || kernels::conv2d_workspace_size(*packed, *geometry) > most_bytes) return false;
    kernels::run_conv2d<Target, Backend>(
        *packed, *geometry, ImageView<const std::int8_t>(x, {1, layer.inputs, image.height, image.width}),
        ImageView<std::int8_t>(to, {1, layer.outputs, geometry->out.height, geometry->out.width}),
        {workspace, most_bytes});
    return true;
}

template <class Backend> const char* verdict() {
    for (const Layer& layer : layers) {
        std::memset(expected, 0, sizeof expected);
        std::memset(y, 0, sizeof y);
        if (!run<simd::scalar>(layer, expected) || !run<Backend>(layer, y)) return "refuses";
        if (std::memcmp(expected, y, sizeof y) != 0) return "differs";
    }
    return "is equal";
}

void try_fault(int fault, const char* name) {
    intq_fault = fault;
    std::printf("fault in %s:", name);
#define INTQ_PRINT_VERDICT(backend) std::printf(" %s %s.", #backend, verdict<simd::backend>());
    INTQ_BACKENDS_WITH_FAULTS(INTQ_PRINT_VERDICT)
#undef INTQ_PRINT_VERDICT
    std::printf("\n");
}

}  // namespace

int main() {
    std::uint32_t state = 1;
    for (std::int8_t& code : x) code = static_cast<std::int8_t>((state = state * 1664525u + 1013904223u) >> 24);
    for (std::int8_t& code : weights) code = static_cast<std::int8_t>((state = state * 1664525u + 1013904223u) >> 24);
    try_fault(intq_faults::none, "none");
#define INTQ_TRY_FAULT(backend) try_fault(intq_faults::backend, #backend);
    INTQ_BACKENDS_WITH_FAULTS(INTQ_TRY_FAULT)
#undef INTQ_TRY_FAULT
}
