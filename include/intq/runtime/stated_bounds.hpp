// SPDX-License-Identifier: MIT
//
// Bounds of codes that a caller stated (ArenaTensor::has_stated_bounds), compared with a run's codes. Layer:
// runtime.
//
// The proof of a layer's sums takes its input's codes to be in the range of their qparams. Outputs of instructions are
// clamped to it. A narrower range is only a caller's claim, so a run checks it.
#ifndef INTQ_RUNTIME_STATED_BOUNDS_HPP
#define INTQ_RUNTIME_STATED_BOUNDS_HPP

#include "intq/runtime/program.hpp"

namespace intq::runtime {
inline namespace INTQ_ABI {

namespace detail {

template <class Code>
RunResult compare_bounds(const ProgramTensor& tensor, const void* data, index_t count, std::int32_t index) noexcept {
    const auto* const codes = static_cast<const Code*>(data);
    for (index_t i = 0; i < count; ++i)
        if (codes[i] < tensor.qparams.quant_min() || codes[i] > tensor.qparams.quant_max()) return {index, codes[i]};
    return {};
}

}  // namespace detail

/// Compares the codes of one tensor in the arena with the bounds that were stated for it, if any were.
inline RunResult check_bounds(const Program& program, const std::byte* arena, std::int32_t index,
                              index_t batch) noexcept {
    const ProgramTensor& tensor = program.tensor(index);
    if (!tensor.has_stated_bounds) return {};
    const index_t count = tensor.elements_per_image() * batch;
    const std::byte* const data = arena + tensor.offset;
    if (tensor.dtype == DType::int32) return detail::compare_bounds<std::int32_t>(tensor, data, count, index);
    return tensor.dtype == DType::int8 ? detail::compare_bounds<std::int8_t>(tensor, data, count, index)
                                       : detail::compare_bounds<std::int16_t>(tensor, data, count, index);
}

/// The same for all inputs, before the first instruction runs.
inline RunResult check_input_bounds(const Program& program, const std::byte* arena, index_t batch) noexcept {
    for (const std::int32_t input : program.inputs)
        if (const RunResult result = check_bounds(program, arena, input, batch); !result) return result;
    return {};
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_STATED_BOUNDS_HPP
