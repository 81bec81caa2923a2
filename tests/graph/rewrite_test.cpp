// SPDX-License-Identifier: MIT
#include "intq/graph/rewrite.hpp"

#include "intq/graph/print.hpp"
#include "intq/graph/tracer.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using test::make_model;
using test::message_of;

namespace {

// (a + b) · 2 of two ReLUs, whose results are both read twice.
std::shared_ptr<graph::GraphModule> two_branches() {
    return graph::symbolic_trace(
        make_model({{"r1", std::make_shared<nn::ReLU>()}, {"r2", std::make_shared<nn::ReLU>()}},
                   [](test::LambdaModel& m, nn::Arguments x) {
                       const nn::Value a = m.call("r1", x[0]), b = m.call("r2", x[0] * -1.0);
                       const nn::Value sum = a + b;
                       return nn::Value(nn::Value::Tuple{sum * 2.0, a - b});
                   }));
}

std::shared_ptr<graph::GraphModule> pattern_of(test::LambdaModel::Forward forward, std::vector<std::string> inputs) {
    return graph::symbolic_trace(make_model({}, std::move(forward), std::move(inputs)));
}

float first(const nn::Value& value) { return value.tensor().flat<float>()[0]; }

}  // namespace

TEST_CASE("A module is put behind a node for all readers, for some, and between two nodes") {
    const intq::Tensor x = intq::Tensor::full(Shape(1), 3.0f);
    {
        const auto model = two_branches();
        graph::Node& node =
            graph::insert_module(*model, *model->graph().find("r1"), "probe.a", std::make_shared<nn::ReLU6>());
        CHECK(node.name() == "probe_a");
        CHECK(node.scope().type == "ReLU6");
        model->graph().lint(model.get());
        CHECK(node.users().size() == 2);
        CHECK(first((*model)(intq::Tensor::full(Shape(1), 8.0f))[0]) == 12.0f);
        CHECK(model->find("probe.a").type_name() == "ReLU6");
    }
    const auto model = two_branches();
    graph::Graph& graph = model->graph();
    graph::insert_module_between(*model, *graph.find("r1"), *graph.find("sub"), "gate",
                                 std::make_shared<nn::Hardsigmoid>());
    graph.lint(model.get());
    CHECK(graph::to_string(graph).find("%add : [num_users=1] = call_function[target=add](args = (%r1, %r2))") !=
          std::string::npos);
    CHECK(first((*model)(x)[0]) == 6.0f);
    CHECK(first((*model)(x)[1]) == 1.0f);
    CHECK(message_of<Error>([&] {
              graph::insert_module_between(*model, *graph.find("r1"), *graph.find("mul"), "other",
                                           std::make_shared<nn::ReLU>());
          }) == "the node \"mul\" does not read \"r1\"");
    CHECK_THROWS_AS(graph::insert_module(*model, *graph.find("r2"), "gate", std::make_shared<nn::ReLU>()), Error);
}

TEST_CASE("A bypassed node is gone, and its readers read what it read") {
    const auto model = two_branches();
    graph::bypass(*model, *model->graph().find("r1"));
    model->graph().lint(model.get());
    CHECK(model->graph().find("r1") == nullptr);
    CHECK(first((*model)(intq::Tensor::full(Shape(1), -3.0f))[1]) == -6.0f);
    CHECK(message_of<Error>([&] { graph::bypass(*model, *model->graph().find("x")); }) ==
          "the node \"x\" cannot be bypassed: its first argument is not another node");
}

TEST_CASE("A pattern is found by operators, in any spelling, and only where nothing else reads its inside") {
    const auto relu_of_sum =
        pattern_of([](test::LambdaModel&, nn::Arguments x) { return nn::relu(x[0] + x[1]); }, {"a", "b"});
    const auto model = make_model(
        {{"relu", std::make_shared<nn::ReLU>()}, {"skip", std::make_shared<nn::FloatFunctional>()}},
        [](test::LambdaModel& m, nn::Arguments x) {
            const nn::Value module = m.call("relu", x[0] + x[1]);
            const nn::Value method = nn::call_method(nn::relu_function, nn::call_add(m, "skip", module, x[1]));
            const nn::Value kept = method + 1.0;
            return nn::Value(nn::Value::Tuple{nn::relu(kept), kept});
        },
        {"a", "b"});
    const auto traced = graph::symbolic_trace(model);
    const auto matches = graph::find_matches(*traced, *relu_of_sum);
    REQUIRE(matches.size() == 2);
    CHECK(matches[0].last->name() == "relu");
    CHECK(matches[0].at("add").name() == "add");
    CHECK(matches[1].at("add").name() == "skip");
    CHECK(matches[1].inputs[0].node()->name() == "relu");
    CHECK(matches[1].inputs[1].node()->name() == "b");
    CHECK(message_of<Error>([&] { matches[0].at("conv"); }) == "the pattern has no node \"conv\"");

    // One placeholder is one value everywhere; a constant is itself.
    const auto doubled = pattern_of([](test::LambdaModel&, nn::Arguments x) { return x[0] + x[0]; }, {"a"});
    CHECK(graph::find_matches(*traced, *doubled).empty());
    const auto plus_one = pattern_of([](test::LambdaModel&, nn::Arguments x) { return x[0] + 1.0; }, {"a"});
    const auto plus_two = pattern_of([](test::LambdaModel&, nn::Arguments x) { return x[0] + 2.0; }, {"a"});
    CHECK(graph::find_matches(*traced, *plus_one).size() == 1);
    CHECK(graph::find_matches(*traced, *plus_two).empty());
}

