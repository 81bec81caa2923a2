// SPDX-License-Identifier: MIT
//
// Operators that bring numbers of their own, from the first call to the program: pads, clips and averages whose numbers
// the grid of their input does not hold.
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "intq/nn.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/hybrid.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/convert/quantize_model.hpp"
#include "intq/quantization/eager/prepare_eager.hpp"
#include "intq/quantization/fake_quantize/grid_choice.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/operators/elementwise.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::LambdaModel;

namespace {

using test::sqnr;

/// quant, the body, dequant.
nn::ModulePtr model_of(std::initializer_list<std::pair<std::string, nn::ModulePtr>> children,
                       const LambdaModel::Forward& body) {
    const auto model = test::make_model(children, [body](LambdaModel& m, nn::Arguments x) {
        const std::vector<nn::Value> codes{m.call("quant", x[0])};
        return m.call("dequant", body(m, nn::Arguments(codes)));
    });
    model->add_child("quant", std::make_shared<nn::QuantStub>());
    model->add_child("dequant", std::make_shared<nn::DeQuantStub>());
    model->eval();
    return model;
}

struct Run {
    std::shared_ptr<PreparedModel> prepared;
    CalibrationReport report;
    QuantizedGraph quantized;
    std::size_t instructions = 0;
    double decibels = 0.0;
};

/// The whole way; the program's results are those of exact simulation, or the test fails.
/// @param options  of prepare
Run run(const nn::Module& model, const kernels::KernelTable& table, DType dtype, const intq::Tensor& x,
        const PrepareOptions& options = {}) {
    Run result;
    auto qconfig = get_default_qconfig(table.policy(), dtype, DType::int8);
    qconfig.output->options.observer = observer_factory<MinMaxObserver>();
    const auto mapping = QConfigMapping().set_global(qconfig);
    result.prepared = prepare_calibration_fx(model, mapping, table.policy(), options);
    result.report = calibrate(*result.prepared, x, x.extent(0));
    ExactSimulation simulation(*result.prepared, table, x.extent(0));
    const intq::Tensor simulated = simulation.run({&x, 1})[0];
    const LoweredModel lowered = lower(simulation.quantized(), table, x.extent(0));
    const intq::Tensor y = lowered.run(x).contiguous(), exact = simulated.contiguous();
    CHECK(std::memcmp(y.data(), exact.data(), static_cast<std::size_t>(y.bytes())) == 0);
    const auto plain = nn::clone(model);
    const std::vector<nn::Value> inputs{x};
    result.quantized = simulation.quantized();
    result.instructions = lowered.whole_program().program().instructions.size();
    result.decibels = sqnr(plain->dispatch("forward", inputs).tensor(), y);
    return result;
}

std::vector<const kernels::KernelTable*> tables() {
    return {&program::best_table<target::fp32>(), &program::best_table<target::tflite<>>(),
            &program::best_table<target::litert>(), &program::best_table<target::bpu<march::bayes>>(),
            &program::best_table<target::bpu<march::meta>>()};
}

GridChoice choice_behind(const Run& run, const std::string& node) {
    const graph::Node& quantizer = *run.prepared->graph().find(node)->users()[0];
    const auto* choice = dynamic_cast<GridChoiceFakeQuantize*>(graph::module_of(quantizer, *run.prepared));
    REQUIRE(choice != nullptr);
    return choice->choice();
}

const auto pad_of = [](double fill) {
    return [fill](LambdaModel& m, nn::Arguments x) { return m.call("conv", nn::pad(x[0], {1, 1, 1, 1}, fill)); };
};

}  // namespace

TEST_CASE("A pad whose fill lies beyond its input has a grid of its own") {
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 6, 6), 1);
    for (const kernels::KernelTable* table : tables())
        for (const DType dtype : {DType::int8, DType::int16}) {
            INFO(table->policy().name << " " << name_of(dtype));
            const Run made = run(*model_of({{"conv", test::make_conv(3, 4, 3, 2)}}, pad_of(-7.0)), *table, dtype, x);
            CHECK(choice_behind(made, "pad") == GridChoice::own);
            CHECK(made.decibels > (dtype == DType::int8 ? 35.0 : 38.0));
            CHECK(made.report.kept.empty());
        }
}

