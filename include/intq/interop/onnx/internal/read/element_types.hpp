// SPDX-License-Identifier: MIT
//
// The types of elements that ONNX has, by their codes. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_READ_ELEMENT_TYPES_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_READ_ELEMENT_TYPES_HPP

#include <cstdint>
#include <string>

#include "intq/core/dtype.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// TensorProto.DataType by code.
struct ElementType {
    const char* name;
    DType dtype;  // none where intq does not have it
};
const ElementType& element_type(std::int64_t code);

/// How messages name the type of a code: "float16", or the number of an unknown one.
std::string describe_element_type(std::int64_t code);

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_read)

#    include <iterator>

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

inline constexpr ElementType element_types[] = {
    {"undefined", DType::none},      {"float32", DType::float32}, {"uint8", DType::uint8},
    {"int8", DType::int8},           {"uint16", DType::none},     {"int16", DType::int16},
    {"int32", DType::int32},         {"int64", DType::int64},     {"string", DType::none},
    {"bool", DType::uint8},          {"float16", DType::none},    {"float64", DType::float64},
    {"uint32", DType::none},         {"uint64", DType::none},     {"complex64", DType::none},
    {"complex128", DType::none},     {"bfloat16", DType::none},   {"float8e4m3fn", DType::none},
    {"float8e4m3fnuz", DType::none}, {"float8e5m2", DType::none}, {"float8e5m2fnuz", DType::none},
    {"uint4", DType::none},          {"int4", DType::none},       {"float4e2m1", DType::none},
    {"float8e8m0", DType::none},     {"uint2", DType::none},      {"int2", DType::none}};

INTQ_INLINE const ElementType& element_type(std::int64_t code) {
    static constexpr ElementType unknown{"of an unknown code", DType::none};
    return code >= 0 && code < static_cast<std::int64_t>(std::size(element_types)) ? element_types[code] : unknown;
}

INTQ_INLINE std::string describe_element_type(std::int64_t code) {
    const bool is_known = code >= 0 && code < static_cast<std::int64_t>(std::size(element_types));
    return is_known ? element_types[code].name : "a type of the unknown code " + std::to_string(code);
}

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_read)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_READ_ELEMENT_TYPES_HPP
