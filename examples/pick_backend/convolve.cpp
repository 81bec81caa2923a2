// SPDX-License-Identifier: MIT
//
// Compiled once for each instruction set; PICK_UNIT names the function of this build. The library's inline namespaces
// keep the builds apart, so they link into one program.
#include "convolve.hpp"

#include "intq/kernels/conv/conv2d.hpp"

namespace {

using namespace intq;
using pick_backend::channels;
using pick_backend::side;
using Chip = target::bpu<march::bayes>;

alignas(buffer_alignment) std::byte packed_bytes[32768], scratch_bytes[16384];

bool convolve(const std::int8_t* weights, const std::int8_t* x, std::int8_t* y) {
    kernels::Conv2dSpec spec;
    spec.window = {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1, 1, 1}};
    spec.in_channels = spec.out_channels = channels;
    spec.input = QParams::per_tensor(0.02f, 0, DType::int8);
    spec.weight = QParams::per_tensor(0.01f, 0, DType::int8);
    spec.output = QParams::per_tensor(0.25f, 0, DType::int8);
    spec.weight_codes = weights;
    const auto layer = kernels::make_conv2d<Chip>(spec, {packed_bytes, sizeof packed_bytes});
    const auto geometry = kernels::make_conv2d_geometry(spec.window, 1, {side, side});
    if (!layer.ok() || !geometry.ok()) return false;
    const ImageView<const std::int8_t> input(x, {1, channels, side, side});
    const ImageView<std::int8_t> output(y, {1, channels, side, side});
    const Workspace scratch{scratch_bytes, sizeof scratch_bytes};
    if (!kernels::check_conv2d(*layer, *geometry, input, output, scratch).ok()) return false;
    kernels::run_conv2d<Chip>(*layer, *geometry, input, output, scratch);
    return true;
}

}  // namespace

namespace pick_backend {

Unit PICK_UNIT() { return {simd::default_backend::name, &convolve}; }

}  // namespace pick_backend
