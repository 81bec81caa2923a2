// SPDX-License-Identifier: MIT
//
// Inputs of a program that are images of bytes: their normalization becomes part of its first instruction.
// Layer: quantization (docs/arithmetic.md section 1).
#ifndef INTQ_QUANTIZATION_OPERATORS_IMAGE_INPUT_HPP
#define INTQ_QUANTIZATION_OPERATORS_IMAGE_INPUT_HPP

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "intq/core/layout.hpp"
#include "intq/core/op_kind.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// An input of a model that its program takes as pixels, uint8, instead of real numbers.
///
///     x[n, c, ...] = (pixel / 255 - mean[c]) / deviation[c]      as normalize_images()
///     code         = quantize(x)
///
/// The program returns the same bytes as on the real numbers of normalize_images().
struct ImageInput {
    std::string input{};                 // its name in the model; empty: the only input
    std::vector<float> mean{0.0f};       // one number, or one for each channel; finite
    std::vector<float> deviation{1.0f};  // the same; none is 0
    /// The layout of the caller's pixels: row_major are planes (N, C, H, W), channels_last is (N, H, W, C).
    Layout layout = Layout::row_major;
};

/// The inputs of a model, by their tensors.
///
/// @throws Error naming the input: a name that the model lacks or that appeared before; an input of codes, of rank 1,
///         one that is also an output, one read by several operators, or by another operator than quantize; a mean or
///         deviation that is not finite, a deviation of 0, and a layout that images lack
std::map<int, ImageInput> find_image_inputs(const QuantizedGraph& quantized, std::span<const ImageInput> images);

/// An input of the program for pixels.
///
/// @param per_image  (C, ...)
std::int32_t add_image_input(program::ProgramBuilder& builder, const ImageInput& image, const Shape& per_image,
                             const std::string& name);

/// Pixels -> codes, by a table of 256 codes for each channel; one for all where all are equal.
///
/// @throws Error naming the layer: as normalize_images(), and for anything that quantize refuses
std::int32_t add_quantize_image(program::ProgramBuilder& builder, std::int32_t x, const ImageInput& image,
                                const OwnedQParams& qparams, const program::LayerName& layer);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <algorithm>
#    include <cstddef>
#    include <cstring>

#    include "intq/arith/ieee.hpp"
#    include "intq/core/workspace.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/operators/quantize_image.hpp"
#    include "intq/tensor/images.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

[[noreturn]] INTQ_INLINE void refuse_image(const std::string& input, const std::string& why) {
    throw Error("lower: image input \"" + input + "\"", why);
}

INTQ_INLINE int image_tensor(const QuantizedGraph& quantized, const std::string& name) {
    std::string names;
    for (const int input : quantized.inputs) {
        if (quantized.tensor(input).name == name) return input;
        names += (names.empty() ? "\"" : ", \"") + quantized.tensor(input).name + "\"";
    }
    if (name.empty() && quantized.inputs.size() == 1) return quantized.inputs[0];
    refuse_image(name, "the model has no such input; its inputs are " + names);
}

INTQ_INLINE void check_image_numbers(const ImageInput& image, const std::string& name) {
    for (const float mean : image.mean)
        if (!arith::is_finite(mean)) refuse_image(name, "a mean is not finite");
    for (const float deviation : image.deviation)
        if (!arith::is_finite(deviation) || deviation == 0.0f) refuse_image(name, "a deviation is 0 or not finite");
    if (image.layout != Layout::row_major && image.layout != Layout::channels_last)
        refuse_image(name, std::string("pixels are row_major or channels_last, given ") + name_of(image.layout));
}

