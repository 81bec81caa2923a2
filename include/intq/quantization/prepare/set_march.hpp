// SPDX-License-Identifier: MIT
//
// set_march: the target of whatever names none. Layer: quantization (WORKFLOW section 3).
#ifndef INTQ_QUANTIZATION_PREPARE_SET_MARCH_HPP
#define INTQ_QUANTIZATION_PREPARE_SET_MARCH_HPP

#include <atomic>

#include "intq/arith/march.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The marches of arith/march.hpp as values.
enum class March : std::uint8_t { bernoulli2, bayes, meta };

namespace detail {

struct MarchRow {
    std::string name;
    March march;
    const arith::PolicyRecord* policy;
};

inline const NamedTable<MarchRow>& march_table() {
    static const NamedTable<MarchRow> table = [] {
        NamedTable<MarchRow> rows("march");
        rows.add({"bernoulli2", March::bernoulli2, &march::bernoulli2::policy});
        rows.add({"bayes", March::bayes, &march::bayes::policy});
        rows.add({"meta", March::meta, &march::meta::policy});
        return rows;
    }();
    return table;
}

/// The number of the march plus 1; 0: none is set.
inline std::atomic<int> current_march{0};

}  // namespace detail

/// Names the default target of this process. A target that is given to a function stands above it.
inline void set_march(March march) { detail::current_march = static_cast<int>(march) + 1; }

/// The same by name; throws the Error with the nearest names for another one.
inline void set_march(const std::string& name) { set_march(detail::march_table().at(name).march); }

/// Throws where none is set.
inline March get_march() {
    const int current = detail::current_march;
    if (current == 0) throw Error("no march is set: call set_march(), or name a target");
    return static_cast<March>(current - 1);
}

/// The policy of the march that set_march() named; throws where none is set.
inline const arith::PolicyRecord& default_target() {
    return *detail::march_table().rows()[static_cast<std::size_t>(get_march())].policy;
}

/// prepare_calibration_fx() for the default target; convert_fx() of the result follows it.
inline std::shared_ptr<PreparedModel> prepare_calibration_fx(const nn::Module& model, const QConfigMapping& mapping,
                                                             const PrepareOptions& options = {}) {
    return prepare_calibration_fx(model, mapping, default_target(), options);
}

/// The same for a model whose modules carry their own qconfigs (set_qconfig()).
inline std::shared_ptr<PreparedModel> prepare_calibration_fx(const nn::Module& model,
                                                             const PrepareOptions& options = {}) {
    return prepare_calibration_fx(model, QConfigMapping(), default_target(), options);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_QUANTIZATION_PREPARE_SET_MARCH_HPP
