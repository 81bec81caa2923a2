// SPDX-License-Identifier: MIT
//
// An engine that calls intq's kernels: its tensors become views, its multipliers are taken as they are, its arena holds
// the packed layers, and its threads run the tasks. Every byte is compared with the engine's own loop.
//
//     engine_tensors [layers.txt]
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include "engine.hpp"
#include "intq/embedded.hpp"

namespace {

using namespace intq;
using engine::Layer;

/// The engine rounds once, as the newer releases of TFLite Micro and CMSIS-NN do.
using Rule = target::tflite<arith::single_rounding>;

[[noreturn]] void refuse(const Layer& layer, const Status& status) {
    throw std::runtime_error(layer.name + ": " + name_of(status.op) + ": " + name_of(status.code) + " of " +
                             name_of(status.field));
}

/// Memory of the engine, for whatever a kernel keeps or needs.
Workspace take(engine::Arena& arena, index_t bytes) {
    const std::size_t size = static_cast<std::size_t>(bytes);
    return {static_cast<std::byte*>(arena.take(size, buffer_alignment)), bytes};
}

// The tensor of the engine has the bytes of a channels-last view, whose extents are (N, C, H, W).
ImageView<const std::int8_t> input_view(const engine::Tensor& tensor) {
    return {tensor.data, {1, tensor.channels, tensor.height, tensor.width}};
}
ImageView<std::int8_t> output_view(const engine::Tensor& tensor) {
    return {tensor.data, {1, tensor.channels, tensor.height, tensor.width}};
}

/// The parallel-for of the engine as an Executor.
Executor executor_of(engine::Workers& workers) {
    return {[](void* state, index_t count, Executor::Task task, void* context) {
                static_cast<engine::Workers*>(state)->run(count, task, context);
            },
            &workers};
}

/// A layer of the engine, packed, for pictures of one size.
struct Packed {
    kernels::PackedConv2d layer;
    kernels::ConvGeometry geometry;
    Workspace scratch;
};

/// mantissa / 2^exponent as the multiplier in Q0.31 and the shift to the left that the kernels take:
///
///     mantissa / 2^exponent = (mantissa · 2^16) / 2^31 · 2^(15 - exponent)
Packed pack(const Layer& layer, const engine::Tensor& x, engine::Arena& arena) {
    std::vector<std::int32_t> multipliers, shifts;
    for (const engine::Scale& scale : layer.scales) {
        multipliers.push_back(scale.mantissa << 16);
        shifts.push_back(15 - scale.exponent);
    }
    const kernels::GivenRequantize requantize{multipliers.data(), shifts.data(), layer.outputs};
    const kernels::CodeBounds bounds{-128, 127};
    kernels::Conv2dSpec spec;
    spec.window.kernel = {layer.kernel, layer.kernel};
    spec.window.stride = {layer.stride, layer.stride};
    spec.window.padding = {layer.padding, layer.padding, layer.padding, layer.padding};
    spec.in_channels = layer.inputs, spec.out_channels = layer.outputs, spec.groups = layer.groups;
    // Zero points count; scales are not read, because the multipliers are given.
    spec.input = QParams::per_tensor(1.0f, layer.input_zero_point, DType::int8);
    spec.output = QParams::per_tensor(1.0f, layer.output_zero_point, DType::int8);
    spec.weight_codes = layer.weights.data(), spec.bias_codes_int32 = layer.bias.data();
    spec.requantize = &requantize, spec.bounds = &bounds;

    const auto packed = kernels::make_conv2d<Rule>(spec, take(arena, kernels::conv2d_storage_size<Rule>(spec)));
    if (!packed) refuse(layer, packed.status());
    const auto geometry = kernels::make_conv2d_geometry(spec.window, 1, {x.height, x.width});
    if (!geometry) refuse(layer, geometry.status());
    return {*packed, *geometry, take(arena, kernels::conv2d_workspace_size(*packed, *geometry))};
}

int run(const char* path) {
    const auto arena = std::make_unique<engine::Arena>();
    engine::Workers workers(3);
    const Executor executor = executor_of(workers);
    engine::Tensor x(32, 31, 3, *arena);
    for (int i = 0; i < x.height * x.width * x.channels; ++i) x.data[i] = static_cast<std::int8_t>(i * 29 % 256 - 128);
    int wrong = 0;
    for (const Layer& layer : engine::read_layers(path)) {
        const Packed packed = pack(layer, x, *arena);
        const auto rows = static_cast<int>(packed.geometry.out.height),
                   columns = static_cast<int>(packed.geometry.out.width);
        const engine::Tensor y(rows, columns, layer.outputs, *arena), expected(rows, columns, layer.outputs, *arena);
        const auto in = input_view(x);
        const auto out = output_view(y);
        if (const Status status = kernels::check_conv2d(packed.layer, packed.geometry, in, out, packed.scratch);
            !status)
            refuse(layer, status);
        kernels::run_conv2d<Rule>(packed.layer, packed.geometry, in, out, packed.scratch, executor);
        engine::convolve_plainly(layer, x, expected);
        int differ = 0, lowest = 127, highest = -128;
        for (int i = 0; i < rows * columns * layer.outputs; ++i) {
            differ += y.data[i] != expected.data[i];
            lowest = y.data[i] < lowest ? y.data[i] : lowest, highest = y.data[i] > highest ? y.data[i] : highest;
        }
        std::printf("%-10s %d x %d x %d, codes %d to %d, %d differ from the engine's loop\n", layer.name.c_str(), rows,
                    columns, layer.outputs, lowest, highest, differ);
        wrong += differ;
        x = y;
    }
    std::printf("%zu bytes of the engine's arena, %td tasks on the engine's threads\n", arena->used(), workers.jobs());
    if (wrong == 0 && workers.jobs() > 0) std::printf("all layers equal\n");
    return wrong == 0 && workers.jobs() > 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) try {
    return run(count > 1 ? arguments[1] : INTQ_EXAMPLES_DIR "/engine_tensors/layers.txt");
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
