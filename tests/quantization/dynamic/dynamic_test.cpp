// SPDX-License-Identifier: MIT
//
// Dynamic quantization against PyTorch's numbers (golden/dynamic.json), and what it does to a model;
// weight-only quantization.
#include "intq/arith/dynamic_qparams.hpp"
#include "intq/nn.hpp"
#include "intq/nn/model/container.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "intq/quantization/dynamic/dynamic_modules.hpp"
#include "intq/quantization/dynamic/quantize_dynamic.hpp"
#include "intq/quantization/dynamic/weight_only.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/golden_tensor.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;
using nlohmann::json;
using test::golden_tensor;

namespace {

nn::ModulePtr layer_of(const json& stored) {
    const json& o = stored.at("options");
    nn::ModulePtr layer;
    if (stored.at("kind") == "linear")
        layer =
            std::make_shared<nn::Linear>(nn::LinearOptions{o.at("in_features"), o.at("out_features"), o.at("bias")});
    else
        layer = std::make_shared<nn::LSTM>(nn::LSTMOptions{o.at("input_size"), o.at("hidden_size"), o.at("num_layers"),
                                                           o.at("bias"), o.at("batch_first"), o.at("bidirectional")});
    nn::StateDict state;
    for (const auto& [name, value] : stored.at("parameters").items()) state.push_back({name, golden_tensor(value)});
    nn::load_state_dict(*layer, state);
    return layer;
}

// The tensors of a value, tuples opened.
std::vector<Tensor> flat(const nn::Value& value) {
    if (value.is_tensor()) return {value.tensor()};
    std::vector<Tensor> all;
    for (const nn::Value& item : value.tuple())
        for (const Tensor& tensor : flat(item)) all.push_back(tensor);
    return all;
}

std::vector<Tensor> run(nn::Module& layer, const std::vector<Tensor>& inputs) {
    if (inputs.size() == 1) return flat(layer(inputs[0]));
    return flat(layer(inputs[0], nn::Value::Tuple{inputs[1], inputs[2]}));
}

double largest_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        largest = std::max(largest, static_cast<double>(test::largest_difference(a[i], b[i])));
    return largest;
}

}  // namespace

TEST_CASE("Scale and zero point of a range are PyTorch's dynamic ones, to the bit") {
    int seen = 0;
    for (const json& stored : test::golden_cases("dynamic")) {
        if (stored.at("kind") != "range") continue;
        const auto x = test::golden_floats(stored.at("x"));
        CAPTURE(stored.dump());
        const auto pair = arith::dynamic_qparams(x[0], x[1], stored.at("reduce_range") ? 127 : 255);
        REQUIRE(pair.status().ok());
        CHECK(test::same_bits(pair->scale, test::golden_float(stored.at("scale"))));
        CHECK(pair->zero_point == stored.at("zero_point").get<int>());
        ++seen;
    }
    CHECK(seen == 150);
    const float infinity = std::numeric_limits<float>::infinity();
    CHECK(arith::dynamic_qparams(0, infinity, 255).status().code == StatusCode::not_finite);
    CHECK(arith::dynamic_qparams(NAN, 1, 255).status().code == StatusCode::not_finite);
    CHECK(arith::dynamic_qparams(2, 1, 255).status().code == StatusCode::value_out_of_range);
}

TEST_CASE("Dynamic Linear and LSTM give PyTorch's outputs within 1e-5") {
    std::map<std::string, int> seen;
    double worst = 0, float_nearest = 1e9;
    for (const json& stored : test::golden_cases("dynamic")) {
        const std::string kind = stored.at("kind");
        if (kind == "range") continue;
        const nn::ModulePtr layer = layer_of(stored);
        layer->eval();
        std::vector<Tensor> inputs, expected;
        for (const json& x : stored.at("inputs")) inputs.push_back(golden_tensor(x));
        for (const json& y : stored.at("outputs")) expected.push_back(golden_tensor(y));
        QuantizeDynamicOptions options;
        options.qconfig_spec[layer->type_name()] = DynamicQConfig{stored.at("per_channel"), stored.at("reduce_range")};
        const nn::ModulePtr quantized = quantize_dynamic(layer, options);
        REQUIRE(quantized->type_name() == "dynamic." + layer->type_name());
        CAPTURE(kind, stored.at("engine"), stored.at("options").dump(), stored.at("per_channel"));
        const double difference = largest_difference(run(*quantized, inputs), expected);
        CHECK(difference < 1e-5);
        worst = std::max(worst, difference);
        // What the numbers would be without quantization is far from them: the bound tells the two apart.
        float_nearest = std::min(float_nearest, largest_difference(run(*layer, inputs), expected));
        ++seen[kind];
    }
    CHECK(seen["linear"] == 11);
    CHECK(seen["lstm"] == 9);
    CHECK(float_nearest > 1e-3);
    std::printf("dynamic against PyTorch: largest difference %.2g; of the float layers at least %.2g\n", worst,
                float_nearest);
}

