// SPDX-License-Identifier: MIT
//
// add, requantize, relu and mul on codes: every row of every backend and target against the oracle, byte for byte.
#include <set>

#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using kernels::KernelTable;

// 0, 1, around every vector width, three vectors and a bit, and more than one chunk of the executor.
constexpr index_t lengths[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 50, 63, 64, 65, 194};
constexpr index_t long_length = 16 * 1024 + 21;

bool takes(const oracle::Target& target, DType dtype) { return bits_of(dtype) <= target.widest_activation; }

std::int32_t draw_zero_point(Draw& draw, const KernelTable& table, DType dtype) {
    return table.policy().zero_points
               ? static_cast<std::int32_t>(draw_code(draw, lowest_code(dtype), highest_code(dtype)))
               : 0;
}

/// Where a library function and the oracle must agree on a refusal. @return whether both accept
bool agree(bool library_ok, const oracle::Target& target, const std::string& label, const auto& evaluate) {
    bool oracle_ok = true;
    std::string why;
    try {
        evaluate(target);
    } catch (const oracle::Refused& refused) {
        oracle_ok = false;
        why = refused.what();
    }
    if (library_ok != oracle_ok)
        FAIL_CHECK(label << ": the library " << (library_ok ? "accepts" : "refuses") << ", the oracle: " << why);
    return library_ok && oracle_ok;
}

/// What run(x bytes..., y, executor) writes, against the expected bytes, with both executors.
template <class Run>
void expect_bytes(const std::string& label, const std::vector<unsigned char>& expected, DType dtype, Run&& run) {
    BackwardExecutor backward;
    for (const Executor& executor : {serial, backward.executor()}) {
        GuardedBuffer y(expected.size());
        run(y.as<std::byte>(), executor);
        if (!holds(y, expected)) FAIL_CHECK(label << ": " << first_difference(y, expected, dtype));
        if (!y.is_intact()) FAIL_CHECK(label << ": wrote around the output");
    }
}

std::string label_of(const KernelTable& table, const char* op, DType dtype, std::uint64_t seed) {
    return std::string(table.policy().name) + "/" + table.backend + " " + op + " " + name_of(dtype) + " seed " +
           std::to_string(seed);
}

struct AddProblem {
    Codes x_codes, y_codes, out_codes;
    Activation activation;
    oracle::Tensor x, y;
};

AddProblem draw_add(const KernelTable& table, DType dtype, index_t length, std::uint64_t seed) {
    Draw draw(seed);
    const float unit = dtype == DType::int16 ? 0.0001f : 0.02f;
    const float ratios[] = {1.0f, 1.0f, 0.3f, 1.9f, 0.0007f, 800.0f, 60000.0f, 1e-6f};
    AddProblem p;
    p.x_codes = {draw.real(0.5f, 1.0f) * unit, draw_zero_point(draw, table, dtype), dtype};
    p.y_codes = {p.x_codes.scale * ratios[seed % 8], draw_zero_point(draw, table, dtype), dtype};
    const float largest = p.x_codes.scale > p.y_codes.scale ? p.x_codes.scale : p.y_codes.scale;
    const float reach[] = {1.0f, 2.0f, 0.5f, 0.01f, 0.1f};
    p.out_codes = {seed % 3 == 0 ? largest : largest * reach[seed % 5] * draw.real(0.7f, 1.4f),
                   draw_zero_point(draw, table, dtype), dtype};
    p.activation = static_cast<Activation>(seed / 2 % 3);
    p.x = draw_tensor(draw, 1, length, 1, 1, p.x_codes);
    p.y = draw_tensor(draw, 1, length, 1, 1, p.y_codes);
    return p;
}

