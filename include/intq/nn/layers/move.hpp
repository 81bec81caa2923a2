// SPDX-License-Identifier: MIT
//
// Functions on Values that move or select elements: size, cat, flatten, reshape, permute, slice, expand, pad, … The
// layers Flatten, Identity, Dropout. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_MOVE_HPP
#define INTQ_NN_LAYERS_MOVE_HPP

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "intq/core/op_params.hpp"
#include "intq/nn/model/call.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/tensor/random.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

/// The integers of argument `first`, a tuple, or of the arguments from it on: as methods, reshape, view, permute and
/// expand take either form.
std::vector<index_t> integers_after(const Arguments& arguments, std::size_t first);

/// Where a slice without a stop ends: beyond the last element, and backwards before the first.
index_t slice_stop(index_t step);

namespace detail {

Value evaluate_size(std::span<const Value> values);
Value evaluate_cat(std::span<const Value> values);
Value evaluate_flatten(std::span<const Value> values);
Value evaluate_reshape(std::span<const Value> values);
Value evaluate_permute(std::span<const Value> values);
Value evaluate_transpose(std::span<const Value> values);
Value evaluate_slice(std::span<const Value> values);
Value evaluate_getitem(std::span<const Value> values);
Value evaluate_expand(std::span<const Value> values);
Value evaluate_split(std::span<const Value> values);
Value evaluate_chunk(std::span<const Value> values);
Value evaluate_pad(std::span<const Value> values);

}  // namespace detail

inline constexpr Function size_function{"size", &detail::evaluate_size};
inline constexpr Function cat_function{"cat", &detail::evaluate_cat};
inline constexpr Function flatten_function{"flatten", &detail::evaluate_flatten};
inline constexpr Function reshape_function{"reshape", &detail::evaluate_reshape};
inline constexpr Function view_function{"view", &detail::evaluate_reshape};
inline constexpr Function permute_function{"permute", &detail::evaluate_permute};
inline constexpr Function transpose_function{"transpose", &detail::evaluate_transpose};
inline constexpr Function slice_function{"slice", &detail::evaluate_slice};
inline constexpr Function getitem_function{"getitem", &detail::evaluate_getitem};
inline constexpr Function expand_function{"expand", &detail::evaluate_expand};
inline constexpr Function split_function{"split", &detail::evaluate_split};
inline constexpr Function chunk_function{"chunk", &detail::evaluate_chunk};
inline constexpr Function pad_function{"pad", &detail::evaluate_pad};

/// The extents of a tensor as a tuple of integers, or the extent of one axis; a negative axis counts from the end.
/// During tracing they are values of the graph, with which add, sub, mul and floordiv compute: PyTorch's x.size(0).
Value size(const Value& x);
Value size(const Value& x, int axis);
/// Concatenation of a tuple of tensors.
Value cat(const Value::Tuple& parts, int axis = 0);
/// As PyTorch's: the axes from start_axis on become one.
Value flatten(const Value& x, int start_axis = 0, int end_axis = -1);
/// One extent may be -1: it is inferred.
Value reshape(const Value& x, std::initializer_list<index_t> shape);
/// The same with extents that are Values: reshape(x, {size(x, 0), -1}).
Value reshape(const Value& x, const Value::Tuple& shape);
Value permute(const Value& x, std::initializer_list<index_t> axes);
Value transpose(const Value& x, int axis0, int axis1);
/// x[…, start:stop:step, …] at an axis; a stop of none is the end, and with a negative step the front.
Value slice(const Value& x, int axis, index_t start, const Value& stop = {}, index_t step = 1);
/// Axes of one element repeated, and new axes in front; an extent of -1 stays. A tensor of the model, such as a class
/// token of shape (1, 1, C), becomes one of each sample by expand(token, {size(x, 0), -1, -1}).
Value expand(const Value& x, const Value::Tuple& shape);
/// A tuple of pieces of `size`, or of the sizes in a tuple. Take its items with [i].
Value split(const Value& x, const Value& size, int axis = 0);
/// A tuple of at most `chunks` equal pieces.
Value chunk(const Value& x, index_t chunks, int axis = 0);
/// Constant padding; the numbers count from the last axis, two per axis.
Value pad(const Value& x, std::initializer_list<index_t> padding, double value = 0.0);
/// Padding with elements of the tensor itself.
///
/// @param mode  "reflect" or "replicate"
Value pad(const Value& x, std::initializer_list<index_t> padding, const std::string& mode);
/// The mode in the arguments of a call of pad.
PadMode pad_mode(const Arguments& arguments);

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

#    include <array>
#    include <limits>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/move.hpp"
#    include "intq/nn/model/tape.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE Value evaluate_size(std::span<const Value> values) {
    const Arguments arguments(values);
    const Tensor& x = arguments.tensor(0);
    if (arguments.has(1)) return x.extent(static_cast<int>(arguments[1].integer()));
    Value::Tuple extents;
    for (int axis = 0; axis < x.rank(); ++axis) extents.emplace_back(x.extent(axis));
    return extents;
}

INTQ_INLINE Value evaluate_cat(std::span<const Value> values) {
    const Arguments arguments(values);
    std::vector<Tensor> parts;
    for (const Value& part : arguments[0].tuple()) parts.push_back(part.tensor());
    return float_operators::cat(parts, axis_of(arguments, 1, 0));
}

INTQ_INLINE Value evaluate_flatten(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::flatten(arguments.tensor(0), axis_of(arguments, 1, 0), axis_of(arguments, 2, -1));
}

INTQ_INLINE Value evaluate_reshape(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::reshape(arguments.tensor(0), integers_after(arguments, 1));
}

INTQ_INLINE Value evaluate_permute(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::permute(arguments.tensor(0), integers_after(arguments, 1));
}