TEST_CASE("The narrow range and the scale of each channel change the numbers") {
    const auto linear = test::make_linear(24, 10, 3);
    const Tensor x = test::random_tensor(Shape(6, 24), 4);
    const Tensor narrow = DynamicLinear(*linear, {})(x).tensor();
    const Tensor wide = DynamicLinear(*linear, {false, false})(x).tensor();
    const Tensor channels = DynamicLinear(*linear, {true, true})(x).tensor();
    const Tensor exact = (*linear)(x).tensor();
    CHECK(test::largest_difference(narrow, wide) > 1e-4f);
    CHECK(test::largest_difference(narrow, channels) > 1e-4f);
    CHECK(test::largest_difference(wide, exact) < 0.1f);
    CHECK(test::largest_difference(channels, exact) < 0.2f);
}

TEST_CASE("quantize_dynamic replaces the layers that the specification names, by type and by name") {
    const auto model = std::make_shared<nn::Sequential>();
    const auto shared = test::make_linear(4, 4, 1);
    model->append("first", shared);
    model->append("block", std::make_shared<nn::Sequential>(std::initializer_list<nn::ModulePtr>{
                               test::make_linear(4, 4, 2), std::make_shared<nn::ReLU>(), shared}));
    model->append("last", test::make_linear(4, 3, 3));
    model->eval();
    const auto types = [](const nn::ModulePtr& m) {
        std::string text;
        for (const char* name : {"first", "block.0", "block.2", "last"}) text += m->find(name).type_name() + " ";
        return text;
    };
    QuantizeDynamicOptions options;
    CHECK(types(quantize_dynamic(model)) == "dynamic.Linear dynamic.Linear dynamic.Linear dynamic.Linear ");
    CHECK(types(model) == "Linear Linear Linear Linear ");
    options.qconfig_spec = {{"Linear", DynamicQConfig{}}, {"last", std::nullopt}};
    CHECK(types(quantize_dynamic(model, options)) == "dynamic.Linear dynamic.Linear dynamic.Linear Linear ");
    options.qconfig_spec = {{"block", DynamicQConfig{}}, {"block.0", std::nullopt}};
    const nn::ModulePtr by_name = quantize_dynamic(model, options);
    CHECK(types(by_name) == "Linear Linear Linear Linear ");  // the shared layer has its first name
    options.qconfig_spec = {{"first", DynamicQConfig{}}};
    const nn::ModulePtr both = quantize_dynamic(model, options);
    CHECK(types(both) == "dynamic.Linear Linear dynamic.Linear Linear ");
    CHECK(both->find_child("first") == both->find_child("block.2"));

    options.qconfig_spec = {{"blok", DynamicQConfig{}}};
    CHECK(test::message_of<Error>([&] {
              quantize_dynamic(model, options);
          }).find("quantize_dynamic: no module has the name or type \"blok\"; the nearest are") == 0);
    options.qconfig_spec = {{"blok", DynamicQConfig{}}, {"Linear", DynamicQConfig{}}};
    options.inplace = true;
    CHECK_THROWS_AS(quantize_dynamic(model, options), Error);
    CHECK(types(model) == "Linear Linear Linear Linear ");

    options = {};
    options.inplace = true;
    CHECK(quantize_dynamic(model, options) == model);
    CHECK(types(model) == "dynamic.Linear dynamic.Linear dynamic.Linear dynamic.Linear ");
}

TEST_CASE("A dynamic layer's codes and scales travel in its state dictionary") {
    const nn::LSTMOptions options{3, 5, 2, true, false, true};
    auto lstm = std::make_shared<nn::LSTM>(options), other = std::make_shared<nn::LSTM>(options);
    unsigned seed = 7;
    for (auto& parameter : lstm->parameters()) parameter.value = test::random_tensor(parameter.value.shape(), seed++);
    for (auto& parameter : other->parameters()) parameter.value = test::random_tensor(parameter.value.shape(), seed++);
    DynamicLSTM from(*lstm, {}), to(*other, {});
    const Tensor x = test::random_tensor(Shape(4, 2, 3), 5);
    const auto expected = flat(from(x));
    REQUIRE(largest_difference(flat(to(x)), expected) > 0.01);
    const nn::StateDict state = nn::state_dict(from);
    CHECK(state.size() == 4 * (2 + 2 + 2));
    nn::load_state_dict(to, state);
    CHECK(largest_difference(flat(to(x)), expected) == 0);
    CHECK(largest_difference(flat((*nn::clone(from))(x)), expected) == 0);
    CHECK(from.named_parameters().empty());
}

