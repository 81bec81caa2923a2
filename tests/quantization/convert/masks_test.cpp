// SPDX-License-Identifier: MIT
//
// Masks of scores, from the first call to the program: masked probabilities are 0, and no grid has the mask's number.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "intq/nn.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/lowering_report.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/same_bytes.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::LambdaModel;
using test::message_of;

namespace {

constexpr index_t heads = 2, tokens = 6;
constexpr float lowest = std::numeric_limits<float>::lowest();

using Body = std::function<nn::Value(LambdaModel&, const nn::Value&)>;

/// Future tokens hold `value`, the others 0.
intq::Tensor causal(float value, DType dtype = DType::float32) {
    intq::Tensor mask = intq::Tensor::zeros(Shape(1, 1, tokens, tokens), dtype);
    for (index_t i = 0; i < tokens; ++i)
        for (index_t j = i + 1; j < tokens; ++j) {
            const auto at = static_cast<std::size_t>(i * tokens + j);
            if (dtype == DType::float32)
                mask.flat<float>()[at] = value;
            else
                mask.flat<std::uint8_t>()[at] = 1;
        }
    return mask;
}

std::shared_ptr<LambdaModel> model_of(const Body& body, const intq::Tensor& mask) {
    auto model = test::make_model(
        {}, [body](LambdaModel& m, nn::Arguments x) { return m.call("dequant", body(m, m.call("quant", x[0]))); });
    model->add_child("quant", std::make_shared<nn::QuantStub>());
    model->add_child("dequant", std::make_shared<nn::DeQuantStub>());
    model->add_child("masked", std::make_shared<nn::MaskedFill>(causal(0, DType::uint8), -1e9));
    model->add_buffer("mask", mask);
    model->eval();
    return model;
}

nn::Value attend(const nn::Value& scores, const nn::Value& x) { return nn::matmul(nn::softmax(scores, -1), x); }
nn::Value scores_of(const nn::Value& x) { return nn::matmul(x, nn::transpose(x, -1, -2)); }

/// Tables of the targets that have products and softmax of this type.
std::vector<const kernels::KernelTable*> tables(DType dtype) {
    std::vector<const kernels::KernelTable*> result;
    for (const kernels::KernelTable* table : test::scalar_tables().tables) {
        const std::string name(table->policy().name);
        if (name != "bernoulli2" && (dtype == DType::int8 || name != "bayes")) result.push_back(table);
    }
    return result;
}

/// @param example  shapes that prepare shall know; none if empty
void check(const Body& body, const intq::Tensor& mask, double int8_db, double int16_db, index_t whole_row = -1,
           const std::vector<intq::Tensor>& example = {}) {
    const intq::Tensor x = test::random_tensor(Shape(3, heads, tokens, 4), 1);
    for (const DType dtype : {DType::int8, DType::int16})
        for (const kernels::KernelTable* table : tables(dtype)) {
            INFO(table->policy().name << " in " << name_of(dtype));
            const auto model = model_of(body, mask);
            const auto prepared =
                prepare_calibration_fx(*model, get_default_qconfig_mapping(table->policy(), dtype, DType::int8),
                                       table->policy(), {.example_inputs = example});
            CHECK(prepared->report().fallbacks.empty());
            calibrate(*prepared, x, 3);
            ExactSimulation simulation(*prepared, *table, 3);
            const intq::Tensor simulated = simulation.run({&x, 1})[0];
            const intq::Tensor y = lower(simulation.quantized(), *table, 3).run(x);
            CHECK(test::same_bytes(y, simulated));
            const intq::Tensor expected = (*model)(nn::Value(x)).tensor();
            CHECK(test::sqnr(expected, y) > (dtype == DType::int8 ? int8_db : int16_db));
            // The table of LiteRT's exponential ends at -10, which is two codes of int16.
            const bool ends = dtype == DType::int16 && table->policy().softmax != arith::SoftmaxRule::requantized;
            const float most = ends ? 2.0f / 32768.0f : 0.0f;
            const intq::Tensor p = *simulation.value_of("softmax");
            for (index_t row = 0; row < 3 * heads * tokens; ++row)
                for (index_t j = row % tokens + 1; row % tokens != whole_row && j < tokens; ++j)
                    REQUIRE(p.contiguous().flat<float>()[static_cast<std::size_t>(row * tokens + j)] <= most);
        }
}

}  // namespace

