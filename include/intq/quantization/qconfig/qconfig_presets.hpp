// SPDX-License-Identifier: MIT
//
// The named qconfigs of the documents. Layer: quantization (docs/workflow.md section 3).
#ifndef INTQ_QUANTIZATION_QCONFIG_QCONFIG_PRESETS_HPP
#define INTQ_QUANTIZATION_QCONFIG_QCONFIG_PRESETS_HPP

#include <functional>
#include <string>

#include "intq/quantization/observers/named_table.hpp"
#include "intq/quantization/qconfig/qconfig.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

// --- training ---------------------------------------------------------------------------------------------------

QConfig default_qat_8bit_fake_quant_qconfig();
QConfig default_qat_8bit_fixed_act_fake_quant_qconfig();
QConfig default_qat_8bit_weight_16bit_act_fake_quant_qconfig();
QConfig default_qat_8bit_weight_16bit_fixed_act_fake_quant_qconfig();
QConfig default_qat_8bit_weight_32bit_out_fake_quant_qconfig();
QConfig default_qat_out_8bit_fake_quant_qconfig();
QConfig default_qat_8bit_lsq_quant_qconfig();
QConfig default_qat_8bit_weight_32bit_out_lsq_quant_qconfig();
/// PACT clips activations; the weights are as in default_qat_8bit_fake_quant_qconfig().
QConfig default_qat_8bit_pact_quant_qconfig();

// --- calibration ------------------------------------------------------------------------------------------------

/// The percentile 99.99 for activations, extremes for weights.
QConfig default_calib_8bit_fake_quant_qconfig();
QConfig default_calib_8bit_weight_16bit_act_fake_quant_qconfig();
QConfig default_calib_8bit_weight_32bit_out_fake_quant_qconfig();
QConfig default_calib_out_8bit_fake_quant_qconfig();

// --- PyTorch ----------------------------------------------------------------------------------------------------

/// Affine int8 activations by the histogram observer, symmetric weights per tensor in -127 … 127, eps 2^-12.
/// Source   PyTorch 2.6, default_symmetric_qnnpack_qconfig
QConfig default_symmetric_qnnpack_qconfig();

// --- all of them by name ----------------------------------------------------------------------------------------

struct QConfigPreset {
    std::string name;
    std::function<QConfig()> make;
};

/// The presets above, and default_calib_8bit_<observer>_qconfig for each observer that calibrates activations; more may
/// be added.
NamedTable<QConfigPreset>& qconfig_presets();

/// The preset of a name; throws the Error with the nearest names if there is none.
QConfig qconfig_preset(const std::string& name);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_qconfig)

#    include "intq/arith/quantize.hpp"
#    include "intq/quantization/observers/range_methods.hpp"
#    include "intq/quantization/qconfig/qconfig_factories.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Moving averages that keep the result of calibration.
INTQ_INLINE void freeze_average(FakeQuantizeOptions& options) { options.observer_options.averaging_constant = 0.0f; }

/// PyTorch's smallest scale for its symmetric 8-bit engines.
INTQ_INLINE void set_qnnpack_eps(FakeQuantizeOptions& options) { options.observer_options.eps = 0x1p-12f; }

}  // namespace detail

INTQ_INLINE QConfig default_qat_8bit_fake_quant_qconfig() { return get_default_qat_qconfig(); }

INTQ_INLINE QConfig default_qat_8bit_fixed_act_fake_quant_qconfig() {
    return get_default_qat_qconfig({.activation_qkwargs = detail::freeze_average});
}

INTQ_INLINE QConfig default_qat_8bit_weight_16bit_act_fake_quant_qconfig() {
    return get_default_qat_qconfig({.dtype = DType::int16});
}

INTQ_INLINE QConfig default_qat_8bit_weight_16bit_fixed_act_fake_quant_qconfig() {
    return get_default_qat_qconfig({.dtype = DType::int16, .activation_qkwargs = detail::freeze_average});
}

INTQ_INLINE QConfig default_qat_8bit_weight_32bit_out_fake_quant_qconfig() { return get_default_qat_out_qconfig(); }

INTQ_INLINE QConfig default_qat_out_8bit_fake_quant_qconfig() { return get_default_qat_out_qconfig(); }

INTQ_INLINE QConfig default_qat_8bit_lsq_quant_qconfig() {
    return get_default_qat_qconfig({.activation_fake_quant = "lsq", .weight_fake_quant = "lsq"});
}

