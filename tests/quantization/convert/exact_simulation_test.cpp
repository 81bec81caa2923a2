// SPDX-License-Identifier: MIT
//
// Exact simulation against the program: no code may differ, on any layer, for any target that accepts the model. What
// differs in the ordinary float simulation is counted and printed beside it.
#include "intq/quantization/convert/exact_simulation.hpp"

#include <iostream>
#include <map>
#include <set>

#include "intq/graph/operators.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/convert/hybrid.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/operators/conv.hpp"
#include "intq/quantization/operators/internal/lowering.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "intq/tensor/npy.hpp"
#include "intq/tensor/quantize.hpp"
#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/kept_tensors.hpp"
#include "support/same_bytes.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::Draw;
using test::run_and_keep;
using test::same_bytes;
using test::stubbed;

namespace {

template <class Code> index_t count_different(const intq::Tensor& a, const intq::Tensor& b) {
    index_t count = 0;
    for (std::size_t i = 0; i < a.flat<Code>().size(); ++i) count += a.flat<Code>()[i] != b.flat<Code>()[i];
    return count;
}

struct Count {
    index_t layers = 0, codes = 0, float_differs = 0;
};

/// Prepares, simulates, lowers and runs; fails where a code differs.
void compare(const nn::Module& model, const kernels::KernelTable& table, const intq::Tensor& x, DType dtype,
             Count& count, DType weight_dtype = DType::int8, Compatibility compatibility = Compatibility::horizon) {
    PrepareOptions options;
    options.compatibility = compatibility;
    const auto mapping = get_default_qconfig_mapping(table.policy(), dtype, weight_dtype);
    const auto prepared = prepare_calibration_fx(model, mapping, table.policy(), options);
    calibrate(*prepared, x, x.extent(0));
    ExactSimulation simulation(*prepared, table, x.extent(0));
    const intq::Tensor simulated = simulation.run({&x, 1})[0];
    CHECK_THROWS_AS(simulation.codes_of("no such node"), Error);
    const LoweredModel lowered = lower(simulation.quantized(), table, x.extent(0));
    const auto executed = run_and_keep(lowered, x);
    CHECK(same_bytes(simulated, lowered.run(x)));

    std::map<std::string, intq::Tensor> by_layer;
    for (const QuantizedNode& node : simulation.quantized().nodes)
        if (simulation.quantized().output(node).dtype != DType::float32)
            by_layer[Lowering::layer(node).name] = simulation.tensor(node.output).contiguous();
    for (const auto& [name, codes] : by_layer) {
        const auto found = executed.find(name);
        if (found == executed.end()) continue;  // a flatten that a linear layer reads through
        INFO(name);
        ++count.layers;
        count.codes += codes.size();
        CHECK(same_bytes(codes, found->second));
    }

    // The ordinary simulation, in float: its values as codes.
    prepared->run(std::array{nn::Value(x)}, [&](const graph::Node& node, const nn::Value& value) {
        const auto found = simulation.quantized().values.find(node.name());
        if (found == simulation.quantized().values.end() || !value.is_tensor()) return;
        const QuantizedTensor& tensor = simulation.quantized().tensor(found->second);
        if (tensor.dtype != DType::int8 && tensor.dtype != DType::int16) return;
        if (dynamic_cast<const Quantizer*>(graph::module_of(node, *prepared)) == nullptr) return;
        const intq::Tensor codes = quantize(value.tensor(), tensor.qparams, table.policy().quantize);
        const intq::Tensor exact = simulation.codes_of(node.name()).contiguous();
        count.float_differs += tensor.dtype == DType::int8 ? count_different<std::int8_t>(codes, exact)
                                                           : count_different<std::int16_t>(codes, exact);
    });
}

void report(const char* what, const Count& count) {
    std::cout << what << ": " << count.layers << " layers, " << count.codes << " codes, 0 differ in exact simulation, "
              << count.float_differs << " in float simulation\n";
}

/// An encoder and a decoder: strided convolution, transposed convolution, interpolate, a skip by cat with its batch
/// norm, a gate.
///
/// @param subtracts  else adds: in torch mode sub takes real values, which no program executes
nn::ModulePtr encoder_decoder(bool subtracts = true) {
    const auto random = [](auto layer, std::uint32_t seed) {
        layer->set_weight(test::random_tensor(layer->weight().shape(), seed));
        layer->set_bias(test::random_tensor(Shape(layer->out_channels()), seed + 1));
        return layer;
    };
    const Window2d half{{3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}}, same{{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
    return stubbed(
        {{"down1", random(std::make_shared<nn::Conv2d>(nn::Conv2dOptions{3, 6, half, 1, true}), 1)},
         {"down2", random(std::make_shared<nn::Conv2d>(nn::Conv2dOptions{6, 8, half, 1, true}), 3)},
         {"up1",
          random(std::make_shared<nn::ConvTranspose2d>(nn::ConvTranspose2dOptions{8, 6, half, {1, 1}, 2, true}), 5)},
         {"norm", test::make_batch_norm<nn::BatchNorm2d>(12, 13)},
         {"mix", random(std::make_shared<nn::Conv2d>(nn::Conv2dOptions{12, 5, same, 1, true}), 7)},
         {"gate", random(std::make_shared<nn::Conv2d>(nn::Conv2dOptions{5, 5, {}, 1, true}), 9)},
         {"head", random(std::make_shared<nn::Conv2d>(nn::Conv2dOptions{5, 4, same, 1, true}), 11)}},
        [subtracts](test::LambdaModel& m, nn::Arguments x) {
            const nn::Value a = nn::relu(m.call("down1", x[0]));
            const nn::Value b = nn::relu(m.call("down2", a));
            const nn::Value up = nn::relu6(m.call("up1", b));
            const nn::Value mixed = nn::relu(m.call("mix", nn::relu(m.call("norm", nn::cat({up, a}, 1)))));
            const nn::Value gated = mixed * nn::sigmoid(m.call("gate", mixed));
            const nn::Value share = gated * nn::softmax(gated, 1);
            const nn::Value attended = subtracts ? gated - share : gated + share;
            return m.call("head", nn::interpolate(attended, nn::Value::Tuple{16, 16}, {}, "bilinear"));
        });
}

/// A value of a random graph and its extents.
struct Made {
    std::size_t at;
    index_t channels, height, width;
};

/// A random graph of some operators: drawn once as a list of functions, so that each call is the same.
class RandomGraph {
public:
    explicit RandomGraph(std::uint64_t seed) : draw_(seed) {
        made_.push_back({0, 3, 6, 7});
        const auto count = draw_.between(4, 9);
        for (int i = 0; i < count; ++i) add();
        const Made& last = made_.back();
        const auto head = std::make_shared<nn::Linear>(nn::LinearOptions{last.channels, 5, true});
        head->set_weight(test::random_tensor(head->weight().shape(), seed32()));
        children_.emplace_back("head", head);
    }

    nn::ModulePtr model() const {
        const auto steps = steps_;
        auto model = stubbed({}, [steps](test::LambdaModel& m, nn::Arguments x) {
            std::vector<nn::Value> values{x[0]};
            for (const Step& step : steps) values.push_back(step(m, values));
            // Small enough for the averages of every target.
            const nn::Value small = nn::interpolate(values.back(), nn::Value::Tuple{5, 6}, {}, "nearest");
            return m.call("head", nn::mean(small, {2, 3}));
        });
        for (const auto& [name, child] : children_) model->add_child(name, child);
        model->eval();
        return model;
    }

private:
    using Step = std::function<nn::Value(test::LambdaModel&, const std::vector<nn::Value>&)>;

    std::uint32_t seed32() { return static_cast<std::uint32_t>(draw_.between(1, 1 << 30)); }
    const Made& any() {
        return made_[static_cast<std::size_t>(draw_.between(0, static_cast<std::int64_t>(made_.size()) - 1))];
    }
    /// Another value that `accept` takes; the value itself where there is none.
    template <class Accept> Made partner_of(const Made& x, const Accept& accept) {
        for (const Made& other : made_)
            if (other.at != x.at && accept(other)) return other;
        return x;
    }
    void push(index_t channels, index_t height, index_t width, Step step) {
        steps_.push_back(std::move(step));
        made_.push_back({steps_.size(), channels, height, width});
    }

    void add() {
        const Made x = draw_.one_in(3) ? any() : made_.back();
        const std::size_t a = x.at;
        switch (draw_.between(0, 13)) {
            case 0:
            case 1:
                return add_conv(x);
            case 2: {
                const Made y = partner_of(x, [&](const Made& o) {
                    return o.channels == x.channels && o.height == x.height && o.width == x.width;
                });
                if (y.at == x.at) return add_conv(x);
                const std::size_t b = y.at;
                if (draw_.one_in(3))
                    return push(x.channels, x.height, x.width,
                                [a, b](auto&, const auto& v) { return nn::relu(v[a] + v[b]); });
                if (draw_.one_in(2))
                    return push(x.channels, x.height, x.width, [a, b](auto&, const auto& v) { return v[a] - v[b]; });
                return push(x.channels, x.height, x.width, [a, b](auto&, const auto& v) { return v[a] * v[b]; });
            }
            case 3: {
                const Made y = partner_of(x, [&](const Made& o) { return o.height == x.height && o.width == x.width; });
                if (y.at == x.at) return add_conv(x);
                const std::size_t b = y.at;
                return push(x.channels + y.channels, x.height, x.width, [a, b](auto&, const auto& v) {
                    return nn::cat({v[a], v[b]}, 1);
                });
            }
            case 4:
                return add_pool(x);
            case 5: {
                const index_t height = draw_.between(3, 9), width = draw_.between(3, 9);
                const std::string mode = draw_.one_in(2) ? "bilinear" : "nearest";
                return push(x.channels, height, width, [=](auto&, const auto& v) {
                    return nn::interpolate(v[a], nn::Value::Tuple{height, width}, {}, mode);
                });
            }
            case 6:
                return push(x.channels, x.height, x.width, [a](auto&, const auto& v) { return nn::sigmoid(v[a]); });
            case 7:
                return push(x.channels, x.height, x.width, [a](auto&, const auto& v) { return nn::hardswish(v[a]); });
            case 8:
                return push(x.channels, x.height + 1, x.width + 2, [a](auto&, const auto& v) {
                    return nn::pad(v[a], {2, 0, 0, 1}, 0.25);
                });
            case 9:
                return push(x.height, x.channels, x.width, [a](auto&, const auto& v) {
                    return nn::permute(v[a], {0, 2, 1, 3});
                });
            case 10:
                return push(x.width, x.height, x.channels, [a, x](auto&, const auto& v) {
                    return nn::reshape(v[a], {-1, x.width, x.height, x.channels});
                });
            case 11:
                return push(x.channels, (x.height + 1) / 2, x.width,
                            [a](auto&, const auto& v) { return nn::slice(v[a], 2, 0, {}, 2); });
            case 12: {
                if (x.channels < 2) return add_conv(x);
                return push(x.channels, x.height, x.width, [a](auto&, const auto& v) {
                    const nn::Value pieces = nn::chunk(v[a], 2, 1);
                    return nn::cat({pieces[1], pieces[0]}, 1);
                });
            }
            default:
                return push(x.channels, x.height, x.width,
                            [a](auto&, const auto& v) { return nn::clamp(v[a], -0.4, 0.7); });
        }
    }

    void add_pool(const Made& x) {
        if (x.height < 3 || x.width < 3) return add_conv(x);
        const std::string name = "pool" + std::to_string(children_.size());
        const Window2d window{{3, 3}, {1, 1}, {}, {1, 1}};
        if (draw_.one_in(2))
            children_.emplace_back(name, std::make_shared<nn::AvgPool2d>(window));
        else
            children_.emplace_back(name, std::make_shared<nn::MaxPool2d>(window));
        push(x.channels, x.height - 2, x.width - 2,
             [name, a = x.at](auto& m, const auto& v) { return m.call(name, v[a]); });
    }

    /// Ordinary, depthwise or transposed; alone, with relu, or with an add in it.
    void add_conv(const Made& x) {
        const std::string name = "conv" + std::to_string(children_.size());
        const bool is_transposed = draw_.one_in(4), is_depthwise = !is_transposed && draw_.one_in(4);
        const index_t out = is_depthwise ? x.channels : draw_.between(2, 6);
        const Window2d same{{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
        std::shared_ptr<nn::Weighted> conv;
        if (is_transposed)
            conv = std::make_shared<nn::ConvTranspose2d>(
                nn::ConvTranspose2dOptions{x.channels, out, same, {0, 0}, 1, true});
        else
            conv = std::make_shared<nn::Conv2d>(
                nn::Conv2dOptions{x.channels, out, same, is_depthwise ? x.channels : 1, true});
        conv->set_weight(test::random_tensor(conv->weight().shape(), seed32()));
        conv->set_bias(test::random_tensor(Shape(out), seed32()));
        children_.emplace_back(name, conv);
        const std::size_t a = x.at;
        const Made y = partner_of(
            x, [&](const Made& o) { return o.channels == out && o.height == x.height && o.width == x.width; });
        if (y.at != x.at && draw_.one_in(2)) {
            const std::size_t b = y.at;
            return push(out, x.height, x.width,
                        [=](auto& m, const auto& v) { return nn::relu(m.call(name, v[a]) + v[b]); });
        }
        const bool has_relu = draw_.one_in(2);
        push(out, x.height, x.width, [=](auto& m, const auto& v) {
            const nn::Value y_value = m.call(name, v[a]);
            return has_relu ? nn::relu(y_value) : y_value;
        });
    }

    Draw draw_;
    std::vector<Made> made_;
    std::vector<Step> steps_;
    std::vector<std::pair<std::string, nn::ModulePtr>> children_;
};

}  // namespace

TEST_CASE("An encoder-decoder: no code differs between exact simulation and program, on any target") {
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 16, 16), 21);
    Count count;
    int targets = 0;
    for (const kernels::KernelTable* table : test::scalar_tables().tables) {
        INFO(table->policy().name);
        compare(*encoder_decoder(), *table, x, DType::int8, count);
        ++targets;
    }
    CHECK(targets == 7);
    CHECK(count.layers >= 7 * 10);
    report("encoder-decoder", count);

    // Quantizers of torch mode are called again behind what keeps its scale.
    Count as_torch;
    for (const kernels::KernelTable* table : test::scalar_tables().tables) {
        INFO("torch mode, " << table->policy().name);
        compare(*encoder_decoder(false), *table, x, DType::int8, as_torch, DType::int8, Compatibility::torch);
    }
    CHECK(as_torch.layers > count.layers);
    report("encoder-decoder in torch mode", as_torch);
}

TEST_CASE("50 random graphs: no code differs between exact simulation and program, on any target") {
    Count count;
    int runs = 0;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        const RandomGraph random(seed);
        const intq::Tensor x = test::random_tensor(Shape(2, 3, 6, 7), static_cast<std::uint32_t>(seed));
        for (const kernels::KernelTable* table : test::scalar_tables().tables) {
            INFO("seed " << seed << " " << table->policy().name);
            compare(*random.model(), *table, x, DType::int8, count);
            ++runs;
        }
        INFO("seed " << seed << " meta int16");
        compare(*random.model(), *test::scalar_tables().tables[5], x, DType::int16, count);
    }
    CHECK(runs == 350);
    report("50 random graphs", count);
}

TEST_CASE("The shipped model: no code differs between exact simulation and program, on every target that takes it") {
    const std::string folder = INTQ_EXAMPLES_DIR "/digits/data/";
    const auto model = traced_clone(*interop::onnx::import_file(folder + "digits_resnet.onnx"));
    add_stubs(*model);
    const intq::Tensor images = intq::load_npy(folder + "test_images.npy").batch(0, 20).contiguous();
    struct Types {
        DType activations, weights;
    };
    int accepted = 0;
    std::set<std::string> refused;
    for (const kernels::KernelTable* table : test::scalar_tables().tables)
        for (const Types types :
             {Types{DType::int8, DType::int8}, {DType::int16, DType::int8}, {DType::int16, DType::int16}}) {
            const std::string name =
                std::string(table->policy().name) + " " + name_of(types.activations) + " by " + name_of(types.weights);
            INFO(name);
            Count count;
            try {
                compare(*model, *table, images, types.activations, count, types.weights);
            } catch (const Error& error) {
                CHECK(std::string(error.what()).find("is not supported by the target") != std::string::npos);
                refused.insert(name);
                continue;
            }
            CHECK(count.layers >= 14);
            report(("shipped model, " + name).c_str(), count);
            ++accepted;
        }
    CHECK(accepted == 15);
    CHECK(refused == std::set<std::string>{"bernoulli2 int16 by int8", "bernoulli2 int16 by int16",
                                           "tflite int16 by int16", "tflite_single_rounding int16 by int16",
                                           "bayes int16 by int16", "litert int16 by int16"});
}

TEST_CASE("A simulation is of the moment when it was made; a run of another number of inputs is refused") {
    const auto conv = test::make_conv(3, 4, 3, 5);
    const auto model =
        stubbed({{"conv", conv}}, [](test::LambdaModel& m, nn::Arguments x) { return nn::relu(m.call("conv", x[0])); });
    const kernels::KernelTable& table = *test::scalar_tables().tables[4];
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 6, 7), 3);
    const auto prepared = prepare_calibration_fx(*model, get_default_qconfig_mapping(), table.policy());
    CHECK(test::message_of<Error>([&] { ExactSimulation early(*prepared, table, 2); }).find("calibrate") !=
          std::string::npos);
    calibrate(*prepared, x, 2);
    ExactSimulation before(*prepared, table, 2);
    const intq::Tensor first = before.run({&x, 1})[0];
    auto& layer = dynamic_cast<nn::Weighted&>(prepared->find("conv"));
    intq::Tensor weight = layer.weight().clone();
    for (float& w : weight.flat<float>()) w = -w;
    layer.set_weight(weight);
    CHECK(same_bytes(before.run({&x, 1})[0], first));
    ExactSimulation after(*prepared, table, 2);
    CHECK(!same_bytes(after.run({&x, 1})[0], first));
    CHECK_THROWS_AS(before.run({}), Error);
    const auto value = before.value_of("conv");
    REQUIRE(value.has_value());
    CHECK(value->qparams().has_value());
}

