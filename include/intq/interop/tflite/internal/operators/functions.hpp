// SPDX-License-Identifier: MIT
//
// EXP, LOG, GELU, SQRT, RSQRT, ABS and NEG: tables, of 256 entries for int8 codes and of 513 for int16 codes. Layer:
// interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_FUNCTIONS_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_FUNCTIONS_HPP

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"
#include "intq/interop/tflite/internal/operators/unary.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void exp(OperatorImport& node);
void log(OperatorImport& node);
void gelu(OperatorImport& node);
void sqrt(OperatorImport& node);
void rsqrt(OperatorImport& node);
void absolute(OperatorImport& node);
void neg(OperatorImport& node);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <cstddef>
#    include <cstdint>
#    include <span>
#    include <string>

#    include "intq/arith/codes.hpp"
#    include "intq/arith/tflite_tables.hpp"
#    include "intq/arith/unary.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/core/status.hpp"
#    include "intq/core/workspace.hpp"
#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/operators/unary.hpp"
#    include "intq/quantization/operators/elementwise.hpp"
#    include "intq/tensor/owned_qparams.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

/// A function that LiteRT tabulates for codes of both types.
INTQ_INLINE void add_tables(OperatorImport& node, TableFunction function) {
    if (is_from_to(node, DType::int16))
        return add_made_table<std::int16_t>(node, arith::int16_table_size,
                                            [&](const auto& in, const auto& out, const auto& entries) {
                                                return arith::make_tflite_int16_table(function, in, out, entries);
                                            });
    add_int8_table(node, [&](const auto& in, const auto& out, const auto& entries) {
        return arith::make_tflite_int8_table(function, in, out, entries);
    });
}

INTQ_INLINE void require_narrow_or_wide(const OperatorImport& node) {
    node.require_inputs(1, 1);
    if (!is_from_to(node, DType::int16)) require_int8(node, " or int16 on both sides");
}

INTQ_INLINE void exp(OperatorImport& node) {
    require_narrow_or_wide(node);
    add_tables(node, TableFunction::exp);
}

INTQ_INLINE void log(OperatorImport& node) {
    require_narrow_or_wide(node);
    add_tables(node, TableFunction::log);
}

INTQ_INLINE void gelu(OperatorImport& node) {
    require_int8(node, ": its table of int16 codes depends on the last bits of LiteRT's math library");
    const bool by_tanh = node.options().flag(fields::Gelu::approximate);
    add_tables(node, by_tanh ? TableFunction::gelu_tanh : TableFunction::gelu_erf);
}

INTQ_INLINE void sqrt(OperatorImport& node) {
    require_int8(node, ": for int16 codes LiteRT computes each root, which a table of a program does not hold");
    add_int8_table(node, [](const auto& in, const auto& out, const auto& entries) {
        return arith::make_tflite_sqrt_table(in, out, entries);
    });
}

INTQ_INLINE void rsqrt(OperatorImport& node) {
    require_narrow_or_wide(node);
    if (is_from_to(node, DType::int16)) return add_tables(node, TableFunction::rsqrt);
    add_int8_table(node, [](const auto& in, const auto& out, const auto& entries) {
        return arith::make_tflite_rsqrt_table(in, out, entries);
    });
}

/// Of int16 codes, the difference of their two halves, which is exact for codes of one scale.
INTQ_INLINE void add_wide_abs(OperatorImport& node) {
    const OwnedQParams in = node.qparams(node.input()), out = node.output_qparams();
    if (in.zero_points[0] != 0 || out.zero_points[0] != 0) throw Error("int16 codes must have the zero point 0");
    if (in.scale() != out.scale())
        throw Error(
            "int16 codes of another scale than the output's are not supported: -32768 has no counterpart that "
            "could be scaled");
    const std::int32_t x = node.x();
    arith::OutputCodes above = node.codes(FusedActivation::none), below = above;
    above.lowest = 0;
    below.highest = 0;
    const std::int32_t positive = quantization::add_clamp(node.builder(), x, above, node.layer("positive"));
    const std::int32_t negative = quantization::add_clamp(node.builder(), x, below, node.layer("negative"));
    node.set(quantization::add_sum(node.builder(), OpKind::sub, positive, negative, out,
                                   node.codes(FusedActivation::none), node.layer()));
}

INTQ_INLINE void absolute(OperatorImport& node) {
    require_narrow_or_wide(node);
    if (is_from_to(node, DType::int16)) return add_wide_abs(node);
    add_int8_table(node, [](const auto& in, const auto& out, const auto& entries) {
        return arith::make_tflite_abs_table(in, out, entries);
    });
}

/// LiteRT negates the codes themselves, and -128 stays.
INTQ_INLINE void neg(OperatorImport& node) {
    require_int8(node, ": for int16 codes LiteRT leaves -32768 as it is, which no instruction does");
    node.require_same_qparams(node.input(), node.output());
    if (const std::int32_t zero_point = node.output_qparams().zero_points[0]; zero_point != 0)
        throw Error("its codes have the zero point " + std::to_string(zero_point) +
                    ", expected 0: LiteRT negates the codes as they are");
    add_table(node, [](std::int32_t code) { return code == INT8_MIN ? code : -code; });
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_FUNCTIONS_HPP
