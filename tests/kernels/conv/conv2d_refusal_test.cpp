// SPDX-License-Identifier: MIT
//
// What make_conv2d, the geometry and check_conv2d refuse: code, field and both numbers, the same on every backend,
// and nothing written.
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "intq/kernels/conv/conv2d.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using kernels::Conv2dSpec;

constexpr index_t in_channels = 4, out_channels = 6;
constexpr std::size_t fp32 = 0, tflite = 1, bernoulli2 = 3, bayes = 4, meta = 5;

/// A spec that every target accepts, with memory for what a case replaces.
struct Valid {
    Valid() {
        for (std::size_t i = 0; i < std::size(weights); ++i) weights[i] = static_cast<std::int8_t>(i % 5 - 2);
        spec.window = {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
        spec.in_channels = in_channels;
        spec.out_channels = out_channels;
        spec.input = QParams::per_tensor(0.02f, 0, DType::int8);
        spec.weight = QParams::per_channel(scales, {}, 0, -128, 127);
        spec.output = QParams::per_tensor(0.05f, 0, DType::int8);
        spec.weight_codes = weights;
        spec.bias = bias;
    }
    std::int8_t weights[out_channels * in_channels * 9];
    std::int16_t wide_weights[out_channels * in_channels * 9] = {};
    float scales[out_channels] = {0.01f, 0.02f, 0.01f, 0.03f, 0.01f, 0.01f};
    float bias[out_channels] = {0.5f, -0.5f, 0.0f, 1.0f, 2.0f, 3.0f};
    std::int64_t bias_codes[out_channels] = {};
    std::int32_t multipliers[out_channels] = {1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30};
    std::int32_t shifts[out_channels] = {-7, -7, -7, -7, -7, -7};
    kernels::GivenRequantize given{multipliers, shifts, out_channels};
    kernels::CodeBounds bounds{-100, -20};
    /// Multipliers and shifts in place of scales.
    void give_multipliers() {
        spec.bias = nullptr;
        spec.requantize = &given;
    }
    std::int32_t zero_points[out_channels] = {};
    arith::SuminOperand sumin{0.05f, 0, -128, 127};
    Conv2dSpec spec;
};

struct Refusal {
    const char* what;
    std::size_t target;
    StatusCode code;
    Field field;
    std::int64_t given, expected;
    std::function<void(Valid&)> spoil;
    Field owner = Field::none;
};

constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();

std::vector<Refusal> refusals() {
    using S = StatusCode;
    const auto code_of = [](DType dtype) { return static_cast<std::int64_t>(dtype); };
    return {
        // shapes
        {"kernel 0", fp32, S::value_out_of_range, Field::kernel, 0, 1,
         [](Valid& v) { v.spec.window.kernel.width = 0; }},
        {"stride 0", fp32, S::value_out_of_range, Field::stride, 0, 1,
         [](Valid& v) { v.spec.window.stride.height = 0; }},
        {"dilation 0", fp32, S::value_out_of_range, Field::dilation, 0, 1,
         [](Valid& v) { v.spec.window.dilation.width = 0; }},
        {"padding -1", fp32, S::value_out_of_range, Field::padding, -1, 0,
         [](Valid& v) { v.spec.window.padding.bottom = -1; }},
        {"no groups", fp32, S::value_out_of_range, Field::groups, 0, 1, [](Valid& v) { v.spec.groups = 0; }},
        {"groups that do not divide the input", fp32, S::shape_mismatch, Field::groups, 4, 3,
         [](Valid& v) { v.spec.groups = 3; }, Field::input},
        {"groups that do not divide the output", fp32, S::shape_mismatch, Field::groups, 6, 4,
         [](Valid& v) { v.spec.groups = 4; }, Field::output},
        {"no input channels", fp32, S::value_out_of_range, Field::channels, 0, 1,
         [](Valid& v) { v.spec.in_channels = 0; }, Field::input},
        {"no output channels", fp32, S::value_out_of_range, Field::channels, 0, 1,
         [](Valid& v) { v.spec.out_channels = 0; }, Field::output},
        {"no weights", fp32, S::missing, Field::weight, 0, 0, [](Valid& v) { v.spec.weight_codes = nullptr; }},
        // the constraint table
        {"float input", bayes, S::unsupported, Field::input, code_of(DType::float32), 0,
         [](Valid& v) { v.spec.input_dtype = DType::float32; }},
        {"int16 input on bernoulli2", bernoulli2, S::unsupported, Field::input, code_of(DType::int16), 0,
         [](Valid& v) { v.spec.input_dtype = DType::int16; }},
        {"int16 weights on bayes", bayes, S::unsupported, Field::weight, code_of(DType::int16), 0,
         [](Valid& v) { v.spec.weight_dtype = DType::int16, v.spec.weight_codes = v.wide_weights; }},
        {"int8 activations by int16 weights on fp32", fp32, S::unsupported, Field::weight, code_of(DType::int16), 0,
         [](Valid& v) { v.spec.weight_dtype = DType::int16, v.spec.weight_codes = v.wide_weights; }},
        {"int8 to int16 on fp32", fp32, S::unsupported, Field::output, code_of(DType::int16), 0,
         [](Valid& v) { v.spec.output_dtype = DType::int16; }},
        // scales, zero points, ranges
        {"input scale 0", fp32, S::scale_out_of_range, Field::scale, -1, 0,
         [](Valid& v) { v.spec.input = QParams::per_tensor(0.0f, 0, DType::int8); }, Field::input},
        {"output scale NaN", meta, S::not_finite, Field::scale, -1, 0,
         [](Valid& v) { v.spec.output = QParams::per_tensor(nan, 0, DType::int8); }, Field::output},
        {"weight scale infinite", tflite, S::not_finite, Field::scale, 3, 0, [](Valid& v) { v.scales[3] = infinity; },
         Field::weight},
        {"weight scale negative", bayes, S::scale_out_of_range, Field::scale, 5, 0,
         [](Valid& v) { v.scales[5] = -1.0f; }, Field::weight},
        {"a range beyond the type", fp32, S::value_out_of_range, Field::quant_range, 128, 127,
         [](Valid& v) { v.spec.output = QParams::per_tensor(0.05f, 0, -128, 128); }, Field::output},
        {"a range without 0", fp32, S::value_out_of_range, Field::quant_range, 1, -128,
         [](Valid& v) { v.spec.input = QParams::per_tensor(0.05f, 1, 1, 127); }, Field::input},
        {"a zero point outside its range", fp32, S::value_out_of_range, Field::zero_point, 200, 127,
         [](Valid& v) { v.spec.input = QParams::per_tensor(0.05f, 200, -128, 127); }, Field::input},
        {"a zero point of the input on bayes", bayes, S::value_out_of_range, Field::zero_point, 3, 0,
         [](Valid& v) { v.spec.input = QParams::per_tensor(0.02f, 3, DType::int8); }, Field::input},
        {"a zero point of the output on meta", meta, S::value_out_of_range, Field::zero_point, -3, 0,
         [](Valid& v) { v.spec.output = QParams::per_tensor(0.02f, -3, DType::int8); }, Field::output},
        {"asymmetric weights", fp32, S::unsupported, Field::zero_point, 1, 0,
         [](Valid& v) {
             v.zero_points[1] = 1, v.spec.weight = QParams::per_channel(v.scales, v.zero_points, 0, -128, 127);
         },
         Field::weight},
        {"weights per input channel", fp32, S::unsupported, Field::axis, 1, 0,
         [](Valid& v) { v.spec.weight = QParams::per_channel(v.scales, {}, 1, -128, 127); }, Field::weight},
        {"an axis counted from the back", fp32, S::value_out_of_range, Field::axis, -7, 0,
         [](Valid& v) { v.spec.weight = QParams::per_channel(v.scales, {}, -7, -128, 127); }, Field::weight},
        {"an activation that does not exist", tflite, S::value_out_of_range, Field::activation, 9, 2,
         [](Valid& v) { v.spec.activation = static_cast<Activation>(9); }},
        {"as many scales as no axis has", fp32, S::shape_mismatch, Field::scale, 5, 6,
         [](Valid& v) { v.spec.weight = QParams::per_channel(std::span(v.scales).first(5), {}, 0, -128, 127); },
         Field::weight},
        {"an output per channel", fp32, S::unsupported, Field::axis, 0, -1,
         [](Valid& v) { v.spec.output = QParams::per_channel(v.scales, {}, 0, -128, 127); }, Field::output},
        {"a ratio of scales of 2^15", bayes, S::scale_out_of_range, Field::scale_ratio, 0, 0,
         [](Valid& v) {
             v.spec.input = QParams::per_tensor(32768.0f, 0, DType::int8), v.scales[0] = 0.05f, v.spec.bias = nullptr;
         }},
        // fused add
        {"a fused add on tflite", tflite, S::unsupported, Field::sumin, 0, 0,
         [](Valid& v) { v.spec.sumin = &v.sumin; }},
        {"a fused add before an int32 output", fp32, S::unsupported, Field::sumin, 0, 0,
         [](Valid& v) { v.spec.sumin = &v.sumin, v.spec.output_dtype = DType::int32; }},
        {"an operand beyond the accumulator", bayes, S::scale_out_of_range, Field::scale_ratio, 0, 0,
         [](Valid& v) { v.spec.sumin = &v.sumin, v.sumin.scale = 1e6f; }, Field::sumin},
        {"an operand with a zero point on bayes", bayes, S::value_out_of_range, Field::zero_point, 7, 0,
         [](Valid& v) { v.spec.sumin = &v.sumin, v.sumin.zero_point = 7; }, Field::sumin},
        {"an operand with scale NaN", fp32, S::not_finite, Field::scale, -1, 0,
         [](Valid& v) { v.spec.sumin = &v.sumin, v.sumin.scale = nan; }, Field::sumin},
        {"an operand with scale 0", meta, S::scale_out_of_range, Field::scale, -1, 0,
         [](Valid& v) { v.spec.sumin = &v.sumin, v.sumin.scale = 0.0f; }, Field::sumin},
        {"an operand with a range beyond its type", bayes, S::value_out_of_range, Field::quant_range, 300, 127,
         [](Valid& v) { v.spec.sumin = &v.sumin, v.sumin.quant_max = 300; }, Field::sumin},
        {"relu6 on an int32 output", meta, S::unsupported, Field::activation, 2, 1,
         [](Valid& v) { v.spec.activation = Activation::relu6, v.spec.output_dtype = DType::int32; }},
        // multipliers, shifts and bounds from outside
        {"multipliers on fp32", fp32, S::unsupported, Field::multiplier, 0, 0, [](Valid& v) { v.give_multipliers(); }},
        {"multipliers on bayes", bayes, S::unsupported, Field::multiplier, 0, 0,
         [](Valid& v) { v.give_multipliers(); }},
        {"multipliers of an int32 output", tflite, S::unsupported, Field::multiplier, 0, 0,
         [](Valid& v) { v.give_multipliers(), v.spec.output_dtype = DType::int32; }},
        {"no multipliers", tflite, S::missing, Field::multiplier, 0, 0,
         [](Valid& v) { v.give_multipliers(), v.given.multipliers = nullptr; }},
        {"no shifts", tflite, S::missing, Field::shift, 0, 0,
         [](Valid& v) { v.give_multipliers(), v.given.shifts = nullptr; }},
        {"multipliers of fewer channels", tflite, S::shape_mismatch, Field::multiplier, 4, 6,
         [](Valid& v) { v.give_multipliers(), v.given.count = 4; }},
        {"a multiplier below 0", tflite, S::value_out_of_range, Field::multiplier, -5, 0,
         [](Valid& v) { v.give_multipliers(), v.multipliers[3] = -5; }},
        {"a shift beyond a word", tflite, S::value_out_of_range, Field::shift, -32, -31,
         [](Valid& v) { v.give_multipliers(), v.shifts[5] = -32; }},
        {"a shift that leaves 32 bits", tflite, S::value_out_of_range, Field::shift, 31, 30,
         [](Valid& v) { v.give_multipliers(), v.shifts[0] = 31; }},
        // Channel 2 has 21 of weights on either side: its sums reach 21·128 + 21·127, and 2^31 >> 19 is 4096.
        {"a shift of sums that then leave 32 bits", tflite, S::accumulator_overflow, Field::scale_ratio, 5355, 4095,
         [](Valid& v) { v.give_multipliers(), v.shifts[2] = 19; }},
        {"a real bias without scales", tflite, S::unsupported, Field::bias, 0, 0,
         [](Valid& v) { v.give_multipliers(), v.spec.bias = v.bias; }},
        {"bounds beside an activation", tflite, S::unsupported, Field::activation, 0, 0,
         [](Valid& v) { v.spec.bounds = &v.bounds, v.spec.activation = Activation::relu; }},
        {"bounds of an int32 output", tflite, S::unsupported, Field::activation, 0, 0,
         [](Valid& v) { v.spec.bounds = &v.bounds, v.spec.output_dtype = DType::int32; }},
        {"bounds that cross", bayes, S::value_out_of_range, Field::quant_range, 5, 4,
         [](Valid& v) {
             v.spec.bounds = &v.bounds, v.bounds = {5, 4};
         },
         Field::output},
        {"bounds beyond the type", fp32, S::value_out_of_range, Field::quant_range, 128, 127,
         [](Valid& v) {
             v.spec.bounds = &v.bounds, v.bounds = {5, 128};
         },
         Field::output},
        // bias and accumulator
        {"bias NaN", fp32, S::bias_out_of_range, Field::bias, 2, 31, [](Valid& v) { v.bias[2] = nan; }},
        {"bias beyond int32", bayes, S::bias_out_of_range, Field::bias, 1, 31, [](Valid& v) { v.bias[1] = 1e6f; }},
        {"bias beyond 30 bits", bernoulli2, S::bias_out_of_range, Field::bias, 0, 30,
         [](Valid& v) { v.bias[0] = 0.02f * 0.01f * 0x1p30f; }},
        {"bias beyond int64", meta, S::bias_out_of_range, Field::bias, 4, 62, [](Valid& v) { v.bias[4] = 1e30f; }},
        {"a given bias beyond int32", fp32, S::bias_out_of_range, Field::bias, 3, 31,
         [](Valid& v) {
             v.spec.bias = nullptr, v.spec.bias_codes = v.bias_codes, v.bias_codes[3] = std::int64_t{1} << 31;
         }},
        {"a given bias beyond int64's half", meta, S::bias_out_of_range, Field::bias, 3, 62,
         [](Valid& v) { v.spec.bias = nullptr, v.spec.bias_codes = v.bias_codes, v.bias_codes[3] = INT64_MIN; }},
        // All weights -128, all inputs -128: 36 · 2^14 above a bias that just fits.
        {"an accumulator beyond int32", bayes, S::accumulator_overflow, Field::weight,
         INT32_MAX + std::int64_t{36 * 128 * 128}, INT32_MAX,
         [](Valid& v) {
             for (std::size_t i = 36; i < 72; ++i) v.weights[i] = -128;
             v.spec.bias = nullptr, v.spec.bias_codes = v.bias_codes, v.bias_codes[1] = INT32_MAX;
         }},
        {"an int32 output beyond int32", meta, S::accumulator_overflow, Field::weight,
         (std::int64_t{1} << 31) + 36 * 128 * 128, INT32_MAX,
         [](Valid& v) {
             for (std::size_t i = 36; i < 72; ++i) v.weights[i] = -128;
             v.spec.output_dtype = DType::int32;
             v.spec.bias = nullptr, v.spec.bias_codes = v.bias_codes, v.bias_codes[1] = std::int64_t{1} << 31;
         }},
    };
}

std::string text(const Status& status) {
    return std::string(name_of(status.code)) + " of " + name_of(status.field) + ", given " +
           std::to_string(status.given) + ", expected " + std::to_string(status.expected) + ", owner " +
           name_of(status.owner);
}

bool is_canary(const GuardedBuffer& buffer, const unsigned char* data) {
    for (std::size_t i = 0; i < buffer.size(); ++i)
        if (data[i] != GuardedBuffer::canary) return false;
    return buffer.is_intact();
}

}  // namespace

