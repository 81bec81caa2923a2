// SPDX-License-Identifier: MIT
//
// QuantizerConfig: a quantizer to be made, with its arguments. Layer: quantization (docs/workflow.md sections 2 and 3).
#ifndef INTQ_QUANTIZATION_FAKE_QUANTIZE_QUANTIZER_CONFIG_HPP
#define INTQ_QUANTIZATION_FAKE_QUANTIZE_QUANTIZER_CONFIG_HPP

#include <functional>
#include <memory>

#include "intq/arith/quantize.hpp"
#include "intq/core/dtype.hpp"
#include "intq/io/make_as.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/quantization/observers/compatibility.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Makes a FakeQuantize or a class derived from it.
using FakeQuantizeFactory = std::function<std::shared_ptr<FakeQuantize>(const FakeQuantizeOptions&)>;

template <class FakeQuantizeType> FakeQuantizeFactory fake_quantize_factory() {
    return [](const FakeQuantizeOptions& options) { return make_as<FakeQuantize, FakeQuantizeType>(options); };
}

namespace detail {

/// FakeQuantize itself.
FakeQuantizeFactory default_fake_quantize();

}  // namespace detail

/// A quantizer to be made: its fake-quantize class, its observer, and their arguments. FakeQuantize::with_args() makes
/// one, and so do the classes derived from it.
///
///     const auto base = FakeQuantize::with_args([](auto& a) { a.saturate = false; });
///     const auto wide = base.with_args([](auto& a) { a.observer_options.dtype = DType::int16; });
///     const QConfig qconfig{.weight = default_weight(), .output = wide};
struct QuantizerConfig {
    FakeQuantizeOptions options{};
    FakeQuantizeFactory fake_quantize = detail::default_fake_quantize();
    /// The target fixes scale and zero point of this output, so no scheme is refused.
    bool is_fixed_by_target = false;
    /// Affine in torch mode on a target with zero points, symmetric elsewhere: default_qconfig(). Prepare decides it.
    bool affine_in_torch_mode = false;

    DType dtype() const noexcept { return options.observer_options.dtype; }
    /// @param rule  the rounding of the target for which the model is prepared
    std::shared_ptr<FakeQuantize> make(arith::QuantizeRule rule, Compatibility compatibility) const;
    /// The same with some arguments changed.
    QuantizerConfig with_args(const QuantizerArguments& arguments) const;
    /// A new quantizer at each call.
    std::shared_ptr<FakeQuantize> operator()() const { return fake_quantize(options); }
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_fake_quantize)

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE FakeQuantizeFactory default_fake_quantize() { return fake_quantize_factory<FakeQuantize>(); }

}  // namespace detail

INTQ_INLINE std::shared_ptr<FakeQuantize> QuantizerConfig::make(arith::QuantizeRule rule,
                                                                Compatibility compatibility) const {
    FakeQuantizeOptions all = options;
    all.rule = rule;
    all.compatibility = compatibility;
    return fake_quantize(all);
}

INTQ_INLINE QuantizerConfig QuantizerConfig::with_args(const QuantizerArguments& arguments) const {
    QuantizerConfig changed = *this;
    arguments(changed.options);
    return changed;
}

INTQ_INLINE QuantizerConfig FakeQuantize::with_args(const QuantizerArguments& arguments) {
    return QuantizerConfig{{}, fake_quantize_factory<FakeQuantize>()}.with_args(arguments);
}

INTQ_INLINE QuantizerConfig CalibFakeQuantize::with_args(const QuantizerArguments& arguments) {
    return QuantizerConfig{{}, fake_quantize_factory<CalibFakeQuantize>()}.with_args(arguments);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_fake_quantize)
#endif  // INTQ_QUANTIZATION_FAKE_QUANTIZE_QUANTIZER_CONFIG_HPP
