// SPDX-License-Identifier: MIT
//
// Who decides a grid: the loss against simulated roundings, the choice and its state.
#include "intq/quantization/fake_quantize/grid_choice.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "intq/nn.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;

namespace {

OwnedQParams grid(float scale) { return OwnedQParams::per_tensor(scale, DType::int8); }

GridUse averages(double cells) {
    GridUse use;
    use.rounds = true;
    use.cells = cells;
    return use;
}

GridUse brings(std::vector<float> numbers) {
    GridUse use;
    use.numbers = std::move(numbers);
    return use;
}

double on_grid(double x, double scale) { return std::clamp(std::nearbyint(x / scale), -128.0, 127.0) * scale; }

std::shared_ptr<FakeQuantize> min_max() {
    FakeQuantizeOptions options;
    options.observer = observer_factory<MinMaxObserver>();
    return std::make_shared<FakeQuantize>(options);
}

intq::Tensor range(float low, float high) { return intq::Tensor::from(Shape(2), {low, high}); }

/// Behind a clip between 0 and a bound.
struct Clip {
    std::shared_ptr<FakeQuantize> source = min_max();
    std::shared_ptr<GridChoiceFakeQuantize> choice;

    explicit Clip(float bound, bool may_own = true) {
        GridUse use = brings({0.0f, bound});
        use.may_own = may_own;
        choice = std::make_shared<GridChoiceFakeQuantize>("clip", min_max(), source, use);
    }
    void enable(FakeQuantState state) { set_fake_quantize(*choice, state); }
    void see(float low, float high, float bound) {
        (*source)(range(low, high));
        (*choice)(range(std::clamp(low, 0.0f, bound), std::clamp(high, 0.0f, bound)));
    }
};

}  // namespace

TEST_CASE("An average of n codes keeps its grid down to the share that the page derives") {
    for (const double cells : {1.0, 4.0, 49.0, std::numeric_limits<double>::infinity()}) {
        INFO("cells " << cells);
        const double share = std::sqrt((1.0 + 1.0 / cells) / std::pow(10.0, 0.05) - 1.0 / cells);
        const auto loss = [&](double part) {
            return kept_grid_loss(grid(0.5f), grid(static_cast<float>(0.5 * part)), averages(cells), {}, {});
        };
        CHECK(loss(share * 1.001) < largest_kept_loss);
        CHECK(loss(share * 0.999) > largest_kept_loss);
        CHECK(loss(1.0) == 0.0);
        CHECK(loss(2.0) == 0.0);
    }
}

TEST_CASE("The loss of a kept grid is what simulated roundings lose") {
    std::mt19937 bits(5);
    std::uniform_real_distribution<double> values(-3.0, 3.0);
    for (const double bound : {0.7, 1.0, 1.31, 2.4}) {
        const double input = 0.31, own = bound / 64.0;
        double kept_error = 0.0, own_error = 0.0;
        std::array<double, 2> at_bound{};
        constexpr int count = 200000;
        for (int i = 0; i < count; ++i) {
            const double x = values(bits), code = on_grid(x, input), y = std::clamp(x, -bound, bound);
            const double kept = std::clamp(code, on_grid(-bound, input), on_grid(bound, input));
            kept_error += (kept - y) * (kept - y);
            const double rounded = on_grid(std::clamp(code, -bound, bound), own);
            own_error += (rounded - y) * (rounded - y);
            at_bound[0] += y == -bound ? 1.0 / count : 0.0;
            at_bound[1] += y == bound ? 1.0 / count : 0.0;
        }
        INFO("bound " << bound);
        const double expected = std::max(0.0, 10.0 * std::log10(kept_error / own_error));
        const auto b = static_cast<float>(bound);
        // Roundings near the bound are not uniform: the loss is right to a part of a decibel.
        CHECK(kept_grid_loss(grid(0.31f), grid(static_cast<float>(own)), brings({-b, b}), at_bound, {}) ==
              Approx(expected).margin(0.6));
    }
}

