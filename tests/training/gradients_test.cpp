// SPDX-License-Identifier: MIT
//
// Every gradient of a float operator against finite differences of an oracle in double. Long, because each operator has
// its function and all of them stand in one table: an operator of the graph without one is found.
#include "intq/training/gradients.hpp"

#include <iostream>

#include "intq/graph/operators.hpp"
#include "intq/nn/layers/elementwise.hpp"
#include "intq/nn/layers/move.hpp"
#include "intq/nn/layers/quantize.hpp"
#include "intq/nn/model/tape.hpp"
#include "reference/float_layers.hpp"
#include "support/small_models.hpp"
#include "training/gradient_check.hpp"

using namespace intq;
using intq_reference::Image;
using intq_reference::Window;
using test::check_gradient;
using test::GradientProblem;
using test::Numbers;

namespace {

Image image_of(const Shape& shape, const Numbers& numbers) {
    Image image(shape[0], shape.rank > 1 ? shape[1] : 1, shape.rank > 2 ? shape[2] : 1, shape.rank > 3 ? shape[3] : 1);
    image.values = numbers;
    return image;
}

Window window_of(const Window2d& w) {
    return {w.kernel.height, w.kernel.width,   w.stride.height, w.stride.width,    w.padding.top,
            w.padding.left,  w.padding.bottom, w.padding.right, w.dilation.height, w.dilation.width};
}

struct ConvCase {
    index_t samples, inputs, outputs, groups;
    Size2d size;
    Window2d window;
};

void check_conv(const ConvCase& c, const nn::Fusion* fusion = nullptr) {
    INFO("groups " << c.groups << ", stride " << c.window.stride.height << ' ' << c.window.stride.width << ", dilation "
                   << c.window.dilation.height << ' ' << c.window.dilation.width);
    const nn::Conv2d plain({c.inputs, c.outputs, c.window, c.groups, true});
    const bool add = fusion != nullptr && fusion->add;
    const Activation activation = fusion != nullptr ? fusion->activation : Activation::none;
    GradientProblem problem{.op = "conv2d", .input_shapes = {Shape(c.samples, c.inputs, c.size.height, c.size.width)}};
    problem.module = fusion != nullptr ? nn::ModulePtr(std::make_shared<nn::FusedConv2d>(plain, *fusion))
                                       : std::make_shared<nn::Conv2d>(plain);
    if (fusion != nullptr) problem.op = "ConvAddReLU2d";  // found by its class
    problem.parameters = {"weight", "bias"};
    const Size2d out = output_size(c.window, c.size);
    problem.output_shape = Shape(c.samples, c.outputs, out.height, out.width);
    if (add) problem.input_shapes.push_back(problem.output_shape);
    const Shape x = problem.input_shapes[0], w = plain.weight().shape();
    problem.oracle = [=](const std::vector<Numbers>& leaves) {
        const std::size_t first = add ? 2 : 1;
        Numbers y = float_conv2d(image_of(x, leaves[0]), image_of(w, leaves[first]), leaves[first + 1],
                                 window_of(c.window), c.groups)
                        .values;
        for (std::size_t i = 0; i < y.size(); ++i) {
            if (add) y[i] += leaves[1][i];
            if (activation != Activation::none) y[i] = std::max(y[i], 0.0);
            if (activation == Activation::relu6) y[i] = std::min(y[i], 6.0);
        }
        return y;
    };
    check_gradient(problem);
}

/// An operator without parameters on one (N, C, H, W) input.
void check_image_operator(const char* op, const nn::ModulePtr& module, const Shape& x, const Shape& y,
                          const std::function<Image(const Image&)>& oracle) {
    GradientProblem problem{.op = op, .input_shapes = {x}, .module = module};
    problem.output_shape = y;
    problem.oracle = [=](const std::vector<Numbers>& leaves) { return oracle(image_of(x, leaves[0])).values; };
    check_gradient(problem);
}

void check_conv2d() {
    check_conv({2, 3, 4, 1, {5, 6}, {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}});
    check_conv({2, 2, 3, 1, {7, 8}, {{3, 2}, {2, 3}, {1, 0, 2, 1}, {1, 1}}});  // rows that no window reaches
    check_conv({1, 2, 2, 1, {7, 9}, {{2, 3}, {1, 2}, {0, 2, 1, 2}, {3, 2}}});
    check_conv({3, 4, 6, 2, {5, 5}, {{3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}}});
    check_conv({2, 3, 3, 3, {6, 5}, {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}});  // depthwise
    check_conv({1, 3, 6, 3, {6, 5}, {{3, 3}, {2, 1}, {1, 1, 1, 1}, {1, 1}}});
    check_conv({1, 4, 4, 4, {4, 4}, {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}});
    check_conv({2, 3, 5, 1, {4, 4}, {{1, 1}, {1, 1}, {}, {1, 1}}});
    check_conv({1, 1, 1, 1, {4, 4}, {{1, 1}, {1, 1}, {2, 1, 0, 3}, {1, 1}}});  // windows in the padding alone
    check_conv({2, 3, 2, 1, {3, 3}, {{3, 3}, {1, 1}, {}, {1, 1}}});            // one pixel
}

void check_fused_conv2d() {
    const ConvCase conv{2, 3, 4, 1, {5, 6}, {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}};
    for (const bool add : {false, true})
        for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6}) {
            const nn::Fusion fusion{add, activation};
            check_conv(conv, &fusion);
        }
}

void check_linear() {
    for (const Shape& x : {Shape(4, 3), Shape(2, 3, 3), Shape(3)}) {
        const auto linear = std::make_shared<nn::Linear>(nn::LinearOptions{3, 5});
        GradientProblem problem{
            .op = "linear", .input_shapes = {x}, .parameters = {"weight", "bias"}, .module = linear};
        problem.output_shape = x;
        problem.output_shape[x.rank - 1] = 5;
        problem.oracle = [](const std::vector<Numbers>& leaves) {
            Numbers y;
            for (std::size_t row = 0; row < leaves[0].size() / 3; ++row)
                for (std::size_t o = 0; o < 5; ++o) {
                    double sum = leaves[2][o];
                    for (std::size_t i = 0; i < 3; ++i) sum += leaves[1][o * 3 + i] * leaves[0][row * 3 + i];
                    y.push_back(sum);
                }
            return y;
        };
        check_gradient(problem);
    }
}

void check_batch_norm() {
    for (const Shape& x : {Shape(3, 4, 2, 5), Shape(5, 4, 2), Shape(6, 4), Shape(2, 4, 3, 1, 2)})
        for (const bool training : {true, false}) {
            nn::ModulePtr norm = std::make_shared<nn::BatchNorm2d>(nn::BatchNormOptions{4, 1e-3});
            if (x.rank < 4) norm = std::make_shared<nn::BatchNorm1d>(nn::BatchNormOptions{4, 1e-3});
            if (x.rank == 5) norm = std::make_shared<nn::BatchNorm3d>(nn::BatchNormOptions{4, 1e-3});
            norm->tensor("running_mean") = intq::Tensor::from(Shape(4), {0.5f, -1.0f, 2.0f, 0.0f});
            norm->tensor("running_var") = intq::Tensor::from(Shape(4), {0.25f, 1.0f, 4.0f, 9.0f});
            norm->train(training);
            GradientProblem problem{.op = norm->type_name() == "BatchNorm1d"   ? "batch_norm1d"
                                          : norm->type_name() == "BatchNorm2d" ? "batch_norm2d"
                                                                               : "batch_norm3d",
                                    .input_shapes = {x},
                                    .parameters = {"weight", "bias"},
                                    .module = norm};
            problem.output_shape = x;
            problem.oracle = [=](const std::vector<Numbers>& leaves) {
                const Image image = image_of(x.rank < 5 ? x : Shape(x[0], x[1], x[2], x[3] * x[4]), leaves[0]);
                if (training) return float_batch_norm(image, leaves[1], leaves[2], 1e-3).values;
                const Numbers mean{0.5, -1.0, 2.0, 0.0}, variance{0.25, 1.0, 4.0, 9.0};
                return each_output(image,
                                   [&](long n, long c, long i, long j) {
                                       const auto k = static_cast<std::size_t>(c);
                                       return (image.at(n, c, i, j) - mean[k]) / std::sqrt(variance[k] + 1e-3) *
                                                  leaves[1][k] +
                                              leaves[2][k];
                                   })
                    .values;
            };
            check_gradient(problem);
        }
}

