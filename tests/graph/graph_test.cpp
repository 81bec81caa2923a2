// SPDX-License-Identifier: MIT
#include "intq/graph/graph.hpp"

#include "intq/graph/operators.hpp"
#include "intq/graph/pattern.hpp"
#include "intq/graph/print.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using graph::Graph;
using graph::Node;
using test::message_of;

TEST_CASE("Names follow FX's rules") {
    graph::NameSpace names;
    const auto name = [&](std::string_view target) { return names.create(graph::snake_case(target)); };
    CHECK(name("layer1.0.convA") == "layer1_0_conv_a");
    CHECK(name("ABC") == "abc");
    CHECK(name("0") == "_0");
    CHECK(name("input") == "input_1");
    CHECK(name("x") == "x");
    CHECK(name("x") == "x_1");
    CHECK(name("x") == "x_2");
    CHECK(name("relu_1") == "relu_1");
    CHECK(name("relu") == "relu");
    CHECK(name("relu") == "relu_2");
    CHECK(name("relu_1") == "relu_3");
    CHECK(name("") == "_unnamed");
    CHECK(name("sum") == "sum_1");
    CHECK(std::is_sorted(graph::detail::python_names.begin(), graph::detail::python_names.end()));
}

TEST_CASE("Nodes know their users through every edit") {
    Graph graph;
    Node& x = graph.placeholder("x");
    Node& a = graph.call_function(nn::relu_function, {x});
    Node& sum = graph.call_function(nn::add_function, {a, a});
    Node& joined = graph.call_function(nn::cat_function, {graph::ArgumentList{a, sum}, 1});
    graph.output(joined);
    graph.lint();
    CHECK(a.users() == std::vector<Node*>{&sum, &joined});
    CHECK(joined.inputs() == std::vector<Node*>{&a, &sum});

    {
        const auto at = graph.after(a);
        Node& b = graph.call_function(nn::relu6_function, {a});
        Node& c = graph.call_function(nn::relu_function, {b});
        graph.replace_all_uses(a, c, [&](const Node& user) { return &user != &b && &user != &joined; });
        CHECK(a.users() == std::vector<Node*>{&joined, &b});
        CHECK(c.users() == std::vector<Node*>{&sum});
    }
    graph.lint();
    CHECK(graph::to_string(graph) ==
          "graph():\n"
          "    %x : [num_users=1] = placeholder[target=x]\n"
          "    %relu : [num_users=2] = call_function[target=relu](args = (%x,))\n"
          "    %relu6 : [num_users=1] = call_function[target=relu6](args = (%relu,))\n"
          "    %relu_1 : [num_users=1] = call_function[target=relu](args = (%relu6,))\n"
          "    %add : [num_users=1] = call_function[target=add](args = (%relu_1, %relu_1))\n"
          "    %cat : [num_users=1] = call_function[target=cat](args = ([%relu, %add], 1))\n"
          "    return cat\n");

    CHECK(message_of<Error>([&] { graph.erase(a); }) == "the node \"relu\" cannot be erased: it is used by cat, relu6");
}

TEST_CASE("Dead nodes go from the end, and a node can move") {
    Graph graph;
    Node& x = graph.placeholder("x");
    Node& dead = graph.call_function(nn::relu_function, {x});
    graph.call_function(nn::relu_function, {dead});
    Node& kept = graph.call_function(nn::relu6_function, {x});
    graph.output(kept);
    graph.eliminate_dead_nodes();
    CHECK(graph.size() == 3);
    graph.move_before(x, kept);
    graph.lint();
    graph.move_before(kept, x);
    CHECK(message_of<Error>([&] { graph.lint(); }) ==
          "the node \"relu6\" reads \"x\", which comes later or is not in the graph");
}

TEST_CASE("A copy of a graph is a graph of its own") {
    Graph graph;
    Node& x = graph.placeholder("x");
    graph.output(graph.call_function(nn::relu_function, {x}));
    const Graph copy = graph;
    copy.lint();
    CHECK(graph::to_string(copy) == graph::to_string(graph));
    CHECK(copy.find("x") != &x);
    Node& relu = *graph.find("relu");
    relu.set_args({});
    CHECK(copy.find("relu")->inputs().size() == 1);
    CHECK(message_of<Error>([&] { graph.erase(*copy.find("output")); }).find("belongs to another graph") !=
          std::string::npos);
}

