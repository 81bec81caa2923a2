// SPDX-License-Identifier: MIT
//
// Float models whose files leave the number of samples open: each operator that is written, also where it moves
// samples.
#ifndef INTQ_TESTS_INTEROP_EXPORTED_ZOO_HPP
#define INTQ_TESTS_INTEROP_EXPORTED_ZOO_HPP

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "interop/quantized_onnx/quantized_zoo.hpp"
#include "intq/interop/onnx/export/export_options.hpp"

namespace intq::test {

/// Inputs of a model are named x, those with a second one x and z, of one shape; two positions of each sample are p.
struct ExportedModel {
    std::string name;
    nn::ModulePtr model;
    Shape sample;  // of an input, behind the axis of the samples
    bool has_two_inputs = false;
    bool takes_ids = false;      // of 7 rows
    bool has_positions = false;  // of 6 rows

    std::vector<std::string> names() const {
        std::vector<std::string> result{"x"};
        if (has_two_inputs) result.push_back("z");
        if (has_positions) result.push_back("p");
        return result;
    }
    std::vector<intq::Tensor> inputs(index_t samples, unsigned seed) const {
        Shape shape = sample;
        for (int axis = shape.rank++; axis > 0; --axis)
            shape.extents[static_cast<std::size_t>(axis)] = shape.extents[static_cast<std::size_t>(axis - 1)];
        shape.extents[0] = samples;
        if (takes_ids) return {random_ids(shape, seed, 7)};
        std::vector<intq::Tensor> result{random_tensor(shape, seed)};
        if (has_two_inputs) result.push_back(random_tensor(shape, seed + 1));
        if (has_positions) result.push_back(random_ids(Shape(samples, 2), seed + 2, 6));
        return result;
    }
};

/// Options that leave open the first axis of the inputs, and all of the output, which may have it elsewhere.
inline interop::onnx::ExportOptions open_batch(const std::vector<std::string>& inputs, int output_rank) {
    interop::onnx::ExportOptions options;
    for (const std::string& name : inputs) options.dynamic_axes[name] = {{0, "batch"}};
    for (int axis = 0; axis < output_rank; ++axis)
        options.dynamic_axes["output"][axis] = "output_" + std::to_string(axis);
    return options;
}

namespace detail {

class ExportedZoo {
public:
    using Body = LambdaModel::Forward;

    void of(const std::string& name, const Shape& sample, const nn::ModulePtr& module) {
        with(
            name, sample, [](auto& m, nn::Arguments a) { return m.call("act", a[0]); }, module);
    }
    void with(const std::string& name, const Shape& sample, const Body& body, const nn::ModulePtr& module = nullptr) {
        const auto model = make_model({}, body);
        if (module != nullptr) model->add_child("act", module);
        model->eval();
        zoo.push_back({name, model, sample});
    }
    void of_two(const std::string& name, const Shape& sample, const Body& body) {
        zoo.push_back(
            {name, make_model({{"act", std::make_shared<nn::FloatFunctional>()}}, body, {"x", "z"}), sample, true});
    }

