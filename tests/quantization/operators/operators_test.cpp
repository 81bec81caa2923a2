// SPDX-License-Identifier: MIT
//
// Operators with an integer form, each in a small model: its program against plain integers, or near the reference.
#include "intq/quantization/operators/operator_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <span>
#include <string_view>

#include "intq/graph/operators.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/observers/range_observers.hpp"
#include "intq/quantization/operators/conv.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "intq/tensor/quantize.hpp"
#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "reference/softmax.hpp"
#include "support/catch.hpp"
#include "support/kept_tensors.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::message_of;
using test::run_and_keep;
using test::stubbed;

namespace {

/// visit(scalar kernels) for all targets.
template <class Visit> void for_each_target(Visit&& visit) {
    for (const kernels::KernelTable* table : test::scalar_tables().tables) visit(*table);
}

QuantizedGraph convert(const nn::Module& model, const arith::PolicyRecord& target, const intq::Tensor& x, DType dtype) {
    const auto prepared = prepare_calibration_fx(model, get_default_qconfig_mapping(target, dtype), target);
    calibrate(*prepared, x, 2);
    return convert_fx(*prepared);
}

using test::sqnr;

/// The program of a model against its reference graph, for all targets that accept it. @return how many did
int compare_with_reference(const nn::Module& model, const intq::Tensor& x, DType dtype, double least_db) {
    int accepted = 0;
    for_each_target([&](const kernels::KernelTable& table) {
        if (dtype == DType::int16 && std::string(table.policy().name) == "bernoulli2") return;
        INFO(table.policy().name << " " << name_of(dtype));
        const QuantizedGraph quantized = convert(model, table.policy(), x, dtype);
        const LoweredModel lowered = lower(quantized, table, 2);
        const intq::Tensor expected = (*make_reference(quantized))(x).tensor(), given = lowered.run(x);
        REQUIRE(given.shape() == expected.shape());
        CHECK(sqnr(expected, given) > least_db);
        ++accepted;
    });
    return accepted;
}

/// A function that reads a tuple: its first item.
nn::Value evaluate_first(std::span<const nn::Value> values) { return values[0].tuple()[0]; }
constexpr nn::Function wrapped_first{"first", &evaluate_first};

nn::ModulePtr softmax_of_last() { return std::make_shared<nn::Softmax>(-1); }

nn::ConvTranspose2dOptions transposed(index_t in, index_t out, Window2d window, Size2d output_padding, index_t groups) {
    return {in, out, window, output_padding, groups, true};
}

}  // namespace

TEST_CASE("A transposed convolution accumulates what scattering each pixel does, in whole numbers") {
    const Window2d plain{{3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}}, wide{{2, 3}, {1, 3}, {0, 2, 0, 2}, {2, 1}},
        cut{{2, 2}, {2, 2}, {1, 1, 1, 1}, {1, 1}};
    for (const nn::ConvTranspose2dOptions& options :
         {transposed(4, 6, plain, {1, 1}, 1), transposed(4, 6, plain, {0, 0}, 2), transposed(3, 2, wide, {0, 1}, 1),
          transposed(6, 6, plain, {1, 0}, 6), transposed(2, 5, cut, {0, 0}, 1)}) {
        const auto conv = std::make_shared<nn::ConvTranspose2d>(options);
        conv->set_weight(test::random_tensor(conv->weight().shape(), 5));
        conv->set_bias(test::random_tensor(Shape(options.out_channels), 6));
        const auto model =
            stubbed({{"up", conv}}, [](test::LambdaModel& m, nn::Arguments x) { return m.call("up", x[0]); });
        const intq::Tensor x = test::random_tensor(Shape(2, options.in_channels, 4, 5), 7);
        for_each_target([&](const kernels::KernelTable& table) {
            INFO(table.policy().name << " in " << options.in_channels << " out " << options.out_channels << " groups "
                                     << options.groups);
            const QuantizedGraph quantized = convert(*model, table.policy(), x, DType::int8);
            const auto codes = run_and_keep(lower(quantized, table, 2), x);
            const intq::Tensor &q = codes.at("quant"), &acc = codes.at("up");
            REQUIRE(acc.dtype() == DType::int32);
            REQUIRE(acc.shape() == conv->apply(x, conv->weight()).shape());

            // The weight as it was: (C, O/groups, KH, KW), one scale for each channel of a group.
            const auto& step = quantized.nodes[1].step_as<WeightedStep>();
            const intq::Tensor real = conv->weight();
            const index_t in = options.in_channels / options.groups, out = options.out_channels / options.groups;
            std::vector<std::int64_t> expected(static_cast<std::size_t>(acc.size()));
            const float s_in = quantized.input(quantized.nodes[1], 0).qparams.scale();
            const std::int64_t zero = quantized.input(quantized.nodes[1], 0).qparams.view().zero_point();
            const auto at = [&](index_t n, index_t o, index_t i, index_t j) -> std::int64_t& {
                return expected[static_cast<std::size_t>(
                    ((n * options.out_channels + o) * acc.extent(2) + i) * acc.extent(3) + j)];
            };
            const auto scale = [&](index_t o) { return step.weight_qparams.scales[static_cast<std::size_t>(o)]; };
            const Window2d& w = options.window;
            for (index_t n = 0; n < 2; ++n)
                for (index_t o = 0; o < options.out_channels; ++o) {
                    const double bias = static_cast<double>(conv->bias().flat<float>()[static_cast<std::size_t>(o)]);
                    auto whole = static_cast<std::int64_t>(
                        std::floor(bias / (static_cast<double>(s_in) * static_cast<double>(scale(o))) + 0.5));
                    if (std::string(table.policy().name) == "bernoulli2") {
                        int shift = 0;
                        while ((std::abs(whole) >> shift) >= 32768) ++shift;
                        whole = (whole >> shift) * (std::int64_t{1} << shift);
                    }
                    for (index_t i = 0; i < acc.extent(2); ++i)
                        for (index_t j = 0; j < acc.extent(3); ++j) at(n, o, i, j) = whole;
                }
            for (index_t n = 0; n < 2; ++n)
                for (index_t c = 0; c < options.in_channels; ++c)
                    for (index_t y = 0; y < 4; ++y)
                        for (index_t z = 0; z < 5; ++z)
                            for (index_t k = 0; k < out; ++k)
                                for (index_t u = 0; u < w.kernel.height; ++u)
                                    for (index_t v = 0; v < w.kernel.width; ++v) {
                                        const index_t i = y * w.stride.height + u * w.dilation.height - w.padding.top;
                                        const index_t j = z * w.stride.width + v * w.dilation.width - w.padding.left;
                                        if (i < 0 || j < 0 || i >= acc.extent(2) || j >= acc.extent(3)) continue;
                                        const index_t o = c / in * out + k;
                                        const float value = real.view<float, 4>()(c, k, u, v);
                                        const std::int64_t code = arith::quantize(value, {scale(o), 0});
                                        at(n, o, i, j) += code * (q.view<std::int8_t, 4>()(n, c, y, z) - zero);
                                    }
            index_t wrong = 0;
            for (std::size_t i = 0; i < expected.size(); ++i) wrong += acc.flat<std::int32_t>()[i] != expected[i];
            CHECK(wrong == 0);
        });
    }
}

TEST_CASE("A one-dimensional convolution is the two-dimensional one on an image of one row") {
    const auto line = std::make_shared<nn::Conv1d>(nn::Conv1dOptions{3, 4, 3, 2, 1, 1, 1, true});
    const auto image =
        std::make_shared<nn::Conv2d>(nn::Conv2dOptions{3, 4, {{1, 3}, {1, 2}, {0, 1, 0, 1}, {1, 1}}, 1, true});
    line->set_weight(test::random_tensor(Shape(4, 3, 3), 3));
    image->set_weight(line->weight().reshape(Shape(4, 3, 1, 3)));
    line->set_bias(test::random_tensor(Shape(4), 4));
    image->set_bias(line->bias());
    const auto body = [](test::LambdaModel& m, nn::Arguments x) { return nn::relu(m.call("conv", x[0])); };
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 9), 8);
    for_each_target([&](const kernels::KernelTable& table) {
        INFO(table.policy().name);
        const auto of_line = convert(*stubbed({{"conv", line}}, body), table.policy(), x, DType::int8);
        const auto of_image =
            convert(*stubbed({{"conv", image}}, body), table.policy(), x.reshape(Shape(2, 3, 1, 9)), DType::int8);
        CHECK(of_line.nodes[1].type == "ConvReLU1d");
        const intq::Tensor a = lower(of_line, table, 2).run(x),
                           b = lower(of_image, table, 2).run(x.reshape(Shape(2, 3, 1, 9)));
        REQUIRE(a.shape() == Shape(2, 4, 5));
        for (std::size_t i = 0; i < a.flat<float>().size(); ++i) CHECK(a.flat<float>()[i] == b.flat<float>()[i]);
    });
}

