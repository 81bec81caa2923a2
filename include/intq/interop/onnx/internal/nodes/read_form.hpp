// SPDX-License-Identifier: MIT
//
// The form of an ONNX model that the rows of operators read. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_READ_FORM_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_READ_FORM_HPP

#include <optional>

#include "intq/interop/onnx/internal/nodes/expand_attention.hpp"
#include "intq/interop/onnx/internal/nodes/expand_operators.hpp"
#include "intq/interop/onnx/internal/nodes/folded_samples.hpp"
#include "intq/interop/onnx/internal/nodes/integer_inputs.hpp"
#include "intq/interop/onnx/internal/nodes/quantizers_by_parts.hpp"
#include "intq/interop/onnx/internal/nodes/samples_first.hpp"
#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx::detail {
inline namespace INTQ_HOSTED_ABI {

/// A model as it is read: with quantizers as one, without operators on codes and Attention, with masks as real
/// numbers, and with moves that keep the samples first.
class ReadForm {
public:
    explicit ReadForm(const Model& model) : model_(&model) {
        joined_ = with_quantizers_joined(model);
        if (joined_) model_ = &*joined_;
        if (has_operators_on_codes(*model_)) model_ = &expanded_.emplace(expand_operators(*model_));
        attended_ = with_attention_expanded(*model_);
        if (attended_) model_ = &*attended_;
        masked_ = with_masks_as_reals(*model_);
        if (masked_) model_ = &*masked_;
        moved_ = with_samples_first(*model_);
        if (moved_) model_ = &*moved_;
        unfolded_ = with_samples_unfolded(*model_);
        if (unfolded_) model_ = &*unfolded_;
    }
    const Model& model() const noexcept { return *model_; }

private:
    const Model* model_;
    std::optional<Model> joined_, expanded_, attended_, masked_, moved_, unfolded_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::detail

#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_READ_FORM_HPP
