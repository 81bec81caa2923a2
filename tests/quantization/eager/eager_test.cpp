// SPDX-License-Identifier: MIT
//
// Quantization without a graph: fuse_modules, prepare, convert and quantize on modules. What they give is held against
// the program that the graph's way lowers to: the same bits.
#include <limits>

#include "intq/nn.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/convert/quantize_model.hpp"
#include "intq/quantization/eager/convert_eager.hpp"
#include "intq/quantization/eager/fuse_eager.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/own_qconfig.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/same_bytes.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;
using test::message_of;
using test::same_bytes;
using test::stubbed;

namespace {

/// A model in the style of the eager documents: stubs, modules and a FloatFunctional. Its forward looks at data, which
/// no trace could.
struct EagerNet : nn::Cloneable<EagerNet> {
    EagerNet() {
        add_child("quant", std::make_shared<nn::QuantStub>());
        add_child("conv1", test::make_conv(3, 4, 3, 1));
        add_child("bn1", test::make_batch_norm<nn::BatchNorm2d>(4, 2));
        add_child("relu1", std::make_shared<nn::ReLU>());
        add_child("pool", std::make_shared<nn::MaxPool2d>(nn::square_window(2)));
        add_child("conv2", test::make_conv(4, 4, 3, 3));
        add_child("bn2", test::make_batch_norm<nn::BatchNorm2d>(4, 4));
        add_child("skip", std::make_shared<nn::FloatFunctional>());
        add_child("relu2", std::make_shared<nn::ReLU>());
        add_child("join", std::make_shared<nn::FloatFunctional>());
        add_child("average", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1}));
        add_child("flatten", std::make_shared<nn::Flatten>());
        add_child("fc", test::make_linear(8, 5, 5));
        add_child("dequant", std::make_shared<nn::DeQuantStub>());
        eval();
    }
    std::string type_name() const override { return "EagerNet"; }
    nn::Value forward(nn::Arguments arguments) override {
        nn::Value x = arguments[0];
        if (looks_at_data && nn::mean(x) > 1e6) return x;
        x = call("relu1", call("bn1", call("conv1", call("quant", x))));
        x = call("pool", x);
        const nn::Value y = call("bn2", call("conv2", x));
        const nn::Value sum = call("relu2", nn::call_add(*this, "skip", y, x));
        const nn::Value both = nn::call_cat(*this, "join", {sum, x}, 1);
        return call("dequant", call("fc", call("flatten", call("average", both))));
    }
    bool looks_at_data = true;
};

const std::vector<std::vector<std::string>> fusions = {{"conv1", "bn1", "relu1"}, {"conv2", "bn2", "skip", "relu2"}};

QConfigMapping default_mapping(DType dtype = DType::int8) {
    return QConfigMapping().set_global(get_default_calib_qconfig(dtype));
}

double largest_magnitude(const Tensor& x) { return test::largest_difference(x, Tensor::zeros(x.shape())); }

}  // namespace

TEST_CASE("fuse_modules fuses the lists that it is given and computes the same") {
    const auto model = std::make_shared<EagerNet>();
    const Tensor x = test::random_tensor(Shape(2, 3, 8, 8), 7);
    const nn::ModulePtr fused = fuse_modules(model, fusions);
    CHECK(fused->child("conv1")->type_name() == "ConvReLU2d");
    CHECK(fused->child("bn1")->type_name() == "Identity");
    CHECK(fused->child("relu1")->type_name() == "Identity");
    CHECK(fused->child("conv2")->type_name() == "Identity");
    CHECK(fused->find("skip.layer").type_name() == "ConvAddReLU2d");
    CHECK(fused->child("relu2")->type_name() == "Identity");
    CHECK(model->child("conv1")->type_name() == "Conv2d");
    CHECK(test::largest_difference((*fused)(x).tensor(), (*model)(x).tensor()) < 1e-4);

    CHECK(message_of<Error>([&] {
              fuse_modules(model, {{"conv1", "pool"}});
          }) == "fuse_modules: no row of the table fuses conv2d-max_pool2d");
    CHECK(message_of<Error>([&] {
              fuse_modules(model, {{"conv1", "bn"}});
          }).find("no module \"bn\"") != std::string::npos);

    // The other operand may come first; the fused add knows its own. What is neither is refused.
    const auto residual = [&](int order) {
        return test::make_model(
            {{"conv", test::make_conv(3, 3, 3, 1)}, {"skip", std::make_shared<nn::FloatFunctional>()}},
            [order](test::LambdaModel& m, nn::Arguments v) {
                const nn::Value other = v[0] * 2.0, y = m.call("conv", v[0]);
                if (order == 2) return nn::call_add(m, "skip", y * 1.0, other);
                return order == 0 ? nn::call_add(m, "skip", y, other) : nn::call_add(m, "skip", other, y);
            });
    };
    for (const int order : {0, 1}) {
        const auto plain = residual(order);
        const nn::ModulePtr with_add = fuse_modules(plain, {{"conv", "skip"}});
        CHECK(test::largest_difference((*nn::clone(*with_add))(x).tensor(), (*plain)(x).tensor()) < 1e-5);
    }
    CHECK(message_of<Error>([&] {
              (*fuse_modules(residual(2), {{"conv", "skip"}}))(x);
          }).find("neither operand is what the fused layer was called with") != std::string::npos);
    model->train();
    CHECK(message_of<Error>([&] { fuse_modules(model, fusions); }).find("call eval()") != std::string::npos);
    model->eval();

    int asked = 0;
    const nn::ModulePtr custom =
        fuse_modules(model, {{"relu1", "pool"}}, false, [&](const std::vector<nn::ModulePtr>& modules) {
            asked += static_cast<int>(modules.size());
            return std::vector{modules[1], modules[0]};
        });
    CHECK(asked == 2);
    CHECK(custom->child("relu1")->type_name() == "MaxPool2d");
    CHECK(fuse_modules(model, fusions, true) == model);
    CHECK(model->child("conv1")->type_name() == "ConvReLU2d");
}

