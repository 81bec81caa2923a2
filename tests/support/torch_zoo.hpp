// SPDX-License-Identifier: MIT
//
// The models of golden/make_goldens.py, and the graphs that PyTorch made of them (fx_traces.json, fx_graphs.json).
#ifndef INTQ_TESTS_SUPPORT_TORCH_ZOO_HPP
#define INTQ_TESTS_SUPPORT_TORCH_ZOO_HPP

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "intq/graph/operators.hpp"
#include "intq/graph/print.hpp"
#include "intq/graph/tracer.hpp"
#include "support/golden.hpp"
#include "support/small_models.hpp"

namespace intq::test {

/// A model under the name that it has in the golden files.
struct TorchModel {
    std::string name;
    std::function<nn::ModulePtr()> make;
    Shape input;
};

/// All of them, in evaluation, with weights of our own.
const std::vector<TorchModel>& torch_zoo();

/// A node of a golden file as text, so that two graphs are compared as lists of lines:
///
///     call_module c1[c1: Conv2d](%x)          get_attr w[w]()
///     call_function add[add](%c1, 2)          output output(%add)
///
/// Of a function or a type only the last part of its name is kept: operator.add and torch.add are "add".
std::string line_of(const nlohmann::json& node);
std::vector<std::string> lines_of(const nlohmann::json& nodes);

/// The nodes of a traced or rewritten model as the same text. Arguments behind those of `golden` are left out where
/// they are constants: PyTorch records keyword arguments and defaults elsewhere.
std::vector<std::string> lines_of(graph::GraphModule& model, const nlohmann::json& golden);

/// The nodes of a prepared graph without its observers, whose readers read what they observe.
nlohmann::json without_observers(const nlohmann::json& nodes);

// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

inline intq::Tensor compute_sin_of(const intq::Tensor& x) {
    intq::Tensor y = x.clone();
    for (float& value : y.flat<float>()) value = std::sin(value);
    return y;
}
/// An operator that the library does not have.
inline constexpr nn::Wrapped<"sin", &compute_sin_of> sin;

inline std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

inline std::string text_of(const nlohmann::json& argument) {
    if (argument.is_array()) {
        std::string items;
        for (const auto& item : argument) items += (items.empty() ? "" : ", ") + text_of(item);
        return "[" + items + "]";
    }
    if (argument.is_null()) return "None";
    if (argument.is_boolean()) return argument.get<bool>() ? "True" : "False";
    if (argument.is_number_integer()) return graph::to_string(graph::Argument(argument.get<std::int64_t>()));
    if (argument.is_number()) return graph::to_string(graph::Argument(argument.get<double>()));
    const auto text = argument.get<std::string>();
    return text.starts_with("%") ? text : "'" + text + "'";
}

inline std::string line_of(const std::string& op, const std::string& name, const std::string& target,
                           const std::string& arguments) {
    return op + " " + name + (op == "output" ? "" : "[" + target + "]") + "(" + arguments + ")";
}

inline nlohmann::json renamed(const nlohmann::json& argument, const std::map<std::string, nlohmann::json>& names) {
    if (argument.is_array()) {
        nlohmann::json items = nlohmann::json::array();
        for (const auto& item : argument) items.push_back(renamed(item, names));
        return items;
    }
    if (!argument.is_string()) return argument;
    const auto known = names.find(argument.get<std::string>());
    return known == names.end() ? argument : known->second;
}

}  // namespace detail

inline std::string line_of(const nlohmann::json& node) {
    const auto op = node.at("op").get<std::string>(), name = node.at("name").get<std::string>();
    std::string target = node.at("target").get<std::string>(), arguments;
    if (op == "call_module") target += ": " + detail::last_part(node.at("type").get<std::string>());
    if (op == "call_function") target = detail::last_part(target);
    for (const auto& argument : node.at("args"))
        arguments += (arguments.empty() ? "" : ", ") + detail::text_of(argument);
    return detail::line_of(op, name, target, arguments);
}