TEST_CASE("a convolution that cannot be made is refused by code, field and numbers, and nothing is written") {
    std::size_t checked = 0;
    for (const BackendTables& backend : usable_backend_tables())
        for (const Refusal& refusal : refusals()) {
            INFO(backend.name << ": " << refusal.what);
            const kernels::PackingRules& rules = backend.tables[refusal.target]->packing;
            GuardedBuffer storage(1 << 16);
            const Workspace memory{storage.as<std::byte>(), static_cast<index_t>(storage.size())};
            Valid valid;
            refusal.spoil(valid);
            const Status status = kernels::pack_conv2d(rules, valid.spec, memory).status();
            const Status expected{refusal.code,  OpKind::conv2d,   refusal.field,
                                  refusal.given, refusal.expected, refusal.owner};
            if (!(status == expected)) FAIL_CHECK("refused as: " << text(status) << "; should be: " << text(expected));
            CHECK(is_canary(storage, storage.as<unsigned char>()));
            ++checked;
        }
    CHECK(checked >= static_cast<std::size_t>(40 * least_backends()));
}

TEST_CASE("the spec that the refusals spoil is accepted by every target and backend") {
    for (const BackendTables& backend : usable_backend_tables())
        for (const kernels::KernelTable* table : backend.tables) {
            const Valid valid;
            GuardedBuffer storage(static_cast<std::size_t>(kernels::packed_conv2d_size(table->packing, valid.spec)));
            const auto packed = kernels::pack_conv2d(table->packing, valid.spec,
                                                     {storage.as<std::byte>(), static_cast<index_t>(storage.size())});
            INFO(backend.name << " " << table->policy().name << ": " << text(packed.status()));
            CHECK(packed.ok());
            CHECK(storage.is_intact());
        }
}

