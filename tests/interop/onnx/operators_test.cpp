// SPDX-License-Identifier: MIT
//
// The ONNX operators beyond those of a plain convolutional network: what they become, and what is refused. Their
// numbers are checked with golden/models (onnx_import_test.cpp).
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "interop/one_node.hpp"
#include "intq/graph/print.hpp"
#include "intq/interop/onnx/internal/nodes/gelu_by_parts.hpp"
#include "intq/interop/onnx/internal/nodes/norm_by_parts.hpp"
#include "intq/nn/layers/weighted.hpp"
#include "support/catch.hpp"

using namespace intq;
using Catch::Matchers::Contains;
using test::attribute;
using test::filled;
using test::int64_tensor;
using test::Message;
using test::node;
using test::OneNode;
using test::refusal;
using test::tensor;
using test::type_of;
using Ints = std::vector<std::int64_t>;

namespace {

std::string text_of(const OneNode& one) { return graph::to_string(one.import()->graph()); }

}  // namespace

TEST_CASE("ConvTranspose reads groups and output padding, and refuses what derives the padding") {
    const OneNode plain{.op_type = "ConvTranspose",
                        .attributes = {attribute("group", 2), attribute("strides", Ints{2, 2}),
                                       attribute("output_padding", Ints{1, 0})},
                        .constants = {filled("a", {4, 3, 2, 3}), filled("b", {6})}};
    const auto module = plain.import();
    const auto& layer = dynamic_cast<const nn::ConvTranspose2d&>(module->find("n"));
    CHECK(layer.options().groups == 2);
    CHECK(layer.options().out_channels == 6);
    CHECK(layer.options().output_padding == Size2d{1, 0});
    CHECK((*module)(intq::Tensor::zeros(Shape(1, 4, 6, 6))).tensor().shape() == Shape(1, 6, 13, 13));

    OneNode changed = plain;
    changed.constants[1] = filled("b", {4});
    CHECK_THAT(refusal(changed), Contains("the bias has 4 elements, expected 6"));
    changed = plain;
    changed.constants[0] = filled("a", {5, 3, 2, 3});
    CHECK_THAT(refusal(changed), Contains("5 input channels cannot be split into 2 groups"));
    changed.constants[0] = filled("a", {6, 3, 2, 3});
    CHECK_THAT(refusal(changed), Contains("the input has 4 channels, the weight is for 6"));
    changed = plain;
    changed.attributes.push_back(attribute("output_shape", Ints{12, 12}));
    CHECK_THAT(refusal(changed), Contains("output_shape is not supported"));
    changed.attributes.back() = attribute("auto_pad", std::string("SAME_UPPER"));
    CHECK_THAT(refusal(changed), Contains("auto_pad \"SAME_UPPER\" is not supported"));
}

TEST_CASE("A Conv with a weight of rank 3 is a Conv1d, with the padding of each end") {
    const OneNode plain{.op_type = "Conv",
                        .attributes = {attribute("pads", Ints{1, 1}), attribute("strides", Ints{2})},
                        .constants = {filled("a", {6, 4, 3})},
                        .x_shape = {-1, 4, 9}};
    CHECK(type_of(plain) == "Conv1d");
    OneNode changed = plain;
    changed.attributes[0] = attribute("pads", Ints{2, 0});
    const auto causal = changed.import();
    CHECK(dynamic_cast<const nn::Conv1d&>(causal->find("n")).options().padding == nn::Padding1d{2, 0});
    CHECK((*causal)(intq::Tensor::zeros(Shape(2, 4, 9))).tensor().shape() == Shape(2, 6, 5));
    changed.attributes[0] = attribute("pads", Ints{1, 1, 1, 1});
    CHECK_THAT(refusal(changed), Contains("the attribute pads has 4 values, expected 2"));
    changed = plain;
    changed.x_shape = {-1, 4, 0};
    CHECK_THAT(refusal(changed), Contains("the window of 3 does not fit into the input of shape (?, 4, 0)"));
    changed.x_shape = {-1, 5, 9};
    CHECK_THAT(refusal(changed), Contains("the input has 5 channels, the weight is for 4"));
}

TEST_CASE("Functions of one element become PyTorch's modules, or functions where it has none") {
    CHECK(type_of({.op_type = "Sigmoid"}) == "Sigmoid");
    CHECK(type_of({.op_type = "Tanh"}) == "Tanh");
    CHECK(type_of({.op_type = "HardSwish"}) == "Hardswish");
    CHECK(type_of({.op_type = "Gelu", .opset = 20}) == "GELU");
    CHECK_THAT(refusal({.op_type = "Gelu", .opset = 17}),
               Contains("the operator \"Gelu\" is not supported in opset 17"));
    CHECK_THAT(refusal({.op_type = "Gelu", .attributes = {attribute("approximate", std::string("erf"))}, .opset = 20}),
               Contains("approximate is none or tanh"));
    CHECK(text_of({.op_type = "Exp"}).find("call_function[target=exp](args = (%x,))") != std::string::npos);
    const auto leaky = OneNode{.op_type = "LeakyRelu", .attributes = {attribute("alpha", 0.25f)}}.import();
    CHECK(dynamic_cast<const nn::Unary&>(leaky->find("n")).parameter() == 0.25);
    CHECK(type_of({.op_type = "HardSigmoid", .attributes = {attribute("alpha", 1.0f / 6)}}) == "Hardsigmoid");
    const float nan = std::numeric_limits<float>::quiet_NaN();
    CHECK_THAT(refusal({.op_type = "LeakyRelu", .attributes = {attribute("alpha", nan)}}),
               Contains("(LeakyRelu \"n\")") && Contains("leaky_relu: negative_slope must be finite, given nan"));
    CHECK_THAT(refusal({.op_type = "Elu", .attributes = {attribute("alpha", nan)}}),
               Contains("elu: alpha must be finite"));
    CHECK_THAT(refusal({.op_type = "HardSigmoid", .attributes = {attribute("alpha", nan)}}), Contains("alpha is nan"));
    CHECK_THAT(refusal({.op_type = "Selu", .attributes = {attribute("gamma", 1.0f)}}),
               Contains("supported are the defaults"));
    CHECK_THAT(refusal({.op_type = "Celu", .attributes = {attribute("alpha", 0.0f)}}),
               Contains("celu: alpha cannot be 0"));
    CHECK_THAT(refusal({.op_type = "Pow", .constants = {tensor("a", {}, {4.0f})}}),
               Contains("the exponent is 4.000000; supported are 3, 2, 1, 1/2 and -1"));
    const auto cube = OneNode{.op_type = "Pow", .constants = {tensor("a", {}, {3.0f})}}.import();
    CHECK((*cube)(intq::Tensor::from(Shape(1, 1, 1, 2), {-2.0f, 3.0f})).tensor().flat<float>()[0] == -8.0f);
    CHECK_THAT(refusal({.op_type = "Pow", .constants = {filled("a", {2})}}), Contains("supported is one number"));
    CHECK(text_of({.op_type = "Pow", .constants = {tensor("a", {}, {0.5f})}}).find("[target=sqrt]") !=
          std::string::npos);
    CHECK(dynamic_cast<const nn::Unary&>(
              OneNode{.op_type = "HardSigmoid", .attributes = {attribute("alpha", 1.0f / 6)}}.import()->find("n"))
              .parameter() == 1.0);
    CHECK(type_of({.op_type = "HardSigmoid"}) == "Hardsigmoid");
    CHECK_THAT(refusal({.op_type = "HardSigmoid", .attributes = {attribute("beta", 0.25f)}}),
               Contains("alpha is 0.200000 and beta 0.250000; supported are a positive alpha and the beta 1/2"));
}