TEST_CASE("Functions, products, sizes, bounds and means have programs near their reference, on every target") {
    const auto model = stubbed({{"sigmoid", std::make_shared<nn::Sigmoid>()},
                                {"up", std::make_shared<nn::Upsample>(nn::InterpolateOptions{
                                           Size2d{6, 7}, std::nullopt, arith::Resize::half_pixel})}},
                               [](test::LambdaModel& m, nn::Arguments x) {
                                   const nn::Value gate = m.call("sigmoid", x[0]);
                                   const nn::Value gated = x[0] * gate;
                                   const nn::Value bounded = nn::clamp(nn::hardswish(gated), -0.2, 0.9);
                                   const nn::Value larger = m.call("up", nn::pad(bounded, {1, 0, 0, 2}, 0.1));
                                   return nn::mean(nn::leaky_relu(larger, 0.1), {2, 3});
                               });
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 5, 6), 9);
    CHECK(compare_with_reference(*model, x, DType::int8, 20.0) == 7);
    CHECK(compare_with_reference(*model, x, DType::int16, 50.0) == 6);
}

TEST_CASE("int16 tables, products and sizes have programs near their reference") {
    const auto model = stubbed({}, [](test::LambdaModel&, nn::Arguments x) {
        const nn::Value gated = x[0] * nn::tanh(x[0]);
        return nn::interpolate(nn::silu(gated), nn::Value::Tuple{8, 9}, {}, "bilinear", true);
    });
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 5, 6), 9);
    CHECK(compare_with_reference(*model, x, DType::int16, 50.0) == 6);
}

TEST_CASE("What has no integer form in these operators is refused with the node's name") {
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 5, 6), 9);
    const auto message = [&](test::LambdaModel::Forward body) {
        const auto model = stubbed({}, std::move(body));
        return message_of<Error>([&] {
            const kernels::KernelTable& table = *test::scalar_tables().tables[4];
            lower(convert(*model, table.policy(), x, DType::int8), table, 2);
        });
    };
    CHECK(message([](test::LambdaModel&, nn::Arguments a) { return nn::mean(a[0], {0}); }).find("a mean along it") !=
          std::string::npos);
    CHECK(message([](test::LambdaModel&, nn::Arguments a) {
              return nn::pad(a[0], {0, 0, 0, 0, 1, 1}, 0.0);
          }).find("%pad") != std::string::npos);
}

TEST_CASE("A pad that reflects or repeats the edge moves codes, which stay on the grid of its input") {
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 4, 5), 9), line = test::random_tensor(Shape(3, 5, 9), 9);
    for (const char* mode : {"reflect", "replicate"}) {
        INFO(mode);
        const auto around = [&](std::initializer_list<index_t> sides) {
            return stubbed({}, [sides = std::vector<index_t>(sides), mode](test::LambdaModel&, nn::Arguments a) {
                nn::Value::Tuple numbers(sides.begin(), sides.end());
                return nn::call(nn::pad_function, a[0], numbers, mode);
            });
        };
        for (const auto& model : {around({4, 0, 1, 3}), around({0, 0, 2, 0}), around({1, 2}), around({0, 0, 0, 0})}) {
            CHECK(compare_with_reference(*model, x, DType::int8, 1000.0) == 7);
            CHECK(compare_with_reference(*model, x, DType::int16, 1000.0) == 6);
        }
        CHECK(compare_with_reference(*around({8, 3}), line, DType::int8, 1000.0) == 7);
        const kernels::KernelTable& table = *test::scalar_tables().tables[4];
        const QuantizedGraph quantized = convert(*around({1, 1, 1, 1}), table.policy(), x, DType::int8);
        for (const QuantizedNode& node : quantized.nodes)
            if (node.step->kind() == OpKind::pad)
                CHECK(quantized.output(node).qparams == quantized.input(node, 0).qparams);
    }
}

TEST_CASE("interpolate by any factor has a program: the codes of the reference's cells, or their mean") {
    for (const char* mode : {"nearest", "nearest-exact", "bilinear"})
        for (const nn::Value& factor : {nn::Value(1.3), nn::Value(0.6), nn::Value(nn::Value::Tuple{2.0, 1.1})}) {
            INFO(mode);
            const auto model = stubbed(
                {}, [&](test::LambdaModel&, nn::Arguments a) { return nn::interpolate(a[0], {}, factor, mode); });
            const intq::Tensor x = test::random_tensor(Shape(2, 3, 7, 6), 9);
            // Nearest moves codes. A mean lies within 1.5 codes, in int16 257, of about 27 and 6900.
            const double least_db = std::string_view(mode) == "bilinear" ? 25.0 : 200.0;
            CHECK(compare_with_reference(*model, x, DType::int8, least_db) == 7);
            CHECK(compare_with_reference(*model, x, DType::int16, least_db) == 6);
        }
}

TEST_CASE("A linear layer on rows accumulates what plain integers do, on rank 3 and on images, on every target") {
    for (const Shape& shape :
         {Shape(2, 3, 5), Shape(2, 5, 5), Shape(2, 1, 5), Shape(2, 3, 4, 5), Shape(2, 5, 5, 5), Shape(2, 4, 1, 5)}) {
        const auto linear = test::make_linear(5, 4, 3);
        const auto model =
            stubbed({{"fc", linear}}, [](test::LambdaModel& m, nn::Arguments a) { return m.call("fc", a[0]); });
        const intq::Tensor x = test::random_tensor(shape, 4);
        for_each_target([&](const kernels::KernelTable& table) {
            INFO(table.policy().name << " on " << intq::to_string(shape));
            const QuantizedGraph quantized = convert(*model, table.policy(), x, DType::int8);
            const LoweredModel lowered = lower(quantized, table, 2);
            const auto codes = run_and_keep(lowered, x);
            const intq::Tensor q = codes.at("quant").contiguous(), acc = codes.at("fc").contiguous();
            REQUIRE(acc.dtype() == DType::int32);
            const auto& step = quantized.nodes[1].step_as<WeightedStep>();
            const OwnedQParams& in = quantized.input(quantized.nodes[1], 0).qparams;
            const intq::Tensor w = step.weight;
            index_t wrong = 0;
            for (index_t row = 0; row < q.size() / 5; ++row)
                for (index_t o = 0; o < 4; ++o) {
                    const double scale = static_cast<double>(in.scale()) *
                                         static_cast<double>(step.weight_qparams.scales[static_cast<std::size_t>(o)]);
                    const double bias = static_cast<double>(step.bias.flat<float>()[static_cast<std::size_t>(o)]);
                    auto sum = static_cast<std::int64_t>(std::floor(bias / scale + 0.5));
                    if (std::string(table.policy().name) == "bernoulli2") {
                        int shift = 0;
                        while ((std::abs(sum) >> shift) >= 32768) ++shift;
                        sum = sum >> shift << shift;
                    }
                    for (index_t i = 0; i < 5; ++i)
                        sum += std::int64_t{w.flat<std::int8_t>()[static_cast<std::size_t>(o * 5 + i)]} *
                               (q.flat<std::int8_t>()[static_cast<std::size_t>(row * 5 + i)] - in.view().zero_point());
                    wrong += acc.flat<std::int32_t>()[static_cast<std::size_t>(row * 4 + o)] != sum;
                }
            CHECK(wrong == 0);
            const intq::Tensor y = lowered.run(x);
            CHECK(y.shape() == linear->apply(x, linear->weight()).shape());
            CHECK(sqnr(linear->apply(x, linear->weight()), y) > 30.0);
        });
    }
}

TEST_CASE("Linear layers on rows run beside convolutions, adds and each other, near their reference and as simulated") {
    const auto model = stubbed({{"conv", test::make_conv(3, 3, 3, 1)},
                                {"fc", test::make_linear(6, 6, 2)},
                                {"deep", test::make_linear(6, 6, 3)},
                                {"side", test::make_linear(6, 6, 4)},
                                {"head", test::make_linear(6, 4, 5)}},
                               [](test::LambdaModel& m, nn::Arguments a) {
                                   const nn::Value image = nn::relu(m.call("conv", a[0]));
                                   const nn::Value deep = m.call("deep", nn::relu(m.call("fc", image)));
                                   const nn::Value sum = nn::relu(m.call("side", deep) + image);
                                   return m.call("head", nn::sigmoid(sum));
                               });
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 5, 6), 9);
    CHECK(compare_with_reference(*model, x, DType::int8, 20.0) == 7);
    CHECK(compare_with_reference(*model, x, DType::int16, 50.0) == 6);
    for_each_target([&](const kernels::KernelTable& table) {
        INFO(table.policy().name);
        const auto prepared = prepare_calibration_fx(*model, get_default_qconfig_mapping(), table.policy());
        calibrate(*prepared, x, 2);
        ExactSimulation simulation(*prepared, table, 4);
        const intq::Tensor y = lower(convert_fx(*prepared), table, 4).run(x);
        CHECK(test::largest_difference(simulation.run(std::span(&x, 1))[0], y) == 0.0);
    });
}

namespace {

/// A model without layers that change a layout: on every target it is near its reference and as simulated.
///
/// @return how often an instruction of these kinds is in the program of each target, which is the same for all
int count_in_programs(const nn::Module& model, const intq::Tensor& x, std::initializer_list<OpKind> kinds) {
    CHECK(compare_with_reference(model, x, DType::int8, 20.0) == 7);
    CHECK(compare_with_reference(model, x, DType::int16, 50.0) == 6);
    int counted = -1;
    for_each_target([&](const kernels::KernelTable& table) {
        INFO(table.policy().name << " on " << intq::to_string(x.shape()));
        const auto prepared = prepare_calibration_fx(model, get_default_qconfig_mapping(), table.policy());
        calibrate(*prepared, x, 2);
        ExactSimulation simulation(*prepared, table, 4);
        const LoweredModel lowered = lower(convert_fx(*prepared), table, 4);
        CHECK(test::largest_difference(simulation.run(std::span(&x, 1))[0], lowered.run(x)) == 0.0);
        int count = 0;
        for (const auto& instruction : lowered.program().program().instructions)
            count += static_cast<int>(std::count(kinds.begin(), kinds.end(), instruction.op));
        CHECK((counted == -1 || counted == count));
        counted = count;
    });
    return counted;
}

}  // namespace

