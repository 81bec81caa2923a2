// SPDX-License-Identifier: MIT
//
// Whole graphs: gradients of a float network against PyTorch's, and what Autograd refuses, shares and replaces.
#include "intq/training/autograd.hpp"

#include "intq/graph/tracer.hpp"
#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/move.hpp"
#include "intq/nn/model/tape.hpp"
#include "support/golden.hpp"
#include "support/golden_tensor.hpp"
#include "support/small_models.hpp"
#include "training/gradient_check.hpp"

using namespace intq;
using intq::Tensor;
using test::golden_tensor;
using test::numbers_of;
using test::relative_error;

namespace {

std::shared_ptr<nn::Conv2d> conv(index_t in, index_t out, Window2d window, index_t groups = 1, bool bias = true) {
    return std::make_shared<nn::Conv2d>(nn::Conv2dOptions{in, out, window, groups, bias});
}

/// The network of make_training_goldens.py.
std::shared_ptr<graph::GraphModule> golden_network(const nlohmann::json& golden) {
    const auto model =
        test::make_model({{"first", conv(2, 4, nn::square_window(3, 1, 1))},
                          {"norm", std::make_shared<nn::BatchNorm2d>(nn::BatchNormOptions{4})},
                          {"depthwise", conv(4, 4, nn::square_window(3, 2, 1), 4, false)},
                          {"skip", conv(4, 4, nn::square_window(1, 2))},
                          {"max", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2))},
                          {"avg", std::make_shared<nn::AvgPool2d>(nn::square_window(3, 1, 1))},
                          {"grouped", conv(8, 6, nn::square_window(2, 1, 0, 2), 2)},
                          {"pool", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1})},
                          {"hidden", std::make_shared<nn::Linear>(nn::LinearOptions{6, 5})},
                          {"norm1", std::make_shared<nn::BatchNorm1d>(nn::BatchNormOptions{5})},
                          {"last", std::make_shared<nn::Linear>(nn::LinearOptions{5, 3})}},
                         [](test::LambdaModel& m, nn::Arguments x) {
                             const nn::Value y = nn::relu(m.call("norm", m.call("first", x[0])));
                             const nn::Value a = nn::relu6(m.call("depthwise", y)) + m.call("skip", y);
                             const nn::Value z = m.call("avg", nn::cat({a, m.call("max", y)}, 1));
                             const nn::Value flat = nn::flatten(m.call("pool", m.call("grouped", z)), 1);
                             return nn::softmax(m.call("last", m.call("norm1", m.call("hidden", flat))), 1);
                         });
    for (const auto& parameter : model->named_parameters())
        *parameter.value = golden_tensor(golden.at("parameters").at(parameter.name));
    model->train();
    return graph::symbolic_trace(model);
}

}  // namespace

TEST_CASE("The gradients of a network equal PyTorch's") {
    const nlohmann::json golden = test::golden_cases("training").at("network");
    const auto model = golden_network(golden);
    training::Autograd autograd(*model, {{}, true, {}});
    const Tensor y = autograd.forward(golden_tensor(golden.at("x"))).tensor();
    CHECK(relative_error(numbers_of(y), numbers_of(golden_tensor(golden.at("y")))) < 1e-4);
    const training::Gradients gradients = autograd.backward(golden_tensor(golden.at("dy")));
    CHECK(gradients.parameters.size() == golden.at("gradients").size());
    for (const auto& [name, expected] : golden.at("gradients").items()) {
        INFO(name);
        const auto found = numbers_of(gradients.parameters.at(name)), wanted = numbers_of(golden_tensor(expected));
        if (name == "first.bias" || name == "skip.bias" || name == "grouped.bias" || name == "hidden.bias") {
            // Batch norm takes away what a bias before it adds: the gradient is 0, but for rounding.
            for (const double value : wanted) CHECK(std::fabs(value) < 1e-14);
            for (const double value : found) CHECK(std::fabs(value) < 1e-5);
        } else {
            CHECK(relative_error(found, wanted) < 1e-3);
        }
    }
    CHECK(relative_error(numbers_of(gradients.inputs.at(0)), numbers_of(golden_tensor(golden.at("dx")))) < 1e-3);
    for (const auto& [name, expected] : golden.at("running").items()) {
        INFO(name);
        CHECK(relative_error(numbers_of(*model->find_tensor(name)), numbers_of(golden_tensor(expected))) < 1e-4);
    }
}