TEST_CASE("PRelu with one slope is LeakyReLU, with several it is ReLU and a product") {
    const std::vector<float> slopes{0.5f, -2.0f, 0.0f, 0.25f};
    const auto check = [&](const OneNode& one, Shape shape, index_t behind, const char* types) {
        CHECK(type_of(one) == types);
        intq::Tensor x = intq::Tensor::zeros(shape);
        for (std::size_t i = 0; i < x.flat<float>().size(); ++i) x.flat<float>()[i] = static_cast<float>(i % 7) - 3.0f;
        const intq::Tensor y = (*one.import())(x).tensor();
        for (std::size_t i = 0; i < x.flat<float>().size(); ++i) {
            const float value = x.flat<float>()[i], slope = slopes[i / static_cast<std::size_t>(behind) % 4];
            CHECK(y.flat<float>()[i] == (value > 0.0f ? value : slope * value));
        }
    };
    const OneNode of_image{.op_type = "PRelu", .constants = {tensor("a", {4, 1, 1}, slopes)}};
    check(of_image, Shape(2, 4, 6, 6), 36, "ReLUBatchNorm2dFloatFunctional");
    check({.op_type = "PRelu", .constants = {tensor("a", {4}, slopes)}, .x_shape = {-1, 4}}, Shape(3, 4), 1,
          "ReLUFloatFunctional");
    check({.op_type = "PRelu", .constants = {tensor("a", {1, 4, 1}, slopes)}, .x_shape = {-1, 4, 3}}, Shape(1, 4, 3), 3,
          "ReLUFloatFunctional");
    CHECK(type_of({.op_type = "PRelu", .constants = {filled("a", {1, 4, 1, 1}, 0.1f)}}) == "LeakyReLU");
    CHECK(type_of({.op_type = "PRelu", .constants = {filled("a", {1}, 0.1f)}, .x_shape = {}}) == "LeakyReLU");
    CHECK_THAT(
        refusal({.op_type = "PRelu", .constants = {tensor("a", {4}, slopes)}, .x_shape = {}}),
        Contains("(PRelu \"n\")") && Contains("slopes of shape (4) are not those of a value of an unknown shape"));
    CHECK_THAT(refusal({.op_type = "PRelu", .constants = {filled("a", {3, 1, 1})}}), Contains("cannot be broadcast"));
    CHECK_THAT(refusal({.op_type = "PRelu", .constants = {filled("a", {1, 1, 1, 1, 1})}}),
               Contains("are not those of a value of shape (?, 4, 6, 6)"));
    CHECK_THAT(refusal({.op_type = "PRelu", .constants = {filled("a", {0})}}), Contains("slopes of shape (0)"));
    CHECK_THAT(
        refusal({.op_type = "PRelu", .constants = {tensor("a", {1}, {std::numeric_limits<float>::quiet_NaN()})}}),
        Contains("holds a NaN"));
    CHECK_THAT(refusal({.op_type = "PRelu", .constants = {filled("a", {1})}, .inputs = {"x", "x"}}),
               Contains("expected a constant"));
}

TEST_CASE("Mul and Sub take two values, a number, or a tensor that becomes a buffer") {
    CHECK(text_of({.op_type = "Mul", .constants = {tensor("a", {}, {0.5f})}})
              .find("call_function[target=mul](args = (%x, 0.5))") != std::string::npos);
    CHECK(text_of({.op_type = "Mul", .constants = {tensor("a", {1}, {0.5f})}})
              .find("call_function[target=mul](args = (%x, 0.5))") != std::string::npos);
    const auto with_buffer = OneNode{.op_type = "Sub", .constants = {filled("a", {4, 1, 6}, 2.0f)}}.import();
    CHECK(graph::to_string(with_buffer->graph()).find("call_function[target=sub](args = (%x, %constant_0))") !=
          std::string::npos);
    CHECK(with_buffer->tensor("constant_0").shape() == Shape(1, 4, 1, 6));  // of the rank of x
    CHECK((*with_buffer)(intq::Tensor::zeros(Shape(1, 4, 6, 6))).tensor().flat<float>()[0] == -2.0f);
    CHECK_THAT(refusal({.op_type = "Mul", .constants = {filled("a", {3, 1, 1})}}),
               Contains("the shapes (?, 4, 6, 6) and (3, 1, 1) cannot be broadcast"));
    CHECK(text_of({.op_type = "Mul", .constants = {filled("a", {1})}, .inputs = {"x", "x"}})
              .find("call_module[target=n, method=mul](args = (%x, %x))") != std::string::npos);
}

TEST_CASE("A constant of one value for each channel is a batch norm, whichever side it stands on") {
    const Message constant = tensor("a", {4, 1, 1}, {0.5f, -2.0f, 4.0f, 0.25f});
    const auto second_channel = [](const OneNode& one) {
        const auto module = one.import();
        CHECK(type_of(one) == "BatchNorm2d");
        intq::Tensor x = intq::Tensor::zeros(Shape(1, 4, 6, 6));
        for (float& value : x.flat<float>()) value = 3.0f;
        return (*module)(x).tensor().flat<float>()[36];
    };
    CHECK(second_channel({.op_type = "Mul", .constants = {constant}}) == -6.0f);
    CHECK(second_channel({.op_type = "Mul", .constants = {constant}, .inputs = {"a", "x"}}) == -6.0f);
    CHECK(second_channel({.op_type = "Add", .constants = {constant}}) == 1.0f);
    CHECK(second_channel({.op_type = "Sub", .constants = {constant}}) == 5.0f);
    CHECK(second_channel({.op_type = "Sub", .constants = {constant}, .inputs = {"a", "x"}}) == -5.0f);
    CHECK(second_channel({.op_type = "Div", .constants = {constant}}) == -1.5f);
}

TEST_CASE("A constant beside a vector or a line is an operand, unless the layer before it takes it in") {
    for (const std::vector<std::int64_t>& x_shape : {std::vector<std::int64_t>{-1, 4}, {-1, 4, 5}}) {
        std::vector<std::int64_t> c_shape(x_shape.begin() + 1, x_shape.end());
        if (c_shape.size() == 2) c_shape[1] = 1;
        for (const char* const op_type : {"Add", "Sub", "Mul", "Div"}) {
            INFO(op_type << " of rank " << x_shape.size());
            const OneNode one{.op_type = op_type, .constants = {filled("a", c_shape, 4.0f)}, .x_shape = x_shape};
            CHECK(text_of(one).find("(args = (%x, %constant_0))") != std::string::npos);
        }
    }
    const test::ModelParts behind_layer{
        .nodes = {node("Gemm", {"x", "w", "b"}, {"z"}, {attribute("transB", 1)}, "layer"),
                  node("Mul", {"z", "a"}, {"y"}, {}, "scale")},
        .initializers = {filled("w", {4, 3}), filled("b", {4}), filled("a", {4}, 2.0f)},
        .inputs = {test::value_info("x", {-1, 3})}};
    const auto norm = test::import(behind_layer);
    CHECK(dynamic_cast<const nn::BatchNorm1d*>(&norm->find("scale")) != nullptr);
}

TEST_CASE("Nodes of which no output is made are left out, whatever they are, and count as no reader") {
    const test::ModelParts parts{
        .nodes = {node("Conv", {"x", "w"}, {"z"}, {}, "layer"), node("Relu", {"z"}, {"unused"}, {}, "unused"),
                  node("Nonsense", {"z"}, {"more"}, {}, "nonsense"), node("Add", {"z", "b"}, {"y"}, {}, "bias")},
        .initializers = {filled("w", {4, 4, 1, 1}), filled("b", {4, 1, 1})}};
    const auto model = test::import(parts);
    CHECK(graph::to_string(model->graph()).find("unused") == std::string::npos);
    test::ModelParts read = parts;
    read.outputs.push_back(test::value_info("more"));
    CHECK_THAT(refusal(read), Contains("the operator \"Nonsense\" is not supported"));
}

TEST_CASE("Div is a product with the reciprocals of a constant") {
    CHECK(text_of({.op_type = "Div", .constants = {tensor("a", {}, {4.0f})}})
              .find("call_function[target=mul](args = (%x, 0.25))") != std::string::npos);
    CHECK_THAT(refusal({.op_type = "Div", .constants = {tensor("a", {4, 1, 1}, {1, 2, 0, 4})}}),
               Contains("the divisor has the value 0, which has no reciprocal"));
    const auto along_width = OneNode{.op_type = "Div", .constants = {filled("a", {6}, 4.0f)}}.import();
    CHECK(along_width->tensor("constant_0").shape() == Shape(1, 1, 1, 6));
    CHECK((*along_width)(intq::Tensor::full(Shape(1, 4, 6, 6), 3.0f)).tensor().flat<float>()[7] == 0.75f);
}

TEST_CASE("A ConvTranspose with a weight of rank 3 is a ConvTranspose1d") {
    const OneNode plain{.op_type = "ConvTranspose",
                        .attributes = {attribute("pads", Ints{1, 1}), attribute("strides", Ints{2}),
                                       attribute("output_padding", Ints{1})},
                        .constants = {filled("a", {4, 6, 3})},
                        .x_shape = {-1, 4, 9}};
    CHECK(type_of(plain) == "ConvTranspose1d");
    // (9 - 1)·2 - 2 + 2 + 1 + 1
    CHECK((*plain.import())(intq::Tensor::zeros(Shape(2, 4, 9))).tensor().shape() == Shape(2, 6, 18));
    OneNode changed = plain;
    changed.attributes[0] = attribute("pads", Ints{1, 2});
    CHECK((*changed.import())(intq::Tensor::zeros(Shape(2, 4, 9))).tensor().shape() == Shape(2, 6, 17));
    changed = plain;
    changed.x_shape = {-1, 5, 9};
    CHECK_THAT(refusal(changed), Contains("the input has 5 channels, the weight is for 4"));
}

