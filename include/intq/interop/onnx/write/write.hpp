// SPDX-License-Identifier: MIT
//
// Writes the plain structs of read/model.hpp as an ONNX file. Layer: interop.
//
// The same model always becomes the same bytes: fields are in the order of their numbers, items in the model's order.
// Field numbers are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
#ifndef INTQ_INTEROP_ONNX_WRITE_WRITE_HPP
#define INTQ_INTEROP_ONNX_WRITE_WRITE_HPP

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// The largest size of a protocol buffer, in bytes.
inline constexpr std::uint64_t largest_protobuf = (std::uint64_t{1} << 31) - 1;

struct WriteOptions {
    /// A model with more bytes of tensors has them in a file beside it, named after the model with ".data" appended.
    std::uint64_t external_above = largest_protobuf - (std::uint64_t{1} << 20);
};

/// The bytes of a file.
///
/// @throws Error naming the tensor or the attribute: of a dtype that no file has, of a size that differs from its dims,
///         or without a value; for a model beyond largest_protobuf; for any model where INTQ_WITH_PROTOZERO is 0
std::vector<std::byte> serialize_model(const Model& model);

/// Writes the file, and the one beside it where the tensors need one. Each appears complete or not at all; the tensors'
/// file is written first.
///
/// @throws Error naming the path: as serialize_model() does, and with the system's reason
void write_model(const Model& model, const std::filesystem::path& path, const WriteOptions& options = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_write)

#    include <span>
#    include <string>
#    include <string_view>
#    include <utility>
#    include <variant>

#    include "intq/core/byte_order.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/file.hpp"

#    if INTQ_WITH_PROTOZERO
#        include <protozero/pbf_writer.hpp>
#    endif

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

#    if INTQ_WITH_PROTOZERO

namespace detail {

/// TensorProto.DataType.
INTQ_INLINE std::int32_t element_code(const std::string& what, DType dtype) {
    switch (dtype) {
        case DType::float32:
            return 1;
        case DType::uint8:
            return 2;
        case DType::int8:
            return 3;
        case DType::int16:
            return 5;
        case DType::int32:
            return 6;
        case DType::int64:
            return 7;
        case DType::float64:
            return 11;
        case DType::none:
            break;
    }
    throw Error(what + " has no dtype");
}

/// The place of the tensors that are not stored in the model itself.
struct ExternalFile {
    std::string location;  // empty: they are in the model
    std::string bytes{};
    static constexpr std::size_t alignment = 64;
    static constexpr std::size_t least = 1024;  // smaller tensors stay in the model

    bool takes(const FileTensor& tensor) const { return !location.empty() && tensor.data.size() >= least; }
};

class ModelWriter {
public:
    explicit ModelWriter(std::string location = {}) : external_{std::move(location)} {}

    std::string write(const Model& model) {
        std::string result;
        protozero::pbf_writer fields(result);
        fields.add_int64(1, model.ir_version);
        if (!model.producer_name.empty()) fields.add_string(2, model.producer_name);
        if (!model.producer_version.empty()) fields.add_string(3, model.producer_version);
        fields.add_message(7, graph(model.graph));
        fields.add_message(8, opset("", model.opset));
        for (const OpsetImport& other : model.other_opsets) fields.add_message(8, opset(other.domain, other.version));
        for (const Property& property : model.metadata) fields.add_message(14, entry(property.key, property.value));
        if (result.size() > largest_protobuf)
            throw Error("the model would have " + std::to_string(result.size()) +
                        " bytes, more than a protocol buffer " +
                        "holds; write it to a path, so that its tensors get a file of their own");
        return result;
    }

    const std::string& external_bytes() const noexcept { return external_.bytes; }

private:
    static std::string opset(const std::string& domain, std::int64_t version) {
        std::string result;
        protozero::pbf_writer fields(result);
        fields.add_string(1, domain);
        fields.add_int64(2, version);
        return result;
    }

    static std::string entry(const std::string& key, const std::string& value) {
        std::string result;
        protozero::pbf_writer fields(result);
        fields.add_string(1, key);
        fields.add_string(2, value);
        return result;
    }

    std::string graph(const Graph& graph) {
        std::string result;
        protozero::pbf_writer fields(result);
        for (const Node& node : graph.nodes) fields.add_message(1, this->node(node));
        fields.add_string(2, graph.name);
        for (const FileTensor& tensor : graph.initializers) fields.add_message(5, this->tensor(tensor, true));
        for (const ValueInfo& input : graph.inputs) fields.add_message(11, value_info(input));
        for (const ValueInfo& output : graph.outputs) fields.add_message(12, value_info(output));
        return result;
    }

    std::string node(const Node& node) {
        std::string result;
        protozero::pbf_writer fields(result);
        for (const std::string& input : node.inputs) fields.add_string(1, input);
        for (const std::string& output : node.outputs) fields.add_string(2, output);
        if (!node.name.empty()) fields.add_string(3, node.name);
        fields.add_string(4, node.op_type);
        for (const Attribute& item : node.attributes) fields.add_message(5, attribute(item));
        if (!node.domain.empty()) fields.add_string(7, node.domain);
        return result;
    }

    /// The type's number is AttributeProto.AttributeType.
    std::string attribute(const Attribute& attribute) {
        std::string result;
        protozero::pbf_writer fields(result);
        fields.add_string(1, attribute.name);
        if (const auto* number = std::get_if<float>(&attribute.value)) {
            fields.add_float(2, *number);
            fields.add_enum(20, 1);
        } else if (const auto* integer = std::get_if<std::int64_t>(&attribute.value)) {
            fields.add_int64(3, *integer);
            fields.add_enum(20, 2);
        } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
            fields.add_bytes(4, *text);
            fields.add_enum(20, 3);
        } else if (const auto* value = std::get_if<FileTensor>(&attribute.value)) {
            fields.add_message(5, tensor(*value, false));
            fields.add_enum(20, 4);
        } else {
            write_list(fields, attribute);
        }
        return result;
    }

