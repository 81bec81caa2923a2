// SPDX-License-Identifier: MIT
//
// PyTorch's histogram observer: every case of golden/histogram.json to the last bit, or named here as refused.
#include "intq/observers/torch_histogram.hpp"

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/golden.hpp"

namespace {

using nlohmann::json;
using namespace intq;
using intq::test::golden_float;
using intq::test::golden_floats;
using intq::test::golden_histogram;
using intq::test::same_bits;
using observers::TorchHistogram;

const std::map<std::string, std::string> refused{
    {"nan", "NaN is an error in both"},
    {"inf", "infinite data is an error; PyTorch warns and drops the infinities"},
    {"only_inf", "infinite data is an error; PyTorch warns and drops the infinities"},
};

/// A TorchHistogram with its scratch.
struct Observed {
    explicit Observed(index_t bins)
        : memory(static_cast<std::size_t>(bins)), sums(memory.size()), counts(memory.size() + 1), histogram(memory) {}
    Status update(const std::vector<float>& x) {
        const auto size = static_cast<index_t>(x.size());
        scratch.resize(static_cast<std::size_t>(kernels::histogram_scratch_size(size, histogram.bins())));
        return histogram.update(TensorView<const float, 1>(x.data(), {size}), counts, sums, scratch);
    }
    std::vector<float> memory;
    std::vector<double> sums;
    std::vector<std::int64_t> counts;
    std::vector<std::uint32_t> scratch;
    TorchHistogram histogram;
};

arith::RangeRule rule_of(const json& row) {
    arith::RangeRule rule;
    rule.quant_min = row.at("quant_min");
    rule.quant_max = row.at("quant_max");
    const bool symmetric = row.at("args").at("qscheme").get<std::string>().ends_with("symmetric");
    rule.scheme = symmetric ? arith::QuantScheme::symmetric : arith::QuantScheme::affine;
    return rule;
}

void check_case(const json& row) {
    const index_t bins = row.at("args").at("bins");
    Observed observed(bins);
    for (const json& batch : row.at("batches")) REQUIRE(observed.update(golden_floats(batch.at("data"))).ok());
    const TorchHistogram& histogram = observed.histogram;
    if (!histogram.seen()) {
        CHECK(row.at("scale") == json::array({"0x1.0000000000000p+0"}));
        return;
    }
    CHECK(same_bits(observed.memory, golden_histogram(row, bins)));
    CHECK(same_bits({histogram.range().lowest}, golden_floats(row.at("min_val"))));
    CHECK(same_bits({histogram.range().highest}, golden_floats(row.at("max_val"))));
    std::vector<float> running(observed.memory.size());
    const observers::ValueRange found = observers::search_histogram(
        {observed.memory, histogram.range().lowest, histogram.range().highest}, 256, running);
    CHECK(same_bits(found.lowest, golden_float(row.at("search_min"))));
    CHECK(same_bits(found.highest, golden_float(row.at("search_max"))));
    const auto qparams = arith::qparams_from_range(found.lowest, found.highest, rule_of(row));
    CHECK(same_bits({qparams->scale}, golden_floats(row.at("scale"))));
    CHECK(json::array({qparams->zero_point}) == row.at("zero_point"));
}

}  // namespace

TEST_CASE("The histogram observer equals PyTorch's on the golden cases: counts, search, scale and zero point") {
    const json cases = intq::test::golden_cases("histogram");
    REQUIRE(cases.size() == 42);
    std::set<std::string> met;
    for (const json& row : cases) {
        const std::string name = row.at("name");
        INFO(name);
        if (!refused.contains(name)) {
            check_case(row);
            continue;
        }
        met.insert(name);
        Observed observed(row.at("args").at("bins"));
        CHECK(observed.update(golden_floats(row.at("batches").at(0).at("data"))).code == StatusCode::not_finite);
        CHECK_FALSE(observed.histogram.seen());
    }
    CHECK(met.size() == refused.size());
}

TEST_CASE("A refused batch leaves PyTorch's histogram as it was") {
    Observed observed(16);
    REQUIRE(observed.update({-1.0f, 0.5f, 2.0f}).ok());
    const std::vector<float> before = observed.memory;
    CHECK(observed.update({9.0f, std::numeric_limits<float>::quiet_NaN()}) ==
          Status{StatusCode::not_finite, OpKind::observe, Field::input, 1, 0});
    CHECK(observed.update({3e38f, -3e38f}).code == StatusCode::not_finite);  // a range that no float can hold
    CHECK((observed.memory == before && observed.histogram.range() == observers::ValueRange{-1.0f, 2.0f}));
}

TEST_CASE("PyTorch's counts depend on the order of the batches") {
    Observed first(32), second(32);
    const std::vector<float> narrow{0.0f, 0.1f, 0.26f, 0.31f, 0.5f}, wide{-3.0f, 0.7f, 4.0f};
    REQUIRE((first.update(narrow).ok() && first.update(wide).ok()));
    REQUIRE((second.update(wide).ok() && second.update(narrow).ok()));
    CHECK(first.memory != second.memory);
}
