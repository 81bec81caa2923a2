// SPDX-License-Identifier: MIT
//
// A TFLite model as plain structs: the file's contents, uninterpreted. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_READ_MODEL_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_READ_MODEL_HPP

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "intq/core/abi.hpp"
#include "intq/core/dtype.hpp"
#include "intq/interop/tflite/internal/read/fields.hpp"
#include "intq/io/flatbuffer.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

/// One tensor. A constant has as many bytes as type and dims say.
struct FileTensor {
    std::string_view name;
    DType dtype = DType::none;        // none: one that intq does not have
    std::int8_t type = 0;             // as the file numbers it
    std::vector<index_t> dims;        // NHWC, OHWI, …
    std::span<const std::byte> data;  // empty for a tensor that an operator writes
    io::FlatVector<float> scales;
    io::FlatVector<std::int64_t> zero_points;
    int axis = 0;                       // of the scales, where there are several
    const char* unsupported = nullptr;  // why no operator can take it
    /// Of codes and zero points from those of the file: where an import reads uint8 codes as int8 (signed_codes.hpp).
    std::int64_t offset = 0;
    std::shared_ptr<const std::vector<std::byte>> kept;  // data that is not the file's

    bool is_constant() const noexcept { return !data.empty(); }
    index_t size() const noexcept {
        index_t product = 1;
        for (const index_t extent : dims) product *= extent;
        return product;
    }
};

/// One operator. An index of -1 means an optional input that is left out.
struct FileOperator {
    std::int32_t code = 0;  // as the file numbers built-in operators
    std::int32_t version = 1;
    std::string_view custom;  // the name of a custom operator
    std::vector<std::int32_t> inputs, outputs;
    std::uint8_t options_type = 0;
    io::FlatTable options;
    std::size_t position = 0;
};

/// The first subgraph of a file, which is held as long as the model lives.
struct Model {
    std::shared_ptr<const std::vector<std::byte>> file;
    std::vector<FileTensor> tensors;
    std::vector<FileOperator> operators;
    std::vector<std::int32_t> inputs, outputs;
};

/// Reads a model. Damaged files, other versions of the format, several subgraphs, and more items than read/limits.hpp
/// allows are refused.
///
/// @throws Error naming the file, and the tensor or operator by its position
Model read_model(const std::filesystem::path& path);

/// The same from memory.
/// @param name  used for the path in messages
Model parse_model(std::span<const std::byte> file, std::string_view name);

/// How messages name a type: "int8", also one that intq does not have: "float16".
std::string describe_type(const FileTensor& tensor);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_read)

#    include <utility>

#    include "intq/interop/tflite/internal/read/names.hpp"
#    include "intq/interop/tflite/read/limits.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/file.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE DType dtype_of_element(std::int8_t type) {
    switch (static_cast<ElementType>(type)) {
        case ElementType::float32:
            return DType::float32;
        case ElementType::int32:
            return DType::int32;
        case ElementType::uint8:
            return DType::uint8;
        case ElementType::int64:
            return DType::int64;
        case ElementType::int16:
            return DType::int16;
        case ElementType::int8:
            return DType::int8;
        default:
            return DType::none;
    }
}

INTQ_INLINE void check_count(const char* what, std::size_t count, std::size_t most) {
    if (count > most)
        throw Error("the file has " + std::to_string(count) + " " + what + ", more than " + std::to_string(most));
}

class ModelReader {
public:
    explicit ModelReader(std::shared_ptr<const std::vector<std::byte>> file) { model_.file = std::move(file); }

    Model read() {
        const io::FlatTable root = io::flatbuffer_root(*model_.file, file_identifier);
        if (const auto version = root.number<std::uint32_t>(fields::Model::version, 0); version != format_version)
            throw Error("version " + std::to_string(version) + " of the format is not supported; expected 3");
        const io::FlatTables graphs = root.tables(fields::Model::subgraphs);
        if (graphs.size() != 1)
            throw Error("the model has " + std::to_string(graphs.size()) +
                        " subgraphs, expected 1: control flow is not supported");
        buffers_ = root.tables(fields::Model::buffers);
        codes_ = root.tables(fields::Model::operator_codes);
        check_count("buffers", buffers_.size(), max_buffers);
        const io::FlatTable graph = graphs[0];
        read_tensors(graph.tables(fields::SubGraph::tensors));
        read_operators(graph.tables(fields::SubGraph::operators));
        model_.inputs = indices(graph.numbers<std::int32_t>(fields::SubGraph::inputs), "inputs");
        model_.outputs = indices(graph.numbers<std::int32_t>(fields::SubGraph::outputs), "outputs");
        return std::move(model_);
    }

private:
    /// Calls read() and says which item it was.
    template <class Read> static void within(const char* item, std::size_t i, Read read) {
        try {
            read();
        } catch (const Error& error) {
            throw Error(std::string(item) + " " + std::to_string(i), error.what());
        }
    }

    std::vector<std::int32_t> indices(const io::FlatVector<std::int32_t>& from, const char* what) const {
        check_count(what, from.size(), max_operands);
        std::vector<std::int32_t> result;
        for (std::size_t i = 0; i < from.size(); ++i) {
            const std::int32_t index = from[i];
            if (index < -1 || index >= static_cast<std::int64_t>(model_.tensors.size()))
                throw Error("there is no tensor " + std::to_string(index) + " among " +
                            std::to_string(model_.tensors.size()));
            result.push_back(index);
        }
        return result;
    }

