// SPDX-License-Identifier: MIT
//
// Random convolutions of every kind, sums, averages and quantized reals on a backend, INTQ_COMPARED, and on
// simd::scalar, in one program on one board: windows of 1×1 to 7×7, strides, dilations, padding,
// groups, depthwise layers, zero points, bounds, tails of every tile, activations of int8 and int16. Compiled with
// -DINTQ_COMPARED=simd::<backend>. It prints how many there were, how many took the short form of double rounding, and
// a checksum of their bytes; a difference by itself. A host prints the same with the instructions in C++
// (INTQ_EMULATES_DSP, INTQ_EMULATES_HELIUM).
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>

#include "intq/embedded.hpp"

namespace {

using namespace intq;

constexpr index_t most_bytes = 96 * 1024;
/// A backend may store weights of bytes as int16.
alignas(buffer_alignment) std::byte storage[most_bytes], compared_storage[2 * most_bytes], workspace[most_bytes];
alignas(buffer_alignment) std::int8_t x[most_bytes / 2], y[2][most_bytes / 2];
/// The same memory as codes of a type.
template <class Code> Code* codes_of(std::int8_t* memory) { return reinterpret_cast<Code*>(memory); }
std::int8_t weights[most_bytes];
float scales[256];
std::int64_t bias[256];
std::uint32_t sum = 0;
int layers = 0, short_layers = 0, int16_layers = 0, short_int16_layers = 0, int16_sums = 0, short_int16_sums = 0,
    sums = 0, short_sums = 0, averages = 0, runs = 0, refused = 0, differences = 0;

class Draw {
public:
    std::int32_t between(std::int32_t lowest, std::int32_t highest) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return lowest + static_cast<std::int32_t>((state_ >> 33) % static_cast<std::uint32_t>(highest - lowest + 1));
    }
    bool one_in(int n) { return between(1, n) == 1; }
    template <class Code = std::int8_t> Code code() {
        constexpr std::int32_t lowest = std::numeric_limits<Code>::min(), highest = std::numeric_limits<Code>::max();
        const std::int32_t kind = between(0, 9);
        return static_cast<Code>(kind == 0 ? lowest : kind == 1 ? highest : between(lowest, highest));
    }
    /// A zero point; of int16 it is 0.
    template <class Code> std::int32_t zero_point() { return sizeof(Code) == 1 ? between(-128, 127) : 0; }

private:
    std::uint64_t state_ = 1;
};

struct Case {
    kernels::Conv2dSpec spec{};
    Size2d in{};
    index_t batch = 1;
};