TEST_CASE("A Conv or ConvTranspose with a weight of rank 5 is one of volumes, with equal pads along the depth") {
    const OneNode plain{.op_type = "Conv",
                        .attributes = {attribute("pads", Ints{1, 0, 2, 1, 1, 0}), attribute("strides", Ints{1, 2, 1})},
                        .constants = {filled("a", {6, 4, 2, 3, 3})},
                        .x_shape = {-1, 4, 3, 5, 6}};
    const auto shape = [](const OneNode& one) {
        return (*one.import())(intq::Tensor::zeros(Shape(2, 4, 3, 5, 6))).tensor().shape();
    };
    CHECK(type_of(plain) == "Conv3d");
    CHECK(shape(plain) == Shape(2, 6, 4, 2, 6));
    OneNode changed = plain;
    changed.op_type = "ConvTranspose";
    changed.constants = {filled("a", {4, 6, 2, 3, 3})};
    changed.attributes.push_back(attribute("output_padding", Ints{0, 1, 0}));
    CHECK(type_of(changed) == "ConvTranspose3d");
    CHECK(shape(changed) == Shape(2, 6, 2, 11, 6));
    changed.x_shape = {-1, 4, -1, -1, 6};
    CHECK(shape(changed) == Shape(2, 6, 2, 11, 6));
    changed = plain;
    changed.attributes[0] = attribute("pads", Ints{1, 0, 2, 0, 1, 0});
    CHECK_THAT(refusal(changed), Contains("along the depth only pads that are equal at both ends are supported, given "
                                          "1 and 0"));
    changed = plain;
    changed.x_shape = {-1, 4, 3, 1, 6};
    CHECK_THAT(refusal(changed), Contains("the window does not fit into the input of shape (?, 4, 3, 1, 6)"));
    changed.x_shape = {-1, 5, 3, 5, 6};
    CHECK_THAT(refusal(changed), Contains("the input has 5 channels, the weight is for 4"));
    changed.x_shape = {-1, 4, 5, 6};
    CHECK_THAT(refusal(changed), Contains("the weight \"a\" has shape (6, 4, 2, 3, 3), expected rank 4"));
}

TEST_CASE("A LayerNormalization is over the axes of its scale") {
    const OneNode plain{.op_type = "LayerNormalization", .constants = {filled("a", {6})}};
    CHECK(type_of(plain) == "LayerNorm");
    OneNode changed = plain;
    changed.attributes = {attribute("axis", 2)};
    CHECK_THAT(refusal(changed), Contains("the scale has shape (6), expected the axes from 2 on of (?, 4, 6, 6)"));
    changed.x_shape = {};
    CHECK_THAT(refusal(changed), Contains("axis 2 needs the rank of the input, which is not known"));
    changed.attributes = {attribute("axis", std::numeric_limits<std::int64_t>::min())};
    CHECK_THAT(refusal(changed), Contains("needs the rank of the input"));
    changed = plain;
    changed.constants.push_back(filled("b", {1}));
    CHECK_THAT(refusal(changed), Contains("the bias has shape (1), the scale (6)"));
    changed = plain;
    changed.opset = 16;
    CHECK_THAT(refusal(changed), Contains("\"LayerNormalization\" is not supported in opset 16"));
    changed = plain;
    changed.op_type = "RMSNormalization", changed.opset = 23;
    CHECK(type_of(changed) == "RMSNorm");
    changed.attributes = {attribute("axis", 2)};
    CHECK_THAT(refusal(changed), Contains("the scale has shape (6), expected the axes from 2 on of (?, 4, 6, 6)"));
    changed.attributes = {attribute("stash_type", 10)};
    CHECK_THAT(refusal(changed), Contains("stash_type 10 is not supported"));
}

TEST_CASE("A GroupNormalization and an InstanceNormalization have a scale and a bias for each channel") {
    OneNode group{.op_type = "GroupNormalization", .constants = {filled("a", {4}), filled("b", {4})}};
    group.opset = 21;
    group.attributes = {attribute("num_groups", 2)};
    CHECK(type_of(group) == "GroupNorm");
    OneNode changed = group;
    changed.attributes = {attribute("num_groups", 3)};
    CHECK_THAT(refusal(changed), Contains("4 channels are not a multiple of 3 groups"));
    changed.attributes = {};
    CHECK_THAT(refusal(changed), Contains("4 channels are not a multiple of 0 groups"));
    changed = group;
    changed.constants = {filled("a", {4}), filled("b", {2})};
    CHECK_THAT(refusal(changed), Contains("the bias has 2 elements, expected 4"));
    changed = group;
    changed.opset = 20;
    CHECK_THAT(refusal(changed), Contains("\"GroupNormalization\" is not supported in opset 20"));

    OneNode instance{.op_type = "InstanceNormalization", .constants = {filled("a", {4}), filled("b", {4})}};
    CHECK(type_of(instance) == "InstanceNorm2d");
    instance.x_shape = {-1, 4, 6};
    CHECK(type_of(instance) == "InstanceNorm1d");
    instance.x_shape = {-1, 5, 6, 6};
    CHECK_THAT(refusal(instance), Contains("the input has shape (?, 5, 6, 6), expected 4 channels"));
    instance.x_shape = {-1, 4};
    CHECK_THAT(refusal(instance), Contains("expected rank 3 to 5"));
    instance.x_shape = {};
    CHECK_THAT(refusal(instance), Contains("the rank of the input is not known"));
}

TEST_CASE("A Gather of constant indices is a slice, or is refused") {
    const auto gather = [](const Ints& indices, std::int64_t axis) {
        return OneNode{
            .op_type = "Gather", .attributes = {attribute("axis", axis)}, .constants = {int64_tensor("a", indices)}};
    };
    const auto shape = [](const OneNode& one) {
        return intq::to_string((*one.import())(intq::Tensor::zeros(Shape(2, 4, 6, 6))).tensor().shape());
    };
    CHECK(shape(gather({-1}, 1)) == "(2, 1, 6, 6)");
    CHECK(shape(gather({4, 2, 0}, 3)) == "(2, 4, 6, 3)");
    CHECK(shape(gather({0, 1, 2, 3}, -3)) == "(2, 4, 6, 6)");
    OneNode open = gather({-2, -1}, 1);
    open.x_shape = {-1, -1, 6, 6};
    CHECK(shape(open) == "(2, 2, 6, 6)");
    CHECK_THAT(refusal(gather({6}, 3)), Contains("the index 6 does not exist on an axis of 6"));
    CHECK_THAT(refusal(gather({-7}, 3)), Contains("the index -7 does not exist on an axis of 6"));
    CHECK_THAT(refusal(gather({}, 3)), Contains("it takes no element"));
}

TEST_CASE("GELU that is written with Erf is a GELU, whatever the order of its factors, and Erf alone a function") {
    const auto number = [](const std::string& name, float value) { return tensor(name, {}, {value}); };
    const auto model = [&](float root, float one, const std::string& last) {
        return test::ModelParts{
            .nodes = {node("Div", {"x", "root"}, {"a"}), node("Erf", {"a"}, {"b"}), node("Add", {"b", "one"}, {"c"}),
                      node("Mul", {"x", "c"}, {"d"}), node("Mul", {"d", last}, {"y"})},
            .initializers = {number("root", root), number("one", one), number("half", 0.5f)}};
    };
    const auto types = [](const test::ModelParts& parts) { return graph::to_string(test::import(parts)->graph()); };
    const float root = std::sqrt(2.0f);
    CHECK_THAT(types(model(root, 1, "half")), Contains("call_module[target=gelu_5](args = (%x,))") && !Contains("erf"));
    CHECK_THAT(types(model(1.4142f, 1, "half")), Contains("call_function[target=erf]"));
    CHECK_THAT(types(model(root, 0.5f, "half")), Contains("call_function[target=erf]"));
    CHECK_THAT(types(model(root, 1, "one")), Contains("call_function[target=erf]"));
    CHECK_THAT(types(model(root, 1, "x")), Contains("call_function[target=erf]"));
    // What is read besides stays.
    test::ModelParts both = model(root, 1, "half");
    both.outputs.push_back(test::value_info("b"));
    CHECK_THAT(types(both), Contains("call_function[target=erf]") && Contains("call_module[target=gelu_5]"));
    // A number of more axes could give the result more.
    both = model(root, 1, "half");
    both.initializers[2] = tensor("half", {1, 1, 1, 1, 1}, {0.5f});
    const auto file = interop::onnx::parse_model(test::model(both).bytes(), "m.onnx");
    CHECK(interop::onnx::gelus_by_parts(file.graph).empty());
}

