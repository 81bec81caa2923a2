// SPDX-License-Identifier: MIT
#include "intq/graph/tracer.hpp"

#include "intq/arith/bpu.hpp"
#include "intq/arith/march.hpp"
#include "intq/graph/print.hpp"
#include "intq/graph/shared_modules.hpp"
#include "intq/quantization/modules/custom_config.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using test::make_model;
using test::message_of;

namespace {

// A leaf with two outputs.
struct MinMax : nn::Cloneable<MinMax> {
    std::string type_name() const override { return "MinMax"; }
    bool is_leaf() const override { return true; }
    int output_count() const override { return 2; }
    nn::Value forward(nn::Arguments arguments) override {
        const auto values = arguments.tensor(0).flat<float>();
        const auto [low, high] = std::minmax_element(values.begin(), values.end());
        return nn::Value::Tuple{intq::Tensor::full(Shape(1), *low), intq::Tensor::full(Shape(1), *high)};
    }
};

struct Chooser : nn::Cloneable<Chooser> {
    std::string type_name() const override { return "Chooser"; }
    nn::Value forward(nn::Arguments arguments) override {
        if (arguments[0] > 0) return arguments[0];
        return nn::relu(arguments[0]);
    }
};

// A function whose body depends on data.
intq::Tensor compute_softsign(const intq::Tensor& x, double slope) {
    intq::Tensor y = x.clone();
    for (float& value : y.flat<float>())
        value = value > 0.0f ? value : static_cast<float>(slope) * value / (1.0f - value);
    return y;
}
constexpr nn::Wrapped<"softsign", &compute_softsign> softsign;

// Traced through, but for one method.
struct Router : nn::Cloneable<Router> {
    Router() { add_child("relu", std::make_shared<nn::ReLU>()); }
    std::string type_name() const override { return "Router"; }
    bool is_leaf_method(std::string_view method) const override { return method == "choose"; }
    nn::Value invoke(std::string_view method, nn::Arguments arguments) override {
        if (method == "choose") return arguments[0] > 0 ? arguments[0] : arguments[1];
        return Module::invoke(method, arguments);
    }
    nn::Value forward(nn::Arguments arguments) override {
        return dispatch("choose", std::array{arguments[0], call("relu", arguments[0]) + 5.0});
    }
};

// Forward hooks. One calls a child, one a function, one only looks, one looks without regard to proxies.
nn::Value call_post(nn::Module& module, const nn::ModuleCall&, const nn::Value& result) {
    return module.call("post", result);
}
nn::Value add_one(nn::Module&, const nn::ModuleCall&, const nn::Value& result) { return result + 1.0; }
std::vector<std::pair<std::string, float>>& looks() {
    static std::vector<std::pair<std::string, float>> all;
    return all;
}
nn::Value look(nn::Module& module, const nn::ModuleCall&, const nn::Value& result) {
    if (!result.is_proxy()) looks().emplace_back(module.type_name(), result.tensor().flat<float>()[0]);
    return result;
}
nn::Value look_at_data(nn::Module&, const nn::ModuleCall&, const nn::Value& result) {
    result.tensor();
    return result;
}

// "leaf" and "inner", which is traced through; each may get hooks.
std::shared_ptr<test::LambdaModel> model_with_hooks() {
    const auto call_leaf = [](const char* name) {
        return [name](test::LambdaModel& m, nn::Arguments x) { return m.call(name, x[0]); };
    };
    const auto inner = make_model({{"relu", std::make_shared<nn::ReLU>()}}, call_leaf("relu"));
    const auto leaf = std::make_shared<nn::ReLU>();
    leaf->add_child("post", std::make_shared<nn::ReLU6>());
    return make_model({{"leaf", leaf}, {"inner", inner}},
                      [](test::LambdaModel& m, nn::Arguments x) { return m.call("inner", m.call("leaf", x[0])); });
}

std::vector<std::string> targets_of(const graph::GraphModule& model) {
    std::vector<std::string> targets;
    for (const graph::Node* node : model.graph().nodes()) targets.push_back(node->target());
    return targets;
}

}  // namespace