TEST_CASE("Names in braces are one list, lists in braces are several, however many there are of each") {
    const auto model = test::make_model({{"conv1", test::make_conv(3, 4, 3, 1)},
                                         {"relu1", std::make_shared<nn::ReLU>()},
                                         {"conv2", test::make_conv(4, 4, 3, 2)},
                                         {"bn2", test::make_batch_norm<nn::BatchNorm2d>(4, 4)},
                                         {"relu2", std::make_shared<nn::ReLU>()}},
                                        [](test::LambdaModel&, nn::Arguments v) { return v[0]; });
    const auto types = [](const nn::ModulePtr& fused) {
        return fused->child("conv1")->type_name() + " " + fused->child("conv2")->type_name();
    };
    const std::string conv = "conv1", relu = "relu1";
    CHECK(types(fuse_modules(model, {"conv1", "relu1"})) == "ConvReLU2d Conv2d");
    CHECK(types(fuse_modules(model, {{"conv1", "relu1"}})) == "ConvReLU2d Conv2d");
    CHECK(types(fuse_modules(model, {conv, relu})) == "ConvReLU2d Conv2d");
    CHECK(types(fuse_modules(model, {conv, "relu1"})) == "ConvReLU2d Conv2d");
    CHECK(types(fuse_modules(model, std::vector{conv, relu})) == "ConvReLU2d Conv2d");
    CHECK(types(fuse_modules(model, {"conv2", "bn2", "relu2"})) == "Conv2d ConvReLU2d");
    CHECK(types(fuse_modules(model, {{"conv1", "relu1"}, {"conv2", "bn2"}})) == "ConvReLU2d Conv2d");
    CHECK(types(fuse_modules(model, {{"conv1", "relu1"}, {"conv2", "bn2", "relu2"}})) == "ConvReLU2d ConvReLU2d");
    CHECK(types(fuse_modules(model, {{conv, relu}, std::vector<std::string>{"conv2", "bn2", "relu2"}})) ==
          "ConvReLU2d ConvReLU2d");

    std::vector<std::size_t> sizes;
    const ModuleFuser count = [&](const std::vector<nn::ModulePtr>& modules) {
        sizes.push_back(modules.size());
        return modules;
    };
    fuse_modules(model, {{"conv1"}, {"relu1"}}, false, count);
    fuse_modules(model, {"conv1"}, false, count);
    fuse_modules(model, {{"conv1"}}, false, count);
    CHECK(sizes == std::vector<std::size_t>{1, 1, 1, 1});
    CHECK(message_of<Error>([&] {
              fuse_modules(model, {"conv1", {"conv2", "bn2"}});
          }) == "fuse_modules: either names or lists of names are needed; \"conv1\" is beside a list");
}

