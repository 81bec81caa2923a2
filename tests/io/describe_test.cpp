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
    CHECK(describe({StatusCode::value_out_of_range, OpKind::max_pool2d, Field::input, 0, 1}) ==
          "max_pool2d: an extent of the input is out of range: given 0, the nearest legal value is 1");
    CHECK(describe({StatusCode::buffer_too_small, OpKind::program, Field::arena, 10, 64}) ==
          "program: the arena has 10 bytes, 64 are needed");
    CHECK(describe({StatusCode::not_finite, OpKind::observe, Field::input, 7, 0}) ==
          "observe: element 7 of the input is NaN or infinite");
    CHECK(describe({StatusCode::missing, OpKind::none, Field::bias}) == "the bias is required and was not given");
    CHECK(describe({StatusCode::unsupported, OpKind::none, Field::none, 128, 256}) ==
          "the machine has vectors of 128 bits, and the code is compiled for 256");
    CHECK(describe({StatusCode::unsupported, OpKind::softmax, Field::axis}) ==
          "softmax: the axis is not supported by the target");
    CHECK(describe({StatusCode::unsupported, OpKind::softmax, Field::axis, 2, 1}) ==
          "softmax: the axis is 2, but only 1 is supported");
    CHECK(describe({StatusCode::scale_out_of_range, OpKind::add, Field::scale, -1, 0, Field::second_input}) ==
          "add: the scale of the second input is out of range; a scale lies between 2^-100 and 2^126");
    CHECK(describe({StatusCode::scale_out_of_range, OpKind::conv2d, Field::scale, 3, 0, Field::weight}) ==
          "conv2d: the scale of channel 3 of the weight is out of range; a scale lies between 2^-100 and 2^126");
    CHECK(describe({StatusCode::scale_out_of_range, OpKind::mul, Field::scale_ratio, -1, 0}) ==
          "mul: the ratio of the scales is too small or too large to requantize by");
    CHECK(describe({StatusCode::scale_out_of_range, OpKind::requantize, Field::scale_ratio, 8, 7}) ==
          "requantize: the ratio of the scales is too large to requantize by: a shift by 8, at most 7");
    CHECK(describe({StatusCode::not_finite, OpKind::conv2d, Field::scale, -1, 0, Field::output}) ==
          "conv2d: the scale of the output is NaN or infinite");
    CHECK(describe({StatusCode::shape_mismatch, OpKind::conv2d, Field::scale, 5, 6, Field::weight}) ==
          "conv2d: there are 5 scales of the weight, expected 6");
    CHECK(describe({StatusCode::shape_mismatch, OpKind::quantize, Field::zero_point, 1, 6}) ==
          "quantize: there is 1 zero point, expected 6");
    CHECK(describe({StatusCode::shape_mismatch, OpKind::conv2d, Field::groups, 4, 3, Field::input}) ==
          "conv2d: the 4 channels of the input are not a multiple of the 3 groups");
    CHECK(describe({StatusCode::shape_mismatch, OpKind::avg_pool2d, Field::kernel, 5, 3}) ==
          "avg_pool2d: the window spans 5 pixels, the padded image has 3");
    CHECK(describe({StatusCode::value_out_of_range, OpKind::conv2d, Field::quant_range, 300, 127, Field::input}) ==
          "conv2d: quant_min or quant_max of the input is out of range: given 300, the nearest legal value is 127");
    CHECK(describe({StatusCode::missing, OpKind::conv2d, Field::workspace, 0, 640}) ==
          "conv2d: the workspace is required and was not given; 640 bytes are needed");
    CHECK(describe({StatusCode::unsupported, OpKind::softmax}) ==
          "softmax: the operator is not supported by the target");
    CHECK(describe({StatusCode::value_out_of_range, OpKind::add, Field::zero_point, 128, 127, Field::output}) ==
          "add: the zero point of the output is out of range: given 128, the nearest legal value is 127");
    CHECK(describe({StatusCode::unsupported, OpKind::conv2d, Field::input, static_cast<int>(DType::uint8)}) ==
          "conv2d: the input has dtype uint8, which is not supported by the target");
    CHECK(describe({StatusCode::unsupported, OpKind::conv2d, Field::axis, 0, -1, Field::output}) ==
          "conv2d: scales per channel of the output are not supported");
    CHECK(describe({StatusCode::unsupported, OpKind::conv2d, Field::zero_point, 3, 0, Field::weight}) ==
          "conv2d: the zero point of the weight is 3, which is not supported; expected a zero point of 0");
    CHECK(describe({StatusCode::unsupported, OpKind::avg_pool2d, Field::divisor, 1, 0}) ==
          "avg_pool2d: count_include_pad = false with padding is not supported by the target");
    CHECK(describe({StatusCode::unsupported, OpKind::conv2d, Field::sumin}) ==
          "conv2d: a fused add is not supported by the target");
    CHECK(describe({StatusCode::unsupported, OpKind::conv2d, Field::activation, 2, 1}) ==
          "conv2d: relu6 is not supported with an output of int32");
    CHECK(describe({StatusCode::overlapping, OpKind::conv2d, Field::output, 0, 0, Field::input}) ==
          "conv2d: the output overlaps the input in memory");
    CHECK(describe({StatusCode::unexpected, OpKind::conv2d, Field::sumin}) ==
          "conv2d: the sumin was given, but the layer was made without it");
    CHECK(describe({StatusCode::misaligned, OpKind::conv2d, Field::workspace, 3, 64}) ==
          "conv2d: the workspace lies 3 bytes beyond a multiple of 64 bytes, which it must start at");
    CHECK(describe({StatusCode::corrupt, OpKind::conv2d, Field::geometry}) ==
          "conv2d: the geometry does not fit this window");
    CHECK(describe({StatusCode::unsupported, OpKind::program, Field::version, 1, 2}) ==
          "program: the file has version 1, and version 2 is read");
    CHECK(describe({StatusCode::corrupt, OpKind::program, Field::magic}) ==
          "program: the file does not begin as such a file does");
    CHECK(describe({StatusCode::corrupt, OpKind::program, Field::file, 100, 200}) ==
          "program: the file has 100 bytes, 200 are expected");
    CHECK(describe({StatusCode::corrupt, OpKind::program, Field::checksum, 1, 2}) ==
          "program: the file is damaged: its checksum differs");
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
        const bool carries_given = status.code != StatusCode::missing && status.code != StatusCode::dtype_mismatch &&
                                   status.code != StatusCode::overlapping && status.code != StatusCode::unexpected;
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
    CHECK(in_quotes("caf\xc3\xa9s", 4) == "\"caf...\"");  // not within a character
    CHECK(describe_shape(std::array{1, -1, 3}) == "(1, ?, 3)");
    CHECK(describe_shape(std::array{1, -1, 3}, false) == "(1, -1, 3)");
    CHECK(describe_shape(std::array<int, 0>{}) == "()");
}

