// SPDX-License-Identifier: MIT
//
// PyTorch's tutorial "Numeric Suite", step by step: each comment is the line of Python that follows in C++. A residual
// network that is quantized with data, then Embedding, LSTM and Linear without.
#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

#include "intq/arith/fp32.hpp"
#include "intq/nn.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "intq/numeric_suite/eager/compare_outputs.hpp"
#include "intq/numeric_suite/eager/compare_stub.hpp"
#include "intq/numeric_suite/eager/compare_weights.hpp"
#include "intq/numeric_suite/loggers/value_metrics.hpp"
#include "intq/numeric_suite/metrics/metrics.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/dynamic/quantize_dynamic.hpp"
#include "intq/quantization/eager/convert_eager.hpp"
#include "intq/quantization/eager/fuse_eager.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"

namespace {

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;
// import torch.ao.ns._numeric_suite as ns
namespace ns = intq::numeric_suite;

// class BasicBlock(nn.Module): a residual block that can be quantized
class BasicBlock : public nn::Cloneable<BasicBlock> {
public:
    explicit BasicBlock(index_t channels) {
        const auto conv = [&] {
            return std::make_shared<nn::Conv2d>(
                nn::Conv2dOptions{channels, channels, nn::square_window(3, 1, 1), 1, false});
        };
        add_child("conv1", conv());
        add_child("bn1", std::make_shared<nn::BatchNorm2d>(nn::BatchNormOptions{channels}));
        add_child("relu", std::make_shared<nn::ReLU>());
        add_child("conv2", conv());
        add_child("bn2", std::make_shared<nn::BatchNorm2d>(nn::BatchNormOptions{channels}));
        add_child("add_relu", std::make_shared<nn::FloatFunctional>());  // self.add_relu = FloatFunctional()
    }
    std::string type_name() const override { return "BasicBlock"; }
    nn::Value forward(nn::Arguments x) override {
        const nn::Value out = call("bn2", call("conv2", call("relu", call("bn1", call("conv1", x[0])))));
        return nn::call_float(*this, "add_relu", "add_relu", out, x[0]);  // self.add_relu.add_relu(out, identity)
    }
};

class ResNet : public nn::Cloneable<ResNet> {
public:
    ResNet() {
        add_child("quant", std::make_shared<nn::QuantStub>());
        add_child("conv1", std::make_shared<nn::Conv2d>(nn::Conv2dOptions{3, 16, nn::square_window(3, 1, 1)}));
        add_child("layer1", std::make_shared<nn::Sequential>(std::initializer_list<nn::ModulePtr>{
                                std::make_shared<BasicBlock>(16), std::make_shared<BasicBlock>(16)}));
        add_child("avgpool", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1}));
        add_child("flatten", std::make_shared<nn::Flatten>());
        add_child("fc", std::make_shared<nn::Linear>(nn::LinearOptions{16, 10}));
        add_child("dequant", std::make_shared<nn::DeQuantStub>());
    }
    std::string type_name() const override { return "ResNet"; }
    nn::Value forward(nn::Arguments x) override {
        const nn::Value y = call("layer1", call("conv1", call("quant", x[0])));
        return call("dequant", call("fc", call("flatten", call("avgpool", y))));
    }
};

// class LSTMModel(nn.Module): Container module with an encoder, a recurrent module, and a decoder.
class LSTMModel : public nn::Cloneable<LSTMModel> {
public:
    LSTMModel(index_t ntoken, index_t ninp, index_t nhid, index_t nlayers) {
        add_child("drop", std::make_shared<nn::Dropout>());
        add_child("encoder", std::make_shared<nn::Embedding>(nn::EmbeddingOptions{ntoken, ninp}));
        add_child("rnn", std::make_shared<nn::LSTM>(
                             nn::LSTMOptions{.input_size = ninp, .hidden_size = nhid, .num_layers = nlayers}));
        add_child("decoder", std::make_shared<nn::Linear>(nn::LinearOptions{nhid, ntoken}));
    }
    std::string type_name() const override { return "LSTMModel"; }
    std::vector<std::string> input_names() const override { return {"input", "hidden"}; }
    nn::Value forward(nn::Arguments x) override {
        const nn::Value both = call("rnn", call("drop", call("encoder", x[0])), x[1]);
        return nn::Value::Tuple{call("decoder", call("drop", both.tuple()[0])), both.tuple()[1]};
    }
};