INTQ_INLINE Value evaluate_transpose(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::transpose(arguments.tensor(0), static_cast<int>(arguments[1].integer()),
                                      static_cast<int>(arguments[2].integer()));
}

INTQ_INLINE Value evaluate_slice(std::span<const Value> values) {
    const Arguments arguments(values);
    const index_t step = arguments.integer(4, 1);
    return float_operators::slice(arguments.tensor(0), static_cast<int>(arguments[1].integer()),
                                  arguments.integer(2, 0), arguments.integer(3, slice_stop(step)), step);
}

// An item of a tuple, or an element of axis 0 of a tensor.
INTQ_INLINE Value evaluate_getitem(std::span<const Value> values) {
    const Arguments arguments(values);
    const std::int64_t at = arguments[1].integer();
    if (!arguments[0].is_tuple()) return float_operators::select(arguments.tensor(0), 0, at);
    const Value::Tuple& items = arguments[0].tuple();
    const auto count = static_cast<std::int64_t>(items.size());
    if (at < -count || at >= count)
        throw Error("getitem: a tuple of " + std::to_string(count) + " has no item " + std::to_string(at));
    return items[static_cast<std::size_t>(at < 0 ? at + count : at)];
}

INTQ_INLINE Value evaluate_expand(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::expand(arguments.tensor(0), integers_after(arguments, 1));
}

INTQ_INLINE Value to_tuple(const std::vector<Tensor>& tensors) { return Value::Tuple(tensors.begin(), tensors.end()); }

INTQ_INLINE Value evaluate_split(std::span<const Value> values) {
    const Arguments arguments(values);
    const Tensor& x = arguments.tensor(0);
    const int axis = axis_of(arguments, 2, 0);
    if (!arguments[1].is_tuple()) return to_tuple(float_operators::split(x, index_t{arguments[1].integer()}, axis));
    return to_tuple(float_operators::split(x, integers_of(arguments[1]), axis));
}

INTQ_INLINE Value evaluate_chunk(std::span<const Value> values) {
    const Arguments arguments(values);
    return to_tuple(float_operators::chunk(arguments.tensor(0), arguments[1].integer(), axis_of(arguments, 2, 0)));
}

INTQ_INLINE Value evaluate_pad(std::span<const Value> values) {
    const Arguments arguments(values);
    const PadMode mode = pad_mode(arguments);
    if (mode != PadMode::constant) return float_operators::pad(arguments.tensor(0), integers_of(arguments[1]), mode);
    return float_operators::pad(arguments.tensor(0), integers_of(arguments[1]),
                                arguments.optional_number(3).value_or(0.0));
}

}  // namespace detail

INTQ_INLINE std::vector<index_t> integers_after(const Arguments& arguments, std::size_t first) {
    if (arguments[first].is_tuple()) return integers_of(arguments[first]);
    std::vector<index_t> result;
    for (std::size_t i = first; i < arguments.size(); ++i) result.push_back(arguments[i].integer());
    return result;
}

INTQ_INLINE index_t slice_stop(index_t step) {
    return step < 0 ? (std::numeric_limits<index_t>::min)() : (std::numeric_limits<index_t>::max)();
}

INTQ_INLINE Value cat(const Value::Tuple& parts, int axis) { return call(cat_function, Value(parts), axis); }

INTQ_INLINE Value flatten(const Value& x, int start_axis, int end_axis) {
    return call(flatten_function, x, start_axis, end_axis);
}

INTQ_INLINE Value size(const Value& x) { return call_method(size_function, x); }
INTQ_INLINE Value size(const Value& x, int axis) { return call_method(size_function, x, axis); }

INTQ_INLINE Value reshape(const Value& x, const Value::Tuple& shape) { return call(reshape_function, x, shape); }

INTQ_INLINE Value reshape(const Value& x, std::initializer_list<index_t> shape) {
    return call(reshape_function, x, detail::tuple_of({shape.begin(), shape.size()}));
}

INTQ_INLINE Value permute(const Value& x, std::initializer_list<index_t> axes) {
    return call(permute_function, x, detail::tuple_of({axes.begin(), axes.size()}));
}

INTQ_INLINE Value transpose(const Value& x, int axis0, int axis1) { return call(transpose_function, x, axis0, axis1); }

INTQ_INLINE Value slice(const Value& x, int axis, index_t start, const Value& stop, index_t step) {
    return call(slice_function, x, axis, start, stop, step);
}

INTQ_INLINE Value expand(const Value& x, const Value::Tuple& shape) { return call(expand_function, x, shape); }

INTQ_INLINE Value split(const Value& x, const Value& size, int axis) { return call(split_function, x, size, axis); }
INTQ_INLINE Value chunk(const Value& x, index_t chunks, int axis) { return call(chunk_function, x, chunks, axis); }

INTQ_INLINE Value pad(const Value& x, std::initializer_list<index_t> padding, const std::string& mode) {
    return call(pad_function, x, detail::tuple_of({padding.begin(), padding.size()}), mode);
}

INTQ_INLINE PadMode pad_mode(const Arguments& arguments) {
    return arguments.has(2) ? float_operators::pad_mode_of(arguments[2].text()) : PadMode::constant;
}

INTQ_INLINE Value pad(const Value& x, std::initializer_list<index_t> padding, double value) {
    return call(pad_function, x, detail::tuple_of({padding.begin(), padding.size()}), "constant", value);
}

INTQ_INLINE Value Value::operator[](std::int64_t at) const {
    if (!is_tuple()) return call(getitem_function, *this, at);
    const std::array<Value, 2> arguments{*this, Value(at)};
    return getitem_function.evaluate(arguments);
}

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