TEST_CASE("An operator without a gradient is named by its node; one that no parameter feeds does not matter") {
    static constexpr nn::Function odd{"odd", [](std::span<const nn::Value> values) { return values[0]; }};
    const auto forward = [](bool after) {
        return [after](test::LambdaModel& m, nn::Arguments x) {
            return after ? nn::call(odd, m.call("linear", x[0])) : m.call("linear", nn::call(odd, x[0]));
        };
    };
    const auto after = graph::symbolic_trace(test::make_model({{"linear", test::make_linear(2, 3, 1)}}, forward(true)));
    CHECK_THROWS_WITH(training::Autograd(*after), Catch::Matchers::Contains("%odd = call_function[odd] (%linear)") &&
                                                      Catch::Matchers::Contains("no gradient of the operator odd"));
    const auto before =
        graph::symbolic_trace(test::make_model({{"linear", test::make_linear(2, 3, 1)}}, forward(false)));
    training::Autograd autograd(*before);
    autograd.forward(test::random_tensor(Shape(4, 2), 3));
    CHECK(autograd.backward(test::random_tensor(Shape(4, 3), 4)).parameters.size() == 2);
    // A row of the caller's mends it.
    const training::GradientRow row{"odd", [](training::GradientContext& c) { c.add_input(0, c.gradient()); }};
    training::Autograd mended(*after, {{row}, false, {}});
    mended.forward(test::random_tensor(Shape(4, 2), 3));
    CHECK(mended.backward(test::random_tensor(Shape(4, 3), 4)).parameters.size() == 2);
}

TEST_CASE("A module that is called twice, or stands in two slots, gets the sum of its gradients once") {
    const auto shared = test::make_linear(3, 3, 1);
    const auto model = graph::symbolic_trace(test::make_model(
        {{"a", shared}, {"b", shared}},
        [](test::LambdaModel& m, nn::Arguments x) { return m.call("b", m.call("a", x[0])) + m.call("a", x[0]); }));
    training::Autograd autograd(*model);
    const Tensor x = test::random_tensor(Shape(2, 3), 5), dy = test::random_tensor(Shape(2, 3), 6);
    autograd.forward(x);
    const auto gradients = autograd.backward(dy);
    REQUIRE(gradients.parameters.size() == 2);
    // dL/db = column sums of dy (outer call, second call) + dy·W (inner call)
    test::Numbers expected(3);
    for (std::size_t n = 0; n < 2; ++n)
        for (std::size_t o = 0; o < 3; ++o) {
            expected[o] += 2 * numbers_of(dy)[n * 3 + o];
            for (std::size_t k = 0; k < 3; ++k)
                expected[o] += numbers_of(dy)[n * 3 + k] * numbers_of(shared->weight())[k * 3 + o];
        }
    CHECK(relative_error(numbers_of(gradients.parameters.at("a.bias")), expected) < 1e-5);
}

TEST_CASE("Gradients of the items of a tuple meet, whether they are read one by one, in a list or as a whole") {
    const auto gradients_of = [](const std::function<nn::Value(const nn::Value&)>& after) {
        const auto model = graph::symbolic_trace(
            test::make_model({{"a", test::make_linear(3, 6, 1)}},
                             [after](test::LambdaModel& m, nn::Arguments x) { return after(m.call("a", x[0])); }));
        training::Autograd autograd(*model);
        const Shape y = autograd.forward(test::random_tensor(Shape(2, 3), 5)).tensor().shape();
        return numbers_of(autograd.backward(test::random_tensor(y, 6)).parameters.at("a.weight"));
    };
    // The same values, by slices and by pieces; the last piece is not read.
    const auto by_slices = [](const nn::Value& y) {
        const nn::Value first = nn::slice(y, 1, 0, 2), second = nn::slice(y, 1, 2, 4);
        return nn::cat({first * second, second}, 1);
    };
    const auto by_pieces = [](const nn::Value& y) {
        const nn::Value pieces = nn::split(y, 2, 1);
        return nn::cat({pieces[0] * pieces[1], pieces[1]}, 1);
    };
    CHECK(gradients_of(by_slices) == gradients_of(by_pieces));
    const auto whole = [](const nn::Value& y) { return nn::call(nn::cat_function, nn::chunk(y, 3, 1), 1); };
    CHECK(gradients_of(whole) == gradients_of([](const nn::Value& y) { return y * 1.0; }));
}

