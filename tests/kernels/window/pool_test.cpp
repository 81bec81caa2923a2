// SPDX-License-Identifier: MIT
//
// max_pool2d and avg_pool2d: every row of every backend and target against the oracle, byte for byte.
#include <limits>
#include <map>
#include <optional>

#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using kernels::KernelTable;
using kernels::PoolRow;

struct PoolShape {
    index_t batch, channels, height, width;
    Window2d window;
};

Window2d window(Size2d kernel, Size2d stride, Padding2d padding = {}, Size2d dilation = {}) {
    return {kernel, stride, padding, dilation};
}

std::vector<PoolShape> shapes(OpKind op) {
    std::vector<PoolShape> result{
        {1, 1, 4, 4, window({2, 2}, {2, 2})},
        {3, 3, 5, 6, window({3, 3}, {2, 2}, {1, 1, 1, 1})},
        {1, 4, 7, 5, window({3, 2}, {1, 2}, {2, 0, 1, 1})},
        {2, 5, 3, 3, window({3, 3}, {1, 1})},
        {1, 8, 6, 6, window({3, 3}, {3, 3}, {0, 2, 2, 0})},
        {1, 16, 1, 9, window({1, 3}, {1, 2}, {0, 1, 0, 1})},
        {1, 17, 8, 8, window({7, 7}, {1, 1}, {3, 3, 3, 3})},
        {2, 63, 2, 2, window({2, 2}, {1, 1})},
        {1, 64, 3, 2, window({2, 1}, {1, 1})},
        {3, 65, 3, 3, window({3, 3}, {1, 1}, {1, 1, 1, 1})},
        {1, 66, 1, 1, window({1, 1}, {1, 1})},
        {2, 7, 7, 6, window({7, 6}, {1, 1})},  // global
    };
    if (op == OpKind::max_pool2d) {
        result.push_back({1, 6, 9, 9, window({3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2})});
        result.push_back({1, 9, 8, 7, window({2, 3}, {2, 1}, {1, 1, 0, 3}, {3, 2})});
    }
    return result;
}

oracle::Pool2d for_oracle(const Window2d& w, PoolDivisor divisor) {
    oracle::Pool2d pool;
    pool.kernel_h = w.kernel.height, pool.kernel_w = w.kernel.width;
    pool.stride_h = w.stride.height, pool.stride_w = w.stride.width;
    pool.pad_top = w.padding.top, pool.pad_left = w.padding.left;
    pool.pad_bottom = w.padding.bottom, pool.pad_right = w.padding.right;
    pool.dilation_h = w.dilation.height, pool.dilation_w = w.dilation.width;
    pool.count_include_pad = divisor == PoolDivisor::kernel_cells;
    return pool;
}

struct PoolProblem {
    OpKind op;
    PoolShape shape;
    PoolDivisor divisor;
    bool is_mean;    // made by make_mean, which requantizes to the same grid as well
    bool of_values;  // made by make_average_of_values
    Codes in, out;
    oracle::Tensor x;
};

bool has_padding(const Window2d& w) { return w.padding != Padding2d{}; }

/// Whether a target has the rule of ONNX Runtime's QLinearAveragePool for codes of a type.
bool has_values(const KernelTable& table, DType dtype) {
    return dtype == DType::int8 && table.policy().has_average(arith::AverageRule::sum_of_values);
}

PoolProblem draw_pool(OpKind op, const PoolShape& shape, const KernelTable& table, DType dtype, std::uint64_t seed) {
    Draw draw(seed);
    const bool zero_points = table.policy().zero_points;
    const auto zero_point = [&] {
        return zero_points ? static_cast<std::int32_t>(draw_code(draw, lowest_code(dtype), highest_code(dtype))) : 0;
    };
    PoolProblem p{op, shape, seed % 2 == 0 ? PoolDivisor::kernel_cells : PoolDivisor::valid_cells, false, false, {},
                  {}, {}};
    p.is_mean = op == OpKind::avg_pool2d && !has_padding(shape.window) && draw.one_in(3);
    p.of_values = op == OpKind::avg_pool2d && has_values(table, dtype) && !p.is_mean && draw.one_in(2);
    p.in = {draw.real(0.005f, 0.05f), zero_point(), dtype};
    const bool divides = table.policy().average == arith::AverageRule::divide_codes;
    const bool keeps_scale = op == OpKind::max_pool2d || (divides && !draw.one_in(has_padding(shape.window) ? 8 : 2));
    p.out = keeps_scale || draw.one_in(3) ? p.in : Codes{p.in.scale * draw.real(0.3f, 2.0f), zero_point(), dtype};
    p.x = draw_tensor(draw, shape.batch, shape.channels, shape.height, shape.width, p.in);
    if (seed % 5 == 0)  // full scale: the largest sums
        for (std::int64_t& code : p.x.codes) code = p.in.lowest();
    return p;
}

