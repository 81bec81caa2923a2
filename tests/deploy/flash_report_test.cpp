// SPDX-License-Identifier: MIT
//
// What the report says of the constants of DS-CNN, beside the numbers of its layers.
#include "intq/deploy/flash_report.hpp"

#include "deploy/small_networks.hpp"
#include "support/catch.hpp"

using namespace intq;

TEST_CASE("the constants of a program are counted by kind, equal arrays once") {
    const auto owned = test::lowered(test::ds_cnn());
    const deploy::FlashReport report = deploy::flash_report(owned->program(), owned->table());
    // Packed for `scalar`: no layer of it is filled up. Weights: 10x4 of one channel, four times 3x3 of one and 1x1 of
    // 64 channels, and the last layer.
    CHECK(report.weights == 64 * 40 + 4 * (64 * 9 + 64 * 64) + 12 * 64);
    // Bias, multiplier and shift of each channel.
    CHECK(report.channels == 12 * (64 * 9 + 12));
    // A pixel of zero points, which is the same for all depthwise layers. Codes are symmetric here, so that a tap on
    // padding adds nothing to a sum.
    CHECK(report.padding == 64);
    CHECK(report.tables == 0);
    CHECK(report.records > 12 * 4 * 30);
    CHECK(report.records < 6000);
    CHECK(report.total() == report.weights + report.channels + report.padding + report.tables + report.records);
    CHECK_THAT(report.to_text(), Catch::Contains("weights  22016 bytes\nchannels 7056 bytes\npadding  64 bytes\n"));
}

TEST_CASE("the larger tables of int16 functions are listed with their layers, as bytes of the tables") {
    const auto owned = test::lowered(test::with_int16(test::small_attention()));
    const deploy::FlashReport report = deploy::flash_report(owned->program(), owned->table());
    index_t bytes = 0;
    bool has_sqrt = false;
    for (const deploy::LargerTable& larger : report.larger_tables) {
        CHECK((larger.bytes > 1026 && larger.bytes <= 6000));
        bytes += larger.bytes;
        has_sqrt = has_sqrt || larger.layer == "sqrt";
        CHECK_THAT(report.to_text(), Catch::Contains("table of " + larger.layer + ", larger to stay within a code: " +
                                                     std::to_string(larger.bytes) + " bytes\n"));
    }
    CHECK(has_sqrt);
    CHECK(report.tables >= bytes);
    CHECK(deploy::flash_report(test::lowered(test::ds_cnn())->program(), owned->table()).larger_tables.empty());
}
