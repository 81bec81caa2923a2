// SPDX-License-Identifier: MIT
//
// softmax and log_softmax on codes. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_SOFTMAX_HPP
#define INTQ_QUANTIZATION_OPERATORS_SOFTMAX_HPP

#include <cstdint>

#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Along an axis other than the samples'. Throws for an output whose scale or zero point is not the one that the target
/// fixes.
std::int32_t add_softmax(program::ProgramBuilder& builder, std::int32_t x, int axis, const OwnedQParams& output,
                         const program::LayerName& layer);

/// The same of its logarithm, with any scale.
std::int32_t add_log_softmax(program::ProgramBuilder& builder, std::int32_t x, int axis, const OwnedQParams& output,
                             const program::LayerName& layer);

/// TFLite's log-softmax of int8 codes, whose output has the scale 1/16 and the zero point 127.
std::int32_t add_fixed_point_log_softmax(program::ProgramBuilder& builder, std::int32_t x, int axis,
                                         const OwnedQParams& output, const program::LayerName& layer);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <cstddef>
#    include <string>
#    include <utility>

#    include "intq/arith/fixed_point_log_softmax.hpp"
#    include "intq/arith/fixed_point_softmax.hpp"
#    include "intq/arith/log_softmax.hpp"
#    include "intq/arith/softmax.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/kernels/operators/softmax.hpp"
#    include "intq/nn/layers/softmax.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/operators/reference.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Checks everything for the target's rule except the axis.
INTQ_INLINE kernels::SoftmaxParams softmax_params(program::ProgramBuilder& builder, std::int32_t x,
                                                  const OwnedQParams& output, const QParams& out,
                                                  const program::LayerName& layer) {
    const arith::PolicyRecord& target = builder.target();
    const arith::CodesOf in = builder.codes_of(x), to = program::ProgramBuilder::codes_of(output);
    kernels::SoftmaxParams step;
    if (target.softmax == arith::SoftmaxRule::requantized && in.dtype == DType::int16) {
        step.entry_count = arith::int16_softmax_entries;
        const Workspace memory = builder.new_buffer(step.entry_count * static_cast<index_t>(sizeof(std::uint32_t)));
        auto* const entries = reinterpret_cast<std::uint32_t*>(memory.data);
        throw_if_failed(arith::make_int16_softmax_tables(in, entries), layer.name);
        step.entries = entries;
        step.requantize.codes = program::ProgramBuilder::output_codes(out);
        step.requantize.words = program::made_or_throw(arith::make_int16_softmax_words(target, to), out, layer);
        return step;
    }
    if (target.softmax == arith::SoftmaxRule::requantized) {
        step.tables = value_or_throw(arith::make_softmax_tables(in), layer.name);
        step.requantize = program::made_or_throw(kernels::make_requantize(target, arith::softmax_probability, to,
                                                                          program::ProgramBuilder::output_codes(out)),
                                                 out, layer);
        return step;
    }
    const arith::FixedOutput* const fixed =
        arith::find_fixed_output(target.fixed_outputs, {OpKind::softmax, in.dtype, DType::none, to.dtype});
    if (fixed != nullptr && (fixed->scale != to.scale || fixed->zero_point != to.zero_point))
        throw Error(layer.name, std::string("the softmax of the target ") + target.name + " has the scale " +
                                    std::to_string(fixed->scale) + " and the zero point " +
                                    std::to_string(fixed->zero_point) + ", given " + std::to_string(to.scale) +
                                    " and " + std::to_string(to.zero_point));
    if (in.dtype == DType::int8)
        step.tables = value_or_throw(arith::make_fixed_point_softmax_tables(target, in), layer.name);
    else
        step.input = value_or_throw(arith::make_wide_softmax_multiplier(in), layer.name);
    return step;
}

}  // namespace detail