TEST_CASE("What a forward hook calls are nodes of the graph, and it is called once") {
    const auto model = model_with_hooks();
    const intq::Tensor x = intq::Tensor::from(Shape(2), {9.0f, 2.0f});
    model->find("leaf").add_forward_hook(&call_post);
    model->find("leaf").add_forward_hook(&add_one);
    model->find("inner").add_forward_hook(&add_one);
    model->add_forward_hook(&add_one);
    const auto expected = (*model)(x).tensor();
    CHECK(expected.flat<float>()[0] == 9.0f);  // min(9, 6) + 1 + 1 + 1
    const auto traced = graph::symbolic_trace(model);
    CHECK(targets_of(*traced) ==
          std::vector<std::string>{"x", "leaf", "leaf.post", "add", "inner.relu", "add", "add", "output"});
    CHECK(test::largest_difference((*traced)(x).tensor(), expected) == 0);
    CHECK(traced->graph().find("add_1")->scope().module == "inner");

    const auto again = graph::symbolic_trace(traced);
    CHECK(graph::to_string(again->graph()) == graph::to_string(traced->graph()));
    CHECK(test::largest_difference((*again)(x).tensor(), expected) == 0);
    const auto copy = nn::clone(traced);
    CHECK(test::largest_difference((*copy)(x).tensor(), expected) == 0);

    // One that is added later is one of the module again.
    traced->find("leaf").add_forward_hook(&look);
    looks().clear();
    (*traced)(x);
    CHECK(looks() == std::vector<std::pair<std::string, float>>{{"ReLU", 9.0f}});
}

TEST_CASE("A forward hook sees the method and the arguments of the call, also in a trace") {
    // What the module takes away: min(x, 6) - x.
    const auto subtract_input = [](nn::Module&, const nn::ModuleCall& call, const nn::Value& result) {
        return call.method == "forward" ? result - call.arguments[0] : result;
    };
    const auto model = test::make_model({{"leaf", std::make_shared<nn::ReLU6>()}},
                                        [](test::LambdaModel& m, nn::Arguments x) { return m.call("leaf", x[0]); });
    model->find("leaf").add_forward_hook(subtract_input);
    const intq::Tensor x = intq::Tensor::from(Shape(2), {9.0f, 2.0f});
    const auto traced = graph::symbolic_trace(model);
    for (nn::Module* m : {static_cast<nn::Module*>(model.get()), static_cast<nn::Module*>(traced.get())}) {
        const intq::Tensor y = (*m)(x).tensor();
        CHECK(y.flat<float>()[0] == -3.0f);
        CHECK(y.flat<float>()[1] == 0.0f);
    }
    CHECK(traced->graph().find("sub") != nullptr);
}

TEST_CASE("A forward pre-hook is called before its module, by a graph as well, and leaves no node") {
    const auto refuse_nine = [](nn::Module& module, const nn::ModuleCall& call) {
        if (call.arguments.tensor(0).flat<float>()[0] == 9.0f)
            throw Error(module.type_name() + "." + std::string(call.method));
    };
    const auto model = model_with_hooks();
    model->find("leaf").add_forward_pre_hook(refuse_nine);
    const auto traced = graph::symbolic_trace(model);
    CHECK(targets_of(*traced) == std::vector<std::string>{"x", "leaf", "inner.relu", "output"});
    for (const nn::ModulePtr& m : {nn::ModulePtr(model), nn::ModulePtr(traced), nn::clone(nn::ModulePtr(model))}) {
        CHECK(message_of<Error>([&] {
                  (*m)(intq::Tensor::from(Shape(2), {9.0f, 2.0f}));
              }).find("ReLU.forward") != std::string::npos);
        CHECK((*m)(intq::Tensor::from(Shape(2), {8.0f, 2.0f})).tensor().flat<float>()[0] == 8.0f);
    }
}