INTQ_INLINE QConfig default_qat_8bit_weight_32bit_out_lsq_quant_qconfig() {
    return get_default_qat_out_qconfig({.weight_fake_quant = "lsq"});
}

INTQ_INLINE QConfig default_qat_8bit_pact_quant_qconfig() {
    return get_default_qat_qconfig({.activation_fake_quant = "pact"});
}

INTQ_INLINE QConfig default_calib_8bit_fake_quant_qconfig() {
    return get_default_calib_qconfig({.activation_observer = "percentile"});
}

INTQ_INLINE QConfig default_calib_8bit_weight_16bit_act_fake_quant_qconfig() {
    return get_default_calib_qconfig({.dtype = DType::int16, .activation_observer = "percentile"});
}

INTQ_INLINE QConfig default_calib_8bit_weight_32bit_out_fake_quant_qconfig() { return get_default_calib_out_qconfig(); }

INTQ_INLINE QConfig default_calib_out_8bit_fake_quant_qconfig() { return get_default_calib_out_qconfig(); }

INTQ_INLINE QConfig default_symmetric_qnnpack_qconfig() {
    return get_default_calib_qconfig({.activation_qkwargs =
                                          [](FakeQuantizeOptions& options) {
                                              detail::set_qnnpack_eps(options);
                                              options.observer_options.scheme = arith::QuantScheme::affine;
                                          },
                                      .weight_qkwargs =
                                          [](FakeQuantizeOptions& options) {
                                              detail::set_qnnpack_eps(options);
                                              options.observer_options.quant_min = -127;
                                              options.observer_options.quant_max = 127;
                                              options.observer_options.ch_axis = -1;
                                          },
                                      .activation_observer = "histogram"});
}

INTQ_INLINE NamedTable<QConfigPreset>& qconfig_presets() {
    static NamedTable<QConfigPreset> table = [] {
        NamedTable<QConfigPreset> rows("qconfig");
#    define INTQ_DETAIL_PRESET_(name) rows.add({#    name, [] { return name(); }})
        INTQ_DETAIL_PRESET_(default_qconfig);
        INTQ_DETAIL_PRESET_(default_qat_8bit_fake_quant_qconfig);
        INTQ_DETAIL_PRESET_(default_qat_8bit_fixed_act_fake_quant_qconfig);
        INTQ_DETAIL_PRESET_(default_qat_8bit_weight_16bit_act_fake_quant_qconfig);
        INTQ_DETAIL_PRESET_(default_qat_8bit_weight_16bit_fixed_act_fake_quant_qconfig);
        INTQ_DETAIL_PRESET_(default_qat_8bit_weight_32bit_out_fake_quant_qconfig);
        INTQ_DETAIL_PRESET_(default_qat_out_8bit_fake_quant_qconfig);
        INTQ_DETAIL_PRESET_(default_qat_8bit_lsq_quant_qconfig);
        INTQ_DETAIL_PRESET_(default_qat_8bit_weight_32bit_out_lsq_quant_qconfig);
        INTQ_DETAIL_PRESET_(default_qat_8bit_pact_quant_qconfig);
        INTQ_DETAIL_PRESET_(default_calib_8bit_fake_quant_qconfig);
        INTQ_DETAIL_PRESET_(default_calib_8bit_weight_16bit_act_fake_quant_qconfig);
        INTQ_DETAIL_PRESET_(default_calib_8bit_weight_32bit_out_fake_quant_qconfig);
        INTQ_DETAIL_PRESET_(default_calib_out_8bit_fake_quant_qconfig);
        INTQ_DETAIL_PRESET_(default_symmetric_qnnpack_qconfig);
#    undef INTQ_DETAIL_PRESET_
        const auto add_calibration = [&](const char* observer) {
            rows.add({std::string("default_calib_8bit_") + observer + "_qconfig",
                      [observer] { return get_default_calib_qconfig({.activation_observer = observer}); }});
        };
        add_calibration("moving_average");
        for (const RangeMethod method : all_range_methods) add_calibration(name_of(method));
        return rows;
    }();
    return table;
}

INTQ_INLINE QConfig qconfig_preset(const std::string& name) { return qconfig_presets().at(name).make(); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_qconfig)
#endif  // INTQ_QUANTIZATION_QCONFIG_QCONFIG_PRESETS_HPP
