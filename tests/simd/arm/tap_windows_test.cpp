// SPDX-License-Identifier: MIT
//
// Windows that the tiles of dsp and helium read tap by tap, in C++, against the oracle.
// tests/conformance/differences.cpp runs the same tiles as instructions.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "intq/simd/select.hpp"
#include "kernels/oracle_bridge.hpp"
#include "reference/fixed_point.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using intq::test::Draw;

std::int8_t any_code(Draw& draw) {
    const std::int64_t ends[] = {-128, 127, 0, -1};
    return static_cast<std::int8_t>(draw.one_in(3) ? ends[draw.between(0, 3)] : draw.between(-128, 127));
}

/// Whether the codes of some blocks and pixels, whose taps lie anywhere in an image or on padding, are the oracle's.
///
/// @param store  the tile's store_taps
template <class Tile, class Store>
bool taps_agree(std::int32_t zero_point, std::int32_t lowest, std::int32_t highest, Draw& draw, Store&& store) {
    constexpr std::int32_t of_image = 12, taps = simd::window_taps;
    const auto blocks = static_cast<std::int32_t>(draw.between(1, 3));
    const auto pixels = static_cast<std::int32_t>(draw.between(1, 9));
    const std::int32_t channels = blocks * Tile::tap_channels;
    const auto size = [](std::int32_t count) { return static_cast<std::size_t>(count); };
    std::vector<std::int8_t> x(size(of_image * channels)),
        padding(size(channels), static_cast<std::int8_t>(zero_point)), w(size(taps * channels)),
        y(size(pixels * channels + 1), 99);
    for (std::int8_t& to : x) to = any_code(draw);
    for (std::int8_t& to : w) to = any_code(draw);
    const simd::TapOrigin origin = Tile::tap_origin(x.data(), padding.data());
    std::vector<std::int32_t> places(size(taps * pixels)), pixel_of_tap(size(taps * pixels)), words(size(3 * channels));
    for (std::size_t i = 0; i < places.size(); ++i) {
        pixel_of_tap[i] = draw.one_in(4) ? -1 : static_cast<std::int32_t>(draw.between(0, of_image - 1));
        places[i] = pixel_of_tap[i] < 0 ? origin.padding : origin.image + pixel_of_tap[i] * channels;
    }
    std::int32_t *const bias = words.data(), *const multiplier = bias + channels, *const shift = multiplier + channels;
    for (std::int32_t c = 0; c < channels; ++c) {
        bias[c] = static_cast<std::int32_t>(draw.between(-100000, 100000));
        multiplier[c] = static_cast<std::int32_t>(draw.between(1 << 30, INT32_MAX));
        shift[c] = static_cast<std::int32_t>(draw.between(-12, -2));
    }
    simd::TapWindows windows{places.data(), w.data(), bias,       multiplier, shift,   y.data(), blocks,
                             pixels,        channels, zero_point, lowest,     highest, x.data(), padding.data()};
    store(windows);
    for (std::int32_t p = 0; p < pixels; ++p)
        for (std::int32_t c = 0; c < channels; ++c) {
            std::int64_t sum = bias[c];
            for (std::int32_t t = 0; t < taps; ++t) {
                const std::int32_t pixel = pixel_of_tap[size(taps * p + t)];
                sum += (pixel < 0 ? zero_point : x[size(pixel * channels + c)]) * w[size(taps * c + t)];
            }
            const auto scaled =
                static_cast<std::int64_t>(intq_reference::multiply_double_rounding(sum, {multiplier[c], shift[c]}));
            const auto expected = std::clamp<std::int64_t>(scaled + zero_point, lowest, highest);
            if (y[size(p * channels + c)] != expected) return false;
        }
    return y.back() == 99;
}

}  // namespace

TEST_CASE("windows that helium reads tap by tap have the codes of the oracle") {
    using Tile = simd::WindowTile<simd::helium>;
    using enum simd::Saturation;
    Draw draw(12);
    const auto agree = [&draw]<simd::Saturation Range>(std::int32_t zero_point, std::int32_t lowest,
                                                       std::int32_t highest) {
        return taps_agree<Tile>(zero_point, lowest, highest, draw,
                                [](simd::TapWindows& windows) { Tile::store_taps<Range>(windows); });
    };
    for (int i = 0; i < 50; ++i) {
        CHECK(agree.operator()<rectified>(-128, -128, 127));
        CHECK(agree.operator()<positive>(0, 0, 100));
        CHECK(agree.operator()<int8>(-7, -128, 127));
        CHECK(agree.operator()<any>(5, -70, 90));
    }
}

TEST_CASE("windows that dsp reads tap by tap have the codes of the oracle") {
    using Tile = simd::PairedTile<simd::dsp>;
    using simd::CodeRange;
    Draw draw(13);
    const auto agree = [&draw]<CodeRange Range>(std::int32_t zero_point, std::int32_t lowest, std::int32_t highest) {
        const auto store = [](simd::TapWindows& windows) { Tile::store_taps<simd::dsp_lanes, Range>(windows); };
        return taps_agree<Tile>(zero_point, lowest, highest, draw, store);
    };
    for (int i = 0; i < 50; ++i) {
        CHECK(agree.operator()<CodeRange::positive>(0, 0, 127));
        CHECK(agree.operator()<CodeRange::int8>(-7, -128, 127));
        CHECK(agree.operator()<CodeRange::any>(5, -70, 90));
    }
}
