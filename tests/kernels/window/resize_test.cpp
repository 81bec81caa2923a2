// SPDX-License-Identifier: MIT
//
// interpolate: taps against the rational numbers that they round, pixels against plain sums of four products, on every
// backend; the error against real interpolation. The classes of a geometry, which lie beside it.
#include "intq/kernels/window/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <random>
#include <vector>

#include "intq/arith/fp32.hpp"
#include "intq/arith/make_requantize.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/arith/tflite_functions.hpp"
#include "intq/kernels/window/geometry.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/odd_width.hpp"
#include "support/tensors.hpp"

namespace {

using namespace intq;
using arith::Resize;
using arith::ResizeTap;
using intq::test::BackwardExecutor;
using intq::test::for_each_backend;
using intq::test::GuardedBuffer;

constexpr Resize rules[] = {Resize::nearest, Resize::nearest_exact, Resize::half_pixel, Resize::align_corners};

/// Position of output d in 256ths of a cell as numerator / denominator, before clamping.
struct Position {
    std::int64_t numerator, denominator;
};
Position position_of(Resize rule, std::int64_t d, std::int64_t in, std::int64_t out) {
    if (rule == Resize::half_pixel) return {((2 * d + 1) * in - out) * 128, out};
    return {d * (in - 1) * 256, out > 1 ? out - 1 : 1};
}

/// Whether c = fl(p + 1/2), from what that means: 2·|c - p| <= 1, and a tie has gone up.
bool is_rounded_half_up(std::int64_t c, Position p) {
    const std::int64_t twice = 2 * (c * p.denominator - p.numerator);
    return twice <= p.denominator && twice > -p.denominator;
}

bool is_tap(Resize rule, const ResizeTap& tap, std::int64_t d, std::int64_t in, std::int64_t out) {
    if (rule == Resize::nearest || rule == Resize::nearest_exact) {
        // The last cell whose left edge is not right of the sample d, or d + 1/2.
        std::int64_t cell = 0;
        while (cell + 1 < in &&
               (rule == Resize::nearest ? (cell + 1) * out <= d * in : 2 * (cell + 1) * out <= (2 * d + 1) * in))
            ++cell;
        return tap == ResizeTap{static_cast<std::int32_t>(cell), static_cast<std::int32_t>(cell), 0};
    }
    const Position p = position_of(rule, d, in, out);
    const std::int64_t c = tap.first * std::int64_t{256} + tap.weight, last = (in - 1) * 256;
    const bool is_position =
        (c == 0 && p.numerator <= 0) || (c == last && p.numerator >= last * p.denominator) || is_rounded_half_up(c, p);
    return is_position && tap.weight >= 0 && tap.weight < 256 && c <= last &&
           tap.second == (tap.first + 1 < in ? tap.first + 1 : tap.first);
}

template <class Code> std::vector<Code> random_codes(index_t count) {
    std::mt19937 random(3);
    std::vector<Code> codes;
    for (index_t i = 0; i < count; ++i) {
        const auto bits = static_cast<std::uint32_t>(random());
        codes.push_back(bits % 8 == 0   ? std::numeric_limits<Code>::min()
                        : bits % 8 == 1 ? std::numeric_limits<Code>::max()
                                        : static_cast<Code>(bits >> 8));
    }
    return codes;
}

struct Resized {
    Size2d in, out;
    index_t batch, channels;
    std::int64_t parts = 256;  // of a step between two cells
};

/// One output pixel in 64 bits: the products of both weights, and one rounding, half up of 256ths and half away from
/// zero of 1024ths.
template <class Code>
Code plain_pixel(const std::vector<Code>& x, const Resized& s, const ResizeTap& row, const ResizeTap& column, index_t n,
                 index_t c) {
    const auto at = [&](std::int64_t y, std::int64_t across) {
        return std::int64_t{
            x[static_cast<std::size_t>(((n * s.in.height + y) * s.in.width + across) * s.channels + c)]};
    };
    const std::int64_t sum =
        (s.parts - row.weight) *
            ((s.parts - column.weight) * at(row.first, column.first) + column.weight * at(row.first, column.second)) +
        row.weight *
            ((s.parts - column.weight) * at(row.second, column.first) + column.weight * at(row.second, column.second));
    if (s.parts == 1024) return static_cast<Code>((sum + (sum > 0 ? 524288 : -524288)) / 1048576);
    const std::int64_t moved = sum + 32768;
    return static_cast<Code>(moved >= 0 ? moved / 65536 : -((-moved + 65535) / 65536));
}

template <class Backend, class Code> void check_shape(Resize rule, const Resized& s) {
    std::vector<ResizeTap> taps(static_cast<std::size_t>(kernels::resize_table_size(s.out)));
    const auto made = kernels::make_resize_table(rule, s.in, s.out, taps);
    REQUIRE(made.ok());
    kernels::ResizeTable table = *made;
    if (s.parts == 1024) {
        table.blend = arith::Blend::of_1024ths;
        std::int32_t weight = 0;
        for (ResizeTap& tap : taps) tap.weight = (weight += 389) % 1024;
    }
    const auto x = random_codes<Code>(s.batch * s.in.height * s.in.width * s.channels);
    std::vector<Code> expected;
    for (index_t n = 0; n < s.batch; ++n)
        for (const ResizeTap& row : table.rows)
            for (const ResizeTap& column : table.columns)
                for (index_t c = 0; c < s.channels; ++c) expected.push_back(plain_pixel(x, s, row, column, n, c));
    const std::size_t bytes = expected.size() * sizeof(Code);
    for (const auto against : {GuardedBuffer::Against::end, GuardedBuffer::Against::begin}) {
        GuardedBuffer from(x.size() * sizeof(Code), against), to(bytes, against);
        std::memcpy(from.as<Code>(), x.data(), from.size());
        BackwardExecutor backward;
        const Executor executor = backward.executor();
        kernels::interpolate_codes<Backend, Code>(
            {&table, from.as<Code>(), to.as<Code>(), s.batch, s.channels, &executor});
        CHECK(std::memcmp(to.as<Code>(), expected.data(), bytes) == 0);
        CHECK(to.is_intact());
    }
}

}  // namespace

