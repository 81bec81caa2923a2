// SPDX-License-Identifier: MIT
//
// RESIZE_NEAREST_NEIGHBOR, RESIZE_BILINEAR, PAD, PADV2 and MIRROR_PAD. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_RESIZE_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_RESIZE_HPP

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void resize_nearest_neighbor(OperatorImport& node);
void resize_bilinear(OperatorImport& node);
void pad(OperatorImport& node);
void mirror_pad(OperatorImport& node);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <algorithm>
#    include <cstdint>
#    include <span>
#    include <string>
#    include <vector>

#    include "intq/arith/resize.hpp"
#    include "intq/arith/tflite_functions.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/core/workspace.hpp"
#    include "intq/interop/tflite/internal/nodes/options.hpp"
#    include "intq/interop/tflite/internal/operators/elementwise.hpp"
#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/interop/tflite/internal/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/operators/resize.hpp"
#    include "intq/program/program_builder.hpp"
#    include "intq/quantization/operators/resize.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

INTQ_INLINE void fill_taps(index_t in, std::span<arith::ResizeTap> taps, arith::Blend blend, ResizePlaces places) {
    const auto out = static_cast<index_t>(taps.size());
    for (index_t d = 0; d < out; ++d) {
        arith::ResizeTap& tap = taps[static_cast<std::size_t>(d)];
        if (blend == arith::Blend::nearest) {
            const auto cell =
                static_cast<std::int32_t>(arith::tflite_nearest_cell(d, in, out, places.corners, places.half_pixel));
            tap = {cell, cell, 0};
        } else {
            const auto made = arith::tflite_bilinear_tap(d, in, out, places.corners, places.half_pixel);
            if (!made)
                throw Error("the " + std::to_string(out) + " cells along an axis of " + std::to_string(in) +
                            " are so many that LiteRT reads beyond the image");
            tap = *made;
        }
    }
}

INTQ_INLINE void resize(OperatorImport& node, arith::Blend blend, ResizePlaces places) {
    node.require_inputs(2, 2);
    node.require_same_qparams(node.input(), node.output());
    const Dims in = node.dims(), out = node.output_dims();
    const auto size = node.integers(1);
    if (in.size() != 4 || out.size() != 4 || size.size() != 2 || size[0] != out[1] || size[1] != out[2] ||
        count_of(in) < 1 || count_of(out) < 1)
        throw Error("an image of shape " + describe_dims(in) + " cannot become one of shape " + describe_dims(out));
    if ((std::max)({in[1], in[2], out[1], out[2]}) > arith::largest_resized)
        throw Error("an extent is beyond " + std::to_string(arith::largest_resized));
    const std::int32_t x = node.x();
    const Workspace memory =
        node.builder().new_buffer((out[1] + out[2]) * static_cast<index_t>(sizeof(arith::ResizeTap)));
    const std::span<arith::ResizeTap> taps(reinterpret_cast<arith::ResizeTap*>(memory.data),
                                           static_cast<std::size_t>(out[1] + out[2]));
    kernels::ResizeTable table;
    table.in = {in[1], in[2]};
    table.blend = blend;
    const auto rows = taps.first(static_cast<std::size_t>(out[1])),
               columns = taps.subspan(static_cast<std::size_t>(out[1]));
    fill_taps(in[1], rows, blend, places);
    fill_taps(in[2], columns, blend, places);
    table.rows = rows;
    table.columns = columns;
    const program::LayerName name = node.layer();
    const kernels::ArenaTensor from = node.builder().at(x);
    node.builder().check_use({OpKind::interpolate, from.dtype, DType::none, from.dtype}, name);
    const Shape shape(from.shape[0], from.shape[1], out[1], out[2]);
    node.set(node.builder().push(OpKind::interpolate, {x}, node.builder().tensor(from.dtype, shape, from.qparams, name),
                                 node.builder().keep_params(table), name));
}

INTQ_INLINE void resize_nearest_neighbor(OperatorImport& node) {
    resize(node, arith::Blend::nearest, resize_places<fields::ResizeNearest>(node.options()));
}

INTQ_INLINE void resize_bilinear(OperatorImport& node) {
    const auto places = resize_places<fields::ResizeBilinear>(node.options());
    if (places.corners && places.half_pixel)
        throw Error("it has align_corners and half_pixel_centers, of which LiteRT takes one");
    resize(node, arith::Blend::of_1024ths, places);
}

