// SPDX-License-Identifier: MIT
#include "intq/quantization/fuse/fuse_fx.hpp"

#include <span>

#include "intq/graph/print.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using quantization::fuse_fx;
using quantization::FuseReport;
using test::make_model;
using test::message_of;

namespace {

enum class AddSpelling { none, module_left, module_right, function_left, plus_right };

struct Sequence {
    bool norm = false;
    AddSpelling add = AddSpelling::none;
    Activation activation = Activation::none;
    bool activation_is_function = false;
};

// A layer with weights, and what stands around it.
struct Kind {
    nn::ModulePtr layer, norm;
    std::string before, after;  // of the fused layer's name
    Shape input;
};

std::vector<Kind> kinds() {
    const index_t channels = 3;
    const nn::ModulePtr norm2d = test::make_batch_norm<nn::BatchNorm2d>(channels, 2);
    const nn::ModulePtr norm1d = test::make_batch_norm<nn::BatchNorm1d>(channels, 2);
    const auto conv1d =
        std::make_shared<nn::Conv1d>(nn::Conv1dOptions{.in_channels = 3, .out_channels = 3, .kernel = 3, .padding = 1});
    const auto transposed = std::make_shared<nn::ConvTranspose2d>(
        nn::ConvTranspose2dOptions{.in_channels = 3, .out_channels = 3, .window = nn::square_window(3, 1, 1)});
    const nn::ModulePtr norm3d = test::make_batch_norm<nn::BatchNorm3d>(channels, 2);
    const auto transposed1d = std::make_shared<nn::ConvTranspose1d>(nn::ConvTranspose1dOptions{3, 3, 3, 1, 1});
    const nn::DepthWindow depth{.kernel = 3, .padding = 1};
    const auto conv3d = std::make_shared<nn::Conv3d>(nn::Conv3dOptions{3, 3, depth, nn::square_window(3, 1, 1)});
    const auto transposed3d =
        std::make_shared<nn::ConvTranspose3d>(nn::ConvTranspose3dOptions{3, 3, depth, nn::square_window(3, 1, 1)});
    for (const std::shared_ptr<nn::Weighted>& layer :
         std::vector<std::shared_ptr<nn::Weighted>>{conv1d, transposed, transposed1d, conv3d, transposed3d}) {
        layer->set_weight(test::random_tensor(layer->weight().shape(), 5));
        layer->set_bias(test::random_tensor(Shape(channels), 6));
    }
    return {{test::make_conv(channels, channels, 3, 1), norm2d, "Conv", "2d", Shape(2, 3, 5, 5)},
            {conv1d, norm1d, "Conv", "1d", Shape(2, 3, 7)},
            {transposed, norm2d, "ConvTranspose", "2d", Shape(2, 3, 5, 5)},
            {transposed1d, norm1d, "ConvTranspose", "1d", Shape(2, 3, 7)},
            {conv3d, norm3d, "Conv", "3d", Shape(2, 3, 4, 3, 3)},
            {transposed3d, norm3d, "ConvTranspose", "3d", Shape(2, 3, 4, 3, 3)},
            {test::make_linear(channels, channels, 1), norm1d, "Linear", "", Shape(4, 3)}};
}

// The layer, then what the sequence asks; the other operand of the add is the input's Identity.
nn::ModulePtr model_of(const Kind& kind, const Sequence& s) {
    const nn::ModulePtr clamp = s.activation == Activation::relu6 ? nn::ModulePtr(std::make_shared<nn::ReLU6>())
                                                                  : nn::ModulePtr(std::make_shared<nn::ReLU>());
    return make_model({{"other", std::make_shared<nn::Identity>()},
                       {"layer", nn::clone(kind.layer)},
                       {"norm", nn::clone(kind.norm)},
                       {"sum", std::make_shared<nn::FloatFunctional>()},
                       {"clamp", clamp}},
                      [s](test::LambdaModel& m, nn::Arguments x) {
                          const nn::Value other = m.call("other", x[0]);
                          nn::Value y = m.call("layer", x[0]);
                          if (s.norm) y = m.call("norm", y);
                          switch (s.add) {
                              case AddSpelling::none:
                                  break;
                              case AddSpelling::module_left:
                                  y = nn::call_add(m, "sum", y, other);
                                  break;
                              case AddSpelling::module_right:
                                  y = nn::call_add(m, "sum", other, y);
                                  break;
                              case AddSpelling::function_left:
                                  y = nn::add(y, other);
                                  break;
                              case AddSpelling::plus_right:
                                  y = other + y;
                                  break;
                          }
                          if (s.activation == Activation::none) return y;
                          if (!s.activation_is_function) return m.call("clamp", y);
                          return s.activation == Activation::relu6 ? nn::relu6(y) : nn::relu(y);
                      });
}

std::string expected_type(const Kind& kind, const Sequence& s) {
    const std::string activation = s.activation == Activation::relu    ? "ReLU"
                                   : s.activation == Activation::relu6 ? "ReLU6"
                                                                       : "";
    return kind.before + (s.add != AddSpelling::none ? "Add" : "") + activation + kind.after;
}

std::string call_names(const graph::GraphModule& model) {
    std::string text;
    for (const graph::Node* node : model.graph().nodes()) text += node->name() + " ";
    return text;
}

}  // namespace

