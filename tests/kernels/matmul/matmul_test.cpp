// SPDX-License-Identifier: MIT
//
// matmul: every row of every backend and target against the oracle, code for code; the longest sums; real arithmetic.
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "intq/arith/constraints.hpp"
#include "kernels/matmul_problem.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using kernels::KernelTable;
using kernels::MatmulRow;

#ifdef INTQ_TEST_FEW_BACKENDS  // a sanitized run takes minutes
constexpr bool is_short = true;
#else
constexpr bool is_short = false;
#endif
constexpr std::uint64_t problems_of_a_row = is_short ? 24 : 48;

// --- one problem on one backend --------------------------------------------------------------------------------------

/// Codes in a buffer of exactly their size, beside a page without access.
class GuardedCodes {
public:
    GuardedCodes(const std::vector<std::int64_t>& codes, DType dtype, GuardedBuffer::Against against)
        : buffer_(codes.size() * static_cast<std::size_t>(size_of(dtype)), against) {
        for (const std::int64_t code : codes)
            for (index_t byte = 0; byte < size_of(dtype); ++byte)
                bytes_.push_back(static_cast<unsigned char>(code >> 8 * byte & 255));
        std::memcpy(buffer_.as<unsigned char>(), bytes_.data(), bytes_.size());
    }
    const void* data() { return buffer_.as<unsigned char>(); }
    bool is_unchanged() { return holds(buffer_, bytes_) && buffer_.is_intact(); }

private:
    std::vector<unsigned char> bytes_;
    GuardedBuffer buffer_;
};

Result<arith::MatmulParams> make_params(const arith::PolicyRecord& policy, const MatmulProblem& p) {
    return arith::make_matmul(policy, p.operands[0].codes.codes_of(), p.operands[1].codes.codes_of(), p.out.codes_of(),
                              p.output_codes(), p.inner);
}

/// Both operands, with the page behind them, or, for every other count of rows, before them.
struct Inputs {
    explicit Inputs(const MatmulProblem& p)
        : against(p.rows % 2 == 0 ? GuardedBuffer::Against::begin : GuardedBuffer::Against::end),
          a(p.operands[0].x, p.dtype, against),
          b(p.operands[1].x, p.dtype, against) {}

    GuardedBuffer::Against against;
    GuardedCodes a, b;
};

/// The codes that a row computes; none where it writes beside its output or its workspace, or to its inputs.
std::optional<std::vector<std::int64_t>> run(const MatmulProblem& p, Inputs& inputs, const KernelTable& table,
                                             const MatmulRow& row, const arith::MatmulParams& params,
                                             const Executor& executor) {
    const kernels::MatmulShape shape = p.shape();
    const auto size = static_cast<std::size_t>(p.size());
    GuardedBuffer y(size * static_cast<std::size_t>(size_of(p.dtype)));
    GuardedBuffer workspace(static_cast<std::size_t>(kernels::matmul_workspace_size(shape, table.packing, p.dtype)));
    row.run({.params = &params,
             .shape = &shape,
             .x = {inputs.a.data(), inputs.b.data()},
             .image = {p.operands[0].image, p.operands[1].image},
             .y = y.as<std::byte>(),
             .batch = p.batch,
             .workspace = workspace.as<std::byte>(),
             .executor = &executor});
    if (!y.is_intact() || !workspace.is_intact() || !inputs.a.is_unchanged() || !inputs.b.is_unchanged())
        return std::nullopt;
    if (p.dtype == DType::int8) return std::vector<std::int64_t>(y.as<std::int8_t>(), y.as<std::int8_t>() + p.size());
    return std::vector<std::int64_t>(y.as<std::int16_t>(), y.as<std::int16_t>() + p.size());
}