Tensor random_tensor(const Shape& shape, float limit, std::mt19937& generator) {
    Tensor result = Tensor::empty(shape);
    for (float& value : result.flat<float>()) value = (static_cast<float>(generator() % 2001) / 1000.0f - 1.0f) * limit;
    return result;
}

// There is no pretrained network here, so the weights are random numbers.
template <class Model> std::shared_ptr<Model> with_random_weights(std::shared_ptr<Model> model) {
    std::mt19937 generator(1);
    for (const auto& parameter : model->named_parameters()) {
        const bool is_norm = parameter.name.find("bn") != std::string::npos;
        const Shape shape = parameter.value->shape();
        if (!is_norm) *parameter.value = random_tensor(shape, shape.rank == 4 ? 0.15f : 0.3f, generator);
    }
    model->eval();
    return model;
}

// def compute_error(x, y): return 20 * torch.log10(torch.norm(x) / torch.norm(x - y))
double compute_error(const nn::Value& x, const nn::Value& y) {
    return ns::compare_values(ns::compute_sqnr, x, y).number();  // codes become real values
}

bool all_above(const ns::LoggerDict& dict, double least) {
    bool ok = !dict.empty();
    for (const auto& [key, lists] : dict) {  // for key in act_compare_dict:
        // print(key, compute_error(dict[key]['float'][0], dict[key]['quantized'][0].dequantize()))
        const nn::Value &x = lists.at("float")[0], &y = lists.at("quantized")[0];
        const bool is_lstm = x.is_tuple();  // (output, (h, c)): the tutorial takes [0][0]
        const double error = compute_error(is_lstm ? x.tuple()[0] : x, is_lstm ? y.tuple()[0] : y);
        std::printf("  %-24s %8.2f\n", key.c_str(), error);
        ok = ok && error > least;
    }
    return ok;
}

bool all_above(const ns::WeightDict& dict, double least) {
    bool ok = !dict.empty();
    for (const auto& [key, weight] : dict) {
        const double error = compute_error(weight.float_, weight.quantized);
        std::printf("  %-40s %8.2f\n", key.c_str(), error);
        ok = ok && error > least;
    }
    return ok;
}

// class MyOutputLogger(ns.Logger): a logger of one's own keeps what it wants: here how many elements are 0.
class MyOutputLogger : public nn::Cloneable<MyOutputLogger, ns::Logger> {
public:
    std::string type_name() const override { return "MyOutputLogger"; }
    nn::Value forward(nn::Arguments x) override {
        const Tensor values = ns::dequantized(x[0]).tensor();
        const auto zeros = std::count(values.flat<float>().begin(), values.flat<float>().end(), 0.0f);
        stats()["zeros"].push_back(static_cast<std::int64_t>(zeros));
        return x[0];
    }
};

struct Models {
    nn::ModulePtr float_model, qmodel;
};

// float_model = …; qmodel = quantize(float_model, default_eval_fn, img_data, inplace=False)
Models static_models(const std::vector<Tensor>& img_data) {
    const nn::ModulePtr fused = fuse_modules(with_random_weights(std::make_shared<ResNet>()),
                                             {{"layer1.0.conv1", "layer1.0.bn1", "layer1.0.relu"},
                                              {"layer1.0.conv2", "layer1.0.bn2"},
                                              {"layer1.1.conv1", "layer1.1.bn1", "layer1.1.relu"},
                                              {"layer1.1.conv2", "layer1.1.bn2"}});
    const auto& table = program::best_table<target::fp32>();
    const auto eval = [](nn::Module& model, const std::vector<Tensor>& data) {
        for (const Tensor& images : data) model(images);
    };
    return {fused, quantize(fused, eval, img_data, get_default_qconfig_mapping(table.policy()), table)};
}

