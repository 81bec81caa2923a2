// SPDX-License-Identifier: MIT
//
// QConfigs from words: kinds of fake-quantizers and observers by name, and the defaults of training. Layer:
// quantization (docs/workflow.md section 3).
#ifndef INTQ_QUANTIZATION_QCONFIG_QCONFIG_FACTORIES_HPP
#define INTQ_QUANTIZATION_QCONFIG_QCONFIG_FACTORIES_HPP

#include <string>

#include "intq/core/dtype.hpp"
#include "intq/quantization/observers/named_table.hpp"
#include "intq/quantization/qconfig/qconfig.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// A row of the table of kinds: "fake_quant", "calib_fake_quant", "lsq" and "pact" are in it; others may be added.
struct FakeQuantizeKind {
    std::string name;
    FakeQuantizeFactory factory;
};

NamedTable<FakeQuantizeKind>& fake_quantize_table();

/// The class of fake-quantizers by its kind: "fake_quant", "lsq", … Throws for an unknown word, with the nearest.
FakeQuantizeFactory fake_quantize_kind(const std::string& kind);

/// The arguments of the factories, by the names of the documents.
struct QConfigArguments {
    DType dtype = DType::int8;
    DType weight_dtype = DType::int8;
    std::string activation_fake_quant = "fake_quant";  // a row of fake_quantize_table()
    std::string weight_fake_quant = "fake_quant";
    QuantizerArguments activation_qkwargs{};
    QuantizerArguments weight_qkwargs{};
    std::string activation_observer = "moving_average";  // a row of observer_table()
    std::string weight_observer = "min_max";             // in training it is the last one: a moving average of 1
    std::string backend{};                               // "" and "bpu" are known
};

/// A quantizer of activations, per tensor. Throws for names that are in no table.
QuantizerConfig make_activation(const QConfigArguments& arguments);

/// A quantizer of weights, per channel of axis 0 unless weight_qkwargs say otherwise.
QuantizerConfig make_weight(const QConfigArguments& arguments);

/// Input, weight and output of one kind each; there is no word "none": a qconfig without output quantizer is
/// get_default_qat_out_qconfig().
QConfig make_qconfig(const QConfigArguments& arguments);

/// For training: moving averages of 0.01 for activations, the present extremes for weights.
///
///     QConfig lsq = get_default_qat_qconfig({.activation_fake_quant = "lsq", .weight_fake_quant = "lsq"});
QConfig get_default_qat_qconfig(QConfigArguments arguments = {});

/// The same for an operator whose output is its int32 accumulator: without a quantizer behind it.
QConfig get_default_qat_out_qconfig(const QConfigArguments& arguments = {});

/// For calibration, with an observer of choice: get_default_calib_qconfig({.activation_observer = "kl"}).
QConfig get_default_calib_qconfig(const QConfigArguments& arguments);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_qconfig)

#    include <optional>

#    include "intq/io/error.hpp"
#    include "intq/quantization/fake_quantize/lsq_fake_quantize.hpp"
#    include "intq/quantization/fake_quantize/pact_fake_quantize.hpp"
#    include "intq/quantization/observers/observer_modules.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE NamedTable<FakeQuantizeKind>& fake_quantize_table() {
    static NamedTable<FakeQuantizeKind> table = [] {
        NamedTable<FakeQuantizeKind> rows("kind of fake-quantizer");
        rows.add({"fake_quant", fake_quantize_factory<FakeQuantize>()});
        rows.add({"calib_fake_quant", fake_quantize_factory<CalibFakeQuantize>()});
        rows.add({"lsq", fake_quantize_factory<LSQFakeQuantize>()});
        rows.add({"pact", fake_quantize_factory<PACTFakeQuantize>()});
        return rows;
    }();
    return table;
}

INTQ_INLINE FakeQuantizeFactory fake_quantize_kind(const std::string& kind) {
    return fake_quantize_table().at(kind).factory;
}

INTQ_INLINE QuantizerConfig make_activation(const QConfigArguments& arguments) {
    QuantizerConfig config;
    config.fake_quantize = fake_quantize_table().at(arguments.activation_fake_quant).factory;
    config.options.observer = observer_table().at(arguments.activation_observer).per_tensor;
    config.options.observer_options.dtype = arguments.dtype;
    if (arguments.activation_qkwargs) arguments.activation_qkwargs(config.options);
    return config;
}

INTQ_INLINE QuantizerConfig make_weight(const QConfigArguments& arguments) {
    QuantizerConfig config;
    config.fake_quantize = fake_quantize_table().at(arguments.weight_fake_quant).factory;
    const NamedObserver& observer = observer_table().at(arguments.weight_observer);
    ObserverOptions& options = config.options.observer_options;
    config.options.observer = {};
    options.dtype = arguments.weight_dtype;
    options.ch_axis = observer.per_channel ? 0 : -1;
    options.averaging_constant = 1.0f;  // of a moving average: the present weight, which training changes
    if (arguments.weight_qkwargs) arguments.weight_qkwargs(config.options);
    if (config.options.observer) return config;
    config.options.observer = options.ch_axis >= 0 ? observer.per_channel : observer.per_tensor;
    if (!config.options.observer)
        throw Error("the observer \"" + observer.name + "\" is per tensor; the weight's ch_axis must be -1");
    return config;
}

namespace detail {

INTQ_INLINE void check_qconfig_backend(const std::string& backend) {
    if (!backend.empty() && backend != "bpu")
        throw Error("there is no qconfig backend \"" + backend + "\"; \"\" and \"bpu\" are known");
}

}  // namespace detail

INTQ_INLINE QConfig make_qconfig(const QConfigArguments& arguments) {
    detail::check_qconfig_backend(arguments.backend);
    return {std::nullopt, make_weight(arguments), make_activation(arguments)};
}

INTQ_INLINE QConfig get_default_qat_qconfig(QConfigArguments arguments) {
    if (arguments.weight_observer == "min_max") arguments.weight_observer = "moving_average";
    return make_qconfig(arguments);
}

INTQ_INLINE QConfig get_default_qat_out_qconfig(const QConfigArguments& arguments) {
    QConfig qconfig = get_default_qat_qconfig(arguments);
    qconfig.output.reset();
    return qconfig;
}

INTQ_INLINE QConfig get_default_calib_qconfig(const QConfigArguments& arguments) { return make_qconfig(arguments); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_qconfig)
#endif  // INTQ_QUANTIZATION_QCONFIG_QCONFIG_FACTORIES_HPP
