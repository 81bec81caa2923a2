// SPDX-License-Identifier: MIT
//
// Kernels that stream memory: giga elements a second, and percent of what this machine's memory allows.
//
// Labels: op/types/granularity/rule/backend/elements. The limit of a row is measured next to it, on the same number of
// bytes: an element that reads r and writes w bytes takes r · read + w · (copy - read), where `read` is the time of a
// byte in a loop that only reads and `copy` in memcpy. The rows "memory" show both. A backend whose bytes differ from
// scalar's is not measured: the bench ends with an error.
#include <benchmark/benchmark.h>

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/kernels/dequantize.hpp"
#include "intq/kernels/elementwise.hpp"
#include "intq/kernels/interpolate.hpp"
#include "intq/kernels/learnable_fake_quantize.hpp"
#include "intq/kernels/lookup_table.hpp"
#include "intq/kernels/pool.hpp"
#include "intq/observers/histogram.hpp"
#include "intq/observers/min_max.hpp"
#include "support/google_arguments.hpp"

namespace {

using namespace intq;

constexpr index_t channels = 64;
constexpr index_t bins = 2048;
constexpr Size2d image{32, 32};

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

// --- the kernels
// ---------------------------------------------------------------------------------------------------------
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
                         if (!range.update<Backend>(t.view(n)).ok()) throw std::runtime_error("min_max refuses");
                     }});
    cases.push_back({"min_max/f32/per_channel", 4, 0, [](Tensors& t, index_t n) {
                         observers::MinMaxRange range(t.range_memory, 1);
                         if (!range.update<Backend>(t.rows(n)).ok()) throw std::runtime_error("min_max refuses");
                     }});
    cases.push_back({"histogram/f32/2048_bins", 4, 0, [](Tensors& t, index_t n) {
                         observers::HistogramCounts counts(t.counts, {-4.0f, 4.0f});
                         counts.update<Backend>(t.view(n), t.words);
                     }});
}

template <class T> const T& require(const Result<T>& result) {
    if (!result.ok()) throw std::runtime_error(std::string("setup refuses: ") + name_of(result.status().code));
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
                                      : kernels::avg_pool2d_codes<Backend, std::int8_t>(call);
         }});
}