TEST_CASE("A fused add without a relu has no add_relu") {
    const Tensor x = test::random_tensor(Shape(2, 3, 8, 8), 7);
    const auto plain =
        test::make_model({{"conv", test::make_conv(3, 3, 3, 1)},
                          {"skip", std::make_shared<nn::FloatFunctional>()},
                          {"relu", std::make_shared<nn::ReLU>()}},
                         [](test::LambdaModel& m, nn::Arguments v) {
                             return m.call("relu", nn::call_float(m, "skip", "add_relu", m.call("conv", v[0]), v[0]));
                         });
    CHECK(message_of<Error>([&] {
              (*fuse_modules(plain, {{"conv", "skip"}}))(x);
          }).find("add_relu is called, and no relu is fused") != std::string::npos);
    const nn::ModulePtr fused = fuse_modules(plain, {{"conv", "skip", "relu"}});
    CHECK(test::largest_difference((*fused)(x).tensor(), (*plain)(x).tensor()) < 1e-5);
}

TEST_CASE("A batch norm that no layer takes becomes one, as on a graph") {
    const kernels::KernelTable& table = test::scalar_table("bayes");
    const Tensor x = test::random_tensor(Shape(3, 3, 8, 8), 7);
    const auto make = [](bool with_relu) {
        return test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                                 {"bn", test::make_batch_norm<nn::BatchNorm2d>(3, 2)},
                                 {"relu", std::make_shared<nn::ReLU>()},
                                 {"dequant", std::make_shared<nn::DeQuantStub>()}},
                                [with_relu](test::LambdaModel& m, nn::Arguments v) {
                                    const nn::Value y = m.call("bn", m.call("quant", v[0]));
                                    return m.call("dequant", with_relu ? m.call("relu", y) : y);
                                });
    };
    const auto run = [&](nn::Module& m) { m(x); };
    const auto on_graph = [&](const nn::Module& m) {
        const auto prepared =
            prepare_calibration_fx(m, default_mapping(), table.policy(), {.high_precision_output = false});
        calibrate(*prepared, x, 3);
        return lower(convert_fx(*prepared), table, 3).run(x);
    };
    const auto plain = make(false), model = make(true);
    const nn::ModulePtr alone = quantize(plain, run, default_mapping(), table);
    CHECK(alone->child("bn")->type_name() == "QuantizedBatchNorm2d");
    CHECK(same_bytes((*alone)(x).tensor(), on_graph(*plain)));

    const nn::ModulePtr fused = fuse_modules(model, {{"bn", "relu"}});
    CHECK(fused->child("bn")->type_name() == "BNReLU2d");
    CHECK(same_bytes((*quantize(fused, run, default_mapping(), table))(x).tensor(), on_graph(*model)));
    // It has the output of the relu: none.
    const QConfigMapping without = default_mapping().set_module_name("relu", std::nullopt);
    CHECK(prepare_calibration(fused, without, table.policy())->child("bn")->type_name() == "BNReLU2d");

    model->train();
    CHECK(message_of<Error>([&] { prepare_qat(model, default_mapping(), table.policy()); }) ==
          "bn: it becomes a layer with weights in evaluation only; call eval() on the model first");
}

TEST_CASE("In place, what throws leaves the model as it was") {
    const kernels::KernelTable& table = test::scalar_table("bayes");
    const auto model = std::make_shared<EagerNet>();
    const auto types = [](nn::Module& m) {
        std::string all;
        for (const auto& module : m.named_modules()) all += module.name + " " + module.value->type_name() + "\n";
        return all;
    };
    const std::string before = types(*model);
    CHECK_THROWS_AS(fuse_modules(model, {fusions[0], {"conv2", "pool"}}, true), Error);
    CHECK(types(*model) == before);
    const QConfigMapping misspelt = default_mapping().set_module_name("conv3", std::nullopt);
    CHECK_THROWS_AS(prepare_calibration(model, misspelt, table.policy(), {.inplace = true}), Error);
    CHECK(types(*model) == before);
    CHECK(prepare_calibration(model, default_mapping(), table.policy(), {.inplace = true}) == model);
    CHECK(types(*model) != before);

    // The second convolution is never called.
    const auto partly =
        test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                          {"conv1", test::make_conv(3, 4, 3, 1)},
                          {"conv2", test::make_conv(3, 4, 3, 1)}},
                         [](test::LambdaModel& m, nn::Arguments v) { return m.call("conv1", m.call("quant", v[0])); });
    const nn::ModulePtr prepared = prepare_calibration(partly, default_mapping(), table.policy());
    (*prepared)(test::random_tensor(Shape(2, 3, 8, 8), 7));
    const std::string prepared_types = types(*prepared);
    CHECK(message_of<Error>([&] { convert(prepared, table, {.inplace = true}); }).find("convert: conv2: no data") == 0);
    CHECK(types(*prepared) == prepared_types);
}

