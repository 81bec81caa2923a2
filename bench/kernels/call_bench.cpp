// SPDX-License-Identifier: MIT
//
// What one call of a small layer costs, everything in L1: the public functions, as a caller writes them.
//
//     call_bench --filter linear
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "intq/embedded.hpp"
#include "intq/io/error.hpp"
#include "intq/program/owned_program.hpp"
#include "support/benchmarks.hpp"

namespace {

using namespace intq_bench;
using intq::index_t;
using Target = intq::target::fp32;
using Backend = intq::simd::default_backend;

/// x (M, K) times weights (N, K): M images of one pixel.
class SmallLayer {
public:
    SmallLayer(index_t m, index_t k, index_t n)
        : weights_(static_cast<std::size_t>(n * k)),
          x_(static_cast<std::size_t>(m * k)),
          y_(static_cast<std::size_t>(m * n)) {
        using namespace intq;
        for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] = static_cast<std::int8_t>(i * 37 % 255 - 127);
        for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<std::int8_t>(i * 91 % 255 - 127);
        kernels::Conv2dSpec spec;
        spec.op = OpKind::linear;
        spec.in_channels = k;
        spec.out_channels = n;
        spec.input = QParams::per_tensor(0.02f, 0, DType::int8);
        spec.weight = QParams::per_tensor(0.01f, 0, DType::int8);
        spec.output = QParams::per_tensor(0.3f, 0, DType::int8);
        spec.weight_codes = weights_.data();
        storage_ = program::AlignedBytes(kernels::conv2d_storage_size<Target, Backend>(spec));
        packed_ = value_or_throw(kernels::make_conv2d<Target, Backend>(spec, storage_.workspace()));
        geometry_ = value_or_throw(kernels::make_conv2d_geometry(spec.window, m, {1, 1}));
        scratch_ = program::AlignedBytes(kernels::conv2d_workspace_size(packed_, geometry_));
        from_ = {x_.data(), {m, k, 1, 1}};
        to_ = {y_.data(), {m, n, 1, 1}};
    }
    void run() {
        intq::kernels::run_conv2d<Target, Backend>(packed_, geometry_, from_, to_, scratch_.workspace());
        asm volatile("" : : : "memory");
    }

private:
    std::vector<std::int8_t> weights_, x_, y_;
    intq::program::AlignedBytes storage_, scratch_;
    intq::kernels::PackedConv2d packed_{};
    intq::kernels::ConvGeometry geometry_{};
    intq::TensorView<const std::int8_t, 4, intq::channels_last> from_;
    intq::TensorView<std::int8_t, 4, intq::channels_last> to_;
};

struct Size {
    const char* layer;
    index_t m, k, n;
};
constexpr Size sizes[] = {{"gemm_16x16x16", 16, 16, 16},
                          {"gemm_32x32x32", 32, 32, 32},
                          {"linear_64x64", 1, 64, 64},
                          {"linear_256x10", 1, 256, 10}};

void add(Benchmarks& benchmarks, const Size& size, const Arguments& arguments, std::vector<Row>& rows) {
    Row row;
    row.group = "calls";
    row.op = "call";
    row.types = "s8s8s8";
    row.granularity = "per_tensor";
    row.target = Target::policy.name;
    row.backend = Backend::name;
    row.layer = size.layer;
    row.operations = 2.0 * static_cast<double>(size.m * size.k * size.n);
    if (!arguments.matches(row.label())) return;
    const PeakLoop* const peak = peak_of(Backend::name, intq::DType::int8);
    const auto filled = [row, peak](std::span<const Measurement> measured) {
        Row result = row;
        fill(result, measured[0], peak);
        return result;
    };
    benchmarks.add(
        {{row.label()},
         [size, peak] {
             const auto layer = std::make_shared<SmallLayer>(size.m, size.k, size.n);
             return std::vector<Contender>{{[layer] { layer->run(); }, peak}};
         },
         [filled](std::size_t, std::span<const Measurement> measured) { return counters_of(filled(measured)); },
         [filled, &rows](std::span<const Measurement> measured) { rows.push_back(filled(measured)); }});
}

int run(const Arguments& arguments) {
    if (arguments.check || arguments.record) return nothing_chosen;  // it has no recorded ratios
    const std::string backend = Backend::name;
    if (!is_chosen(arguments.backends, {backend}, backend)) return report_nothing_chosen(arguments, {backend});
    Benchmarks benchmarks(arguments);
    Results results;
    for (const Size& size : sizes) add(benchmarks, size, arguments, results.rows);
    if (benchmarks.size() == 0) return report_nothing_chosen(arguments, {backend});
    if (!arguments.only_lists()) pin_to_one_processor();
    benchmarks.run();
    if (arguments.prints_tables()) print_group(results, "calls");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return intq_bench::run_bench(
        argc, argv, "Measures what one call of a small int8 layer costs, target fp32, on the default backend.", run);
}
