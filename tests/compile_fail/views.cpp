// SPDX-License-Identifier: MIT
//
// Misuses of the operators on views that the compiler refuses.
#include "intq/kernels/views/views.hpp"

#include "intq/arith/fp32.hpp"

using namespace intq;

int main() {
    static std::int8_t memory[3][8] = {};
    static std::int16_t wide[8] = {};
    const TensorView<std::int8_t, 2> x(memory[0], {2, 4}), y(memory[1], {2, 4}), out(memory[2], {2, 4});
    const TensorView<const std::int8_t, 2> reader = out;
    const TensorView<const std::int8_t, 2, strided> gaps(memory[0], {2, 2}, {4, 2});
    const TensorView<std::int16_t, 2> sixteen(wide, {2, 4});
    const auto plus = kernels::make_add<target::fp32>({0.5f}, {0.5f}, {1.0f});
    const auto tables = kernels::make_softmax<target::fp32>({0.5f});
    kernels::add<target::fp32>(x, y, *plus, out);

#if INTQ_MISUSE == 1
    // expect(1): satisfaction of .{1,3}CodeOutput<|does not satisfy .{1,3}CodeOutput|.{1,3}CodeOutput<.* evaluated to
    // false
    kernels::add<target::fp32>(x, y, *plus, reader);
#elif INTQ_MISUSE == 2
    // expect(2): satisfaction of .{1,3}CodeView<|does not satisfy .{1,3}CodeView|.{1,3}CodeView<.* evaluated to false
    kernels::requantize<target::fp32>(gaps, {}, out);
#elif INTQ_MISUSE == 3
    // expect(3): satisfaction of .{1,3}SameCodes<|does not satisfy .{1,3}SameCodes|.{1,3}SameCodes<.* evaluated to
    // false
    kernels::add<target::fp32>(x, y, *plus, sixteen);
#elif INTQ_MISUSE == 4
    // expect(4): satisfaction of .{1,3}CodeImage<|does not satisfy .{1,3}CodeImage|.{1,3}CodeImage<.* evaluated to
    // false
    kernels::max_pool2d(x, Window2d{}, out);
#elif INTQ_MISUSE == 5
    // expect(5): softmax: x must be int8 codes and out int16 codes; use requantize.. for other types
    kernels::softmax<target::fp32>(x, *tables, 1, out);
#endif
    kernels::softmax<target::fp32>(reader, *tables, 1, sixteen);
    return gaps(0, 0) + (plus.ok() ? 0 : 1);
}
