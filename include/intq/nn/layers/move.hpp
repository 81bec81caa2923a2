// SPDX-License-Identifier: MIT
//
// Flatten, Identity, Dropout: layers that move or pass values. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_MOVE_HPP
#define INTQ_NN_LAYERS_MOVE_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "intq/nn/model/module.hpp"
#include "intq/tensor/random.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

/// Joins the axes start_axis to end_axis, inclusive.
class Flatten : public Cloneable<Flatten> {
public:
    explicit Flatten(int start_axis = 1, int end_axis = -1) : start_axis_(start_axis), end_axis_(end_axis) {}

    std::string type_name() const override { return "Flatten"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;
    int start_axis() const noexcept { return start_axis_; }
    int end_axis() const noexcept { return end_axis_; }

private:
    int start_axis_, end_axis_;
};

class Identity : public Cloneable<Identity> {
public:
    std::string type_name() const override { return "Identity"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;
};

/// Which elements one call of Dropout keeps.
struct DropoutMask {
    std::uint64_t stream = 0;      // of the seed and the number of the call
    std::uint64_t kept_below = 0;  // of 2^32
    double keep = 1.0;             // probability

    /// x / (1 - p) or 0; for values and for gradients.
    template <class T> T apply(T x, std::size_t i) const noexcept {
        return (random_bits(stream, i) >> 32) < kept_below ? static_cast<T>(static_cast<double>(x) / keep) : T{0};
    }
    /// The same for a tensor's elements in row_major order; the result carries no qparams.
    template <class T> Tensor apply_to(const Tensor& x) const {
        Tensor y = x.contiguous().clone();
        y.set_qparams(std::nullopt);
        const auto values = y.flat<T>();
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = apply(values[i], i);
        return y;
    }
    /// The mask of call number `call` for a seed, where each element is dropped with probability p.
    static DropoutMask of_call(std::uint64_t seed, std::int64_t call, double p) noexcept {
        return {random_bits(seed, static_cast<std::uint64_t>(call)),
                static_cast<std::uint64_t>((1.0 - p) * 4294967296.0), 1.0 - p};
    }
};

/// In training each element is 0 with probability p and x/(1-p) otherwise; in evaluation x itself.
///
/// The mask follows from the seed and the number of calls: the buffer `calls` is the generator's whole state, so
/// training resumes to the same bits. A call that drops keeps its number on the tape as "call", so that its gradient
/// finds the mask.
class Dropout : public Cloneable<Dropout> {
public:
    explicit Dropout(double p = 0.5, std::uint64_t seed = 0);

    std::string type_name() const override { return "Dropout"; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE Value forward(Arguments arguments) override;

    bool is_active() const noexcept { return training() && p_ != 0.0; }
    /// How often forward dropped elements.
    std::int64_t calls() const;
    /// The mask of call number `call`, counted from 0.
    DropoutMask mask(std::int64_t call) const noexcept { return DropoutMask::of_call(seed_, call, p_); }

private:
    double p_;
    std::uint64_t seed_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/move.hpp"
#    include "intq/nn/model/tape.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Value Flatten::forward(Arguments arguments) {
    return float_operators::flatten(arguments.tensor(0), start_axis_, end_axis_);
}

INTQ_INLINE Value Identity::forward(Arguments arguments) { return arguments[0]; }

INTQ_INLINE Dropout::Dropout(double p, std::uint64_t seed) : p_(p), seed_(seed) {
    if (!(p >= 0.0 && p < 1.0)) throw Error("Dropout: p must be in [0, 1), given " + std::to_string(p));
    add_buffer("calls", Tensor::zeros(Shape(1), DType::int64), false);
}

INTQ_INLINE Value Dropout::forward(Arguments arguments) {
    if (!is_active()) return arguments[0];
    keep_on_tape(*this, "call", calls());
    Tensor y = mask(calls()).apply_to<float>(arguments.tensor(0));
    tensor("calls") = Tensor::from(Shape(1), {calls() + 1});
    return y;
}

INTQ_INLINE std::int64_t Dropout::calls() const { return tensor("calls").flat<std::int64_t>()[0]; }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_MOVE_HPP