bool compare_static(const std::vector<Tensor>& img_data) {
    bool ok = true;
    // 1. Compare the weights of float and quantized models
    Models models = static_models(img_data);
    (*models.qmodel)(img_data[0]);
    // wt_compare_dict = ns.compare_weights(float_model.state_dict(), qmodel.state_dict())
    const auto wt_compare_dict =
        ns::compare_weights(nn::state_dict(*models.float_model), ns::quantized_state_dict(*models.qmodel));
    std::printf("weights, dB\n");
    ok = all_above(wt_compare_dict, 30.0) && ok;

    // 2. Compare float point and quantized models at corresponding locations
    // act_compare_dict = ns.compare_model_outputs(float_model, qmodel, data)
    std::printf("outputs, dB\n");
    ok = all_above(ns::compare_model_outputs(*models.float_model, *models.qmodel, {img_data[0]}), 15.0) && ok;

    // For more inputs: ns.prepare_model_outputs(float_model, qmodel); run; ns.get_matching_activations(…)
    models = static_models(img_data);
    ns::prepare_model_outputs(*models.float_model, *models.qmodel);
    for (const Tensor& images : img_data) {
        (*models.float_model)(images);
        (*models.qmodel)(images);
    }
    const auto act_compare_dict = ns::get_matching_activations(*models.float_model, *models.qmodel);
    ok = act_compare_dict.at("conv1.stats").at("quantized").size() == img_data.size() && ok;

    // With a logger of one's own: compare_model_outputs(float_model, qmodel, data, logger_cls=MyOutputLogger)
    models = static_models(img_data);
    ns::CompareOutputsOptions options;
    options.logger_cls = ns::logger_factory<MyOutputLogger>();
    ns::prepare_model_outputs(*models.float_model, *models.qmodel, options);
    (*models.qmodel)(img_data[0]);
    const auto zeros = ns::get_logger_dict(*models.qmodel).at("layer1.0.conv1.stats").at("zeros")[0].integer();
    std::printf("zeros behind the first relu: %lld\n", static_cast<long long>(zeros));
    ok = zeros > 0 && ok;

    // 3. Compare a module in a quantized model with its float point equivalent, with the same input data
    // ob_dict = ns.compare_model_stub(float_model, qmodel, [QuantizableBasicBlock], data)
    models = static_models(img_data);
    std::printf("blocks on the same input, dB\n");
    return all_above(ns::compare_model_stub(*models.float_model, *models.qmodel, {"BasicBlock"}, {img_data[0]}),
                     15.0) &&
           ok;
}

bool compare_dynamic() {
    // float_model = LSTMModel(ntoken=10, ninp=32, nhid=24, nlayers=5); qmodel = quantize_dynamic(float_model, …)
    const auto float_model = with_random_weights(std::make_shared<LSTMModel>(10, 32, 24, 5));
    const auto fresh = [&] { return quantize_dynamic(float_model); };
    std::vector<std::int64_t> tokens;
    for (std::int64_t i = 0; i < 4 * 3; ++i) tokens.push_back(i * 7 % 10);
    const Tensor zeros = Tensor::zeros(Shape(5, 3, 24));
    const std::vector<nn::Value> data{Tensor::from(Shape(4, 3), tokens), nn::Value(nn::Value::Tuple{zeros, zeros})};

    std::printf("LSTM: weights, dB\n");
    bool ok = all_above(ns::compare_weights(nn::state_dict(*float_model), ns::quantized_state_dict(*fresh())), 30.0);
    std::printf("LSTM: outputs, dB\n");
    const auto loggers_in = nn::clone(nn::ModulePtr(float_model));
    ok = all_above(ns::compare_model_outputs(*loggers_in, *fresh(), data), 15.0) && ok;
    // module_swap_list = [nn.Linear, nn.LSTM]
    std::printf("LSTM: modules on the same input, dB\n");
    return all_above(ns::compare_model_stub(*float_model, *fresh(), {"Linear", "LSTM"}, data), 15.0) && ok;
}

int run() {
    std::mt19937 generator(2);
    std::vector<Tensor> img_data;
    for (int i = 0; i < 4; ++i) img_data.push_back(random_tensor(Shape(4, 3, 16, 16), 1.0f, generator));
    const bool ok_static = compare_static(img_data);
    return compare_dynamic() && ok_static ? 0 : 1;
}

}  // namespace

int main() try { return run(); } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
