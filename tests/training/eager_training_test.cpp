// SPDX-License-Identifier: MIT
//
// Training of a model that was prepared module by module: the quantizers behind its modules, and its fused add, belong
// to what is traced. So they learn, and what is trained and deployed has the bits of the graph's way.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "intq/graph/operators.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/eager/convert_eager.hpp"
#include "intq/quantization/eager/fuse_eager.hpp"
#include "intq/quantization/eager/prepare_eager.hpp"
#include "intq/quantization/modules/prepared_layers.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/training/trainer.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/same_bytes.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;
using test::same_bytes;

namespace {

/// A residual network as the eager documents write one.
struct Residual : nn::Cloneable<Residual> {
    Residual() {
        add_child("quant", std::make_shared<nn::QuantStub>());
        add_child("conv1", test::make_conv(2, 4, 3, 1));
        add_child("relu1", std::make_shared<nn::ReLU>());
        add_child("conv2", test::make_conv(4, 4, 3, 2));
        add_child("skip", std::make_shared<nn::FloatFunctional>());
        add_child("relu2", std::make_shared<nn::ReLU>());
        add_child("pool", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2)));
        add_child("average", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1}));
        add_child("flatten", std::make_shared<nn::Flatten>());
        add_child("fc", test::make_linear(4, 3, 3));
        add_child("dequant", std::make_shared<nn::DeQuantStub>());
        eval();
    }
    std::string type_name() const override { return "Residual"; }
    nn::Value forward(nn::Arguments arguments) override {
        const nn::Value x = call("relu1", call("conv1", call("quant", arguments[0])));
        const nn::Value sum = call("relu2", nn::call_add(*this, "skip", call("conv2", x), x));
        return call("dequant", call("fc", call("flatten", call("average", call("pool", sum)))));
    }
};

const std::vector<std::vector<std::string>> fusions = {{"conv1", "relu1"}, {"conv2", "skip", "relu2"}};

const kernels::KernelTable& bayes() { return *test::scalar_tables().tables[4]; }

QConfigMapping mapping_of(const char* activation, const char* weight) {
    return QConfigMapping().set_global(
        get_default_qat_qconfig({.activation_fake_quant = activation, .weight_fake_quant = weight}));
}

/// The mean losses of the epochs.
std::vector<double> train(graph::GraphModule& model, const Tensor& images) {
    std::vector<double> losses;
    training::Adam adam;
    training::TrainerOptions options;
    options.epochs = 2;
    options.batch_size = 8;
    options.seed = 5;
    options.rate = training::constant_rate(0.01);
    options.progress = io::ShowProgress::never;
    options.on_epoch = [&](const training::EpochReport& report) { losses.push_back(report.mean_loss); };
    training::Trainer(model, adam, options).fit(images, [](const Tensor& y, std::span<const index_t> samples) {
        Tensor wanted = Tensor::zeros(y.shape());
        for (std::size_t i = 0; i < samples.size(); ++i)
            wanted.flat<float>()[3 * i + static_cast<std::size_t>(samples[i] % 3)] = 4.0f;
        return training::mse_loss(y, wanted);
    });
    return losses;
}

/// The quantizers by the layers that they belong to: what stands behind them, and those of weights.
std::map<std::string, const FakeQuantize*> quantizers_of(graph::GraphModule& model) {
    // A fused add keeps the name of the convolution on a graph, and that of the add among modules.
    const auto plain = [](std::string name) {
        const auto cut = [&](const std::string& end, const std::string& other) {
            if (name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0)
                name = name.substr(0, name.size() - end.size()) + other;
        };
        cut("skip.layer", "conv2");
        return name;
    };
    std::map<std::string, const FakeQuantize*> result;
    for (const graph::Node* node : model.graph().nodes()) {
        nn::Module* module = graph::module_of(*node, model);
        if (const auto* quantizer = dynamic_cast<const FakeQuantize*>(module))
            result[plain(node->inputs()[0]->target()) + ".output"] = quantizer;
        if (const auto* layer = dynamic_cast<const PreparedWeight*>(module))
            result[plain(node->target()) + ".weight"] = &layer->weight_fake_quant();
    }
    return result;
}

}  // namespace

