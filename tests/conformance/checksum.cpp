// SPDX-License-Identifier: MIT
//
// Prints checksums of the bytes that this machine computes: of each target every operator once, and of the float code
// whose bits are promised. All machines print the same.
//
// With -DINTQ_COMPILED=1 and -DINTQ_UNIT_OF_BACKEND=<backend>, which is the best of the unit's flags, it is also the
// unit of that backend, as the compiled form has one: a program that links it, with a main of its own, runs the same
// kernels without compiling them again.
#include <cmath>
#include <cstdio>

#include "intq/kernels/streaming/learnable_fake_quantize.hpp"
#include "intq/observers/grid_histogram.hpp"
#include "intq/observers/kl.hpp"
#include "intq/observers/mse.hpp"
#include "intq/observers/percentile.hpp"
#include "support/every_row.hpp"

#ifdef INTQ_UNIT_OF_BACKEND
#    include "intq/program/backends/internal/unit_of_tables.hpp"
#    include "intq/program/float/internal/unit_of_backend.hpp"
#    define INTQ_DEFINE_UNIT(backend)       \
        INTQ_DEFINE_BACKEND_TABLES(backend) \
        INTQ_DEFINE_FLOAT_KERNELS(backend)
INTQ_DEFINE_UNIT(INTQ_UNIT_OF_BACKEND)
static_assert(std::is_same_v<intq::simd::INTQ_UNIT_OF_BACKEND, intq::simd::default_backend>);
#endif