TEST_CASE("Every sequence becomes one module: with bn, add on either side in every spelling, relu and relu6") {
    int fused = 0;
    for (const Kind& kind : kinds())
        for (const bool norm : {false, true})
            for (const AddSpelling add : {AddSpelling::none, AddSpelling::module_left, AddSpelling::module_right,
                                          AddSpelling::function_left, AddSpelling::plus_right})
                for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6})
                    for (const bool is_function : {false, true}) {
                        const Sequence sequence{norm, add, activation, is_function};
                        if (!norm && add == AddSpelling::none && activation == Activation::none) continue;
                        const nn::ModulePtr model = model_of(kind, sequence);
                        FuseReport report;
                        const auto result = fuse_fx(*model, {}, &report);
                        INFO(expected_type(kind, sequence) << " norm " << norm << " add " << static_cast<int>(add));
                        REQUIRE(report.fused.size() == 1);
                        CHECK(report.fused[0].module == "layer");
                        CHECK(report.fused[0].type == expected_type(kind, sequence));
                        CHECK(report.blocked.empty());
                        CHECK(call_names(*result) == "x other layer output ");
                        CHECK(result->find("layer").type_name() == expected_type(kind, sequence));
                        const intq::Tensor x = test::random_tensor(kind.input, 11);
                        CHECK(test::largest_difference((*model)(x).tensor(), (*result)(x).tensor()) < 1e-5);
                        ++fused;
                    }
    CHECK(fused == 7 * (2 * 5 * 3 * 2 - 2));
}

TEST_CASE("The other slots of a fused chain become Identity, the model itself stays as it was") {
    const nn::ModulePtr model = model_of(kinds()[0], {true, AddSpelling::module_left, Activation::relu});
    const auto fused = fuse_fx(*model);
    for (const char* slot : {"norm", "sum", "clamp"}) CHECK(fused->find(slot).type_name() == "Identity");
    CHECK(model->find("layer").type_name() == "Conv2d");
    CHECK(model->find("norm").type_name() == "BatchNorm2d");
    const auto& members = dynamic_cast<const nn::Weighted&>(fused->find("layer")).members();
    REQUIRE(members.size() == 4);
    CHECK(members[1].module == "norm");
    CHECK(members[2].type == "FloatFunctional");
    CHECK(members[3].type == "ReLU");
}

