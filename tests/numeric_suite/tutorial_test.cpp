// SPDX-License-Identifier: MIT
//
// Both suites on the tutorial's two models against PyTorch's results and metrics (golden/ns_tutorial.json): a
// quantizable residual network with a downsample, and Embedding, an LSTM of two layers with dropout, Linear.
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "intq/arith/fp32.hpp"
#include "intq/nn.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "intq/numeric_suite/eager/compare_outputs.hpp"
#include "intq/numeric_suite/eager/compare_stub.hpp"
#include "intq/numeric_suite/eager/compare_weights.hpp"
#include "intq/numeric_suite/fx/add_loggers.hpp"
#include "intq/numeric_suite/fx/converted_model.hpp"
#include "intq/numeric_suite/fx/extract_weights.hpp"
#include "intq/numeric_suite/fx/n_shadows.hpp"
#include "intq/numeric_suite/fx/shadow_loggers.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/dynamic/quantize_dynamic.hpp"
#include "intq/quantization/eager/convert_eager.hpp"
#include "intq/quantization/eager/fuse_eager.hpp"
#include "intq/quantization/eager/prepare_eager.hpp"
#include "intq/quantization/observers/range_observers.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;
namespace ns = intq::numeric_suite;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

/// The formula of make_numeric_suite_goldens.py.
Tensor fill(const std::string& name, const Shape& shape, double limit, double added = 0.0) {
    std::int64_t seed = 0;
    for (const char c : name) seed = (seed * 31 + c) % 1000003;
    Tensor result = Tensor::empty(shape);
    for (float& value : result.flat<float>()) {
        seed = seed * 48271 % 2147483647;
        value = static_cast<float>(static_cast<double>(seed % 2001 - 1000) / 1000 * limit) + static_cast<float>(added);
    }
    return result;
}

template <class Model> std::shared_ptr<Model> filled(std::shared_ptr<Model> model) {
    for (const auto& parameter : model->named_parameters()) {
        const bool is_norm =
            parameter.name.find("bn") != std::string::npos || parameter.name.find("downsample.1") != std::string::npos;
        const Shape shape = parameter.value->shape();
        *parameter.value = fill(parameter.name, shape, shape.rank > 1 ? 0.5 : 0.25,
                                is_norm && parameter.name.ends_with("weight") ? 1.0 : 0.0);
    }
    for (const auto& buffer : model->named_buffers()) {
        if (buffer.name.ends_with("running_mean")) *buffer.value = fill(buffer.name, buffer.value->shape(), 0.25);
        if (buffer.name.ends_with("running_var")) *buffer.value = fill(buffer.name, buffer.value->shape(), 0.25, 1.0);
    }
    model->eval();
    return model;
}

std::shared_ptr<nn::Conv2d> conv(index_t in, index_t out, index_t kernel, index_t stride) {
    return std::make_shared<nn::Conv2d>(
        nn::Conv2dOptions{in, out, nn::square_window(kernel, stride, kernel / 2), 1, false});
}

std::shared_ptr<nn::BatchNorm2d> norm(index_t channels) {
    return std::make_shared<nn::BatchNorm2d>(nn::BatchNormOptions{channels});
}

/// PyTorch's FX traces FloatFunctional as an addition and a relu, so that its names are those of functions.
enum class Form { modules, graph };

struct BasicBlock : nn::Cloneable<BasicBlock> {
    BasicBlock(index_t in, index_t out, index_t stride, Form form) : form_(form) {
        add_child("conv1", conv(in, out, 3, stride));
        add_child("bn1", norm(out));
        add_child("relu", std::make_shared<nn::ReLU>());
        add_child("conv2", conv(out, out, 3, 1));
        add_child("bn2", norm(out));
        if (stride != 1)
            add_child("downsample", std::make_shared<nn::Sequential>(
                                        std::initializer_list<nn::ModulePtr>{conv(in, out, 1, stride), norm(out)}));
        add_child("add_relu", std::make_shared<nn::FloatFunctional>());
    }
    std::string type_name() const override { return "BasicBlock"; }
    nn::Value forward(nn::Arguments x) override {
        const nn::Value out = call("bn2", call("conv2", call("relu", call("bn1", call("conv1", x[0])))));
        const nn::Value identity = has_child("downsample") ? call("downsample", x[0]) : x[0];
        if (form_ == Form::graph) return nn::relu(out + identity);
        return nn::call_float(*this, "add_relu", "add_relu", out, identity);
    }
    Form form_;
};

