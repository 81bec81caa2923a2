// SPDX-License-Identifier: MIT
//
// lower: from a converted model to a program for one target and backend. Layer: quantization (DESIGN section 6).
#ifndef INTQ_QUANTIZATION_LOWER_HPP
#define INTQ_QUANTIZATION_LOWER_HPP

#include "intq/quantization/program_builder.hpp"
#include "intq/quantization/quantized_graph.hpp"
#include "intq/quantization/reference.hpp"

namespace intq::inline INTQ_ABI::quantization {

/// A program, and the float operators behind it, where the model ends in some (a softmax).
class LoweredModel {
public:
    LoweredModel(std::shared_ptr<OwnedProgram> program, std::shared_ptr<graph::GraphModule> tail)
        : program_(std::move(program)), tail_(std::move(tail)) {}

    /// @param images  float32, (N, …), row_major
    /// @param hook    called after every instruction of every batch
    /// @return the model's output for N images
    nn::Tensor run(const nn::Tensor& images, const Executor& executor = serial,
                   runtime::InstructionHook hook = {}) const {
        nn::Tensor output = program_->run(images, executor, hook);
        return tail_ == nullptr ? output : (*tail_)(output).tensor();
    }

    const OwnedProgram& program() const noexcept { return *program_; }
    std::shared_ptr<OwnedProgram> shared_program() const noexcept { return program_; }
    /// Null where the program gives the model's output.
    const std::shared_ptr<graph::GraphModule>& tail() const noexcept { return tail_; }

private:
    std::shared_ptr<OwnedProgram> program_;
    std::shared_ptr<graph::GraphModule> tail_;
};

/// Lowers a converted model.
///
/// Instructions have the qualified names and types of the modules that they come from. A linear layer behind a flatten
/// reads the image itself. Throws for an operator that stays in float anywhere but at the end, naming it; and what the
/// target or a kernel refuses, with the layer's name.
///
/// @param table      kernels of the target that the model was converted for, on the backend that is to run
/// @param max_batch  images that one run of the program holds
LoweredModel lower(const QuantizedGraph& quantized, const kernels::KernelTable& table, index_t max_batch = 1);

// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

inline bool is_float_step(const QuantizedNode& node) {
    return std::holds_alternative<FloatStep>(node.step) || std::holds_alternative<ConstantStep>(node.step);
}

/// The operators in float at the end of a model, as a model of their own; no nodes where there are none.
inline QuantizedGraph split_tail(const QuantizedGraph& quantized) {
    QuantizedGraph tail;
    std::set<int> made, read;
    for (const QuantizedNode& node : quantized.nodes) {
        if (!is_float_step(node)) {
            for (const int input : node.inputs)
                if (made.count(input) != 0)
                    throw Error("lower: " + node.name + " (" + node.type + ")",
                                "it reads \"" + quantized.tensor(input).name +
                                    "\", which stays in float; a program executes integers only, so operators in float "
                                    "may stand at the end of a model alone");
            continue;
        }
        tail.nodes.push_back(node);
        made.insert(node.output);
        for (const int input : node.inputs)
            if (made.count(input) == 0) read.insert(input);
    }
    if (tail.nodes.empty()) return tail;
    for (const int input : quantized.inputs) read.erase(input);
    if (read.size() != 1 || quantized.outputs.size() != 1 || made.count(quantized.outputs[0]) == 0)
        throw Error(
            "lower: " + tail.nodes[0].name + " (" + tail.nodes[0].type + ")",
            "it stays in float, and the operators in float do not stand between one output of the program and the "
            "output of the model; a program executes integers only");
    tail.target = quantized.target;
    tail.tensors = quantized.tensors;
    tail.inputs.assign(read.begin(), read.end());
    tail.outputs = quantized.outputs;
    return tail;
}

class Lowerer {
public:
    Lowerer(const QuantizedGraph& quantized, const kernels::KernelTable& table, index_t max_batch)
        : quantized_(quantized), builder_(table, max_batch) {}

    std::shared_ptr<OwnedProgram> run(const std::vector<int>& outputs) {
        for (const int input : quantized_.inputs) {
            const QuantizedTensor& tensor = quantized_.tensor(input);
            Shape per_image;
            for (int axis = 1; axis < tensor.shape.rank; ++axis)
                per_image.extents[static_cast<std::size_t>(per_image.rank++)] = tensor.shape[axis];
            tensors_[input] = builder_.input(per_image, tensor.name);
        }
        for (const QuantizedNode& node : quantized_.nodes)
            if (!is_float_step(node)) std::visit([&](const auto& step) { add(node, step); }, node.step);
        std::vector<std::int32_t> results;
        for (const int output : outputs) {
            if (std::find(quantized_.inputs.begin(), quantized_.inputs.end(), output) != quantized_.inputs.end())
                throw Error("lower: the model gives its input back; there is nothing to execute");
            results.push_back(tensor(output));
        }
        return builder_.finish(std::move(results));
    }

private:
    void add(const QuantizedNode& node, const QuantizeStep&) {
        tensors_[node.output] = builder_.quantize(input(node), qparams(node), layer(node));
    }
    void add(const QuantizedNode& node, const DequantizeStep&) {
        tensors_[node.output] = builder_.dequantize(input(node), layer(node));
    }
    void add(const QuantizedNode& node, const RequantizeStep&) {
        tensors_[node.output] = builder_.requantize(input(node), qparams(node), layer(node));
    }
    void add(const QuantizedNode& node, const AddStep& step) {
        tensors_[node.output] =
            builder_.add(input(node, 0), input(node, 1), qparams(node), step.activation, layer(node));
    }
    void add(const QuantizedNode& node, const ClampStep& step) {
        tensors_[node.output] = builder_.relu(input(node), step.activation, layer(node));
    }
    void add(const QuantizedNode& node, const MaxPoolStep& step) {
        tensors_[node.output] = builder_.max_pool(input(node), step.window, layer(node));
    }
    void add(const QuantizedNode& node, const AvgPoolStep& step) {
        tensors_[node.output] = builder_.avg_pool(input(node), step.window, step.divisor, qparams(node), layer(node));
    }

