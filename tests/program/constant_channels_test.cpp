// SPDX-License-Identifier: MIT
//
// Programs without their constant channels: the bytes of the whole program, and exactly the channels that may go.
#include "intq/program/constant_channels.hpp"

#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "program/dropped_network.hpp"

using namespace intq;
using namespace intq::test;

namespace {

const arith::PolicyRecord& fp32() { return scalar_table("fp32").policy(); }

Window2d window(Size2d kernel, index_t stride, const Padding2d& padding) {
    return {kernel, {stride, stride}, padding, {1, 1}};
}
Window2d three_by_three(index_t stride) { return window({3, 3}, stride, {1, 1, 1, 1}); }

/// The layers of a network, with a ReLU behind each, except behind linear layers. No bias is negative: nine negative
/// weights below a negative bias would give a constant.
Network with_relus(Network network) {
    for (NetworkLayer& layer : network.layers) {
        layer.lowest = lowest_code(network.dtype), layer.highest = highest_code(network.dtype);
        if (layer.op == OpKind::conv2d || layer.op == OpKind::add)
            layer.lowest = network.tensor(layer.output).zero_point();
        for (std::int64_t& bias : layer.bias) bias = std::abs(bias);
    }
    return network;
}

/// ResNet-8 of MLPerf Tiny, on images of 32 x 32.
Network resnet_8(const Case& of) {
    NetworkMaker maker(scalar_table(of.target).policy(), of.dtype, 8);
    int x = maker.conv(maker.input(3, {32, 32}), 16, three_by_three(1));
    for (const index_t channels : {index_t{16}, index_t{32}, index_t{64}}) {
        const index_t stride = channels == 16 ? 1 : 2;
        const int y = maker.conv(maker.conv(x, channels, three_by_three(stride)), channels, three_by_three(1));
        const int skip = stride == 1 ? x : maker.conv(x, channels, window({1, 1}, 2, {}));
        x = maker.binary(OpKind::add, y, skip);
    }
    return with_relus(maker.finish({maker.linear(maker.flatten(maker.avg_pool(x, window({8, 8}, 1, {}))), 10)}));
}

/// DS-CNN of MLPerf Tiny, on 49 x 10 numbers.
Network ds_cnn(const Case& of) {
    NetworkMaker maker(scalar_table(of.target).policy(), of.dtype, 9);
    int x = maker.conv(maker.input(1, {49, 10}), 64, window({10, 4}, 2, {4, 1, 5, 1}));
    for (int block = 0; block < 4; ++block)
        x = maker.conv(maker.conv(x, 64, three_by_three(1), 64), 64, window({1, 1}, 1, {}));
    const Size2d size = maker.at(x).size;
    return with_relus(maker.finish({maker.linear(maker.flatten(maker.avg_pool(x, window(size, 1, {}))), 12)}));
}

/// The tensors of a run as they lie in the arena.
struct RawOutputs {
    std::map<std::int32_t, intq::Tensor> tensors;

    static void keep(void* context, const runtime::Program& program, index_t instruction, const void* output,
                     index_t batch) {
        const std::int32_t number = program.instructions[static_cast<std::size_t>(instruction)].output;
        const runtime::ProgramTensor& y = program.tensor(number);
        Shape shape = y.shape;
        shape[0] = batch;
        intq::Tensor copy = intq::Tensor::empty(shape, y.dtype, y.layout);
        std::memcpy(copy.data(), output, static_cast<std::size_t>(copy.bytes()));
        static_cast<RawOutputs*>(context)->tensors[number] = copy;
    }
};

}  // namespace

