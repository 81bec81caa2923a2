// SPDX-License-Identifier: MIT
//
// ONNX Runtime on a network, in a child process: bench/peers/onnxruntime_network.py.
#ifndef INTQ_BENCH_PROGRAMS_ONNXRUNTIME_CHILD_HPP
#define INTQ_BENCH_PROGRAMS_ONNXRUNTIME_CHILD_HPP

#include <optional>
#include <string>

namespace intq_bench {

/// Name and version; or why it does not run here. INTQ_PYTHON names another interpreter than python3.
std::string describe_onnxruntime();

/// Median seconds of one image through a network that write_network() wrote.
///
/// @param types    of the activations: u8 or s8
/// @param seconds  how long to measure
/// @return none where ONNX Runtime is not installed
/// @throws Error where the script fails otherwise
std::optional<double> onnxruntime_seconds(const std::string& path, const std::string& types, double seconds);

}  // namespace intq_bench

#endif  // INTQ_BENCH_PROGRAMS_ONNXRUNTIME_CHILD_HPP
