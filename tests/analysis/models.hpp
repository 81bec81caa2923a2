// SPDX-License-Identifier: MIT
//
// A float model with what quantization makes of it, for tests of analysis.
#ifndef INTQ_TESTS_ANALYSIS_MODELS_HPP
#define INTQ_TESTS_ANALYSIS_MODELS_HPP

#include <memory>
#include <string>
#include <vector>

#include "intq/arith/bpu.hpp"
#include "intq/io/file.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "support/small_models.hpp"

namespace intq::test {

inline constexpr arith::PolicyRecord bayes = target::bpu<march::bayes>::policy;

inline std::string text_of_file(const std::filesystem::path& path) {
    const auto bytes = io::read_file(path);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Prepared for bayes, and calibrated on two batches.
inline std::shared_ptr<quantization::PreparedModel> calibrated(const nn::Module& model, const Shape& shape,
                                                               const quantization::QConfigMapping& mapping) {
    const auto prepared = quantization::prepare_calibration_fx(model, mapping, bayes);
    const std::vector<intq::Tensor> batches{random_tensor(shape, 71), random_tensor(shape, 72)};
    quantization::calibrate(*prepared, batches);
    return prepared;
}
inline std::shared_ptr<quantization::PreparedModel> calibrated(const nn::Module& model, const Shape& shape) {
    return calibrated(model, shape, quantization::get_default_qconfig_mapping(bayes));
}

inline const Shape residual_shape(2, 3, 12, 12);

}  // namespace intq::test

#endif  // INTQ_TESTS_ANALYSIS_MODELS_HPP
