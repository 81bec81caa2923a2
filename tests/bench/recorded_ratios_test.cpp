// SPDX-License-Identifier: MIT
//
// What ./dev bench --check says: a slowdown of 20 % fails, noise passes.
#include "support/recorded_ratios.hpp"

#include <filesystem>
#include <fstream>

#include "intq/io/error.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq_bench;

const std::string cpu = "Vendor-1-2";

/// A file of its own for each case, removed at the end.
class RatioFile {
public:
    explicit RatioFile(const std::string& lines)
        : path_((std::filesystem::temp_directory_path() / ("intq_ratios_" + std::to_string(std::rand()))).string()) {
        std::ofstream(path_) << lines;
    }
    RatioFile(const RatioFile&) = delete;
    ~RatioFile() { std::filesystem::remove(path_); }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

Row row(const std::string& layer, double part) {
    Row row;
    row.op = "conv2d";
    row.types = "s8s8s8";
    row.granularity = "per_channel";
    row.target = "fp32";
    row.backend = "avx2";
    row.layer = layer;
    row.part_of_peak = part;
    return row;
}

std::string recorded(double part) { return cpu + " " + row("layer", part).label() + " " + std::to_string(part) + "\n"; }

/// The status of the check where the layer reaches these parts of the peak, one a measurement.
int check(const RatioFile& file, std::vector<double> parts) {
    std::size_t next = 0;
    return check_recorded_ratios(file.path(), cpu, [&](const std::string&) {
        const double part = parts[std::min(next++, parts.size() - 1)];
        return std::vector<Row>{row("layer", part)};
    });
}

}  // namespace

TEST_CASE("A ratio to the peak that fell by 20 % fails, and one of noise passes") {
    const RatioFile file(recorded(0.80));
    CHECK(check(file, {0.80}) == 0);
    CHECK(check(file, {0.80 * 1.05}) == 0);
    CHECK(check(file, {0.80 * 0.95}) == 0);
    CHECK(check(file, {0.80 / 1.20}) == 1);
    CHECK(check(file, {0.80 * 0.80}) == 1);
}

TEST_CASE("The best of three measurements counts") {
    const RatioFile file(recorded(0.80));
    CHECK(check(file, {0.40, 0.60, 0.79}) == 0);
    CHECK(check(file, {0.40, 0.60, 0.64, 0.79}) == 1);
}

TEST_CASE("A row that is gone and a CPU without a record fail") {
    const RatioFile file(recorded(0.80));
    CHECK(check_recorded_ratios(file.path(), cpu, [](const std::string&) { return std::vector<Row>(); }) == 1);
    CHECK(check_recorded_ratios(file.path(), "Vendor-1-3", [](const std::string&) {
              return std::vector<Row>{row("layer", 0.80)};
          }) == nothing_recorded);
    const RatioFile damaged("Vendor-1-2 conv2d/layer none\n");
    CHECK_THROWS_AS(check(damaged, {0.80}), intq::Error);
}

TEST_CASE("A record replaces the ratios of its labels and keeps the others") {
    const RatioFile file(recorded(0.50) + "Other-1-1 conv2d/x 0.300\n");
    std::vector<double> parts{0.70, 0.80, 0.75};
    std::size_t next = 0;
    record_ratios(file.path(), cpu, [&] { return std::vector<Row>{row("layer", parts[next++])}; });
    std::ifstream written(file.path());
    const std::string text(std::istreambuf_iterator<char>(written), {});
    CHECK(text.find("\nOther-1-1 conv2d/x 0.300\n") != std::string::npos);
    CHECK(text.find("\n" + cpu + " " + row("layer", 0).label() + " 0.800\n") != std::string::npos);
}

TEST_CASE("A kernel that takes 20 % longer than when it was recorded fails, measured") {
    // The work is a peak loop, whose time is that of its turns alone; the peak is the same loop.
    const PeakLoop* loop = nullptr;
    for (const PeakLoop& one : peak_loops())
        if (const PeakLoop* const usable = usable_peak_loop(one.name)) loop = usable;
    if (loop == nullptr) {
        WARN("skipped: there is no peak loop for this CPU");
        return;
    }
    constexpr std::uint64_t turns = 2000;
    const auto measure = [&](std::uint64_t extra) {
        const std::vector<Contender> kernels{{[&] { loop->run(turns + extra); }, loop}};
        Row measured = row("layer", 0.0);
        measured.operations = loop->operations() * turns;
        fill(measured, measure_in_turns(kernels, Sampling{0.04, 1e-4, 5})[0], loop);
        return std::vector<Row>{measured};
    };
    const RatioFile file("");
    record_ratios(file.path(), cpu, [&] { return measure(0); });
    CHECK(check_recorded_ratios(file.path(), cpu, [&](const std::string&) { return measure(0); }) == 0);
    CHECK(check_recorded_ratios(file.path(), cpu, [&](const std::string&) { return measure(turns / 5); }) == 1);
}
