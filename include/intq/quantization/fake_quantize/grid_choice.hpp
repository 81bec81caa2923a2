// SPDX-License-Identifier: MIT
//
// GridChoiceFakeQuantize: the grid of an operator that may keep its input's, chosen when calibration ends. Layer:
// quantization (docs/workflow.md section 4, "Whose grid").
#ifndef INTQ_QUANTIZATION_FAKE_QUANTIZE_GRID_CHOICE_HPP
#define INTQ_QUANTIZATION_FAKE_QUANTIZE_GRID_CHOICE_HPP

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "intq/arith/quantize.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/quantization/fake_quantize/quantizer.hpp"
#include "intq/quantization/observers/share_observer.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The use that an operator makes of its input's grid, which it keeps.
struct GridUse {
    std::vector<float> numbers{};  // constants among its results: the fill of a pad, the bounds of a clip
    bool rounds = false;           // its results lie between codes, so that the kept grid rounds once more
    /// Number of codes that one result averages, whose roundings cancel; infinity if the graph does not say.
    double cells = 1.0;
    bool may_own = true;  // whether its output may have another grid
    /// The output has the codes of the input, and the grid of the input times this number, which is positive.
    float factor = 1.0f;
};

/// The loss, in dB, that the kept grid costs beyond the rounding that the input already has, compared with an own grid:
///
///     p(v) = the share of the results that are the number v,  q = 1 - sum of p(v)
///     inherited = q·s_in²/12 / cells
///     kept = inherited + (rounds ? q·s_in²/12 : 0) + sum of p(v)·(v - on_input_grid(v))²
///     own  = inherited + q·s_own²/12               + sum of p(v)·(v - on_own_grid(v))²
///     loss = max(0, 10·lg(kept/own)), and 0 where the output has the codes of the input
///
/// @param shares  one for each number
///
/// Source   our derivation: a rounding to steps s is uniform, with the mean square s²/12
double kept_grid_loss(const OwnedQParams& input, const OwnedQParams& own, const GridUse& use,
                      std::span<const double> shares, arith::QuantizeRule rule);

/// Below this loss, in dB, the grid of the input is kept.
inline constexpr double largest_kept_loss = 0.5;

/// The origin of a grid. The buffer `grid_choice` holds it.
enum class GridChoice : std::uint8_t {
    open,              // calibration is not over; the own grid is used
    own,               // decided
    kept,              // decided
    kept_by_old_state  // loaded from a state in which no grid was chosen
};

/// Rounds to its own grid, or to the grid of the operator's input.
///
/// During calibration, the own quantizer observes the operator's output. The choice is made once, when the quantizers
/// begin to round: the input's grid is kept if that costs less than largest_kept_loss, or if the target allows the
/// operator no other. Training without calibration takes the own grid. A new calibration chooses anew.
///
/// Children: `own`, `shares` (the share of the results that equal each given number), and `source`, the owner of the
/// input's grid. If no graph names the owner, the second argument of a call carries the grid, and it is kept in the
/// buffers `input_scale` and `input_zero_point`.
class GridChoiceFakeQuantize : public nn::Cloneable<GridChoiceFakeQuantize, Quantizer> {
public:
    /// @param name    of the operator, for reports
    /// @param source  null where calls carry the grid of the input
    GridChoiceFakeQuantize(std::string name, std::shared_ptr<FakeQuantize> own, std::shared_ptr<Quantizer> source,
                           GridUse use);

