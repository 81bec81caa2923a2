// SPDX-License-Identifier: MIT
//
// Constant numbers beside codes, from the first call to the program.
#include "intq/quantization/operators/internal/constant_operand.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "intq/arith/ieee.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/convert/quantize_model.hpp"
#include "intq/quantization/eager/prepare_eager.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::LambdaModel;
using test::message_of;

namespace {

using Body = nn::Value (*)(const nn::Value&);

nn::ModulePtr model_of(Body body) {
    auto model = test::make_model(
        {}, [body](LambdaModel& m, nn::Arguments x) { return m.call("dequant", body(m.call("quant", x[0]))); });
    model->add_child("quant", std::make_shared<nn::QuantStub>());
    model->add_child("dequant", std::make_shared<nn::DeQuantStub>());
    model->eval();
    return model;
}

std::vector<const kernels::KernelTable*> tables() {
    return {&program::best_table<target::fp32>(), &program::best_table<target::tflite<>>(),
            &program::best_table<target::litert>(), &program::best_table<target::bpu<march::bayes>>(),
            &program::best_table<target::bpu<march::meta>>()};
}

std::shared_ptr<PreparedModel> prepared_model(Body body, const kernels::KernelTable& table, DType dtype,
                                              const intq::Tensor& x) {
    auto qconfig = get_default_qconfig(table.policy(), dtype, DType::int8);
    qconfig.output->options.observer = observer_factory<MinMaxObserver>();
    const auto prepared = prepare_calibration_fx(*model_of(body), QConfigMapping().set_global(qconfig), table.policy());
    calibrate(*prepared, x, x.extent(0));
    return prepared;
}

const OwnedQParams& grid_of(const QuantizedGraph& quantized, const std::string& node) {
    return quantized.tensor(quantized.values.at(node)).qparams;
}

}  // namespace

TEST_CASE("A number beside codes is an operand of add, sub and mul, on each side, in each type") {
    struct Case {
        const char* name;
        Body body;
    };
    const std::vector<Case> cases{
        {"x + 0.7", [](const nn::Value& x) { return x + 0.7; }},
        {"0.7 + x", [](const nn::Value& x) { return nn::add(0.7, x); }},
        {"x - 1.3", [](const nn::Value& x) { return x - 1.3; }},
        {"1.3 - x", [](const nn::Value& x) { return nn::sub(1.3, x); }},
        {"x * -0.4", [](const nn::Value& x) { return x * -0.4; }},
    };
    const intq::Tensor x = test::random_tensor(Shape(3, 2, 5, 6), 1);
    for (const Case& one : cases)
        for (const kernels::KernelTable* table : tables())
            for (const DType dtype : {DType::int8, DType::int16}) {
                INFO(one.name << " on " << table->policy().name << " in " << name_of(dtype));
                const auto prepared = prepared_model(one.body, *table, dtype, x);
                ExactSimulation simulation(*prepared, *table, 3);
                const intq::Tensor simulated = simulation.run({&x, 1})[0].contiguous();
                const intq::Tensor y = lower(simulation.quantized(), *table, 3).run(x).contiguous();
                CHECK(std::memcmp(y.data(), simulated.data(), static_cast<std::size_t>(y.bytes())) == 0);
                const double step =
                    static_cast<double>(grid_of(simulation.quantized(), "activation_post_process_0").scale());
                const auto& last = simulation.quantized().nodes[simulation.quantized().nodes.size() - 2];
                const double own = static_cast<double>(simulation.quantized().output(last).qparams.scale());
                const std::vector<nn::Value> inputs{x};
                CHECK(test::largest_difference(model_of(one.body)->dispatch("forward", inputs).tensor(), y) <
                      1.6 * (0.5 * step + own));
            }
}

TEST_CASE("A product with a positive number is another scale: no code changes") {
    const intq::Tensor x = test::random_tensor(Shape(3, 2, 5, 6), 2);
    for (const kernels::KernelTable* table : tables())
        for (const DType dtype : {DType::int8, DType::int16}) {
            INFO(table->policy().name << " in " << name_of(dtype));
            const auto prepared = prepared_model([](const nn::Value& v) { return v * 0.3; }, *table, dtype, x);
            ExactSimulation simulation(*prepared, *table, 3);
            simulation.run({&x, 1});
            const QuantizedGraph& quantized = simulation.quantized();
            const OwnedQParams &input = grid_of(quantized, "activation_post_process_0"),
                               &output = grid_of(quantized, "mul");
            CHECK(output.scale() == arith::fmul(input.scale(), 0.3f));
            CHECK(output.zero_points == input.zero_points);
            const intq::Tensor before =
                                   simulation.tensor(quantized.values.at("activation_post_process_0")).contiguous(),
                               after = simulation.codes_of("mul").contiguous();
            CHECK(std::memcmp(before.data(), after.data(), static_cast<std::size_t>(before.bytes())) == 0);
        }
}

