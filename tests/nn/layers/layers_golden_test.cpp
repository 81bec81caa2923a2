// SPDX-License-Identifier: MIT
//
// Layers and functions against PyTorch's numbers (golden/layers.json), a resize against ONNX Runtime's too
// (resize.json).
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "intq/kernels/window/resize_call.hpp"
#include "intq/nn.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/golden_tensor.hpp"
#include "support/small_models.hpp"

using namespace intq;
using intq::Tensor;
using nlohmann::json;
using nn::Value;

namespace {

Value value_of(const json& stored) {
    if (stored.is_array()) {
        Value::Tuple items;
        for (const auto& item : stored) items.push_back(value_of(item));
        return items;
    }
    if (stored.is_boolean()) return stored.get<bool>();
    if (stored.is_number_integer()) return stored.get<std::int64_t>();
    if (stored.is_number()) return stored.get<double>();
    return stored.get<std::string>();
}

Size2d size_of(const json& pair) { return {pair.at(0).get<index_t>(), pair.at(1).get<index_t>()}; }

// The options of a case; one that no reader asked for would be an option that is not tested.
struct Options {
    const json& all;
    mutable std::set<std::string> read{};

    const json& at(const char* name) const {
        read.insert(name);
        return all.at(name);
    }
    index_t integer(const char* name) const { return at(name).get<index_t>(); }
    bool flag(const char* name) const { return at(name).get<bool>(); }
    Value value(const char* name) const {
        read.insert(name);
        return all.contains(name) ? value_of(all.at(name)) : Value();
    }
};

Window2d window_of(const Options& o) {
    const Size2d padding = size_of(o.at("padding"));
    return {size_of(o.at("kernel")),
            size_of(o.at("stride")),
            {padding.height, padding.width, padding.height, padding.width},
            size_of(o.at("dilation"))};
}

// Of three numbers the first, and the window of the others.
nn::DepthWindow depth_of(const Options& o) {
    const auto first = [&](const char* name) { return o.at(name).at(0).get<index_t>(); };
    return {first("kernel"), first("stride"), first("padding"), first("dilation")};
}

Window2d window_behind_depth(const Options& o) {
    const auto others = [&](const char* name) {
        return Size2d{o.at(name).at(1).get<index_t>(), o.at(name).at(2).get<index_t>()};
    };
    const Size2d padding = others("padding");
    return {others("kernel"),
            others("stride"),
            {padding.height, padding.width, padding.height, padding.width},
            others("dilation")};
}

using Inputs = std::vector<Tensor>;
using Make = nn::ModulePtr (*)(const Options&);
using Run = Value (*)(const std::string& name, const Options&, const Inputs&);
using test::golden_tensor;

const std::map<std::string, Make> layers = {
    {"conv1d",
     [](const Options& o) -> nn::ModulePtr {
         return std::make_shared<nn::Conv1d>(nn::Conv1dOptions{
             o.integer("in_channels"), o.integer("out_channels"), o.integer("kernel"), o.integer("stride"),
             o.integer("padding"), o.integer("dilation"), o.integer("groups"), o.flag("bias")});
     }},
    {"conv2d",
     [](const Options& o) -> nn::ModulePtr {
         return std::make_shared<nn::Conv2d>(nn::Conv2dOptions{o.integer("in_channels"), o.integer("out_channels"),
                                                               window_of(o), o.integer("groups"), o.flag("bias")});
     }},
    {"conv_transpose2d",
     [](const Options& o) -> nn::ModulePtr {
         return std::make_shared<nn::ConvTranspose2d>(
             nn::ConvTranspose2dOptions{o.integer("in_channels"), o.integer("out_channels"), window_of(o),
                                        size_of(o.at("output_padding")), o.integer("groups"), o.flag("bias")});
     }},
    {"conv_transpose1d",
     [](const Options& o) -> nn::ModulePtr {
         return std::make_shared<nn::ConvTranspose1d>(
             nn::ConvTranspose1dOptions{o.integer("in_channels"), o.integer("out_channels"), o.integer("kernel"),
                                        o.integer("stride"), o.integer("padding"), o.integer("output_padding"),
                                        o.integer("dilation"), o.integer("groups"), o.flag("bias")});
     }},
    {"conv3d",
     [](const Options& o) -> nn::ModulePtr {
         return std::make_shared<nn::Conv3d>(nn::Conv3dOptions{o.integer("in_channels"), o.integer("out_channels"),
                                                               depth_of(o), window_behind_depth(o), o.integer("groups"),
                                                               o.flag("bias")});
     }},
    {"conv_transpose3d",
     [](const Options& o) -> nn::ModulePtr {
         const json& more = o.at("output_padding");
         return std::make_shared<nn::ConvTranspose3d>(
             nn::ConvTranspose3dOptions{o.integer("in_channels"),
                                        o.integer("out_channels"),
                                        depth_of(o),
                                        window_behind_depth(o),
                                        more.at(0).get<index_t>(),
                                        {more.at(1).get<index_t>(), more.at(2).get<index_t>()},
                                        o.integer("groups"),
                                        o.flag("bias")});
     }},
    {"batch_norm3d",
     [](const Options& o) -> nn::ModulePtr {
         return std::make_shared<nn::BatchNorm3d>(
             nn::BatchNormOptions{o.integer("num_features"), o.at("eps").get<double>()});
     }},
    {"layer_norm",
     [](const Options& o) -> nn::ModulePtr {
         return std::make_shared<nn::LayerNorm>(test::golden_shape(o.at("normalized_shape")),
                                                o.at("eps").get<double>());
     }},
    {"embedding",
     [](const Options& o) -> nn::ModulePtr {
         return std::make_shared<nn::Embedding>(
             nn::EmbeddingOptions{o.integer("num_embeddings"), o.integer("embedding_dim")});
     }},
    {"lstm",
     [](const Options& o) -> nn::ModulePtr {
         return std::make_shared<nn::LSTM>(nn::LSTMOptions{o.integer("input_size"), o.integer("hidden_size"),
                                                           o.integer("num_layers"), o.flag("bias"),
                                                           o.flag("batch_first"), o.flag("bidirectional")});
     }},
};

Value run_unary(const std::string& name, const Options& o, const Inputs& x) {
    static const std::map<std::string, Value (*)(const Value&)> functions = {{"sigmoid", nn::sigmoid},
                                                                             {"tanh", nn::tanh},
                                                                             {"hardsigmoid", nn::hardsigmoid},
                                                                             {"hardswish", nn::hardswish},
                                                                             {"hardtanh", nn::hardtanh},
                                                                             {"silu", nn::silu},
                                                                             {"exp", nn::exp},
                                                                             {"log", nn::log},
                                                                             {"sqrt", nn::sqrt},
                                                                             {"rsqrt", nn::rsqrt},
                                                                             {"reciprocal", nn::reciprocal}};
    if (name == "leaky_relu") return nn::leaky_relu(x[0], o.at("parameter").get<double>());
    if (name == "elu") return nn::elu(x[0], o.at("parameter").get<double>());
    if (name == "gelu") return nn::gelu(x[0], o.at("approximate").get<std::string>());
    return functions.at(name)(x[0]);
}

Value run_binary(const std::string& name, const Options&, const Inputs& x) {
    if (name == "matmul") return nn::matmul(x[0], x[1]);
    const Value a(x[0]), b(x[1]);
    return name == "add" ? a + b : name == "sub" ? a - b : a * b;
}

Value run_scalar(const std::string& name, const Options& o, const Inputs& x) {
    const Value a(x[0]), b(o.at("scalar").get<double>());
    return name == "add" ? a + b : name == "sub" ? a - b : name == "mul" ? a * b : b - a;
}

const std::map<std::string, Run> functions = {
    {"unary", &run_unary},
    {"binary", &run_binary},
    {"scalar", &run_scalar},
    {"clamp", [](const std::string&, const Options& o,
                 const Inputs& x) { return nn::clamp(x[0], o.value("low"), o.value("high")); }},
    {"reduce",
     [](const std::string& name, const Options& o, const Inputs& x) {
         return nn::call(name == "sum" ? nn::sum_function : nn::mean_function, x[0], o.value("axes"),
                         o.value("keepdim"));
     }},
    {"reshape", [](const std::string&, const Options& o,
                   const Inputs& x) { return nn::call(nn::reshape_function, x[0], o.value("shape")); }},
    {"permute", [](const std::string&, const Options& o,
                   const Inputs& x) { return nn::call(nn::permute_function, x[0], o.value("axes")); }},
    {"transpose",
     [](const std::string&, const Options& o, const Inputs& x) {
         const Value axes = o.value("axes");
         return nn::transpose(x[0], static_cast<int>(axes[0].integer()), static_cast<int>(axes[1].integer()));
     }},
    {"slice",
     [](const std::string&, const Options& o, const Inputs& x) {
         return nn::slice(x[0], static_cast<int>(o.integer("axis")), o.integer("start"), o.value("stop"),
                          o.integer("step"));
     }},
    {"getitem", [](const std::string&, const Options& o, const Inputs& x) { return Value(x[0])[o.integer("at")]; }},
    {"split", [](const std::string&, const Options& o,
                 const Inputs& x) { return nn::split(x[0], o.value("size"), static_cast<int>(o.integer("axis"))); }},
    {"chunk",
     [](const std::string&, const Options& o, const Inputs& x) {
         return nn::chunk(x[0], o.integer("chunks"), static_cast<int>(o.integer("axis")));
     }},
    {"pad",
     [](const std::string&, const Options& o, const Inputs& x) {
         if (const Value mode = o.value("mode"); !mode.is_none())
             return nn::call(nn::pad_function, x[0], o.value("padding"), mode);
         return nn::call(nn::pad_function, x[0], o.value("padding"), "constant", o.value("value"));
     }},
    {"interpolate",
     [](const std::string&, const Options& o, const Inputs& x) {
         return nn::interpolate(x[0], o.value("size"), o.value("scale_factor"), o.at("mode").get<std::string>(),
                                o.flag("align_corners"));
     }},
};

void append_flat(const Value& value, Inputs& tensors) {
    if (value.is_tensor()) return tensors.push_back(value.tensor());
    for (const Value& item : value.tuple()) append_flat(item, tensors);
}

Value run_layer(const std::string& kind, const json& parameters, const Options& options, const Inputs& inputs) {
    const nn::ModulePtr layer = layers.at(kind)(options);
    layer->eval();
    std::vector<std::string> names;
    for (const auto& parameter : nn::detail::all_tensors(*layer)) {
        names.push_back(parameter.name);
        const Tensor stored = golden_tensor(parameters.at(parameter.name));
        CHECK(stored.shape() == parameter.value->shape());
        *parameter.value = stored;
    }
    CHECK(names.size() == parameters.size());
    const nn::ModulePtr copy = nn::clone(*layer);
    return inputs.size() == 3 ? (*copy)(inputs[0], Value::Tuple{inputs[1], inputs[2]}) : (*copy)(inputs[0]);
}

// What moves or picks elements is exact.
bool is_exact(const std::string& kind, const json& options) {
    static const std::set<std::string> exact = {"clamp",   "reshape", "permute", "transpose", "slice",
                                                "getitem", "split",   "chunk",   "pad",       "embedding"};
    return exact.count(kind) != 0 || (kind == "interpolate" && options.at("mode") != "bilinear");
}

double distance(float a, float b) {
    if (test::same_bits(a, b) || a == b || (a != a && b != b)) return 0;
    if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
    const double x = static_cast<double>(a), y = static_cast<double>(b);
    return std::abs(x - y) / std::max(std::abs(y), 1.0);
}

}  // namespace

