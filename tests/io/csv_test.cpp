// SPDX-License-Identifier: MIT
#include "intq/io/csv.hpp"

#include <limits>

#include "intq/io/json_text.hpp"
#include "support/catch.hpp"
#include "support/csv.hpp"

using namespace intq;
using test::CsvRows;

TEST_CASE("A CSV text is RFC 4180's, also for names with commas, quotes and line breaks") {
    const CsvRows rows{{"name", "shape", ""},
                       {"layer1.conv", "(1, 3, 8, 8)", "0.5"},
                       {"a \"b\", c", "\"", "\"\""},
                       {"two\r\nlines", "\n", "\r"},
                       {"", "", ""},
                       {" spaces ", "tab\t", "\xc3\xa9, \xce\xb1"}};
    CHECK(test::read_csv(io::csv_text(rows)) == rows);
    // The text itself, so that writer and reader cannot be wrong together.
    CHECK(io::csv_text(CsvRows{{"a", "b"}, {"(1, 2)", "x"}, {"say \"so\"", ""}}) ==
          "a,b\r\n\"(1, 2)\",x\r\n\"say \"\"so\"\"\",\r\n");
    CHECK(io::csv_text({}) == "");
    CHECK_THROWS_AS(io::csv_text(CsvRows{{"a", "b"}, {"c"}}), Error);
    CHECK_THROWS(test::read_csv("a,b\nc,d\n"));       // no CR LF
    CHECK_THROWS(test::read_csv("a, \"b\"\r\n"));     // a space before the quote
    CHECK_THROWS(test::read_csv("a\r\n(1, 2)\r\n"));  // a comma without quotes
    CHECK_THROWS(test::read_csv("\"a\"\"\r\n"));      // no closing quote
}

TEST_CASE("Numbers that JSON does not have are the strings inf, -inf and nan, whatever the sign of NaN") {
    const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    CHECK(io::write_json_number(infinity) == "\"inf\"");
    CHECK(io::write_json_number(-infinity) == "\"-inf\"");
    CHECK(io::write_json_number(nan) == "\"nan\"");
    CHECK(io::write_json_number(-nan) == "\"nan\"");
    CHECK(io::write_json_number(-static_cast<float>(nan)) == "\"nan\"");
    CHECK(io::write_json_number(0.1f) == "0.1");
    CHECK(io::write_json_number(-3) == "-3");
}
