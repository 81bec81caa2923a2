// SPDX-License-Identifier: MIT
//
// An ONNX model as plain structs: the file's contents, uninterpreted. Layer: interop.
// The format: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#ifndef INTQ_INTEROP_ONNX_READ_MODEL_HPP
#define INTQ_INTEROP_ONNX_READ_MODEL_HPP

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "intq/core/abi.hpp"
#include "intq/core/dtype.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// The opsets of the default domain that are read.
inline constexpr std::int64_t oldest_opset = 11;
inline constexpr std::int64_t newest_opset = 28;

/// A tensor of the file, row-major. Its data is as long as dtype and dims say. Booleans are uint8, 0 or 1.
struct FileTensor {
    std::string name;
    DType dtype = DType::none;
    std::vector<index_t> dims;
    std::vector<std::byte> data;

    index_t size() const noexcept {
        return dtype == DType::none ? 0 : static_cast<index_t>(data.size()) / size_of(dtype);
    }

    /// The elements.
    /// @throws Error naming the tensor for another dtype
    template <class T> std::span<const T> as() const {
        check_dtype(dtype_of<T>);
        return {reinterpret_cast<const T*>(data.data()), static_cast<std::size_t>(size())};
    }
    void check_dtype(DType expected) const;
};

/// The value of an attribute; monostate for kinds that no operator here takes (graphs, types, sparse tensors).
using AttributeValue = std::variant<std::monostate, float, std::int64_t, std::string, FileTensor, std::vector<float>,
                                    std::vector<std::int64_t>, std::vector<std::string>>;

struct Attribute {
    std::string name;
    AttributeValue value;
};

/// One operator. An empty name in inputs or outputs means that an optional one is left out.
struct Node {
    std::string op_type, name, domain;
    std::vector<std::string> inputs, outputs;
    std::vector<Attribute> attributes;
    std::size_t position = 0;  // in the graph, from 0
};

/// An input or output of the graph. An extent of -1 is only known at run time.
struct ValueInfo {
    std::string name;
    DType dtype = DType::none;  // none: missing, or one that intq does not have
    std::string type{};         // the dtype as the file names it, also where intq does not have it
    bool has_shape = false;
    std::vector<index_t> shape;
    std::vector<std::string> names;  // of its extents; "" for one without a name
};

struct Graph {
    std::string name;
    std::vector<Node> nodes;
    std::vector<FileTensor> initializers;
    std::vector<ValueInfo> inputs, outputs;
    /// Of values between nodes, where the file says them; a hint. An extent of -1 is only known at run time.
    std::map<std::string, std::vector<index_t>> shapes{};
};

/// A domain other than the default one, and its version.
struct OpsetImport {
    std::string domain;
    std::int64_t version = 0;
    friend bool operator==(const OpsetImport&, const OpsetImport&) = default;
};

/// A pair of the model's metadata_props.
struct Property {
    std::string key, value;
    friend bool operator==(const Property&, const Property&) = default;
};

struct Model {
    std::int64_t ir_version = 0;
    std::string producer_name, producer_version;
    std::int64_t opset = 0;  // of the default domain
    std::vector<OpsetImport> other_opsets{};
    std::vector<Property> metadata{};
    Graph graph;
};

/// The domain of ONNX Runtime's own operators.
inline constexpr const char* microsoft_domain = "com.microsoft";

/// How messages name a node: `node 7 of 23 (Conv "/stem/conv")`.
std::string describe_node(const Node& node, std::size_t count);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_read)

#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void FileTensor::check_dtype(DType expected) const {
    if (dtype != expected)
        throw Error("tensor " + in_quotes(name) + " has dtype " + name_of(dtype) + ", expected " + name_of(expected));
}

INTQ_INLINE std::string describe_node(const Node& node, std::size_t count) {
    return "node " + std::to_string(node.position + 1) + " of " + std::to_string(count) + " (" + node.op_type +
           (node.name.empty() ? "" : " " + in_quotes(node.name)) + ")";
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_read)
#endif  // INTQ_INTEROP_ONNX_READ_MODEL_HPP
