// SPDX-License-Identifier: MIT
//
// Oracle: a quantized network as a list of layers, and the codes of every layer from float inputs.
// The description is filled by a test from a lowered model; the evaluation knows only docs/arithmetic.md.
// Layer: tests/reference (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_PROGRAM_HPP
#define INTQ_TESTS_REFERENCE_PROGRAM_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "layers.hpp"

namespace intq_reference {

enum class Op {
    quantize,  // real input -> codes of `out`
    conv2d,    // inputs[0], and inputs[1] = operand of the fused add when weighted.sumin is set
    linear,    // as conv2d
    add,       // inputs[0] + inputs[1], then `activation`
    sub,       // inputs[0] - inputs[1], then `activation`
    mul,       // inputs[0] · inputs[1], then `activation`
    relu,      // keeps the input's qparams
    relu6,     // keeps the input's qparams
    max_pool,  // `pool`; keeps the input's qparams
    avg_pool,  // `pool`
    global_avg_pool,
    cat,         // over channels
    flatten,     // keeps the input's qparams
    requantize,  // codes -> codes of `out`
    dequantize   // codes -> real numbers; the result has reals and no codes
};

/// One layer. Fields that an operator does not name above are not read.
struct Layer {
    Op op = Op::quantize;
    std::string name;         // for messages
    std::vector<int> inputs;  // indices of earlier layers; for quantize one index into the real inputs
    QParams out;              // of the result; ignored where an operator keeps its input's, and by dequantize
    Activation activation = Activation::none;  // clamp fused behind conv2d, linear, add, sub, mul
    bool has_sumin = false;                    // conv2d, linear: a fused add of inputs[1]
    WeightedLayer weighted;  // conv2d, linear: weights and geometry; in, out, sumin and activation are filled in
    Pool2d pool;
};

/// What a layer gave. Exactly one of `codes` and `reals` is filled.
struct LayerResult {
    Tensor codes;
    RealTensor reals;
    QParams qparams;
    std::vector<float> scale;  // qparams.scale; for an int32 output the accumulator's scale of each channel
};

inline LayerResult of_codes(Tensor codes, const QParams& q) {
    LayerResult result;
    result.codes = std::move(codes);
    result.qparams = q;
    result.scale = {q.scale};
    return result;
}

inline LayerResult evaluate_weighted(const Target& target, const Layer& layer,
                                     const std::vector<const LayerResult*>& in) {
    WeightedLayer w = layer.weighted;
    w.in = in.at(0)->qparams;
    w.out = layer.out;
    w.activation = layer.activation;
    w.sumin.reset();
    const Tensor* operand = nullptr;
    if (layer.has_sumin) {
        w.sumin = in.at(1)->qparams;
        operand = &in.at(1)->codes;
    }
    const Tensor& x = in.at(0)->codes;
    LayerResult result =
        of_codes(layer.op == Op::conv2d ? conv2d(target, w, x, operand) : linear(target, w, x, operand), layer.out);
    if (layer.out.bits == 32) {
        result.scale = make_weights(target, w).s_acc;
    }
    return result;
}

/// Codes of another grid. Of fp32, int8 to int8, they are ONNX's QuantizeLinear of DequantizeLinear in float32.
inline Tensor on_grid(const Target& target, const Tensor& x, const QParams& in, const QParams& out) {
    if (target.kind != Target::Kind::fp32 || in.bits != 8 || out.bits != 8) {
        return requantize(target, x, in, out);
    }
    Tensor result = x;
    for (std::int64_t& code : result.codes) {
        code = quantize(dequantize(code, in), out, {QuantizeRounding::half_even, QuantizeBy::divide});
    }
    return result;
}

inline LayerResult evaluate_cat(const Target& target, const Layer& layer, const std::vector<const LayerResult*>& in) {
    std::vector<Tensor> tensors;
    std::vector<QParams> qparams;
    for (const LayerResult* one : in) {
        tensors.push_back(on_grid(target, one->codes, one->qparams, layer.out));
        qparams.push_back(layer.out);
    }
    return of_codes(cat(target, tensors, qparams, layer.out), layer.out);
}

inline LayerResult evaluate_binary(const Target& target, const Layer& layer,
                                   const std::vector<const LayerResult*>& in) {
    const Binary op = layer.op == Op::add ? Binary::add : layer.op == Op::sub ? Binary::sub : Binary::mul;
    return of_codes(binary(target, op, in.at(0)->codes, in.at(0)->qparams, in.at(1)->codes, in.at(1)->qparams,
                           layer.out, layer.activation),
                    layer.out);
}

/// Keeps the qparams; the scales of an int32 input are repeated, one for each of the new channels.
inline LayerResult evaluate_flatten(const LayerResult& in) {
    LayerResult result = of_codes(flatten(in.codes), in.qparams);
    if (in.scale.size() > 1) {
        result.scale.clear();
        for (const float one : in.scale) {
            result.scale.insert(result.scale.end(), static_cast<std::size_t>(in.codes.h * in.codes.w), one);
        }
    } else {
        result.scale = in.scale;
    }
    return result;
}

/// One layer whose inputs are codes.
inline LayerResult evaluate_layer(const Target& target, const Layer& layer, const std::vector<const LayerResult*>& in) {
    const LayerResult& first = *in.at(0);
    const Tensor& x = first.codes;
    const QParams& q = first.qparams;
    switch (layer.op) {
        case Op::conv2d:
        case Op::linear:
            return evaluate_weighted(target, layer, in);
        case Op::add:
        case Op::sub:
        case Op::mul:
            return evaluate_binary(target, layer, in);
        case Op::relu:
            return of_codes(activate(target, x, q, Activation::relu), q);
        case Op::relu6:
            return of_codes(activate(target, x, q, Activation::relu6), q);
        case Op::max_pool:
            return of_codes(max_pool(target, x, q, layer.pool), q);
        case Op::avg_pool:
            return of_codes(avg_pool(target, x, q, layer.out, layer.pool), layer.out);
        case Op::global_avg_pool:
            return of_codes(global_avg_pool(target, x, q, layer.out), layer.out);
        case Op::cat:
            return evaluate_cat(target, layer, in);
        case Op::flatten:
            return evaluate_flatten(first);
        case Op::requantize:
            return of_codes(on_grid(target, x, q, layer.out), layer.out);
        case Op::dequantize: {
            LayerResult result;
            result.reals = dequantize(x, q, first.scale);
            return result;
        }
        case Op::quantize:
            break;
    }
    throw std::invalid_argument("oracle: no such operator");
}

/// Runs the layers in order. @return one result a layer
/// A refusal or a misuse is rethrown as the same type with the layer's name in front.
inline std::vector<LayerResult> evaluate(const Target& target, const std::vector<Layer>& layers,
                                         const std::vector<RealTensor>& inputs) {
    std::vector<LayerResult> results;
    for (const Layer& layer : layers) {
        try {
            if (layer.op == Op::quantize) {
                const RealTensor& x = inputs.at(static_cast<std::size_t>(layer.inputs.at(0)));
                results.push_back(of_codes(quantize(target, x, layer.out), layer.out));
                continue;
            }
            std::vector<const LayerResult*> in;
            for (const int index : layer.inputs) {
                in.push_back(&results.at(static_cast<std::size_t>(index)));
            }
            LayerResult result = evaluate_layer(target, layer, in);
            results.push_back(std::move(result));
        } catch (const Refused& error) {
            throw Refused(layer.name + ": " + error.what());
        } catch (const std::invalid_argument& error) {
            throw std::invalid_argument(layer.name + ": " + error.what());
        }
    }
    return results;
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_PROGRAM_HPP
