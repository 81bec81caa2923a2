// SPDX-License-Identifier: MIT
//
// Cases of convolutions and of matrix products.
#ifndef INTQ_TESTS_FUZZ_CASES_PRODUCTS_HPP
#define INTQ_TESTS_FUZZ_CASES_PRODUCTS_HPP

#include "fuzz/cases/drawn.hpp"
#include "kernels/conv_problem.hpp"

namespace intq::test::fuzz {

inline Outcome run_matmul(const KernelTable& table, Draw draw) {
    const Drawn d(draw, table);
    const auto* const row = find(table.matmul, [&](const kernels::MatmulRow& r) { return r.dtype == d.dtype; });
    const index_t rows = draw.extent(1, 20), columns = draw.extent(1, 70),
                  inner = draw.extent(1, draw.one_in(5) ? 300 : 20), matrices = draw.extent(1, 3);
    const arith::CodesOf x = d.codes(draw, draw_scale(draw)), y = d.codes(draw, draw_scale(draw)),
                         z = d.codes(draw, draw_scale(draw));
    const auto params = arith::make_matmul(table.policy(), x, y, z, d.clamp(draw, z), inner);
    if (row == nullptr || !params) return {};
    kernels::MatmulShape shape{rows, columns, inner, {}};
    shape.places[0] = {3, {matrices, rows, inner}, {rows * inner, inner, 1}, 0};
    shape.places[1] = {3, {matrices, columns, inner}, {columns * inner, 1, columns}, 0};
    const index_t image[2] = {matrices * rows * inner, matrices * columns * inner};
    Given a(draw, image[0] * d.element), b(draw, image[1] * d.element);
    Taken to(draw, matrices * rows * columns * d.element);
    GuardedBuffer scratch(static_cast<std::size_t>(kernels::matmul_workspace_size(shape, table.packing, d.dtype)));
    row->run({.params = &*params,
              .shape = &shape,
              .x = {a.bytes(), b.bytes()},
              .image = {image[0], image[1]},
              .y = to.as<std::byte>(),
              .batch = 1,
              .workspace = scratch.as<std::byte>(),
              .executor = &serial});
    return to.outcome();
}

inline ConvShape draw_conv_shape(Draw& draw) {
    ConvShape shape{};
    shape.batch = draw.extent(1, 2);
    const index_t groups = draw.one_in(3) ? draw.extent(2, 40) : 1;
    const bool is_depthwise = groups > 1 && draw.one_in(2);
    shape.groups = groups;
    const index_t most_channels = groups > 1 ? 9 : draw.one_in(4) ? 70 : 20;
    shape.channels = groups * (is_depthwise ? 1 : draw.extent(1, most_channels));
    shape.outputs = groups * (is_depthwise ? 1 : draw.extent(1, groups > 1 ? 9 : 70));
    // Small images mostly: a tail of a tile is as likely, and there are more cases.
    const index_t extent = draw.one_in(8) ? 20 : 5;
    shape.height = draw.extent(1, extent), shape.width = draw.extent(1, extent);
    if (!draw.one_in(3))
        shape.window = {{draw.extent(1, 4), draw.extent(1, 4)},
                        {draw.extent(1, 3), draw.extent(1, 3)},
                        {draw.extent(0, 3), draw.extent(0, 3), draw.extent(0, 3), draw.extent(0, 3)},
                        {draw.extent(1, 3), draw.extent(1, 3)}};
    // The windows of most networks, which backends sum in loops of their own. Vectors of the last pixels reach beyond a
    // narrow image.
    if (is_depthwise && !draw.one_in(3)) {
        const index_t stride = draw.extent(1, 2), before = draw.extent(0, 1), behind = draw.extent(0, 1);
        shape.window = {{3, 3}, {stride, stride}, {before, before, behind, behind}, {1, 1}};
        if (draw.one_in(2)) shape.width = draw.extent(1, 3);
    }
    return shape;
}

inline Outcome run_conv(const KernelTable& table, Draw draw) {
    // A row of the scalar table, by number: every backend of a target has the same ones.
    const kernels::ConvRow& row = table.conv[static_cast<std::size_t>(draw.between(0, 1 << 20)) % table.conv.size()];
    ConvShape shape = draw_conv_shape(draw);
    const ConvKey drawn{row.input,
                        row.weight,
                        row.output,
                        row.has_sumin,
                        row.accumulator_bits,
                        static_cast<Numbers>(draw.between(0, static_cast<int>(Numbers::count_) - 1)),
                        static_cast<BiasKind>(draw.between(0, static_cast<int>(BiasKind::count_) - 1)),
                        row.output == DType::int32 ? Activation::none : static_cast<Activation>(draw.between(0, 2)),
                        table.policy().zero_points && row.input == DType::int8 && draw.one_in(2)};
    const Size2d in{shape.height, shape.width};
    if (output_size(shape.window, in).height < 1 || output_size(shape.window, in).width < 1) return {};
    const ConvKey key = with_given(drawn, table.policy(), draw.bits() >> 1);
    const ConvProblem problem = draw_conv(shape, key, draw.bits());
    const LibraryLayer layer(problem, table.policy());
    const index_t bytes = kernels::packed_conv2d_size(table.packing, layer.spec());
    GuardedBuffer storage(static_cast<std::size_t>(round_up(bytes, buffer_alignment)));
    const auto packed = kernels::pack_conv2d(table.packing, layer.spec(), {storage.as<std::byte>(), bytes});
    if (!packed) return {};
    const auto geometry = kernels::make_conv2d_geometry(shape.window, shape.batch, in);
    if (!geometry) return {};
    const kernels::ConvRow* const found = find_conv(table, *packed);
    if (found == nullptr) return {};
    const index_t scratch = kernels::conv2d_workspace_size(*packed, *geometry);
    GuardedBuffer workspace(static_cast<std::size_t>(round_up(scratch, buffer_alignment)));
    const Bytes x = channels_last_bytes(problem.x, row.input);
    const Bytes e = row.has_sumin ? channels_last_bytes(problem.e, row.input) : Bytes{};
    InputBytes x_bytes(x), e_bytes(e);
    Taken z(draw, shape.batch * shape.outputs * geometry->out_pixels() * size_of(row.output));
    const void* const staged =
        table.stage(*packed, *geometry, x_bytes.data(), {workspace.as<std::byte>(), scratch}, serial);
    found->run({&*packed, &*geometry, staged, row.has_sumin ? e_bytes.data() : nullptr, z.as<std::byte>(), &serial,
                workspace.as<std::byte>()});
    if (!storage.is_intact() || !workspace.is_intact()) return Fault{"wrote around its storage or workspace"};
    return z.outcome();
}

}  // namespace intq::test::fuzz

#endif  // INTQ_TESTS_FUZZ_CASES_PRODUCTS_HPP