void check_add(std::size_t target_index, const std::vector<BackendTables>& backends, DType dtype, index_t length,
               bool subtract, std::uint64_t seed, std::set<const kernels::AddRow*>& rows) {
    const oracle::Target target = oracle_targets()[target_index];
    const KernelTable& first = *backends[0].tables[target_index];
    const AddProblem p = draw_add(first, dtype, length, seed);
    const auto params =
        (subtract ? arith::make_sub : arith::make_add)(first.policy(), p.x_codes.codes_of(), p.y_codes.codes_of(),
                                                       p.out_codes.codes_of(), p.out_codes.output_codes(p.activation));
    const char* const op = subtract ? "sub" : "add";
    const auto evaluate = [&](const oracle::Target& t) {
        if (length == 0)  // the oracle refuses by parameters alone
            oracle::add_codes(t, p.x_codes.zero_point, p.x_codes.for_oracle(), p.y_codes.zero_point,
                              p.y_codes.for_oracle(), p.out_codes.for_oracle(), subtract);
        return oracle::binary(t, subtract ? oracle::Binary::sub : oracle::Binary::add, p.x, p.x_codes.for_oracle(), p.y,
                              p.y_codes.for_oracle(), p.out_codes.for_oracle(), for_oracle(p.activation));
    };
    if (!agree(params.ok(), target, label_of(first, op, dtype, seed), evaluate)) return;
    const auto expected = channels_last_bytes(evaluate(target), dtype);
    const auto x_bytes = channels_last_bytes(p.x, dtype), y_bytes = channels_last_bytes(p.y, dtype);
    for (const BackendTables& backend : backends) {
        const KernelTable& table = *backend.tables[target_index];
        for (const kernels::AddRow& row : table.add) {
            if (row.dtype != dtype) continue;
            InputBytes x(x_bytes), y(y_bytes);
            const std::string label = label_of(table, op, dtype, seed);
            expect_bytes(label, expected, dtype, [&](std::byte* out, const Executor& executor) {
                row.run({&*params, x.data(), y.data(), out, length, &executor});
            });
            GuardedBuffer in_place(x_bytes.size());
            if (!x_bytes.empty()) std::memcpy(in_place.as<std::byte>(), x_bytes.data(), x_bytes.size());
            row.run({&*params, in_place.as<std::byte>(), y.data(), in_place.as<std::byte>(), length, &serial});
            if (!holds(in_place, expected))
                FAIL_CHECK(label << " in place: " << first_difference(in_place, expected, dtype));
            rows.insert(&row);
        }
    }
}

/// visit(target index) for the targets that take activations of this type.
template <class Visit> void for_each_target(DType dtype, Visit&& visit) {
    for (std::size_t target = 0; target < oracle_targets().size(); ++target)
        if (takes(oracle_targets()[target], dtype)) visit(target);
}

}  // namespace

TEST_CASE("every add and sub of codes gives the oracle's bytes") {
    const bool subtract = GENERATE(false, true);
    const std::vector<BackendTables> backends = usable_backend_tables();
    std::set<const kernels::AddRow*> rows;
    for (const DType dtype : {DType::int8, DType::int16})
        for_each_target(dtype, [&](std::size_t target) {
            std::uint64_t seed = 0;
            for (const index_t length : lengths) check_add(target, backends, dtype, length, subtract, seed++, rows);
            for (int i = 0; i < 40; ++i) check_add(target, backends, dtype, 64, subtract, seed++, rows);
            check_add(target, backends, dtype, long_length, subtract, 100, rows);
        });
    CHECK(rows.size() == backends.size() * 13);  // int8 on seven targets, int16 on six
}

