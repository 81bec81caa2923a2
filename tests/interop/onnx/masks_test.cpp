// SPDX-License-Identifier: MIT
//
// Masks of integers that a file compares: the values of softmax over what is not hidden, and what is refused.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "interop/one_node.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using Catch::Matchers::Contains;
using test::attribute;
using test::Message;
using test::node;
using test::value_info;

namespace {

constexpr std::size_t samples = 2, rows = 3, columns = 4;
constexpr int to_float = 1, to_bool = 9;
constexpr float infinity = std::numeric_limits<float>::infinity();
const std::vector<float> mask_values = {1, 1, 0, 1, 0, 1, 1, 0};

/// Scores x (N, 3, 4) and a mask m (N, 4), which Unsqueeze makes u (N, 1, 4); the nodes make w of x.
test::ModelParts masked(std::vector<Message> nodes, float fill, std::vector<Message> outputs = {value_info("w")}) {
    nodes.insert(nodes.begin(), node("Unsqueeze", {"m", "axes"}, {"u"}, {}, "apart"));
    return {.nodes = std::move(nodes),
            .initializers = {test::int64_tensor("axes", {1}), test::int64_tensor("zero", {0}),
                             test::int64_tensor("one", {1}), test::int64_tensor("two", {2}),
                             test::filled("fill", {1}, fill)},
            .inputs = {value_info("x", {-1, rows, columns}), value_info("m", {-1, columns}, test::int64)},
            .outputs = std::move(outputs)};
}

intq::Tensor run(const test::ModelParts& parts, const intq::Tensor& x) {
    const intq::Tensor m =
        intq::Tensor::from(Shape(static_cast<index_t>(samples), static_cast<index_t>(columns)), mask_values);
    return (*test::import(parts))(x, m).tensor();
}

/// softmax of the scores that the mask shows.
void check_softmax(std::vector<Message> nodes, float fill, float shown) {
    nodes.push_back(node("Softmax", {"w"}, {"y"}, {attribute("axis", -1)}));
    const intq::Tensor x = test::random_tensor(Shape(index_t{samples}, index_t{rows}, index_t{columns}), 3);
    const intq::Tensor y = run(masked(std::move(nodes), fill, {value_info("y")}), x);
    for (std::size_t n = 0; n < samples; ++n)
        for (std::size_t i = 0; i < rows; ++i) {
            const std::size_t first = (n * rows + i) * columns;
            double sum = 0.0;
            for (std::size_t j = 0; j < columns; ++j)
                if (mask_values[n * columns + j] == shown)
                    sum += std::exp(static_cast<double>(x.flat<float>()[first + j]));
            for (std::size_t j = 0; j < columns; ++j) {
                const double own = std::exp(static_cast<double>(x.flat<float>()[first + j]));
                const double expected = mask_values[n * columns + j] == shown ? own / sum : 0.0;
                CHECK(static_cast<double>(y.flat<float>()[first + j]) == Approx(expected).margin(1e-6));
            }
        }
}

Message compared(const char* number) { return node("Equal", {"u", number}, {"e"}); }
Message cast(const char* from, const char* to, int type) { return node("Cast", {from}, {to}, {attribute("to", type)}); }

}  // namespace

TEST_CASE("A mask of integers that is compared hides scores where it says so") {
    const Message hides = node("Where", {"e", "fill", "x"}, {"w"}), keeps = node("Where", {"e", "x", "fill"}, {"w"});
    for (const float fill : {-infinity, std::numeric_limits<float>::lowest(), -1e9F, -1e4F}) {
        check_softmax({compared("zero"), hides}, fill, 1.0F);
        check_softmax({compared("zero"), keeps}, fill, 0.0F);
        check_softmax({compared("one"), hides}, fill, 0.0F);
        check_softmax({compared("one"), keeps}, fill, 1.0F);
    }
    check_softmax({cast("u", "e", to_bool), keeps}, -infinity, 1.0F);
    check_softmax({compared("zero"), node("Not", {"e"}, {"n"}), node("Where", {"n", "x", "fill"}, {"w"})}, -1e9F, 1.0F);
    // The condition is moved, and not the integers.
    check_softmax({node("Equal", {"m", "zero"}, {"c"}), node("Unsqueeze", {"c", "axes"}, {"e"}), hides}, -1e9F, 1.0F);
    // It is read by two layers, and as a number.
    check_softmax(
        {compared("zero"), node("Where", {"e", "fill", "x"}, {"v"}), cast("e", "f", to_float),
         node("Mul", {"f", "fill"}, {"g"}), node("Add", {"v", "g"}, {"t"}), node("Where", {"e", "fill", "t"}, {"w"})},
        -1e9F, 1.0F);
}

