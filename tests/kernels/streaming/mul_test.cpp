// SPDX-License-Identifier: MIT
//
// mul on codes: every row of every backend and target against the oracle, byte for byte.
#include <set>

#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using kernels::KernelTable;

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
    CHECK(combinations == 11);
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
