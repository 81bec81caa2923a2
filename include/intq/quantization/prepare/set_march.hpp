// SPDX-License-Identifier: MIT
//
// set_march: the default target, and prepare_fx for it. Layer: quantization (docs/workflow.md section 3).
#ifndef INTQ_QUANTIZATION_PREPARE_SET_MARCH_HPP
#define INTQ_QUANTIZATION_PREPARE_SET_MARCH_HPP

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "intq/arith/default_target.hpp"
#include "intq/arith/target.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The marches of arith/march.hpp as values.
enum class March : std::uint8_t { bernoulli2, bayes, meta };

namespace detail {

/// The number of the march plus 1; 0: none is set.
std::atomic<int>& current_march();

/// The policy of the march that is set; null if none is.
const arith::PolicyRecord* march_policy();

[[noreturn]] void throw_no_target();

}  // namespace detail

/// Names the default target of this process. A target passed to a function takes precedence.
void set_march(March march);

/// The same by name; throws the Error with the nearest names for an unknown name.
void set_march(const std::string& name);

/// Throws if none is set.
March get_march();

/// The policy of the march that set_march() named; if none is set, of the macro INTQ_DEFAULT_TARGET. Throws if there is
/// neither.
template <class Target = target::default_target> const arith::PolicyRecord& default_target() {
    if (const arith::PolicyRecord* march = detail::march_policy()) return *march;
    if constexpr (std::is_same_v<Target, target::none>) {
        detail::throw_no_target();
    } else {
        return Target::policy;
    }
}

// --- prepare_fx for the default target; convert follows the prepared model ----------------------------------------------

template <class Target = target::default_target>
std::shared_ptr<PreparedModel> prepare_calibration_fx(const nn::Module& model, const QConfigMapping& mapping,
                                                      const PrepareOptions& options = {}) {
    return prepare_calibration_fx(model, mapping, default_target<Target>(), options);
}
/// The same with get_default_qconfig_mapping() of the target, or for a model whose modules carry their own qconfigs
/// (set_qconfig()) with only these.
template <class Target = target::default_target>
std::shared_ptr<PreparedModel> prepare_calibration_fx(const nn::Module& model, const PrepareOptions& options = {}) {
    return prepare_calibration_fx(model, default_target<Target>(), options);
}

template <class Target = target::default_target>
std::shared_ptr<PreparedModel> prepare_qat_fx(const nn::Module& model, const QConfigMapping& mapping,
                                              const PrepareOptions& options = {}) {
    return prepare_qat_fx(model, mapping, default_target<Target>(), options);
}
template <class Target = target::default_target>
std::shared_ptr<PreparedModel> prepare_qat_fx(const nn::Module& model, const PrepareOptions& options = {}) {
    return prepare_qat_fx(model, default_target<Target>(), options);
}

/// PyTorch's prepare_fx: prepare_calibration_fx() in torch mode.
std::shared_ptr<PreparedModel> prepare_fx(const nn::Module& model, const QConfigMapping& mapping,
                                          const std::vector<Tensor>& example_inputs, const arith::PolicyRecord& target,
                                          PrepareOptions options = {});
template <class Target = target::default_target>
std::shared_ptr<PreparedModel> prepare_fx(const nn::Module& model, const QConfigMapping& mapping,
                                          const std::vector<Tensor>& example_inputs,
                                          const PrepareOptions& options = {}) {
    return prepare_fx(model, mapping, example_inputs, default_target<Target>(), options);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <cstddef>

#    include "intq/arith/march.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/observers/named_table.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

struct MarchRow {
    std::string name;
    March march;
    const arith::PolicyRecord* policy;
};

INTQ_INLINE const NamedTable<MarchRow>& march_table() {
    static const NamedTable<MarchRow> table = [] {
        NamedTable<MarchRow> rows("march");
        rows.add({"bernoulli2", March::bernoulli2, &march::bernoulli2::policy});
        rows.add({"bayes", March::bayes, &march::bayes::policy});
        rows.add({"meta", March::meta, &march::meta::policy});
        return rows;
    }();
    return table;
}

INTQ_INLINE std::atomic<int>& current_march() {
    static std::atomic<int> march{0};
    return march;
}

INTQ_INLINE const arith::PolicyRecord* march_policy() {
    const int current = current_march();
    if (current == 0) return nullptr;
    return march_table().rows()[static_cast<std::size_t>(current - 1)].policy;
}

INTQ_INLINE void throw_no_target() {
    throw Error("no march is set: call set_march(), name a target, or define INTQ_DEFAULT_TARGET");
}

}  // namespace detail

INTQ_INLINE void set_march(March march) { detail::current_march() = static_cast<int>(march) + 1; }

INTQ_INLINE void set_march(const std::string& name) { set_march(detail::march_table().at(name).march); }

INTQ_INLINE March get_march() {
    const int current = detail::current_march();
    if (current == 0) detail::throw_no_target();
    return static_cast<March>(current - 1);
}

INTQ_INLINE std::shared_ptr<PreparedModel> prepare_fx(const nn::Module& model, const QConfigMapping& mapping,
                                                      const std::vector<Tensor>& example_inputs,
                                                      const arith::PolicyRecord& target, PrepareOptions options) {
    options.compatibility = Compatibility::torch;
    options.example_inputs = example_inputs;
    return prepare_calibration_fx(model, mapping, target, options);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_SET_MARCH_HPP