TEST_CASE("A forward hook that only looks stays with its module, and sees data when the graph runs") {
    const auto model = model_with_hooks();
    const intq::Tensor x = intq::Tensor::from(Shape(2), {9.0f, 2.0f});
    model->find("leaf").add_forward_hook(&look);
    model->find("leaf").add_forward_hook(&call_post);
    model->find("leaf.post").add_forward_hook(&look);
    const auto traced = graph::symbolic_trace(model);
    CHECK(targets_of(*traced) == std::vector<std::string>{"x", "leaf", "leaf.post", "inner.relu", "output"});
    looks().clear();
    (*traced)(x);
    CHECK(looks() == std::vector<std::pair<std::string, float>>{{"ReLU", 9.0f}, {"ReLU6", 6.0f}});

    model->find("leaf").add_forward_hook(&look);
    CHECK(message_of<nn::TracingError>([&] {
              graph::symbolic_trace(model);
          }).find("forward hook 2 of \"leaf\" (ReLU) only looks, after a hook that computes") == 0);
    model->find("inner.relu").add_forward_hook(&look_at_data);
    const auto other = model_with_hooks();
    other->find("inner.relu").add_forward_hook(&look_at_data);
    const std::string message = message_of<nn::TracingError>([&] { graph::symbolic_trace(other); });
    CHECK(message.find("cannot be used as a tensor (in the forward of \"inner.relu\" (ReLU))") != std::string::npos);
    CHECK(message.find("It was asked by a forward hook") != std::string::npos);
}

TEST_CASE("A residual network traces to FX's nodes, and the graph prints and computes the same") {
    test::ResidualNet model(2);
    const auto traced = graph::symbolic_trace(model);
    CHECK(graph::to_string(traced->graph()) ==
          "graph():\n"
          "    %x : [num_users=1] = placeholder[target=x]\n"
          "    %quant : [num_users=1] = call_module[target=quant](args = (%x,))\n"
          "    %stem : [num_users=1] = call_module[target=stem](args = (%quant,))\n"
          "    %bn : [num_users=1] = call_module[target=bn](args = (%stem,))\n"
          "    %relu : [num_users=2] = call_function[target=relu](args = (%bn,))\n"
          "    %layer1_0_conv1 : [num_users=1] = call_module[target=layer1.0.conv1](args = (%relu,))\n"
          "    %layer1_0_bn1 : [num_users=1] = call_module[target=layer1.0.bn1](args = (%layer1_0_conv1,))\n"
          "    %layer1_0_relu : [num_users=1] = call_module[target=layer1.0.relu](args = (%layer1_0_bn1,))\n"
          "    %layer1_0_conv2 : [num_users=1] = call_module[target=layer1.0.conv2](args = (%layer1_0_relu,))\n"
          "    %layer1_0_bn2 : [num_users=1] = call_module[target=layer1.0.bn2](args = (%layer1_0_conv2,))\n"
          "    %layer1_0_skip_add : [num_users=1] = call_module[target=layer1.0.skip_add, method=add](args = "
          "(%layer1_0_bn2, %relu))\n"
          "    %layer1_0_relu_1 : [num_users=2] = call_module[target=layer1.0.relu](args = (%layer1_0_skip_add,))\n"
          "    %layer1_1_conv1 : [num_users=1] = call_module[target=layer1.1.conv1](args = (%layer1_0_relu_1,))\n"
          "    %layer1_1_bn1 : [num_users=1] = call_module[target=layer1.1.bn1](args = (%layer1_1_conv1,))\n"
          "    %layer1_1_relu : [num_users=1] = call_module[target=layer1.1.relu](args = (%layer1_1_bn1,))\n"
          "    %layer1_1_conv2 : [num_users=1] = call_module[target=layer1.1.conv2](args = (%layer1_1_relu,))\n"
          "    %layer1_1_bn2 : [num_users=1] = call_module[target=layer1.1.bn2](args = (%layer1_1_conv2,))\n"
          "    %layer1_1_skip_add : [num_users=1] = call_module[target=layer1.1.skip_add, method=add](args = "
          "(%layer1_1_bn2, %layer1_0_relu_1))\n"
          "    %layer1_1_relu_1 : [num_users=1] = call_module[target=layer1.1.relu](args = (%layer1_1_skip_add,))\n"
          "    %depthwise : [num_users=1] = call_module[target=depthwise](args = (%layer1_1_relu_1,))\n"
          "    %relu6 : [num_users=1] = call_function[target=relu6](args = (%depthwise,))\n"
          "    %pool : [num_users=1] = call_module[target=pool](args = (%relu6,))\n"
          "    %flatten : [num_users=1] = call_module[target=flatten](args = (%pool,))\n"
          "    %fc : [num_users=1] = call_module[target=fc](args = (%flatten,))\n"
          "    %dequant : [num_users=1] = call_module[target=dequant](args = (%fc,))\n"
          "    return dequant\n");
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 6, 6), 9);
    const intq::Tensor expected = model(x).tensor();
    CHECK(test::largest_difference(expected, (*traced)(x).tensor()) == 0);

    const auto copy = nn::clone(traced);
    traced->graph().find("fc")->set_args({});
    CHECK(test::largest_difference(expected, (*copy)(x).tensor()) == 0);
}