TEST_CASE("Masked probabilities are 0 and cost the scores no bits, however the mask is written") {
    for (const float value : {-1e9f, lowest, -1e4f, -100.0f}) {
        INFO(value);
        check([](LambdaModel& m, const nn::Value& x) { return attend(scores_of(x) + m.tensor("mask"), x); },
              causal(value), 25.0, 50.0);
    }
    check([](LambdaModel& m, const nn::Value& x) { return attend(nn::add(m.tensor("mask"), scores_of(x)), x); },
          causal(-1e9f), 25.0, 50.0);
    check([](LambdaModel& m, const nn::Value& x) { return attend(m.call("masked", scores_of(x)), x); }, {}, 25.0, 50.0);
    const double infinity = std::numeric_limits<double>::infinity();
    check([=](LambdaModel& m,
              const nn::Value& x) { return attend(nn::masked_fill(scores_of(x), m.tensor("mask"), -infinity), x); },
          causal(0, DType::uint8), 25.0, 50.0);
}

TEST_CASE("Numbers beside a mask are added, on a grid of their own range") {
    intq::Tensor bias = causal(-1e9f);
    for (index_t i = 0; i < tokens; ++i)
        for (index_t j = 0; j <= i; ++j)
            bias.flat<float>()[static_cast<std::size_t>(i * tokens + j)] = -0.3f * static_cast<float>(i - j);
    check([](LambdaModel& m, const nn::Value& x) { return attend(scores_of(x) + m.tensor("mask"), x); }, bias, 25.0,
          50.0);
}

TEST_CASE("Of two products that attend to masked scores, each has its own softmax") {
    check(
        [](LambdaModel& m, const nn::Value& x) {
            const nn::Value scores = scores_of(x) + m.tensor("mask");
            return attend(scores, x) + attend(scores, nn::relu(x));
        },
        causal(-1e9f), 25.0, 48.0);
}

TEST_CASE("A mask is found behind and in front of other numbers, factors and moves") {
    const auto small = [](const nn::Value& x) { return scores_of(x) * 0.5; };
    intq::Tensor bias = intq::Tensor::zeros(Shape(1, heads, tokens, tokens));
    for (index_t i = 0; i < bias.size(); ++i)
        bias.flat<float>()[static_cast<std::size_t>(i)] = -0.1f * static_cast<float>(i % 7);
    const auto biased = [&](LambdaModel& m) -> nn::Value {
        if (m.find_tensor("bias") == nullptr) m.add_buffer("bias", bias);
        return m.tensor("bias");
    };
    const std::vector<intq::Tensor> shapes{intq::Tensor::of_shape(Shape(2, heads, tokens, 4))};
    const Body bodies[] = {
        [&](LambdaModel& m, const nn::Value& x) { return attend(small(x) + m.tensor("mask") + biased(m), x); },
        [&](LambdaModel& m, const nn::Value& x) { return attend(biased(m) + (m.tensor("mask") + small(x)), x); },
        [&](LambdaModel& m, const nn::Value& x) { return attend((scores_of(x) + m.tensor("mask")) * 0.5, x); },
        [&](LambdaModel& m, const nn::Value& x) { return attend(nn::neg(nn::neg(small(x)) - m.tensor("mask")), x); },
        [&](LambdaModel& m, const nn::Value& x) { return attend(m.tensor("mask") - nn::neg(small(x)), x); },
        [&](LambdaModel& m, const nn::Value& x) {
            return attend(biased(m) + m.call("masked", small(x)) * 2.0 + m.tensor("mask"), x);
        },
    };
    for (const Body& body : bodies) {
        INFO("form " << &body - bodies);
        check(body, causal(-1e9f), 25.0, 47.0, -1, shapes);
    }
    check(
        [&](LambdaModel& m, const nn::Value& x) {
            const nn::Value moved = nn::permute(small(x) + m.tensor("mask"), {0, 2, 1, 3});
            return nn::permute(attend(nn::permute(moved, {0, 2, 1, 3}), x), {0, 2, 1, 3});
        },
        causal(-1e9f), 25.0, 47.0, -1, shapes);
}

TEST_CASE("Of a masked value that softmaxes of two axes read, each has its own mask") {
    check(
        [](LambdaModel& m, const nn::Value& x) {
            const nn::Value scores = scores_of(x) + m.tensor("mask");
            return attend(scores, x) + nn::matmul(nn::softmax(scores, -2), x);
        },
        causal(-1e9f), 25.0, 47.0);
    check([](LambdaModel& m, const nn::Value& x) { return attend(scores_of(x) - m.tensor("mask"), x); }, causal(1e9f),
          25.0, 50.0);
}

