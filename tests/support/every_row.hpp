// SPDX-License-Identifier: MIT
//
// Makes and runs every row of the registry and of the float table, and calls every other entry point of embedded.hpp,
// as a board would: no heap, no exceptions, no RTTI, no C++ library. Each result goes into a ledger.
//
// Long because it has a function for each family of operators.
#ifndef INTQ_TESTS_SUPPORT_EVERY_ROW_HPP
#define INTQ_TESTS_SUPPORT_EVERY_ROW_HPP

#include "intq/arith/norm.hpp"
#include "intq/core/byte_order.hpp"
#include "intq/embedded.hpp"
#include "intq/kernels/conv/float_conv2d.hpp"
#include "intq/kernels/table/float_table.hpp"
#include "intq/kernels/table/registry.hpp"

namespace intq::test::every_row {

using kernels::KernelTable;

// --- the board's memory ----------------------------------------------------------------------------------------------

constexpr index_t batch = 2, side = 5, inputs = 6, outputs = 6, groups_of_one = 6;
constexpr index_t pixels = batch * side * side, weight_count = outputs * inputs * 9;

alignas(64) inline std::byte storage[1 << 15];
alignas(64) inline std::byte workspace[1 << 12];
alignas(64) inline std::byte arena[1 << 14];
alignas(64) inline std::int32_t x_memory[pixels * inputs], e_memory[pixels * outputs], y_memory[pixels * outputs];
inline float reals[pixels * inputs], gradients[pixels * inputs], results[pixels * inputs],
    integral_weights[weight_count];
inline std::int8_t weights8[weight_count];
inline std::int16_t weights16[weight_count];

constexpr Workspace all_of(std::byte* data, std::size_t size) { return {data, static_cast<index_t>(size)}; }

inline std::uint32_t next(std::uint32_t& state) { return state = state * 1664525u + 1013904223u; }

/// On a machine of the other order of bytes, elements of some bytes are turned around.
inline std::size_t byte_of(std::size_t i, std::size_t element) {
    return is_little_endian ? i : i / element * element + element - 1 - i % element;
}

inline void fill() {
    std::uint32_t state = 1;
    for (std::byte* const memory : {reinterpret_cast<std::byte*>(x_memory), reinterpret_cast<std::byte*>(e_memory)})
        for (std::size_t i = 0; i < sizeof x_memory; ++i) memory[i] = static_cast<std::byte>(next(state) >> 24);
    for (index_t i = 0; i < weight_count; ++i) {
        weights8[i] = static_cast<std::int8_t>(next(state) >> 24);
        weights16[i] = static_cast<std::int16_t>(2 * static_cast<std::int8_t>(next(state) >> 24));
        integral_weights[i] = static_cast<float>(weights8[i]);
    }
    for (float& real : reals)
        real = static_cast<float>(static_cast<std::int32_t>(next(state) >> 8) - (1 << 23)) * 0x1p-21f;
    for (float& gradient : gradients) gradient = static_cast<float>(next(state) >> 24);
}

/// The same on machines of either order of bytes.
/// @param element  the bytes of an element
inline std::uint64_t hash_of(const void* data, std::size_t size, std::size_t element = sizeof(float)) {
    std::uint64_t hash = 14695981039346656037u;
    for (std::size_t i = 0; i < size; ++i)
        hash = (hash ^ static_cast<const unsigned char*>(data)[byte_of(i, element)]) * 1099511628211u;
    return hash;
}

/// Results in the order in which they are made. What was recorded, later results are compared with.
class Ledger {
public:
    void restart(bool records) { at_ = 0, records_ = records, checksum_ = empty; }
    bool agrees(std::uint64_t hash) {
        if (at_ == sizeof hashes_ / sizeof hashes_[0]) return false;
        if (records_) hashes_[at_] = hash;
        checksum_ = (checksum_ ^ hash) * 1099511628211u;
        return hashes_[at_++] == hash;
    }
    int count() const { return static_cast<int>(at_); }
    /// Of all results since the start.
    std::uint64_t checksum() const { return checksum_; }

private:
    static constexpr std::uint64_t empty = 14695981039346656037u;
    std::uint64_t hashes_[512] = {};
    std::uint64_t checksum_ = empty;
    std::size_t at_ = 0;
    bool records_ = false;
};
inline Ledger ledger;

inline bool y_agrees(DType dtype) {
    const auto element = static_cast<std::size_t>(size_of(dtype));
    return ledger.agrees(hash_of(y_memory, static_cast<std::size_t>(pixels * outputs) * element, element));
}
/// Clears y, and makes the bytes of x and e codes of a type: the same ones on machines of either order.
inline void prepare(DType dtype) {
    for (std::int32_t& word : y_memory) word = 0;
    static std::size_t element = 1;  // of which the bytes are in order
    const auto wanted = static_cast<std::size_t>(size_of(dtype));
    if (is_little_endian || wanted == element) return;
    for (std::byte* const memory : {reinterpret_cast<std::byte*>(x_memory), reinterpret_cast<std::byte*>(e_memory)})
        for (const std::size_t size : {element, wanted})
            for (std::size_t i = 0; i < sizeof x_memory; i += size)
                for (std::size_t k = 0; k < size / 2; ++k) {
                    const std::byte kept = memory[i + k];
                    memory[i + k] = memory[i + size - 1 - k];
                    memory[i + size - 1 - k] = kept;
                }
    element = wanted;
}

// --- rows ------------------------------------------------------------------------------------------------------------

inline kernels::Conv2dSpec spec_of(const kernels::ConvRow& row, const arith::SuminOperand& sumin) {
    kernels::Conv2dSpec spec;
    spec.window = {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
    spec.in_channels = inputs;
    spec.out_channels = outputs;
    spec.groups = row.is_depthwise ? groups_of_one : 1;
    spec.input_dtype = row.input;
    spec.weight_dtype = row.weight;
    spec.output_dtype = row.output;
    spec.input = QParams::per_tensor(0.01f, 0, row.input);
    spec.weight = QParams::per_tensor(0.001f, 0, row.weight);
    if (row.output != DType::int32)
        spec.output = QParams::per_tensor(row.input == DType::int16 ? 10.0f : 0.05f, 0, row.output);
    spec.weight_codes = row.weight == DType::int16 ? static_cast<const void*>(weights16) : weights8;
    spec.activation = Activation::relu;
    if (row.has_sumin) spec.sumin = &sumin;
    return spec;
}

inline bool run_conv_row(const KernelTable& table, const kernels::ConvRow& row) {
    const arith::SuminOperand sumin{0.02f, 0, lowest_code(row.input), highest_code(row.input)};
    kernels::Conv2dSpec spec = spec_of(row, sumin);
    // A bias of int32 codes chooses the rows that sum int16 codes in int32 where 64 bits are usual.
    static constexpr std::int32_t bias_codes[outputs] = {};
    Size2d image{side, side};
    if (row.requantize != table.policy().rule_of(spec.op)) {  // a rule of linear layers, which take a whole image
        spec.op = OpKind::linear;
        spec.window = {};
        image = {1, 1};
    }
    const int usual_bits = table.policy().for_weights(row.weight).accumulator_bits(row.input);
    if (row.accumulator_bits < usual_bits) spec.bias_codes_int32 = bias_codes;
    spec.wide_sum = row.accumulator_bits > usual_bits;
    const auto packed = kernels::pack_conv2d(table.packing, spec, all_of(storage, sizeof storage));
    const auto geometry = kernels::make_conv2d_geometry(spec.window, batch, image);
    if (!packed.ok() || !geometry.ok() || kernels::find_conv(table, *packed) != &row) return false;
    if (kernels::conv2d_workspace_size(*packed, *geometry) > static_cast<index_t>(sizeof workspace)) return false;
    prepare(row.input);
    const void* const x = table.stage(*packed, *geometry, x_memory, all_of(workspace, sizeof workspace), serial);
    row.run({&*packed, &*geometry, x, row.has_sumin ? e_memory : nullptr, y_memory, &serial, workspace});
    return y_agrees(row.output);
}

/// Sums of small integers: exact, so that all backends give the same bits.
inline kernels::FloatConv2dSpec float_spec_of(bool is_depthwise, bool has_sumin) {
    kernels::FloatConv2dSpec spec;
    spec.window = {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
    spec.in_channels = inputs;
    spec.out_channels = outputs;
    spec.groups = is_depthwise ? groups_of_one : 1;
    spec.weight = integral_weights;
    spec.bias = gradients;
    spec.activation = Activation::relu;
    spec.has_sumin = has_sumin;
    return spec;
}

inline bool run_float_rows(const kernels::FloatTable& table) {
    for (const kernels::ConvRow& row : table.conv) {
        const kernels::FloatConv2dSpec spec = float_spec_of(row.is_depthwise, row.has_sumin);
        const auto packed = kernels::pack_float_conv2d(table.packing, spec, all_of(storage, sizeof storage));
        const auto geometry = kernels::make_conv2d_geometry(spec.window, batch, {side, side});
        if (!packed.ok() || !geometry.ok() || kernels::find_conv(table.conv, *packed) != &row) return false;
        row.run({&*packed, &*geometry, gradients, row.has_sumin ? gradients : nullptr, results, &serial});
        if (!ledger.agrees(hash_of(results, sizeof results))) return false;
    }
    return true;
}

inline arith::CodesOf codes(float scale, DType dtype) { return {scale, 0, dtype}; }
inline arith::OutputCodes all_codes(DType dtype, Activation activation = Activation::none) {
    return arith::make_output_codes(lowest_code(dtype), highest_code(dtype), 0, 0.05f, activation);
}

inline bool run_elementwise_rows(const KernelTable& table) {
    const index_t size = pixels * outputs;
    for (const kernels::AddRow& row : table.add) {
        const auto params = arith::make_add(table.policy(), codes(0.02f, row.dtype), codes(0.03f, row.dtype),
                                            codes(0.05f, row.dtype), all_codes(row.dtype));
        if (!params.ok()) return false;
        prepare(row.dtype);
        row.run({&*params, x_memory, e_memory, y_memory, size, &serial});
        if (!y_agrees(row.dtype)) return false;
    }
    for (const kernels::MulRow& row : table.mul) {
        const auto params = arith::make_mul(table.policy(), codes(0.02f, row.dtype), codes(0.03f, row.dtype),
                                            codes(0.05f, row.dtype), all_codes(row.dtype));
        if (!params.ok()) return false;
        prepare(row.dtype);
        row.run({&*params, x_memory, e_memory, y_memory, size, &serial});
        if (!y_agrees(row.dtype)) return false;
    }
    for (const kernels::RequantizeRow& row : table.requantize) {
        const auto params = kernels::make_requantize(table.policy(), codes(0.02f, row.input), codes(0.05f, row.output),
                                                     all_codes(row.output));
        if (!params.ok()) return false;
        prepare(row.input);
        row.run({&*params, x_memory, y_memory, 1, size, size, size, &serial});
        if (!y_agrees(row.output)) return false;
    }
    for (const kernels::ClampRow& row : table.clamp) {
        prepare(row.dtype);
        row.run({all_codes(row.dtype, Activation::relu6), x_memory, y_memory, size, &serial});
        if (!y_agrees(row.dtype)) return false;
    }
    return true;
}

inline bool run_table_rows(const KernelTable& table) {
    const index_t size = pixels * outputs;
    std::int8_t narrow[arith::int8_table_size];
    std::int16_t wide[arith::int16_table_size], knots[arith::tflite_curve_size];
    if (!arith::make_int8_table(TableFunction::sigmoid, codes(0.05f, DType::int8), codes(0.01f, DType::int8), narrow)
             .ok() ||
        !arith::make_int16_table(TableFunction::tanh, codes(0.0002f, DType::int16), codes(0.0001f, DType::int16), wide)
             .ok() ||
        !arith::make_tflite_curve_table(knots).ok())
        return false;
    std::int16_t blocks[arith::table_blocks + 2 * 200];  // of all steps, anywhere among 200 knots of 24 bits
    for (int i = 0; i < 512 + 2 * 200; ++i)
        blocks[i] = static_cast<std::int16_t>(i < 512 ? 8 * (i % 64) + i % 8 : i % 2 == 0 ? i * 77 : i % 256 - 128);
    for (const kernels::LookUpRow& row : table.look_up) {
        const bool is_curve = row.size == arith::tflite_curve_size;
        const void* const entries = row.dtype == DType::int8                    ? static_cast<const void*>(narrow)
                                    : is_curve                                  ? knots
                                    : row.size == arith::least_block_table_size ? blocks
                                                                                : wide;
        prepare(row.dtype);
        row.run({entries, x_memory, y_memory, size, &serial,
                 is_curve ? arith::TfliteCurve{24000, 13} : arith::TfliteCurve{}});
        if (!y_agrees(row.dtype)) return false;
    }
    return true;
}

inline bool run_interpolate_rows(const KernelTable& table) {
    arith::ResizeTap taps[side + side];
    const auto resize = kernels::make_resize_table(arith::Resize::half_pixel, {side, side}, {side - 1, side}, taps);
    if (!resize.ok()) return false;
    for (const arith::Blend blend : {arith::Blend::of_256ths, arith::Blend::of_1024ths}) {
        kernels::ResizeTable of_blend = *resize;
        of_blend.blend = blend;
        for (const kernels::InterpolateRow& row : table.interpolate) {
            if (row.of_values) continue;
            prepare(row.dtype);
            row.run({&of_blend, x_memory, y_memory, batch, inputs, &serial});
            if (!y_agrees(row.dtype)) return false;
        }
    }
    if (!table.policy().computes_as_onnx()) return table.interpolate.size() == 2;
    const auto of_values = kernels::make_resize_table_of_values(table.policy(), arith::Resize::half_pixel, {side, side},
                                                                {side - 1, side}, taps, {}, codes(0.05f, DType::int8),
                                                                codes(0.02f, DType::int8), all_codes(DType::int8));
    if (!of_values.ok() || table.interpolate.size() != 3 || !table.interpolate[2].of_values) return false;
    prepare(DType::int8);
    table.interpolate[2].run({&*of_values, x_memory, y_memory, batch, inputs, &serial});
    return y_agrees(DType::int8);
}

inline bool run_move_rows(const KernelTable& table) {
    // Pixels of an image become its channels.
    kernels::MoveParams move;
    move.rank = 2;
    move.extents[0] = inputs, move.extents[1] = side * side;
    move.steps[0] = 1, move.steps[1] = inputs;
    const index_t image = inputs * side * side;
    if (!kernels::check_move(move, image, image, OpKind::permute).ok()) return false;
    for (const kernels::MoveRow& row : table.move) {
        prepare(row.dtype);
        row.run({&move, x_memory, y_memory, batch, image, &serial});
        if (!y_agrees(row.dtype)) return false;
    }
    const kernels::PadParams pad{{1, -1, -1, 1}, {1, 1}, 3};
    if (!kernels::check_pad(pad, {side, side}, OpKind::pad).ok()) return false;
    for (const kernels::PadRow& row : table.pad) {
        prepare(row.dtype);
        row.run({&pad, x_memory, y_memory, batch, inputs, {side, side}, &serial});
        if (!y_agrees(row.dtype)) return false;
    }
    return table.move.size() == 3 && table.pad.size() == 2;
}

/// Whether the target's table of constraints has an operator from a type to the same type.
inline bool accepts(const KernelTable& table, OpKind op, DType dtype) {
    return arith::check_constraints(table.policy().constraints, {.op = op, .input = dtype, .output = dtype}).ok();
}

inline bool run_softmax_rows(const KernelTable& table) {
    const bool is_fixed_point = table.policy().softmax == arith::SoftmaxRule::fixed_point;
    const auto tables = is_fixed_point
                            ? arith::make_fixed_point_softmax_tables(table.policy(), codes(0.05f, DType::int8))
                            : arith::make_softmax_tables(codes(0.05f, DType::int8));
    const auto wide = arith::make_wide_softmax_multiplier(codes(0.0005f, DType::int16));
    static std::uint32_t entries[arith::int16_softmax_entries];
    const auto words = arith::make_int16_softmax_words(table.policy(), codes(0x1p-15f, DType::int16));
    const arith::OutputCodes all = all_codes(DType::int16);
    if (!tables.ok() || !wide.ok() || !words.ok() ||
        !arith::make_int16_softmax_tables(codes(0.0005f, DType::int16), entries).ok())
        return false;
    for (const kernels::SoftmaxRow& row : table.softmax) {
        prepare(row.input);
        row.run({&*tables, *wide, x_memory, y_memory, pixels, inputs, 1, &serial, entries, &*words, &all});
        if (!y_agrees(row.output)) return false;
    }
    const std::size_t requantized = accepts(table, OpKind::softmax, DType::int16) ? 2 : 1;
    return table.softmax.size() == (is_fixed_point ? 3 : requantized);
}

inline bool run_log_softmax_rows(const KernelTable& table) {
    static std::uint32_t entries[arith::log_softmax_entries(DType::int16)];
    for (const kernels::LogSoftmaxRow& row : table.log_softmax) {
        const arith::CodesOf of = codes(row.dtype == DType::int8 ? 0.05f : 0.0005f, row.dtype);
        const auto step = arith::make_log_softmax_step(of);
        const auto words = arith::make_log_softmax_words(table.policy(), of);
        const arith::OutputCodes all = all_codes(row.dtype);
        if (!step.ok() || !words.ok() || !arith::make_log_softmax_tables(of, entries).ok()) return false;
        if (row.rule == arith::SoftmaxRule::fixed_point &&
            !arith::make_fixed_point_log_softmax_table(table.policy(), of, entries).ok())
            return false;
        prepare(row.dtype);
        row.run({.x = x_memory,
                 .y = y_memory,
                 .rows = pixels,
                 .count = inputs,
                 .executor = &serial,
                 .entries = entries,
                 .words = &*words,
                 .codes = &all,
                 .step = *step});
        if (!y_agrees(row.dtype)) return false;
    }
    return table.log_softmax.size() == (table.policy().softmax == arith::SoftmaxRule::fixed_point ? 3 : 2);
}

inline bool run_matmul_rows(const KernelTable& table) {
    alignas(buffer_alignment) static std::byte scratch[4096];
    constexpr index_t rows = batch * side, columns = side;
    const kernels::MatmulShape shape{
        rows, columns, inputs, {{2, {rows, inputs}, {inputs, 1}, 0}, {2, {columns, inputs}, {1, columns}, 0}}};
    for (const kernels::MatmulRow& row : table.matmul) {
        const auto params = arith::make_matmul(table.policy(), codes(0.02f, row.dtype), codes(0.03f, row.dtype),
                                               codes(0.05f, row.dtype), all_codes(row.dtype), inputs);
        if (!params.ok()) return false;
        const index_t bytes = kernels::matmul_workspace_size(shape, table.packing, row.dtype);
        if (bytes > static_cast<index_t>(sizeof scratch)) return false;
        prepare(row.dtype);
        row.run({.params = &*params,
                 .shape = &shape,
                 .x = {x_memory, e_memory},
                 .y = y_memory,
                 .batch = 1,
                 .workspace = scratch,
                 .executor = &serial});
        if (!y_agrees(row.dtype)) return false;
    }
    return table.matmul.size() == std::size_t{accepts(table, OpKind::matmul, DType::int8)} +
                                      std::size_t{accepts(table, OpKind::matmul, DType::int16)};
}

inline bool run_embedding_rows(const KernelTable& table) {
    const std::int32_t ids[4] = {3, 0, -1, 9};  // the last two have no row
    for (const kernels::EmbeddingRow& row : table.embedding) {
        const kernels::EmbeddingParams params{x_memory, 4, inputs, row.dtype};
        prepare(row.dtype);
        row.run({&params, ids, y_memory, 4, &serial});
        if (!y_agrees(row.dtype)) return false;
    }
    return table.embedding.size() == 2;
}

inline bool run_index_copy_rows(const KernelTable& table) {
    const std::int32_t index[4] = {3, 0, -1, 9};  // the last two have no row
    for (const kernels::IndexCopyRow& row : table.index_copy) {
        const kernels::IndexCopyParams params{.outer = 2, .rows = 4, .inner = 4, .count = 2};
        prepare(row.dtype);
        row.run({&params, x_memory, x_memory, index, y_memory, 2, &serial});
        if (!y_agrees(row.dtype)) return false;
    }
    return table.index_copy.size() == 2;
}

/// Whether a place along an axis of the codes in x is that of the first largest one.
inline bool is_first_largest(DType dtype, index_t first, index_t step, std::int32_t place) {
    const auto code = [&](index_t k) {
        return dtype == DType::int8 ? reinterpret_cast<const std::int8_t*>(x_memory)[first + k * step]
                                    : reinterpret_cast<const std::int16_t*>(x_memory)[first + k * step];
    };
    if (place < 0 || place >= inputs) return false;
    for (index_t k = 0; k < inputs; ++k)
        if (code(k) > code(place) || (k < place && code(k) == code(place))) return false;
    return true;
}

inline bool run_argmax_rows(const KernelTable& table) {
    for (const kernels::ArgMaxRow& row : table.argmax)
        for (const index_t inner : {index_t{1}, index_t{4}}) {
            std::int32_t places[8] = {};
            prepare(row.dtype);
            row.run({.x = x_memory,
                     .y = places,
                     .rows = 2,
                     .params = {.count = inputs, .inner = inner},
                     .executor = &serial});
            for (index_t i = 0; i < 2 * inner; ++i)
                if (!is_first_largest(row.dtype, i / inner * inputs * inner + i % inner, inner, places[i]))
                    return false;
        }
    return table.argmax.size() == 2;
}

inline bool run_layer_norm_rows(const KernelTable& table) {
    static std::int32_t weight[inputs] = {}, bias[inputs] = {};
    for (index_t i = 0; i < inputs; ++i) weight[i] = 1 << 29;
    for (const kernels::LayerNormRow& row : table.layer_norm) {
        const arith::CodesOf of = codes(0.05f, row.input);
        const auto norm = arith::make_layer_norm(table.policy(), of, codes(0.02f, row.output),
                                                 {0, static_cast<std::int32_t>(lowest_code(row.output)),
                                                  static_cast<std::int32_t>(highest_code(row.output))},
                                                 inputs, 1e-5, {0});
        if (!norm.ok()) return false;
        prepare(row.input);
        row.run({.params = &*norm,
                 .weight = weight,
                 .bias = bias,
                 .x = x_memory,
                 .y = y_memory,
                 .samples = pixels,
                 .count = inputs,
                 .executor = &serial});
        if (!y_agrees(row.output)) return false;
    }
    return table.layer_norm.size() == 2;
}

inline bool run_pool_rows(const KernelTable& table) {
    const Window2d window{{3, 3}, {1, 1}, {}, {1, 1}};
    const Size2d in{side, side}, out = output_size(window, in);
    if (!kernels::check_pool(window, in, OpKind::avg_pool2d).ok()) return false;
    for (const kernels::PoolRow& row : table.pool) {
        const auto of = codes(0.05f, row.dtype);
        const auto average =
            row.rule == arith::AverageRule::sum_of_values
                ? arith::make_average_of_values(table.policy(), of, of, all_codes(row.dtype), 9,
                                                PoolDivisor::kernel_cells, false)
            : row.rule == table.policy().average
                ? arith::make_average(table.policy(), of, of, all_codes(row.dtype), 9, PoolDivisor::kernel_cells, false)
                : arith::make_mean(table.policy(), of, codes(0.02f, row.dtype), all_codes(row.dtype), 9);
        if (!average.ok() || average->rule != row.rule) return false;
        prepare(row.dtype);
        row.run({&window, &*average, x_memory, y_memory, batch, inputs, in, out, &serial});
        if (!y_agrees(row.dtype)) return false;
    }
    const bool has_mean = table.policy().average == arith::AverageRule::divide_codes,
               has_values = table.policy().has_average(arith::AverageRule::sum_of_values);
    return table.pool.size() == (has_mean ? 6 : has_values ? 5 : 4);
}

/// The average of a whole image, whose rows come in two parts.
inline bool run_pool_sum_rows(const KernelTable& table) {
    const Window2d whole{{side, side}, {1, 1}, {}, {1, 1}};
    std::int32_t sums[inputs];
    for (const kernels::PoolSumRow& row : table.pool_sums) {
        const auto of = codes(0.05f, row.dtype);
        const auto average =
            row.rule == table.policy().average
                ? arith::make_average(table.policy(), of, of, all_codes(row.dtype), side * side,
                                      PoolDivisor::kernel_cells, false)
                : arith::make_mean(table.policy(), of, codes(0.02f, row.dtype), all_codes(row.dtype), side * side);
        if (!average.ok() || average->rule != row.rule) return false;
        prepare(row.dtype);
        const auto* const x = reinterpret_cast<const std::byte*>(x_memory);
        const auto add = [&](index_t first, index_t rows) {
            row.run({&whole,
                     &*average,
                     x + first * side * inputs * size_of(row.dtype),
                     y_memory,
                     1,
                     inputs,
                     {rows, side},
                     {1, 1},
                     &serial},
                    {sums, first == 0, first + rows == side});
        };
        add(0, 2);
        add(2, side - 2);
        if (!y_agrees(row.dtype)) return false;
    }
    return table.pool_sums.size() == (table.policy().average == arith::AverageRule::divide_codes ? 4 : 2);
}

inline bool run_quantize_rows(const KernelTable& table) {
    const ChannelBlocks blocks{batch * side * side, inputs, 1};
    const float scales[inputs] = {0.01f, 0.02f, 0.03f, 0.04f, 0.05f, 0.06f};
    for (const kernels::QuantizeRow& row : table.quantize) {
        prepare(row.output);
        const QParams qparams = QParams::per_channel(scales, {}, 1, lowest_code(row.output), highest_code(row.output));
        row.run(reals, blocks, qparams, y_memory, serial);
        if (!y_agrees(row.output)) return false;
        prepare(row.output);
        row.run_nchw(reals, batch, inputs, side * side, side * side, qparams, y_memory, serial);
        if (!y_agrees(row.output)) return false;
    }
    for (const kernels::DequantizeRow& row : table.dequantize) {
        prepare(row.input);
        row.run(x_memory, blocks, QParams::per_channel(scales, {}, 1, lowest_code(row.input), highest_code(row.input)),
                results, serial);
        if (!ledger.agrees(hash_of(results, sizeof results))) return false;
    }
    return true;
}

// --- the entry points that a caller names ----------------------------------------------------------------------------

template <class Backend> bool call_float_functions() {
    const ImageView<const float> x(reals, {batch, inputs, side, side}),
        grad_out(gradients, {batch, inputs, side, side});
    const ImageView<float> y(results, {batch, inputs, side, side});
    const ImageView<std::int8_t> q(reinterpret_cast<std::int8_t*>(y_memory), {batch, inputs, side, side});
    if (!kernels::check_finite<Backend>(x).ok()) return false;
    float memory[2][observers::range_memory_size(1)], channel_memory[observers::range_memory_size(inputs)];
    observers::MinMaxRange range(memory[0]), per_channel(channel_memory, 1);
    observers::MovingAverageRange average(memory[1]);
    if (!range.template update<Backend>(x).ok() || !per_channel.template update<Backend>(x).ok()) return false;
    if (!average.template update<Backend>(x).ok() || !average.template update<Backend>(grad_out).ok()) return false;
    if (!range.merge(range).ok()) return false;
    const auto pair = range.qparams();
    if (!pair.ok() || !average.qparams().ok() || !per_channel.qparams({}, 3).ok()) return false;
    if (!ledger.agrees(hash_of(memory, sizeof memory)) ||
        !ledger.agrees(hash_of(channel_memory, sizeof channel_memory)))
        return false;

    const QParams qparams = QParams::per_tensor(pair->scale, pair->zero_point, DType::int8);
    if (!kernels::check_quantize(x, qparams, {}, q).ok() || !kernels::check_fake_quantize(x, qparams, {}, y).ok())
        return false;
    kernels::quantize<Backend>(x, qparams, {}, q);
    if (!y_agrees(DType::int8)) return false;
    kernels::dequantize<Backend>(q, qparams, y);
    if (!ledger.agrees(hash_of(results, sizeof results))) return false;
    kernels::fake_quantize<Backend>(x, qparams, {arith::Rounding::half_up, arith::QuantizeBy::divide}, y);
    if (!ledger.agrees(hash_of(results, sizeof results))) return false;
    kernels::fake_quantize_backward<Backend>(x, grad_out, QParams::per_tensor(0.01f, 0, DType::int8), {}, true, y);
    return ledger.agrees(hash_of(results, sizeof results));
}

/// conv-bn-add-relu, as a caller writes it.
template <class Backend> bool call_conv() {
    using Target = target::bpu<march::bayes>;
    float folded[weight_count], bias[outputs] = {};
    const float mean[outputs] = {0.1f, 0.2f, 0.3f, -0.1f, 0.0f, 0.5f}, variance[outputs] = {1, 2, 3, 4, 5, 6};
    for (index_t i = 0; i < weight_count; ++i) folded[i] = static_cast<float>(weights8[i]) * 0.01f;
    arith::fold_batch_norm({1, outputs, inputs * 9}, folded, bias, {mean, variance, {}, {}},
                           arith::BatchNormOrder::conv, folded, bias);
    const arith::SuminOperand sumin{0.02f, 0, -128, 127};
    float scales[outputs];
    std::int8_t weight_codes[weight_count];
    for (index_t o = 0; o < outputs; ++o)
        scales[o] = arith::raise_weight_scale(Target::policy, 0.01f, static_cast<double>(bias[o]), 0.02f, &sumin);
    for (index_t i = 0; i < weight_count; ++i)
        weight_codes[i] = static_cast<std::int8_t>(arith::quantize(folded[i], {scales[i / (inputs * 9)], 0}));
    kernels::Conv2dSpec spec;
    spec.window = {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
    spec.in_channels = inputs;
    spec.out_channels = outputs;
    spec.input = QParams::per_tensor(0.02f, 0, DType::int8);
    spec.weight = QParams::per_channel(scales, {}, 0, -128, 127);
    spec.output = QParams::per_tensor(0.3f, 0, DType::int8);
    spec.weight_codes = weight_codes;
    spec.bias = bias;
    spec.activation = Activation::relu;
    const auto geometry = kernels::make_conv2d_geometry(spec.window, batch, {side, side});
    if (!geometry.ok()) return false;
    const ImageView<const std::int8_t> x(reinterpret_cast<const std::int8_t*>(x_memory), {batch, inputs, side, side});
    const ImageView<const std::int8_t> e(reinterpret_cast<const std::int8_t*>(e_memory), {batch, outputs, side, side});
    const ImageView<std::int8_t> y(reinterpret_cast<std::int8_t*>(y_memory), {batch, outputs, side, side});
    for (const arith::SuminOperand* const operand : {static_cast<const arith::SuminOperand*>(nullptr), &sumin}) {
        spec.sumin = operand;
        if (kernels::conv2d_storage_size<Target, Backend>(spec) > static_cast<index_t>(sizeof storage)) return false;
        const auto packed = kernels::make_conv2d<Target, Backend>(spec, all_of(storage, sizeof storage));
        if (!packed.ok()) return false;
        const Workspace room = all_of(workspace, sizeof workspace);
        if (!(operand == nullptr ? kernels::check_conv2d(*packed, *geometry, x, y, room)
                                 : kernels::check_conv2d_add(*packed, *geometry, x, e, y, room)))
            return false;
        prepare(DType::int8);
        if (operand == nullptr)
            kernels::run_conv2d<Target, Backend>(*packed, *geometry, x, y, all_of(workspace, sizeof workspace));
        else
            kernels::run_conv2d_add<Target, Backend>(*packed, *geometry, x, e, y, all_of(workspace, sizeof workspace));
        if (!y_agrees(DType::int8)) return false;
    }
    return true;
}

/// The float layer of a baseline, alone and with an add.
template <class Backend> bool call_float_conv() {
    const ImageView<const float> x(gradients, {batch, inputs, side, side});
    const ImageView<float> y(results, {batch, outputs, side, side});
    for (const bool adds : {false, true}) {
        const kernels::FloatConv2dSpec spec = float_spec_of(false, adds);
        const auto geometry = kernels::make_conv2d_geometry(spec.window, batch, {side, side});
        if (!geometry.ok() || kernels::float_conv2d_storage_size<Backend>(spec) > static_cast<index_t>(sizeof storage))
            return false;
        const auto packed = kernels::make_float_conv2d<Backend>(spec, all_of(storage, sizeof storage));
        if (!packed.ok()) return false;
        if (!(adds ? kernels::check_conv2d_add(*packed, *geometry, x, x, y, {})
                   : kernels::check_conv2d(*packed, *geometry, x, y, {})))
            return false;
        if (adds)
            kernels::run_float_conv2d_add<Backend>(*packed, *geometry, x, x, y);
        else
            kernels::run_float_conv2d<Backend>(*packed, *geometry, x, y);
        if (!ledger.agrees(hash_of(results, sizeof results))) return false;
    }
    return true;
}

/// quantize, linear, dequantize: planned, checked and executed in a static arena.
inline bool run_program(const KernelTable& table) {
    constexpr index_t features = inputs * side * side;
    kernels::Conv2dSpec spec;
    spec.op = OpKind::linear;
    spec.window.kernel = {1, 1};
    spec.in_channels = features;
    spec.out_channels = 2;
    spec.input = QParams::per_tensor(0.05f, 0, DType::int8);
    spec.weight = QParams::per_tensor(0.01f, 0, DType::int8);
    spec.output = QParams::per_tensor(0.2f, 0, DType::int8);
    spec.weight_codes = weights8;
    const auto packed = kernels::pack_conv2d(table.packing, spec, all_of(storage, sizeof storage));
    const auto geometry = kernels::make_conv2d_geometry(spec.window, batch, {1, 1});
    if (!packed.ok() || !geometry.ok()) return false;
    const kernels::ConvParams step{*packed, *geometry};
    const index_t scratch = kernels::conv2d_workspace_size(*packed, *geometry);

    runtime::ProgramTensor tensors[4] = {{DType::float32, Shape{batch, features}, {}, 0, "x"},
                                         {DType::int8, Shape{batch, features}, spec.input, 0, "q"},
                                         {DType::int8, Shape{batch, 2}, spec.output, 0, "fc"},
                                         {DType::float32, Shape{batch, 2}, {}, 0, "y"}};
    runtime::Lifetime lives[5] = {{tensors[0].bytes(), -1, 0, 0},
                                  {tensors[1].bytes(), 0, 1, 0},
                                  {tensors[2].bytes(), 1, 2, 0},
                                  {tensors[3].bytes(), 2, 3, 0},
                                  {scratch, 1, 1, 0}};
    bool placed[5];
    runtime::Program program;
    program.arena_size = runtime::plan_memory(lives, placed);
    for (std::size_t i = 0; i < 4; ++i) tensors[i].offset = lives[i].offset;
    const std::int32_t operands[3] = {0, 1, 2}, first[1] = {0}, last[1] = {3};
    const runtime::Instruction instructions[3] = {{OpKind::quantize, 0, 1, 0, 1, "quant", "QuantStub", nullptr},
                                                  {OpKind::linear, 0, 2, 1, 1, "fc", "Linear", &step},
                                                  {OpKind::dequantize, 0, 3, 2, 1, "dequant", "DeQuantStub", nullptr}};
    program.instructions = instructions;
    program.tensors = tensors;
    program.operands = operands;
    program.inputs = first;
    program.outputs = last;
    program.workspace_offset = lives[4].offset;
    program.workspace_size = scratch;
    program.max_batch = batch;
    if (!runtime::check_program(program, table).ok() || program.arena_size > static_cast<index_t>(sizeof arena))
        return false;
    std::memcpy(runtime::tensor_data(program, arena, 0), reals,
                sizeof(float) * static_cast<std::size_t>(batch * features));
    int steps = 0;
    const auto count = [](void* context, const runtime::Program&, index_t, const void*, index_t) {
        ++*static_cast<int*>(context);
    };
    runtime::execute(program, table, arena, batch, serial, {count, &steps});
    return steps == 3 && ledger.agrees(hash_of(runtime::tensor_data(program, arena, 3), sizeof(float) * 2 * batch));
}

// --- all of it -------------------------------------------------------------------------------------------------------

/// Every row of a target. 0, or the number of the step that failed.
inline int run_target(const KernelTable& table) {
    for (const kernels::ConvRow& row : table.conv)
        if (!run_conv_row(table, row)) return 1;
    if (!run_elementwise_rows(table)) return 2;
    if (!run_pool_rows(table) || !run_pool_sum_rows(table)) return 3;
    if (!run_quantize_rows(table)) return 4;
    if (!run_program(table)) return 5;
    if (!run_table_rows(table)) return 11;
    if (!run_interpolate_rows(table)) return 12;
    if (!run_move_rows(table)) return 13;
    if (!run_softmax_rows(table)) return 14;
    if (!run_layer_norm_rows(table)) return 15;
    if (!run_matmul_rows(table)) return 16;
    if (!run_embedding_rows(table)) return 17;
    if (!run_log_softmax_rows(table)) return 18;
    if (!run_index_copy_rows(table)) return 19;
    if (!run_argmax_rows(table)) return 20;
    return 0;
}

/// What depends on no target, and what a caller names.
template <class Backend> int run_functions() {
    if (!call_float_functions<Backend>()) return 6;
    if (!call_conv<Backend>()) return 7;
    if (!run_float_rows(kernels::float_table<Backend>)) return 8;
    if (!call_float_conv<Backend>()) return 9;
    return 0;
}

}  // namespace intq::test::every_row

#endif  // INTQ_TESTS_SUPPORT_EVERY_ROW_HPP
