// SPDX-License-Identifier: MIT
//
// What is measured of a model: classes, agreement, and the values of layers in float and in integers.
#ifndef INTQ_TOOLS_INTQ_EVALUATION_HPP
#define INTQ_TOOLS_INTQ_EVALUATION_HPP

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "options.hpp"

namespace intq_tool {

using intq::index_t;

/// Index of the largest element of each row of (N, classes).
inline std::vector<index_t> classes_of(const Tensor& logits) {
    if (logits.rank() != 2)
        throw intq::Error("the model's output has shape " + intq::to_string(logits.shape()) +
                          ", expected (N, classes)");
    const auto values = logits.flat<float>();
    const auto width = static_cast<std::size_t>(logits.extent(1));
    std::vector<index_t> classes;
    for (std::size_t row = 0; row < static_cast<std::size_t>(logits.extent(0)); ++row) {
        const auto first = values.begin() + static_cast<std::ptrdiff_t>(row * width);
        classes.push_back(std::max_element(first, first + static_cast<std::ptrdiff_t>(width)) - first);
    }
    return classes;
}

inline index_t count_equal(const std::vector<index_t>& a, const std::vector<index_t>& b) {
    index_t equal = 0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) equal += a[i] == b[i] ? 1 : 0;
    return equal;
}

/// SQNR in dB; infinite where all numbers are equal, also where all are 0.
inline double sqnr_of(const Tensor& expected, const Tensor& given) {
    const Tensor a = expected.contiguous(), b = given.contiguous();
    const auto x = a.flat<float>(), y = b.flat<float>();
    if (std::equal(x.begin(), x.end(), y.begin(), y.end())) return std::numeric_limits<double>::infinity();
    return static_cast<double>(intq::numeric_suite::compute_sqnr(x, y));
}

/// The less; NaN is the worst.
inline double worse_sqnr(double a, double b) { return a < b || a != a ? a : b; }

/// Throws for an SQNR that says that nothing was compared.
inline void require_number(const std::string& what, double sqnr) {
    if (sqnr != sqnr)
        throw intq::Error(what,
                          "the SQNR is NaN: on these samples outputs hold NaN or infinity, in float or in integers");
}

/// Values of layers by qualified name, in logical row_major order.
using LayerValues = std::map<std::string, std::vector<float>>;

/// The outputs of every module that a float model calls.
inline LayerValues float_layers(intq::graph::GraphModule& model, const Tensor& images) {
    LayerValues layers;
    const std::vector<intq::nn::Value> inputs{images};
    model.run(inputs, [&](const intq::graph::Node& node, const intq::nn::Value& value) {
        if (!value.is_tensor()) return;
        const Tensor tensor = value.tensor().contiguous();
        const auto values = tensor.flat<float>();
        layers[node.op() == intq::graph::Op::call_module ? node.target() : node.name()].assign(values.begin(),
                                                                                               values.end());
    });
    return layers;
}

/// An instruction of a program as a table shows it.
struct LayerRecord {
    std::string name;
    std::string type;
    std::string dtype;
    std::string scale;
    std::vector<float> values;  // real values, logical row_major order
};

/// The outputs of a program's instructions as real numbers, collected through the instruction hook.
inline std::vector<LayerRecord> integer_layers(const intq::program::OwnedProgram& program, const Tensor& images) {
    std::vector<LayerRecord> records;
    const auto hook = [](void* context, const intq::runtime::Program& p, index_t index, const void* output,
                         index_t batch) {
        const intq::runtime::Instruction& instruction = p.instructions[static_cast<std::size_t>(index)];
        const intq::runtime::ProgramTensor& tensor = p.tensor(instruction.output);
        if (instruction.op == intq::OpKind::layout_change) return;
        intq::OwnedQParams qparams = intq::OwnedQParams::per_tensor(tensor.qparams.scale(), tensor.dtype);
        const bool is_per_channel = tensor.qparams.is_per_channel();
        if (!is_per_channel) qparams.zero_points = {tensor.qparams.zero_point()};
        if (is_per_channel) {
            std::vector<float> scales;
            for (index_t c = 0; c < tensor.qparams.count(); ++c) scales.push_back(tensor.qparams.scale(c));
            qparams = intq::OwnedQParams::per_channel(scales, tensor.channel_axis(), tensor.dtype);
        }
        intq::Shape shape = tensor.shape;
        shape[0] = batch;
        Tensor codes = Tensor::empty(shape, tensor.dtype, tensor.layout);
        std::memcpy(codes.data(), output, static_cast<std::size_t>(codes.bytes()));
        const bool is_real = tensor.dtype == intq::DType::float32;
        const Tensor real = is_real ? codes.contiguous() : intq::dequantize(codes.contiguous(), qparams);
        const auto values = real.flat<float>();
        auto& all = *static_cast<std::vector<LayerRecord>*>(context);
        all.push_back({instruction.name,
                       instruction.type,
                       name_of(tensor.dtype),
                       is_real          ? "-"
                       : is_per_channel ? "per channel"
                                        : digits("%.7g", static_cast<double>(tensor.qparams.scale())),
                       {values.begin(), values.end()}});
    };
    program.run(images, intq::serial, {hook, &records});
    return records;
}

}  // namespace intq_tool

#endif  // INTQ_TOOLS_INTQ_EVALUATION_HPP