TEST_CASE("What keeps the scale of its input is validated on that grid, as on a graph") {
    const Tensor x = test::random_tensor(Shape(3, 4, 8, 8), 7, 10.0f);
    const auto call = [](test::LambdaModel& m, nn::Arguments v) { return m.call("op", v[0]); };
    const auto mean = [](test::LambdaModel& m, nn::Arguments v) {
        return nn::call_float(m, "op", "mean", v[0], nn::Value::Tuple{2, 3}, true);
    };
    nn::InterpolateOptions twice;
    twice.scale_factor = nn::ScaleFactor{2.0, 2.0};
    twice.rule = nn::float_operators::resize_rule("bilinear", false);
    struct Kept {
        nn::ModulePtr module;
        test::LambdaModel::Forward body;
        bool is_exact;  // an average or a mean of codes may differ from the float one by a code
    };
    const Kept all[] = {{std::make_shared<nn::AvgPool2d>(nn::square_window(2, 2)), call, false},
                        {std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1}), call, false},
                        {std::make_shared<nn::FloatFunctional>(), mean, false},
                        {std::make_shared<nn::Upsample>(twice), call, false},
                        // Behind a move: a clip that alone reads a QuantStub bounds its codes on a graph.
                        {std::make_shared<nn::ReLU6>(),
                         [](test::LambdaModel& m, nn::Arguments v) {
                             return m.call("op", nn::permute(v[0], {0, 1, 3, 2}));
                         },
                         true}};
    for (const char* target : {"tflite", "bayes", "fp32"})
        for (const Kept& kept : all) {
            CAPTURE(target, kept.module->type_name());
            const kernels::KernelTable& table = test::scalar_table(target);
            const nn::ModulePtr model = stubbed({{"op", nn::clone(kept.module)}}, kept.body);
            QConfig coarse = get_default_calib_qconfig();
            coarse.output->options.observer_options.quant_min = -8;
            coarse.output->options.observer_options.quant_max = 7;
            const QConfigMapping mapping = QConfigMapping().set_global(coarse);

            const nn::ModulePtr prepared = prepare_calibration(model, mapping, table.policy());
            PrepareOptions options;
            options.high_precision_output = false;  // a sum that a DeQuantStub reads is found on a graph alone
            const auto on_graph = prepare_calibration_fx(*model, mapping, table.policy(), options);
            (*prepared)(x);
            calibrate(*on_graph, x, 3);
            for (nn::Module* m : {prepared.get(), static_cast<nn::Module*>(on_graph.get())})
                set_fake_quantize(*m, FakeQuantState::validation);
            const Tensor validated = (*prepared)(x).tensor(), converted = (*convert(prepared, table))(x).tensor();
            CHECK(same_bytes(validated, (*on_graph)(x).tensor()));
            CHECK(same_bytes(converted, lower(convert_fx(*on_graph), table, 3).run(x)));
            if (kept.is_exact) CHECK(same_bytes(validated, converted));
            const float step = prepared->find_tensor("quant.activation_post_process.scale")->flat<float>()[0];
            CHECK(test::largest_difference(validated, converted) < 1.01 * static_cast<double>(step));
            // Real values, which carry no scale, pass.
            set_fake_quantize(*prepared, FakeQuantState::float_);
            CHECK(same_bytes((*prepared)(x).tensor(), (*model)(x).tensor()));
        }
}

