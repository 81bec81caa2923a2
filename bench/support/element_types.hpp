// SPDX-License-Identifier: MIT
//
// The element types that layers are measured with, by the word that labels and --types use.
#ifndef INTQ_BENCH_SUPPORT_ELEMENT_TYPES_HPP
#define INTQ_BENCH_SUPPORT_ELEMENT_TYPES_HPP

#include <string_view>

#include "intq/core/dtype.hpp"

namespace intq_bench {

/// Input, weights and output.
struct ElementTypes {
    const char* name;
    intq::DType input, weight, output;
    bool is_reproducible = false;  // float sums with the bits of every machine, as calibration has them
    bool is_nonnegative = false;   // the input has no negative codes, as behind a ReLU on a symmetric grid
};

inline constexpr ElementTypes all_types[] = {
    {"s8s8s8", intq::DType::int8, intq::DType::int8, intq::DType::int8},
    {.name = "s8s8s8_nonnegative",
     .input = intq::DType::int8,
     .weight = intq::DType::int8,
     .output = intq::DType::int8,
     .is_nonnegative = true},
    {"s16s8s16", intq::DType::int16, intq::DType::int8, intq::DType::int16},
    {"s16s16s16", intq::DType::int16, intq::DType::int16, intq::DType::int16},
    {"f32f32f32", intq::DType::float32, intq::DType::float32, intq::DType::float32},
    {"f32f32f32_reproducible", intq::DType::float32, intq::DType::float32, intq::DType::float32, true},
};

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_ELEMENT_TYPES_HPP