TEST_CASE("What is prepared module by module trains and deploys to the bits of the graph's way") {
    const kernels::KernelTable& table = bayes();
    const Tensor images = test::random_tensor(Shape(24, 2, 6, 6), 7),
                 held_out = test::random_tensor(Shape(5, 2, 6, 6), 8);
    const auto model = std::make_shared<Residual>();
    const nn::ModulePtr fused = fuse_modules(model, fusions);
    for (const auto& [activation, weight] :
         {std::pair("fake_quant", "fake_quant"), std::pair("lsq", "lsq"), std::pair("pact", "fake_quant")}) {
        INFO(activation);
        const QConfigMapping mapping = mapping_of(activation, weight);
        const nn::ModulePtr eager = prepare_qat(fused, mapping, table.policy());
        const auto traced = graph::symbolic_trace(eager);
        const auto on_graph = prepare_qat_fx(*model, mapping, table.policy(), {.high_precision_output = false});

        CHECK(train(*traced, images) == train(*on_graph, images));
        const auto modules = quantizers_of(*traced), nodes = quantizers_of(*on_graph);
        CHECK(modules.size() == 8);  // behind quant, conv1, the sum, the average and fc; three weights
        REQUIRE(modules.size() == nodes.size());
        for (const auto& [name, quantizer] : modules) {
            INFO(name);
            REQUIRE(nodes.count(name) == 1);
            CHECK(quantizer->qparams() == nodes.at(name)->qparams());
        }
        for (const char* name : {"conv1.weight", "conv1.bias", "fc.weight", "fc.bias"})
            CHECK(same_bytes(*eager->find_tensor(name), *on_graph->find_tensor(name)));
        CHECK(same_bytes(*eager->find_tensor("skip.layer.weight"), *on_graph->find_tensor("conv2.weight")));

        for (nn::Module* m : {static_cast<nn::Module*>(eager.get()), static_cast<nn::Module*>(on_graph.get())}) {
            m->eval();
            set_fake_quantize(*m, FakeQuantState::validation);
        }
        CHECK(same_bytes((*eager)(held_out).tensor(), (*on_graph)(held_out).tensor()));
        CHECK(same_bytes((*traced)(held_out).tensor(), (*on_graph)(held_out).tensor()));
        CHECK(same_bytes((*convert(eager, table))(held_out).tensor(),
                         lower(convert_fx(*on_graph), table, 5).run(held_out)));
    }
}

TEST_CASE("What follows the grid of its input trains and deploys to the bits of the graph's way, too") {
    const kernels::KernelTable& table = *test::scalar_tables().tables[1];
    REQUIRE(std::string(table.policy().name) == "tflite");
    const Tensor images = test::random_tensor(Shape(24, 2, 6, 6), 7, 8.0f),
                 held_out = test::random_tensor(Shape(5, 2, 6, 6), 8, 8.0f);
    const auto model =
        test::stubbed({{"clip", std::make_shared<nn::ReLU6>()},
                       {"conv", test::make_conv(2, 3, 3, 1)},
                       {"average", std::make_shared<nn::AvgPool2d>(nn::square_window(2, 2))},
                       {"join", std::make_shared<nn::FloatFunctional>()},
                       {"fc", test::make_linear(3, 3, 3)}},
                      [](test::LambdaModel& m, nn::Arguments x) {
                          // A clip that alone reads a QuantStub would bound its codes on a graph.
                          const nn::Value turned = nn::permute(x[0], {0, 1, 3, 2});
                          const nn::Value y = m.call("average", m.call("conv", m.call("clip", turned)));
                          return m.call("fc", nn::call_float(m, "join", "mean", y, nn::Value::Tuple{2, 3}, false));
                      });
    const QConfigMapping mapping = mapping_of("fake_quant", "fake_quant");
    const nn::ModulePtr eager = prepare_qat(model, mapping, table.policy());
    const auto traced = graph::symbolic_trace(eager);
    const auto on_graph = prepare_qat_fx(*model, mapping, table.policy(), {.high_precision_output = false});
    for (const char* name : {"clip_input_grid", "average_input_grid", "join_input_grid"}) {
        INFO(name);
        CHECK(traced->graph().find(name) != nullptr);
    }
    CHECK(train(*traced, images) == train(*on_graph, images));
    for (const char* name : {"conv.weight", "conv.bias", "fc.weight"})
        CHECK(same_bytes(*eager->find_tensor(name), *on_graph->find_tensor(name)));
    for (nn::Module* m : {static_cast<nn::Module*>(eager.get()), static_cast<nn::Module*>(on_graph.get())}) {
        m->eval();
        set_fake_quantize(*m, FakeQuantState::validation);
    }
    CHECK(same_bytes((*eager)(held_out).tensor(), (*on_graph)(held_out).tensor()));
    CHECK(
        same_bytes((*convert(eager, table))(held_out).tensor(), lower(convert_fx(*on_graph), table, 5).run(held_out)));
}