inline std::vector<std::string> lines_of(const nlohmann::json& nodes) {
    std::vector<std::string> lines;
    for (const auto& node : nodes) lines.push_back(line_of(node));
    return lines;
}

inline std::vector<std::string> lines_of(graph::GraphModule& model, const nlohmann::json& golden) {
    std::vector<std::string> lines;
    for (const graph::Node* node : model.graph().nodes()) {
        const std::size_t at = lines.size();
        const std::size_t wanted = at < golden.size() ? golden[at].at("args").size() : 0;
        std::string target = node->target(), arguments;
        if (node->op() == graph::Op::call_module) target += ": " + graph::type_of(*node, model);
        for (std::size_t i = 0; i < node->args().size(); ++i) {
            const std::string text = graph::to_string(node->args()[i]);
            if (i < wanted || text.find('%') != std::string::npos) arguments += (i == 0 ? "" : ", ") + text;
        }
        lines.push_back(detail::line_of(graph::name_of(node->op()), node->name(), target, arguments));
    }
    return lines;
}

inline nlohmann::json without_observers(const nlohmann::json& nodes) {
    std::map<std::string, nlohmann::json> observed;
    nlohmann::json kept = nlohmann::json::array();
    for (nlohmann::json node : nodes) {
        node["args"] = detail::renamed(node.at("args"), observed);
        const auto name = node.at("name").get<std::string>();
        if (name.starts_with("activation_post_process")) {
            observed["%" + name] = node.at("args").at(0);
        } else {
            kept.push_back(std::move(node));
        }
    }
    return kept;
}

namespace detail {

inline nn::ModulePtr conv(index_t in = 3, index_t out = 3) { return make_conv(in, out, 1, 1); }
inline nn::ModulePtr batch_norm() { return make_batch_norm<nn::BatchNorm2d>(3, 5); }
inline nn::ModulePtr linear(index_t in = 3, index_t out = 3) { return make_linear(in, out, 7); }

inline nn::ModulePtr sequential(std::initializer_list<nn::ModulePtr> modules) {
    auto model = std::make_shared<nn::Sequential>(modules);
    model->eval();
    return model;
}

/// Channels in and out of each convolution.
using Channels = std::vector<std::pair<index_t, index_t>>;

/// A model of convolutions c1, c2, … and a forward.
inline nn::ModulePtr convs(const Channels& channels, LambdaModel::Forward forward) {
    const auto model = make_model({}, std::move(forward));
    for (const auto& [in, out] : channels)
        model->add_child("c" + std::to_string(model->children().size() + 1), conv(in, out));
    model->eval();
    return model;
}

/// A model of one convolution "conv" and a forward.
inline nn::ModulePtr one_conv(LambdaModel::Forward forward) {
    return make_model({{"conv", conv()}}, std::move(forward));
}

inline nn::ModulePtr functional_linear(bool with_relu) {
    const auto model = make_model({}, [=](LambdaModel& m, nn::Arguments x) {
        const nn::Value y = nn::linear(x[0], m.tensor("w"), m.tensor("b"));
        return with_relu ? nn::relu(y) : y;
    });
    model->add_parameter("w", random_tensor(Shape(3, 3), 1));
    model->add_parameter("b", random_tensor(Shape(3), 2));
    return model;
}

inline nn::ModulePtr conv_then_linear(const char* first, index_t in, LambdaModel::Forward forward) {
    return make_model({{first, conv()}, {"fc", linear(in, 2)}}, std::move(forward));
}

inline nn::ModulePtr residual_block() {
    return make_model({{"c1", conv()},
                       {"b1", batch_norm()},
                       {"r", std::make_shared<nn::ReLU>()},
                       {"c2", conv()},
                       {"b2", batch_norm()},
                       {"pool", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1})},
                       {"fc", linear(3, 2)}},
                      [](LambdaModel& m, nn::Arguments x) {
                          nn::Value y = m.call("r", m.call("b1", m.call("c1", x[0])));
                          y = nn::relu(m.call("b2", m.call("c2", y)) + x[0]);
                          return m.call("fc", nn::flatten(m.call("pool", y), 1));
                      });
}