TEST_CASE("Layers and functions give PyTorch's numbers") {
    std::map<std::string, int> counts;
    for (const auto& stored : test::golden_cases("layers")) {
        const auto kind = stored.at("kind").get<std::string>();
        INFO(kind << ": " << stored.at("name").get<std::string>() << " " << stored.at("options").dump());
        const Options options{stored.at("options")};
        Inputs inputs, outputs;
        for (const auto& input : stored.at("inputs")) inputs.push_back(golden_tensor(input));
        const bool is_layer = layers.count(kind) != 0;
        append_flat(is_layer ? run_layer(kind, stored.at("parameters"), options, inputs)
                             : functions.at(kind)(stored.at("name").get<std::string>(), options, inputs),
                    outputs);
        for (const auto& option : stored.at("options").items()) CHECK(options.read.count(option.key()) == 1);
        REQUIRE(outputs.size() == stored.at("outputs").size());
        double worst = 0;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            const Tensor expected = golden_tensor(stored.at("outputs")[i]), given = outputs[i].contiguous();
            REQUIRE(intq::to_string(given.shape()) == intq::to_string(expected.shape()));
            for (std::size_t k = 0; k < expected.flat<float>().size(); ++k)
                worst = std::max(worst, distance(given.flat<float>()[k], expected.flat<float>()[k]));
        }
        // PyTorch rounds each step to float32; a product of 40 terms then differs by some 1e-6.
        CHECK(worst <= (is_exact(kind, stored.at("options")) ? 0.0 : kind == "unary" ? 3e-7 : 4e-6));
        ++counts[kind];
    }
    CHECK(counts.size() == layers.size() + functions.size());
}