    std::string type_name() const override { return "GridChoiceFakeQuantize"; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    DType dtype() const override { return own().dtype(); }
    INTQ_INLINE bool has_qparams() const override;
    INTQ_INLINE OwnedQParams qparams() const override;
    /// With the grid of the input it behaves as the quantizer of the input.
    bool is_rounding() const override {
        return uses_input_grid() && has_child("source") ? source().is_rounding() : own().is_rounding();
    }
    arith::QuantizeRule rule() const override { return own().rule(); }
    bool saturates() const override { return own().saturates(); }
    bool follows_input() const override { return uses_input_grid() && use_.factor == 1.0f; }
    INTQ_INLINE void enable(bool observes, bool rounds) override;

    const std::string& name() const noexcept { return name_; }
    const GridUse& use() const noexcept { return use_; }
    GridChoice choice() const;
    bool is_kept() const { return choice() == GridChoice::kept || choice() == GridChoice::kept_by_old_state; }
    FakeQuantize& own() const { return static_cast<FakeQuantize&>(*child("own")); }
    /// The loss on the data seen so far; none if there was none.
    std::optional<double> loss() const;
    /// Chooses by the data seen so far; open if there was none.
    void choose();
    /// Takes the choice of another one.
    void take(const GridChoiceFakeQuantize& other);
    /// A state saved before grids were chosen has no entry for this: it keeps the grid of the input.
    INTQ_INLINE void adapt_state(std::vector<nn::Named<Tensor>>& state) const override;
    INTQ_INLINE void tensors_changed() override;

private:
    void set(GridChoice choice);
    const Quantizer& source() const { return static_cast<const Quantizer&>(*child("source")); }
    // Neither grid was chosen, and the own one has seen nothing and sees nothing.
    bool is_idle() const { return choice() == GridChoice::open && !own().has_qparams() && !own().observes_now(); }
    const ShareObserver& shares() const { return static_cast<const ShareObserver&>(*child("shares")); }
    bool uses_input_grid() const { return is_kept() || is_idle(); }
    /// The grid of the input, times the factor; none if unknown, or has a scale beyond 2^-100 … 2^126.
    std::optional<OwnedQParams> input_grid() const;
    void note_input(const OwnedQParams& grid);

    std::string name_;
    GridUse use_;
};

/// Chooses the grids of a model that are still open, by the data that was seen.
void choose_grids(nn::Module& model);
/// Repeats the choices that were made on data that has since changed: ranges are read by another method, or the
/// statistics of others were added.
void choose_grids_again(nn::Module& model);

/// The observing quantizer of a quantizer: itself, or the own one of a choice; null for one that only follows.
const FakeQuantize* observing_quantizer(const Quantizer* quantizer);
/// The same, null where the grid of the input is kept.
const FakeQuantize* own_quantizer(const Quantizer* quantizer);

/// An operator on the grid of its input, and the cost of that.
struct KeptGrid {
    std::string name;
    std::optional<double> loss{};  // dB; none if the state was saved before grids were chosen
};

/// The operators of a model that keep the grid of their input at a loss of at least largest_kept_loss, or because of an
/// old state.
std::vector<KeptGrid> kept_grids(nn::Module& model);

/// "pad: keeps the grid of its input, which costs its output 12.3 dB".
std::string to_string(const KeptGrid& kept);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_fake_quantize)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdio>
#    include <utility>

#    include "intq/arith/ieee.hpp"
#    include "intq/io/error.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

inline constexpr const char* grid_choice = "grid_choice";

/// The squared error of a number on a grid.
INTQ_INLINE double squared_error_on(const OwnedQParams& grid, float number, arith::QuantizeRule rule) {
    const Tensor rounded = fake_quantize(Tensor::from(Shape(1), {number}), grid, rule);
    const double error = static_cast<double>(rounded.flat<float>()[0]) - static_cast<double>(number);
    return error * error;
}

INTQ_INLINE double rounding_of(const OwnedQParams& grid) {
    return static_cast<double>(grid.scale()) * static_cast<double>(grid.scale()) / 12.0;
}

}  // namespace detail

INTQ_INLINE double kept_grid_loss(const OwnedQParams& input, const OwnedQParams& own, const GridUse& use,
                                  std::span<const double> shares, arith::QuantizeRule rule) {
    if (use.factor != 1.0f) return 0.0;  // the codes stay as they are
    double rest = 1.0, kept = 0.0, of_own = 0.0;
    for (std::size_t i = 0; i < use.numbers.size(); ++i) {
        rest -= shares[i];
        kept += shares[i] * detail::squared_error_on(input, use.numbers[i], rule);
        of_own += shares[i] * detail::squared_error_on(own, use.numbers[i], rule);
    }
    rest = (std::max)(rest, 0.0);
    const double inherited = rest * detail::rounding_of(input) / use.cells;
    kept += inherited + (use.rounds ? rest * detail::rounding_of(input) : 0.0);
    of_own += inherited + rest * detail::rounding_of(own);
    if (kept <= of_own) return 0.0;
    return 10.0 * std::log10(kept / (std::max)(of_own, (std::numeric_limits<double>::min)()));
}

