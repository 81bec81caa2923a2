// SPDX-License-Identifier: MIT
//
// Whether a model asks for memory and time that are in proportion to its file and its samples. A file of a few hundred
// bytes can describe values of gigabytes.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "options.hpp"

namespace intq_tool {

using namespace intq;
using intq::Tensor;

namespace {

/// Networks stay far below: ResNet-50 takes a third of a byte of values for each byte that it is allowed, and 1/2,000
/// of the products.
constexpr double bytes_for_each_byte = 256, products_for_each_byte = 1 << 16;
/// What the smallest may take.
constexpr double least_bytes = 8 << 20, least_products = 1 << 28;

double size_of_outputs(const graph::Node& node) {
    double size = 0;
    for (const graph::OutputInfo& output : node.outputs())
        if (output.dtype != DType::none) size += static_cast<double>(output.shape.size());
    return size;
}

template <class Pool> double cells_of(const nn::Module* module) {
    const auto* pool = dynamic_cast<const Pool*>(module);
    if (pool == nullptr) return 0;
    const Size2d kernel = pool->window().kernel;
    return static_cast<double>(kernel.height) * static_cast<double>(kernel.width);
}

/// What a node computes for one sample.
struct NodeCost {
    double bytes = 0, products = 0;
    double share() const { return bytes / least_bytes + products / least_products; }
};

NodeCost cost_of(const graph::Node& node, nn::Module& model) {
    double size = size_of_outputs(node), inputs = 0;
    for (const graph::Node* input : node.inputs()) inputs += size_of_outputs(*input);
    NodeCost cost{4 * size, (std::max)(size, inputs)};
    const nn::Module* const module = graph::module_of(node, model);
    if (const auto* layer = dynamic_cast<const nn::Weighted*>(module)) {
        const Tensor& weight = layer->weight();
        const double channels = static_cast<double>(std::max<index_t>(layer->out_channels(), 1));
        double taps = 1;
        for (int axis = 2; axis < weight.rank(); ++axis) taps *= static_cast<double>(weight.extent(axis));
        // The place of each tap, and the image that a transposed convolution spreads out.
        if (weight.rank() > 2) cost.bytes += 4 * size / channels * (taps + 2 + static_cast<double>(weight.extent(0)));
        cost.products += size * static_cast<double>(weight.size()) / channels;
    }
    cost.products += size * (cells_of<nn::MaxPool2d>(module) + cells_of<nn::AvgPool2d>(module));
    if (node.op() != graph::Op::call_module && node.target() == "matmul")
        cost.products +=
            size * static_cast<double>(node.inputs()[0]->outputs()[0].shape.extents[static_cast<std::size_t>(
                       (std::max)(node.inputs()[0]->outputs()[0].shape.rank - 1, 0))]);
    return cost;
}

std::string count_of(double number) { return digits("%.3g", number); }

}  // namespace

void require_proportion(const std::string& path, const FloatModel& model, std::span<const Tensor> samples) {
    std::vector<nn::Value> one;
    double elements = 0;
    for (const Tensor& input : samples) {
        if (input.rank() < 1) return;
        Shape shape = input.shape();
        shape[0] = 1;
        one.emplace_back(Tensor::of_shape(shape, input.dtype()));
        elements += static_cast<double>(shape.size());
    }
    graph::propagate_shapes(*model.module, one);
    NodeCost all, largest;
    const graph::Node* worst = nullptr;
    for (const graph::Node* node : model.module->graph().nodes()) {
        const NodeCost cost = cost_of(*node, *model.module);
        all.bytes += cost.bytes;
        all.products += cost.products;
        if (worst == nullptr || cost.share() > largest.share()) worst = node, largest = cost;
    }
    const double given = static_cast<double>(model.file_bytes) + 4 * elements;
    const double most_bytes = least_bytes + bytes_for_each_byte * given,
                 most_products = least_products + products_for_each_byte * given;
    if (worst == nullptr || (all.bytes <= most_bytes && all.products <= most_products)) return;
    throw Error(path, "it is out of proportion: one sample takes " + count_of(all.bytes) + " bytes of values and " +
                          count_of(all.products) + " operations, most of them in %" + worst->name() + " (" +
                          graph::type_of(*worst, *model.module) + "), whose output is " +
                          to_string(worst->outputs()[0].shape) + "; a file and a sample of together " +
                          count_of(given) + " bytes may take " + count_of(most_bytes) + " bytes and " +
                          count_of(most_products) + " operations");
}

namespace {

void require_program_bytes(const std::string& path, double bytes) {
    std::error_code ignored;
    const double given = static_cast<double>(std::filesystem::file_size(path, ignored));
    const double most = 8 * least_bytes + bytes_for_each_byte * given;
    if (bytes > most)
        throw Error(path, "it is out of proportion: a run of it takes " + count_of(bytes) + " bytes; a file of " +
                              count_of(given) + " bytes may take " + count_of(most));
}

}  // namespace

void require_proportion(const std::string& path, const runtime::Program& program) {
    double bytes = static_cast<double>(program.arena_size);
    for (const runtime::Instruction& step : program.instructions)
        bytes += static_cast<double>(program.tensor(step.output).bytes());
    require_program_bytes(path, bytes);
}

void require_proportion(const std::string& path, const quantization::QuantizedGraph& model, index_t batch) {
    double bytes = 0;
    for (const quantization::QuantizedTensor& tensor : model.tensors)
        bytes += static_cast<double>(batch) * static_cast<double>(tensor.shape.size()) *
                 static_cast<double>(size_of(tensor.dtype));
    for (const quantization::QuantizedNode& node : model.nodes)
        if (const auto* step = node.as<quantization::WeightedStep>()) {
            const Shape& shape = model.output(node).shape;
            const double pixels = static_cast<double>(shape.size()) /
                                  static_cast<double>(std::max<index_t>(shape.rank > 1 ? shape[1] : 1, 1));
            const Size2d kernel = step->window.kernel;
            bytes += 4 * pixels * (static_cast<double>(kernel.height) * static_cast<double>(kernel.width) + 2);
        }
    require_program_bytes(path, bytes);
}

}  // namespace intq_tool