TEST_CASE("A linear layer of one feature is one on rows of any rank, and its channels are its own") {
    const auto model =
        stubbed({{"one", test::make_linear(1, 7, 2)}, {"two", test::make_linear(7, 1, 3)}},
                [](test::LambdaModel& m, nn::Arguments a) { return m.call("two", nn::relu(m.call("one", a[0]))); });
    for (const Shape& shape : {Shape(4, 9, 1), Shape(4, 9, 4, 1)}) {
        CHECK(compare_with_reference(*model, test::random_tensor(shape, 9), DType::int8, 20.0) == 7);
        CHECK(compare_with_reference(*model, test::random_tensor(shape, 9), DType::int16, 50.0) == 6);
    }
}

TEST_CASE("What computes element by element between linear layers on rows moves no codes") {
    const auto model = stubbed({{"in", test::make_linear(6, 5, 2)},
                                {"deep", test::make_linear(5, 5, 3)},
                                {"head", test::make_linear(5, 4, 5)}},
                               [](test::LambdaModel& m, nn::Arguments a) {
                                   const nn::Value in = m.call("in", a[0]);
                                   const nn::Value sum = m.call("deep", nn::gelu(in)) + in;
                                   const nn::Value gated = nn::relu(sum * nn::sigmoid(sum));
                                   return m.call("head", nn::clamp(gated - in, -1.5, 1.0));
                               });
    for (const Shape& shape : {Shape(4, 7, 6), Shape(4, 3, 7, 6)})
        CHECK(count_in_programs(*model, test::random_tensor(shape, 9), {OpKind::layout_change}) == 1);  // of the input
}

TEST_CASE("The channels of an image are features of rows, and back, where they lie") {
    const auto model = stubbed({{"in", test::make_conv(3, 6, 3, 1)},
                                {"norm", std::make_shared<nn::LayerNorm>(Shape(6))},
                                {"up", test::make_linear(6, 8, 2)},
                                {"down", test::make_linear(8, 6, 3)},
                                {"out", test::make_conv(6, 4, 3, 5)}},
                               [](test::LambdaModel& m, nn::Arguments a) {
                                   const nn::Value image = m.call("in", a[0]);
                                   const nn::Value rows = m.call("norm", nn::permute(image, {0, 2, 3, 1}));
                                   const nn::Value deep = m.call("down", nn::gelu(m.call("up", rows)));
                                   return m.call("out", nn::permute(deep, {0, 3, 1, 2}) + image);
                               });
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 5, 6), 9);
    // bernoulli2 has no layer norm.
    const auto without_norm = stubbed({{"in", test::make_conv(3, 6, 3, 1)},
                                       {"up", test::make_linear(6, 8, 2)},
                                       {"down", test::make_linear(8, 6, 3)},
                                       {"out", test::make_conv(6, 4, 3, 5)}},
                                      [](test::LambdaModel& m, nn::Arguments a) {
                                          const nn::Value image = m.call("in", a[0]);
                                          const nn::Value rows = m.call("up", nn::permute(image, {0, 2, 3, 1}));
                                          const nn::Value deep = m.call("down", nn::gelu(rows));
                                          return m.call("out", nn::permute(deep, {0, 3, 1, 2}) + image);
                                      });
    CHECK(count_in_programs(*without_norm, x, {OpKind::layout_change, OpKind::permute}) == 0);
    for_each_target([&](const kernels::KernelTable& table) {
        if (std::string_view(table.policy().name) == "bernoulli2") return;
        INFO(table.policy().name);
        const LoweredModel lowered = lower(convert(*model, table.policy(), x, DType::int8), table, 4);
        std::map<OpKind, int> kinds;
        for (const auto& instruction : lowered.program().program().instructions) ++kinds[instruction.op];
        CHECK(kinds[OpKind::layout_change] + kinds[OpKind::permute] == 0);
        CHECK(kinds[OpKind::reshape] == 2);  // to rows, where the image is used again, and back in its place
    });
}

TEST_CASE("A mean along any axes averages the codes of lines, and moves none where features lie in rows") {
    const auto mean_of = [](std::initializer_list<index_t> axes, bool keepdim) {
        return stubbed({{"in", test::make_linear(6, 6, 2)}}, [=](test::LambdaModel& m, nn::Arguments a) {
            return nn::relu(nn::mean(m.call("in", a[0]), axes, keepdim));
        });
    };
    const intq::Tensor tokens = test::random_tensor(Shape(4, 7, 6), 9),
                       images = test::random_tensor(Shape(4, 3, 5, 6), 10);
    // bernoulli2's windows end at 7.
    CHECK(compare_with_reference(*mean_of({1}, false), tokens, DType::int8, 20.0) == 7);
    CHECK(compare_with_reference(*mean_of({1}, true), tokens, DType::int16, 50.0) == 6);
    CHECK(compare_with_reference(*mean_of({1}, false), images, DType::int8, 20.0) == 7);
    CHECK(compare_with_reference(*mean_of({-1}, true), images, DType::int8, 20.0) == 7);
    CHECK(compare_with_reference(*mean_of({1, 3}, true), images, DType::int16, 50.0) == 6);
    CHECK(compare_with_reference(*mean_of({2, 1, 3}, true), images, DType::int16, 50.0) == 6);
    const LoweredModel lowered =
        lower(convert(*mean_of({1}, false), test::scalar_tables().tables[0]->policy(), tokens, DType::int8),
              *test::scalar_tables().tables[0], 4);
    std::map<OpKind, int> kinds;
    for (const auto& instruction : lowered.program().program().instructions) ++kinds[instruction.op];
    CHECK(kinds[OpKind::layout_change] == 1);  // of the input
    CHECK(kinds[OpKind::permute] == 0);
}

TEST_CASE("A sum along any axes is a mean of lines on another grid, and divides a value by it") {
    const auto sum_of = [](std::initializer_list<index_t> axes, bool keepdim) {
        return stubbed({{"in", test::make_linear(6, 6, 2)}}, [=](test::LambdaModel& m, nn::Arguments a) {
            return nn::relu(nn::sum(m.call("in", a[0]), axes, keepdim));
        });
    };
    const intq::Tensor tokens = test::random_tensor(Shape(4, 7, 6), 9),
                       images = test::random_tensor(Shape(4, 3, 5, 6), 10);
    CHECK(compare_with_reference(*sum_of({1}, false), tokens, DType::int8, 20.0) == 7);
    CHECK(compare_with_reference(*sum_of({2, 3}, false), images, DType::int16, 50.0) == 6);
    CHECK(compare_with_reference(*sum_of({1, -1}, true), images, DType::int16, 50.0) == 6);
    const auto model = sum_of({2, 3}, true);
    const LoweredModel lowered = lower(convert(*model, test::scalar_tables().tables[0]->policy(), images, DType::int8),
                                       *test::scalar_tables().tables[0], 4);
    std::map<OpKind, int> kinds;
    for (const auto& instruction : lowered.program().program().instructions) ++kinds[instruction.op];
    CHECK(kinds[OpKind::avg_pool2d] == 1);
    CHECK(kinds[OpKind::permute] == 0);
    const auto share = stubbed({}, [](test::LambdaModel&, nn::Arguments a) {
        const nn::Value parts = nn::softmax(a[0], -1);
        return parts * nn::reciprocal(nn::sum(parts, {-1}, true));
    });
    CHECK(compare_with_reference(*share, tokens, DType::int8, 20.0) == 7);
}

TEST_CASE("maximum and minimum compare codes on the grid of their output, and move none of images") {
    for (const bool is_maximum : {true, false}) {
        const auto extreme = [=](const nn::Value& a, const nn::Value& b) {
            return is_maximum ? nn::maximum(a, b) : nn::minimum(a, b);
        };
        const auto of_images =
            stubbed({}, [=](test::LambdaModel&, nn::Arguments a) { return extreme(a[0], nn::tanh(a[0] * 3.0) * 0.5); });
        const auto of_rows = stubbed({{"in", test::make_linear(6, 6, 2)}}, [=](test::LambdaModel& m, nn::Arguments a) {
            const nn::Value y = m.call("in", a[0]);
            return nn::relu(extreme(y, nn::tanh(y)));
        });
        const intq::Tensor images = test::random_tensor(Shape(4, 3, 5, 6), 10),
                           tokens = test::random_tensor(Shape(4, 7, 6), 9),
                           vectors = test::random_tensor(Shape(4, 6), 9);
        INFO("maximum " << is_maximum);
        CHECK(compare_with_reference(*of_images, images, DType::int8, 25.0) == 7);
        CHECK(compare_with_reference(*of_images, images, DType::int16, 50.0) == 6);
        CHECK(compare_with_reference(*of_rows, tokens, DType::int8, 20.0) == 7);
        CHECK(compare_with_reference(*of_rows, tokens, DType::int16, 50.0) == 6);
        CHECK(compare_with_reference(*of_rows, vectors, DType::int8, 20.0) == 7);
        const LoweredModel lowered =
            lower(convert(*of_images, test::scalar_tables().tables[0]->policy(), images, DType::int8),
                  *test::scalar_tables().tables[0], 4);
        std::map<OpKind, int> kinds;
        for (const auto& instruction : lowered.program().program().instructions) ++kinds[instruction.op];
        CHECK(kinds[OpKind::max_pool2d] == 1);
        CHECK(kinds[OpKind::permute] + kinds[OpKind::reshape] == 0);
    }
    const auto repeated = stubbed({}, [](test::LambdaModel&, nn::Arguments a) {
        return nn::maximum(a[0], nn::mean(a[0], {2, 3}, true));
    });
    const std::string refusal = message_of<Error>([&] {
        const kernels::KernelTable& table = *test::scalar_tables().tables[0];
        lower(convert(*repeated, table.policy(), test::random_tensor(Shape(4, 3, 5, 6), 10), DType::int8), table, 4);
    });
    INFO(refusal);
    CHECK(refusal.find("operands of one shape are compared, given (2, 3, 5, 6) and (2, 3, 1, 1); expand the smaller") !=
          std::string::npos);
}

