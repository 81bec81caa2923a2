// SPDX-License-Identifier: MIT
//
// The observers against PyTorch's: every case of golden/observers.json to the last bit, or named here as refused.
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "intq/observers/min_max.hpp"
#include "intq/observers/moving_average.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"

namespace {

using nlohmann::json;
using namespace intq;
using intq::test::golden_floats;
using intq::test::same_bits;

// What our definition refuses or cannot say, on purpose. The test counts that exactly these cases are met.
const std::map<std::string, std::string> refused{
    {"plus_inf_sym", "infinite data is an error; PyTorch gives an infinite scale"},
    {"plus_inf_affine", "infinite data is an error; PyTorch gives an infinite scale"},
    {"sym_u8_reduce:constructor_error", "a caller gives quant_min and quant_max: there is no reduce_range to refuse"},
    {"pc:float_qparams:axis0", "zero points are integers (QParams)"},
    {"pc:float_qparams:axis1", "zero points are integers (QParams)"},
    {"pc:float_qparams:4d_axis1", "zero points are integers (QParams)"},
    {"pc:float_qparams:4d_axis3", "zero points are integers (QParams)"},
    {"pc:float_qparams:two", "zero points are integers (QParams)"},
    {"pcma:float_qparams:two", "zero points are integers (QParams)"},
    {"pcma:float_qparams:three_c=0.25", "zero points are integers (QParams)"},
};

DType dtype_of_case(const std::string& name) {
    if (name == "qint8") return DType::int8;
    if (name == "quint8") return DType::uint8;
    REQUIRE(name == "qint32");
    return DType::int32;
}

arith::RangeRule rule_of_case(const json& row) {
    const json& args = row.at("args");
    const DType dtype = dtype_of_case(args.at("dtype"));
    const bool custom = args.contains("quant_min") && args.contains("quant_max");
    const json& range = row.contains("quant_min") ? row : args;  // a refused constructor has none
    arith::RangeRule rule;
    rule.quant_min = range.at("quant_min");
    rule.quant_max = range.at("quant_max");
    const std::string scheme = args.at("qscheme");
    rule.scheme = scheme.ends_with("symmetric") ? arith::QuantScheme::symmetric : arith::QuantScheme::affine;
    if (rule.scheme == arith::QuantScheme::symmetric)
        rule.symmetric_zero_point = arith::torch_symmetric_zero_point(dtype, rule.quant_min, rule.quant_max, custom);
    rule.smallest_scale = static_cast<float>(args.value("eps", 0x1p-23));
    return rule;
}

template <class Backend, int Rank, class LayoutTag, class Observer>
Status update_as(Observer& observer, const std::vector<float>& data, const std::vector<index_t>& shape) {
    std::array<index_t, static_cast<std::size_t>(Rank)> extents{};
    for (std::size_t axis = 0; axis < extents.size(); ++axis) extents[axis] = shape.at(axis);
    const TensorView<const float, Rank> given(data.data(), extents);
    std::vector<float> copy(data.size());
    const TensorView<float, Rank, LayoutTag> moved(copy.data(), extents);
    for (index_t i = 0; i < given.size(); ++i) {
        std::array<index_t, static_cast<std::size_t>(Rank)> index{};
        index_t rest = i;
        for (std::size_t axis = extents.size(); axis-- > 0;) {
            index[axis] = rest % extents[axis];
            rest /= extents[axis];
        }
        moved[index] = given[index];
    }
    return observer.template update<Backend>(moved);
}

template <class Backend, class LayoutTag, class Observer> Status update(Observer& observer, const json& batch) {
    const std::vector<float> data = golden_floats(batch.at("data"));
    const auto shape = batch.at("shape").get<std::vector<index_t>>();
    if (shape.size() == 1) return update_as<Backend, 1, LayoutTag>(observer, data, shape);
    if (shape.size() == 2) return update_as<Backend, 2, LayoutTag>(observer, data, shape);
    REQUIRE(shape.size() == 4);
    return update_as<Backend, 4, LayoutTag>(observer, data, shape);
}

template <class Backend, class LayoutTag, class Observer>
void check_case(const json& row, Observer& observer, bool& failed) {
    for (const json& batch : row.at("batches")) {
        if (!update<Backend, LayoutTag>(observer, batch).ok()) {
            failed = true;
            return;
        }
    }
    const auto channels = static_cast<std::size_t>(observer.channels());
    std::vector<float> scales(channels);
    std::vector<std::int32_t> zero_points(channels);
    if (!observer.qparams(rule_of_case(row), scales, zero_points).ok()) {
        failed = true;
        return;
    }
    if (row.contains("error")) return;
    if (observer.seen()) {
        CHECK(same_bits({observer.lowest().begin(), observer.lowest().end()}, golden_floats(row.at("min_val"))));
        CHECK(same_bits({observer.highest().begin(), observer.highest().end()}, golden_floats(row.at("max_val"))));
        CHECK(same_bits(scales, golden_floats(row.at("scale"))));
        CHECK(zero_points == row.at("zero_point").get<std::vector<std::int32_t>>());
        return;
    }
    // PyTorch does not know its channels yet and returns one pair; here each channel has it.
    const std::vector<float> min = golden_floats(row.at("min_val"));
    CHECK((min.empty() || same_bits(observer.lowest()[0], min[0])));
    for (const float scale : scales) CHECK(same_bits(scale, golden_floats(row.at("scale")).at(0)));
    for (const std::int32_t zero_point : zero_points) CHECK(zero_point == row.at("zero_point").at(0));
}

template <class Backend, class LayoutTag> bool fails(const json& row) {
    const json& args = row.at("args");
    const int axis = args.value("ch_axis", observers::per_tensor);
    if (!arith::check_range_rule(rule_of_case(row), dtype_of_case(args.at("dtype"))).ok()) return true;
    index_t channels = 1;
    if (axis >= 0 && !row.at("batches").empty())
        channels = row.at("batches").at(0).at("shape").at(static_cast<std::size_t>(axis));
    std::vector<float> memory(static_cast<std::size_t>(observers::range_memory_size(channels)));
    bool failed = false;
    if (row.at("observer").get<std::string>().starts_with("MovingAverage")) {
        observers::MovingAverageRange observer(memory, axis,
                                               static_cast<float>(args.value("averaging_constant", 0.01)));
        check_case<Backend, LayoutTag>(row, observer, failed);
    } else {
        observers::MinMaxRange observer(memory, axis);
        check_case<Backend, LayoutTag>(row, observer, failed);
    }
    return failed;
}

}  // namespace

TEST_CASE("The observers equal PyTorch's on the golden cases, whatever the layout") {
    const json cases = intq::test::golden_cases("observers");
    REQUIRE(cases.size() == 404);
    std::set<std::string> met;
    for (const json& row : cases) {
        const std::string name = row.at("name");
        INFO(name);
        if (refused.contains(name)) {
            met.insert(name);
            continue;
        }
        CHECK(fails<simd::default_backend, row_major>(row) == row.contains("error"));
        CHECK(fails<simd::default_backend, channels_last>(row) == row.contains("error"));
        // Scalar code is what a compiler contracts first: the build with -ffp-contract=fast needs it.
        CHECK(fails<simd::scalar, row_major>(row) == row.contains("error"));
    }
    CHECK(met.size() == refused.size());
    CHECK(refused.size() == 10);
}

TEST_CASE("Infinite data is refused where PyTorch gives an infinite scale") {
    for (const json& row : intq::test::golden_cases("observers"))
        if (row.at("name").get<std::string>().starts_with("plus_inf"))
            CHECK(fails<simd::default_backend, row_major>(row));
}