TEST_CASE("storage that is too small, missing or misaligned is refused with the bytes that are needed") {
    for (const BackendTables& backend : usable_backend_tables()) {
        const kernels::PackingRules& rules = backend.tables[bayes]->packing;
        const Valid valid;
        const index_t bytes = kernels::packed_conv2d_size(rules, valid.spec);
        GuardedBuffer storage(static_cast<std::size_t>(bytes + buffer_alignment));
        std::byte* const data = storage.as<std::byte>();
        const auto status = [&](Workspace memory) { return kernels::pack_conv2d(rules, valid.spec, memory).status(); };
        CHECK(status({data, bytes - 1}) ==
              Status{StatusCode::buffer_too_small, OpKind::conv2d, Field::storage, bytes - 1, bytes});
        CHECK(status({nullptr, 0}) == Status{StatusCode::buffer_too_small, OpKind::conv2d, Field::storage, 0, bytes});
        CHECK(status({data + 4, bytes}) == Status{StatusCode::misaligned, OpKind::conv2d, Field::storage, 4, 64});
        CHECK(is_canary(storage, storage.as<unsigned char>()));
        CHECK(status({data, bytes}).ok());
    }
}

TEST_CASE("a geometry without output or with a negative batch is refused") {
    const Window2d window{{3, 3}, {1, 1}, {}, {2, 2}};
    const auto status = [&](index_t batch, Size2d in) {
        return kernels::make_conv2d_geometry(window, batch, in).status();
    };
    CHECK(status(1, {4, 5}) == Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::kernel, 5, 4});
    CHECK(status(-1, {5, 5}) == Status{StatusCode::value_out_of_range, OpKind::conv2d, Field::input, -1, 0});
    CHECK(status(1, {5, 5}).ok());
    const Window2d bad{{3, 0}, {1, 1}, {}, {1, 1}};
    CHECK(kernels::make_conv2d_geometry(bad, 1, {5, 5}).status().field == Field::kernel);
}

