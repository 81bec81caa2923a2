// SPDX-License-Identifier: MIT
//
// Status, Result, types of elements, checks of qparams and windows: what setup functions answer.
#include "intq/core/status.hpp"

#include <limits>
#include <set>
#include <string>

#include "intq/core/op_params.hpp"
#include "intq/core/qparams.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

bool names(const Status& status, StatusCode code, Field field) { return status.code == code && status.field == field; }

}  // namespace

TEST_CASE("status: ok by default, and equal when every member is") {
    constexpr Status fine;
    static_assert(fine.ok() && fine);
    const Status refused{StatusCode::shape_mismatch, OpKind::conv2d, Field::input, 3, 4};
    CHECK_FALSE(refused.ok());
    CHECK(refused == Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::input, 3, 4});
    CHECK(refused != Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::input, 3, 5});
    CHECK(refused.of(Field::output) ==
          Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::input, 3, 4, Field::output});
    CHECK(fine.of(Field::output) == fine);
    CHECK(refused.in(OpKind::linear) == Status{StatusCode::shape_mismatch, OpKind::linear, Field::input, 3, 4});
    CHECK(fine.in(OpKind::linear) == fine);
    CHECK(sizeof(Status) <= 24);
    static_assert(std::is_trivially_copyable_v<Status>);
}

TEST_CASE("result: a value, or the status that says why there is none") {
    constexpr Result<int> seven = 7;
    static_assert(seven.ok() && *seven == 7 && seven.status().ok());
    const Result<int> refused = Status{StatusCode::missing, OpKind::add, Field::bias, 0, 0};
    CHECK_FALSE(refused);
    CHECK(refused.status().code == StatusCode::missing);
    struct Pair {
        int first = 1, second = 2;
    };
    const Result<Pair> pair = Pair{3, 4};
    CHECK(pair->second == 4);
    CHECK((*pair).first == 3);
}

TEST_CASE("names: every code, field, operator, type and activation has its own word") {
    std::set<std::string> words;
    for (int i = 0; i <= static_cast<int>(StatusCode::corrupt); ++i) words.insert(name_of(static_cast<StatusCode>(i)));
    CHECK(words.size() == static_cast<std::size_t>(StatusCode::corrupt) + 1);
    CHECK(words.count("unknown") == 0);
    words.clear();
    for (int i = 0; i <= static_cast<int>(Field::checksum); ++i) words.insert(name_of(static_cast<Field>(i)));
    CHECK(words.size() == static_cast<std::size_t>(Field::checksum) + 1);
    words.clear();
    for (int i = 0; i < static_cast<int>(OpKind::count_); ++i) words.insert(name_of(static_cast<OpKind>(i)));
    CHECK(words.size() == static_cast<std::size_t>(OpKind::count_));
    words.clear();
    for (int i = 0; i <= static_cast<int>(DType::uint8); ++i) words.insert(name_of(static_cast<DType>(i)));
    CHECK(words.size() == static_cast<std::size_t>(DType::uint8) + 1);
    CHECK(std::string(name_of(Activation::relu6)) == "relu6");
    CHECK(std::string(name_of(DType::int8)) == "int8");
}

TEST_CASE("dtype: sizes, codes and C++ types") {
    static_assert(dtype_of<float> == DType::float32 && dtype_of<const std::int8_t> == DType::int8);
    static_assert(dtype_of<long double> == DType::none && dtype_of<bool> == DType::none);
    CHECK(size_of(DType::int8) == 1);
    CHECK(size_of(DType::int16) == 2);
    CHECK(size_of(DType::float32) == 4);
    CHECK(size_of(DType::int64) == 8);
    CHECK(size_of(DType::none) == 0);
    CHECK(lowest_code(DType::int16) == -32768);
    CHECK(highest_code(DType::int16) == 32767);
    CHECK(lowest_code(DType::uint8) == 0);
    CHECK(highest_code(DType::uint8) == 255);
    CHECK(highest_code(DType::float32) == 0);
}

TEST_CASE("qparams: per tensor inline, per channel in the caller's memory, no zero points for symmetric") {
    const QParams tensor = QParams::per_tensor(0.5f, 3, DType::int8);
    CHECK_FALSE(tensor.is_per_channel());
    CHECK(tensor.count() == 1);
    CHECK(tensor.quant_min() == -128);
    CHECK(tensor.zero_point(0) == 3);
    CHECK_FALSE(tensor.is_symmetric());
    const float scales[]{1.0f, 2.0f, 4.0f};
    const std::int32_t zero_points[]{0, 5, 0};
    const QParams channels = QParams::per_channel(scales, {}, 1, -127, 127);
    CHECK(channels.is_per_channel());
    CHECK(channels.axis() == 1);
    CHECK(channels.count() == 3);
    CHECK(channels.scale(2) == 4.0f);
    CHECK(channels.zero_point(2) == 0);
    CHECK(channels.is_symmetric());
    CHECK(channels.quant_min() == -127);
    const QParams affine = QParams::per_channel(scales, zero_points, 0, -128, 127);
    CHECK(affine.zero_point(1) == 5);
    CHECK_FALSE(affine.is_symmetric());
}