TEST_CASE("Another reader of masked scores keeps the mask, and costs the softmax nothing") {
    const auto& table = *test::scalar_tables().tables[0];
    const intq::Tensor x = test::random_tensor(Shape(2, heads, tokens, 4), 3);
    const auto model = model_of(
        [](LambdaModel& m, const nn::Value& y) {
            const nn::Value scores = scores_of(y) + m.tensor("mask");
            return attend(scores * 0.5, y) + nn::matmul(scores, y);
        },
        causal(-1e9f));
    const auto prepared = prepare_calibration_fx(*model, get_default_qconfig_mapping(table.policy()), table.policy());
    calibrate(*prepared, x, 2);
    ExactSimulation simulation(*prepared, table, 2);
    const intq::Tensor y = simulation.run({&x, 1})[0];
    CHECK(test::sqnr((*model)(nn::Value(x)).tensor(), y) > 25.0);  // the mask's numbers themselves
    intq::Tensor scores = scores_of(nn::Value(x)).tensor();
    const nn::Value p = nn::softmax((nn::Value(scores) + nn::Value(causal(-1e9f))) * 0.5, -1);
    CHECK(test::sqnr(p.tensor(), *simulation.value_of("softmax")) > 30.0);
}

TEST_CASE("A tensor that takes the range of a sum is named, before any data and behind a calibration") {
    const auto& table = *test::scalar_tables().tables[0];
    const intq::Tensor x = test::random_tensor(Shape(3, heads, tokens, tokens), 1);
    const struct {
        float number;
        DType dtype;
        bool is_named, is_named_before;
    } cases[] = {{-1e9f, DType::int8, true, true},    {-1e9f, DType::int16, true, true},
                 {-1e4f, DType::int8, true, true},    {-1e3f, DType::int16, false, false},
                 {-300.0f, DType::int8, true, false}, {-3.0f, DType::int8, false, false}};
    for (const auto& c : cases) {
        INFO(c.number << " in " << name_of(c.dtype));
        const auto model =
            model_of([](LambdaModel& m, const nn::Value& y) { return y + m.tensor("mask"); }, causal(c.number));
        const auto mapping = get_default_qconfig_mapping(table.policy(), c.dtype, DType::int8);
        const LoweringReport before = lowering_report(*model, mapping, table.policy());
        REQUIRE(before.undecided.size() == (c.is_named_before ? 1 : 0));
        if (c.is_named_before) {
            CHECK(before.undecided[0].layer == "add");
            CHECK(before.undecided[0].reason.find("its tensor mask has numbers up to ") == 0);
        }
        const auto prepared = prepare_calibration_fx(*model, mapping, table.policy());
        const CalibrationReport report = calibrate(*prepared, x, 3);
        REQUIRE(report.lost.size() == (c.is_named ? 1 : 0));
        if (!c.is_named) continue;
        CHECK(report.lost[0].node == "add");
        CHECK(report.lost[0].operand == "quant");
        CHECK(report.lost[0].taker == "mask");
        CHECK(report.lost[0].codes < 16.0);
        CHECK(to_string(report).find("add: its operand quant keeps ") != std::string::npos);
    }
}

TEST_CASE("A tensor of the model without a scale is refused before any data") {
    const auto& table = *test::scalar_tables().tables[0];
    intq::Tensor wide = causal(-3e38f);
    wide.flat<float>()[0] = 3e38f;
    const auto refusals = [&](const intq::Tensor& tensor) {
        const auto model = model_of([](LambdaModel& m, const nn::Value& y) { return y * m.tensor("mask"); }, tensor);
        return lowering_report(*model, get_default_qconfig_mapping(table.policy()), table.policy()).refusals;
    };
    REQUIRE(refusals(wide).size() == 1);
    CHECK(refusals(wide)[0].layer == "mul");
    CHECK(refusals(wide)[0].reason.find("its tensor mask has no grid: ") == 0);
    CHECK(refusals(causal(1e30f)).empty());
}

TEST_CASE("A sum of a masked value with itself stays as it is") {
    const auto& table = *test::scalar_tables().tables[0];
    const intq::Tensor x = test::random_tensor(Shape(2, heads, tokens, 4), 3);
    const auto model = model_of(
        [](LambdaModel& m, const nn::Value& y) {
            const nn::Value half = (scores_of(y) + m.tensor("mask")) * 0.5;
            return attend(half + half, y);
        },
        causal(-100.0f));
    const auto prepared = prepare_calibration_fx(*model, get_default_qconfig_mapping(table.policy()), table.policy());
    calibrate(*prepared, x, 2);
    CHECK(test::sqnr((*model)(nn::Value(x)).tensor(), lower(convert_fx(*prepared), table, 2).run(x)) > 8.0);
}