TEST_CASE("A pad whose fill is a code keeps the grid, and a pad with 0 or a mask asks nobody") {
    const intq::Tensor x = intq::Tensor::from(Shape(1, 1, 2, 2), {-1.0f, 0.25f, 0.5f, 1.0f});
    const auto& table = program::best_table<target::bpu<march::bayes>>();
    const auto identity = [](double fill) {
        return [fill](LambdaModel&, nn::Arguments a) { return nn::pad(a[0], {1, 1, 1, 1}, fill); };
    };
    CHECK(choice_behind(run(*model_of({}, identity(1.0)), table, DType::int8, x), "pad") == GridChoice::kept);
    for (const double fill :
         {0.0, static_cast<double>(std::numeric_limits<float>::lowest()), -std::numeric_limits<double>::infinity()}) {
        INFO(fill);
        const auto prepared = prepare_calibration_fx(*model_of({}, identity(fill)), table.policy());
        const graph::Node& behind = *prepared->graph().find("pad")->users()[0];
        CHECK(graph::type_of(behind, *prepared) == "FollowingFakeQuantize");
        calibrate(*prepared, x, 1);
        const OwnedQParams grid = convert_fx(*prepared).tensor(1).qparams;
        CHECK(grid.scale() < 0.1f);  // a mask enters no range
    }
}

TEST_CASE("The fill of a pad that a clip alone reads is clipped first") {
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 6, 6), 2);
    const auto clipped = [](LambdaModel& m, nn::Arguments a) {
        return nn::clamp(nn::pad(m.call("conv", a[0]), {1, 1, 1, 1}, 100.0), -1.0, 1.0);
    };
    for (const kernels::KernelTable* table : tables()) {
        INFO(table->policy().name);
        const Run made = run(*model_of({{"conv", test::make_conv(3, 4, 3, 2)}}, clipped), *table, DType::int8, x);
        CHECK(made.decibels > 35.0);  // 24 on fp32 and 19 on bpu with codes up to 100
        CHECK(made.prepared->graph().find("pad")->args()[3].number() == 1.0);
    }
}

TEST_CASE("A clip behind a cat, and a relu behind that, decide the grid of the cat") {
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 6, 6), 6, 3.0f);
    const auto clipped = [](LambdaModel& m, nn::Arguments a) {
        const std::vector<nn::Value> parts{m.call("conv", a[0]), nn::tanh(a[0])};
        return nn::relu(nn::clamp(nn::cat(parts, 1), -0.03, 0.08));
    };
    for (const kernels::KernelTable* table : tables())
        for (const DType dtype : {DType::int8, DType::int16}) {
            INFO(table->policy().name << " " << name_of(dtype));
            const Run made = run(*model_of({{"conv", test::make_conv(3, 4, 3, 2)}}, clipped), *table, dtype, x);
            CHECK(made.decibels > 20.0);
            // No quantizer stands between, so no grid is as wide as the cat's values.
            const graph::Node& cat = *made.prepared->graph().find("cat");
            REQUIRE(cat.users().size() == 1);
            CHECK(graph::operator_of(*cat.users()[0], *made.prepared) == "clamp");
            CHECK(made.quantized.values.count("cat") == 1);
            CHECK(made.quantized.values.count("clamp") == 1);
        }
}

TEST_CASE("A clip whose interval does not hold 0 bounds the codes of a table") {
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 6, 6), 5, 3.0f);
    const auto bounded = [](double low, double high) {
        return [=](LambdaModel&, nn::Arguments a) { return nn::clamp(nn::tanh(a[0]), low, high); };
    };
    for (const auto& [low, high] : {std::pair(0.25, 0.5), {-0.75, -0.5}})
        for (const kernels::KernelTable* table : tables())
            for (const DType dtype : {DType::int8, DType::int16}) {
                INFO(table->policy().name << " " << name_of(dtype) << " " << low);
                const Run made = run(*model_of({}, bounded(low, high)), *table, dtype, x);
                CHECK(made.decibels > 35.0);
                CHECK(made.instructions == 3);
            }
}

TEST_CASE("A batch norm that no layer takes has no error of its weights") {
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 6, 6), 9);
    const auto model = model_of({{"norm", test::make_batch_norm<nn::BatchNorm2d>(3, 7)}},
                                [](LambdaModel& m, nn::Arguments a) { return m.call("norm", a[0]); });
    for (const kernels::KernelTable* table : tables()) {
        INFO(table->policy().name);
        CHECK(run(*model, *table, DType::int16, x).decibels > 75.0);  // 58 on bpu where the largest weight is clamped
    }
}

