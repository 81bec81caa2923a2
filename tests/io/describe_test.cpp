// SPDX-License-Identifier: MIT
#include "intq/io/describe.hpp"

#include <array>

#include "intq/io/error.hpp"
#include "support/catch.hpp"

using namespace intq;

TEST_CASE("A status becomes a sentence with operator, field, given and expected") {
    CHECK(describe({StatusCode::dtype_mismatch, OpKind::conv2d, Field::weight, static_cast<int>(DType::int16),
                    static_cast<int>(DType::int8)}) == "conv2d: the weight has dtype int16, expected int8");
    CHECK(describe({StatusCode::shape_mismatch, OpKind::linear, Field::input, 3, 4}) ==
          "linear: the input has an extent of 3, expected 4");
    CHECK(describe({StatusCode::value_out_of_range, OpKind::max_pool2d, Field::stride, 0, 1}) ==
          "max_pool2d: the stride is out of range: given 0, the nearest legal value is 1");
    CHECK(describe({StatusCode::buffer_too_small, OpKind::program, Field::arena, 10, 64}) ==
          "program: the arena has 10 bytes, 64 are needed");
    CHECK(describe({StatusCode::not_finite, OpKind::observe, Field::input, 7, 0}) ==
          "observe: element 7 of the input is NaN or infinite");
    CHECK(describe({StatusCode::missing, OpKind::none, Field::bias}) == "the bias is required and was not given");
    CHECK(describe({StatusCode::unsupported, OpKind::softmax, Field::axis}) ==
          "softmax: the axis is not supported by the target");
    CHECK(describe({StatusCode::unsupported, OpKind::softmax, Field::axis, 2, 1}) ==
          "softmax: the axis (given 2, expected 1) is not supported by the target");
    CHECK(describe({StatusCode::scale_out_of_range, OpKind::add, Field::second_input}) ==
          "add: the scale of the second input cannot be represented");
    CHECK(describe(Status{}) == "ok");
}

TEST_CASE("Every status code has a sentence of its own that holds the numbers it is documented to carry") {
    std::array<std::string, static_cast<std::size_t>(StatusCode::corrupt)> sentences;
    for (std::size_t code = 1; code <= sentences.size(); ++code) {
        const Status status{static_cast<StatusCode>(code), OpKind::add, Field::none, 12345, 67890};
        const std::string sentence = describe(status);
        INFO(sentence);
        CHECK(sentence.rfind("add: ", 0) == 0);
        CHECK(sentence.find("unknown status") == std::string::npos);
        const bool carries_given = status.code != StatusCode::missing && status.code != StatusCode::misaligned &&
                                   status.code != StatusCode::dtype_mismatch;
        if (carries_given) CHECK(sentence.find("12345") != std::string::npos);
        for (std::size_t other = 0; other + 1 < code; ++other) CHECK(sentences[other] != sentence);
        sentences[code - 1] = sentence;
    }
}

TEST_CASE("A dtype code that is none is not looked up") {
    CHECK(describe({StatusCode::dtype_mismatch, OpKind::none, Field::tensor, 99, -1}) ==
          "the tensor has dtype unknown (code 99), expected unknown (code -1)");
}

TEST_CASE("Names from files are quoted so that a terminal does not obey them") {
    CHECK(in_quotes("conv1") == "\"conv1\"");
    CHECK(in_quotes("a\x1b[2Jb\n\x7f") == "\"a\\x1b[2Jb\\x0a\\x7f\"");
    CHECK(in_quotes(std::string(200, 'x'), 3) == "\"xxx...\"");
    CHECK(describe_shape(std::array{1, -1, 3}) == "(1, ?, 3)");
    CHECK(describe_shape(std::array<int, 0>{}) == "()");
}

TEST_CASE("Error says where, and throw_if_failed and value_or_throw throw for what is not ok only") {
    const Status bad{StatusCode::missing, OpKind::conv2d, Field::bias};
    CHECK(std::string(Error(bad, "stem.conv").what()) == "stem.conv: conv2d: the bias is required and was not given");
    CHECK(std::string(Error(bad).what()) == "conv2d: the bias is required and was not given");
    CHECK_THROWS_AS(throw_if_failed(bad, "stem"), Error);
    CHECK_NOTHROW(throw_if_failed(Status{}, "stem"));
    CHECK(value_or_throw(Result<int>(5)) == 5);
    CHECK_THROWS_AS(value_or_throw(Result<int>(bad)), Error);
}
