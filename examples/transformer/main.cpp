// SPDX-License-Identifier: MIT
//
// A transformer from training to firmware, in C++ alone (docs/transformer.md): trains the encoder of encoder.hpp on the
// shipped digits, quantizes all of it, in int8 and in int16, and writes program files, and headers for two boards.
//
//     transformer <folder> [epochs]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "../train_digits/digits.hpp"
#include "encoder.hpp"
#include "intq/deploy.hpp"
#include "intq/io/error.hpp"
#include "intq/io/file.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "intq/numeric_suite/metrics/metrics.hpp"
#include "intq/quantization.hpp"
#include "intq/training.hpp"

namespace {

using namespace intq;
using train_digits::Digits;

/// The arithmetic of TFLite, by the kernels of every machine.
const kernels::KernelTable& table = kernels::kernel_table<target::tflite<>, simd::scalar>;

// --- float -----------------------------------------------------------------------------------------------------------

void train(graph::GraphModule& model, const Digits& digits, std::int64_t epochs) {
    training::Adam adam({.weight_decay = 1e-2, .decoupled = true});
    training::TrainerOptions options;
    options.epochs = epochs;
    options.seed = 1;
    const std::int64_t steps = epochs * (digits.train_images.extent(0) / options.batch_size);
    options.rate = training::warm_up(steps / 10, training::cosine_rate(3e-3, steps - steps / 10));
    training::Trainer(model, adam, options).fit(digits.train_images, [&](const auto& logits, auto samples) {
        return training::cross_entropy(logits, train_digits::pick(digits.train_labels, samples), 0.05);
    });
    model.eval();
}

// --- integers --------------------------------------------------------------------------------------------------------

/// All of a model in integers. An Error names what would stay in float.
std::shared_ptr<program::OwnedProgram> quantize(const graph::GraphModule& model, DType dtype, const Tensor& images) {
    quantization::QConfig qconfig = quantization::get_default_qconfig(table.policy(), dtype);
    qconfig.output->options.observer = quantization::observer_factory<quantization::MinMaxObserver>();
    const auto mapping = quantization::QConfigMapping().set_global(qconfig);
    const auto prepared = quantization::prepare_calibration_fx(model, mapping, table.policy());
    if (!prepared->report().fallbacks.empty()) throw Error(prepared->report().fallbacks[0].node, "stays in float");
    quantization::calibrate(*prepared, images, 20);
    const auto converted = quantization::convert_fx(*prepared);
    quantization::check_deployable(converted);
    return quantization::lower(converted, table).shared_program();
}

/// Prints how good logits are beside those of the float model. @return whether integers lost next to nothing
bool show(const char* name, const Tensor& logits, const Tensor& of_float, const Digits& digits) {
    const double accuracy = train_digits::accuracy(logits, digits);
    const double sqnr = numeric_suite::compute_sqnr(of_float.flat<float>(), logits.flat<float>());
    std::printf("%-26s %6.2f %%   SQNR %5.2f dB\n", name, accuracy, sqnr);
    return accuracy > train_digits::accuracy(of_float, digits) - 1.5 && sqnr > 25.0;
}

// --- firmware --------------------------------------------------------------------------------------------------------

/// The program file for any machine, and a header for each of two boards.
void write(const std::filesystem::path& folder, const std::string& name, const program::OwnedProgram& program,
           const Tensor& golden_images) {
    const deploy::GoldenRecord golden = deploy::record_golden_runs(program, std::span(&golden_images, 1));
    deploy::write_program(folder / (name + ".intq"), program, golden);
    for (const char* cpu : {"cortex-m4", "cortex-m55"}) {
        const auto board = deploy::describe_kernels(table, deploy::find_board_cpu(cpu)->backend);
        const auto packed = deploy::pack_program(program.program(), table, board);
        const auto place = folder / (name + "_" + cpu);
        std::filesystem::create_directories(place);
        io::write_file(place / "model.hpp", deploy::generate_cpp(packed->program(), packed->table(), golden));
        const auto header = deploy::header_program(packed->program(), packed->table(), golden);
        std::printf("%-5s for %-10s   arena %4td bytes, constants %td bytes\n", name.c_str(), cpu,
                    deploy::memory_report(header.program, packed->table()).arena,
                    deploy::flash_report(header.program, packed->table()).total());
    }
}

int run(const std::filesystem::path& folder, std::int64_t epochs) {
    const Digits digits = train_digits::load_digits();
    manual_seed(1);
    const auto model = graph::symbolic_trace(std::make_shared<transformer::Encoder>());
    train(*model, digits, epochs);

    // The same weights in a model that does not see the last two rows.
    const auto masked = graph::symbolic_trace(std::make_shared<transformer::Encoder>(transformer::mask_behind(6)));
    nn::load_state_dict(*masked, nn::state_dict(*model));
    masked->eval();

    const Tensor images = load_npy(INTQ_EXAMPLES_DIR "/digits/data/calibration_images.npy");
    std::filesystem::create_directories(folder);
    bool is_good = true;
    for (const auto& network : {model, masked}) {
        const std::string seen = network == masked ? ", 2 rows masked" : "";
        const Tensor of_float = (*network)(digits.test_images).tensor();
        std::printf("%-26s %6.2f %%\n", ("float" + seen).c_str(), train_digits::accuracy(of_float, digits));
        quantization::add_stubs(*network);
        for (const DType dtype : {DType::int8, DType::int16}) {
            const auto program = quantize(*network, dtype, images);
            is_good &= show((name_of(dtype) + seen).c_str(), program->run(digits.test_images), of_float, digits);
            if (network == model) write(folder, name_of(dtype), *program, digits.test_images.batch(0, 2));
        }
    }
    return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc < 2) {
        std::fputs("usage: transformer <folder> [epochs]\n", stderr);
        return EXIT_FAILURE;
    }
    return run(argv[1], argc > 2 ? std::atoi(argv[2]) : 15);
} catch (const std::exception& error) {
    std::fprintf(stderr, "transformer: %s\n", error.what());
    return EXIT_FAILURE;
}