TEST_CASE("check_conv2d names the operand that does not fit a packed layer") {
    // The backend with staging, so that a workspace is needed.
    const BackendTables odd = odd_tables();
    const kernels::PackingRules& rules = odd.tables[bayes]->packing;
    const Valid valid;
    GuardedBuffer storage(static_cast<std::size_t>(kernels::packed_conv2d_size(rules, valid.spec)));
    const auto packed =
        kernels::pack_conv2d(rules, valid.spec, {storage.as<std::byte>(), static_cast<index_t>(storage.size())});
    REQUIRE(packed.ok());
    const auto geometry = kernels::make_conv2d_geometry(valid.spec.window, 2, {5, 5});
    REQUIRE(geometry.ok());
    std::vector<std::int8_t> x(2 * in_channels * 25), y(2 * out_channels * 25);
    std::vector<std::int16_t> wide(y.size());
    const index_t bytes = kernels::conv2d_workspace_size(*packed, *geometry);
    REQUIRE(bytes > 0);
    GuardedBuffer scratch(static_cast<std::size_t>(bytes));
    const Workspace workspace{scratch.as<std::byte>(), bytes};
    using In = ImageView<const std::int8_t>;
    using Out = ImageView<std::int8_t>;
    const In input(x.data(), {2, in_channels, 5, 5});
    const Out output(y.data(), {2, out_channels, 5, 5});

    const auto check = [&](auto in, auto out, Workspace memory) {
        return kernels::check_conv2d(*packed, *geometry, in, out, memory);
    };
    CHECK(check(input, output, workspace).ok());
    CHECK(check(In(x.data(), {2, 5, 4, 5}), output, workspace) ==
          Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::input, 5, 4});
    CHECK(check(input, Out(y.data(), {1, out_channels, 5, 5}), workspace) ==
          Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::output, 1, 2});
    CHECK(check(ImageView<const std::int16_t>(wide.data(), {2, in_channels, 5, 5}), output, workspace).code ==
          StatusCode::dtype_mismatch);
    CHECK(check(input, ImageView<std::int16_t>(wide.data(), {2, out_channels, 5, 5}), workspace).field ==
          Field::output);
    CHECK(check(input, output, {workspace.data, bytes - 1}) ==
          Status{StatusCode::buffer_too_small, OpKind::conv2d, Field::workspace, bytes - 1, bytes});
    CHECK(check(input, output, {nullptr, bytes}).code == StatusCode::missing);
    CHECK(check(input, output, {workspace.data + 3, bytes}) ==
          Status{StatusCode::misaligned, OpKind::conv2d, Field::workspace, 3, 64});

    CHECK(check(In(nullptr, {2, in_channels, 5, 5}), output, workspace) ==
          Status{StatusCode::missing, OpKind::conv2d, Field::input});
    CHECK(check(input, Out(nullptr, {2, out_channels, 5, 5}), workspace) ==
          Status{StatusCode::missing, OpKind::conv2d, Field::output});
    std::vector<std::int8_t> shared(x.size() + y.size());
    const auto overlapping = [&](std::size_t in, std::size_t out) {
        return check(In(shared.data() + in, {2, in_channels, 5, 5}), Out(shared.data() + out, {2, out_channels, 5, 5}),
                     workspace);
    };
    const Status overlap{StatusCode::overlapping, OpKind::conv2d, Field::output, 0, 0, Field::input};
    CHECK(overlapping(0, 0) == overlap);
    CHECK(overlapping(0, x.size() - 1) == overlap);
    CHECK(overlapping(y.size() - 1, 0) == overlap);
    CHECK(overlapping(0, x.size()).ok());
    CHECK(overlapping(y.size(), 0).ok());
    kernels::PackedConv2d spoiled = *packed;
    spoiled.weights = nullptr;
    CHECK(kernels::check_conv2d(spoiled, *geometry, input, output, workspace) ==
          Status{StatusCode::missing, OpKind::conv2d, Field::weight});

    Window2d other = valid.spec.window;
    other.stride = {1, 2};
    const auto foreign = kernels::make_conv2d_geometry(other, 2, {5, 5});
    REQUIRE(foreign.ok());
    const Out narrow(y.data(), {2, out_channels, 5, 3});
    CHECK(kernels::check_conv2d(*packed, *foreign, input, narrow, workspace).field == Field::geometry);
}