    std::vector<ExportedModel> zoo;
};

inline void add_layers(ExportedZoo& zoo) {
    const Shape image(4, 6, 6), line(4, 9), row(8), volume(4, 3, 5, 6);
    zoo.of("conv", image, make_conv(4, 6, 3, 1, 2));
    zoo.of("conv1d", line,
           random_layer<nn::Conv1d>(
               nn::Conv1dOptions{.in_channels = 4, .out_channels = 5, .kernel = 3, .padding = {2, 0}}, 2));
    zoo.of("conv_transpose", image,
           random_layer<nn::ConvTranspose2d>(
               nn::ConvTranspose2dOptions{
                   .in_channels = 4, .out_channels = 6, .window = {.kernel = {2, 2}, .stride = {2, 2}}, .groups = 2},
               3));
    zoo.of("conv_transpose1d", line,
           random_layer<nn::ConvTranspose1d>(
               nn::ConvTranspose1dOptions{
                   .in_channels = 4, .out_channels = 3, .kernel = 3, .stride = 2, .padding = {1, 0}},
               4));
    zoo.of("linear", row, make_linear(8, 6, 5));
    zoo.of("linear_rows", Shape(5, 8), make_linear(8, 6, 6));
    zoo.of("norm1d", line, make_batch_norm<nn::BatchNorm1d>(4, 7));
    zoo.of("norm2d", image, make_batch_norm<nn::BatchNorm2d>(4, 8));
    for (const Activation activation : {Activation::relu, Activation::relu6}) {
        const std::string name = activation == Activation::relu ? "_relu" : "_relu6";
        const auto of = [&]<class Norm>(const Norm& norm) {
            return std::make_shared<nn::FusedBatchNorm<Norm>>(norm, activation);
        };
        zoo.of("norm1d" + name, line, of(*make_batch_norm<nn::BatchNorm1d>(4, 7)));
        zoo.of("norm2d" + name, image, of(*make_batch_norm<nn::BatchNorm2d>(4, 8)));
        zoo.of("norm3d" + name, volume, of(*make_batch_norm<nn::BatchNorm3d>(4, 9)));
    }
    auto layer_norm = std::make_shared<nn::LayerNorm>(Shape(6, 6), 0.25);
    layer_norm->tensor("weight") = random_tensor(Shape(6, 6), 10);
    layer_norm->tensor("bias") = random_tensor(Shape(6, 6), 11);
    zoo.of("layer_norm", image, layer_norm);
    auto rms_norm = std::make_shared<nn::RMSNorm>(Shape(6), 0.25);
    rms_norm->tensor("weight") = random_tensor(Shape(6), 12);
    zoo.of("rms_norm", image, rms_norm);
    auto group_norm = std::make_shared<nn::GroupNorm>(2, 4, 0.25);
    group_norm->tensor("weight") = random_tensor(Shape(4), 13);
    group_norm->tensor("bias") = random_tensor(Shape(4), 14);
    zoo.of("group_norm", image, group_norm);
    zoo.of("group_norm_plain", line, std::make_shared<nn::GroupNorm>(2, 4, 0.25, false));
    zoo.of("instance_norm1d", line, std::make_shared<nn::InstanceNorm1d>(nn::InstanceNormOptions{4, 0.25}));
    zoo.of("instance_norm2d", image, std::make_shared<nn::InstanceNorm2d>(nn::InstanceNormOptions{4, 0.25, true}));
    zoo.of("instance_norm3d", volume, std::make_shared<nn::InstanceNorm3d>(nn::InstanceNormOptions{4, 0.25}));
    for (const ZooModel& one : volumes_in_float()) zoo.zoo.push_back({one.name, one.model, volume});
}

inline void add_elements(ExportedZoo& zoo) {
    const Shape image(4, 6, 6);
    using Function = nn::Value (*)(const nn::Value&);
    for (const auto& [name, function] : std::initializer_list<std::pair<std::string, Function>>{
             {"sigmoid", &nn::sigmoid},
             {"tanh", &nn::tanh},
             {"hardsigmoid", &nn::hardsigmoid},
             {"hardswish", &nn::hardswish},
             {"hardtanh", &nn::hardtanh},
             {"silu", &nn::silu},
             {"exp", &nn::exp},
             {"erf", &nn::erf},
             {"log", &nn::log},
             {"sqrt", &nn::sqrt},
             {"rsqrt", &nn::rsqrt},
             {"reciprocal", &nn::reciprocal},
             {"leaky_relu", [](const nn::Value& x) { return nn::leaky_relu(x); }},
             {"elu", [](const nn::Value& x) { return nn::elu(x); }},
             {"softplus", [](const nn::Value& x) { return nn::softplus(x, 2.0); }},
             {"mish", &nn::mish},
             {"selu", &nn::selu},
             {"celu", [](const nn::Value& x) { return nn::celu(x); }},
             {"softsign", &nn::softsign},
             {"tanhshrink", &nn::tanhshrink},
             {"abs", &nn::abs},
             {"neg", &nn::neg},
             {"square", &nn::square},
             {"gelu", [](const nn::Value& x) { return nn::gelu(x); }}})
        zoo.with(name, image, [f = function](auto&, nn::Arguments a) {
            return f(nn::clamp(a[0], 0.25, 3.0));  // where each has a value
        });
    using M = LambdaModel;
    zoo.of_two("add", image, [](M& m, nn::Arguments a) { return nn::call_add(m, "act", a[0], a[1]); });
    zoo.of_two("add_relu", image,
               [](M& m, nn::Arguments a) { return nn::call_float(m, "act", "add_relu", a[0], a[1]); });
    zoo.of_two("maximum", image, [](M&, nn::Arguments a) { return nn::maximum(a[0], a[1]); });
    zoo.of_two("minimum", image, [](M&, nn::Arguments a) { return nn::minimum(a[0], a[1]); });
    zoo.of_two("sub", image, [](M&, nn::Arguments a) { return a[0] - a[1]; });
    zoo.of_two("mul", image, [](M&, nn::Arguments a) { return a[0] * a[1]; });
    zoo.of_two("matmul", image, [](M&, nn::Arguments a) { return nn::matmul(a[0], a[1]); });
    zoo.with("relu", image, [](M&, nn::Arguments a) { return nn::relu(a[0]); });
    zoo.with("relu6", image, [](M&, nn::Arguments a) { return nn::relu6(a[0]); });
    zoo.with("softmax", image, [](M&, nn::Arguments a) { return nn::softmax(a[0], 1); });
    zoo.with("log_softmax", image, [](M&, nn::Arguments a) { return nn::log_softmax(a[0], 1); });
    zoo.with("argmax", image, [](M&, nn::Arguments a) { return nn::argmax(a[0], 1); });
    zoo.with("argmax_of_width", image, [](M&, nn::Arguments a) { return nn::argmax(a[0], -1, true); });
    zoo.with(
        "dropout", image, [](M& m, nn::Arguments a) { return m.call("act", a[0]); }, std::make_shared<nn::Dropout>());
    zoo.of("identity", image, std::make_shared<nn::Identity>());
    zoo.of("embedding", Shape(index_t{5}), std::make_shared<nn::Embedding>(nn::EmbeddingOptions{7, 4}));
    zoo.zoo.back().takes_ids = true;
    zoo.zoo.push_back(
        {"index_copy",
         make_model({}, [](M&, nn::Arguments a) { return nn::index_copy(a[0], 2, a[2], nn::slice(a[1], 2, 0, 2)); },
                    {"x", "z", "p"}),
         image, true});
    zoo.zoo.back().has_positions = true;
    zoo.zoo.push_back(
        {"causal_fill",
         make_model({}, [](M&, nn::Arguments a) { return nn::causal_fill(nn::slice(a[0], 2, 0, 2), a[1], -100.0); },
                    {"x", "p"}),
         image});
    zoo.zoo.back().has_positions = true;
    zoo.zoo.push_back({"stubs", stubbed({}, [](M&, nn::Arguments a) { return nn::relu(a[0]); }), image});
}

inline void add_windows(ExportedZoo& zoo) {
    using M = LambdaModel;
    const Shape image(4, 6, 6);
    const Window2d window{.kernel = {3, 2}, .stride = {2, 2}, .padding = {1, 0, 1, 1}};
    zoo.of("max_pool", image, std::make_shared<nn::MaxPool2d>(window));
    zoo.of("average_pool", image, std::make_shared<nn::AvgPool2d>(window));
    zoo.of("average_of_quarters", image, std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{2, 2}));
    zoo.of("global_average", image, std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1}));
    zoo.with("mean", image, [](M&, nn::Arguments a) { return nn::mean(a[0], {1, 2}); });
    zoo.with("sum", image, [](M&, nn::Arguments a) { return nn::sum(a[0], {3}, true); });
    for (const char* mode : {"nearest", "bilinear"}) {
        const std::string by = mode;
        zoo.with("resize_to_size_" + by, image, [by](M&, nn::Arguments a) {
            return nn::interpolate(a[0], nn::Value::Tuple{9, 16}, {}, by);
        });
        zoo.with("resize_to_double_" + by, image, [by](M&, nn::Arguments a) {
            return nn::interpolate(a[0], nn::Value::Tuple{12, 12}, {}, by);
        });
        zoo.with("resize_by_factor_" + by, image,
                 [by](M&, nn::Arguments a) { return nn::interpolate(a[0], {}, 2.5, by); });
    }
}