void check_fused_batch_norm() {
    const Shape x(3, 4, 2, 5);
    for (const Activation activation : {Activation::relu, Activation::relu6})
        for (const bool training : {true, false}) {
            nn::BatchNorm2d norm(nn::BatchNormOptions{4, 1e-3});
            norm.tensor("running_mean") = intq::Tensor::from(Shape(4), {0.5f, -1.0f, 0.25f, 0.0f});
            norm.tensor("running_var") = intq::Tensor::from(Shape(4), {0.01f, 1.0f, 0.04f, 9.0f});
            const nn::ModulePtr fused = std::make_shared<nn::FusedBatchNorm2d>(norm, activation);
            fused->train(training);
            GradientProblem problem{.op = activation == Activation::relu ? "BNReLU2d" : "BNReLU62d",
                                    .input_shapes = {x},
                                    .parameters = {"weight", "bias"},
                                    .module = fused};
            problem.output_shape = x;
            problem.oracle = [=](const std::vector<Numbers>& leaves) {
                const Image image = image_of(x, leaves[0]);
                const Numbers mean{0.5, -1.0, 0.25, 0.0};
                const Numbers variance{static_cast<double>(0.01f), 1.0, static_cast<double>(0.04f), 9.0};
                const Image normal = training ? float_batch_norm(image, leaves[1], leaves[2], 1e-3)
                                              : each_output(image, [&](long n, long c, long i, long j) {
                                                    const auto k = static_cast<std::size_t>(c);
                                                    return (image.at(n, c, i, j) - mean[k]) /
                                                               std::sqrt(variance[k] + 1e-3) * leaves[1][k] +
                                                           leaves[2][k];
                                                });
                Numbers y = normal.values;
                for (double& value : y)
                    value = std::min(std::max(value, 0.0), activation == Activation::relu6 ? 6.0 : 1e300);
                return y;
            };
            check_gradient(problem);
        }
}

void check_softmax() {
    const Shape shape(2, 4, 3, 2);
    GradientProblem problem{
        .op = "softmax", .input_shapes = {shape}, .more_inputs = {nn::Value(1)}, .function = &nn::softmax_function};
    problem.output_shape = shape;
    problem.oracle = [=](const std::vector<Numbers>& leaves) {
        return float_softmax(image_of(shape, leaves[0])).values;
    };
    check_gradient(problem);
    problem.more_inputs = {nn::Value(-3)};
    check_gradient(problem);
    problem.more_inputs.clear();
    problem.function = nullptr;
    problem.module = std::make_shared<nn::Softmax>(1);
    check_gradient(problem);
    problem.module = std::make_shared<nn::Softmax>(1, true);  // all axes from the channels on, as one
    problem.oracle = [](const std::vector<Numbers>& leaves) {
        return float_softmax(image_of(Shape(2, 24), leaves[0])).values;
    };
    check_gradient(problem);
}

void check_log_softmax() {
    const Shape shape(2, 4, 3, 2);
    GradientProblem problem{.op = "log_softmax",
                            .input_shapes = {shape},
                            .more_inputs = {nn::Value(1)},
                            .function = &nn::log_softmax_function};
    problem.output_shape = shape;
    problem.oracle = [=](const std::vector<Numbers>& leaves) {
        Numbers y = float_softmax(image_of(shape, leaves[0])).values;
        for (double& value : y) value = std::log(value);
        return y;
    };
    check_gradient(problem);
    problem.more_inputs = {nn::Value(-3)};
    check_gradient(problem);
    problem.more_inputs.clear();
    problem.function = nullptr;
    problem.module = std::make_shared<nn::LogSoftmax>(1);
    check_gradient(problem);
}

void check_line_pooling() {
    const Shape x(2, 3, 7);
    const nn::PoolWindow1d window{3, 2, 1, 0};
    const auto check = [&](const char* op, const nn::ModulePtr& pool, index_t out, const auto& of_image) {
        GradientProblem problem{.op = op, .input_shapes = {x}, .module = pool};
        problem.output_shape = Shape(2, 3, out);
        problem.oracle = [=](const std::vector<Numbers>& leaves) {
            return of_image(image_of(Shape(2, 3, 1, 7), leaves[0])).values;
        };
        check_gradient(problem);
    };
    check("max_pool2d", std::make_shared<nn::MaxPool1d>(window), 3,
          [=](const Image& image) { return float_max_pool2d(image, window_of(window.on_rows())); });
    check("avg_pool2d", std::make_shared<nn::AvgPool1d>(window), 3,
          [=](const Image& image) { return float_avg_pool2d(image, window_of(window.on_rows()), true); });
    check("adaptive_avg_pool2d", std::make_shared<nn::AdaptiveAvgPool1d>(2), 2,
          [=](const Image& image) { return float_adaptive_avg_pool2d(image, 1, 2); });
}

void check_pooling() {
    const Shape x(2, 3, 6, 7);
    const Window2d padded{{3, 2}, {2, 1}, {1, 0, 1, 1}, {1, 1}}, dilated{{2, 3}, {1, 2}, {1, 1, 0, 1}, {2, 1}};
    const auto shape_of = [&](const Window2d& window) {
        const Size2d out = output_size(window, {6, 7});
        return Shape(2, 3, out.height, out.width);
    };
    for (const Window2d& window : {padded, dilated})
        check_image_operator("max_pool2d", std::make_shared<nn::MaxPool2d>(window), x, shape_of(window),
                             [&](const Image& image) { return float_max_pool2d(image, window_of(window)); });
    for (const PoolDivisor divisor : {PoolDivisor::kernel_cells, PoolDivisor::valid_cells})
        for (const Window2d& window : {padded, dilated})
            check_image_operator("avg_pool2d", std::make_shared<nn::AvgPool2d>(window, divisor), x, shape_of(window),
                                 [&](const Image& image) {
                                     return float_avg_pool2d(image, window_of(window),
                                                             divisor == PoolDivisor::kernel_cells);
                                 });
    // In ceil mode: the window reaches one row further, where nothing is.
    const Window2d short_window{{3, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}}, reaching{{3, 2}, {2, 2}, {0, 0, 1, 1}, {1, 1}};
    check_image_operator("max_pool2d", std::make_shared<nn::MaxPool2d>(short_window, true), x, shape_of(reaching),
                         [&](const Image& image) { return float_max_pool2d(image, window_of(reaching)); });
    check_image_operator("avg_pool2d", std::make_shared<nn::AvgPool2d>(short_window, PoolDivisor::kernel_cells, true),
                         x, shape_of(reaching),
                         [&](const Image& image) { return float_avg_pool2d(image, window_of(reaching), false); });
    check_line_pooling();
    for (const Size2d out : {Size2d{1, 1}, Size2d{4, 3}, Size2d{6, 9}})
        check_image_operator(
            "adaptive_avg_pool2d", std::make_shared<nn::AdaptiveAvgPool2d>(out), x, Shape(2, 3, out.height, out.width),
            [&](const Image& image) { return float_adaptive_avg_pool2d(image, out.height, out.width); });
}

void check_relu_and_moves() {
    const Shape x(3, 4, 2, 5);
    check_image_operator("relu", std::make_shared<nn::ReLU>(), x, x, [](Image image) {
        for (double& value : image.values) value = std::max(value, 0.0);
        return image;
    });
    check_image_operator("relu6", std::make_shared<nn::ReLU6>(), x, x, [](Image image) {
        for (double& value : image.values) value = std::min(std::max(value, 0.0), 6.0);
        return image;
    });
    const auto same = [](const Image& image) { return image; };
    check_image_operator("identity", std::make_shared<nn::Identity>(), x, x, same);
    check_image_operator("quant_stub", std::make_shared<nn::QuantStub>(), x, x, same);
    check_image_operator("dequant_stub", std::make_shared<nn::DeQuantStub>(), x, x, same);
    check_image_operator("flatten", std::make_shared<nn::Flatten>(), x, Shape(3, 40), same);
}

void check_add() {
    const Shape shape(2, 3, 4);
    for (const Shape& second : {shape, Shape(3, 4), Shape(2, 1, 4), Shape(1), Shape(3, 1)}) {
        INFO(intq::to_string(second));
        GradientProblem problem{.op = "add", .input_shapes = {shape, second}, .function = &nn::add_function};
        problem.output_shape = shape;
        problem.oracle = [=](const std::vector<Numbers>& leaves) {
            Numbers y;
            for (index_t i = 0; i < shape.size(); ++i) {
                const index_t at[] = {i / 12, i / 4 % 3, i % 4};
                index_t from = 0;
                for (int axis = 0; axis < second.rank; ++axis) {
                    const index_t extent = second[axis];
                    from = from * extent + at[axis + 3 - second.rank] % extent;
                }
                y.push_back(leaves[0][static_cast<std::size_t>(i)] + leaves[1][static_cast<std::size_t>(from)]);
            }
            return y;
        };
        check_gradient(problem);
    }
    GradientProblem constant{
        .op = "add", .input_shapes = {shape}, .more_inputs = {nn::Value(2.5)}, .function = &nn::add_function};
    constant.output_shape = shape;
    constant.oracle = [](const std::vector<Numbers>& leaves) {
        Numbers y = leaves[0];
        for (double& value : y) value += 2.5;
        return y;
    };
    check_gradient(constant);
}

void check_cat() {
    GradientProblem problem{.op = "cat", .input_shapes = {Shape(2, 3, 2), Shape(2, 1, 2), Shape(2, 2, 2)}};
    problem.inputs_in_tuple = true;
    problem.function = &nn::cat_function;
    problem.more_inputs = {nn::Value(-2)};
    problem.output_shape = Shape(2, 6, 2);
    problem.oracle = [](const std::vector<Numbers>& leaves) {
        Numbers y;
        for (std::size_t n = 0; n < 2; ++n)
            for (const Numbers& part : leaves) {
                const auto half = static_cast<std::ptrdiff_t>(part.size() / 2);
                y.insert(y.end(), part.begin() + static_cast<std::ptrdiff_t>(n) * half,
                         part.begin() + static_cast<std::ptrdiff_t>(n + 1) * half);
            }
        return y;
    };
    check_gradient(problem);
}