TEST_CASE("A resize by a factor takes the cells that PyTorch and ONNX Runtime take, codes as well as real values") {
    const std::map<std::string, arith::Resize> rules = {{"nearest", arith::Resize::nearest},
                                                        {"nearest_exact", arith::Resize::nearest_exact},
                                                        {"half_pixel", arith::Resize::half_pixel},
                                                        {"align_corners", arith::Resize::align_corners}};
    int checked = 0;
    for (const json& stored : test::golden_cases("resize")) {
        const bool torch = stored.at("origin") == "torch";
        const bool copies = stored.contains("copy");
        const auto in = stored.at("in").get<index_t>();
        const double factor = std::strtod(stored.at("factor").get<std::string>().c_str(), nullptr);
        const auto places = stored.at("places").get<std::vector<double>>();
        INFO(stored.dump());
        const nn::InterpolateOptions options{
            std::nullopt,
            nn::ScaleFactor{torch || copies ? 1.0 : 2.0, factor,
                            torch ? arith::ResizeOrigin::torch_factor : arith::ResizeOrigin::onnx_factor},
            rules.at(stored.at("rule"))};
        const Size2d size = nn::float_operators::interpolated_size(options, {1, in});
        REQUIRE(size.width == static_cast<index_t>(places.size()));
        Tensor x = Tensor::empty(Shape(1, 1, 1, in));
        for (index_t i = 0; i < in; ++i) x.flat<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i);
        const Tensor y = nn::float_operators::interpolate(x, options);
        std::vector<arith::ResizeTap> memory(static_cast<std::size_t>(kernels::resize_table_size(size)));
        const auto table = kernels::make_resize_table(options.rule, {1, in}, size, memory,
                                                      nn::float_operators::resize_scales(options));
        REQUIRE(table.ok());
        for (std::size_t d = 0; d < places.size(); ++d) {
            const double real = static_cast<double>(y.flat<float>()[d]);
            const arith::ResizeTap& tap = table->columns[d];
            const double code = tap.first == in - 1 ? tap.first : tap.first + tap.weight / 256.0;
            if (table->blend == arith::Blend::nearest) {
                CHECK((real == places[d] && code == places[d]));
            } else {
                CHECK(std::abs(real - places[d]) < 1e-5);
                CHECK(std::abs(code - places[d]) < 1.0 / 512 + 1e-5);
            }
        }
        ++checked;
    }
    CHECK(checked == 424);
}

