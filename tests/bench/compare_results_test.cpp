// SPDX-License-Identifier: MIT
//
// What ./dev bench --compare prints: rows of both forms of a file, the change of each and of all.
#include "support/compare_results.hpp"

#include <filesystem>
#include <fstream>

#include "intq/io/error.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq_bench;
using Catch::Matchers::Contains;

/// A file of its own for each case, removed at the end.
class ResultFile {
public:
    explicit ResultFile(const std::string& text)
        : path_((std::filesystem::temp_directory_path() / ("intq_results_" + std::to_string(std::rand()))).string()) {
        std::ofstream(path_) << text;
    }
    ResultFile(const ResultFile&) = delete;
    ~ResultFile() { std::filesystem::remove(path_); }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

const std::string own_form = R"({"machine": {}, "rows": [
    {"label": "conv/a", "us": 10.0, "spread": 0.02}, {"label": "conv/b", "us": 8.0, "spread": 0.5},
    {"label": "conv/refused", "refused": "no row"}, {"label": "conv/old", "us": 1.0, "spread": 0.0}]})";
const std::string google_form = R"({"context": {}, "benchmarks": [
    {"name": "conv/a/manual_time", "run_name": "conv/a/manual_time", "run_type": "iteration", "real_time": 19000.0,
     "time_unit": "ns"},
    {"name": "conv/a/manual_time", "run_name": "conv/a/manual_time", "run_type": "iteration", "real_time": 0.021,
     "time_unit": "ms"},
    {"name": "conv/a/manual_time_median", "run_name": "conv/a/manual_time", "run_type": "aggregate", "real_time": 1.0},
    {"name": "conv/b", "real_time": 4.0, "time_unit": "us"},
    {"name": "conv/new", "real_time": 4.0, "time_unit": "us"},
    {"name": "conv/failed", "error_occurred": true, "real_time": 4.0, "time_unit": "us"}]})";

}  // namespace

TEST_CASE("Rows of either form of a file have labels, medians and spreads") {
    const ResultFile own(own_form), google(google_form);
    const std::vector<RowTime> first = read_row_times(own.path()), second = read_row_times(google.path());
    REQUIRE(first.size() == 3);
    CHECK(first[0].label == "conv/a");
    CHECK(first[0].seconds == Approx(10e-6));
    CHECK(first[1].spread == 0.5);
    REQUIRE(second.size() == 3);
    CHECK(second[0].label == "conv/a");
    CHECK(second[0].seconds == Approx(20e-6));
    CHECK(second[0].spread == Approx(0.1));
    CHECK(second[2].label == "conv/new");
}

TEST_CASE("A comparison has the ratio of each row, marks what spreads do not explain, and names what is missing") {
    const ResultFile own(own_form), google(google_form);
    const std::string text = compare_results(read_row_times(own.path()), read_row_times(google.path()));
    INFO(text);
    CHECK_THAT(text, Contains("2.000*"));  // conv/a
    CHECK_THAT(text, Contains("0.500*"));  // conv/b: ln 2 is beyond its spread of 0.5
    CHECK_THAT(text, Contains("geometric mean of 2 rows: 1.000; * 2 changed"));
    CHECK_THAT(text, Contains("only in the first: conv/old"));
    CHECK_THAT(text, Contains("only in the second: conv/new"));
    const std::string same = compare_results(read_row_times(own.path()), read_row_times(own.path()));
    CHECK_THAT(same, Contains("* 0 changed"));
}

TEST_CASE("A label prints nothing that a terminal obeys") {
    const ResultFile file("{\"rows\": [{\"label\": \"a\\u001b[2J\", \"us\": 1.0, \"spread\": 0.0}]}");
    const std::vector<RowTime> rows = read_row_times(file.path());
    CHECK_THAT(compare_results(rows, rows), Contains("a\\x1b[2J ") && !Contains("\x1b"));
}

TEST_CASE("A file that is no file of results is refused by its name") {
    const ResultFile text("no JSON"), other(R"({"networks": []})"), wrong(R"({"rows": [{"us": "fast"}]})"),
        empty(R"({"rows": []})");
    for (const ResultFile* file : {&text, &other, &wrong})
        CHECK_THROWS_WITH(read_row_times(file->path()), Contains(file->path()) && Contains("is no results.json"));
    CHECK_THROWS_WITH(read_row_times("/no/such/file"), Contains("/no/such/file: cannot be read"));
    CHECK_THROWS_WITH(compare_results(read_row_times(empty.path()), read_row_times(empty.path())),
                      Contains("no row is in both files"));
}
