// SPDX-License-Identifier: MIT
//
// prepare_calibration and prepare_qat for the default target, which set_march() names; convert follows the prepared
// model. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_EAGER_PREPARE_DEFAULT_TARGET_HPP
#define INTQ_QUANTIZATION_EAGER_PREPARE_DEFAULT_TARGET_HPP

#include "intq/arith/default_target.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/eager/prepare_eager.hpp"
#include "intq/quantization/prepare/set_march.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

template <class Target = target::default_target>
nn::ModulePtr prepare_calibration(const nn::ModulePtr& model, const QConfigMapping& mapping,
                                  const PrepareModulesOptions& options = {}) {
    return prepare_calibration(model, mapping, default_target<Target>(), options);
}
template <class Target = target::default_target>
nn::ModulePtr prepare_calibration(const nn::ModulePtr& model, const PrepareModulesOptions& options = {}) {
    return prepare_calibration(model, default_target<Target>(), options);
}

template <class Target = target::default_target>
nn::ModulePtr prepare_qat(const nn::ModulePtr& model, const QConfigMapping& mapping,
                          const PrepareModulesOptions& options = {}) {
    return prepare_qat(model, mapping, default_target<Target>(), options);
}
template <class Target = target::default_target>
nn::ModulePtr prepare_qat(const nn::ModulePtr& model, const PrepareModulesOptions& options = {}) {
    return prepare_qat(model, default_target<Target>(), options);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_QUANTIZATION_EAGER_PREPARE_DEFAULT_TARGET_HPP