TEST_CASE("A chunk that stays in float is simulated: its pieces, and the tuple as an output of the model") {
    const auto model = test::make_model({{"conv", test::make_conv(3, 4, 3, 1)}, {"head", test::make_conv(2, 5, 1, 2)}},
                                        [](test::LambdaModel& m, nn::Arguments x) {
                                            const nn::Value pieces = nn::chunk(m.call("conv", x[0]), 2, 1);
                                            return nn::Value(nn::Value::Tuple{m.call("head", pieces[0]), pieces});
                                        });
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 5, 5), 3);
    const kernels::KernelTable* table = nullptr;
    for (const kernels::KernelTable* each : test::scalar_tables().tables)
        if (each->policy().name == std::string("fp32")) table = each;
    REQUIRE(table != nullptr);
    PrepareOptions options;
    options.compatibility = Compatibility::torch;
    const auto prepared = prepare_calibration_fx(*model, get_default_qconfig_mapping(), table->policy(), options);
    calibrate(*prepared, x, 2);
    ExactSimulation simulation(*prepared, *table, 2);
    const auto simulated = simulation.run({&x, 1});
    const auto hybrid = HybridModel(simulation.quantized(), *table, 2).run({&x, 1});
    REQUIRE(simulated.size() == 3);
    REQUIRE(hybrid.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(same_bytes(simulated[i], hybrid[i]));
    // The pieces are those of the convolution's value.
    const intq::Tensor whole = simulation.value_of("activation_post_process_1").value();
    const nn::Value pieces = nn::chunk(whole, 2, 1);
    for (std::size_t i = 0; i < 2; ++i)
        CHECK(same_bytes(simulated[i + 1].contiguous(), pieces.tuple()[i].tensor().contiguous()));
    CHECK_FALSE(simulation.value_of("chunk").has_value());
    CHECK(test::message_of<Error>([&] { simulation.codes_of("chunk"); }) ==
          "the simulation: %chunk stays in float and returns a tuple");
}