void check_dropout() {
    nn::Dropout dropout(0.4, 5);
    const intq::Tensor x = intq::Tensor::full(Shape(200), 1.0f);
    nn::Tape tape;
    const nn::TapeScope recording(&tape);
    const nn::Value first = dropout(x);
    const nn::KeptValues kept = tape.take(dropout);
    const nn::Value second = dropout(x);
    CHECK(test::numbers_of(first.tensor()) != test::numbers_of(second.tensor()));
    const std::vector<nn::Value> inputs{x};
    const auto gradient_of = [&](const nn::Value& output, const nn::KeptValues& of_call) {
        const training::GradientRow* row = training::find_gradient(training::gradient_rows<float>, "dropout", &dropout);
        const training::FinishedCall call{&dropout, nn::Arguments(inputs), &output, of_call};
        training::GradientContext context(call, std::span(&x, 1), {});
        row->backward(context);
        return test::numbers_of(context.input_gradients()[0][0]);
    };
    CHECK(gradient_of(first, kept) == test::numbers_of(first.tensor()));
    CHECK(gradient_of(second, tape.take(dropout)) == test::numbers_of(second.tensor()));
    dropout.eval();
    const nn::Value passed = dropout(x);
    CHECK(gradient_of(passed, tape.take(dropout)) == test::numbers_of(x));
    test::checked_operators().insert("dropout");
}

// ---------------------------------------------------------------------------------------------------------------------

/// The places of a tensor in row order, each as its indices.
std::vector<std::vector<index_t>> places_of(const Shape& shape) {
    std::vector<std::vector<index_t>> result;
    for (index_t i = 0; i < shape.size(); ++i) {
        std::vector<index_t> at(static_cast<std::size_t>(shape.rank));
        index_t rest = i;
        for (int axis = shape.rank; axis-- > 0; rest /= shape[axis])
            at[static_cast<std::size_t>(axis)] = rest % shape[axis];
        result.push_back(at);
    }
    return result;
}

/// The number at a place; an axis of extent 1 is repeated, missing axes are left out.
double number_at(const Numbers& numbers, const Shape& shape, const std::vector<index_t>& place) {
    index_t at = 0;
    for (int axis = 0; axis < shape.rank; ++axis) {
        const index_t index = place[place.size() - static_cast<std::size_t>(shape.rank - axis)];
        at = at * shape[axis] + (shape[axis] == 1 ? 0 : index);
    }
    return numbers.at(static_cast<std::size_t>(at));
}

/// y at each place of a shape, from the numbers of the inputs at it.
template <class F> Numbers each_place(const Shape& shape, const F& value) {
    Numbers y;
    for (const auto& place : places_of(shape)) y.push_back(value(place));
    return y;
}

/// An operator that takes elements of its first input: `source(place)` is the place of each.
void check_moves(GradientProblem problem, const std::function<std::vector<index_t>(std::vector<index_t>)>& source) {
    const Shape x = problem.input_shapes[0], y = problem.output_shape;
    problem.oracle = [=](const std::vector<Numbers>& leaves) {
        return each_place(
            y, [&](const auto& place) { return x.rank == 0 ? 0.0 : number_at(leaves[0], x, source(place)); });
    };
    check_gradient(problem);
}

nn::Value integers(std::vector<index_t> values) { return nn::Value::Tuple(values.begin(), values.end()); }

void check_conv1d() {
    for (const nn::Conv1dOptions& o :
         {nn::Conv1dOptions{3, 4, 3, 1, 1, 1, 1, true}, nn::Conv1dOptions{4, 6, 3, 2, 2, 2, 2, true}}) {
        const auto conv = std::make_shared<nn::Conv1d>(o);
        const Shape x(2, o.in_channels, 9), w = conv->weight().shape();
        GradientProblem problem{.op = "conv1d", .input_shapes = {x}, .parameters = {"weight", "bias"}, .module = conv};
        problem.output_shape =
            Shape(2, o.out_channels,
                  (9 + o.padding.before + o.padding.behind - o.dilation * (o.kernel - 1) - 1) / o.stride + 1);
        problem.oracle = [=](const std::vector<Numbers>& leaves) {
            const Window window{1, o.kernel, 1, o.stride, 0, o.padding.before, 0, o.padding.behind, 1, o.dilation};
            return float_conv2d(image_of(Shape(x[0], x[1], 1, x[2]), leaves[0]),
                                image_of(Shape(w[0], w[1], 1, w[2]), leaves[1]), leaves[2], window, o.groups)
                .values;
        };
        check_gradient(problem);
    }
}

/// Each cell of the input gives w · x to the cells that its window covers.
Image transposed_conv(const Image& x, const Image& w, const Numbers& bias, const nn::ConvTranspose2dOptions& o,
                      Size2d out) {
    Image y(x.n, o.out_channels, out.height, out.width);
    const Window2d& window = o.window;
    const long in = x.c / o.groups;
    for (long n = 0; n < y.n; ++n) {
        for (long c = 0; c < y.c; ++c)
            for (long p = 0; p < y.h; ++p)
                for (long q = 0; q < y.w; ++q) y.at(n, c, p, q) = bias[static_cast<std::size_t>(c)];
        for (long c = 0; c < x.c; ++c)
            for (long d = 0; d < w.c; ++d)
                for (long i = 0; i < x.h; ++i)
                    for (long j = 0; j < x.w; ++j)
                        for (long u = 0; u < w.h; ++u)
                            for (long v = 0; v < w.w; ++v) {
                                const long p =
                                    i * window.stride.height + u * window.dilation.height - window.padding.top;
                                const long q =
                                    j * window.stride.width + v * window.dilation.width - window.padding.left;
                                if (y.contains(p, q))
                                    y.at(n, c / in * w.c + d, p, q) += w.at(c, d, u, v) * x.at(n, c, i, j);
                            }
    }
    return y;
}

void check_conv_transpose2d() {
    const nn::ConvTranspose2dOptions all[] = {
        {3, 4, {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}, {0, 0}, 1, true},
        {3, 2, {{3, 2}, {2, 3}, {1, 0, 0, 1}, {1, 1}}, {1, 2}, 1, true},
        {4, 6, {{3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}}, {1, 1}, 2, true},   // groups of unequal inputs and outputs
        {3, 3, {{2, 2}, {2, 2}, {}, {1, 1}}, {0, 0}, 3, true},             // depthwise
        {2, 3, {{2, 3}, {1, 2}, {0, 1, 2, 0}, {3, 2}}, {2, 1}, 1, true}};  // more output padding than stride
    for (const nn::ConvTranspose2dOptions& o : all) {
        INFO("groups " << o.groups << ", stride " << o.window.stride.height);
        const auto conv = std::make_shared<nn::ConvTranspose2d>(o);
        const Shape x(2, o.in_channels, 4, 3), w = conv->weight().shape();
        const Size2d out = nn::float_operators::transposed_output_size(o.window, o.output_padding, {4, 3});
        GradientProblem problem{
            .op = "conv_transpose2d", .input_shapes = {x}, .parameters = {"weight", "bias"}, .module = conv};
        problem.output_shape = Shape(2, o.out_channels, out.height, out.width);
        problem.oracle = [=](const std::vector<Numbers>& leaves) {
            return transposed_conv(image_of(x, leaves[0]), image_of(w, leaves[1]), leaves[2], o, out).values;
        };
        check_gradient(problem);
    }
}

/// Along depth, height and width.
struct VolumeWindow {
    std::array<index_t, 3> kernel, stride, padding, dilation;
};

/// Convolution of volumes and its transpose, as sums over what each position of the window sees. The positions are the
/// cells of y, and the volume is x; transposed, the other way round.
Numbers convolved_volume(bool transposed, const Shape& x, const Shape& y, const VolumeWindow& w, index_t groups,
                         const std::vector<Numbers>& leaves) {
    const Shape &positions = transposed ? x : y, &volume = transposed ? y : x;
    const index_t own = positions[1] / groups, others = volume[1] / groups;
    const Shape weight(positions[1], others, w.kernel[0], w.kernel[1], w.kernel[2]);
    const auto number = [](const Shape& shape, const std::vector<index_t>& place) {
        index_t at = 0;
        for (int axis = 0; axis < 5; ++axis) at = at * shape[axis] + place[static_cast<std::size_t>(axis)];
        return static_cast<std::size_t>(at);
    };
    Numbers result;
    for (const auto& place : places_of(y)) result.push_back(leaves[2][static_cast<std::size_t>(place[1])]);
    for (const auto& place : places_of(positions))
        for (const auto& tap : places_of(weight)) {
            if (tap[0] != place[1]) continue;
            std::vector<index_t> seen{place[0], place[1] / own * others + tap[1], 0, 0, 0};
            bool inside = true;
            for (std::size_t k = 0; k < 3; ++k) {
                seen[k + 2] = place[k + 2] * w.stride[k] + tap[k + 2] * w.dilation[k] - w.padding[k];
                inside = inside && seen[k + 2] >= 0 && seen[k + 2] < volume[static_cast<int>(k) + 2];
            }
            if (!inside) continue;
            const auto& to = transposed ? seen : place;
            const auto& from = transposed ? place : seen;
            result[number(y, to)] += leaves[1][number(weight, tap)] * leaves[0][number(x, from)];
        }
    return result;
}