struct ResNet : nn::Cloneable<ResNet> {
    explicit ResNet(Form form) : form_(form) {
        if (form == Form::modules) add_child("quant", std::make_shared<nn::QuantStub>());
        add_child("conv1", conv(3, 4, 3, 1));
        add_child("bn1", norm(4));
        add_child("relu", std::make_shared<nn::ReLU>());
        add_child("maxpool", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2, 0)));
        add_child("layer1",
                  std::make_shared<nn::Sequential>(std::initializer_list<nn::ModulePtr>{
                      std::make_shared<BasicBlock>(4, 4, 1, form), std::make_shared<BasicBlock>(4, 6, 2, form)}));
        add_child("avgpool", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1}));
        add_child("fc", std::make_shared<nn::Linear>(nn::LinearOptions{6, 3}));
        if (form == Form::modules) add_child("dequant", std::make_shared<nn::DeQuantStub>());
    }
    std::string type_name() const override { return "ResNet"; }
    nn::Value forward(nn::Arguments x) override {
        nn::Value y = form_ == Form::modules ? call("quant", x[0]) : x[0];
        y = call("maxpool", call("relu", call("bn1", call("conv1", y))));
        y = call("fc", nn::flatten(call("avgpool", call("layer1", y)), 1));
        return form_ == Form::modules ? call("dequant", y) : y;
    }
    Form form_;
};

struct LSTMModel : nn::Cloneable<LSTMModel> {
    LSTMModel() {
        add_child("drop", std::make_shared<nn::Dropout>(0.5));
        add_child("encoder", std::make_shared<nn::Embedding>(nn::EmbeddingOptions{10, 8}));
        add_child("rnn", std::make_shared<nn::LSTM>(
                             nn::LSTMOptions{.input_size = 8, .hidden_size = 6, .num_layers = 2, .dropout = 0.5}));
        add_child("decoder", std::make_shared<nn::Linear>(nn::LinearOptions{6, 10}));
    }
    std::string type_name() const override { return "LSTMModel"; }
    std::vector<std::string> input_names() const override { return {"input", "hidden"}; }
    nn::Value forward(nn::Arguments x) override {
        const nn::Value both = call("rnn", call("drop", call("encoder", x[0])), x[1]);
        return nn::Value::Tuple{call("decoder", call("drop", both.tuple()[0])), both.tuple()[1]};
    }
};

std::vector<Tensor> images() {
    return {fill("images0", Shape(2, 3, 8, 8), 1.0), fill("images1", Shape(2, 3, 8, 8), 1.0)};
}

std::vector<nn::Value> tokens() {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < 12; ++i) ids.push_back(i * 7 % 10);
    return {Tensor::from(Shape(4, 3), ids),
            nn::Value(nn::Value::Tuple{fill("h", Shape(2, 3, 6), 0.5), fill("c", Shape(2, 3, 6), 0.5)})};
}

const kernels::KernelTable& table() { return test::scalar_table("fp32"); }

/// fp32 without its fused addition, which PyTorch does not have.
arith::PolicyRecord plain_policy() {
    arith::PolicyRecord policy = table().policy();
    policy.fused_add = false;
    return policy;
}

