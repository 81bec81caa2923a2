// SPDX-License-Identifier: MIT
//
// Writes small ONNX files in memory, also wrong ones that no exporter would write. Field numbers are those of
// onnx.proto.
#ifndef INTQ_TESTS_INTEROP_ONNX_BUILDER_HPP
#define INTQ_TESTS_INTEROP_ONNX_BUILDER_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <protozero/pbf_writer.hpp>

namespace intq::test {

/// One message; fields are appended.
class Message {
public:
    Message& integer(std::uint32_t field, std::int64_t value) {
        protozero::pbf_writer(data_).add_int64(field, value);
        return *this;
    }
    Message& number(std::uint32_t field, float value) {
        protozero::pbf_writer(data_).add_float(field, value);
        return *this;
    }
    Message& text(std::uint32_t field, const std::string& value) {
        protozero::pbf_writer(data_).add_string(field, value);
        return *this;
    }
    Message& message(std::uint32_t field, const Message& value) { return text(field, value.data_); }
    Message& integers(std::uint32_t field, const std::vector<std::int64_t>& values) {
        protozero::pbf_writer(data_).add_packed_int64(field, values.begin(), values.end());
        return *this;
    }
    Message& floats(std::uint32_t field, const std::vector<float>& values) {
        protozero::pbf_writer(data_).add_packed_float(field, values.begin(), values.end());
        return *this;
    }

    const std::string& data() const { return data_; }
    std::vector<std::byte> bytes() const {
        const auto view = std::as_bytes(std::span(data_.data(), data_.size()));
        return {view.begin(), view.end()};
    }

private:
    std::string data_;
};

enum ElementCode : int {
    float32 = 1,
    uint8 = 2,
    int8 = 3,
    int16 = 5,
    int32 = 6,
    int64 = 7,
    boolean = 9,
    float16 = 10,
    float64 = 11
};

inline Message tensor(const std::string& name, std::vector<std::int64_t> dims, const std::vector<float>& values) {
    return Message().integers(1, dims).integer(2, float32).floats(4, values).text(8, name);
}
inline Message int64_tensor(const std::string& name, const std::vector<std::int64_t>& dims,
                            const std::vector<std::int64_t>& values) {
    return Message().integers(1, dims).integer(2, int64).integers(7, values).text(8, name);
}
inline Message int64_tensor(const std::string& name, const std::vector<std::int64_t>& values) {
    return int64_tensor(name, {static_cast<std::int64_t>(values.size())}, values);
}
/// int8 codes.
inline Message codes_tensor(const std::string& name, const std::vector<std::int64_t>& dims,
                            const std::vector<std::int64_t>& codes) {
    return Message().integers(1, dims).integer(2, int8).integers(5, codes).text(8, name);
}
/// A tensor of zeros, or of one value.
inline Message filled(const std::string& name, std::vector<std::int64_t> dims, float value = 0.0f) {
    std::int64_t size = 1;
    for (const std::int64_t dim : dims) size *= dim;
    return tensor(name, dims, std::vector<float>(static_cast<std::size_t>(size), value));
}

inline Message attribute(const std::string& name, std::int64_t value) {
    return Message().text(1, name).integer(3, value).integer(20, 2);
}
inline Message attribute(const std::string& name, int value) { return attribute(name, std::int64_t{value}); }
inline Message attribute(const std::string& name, float value) {
    return Message().text(1, name).number(2, value).integer(20, 1);
}
inline Message attribute(const std::string& name, const std::string& value) {
    return Message().text(1, name).text(4, value).integer(20, 3);
}
inline Message attribute(const std::string& name, const std::vector<std::int64_t>& values) {
    return Message().text(1, name).integers(8, values).integer(20, 7);
}
inline Message tensor_attribute(const std::string& name, const Message& value) {
    return Message().text(1, name).message(5, value).integer(20, 4);
}

inline Message node(const std::string& op_type, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const std::vector<Message>& attributes = {},
                    const std::string& name = "") {
    Message result;
    for (const std::string& input : inputs) result.text(1, input);
    for (const std::string& output : outputs) result.text(2, output);
    if (!name.empty()) result.text(3, name);
    result.text(4, op_type);
    for (const Message& attribute : attributes) result.message(5, attribute);
    return result;
}

/// An extent of -1 is written as a name.
inline Message value_info(const std::string& name, const std::vector<std::int64_t>& shape, int type = float32) {
    Message dims;
    for (const std::int64_t extent : shape)
        dims.message(1, extent < 0 ? Message().text(2, "N") : Message().integer(1, extent));
    return Message().text(1, name).message(2, Message().message(1, Message().integer(1, type).message(2, dims)));
}
/// Without a shape.
inline Message value_info(const std::string& name) {
    return Message().text(1, name).message(2, Message().message(1, Message().integer(1, float32)));
}

struct ModelParts {
    std::vector<Message> nodes{}, initializers{};
    std::vector<Message> inputs{value_info("x", {-1, 4, 6, 6})};
    std::vector<Message> outputs{value_info("y")};
    std::int64_t opset = 17;
    std::vector<Message> values{};  // what the file says of values between nodes
};

inline Message graph(const ModelParts& parts) {
    Message result;
    for (const Message& item : parts.nodes) result.message(1, item);
    for (const Message& item : parts.initializers) result.message(5, item);
    for (const Message& item : parts.inputs) result.message(11, item);
    for (const Message& item : parts.outputs) result.message(12, item);
    for (const Message& item : parts.values) result.message(13, item);
    return result;
}

inline Message model(const Message& graph, std::int64_t opset) {
    return Message().integer(1, 8).message(7, graph).message(8, Message().integer(2, opset));
}
inline Message model(const ModelParts& parts) { return model(graph(parts), parts.opset); }

}  // namespace intq::test

#endif  // INTQ_TESTS_INTEROP_ONNX_BUILDER_HPP
