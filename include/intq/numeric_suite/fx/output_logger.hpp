// SPDX-License-Identifier: MIT
//
// Loggers of the FX numeric suite: nodes of a graph that keep the values that pass. Layer: numeric_suite
// (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_FX_OUTPUT_LOGGER_HPP
#define INTQ_NUMERIC_SUITE_FX_OUTPUT_LOGGER_HPP

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "intq/nn/model/module.hpp"
#include "intq/numeric_suite/loggers/results.hpp"
#include "intq/numeric_suite/loggers/value_metrics.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

/// A logger's description of its place: PyTorch's eleven fields.
struct OutputLoggerFields {
    std::string ref_node_name{};          // the node that the logger was added for
    std::string prev_node_name{};         // the node whose output it logs
    std::string model_name{};             // of the two models that are compared
    std::string ref_name{};               // of the layer: the same in both models
    std::string prev_node_target_type{};  // type of the operator of prev_node_name
    std::string ref_node_target_type{};   // of ref_node_name; of a subgraph, of its base operator
    std::string results_type{};           // "node_output" or "node_input"
    int index_within_arg = 0;             // of an input: position inside a list
    int index_of_arg = 0;                 // of an input: position among the arguments
    std::optional<std::string> fqn{};     // qualified name of the module; none if unknown
    std::string qconfig_str{};            // of an n-shadow: the qconfig that it was made with
};

/// Keeps the values that pass. Derive from it, as nn::Cloneable<Own, OutputLogger>, for a logger of your own.
///
/// A call changes the object: each thread needs a clone of the model.
class OutputLogger : public nn::Cloneable<OutputLogger> {
public:
    explicit OutputLogger(OutputLoggerFields fields);

    INTQ_INLINE std::string type_name() const override;
    bool is_leaf() const override { return true; }
    /// A tensor goes to stats; (output, (h, c)) of an LSTM to stats_rnn. The value passes.
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;

    const OutputLoggerFields& fields() const noexcept { return fields_; }
    const ValueList& stats() const noexcept { return stats_; }
    const ValueList& stats_rnn() const noexcept { return stats_rnn_; }
    /// One metric for each run, for a comparing logger; else empty.
    const ValueList& comparisons() const noexcept { return comparisons_; }
    virtual INTQ_INLINE std::string comparison_fn_name() const;

    bool enabled = true;           // false: a call does nothing
    bool save_activations = true;  // false: values pass without being kept

protected:
    void save(const nn::Value& value);
    void add_comparison(nn::Value result) { comparisons_.push_back(std::move(result)); }

private:
    OutputLoggerFields fields_;
    ValueList stats_, stats_rnn_, comparisons_;
};

/// Keeps a value, and how far it is from a reference: forward(x, x_ref). The metric is SQNR.
///
/// As in PyTorch, the value is the signal, and it is compared with the reference: for x = (1, 2) and x_ref = (3, 4)
/// this says -2.04 dB, where extend_logger_results_with_comparison() would say 4.95 dB. With save_activations off the
/// metrics are still kept.
class OutputComparisonLogger : public nn::Cloneable<OutputComparisonLogger, OutputLogger> {
public:
    explicit OutputComparisonLogger(OutputLoggerFields fields);
    INTQ_INLINE std::string type_name() const override;
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    INTQ_INLINE std::string comparison_fn_name() const override;
};

/// Makes a logger for a place: PyTorch's logger_cls.
using OutputLoggerFactory = std::function<std::shared_ptr<OutputLogger>(const OutputLoggerFields&)>;

template <class LoggerType = OutputLogger> OutputLoggerFactory output_logger_factory() {
    return [](const OutputLoggerFields& fields) { return std::make_shared<LoggerType>(fields); };
}

/// Each function sets a switch in all loggers of a model.
void loggers_set_enabled(nn::Module& model, bool enabled);
void loggers_set_save_activations(nn::Module& model, bool save_activations);