/// @param is_long  for a window of 8000 weights
Case draw_case(Draw& draw, DType dtype, bool is_long) {
    Case drawn;
    kernels::Conv2dSpec& spec = drawn.spec;
    const bool is_int16 = dtype == DType::int16;
    spec.input_dtype = spec.output_dtype = dtype;
    const std::int32_t kind = draw.between(0, 5);
    Window2d& w = spec.window;
    if (kind != 0) {
        w.kernel = kind < 3 ? Size2d{3, 3} : Size2d{draw.between(1, 7), draw.between(1, 7)};
        w.dilation = draw.one_in(4) ? Size2d{draw.between(1, 3), draw.between(1, 3)} : Size2d{};
    }
    w.stride = draw.one_in(2) ? Size2d{} : Size2d{draw.between(1, 3), draw.between(1, 3)};
    if (!draw.one_in(3)) w.padding = {draw.between(0, 3), draw.between(0, 3), draw.between(0, 3), draw.between(0, 3)};
    drawn.in = {draw.between(1, 14), draw.between(1, draw.one_in(6) ? 40 : 14)};
    drawn.batch = draw.between(1, 2);
    spec.groups = draw.one_in(3) ? draw.between(1, 4) : 1;
    if (is_long) {
        w = {};
        w.kernel = drawn.in = {1, 5};
        drawn.batch = spec.groups = 1;
        spec.in_channels = 1600;
        spec.out_channels = 3;
    } else if (draw.one_in(3)) {
        spec.groups = spec.in_channels = spec.out_channels = draw.between(2, draw.one_in(4) ? 70 : 19);
        if (draw.one_in(2)) {  // windows that have loops of their own
            w.kernel = {3, 3};
            w.dilation = {};
            w.stride = draw.one_in(2) ? Size2d{1, 1} : Size2d{2, 2};
            if (draw.one_in(2))  // of whole blocks of channels
                spec.groups = spec.in_channels = spec.out_channels = 16 * draw.between(1, 4);
        } else if (draw.one_in(40)) {  // sums of int16 that leave 32 bits
            w = {};
            w.kernel = {draw.between(22, 25), draw.between(23, 26)};
            drawn.in = {w.kernel.height + draw.between(0, 3), w.kernel.width + draw.between(0, 3)};
            drawn.batch = 1;
        }
    } else if (draw.one_in(20)) {  // one vector, whose sums of int16 may leave 32 bits
        w = {};
        drawn.in = {1, 1};
        drawn.batch = spec.groups = 1;
        spec.in_channels = 16 * draw.between(1, 100);
        spec.out_channels = draw.between(1, 9);
    } else {
        spec.in_channels = spec.groups * draw.between(1, draw.one_in(3) ? 40 : 6);
        spec.out_channels = spec.groups * draw.between(1, draw.one_in(4) ? 40 : 9);
    }
    const index_t of_output = spec.in_channels / spec.groups * w.kernel.height * w.kernel.width;
    while (spec.out_channels * of_output > most_bytes) spec.out_channels -= spec.groups;
    const index_t count = spec.out_channels * of_output;
    const bool is_extreme = draw.one_in(8);  // weights of one sign: then sums are largest
    for (index_t i = 0; i < count; ++i)
        weights[i] = is_extreme ? static_cast<std::int8_t>(draw.between(-128, -90)) : draw.code();
    // A small output scale makes right shifts below 2, which have no short form.
    // So do multipliers of int16 layers from 1/2 on.
    const float s_out = draw.one_in(5) ? 0.0001f : 0.002f * static_cast<float>(draw.between(1, 60));
    for (index_t c = 0; c < spec.out_channels; ++c) {
        scales[c] = 0.001f * static_cast<float>(draw.between(1, 30));
        bias[c] = draw.between(-100000, 100000) * (draw.one_in(6) ? 10000 : 1);
    }
    spec.weight_codes = weights;
    spec.bias_codes = bias;
    spec.input = QParams::per_tensor(0.02f, is_int16 ? 0 : draw.between(-128, 127), dtype);
    spec.weight = QParams::per_channel({scales, static_cast<std::size_t>(spec.out_channels)}, {}, 0, -128, 127);
    spec.output = QParams::per_tensor(s_out,
                                      is_int16 || draw.one_in(4) ? 0
                                      : draw.one_in(2)           ? -128
                                                                 : draw.between(-128, 127),
                                      dtype);
    spec.activation = draw.one_in(3) ? Activation::relu : draw.one_in(4) ? Activation::relu6 : Activation::none;
    return drawn;
}

/// Runs it on a backend; false where it is refused.
template <class Target, class Backend, class Code>
bool run(const Case& drawn, const kernels::ConvGeometry& geometry, Workspace packed_storage, std::int8_t* out,
         bool& is_short) {
    const kernels::Conv2dSpec& spec = drawn.spec;
    if (kernels::conv2d_storage_size<Target, Backend>(spec) > packed_storage.size) return false;
    const auto packed = kernels::make_conv2d<Target, Backend>(spec, packed_storage);
    if (!packed || kernels::conv2d_workspace_size(*packed, geometry) > most_bytes) return false;
    is_short = packed->scaled_is_small && packed->requantize == arith::RequantizeRule::double_rounding;
    const typename ImageView<Code>::Index in{drawn.batch, spec.in_channels, drawn.in.height, drawn.in.width};
    const typename ImageView<Code>::Index shape{drawn.batch, spec.out_channels, geometry.out.height,
                                                geometry.out.width};
    std::memset(workspace, 0x5a, sizeof workspace);
    kernels::run_conv2d<Target, Backend>(*packed, geometry, ImageView<const Code>(codes_of<Code>(x), in),
                                         ImageView<Code>(codes_of<Code>(out), shape), {workspace, most_bytes});
    return true;
}