    static void write_list(protozero::pbf_writer& fields, const Attribute& attribute) {
        if (const auto* floats = std::get_if<std::vector<float>>(&attribute.value)) {
            for (const float value : *floats) fields.add_float(7, value);
            fields.add_enum(20, 6);
        } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute.value)) {
            for (const std::int64_t value : *integers) fields.add_int64(8, value);
            fields.add_enum(20, 7);
        } else if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute.value)) {
            for (const std::string& value : *texts) fields.add_bytes(9, value);
            fields.add_enum(20, 8);
        } else {
            throw Error("the attribute " + in_quotes(attribute.name) + " has no value that can be written");
        }
    }

    /// @param may_be_external  of an initializer
    std::string tensor(const FileTensor& tensor, bool may_be_external) {
        const std::string what = "the tensor " + in_quotes(tensor.name);
        std::string result;
        protozero::pbf_writer fields(result);
        std::uint64_t bytes = static_cast<std::uint64_t>(size_of(tensor.dtype));
        for (const index_t dim : tensor.dims) {
            fields.add_int64(1, dim);
            bytes *= static_cast<std::uint64_t>(dim);
        }
        fields.add_int32(2, element_code(what, tensor.dtype));
        if (bytes != tensor.data.size())
            throw Error(what + " has " + std::to_string(tensor.data.size()) + " bytes, its dims " +
                        describe_shape(tensor.dims) + " need " + std::to_string(bytes));
        if (!tensor.name.empty()) fields.add_string(8, tensor.name);
        std::string_view data(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
        std::string little_endian;  // of a machine that is not
        if constexpr (!is_little_endian) {
            const auto element = static_cast<index_t>(size_of(tensor.dtype));
            little_endian.resize(data.size());
            copy_little_endian(little_endian.data(), data.data(), static_cast<index_t>(data.size()) / element, element);
            data = little_endian;
        }
        if (may_be_external && external_.takes(tensor)) {
            write_external(fields, data);
        } else {
            fields.add_bytes(9, data.data(), data.size());
        }
        return result;
    }

    void write_external(protozero::pbf_writer& fields, std::string_view data) {
        const std::size_t past = external_.bytes.size() % ExternalFile::alignment;
        if (past != 0) external_.bytes.append(ExternalFile::alignment - past, '\0');
        fields.add_message(13, entry("location", external_.location));
        fields.add_message(13, entry("offset", std::to_string(external_.bytes.size())));
        fields.add_message(13, entry("length", std::to_string(data.size())));
        fields.add_enum(14, 1);
        external_.bytes.append(data);
    }

    static std::string value_info(const ValueInfo& info) {
        std::string shape;
        for (std::size_t i = 0; i < info.shape.size(); ++i) {
            std::string extent;
            protozero::pbf_writer fields(extent);
            if (info.shape[i] >= 0) {
                fields.add_int64(1, info.shape[i]);
            } else if (i < info.names.size() && !info.names[i].empty()) {
                fields.add_string(2, info.names[i]);
            }
            protozero::pbf_writer(shape).add_message(1, extent);
        }
        std::string tensor, type, result;
        protozero::pbf_writer(tensor).add_int32(1, element_code("the value " + in_quotes(info.name), info.dtype));
        if (info.has_shape) protozero::pbf_writer(tensor).add_message(2, shape);
        protozero::pbf_writer(type).add_message(1, tensor);
        protozero::pbf_writer fields(result);
        fields.add_string(1, info.name);
        fields.add_message(2, type);
        return result;
    }

    ExternalFile external_;
};

INTQ_INLINE std::uint64_t bytes_of_tensors(const Model& model) {
    std::uint64_t bytes = 0;
    for (const FileTensor& tensor : model.graph.initializers) bytes += tensor.data.size();
    return bytes;
}

}  // namespace detail

INTQ_INLINE std::vector<std::byte> serialize_model(const Model& model) {
    const std::string text = detail::ModelWriter().write(model);
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    return {bytes.begin(), bytes.end()};
}

INTQ_INLINE void write_model(const Model& model, const std::filesystem::path& path, const WriteOptions& options) {
    const bool is_external = detail::bytes_of_tensors(model) > options.external_above;
    const std::string location = is_external ? path.filename().string() + ".data" : std::string();
    std::string text, tensors;
    try {
        detail::ModelWriter writer(location);
        text = writer.write(model);
        tensors = writer.external_bytes();
    } catch (const Error& error) {
        throw Error(path.string(), error.what());
    }
    if (is_external) io::write_file(path.parent_path() / location, tensors);
    io::write_file(path, text);
}

#    else

INTQ_INLINE std::vector<std::byte> serialize_model(const Model&) {
    throw Error(
        "an ONNX model cannot be written: ONNX files need protozero, and this program was compiled with "
        "INTQ_WITH_PROTOZERO=0; install it (Debian: libprotozero-dev) and set it to 1");
}

INTQ_INLINE void write_model(const Model& model, const std::filesystem::path&, const WriteOptions&) {
    serialize_model(model);
}

#    endif  // INTQ_WITH_PROTOZERO

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_write)
#endif  // INTQ_INTEROP_ONNX_WRITE_WRITE_HPP