TEST_CASE("Planted channels go, no others do, and all bytes stay") {
    for (const Case& of : cases_of_dropped_networks) {
        INFO(of.target << ", " << name_of(of.dtype));
        const DroppedCount count = check_dropped_networks(of, 1, 50);
        CHECK(count.networks == 50);
        CHECK(count.untouched < 10);
        CHECK(count.constant >= 500);
        CHECK(count.unread >= 50);
        CHECK(count.copies >= 50);
        CHECK(count.folds >= 50);
        CHECK(count.folds_of_windows >= 5);
        CHECK(count.folds_at_padding >= 20);
        CHECK(count.kept_at_padding >= 20);
        CHECK(count.kept_alone >= 10);
    }
}

TEST_CASE("A small network gives the same bytes for 100000 random images") {
    NetworkMaker maker(fp32(), DType::int8, 3);
    const int x = maker.conv(maker.input(3, {4, 4}), 8, three_by_three(1));
    Network network = maker.finish({maker.linear(maker.conv(x, 6, window({2, 2}, 1, {})), 4)});
    plant(network, {}, 5);
    const DroppedNetwork both(network, cases_of_dropped_networks[0], 500);
    DroppedCount count;
    both.add_to(count);
    REQUIRE(count.folds_of_windows >= 2);
    Dice dice(11);
    for (int round = 0; round < 10; ++round) both.check_outputs(both.inputs(10000, dice));
}

TEST_CASE("A part that leaves the 32 bits of a bias changes no byte") {
    // Sums of int16 codes may leave 32 bits, and a given bias may not.
    const Case of = {"fp32", 0, DType::int16};
    NetworkMaker maker(fp32(), of.dtype, 4);
    const int x = maker.conv(maker.input(2, {3, 3}), 2, window({1, 1}, 1, {}));
    Network network = maker.finish({maker.conv(x, 2, window({1, 1}, 1, {}))});
    NetworkLayer &constant = network.layers[0], &reader = network.layers[1];
    // Channel 0 has the code 1000: the scale of a sum is a tenth of the output's.
    constant.weights = {0, 0, 1, 1};
    constant.weight_scales[0] = 0.1f * network.tensors[1].qparams.scale() / network.tensors[0].qparams.scale();
    constant.bias = {10000, 0};
    constant.lowest = -2000, constant.highest = 2000;
    reader.weights = {3, 1, 3, 1};
    reader.lowest = lowest_code(of.dtype), reader.highest = highest_code(of.dtype);
    network.tensors[2].qparams = OwnedQParams::per_tensor(
        network.tensors[1].qparams.scale() * reader.weight_scales[0] * 100000.0f, DType::int16);
    for (const std::int64_t room : {3001, 3000, 2999, 0}) {
        INFO("room for " << room);
        reader.bias = {INT32_MAX - room, 0};
        const DroppedNetwork both(network, of, 4);
        const auto gone = both.dropped().program->program().dropped;
        if (room >= 3000) REQUIRE(gone.size() == 1);
        if (!gone.empty()) CHECK(gone[0].code == 1000);
        Dice dice(1);
        both.check_runs(10, dice);
    }
}

TEST_CASE("A copy of codes onto another grid changes what the program gives, so it stays") {
    const Case& of = cases_of_dropped_networks[0];
    NetworkMaker maker(fp32(), of.dtype, 4);
    const int x = maker.relu(maker.input(1, {1, 2}));
    Network network = maker.finish({maker.requantize(x)}, true);
    for (NetworkTensor& tensor : network.tensors) tensor.qparams = OwnedQParams::per_tensor(0.05f, of.dtype);
    // Codes 0 and 1 stay 0 and 1, which are 0.06 and no longer 0.05.
    network.tensors[2].qparams.scales = {0.06f};
    network.layers[0].lowest = 0, network.layers[0].highest = 1;
    network.layers[1].lowest = lowest_code(of.dtype), network.layers[1].highest = highest_code(of.dtype);
    const DroppedNetwork both(network, of, 4);
    Dice dice(1);
    both.check_outputs(both.inputs(10, dice));
}

