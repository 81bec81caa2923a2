// SPDX-License-Identifier: MIT
//
// Reads an ONNX TensorProto, whose data may be in one of several fields, or in a file beside the model. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_READ_READ_TENSOR_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_READ_READ_TENSOR_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/interop/onnx/internal/read/element_types.hpp"
#include "intq/interop/onnx/internal/read/external_data.hpp"
#include "intq/interop/onnx/internal/read/limits.hpp"
#include "intq/interop/onnx/read/model.hpp"
#include "intq/io/protobuf.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

using io::ProtobufReader;

/// The contents of a TensorProto before they are checked.
struct RawTensor {
    std::string name;
    std::int64_t type = 0, location = 0;
    bool has_segment = false, has_strings = false;
    ExternalEntries external_data;
    std::vector<std::int64_t> dims, int32_data, int64_data, uint64_data;
    std::vector<float> float_data;
    std::vector<double> double_data;
    std::optional<std::string_view> raw_data;
};

/// Reads the current field of a message as a name.
///
/// @throws Error for a name longer than max_name
std::string read_name(ProtobufReader& fields);

RawTensor read_raw_tensor(ProtobufReader fields);

/// @param external  the files beside the model
/// @throws Error that does not name the tensor
FileTensor to_tensor_checked(const RawTensor& raw, ExternalData& external);

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_read)

#    include <cstring>
#    include <iterator>
#    include <span>
#    include <type_traits>

#    include "intq/core/byte_order.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

inline constexpr std::int64_t bool_code = 9;
/// TensorProto.DataLocation.
inline constexpr std::int64_t external_location = 1;

/// Number of elements. Throws when it, or the number of bytes, overflows.
INTQ_INLINE std::size_t checked_element_count(const std::vector<std::int64_t>& dims, index_t element) {
    if (dims.size() > max_dims) throw Error("it has " + std::to_string(dims.size()) + " dims, more than 32");
    index_t bytes = element;
    bool empty = false;
    for (const std::int64_t dim : dims) {
        if (dim < 0) throw Error("dims " + describe_shape(dims) + " hold a negative one");
        if (dim == 0) {
            empty = true;
        } else if (__builtin_mul_overflow(bytes, dim, &bytes)) {
            throw Error("dims " + describe_shape(dims) + " have more elements than memory has bytes");
        }
    }
    return empty ? 0 : static_cast<std::size_t>(bytes / element);
}