TEST_CASE("Scopes say in whose forward a node was made") {
    test::ResidualNet model(2);
    const auto inner = make_model({{"net", std::make_shared<test::ResidualNet>(2)}},
                                  [](test::LambdaModel& m, nn::Arguments x) { return m.call("net", x[0]) + 1.0; });
    const auto traced = graph::symbolic_trace(inner);
    CHECK(traced->graph().find("relu")->scope().module == "net");
    CHECK(traced->graph().find("relu")->scope().type == "ResidualNet");
    CHECK(traced->graph().find("net_fc")->scope().module == "net.fc");
    CHECK(traced->graph().find("add")->scope().module.empty());
}

TEST_CASE("A condition on data is the tracing error with the module's qualified name and ways out") {
    const auto model = make_model({{"gate", std::make_shared<Chooser>()}},
                                  [](test::LambdaModel& m, nn::Arguments x) { return m.call("gate", x[0]); });
    const std::string message = message_of<nn::TracingError>([&] { graph::symbolic_trace(model); });
    CHECK(message.find("cannot be used as an operand of a comparison (in the forward of \"gate\" (Chooser))") !=
          std::string::npos);
    CHECK(message.find("Ways out") != std::string::npos);

    const auto wrapped = make_model({{"gate", std::make_shared<nn::Leaf<Chooser>>()}},
                                    [](test::LambdaModel& m, nn::Arguments x) { return m.call("gate", x[0]); });
    const auto copy = nn::clone(graph::symbolic_trace(wrapped));
    CHECK(copy->graph().find("gate")->op() == graph::Op::call_module);
    CHECK(copy->find("gate").is_leaf());
    CHECK(copy->find("gate").type_name() == "Chooser");

    graph::TraceOptions by_type, by_name, by_question;
    by_type.leaf_types = {"Chooser"};
    by_name.leaf_modules = {"gate"};
    by_question.is_leaf = [](const nn::Module&, const std::string& name) { return name == "gate"; };
    for (const graph::TraceOptions* options : {&by_type, &by_name, &by_question}) {
        const auto traced = graph::symbolic_trace(model, *options);
        CHECK(traced->graph().find("gate")->op() == graph::Op::call_module);
        CHECK((*traced)(intq::Tensor::full(Shape(1), -2.0f)).tensor().flat<float>()[0] == 0.0f);
    }
}

TEST_CASE("Other uses of data that is not there say what they wanted") {
    const auto message = [](test::LambdaModel::Forward forward) {
        return message_of<nn::TracingError>([&] { graph::symbolic_trace(make_model({}, std::move(forward))); });
    };
    CHECK(message([](test::LambdaModel&, nn::Arguments x) { return x[0] ? x[0] : nn::Value(1.0); })
              .find("cannot be used as the condition of an if or a loop (in the forward of the root module "
                    "(LambdaModel))") != std::string::npos);
    CHECK(message([](test::LambdaModel&, nn::Arguments x) {
              return x[0].tensor();
          }).find("cannot be used as a tensor") != std::string::npos);
    const auto stranger = std::make_shared<nn::ReLU>();
    CHECK(message([stranger](test::LambdaModel&, nn::Arguments x) {
              return (*stranger)(x[0]);
          }).find("a ReLU is called in the forward of the root module (LambdaModel) that is not a child") !=
          std::string::npos);
    CHECK(message_of<nn::TracingError>([] {
              graph::symbolic_trace(std::make_shared<nn::ReLU>());
          }).find("put it into a Sequential") != std::string::npos);
}