TEST_CASE("The scales of all activations learn in a model that was prepared module by module") {
    const Tensor images = test::random_tensor(Shape(24, 2, 6, 6), 7);
    const nn::ModulePtr fused = fuse_modules(std::make_shared<Residual>(), fusions);
    for (const char* kind : {"lsq", "pact"}) {
        const std::string parameter = kind == std::string("lsq") ? ".scale" : ".alpha";
        QConfig config = get_default_qat_qconfig({.activation_fake_quant = kind});
        config.output->options.alpha = 0.5f;  // a bound learns where it clips
        const nn::ModulePtr eager = prepare_qat(fused, QConfigMapping().set_global(config), bayes().policy());
        (*eager)(images.batch(0, 8));
        const auto before = nn::clone(eager);
        train(*graph::symbolic_trace(eager), images);
        int moved = 0, all = 0;
        for (const auto& item : eager->named_parameters()) {
            if (item.name.find("activation_post_process" + parameter) == std::string::npos) continue;
            ++all;
            moved += same_bytes(*item.value, *before->find_tensor(item.name)) ? 0 : 1;
        }
        INFO(kind);
        CHECK(all == 5);
        CHECK(moved == all);
    }
}

TEST_CASE("A trace of a prepared model holds its quantizers and its fused add, each called once") {
    const nn::ModulePtr eager = prepare_qat(fuse_modules(std::make_shared<Residual>(), fusions),
                                            mapping_of("fake_quant", "fake_quant"), bayes().policy());
    const auto traced = graph::symbolic_trace(eager);
    std::vector<std::string> targets;
    for (const graph::Node* node : traced->graph().nodes())
        if (node->op() == graph::Op::call_module) targets.push_back(node->target());
    CHECK(targets == std::vector<std::string>{
                         "quant", "quant.activation_post_process", "conv1", "conv1.activation_post_process", "relu1",
                         "skip.layer", "skip.layer.activation_post_process", "relu2", "pool", "average",
                         "average.activation_post_process", "flatten", "fc", "fc.activation_post_process", "dequant"});
    const graph::Node& add = *traced->graph().find("skip_layer");
    CHECK(add.inputs().size() == 1);  // the layer's input is the operand of the add too
    CHECK(add.args().size() == 2);

    // An observer that saw a batch twice would have another moving average.
    const nn::ModulePtr called = nn::clone(eager);
    for (const unsigned seed : {1u, 2u, 3u}) {
        const Tensor x = test::random_tensor(Shape(4, 2, 6, 6), seed);
        CHECK(same_bytes((*called)(x).tensor(), (*traced)(x).tensor()));
    }
    for (const auto& item : called->named_buffers()) {
        INFO(item.name);
        const Tensor* other = eager->find_tensor(item.name);
        REQUIRE(other != nullptr);
        CHECK(item.value->defined() == other->defined());
        if (item.value->defined()) CHECK(same_bytes(*item.value, *other));
    }
}

TEST_CASE("A fused add whose operands are not what its layer saw is refused when it is traced") {
    const auto model =
        test::make_model({{"conv", test::make_conv(2, 2, 3, 1)}, {"skip", std::make_shared<nn::FloatFunctional>()}},
                         [](test::LambdaModel& m, nn::Arguments x) {
                             return nn::call_add(m, "skip", nn::relu(m.call("conv", x[0])), x[0] * 2.0);
                         });
    CHECK(test::message_of<Error>([&] {
              graph::symbolic_trace(fuse_modules(model, {{"conv", "skip"}}));
          }).find("neither operand is what the fused layer was called with") != std::string::npos);
}