/// Copies typed values into the bytes of a tensor of T. Throws when there are not `count`, or one does not fit.
template <class T, class Source>
std::vector<std::byte> convert_values(const std::vector<Source>& values, std::size_t count, const char* field) {
    if (values.size() != count)
        throw Error(std::string(field) + " has " + std::to_string(values.size()) + " values, the dims need " +
                    std::to_string(count));
    std::vector<std::byte> bytes(count * sizeof(T));
    for (std::size_t i = 0; i < count; ++i) {
        const auto value = static_cast<T>(values[i]);
        if constexpr (std::is_integral_v<T>)
            if (static_cast<Source>(value) != values[i])
                throw Error(std::string(field) + " holds " + std::to_string(values[i]) + ", which its dtype does not");
        std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
    return bytes;
}

/// The elements of raw_data and of external files are little-endian.
INTQ_INLINE std::vector<std::byte> in_native_order(std::vector<std::byte> bytes, std::size_t element) {
    if (is_little_endian || bytes.empty()) return bytes;
    std::vector<std::byte> result(bytes.size());
    copy_little_endian(result.data(), bytes.data(), static_cast<index_t>(bytes.size() / element),
                       static_cast<index_t>(element));
    return result;
}

INTQ_INLINE std::vector<std::byte> copy_raw_data(std::string_view raw, std::size_t count, std::size_t element) {
    if (raw.size() != count * element)
        throw Error("raw_data has " + std::to_string(raw.size()) + " bytes, the dims need " +
                    std::to_string(count * element));
    const auto bytes = std::as_bytes(std::span(raw.data(), raw.size()));
    return in_native_order({bytes.begin(), bytes.end()}, element);
}

INTQ_INLINE std::vector<std::byte> data_of(const RawTensor& raw, DType dtype, ExternalData& external) {
    const std::size_t count = checked_element_count(raw.dims, size_of(dtype));
    const int sources = int{raw.raw_data.has_value()} + int{!raw.float_data.empty()} + int{!raw.int32_data.empty()} +
                        int{!raw.int64_data.empty()} + int{!raw.double_data.empty()} + int{!raw.uint64_data.empty()};
    const bool is_external = raw.location == external_location;
    if (sources > 1 || (sources > 0 && is_external)) throw Error("it holds data in two fields");
    const auto element = static_cast<std::size_t>(size_of(dtype));
    if (is_external) return in_native_order(external.read(raw.external_data, count * element), element);
    if (raw.raw_data) return copy_raw_data(*raw.raw_data, count, element);
    switch (dtype) {
        case DType::float32:
            return convert_values<float>(raw.float_data, count, "float_data");
        case DType::float64:
            return convert_values<double>(raw.double_data, count, "double_data");
        case DType::int8:
            return convert_values<std::int8_t>(raw.int32_data, count, "int32_data");
        case DType::uint8:
            return convert_values<std::uint8_t>(raw.int32_data, count, "int32_data");
        case DType::int16:
            return convert_values<std::int16_t>(raw.int32_data, count, "int32_data");
        case DType::int32:
            return convert_values<std::int32_t>(raw.int32_data, count, "int32_data");
        default:
            return convert_values<std::int64_t>(raw.int64_data, count, "int64_data");
    }
}

#    if INTQ_WITH_PROTOZERO
INTQ_INLINE std::string read_name(ProtobufReader& fields) {
    const std::uint32_t number = fields.number();
    const std::string_view text = fields.bytes();
    if (text.size() > max_name)
        throw Error("field " + std::to_string(number) + " of " + std::string(fields.name()) + " is a name of " +
                    std::to_string(text.size()) + " bytes, expected " + std::to_string(max_name) + " at most");
    return std::string(text);
}

INTQ_INLINE ExternalEntries::value_type read_entry(ProtobufReader fields) {
    ExternalEntries::value_type entry;
    while (fields.next()) {
        if (fields.number() == 1) entry.first = read_name(fields);
        if (fields.number() == 2) entry.second = read_name(fields);
    }
    return entry;
}

INTQ_INLINE RawTensor read_raw_tensor(ProtobufReader fields) {
    RawTensor raw;
    while (fields.next()) switch (fields.number()) {
            case 1:
                fields.append_to(raw.dims);
                break;
            case 2:
                raw.type = fields.integer();
                break;
            case 3:
                raw.has_segment = true;
                break;
            case 4:
                fields.append_to(raw.float_data);
                break;
            case 5:
                fields.append_to(raw.int32_data);
                break;
            case 6:
                raw.has_strings = true;
                break;
            case 7:
                fields.append_to(raw.int64_data);
                break;
            case 8:
                raw.name = read_name(fields);
                break;
            case 9:
                raw.raw_data = fields.bytes();
                break;
            case 10:
                fields.append_to(raw.double_data);
                break;
            case 11:
                fields.append_to(raw.uint64_data);
                break;
            case 13:
                if (raw.external_data.size() == max_external_entries)
                    throw Error("a tensor has more than " + std::to_string(max_external_entries) +
                                " entries of external data");
                raw.external_data.push_back(read_entry(fields.message("StringStringEntryProto")));
                break;
            case 14:
                raw.location = fields.integer();
                break;
            default:
                break;
        }
    return raw;
}
#    endif

INTQ_INLINE FileTensor to_tensor_checked(const RawTensor& raw, ExternalData& external) {
    if (raw.location != 0 && raw.location != external_location)
        throw Error("its data lies at a location of the unknown code " + std::to_string(raw.location));
    if (raw.location == 0 && !raw.external_data.empty())
        throw Error("it names a file for its data, and says that it has its data inside");
    if (raw.has_segment) throw Error("it is stored in segments, which is not supported");
    const ElementType& type = element_type(raw.type);
    if (type.dtype == DType::none || raw.has_strings)
        throw Error(std::string("dtype ") + type.name + " (code " + std::to_string(raw.type) + ") is not supported");
    FileTensor tensor{raw.name, type.dtype, {raw.dims.begin(), raw.dims.end()}, data_of(raw, type.dtype, external)};
    if (raw.type == bool_code)
        for (const std::byte value : tensor.data)
            if (value > std::byte{1}) throw Error("a bool is neither 0 nor 1");
    return tensor;
}

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_read)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_READ_READ_TENSOR_HPP
