// SPDX-License-Identifier: MIT
//
// The operators that the library knows by name. Layer: core.
#ifndef INTQ_CORE_OP_KIND_HPP
#define INTQ_CORE_OP_KIND_HPP

#include <cstdint>

#include "intq/core/abi.hpp"

namespace intq::inline INTQ_CORE_ABI {

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
    program,
    count_  // number of kinds; not an operator
};

/// The operator's name in messages, tables and labels, e.g. "conv2d".
constexpr const char* name_of(OpKind kind) noexcept {
    switch (kind) {
        case OpKind::quantize:
            return "quantize";
        case OpKind::dequantize:
            return "dequantize";
        case OpKind::fake_quantize:
            return "fake_quantize";
        case OpKind::requantize:
            return "requantize";
        case OpKind::observe:
            return "observe";
        case OpKind::conv2d:
            return "conv2d";
        case OpKind::linear:
            return "linear";
        case OpKind::add:
            return "add";
        case OpKind::relu:
            return "relu";
        case OpKind::max_pool2d:
            return "max_pool2d";
        case OpKind::avg_pool2d:
            return "avg_pool2d";
        case OpKind::cat:
            return "cat";
        case OpKind::flatten:
            return "flatten";
        case OpKind::layout_change:
            return "layout_change";
        case OpKind::softmax:
            return "softmax";
        case OpKind::program:
            return "program";
        case OpKind::none:
        case OpKind::count_:
            break;
    }
    return "none";
}

}  // namespace intq::inline INTQ_CORE_ABI

#endif  // INTQ_CORE_OP_KIND_HPP
