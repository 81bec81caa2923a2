// SPDX-License-Identifier: MIT
//
// Quantizer: what stands on an edge of a prepared model, and the one that follows another. Layer: quantization
// (docs/workflow.md section 2).
#ifndef INTQ_QUANTIZATION_FAKE_QUANTIZE_QUANTIZER_HPP
#define INTQ_QUANTIZATION_FAKE_QUANTIZE_QUANTIZER_HPP

#include <memory>
#include <string>

#include "intq/arith/quantize.hpp"
#include "intq/core/dtype.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// What a quantizer on an edge is to the others: its output carries its qparams.
///
/// A call that observes or learns changes the object; threads may share one that only quantizes.
class Quantizer : public nn::Module {
public:
    bool is_leaf() const override { return true; }
    virtual DType dtype() const = 0;
    /// Whether data was seen or qparams were set.
    virtual bool has_qparams() const = 0;
    virtual OwnedQParams qparams() const = 0;
    virtual bool is_rounding() const = 0;
    virtual arith::QuantizeRule rule() const = 0;
    /// Whether a clamped element stops its gradient.
    virtual bool saturates() const = 0;

protected:
    /// Rounds x to the grid if the quantizer rounds; in both cases the result says its scale and type.
    Tensor pass(const Tensor& x) const;
    /// Whether the result of a rounding may lie in the memory of x.
    virtual bool is_in_place() const { return false; }
};

/// Rounds to the grid of another quantizer: the output of an operator that keeps the scale of its input but not its
/// values (an average of codes that divides the codes). Observes nothing.
class FollowingFakeQuantize : public nn::Cloneable<FollowingFakeQuantize, Quantizer> {
public:
    explicit FollowingFakeQuantize(std::shared_ptr<Quantizer> source);

    std::string type_name() const override { return "FollowingFakeQuantize"; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    DType dtype() const override { return source().dtype(); }
    bool has_qparams() const override { return source().has_qparams(); }
    OwnedQParams qparams() const override { return source().qparams(); }
    bool is_rounding() const override { return source().is_rounding(); }
    arith::QuantizeRule rule() const override { return source().rule(); }
    bool saturates() const override { return source().saturates(); }

private:
    const Quantizer& source() const { return static_cast<const Quantizer&>(*child("source")); }
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_fake_quantize)

#    include <utility>
#    include <vector>

#    include "intq/core/layout.hpp"
#    include "intq/nn/model/tape.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The entry of a name in a state; null without one.
INTQ_INLINE nn::Named<Tensor>* entry_of(std::vector<nn::Named<Tensor>>& state, const std::string& name) {
    for (auto& item : state)
        if (item.name == name) return &item;
    return nullptr;
}

}  // namespace detail

INTQ_INLINE Tensor Quantizer::pass(const Tensor& x) const {
    Tensor y = x;
    if (is_rounding()) {
        if (!is_in_place() || nn::current_tape() != nullptr || x.layout() != Layout::row_major)
            return fake_quantize(x, qparams(), rule());
        fake_quantize_in_place(y, qparams(), rule());
        return y;
    }
    if (has_qparams()) y.set_qparams(qparams());
    return y;
}

INTQ_INLINE FollowingFakeQuantize::FollowingFakeQuantize(std::shared_ptr<Quantizer> source) {
    add_child("source", std::move(source));
}

INTQ_INLINE nn::Value FollowingFakeQuantize::forward(nn::Arguments arguments) { return pass(arguments.tensor(0)); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_fake_quantize)
#endif  // INTQ_QUANTIZATION_FAKE_QUANTIZE_QUANTIZER_HPP
