// SPDX-License-Identifier: MIT
//
// int8 convolutions and linear layers of ResNet-18 on every backend of this unit, in GOP/s, one thread.
//
// Labels: op/types/granularity/target/backend/layer. A backend whose bytes differ from scalar's is not
// measured: the bench ends with an error.
#include <benchmark/benchmark.h>

#include <cstdio>

#include "intq/arith/fp32.hpp"
#include "support/conv_case.hpp"

namespace {

using intq::kernels::KernelTable;
using intq_bench::ConvCase;
using intq_bench::LayerShape;

/// A layer of the same window and channels on at most 9×9 pixels: enough for every tail, quick on scalar.
LayerShape smaller(LayerShape shape) {
    shape.in.height = std::min<intq::index_t>(shape.in.height, 9);
    shape.in.width = std::min<intq::index_t>(shape.in.width, 9);
    return shape;
}

void require_conformance(const KernelTable& table, const LayerShape& shape) {
    ConvCase expected(intq::kernels::kernel_table<intq::target::fp32, intq::simd::scalar>, smaller(shape));
    ConvCase actual(table, smaller(shape));
    expected.run();
    actual.run();
    if (expected.output() != actual.output())
        throw intq::Error(shape.name, std::string("the bytes of ") + table.backend + " differ from scalar's");
}

void measure(benchmark::State& state, const KernelTable& table, const LayerShape& shape) {
    ConvCase conv(table, shape);
    for (auto _ : state) {
        conv.run();
        benchmark::DoNotOptimize(conv.output().data());
        benchmark::ClobberMemory();
    }
    state.counters["GOP/s"] =
        benchmark::Counter(shape.operations() * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

template <class... Backend>
void register_all(intq::simd::BackendList<Backend...>, const std::vector<LayerShape>& shapes) {
    const auto one = [&](const KernelTable& table) {
        for (const LayerShape& shape : shapes) {
            require_conformance(table, shape);
            const std::string label = std::string(name_of(shape.op)) + "/s8s8s8/per_channel/" + table.policy().name +
                                      "/" + table.backend + "/" + shape.name;
            benchmark::RegisterBenchmark(label.c_str(),
                                         [&table, shape](benchmark::State& state) { measure(state, table, shape); })
                ->Unit(benchmark::kMicrosecond)
                ->UseRealTime();
        }
    };
    (one(intq::kernels::kernel_table<intq::target::fp32, Backend>), ...);
}

}  // namespace

int main(int argc, char** argv) try {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    register_all(intq::simd::usable_backends{}, intq_bench::read_shapes(INTQ_BENCH_DIR "/shapes/resnet18.txt"));
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
} catch (const std::exception& error) {
    std::fprintf(stderr, "conv2d_bench: %s\n", error.what());
    return 1;
}