TEST_CASE("Attention multiplies queries, keys and values where linear layers left them, and moves its result once") {
    const auto model = stubbed(
        {{"qkv", test::make_linear(6, 24, 2)}, {"out", test::make_linear(8, 6, 3)}, {"softmax", softmax_of_last()}},
        [](test::LambdaModel& m, nn::Arguments a) {
            const nn::Value qkv = m.call("qkv", a[0]);  // (N, T, 3·heads·4)
            const auto heads = [&](index_t first) {
                const nn::Value part = nn::slice(qkv, 2, 8 * first, 8 * first + 8);
                return nn::permute(nn::reshape(part, {-1, 7, 2, 4}), {0, 2, 1, 3});
            };
            const nn::Value scores = nn::matmul(heads(0) * 0.5, nn::transpose(heads(1), -1, -2));
            const nn::Value mixed = nn::matmul(m.call("softmax", scores), heads(2));
            return m.call("out", nn::reshape(nn::permute(mixed, {0, 2, 1, 3}), {-1, 7, 8}));
        });
    const intq::Tensor x = test::random_tensor(Shape(4, 7, 6), 9);
    int programs = 0;
    for_each_target([&](const kernels::KernelTable& table) {
        if (table.matmul.empty()) return;
        INFO(table.policy().name);
        const auto prepared = prepare_calibration_fx(*model, get_default_qconfig_mapping(), table.policy());
        calibrate(*prepared, x, 2);
        const QuantizedGraph quantized = convert_fx(*prepared);
        ExactSimulation simulation(*prepared, table, 4);
        const LoweredModel lowered = lower(quantized, table, 4);
        CHECK(test::largest_difference(simulation.run(std::span(&x, 1))[0], lowered.run(x)) == 0.0);
        CHECK(sqnr((*make_reference(quantized))(x).tensor(), lowered.run(x)) > 20.0);
        std::map<OpKind, int> kinds;
        for (const auto& instruction : lowered.program().program().instructions) ++kinds[instruction.op];
        CHECK(kinds[OpKind::matmul] == 2);
        CHECK(kinds[OpKind::layout_change] == 1);  // of the input
        CHECK(kinds[OpKind::permute] + kinds[OpKind::slice] == 0);
        CHECK(kinds[OpKind::reshape] == 2);  // of the queries, which are scaled, and of the result
        ++programs;
    });
    CHECK(programs == 6);
}

TEST_CASE("Tokens are joined where linear layers left them, a class token in front and features beside features") {
    const auto model = stubbed({{"embed", test::make_linear(6, 8, 2)},
                                {"other", test::make_linear(6, 4, 3)},
                                {"out", test::make_linear(12, 5, 4)}},
                               [](test::LambdaModel& m, nn::Arguments a) {
                                   const nn::Value token = nn::expand(m.tensor("token"), {nn::size(a[0], 0), -1, -1});
                                   const nn::Value both = nn::cat({m.call("embed", a[0]), m.call("other", a[0])}, 2);
                                   return m.call("out", nn::cat({token, nn::cat({both, nn::relu(both)}, 1)}, 1));
                               });
    model->add_parameter("token", test::random_tensor(Shape(1, 1, 12), 5));
    const intq::Tensor x = test::random_tensor(Shape(4, 7, 6), 9);
    CHECK(compare_with_reference(*model, x, DType::int16, 60.0) > 4);
    for_each_target([&](const kernels::KernelTable& table) {
        INFO(table.policy().name);
        const auto prepared = prepare_calibration_fx(*model, get_default_qconfig_mapping(), table.policy());
        calibrate(*prepared, x, 2);
        const QuantizedGraph quantized = convert_fx(*prepared);
        ExactSimulation simulation(*prepared, table, 4);
        const LoweredModel lowered = lower(quantized, table, 3);
        CHECK(test::largest_difference(simulation.run(std::span(&x, 1))[0], lowered.run(x)) == 0.0);
        CHECK(sqnr((*make_reference(quantized))(x).tensor(), lowered.run(x)) > 25.0);
        std::map<OpKind, int> kinds;
        for (const auto& instruction : lowered.program().program().instructions) ++kinds[instruction.op];
        CHECK(kinds[OpKind::cat] == 3);
        CHECK(kinds[OpKind::layout_change] == 1);  // of the input
        CHECK(kinds[OpKind::reshape] == 0);
    });
}

namespace {

/// Programs that for_each_program() makes at least: of all backends, of which there are three or more unless sanitizers
/// are built in.
int least_programs(DType dtype) {
    const int targets = dtype == DType::int8 ? 6 : 5;
    return std::min<int>(3, static_cast<int>(test::usable_backend_tables().size())) * targets;
}

/// A model without weights, its program on every backend of every target that takes the type: what the instructions
/// wrote, to be compared with the codes that the QuantStub gave. @return how many programs there were
template <class Check>
int for_each_program(const test::LambdaModel::Forward& body, const intq::Tensor& x, DType dtype, const Check& check) {
    const auto model = stubbed({}, body);
    int programs = 0;
    for (std::size_t target = 0; target < test::oracle_targets().size(); ++target) {
        if (test::bits_of(dtype) > test::oracle_targets()[target].widest_activation) continue;
        const QuantizedGraph quantized = convert(*model, test::scalar_tables().tables[target]->policy(), x, dtype);
        for (const test::BackendTables& backend : test::usable_backend_tables()) {
            const kernels::KernelTable& table = *backend.tables[target];
            INFO(table.policy().name << " on " << table.backend << ", " << name_of(dtype));
            const LoweredModel lowered = lower(quantized, table, 3);
            check(target, quantized, run_and_keep(lowered, x), lowered.run(x));
            ++programs;
        }
    }
    return programs;
}

/// Real values of codes, as the DeQuantStub gives them.
void check_real(const intq::Tensor& given, const intq::Tensor& codes, const intq::OwnedQParams& qparams) {
    REQUIRE(given.shape() == codes.shape());
    CHECK(test::largest_difference(given, dequantize(codes.contiguous(), qparams)) == 0.0);
}

/// A program whose end is codes that were moved: they are those that the same function moves, at the same scale.
void check_moved(const test::LambdaModel::Forward& body, const Shape& shape) {
    for (const DType dtype : {DType::int8, DType::int16}) {
        const intq::Tensor x = test::random_tensor(shape, 12);
        const int programs = for_each_program(
            body, x, dtype,
            [&](std::size_t, const QuantizedGraph& quantized, const auto& codes, const intq::Tensor& y) {
                auto inner = test::LambdaModel({}, {});
                const std::array<nn::Value, 1> given{codes.at("quant")};
                const intq::Tensor moved = body(inner, nn::Arguments(given)).tensor();
                check_real(y, moved, quantized.output(quantized.nodes[0]).qparams);
            });
        CHECK(programs >= least_programs(dtype));
    }
}

}  // namespace

TEST_CASE("A difference is the oracle's code for code, on every target and backend, with and without a relu") {
    for (const DType dtype : {DType::int8, DType::int16})
        for (const bool with_relu : {false, true}) {
            const intq::Tensor x = test::random_tensor(Shape(3, 5, 4, 7), 11);
            const int programs = for_each_program(
                [&](test::LambdaModel&, nn::Arguments a) {
                    const nn::Value difference = a[0] - nn::clamp(a[0], -0.5, 0.25) * a[0];
                    return with_relu ? nn::relu(difference) : difference;
                },
                x, dtype,
                [&](std::size_t target, const QuantizedGraph& quantized, const auto& codes, const intq::Tensor& y) {
                    const QuantizedNode* node = nullptr;
                    for (const QuantizedNode& other : quantized.nodes)
                        if (other.step->kind() == OpKind::sub) node = &other;
                    REQUIRE(node != nullptr);
                    const auto qparams_of = [&](const QuantizedTensor& tensor) {
                        const QParams q = tensor.qparams.view();
                        return test::Codes{q.scale(), q.zero_point(), tensor.dtype}.for_oracle();
                    };
                    const auto out = qparams_of(quantized.output(*node));
                    const intq::Tensor &first = codes.at("quant"), &second = codes.at("mul");
                    intq::Tensor expected = first.clone();
                    const auto compute = [&](auto code) {
                        using Code = decltype(code);
                        for (std::size_t i = 0; i < expected.flat<Code>().size(); ++i)
                            expected.flat<Code>()[i] = static_cast<Code>(test::oracle::apply_activation(
                                test::oracle::add_codes(test::oracle_targets()[target], first.flat<Code>()[i],
                                                        qparams_of(quantized.input(*node, 0)), second.flat<Code>()[i],
                                                        qparams_of(quantized.input(*node, 1)), out, true),
                                with_relu ? test::oracle::Activation::relu : test::oracle::Activation::none, out));
                    };
                    dtype == DType::int8 ? compute(std::int8_t{}) : compute(std::int16_t{});
                    check_real(y, expected, quantized.output(*node).qparams);
                });
            CHECK(programs >= least_programs(dtype));
        }
}