void check_volumes(const char* op, bool transposed, const nn::ModulePtr& layer, const Shape& x, const Shape& y,
                   const VolumeWindow& window, index_t groups) {
    INFO(op << " groups " << groups << ", stride " << window.stride[0]);
    const auto volume = [](const Shape& s) { return s.rank == 5 ? s : Shape(s[0], s[1], 1, 1, s[2]); };
    GradientProblem problem{.op = op, .input_shapes = {x}, .parameters = {"weight", "bias"}, .module = layer};
    problem.output_shape = y;
    problem.oracle = [=](const std::vector<Numbers>& leaves) {
        return convolved_volume(transposed, volume(x), volume(y), window, groups, leaves);
    };
    check_gradient(problem);
}

void check_conv_of_volumes() {
    check_volumes("conv3d", false, std::make_shared<nn::Conv3d>(nn::Conv3dOptions{2, 3, {2, 1, 1, 1}, {{3, 2}}}),
                  Shape(2, 2, 3, 4, 3), Shape(2, 3, 4, 2, 2), {{2, 3, 2}, {1, 1, 1}, {1, 0, 0}, {1, 1, 1}}, 1);
    check_volumes(
        "conv3d", false,
        std::make_shared<nn::Conv3d>(nn::Conv3dOptions{4, 2, {2, 2, 1, 2}, {{1, 2}, {1, 2}, {0, 1, 0, 1}, {1, 1}}, 2}),
        Shape(1, 4, 4, 2, 4), Shape(1, 2, 2, 2, 3), {{2, 1, 2}, {2, 1, 2}, {1, 0, 1}, {2, 1, 1}}, 2);
    check_volumes("conv_transpose3d", true,
                  std::make_shared<nn::ConvTranspose3d>(nn::ConvTranspose3dOptions{2, 3, {2, 1, 0, 1}, {{2, 1}}}),
                  Shape(2, 2, 2, 2, 3), Shape(2, 3, 3, 3, 3), {{2, 2, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}}, 1);
    check_volumes("conv_transpose3d", true,
                  std::make_shared<nn::ConvTranspose3d>(nn::ConvTranspose3dOptions{
                      4, 2, {3, 2, 1, 1}, {{1, 2}, {2, 1}, {0, 1, 0, 1}, {1, 1}}, 1, {1, 0}, 2}),
                  Shape(1, 4, 2, 2, 3), Shape(1, 2, 4, 4, 2), {{3, 1, 2}, {2, 2, 1}, {1, 0, 1}, {1, 1, 1}}, 2);
    for (const nn::ConvTranspose1dOptions& o :
         {nn::ConvTranspose1dOptions{3, 2, 3}, nn::ConvTranspose1dOptions{4, 6, 3, 2, 1, 1, 2, 2}}) {
        const index_t length =
            (5 - 1) * o.stride - 2 * o.padding.before + o.dilation * (o.kernel - 1) + o.output_padding + 1;
        check_volumes("conv_transpose1d", true, std::make_shared<nn::ConvTranspose1d>(o), Shape(2, o.in_channels, 5),
                      Shape(2, o.out_channels, length),
                      {{1, 1, o.kernel}, {1, 1, o.stride}, {0, 0, o.padding.before}, {1, 1, o.dilation}}, o.groups);
    }
}

void check_functional_linear() {
    for (const bool bias : {true, false}) {
        GradientProblem problem{.op = "functional_linear", .input_shapes = {Shape(2, 3, 4), Shape(5, 4)}};
        if (bias) problem.input_shapes.push_back(Shape(5));
        problem.function = &nn::linear_function;
        problem.output_shape = Shape(2, 3, 5);
        problem.oracle = [=](const std::vector<Numbers>& leaves) {
            return each_place(Shape(2, 3, 5), [&](const auto& at) {
                double sum = bias ? leaves[2][static_cast<std::size_t>(at[2])] : 0.0;
                for (index_t i = 0; i < 4; ++i)
                    sum += number_at(leaves[0], Shape(2, 3, 4), {at[0], at[1], i}) *
                           number_at(leaves[1], Shape(5, 4), {at[2], i});
                return sum;
            });
        };
        check_gradient(problem);
    }
}