template <class Backend> void add_tables(std::vector<Case>& cases) {
    std::vector<std::int8_t> narrow(arith::int8_table_size);
    std::vector<std::int16_t> wide(arith::int16_table_size);
    const arith::CodesOf codes{0.02f, 0, DType::int8}, fine{0.0002f, 0, DType::int16};
    if (!arith::make_int8_table(arith::TableFunction::sigmoid, codes, codes, narrow).ok() ||
        !arith::make_int16_table(arith::TableFunction::sigmoid, fine, fine, wide).ok())
        throw std::runtime_error("a table is refused");
    cases.push_back({"lookup_table/s8s8/per_tensor", 1, 1, [=](Tensors& t, index_t n) {
                         kernels::look_up_int8<Backend>({narrow.data(), t.codes.data(), t.out.data(), n, &serial});
                     }});
    // The floats' memory, read as codes: any bits will do.
    cases.push_back({"lookup_table/s16s16/per_tensor", 2, 2, [=](Tensors& t, index_t n) {
                         kernels::look_up_int16<Backend>({wide.data(), t.x.data(), t.y.data(), n, &serial});
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
    const Window2d two{{2, 2}, {2, 2}, {}, {1, 1}}, three{{3, 3}, {2, 2}, {}, {1, 1}},
        all{{32, 32}, {1, 1}, {}, {1, 1}};
    add_pool<Backend, bayes>(cases, "2x2_s2", OpKind::max_pool2d, two);
    add_pool<Backend, bayes>(cases, "3x3_s2", OpKind::max_pool2d, three);
    add_pool<Backend, bayes>(cases, "2x2_s2", OpKind::avg_pool2d, two);
    add_pool<Backend, bayes>(cases, "global", OpKind::avg_pool2d, all);
    add_pool<Backend, target::fp32>(cases, "2x2_s2", OpKind::avg_pool2d, two);
    return cases;
}

// --- time and limit --------------------------------------------------------------------------------------------------
/// Seconds of this thread: what other processes take from the core is not ours.
double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Seconds of a call, the median of nine samples of at least a tenth of a millisecond.
template <class Function> double seconds_of(Function&& function) {
    std::vector<double> samples;
    index_t calls = 1;
    while (samples.size() < 9) {
        const double start = now();
        for (index_t i = 0; i < calls; ++i) function();
        const double seconds = now() - start;
        if (seconds < 1e-4) {
            calls *= 2;
        } else {
            samples.push_back(seconds / static_cast<double>(calls));
        }
    }
    std::nth_element(samples.begin(), samples.begin() + 4, samples.end());
    return samples[4];
}

/// Time of a byte that is read, and of one that is read and written elsewhere, where `bytes` are touched in all.
struct Limit {
    double read, copy;

    Limit(Tensors& tensors, double bytes) {
        using L = simd::lanes<simd::default_backend>;
        const index_t step = 4 * L::width();
        const index_t floats = std::min(static_cast<index_t>(bytes / 4), tensors.size) / step * step;
        const auto* const from = reinterpret_cast<const std::int32_t*>(tensors.x.data());
        read = seconds_of([&] {
                   auto a = L::set(std::int32_t{0}), b = a, c = a, d = a;
                   for (index_t i = 0; i < floats; i += step) {
                       a = L::max(a, L::load(from + i));
                       b = L::max(b, L::load(from + i + L::width()));
                       c = L::max(c, L::load(from + i + 2 * L::width()));
                       d = L::max(d, L::load(from + i + 3 * L::width()));
                   }
                   std::int32_t sink[256];
                   L::store(sink, L::max(L::max(a, b), L::max(c, d)));
                   benchmark::DoNotOptimize(sink);
               }) /
               static_cast<double>(4 * floats);
        const std::size_t half =
            std::min(static_cast<std::size_t>(bytes / 2), 4 * static_cast<std::size_t>(tensors.size));
        copy = seconds_of([&] {
                   std::memcpy(tensors.y.data(), tensors.x.data(), half);
                   benchmark::ClobberMemory();
               }) /
               static_cast<double>(half);
    }
    /// Seconds of an element. A write costs what a copy takes beyond its read.
    double element(const Case& kernel) const {
        return kernel.read_bytes * read + kernel.written_bytes * std::max(copy - read, 0.0);
    }
};

void measure(benchmark::State& state, const Case& kernel, Tensors& tensors, index_t n) {
    const double bytes = (kernel.read_bytes + kernel.written_bytes) * static_cast<double>(n);
    const Limit before(tensors, bytes);
    kernel.run(tensors, n);
    const double start = now();
    for (auto _ : state) {
        kernel.run(tensors, n);
        benchmark::ClobberMemory();
    }
    const double seconds = (now() - start) / static_cast<double>(state.iterations()) / static_cast<double>(n);
    const Limit after(tensors, bytes);
    const double limit = (before.element(kernel) + after.element(kernel)) / 2;
    state.counters["Gelem/s"] = 1e-9 / seconds;
    state.counters["limit"] = 1e-9 / limit;
    state.counters["percent"] = 100 * limit / seconds;
}

void measure_memory(benchmark::State& state, Tensors& tensors, index_t n) {
    const Limit limit(tensors, 8.0 * static_cast<double>(n));
    for (auto _ : state) benchmark::ClobberMemory();
    state.counters["read_GB/s"] = 1e-9 / limit.read;
    state.counters["copied_GB/s"] = 1e-9 / limit.copy;
}

// --- registration
// --------------------------------------------------------------------------------------------------------
void require_conformance(const std::vector<Case>& cases, const std::vector<Case>& scalar, const char* backend) {
    constexpr index_t n = 2 * 32 * 32 * channels;
    for (std::size_t i = 0; i < cases.size(); ++i) {
        Tensors actual(n), expected(n);
        std::memset(actual.y.data(), 0, n * sizeof(float));
        std::memset(expected.y.data(), 0, n * sizeof(float));
        std::memset(actual.out.data(), 0, n);
        std::memset(expected.out.data(), 0, n);
        cases[i].run(actual, n);
        scalar[i].run(expected, n);
        if (actual.written() != expected.written())
            throw std::runtime_error(cases[i].label + ": the bytes of " + backend + " differ from scalar's");
    }
}

const char* name_of_size(index_t n) { return n == 65536 ? "64Ki" : n == 1048576 ? "1Mi" : "16Mi"; }
constexpr index_t sizes[] = {64 * 1024, 1024 * 1024, 16 * 1024 * 1024};

template <class Backend>
void register_backend(const std::vector<Case>& scalar, const std::shared_ptr<Tensors>& tensors) {
    const std::vector<Case> cases = cases_of<Backend>();
    require_conformance(cases, scalar, Backend::name);
    for (const Case& kernel : cases)
        for (const index_t n : sizes) {
            const std::string label = kernel.label + "/" + Backend::name + "/" + name_of_size(n);
            benchmark::RegisterBenchmark(label.c_str(),
                                         [=](benchmark::State& state) { measure(state, kernel, *tensors, n); });
        }
}

/// The best backend of this unit, and AVX2 where that is another.
template <class First, class... Rest> void register_backends(simd::BackendList<First, Rest...>) {
    const auto tensors = std::make_shared<Tensors>(sizes[2]);
    for (const index_t n : sizes)
        benchmark::RegisterBenchmark((std::string("memory/") + name_of_size(n)).c_str(), [=](benchmark::State& state) {
            measure_memory(state, *tensors, n);
        })->Iterations(1);
    const std::vector<Case> scalar = cases_of<simd::scalar>();
    register_backend<First>(scalar, tensors);
    const auto register_avx2 = [&]<class Backend>(Backend) {
        if constexpr (std::is_same_v<Backend, simd::avx2>) register_backend<Backend>(scalar, tensors);
    };
    (register_avx2(Rest{}), ...);
}

}  // namespace

int main(int argc, char** argv) try {
    CLI::App app("Measures the streaming kernels: quantize, fake-quantize, observers, add, pooling, tables.");
    intq_bench::Arguments arguments;
    intq_bench::add_options(app, arguments);
    CLI11_PARSE(app, argc, argv);
    if (arguments.check || arguments.record) return 0;  // it has no recorded ratios
    intq_bench::initialize_google_benchmark(argv[0], arguments);
    register_backends(simd::usable_backends{});
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
} catch (const std::exception& error) {
    std::fprintf(stderr, "streaming_bench: %s\n", error.what());
    return 1;
}