TEST_CASE("Batch norm is folded with PyTorch's formula, into a bias that was not there too") {
    const auto model =
        make_model({{"conv", test::make_conv(2, 2, 1, 1, 1, 1, false)},
                    {"bn", std::make_shared<nn::BatchNorm2d>(nn::BatchNormOptions{2, 0.0})}},
                   [](test::LambdaModel& m, nn::Arguments x) { return m.call("bn", m.call("conv", x[0])); });
    model->find("conv").tensor("weight") = intq::Tensor::from(Shape(2, 2, 1, 1), {1.0f, 2.0f, 3.0f, 4.0f});
    nn::Module& norm = model->find("bn");
    norm.tensor("weight") = intq::Tensor::from(Shape(2), {2.0f, 0.0f});
    norm.tensor("bias") = intq::Tensor::from(Shape(2), {1.0f, 7.0f});
    norm.tensor("running_mean") = intq::Tensor::from(Shape(2), {3.0f, 1.0f});
    norm.tensor("running_var") = intq::Tensor::from(Shape(2), {4.0f, 1.0f});
    const auto fused = fuse_fx(*model);
    const auto& conv = dynamic_cast<const nn::Conv2d&>(fused->find("conv"));
    CHECK(conv.type_name() == "Conv2d");
    // factor 2/2 and 0; bias (0 - 3)/2·2 + 1 and 7.
    CHECK(std::vector<float>(conv.weight().flat<float>().begin(), conv.weight().flat<float>().end()) ==
          std::vector<float>{1, 2, 0, 0});
    CHECK(std::vector<float>(conv.bias().flat<float>().begin(), conv.bias().flat<float>().end()) ==
          std::vector<float>{-2, 7});
    model->train();
    CHECK(message_of<Error>([&] { fuse_fx(*model); }).find("call eval() on the model first") != std::string::npos);
}

TEST_CASE("A batch norm that no convolution takes becomes one with its relu or relu6, in training too") {
    for (const bool is_relu6 : {false, true})
        for (const bool is_function : {false, true}) {
            const nn::ModulePtr clamp =
                is_relu6 ? nn::ModulePtr(std::make_shared<nn::ReLU6>()) : nn::ModulePtr(std::make_shared<nn::ReLU>());
            const auto model = make_model({{"norm", test::make_batch_norm<nn::BatchNorm2d>(3, 2)}, {"clamp", clamp}},
                                          [=](test::LambdaModel& m, nn::Arguments x) {
                                              const nn::Value y = m.call("norm", x[0]);
                                              if (!is_function) return m.call("clamp", y);
                                              return is_relu6 ? nn::relu6(y) : nn::relu(y);
                                          });
            const intq::Tensor x = test::random_tensor(Shape(2, 3, 5, 5), 11, 3.0f);
            for (const bool training : {false, true}) {
                model->train(training);
                const auto fused = fuse_fx(*model);
                CHECK(call_names(*fused) == "x norm output ");
                CHECK(fused->find("norm").type_name() == (is_relu6 ? "BNReLU62d" : "BNReLU2d"));
                CHECK(fused->find("norm").training() == training);
                CHECK(test::largest_difference((*model)(x).tensor(), (*fused)(x).tensor()) == 0);
            }
            const auto fused = fuse_fx(*model);
            const auto& members = dynamic_cast<const nn::FusedFrom&>(fused->find("norm")).members();
            REQUIRE(members.size() == 2);
            CHECK(members[0].type == "BatchNorm2d");
        }
    // The same in one dimension and in three.
    const auto fused_type = [](const nn::ModulePtr& norm, const nn::ModulePtr& clamp, const Shape& shape) {
        const auto model = make_model({{"norm", norm}, {"clamp", clamp}}, [](test::LambdaModel& m, nn::Arguments x) {
            return m.call("clamp", m.call("norm", x[0]));
        });
        const auto fused = fuse_fx(*model);
        const intq::Tensor x = test::random_tensor(shape, 12, 3.0f);
        CHECK(test::largest_difference((*model)(x).tensor(), (*fused)(x).tensor()) == 0);
        return fused->find("norm").type_name();
    };
    CHECK(fused_type(test::make_batch_norm<nn::BatchNorm1d>(3, 2), std::make_shared<nn::ReLU>(), Shape(2, 3, 4)) ==
          "BNReLU1d");
    CHECK(fused_type(test::make_batch_norm<nn::BatchNorm3d>(3, 2), std::make_shared<nn::ReLU6>(),
                     Shape(2, 3, 4, 2, 2)) == "BNReLU63d");
    // A convolution before it goes first, unless something else reads it.
    const auto read_twice =
        make_model({{"conv", test::make_conv(3, 3, 3, 1)}, {"norm", test::make_batch_norm<nn::BatchNorm2d>(3, 2)}},
                   [](test::LambdaModel& m, nn::Arguments x) {
                       const nn::Value y = m.call("conv", x[0]);
                       return nn::Value(nn::Value::Tuple{nn::relu(m.call("norm", y)), y});
                   });
    FuseReport report;
    CHECK(fuse_fx(*read_twice, {}, &report)->find("norm").type_name() == "BNReLU2d");
    REQUIRE(report.blocked.size() == 1);
    CHECK(report.blocked[0].operators == "conv2d-batch_norm2d-relu");
    CHECK(report.blocked[0].reason == "its value is used by %norm, %output");
}

