// SPDX-License-Identifier: MIT
//
// set_march: the default target, for calls that name none. Layer: quantization (docs/workflow.md section 3).
#ifndef INTQ_QUANTIZATION_PREPARE_SET_MARCH_HPP
#define INTQ_QUANTIZATION_PREPARE_SET_MARCH_HPP

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "intq/arith/target.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The marches of arith/march.hpp as values.
enum class March : std::uint8_t { bernoulli2, bayes, meta };

namespace detail {

/// The number of the march plus 1; 0: none is set.
std::atomic<int>& current_march();

}  // namespace detail

/// Names the default target of this process. A target that is given to a function stands above it.
void set_march(March march);

/// The same by name; throws the Error with the nearest names for another one.
void set_march(const std::string& name);

/// Throws where none is set.
March get_march();

/// The policy of the march that set_march() named; throws where none is set.
const arith::PolicyRecord& default_target();

/// prepare_calibration_fx() for the default target; convert_fx() of the result follows it.
std::shared_ptr<PreparedModel> prepare_calibration_fx(const nn::Module& model, const QConfigMapping& mapping,
                                                      const PrepareOptions& options = {});

/// The same with get_default_qconfig_mapping() of the target, or for a model whose modules carry their own qconfigs
/// (set_qconfig()) with these alone.
std::shared_ptr<PreparedModel> prepare_calibration_fx(const nn::Module& model, const PrepareOptions& options = {});

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

}  // namespace detail

INTQ_INLINE void set_march(March march) { detail::current_march() = static_cast<int>(march) + 1; }

INTQ_INLINE void set_march(const std::string& name) { set_march(detail::march_table().at(name).march); }

INTQ_INLINE March get_march() {
    const int current = detail::current_march();
    if (current == 0) throw Error("no march is set: call set_march(), or name a target");
    return static_cast<March>(current - 1);
}

INTQ_INLINE const arith::PolicyRecord& default_target() {
    return *detail::march_table().rows()[static_cast<std::size_t>(get_march())].policy;
}

INTQ_INLINE std::shared_ptr<PreparedModel> prepare_calibration_fx(const nn::Module& model,
                                                                  const QConfigMapping& mapping,
                                                                  const PrepareOptions& options) {
    return prepare_calibration_fx(model, mapping, default_target(), options);
}

INTQ_INLINE std::shared_ptr<PreparedModel> prepare_calibration_fx(const nn::Module& model,
                                                                  const PrepareOptions& options) {
    return prepare_calibration_fx(model, default_target(), options);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_SET_MARCH_HPP