void check_matmul() {
    struct Case {
        Shape a, b, y;
    };
    for (const Case& c :
         {Case{Shape(3, 4), Shape(4, 5), Shape(3, 5)}, Case{Shape(3, 4), Shape(2, 4, 5), Shape(2, 3, 5)},
          Case{Shape(2, 1, 3, 4), Shape(3, 4, 2), Shape(2, 3, 3, 2)}}) {
        GradientProblem problem{.op = "matmul", .input_shapes = {c.a, c.b}, .function = &nn::matmul_function};
        problem.output_shape = c.y;
        problem.oracle = [=](const std::vector<Numbers>& leaves) {
            return each_place(c.y, [&](const std::vector<index_t>& at) {
                double sum = 0;
                for (index_t k = 0; k < 4; ++k) {
                    auto first = at, second = at;
                    first.back() = k;
                    second[at.size() - 2] = k;
                    sum += number_at(leaves[0], c.a, first) * number_at(leaves[1], c.b, second);
                }
                return sum;
            });
        };
        check_gradient(problem);
    }
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// One sample's step: h and c of a layer and direction from x, in place.
void lstm_step(const Numbers& x, const Numbers* w, Numbers& h, Numbers& c) {
    const std::size_t width = h.size();
    const auto sum = [&](std::size_t row) {
        double result = w[2].empty() ? 0.0 : w[2][row] + w[3][row];
        for (std::size_t i = 0; i < x.size(); ++i) result += w[0][row * x.size() + i] * x[i];
        for (std::size_t i = 0; i < width; ++i) result += w[1][row * width + i] * h[i];
        return result;
    };
    Numbers next(width);
    for (std::size_t k = 0; k < width; ++k) {
        c[k] = logistic(sum(width + k)) * c[k] + logistic(sum(k)) * std::tanh(sum(2 * width + k));
        next[k] = logistic(sum(3 * width + k)) * std::tanh(c[k]);
    }
    h = next;
}

/// Sample by sample: outputs, then h_n, then c_n. leaves: x, h_0, c_0, then four tensors a layer and direction.
Numbers lstm_oracle(const nn::LSTMOptions& o, index_t steps, index_t samples, const std::vector<Numbers>& leaves) {
    const auto length = static_cast<std::size_t>(steps), batch = static_cast<std::size_t>(samples),
               width = static_cast<std::size_t>(o.hidden_size), directions = std::size_t{o.bidirectional ? 2u : 1u},
               layers = static_cast<std::size_t>(o.num_layers);
    Numbers y(length * batch * directions * width), h_n(layers * directions * batch * width), c_n(h_n.size());
    for (std::size_t n = 0; n < batch; ++n) {
        const auto row = [&](std::size_t t, std::size_t size) {
            return (o.batch_first ? n * length + t : t * batch + n) * size;
        };
        std::vector<Numbers> sequence;
        const auto in = static_cast<std::size_t>(o.input_size);
        for (std::size_t t = 0; t < length; ++t) {
            const auto first = leaves[0].begin() + static_cast<std::ptrdiff_t>(row(t, in));
            sequence.emplace_back(first, first + o.input_size);
        }
        for (std::size_t layer = 0; layer < layers; ++layer) {
            std::vector<Numbers> outputs(length);
            for (std::size_t direction = 0; direction < directions; ++direction) {
                const std::size_t at = layer * directions + direction, state = (at * batch + n) * width;
                const auto of = [&](const Numbers& all) {
                    return Numbers(all.begin() + static_cast<std::ptrdiff_t>(state),
                                   all.begin() + static_cast<std::ptrdiff_t>(state + width));
                };
                Numbers h = of(leaves[1]), c = of(leaves[2]);
                for (std::size_t step = 0; step < length; ++step) {
                    const std::size_t t = direction == 1 ? length - 1 - step : step;
                    const std::size_t parts = o.bias ? 4 : 2;
                    std::vector<Numbers> w(leaves.begin() + static_cast<std::ptrdiff_t>(3 + at * parts),
                                           leaves.begin() + static_cast<std::ptrdiff_t>(3 + (at + 1) * parts));
                    w.resize(4);
                    lstm_step(sequence[t], w.data(), h, c);
                    outputs[t].insert(outputs[t].end(), h.begin(), h.end());
                }
                std::copy(h.begin(), h.end(), h_n.begin() + static_cast<std::ptrdiff_t>(state));
                std::copy(c.begin(), c.end(), c_n.begin() + static_cast<std::ptrdiff_t>(state));
            }
            sequence = outputs;
        }
        for (std::size_t t = 0; t < length; ++t)
            std::copy(sequence[t].begin(), sequence[t].end(),
                      y.begin() + static_cast<std::ptrdiff_t>(row(t, directions * width)));
    }
    y.insert(y.end(), h_n.begin(), h_n.end());
    y.insert(y.end(), c_n.begin(), c_n.end());
    return y;
}

void check_lstm() {
    for (const nn::LSTMOptions& o :
         {nn::LSTMOptions{3, 2, 1, true, false, false}, nn::LSTMOptions{3, 2, 2, true, true, true},
          nn::LSTMOptions{2, 3, 3, false, false, false}}) {
        INFO(o.num_layers << " layers");
        const auto lstm = std::make_shared<nn::LSTM>(o);
        const index_t steps = 4, samples = 2, directions = lstm->directions();
        const Shape states(o.num_layers * directions, samples, o.hidden_size);
        const auto sequence = [&](index_t size) {
            return o.batch_first ? Shape(samples, steps, size) : Shape(steps, samples, size);
        };
        GradientProblem problem{.op = "lstm", .input_shapes = {sequence(o.input_size), states, states}, .module = lstm};
        for (const auto& parameter : lstm->parameters()) problem.parameters.push_back(parameter.name);
        problem.output_shape = sequence(directions * o.hidden_size);
        problem.more_outputs = {states, states};
        problem.arrange = [](const std::vector<nn::Value>& t) {
            return std::vector<nn::Value>{t[0], nn::Value::Tuple{t[1], t[2]}};
        };
        problem.places = {{0, 0}, {1, 0}, {1, 1}};
        problem.oracle = [=](const std::vector<Numbers>& leaves) { return lstm_oracle(o, steps, samples, leaves); };
        check_gradient(problem);
        // Without a state it begins at 0.
        problem.input_shapes.resize(1);
        problem.places = {{0, 0}};
        problem.arrange = {};
        problem.oracle = [=](std::vector<Numbers> leaves) {
            const Numbers zeros(static_cast<std::size_t>(states.size()), 0.0);
            leaves.insert(leaves.begin() + 1, {zeros, zeros});
            return lstm_oracle(o, steps, samples, leaves);
        };
        check_gradient(problem);
    }
}

void check_embedding() {
    const auto ids32 = intq::Tensor::from(Shape(2, 3), std::vector<std::int32_t>{1, 0, 1, 3, 1, 3});
    const auto ids64 = intq::Tensor::from(Shape(2, 3), std::vector<std::int64_t>{1, 0, 1, 3, 1, 3});
    const auto oracle = [](const std::vector<Numbers>& leaves) {
        const index_t rows[] = {1, 0, 1, 3, 1, 3};
        return each_place(Shape(6, 2), [&](const auto& at) {
            return number_at(leaves[0], Shape(5, 2), {rows[at[0]], at[1]});
        });
    };
    for (const intq::Tensor& ids : {ids32, ids64}) {
        GradientProblem problem{.op = "functional_embedding", .input_shapes = {Shape(5, 2)}};
        problem.function = &nn::embedding_function;
        problem.output_shape = Shape(2, 3, 2);
        problem.places = {{1, 0}};
        problem.arrange = [=](const std::vector<nn::Value>& t) { return std::vector<nn::Value>{ids, t[0]}; };
        problem.oracle = oracle;
        check_gradient(problem);
    }
    GradientProblem problem{.op = "embedding", .input_shapes = {}, .parameters = {"weight"}};
    problem.module = std::make_shared<nn::Embedding>(nn::EmbeddingOptions{5, 2});
    problem.more_inputs = {nn::Value(ids64)};
    problem.output_shape = Shape(2, 3, 2);
    problem.oracle = oracle;
    check_gradient(problem);
}

void check_index_copy() {
    const auto shared = intq::Tensor::from(Shape(index_t{2}), std::vector<std::int64_t>{3, 0});
    const auto each = intq::Tensor::from(Shape(2, 2), std::vector<std::int32_t>{3, 0, 1, 2});
    for (const intq::Tensor& index : {shared, each}) {
        const bool of_samples = index.rank() == 2;
        GradientProblem problem{.op = "index_copy", .input_shapes = {Shape(2, 4, 3), Shape(2, 2, 3)}};
        problem.function = &nn::index_copy_function;
        problem.output_shape = Shape(2, 4, 3);
        problem.places = {{0, 0}, {3, 0}};
        problem.arrange = [=](const std::vector<nn::Value>& t) {
            return std::vector<nn::Value>{t[0], nn::Value(std::int64_t{1}), index, t[1]};
        };
        problem.oracle = [=](const std::vector<Numbers>& leaves) {
            const index_t first[] = {3, 0}, second[] = {1, 2};
            return each_place(Shape(2, 4, 3), [&](const auto& at) {
                const index_t* const rows = of_samples && at[0] == 1 ? second : first;
                for (index_t row = 0; row < 2; ++row)
                    if (rows[row] == at[1]) return number_at(leaves[1], Shape(2, 2, 3), {at[0], row, at[2]});
                return number_at(leaves[0], Shape(2, 4, 3), {at[0], at[1], at[2]});
            });
        };
        check_gradient(problem);
    }
}

template <class Norm> void check_run_norm(const char* op, const std::vector<std::string>& parameters) {
    const bool is_centered = parameters.size() == 2;
    for (const Shape& normalized : {Shape(4), Shape(3, 4)}) {
        const Shape x(2, 3, 4);
        GradientProblem problem{.op = op, .input_shapes = {x}, .parameters = parameters};
        problem.module = std::make_shared<Norm>(normalized, 1e-3);
        problem.output_shape = x;
        problem.oracle = [=](const std::vector<Numbers>& leaves) {
            const auto run = static_cast<std::size_t>(normalized.size());
            Numbers y;
            for (std::size_t i = 0; i < leaves[0].size(); ++i) {
                const std::size_t first = i / run * run;
                double sum = 0, squares = 0;
                for (std::size_t k = 0; k < run; ++k) sum += leaves[0][first + k];
                const double mean = is_centered ? sum / static_cast<double>(run) : 0.0;
                for (std::size_t k = 0; k < run; ++k) squares += std::pow(leaves[0][first + k] - mean, 2);
                y.push_back((leaves[0][i] - mean) / std::sqrt(squares / static_cast<double>(run) + 1e-3) *
                                leaves[1][i - first] +
                            (is_centered ? leaves[2][i - first] : 0.0));
            }
            return y;
        };
        check_gradient(problem);
    }
}

void check_run_norms() {
    check_run_norm<nn::LayerNorm>("layer_norm", {"weight", "bias"});
    check_run_norm<nn::RMSNorm>("rms_norm", {"weight"});
}

void check_channels_norm(const char* op, const nn::ModulePtr& module, index_t groups, bool has_weight) {
    const index_t channels = 4, pixels = 6;
    GradientProblem problem{.op = op, .input_shapes = {Shape(2, channels, 2, 3)}, .parameters = {}};
    if (has_weight) problem.parameters = {"weight", "bias"};
    problem.module = module;
    problem.output_shape = problem.input_shapes[0];
    problem.oracle = [=](const std::vector<Numbers>& leaves) {
        Numbers y(leaves[0].size());
        const index_t run = channels / groups * pixels;
        for (index_t first = 0; first < 2 * channels * pixels; first += run) {
            const auto at = [&](index_t i) { return leaves[0][static_cast<std::size_t>(first + i)]; };
            double mean = 0, variance = 0;
            for (index_t i = 0; i < run; ++i) mean += at(i) / static_cast<double>(run);
            for (index_t i = 0; i < run; ++i) variance += std::pow(at(i) - mean, 2) / static_cast<double>(run);
            for (index_t i = 0; i < run; ++i) {
                const auto c = static_cast<std::size_t>((first + i) / pixels % channels);
                y[static_cast<std::size_t>(first + i)] =
                    (at(i) - mean) / std::sqrt(variance + 1e-3) * (has_weight ? leaves[1][c] : 1.0) +
                    (has_weight ? leaves[2][c] : 0.0);
            }
        }
        return y;
    };
    check_gradient(problem);
}

void check_channels_norms() {
    check_channels_norm("group_norm", std::make_shared<nn::GroupNorm>(2, 4, 1e-3), 2, true);
    check_channels_norm("group_norm", std::make_shared<nn::GroupNorm>(1, 4, 1e-3, false), 1, false);
    for (const bool affine : {true, false})
        check_channels_norm("instance_norm",
                            std::make_shared<nn::InstanceNorm2d>(nn::InstanceNormOptions{4, 1e-3, affine}), 4, affine);
}

/// Where an output cell lies on an axis of the input, by the formulas of PyTorch's documentation.
double position_of(const std::string& mode, bool align_corners, index_t d, index_t in, index_t out, double step) {
    const auto at = static_cast<double>(d);
    if (mode == "nearest") return std::min(std::floor(at * step), static_cast<double>(in - 1));
    if (mode == "nearest-exact") return std::min(std::floor((at + 0.5) * step), static_cast<double>(in - 1));
    if (align_corners) return out == 1 ? 0.0 : at * static_cast<double>(in - 1) / static_cast<double>(out - 1);
    return std::clamp((at + 0.5) * step - 0.5, 0.0, static_cast<double>(in - 1));
}

void check_interpolate() {
    struct Case {
        std::string mode;
        bool align_corners;
        bool by_factor;
    };
    const Shape x(2, 2, 3, 4);
    for (const Case& c :
         {Case{"nearest", false, false}, Case{"nearest-exact", false, false}, Case{"bilinear", false, false},
          Case{"bilinear", true, false}, Case{"bilinear", false, true}, Case{"nearest", false, true}}) {
        INFO(c.mode << ' ' << c.align_corners << ' ' << c.by_factor);
        const Size2d out = c.by_factor ? Size2d{4, 9} : Size2d{5, 3};  // fl(3 · 1.5), fl(4 · 2.25)
        nn::InterpolateOptions options{out, {}, nn::float_operators::resize_rule(c.mode, c.align_corners)};
        if (c.by_factor) options = {{}, nn::ScaleFactor{1.5, 2.25}, options.rule};
        GradientProblem problem{.op = "interpolate", .input_shapes = {x}};
        problem.output_shape = Shape(2, 2, out.height, out.width);
        problem.oracle = [=](const std::vector<Numbers>& leaves) {
            return each_place(problem.output_shape, [&](const auto& at) {
                const double row_step = c.by_factor ? 1 / 1.5 : 3.0 / static_cast<double>(out.height),
                             column_step = c.by_factor ? 1 / 2.25 : 4.0 / static_cast<double>(out.width);
                const double row = position_of(c.mode, c.align_corners, at[2], 3, out.height, row_step),
                             column = position_of(c.mode, c.align_corners, at[3], 4, out.width, column_step);
                double sum = 0;  // the tent of each input cell
                for (index_t i = 0; i < 3; ++i)
                    for (index_t j = 0; j < 4; ++j)
                        sum += std::max(0.0, 1 - std::fabs(row - static_cast<double>(i))) *
                               std::max(0.0, 1 - std::fabs(column - static_cast<double>(j))) *
                               number_at(leaves[0], x, {at[0], at[1], i, j});
                return sum;
            });
        };
        problem.module = std::make_shared<nn::Upsample>(options);
        check_gradient(problem);
        problem.module = nullptr;
        problem.function = &nn::interpolate_function;
        const nn::Value size = c.by_factor ? nn::Value() : integers({out.height, out.width});
        const nn::Value factor = c.by_factor ? nn::Value(nn::Value::Tuple{1.5, 2.25}) : nn::Value();
        problem.more_inputs = {size, factor, nn::Value(c.mode), nn::Value(c.align_corners)};
        check_gradient(problem);
    }
}

void check_reductions() {
    const Shape x(2, 3, 4);
    struct Case {
        std::vector<index_t> axes;
        bool keepdim;
        Shape y;
    };
    for (const Case& c : {Case{{}, false, Shape()}, Case{{1}, true, Shape(2, 1, 4)}, Case{{-1, 0}, false, Shape(3)}})
        for (const bool mean : {false, true}) {
            GradientProblem problem{.op = mean ? "mean" : "sum", .input_shapes = {x}};
            problem.function = mean ? &nn::mean_function : &nn::sum_function;
            problem.more_inputs = {integers(c.axes), nn::Value(c.keepdim)};
            problem.output_shape = c.y;
            problem.oracle = [=](const std::vector<Numbers>& leaves) {
                const bool all = c.axes.empty(), second = c.keepdim;
                Numbers y(static_cast<std::size_t>(c.y.size()), 0.0);
                for (std::size_t i = 0; i < 24; ++i)
                    y[all      ? 0
                      : second ? i / 12 * 4 + i % 4
                               : i / 4 % 3] += leaves[0][i] / (mean ? 24.0 / static_cast<double>(y.size()) : 1.0);
                return y;
            };
            check_gradient(problem);
        }
}

void check_one_element_moves() {
    const Shape x(2, 3, 4);
    const auto problem = [&](const char* op, const nn::Function& function, std::vector<nn::Value> more, Shape y) {
        GradientProblem result{.op = op, .input_shapes = {x}, .more_inputs = std::move(more), .output_shape = y};
        result.function = &function;
        return result;
    };
    check_moves(problem("reshape", nn::reshape_function, {integers({4, -1})}, Shape(4, 6)), [](const auto& at) {
        const index_t i = at[0] * 6 + at[1];
        return std::vector<index_t>{i / 12, i / 4 % 3, i % 4};
    });
    check_moves(problem("permute", nn::permute_function, {integers({2, 0, -2})}, Shape(4, 2, 3)), [](const auto& at) {
        return std::vector<index_t>{at[1], at[2], at[0]};
    });
    check_moves(problem("expand", nn::expand_function, {integers({5, -1, 3, -1})}, Shape(5, 2, 3, 4)),
                [](const auto& at) {
                    return std::vector<index_t>{at[1], at[2], at[3]};
                });
    GradientProblem repeated{.op = "expand",
                             .input_shapes = {Shape(2, 1, 4)},
                             .more_inputs = {integers({-1, 3, -1})},
                             .output_shape = Shape(2, 3, 4)};
    repeated.function = &nn::expand_function;
    check_moves(repeated, [](const auto& at) { return std::vector<index_t>{at[0], 0, at[2]}; });
    check_moves(problem("transpose", nn::transpose_function, {nn::Value(-1), nn::Value(0)}, Shape(4, 3, 2)),
                [](const auto& at) {
                    return std::vector<index_t>{at[2], at[1], at[0]};
                });
    check_moves(
        problem("slice", nn::slice_function, {nn::Value(2), nn::Value(1), nn::Value(), nn::Value(2)}, Shape(2, 3, 2)),
        [](auto at) {
            at[2] = 1 + 2 * at[2];
            return at;
        });
    check_moves(problem("slice", nn::slice_function, {nn::Value(1), nn::Value(-2), nn::Value(9)}, Shape(2, 2, 4)),
                [](auto at) {
                    at[1] += 1;
                    return at;
                });
    check_moves(problem("getitem", nn::getitem_function, {nn::Value(-1)}, Shape(3, 4)), [](const auto& at) {
        return std::vector<index_t>{1, at[0], at[1]};
    });
    GradientProblem item{.op = "getitem", .input_shapes = {x, Shape(2), Shape(3)}, .function = &nn::getitem_function};
    item.more_inputs = {nn::Value(-2)};
    item.inputs_in_tuple = true;
    item.output_shape = Shape(2);
    item.oracle = [](const std::vector<Numbers>& leaves) { return leaves[1]; };
    check_gradient(item);
}

void check_pieces() {
    const Shape x(2, 5, 2);
    const auto oracle = [=](std::vector<index_t> firsts, std::vector<Shape> shapes) {
        return [=](const std::vector<Numbers>& leaves) {
            Numbers y;
            for (std::size_t piece = 0; piece < shapes.size(); ++piece)
                for (auto at : places_of(shapes[piece])) {
                    at[1] += firsts[piece];
                    y.push_back(number_at(leaves[0], x, at));
                }
            return y;
        };
    };
    GradientProblem problem{.op = "split", .input_shapes = {x}, .more_inputs = {nn::Value(2), nn::Value(1)}};
    problem.function = &nn::split_function;
    problem.output_shape = Shape(2, 2, 2);
    problem.more_outputs = {Shape(2, 2, 2), Shape(2, 1, 2)};
    problem.oracle = oracle({0, 2, 4}, problem.output_shapes());
    check_gradient(problem);
    problem.more_inputs = {integers({2, 2, 1}), nn::Value(-2)};
    check_gradient(problem);
    problem.op = "chunk";
    problem.function = &nn::chunk_function;
    problem.more_inputs = {nn::Value(3), nn::Value(1)};
    check_gradient(problem);
}

void check_pad() {
    const Shape x(2, 3, 4);
    struct Case {
        std::vector<index_t> padding;
        Shape y;
    };
    for (const Case& c : {Case{{1, 2}, Shape(2, 3, 7)}, Case{{-1, 2, 1, -1, 0, 1}, Shape(3, 3, 5)}}) {
        GradientProblem problem{.op = "pad", .input_shapes = {x}, .function = &nn::pad_function};
        problem.more_inputs = {integers(c.padding), nn::Value("constant"), nn::Value(0.5)};
        problem.output_shape = c.y;
        problem.oracle = [=](const std::vector<Numbers>& leaves) {
            return each_place(c.y, [&](std::vector<index_t> at) {
                bool inside = true;
                for (std::size_t i = 0; i < c.padding.size(); i += 2) {
                    index_t& index = at[2 - i / 2];
                    index -= c.padding[i];
                    inside = inside && index >= 0 && index < x[2 - static_cast<int>(i / 2)];
                }
                return inside ? number_at(leaves[0], x, at) : 0.5;
            });
        };
        check_gradient(problem);
    }
    for (const char* mode : {"reflect", "replicate"}) {
        const Shape y(2, 6, 7);
        GradientProblem problem{.op = "pad", .input_shapes = {x}, .function = &nn::pad_function};
        problem.more_inputs = {integers({2, 1, 1, 2}), nn::Value(mode)};
        problem.output_shape = y;
        const auto inside = [reflects = mode[2] == 'f'](index_t place, index_t extent) {
            if (place < 0) return reflects ? -place : 0;
            if (place >= extent) return reflects ? 2 * extent - 2 - place : extent - 1;
            return place;
        };
        problem.oracle = [=](const std::vector<Numbers>& leaves) {
            return each_place(y, [&](std::vector<index_t> at) {
                return number_at(leaves[0], x, {at[0], inside(at[1] - 1, 3), inside(at[2] - 2, 4)});
            });
        };
        check_gradient(problem);
    }
}

/// f(a, b) of two tensors whose shapes are broadcast, and of a tensor and a number on either side.
void check_tensor_pairs(const char* op, const nn::Function& function, double (*f)(double, double)) {
    const Shape y(2, 3, 4);
    for (const Shape& second : {y, Shape(3, 1), Shape(2, 1, 4)})
        for (const bool turned : {false, true}) {
            GradientProblem problem{.op = op, .input_shapes = {y, second}, .function = &function};
            if (turned) std::swap(problem.input_shapes[0], problem.input_shapes[1]);
            problem.output_shape = y;
            problem.oracle = [=](const std::vector<Numbers>& leaves) {
                return each_place(y, [&](const auto& at) {
                    return f(number_at(leaves[0], problem.input_shapes[0], at),
                             number_at(leaves[1], problem.input_shapes[1], at));
                });
            };
            check_gradient(problem);
        }
}

void check_extremes() {
    check_tensor_pairs("maximum", nn::maximum_function, [](double a, double b) { return std::max(a, b); });
    check_tensor_pairs("minimum", nn::minimum_function, [](double a, double b) { return std::min(a, b); });
}

void check_pairs(const char* op, const nn::Function& function, double (*f)(double, double)) {
    check_tensor_pairs(op, function, f);
    const Shape y(2, 3, 4);
    for (const bool number_first : {false, true}) {
        GradientProblem problem{.op = op, .input_shapes = {y}, .output_shape = y, .function = &function};
        problem.arrange = [=](const std::vector<nn::Value>& t) {
            return number_first ? std::vector<nn::Value>{nn::Value(2.5), t[0]}
                                : std::vector<nn::Value>{t[0], nn::Value(2.5)};
        };
        problem.places = {{number_first ? 1u : 0u, 0}};
        problem.oracle = [=](const std::vector<Numbers>& leaves) {
            Numbers result;
            for (const double x : leaves[0]) result.push_back(number_first ? f(2.5, x) : f(x, 2.5));
            return result;
        };
        check_gradient(problem);
    }
}

void check_sub_and_mul() {
    check_pairs("sub", nn::sub_function, [](double a, double b) { return a - b; });
    check_pairs("mul", nn::mul_function, [](double a, double b) { return a * b; });
}

void check_add_relu() {
    const Shape y(2, 3, 4);
    GradientProblem problem{.op = "add_relu", .input_shapes = {y, Shape(3, 1)}, .output_shape = y};
    problem.module = std::make_shared<nn::FloatFunctional>();
    problem.method = "add_relu";
    problem.oracle = [=](const std::vector<Numbers>& leaves) {
        return each_place(y, [&](const auto& at) {
            return std::max(number_at(leaves[0], y, at) + number_at(leaves[1], Shape(3, 1), at), 0.0);
        });
    };
    check_gradient(problem);
}

/// A function of one element, as a function and (where there is one) as a layer.
struct UnaryCase {
    const char* op;
    const nn::Function* function;
    nn::ModulePtr module;
    std::function<double(double)> f;
    std::vector<nn::Value> more{};
    bool positive = false;
};

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

std::vector<UnaryCase> unary_cases() {
    using F = TableFunction;
    const auto cube = [](double x) { return std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * std::pow(x, 3)); };
    const auto within = [](double low, double x, double high) { return std::min(std::max(x, low), high); };
    return {
        {"sigmoid", &nn::unary_function<F::sigmoid>, std::make_shared<nn::Sigmoid>(), &logistic},
        {"tanh", &nn::unary_function<F::tanh>, std::make_shared<nn::Tanh>(),
         [](double x) { return (std::exp(x) - std::exp(-x)) / (std::exp(x) + std::exp(-x)); }},
        {"hardsigmoid", &nn::unary_function<F::hard_sigmoid>, std::make_shared<nn::Hardsigmoid>(),
         [=](double x) { return within(0, x / 6 + 0.5, 1); }},
        {"hardsigmoid",
         &nn::unary_function<F::hard_sigmoid>,
         std::make_shared<nn::Hardsigmoid>(1.2),
         [=](double x) { return within(0, x / 5 + 0.5, 1); },
         {nn::Value(1.2)}},
        {"hardswish", &nn::unary_function<F::hard_swish>, std::make_shared<nn::Hardswish>(),
         [=](double x) { return x * within(0, x / 6 + 0.5, 1); }},
        {"hardtanh", &nn::unary_function<F::hard_tanh>, std::make_shared<nn::Hardtanh>(),
         [=](double x) { return within(-1, x, 1); }},
        {"leaky_relu",
         &nn::unary_function<F::leaky_relu>,
         std::make_shared<nn::LeakyReLU>(0.3),
         [](double x) { return std::max(x, 0.3 * x); },
         {nn::Value(0.3)}},
        {"elu",
         &nn::unary_function<F::elu>,
         std::make_shared<nn::ELU>(0.7),
         [](double x) { return x > 0 ? x : 0.7 * (std::exp(x) - 1); },
         {nn::Value(0.7)}},
        {"silu", &nn::unary_function<F::silu>, std::make_shared<nn::SiLU>(), [](double x) { return x * logistic(x); }},
        {"softplus", &nn::unary_function<F::softplus>, std::make_shared<nn::Softplus>(),
         [](double x) { return std::log(1 + std::exp(x)); }},
        {"softplus",
         &nn::unary_function<F::softplus>,
         std::make_shared<nn::Softplus>(2.5),
         [](double x) { return std::log(1 + std::exp(2.5 * x)) / 2.5; },
         {nn::Value(2.5)}},
        {"mish", &nn::unary_function<F::mish>, std::make_shared<nn::Mish>(),
         [](double x) { return x * std::tanh(std::log(1 + std::exp(x))); }},
        {"selu", &nn::unary_function<F::selu>, std::make_shared<nn::SELU>(),
         [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * (std::exp(x) - 1)); }},
        {"celu",
         &nn::unary_function<F::celu>,
         std::make_shared<nn::CELU>(0.7),
         [](double x) { return x > 0 ? x : 0.7 * (std::exp(x / 0.7) - 1); },
         {nn::Value(0.7)}},
        {"softsign", &nn::unary_function<F::softsign>, std::make_shared<nn::Softsign>(),
         [](double x) { return x / (1 + std::fabs(x)); }},
        {"tanhshrink", &nn::unary_function<F::tanhshrink>, std::make_shared<nn::Tanhshrink>(),
         [](double x) { return x - std::tanh(x); }},
        {"abs", &nn::unary_function<F::abs>, nullptr, [](double x) { return std::fabs(x); }},
        {"neg", &nn::unary_function<F::neg>, nullptr, [](double x) { return -x; }},
        {"square", &nn::unary_function<F::square>, nullptr, [](double x) { return std::pow(x, 2); }},
        {"gelu", &nn::gelu_function, std::make_shared<nn::GELU>(), [](double x) { return x * normal_cdf(x); }},
        {"gelu",
         &nn::gelu_function,
         std::make_shared<nn::GELU>("tanh"),
         [=](double x) { return x / 2 * (1 + std::tanh(cube(x))); },
         {nn::Value("tanh")}},
        {"exp", &nn::unary_function<F::exp>, nullptr, [](double x) { return std::exp(x); }},
        {"erf", &nn::unary_function<F::erf>, nullptr, [](double x) { return std::erf(x); }},
        {"log", &nn::unary_function<F::log>, nullptr, [](double x) { return std::log(x); }, {}, true},
        {"sqrt", &nn::unary_function<F::sqrt>, nullptr, [](double x) { return std::sqrt(x); }, {}, true},
        {"rsqrt", &nn::unary_function<F::rsqrt>, nullptr, [](double x) { return std::pow(x, -0.5); }, {}, true},
        {"reciprocal", &nn::unary_function<F::reciprocal>, nullptr, [](double x) { return 1 / x; }, {}, true},
    };
}

