// SPDX-License-Identifier: MIT
//
// A TFLite file whose channels are mostly dead, as in MLPerf Tiny's person detector (MobileNetV1 0.25 at 96x96, of
// which 49.5 % of the multiplications and 85 % of the bytes of weights are dead).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "intq/deploy/header_program.hpp"
#include "intq/deploy/pack_program.hpp"
#include "intq/interop/tflite/import.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/program/dropped_channels.hpp"
#include "support/catch.hpp"
#include "support/tflite_file.hpp"

using namespace intq;

namespace {

/// A pair of a depthwise and a 1x1 layer; `dead` of its outputs are planted to be constant.
struct Block {
    std::int32_t outputs, stride, dead;
};
constexpr Block blocks[] = {{16, 1, 0},    {32, 2, 0},    {32, 1, 0},   {64, 2, 4},   {64, 1, 8},
                            {128, 2, 40},  {128, 1, 62},  {128, 1, 76}, {128, 1, 90}, {128, 1, 100},
                            {128, 1, 109}, {256, 2, 205}, {256, 1, 234}};

/// The network, with what is left of it. Dead outputs have a bias below all that their weights could add; all others
/// change, because they leave zero in both directions.
struct Network {
    test::TfliteChain chain{{1, 96, 96, 3}};
    index_t multiplications = 0, whole_multiplications = 0, weights = 0, whole_weights = 0;

    explicit Network(std::uint32_t seed) : random_(seed) {
        layer("first", 8, 3, 2, 0, false);
        int at = 1;
        for (const Block& block : blocks) {
            const std::string name = "block" + std::to_string(at++);
            layer(name + "/depthwise", static_cast<std::int32_t>(live_.size()), 3, block.stride, 0, true);
            layer(name + "/pointwise", block.outputs, 1, 1, block.dead, false);
        }
        chain.average("average");
        size_ = 1;
        layer("classes", 2, 1, 1, 0, false);
    }

private:
    void layer(const std::string& name, std::int32_t outputs, std::int32_t kernel, std::int32_t stride,
               std::int32_t dead, bool is_depthwise) {
        const auto inputs = static_cast<std::int32_t>(is_depthwise ? 1 : live_.size());
        const auto all_live = static_cast<std::int32_t>(std::count(live_.begin(), live_.end(), true));
        const std::int32_t taps = kernel * kernel, live_inputs = is_depthwise ? 1 : all_live;
        std::vector<std::int8_t> weight;
        std::vector<std::int32_t> bias;
        std::vector<bool> live;
        for (std::int32_t o = 0; o < outputs; ++o) {
            // The dead ones lie between the others.
            const bool is_planted = o * dead / outputs != (o + 1) * dead / outputs;
            live.push_back(is_depthwise ? bool(live_[static_cast<std::size_t>(o)]) : !is_planted);
            std::int32_t falls = 0, rises = 0;  // of the sum, by the inputs that change
            for (std::int32_t at = 0; at < taps * inputs; ++at) {
                const std::int32_t code = static_cast<std::int32_t>(random_() % 255) - 127;
                weight.push_back(static_cast<std::int8_t>(code));
                if (is_depthwise || live_[static_cast<std::size_t>(at % inputs)]) (code < 0 ? falls : rises) += code;
            }
            const std::int32_t range = 255 * (rises - falls);
            // A depthwise channel of a dead input is constant too, in part at another code than the zero point.
            bias.push_back(is_planted                          ? -255 * 127 * taps * inputs - 1
                           : live[static_cast<std::size_t>(o)] ? range / 50
                           : o % 3 == 0                        ? range / 500
                                                               : 0);
        }
        size_ = (size_ + stride - 1) / stride;
        const auto left = static_cast<index_t>(std::count(live.begin(), live.end(), true)) * taps * live_inputs;
        weights += left;
        whole_weights += static_cast<index_t>(weight.size());
        multiplications += left * size_ * size_;
        whole_multiplications += static_cast<index_t>(weight.size()) * size_ * size_;
        chain.conv(name, outputs, kernel, stride, is_depthwise, weight, bias,
                   1.0f / (10.0f * static_cast<float>(taps * live_inputs)));
        live_ = live;
    }

