// SPDX-License-Identifier: MIT
//
// ModelSource: the operators of a model that is analysed, and runs that go through them one by one. Layer: analysis
// (docs/workflow.md section 6).
#ifndef INTQ_ANALYSIS_MODELS_MODEL_SOURCE_HPP
#define INTQ_ANALYSIS_MODELS_MODEL_SOURCE_HPP

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "intq/nn/layers/fusion.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// An operator as tables name it.
struct AnalysedOperator {
    std::string mod_name;                    // qualified name of its module; of a function the name of its node
    std::string op_type;                     // "Conv2d", "qat.ConvReLU2d", "FloatFunctional.add", "interpolate"
    std::string node;                        // name of its node in the graph
    std::string call{};                      // "%conv = call_module[conv] (%quant)"
    std::vector<nn::FusedMember> members{};  // the operators fused into it
    std::vector<std::size_t> inputs{};       // operators that it reads, in the order of its operands
    bool has_weight = false;
};

/// A tensor that an operator reads.
struct OperatorInput {
    Tensor tensor{};
    /// The operator whose output it is; none for an input of the model, and for a requantized one.
    std::size_t producer = none;
    static constexpr std::size_t none = static_cast<std::size_t>(-1);
};

/// The inputs and outputs of an operator's call: real values, which carry their qparams if they are on a grid. For an
/// operator with a quantizer, the output is the quantizer's.
struct AnalysedCall {
    std::size_t index = 0;  // of operators()
    std::vector<OperatorInput> inputs{};
    std::vector<Tensor> outputs{};
    std::vector<nn::Named<Tensor>> parameters{};  // "weight", "bias", as the operator took them
};

/// A run of a model on inputs. It goes from operator to operator, and its owner keeps the values that it needs.
class ModelRun {
public:
    virtual INTQ_INLINE ~ModelRun();
    /// Runs the next operator; false at the end of the model.
    virtual bool next(AnalysedCall& call) = 0;
    /// The model's result. Runs to the end first if necessary.
    virtual nn::Value output() = 0;
};

/// The content of an AnalysedModel.
class ModelSource {
public:
    virtual INTQ_INLINE ~ModelSource();
    virtual std::unique_ptr<ModelRun> run(std::vector<nn::Value> inputs) = 0;
    virtual std::vector<std::string> input_names() const = 0;
    /// The model whose quantizers can be switched; null for one that computes on codes.
    virtual INTQ_INLINE nn::ModulePtr module() const;

    const std::vector<AnalysedOperator>& operators() const noexcept { return operators_; }

protected:
    std::vector<AnalysedOperator> operators_;
};

namespace detail {

/// float32 elements in logical order: codes are dequantized and keep their qparams, integers without qparams become
/// numbers.
Tensor real_values(const Tensor& tensor);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_models)

#    include <cstdint>

#    include "intq/io/error.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE ModelRun::~ModelRun() = default;
INTQ_INLINE ModelSource::~ModelSource() = default;
INTQ_INLINE nn::ModulePtr ModelSource::module() const { return nullptr; }

namespace detail {

template <class T> Tensor as_floats(const Tensor& tensor) {
    const Tensor rows = tensor.contiguous();
    Tensor result = Tensor::empty(tensor.shape());
    const auto from = rows.flat<T>();
    const auto to = result.flat<float>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(from[i]);
    return result;
}

INTQ_INLINE Tensor real_values(const Tensor& tensor) {
    const auto& qparams = tensor.qparams();
    switch (tensor.dtype()) {
        case DType::float32:
            return tensor.contiguous();
        case DType::int64:
            return as_floats<std::int64_t>(tensor);
        case DType::float64:
            return as_floats<double>(tensor);
        default:
            break;
    }
    if (qparams) {
        Tensor result = dequantize(tensor, *qparams);
        if (tensor.dtype() != DType::int32) result.set_qparams(qparams);
        return result;
    }
    switch (tensor.dtype()) {
        case DType::int8:
            return as_floats<std::int8_t>(tensor);
        case DType::uint8:
            return as_floats<std::uint8_t>(tensor);
        case DType::int16:
            return as_floats<std::int16_t>(tensor);
        case DType::int32:
            return as_floats<std::int32_t>(tensor);
        default:
            throw Error(std::string("a tensor of ") + name_of(tensor.dtype()) + " cannot be analysed");
    }
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_models)
#endif  // INTQ_ANALYSIS_MODELS_MODEL_SOURCE_HPP
