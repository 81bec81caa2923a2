// SPDX-License-Identifier: MIT
//
// Transformers as PyTorch exports them today compute what ONNX Runtime computes, in float. They are made by
// tests/golden/make_transformers.py, in the folder that INTQ_TRANSFORMERS names; measure_transformers.py beside it
// quantizes them.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "interop/onnx/torchvision.hpp"
#include "intq/io/npz.hpp"
#include "support/catch.hpp"

using namespace intq;

namespace {

intq::Tensor tensor_of(const io::NpyArray& array) {
    Shape shape;
    for (const index_t extent : array.shape) shape.extents[static_cast<std::size_t>(shape.rank++)] = extent;
    intq::Tensor tensor = intq::Tensor::empty(shape, array.dtype);
    std::memcpy(tensor.data(), array.bytes.data(), array.bytes.size());
    return tensor;
}

/// An input of the model, which takes integers as real numbers where they are not ids, and positions as (N, 1).
intq::Tensor input_of(const interop::onnx::Model& file, const io::NamedArray& sample) {
    const intq::Tensor given = tensor_of(sample.array);
    if (interop::onnx::position_inputs(file).count(sample.name) != 0) return given.reshape(Shape(given.extent(0), 1));
    if (given.dtype() != DType::int64 || interop::onnx::takes_ids(file, sample.name)) return given;
    std::vector<float> reals;
    for (const std::int64_t value : given.flat<std::int64_t>()) reals.push_back(static_cast<float>(value));
    return intq::Tensor::from(given.shape(), reals);
}

/// The largest difference of the outputs of all samples, over the largest magnitude of the output.
double largest_error(const interop::onnx::Model& file, const std::vector<io::NamedArray>& samples,
                     const std::vector<io::NamedArray>& expected) {
    const auto imported = interop::onnx::import_model(file);
    graph::GraphModule& model = *imported;
    std::map<std::string, intq::Tensor> inputs;
    for (const io::NamedArray& sample : samples) inputs[sample.name] = input_of(file, sample);
    double worst = 0;
    for (index_t i = 0; i < samples[0].array.shape[0]; ++i) {
        std::vector<nn::Value> given;
        for (const std::string& name : model.input_names()) given.emplace_back(inputs.at(name).batch(i, 1));
        const std::vector<intq::Tensor> results = nn::tensors_of(model.dispatch("forward", given));
        REQUIRE(results.size() == expected.size());  // in the order of the file
        for (std::size_t k = 0; k < results.size(); ++k)
            worst = std::max(worst, test::relative_error(tensor_of(expected[k].array).batch(i, 1), results[k]));
    }
    return worst;
}

}  // namespace

TEST_CASE("Transformers of today's exporter compute what ONNX Runtime computes") {
    const char* const given = std::getenv("INTQ_TRANSFORMERS");
    if (given == nullptr) INTQ_SKIP("INTQ_TRANSFORMERS names no folder that tests/golden/make_transformers.py made");
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(given)) {
        const std::filesystem::path path = entry.path();
        if (path.extension() != ".onnx") continue;
        INFO(path.string());
        const std::string stem = (path.parent_path() / path.stem()).string();
        const interop::onnx::Model file = interop::onnx::read_model(path);
        const double error = largest_error(file, io::read_npz(stem + "_test.npz"), io::read_npz(stem + "_float.npz"));
        std::printf("%-10s float within %.1e\n", path.stem().string().c_str(), error);
        CHECK(error < 2e-5);
        ++count;
    }
    CHECK(count > 0);
}