/// Cells before and behind an axis, as an image whose columns are that axis.
/// @param is_last  whether it writes the output; else the result is named after its axis
INTQ_INLINE std::int32_t pad_axis(OperatorImport& node, std::int32_t x, Dims& dims, std::size_t axis,
                                  const Padding2d& columns, std::int32_t fill, bool is_last) {
    const std::string part = "axis" + std::to_string(axis);
    index_t rows = 1, channels = 1;
    for (std::size_t i = 1; i < axis; ++i) rows *= dims[i];
    for (std::size_t i = axis + 1; i < dims.size(); ++i) channels *= dims[i];
    const std::int32_t image = node.reshaped(x, {dims[0], rows, dims[axis], channels}, ("as_image_of_" + part).c_str());
    dims[axis] += columns.left + columns.right;
    return quantization::add_pad(node.builder(), image, {columns, {1, 1}, fill},
                                 node.layer(is_last ? nullptr : part.c_str()));
}

/// The code of the padding: the zero point, or PADV2's value.
INTQ_INLINE std::int32_t fill_of(const OperatorImport& node) {
    if (!node.has(2)) return node.qparams(node.input()).zero_points[0];
    const FileTensor& fill = node.input(2);
    if (!fill.is_constant() || fill.size() != 1) throw Error("its value " + in_quotes(fill.name) + " is no constant");
    node.require_same_qparams(node.input(), fill);
    return constant_codes(fill)[0];
}

/// Cells that are added to an axis.
struct Ends {
    index_t before = 0, behind = 0;
    index_t sum() const { return before + behind; }
};

/// The cells of each axis, from PAD's second input. Samples get none.
INTQ_INLINE std::vector<Ends> amounts_of(const OperatorImport& node) {
    const auto amounts = node.integers(1);
    const auto added = static_cast<std::size_t>(node.added_axes());
    const std::size_t rank = node.dims().size();
    if (amounts.size() + 2 * added != 2 * rank)
        throw Error("it has " + std::to_string(amounts.size()) + " amounts for " + std::to_string(rank - added) +
                    " axes");
    for (const std::int64_t amount : amounts)
        if (amount < 0 || amount > largest_window)
            throw Error("an amount of " + std::to_string(amount) + " is not between 0 and 2^24");
    std::vector<Ends> around(rank);
    for (std::size_t axis = added; axis < rank; ++axis)
        around[axis] = {static_cast<index_t>(amounts[2 * (axis - added)]),
                        static_cast<index_t>(amounts[2 * (axis - added) + 1])};
    if (around[0].sum() != 0) throw Error("samples cannot be padded");
    return around;
}

/// The last padded axis; 0 without one.
INTQ_INLINE std::size_t last_padded(const std::vector<Ends>& around) {
    std::size_t last = around.size() - 1;
    while (last > 0 && around[last].sum() == 0) --last;
    return last;
}

INTQ_INLINE void pad(OperatorImport& node) {
    node.require_inputs(2, 3);
    node.require_same_qparams(node.input(), node.output());
    Dims dims = node.dims();
    const std::vector<Ends> around = amounts_of(node);
    const std::int32_t fill = fill_of(node);
    std::int32_t y = node.x();
    if (dims.size() == 4 && around[3].sum() == 0) {
        const Padding2d sides{around[1].before, around[2].before, around[1].behind, around[2].behind};
        return node.set(quantization::add_pad(node.builder(), y, {sides, {1, 1}, fill}, node.layer()));
    }
    const std::size_t last = (std::max)(last_padded(around), std::size_t{1});
    for (std::size_t axis = 1; axis <= last; ++axis)
        if (around[axis].sum() != 0)
            y = pad_axis(node, y, dims, axis, {0, around[axis].before, 0, around[axis].behind}, fill, axis == last);
    node.set(y, dims);
}

INTQ_INLINE void mirror_pad(OperatorImport& node) {
    node.require_inputs(2, 2);
    node.require_same_qparams(node.input(), node.output());
    require_reflect(node.options());
    Dims dims = node.dims();
    const std::vector<Ends> around = amounts_of(node);
    std::int32_t y = node.x();
    const std::size_t last = last_padded(around);
    for (std::size_t axis = 1; axis <= last; ++axis) {
        const auto [before, behind] = around[axis];
        if (before >= dims[axis] || behind >= dims[axis])
            throw Error("amounts of " + std::to_string(before) + " and " + std::to_string(behind) + " at an axis of " +
                        std::to_string(dims[axis]) + " cells, which has fewer cells to mirror");
        const std::string part = "axis" + std::to_string(axis);
        y = quantization::add_pad_of_codes(node.builder(), y, program_axis(static_cast<int>(axis), dims.size()), before,
                                           behind, PadMode::reflect, node.output_qparams(),
                                           node.layer(axis == last ? nullptr : part.c_str()));
        dims[axis] += before + behind;
    }
    node.set(y, dims);
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_RESIZE_HPP
