// SPDX-License-Identifier: MIT
//
// The shipped network: its file, its float logits beside PyTorch's, and its accuracy in integers.
#include <algorithm>
#include <cmath>

#include "intq/interop/onnx/import.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/tensor/npy.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;

const std::string folder = INTQ_EXAMPLES_DIR "/digits/data/";
const std::string small_folder = INTQ_TESTS_DIR "/golden/models/";

double largest_difference(const intq::Tensor& a, const intq::Tensor& b) {
    REQUIRE(a.shape() == b.shape());
    double largest = 0.0;
    for (std::size_t i = 0; i < a.flat<float>().size(); ++i)
        largest = std::max(largest, std::fabs(static_cast<double>(a.flat<float>()[i] - b.flat<float>()[i])));
    return largest;
}

index_t count_right(const intq::Tensor& logits, const intq::Tensor& labels) {
    const auto values = logits.flat<float>();
    const auto classes = static_cast<std::ptrdiff_t>(logits.extent(1));
    index_t right = 0;
    for (index_t row = 0; row < logits.extent(0); ++row) {
        const auto first = values.begin() + row * classes;
        right += std::max_element(first, first + classes) - first ==
                 labels.flat<std::int64_t>()[static_cast<std::size_t>(row)];
    }
    return right;
}

}  // namespace

TEST_CASE("the shipped ONNX file keeps its ten batch norms, and a depthwise convolution") {
    const interop::onnx::Model model = interop::onnx::read_model(folder + "digits_resnet.onnx");
    std::size_t norms = 0, adds = 0;
    for (const auto& node : model.graph.nodes) {
        norms += node.op_type == "BatchNormalization" ? 1 : 0;
        adds += node.op_type == "Add" ? 1 : 0;
    }
    CHECK(norms == 10);
    CHECK(adds == 3);
}

TEST_CASE("the float interpreter gives PyTorch's logits within 1e-5") {
    const auto shipped = interop::onnx::import_file(folder + "digits_resnet.onnx");
    CHECK(largest_difference((*shipped)(intq::load_npy(folder + "test_images.npy")).tensor(),
                             intq::load_npy(folder + "test_logits.npy")) < 1e-5);
    const auto small = interop::onnx::import_file(small_folder + "small_cnn.onnx");
    CHECK(largest_difference((*small)(intq::load_npy(small_folder + "small_cnn_input.npy")).tensor(),
                             intq::load_npy(small_folder + "small_cnn_logits.npy")) < 1e-5);
}

TEST_CASE("on the test split integers are at most a few images worse than float") {
    const auto model = interop::onnx::import_file(folder + "digits_resnet.onnx");
    const intq::Tensor images = intq::load_npy(folder + "test_images.npy"),
                       labels = intq::load_npy(folder + "test_labels.npy");
    REQUIRE(images.extent(0) >= 500);
    const index_t right_in_float = count_right((*model)(images).tensor(), labels);
    CHECK(right_in_float >= images.extent(0) * 98 / 100);
    const auto with_stubs = quantization::traced_clone(*model);
    quantization::add_stubs(*with_stubs);

    struct Bound {
        std::size_t target;
        DType dtype, weight_dtype;
        index_t worse;
    };
    for (const Bound& bound : {Bound{0, DType::int8, DType::int8, 3},  // fp32
                               {1, DType::int8, DType::int8, 3},       // tflite
                               {3, DType::int8, DType::int8, 6},       // bernoulli2
                               {4, DType::int8, DType::int8, 3},       // bayes
                               {4, DType::int16, DType::int8, 1},
                               {5, DType::int16, DType::int16, 1}}) {  // meta
        const kernels::KernelTable& table = *test::scalar_tables().tables[bound.target];
        INFO(table.policy().name << " " << name_of(bound.dtype));
        const auto mapping = quantization::get_default_qconfig_mapping(bound.dtype, bound.weight_dtype);
        const auto prepared = quantization::prepare_calibration_fx(*with_stubs, mapping, table.policy());
        quantization::calibrate(*prepared, intq::load_npy(folder + "calibration_images.npy"), 100);
        const auto program = quantization::lower(quantization::convert_fx(*prepared), table, 20);
        CHECK(count_right(program.run(images), labels) >= right_in_float - bound.worse);
    }
}
