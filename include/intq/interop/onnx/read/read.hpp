// SPDX-License-Identifier: MIT
//
// Reads an ONNX file into the plain structs of model.hpp. Layer: interop.
//
// The file is treated as hostile: messages are read to a fixed depth, sizes are checked before memory is allocated, and
// the number of items is bounded, so that the memory used stays within a small multiple of the file's size.
// Field numbers are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
#ifndef INTQ_INTEROP_ONNX_READ_READ_HPP
#define INTQ_INTEROP_ONNX_READ_READ_HPP

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// Reads a model. Tensors may have their data in files beside it (model.onnx.data), which must lie in the model's
/// folder or below it: a path that leads out of it, by "..", from the root or by a symbolic link, is refused.
///
/// @throws Error naming the file: not ONNX, damaged, an opset outside [oldest_opset, newest_opset], a tensor whose data
///         differs from its dims or whose dtype intq does not have, external data that detail::ExternalData refuses,
///         more items or longer names than read/limits.hpp allows; for any file where INTQ_WITH_PROTOZERO is 0
Model read_model(const std::filesystem::path& path);

/// The same from memory; a tensor with its data in another file is refused.
/// @param name  used for the path in messages
Model parse_model(std::span<const std::byte> file, std::string_view name);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_read)

#    include <cstdint>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/interop/onnx/internal/read/limits.hpp"
#    include "intq/interop/onnx/internal/read/read_tensor.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/file.hpp"
#    include "intq/io/protobuf.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

#    if INTQ_WITH_PROTOZERO

namespace detail {

class ModelReader {
public:
    explicit ModelReader(ExternalData external = ExternalData()) : external_(std::move(external)) {}

    Model read(ProtobufReader fields) {
        Model model;
        bool has_graph = false;
        while (fields.next()) switch (fields.number()) {
                case 1:
                    model.ir_version = fields.integer();
                    break;
                case 2:
                    model.producer_name = fields.text();
                    break;
                case 3:
                    model.producer_version = fields.text();
                    break;
                case 7:
                    if (std::exchange(has_graph, true)) throw Error("the model holds two graphs");
                    read_graph(fields.message("GraphProto"), model.graph);
                    break;
                case 8:
                    count_item(), read_opset(fields.message("OperatorSetIdProto"), model);
                    break;
                case 14:
                    count_item(), model.metadata.push_back(read_property(fields.message("StringStringEntryProto")));
                    break;
                case 25:
                    throw Error("the model defines functions of its own, which are not supported");
                default:
                    break;
            }
        if (!has_graph || model.ir_version <= 0) throw Error("not an ONNX model: it holds no graph or no ir_version");
        if (model.opset < oldest_opset || model.opset > newest_opset)
            throw Error((model.opset == 0 ? "the model does not say its opset"
                                          : "opset " + std::to_string(model.opset) + " is not supported") +
                        std::string("; expected ") + std::to_string(oldest_opset) + " to " +
                        std::to_string(newest_opset));
        return model;
    }

private:
    void count_item() {
        if (++items_ > max_items) throw Error("the model has more than " + std::to_string(max_items) + " items");
    }

    /// Calls read() and puts `where` before the message of an Error.
    template <class Read> static void within(const std::string& where, Read read) {
        try {
            read();
        } catch (const Error& error) {
            throw Error(where, error.what());
        }
    }

    static void read_opset(ProtobufReader fields, Model& model) {
        OpsetImport import;
        while (fields.next()) {
            if (fields.number() == 1) import.domain = read_name(fields);
            if (fields.number() == 2) import.version = fields.integer();
        }
        if (!import.domain.empty() && import.domain != "ai.onnx") {
            model.other_opsets.push_back(std::move(import));
            return;
        }
        if (model.opset != 0) throw Error("the model imports the default domain twice");
        model.opset = import.version;
    }

    static Property read_property(ProtobufReader fields) {
        Property property;
        while (fields.next()) {
            if (fields.number() == 1) property.key = read_name(fields);
            if (fields.number() == 2) property.value = fields.text();
        }
        return property;
    }

