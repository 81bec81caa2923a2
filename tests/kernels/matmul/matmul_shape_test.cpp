// SPDX-License-Identifier: MIT
//
// check_matmul_shape: what is refused, by the addresses themselves, and without an overflow on the way. make_matmul
// refuses the products that the oracle refuses, and the oracle has the page's numbers.
#include <cmath>
#include <cstdint>
#include <vector>

#include "intq/kernels/matmul/matmul_call.hpp"
#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "reference/matmul.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using namespace intq::test;

struct Claim {
    kernels::MatmulShape shape{};
    index_t images[2] = {}, out = 0;
};

/// Two products of plain matrices, (3, 4) by (5, 4).
constexpr Claim plain_claim() {
    Claim claim{{3, 5, 4, {}}, {24, 40}, 30};
    claim.shape.places[0] = {3, {2, 3, 4}, {12, 4, 1}, 0};
    claim.shape.places[1] = {3, {2, 5, 4}, {20, 4, 1}, 0};
    return claim;
}

constexpr index_t wrong_numbers[] = {
    0,         -1, INT64_MIN,      INT64_MIN + 1,        INT64_MAX,       INT64_MAX / 2, INT32_MAX,
    INT32_MIN, 7,  INT64_MAX / 64, INT64_MAX / 4096 / 8, index_t{1} << 40};

constexpr bool is_corrupt(const Claim& claim) {
    return kernels::check_matmul_shape(claim.shape, claim.images, claim.out).code == StatusCode::corrupt;
}

/// Whether each wrong number in each place is refused. A constant, so no sum or product overflows on the way.
constexpr bool refuses_wrong_numbers() {
    for (const index_t wrong : wrong_numbers)
        for (int place = 0; place < 4; ++place) {
            Claim claim = plain_claim();
            (place == 0   ? claim.shape.rows
             : place == 1 ? claim.shape.columns
             : place == 2 ? claim.shape.inner
                          : claim.out) = wrong;
            if (!is_corrupt(claim)) return false;
        }
    return true;
}

constexpr bool refuses_wrong_places() {
    for (const index_t wrong : wrong_numbers)
        for (int operand = 0; operand < 2; ++operand)
            for (int place = 0; place < 7; ++place) {
                Claim claim = plain_claim();
                kernels::MoveParams& places = claim.shape.places[operand];
                const bool stays_inside = place >= 3 && place < 6 && (wrong == 0 || (wrong == 7 && place == 3));
                (place < 3 ? places.extents[place] : place < 6 ? places.steps[place - 3] : places.offset) = wrong;
                if (place == 6 && wrong == 0) continue;
                if (!stays_inside && !is_corrupt(claim)) return false;
            }
    return true;
}

/// Extents that go on beyond 64 bits together, with places that agree with them as far as they can.
constexpr bool refuses_products_that_overflow() {
    constexpr index_t most = INT64_MAX;
    constexpr index_t extents[][3] = {{most, most, most},
                                      {most, 1, 1},
                                      {1, most, 1},
                                      {1, 1, most},
                                      {index_t{1} << 32, index_t{1} << 32, 1},
                                      {1 << 20, 1, index_t{1} << 40},
                                      {index_t{1} << 32, index_t{1} << 32, index_t{1} << 32}};
    for (const auto& [rows, columns, inner] : extents)
        for (const index_t out : {index_t{1}, index_t{1} << 60, most}) {
            const kernels::MoveParams a{3, {1, rows, inner}, {0, 0, 0}, 0}, b{3, {1, columns, inner}, {0, 0, 0}, 0};
            if (!is_corrupt({{rows, columns, inner, {a, b}}, {1, 1}, out})) return false;
        }
    return true;
}

constexpr bool refuses_rank(int rank) {
    Claim first = plain_claim(), second = plain_claim();
    first.shape.places[0].rank = rank, second.shape.places[1].rank = rank;
    return is_corrupt(first) && is_corrupt(second);
}