    void add(const QuantizedNode& node, const CatStep& step) {
        if (step.axis != 1)
            throw Error(layer(node).name,
                        "cat is along the channels (axis 1) in a program, given axis " + std::to_string(step.axis));
        std::vector<std::int32_t> parts;
        for (std::size_t i = 0; i < node.inputs.size(); ++i) parts.push_back(input(node, i));
        tensors_[node.output] = builder_.cat(parts, qparams(node), layer(node));
    }

    // Written only where something else than a linear layer reads it.
    void add(const QuantizedNode& node, const FlattenStep& step) {
        const Shape& in = quantized_.input(node, 0).shape;
        const bool whole_image = step.start_axis == 1 && step.end_axis == in.rank - 1 && in.rank == 4;
        if (whole_image) {
            images_[node.output] = {node.inputs[0], layer(node)};
        } else if (step.start_axis == step.end_axis) {
            tensors_[node.output] = input(node);
        } else {
            throw Error(layer(node).name, "a program flattens an image (N, C, H, W) from axis 1 to 3, given axes " +
                                              std::to_string(step.start_axis) + " to " + std::to_string(step.end_axis) +
                                              " of " + nn::to_string(in));
        }
    }

    void add(const QuantizedNode& node, const WeightedStep& step) {
        ConvLayer conv;
        conv.op = step.kind;
        conv.window = step.window;
        conv.out_channels = step.weight.extent(0);
        conv.groups = step.groups;
        conv.weight = step.weight_qparams;
        conv.output = qparams(node);
        conv.activation = step.activation;
        if (step.bias.defined()) conv.bias.assign(step.bias.flat<float>().begin(), step.bias.flat<float>().end());
        if (step.weight.dtype() == DType::int8) {
            for (const std::int8_t code : step.weight.flat<std::int8_t>()) conv.weight_codes.push_back(code);
        } else {
            conv.weight_codes.assign(step.weight.flat<std::int16_t>().begin(), step.weight.flat<std::int16_t>().end());
        }
        std::int32_t x;
        if (const auto image = images_.find(node.inputs[0]); image != images_.end() && step.kind == OpKind::linear) {
            const Shape& in = quantized_.tensor(image->second.tensor).shape;
            conv.window.kernel = {in[2], in[3]};
            x = tensor(image->second.tensor);
        } else {
            x = input(node);
        }
        const auto sumin = step.sumin ? std::optional<std::int32_t>(input(node, 1)) : std::nullopt;
        tensors_[node.output] = builder_.conv(x, sumin, conv, layer(node));
    }

    void add(const QuantizedNode&, const FloatStep&) {}
    void add(const QuantizedNode&, const ConstantStep&) {}

    std::int32_t input(const QuantizedNode& node, std::size_t i = 0) { return tensor(node.inputs.at(i)); }

    std::int32_t tensor(int index) {
        if (const auto known = tensors_.find(index); known != tensors_.end()) return known->second;
        const FlattenedImage& image = images_.at(index);
        return tensors_[index] = builder_.flatten(tensor(image.tensor), image.layer);
    }

    const nn::OwnedQParams& qparams(const QuantizedNode& node) const { return quantized_.output(node).qparams; }
    static LayerName layer(const QuantizedNode& node) {
        return {node.module.empty() ? node.name : node.module, node.type};
    }

    struct FlattenedImage {
        int tensor;
        LayerName layer;
    };

    const QuantizedGraph& quantized_;
    ProgramBuilder builder_;
    std::map<int, std::int32_t> tensors_;
    std::map<int, FlattenedImage> images_;
};

}  // namespace detail

inline LoweredModel lower(const QuantizedGraph& quantized, const kernels::KernelTable& table, index_t max_batch) {
    if (std::string_view(table.policy().name) != quantized.target.name)
        throw Error(std::string("lower: the model was converted for the target ") + quantized.target.name +
                    ", the kernels are those of " + table.policy().name);
    const QuantizedGraph tail = detail::split_tail(quantized);
    auto program =
        detail::Lowerer(quantized, table, max_batch).run(tail.nodes.empty() ? quantized.outputs : tail.inputs);
    return {std::move(program), tail.nodes.empty() ? nullptr : make_reference(tail)};
}

}  // namespace intq::inline INTQ_ABI::quantization

#endif  // INTQ_QUANTIZATION_LOWER_HPP
