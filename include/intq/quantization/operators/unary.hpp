// SPDX-License-Identifier: MIT
//
// Functions of single elements on codes: sigmoid, tanh, hard-swish, … by a table. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_UNARY_HPP
#define INTQ_QUANTIZATION_OPERATORS_UNARY_HPP

#include <cstdint>
#include <string_view>

#include "intq/arith/unary.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Which function, and its parameter (the slope of leaky_relu, alpha of elu).
struct TabledFunction {
    TableFunction function = TableFunction::sigmoid;
    double parameter = 1.0;
};

/// The table is computed here, once.
std::int32_t add_look_up(program::ProgramBuilder& builder, std::int32_t x, const TabledFunction& f,
                         const OwnedQParams& output, const program::LayerName& layer);

/// The same with bounds, within the codes of the output.
std::int32_t add_look_up(program::ProgramBuilder& builder, std::int32_t x, const TabledFunction& f,
                         const OwnedQParams& output, arith::CodeRange range, const program::LayerName& layer);

namespace operators {

bool is_unary(std::string_view name);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <cmath>
#    include <cstddef>
#    include <cstring>
#    include <span>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/arith/block_table.hpp"
#    include "intq/arith/constraints.hpp"
#    include "intq/arith/ieee.hpp"
#    include "intq/arith/target.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/kernels/operators/unary.hpp"
#    include "intq/nn/float_operators/unary.hpp"
#    include "intq/nn/layers/unary.hpp"
#    include "intq/nn/model/call.hpp"
#    include "intq/quantization/operators/elementwise.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/internal/on_grid.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/operators/reference.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The table of int8 codes by the target's rule.
INTQ_INLINE Status make_narrow_table(const arith::PolicyRecord& target, const TabledFunction& f,
                                     const arith::CodesOf& from, const arith::CodesOf& to, arith::CodeRange range,
                                     std::span<std::int8_t> entries) {
    if (!target.computes_as_onnx()) return arith::make_int8_table(f.function, from, to, entries, f.parameter, range);
    return arith::make_int8_table_in_float32(
        from, to, entries, [&](float x) { return arith::table_function_in_float32(f.function, x, f.parameter); },
        range);
}

/// The table of int16 codes: the smaller one that stays within one code of the nearest ones, and that of 513 entries
/// where the target pins the output of the function.
INTQ_INLINE std::vector<std::int16_t> make_wide_table(const arith::PolicyRecord& target, const TabledFunction& f,
                                                      const arith::CodesOf& from, const arith::CodesOf& to,
                                                      arith::CodeRange range, const std::string& layer) {
    const auto function = [&](double x) { return arith::table_function(f.function, x, f.parameter); };
    const arith::OperatorUse use{
        .op = OpKind::lookup_table, .input = DType::int16, .output = DType::int16, .function = f.function};
    std::vector<std::int16_t> words(arith::int16_table_size);
    if (arith::find_fixed_output(target.fixed_outputs, use) != nullptr) {
        throw_if_failed(arith::make_int16_table(from, to, std::span(words), function, range), layer);
        return words;
    }
    words.resize(arith::largest_block_table_size);
    const Result<std::size_t> size = arith::make_table_within_a_code(from, to, std::span(words), function, range);
    throw_if_failed(size.status(), layer);
    words.resize(*size);
    return words;
}

/// Adds the instruction, with a copy of the table.
template <class Code>
INTQ_INLINE std::int32_t push_look_up(program::ProgramBuilder& builder, std::int32_t x, std::span<const Code> entries,
                                      const OwnedQParams& output, const program::LayerName& layer) {
    kernels::LookUpParams step;
    step.size = static_cast<index_t>(entries.size());
    const Workspace memory = builder.new_buffer(static_cast<index_t>(entries.size_bytes()));
    std::memcpy(memory.data, entries.data(), entries.size_bytes());
    step.entries = memory.data;
    const kernels::ArenaTensor in = builder.at(x);
    return builder.push(OpKind::lookup_table, {x},
                        builder.tensor(output.dtype, in.shape, builder.keep(output), layer, in.layout),
                        builder.keep_params(step), layer);
}

}  // namespace detail