TEST_CASE("Taps are the positions of docs/arithmetic.md, as rational numbers say them") {
    index_t wrong = 0;
    for (const Resize rule : rules)
        for (index_t in = 1; in <= 40; ++in)
            for (index_t out = 1; out <= 40; ++out)
                for (index_t d = 0; d < out; ++d)
                    wrong += !is_tap(rule, arith::resize_tap(rule, d, in, out), d, in, out);
    CHECK(wrong == 0);
    const index_t large = arith::largest_resized;
    CHECK(arith::resize_tap(Resize::half_pixel, large - 1, large, large) ==
          ResizeTap{static_cast<std::int32_t>(large - 1), static_cast<std::int32_t>(large - 1), 0});
    CHECK(arith::resize_tap(Resize::align_corners, large - 1, large, large).first == large - 1);
    CHECK(arith::resize_tap(Resize::nearest_exact, large - 1, 7, large).first == 6);
    // Twice the size, half-pixel centres: a quarter and three quarters.
    CHECK(arith::resize_tap(Resize::half_pixel, 1, 2, 4) == ResizeTap{0, 1, 64});
    CHECK(arith::resize_tap(Resize::half_pixel, 2, 2, 4) == ResizeTap{0, 1, 192});
}

TEST_CASE("Every backend interpolates in plain integers, int8 and int16, nearest and bilinear") {
    for_each_backend(intq::test::all_backends{}, [](auto backend) {
        using Backend = decltype(backend);
        std::cout << "interpolate on " << Backend::name << "\n";
        INFO(Backend::name);
        for (const Resize rule : rules)
            for (const index_t channels : {1, 3, 16, 35, 64, 131})
                for (const Resized& shape :
                     {Resized{{3, 5}, {7, 4}, 2, channels}, Resized{{4, 2}, {4, 9}, 1, channels},
                      Resized{{1, 1}, {3, 2}, 1, channels}, Resized{{6, 7}, {1, 1}, 1, channels}}) {
                    INFO("rule " << static_cast<int>(rule) << " channels " << channels);
                    check_shape<Backend, std::int8_t>(rule, shape);
                    check_shape<Backend, std::int16_t>(rule, shape);
                    if (arith::is_nearest(rule)) continue;
                    Resized fine = shape;
                    fine.parts = 1024;
                    check_shape<Backend, std::int8_t>(rule, fine);
                    check_shape<Backend, std::int16_t>(rule, fine);
                }
    });
}

