// SPDX-License-Identifier: MIT
//
// ONNX in, quantized ONNX out: reads a float model, calibrates it, and writes it as two quantized files, one of
// operators on codes and one of float operators between QuantizeLinear and DequantizeLinear. Both are read again, and
// their programs must give the same results as the model that was written.
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>

#include "intq/interop/onnx/import.hpp"
#include "intq/interop/quantized_onnx/export_to_onnx.hpp"
#include "intq/interop/quantized_onnx/import_quantized.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "intq/tensor/npy.hpp"

namespace {

using namespace intq;
using namespace intq::quantization;
namespace onnx = interop::onnx;
using intq::Tensor;

const std::string data = INTQ_EXAMPLES_DIR "/digits/data/";

bool are_equal(const Tensor& a, const Tensor& b) {
    return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.bytes())) == 0;
}

int run(const std::filesystem::path& folder) {
    const auto& kernels = program::best_table<target::fp32>();
    const auto model = onnx::import_file(data + "digits_resnet.onnx");
    add_stubs(*model);
    const auto prepared =
        prepare_calibration_fx(*model, get_default_qconfig_mapping(kernels.policy()), kernels.policy());
    calibrate(*prepared, load_npy(data + "calibration_images.npy"), 20);
    const QuantizedGraph quantized = convert_fx(*prepared);

    const Tensor images = load_npy(data + "test_images.npy");
    const Tensor expected = lower(quantized, kernels, 50).run(images).contiguous();
    bool ok = true;
    for (const auto form : {onnx::QuantizedForm::operators, onnx::QuantizedForm::qdq}) {
        const bool on_codes = form == onnx::QuantizedForm::operators;
        const std::filesystem::path file = folder / (on_codes ? "digits_operators.onnx" : "digits_qdq.onnx");
        onnx::ExportOptions options;
        options.form = form;
        options.input_names = {"image"};
        options.output_names = {"logits"};
        options.dynamic_axes = {{"image", {{0, "batch"}}}, {"logits", {{0, "batch"}}}};
        onnx::export_to_onnx(quantized, file, options);

        const QuantizedGraph read = onnx::import_quantized_file(file);
        const bool same = are_equal(lower(read, kernels, 50).run(images).contiguous(), expected);
        std::printf("%-22s %6ju bytes, read again: %s results\n", file.filename().c_str(),
                    static_cast<std::uintmax_t>(std::filesystem::file_size(file)), same ? "the same" : "other");
        ok = ok && same;
    }
    return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try { return run(argc > 1 ? argv[1] : "."); } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
