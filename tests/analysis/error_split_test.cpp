// SPDX-License-Identifier: MIT
//
// split_error(): the parts of small cases by hand, and their sum against whole runs of the float model and of the
// program, on small networks, the shipped ones, ResNet-18 and MobileNetV2.
#include "intq/analysis/causes/error_split.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <map>

#include "analysis/models.hpp"
#include "intq/analysis/compare/compare_layers.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/prepared_layers.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/tensor/npy.hpp"
#include "models/mobilenet_v2.hpp"
#include "models/resnet.hpp"
#include "support/catch.hpp"

using namespace intq;
using namespace intq::analysis;
using namespace intq::quantization;
using Catch::Matchers::Contains;
using test::message_of;
using test::random_tensor;

namespace {

const kernels::KernelTable& bayes_table() { return program::best_table<target::bpu<march::bayes>>(); }

std::vector<double> sum_of(const ErrorTensors& tensors) {
    std::vector<double> sum(static_cast<std::size_t>(tensors.baseline.size()));
    for (const Tensor& part : tensors.parts)
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part.flat<double>()[i];
    return sum;
}

/// The sums of the parts against the outputs of the float model and of the program, each from a run of its own.
///
/// @return the largest residual, in parts of the norm of the total error
double largest_residual(const nn::ModulePtr& net, const std::shared_ptr<PreparedModel>& prepared, const Tensor& x,
                        std::size_t& operators) {
    std::map<std::size_t, std::vector<double>> sums;  // by operator of the baseline
    split_error(net, prepared, bayes_table(), x,
                {.visit = [&](const ErrorTensors& tensors) { sums[tensors.pair.baseline] = sum_of(tensors); }});
    const auto program = lower(convert_fx(*prepared), bayes_table(), x.extent(0));
    const AnalysedModel baseline(net), analysed(program);
    double largest = 0.0;
    SideBySideHooks hooks;
    hooks.show = io::ShowProgress::never;
    hooks.pair = [&](const LayerPair& pair, std::span<const Tensor> y0, std::span<const Tensor> y) {
        const auto sum = sums.find(pair.baseline);
        REQUIRE(sum != sums.end());  // no operator of the program is without its parts
        REQUIRE(y0.front().size() == y.front().size());
        const auto p = y0.front().flat<float>(), q = y.front().flat<float>();
        double residual = 0.0, total = 0.0;
        for (std::size_t i = 0; i < p.size(); ++i) {
            const double error = static_cast<double>(q[i]) - static_cast<double>(p[i]);
            residual += std::pow(error - sum->second[i], 2);
            total += error * error;
        }
        ++operators;
        if (total > 0.0) largest = std::max(largest, std::sqrt(residual / total));
        if (residual > 1e-12 * total)
            std::cout << analysed.operators()[pair.analysis].mod_name << ": residual " << std::sqrt(residual / total)
                      << "\n";
    };
    run_side_by_side(baseline, analysed, x, pair_layers(baseline.operators(), analysed.operators()), hooks);
    return largest;
}

void check_residual(const char* name, const nn::ModulePtr& net, const Tensor& x, std::size_t least_operators,
                    DType dtype = DType::int8) {
    const auto prepared = prepare_calibration_fx(*net, get_default_qconfig_mapping(test::bayes, dtype), test::bayes);
    calibrate(*prepared, std::vector<Tensor>{x});
    std::size_t operators = 0;
    const double residual = largest_residual(net, prepared, x, operators);
    std::cout << name << ": " << operators << " operators, largest residual " << residual << " of the total\n";
    CHECK(operators >= least_operators);
    CHECK(residual < 1e-6);
}

double at(const ErrorTensors& tensors, ErrorPart part, std::size_t i) { return tensors.part(part).flat<double>()[i]; }

}  // namespace