TEST_CASE("Tensors that forward uses become attributes: a parameter under its name, a constant under a new one") {
    const auto model = make_model({}, [](test::LambdaModel& m, nn::Arguments x) {
        return x[0] + nn::Value(m.tensor("shift")) + nn::Value(intq::Tensor::full(Shape(2), 10.0f));
    });
    model->add_parameter("shift", intq::Tensor::from(Shape(2), {1.0f, 2.0f}));
    const auto traced = graph::symbolic_trace(model);
    CHECK(graph::to_string(traced->graph()).find("get_attr[target=shift]") != std::string::npos);
    CHECK(graph::to_string(traced->graph()).find("get_attr[target=_tensor_constant0]") != std::string::npos);
    const intq::Tensor y = (*traced)(intq::Tensor::zeros(Shape(2))).tensor();
    CHECK(y.flat<float>()[1] == 12.0f);
    traced->tensor("shift").flat<float>()[0] = 5.0f;
    CHECK((*traced)(intq::Tensor::zeros(Shape(2))).tensor().flat<float>()[0] == 15.0f);
}

TEST_CASE("A node has a list of outputs, and each can be read") {
    const auto model = make_model({{"range", std::make_shared<MinMax>()}}, [](test::LambdaModel& m, nn::Arguments x) {
        const nn::Value both = m.call("range", x[0]);
        return both.tuple()[1] + both.tuple()[0];
    });
    const auto traced = graph::symbolic_trace(model);
    CHECK(traced->graph().find("range_1")->outputs().size() == 2);
    CHECK(graph::to_string(traced->graph()).find("(args = (%range_1[1], %range_1[0]))") != std::string::npos);
    CHECK((*traced)(intq::Tensor::from(Shape(3), {4.0f, -1.0f, 7.0f})).tensor().flat<float>()[0] == 6.0f);
}

TEST_CASE("Several inputs, tuples as output, call_method") {
    const auto model = make_model(
        {},
        [](test::LambdaModel&, nn::Arguments x) {
            return nn::Value(nn::Value::Tuple{nn::call_method(nn::relu_function, x[0]), nn::cat({x[0], x[1]}, 0)});
        },
        {"a", "b"});
    const auto traced = graph::symbolic_trace(model);
    CHECK(graph::to_string(traced->graph()) ==
          "graph():\n"
          "    %a : [num_users=2] = placeholder[target=a]\n"
          "    %b : [num_users=1] = placeholder[target=b]\n"
          "    %relu : [num_users=1] = call_method[target=relu](args = (%a,))\n"
          "    %cat : [num_users=1] = call_function[target=cat](args = ([%a, %b], 0))\n"
          "    return [%relu, %cat]\n");
    const nn::Value result = (*traced)(intq::Tensor::full(Shape(1), -1.0f), intq::Tensor::full(Shape(2), 2.0f));
    CHECK(result.tuple()[0].tensor().flat<float>()[0] == 0.0f);
    CHECK(result.tuple()[1].tensor().shape() == Shape(3));
    CHECK(message_of<Error>([&] {
              (*traced)(intq::Tensor::zeros(Shape(1)));
          }).find("no value was given for the input \"b\"") != std::string::npos);
}

TEST_CASE("A GraphModule can be traced again") {
    test::ResidualNet model(2);
    const auto once = graph::symbolic_trace(model);
    const auto again = graph::symbolic_trace(once);
    CHECK(graph::to_string(again->graph()) == graph::to_string(once->graph()));
}