INTQ_INLINE std::int32_t add_look_up(program::ProgramBuilder& builder, std::int32_t x, const TabledFunction& f,
                                     const OwnedQParams& output, arith::CodeRange range,
                                     const program::LayerName& layer) {
    const DType dtype = builder.at(x).dtype;
    builder.check_use({OpKind::lookup_table, dtype, DType::none, output.dtype}, layer);
    const arith::CodesOf from = builder.codes_of(x), to = program::ProgramBuilder::codes_of(output);
    for (const arith::CodesOf& codes : {from, to})
        throw_if_failed(arith::check_zero_point(builder.target(), codes.zero_point, codes.dtype, OpKind::lookup_table),
                        layer.name);
    if (dtype == DType::int8) {
        std::int8_t entries[arith::int8_table_size];
        throw_if_failed(detail::make_narrow_table(builder.target(), f, from, to, range, entries), layer.name);
        return detail::push_look_up<std::int8_t>(builder, x, entries, output, layer);
    }
    const std::vector<std::int16_t> words = detail::make_wide_table(builder.target(), f, from, to, range, layer.name);
    return detail::push_look_up<std::int16_t>(builder, x, words, output, layer);
}

INTQ_INLINE std::int32_t add_look_up(program::ProgramBuilder& builder, std::int32_t x, const TabledFunction& f,
                                     const OwnedQParams& output, const program::LayerName& layer) {
    return add_look_up(builder, x, f, output, {output.quant_min, output.quant_max}, layer);
}

class LookUpTableStep : public FloatBackedStep {
public:
    LookUpTableStep(FloatCall call, const TabledFunction& function)
        : FloatBackedStep(std::move(call)), function_(function) {}
    OpKind kind() const noexcept override { return OpKind::lookup_table; }
    const TabledFunction& function() const noexcept { return function_; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        const arith::OutputCodes codes = l.output_codes(node);
        l.set_elements(node, add_look_up(l.builder(), l.elements(node), function_, l.qparams(node),
                                         {codes.lowest, codes.highest}, Lowering::layer(node)));
    }

private:
    TabledFunction function_;
};

/// leaky_relu of int16 codes where the target's add is within one code: the codes from the zero point on, and those
/// below it on a grid of the slope's size, added. It takes codes with zero points, which tables do not.
///
///     y = requantize(s·max(q - zp, 0) ± (s·|slope|)·min(q - zp, 0)), as add and sub do it: one of the two is 0
class LeakyReluStep : public FloatBackedStep {
public:
    LeakyReluStep(FloatCall call, double slope) : FloatBackedStep(std::move(call)), slope_(slope) {}
    OpKind kind() const noexcept override { return OpKind::add; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        program::ProgramBuilder& builder = l.builder();
        const program::LayerName layer = Lowering::layer(node);
        const OwnedQParams& input = l.quantized().input(node, 0).qparams;
        const std::int32_t x = l.elements(node), zero_point = input.view().zero_point();
        const auto part = [&](const char* name, float scale, std::int64_t lowest, std::int64_t highest) {
            OwnedQParams grid = input;
            grid.scales = {scale};
            const kernels::ArenaTensor in = builder.at(x);
            const program::LayerName named{layer.name + name, layer.type};
            const arith::OutputCodes codes{zero_point, static_cast<std::int32_t>(lowest),
                                           static_cast<std::int32_t>(highest)};
            builder.check_use({OpKind::relu, in.dtype, DType::none, in.dtype}, named);
            return builder.push(OpKind::relu, {x},
                                builder.tensor(in.dtype, in.shape, builder.keep(grid), named, in.layout),
                                builder.keep_params(codes), named);
        };
        const float below = arith::fmul(input.scale(), static_cast<float>((std::abs)(slope_)));
        const std::int32_t above = part(".above", input.scale(), zero_point, input.quant_max);
        if (below < least_scale) return l.set_elements(node, add_on_grid(builder, above, l.qparams(node), {}, layer));
        const std::int32_t rest = part(".below", below, input.quant_min, zero_point);
        l.set_elements(node, add_sum(builder, slope_ < 0.0 ? OpKind::sub : OpKind::add, above, rest, l.qparams(node),
                                     l.output_codes(node), layer));
    }

private:
    static constexpr float least_scale = 0x1p-100f;  // below, no slope shows in a code
    double slope_;
};