TEST_CASE("A layer norm or RMS norm in parts is one, and what is not stays in parts") {
    const auto mean = [](const std::string& of, const std::string& to, const Ints& axes) {
        return node("ReduceMean", {of}, {to}, {attribute("axes", axes), attribute("keepdims", 1)});
    };
    const auto number = [](const std::string& name, float value) { return tensor(name, {}, {value}); };
    const auto layer_norm = [&](const Ints& axes, float two, const Ints& extents) {
        return test::ModelParts{
            .nodes = {mean("x", "m", axes), node("Sub", {"x", "m"}, {"d"}), node("Pow", {"d", "two"}, {"q"}),
                      mean("q", "s", axes), node("Add", {"s", "eps"}, {"t"}), node("Sqrt", {"t"}, {"r"}),
                      node("Div", {"d", "r"}, {"n"}), node("Mul", {"n", "w"}, {"g"}), node("Add", {"g", "v"}, {"y"})},
            .initializers = {number("two", two), number("eps", 0.5f),
                             tensor("w", extents, std::vector<float>(static_cast<std::size_t>(extents.back()), 2.0f)),
                             tensor("v", extents, std::vector<float>(static_cast<std::size_t>(extents.back()), 3.0f))}};
    };
    const auto found = [](const test::ModelParts& parts) {
        std::vector<std::string> types;
        const auto file = interop::onnx::parse_model(test::model(parts).bytes(), "m.onnx");
        for (const auto& [last, norm] : interop::onnx::norms_by_parts(file.graph))
            types.push_back(last->op_type + " " + norm.op_type + " of " + std::to_string(norm.inputs.size()));
        std::sort(types.begin(), types.end());
        return types;
    };
    using Found = std::vector<std::string>;
    test::ModelParts whole = layer_norm({-1}, 2.0f, {6});
    CHECK(found(whole) == Found{"Add LayerNormalization of 3", "Mul LayerNormalization of 2"});
    const std::string graph = graph::to_string(test::import(whole)->graph());
    CHECK_THAT(graph, Contains("layernormalization_9") && !Contains("sqrt") && !Contains("mean"));
    // Another power, a weight of fewer axes, two different means: no norm.
    CHECK(found(layer_norm({-1}, 3.0f, {6})).empty());
    CHECK(found(layer_norm({-2}, 2.0f, {6})).empty());
    CHECK(found(layer_norm({-1, -1}, 2.0f, {6})).empty());
    CHECK(found(layer_norm({-2, -1}, 2.0f, {6})).empty());
    whole.nodes[3] = mean("q", "s", {-2, -1});
    CHECK(found(whole).empty());
    whole = layer_norm({-1}, 2.0f, {6});
    whole.nodes[3] = node("ReduceMean", {"q"}, {"s"}, {attribute("axes", Ints{-1}), attribute("keepdims", 0)});
    CHECK(found(whole).empty());
    // x less another value is a value, of which this is the RMS norm.
    whole = layer_norm({-1}, 2.0f, {6});
    whole.nodes[0] = node("ReduceMean", {"x"}, {"m"}, {attribute("axes", Ints{-1}), attribute("keepdims", 0)});
    CHECK(found(whole) == Found{"Mul RMSNormalization of 2"});
    whole = layer_norm({-1}, 2.0f, {6});
    whole.nodes[6] = node("Div", {"x", "r"}, {"n"});  // the deviation of another value
    CHECK(found(whole).empty());
    for (const float eps : {-0.5f, std::numeric_limits<float>::infinity()}) {
        whole = layer_norm({-1}, 2.0f, {6});
        whole.initializers[1] = number("eps", eps);
        CHECK(found(whole).empty());
    }
    CHECK(found(layer_norm({-1}, 2.0f, {1})).empty());  // a factor of all axes
    // A bias of other extents stays an add.
    whole = layer_norm({-1}, 2.0f, {6});
    whole.initializers[3] = tensor("v", {1}, {3.0f});
    CHECK(found(whole) == Found{"Mul LayerNormalization of 2"});
    // What is read besides stays.
    whole = layer_norm({-1}, 2.0f, {6});
    whole.outputs.push_back(test::value_info("r"));
    CHECK_THAT(graph::to_string(test::import(whole)->graph()), Contains("layernormalization_9") && Contains("sqrt"));
}

TEST_CASE("A norm in parts may count its axes from the front, where the file says the rank") {
    const auto rms_norm = [](const Ints& axes, std::vector<Message> values) {
        const Message numbers = attribute("axes", axes);
        return test::ModelParts{.nodes = {node("Relu", {"x"}, {"v"}), node("Mul", {"v", "v"}, {"s"}),
                                          node("ReduceMean", {"s"}, {"m"}, {numbers}), node("Add", {"m", "eps"}, {"a"}),
                                          node("Sqrt", {"a"}, {"r"}), node("Reciprocal", {"r"}, {"i"}),
                                          node("Mul", {"v", "i"}, {"n"}), node("Mul", {"n", "w"}, {"y"}, {}, "norm")},
                                .initializers = {tensor("eps", {}, {0.5f}), tensor("w", {6}, {1, 2, 3, 4, 5, 6})},
                                .inputs = {test::value_info("x", {-1, 4, 6})},
                                .values = std::move(values)};
    };
    const auto text = [](const test::ModelParts& parts) { return graph::to_string(test::import(parts)->graph()); };
    const Message rank_3 = test::value_info("v", {-1, 4, 6}), unknown = test::value_info("v");
    const auto expected = test::import(rms_norm({-1}, {}));
    intq::Tensor x = intq::Tensor::zeros(Shape(2, 4, 6));
    for (std::size_t i = 0; i < 48; ++i) x.flat<float>()[i] = static_cast<float>(i * 7 % 11) - 2.0f;
    const auto same = [&](const test::ModelParts& parts) {
        const intq::Tensor a = (*expected)(x).tensor(), b = (*test::import(parts))(x).tensor();
        return std::equal(a.flat<float>().begin(), a.flat<float>().end(), b.flat<float>().begin());
    };
    CHECK_THAT(text(rms_norm({2}, {rank_3})), Contains("target=norm") && !Contains("sqrt"));
    CHECK(same(rms_norm({2}, {rank_3})));
    CHECK(same(rms_norm({2}, {test::value_info("s", {-1, -1, -1})})));
    // Without a rank, or over other axes, it stays in parts.
    CHECK_THAT(text(rms_norm({2}, {})), Contains("sqrt"));
    CHECK_THAT(text(rms_norm({2}, {unknown})), Contains("sqrt"));
    CHECK_THAT(text(rms_norm({1}, {rank_3})), Contains("sqrt"));
    CHECK_THAT(text(rms_norm({0, 1, -3}, {test::value_info("v", {-1, 4})})), Contains("sqrt"));
    CHECK_THAT(text(rms_norm({-1}, {test::value_info("v", {-1, 4})})), !Contains("sqrt"));
    // A rank that is wrong is found where the shape is known.
    CHECK_THAT(refusal(rms_norm({1}, {test::value_info("v", {-1, 4})})),
               Contains("(Mul \"norm\")") && Contains("expected the axes from 1 on of (?, 4, 6)"));
}

TEST_CASE("A Range of floats or of 32-bit integers is folded, or refused with its numbers") {
    const auto range = [](const std::vector<test::Message>& numbers) {
        return test::ModelParts{
            .nodes = {node("Range", {"a", "b", "c"}, {"r"}, {}, "range"), node("Add", {"x", "r"}, {"y"})},
            .initializers = numbers,
            .inputs = {test::value_info("x", {-1, 4})}};
    };
    const auto floats = [&](float start, float limit, float delta) {
        return range({tensor("a", {}, {start}), tensor("b", {}, {limit}), tensor("c", {}, {delta})});
    };
    const auto row = (*test::import(floats(2, 0.25f, -0.5f)))(intq::Tensor::zeros(Shape(1, 4))).tensor();
    CHECK(std::vector<float>(row.flat<float>().begin(), row.flat<float>().end()) ==
          std::vector<float>{2, 1.5f, 1, 0.5f});
    CHECK_THAT(refusal(floats(0, 1, 0)), Contains("the delta is 0"));
    CHECK_THAT(refusal(floats(0, std::numeric_limits<float>::infinity(), 1)), Contains("is NaN or infinite"));
    CHECK_THAT(refusal(floats(0, 1, 1e-30f)), Contains("its result has too many elements"));
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const auto scalar = [](const std::string& name, std::int64_t value) { return int64_tensor(name, {value}); };
    CHECK_THAT(refusal(range({scalar("a", -most / 8), scalar("b", most), scalar("c", 1)})),
               Contains("its result has too many elements"));
    CHECK_THAT(refusal(range({scalar("a", 0), scalar("b", -most / 8), scalar("c", -most / 16)})),
               !Contains("too many"));  // three
    CHECK_THAT(refusal(range({tensor("a", {}, {0}), scalar("b", 4), scalar("c", 1)})),
               Contains("the limit has dtype int64, the start float32"));
}

