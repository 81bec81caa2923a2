// SPDX-License-Identifier: MIT
//
// Types of operators for the FX numeric suite: which are the same in float and quantized models, which are not
// compared, and which take and return real values or codes. Layer: numeric_suite (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_FX_NODE_TYPES_HPP
#define INTQ_NUMERIC_SUITE_FX_NODE_TYPES_HPP

#include <map>
#include <optional>
#include <set>
#include <string>

#include "intq/graph/node.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/numeric_suite/loggers/results.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

/// The type of a node's operator: that of its module ("Conv2d", "qat.ConvReLU2d", "quantized.add"), the name of its
/// function or method ("add", "flatten"), or of a module's method ("FloatFunctional.add").
std::string target_type_of(const graph::Node& node, nn::Module& root);

/// Types that are one operator, by the operator's name.
using RelatedOps = Ordered<std::set<std::string>>;

/// A set for each operator of the library with its spellings and with its prepared, quantized, dynamic and fused
/// classes. As in PyTorch, a layer and the function that takes its weight as an argument are two operators.
RelatedOps get_base_name_to_sets_of_related_ops();

/// The operator of a type; none for a type in no set.
std::optional<std::string> get_base_name_for_op(const RelatedOps& sets, const std::string& op);

/// Adds a type to the set that has `related_op`; without one, to a new set.
///
/// @throws Error for a related type in no set, with the nearest types
void add_op_to_sets_of_related_ops(RelatedOps& sets, const std::string& op,
                                   const std::optional<std::string>& related_op);

/// Sets of types by the documents' names.
using NodeTypeMap = std::map<std::string, std::set<std::string>>;

/// "funs_unmatchable", "mods_unmatchable" and "meths_unmatchable": operators that are passed over when two models are
/// compared. Either only one model may have them (stubs, quantize and dequantize, Identity), or they only move values
/// (reshape, permute, getitem, …). A type counts whichever list it is on: one operator has one name here, however it is
/// spelled.
NodeTypeMap get_unmatchable_types_map();

/// "funs_io_type_fp32", "mods_io_type_int8", …: the inputs and outputs of operators. Those of …_fp32_or_int8 return
/// what they take. Operators on no list get no shadow.
NodeTypeMap get_node_type_to_io_type_map();

/// Real values or codes.
enum class IOType { unknown, fp32, int8 };

/// The type of a node's output, by the lists; for an operator of both, its first input's.
IOType output_type_of(const graph::Node& node, nn::Module& root, const NodeTypeMap& types);

namespace detail {

bool has_type(const NodeTypeMap& types, const std::string& kind, const std::string& type);
/// Whether a node calls a quantizer.
bool is_quantizer(const graph::Node& node, nn::Module& root);
bool is_logger(const graph::Node& node, nn::Module& root);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_fx)

#    include <string_view>
#    include <vector>

#    include "intq/graph/operator_rows.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"
#    include "intq/numeric_suite/fx/output_logger.hpp"
#    include "intq/numeric_suite/loggers/layer_types.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string target_type_of(const graph::Node& node, nn::Module& root) {
    const std::string type = graph::type_of(node, root);
    const bool is_method = node.op() == graph::Op::call_module && node.method() != "forward";
    return is_method ? type + "." + node.method() : type;
}

namespace detail {

INTQ_INLINE bool is_quantizer(const graph::Node& node, nn::Module& root) {
    return dynamic_cast<const quantization::Quantizer*>(graph::module_of(node, root)) != nullptr;
}

INTQ_INLINE bool is_logger(const graph::Node& node, nn::Module& root) {
    return dynamic_cast<const OutputLogger*>(graph::module_of(node, root)) != nullptr;
}

/// The types of layers with weights, of one kind: "" in float, "qat.", "quantized.", …
INTQ_INLINE std::set<std::string> weighted_types(const std::string& prefix) {
    std::set<std::string> types;
    for (const auto& family : numeric_suite::detail::weighted_families)
        for (const std::string& name : numeric_suite::detail::type_names(family)) types.insert(prefix + name);
    return types;
}

/// The types of batch norms, of one kind.
INTQ_INLINE std::set<std::string> norm_types(const std::string& prefix) {
    std::set<std::string> types;
    for (const int dimensions : {1, 2, 3})
        for (const std::string& name : numeric_suite::detail::batch_norm_names(dimensions)) types.insert(prefix + name);
    return types;
}

INTQ_INLINE bool has_type(const NodeTypeMap& types, const std::string& kind, const std::string& type) {
    for (const char* form : {"funs_", "mods_", "meths_"}) {
        const auto list = types.find(form + kind);
        if (list != types.end() && holds_type(list->second, type)) return true;
    }
    return false;
}

/// Adds the spellings of an operator to the lists "funs_<kind>", "mods_<kind>" and "meths_<kind>"; not the methods of
/// modules, which are operators only where they are called.
INTQ_INLINE void add_spellings(NodeTypeMap& types, const std::string& kind, const graph::OperatorRow& row) {
    const auto add = [&](const char* form, std::string_view words) {
        graph::for_each_word(words, [&](std::string_view word) {
            if (word.find('.') == std::string_view::npos) types[form + kind].emplace(word);
        });
    };
    add("funs_", row.functions);
    add("mods_", row.modules);
    add("meths_", row.methods);
}

INTQ_INLINE std::set<std::string> united(std::initializer_list<std::set<std::string>> sets) {
    std::set<std::string> result;
    for (const auto& set : sets) result.insert(set.begin(), set.end());
    return result;
}

}  // namespace detail