INTQ_INLINE GridChoiceFakeQuantize::GridChoiceFakeQuantize(std::string name, std::shared_ptr<FakeQuantize> own,
                                                           std::shared_ptr<Quantizer> source, GridUse use)
    : name_(std::move(name)), use_(std::move(use)) {
    ObserverOptions counted;
    counted.is_sync_quantize = own->options().observer_options.is_sync_quantize;
    counted.reduction = own->options().observer_options.reduction;
    const bool has_source = source != nullptr;
    // A value that may share the input's memory is not written in place.
    own->set_in_place(false);
    if (has_source) add_child("source", std::move(source));
    add_child("own", std::move(own));
    add_child("shares", std::make_shared<ShareObserver>(counted, use_.numbers));
    add_buffer(detail::grid_choice, Tensor::zeros(Shape(1), DType::uint8));
    if (has_source) return;
    add_buffer("input_scale", Tensor());
    add_buffer("input_zero_point", Tensor());
}

INTQ_INLINE GridChoice GridChoiceFakeQuantize::choice() const {
    return static_cast<GridChoice>(tensor(detail::grid_choice).flat<std::uint8_t>()[0]);
}

INTQ_INLINE void GridChoiceFakeQuantize::set(GridChoice choice) {
    tensor(detail::grid_choice) = Tensor::from<std::uint8_t>(Shape(1), {static_cast<std::uint8_t>(choice)});
}

INTQ_INLINE std::optional<OwnedQParams> GridChoiceFakeQuantize::input_grid() const {
    if (has_child("source")) {
        if (!source().has_qparams()) return std::nullopt;
        OwnedQParams grid = source().qparams();
        grid.scales = {arith::fmul(grid.scale(), use_.factor)};
        const bool is_scale = grid.scale() >= 0x1p-100f && grid.scale() <= 0x1p126f;
        return is_scale ? std::optional(grid) : std::nullopt;
    }
    const Tensor &scale = tensor("input_scale"), &zero_point = tensor("input_zero_point");
    if (!scale.defined()) return std::nullopt;
    OwnedQParams grid = own().qparams();
    grid.axis = -1;
    grid.scales = {scale.flat<float>()[0]};
    grid.zero_points.clear();
    if (zero_point.defined()) grid.zero_points = {zero_point.flat<std::int32_t>()[0]};
    return grid;
}

INTQ_INLINE void GridChoiceFakeQuantize::note_input(const OwnedQParams& grid) {
    tensor("input_scale") = Tensor::from(Shape(1), {grid.scale()});
    tensor("input_zero_point") =
        grid.zero_points.empty() ? Tensor() : Tensor::from<std::int32_t>(Shape(1), {grid.zero_points[0]});
}

INTQ_INLINE bool GridChoiceFakeQuantize::has_qparams() const {
    return uses_input_grid() ? input_grid().has_value() : own().has_qparams();
}

INTQ_INLINE OwnedQParams GridChoiceFakeQuantize::qparams() const {
    if (!uses_input_grid()) return own().qparams();
    const std::optional<OwnedQParams> grid = input_grid();
    return grid ? *grid : own().qparams();
}

INTQ_INLINE nn::Value GridChoiceFakeQuantize::forward(nn::Arguments arguments) {
    const Tensor& x = arguments.tensor(0);
    if (!has_child("source")) {
        const std::optional<OwnedQParams>& grid = arguments.tensor(1).qparams();
        if (!grid) return x;  // real values, such as those behind a DeQuantStub
        note_input(*grid);
    }
    if (uses_input_grid()) return has_qparams() ? pass(x, qparams()) : pass(x);
    if (own().observes_now()) static_cast<Observer&>(*child("shares")).observe(x);
    return call("own", x);
}

INTQ_INLINE std::optional<double> GridChoiceFakeQuantize::loss() const {
    const std::optional<OwnedQParams> grid = input_grid();
    if (!grid || !own().has_qparams() || !shares().seen()) return std::nullopt;
    return kept_grid_loss(*grid, own().qparams(), use_, shares().shares(), rule());
}

INTQ_INLINE void GridChoiceFakeQuantize::choose() {
    const std::optional<double> lost = loss();
    if (!lost && shares().seen() && own().has_qparams() && use_.factor != 1.0f) return set(GridChoice::own);
    if (!lost) return set(GridChoice::open);
    set(use_.may_own && *lost >= largest_kept_loss ? GridChoice::own : GridChoice::kept);
}

INTQ_INLINE void GridChoiceFakeQuantize::enable(bool observes, bool rounds) {
    if (observes && !rounds) return set(GridChoice::open);
    if (!rounds || choice() != GridChoice::open) return;
    choose();
    if (choice() == GridChoice::open && observes) set(use_.may_own ? GridChoice::own : GridChoice::kept);
}

