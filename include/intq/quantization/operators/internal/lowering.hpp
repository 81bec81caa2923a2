// SPDX-License-Identifier: MIT
//
// Lowering: the interface of a Step while a converted model becomes a program. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_INTERNAL_LOWERING_HPP
#define INTQ_QUANTIZATION_OPERATORS_INTERNAL_LOWERING_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "intq/arith/requantize.hpp"
#include "intq/core/layout.hpp"
#include "intq/core/op_kind.hpp"
#include "intq/core/op_params.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/image_input.hpp"
#include "intq/quantization/operators/moved_view.hpp"
#include "intq/quantization/operators/quantize_instructions.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The program under construction, and its tensor for each tensor of the model.
class Lowering {
public:
    /// @param images  inputs that the program takes as pixels
    /// @throws Error for kernels of another target than the model was converted for; as find_image_inputs()
    Lowering(const QuantizedGraph& quantized, const kernels::KernelTable& table, index_t max_batch,
             std::span<const ImageInput> images = {});

    const QuantizedGraph& quantized() const noexcept { return quantized_; }
    program::ProgramBuilder& builder() noexcept { return builder_; }

    /// The program's tensor for an input of a node.
    std::int32_t input(const QuantizedNode& node, std::size_t i = 0) { return tensor(node.inputs.at(i)); }
    const OwnedQParams& qparams(const QuantizedNode& node) const { return quantized_.output(node).qparams; }
    static program::LayerName layer(const QuantizedNode& node);
    /// The codes that a node may return: its grid's, within the bounds of a clip that is its only reader and has the
    /// same grid. That clip then has nothing left to do.
    arith::OutputCodes output_codes(const QuantizedNode& node, Activation activation = Activation::none);
    /// Whether output_codes() limited the codes of a tensor to the bounds of the clip behind it.
    bool is_bounded(int tensor) const { return bounded_.count(tensor) != 0; }
    /// Makes a node's output its input, in whatever form.
    void pass(const QuantizedNode& node);
    /// Sets the tensor of the program that is a node's output.
    void set(const QuantizedNode& node, std::int32_t tensor) { tensors_[node.output] = tensor; }

    /// Makes a node's output its image input as a vector; a change of layout is written only for readers other than
    /// linear layers.
    void set_flattened_image(const QuantizedNode& node) { images_[node.output] = {node.inputs[0], layer(node)}; }
    /// The image that a tensor is the flattened form of; empty for other tensors.
    std::optional<int> image_behind(int tensor) const;

    /// A tensor of the model as codes that no instruction has moved yet.
    MovedView view(int index);
    /// Moves them, with the type and scale of the view's source.
    std::int32_t write_view(const MovedView& view, OpKind op, const program::LayerName& layer) {
        return write({view, op, layer}, Layout::channels_last);
    }
    /// Makes a node's output codes at other places, which are moved when an operator reads them.
    ///
    /// @param op  slice, permute or reshape: of the instruction that moves them
    void set_view(const QuantizedNode& node, OpKind op, const MovedView& view);
    /// The same with `change` applied to the input's view. If the result is not a view, the codes are moved first.
    using ViewChange = std::function<std::optional<MovedView>(const MovedView&)>;
    void set_changed_view(const QuantizedNode& node, OpKind op, const ViewChange& change);

    /// Sets the tensor of the program that is a node's output, by rows: row_major, as linear layers read and write
    /// tensors of rank 3 and more. A change of layout is written only for other readers.
    void set_rows(const QuantizedNode& node, std::int32_t tensor) { rows_[node.output] = {tensor, layer(node)}; }
    /// Makes a node's output constant codes on its grid, which are written in the layout of each reader.
    void set_constant(const QuantizedNode& node, const Tensor& codes) {
        constants_[node.output] = {codes, qparams(node), layer(node)};
    }

    /// Whether the codes of a tensor of the model lie by rows, so far only there: as its own tensor, or as a view that
    /// is a copy by rows, or whose source lies by rows.
    bool lies_by_rows(int index) const;
    /// The program's tensor for input i of a node that computes each element from those at its place, or joins its
    /// inputs: by rows where that moves no input, or only views, which are moved anyway. Constants lie as the others.
    std::int32_t elements(const QuantizedNode& node, std::size_t i = 0);
    /// Sets the tensor of the program that is a node's output, in the layout that it has.
    void set_elements(const QuantizedNode& node, std::int32_t tensor);
    /// The program's tensor for a tensor of the model, by rows.
    std::int32_t rows(int index, const program::LayerName& reader);

