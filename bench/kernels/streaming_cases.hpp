// SPDX-License-Identifier: MIT
//
// The kernels that streaming_bench measures, by backend, and the tensors that they read and write.
#ifndef INTQ_BENCH_KERNELS_STREAMING_CASES_HPP
#define INTQ_BENCH_KERNELS_STREAMING_CASES_HPP

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/io/error.hpp"
#include "intq/kernels/matmul/matmul.hpp"
#include "intq/kernels/streaming/dequantize.hpp"
#include "intq/kernels/streaming/elementwise.hpp"
#include "intq/kernels/streaming/embedding.hpp"
#include "intq/kernels/streaming/layer_norm.hpp"
#include "intq/kernels/streaming/learnable_fake_quantize.hpp"
#include "intq/kernels/streaming/move.hpp"
#include "intq/kernels/streaming/softmax.hpp"
#include "intq/kernels/streaming/unary.hpp"
#include "intq/kernels/window/pool.hpp"
#include "intq/kernels/window/resize.hpp"
#include "intq/observers/histogram.hpp"
#include "intq/observers/min_max.hpp"

namespace intq_bench {

using namespace intq;

inline constexpr index_t channels = 64;
inline constexpr index_t bins = 2048;
inline constexpr Size2d image{32, 32};

/// Memory on its own cache lines, as an arena has it.
template <class T> class Buffer {
public:
    explicit Buffer(index_t size) : memory_(static_cast<std::size_t>(size) * sizeof(T) + 64) {
        const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
        data_ = reinterpret_cast<T*>(memory_.data() + (64 - address % 64) % 64);
    }
    T* data() noexcept { return data_; }

private:
    std::vector<std::byte> memory_;
    T* data_;
};

/// The tensors that the kernels read and write, of at least `size` elements.
struct Tensors {
    index_t size;
    Buffer<float> x, gradient, y;
    Buffer<std::int8_t> codes, more_codes, out;
    std::vector<float> scales = std::vector<float>(channels), sums = std::vector<float>(2 * channels);
    std::vector<float> range_memory = std::vector<float>(4 * channels);
    std::vector<std::int64_t> counts = std::vector<std::int64_t>(bins + 1);
    std::vector<double> scratch;
    std::vector<std::uint32_t> words;

    explicit Tensors(index_t elements)
        : size(elements),
          x(elements),
          gradient(elements),
          y(elements),
          codes(elements),
          more_codes(elements),
          out(elements),
          scratch(static_cast<std::size_t>(kernels::learnable_scratch_size({elements / channels, channels, 1}) +
                                           kernels::learnable_scratch_size({1, 1, elements}))),
          words(static_cast<std::size_t>(kernels::histogram_scratch_size(elements, bins))) {
        std::mt19937 random(1);
        std::normal_distribution<float> normal;
        for (index_t i = 0; i < elements; ++i) {
            x.data()[i] = i < 65536 ? normal(random) : x.data()[i - 65521];
            gradient.data()[i] = i < 65536 ? normal(random) : gradient.data()[i - 65521];
            codes.data()[i] = static_cast<std::int8_t>(random());
            more_codes.data()[i] = static_cast<std::int8_t>(random() >> 8);
        }
        for (index_t c = 0; c < channels; ++c)
            scales[static_cast<std::size_t>(c)] = 0.02f + 0.0001f * static_cast<float>(c);
    }
    QParams per_tensor() const { return QParams::per_tensor(0.02f, 0, DType::int8); }
    QParams per_channel() const { return QParams::per_channel(scales, {}, 1, -128, 127); }
    ChannelBlocks flat(index_t n) const { return {1, 1, n}; }
    ChannelBlocks channels_last(index_t n) const { return {n / channels, channels, 1}; }
    TensorView<const float, 1> view(index_t n) { return {x.data(), {n}}; }
    TensorView<const float, 2> rows(index_t n) { return {x.data(), {n / channels, channels}}; }