/// Codes that take the sum of the first channel as far as it goes, where a window lies in the image.
template <class Code> void fill_worst(const Case& drawn, Code* to) {
    const kernels::Conv2dSpec& spec = drawn.spec;
    const auto [height, width] = spec.window.kernel;
    const index_t inputs = spec.in_channels / spec.groups;
    for (index_t row = 0; row < drawn.batch * drawn.in.height; ++row)
        for (index_t column = 0; column < drawn.in.width; ++column)
            for (index_t c = 0; c < spec.in_channels; ++c) {
                const index_t tap = row % drawn.in.height % height * width + column % width;
                const std::int8_t weight = weights[c % inputs * height * width + tap];
                *to++ = static_cast<Code>(weight > 0 ? highest_code(dtype_of<Code>) : lowest_code(dtype_of<Code>));
            }
}

template <class Target, class Code> void compare(Draw& draw, bool is_long = false) {
    constexpr auto size = static_cast<index_t>(sizeof(Code));
    const Case drawn = draw_case(draw, dtype_of<Code>, is_long);
    const auto geometry = kernels::make_conv2d_geometry(drawn.spec.window, drawn.batch, drawn.in);
    if (!geometry) {
        ++refused;
        return;
    }
    const index_t inputs = drawn.batch * geometry->in_pixels() * drawn.spec.in_channels * size;
    const index_t outputs = drawn.batch * geometry->out_pixels() * drawn.spec.out_channels * size;
    constexpr auto most = static_cast<index_t>(sizeof x);
    if (inputs > most || outputs > most) {
        ++refused;
        return;
    }
    const bool is_extreme = size == 1 && draw.one_in(4);  // most of them the lowest code
    for (index_t i = 0; i < inputs; ++i)
        x[i] = !is_extreme ? draw.code() : draw.one_in(8) ? std::int8_t{127} : std::int8_t{-128};
    if (size == 2 && draw.one_in(2)) fill_worst(drawn, codes_of<Code>(x));
    std::memset(y, 0x77, sizeof y);
    bool is_short = false, any = false;
    if (!run<Target, simd::scalar, Code>(drawn, *geometry, {storage, sizeof storage}, y[0], any) ||
        !run<Target, INTQ_COMPARED, Code>(drawn, *geometry, {compared_storage, sizeof compared_storage}, y[1],
                                          is_short)) {
        ++refused;
        return;
    }
    ++(size == 1 ? layers : int16_layers);
    (size == 1 ? short_layers : short_int16_layers) += is_short;
    sum = crc32(std::as_bytes(std::span(y[0], static_cast<std::size_t>(outputs))), sum);
    if (std::memcmp(y[0], y[1], sizeof y[0]) == 0) return;  // the bytes behind the output as well
    const kernels::Conv2dSpec& spec = drawn.spec;
    if (++differences <= 5)
        std::printf(
            "different: layer %d of %d bits, %d×%d window, stride %d×%d, %d to %d channels, %d groups, image %d×%d\n",
            size == 1 ? layers : int16_layers, static_cast<int>(8 * size), static_cast<int>(spec.window.kernel.height),
            static_cast<int>(spec.window.kernel.width), static_cast<int>(spec.window.stride.height),
            static_cast<int>(spec.window.stride.width), static_cast<int>(spec.in_channels),
            static_cast<int>(spec.out_channels), static_cast<int>(spec.groups), static_cast<int>(drawn.in.height),
            static_cast<int>(drawn.in.width));
}