TEST_CASE("A leaky_relu of int16 codes is at most one code from the nearest, for slopes of any size and sign") {
    const intq::Tensor x = test::random_tensor(Shape(3, 2, 15, 16), 5);
    const std::vector<std::pair<double, Body>> slopes{
        {0.01, [](const nn::Value& v) { return nn::leaky_relu(v, 0.01); }},
        {0.3, [](const nn::Value& v) { return nn::leaky_relu(v, 0.3); }},
        {1.0, [](const nn::Value& v) { return nn::leaky_relu(v, 1.0); }},
        {7.5, [](const nn::Value& v) { return nn::leaky_relu(v, 7.5); }},
        {-0.5, [](const nn::Value& v) { return nn::leaky_relu(v, -0.5); }},
        {0.0, [](const nn::Value& v) { return nn::leaky_relu(v, 0.0); }},
        {1e-38, [](const nn::Value& v) { return nn::leaky_relu(v, 1e-38); }}};
    for (const kernels::KernelTable* table : tables())
        for (const auto& [slope, body] : slopes) {
            INFO(slope << " on " << table->policy().name);
            const auto prepared = prepared_model(body, *table, DType::int16, x);
            ExactSimulation simulation(*prepared, *table, 3);
            const intq::Tensor simulated = simulation.run({&x, 1})[0];
            CHECK(test::largest_difference(lower(simulation.quantized(), *table, 3).run(x), simulated) == 0.0);
            const QuantizedGraph& quantized = simulation.quantized();
            const OwnedQParams &in = grid_of(quantized, "activation_post_process_0"),
                               &out = grid_of(quantized, "leaky_relu");
            const intq::Tensor from = simulation.tensor(quantized.values.at("activation_post_process_0")).contiguous(),
                               to = simulation.codes_of("leaky_relu").contiguous();
            double worst = 0.0;
            for (std::size_t i = 0; i < from.flat<std::int16_t>().size(); ++i) {
                const double real = double{in.scale()} * from.flat<std::int16_t>()[i],
                             exact = (real < 0.0 ? slope * real : real) / double{out.scale()};
                worst = (std::max)(worst, std::abs(to.flat<std::int16_t>()[i] - std::clamp(exact, -32768.0, 32767.0)));
            }
            const std::string target(table->policy().name);
            CHECK(worst < (target == "bayes" || target == "meta" ? 1.5 : 1.0));  // bpu has a table, not a sum
        }
}

TEST_CASE("A factor that no scale can take is an operand or is refused by name") {
    const auto& table = program::best_table<target::fp32>();
    const intq::Tensor x = test::random_tensor(Shape(3, 2, 5, 6), 3);
    // The scale of the product would lie below 2^-100.
    CHECK(message_of<Error>([&] {
              prepared_model([](const nn::Value& v) { return v * 0x1p-110; }, table, DType::int8, x);
          }).find("prepare: %mul (mul): the constant") != std::string::npos);
    const auto infinite = [](const nn::Value& v) { return v + std::numeric_limits<double>::infinity(); };
    CHECK(message_of<Error>([&] {
              prepare_calibration_fx(*model_of(infinite), table.policy());
          }).find("prepare: %add (add): its constant operand is not finite") == 0);
}

TEST_CASE("A hard-swish that is written by hand is a program") {
    const intq::Tensor x = test::random_tensor(Shape(3, 2, 5, 6), 4, 3.0f);
    const Body hard_swish = [](const nn::Value& v) { return v * nn::clamp(v + 3.0, 0.0, 6.0) * (1.0 / 6.0); };
    for (const kernels::KernelTable* table : tables()) {
        INFO(table->policy().name);
        const auto prepared = prepared_model(hard_swish, *table, DType::int8, x);
        CHECK(prepared->report().fallbacks.empty());
        const intq::Tensor y = lower(convert_fx(*prepared), *table, 3).run(x);
        const std::vector<nn::Value> inputs{x};
        const intq::Tensor expected = model_of(hard_swish)->dispatch("forward", inputs).tensor();
        CHECK(test::largest_difference(expected, y) < 0.2);
    }
}

TEST_CASE("Among modules, FloatFunctional's add_scalar and mul_scalar are programs") {
    const intq::Tensor x = test::random_tensor(Shape(3, 2, 5, 6), 5);
    const auto model = test::make_model(
        {{"quant", std::make_shared<nn::QuantStub>()},
         {"sum", std::make_shared<nn::FloatFunctional>()},
         {"product", std::make_shared<nn::FloatFunctional>()},
         {"dequant", std::make_shared<nn::DeQuantStub>()}},
        [](LambdaModel& m, nn::Arguments a) {
            const auto& sum = m.child("sum");
            const auto& product = m.child("product");
            const nn::Value more = sum->dispatch("add_scalar", std::array{m.call("quant", a[0]), nn::Value(0.5)});
            return m.call("dequant", product->dispatch("mul_scalar", std::array{more, nn::Value(-2.0)}));
        });
    const std::vector<nn::Value> inputs{x};
    for (const kernels::KernelTable* table : tables()) {
        INFO(table->policy().name);
        const auto prepared = prepare_calibration(model, table->policy());
        prepared->dispatch("forward", inputs);
        const intq::Tensor y = convert(prepared, *table)->dispatch("forward", inputs).tensor();
        CHECK(test::largest_difference(model->dispatch("forward", inputs).tensor(), y) < 0.2);
    }
}
