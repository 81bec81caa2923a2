// SPDX-License-Identifier: MIT
//
// WaitingRun: outputs are there until the last one that expects them has released them, and no others are kept.
#include "intq/analysis/compare/internal/waiting_run.hpp"

#include <memory>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace intq;
using namespace intq::analysis;
using intq::Tensor;

namespace {

constexpr std::size_t operator_count = 4;

/// Operator i gives the number i; a test sees how far the run is.
class CountingRun : public ModelRun {
public:
    explicit CountingRun(std::size_t& done) : done_(done) {}
    bool next(AnalysedCall& call) override {
        call = AnalysedCall();
        if (done_ == operator_count) return false;
        call.index = done_;
        call.outputs = {Tensor::full(Shape(1), static_cast<float>(done_++))};
        return true;
    }
    nn::Value output() override { return static_cast<int>(done_); }

private:
    std::size_t& done_;
};

class CountingSource : public ModelSource {
public:
    CountingSource() {
        for (std::size_t i = 0; i < operator_count; ++i) operators_.push_back({std::to_string(i), "Count", ""});
    }
    std::unique_ptr<ModelRun> run(std::vector<nn::Value>) override { return std::make_unique<CountingRun>(done); }
    std::vector<std::string> input_names() const override { return {}; }

    std::size_t done = 0;
};

}  // namespace

TEST_CASE("Outputs wait until each one that expects them has released them, and no longer") {
    const auto source = std::make_shared<CountingSource>();
    std::vector<std::size_t> seen;
    analysis::detail::WaitingRun run(AnalysedModel(source), CallInputs(),
                                     [&](const AnalysedCall& call) { seen.push_back(call.index); });
    run.expect(0);
    run.expect(0);
    run.expect(2);
    REQUIRE(run.outputs_of(2) != nullptr);
    CHECK(run.outputs_of(2)->front().flat<float>()[0] == 2.0f);
    CHECK(source->done == 3);  // no further than asked
    CHECK(run.last() == 2);
    REQUIRE(run.outputs_of(0) != nullptr);  // it waited
    run.release(0);
    REQUIRE(run.outputs_of(0) != nullptr);
    CHECK(run.outputs_of(0)->front().flat<float>()[0] == 0.0f);
    CHECK(source->done == 3);
    run.release(0);
    CHECK(run.outputs_of(0) == nullptr);  // it is gone, so the run went to its end for it
    CHECK(run.outputs_of(1) == nullptr);  // nobody expected it
    CHECK(run.outputs_of(2) != nullptr);
    CHECK_FALSE(run.step());
    CHECK(seen == std::vector<std::size_t>{0, 1, 2, 3});
    CHECK(run.output().integer() == 4);
}