/// Compares all bytes, and adds the first `count` to the checksum.
void compare_bytes(index_t count, const char* what, int number) {
    sum = crc32(std::as_bytes(std::span(y[0], static_cast<std::size_t>(count))), sum);
    if (std::memcmp(y[0], y[1], sizeof y[0]) == 0) return;
    if (++differences <= 5) std::printf("different: %s %d of %d codes\n", what, number, static_cast<int>(count));
}

/// A sum of two runs of codes.
template <class Code> void compare_sum(Draw& draw) {
    using Rule = arith::fixed_point<arith::double_rounding>;
    constexpr bool is_int8 = sizeof(Code) == 1;
    constexpr auto lowest = std::int32_t{std::numeric_limits<Code>::min()}, highest = ~lowest;
    const float s_x = 0.001f * static_cast<float>(draw.between(1, 100));
    const float s_y = draw.one_in(3) ? s_x : s_x * 0.01f * static_cast<float>(draw.between(1, 300));
    const float s_out = s_x * 0.01f * static_cast<float>(draw.between(20, 300));
    const arith::CodesOf codes_x{s_x, draw.zero_point<Code>(), dtype_of<Code>};
    const arith::CodesOf codes_y{s_y, draw.zero_point<Code>(), dtype_of<Code>};
    const arith::CodesOf codes_out{s_out, draw.zero_point<Code>(), dtype_of<Code>};
    arith::OutputCodes codes{};
    codes.zero_point = codes_out.zero_point;
    codes.lowest = draw.one_in(2) ? lowest : draw.one_in(2) ? 0 : draw.between(lowest, 0);
    codes.highest = draw.one_in(4) ? draw.between(1, highest) : highest;
    const auto params = arith::make_add(target::tflite<>::policy, codes_x, codes_y, codes_out, codes);
    if (!params) {
        ++refused;
        return;
    }
    const index_t count = draw.between(1, 70);
    static Code of_x[70], of_y[70];
    for (index_t i = 0; i < count; ++i) of_x[i] = draw.code<Code>(), of_y[i] = draw.code<Code>();
    std::memset(y, 0x77, sizeof y);
    const auto add = [&](auto backend, std::int8_t* out) {
        kernels::add_codes<decltype(backend), Rule, Code>({&*params, of_x, of_y, out, count, &serial});
    };
    add(simd::scalar{}, y[0]);
    add(INTQ_COMPARED{}, y[1]);
    ++(is_int8 ? sums : int16_sums);
    (is_int8 ? short_sums : short_int16_sums) +=
        is_int8 ? kernels::has_short_sum(*params) : kernels::has_short_int16_sum(*params);
    compare_bytes(count * static_cast<index_t>(sizeof(Code)), is_int8 ? "sum" : "sum of int16",
                  is_int8 ? sums : int16_sums);
}

/// Averages of windows and of whole images.
template <class Target> void compare_average(Draw& draw) {
    Window2d window;
    const Size2d in{draw.between(1, 20), draw.between(1, 20)};
    window.kernel = draw.one_in(2) ? in : Size2d{draw.between(1, 3), draw.between(1, 3)};
    window.stride = {draw.between(1, 2), draw.between(1, 2)};
    const index_t channels = draw.between(1, 30), batch = draw.between(1, 2),
                  cells = window.kernel.height * window.kernel.width;
    const auto geometry = kernels::make_conv2d_geometry(window, batch, in);
    const arith::CodesOf codes_in{0.05f, draw.between(-128, 127), DType::int8};
    const arith::CodesOf codes_out{draw.one_in(2) ? 0.05f : 0.001f * static_cast<float>(draw.between(20, 90)),
                                   draw.one_in(2) ? codes_in.zero_point : draw.between(-128, 127), DType::int8};
    arith::OutputCodes codes{};
    codes.zero_point = codes_out.zero_point;
    if (draw.one_in(3)) codes.lowest = draw.between(-128, 0);
    const auto params =
        arith::make_average(Target::policy, codes_in, codes_out, codes, cells, PoolDivisor::valid_cells, false);
    if (!params || !geometry) {
        ++refused;
        return;
    }
    for (index_t i = 0; i < batch * geometry->in_pixels() * channels; ++i) x[i] = draw.code();
    std::memset(y, 0x77, sizeof y);
    kernels::PoolCall call{&window, &*params, x, y[0], batch, channels, in, geometry->out, &serial};
    kernels::avg_pool2d_codes<Target, simd::scalar, std::int8_t>(call);
    call.y = y[1];
    kernels::avg_pool2d_codes<Target, INTQ_COMPARED, std::int8_t>(call);
    ++averages;
    compare_bytes(batch * geometry->out_pixels() * channels, "average", averages);
}

