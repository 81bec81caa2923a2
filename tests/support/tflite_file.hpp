// SPDX-License-Identifier: MIT
//
// TFLite files written by a test: a FlatBuffer of tables, and a chain of int8 layers as TFLite's converter writes it.
#ifndef INTQ_TESTS_SUPPORT_TFLITE_FILE_HPP
#define INTQ_TESTS_SUPPORT_TFLITE_FILE_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "intq/core/config.hpp"
#include "intq/interop/tflite/internal/read/fields.hpp"

namespace intq::test {

/// A table, vector or string of a FlatBuffer, and what it refers to.
struct FlatNode {
    enum class Kind { table, references, numbers } kind = Kind::table;
    std::map<int, std::vector<std::byte>> scalars{};  // of a table, by field
    std::map<int, FlatNode> children{};               // of a table, by field
    std::vector<FlatNode> list{};                     // references
    std::vector<std::byte> bytes{};                   // numbers
    std::size_t size = 1;                             // of a number
    bool is_text = false;                             // with a zero byte behind, which is not counted

    template <class T> FlatNode& set(int field, T value) {
        std::vector<std::byte>& to = scalars[field];
        to.resize(sizeof value);
        std::memcpy(to.data(), &value, sizeof value);
        return *this;
    }
    FlatNode& set(int field, FlatNode child) {
        children[field] = std::move(child);
        return *this;
    }
};

template <class T> FlatNode flat_numbers(const std::vector<T>& values) {
    FlatNode node{FlatNode::Kind::numbers};
    node.size = sizeof(T);
    node.bytes.resize(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(node.bytes.data(), values.data(), node.bytes.size());
    return node;
}
inline FlatNode flat_text(const std::string& text) {
    FlatNode node = flat_numbers(std::vector<char>(text.begin(), text.end()));
    node.is_text = true;
    return node;
}
inline FlatNode flat_list(std::vector<FlatNode> list) {
    FlatNode node{FlatNode::Kind::references};
    node.list = std::move(list);
    return node;
}

/// Writes a FlatBuffer: each table behind its list of fields, and what it refers to behind it.
class FlatWriter {
public:
    static std::vector<std::byte> file(const FlatNode& root, const char (&identifier)[5]) {
        FlatWriter writer;
        writer.put<std::uint32_t>(0);
        for (int i = 0; i < 4; ++i) writer.bytes_.push_back(static_cast<std::byte>(identifier[i]));
        writer.refer(0, root);
        return writer.bytes_;
    }

private:
    template <class T> void put(T value) {
        bytes_.resize(bytes_.size() + sizeof value);
        std::memcpy(bytes_.data() + bytes_.size() - sizeof value, &value, sizeof value);
    }
    void align(std::size_t to, std::size_t behind = 0) {
        while ((bytes_.size() + behind) % to != 0) bytes_.push_back(std::byte{0});
    }
    void refer(std::size_t from, const FlatNode& node) {
        const std::size_t to = node.kind == FlatNode::Kind::table ? table(node) : vector(node);
        const auto offset = static_cast<std::uint32_t>(to - from);
        std::memcpy(bytes_.data() + from, &offset, sizeof offset);
    }
    std::size_t vector(const FlatNode& node) {
        const bool is_list = node.kind == FlatNode::Kind::references;
        align(node.size > 4 ? node.size : 4, 4);
        const std::size_t at = bytes_.size(), count = is_list ? node.list.size() : node.bytes.size() / node.size;
        put(static_cast<std::uint32_t>(count));
        if (!is_list) {
            bytes_.insert(bytes_.end(), node.bytes.begin(), node.bytes.end());
            if (node.is_text) bytes_.push_back(std::byte{0});
            return at;
        }
        bytes_.resize(bytes_.size() + 4 * count);
        for (std::size_t i = 0; i < count; ++i) refer(at + 4 + 4 * i, node.list[i]);
        return at;
    }
    std::size_t table(const FlatNode& node) {
        int fields = 0;
        for (const auto& [field, value] : node.scalars) fields = field >= fields ? field + 1 : fields;
        for (const auto& [field, child] : node.children) fields = field >= fields ? field + 1 : fields;
        std::map<int, std::uint16_t> places;  // each field takes four bytes
        std::uint16_t next = 4;
        for (int field = 0; field < fields; ++field)
            if (node.scalars.count(field) + node.children.count(field) > 0) {
                places[field] = next;
                next = static_cast<std::uint16_t>(next + 4);
            }
        align(4);
        const std::size_t list = bytes_.size();
        put(static_cast<std::uint16_t>(4 + 2 * fields));
        put(next);
        for (int field = 0; field < fields; ++field) put(places.count(field) > 0 ? places[field] : std::uint16_t{0});
        align(4);
        const std::size_t at = bytes_.size();
        put(static_cast<std::int32_t>(at - list));
        bytes_.resize(at + next);
        for (const auto& [field, value] : node.scalars)
            std::memcpy(bytes_.data() + at + places[field], value.data(), value.size());
        for (const auto& [field, child] : node.children) refer(at + places[field], child);
        return at;
    }

    std::vector<std::byte> bytes_;
};

/// A chain of int8 layers with activations of scale 6 / 255 and zero point -128, as behind a relu6.
class TfliteChain {
public:
    explicit TfliteChain(std::vector<std::int32_t> image) : dims_(std::move(image)) {
        buffers_.push_back({});
        add_tensor("x", dims_, ElementType::int8, {}, {scale}, {-128}, 0);
    }

    /// A convolution with padding as TFLite's SAME.
    ///
    /// @param weight  (O, K, K, I), or (1, K, K, C) of a depthwise layer
    void conv(const std::string& name, std::int32_t outputs, std::int32_t kernel, std::int32_t stride,
              bool is_depthwise, const std::vector<std::int8_t>& weight, const std::vector<std::int32_t>& bias,
              float weight_scale) {
        namespace f = interop::tflite::fields;
        const std::int32_t inputs = dims_[3];
        const std::vector<std::int32_t> shape =
            is_depthwise ? std::vector{1, kernel, kernel, outputs} : std::vector{outputs, kernel, kernel, inputs};
        FlatNode options;
        if (is_depthwise) {
            using D = f::DepthwiseConv2D;
            options.set(D::padding, std::int8_t{0}).set(D::stride_w, stride).set(D::stride_h, stride);
            options.set(3, std::int32_t{1}).set(D::activation, std::int8_t{3});
        } else {
            using C = f::Conv2D;
            options.set(C::padding, std::int8_t{0}).set(C::stride_w, stride).set(C::stride_h, stride);
            options.set(C::activation, std::int8_t{3});
        }
        const auto out = [&](std::int32_t extent) { return (extent + stride - 1) / stride; };
        layer(name, is_depthwise ? 4 : 3, is_depthwise ? 2 : 1, options, {1, out(dims_[1]), out(dims_[2]), outputs},
              shape, is_depthwise ? 3 : 0, weight, bias, weight_scale);
    }
    /// The average of each plane.
    void average(const std::string& name) {
        using P = interop::tflite::fields::Pool2D;
        FlatNode options;
        options.set(P::padding, std::int8_t{1}).set(P::stride_w, std::int32_t{1}).set(P::stride_h, std::int32_t{1});
        options.set(P::width, dims_[2]).set(P::height, dims_[1]);
        const std::int32_t x = last_;
        dims_ = {1, 1, 1, dims_[3]};
        last_ = add_tensor(name, dims_, ElementType::int8, {}, {scale}, {-128}, 0);
        add_operator(1, P::type, options, {x}, {last_});
    }

    std::vector<std::byte> file() const {
        namespace f = interop::tflite::fields;
        std::vector<FlatNode> codes, buffers;
        for (const std::int8_t code : codes_) {
            FlatNode node;
            codes.push_back(node.set(f::OperatorCode::old_code, code)
                                .set(f::OperatorCode::version, std::int32_t{3})
                                .set(f::OperatorCode::code, std::int32_t{code}));
        }
        for (const std::vector<std::uint8_t>& data : buffers_) {
            FlatNode node;
            if (!data.empty()) node.set(f::Buffer::data, flat_numbers(data));
            buffers.push_back(node);
        }
        FlatNode graph, model;
        graph.set(f::SubGraph::tensors, flat_list(tensors_)).set(f::SubGraph::operators, flat_list(operators_));
        graph.set(f::SubGraph::inputs, flat_numbers(std::vector<std::int32_t>{0}));
        graph.set(f::SubGraph::outputs, flat_numbers(std::vector<std::int32_t>{last_}));
        model.set(f::Model::version, std::uint32_t{3}).set(f::Model::operator_codes, flat_list(codes));
        model.set(f::Model::subgraphs, flat_list({graph})).set(f::Model::buffers, flat_list(buffers));
        return FlatWriter::file(model, "TFL3");
    }

    static constexpr float scale = 6.0f / 255.0f;

private:
    using ElementType = interop::tflite::ElementType;

    void layer(const std::string& name, std::int8_t code, int options_type, const FlatNode& options,
               std::vector<std::int32_t> out, const std::vector<std::int32_t>& shape, std::int32_t axis,
               const std::vector<std::int8_t>& weight, const std::vector<std::int32_t>& bias, float weight_scale) {
        const std::int32_t x = last_;
        const auto bytes = [](const auto& values) {
            std::vector<std::uint8_t> result(values.size() * sizeof values[0]);
            std::memcpy(result.data(), values.data(), result.size());
            return result;
        };
        const std::vector<float> scales(bias.size(), weight_scale), sums(bias.size(), weight_scale * scale);
        const std::vector<std::int64_t> zeros(bias.size(), 0);
        const std::int32_t w =
            add_tensor(name + "/weight", shape, ElementType::int8, bytes(weight), scales, zeros, axis);
        const std::int32_t b = add_tensor(name + "/bias", {static_cast<std::int32_t>(bias.size())}, ElementType::int32,
                                          bytes(bias), sums, zeros, 0);
        dims_ = std::move(out);
        last_ = add_tensor(name, dims_, ElementType::int8, {}, {scale}, {-128}, 0);
        add_operator(code, options_type, options, {x, w, b}, {last_});
    }
    std::int32_t add_tensor(const std::string& name, const std::vector<std::int32_t>& shape, ElementType type,
                            const std::vector<std::uint8_t>& data, const std::vector<float>& scales,
                            const std::vector<std::int64_t>& zero_points, std::int32_t axis) {
        namespace f = interop::tflite::fields;
        FlatNode grid, tensor;
        grid.set(f::Quantization::scale, flat_numbers(scales));
        grid.set(f::Quantization::zero_point, flat_numbers(zero_points)).set(f::Quantization::dimension, axis);
        std::uint32_t buffer = 0;
        if (!data.empty()) {
            buffer = static_cast<std::uint32_t>(buffers_.size());
            buffers_.push_back(data);
        }
        tensor.set(f::Tensor::shape, flat_numbers(shape)).set(f::Tensor::type, static_cast<std::int8_t>(type));
        tensor.set(f::Tensor::buffer, buffer).set(f::Tensor::name, flat_text(name));
        tensors_.push_back(tensor.set(f::Tensor::quantization, grid));
        return static_cast<std::int32_t>(tensors_.size() - 1);
    }
    void add_operator(std::int8_t code, int options_type, const FlatNode& options, std::vector<std::int32_t> inputs,
                      std::vector<std::int32_t> outputs) {
        using O = interop::tflite::fields::Operator;
        std::size_t at = 0;
        while (at < codes_.size() && codes_[at] != code) ++at;
        if (at == codes_.size()) codes_.push_back(code);
        FlatNode node;
        node.set(O::code, static_cast<std::uint32_t>(at)).set(O::inputs, flat_numbers(inputs));
        node.set(O::outputs, flat_numbers(outputs)).set(O::options_type, static_cast<std::uint8_t>(options_type));
        operators_.push_back(node.set(O::options, options));
    }

    std::vector<std::int32_t> dims_;
    std::int32_t last_ = 0;
    std::vector<std::int8_t> codes_;
    std::vector<std::vector<std::uint8_t>> buffers_;
    std::vector<FlatNode> tensors_, operators_;
};

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_TFLITE_FILE_HPP