TEST_CASE("The state that an LSTM leaves has the gradient of the last output that it is") {
    const auto gradients_of = [](bool by_state) {
        const auto lstm = std::make_shared<nn::LSTM>(nn::LSTMOptions{3, 4, 2});
        unsigned seed = 1;
        for (auto& parameter : lstm->parameters())
            parameter.value = test::random_tensor(parameter.value.shape(), seed++, 0.5f);
        const auto model =
            graph::symbolic_trace(test::make_model({{"lstm", lstm}}, [by_state](test::LambdaModel& m, nn::Arguments x) {
                const nn::Value result = m.call("lstm", x[0]);
                return by_state ? result[1][0][-1] : result[0][-1];
            }));
        training::Autograd autograd(*model);
        autograd.forward(test::random_tensor(Shape(5, 2, 3), 7));
        std::map<std::string, test::Numbers> result;
        for (const auto& [name, gradient] : autograd.backward(test::random_tensor(Shape(2, 4), 8)).parameters)
            result[name] = numbers_of(gradient);
        return result;
    };
    const auto by_output = gradients_of(false);
    CHECK(by_output.size() == 8);
    CHECK(by_output == gradients_of(true));
}

TEST_CASE("Parameters that are not trained get no gradient, and nothing before them is differentiated") {
    const auto model = graph::symbolic_trace(test::make_model(
        {{"a", test::make_linear(3, 3, 1)}, {"b", test::make_linear(3, 2, 2)}},
        [](test::LambdaModel& m, nn::Arguments x) { return m.call("b", nn::relu(m.call("a", x[0]))); }));
    training::Autograd autograd(*model, {{}, false, [](const std::string& name) { return name == "b.weight"; }});
    autograd.forward(test::random_tensor(Shape(2, 3), 5));
    const auto gradients = autograd.backward(test::random_tensor(Shape(2, 2), 6));
    CHECK(gradients.parameters.size() == 1);
    CHECK(gradients.parameters.count("b.weight") == 1);
    CHECK_FALSE(gradients.inputs.at(0).defined());
}

TEST_CASE("A replaced value is what the nodes behind it see, and the gradient passes it straight through") {
    const auto model = graph::symbolic_trace(
        test::make_model({{"a", test::make_linear(2, 2, 1)}, {"b", test::make_linear(2, 1, 2)}},
                         [](test::LambdaModel& m, nn::Arguments x) { return m.call("b", m.call("a", x[0])); }));
    training::Autograd autograd(*model);
    const Tensor x = test::random_tensor(Shape(1, 2), 5), other = Tensor::from(Shape(1, 2), {10.0f, -20.0f});
    const Tensor dy = Tensor::full(Shape(1, 1), 1.0f);
    autograd.forward(x);
    const auto plain = autograd.backward(dy);
    autograd.set_value_of([&](const graph::Node& node, const nn::Value&) -> std::optional<nn::Value> {
        if (node.target() != "a") return std::nullopt;
        return nn::Value(other);
    });
    const Tensor y = autograd.forward(x).tensor();
    const auto replaced = autograd.backward(dy);
    const auto w = numbers_of(*model->find_tensor("b.weight"));
    CHECK(numbers_of(y)[0] == Approx(10 * w[0] - 20 * w[1] + numbers_of(*model->find_tensor("b.bias"))[0]));
    CHECK(numbers_of(replaced.parameters.at("b.weight")) == test::Numbers{10, -20});
    CHECK(numbers_of(replaced.parameters.at("a.weight")) == numbers_of(plain.parameters.at("a.weight")));

    autograd.set_value_of([&](const graph::Node& node, const nn::Value&) -> std::optional<nn::Value> {
        if (node.target() != "a") return std::nullopt;
        return nn::Value(Tensor::full(Shape(2), 1.0f));
    });
    CHECK_THROWS_WITH(autograd.forward(x), Catch::Matchers::Contains("%a") && Catch::Matchers::Contains("shape (2)"));
}