TEST_CASE("A mask of integers that is compared makes values 0") {
    const intq::Tensor x = test::random_tensor(Shape(index_t{samples}, index_t{rows}, index_t{columns}), 4);
    for (const bool hides : {true, false}) {
        const Message where =
            hides ? node("Where", {"e", "fill", "x"}, {"w"}) : node("Where", {"e", "x", "fill"}, {"w"});
        const intq::Tensor y = run(masked({compared("zero"), where}, 0.0F), x);
        for (std::size_t i = 0; i < samples * rows * columns; ++i) {
            const bool is_one = mask_values[i / (rows * columns) * columns + i % columns] == 1.0F;
            CHECK(y.flat<float>()[i] == (is_one == hides ? x.flat<float>()[i] : 0.0F));
        }
    }
}

TEST_CASE("An input is a mask where the model compares it with 0 or 1, and reads it in no other way") {
    const Message hides = node("Where", {"e", "fill", "x"}, {"w"});
    const auto masks = [](const test::ModelParts& parts) {
        return interop::onnx::mask_inputs(interop::onnx::parse_model(test::model(parts).bytes(), "m.onnx"));
    };
    using Names = std::set<std::string>;
    CHECK(masks(masked({compared("zero"), hides}, -1e9F)) == Names{"m"});
    CHECK(masks(masked({compared("two"), hides}, -1e9F)).empty());
    CHECK(masks(masked({compared("zero"), hides}, -20.0F)).empty());
    CHECK(masks(masked({compared("zero"), hides}, -1e9F, {value_info("w"), value_info("e")})).empty());
    CHECK(masks(masked({compared("zero"), hides, node("Mul", {"u", "two"}, {"z"})}, -1e9F)).empty());
    // In an order that no exporter writes.
    CHECK_THAT(test::refusal(masked({hides, compared("zero")}, -1e9F)), !Contains("not refused"));
    const auto parts = masked({compared("zero"), hides}, -1e9F);
    const interop::onnx::Model file = interop::onnx::parse_model(test::model(parts).bytes(), "m.onnx");
    CHECK_FALSE(interop::onnx::takes_ids(file, "m"));
}

TEST_CASE("A mask of bools is refused with what to export instead") {
    test::ModelParts parts = masked({node("Where", {"u", "x", "fill"}, {"w"})}, -1e9F);
    parts.inputs[1] = value_info("m", {-1, columns}, test::boolean);
    CHECK_THAT(test::refusal(parts), Contains("export a mask as int64 of 0 and 1"));
}

TEST_CASE("Masks and tables by positions that are not read are refused with what to do instead") {
    const auto refusal = [](std::vector<Message> nodes, Message table = test::filled("table", {4, 4}, 0.0F)) {
        return test::refusal(
            {.nodes = std::move(nodes),
             .initializers = {test::int64_tensor("range", {0, 1, 2, 3}), test::int64_tensor("two", {2}),
                              test::filled("fill", {1}, -1e9F), std::move(table)},
             .inputs = {value_info("x", {-1, 2, 1, 4}), value_info("p", {-1, 1}, test::int64)}});
    };
    const auto instead = Contains("is added to the scores");
    CHECK_THAT(refusal({node("Sub", {"p", "two"}, {"s"}), node("Greater", {"range", "s"}, {"c"}),
                        node("Where", {"c", "x", "fill"}, {"y"})}),
               instead);
    CHECK_THAT(refusal({node("Less", {"range", "p"}, {"c"}), node("Where", {"c", "x", "fill"}, {"y"})}), instead);
    CHECK_THAT(refusal({node("Gather", {"table", "p"}, {"r"}), node("Add", {"x", "r"}, {"y"})},
                       test::filled("table", {4, 4}, -infinity)),
               Contains("the table holds -inf") && Contains("0 and -1e9"));
}