TEST_CASE("a layer with a fused add is checked with its operand, and only with it") {
    const BackendTables odd = odd_tables();
    const kernels::PackingRules& rules = odd.tables[bayes]->packing;
    Valid valid;
    alignas(64) static std::byte storages[2][1 << 15];
    const auto plain = kernels::pack_conv2d(rules, valid.spec, {storages[0], 1 << 15});
    valid.spec.sumin = &valid.sumin;
    const auto fused = kernels::pack_conv2d(rules, valid.spec, {storages[1], 1 << 15});
    REQUIRE((plain.ok() && fused.ok()));
    alignas(64) static std::byte scratch[1 << 12];
    const auto geometry = kernels::make_conv2d_geometry(valid.spec.window, 1, {5, 5});
    REQUIRE(geometry.ok());
    std::vector<std::int8_t> x(in_channels * 25), y(2 * out_channels * 25), e(out_channels * 25);
    using In = ImageView<const std::int8_t>;
    const In input(x.data(), {1, in_channels, 5, 5}), operand(e.data(), {1, out_channels, 5, 5});
    const ImageView<std::int8_t> output(y.data(), {1, out_channels, 5, 5});
    const Workspace room{scratch, 1 << 12};
    const auto with = [&](In sumin) {
        return kernels::check_conv2d_add(*fused, *geometry, input, sumin, output, room);
    };
    CHECK(kernels::check_conv2d(*fused, *geometry, input, output, room) ==
          Status{StatusCode::missing, OpKind::conv2d, Field::sumin});
    CHECK(kernels::check_conv2d_add(*plain, *geometry, input, operand, output, room) ==
          Status{StatusCode::unexpected, OpKind::conv2d, Field::sumin});
    CHECK(with(operand).ok());
    CHECK(with(In(y.data(), {1, out_channels, 5, 5})).ok());
    CHECK(with(In(y.data() + 1, {1, out_channels, 5, 5})) ==
          Status{StatusCode::overlapping, OpKind::conv2d, Field::output, 0, 0, Field::sumin});
    CHECK(with(In(nullptr, {1, out_channels, 5, 5})) == Status{StatusCode::missing, OpKind::conv2d, Field::sumin});
    CHECK(with(input) == Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::sumin, in_channels, out_channels});
}