TEST_CASE("int8 add is exact over all pairs of codes") {
    const std::vector<BackendTables> backends = usable_backend_tables();
    oracle::Tensor x = oracle::make_tensor(1, 65536, 1, 1), y = x;
    for (std::size_t i = 0; i < 65536; ++i) {
        x.codes[i] = static_cast<std::int64_t>(i % 256) - 128;
        y.codes[i] = static_cast<std::int64_t>(i / 256) - 128;
    }
    const Codes in{0.02f, 0, DType::int8}, other{0.013f, 0, DType::int8}, out{0.025f, 0, DType::int8};
    for_each_target(DType::int8, [&](std::size_t target_index) {
        const auto expected =
            channels_last_bytes(oracle::binary(oracle_targets()[target_index], oracle::Binary::add, x, in.for_oracle(),
                                               y, other.for_oracle(), out.for_oracle()),
                                DType::int8);
        InputBytes x_bytes(channels_last_bytes(x, DType::int8)), y_bytes(channels_last_bytes(y, DType::int8));
        for (const BackendTables& backend : backends) {
            const KernelTable& table = *backend.tables[target_index];
            const auto params =
                arith::make_add(table.policy(), in.codes_of(), other.codes_of(), out.codes_of(), out.output_codes());
            REQUIRE(params.ok());
            expect_bytes(label_of(table, "add", DType::int8, 0), expected, DType::int8,
                         [&](std::byte* to, const Executor& executor) {
                             table.add[0].run({&*params, x_bytes.data(), y_bytes.data(), to, 65536, &executor});
                         });
        }
    });
    SUCCEED();
}

namespace {

void check_requantize(std::size_t target_index, const std::vector<BackendTables>& backends, DType in, DType out,
                      index_t length, std::uint64_t seed, std::set<const kernels::RequantizeRow*>& rows) {
    const oracle::Target target = oracle_targets()[target_index];
    const KernelTable& first = *backends[0].tables[target_index];
    Draw draw(seed + 1000);
    const float ratios[] = {1.0f, 1.0f, 0.4f, 2.5f, 0.004f, 256.0f, 0.5f, 30000.0f, 40000.0f, 1e-12f};
    const Codes from{draw.real(0.001f, 0.05f), draw_zero_point(draw, first, in), in};
    Codes to{seed % 10 == 0 ? from.scale : from.scale / ratios[seed % 10] * draw.real(0.9f, 1.1f),
             draw_zero_point(draw, first, out), out};
    if (seed % 20 == 0 && in == out) to = from;  // identity
    const oracle::Tensor x = draw_tensor(draw, 1, length, 1, 1, from);
    const auto params = kernels::make_requantize(first.policy(), from.codes_of(), to.codes_of(), to.output_codes());
    const auto evaluate = [&](const oracle::Target& t) {
        oracle::requantize_code(t, from.zero_point, from.for_oracle(), to.for_oracle());
        return oracle::requantize(t, x, from.for_oracle(), to.for_oracle());
    };
    if (!agree(params.ok(), target, label_of(first, "requantize", in, seed), evaluate)) return;
    const auto expected = channels_last_bytes(evaluate(target), out);
    const auto x_bytes = channels_last_bytes(x, in);
    for (const BackendTables& backend : backends) {
        const KernelTable& table = *backend.tables[target_index];
        for (const kernels::RequantizeRow& row : table.requantize) {
            if (row.input != in || row.output != out) continue;
            InputBytes from_bytes(x_bytes);
            expect_bytes(label_of(table, "requantize", in, seed) + " to " + name_of(out), expected, out,
                         [&](std::byte* y, const Executor& executor) {
                             row.run({&*params, from_bytes.data(), y, 1, length, length, length, &executor});
                         });
            rows.insert(&row);
        }
    }
}

}  // namespace

TEST_CASE("every requantization of codes gives the oracle's bytes, identity included") {
    const std::vector<BackendTables> backends = usable_backend_tables();
    std::set<const kernels::RequantizeRow*> rows;
    for (const DType in : {DType::int8, DType::int16})
        for (const DType out : {DType::int8, DType::int16})
            for_each_target(in == DType::int16 ? in : out, [&](std::size_t target) {
                std::uint64_t seed = 0;
                for (const index_t length : lengths) check_requantize(target, backends, in, out, length, seed++, rows);
                for (int i = 0; i < 40; ++i) check_requantize(target, backends, in, out, 70, seed++, rows);
            });
    CHECK(rows.size() == backends.size() * (7 + 3 * 6));
}