TEST_CASE("A gradient is that of the recorded call, whatever the value hook and later calls do with the module") {
    const auto layer = test::make_conv(2, 3, 3, 1);
    layer->add_child("bn", test::make_batch_norm<nn::BatchNorm2d>(3, 2));
    const auto model = graph::symbolic_trace(
        test::make_model({{"conv", layer}, {"drop", std::make_shared<nn::Dropout>(0.4, 5)}},
                         [](test::LambdaModel& m, nn::Arguments x) { return m.call("drop", m.call("conv", x[0])); }));
    model->train();
    const Tensor x = test::random_tensor(Shape(2, 2, 5, 5), 5), other = test::random_tensor(Shape(2, 2, 5, 5), 6);
    training::Autograd autograd(*model, {{}, true, {}});
    const Tensor dy = test::random_tensor(autograd.forward(x).tensor().shape(), 7);
    const auto expected = autograd.backward(dy);

    model->find_tensor("drop.calls")->flat<std::int64_t>()[0] = 0;
    autograd.set_value_of([&](const graph::Node& node, const nn::Value& value) -> std::optional<nn::Value> {
        if (node.target() == "conv") (*layer)(other);
        if (node.target() == "drop") model->find("drop")(value);
        return std::nullopt;
    });
    autograd.forward(x);
    CHECK(nn::current_tape() == nullptr);
    (*layer)(other);
    model->find("drop")(dy);
    const auto found = autograd.backward(dy);
    CHECK(numbers_of(found.inputs[0]) == numbers_of(expected.inputs[0]));
    REQUIRE(found.parameters.size() == expected.parameters.size());
    for (const auto& [name, gradient] : expected.parameters) {
        INFO(name);
        CHECK(numbers_of(found.parameters.at(name)) == numbers_of(gradient));
    }
}

TEST_CASE("The first node that is not finite is named") {
    const auto model = graph::symbolic_trace(
        test::make_model({{"a", test::make_linear(2, 2, 1)}, {"b", test::make_linear(2, 1, 2)}},
                         [](test::LambdaModel& m, nn::Arguments x) { return m.call("b", m.call("a", x[0])); }));
    training::Autograd autograd(*model);
    autograd.forward(test::random_tensor(Shape(1, 2), 5));
    CHECK(autograd.first_non_finite().empty());
    model->find_tensor("a.weight")->flat<float>()[0] = std::numeric_limits<float>::infinity();
    autograd.forward(test::random_tensor(Shape(1, 2), 5));
    CHECK_THAT(autograd.first_non_finite(), Catch::Matchers::Contains("%a = call_module[a]"));
    // A value in a tuple, too: the node that made it, not the one that took it out.
    const auto lstm = graph::symbolic_trace(
        test::make_model({{"lstm", std::make_shared<nn::LSTM>(nn::LSTMOptions{2, 3})}},
                         [](test::LambdaModel& m, nn::Arguments x) { return m.call("lstm", x[0])[1][1]; }));
    training::Autograd of_lstm(*lstm);
    lstm->find_tensor("lstm.bias_ih_l0")->flat<float>()[0] = NAN;
    of_lstm.forward(test::random_tensor(Shape(2, 1, 2), 5));
    CHECK_THAT(of_lstm.first_non_finite(), Catch::Matchers::Contains("%lstm = call_module[lstm]"));
}

TEST_CASE("Wrong calls of Autograd are refused") {
    const auto model = graph::symbolic_trace(test::make_model(
        {{"a", test::make_linear(2, 2, 1)}}, [](test::LambdaModel& m, nn::Arguments x) { return m.call("a", x[0]); }));
    training::Autograd autograd(*model);
    const Tensor dy = Tensor::full(Shape(1, 2), 1.0f);
    CHECK_THROWS_WITH(autograd.backward(dy), Catch::Matchers::Contains("backward without a forward"));
    autograd.forward(test::random_tensor(Shape(1, 2), 5));
    CHECK_THROWS_WITH(autograd.backward(Tensor::full(Shape(2), 1.0f)), Catch::Matchers::Contains("has shape (2)"));
    const std::vector<Tensor> two{dy, dy};
    CHECK_THROWS_WITH(autograd.backward(two), Catch::Matchers::Contains("1 outputs, given gradients of 2"));
}