void check_unary() {
    for (const UnaryCase& c : unary_cases()) {
        GradientProblem problem{.op = c.op, .input_shapes = {Shape(5, 20)}, .output_shape = Shape(5, 20)};
        problem.spread = 2.0;  // beyond the bends at 3
        problem.positive = c.positive;
        problem.oracle = [&](const std::vector<Numbers>& leaves) {
            Numbers y;
            for (const double x : leaves[0]) y.push_back(c.f(x));
            return y;
        };
        problem.module = c.module;
        if (c.module != nullptr) check_gradient(problem);
        problem.module = nullptr;
        problem.function = c.function;
        problem.more_inputs = c.more;
        check_gradient(problem);
    }
}

void check_clamp() {
    for (const auto& [low, high] : {std::pair(nn::Value(-0.4), nn::Value(0.7)), std::pair(nn::Value(), nn::Value(0.7)),
                                    std::pair(nn::Value(-0.4), nn::Value())}) {
        GradientProblem problem{.op = "clamp", .input_shapes = {Shape(40)}, .more_inputs = {low, high}};
        problem.output_shape = Shape(40);
        problem.function = &nn::clamp_function;
        problem.oracle = [low = low, high = high](const std::vector<Numbers>& leaves) {
            Numbers y;
            for (const double x : leaves[0])
                y.push_back(std::min(std::max(x, low.is_none() ? -1e9 : -0.4), high.is_none() ? 1e9 : 0.7));
            return y;
        };
        check_gradient(problem);
    }
}