TEST_CASE("A Where with a constant condition fills, and conditions on constants are computed") {
    const auto where = [](std::vector<std::string> inputs, float fill) {
        return test::ModelParts{
            .nodes = {node("Less", {"a", "b"}, {"less"}), node("Not", {"less"}, {"not"}),
                      node("Or", {"less", "not"}, {"all"}), node("And", {"all", "less"}, {"c"}),
                      node("Where", std::move(inputs), {"y"}, {}, "where")},
            .initializers = {tensor("a", {2, 1}, {1, 3}), tensor("b", {1, 3}, {0, 2, 4}), tensor("fill", {1}, {fill})},
            .inputs = {test::value_info("x", {-1, 2, 3})}};
    };
    const intq::Tensor x = intq::Tensor::from(Shape(1, 2, 3), {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f});
    const auto values = [&](const test::ModelParts& parts) {
        const intq::Tensor y = (*test::import(parts))(x).tensor();
        return std::vector<float>(y.flat<float>().begin(), y.flat<float>().end());
    };
    CHECK(values(where({"c", "fill", "x"}, -1e9f)) == std::vector<float>{1, -1e9f, -1e9f, 4, 5, -1e9f});
    CHECK(values(where({"c", "x", "fill"}, 0.5f)) == std::vector<float>{0.5f, 2, 3, 0.5f, 0.5f, 6});
    CHECK(values(where({"c", "x", "fill"}, 0.0f)) == std::vector<float>{0, 2, 3, 0, 0, 6});
    CHECK_THAT(graph::to_string(test::import(where({"c", "x", "fill"}, 0.0f))->graph()), Contains("[target=mul]"));
    CHECK_THAT(refusal(where({"x", "fill", "x"}, 0)), Contains("expected a constant"));
    CHECK_THAT(refusal(where({"c", "x", "x"}, 0)), Contains("both values are computed when the model runs"));
    CHECK_THAT(refusal(where({"c", "b", "x"}, 0)), Contains("the fill has other elements than one number"));
    CHECK_THAT(refusal(where({"a", "fill", "x"}, 0)), Contains("the condition has dtype float32, expected bool"));
    auto other = where({"c", "fill", "x"}, 0);
    other.inputs = {test::value_info("x", {-1, 1, 3})};
    CHECK_THAT(refusal(other), Contains("is repeated to"));
}

TEST_CASE("Constants are chosen by a condition, cut to triangles and expanded") {
    const auto added = [](std::vector<test::Message> nodes) {
        nodes.push_back(node("Add", {"x", "m"}, {"y"}));
        return test::ModelParts{
            .nodes = std::move(nodes),
            .initializers = {tensor("one", {}, {1}), tensor("two", {1}, {2}), int64_tensor("shape", {3, 3}),
                             int64_tensor("diagonal", {1}), int64_tensor("negative", {-2, 3})},
            .inputs = {test::value_info("x", {-1, 3, 3})}};
    };
    const auto sums = [&](const test::ModelParts& parts) {
        const intq::Tensor y = (*test::import(parts))(intq::Tensor::zeros(Shape(1, 3, 3))).tensor();
        return std::vector<float>(y.flat<float>().begin(), y.flat<float>().end());
    };
    const auto ones = node("Expand", {"one", "shape"}, {"ones"});
    CHECK(sums(added({ones, node("Trilu", {"ones"}, {"m"})})) == std::vector<float>{1, 1, 1, 0, 1, 1, 0, 0, 1});
    CHECK(sums(added({ones, node("Trilu", {"ones", "diagonal"}, {"m"}, {attribute("upper", 0)})})) ==
          std::vector<float>{1, 1, 0, 1, 1, 1, 1, 1, 1});
    CHECK(sums(added({ones, node("Trilu", {"ones"}, {"t"}), node("Cast", {"t"}, {"c"}, {attribute("to", 9)}),
                      node("Where", {"c", "two", "one"}, {"m"})})) == std::vector<float>{2, 2, 2, 1, 2, 2, 1, 1, 2});
    CHECK_THAT(refusal(added({node("Expand", {"one", "negative"}, {"m"})})), Contains("holds a negative extent"));
    CHECK_THAT(refusal(added({node("Trilu", {"one"}, {"m"})})), Contains("expected matrices"));
    CHECK_THAT(refusal(added({ones, node("And", {"ones", "ones"}, {"m"})})), Contains("dtype float32, expected bool"));
}

TEST_CASE("The axes of a Resize name which sizes or scales are given") {
    const auto resize = [](const Ints& axes, const Ints& sizes, std::int64_t opset = 18) {
        return test::ModelParts{
            .nodes = {node("Resize", {"x", "", "", "sizes"}, {"y"},
                           {attribute("mode", std::string("nearest")),
                            attribute("coordinate_transformation_mode", std::string("asymmetric")),
                            attribute("nearest_mode", std::string("floor")), attribute("axes", axes)},
                           "n")},
            .initializers = {int64_tensor("sizes", sizes)},
            .opset = opset};
    };
    const auto shape = [](const test::ModelParts& parts) {
        return intq::to_string((*test::import(parts))(intq::Tensor::zeros(Shape(3, 4, 6, 6))).tensor().shape());
    };
    CHECK(shape(resize({2, 3}, {9, 7})) == "(3, 4, 9, 7)");
    CHECK(shape(resize({-1, 2}, {7, 9})) == "(3, 4, 9, 7)");
    CHECK(shape(resize({3}, {7})) == "(3, 4, 6, 7)");
    CHECK_THAT(refusal(resize({1, 3}, {5, 7})), Contains("resize more than height and width"));
    CHECK_THAT(refusal(resize({2, 2}, {5, 7})), Contains("name one twice"));
    CHECK_THAT(refusal(resize({2}, {5, 7})), Contains("it has 1 axes and 2 sizes or scales"));
    CHECK_THAT(refusal(resize({2, 3}, {9, 7}, 17)), Contains("the attribute \"axes\" is not supported in opset 17"));
}

TEST_CASE("In ceil mode an average divides by the cells and the padding that counts, ONNX Runtime's of codes by all") {
    const auto pool = [](const std::string& op_type, const std::vector<std::string>& inputs,
                         const std::string& output) {
        return node(op_type, inputs, {output},
                    {attribute("kernel_shape", Ints{3, 2}), attribute("strides", Ints{2, 2}),
                     attribute("pads", Ints{1, 1, 0, 0}), attribute("ceil_mode", 1), attribute("count_include_pad", 1)},
                    "pool");
    };
    const auto of_codes = [&](std::int64_t height) {
        return test::ModelParts{
            .nodes = {node("QuantizeLinear", {"x", "s", "z"}, {"q"}),
                      pool("QLinearAveragePool", {"q", "s", "z", "s", "z"}, "p").text(7, "com.microsoft"),
                      node("DequantizeLinear", {"p", "s", "z"}, {"y"})},
            .initializers = {tensor("s", {}, {1.0f}), test::codes_tensor("z", {}, {0})},
            .inputs = {test::value_info("x", {-1, 1, height, 6})}};
    };
    const test::ModelParts of_values{.nodes = {pool("AveragePool", {"x"}, "y")},
                                     .inputs = {test::value_info("x", {-1, 1, 5, 6})}};
    const auto means = [](const test::ModelParts& parts) {
        const intq::Tensor y = (*test::import(parts))(intq::Tensor::full(Shape(1, 1, 5, 6), 6.0f)).tensor();
        CHECK(y.shape() == Shape(1, 1, 3, 4));
        return std::vector<float>(y.flat<float>().begin(), y.flat<float>().end());
    };
    // As ONNX Runtime 1.32 gives them, for 6 in each cell.
    CHECK(means(of_values) == std::vector<float>{2, 4, 4, 4, 3, 6, 6, 6, 3, 6, 6, 6});
    CHECK(means(of_codes(5)) == std::vector<float>{2, 4, 4, 2, 3, 6, 6, 3, 2, 4, 4, 2});
    CHECK_THAT(refusal(of_codes(-1)), Contains("needs the extents of the input, which are not known"));
}

