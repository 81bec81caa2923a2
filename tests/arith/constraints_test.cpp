// SPDX-License-Identifier: MIT
//
// The constraint tables of the targets: what they accept, and the field that a refusal names.
#include "intq/arith/constraints.hpp"

#include "arith/targets.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using arith::OperatorUse;

template <class TargetType> Status check(const OperatorUse& use) {
    return arith::check_constraints(TargetType::policy.constraints, use);
}
using Bernoulli2 = target::bpu<march::bernoulli2>;
using Bayes = target::bpu<march::bayes>;
using Meta = target::bpu<march::meta>;
using Lite = target::tflite<>;

OperatorUse conv(DType input, DType weight, DType output) { return {OpKind::conv2d, input, weight, output, {}, 3}; }

OperatorUse pool(OpKind op, DType dtype, index_t kernel, index_t stride = 1, index_t pad = 0) {
    return {op, dtype, DType::none, dtype, {{kernel, 1}, {stride, 1}, {pad, 0, 0, 0}, {}}, 3};
}

constexpr DType i8 = DType::int8, i16 = DType::int16, i32 = DType::int32, none = DType::none;

bool names(const Status& status, StatusCode code, Field field) { return status.code == code && status.field == field; }

}  // namespace

TEST_CASE("constraints: convolutions that each target takes") {
    CHECK(check<Bernoulli2>(conv(i8, i8, i8)).ok());
    CHECK(check<Bernoulli2>(conv(i8, i8, i32)).ok());
    for (const DType input : {i8, i16})
        for (const DType output : {i8, i16, i32}) {
            CHECK(check<Bayes>(conv(input, i8, output)).ok());
            CHECK(check<Meta>(conv(input, i8, output)).ok());
            CHECK(check<Meta>(conv(input, i16, output)).ok());
        }
    CHECK(check<target::fp32>(conv(i8, i8, i8)).ok());
    CHECK(check<Lite>(conv(i16, i8, i16)).ok());
}

TEST_CASE("constraints: a refusal names the first of operator, input, weight and output that no row has") {
    CHECK(names(check<Bernoulli2>(conv(i16, i8, i8)), StatusCode::unsupported, Field::input));
    CHECK(check<Bernoulli2>(conv(i16, i8, i8)).given == static_cast<std::int64_t>(i16));
    CHECK(names(check<Bayes>(conv(i16, i16, i16)), StatusCode::unsupported, Field::weight));  // never both int16
    CHECK(names(check<Bayes>(conv(i8, i16, i8)), StatusCode::unsupported, Field::weight));
    CHECK(names(check<Bernoulli2>(conv(i8, i8, i16)), StatusCode::unsupported, Field::output));
    CHECK(names(check<Lite>(conv(i8, i8, i16)), StatusCode::unsupported, Field::output));
    const Status no_operator = check<Bayes>({OpKind::observe, i8, none, i8, {}, 3});
    CHECK(names(no_operator, StatusCode::unsupported, Field::none));
    CHECK(no_operator.op == OpKind::observe);
    CHECK(names(check<Bernoulli2>({OpKind::add, i16, none, i16, {}, 3}), StatusCode::unsupported, Field::input));
}

TEST_CASE("constraints: limits are inclusive, and the refusal holds what was given and what is allowed") {
    CHECK(check<Bernoulli2>(pool(OpKind::avg_pool2d, i8, 7)).ok());
    const Status kernel = check<Bernoulli2>(pool(OpKind::avg_pool2d, i8, 8));
    CHECK(kernel == Status{StatusCode::value_out_of_range, OpKind::avg_pool2d, Field::kernel, 8, 7});
    CHECK(check<Bernoulli2>(pool(OpKind::max_pool2d, i8, 8)).ok());
    CHECK(check<Bernoulli2>({OpKind::add, i8, none, i8, {}, 2048}).ok());
    CHECK(check<Bernoulli2>({OpKind::add, i8, none, i8, {}, 2049}) ==
          Status{StatusCode::value_out_of_range, OpKind::add, Field::channels, 2049, 2048});
    CHECK(check<Bayes>({OpKind::add, i8, none, i8, {}, 2049}).ok());
    for (const OpKind op : {OpKind::max_pool2d, OpKind::avg_pool2d})
        for (const DType dtype : {i8, i16}) {
            CHECK(check<Bayes>(pool(op, dtype, 256, 256, 256)).ok());
            CHECK(check<Bayes>(pool(op, dtype, 257)) ==
                  Status{StatusCode::value_out_of_range, op, Field::kernel, 257, 256});
            CHECK(check<Bayes>(pool(op, dtype, 1, 257)) ==
                  Status{StatusCode::value_out_of_range, op, Field::stride, 257, 256});
            CHECK(check<Bayes>(pool(op, dtype, 1, 1, 257)) ==
                  Status{StatusCode::value_out_of_range, op, Field::padding, 257, 256});
        }
}

TEST_CASE("constraints: each side of a window is checked") {
    const auto field = [](const Window2d& window) {
        return check<Bayes>({OpKind::avg_pool2d, i8, none, i8, window, 1}).field;
    };
    CHECK(field({{1, 257}, {}, {}, {}}) == Field::kernel);
    CHECK(field({{}, {1, 257}, {}, {}}) == Field::stride);
    CHECK(field({{}, {}, {0, 257, 0, 0}, {}}) == Field::padding);
    CHECK(field({{}, {}, {0, 0, 257, 0}, {}}) == Field::padding);
    CHECK(field({{}, {}, {0, 0, 0, 257}, {}}) == Field::padding);
}

TEST_CASE("constraints: of two rows with the types, the one without a limit accepts") {
    constexpr arith::ConstraintRow rows[] = {{.op = OpKind::add, .input = i8, .output = i8, .max_channels = 4},
                                             {.op = OpKind::add, .input = i8, .output = i8}};
    CHECK(arith::check_constraints(rows, {OpKind::add, i8, none, i8, {}, 5}).ok());
    CHECK_FALSE(arith::check_constraints({rows, 1}, {OpKind::add, i8, none, i8, {}, 5}).ok());
    CHECK(arith::check_constraints({}, {OpKind::add, i8, none, i8, {}, 5}).code == StatusCode::unsupported);
}

TEST_CASE("constraints: bernoulli2 has int8 activations and int32 outputs alone; meta and fp32 have int16 weights") {
    test::for_each_target([](auto tag) {
        using TargetType = decltype(tag);
        INFO(TargetType::policy.name);
        CHECK_FALSE(TargetType::policy.constraints.empty());
        for (const arith::ConstraintRow& row : TargetType::policy.constraints) {
            if (std::is_same_v<TargetType, Bernoulli2>) CHECK((row.input != i16 && row.output != i16));
            if (!std::is_same_v<TargetType, Meta>)
                CHECK((row.weight != i16 || (std::is_same_v<TargetType, target::fp32> && row.input == i16)));
            CHECK(((row.op == OpKind::conv2d || row.op == OpKind::linear) == (row.weight != none)));
        }
    });
}