TEST_CASE("a linear layer has a window without padding, dilation and stride, and takes the whole image") {
    const BackendTables odd = odd_tables();
    const kernels::PackingRules& rules = odd.tables[bayes]->packing;
    alignas(64) static std::byte storage[1 << 15], scratch[1 << 12];
    const auto made = [&](Window2d window) {
        Valid valid;
        valid.spec.op = OpKind::linear;
        valid.spec.window = window;
        return kernels::pack_conv2d(rules, valid.spec, {storage, 1 << 15});
    };
    const auto refused = [&](Window2d window, Field field, std::int64_t given, std::int64_t expected) {
        CHECK(made(window).status() == Status{StatusCode::value_out_of_range, OpKind::linear, field, given, expected});
    };
    refused({{3, 3}, {1, 1}, {0, 0, 0, 1}, {1, 1}}, Field::padding, 1, 0);
    refused({{3, 3}, {1, 1}, {}, {1, 2}}, Field::dilation, 2, 1);
    refused({{1, 1}, {2, 1}, {}, {1, 1}}, Field::stride, 2, 1);
    const Window2d window{{3, 3}, {1, 1}, {}, {1, 1}};
    const auto packed = made(window);
    REQUIRE(packed.ok());
    std::vector<std::int8_t> x(in_channels * 25), y(out_channels * 9);
    const auto on_image_of = [&](index_t side) {
        const auto geometry = kernels::make_conv2d_geometry(window, 1, {side, side});
        REQUIRE(geometry.ok());
        return kernels::check_conv2d(
            *packed, *geometry, ImageView<const std::int8_t>(x.data(), {1, in_channels, side, side}),
            ImageView<std::int8_t>(y.data(), {1, out_channels, side - 2, side - 2}), {scratch, 1 << 12});
    };
    CHECK(on_image_of(3).ok());
    CHECK(on_image_of(5) == Status{StatusCode::shape_mismatch, OpKind::linear, Field::kernel, 9, 25});
}

