// SPDX-License-Identifier: MIT
//
// The functions that the worked examples of docs/arithmetic.md call, each by the public functions of arith/.
#ifndef INTQ_TESTS_ARITH_EXAMPLE_FUNCTIONS_HPP
#define INTQ_TESTS_ARITH_EXAMPLE_FUNCTIONS_HPP

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arith/targets.hpp"
#include "intq/arith/accumulator_bound.hpp"
#include "intq/arith/argmax.hpp"
#include "intq/arith/block_table.hpp"
#include "intq/arith/conv.hpp"
#include "intq/arith/dynamic_qparams.hpp"
#include "intq/arith/elementwise.hpp"
#include "intq/arith/fixed_point_log_softmax.hpp"
#include "intq/arith/fixed_point_softmax.hpp"
#include "intq/arith/histogram.hpp"
#include "intq/arith/layer_norm.hpp"
#include "intq/arith/learnable.hpp"
#include "intq/arith/log_softmax.hpp"
#include "intq/arith/matmul.hpp"
#include "intq/arith/norm.hpp"
#include "intq/arith/pool.hpp"
#include "intq/arith/quantized_multiplier.hpp"
#include "intq/arith/resize.hpp"
#include "intq/arith/softmax.hpp"
#include "intq/arith/sum.hpp"
#include "intq/arith/tflite_curve.hpp"
#include "intq/arith/tflite_functions.hpp"
#include "intq/arith/tflite_tables.hpp"
#include "intq/arith/unary.hpp"
#include "intq/arith/value_grid.hpp"
#include "support/worked_examples.hpp"

