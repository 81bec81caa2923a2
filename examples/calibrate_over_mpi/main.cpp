// SPDX-License-Identifier: MIT
//
// Calibrates the shipped network on several processes and prints the scales of all quantizers, which are the same bits
// for any number of them.
//
//     mpirun -n 2 calibrate_over_mpi
#include <cstdio>
#include <exception>
#include <string>

#include "intq/arith/bpu.hpp"
#include "intq/distributed/calibrate.hpp"
#include "intq/distributed/mpi/mpi_communicator.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "intq/tensor/npy.hpp"

namespace {
using namespace intq;
using namespace intq::quantization;

const std::string data = INTQ_EXAMPLES_DIR "/digits/data/";

void run(distributed::Communicator& all) {
    constexpr arith::PolicyRecord target = march::bayes::policy;
    const auto model = interop::onnx::import_file(data + "digits_resnet.onnx");
    add_stubs(*model);
    // A moving average follows the order of the batches, which ranks have not; minima and maxima do not.
    const auto mapping = QConfigMapping().set_global(get_default_calib_qconfig({.activation_observer = "min_max"}));
    const auto prepared = prepare_calibration_fx(*model, mapping, target);

    // Each rank is asked for its own batches only; here they are slices of one file.
    const intq::Tensor images = load_npy(data + "calibration_images.npy");
    int own = 0;
    BatchSource source = batches_of(images, 20);
    source.batch = [&, batch = source.batch](std::size_t number) {
        ++own;
        return batch(number);
    };
    const CalibrationReport report = distributed::calibrate(*prepared, source, all);
    std::fprintf(stderr, "rank %d of %d ran %d of %zu batches\n", all.rank(), all.size(), own, report.total);
    if (all.rank() != 0) return;
    for (const auto& module : prepared->named_modules())
        if (const auto* quantizer = dynamic_cast<const FakeQuantize*>(module.value); quantizer != nullptr)
            std::printf("%-60s %zu scales, the first %a\n", module.name.c_str(), quantizer->qparams().scales.size(),
                        static_cast<double>(quantizer->qparams().scales[0]));
}

}  // namespace

int main(int argc, char** argv) {
    distributed::MpiSession mpi(argc, argv);
    try {
        distributed::MpiCommunicator all;
        all.together([&] { run(all); });
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "calibrate_over_mpi: %s\n", error.what());
        return 1;
    }
}
