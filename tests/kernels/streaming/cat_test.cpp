// SPDX-License-Identifier: MIT
//
// cat as the program runs it: one requantize call an input, into its slice of the channels.
#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using kernels::KernelTable;

struct CatProblem {
    std::vector<Codes> in;
    std::vector<oracle::Tensor> x;
    Codes out;
    index_t channels = 0, pixels = 0;
};

CatProblem draw_cat(const KernelTable& table, DType dtype, std::uint64_t seed) {
    Draw draw(seed);
    const index_t widths[] = {1, 3, 4, 5, 8, 16, 17, 63, 64, 65};
    const auto zero_point = [&] {
        return table.policy().zero_points
                   ? static_cast<std::int32_t>(draw_code(draw, lowest_code(dtype), highest_code(dtype)))
                   : 0;
    };
    CatProblem p;
    p.out = {draw.real(0.01f, 0.05f), zero_point(), dtype};
    const index_t n = draw.between(1, 3), h = draw.between(1, 4), w = draw.between(1, 4);
    p.pixels = n * h * w;
    for (std::int64_t i = draw.between(1, 4); i > 0; --i) {
        // One input in three keeps the output's scale and zero point: its codes pass through.
        const Codes codes = draw.one_in(3) ? p.out : Codes{p.out.scale * draw.real(0.2f, 3.0f), zero_point(), dtype};
        const index_t c = widths[draw.between(0, 9)];
        p.in.push_back(codes);
        p.x.push_back(draw_tensor(draw, n, c, h, w, codes));
        p.channels += c;
    }
    return p;
}

void check_cat(std::size_t target, const std::vector<BackendTables>& backends, DType dtype, std::uint64_t seed) {
    const CatProblem p = draw_cat(*backends[0].tables[target], dtype, seed);
    std::vector<oracle::QParams> in;
    for (const Codes& codes : p.in) in.push_back(codes.for_oracle());
    const auto expected =
        channels_last_bytes(oracle::cat(oracle_targets()[target], p.x, in, p.out.for_oracle()), dtype);
    for (const BackendTables& backend : backends) {
        const KernelTable& table = *backend.tables[target];
        BackwardExecutor backward;
        for (const Executor& executor : {serial, backward.executor()}) {
            GuardedBuffer y(expected.size());
            index_t first = 0;
            for (std::size_t i = 0; i < p.x.size(); ++i) {
                const auto params = kernels::make_requantize(table.policy(), p.in[i].codes_of(), p.out.codes_of(),
                                                             p.out.output_codes());
                REQUIRE(params.ok());
                InputBytes x(channels_last_bytes(p.x[i], dtype));
                for (const kernels::RequantizeRow& row : table.requantize)
                    if (row.input == dtype && row.output == dtype)
                        row.run({&*params, x.data(), y.as<std::byte>() + first * size_of(dtype), p.pixels, p.x[i].c,
                                 p.x[i].c, p.channels, &executor});
                first += p.x[i].c;
            }
            if (!holds(y, expected))
                FAIL_CHECK(table.policy().name << "/" << table.backend << " seed " << seed << ": "
                                               << first_difference(y, expected, dtype));
            if (!y.is_intact()) FAIL_CHECK(table.backend << " seed " << seed << ": wrote around the output");
        }
    }
}

}  // namespace

TEST_CASE("cat of requantized inputs gives the oracle's bytes") {
    const std::vector<BackendTables> backends = usable_backend_tables();
    for (std::size_t target = 0; target < oracle_targets().size(); ++target)
        for (const DType dtype : {DType::int8, DType::int16}) {
            if (bits_of(dtype) > oracle_targets()[target].widest_activation) continue;
            for (std::uint64_t seed = 0; seed < 40; ++seed) check_cat(target, backends, dtype, seed);
        }
    SUCCEED();
}
