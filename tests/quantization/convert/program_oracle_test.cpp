// SPDX-License-Identifier: MIT
//
// The whole way from an ONNX file to integers, layer by layer against the oracle, on every target and backend.
#include <cstring>
#include <set>
#include <string_view>

#include "intq/interop/onnx/import.hpp"
#include "intq/nn/layers/pool.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/tensor/npy.hpp"
#include "kernels/tables/tables.hpp"
#include "quantization/convert/oracle_program.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using namespace intq::test;

struct Model {
    std::shared_ptr<graph::GraphModule> with_stubs;
    intq::Tensor calibration, images;
};

Model shipped_model() {
    const std::string folder = INTQ_EXAMPLES_DIR "/digits/data/";
    Model model{quantization::traced_clone(*interop::onnx::import_file(folder + "digits_resnet.onnx")),
                intq::load_npy(folder + "calibration_images.npy"),
                intq::load_npy(folder + "test_images.npy").batch(0, 5)};
    quantization::add_stubs(*model.with_stubs);
    return model;
}

Model small_model() {
    const std::string folder = INTQ_TESTS_DIR "/golden/models/";
    const intq::Tensor images = intq::load_npy(folder + "small_cnn_input.npy");
    Model model{quantization::traced_clone(*interop::onnx::import_file(folder + "small_cnn.onnx")), images, images};
    quantization::add_stubs(*model.with_stubs);
    return model;
}

/// Compares the output of every instruction with the oracle's layer of the same name.
struct Comparison {
    std::map<std::string, std::pair<const oracle::LayerResult*, DType>> expected;
    std::set<std::string> seen;
    std::string difference;

    static void look(void* context, const runtime::Program& program, index_t index, const void* output, index_t batch) {
        auto& self = *static_cast<Comparison*>(context);
        const runtime::Instruction& instruction = program.instructions[static_cast<std::size_t>(index)];
        if (instruction.op == OpKind::layout_change || !self.difference.empty()) return;
        const runtime::ProgramTensor& tensor = program.tensor(instruction.output);
        // A part of a cat that comes to its grid; the cat itself is compared.
        if (std::string_view(instruction.name).find(".part_") != std::string_view::npos) return;
        const auto known = self.expected.find(instruction.name);
        if (known == self.expected.end()) {
            self.difference = std::string("the oracle has no layer ") + instruction.name;
            return;
        }
        self.seen.insert(instruction.name);
        const oracle::LayerResult& layer = *known->second.first;
        std::vector<unsigned char> bytes;
        if (tensor.dtype == DType::float32) {
            bytes.resize(layer.reals.values.size() * sizeof(float));
            std::memcpy(bytes.data(), layer.reals.values.data(), bytes.size());
        } else {
            bytes = channels_last_bytes(layer.codes, tensor.dtype);
        }
        const auto given = static_cast<std::size_t>(tensor.elements_per_image() * batch * size_of(tensor.dtype));
        if (given != bytes.size() || std::memcmp(bytes.data(), output, given) != 0)
            self.difference = std::string("the bytes of ") + instruction.name + " differ from the oracle's";
    }
};

/// What was compared: an instruction a layer, and backends.
struct Count {
    std::size_t layers = 0;
    int backends = 0;
};

Count compare(const Model& model, std::size_t target, DType dtype, DType weight_dtype) {
    const arith::PolicyRecord& policy = scalar_tables().tables[target]->policy();
    const auto mapping = quantization::get_default_qconfig_mapping(dtype, weight_dtype);
    const auto prepared = quantization::prepare_calibration_fx(*model.with_stubs, mapping, policy);
    quantization::calibrate(*prepared, model.calibration, 20);
    const quantization::QuantizedGraph quantized = quantization::convert_fx(*prepared);
    const auto fused = quantization::fuse_fx(*model.with_stubs, {.fused_add = policy.fused_add});
    const auto layers = OracleLayerMaker(quantized, *fused).run();
    const auto results = oracle::evaluate(oracle_targets()[target], layers, {oracle_tensor(model.images)});

    Comparison comparison;
    std::set<std::string> wanted;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const quantization::QuantizedNode& node = quantized.nodes[i];
        const std::string name = node.module.empty() ? node.name : node.module;
        comparison.expected[name] = {&results[i], quantized.output(node).dtype};
        if (node.as<quantization::FlattenStep>() == nullptr) wanted.insert(name);
    }
    Count count;
    for (const BackendTables& backend : all_backend_tables()) {
        if (backend.tables.empty()) continue;
        INFO("target " << policy.name << ", " << name_of(dtype) << ", backend " << backend.name);
        comparison.seen.clear();
        comparison.difference.clear();
        const auto lowered = quantization::lower(quantized, *backend.tables[target], model.images.extent(0));
        lowered.run(model.images, serial, {&Comparison::look, &comparison});
        CHECK(comparison.difference == "");
        CHECK(comparison.seen == wanted);
        count.layers = comparison.seen.size();
        ++count.backends;
    }
    return count;
}

/// The average pool that the oracle has for a target: of one, by the valid cells, of the others, by the kernel's.
void fit_average_pool(Model& model, const kernels::KernelTable& table) {
    const arith::PolicyRecord& policy = table.policy();
    if (!model.with_stubs->has_child("avgpool")) return;
    auto* pool = dynamic_cast<nn::AvgPool2d*>(model.with_stubs->child("avgpool").get());
    if (pool == nullptr || policy.average != arith::AverageRule::divide_codes) return;
    model.with_stubs = quantization::traced_clone(*model.with_stubs);
    model.with_stubs->replace_child("avgpool",
                                    std::make_shared<nn::AvgPool2d>(pool->window(), PoolDivisor::valid_cells));
}

void compare_all(const Model& given) {
    struct Configuration {
        std::size_t target;
        DType dtype, weight_dtype;
    };
    for (const Configuration& c : {Configuration{0, DType::int8, DType::int8},
                                   {1, DType::int8, DType::int8},
                                   {2, DType::int8, DType::int8},
                                   {3, DType::int8, DType::int8},
                                   {4, DType::int8, DType::int8},
                                   {4, DType::int16, DType::int8},
                                   {5, DType::int8, DType::int8},
                                   {5, DType::int16, DType::int8},
                                   {5, DType::int16, DType::int16}}) {
        Model model = given;
        fit_average_pool(model, *scalar_tables().tables[c.target]);
        const Count count = compare(model, c.target, c.dtype, c.weight_dtype);
        CHECK(count.layers >= 10);
        CHECK(count.backends >= least_backends());
    }
}

}  // namespace

TEST_CASE("the shipped model's program equals the oracle layer by layer on every target and backend", "[program]") {
    compare_all(shipped_model());
}

TEST_CASE("a small model with odd sizes, groups, cat and dead channels equals the oracle layer by layer", "[program]") {
    compare_all(small_model());
}
