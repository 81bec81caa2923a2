// SPDX-License-Identifier: MIT
//
// Networks of random weights as programs for target::litert: every layer gives the bytes of LiteRT's reference kernels.
// golden/litert_networks.json is stored; the environment variable INTQ_LITERT_NETWORKS names another file of the same
// script (golden/make_litert_networks.py), which interop/litert_networks makes where LiteRT is installed.
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/conv.hpp"
#include "intq/quantization/operators/elementwise.hpp"
#include "intq/quantization/operators/move.hpp"
#include "intq/quantization/operators/pool.hpp"
#include "intq/quantization/operators/quantize.hpp"
#include "intq/quantization/operators/resize.hpp"
#include "intq/quantization/operators/softmax.hpp"
#include "intq/quantization/operators/unary.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using namespace intq::quantization;
using nlohmann::json;

constexpr std::size_t litert = 6;  // in the order of kernels::AllTargets

std::vector<std::int8_t> bytes_of(const json& text) {
    const std::string digits = text;
    std::vector<std::int8_t> bytes;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
        bytes.push_back(static_cast<std::int8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    return bytes;
}

float scale_of(const json& bits) { return std::bit_cast<float>(bits.get<std::uint32_t>()); }

DType dtype_of_word(const std::string& word) {
    for (const DType dtype : {DType::int8, DType::int16})
        if (word == name_of(dtype)) return dtype;
    throw std::runtime_error("no codes have the type " + word);
}

/// NHWC or (N, features) in the logical order.
Shape shape_of(const json& extents) {
    const auto e = extents.get<std::vector<index_t>>();
    return e.size() == 4 ? Shape(e[0], e[3], e[1], e[2]) : Shape(e.at(0), e.at(1));
}

OwnedQParams qparams_of(const json& value) {
    OwnedQParams qparams = OwnedQParams::per_tensor(scale_of(value.at("scale")), dtype_of_word(value.at("dtype")));
    qparams.zero_points = {value.at("zero_point").get<std::int32_t>()};
    return qparams;
}

Activation activation_of(const json& layer) {
    const std::string word = layer.value("activation", "none");
    return word == "relu" ? Activation::relu : word == "relu6" ? Activation::relu6 : Activation::none;
}

Window2d window_of(const json& window) {
    const auto k = window.at("kernel").get<std::vector<index_t>>(), s = window.at("stride").get<std::vector<index_t>>(),
               p = window.at("padding").get<std::vector<index_t>>();
    return {{k[0], k[1]}, {s[0], s[1]}, {p[0], p[1], p[2], p[3]}, {1, 1}};
}

/// (O, H, W, I) as (O, I, H, W). A depthwise weight, (1, H, W, C), is that of C filters.
intq::Tensor weight_of(const json& layer, bool is_depthwise) {
    const auto from = bytes_of(layer.at("weight"));
    const auto e = layer.at("weight_shape").get<std::vector<index_t>>();
    const index_t outputs = is_depthwise ? e[3] : e[0], inputs = is_depthwise ? 1 : e[3];
    intq::Tensor weight = intq::Tensor::empty(Shape(outputs, inputs, e[1], e[2]), DType::int8);
    const auto to = weight.flat<std::int8_t>();
    std::size_t at = 0;
    for (index_t o = 0; o < outputs; ++o)
        for (index_t i = 0; i < inputs; ++i)
            for (index_t pixel = 0; pixel < e[1] * e[2]; ++pixel)
                to[at++] = from[static_cast<std::size_t>(is_depthwise ? pixel * outputs + o
                                                                      : (o * e[1] * e[2] + pixel) * inputs + i)];
    return weight;
}

ConvLayer conv_of(const json& layer, const std::string& op) {
    ConvLayer conv;
    conv.op = op == "linear" ? OpKind::linear : OpKind::conv2d;
    conv.window = window_of(layer.at("window"));
    conv.weight = weight_of(layer, op == "depthwise");
    conv.groups = op == "depthwise" ? conv.out_channels() : 1;
    std::vector<float> scales;
    for (const json& bits : layer.at("weight_scales")) scales.push_back(scale_of(bits));
    conv.weight_qparams = scales.size() == 1 ? OwnedQParams::per_tensor(scales[0], DType::int8)
                                             : OwnedQParams::per_channel(scales, 0, DType::int8);
    conv.given.bias = layer.at("bias").get<std::vector<std::int64_t>>();
    conv.output = qparams_of(layer.at("output"));
    conv.activation = activation_of(layer);
    return conv;
}

std::int32_t add_layer(program::ProgramBuilder& builder, const json& layer, const std::vector<std::int32_t>& inputs,
                       const program::LayerName& name) {
    const std::string op = layer.at("op");
    const OwnedQParams output = qparams_of(layer.at("output"));
    const std::int32_t x = inputs.at(0);
    if (op == "conv2d" || op == "depthwise" || op == "linear")
        return add_conv(builder, x, std::nullopt, conv_of(layer, op), name);
    if (op == "add" || op == "sub")
        return add_sum(builder, op == "add" ? OpKind::add : OpKind::sub, x, inputs.at(1), output, activation_of(layer),
                       name);
    if (op == "mul") return add_mul(builder, x, inputs.at(1), output, name);
    if (op == "max_pool") return add_max_pool(builder, x, window_of(layer.at("window")), name);
    if (op == "avg_pool")
        return add_avg_pool(builder, x, window_of(layer.at("window")), PoolDivisor::valid_cells, output, name);
    if (op == "requantize") return add_requantize(builder, x, output, name);
    if (op == "cat") return add_cat(builder, inputs, 1, output, name);
    if (op == "relu" || op == "relu6")
        return add_clamp(builder, x,
                         program::ProgramBuilder::output_codes(builder.at(x).qparams,
                                                               op == "relu" ? Activation::relu : Activation::relu6),
                         name);
    if (op == "sigmoid") return add_look_up(builder, x, {TableFunction::sigmoid}, output, name);
    if (op == "tanh") return add_look_up(builder, x, {TableFunction::tanh}, output, name);
    if (op == "softmax") return add_softmax(builder, x, 1, output, name);
    REQUIRE(op == "pad");
    const auto p = layer.at("padding").get<std::vector<index_t>>();
    return add_pad(builder, x, {{p[0], p[1], p[2], p[3]}, {1, 1}, output.zero_points[0]}, name);
}

/// The bytes of every instruction's output, by the name of its layer.
using Bytes = std::map<std::string, std::vector<std::int8_t>>;

Bytes run_network(const json& network, const kernels::KernelTable& table) {
    const json& input = network.at("input");
    const Shape shape = shape_of(input.at("shape"));
    const DType dtype = dtype_of_word(input.at("dtype"));
    program::ProgramBuilder builder(table, shape[0]);
    const Shape per_image = shape.rank == 4 ? Shape(shape[1], shape[2], shape[3]) : Shape(shape[1]);
    std::vector<std::int32_t> values{builder.code_input(per_image, dtype, qparams_of(input), "input")};
    std::set<std::int32_t> unread;
    for (const json& layer : network.at("layers")) {
        std::vector<std::int32_t> inputs;
        for (const json& i : layer.at("inputs")) inputs.push_back(values.at(i.get<std::size_t>()));
        const std::string name = "layer" + std::to_string(values.size());
        values.push_back(add_layer(builder, layer, inputs, {name, layer.at("op")}));
        for (const std::int32_t read : inputs) unread.erase(read);
        unread.insert(values.back());
    }
    const auto program = builder.finish({unread.begin(), unread.end()});

    intq::Tensor x = intq::Tensor::empty(shape, dtype, shape.rank == 4 ? Layout::channels_last : Layout::row_major);
    const auto codes = bytes_of(input.at("codes"));
    REQUIRE(codes.size() == static_cast<std::size_t>(x.bytes()));
    std::memcpy(x.data(), codes.data(), codes.size());
    Bytes bytes;
    const auto keep = [](void* context, const runtime::Program& p, index_t index, const void* output, index_t batch) {
        const runtime::Instruction& instruction = p.instructions[static_cast<std::size_t>(index)];
        const runtime::ProgramTensor& y = p.tensor(instruction.output);
        const auto* const from = static_cast<const std::int8_t*>(output);
        (*static_cast<Bytes*>(context))[instruction.name].assign(
            from, from + y.elements_per_image() * batch * size_of(y.dtype));
    };
    program->run(std::span<const intq::Tensor>(&x, 1), serial, {keep, &bytes});
    return bytes;
}

struct Count {
    std::size_t networks = 0, codes = 0, differ = 0;
    std::set<std::string> operators;  // with the type of their input
};

/// All networks of a file on all usable backends.
Count compare(const std::string& path) {
    std::ifstream file(path);
    INFO(path);
    REQUIRE(file.good());
    const json all = json::parse(file);
    Count count;
    for (const test::BackendTables& backend : test::usable_backend_tables())
        for (const json& network : all.at("networks")) {
            const std::string name = network.at("name");
            const Bytes given = run_network(network, *backend.tables[litert]);
            std::size_t index = 0;
            for (const json& layer : network.at("layers")) {
                const std::string op = layer.at("op"), type = layer.at("output").at("dtype");
                const auto expected = bytes_of(layer.at("codes"));
                const auto& found = given.at("layer" + std::to_string(++index));
                INFO(backend.name << ": " << name << ", layer " << index << " (" << op << ")");
                REQUIRE(found.size() == expected.size());
                const bool same = found == expected;
                CHECK(same);
                count.differ += same ? 0 : 1;
                count.codes += expected.size();
                count.operators.insert(op + " " + type);
            }
            ++count.networks;
        }
    WARN(path << ", LiteRT " << all.at("litert").get<std::string>() << ": " << count.networks << " programs, "
              << count.codes << " bytes, " << count.differ << " layers differ");
    return count;
}

}  // namespace

