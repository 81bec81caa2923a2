// SPDX-License-Identifier: MIT
//
// conv - batch norm - add - relu as one int8 kernel on raw buffers: make it, size its scratch, run it. No heap.
#include <algorithm>
#include <cstdio>

#include "intq/arith/norm.hpp"
#include "intq/kernels/conv/conv2d.hpp"

using namespace intq;
using Chip = target::bpu<march::bayes>;  // the target decides the bits; the compiler's flags choose the backend

constexpr index_t channels = 8, height = 6, width = 5, weights = channels * channels * 9,
                  image = height * width * channels;

static float w[weights], bias[channels], mean[channels], variance[channels], scale[channels];  // the float layer
static std::int8_t codes[weights], x[image], shortcut[image], y[image];
alignas(buffer_alignment) static std::byte packed_bytes[16384], scratch_bytes[4096];

static int refuse(const Status& status) {
    std::printf("refused: %s of %s\n", name_of(status.code), name_of(status.field));
    return 1;
}

// A float layer from anywhere; its batch norm folded, its scales such that nothing can overflow, its weights as codes.
static void make_numbers(float x_scale, const arith::SuminOperand& add) {
    for (index_t i = 0; i < weights; ++i) w[i] = static_cast<float>(i * 37 % 101 - 50) * 0.01f;
    for (index_t c = 0; c < channels; ++c) {
        mean[c] = 0.1f * static_cast<float>(c);
        variance[c] = 1.0f + mean[c];
    }
    arith::fold_batch_norm({1, channels, channels * 9}, w, bias, {mean, variance, {}, {}}, arith::BatchNormOrder::conv,
                           w, bias);
    for (index_t c = 0; c < channels; ++c) {
        float* const first = w + c * channels * 9;
        const auto range = std::minmax_element(first, first + channels * 9);
        const float fitting = arith::qparams_from_range(*range.first, *range.second)->scale;
        scale[c] = arith::raise_weight_scale(Chip::policy, fitting, static_cast<double>(bias[c]), x_scale, &add);
        for (index_t i = 0; i < channels * 9; ++i)
            codes[c * channels * 9 + i] = static_cast<std::int8_t>(arith::quantize(first[i], {scale[c], 0}));
    }
    for (index_t i = 0; i < image; ++i) {
        x[i] = static_cast<std::int8_t>(i * 29 % 256 - 128);
        shortcut[i] = static_cast<std::int8_t>(i * 3 % 128);
    }
}

int main() {
    const float x_scale = 0.02f;
    const arith::SuminOperand add{0.05f, 0, -128, 127};
    make_numbers(x_scale, add);

    kernels::Conv2dSpec spec;
    spec.window = {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1, 1, 1}};
    spec.in_channels = spec.out_channels = channels;
    spec.input = QParams::per_tensor(x_scale, 0, DType::int8);
    spec.weight = QParams::per_channel(scale, {}, 0, -128, 127);
    spec.output = QParams::per_tensor(0.06f, 0, DType::int8);
    spec.weight_codes = codes;
    spec.bias = bias;
    spec.sumin = &add;
    spec.activation = Activation::relu;

    // Setup may fail, with a status; it says beforehand how many bytes it needs.
    const auto layer = kernels::make_conv2d<Chip>(spec, {packed_bytes, sizeof packed_bytes});
    const auto geometry = kernels::make_conv2d_geometry(spec.window, 1, {height, width});
    if (!layer.ok()) return refuse(layer.status());
    if (!geometry.ok()) return refuse(geometry.status());
    const Workspace scratch{scratch_bytes, kernels::conv2d_workspace_size(*layer, *geometry)};
    if (scratch.size > static_cast<index_t>(sizeof scratch_bytes)) return 1;

    // Running may not fail, and allocates nothing.
    const ImageView<const std::int8_t> input(x, {1, channels, height, width}),
        operand(shortcut, {1, channels, height, width});
    const ImageView<std::int8_t> output(y, {1, channels, height, width});
    kernels::run_conv2d_add<Chip>(*layer, *geometry, input, operand, output, scratch);

    std::printf("backend %s, %td bytes of packed weights, %td of scratch\n", simd::default_backend::name,
                kernels::conv2d_storage_size<Chip>(spec), scratch.size);
    for (index_t c = 0; c < channels; ++c) std::printf("y[0, %td, 2, 2] = %d\n", c, output(0, c, 2, 2));
}