/// The metrics of the suite as functions of two values; see compare_values().
nn::Value compute_sqnr(const nn::Value& x, const nn::Value& y);
nn::Value compute_normalized_l2_error(const nn::Value& x, const nn::Value& y);
nn::Value compute_cosine_similarity(const nn::Value& x, const nn::Value& y);

namespace detail {

/// Calls logger_cls for a place. Throws if it is empty or makes nothing.
std::shared_ptr<OutputLogger> made_logger(const OutputLoggerFactory& logger_cls, const OutputLoggerFields& fields);

/// The loggers of a model, each once, in the order of its slots.
std::vector<OutputLogger*> loggers_of(nn::Module& model);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_fx)

#    include "intq/io/error.hpp"
#    include "intq/numeric_suite/metrics/metrics.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE OutputLogger::OutputLogger(OutputLoggerFields fields) : fields_(std::move(fields)) {}
INTQ_INLINE std::string OutputLogger::type_name() const { return "OutputLogger"; }
INTQ_INLINE std::string OutputLogger::comparison_fn_name() const { return ""; }

INTQ_INLINE void OutputLogger::save(const nn::Value& value) {
    if (!save_activations) return;
    if (value.is_tensor()) stats_.push_back(kept(value));
    if (value.is_tuple() && value.tuple().size() == 2 && value.tuple()[1].is_tuple()) stats_rnn_.push_back(kept(value));
}

INTQ_INLINE nn::Value OutputLogger::forward(nn::Arguments arguments) {
    if (enabled) save(arguments[0]);
    return arguments[0];
}

INTQ_INLINE OutputComparisonLogger::OutputComparisonLogger(OutputLoggerFields fields)
    : Cloneable(OutputLogger(std::move(fields))) {}
INTQ_INLINE std::string OutputComparisonLogger::type_name() const { return "OutputComparisonLogger"; }
INTQ_INLINE std::string OutputComparisonLogger::comparison_fn_name() const { return "sqnr"; }

INTQ_INLINE nn::Value OutputComparisonLogger::forward(nn::Arguments arguments) {
    if (!enabled) return arguments[0];
    save(arguments[0]);
    add_comparison(fx::compute_sqnr(arguments[0], arguments[1]));
    return arguments[0];
}

namespace detail {

INTQ_INLINE std::shared_ptr<OutputLogger> made_logger(const OutputLoggerFactory& logger_cls,
                                                      const OutputLoggerFields& fields) {
    std::shared_ptr<OutputLogger> logger = logger_cls ? logger_cls(fields) : nullptr;
    if (logger == nullptr)
        throw Error("logger_cls makes no logger; give it a factory, as output_logger_factory<MyLogger>()");
    return logger;
}

INTQ_INLINE std::vector<OutputLogger*> loggers_of(nn::Module& model) {
    std::vector<OutputLogger*> loggers;
    for (const auto& module : model.named_modules())
        if (auto* logger = dynamic_cast<OutputLogger*>(module.value)) loggers.push_back(logger);
    return loggers;
}

}  // namespace detail

INTQ_INLINE void loggers_set_enabled(nn::Module& model, bool enabled) {
    for (OutputLogger* logger : detail::loggers_of(model)) logger->enabled = enabled;
}

INTQ_INLINE void loggers_set_save_activations(nn::Module& model, bool save_activations) {
    for (OutputLogger* logger : detail::loggers_of(model)) logger->save_activations = save_activations;
}

INTQ_INLINE nn::Value compute_sqnr(const nn::Value& x, const nn::Value& y) {
    return compare_values(&numeric_suite::compute_sqnr, x, y);
}
INTQ_INLINE nn::Value compute_normalized_l2_error(const nn::Value& x, const nn::Value& y) {
    return compare_values(&numeric_suite::compute_normalized_l2_error, x, y);
}
INTQ_INLINE nn::Value compute_cosine_similarity(const nn::Value& x, const nn::Value& y) {
    return compare_values(&numeric_suite::compute_cosine_similarity, x, y);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

#endif  // INTQ_DEFINES(numeric_suite_fx)
#endif  // INTQ_NUMERIC_SUITE_FX_OUTPUT_LOGGER_HPP