TEST_CASE("TFLite's taps are its integer positions, and those beyond the image are refused") {
    // By LiteRT 2.3: 4 cells become 8, with centres of half a pixel, with corners, and with neither.
    const auto tap = [](index_t d, index_t in, index_t out, bool corners, bool half_pixel) {
        const auto made = arith::tflite_bilinear_tap(d, in, out, corners, half_pixel);
        REQUIRE(made.ok());
        return *made;
    };
    CHECK(tap(0, 4, 8, false, true) == ResizeTap{0, 0, 0});  // -256
    CHECK(tap(1, 4, 8, false, true) == ResizeTap{0, 1, 256});
    CHECK(tap(7, 4, 8, false, true) == ResizeTap{3, 3, 0});
    CHECK(tap(3, 4, 8, false, false) == ResizeTap{1, 2, 512});
    CHECK(tap(7, 4, 8, false, false) == ResizeTap{3, 3, 0});
    CHECK(tap(3, 4, 8, true, false) == ResizeTap{1, 2, 293});  // 3·439
    CHECK(tap(0, 5, 1, true, false) == ResizeTap{0, 1, 0});
    // 3 cells become 2000: a step of 1.536 is 2.
    CHECK(arith::tflite_bilinear_tap(1535, 3, 2000, false, false).ok());
    CHECK(arith::tflite_bilinear_tap(1536, 3, 2000, false, false).status() ==
          Status{StatusCode::value_out_of_range, OpKind::interpolate, Field::input, 3, 2});
}

TEST_CASE("The extremes of int16 neither wrap nor saturate") {
    using One = arith::scalar_lanes;
    for (const std::int32_t x : {0, 1, 128, 255})
        for (const std::int32_t y : {0, 1, 128, 255}) {
            CHECK(arith::bilinear<One>(-32768, -32768, -32768, -32768, x, y) == -32768);
            CHECK(arith::bilinear<One>(32767, 32767, 32767, 32767, x, y) == 32767);
        }
    CHECK(arith::bilinear<One>(-32768, 32767, -32768, 32767, 128, 77) == 0);  // -1/2 goes up
    for (const std::int32_t x : {0, 1, 512, 1023})
        for (const std::int32_t y : {0, 1, 512, 1023}) {
            CHECK(arith::bilinear_of_1024ths<One>(-32768, -32768, -32768, -32768, x, y) == -32768);
            CHECK(arith::bilinear_of_1024ths<One>(32767, 32767, 32767, 32767, x, y) == 32767);
        }
    CHECK(arith::bilinear_of_1024ths<One>(-32768, 32767, -32768, 32767, 512, 77) == -1);  // -1/2 goes away from 0
    CHECK(arith::bilinear_of_1024ths<One>(32767, -32768, 32767, -32768, 512, 1023) == -1);
    CHECK(arith::bilinear_of_1024ths<One>(0, 1, 0, 1, 512, 300) == 1);
    CHECK(arith::bilinear<One>(-32768, -32768, 32767, 32767, 3, 255) == 32511);
}

/// The error of a pixel against real interpolation, and half a code more than what the rounding of its two weights to
/// 256ths can make of the steps between its neighbours.
struct BilinearError {
    double error, bound;
};

