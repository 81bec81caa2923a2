// SPDX-License-Identifier: MIT
//
// The hooks on calls of a module that was prepared without a graph. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_INTERNAL_PREPARED_CALL_HPP
#define INTQ_QUANTIZATION_PREPARE_INTERNAL_PREPARED_CALL_HPP

#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "intq/arith/target.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/nn/model/value.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The data for the hooks of a prepared module, as its attribute `prepared_place`. Clones share it.
struct PreparedPlace {
    std::string name;  // qualified
    arith::PolicyRecord target;
    bool computes_on_codes;
    std::mutex mutex{};
    std::set<std::string> checked{};  // calls

    PreparedPlace(std::string at, const arith::PolicyRecord& policy, bool on_codes)
        : name(std::move(at)), target(policy), computes_on_codes(on_codes) {}
    /// Whether a call differs from all before.
    bool is_new(const std::string& call);
};
inline constexpr const char* prepared_place = "prepared_place";

/// "pool (AvgPool2d)", "skip (FloatFunctional.add)".
std::string name_of_call(const std::string& name, const std::string& type, std::string_view method);

/// Throws for a call on codes that convert or a run would refuse, once for each kind of call: method, constants, types,
/// and shapes except the batch. Real values pass.
void check_prepared_call(nn::Module& module, const nn::ModuleCall& call);

/// Calls the quantizer of the method: input_grid for methods in the attribute methods_on_input_grid, otherwise
/// activation_post_process.
nn::Value call_quantizer(nn::Module& module, const nn::ModuleCall& call, const nn::Value& result);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <memory>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/prepare/internal/single_call.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE bool PreparedPlace::is_new(const std::string& call) {
    const std::scoped_lock lock(mutex);
    return checked.insert(call).second;
}

INTQ_INLINE std::string name_of_call(const std::string& name, const std::string& type, std::string_view method) {
    return name + " (" + type + (method == "forward" ? "" : "." + std::string(method)) + ")";
}

/// A text that distinguishes kinds of calls.
INTQ_INLINE std::string kind_of_call(const nn::ModuleCall& call, const std::vector<Tensor>& operands) {
    std::string kind(call.method);
    for (const Tensor& operand : operands) {
        Shape shape = operand.shape();
        if (shape.rank > 0) shape[0] = 1;
        kind += std::string(" ") + name_of(operand.qparams()->dtype) + to_string(shape);
        if (!operand.qparams()->zero_points.empty()) kind += " affine";
    }
    std::vector<std::string> constants;
    for (const nn::Value& value : call.arguments.values()) collect_constants(value, constants);
    for (const std::string& constant : constants) kind += " " + constant;
    return kind;
}

INTQ_INLINE void check_prepared_call(nn::Module& module, const nn::ModuleCall& call) {
    const auto* attribute = module.attribute<std::shared_ptr<PreparedPlace>>(prepared_place);
    if (attribute == nullptr) return;
    PreparedPlace& place = **attribute;
    std::vector<Tensor> operands;
    for (const nn::Value& value : call.arguments.values())
        for (const Tensor& operand : nn::tensors_of(value)) operands.push_back(operand);
    if (!carry_grids(operands)) return;
    const std::string where = name_of_call(place.name, module.type_name(), call.method);
    if (!place.computes_on_codes) {
        const bool is_converted = operands[0].dtype() != DType::float32;
        throw Error((is_converted ? "" : "prepare: ") + where,
                    "it stays in float, and codes reach it: put a DeQuantStub before it, and a QuantStub after it "
                    "where codes are needed again");
    }
    if (!place.is_new(kind_of_call(call, operands))) return;
    try {
        check_call(module, std::string(call.method), call.arguments, operands, place.target);
    } catch (const Error& refusal) {
        const std::scoped_lock lock(place.mutex);
        place.checked.clear();  // the next call is refused as well
        throw Error("prepare: " + where, refusal.what());
    }
}

INTQ_INLINE nn::Value call_quantizer(nn::Module& module, const nn::ModuleCall& call, const nn::Value& result) {
    const auto* methods = module.attribute<std::set<std::string>>("methods_on_input_grid");
    if (methods != nullptr && methods->count(std::string(call.method)) != 0)
        return module.call("input_grid", result, call.arguments[0]);
    return module.call("activation_post_process", result);
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_INTERNAL_PREPARED_CALL_HPP