TEST_CASE("The interpreter shows each value to its hook, and names the node of an error") {
    test::ResidualNet model(2);
    const auto traced = graph::symbolic_trace(model);
    std::vector<std::string> seen;
    const std::array<nn::Value, 1> inputs{nn::Value(test::random_tensor(Shape(1, 3, 6, 6), 3))};
    traced->run(inputs, [&](const graph::Node& node, const nn::Value& value) {
        CHECK(value.is_tensor());
        seen.push_back(node.name());
    });
    CHECK(seen.size() == traced->graph().size());
    CHECK(seen[4] == "relu");

    graph::propagate_shapes(*traced, inputs);
    CHECK(traced->graph().find("depthwise")->outputs()[0].shape == Shape(1, 2, 3, 3));
    CHECK(graph::to_table(*traced).find("layer1.0.skip_add  FloatFunctional.add") != std::string::npos);

    CHECK(message_of<Error>([&] {
              (*traced)(intq::Tensor::zeros(Shape(1, 4, 6, 6)));
          }).find("node 3 of 26, %stem = call_module[stem] (%quant): conv2d: the input (1, 4, 6, 6) does not fit") ==
          0);
    CHECK(message_of<Error>([&] { (*traced)(1.0, 2.0); }).find("the graph has 1 inputs, given 2") == 0);
}

TEST_CASE("Slots that the graph does not use can be removed") {
    test::ResidualNet model(2);
    model.add_child("unused", std::make_shared<test::BasicBlock>(2, 9));
    const auto traced = graph::symbolic_trace(model);
    traced->graph()
        .find("layer1_1_relu_1")
        ->replace_input(*traced->graph().find("layer1_1_skip_add"), *traced->graph().find("layer1_1_bn2"));
    traced->graph().eliminate_dead_nodes();
    traced->delete_unused_children();
    CHECK_FALSE(traced->has_child("unused"));
    CHECK_FALSE(traced->find("layer1.1").has_child("skip_add"));
    CHECK(traced->find("layer1.1").has_child("conv2"));
}

TEST_CASE("Loop bounds and indices by value are refused with the module, the rule and three ways out") {
    const auto refusal = [](test::LambdaModel::Forward forward) {
        const auto inner = make_model({}, std::move(forward));
        const auto outer =
            make_model({{"head", inner}}, [](test::LambdaModel& m, nn::Arguments x) { return m.call("head", x[0]); });
        return message_of<nn::TracingError>([&] { graph::symbolic_trace(outer); });
    };
    const std::string loop = refusal([](test::LambdaModel&, nn::Arguments x) {
        nn::Value y = x[0];
        for (int i = 0; x[0] > i; ++i) y = nn::relu(y);
        return y;
    });
    const std::string count = refusal([](test::LambdaModel&, nn::Arguments x) {
        nn::Value y = x[0];
        for (int i = 0; i < x[0].integer(); ++i) y = nn::relu(y);
        return y;
    });
    const std::string index = refusal([](test::LambdaModel&, nn::Arguments x) {
        const std::array<double, 2> factors{1.0, 2.0};
        return x[0] * factors.at(static_cast<std::size_t>(x[0][1].integer()));
    });
    const std::string unpacked =
        refusal([](test::LambdaModel&, nn::Arguments x) { return nn::split(x[0], 1).tuple()[0]; });
    CHECK(loop.find("cannot be used as an operand of a comparison (in the forward of \"head\" (LambdaModel))") !=
          std::string::npos);
    CHECK(count.find("cannot be used as an integer (in the forward of \"head\" (LambdaModel))") != std::string::npos);
    CHECK(index.find("cannot be used as an integer (in the forward of \"head\" (LambdaModel))") != std::string::npos);
    CHECK(unpacked.find("cannot be used as a tuple (in the forward of \"head\" (LambdaModel))") != std::string::npos);
    for (const std::string* message : {&loop, &count, &index, &unpacked})
        for (const char* part : {"while a model is traced its values have no data", "decide by something that is known",
                                 "name that module or its type as a leaf", "or keep it outside of the traced model"})
            CHECK(message->find(part) != std::string::npos);
}

TEST_CASE("A wrapped function is one node, whatever it does inside") {
    const auto model =
        make_model({}, [](test::LambdaModel&, nn::Arguments x) { return softsign(x[0] + 1.0, 0.5) * 2.0; });
    const auto traced = graph::symbolic_trace(model);
    CHECK(graph::to_string(traced->graph()).find("call_function[target=softsign](args = (%add, 0.5))") !=
          std::string::npos);
    const intq::Tensor x = intq::Tensor::from(Shape(2), {-2.0f, 1.0f});
    CHECK((*traced)(x).tensor().flat<float>()[0] == -0.5f);
    CHECK((*traced)(x).tensor().flat<float>()[1] == 4.0f);
    CHECK(message_of<Error>([&] { softsign(x); }) == "softsign takes 2 arguments, given 1");
}