namespace {

using namespace intq;
using namespace intq::test;

class Checksum {
public:
    template <class T> void add(T value) {
        static_assert(sizeof(T) <= 8 && std::is_arithmetic_v<T>);
        unsigned char bytes[sizeof(T)];
        std::memcpy(bytes, &value, sizeof value);
        for (std::size_t i = 0; i < sizeof(T); ++i)  // the lowest first
            hash_ = (hash_ ^ bytes[is_little_endian ? i : sizeof(T) - 1 - i]) * 1099511628211u;
    }
    template <class T, std::size_t N> void add(const T (&values)[N]) {
        for (const T& value : values) add(value);
    }
    void print(const char* name) {
        std::printf("%-24s %08x\n", name, static_cast<unsigned>(hash_ ^ hash_ >> 32));
        all_ = (all_ ^ hash_) * 1099511628211u;
        hash_ = empty;
    }
    void print_all() {
        hash_ = all_;
        print("all");
    }

private:
    static constexpr std::uint64_t empty = 14695981039346656037u;
    std::uint64_t hash_ = empty, all_ = empty;
};

/// SplitMix64.
class Random {
public:
    std::uint64_t bits() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    /// Any float between the powers of two, of either sign.
    float real(int lowest_exponent, int highest_exponent) {
        const auto range = static_cast<std::uint32_t>(highest_exponent - lowest_exponent);
        const auto exponent =
            static_cast<std::uint32_t>(lowest_exponent + 127) + static_cast<std::uint32_t>(bits()) % range;
        return std::bit_cast<float>((static_cast<std::uint32_t>(bits()) & 0x807fffffu) | exponent << 23);
    }

private:
    std::uint64_t state_ = 42;
};

Checksum checksum;
Random source;

constexpr index_t count = 4096;
float x[count], g[count], y[count];
std::int8_t codes[count];
std::int64_t bins[512];
std::uint32_t scratch[4096];

void single_operations() {
    for (int i = 0; i < 20000; ++i) {
        const float a = source.real(-20, 20), b = source.real(-20, 20), c = source.real(-20, 20);
        for (const float result : {arith::fmul(a, b), arith::fdiv(a, b), arith::fadd(a, b), arith::ffma(a, b, c)})
            checksum.add(result);
        checksum.add(arith::dmul(static_cast<double>(a), static_cast<double>(b) / 3.0));
        // Beyond the normal range.
        const float small = source.real(-126, -100);
        checksum.add(arith::fmul(small, source.real(-20, -1)));
        checksum.add(arith::fdiv(small, source.real(1, 20)));
    }
    checksum.print("single operations");
}

void scales() {
    for (int i = 0; i < 20000; ++i) {
        const float a = source.real(-8, 8), b = source.real(-8, 8);
        const auto pair = arith::qparams_from_range(a < b ? a : b, a < b ? b : a);
        checksum.add(static_cast<int>(pair.status().code));
        if (!pair.ok()) continue;
        checksum.add(pair->scale);
        checksum.add(pair->zero_point);
        checksum.add(arith::quantize(source.real(-10, 10), {pair->scale, pair->zero_point}));
    }
    checksum.print("scales");
}

void fill_reals() {
    for (float& value : x) value = source.real(-8, 3);
    for (float& value : g) value = source.real(-8, 1);
}

void streaming() {
    const ImageView<const float> in(x, {1, 16, 16, 16}), gradient(g, {1, 16, 16, 16});
    const ImageView<float> out(y, {1, 16, 16, 16});
    const ImageView<std::int8_t> quantized(codes, {1, 16, 16, 16});
    for (int round = 0; round < 20; ++round) {
        fill_reals();
        x[5] = NAN, x[6] = INFINITY, x[7] = -0.0f;
        const float scale = std::fabs(source.real(-8, -3));
        const auto zero_point = static_cast<std::int32_t>(source.bits() % 16);
        const QParams qparams = QParams::per_tensor(scale, zero_point, DType::int8);
        kernels::quantize(in, qparams, {}, quantized);
        checksum.add(codes);
        kernels::dequantize(ImageView<const std::int8_t>(quantized), qparams, out);
        checksum.add(y);
        kernels::fake_quantize(in, qparams, {}, out);
        for (const float value : y) checksum.add(std::isnan(value) ? 0.5f : value);
        kernels::fake_quantize_backward(in, gradient, qparams, {}, true, out);
        checksum.add(y);
        checksum.add(static_cast<int>(kernels::check_finite(in).code));
    }
    checksum.print("streaming");
}

void ranges() {
    const ImageView<const float> in(x, {1, 16, 16, 16});
    for (int round = 0; round < 10; ++round) {
        observers::GridHistogram histogram{std::span<std::int64_t>(bins)};
        for (int batch = 0; batch < 3; ++batch) {
            fill_reals();
            checksum.add(static_cast<int>(histogram.update(in, scratch).code));
        }
        checksum.add(bins);
        if (const auto range = observers::mse_range(histogram, {}); range.ok()) checksum.add(range->highest);
    }
    checksum.print("ranges");
}

void tables() {
    for (int round = 0; round < 50; ++round) {
        const float scale = std::fabs(source.real(-8, -2));
        const auto softmax = arith::make_softmax_tables({scale, 0, DType::int8});
        checksum.add(static_cast<int>(softmax.status().code));
        if (softmax.ok()) {
            checksum.add(softmax->probability);
            checksum.add(softmax->term);
        }
        for (const TableFunction function :
             {TableFunction::sigmoid, TableFunction::tanh, TableFunction::exp, TableFunction::gelu_erf,
              TableFunction::gelu_tanh, TableFunction::silu, TableFunction::elu, TableFunction::softplus,
              TableFunction::mish, TableFunction::selu}) {
            std::int8_t entries[arith::int8_table_size];
            checksum.add(static_cast<int>(
                arith::make_int8_table(function, {scale, 0, DType::int8}, {0.01f, 0, DType::int8}, entries).code));
            checksum.add(entries);
        }
    }
    checksum.print("tables");
}

/// So many codes that a backend may requantize them otherwise than a few. Ratios of a half have ties.
template <class Target> void requantize_many(float ratio) {
    static std::int8_t from[8192 + 35], to[sizeof from];
    const auto zero_point = [] { return static_cast<std::int32_t>(source.bits() % 256) - 128; };
    for (std::size_t i = 0; i < sizeof from; ++i)
        from[i] = static_cast<std::int8_t>(i < 256 ? i : static_cast<std::size_t>(source.bits() % 256));
    const arith::CodesOf in{0.01f, zero_point(), DType::int8}, out{in.scale / ratio, zero_point(), DType::int8};
    arith::OutputCodes bounds{};
    bounds.zero_point = out.zero_point;
    if (source.bits() % 3 == 0) bounds.lowest = out.zero_point;
    const auto params = kernels::make_requantize(Target::policy, in, out, bounds);
    checksum.add(static_cast<int>(params.status().code));
    if (!params.ok()) return;
    const index_t many = sizeof from;
    kernels::requantize_codes<simd::default_backend, arith::RequantizePolicy<Target, std::int32_t>, std::int8_t,
                              std::int8_t>({&*params, from, to, 1, many, many, many, &serial});
    checksum.add(to);
}

void many_codes() {
    for (int round = 0; round < 24; ++round) {
        const float ratio = round % 4 == 0 ? 0.5f * static_cast<float>(1 + round % 5) : std::fabs(source.real(-9, 6));
        requantize_many<target::fp32>(ratio);
        requantize_many<target::tflite<>>(ratio);
    }
    checksum.print("many codes");
}

int fail(const char* what, int step) {
    std::printf("%s: step %d of support/every_row.hpp failed\n", what, step);
    return 1;
}

}  // namespace

/// Weak, for programs that link this unit and have another.
__attribute__((weak)) int main() {
    every_row::fill();
    for (const kernels::KernelTable* table : kernels::registry<simd::default_backend>) {
        every_row::ledger.restart(true);
        if (const int step = every_row::run_target(*table)) return fail(table->policy().name, step);
        checksum.add(every_row::ledger.checksum());
        checksum.print(table->policy().name);
    }
    every_row::ledger.restart(true);
    if (const int step = every_row::run_functions<simd::default_backend>()) return fail("functions", step);
    checksum.add(every_row::ledger.checksum());
    checksum.print("functions");
    single_operations();
    scales();
    streaming();
    ranges();
    tables();
    many_codes();
    checksum.print_all();
}