/// Min-max, activations affine with all codes, weights symmetric per tensor or channel.
QConfig torch_qconfig(bool per_channel = false) {
    QConfig qconfig = get_default_calib_qconfig();
    qconfig.output->options.observer = observer_factory<MinMaxObserver>();
    qconfig.output->options.observer_options.scheme = arith::QuantScheme::affine;
    auto& weight = qconfig.weight->options;
    weight.observer_options.quant_min = -128;
    weight.observer_options.quant_max = 127;
    if (per_channel) return qconfig;
    weight.observer = observer_factory<MinMaxObserver>();
    weight.observer_options.ch_axis = -1;
    return qconfig;
}

struct Pair {
    nn::ModulePtr float_model, quantized;
};

Pair static_pair() {
    const auto fused = fuse_modules(filled(std::make_shared<ResNet>(Form::modules)),
                                    {{"conv1", "bn1", "relu"},
                                     {"layer1.0.conv1", "layer1.0.bn1", "layer1.0.relu"},
                                     {"layer1.0.conv2", "layer1.0.bn2"},
                                     {"layer1.1.conv1", "layer1.1.bn1", "layer1.1.relu"},
                                     {"layer1.1.conv2", "layer1.1.bn2"},
                                     {"layer1.1.downsample.0", "layer1.1.downsample.1"}});
    PrepareModulesOptions torch;
    torch.compatibility = Compatibility::torch;
    const auto observe = [](nn::Module& prepared) {
        for (const Tensor& x : images()) prepared(x);
    };
    return {fused, quantize(fused, observe, QConfigMapping().set_global(torch_qconfig()), table(), torch)};
}

Pair dynamic_pair() {
    const auto model = filled(std::make_shared<LSTMModel>());
    QuantizeDynamicOptions qnnpack;  // all codes, as PyTorch's engine of this name
    for (const char* type : {"Linear", "LSTM"})
        qnnpack.qconfig_spec[type] = DynamicQConfig{.per_channel = false, .reduce_range = false};
    return {model, quantize_dynamic(model, qnnpack)};
}

ordered_json golden() {
    std::ifstream file(std::string(INTQ_TESTS_DIR) + "/golden/ns_tutorial.json");
    return ordered_json::parse(file);
}

ordered_json row_of(const char* suite, const std::string& name) {
    const ordered_json rows = golden().at(suite);
    for (const auto& row : rows)
        if (row.at("name") == name) return row;
    throw std::runtime_error("no case " + name);
}

/// Activations are qint8 here, and a fused float layer logs once.
ordered_json ours(ordered_json golden) {
    for (auto& [key, lists] : golden.items())
        for (auto& [which, list] : lists.items()) {
            if (which == "float" && list.is_array() && list.size() == 2 && list[0] == list[1]) list.erase(1);
            if (!list.is_array()) continue;
            for (auto& tensor : list)
                if (tensor.is_object() && tensor["dtype"] == "quint8") tensor["dtype"] = "qint8";
        }
    return golden;
}

/// How far a metric may be from PyTorch's: one part in a million. An activation differs by some units in the last place
/// of a float besides, because the sums of float layers have another order; `ulps` is that by the size of the signal.
/// It counts the more the smaller the error is that the metric measures.
struct Bound {
    double relative = 1e-6;
    double ulps = 0.0;

    double of(const std::string& metric, double value) const {
        const double error = metric == "sqnr" ? std::pow(10.0, -value / 20.0) : value;
        if (metric == "cosine") return relative + ulps;
        if (metric == "l2") return relative * value + ulps;
        return relative * value + 20.0 / std::log(10.0) * ulps / error;
    }
};
constexpr Bound exact{}, activations{1e-6, 3e-7};

/// PyTorch's number, or list of numbers.
void check_metric(const nn::Value& actual, const ordered_json& expected, const std::string& metric,
                  const Bound& bound) {
    if (expected.is_array()) {
        REQUIRE(actual.tuple().size() == expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) check_metric(actual.tuple()[i], expected[i], metric, bound);
        return;
    }
    const double wanted = std::strtod(expected.get<std::string>().c_str(), nullptr);
    if (std::isfinite(wanted))
        CHECK(std::abs(actual.number() - wanted) <= bound.of(metric, wanted));
    else
        CHECK(actual.number() == wanted);
}