TEST_CASE("relu and relu6 on codes clamp and nothing else") {
    const std::vector<BackendTables> backends = usable_backend_tables();
    std::size_t runs = 0;
    for (const DType dtype : {DType::int8, DType::int16})
        for_each_target(dtype, [&](std::size_t target_index) {
            std::uint64_t seed = 0;
            for (const index_t length : {index_t{0}, index_t{1}, index_t{5}, index_t{64}, index_t{131}, long_length})
                for (const Activation activation : {Activation::relu, Activation::relu6}) {
                    Draw draw(++seed);
                    const KernelTable& first = *backends[0].tables[target_index];
                    const Codes codes{dtype == DType::int16 ? 0.001f
                                      : seed % 3 == 0       ? 0.01f
                                                            : 0.07f,
                                      draw_zero_point(draw, first, dtype), dtype};
                    const oracle::Tensor x = draw_tensor(draw, 1, length, 1, 1, codes);
                    const auto expected = channels_last_bytes(
                        oracle::activate(oracle_targets()[target_index], x, codes.for_oracle(), for_oracle(activation)),
                        dtype);
                    InputBytes from(channels_last_bytes(x, dtype));
                    for (const BackendTables& backend : backends)
                        for (const kernels::ClampRow& row : backend.tables[target_index]->clamp) {
                            if (row.dtype != dtype) continue;
                            expect_bytes(
                                label_of(*backend.tables[target_index], "relu", dtype, seed), expected, dtype,
                                [&](std::byte* y, const Executor& executor) {
                                    row.run({codes.output_codes(activation), from.data(), y, length, &executor});
                                });
                            ++runs;
                        }
                }
        });
    CHECK(runs == backends.size() * 13 * 12);
}

// --- mul -------------------------------------------------------------------------------------------------------------

namespace {

struct MulProblem {
    Codes x_codes, y_codes, out_codes;
    Activation activation = Activation::none;
    oracle::Tensor x, y;
};

/// int16 products fit 32 bits with zero point 0 alone.
Codes draw_codes(Draw& draw, const KernelTable& table, DType dtype, float scale) {
    const bool has_zero_point = table.policy().zero_points && dtype == DType::int8;
    return {scale, has_zero_point ? static_cast<std::int32_t>(draw.between(-128, 127)) : 0, dtype};
}

MulProblem draw_mul(const KernelTable& table, DType dtype, index_t length, std::uint64_t seed) {
    Draw draw(seed);
    const float unit = dtype == DType::int16 ? 0.0001f : 0.02f;
    const float reach[] = {1.0f, 0.25f, 8.0f, 100.0f, 0.03f};
    MulProblem p;
    p.x_codes = draw_codes(draw, table, dtype, draw.real(0.5f, 1.0f) * unit);
    p.y_codes = draw_codes(draw, table, dtype, draw.real(0.5f, 1.0f) * unit);
    const float product = p.x_codes.scale * p.y_codes.scale * static_cast<float>(highest_code(dtype));
    p.out_codes = draw_codes(draw, table, dtype, product * reach[seed % 5] * draw.real(0.7f, 1.4f));
    p.activation = static_cast<Activation>(seed / 2 % 3);
    p.x = oracle::make_tensor(1, length, 1, 1);
    p.y = p.x;
    for (oracle::Tensor* operand : {&p.x, &p.y})
        for (std::int64_t& code : operand->codes)
            code = draw.one_in(6)   ? lowest_code(dtype)
                   : draw.one_in(6) ? highest_code(dtype)
                                    : draw.between(lowest_code(dtype), highest_code(dtype));
    return p;
}

void check_mul(std::size_t target_index, const std::vector<BackendTables>& backends, DType dtype, const MulProblem& p,
               std::set<const kernels::MulRow*>& rows) {
    const KernelTable& first = *backends[0].tables[target_index];
    const auto params = arith::make_mul(first.policy(), p.x_codes.codes_of(), p.y_codes.codes_of(),
                                        p.out_codes.codes_of(), p.out_codes.output_codes(p.activation));
    INFO(first.policy().name << " " << name_of(dtype) << " " << p.x_codes.scale << " " << p.y_codes.scale << " "
                             << p.out_codes.scale);
    REQUIRE(params.ok());
    const auto expected = channels_last_bytes(
        oracle::binary(oracle_targets()[target_index], oracle::Binary::mul, p.x, p.x_codes.for_oracle(), p.y,
                       p.y_codes.for_oracle(), p.out_codes.for_oracle(), for_oracle(p.activation)),
        dtype);
    const auto x_bytes = channels_last_bytes(p.x, dtype), y_bytes = channels_last_bytes(p.y, dtype);
    for (const BackendTables& backend : backends)
        for (const kernels::MulRow& row : backend.tables[target_index]->mul) {
            if (row.dtype != dtype) continue;
            InputBytes x(x_bytes), y(y_bytes);
            BackwardExecutor backward;
            for (const Executor& executor : {serial, backward.executor()}) {
                GuardedBuffer out(expected.size());
                row.run({&*params, x.data(), y.data(), out.as<std::byte>(), static_cast<index_t>(p.x.codes.size()),
                         &executor});
                if (!holds(out, expected)) FAIL_CHECK(backend.name << ": " << first_difference(out, expected, dtype));
                CHECK(out.is_intact());
            }
            rows.insert(&row);
        }
}

}  // namespace