TEST_CASE("A clip that others share its input with has a grid of its own where its bounds are lost on the input's") {
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 6, 6), 3, 60.0f);
    const auto body = [](LambdaModel& m, nn::Arguments a) {
        const nn::Value pooled = m.call("pool", a[0]);
        return nn::cat({nn::clamp(pooled, 0.0, 1.0), m.call("conv", pooled)}, 1);
    };
    const auto model = model_of(
        {{"pool", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2))}, {"conv", test::make_conv(3, 2, 1, 4)}},
        body);
    for (const kernels::KernelTable* table : tables()) {
        INFO(table->policy().name);
        const Run made = run(*model, *table, DType::int8, x);
        CHECK(choice_behind(made, "clamp") == GridChoice::own);
    }
}

TEST_CASE("A clip behind a producer that nobody else reads bounds its codes: one quantizer, one instruction") {
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 6, 6), 5, 3.0f);
    struct Case {
        const char* producer;
        nn::ModulePtr model;
        std::size_t instructions;  // quantize, the producer with its bounds, dequantize
    };
    const auto clamped = [](nn::Value (*producer)(LambdaModel&, const nn::Value&)) {
        return [producer](LambdaModel& m, nn::Arguments a) { return nn::clamp(producer(m, a[0]), -0.5, 1.0); };
    };
    const std::vector<Case> cases{
        {"conv", model_of({{"conv", test::make_conv(3, 4, 3, 6)}}, clamped([](LambdaModel& m, const nn::Value& v) {
                              return m.call("conv", v);
                          })),
         3},
        {"add", model_of({}, clamped([](LambdaModel&, const nn::Value& v) { return v + v; })), 3},
        {"mul", model_of({}, clamped([](LambdaModel&, const nn::Value& v) { return v * v; })), 3},
        {"tanh", model_of({}, clamped([](LambdaModel&, const nn::Value& v) { return nn::tanh(v); })), 3},
        {"norm",
         model_of({{"norm", test::make_batch_norm<nn::BatchNorm2d>(3, 7)}},
                  clamped([](LambdaModel& m, const nn::Value& v) { return m.call("norm", v); })),
         3},
        {"quant", model_of({}, clamped([](LambdaModel&, const nn::Value& v) { return v; })), 3},
    };
    for (const Case& one : cases)
        for (const kernels::KernelTable* table : tables()) {
            INFO(one.producer << " on " << table->policy().name);
            const Run made = run(*one.model, *table, DType::int8, x);
            const graph::Node& producer = *made.prepared->graph().find(one.producer);
            REQUIRE(producer.users().size() == 1);
            CHECK(graph::operator_of(*producer.users()[0], *made.prepared) == "clamp");
            CHECK(made.decibels > 30.0);
            CHECK(made.instructions == one.instructions);
            // Both names are there, on one grid.
            CHECK(made.quantized.values.count(one.producer) == 1);
            CHECK(made.quantized.values.count("clamp") == 1);
        }
}

TEST_CASE(
    "An average over the whole image has a grid of its own on targets that divide codes; one over windows tells") {
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 8, 8), 8);
    const auto& table = program::best_table<target::tflite<>>();
    const auto whole = model_of({{"pool", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1})}},
                                [](LambdaModel& m, nn::Arguments a) { return m.call("pool", a[0]); });
    const Run mean = run(*whole, table, DType::int8, x);
    CHECK(choice_behind(mean, "pool") == GridChoice::own);
    CHECK(mean.decibels > 30.0);
    CHECK(mean.report.kept.empty());

    const auto window = model_of({{"pool", std::make_shared<nn::AvgPool2d>(nn::square_window(8, 8))}},
                                 [](LambdaModel& m, nn::Arguments a) { return m.call("pool", a[0]); });
    const Run known = run(*window, table, DType::int8, x, {.example_inputs = {x}});
    CHECK(choice_behind(known, "pool") == GridChoice::own);
    CHECK(known.decibels > 30.0);
    CHECK(choice_behind(run(*window, table, DType::int8, x), "pool") == GridChoice::kept);  // nobody said the size

    const auto windows = model_of({{"pool", std::make_shared<nn::AvgPool2d>(nn::square_window(4, 4))}},
                                  [](LambdaModel& m, nn::Arguments a) { return m.call("pool", a[0]); });
    const Run windowed = run(*windows, table, DType::int8, x);
    CHECK(choice_behind(windowed, "pool") == GridChoice::kept);
    REQUIRE(windowed.report.kept.size() == 1);
    CHECK(windowed.report.kept[0].name == "pool");
    CHECK(*windowed.report.kept[0].loss > 3.0);
    CHECK(windowed.prepared->report().kept.size() == 1);
    CHECK(to_string(windowed.report).find("pool: keeps the grid of its input, which costs its output ") !=
          std::string::npos);
}