TEST_CASE("What no converted model could run is refused by prepare or by the first run of what it prepared, by name") {
    using Body = test::LambdaModel::Forward;
    const auto functional = [](const std::string& method, std::vector<nn::Value> more) -> Body {
        return [=](test::LambdaModel& m, nn::Arguments v) {
            std::vector<nn::Value> all{v[0]};
            all.insert(all.end(), more.begin(), more.end());
            return m.child("op")->dispatch(method, all);
        };
    };
    const auto cat_along = [](int axis) -> Body {
        return [axis](test::LambdaModel& m, nn::Arguments v) { return nn::call_cat(m, "op", {v[0], v[0]}, axis); };
    };
    const Body call = [](test::LambdaModel& m, nn::Arguments v) { return m.call("op", v[0]); };
    const Body product = [](test::LambdaModel& m, nn::Arguments v) {
        return nn::call_float(m, "op", "matmul", v[0], v[0]);
    };
    const auto plus = std::make_shared<nn::FloatFunctional>();
    const Window2d padded{{3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}};
    struct Refused {
        const char* target;
        DType dtype;
        bool is_affine;
        nn::ModulePtr module;
        Body body;
        std::string start, part;
        bool by_prepare;
    };
    const auto int8 = DType::int8, int16 = DType::int16;
    const Refused all[] = {
        {"bayes", int16, false, std::make_shared<nn::Softmax>(1), call,
         "prepare: op (Softmax): ", "the rows of bayes for softmax", true},
        {"bernoulli2", int16, false, std::make_shared<nn::ReLU>(), call,
         "prepare: quant (QuantStub): ", "the rows of bernoulli2 for quantize", true},
        {"bayes", int8, false, std::make_shared<nn::AvgPool2d>(padded, PoolDivisor::valid_cells), call,
         "prepare: op (AvgPool2d): ", "padding", true},
        {"bayes", int8, false, std::make_shared<nn::Softmax>(0), call, "prepare: op (Softmax): ", "axis 0", true},
        {"bayes", int8, false, std::make_shared<nn::Flatten>(0), call, "prepare: op (Flatten): ", "axis 0", false},
        {"bayes", int8, false, std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{3, 3}), call,
         "prepare: op (AdaptiveAvgPool2d): ", "windows of different size", false},
        {"bayes", int8, false, plus, cat_along(0), "prepare: op (FloatFunctional.cat): ", "axis 0", false},
        {"bayes", int8, false, plus, functional("sum", {nn::Value::Tuple{0}}),
         "prepare: op (FloatFunctional.sum): ", "a sum along it", false},
        {"bayes", int8, false, plus, functional("mean", {nn::Value::Tuple{0}}),
         "prepare: op (FloatFunctional.mean): ", "a mean along it", false},
        {"bernoulli2", int8, false, plus, product,
         "prepare: op (FloatFunctional.matmul): ", "there is no row of bernoulli2 for matmul", false},
        {"bayes", int8, false, plus, functional("add_scalar", {std::numeric_limits<double>::infinity()}),
         "prepare: op (FloatFunctional.add_scalar): ", "its constant operand is not finite", false},
        {"bayes", int8, false, plus, functional("mul_scalar", {std::numeric_limits<double>::quiet_NaN()}),
         "prepare: op (FloatFunctional.mul_scalar): ", "its constant operand is not finite", false},
    };
    const Tensor x = test::random_tensor(Shape(2, 4, 8, 8), 7);
    for (const Refused& c : all) {
        QConfig qconfig = get_default_calib_qconfig(c.dtype);
        if (c.is_affine) qconfig.output->options.observer_options.scheme = arith::QuantScheme::affine;
        const nn::ModulePtr model = stubbed({{"op", nn::clone(c.module)}}, c.body);
        nn::ModulePtr prepared;
        std::string message = message_of<Error>([&] {
            prepared =
                prepare_calibration(model, QConfigMapping().set_global(qconfig), test::scalar_table(c.target).policy());
        });
        CAPTURE(c.target, c.start, message);
        CHECK((prepared == nullptr) == c.by_prepare);
        // The first run, and each one after it; of a clone as well.
        for (int run = 0; run < 2 && prepared != nullptr; ++run) message = message_of<Error>([&] { (*prepared)(x); });
        if (prepared != nullptr) CHECK(message_of<Error>([&] { (*nn::clone(prepared))(x); }) == message);
        CHECK(message.rfind(c.start, 0) == 0);
        CHECK(message.find(c.part) != std::string::npos);
    }
    // A state that another model calibrated is converted without a run: the run of the converted model refuses.
    const nn::ModulePtr flat = stubbed({{"op", std::make_shared<nn::Flatten>(0)}}, call);
    const kernels::KernelTable& table = test::scalar_table("bayes");
    const nn::ModulePtr prepared = prepare_calibration(flat, default_mapping(), table.policy());
    dynamic_cast<FakeQuantize&>(prepared->find("quant.activation_post_process")).set_qparams(0.1f);
    CHECK(message_of<Error>([&] { (*convert(prepared, table))(x); }).find("op (QuantizedFlatten): ") == 0);
    // Behind a DeQuantStub nothing is refused.
    const auto outside = test::make_model(
        {{"quant", std::make_shared<nn::QuantStub>()},
         {"dequant", std::make_shared<nn::DeQuantStub>()},
         {"op", std::make_shared<nn::Flatten>(0)}},
        [](test::LambdaModel& m, nn::Arguments v) { return m.call("op", m.call("dequant", m.call("quant", v[0]))); });
    const nn::ModulePtr free = quantize(
        outside, [&](nn::Module& m) { m(x); }, default_mapping(), table);
    CHECK((*free)(x).tensor().shape() == Shape(2 * 4 * 8 * 8));
}

