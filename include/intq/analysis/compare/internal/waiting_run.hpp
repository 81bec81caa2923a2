// SPDX-License-Identifier: MIT
//
// WaitingRun: a run of one of two models, whose outputs wait for the other's. Layer: analysis
// (docs/workflow.md section 6).
#ifndef INTQ_ANALYSIS_COMPARE_INTERNAL_WAITING_RUN_HPP
#define INTQ_ANALYSIS_COMPARE_INTERNAL_WAITING_RUN_HPP

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "intq/analysis/models/analysed_model.hpp"
#include "intq/analysis/models/call_inputs.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Memory   one run; the outputs of an operator are kept only until all announced readers have released them, and
///          unannounced ones not at all
class WaitingRun {
public:
    /// @param visit  sees each call of the model
    WaitingRun(const AnalysedModel& model, const CallInputs& inputs,
               std::function<void(const AnalysedCall& call)> visit = {})
        : run_(model.run(inputs.in_order(model.input_names()))),
          visit_(std::move(visit)),
          uses_(model.operators().size()) {}

    /// Announces, before the run, a reader of an operator's outputs, who will release them.
    void expect(std::size_t index) { ++uses_.at(index); }

    /// Runs one operator; false at the end.
    bool step() {
        AnalysedCall call;
        if (!run_->next(call)) return false;
        if (visit_) visit_(call);
        last_ = call.index;
        if (uses_.at(call.index) != 0) waiting_[call.index] = std::move(call.outputs);
        return true;
    }
    std::size_t last() const noexcept { return last_; }
    /// Runs on until the outputs exist. Null if the operator does not run.
    const std::vector<Tensor>* outputs_of(std::size_t index) {
        while (waiting_.count(index) == 0 && step()) {
        }
        const auto found = waiting_.find(index);
        return found == waiting_.end() ? nullptr : &found->second;
    }
    void release(std::size_t index) {
        if (--uses_.at(index) == 0) waiting_.erase(index);
    }
    nn::Value output() { return run_->output(); }

private:
    std::unique_ptr<ModelRun> run_;
    std::function<void(const AnalysedCall& call)> visit_;
    std::vector<std::size_t> uses_;  // by operator: the readers that have not released it
    std::map<std::size_t, std::vector<Tensor>> waiting_;
    std::size_t last_ = 0;
};

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_ANALYSIS_COMPARE_INTERNAL_WAITING_RUN_HPP