TEST_CASE("In a residual network each block fuses, and a ReLU that is called twice is not an obstacle") {
    test::ResidualNet model(4);
    FuseReport report;
    const auto fused = fuse_fx(model, {}, &report);
    CHECK(report.blocked.empty());
    CHECK(call_names(*fused) ==
          "x quant stem layer1_0_conv1 layer1_0_conv2 layer1_1_conv1 layer1_1_conv2 depthwise pool flatten fc dequant "
          "output ");
    CHECK(fused->find("layer1.0.conv2").type_name() == "ConvAddReLU2d");
    CHECK(fused->find("layer1.1.conv1").type_name() == "ConvReLU2d");
    CHECK(fused->find("layer1.0.relu").type_name() == "Identity");
    CHECK(fused->find("depthwise").type_name() == "ConvReLU62d");
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 6, 6), 5);
    CHECK(test::largest_difference(model(x).tensor(), (*fused)(x).tensor()) < 1e-4);
}

TEST_CASE("Of two convolutions the first argument's is fused, the other stays an ordinary operand") {
    const auto model = make_model({{"a", test::make_conv(2, 2, 3, 1)}, {"b", test::make_conv(2, 2, 3, 2)}},
                                  [](test::LambdaModel& m, nn::Arguments x) {
                                      const nn::Value left = m.call("a", x[0]);
                                      return left + m.call("b", x[0]);
                                  });
    const auto fused = fuse_fx(*model);
    CHECK(fused->find("a").type_name() == "ConvAdd2d");
    CHECK(fused->find("b").type_name() == "Conv2d");
    CHECK(call_names(*fused) == "x b a output ");
    const intq::Tensor x = test::random_tensor(Shape(1, 2, 4, 4), 5);
    CHECK(test::largest_difference((*model)(x).tensor(), (*fused)(x).tensor()) < 1e-5);
}

TEST_CASE("What blocks a fusion is reported with its reason") {
    SECTION("an intermediate that is used elsewhere") {
        const auto model = make_model({{"conv", test::make_conv(2, 2, 3, 1)},
                                       {"bn", test::make_batch_norm<nn::BatchNorm2d>(2, 2)},
                                       {"relu", std::make_shared<nn::ReLU>()}},
                                      [](test::LambdaModel& m, nn::Arguments x) {
                                          const nn::Value y = m.call("bn", m.call("conv", x[0]));
                                          return nn::Value(nn::Value::Tuple{m.call("relu", y), y});
                                      });
        FuseReport report;
        const auto fused = fuse_fx(*model, {}, &report);
        REQUIRE(report.blocked.size() == 1);
        CHECK(report.blocked[0].node == "bn");
        CHECK(report.blocked[0].operators == "conv2d-batch_norm2d-relu");
        CHECK(report.blocked[0].reason == "its value is used by %relu, %output");
        REQUIRE(report.fused.size() == 1);
        CHECK(report.fused[0].operators == "conv2d-batch_norm2d");
        CHECK(fused->find("relu").type_name() == "ReLU");
    }
    SECTION("a shared module") {
        const auto shared = test::make_conv(2, 2, 3, 1);
        const auto model =
            make_model({{"first", shared}, {"second", shared}}, [](test::LambdaModel& m, nn::Arguments x) {
                return nn::relu(m.call("second", nn::relu(m.call("first", x[0]))));
            });
        FuseReport report;
        const auto fused = fuse_fx(*model, {}, &report);
        CHECK(report.fused.empty());
        REQUIRE(report.blocked.size() == 2);
        CHECK(report.blocked[0].reason == "the module \"first\" is shared by %first, %first_1");
        CHECK(fused->find("first").type_name() == "Conv2d");
    }
}

