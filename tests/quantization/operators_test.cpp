// SPDX-License-Identifier: MIT
//
// Operators with an integer form, each in a small model: its program against plain integers, or near the reference.
#include "intq/quantization/operator_table.hpp"

#include <cmath>
#include <map>

#include "intq/nn/layers.hpp"
#include "intq/quantization/convert.hpp"
#include "intq/quantization/lower.hpp"
#include "intq/quantization/prepare.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/kept_tensors.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::message_of;
using test::run_and_keep;
using test::stubbed;

namespace {

/// visit(scalar kernels) for the six targets.
template <class Visit> void for_each_target(Visit&& visit) {
    for (const kernels::KernelTable* table : test::scalar_tables().tables) visit(*table);
}

QuantizedGraph convert(const nn::Module& model, const arith::PolicyRecord& target, const nn::Tensor& x, DType dtype) {
    const auto prepared = prepare_calibration_fx(model, get_default_qconfig_mapping(dtype), target);
    calibrate(*prepared, x, 2);
    return convert_fx(*prepared);
}

/// Signal to noise in dB of what a program gives against the reference graph.
double sqnr(const nn::Tensor& expected, const nn::Tensor& given) {
    double signal = 0, noise = 1e-30;
    for (std::size_t i = 0; i < expected.flat<float>().size(); ++i) {
        const auto a = static_cast<double>(expected.flat<float>()[i]), b = static_cast<double>(given.flat<float>()[i]);
        signal += a * a;
        noise += (a - b) * (a - b);
    }
    return 10 * std::log10(signal / noise);
}

/// The program of a model against its reference graph, for all targets that accept it. @return how many did
int compare_with_reference(const nn::Module& model, const nn::Tensor& x, DType dtype, double least_db) {
    int accepted = 0;
    for_each_target([&](const kernels::KernelTable& table) {
        if (dtype == DType::int16 && std::string(table.policy().name) == "bernoulli2") return;
        INFO(table.policy().name << " " << name_of(dtype));
        const QuantizedGraph quantized = convert(model, table.policy(), x, dtype);
        const LoweredModel lowered = lower(quantized, table, 2);
        const nn::Tensor expected = (*make_reference(quantized))(x).tensor(), given = lowered.run(x);
        REQUIRE(given.shape() == expected.shape());
        CHECK(sqnr(expected, given) > least_db);
        ++accepted;
    });
    return accepted;
}

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
        const nn::Tensor x = test::random_tensor(Shape(2, options.in_channels, 4, 5), 7);
        for_each_target([&](const kernels::KernelTable& table) {
            INFO(table.policy().name << " in " << options.in_channels << " out " << options.out_channels << " groups "
                                     << options.groups);
            const QuantizedGraph quantized = convert(*model, table.policy(), x, DType::int8);
            const auto codes = run_and_keep(lower(quantized, table, 2), x);
            const nn::Tensor &q = codes.at("quant"), &acc = codes.at("up");
            REQUIRE(acc.dtype() == DType::int32);
            REQUIRE(acc.shape() == conv->apply(x, conv->weight()).shape());

            // The weight as it was: (C, O/groups, KH, KW), one scale for each channel of a group.
            const auto& step = quantized.nodes[1].step_as<WeightedStep>();
            const nn::Tensor real = conv->weight();
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
    const nn::Tensor x = test::random_tensor(Shape(2, 3, 9), 8);
    for_each_target([&](const kernels::KernelTable& table) {
        INFO(table.policy().name);
        const auto of_line = convert(*stubbed({{"conv", line}}, body), table.policy(), x, DType::int8);
        const auto of_image =
            convert(*stubbed({{"conv", image}}, body), table.policy(), x.reshape(Shape(2, 3, 1, 9)), DType::int8);
        CHECK(of_line.nodes[1].type == "ConvReLU1d");
        const nn::Tensor a = lower(of_line, table, 2).run(x),
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
    const nn::Tensor x = test::random_tensor(Shape(4, 3, 5, 6), 9);
    CHECK(compare_with_reference(*model, x, DType::int8, 20.0) == 6);
    // leaky_relu has a kink that 512 straight pieces miss.
    const std::string refused = message_of<Error>([&] { compare_with_reference(*model, x, DType::int16, 20.0); });
    CHECK(refused.find("leaky_relu") != std::string::npos);
}

TEST_CASE("int16 tables, products and sizes have programs near their reference") {
    const auto model = stubbed({}, [](test::LambdaModel&, nn::Arguments x) {
        const nn::Value gated = x[0] * nn::tanh(x[0]);
        return nn::interpolate(nn::silu(gated), nn::Value::Tuple{8, 9}, {}, "bilinear", true);
    });
    const nn::Tensor x = test::random_tensor(Shape(4, 3, 5, 6), 9);
    CHECK(compare_with_reference(*model, x, DType::int16, 50.0) == 5);
}

TEST_CASE("What has no integer form in these operators is refused with the node's name") {
    const nn::Tensor x = test::random_tensor(Shape(2, 3, 5, 6), 9);
    const auto message = [&](test::LambdaModel::Forward body) {
        const auto model = stubbed({}, std::move(body));
        return message_of<Error>([&] {
            const kernels::KernelTable& table = *test::scalar_tables().tables[4];
            lower(convert(*model, table.policy(), x, DType::int8), table, 2);
        });
    };
    CHECK(message([](test::LambdaModel&, nn::Arguments a) { return nn::mean(a[0], {1}); }).find("height and width") !=
          std::string::npos);
    CHECK(message([](test::LambdaModel&, nn::Arguments a) {
              return nn::interpolate(a[0], {}, 1.5);
          }).find("scale factor") != std::string::npos);
    CHECK(message([](test::LambdaModel&, nn::Arguments a) {
              return nn::pad(a[0], {0, 0, 0, 0, 1, 1}, 0.0);
          }).find("%pad") != std::string::npos);
}