TEST_CASE("What stays in float says so where codes reach it, by the name of the layer or of the function") {
    const kernels::KernelTable& table = test::scalar_table("bayes");
    const Tensor x = test::random_tensor(Shape(2, 4, 6, 6), 7), rows = test::random_tensor(Shape(2, 4), 7);
    const auto call = [](test::LambdaModel& m, nn::Arguments v) { return m.call("op", v[0]); };
    const auto off = default_mapping().set_module_name("op", std::nullopt);
    struct InFloat {
        nn::ModulePtr module;
        const char* type;
        const QConfigMapping mapping;
        const Tensor data;
    };
    const InFloat modules[] = {
        {test::make_batch_norm<nn::BatchNorm1d>(4, 3), "BatchNorm1d", default_mapping(), rows},
        {std::make_shared<nn::FusedBatchNorm<nn::BatchNorm1d>>(*test::make_batch_norm<nn::BatchNorm1d>(4, 3),
                                                               Activation::relu),
         "BNReLU1d", default_mapping(), rows},
        {test::make_batch_norm<nn::BatchNorm3d>(4, 3), "BatchNorm3d", default_mapping(),
         test::random_tensor(Shape(2, 4, 2, 3, 3), 7)},
        {std::make_shared<nn::Softmax>(1), "Softmax", off, x},
        {test::make_conv(4, 2, 3, 1), "Conv2d", off, x},
    };
    const std::string reason = "it stays in float, and codes reach it: put a DeQuantStub before it";
    for (const InFloat& c : modules) {
        CAPTURE(c.type);
        const nn::ModulePtr prepared =
            prepare_calibration(stubbed({{"op", c.module}}, call), c.mapping, table.policy());
        CHECK(message_of<Error>([&] {
                  (*prepared)(c.data);
              }).find("prepare: op (" + std::string(c.type) + "): " + reason) == 0);
        // Its converted model, of a state that was loaded.
        dynamic_cast<FakeQuantize&>(prepared->find("quant.activation_post_process")).set_qparams(0.1f);
        CHECK(message_of<Error>([&] {
                  (*convert(prepared, table))(c.data);
              }).find("op (" + std::string(c.type) + "): " + reason) == 0);
    }

    const std::pair<const char*, test::LambdaModel::Forward> functions[] = {
        {"sigmoid", [](test::LambdaModel&, nn::Arguments v) { return nn::sigmoid(v[0]); }},
        {"add", [](test::LambdaModel&, nn::Arguments v) { return v[0] + v[0]; }},
        {"add", [](test::LambdaModel&, nn::Arguments v) { return v[0] + 1.0; }},
        {"interpolate", [](test::LambdaModel&, nn::Arguments v) { return nn::interpolate(v[0], {}, 2.0); }},
        {"cat",
         [](test::LambdaModel&, nn::Arguments v) {
             return nn::cat({v[0], v[0]}, 1);
         }},
    };
    for (const auto& [name, body] : functions) {
        CAPTURE(name);
        const nn::ModulePtr converted = quantize(
            stubbed({}, body), [&](nn::Module& m) { m(x); }, default_mapping(), table);
        CHECK(message_of<Error>([&] {
                  (*converted)(x);
              }).find(std::string(name) + ": it is a function on real values, given int8 codes") == 0);
    }
    // What only moves values does not.
    const nn::ModulePtr moved = quantize(
        stubbed({},
                [](test::LambdaModel&, nn::Arguments v) {
                    return nn::flatten(nn::pad(v[0], {1, 1}), 1);
                }),
        [&](nn::Module& m) { m(x); }, default_mapping(), table);
    CHECK((*moved)(x).tensor().shape() == Shape(2, 4 * 6 * 8));
}

TEST_CASE("The state of a prepared model is what a converted one is saved by") {
    const kernels::KernelTable& table = test::scalar_table("bayes");
    const Tensor x = test::random_tensor(Shape(2, 3, 8, 8), 7);
    const auto prepare = [&] {
        return prepare_calibration(fuse_modules(std::make_shared<EagerNet>(), fusions), default_mapping(),
                                   table.policy());
    };
    const nn::ModulePtr prepared = prepare(), loaded = prepare();
    (*prepared)(x);
    nn::load_state_dict(*loaded, nn::state_dict(*prepared));
    CHECK(same_bytes((*convert(loaded, table))(x).tensor(), (*convert(prepared, table))(x).tensor()));
}