TEST_CASE("A row of masks alone keeps its scores where float32 keeps them") {
    const auto& table = *test::scalar_tables().tables[0];
    const Body body = [](LambdaModel& m, const nn::Value& x) {
        return nn::softmax(nn::add(nn::mul(x, 0.5), m.tensor("mask")), -1);
    };
    const intq::Tensor x = test::random_tensor(Shape(2, heads, tokens, tokens), 3);
    // PyTorch and ONNX Runtime: -1e4 leaves the scores, -2^29 and beyond leave equal parts.
    for (const float value : {-1e4f, -1e9f, lowest}) {
        INFO(value);
        intq::Tensor mask = causal(value);
        for (index_t j = 0; j < tokens; ++j) mask.flat<float>()[static_cast<std::size_t>(2 * tokens + j)] = value;
        const auto model = model_of(body, mask);
        const auto prepared = prepare_calibration_fx(
            *model, get_default_qconfig_mapping(table.policy(), DType::int8, DType::int8), table.policy());
        calibrate(*prepared, x, 2);
        const intq::Tensor y = lower(convert_fx(*prepared), table, 2).run(x);
        const intq::Tensor kept = nn::softmax(nn::mul(nn::Value(x), 0.5), -1).tensor();
        for (index_t j = 0; j < tokens; ++j)
            for (index_t plane = 0; plane < 2 * heads; ++plane) {
                const auto at = static_cast<std::size_t>((plane * tokens + 2) * tokens + j);
                const float expected = value == -1e4f ? kept.flat<float>()[at] : 1.0f / static_cast<float>(tokens);
                CHECK(std::fabs(y.contiguous().flat<float>()[at] - expected) < 0.02f);
            }
    }
}

TEST_CASE("A row that is filled as a whole costs the others nothing") {
    intq::Tensor mask = causal(0, DType::uint8);
    for (index_t j = 0; j < tokens; ++j) mask.flat<std::uint8_t>()[static_cast<std::size_t>(2 * tokens + j)] = 1;
    for (const double value : {-1e9, -1e4}) {
        INFO(value);
        check([=](LambdaModel& m,
                  const nn::Value& x) { return attend(nn::masked_fill(scores_of(x), m.tensor("mask"), value), x); },
              mask, 25.0, 50.0, 2);
    }
}

TEST_CASE("An observer of scores sees masks where their probability rounds to 0, and leaves rows of masks out") {
    ObserverOptions options;
    options.softmax_axis = -1;
    options.scheme = arith::QuantScheme::affine;
    MinMaxObserver observer(options);
    observer.observe(intq::Tensor::from(Shape(2, 4), {3.0f, -1e9f, 1.0f, lowest, lowest, lowest, lowest, lowest}));
    const float reach = static_cast<float>(std::log(2.0 * 256.0 * 4.0));
    CHECK(observer.ranges().lowest[0] == 3.0f - reach);
    CHECK(observer.ranges().highest[0] == 3.0f);
    options.softmax_axis = 0;
    MinMaxObserver columns(options);
    columns.observe(intq::Tensor::from(Shape(2, 2), {5.0f, -200.0f, -80.0f, 1.0f}));
    CHECK(columns.ranges().lowest[0] == 1.0f - static_cast<float>(std::log(2.0 * 256.0 * 2.0)));  // column 1
    CHECK(columns.ranges().highest[0] == 5.0f);
}

TEST_CASE("An observer of masks sees them 80 below the other numbers, on the way to the scores") {
    ObserverOptions options;
    options.scheme = arith::QuantScheme::affine;
    const auto range_of = [&](double factor, std::initializer_list<float> values) {
        options.mask_factor = factor;
        MinMaxObserver observer(options);
        observer.observe(intq::Tensor::from(Shape(index_t{4}), values));
        return std::pair(observer.ranges().lowest[0], observer.ranges().highest[0]);
    };
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float mask : {-1e4f, -1e9f, lowest, -infinity}) {
        INFO(mask);
        CHECK(range_of(1.0, {0.0f, mask, 2.0f, -3.0f}) == std::pair(-83.0f, 2.0f));
        CHECK(range_of(0.5, {0.0f, mask, 2.0f, -3.0f}) == std::pair(-163.0f, 2.0f));
        CHECK(range_of(-1.0, {0.0f, -mask, 2.0f, -3.0f}) == std::pair(-3.0f, 82.0f));
    }
    CHECK(range_of(1.0, {0.0f, -100.0f, 2.0f, -3.0f}) == std::pair(-100.0f, 2.0f));
}

