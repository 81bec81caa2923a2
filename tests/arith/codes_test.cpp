// SPDX-License-Identifier: MIT
//
// Codes and scales of operators: every function that makes parameters refuses the same ones, on every target.
#include "intq/arith/elementwise.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "arith/targets.hpp"
#include "intq/arith/conv.hpp"
#include "intq/arith/pool.hpp"
#include "intq/arith/softmax.hpp"
#include "intq/kernels/streaming/elementwise_call.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using arith::CodesOf;
using arith::OutputCodes;

constexpr float infinity = std::numeric_limits<float>::infinity();

/// A function that makes parameters, of operands and a result that stand in this order.
struct Maker {
    const char* name;
    std::size_t tensors;
    std::function<Status(const arith::PolicyRecord&, const std::vector<CodesOf>&, const OutputCodes&)> make;
};

std::vector<Maker> makers() {
    using Record = arith::PolicyRecord;
    using Given = std::vector<CodesOf>;
    return {
        {"add", 3,
         [](const Record& p, const Given& t, const OutputCodes& c) {
             return arith::make_add(p, t[0], t[1], t[2], c).status();
         }},
        {"sub", 3,
         [](const Record& p, const Given& t, const OutputCodes& c) {
             return arith::make_sub(p, t[0], t[1], t[2], c).status();
         }},
        {"mul", 3,
         [](const Record& p, const Given& t, const OutputCodes& c) {
             return arith::make_mul(p, t[0], t[1], t[2], c).status();
         }},
        {"requantize", 2,
         [](const Record& p, const Given& t, const OutputCodes& c) {
             return kernels::make_requantize(p, t[0], t[1], c).status();
         }},
        {"average", 2,
         [](const Record& p, const Given& t, const OutputCodes& c) {
             return arith::make_average(p, t[0], t[1], c, 4, PoolDivisor::kernel_cells, false).status();
         }},
        {"mean", 2,
         [](const Record& p, const Given& t, const OutputCodes& c) {
             return arith::make_mean(p, t[0], t[1], c, 4).status();
         }},
    };
}

/// visit(policy, maker, the tensor that is spoilt) for all of them.
template <class Visit> void for_each_tensor(Visit&& visit) {
    for_each_target([&](auto tag) {
        for (const Maker& maker : makers())
            for (std::size_t spoilt = 0; spoilt < maker.tensors; ++spoilt) {
                INFO(decltype(tag)::policy.name << " " << maker.name << ", tensor " << spoilt);
                visit(decltype(tag)::policy, maker, spoilt);
            }
    });
}

/// What a status calls the tensor.
Field owner_of(const Maker& maker, std::size_t spoilt) {
    if (spoilt + 1 == maker.tensors) return Field::output;
    return spoilt == 0 ? Field::input : Field::second_input;
}

const CodesOf sound{0.5f, 0, DType::int8};

Status make_with(const arith::PolicyRecord& policy, const Maker& maker, std::size_t spoilt, const CodesOf& codes) {
    std::vector<CodesOf> tensors(maker.tensors, sound);
    tensors[spoilt] = codes;
    const bool is_output = spoilt + 1 == maker.tensors;
    return maker.make(policy, tensors, {is_output ? codes.zero_point : 0, -128, 127});
}

}  // namespace

TEST_CASE("codes: a scale that is not from 2^-100 to 2^126 is refused, in every operand and result") {
    int refused = 0;
    for_each_tensor([&](const arith::PolicyRecord& policy, const Maker& maker, std::size_t spoilt) {
        CHECK(make_with(policy, maker, spoilt, sound).ok());
        for (const float scale : {NAN, infinity, -infinity, 0.0f, -0.5f, 1e-45f, 0x1.fffffep-101f, 0x1.000002p126f}) {
            CAPTURE(scale);
            const Status status = make_with(policy, maker, spoilt, {scale, 0, DType::int8});
            CHECK(status.code == (std::isfinite(scale) ? StatusCode::scale_out_of_range : StatusCode::not_finite));
            CHECK(status.field == Field::scale);
            CHECK(status.owner == owner_of(maker, spoilt));
            refused += !status.ok();
        }
    });
    CHECK(refused == 7 * 15 * 8);
}