TEST_CASE("Modules that were converted one by one give the bits of the program of the whole graph") {
    const Tensor x = test::random_tensor(Shape(5, 3, 8, 8), 7);
    for (const auto& [target, dtype] : {std::pair{"fp32", DType::int8}, std::pair{"tflite", DType::int8},
                                        std::pair{"bayes", DType::int8}, std::pair{"bayes", DType::int16}}) {
        CAPTURE(target, name_of(dtype));
        const kernels::KernelTable& table = test::scalar_table(target);
        const bool fused_add = table.policy().fused_add;
        const auto model = std::make_shared<EagerNet>();

        EagerNet traceable;
        traceable.looks_at_data = false;
        const auto by_graph =
            prepare_calibration_fx(traceable, default_mapping(dtype), table.policy(), {.high_precision_output = false});
        calibrate(*by_graph, x, 2);
        const Tensor expected = lower(convert_fx(*by_graph), table, 5).run(x);

        const auto lists = fused_add ? fusions : std::vector<std::vector<std::string>>{fusions[0], {"conv2", "bn2"}};
        const nn::ModulePtr prepared =
            prepare_calibration(fuse_modules(model, lists), default_mapping(dtype), table.policy());
        for (index_t first = 0; first < 5; first += 2) (*prepared)(x.batch(first, std::min<index_t>(2, 5 - first)));
        const nn::ModulePtr converted = convert(prepared, table);
        const Tensor y = (*converted)(x).tensor();
        CHECK(test::largest_difference(y, (*model)(x).tensor()) > 1e-6);
        if (fused_add) {
            CHECK(same_bytes(y, expected));
        } else {
            // Without a graph the sum has a quantizer before its relu; the graph's stands behind it.
            CHECK(test::largest_difference(y, expected) < 0.2 * largest_magnitude(expected));
        }
        CHECK(same_bytes((*nn::clone(*converted))(x).tensor(), y));
        CHECK(same_bytes((*converted)(x.batch(1, 1)).tensor(), y.batch(1, 1)));
        CHECK(prepared->child("conv1")->type_name() == "qat.ConvReLU2d");
        CHECK(converted->child("conv1")->type_name() == "QuantizedConvReLU2d");
        CHECK(converted->child("dequant")->type_name() == "DeQuantize");
    }
}

TEST_CASE("A layer without an output quantizer gives its accumulator; one without a qconfig stays in float") {
    const kernels::KernelTable& table = test::scalar_table("bayes");
    const Tensor x = test::random_tensor(Shape(3, 3, 8, 8), 7);
    const auto model = std::make_shared<EagerNet>();
    QConfigMapping mapping = default_mapping();
    mapping.set_module_name("fc", get_default_calib_out_qconfig());
    const auto run = [&](nn::Module& m) { m(x); };
    const auto eval = [](nn::Module& m, const Tensor& data) { m(data); };
    const nn::ModulePtr precise = quantize(fuse_modules(model, fusions), eval, x, mapping, table);

    EagerNet traceable;
    traceable.looks_at_data = false;
    const QuantizedGraph quantized = quantize_fx(traceable, run, default_mapping(), table.policy());
    CHECK(same_bytes((*precise)(x).tensor(), lower(quantized, table, 3).run(x)));

    // A model of two regions with a float layer between them.
    const auto mixed = test::make_model(
        {{"quant", std::make_shared<nn::QuantStub>()},
         {"conv", test::make_conv(3, 4, 3, 1)},
         {"dequant", std::make_shared<nn::DeQuantStub>()},
         {"softmax", std::make_shared<nn::Softmax>(1)},
         {"fc", test::make_conv(4, 2, 1, 2)}},
        [](test::LambdaModel& m, nn::Arguments v) {
            return m.call("fc", m.call("softmax", m.call("dequant", m.call("conv", m.call("quant", v[0])))));
        });
    set_qconfig(*mixed, default_qconfig());
    for (const char* name : {"softmax", "fc"}) set_qconfig(*mixed->child(name), std::nullopt);
    const nn::ModulePtr partly = quantize(mixed, run, {}, table);
    CHECK(partly->child("fc")->type_name() == "Conv2d");
    CHECK(partly->child("softmax")->type_name() == "Softmax");
    CHECK(partly->child("conv")->type_name() == "QuantizedConv2d");
    CHECK(test::largest_difference((*partly)(x).tensor(), (*mixed)(x).tensor()) < 0.05);
    CHECK(own_qconfig(*partly) == nullptr);
    CHECK(own_qconfig(*partly->child("fc")) == nullptr);
    CHECK(own_qconfig(*mixed) != nullptr);
    const nn::ModulePtr prepared = prepare_calibration(mixed, table.policy());
    (*prepared)(x);
    CHECK(own_qconfig(*convert(prepared, table, {.remove_qconfig = false})) != nullptr);
}

