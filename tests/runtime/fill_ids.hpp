// SPDX-License-Identifier: MIT
//
// Inputs of a program that hold ids: a run refuses those without a row.
#ifndef INTQ_TESTS_RUNTIME_FILL_IDS_HPP
#define INTQ_TESTS_RUNTIME_FILL_IDS_HPP

#include <cstdint>

#include "intq/runtime/program.hpp"
#include "kernels/oracle_bridge.hpp"

namespace intq::test {

/// Writes ids in the bounds of an input that holds ids.
/// @return false for another input
inline bool fill_ids(const runtime::ProgramTensor& tensor, void* to, Draw& draw) {
    if (tensor.dtype != DType::int32 || !tensor.has_stated_bounds) return false;
    for (index_t i = 0; i < tensor.shape.size(); ++i)
        static_cast<std::int32_t*>(to)[i] =
            static_cast<std::int32_t>(draw.between(tensor.qparams.quant_min(), tensor.qparams.quant_max()));
    return true;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_RUNTIME_FILL_IDS_HPP