TEST_CASE("codes: a zero point that is no code, or that the target does not take, is refused") {
    for_each_tensor([&](const arith::PolicyRecord& policy, const Maker& maker, std::size_t spoilt) {
        for (const std::int32_t bad : {-129, 128, INT32_MIN, INT32_MAX}) {
            CAPTURE(bad);
            const Status status = make_with(policy, maker, spoilt, {0.5f, bad, DType::int8});
            CHECK(status.code == StatusCode::value_out_of_range);
            CHECK(status.field == Field::zero_point);
            CHECK(status.owner == owner_of(maker, spoilt));
            CHECK(status.given == bad);
        }
        if (policy.zero_points) return;
        for (const std::int32_t bad : {-128, -1, 5, 127})
            CHECK(make_with(policy, maker, spoilt, {0.5f, bad, DType::int8}) ==
                  Status{StatusCode::value_out_of_range, make_with(policy, maker, spoilt, {0.5f, bad, DType::int8}).op,
                         Field::zero_point, bad, 0, owner_of(maker, spoilt)});
    });
}

TEST_CASE("codes: a type that is not int8 or int16 is refused, naming the operand") {
    for_each_tensor([&](const arith::PolicyRecord& policy, const Maker& maker, std::size_t spoilt) {
        const Field field = owner_of(maker, spoilt);
        for (const DType bad : {DType::none, DType::float32, DType::int32, DType::int64, DType::uint8}) {
            CAPTURE(name_of(bad));
            const Status status = make_with(policy, maker, spoilt, {0.5f, 0, bad});
            CHECK(status.code == StatusCode::dtype_mismatch);
            CHECK(status.field == field);
        }
    });
}

TEST_CASE("codes: a clamp that crosses, leaves the type or has another zero point than the result is refused") {
    for_each_target([&](auto tag) {
        const arith::PolicyRecord& policy = decltype(tag)::policy;
        for (const Maker& maker : makers()) {
            INFO(policy.name << " " << maker.name);
            const std::vector<CodesOf> tensors(maker.tensors, sound);
            const auto field = [&](const OutputCodes& codes) { return maker.make(policy, tensors, codes).field; };
            CHECK(field({0, 5, 4}) == Field::quant_range);
            CHECK(field({0, -129, 127}) == Field::quant_range);
            CHECK(field({0, -128, 128}) == Field::quant_range);
            CHECK(field({0, INT32_MIN, INT32_MAX}) == Field::quant_range);
            CHECK(field({3, -128, 127}) == Field::zero_point);
            CHECK(maker.make(policy, tensors, {0, 4, 4}).ok());
        }
    });
}

TEST_CASE("codes: scales whose ratio leaves binary32 are refused") {
    const arith::PolicyRecord& policy = target::fp32::policy;
    constexpr float large = 0x1p126f, small = 0x1p-100f;
    const auto no_ratio = [](OpKind op) {
        return Status{StatusCode::scale_out_of_range, op, Field::scale_ratio, -1, 0};
    };
    const auto int8 = [](float scale) { return CodesOf{scale, 0, DType::int8}; };
    for (const auto& [make, op] :
         {std::pair{&arith::make_add, OpKind::add}, std::pair{&arith::make_sub, OpKind::sub}}) {
        CHECK(make(policy, int8(large), int8(1), int8(small), {}).status() == no_ratio(op));
        CHECK(make(policy, int8(1), int8(large), int8(small), {}).status() == no_ratio(op));
        // The factors are finite, but not the terms: their difference would be NaN.
        CHECK(make(policy, int8(large), int8(large), int8(1), {}).status() == no_ratio(op));
    }
    for (const auto& target : {target::fp32::policy, target::tflite<>::policy, target::bpu<march::bayes>::policy})
        CHECK(arith::make_mul(target, int8(large), int8(large), int8(small), {}).status().op == OpKind::mul);
    CHECK(arith::make_mul(policy, int8(large), int8(large), int8(1), {}).status() == no_ratio(OpKind::mul));
    const auto average = [&](float in, float out, index_t cells) {
        return arith::make_average(policy, int8(in), int8(out), {}, cells, PoolDivisor::valid_cells, false).status();
    };
    CHECK(average(large, small, 4) == no_ratio(OpKind::avg_pool2d));
    CHECK(average(small, large, 4) == no_ratio(OpKind::avg_pool2d));
    CHECK(average(1, large, 4) == no_ratio(OpKind::avg_pool2d));
    CHECK(average(1, 1, 4).ok());
}