template <class Code>
BilinearError error_of(const std::vector<Code>& x, Resize rule, index_t i, index_t j, index_t in, index_t out) {
    const auto real_position = [&](index_t d) {
        const Position p = position_of(rule, d, in, out);
        const double at = static_cast<double>(p.numerator) / (256.0 * static_cast<double>(p.denominator));
        return std::fmin(std::fmax(at, 0.0), static_cast<double>(in - 1));
    };
    const auto code = [&](index_t r, index_t c) { return std::int32_t{x[static_cast<std::size_t>(r * in + c)]}; };
    const auto cell = [&](index_t r, index_t c) { return static_cast<double>(code(r, c)); };
    const double v = real_position(i), u = real_position(j);
    const auto top = static_cast<index_t>(v), left = static_cast<index_t>(u);
    const index_t bottom = std::min(top + 1, in - 1), right = std::min(left + 1, in - 1);
    const double fv = v - static_cast<double>(top), fu = u - static_cast<double>(left);
    const double real = (1 - fv) * ((1 - fu) * cell(top, left) + fu * cell(top, right)) +
                        fv * ((1 - fu) * cell(bottom, left) + fu * cell(bottom, right));
    const ResizeTap row = arith::resize_tap(rule, i, in, out), column = arith::resize_tap(rule, j, in, out);
    const std::int32_t y = arith::bilinear<arith::scalar_lanes>(
        code(row.first, column.first), code(row.first, column.second), code(row.second, column.first),
        code(row.second, column.second), column.weight, row.weight);
    // A rounded position may lie on the cell itself, where the real one lies a little before or behind it.
    double step = 0;
    for (index_t r = std::max<index_t>(top - 1, 0); r <= std::min(top + 2, in - 1); ++r)
        for (index_t c = std::max<index_t>(left - 1, 0); c <= std::min(left + 2, in - 1); ++c) {
            if (r + 1 < in) step = std::fmax(step, std::fabs(cell(r + 1, c) - cell(r, c)));
            if (c + 1 < in) step = std::fmax(step, std::fabs(cell(r, c + 1) - cell(r, c)));
        }
    return {std::fabs(real - static_cast<double>(y)), 2 * step / 512 + 0.5};
}

template <class Code> double worst_bilinear_error() {
    double worst = 0;
    index_t above = 0;
    for (const Resize rule : {Resize::half_pixel, Resize::align_corners})
        for (const auto& [in, out] :
             {std::pair<index_t, index_t>{7, 19}, {19, 7}, {5, 64}, {64, 5}, {33, 100}, {3, 300}}) {
            const auto x = random_codes<Code>(in * in);
            for (index_t i = 0; i < out; ++i)
                for (index_t j = 0; j < out; ++j) {
                    const BilinearError found = error_of(x, rule, i, j, in, out);
                    worst = std::fmax(worst, found.error);
                    above += found.error > found.bound;
                }
        }
    CHECK(above == 0);
    return worst;
}

namespace {

/// Position p of docs/arithmetic.md, section "interpolate of real numbers", each operation rounded to float32.
float real_position(Resize rule, index_t d, index_t in, index_t out) {
    volatile float place = 0.0f;
    if (rule == Resize::align_corners) {
        if (out == 1) return 0.0f;
        place = static_cast<float>(d) * static_cast<float>(in - 1);
        place = place / static_cast<float>(out - 1);
        return place;
    }
    volatile float factor = static_cast<float>(out) / static_cast<float>(in);
    place = (static_cast<float>(d) + 0.5f) / factor;
    place = place - 0.5f;
    return std::fmin(std::fmax(place, 0.0f), static_cast<float>(in - 1));
}

/// Cells and weights along an axis.
struct RealTap {
    index_t first, second;
    float of_first, of_second;
};
RealTap real_tap(Resize rule, index_t d, index_t in, index_t out) {
    const float place = real_position(rule, d, in, out);
    const index_t first = std::min<index_t>(static_cast<index_t>(place), in - 1), second = std::min(first + 1, in - 1);
    volatile float weight = first == second ? 0.5f : place - static_cast<float>(first);
    volatile float rest = 1.0f - weight;
    return {first, second, rest, weight};
}

std::int8_t real_pixel(const std::vector<std::int8_t>& x, const Resized& s, const RealTap& row, const RealTap& column,
                       index_t n, index_t c, const arith::ResizeGrids& grids) {
    const auto part = [&](index_t i, float wi, index_t j, float wj) {
        const auto q = x[static_cast<std::size_t>(((n * s.in.height + i) * s.in.width + j) * s.channels + c)];
        volatile float value = static_cast<float>(q - grids.zero_point) * grids.s_in;
        volatile float weight = wj * wi;
        value = weight * value;
        return static_cast<float>(value);
    };
    volatile float sum = part(row.first, row.of_first, column.first, column.of_first);
    sum = sum + part(row.first, row.of_first, column.second, column.of_second);
    sum = sum + part(row.second, row.of_second, column.first, column.of_first);
    sum = sum + part(row.second, row.of_second, column.second, column.of_second);
    sum = sum / grids.s_out;
    const double code = std::nearbyint(static_cast<double>(sum)) + grids.codes.zero_point;
    return static_cast<std::int8_t>(
        std::fmin(std::fmax(code, static_cast<double>(grids.codes.lowest)), static_cast<double>(grids.codes.highest)));
}

}  // namespace