void check_masked_fill() {
    intq::Tensor mask = intq::Tensor::zeros(Shape(1, 4), DType::uint8);
    mask.flat<std::uint8_t>()[2] = 1;
    for (const bool is_module : {false, true}) {
        GradientProblem problem{.op = "masked_fill", .input_shapes = {Shape(3, 4)}, .output_shape = Shape(3, 4)};
        if (is_module) {
            problem.module = std::make_shared<nn::MaskedFill>(mask, 0.5);
        } else {
            problem.function = &nn::masked_fill_function;
            problem.more_inputs = {nn::Value(mask), nn::Value(0.5)};
        }
        problem.oracle = [](const std::vector<Numbers>& leaves) {
            Numbers y = leaves[0];
            for (std::size_t i = 2; i < y.size(); i += 4) y[i] = 0.5;
            return y;
        };
        check_gradient(problem);
    }
}

void check_causal_fill() {
    const auto position = intq::Tensor::from(Shape(2, 3), std::vector<std::int64_t>{0, 3, 1, 2, -1, 0});
    GradientProblem problem{.op = "causal_fill", .input_shapes = {Shape(2, 2, 3, 4)}};
    problem.output_shape = Shape(2, 2, 3, 4);
    problem.function = &nn::causal_fill_function;
    problem.more_inputs = {nn::Value(position), nn::Value(0.5)};
    problem.oracle = [](const std::vector<Numbers>& leaves) {
        const index_t last[2][3] = {{0, 3, 1}, {2, -1, 0}};
        return each_place(Shape(2, 2, 3, 4), [&](const auto& at) {
            return at[3] > last[at[0]][at[2]] ? 0.5
                                              : number_at(leaves[0], Shape(2, 2, 3, 4), {at[0], at[1], at[2], at[3]});
        });
    };
    check_gradient(problem);
}