/// None where the oracle refuses.
std::optional<std::vector<unsigned char>> ask_oracle(const oracle::Target& target, const PoolProblem& p) {
    try {
        const oracle::Pool2d pool = for_oracle(p.shape.window, p.divisor);
        const oracle::Tensor y =
            p.op == OpKind::max_pool2d
                ? oracle::max_pool(target, p.x, p.in.for_oracle(), pool)
                : oracle::avg_pool(target, p.x, p.in.for_oracle(), p.out.for_oracle(), pool, p.is_mean, p.of_values);
        return channels_last_bytes(y, p.in.dtype);
    } catch (const oracle::Refused&) {
        return std::nullopt;
    }
}

void check_pool(std::size_t target_index, const std::vector<BackendTables>& backends, const PoolProblem& p,
                std::uint64_t seed, std::map<const PoolRow*, int>& runs) {
    const auto expected = ask_oracle(oracle_targets()[target_index], p);
    const auto& [kernel, stride, padding, dilation] = p.shape.window;
    const auto x_bytes = channels_last_bytes(p.x, p.in.dtype);
    const Size2d in{p.shape.height, p.shape.width};
    REQUIRE(kernels::check_pool(p.shape.window, in, p.op).ok());
    for (const BackendTables& backend : backends) {
        const KernelTable& table = *backend.tables[target_index];
        const std::string label = std::string(table.policy().name) + "/" + table.backend + " " + name_of(p.op) + " " +
                                  name_of(p.in.dtype) + " seed " + std::to_string(seed);
        arith::AverageParams average;
        if (p.op == OpKind::avg_pool2d) {
            const index_t cells = kernel.height * kernel.width;
            const auto make = p.of_values ? arith::make_average_of_values : arith::make_average;
            const auto made = p.is_mean ? arith::make_mean(table.policy(), p.in.codes_of(), p.out.codes_of(),
                                                           p.out.output_codes(), cells)
                                        : make(table.policy(), p.in.codes_of(), p.out.codes_of(), p.out.output_codes(),
                                               cells, p.divisor, has_padding(p.shape.window));
            if (made.ok() != expected.has_value()) FAIL_CHECK(label << ": library and oracle disagree on a refusal");
            if (!made) continue;
            average = *made;
        }
        if (!expected) continue;
        for (const PoolRow& row : table.pool) {
            if (row.op != p.op || row.dtype != p.in.dtype) continue;
            if (p.op == OpKind::avg_pool2d && row.rule != average.rule) continue;
            InputBytes x(x_bytes);
            BackwardExecutor backward;
            for (const Executor& executor : {serial, backward.executor()}) {
                GuardedBuffer y(expected->size());
                row.run({&p.shape.window, &average, x.data(), y.as<std::byte>(), p.shape.batch, p.shape.channels, in,
                         output_size(p.shape.window, in), &executor});
                if (!holds(y, *expected)) FAIL_CHECK(label << ": " << first_difference(y, *expected, p.in.dtype));
                if (!y.is_intact()) FAIL_CHECK(label << ": wrote around the output");
            }
            ++runs[&row];
        }
    }
}

}  // namespace