TEST_CASE("lint finds targets that do not exist and a missing output") {
    nn::Sequential root;
    Graph graph;
    Node& x = graph.placeholder("x");
    CHECK(message_of<Error>([&] { graph.lint(); }) == "the graph has no output node");
    graph.output(graph.call_module("conv", {x}));
    CHECK(message_of<Error>([&] { graph.lint(&root); }).find("no module \"conv\"") != std::string::npos);
    Graph other;
    other.output(other.get_attr("scale"));
    CHECK(message_of<Error>([&] { other.lint(&root); }).find("reads the tensor \"scale\", which does not exist") !=
          std::string::npos);
}

TEST_CASE("A pattern is found backwards, an add from either side, the first argument first") {
    nn::Sequential root{std::make_shared<nn::Conv2d>(nn::Conv2dOptions{}),
                        std::make_shared<nn::Conv2d>(nn::Conv2dOptions{})};
    Graph graph;
    Node& x = graph.placeholder("x");
    Node& first = graph.call_module("0", {x});
    Node& second = graph.call_module("1", {x});
    Node& sum = graph.call_function(nn::add_function, {first, second});
    Node& plain = graph.call_function(nn::add_function, {x, sum});
    Node& relu = graph.call_method(nn::relu_function, {plain});
    graph.output(relu);

    const auto both = graph::match_back({"conv2d", "add"}, sum, graph, root);
    REQUIRE(both.match);
    CHECK(both.match->nodes == std::vector<Node*>{&first, &sum});
    CHECK(both.match->other.node() == &second);

    const auto long_chain = graph::match_back({"conv2d", "add", "add", "relu"}, relu, graph, root);
    REQUIRE(long_chain.match);
    CHECK(long_chain.match->nodes == std::vector<Node*>{&first, &sum, &plain, &relu});
    CHECK_FALSE(graph::match_back({"linear", "add"}, sum, graph, root).match);
    CHECK_FALSE(graph::match_back({"conv2d", "add"}, relu, graph, root).obstacle);
}

TEST_CASE("The names of a walk are looked up once, until they are forgotten") {
    nn::Sequential root{std::make_shared<nn::Conv2d>(nn::Conv2dOptions{})};
    Graph graph;
    Node& conv = graph.call_module("0", {graph.placeholder("x")});
    Node& relu = graph.call_function(nn::relu_function, {conv});
    graph.output(relu);
    graph::OperatorNames names(root);
    CHECK(names.of(conv) == "conv2d");
    CHECK(&names.of(conv) == &names.of(conv));
    CHECK(graph::match_back({"conv2d", "relu"}, relu, graph, names).match);

    root.replace_child("0", std::make_shared<nn::Identity>());
    CHECK(names.of(conv) == "conv2d");
    names.forget();
    CHECK(names.of(conv) == "identity");
    CHECK_FALSE(graph::match_back({"conv2d", "relu"}, relu, graph, names).match);
    CHECK(graph::match_back({"identity", "relu"}, relu, graph, names).match);

    // A node whose module does not exist has no name, now or later.
    Node& lost = graph.call_module("1", {conv});
    CHECK_THROWS_AS(names.of(lost), Error);
    CHECK_THROWS_AS(names.of(lost), Error);
}

TEST_CASE("A second reader, a shared module and an add with itself stop a pattern") {
    nn::Sequential root{std::make_shared<nn::Conv2d>(nn::Conv2dOptions{}),
                        std::make_shared<nn::Conv2d>(nn::Conv2dOptions{})};
    Graph graph;
    Node& x = graph.placeholder("x");
    Node& conv = graph.call_module("0", {x});
    Node& twice = graph.call_function(nn::add_function, {conv, conv});
    Node& relu = graph.call_function(nn::relu_function, {conv});
    Node& shared = graph.call_module("1", {relu});
    Node& last = graph.call_function(nn::relu_function, {shared});
    graph.output(graph::ArgumentList{twice, graph.call_module("1", {last})});

    CHECK_FALSE(graph::match_back({"conv2d", "add"}, twice, graph, root).match);
    const auto read_twice = graph::match_back({"conv2d", "relu"}, relu, graph, root);
    REQUIRE(read_twice.obstacle);
    CHECK(read_twice.obstacle->node == &conv);
    CHECK(read_twice.obstacle->reason == "its value is used by %add, %relu");
    const auto called_twice = graph::match_back({"conv2d", "relu"}, last, graph, root);
    REQUIRE(called_twice.obstacle);
    CHECK(called_twice.obstacle->node == &shared);
    CHECK(called_twice.obstacle->reason == "the module \"1\" is shared by %_1, %_2");
}