using Zoo = std::vector<TorchModel>;
using Args = nn::Arguments;
inline const Shape image{1, 3, 4, 4}, vector{2, 3};
inline const Channels one{{3, 3}}, two{{3, 3}, {3, 3}};

template <class Layer, class... A> nn::ModulePtr layer(const A&... arguments) {
    return std::make_shared<Layer>(arguments...);
}

inline void add_sequences(Zoo& zoo) {
    using namespace nn;
    const auto add = [&](const char* name, std::function<ModulePtr()> make) {
        zoo.push_back({name, std::move(make), std::string_view(name).starts_with("linear") ? vector : image});
    };
    const auto pool = [] { return layer<MaxPool2d>(square_window(2, 2)); };
    add("conv", [] { return sequential({conv()}); });
    add("conv_relu", [] { return sequential({conv(), layer<ReLU>()}); });
    add("conv_relu6", [] { return sequential({conv(), layer<ReLU6>()}); });
    add("conv_bn", [] { return sequential({conv(), batch_norm()}); });
    add("conv_bn_relu", [] { return sequential({conv(), batch_norm(), layer<ReLU>()}); });
    add("conv_relu_bn", [] { return sequential({conv(), layer<ReLU>(), batch_norm()}); });
    add("bn", [] { return sequential({batch_norm()}); });
    add("bn_relu", [] { return sequential({batch_norm(), layer<ReLU>()}); });
    add("linear", [] { return sequential({linear()}); });
    add("linear_relu", [] { return sequential({linear(), layer<ReLU>()}); });
    add("linear_bn", [] { return sequential({linear(), make_batch_norm<BatchNorm1d>(3, 5)}); });
    add("linear_bn_relu", [] { return sequential({linear(), make_batch_norm<BatchNorm1d>(3, 5), layer<ReLU>()}); });
    add("linear_layernorm", [] { return sequential({linear(), layer<LayerNorm>(Shape(3))}); });
    add("conv_transpose", [] { return sequential({layer<ConvTranspose2d>(ConvTranspose2dOptions{3, 3})}); });
    add("relu", [] { return sequential({layer<ReLU>()}); });
    add("conv_maxpool_conv", [=] { return sequential({conv(), pool(), conv()}); });
    add("conv_avgpool", [] { return sequential({conv(), layer<AdaptiveAvgPool2d>(Size2d{1, 1})}); });
    add("maxpool_first", [=] { return sequential({pool(), conv()}); });
    add("conv_sigmoid", [] { return sequential({conv(), layer<Sigmoid>()}); });
    add("conv_tanh", [] { return sequential({conv(), layer<Tanh>()}); });
    add("conv_softmax", [] { return sequential({conv(), layer<Softmax>(1)}); });
    add("conv_hardswish", [] { return sequential({conv(), layer<Hardswish>()}); });
    add("conv_dropout_conv", [] { return sequential({conv(), layer<Dropout>(), conv()}); });
    add("identity", [] { return sequential({conv(), layer<Identity>(), conv()}); });
}

inline void add_functions(Zoo& zoo) {
    using namespace nn;
    const auto add = [&](const char* name, std::function<ModulePtr()> make, const Shape& input = image) {
        zoo.push_back({name, std::move(make), input});
    };
    const auto relu_of_conv = [](LambdaModel& m, Args x) { return relu(m.call("conv", x[0])); };
    add("conv_frelu", [=] { return one_conv(relu_of_conv); });
    add("conv_torch_relu", [=] { return one_conv(relu_of_conv); });
    add("conv_method_relu", [] {
        return one_conv([](LambdaModel& m, Args x) { return call_method(relu_function, m.call("conv", x[0])); });
    });
    add(
        "functional_linear", [] { return functional_linear(false); }, vector);
    add(
        "functional_linear_relu", [] { return functional_linear(true); }, vector);
    add("conv_flatten_linear", [] {
        return conv_then_linear("conv", 48,
                                [](LambdaModel& m, Args x) { return m.call("fc", flatten(m.call("conv", x[0]), 1)); });
    });
    add("conv_reshape_linear", [] {
        return conv_then_linear("conv", 48, [](LambdaModel& m, Args x) {
            return m.call("fc", call_method(reshape_function, m.call("conv", x[0]), 1, -1));
        });
    });
    add("conv_permute_linear", [] {
        return conv_then_linear("c1", 3, [](LambdaModel& m, Args x) {
            return m.call("fc", call_method(permute_function, m.call("c1", x[0]), 0, 2, 3, 1));
        });
    });
    add("residual_block", [] { return residual_block(); });
}