TEST_CASE("A batch norm behind a linear layer on rows counts another axis, stays apart and is reported") {
    const auto model = [](index_t features, index_t counted) {
        return make_model(
            {{"fc", test::make_linear(5, features, 1)},
             {"bn", test::make_batch_norm<nn::BatchNorm1d>(counted, 2)},
             {"relu", std::make_shared<nn::ReLU>()}},
            [](test::LambdaModel& m, nn::Arguments x) { return m.call("relu", m.call("bn", m.call("fc", x[0]))); });
    };
    const auto fuse = [](const nn::Module& module, const intq::Tensor& x, FuseReport& report, bool keep = false) {
        const auto traced = quantization::traced_clone(module);
        const nn::Value input = x;
        graph::propagate_shapes(*traced, std::span(&input, 1));
        quantization::FuseOptions options;
        options.keep_batch_norm = keep;
        return fuse_fx(*traced, options, &report);
    };
    const intq::Tensor rows = test::random_tensor(Shape(2, 4, 5), 3), vectors = test::random_tensor(Shape(2, 5), 4);
    for (const bool keep : {false, true}) {
        INFO(keep);
        const auto square = model(4, 4);
        FuseReport apart, together;
        const auto kept = fuse(*square, rows, apart, keep);
        REQUIRE(apart.fused.size() == 1);
        CHECK(apart.fused[0].operators == "batch_norm1d-relu");
        REQUIRE(apart.blocked.size() == 1);
        CHECK(apart.blocked[0].node == "bn");
        CHECK(apart.blocked[0].operators == "linear-batch_norm1d-relu");
        CHECK(apart.blocked[0].reason ==
              "a batch norm counts axis 1, and the features of the linear layer are the last axis of (2, 4, 4)");
        CHECK(test::largest_difference((*kept)(rows).tensor(), (*square)(rows).tensor()) == 0.0);
        const auto folded = fuse(*square, vectors, together, keep);
        CHECK(together.fused.size() == 1);
        CHECK(test::largest_difference((*folded)(vectors).tensor(), (*square)(vectors).tensor()) < 1e-5);
        // Fused without shapes: what it cannot compute is refused, and never computed wrongly.
        for (const nn::ModulePtr& copy : {nn::ModulePtr(folded), nn::clone(*folded)})
            CHECK(message_of<Error>([&] {
                      (*copy)(rows);
                  }).find("that a batch norm was fused into takes (N, C), given (2, 4, 5)") != std::string::npos);
    }
    // Another number of channels than features: without shapes too.
    FuseReport report;
    const auto other = model(3, 4);
    const auto kept = fuse_fx(*other, {}, &report);
    REQUIRE(report.blocked.size() == 1);
    CHECK(report.blocked[0].reason ==
          "a batch norm counts axis 1, and the features of the linear layer are the last axis");
    CHECK(test::largest_difference((*kept)(rows).tensor(), (*other)(rows).tensor()) == 0.0);
}

TEST_CASE("A target without a fused add keeps the add apart") {
    test::ResidualNet model(4);
    FuseReport report;
    const auto fused = fuse_fx(model, {false, {}, {}}, &report);
    CHECK(fused->find("layer1.0.conv2").type_name() == "Conv2d");
    CHECK(fused->find("layer1.0.skip_add").type_name() == "FloatFunctional");
    CHECK(fused->graph().find("layer1_0_relu_1") != nullptr);
    REQUIRE(report.blocked.size() == 2);
    CHECK(report.blocked[1].node == "layer1_0_skip_add");
    CHECK(report.blocked[1].operators == "conv2d-batch_norm2d-add-relu");
    CHECK(report.blocked[1].reason == "the target adds no operand inside the accumulator");
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 6, 6), 5);
    CHECK(test::largest_difference(model(x).tensor(), (*fused)(x).tensor()) < 1e-4);
}