/// Whether a claim holds, by the addresses themselves. Small extents only.
bool holds_truly(const Claim& claim) {
    const kernels::MatmulShape& shape = claim.shape;
    if (shape.rows < 1 || shape.columns < 1 || shape.inner < 1) return false;
    const index_t count = claim.out / (shape.rows * shape.columns);
    if (count < 1 || count * shape.rows * shape.columns != claim.out) return false;
    for (int operand = 0; operand < 2; ++operand) {
        const kernels::MoveParams& places = shape.places[operand];
        if (places.rank < 1 || places.rank > max_rank) return false;
        const auto all = oracle::places_of({places.extents, places.extents + places.rank},
                                           {places.steps, places.steps + places.rank}, places.offset);
        const index_t lines = operand == 0 ? shape.rows : shape.columns;
        if (static_cast<index_t>(all.size()) != count * lines * shape.inner) return false;
        for (const std::int64_t place : all)
            if (place < 0 || place >= claim.images[operand]) return false;
    }
    return true;
}

// --- scales, zero points and counts of products ----------------------------------------------------------------------

/// Three types of one target, with any scales, or with a ratio that a target may take.
struct Operands {
    Codes a, b, out;
    index_t inner = 1;

    oracle::Matmul for_oracle() const { return {1, 1, inner, a.for_oracle(), b.for_oracle(), out.for_oracle()}; }
};

Operands draw_operands(Draw& draw, DType dtype, bool zero_points) {
    const auto scale = [&] {
        const auto power = draw.one_in(2) ? draw.between(-105, 127) : draw.between(-30, 20);
        return std::ldexp(draw.one_in(2) ? 1.0f : draw.real(1.0f, 2.0f), static_cast<int>(power));
    };
    Operands p{{scale(), 0, dtype}, {scale(), 0, dtype}, {scale(), 0, dtype}};
    if (draw.one_in(2))
        p.out.scale =
            std::ldexp(p.a.scale * p.b.scale * draw.real(1.0f, 2.0f), static_cast<int>(draw.between(-40, 40)));
    constexpr index_t ends[] = {1, 32769, 33025, 65537, 65793, 131071, 2097216, 4194368, 8388608, index_t{1} << 30};
    p.inner = draw.one_in(2) ? draw.between(1, 140'000) : ends[draw.between(0, 9)] + draw.between(-1, 1);
    for (Codes* const codes : {&p.a, &p.b, &p.out})
        if (zero_points ? draw.one_in(2) : draw.one_in(40))
            codes->zero_point = static_cast<std::int32_t>(
                draw.between(codes->lowest() - draw.between(0, 1), codes->highest() + draw.between(0, 1)));
    return p;
}

bool oracle_takes(const oracle::Target& target, const Operands& p) {
    try {
        oracle::refuse_matmul(target, p.for_oracle());
        return true;
    } catch (const oracle::Refused&) {
        return false;
    }
}

/// Whether a number of fp32 that is neither 0 nor infinite is denormal: make_matmul refuses it.
bool is_denormal(const Operands& p) {
    const float s_acc = oracle::fmul(p.a.scale, p.b.scale);
    return !std::isnormal(s_acc) || !std::isnormal(oracle::fdiv(s_acc, p.out.scale));
}

}  // namespace