// --- sizes, which are asked before anything was checked ---------------------------------------------------------------

TEST_CASE("the size of what cannot be made is 0, and asking for it is no fault") {
    constexpr index_t huge = std::numeric_limits<index_t>::max(), large = index_t{1} << 62;
    const std::vector<std::function<void(Conv2dSpec&)>> spoils{
        [](Conv2dSpec& s) { s.groups = 0; },
        [](Conv2dSpec& s) { s.groups = -1; },
        [](Conv2dSpec& s) { s.groups = 3; },
        [](Conv2dSpec& s) { s.groups = huge; },
        [](Conv2dSpec& s) { s.in_channels = 0; },
        [](Conv2dSpec& s) { s.in_channels = huge; },
        [](Conv2dSpec& s) { s.out_channels = -5; },
        [](Conv2dSpec& s) { s.out_channels = large; },
        [](Conv2dSpec& s) { s.in_channels = s.out_channels = s.groups = large; },
        [](Conv2dSpec& s) {
            s.window.kernel = {large, large};
        },
        [](Conv2dSpec& s) {
            s.window.kernel = {largest_window, 1}, s.in_channels = s.out_channels = 1 << 24;
        },
        [](Conv2dSpec& s) {
            s.window.stride = {0, 1};
        },
        [](Conv2dSpec& s) { s.input_dtype = DType::float32; },
        [](Conv2dSpec& s) { s.input_dtype = static_cast<DType>(77); },
        [](Conv2dSpec& s) { s.weight_dtype = DType::none; },
        [](Conv2dSpec& s) { s.op = OpKind::add; },
        [](Conv2dSpec& s) { s.op = OpKind::linear; },  // with padding
        [](Conv2dSpec& s) { s.window.padding.left = huge; },
        [](Conv2dSpec& s) {
            s.window.dilation = {huge, huge};
        },
    };
    for (const BackendTables& backend : usable_backend_tables())
        for (const kernels::KernelTable* table : backend.tables) {
            INFO(table->policy().name << "/" << table->backend);
            Valid valid;
            CHECK(kernels::packed_conv2d_size(table->packing, valid.spec) > 0);
            for (std::size_t i = 0; i < spoils.size(); ++i) {
                Conv2dSpec spec = valid.spec;
                spoils[i](spec);
                INFO("spoilt " << i);
                CHECK(kernels::packed_conv2d_size(table->packing, spec) == 0);
                CHECK_FALSE(kernels::pack_conv2d(table->packing, spec, {}).ok());
            }
        }
}

