// SPDX-License-Identifier: MIT
//
// Quantizer: a module on an edge of a prepared model, and the kinds that follow another one. Layer: quantization
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

namespace detail {

/// What to do about a model that is converted before any data has passed.
inline constexpr const char* run_it_first =
    ": run the prepared model on samples first (calibrate() does, and so does a training), or load the state of one "
    "that ran";

}  // namespace detail

/// The interface of a quantizer on an edge: its output carries its qparams.
///
/// A call that observes or learns changes the object; threads may share an object that only quantizes.
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
    /// Whether it has the grid of the operator's input.
    virtual bool follows_input() const { return false; }
    /// Receives the switches of set_fake_quantize().
    virtual INTQ_INLINE void enable(bool observes, bool rounds);

protected:
    /// Rounds x to the grid if the quantizer rounds; in both cases the result carries its scale and type.
    Tensor pass(const Tensor& x) const;
    Tensor pass(const Tensor& x, const OwnedQParams& grid) const;
    /// Whether the result of a rounding may reuse the memory of x.
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
    bool follows_input() const override { return true; }

private:
    const Quantizer& source() const { return static_cast<const Quantizer&>(*child("source")); }
};

/// FollowingFakeQuantize for calls without a graph: rounds its first argument to the grid that the second one carries,
/// the input of the operator. Real values, which carry no grid, pass. Observes nothing and keeps nothing.
class InputGridFakeQuantize : public nn::Cloneable<InputGridFakeQuantize, Quantizer> {
public:
    explicit InputGridFakeQuantize(const arith::QuantizeRule& rule) : rule_(rule) {}

    std::string type_name() const override { return "InputGridFakeQuantize"; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    void enable_fake_quant(bool on = true) noexcept { is_rounding_ = on; }
    void enable(bool, bool rounds) override { is_rounding_ = rounds; }

    DType dtype() const override { return DType::none; }
    /// The grid comes with a call: its output carries it.
    bool has_qparams() const override { return false; }
    OwnedQParams qparams() const override { return {}; }
    bool is_rounding() const override { return is_rounding_; }
    arith::QuantizeRule rule() const override { return rule_; }
    bool saturates() const override { return true; }
    bool follows_input() const override { return true; }

private:
    arith::QuantizeRule rule_;
    bool is_rounding_ = true;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_fake_quantize)

#    include <optional>
#    include <utility>
#    include <vector>

#    include "intq/core/layout.hpp"
#    include "intq/nn/model/tape.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The entry of a name in a state; null if there is none.
INTQ_INLINE nn::Named<Tensor>* entry_of(std::vector<nn::Named<Tensor>>& state, const std::string& name) {
    for (auto& item : state)
        if (item.name == name) return &item;
    return nullptr;
}

}  // namespace detail

INTQ_INLINE void Quantizer::enable(bool, bool) {}

INTQ_INLINE Tensor Quantizer::pass(const Tensor& x) const {
    return is_rounding() || has_qparams() ? pass(x, qparams()) : x;
}

INTQ_INLINE Tensor Quantizer::pass(const Tensor& x, const OwnedQParams& grid) const {
    Tensor y = x;
    if (!is_rounding()) {
        y.set_qparams(grid);
        return y;
    }
    if (!is_in_place() || nn::current_tape() != nullptr || x.layout() != Layout::row_major)
        return fake_quantize(x, grid, rule());
    fake_quantize_in_place(y, grid, rule());
    return y;
}

INTQ_INLINE FollowingFakeQuantize::FollowingFakeQuantize(std::shared_ptr<Quantizer> source) {
    add_child("source", std::move(source));
}

INTQ_INLINE nn::Value FollowingFakeQuantize::forward(nn::Arguments arguments) { return pass(arguments.tensor(0)); }

INTQ_INLINE nn::Value InputGridFakeQuantize::forward(nn::Arguments arguments) {
    const std::optional<OwnedQParams>& grid = arguments.tensor(1).qparams();
    return grid ? pass(arguments.tensor(0), *grid) : arguments.tensor(0);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_fake_quantize)
#endif  // INTQ_QUANTIZATION_FAKE_QUANTIZE_QUANTIZER_HPP