TEST_CASE("A dynamic layer and its clone have biases of their own") {
    const auto linear = test::make_linear(4, 3, 1);
    DynamicLinear dynamic(*linear, {});
    const nn::ModulePtr copy = nn::clone(dynamic);
    const Tensor x = test::random_tensor(Shape(2, 4), 5);
    const Tensor before = (*copy)(x).tensor();
    nn::StateDict state = nn::state_dict(dynamic);
    for (auto& item : state)
        if (item.name == "bias") item.value = test::random_tensor(item.value.shape(), 77);
    nn::load_state_dict(dynamic, state);
    CHECK(test::largest_difference(dynamic(x).tensor(), before) > 1e-3);
    CHECK(test::largest_difference((*copy)(x).tensor(), before) == 0);
}

TEST_CASE("A state dictionary that a dynamic layer cannot pack changes nothing in the model") {
    const auto model = std::make_shared<nn::Sequential>(
        std::initializer_list<nn::ModulePtr>{test::make_linear(4, 3, 1), test::make_linear(3, 2, 2)});
    const nn::ModulePtr dynamic = quantize_dynamic(model), other = quantize_dynamic(nn::clone(*model));
    const Tensor x = test::random_tensor(Shape(2, 4), 5), before = (*dynamic)(x).tensor();
    const nn::StateDict former = nn::state_dict(*dynamic);
    for (const float scale : {0.0f, NAN}) {
        nn::StateDict state = nn::state_dict(*other);
        for (auto& item : state) {
            if (item.name == "0.bias") item.value = test::random_tensor(item.value.shape(), 77);
            if (item.name == "1.weight_scale") item.value.flat<float>()[0] = scale;
        }
        const Tensor shared = *dynamic->find_tensor("0.bias");
        CHECK_THROWS_AS(nn::load_state_dict(*dynamic, state), Error);
        CHECK(dynamic->find_tensor("0.bias")->shares_buffer_with(shared));
        const nn::StateDict now = nn::state_dict(*dynamic);
        REQUIRE(now.size() == former.size());
        for (std::size_t i = 0; i < now.size(); ++i) {
            CAPTURE(now[i].name);
            REQUIRE(now[i].value.bytes() == former[i].value.bytes());
            CHECK(std::memcmp(now[i].value.data(), former[i].value.data(),
                              static_cast<std::size_t>(now[i].value.bytes())) == 0);
        }
        CHECK(test::largest_difference((*dynamic)(x).tensor(), before) == 0);
    }
}

TEST_CASE("A dynamic layer says what it cannot take") {
    const auto linear = test::make_linear(4, 3, 1);
    DynamicLinear dynamic(*linear, {});
    Tensor x = Tensor::full(Shape(2, 4), 1.0f);
    x.flat<float>()[5] = NAN;
    CHECK(test::message_of<Error>([&] { dynamic(x); }).find("dynamic quantization of a tensor (2, 4)") == 0);
    CHECK(test::message_of<Error>([&] { dynamic(Tensor::zeros(Shape(2, 5))); }) ==
          "linear: the input (2, 5) does not end in 4 features");
    CHECK(dynamic(Tensor::zeros(Shape(0, 4))).tensor().shape() == Shape(0, 3));
    // A relu inside stays inside.
    const nn::FusedLinear fused(*linear, {false, Activation::relu});
    const Tensor y = test::random_tensor(Shape(3, 4), 2);
    const nn::ModulePtr with_relu = quantize_dynamic(std::make_shared<nn::FusedLinear>(fused));
    CHECK(with_relu->type_name() == "dynamic.LinearReLU");
    CHECK(test::largest_difference((*with_relu)(y).tensor(), nn::relu(dynamic(y)).tensor()) == 0);
}