namespace intq::test::examples {

using arith::RequantizeSource;
using arith::SumRange;

// --- words and values ----------------------------------------------------------------------------------------------

/// The value that a word names in a table of pairs.
template <class T> T named(const std::string& word, std::initializer_list<std::pair<const char*, T>> names) {
    for (const auto& [name, value] : names)
        if (word == name) return value;
    throw Malformed("there is no \"" + word + "\" here");
}

inline DType dtype_of(const std::string& word) {
    for (const DType dtype : {DType::none, DType::int8, DType::int16, DType::int32, DType::uint8})
        if (word == name_of(dtype)) return dtype;
    throw Malformed("there is no dtype \"" + word + "\"");
}

inline Activation activation_of(const std::string& word) {
    return named<Activation>(word,
                             {{"none", Activation::none}, {"relu", Activation::relu}, {"relu6", Activation::relu6}});
}

inline TableFunction function_of(const std::string& word) {
    using F = TableFunction;
    return named<F>(word, {{"sigmoid", F::sigmoid},
                           {"tanh", F::tanh},
                           {"exp", F::exp},
                           {"erf", F::erf},
                           {"gelu_erf", F::gelu_erf},
                           {"gelu_tanh", F::gelu_tanh},
                           {"silu", F::silu},
                           {"elu", F::elu},
                           {"hard_sigmoid", F::hard_sigmoid},
                           {"hard_tanh", F::hard_tanh},
                           {"hard_swish", F::hard_swish},
                           {"softplus", F::softplus},
                           {"mish", F::mish},
                           {"selu", F::selu},
                           {"celu", F::celu},
                           {"softsign", F::softsign},
                           {"tanhshrink", F::tanhshrink},
                           {"abs", F::abs},
                           {"neg", F::neg},
                           {"square", F::square},
                           {"leaky_relu", F::leaky_relu},
                           {"log", F::log},
                           {"sqrt", F::sqrt},
                           {"rsqrt", F::rsqrt},
                           {"reciprocal", F::reciprocal}});
}

inline ExampleValues refusal(const Status& status) {
    std::string code = name_of(status.code);
    std::replace(code.begin(), code.end(), ' ', '_');
    return {{ExampleValue::words, "refused " + code}};
}

template <class... Numbers> ExampleValues values(Numbers... numbers) { return {example_value(numbers)...}; }

/// The values of a result, or its refusal.
template <class T, class Function> ExampleValues values_of(const Result<T>& result, Function&& function) {
    return result ? function(*result) : refusal(result.status());
}

/// Calls function(TargetType{}) for the target of the argument `target`.
template <class Function> ExampleValues with_target(const CallArguments& a, Function&& function) {
    ExampleValues result;
    bool is_known = false;
    for_each_target([&](auto target) {
        if (a.word("target") != decltype(target)::policy.name) return;
        is_known = true;
        result = function(target);
    });
    if (!is_known) throw Malformed("there is no target \"" + a.word("target") + "\"");
    return result;
}

template <class TargetType> using Policy32 = arith::RequantizePolicy<TargetType, std::int32_t>;

inline arith::OutputCodes codes_of(DType dtype, std::int32_t zero_point) {
    return arith::make_output_codes(lowest_code(dtype), highest_code(dtype), zero_point, 1.0f, Activation::none);
}
inline arith::CodesOf operand(const CallArguments& a, const char* scale, const char* zero_point) {
    return {a.real(scale), a.code(zero_point), dtype_of(a.word("dtype"))};
}

// --- section 1 -----------------------------------------------------------------------------------------------------

inline Result<arith::ScaleZeroPoint> qparams(const CallArguments& a, arith::QuantScheme scheme) {
    arith::RangeRule rule{a.integer("qmin"), a.integer("qmax"), scheme};
    if (scheme == arith::QuantScheme::symmetric)
        rule.divisor = named<arith::SymmetricDivisor>(a.word("D"), {{"half", arith::SymmetricDivisor::half_of_codes},
                                                                    {"qmax", arith::SymmetricDivisor::highest_code}});
    if (const Status status = arith::check_range_rule(rule, DType::int16); !status.ok()) return status;
    return arith::qparams_from_range(a.real("min"), a.real("max"), rule);
}
inline arith::ScaleZeroPoint scale_and_zero_point(const CallArguments& a) { return {a.real("s"), a.code("zp")}; }
inline arith::CodeRange range_of(const CallArguments& a) {
    const DType dtype = dtype_of(a.word("dtype"));
    return {lowest_code(dtype), highest_code(dtype)};
}

inline ExampleValues quantize(const CallArguments& a) {
    const arith::QuantizeRule rule{
        named<arith::Rounding>(a.word("rounding"),
                               {{"half_even", arith::Rounding::half_even}, {"half_up", arith::Rounding::half_up}}),
        named<arith::QuantizeBy>(
            a.word("by"), {{"reciprocal", arith::QuantizeBy::reciprocal}, {"divide", arith::QuantizeBy::divide}})};
    return values(arith::quantize(a.real("x"), scale_and_zero_point(a), range_of(a), rule));
}

inline ExampleValues learned_gradient(const CallArguments& a) {
    const auto terms = arith::learnable_gradient(a.real("x"), a.real("dy"), scale_and_zero_point(a),
                                                 {a.integer("qmin"), a.integer("qmax")}, a.real("g"));
    return values(terms.x, terms.scale, terms.zero_point);
}

inline ExampleValues histogram_bin(const CallArguments& a) {
    return values(
        arith::HistogramBins<scalar_lanes>::make({a.real("min"), a.real("max")}, a.integer("bins")).bin(a.real("x")));
}

inline ExampleValues striped_sum(const CallArguments& a) {
    std::vector<float> terms = a.list<float>("terms");
    terms.resize((terms.size() + arith::StripedSum::block - 1) / arith::StripedSum::block * arith::StripedSum::block);
    arith::StripedSum sum;
    for (std::size_t at = 0; at < terms.size(); at += arith::StripedSum::block) sum.add_block(terms.data() + at);
    return values(sum.total());
}

// --- section 2 -----------------------------------------------------------------------------------------------------

/// Calls function(acc) with the accumulator in the type that a target has for inputs of a type.
template <class TargetType, class Function>
inline ExampleValues with_accumulator(const CallArguments& a, DType input, Function&& function) {
    constexpr arith::PolicyRecord policy = TargetType::policy;
    if constexpr (policy.accumulator_bits_int16 == 64 || policy.widens_int16)
        if (policy.accumulator_bits(input) == 64 || (policy.widens_int16 && input == DType::int16))
            return function(a.integer("acc"));
    return function(a.code("acc"));
}

inline ExampleValues requantize(const CallArguments& a) {
    const DType input = dtype_of(a.word("input")), output = dtype_of(a.word("output"));
    return with_target(a, [&](auto target) {
        using TargetType = decltype(target);
        return with_accumulator<TargetType>(a, input, [&](auto acc) {
            const auto words = arith::make_requantize_words(TargetType::policy, RequantizeSource::gemm_accumulator,
                                                            {a.real("s_in"), a.real("s_w"), a.real("s_out")}, input,
                                                            output, SumRange{acc, acc});
            return values_of(words, [&](const arith::ChannelWords& w) {
                return values(test::requantize<TargetType>(acc, w, codes_of(output, a.code("zp"))));
            });
        });
    });
}

inline ExampleValues requantize_code(const CallArguments& a) {
    const DType input = dtype_of(a.word("input")), output = dtype_of(a.word("output"));
    const std::int32_t steps = a.code("q") - a.code("zp_in");
    return with_target(a, [&](auto target) {
        using TargetType = decltype(target);
        const auto words = arith::make_requantize_words(TargetType::policy, RequantizeSource::code,
                                                        {a.real("s_in"), 1.0f, a.real("s_out")}, input, output,
                                                        SumRange{steps, steps});
        return values_of(words, [&](const arith::ChannelWords& w) {
            return values(test::requantize<TargetType>(steps, w, codes_of(output, a.code("zp_out"))));
        });
    });
}

inline ExampleValues rdbpot(const CallArguments& a) {
    using Rule = arith::fixed_point<arith::double_rounding>;
    const auto words = Rule::make({1 << 30, -a.code("n")});
    return values(Rule::round_by_power_of_two<scalar_lanes>(a.code("x"), Rule::load<scalar_lanes>(words.data(), 1)));
}

inline ExampleValues two_stage_params(const CallArguments& a) {
    const auto source = named<RequantizeSource>(
        a.word("source"), {{"accumulator", RequantizeSource::gemm_accumulator}, {"code", RequantizeSource::code}});
    return values_of(
        arith::make_two_stage(a.real("s_acc"), a.real("s_out"), dtype_of(a.word("output")), source, a.code("pre_cap")),
        [](const arith::TwoStageParams& p) { return values(p.multiplier, p.pre, p.post); });
}

inline ExampleValues two_stage(const CallArguments& a) {
    using arith::ShiftRounding;
    const DType output = dtype_of(a.word("output"));
    const auto post =
        named<ShiftRounding>(a.word("POST"), {{"SH_F", ShiftRounding::floor}, {"SH_R", ShiftRounding::half_up}});
    const auto pre = output == DType::int16 ? ShiftRounding::half_up : ShiftRounding::floor;
    const auto words = arith::two_stage::make(a.code("M"), a.code("pre"), pre, a.code("post"), post);
    return values(test::requantize<target::bpu<march::bayes>>(a.code("acc"), words, codes_of(output, 0)));
}

// --- section 3 -----------------------------------------------------------------------------------------------------

inline ExampleValues fold_batch_norm(const CallArguments& a) {
    const float weight = a.real("w"), bias = a.real("b"), mean = a.real("mean"), variance = a.real("var"),
                gamma = a.real("gamma"), beta = a.real("beta");
    const auto one = [](const float& value) { return std::span<const float>(&value, 1); };
    float folded_weight = 0, folded_bias = 0;
    arith::fold_batch_norm(
        {1, 1, 1}, one(weight), one(bias), {one(mean), one(variance), one(gamma), one(beta), a.real("eps")},
        named<arith::BatchNormOrder>(
            a.word("order"), {{"conv", arith::BatchNormOrder::conv}, {"linear", arith::BatchNormOrder::linear}}),
        {&folded_weight, 1}, {&folded_bias, 1});
    return values(folded_weight, folded_bias);
}

inline ExampleValues raise_weight_scale(const CallArguments& a) {
    const arith::SuminOperand sumin{a.real("s_e"), 0, a.integer("qmin_e"), INT8_MAX};
    return with_target(a, [&](auto target) {
        return values(arith::raise_weight_scale(target.policy.for_weights(dtype_of(a.word("weight"))), a.real("s_w"),
                                                a.number<double>("b"), a.real("s_in"),
                                                sumin.scale > 0 ? &sumin : nullptr));
    });
}

inline ExampleValues bias_code(const CallArguments& a) {
    return with_target(a, [&](auto target) {
        return values_of(arith::quantize_bias(target.policy.for_weights(dtype_of(a.word("weight"))),
                                              static_cast<double>(a.real("b")), a.real("s_in"), a.real("s_w")),
                         [](std::int64_t code) { return values(code); });
    });
}

/// Calls function(sumin) with what make_sumin() gives.
template <class Function> ExampleValues with_sumin(const CallArguments& a, Function&& function) {
    const DType dtype = dtype_of(a.word("dtype"));
    return with_target(a, [&](auto target) {
        return values_of(arith::make_sumin(target.policy, {a.real("s_e"), 0, lowest_code(dtype), highest_code(dtype)},
                                           a.real("s_in"), a.real("s_w"), 1.0f, target.policy.accumulator_bits(dtype)),
                         function);
    });
}

inline ExampleValues requantize_with_sumin(const CallArguments& a) {
    return with_target(a, [&](auto target) -> ExampleValues {
        using TargetType = decltype(target);
        if constexpr (!TargetType::policy.fused_add) {
            return refusal({StatusCode::unsupported, OpKind::add, Field::sumin, 0, 0});
        } else {
            return with_accumulator<TargetType>(a, DType::int8, [&](auto acc) {
                using Policy = arith::RequantizePolicy<TargetType, decltype(acc)>;
                const float s_in = a.real("s_in"), s_w = a.real("s_w"), s_out = a.real("s_out");
                const auto words =
                    arith::make_requantize_words(TargetType::policy, RequantizeSource::gemm_accumulator,
                                                 {s_in, s_w, s_out}, DType::int8, DType::int8, SumRange{acc, acc});
                const auto sumin = arith::make_sumin(TargetType::policy, {a.real("s_e"), a.code("zp_e")}, s_in, s_w,
                                                     s_out, 8 * static_cast<int>(sizeof acc));
                if (!words) return refusal(words.status());
                if (!sumin) return refusal(sumin.status());
                arith::OutputCodes codes = codes_of(DType::int8, a.code("zp"));
                codes.sumin_zero_point = a.code("zp_e");
                return values(Policy::template apply_sumin<scalar_lanes>(
                    acc, a.code("e"), Policy::template load<scalar_lanes>(words->data(), 1),
                    Policy::template load_sumin<scalar_lanes>(sumin->words.data(), 1),
                    arith::OutputLanes<scalar_lanes>(codes)));
            });
        }
    });
}

inline SumRange pair_of(const CallArguments& a, const std::string& name) {
    const auto ends = a.list<std::int64_t>(name);
    if (ends.size() != 2) throw Malformed("\"" + name + "\" is not a pair");
    return {ends[0], ends[1]};
}

inline ExampleValues accumulator_range(const CallArguments& a) {
    arith::AccumulatorBound bound;
    for (const std::int64_t weight : a.list<std::int64_t>("weights")) bound.add_weight(weight);
    const SumRange range = bound.range(pair_of(a, "x"), a.integer("bias"), pair_of(a, "sumin"));
    return values(range.lowest, range.highest);
}

// --- section 4 -----------------------------------------------------------------------------------------------------

inline ExampleValues add_or_sub(const CallArguments& a, bool is_sub) {
    const auto out = operand(a, "s_out", "zp_out");
    return with_target(a, [&](auto target) {
        const auto make = is_sub ? arith::make_sub : arith::make_add;
        return values_of(make(target.policy, operand(a, "s_x", "zp_x"), operand(a, "s_y", "zp_y"), out,
                              codes_of(out.dtype, out.zero_point)),
                         [&](const arith::AddParams& params) {
                             const arith::AddLanes<Policy32<decltype(target)>, scalar_lanes> formula(params);
                             return values(formula.code(a.code("x"), a.code("y")));
                         });
    });
}

inline ExampleValues add_coefficients(const CallArguments& a) {
    const DType dtype = dtype_of(a.word("dtype"));
    const arith::CodesOf x{a.real("s_x"), 0, dtype}, y{a.real("s_y"), 0, dtype};
    return with_target(a, [&](auto target) {
        return values_of(arith::make_add(target.policy, x, y, x.scale > y.scale ? x : y, codes_of(dtype, 0)),
                         [](const arith::AddParams& p) { return values(p.coefficient[0], p.coefficient[1]); });
    });
}

inline ExampleValues mul(const CallArguments& a) {
    const auto out = operand(a, "s_out", "zp_out");
    return with_target(a, [&](auto target) {
        using Policy = Policy32<decltype(target)>;
        return values_of(arith::make_mul(target.policy, operand(a, "s_x", "zp_x"), operand(a, "s_y", "zp_y"), out,
                                         codes_of(out.dtype, out.zero_point)),
                         [&](const arith::MulParams& params) {
                             const arith::MulLanes<Policy, scalar_lanes> formula(
                                 params, Policy::template load<scalar_lanes>(params.words.data(), 1));
                             return values(formula.code(a.code("x"), a.code("y")));
                         });
    });
}

inline ExampleValues average(const CallArguments& a) {
    const auto in = operand(a, "s_in", "zp_in"), out = operand(a, "s_out", "zp_out");
    const auto codes = a.list<std::int32_t>("codes");
    const auto valid = static_cast<index_t>(codes.size());
    const auto divisor = named<PoolDivisor>(
        a.word("divisor"), {{"kernel_cells", PoolDivisor::kernel_cells}, {"valid_cells", PoolDivisor::valid_cells}});
    std::int32_t sum = 0;
    for (const std::int32_t code : codes) sum += code;
    return with_target(a, [&](auto target) {
        return values_of(arith::make_average(target.policy, in, out, codes_of(out.dtype, out.zero_point),
                                             a.integer("cells"), divisor, valid < a.integer("cells")),
                         [&](const arith::AverageParams& params) {
                             return values(arith::Average<scalar_lanes>(params).code(sum, valid, params));
                         });
    });
}

inline ExampleValues average_of_values(const CallArguments& a) {
    const auto in = operand(a, "s_in", "zp_in"), out = operand(a, "s_out", "zp_out");
    const auto codes = a.list<std::int32_t>("codes");
    const auto valid = static_cast<index_t>(codes.size());
    return with_target(a, [&](auto target) {
        return values_of(arith::make_average_of_values(target.policy, in, out, codes_of(out.dtype, out.zero_point),
                                                       valid, PoolDivisor::valid_cells, false),
                         [&](const arith::AverageParams& params) {
                             const arith::AverageOfValues<scalar_lanes> average(params);
                             float sum = 0.0f;
                             for (const std::int32_t code : codes) sum = average.add(sum, code);
                             return values(average.code(sum, average.divisor(valid, params)));
                         });
    });
}

template <class Make> ExampleValues reduction(const CallArguments& a, const Make& make) {
    const auto in = operand(a, "s_in", "zp_in"), out = operand(a, "s_out", "zp_out");
    const auto codes = a.list<std::int32_t>("codes");
    const auto cells = static_cast<index_t>(codes.size());
    std::int32_t sum = 0;
    for (const std::int32_t code : codes) sum += code;
    return with_target(a, [&](auto target) {
        return values_of(make(target.policy, in, out, codes_of(out.dtype, out.zero_point), cells),
                         [&](const arith::AverageParams& params) {
                             return values(arith::Average<scalar_lanes>(params).code(sum, cells, params));
                         });
    });
}

inline arith::OutputCodes activation_codes(const CallArguments& a, const char* scale) {
    const DType dtype = dtype_of(a.word("dtype"));
    return arith::make_output_codes(lowest_code(dtype), highest_code(dtype), a.code("zp"), a.real(scale),
                                    activation_of(a.word("activation")));
}

inline arith::Resize resize_rule(const CallArguments& a) {
    using arith::Resize;
    return named<Resize>(a.word("rule"), {{"nearest", Resize::nearest},
                                          {"nearest_exact", Resize::nearest_exact},
                                          {"nearest_half_down", Resize::nearest_half_down},
                                          {"half_pixel", Resize::half_pixel},
                                          {"align_corners", Resize::align_corners}});
}

inline ExampleValues resize_tap(const CallArguments& a) {
    const auto tap = arith::resize_tap(resize_rule(a), a.integer("d"), a.integer("in"), a.integer("out"));
    return values(tap.first, tap.second, tap.weight);
}

inline ExampleValues resize_tap_of_values(const CallArguments& a) {
    const auto tap = arith::resize_tap_of_values(resize_rule(a), a.integer("d"), a.integer("in"), a.integer("out"));
    return values(tap.first, tap.second, std::bit_cast<float>(tap.weight));
}

inline ExampleValues bilinear_of_values(const CallArguments& a) {
    const arith::BilinearOfValues<scalar_lanes> formula(
        {a.code("zp_in"), a.real("s_in"), a.real("s_out"), codes_of(DType::int8, a.code("zp_out"))});
    const auto tap = [](float weight) { return arith::ResizeTap{0, 1, std::bit_cast<std::int32_t>(weight)}; };
    return values(formula.code(a.code("a"), a.code("b"), a.code("c"), a.code("d"),
                               formula.weights(tap(a.real("x")), tap(a.real("y")))));
}

inline arith::ResizeScale resize_scale(const CallArguments& a) {
    using arith::ResizeOrigin;
    return {named<ResizeOrigin>(a.word("origin"),
                                {{"torch", ResizeOrigin::torch_factor}, {"onnx", ResizeOrigin::onnx_factor}}),
            a.number<double>("f")};
}

/// The extent that a factor makes, and the cells of one coordinate of it.
inline ExampleValues resize_by_factor(const CallArguments& a) {
    const arith::ResizeScale scale = resize_scale(a);
    const index_t in = a.integer("in"), out = arith::resized_extent(scale, in);
    const auto tap = arith::resize_tap(resize_rule(a), a.integer("d"), in, out, scale);
    return values(out, tap.first, tap.second, tap.weight);
}

inline ExampleValues int8_entry(const CallArguments& a) {
    std::int8_t entries[arith::int8_table_size];
    const Status status =
        arith::make_int8_table(function_of(a.word("f")), {a.real("s_in"), a.code("zp_in"), DType::int8},
                               {a.real("s_out"), a.code("zp_out"), DType::int8}, entries, a.number<double>("slope"));
    return status.ok() ? values(entries[a.number<std::int8_t>("x") + 128]) : refusal(status);
}

/// The entry of a table in float32.
inline ExampleValues float32_entry(const CallArguments& a) {
    std::int8_t entries[arith::int8_table_size];
    const Status status = arith::make_int8_table_in_float32(
        {a.real("s_in"), a.code("zp_in"), DType::int8}, {a.real("s_out"), a.code("zp_out"), DType::int8}, entries,
        [&](float x) {
            return arith::table_function_in_float32(function_of(a.word("f")), x, a.number<double>("slope"));
        });
    return status.ok() ? values(entries[a.number<std::int8_t>("x") + 128]) : refusal(status);
}

/// The same of a clamp between two real numbers.
inline ExampleValues float32_clamp(const CallArguments& a) {
    std::int8_t entries[arith::int8_table_size];
    const Status status = arith::make_int8_table_in_float32(
        {a.real("s_in"), a.code("zp_in"), DType::int8}, {a.real("s_out"), a.code("zp_out"), DType::int8}, entries,
        [&](float x) { return std::min(std::max(x, a.real("low")), a.real("high")); });
    return status.ok() ? values(entries[a.number<std::int8_t>("q") + 128]) : refusal(status);
}

/// Calls function(entries) with a table of int16 codes.
template <class Function> ExampleValues with_int16_table(const CallArguments& a, Function&& function) {
    std::int16_t entries[arith::int16_table_size];
    const Status status =
        arith::make_int16_table(function_of(a.word("f")), {a.real("s_in"), 0, DType::int16},
                                {a.real("s_out"), 0, DType::int16}, entries, a.number<double>("slope"));
    return status.ok() ? function(entries) : refusal(status);
}

/// Calls function(words) with a table of int16 codes in blocks.
template <class Function> ExampleValues with_blocks(const CallArguments& a, Function&& function) {
    std::int16_t words[arith::largest_block_table_size];
    const TableFunction tabled = function_of(a.word("f"));
    const double slope = a.number<double>("slope");
    const auto size = arith::make_block_table({a.real("s_in"), 0, DType::int16}, {a.real("s_out"), 0, DType::int16},
                                              words, [&](double x) { return arith::table_function(tabled, x, slope); });
    return values_of(size, [&](std::size_t count) { return function(words, count); });
}

/// The first knot of the block of a code, and its step.
inline ExampleValues block_of(const CallArguments& a) {
    return with_blocks(a, [&](const std::int16_t* words, std::size_t) {
        const int word = static_cast<std::uint16_t>(words[(a.number<std::int16_t>("x") >> 7) + 256]);
        return values(word / 8, 1 << word % 8);
    });
}

inline ExampleValues block_knot(const CallArguments& a) {
    return with_blocks(a, [&](const std::int16_t* words, std::size_t) {
        return values(scalar_lanes::gather_pair(words + arith::table_blocks, 2 * a.number<std::int32_t>("j")));
    });
}

/// Calls function(x, largest, step, log) for a row of codes and the logarithm of its sum.
template <class Function> ExampleValues with_log_of_sum(const CallArguments& a, Function&& function) {
    const arith::CodesOf in{a.real("s_in"), 0, dtype_of(a.word("dtype"))};
    const auto x = a.list<std::int32_t>("x");
    const auto step = arith::make_log_softmax_step(in);
    if (!step) return refusal(step.status());
    std::uint32_t entries[arith::log_softmax_entries(DType::int16)];
    if (const Status status = arith::make_log_softmax_tables(in, entries); !status) return refusal(status);
    const std::int32_t largest = *std::max_element(x.begin(), x.end());
    std::uint64_t sum = 0;
    for (const std::int32_t code : x)
        sum += in.dtype == DType::int8 ? arith::LogSoftmax::term<DType::int8>(entries, largest - code)
                                       : arith::LogSoftmax::term<DType::int16>(entries, largest - code);
    return function(x, largest, *step, arith::LogSoftmax::log_of(entries + arith::exponential_entries(in.dtype), sum));
}

inline ExampleValues log_of_sum(const CallArguments& a) {
    return with_log_of_sum(a, [](const auto&, std::int32_t, std::int64_t, std::int64_t log) { return values(log); });
}

inline ExampleValues log_softmax(const CallArguments& a) {
    return with_log_of_sum(a, [](const auto& x, std::int32_t largest, std::int64_t step, std::int64_t log) {
        ExampleValues result;
        for (const std::int32_t code : x)
            result.push_back(example_value(arith::LogSoftmax::accumulator(largest - code, step, log)));
        return result;
    });
}

inline std::int32_t argmax_key_of(std::int32_t code, std::int32_t place) {
    return arith::ArgMax::key<arith::scalar_lanes>(code, place);
}

inline ExampleValues argmax(const CallArguments& a) {
    const auto codes = a.list<std::int32_t>("codes");
    std::int32_t largest = INT32_MIN;
    for (std::size_t i = 0; i < codes.size(); ++i)
        largest = std::max(largest, argmax_key_of(codes[i], static_cast<std::int32_t>(i)));
    return values(arith::ArgMax::place_of(largest));
}

inline ExampleValues softmax_entry(const CallArguments& a) {
    return values_of(arith::make_softmax_tables({a.real("s_in"), 0, DType::int8}), [&](const auto& tables) {
        const auto d = a.number<std::uint8_t>("d");
        return values(tables.probability[d], tables.term[d]);
    });
}

inline ExampleValues int16_softmax_term(const CallArguments& a) {
    std::uint32_t entries[arith::int16_softmax_entries];
    const Status status = arith::make_int16_softmax_tables({a.real("s_in"), 0, DType::int16}, entries);
    if (!status) return refusal(status);
    return values(arith::Int16Softmax::term(entries, a.number<std::int32_t>("d")));
}

inline ExampleValues int16_softmax(const CallArguments& a) {
    const auto x = a.list<std::int16_t>("x");
    const std::int32_t largest = *std::max_element(x.begin(), x.end());
    std::uint32_t entries[arith::int16_softmax_entries];
    const Status status = arith::make_int16_softmax_tables({a.real("s_in"), 0, DType::int16}, entries);
    if (!status) return refusal(status);
    std::uint64_t sum = 0;
    for (const std::int16_t code : x) sum += arith::Int16Softmax::term(entries, largest - code);
    ExampleValues result;
    for (const std::int16_t code : x)
        result.push_back(example_value(
            arith::Int16Softmax::of(sum).accumulator(arith::Int16Softmax::term(entries, largest - code))));
    return result;
}

inline ExampleValues softmax(const CallArguments& a) {
    const auto x = a.list<std::int8_t>("x");
    const std::int32_t largest = *std::max_element(x.begin(), x.end());
    return values_of(arith::make_softmax_tables({a.real("s_in"), 0, DType::int8}), [&](const auto& tables) {
        std::uint64_t sum = 0;
        for (const std::int8_t code : x) sum += tables.term[largest - code];
        const auto reciprocal = arith::SoftmaxReciprocal::of(sum);
        ExampleValues result;
        for (const std::int8_t code : x)
            result.push_back(example_value(reciprocal.code(tables.probability[largest - code])));
        return result;
    });
}

inline arith::Deviation deviation_of(const std::vector<std::int32_t>& x, std::int64_t epsilon,
                                     bool is_centered = true) {
    std::int64_t sum = 0, squares = 0;
    for (const std::int32_t code : x) sum += is_centered ? code : 0, squares += std::int64_t{code} * code;
    return {static_cast<index_t>(x.size()), sum, squares, epsilon};
}

inline ExampleValues normalized(const CallArguments& a) {
    const auto x = a.list<std::int32_t>("x");
    const arith::Deviation deviation = deviation_of(x, a.integer("epsilon"), a.integer("centered") != 0);
    ExampleValues result;
    for (const std::int32_t code : x) result.push_back(example_value(deviation.normalized(code)));
    return result;
}

inline ExampleValues layer_norm(const CallArguments& a) {
    return with_target(a, [&](auto target) -> ExampleValues {
        using Policy = Policy32<decltype(target)>;
        const auto x = a.list<std::int32_t>("x");
        const std::vector<float> weight = a.list<float>("weight"), bias = a.list<float>("bias");
        const auto scale = arith::layer_norm_scale(weight, bias);
        if (!scale) return refusal(scale.status());
        const auto norm = arith::make_layer_norm(
            target.policy, {a.real("s_in"), 0, DType::int8}, {a.real("s_out"), 0, DType::int8},
            codes_of(DType::int8, 0), static_cast<index_t>(x.size()), static_cast<double>(a.real("eps")), *scale);
        return values_of(norm, [&](const arith::LayerNormParams& params) {
            const arith::Deviation deviation = deviation_of(x, params.epsilon);
            const auto channel = Policy::template load<scalar_lanes>(params.words.data(), 1);
            const arith::OutputLanes<scalar_lanes> out(params.codes);
            ExampleValues result;
            for (std::size_t k = 0; k < x.size(); ++k) {
                const std::int32_t acc =
                    arith::weighted(deviation.normalized(x[k]), arith::code_of_power(weight[k], scale->weight()),
                                    arith::code_of_power(bias[k], scale->accumulator()));
                result.push_back(example_value(Policy::template apply<scalar_lanes>(acc, channel, out)));
            }
            return result;
        });
    });
}

/// One element of a product of matrices: a row of a times a column of b.
inline ExampleValues matmul(const CallArguments& a) {
    return with_target(a, [&](auto tag) -> ExampleValues {
        using TargetType = decltype(tag);
        const DType dtype = dtype_of(a.word("dtype"));
        const auto x = a.list<std::int32_t>("a"), y = a.list<std::int32_t>("b");
        const std::int32_t zp_a = a.code("zp_a"), zp_b = a.code("zp_b"), zp_out = a.code("zp_out");
        const auto made = arith::make_matmul(TargetType::policy, {a.real("s_a"), zp_a, dtype},
                                             {a.real("s_b"), zp_b, dtype}, {a.real("s_out"), zp_out, dtype},
                                             codes_of(dtype, zp_out), static_cast<index_t>(x.size()));
        return values_of(made, [&](const arith::MatmulParams& params) {
            std::int64_t acc = 0;
            for (std::size_t k = 0; k < x.size(); ++k)
                acc += std::int64_t{x[k] - params.zero_point[0]} * (y.at(k) - params.zero_point[1]);
            const arith::OutputLanes<scalar_lanes> out(params.codes);
            const auto code = [&](auto sum) {
                using Policy = arith::RequantizePolicy<TargetType, decltype(sum)>;
                const auto channel = Policy::template load<scalar_lanes>(params.words.data(), 1);
                return values(Policy::template apply<scalar_lanes>(sum, channel, out));
            };
            return arith::matmul_accumulator_bits(TargetType::policy, dtype) == 64
                       ? code(acc)
                       : code(static_cast<std::int32_t>(acc));
        });
    });
}

/// The range of a sum of n products, and the proof that it fits.
inline ExampleValues matmul_range(const CallArguments& a) {
    return with_target(a, [&](auto tag) -> ExampleValues {
        const DType dtype = dtype_of(a.word("dtype"));
        const std::int32_t zero_point[2] = {a.code("zp_a"), a.code("zp_b")};
        const Status status = arith::check_matmul_sum(decltype(tag)::policy, dtype, zero_point, a.integer("n"));
        if (!status) return refusal(status);
        const SumRange range = arith::matmul_range(dtype, zero_point, a.integer("n"));
        return values(range.lowest, range.highest);
    });
}

/// A linear layer: the rule of the operation.
inline ExampleValues linear(const CallArguments& a) {
    const DType input = dtype_of(a.word("input")), output = dtype_of(a.word("output"));
    return with_target(a, [&](auto tag) -> ExampleValues {
        using TargetType = decltype(tag);
        if constexpr (TargetType::policy.linear_in_binary64) {
            const auto words = arith::binary64_words({a.real("s_in"), a.real("s_w"), a.real("s_out")});
            return values_of(words, [&](const arith::ChannelWords& w) {
                const auto channel = arith::binary64::load<scalar_lanes>(w.data(), 1);
                const arith::OutputLanes<scalar_lanes> out(codes_of(output, a.code("zp")));
                return values(input == DType::int16
                                  ? arith::binary64::apply<scalar_lanes>(a.integer("acc"), channel, out)
                                  : arith::binary64::apply<scalar_lanes>(a.code("acc"), channel, out));
            });
        } else {
            return requantize(a);
        }
    });
}

inline arith::CodesOf int8_codes(const CallArguments& a, const char* scale, const char* zero_point) {
    return {a.real(scale), a.code(zero_point), DType::int8};
}

/// By the rule of double rounding.
inline std::int32_t scaled_code(std::int32_t x, const arith::QuantizedMultiplier& by) {
    return arith::multiply_by_quantized_multiplier<arith::double_rounding>(x, by.multiplier, by.shift);
}

inline ExampleValues hard_swish(const CallArguments& a) {
    return values_of(arith::make_hard_swish(int8_codes(a, "s_in", "zp_in"), int8_codes(a, "s_out", "zp_out")),
                     [&](const auto& params) { return values(arith::hard_swish_code(params, a.code("x"))); });
}

inline ExampleValues leaky_relu(const CallArguments& a) {
    return values_of(
        arith::make_leaky_relu(int8_codes(a, "s_in", "zp_in"), int8_codes(a, "s_out", "zp_out"), a.real("alpha")),
        [&](const auto& params) { return values(arith::leaky_relu_code(params, a.code("x"))); });
}

inline ExampleValues squared_difference(const CallArguments& a) {
    return values_of(arith::make_squared_difference(a.real("s_x"), a.real("s_y"), a.real("s_out")),
                     [&](const arith::SquaredDifference& by) {
                         const std::int32_t d = scaled_code((a.code("x") - a.code("zp_x")) * 128, by.x) -
                                                scaled_code((a.code("y") - a.code("zp_y")) * 128, by.y);
                         return values(std::clamp(scaled_code(d * d, by.square) + a.code("zp_out"), -128, 127));
                     });
}

inline ExampleValues tflite_entry(const CallArguments& a) {
    const arith::CodesOf in = int8_codes(a, "s_in", "zp_in"), out = int8_codes(a, "s_out", "zp_out");
    std::int8_t entries[arith::int8_table_size];
    const TableFunction function = function_of(a.word("f"));
    const Status status = function == TableFunction::sqrt    ? arith::make_tflite_sqrt_table(in, out, entries)
                          : function == TableFunction::rsqrt ? arith::make_tflite_rsqrt_table(in, out, entries)
                          : function == TableFunction::abs   ? arith::make_tflite_abs_table(in, out, entries)
                                                           : arith::make_tflite_int8_table(function, in, out, entries);
    return status.ok() ? values(entries[a.code("x") + 128]) : refusal(status);
}

inline ExampleValues tflite_wide_entry(const CallArguments& a) {
    std::int16_t entries[arith::int16_table_size];
    const Status status = arith::make_tflite_int16_table(function_of(a.word("f")), {a.real("s_in"), 0, DType::int16},
                                                         {a.real("s_out"), 0, DType::int16}, entries);
    return status.ok() ? values(entries[a.integer("i")]) : refusal(status);
}

inline ExampleValues tflite_nearest_cell(const CallArguments& a) {
    const auto is = [&](const char* name) { return named<bool>(a.word(name), {{"yes", true}, {"no", false}}); };
    return values(
        arith::tflite_nearest_cell(a.integer("d"), a.integer("in"), a.integer("out"), is("corners"), is("half_pixel")));
}

inline ExampleValues tflite_bilinear_tap(const CallArguments& a) {
    const auto is = [&](const char* name) { return named<bool>(a.word(name), {{"yes", true}, {"no", false}}); };
    return values_of(
        arith::tflite_bilinear_tap(a.integer("d"), a.integer("in"), a.integer("out"), is("corners"), is("half_pixel")),
        [](const arith::ResizeTap& tap) { return values(tap.first, tap.second, tap.weight); });
}

inline ExampleValues tflite_curve_entry(const CallArguments& a) {
    std::int16_t entries[arith::tflite_curve_size];
    if (!arith::make_tflite_curve_table(entries).ok()) return values();
    return values(entries[a.integer("i")]);
}

inline ExampleValues tflite_curve(const CallArguments& a) {
    std::int16_t entries[arith::tflite_curve_size];
    if (!arith::make_tflite_curve_table(entries).ok()) return values();
    const bool is_tanh = named<bool>(a.word("f"), {{"tanh", true}, {"sigmoid", false}});
    return values_of(arith::make_tflite_curve(is_tanh, a.real("s_in")), [&](const arith::TfliteCurve& curve) {
        return values(arith::tflite_curve<scalar_lanes>(entries, curve, a.number<std::int16_t>("x")));
    });
}

inline Result<arith::SoftmaxTables> fixed_point_tables(const CallArguments& a) {
    return arith::make_fixed_point_softmax_tables(target::tflite<>::policy, {a.real("s_in"), 0, DType::int8});
}

inline ExampleValues fixed_point_softmax(const CallArguments& a) {
    const auto x = a.list<std::int8_t>("x");
    const std::int32_t largest = *std::max_element(x.begin(), x.end());
    return values_of(fixed_point_tables(a), [&](const auto& tables) {
        using arith::FixedPointSoftmax;
        std::int32_t sum = 0;
        for (const std::int8_t code : x) sum += FixedPointSoftmax::term(tables.term[largest - code]);
        const auto reciprocal = FixedPointSoftmax::of(sum);
        ExampleValues result;
        for (const std::int8_t code : x) {
            const std::uint32_t term = tables.term[largest - code];
            result.push_back(a.word("output") == "int16" ? example_value(reciprocal.code<std::int16_t>(term))
                                                         : example_value(reciprocal.code<std::int8_t>(term)));
        }
        return result;
    });
}

/// The logarithm of the sum, and the codes.
template <class Give> ExampleValues with_fixed_point_log(const CallArguments& a, Give give) {
    const auto x = a.list<std::int8_t>("x");
    std::uint32_t entries[arith::fixed_point_log_softmax_entries] = {};
    const Status status =
        arith::make_fixed_point_log_softmax_table(target::tflite<>::policy, {a.real("s_in"), 0, DType::int8}, entries);
    if (!status) return refusal(status);
    const std::int32_t largest = *std::max_element(x.begin(), x.end());
    std::int32_t sum = 0;
    for (const std::int8_t code : x) sum += arith::FixedPointSoftmax::term(entries[largest - code]);
    return give(x, largest, entries + 256, arith::FixedPointLogSoftmax::log_of(sum));
}

inline ExampleValues log_of_terms(const CallArguments& a) {
    return with_fixed_point_log(
        a, [](const auto&, std::int32_t, const std::uint32_t*, std::int32_t log) { return values(log); });
}

inline ExampleValues fixed_point_log_softmax(const CallArguments& a) {
    return with_fixed_point_log(a, [](const auto& x, std::int32_t largest, const std::uint32_t* of, std::int32_t log) {
        ExampleValues result;
        for (const std::int8_t code : x)
            result.push_back(example_value(arith::FixedPointLogSoftmax::code(of[largest - code], log)));
        return result;
    });
}

inline ExampleValues wide_softmax(const CallArguments& a) {
    const auto x = a.list<std::int16_t>("x");
    const std::int32_t largest = *std::max_element(x.begin(), x.end());
    return values_of(arith::make_wide_softmax_multiplier({a.real("s_in"), 0, DType::int16}), [&](const auto& input) {
        using arith::WideSoftmax;
        std::int32_t sum = 0;
        for (const std::int16_t code : x) sum += WideSoftmax::exponential(input, false, code - largest);
        const auto reciprocal = WideSoftmax::of(sum);
        ExampleValues result;
        for (const std::int16_t code : x)
            result.push_back(example_value(reciprocal.code(WideSoftmax::exponential(input, false, code - largest))));
        return result;
    });
}

inline ExampleValues multiply_by_quantized_multiplier(const CallArguments& a) {
    const std::int32_t multiplier = a.code("M");
    const int shift = a.code("shift");
    if (a.word("rule") == "int64")
        return values(arith::multiply_by_quantized_multiplier(a.integer("x"), multiplier, shift));
    if (a.word("rule") == "double_rounding")
        return values(arith::multiply_by_quantized_multiplier<arith::double_rounding>(a.code("x"), multiplier, shift));
    if (a.word("rule") != "single_rounding") throw Malformed("there is no rule \"" + a.word("rule") + "\"");
    return values(arith::multiply_by_quantized_multiplier<arith::single_rounding>(a.code("x"), multiplier, shift));
}

// --- section 5 -----------------------------------------------------------------------------------------------------

inline ExampleValues accepts(const CallArguments& a) {
    arith::OperatorUse use{OpKind::none, dtype_of(a.word("input")), dtype_of(a.word("weight")),
                           dtype_of(a.word("output"))};
    for (int kind = 0; kind < static_cast<int>(OpKind::count_); ++kind)
        if (a.word("op") == name_of(static_cast<OpKind>(kind))) use.op = static_cast<OpKind>(kind);
    const index_t kernel = a.integer("kernel"), stride = a.integer("stride"), padding = a.integer("padding");
    use.window = {{kernel, kernel}, {stride, stride}, {padding, padding, padding, padding}, {1, 1}};
    use.channels = a.integer("channels");
    return with_target(a, [&](auto target) -> ExampleValues {
        const Status status = arith::check_constraints(target.policy.constraints, use);
        return status.ok() ? ExampleValues{{ExampleValue::words, "yes"}} : refusal(status);
    });
}

// --- all functions of the page -------------------------------------------------------------------------------------

#define INTQ_EXAMPLE(expression) [](const CallArguments& a) -> ExampleValues { return expression; }

inline const ExampleFunctions& functions() {
    const static ExampleFunctions table{
        {"fl", {"x", INTQ_EXAMPLE(values(static_cast<std::int64_t>(arith::floor(a.real("x")))))}},
        {"rhe", {"x", INTQ_EXAMPLE(values(static_cast<std::int64_t>(arith::round_half_even(a.real("x")))))}},
        {"rhaz", {"x", INTQ_EXAMPLE(values(static_cast<std::int64_t>(arith::round_half_away(a.real("x")))))}},
        {"rhu", {"x", INTQ_EXAMPLE(values(static_cast<std::int64_t>(arith::round_half_up(a.real("x")))))}},
        {"SH_F", {"x n", INTQ_EXAMPLE(values(arith::shift_floor(a.code("x"), a.code("n"))))}},
        {"SH_R", {"x n", INTQ_EXAMPLE(values(arith::shift_half_up(a.code("x"), a.code("n"))))}},
        {"fmul", {"a b", INTQ_EXAMPLE(values(arith::fmul(a.real("a"), a.real("b"))))}},
        {"fdiv", {"a b", INTQ_EXAMPLE(values(arith::fdiv(a.real("a"), a.real("b"))))}},
        {"fadd", {"a b", INTQ_EXAMPLE(values(arith::fadd(a.real("a"), a.real("b"))))}},
        {"ffma", {"a b c", INTQ_EXAMPLE(values(arith::ffma(a.real("a"), a.real("b"), a.real("c"))))}},
        {"bitlen", {"n", INTQ_EXAMPLE(values(arith::bit_length(a.integer("n"))))}},
        {"frexp",
         {"r",
          [](const CallArguments& a) {
              const arith::Frexp parts = arith::frexp(a.number<double>("r"));
              return values(parts.mantissa, parts.exponent);
          }}},
        {"lane_mul", {"a b", INTQ_EXAMPLE(values(scalar_lanes::mul(a.code("a"), a.code("b"))))}},
        {"lane_narrow", {"a", INTQ_EXAMPLE(values(scalar_lanes::narrow(a.integer("a"))))}},
        {"lane_round", {"x", INTQ_EXAMPLE(values(scalar_lanes::round_to_i32(a.real("x"))))}},
        {"lane_to_f32", {"a", INTQ_EXAMPLE(values(scalar_lanes::to_f32(a.code("a"))))}},
        {"lane_min", {"a b", INTQ_EXAMPLE(values(scalar_lanes::min(a.real("a"), a.real("b"))))}},
        {"lane_max", {"a b", INTQ_EXAMPLE(values(scalar_lanes::max(a.real("a"), a.real("b"))))}},

        {"symmetric_scale",
         {"min max qmin=-128 qmax=127 D=half", INTQ_EXAMPLE(values_of(qparams(a, arith::QuantScheme::symmetric),
                                                               [](const auto& q) { return values(q.scale); }))}},
        {"affine_qparams",
         {"min max qmin=-128 qmax=127",
          INTQ_EXAMPLE(values_of(qparams(a, arith::QuantScheme::affine),
                                 [](const auto& q) { return values(q.scale, q.zero_point); }))}},
        {"symmetric_zero_point",
         {"dtype qmin qmax custom=no",
          INTQ_EXAMPLE(values(arith::torch_symmetric_zero_point(dtype_of(a.word("dtype")), a.integer("qmin"),
                                                                a.integer("qmax"), a.word("custom") == "yes")))}},
        {"quantize", {"x s zp=0 dtype=int8 rounding=half_even by=reciprocal", &quantize}},
        {"dequantize", {"q s zp=0", INTQ_EXAMPLE(values(arith::dequantize(a.code("q"), scale_and_zero_point(a))))}},
        {"fake_quantize",
         {"x s zp=0 dtype=int8",
          INTQ_EXAMPLE(values(arith::fake_quantize(a.real("x"), scale_and_zero_point(a), range_of(a))))}},
        {"fake_quantize_gradient",
         {"x dy s zp=0 dtype=int8", INTQ_EXAMPLE(values(arith::fake_quantize_gradient(
                                        a.real("x"), a.real("dy"), scale_and_zero_point(a), range_of(a))))}},
        {"learned_zero_point",
         {"z qmin=-128 qmax=127",
          INTQ_EXAMPLE(values(arith::learnable_zero_point(a.real("z"), a.integer("qmin"), a.integer("qmax"))))}},
        {"learned_gradient", {"x dy s zp=0 g=1 qmin=-128 qmax=127", &learned_gradient}},
        {"dynamic_qparams",
         {"min max qmax=255",
          INTQ_EXAMPLE(values_of(arith::dynamic_qparams(a.real("min"), a.real("max"), a.code("qmax")),
                                 [](const auto& q) { return values(q.scale, q.zero_point); }))}},
        {"dynamic_output",
         {"acc zp weight_sum s_x s_w b",
          INTQ_EXAMPLE(values(arith::dynamic_output(a.code("acc"), a.code("zp"), a.integer("weight_sum"),
                                                    a.real("s_x"), a.real("s_w"), a.real("b"))))}},
        {"histogram_range",
         {"min max",
          [](const CallArguments& a) {
              const auto range = arith::histogram_range(a.real("min"), a.real("max"));
              return values(range.lowest, range.highest);
          }}},
        {"histogram_bin", {"x min max bins", &histogram_bin}},
        {"grid_bin", {"x e", INTQ_EXAMPLE(values(arith::grid_bin(a.real("x"), a.code("e"))))}},
        {"grid_of_range",
         {"min max bins",
          [](const CallArguments& a) {
              const auto grid = arith::grid_of_range(a.real("min"), a.real("max"), a.integer("bins"));
              return values(grid.exponent, grid.first);
          }}},
        {"striped_sum", {"terms", &striped_sum}},

        {"output_codes",
         {"s_out activation zp=0 dtype=int8",
          [](const CallArguments& a) {
              const auto codes = activation_codes(a, "s_out");
              return values(codes.lowest, codes.highest);
          }}},
        {"requantize", {"target s_in s_w s_out acc input=int8 output=int8 zp=0", &requantize}},
        {"linear", {"target s_in s_w s_out acc input=int8 output=int8 zp=0", &linear}},
        {"requantize_code", {"target s_in s_out q input=int8 output=int8 zp_in=0 zp_out=0", &requantize_code}},
        {"quantize_multiplier",
         {"r", INTQ_EXAMPLE(values_of(arith::quantize_multiplier(a.number<double>("r")),
                                      [](const auto& m) { return values(m.multiplier, m.shift); }))}},
        {"reduce_multiplier", {"M", INTQ_EXAMPLE(values(arith::reduce_multiplier_to_16_bits(a.code("M"))))}},
        {"multiply_by_quantized_multiplier", {"rule x M shift", &multiply_by_quantized_multiplier}},
        {"SRDHM", {"a b", INTQ_EXAMPLE(values(scalar_lanes::sqrdmulh(a.code("a"), a.code("b"))))}},
        {"RDBPOT", {"x n", &rdbpot}},
        {"two_stage_params", {"s_acc s_out output=int8 source=accumulator pre_cap=17", &two_stage_params}},
        {"two_stage", {"M pre post acc POST output=int8", &two_stage}},

        {"fold_batch_norm", {"order w b mean var gamma beta eps", &fold_batch_norm}},
        {"raise_weight_scale", {"target s_w b s_in s_e=0 qmin_e=-128 weight=int8", &raise_weight_scale}},
        {"bias_code", {"target b s_in s_w weight=int8", &bias_code}},
        {"sumin_params", {"target s_e s_in s_w dtype=int8", INTQ_EXAMPLE(with_sumin(a, [](const arith::Sumin& s) {
                              return values(s.words[0], s.words[1], s.words[2]);
                          }))}},
        {"sumin_range", {"target s_e s_in s_w dtype=int8", INTQ_EXAMPLE(with_sumin(a, [](const arith::Sumin& s) {
                             return values(s.range.lowest, s.range.highest);
                         }))}},
        {"requantize_with_sumin", {"target s_in s_w s_out acc s_e e zp_e=0 zp=0", &requantize_with_sumin}},
        {"accumulator_range", {"weights x bias=0 sumin=[0,0]", &accumulator_range}},

        {"add", {"target s_x s_y s_out x y dtype=int8 zp_x=0 zp_y=0 zp_out=0", INTQ_EXAMPLE(add_or_sub(a, false))}},
        {"sub", {"target s_x s_y s_out x y dtype=int8 zp_x=0 zp_y=0 zp_out=0", INTQ_EXAMPLE(add_or_sub(a, true))}},
        {"add_coefficients", {"target s_x s_y dtype=int8", &add_coefficients}},
        {"mul", {"target s_x s_y s_out x y dtype=int8 zp_x=0 zp_y=0 zp_out=0", &mul}},
        {"matmul", {"target s_a s_b s_out a b dtype=int8 zp_a=0 zp_b=0 zp_out=0", &matmul}},
        {"matmul_range", {"target n dtype=int8 zp_a=0 zp_b=0", &matmul_range}},
        {"average", {"target s_in s_out cells codes dtype=int8 zp_in=0 zp_out=0 divisor=kernel_cells", &average}},
        {"average_of_values", {"target s_in s_out codes dtype=int8 zp_in=0 zp_out=0", &average_of_values}},
        {"mean", {"target s_in s_out codes dtype=int8 zp_in=0 zp_out=0",
                  INTQ_EXAMPLE(reduction(a, [](const auto&... given) { return arith::make_mean(given...); }))}},
        {"sum", {"target s_in s_out codes dtype=int8 zp_in=0 zp_out=0", INTQ_EXAMPLE(reduction(a, arith::make_sum))}},
        {"clamp_code",
         {"q s activation zp=0 dtype=int8",
          INTQ_EXAMPLE(values(arith::OutputLanes<scalar_lanes>(activation_codes(a, "s")).clamp(a.code("q"))))}},
        {"resize_tap", {"rule d in out", &resize_tap}},
        {"resize_tap_of_values", {"rule d in out", &resize_tap_of_values}},
        {"bilinear_of_values", {"a b c d x y s_in s_out zp_in=0 zp_out=0", &bilinear_of_values}},
        {"resize_by_factor", {"rule origin f d in", &resize_by_factor}},
        {"bilinear", {"a b c d x y", INTQ_EXAMPLE(values(arith::bilinear<scalar_lanes>(
                                         a.code("a"), a.code("b"), a.code("c"), a.code("d"), a.code("x"),
                                         a.code("y"))))}},
        {"fixed_point_softmax_term",
         {"s_in d", INTQ_EXAMPLE(values_of(fixed_point_tables(a),
                                           [&](const auto& t) { return values(t.term[a.integer("d")]); }))}},
        {"fixed_point_softmax", {"s_in x output=int8", &fixed_point_softmax}},
        {"log_of_terms", {"s_in x", &log_of_terms}},
        {"fixed_point_log_softmax", {"s_in x", &fixed_point_log_softmax}},
        {"wide_softmax", {"s_in x", &wide_softmax}},
        {"hard_swish", {"s_in s_out x zp_in=0 zp_out=0", &hard_swish}},
        {"leaky_relu", {"s_in s_out alpha x zp_in=0 zp_out=0", &leaky_relu}},
        {"squared_difference",
         {"s_x s_y s_out x y zp_x=0 zp_y=0 zp_out=0", &squared_difference}},
        {"tflite_entry", {"f s_in s_out x zp_in=0 zp_out=0", &tflite_entry}},
        {"tflite_wide_entry", {"f s_in s_out i", &tflite_wide_entry}},
        {"mean_multiplier",
         {"s_in s_out n", INTQ_EXAMPLE(values_of(
                              arith::make_mean_multiplier(a.real("s_in"), a.real("s_out"), a.integer("n")),
                              [](const auto& m) { return values(m.multiplier, m.shift); }))}},
        {"tflite_nearest_cell", {"d in out corners=no half_pixel=no", &tflite_nearest_cell}},
        {"tflite_bilinear_tap", {"d in out corners=no half_pixel=no", &tflite_bilinear_tap}},
        {"bilinear_of_1024ths", {"a b c d x y", INTQ_EXAMPLE(values(arith::bilinear_of_1024ths<scalar_lanes>(
                                                    a.code("a"), a.code("b"), a.code("c"), a.code("d"), a.code("x"),
                                                    a.code("y"))))}},
        {"tflite_curve_entry", {"i", &tflite_curve_entry}},
        {"tflite_curve", {"f s_in x", &tflite_curve}},
        {"int8_entry", {"f s_in s_out x slope=1 zp_in=0 zp_out=0", &int8_entry}},
        {"float32_entry", {"f s_in s_out x slope=1 zp_in=0 zp_out=0", &float32_entry}},
        {"float32_clamp", {"s_in s_out q low high zp_in=0 zp_out=0", &float32_clamp}},
        {"int16_entry", {"f s_in s_out i slope=1", INTQ_EXAMPLE(with_int16_table(a, [&](const std::int16_t* entries) {
                             return values(entries[a.integer("i")]);
                         }))}},
        {"block_table_size", {"f s_in s_out slope=1", INTQ_EXAMPLE(with_blocks(
                                                          a, [](const std::int16_t*, std::size_t size) {
                                                              return values(size);
                                                          }))}},
        {"block", {"f s_in s_out x slope=1", &block_of}},
        {"block_knot", {"f s_in s_out j slope=1", &block_knot}},
        {"block_look_up", {"f s_in s_out x slope=1", INTQ_EXAMPLE(with_blocks(
                                                         a, [&](const std::int16_t* words, std::size_t) {
                                                             return values(arith::interpolate_blocks<scalar_lanes>(
                                                                 words, a.number<std::int16_t>("x")));
                                                         }))}},
        {"int16_look_up",
         {"f s_in s_out x slope=1", INTQ_EXAMPLE(with_int16_table(a, [&](const std::int16_t* entries) {
              return values(arith::interpolate_table<scalar_lanes>(entries, a.number<std::int16_t>("x")));
          }))}},
        {"softmax_entry", {"s_in d", &softmax_entry}},
        {"softmax_reciprocal",
         {"S",
          [](const CallArguments& a) {
              const auto r = arith::SoftmaxReciprocal::of(static_cast<std::uint64_t>(a.integer("S")));
              return values(r.factor, r.shift);
          }}},
        {"softmax", {"s_in x", &softmax}},
        {"log_of_sum", {"s_in x dtype=int8", &log_of_sum}},
        {"log_softmax", {"s_in x dtype=int8", &log_softmax}},
        {"argmax", {"codes", &argmax}},
        {"argmax_key",
         {"q place", INTQ_EXAMPLE(values(argmax_key_of(a.number<std::int32_t>("q"), a.number<std::int32_t>("place"))))}},
        {"int16_softmax_term", {"s_in d", &int16_softmax_term}},
        {"int16_softmax", {"s_in x", &int16_softmax}},
        {"inverse_root", {"m", INTQ_EXAMPLE(values(arith::inverse_root(a.number<std::uint32_t>("m"))))}},
        {"normalized", {"x epsilon centered=1", &normalized}},
        {"layer_norm", {"target x s_in s_out eps weight bias", &layer_norm}},
        {"accepts", {"target op input output weight=none kernel=1 stride=1 padding=0 channels=1", &accepts}}};
    return table;
}

#undef INTQ_EXAMPLE

}  // namespace intq::test::examples

#endif  // INTQ_TESTS_ARITH_EXAMPLE_FUNCTIONS_HPP