TEST_CASE("qparams: check names the range, the scale, the zero point or the channels that is wrong") {
    const auto tensor = [](float scale, std::int32_t zero_point, std::int64_t low, std::int64_t high) {
        return check_qparams(QParams::per_tensor(scale, zero_point, low, high), DType::int8, 3, OpKind::quantize);
    };
    CHECK(tensor(0.1f, 0, -128, 127).ok());
    CHECK(tensor(0.1f, -128, -128, 127).ok());
    CHECK(tensor(0.1f, 0, 0, 127).ok());
    CHECK(names(tensor(0.1f, 0, -129, 127), StatusCode::value_out_of_range, Field::quant_range));
    CHECK(names(tensor(0.1f, 0, -128, 128), StatusCode::value_out_of_range, Field::quant_range));
    CHECK(names(tensor(0.1f, 1, 1, 127), StatusCode::value_out_of_range, Field::quant_range));
    CHECK(names(tensor(0.1f, -1, -128, -1), StatusCode::value_out_of_range, Field::quant_range));
    CHECK(names(tensor(0.1f, 0, 0, 0), StatusCode::value_out_of_range, Field::quant_range));
    for (const float scale : {0.0f, -0.1f})
        CHECK(names(tensor(scale, 0, -128, 127), StatusCode::scale_out_of_range, Field::scale));
    for (const float scale : {inf, -inf, nan_value})
        CHECK(names(tensor(scale, 0, -128, 127), StatusCode::not_finite, Field::scale));
    // The scale of a whole tensor has no channel.
    CHECK(tensor(0.0f, 0, -128, 127).given == -1);
    CHECK(tensor(0.1f, 128, -128, 127) ==
          Status{StatusCode::value_out_of_range, OpKind::quantize, Field::zero_point, 128, 127});
    CHECK(tensor(0.1f, -5, -4, 127) ==
          Status{StatusCode::value_out_of_range, OpKind::quantize, Field::zero_point, -5, -4});

    const float scales[]{1.0f, 0.0f, 4.0f};
    const auto channels = [&](std::span<const float> given) {
        return check_qparams(QParams::per_channel(given, {}, 0, -128, 127), DType::int8, 3, OpKind::conv2d);
    };
    CHECK(channels(std::span(scales).first(2)) ==
          Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::scale, 2, 3});
    CHECK(channels(scales) == Status{StatusCode::scale_out_of_range, OpKind::conv2d, Field::scale, 1, 0});
}

TEST_CASE("window: output sizes by stride, padding and dilation, and what check_window refuses") {
    CHECK(output_size({{3, 3}, {2, 1}, {1, 1, 1, 1}, {1, 1}}, {8, 8}) == Size2d{4, 8});
    CHECK(output_size({{3, 2}, {1, 1}, {0, 0, 0, 0}, {2, 3}}, {7, 7}) == Size2d{3, 4});
    CHECK(output_size({{3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}}, {2, 3}) == Size2d{0, 1});
    CHECK(output_size({{2, 2}, {2, 2}, {1, 0, 0, 1}, {1, 1}}, {5, 5}) == Size2d{3, 3});  // sides differ
    CHECK(check_window({}, OpKind::conv2d).ok());
    CHECK(names(check_window({{0, 1}, {}, {}, {}}, OpKind::conv2d), StatusCode::value_out_of_range, Field::kernel));
    CHECK(names(check_window({{}, {1, 0}, {}, {}}, OpKind::conv2d), StatusCode::value_out_of_range, Field::stride));
    CHECK(names(check_window({{}, {}, {}, {-1, 1}}, OpKind::conv2d), StatusCode::value_out_of_range, Field::dilation));
    for (const Padding2d& pad :
         {Padding2d{-1, 0, 0, 0}, Padding2d{0, -1, 0, 0}, Padding2d{0, 0, -1, 0}, Padding2d{0, 0, 0, -1}})
        CHECK(names(check_window({{}, {}, pad, {}}, OpKind::conv2d), StatusCode::value_out_of_range, Field::padding));
}
