// SPDX-License-Identifier: MIT
//
// A model of uint8 codes as one of int8 codes: each code and each zero point is 128 less. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_NODES_SIGNED_CODES_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_NODES_SIGNED_CODES_HPP

#include <cstdint>

#include "intq/interop/tflite/internal/read/model.hpp"
#include "intq/interop/tflite/read/limits.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

/// What is added to a uint8 code.
inline constexpr std::int64_t offset_of_uint8 = -128;

/// The same model with int8 codes in place of uint8 codes. Tensors without a scale stay as they are.
///
/// @param copied  gets the bytes of constants that had to be copied
/// @throws Error for more of them than the limits allow
Model with_signed_codes(Model model, const Limits& limits, std::uint64_t& copied);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_nodes)

#    include <cstddef>
#    include <memory>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/interop/tflite/internal/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Model with_signed_codes(Model model, const Limits& limits, std::uint64_t& copied) {
    for (FileTensor& tensor : model.tensors) {
        if (tensor.dtype != DType::uint8 || tensor.scales.size() == 0) continue;
        tensor.dtype = DType::int8;
        tensor.offset = offset_of_uint8;
        if (!tensor.is_constant()) continue;
        check_copied(copied += tensor.data.size(), limits, *model.file);
        auto codes = std::make_shared<std::vector<std::byte>>(tensor.data.begin(), tensor.data.end());
        for (std::byte& code : *codes) code ^= std::byte{0x80};
        tensor.data = *codes;
        tensor.kept = std::move(codes);
    }
    return model;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_nodes)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_NODES_SIGNED_CODES_HPP