INTQ_INLINE std::int32_t add_softmax(program::ProgramBuilder& builder, std::int32_t x, int axis,
                                     const OwnedQParams& output, const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    builder.check_use({OpKind::softmax, in.dtype, DType::none, output.dtype}, layer);
    const QParams out = builder.keep(output);
    kernels::SoftmaxParams step = detail::softmax_params(builder, x, output, out, layer);
    step.count = in.shape[axis];
    step.inner = tensor_detail::strides_of(in.shape, in.layout)[static_cast<std::size_t>(axis)];
    const index_t most = kernels::most_softmax_terms(builder.target().softmax, in.dtype);
    if (step.count > most)
        throw Error(layer.name, "a softmax of at most " + std::to_string(most) + " terms is possible, given " +
                                    std::to_string(step.count));
    return builder.push(OpKind::softmax, {x}, builder.tensor(output.dtype, in.shape, out, layer, in.layout),
                        builder.keep_params(step), layer);
}

namespace detail {

/// The parameters of a log-softmax along an axis, and the memory of its entries, which is still to be written.
INTQ_INLINE std::pair<kernels::LogSoftmaxParams, std::uint32_t*> log_softmax_params(program::ProgramBuilder& builder,
                                                                                    std::int32_t x, int axis,
                                                                                    const OwnedQParams& output,
                                                                                    index_t count,
                                                                                    const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    builder.check_use({OpKind::log_softmax, in.dtype, DType::none, output.dtype}, layer);
    kernels::LogSoftmaxParams step;
    step.entry_count = count;
    step.count = in.shape[axis];
    step.inner = tensor_detail::strides_of(in.shape, in.layout)[static_cast<std::size_t>(axis)];
    if (const index_t most = kernels::most_softmax_terms(kernels::rule_of(step), in.dtype); step.count > most)
        throw Error(layer.name, "a log-softmax of at most " + std::to_string(most) + " terms is possible, given " +
                                    std::to_string(step.count));
    const Workspace memory = builder.new_buffer(count * static_cast<index_t>(sizeof(std::uint32_t)));
    auto* const entries = reinterpret_cast<std::uint32_t*>(memory.data);
    step.entries = entries;
    return {step, entries};
}

INTQ_INLINE std::int32_t push_log_softmax(program::ProgramBuilder& builder, std::int32_t x,
                                          const kernels::LogSoftmaxParams& step, const QParams& out, DType dtype,
                                          const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    return builder.push(OpKind::log_softmax, {x}, builder.tensor(dtype, in.shape, out, layer, in.layout),
                        builder.keep_params(step), layer);
}

}  // namespace detail

INTQ_INLINE std::int32_t add_log_softmax(program::ProgramBuilder& builder, std::int32_t x, int axis,
                                         const OwnedQParams& output, const program::LayerName& layer) {
    const arith::CodesOf in = builder.codes_of(x);
    auto [step, entries] =
        detail::log_softmax_params(builder, x, axis, output, arith::log_softmax_entries(in.dtype), layer);
    step.step = value_or_throw(arith::make_log_softmax_step(in), layer.name);
    throw_if_failed(arith::make_log_softmax_tables(in, entries), layer.name);
    const QParams out = builder.keep(output);
    step.requantize.codes = program::ProgramBuilder::output_codes(out);
    step.requantize.words = program::made_or_throw(
        arith::make_log_softmax_words(builder.target(), program::ProgramBuilder::codes_of(output)), out, layer);
    return detail::push_log_softmax(builder, x, step, out, output.dtype, layer);
}

INTQ_INLINE std::int32_t add_fixed_point_log_softmax(program::ProgramBuilder& builder, std::int32_t x, int axis,
                                                     const OwnedQParams& output, const program::LayerName& layer) {
    using arith::FixedPointLogSoftmax;
    const arith::CodesOf to = program::ProgramBuilder::codes_of(output);
    if (builder.at(x).dtype != DType::int8 || to.dtype != DType::int8 || to.scale != FixedPointLogSoftmax::scale ||
        to.zero_point != FixedPointLogSoftmax::zero_point)
        throw Error(layer.name, std::string("TFLite's log-softmax has int8 codes, the scale 1/16 and the zero point "
                                            "127, given ") +
                                    name_of(to.dtype) + ", " + std::to_string(to.scale) + " and " +
                                    std::to_string(to.zero_point));
    const auto [step, entries] =
        detail::log_softmax_params(builder, x, axis, output, arith::fixed_point_log_softmax_entries, layer);
    throw_if_failed(arith::make_fixed_point_log_softmax_table(builder.target(), builder.codes_of(x), entries),
                    layer.name);
    return detail::push_log_softmax(builder, x, step, builder.keep(output), to.dtype, layer);
}

