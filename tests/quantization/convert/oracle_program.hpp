// SPDX-License-Identifier: MIT
//
// A converted model in the oracle's words: real weights of the fused float model, scales of the edges.
#ifndef INTQ_TESTS_QUANTIZATION_ORACLE_PROGRAM_HPP
#define INTQ_TESTS_QUANTIZATION_ORACLE_PROGRAM_HPP

#include <map>
#include <string>
#include <vector>

#include "intq/graph/graph_module.hpp"
#include "intq/nn/layers/weighted.hpp"
#include "intq/quantization/operators/conv.hpp"
#include "intq/quantization/operators/elementwise.hpp"
#include "intq/quantization/operators/move.hpp"
#include "intq/quantization/operators/operator_table.hpp"
#include "intq/quantization/operators/pool.hpp"
#include "intq/quantization/operators/quantize.hpp"
#include "kernels/oracle_bridge.hpp"
#include "reference/program.hpp"
#include "support/catch.hpp"

namespace intq::test {

inline oracle::QParams oracle_qparams(const quantization::QuantizedTensor& tensor) {
    if (tensor.dtype == DType::int32) return oracle::int32();
    const intq::OwnedQParams& q = tensor.qparams;
    return {q.scale(), q.zero_points.empty() ? 0 : q.zero_points[0], bits_of(tensor.dtype), q.quant_min, q.quant_max};
}

/// Fills one layer of the oracle from one step. The oracle raises and quantizes the weights itself.
class OracleLayerMaker {
public:
    OracleLayerMaker(const quantization::QuantizedGraph& quantized, nn::Module& fused)
        : quantized_(quantized), fused_(fused) {}

    std::vector<oracle::Layer> run() {
        for (const quantization::QuantizedNode& node : quantized_.nodes) {
            oracle::Layer layer;
            layer.name = node.name;
            if (node.as<quantization::QuantizeStep>() == nullptr)
                for (const int input : node.inputs) layer.inputs.push_back(made_by_.at(input));
            else
                layer.inputs = {0};
            const quantization::QuantizedTensor& out = quantized_.output(node);
            if (out.dtype != DType::float32) layer.out = oracle_qparams(out);
            fill(layer, node);
            made_by_[node.output] = static_cast<int>(layers_.size());
            layers_.push_back(layer);
        }
        return layers_;
    }

private:
    using Node = quantization::QuantizedNode;
    void fill(oracle::Layer& layer, const Node& node) {
        if (node.as<quantization::QuantizeStep>() != nullptr) {
            layer.op = oracle::Op::quantize;
        } else if (node.as<quantization::DequantizeStep>() != nullptr) {
            layer.op = oracle::Op::dequantize;
        } else if (node.as<quantization::RequantizeStep>() != nullptr) {
            layer.op = oracle::Op::requantize;
        } else if (const auto* add = node.as<quantization::AddStep>()) {
            layer.op = add->kind() == OpKind::sub ? oracle::Op::sub : oracle::Op::add;
            layer.activation = for_oracle(add->activation());
        } else if (const auto* clamp = node.as<quantization::ClampStep>()) {
            layer.op = clamp->activation() == Activation::relu6 ? oracle::Op::relu6 : oracle::Op::relu;
        } else if (const auto* max_pool = node.as<quantization::MaxPoolStep>()) {
            layer.op = oracle::Op::max_pool;
            layer.pool = pool_of(max_pool->window(), PoolDivisor::kernel_cells);
        } else if (const auto* average = node.as<quantization::AvgPoolStep>()) {
            layer.op = oracle::Op::avg_pool;
            layer.pool = pool_of(average->window(), average->divisor());
        } else if (node.as<quantization::CatStep>() != nullptr) {
            layer.op = oracle::Op::cat;
        } else if (node.as<quantization::FlattenStep>() != nullptr) {
            layer.op = oracle::Op::flatten;
        } else if (const auto* weighted = node.as<quantization::WeightedStep>()) {
            fill(layer, node, *weighted);
        } else {
            FAIL("a step that the oracle does not know: " << node.name);
        }
    }

    void fill(oracle::Layer& layer, const Node& node, const quantization::WeightedStep& step) {
        layer.op = step.op == OpKind::linear ? oracle::Op::linear : oracle::Op::conv2d;
        layer.activation = for_oracle(step.activation);
        layer.has_sumin = step.sumin;
        const auto& real = dynamic_cast<const nn::Weighted&>(fused_.find(node.module));
        oracle::Weights& weights = layer.weighted.weights;
        const intq::Tensor values = real.weight().contiguous();
        weights.out_channels = values.extent(0);
        weights.in_channels = values.extent(1);
        weights.kernel_h = values.rank() == 4 ? values.extent(2) : 1;
        weights.kernel_w = values.rank() == 4 ? values.extent(3) : 1;
        weights.real.assign(values.flat<float>().begin(), values.flat<float>().end());
        weights.bits = bits_of(step.weight_qparams.dtype);
        weights.qmin = step.weight_qparams.quant_min;
        weights.qmax = step.weight_qparams.quant_max;
        weights.scale = oracle::weight_scales(weights, true);
        if (const intq::Tensor bias = real.bias(); bias.defined())
            weights.bias_real.assign(std::as_const(bias).flat<float>().begin(),
                                     std::as_const(bias).flat<float>().end());
        const Window2d& w = step.window;
        layer.weighted.stride_h = w.stride.height, layer.weighted.stride_w = w.stride.width;
        layer.weighted.dilation_h = w.dilation.height, layer.weighted.dilation_w = w.dilation.width;
        layer.weighted.pad_top = w.padding.top, layer.weighted.pad_left = w.padding.left;
        layer.weighted.pad_bottom = w.padding.bottom, layer.weighted.pad_right = w.padding.right;
        layer.weighted.groups = step.groups;
    }

    static oracle::Pool2d pool_of(const Window2d& w, PoolDivisor divisor) {
        oracle::Pool2d pool;
        pool.kernel_h = w.kernel.height, pool.kernel_w = w.kernel.width;
        pool.stride_h = w.stride.height, pool.stride_w = w.stride.width;
        pool.dilation_h = w.dilation.height, pool.dilation_w = w.dilation.width;
        pool.pad_top = w.padding.top, pool.pad_left = w.padding.left;
        pool.pad_bottom = w.padding.bottom, pool.pad_right = w.padding.right;
        pool.count_include_pad = divisor == PoolDivisor::kernel_cells;
        return pool;
    }

    const quantization::QuantizedGraph& quantized_;
    nn::Module& fused_;
    std::map<int, int> made_by_;
    std::vector<oracle::Layer> layers_;
};

inline oracle::RealTensor oracle_tensor(const intq::Tensor& images) {
    oracle::RealTensor real;
    const intq::Tensor rows = images.contiguous();
    real.values.assign(rows.flat<float>().begin(), rows.flat<float>().end());
    real.n = images.extent(0), real.c = images.extent(1), real.h = images.extent(2), real.w = images.extent(3);
    return real;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_QUANTIZATION_ORACLE_PROGRAM_HPP