template <class Dict> void check_case(const Dict& found, const ordered_json& row, bool has_inputs = false) {
    auto tree = ordered_json::parse(ns::to_json(found));
    if (has_inputs)  // PyTorch overwrites these
        for (const char* key : {"rnn._all_weight_values.0.param_ih", "rnn._all_weight_values.1.param_ih"})
            tree.erase(key);
    CHECK(tree == ours(row.at("result")));
}

/// In modules the average pool has a scale of its own here, and PyTorch's keeps that of its input. So the layer behind
/// it reads other codes.
bool is_behind_pool(const std::string& key) { return key == "fc.stats"; }

void check_activations(const ns::LoggerDict& found, const ordered_json& row) {
    check_case(found, row);
    for (const auto& [key, lists] : found) {
        INFO(key);
        const nn::Value sqnr = ns::fx::compute_sqnr(lists.at("float")[0], lists.at("quantized")[0]);
        if (is_behind_pool(key))
            CHECK(sqnr.number() > 40.0);
        else
            check_metric(sqnr, row.at("sqnr").at(key), "sqnr", activations);
    }
}

const ns::LoggerFactory torch_shadow = [] { return std::make_shared<ns::ShadowLogger>(ns::ShadowRule::torch); };

}  // namespace

TEST_CASE("Weights of the tutorial's models have PyTorch's keys, shapes and metrics") {
    for (const bool is_static : {true, false}) {
        const Pair pair = is_static ? static_pair() : dynamic_pair();
        const ordered_json row = row_of("eager", is_static ? "resnet:compare_weights" : "lstm:compare_weights");
        const auto weights =
            ns::compare_weights(nn::state_dict(*pair.float_model), ns::quantized_state_dict(*pair.quantized));
        check_case(weights, row, !is_static);
        for (const auto& [key, weight] : weights) {
            INFO(key);
            if (key.ends_with("param_ih")) continue;
            check_metric(ns::fx::compute_sqnr(weight.float_, weight.quantized), row.at("sqnr").at(key), "sqnr", exact);
        }
    }
}

TEST_CASE("Outputs of the tutorial's models have PyTorch's keys, shapes and metrics") {
    const Pair net = static_pair();
    check_activations(ns::compare_model_outputs(*net.float_model, *net.quantized, {images()[0]}),
                      row_of("eager", "resnet:compare_model_outputs"));
    const Pair rnn = dynamic_pair();
    check_activations(ns::compare_model_outputs(*rnn.float_model, *rnn.quantized, tokens()),
                      row_of("eager", "lstm:compare_model_outputs"));
}

TEST_CASE("Stubs in the tutorial's models have PyTorch's keys, shapes and metrics") {
    const auto check_stub = [](const Pair& pair, const ns::ModuleTypes& types, const std::vector<nn::Value>& data,
                               const char* name) {
        INFO(name);
        check_activations(ns::compare_model_stub(*pair.float_model, *pair.quantized, types, data, torch_shadow),
                          row_of("eager", name));
    };
    check_stub(static_pair(), {"BasicBlock"}, {images()[0]}, "resnet:compare_model_stub(BasicBlock)");
    check_stub(static_pair(), {"ConvReLU2d", "Linear", "FloatFunctional"}, {images()[0]},
               "resnet:compare_model_stub(ConvReLU2d,Linear,FloatFunctional)");
    check_stub(dynamic_pair(), {"Linear", "LSTM"}, tokens(), "lstm:compare_model_stub(Linear,LSTM)");
}

