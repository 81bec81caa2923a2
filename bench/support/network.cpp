// SPDX-License-Identifier: MIT
#include "network.hpp"

#include <fmt/format.h>

#include <fstream>

#include "intq/io/error.hpp"

namespace intq_bench {

namespace {

bool has_weights(const NetworkStep& step) {
    return step.shape.op == intq::OpKind::conv2d || step.shape.op == intq::OpKind::linear;
}

std::string line_of(const NetworkStep& step) {
    const LayerShape& s = step.shape;
    const intq::Window2d& w = s.window;
    return fmt::format("{} {} {} {} {} {} {} {} {} {}x{} {}x{} {},{},{},{} {} {}\n", name_of(s.op), step.name,
                       step.input, step.sumin, step.output, s.channels, s.in.height, s.in.width, s.outputs,
                       w.kernel.height, w.kernel.width, w.stride.height, w.stride.width, w.padding.top, w.padding.left,
                       w.padding.bottom, w.padding.right, s.groups, name_of(step.activation));
}

}  // namespace

double Network::operations() const {
    double sum = 0.0;
    for (const NetworkStep& step : steps)
        if (has_weights(step)) sum += step.shape.operations();
    return sum;
}

void write_network(const Network& network, const std::string& path) {
    std::ofstream file(path);
    for (const NetworkStep& step : network.steps) file << line_of(step);
    file.close();
    if (!file) throw intq::Error(path, "cannot write the network");
}

}  // namespace intq_bench
