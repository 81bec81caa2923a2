// SPDX-License-Identifier: MIT
//
// Command line of quantize_model, and the configurations that it can compare.
#ifndef INTQ_EXAMPLES_QUANTIZE_MODEL_ARGUMENTS_HPP
#define INTQ_EXAMPLES_QUANTIZE_MODEL_ARGUMENTS_HPP

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "intq/intq.hpp"

namespace quantize_model {

/// A target with a type and a scheme of activations: one row of the comparison.
struct Configuration {
    std::string target;  // as the user names it
    intq::DType dtype;
    intq::DType weight_dtype;
    intq::arith::QuantScheme scheme;
    const intq::kernels::KernelTable* kernels;

    const char* scheme_name() const { return scheme == intq::arith::QuantScheme::affine ? "affine" : "symmetric"; }
};

/// fp32 and tflite in int8, affine, which is their default, and symmetric; litert, bernoulli2 and bayes in int8; bayes
/// and meta in int16 (meta with int16 weights).
inline std::vector<Configuration> all_configurations() {
    using namespace intq;
    constexpr auto affine = arith::QuantScheme::affine, symmetric = arith::QuantScheme::symmetric;
    const auto *fp32 = &program::best_table<target::fp32>(), *tflite = &program::best_table<target::tflite<>>(),
               *litert = &program::best_table<target::litert>(),
               *bernoulli2 = &program::best_table<target::bpu<march::bernoulli2>>(),
               *bayes = &program::best_table<target::bpu<march::bayes>>(),
               *meta = &program::best_table<target::bpu<march::meta>>();
    return {{"fp32", DType::int8, DType::int8, affine, fp32},
            {"fp32", DType::int8, DType::int8, symmetric, fp32},
            {"tflite", DType::int8, DType::int8, affine, tflite},
            {"tflite", DType::int8, DType::int8, symmetric, tflite},
            {"litert", DType::int8, DType::int8, affine, litert},
            {"bernoulli2", DType::int8, DType::int8, symmetric, bernoulli2},
            {"bayes", DType::int8, DType::int8, symmetric, bayes},
            {"bayes", DType::int16, DType::int8, symmetric, bayes},
            {"meta", DType::int16, DType::int16, symmetric, meta}};
}

struct Arguments {
    std::string model = INTQ_EXAMPLES_DIR "/quantize_model/data/digits_resnet.onnx";
    std::string calibration = INTQ_EXAMPLES_DIR "/quantize_model/data/calibration_images.npy";
    std::string images = INTQ_EXAMPLES_DIR "/quantize_model/data/test_images.npy";
    std::string labels = INTQ_EXAMPLES_DIR "/quantize_model/data/test_labels.npy";
    std::string target;                  // empty: all
    std::string dtype;                   // empty: all
    std::string scheme;                  // empty: all
    std::vector<float> mean, deviation;  // of uint8 images, one number or one for each channel
    std::string layers = "bayes";
    int calibration_count = 0;  // 0: all
    int batch = 20;
};

/// The parser; its help text is the program's.
inline void add_options(CLI::App& app, Arguments& a) {
    app.description(
        "Quantizes a trained float CNN to integers and says what was lost: for each target the accuracy, and for one\n"
        "target a table of its layers. Without options: the shipped network on handwritten digits.");
    app.add_option("--model", a.model, "ONNX file of the float model")->option_text("FILE");
    app.add_option("--calibration", a.calibration,
                   "images (N, C, H, W) that set the scales, float32 or uint8, or other float32 samples (N, ...), .npy")
        ->option_text("FILE");
    app.add_option("--images", a.images, "images or samples to test on, .npy")->option_text("FILE");
    app.add_option("--mean", a.mean,
                   "of uint8 images: x = (pixel / 255 - MEAN) / DEVIATION; one number, or one a channel")
        ->option_text("NUMBER...");
    app.add_option("--deviation", a.deviation, "see --mean")->check(CLI::PositiveNumber)->option_text("NUMBER...");
    app.add_option("--labels", a.labels, "their classes, integers (N), .npy; \"none\" without")->option_text("FILE");
    app.add_option("--target", a.target, "fp32, tflite, litert, bernoulli2, bayes or meta; default: all of them")
        ->check(CLI::IsMember({"fp32", "tflite", "litert", "bernoulli2", "bayes", "meta"}))
        ->option_text("NAME");
    app.add_option("--dtype", a.dtype, "int8 or int16; default: both")
        ->check(CLI::IsMember({"int8", "int16"}))
        ->option_text("TYPE");
    app.add_option("--scheme", a.scheme, "affine or symmetric activations; default: both")
        ->check(CLI::IsMember({"affine", "symmetric"}))
        ->option_text("NAME");
    app.add_option("--layers", a.layers, "target of the table of layers (default: bayes, or that of --target)")
        ->check(CLI::IsMember({"fp32", "tflite", "litert", "bernoulli2", "bayes", "meta", "none"}))
        ->option_text("NAME");
    app.add_option("--calibration-count", a.calibration_count, "use only the first COUNT calibration images")
        ->check(CLI::PositiveNumber)
        ->option_text("COUNT");
    app.add_option("--batch", a.batch, "images in a run of the program (default: 20)")
        ->check(CLI::Range(1, 4096))
        ->option_text("COUNT");
}

}  // namespace quantize_model

#endif  // INTQ_EXAMPLES_QUANTIZE_MODEL_ARGUMENTS_HPP
