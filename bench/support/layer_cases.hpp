// SPDX-License-Identifier: MIT
//
// Layers of a file of shapes, and loops over codes, for programs that count or time them on one backend.
#ifndef INTQ_BENCH_SUPPORT_LAYER_CASES_HPP
#define INTQ_BENCH_SUPPORT_LAYER_CASES_HPP

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "intq/embedded.hpp"
#include "intq/kernels/streaming/softmax.hpp"
#include "shapes.hpp"

namespace intq_bench {

using namespace intq;
using Codes = std::vector<std::int8_t>;

template <class T> const T& require(const Result<T>& result) {
    if (!result.ok()) {
        std::fprintf(stderr, "setup refuses: %s\n", name_of(result.status().code));
        std::exit(1);
    }
    return result.value();
}

inline Codes codes_of(index_t count, std::uint32_t seed) {
    Codes codes(static_cast<std::size_t>(count));
    for (auto& code : codes) code = static_cast<std::int8_t>((seed = seed * 1664525u + 1013904223u) >> 24);
    return codes;
}

struct Memory {
    explicit Memory(index_t size) : bytes(static_cast<std::size_t>(size + buffer_alignment)) {}
    Workspace workspace() {
        const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
        const auto beyond = static_cast<index_t>(at % static_cast<std::uintptr_t>(buffer_alignment));
        const index_t skipped = beyond == 0 ? 0 : buffer_alignment - beyond;
        return {bytes.data() + skipped, static_cast<index_t>(bytes.size()) - skipped};
    }
    std::vector<std::byte> bytes;
};

/// Calls visit(name, products, run) for a layer, which run() computes once.
template <class Backend, class Visit> void visit_layer(const LayerShape& shape, Visit&& visit) {
    using Target = target::fp32;
    const Codes x = codes_of(shape.in_elements(), 1), weights = codes_of(shape.weight_elements(), 2);
    Codes y(static_cast<std::size_t>(shape.out_elements()));
    kernels::Conv2dSpec spec;
    spec.window = shape.window;
    spec.in_channels = shape.channels, spec.out_channels = shape.outputs, spec.groups = shape.groups;
    spec.weight_codes = weights.data();
    spec.input = QParams::per_tensor(0.02f, 3, DType::int8);
    spec.weight = QParams::per_tensor(0.01f, 0, DType::int8);
    spec.output = QParams::per_tensor(0.05f, -5, DType::int8);
    Memory storage(kernels::conv2d_storage_size<Target, Backend>(spec));
    const auto packed = require(kernels::make_conv2d<Target, Backend>(spec, storage.workspace()));
    const auto geometry = require(kernels::make_conv2d_geometry(spec.window, shape.batch, shape.in));
    Memory workspace(kernels::conv2d_workspace_size(packed, geometry));
    const Size2d out = shape.out();
    const ImageView<const std::int8_t> in(x.data(), {shape.batch, shape.channels, shape.in.height, shape.in.width});
    const ImageView<std::int8_t> to(y.data(), {shape.batch, shape.outputs, out.height, out.width});
    visit(shape.name.c_str(), shape.operations() / 2,
          [&] { kernels::run_conv2d<Target, Backend>(packed, geometry, in, to, workspace.workspace()); });
}

/// The same for loops over codes, of images of 64 channels, with the number of codes.
template <class Of, class Visit> void visit_loops(Visit&& visit) {
    using Target = target::fp32;
    constexpr index_t size = 16 * 1024, channels = 64;
    constexpr Size2d image{16, 16}, pooled{8, 8};
    const Codes x = codes_of(size, 1), y = codes_of(size, 2);
    std::vector<float> reals(static_cast<std::size_t>(size), 0.37f);
    Codes out(static_cast<std::size_t>(size));
    const arith::CodesOf of_x{0.02f, 0, DType::int8}, of_y{0.013f, 0, DType::int8}, of_out{0.031f, 0, DType::int8};
    using Policy = arith::RequantizePolicy<Target, std::int32_t>;
    const auto add = require(arith::make_add(Target::policy, of_x, of_y, of_out, {}));
    visit("add", size, [&] {
        kernels::add_codes<Of, Policy, std::int8_t>({&add, x.data(), y.data(), out.data(), size, &serial});
    });
    const auto requantize = require(kernels::make_requantize(Target::policy, of_x, of_out, {}));
    visit("requantize", size, [&] {
        kernels::requantize_codes<Of, Policy, std::int8_t, std::int8_t>(
            {&requantize, x.data(), out.data(), 1, size, size, size, &serial});
    });
    const QParams qparams = QParams::per_tensor(0.02f, 3, DType::int8);
    visit("quantize", size, [&] {
        kernels::quantize_blocks<Of>(reals.data(), {1, 1, size}, qparams, {}, out.data(), serial);
    });
    const auto tables = require(arith::make_fixed_point_softmax_tables(target::tflite<>::policy, of_x));
    const kernels::SoftmaxRow& softmax = kernels::INTQ_ABI::detail::softmax_rows<target::tflite<>, Of>[0];
    visit("softmax", size, [&] {
        softmax.run({&tables, {}, x.data(), out.data(), size / channels, channels, 1, &serial});
    });
    const auto both_tables = require(arith::make_softmax_tables(of_x));
    const kernels::SoftmaxRow& by_tables = kernels::INTQ_ABI::detail::softmax_rows<Target, Of>[0];
    std::vector<std::int16_t> probabilities(static_cast<std::size_t>(size));
    for (const index_t row : {channels, index_t{1024}})
        visit(row == channels ? "softmax_fp32_64" : "softmax_fp32_1024", size, [&] {
            by_tables.run({&both_tables, {}, x.data(), probabilities.data(), size / row, row, 1, &serial});
        });
    const Window2d window{{2, 2}, {2, 2}, {}, {1, 1}};
    const auto average =
        require(arith::make_average(Target::policy, of_x, of_x, {}, 4, PoolDivisor::kernel_cells, false));
    const kernels::PoolCall pool{&window, &average, x.data(), out.data(), 1, channels, image, pooled, &serial};
    visit("max_pool2d", size, [&] { kernels::max_pool2d_codes<Of, std::int8_t>(pool); });
    visit("avg_pool2d", size, [&] { kernels::avg_pool2d_codes<Target, Of, std::int8_t>(pool); });
    std::int8_t entries[arith::int8_table_size];
    static_cast<void>(arith::make_int8_table(TableFunction::gelu_erf, of_x, of_out, entries));
    visit("table", size, [&] {
        using L = simd::lanes<Of>;
        const auto table = L::load_table(entries);
        for (index_t i = 0; i < size; i += L::template packed_width<std::int8_t>())
            L::store_packed(out.data() + i, L::look_up(table, L::load_packed(x.data() + i)));
    });
}

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_LAYER_CASES_HPP
