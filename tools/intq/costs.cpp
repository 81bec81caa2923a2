// SPDX-License-Identifier: MIT
//
// What each layer costs in int8 and in int16: what the sensitivity says that it loses, and its time on this machine.
#include "costs.hpp"

#include <algorithm>
#include <chrono>
#include <map>

namespace intq_tool {

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;

namespace {

/// Runs of each program; the median of them counts.
constexpr std::size_t rounds = 51;

/// A program, and how long its layers took in each run.
class TimedProgram {
public:
    TimedProgram(const graph::GraphModule& model, const Tensor& samples, QuantizeOptions options,
                 const std::string& dtype) {
        options.set_uniform(dtype);
        lowered_ =
            std::make_unique<LoweredModel>(lower(convert_fx(*prepare(model, {samples}, options)), options.table()));
    }

    void run(const Tensor& sample) {
        for (auto& [layer, times] : seconds_) times.push_back(0.0);
        last_ = Clock::now();
        lowered_->run(std::span(&sample, 1), serial, {&after_instruction, this});
    }

    double median(const std::string& layer) {
        const auto found = seconds_.find(layer);
        if (found == seconds_.end()) return 0.0;  // it is part of another layer's instruction
        std::vector<double>& times = found->second;
        const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
        std::nth_element(times.begin(), middle, times.end());
        return *middle;
    }

private:
    using Clock = std::chrono::steady_clock;

    static void after_instruction(void* context, const runtime::Program& program, index_t index, const void*, index_t) {
        auto& timed = *static_cast<TimedProgram*>(context);
        const Clock::time_point now = Clock::now();
        std::vector<double>& times = timed.seconds_[program.instructions[static_cast<std::size_t>(index)].name];
        if (times.empty()) times.push_back(0.0);
        times.back() += std::chrono::duration<double>(now - timed.last_).count();
        timed.last_ = Clock::now();
    }

    std::unique_ptr<LoweredModel> lowered_;
    std::map<std::string, std::vector<double>> seconds_;
    Clock::time_point last_;
};

}  // namespace

std::vector<improve::LayerCosts> measure_costs(const graph::GraphModule& model, const Tensor& samples,
                                               const QuantizeOptions& options,
                                               std::span<const SensitiveOperator> sensitivity) {
    TimedProgram int8(model, samples, options, "int8"), int16(model, samples, options, "int16");
    const Tensor sample = samples.batch(0, 1);
    for (std::size_t round = 0; round < rounds; ++round)
        for (TimedProgram* program : {&int8, &int16}) program->run(sample);
    std::vector<improve::LayerTimes> times;
    for (const SensitiveOperator& op : sensitivity) {
        const auto is_it = [&](const improve::LayerTimes& layer) { return layer.layer == op.op_name; };
        if (std::none_of(times.begin(), times.end(), is_it))
            times.push_back({op.op_name, int8.median(op.op_name), int16.median(op.op_name)});
    }
    return improve::layer_costs(sensitivity, times);
}

}  // namespace intq_tool