TEST_CASE("A softmax is the oracle's code for code, along any axis, on every target and backend") {
    const intq::Tensor x = test::random_tensor(Shape(3, 5, 4, 7), 11, 2.0f);
    for (const int axis : {1, 2, -1}) {
        const int along = axis < 0 ? axis + 4 : axis;
        const int programs = for_each_program(
            [&](test::LambdaModel&, nn::Arguments a) { return nn::softmax(a[0], axis); }, x, DType::int8,
            [&](std::size_t target, const QuantizedGraph& quantized, const auto& codes, const intq::Tensor& y) {
                const QuantizedNode& node = quantized.nodes.at(1);
                REQUIRE(node.step->kind() == OpKind::softmax);
                const QParams in = quantized.input(node, 0).qparams.view(), q = quantized.output(node).qparams.view();
                const auto out = test::Codes{q.scale(), q.zero_point(), DType::int8}.for_oracle();
                intq::Tensor expected = codes.at("quant").clone();
                const index_t count = expected.extent(along),
                              inner = expected.strides()[static_cast<std::size_t>(along)];
                const auto flat = expected.flat<std::int8_t>();
                for (index_t first = 0; first < expected.size(); ++first) {
                    if (first / inner % count != 0) continue;
                    std::vector<std::int64_t> row;
                    for (index_t k = 0; k < count; ++k)
                        row.push_back(flat[static_cast<std::size_t>(first + k * inner)]);
                    const test::oracle::Target by = test::oracle_targets()[target];
                    const bool single = by.kind == test::oracle::Target::Kind::tflite_single;
                    std::vector<std::int64_t> y_row = by.is_tflite()
                                                          ? test::oracle::tflite_softmax(row, in.scale(), 8, single)
                                                          : test::oracle::softmax_probabilities(row, in.scale());
                    if (by.is_tflite())
                        CHECK((q.scale() == 0x1p-8f && q.zero_point() == -128));
                    else
                        for (auto& p : y_row) p = test::oracle::requantize_probability(by, p, out);
                    for (index_t k = 0; k < count; ++k)
                        flat[static_cast<std::size_t>(first + k * inner)] =
                            static_cast<std::int8_t>(y_row[static_cast<std::size_t>(k)]);
                }
                check_real(y, expected, quantized.output(node).qparams);
            });
        CHECK(programs >= least_programs(DType::int8));
    }
}

TEST_CASE("Codes that are sliced, permuted and reshaped are those codes elsewhere, on every target and backend") {
    const Shape image(3, 4, 5, 6);
    using test::LambdaModel;
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::slice(a[0], 1, 1, 3); }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::slice(a[0], 2, -4, {}, 3); }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::slice(a[0], -1, 0, 5, 2); }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::permute(a[0], {0, 3, 1, 2}); }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::transpose(a[0], 1, -2); }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::permute(a[0], {0, 2, 4, 3, 1}); }, Shape(3, 2, 3, 4, 5));
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::reshape(a[0], {-1, 8, 15}); }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::reshape(a[0], {-1, 1, 24, 5}); }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::reshape(a[0], {-1, 120}); }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::reshape(a[0], {-1, 3, 2, 2}); }, Shape(3, 12));
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::flatten(a[0], 2); }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::flatten(a[0], 1, 2); }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::flatten(nn::slice(a[0], 3, 0, 1), 1); }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::slice(a[0], 1, -1, {}, -1); }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::slice(a[0], 3, 4, 0, -2); }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::slice(a[0], 2, 3, {}, -100); }, image);
}

namespace {

/// The instructions of one kind that a model's program has.
int count_moves(const test::LambdaModel::Forward& body, const Shape& shape) {
    const kernels::KernelTable& table = *test::scalar_tables().tables[0];
    const auto model = stubbed({}, body);
    const LoweredModel lowered =
        lower(convert(*model, table.policy(), test::random_tensor(shape, 12), DType::int8), table, 3);
    int moves = 0;
    for (const runtime::Instruction& instruction : lowered.program().program().instructions)
        for (const OpKind op : {OpKind::slice, OpKind::permute, OpKind::reshape}) moves += instruction.op == op ? 1 : 0;
    return moves;
}

}  // namespace

TEST_CASE("Codes that several operators move are moved once; what no single move does is moved in steps") {
    using test::LambdaModel;
    const auto check = [](const LambdaModel::Forward& body, const Shape& shape, int moves) {
        check_moved(body, shape);
        CHECK(count_moves(body, shape) == moves);
    };
    const auto shuffled = [](const nn::Value& x) {
        return nn::reshape(nn::transpose(nn::reshape(x, {-1, 2, 3, 4, 5}), 1, 2), {-1, 6, 4, 5});
    };
    const Shape image(3, 6, 4, 5);
    check([&](LambdaModel&, nn::Arguments a) { return shuffled(a[0]); }, image, 1);
    check([&](LambdaModel&, nn::Arguments a) { return nn::chunk(shuffled(a[0]), 3, 1)[1]; }, image, 1);
    // A piece that ends inside of a group of the shuffle is a slice of its own.
    check([&](LambdaModel&, nn::Arguments a) { return nn::slice(shuffled(a[0]), 1, 1, 4); }, image, 2);
    check([&](LambdaModel&, nn::Arguments a) { return nn::slice(shuffled(a[0]), 1, 3, 4); }, image, 1);
    check([](LambdaModel&, nn::Arguments a) { return nn::slice(nn::slice(a[0], 2, 1, 4, 2), 3, -1, {}, -2); }, image,
          1);
    check(
        [](LambdaModel&, nn::Arguments a) {
            return nn::permute(nn::permute(a[0], {0, 2, 3, 1}), {0, 2, 1, 3});
        },
        image, 1);
    check([](LambdaModel&, nn::Arguments a) { return nn::reshape(nn::flatten(a[0], 1), {-1, 3, 40}); }, image, 1);
    // 5 does not divide the 6 channels: the flatten writes its vector, which is no move, and the reshape moves that.
    check([](LambdaModel&, nn::Arguments a) { return nn::reshape(nn::flatten(a[0], 1), {-1, 5, 24}); }, image, 1);
    // 4 does not divide 6: the image becomes a vector first.
    check([](LambdaModel&, nn::Arguments a) { return nn::reshape(a[0], {-1, 4, 9}); }, Shape(3, 6, 6), 2);
    // Transposed, channels last is row_major, which any shape divides.
    check(
        [](LambdaModel&, nn::Arguments a) {
            return nn::reshape(nn::transpose(a[0], 1, 2), {-1, 4, 9});
        },
        Shape(3, 6, 6), 1);
    // Six factors and more than one instruction takes.
    check(
        [](LambdaModel&, nn::Arguments a) {
            const nn::Value apart = nn::permute(nn::reshape(a[0], {-1, 2, 2, 2, 2, 2}), {0, 5, 3, 1, 4, 2});
            return nn::permute(nn::reshape(apart, {-1, 4, 4, 2}), {0, 3, 1, 2});
        },
        Shape(3, 32), 1);
}

