// SPDX-License-Identifier: MIT
//
// convert and quantize: from a prepared model to one whose modules compute on codes, without a graph. Layer:
// quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_EAGER_CONVERT_EAGER_HPP
#define INTQ_QUANTIZATION_EAGER_CONVERT_EAGER_HPP

#include <functional>
#include <map>
#include <string>

#include "intq/kernels/table/rows.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/eager/prepare_eager.hpp"
#include "intq/quantization/modules/custom_config.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

struct ConvertModulesOptions {
    /// The replacement of a prepared module, by its type ("qat.Conv2d", "QuantStub", a custom one): a module on codes
    /// if a quantizer is behind the prepared one; it receives the quantizer's qparams. Takes precedence over the
    /// library's own.
    std::map<std::string, FromObserved> mapping{};
    bool inplace = false;        // false converts a clone
    bool remove_qconfig = true;  // removes the qconfigs that modules carry
    ConvertCustomConfig custom{};
};

/// A model whose QuantStubs make codes, whose layers compute on codes, and whose DeQuantStubs make real values again.
///
/// Its forward is the user's own. On codes it may call the functions of the library that only move values: flatten,
/// reshape, permute, transpose, slice, chunk, and pad with 0. A call that a layer cannot compute is an Error that names
/// the layer, or the function. Its state_dict() holds neither weights nor scales of quantized modules. To store a
/// model, save the state_dict() of the prepared one. To restore it, prepare the same model in the same way, load the
/// state, and convert.
///
/// @param prepared  by prepare_calibration() or prepare_qat(), after it saw data
/// @param table     kernels of the target that it was prepared for
/// @throws Error naming the module whose quantizer saw no data; for kernels of another target
nn::ModulePtr convert(const nn::ModulePtr& prepared, const kernels::KernelTable& table,
                      const ConvertModulesOptions& options = {});

/// Prepare, run, convert in one call; the qconfigs come from the mapping and the modules.
///
/// @param run  shows data to the prepared model
/// @throws Error as these do; where neither has a qconfig, because nothing would be quantized
nn::ModulePtr quantize(const nn::ModulePtr& model, const std::function<void(nn::Module&)>& run,
                       const QConfigMapping& mapping, const kernels::KernelTable& table,
                       const PrepareModulesOptions& options = {});

/// The same with the data as a separate argument: eval_fn(prepared, data).
template <class EvalFunction, class Data>
nn::ModulePtr quantize(const nn::ModulePtr& model, const EvalFunction& eval_fn, const Data& data,
                       const QConfigMapping& mapping, const kernels::KernelTable& table,
                       const PrepareModulesOptions& options = {}) {
    return quantize(
        model, [&](nn::Module& prepared) { eval_fn(prepared, data); }, mapping, table, options);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_eager)

#    include <memory>
#    include <set>
#    include <string_view>
#    include <utility>

#    include "intq/arith/target.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/quantize.hpp"
#    include "intq/quantization/convert/quantized_module.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/custom_modules.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/quantization/modules/replace_modules.hpp"
#    include "intq/quantization/operators/internal/host_layer.hpp"
#    include "intq/quantization/operators/reference.hpp"
#    include "intq/quantization/prepare/internal/single_call.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE nn::ModulePtr quantize(const nn::ModulePtr& model, const std::function<void(nn::Module&)>& run,
                                   const QConfigMapping& mapping, const kernels::KernelTable& table,
                                   const PrepareModulesOptions& options) {
    if (!run) throw Error("quantize: run is empty; it must be a function that shows data to the model");
    const nn::ModulePtr prepared = prepare_calibration(model, mapping, table.policy(), options);
    run(*prepared);
    return convert(prepared, table, {.inplace = true});
}