TEST_CASE("A program that has lost channels keeps their list when more is dropped") {
    const Case& of = cases_of_dropped_networks[0];
    const Window2d one = window({1, 1}, 1, {});
    NetworkMaker maker(fp32(), of.dtype, 4);
    const int in = maker.input(2, {2, 2});
    const int x = maker.conv(in, 2, one), e = maker.conv(in, 2, one);
    Network network = maker.finish({maker.conv(maker.relu(maker.cat({x, e})), 3, one)});
    const float scale = network.tensors[0].qparams.scale();
    for (NetworkTensor& tensor : network.tensors) tensor.qparams = OwnedQParams::per_tensor(scale, of.dtype);
    for (NetworkLayer& layer : network.layers)
        layer.lowest = lowest_code(of.dtype), layer.highest = highest_code(of.dtype);
    // x is never negative, and neither is channel 1 of e; channel 0 is -50, and the ReLU acts on nothing else.
    network.layers[0].lowest = 0;
    network.layers[1].weights = {0, 0, 1, 1};
    network.layers[1].weight_scales = {0.2f, 0.2f};
    network.layers[1].bias = {-250, 300};
    network.layers[3].lowest = 0;
    const DroppedNetwork both(network, of, 4);
    REQUIRE(both.dropped().program->program().dropped.size() == 3);
    const auto again = program::drop_constant_channels(both.dropped().program);
    Dice dice(1);
    const std::vector<intq::Tensor> inputs = both.inputs(3, dice);
    program::KeptOutputs kept(again.program->program(), inputs[0].extent(0));
    const auto outputs = again.program->run(inputs, serial, kept.hook());
    CHECK(same_bytes(outputs[0], both.whole().program->run(inputs)[0]));
    const std::int32_t number = again.tensors.at(static_cast<std::size_t>(both.number(e)));
    CHECK(kept.tensor(number).value().shape() == Shape(inputs[0].extent(0), 2, 2, 2));
}

TEST_CASE("A dropped tensor is filled up alike by the function and by KeptOutputs") {
    int filled = 0;
    for (std::uint32_t seed = 1; seed <= 10; ++seed) {
        INFO("seed " << seed);
        Network network = random_network(fp32(), DType::int8, seed);
        plant(network, {}, seed + 1000);
        const DroppedNetwork both(network, cases_of_dropped_networks[0], 32);
        const runtime::Program& program = both.dropped().program->program();
        Dice dice(seed);
        const std::vector<intq::Tensor> inputs = both.inputs(3, dice);
        program::KeptOutputs kept(program, inputs[0].extent(0));
        RawOutputs raw;
        both.dropped().program->run(inputs, serial, kept.hook());
        both.dropped().program->run(inputs, serial, {&RawOutputs::keep, &raw});
        for (const auto& [number, tensor] : raw.tensors) {
            const bool is_whole = program::dropped_of(program, number).empty();
            const intq::Tensor whole = program::with_dropped_channels(program, number, tensor);
            CHECK((whole.shape() == tensor.shape()) == is_whole);
            CHECK(same_bytes(whole, kept.tensor(number).value()));
            filled += is_whole ? 0 : 1;
        }
    }
    CHECK(filled >= 20);
}

TEST_CASE("Networks whose channels all work stay the same object") {
    for (const Case& of : cases_of_dropped_networks)
        for (const Network& network : {resnet_8(of), ds_cnn(of)}) {
            INFO(of.target << ", " << name_of(of.dtype) << ", " << network.layers.size() << " layers");
            const NetworkProgram whole = build(network, scalar_table(of.target), 1);
            const auto dropped = program::drop_constant_channels(whole.program);
            CHECK(dropped.program == whole.program);
            CHECK(dropped.copies.empty());
            CHECK(dropped.program->program().dropped.empty());
            REQUIRE(dropped.tensors.size() == whole.program->program().tensors.size());
            for (std::size_t t = 0; t < dropped.tensors.size(); ++t)
                CHECK(dropped.tensors[t] == static_cast<std::int32_t>(t));
        }
}