/// Its only reader is a quantizer: any other reader takes real numbers, which the program lacks.
INTQ_INLINE void check_image_reader(const QuantizedGraph& quantized, int tensor, const std::string& name) {
    std::vector<const QuantizedNode*> readers;
    for (const QuantizedNode& node : quantized.nodes)
        for (const int input : node.inputs)
            if (input == tensor) readers.push_back(&node);
    const auto called = [](const QuantizedNode& node) { return node.name + " (" + node.type + ")"; };
    if (std::count(quantized.outputs.begin(), quantized.outputs.end(), tensor) != 0)
        refuse_image(name, "the model returns it as an output, which pixels cannot be");
    if (readers.empty()) refuse_image(name, "nothing reads it");
    if (readers.size() > 1)
        refuse_image(name, "several operators read it, " + called(*readers[0]) + " and " + called(*readers[1]) +
                               "; pixels are quantized once");
    if (readers[0]->step->kind() != OpKind::quantize)
        refuse_image(name, called(*readers[0]) + " reads it as real numbers; pixels must be quantized first");
}

}  // namespace detail

INTQ_INLINE std::map<int, ImageInput> find_image_inputs(const QuantizedGraph& quantized,
                                                        std::span<const ImageInput> images) {
    std::map<int, ImageInput> found;
    for (const ImageInput& image : images) {
        const int index = detail::image_tensor(quantized, image.input);
        const QuantizedTensor& tensor = quantized.tensor(index);
        if (tensor.dtype != DType::float32)
            detail::refuse_image(tensor.name, std::string("the model takes it as codes of ") + name_of(tensor.dtype));
        if (tensor.shape.rank < 2)
            detail::refuse_image(tensor.name, "images are (N, C, ...), given " + to_string(tensor.shape));
        detail::check_image_numbers(image, tensor.name);
        detail::check_image_reader(quantized, index, tensor.name);
        if (!found.emplace(index, image).second) detail::refuse_image(tensor.name, "it is given twice");
    }
    return found;
}

INTQ_INLINE std::int32_t add_image_input(program::ProgramBuilder& builder, const ImageInput& image,
                                         const Shape& per_image, const std::string& name) {
    const bool has_planes = image.layout == Layout::row_major && per_image.rank >= 2 && per_image[0] > 1;
    return builder.code_input(per_image, DType::uint8, {{1.0f / 255.0f}, {}, -1, 0, 255, DType::uint8}, name,
                              has_planes ? Layout::row_major : Layout::channels_last);
}

INTQ_INLINE std::int32_t add_quantize_image(program::ProgramBuilder& builder, std::int32_t x, const ImageInput& image,
                                            const OwnedQParams& qparams, const program::LayerName& layer) {
    const Shape shape = builder.at(x).shape;
    builder.check_use({OpKind::quantize, DType::float32, DType::none, qparams.dtype}, layer);
    const QParams kept = builder.keep(qparams);
    throw_if_failed(
        kernels::check_quantize_params(kept, qparams.dtype, shape, builder.target().quantize, OpKind::quantize_image),
        layer.name);
    const bool is_one = image.mean.size() == 1 && image.deviation.size() == 1 && !qparams.is_per_channel();
    Tensor pixels = Tensor::empty(Shape(1, is_one ? 1 : shape[1], kernels::pixel_values), DType::uint8);
    for (index_t i = 0; i < pixels.size(); ++i)
        pixels.flat<std::uint8_t>()[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i % kernels::pixel_values);
    try {
        const Tensor real = normalize_images(pixels, image.mean, image.deviation);
        const Tensor codes = quantize(real, qparams, builder.target().quantize);
        const Workspace table = builder.new_buffer(codes.bytes());
        std::memcpy(table.data, codes.data(), static_cast<std::size_t>(codes.bytes()));
        const auto* const params =
            builder.keep_params(kernels::QuantizeImageParams{table.data, pixels.extent(1), codes.dtype()});
        return builder.push(OpKind::quantize_image, {x}, builder.tensor(qparams.dtype, shape, kept, layer), params,
                            layer);
    } catch (const Error& error) {
        throw Error(layer.name, error.what());
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_IMAGE_INPUT_HPP
