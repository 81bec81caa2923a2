// SPDX-License-Identifier: MIT
//
// Networks for the plans of rows, and the arena that such a plan leaves.
#ifndef INTQ_TESTS_PROGRAM_ROW_NETWORKS_HPP
#define INTQ_TESTS_PROGRAM_ROW_NETWORKS_HPP

#include <algorithm>
#include <string_view>
#include <vector>

#include "intq/program/lifetimes.hpp"
#include "intq/program/row_plan.hpp"
#include "program/dropped_network.hpp"

namespace intq::test {

inline Window2d row_window(index_t kernel, index_t stride) {
    const index_t padding = kernel / 2;
    return {{kernel, kernel}, {stride, stride}, {padding, padding, padding, padding}, {1, 1}};
}

/// A multiple of eight channels, as Sandler et al. 2018 scale them.
inline index_t scaled(index_t channels, double width) {
    const double wanted = static_cast<double>(channels) * width;
    auto rounded = (std::max)(index_t{8}, static_cast<index_t>(wanted + 4) / 8 * 8);
    if (static_cast<double>(rounded) < 0.9 * wanted) rounded += 8;
    return rounded;
}

/// MobileNetV2, on square images of real numbers.
inline Network mobilenet_v2(const arith::PolicyRecord& policy, double width, index_t size) {
    NetworkMaker maker(policy, DType::int8, 1);
    int x = maker.conv(maker.input(3, {size, size}), scaled(32, width), row_window(3, 2));
    struct Stage {
        index_t expansion, channels, blocks, stride;
    };
    for (const Stage& stage : {Stage{1, 16, 1, 1}, Stage{6, 24, 2, 2}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2},
                               Stage{6, 96, 3, 1}, Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}})
        for (index_t block = 0; block < stage.blocks; ++block) {
            const int in = x;
            const index_t channels = maker.at(x).channels, out = scaled(stage.channels, width);
            const index_t stride = block == 0 ? stage.stride : 1, wide = channels * stage.expansion;
            if (stage.expansion > 1) x = maker.conv(x, wide, row_window(1, 1));
            x = maker.conv(x, wide, row_window(3, stride), wide);
            x = maker.conv(x, out, row_window(1, 1));
            if (stride == 1 && channels == out) x = maker.binary(OpKind::add, x, in);
        }
    x = maker.conv(x, 1280, row_window(1, 1));
    x = maker.avg_pool(x, {maker.at(x).size, {1, 1}, {}, {1, 1}});
    return maker.finish({maker.linear(maker.flatten(x), 10)}, true);
}

/// The bytes of the arena of a program whose inputs its caller gives, as a generated header's are.
inline index_t arena_of_header(const runtime::Program& whole, const kernels::KernelTable& table, index_t most) {
    std::vector<runtime::Instruction> instructions(whole.instructions.begin(), whole.instructions.end());
    std::vector<runtime::ProgramTensor> tensors(whole.tensors.begin(), whole.tensors.end());
    runtime::Program program = whole;
    program.instructions = instructions;
    program.tensors = tensors;
    for (std::size_t i = 0; i < program.inputs.size(); ++i)
        tensors[static_cast<std::size_t>(program.inputs[i])].offset = kernels::offset_of_given(static_cast<index_t>(i));
    const program::RowPlan plan = program::plan_rows(program, table, {program::RowMode::memory, most});
    plan.apply(instructions, tensors);
    program.groups = plan.groups;
    program::place_in_arena(program, tensors, table);
    CHECK(runtime::check_program(program, table).ok());
    return program.arena_size;
}

/// Images of random numbers, as a network takes them.
inline std::vector<intq::Tensor> inputs_of(const Network& network, index_t random_images, Dice& dice) {
    std::vector<intq::Tensor> inputs;
    for (const int input : network.inputs) {
        inputs.push_back(images_of(network.tensor(input), random_images, dice));
        if (!network.has_real_ends) continue;
        intq::Tensor real = intq::Tensor::empty(inputs.back().shape());
        for (float& value : real.flat<float>()) value = static_cast<float>(dice.between(-1000, 1000)) * 0.01f;
        inputs.back() = real;
    }
    return inputs;
}

/// Checks that MobileNetV2 fits into an arena on the boards' backends, and that an arena which may be larger is kept.
inline void check_arena_of_mobilenet_v2(double width, index_t size, index_t most) {
    for (const BackendTables& backend : board_tables())
        for (const kernels::KernelTable* table : backend.tables) {
            if (std::string_view(table->policy().name) != "tflite") continue;
            INFO(backend.name);
            const NetworkProgram whole = build(mobilenet_v2(table->policy(), width, size), *table, 1);
            CHECK(arena_of_header(whole.program->program(), *table, 0) <= most);
            CHECK(arena_of_header(whole.program->program(), *table, most) <= most);
        }
}

}  // namespace intq::test

#endif  // INTQ_TESTS_PROGRAM_ROW_NETWORKS_HPP