/// What the oracle says; none where it refuses.
std::optional<std::vector<std::int64_t>> ask_oracle(const oracle::Target& target, const MatmulProblem& p) {
    const oracle::Matmul layer = p.for_oracle();
    std::vector<std::int64_t> codes;
    try {
        oracle::refuse_matmul(target, layer);
    } catch (const oracle::Refused&) {
        return std::nullopt;
    }
    for (const oracle::wide sum : p.sums)
        codes.push_back(std::clamp(oracle::matmul_code(target, layer, sum), p.lowest, p.highest));
    return codes;
}

/// What the rows of one target and type did.
struct Counts {
    int runs = 0, refused = 0;
    std::int64_t codes = 0, other_than_oracle = 0, wrote_beside = 0, at_an_end = 0;
    index_t tasks = 0;
};

/// A sum is no part of a task, so long sums need one order of tasks.
enum class Threads { one, any };

void check_run(const MatmulProblem& p, Inputs& inputs, const KernelTable& table, const MatmulRow& row,
               const std::vector<std::int64_t>& expected, Threads threads, Counts& counts) {
    const auto params = make_params(table.policy(), p);
    REQUIRE(params.ok());
    REQUIRE(arith::check_matmul_params(table.policy(), *params, p.dtype, p.inner).ok());
    BackwardExecutor backward;
    std::vector<Executor> executors{serial};
    if (threads == Threads::any) executors.insert(executors.end(), {backward.executor(), two_threads()});
    for (const Executor& executor : executors) {
        const auto codes = run(p, inputs, table, row, *params, executor);
        if (!codes) ++counts.wrote_beside;
        for (std::size_t i = 0; codes && i < expected.size(); ++i)
            counts.other_than_oracle += (*codes)[i] != expected[i];
        counts.codes += static_cast<std::int64_t>(expected.size());
        ++counts.runs;
    }
    counts.tasks += backward.tasks;
}

const MatmulRow* find_row(const KernelTable& table, DType dtype) {
    for (const MatmulRow& row : table.matmul)
        if (row.dtype == dtype) return &row;
    return nullptr;
}

/// Calls visit(target, its number, type) for each pair that the target's constraints have.
template <class Visit> void for_each_target(const Visit& visit) {
    const std::vector<BackendTables> backends = usable_backend_tables();
    int pairs = 0;
    for (std::size_t i = 0; i < oracle_targets().size(); ++i)
        for (const DType dtype : {DType::int8, DType::int16}) {
            const auto constraints = backends[0].tables[i]->policy().constraints;
            const bool is_taken =
                arith::check_constraints(constraints, {.op = OpKind::matmul, .input = dtype, .output = dtype}).ok();
            for (const BackendTables& backend : backends)
                REQUIRE((find_row(*backend.tables[i], dtype) != nullptr) == is_taken);
            pairs += is_taken;
            if (is_taken) visit(oracle_targets()[i], i, dtype);
        }
    CHECK(pairs == 11);  // bernoulli2 has none, and bayes int8 alone
}

std::string name_of_pair(std::size_t target, DType dtype) {
    return std::string(usable_backend_tables()[0].tables[target]->policy().name) + ", " + name_of(dtype);
}

void check_problem(const MatmulProblem& p, const oracle::Target& target, std::size_t i, Threads threads,
                   Counts& counts) {
    const index_t images[2] = {p.operands[0].image, p.operands[1].image};
    REQUIRE(kernels::check_matmul_shape(p.shape(), images, p.size() / p.batch).ok());
    REQUIRE(kernels::matmul_count(p.shape()) == p.count);
    const auto expected = ask_oracle(target, p);
    counts.refused += !expected;
    for (const std::int64_t code : expected.value_or(std::vector<std::int64_t>{}))
        counts.at_an_end += code == p.lowest || code == p.highest;
    Inputs inputs(p);
    for (const BackendTables& backend : usable_backend_tables()) {
        const KernelTable& table = *backend.tables[i];
        INFO(backend.name);
        CHECK(make_params(table.policy(), p).ok() == expected.has_value());
        if (expected && make_params(table.policy(), p).ok())
            check_run(p, inputs, table, *find_row(table, p.dtype), *expected, threads, counts);
    }
}

