// SPDX-License-Identifier: MIT
//
// A module of WebAssembly that times layers and loops over codes on the backend of its flags, for times.mjs. It reads
// no file: the caller gives it the numbers of a layer.
#include <wasi/api.h>

#include <algorithm>
#include <vector>

#include "layer_cases.hpp"

namespace {

using Backend = intq::simd::default_backend;

/// Seconds that the process has computed, so that other programs do not count.
double now() {
    __wasi_timestamp_t nanoseconds = 0;
    static_cast<void>(__wasi_clock_time_get(__WASI_CLOCKID_PROCESS_CPUTIME_ID, 1, &nanoseconds));
    return 1e-9 * static_cast<double>(nanoseconds);
}

/// Seconds of a call: the median of samples that take about 50 ms, at least three. A sample is as many calls as take a
/// millisecond, because asking for the time takes a microsecond.
template <class Run> double seconds_of(Run&& run) {
    const auto sample = [&](int calls) {
        const double start = now();
        for (int i = 0; i < calls; ++i) run();
        return (now() - start) / calls;
    };
    sample(1);
    const int calls = static_cast<int>(std::min(1e4, 1e-3 / std::max(sample(3), 1e-7))) + 1;
    std::vector<double> seconds;
    for (const double end = now() + 0.05; now() < end || seconds.size() < 3;) seconds.push_back(sample(calls));
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
    return seconds[seconds.size() / 2];
}

}  // namespace

extern "C" {

/// The name of the backend.
[[clang::export_name("backend")]] const char* backend() { return Backend::name; }

/// Seconds that a convolution takes, square windows with one padding at all sides.
[[clang::export_name("time_layer")]] double time_layer(int batch, int channels, int height, int width, int outputs,
                                                       int kernel, int stride, int padding, int groups) {
    intq_bench::LayerShape shape;
    shape.batch = batch, shape.channels = channels, shape.outputs = outputs, shape.groups = groups;
    shape.in = {height, width};
    shape.window.kernel = {kernel, kernel};
    shape.window.stride = {stride, stride};
    shape.window.padding = {padding, padding, padding, padding};
    double seconds = 0;
    intq_bench::visit_layer<Backend>(shape, [&](const char*, double, auto&& run) { seconds = seconds_of(run); });
    return seconds;
}

/// The name of the loop of that number; null behind the last.
[[clang::export_name("loop_name")]] const char* loop_name(int number) {
    const char* found = nullptr;
    intq_bench::visit_loops<Backend>([&](const char* name, double, auto&&) {
        if (number-- == 0) found = name;
    });
    return found;
}

/// Nanoseconds that the loop takes for a code.
[[clang::export_name("time_loop")]] double time_loop(int number) {
    double nanoseconds = 0;
    intq_bench::visit_loops<Backend>([&](const char*, double codes, auto&& run) {
        if (number-- == 0) nanoseconds = 1e9 * seconds_of(run) / codes;
    });
    return nanoseconds;
}

}  // extern "C"
