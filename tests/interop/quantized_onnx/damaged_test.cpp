// SPDX-License-Identifier: MIT
//
// Nothing but an Error and std::bad_alloc leaves a public function: every model of the repository, sound, cut off and
// with bits changed, from the file to the outputs of its program.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <new>
#include <random>

#include "intq/arith/litert.hpp"
#include "intq/arith/target.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/interop/quantized_onnx/export_to_onnx.hpp"
#include "intq/interop/quantized_onnx/import_quantized.hpp"
#include "intq/interop/tflite/import.hpp"
#include "intq/io/file.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
namespace fs = std::filesystem;
namespace onnx = interop::onnx;
namespace tflite = interop::tflite;

namespace {

const fs::path golden = fs::path(INTQ_TESTS_DIR) / "golden";

/// More elements than a damaged extent may make a test compute.
constexpr index_t most_elements = 1 << 18;

struct Counts {
    int refused = 0, done = 0;
};

/// Runs a step, and what follows it with its result.
template <class Body> void guarded(Counts& counts, const Body& body) {
    try {
        body();
        ++counts.done;
    } catch (const Error&) {
        ++counts.refused;
    } catch (const std::bad_alloc&) {
        ++counts.refused;
    } catch (const std::exception& error) {
        FAIL_CHECK("not an Error: " << error.what());
    }
}

/// Shapes of the inputs of a model, with one sample; nothing where the file leaves others open.
std::vector<intq::Tensor> shapes_of(const onnx::Model& file, const graph::GraphModule& model) {
    std::vector<intq::Tensor> shapes;
    for (const graph::Node* input : model.graph().placeholders())
        for (const onnx::ValueInfo& info : file.graph.inputs) {
            if (info.name != input->target()) continue;
            Shape shape;
            for (const index_t extent : info.shape) {
                const bool is_open_batch = extent < 0 && shape.rank == 0;
                shape.extents[static_cast<std::size_t>(shape.rank++)] = is_open_batch ? 1 : extent;
            }
            shapes.push_back(intq::Tensor::of_shape(shape));
        }
    return shapes;
}

/// Whether all values together are few enough to compute.
bool are_few(graph::GraphModule& model, const std::vector<intq::Tensor>& shapes) {
    const std::vector<nn::Value> values(shapes.begin(), shapes.end());
    graph::propagate_shapes(model, values);
    index_t elements = 0;
    for (const graph::Node* node : model.graph().nodes())
        for (const graph::OutputInfo& output : node->outputs())
            if (output.dtype != DType::none &&
                (elements += (std::min)(output.shape.size(), most_elements)) >= most_elements)
                return false;
    return true;
}

/// From a file of real numbers to the outputs of its program, and to another file.
void take_float(const std::vector<std::byte>& bytes, const kernels::KernelTable& table) {
    const onnx::Model file = onnx::parse_model(bytes, "m.onnx");
    const auto model = onnx::import_model(file);
    add_stubs(*model);
    const std::vector<intq::Tensor> shapes = shapes_of(file, *model);
    if (!are_few(*model, shapes)) return;
    const auto prepared = prepare_calibration_fx(*model, get_default_qconfig_mapping(table.policy()), table.policy(),
                                                 {.example_inputs = shapes});
    std::vector<nn::Value> samples;
    std::vector<intq::Tensor> inputs;
    for (const intq::Tensor& shape : shapes) inputs.push_back(test::random_tensor(shape.shape(), 5));
    samples.assign(inputs.begin(), inputs.end());
    prepared->run(samples, {});
    const QuantizedGraph quantized = convert_fx(*prepared);
    lower(quantized, table, 1).run(inputs);
}

/// From a file of codes to the outputs of its program.
void take_codes(const std::vector<std::byte>& bytes, const kernels::KernelTable& table) {
    const onnx::Model file = onnx::parse_model(bytes, "m.onnx");
    const auto model = onnx::import_model(file);
    const std::vector<intq::Tensor> shapes = shapes_of(file, *model);
    if (!are_few(*model, shapes)) return;
    const QuantizedGraph quantized = onnx::import_quantized(file, {.example_inputs = shapes});
    std::vector<intq::Tensor> inputs;
    for (const intq::Tensor& shape : shapes) inputs.push_back(test::random_tensor(shape.shape(), 5));
    lower(quantized, table, 1).run(inputs);
}

void take_tflite(const std::vector<std::byte>& bytes) {
    const kernels::KernelTable& table = program::best_table<target::litert>();
    const tflite::Limits limits{
        .tensor_bytes = most_elements, .total_bytes = 8 * most_elements, .copied_bytes = 1 << 24};
    const tflite::ImportedProgram imported =
        tflite::import_program(tflite::parse_model(bytes, "m.tflite"), table, {.limits = limits});
    const runtime::Program& program = imported.program->program();
    std::vector<intq::Tensor> inputs;
    for (const std::int32_t index : program.inputs)
        inputs.push_back(intq::Tensor::zeros(program.tensor(index).shape, program.tensor(index).dtype,
                                             program.tensor(index).layout));
    imported.program->run(inputs);
}

/// A file as it is, cut off, and with one to eight bits changed.
template <class Take>
Counts take_damaged(const fs::path& folder, const std::string& extension, int changes, const Take& take) {
    Counts counts;
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().extension() == extension) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const fs::path& path : files) {
        const std::vector<std::byte> whole = io::read_file(path);
        std::mt19937 random(static_cast<unsigned>(whole.size()));
        for (int change = 0; change <= changes; ++change) {
            std::vector<std::byte> bytes = whole;
            if (change == 1) bytes.resize(random() % whole.size());
            if (change > 1)
                for (int i = 0; i < 1 << (change % 4); ++i)
                    bytes[random() % whole.size()] ^= std::byte(1u << random() % 8);
            INFO(path << ", change " << change);
            guarded(counts, [&] { take(bytes); });
        }
    }
    return counts;
}

}  // namespace

TEST_CASE("Nothing but an Error leaves a public function, whatever a file holds") {
    const kernels::KernelTable& litert = program::best_table<target::litert>();
    const kernels::KernelTable& fp32 = program::best_table<target::fp32>();
    const Counts of_floats =
        take_damaged(golden / "models", ".onnx", 6, [&](const auto& file) { take_float(file, litert); });
    CHECK(of_floats.refused > 200);
    CHECK(of_floats.done > 200);
    const Counts of_codes =
        take_damaged(golden / "quantized", ".onnx", 6, [&](const auto& file) { take_codes(file, fp32); });
    CHECK(of_codes.refused > 20);
    CHECK(of_codes.done > 20);
    const Counts of_tflite =
        take_damaged(golden / "tflite", ".tflite", 24, [&](const auto& file) { take_tflite(file); });
    CHECK(of_tflite.refused > 100);
    CHECK(of_tflite.done > 20);
}