namespace operators {

/// A module names its function; for a function, its name does, and gelu's argument.
INTQ_INLINE TabledFunction tabled_function(const StepRequest& request) {
    if (const auto* module = dynamic_cast<const nn::Unary*>(request.module))
        return {module->function(), module->parameter()};
    const std::string_view name = request.node.function()->name;
    const nn::Arguments arguments = request.arguments();
    if (name == "gelu") return {nn::gelu_of(arguments.has(1) ? arguments[1].text() : "none"), 1.0};
    for (const auto& row : nn::float_operators::unary_rows)
        if (row.name == name) return {row.function, arguments.optional_number(1).value_or(row.default_parameter)};
    throw request.error("no table of functions has \"" + std::string(name) + "\"");
}

/// Any scale shows whether codes of this type have a table, and may have a zero point.
INTQ_INLINE void check_look_up(const StepRequest& request) {
    const OwnedQParams& codes = request.inputs.at(0)->qparams;
    arith::CodesOf like = program::ProgramBuilder::codes_of(codes);
    like.scale = 1.0f;
    const TabledFunction function = tabled_function(request);
    nn::float_operators::check_parameter(function.function, function.parameter);
    const arith::CodeRange range{codes.quant_min, codes.quant_max};
    std::int8_t narrow[arith::int8_table_size];
    std::int16_t wide[arith::int16_table_size];
    const Status status = codes.dtype == DType::int8
                              ? detail::make_narrow_table(request.target, function, like, like, range, narrow)
                              : arith::make_int16_table(
                                    like, like, std::span(wide), [](double x) { return x; }, range);
    if (!status) throw request.error("its table: " + describe(status));
}

/// The function of a module, or of a function's name.
INTQ_INLINE TableFunction function_of(const graph::Node& node, const nn::Module* module) {
    if (const auto* unary = dynamic_cast<const nn::Unary*>(module)) return unary->function();
    if (node.function() != nullptr)
        for (const auto& row : nn::float_operators::unary_rows)
            if (row.name == node.function()->name) return row.function;
    return arith::OperatorUse{}.function;
}

/// Whether leaky_relu is a sum of two parts: of int16 codes, but not on bpu, whose int16 add may be three codes off.
INTQ_INLINE bool is_sum_of_parts(const StepRequest& request) {
    return request.inputs.at(0)->qparams.dtype == DType::int16 &&
           request.target.requantize != arith::RequantizeRule::two_stage;
}

INTQ_INLINE void check_leaky_relu(const StepRequest& request) {
    const TabledFunction function = tabled_function(request);
    nn::float_operators::check_parameter(function.function, function.parameter);
    if (!is_sum_of_parts(request)) check_look_up(request);
}

INTQ_INLINE StepPtr make_leaky_relu(const StepRequest& request) {
    check_leaky_relu(request);
    const TabledFunction function = tabled_function(request);
    if (is_sum_of_parts(request)) return make_as<Step, LeakyReluStep>(request.call, function.parameter);
    return make_as<Step, LookUpTableStep>(request.call, function);
}

INTQ_INLINE StepPtr make_look_up(const StepRequest& request) {
    check_look_up(request);
    return make_as<Step, LookUpTableStep>(request.call, tabled_function(request));
}

/// hardtanh keeps its input between -1 and 1, and does nothing else.
INTQ_INLINE std::optional<RealBounds> clip_of_unary(const StepRequest& request) {
    if (tabled_function(request).function != TableFunction::hard_tanh) return std::nullopt;
    return RealBounds{-1.0, 1.0};
}

/// All functions of nn/float_operators/unary.hpp share this row, except leaky_relu.
inline constexpr QuantizedOperator unary{.name = "unary",
                                         .role = Role::own_output,
                                         .kind = OpKind::lookup_table,
                                         .make_step = &make_look_up,
                                         .check = &check_look_up,
                                         .function = &function_of,
                                         .clip = &clip_of_unary,
                                         .takes_clip = true};
inline constexpr QuantizedOperator leaky_relu{.name = "leaky_relu",
                                              .role = Role::own_output,
                                              .kind = OpKind::lookup_table,
                                              .make_step = &make_leaky_relu,
                                              .check = &check_leaky_relu,
                                              .takes_clip = true,
                                              .channel_factors = ChannelFactors::anywhere};

INTQ_INLINE bool is_unary(std::string_view name) {
    for (const auto& row : nn::float_operators::unary_rows)
        if (name == row.name) return true;
    return false;
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_UNARY_HPP