class LogSoftmaxStep : public FloatBackedStep {
public:
    LogSoftmaxStep(FloatCall call, int axis) : FloatBackedStep(std::move(call)), axis_(axis) {}
    OpKind kind() const noexcept override { return OpKind::log_softmax; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        l.set_elements(node,
                       add_log_softmax(l.builder(), l.elements(node), axis_, l.qparams(node), Lowering::layer(node)));
    }

private:
    int axis_;
};

class SoftmaxStep : public FloatBackedStep {
public:
    SoftmaxStep(FloatCall call, int axis) : FloatBackedStep(std::move(call)), axis_(axis) {}
    OpKind kind() const noexcept override { return OpKind::softmax; }
    int axis() const noexcept { return axis_; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        l.set_elements(node, add_softmax(l.builder(), l.elements(node), axis_, l.qparams(node), Lowering::layer(node)));
    }

private:
    int axis_;
};

namespace operators {

INTQ_INLINE int softmax_axis(const StepRequest& request) {
    const auto* module = dynamic_cast<const nn::Softmax*>(request.module);
    return module != nullptr ? module->axis() : request.integer(1, -1);
}

INTQ_INLINE std::optional<int> softmax_axis(const graph::Node& node, const nn::Module* called) {
    if (const auto* module = dynamic_cast<const nn::Softmax*>(called))
        return module->is_from_axis() ? std::nullopt : std::optional(module->axis());
    if (node.args().size() < 2) return -1;
    const std::optional<double> given = node.args()[1].number();
    return given ? std::optional(static_cast<int>(*given)) : std::nullopt;
}

INTQ_INLINE void check_softmax(const StepRequest& request) {
    const auto* module = dynamic_cast<const nn::Softmax*>(request.module);
    const auto axis = request.known_axis(softmax_axis(request));
    if (axis == 0) throw request.error("a softmax over the samples (axis 0) has no integer form");
    const int rank = request.inputs.at(0)->shape.rank;
    if (module != nullptr && module->is_from_axis() && rank != 0 && *axis + 1 < rank)
        throw request.error("a softmax over several axes has no integer form");
}

INTQ_INLINE StepPtr make_softmax(const StepRequest& request) {
    check_softmax(request);
    return make_as<Step, SoftmaxStep>(request.call, request.axis(softmax_axis(request)));
}

INTQ_INLINE int log_softmax_axis(const StepRequest& request) {
    const auto* module = dynamic_cast<const nn::LogSoftmax*>(request.module);
    return module != nullptr ? module->axis() : request.integer(1, -1);
}

INTQ_INLINE void check_log_softmax(const StepRequest& request) {
    if (request.known_axis(log_softmax_axis(request)) == 0)
        throw request.error("a log-softmax over the samples (axis 0) has no integer form");
}

INTQ_INLINE StepPtr make_log_softmax(const StepRequest& request) {
    check_log_softmax(request);
    return make_as<Step, LogSoftmaxStep>(request.call, request.axis(log_softmax_axis(request)));
}

inline constexpr QuantizedOperator log_softmax{.name = "log_softmax",
                                               .role = Role::own_output,
                                               .kind = OpKind::log_softmax,
                                               .make_step = &make_log_softmax,
                                               .check = &check_log_softmax,
                                               .may_end_in_float = true};
inline constexpr QuantizedOperator softmax{.name = "softmax",
                                           .role = Role::own_output,
                                           .kind = OpKind::softmax,
                                           .make_step = &make_softmax,
                                           .check = &check_softmax,
                                           .may_end_in_float = true,
                                           .softmax_axis = &softmax_axis};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_SOFTMAX_HPP
