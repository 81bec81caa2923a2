// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>

#include "intq/io/error.hpp"
#include "results.hpp"

namespace intq_bench {

namespace {

constexpr double width = 960.0, height = 600.0, left = 70.0, right = 250.0, top = 40.0, bottom = 60.0;
constexpr std::array<const char*, 6> colours{"#1f5fa8", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#475569"};

/// A logarithmic axis between powers of ten, onto pixels.
struct Axis {
    double least, most, from, to;

    double at(double value) const {
        return from + (to - from) * (std::log10(value) - std::log10(least)) / (std::log10(most) - std::log10(least));
    }
};

double power_below(double value) { return std::pow(10.0, std::floor(std::log10(value))); }
double power_above(double value) { return std::pow(10.0, std::ceil(std::log10(value))); }

std::string escaped(const std::string& text) {
    std::string result;
    for (const char c : text) {
        if (c == '&')
            result += "&amp;";
        else if (c == '<')
            result += "&lt;";
        else if (c == '"')
            result += "&quot;";
        else
            result += c;
    }
    return result;
}

std::string text_at(double x, double y, const std::string& text, const char* extra = "") {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, extra, escaped(text));
}
std::string line_between(double x1, double y1, double x2, double y2, const char* style) {
    return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" style=\"{}\"/>\n", x1, y1, x2, y2,
                       style);
}

std::string frame(const Axis& x, const Axis& y) {
    std::string svg;
    for (double value = x.least; value <= x.most * 1.01; value *= 10.0) {
        svg += line_between(x.at(value), y.from, x.at(value), y.to, "stroke:#ddd");
        svg += text_at(x.at(value), y.from + 18.0, fmt::format("{:g}", value), "text-anchor=\"middle\"");
    }
    for (double value = y.least; value <= y.most * 1.01; value *= 10.0) {
        svg += line_between(x.from, y.at(value), x.to, y.at(value), "stroke:#ddd");
        svg += text_at(x.from - 6.0, y.at(value) + 4.0, fmt::format("{:g}", value), "text-anchor=\"end\"");
    }
    svg += text_at((x.from + x.to) / 2.0, height - 16.0, "operations for each byte of input, weights and output",
                   "text-anchor=\"middle\"");
    return svg + text_at(14.0, top - 14.0, "GOP/s");
}

/// Instructions that rows are divided by, in the order of the machine.
std::vector<PeakRate> used_peaks(const Results& results) {
    std::vector<PeakRate> used;
    for (const PeakRate& rate : results.machine.peaks)
        if (rate.operations > 0.0 && std::any_of(results.rows.begin(), results.rows.end(),
                                                 [&](const Row& row) { return row.peak == rate.name; }))
            used.push_back(rate);
    return used;
}

std::string roofs(const Results& results, const std::vector<PeakRate>& peaks, const Axis& x, const Axis& y) {
    std::string svg;
    double highest = y.least * 10.0;
    for (const PeakRate& rate : peaks) {
        const double gops = rate.operations * 1e-9;
        highest = std::max(highest, gops);
        svg += line_between(x.from, y.at(gops), x.to, y.at(gops), "stroke:#111;stroke-width:1.5");
        svg += text_at(x.to + 6.0, y.at(gops) + 4.0, fmt::format("{} {:.0f}", rate.name, gops));
    }
    for (const MemoryLevel& level : results.machine.memory) {
        // Gigabytes a second times operations a byte; from the left edge, or from where it enters at the bottom.
        const double bandwidth = level.read * 1e-9;
        const double first = std::max(x.least, y.least / bandwidth), last = std::min(x.most, highest / bandwidth);
        if (first >= last) continue;
        svg += line_between(x.at(first), y.at(first * bandwidth), x.at(last), y.at(last * bandwidth),
                            "stroke:#777;stroke-dasharray:5 3");
        svg += text_at(x.at(first) + 14.0, y.at(first * bandwidth) + 3.0,
                       fmt::format("{} {:.0f} GB/s", level.name, bandwidth), "class=\"level\"");
    }
    return svg;
}

std::string dots(const Results& results, const Axis& x, const Axis& y) {
    std::string svg;
    std::vector<std::string> kinds;
    for (const Row& row : results.rows) {
        if (!row.refused.empty()) continue;
        const std::string kind = row.types + " " + row.target + " " + row.backend;
        auto found = std::find(kinds.begin(), kinds.end(), kind);
        if (found == kinds.end()) found = kinds.insert(found, kind);
        const auto index = static_cast<std::size_t>(found - kinds.begin());
        const double gops = row.operations / row.seconds * 1e-9;
        svg += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\" fill-opacity=\"0.75\"><title>{}: "
            "{:.1f} GOP/s</title></circle>\n",
            x.at(row.operations / row.bytes), y.at(gops), colours[index % colours.size()], escaped(row.label()), gops);
    }
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        const double at = y.from - 14.0 * static_cast<double>(kinds.size() - 1 - i);
        svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", x.to + 12.0, at - 4.0,
                           colours[i % colours.size()]);
        svg += text_at(x.to + 20.0, at, kinds[i]);
    }
    return svg;
}

}  // namespace

void write_roofline(const Results& results, const std::string& path) {
    const std::vector<PeakRate> peaks = used_peaks(results);
    double least_x = 1.0, most_x = 100.0, least_y = 10.0, most_y = 100.0;
    for (const PeakRate& rate : peaks) most_y = std::max(most_y, rate.operations * 1e-9);
    for (const Row& row : results.rows) {
        if (!row.refused.empty()) continue;
        const double intensity = row.operations / row.bytes, gops = row.operations / row.seconds * 1e-9;
        least_x = std::min(least_x, intensity), most_x = std::max(most_x, intensity);
        least_y = std::min(least_y, gops), most_y = std::max(most_y, gops);
    }
    const Axis x{power_below(least_x), power_above(most_x), left, width - right};
    const Axis y{power_below(least_y), power_above(most_y), height - bottom, top};
    std::ofstream file(path);
    file << fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
        "height=\"{1:g}\">\n<style>text{{font:12px sans-serif;fill:#222}}.level{{fill:#777}}</style>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        width, height);
    file << text_at(left, top - 14.0, "Roofline: " + results.machine.cpu + ", one thread");
    file << frame(x, y) << roofs(results, peaks, x, y) << dots(results, x, y) << "</svg>\n";
    if (!file.flush()) throw intq::Error(path, "cannot be written");
}

}  // namespace intq_bench
