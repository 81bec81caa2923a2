// SPDX-License-Identifier: MIT
//
// Dynamic quantization of a language model: Embedding, two layers of LSTM, Linear. No data is needed; the codes of each
// input are made when it comes. Then the same model with int8 weights only.
#include <cmath>
#include <cstdio>
#include <random>

#include "intq/nn.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "intq/numeric_suite/metrics/metrics.hpp"
#include "intq/quantization/dynamic/quantize_dynamic.hpp"
#include "intq/quantization/dynamic/weight_only.hpp"

namespace {

using namespace intq;
using intq::Tensor;

constexpr index_t tokens = 200, width = 64, hidden = 128;

class LanguageModel : public nn::Cloneable<LanguageModel> {
public:
    LanguageModel() {
        add_child("encoder", std::make_shared<nn::Embedding>(nn::EmbeddingOptions{tokens, width}));
        add_child("rnn", std::make_shared<nn::LSTM>(
                             nn::LSTMOptions{.input_size = width, .hidden_size = hidden, .num_layers = 2}));
        add_child("decoder", std::make_shared<nn::Linear>(nn::LinearOptions{hidden, tokens}));
        std::mt19937 generator(1);
        for (const auto& parameter : named_parameters())
            for (float& value : parameter.value->flat<float>())
                value = static_cast<float>(generator() % 2001) / 1000.0f - 1.0f;
        for (const char* name : {"rnn", "decoder"})
            for (auto& parameter : child(name)->parameters())
                for (float& value : parameter.value.flat<float>()) value *= 0.3f;
        eval();
    }
    std::string type_name() const override { return "LanguageModel"; }
    std::vector<std::string> input_names() const override { return {"ids", "state"}; }
    nn::Value forward(nn::Arguments arguments) override {
        const nn::Value both = call("rnn", call("encoder", arguments[0]));
        return call("decoder", both.tuple()[0]);
    }
};

index_t bytes_of(nn::Module& model) {
    index_t bytes = 0;
    for (const auto& item : nn::state_dict(model)) bytes += item.value.bytes();
    return bytes;
}

index_t same_next_tokens(const Tensor& a, const Tensor& b) {
    const auto best = [](const Tensor& logits, index_t row) {
        const float* first = logits.flat<float>().data() + row * tokens;
        return std::max_element(first, first + tokens) - first;
    };
    index_t same = 0;
    for (index_t row = 0; row < a.size() / tokens; ++row) same += best(a, row) == best(b, row) ? 1 : 0;
    return same;
}

int run() {
    const auto model = std::make_shared<LanguageModel>();
    std::vector<std::int64_t> text;
    for (std::uint32_t i = 0; i < 40 * 4; ++i) text.push_back((i * 2654435761u >> 16) % tokens);
    const Tensor ids = Tensor::from(Shape(40, 4), text);  // 40 steps of 4 texts
    const Tensor expected = (*model)(ids).tensor();

    const nn::ModulePtr dynamic = quantization::quantize_dynamic(model);
    quantization::QuantizeDynamicOptions some;  // by type and name
    some.qconfig_spec = {{"LSTM", quantization::DynamicQConfig{.per_channel = true}}, {"decoder", std::nullopt}};
    const nn::ModulePtr only_rnn = quantization::quantize_dynamic(model, some);
    const nn::ModulePtr weights = quantization::quantize_weight_only(model);

    bool ok = true;
    std::printf("%-22s %10s %9s %s\n", "model", "bytes", "SQNR dB", "same next tokens of 160");
    for (const auto& [name, quantized] :
         {std::pair{"float", nn::ModulePtr(model)}, std::pair{"dynamic", dynamic},
          std::pair{"dynamic rnn, channels", only_rnn}, std::pair{"weight only", weights}}) {
        const Tensor logits = (*quantized)(ids).tensor();
        const float sqnr = numeric_suite::compute_sqnr(expected.flat<float>(), logits.flat<float>());
        const index_t same = same_next_tokens(expected, logits);
        std::printf("%-22s %10lld %9.1f %lld\n", name, static_cast<long long>(bytes_of(*quantized)),
                    static_cast<double>(sqnr), static_cast<long long>(same));
        ok = ok && (std::isinf(sqnr) || sqnr > 15) && same > 120;
    }
    std::printf("rnn: %s, decoder: %s\n", dynamic->child("rnn")->type_name().c_str(),
                dynamic->child("decoder")->type_name().c_str());
    return ok ? 0 : 1;
}

}  // namespace

int main() try { return run(); } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