TEST_CASE("Every backend resizes real numbers as float32 says, to any grid") {
    const std::vector<Resized> shapes{{{1, 1}, {3, 2}, 1, 5},  {{4, 5}, {9, 7}, 2, 3},    {{7, 3}, {2, 11}, 1, 16},
                                      {{5, 5}, {5, 5}, 1, 33}, {{6, 8}, {12, 24}, 1, 70}, {{9, 9}, {1, 1}, 2, 64}};
    const arith::CodesOf from{0.037f, -9, DType::int8};
    for (const arith::CodesOf& to :
         {arith::CodesOf{0.0171f, 14, DType::int8}, from, arith::CodesOf{0.5f, 0, DType::int8}})
        for (const Resize rule : {Resize::half_pixel, Resize::align_corners})
            for (const Resized& s : shapes) {
                std::vector<ResizeTap> taps(static_cast<std::size_t>(kernels::resize_table_size(s.out)));
                const arith::OutputCodes codes =
                    arith::make_output_codes(-120, 127, to.zero_point, to.scale, Activation::none);
                const auto table = kernels::make_resize_table_of_values(target::fp32::policy, rule, s.in, s.out, taps,
                                                                        {}, from, to, codes);
                REQUIRE(table.ok());
                const auto x = random_codes<std::int8_t>(s.batch * s.in.height * s.in.width * s.channels);
                std::vector<std::int8_t> expected;
                for (index_t n = 0; n < s.batch; ++n)
                    for (index_t i = 0; i < s.out.height; ++i)
                        for (index_t j = 0; j < s.out.width; ++j)
                            for (index_t c = 0; c < s.channels; ++c)
                                expected.push_back(real_pixel(x, s, real_tap(rule, i, s.in.height, s.out.height),
                                                              real_tap(rule, j, s.in.width, s.out.width), n, c,
                                                              table->grids));
                for_each_backend(intq::test::all_backends{}, [&](auto tag) {
                    GuardedBuffer given(x.size()), to_codes(expected.size());
                    std::memcpy(given.as<std::int8_t>(), x.data(), x.size());
                    BackwardExecutor backward;
                    const Executor executor = backward.executor();
                    kernels::interpolate_values<decltype(tag)>(
                        {&*table, given.as<std::int8_t>(), to_codes.as<std::int8_t>(), s.batch, s.channels, &executor});
                    CHECK(std::memcmp(to_codes.as<std::int8_t>(), expected.data(), expected.size()) == 0);
                    CHECK(to_codes.is_intact());
                });
            }
}

TEST_CASE("A resize of real numbers is refused where no runtime has it") {
    std::vector<ResizeTap> taps(8);
    const auto make = [&](const arith::PolicyRecord& policy, Resize rule, const arith::CodesOf& from) {
        const arith::OutputCodes codes = arith::make_output_codes(lowest_code(from.dtype), highest_code(from.dtype), 0,
                                                                  from.scale, Activation::none);
        return kernels::make_resize_table_of_values(policy, rule, {2, 2}, {4, 4}, taps, {}, from, from, codes).status();
    };
    const arith::CodesOf q{0.5f, 0, DType::int8};
    CHECK(make(target::fp32::policy, Resize::half_pixel, q).ok());
    CHECK(make(target::fp32::policy, Resize::nearest, q).field == Field::kernel);
    CHECK(make(target::fp32::policy, Resize::half_pixel, {0.5f, 0, DType::int16}).code == StatusCode::unsupported);
    CHECK(make(target::tflite<>::policy, Resize::half_pixel, q).code == StatusCode::unsupported);
    CHECK(make(target::fp32::policy, Resize::half_pixel, {0x1p119f, 0, DType::int8}).code ==
          StatusCode::scale_out_of_range);
}