TEST_CASE("Sizes of a Resize may repeat the number of samples as Shape gives it, which nobody knows before a run") {
    const auto with_sizes = [](const std::vector<std::int64_t>& x_shape, std::int64_t first, std::int64_t last,
                               const std::vector<std::int64_t>& more) {
        return test::ModelParts{
            .nodes = {node("Shape", {"x"}, {"s"}, {attribute("start", first), attribute("end", last)}, "shape"),
                      node("Concat", {"s", "a"}, {"sizes"}, {attribute("axis", 0)}, "concat"),
                      node("Resize", {"x", "", "", "sizes"}, {"y"},
                           {attribute("mode", std::string("nearest")),
                            attribute("coordinate_transformation_mode", std::string("asymmetric")),
                            attribute("nearest_mode", std::string("floor"))},
                           "n")},
            .initializers = {int64_tensor("a", more)},
            .inputs = {test::value_info("x", x_shape)}};
    };
    const auto module = test::import(with_sizes({-1, 4, 6, 6}, 0, 2, {9, 17}));
    CHECK((*module)(intq::Tensor::zeros(Shape(3, 4, 6, 6))).tensor().shape() == Shape(3, 4, 9, 17));
    CHECK_THAT(refusal(with_sizes({-1, 4, -1, 6}, 0, 3, {17})),
               Contains("the sizes (?, 4, ?, 17) are known only when the model runs"));
    CHECK_THAT(refusal(with_sizes({-1, 4, 6, 6}, 0, 1, {5, 9, 17})),
               Contains("the sizes (?, 5, 9, 17) resize more than height and width"));
}

TEST_CASE("Reductions take their axes as attribute or as input, by opset") {
    CHECK(text_of({.op_type = "ReduceMean", .attributes = {attribute("axes", Ints{2, 3}), attribute("keepdims", 0)}})
              .find("call_function[target=mean](args = (%x, [2, 3], False))") != std::string::npos);
    CHECK(text_of({.op_type = "ReduceSum", .constants = {int64_tensor("a", {-1})}})
              .find("call_function[target=sum](args = (%x, [-1], True))") != std::string::npos);
    CHECK_THAT(refusal({.op_type = "ReduceMean", .attributes = {attribute("axes", Ints{4})}}),
               Contains("axis 4 does not exist in shape (?, 4, 6, 6)"));
    const auto no_axes = [&](int noop) {
        return OneNode{.op_type = "ReduceMean", .attributes = {attribute("noop_with_empty_axes", noop)}, .opset = 18};
    };
    CHECK(text_of(no_axes(0)).find("call_function[target=mean](args = (%x, [], True))") != std::string::npos);
    CHECK(type_of(no_axes(1)) == "Identity");
    CHECK_THAT(refusal({.op_type = "ReduceMean", .attributes = {attribute("axes", Ints{1})}, .opset = 18}),
               Contains("the attribute \"axes\" is not supported in opset 18"));
}

TEST_CASE("Operators that move elements check their numbers before anything runs") {
    constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();
    CHECK_THAT(refusal({.op_type = "Transpose", .attributes = {attribute("perm", Ints{0, 1, 2, 2})}}),
               Contains("perm (0, 1, 2, 2) does not name each axis"));
    const auto slice = [](std::int64_t start, std::int64_t stop, std::int64_t axis, std::int64_t step) {
        return OneNode{.op_type = "Slice",
                       .constants = {int64_tensor("a", {start}), int64_tensor("b", {stop}), int64_tensor("c", {axis}),
                                     int64_tensor("d", {step})}};
    };
    const auto shape = [](const OneNode& one) {
        return intq::to_string((*one.import())(intq::Tensor::zeros(Shape(1, 4, 6, 6))).tensor().shape());
    };
    CHECK(shape(slice(1, far, 1, 2)) == "(1, 2, 6, 6)");
    CHECK(shape(slice(-far, -1, 2, far)) == "(1, 4, 1, 6)");
    CHECK(shape(slice(3, 1, 3, 1)) == "(1, 4, 6, 0)");
    CHECK(shape(slice(far, -far, 1, -3)) == "(1, 2, 6, 6)");
    CHECK(shape(slice(-2, 0, 2, -1)) == "(1, 4, 4, 6)");
    CHECK(shape(slice(2, 5, 2, -far)) == "(1, 4, 0, 6)");
    CHECK(shape(slice(5, -far, 3, -far - 1)) == "(1, 4, 6, 1)");
    CHECK_THAT(refusal(slice(0, 1, 1, 0)), Contains("the step is 0"));
    CHECK_THAT(refusal(slice(0, 1, 7, 1)), Contains("axis 7 does not exist"));
    const auto pad = [](Ints pads) { return OneNode{.op_type = "Pad", .constants = {int64_tensor("a", pads)}}; };
    CHECK(shape(pad({0, 0, 1, 0, 0, 2, 0, 3})) == "(1, 6, 7, 9)");
    CHECK_THAT(refusal(pad({0, 0, 0, 0, 0, 0, far, 0})), Contains("the pad 9223372036854775807 is not in ["));
    CHECK_THAT(refusal(pad({1, 1})), Contains("there are 2 pads for 4 axes"));
    const auto in_mode = [&](const char* mode, Ints pads) {
        return OneNode{.op_type = "Pad",
                       .attributes = {attribute("mode", std::string(mode))},
                       .constants = {int64_tensor("a", pads)}};
    };
    CHECK(shape(in_mode("reflect", {0, 0, 5, 0, 0, 2, 0, 5})) == "(1, 6, 11, 11)");
    CHECK(shape(in_mode("edge", {0, 0, 1, 0, 0, 2, 0, 30})) == "(1, 6, 7, 36)");
    CHECK_THAT(refusal(in_mode("wrap", Ints(8, 0))), Contains("the mode \"wrap\" is not supported"));
    CHECK_THAT(refusal(in_mode("edge", {0, 0, 0, 0, 0, 0, -1, 0})), Contains("the pad -1 is not in [0, "));
    CHECK_THAT(refusal(in_mode("reflect", {0, 0, 0, 0, 0, 0, 0, 6})),
               Contains("takes pads below the extent 6 of axis 3, given 0 and 6"));
    CHECK_THAT(
        refusal({.op_type = "Split", .attributes = {attribute("axis", 1)}, .constants = {int64_tensor("a", {3})}}),
        Contains("the sizes (3) of 1 outputs do not make up axis 1 of (?, 4, 6, 6)"));
    CHECK_THAT(
        refusal({.op_type = "Split", .attributes = {attribute("axis", 1)}, .constants = {int64_tensor("a", {far})}}),
        Contains("is not in [0, "));
}