inline void add_operators(Zoo& zoo) {
    using namespace nn;
    const auto add = [&](const char* name, const Channels& channels, LambdaModel::Forward forward) {
        zoo.push_back({name, [=] { return convs(channels, forward); }, image});
    };
    const auto c1 = [](LambdaModel& m, Args x) { return m.call("c1", x[0]); };
    const auto c2 = [](LambdaModel& m, Args x) { return m.call("c2", x[0]); };
    add("add", two, [=](LambdaModel& m, Args x) {
        const Value a = c1(m, x);
        return a + c2(m, x);
    });
    add("add_relu", two, [=](LambdaModel& m, Args x) {
        const Value a = c1(m, x);
        return nn::relu(a + c2(m, x));
    });
    add("add_residual", one, [=](LambdaModel& m, Args x) { return c1(m, x) + x[0]; });
    add("add_scalar", one, [=](LambdaModel& m, Args x) { return c1(m, x) + 2.0; });
    add("mul", two, [=](LambdaModel& m, Args x) {
        const Value a = c1(m, x);
        return a * c2(m, x);
    });
    add("sub_is_not_quantized", two, [=](LambdaModel& m, Args x) {
        const Value a = c1(m, x);
        return a - c2(m, x);
    });
    add("matmul", two, [=](LambdaModel& m, Args x) {
        const Value a = c1(m, x);
        return matmul(a, c2(m, x));
    });
    add("cat", two, [=](LambdaModel& m, Args x) { return cat({c1(m, x), c2(m, x)}, 1); });
    add("cat_conv", {{3, 3}, {3, 3}, {6, 3}}, [=](LambdaModel& m, Args x) {
        return m.call("c3", cat({c1(m, x), c2(m, x)}, 1));
    });
    add("cat_with_model_input", one, [=](LambdaModel& m, Args x) { return cat({x[0], c1(m, x)}, 1); });
    add("conv_interpolate", one, [=](LambdaModel& m, Args x) { return interpolate(c1(m, x), {}, 2); });
    add("conv_mean", one, [=](LambdaModel& m, Args x) {
        return call_method(mean_function, c1(m, x), Value(Value::Tuple{2, 3}));
    });
    add("conv_chunk_add", {{3, 4}}, [=](LambdaModel& m, Args x) {
        const Value parts = chunk(c1(m, x), 2, 1), first = parts[0];
        return first + parts[1];
    });
    add("two_users", two, [=](LambdaModel& m, Args x) { return Value(Value::Tuple{c1(m, x), c2(m, x)}); });
    add("shared_module", one, [=](LambdaModel& m, Args x) { return m.call("c1", c1(m, x)); });
    add("float_op_between", two, [=](LambdaModel& m, Args x) { return m.call("c2", detail::sin(c1(m, x))); });
    add("clamp", one, [=](LambdaModel& m, Args x) { return clamp(c1(m, x), 0, 1); });
}

}  // namespace detail

inline const std::vector<TorchModel>& torch_zoo() {
    static const std::vector<TorchModel> zoo = [] {
        std::vector<TorchModel> models;
        detail::add_sequences(models);
        detail::add_functions(models);
        detail::add_operators(models);
        return models;
    }();
    return zoo;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_TORCH_ZOO_HPP