TEST_CASE("every pooling row gives the oracle's bytes") {
    const std::vector<BackendTables> backends = usable_backend_tables();
    std::map<const PoolRow*, int> runs;
    std::size_t expected = 0;  // each target has rows of its own, by its rule
    for (std::size_t target = 0; target < oracle_targets().size(); ++target)
        for (const DType dtype : {DType::int8, DType::int16}) {
            if (bits_of(dtype) > oracle_targets()[target].widest_activation) continue;
            for (const OpKind op : {OpKind::max_pool2d, OpKind::avg_pool2d}) {
                std::uint64_t seed = 0;
                const arith::PolicyRecord& policy = backends[0].tables[target]->policy();
                const bool has_second =
                    policy.requantized_average() != policy.average || has_values(*backends[0].tables[target], dtype);
                expected += backends.size() * (op == OpKind::avg_pool2d && has_second ? 2 : 1);
                for (int round = 0; round < 8; ++round)
                    for (const PoolShape& shape : shapes(op)) {
                        const PoolProblem p = draw_pool(op, shape, *backends[0].tables[target], dtype, ++seed);
                        check_pool(target, backends, p, seed, runs);
                    }
            }
        }
    CHECK(runs.size() == expected);
    for (const auto& [row, count] : runs) CHECK(count >= 20);
}

TEST_CASE("a full-scale average over 256 x 256 int16 codes is exact") {
    const std::vector<BackendTables> backends = usable_backend_tables();
    const PoolShape shape{1, 1, 256, 256, window({256, 256}, {1, 1})};
    std::map<const PoolRow*, int> runs;
    std::size_t targets = 0;
    for (std::size_t target = 0; target < oracle_targets().size(); ++target) {
        if (oracle_targets()[target].widest_activation < 16) continue;
        ++targets;
        PoolProblem p{OpKind::avg_pool2d,
                      shape,
                      PoolDivisor::kernel_cells,
                      false,
                      false,
                      {0.001f, 0, DType::int16},
                      {0.001f, 0, DType::int16},
                      oracle::make_tensor(1, 1, 256, 256, -32768)};
        check_pool(target, backends, p, 0, runs);
        for (std::size_t i = 0; i < p.x.codes.size(); i += 3) p.x.codes[i] = 32767;
        check_pool(target, backends, p, 1, runs);
        const arith::PolicyRecord& policy = backends[0].tables[target]->policy();
        if (policy.requantized_average() == policy.average) continue;
        ++targets;  // the rows of MEAN's rule
        p.is_mean = true;
        check_pool(target, backends, p, 2, runs);
        p.out.scale = 0.0003f;
        check_pool(target, backends, p, 3, runs);
    }
    CHECK(targets == 9);
    CHECK(runs.size() == backends.size() * targets);
}

TEST_CASE("a pool that cannot be is refused by name") {
    const auto status = [](const Window2d& w, Size2d in) { return kernels::check_pool(w, in, OpKind::max_pool2d); };
    const auto expected = [](StatusCode code, Field field, index_t given, index_t wanted) {
        return Status{code, OpKind::max_pool2d, field, given, wanted};
    };
    using S = StatusCode;
    CHECK(status(window({2, 2}, {2, 2}), {4, 4}).ok());
    CHECK(status(window({0, 2}, {2, 2}), {4, 4}) == expected(S::value_out_of_range, Field::kernel, 0, 1));
    CHECK(status(window({2, 2}, {2, 0}), {4, 4}) == expected(S::value_out_of_range, Field::stride, 0, 1));
    CHECK(status(window({2, 2}, {1, 1}, {0, 0, -1, 0}), {4, 4}) ==
          expected(S::value_out_of_range, Field::padding, -1, 0));
    CHECK(status(window({2, 2}, {1, 1}, {2, 0, 0, 0}), {4, 4}) ==
          expected(S::value_out_of_range, Field::padding, 2, 1));
    CHECK(status(window({2, 2}, {1, 1}, {0, 0, 0, 3}), {4, 4}) ==
          expected(S::value_out_of_range, Field::padding, 3, 1));
    CHECK(status(window({5, 2}, {1, 1}), {4, 4}) == expected(S::shape_mismatch, Field::kernel, 5, 4));
    CHECK(status(window({3, 3}, {1, 1}, {}, {2, 2}), {4, 5}) == expected(S::shape_mismatch, Field::kernel, 5, 4));
    CHECK(status(window({3, 3}, {1, 1}, {}, {2, 2}), {5, 4}) == expected(S::shape_mismatch, Field::kernel, 5, 4));
}