TEST_CASE("ONNX's scales align corners of whole sizes alone") {
    const auto by = [](double factor, arith::ResizeOrigin origin) {
        return nn::InterpolateOptions{std::nullopt, nn::ScaleFactor{1.0, factor, origin}, arith::Resize::align_corners};
    };
    const Size2d in{1, 7};
    const auto size = [&](const nn::InterpolateOptions& options) {
        return nn::float_operators::interpolated_size(options, in).width;
    };
    CHECK(size(by(0.6, arith::ResizeOrigin::torch_factor)) == 4);
    CHECK(size(by(2.0, arith::ResizeOrigin::onnx_factor)) == 14);
    CHECK(test::message_of<Error>([&] {
              size(by(static_cast<double>(0.6f), arith::ResizeOrigin::onnx_factor));
          }).find("needs whole sizes, given 1 x 7; give the sizes instead") != std::string::npos);
}

TEST_CASE("Layers refuse what they cannot compute, with both sides in the message") {
    const auto message = [](const auto& act) { return test::message_of<Error>(act); };
    CHECK(message([] {
              nn::ConvTranspose2d({4, 6, nn::square_window(3), {0, 0}, 4});
          }) == "ConvTranspose2d: 4 input and 6 output channels cannot be split into 4 groups");
    nn::ConvTranspose2d up({3, 6, nn::square_window(2, 2), {1, 0}, 3});
    CHECK(up.weight().shape() == Shape(3, 2, 2, 2));
    CHECK(up.out_channels() == 6);
    CHECK(up(Tensor::zeros(Shape(1, 3, 2, 2))).tensor().shape() == Shape(1, 6, 5, 4));
    CHECK(message([&] { up(Tensor::zeros(Shape(1, 2, 2, 2))); }) ==
          "conv_transpose2d: the input (1, 2, 2, 2) does not fit the weight (3, 2, 2, 2) in 3 groups; expected 3 "
          "input channels");
    CHECK(message([] {
              nn::ConvTranspose2d wide({1, 1, nn::square_window(3, 2), {2, 0}});
              wide(Tensor::zeros(Shape(1, 1, 2, 2)));
          }).find("the output padding must be smaller than stride or dilation, given 2 and 0") != std::string::npos);
    CHECK(message([] {
              nn::ConvTranspose2d({1, 1, nn::square_window(1, 1, 3)})(Tensor::zeros(Shape(1, 1, 4, 4)));
          }).find("nothing is left of an input of shape (1, 1, 4, 4)") != std::string::npos);
    const auto small = [](nn::Module&& layer, const Shape& shape) {
        return test::message_of<Error>([&] { layer(Tensor::zeros(shape)); });
    };
    CHECK(small(nn::Conv2d({1, 1, nn::square_window(5)}), Shape(1, 1, 3, 3)) ==
          "conv2d: the window of 5 x 5 cells is larger than the image, which has 3 x 3 with its padding; the input is "
          "(1, 1, 3, 3)");
    CHECK(small(nn::Conv2d({1, 1, {{2, 2}, {1, 1}, {}, {1, 7}}}), Shape(1, 1, 9, 7)).find("2 x 8 cells") !=
          std::string::npos);
    CHECK(small(nn::Conv1d({1, 1, 5, 1, 1}), Shape(1, 1, 2))
              .find("1 x 5 cells is larger than the image, which has 1 x 4") != std::string::npos);
    CHECK(small(nn::MaxPool2d(nn::square_window(5)), Shape(1, 1, 3, 3)).find("max_pool2d: the window") == 0);
    CHECK(small(nn::AvgPool2d(nn::square_window(2)), Shape(1, 1, 1, 9)).find("avg_pool2d: the window") == 0);
    CHECK(nn::Conv2d({1, 1, nn::square_window(5)})(Tensor::zeros(Shape(0, 1, 5, 6))).tensor().shape() ==
          Shape(0, 1, 1, 2));
    nn::Embedding table({3, 2});
    CHECK(message([&] {
              table(Tensor::from(Shape(2), std::vector<std::int64_t>{1, 3}));
          }) == "embedding: the id 3 is not in [0, 3)");
    CHECK(message([&] { table(Tensor::zeros(Shape(2))); }) ==
          "embedding: the ids must be int32 or int64, given float32");
    CHECK(table(Tensor::from(Shape(2), std::vector<std::int32_t>{0, 2})).tensor().shape() == Shape(2, 2));
    nn::LSTM lstm({3, 4, 2});
    const Tensor sequence = Tensor::zeros(Shape(5, 2, 3)), state = Tensor::zeros(Shape(1, 2, 4));
    CHECK(message([&] { lstm(Tensor::zeros(Shape(5, 2, 4))); }) ==
          "LSTM: the input has shape (5, 2, 4), expected rank 3 and 3 features");
    CHECK(message([&] {
              lstm(sequence, Value::Tuple{state, state});
          }) == "LSTM: the state h has shape (1, 2, 4), expected (2, 2, 4)");
    CHECK(message([&] { lstm(sequence, Value::Tuple{state}); }) == "LSTM: the state is (h, c), given 1 items");
}