inline void add_moves(ExportedZoo& zoo) {
    using M = LambdaModel;
    const Shape image(4, 6, 6);
    zoo.of_two("cat", image, [](M& m, nn::Arguments a) { return nn::call_cat(m, "act", {a[0], a[1]}, 1); });
    zoo.with("flatten", image, [](M&, nn::Arguments a) { return nn::flatten(a[0], 1); });
    zoo.with("flatten_planes", image, [](M&, nn::Arguments a) { return nn::flatten(a[0], 2); });
    zoo.with("flatten_samples", image, [](M&, nn::Arguments a) { return nn::flatten(a[0], 0, 1); });
    zoo.with("flatten_all", image, [](M&, nn::Arguments a) { return nn::flatten(a[0]); });
    zoo.with("reshape", image, [](M&, nn::Arguments a) { return nn::reshape(a[0], {nn::size(a[0], 0), 2, -1}); });
    zoo.with("reshape_rest", image, [](M&, nn::Arguments a) { return nn::reshape(a[0], {-1, 12, 12}); });
    zoo.with("reshape_to_rows", image, [](M&, nn::Arguments a) { return nn::reshape(a[0], {-1, 6}); });
    zoo.with("reshape_samples", image, [](M&, nn::Arguments a) {
        return nn::reshape(a[0], {nn::size(a[0], 0) * nn::size(a[0], 1), nn::Value(-1)});
    });
    zoo.with("reshape_before_samples", image, [](M&, nn::Arguments a) { return nn::reshape(a[0], {1, -1, 36}); });
    zoo.with("reshape_of_other", image, [](M&, nn::Arguments a) {
        return nn::reshape(nn::permute(a[0], {1, 0, 2, 3}), {nn::Value(4), nn::size(a[0], 0), nn::Value(36)});
    });
    zoo.with("permute", image, [](M&, nn::Arguments a) { return nn::permute(a[0], {2, 0, 3, 1}); });
    zoo.with("transpose", image, [](M&, nn::Arguments a) { return nn::transpose(a[0], 0, 2); });
    zoo.of("masked_fill", image, std::make_shared<nn::MaskedFill>(random_tensor(Shape(4, 1, 6), 30), 0.25));
    zoo.with("expand", image, [](M&, nn::Arguments a) {
        return nn::expand(nn::slice(a[0], 2, 1, 2), {nn::size(a[0], 0), nn::Value(-1), nn::Value(3), nn::Value(-1)});
    });
    zoo.with("expand_axes", image, [](M&, nn::Arguments a) { return nn::expand(a[0], {2, -1, -1, 6, 6}); });
    zoo.with("slice", image, [](M&, nn::Arguments a) { return nn::slice(a[0], 2, 1, {}, 2); });
    zoo.with("split", image, [](M&, nn::Arguments a) { return nn::split(a[0], nn::Value::Tuple{1, 3}, 1)[1]; });
    zoo.with("chunk", image, [](M&, nn::Arguments a) { return nn::chunk(a[0], 3, 3)[1]; });
    zoo.with("pad", image, [](M&, nn::Arguments a) { return nn::pad(a[0], {1, 2, 0, 1}, 0.5); });
    zoo.with("pad_reflect", image, [](M&, nn::Arguments a) { return nn::pad(a[0], {1, 2, 0, 3}, "reflect"); });
    zoo.with("pad_edge", image, [](M&, nn::Arguments a) { return nn::pad(a[0], {0, 7, 2, 1}, "replicate"); });
}

}  // namespace detail

inline std::vector<ExportedModel> exported_zoo() {
    detail::ExportedZoo zoo;
    detail::add_layers(zoo);
    detail::add_elements(zoo);
    detail::add_windows(zoo);
    detail::add_moves(zoo);
    return std::move(zoo.zoo);
}

}  // namespace intq::test

#endif  // INTQ_TESTS_INTEROP_EXPORTED_ZOO_HPP