TEST_CASE("The oracle's product of two operands has the numbers of docs/arithmetic.md") {
    using oracle::int16, oracle::int8, oracle::matmul;
    const std::vector<std::int64_t> a{100, -128, 7}, b{50, 3, -128};
    const auto code = [&](const oracle::Target& target, std::int64_t zp_a, std::int64_t zp_b, std::int64_t zp_out) {
        return matmul(target, {1, 1, 3, int8(0.05f, zp_a), int8(0.02f, zp_b), int8(0.1f, zp_out)}, a, b).at(0);
    };
    CHECK(code(oracle::bayes(), 0, 0, 0) == 37);
    CHECK(code(oracle::fp32(), -5, 4, 10) == 44);
    CHECK(code(oracle::tflite_double(), -128, 4, -7) == -80);
    const oracle::Matmul wide{1, 1, 2, int16(0.001f), int16(0.002f), int16(0.1f)};
    CHECK(matmul(oracle::meta(), wide, {3000, -2000}, {3000, -2000}).at(0) == 260);
    CHECK(matmul(oracle::litert(), wide, {3000, -2000}, {100, -3000}).at(0) == 126);
    const oracle::MatmulRange range = oracle::matmul_range(int8(1.0f, 127), int8(1.0f, -128), 33025);
    CHECK(range.lowest == -2147450625);
    CHECK(range.highest == 0);
    // Two rows and two columns, by hand: b is (k, j).
    CHECK(matmul(oracle::fp32(), {2, 2, 2, int8(1.0f), int8(1.0f), int8(1.0f)}, {1, 2, 3, 4}, {5, 6, 7, 8}) ==
          std::vector<std::int64_t>{19, 22, 43, 50});
}

TEST_CASE("make_matmul refuses the products of two operands that the oracle refuses, on every target") {
    Draw draw(13);
    int wrong = 0, taken = 0, refused = 0;
    for (int round = 0; round < 60000; ++round) {
        const auto i = static_cast<std::size_t>(draw.between(0, 6));
        const DType dtype = draw.one_in(2) ? DType::int8 : DType::int16;
        const oracle::Target target = oracle_targets()[i];
        const arith::PolicyRecord& policy = scalar_tables().tables[i]->policy();
        const Operands p = draw_operands(draw, dtype, policy.zero_points);
        if (bits_of(dtype) > target.widest_activation) continue;
        if (target.kind == oracle::Target::Kind::fp32 && is_denormal(p)) continue;
        const arith::OutputCodes codes{p.out.zero_point, static_cast<std::int32_t>(p.out.lowest()),
                                       static_cast<std::int32_t>(p.out.highest())};
        const bool is_made =
            arith::make_matmul(policy, p.a.codes_of(), p.b.codes_of(), p.out.codes_of(), codes, p.inner).ok();
        wrong += is_made != oracle_takes(target, p);
        (is_made ? taken : refused) += 1;
    }
    CHECK(wrong == 0);
    CHECK(taken > 5000);
    CHECK(refused > 5000);
}

TEST_CASE("A shape of a product that says anything is refused, and nothing overflows") {
    static_assert(kernels::check_matmul_shape(plain_claim().shape, plain_claim().images, plain_claim().out).ok());
    static_assert(refuses_wrong_numbers());
    static_assert(refuses_wrong_places());
    static_assert(refuses_products_that_overflow());
    static_assert(refuses_rank(0) && refuses_rank(7) && refuses_rank(-1) && refuses_rank(INT32_MIN) &&
                  refuses_rank(INT32_MAX));
    Draw draw(11);
    int wrong = 0, ok = 0;
    for (int round = 0; round < 20000; ++round) {
        Claim claim = plain_claim();
        for (auto damages = draw.between(1, 3); damages > 0; --damages) {
            kernels::MoveParams& places = claim.shape.places[draw.between(0, 1)];
            const auto axis = draw.between(0, 2);
            index_t* const fields[] = {
                &claim.shape.rows,     &claim.shape.columns, &claim.shape.inner, &claim.out,
                &places.extents[axis], &places.steps[axis],  &places.offset,     &claim.images[draw.between(0, 1)]};
            *fields[draw.between(0, 7)] = draw.between(-2, 45);
            if (draw.one_in(8)) places.rank = static_cast<int>(draw.between(0, 7));
        }
        const bool is_ok = kernels::check_matmul_shape(claim.shape, claim.images, claim.out).ok();
        wrong += is_ok != holds_truly(claim), ok += is_ok;
    }
    CHECK(wrong == 0);
    CHECK(ok > 500);
}