TEST_CASE("codes: an average of no cells, of too many or of another type is refused") {
    for_each_target([&](auto tag) {
        const arith::PolicyRecord& policy = decltype(tag)::policy;
        INFO(policy.name);
        const auto make = [&](index_t cells, DType out) {
            return arith::make_average(policy, sound, {0.5f, 0, out}, {0, -128, 127}, cells, PoolDivisor::kernel_cells,
                                       false)
                .status();
        };
        for (const index_t bad : {index_t{0}, index_t{-4}, std::numeric_limits<index_t>::min()})
            CHECK(make(bad, DType::int8) ==
                  Status{StatusCode::value_out_of_range, OpKind::avg_pool2d, Field::kernel, bad, 1});
        for (const index_t bad : {index_t{1} << 29, std::numeric_limits<index_t>::max()})
            CHECK(!make(bad, DType::int8).ok());
        CHECK(make(4, DType::int16).field == Field::output);
    });
}

TEST_CASE("codes: the operand of a fused add needs scales, too") {
    for_each_target([&](auto tag) {
        const arith::PolicyRecord& policy = decltype(tag)::policy;
        if (!policy.fused_add) return;
        INFO(policy.name);
        CHECK(arith::make_sumin(policy, {0.5f}, 0.5f, 0.5f, 0.5f, 32).ok());
        for (const float bad : {NAN, infinity, 0.0f, -0.5f}) {
            CAPTURE(bad);
            CHECK_FALSE(arith::make_sumin(policy, {bad}, 0.5f, 0.5f, 0.5f, 32).ok());
            CHECK_FALSE(arith::make_sumin(policy, {0.5f}, bad, 0.5f, 0.5f, 32).ok());
            CHECK_FALSE(arith::make_sumin(policy, {0.5f}, 0.5f, bad, 0.5f, 32).ok());
            CHECK_FALSE(arith::make_sumin(policy, {0.5f}, 0.5f, 0.5f, bad, 32).ok());
        }
    });
}

TEST_CASE("codes: what the parameters of a program may say is what the functions make") {
    // Each change below is refused, and the parameters as they were made are not.
    for_each_target([&](auto tag) {
        const arith::PolicyRecord& policy = decltype(tag)::policy;
        INFO(policy.name);
        const OutputCodes codes{0, -128, 127};
        const arith::AddParams add = *arith::make_add(policy, sound, {0.3f, 0, DType::int8}, sound, codes);
        const auto check = [&](auto&& change) {
            arith::AddParams changed = add;
            change(changed);
            return arith::check_add_params(policy, changed, DType::int8, OpKind::add).ok();
        };
        using Add = arith::AddParams;
        CHECK(check([](Add&) {}));
        CHECK_FALSE(check([](Add& p) { p.zero_point[1] = 128; }));
        CHECK_FALSE(check([](Add& p) { p.codes.lowest = 128; }));
        const bool is_float = policy.requantize == arith::RequantizeRule::float_scale;
        CHECK(check([](Add& p) { p.factor[0] = NAN; }) == !is_float);
        CHECK(check([](Add& p) { p.factor[1] = infinity; }) == !is_float);
        CHECK(check([](Add& p) { p.coefficient[0] = INT32_MIN; }) == is_float);
        CHECK(check([](Add& p) { p.coefficient[1] = INT32_MAX; }) == is_float);
        for (std::size_t word = 0; word < 5; ++word) {
            const auto words = static_cast<std::size_t>(arith::words_of(policy.requantize));
            for (const std::int32_t bad : {INT32_MIN, -33, 128})
                CHECK(check([&](Add& p) { p.output[word] = bad; }) ==
                      (is_float || word >= words || (word == 0 && bad == 128)));
        }
        const arith::MulParams mul = *arith::make_mul(policy, sound, sound, sound, codes);
        CHECK(arith::check_mul_params(policy, mul, DType::int8).ok());
        arith::MulParams shifted = mul;
        for (std::size_t word = is_float ? 0 : 1; word < 5; ++word) shifted.words[word] = -128;
        CHECK_FALSE(arith::check_mul_params(policy, shifted, DType::int8).ok());
    });
}
