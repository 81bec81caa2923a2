// SPDX-License-Identifier: MIT
//
// Misuses of the embeddable half: views, make_…, check_… and run functions, programs in an arena.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "intq/arith/elementwise.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/march.hpp"
#include "intq/arith/pool.hpp"
#include "intq/arith/softmax.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/arith/unary.hpp"
#include "intq/kernels/conv/conv2d.hpp"
#include "intq/kernels/streaming/dequantize.hpp"
#include "intq/kernels/streaming/elementwise_call.hpp"
#include "intq/kernels/streaming/quantize.hpp"
#include "intq/kernels/window/pool_call.hpp"
#include "intq/observers/min_max.hpp"
#include "support/catch.hpp"
#include "usage/misuse.hpp"

namespace {

using namespace intq;
using test::last_words;
using test::refusal;

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

/// A convolution from 4 to 6 channels that every target takes, until a row spoils it.
struct Layer {
    Layer() {
        spec.window = {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
        spec.in_channels = 4;
        spec.out_channels = 6;
        spec.input = QParams::per_tensor(0.02f, 0, DType::int8);
        spec.weight = QParams::per_channel(scales, {}, 0, -128, 127);
        spec.output = QParams::per_tensor(0.05f, 0, DType::int8);
        spec.weight_codes = weights.data();
        spec.bias = bias.data();
    }
    template <class Target = target::fp32> Result<kernels::PackedConv2d> make(index_t bytes = 65536, index_t at = 0) {
        return kernels::make_conv2d<Target, simd::scalar>(spec, {storage.data() + at, bytes});
    }

    std::vector<std::int8_t> weights = std::vector<std::int8_t>(6 * 4 * 9, 3);
    std::array<float, 6> scales{0.01f, 0.02f, 0.01f, 0.03f, 0.01f, 0.01f};
    std::array<float, 6> bias{};
    std::array<std::int64_t, 6> bias_codes{};
    std::array<std::int32_t, 6> multipliers{}, shifts{};
    kernels::GivenRequantize given{};
    kernels::CodeBounds bounds{-100, 100};
    kernels::Conv2dSpec spec;
    alignas(64) std::array<std::byte, 65536> storage{};
};

/// What make_conv2d says of a layer that `spoil` has changed.
template <class Target = target::fp32, class Spoil> std::string made_with(const Spoil& spoil) {
    Layer layer;
    spoil(layer);
    return refusal(layer.make<Target>());
}

/// A packed layer with all that check_conv2d() looks at.
struct Call {
    Call() : packed(*layer.make()), geometry(*kernels::make_conv2d_geometry(layer.spec.window, 1, {5, 5})) {}
    std::string check(std::array<index_t, 4> in, std::array<index_t, 4> out, Workspace workspace) {
        const ImageView<const std::int8_t> x(codes.data(), in);
        const ImageView<std::int8_t> y(results.data(), out);
        return refusal(kernels::check_conv2d(packed, geometry, x, y, workspace));
    }