TEST_CASE("A leaf method is one node of a module that is traced through") {
    const auto model = make_model({{"router", std::make_shared<Router>()}},
                                  [](test::LambdaModel& m, nn::Arguments x) { return m.call("router", x[0]); });
    const auto traced = graph::symbolic_trace(model);
    CHECK(graph::to_string(traced->graph()) ==
          "graph():\n"
          "    %x : [num_users=2] = placeholder[target=x]\n"
          "    %router_relu : [num_users=1] = call_module[target=router.relu](args = (%x,))\n"
          "    %add : [num_users=1] = call_function[target=add](args = (%router_relu, 5))\n"
          "    %router : [num_users=1] = call_module[target=router, method=choose](args = (%x, %add))\n"
          "    return router\n");
    CHECK((*traced)(intq::Tensor::full(Shape(1), 2.0f)).tensor().flat<float>()[0] == 2.0f);
    CHECK((*traced)(intq::Tensor::full(Shape(1), -2.0f)).tensor().flat<float>()[0] == 5.0f);
    CHECK(message_of<nn::TracingError>([] {
              graph::symbolic_trace(std::make_shared<Router>());
          }).find("the method \"choose\" of the root module (Router) cannot be a node") == 0);
}

TEST_CASE("Non-traceable modules are named or typed as in PyTorch, stay one node in float, and must exist") {
    const auto model = make_model({{"quant", std::make_shared<nn::QuantStub>()},
                                   {"conv", test::make_conv(3, 3, 1, 1)},
                                   {"gate", std::make_shared<Chooser>()},
                                   {"dequant", std::make_shared<nn::DeQuantStub>()}},
                                  [](test::LambdaModel& m, nn::Arguments x) {
                                      return m.call("gate", m.call("dequant", m.call("conv", m.call("quant", x[0]))));
                                  });
    quantization::PrepareCustomConfig by_name, by_class;
    by_name.non_traceable_module_name = {"gate"};
    by_class.non_traceable_module_class = {"Chooser"};
    for (const auto* config : {&by_name, &by_class}) {
        quantization::PrepareOptions options;
        options.trace = quantization::trace_options(*config);
        const auto prepared = quantization::prepare_calibration_fx(*model, quantization::get_default_qconfig_mapping(),
                                                                   target::bpu<march::bayes>::policy, options);
        CHECK(prepared->graph().find("gate")->target() == "gate");
        CHECK_FALSE(prepared->is_quantized(*prepared->graph().find("gate")));
        CHECK(prepared->is_quantized(*prepared->graph().find("conv")));
    }
    by_name.non_traceable_module_name = {"gaet"};
    by_class.non_traceable_module_class = {"Choosers"};
    CHECK(message_of<Error>([&] { graph::symbolic_trace(model, quantization::trace_options(by_name)); }) ==
          "symbolic_trace: the model has no module \"gaet\"; the nearest are \"gate\", \"quant\", \"conv\"");
    CHECK(message_of<Error>([&] {
              graph::symbolic_trace(model, quantization::trace_options(by_class));
          }).find("symbolic_trace: the model has no module of type \"Choosers\"; the nearest are \"Chooser\"") == 0);
}