namespace {

/// Code i of a tensor of codes, as the oracle takes it.
std::int64_t code_at(const intq::Tensor& codes, index_t i) {
    const auto at = static_cast<std::size_t>(i);
    return codes.dtype() == DType::int8 ? codes.flat<std::int8_t>()[at] : codes.flat<std::int16_t>()[at];
}

void set_code(intq::Tensor& codes, index_t i, std::int64_t code) {
    const auto at = static_cast<std::size_t>(i);
    if (codes.dtype() == DType::int8)
        codes.flat<std::int8_t>()[at] = static_cast<std::int8_t>(code);
    else
        codes.flat<std::int16_t>()[at] = static_cast<std::int16_t>(code);
}

test::oracle::QParams oracle_qparams(const QuantizedTensor& tensor) {
    const QParams q = tensor.qparams.view();
    return test::Codes{q.scale(), q.zero_point(), tensor.dtype}.for_oracle();
}

/// The element of `operand` that a broadcast to `whole` reads for its element i; both row_major.
index_t broadcast_place(index_t i, const Shape& whole, const Shape& operand) {
    index_t place = 0, step = 1;
    for (int axis = whole.rank - 1; axis >= 0; --axis) {
        const index_t at = i % whole[axis];
        i /= whole[axis];
        if (operand[axis] != 1) place += at * step;
        step *= operand[axis];
    }
    return place;
}

const QuantizedNode* find_step(const QuantizedGraph& quantized, OpKind kind) {
    const QuantizedNode* found = nullptr;
    for (const QuantizedNode& node : quantized.nodes)
        if (node.step->kind() == kind) found = &node;
    return found;
}

/// `body` ends in a product, sum or difference of %quant and `other`, whose operands are broadcast.
void check_broadcast(OpKind kind, const test::LambdaModel::Forward& body, const char* other, bool other_is_first,
                     const Shape& shape) {
    for (const DType dtype : {DType::int8, DType::int16}) {
        const int programs = for_each_program(
            body, test::random_tensor(shape, 11), dtype,
            [&](std::size_t target, const QuantizedGraph& quantized, const auto& codes, const intq::Tensor& y) {
                const QuantizedNode* const node = find_step(quantized, kind);
                REQUIRE(node != nullptr);
                // A function whose name Python has is numbered: slice_1.
                const auto found = codes.lower_bound(other);
                REQUIRE((found != codes.end() && found->first.rfind(other, 0) == 0));
                const intq::Tensor &whole = codes.at("quant"), &part = found->second;
                const intq::Tensor a = (other_is_first ? part : whole).contiguous(),
                                   b = (other_is_first ? whole : part).contiguous();
                REQUIRE(!(a.shape() == b.shape()));
                const auto in_a = oracle_qparams(quantized.input(*node, 0)),
                           in_b = oracle_qparams(quantized.input(*node, 1)),
                           out = oracle_qparams(quantized.output(*node));
                const test::oracle::Target oracle = test::oracle_targets()[target];
                intq::Tensor expected = intq::Tensor::empty(y.shape(), dtype);
                for (index_t i = 0; i < y.size(); ++i) {
                    const std::int64_t x = code_at(a, broadcast_place(i, y.shape(), a.shape())),
                                       z = code_at(b, broadcast_place(i, y.shape(), b.shape()));
                    set_code(expected, i,
                             kind == OpKind::mul
                                 ? test::oracle::mul_codes(oracle, x, in_a, z, in_b, out)
                                 : test::oracle::add_codes(oracle, x, in_a, z, in_b, out, kind == OpKind::sub));
                }
                check_real(y, expected, quantized.output(*node).qparams);
            });
        CHECK(programs >= (dtype == DType::int8 ? 18 : 15));
    }
}

}  // namespace

TEST_CASE("Products, sums and differences of broadcast operands are the oracle's code for code") {
    using test::LambdaModel;
    const Shape image(3, 21, 4, 7);
    // One value a channel, as squeeze-excite has it; one a pixel; one a column; both sides broadcast.
    const auto channels = [](const nn::Value& x) { return nn::mean(x, {2, 3}, true); };
    const auto pixels = [](const nn::Value& x) { return nn::slice(x, 1, 2, 3); };
    const auto columns = [](const nn::Value& x) { return nn::slice(x, 2, 1, 2); };
    check_broadcast(
        OpKind::mul, [&](LambdaModel&, nn::Arguments a) { return a[0] * channels(a[0]); }, "mean", false, image);
    check_broadcast(
        OpKind::mul, [&](LambdaModel&, nn::Arguments a) { return channels(a[0]) * a[0]; }, "mean", true, image);
    check_broadcast(
        OpKind::mul, [&](LambdaModel&, nn::Arguments a) { return pixels(a[0]) * a[0]; }, "slice", true, image);
    check_broadcast(
        OpKind::mul, [&](LambdaModel&, nn::Arguments a) { return a[0] * pixels(a[0]); }, "slice", false,
        Shape(3, 600, 2, 2));
    check_broadcast(
        OpKind::mul, [&](LambdaModel&, nn::Arguments a) { return a[0] * nn::slice(a[0], 2, 0, 1); }, "slice", false,
        Shape(3, 5, 6));
    check_broadcast(
        OpKind::add, [&](LambdaModel&, nn::Arguments a) { return a[0] + channels(a[0]); }, "mean", false, image);
    check_broadcast(
        OpKind::add, [&](LambdaModel&, nn::Arguments a) { return columns(a[0]) + a[0]; }, "slice", true, image);
    check_broadcast(
        OpKind::sub, [&](LambdaModel&, nn::Arguments a) { return a[0] - channels(a[0]); }, "mean", false, image);
    check_broadcast(
        OpKind::sub, [&](LambdaModel&, nn::Arguments a) { return pixels(a[0]) - a[0]; }, "slice", true, image);
    const auto model = stubbed({}, [&](LambdaModel&, nn::Arguments a) {
        return channels(a[0]) * nn::slice(a[0], 1, 0, 1) + nn::slice(a[0], 3, 2, 3);
    });
    CHECK(compare_with_reference(*model, test::random_tensor(image, 5), DType::int8, 25.0) == 7);
}

TEST_CASE("A join along any axis is the oracle's code for code") {
    using test::LambdaModel;
    const Shape image(3, 5, 4, 7);
    for (const int axis : {1, 2, 3, -1}) {
        INFO(axis);
        for (const DType dtype : {DType::int8, DType::int16})
            for_each_program(
                [&](LambdaModel&, nn::Arguments a) {
                    return nn::cat({a[0], nn::clamp(a[0], -0.25, 0.5) + a[0], a[0]}, axis);
                },
                test::random_tensor(image, 11), dtype,
                [&](std::size_t target, const QuantizedGraph& quantized, const auto& codes, const intq::Tensor& y) {
                    const QuantizedNode* const node = find_step(quantized, OpKind::cat);
                    REQUIRE(node != nullptr);
                    const auto out = oracle_qparams(quantized.output(*node));
                    std::vector<intq::Tensor> parts;
                    for (std::size_t i = 0; i < 3; ++i) {
                        intq::Tensor part = codes.at(i == 1 ? "add" : "quant").contiguous().clone();
                        part.set_qparams(std::nullopt);
                        const auto in = oracle_qparams(quantized.input(*node, i));
                        for (index_t k = 0; k < part.size(); ++k)
                            set_code(part, k,
                                     test::oracle::requantize_code(test::oracle_targets()[target], code_at(part, k), in,
                                                                   out));
                        parts.push_back(part);
                    }
                    check_real(y, nn::float_operators::cat(parts, axis), quantized.output(*node).qparams);
                });
    }
}

TEST_CASE("An average that only a DeQuantStub reads gives its sum on fp32, so that nothing is rounded behind it") {
    const intq::Tensor x = test::random_tensor(Shape(3, 5, 4, 7), 11);
    int sums = 0;
    const auto body = [](test::LambdaModel&, nn::Arguments a) { return nn::flatten(nn::mean(a[0], {2, 3}, true), 1); };
    for_each_program(
        body, x, DType::int8,
        [&](std::size_t, const QuantizedGraph& quantized, const auto& codes, const intq::Tensor& y) {
            const QuantizedNode* const node = find_step(quantized, OpKind::avg_pool2d);
            REQUIRE(node != nullptr);
            const bool is_sum = quantized.output(*node).dtype == DType::int32;
            CHECK(is_sum == (std::string_view(quantized.target.name) == "fp32"));
            if (!is_sum) return;
            ++sums;
            const QParams in = quantized.input(*node, 0).qparams.view();
            const intq::Tensor given = codes.at("quant").contiguous();
            REQUIRE(y.shape() == Shape(3, 5));
            for (index_t plane = 0; plane < 15; ++plane) {
                std::int64_t sum = 0;
                for (index_t cell = 0; cell < 28; ++cell) sum += code_at(given, plane * 28 + cell) - in.zero_point();
                const float scale = arith::fmul(in.scale(), arith::fdiv(1.0f, 28.0f));
                CHECK(y.flat<float>()[static_cast<std::size_t>(plane)] == arith::fmul(static_cast<float>(sum), scale));
            }
        });
    CHECK(sums > 0);
    // As simulated; and with codes where something else reads it, or the option is off.
    const kernels::KernelTable& table = *test::scalar_tables().tables[0];
    REQUIRE(std::string_view(table.policy().name) == "fp32");
    const auto model = stubbed({}, body);
    const auto prepared = prepare_calibration_fx(*model, get_default_qconfig_mapping(), table.policy());
    calibrate(*prepared, x, 3);
    ExactSimulation simulation(*prepared, table, 3);
    CHECK(test::largest_difference(simulation.run(std::span(&x, 1))[0],
                                   lower(convert_fx(*prepared), table, 3).run(x)) == 0.0);
    const auto dtype_of_mean = [&](const test::LambdaModel::Forward& other, bool high_precision) {
        PrepareOptions options;
        options.high_precision_output = high_precision;
        const auto again =
            prepare_calibration_fx(*stubbed({}, other), get_default_qconfig_mapping(), table.policy(), options);
        calibrate(*again, x, 3);
        const QuantizedGraph quantized = convert_fx(*again);
        return quantized.output(*find_step(quantized, OpKind::avg_pool2d)).dtype;
    };
    CHECK(dtype_of_mean(body, true) == DType::int32);
    CHECK(dtype_of_mean(body, false) == DType::int8);
    CHECK(dtype_of_mean(
              [](test::LambdaModel&, nn::Arguments a) {
                  return a[0] * nn::mean(a[0], {2, 3}, true);
              },
              true) == DType::int8);
}