    /// The program's tensor for a tensor of the model; images are channels last.
    std::int32_t tensor(int index);
    /// The same in the layout that it has, for an output of the program.
    std::int32_t output(int index);
    /// The program's tensor for a tensor of the model, if an instruction so far writes it, or it is an input.
    std::optional<std::int32_t> written(int index) const;
    void add_input(int index);
    /// An input of codes that is state, by rows: what is copied into it moves as few bytes as it has.
    void add_state(int index);
    /// The pixels that an input of the program is; null for other tensors.
    const ImageInput* image(int index) const;

private:
    struct FlattenedImage {
        int tensor;
        program::LayerName layer;
    };
    struct Rows {
        std::int32_t tensor;
        program::LayerName layer;
    };
    struct Constant {
        Tensor codes;
        OwnedQParams qparams;
        program::LayerName layer;
    };
    struct Moved {
        MovedView view;
        OpKind op;
        program::LayerName layer;
    };
    std::int32_t write(const Moved& moved, Layout layout);
    std::int32_t write(const Constant& constant, Layout layout) {
        return add_constant(builder_, constant.codes, constant.qparams, constant.layer, layout);
    }
    const QuantizedNode* only_reader(int tensor) const;

    const QuantizedGraph& quantized_;
    program::ProgramBuilder builder_;
    std::map<int, std::int32_t> tensors_;
    std::map<int, FlattenedImage> images_;
    std::map<int, Rows> rows_;
    std::map<int, Moved> views_;
    std::map<int, Constant> constants_;
    std::map<int, ImageInput> pixels_;
    std::set<int> bounded_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <algorithm>
#    include <string>
#    include <string_view>

#    include "intq/io/error.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Lowering::Lowering(const QuantizedGraph& quantized, const kernels::KernelTable& table, index_t max_batch,
                               std::span<const ImageInput> images)
    : quantized_(quantized), builder_(table, max_batch), pixels_(find_image_inputs(quantized, images)) {
    if (std::string_view(table.policy().name) != quantized.target.name)
        throw Error(std::string("lower: the model was converted for the target ") + quantized.target.name +
                    ", the kernels are for " + table.policy().name);
}

INTQ_INLINE program::LayerName Lowering::layer(const QuantizedNode& node) { return {node.layer(), node.type}; }

INTQ_INLINE const QuantizedNode* Lowering::only_reader(int tensor) const {
    const QuantizedNode* reader = nullptr;
    for (const QuantizedNode& node : quantized_.nodes) {
        if (std::find(node.inputs.begin(), node.inputs.end(), tensor) == node.inputs.end()) continue;
        if (reader != nullptr) return nullptr;
        reader = &node;
    }
    const auto& outputs = quantized_.outputs;
    return std::find(outputs.begin(), outputs.end(), tensor) == outputs.end() ? reader : nullptr;
}

INTQ_INLINE arith::OutputCodes Lowering::output_codes(const QuantizedNode& node, Activation activation) {
    const QuantizedTensor& output = quantized_.output(node);
    arith::OutputCodes codes = program::ProgramBuilder::output_codes(output.qparams.view(), activation);
    const QuantizedNode* const reader = only_reader(node.output);
    if (reader == nullptr || !(quantized_.output(*reader).qparams == output.qparams)) return codes;
    const std::optional<arith::OutputCodes> bounds = reader->step->bounds_on(output.qparams, builder_.target());
    if (!bounds) return codes;
    codes.lowest = (std::max)(codes.lowest, bounds->lowest);
    codes.highest = (std::max)(codes.lowest, (std::min)(codes.highest, bounds->highest));
    bounded_.insert(node.output);
    return codes;
}