TEST_CASE("a pool is refused where one of its windows would see no cell, and nowhere else") {
    // Along one axis, by going over every tap of every window.
    const auto sees_cells = [](const Window2d& w, index_t extent, index_t out) {
        for (index_t at = 0; at < out; ++at) {
            bool sees = false;
            for (index_t tap = 0; tap < w.kernel.width; ++tap) {
                const index_t x = at * w.stride.width - w.padding.left + tap * w.dilation.width;
                sees = sees || (x >= 0 && x < extent);
            }
            if (!sees) return false;
        }
        return true;
    };
    int refused = 0, accepted = 0, wrong = 0;
    for (index_t kernel = 1; kernel <= 3; ++kernel)
        for (index_t dilation = 1; dilation <= 5; ++dilation)
            for (index_t stride = 1; stride <= 3; ++stride)
                for (index_t left = 0; left <= 9; ++left)
                    for (index_t right = 0; right <= 9; right += 3)
                        for (index_t extent = 1; extent <= 6; ++extent) {
                            const Window2d w{{1, kernel}, {1, stride}, {0, left, 0, right}, {1, dilation}};
                            const index_t reach = dilation * (kernel - 1) + 1;
                            const index_t room = extent + left + right - reach, out = room < 0 ? 0 : room / stride + 1;
                            const bool expected =
                                left < reach && right < reach && out >= 1 && sees_cells(w, extent, out);
                            const Status status = kernels::check_pool(w, {1, extent}, OpKind::avg_pool2d);
                            wrong += status.ok() != expected;
                            ++(expected ? accepted : refused);
                            // The same along the other axis.
                            const Window2d turned{{kernel, 1}, {stride, 1}, {left, 0, right, 0}, {dilation, 1}};
                            wrong += kernels::check_pool(turned, {extent, 1}, OpKind::avg_pool2d).ok() != expected;
                        }
    CHECK(wrong == 0);
    CHECK(refused > 1000);
    CHECK(accepted > 1000);
    const Window2d straddling = window({2, 1}, {1, 1}, {2, 0, 2, 0}, {3, 1});
    CHECK(kernels::check_pool(straddling, {1, 1}, OpKind::max_pool2d) ==
          Status{StatusCode::value_out_of_range, OpKind::max_pool2d, Field::dilation, 3, 1});
}

TEST_CASE("a window or an image whose products leave index_t is refused, without overflow") {
    constexpr index_t large = index_t{1} << 32, huge = std::numeric_limits<index_t>::max();
    const auto field = [](const Window2d& w, Size2d in) {
        return kernels::check_pool(w, in, OpKind::avg_pool2d).field;
    };
    for (const index_t bad : {largest_window + 1, large, huge}) {
        CHECK(field(window({bad, 1}, {1, 1}), {4, 4}) == Field::kernel);
        CHECK(field(window({1, bad}, {1, 1}), {4, 4}) == Field::kernel);
        CHECK(field(window({1, 1}, {bad, 1}), {4, 4}) == Field::stride);
        CHECK(field(window({2, 2}, {1, 1}, {}, {1, bad}), {4, 4}) == Field::dilation);
        for (const Padding2d& padding :
             {Padding2d{bad, 0, 0, 0}, Padding2d{0, bad, 0, 0}, Padding2d{0, 0, bad, 0}, Padding2d{0, 0, 0, bad}})
            CHECK(field(window({2, 2}, {1, 1}, padding), {4, 4}) == Field::padding);
    }
    CHECK(field(window({largest_window, largest_window}, {1, 1}), {4, 4}) == Field::kernel);
    CHECK(field(window({largest_window, 1}, {1, 1}, {}, {largest_window, 1}), {4, 4}) == Field::dilation);
    for (const index_t bad : {index_t{0}, index_t{-3}, largest_extent + 1, huge, -huge})
        for (const Size2d in : {Size2d{bad, 4}, Size2d{4, bad}})
            CHECK(field(window({2, 2}, {1, 1}), in) == Field::input);
}
