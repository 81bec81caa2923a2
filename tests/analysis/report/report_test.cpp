// SPDX-License-Identifier: MIT
//
// What a report keeps of a layer, and what its files say.
#include "intq/analysis/model_report.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "analysis/report/large_report.hpp"
#include "intq/analysis/internal/report/svg_plots.hpp"
#include "intq/io/error.hpp"
#include "intq/io/file.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"

using namespace intq;
using namespace intq::analysis;
using Catch::Matchers::Contains;

TEST_CASE("Histograms hold each value once, on one grid for both models") {
    const Shape shape(index_t{2}, index_t{3}, index_t{5});
    test::Draw draw(3);
    std::vector<float> x, y;
    for (index_t i = 0; i < shape.size(); ++i) x.push_back(draw.real(-2.0f, 1.0f)), y.push_back(draw.real(-1.0f, 4.0f));
    const PairedValues values = pair_values(x, y, shape);
    const double lowest = static_cast<double>(*std::min_element(x.begin(), x.end()));
    const double highest = static_cast<double>(*std::max_element(y.begin(), y.end()));
    CHECK(values.all.lowest == lowest);
    CHECK(values.all.highest == highest);
    std::vector<std::int64_t> expected(PairedValues::bins, 0);
    for (const float value : y) {
        std::size_t bin = 0;  // by comparing with each edge
        while (bin + 1 < PairedValues::bins &&
               static_cast<double>(value) >=
                   lowest + (highest - lowest) * static_cast<double>(bin + 1) / static_cast<double>(PairedValues::bins))
            ++bin;
        ++expected[bin];
    }
    CHECK(values.all.analysis == expected);
    CHECK(std::accumulate(values.all.baseline.begin(), values.all.baseline.end(), std::int64_t{0}) == 30);
}

TEST_CASE("Channels have their ranges, and the worst come first") {
    // Channel c of axis 1 is c everywhere; the analysed model is off by 2 in channel 1, by 0.5 in channel 3.
    const Shape shape(index_t{2}, index_t{4}, index_t{3});
    std::vector<float> x, y;
    for (int n = 0; n < 2; ++n)
        for (int c = 0; c < 4; ++c)
            for (int i = 0; i < 3; ++i) {
                x.push_back(static_cast<float>(c));
                y.push_back(x.back() + (c == 1 ? -2.0f : c == 3 ? 0.5f : 0.0f));
            }
    const PairedValues values = pair_values(x, y, shape);
    REQUIRE(values.channels.size() == 4);
    for (std::size_t c = 0; c < 4; ++c) {
        CHECK(values.channels[c].first == static_cast<index_t>(c));
        CHECK(values.channels[c].count == 1);
        CHECK(values.channels[c].baseline_min == static_cast<float>(c));
        CHECK(values.channels[c].baseline_max == static_cast<float>(c));
    }
    CHECK(values.channels[1].analysis_max == -1.0f);
    REQUIRE(values.worst_channels.size() == 2);
    CHECK(values.worst_channels[0].channel == 1);
    CHECK(values.worst_channels[0].error == 2.0);
    CHECK(values.worst_channels[1].channel == 3);
    CHECK(values.worst_channels[1].error == 0.5);
    CHECK(values.worst_channels[1].histogram.baseline.front() == 6);
    CHECK(values.worst_channels[1].histogram.analysis.back() == 6);
}

TEST_CASE("Many channels share ranges, and none is left out") {
    const index_t channels = 300;
    const Shape shape(index_t{1}, channels);
    std::vector<float> x(static_cast<std::size_t>(channels)), y = x;
    for (std::size_t c = 0; c < x.size(); ++c) x[c] = static_cast<float>(c), y[c] = -x[c];
    const PairedValues values = pair_values(x, y, shape);
    REQUIRE(values.channels.size() <= PairedValues::most_ranges);
    index_t next = 0;
    for (const ChannelRanges& range : values.channels) {
        CHECK(range.first == next);
        next += range.count;
        CHECK(range.baseline_max == static_cast<float>(next - 1));
        CHECK(range.analysis_min == -static_cast<float>(next - 1));
    }
    CHECK(next == channels);
    CHECK(values.worst_channels.size() == PairedValues::most_worst);
}

TEST_CASE("Values that are not numbers are counted and nothing else") {
    const std::vector<float> x{1, NAN, 3, 4}, y{INFINITY, 2, -INFINITY, 5};
    const PairedValues values = pair_values(x, y, Shape(index_t{1}, index_t{2}, index_t{2}));
    CHECK(values.not_finite_baseline == 1);
    CHECK(values.not_finite_analysis == 2);
    CHECK(values.all.lowest == 1.0);
    CHECK(values.all.highest == 5.0);
    const std::vector<float> none{NAN, NAN};
    const PairedValues empty = pair_values(none, none, Shape(index_t{1}, index_t{2}));
    CHECK(empty.not_finite_baseline == 2);
    CHECK(empty.worst_channels.empty());
    CHECK(empty.channels.size() == 2);
    CHECK(pair_values({}, {}, Shape(index_t{0}, index_t{2})).empty());
}