INTQ_INLINE void GridChoiceFakeQuantize::take(const GridChoiceFakeQuantize& other) {
    for (auto& buffer : buffers()) buffer.value = other.tensor(buffer.name).clone();
    auto& counts = child("shares")->buffers();
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i].value = other.shares().buffers()[i].value;
}

INTQ_INLINE void GridChoiceFakeQuantize::adapt_state(std::vector<nn::Named<Tensor>>& state) const {
    if (detail::entry_of(state, detail::grid_choice) != nullptr) return;
    auto& self = const_cast<GridChoiceFakeQuantize&>(*this);
    std::vector<nn::Named<Tensor*>> present = self.named_parameters();
    for (const auto& buffer : self.named_buffers()) present.push_back(buffer);
    for (const auto& tensor : present) {
        const bool is_source = tensor.name.rfind("source.", 0) == 0;
        if (is_source || !tensor.value->defined() || detail::entry_of(state, tensor.name) != nullptr) continue;
        state.push_back({tensor.name, tensor.value->clone()});
    }
    detail::entry_of(state, detail::grid_choice)->value =
        Tensor::from<std::uint8_t>(Shape(1), {static_cast<std::uint8_t>(GridChoice::kept_by_old_state)});
}

INTQ_INLINE void GridChoiceFakeQuantize::tensors_changed() {
    if (tensor(detail::grid_choice).flat<std::uint8_t>()[0] > static_cast<std::uint8_t>(GridChoice::kept_by_old_state))
        throw Error(type_name() + ": grid_choice is 0 to 3");
    const std::optional<OwnedQParams> grid = input_grid();
    if (choice() == GridChoice::kept_by_old_state && grid && !own().has_qparams()) own().adopt(*grid);
}

namespace detail {

template <class Function> void for_each_choice(nn::Module& model, const Function& function) {
    for (const auto& module : model.named_modules())
        if (auto* quantizer = dynamic_cast<GridChoiceFakeQuantize*>(module.value)) function(*quantizer);
}

}  // namespace detail

INTQ_INLINE void choose_grids(nn::Module& model) {
    detail::for_each_choice(model, [](GridChoiceFakeQuantize& quantizer) {
        if (quantizer.choice() == GridChoice::open) quantizer.choose();
    });
}

INTQ_INLINE void choose_grids_again(nn::Module& model) {
    detail::for_each_choice(model, [](GridChoiceFakeQuantize& quantizer) {
        const bool is_chosen = quantizer.choice() == GridChoice::own || quantizer.choice() == GridChoice::kept;
        if (is_chosen && quantizer.loss()) quantizer.choose();
    });
}

INTQ_INLINE const FakeQuantize* observing_quantizer(const Quantizer* quantizer) {
    if (const auto* choice = dynamic_cast<const GridChoiceFakeQuantize*>(quantizer)) return &choice->own();
    return dynamic_cast<const FakeQuantize*>(quantizer);
}

INTQ_INLINE const FakeQuantize* own_quantizer(const Quantizer* quantizer) {
    return quantizer != nullptr && quantizer->follows_input() ? nullptr : observing_quantizer(quantizer);
}

INTQ_INLINE std::vector<KeptGrid> kept_grids(nn::Module& model) {
    std::vector<KeptGrid> result;
    for (const auto& module : model.named_modules()) {
        const auto* quantizer = dynamic_cast<const GridChoiceFakeQuantize*>(module.value);
        if (quantizer == nullptr || !quantizer->is_kept()) continue;
        const bool is_old = quantizer->choice() == GridChoice::kept_by_old_state;
        const std::optional<double> loss = is_old ? std::nullopt : quantizer->loss();
        if (is_old || (loss && *loss >= largest_kept_loss)) result.push_back({quantizer->name(), loss});
    }
    return result;
}

INTQ_INLINE std::string to_string(const KeptGrid& kept) {
    const std::string start = kept.name + ": keeps the grid of its input, ";
    if (!kept.loss) return start + "because its state was saved before grids were chosen; calibrate anew to choose";
    char decibels[32];
    std::snprintf(decibels, sizeof decibels, "%.1f", *kept.loss);
    return start + "which costs its output " + decibels + " dB";
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_fake_quantize)
#endif  // INTQ_QUANTIZATION_FAKE_QUANTIZE_GRID_CHOICE_HPP
