// SPDX-License-Identifier: MIT
//
// A walk over all constraint tables and all operators that quantization knows: what prepare takes is lowered and runs,
// and each row of each table is reached by some model. What is refused, prepare refuses, before any data.
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "intq/nn.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/operators/conv.hpp"
#include "intq/quantization/operators/operator_table.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::message_of;

namespace {

using Body = std::function<nn::Value(test::LambdaModel&, const nn::Value&)>;

/// An operator between a QuantStub and a DeQuantStub.
struct Case {
    std::string name;
    Shape input;
    Body body;
    std::vector<std::pair<std::string, nn::ModulePtr>> children{};
    double least_db = 20.0;
};

nn::ModulePtr model_of(const Case& c) {
    const auto model = test::make_model(
        {{"quant", std::make_shared<nn::QuantStub>()}, {"dequant", std::make_shared<nn::DeQuantStub>()}},
        [body = c.body](test::LambdaModel& m, nn::Arguments x) {
            return m.call("dequant", body(m, m.call("quant", x[0])));
        });
    for (const auto& [name, child] : c.children) model->add_child(name, child);
    model->eval();
    return model;
}

Case function(const std::string& name, std::function<nn::Value(const nn::Value&)> f, Shape input = Shape(2, 4, 4, 4),
              double least_db = 20.0) {
    return {name, input, [f](test::LambdaModel&, const nn::Value& x) { return f(x); }, {}, least_db};
}

Case module(const std::string& name, nn::ModulePtr child, Shape input = Shape(2, 4, 4, 4)) {
    return {name, input, [](test::LambdaModel& m, const nn::Value& x) { return m.call("op", x); }, {{"op", child}}};
}

template <class Layer> std::shared_ptr<Layer> filled(std::shared_ptr<Layer> layer, unsigned seed = 5) {
    layer->set_weight(test::random_tensor(layer->weight().shape(), seed, 0.4f));
    layer->set_bias(test::random_tensor(Shape(layer->out_channels()), seed + 1));
    return layer;
}

std::shared_ptr<nn::Conv2d> conv(const Window2d& window, index_t groups = 1) {
    return filled(std::make_shared<nn::Conv2d>(nn::Conv2dOptions{4, 4, window, groups, true}));
}

const Window2d three{{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};

void add_weighted(std::vector<Case>& cases) {
    cases.push_back(module("conv2d", conv(three)));
    cases.push_back(module("conv2d strided", conv({{3, 2}, {2, 1}, {1, 0, 0, 1}, {1, 2}})));
    cases.push_back(module("conv2d in groups", conv(three, 2)));
    cases.push_back(module("conv2d depthwise", conv(three, 4)));
    cases.push_back(module("conv1d", filled(std::make_shared<nn::Conv1d>(nn::Conv1dOptions{4, 4, 3, 1, 1, 1, 1, true})),
                           Shape(2, 4, 6)));
    cases.push_back(module("conv_transpose2d", filled(std::make_shared<nn::ConvTranspose2d>(nn::ConvTranspose2dOptions{
                                                   4, 4, {{3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}}, {1, 1}, 1, true}))));
    cases.push_back(module("linear", test::make_linear(4, 3, 7), Shape(2, 4)));
    cases.push_back(module("linear on rows", test::make_linear(4, 3, 7), Shape(2, 5, 4)));
    cases.push_back(module("linear on images", test::make_linear(4, 3, 7)));
    cases.push_back(module("batch_norm2d", test::make_batch_norm<nn::BatchNorm2d>(4, 9)));
    cases.push_back(module("layer_norm of rows", std::make_shared<nn::LayerNorm>(Shape(4)), Shape(2, 5, 4)));
    cases.push_back(module("layer_norm of vectors", std::make_shared<nn::LayerNorm>(Shape(5)), Shape(2, 5)));
    cases.push_back(module("layer_norm of images", std::make_shared<nn::LayerNorm>(Shape(4))));
    cases.push_back(module("rms_norm of rows", std::make_shared<nn::RMSNorm>(Shape(4)), Shape(2, 5, 4)));
    cases.push_back(module("group_norm", std::make_shared<nn::GroupNorm>(2, 4)));
    cases.push_back(module("group_norm of vectors", std::make_shared<nn::GroupNorm>(2, 6), Shape(2, 6)));
    cases.push_back(module("instance_norm of lines", std::make_shared<nn::InstanceNorm1d>(nn::InstanceNormOptions{4}),
                           Shape(2, 4, 9)));
    cases.push_back(
        module("group_norm of too many elements", std::make_shared<nn::GroupNorm>(1, 4), Shape(1, 4, 129, 128)));
    Case joined = module("conv2d and its sum with a broadcast", conv(three));
    joined.body = [](test::LambdaModel& m, const nn::Value& x) { return m.call("op", x) + nn::mean(x, {2, 3}, true); };
    cases.push_back(joined);
    Case flattened = module("linear behind a flatten", test::make_linear(64, 3, 7));
    flattened.body = [](test::LambdaModel& m, const nn::Value& x) { return m.call("op", nn::flatten(x, 1)); };
    cases.push_back(flattened);
}

void add_elementwise(std::vector<Case>& cases) {
    const auto plane = [](const nn::Value& x) { return nn::mean(x, {2, 3}, true); };
    cases.push_back(function("add", [](const nn::Value& x) { return x + x; }));
    cases.push_back(function("add with relu", [](const nn::Value& x) { return nn::relu(x + nn::tanh(x)); }));
    cases.push_back(function("sub", [](const nn::Value& x) { return x - nn::tanh(x); }));
    cases.push_back(function("maximum", [](const nn::Value& x) { return nn::maximum(x, nn::tanh(x)); }));
    cases.push_back(function("minimum", [](const nn::Value& x) { return nn::minimum(x, nn::tanh(x)); }));
    cases.push_back(function(
        "maximum of rows", [](const nn::Value& x) { return nn::maximum(x, nn::tanh(x)); }, Shape(2, 5, 4)));
    cases.push_back(function(
        "minimum of vectors", [](const nn::Value& x) { return nn::minimum(x, nn::tanh(x)); }, Shape(2, 5)));
    cases.push_back(function("mul", [](const nn::Value& x) { return x * nn::tanh(x); }));
    cases.push_back(function("add, broadcast", [=](const nn::Value& x) { return x + plane(x); }));
    cases.push_back(function("sub, broadcast", [=](const nn::Value& x) { return x - plane(x); }));
    cases.push_back(function("mul, broadcast", [=](const nn::Value& x) { return x * plane(x); }));
    cases.push_back(function(
        "mul of lower rank", [](const nn::Value& x) { return x * nn::flatten(x, 1, 2); }, Shape(2, 1, 3, 4)));
    cases.push_back(function("add of a number", [](const nn::Value& x) { return x + 1.0; }));
    cases.push_back(function(
        "add of vectors", [](const nn::Value& x) { return x + x; }, Shape(2, 5)));
    cases.push_back(function(
        "add of many channels", [](const nn::Value& x) { return x + x; }, Shape(1, 2049, 1, 2)));
    cases.push_back(function(
        "mul of many channels", [](const nn::Value& x) { return x * x; }, Shape(1, 2049, 1, 2)));
    cases.push_back(function("relu", [](const nn::Value& x) { return nn::relu(x); }));
    cases.push_back(function("relu6", [](const nn::Value& x) { return nn::relu6(x); }));
    cases.push_back(function("clamp", [](const nn::Value& x) { return nn::clamp(x, -0.3, 0.4); }));
    cases.push_back(function(
        "matmul", [](const nn::Value& x) { return nn::matmul(x, x); }, Shape(2, 4, 4)));
    cases.push_back(function(
        "matmul of heads", [](const nn::Value& x) { return nn::matmul(x, nn::transpose(nn::tanh(x), -1, -2)); },
        Shape(2, 3, 5, 4)));
    cases.push_back(function(
        "matmul, broadcast", [](const nn::Value& x) { return nn::matmul(x, nn::mean(x, {1}, true)); },
        Shape(2, 3, 4, 4)));
    cases.push_back(function(
        "matmul over the samples", [](const nn::Value& x) { return nn::matmul(nn::transpose(x, 0, 1), x); },
        Shape(3, 4)));
    cases.push_back(function("requantize", [](const nn::Value& x) { return nn::cat({x, nn::tanh(x)}, 1); }));
    cases.push_back(module("identity", std::make_shared<nn::Identity>()));
    cases.push_back(module("dropout", std::make_shared<nn::Dropout>()));
}

void add_unary(std::vector<Case>& cases) {
    const auto positive = [](const nn::Value& x) { return nn::clamp(x, 0.5, 8.0); };
    for (const auto& [name, f] : std::map<std::string, nn::Value (*)(const nn::Value&)>{
             {"sigmoid", &nn::sigmoid},
             {"tanh", &nn::tanh},
             {"exp", &nn::exp},
             {"erf", &nn::erf},
             {"hardsigmoid", &nn::hardsigmoid},
             {"hardswish", &nn::hardswish},
             {"hardtanh", &nn::hardtanh},
             {"silu", &nn::silu},
             {"gelu", [](const nn::Value& x) { return nn::gelu(x); }},
             {"gelu by tanh", [](const nn::Value& x) { return nn::gelu(x, "tanh"); }},
             {"elu", [](const nn::Value& x) { return nn::elu(x); }},
             {"softplus", [](const nn::Value& x) { return nn::softplus(x); }},
             {"mish", &nn::mish},
             {"selu", &nn::selu},
             {"celu", [](const nn::Value& x) { return nn::celu(x, 0.5); }},
             {"softsign", &nn::softsign},
             {"tanhshrink", &nn::tanhshrink},
             {"abs", &nn::abs},
             {"neg", &nn::neg},
             {"square", &nn::square},
             {"leaky_relu", [](const nn::Value& x) { return nn::leaky_relu(x); }}})
        cases.push_back(function(name, f));
    for (const auto& [name, f] : std::map<std::string, nn::Value (*)(const nn::Value&)>{
             {"log", &nn::log}, {"sqrt", &nn::sqrt}, {"rsqrt", &nn::rsqrt}, {"reciprocal", &nn::reciprocal}})
        cases.push_back(function(
            name, [=, f = f](const nn::Value& x) { return f(positive(x)); }, Shape(2, 4, 4, 4), 10.0));
    for (const int axis : {0, 1, 3, -1})
        cases.push_back(function("softmax along " + std::to_string(axis),
                                 [axis](const nn::Value& x) { return nn::softmax(x, axis); }));
    for (const int axis : {0, 1, -1})
        cases.push_back(function("log_softmax along " + std::to_string(axis),
                                 [axis](const nn::Value& x) { return nn::log_softmax(x, axis); }));
    cases.push_back(module("log_softmax of rows", std::make_shared<nn::LogSoftmax>(-1), Shape(2, 5, 4)));
    cases.push_back(function(
        "softmax of vectors", [](const nn::Value& x) { return nn::softmax(x, 1); }, Shape(2, 5)));
    cases.push_back(function(
        "softmax inside", [](const nn::Value& x) { return x * nn::softmax(x, 1); }, Shape(2, 4, 4, 4), 10.0));
}

void add_pools(std::vector<Case>& cases) {
    const auto average = [](const Window2d& window, PoolDivisor divisor) {
        return std::make_shared<nn::AvgPool2d>(window, divisor);
    };
    const Window2d two{{2, 2}, {2, 2}, {}, {1, 1}}, padded{{3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
        reaching{{3, 2}, {2, 2}, {1, 1, 0, 0}, {1, 1}}, dilated{{2, 2}, {1, 1}, {}, {2, 2}},
        wide{{8, 8}, {1, 1}, {}, {1, 1}}, huge{{257, 1}, {1, 1}, {}, {1, 1}}, too_large{{5, 5}, {1, 1}, {}, {1, 1}};
    for (const PoolDivisor divisor : {PoolDivisor::kernel_cells, PoolDivisor::valid_cells}) {
        const std::string by = divisor == PoolDivisor::kernel_cells ? "" : " by valid cells";
        cases.push_back(module("avg_pool2d" + by, average(two, divisor)));
        cases.push_back(module("avg_pool2d padded" + by, average(padded, divisor)));
        cases.push_back(module("avg_pool2d dilated" + by, average(dilated, divisor)));
        cases.push_back(module("avg_pool2d padded in ceil mode" + by,
                               std::make_shared<nn::AvgPool2d>(reaching, divisor, true), Shape(2, 4, 4, 6)));
    }
    for (const PoolDivisor divisor : {PoolDivisor::kernel_cells, PoolDivisor::valid_cells})
        cases.push_back(module(divisor == PoolDivisor::kernel_cells ? "avg_pool1d padded" : "avg_pool1d by valid cells",
                               std::make_shared<nn::AvgPool1d>(nn::PoolWindow1d{3, 2, 1, 0}, divisor), Shape(2, 4, 7)));
    cases.push_back(function(
        "pad of lines",
        [](const nn::Value& x) {
            return nn::pad(x, {2, 0});
        },
        Shape(2, 4, 7)));
    cases.push_back(module("avg_pool2d 8 x 8", average(wide, PoolDivisor::kernel_cells), Shape(1, 4, 9, 9)));
    cases.push_back(module("avg_pool2d 257 high", average(huge, PoolDivisor::kernel_cells), Shape(1, 2, 257, 1)));
    cases.push_back(module("avg_pool2d beyond the image", average(too_large, PoolDivisor::kernel_cells)));
    for (const auto& [name, window] :
         std::map<std::string, Window2d>{{"", two}, {" padded", padded}, {" dilated", dilated}})
        cases.push_back(module("max_pool2d" + name, std::make_shared<nn::MaxPool2d>(window)));
    cases.push_back(module("max_pool2d 257 high", std::make_shared<nn::MaxPool2d>(huge), Shape(1, 2, 257, 1)));
    for (const Size2d out : {Size2d{1, 1}, {2, 2}, {3, 3}, {1, 4}})
        cases.push_back(module("adaptive_avg_pool2d " + std::to_string(out.height) + " x " + std::to_string(out.width),
                               std::make_shared<nn::AdaptiveAvgPool2d>(out)));
    cases.push_back(function("mean of planes", [](const nn::Value& x) { return nn::mean(x, {2, 3}); }));
    cases.push_back(function("mean of planes, kept", [](const nn::Value& x) { return nn::mean(x, {-1, -2}, true); }));
    cases.push_back(function("mean of channels", [](const nn::Value& x) { return nn::mean(x, {1}); }));
    cases.push_back(function("mean of rows", [](const nn::Value& x) { return nn::mean(x, {-1}); }));
    cases.push_back(function("mean of samples", [](const nn::Value& x) { return nn::mean(x, {0}); }));
    cases.push_back(function(
        "mean of tokens", [](const nn::Value& x) { return nn::mean(x, {1}); }, Shape(2, 5, 4)));
    cases.push_back(function("mean of channels and rows", [](const nn::Value& x) {
        return nn::mean(x, {1, 2}, true);
    }));
    cases.push_back(function("mean of all", [](const nn::Value& x) { return nn::mean(x, {1, 2, 3}); }));
    cases.push_back(function(
        "mean of vectors", [](const nn::Value& x) { return nn::mean(x, {1}); }, Shape(2, 5)));
    cases.push_back(function("sum of planes", [](const nn::Value& x) { return nn::sum(x, {2, 3}); }));
    cases.push_back(function("sum of channels", [](const nn::Value& x) { return nn::sum(x, {1}, true); }));
    cases.push_back(function("sum of samples", [](const nn::Value& x) { return nn::sum(x, {0}); }));
    cases.push_back(function("sum of all", [](const nn::Value& x) { return nn::sum(x, {1, 2, 3}); }));
}

void add_moves(std::vector<Case>& cases) {
    for (const int axis : {0, 1, 2, -1, -3})
        cases.push_back(function("cat along " + std::to_string(axis), [axis](const nn::Value& x) {
            return nn::cat({x, nn::tanh(x)}, axis);
        }));
    cases.push_back(function(
        "cat of vectors",
        [](const nn::Value& x) {
            return nn::cat({x, x}, -1);
        },
        Shape(2, 5)));
    for (const int axis : {0, 1, 2, -1})
        cases.push_back(function("slice along " + std::to_string(axis),
                                 [axis](const nn::Value& x) { return nn::slice(x, axis, 1, {}, 2); }));
    for (const int axis : {0, 1, 2}) {
        cases.push_back(function("chunk along " + std::to_string(axis), [axis](const nn::Value& x) {
            const nn::Value pieces = nn::chunk(x, 2, axis);
            return pieces[1] + pieces[0];
        }));
        cases.push_back(function("split along " + std::to_string(axis),
                                 [axis](const nn::Value& x) { return nn::split(x, axis == 0 ? 1 : 3, axis)[0]; }));
    }
    cases.push_back(function("permute", [](const nn::Value& x) { return nn::permute(x, {0, 3, 1, 2}); }));
    cases.push_back(function("permute of samples", [](const nn::Value& x) { return nn::permute(x, {1, 0, 2, 3}); }));
    cases.push_back(function("transpose", [](const nn::Value& x) { return nn::transpose(x, 1, -1); }));
    cases.push_back(function("transpose of samples", [](const nn::Value& x) { return nn::transpose(x, 0, 1); }));
    cases.push_back(function("reshape", [](const nn::Value& x) { return nn::reshape(x, {-1, 2, 8, 4}); }));
    cases.push_back(function("reshape to vectors", [](const nn::Value& x) { return nn::reshape(x, {-1, 64}); }));
    cases.push_back(function("reshape of samples", [](const nn::Value& x) { return nn::reshape(x, {4, 2, 4, 4}); }));
    cases.push_back(function("flatten", [](const nn::Value& x) { return nn::flatten(x, 1); }));
    cases.push_back(function("flatten of planes", [](const nn::Value& x) { return nn::flatten(x, 2); }));
    cases.push_back(function("flatten of samples", [](const nn::Value& x) { return nn::flatten(x, 0, 1); }));
    cases.push_back(function("pad", [](const nn::Value& x) { return nn::pad(x, {1, 0, 2, 1}, 0.25); }));
    cases.push_back(function("pad of channels", [](const nn::Value& x) { return nn::pad(x, {0, 0, 0, 0, 1, 1}); }));
    for (const std::string mode : {"nearest", "bilinear"}) {
        cases.push_back(function("interpolate " + mode, [mode](const nn::Value& x) {
            return nn::interpolate(x, nn::Value::Tuple{6, 7}, {}, mode);
        }));
        for (const double factor : {0.6, 1.3, 2.0})
            cases.push_back(function("interpolate " + mode + " by " + std::to_string(factor),
                                     [=](const nn::Value& x) { return nn::interpolate(x, {}, factor, mode); }));
    }
}

std::vector<Case> all_cases() {
    std::vector<Case> cases;
    add_weighted(cases);
    add_elementwise(cases);
    add_unary(cases);
    add_pools(cases);
    add_moves(cases);
    return cases;
}

/// What a constraint row and an operator of a program have in common.
using RowKey = std::tuple<OpKind, DType, DType, DType>;

struct Outcome {
    std::string refused;  // by prepare
    std::string late;     // by anything after it
    std::size_t fallbacks = 0;
};

void collect_rows(const QuantizedGraph& quantized, std::set<RowKey>& reached) {
    for (const QuantizedNode& node : quantized.nodes) {
        if (node.step->kind() == OpKind::none) continue;
        if (node.step->kind() == OpKind::avg_pool2d && quantized.output(node).dtype == DType::int32) {
            // The sum of an average is a depthwise convolution.
            reached.insert({OpKind::conv2d, quantized.input(node, 0).dtype, DType::int8, DType::int32});
            continue;
        }
        const auto* weighted = node.as<WeightedStep>();
        const DType weight = weighted == nullptr ? DType::none : weighted->weight.dtype();
        reached.insert({node.step->kind(), quantized.input(node, 0).dtype, weight, quantized.output(node).dtype});
    }
}

using test::sqnr;

/// From the model to the outputs of its program.
Outcome run_as_program(const Case& c, const kernels::KernelTable& table, const QConfigMapping& mapping,
                       std::set<RowKey>& reached, PrepareOptions options = {}) {
    Outcome outcome;
    const nn::ModulePtr model = model_of(c);
    const intq::Tensor x = test::random_tensor(c.input, 3);
    options.example_inputs = {x};
    std::shared_ptr<PreparedModel> prepared;
    try {
        prepared = prepare_calibration_fx(*model, mapping, table.policy(), options);
    } catch (const Error& error) {
        outcome.refused = error.what();
        return outcome;
    }
    outcome.fallbacks = prepared->report().fallbacks.size();
    try {
        calibrate(*prepared, x, 2);
        const QuantizedGraph quantized = convert_fx(*prepared);
        collect_rows(quantized, reached);
        const intq::Tensor expected = (*make_reference(quantized))(x).tensor();
        const intq::Tensor given = lower(quantized, table, 2).run(x);
        if (!(given.shape() == expected.shape())) outcome.late = "another shape";
        if (const double db = sqnr(expected, given); !(db > c.least_db)) outcome.late = std::to_string(db) + " dB";
    } catch (const Error& error) {
        outcome.late = error.what();
    }
    return outcome;
}

QConfigMapping mapping_of(DType dtype, bool is_affine) {
    QConfig qconfig = get_default_calib_qconfig(dtype, DType::int8);
    if (is_affine) qconfig.output->options.observer_options.scheme = arith::QuantScheme::affine;
    return QConfigMapping().set_global(qconfig);
}

bool is_row(const arith::PolicyRecord& target, const RowKey& key) {
    for (const arith::ConstraintRow& row : target.constraints)
        if (RowKey{row.op, row.input, row.weight, row.output} == key) return true;
    return false;
}

/// Layers of all types of input, weight and output, behind each other's requantize.
void reach_typed_rows(const kernels::KernelTable& table, std::set<RowKey>& reached, std::vector<std::string>& late) {
    const auto one = filled(std::make_shared<nn::Conv2d>(nn::Conv2dOptions{1, 2, {}, 1, true}));
    const auto row = test::make_linear(1, 3, 7);
    // An int32 output holds one product of 16 bits by 16, and no bias: its codes are of the scale of the products.
    one->set_bias(intq::Tensor::zeros(Shape(2)));
    row->set_bias(intq::Tensor::zeros(Shape(3)));
    for (const Case& c :
         {module("conv2d", conv(three)), module("linear", test::make_linear(4, 3, 7), Shape(2, 4)),
          module("conv2d of one product", one, Shape(2, 1, 3, 3)), module("linear of one product", row, Shape(2, 1))})
        for (const DType input : {DType::int8, DType::int16})
            for (const DType weight : {DType::int8, DType::int16})
                for (const DType output : {DType::int8, DType::int16, DType::int32}) {
                    Case typed = c;
                    typed.body = [output](test::LambdaModel& m, const nn::Value& x) {
                        const nn::Value y = m.call("op", x);
                        return output == DType::int32 ? y : nn::relu(y);
                    };
                    QConfig qconfig = get_default_calib_qconfig(output == DType::int32 ? DType::int8 : output, weight);
                    if (output == DType::int32) qconfig.output.reset();
                    const auto mapping = get_default_qconfig_mapping()
                                             .set_module_name("quant", get_default_calib_qconfig(input))
                                             .set_module_name("op", qconfig);
                    const Outcome outcome = run_as_program(typed, table, mapping, reached);
                    if (!outcome.late.empty())
                        late.push_back(c.name + ", " + name_of(input) + " by " + name_of(weight) + " -> " +
                                       name_of(output) + ": " + outcome.late);
                }
    // An add and a softmax of the other type, and dropout, which torch mode requantizes.
    for (const DType other : {DType::int8, DType::int16})
        for (const DType first : {DType::int8, DType::int16}) {
            const auto mapping =
                get_default_qconfig_mapping(other).set_module_name("quant", get_default_calib_qconfig(first));
            run_as_program(function("add", [](const nn::Value& x) { return x + x; }), table, mapping, reached);
            run_as_program(function("softmax", [](const nn::Value& x) { return nn::softmax(x, 1); }), table, mapping,
                           reached);
        }
    Case dropped = module("dropout", std::make_shared<nn::Dropout>());
    dropped.body = [](test::LambdaModel& m, const nn::Value& x) { return m.call("op", nn::clamp(x, -0.3, 0.4)); };
    PrepareOptions torch;
    torch.compatibility = Compatibility::torch;
    for (const DType dtype : {DType::int8, DType::int16})
        run_as_program(dropped, table, get_default_qconfig_mapping(dtype), reached, torch);
}

/// Rows of a table, by ids.
void reach_embedding(const kernels::KernelTable& table, std::set<RowKey>& reached, std::vector<std::string>& late) {
    const auto model = test::make_model(
        {{"table", std::make_shared<nn::Embedding>(nn::EmbeddingOptions{7, 3})},
         {"dequant", std::make_shared<nn::DeQuantStub>()}},
        [](test::LambdaModel& m, nn::Arguments x) { return m.call("dequant", m.call("table", x[0])); });
    model->eval();
    const intq::Tensor ids =
        intq::Tensor::from(Shape(2, 2), {std::int64_t{6}, std::int64_t{0}, std::int64_t{3}, std::int64_t{3}});
    for (const DType dtype : {DType::int8, DType::int16}) {
        try {
            const auto prepared = prepare_calibration_fx(*model, mapping_of(dtype, false), table.policy());
            calibrate(*prepared, ids, 2);
            const QuantizedGraph quantized = convert_fx(*prepared);
            collect_rows(quantized, reached);
            const double db = sqnr((*make_reference(quantized))(ids).tensor(), lower(quantized, table, 2).run(ids));
            if (!(db > 100.0)) late.push_back("embedding: " + std::to_string(db) + " dB");
        } catch (const Error& error) {
            if (std::string(error.what()).rfind("prepare: ", 0) != 0) late.push_back(error.what());
        }
    }
}

/// A cache that takes a row, by a position.
void reach_index_copy(const kernels::KernelTable& table, std::set<RowKey>& reached, std::vector<std::string>& late) {
    const auto model = test::make_model(
        {{"quant_x", std::make_shared<nn::QuantStub>()},
         {"quant_row", std::make_shared<nn::QuantStub>()},
         {"dequant", std::make_shared<nn::DeQuantStub>()}},
        [](test::LambdaModel& m, nn::Arguments x) {
            return m.call("dequant", nn::index_copy(m.call("quant_x", x[0]), 2, x[2], m.call("quant_row", x[1])));
        },
        {"x", "row", "at"});
    model->eval();
    const std::vector<intq::Tensor> inputs{test::random_tensor(Shape(2, 3, 4, 5), 1, 0.5f),
                                           test::random_tensor(Shape(2, 3, 1, 5), 2),
                                           intq::Tensor::from(Shape(2, 1), {std::int64_t{3}, std::int64_t{0}})};
    const std::vector<nn::Value> values(inputs.begin(), inputs.end());
    for (const DType dtype : {DType::int8, DType::int16}) {
        try {
            const auto prepared = prepare_calibration_fx(*model, mapping_of(dtype, false), table.policy());
            prepared->dispatch("forward", values);
            const QuantizedGraph quantized = convert_fx(*prepared);
            collect_rows(quantized, reached);
            const double db = sqnr(make_reference(quantized)->dispatch("forward", values).tensor(),
                                   lower(quantized, table, 2).run(inputs).at(0));
            if (!(db > 100.0)) late.push_back("index_copy: " + std::to_string(db) + " dB");
        } catch (const Error& error) {
            if (std::string(error.what()).rfind("prepare: ", 0) != 0) late.push_back(error.what());
        }
    }
}

/// Indices, as they are and moved.
void reach_argmax(const kernels::KernelTable& table, std::set<RowKey>& reached, std::vector<std::string>& late) {
    using Move = nn::Value (*)(const nn::Value&);
    constexpr Move moves[] = {[](const nn::Value& x) { return x; },
                              [](const nn::Value& x) {
                                  return nn::reshape(x, {-1, 20});
                              },
                              [](const nn::Value& x) {
                                  return nn::permute(x, {0, 2, 1});
                              },
                              [](const nn::Value& x) { return nn::slice(x, 1, 1, 3); },
                              [](const nn::Value& x) { return nn::flatten(x, 1); }};
    for (const DType dtype : {DType::int8, DType::int16})
        for (const Move move : moves) {
            const auto model = test::make_model(
                {{"quant", std::make_shared<nn::QuantStub>()}, {"dequant", std::make_shared<nn::DeQuantStub>()}},
                [move](test::LambdaModel& m, nn::Arguments x) {
                    return m.call("dequant", move(nn::argmax(m.call("quant", x[0]), 1)));
                });
            model->eval();
            const intq::Tensor x = test::random_tensor(Shape(2, 3, 4, 5), 1);
            try {
                const auto prepared = prepare_calibration_fx(*model, mapping_of(dtype, false), table.policy());
                calibrate(*prepared, x, 2);
                const QuantizedGraph quantized = convert_fx(*prepared);
                collect_rows(quantized, reached);
                const intq::Tensor
                    expected =
                        make_reference(quantized)->dispatch("forward", std::vector<nn::Value>{x}).tensor().contiguous(),
                    given = lower(quantized, table, 2).run(std::vector<intq::Tensor>{x}).at(0);
                const auto a = expected.flat<std::int64_t>();
                const auto b = given.contiguous().flat<std::int32_t>();
                if (!(expected.shape() == given.shape()) || !std::equal(a.begin(), a.end(), b.begin(), b.end()))
                    late.push_back("argmax: other indices");
            } catch (const Error& error) {
                if (std::string(error.what()).rfind("prepare: ", 0) != 0) late.push_back(error.what());
            }
        }
}

}  // namespace

TEST_CASE("What prepare takes is lowered and runs, and every row of every constraint table is reached") {
    int lowered = 0, refused = 0;
    for (const kernels::KernelTable* table : test::scalar_tables().tables) {
        std::set<RowKey> reached;
        std::vector<std::string> late;
        for (const Case& c : all_cases())
            for (const DType dtype : {DType::int8, DType::int16})
                for (const bool is_affine : {false, true}) {
                    const Outcome outcome = run_as_program(c, *table, mapping_of(dtype, is_affine), reached);
                    INFO(table->policy().name << " " << name_of(dtype) << (is_affine ? " affine" : "") << ", "
                                              << c.name);
                    // An operator that stays in float inside a model runs in a HybridModel alone; prepare lists it.
                    if (outcome.fallbacks == 0) CHECK(outcome.late == "");
                    if (!outcome.refused.empty()) {
                        INFO(outcome.refused);
                        CHECK(outcome.refused.rfind("prepare: ", 0) == 0);
                        CHECK(outcome.refused.find('%') != std::string::npos);
                        ++refused;
                    } else if (outcome.late.empty()) {
                        ++lowered;
                    }
                }
        reach_typed_rows(*table, reached, late);
        reach_embedding(*table, reached, late);
        reach_index_copy(*table, reached, late);
        reach_argmax(*table, reached, late);
        CHECK(late == std::vector<std::string>{});
        for (const arith::ConstraintRow& row : table->policy().constraints) {
            const RowKey key{row.op, row.input, row.weight, row.output};
            INFO(table->policy().name << ": " << name_of(row.op) << " " << name_of(row.input) << " by "
                                      << name_of(row.weight) << " -> " << name_of(row.output));
            CHECK(reached.count(key) == 1);
        }
        for (const RowKey& key : reached) CHECK(is_row(table->policy(), key));
    }
    WARN(lowered << " models lowered, " << refused << " refused by prepare");
    CHECK(lowered > 600);
    CHECK(refused > 200);
}

TEST_CASE("Prepare's refusals name the node and quote the rows of the target") {
    const auto refusal = [](const Case& c, std::size_t target, DType dtype = DType::int8, bool has_example = true) {
        const arith::PolicyRecord& policy = test::scalar_tables().tables[target]->policy();
        PrepareOptions options;
        if (has_example) options.example_inputs = {test::random_tensor(c.input, 3)};
        return message_of<Error>(
            [&] { prepare_calibration_fx(*model_of(c), mapping_of(dtype, false), policy, options); });
    };
    const auto cases = all_cases();
    const auto named = [&](const std::string& name) -> const Case& {
        for (const Case& c : cases)
            if (c.name == name) return c;
        throw Error("no case " + name);
    };
    enum { fp32, tflite, single_rounding, bernoulli2, bayes, meta };
    CHECK(
        refusal(named("mul of lower rank"), bayes) ==
        "prepare: %mul (mul): mul needs operands of one rank, with extents that are equal or 1 after the first, given "
        "(1, 1, 3, 4) and (1, 3, 4); the rows of bayes for mul: int8 -> int8, int16 -> int16");
    CHECK(refusal(named("adaptive_avg_pool2d 3 x 3"), bernoulli2)
              .find("has windows of different size; only even splits have an integer form; the rows of bernoulli2 for "
                    "avg_pool2d: int8 -> int8 (kernel up to 7)") != std::string::npos);
    CHECK(refusal(named("avg_pool2d 8 x 8"), bernoulli2)
              .find("prepare: %op (AvgPool2d): avg_pool2d: the kernel is out of range") == 0);
    // What no shape decides is refused without one.
    const auto blind = [&](const char* name, std::size_t target, DType dtype = DType::int8) {
        return refusal(named(name), target, dtype, false);
    };
    CHECK(
        blind("cat along 0", bayes).find("prepare: %cat (cat): a program keeps axis 0, the samples; a cat along it") ==
        0);
    CHECK(blind("mean of samples", meta)
              .find("prepare: %mean (mean): a program keeps axis 0, the samples; a mean along it") == 0);
    CHECK(blind("sum of samples", meta)
              .find("prepare: %sum_1 (sum): a program keeps axis 0, the samples; a sum along it") == 0);
    CHECK(blind("avg_pool2d padded", tflite) == blind("avg_pool2d", tflite));  // neither is
    CHECK(blind("avg_pool2d padded by valid cells", bayes)
              .find("prepare: %op (AvgPool2d): avg_pool2d: count_include_pad = false with padding is not supported") ==
          0);
    CHECK(blind("log", fp32, DType::int16) == "nothing was thrown");  // its table has blocks
    CHECK(blind("log", bernoulli2, DType::int16).find("the rows of bernoulli2 for ") != std::string::npos);
    CHECK(blind("flatten of samples", bayes).find("prepare: %flatten (flatten): ") == 0);
    CHECK(blind("permute of samples", bayes).find("prepare: %permute (permute): ") == 0);
    const auto refused = [&](const char* name, const std::function<nn::Value(const nn::Value&)>& body) {
        return refusal(function(name, body), bayes, DType::int8, false);
    };
    const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
    CHECK(refused("slice", [](const nn::Value& x) {
              return nn::slice(x, 2, 0, {}, 0);
          }).find("prepare: %slice_1 (slice): slice: the step must not be 0") == 0);
    CHECK(refused("interpolate", [](const nn::Value& x) {
              return nn::interpolate(x, 8, {}, "bicubic");
          }).find("prepare: %interpolate (interpolate): interpolate: the modes are nearest") == 0);
    CHECK(refused("interpolate", [](const nn::Value& x) {
              return nn::interpolate(x, {}, {});
          }).find("either a size or a scale factor is needed") != std::string::npos);
    CHECK(refused("interpolate", [](const nn::Value& x) {
              return nn::interpolate(x, {}, -2.0);
          }).find("the factors must be positive and finite") != std::string::npos);
    CHECK(refused("permute", [](const nn::Value& x) {
              return nn::permute(x, {0, 2, 2, 1});
          }).find("prepare: %permute (permute): permute: axis 2 is there twice") == 0);
    CHECK(refused("permute", [](const nn::Value& x) {
              return nn::permute(x, {-1, 1, 2, 0});
          }).find("prepare: %permute (permute): a program keeps axis 0") == 0);
    CHECK(refused("flatten", [](const nn::Value& x) {
              return nn::flatten(x, 3, 1);
          }).find("flatten: axis 3 comes after axis 1") != std::string::npos);
    CHECK(refused("reshape", [](const nn::Value& x) {
              return nn::reshape(x, {1, -1, -1});
          }).find("reshape: extents must be 0 or more, and one may be -1") != std::string::npos);
    CHECK(refused("chunk", [](const nn::Value& x) {
              return nn::chunk(x, 0, 1)[0];
          }).find("chunk: the number of pieces must be at least 1") != std::string::npos);
    CHECK(refused("split", [](const nn::Value& x) {
              return nn::split(x, nn::Value::Tuple{-1, 5}, 1)[0];
          }).find("a piece of a split cannot have -1 elements") != std::string::npos);
    CHECK(refused("split", [](const nn::Value& x) {
              return nn::split(x, 0, 1)[0];
          }).find("split: the size of a piece must be at least 1") != std::string::npos);
    CHECK(refused("leaky", [&](const nn::Value& x) {
              return nn::leaky_relu(x, nan);
          }).find("leaky_relu: negative_slope must be finite, given nan") != std::string::npos);
    for (const double fill : {nan, infinity})
        CHECK(refused("pad", [&](const nn::Value& x) {
                  return nn::pad(x, {1, 1}, fill);
              }).find("has no integer form, because no code represents it") != std::string::npos);
    CHECK(blind("softmax along 0", bayes).find("prepare: %softmax (softmax): ") == 0);
    CHECK(blind("softmax inside", bayes, DType::int16).find("; the rows of bayes for softmax: int8 -> int8") !=
          std::string::npos);
    const auto affine = [](DType dtype) {
        return message_of<Error>([&] {
            prepare_calibration_fx(*model_of(function("add", [](const nn::Value& x) { return x + x; })),
                                   mapping_of(dtype, true), test::scalar_tables().tables[1]->policy());
        });
    };
    CHECK(affine(DType::int8) == "nothing was thrown");
    CHECK(affine(DType::int16).find("prepare: %quant (QuantStub): int16 codes have no zero point") == 0);
}

TEST_CASE("Without example inputs the first run says what shapes refuse") {
    const Case uneven = module("uneven", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{3, 3}));
    const kernels::KernelTable& table = *test::scalar_tables().tables[4];
    const intq::Tensor x = test::random_tensor(uneven.input, 3);
    const std::string expected = "prepare: %op (AdaptiveAvgPool2d): an adaptive average pool from";
    const auto calibrated = prepare_calibration_fx(*model_of(uneven), mapping_of(DType::int8, false), table.policy());
    CHECK(message_of<Error>([&] { calibrate(*calibrated, x, 1); }).find(expected) != std::string::npos);
    const auto trained = prepare_qat_fx(*model_of(uneven), mapping_of(DType::int8, false), table.policy());
    CHECK(message_of<Error>([&] { (*trained)(x); }).find(expected) != std::string::npos);
    PrepareOptions options;
    options.example_inputs = {x};
    CHECK(message_of<Error>([&] {
              prepare_qat_fx(*model_of(uneven), mapping_of(DType::int8, false), table.policy(), options);
          }).find(expected) == 0);
}

TEST_CASE("An int16 layer that no accumulator holds is refused by prepare; in training its weights are still to come") {
    const auto wide = std::make_shared<nn::Linear>(nn::LinearOptions{2000, 3});
    wide->set_weight(intq::Tensor::full(Shape(3, 2000), 1.0f));
    const Case c = {"wide",
                    Shape(1, 2000),
                    [](test::LambdaModel& m, const nn::Value& x) { return nn::relu(m.call("op", x)); },
                    {{"op", wide}}};
    PrepareOptions options;
    options.example_inputs = {test::random_tensor(c.input, 3)};
    const auto& tables = test::scalar_tables().tables;
    const auto mapping = mapping_of(DType::int16, false);
    CHECK(message_of<Error>([&] {
              prepare_calibration_fx(*model_of(c), mapping, tables[4]->policy(), options);
          }).find("prepare: %op (qat.LinearReLU): linear: the accumulator could reach") == 0);
    CHECK_NOTHROW(prepare_qat_fx(*model_of(c), mapping, tables[4]->policy(), options));
    CHECK_NOTHROW(prepare_calibration_fx(*model_of(c), mapping, tables[5]->policy(), options));
}

TEST_CASE("A softmax that the target has not in int16 stays in float at the end of a model, and is listed") {
    for (const kernels::KernelTable* table : test::scalar_tables().tables) {
        if (std::string(table->policy().name) == "bernoulli2") continue;
        INFO(table->policy().name);
        const Case c{"softmax",
                     Shape(2, 4, 4, 4),
                     [](test::LambdaModel& m, const nn::Value& x) { return nn::softmax(nn::relu(m.call("op", x)), 1); },
                     {{"op", conv(three)}},
                     50.0};
        std::set<RowKey> reached;
        const Outcome outcome = run_as_program(c, *table, mapping_of(DType::int16, false), reached);
        CHECK(outcome.refused == "");
        CHECK(outcome.late == "");
        const arith::OperatorUse of_int16{.op = OpKind::softmax, .input = DType::int16, .output = DType::int16};
        const bool is_there = arith::check_constraints(table->policy().constraints, of_int16).ok();
        CHECK(is_there == (std::string(table->policy().name) != "bayes"));
        CHECK(outcome.fallbacks == (is_there ? 0 : 1));
        CHECK(run_as_program(c, *table, mapping_of(DType::int8, false), reached).fallbacks == 0);
    }
}