    void read_graph(ProtobufReader fields, Graph& graph) {
        while (fields.next()) switch (fields.number()) {
                case 1:
                    if (graph.nodes.size() == max_nodes)
                        throw Error("the graph has more than " + std::to_string(max_nodes) + " nodes");
                    within("node " + std::to_string(graph.nodes.size() + 1),
                           [&] { graph.nodes.push_back(read_node(fields.message("NodeProto"), graph.nodes.size())); });
                    break;
                case 2:
                    graph.name = fields.text();
                    break;
                case 5:
                    graph.initializers.push_back(read_tensor(fields.message("TensorProto")));
                    break;
                case 11:
                    graph.inputs.push_back(read_value_info(fields.message("ValueInfoProto")));
                    break;
                case 12:
                    graph.outputs.push_back(read_value_info(fields.message("ValueInfoProto")));
                    break;
                case 13:
                    read_shape_hint(fields.message("ValueInfoProto"), graph);
                    break;
                case 15:
                    throw Error("sparse initializers are not supported");
                default:
                    break;
            }
    }

    Node read_node(ProtobufReader fields, std::size_t position) {
        count_item();
        Node node;
        node.position = position;
        while (fields.next()) switch (fields.number()) {
                case 1:
                    count_item(), node.inputs.push_back(read_name(fields));
                    break;
                case 2:
                    count_item(), node.outputs.push_back(read_name(fields));
                    break;
                case 3:
                    node.name = read_name(fields);
                    break;
                case 4:
                    node.op_type = read_name(fields);
                    break;
                case 5:
                    node.attributes.push_back(read_attribute(fields.message("AttributeProto")));
                    break;
                case 7:
                    node.domain = read_name(fields);
                    break;
                default:
                    break;
            }
        return node;
    }

    Attribute read_attribute(ProtobufReader fields);
    FileTensor read_tensor(ProtobufReader fields);
    ValueInfo read_value_info(ProtobufReader fields);
    void read_shape_hint(ProtobufReader fields, Graph& graph);
    static index_t hinted_extent(ProtobufReader fields);
    void read_tensor_type(ProtobufReader fields, ValueInfo& info);