/// Codes of reals: ties, the ends of the codes, numbers that are none.
void compare_quantized(Draw& draw) {
    static float reals[256];
    const index_t count = draw.between(1, 256);
    const float scale = 0.001f * static_cast<float>(draw.between(1, 1000));
    const float specials[] = {
        __builtin_nanf(""), __builtin_inff(), -__builtin_inff(), 0.0f, -0.0f, 3e38f, -3e38f, 1e-40f};
    for (index_t i = 0; i < count; ++i) {
        reals[i] = 0.5f * scale * static_cast<float>(draw.between(-600, 600));
        if (draw.one_in(8)) reals[i] = specials[draw.between(0, 7)];
        if (draw.one_in(8)) reals[i] = scale * 0.00001f * static_cast<float>(draw.between(-20000000, 20000000));
    }
    const QParams qparams = QParams::per_tensor(scale, draw.between(-128, 127), DType::int8);
    std::memset(y, 0x77, sizeof y);
    const arith::QuantizeRule rule = draw.one_in(4) ? arith::onnx_quantize_rule : arith::QuantizeRule{};
    kernels::quantize_blocks<simd::scalar>(reals, {1, 1, count}, qparams, rule, y[0], serial);
    kernels::quantize_blocks<INTQ_COMPARED>(reals, {1, 1, count}, qparams, rule, y[1], serial);
    ++runs;
    compare_bytes(count, "run of reals", runs);
}

}  // namespace

int main() {
    Draw draw;
    for (int i = 0; i < 2400; ++i) {
        compare<target::tflite<>, std::int8_t>(draw);
        if (i % 4 == 0) compare<target::tflite<arith::single_rounding>, std::int8_t>(draw);
        if (i % 4 == 2) compare<target::fp32, std::int8_t>(draw);
    }
    for (int i = 0; i < 2000; ++i) {
        compare<target::tflite<>, std::int16_t>(draw);
        if (i % 8 == 0) compare<target::tflite<arith::single_rounding>, std::int16_t>(draw);
        if (i % 8 == 4) compare<target::fp32, std::int16_t>(draw);
    }
    for (int i = 0; i < 2000; ++i) {
        compare_sum<std::int8_t>(draw);
        compare_sum<std::int16_t>(draw);
    }
    for (int i = 0; i < 200; ++i) {
        compare_average<target::tflite<>>(draw);
        compare_average<target::fp32>(draw);
    }
    for (int i = 0; i < 500; ++i) compare_quantized(draw);
    for (int i = 0; i < 4; ++i) compare<target::tflite<>, std::int8_t>(draw, true);
    std::printf("layers %d\nshort %d\nlayers of int16 %d\nshort %d\n", layers, short_layers, int16_layers,
                short_int16_layers);
    std::printf(
        "sums %d\nshort %d\nsums of int16 %d\nshort %d\naverages %d\nruns of reals %d\nrefused %d\ndifferent %d\n",
        sums, short_sums, int16_sums, short_int16_sums, averages, runs, refused, differences);
    std::printf("bytes %08x\n", static_cast<unsigned>(sum));
    return differences == 0 ? 0 : 1;
}