    /// What the last run wrote, for comparison.
    std::vector<std::byte> written() {
        std::vector<std::byte> all;
        const auto add = [&](const void* from, std::size_t bytes) {
            const auto* const first = static_cast<const std::byte*>(from);
            all.insert(all.end(), first, first + bytes);
        };
        add(y.data(), static_cast<std::size_t>(size) * sizeof(float));
        add(out.data(), static_cast<std::size_t>(size));
        add(sums.data(), sums.size() * sizeof(float));
        add(range_memory.data(), range_memory.size() * sizeof(float));
        add(counts.data(), counts.size() * sizeof(std::int64_t));
        return all;
    }
};

/// A kernel on n elements, with the bytes of memory that an element costs.
struct Case {
    std::string label;
    double read_bytes, written_bytes;
    std::function<void(Tensors&, index_t n)> run;
};

// --- the kernels -----------------------------------------------------------------------------------------------------
template <class Backend> void add_quantize(std::vector<Case>& cases) {
    for (const bool per_channel : {false, true}) {
        const std::string granularity = per_channel ? "per_channel" : "per_tensor";
        const auto qparams = [=](const Tensors& t) { return per_channel ? t.per_channel() : t.per_tensor(); };
        const auto blocks = [=](const Tensors& t, index_t n) { return per_channel ? t.channels_last(n) : t.flat(n); };
        cases.push_back({"quantize/f32s8/" + granularity, 4, 1, [=](Tensors& t, index_t n) {
                             kernels::quantize_blocks<Backend>(t.x.data(), blocks(t, n), qparams(t), {}, t.out.data(),
                                                               serial);
                         }});
        cases.push_back({"dequantize/s8f32/" + granularity, 1, 4, [=](Tensors& t, index_t n) {
                             kernels::dequantize_blocks<Backend>(t.codes.data(), blocks(t, n), qparams(t), t.y.data(),
                                                                 serial);
                         }});
        cases.push_back({"fake_quantize/f32/" + granularity, 4, 4, [=](Tensors& t, index_t n) {
                             kernels::fake_quantize_blocks<Backend>(t.x.data(), blocks(t, n), qparams(t), {},
                                                                    t.y.data(), serial);
                         }});
        cases.push_back({"fake_quantize_backward/f32/" + granularity, 8, 4, [=](Tensors& t, index_t n) {
                             const std::array<index_t, 2> extents{n / channels, channels};
                             kernels::fake_quantize_backward<Backend>(
                                 t.rows(n), TensorView<const float, 2>(t.gradient.data(), extents), qparams(t), {},
                                 true, TensorView<float, 2>(t.y.data(), extents));
                         }});
        cases.push_back({"lsq_backward/f32/" + granularity, 8, 4, [=](Tensors& t, index_t n) {
                             const std::array<index_t, 2> extents{n / channels, channels};
                             const std::size_t count = per_channel ? channels : 1;
                             const kernels::LearnableSums sums{
                                 {t.sums.data(), count}, {t.sums.data() + channels, count}, t.scratch};
                             kernels::learnable_fake_quantize_backward<Backend>(
                                 t.rows(n), TensorView<const float, 2>(t.gradient.data(), extents),
                                 {qparams(t), {}, 0.1f}, TensorView<float, 2>(t.y.data(), extents), sums);
                         }});
    }
}

template <class Backend> void add_observers(std::vector<Case>& cases) {
    cases.push_back({"min_max/f32/per_tensor", 4, 0, [](Tensors& t, index_t n) {
                         observers::MinMaxRange range({t.range_memory.data(), 4}, observers::per_tensor);
                         if (!range.update<Backend>(t.view(n)).ok()) throw Error("min_max refuses");
                     }});
    cases.push_back({"min_max/f32/per_channel", 4, 0, [](Tensors& t, index_t n) {
                         observers::MinMaxRange range(t.range_memory, 1);
                         if (!range.update<Backend>(t.rows(n)).ok()) throw Error("min_max refuses");
                     }});
    cases.push_back({"histogram/f32/2048_bins", 4, 0, [](Tensors& t, index_t n) {
                         observers::HistogramCounts counts(t.counts, {-4.0f, 4.0f});
                         counts.update<Backend>(t.view(n), t.words);
                     }});
}

template <class T> const T& require(const Result<T>& result) {
    if (!result.ok()) throw Error(std::string("setup refuses: ") + name_of(result.status().code));
    return result.value();
}

template <class Backend, class TargetType> void add_codes_of(std::vector<Case>& cases) {
    using Policy = arith::RequantizePolicy<TargetType, std::int32_t>;
    const arith::CodesOf x{0.02f, 0, DType::int8}, y{0.013f, 0, DType::int8}, out{0.031f, 0, DType::int8};
    const std::string rule = std::string("/per_tensor/") + TargetType::policy.name;
    const arith::AddParams add = require(arith::make_add(TargetType::policy, x, y, out, {}));
    cases.push_back({"add/s8s8s8" + rule, 2, 1, [=](Tensors& t, index_t n) {
                         kernels::add_codes<Backend, Policy, std::int8_t>(
                             {&add, t.codes.data(), t.more_codes.data(), t.out.data(), n, &serial});
                     }});
    const arith::MulParams mul = require(arith::make_mul(TargetType::policy, x, y, out, {}));
    cases.push_back({"mul/s8s8s8" + rule, 2, 1, [=](Tensors& t, index_t n) {
                         kernels::mul_codes<Backend, Policy, std::int8_t>(
                             {&mul, t.codes.data(), t.more_codes.data(), t.out.data(), n, &serial});
                     }});
    const kernels::RequantizeParams requantize = require(kernels::make_requantize(TargetType::policy, x, out, {}));
    cases.push_back({"requantize/s8s8" + rule, 1, 1, [=](Tensors& t, index_t n) {
                         kernels::requantize_codes<Backend, Policy, std::int8_t, std::int8_t>(
                             {&requantize, t.codes.data(), t.out.data(), 1, n, n, n, &serial});
                     }});
}

/// Images of 64 channels and rows of 32 pixels; a batch fills the size.
template <class Backend, class TargetType>
void add_pool(std::vector<Case>& cases, const char* name, OpKind op, Window2d window) {
    const Size2d in = image, out = output_size(window, in);
    const arith::CodesOf codes{0.02f, 0, DType::int8};
    const arith::AverageParams average =
        require(arith::make_average(TargetType::policy, codes, codes, {}, window.kernel.height * window.kernel.width,
                                    PoolDivisor::kernel_cells, false));
    const double written = static_cast<double>(out.height * out.width) / static_cast<double>(in.height * in.width);
    const std::string rule = op == OpKind::max_pool2d ? "" : std::string("/") + TargetType::policy.name;
    cases.push_back(
        {std::string(name_of(op)) + "/s8/" + name + rule, 1, written, [=](Tensors& t, index_t n) {
             const kernels::PoolCall call{
                 &window, &average, t.codes.data(), t.out.data(), n / (in.height * in.width * channels), channels,
                 in,      out,      &serial};
             op == OpKind::max_pool2d ? kernels::max_pool2d_codes<Backend, std::int8_t>(call)
                                      : kernels::avg_pool2d_codes<TargetType, Backend, std::int8_t>(call);
         }});
}

template <class Backend> void add_tables(std::vector<Case>& cases) {
    std::vector<std::int8_t> narrow(arith::int8_table_size);
    std::vector<std::int16_t> wide(arith::int16_table_size);
    const arith::CodesOf codes{0.02f, 0, DType::int8}, fine{0.0002f, 0, DType::int16};
    if (!arith::make_int8_table(TableFunction::sigmoid, codes, codes, narrow).ok() ||
        !arith::make_int16_table(TableFunction::sigmoid, fine, fine, wide).ok())
        throw Error("a table is refused");
    cases.push_back({"lookup_table/s8s8/per_tensor", 1, 1, [=](Tensors& t, index_t n) {
                         kernels::look_up_int8<Backend>({narrow.data(), t.codes.data(), t.out.data(), n, &serial});
                     }});
    // The floats' memory, read as codes: any bits will do.
    cases.push_back({"lookup_table/s16s16/per_tensor", 2, 2, [=](Tensors& t, index_t n) {
                         kernels::look_up_int16<Backend>({wide.data(), t.x.data(), t.y.data(), n, &serial});
                     }});
    std::vector<std::int16_t> blocks(arith::largest_block_table_size);
    require(arith::make_block_table(fine, fine, std::span(blocks),
                                    [](double x) { return arith::table_function(TableFunction::tanh, x); }));
    cases.push_back({"lookup_table/s16s16/blocks", 2, 2, [=](Tensors& t, index_t n) {
                         kernels::look_up_blocks<Backend>({blocks.data(), t.x.data(), t.y.data(), n, &serial});
                     }});
}

/// To twice the size along both axes; an element is one of the output.
template <class Backend> void add_interpolate(std::vector<Case>& cases) {
    const auto taps = std::make_shared<std::vector<arith::ResizeTap>>(2 * (image.height + image.width));
    for (const bool nearest : {true, false}) {
        const Size2d in{image.height / 2, image.width / 2};
        const auto rule = nearest ? arith::Resize::nearest : arith::Resize::half_pixel;
        const auto rows = static_cast<std::size_t>(image.height + image.width);
        const std::span<arith::ResizeTap> memory(taps->data() + (nearest ? 0 : rows), rows);
        const kernels::ResizeTable table = require(kernels::make_resize_table(rule, in, image, memory));
        cases.push_back({std::string("interpolate/s8/") + (nearest ? "nearest_x2" : "bilinear_x2"), 0.25, 1,
                         [=, keep = taps](Tensors& t, index_t n) {
                             kernels::interpolate_codes<Backend, std::int8_t>(
                                 {&table, t.codes.data(), t.out.data(), n / (image.height * image.width * channels),
                                  channels, &serial});
                         }});
    }
}

template <class Row, std::size_t Size> const Row& int8_row(const Row (&rows)[Size]) {
    for (const Row& row : rows)
        if (row.dtype == DType::int8) return row;
    throw Error("there is no row for int8");
}

/// Images of 64 channels; a batch fills the size.
template <class Backend> void add_moves(std::vector<Case>& cases) {
    constexpr index_t pixels = image.height * image.width, size = pixels * channels;
    const kernels::MoveRow& row = int8_row(kernels::detail::move_rows<Backend>);
    const auto add = [&](const char* name, double written, const kernels::MoveParams& move) {
        if (!kernels::check_move(move, size, kernels::moved_size(move), OpKind::permute).ok())
            throw Error("a move is refused");
        cases.push_back({std::string("move/s8/") + name, 1, written, [=, &row](Tensors& t, index_t n) {
                             row.run({&move, t.codes.data(), t.out.data(), n / size, size, &serial});
                         }});
    };
    kernels::MoveParams shuffle;  // of four groups of channels
    shuffle.rank = 3;
    shuffle.extents[0] = pixels, shuffle.extents[1] = channels / 4, shuffle.extents[2] = 4;
    shuffle.steps[0] = channels, shuffle.steps[1] = 1, shuffle.steps[2] = channels / 4;
    add("channel_shuffle", 1, shuffle);
    kernels::MoveParams slice;  // the last half of the channels, of which whole cache lines are read
    slice.rank = 2;
    slice.extents[0] = pixels, slice.extents[1] = channels / 2;
    slice.steps[0] = channels, slice.steps[1] = 1;
    slice.offset = channels / 2;
    add("slice", 0.5, slice);

    // An element is one of the output; the input has 12 % fewer, which the bytes of an element leave out.
    const kernels::PadRow& pad_row = int8_row(kernels::detail::pad_rows<Backend>);
    cases.push_back({"pad/s8/1x1", 1, 1, [&pad_row](Tensors& t, index_t n) {
                         const kernels::PadParams pad{{1, 1, 1, 1}, {1, 1}, 0};
                         pad_row.run({&pad,
                                      t.codes.data(),
                                      t.out.data(),
                                      n / size,
                                      channels,
                                      {image.height - 2, image.width - 2},
                                      &serial});
                     }});
}

/// Over the 64 channels of a pixel; the floats' memory takes the probabilities.
template <class Backend> void add_softmax(std::vector<Case>& cases) {
    const auto tables =
        std::make_shared<arith::SoftmaxTables>(require(arith::make_softmax_tables({0.05f, 0, DType::int8})));
    const kernels::SoftmaxRow& row = kernels::detail::softmax_rows<target::bpu<march::bayes>, Backend>[0];
    cases.push_back({"softmax/s8s16/64", 1, 2, [tables, &row](Tensors& t, index_t n) {
                         row.run({tables.get(), {}, t.codes.data(), t.y.data(), n / channels, channels, 1, &serial});
                     }});
    const auto fixed_point = std::make_shared<arith::SoftmaxTables>(
        require(arith::make_fixed_point_softmax_tables(target::tflite<>::policy, {0.05f, 0, DType::int8})));
    const kernels::SoftmaxRow& tflite = kernels::detail::softmax_rows<target::tflite<>, Backend>[0];
    cases.push_back(
        {"softmax/s8s8/64/fixed_point", 1, 1, [fixed_point, &tflite](Tensors& t, index_t n) {
             tflite.run({fixed_point.get(), {}, t.codes.data(), t.y.data(), n / channels, channels, 1, &serial});
         }});
}

/// Over the 64 channels of a pixel.
template <class Backend> void add_log_softmax(std::vector<Case>& cases) {
    struct Numbers {
        std::uint32_t entries[arith::log_softmax_entries(DType::int8)];
        std::int64_t step;
        arith::ChannelWords words;
        arith::OutputCodes codes{127, INT8_MIN, INT8_MAX};
    };
    const auto numbers = std::make_shared<Numbers>();
    const arith::CodesOf in{0.05f, 0, DType::int8};
    static_cast<void>(arith::make_log_softmax_tables(in, numbers->entries));
    numbers->step = require(arith::make_log_softmax_step(in));
    numbers->words = require(arith::make_log_softmax_words(target::fp32::policy, {0.0625f, 127, DType::int8}));
    const kernels::LogSoftmaxRow& row = kernels::detail::log_softmax_rows<target::fp32, Backend>[0];
    cases.push_back({"log_softmax/s8s8/64/fp32", 1, 1, [numbers, &row](Tensors& t, index_t n) {
                         row.run({.x = t.codes.data(),
                                  .y = t.out.data(),
                                  .rows = n / channels,
                                  .count = channels,
                                  .executor = &serial,
                                  .entries = numbers->entries,
                                  .words = &numbers->words,
                                  .codes = &numbers->codes,
                                  .step = numbers->step});
                     }});
}

/// Over the 64 channels of a pixel, and over 64 rows of 1024 columns.
template <class Backend> void add_argmax(std::vector<Case>& cases) {
    const auto add = [&](const char* name, index_t inner) {
        cases.push_back({name, 1, 1, [inner](Tensors& t, index_t n) {
                             const auto indices = reinterpret_cast<std::int32_t*>(t.out.data());
                             const index_t rows = n / (channels * inner);
                             kernels::argmax_codes<Backend, std::int8_t>(
                                 {t.codes.data(), indices, rows, {channels, inner}, &serial});
                         }});
    };
    add("argmax/s8s32/64/any", 1);
    add("argmax/s8s32/64x1024/any", 1024);
}

/// Over the 64 channels of a pixel.
template <class Backend> void add_layer_norm(std::vector<Case>& cases) {
    const auto norm = std::make_shared<arith::LayerNormParams>(
        require(arith::make_layer_norm(target::fp32::policy, {0.05f, 0, DType::int8}, {0.02f, 0, DType::int8},
                                       {0, INT8_MIN, INT8_MAX}, channels, 1e-5, {0})));
    const auto weights = std::make_shared<std::vector<std::int32_t>>(2 * channels, 1 << 29);
    const kernels::LayerNormRow& row = kernels::detail::layer_norm_rows<target::fp32, Backend>[0];
    cases.push_back({"layer_norm/s8s8/64/fp32", 1, 1, [norm, weights, &row](Tensors& t, index_t n) {
                         row.run({.params = norm.get(),
                                  .weight = weights->data(),
                                  .bias = weights->data() + channels,
                                  .x = t.codes.data(),
                                  .y = t.out.data(),
                                  .samples = n / channels,
                                  .count = channels,
                                  .executor = &serial});
                     }});
}

/// Of each 64 pixels of 64 channels by those of the other tensor, as attention multiplies queries by keys: 64 products
/// an element.
template <class Backend> void add_matmul(std::vector<Case>& cases) {
    constexpr index_t matrix = channels * channels;
    const auto params = std::make_shared<arith::MatmulParams>(
        require(arith::make_matmul(target::fp32::policy, {0.05f, 0, DType::int8}, {0.04f, 0, DType::int8},
                                   {0.5f, 0, DType::int8}, {0, INT8_MIN, INT8_MAX}, channels)));
    const auto shape = std::make_shared<kernels::MatmulShape>();
    *shape = {channels,
              channels,
              channels,
              {{2, {channels, channels}, {channels, 1}, 0}, {2, {channels, channels}, {channels, 1}, 0}}};
    const auto scratch = std::make_shared<Buffer<std::byte>>(
        kernels::matmul_workspace_size(*shape, kernels::packing_rules_of<Backend>(nullptr), DType::int8));
    const kernels::MatmulRow& row = kernels::detail::matmul_rows<target::fp32, Backend>[0];
    cases.push_back({"matmul/s8s8s8/64x64x64/fp32", 2, 1, [params, shape, scratch, &row](Tensors& t, index_t n) {
                         row.run({.params = params.get(),
                                  .shape = shape.get(),
                                  .x = {t.codes.data(), t.more_codes.data()},
                                  .image = {matrix, matrix},
                                  .y = t.out.data(),
                                  .batch = n / matrix,
                                  .workspace = scratch->data(),
                                  .executor = &serial});
                     }});
}

/// Rows of 64 codes of a table of 32,000, in the order of a linear congruential generator.
template <class Backend> void add_embedding(std::vector<Case>& cases) {
    constexpr index_t rows = 32000;
    const auto table = std::make_shared<Buffer<std::int8_t>>(rows * channels);
    const auto ids = std::make_shared<std::vector<std::int32_t>>();
    const auto params = std::make_shared<kernels::EmbeddingParams>(table->data(), rows, index_t{channels}, DType::int8);
    cases.push_back(
        {"embedding/s32s8/64", 1, 1, [table, ids, params](Tensors& t, index_t n) {
             std::uint32_t state = 1;
             while (static_cast<index_t>(ids->size()) < n / channels) {
                 state = state * 1664525u + 1013904223u;
                 ids->push_back(static_cast<std::int32_t>((state >> 16) % rows));
             }
             kernels::embed_codes<std::int8_t>({params.get(), ids->data(), t.out.data(), n / channels, &serial});
         }});
}

/// A row of a cache of 1,024 rows and 64 channels replaced in its place, and beside the cache.
template <class Backend> void add_index_copy(std::vector<Case>& cases) {
    constexpr index_t rows = 1024;
    for (const bool in_place : {true, false})
        cases.push_back(
            {in_place ? "index_copy/s8s8/in_place" : "index_copy/s8s8/copy", 1, 1, [in_place](Tensors& t, index_t n) {
                 const kernels::IndexCopyParams params{.rows = rows, .inner = channels};
                 const std::vector<std::int32_t> index(static_cast<std::size_t>(n / rows / channels), 7);
                 kernels::index_copy_codes<std::int8_t>({&params, in_place ? t.out.data() : t.codes.data(),
                                                         t.more_codes.data(), index.data(), t.out.data(),
                                                         n / rows / channels, &serial});
             }});
}

template <class Backend> std::vector<Case> cases_of() {
    using bayes = target::bpu<march::bayes>;
    std::vector<Case> cases;
    add_quantize<Backend>(cases);
    add_observers<Backend>(cases);
    add_codes_of<Backend, target::fp32>(cases);
    add_codes_of<Backend, target::tflite<>>(cases);
    add_codes_of<Backend, bayes>(cases);
    cases.push_back(
        {"relu/s8s8/per_tensor", 1, 1, [](Tensors& t, index_t n) {
             kernels::clamp_codes<Backend, std::int8_t>({{0, 0, 127}, t.codes.data(), t.out.data(), n, &serial});
         }});
    add_tables<Backend>(cases);
    add_interpolate<Backend>(cases);
    add_moves<Backend>(cases);
    add_softmax<Backend>(cases);
    add_log_softmax<Backend>(cases);
    add_argmax<Backend>(cases);
    add_layer_norm<Backend>(cases);
    add_matmul<Backend>(cases);
    add_embedding<Backend>(cases);
    add_index_copy<Backend>(cases);
    const Window2d two{{2, 2}, {2, 2}, {}, {1, 1}}, three{{3, 3}, {2, 2}, {}, {1, 1}},
        all{{32, 32}, {1, 1}, {}, {1, 1}};
    add_pool<Backend, bayes>(cases, "2x2_s2", OpKind::max_pool2d, two);
    add_pool<Backend, bayes>(cases, "3x3_s2", OpKind::max_pool2d, three);
    add_pool<Backend, bayes>(cases, "2x2_s2", OpKind::avg_pool2d, two);
    add_pool<Backend, bayes>(cases, "global", OpKind::avg_pool2d, all);
    add_pool<Backend, target::fp32>(cases, "2x2_s2", OpKind::avg_pool2d, two);
    add_pool<Backend, target::fp32>(cases, "global", OpKind::avg_pool2d, all);
    return cases;
}

}  // namespace intq_bench

#endif  // INTQ_BENCH_KERNELS_STREAMING_CASES_HPP