TEST_CASE("A replaced pattern computes what its replacement says, chains of matches too") {
    const auto pattern =
        pattern_of([](test::LambdaModel&, nn::Arguments x) { return nn::relu(x[0]) * x[1]; }, {"a", "b"});
    const auto model = graph::symbolic_trace(make_model({}, [](test::LambdaModel&, nn::Arguments x) {
        nn::Value y = x[0];
        for (int i = 0; i < 3; ++i) y = nn::relu(y) * x[0];
        return y - 1.0;
    }));
    const auto half =
        make_model({{"clip", std::make_shared<nn::ReLU6>()}},
                   [](test::LambdaModel& m, nn::Arguments x) { return m.call("clip", x[0]) * x[1] * m.tensor("half"); },
                   {"a", "b"});
    half->add_buffer("half", intq::Tensor::full(Shape(1), 0.5f));
    const auto replacement = graph::symbolic_trace(half);
    CHECK(graph::replace_pattern(*model, *pattern, replacement) == 3);
    CHECK(graph::to_string(model->graph()) ==
          "graph():\n"
          "    %x : [num_users=4] = placeholder[target=x]\n"
          "    %clip : [num_users=1] = call_module[target=clip](args = (%x,))\n"
          "    %mul_3 : [num_users=1] = call_function[target=mul](args = (%clip, %x))\n"
          "    %half : [num_users=1] = get_attr[target=half]\n"
          "    %mul_4 : [num_users=1] = call_function[target=mul](args = (%mul_3, %half))\n"
          "    %clip_1 : [num_users=1] = call_module[target=clip](args = (%mul_4,))\n"
          "    %mul_5 : [num_users=1] = call_function[target=mul](args = (%clip_1, %x))\n"
          "    %half_1 : [num_users=1] = get_attr[target=half_1]\n"
          "    %mul_6 : [num_users=1] = call_function[target=mul](args = (%mul_5, %half_1))\n"
          "    %clip_2 : [num_users=1] = call_module[target=clip](args = (%mul_6,))\n"
          "    %mul_7 : [num_users=1] = call_function[target=mul](args = (%clip_2, %x))\n"
          "    %half_2 : [num_users=1] = get_attr[target=half_2]\n"
          "    %mul_8 : [num_users=1] = call_function[target=mul](args = (%mul_7, %half_2))\n"
          "    %sub : [num_users=1] = call_function[target=sub](args = (%mul_8, 1))\n"
          "    return sub\n");
    // 4·4/2 = 8, 6·4/2 = 12, 6·4/2 = 12.
    CHECK(first((*model)(intq::Tensor::full(Shape(1), 4.0f))) == 11.0f);
}

TEST_CASE("A replacement can be made from what it replaces") {
    const auto pattern = graph::symbolic_trace(
        make_model({{"conv", std::make_shared<nn::Conv2d>(nn::Conv2dOptions{})}, {"act", std::make_shared<nn::ReLU>()}},
                   [](test::LambdaModel& m, nn::Arguments x) { return m.call("act", m.call("conv", x[0])); }));
    const auto model = graph::symbolic_trace(make_model(
        {{"a", test::make_conv(2, 3, 1, 1)}, {"b", test::make_conv(3, 2, 3, 2)}},
        [](test::LambdaModel& m, nn::Arguments x) { return nn::relu(m.call("b", nn::relu(m.call("a", x[0])))); }));
    const intq::Tensor x = test::random_tensor(Shape(1, 2, 4, 4), 9);
    const intq::Tensor expected = (*model)(x).tensor();
    const std::size_t count = graph::replace_pattern(*model, *pattern, [&](const graph::SubgraphMatch& match) {
        const auto& conv = dynamic_cast<const nn::Conv2d&>(model->find(match.at("conv").target()));
        const auto fused = std::make_shared<nn::FusedConv2d>(conv, nn::Fusion{false, Activation::relu});
        return graph::symbolic_trace(make_model(
            {{"fused", fused}}, [](test::LambdaModel& m, nn::Arguments y) { return m.call("fused", y[0]); }));
    });
    CHECK(count == 2);
    model->delete_unused_children();
    CHECK(graph::to_string(model->graph()) ==
          "graph():\n"
          "    %x : [num_users=1] = placeholder[target=x]\n"
          "    %fused : [num_users=1] = call_module[target=fused](args = (%x,))\n"
          "    %fused_1 : [num_users=1] = call_module[target=fused_1](args = (%fused,))\n"
          "    return fused_1\n");
    CHECK(model->children().size() == 2);
    CHECK(test::largest_difference((*model)(x).tensor(), expected) == 0);
}

TEST_CASE("Patterns and replacements that cannot mean anything are refused") {
    const auto model = two_branches();
    const auto nothing = pattern_of([](test::LambdaModel&, nn::Arguments x) { return x[0]; }, {"a"});
    CHECK(message_of<Error>([&] { graph::find_matches(*model, *nothing); }) ==
          "a pattern returns the value of one of its nodes, given %a");
    const auto relu = pattern_of([](test::LambdaModel&, nn::Arguments x) { return nn::relu(x[0]); }, {"a"});
    const auto sum = pattern_of([](test::LambdaModel&, nn::Arguments x) { return x[0] + x[1]; }, {"a", "b"});
    CHECK(message_of<Error>([&] { graph::replace_pattern(*model, *relu, sum); }) ==
          "the replacement has 2 inputs, the pattern 1");
    const auto unused = pattern_of([](test::LambdaModel&, nn::Arguments x) { return nn::relu(x[0]); }, {"a", "b"});
    CHECK(message_of<Error>([&] { graph::find_matches(*model, *unused); }) == "the pattern does not use its input b");
    // What replaces may be the input itself: then the pattern is taken out.
    CHECK(graph::replace_pattern(*model, *relu, nothing) == 2);
    CHECK(first((*model)(intq::Tensor::full(Shape(1), -3.0f))[1]) == -6.0f);
}
