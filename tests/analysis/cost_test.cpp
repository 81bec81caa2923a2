// SPDX-License-Identifier: MIT
//
// What analysis costs on MobileNetV2 and on the shipped network: memory against one forward pass, and time, in one
// thread, against the passes that it needs and against whole passes.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <functional>
#include <iostream>

#include "analysis/models.hpp"
#include "intq/analysis/compare/sensitivity.hpp"
#include "intq/analysis/quant_analysis.hpp"
#include "intq/graph/operators.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/numeric_suite/metrics/metrics.hpp"
#include "intq/quantization/modules/prepared_layers.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/tensor/npy.hpp"
#include "io/temporary_folder.hpp"
#include "models/mobilenet_v2.hpp"
#include "support/catch.hpp"

using namespace intq;
using namespace intq::analysis;
using namespace intq::quantization;

namespace {

double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

template <class Act> double seconds_of(const Act& act) {
    const double start = seconds();
    act();
    return seconds() - start;
}

/// Runs `act` in a process of its own and gives its peak memory in MiB; -1 where it failed.
double peak_memory(const std::function<void()>& act) {
    const pid_t child = fork();
    if (child == 0) {
        try {
            act();
        } catch (...) {
            _exit(1);
        }
        _exit(0);
    }
    int status = 0;
    rusage usage{};
    wait4(child, &status, 0, &usage);
    return status == 0 ? static_cast<double>(usage.ru_maxrss) / 1024 : -1;
}

Tensor image(unsigned seed, index_t extent) { return test::random_tensor(Shape(1, 3, extent, extent), seed); }

std::shared_ptr<PreparedModel> prepare_on(const nn::Module& model, const Tensor& x) {
    const auto prepared = prepare_calibration_fx(model, test::bayes);
    calibrate(*prepared, std::vector<Tensor>{x});
    return prepared;
}

/// The rows of find_sensitive_operators() by a whole pass each, sorted as it sorts.
std::vector<std::pair<std::string, double>> by_brute_force(PreparedModel& model, const Tensor& x,
                                                           const Tensor& expected) {
    const FloatSumsScope sums(FloatSums::reproducible);
    std::vector<std::pair<std::string, double>> rows;
    set_fake_quantize(model, FakeQuantState::float_);
    const auto measure = [&](const std::string& row, std::initializer_list<FakeQuantize*> quantizers) {
        for (FakeQuantize* quantizer : quantizers) quantizer->enable_fake_quant(true);
        const Tensor y = model(x).tensor();
        for (FakeQuantize* quantizer : quantizers) quantizer->enable_fake_quant(false);
        numeric_suite::TensorComparison comparison;
        comparison.add(expected.flat<float>(), y.flat<float>(), y.shape());
        rows.emplace_back(row, comparison.l1());
    };
    for (const graph::Node* node : model.graph().nodes()) {
        nn::Module* module = graph::module_of(*node, model);
        if (dynamic_cast<Quantizer*>(module) != nullptr || node->op() == graph::Op::placeholder) continue;
        FakeQuantize* output = nullptr;
        if (node->users().size() == 1) output = dynamic_cast<FakeQuantize*>(graph::module_of(*node->users()[0], model));
        const auto* layer = dynamic_cast<PreparedWeight*>(module);
        const std::string name = node->op() == graph::Op::call_module ? node->target() : node->name();
        if (output != nullptr) measure(name + " activation", {output});
        if (layer != nullptr) measure(name + " weight", {&layer->weight_fake_quant()});
        if (output != nullptr && layer != nullptr) measure(name + " both", {output, &layer->weight_fake_quant()});
    }
    set_fake_quantize(model, FakeQuantState::validation);
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    return rows;
}

void compare_with_brute_force(const char* name, const nn::ModulePtr& net, const Tensor& x) {
    const auto prepared = prepare_on(*net, x);
    const Tensor expected = (*net)(x).tensor();
    (*prepared)(x);  // packed before either is measured
    std::vector<SensitiveOperator> list;
    std::vector<std::pair<std::string, double>> rows;
    const double fast =
        seconds_of([&] { list = find_sensitive_operators(prepared, x, expected, {.show = io::ShowProgress::never}); });
    const double slow = seconds_of([&] { rows = by_brute_force(*prepared, x, expected); });
    std::cout << name << ": " << rows.size() << " rows, " << fast << " s, whole passes " << slow << " s, ratio "
              << fast / slow << "\n";
    REQUIRE(list.size() == rows.size());
    std::size_t same = 0;
    for (std::size_t i = 0; i < rows.size(); ++i)
        same += list[i].op_name + " " + list[i].sensitive_type == rows[i].first && list[i].metric == rows[i].second;
    CHECK(same == rows.size());
    CHECK(fast <= 0.6 * slow);
}

}  // namespace

TEST_CASE("Analysis of MobileNetV2 over 64 images takes at most twice the memory of a pass and 64 MiB") {
    const double pass = peak_memory([] {
        intq_bench::MobileNetV2 net;
        net.eval();
        net(image(1, 224));
    });
    const double analysis = peak_memory([] {
        const test::TemporaryFolder folder;
        const auto net = std::make_shared<intq_bench::MobileNetV2>();
        net->eval();
        const auto prepared = prepare_on(*net, image(1, 224));
        QuantAnalysis qa(net, prepared, "fake_quant", folder / "out");
        qa.auto_find_bad_case({64, [](std::size_t i) { return CallInputs(image(static_cast<unsigned>(i), 224)); }},
                              {.show = io::ShowProgress::never});
        qa.run({.show = io::ShowProgress::never});
        qa.compare_per_layer();
    });
    std::cout << "MobileNetV2: one pass " << pass << " MiB, analysis " << analysis << " MiB\n";
    REQUIRE(pass > 0);
    REQUIRE(analysis > 0);
    CHECK(analysis <= 2 * pass + 64);
}

TEST_CASE("Analysis of MobileNetV2 takes at most three times its forward passes") {
    const test::TemporaryFolder folder;
    const auto net = std::make_shared<intq_bench::MobileNetV2>();
    net->eval();
    const auto prepared = prepare_on(*net, image(1, 224));
    constexpr unsigned images = 8;
    (*net)(image(1, 224));
    (*prepared)(image(1, 224));
    const double passes = seconds_of([&] {
        for (unsigned i = 0; i <= images; ++i) {
            (*net)(image(i, 224));
            (*prepared)(image(i, 224));
        }
    });
    const double analysis = seconds_of([&] {
        QuantAnalysis qa(net, prepared, "fake_quant", folder / "out");
        qa.auto_find_bad_case({images, [](std::size_t i) { return CallInputs(image(static_cast<unsigned>(i), 224)); }},
                              {.show = io::ShowProgress::never});
        qa.run({.show = io::ShowProgress::never});
        qa.compare_per_layer();
    });
    std::cout << "MobileNetV2, " << images << " images: passes " << passes << " s, analysis " << analysis
              << " s, ratio " << analysis / passes << "\n";
    CHECK(analysis <= 3 * passes);
}

TEST_CASE("Sensitivity ranks as whole passes do, in at most 0.6 of their time") {
    const std::string folder = INTQ_EXAMPLES_DIR "/digits/data/";
    const auto shipped = interop::onnx::import_file(folder + "digits_resnet.onnx");
    add_stubs(*shipped);
    shipped->eval();
    compare_with_brute_force("digits_resnet", shipped, load_npy(folder + "test_images.npy").batch(0, 16));
    const auto net = std::make_shared<intq_bench::MobileNetV2>();
    net->eval();
    compare_with_brute_force("MobileNetV2", net, image(1, 64));
}