// --- long sums -------------------------------------------------------------------------------------------------------

/// Matrices of which every element is one element of an image, and a scale with which few codes are at an end.
MatmulProblem long_sum(const MatmulProblem& kind, index_t n, std::int64_t a, std::int64_t b) {
    MatmulProblem p = kind;
    p.inner = n;
    p.operands[0].x = {a}, p.operands[1].x = {b};
    for (int i = 0; i < 2; ++i) {
        p.operands[i].image = 1;
        p.operands[i].places = {.rank = 2, .extents = {i == 0 ? p.rows : p.columns, n}, .steps = {0, 0}};
    }
    const oracle::wide sum =
        oracle::wide{n} * (a - p.operands[0].codes.zero_point) * (b - p.operands[1].codes.zero_point);
    p.sums.assign(static_cast<std::size_t>(p.size()), sum);
    p.lowest = p.out.lowest(), p.highest = p.out.highest();
    // A ratio below 2^-32 is 0 on the tflite family.
    const oracle::MatmulRange range =
        oracle::matmul_range(p.operands[0].codes.for_oracle(), p.operands[1].codes.for_oracle(), n);
    const auto largest = static_cast<double>(std::max(range.highest, -range.lowest));
    const double steps = std::min(largest / (0.8 * static_cast<double>(p.highest)), 0x1.fcp31);
    p.out.scale = p.operands[0].codes.scale * p.operands[1].codes.scale * static_cast<float>(steps);
    return p;
}

/// The largest n whose sum the page allows.
index_t most_products(const oracle::Target& target, const MatmulProblem& p) {
    index_t allowed = 1, refused = (index_t{1} << 30) + 1;
    while (refused - allowed > 1) {
        const index_t n = (allowed + refused) / 2;
        try {
            oracle::refuse_matmul_sum(target, p.operands[0].codes.for_oracle(), p.operands[1].codes.for_oracle(), n);
            allowed = n;
        } catch (const oracle::Refused&) {
            refused = n;
        }
    }
    return allowed;
}

