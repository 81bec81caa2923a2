// SPDX-License-Identifier: MIT
//
// Writes the report of 200 layers into a folder, as a page for the browser's test, and numbers for TensorBoard. It
// fails where the page is not below 2 MB, or takes a second.
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "analysis/report/large_report.hpp"
#include "intq/analysis/internal/report/event_file.hpp"
#include "intq/io/file.hpp"

int main(int count, char** arguments) try {
    if (count != 2) {
        std::fprintf(stderr, "usage: make_page <folder>\n");
        return 2;
    }
    const std::filesystem::path folder = arguments[1];
    const intq::analysis::ModelReport report = intq::test::large_report(200);
    const auto start = std::chrono::steady_clock::now();
    intq::analysis::write_report(folder, report);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto bytes = std::filesystem::file_size(folder / "profiler.html");
    std::printf("profiler.html of 200 layers: %llu bytes, written in %.3f s\n", static_cast<unsigned long long>(bytes),
                seconds);
    intq::analysis::EventFile events;
    for (int step = 0; step < 3; ++step) events.add_scalar("net/loss", step, 1.0 / (1 << step));
    events.add_histogram("net/weight", 2, {-2.0, 4.0, 5.0, 21.0, 6, {{-2.0, -1.0, 2}, {1.0, 2.0, 3}, {2.0, 4.0, 1}}});
    intq::io::write_file(folder / "events.out.tfevents.intq", events.bytes());
    return bytes < 2'000'000 && seconds < 1.0 ? 0 : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