struct GradientCase {
    const char* sentence;
    void (*check)();
};

constexpr GradientCase gradient_cases[] = {
    {"The gradient of conv2d equals finite differences for stride, dilation, padding and groups", &check_conv2d},
    {"The gradient of a fused convolution reaches the operand of its add, and stops where it clamps",
     &check_fused_conv2d},
    {"The gradient of linear equals finite differences on any rank", &check_linear},
    {"The gradient of batch norm goes through the statistics of the batch in training, not in evaluation",
     &check_batch_norm},
    {"The gradient of a batch norm with a clamp inside is that of both", &check_fused_batch_norm},
    {"The gradient of softmax equals finite differences, as a function and as a layer", &check_softmax},
    {"The gradients of maximum and minimum equal finite differences, repeated or not", &check_extremes},
    {"The gradient of log_softmax equals finite differences, as a function and as a layer", &check_log_softmax},
    {"The gradients of pooling equal finite differences", &check_pooling},
    {"The gradients of relu, relu6, identity and flatten equal finite differences", &check_relu_and_moves},
    {"The gradient of add reaches both operands, summed over the axes along which one was repeated", &check_add},
    {"The gradient of cat is cut into its parts", &check_cat},
    {"The gradient of dropout has the mask of its own call, also when the layer was called again since",
     &check_dropout},
    {"conv1d is conv2d of images of one row", &check_conv1d},
    {"conv_transpose2d: stride, dilation, output padding and groups", &check_conv_transpose2d},
    {"conv3d, conv_transpose3d and conv_transpose1d: stride, dilation, padding and groups", &check_conv_of_volumes},
    {"linear with the weight as an argument, with and without bias", &check_functional_linear},
    {"matmul, with matrices that are repeated", &check_matmul},
    {"lstm through time: layers, directions, states, with and without biases", &check_lstm},
    {"embedding adds up what the places of one id get", &check_embedding},
    {"layer norm and RMS norm over one axis and two", &check_run_norms},
    {"group norm and instance norm, with and without weights", &check_channels_norms},
    {"interpolate by size and by factor", &check_interpolate},
    {"sum and mean over some axes and all", &check_reductions},
    {"reshape, permute, expand, transpose, slice, getitem", &check_one_element_moves},
    {"split and chunk", &check_pieces},
    {"pad cuts off what it added, and gives nothing to what it cropped", &check_pad},
    {"sub and mul of tensors, repeated or not, and numbers", &check_sub_and_mul},
    {"add_relu", &check_add_relu},
    {"functions of one element", &check_unary},
    {"clamp with one limit and two", &check_clamp},
    {"masked_fill with a mask of the module and of the call", &check_masked_fill},
    {"causal_fill hands on what no position hides", &check_causal_fill},
    {"index_copy gives each replaced row to the source, with one index and with one of each sample", &check_index_copy},
};

/// Operators that have no gradient by nature, with the reason.
struct NoGradient {
    const char* op;
    const char* reason;
};
constexpr NoGradient no_gradient[] = {
    {"argmax", "it gives integers"}, {"size", "it gives integers"}, {"floordiv", "it takes integers"}};

/// Every operator that a float graph can name: the table of spellings, and the functions of one element.
std::set<std::string> operators_of_the_graph() {
    std::set<std::string> names;
    for (const graph::OperatorSpelling& row : graph::operator_spellings) names.insert(std::string(row.name));
    for (const nn::float_operators::UnaryRow& row : nn::float_operators::unary_rows) names.emplace(row.name);
    return names;
}

/// The operators that lack a row or were not checked; those of `no_gradient` may.
std::vector<std::string> operators_without(std::span<const training::GradientRow> rows,
                                           const std::set<std::string>& checked) {
    std::vector<std::string> result;
    for (const std::string& op : operators_of_the_graph()) {
        const auto is_listed = [&](const NoGradient& none) { return none.op == op; };
        if (std::any_of(std::begin(no_gradient), std::end(no_gradient), is_listed)) continue;
        if (training::find_gradient(rows, op, nullptr) == nullptr) result.push_back(op + ": no gradient");
        if (checked.count(op) == 0) result.push_back(op + ": not checked");
    }
    return result;
}

}  // namespace

TEST_CASE("Every operator of the float graph has a gradient, and it equals finite differences") {
    test::checked_operators().clear();
    for (const GradientCase& one : gradient_cases) {
        INFO(one.sentence);
        one.check();
    }
    const std::span<const training::GradientRow> rows(training::gradient_rows<double>);
    const auto missing = operators_without(rows, test::checked_operators());
    CHECK(missing == std::vector<std::string>());
    std::cout << operators_of_the_graph().size() << " operators of the float graph, " << missing.size()
              << " without a checked gradient, " << std::size(no_gradient) << " without one by nature\n";
    // A row or a case less, and it is named.
    auto fewer = test::checked_operators();
    fewer.erase("pad");
    CHECK(operators_without(rows.subspan(1), fewer) ==
          std::vector<std::string>{"conv2d: no gradient", "pad: not checked"});
}

TEST_CASE("Equal largest elements: the first in row order takes the gradient") {
    const nn::MaxPool2d pool(nn::square_window(2));
    const std::vector<nn::Value> inputs{intq::Tensor::full(Shape(1, 1, 2, 2), 3.0f)};
    const nn::Value output(intq::Tensor::full(Shape(1, 1, 1, 1), 3.0f));
    const intq::Tensor gradient = intq::Tensor::full(Shape(1, 1, 1, 1), 2.0f);
    nn::MaxPool2d module = pool;
    const training::FinishedCall call{&module, nn::Arguments(inputs), &output, {}};
    training::GradientContext context(call, std::span(&gradient, 1), {});
    training::detail::max_pool2d_backward<float>(context);
    CHECK(test::numbers_of(context.input_gradients()[0][0]) == Numbers{2, 0, 0, 0});
}

TEST_CASE("A gradient that reaches an argmax is refused") {
    const std::vector<nn::Value> inputs{intq::Tensor::full(Shape(2, 3), 1.0f), nn::Value(1)};
    const nn::Value output = nn::argmax(inputs[0], 1);
    const intq::Tensor gradient = intq::Tensor::full(Shape(index_t{2}), 1.0f);
    const training::FinishedCall call{nullptr, nn::Arguments(inputs), &output, {}};
    training::GradientContext context(call, std::span(&gradient, 1), {});
    const auto rows = std::span<const training::GradientRow>(training::gradient_rows<float>);
    CHECK_THROWS_WITH(training::find_gradient(rows, "argmax", nullptr)->backward(context),
                      Catch::Matchers::Contains("its output is indices, which have no gradient"));
}

TEST_CASE("A clamp stops the gradient at its ends, and outside of them") {
    const intq::Tensor y = intq::Tensor::from(Shape(5), {0.0f, 0x1p-100f, 3.0f, 0x1.7fffffep2f, 6.0f});
    const intq::Tensor dy = intq::Tensor::full(Shape(5), 1.0f);
    using test::numbers_of;
    CHECK(numbers_of(training::clamp_gradient<float>(y, dy, Activation::relu)) == Numbers{0, 1, 1, 1, 1});
    CHECK(numbers_of(training::clamp_gradient<float>(y, dy, Activation::relu6))[4] == 0);
    CHECK(numbers_of(training::clamp_gradient<float>(y, dy, Activation::relu6))[2] == 1);
    CHECK(numbers_of(training::clamp_gradient<float>(y, dy, Activation::none)) == Numbers{1, 1, 1, 1, 1});
}

TEST_CASE("Each row of the table has its own operator, and both types have the same rows") {
    std::vector<std::string> names;
    const training::GradientRow empty{"mine", nullptr};
    CHECK(test::message_of<Error>([&] { training::all_gradient_rows(std::span(&empty, 1)); }) ==
          "the gradient row of \"mine\" has no function `backward`");
    for (const training::GradientRow& row : training::gradient_rows<float>) names.emplace_back(row.op);
    std::vector<std::string> others;
    for (const training::GradientRow& row : training::gradient_rows<double>) others.emplace_back(row.op);
    CHECK(names == others);
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}