    std::mt19937 random_;
    std::vector<bool> live_ = std::vector<bool>(3, true);
    index_t size_ = 96;
};

/// Images of random codes, of one code, and of the two ends.
Tensor images(index_t count, std::mt19937& random) {
    Tensor x = Tensor::empty(Shape(count, 3, 96, 96), DType::int8, Layout::channels_last);
    const auto codes = x.flat<std::int8_t>();
    const std::size_t size = codes.size() / static_cast<std::size_t>(count);
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const std::size_t kind = i / size % 4;
        if (i % size == 0 || kind < 2) codes[i] = static_cast<std::int8_t>(random());
        if (kind == 2 && i % size != 0) codes[i] = codes[i - 1];
        if (kind == 3) codes[i] = (random() & 1) != 0 ? std::int8_t{127} : std::int8_t{-128};
    }
    return x;
}

/// Images to compare; INTQ_DEAD_CHANNEL_IMAGES names another number.
index_t image_count() {
    const char* const given = std::getenv("INTQ_DEAD_CHANNEL_IMAGES");
    return given == nullptr ? 400 : std::atoi(given);
}

}  // namespace

TEST_CASE("The dead channels of a TFLite model are left out, all of them and no others") {
    const Network network(1);
    const kernels::KernelTable& table = program::best_table<target::litert>();
    const auto imported =
        interop::tflite::import_program(interop::tflite::parse_model(network.chain.file(), "vww"), table);
    const program::DroppedWork work = program::dropped_work(imported.program->program());
    SUCCEED(program::to_string(work));
    CHECK(work.multiplications == network.multiplications);
    CHECK(work.whole_multiplications == network.whole_multiplications);
    CHECK(work.weight_bytes == network.weights);
    CHECK(work.whole_weight_bytes == network.whole_weights);
    // Of the file that this one is like: 49.5 % and 85 %.
    const auto share = [](index_t left, index_t whole) { return 1.0 - double(left) / double(whole); };
    CHECK(std::abs(share(network.multiplications, network.whole_multiplications) - 0.495) < 0.01);
    CHECK(std::abs(share(network.weights, network.whole_weights) - 0.85) < 0.01);

    // By rows; its image of codes takes 27,648 bytes of the arena. docs/rows.md states these.
    for (const auto& [backend, most] :
         {std::pair{"scalar", 40704}, std::pair{"dsp", 44352}, std::pair{"helium", 44288}}) {
        INFO(backend);
        const kernels::KernelTable to = deploy::describe_kernels(table, backend);
        const auto rows = deploy::pack_program(imported.program->program(), table, to, {program::RowMode::memory});
        CHECK(deploy::header_program(rows->program(), to, {}).program.arena_size <= most);
    }

    std::mt19937 random(2);
    index_t differing = 0;
    std::size_t changing = 0;
    Tensor before;
    for (index_t done = 0; done < image_count(); done += 100) {
        const Tensor x = images(100, random);
        const Tensor given = imported.program->run(x), expected = imported.whole->run(x);
        REQUIRE(given.bytes() == expected.bytes());
        differing += std::memcmp(given.data(), expected.data(), static_cast<std::size_t>(given.bytes())) != 0;
        const auto codes = given.flat<std::int8_t>();
        for (std::size_t i = 1; i < codes.size(); ++i) changing += codes[i] != codes[0];
    }
    CHECK(differing == 0);
    CHECK(changing > 0);  // the outputs say something
}

TEST_CASE("An ordinary layer that is left with one input and one output counts with all that it had") {
    // Images of 2 channels and 4x4 pixels; all layers are 1x1. Of `a` one of 8 channels changes, and of `b` one of 4.
    test::TfliteChain chain({1, 4, 4, 2});
    std::vector<std::int32_t> below_a(8, -255 * 5 * 2 - 1), below_b(4, -255 * 20 * 8 - 1);
    below_a.back() = below_b.back() = 0;
    chain.conv("a", 8, 1, 1, false, std::vector<std::int8_t>(16, 5), below_a, 0.01f);
    chain.conv("b", 4, 1, 1, false, std::vector<std::int8_t>(32, 20), below_b, 0.01f);
    chain.conv("c", 2, 1, 1, false, std::vector<std::int8_t>(8, 11), {1, 2}, 0.01f);
    const auto imported = interop::tflite::import_program(interop::tflite::parse_model(chain.file(), "narrow"),
                                                          program::best_table<target::litert>());
    const program::DroppedWork work = program::dropped_work(imported.program->program());
    CHECK(work.weight_bytes == 2 + 1 + 2);
    CHECK(work.multiplications == 16 * (2 + 1 + 2));
    CHECK(work.whole_weight_bytes == 2 * 8 + 8 * 4 + 4 * 2);
    CHECK(work.whole_multiplications == 16 * (2 * 8 + 8 * 4 + 4 * 2));
}
