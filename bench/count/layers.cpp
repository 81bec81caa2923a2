// SPDX-License-Identifier: MIT
//
// Runs layers of a file of shapes, and loops over codes, once each on one backend, with a mark before and behind each,
// under the plugin of count_instructions.c. Prints a line for each: its name, and its products or elements.
// Compiled with
//
//     -DINTQ_COUNTED=<tag of simd>
//
//     layers <file of shapes>
//
// bench/count/layers joins the lines and the counts.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "intq/embedded.hpp"
#include "intq/kernels/streaming/softmax.hpp"
#include "shapes.hpp"

/// One instruction, which the plugin knows by its name.
extern "C" [[gnu::noinline]] void intq_mark() noexcept { asm volatile(""); }

namespace {

using namespace intq;
using Backend = simd::INTQ_COUNTED;
using Target = target::fp32;
using Codes = std::vector<std::int8_t>;

void (*volatile mark)() noexcept = &intq_mark;

/// Layers beyond this take an emulator too long.
constexpr double most_products = 300e6;

template <class T> const T& require(const Result<T>& result) {
    if (!result.ok()) {
        std::fprintf(stderr, "setup refuses: %s\n", name_of(result.status().code));
        std::exit(1);
    }
    return result.value();
}

Codes codes_of(index_t count, std::uint32_t seed) {
    Codes codes(static_cast<std::size_t>(count));
    for (auto& code : codes) code = static_cast<std::int8_t>((seed = seed * 1664525u + 1013904223u) >> 24);
    return codes;
}

template <class Run> void count(const char* name, double items, Run&& run) {
    run();  // tables and pages
    mark();
    run();
    mark();
    std::printf("%s %.0f\n", name, items);
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

void count_layer(const intq_bench::LayerShape& shape) {
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
    count(shape.name.c_str(), shape.operations() / 2,
          [&] { kernels::run_conv2d<Target, Backend>(packed, geometry, in, to, workspace.workspace()); });
}

/// Loops over codes, of images of 64 channels.
template <class Of> void count_loops(const char* backend) {
    constexpr index_t size = 16 * 1024, channels = 64;
    constexpr Size2d image{16, 16}, pooled{8, 8};
    const Codes x = codes_of(size, 1), y = codes_of(size, 2);
    std::vector<float> reals(static_cast<std::size_t>(size), 0.37f);
    Codes out(static_cast<std::size_t>(size));
    const auto named = [&](const char* what) { return std::string(what) + "/" + backend; };
    const arith::CodesOf of_x{0.02f, 0, DType::int8}, of_y{0.013f, 0, DType::int8}, of_out{0.031f, 0, DType::int8};
    using Policy = arith::RequantizePolicy<Target, std::int32_t>;
    const auto add = require(arith::make_add(Target::policy, of_x, of_y, of_out, {}));
    count(named("add").c_str(), size, [&] {
        kernels::add_codes<Of, Policy, std::int8_t>({&add, x.data(), y.data(), out.data(), size, &serial});
    });
    const auto requantize = require(kernels::make_requantize(Target::policy, of_x, of_out, {}));
    count(named("requantize").c_str(), size, [&] {
        kernels::requantize_codes<Of, Policy, std::int8_t, std::int8_t>(
            {&requantize, x.data(), out.data(), 1, size, size, size, &serial});
    });
    const QParams qparams = QParams::per_tensor(0.02f, 3, DType::int8);
    count(named("quantize").c_str(), size, [&] {
        kernels::quantize_blocks<Of>(reals.data(), {1, 1, size}, qparams, {}, out.data(), serial);
    });
    const auto tables = require(arith::make_fixed_point_softmax_tables(target::tflite<>::policy, of_x));
    const kernels::SoftmaxRow& softmax = kernels::INTQ_ABI::detail::softmax_rows<target::tflite<>, Of>[0];
    count(named("softmax").c_str(), size, [&] {
        softmax.run({&tables, {}, x.data(), out.data(), size / channels, channels, 1, &serial});
    });
    const Window2d window{{2, 2}, {2, 2}, {}, {1, 1}};
    const auto average =
        require(arith::make_average(Target::policy, of_x, of_x, {}, 4, PoolDivisor::kernel_cells, false));
    const kernels::PoolCall pool{&window, &average, x.data(), out.data(), 1, channels, image, pooled, &serial};
    count(named("max_pool2d").c_str(), size, [&] { kernels::max_pool2d_codes<Of, std::int8_t>(pool); });
    count(named("avg_pool2d").c_str(), size, [&] { kernels::avg_pool2d_codes<Target, Of, std::int8_t>(pool); });
    std::int8_t entries[arith::int8_table_size];
    static_cast<void>(arith::make_int8_table(TableFunction::gelu_erf, of_x, of_out, entries));
    count(named("table").c_str(), size, [&] {
        using L = simd::lanes<Of>;
        const auto table = L::load_table(entries);
        for (index_t i = 0; i < size; i += L::template packed_width<std::int8_t>())
            L::store_packed(out.data() + i, L::look_up(table, L::load_packed(x.data() + i)));
    });
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    for (const auto& shape : intq_bench::read_shapes(argv[1]))
        if (shape.operations() / 2 <= most_products) count_layer(shape);
    count_loops<Backend>(Backend::name);
    count_loops<simd::scalar>("scalar");
}