TEST_CASE("Text of a file becomes printable, once and for all") {
    CHECK(printable("") == "");
    CHECK(printable("conv1 \"é\" \xe2\x82\xac \xf0\x9f\x98\x80") == "conv1 \"é\" \xe2\x82\xac \xf0\x9f\x98\x80");
    // ESC, BEL, a line break, a tab, DEL and NUL.
    CHECK(printable(std::string_view("\x1b[2J\x07\n\t\x7f\0", 9)) == "\\x1b[2J\\x07\\x0a\\x09\\x7f\\x00");
    // C1, which a terminal obeys too; the line and paragraph separators; an override, an isolate and a mark of
    // direction.
    CHECK(printable("\xc2\x9b\xc2\xa0") == "\\xc2\\x9b\xc2\xa0");
    CHECK(printable("\xe2\x80\xa8\xe2\x80\xa9") == "\\xe2\\x80\\xa8\\xe2\\x80\\xa9");
    CHECK(printable("\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c") ==
          "\\xe2\\x80\\xae\\xe2\\x81\\xa6\\xe2\\x80\\x8f\\xd8\\x9c");
    // No UTF-8, in the middle and at the end.
    CHECK(printable("a\xff"
                    "b\xe2\x82") ==
          "a\\xff"
          "b\\xe2\\x82");
    for (int byte = 0; byte < 256; ++byte) {
        const std::string text(1, static_cast<char>(byte));
        CHECK((printable(text) == text) == (byte >= 0x20 && byte < 0x7f));
        CHECK(printable(printable(text)) == printable(text));
    }
    CHECK(std::string(Error("a\x1b", "b\n").what()) == "a\\x1b: b\\x0a");
    CHECK(std::string(Error("\x1b[2J").what()) == "\\x1b[2J");
    CHECK(std::string(Error("where", Error("\x9b")).what()) == "where: \\x9b");
    CHECK(std::string(Error::of_environment("\x1b").what()) == "\\x1b");
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