/// The average of the real values of the input's codes, kept in the range of the output's.
static intq::Tensor real_average(nn::Module& pool, const QuantizedGraph& quantized, const QuantizedNode& node,
                                 const intq::Tensor& x) {
    intq::Tensor y =
        pool(fake_quantize(x, quantized.input(node, 0).qparams, quantized.target.quantize)).tensor().clone();
    const OwnedQParams& out = quantized.output(node).qparams;
    const auto real = [&](std::int64_t code) { return static_cast<float>(code - out.zero_points[0]) * out.scale(); };
    for (float& value : y.flat<float>()) value = std::clamp(value, real(out.quant_min), real(out.quant_max));
    return y;
}

TEST_CASE(
    "An average to another grid than its input's has the oracle's codes; with padding the tflite family averages finer "
    "codes") {
    for (const bool has_padding : {false, true})
        for (const DType dtype : {DType::int8, DType::int16}) {
            const auto pool =
                std::make_shared<nn::AvgPool2d>(nn::square_window(2, 2, has_padding ? 1 : 0), PoolDivisor::valid_cells);
            const auto model =
                stubbed({{"pool", pool}}, [](test::LambdaModel& m, nn::Arguments a) { return m.call("pool", a[0]); });
            const intq::Tensor x = test::random_tensor(Shape(3, 5, 4, 6), 11);
            int programs = 0;
            for (std::size_t target = 0; target < test::oracle_targets().size(); ++target) {
                const test::oracle::Target& rules = test::oracle_targets()[target];
                if (test::bits_of(dtype) > rules.widest_activation || (has_padding && rules.is_bpu())) continue;
                QuantizedGraph quantized = convert(*model, test::scalar_tables().tables[target]->policy(), x, dtype);
                const QuantizedNode node = *find_step(quantized, OpKind::avg_pool2d);
                const bool is_affine = dtype == DType::int8 && quantized.target.zero_points;
                OwnedQParams& out = quantized.tensors[static_cast<std::size_t>(node.output)].qparams;
                out = OwnedQParams::per_tensor(0.6f * quantized.input(node, 0).qparams.scale(), dtype);
                out.zero_points = {is_affine ? -11 : 0};
                INFO(quantized.target.name << ", " << name_of(dtype) << (has_padding ? ", padded" : ""));
                for (const test::BackendTables& backend : test::usable_backend_tables()) {
                    const kernels::KernelTable& table = *backend.tables[target];
                    if (has_padding && rules.is_tflite()) {
                        // Rounded twice: to codes that are 128ths of the input's where there are finer ones.
                        const double fine = dtype == DType::int8 ? 1.0 / 256.0 : 0.5;
                        const double bound = 0.5 * static_cast<double>(out.scale()) +
                                             fine * static_cast<double>(quantized.input(node, 0).qparams.scale());
                        CHECK(test::largest_difference(lower(quantized, table, 3).run(x),
                                                       real_average(*pool, quantized, node, x)) < 1.01 * bound);
                        ++programs;
                        continue;
                    }
                    const auto codes = run_and_keep(lower(quantized, table, 3), x);
                    const intq::Tensor given = codes.at("quant").contiguous(), y = codes.at("pool").contiguous();
                    test::oracle::Tensor image = test::oracle::make_tensor(3, 5, 4, 6);
                    for (index_t k = 0; k < given.size(); ++k)
                        image.codes[static_cast<std::size_t>(k)] = code_at(given, k);
                    test::oracle::Pool2d window{2, 2, 2, 2};
                    window.pad_top = window.pad_left = window.pad_bottom = window.pad_right = has_padding ? 1 : 0;
                    window.count_include_pad = false;
                    const auto expected = test::oracle::avg_pool(rules, image, oracle_qparams(quantized.input(node, 0)),
                                                                 oracle_qparams(quantized.output(node)), window);
                    REQUIRE(static_cast<std::size_t>(y.size()) == expected.codes.size());
                    int differing = 0;
                    for (index_t k = 0; k < y.size(); ++k)
                        differing += code_at(y, k) != expected.codes[static_cast<std::size_t>(k)];
                    CHECK(differing == 0);
                    ++programs;
                }
            }
            CHECK(programs >= (has_padding ? 4 : least_programs(dtype)));
        }
}

TEST_CASE("Pools in ceil mode and along one axis have programs near their reference") {
    const auto pooled = [](const nn::ModulePtr& pool, const Shape& shape, DType dtype, double least) {
        const auto model =
            stubbed({{"pool", pool}}, [](test::LambdaModel& m, nn::Arguments a) { return m.call("pool", a[0]); });
        return compare_with_reference(*model, test::random_tensor(shape, 9), dtype, least);
    };
    const Window2d window{{3, 2}, {2, 2}, {1, 0, 1, 1}, {1, 1}};
    for (const DType dtype : {DType::int8, DType::int16}) {
        const int targets = dtype == DType::int8 ? 7 : 6;
        CHECK(pooled(std::make_shared<nn::MaxPool2d>(window, true), Shape(3, 5, 6, 8), dtype, 200.0) == targets);
        CHECK(pooled(std::make_shared<nn::MaxPool1d>(nn::PoolWindow1d{3, 2, 1, 0}, true), Shape(3, 5, 8), dtype,
                     200.0) == targets);
        CHECK(pooled(std::make_shared<nn::AvgPool1d>(nn::PoolWindow1d{2, 2}), Shape(3, 5, 8), dtype, 30.0) == targets);
        CHECK(pooled(std::make_shared<nn::AdaptiveAvgPool1d>(1), Shape(3, 5, 7), dtype, 25.0) == targets);
    }
    const auto mean = stubbed({}, [](test::LambdaModel&, nn::Arguments a) { return nn::mean(a[0], {2}); });
    CHECK(compare_with_reference(*mean, test::random_tensor(Shape(3, 5, 7), 9), DType::int8, 25.0) == 7);
}

TEST_CASE("Padding that counts in an average is written where the target counts none: the codes of a valid pool") {
    // Of the reference: a pad with zeros and a pool without padding.
    const auto both = [](const nn::ModulePtr& pool, const nn::ModulePtr& valid, std::initializer_list<index_t> sides,
                         const Shape& shape, DType dtype) {
        const std::vector<index_t> around(sides);
        const auto counted =
            stubbed({{"pool", pool}}, [](test::LambdaModel& m, nn::Arguments a) { return m.call("pool", a[0]); });
        const auto written = stubbed({{"pool", valid}}, [around](test::LambdaModel& m, nn::Arguments a) {
            nn::Value::Tuple pads;
            for (const index_t side : around) pads.emplace_back(side);
            return m.call("pool", nn::call(nn::pad_function, a[0], pads));
        });
        const intq::Tensor x = test::random_tensor(shape, 9);
        int equal = 0;
        for_each_target([&](const kernels::KernelTable& table) {
            if (table.policy().average != arith::AverageRule::divide_codes) return;
            INFO(table.policy().name << " " << name_of(dtype));
            const intq::Tensor given = lower(convert(*counted, table.policy(), x, dtype), table, 2).run(x);
            const intq::Tensor expected = lower(convert(*written, table.policy(), x, dtype), table, 2).run(x);
            REQUIRE(given.shape() == expected.shape());
            CHECK(test::largest_difference(given, expected) == 0.0);
            ++equal;
        });
        return equal;
    };
    using Pool = nn::AvgPool2d;
    const auto kernel = PoolDivisor::kernel_cells, valid = PoolDivisor::valid_cells;
    const Window2d window{{3, 3}, {2, 1}, {1, 1, 1, 1}, {1, 1}}, inside{{3, 3}, {2, 1}, {}, {1, 1}};
    const Window2d reaching{{3, 2}, {2, 2}, {1, 1, 0, 0}, {1, 1}}, behind{{3, 2}, {2, 2}, {0, 0, 1, 1}, {1, 1}};
    for (const DType dtype : {DType::int8, DType::int16}) {
        CHECK(both(std::make_shared<Pool>(window), std::make_shared<Pool>(inside), {1, 1, 1, 1}, Shape(3, 5, 6, 7),
                   dtype) == 3);
        // In ceil mode the window reaches one row and one column further, where nothing counts.
        CHECK(both(std::make_shared<Pool>(reaching, kernel, true), std::make_shared<Pool>(behind, valid), {1, 0, 1, 0},
                   Shape(3, 5, 5, 6), dtype) == 3);
        CHECK(both(std::make_shared<nn::AvgPool1d>(nn::PoolWindow1d{3, 2, 1, 1}),
                   std::make_shared<nn::AvgPool1d>(nn::PoolWindow1d{3, 2}), {1, 1}, Shape(3, 5, 7), dtype) == 3);
    }
}

