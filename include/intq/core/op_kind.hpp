// SPDX-License-Identifier: MIT
//
// The operators that the library knows by name. Layer: core.
#ifndef INTQ_CORE_OP_KIND_HPP
#define INTQ_CORE_OP_KIND_HPP

#include <cstddef>
#include <cstdint>

#include "intq/core/abi.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

enum class OpKind : std::uint8_t {
    none,
    quantize,
    dequantize,
    fake_quantize,
    requantize,
    observe,
    conv2d,
    linear,
    add,
    relu,
    max_pool2d,
    avg_pool2d,
    cat,
    flatten,
    layout_change,
    softmax,
    mul,
    lookup_table,
    interpolate,
    pad,
    sub,
    slice,
    permute,
    reshape,
    constant,
    quantize_image,
    layer_norm,
    matmul,
    embedding,
    log_softmax,
    index_copy,
    argmax,
    program,
    count_  // number of kinds; not an operator
};

/// The names, in the order of the kinds.
inline constexpr const char* op_kind_names[] = {
    "none",          "quantize",    "dequantize", "fake_quantize", "requantize",     "observe",    "conv2d",
    "linear",        "add",         "relu",       "max_pool2d",    "avg_pool2d",     "cat",        "flatten",
    "layout_change", "softmax",     "mul",        "lookup_table",  "interpolate",    "pad",        "sub",
    "slice",         "permute",     "reshape",    "constant",      "quantize_image", "layer_norm", "matmul",
    "embedding",     "log_softmax", "index_copy", "argmax",        "program",
};
static_assert(sizeof op_kind_names / sizeof *op_kind_names == static_cast<std::size_t>(OpKind::count_),
              "each OpKind needs a name, in the same order");

}  // namespace INTQ_CORE_ABI
}  // namespace intq

namespace intq {
inline namespace INTQ_ABI {

/// The operator's name in messages, tables and labels, e.g. "conv2d"; "none" for a number that is not a kind.
constexpr const char* name_of(OpKind kind) noexcept {
    return op_kind_names[kind < OpKind::count_ ? static_cast<std::size_t>(kind) : 0];
}

}  // namespace INTQ_ABI
}  // namespace intq

#endif  // INTQ_CORE_OP_KIND_HPP