TEST_CASE("A report is JSON, and no name of a layer ends the page's script") {
    const ModelReport report = test::large_report(6);
    const auto json = nlohmann::json::parse(to_json(report));
    REQUIRE(json["layers"].size() == 6);
    CHECK(json["layers"][2]["name"] == test::hostile_name);
    CHECK(json["layers"][5]["inputs"] == nlohmann::json({4, 1}));
    CHECK(json["layers"][3]["not_finite"] == nlohmann::json({1, 1}));
    CHECK(json["layers"][0]["shares"] == nlohmann::json({0.5, 0.25, 0.0, 0.125, 0.125}));
    CHECK(json["layers"][0]["metrics"][4].get<double>() ==
          Approx(report.layers[0].comparison.metrics.sqnr()).epsilon(1e-5));
    CHECK(json["layers"][4]["channels"].size() == 128);
    CHECK(json["advice"][1]["change"] == "rename();");

    const test::TemporaryFolder folder;
    write_report(folder / "report", report);
    const std::vector<std::byte> bytes = io::read_file(folder / "report" / "profiler.html");
    const std::string page(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::size_t ends = 0;
    for (std::size_t at = page.find("</script"); at != std::string::npos; at = page.find("</script", at + 1)) ++ends;
    CHECK(ends == 2);
    CHECK_THAT(page, !Contains("http://") || Contains("http://www.w3.org/2000/svg"));
}

TEST_CASE("A report of a folder that cannot be written names it, and leaves what was there") {
    const test::TemporaryFolder folder;
    const auto blocked = folder / "a_file";
    io::write_file(blocked, std::string("kept"));
    CHECK_THROWS_WITH(write_report(blocked, test::large_report(1)), Contains("a_file"));
    CHECK(io::read_file(blocked).size() == 4);
}

TEST_CASE("Advice that was measured comes first, and an error's parts go to their layer") {
    ModelReport report = test::large_report(2);
    AdvisorReport found;
    found.advice.resize(1);
    found.advice[0].finding.mod_name = "stage0.conv1";
    found.advice[0].finding.reason = "channel 5 reaches 154";
    found.advice[0].repair.line = "mapping.set_module_name(...)";
    found.advice[0].loss_before = 4.0;
    found.advice[0].loss_after = 1.0;
    report.add(found);
    CHECK(report.advice.front().layer == "stage0.conv1");
    CHECK_THAT(report.advice.front().reason, Contains("channel 5 reaches 154") && Contains("75.0 %"));
    OperatorErrorSplit split;
    split.pair = {1, 1, false};
    split.total = 2.0;
    split.shares = {1, 0, 0, 0, 0};
    report.add(std::vector<OperatorErrorSplit>{split});
    CHECK(report.layers[1].shares == split.shares);
    CHECK(report.layers[0].shares != split.shares);
}

namespace {

/// The numbers of one attribute, in the order of the picture.
std::vector<double> attributes(const std::string& svg, const std::string& element, const std::string& name) {
    std::vector<double> values;
    for (std::size_t at = svg.find("<" + element); at != std::string::npos; at = svg.find("<" + element, at + 1)) {
        const std::size_t value = svg.find(" " + name + "=\"", at);
        values.push_back(std::stod(svg.substr(value + name.size() + 3)));
    }
    return values;
}

}  // namespace

TEST_CASE("Pictures of a report stand where their numbers are") {
    const std::vector<double> values{40.0, NAN, 10.0, 25.0};
    const std::string line = svg_of_values("SQNR <dB>", values);
    CHECK_THAT(line, Contains("SQNR &lt;dB") && Contains("10 to 40"));
    // The background, and a mark for each finite value: the largest on top, the middle one between.
    CHECK(attributes(line, "rect", "y").size() == 4);
    const auto y = attributes(line, "rect", "y");
    CHECK(y[1] == 28.0);
    CHECK(y[2] == 208.0);
    CHECK(y[3] == 118.0);
    CHECK(std::count(line.begin(), line.end(), 'M') == 2);  // a gap

    PairedHistogram histogram{-1.0, 1.0, {0, 7}, {1, 3}};
    const auto heights = attributes(svg_of_histogram("values", histogram), "rect", "height");
    REQUIRE(heights.size() == 3);
    CHECK(heights[1] == Approx(180.0 / 3.0).epsilon(1e-3));        // log 2 of log 8
    CHECK(heights[2] == Approx(180.0 * 2.0 / 3.0).epsilon(1e-3));  // log 4 of log 8

    const std::vector<ChannelRanges> channels{{0, 1, -1.0f, 1.0f, -2.0f, 2.0f}};
    const auto bars = attributes(svg_of_channels("channels", channels), "rect", "height");
    REQUIRE(bars.size() == 3);
    CHECK(bars[1] == 90.0);
    CHECK(bars[2] == 180.0);
    CHECK_THAT(svg_of_values("", {}), Contains("</svg>"));
}