TEST_CASE("An operand that is a number or a constant is not fused") {
    const auto model = make_model({{"conv", test::make_conv(2, 2, 3, 1)}},
                                  [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv", x[0]) + 2.0; });
    FuseReport report;
    CHECK(call_names(*fuse_fx(*model, {}, &report)) == "x conv add output ");
    CHECK(report.fused.empty());
    REQUIRE(report.blocked.size() == 1);
    CHECK(report.blocked[0].node == "add");
    CHECK(report.blocked[0].operators == "conv2d-add");
    CHECK(report.blocked[0].reason == "its other operand is a number");

    const auto doubled = make_model({{"conv", test::make_conv(2, 2, 3, 1)}}, [](test::LambdaModel& m, nn::Arguments x) {
        const nn::Value y = m.call("conv", x[0]);
        return nn::relu(y + y);
    });
    FuseReport of_doubled;
    CHECK(call_names(*fuse_fx(*doubled, {}, &of_doubled)) == "x conv add relu output ");
    REQUIRE(of_doubled.blocked.size() == 1);
    CHECK(of_doubled.blocked[0].operators == "conv2d-add-relu");
    CHECK(of_doubled.blocked[0].reason == "both its operands are the same value");
}

TEST_CASE("A batch norm of another number of channels than the layer before it is refused") {
    for (const index_t channels : {2, 4}) {
        const auto model = make_model(
            {{"conv", test::make_conv(3, 3, 3, 1)}, {"norm", test::make_batch_norm<nn::BatchNorm2d>(channels, 2)}},
            [](test::LambdaModel& m, nn::Arguments x) { return m.call("norm", m.call("conv", x[0])); });
        model->eval();
        CHECK(message_of<Error>([&] { fuse_fx(*model); }) == "fuse: conv2d-batch_norm2d of %conv: BatchNorm2d of " +
                                                                 std::to_string(channels) +
                                                                 " channels after Conv2d of 3");
    }
}

TEST_CASE("A row that a user adds is tried, by the type of a module") {
    const auto model = make_model(
        {{"pool", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2))}, {"drop", std::make_shared<nn::Dropout>()}},
        [](test::LambdaModel& m, nn::Arguments x) { return m.call("drop", m.call("pool", x[0])); });
    quantization::FuseOptions options;
    options.more_rows.push_back(
        {{"max_pool2d", "dropout"},
         [](const std::vector<quantization::FusedOperator>& operators) { return operators[0].module->copy(); }});
    CHECK(call_names(*fuse_fx(*model, options)) == "x pool output ");
}

TEST_CASE("A fused layer is no longer the operator that its first member was") {
    const auto model = make_model(
        {{"first", std::make_shared<nn::ReLU>()}, {"conv", test::make_conv(2, 2, 3, 1)}},
        [](test::LambdaModel& m, nn::Arguments x) { return nn::relu(m.call("conv", m.call("first", x[0]))); });
    quantization::FuseOptions options;
    options.more_rows.push_back({{"relu", "conv2d"}, [](const std::vector<quantization::FusedOperator>& operators) {
                                     return operators[1].module->copy();
                                 }});
    CHECK(call_names(*fuse_fx(*model, options)) == "x first conv output ");
}

TEST_CASE("add_stubs adds the stubs that are missing, and only those") {
    const auto model = make_model({{"conv", test::make_conv(2, 2, 3, 1)}, {"quant", std::make_shared<nn::Identity>()}},
                                  [](test::LambdaModel& m, nn::Arguments x) {
                                      return nn::Value(nn::Value::Tuple{m.call("conv", x[0] + x[1]), nn::relu(x[0])});
                                  },
                                  {"a", "b"});
    const auto traced = graph::symbolic_trace(model);
    CHECK(quantization::add_stubs(*traced) == 4);
    CHECK(graph::to_string(traced->graph()) ==
          "graph():\n"
          "    %a : [num_users=1] = placeholder[target=a]\n"
          "    %quant_1 : [num_users=2] = call_module[target=quant_1](args = (%a,))\n"
          "    %b : [num_users=1] = placeholder[target=b]\n"
          "    %quant_2 : [num_users=1] = call_module[target=quant_2](args = (%b,))\n"
          "    %add : [num_users=1] = call_function[target=add](args = (%quant_1, %quant_2))\n"
          "    %conv : [num_users=1] = call_module[target=conv](args = (%add,))\n"
          "    %relu : [num_users=1] = call_function[target=relu](args = (%quant_1,))\n"
          "    %dequant : [num_users=1] = call_module[target=dequant](args = (%conv,))\n"
          "    %dequant_1 : [num_users=1] = call_module[target=dequant_1](args = (%relu,))\n"
          "    return [%dequant, %dequant_1]\n");
    CHECK(quantization::add_stubs(*traced) == 0);
    traced->graph().lint(traced.get());
}