INTQ_INLINE void Lowering::pass(const QuantizedNode& node) {
    const int input = node.inputs.at(0);
    if (tensors_.count(input) != 0)
        tensors_[node.output] = tensors_.at(input);
    else if (const auto made = rows_.find(input); made != rows_.end())
        rows_[node.output] = made->second;
    else if (const auto moved = views_.find(input); moved != views_.end())
        views_.insert_or_assign(node.output, moved->second);
    else if (const auto constant = constants_.find(input); constant != constants_.end())
        constants_.insert_or_assign(node.output, constant->second);
    else
        tensors_[node.output] = tensor(input);
}

INTQ_INLINE std::optional<int> Lowering::image_behind(int tensor) const {
    const auto found = images_.find(tensor);
    return found == images_.end() ? std::nullopt : std::optional(found->second.tensor);
}

INTQ_INLINE void Lowering::add_input(int index) {
    const QuantizedTensor& tensor = quantized_.tensor(index);
    Shape per_image;
    for (int axis = 1; axis < tensor.shape.rank; ++axis)
        per_image.extents[static_cast<std::size_t>(per_image.rank++)] = tensor.shape[axis];
    const bool by_rows = tensor.qparams.is_per_channel() && tensor.qparams.axis != 1;
    if (const ImageInput* pixels = image(index))
        tensors_[index] = add_image_input(builder_, *pixels, per_image, tensor.name);
    else if (tensor.is_ids)
        tensors_[index] = builder_.id_input(per_image, tensor.name);
    else if (tensor.dtype == DType::float32)
        tensors_[index] = builder_.input(per_image, tensor.name);
    else if (!by_rows)
        tensors_[index] = builder_.code_input(per_image, tensor.dtype, tensor.qparams, tensor.name);
    else
        rows_[index] = {builder_.code_input(per_image, tensor.dtype, tensor.qparams, tensor.name, Layout::row_major),
                        {}};
}

INTQ_INLINE void Lowering::add_state(int index) {
    const QuantizedTensor& tensor = quantized_.tensor(index);
    Shape per_image;
    for (int axis = 1; axis < tensor.shape.rank; ++axis)
        per_image.extents[static_cast<std::size_t>(per_image.rank++)] = tensor.shape[axis];
    if (tensor.shape.rank < 3) return add_input(index);
    rows_[index] = {builder_.code_input(per_image, tensor.dtype, tensor.qparams, tensor.name, Layout::row_major), {}};
}

INTQ_INLINE const ImageInput* Lowering::image(int index) const {
    const auto found = pixels_.find(index);
    return found == pixels_.end() ? nullptr : &found->second;
}

INTQ_INLINE MovedView Lowering::view(int index) {
    if (const auto known = views_.find(index); known != views_.end()) return known->second.view;
    if (const auto image = image_behind(index); image && tensors_.count(index) == 0) {
        const MovedView whole = view(*image);
        if (const auto flat = whole.reshaped(Shape(whole.shape()[0], whole.shape().size() / whole.shape()[0])))
            return *flat;
    }
    const std::int32_t source = output(index);
    return {source, builder_.at(source).shape, builder_.at(source).layout};
}

INTQ_INLINE void Lowering::set_view(const QuantizedNode& node, OpKind op, const MovedView& view) {
    const DType dtype = builder_.at(view.source()).dtype;
    builder_.check_use({op, dtype, DType::none, dtype}, layer(node));
    views_.insert_or_assign(node.output, Moved{view, op, layer(node)});
}

INTQ_INLINE std::int32_t Lowering::write(const Moved& moved, Layout layout) {
    const kernels::ArenaTensor from = builder_.at(moved.view.source());
    const std::optional<kernels::MoveParams> move = moved.view.move(layout);
    if (!move) throw Error(moved.layer.name, "its codes come from more places than one instruction moves");
    Shape shape = moved.view.shape();
    shape[0] = from.shape[0];
    // Of the moves, reshape alone reads and writes tensors by rows.
    const bool has_rows = from.layout == Layout::row_major || layout == Layout::row_major;
    return builder_.push(has_rows ? OpKind::reshape : moved.op, {moved.view.source()},
                         builder_.tensor(from.dtype, shape, from.qparams, moved.layer, layout),
                         builder_.keep_params(*move), moved.layer);
}

