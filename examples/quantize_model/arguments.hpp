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

/// A target with a type of activations: one row of the comparison.
struct Configuration {
    std::string target;  // as the user names it
    intq::DType dtype;
    intq::DType weight_dtype;
    const intq::kernels::KernelTable* kernels;
};

/// fp32, tflite, bernoulli2 and bayes in int8; bayes and meta in int16 (meta with int16 weights).
inline std::vector<Configuration> all_configurations() {
    using namespace intq;
    return {{"fp32", DType::int8, DType::int8, &program::best_table<target::fp32>()},
            {"tflite", DType::int8, DType::int8, &program::best_table<target::tflite<>>()},
            {"bernoulli2", DType::int8, DType::int8, &program::best_table<target::bpu<march::bernoulli2>>()},
            {"bayes", DType::int8, DType::int8, &program::best_table<target::bpu<march::bayes>>()},
            {"bayes", DType::int16, DType::int8, &program::best_table<target::bpu<march::bayes>>()},
            {"meta", DType::int16, DType::int16, &program::best_table<target::bpu<march::meta>>()}};
}

struct Arguments {
    std::string model = INTQ_EXAMPLES_DIR "/quantize_model/data/digits_resnet.onnx";
    std::string calibration = INTQ_EXAMPLES_DIR "/quantize_model/data/calibration_images.npy";
    std::string images = INTQ_EXAMPLES_DIR "/quantize_model/data/test_images.npy";
    std::string labels = INTQ_EXAMPLES_DIR "/quantize_model/data/test_labels.npy";
    std::string target;  // empty: all
    std::string dtype;   // empty: all
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
    app.add_option("--calibration", a.calibration, "float32 images (N, C, H, W) that set the scales, .npy")
        ->option_text("FILE");
    app.add_option("--images", a.images, "float32 images to test on, .npy")->option_text("FILE");
    app.add_option("--labels", a.labels, "their classes, integers (N), .npy; \"none\" without")->option_text("FILE");
    app.add_option("--target", a.target, "fp32, tflite, bernoulli2, bayes or meta; default: all of them")
        ->check(CLI::IsMember({"fp32", "tflite", "bernoulli2", "bayes", "meta"}))
        ->option_text("NAME");
    app.add_option("--dtype", a.dtype, "int8 or int16; default: both")
        ->check(CLI::IsMember({"int8", "int16"}))
        ->option_text("TYPE");
    app.add_option("--layers", a.layers, "target of the table of layers (default: bayes, or that of --target)")
        ->check(CLI::IsMember({"fp32", "tflite", "bernoulli2", "bayes", "meta", "none"}))
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
