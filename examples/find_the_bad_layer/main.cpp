// SPDX-License-Identifier: MIT
//
// Finds the layer that lost the accuracy, says why, and mends it. The network is the shipped one with a defect that
// real networks have: a batch norm divides one channel by next to nothing. docs/debugging.md explains what is printed.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "intq/analysis/advisor.hpp"
#include "intq/analysis/causes/error_split.hpp"
#include "intq/analysis/quant_analysis.hpp"
#include "intq/arith/bpu.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/nn/layers/weighted.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "intq/tensor/npy.hpp"

namespace {

using namespace intq;
using namespace intq::analysis;
using namespace intq::quantization;

using Bayes = target::bpu<march::bayes>;
const std::string data = INTQ_EXAMPLES_DIR "/digits/data/";

/// Divides a channel by less, and lets the next layer multiply it by less: in float nothing changes.
void plant_defect(nn::Module& net) {
    constexpr index_t channel = 5;
    constexpr float factor = 30.0f;
    net.find("block2.bn1").tensor("running_var").flat<float>()[channel] /= factor * factor;
    auto& next = dynamic_cast<nn::Weighted&>(net.find("block2.conv2"));
    intq::Tensor weight = next.weight().contiguous().clone();
    const index_t inner = weight.extent(1), taps = weight.extent(2) * weight.extent(3);
    for (index_t i = 0; i < weight.size(); ++i)
        if (i / taps % inner == channel) weight.flat<float>()[static_cast<std::size_t>(i)] /= factor;
    next.set_weight(weight);
}

/// Images of which the model and the labels say the same, in percent.
double accuracy(nn::Module& model, const intq::Tensor& images, const intq::Tensor& labels) {
    const intq::Tensor logits = model(images).tensor().contiguous();
    const auto classes = static_cast<std::ptrdiff_t>(logits.extent(1));
    double right = 0.0;
    for (index_t row = 0; row < logits.extent(0); ++row) {
        const auto first = logits.flat<float>().begin() + row * classes;
        const auto best = std::max_element(first, first + classes) - first;
        right += best == labels.flat<std::int64_t>()[static_cast<std::size_t>(row)] ? 1.0 : 0.0;
    }
    return 100.0 * right / static_cast<double>(logits.extent(0));
}

int run(const std::filesystem::path& folder) {
    const intq::Tensor images = load_npy(data + "test_images.npy"), labels = load_npy(data + "test_labels.npy");
    const intq::Tensor calibration = load_npy(data + "calibration_images.npy");
    const auto net = interop::onnx::import_file(data + "digits_resnet.onnx");
    add_stubs(*net);
    net->eval();
    plant_defect(*net);

    // How the model is quantized, as data: it can be changed and done again.
    QuantizationRecipe recipe{net, get_default_qconfig_mapping(Bayes::policy), Bayes::policy,
                              batches_of(calibration, 32)};
    const auto prepared = recipe.make();
    const double in_float = accuracy(*net, images, labels), before = accuracy(*prepared, images, labels);
    std::printf("accuracy: float %.2f %%, int8 %.2f %%\n", in_float, before);

    // 1. Which case is the worst?
    QuantAnalysis qa(net, prepared, "fake_quant", folder);
    const BadCase bad = qa.auto_find_bad_case(cases_of(batches_of(images, 8)));
    std::printf("\nbad case %zu: L1 %.4f\n", bad.index, bad.metric);

    // 2. Where does the error appear, and of what is it made?
    const auto splits = split_error(net, prepared, program::best_table<Bayes>(), qa.bad_case());
    std::printf("\n%s", to_string(splits).c_str());

    // 3. Why, and what to do?
    const AdvisorReport report = advise(recipe, qa.bad_case());
    std::printf("\n%s", to_string(report).c_str());
    if (report.advice.empty()) return 1;

    // 4. All of it as a page for a browser.
    qa.run();
    qa.compare_per_layer();
    ModelReport page = qa.report();
    page.title = "digits_resnet with a planted defect";
    page.add(splits);
    page.add(report);
    write_report(folder, page);

    // 5. Do it.
    report.advice.front().repair.apply(recipe);
    const auto mended = recipe.make();
    const double after = accuracy(*mended, images, labels);
    std::printf("\naccuracy: float %.2f %%, int8 %.2f %%, mended %.2f %%\n", in_float, before, after);
    const CauseFinding& found = report.advice.front().finding;
    const bool is_right = found.mod_name == "block2.conv1" && found.cause == Cause::tiny_batch_norm_variance;
    return is_right && report.advice.front().gain() > 0.5 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) try {
    return run(count > 1 ? arguments[1] : "find_the_bad_layer_out");
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
