// SPDX-License-Identifier: MIT
//
// One source, compiled several times with other instruction sets, default backends, assert levels and optimisation.
// Observes an image, quantizes and convolves it, all with the unit's own default backend, and checks a program. The
// macro INTQ_UNIT names its function.
//
// Planted faults, two in a unit, which different checks must see: INTQ_FAULT == 1 adds a function that is not in an
// inline namespace, as a header would that forgot it, and changes one byte of the result; 2 adds a function to the
// namespace of core, where only types and constants live, and calls a function of the standard library that is not
// inlined.
#include "structure/two_units/unit.hpp"

#include <algorithm>
#include <bit>

#include "intq/arith/bpu.hpp"
#include "intq/kernels/conv/conv2d.hpp"
#include "intq/kernels/streaming/quantize.hpp"
#include "intq/observers/moving_average.hpp"
#include "intq/observers/mse.hpp"
#include "intq/runtime/execute.hpp"

#ifndef INTQ_FAULT
#    define INTQ_FAULT 0
#endif

#if INTQ_FAULT == 1
namespace intq {
inline int outside_of_the_inline_namespace(int x) { return x + 1; }
}  // namespace intq
#elif INTQ_FAULT == 2
namespace intq {
inline namespace INTQ_CORE_ABI {
INTQ_NEVER_INLINE inline float in_the_namespace_of_core(float x) { return x * 3.0f + 1.0f; }
}  // namespace INTQ_CORE_ABI
}  // namespace intq
#endif

namespace {

using namespace intq;

constexpr index_t channels = 5, outputs = 7, side = 6;
constexpr index_t in_size = channels * side * side, out_size = outputs * side * side;
constexpr index_t weight_size = outputs * channels * 9;

constexpr index_t bins = 64;

alignas(64) std::byte storage[1 << 16];
alignas(64) std::byte workspace[1 << 14];

// A fixed sequence that holds both ends of every range.
int pseudo_random(index_t i) { return static_cast<int>((i * 2654435761LL >> 7) % 256) - 128; }

kernels::Conv2dSpec make_spec(const std::int8_t* weights, const float* bias) {
    kernels::Conv2dSpec spec{};
    spec.window.kernel = {3, 3};
    spec.window.padding = {1, 1, 1, 1};
    spec.in_channels = channels;
    spec.out_channels = outputs;
    spec.input = QParams::per_tensor(0.125f, 0, DType::int8);
    spec.weight = QParams::per_tensor(0.0625f, 0, DType::int8);
    spec.output = QParams::per_tensor(2.0f, 0, DType::int8);
    spec.weight_codes = weights;
    spec.bias = bias;
    return spec;
}

void make_image(float* image) {
    for (index_t i = 0; i < in_size; ++i) image[i] = static_cast<float>(pseudo_random(i)) * 0.13f;
}

/// The bits of scales that two observers find.
bool observe(std::uint32_t (&bits)[2]) {
    float image[in_size], memory[4], more_memory[4];
    std::int64_t counts[bins];
    std::uint32_t scratch[4096];
    make_image(image);
    const ImageView<const float> x(image, {1, channels, side, side});
    if (kernels::grid_histogram_scratch_size(x.size(), bins) > 4096) return false;
    observers::MinMaxRange range{std::span<float>(memory)};
    observers::MovingAverageRange average{std::span<float>(more_memory)};
    observers::GridHistogram histogram{std::span<std::int64_t>(counts)};
    if (!range.update(x).ok() || !average.update(x).ok() || !average.update(x).ok()) return false;
    if (!histogram.update(x, std::span<std::uint32_t>(scratch)).ok() || !range.merge(range).ok()) return false;
    const auto best = observers::mse_range(histogram, {});
    const auto qparams = average.qparams();
    if (!best.ok() || !qparams.ok()) return false;
    bits[0] = std::bit_cast<std::uint32_t>(best->highest);
    bits[1] = std::bit_cast<std::uint32_t>(qparams->scale);
    return true;
}

/// A program without tensors and instructions, which every table can run.
bool run_program() {
    runtime::Program program{};
    program.arena_size = program.workspace_size = 64;
    const kernels::KernelTable table{};
    if (!runtime::check_program(program, table).ok()) return false;
    runtime::execute(program, table, workspace, 1);
    return true;
}

bool compute(std::int8_t* codes, std::int8_t* out) {
    float image[in_size];
    std::int8_t weights[weight_size];
    float bias[outputs];
    make_image(image);
    for (index_t i = 0; i < weight_size; ++i) weights[i] = static_cast<std::int8_t>(pseudo_random(i + 1000));
    for (index_t i = 0; i < outputs; ++i) bias[i] = static_cast<float>(pseudo_random(i + 5000));

    const kernels::Conv2dSpec spec = make_spec(weights, bias);
    const ImageView<const float> x(image, {1, channels, side, side});
    const ImageView<std::int8_t> q(codes, {1, channels, side, side});
    kernels::quantize(x, spec.input, {}, q);

    using Target = target::bpu<march::bayes>;
    const auto packed = kernels::make_conv2d<Target>(spec, {storage, sizeof storage});
    const auto geometry = kernels::make_conv2d_geometry(spec.window, 1, {side, side});
    if (!packed.ok() || !geometry.ok()) return false;
    const ImageView<const std::int8_t> input = q;
    const ImageView<std::int8_t> y(out, {1, outputs, side, side});
    if (!kernels::check_conv2d(*packed, *geometry, input, y, {workspace, sizeof workspace}).ok()) return false;
    kernels::run_conv2d<Target>(*packed, *geometry, input, y, {workspace, sizeof workspace});
    return true;
}

}  // namespace

extern "C" void INTQ_UNIT(UnitResult* result) {
    std::int8_t codes[in_size], out[out_size];
    result->backend = simd::default_backend::name;
    result->assert_level = INTQ_ASSERT_LEVEL;
    std::uint32_t scales[2];
    if (!compute(codes, out) || !observe(scales) || !run_program()) return;
    static_assert(in_size + out_size + sizeof scales <= sizeof result->bytes);
    for (const std::int8_t code : codes) result->bytes[result->size++] = static_cast<unsigned char>(code);
    for (const std::int8_t code : out) result->bytes[result->size++] = static_cast<unsigned char>(code);
    for (const std::uint32_t bits : scales)
        for (int shift = 0; shift < 32; shift += 8)
            result->bytes[result->size++] = static_cast<unsigned char>(bits >> shift);
#if INTQ_FAULT == 1
    result->bytes[0] = static_cast<unsigned char>(outside_of_the_inline_namespace(result->bytes[0]) - 1);
    result->bytes[result->size - 1] ^= 1;
#elif INTQ_FAULT == 2
    if (in_the_namespace_of_core(static_cast<float>(result->bytes[0])) < 0.0f) result->bytes[0] = 0;
    const float& (*volatile larger)(const float&, const float&) = &std::max<float>;
    if (larger(0.0f, result->bytes[0]) < 0.0f) result->size = 0;
#endif
}