TEST_CASE("every product of codes gives the oracle's bytes") {
    const std::vector<BackendTables> backends = usable_backend_tables();
    std::set<const kernels::MulRow*> rows;
    std::size_t combinations = 0;
    for (const DType dtype : {DType::int8, DType::int16})
        for (std::size_t target = 0; target < oracle_targets().size(); ++target) {
            if (bits_of(dtype) > oracle_targets()[target].widest_activation) continue;
            ++combinations;
            std::uint64_t seed = 0;
            for (const index_t length : {0, 1, 3, 7, 8, 15, 16, 17, 33, 63, 64, 65, 194, 16 * 1024 + 21})
                check_mul(target, backends, dtype, draw_mul(*backends[0].tables[target], dtype, length, seed++), rows);
            for (int i = 0; i < 40; ++i)
                check_mul(target, backends, dtype, draw_mul(*backends[0].tables[target], dtype, 64, seed++), rows);
        }
    CHECK(combinations == 13);
    CHECK(rows.size() == backends.size() * combinations);
}

TEST_CASE("int8 products are exact over all pairs of codes") {
    const std::vector<BackendTables> backends = usable_backend_tables();
    std::set<const kernels::MulRow*> rows;
    MulProblem p{{0.02f, 0, DType::int8}, {0.013f, 0, DType::int8}, {0.025f, 0, DType::int8}, Activation::none, {}, {}};
    p.x = oracle::make_tensor(1, 65536, 1, 1);
    p.y = p.x;
    for (std::size_t i = 0; i < 65536; ++i) {
        p.x.codes[i] = static_cast<std::int64_t>(i % 256) - 128;
        p.y.codes[i] = static_cast<std::int64_t>(i / 256) - 128;
    }
    for (std::size_t target = 0; target < oracle_targets().size(); ++target)
        check_mul(target, backends, DType::int8, p, rows);
    CHECK(rows.size() == backends.size() * oracle_targets().size());
}

TEST_CASE("a product that leaves 32 bits and a scale that no target has are refused") {
    const arith::CodesOf wide{0.001f, 0, DType::int16}, shifted{0.001f, -32768, DType::int16};
    const arith::OutputCodes codes;
    const auto code = [&](const arith::CodesOf& x, const arith::CodesOf& out) {
        const auto made = arith::make_mul(target::fp32::policy, x, x, out, codes);
        return made.ok() ? StatusCode::ok : made.status().code;
    };
    CHECK(code(wide, wide) == StatusCode::ok);
    CHECK(code(shifted, wide) == StatusCode::accumulator_overflow);
    CHECK(code({1e30f, 0, DType::int8}, {1e-30f, 0, DType::int8}) == StatusCode::scale_out_of_range);
    CHECK(arith::make_mul(target::bpu<march::bayes>::policy, {1.0f, 0, DType::int8}, {1.0f, 0, DType::int8},
                          {1e-6f, 0, DType::int8}, codes)
              .status()
              .code == StatusCode::scale_out_of_range);
}