    ExternalData external_;
    std::size_t items_ = 0;
};

// A file without the attribute's type has one of the values only; the numbers are AttributeProto.AttributeType.
INTQ_INLINE Attribute ModelReader::read_attribute(ProtobufReader fields) {
    count_item();
    std::string name;
    std::int64_t type = 0;
    AttributeValue single;
    std::vector<float> floats;
    std::vector<std::int64_t> integers;
    std::vector<std::string> strings;
    while (fields.next()) switch (fields.number()) {
            case 1:
                name = read_name(fields);
                break;
            case 2:
                single = fields.float32();
                break;
            case 3:
                single = fields.integer();
                break;
            case 4:
                single = fields.text();
                break;
            case 5:
                within("attribute " + in_quotes(name), [&] { single = read_tensor(fields.message("TensorProto")); });
                break;
            case 7:
                fields.append_to(floats);
                break;
            case 8:
                fields.append_to(integers);
                break;
            case 9:
                count_item(), strings.push_back(fields.text());
                break;
            case 20:
                type = fields.integer();
                break;
            case 21:
                throw Error("attribute " + in_quotes(name) +
                            " refers to a function's attribute; functions are not supported");
            default:
                break;
        }
    const auto value_of = [&]() -> AttributeValue {
        if (type == 6 || (type == 0 && !floats.empty())) return std::move(floats);
        if (type == 7 || (type == 0 && !integers.empty())) return std::move(integers);
        if (type == 8 || (type == 0 && !strings.empty())) return std::move(strings);
        // A scalar of 0 or an empty string may be left out.
        if (type == 1 && single.index() == 0) return 0.0f;
        if (type == 2 && single.index() == 0) return std::int64_t{0};
        if (type == 3 && single.index() == 0) return std::string();
        if (type >= 1 && type <= 4 && single.index() != static_cast<std::size_t>(type))
            throw Error("attribute " + in_quotes(name) + " holds another kind of value than its type says");
        return std::move(single);
    };
    AttributeValue value = value_of();
    return {std::move(name), std::move(value)};
}

INTQ_INLINE FileTensor ModelReader::read_tensor(ProtobufReader fields) {
    count_item();
    RawTensor raw = read_raw_tensor(fields);
    FileTensor tensor;
    within("tensor " + in_quotes(raw.name), [&] { tensor = to_tensor_checked(raw, external_); });
    return tensor;
}

INTQ_INLINE ValueInfo ModelReader::read_value_info(ProtobufReader fields) {
    count_item();
    ValueInfo info;
    while (fields.next()) {
        if (fields.number() == 1) info.name = read_name(fields);
        if (fields.number() != 2) continue;
        for (ProtobufReader type = fields.message("TypeProto"); type.next();)
            if (type.number() == 1) read_tensor_type(type.message("TypeProto.Tensor"), info);
    }
    return info;
}

/// Of a value that a node makes. Nothing of it is refused, because nothing depends on it but what is looked for.
INTQ_INLINE void ModelReader::read_shape_hint(ProtobufReader fields, Graph& graph) {
    count_item();
    std::string name;
    std::vector<index_t> extents;
    bool has_shape = false;
    while (fields.next()) {
        if (fields.number() == 1) name = read_name(fields);
        if (fields.number() != 2) continue;
        for (ProtobufReader type = fields.message("TypeProto"); type.next();) {
            if (type.number() != 1) continue;
            for (ProtobufReader tensor = type.message("TypeProto.Tensor"); tensor.next();) {
                if (tensor.number() != 2) continue;
                has_shape = true;
                for (ProtobufReader shape = tensor.message("TensorShapeProto"); shape.next();)
                    if (shape.number() == 1 && extents.size() <= max_dims)
                        extents.push_back(hinted_extent(shape.message("Dimension")));
            }
        }
    }
    if (has_shape && extents.size() <= max_dims && !name.empty())
        graph.shapes.emplace(std::move(name), std::move(extents));
}

/// -1 for an extent without a value, and for one that no value has.
INTQ_INLINE index_t ModelReader::hinted_extent(ProtobufReader fields) {
    std::int64_t extent = -1;
    while (fields.next())
        if (fields.number() == 1) extent = fields.integer();
    return extent >= 0 && extent <= max_extent ? extent : -1;
}

INTQ_INLINE void ModelReader::read_tensor_type(ProtobufReader fields, ValueInfo& info) {
    while (fields.next()) {
        if (fields.number() == 1) {
            const ElementType& type = element_type(fields.integer());
            info.dtype = type.dtype;
            info.type = type.name;
        }
        if (fields.number() != 2) continue;
        info.has_shape = true;
        for (ProtobufReader shape = fields.message("TensorShapeProto"); shape.next();) {
            if (shape.number() != 1) continue;
            if (info.shape.size() == max_dims)
                throw Error("the shape of " + in_quotes(info.name) + " has more than 32 axes");
            index_t extent = -1;
            std::string name;
            for (ProtobufReader dim = shape.message("Dimension"); dim.next();) {
                if (dim.number() == 1) extent = dim.integer();
                if (dim.number() == 2) name = read_name(dim);
            }
            if (extent < -1) throw Error("the shape of " + in_quotes(info.name) + " has a negative extent");
            info.shape.push_back(extent);
            info.names.push_back(std::move(name));
        }
    }
}

}  // namespace detail

namespace detail {

INTQ_INLINE Model parse(std::span<const std::byte> file, std::string_view name, ExternalData external) {
    try {
        return ModelReader(std::move(external)).read(io::ProtobufReader(file, "ModelProto"));
    } catch (const protozero::end_of_buffer_exception&) {
        throw Error(name, "not an ONNX model, or cut off: a field reaches beyond the end of the file");
    } catch (const protozero::exception& error) {
        throw Error(name, std::string("not an ONNX model, or damaged (") + error.what() + ")");
    } catch (const Error& error) {
        throw Error(name, error.what());
    }
}

}  // namespace detail

#    else

namespace detail {

INTQ_INLINE Model parse(std::span<const std::byte>, std::string_view name, const ExternalData&) {
    throw Error(std::string(name),
                "cannot be read: ONNX files need protozero, and this program was compiled with "
                "INTQ_WITH_PROTOZERO=0; install it (Debian: libprotozero-dev) and set it to 1");
}

}  // namespace detail

#    endif  // INTQ_WITH_PROTOZERO

INTQ_INLINE Model parse_model(std::span<const std::byte> file, std::string_view name) {
    return detail::parse(file, name, detail::ExternalData());
}

INTQ_INLINE Model read_model(const std::filesystem::path& path) {
    return detail::parse(io::read_file(path), path.string(), detail::ExternalData(path.parent_path()));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_read)
#endif  // INTQ_INTEROP_ONNX_READ_READ_HPP