namespace {

const char* const metrics[] = {"sqnr", "l2", "cosine"};

void extend(ns::fx::NSResults& results) {
    ns::fx::extend_logger_results_with_comparison(results, "a", "b", ns::fx::compute_sqnr, "sqnr");
    ns::fx::extend_logger_results_with_comparison(results, "a", "b", ns::fx::compute_normalized_l2_error, "l2");
    ns::fx::extend_logger_results_with_comparison(results, "a", "b", ns::fx::compute_cosine_similarity, "cosine");
}

/// Observers are quantizers here, activations int8; the dynamic classes say that they are. PyTorch 2.15 gives an add
/// behind a FloatFunctional the qualified name of whatever was called before it.
void make_plain(ordered_json& result) {
    for (const char* key : {"prev_node_target_type", "ref_node_target_type"}) {
        std::string type = result.at(key).get<std::string>();
        if (const auto dot = type.rfind('.'); dot != std::string::npos) type = type.substr(dot + 1);
        if (type.ends_with("Observer") || type.ends_with("FakeQuantize")) type = "quantizer";
        result[key] = type;
    }
    if (result.at("ref_node_target_type").get<std::string>().starts_with("add")) result.erase("fqn");
    if (result.contains("fqn") && result.at("fqn") == "") result["fqn"] = nullptr;
    if (result.contains("index_of_arg") && result.at("values").is_array())
        for (auto& value : result.at("values"))
            if (value.is_object() && value.at("dtype") == "quint8") value["dtype"] = "qint8";
    for (const char* key : {"qconfig_str", "comparisons"}) result.erase(key);
    for (const char* key : metrics) result.erase(key);
}

/// Without the order of layers: PyTorch's is that of its stack where a graph has branches.
json plain(ordered_json results) {
    for (auto& [layer, kinds] : results.items())
        for (auto& [kind, models] : kinds.items())
            for (auto& [model, list] : models.items())
                for (auto& result : list) make_plain(result);
    return json::parse(results.dump());
}

void check_results(ns::fx::NSResults found, const ordered_json& expected) {
    extend(found);
    const json wanted = plain(expected), actual = plain(ordered_json::parse(ns::fx::to_json(found)));
    CHECK(actual == wanted);
    if (actual != wanted) UNSCOPED_INFO(json::diff(wanted, actual).dump(1));
    for (const auto& [layer, kinds] : expected.items())
        for (const auto& [kind, models] : kinds.items())
            for (std::size_t i = 0; i < models.at("b").size(); ++i)
                for (const char* metric : metrics) {
                    INFO(layer << " " << kind << " " << metric);
                    const auto& numbers = models.at("b")[i].at(metric);
                    const auto& values = found.at(layer).at(kind).at("b").at(i).at(metric);
                    REQUIRE(values.size() == numbers.size());
                    for (std::size_t run = 0; run < values.size(); ++run)
                        check_metric(values[run], numbers[run], metric, kind == "weight" ? exact : activations);
                }
}

struct Graphs {
    std::shared_ptr<graph::GraphModule> a, b;
    std::vector<std::vector<nn::Value>> runs;
    bool should_log_inputs;
};

Graphs static_graphs() {
    PrepareOptions options;
    options.compatibility = Compatibility::torch;
    options.example_inputs = {images()[0]};
    const auto prepared = prepare_calibration_fx(*filled(std::make_shared<ResNet>(Form::graph)),
                                                 QConfigMapping().set_global(torch_qconfig()), plain_policy(), options);
    prepared->eval();
    set_fake_quantize(*prepared, FakeQuantState::calibration);
    for (const Tensor& x : images()) (*prepared)(x);
    set_fake_quantize(*prepared, FakeQuantState::float_);
    const QuantizedGraph quantized = convert_fx(*prepared);
    return {prepared,
            std::make_shared<ns::fx::ConvertedModel>(quantized, lower(quantized, table(), 2)),
            {{images()[0]}, {images()[1]}},
            true};
}

Graphs dynamic_graphs() {
    const Pair pair = dynamic_pair();
    return {graph::symbolic_trace(*pair.float_model), graph::symbolic_trace(*pair.quantized), {tokens()}, false};
}

/// In PyTorch's prepared model the observer is the end of a layer; a model without dynamic observers has the layer.
ordered_json without_observers(ordered_json results) {
    for (auto& [layer, kinds] : results.items())
        for (auto& [kind, models] : kinds.items())
            for (auto& result : models.at("a"))
                if (result.at("prev_node_target_type") == "PlaceholderObserver")
                    for (const auto& [key, of] :
                         {std::pair{"prev_node_name", "ref_node_name"}, std::pair{"ref_node_name", "ref_node_name"},
                          std::pair{"prev_node_target_type", "ref_node_target_type"}})
                        result[key] = models.at("b").at(0).at(of);
    return results;
}

}  // namespace

