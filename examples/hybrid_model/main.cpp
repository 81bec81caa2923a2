// SPDX-License-Identifier: MIT
//
// A hybrid model: the shipped network of which some modules stay in float, by name and by type. explain() says what
// runs each step and why; a hybrid model runs here and is refused for the accelerator.
#include <cstdio>

#include "intq/interop/onnx/import.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/explain.hpp"
#include "intq/quantization/convert/hybrid.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/tensor/npy.hpp"

namespace {

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;

const std::string data = INTQ_EXAMPLES_DIR "/digits/data/";
Tensor load(const std::string& name) { return intq::load_npy(data + name + ".npy"); }

double accuracy(const Tensor& logits, const Tensor& labels) {
    index_t right = 0;
    for (index_t row = 0; row < logits.extent(0); ++row) {
        const float* first = logits.flat<float>().data() + row * logits.extent(1);
        const index_t best = std::max_element(first, first + logits.extent(1)) - first;
        right += best == labels.flat<std::int64_t>()[static_cast<std::size_t>(row)] ? 1 : 0;
    }
    return 100.0 * static_cast<double>(right) / static_cast<double>(logits.extent(0));
}

int run() {
    const auto model = interop::onnx::import_file(data + "digits_resnet.onnx");
    add_stubs(*model);
    const auto& kernels = program::best_table<target::bpu<march::bayes>>();
    const Tensor images = load("test_images"), labels = load("test_labels");
    std::printf("float   %.2f %%\n", accuracy((*model)(images).tensor(), labels));

    PrepareOptions options;
    bool ok = true;
    for (const bool hybrid : {false, true}) {
        options.hybrid = hybrid;
        if (hybrid) {
            options.hybrid_dict.module_name = {"block2"};  // and all below it
            options.hybrid_dict.module_type = {"Linear"};
        }
        const auto prepared = prepare_calibration_fx(*model, get_default_qconfig_mapping(), kernels.policy(), options);
        calibrate(*prepared, load("calibration_images"), 20);
        const HybridModel quantized(convert_fx(*prepared), kernels, 50);
        const double percent = accuracy(quantized.run(images), labels);
        std::printf("%s  %.2f %%, %zu programs\n", hybrid ? "hybrid" : "int8  ", percent, quantized.program_count());
        ok = ok && percent > 98;
        if (!hybrid) continue;
        std::printf("\n%s\n", to_string(explain(quantized.quantized(), kernels, &prepared->report())).c_str());
        try {
            check_deployable(quantized.quantized());
            ok = false;
        } catch (const Error& error) {
            std::printf("%s\n", error.what());
        }
    }
    return ok ? 0 : 1;
}

}  // namespace

int main() try { return run(); } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
