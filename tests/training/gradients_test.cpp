// SPDX-License-Identifier: MIT
//
// Every gradient of a float operator against finite differences of an oracle in double.
#include "intq/training/gradients.hpp"

#include "reference/float_layers.hpp"
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

}  // namespace

TEST_CASE("The gradient of conv2d equals finite differences for stride, dilation, padding and groups") {
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

TEST_CASE("The gradient of a fused convolution reaches the operand of its add, and stops where it clamps") {
    const ConvCase conv{2, 3, 4, 1, {5, 6}, {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}};
    for (const bool add : {false, true})
        for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6}) {
            const nn::Fusion fusion{add, activation};
            check_conv(conv, &fusion);
        }
}

TEST_CASE("The gradient of linear equals finite differences on any rank") {
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

TEST_CASE("The gradient of batch norm goes through the statistics of the batch in training, not in evaluation") {
    for (const Shape& x : {Shape(3, 4, 2, 5), Shape(5, 4, 2), Shape(6, 4)})
        for (const bool training : {true, false}) {
            nn::ModulePtr norm = std::make_shared<nn::BatchNorm2d>(nn::BatchNormOptions{4, 1e-3});
            if (x.rank != 4) norm = std::make_shared<nn::BatchNorm1d>(nn::BatchNormOptions{4, 1e-3});
            norm->tensor("running_mean") = nn::Tensor::from(Shape(4), {0.5f, -1.0f, 2.0f, 0.0f});
            norm->tensor("running_var") = nn::Tensor::from(Shape(4), {0.25f, 1.0f, 4.0f, 9.0f});
            norm->train(training);
            GradientProblem problem{.op = x.rank == 4 ? "batch_norm2d" : "batch_norm1d",
                                    .input_shapes = {x},
                                    .parameters = {"weight", "bias"},
                                    .module = norm};
            problem.output_shape = x;
            problem.oracle = [=](const std::vector<Numbers>& leaves) {
                const Image image = image_of(x, leaves[0]);
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

TEST_CASE("The gradient of a batch norm with a clamp inside is that of both") {
    const Shape x(3, 4, 2, 5);
    for (const Activation activation : {Activation::relu, Activation::relu6})
        for (const bool training : {true, false}) {
            nn::BatchNorm2d norm(nn::BatchNormOptions{4, 1e-3});
            norm.tensor("running_mean") = nn::Tensor::from(Shape(4), {0.5f, -1.0f, 0.25f, 0.0f});
            norm.tensor("running_var") = nn::Tensor::from(Shape(4), {0.01f, 1.0f, 0.04f, 9.0f});
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

TEST_CASE("The gradient of softmax equals finite differences, as a function and as a layer") {
    const Shape shape(2, 4, 3, 2);
    GradientProblem problem{.op = "softmax", .input_shapes = {shape}, .more_inputs = {nn::Value(1)}};
    problem.output_shape = shape;
    problem.oracle = [=](const std::vector<Numbers>& leaves) {
        return float_softmax(image_of(shape, leaves[0])).values;
    };
    check_gradient(problem);
    problem.more_inputs = {nn::Value(-3)};
    check_gradient(problem);
    problem.more_inputs.clear();
    problem.module = std::make_shared<nn::Softmax>(1);
    check_gradient(problem);
    problem.module = std::make_shared<nn::Softmax>(1, true);  // all axes from the channels on, as one
    problem.oracle = [](const std::vector<Numbers>& leaves) {
        return float_softmax(image_of(Shape(2, 24), leaves[0])).values;
    };
    check_gradient(problem);
}

TEST_CASE("The gradients of pooling equal finite differences") {
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
        check_image_operator("avg_pool2d", std::make_shared<nn::AvgPool2d>(padded, divisor), x, shape_of(padded),
                             [&](const Image& image) {
                                 return float_avg_pool2d(image, window_of(padded),
                                                         divisor == PoolDivisor::kernel_cells);
                             });
    for (const Size2d out : {Size2d{1, 1}, Size2d{4, 3}, Size2d{6, 9}})
        check_image_operator(
            "adaptive_avg_pool2d", std::make_shared<nn::AdaptiveAvgPool2d>(out), x, Shape(2, 3, out.height, out.width),
            [&](const Image& image) { return float_adaptive_avg_pool2d(image, out.height, out.width); });
}

TEST_CASE("Equal largest elements: the first in row order takes the gradient") {
    const nn::MaxPool2d pool(nn::square_window(2));
    const std::vector<nn::Value> inputs{nn::Tensor::full(Shape(1, 1, 2, 2), 3.0f)};
    const nn::Value output(nn::Tensor::full(Shape(1, 1, 1, 1), 3.0f));
    const nn::Tensor gradient = nn::Tensor::full(Shape(1, 1, 1, 1), 2.0f);
    nn::MaxPool2d module = pool;
    const training::OperatorCall call{&module, nn::Arguments(inputs), &output, {}};
    training::GradientContext context(call, std::span(&gradient, 1), {});
    training::detail::max_pool2d_backward<float>(context);
    CHECK(test::numbers_of(context.input_gradients()[0][0]) == Numbers{2, 0, 0, 0});
}

TEST_CASE("The gradients of relu, relu6, identity and flatten equal finite differences") {
    const Shape x(3, 4, 2, 5);
    check_image_operator("relu", std::make_shared<nn::ReLU>(), x, x, [](Image image) {
        for (double& value : image.values) value = std::max(value, 0.0);
        return image;
    });
    check_image_operator("relu6", nullptr, x, x, [](Image image) {
        for (double& value : image.values) value = std::min(std::max(value, 0.0), 6.0);
        return image;
    });
    const auto same = [](const Image& image) { return image; };
    check_image_operator("identity", std::make_shared<nn::Identity>(), x, x, same);
    check_image_operator("quant_stub", nullptr, x, x, same);
    check_image_operator("dequant_stub", nullptr, x, x, same);
    check_image_operator("flatten", nullptr, x, Shape(3, 40), same);
}

TEST_CASE("A clamp stops the gradient at its ends, and outside of them") {
    const nn::Tensor y = nn::Tensor::from(Shape(5), {0.0f, 0x1p-100f, 3.0f, 0x1.7fffffep2f, 6.0f});
    const nn::Tensor dy = nn::Tensor::full(Shape(5), 1.0f);
    using test::numbers_of;
    CHECK(numbers_of(training::clamp_gradient<float>(y, dy, Activation::relu)) == Numbers{0, 1, 1, 1, 1});
    CHECK(numbers_of(training::clamp_gradient<float>(y, dy, Activation::relu6))[4] == 0);
    CHECK(numbers_of(training::clamp_gradient<float>(y, dy, Activation::relu6))[2] == 1);
    CHECK(numbers_of(training::clamp_gradient<float>(y, dy, Activation::none)) == Numbers{1, 1, 1, 1, 1});
}

TEST_CASE("The gradient of add reaches both operands, summed over the axes along which one was repeated") {
    const Shape shape(2, 3, 4);
    for (const Shape& second : {shape, Shape(3, 4), Shape(2, 1, 4), Shape(1), Shape(3, 1)}) {
        INFO(nn::to_string(second));
        GradientProblem problem{.op = "add", .input_shapes = {shape, second}};
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
    GradientProblem constant{.op = "add", .input_shapes = {shape}, .more_inputs = {nn::Value(2.5)}};
    constant.output_shape = shape;
    constant.oracle = [](const std::vector<Numbers>& leaves) { return leaves[0]; };
    check_gradient(constant);
}

TEST_CASE("The gradient of cat is cut into its parts") {
    GradientProblem problem{.op = "cat", .input_shapes = {Shape(2, 3, 2), Shape(2, 1, 2), Shape(2, 2, 2)}};
    problem.inputs_in_tuple = true;
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

TEST_CASE("The gradient of dropout has the mask of its own call, also when the layer was called again since") {
    nn::Dropout dropout(0.4, 5);
    const nn::Tensor x = nn::Tensor::full(Shape(200), 1.0f);
    const nn::Value first = dropout(x);
    const training::GradientRow* row = training::find_gradient(training::gradient_rows<float>, "dropout", &dropout);
    const nn::Value saved = row->save(dropout);
    const nn::Value second = dropout(x);
    CHECK(test::numbers_of(first.tensor()) != test::numbers_of(second.tensor()));
    const std::vector<nn::Value> inputs{x};
    const training::OperatorCall call{&dropout, nn::Arguments(inputs), &first, saved};
    training::GradientContext context(call, std::span(&x, 1), {});
    row->backward(context);
    CHECK(test::numbers_of(context.input_gradients()[0][0]) == test::numbers_of(first.tensor()));
    dropout.eval();
    CHECK(row->save(dropout).is_none());
}

TEST_CASE("Each row of the table has its own operator, and both types have the same rows") {
    std::vector<std::string> names;
    for (const training::GradientRow& row : training::gradient_rows<float>) names.emplace_back(row.op);
    std::vector<std::string> others;
    for (const training::GradientRow& row : training::gradient_rows<double>) others.emplace_back(row.op);
    CHECK(names == others);
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}