TEST_CASE("The choice goes with the state, into training and back") {
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 6, 6), 1);
    const auto& table = program::best_table<target::tflite<>>();
    const auto model = model_of({{"conv", test::make_conv(3, 4, 3, 2)}}, pad_of(-7.0));
    const Run calibrated = run(*model, table, DType::int8, x);
    const auto behind_pad = [](PreparedModel& prepared) -> GridChoiceFakeQuantize& {
        return dynamic_cast<GridChoiceFakeQuantize&>(
            *graph::module_of(*prepared.graph().find("pad")->users()[0], prepared));
    };
    const auto qat = prepare_qat_fx(*model, get_default_qat_qconfig_mapping(table.policy()), table.policy());
    CHECK(behind_pad(*qat).choice() == GridChoice::own);
    load_calibration(*qat, *calibrated.prepared);
    CHECK(behind_pad(*qat).choice() == GridChoice::own);
    CHECK(behind_pad(*qat).qparams() == behind_pad(*calibrated.prepared).qparams());
    const auto loaded = prepare_calibration_fx(*model, table.policy());
    CHECK(behind_pad(*loaded).choice() == GridChoice::open);
    nn::load_state_dict(*loaded, nn::state_dict(*qat));
    CHECK(behind_pad(*loaded).choice() == GridChoice::own);
    CHECK(convert_fx(*loaded).nodes.size() == calibrated.quantized.nodes.size());
}

TEST_CASE("Among modules a clip has a grid of its own, too") {
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 6, 6), 9, 40.0f);
    for (const kernels::KernelTable* table : tables()) {
        INFO(table->policy().name);
        const auto model =
            model_of({{"pool", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2))},
                      {"clip", std::make_shared<nn::ReLU6>()}},
                     [](LambdaModel& m, nn::Arguments a) { return m.call("clip", m.call("pool", a[0])); });
        const auto prepared = prepare_calibration(model, table->policy());
        const std::vector<nn::Value> inputs{x};
        prepared->dispatch("forward", inputs);
        set_fake_quantize(*prepared, FakeQuantState::validation);
        const auto& choice = dynamic_cast<const GridChoiceFakeQuantize&>(prepared->find("clip.input_grid"));
        CHECK(choice.choice() == GridChoice::own);
        const auto converted = convert(prepared, *table);
        const intq::Tensor expected = model->dispatch("forward", inputs).tensor();
        const intq::Tensor simulated = prepared->dispatch("forward", inputs).tensor();
        const intq::Tensor y = converted->dispatch("forward", inputs).tensor();
        CHECK(sqnr(expected, y) > 20.0);
        CHECK(sqnr(expected, y) > sqnr(expected, simulated) - 1.0);
    }
}

TEST_CASE("Torch mode keeps PyTorch's rule: the quantizer of the input") {
    const auto& table = program::best_table<target::fp32>();
    PrepareOptions options;
    options.compatibility = Compatibility::torch;
    const auto model = test::make_model({{"conv", test::make_conv(3, 4, 3, 6)}}, [](LambdaModel& m, nn::Arguments a) {
        return nn::clamp(m.call("conv", a[0]), -0.5, 1.0);
    });
    const auto prepared = prepare_calibration_fx(*model, get_default_qconfig_mapping(), table.policy(), options);
    const graph::Node& clamp = *prepared->graph().find("clamp");
    CHECK(graph::module_of(*clamp.inputs()[0], *prepared) == graph::module_of(*clamp.users()[0], *prepared));
}