TEST_CASE("The FX suite has PyTorch's results and metrics on the tutorial's models") {
    for (const char* name : {"resnet", "lstm"}) {
        INFO(name);
        const ordered_json row = row_of("fx", name);
        const Graphs graphs = std::string_view(name) == "resnet" ? static_graphs() : dynamic_graphs();
        check_results(ns::fx::extract_weights("a", *graphs.a, "b", *graphs.b), row.at("weights"));

        ns::fx::AddLoggersOptions options;
        options.should_log_inputs = graphs.should_log_inputs;
        const auto logged = ns::fx::add_loggers("a", *graphs.a, "b", *graphs.b, options);
        for (const auto& run : graphs.runs) {
            logged.a->dispatch("forward", run);
            logged.b->dispatch("forward", run);
        }
        check_results(ns::fx::extract_logger_info(*logged.a, *logged.b, "b"), without_observers(row.at("loggers")));

        ns::fx::AddShadowLoggersOptions shadow_options;
        shadow_options.should_log_inputs = graphs.should_log_inputs;
        const auto shadow = ns::fx::add_shadow_loggers("a", *graphs.a, "b", *graphs.b, shadow_options);
        for (const auto& run : graphs.runs) shadow->dispatch("forward", run);
        ns::fx::NSResults shadows = ns::fx::extract_shadow_logger_info(*shadow, "b");
        // PyTorch makes no shadow of it, because it does not know what getitem gives.
        CHECK(shadows.erase("drop_1") == (name == std::string_view("lstm")));
        check_results(std::move(shadows), row.at("shadow"));
    }
}

TEST_CASE("n-shadows of the residual network have PyTorch's layers and metrics") {
    const QConfig per_tensor = torch_qconfig(), per_channel = torch_qconfig(true);
    const auto mapping = ns::fx::QConfigMultiMapping()
                             .set_global({per_tensor, per_channel})
                             .set_object_type("Linear", {std::nullopt, per_tensor});
    const auto prepared = ns::fx::prepare_n_shadows_model(*filled(std::make_shared<ResNet>(Form::graph)), {images()[0]},
                                                          mapping, plain_policy());
    for (const Tensor& x : images()) (*prepared)(x);
    const auto converted = ns::fx::convert_n_shadows_model(prepared, table());
    ns::fx::loggers_set_enabled(*converted, true);
    for (const Tensor& x : images()) (*converted)(x);
    const auto found = ns::fx::extract_results_n_shadows_model(*converted);
    const auto& subgraphs = found.at("model").at("node_output");

    // PyTorch counts the quantizer inside a FloatFunctional as a layer.
    std::vector<ordered_json> expected;
    const ordered_json all = golden().at("n_shadows").at("results");
    for (const auto& [name, row] : all.items())
        if (row.at("ref_node_target_type") != "Identity") expected.push_back(row);
    REQUIRE(subgraphs.size() == expected.size());
    std::size_t i = 0;
    for (const auto& [name, list] : subgraphs) {
        INFO(name);
        ordered_json actual = ordered_json::parse(ns::fx::to_json(list[0])), wanted = expected[i++];
        const auto& numbers = wanted.at("comparisons");
        REQUIRE(list[0].comparisons.size() == numbers.size());
        const ordered_json kept = numbers;
        make_plain(actual);
        make_plain(wanted);
        CHECK(json::parse(actual.dump()) == json::parse(wanted.dump()));
        for (std::size_t run = 0; run < kept.size(); ++run)
            check_metric(list[0].comparisons[run], kept[run], "sqnr", activations);
    }
}