/// The library takes no more products than the page, and its sums of so many are the oracle's.
void check_long_sums(const MatmulProblem& kind, const oracle::Target& target, std::size_t i, index_t most,
                     Counts& counts) {
    const arith::PolicyRecord& policy = usable_backend_tables()[0].tables[i]->policy();
    const Codes& codes = kind.operands[0].codes;
    const std::int64_t ends[] = {codes.lowest(), codes.highest()};
    CHECK(make_params(policy, long_sum(kind, most, ends[0], ends[0])).ok());
    const Status refusal = make_params(policy, long_sum(kind, most + 1, ends[0], ends[0])).status();
    CHECK(refusal.code ==
          (most == index_t{1} << 30 ? StatusCode::value_out_of_range : StatusCode::accumulator_overflow));
    const index_t longest = std::min<index_t>(most, 200'001);
    for (const index_t n : {longest, longest * 7 / 8}) {
        if (is_short && n != longest) continue;
        for (const std::int64_t a : ends)
            for (const std::int64_t b : ends) {
                INFO(n << " products of " << a << " and " << b);
                check_problem(long_sum(kind, n, a, b), target, i, Threads::one, counts);
            }
    }
}

// --- real arithmetic -------------------------------------------------------------------------------------------------

/// Largest errors of both signs, in codes, of those that are not at an end.
struct RealErrors {
    double below = 0.0, above = 0.0;
    std::int64_t points = 0;
};

/// docs/arithmetic.md section 7, requantizing an accumulator, is of bpu. Elsewhere half a code, and:
///
///     fp32           float32(acc), two roundings of the scale and the product are 2^-22 of a code's number at most
///     tflite int8    a first rounding of acc·M, before a right shift of one bit at least: a quarter of a code
///     tflite int16   M16 has 15 bits: 2^-15 of a code's number, which is one code
void check_errors(const oracle::Target& target, DType dtype, const RealErrors& errors) {
    const bool is_int8 = dtype == DType::int8;
    double below = -0.5001, above = 0.5001;
    if (target.is_bpu()) below = is_int8 ? -0.512 : -2.0, above = is_int8 ? 0.504 : 2.0;
    if (target.kind == oracle::Target::Kind::fp32 && !is_int8) below = -0.51, above = 0.51;
    if (target.kind == oracle::Target::Kind::tflite_double && is_int8) below = -0.7501, above = 0.7501;
    if (target.is_tflite() && !is_int8) below = -1.5001, above = 1.5001;
    CHECK(errors.below >= below);
    CHECK(errors.above <= above);
    CHECK(errors.points > 100'000);
    CHECK((errors.below <= 0.75 * below || errors.above >= 0.75 * above));
}

/// A product whose operands have codes of any size.
MatmulProblem draw_for_errors(Draw& draw, DType dtype, bool zero_points) {
    MatmulProblem p;
    p.dtype = dtype;
    p.rows = 40, p.columns = 130, p.inner = draw.one_in(2) ? draw.between(1, 4) : draw.between(1, 300);
    for (int i = 0; i < 2; ++i) {
        MatmulOperand& operand = p.operands[i];
        operand.codes = {std::exp2(draw.real(-12.0f, -2.0f)), 0, dtype};
        if (zero_points) operand.codes.zero_point = draw_zero_point(draw, operand.codes);
        place(draw, lying_axes(draw, Lie::plain, 1, i == 0 ? p.rows : p.columns, p.inner), operand);
        const std::int64_t zero = operand.codes.zero_point, reach = operand.codes.highest() >> draw.between(0, 6);
        for (index_t k = 0; k < operand.image; ++k)
            operand.x.push_back(
                std::clamp(draw.between(zero - reach, zero + reach), operand.codes.lowest(), operand.codes.highest()));
    }
    p.sums = sums_of(p);
    p.out = {draw_output_scale(draw, p), 0, dtype};
    if (zero_points) p.out.zero_point = draw_zero_point(draw, p.out);
    p.lowest = p.out.lowest(), p.highest = p.out.highest();
    return p;
}

void measure(const MatmulProblem& p, const KernelTable& table, RealErrors& errors) {
    const auto params = make_params(table.policy(), p);
    if (!params.ok()) return;
    Inputs inputs(p);
    const auto codes = run(p, inputs, table, *find_row(table, p.dtype), *params, serial);
    REQUIRE(codes.has_value());
    const long double ratio = static_cast<long double>(p.operands[0].codes.scale) *
                              static_cast<long double>(p.operands[1].codes.scale) /
                              static_cast<long double>(p.out.scale);
    for (std::size_t i = 0; i < codes->size(); ++i) {
        const std::int64_t code = (*codes)[i];
        if (code <= p.lowest || code >= p.highest) continue;
        const long double real = static_cast<long double>(p.sums[i]) * ratio + p.out.zero_point;
        const auto error = static_cast<double>(static_cast<long double>(code) - real);
        errors.below = std::min(errors.below, error), errors.above = std::max(errors.above, error);
        ++errors.points;
    }
}

}  // namespace

TEST_CASE("A product of two operands is the oracle's on every row of every backend and target") {
    std::string names;
    for (const BackendTables& backend : usable_backend_tables()) names += std::string(" ") + backend.name;
    std::printf("matmul on%s\n", names.c_str());
    REQUIRE(static_cast<int>(usable_backend_tables().size()) >= least_backends());
    int refused = 0;
    index_t tasks = 0;
    for_each_target([&](const oracle::Target& target, std::size_t i, DType dtype) {
        const bool zero_points = usable_backend_tables()[0].tables[i]->policy().zero_points;
        CHECK(zero_points != target.is_bpu());
        Counts counts;
        for (std::uint64_t seed = 0; seed < problems_of_a_row; ++seed) {
            const MatmulProblem p = draw_matmul(seed + 1000 * static_cast<std::uint64_t>(dtype), dtype, zero_points);
            INFO(name_of_pair(i, dtype) << ", " << seed << ": " << p.label());
            const Counts before = counts;
            check_problem(p, target, i, Threads::any, counts);
            CHECK(counts.other_than_oracle == before.other_than_oracle);
            CHECK(counts.wrote_beside == before.wrote_beside);
        }
        std::printf("matmul of %s: %d runs, %ld codes, %ld other than the oracle's, %d problems refused\n",
                    name_of_pair(i, dtype).c_str(), counts.runs, static_cast<long>(counts.codes),
                    static_cast<long>(counts.other_than_oracle), counts.refused);
        CHECK(counts.codes > 100000);
        refused += counts.refused, tasks += counts.tasks;
    });
    std::printf("matmul: %d problems refused by the oracle, %ld tasks backwards\n", refused, static_cast<long>(tasks));
    CHECK(refused > 0);
    CHECK(tasks > 0);
}

TEST_CASE("The longest sums of a product of two operands are the page's, and one product more is refused") {
    Counts counts;
    std::map<std::string, index_t> longest;
    for_each_target([&](const oracle::Target& target, std::size_t i, DType dtype) {
        const auto low = static_cast<std::int32_t>(lowest_code(dtype)),
                   high = static_cast<std::int32_t>(highest_code(dtype));
        for (const std::int32_t a : {0, low, high})
            for (const std::int32_t b : {0, low, high}) {
                if (target.is_bpu() && (a != 0 || b != 0)) continue;
                MatmulProblem kind;
                kind.dtype = dtype;
                kind.operands[0].codes = {0x1p-9f, a, dtype}, kind.operands[1].codes = {0x1.8p-7f, b, dtype};
                kind.out = {1.0f, b / 2, dtype};
                if (!is_short && a == b) kind.rows = 3, kind.columns = 5;
                const index_t most = most_products(target, kind);
                longest[name_of_pair(i, dtype) + (a == 0 && b == 0 ? "" : a != 0 && b != 0 ? ", two" : ", one")] = most;
                INFO(name_of_pair(i, dtype) << ", zero points " << a << " and " << b);
                check_long_sums(kind, target, i, most, counts);
            }
    });
    for (const auto& [what, most] : longest)
        std::printf("matmul of %s: at most %ld products\n", what.c_str(), static_cast<long>(most));
    for (const char* target : {"fp32", "tflite", "tflite_single_rounding", "litert", "bayes", "meta"})
        CHECK(longest[std::string(target) + ", int8"] == 131071);
    for (const char* target : {"fp32", "tflite", "tflite_single_rounding", "litert"})
        CHECK(longest[std::string(target) + ", int8, two"] == 33025);
    CHECK(longest["fp32, int16"] == 1 << 23);
    CHECK(longest["fp32, int16, one"] == 4194368);
    CHECK(longest["fp32, int16, two"] == 2097216);
    CHECK(longest["tflite, int16"] == 131071);
    CHECK(longest["meta, int16"] == 1 << 30);
    CHECK(counts.other_than_oracle == 0);
    CHECK(counts.wrote_beside == 0);
    CHECK(counts.refused == 0);
    CHECK(counts.at_an_end < counts.codes / 10);
}

TEST_CASE("The codes of a product are off real arithmetic by what docs/arithmetic.md says") {
    for_each_target([&](const oracle::Target& target, std::size_t i, DType dtype) {
        const KernelTable& table = *usable_backend_tables()[0].tables[i];
        RealErrors errors;
        Draw draw(static_cast<std::uint64_t>(dtype) + 21);
        for (int round = 0; round < 60; ++round)
            measure(draw_for_errors(draw, dtype, table.policy().zero_points), table, errors);
        std::printf("matmul of %s: %+.4f .. %+.4f codes off real numbers, %ld codes\n", name_of_pair(i, dtype).c_str(),
                    errors.below, errors.above, static_cast<long>(errors.points));
        INFO(name_of_pair(i, dtype));
        check_errors(target, dtype, errors);
    });
}