TEST_CASE("The properties of a model survive tracing, fusion and copies") {
    test::ResidualNet model(2);
    model.set_property("classes", nn::Value::Tuple{"cat", "dog"});
    model.set_property("mean", intq::Tensor::full(Shape(1), 0.5f));
    model.set_property("threshold", 0.25);
    model.set_property("threshold", 0.75);
    CHECK(model.properties().size() == 3);
    quantization::PrepareCustomConfig config;
    config.preserved_attributes = {"threshold", "mean"};
    quantization::FuseOptions options;
    options.trace = quantization::trace_options(config);
    const auto fused = quantization::fuse_fx(model, options);
    CHECK(fused->property("threshold").number() == 0.75);
    CHECK(fused->property("classes").tuple()[1].text() == "dog");  // kept without being named
    CHECK(message_of<Error>([&] { fused->property("means"); }) ==
          "GraphModule has no property \"means\"; properties: classes, mean, threshold");
    const auto copy = nn::clone(fused);
    intq::Tensor mean = copy->property("mean").tensor();
    mean.flat<float>()[0] = 9.0f;
    CHECK(fused->property("mean").number() == 0.5);
    CHECK(model.property("mean").number() == 0.5);
    config.preserved_attributes = {"treshold"};
    CHECK(message_of<Error>([&] {
              graph::symbolic_trace(model, quantization::trace_options(config));
          }).find("the model has no property \"treshold\"; the nearest are \"threshold\"") != std::string::npos);
}

TEST_CASE("A shared module is one node a call with one target, and is reported") {
    const auto conv = test::make_conv(2, 2, 1, 1);
    const auto model = make_model(
        {{"a", conv}, {"b", conv}, {"relu", std::make_shared<nn::ReLU>()}},
        [](test::LambdaModel& m, nn::Arguments x) { return m.call("b", m.call("relu", m.call("a", x[0]))); });
    const auto traced = graph::symbolic_trace(model);
    CHECK(traced->graph().find("a_1")->target() == "a");
    const auto shared = graph::shared_modules(*traced);
    REQUIRE(shared.size() == 1);
    CHECK(shared[0].name == "a");
    CHECK(shared[0].type == "Conv2d");
    CHECK(shared[0].nodes == std::vector<std::string>{"a", "a_1"});
    CHECK(graph::to_table(shared).find("a       Conv2d  2      %a, %a_1") != std::string::npos);
    CHECK(graph::shared_modules(*graph::symbolic_trace(std::make_shared<test::ResidualNet>(2))).size() == 2);
}

TEST_CASE("Several outputs: the pieces of a split and the parts of an LSTM's result are read one by one") {
    const auto lstm = std::make_shared<nn::LSTM>(nn::LSTMOptions{2, 3, 2});
    for (const auto& parameter : lstm->named_parameters())
        *parameter.value = test::random_tensor(parameter.value->shape(), 4);
    const auto model = make_model({{"lstm", lstm}}, [](test::LambdaModel& m, nn::Arguments x) {
        const nn::Value pieces = nn::split(x[0], 2, 2);
        const nn::Value result = m.call("lstm", pieces[0]);
        const nn::Value again = m.call("lstm", pieces[1], result[1]);
        return nn::Value(nn::Value::Tuple{again[0], again[1][0]});
    });
    const auto traced = graph::symbolic_trace(model);
    CHECK(graph::to_string(traced->graph()) ==
          "graph():\n"
          "    %x : [num_users=1] = placeholder[target=x]\n"
          "    %split : [num_users=2] = call_function[target=split](args = (%x, 2, 2))\n"
          "    %getitem : [num_users=1] = call_function[target=getitem](args = (%split, 0))\n"
          "    %lstm : [num_users=1] = call_module[target=lstm](args = (%getitem,))\n"
          "    %getitem_1 : [num_users=1] = call_function[target=getitem](args = (%split, 1))\n"
          "    %lstm_1 : [num_users=2] = call_module[target=lstm](args = (%getitem_1, %lstm[1]))\n"
          "    %getitem_2 : [num_users=1] = call_function[target=getitem](args = (%lstm_1[1], 0))\n"
          "    return [%lstm_1[0], %getitem_2]\n");
    const intq::Tensor x = test::random_tensor(Shape(4, 1, 4), 5);
    const nn::Value expected = (*model)(x), given = (*traced)(x);
    for (int i = 0; i < 2; ++i) CHECK(test::largest_difference(expected[i].tensor(), given[i].tensor()) == 0);
    const std::array<nn::Value, 1> inputs{nn::Value(x)};
    graph::propagate_shapes(*traced, inputs);
    CHECK(traced->graph().find("lstm_1")->outputs()[0].shape == Shape(4, 1, 3));
    CHECK(traced->graph().find("getitem_2")->outputs()[0].shape == Shape(2, 1, 3));
}