TEST_CASE("The parts of a convolution by one weight are the differences that arithmetic gives") {
    // The input's grid is 0.5 up to 63.5. On the weight's grid of 0.01, 0.3 is 30 steps, and 0.104 becomes 0.1.
    const auto conv = test::make_conv(2, 1, 1, 1, 1, 1, false);
    conv->set_weight(Tensor::from<float>(Shape(1, 2, 1, 1), {0.3f, 0.104f}));
    const auto relu = std::make_shared<nn::ReLU>();
    const nn::ModulePtr net =
        test::stubbed({{"conv", conv}, {"relu", relu}},
                      [](test::LambdaModel& m, nn::Arguments a) { return m.call("relu", m.call("conv", a[0])); });
    const auto prepared = prepare_calibration_fx(*net, test::bayes);
    dynamic_cast<FakeQuantize&>(prepared->find("activation_post_process_0")).set_qparams(0.5f);
    dynamic_cast<FakeQuantize&>(prepared->find("conv.weight_fake_quant")).set_qparams(0.01f);
    const Tensor x = Tensor::from<float>(Shape(1, 2, 1, 2), {0.7f, 100.0f, 4.2f, 3.0f});
    calibrate(*prepared, std::vector<Tensor>{x});
    std::map<std::string, ErrorTensors> seen;
    const auto splits = split_error(net, prepared, bayes_table(), x, {.visit = [&](const ErrorTensors& tensors) {
                                        seen[std::to_string(tensors.pair.analysis)] = tensors;
                                    }});
    REQUIRE(splits.size() >= 2);
    CHECK(splits[0].mod_name == "quant");
    CHECK(splits[1].mod_name == "conv");

    const ErrorTensors& quant = seen.at("0");
    CHECK(at(quant, ErrorPart::input_clipping, 1) == 63.5 - 100.0);
    CHECK(at(quant, ErrorPart::input_clipping, 0) == 0.0);
    CHECK(std::abs(at(quant, ErrorPart::input_rounding, 0) - (0.5 - 0.7)) < 1e-7);
    CHECK(std::abs(at(quant, ErrorPart::input_rounding, 2) - (4.0 - 4.2)) < 1e-6);
    CHECK(at(quant, ErrorPart::requantization, 0) == 0.0);
    CHECK(at(quant, ErrorPart::inherited, 0) == 0.0);

    const ErrorTensors& product = seen.at("1");
    for (std::size_t i = 0; i < 2; ++i) {
        CHECK(std::abs(at(product, ErrorPart::inherited, i)) < 1e-6);  // float sums in another order
        const double second = i == 0 ? 4.2 : 3.0;
        CHECK(std::abs(at(product, ErrorPart::weight_rounding, i) - second * (0.1 - 0.104)) < 1e-5);
    }
    CHECK(std::abs(at(product, ErrorPart::input_clipping, 1) - 0.3 * (63.5 - 100.0)) < 1e-5);
    CHECK(at(product, ErrorPart::input_clipping, 0) == 0.0);
    CHECK(std::abs(at(product, ErrorPart::input_rounding, 0) - (0.3 * (0.5 - 0.7) + 0.1 * (4.0 - 4.2))) < 1e-6);
    CHECK(splits[0].largest() == ErrorPart::input_clipping);
    double shares = 0.0;
    for (const double share : splits[1].shares) shares += share;
    CHECK(std::abs(shares - 1.0) < 1e-12);
}

TEST_CASE("The parts add up to what the program and the float model differ by, in int8 and int16") {
    const auto net = std::make_shared<test::ResidualNet>();
    const Tensor x = random_tensor(test::residual_shape, 5);
    check_residual("residual network", net, x, 10);
    check_residual("residual network, int16", net, x, 10, DType::int16);
}

TEST_CASE("The parts add up on every layer of the shipped network") {
    const std::string folder = INTQ_EXAMPLES_DIR "/digits/data/";
    const auto shipped = interop::onnx::import_file(folder + "digits_resnet.onnx");
    add_stubs(*shipped);
    shipped->eval();
    const Tensor images = load_npy(folder + "test_images.npy").batch(0, 16);
    check_residual("digits_resnet", shipped, images, 10);
    check_residual("digits_resnet, int16", shipped, images, 10, DType::int16);
}

TEST_CASE("The parts add up on every layer of ResNet-18 and MobileNetV2") {
    const auto resnet = std::make_shared<intq_bench::ResNet18>();
    resnet->eval();
    check_residual("ResNet-18", resnet, random_tensor(Shape(1, 3, 64, 64), 3), 25);
    const auto mobilenet = std::make_shared<intq_bench::MobileNetV2>();
    mobilenet->eval();
    check_residual("MobileNetV2", mobilenet, random_tensor(Shape(1, 3, 64, 64), 4), 56);
}

TEST_CASE("A split has a JSON form, leaves the model as it was, and refuses what it cannot run") {
    const auto net = std::make_shared<test::ResidualNet>();
    const auto prepared = test::calibrated(*net, test::residual_shape);
    const Tensor x = random_tensor(test::residual_shape, 6);
    const Tensor before = (*prepared)(x).tensor();
    const auto splits = split_error(net, prepared, bayes_table(), x);
    CHECK(test::largest_difference(before, (*prepared)(x).tensor()) == 0.0);
    CHECK_THAT(to_json(splits), Contains("\"mod_name\":\"stem\"") && Contains("\"norms\":{\"inherited\":"));
    const auto other = test::stubbed({{"other", test::make_conv(3, 8, 3, 1)}},
                                     [](test::LambdaModel& m, nn::Arguments a) { return m.call("other", a[0]); });
    CHECK_THAT(message_of<Error>([&] { split_error(other, prepared, bayes_table(), x); }),
               Contains("the models do not correspond"));
    CHECK_THAT(message_of<Error>([&] { split_error(net, prepared, bayes_table(), CallInputs()); }),
               Contains("split_error: the case has no inputs"));
    Tensor broken = x.clone();
    broken.flat<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    CHECK_THAT(message_of<Error>([&] { split_error(net, prepared, bayes_table(), broken); }), Contains("NaN"));
    CHECK_THAT(message_of<Error>([&] { split_error(net, nullptr, bayes_table(), x); }), Contains("the model is null"));
}
