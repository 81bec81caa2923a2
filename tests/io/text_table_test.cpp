// SPDX-License-Identifier: MIT
#include "intq/io/text_table.hpp"

#include "support/catch.hpp"

using namespace intq;

namespace {

io::TextTable example() {
    io::TextTable table({{"name", io::Align::left}, {"SQNR", io::Align::right}});
    table.add_row({"conv1", "41.20"});
    table.add_row({"fc", "-3.5"});
    return table;
}

}  // namespace

TEST_CASE("The psql style draws a grid") {
    CHECK(example().str() ==
          "+-------+-------+\n"
          "| name  |  SQNR |\n"
          "|-------+-------|\n"
          "| conv1 | 41.20 |\n"
          "| fc    |  -3.5 |\n"
          "+-------+-------+\n");
}

TEST_CASE("The simple style has columns and no spaces at the end of a line") {
    CHECK(example().str(io::TableStyle::simple) ==
          "name    SQNR\n"
          "-----  -----\n"
          "conv1  41.20\n"
          "fc      -3.5\n");
    io::TextTable table({{"a"}, {"long title"}});
    table.add_row({"x", "y"});
    CHECK(table.str(io::TableStyle::simple) == "a  long title\n-  ----------\nx  y\n");
}

TEST_CASE("A table without rows has its header") {
    CHECK(io::TextTable({{"a"}}).str() == "+---+\n| a |\n|---|\n+---+\n");
}

TEST_CASE("Letters of more than one byte count as one column, control characters do not reach the terminal") {
    io::TextTable table({{"a"}});
    table.add_row({"\xc3\xa4\xe2\x82\xac"});
    table.add_row({"x\n\x1by"});
    CHECK(table.str(io::TableStyle::psql) ==
          "+------------+\n| a          |\n|------------|\n| \xc3\xa4\xe2\x82\xac         |\n| x\\x0a\\x1by "
          "|\n+------------+\n");
}

TEST_CASE("A row of another length is refused") {
    io::TextTable table({{"a"}, {"b"}});
    CHECK_THROWS_WITH(table.add_row({"1"}), "a table row has 1 cells, expected 2");
    CHECK(table.row_count() == 0);
}