TEST_CASE("Stored networks give the bytes of LiteRT's reference kernels, layer by layer, on every backend") {
    const Count count = compare(std::string(INTQ_TESTS_DIR) + "/golden/litert_networks.json");
    CHECK(count.networks >= 11 * static_cast<std::size_t>(test::least_backends()));
    CHECK(count.differ == 0);
    for (const char* op :
         {"conv2d int8",     "depthwise int8", "linear int8",   "softmax int8",  "softmax int16",   "add int8",
          "sub int8",        "mul int8",       "max_pool int8", "avg_pool int8", "requantize int8", "cat int8",
          "pad int8",        "relu int8",      "relu6 int8",    "sigmoid int8",  "tanh int8",       "conv2d int16",
          "depthwise int16", "linear int16",   "add int16",     "mul int16"})
        CHECK(count.operators.count(op) == 1);
}

TEST_CASE("Networks that LiteRT was asked about now give its bytes") {
    const char* const path = std::getenv("INTQ_LITERT_NETWORKS");
    if (path == nullptr) SUCCEED("interop/litert_networks names such networks");
    if (path == nullptr) return;
    const Count count = compare(path);
    CHECK(count.networks >= 11);
    CHECK(count.differ == 0);
}

TEST_CASE("A linear layer of litert in other words than binary64 gives other codes") {
    // The stored networks see the difference: double rounding fails them.
    std::ifstream file(std::string(INTQ_TESTS_DIR) + "/golden/litert_networks.json");
    const json all = json::parse(file);
    std::size_t differ = 0;
    for (const json& network : all.at("networks")) {
        const Bytes given = run_network(network, *test::scalar_tables().tables[1]);
        std::size_t index = 0;
        for (const json& layer : network.at("layers"))
            differ += given.at("layer" + std::to_string(++index)) != bytes_of(layer.at("codes")) ? 1 : 0;
    }
    CHECK(differ > 0);
}