TEST_CASE("fewer zero points than scales are refused, not read beyond their end") {
    const auto former = set_assert_handler([](const char*, const char*, int) {});
    Valid valid;
    const std::vector<std::int32_t> few(2);
    valid.spec.weight = QParams::per_channel(valid.scales, few, 0, -128, 127);
    set_assert_handler(former);
    const kernels::PackingRules& rules = scalar_tables().tables[fp32]->packing;
    GuardedBuffer storage(static_cast<std::size_t>(kernels::packed_conv2d_size(rules, valid.spec)));
    CHECK(kernels::pack_conv2d(rules, valid.spec, {storage.as<std::byte>(), static_cast<index_t>(storage.size())})
              .status() == Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::zero_point, 2, 6, Field::weight});
}

TEST_CASE("a geometry of an image that cannot be is refused") {
    constexpr index_t huge = std::numeric_limits<index_t>::max();
    const Window2d window{{3, 3}, {1, 1}, {9, 9, 9, 9}, {1, 1}};
    const auto status = [&](const Window2d& w, Size2d in) { return kernels::make_conv2d_geometry(w, 1, in).status(); };
    for (const Size2d in : {Size2d{-3, -3}, Size2d{-3, 5}, Size2d{0, 5}, Size2d{5, huge}, Size2d{huge, huge},
                            Size2d{largest_extent + 1, 1}}) {
        CAPTURE(in.height, in.width);
        CHECK(status(window, in).field == Field::input);
        CHECK(status({}, in).field == Field::input);  // read in place
    }
    // Their product wraps to 1 in 64 bits.
    CHECK_FALSE(status({}, {274177, 67280421310721}).ok());
    CHECK(status({}, {1 << 16, 1 << 16}).code == StatusCode::value_out_of_range);
    for (const Window2d& bad :
         {Window2d{{3, 3}, {0, 1}, {}, {1, 1}}, Window2d{{3, 3}, {1, 1}, {}, {0, 1}},
          Window2d{{huge, huge}, {1, 1}, {}, {1, 1}}, Window2d{{3, 3}, {1, 1}, {huge, 0, huge, 0}, {1, 1}}}) {
        CHECK_FALSE(status(bad, {8, 8}).ok());
    }
    const Window2d same{{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
    CHECK(kernels::make_conv2d_geometry(same, 1, {3, 3}).ok());
    CHECK_FALSE(kernels::make_conv2d_geometry(same, huge, {3, 3}).ok());
}

TEST_CASE("the workspace of a batch that no memory holds is more than any workspace") {
    const Valid valid;
    const kernels::PackingRules& rules = odd_tables().tables[bayes]->packing;
    GuardedBuffer storage(static_cast<std::size_t>(kernels::packed_conv2d_size(rules, valid.spec)));
    const auto packed =
        *kernels::pack_conv2d(rules, valid.spec, {storage.as<std::byte>(), static_cast<index_t>(storage.size())});
    auto geometry = *kernels::make_conv2d_geometry(valid.spec.window, 1, {5, 6});
    CHECK(kernels::conv2d_workspace_size(packed, geometry) > 0);
    geometry.batch = std::numeric_limits<index_t>::max();
    CHECK(kernels::conv2d_workspace_size(packed, geometry) == std::numeric_limits<index_t>::max());
}