TEST_CASE("A mask that is an input costs the scores no range, whatever its number and where it is added") {
    using Pair = std::function<nn::Value(LambdaModel&, const nn::Value&, const nn::Value&)>;
    const auto check_input = [](const Pair& body, float value, bool differs = false) {
        const intq::Tensor x = test::random_tensor(Shape(4, heads, tokens, 4), 1);
        intq::Tensor mask = intq::Tensor::zeros(Shape(4, 1, 1, tokens));
        for (const std::size_t at : {5, 10, 11, 17, 21, 22, 23}) mask.flat<float>()[at] = value;
        auto model =
            test::make_model({},
                             [body](LambdaModel& m, nn::Arguments in) {
                                 return m.call("dequant", body(m, m.call("quant", in[0]), m.call("quant_mask", in[1])));
                             },
                             {"x", "mask"});
        model->add_child("quant", std::make_shared<nn::QuantStub>());
        model->add_child("quant_mask", std::make_shared<nn::QuantStub>());
        model->add_child("dequant", std::make_shared<nn::DeQuantStub>());
        model->add_buffer("bias", test::random_tensor(Shape(1, heads, tokens, tokens), 5));
        model->eval();
        const std::vector<std::vector<intq::Tensor>> batches{{x, mask}};
        const intq::Tensor expected = (*model)(nn::Value(x), nn::Value(mask)).tensor();
        for (const DType dtype : {DType::int8, DType::int16})
            for (const kernels::KernelTable* table : tables(dtype)) {
                INFO(table->policy().name << " in " << name_of(dtype) << ", " << value);
                // The difference of equal numbers is a code there, which -1e9 makes half a mask (docs/workflow.md).
                if (differs && dtype == DType::int16 && std::string(table->policy().name) == "meta") continue;
                const auto prepared = prepare_calibration_fx(
                    *model, get_default_qconfig_mapping(table->policy(), dtype, DType::int8), table->policy());
                calibrate(*prepared, batches);
                ExactSimulation simulation(*prepared, *table, 4);
                const intq::Tensor y = lower(simulation.quantized(), *table, 4).run(batches[0])[0];
                CHECK(test::same_bytes(y, simulation.run(batches[0])[0]));
                CHECK(test::sqnr(expected, y) > (dtype == DType::int8 ? 25.0 : 44.0));
            }
    };
    for (const float value : {-1e9f, lowest, -1e4f, -100.0f})
        check_input([](LambdaModel&, const nn::Value& x, const nn::Value& m) { return attend(scores_of(x) + m, x); },
                    value);
    const Pair behind = [](LambdaModel& model, const nn::Value& x, const nn::Value& m) {
        return attend((scores_of(x) + m) + model.tensor("bias"), x);
    };
    const Pair ones = [](LambdaModel&, const nn::Value& x, const nn::Value& m) {
        return attend(scores_of(x) + (nn::Value(1.0) - m) * -1e9, x);
    };
    const Pair subtracted = [](LambdaModel&, const nn::Value& x, const nn::Value& m) {
        return attend(scores_of(x) - m * 1e9, x);
    };
    const Pair with_bias = [](LambdaModel& model, const nn::Value& x, const nn::Value& m) {
        return attend(scores_of(x) + (model.tensor("bias") + m), x);
    };
    check_input(behind, -1e9f);
    check_input(with_bias, -1e9f);
    check_input(subtracted, 1.0f);
    const auto with_ones = [](const Pair& body) {
        return [body](LambdaModel& model, const nn::Value& x, const nn::Value& m) {
            return body(model, x, nn::Value(1.0) - m);
        };
    };
    check_input(with_ones(ones), 1.0f, true);
}

TEST_CASE("Fills that are no masks, and masks that are computed, have no integer form") {
    const auto& table = *test::scalar_tables().tables[0];
    const auto refusal = [&](const Body& body) {
        return message_of<Error>([&] {
            const auto prepared =
                prepare_calibration_fx(*model_of(body, causal(0, DType::uint8)),
                                       get_default_qconfig_mapping(table.policy(), DType::int8), table.policy());
        });
    };
    CHECK(refusal([](LambdaModel& m, const nn::Value& x) {
              return attend(nn::masked_fill(scores_of(x), m.tensor("mask"), 0.0), x);
          }).find("a fill of 0 has no integer form; -inf and values up to -80 become the lowest code") !=
          std::string::npos);
    CHECK(refusal([](LambdaModel&, const nn::Value& x) {
              return attend(nn::masked_fill(scores_of(x), scores_of(x), -1e9), x);
          }).find("its mask must be a tensor of the model; a mask that is computed has no integer form") !=
          std::string::npos);
    CHECK(message_of<Error>([] { nn::MaskedFill(causal(1.0f), std::nan("")); }) == "MaskedFill: the value is NaN");
}