TEST_CASE("Functions refuse what they cannot compute, with both sides in the message") {
    const auto message = [](const auto& act) { return test::message_of<Error>(act); };
    const Value x = Tensor::zeros(Shape(2, 3));
    CHECK(message([&] { x* Tensor::zeros(Shape(2)); }) ==
          "mul: the operands have shapes (2, 3) and (2); counted from the end their extents must be equal or 1");
    CHECK(message([&] { nn::matmul(x, x); }).find("matrices of shapes (2, 3) and (2, 3) cannot be multiplied") !=
          std::string::npos);
    CHECK(message([&] { nn::reshape(x, {4, -1}); }) == "reshape: (2, 3) cannot take the shape (4, ?)");
    CHECK(message([&] { nn::reshape(x, {-1, -1}); }).find("one may be -1") != std::string::npos);
    CHECK(message([&] { nn::permute(x, {0, 0}); }) == "permute: axis 0 of (2, 3) is there twice");
    CHECK(message([&] {
              nn::split(x, Value::Tuple{1, 1}, 1);
          }) == "split: the sizes (1, 1) do not make up axis 1 of shape (2, 3)");
    CHECK(message([&] { x[2]; }) == "select: index 2 does not exist on axis 0 of shape (2, 3)");
    CHECK(message([&] { nn::split(x, 2, 1)[2]; }) == "getitem: a tuple of 2 has no item 2");
    CHECK(message([&] { nn::slice(x, 0, 0, 1, 0); }) == "slice: the step must not be 0");
    CHECK(message([&] { nn::pad(x, {-2, -2}); }).find("leave nothing of the shape (2, 3)") != std::string::npos);
    CHECK(message([&] { nn::sum(x, {0, 0}); }) == "sum: axis 0 is there twice");
    CHECK(message([&] { nn::mean(x, {2}); }) == "mean: axis 2 does not exist in rank 2");
    CHECK(message([&] { nn::softplus(x, 0.0); }) == "softplus: beta cannot be 0");
    CHECK(message([&] { nn::celu(x, std::nan("")); }) == "celu: alpha must be finite, given nan");
    CHECK(message([&] { nn::gelu(x, "erf"); }) == "gelu: approximate is none or tanh, given \"erf\"");
    const Value image = Tensor::zeros(Shape(1, 1, 2, 2));
    CHECK(message([&] { nn::interpolate(image, 4, 2.0); }) == "interpolate: either a size or a scale factor is needed");
    CHECK(message([&] { nn::interpolate(image, 4, {}, "bicubic"); }).find("given \"bicubic\"") != std::string::npos);
    CHECK(message([&] { nn::interpolate(image, 0); }).find("extents must be 1 to") != std::string::npos);
}

