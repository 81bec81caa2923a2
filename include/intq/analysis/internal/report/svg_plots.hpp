// SPDX-License-Identifier: MIT
//
// Plots of a report as static pictures, for documents. Layer: analysis/report.
#ifndef INTQ_ANALYSIS_INTERNAL_REPORT_SVG_PLOTS_HPP
#define INTQ_ANALYSIS_INTERNAL_REPORT_SVG_PLOTS_HPP

#include <span>
#include <string>
#include <string_view>

#include "intq/analysis/internal/report/paired_values.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// A line through the finite values, one for each layer; a layer without one is a gap.
///
/// @return the text of an SVG file, as of the other functions
std::string svg_of_values(std::string_view title, std::span<const double> values);

/// The counts of both models over one grid; their heights are logarithms.
std::string svg_of_histogram(std::string_view title, const PairedHistogram& histogram);

/// The range of each channel in both models, side by side.
std::string svg_of_channels(std::string_view title, std::span<const ChannelRanges> channels);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_report)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <cstdio>
#    include <vector>

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

inline constexpr const char* baseline_ink = "#3b82c4";
inline constexpr const char* analysis_ink = "#e0792b";

/// A picture of 640 by 240, whose plot leaves room for a title above and the ends of its axis below.
class SvgPlot {
public:
    static constexpr double left = 10, top = 30, width = 620, height = 180;

    explicit SvgPlot(std::string_view title) {
        text_ =
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"240\" viewBox=\"0 0 640 240\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"640\" height=\"240\" fill=\"#ffffff\"/>\n";
        label(left, 20, title);
    }

    static std::string number(double value) {
        char text[32];
        std::snprintf(text, sizeof text, "%.4g", value);
        return text;
    }
    void label(double x, double y, std::string_view words) {
        text_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\">";
        for (const char c : words) text_ += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
        text_ += "</text>\n";
    }
    void bar(double x, double y, double bar_width, double bar_height, const char* ink, double opacity = 1.0) {
        text_ += "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(bar_width) + "\" height=\"" +
                 number(bar_height) + "\" fill=\"" + ink + "\" fill-opacity=\"" + number(opacity) + "\"/>\n";
    }
    void line(const std::string& path, const char* ink) {
        if (!path.empty())
            text_ += "<path d=\"" + path + "\" fill=\"none\" stroke=\"" + ink + "\" stroke-width=\"1.5\"/>\n";
    }
    static std::string place(double x, double y) { return number(x) + " " + number(y); }
    std::string finish(double lowest, double highest) {
        label(left, 230, number(lowest) + " to " + number(highest));
        return text_ + "</svg>\n";
    }

private:
    std::string text_;
};

/// The position of a value between two ends, from 0 to 1; in the middle if they are equal.
INTQ_INLINE double fraction(double value, double lowest, double highest) {
    return highest > lowest ? (value - lowest) / (highest - lowest) : 0.5;
}

}  // namespace detail

INTQ_INLINE std::string svg_of_values(std::string_view title, std::span<const double> values) {
    using detail::SvgPlot;
    SvgPlot plot(title);
    double lowest = INFINITY, highest = -INFINITY;
    for (const double value : values)
        if (std::isfinite(value)) lowest = (std::min)(lowest, value), highest = (std::max)(highest, value);
    if (lowest > highest) return plot.finish(0.0, 0.0);
    std::string path;
    bool follows = false;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const bool is_there = std::isfinite(values[i]);
        if (is_there) {
            const double x =
                SvgPlot::left + SvgPlot::width * (static_cast<double>(i) + 0.5) / static_cast<double>(values.size());
            const double y = SvgPlot::top + SvgPlot::height * (1.0 - detail::fraction(values[i], lowest, highest));
            path += (follows ? "L" : "M") + SvgPlot::place(x, y);
            plot.bar(x - 2, y - 2, 4, 4, detail::baseline_ink);
        }
        follows = is_there;
    }
    plot.line(path, detail::baseline_ink);
    return plot.finish(lowest, highest);
}

INTQ_INLINE std::string svg_of_histogram(std::string_view title, const PairedHistogram& histogram) {
    using detail::SvgPlot;
    SvgPlot plot(title);
    std::int64_t most = 1;
    for (const auto* const counts : {&histogram.baseline, &histogram.analysis})
        for (const std::int64_t count : *counts) most = (std::max)(most, count);
    const auto tall = [&](std::int64_t count) {
        return SvgPlot::height * std::log1p(static_cast<double>(count)) / std::log1p(static_cast<double>(most));
    };
    const double floor = SvgPlot::top + SvgPlot::height;
    const double step = SvgPlot::width / static_cast<double>(std::max<std::size_t>(histogram.baseline.size(), 1));
    std::string path;
    for (std::size_t i = 0; i < histogram.baseline.size(); ++i) {
        const double x = SvgPlot::left + step * static_cast<double>(i);
        const double high = tall(histogram.analysis[i]), y = floor - tall(histogram.baseline[i]);
        plot.bar(x, floor - high, step, high, detail::analysis_ink, 0.6);
        path += (path.empty() ? "M" : "L") + SvgPlot::place(x, y) + "L" + SvgPlot::place(x + step, y);
    }
    plot.line(path, detail::baseline_ink);
    return plot.finish(histogram.lowest, histogram.highest);
}

INTQ_INLINE std::string svg_of_channels(std::string_view title, std::span<const ChannelRanges> channels) {
    using detail::SvgPlot;
    SvgPlot plot(title);
    float lowest = 0.0f, highest = 0.0f;
    for (const ChannelRanges& range : channels) {
        lowest = (std::min)({lowest, range.baseline_min, range.analysis_min});
        highest = (std::max)({highest, range.baseline_max, range.analysis_max});
    }
    const auto at = [&](float value) {
        return SvgPlot::top +
               SvgPlot::height * (1.0 - detail::fraction(static_cast<double>(value), static_cast<double>(lowest),
                                                         static_cast<double>(highest)));
    };
    const double step = SvgPlot::width / static_cast<double>(std::max<std::size_t>(channels.size(), 1));
    for (std::size_t i = 0; i < channels.size(); ++i) {
        const ChannelRanges& range = channels[i];
        const double x = SvgPlot::left + step * static_cast<double>(i);
        plot.bar(x + 0.1 * step, at(range.baseline_max), 0.4 * step, at(range.baseline_min) - at(range.baseline_max),
                 detail::baseline_ink);
        plot.bar(x + 0.5 * step, at(range.analysis_max), 0.4 * step, at(range.analysis_min) - at(range.analysis_max),
                 detail::analysis_ink);
    }
    return plot.finish(static_cast<double>(lowest), static_cast<double>(highest));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_report)
#endif  // INTQ_ANALYSIS_INTERNAL_REPORT_SVG_PLOTS_HPP