INTQ_INLINE void Lowering::set_changed_view(const QuantizedNode& node, OpKind op, const ViewChange& change) {
    const int input = node.inputs.at(0);
    const auto changed = [&](const MovedView& view) {
        std::optional<MovedView> result = change(view);
        return result && result->move() && result->move(Layout::row_major) ? result : std::nullopt;
    };
    std::optional<MovedView> result = changed(view(input));
    if (!result) {
        const std::int32_t written = tensor(input);
        const MovedView whole(written, builder_.at(written).shape);
        result = changed(whole);
        // A reshape that is not one of the image's axes goes through a vector.
        const Shape& shape = whole.shape();
        const auto vector = whole.reshaped(Shape(shape[0], shape.size() / shape[0]));
        program::LayerName between = layer(node);
        between.name += ".vector";
        if (!result) result = changed(MovedView(write({*vector, op, between}, Layout::channels_last), vector->shape()));
    }
    set_view(node, op, *result);
}

INTQ_INLINE bool Lowering::lies_by_rows(int index) const {
    if (tensors_.count(index) != 0 || constants_.count(index) != 0) return false;
    if (rows_.count(index) != 0) return true;
    const auto moved = views_.find(index);
    if (moved == views_.end() || moved->second.view.shape().rank < 3) return false;
    const auto is_copy_in = [&](Layout layout) {
        const std::optional<kernels::MoveParams> move = moved->second.view.move(layout);
        return move && kernels::is_copy(*move);
    };
    if (is_copy_in(Layout::row_major)) return true;
    return builder_.at(moved->second.view.source()).layout == Layout::row_major && !is_copy_in(Layout::channels_last);
}

INTQ_INLINE std::int32_t Lowering::elements(const QuantizedNode& node, std::size_t i) {
    const auto by_rows = [&](int index) { return lies_by_rows(index); };
    const bool all = std::all_of(node.inputs.begin(), node.inputs.end(),
                                 [&](int index) { return by_rows(index) || constants_.count(index) != 0; });
    return all && std::any_of(node.inputs.begin(), node.inputs.end(), by_rows) ? rows(node.inputs.at(i), layer(node))
                                                                               : input(node, i);
}

INTQ_INLINE void Lowering::set_elements(const QuantizedNode& node, std::int32_t tensor) {
    if (builder_.at(tensor).layout == Layout::row_major)
        set_rows(node, tensor);
    else
        set(node, tensor);
}

INTQ_INLINE std::int32_t Lowering::rows(int index, const program::LayerName& reader) {
    if (const auto known = rows_.find(index); known != rows_.end()) return known->second.tensor;
    if (const auto moved = views_.find(index); moved != views_.end() && tensors_.count(index) == 0) {
        const std::int32_t written = write(moved->second, Layout::row_major);
        rows_[index] = {written, moved->second.layer};
        return written;
    }
    const auto constant = constants_.find(index);
    const std::int32_t made = constant != constants_.end()
                                  ? write(constant->second, Layout::row_major)
                                  : builder_.change_layout(tensor(index), Layout::row_major, reader);
    rows_[index] = {made, reader};
    return made;
}

INTQ_INLINE std::int32_t Lowering::tensor(int index) {
    if (const auto known = tensors_.find(index); known != tensors_.end()) return known->second;
    if (const auto constant = constants_.find(index); constant != constants_.end())
        return tensors_[index] = write(constant->second, Layout::channels_last);
    if (const auto moved = views_.find(index); moved != views_.end() && rows_.count(index) == 0)
        return tensors_[index] = write(moved->second, Layout::channels_last);
    if (const auto made = rows_.find(index); made != rows_.end())
        return tensors_[index] = builder_.change_layout(made->second.tensor, Layout::channels_last, made->second.layer);
    const FlattenedImage& image = images_.at(index);
    return tensors_[index] = builder_.flatten(tensor(image.tensor), image.layer);
}

INTQ_INLINE std::optional<std::int32_t> Lowering::written(int index) const {
    if (const auto known = tensors_.find(index); known != tensors_.end()) return known->second;
    if (const auto made = rows_.find(index); made != rows_.end()) return made->second.tensor;
    return std::nullopt;
}

INTQ_INLINE std::int32_t Lowering::output(int index) { return lies_by_rows(index) ? rows(index, {}) : tensor(index); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_INTERNAL_LOWERING_HPP