    void read_tensors(const io::FlatTables& tensors) {
        check_count("tensors", tensors.size(), max_tensors);
        for (std::size_t i = 0; i < tensors.size(); ++i)
            within("tensor", i, [&] { model_.tensors.push_back(read_tensor(tensors[i])); });
    }

    FileTensor read_tensor(const io::FlatTable& table) const {
        FileTensor tensor;
        tensor.name = table.text(fields::Tensor::name);
        check_count("bytes in a name", tensor.name.size(), max_name);
        tensor.type = table.number<std::int8_t>(fields::Tensor::type, 0);
        tensor.dtype = dtype_of_element(tensor.type);
        read_dims(table.numbers<std::int32_t>(fields::Tensor::shape), tensor.dims);
        read_quantization(table.table(fields::Tensor::quantization), tensor);
        if (table.flag(fields::Tensor::is_variable)) tensor.unsupported = "is a variable, which keeps a state";
        if (table.has(fields::Tensor::sparsity)) tensor.unsupported = "is sparse";
        if (table.number<std::uint32_t>(fields::Tensor::external_buffer, 0) != 0)
            tensor.unsupported = "has its data in another file";
        read_data(table.number<std::uint32_t>(fields::Tensor::buffer, 0), tensor);
        return tensor;
    }

    static void read_dims(const io::FlatVector<std::int32_t>& from, std::vector<index_t>& dims) {
        check_count("axes in a tensor", from.size(), max_dims);
        index_t most = max_extent;
        for (std::size_t i = 0; i < from.size(); ++i) {
            const index_t extent = from[i];
            if (extent < 0 || extent > max_extent)
                throw Error("an extent of " + std::to_string(extent) + " is not between 0 and 2^30");
            if (extent > 0 && (most /= extent) == 0) throw Error("it has more than 2^30 elements");
            dims.push_back(extent);
        }
    }

    static void read_quantization(const io::FlatTable& table, FileTensor& tensor) {
        tensor.scales = table.numbers<float>(fields::Quantization::scale);
        tensor.zero_points = table.numbers<std::int64_t>(fields::Quantization::zero_point);
        tensor.axis = table.number<std::int32_t>(fields::Quantization::dimension, 0);
        if (table.number<std::uint8_t>(fields::Quantization::details_type, 0) != 0)
            tensor.unsupported = "is quantized by other rules than scales and zero points";
    }

    void read_data(std::uint32_t index, FileTensor& tensor) const {
        if (index == 0 && buffers_.size() == 0) return;
        const io::FlatTable buffer = buffers_[index];
        tensor.data = buffer.bytes(fields::Buffer::data);
        // For files beyond 2 GiB, whose buffers lie behind the flatbuffer. Offset 1 means none.
        const auto offset = buffer.number<std::uint64_t>(fields::Buffer::offset, 0);
        if (offset > 1)
            tensor.data =
                io::FlatBytes(*model_.file).part(offset, buffer.number<std::uint64_t>(fields::Buffer::size, 0));
        if (tensor.data.empty() || tensor.dtype == DType::none) return;
        const auto expected =
            static_cast<std::uint64_t>(tensor.size()) * static_cast<std::uint64_t>(size_of(tensor.dtype));
        if (tensor.data.size() != expected)
            throw Error("its data has " + std::to_string(tensor.data.size()) + " bytes, expected " +
                        std::to_string(expected));
    }

    void read_operators(const io::FlatTables& operators) {
        check_count("operators", operators.size(), max_operators);
        for (std::size_t i = 0; i < operators.size(); ++i)
            within("operator", i, [&] { model_.operators.push_back(read_operator(operators[i], i)); });
    }

    FileOperator read_operator(const io::FlatTable& table, std::size_t position) const {
        FileOperator op;
        const io::FlatTable code = codes_[table.number<std::uint32_t>(fields::Operator::code, 0)];
        // Codes up to 126 are in the old field, which has 8 bits; newer files fill both.
        const auto old_code = code.number<std::int8_t>(fields::OperatorCode::old_code, 0);
        const auto new_code = code.number<std::int32_t>(fields::OperatorCode::code, 0);
        op.code = new_code > old_code ? new_code : old_code;
        op.version = code.number<std::int32_t>(fields::OperatorCode::version, 1);
        op.custom = code.text(fields::OperatorCode::custom);
        op.inputs = indices(table.numbers<std::int32_t>(fields::Operator::inputs), "inputs");
        op.outputs = indices(table.numbers<std::int32_t>(fields::Operator::outputs), "outputs");
        op.options_type = table.number<std::uint8_t>(fields::Operator::options_type, 0);
        if (op.options_type != 0) op.options = table.table(fields::Operator::options);
        op.position = position;
        return op;
    }

    Model model_;
    io::FlatTables buffers_, codes_;
};

INTQ_INLINE Model parse(std::vector<std::byte> file, std::string_view name) {
    try {
        return ModelReader(std::make_shared<const std::vector<std::byte>>(std::move(file))).read();
    } catch (const Error& error) {
        throw Error(std::string(name), std::string("not a TFLite model that can be read: ") + error.what());
    }
}

}  // namespace detail

INTQ_INLINE Model parse_model(std::span<const std::byte> file, std::string_view name) {
    return detail::parse({file.begin(), file.end()}, name);
}

INTQ_INLINE Model read_model(const std::filesystem::path& path) {
    return detail::parse(io::read_file(path), path.string());
}

INTQ_INLINE std::string describe_type(const FileTensor& tensor) {
    return tensor.dtype == DType::none || tensor.offset != 0 ? element_name(tensor.type)
                                                             : std::string(name_of(tensor.dtype));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_read)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_READ_MODEL_HPP