TEST_CASE("Bilinear interpolation is within 1.5 codes of real numbers in int8, and within 257 in int16") {
    const double narrow = worst_bilinear_error<std::int8_t>(), wide = worst_bilinear_error<std::int16_t>();
    INFO("worst " << narrow << " and " << wide);
    CHECK(narrow <= 1.5);
    CHECK(wide <= 257);
    CHECK(wide > 100);  // weights of 8 bits show in 16
    std::cout << "bilinear interpolation: " << narrow << " codes of int8, " << wide << " of int16 off real numbers\n";
}

TEST_CASE("Sizes that have no table are refused") {
    std::vector<ResizeTap> taps(9);
    CHECK(kernels::make_resize_table(Resize::nearest, {2, 2}, {4, 5}, taps).ok());
    CHECK(kernels::make_resize_table(Resize::nearest, {2, 2}, {5, 5}, taps).status() ==
          Status{StatusCode::buffer_too_small, OpKind::none, Field::storage, 9, 10});
    CHECK(kernels::make_resize_table(Resize::nearest, {0, 2}, {4, 5}, taps).status().field == Field::input);
    CHECK(kernels::make_resize_table(Resize::nearest, {2, 2}, {4, 0}, taps).status() ==
          Status{StatusCode::value_out_of_range, OpKind::none, Field::output, 0, 1});
    CHECK(kernels::make_resize_table(Resize::nearest, {arith::largest_resized + 1, 2}, {4, 4}, taps).status().code ==
          StatusCode::value_out_of_range);
    const auto by = [&](arith::ResizeOrigin origin, double height, double width, Resize rule = Resize::nearest) {
        return kernels::make_resize_table(rule, {2, 3}, {4, 5}, taps, {{origin, height}, {origin, width}}).status();
    };
    for (const auto origin : {arith::ResizeOrigin::torch_factor, arith::ResizeOrigin::onnx_factor}) {
        CHECK(by(origin, 2.0, 1.75).ok());
        CHECK(by(origin, 2.0, 1.5) == Status{StatusCode::value_out_of_range, OpKind::none, Field::scale, 5, 4});
        for (const double factor : {0.0, -1.0, 1e-30, 1e30, std::numeric_limits<double>::quiet_NaN(),
                                    std::numeric_limits<double>::infinity()})
            CHECK(by(origin, factor, 1.75) == Status{StatusCode::value_out_of_range, OpKind::none, Field::scale, 4, 0});
    }
    CHECK(by(arith::ResizeOrigin::torch_factor, 2.0, 1.75, Resize::align_corners).ok());
    CHECK(by(arith::ResizeOrigin::onnx_factor, 2.0, 1.75, Resize::align_corners).field == Field::scale);
}

TEST_CASE(
    "A tap by a factor lies inside the input at every extent, and is that of the extents where the factor is whole") {
    index_t outside = 0, other = 0;
    for (const auto origin : {arith::ResizeOrigin::torch_factor, arith::ResizeOrigin::onnx_factor})
        for (const Resize rule : rules)
            for (index_t in = 1; in <= 40; ++in) {
                for (const double factor : {0.03, 0.3, 0.99, 1.01, 1.3, 1.9999999, 7.7}) {
                    const arith::ResizeScale scale{origin, factor};
                    const index_t out = arith::resized_extent(scale, in);
                    for (index_t d = 0; d < out; ++d) {
                        const ResizeTap tap = arith::resize_tap(rule, d, in, out, scale);
                        outside += tap.first < 0 || tap.first >= in || tap.second < tap.first || tap.second >= in ||
                                   tap.weight < 0 || tap.weight > 255;
                    }
                }
                for (const double factor : {1.0, 2.0, 4.0})
                    for (index_t d = 0; d < static_cast<index_t>(factor) * in; ++d)
                        other +=
                            !(arith::resize_tap(rule, d, in, static_cast<index_t>(factor) * in, {origin, factor}) ==
                              arith::resize_tap(rule, d, in, static_cast<index_t>(factor) * in));
            }
    CHECK(outside == 0);
    CHECK(other == 0);
}
