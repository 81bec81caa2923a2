// SPDX-License-Identifier: MIT
//
// The metrics of values: PyTorch's numbers, its rules for tuples, codes and other types, and the JSON form of results.
#include "intq/numeric_suite/loggers/value_metrics.hpp"

#include <cmath>
#include <limits>

#include "intq/numeric_suite/fx/output_logger.hpp"
#include "intq/numeric_suite/loggers/results.hpp"
#include "intq/numeric_suite/metrics/metrics.hpp"
#include "intq/tensor/quantize.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/golden_tensor.hpp"
#include "support/small_models.hpp"

using namespace intq;
using intq::Tensor;
using nlohmann::json;
namespace ns = intq::numeric_suite;
using test::golden_tensor;
using test::message_of;

namespace {

void check_relative(double actual, double expected) {
    if (std::isnan(expected)) {
        CHECK(std::isnan(actual));
    } else if (std::isinf(expected)) {
        CHECK(actual == expected);
    } else {
        CHECK(std::abs(actual - expected) <= 1e-6 * std::abs(expected));
    }
}

double number(const json& text) { return std::strtod(text.get<std::string>().c_str(), nullptr); }

Tensor floats(std::initializer_list<float> values) {
    return Tensor::from<float>(Shape(static_cast<index_t>(values.size())), values);
}

}  // namespace

TEST_CASE("The suite's metrics are PyTorch's within one part in a million") {
    const auto cases = test::golden_cases("metrics");
    REQUIRE(cases.size() == 20);
    for (const json& row : cases) {
        INFO(row.at("name"));
        const nn::Value x = golden_tensor(row.at("a")), y = golden_tensor(row.at("b"));
        check_relative(ns::fx::compute_sqnr(x, y).number(), number(row.at("sqnr")));
        check_relative(ns::fx::compute_normalized_l2_error(x, y).number(), number(row.at("normalized_l2")));
        check_relative(ns::fx::compute_cosine_similarity(x, y).number(), number(row.at("cosine").at(0)));
    }
}

TEST_CASE("Codes are compared as the real values that they stand for") {
    OwnedQParams grid = OwnedQParams::per_tensor(0.5f, DType::int8);
    Tensor codes = Tensor::from<std::int8_t>(Shape(2), {2, 6});
    codes.set_qparams(grid);
    const nn::Value real = floats({1.0f, 3.0f});
    CHECK(ns::fx::compute_sqnr(real, codes).number() == std::numeric_limits<double>::infinity());
    CHECK(ns::fx::compute_normalized_l2_error(real, codes).number() == 0.0);
    CHECK(ns::dtype_word(codes) == "qint8");
    CHECK(ns::dequantized(nn::Value(nn::Value::Tuple{codes, 3})).tuple()[1].integer() == 3);
}

TEST_CASE("Tuples are compared item by item, as many as the shorter one has") {
    const nn::Value x = nn::Value::Tuple{floats({1, 2}), nn::Value::Tuple{floats({1}), floats({2})}};
    const nn::Value y = nn::Value::Tuple{floats({1, 2}), nn::Value::Tuple{floats({1})}};
    const nn::Value result = ns::compare_values(ns::compute_l1, x, y);
    REQUIRE(result.tuple().size() == 2);
    CHECK(result.tuple()[0].number() == 0.0);
    REQUIRE(result.tuple()[1].tuple().size() == 1);
    CHECK(message_of<Error>([&] { ns::compare_values(ns::compute_l1, x, floats({1})); }) ==
          "a metric compares two tensors or two tuples, given a tuple and a tensor");
}

TEST_CASE("Shapes broadcast, and what is not float32 has no metric") {
    const Tensor rows = Tensor::from<float>(Shape(2, 2), {1, 2, 3, 4});
    // |1-1|, |2-2|, |3-1|, |4-2|: mean 1.
    CHECK(ns::compare_values(ns::compute_l1, rows, floats({1, 2})).number() == 1.0);
    CHECK(ns::compare_values(ns::compute_l1, floats({1, 2}), rows).number() == 1.0);
    CHECK_THROWS_AS(ns::compare_values(ns::compute_l1, rows, floats({1, 2, 3})), Error);
    const Tensor ids = Tensor::from<std::int64_t>(Shape(2), {1, 2});
    CHECK(ns::compare_values(ns::compute_l1, ids, ids).is_none());
    const Tensor doubles = Tensor::from<double>(Shape(1), {1.0});
    CHECK(ns::compare_values(ns::compute_l1, doubles, doubles).is_none());
}

TEST_CASE("Results have a JSON form that a JSON reader reads, with NaN and infinity as words") {
    ns::Ordered<ns::ValueList> results;
    results["second \"layer\""] = {floats({1.5f, std::nanf("")}), -std::numeric_limits<double>::infinity()};
    Tensor codes = Tensor::from<std::int8_t>(Shape(1, 2), {-3, 4});
    codes.set_qparams(OwnedQParams::per_tensor(0.25f, DType::int8));
    results["first"] = {nn::Value(nn::Value::Tuple{codes, nn::Value()})};
    CHECK(results.keys() == std::vector<std::string>{"second \"layer\"", "first"});

    const auto shapes = nlohmann::ordered_json::parse(ns::to_json(results));
    CHECK(shapes.begin().key() == "second \"layer\"");
    CHECK(shapes.at("first") == nlohmann::ordered_json::parse(R"([[{"shape":[1,2],"dtype":"qint8"},null]])"));
    const auto data = nlohmann::ordered_json::parse(ns::to_json(results, ns::TensorJson::data));
    CHECK(data.at("second \"layer\"") ==
          nlohmann::ordered_json::parse(R"([{"shape":[2],"dtype":"float32","data":[1.5,"nan"]},"-inf"])"));
    CHECK(data.at("first")[0][0] ==
          nlohmann::ordered_json::parse(
              R"({"shape":[1,2],"dtype":"qint8","data":[-3,4],"scale":[0.25],"zero_point":[]})"));
}

TEST_CASE("A key that a result does not have is refused with the nearest ones") {
    ns::Ordered<int> numbers;
    numbers["conv1"] = 1;
    CHECK(numbers.at("conv1") == 1);
    CHECK(message_of<Error>([&] { (void)numbers.at("conv2"); }) == "there is no \"conv2\"; the nearest are \"conv1\"");
}

TEST_CASE("A logger keeps tensors and LSTM outputs while it is on, and a comparing one its metrics in any case") {
    ns::fx::OutputLogger logger({.model_name = "a"});
    const nn::Value rnn = nn::Value::Tuple{floats({1}), nn::Value::Tuple{floats({2}), floats({3})}};
    CHECK(logger(floats({1})).is_tensor());
    logger(rnn);
    CHECK(logger.stats().size() == 1);
    CHECK(logger.stats_rnn().size() == 1);
    logger.enabled = false;
    logger(rnn);
    CHECK(logger.stats_rnn().size() == 1);

    // 20·log10(|(1, 2)| / |(1, 2) - (3, 4)|) = 10·log10(5 / 8)
    ns::fx::OutputComparisonLogger comparing({});
    comparing.save_activations = false;
    comparing(floats({1, 2}), floats({3, 4}));
    CHECK(comparing.stats().empty());
    REQUIRE(comparing.comparisons().size() == 1);
    check_relative(comparing.comparisons()[0].number(), 10 * std::log10(5.0 / 8.0));
    CHECK(comparing.comparison_fn_name() == "sqnr");
    ns::fx::loggers_set_enabled(comparing, false);
    comparing(floats({1, 2}), floats({3, 4}));
    CHECK(comparing.comparisons().size() == 1);
}
