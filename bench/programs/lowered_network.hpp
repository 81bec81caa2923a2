// SPDX-License-Identifier: MIT
//
// A network as the library's own workflow lowers it, in memory that runs reuse.
#ifndef INTQ_BENCH_PROGRAMS_LOWERED_NETWORK_HPP
#define INTQ_BENCH_PROGRAMS_LOWERED_NETWORK_HPP

#include <memory>
#include <string>

#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "models/random_layers.hpp"
#include "support/network.hpp"

namespace intq_bench {

class LoweredNetwork {
public:
    /// Fuses, calibrates on one random image, converts to int8 and lowers, with all channels, which peers compute too.
    ///
    /// @param image  the image's shape
    LoweredNetwork(std::string name, const intq::nn::Module& model, const intq::Shape& image,
                   const intq::kernels::KernelTable& table)
        : name_(std::move(name)), image_(RandomLayers(1).normal(image, 0.0, 1.0)) {
        using namespace intq::quantization;
        const auto prepared = prepare_calibration_fx(model, get_default_qconfig_mapping(), table.policy());
        calibrate(*prepared, image_, 1);
        program_ = lower(convert_fx(*prepared), table, {.constant_channels = intq::program::ConstantChannels::keep})
                       .shared_program();
    }

    const std::string& name() const noexcept { return name_; }
    const intq::runtime::Program& program() const noexcept { return program_->program(); }
    const intq::kernels::KernelTable& table() const noexcept { return program_->table(); }

    /// One image through the program, as a user calls it.
    void run(const intq::Executor& executor, intq::runtime::InstructionHook hook = {}) const {
        output_ = program_->run(image_, executor, hook);
    }

    /// What the last run returned.
    std::string output() const {
        return {reinterpret_cast<const char*>(output_.data()), static_cast<std::size_t>(output_.bytes())};
    }

    /// The layers for other libraries.
    Network description() const;

private:
    std::string name_;
    intq::Tensor image_;
    std::shared_ptr<intq::program::OwnedProgram> program_;
    mutable intq::Tensor output_;
};

/// A layer of the program in the words of the files of shapes.
LayerShape shape_of(const intq::runtime::Program& program, const intq::runtime::Instruction& instruction);

// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

/// From the class of a fused layer: "ConvAddReLU62d" and "LinearReLU6" end in a clamp to 6.
inline intq::Activation activation_of(const std::string& type) {
    if (type.find("ReLU62d") != std::string::npos || type.find("ReLU6") == type.size() - 5)
        return intq::Activation::relu6;
    return type.find("ReLU") != std::string::npos ? intq::Activation::relu : intq::Activation::none;
}

}  // namespace detail

inline LayerShape shape_of(const intq::runtime::Program& program, const intq::runtime::Instruction& instruction) {
    const intq::Shape& in = program.tensor(program.operands_of(instruction)[0]).shape;
    LayerShape shape;
    shape.op = instruction.op;
    shape.name = instruction.name;
    shape.channels = in[1];
    if (in.rank == 4) shape.in = {in[2], in[3]};
    shape.outputs = program.tensor(instruction.output).shape[1];
    if (instruction.op == intq::OpKind::conv2d || instruction.op == intq::OpKind::linear) {
        shape.window = instruction.params_as<intq::kernels::ConvParams>().packed.window;
        shape.groups = instruction.params_as<intq::kernels::ConvParams>().packed.groups;
    } else if (instruction.op == intq::OpKind::max_pool2d || instruction.op == intq::OpKind::avg_pool2d) {
        shape.window = instruction.params_as<intq::kernels::PoolParams>().window;
    }
    return shape;
}

inline Network LoweredNetwork::description() const {
    Network network{name_, {}};
    for (const intq::runtime::Instruction& instruction : program().instructions) {
        const auto operands = program().operands_of(instruction);
        NetworkStep step;
        step.name = instruction.name;
        step.shape = shape_of(program(), instruction);
        step.activation = detail::activation_of(instruction.type);
        step.input = operands[0];
        step.sumin = operands.size() > 1 ? operands[1] : -1;
        step.output = instruction.output;
        network.steps.push_back(step);
    }
    return network;
}

}  // namespace intq_bench

#endif  // INTQ_BENCH_PROGRAMS_LOWERED_NETWORK_HPP