    Layer layer;
    kernels::PackedConv2d packed;
    kernels::ConvGeometry geometry;
    std::array<std::int8_t, 1024> codes{}, results{};
    alignas(64) std::array<std::byte, 8192> scratch{};
};

arith::CodesOf int8_of(float scale, std::int32_t zero_point = 0) { return {scale, zero_point, DType::int8}; }

}  // namespace

TEST_CASE("bad usage: a convolution is made") {
    test::check_misuses({
        {"the scale of the input was never set",
         [] { return made_with([](Layer& l) { l.spec.input = QParams::per_tensor(0.0f, 0, DType::int8); }); },
         {"conv2d", "the scale of the input", "2^-100"}},
        {"a calibration gave NaN for one channel of the weight",
         [] { return made_with([](Layer& l) { l.scales[3] = nan_value; }); },
         {"conv2d", "channel 3", "weight", "NaN"}},
        {"5 scales for a weight of 6 channels",
         [] {
             return made_with([](Layer& l) {
                 l.spec.weight = QParams::per_channel(std::span(l.scales).first(5), {}, 0, -128, 127);
             });
         },
         {"conv2d", "5 scales", "weight", "6"}},
        {"the weight has a zero point",
         [] { return made_with([](Layer& l) { l.spec.weight = QParams::per_tensor(0.1f, 3, DType::int8); }); },
         {"conv2d", "zero point of the weight", "3", "expected a zero point of 0"}},
        {"an unsigned zero point with signed codes",
         [] { return made_with([](Layer& l) { l.spec.output = QParams::per_tensor(0.1f, 200, DType::int8); }); },
         {"conv2d", "zero point of the output", "200", "127"}},
        {"an affine input on a symmetric accelerator",
         [] {
             return made_with<target::bpu<march::bayes>>(
                 [](Layer& l) { l.spec.input = QParams::per_tensor(0.1f, 5, DType::int8); });
         },
         {"conv2d", "zero point of the input", "given 5", "0"}},
        {"codes of 9 bits",
         [] { return made_with([](Layer& l) { l.spec.input = QParams::per_tensor(0.1f, 0, -256, 255); }); },
         {"conv2d", "quant_min", "input", "-256", "-128"}},
        {"unsigned activations",
         [] { return made_with([](Layer& l) { l.spec.input_dtype = DType::uint8; }); },
         {"conv2d", "input", "uint8", "not supported"}},
        {"int16 weights on a target that has none",
         [] { return made_with([](Layer& l) { l.spec.weight_dtype = DType::int16; }); },
         {"conv2d", "weight", "int16", "not supported"}},
        {"the pointer to the weights was forgotten",
         [] { return made_with([](Layer& l) { l.spec.weight_codes = nullptr; }); },
         {"conv2d", "weight", "not given"}},
        {"3 groups of 4 channels",
         [] { return made_with([](Layer& l) { l.spec.groups = 3; }); },
         {"conv2d", "input", "4", "groups", "3"}},
        {"scales along the last axis, counted from the back",
         [] { return made_with([](Layer& l) { l.spec.weight = QParams::per_channel(l.scales, {}, -4, -128, 127); }); },
         {"conv2d", "axis of the weight", "-4", "0"}},
        {"an activation that does not exist",
         [] { return made_with([](Layer& l) { l.spec.activation = static_cast<Activation>(9); }); },
         {"conv2d", "activation", "9", "2"}},
        {"a linear layer with padding",
         [] { return made_with([](Layer& l) { l.spec.op = OpKind::linear; }); },
         {"linear", "padding", "1", "0"}},
        {"a stride of 0",
         [] { return made_with([](Layer& l) {
                  l.spec.window.stride = {0, 1};
              }); },
         {"conv2d", "stride", "0", "1"}},
        {"a bias that no int32 holds at these scales",
         [] { return made_with([](Layer& l) { l.bias[2] = 1e9f; }); },
         {"conv2d", "bias", "channel 2", "2^31"}},
        {"int16 activations with large weights on an accumulator of 32 bits",
         [] {
             return made_with<target::bpu<march::bayes>>([](Layer& l) {
                 l.weights.assign(l.weights.size(), 127);
                 l.spec.input_dtype = l.spec.output_dtype = DType::int16;
                 l.spec.input = l.spec.output = QParams::per_tensor(0.001f, 0, DType::int16);
                 l.bias_codes.fill(2147000000);
                 l.spec.bias = nullptr, l.spec.bias_codes = l.bias_codes.data();
             });
         },
         {"conv2d", "accumulator", "2147483647"}},
        {"scales that differ by many orders of magnitude",
         [] {
             return made_with<target::bpu<march::bayes>>(
                 [](Layer& l) { l.spec.output = QParams::per_tensor(1e-12f, 0, DType::int8); });
         },
         {"conv2d", "ratio of the scales", "channel 0"}},
        {"multipliers for 4 of 6 channels",
         [] {
             return made_with<target::tflite<>>([](Layer& l) {
                 l.spec.bias = nullptr;
                 l.given = {l.multipliers.data(), l.shifts.data(), 4};
                 l.spec.requantize = &l.given;
             });
         },
         {"conv2d", "4 multipliers", "6"}},
        {"multipliers for a target that requantizes by real factors",
         [] {
             return made_with([](Layer& l) {
                 l.spec.bias = nullptr;
                 l.given = {l.multipliers.data(), l.shifts.data(), 6};
                 l.spec.requantize = &l.given;
             });
         },
         {"conv2d", "given multipliers", "targets that requantize by multiplier and shift"}},
        {"bounds of the output beside an activation",
         [] {
             return made_with([](Layer& l) {
                 l.spec.bounds = &l.bounds;
                 l.spec.activation = Activation::relu;
             });
         },
         {"conv2d", "bounds", "replace an activation"}},
        {"too little memory for the packed layer",
         [] { return refusal(Layer().make(100)); },
         {"conv2d", "storage", "100 bytes", "needed"}},
        {"memory from malloc, which is aligned to 16",
         [] { return refusal(Layer().make(60000, 16)); },
         {"conv2d", "storage", "16 bytes", "64"}},
    });
}

TEST_CASE("bad usage: a convolution is checked before it runs") {
    test::check_misuses({
        {"a window that is larger than the image",
         [] {
             return refusal(kernels::make_conv2d_geometry({{5, 5}, {1, 1}, {}, {1, 1}}, 1, {3, 3}));
         },
         {"conv2d", "window", "image"}},
        {"an image without rows",
         [] {
             return refusal(kernels::make_conv2d_geometry({{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}, 1, {0, 8}));
         },
         {"conv2d", "extent", "input", "0"}},
        {"the geometry of another layer",
         [] {
             Call call;
             call.geometry.out.width = 4;
             return call.check({1, 4, 5, 5}, {1, 6, 5, 4}, {call.scratch.data(), 8192});
         },
         {"conv2d", "geometry", "window"}},
        {"an image of another size than the geometry's",
         [] {
             Call call;
             return call.check({1, 4, 7, 5}, {1, 6, 5, 5}, {call.scratch.data(), 8192});
         },
         {"conv2d", "input", "7", "5"}},
        {"an output with the channels of the input",
         [] {
             Call call;
             return call.check({1, 4, 5, 5}, {1, 4, 5, 5}, {call.scratch.data(), 8192});
         },
         {"conv2d", "output", "4", "6"}},
        {"the output in the memory of the input",
         [] {
             Call call;
             const ImageView<const std::int8_t> x(call.codes.data(), {1, 4, 5, 5});
             const ImageView<std::int8_t> y(call.codes.data() + 10, {1, 6, 5, 5});
             return refusal(kernels::check_conv2d(call.packed, call.geometry, x, y, {call.scratch.data(), 8192}));
         },
         {"conv2d", "output overlaps the input"}},
        {"a view without memory",
         [] {
             Call call;
             const ImageView<const std::int8_t> x(nullptr, {1, 4, 5, 5});
             const ImageView<std::int8_t> y(call.results.data(), {1, 6, 5, 5});
             return refusal(kernels::check_conv2d(call.packed, call.geometry, x, y, {call.scratch.data(), 8192}));
         },
         {"conv2d", "input", "not given"}},
        {"an operand for a layer without a fused add",
         [] {
             Call call;
             const ImageView<const std::int8_t> x(call.codes.data(), {1, 4, 5, 5}), e(call.codes.data(), {1, 6, 5, 5});
             const ImageView<std::int8_t> y(call.results.data(), {1, 6, 5, 5});
             return refusal(kernels::check_conv2d_add(call.packed, call.geometry, x, e, y, {}));
         },
         {"conv2d", "sumin", "made without"}},
        {"an int16 view of an int8 layer",
         [] {
             Call call;
             std::array<std::int16_t, 100> wide{};
             const ImageView<const std::int16_t> x(wide.data(), {1, 4, 5, 5});
             const ImageView<std::int8_t> y(call.results.data(), {1, 6, 5, 5});
             return refusal(kernels::check_conv2d(call.packed, call.geometry, x, y, {call.scratch.data(), 8192}));
         },
         {"conv2d", "input", "int16", "int8"}},
    });
}

TEST_CASE("bad usage: operators without weights, and tensors of codes") {
    std::vector<float> real(12);
    std::vector<std::int8_t> codes(12);
    const TensorView<const float, 2> x(real.data(), {3, 4});
    const std::array<float, 4> four{0.1f, 0.1f, 0.1f, 0.1f};
    test::check_misuses({
        {"quantize writes to a view of another shape",
         [&] {
             return refusal(kernels::check_quantize(x, QParams::per_tensor(0.1f, 0, DType::int8), {},
                                                    TensorView<std::int8_t, 2>(codes.data(), {4, 3})));
         },
         {"quantize", "output", "4", "3"}},
        {"quantize by a scale of NaN",
         [&] {
             return refusal(kernels::check_quantize(x, QParams::per_tensor(nan_value, 0, DType::int8), {},
                                                    TensorView<std::int8_t, 2>(codes.data(), {3, 4})));
         },
         {"quantize", "the scale is NaN"}},
        {"the channels lie on an axis that does not exist",
         [&] {
             return refusal(kernels::check_quantize(x, QParams::per_channel(four, {}, 2, -128, 127), {},
                                                    TensorView<std::int8_t, 2>(codes.data(), {3, 4})));
         },
         {"quantize", "axis", "2", "1"}},
        {"4 scales for an axis of 3 channels",
         [&] {
             return refusal(kernels::check_quantize(x, QParams::per_channel(four, {}, 0, -128, 127), {},
                                                    TensorView<std::int8_t, 2>(codes.data(), {3, 4})));
         },
         {"quantize", "4 scales", "3"}},
        {"an add whose second operand was never calibrated",
         [] { return refusal(arith::make_add(target::fp32::policy, int8_of(0.1f), int8_of(0.0f), int8_of(0.1f), {})); },
         {"add", "the scale of the second input", "2^-100"}},
        {"a product whose scales cannot be joined",
         [] {
             return refusal(
                 arith::make_mul(target::bpu<march::bayes>::policy, int8_of(1.0f), int8_of(1.0f), int8_of(1e-9f), {}));
         },
         {"mul", "ratio of the scales"}},
        {"an average with padding and another output scale on a target that keeps scales there",
         [] {
             return refusal(arith::make_average(target::tflite<>::policy, int8_of(0.5f), int8_of(0.25f), {}, 4,
                                                PoolDivisor::valid_cells, true));
         },
         {"avg_pool2d", "scale of the output", "input", "windows with padding"}},
        {"an average with padding and another zero point there",
         [] {
             return refusal(arith::make_average(target::tflite<>::policy, int8_of(0.5f, 3), int8_of(0.5f, -7),
                                                {-7, -128, 127}, 4, PoolDivisor::valid_cells, true));
         },
         {"avg_pool2d", "zero point of the output", "-7", "a zero point of 3"}},
        {"a pool whose padding is as large as its window",
         [] {
             return refusal(kernels::check_pool({{2, 2}, {2, 2}, {2, 2, 2, 2}, {1, 1}}, {8, 8}, OpKind::max_pool2d));
         },
         {"max_pool2d", "padding", "2", "1"}},
        {"an average that does not count its padding, on a target that does",
         [] {
             return refusal(arith::make_average(target::bpu<march::bayes>::policy, int8_of(0.5f), int8_of(0.5f), {}, 4,
                                                PoolDivisor::valid_cells, true));
         },
         {"avg_pool2d", "count_include_pad = false"}},
        {"a softmax of codes with a zero point of uint8",
         [] { return refusal(arith::make_softmax_tables(int8_of(0.1f, 128))); },
         {"softmax", "zero point of the input", "128", "127"}},
        {"a table of int8 for int16 codes",
         [] {
             std::array<std::int8_t, 256> entries{};
             return refusal(arith::make_int8_table(TableFunction::tanh, {0.1f, 0, DType::int16}, int8_of(0.1f),
                                                   std::span(entries)));
         },
         {"input", "int16", "int8"}},
        {"NaN among the data of an observer",
         [] {
             std::vector<float> data{1.0f, nan_value, 2.0f}, memory(4);
             observers::MinMaxRange range(memory);
             return refusal(range.update(TensorView<const float, 1>(data.data(), {3})));
         },
         {"observe", "element 1", "input", "NaN"}},
    });
}

TEST_CASE("bad usage: a broken precondition says which and where") {
    std::array<int, 6> data{};
    test::check_misuses({
        {"an index beyond a view",
         [&] {
             return last_words([&] {
                 const TensorView<int, 2> view(data.data(), {2, 3});
                 static_cast<void>(view(2, 0));
             });
         },
         {"tensor_view.hpp:", "index[axis] < extents_", "precondition"}},
        {"a result is used before it is asked whether there is one",
         [] { return last_words([] { static_cast<void>(Layer().make(1)->out_channels); }); },
         {"status.hpp:", "ok()", "precondition"}},
        {"a convolution runs without its workspace or on views that do not fit",
         [] {
             return last_words([] {
                 Call call;
                 const ImageView<const std::int8_t> x(call.codes.data(), {1, 4, 7, 7});
                 const ImageView<std::int8_t> y(call.results.data(), {1, 6, 5, 5});
                 kernels::run_conv2d<target::fp32, simd::scalar>(call.packed, call.geometry, x, y,
                                                                 {call.scratch.data(), 8192});
             });
         },
         {"conv2d.hpp:", "check_conv2d", "precondition"}},
    });
}
