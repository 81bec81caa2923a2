// SPDX-License-Identifier: MIT
//
// Element types of tensors. Layer: core.
#ifndef INTQ_CORE_DTYPE_HPP
#define INTQ_CORE_DTYPE_HPP

#include <cstddef>
#include <cstdint>

#include "intq/core/abi.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

/// Sizes, indices and strides, everywhere in the library; strides may be negative.
using index_t = std::ptrdiff_t;

/// A count as the size of an array, which is unsigned.
/// @pre count >= 0
constexpr std::size_t array_size(index_t count) noexcept { return static_cast<std::size_t>(count); }

enum class DType : std::uint8_t { none, float32, float64, int8, int16, int32, int64, uint8 };

namespace detail {

template <class T> inline constexpr DType dtype_of = DType::none;
template <> inline constexpr DType dtype_of<float> = DType::float32;
template <> inline constexpr DType dtype_of<double> = DType::float64;
template <> inline constexpr DType dtype_of<std::int8_t> = DType::int8;
template <> inline constexpr DType dtype_of<std::int16_t> = DType::int16;
template <> inline constexpr DType dtype_of<std::int32_t> = DType::int32;
template <> inline constexpr DType dtype_of<std::int64_t> = DType::int64;
template <> inline constexpr DType dtype_of<std::uint8_t> = DType::uint8;

}  // namespace detail

/// The DType of a C++ type; DType::none for a type that no tensor holds.
template <class T> inline constexpr DType dtype_of = detail::dtype_of<T>;
template <class T> inline constexpr DType dtype_of<const T> = detail::dtype_of<T>;

}  // namespace INTQ_CORE_ABI
}  // namespace intq

namespace intq {
inline namespace INTQ_ABI {

/// Bytes of one element; 0 for DType::none.
constexpr index_t size_of(DType dtype) noexcept {
    switch (dtype) {
        case DType::int8:
        case DType::uint8:
            return 1;
        case DType::int16:
            return 2;
        case DType::float32:
        case DType::int32:
            return 4;
        case DType::float64:
        case DType::int64:
            return 8;
        case DType::none:
            break;
    }
    return 0;
}

/// The name used in messages, tables and files, e.g. "int8".
constexpr const char* name_of(DType dtype) noexcept {
    switch (dtype) {
        case DType::float32:
            return "float32";
        case DType::float64:
            return "float64";
        case DType::int8:
            return "int8";
        case DType::int16:
            return "int16";
        case DType::int32:
            return "int32";
        case DType::int64:
            return "int64";
        case DType::uint8:
            return "uint8";
        case DType::none:
            break;
    }
    return "none";
}

/// Smallest and largest code of an integer dtype: -128 and 127 for int8. 0 for the others.
constexpr std::int64_t lowest_code(DType dtype) noexcept {
    switch (dtype) {
        case DType::int8:
            return INT8_MIN;
        case DType::int16:
            return INT16_MIN;
        case DType::int32:
            return INT32_MIN;
        case DType::int64:
            return INT64_MIN;
        default:
            return 0;
    }
}
constexpr std::int64_t highest_code(DType dtype) noexcept {
    switch (dtype) {
        case DType::uint8:
            return UINT8_MAX;
        case DType::int8:
            return INT8_MAX;
        case DType::int16:
            return INT16_MAX;
        case DType::int32:
            return INT32_MAX;
        case DType::int64:
            return INT64_MAX;
        default:
            return 0;
    }
}

}  // namespace INTQ_ABI
}  // namespace intq

#endif  // INTQ_CORE_DTYPE_HPP