TEST_CASE("Axes before the last one are padded where they are") {
    const OneNode one{.op_type = "Pad", .constants = {int64_tensor("a", {0, 1, 2, 0, 0, 0, 1, 0})}};
    intq::Tensor x = intq::Tensor::zeros(Shape(2, 4, 6, 6));
    for (std::size_t i = 0; i < 288; ++i) reinterpret_cast<float*>(x.data())[i] = static_cast<float>(i + 1);
    const intq::Tensor y = (*one.import())(x).tensor().contiguous();
    REQUIRE(y.shape() == Shape(2, 5, 9, 6));
    for (std::size_t i = 0; i < 540; ++i) {
        const std::size_t n = i / 270, c = i / 54 % 5, h = i / 6 % 9, w = i % 6;
        const bool is_inside = c >= 1 && h >= 2 && h < 8;
        CHECK(y.flat<float>()[i] == (is_inside ? x.flat<float>()[((n * 4 + c - 1) * 6 + h - 2) * 6 + w] : 0.0f));
    }
    OneNode tokens{.op_type = "Pad", .constants = {int64_tensor("a", {0, 1, 0, 0, 0, 0})}, .x_shape = {-1, 3, 2}};
    const intq::Tensor z =
        (*tokens.import())(intq::Tensor::from(Shape(1, 3, 2), {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f})).tensor();
    REQUIRE(z.shape() == Shape(1, 4, 2));
    const intq::Tensor rows = z.contiguous();
    CHECK(std::vector<float>(rows.flat<float>().begin(), rows.flat<float>().end()) ==
          std::vector<float>{0, 0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("Resize is one of PyTorch's four rules or ONNX's default, on height and width only") {
    const auto resize = [](const std::string& mode, const std::string& place, std::vector<float> scales) {
        return OneNode{
            .op_type = "Resize",
            .attributes = {attribute("mode", mode), attribute("coordinate_transformation_mode", place)},
            .constants = {filled("a", {8}), tensor("b", {static_cast<std::int64_t>(scales.size())}, scales)}};
    };
    const auto module = resize("linear", "align_corners", {1, 1, 2, 0.5f}).import();
    CHECK((*module)(intq::Tensor::zeros(Shape(1, 4, 6, 6))).tensor().shape() == Shape(1, 4, 12, 3));
    CHECK(dynamic_cast<const nn::Upsample&>(module->find("n")).options().rule ==
          nn::float_operators::Resize::align_corners);
    // 6·0.6 is not whole: corners of a length between two numbers, which ONNX's definition and its runtimes see
    // otherwise.
    CHECK_THAT(refusal(resize("linear", "align_corners", {1, 1, 2, 0.6f})),
               Contains("align_corners with ONNX's scales 2.000000 and 0.600000 needs whole sizes, given 6 x 6"));
    CHECK(dynamic_cast<const nn::Upsample&>(module->find("n")).options().scale_factor->origin ==
          arith::ResizeOrigin::onnx_factor);
    CHECK_THAT(refusal(resize("nearest", "half_pixel", {1, 1, 2, 2})), Contains("not refused"));
    CHECK_THAT(refusal(resize("nearest", "align_corners", {1, 1, 2, 2})),
               Contains("the mode nearest with align_corners and round_prefer_floor is not supported"));
    CHECK_THAT(refusal(resize("linear", "half_pixel", {1, 2, 2, 2})), Contains("the scales must be 1, 1 and two"));
    CHECK_THAT(refusal(resize("linear", "half_pixel", {1, 1, 3e38f, 2})), Contains("extents must be 1 to"));
    CHECK_THAT(refusal(resize("linear", "pytorch_half_pixel", {1, 1, 0.17f, 2})), Contains("one output cell"));
}

TEST_CASE("A cubic Resize is a Linear along each axis that it changes, with the cells of PyTorch and ONNX Runtime") {
    const auto resize = [](const std::string& place, std::vector<float> scales, Ints sizes, Ints shape,
                           float coefficient = -0.75f) {
        std::vector<test::Message> constants{filled("a", {0})};
        constants.push_back(tensor("b", {static_cast<std::int64_t>(scales.size())}, scales));
        if (!sizes.empty()) constants.push_back(int64_tensor("c", sizes));
        return OneNode{
            .op_type = "Resize",
            .attributes = {attribute("mode", std::string("cubic")), attribute("coordinate_transformation_mode", place),
                           attribute("cubic_coeff_a", coefficient)},
            .constants = constants,
            .x_shape = std::move(shape)};
    };
    const auto row = intq::Tensor::from(Shape(1, 1, 1, 4), std::vector<float>{3, -1, 4, 2});
    const auto image = intq::Tensor::from(Shape(1, 1, 2, 3), std::vector<float>{3, -1, 4, 2, 5, -3});
    struct Case {
        OneNode one;
        intq::Tensor x;
        std::vector<float> cells;
    };
    const Ints line{-1, 1, 1, 4}, small{-1, 1, 2, 3};
    // torch 2.15: interpolate(x, size, mode="bicubic") and align_corners=True; onnxruntime 1.32 for the others.
    const Case cases[] = {
        {resize("half_pixel", {}, {1, 1, 1, 8}, line),
         row,
         {3.421875f, 1.91796875f, -0.62109375f, -0.21875f, 2.9375f, 4.07421875f, 2.62890625f, 1.7890625f}},
        {resize("align_corners", {}, {1, 1, 1, 7}, line), row, {3, 0.53125f, -1, 1.3125f, 4, 3.46875f, 2}},
        {resize("half_pixel", {}, {1, 1, 3, 5}, small),
         image,
         {3.5291395f, 0.8577917f, -1.5208337f, 1.8980435f, 5.1959739f, 2.548f, 2.414f, 2, 1.046f, 0.3560002f, 1.566862f,
          3.9702075f, 5.5208325f, 0.1939576f, -4.4839711f}},
        {resize("half_pixel", {1, 1, 1, 1.6f}, {}, line),
         row,
         {3.3713379f, 0.8770142f, -0.9108887f, 2.5583496f, 3.9691772f, 2.1130981f}},
        {resize("asymmetric", {1, 1, 1, 2.5f}, {}, line, -0.5f),
         row,
         {3, 1.2559993f, -0.7120012f, -0.4640005f, 2.0719995f, 4, 3.6079998f, 2.3840003f, 1.871999f, 1.904f}},
    };
    for (const Case& c : cases) {
        const intq::Tensor y = (*c.one.import())(c.x).tensor();
        REQUIRE(y.flat<float>().size() == c.cells.size());
        for (std::size_t i = 0; i < c.cells.size(); ++i)
            CHECK(std::fabs(y.contiguous().flat<float>()[i] - c.cells[i]) < 2e-5f);
    }
    CHECK(test::type_of(cases[0].one) == "Linear");
    CHECK(test::type_of(cases[2].one) == "LinearLinear");
    CHECK(test::type_of(resize("half_pixel", {1, 1, 1, 1}, {}, line)) == "Identity");
    CHECK_THAT(refusal(resize("tf_crop_and_resize", {1, 1, 2, 2}, {}, line)),
               Contains("the mode cubic with tf_crop_and_resize is not supported"));
    CHECK_THAT(refusal(resize("half_pixel", {1, 1, 2, 2}, {}, line, -2.0f)),
               Contains("cubic_coeff_a is -2.000000, expected -1 to 0"));
    CHECK_THAT(refusal(resize("half_pixel", {1, 1, 2, 2}, {}, {-1, 1, -1, 4})),
               Contains("must have a known extent of 1 to 4096"));
}

namespace {

/// A graph of x (-1, 4) with a float weight (4, 3), of which each column has a scale.
test::ModelParts with_weight(std::vector<Message> nodes, std::vector<Message> more = {}) {
    test::ModelParts parts{.nodes = std::move(nodes),
                           .initializers = {tensor("w", {4, 3}, {1, 2, 4, -1, -2, -4, 0.4f, 0.8f, 50, 0, 0, 0}),
                                            tensor("s", {3}, {1, 2, 4}), test::codes_tensor("z", {3}, {0, 0, 0}),
                                            tensor("one", {}, {1.0f}), test::codes_tensor("low", {}, {-2}),
                                            test::codes_tensor("high", {}, {3})},
                           .inputs = {test::value_info("x", {-1, 4})}};
    for (Message& message : more) parts.initializers.push_back(std::move(message));
    return parts;
}

interop::onnx::LayerCodes layer_codes(const test::ModelParts& parts, const std::string& name) {
    return interop::onnx::import_with_codes(interop::onnx::parse_model(test::model(parts).bytes(), "m"))
        .layers.at(name);
}

std::vector<float> values_of(const intq::Tensor& tensor) {
    const intq::Tensor copy = tensor.contiguous();
    return {copy.flat<float>().begin(), copy.flat<float>().end()};
}

}  // namespace

TEST_CASE("A weight that the file quantizes has its codes and scales, whatever moves or bounds it on its way") {
    const Message axis0 = attribute("axis", 0), axis1 = attribute("axis", 1), last = attribute("axis", -1);
    const auto turn = [](const std::string& from, const std::string& to) { return node("Transpose", {from}, {to}); };
    const auto quantize = [](const std::string& from, const Message& axis) {
        return node("QuantizeLinear", {from, "s", "z"}, {"q"}, {axis});
    };
    const auto dequantize = [](const std::string& from, const std::string& to, const Message& axis) {
        return node("DequantizeLinear", {from, "s", "z"}, {to}, {axis});
    };
    const Message product = node("MatMul", {"x", "d"}, {"y"}, {}, "n");
    const Message rows = node("Gemm", {"x", "d"}, {"y"}, {attribute("transB", 1)}, "n");
    // rint(w / s)·s, as Linear has it: a row for each output.
    const std::vector<float> whole{1, -1, 0, 0, 2, -2, 0, 0, 4, -4, 48, 0};
    const std::vector<std::vector<Message>> ways{
        {quantize("w", axis1), dequantize("q", "d", last), product},
        {turn("w", "t"), quantize("t", axis0), dequantize("q", "d", axis0), rows},
        {turn("w", "t"), quantize("t", axis0), turn("q", "u"), dequantize("u", "d", axis1), product},
        {turn("w", "t"), quantize("t", axis0), dequantize("q", "u", attribute("axis", -2)), turn("u", "d"), product},
        {quantize("w", axis1), dequantize("q", "u", axis1), node("Reshape", {"u", "pairs"}, {"v"}),
         node("Flatten", {"v"}, {"d"}, {attribute("axis", 2)}), product},
        {quantize("w", axis1), node("Identity", {"q"}, {"i"}), dequantize("i", "u", axis1),
         node("Cast", {"u"}, {"d"}, {attribute("to", 1)}), product}};
    for (std::size_t i = 0; i < ways.size(); ++i) {
        INFO("way " << i);
        const auto codes = layer_codes(with_weight(ways[i], {int64_tensor("pairs", {2, 2, 3})}), "n");
        CHECK(values_of(codes.weight) == whole);
        REQUIRE(codes.grid.has_value());
        CHECK(codes.grid->scales == std::vector<float>{1, 2, 4});
        CHECK(codes.grid->axis == 0);
    }
    const auto clipped = layer_codes(with_weight({quantize("w", axis1), node("Clip", {"q", "low", "high"}, {"c"}),
                                                  dequantize("c", "d", axis1), product}),
                                     "n");
    CHECK(values_of(clipped.weight) == std::vector<float>{1, -1, 0, 0, 2, -2, 0, 0, 4, -4, 12, 0});
    // Its channels are joined with others, so the scales say nothing of an axis: real numbers.
    const auto module =
        test::import(with_weight({quantize("w", axis1), dequantize("q", "u", axis1),
                                  node("Reshape", {"u", "row"}, {"v"}), node("Reshape", {"v", "back"}, {"d"}), product},
                                 {int64_tensor("row", {12}), int64_tensor("back", {4, 3})}));
    CHECK(values_of(dynamic_cast<const nn::Weighted&>(module->find("n")).weight()) == whole);
}

TEST_CASE("A zero point of a weight may be cast to the type of the codes") {
    const auto parts = [](std::int64_t code, float zero) {
        return with_weight(
            {node("Cast", {"wide"}, {"zero"}, {attribute("to", code)}, "cast"),
             node("QuantizeLinear", {"w", "one", "zero"}, {"q"}), node("DequantizeLinear", {"q", "one", "zero"}, {"d"}),
             node("MatMul", {"x", "d"}, {"y"}, {}, "n")},
            {tensor("wide", {}, {zero})});
    };
    CHECK(values_of(layer_codes(parts(3, 0), "n").weight) ==
          std::vector<float>{1, -1, 0, 0, 2, -2, 1, 0, 4, -4, 50, 0});
    CHECK(layer_codes(parts(2, 128), "n").grid->zero_points.empty());
    CHECK_THAT(refusal(parts(2, 256)), Contains("(Cast \"cast\")") && Contains("does not fit"));
    CHECK_THAT(refusal(parts(4, 0)),
               Contains("a cast of a constant to uint16 is not supported") && Contains("int8, uint8, int16"));
    CHECK(OneNode{.op_type = "Cast", .attributes = {attribute("to", 1)}}.import()->graph().size() == 2);
    CHECK_THAT(refusal({.op_type = "Cast", .attributes = {attribute("to", 7)}}),
               Contains("a value is cast to int64, which is not supported; expected float32"));
    CHECK_THAT(refusal({.op_type = "Cast", .attributes = {attribute("to", 10)}}),
               Contains("a value is cast to float16"));
    CHECK_THAT(refusal({.op_type = "Cast", .attributes = {attribute("to", -9)}}),
               Contains("a value is cast to a type of the unknown code -9"));
}

TEST_CASE("alpha of a Gemm is part of the scale of its weight, and beta takes the codes of the bias away") {
    const auto parts = [](std::vector<Message> attributes) {
        return with_weight({node("QuantizeLinear", {"w", "one"}, {"q"}), node("DequantizeLinear", {"q", "one"}, {"d"}),
                            node("DequantizeLinear", {"b", "one"}, {"bias"}),
                            node("Gemm", {"x", "d", "bias"}, {"y"}, std::move(attributes), "n")},
                           {Message().integers(1, {3}).integer(2, test::int32).integers(5, {5, 6, 7}).text(8, "b")});
    };
    const auto plain = layer_codes(parts({}), "n");
    CHECK(plain.grid->scales == std::vector<float>{1});
    CHECK(plain.bias_codes == std::vector<std::int32_t>{5, 6, 7});
    const auto half = layer_codes(parts({attribute("alpha", 0.5f)}), "n");
    CHECK(half.grid->scales == std::vector<float>{0.5f});
    CHECK(values_of(half.weight)[8] == 2.0f);
    CHECK(layer_codes(parts({attribute("beta", 2.0f)}), "n").bias_codes.empty());
    const auto on_codes = [](float alpha) {
        return with_weight(
            {node("QuantizeLinear", {"x", "one"}, {"q"}),
             node("QGemm", {"q", "one", "", "codes", "one", "", "b"}, {"y"}, {attribute("alpha", alpha)}, "n")
                 .text(7, "com.microsoft")},
            {Message().integers(1, {1, 3}).integer(2, test::int32).integers(5, {5, 6, 7}).text(8, "b"),
             test::codes_tensor("codes", {4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})});
    };
    const auto quarter = layer_codes(on_codes(0.25f), "n");
    CHECK(quarter.grid->scales == std::vector<float>{0.25f});
    CHECK(quarter.bias_scales == std::vector<float>{0.25f});
    CHECK(quarter.bias_codes == std::vector<std::int32_t>{5, 6, 7});
    CHECK_THAT(refusal(on_codes(-1.0f)), Contains("alpha is -1.000000, expected a positive number"));
}

TEST_CASE("A quantized constant that no layer takes is a buffer with its quantizer, in the order of the file") {
    const auto quantized = [](const std::string& from) {
        return std::vector<Message>{
            node("QuantizeLinear", {from, "one"}, {from + "_q"}, {}, from + "_quantizer"),
            node("DequantizeLinear", {from + "_q", "one"}, {from + "_d"}, {}, from + "_dequantizer")};
    };
    std::vector<Message> nodes = quantized("a");
    for (const Message& message : quantized("b")) nodes.push_back(message);
    nodes.push_back(node("Add", {"x", "b_d"}, {"more"}, {}, "first"));
    nodes.push_back(node("Add", {"more", "a_d"}, {"y"}, {}, "second"));
    const auto module = test::import(
        {.nodes = nodes,
         .initializers = {tensor("a", {1, 4}, {1, 2, 3, 0.4f}), filled("b", {1, 4}, 2.6f), tensor("one", {}, {1.0f})},
         .inputs = {test::value_info("x", {-1, 4})}});
    const std::string text = graph::to_string(module->graph());
    const std::size_t a = text.find("call_module[target=a_quantizer]"),
                      b = text.find("call_module[target=b_quantizer]");
    REQUIRE(b != std::string::npos);
    CHECK(a < b);
    CHECK(values_of((*module)(intq::Tensor::zeros(Shape(1, 4))).tensor()) == std::vector<float>{4, 5, 6, 3});
}

TEST_CASE("A Clip of codes leaves a narrower range of them, and its bounds are codes of their type") {
    const auto parts = [](std::vector<std::string> inputs, std::vector<Message> more) {
        return with_weight({node("QuantizeLinear", {"x", "one"}, {"q"}), node("Clip", inputs, {"c"}, {}, "clip"),
                            node("DequantizeLinear", {"c", "one"}, {"y"})},
                           std::move(more));
    };
    const auto code = [](const std::string& name, std::int64_t value) {
        return Message().integer(2, test::uint8).integers(5, {value}).text(8, name);
    };
    const auto module = test::import(parts({"q", "", "most"}, {code("most", 15)}));
    const auto x = intq::Tensor::from(Shape(1, 4), {-1.0f, 3.0f, 14.6f, 200.0f});
    CHECK(values_of((*module)(x).tensor()) == std::vector<float>{0, 3, 15, 15});
    CHECK_THAT(refusal(parts({"q", "low", "high"}, {})),
               Contains("(Clip \"clip\")") && Contains("the min has dtype int8") && Contains("of dtype uint8"));
    CHECK_THAT(refusal(parts({"q", "least", "most"}, {code("least", 15), code("most", 15)})),
               Contains("no range of codes: 15 to 15"));
}

TEST_CASE("A zero point is of the type of the codes, and one that is left out is 0 of theirs") {
    const auto parts = [](std::vector<std::string> made, std::vector<std::string> read,
                          std::vector<Message> more = {}) {
        return with_weight(
            {node("QuantizeLinear", made, {"q"}, std::move(more)), node("DequantizeLinear", read, {"y"}, {}, "read")},
            {test::codes_tensor("zero", {}, {0})});
    };
    CHECK(refusal(parts({"x", "one"}, {"q", "one"})) == "not refused");
    CHECK(refusal(parts({"x", "one"}, {"q", "one"}, {attribute("output_dtype", 3)})) == "not refused");
    CHECK(refusal(parts({"x", "one"}, {"q", "one", "zero"}, {attribute("output_dtype", 3)})) == "not refused");
    CHECK_THAT(refusal(parts({"x", "one"}, {"q", "one", "zero"})),
               Contains("(DequantizeLinear \"read\")") && Contains("the codes have dtype uint8, the zero point int8"));
}
