// SPDX-License-Identifier: MIT
//
// quantize of NCHW images: the rows of every backend and target against the oracle, byte for byte.
#include <iterator>
#include <limits>

#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace {

using namespace intq;
using namespace intq::test;

struct Images {
    index_t count, channels, pixels;
    std::vector<float> values;  // (N, C, pixels), row-major
};

/// Real values around the codes' range, exact ties, both infinities and NaN among them.
Images draw_images(index_t count, index_t channels, index_t pixels, float scale) {
    Images images{count, channels, pixels, {}};
    Draw draw(static_cast<std::uint64_t>(channels * 131 + pixels));
    for (index_t i = 0; i < count * channels * pixels; ++i) images.values.push_back(draw.real(-150.0f, 150.0f) * scale);
    const float special[] = {0.5f * scale,
                             -1.5f * scale,
                             std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN(),
                             1e30f};
    for (std::size_t i = 0; i < std::size(special) && i < images.values.size(); ++i)
        images.values[images.values.size() - 1 - i] = special[i];
    return images;
}

std::vector<unsigned char> expected_bytes(const Images& images, const std::vector<oracle::QParams>& per_channel,
                                          const oracle::Target& target, DType dtype) {
    oracle::Tensor codes;
    codes.n = images.count, codes.c = images.channels, codes.h = 1, codes.w = images.pixels;
    codes.codes =
        oracle::quantize(images.values, per_channel, static_cast<std::size_t>(images.pixels), target.quantize);
    return channels_last_bytes(codes, dtype);
}

}  // namespace

TEST_CASE("Planes become channels-last codes: the oracle's bytes for any number of channels and pixels") {
    int compared = 0;
    for (const BackendTables& backend : usable_backend_tables())
        for (std::size_t t = 0; t < backend.tables.size(); ++t)
            for (const kernels::QuantizeRow& row : backend.tables[t]->quantize)
                for (const index_t channels : {1, 2, 3, 4, 5})
                    for (const index_t pixels : {1, 2, 15, 16, 17, 1023, 1024, 1025, 2100}) {
                        const bool affine = backend.tables[t]->policy().zero_points;
                        const Codes codes{0.02f, affine ? -7 : 0, row.output};
                        const Images images = draw_images(2, channels, pixels, codes.scale);
                        const auto expected =
                            expected_bytes(images, {codes.for_oracle()}, oracle_targets()[t], row.output);
                        GuardedBuffer out(expected.size());
                        BackwardExecutor backward;
                        row.run_nchw(images.values.data(), 2, channels, pixels, pixels, codes.for_library(),
                                     out.as<void>(), backward.executor());
                        ++compared;
                        if (!out.is_intact() || !holds(out, expected))
                            FAIL_CHECK(backend.name << ", target " << t << ", " << name_of(row.output) << ", "
                                                    << channels << " channels, " << pixels
                                                    << " pixels: " << first_difference(out, expected, row.output));
                    }
    CHECK(compared >= least_backends() * 6 * 2 * 45);
}

TEST_CASE("Planes with a scale for each channel are quantized with their own") {
    for (const index_t channels : {3, 4}) {
        const Images images = draw_images(1, channels, 1030, 0.02f);
        std::vector<float> scales;
        std::vector<oracle::QParams> per_channel;
        for (index_t c = 0; c < channels; ++c) {
            scales.push_back(0.01f * static_cast<float>(c + 1));
            per_channel.push_back({scales.back(), 0, 8, -128, 127});
        }
        const auto expected = expected_bytes(images, per_channel, oracle_targets()[0], DType::int8);
        for (const BackendTables& backend : usable_backend_tables()) {
            GuardedBuffer out(expected.size());
            backend.tables[0]->quantize[0].run_nchw(images.values.data(), 1, channels, 1030, 1030,
                                                    QParams::per_channel(scales, {}, 1, -128, 127), out.as<void>(),
                                                    serial);
            CHECK(holds(out, expected));
            // Some pixels of an image, whose planes are as far apart as before.
            GuardedBuffer first(517 * static_cast<std::size_t>(channels));
            backend.tables[0]->quantize[0].run_nchw(images.values.data(), 1, channels, 517, 1030,
                                                    QParams::per_channel(scales, {}, 1, -128, 127), first.as<void>(),
                                                    serial);
            CHECK(first.is_intact());
            CHECK(holds(first, {expected.begin(), expected.begin() + 517 * channels}));
        }
    }
}
