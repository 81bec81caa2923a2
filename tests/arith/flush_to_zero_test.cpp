// SPDX-License-Identifier: MIT
//
// Setup and quantize in a thread that flushes denormal numbers to zero, as programs do that were linked with
// -ffast-math: the same bits and the same refusals.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/make_requantize.hpp"
#include "intq/arith/quantize.hpp"
#include "intq/arith/softmax.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/arith/unary.hpp"
#include "support/catch.hpp"

using namespace intq;

namespace {

#if defined(__SSE2__)
constexpr bool can_flush = true;
void set_flush(bool on) {
    constexpr unsigned flush_results = 0x8000, flush_operands = 0x40;
    const unsigned now = __builtin_ia32_stmxcsr() & ~(flush_results | flush_operands);
    __builtin_ia32_ldmxcsr(on ? now | flush_results | flush_operands : now);
}
#else
constexpr bool can_flush = false;
void set_flush(bool) {}
#endif

std::vector<float> numbers(float least_scale) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> result{0.0f,      1e-45f,   1e-39f,   -1e-39f,  0x1p-126f, 0x1p-127f,  0x1.fffffep-101f,
                              0x1p-100f, 0x1p-60f, 0x1p-23f, 0.0078f,  0.5f,      1.0f,       -1.5f,
                              1e10f,     0x1p126f, 3e38f,    infinity, NAN,       least_scale};
    std::mt19937 random(11);
    for (int i = 0; i < 60; ++i) result.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random()) >> 1));
    return result;
}

class Record {
public:
    void add(std::uint64_t value) { values_.push_back(value); }
    void add(float value) { add(value == value ? std::bit_cast<std::uint32_t>(value) : ~std::uint64_t{0}); }
    const std::vector<std::uint64_t>& values() const { return values_; }

private:
    std::vector<std::uint64_t> values_;
};

void add_quantize(Record& record, const std::vector<float>& all) {
    for (const float scale : all) {
        record.add(std::uint64_t{is_scale(scale)});
        if (!is_scale(scale)) continue;
        for (const float x : all)
            for (const auto by : {arith::QuantizeBy::reciprocal, arith::QuantizeBy::divide}) {
                const arith::QuantizeRule rule{arith::Rounding::half_even, by};
                record.add(static_cast<std::uint64_t>(arith::quantize(x, {scale, 0}, {}, rule)));
            }
        record.add(arith::dequantize(77, {scale, 0}));
    }
}

void add_setup(Record& record, const std::vector<float>& all) {
    for (const arith::PolicyRecord* policy :
         {&target::fp32::policy, &target::tflite<arith::double_rounding>::policy, &target::bpu<march::bayes>::policy})
        for (const float in : all)
            for (const float weight : all)
                for (const float out : all) {
                    if (!is_scale(in) || !is_scale(weight) || !is_scale(out)) continue;
                    const auto words =
                        arith::make_requantize_words(*policy, arith::RequantizeSource::gemm_accumulator,
                                                     {in, weight, out}, DType::int8, DType::int8, {-1000, 1000});
                    record.add(static_cast<std::uint64_t>(words.status().code));
                    if (words.ok())
                        for (const auto word : *words) record.add(static_cast<std::uint64_t>(word));
                }
    for (const float in : all) {
        const auto tables = arith::make_softmax_tables({in, 0, DType::int8});
        record.add(static_cast<std::uint64_t>(tables.status().code));
        if (tables.ok())
            for (const std::uint32_t term : tables->term) record.add(std::uint64_t{term});
        for (int function = 0; function <= static_cast<int>(TableFunction::reciprocal); ++function) {
            std::int8_t entries[256] = {};
            record.add(static_cast<std::uint64_t>(arith::make_int8_table(static_cast<TableFunction>(function),
                                                                         {in, 0, DType::int8}, {0.05f, 0, DType::int8},
                                                                         entries)
                                                      .code));
            for (const std::int8_t entry : entries) record.add(static_cast<std::uint64_t>(entry));
        }
    }
}

}  // namespace

TEST_CASE("Quantize, factors and tables have the same bits where denormal numbers are flushed to zero") {
    if (!can_flush) INTQ_SKIP("no switch for it is known for this machine");
    const std::vector<float> all = numbers(0x1p-100f);
    for (const auto add : {&add_quantize, &add_setup}) {
        Record usual, flushing;
        add(usual, all);
        set_flush(true);
        const volatile float smallest = std::numeric_limits<float>::min();
        const bool flushes = smallest * 0.5f == 0.0f;
        add(flushing, all);
        set_flush(false);
        CHECK(flushes);
        CHECK(usual.values().size() > 5000);
        const bool same = usual.values() == flushing.values();
        CHECK(same);
    }
}