TEST_CASE("The functions of the table are layers too, with their parameters") {
    const Tensor x = test::random_tensor(Shape(2, 9), 5, 3.0f);
    const std::vector<std::tuple<nn::ModulePtr, std::string, Value>> rows = {
        {std::make_shared<nn::Sigmoid>(), "Sigmoid", nn::sigmoid(x)},
        {std::make_shared<nn::Tanh>(), "Tanh", nn::tanh(x)},
        {std::make_shared<nn::Hardsigmoid>(), "Hardsigmoid", nn::hardsigmoid(x)},
        {std::make_shared<nn::Hardswish>(), "Hardswish", nn::hardswish(x)},
        {std::make_shared<nn::Hardtanh>(), "Hardtanh", nn::hardtanh(x)},
        {std::make_shared<nn::SiLU>(), "SiLU", nn::silu(x)},
        {std::make_shared<nn::LeakyReLU>(), "LeakyReLU", nn::leaky_relu(x)},
        {std::make_shared<nn::LeakyReLU>(0.25), "LeakyReLU", nn::leaky_relu(x, 0.25)},
        {std::make_shared<nn::ELU>(0.5), "ELU", nn::elu(x, 0.5)},
        {std::make_shared<nn::Softplus>(), "Softplus", nn::softplus(x)},
        {std::make_shared<nn::Softplus>(0.5), "Softplus", nn::softplus(x, 0.5)},
        {std::make_shared<nn::Mish>(), "Mish", nn::mish(x)},
        {std::make_shared<nn::SELU>(), "SELU", nn::selu(x)},
        {std::make_shared<nn::CELU>(0.5), "CELU", nn::celu(x, 0.5)},
        {std::make_shared<nn::Softsign>(), "Softsign", nn::softsign(x)},
        {std::make_shared<nn::Tanhshrink>(), "Tanhshrink", nn::tanhshrink(x)},
        {std::make_shared<nn::GELU>(), "GELU", nn::gelu(x)},
        {std::make_shared<nn::GELU>("tanh"), "GELU", nn::gelu(x, "tanh")},
    };
    for (const auto& [layer, type, expected] : rows) {
        CHECK(layer->type_name() == type);
        CHECK(test::largest_difference((*nn::clone(*layer))(x).tensor(), expected.tensor()) == 0);
    }
    CHECK(test::largest_difference(nn::gelu(x).tensor(), nn::gelu(x, "tanh").tensor()) > 1e-5);
    CHECK(nn::LeakyReLU(0.25).parameter() == 0.25);
    CHECK(nn::LeakyReLU().parameter() == 0.01);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    CHECK_THROWS_AS(nn::LeakyReLU(nan), Error);
    CHECK_THROWS_AS(nn::ELU(std::numeric_limits<double>::infinity()), Error);
    CHECK_THROWS_AS(nn::CELU(0.0), Error);
    CHECK_THROWS_AS(nn::AdaptiveAvgPool2d({0, 0}), Error);
    CHECK_THROWS_AS(nn::AdaptiveAvgPool2d({2, -1}), Error);
    for (const double eps : {nan, -1e-5}) {
        CHECK_THROWS_AS(nn::BatchNorm2d({3, eps}), Error);
        CHECK_THROWS_AS(nn::LayerNorm(Shape(3), eps), Error);
        CHECK_THROWS_AS(nn::RMSNorm(Shape(3), eps), Error);
        CHECK_THROWS_AS(nn::GroupNorm(1, 3, eps), Error);
    }
    CHECK_THROWS_AS(nn::BatchNorm2d({3, 1e-5, nan}), Error);
    CHECK_THROWS_AS(nn::GroupNorm(2, 3), Error);
    CHECK_THROWS_AS(nn::GroupNorm(0, 3), Error);
    CHECK_THROWS_AS(nn::InstanceNorm2d({4})(intq::Tensor::zeros(Shape(1, 4, 3))), Error);
    for (const double factor : {nan, 0.0, -2.0})
        CHECK_THROWS_AS(nn::Upsample({.scale_factor = nn::ScaleFactor{factor, 2}}), Error);
    CHECK_THROWS_AS(nn::Upsample({.size = Size2d{0, 4}}), Error);
    CHECK(nn::GELU("tanh").function() == TableFunction::gelu_tanh);
}