INTQ_INLINE RelatedOps get_base_name_to_sets_of_related_ops() {
    RelatedOps sets;
    for (const graph::OperatorSpelling& row : graph::operator_spellings) {
        const std::string key(row.key), method(row.method);
        sets[row.name == "add_relu" ? "add" : std::string(row.name)].insert(
            row.op == graph::Op::call_module && method != "forward" ? key + "." + method : key);
    }
    for (const auto& family : numeric_suite::detail::weighted_families)
        for (const std::string& name : numeric_suite::detail::type_names(family))
            for (const char* prefix : {"", "qat.", "quantized.", "dynamic.", "weight_only."})
                sets[family.name].insert(prefix + name);
    for (const int dimensions : {1, 2, 3})
        for (const std::string& name : numeric_suite::detail::batch_norm_names(dimensions))
            for (const char* prefix : {"", "qat.", "quantized."})
                sets["batch_norm" + std::to_string(dimensions) + "d"].insert(prefix + name);
    for (const char* type : {"quantized.add", "quantized.add_relu", "quantized.add_relu6"}) sets["add"].insert(type);
    for (const char* type : {"quantized.sub", "quantized.sub_relu", "quantized.sub_relu6"}) sets["sub"].insert(type);
    sets["mul"].insert("quantized.mul");
    for (const char* type : {"quantized.linear", "quantized.linear_relu"}) sets["functional_linear"].insert(type);
    sets["lstm"].insert("dynamic.LSTM");
    sets["embedding"].insert("weight_only.Embedding");
    return sets;
}

INTQ_INLINE std::optional<std::string> get_base_name_for_op(const RelatedOps& sets, const std::string& op) {
    for (const auto& [name, types] : sets)
        if (holds_type(types, op)) return name;
    return std::nullopt;
}

INTQ_INLINE void add_op_to_sets_of_related_ops(RelatedOps& sets, const std::string& op,
                                               const std::optional<std::string>& related_op) {
    if (!related_op) {
        sets[op].insert(op);
        return;
    }
    if (const auto name = get_base_name_for_op(sets, *related_op)) {
        sets[*name].insert(op);
        return;
    }
    std::vector<std::string> known;
    for (const auto& [name, types] : sets) known.insert(known.end(), types.begin(), types.end());
    throw Error("add_op_to_sets_of_related_ops: no set has the type \"" + *related_op + "\"; the nearest are " +
                nearest_names(*related_op, known));
}

INTQ_INLINE NodeTypeMap get_unmatchable_types_map() {
    NodeTypeMap types{{"funs_unmatchable", {"quantize_per_tensor", "dequantize"}},
                      {"mods_unmatchable", {"Quantize", "DeQuantize", "Requantize"}}};
    for (const graph::OperatorRow& row : graph::operator_rows)
        if (!row.is_compared) detail::add_spellings(types, "unmatchable", row);
    return types;
}

INTQ_INLINE NodeTypeMap get_node_type_to_io_type_map() {
    NodeTypeMap types;
    types["mods_io_type_fp32"] = detail::united({detail::weighted_types(""),
                                                 detail::weighted_types("qat."),
                                                 detail::weighted_types("weight_only."),
                                                 detail::weighted_types("dynamic."),
                                                 detail::norm_types(""),
                                                 detail::norm_types("qat."),
                                                 {"dynamic.LSTM"}});
    types["mods_io_type_int8"] = detail::united(
        {detail::weighted_types("quantized."), detail::norm_types("quantized."), {"quantize_per_tensor"}});
    types["funs_io_type_fp32"] = {"dequantize"};
    types["funs_io_type_int8"] = {"quantized.linear", "quantized.linear_relu"};
    for (const graph::OperatorRow& row : graph::operator_rows) {
        if (row.suite_values == graph::SuiteValues::real) detail::add_spellings(types, "io_type_fp32", row);
        if (row.suite_values == graph::SuiteValues::as_input) detail::add_spellings(types, "io_type_fp32_or_int8", row);
    }
    return types;
}

INTQ_INLINE IOType output_type_of(const graph::Node& node, nn::Module& root, const NodeTypeMap& types) {
    const auto of_first_input = [&] {
        const auto operands = node.operands();
        return operands.empty() ? IOType::unknown : output_type_of(*operands[0], root, types);
    };
    if (node.op() == graph::Op::placeholder || node.op() == graph::Op::get_attr) return IOType::fp32;
    if (detail::is_quantizer(node, root) || detail::is_logger(node, root)) return of_first_input();
    const std::string type = target_type_of(node, root);
    if (detail::has_type(types, "io_type_fp32", type)) return IOType::fp32;
    if (detail::has_type(types, "io_type_int8", type)) return IOType::int8;
    return detail::has_type(types, "io_type_fp32_or_int8", type) ? of_first_input() : IOType::unknown;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

#endif  // INTQ_DEFINES(numeric_suite_fx)
#endif  // INTQ_NUMERIC_SUITE_FX_NODE_TYPES_HPP