TEST_CASE("A causal convolution of lines, and a transposed one with other pads at each end, have programs") {
    auto causal = std::make_shared<nn::Conv1d>(nn::Conv1dOptions{
        .in_channels = 5, .out_channels = 4, .kernel = 3, .padding = {4, 0}, .dilation = 2, .bias = false});
    causal->set_weight(test::random_tensor(Shape(4, 5, 3), 5));
    auto turned = std::make_shared<nn::ConvTranspose1d>(nn::ConvTranspose1dOptions{
        .in_channels = 5, .out_channels = 4, .kernel = 4, .stride = 2, .padding = {2, 1}, .bias = false});
    turned->set_weight(test::random_tensor(Shape(5, 4, 4), 6));
    for (const nn::ModulePtr& layer : std::initializer_list<nn::ModulePtr>{causal, turned}) {
        const auto model =
            stubbed({{"layer", layer}}, [](test::LambdaModel& m, nn::Arguments a) { return m.call("layer", a[0]); });
        const intq::Tensor x = test::random_tensor(Shape(3, 5, 9), 9);
        CHECK(compare_with_reference(*model, x, DType::int8, 30.0) == 7);
        CHECK(compare_with_reference(*model, x, DType::int16, 60.0) == 6);
    }
    // The first outputs see the first inputs alone.
    const auto first = [&](intq::Tensor x) { return (*causal)(x).tensor().contiguous().flat<float>()[0]; };
    intq::Tensor x = test::random_tensor(Shape(1, 5, 9), 9);
    const float before = first(x.clone());
    for (index_t c = 0; c < 5; ++c) x.flat<float>()[static_cast<std::size_t>(c * 9 + 1)] += 100.0f;
    CHECK(first(x) == before);
    // So does a pad before a layer without padding, as exporters write it.
    auto plain = std::make_shared<nn::Conv1d>(
        nn::Conv1dOptions{.in_channels = 5, .out_channels = 4, .kernel = 3, .dilation = 2, .bias = false});
    plain->set_weight(causal->weight());
    const auto padded = stubbed({{"layer", plain}}, [](test::LambdaModel& m, nn::Arguments a) {
        return m.call("layer", nn::pad(a[0], {4, 0}));
    });
    CHECK(compare_with_reference(*padded, test::random_tensor(Shape(3, 5, 9), 9), DType::int8, 30.0) == 7);
}

TEST_CASE("The pieces of a split or chunk are slices of codes; they are used in any order, or not at all") {
    using test::LambdaModel;
    const Shape image(3, 7, 4, 6);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::chunk(a[0], 3, 1)[2]; }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::split(a[0], 3, 1)[-1]; }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::split(a[0], nn::Value::Tuple{1, 4, 2}, 1)[1]; }, image);
    check_moved([](LambdaModel&, nn::Arguments a) { return nn::split(a[0], 2, 3)[1]; }, image);
    const auto model = stubbed({}, [](LambdaModel&, nn::Arguments a) {
        const nn::Value pieces = nn::chunk(a[0], 2, 2);
        return nn::cat({pieces[1] - pieces[0], nn::relu(pieces[1])}, 1);
    });
    CHECK(compare_with_reference(*model, test::random_tensor(image, 5), DType::int8, 30.0) == 7);
}

TEST_CASE("A split that something reads as a whole stays in float, and so do its pieces; nothing is mixed up") {
    const auto whole = [](test::LambdaModel&, nn::Arguments a) {
        const nn::Value pieces = nn::chunk(a[0], 2, 1);
        return nn::cat({pieces[1], nn::call(wrapped_first, pieces)}, 1);
    };
    const auto model = stubbed({}, whole);
    const intq::Tensor x = test::random_tensor(Shape(2, 4, 3, 3), 6);
    QConfig qconfig = get_default_calib_qconfig();
    qconfig.output->options.observer = observer_factory<MinMaxObserver>();
    const auto prepared = prepare_calibration_fx(*model, QConfigMapping().set_global(qconfig), march::bayes::policy);
    calibrate(*prepared, x, 2);
    bool is_reported = false;
    for (const FloatFallback& fallback : prepared->report().fallbacks)
        is_reported = is_reported || (fallback.node == "chunk" && fallback.reason == "its pieces are read as a whole");
    CHECK(is_reported);
    CHECK(test::largest_difference((*prepared)(x).tensor(), (*model)(x).tensor()) < 0.05);
}

TEST_CASE("Moves of samples, and a softmax over them, are refused with the node's name") {
    const intq::Tensor x = test::random_tensor(Shape(2, 4, 5, 6), 9);
    const auto message = [&](test::LambdaModel::Forward body) {
        const auto model = stubbed({}, std::move(body));
        return message_of<Error>([&] {
            const kernels::KernelTable& table = *test::scalar_tables().tables[4];
            lower(convert(*model, table.policy(), x, DType::int8), table, 2);
        });
    };
    using test::LambdaModel;
    const auto names = [&](const char* node, test::LambdaModel::Forward body) {
        const std::string text = message(std::move(body));
        INFO(text);
        return text.find(node) != std::string::npos && text.find("axis 0") != std::string::npos;
    };
    CHECK(names("%slice", [](LambdaModel&, nn::Arguments a) { return nn::slice(a[0], 0, 0, 1); }));
    CHECK(names("%split", [](LambdaModel&, nn::Arguments a) { return nn::split(a[0], 1, 0)[1]; }));
    CHECK(names("%permute", [](LambdaModel&, nn::Arguments a) { return nn::permute(a[0], {1, 0, 2, 3}); }));
    CHECK(names("%reshape", [](LambdaModel&, nn::Arguments a) { return nn::reshape(a[0], {8, 30}); }));
    CHECK(names("flatten", [](LambdaModel&, nn::Arguments a) { return nn::flatten(a[0], 0, 1); }));
    CHECK(names("%softmax", [](LambdaModel&, nn::Arguments a) { return nn::softmax(a[0], 0); }));
    CHECK(message([](LambdaModel&, nn::Arguments a) { return nn::slice(a[0], 1, 3, 3); }).find("nothing is left") !=
          std::string::npos);
}

TEST_CASE("An argmax is that of the codes along each axis, whatever lies where, and no DeQuantStub is needed") {
    const intq::Tensor x = test::random_tensor(Shape(4, 5, 6, 7), 12);
    for (const bool rows_first : {false, true})
        for (const int axis : {1, 2, 3, -1})
            for (const bool keepdim : {false, true}) {
                const auto model = test::make_model(
                    {{"quant", std::make_shared<nn::QuantStub>()}}, [=](test::LambdaModel& m, nn::Arguments a) {
                        const nn::Value q = m.call("quant", a[0]);
                        return nn::argmax(rows_first ? nn::permute(q, {0, 2, 3, 1}) : q, axis, keepdim);
                    });
                for_each_target([&](const kernels::KernelTable& table) {
                    if (std::string(table.policy().name) == "bernoulli2") return;
                    const QuantizedGraph quantized = convert(*model, table.policy(), x, DType::int8);
                    const intq::Tensor expected =
                        make_reference(quantized)->dispatch("forward", std::vector<nn::Value>{x}).tensor().contiguous();
                    const intq::Tensor given = lower(quantized, table, 4).run(x).contiguous();
                    INFO(table.policy().name << " axis " << axis << (keepdim ? ", kept" : ""));
                    REQUIRE(given.dtype() == DType::int32);
                    REQUIRE(given.shape() == expected.shape());
                    CHECK(std::equal(given.flat<std::int32_t>().begin(), given.flat<std::int32_t>().end(),
                                     expected.flat<std::int64_t>().begin()));
                    ExactSimulation simulation(quantized, table, 4);
                    const intq::Tensor simulated = simulation.run(std::vector<intq::Tensor>{x}).at(0).contiguous();
                    CHECK(std::equal(given.flat<std::int32_t>().begin(), given.flat<std::int32_t>().end(),
                                     simulated.flat<std::int32_t>().begin()));
                });
            }
}

TEST_CASE("Who computes with indices is refused by name, and so are an argmax of the samples and one on bernoulli2") {
    const auto refusal = [](const arith::PolicyRecord& target, auto body) {
        return message_of<Error>([&] {
            prepare_calibration_fx(*stubbed({}, body), get_default_qconfig_mapping(target, DType::int8), target);
        });
    };
    const arith::PolicyRecord& fp32 = target::fp32::policy;
    CHECK(refusal(fp32, [](auto&, nn::Arguments a) { return nn::relu(nn::argmax(a[0], 1)); }).find("%relu") !=
          std::string::npos);
    for (const std::string& text :
         {refusal(fp32, [](auto&, nn::Arguments a) { return nn::argmax(a[0], 1) + nn::argmax(a[0], 1); }),
          refusal(fp32, [](auto&, nn::Arguments a) {
              return nn::sigmoid(nn::reshape(nn::argmax(a[0], 1), {-1, 42}));
          })}) {
        INFO(text);
        CHECK(text.find("is indices and no numbers on a grid: the model may return them") != std::string::npos);
    }
    CHECK(refusal(fp32, [](auto&, nn::Arguments a) {
              return nn::argmax(a[0], 0);
          }).find("an argmax over the samples (axis 0) has no integer form") != std::string::npos);
    CHECK(refusal(march::bernoulli2::policy, [](auto&, nn::Arguments a) {
              return nn::argmax(a[0], 1);
          }).find("there is no row of bernoulli2 for argmax") != std::string::npos);
}

TEST_CASE("In torch mode a difference and a split take real values, as in PyTorch") {
    const auto model =
        test::make_model({{"conv", test::make_conv(3, 4, 3, 1)}}, [](test::LambdaModel& m, nn::Arguments x) {
            const nn::Value pieces = nn::chunk(m.call("conv", x[0]), 2, 1);
            return pieces[0] - pieces[1];
        });
    const auto prepared = prepare_calibration_fx(*model, get_default_qconfig_mapping(), march::bayes::policy,
                                                 {.compatibility = Compatibility::torch});
    std::string observed;
    for (const graph::Node* node : prepared->graph().nodes())
        if (dynamic_cast<const Quantizer*>(graph::module_of(*node, *prepared)) != nullptr)
            observed += node->inputs()[0]->name() + " ";
    CHECK(observed == "x conv ");
}
