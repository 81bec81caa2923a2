// SPDX-License-Identifier: MIT
//
// What one call of a small layer costs, everything in L1: the public functions, as a caller writes them. By Google
// Benchmark, since there is nothing to compare with in turns.
//
//     call_bench --filter linear
#include <benchmark/benchmark.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <vector>

#include "intq/intq.hpp"
#include "support/google_arguments.hpp"

namespace {

using intq::index_t;
using Target = intq::target::fp32;
using Backend = intq::simd::default_backend;

/// x (M, K) times weights (N, K): M images of one pixel.
void run_gemm(benchmark::State& state, index_t m, index_t k, index_t n) {
    using namespace intq;
    std::vector<std::int8_t> weights(static_cast<std::size_t>(n * k)), x(static_cast<std::size_t>(m * k)),
        y(static_cast<std::size_t>(m * n));
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<std::int8_t>(i * 37 % 255 - 127);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::int8_t>(i * 91 % 255 - 127);
    kernels::Conv2dSpec spec;
    spec.op = OpKind::linear;
    spec.in_channels = k;
    spec.out_channels = n;
    spec.input = QParams::per_tensor(0.02f, 0, DType::int8);
    spec.weight = QParams::per_tensor(0.01f, 0, DType::int8);
    spec.output = QParams::per_tensor(0.3f, 0, DType::int8);
    spec.weight_codes = weights.data();
    program::AlignedBytes storage(kernels::conv2d_storage_size<Target, Backend>(spec));
    const auto packed = value_or_throw(kernels::make_conv2d<Target, Backend>(spec, storage.workspace()));
    const auto geometry = value_or_throw(kernels::make_conv2d_geometry(spec.window, m, {1, 1}, {}));
    program::AlignedBytes scratch(kernels::conv2d_workspace_size(packed, geometry));
    const TensorView<const std::int8_t, 4, channels_last> from(x.data(), {m, k, 1, 1});
    const TensorView<std::int8_t, 4, channels_last> to(y.data(), {m, n, 1, 1});
    for (auto _ : state) {
        kernels::run_conv2d<Target, Backend>(packed, geometry, from, to, scratch.workspace());
        benchmark::ClobberMemory();
    }
    state.counters["GOP/s"] =
        benchmark::Counter(2.0 * static_cast<double>(m * k * n) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("What one call of a small int8 layer costs, target fp32, on the default backend.");
    intq_bench::Arguments arguments;
    intq_bench::add_options(app, arguments);
    CLI11_PARSE(app, argc, argv);
    if (arguments.check || arguments.record) return 0;  // it has no recorded ratios
    if (!intq_bench::is_chosen(arguments.backends, {Backend::name}, Backend::name))
        return intq_bench::report_nothing_chosen("call_bench", arguments, {Backend::name});
    intq_bench::initialize_google_benchmark(argv[0], arguments);
    const auto add = [](const char* name, index_t m, index_t k, index_t n) {
        benchmark::RegisterBenchmark((std::string(name) + "/s8s8s8/per_tensor/fp32/" + Backend::name).c_str(),
                                     [=](benchmark::State& state) { run_gemm(state, m, k, n); });
    };
    add("gemm_16x16x16", 16, 16, 16);
    add("gemm_32x32x32", 32, 32, 32);
    add("linear_64x64", 1, 64, 64);
    add("linear_256x10", 1, 256, 10);
    const std::size_t measured = benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return measured > 0 ? 0 : intq_bench::report_nothing_chosen("call_bench", arguments, {Backend::name});
}
