// SPDX-License-Identifier: MIT
//
// Loggers of the eager numeric suite: modules that keep the values they see. Layer: numeric_suite
// (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_EAGER_LOGGER_HPP
#define INTQ_NUMERIC_SUITE_EAGER_LOGGER_HPP

#include <functional>
#include <memory>
#include <string>

#include "intq/nn/model/module.hpp"
#include "intq/numeric_suite/loggers/results.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

/// Base class of custom loggers, as nn::Cloneable<Own, Logger>: forward keeps what it wants in stats(), and returns the
/// value that the model continues with.
///
///     struct Largest : nn::Cloneable<Largest, numeric_suite::Logger> {
///         nn::Value forward(nn::Arguments x) override {
///             stats()["tensor_val"].push_back(largest_of(x.tensor(0)));
///             return x[0];
///         }
///     };
///
/// A call changes the object: each thread needs a clone.
class Logger : public nn::Module {
public:
    /// Lists of values by name; "tensor_val" for activations, "float" and "quantized" for shadows.
    using Stats = Ordered<ValueList>;

    INTQ_INLINE std::string type_name() const override;
    bool is_leaf() const override { return true; }
    const Stats& stats() const noexcept { return stats_; }
    Stats& stats() noexcept { return stats_; }

private:
    Stats stats_;
};

/// Keeps the output of each call of a module unchanged: tuples and codes too. Its list is "tensor_val".
class OutputLogger : public nn::Cloneable<OutputLogger, Logger> {
public:
    INTQ_INLINE std::string type_name() const override;
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
};

/// The part of a value that a ShadowLogger keeps.
enum class ShadowRule {
    whole,  // a tensor; of a tuple its first item, which is an LSTM's output
    torch   // as PyTorch: of a tensor of two or more samples only the first
};

/// Keeps the outputs of a quantized module and the float module beside it: forward(quantized, float). Its lists are
/// "quantized" and "float".
class ShadowLogger : public nn::Cloneable<ShadowLogger, Logger> {
public:
    explicit ShadowLogger(ShadowRule rule = ShadowRule::whole) : rule_(rule) {}
    INTQ_INLINE std::string type_name() const override;
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;

private:
    ShadowRule rule_;
};

/// Makes a logger for a module: PyTorch's logger_cls.
using LoggerFactory = std::function<std::shared_ptr<Logger>()>;

template <class LoggerType> LoggerFactory logger_factory() {
    return [] { return std::make_shared<LoggerType>(); };
}

/// The values kept by the loggers of a model, under the path of each logger's module with ".stats" appended.
using LoggerDict = Ordered<Logger::Stats>;

/// The stats of all loggers below a module. Only the first logger in a module counts.
///
/// @param prefix  the path of the module itself; a logger in it has the key "stats", or "<prefix>.stats"
LoggerDict get_logger_dict(nn::Module& module, const std::string& prefix = "");

namespace detail {

/// The first logger among the children of a module; null if there is none.
Logger* logger_in(const nn::Module& module);

/// Calls logger_cls. Throws if it is empty or makes nothing.
std::shared_ptr<Logger> made_logger(const LoggerFactory& logger_cls);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_eager)

#    include <optional>

#    include "intq/io/error.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string Logger::type_name() const { return "Logger"; }
INTQ_INLINE std::string OutputLogger::type_name() const { return "OutputLogger"; }
INTQ_INLINE std::string ShadowLogger::type_name() const { return "ShadowLogger"; }

INTQ_INLINE nn::Value OutputLogger::forward(nn::Arguments arguments) {
    stats()["tensor_val"].push_back(kept(arguments[0]));
    return arguments[0];
}

namespace detail {

INTQ_INLINE Logger* logger_in(const nn::Module& module) {
    for (const auto& child : module.children())
        if (auto* logger = dynamic_cast<Logger*>(child.value.get())) return logger;
    return nullptr;
}

INTQ_INLINE std::shared_ptr<Logger> made_logger(const LoggerFactory& logger_cls) {
    std::shared_ptr<Logger> logger = logger_cls ? logger_cls() : nullptr;
    if (logger == nullptr) throw Error("logger_cls makes no logger; give it a factory, as logger_factory<MyLogger>()");
    return logger;
}

INTQ_INLINE nn::Value shadowed(const nn::Value& value, ShadowRule rule) {
    if (value.is_tuple() && !value.tuple().empty()) return kept(value.tuple()[0]);
    if (rule == ShadowRule::whole || !value.is_tensor()) return kept(value);
    const Tensor& tensor = value.tensor();
    if (tensor.rank() == 0 || tensor.extent(0) < 2) return kept(value);
    Tensor first = tensor.batch(0, 1).contiguous();
    Shape shape;
    for (int axis = 1; axis < tensor.rank(); ++axis)
        shape.extents[static_cast<std::size_t>(shape.rank++)] = tensor.extent(axis);
    const std::optional<OwnedQParams> qparams = tensor.qparams();
    Tensor result = first.reshape(shape);
    result.set_qparams(qparams);
    return result;
}

INTQ_INLINE void collect_loggers(nn::Module& module, const std::string& path, LoggerDict& out) {
    if (const Logger* logger = logger_in(module)) out[nn::join_path(path, "stats")] = logger->stats();
    for (const auto& child : module.children()) {
        if (dynamic_cast<const Logger*>(child.value.get()) != nullptr) continue;
        collect_loggers(*child.value, nn::join_path(path, child.name), out);
    }
}

}  // namespace detail

INTQ_INLINE nn::Value ShadowLogger::forward(nn::Arguments arguments) {
    stats()["float"].push_back(detail::shadowed(arguments[1], rule_));
    stats()["quantized"].push_back(detail::shadowed(arguments[0], rule_));
    return arguments[0];
}

INTQ_INLINE LoggerDict get_logger_dict(nn::Module& module, const std::string& prefix) {
    LoggerDict result;
    detail::collect_loggers(module, prefix, result);
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

#endif  // INTQ_DEFINES(numeric_suite_eager)
#endif  // INTQ_NUMERIC_SUITE_EAGER_LOGGER_HPP