TEST_CASE("The choice falls when calibration ends, by what the kept grid loses, and stays") {
    Clip fine(1.0f), coarse(1.0f), told(1.0f, false);
    fine.enable(FakeQuantState::calibration);
    fine.see(-2.0f, 2.0f, 1.0f);
    CHECK(fine.choice->choice() == GridChoice::open);
    fine.enable(FakeQuantState::validation);
    CHECK(fine.choice->choice() == GridChoice::kept);  // 1 lies near a code of a range of 2
    CHECK(fine.choice->qparams() == fine.source->qparams());

    for (Clip* clip : {&coarse, &told}) {
        clip->enable(FakeQuantState::calibration);
        clip->see(-185.0f, 185.0f, 1.0f);
        clip->enable(FakeQuantState::validation);
    }
    CHECK(coarse.choice->choice() == GridChoice::own);
    CHECK(told.choice->choice() == GridChoice::kept);
    CHECK(coarse.choice->qparams() == coarse.choice->own().qparams());
    CHECK(kept_grids(*coarse.choice).empty());
    REQUIRE(kept_grids(*told.choice).size() == 1);
    CHECK(
        to_string(kept_grids(*told.choice)[0]).rfind("clip: keeps the grid of its input, which costs its output ", 0) ==
        0);

    // Training keeps the choice, whatever it sees.
    coarse.enable(FakeQuantState::qat);
    coarse.choice->train();
    for (int i = 0; i < 3; ++i) coarse.see(-1.0f, 1.0f, 1.0f);
    CHECK(coarse.choice->choice() == GridChoice::own);
    // A new calibration chooses anew.
    coarse.enable(FakeQuantState::calibration);
    CHECK(coarse.choice->choice() == GridChoice::open);
}

TEST_CASE("Training without calibration takes the own grid where there may be one") {
    Clip may(1.0f), may_not(1.0f, false);
    may.enable(FakeQuantState::qat);
    may_not.enable(FakeQuantState::qat);
    CHECK(may.choice->choice() == GridChoice::own);
    CHECK(may_not.choice->choice() == GridChoice::kept);
}

TEST_CASE("A state saved before there were choices keeps the grid of the input, and says so") {
    Clip saved(1.0f), loaded(1.0f);
    saved.enable(FakeQuantState::calibration);
    saved.see(-185.0f, 185.0f, 1.0f);
    saved.enable(FakeQuantState::validation);
    nn::StateDict state = nn::state_dict(*saved.choice);
    nn::load_state_dict(*loaded.choice, state);
    CHECK(loaded.choice->choice() == GridChoice::own);
    CHECK(loaded.choice->qparams() == saved.choice->qparams());

    Clip old(1.0f);
    std::erase_if(state, [](const auto& item) { return item.name.rfind("source.", 0) != 0; });
    REQUIRE_FALSE(state.empty());
    nn::load_state_dict(*old.choice, state);
    CHECK(old.choice->choice() == GridChoice::kept_by_old_state);
    CHECK(old.choice->qparams() == saved.source->qparams());
    REQUIRE(kept_grids(*old.choice).size() == 1);
    CHECK(to_string(kept_grids(*old.choice)[0]).find("saved before grids were chosen") != std::string::npos);

    nn::StateDict damaged = nn::state_dict(*saved.choice);
    for (auto& item : damaged)
        if (item.name == "grid_choice") item.value = intq::Tensor::from<std::uint8_t>(Shape(1), {std::uint8_t{4}});
    CHECK(test::message_of<Error>([&] {
              nn::load_state_dict(*loaded.choice, damaged);
          }).find("grid_choice is 0 to 3") != std::string::npos);
}

TEST_CASE("Shares of two observers join to those of all data") {
    ShareObserver whole({}, {1.0f, -2.0f}), first({}, {1.0f, -2.0f}), second({}, {1.0f, -2.0f}), other({}, {3.0f});
    CHECK(whole.shares() == std::vector<double>{0.0, 0.0});
    for (Observer* observer : {static_cast<Observer*>(&whole), static_cast<Observer*>(&first)})
        observer->observe(intq::Tensor::from(Shape(4), {1.0f, 1.0f, 0.5f, -2.0f}));
    for (Observer* observer : {static_cast<Observer*>(&whole), static_cast<Observer*>(&second)})
        observer->observe(intq::Tensor::from(Shape(1), {1.0f}));
    CHECK(whole.shares() == std::vector<double>{0.6, 0.2});
    first.merge(second);
    CHECK(first.shares() == whole.shares());
    other.observe(intq::Tensor::from(Shape(1), {3.0f}));
    CHECK_THROWS_AS(first.merge(other), Error);
    first.tensor("counts") = intq::Tensor::from<std::int64_t>(Shape(3), {2, 3, 0});
    CHECK_THROWS_AS(first.check_state(), Error);
}