TEST_CASE("A float functional has the methods of the functions, and refuses others by name") {
    nn::FloatFunctional f;
    const Value a = Tensor::from(Shape(2), {1.0f, -3.0f}), b = Tensor::from(Shape(2), {2.0f, 1.0f});
    const auto values = [](const Value& v) {
        return std::vector<float>(v.tensor().flat<float>().begin(), v.tensor().flat<float>().end());
    };
    CHECK(values(f.add(a, b)) == std::vector<float>{3, -2});
    CHECK(values(f.add_scalar(a, 0.5)) == std::vector<float>{1.5f, -2.5f});
    CHECK(values(f.add_relu(a, b)) == std::vector<float>{3, 0});
    CHECK(values(f.sub(a, b)) == std::vector<float>{-1, -4});
    CHECK(values(f.mul(a, b)) == std::vector<float>{2, -3});
    CHECK(values(f.mul_scalar(a, -2.0)) == std::vector<float>{-2, 6});
    CHECK(values(f.cat({a, b})) == std::vector<float>{1, -3, 2, 1});
    CHECK(values(f.sum(a)) == std::vector<float>{-2});
    CHECK(values(f.mean(a, {0}, true)) == std::vector<float>{-1});
    CHECK(f.matmul(Tensor::zeros(Shape(2, 3)), Tensor::zeros(Shape(3, 4))).tensor().shape() == Shape(2, 4));
    CHECK(test::message_of<Error>([&] {
              f.dispatch("div", std::array{a, b});
          }) ==
          "FloatFunctional has the methods add, add_scalar, add_relu, sub, mul, mul_scalar, matmul, cat, sum, mean; "
          "given \"div\"");
}

TEST_CASE("Operators that only move values keep the qparams of their input, those that compute do not") {
    Tensor x = test::random_tensor(Shape(1, 2, 4, 4), 3);
    x.set_qparams(intq::OwnedQParams::per_tensor(0.5f, DType::int8));
    for (const Value& moved : {nn::permute(x, {0, 2, 3, 1}), nn::slice(x, 1, 0, 1), nn::split(x, 2, 2)[1],
                               nn::pad(x, {1, 1}), nn::reshape(x, {2, -1}), nn::interpolate(x, 8), Value(x)[0]})
        CHECK(moved.tensor().qparams() == x.qparams());
    for (const Value& computed : {nn::sigmoid(x), nn::mean(x, {2, 3}), nn::clamp(x, 0.25, 1), nn::pad(x, {1, 1}, 0.3),
                                  Value(x) * x, nn::interpolate(x, 8, {}, "bilinear")})
        CHECK_FALSE(computed.tensor().qparams().has_value());
}