namespace detail {

/// Codes to real values; real values pass.
class DequantizeCodes : public nn::Cloneable<DequantizeCodes, DeQuantize> {
public:
    explicit DequantizeCodes(std::string name) : name_(std::move(name)) {}
    nn::Value forward(nn::Arguments arguments) override {
        const Tensor& x = arguments.tensor(0);
        if (x.dtype() != DType::float32 && !x.qparams())
            throw Error(name_ + " (" + type_name() + ")",
                        std::string("it takes codes that carry their scale, given ") + name_of(x.dtype()) +
                            " without; what made them is a function of the model's forward that does more than move "
                            "codes");
        return x.dtype() == DType::float32 ? nn::Value(x) : DeQuantize::forward(arguments);
    }

private:
    std::string name_;
};

/// Applies a FromObserved to a module, with the quantizer behind it if there is one.
INTQ_INLINE nn::ModulePtr converted_by(const FromObserved& make, const std::string& name, const nn::ModulePtr& module,
                                       const arith::PolicyRecord& target) {
    const std::string where = "convert: " + name + " (" + module->type_name() + ")";
    const Quantizer* const quantizer = output_quantizer(*module);
    if (quantizer == nullptr) return quantized_custom(where, make, *module, OwnedQParams());
    if (!quantizer->has_qparams())
        throw Error("convert: " + name, std::string("no data was seen by its quantizer") + run_it_first);
    const OwnedQParams qparams = quantizer->qparams();
    return std::make_shared<QuantizedCustomModule>(quantized_custom(where, make, *module, qparams), qparams,
                                                   target.quantize);
}

/// A layer without integer form, between its codes.
INTQ_INLINE nn::ModulePtr on_host(const std::string& name, const nn::ModulePtr& module,
                                  const arith::PolicyRecord& target) {
    const FromObserved make = [](const nn::Module& prepared, const OwnedQParams&) -> nn::ModulePtr {
        return std::make_shared<LayerOnGrids>(prepared);
    };
    return converted_by(make, name, module, target);
}

INTQ_INLINE nn::ModulePtr converted(const std::string& name, const nn::ModulePtr& module,
                                    const arith::PolicyRecord& target, const kernels::KernelTable& table,
                                    const ConvertModulesOptions& options) {
    const std::string where = "convert: " + name + " (" + module->type_name() + ")";
    const ConvertCustomConfig& custom = options.custom;
    if (const auto mapped = options.mapping.find(module->type_name()); mapped != options.mapping.end())
        return converted_by(mapped->second, name, module, target);
    for (const QuantType mode : {QuantType::dynamic, QuantType::weight_only})
        if (const FromObserved* make = from_observed(custom, mode, module->type_name()))
            return quantized_custom(where, *make, *module, OwnedQParams());
    if (dynamic_cast<nn::DeQuantStub*>(module.get()) != nullptr) return std::make_shared<DequantizeCodes>(name);
    const Quantizer* const quantizer = output_quantizer(*module);
    if (dynamic_cast<nn::QuantStub*>(module.get()) != nullptr) {
        if (quantizer == nullptr) return module;
        if (!quantizer->has_qparams())
            throw Error("convert: " + name, std::string("no data was seen by its quantizer") + run_it_first);
        return std::make_shared<Quantize>(quantizer->qparams(), target.quantize);
    }
    if (is_observed_custom(*module) && quantizer != nullptr) {
        const FromObserved* make = from_observed(custom, QuantType::static_, module->type_name());
        if (make == nullptr)
            throw Error(where, "observed_to_quantized_custom_module_class has no static entry of this type");
        return converted_by(*make, name, module, target);
    }
    const QuantizedOperator& row = SingleCall(module, "forward").row();
    if (row.on_host && quantizer != nullptr) return on_host(name, module, target);
    const bool computes = row.make_step != nullptr && row.kind != OpKind::none &&
                          (row.role == Role::shares_input || row.role == Role::own_output) && row.operands == 1;
    const bool keeps_scale =
        computes && (row.role == Role::shares_input || (row.keeps_scale != nullptr && row.keeps_scale(target)));
    if (quantizer == nullptr && dynamic_cast<PreparedWeight*>(module.get()) == nullptr && !keeps_scale) return nullptr;
    return std::make_shared<QuantizedModule>(*module, target, table, name);
}

}  // namespace detail

INTQ_INLINE nn::ModulePtr convert(const nn::ModulePtr& prepared, const kernels::KernelTable& table,
                                  const ConvertModulesOptions& options) {
    const auto* target = nn::given_model(prepared, "convert")->attribute<arith::PolicyRecord>("prepared_target");
    if (target == nullptr)
        throw Error("convert: the model is not prepared; call prepare_calibration() or prepare_qat()");
    if (std::string_view(table.policy().name) != target->name)
        throw Error(std::string("convert: the model was prepared for the target ") + target->name +
                    ", the kernels are for " + table.policy().name);
    for (const std::string& name : options.custom.preserved_attributes) prepared->property(name);
    std::set<std::string> types;
    nn::for_each_module(*prepared,
                        [&](const std::string&, const nn::Module& module) { types.insert(module.type_name()); });
    for (const auto& [type, make] : options.mapping)
        if (types.count(type) == 0) detail::throw_unmatched_key("convert: mapping", type, {}, types);
    const arith::PolicyRecord policy = *target;
    const nn::ModulePtr result = replace_modules(options.inplace ? prepared : nn::clone(prepared),
                                                 [&](const std::string& name, const nn::ModulePtr& module) {
                                                     return detail::converted(name, module, policy, table, options);
                                                 });
    if (options.remove_qconfig) remove_qconfig(*result);
    result->eval();
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_eager)
#endif  // INTQ_QUANTIZATION_EAGER_CONVERT_EAGER_HPP