TEST_CASE("Linear layers on rows are converted one by one, with the bits of the program of the whole") {
    const auto net = stubbed({{"fc", test::make_linear(5, 4, 1)}, {"head", test::make_linear(4, 4, 2)}},
                             [](test::LambdaModel& m, nn::Arguments x) { return m.call("head", m.call("fc", x[0])); });
    const Tensor x = test::random_tensor(Shape(2, 4, 5), 7);
    QConfig accumulators = get_default_calib_qconfig();
    accumulators.output.reset();
    QConfigMapping mapping = default_mapping();
    mapping.set_module_name("head", accumulators);
    const kernels::KernelTable& table = test::scalar_table("bayes");
    const nn::ModulePtr prepared = prepare_calibration(net, mapping, table.policy());
    (*prepared)(x);
    const Tensor one_by_one = (*convert(prepared, table))(x).tensor();
    const auto whole = prepare_calibration_fx(*net, mapping, table.policy());
    calibrate(*whole, x, 2);
    CHECK(same_bytes(one_by_one, lower(convert_fx(*whole), table, 2).run(x)));
}

TEST_CASE("prepare_qat on modules rounds, keeps the names of the parameters and is in training") {
    const auto model = std::make_shared<EagerNet>();
    const nn::ModulePtr prepared =
        prepare_qat(fuse_modules(model, fusions), default_mapping(), test::scalar_table("bayes").policy());
    CHECK(prepared->training());
    const Tensor x = test::random_tensor(Shape(2, 3, 8, 8), 7);
    const double apart = test::largest_difference((*prepared)(x).tensor(), (*model)(x).tensor());
    CHECK(apart > 1e-4);
    CHECK(apart < 0.2 * largest_magnitude((*model)(x).tensor()));
    CHECK(prepared->find_tensor("conv1.weight") != nullptr);
    CHECK(prepared->find_tensor("conv1.activation_post_process.scale") != nullptr);
    CHECK(prepared->find_tensor("conv1.weight_fake_quant.scale") != nullptr);
    CHECK(prepared->find_tensor("join.activation_post_process.scale")->defined());
    CHECK_FALSE(model->child("conv1")->has_child("activation_post_process"));
}

TEST_CASE("Quantization on modules says what is missing, by name") {
    const kernels::KernelTable& table = test::scalar_table("bayes");
    const auto model = std::make_shared<EagerNet>();
    const Tensor x = test::random_tensor(Shape(2, 3, 8, 8), 7);
    const nn::ModulePtr prepared = prepare_calibration(model, default_mapping(), table.policy());
    CHECK(
        message_of<Error>([&] { convert(prepared, table); }) ==
        "convert: quant: no data was seen by its quantizer: run the prepared model on samples first (calibrate() does, "
        "and so does a training), or load the state of one that ran");
    CHECK(message_of<Error>([&] { convert(model, table); }).find("convert: the model is not prepared") == 0);
    CHECK(message_of<Error>([&] {
              convert(prepared, test::scalar_table("meta"));
          }).find("prepared for the target bayes") != std::string::npos);
    CHECK(message_of<Error>([&] {
              prepare_calibration(prepared, default_mapping(), table.policy());
          }).find("the model is prepared already") != std::string::npos);
    CHECK(message_of<Error>([&] {
              prepare_calibration(model, default_mapping().set_module_name("conv3", std::nullopt), table.policy());
          }).find("\"conv3\"") != std::string::npos);
    const auto in_float = test::make_model({{"own", test::make_user_layer()}},
                                           [](test::LambdaModel& m, nn::Arguments v) { return m.call("own", v[0]); });
    CHECK(message_of<Error>([&] {
              prepare_calibration(in_float, default_mapping(), table.policy(), {.strict = true});
          }) == "own: UserLayer has no integer form, and strict is on");
    QConfig affine = get_default_calib_qconfig();
    affine.weight->options.observer_options.scheme = arith::QuantScheme::affine;
    CHECK(message_of<Error>([&] { prepare_calibration(model, QConfigMapping().set_global(affine), table.policy()); }) ==
          "conv1: weights are symmetric always");

    // A convolution that no QuantStub feeds.
    const auto bare = test::make_model({{"conv", test::make_conv(3, 2, 3, 1)}},
                                       [](test::LambdaModel& m, nn::Arguments v) { return m.call("conv", v[0]); });
    const nn::ModulePtr unstubbed = quantize(
        bare, [&](nn::Module& m) { m(x); }, default_mapping(), table);
    CHECK(
        message_of<Error>([&] { (*unstubbed)(x); }) ==
        "conv (QuantizedConv2d): it takes codes, given real values: put a QuantStub before it, or give it no qconfig");
}