TEST_CASE("A weight-only layer computes in float with the weight that its codes stand for") {
    const auto check = [](const std::shared_ptr<nn::Weighted>& layer, const Tensor& x, const std::string& type) {
        CAPTURE(type);
        const nn::ModulePtr quantized = quantize_weight_only(layer);
        REQUIRE(quantized->type_name() == type);
        // The oracle: each output channel rounded to the grid of its largest magnitude, by hand.
        const int axis = layer->weight_channel_axis();
        Tensor weight = layer->weight().clone();
        const index_t channels = weight.extent(axis),
                      inner = axis == 0 ? weight.size() / channels : weight.size() / channels / weight.extent(0);
        const auto values = weight.flat<float>();
        std::vector<float> largest(static_cast<std::size_t>(channels));
        const auto channel_of = [&](std::size_t i) {
            return static_cast<std::size_t>(static_cast<index_t>(i) / inner % channels);
        };
        for (std::size_t i = 0; i < values.size(); ++i)
            largest[channel_of(i)] = std::max(largest[channel_of(i)], std::abs(values[i]));
        for (std::size_t i = 0; i < values.size(); ++i) {
            const float scale = largest[channel_of(i)] / 127.5f;
            values[i] = std::clamp(std::nearbyint(values[i] * (1 / scale)), -128.0f, 127.0f) * scale;
        }
        const auto rounded = std::dynamic_pointer_cast<nn::Weighted>(nn::clone(*layer));
        rounded->set_weight(weight);
        const Tensor y = (*quantized)(x).tensor();
        CHECK(test::largest_difference(y, (*rounded)(x).tensor()) == 0);
        CHECK(test::largest_difference(y, (*layer)(x).tensor()) > 1e-4f);
        CHECK(test::largest_difference((*nn::clone(*quantized))(x).tensor(), y) == 0);
        CHECK(quantize_weight_only(quantized)->type_name() == type);
    };
    const Tensor image = test::random_tensor(Shape(2, 6, 5, 5), 1);
    check(test::make_linear(6, 4, 2), test::random_tensor(Shape(3, 6), 3), "weight_only.Linear");
    check(test::make_conv(6, 4, 3, 4), image, "weight_only.Conv2d");
    check(std::make_shared<nn::FusedConv2d>(*test::make_conv(6, 6, 3, 4, 1, 3), nn::Fusion{false, Activation::relu}),
          image, "weight_only.ConvReLU2d");
    auto up = std::make_shared<nn::ConvTranspose2d>(nn::ConvTranspose2dOptions{6, 4, nn::square_window(3), {0, 0}, 2});
    up->set_weight(test::random_tensor(up->weight().shape(), 5));
    check(up, image, "weight_only.ConvTranspose2d");
}

TEST_CASE("A weight-only embedding gives the rows of its codes; a specification names what is quantized") {
    auto table = std::make_shared<nn::Embedding>(nn::EmbeddingOptions{7, 5});
    table->tensor("weight") = test::random_tensor(Shape(7, 5), 3);
    nn::ModulePtr model = std::make_shared<nn::Sequential>(
        std::initializer_list<nn::ModulePtr>{table, test::make_linear(5, 4, 1), test::make_linear(4, 3, 2)});
    model->eval();
    const Tensor ids = Tensor::from(Shape(2, 2), std::vector<std::int64_t>{6, 0, 3, 6});
    const nn::ModulePtr codes = quantize_weight_only(model->child("0"));
    const Tensor y = (*codes)(ids).tensor(), exact = (*table)(ids).tensor();
    CHECK(y.shape() == Shape(2, 2, 5));
    CHECK(test::largest_difference(y, exact) > 0);
    CHECK(test::largest_difference(y, exact) < 3.5 / 127);
    CHECK(test::message_of<Error>([&] { (*codes)(Tensor::from(Shape(1), std::vector<std::int64_t>{7})); }) ==
          "embedding: the id 7 is not in [0, 7)");

    WeightOnlyOptions options;
    options.spec = {{"Linear", true}, {"2", false}};
    const nn::ModulePtr some = quantize_weight_only(model, options);
    CHECK(some->child("0")->type_name() == "Embedding");
    CHECK(some->child("1")->type_name() == "weight_only.Linear");
    CHECK(some->child("2")->type_name() == "Linear");
    index_t bytes = 0, before = 0;
    for (const auto& item : nn::state_dict(*quantize_weight_only(model))) bytes += item.value.bytes();
    for (const auto& item : nn::state_dict(*model)) before += item.value.bytes();
    CHECK(before == 4 * (35 + 24 + 15));
    CHECK(bytes == 35 + 4 * 7 + (20 + 4 * 4 + 4 * 4) + (12 + 4 * 3 + 4 * 3));
    options.spec = {{"Conv2d", true}};
    CHECK(test::message_of<Error>([&] {
              quantize_weight_only(model, options);
          }).find("quantize_weight_only: no module has the name or type \"Conv2d\"") == 0);
    options.spec = {{"Conv2d", true}, {"Linear", true}};
    options.inplace = true;
    CHECK_THROWS_AS(quantize_weight_only(model, options), Error);
    CHECK(model->child("1")->type_name() == "Linear");
}
