// SPDX-License-Identifier: MIT
//
// compare_model_stub: a float module beside its quantized counterpart, on the same inputs. Layer: numeric_suite
// (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_EAGER_COMPARE_STUB_HPP
#define INTQ_NUMERIC_SUITE_EAGER_COMPARE_STUB_HPP

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "intq/nn/model/module.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/numeric_suite/eager/compare_outputs.hpp"
#include "intq/numeric_suite/eager/logger.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

/// A quantized module with its float module beside it. A call runs the first, then the second on the real values of the
/// same inputs, shows both results to the logger, and returns the first one's. The same holds for a call of a method,
/// such as add_relu of FloatFunctional.
class Shadow : public nn::Cloneable<Shadow> {
public:
    Shadow(nn::ModulePtr q_module, nn::ModulePtr float_module, std::shared_ptr<Logger> logger);

    INTQ_INLINE std::string type_name() const override;
    bool is_leaf() const override { return true; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    INTQ_INLINE nn::Value invoke(std::string_view method, nn::Arguments arguments) override;
};

/// Puts a Shadow in place of each quantized module whose float counterpart, the child of the same name, has a type of
/// the list, if the types in the two differ. A module of another type is walked through; one that the float model lacks
/// is left as it is. The quantized model is changed; it shares the float model's modules.
///
/// @throws Error for a type of the list that the float model lacks, with the nearest types; for a model that has
///         loggers already; where no module was replaced: the models do not correspond, or nothing in them is quantized
///
/// Source   torch.ao.ns._numeric_suite.prepare_model_with_stubs
void prepare_model_with_stubs(nn::Module& float_module, nn::Module& q_module, const ModuleTypes& module_swap_list,
                              const LoggerFactory& logger_cls = logger_factory<ShadowLogger>());

/// prepare_model_with_stubs(), a run of the quantized model on the data, and get_logger_dict(): lists "float" and
/// "quantized" by "<path>.stats".
///
/// @param data  the inputs of one run, in the order of the model's
LoggerDict compare_model_stub(nn::Module& float_model, nn::Module& q_model, const ModuleTypes& module_swap_list,
                              const std::vector<nn::Value>& data,
                              const LoggerFactory& logger_cls = logger_factory<ShadowLogger>());

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_eager)

#    include <algorithm>
#    include <array>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Shadow::Shadow(nn::ModulePtr q_module, nn::ModulePtr float_module, std::shared_ptr<Logger> logger) {
    add_child("orig_module", std::move(q_module));
    add_child("shadow_module", std::move(float_module));
    add_child("logger", std::move(logger));
}

INTQ_INLINE std::string Shadow::type_name() const { return "Shadow"; }

INTQ_INLINE nn::Value Shadow::forward(nn::Arguments arguments) { return invoke("forward", arguments); }

INTQ_INLINE nn::Value Shadow::invoke(std::string_view method, nn::Arguments arguments) {
    nn::Value output = child("orig_module")->dispatch(method, arguments.values());
    std::vector<nn::Value> real;
    for (const nn::Value& value : arguments.values()) real.push_back(dequantized(value));
    const nn::Value shadow = child("shadow_module")->dispatch(method, real);
    child("logger")->dispatch("forward", std::array{output, shadow});
    return output;
}

namespace detail {

/// The types of a module and of all below it.
INTQ_INLINE std::vector<std::string> types_in(nn::Module& module) {
    std::vector<std::string> types;
    for (const auto& part : module.named_modules()) types.push_back(part.value->type_name());
    return types;
}

INTQ_INLINE int swap_children(nn::Module& float_module, nn::Module& q_module, const ModuleTypes& types,
                              const LoggerFactory& logger_cls) {
    int swapped = 0;
    const auto children = q_module.children();
    for (const auto& child : children) {
        if (!float_module.has_child(child.name)) continue;
        const nn::ModulePtr& partner = float_module.child(child.name);
        if (types.count(partner->type_name()) == 0) {
            swapped += swap_children(*partner, *child.value, types, logger_cls);
        } else if (types_in(*partner) != types_in(*child.value)) {
            check_same_operator("prepare_model_with_stubs", child.name, *partner, child.name, *child.value);
            q_module.replace_child(child.name, std::make_shared<Shadow>(child.value, partner, made_logger(logger_cls)));
            ++swapped;
        }
    }
    return swapped;
}

}  // namespace detail

INTQ_INLINE void prepare_model_with_stubs(nn::Module& float_module, nn::Module& q_module,
                                          const ModuleTypes& module_swap_list, const LoggerFactory& logger_cls) {
    for (nn::Module* model : {&float_module, &q_module}) detail::check_no_loggers("prepare_model_with_stubs", *model);
    const std::vector<std::string> known = detail::types_in(float_module);
    for (const std::string& type : module_swap_list)
        if (std::find(known.begin(), known.end(), type) == known.end())
            throw Error("prepare_model_with_stubs: the float model has no module of the type \"" + type +
                        "\" of the list; the nearest are " + nearest_names(type, known));
    if (detail::swap_children(float_module, q_module, module_swap_list, logger_cls) == 0)
        throw Error(
            "prepare_model_with_stubs: no module of the list's types has a quantized counterpart of the same name, so "
            "either the models do not correspond or none of these modules is quantized");
}

INTQ_INLINE LoggerDict compare_model_stub(nn::Module& float_model, nn::Module& q_model,
                                          const ModuleTypes& module_swap_list, const std::vector<nn::Value>& data,
                                          const LoggerFactory& logger_cls) {
    prepare_model_with_stubs(float_model, q_model, module_swap_list, logger_cls);
    detail::run_model(q_model, data);
    return get_logger_dict(q_model);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

#endif  // INTQ_DEFINES(numeric_suite_eager)
#endif  // INTQ_NUMERIC_SUITE_EAGER_COMPARE_STUB_HPP
