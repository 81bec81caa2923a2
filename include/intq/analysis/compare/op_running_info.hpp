// SPDX-License-Identifier: MIT
//
// OpRunningInfoManager: the numbers of every operator of a run, as a table and as histograms. Layer: analysis
// (docs/workflow.md section 6).
#ifndef INTQ_ANALYSIS_COMPARE_OP_RUNNING_INFO_HPP
#define INTQ_ANALYSIS_COMPARE_OP_RUNNING_INFO_HPP

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "intq/analysis/compare/tensor_statistics.hpp"
#include "intq/analysis/compare/value_histogram.hpp"
#include "intq/analysis/models/analysed_model.hpp"
#include "intq/core/dtype.hpp"
#include "intq/core/shape.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// The numbers of one tensor of an operator, over all runs.
struct TensorInfo {
    std::string attr;              // "input", "input_0", "weight", "bias", "output"
    DType dtype = DType::float32;  // of the codes that its values represent
    std::vector<float> scales{};   // none for real values
    Shape shape{};                 // of the last run
    TensorStatistics statistics{};
    ValueHistogram histogram{};                  // where the manager keeps histograms
    std::vector<ValueHistogram> channels{};      // the same for each channel, where it keeps those
    std::size_t producer = OperatorInput::none;  // the operator whose output this input is, with its numbers
};

struct OpRunningInfo {
    AnalysedOperator op;
    std::vector<TensorInfo> tensors{};  // empty before the operator ran
};

/// Which numbers are kept besides the statistics.
struct KeptNumbers {
    bool histograms = true;
    bool channels = false;  // a histogram for each channel; for tensorboard() with force_per_channel
};

/// Memory   for each tensor a few numbers, and the filled buckets of its histogram; no values
class OpRunningInfoManager {
public:
    /// @param out_dir  the default folder of files
    explicit OpRunningInfoManager(const std::vector<AnalysedOperator>& operators, KeptNumbers kept = {},
                                  std::filesystem::path out_dir = {});

    void add(const AnalysedCall& call);
    const std::vector<OpRunningInfo>& infos() const noexcept { return infos_; }
    /// The numbers of a tensor; for an input, of the output that it is.
    const TensorInfo& numbers_of(const TensorInfo& info) const;
    /// Of all outputs of an operator.
    TensorStatistics output_statistics(std::size_t op) const;

    /// Writes `statistic.txt` and `statistic.csv`: Index, Op Name, Mod Name, Attr, Dtype, Scale, Min, Max, Mean, Var,
    /// Shape.
    ///
    /// @param out_dir     empty: the manager's own
    /// @param prefixes    modules whose qualified names start with one of them; empty: all
    /// @param types       types of operators; empty: all
    /// @param with_stack  adds a column Stack, which says what each operator reads
    /// @return the text of the first
    /// @throws Error for a prefix or a type that no operator has, with the nearest; before any run; and as
    ///         io::write_file()
    std::string table(const std::filesystem::path& out_dir = {}, const std::vector<std::string>& prefixes = {},
                      const std::vector<std::string>& types = {}, bool with_stack = false) const;

    /// Writes `tensorboard/events.out.tfevents.intq`, which TensorBoard shows: the histogram of each tensor as
    /// "<module>/<attr>", and minimum, maximum, mean and variance as "<module>/<attr>/min" and so on.
    ///
    /// @param out_dir, prefixes, types  as in table()
    /// @param force_per_channel  also the histogram of each channel, as "<module>/<attr>/channel_<number>"
    /// @throws Error as table(); where the manager keeps no histograms, or no channel histograms (KeptNumbers)
    void tensorboard(const std::filesystem::path& out_dir = {}, const std::vector<std::string>& prefixes = {},
                     const std::vector<std::string>& types = {}, bool force_per_channel = false) const;

private:
    void check_ran() const;
    std::vector<std::size_t> chosen(const std::vector<std::string>& prefixes,
                                    const std::vector<std::string>& types) const;
    TensorInfo& tensor_of(OpRunningInfo& info, const std::string& attr) const;
    void add(OpRunningInfo& info, const std::string& attr, const Tensor& tensor) const;

    std::vector<OpRunningInfo> infos_;
    KeptNumbers kept_;
    std::filesystem::path out_dir_;
};

namespace detail {

/// Throws the Error that names a word that no name equals or starts with, and the nearest names.
void check_filter(const char* what, const std::vector<std::string>& words, const std::vector<std::string>& names,
                  bool by_prefix);
/// Whether a list of prefixes covers a name: it is one of them, or below one.
bool has_prefix(const std::string& name, const std::vector<std::string>& prefixes);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_compare)

#    include <algorithm>
#    include <set>
#    include <utility>

#    include "intq/analysis/compare/file_table.hpp"
#    include "intq/analysis/internal/report/event_file.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/file.hpp"
#    include "intq/io/nearest_names.hpp"
#    include "intq/numeric_suite/loggers/layer_types.hpp"
#    include "intq/quantization/check/check_qat_model.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE bool has_prefix(const std::string& name, const std::vector<std::string>& prefixes) {
    return prefixes.empty() || std::any_of(prefixes.begin(), prefixes.end(),
                                           [&](const std::string& prefix) { return name.rfind(prefix, 0) == 0; });
}

INTQ_INLINE void check_filter(const char* what, const std::vector<std::string>& words,
                              const std::vector<std::string>& names, bool by_prefix) {
    for (const std::string& word : words) {
        const bool is_known = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
            return by_prefix ? name.rfind(word, 0) == 0
                             : numeric_suite::type_word(name) == numeric_suite::type_word(word);
        });
        if (is_known) continue;
        std::vector<std::string> candidates = names;
        for (const std::string& name : names)
            for (std::size_t dot = name.find('.'); by_prefix && dot != std::string::npos; dot = name.find('.', dot + 1))
                candidates.push_back(name.substr(0, dot));
        throw Error("no operator has the " + std::string(what) + " \"" + word + "\"; the nearest are " +
                    nearest_names(word, candidates));
    }
}

/// The elements of one channel of axis 1 (of axis 0 for weights), one channel after the other.
template <class Visit> void for_each_channel(const Tensor& tensor, int axis, const Visit& visit) {
    if (tensor.rank() <= axis) return;
    index_t inner = 1;
    for (int i = axis + 1; i < tensor.rank(); ++i) inner *= tensor.extent(i);
    const index_t channels = tensor.extent(axis),
                  outer = channels * inner == 0 ? 0 : tensor.size() / (channels * inner);
    const auto values = tensor.flat<float>();
    std::vector<float> one;
    for (index_t channel = 0; channel < channels; ++channel) {
        one.clear();
        for (index_t block = 0; block < outer; ++block) {
            const auto first = static_cast<std::size_t>((block * channels + channel) * inner);
            one.insert(one.end(), values.begin() + static_cast<std::ptrdiff_t>(first),
                       values.begin() + static_cast<std::ptrdiff_t>(first + static_cast<std::size_t>(inner)));
        }
        visit(static_cast<std::size_t>(channel), one);
    }
}

}  // namespace detail

INTQ_INLINE OpRunningInfoManager::OpRunningInfoManager(const std::vector<AnalysedOperator>& operators, KeptNumbers kept,
                                                       std::filesystem::path out_dir)
    : kept_(kept), out_dir_(std::move(out_dir)) {
    for (const AnalysedOperator& op : operators) infos_.push_back({op, {}});
}

INTQ_INLINE const TensorInfo& OpRunningInfoManager::numbers_of(const TensorInfo& info) const {
    if (info.producer == OperatorInput::none) return info;
    for (const TensorInfo& tensor : infos_.at(info.producer).tensors)
        if (tensor.attr == "output") return tensor;
    return info;
}

INTQ_INLINE TensorStatistics OpRunningInfoManager::output_statistics(std::size_t op) const {
    TensorStatistics all;
    for (const TensorInfo& tensor : infos_.at(op).tensors)
        if (tensor.attr.rfind("output", 0) == 0) all.merge(tensor.statistics);
    return all;
}

INTQ_INLINE TensorInfo& OpRunningInfoManager::tensor_of(OpRunningInfo& info, const std::string& attr) const {
    for (TensorInfo& tensor : info.tensors)
        if (tensor.attr == attr) return tensor;
    info.tensors.push_back({attr});
    return info.tensors.back();
}

INTQ_INLINE void OpRunningInfoManager::add(OpRunningInfo& info, const std::string& attr, const Tensor& tensor) const {
    TensorInfo& seen = tensor_of(info, attr);
    seen.dtype = tensor.qparams() ? tensor.qparams()->dtype : DType::float32;
    seen.scales = tensor.qparams() ? tensor.qparams()->scales : std::vector<float>();
    seen.shape = tensor.shape();
    const bool is_parameter = attr == "weight" || attr == "bias";
    // A parameter is the same in every run.
    if (is_parameter && seen.statistics.count() != 0) return;
    seen.statistics.add(tensor.flat<float>());
    if (kept_.histograms) seen.histogram.add(tensor.flat<float>());
    if (!kept_.channels) return;
    detail::for_each_channel(tensor, is_parameter ? 0 : 1, [&](std::size_t channel, const std::vector<float>& values) {
        seen.channels.resize((std::max)(seen.channels.size(), channel + 1));
        seen.channels[channel].add(values);
    });
}

INTQ_INLINE void OpRunningInfoManager::add(const AnalysedCall& call) {
    OpRunningInfo& info = infos_.at(call.index);
    const auto name_of_item = [](const char* name, std::size_t i, std::size_t count) {
        return count == 1 ? std::string(name) : name + ("_" + std::to_string(i));
    };
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        const OperatorInput& input = call.inputs[i];
        const std::string attr = name_of_item("input", i, call.inputs.size());
        const bool is_output =
            input.producer != OperatorInput::none &&
            std::any_of(infos_.at(input.producer).tensors.begin(), infos_.at(input.producer).tensors.end(),
                        [](const TensorInfo& tensor) { return tensor.attr == "output"; });
        if (is_output)
            tensor_of(info, attr).producer = input.producer;
        else
            add(info, attr, input.tensor);
    }
    for (const auto& parameter : call.parameters) add(info, parameter.name, parameter.value);
    for (std::size_t i = 0; i < call.outputs.size(); ++i)
        add(info, name_of_item("output", i, call.outputs.size()), call.outputs[i]);
}

INTQ_INLINE std::vector<std::size_t> OpRunningInfoManager::chosen(const std::vector<std::string>& prefixes,
                                                                  const std::vector<std::string>& types) const {
    std::vector<std::string> names, known_types;
    for (const OpRunningInfo& info : infos_) {
        names.push_back(info.op.mod_name);
        known_types.push_back(info.op.op_type);
    }
    detail::check_filter("prefix", prefixes, names, true);
    detail::check_filter("type", types, known_types, false);
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < infos_.size(); ++i) {
        const bool is_of_type =
            types.empty() || numeric_suite::holds_type({types.begin(), types.end()}, known_types[i]);
        if (is_of_type && detail::has_prefix(names[i], prefixes) && !infos_[i].tensors.empty()) result.push_back(i);
    }
    return result;
}

INTQ_INLINE void OpRunningInfoManager::check_ran() const {
    const auto ran = [](const OpRunningInfo& info) { return !info.tensors.empty(); };
    if (std::none_of(infos_.begin(), infos_.end(), ran))
        throw Error("OpRunningInfoManager: the model was not run; run the profiler on data first");
}

INTQ_INLINE std::string OpRunningInfoManager::table(const std::filesystem::path& out_dir,
                                                    const std::vector<std::string>& prefixes,
                                                    const std::vector<std::string>& types, bool with_stack) const {
    check_ran();
    using io::Align;
    std::vector<io::TextTable::Column> columns{{"Index"},
                                               {"Op Name"},
                                               {"Mod Name"},
                                               {"Attr"},
                                               {"Dtype"},
                                               {"Scale", Align::right},
                                               {"Min", Align::right},
                                               {"Max", Align::right},
                                               {"Mean", Align::right},
                                               {"Var", Align::right},
                                               {"Shape"}};
    if (with_stack) columns.push_back({"Stack"});
    FileTable rows(std::move(columns));
    for (const std::size_t i : chosen(prefixes, types))
        for (const TensorInfo& tensor : infos_[i].tensors) {
            const TensorInfo& seen = numbers_of(tensor);
            const TensorStatistics& s = seen.statistics;
            std::vector<TableCell> cells{std::to_string(i),
                                         infos_[i].op.op_type,
                                         infos_[i].op.mod_name,
                                         tensor.attr,
                                         quantization::quantized_name(seen.dtype),
                                         cell_of_scales(seen.scales),
                                         (s.min)(),
                                         (s.max)(),
                                         s.mean(),
                                         s.var(),
                                         to_string(seen.shape)};
            if (with_stack) cells.emplace_back(infos_[i].op.call);
            rows.add_row(std::move(cells));
        }
    const std::filesystem::path& folder = out_dir.empty() ? out_dir_ : out_dir;
    io::make_folder(folder);
    rows.write(folder, "statistic");
    return rows.text();
}

namespace detail {

INTQ_INLINE void add_histogram(EventFile& events, const std::string& tag, const ValueHistogram& histogram) {
    if (histogram.count() == 0) return;  // no finite value
    EventHistogram event{0.0, 0.0, histogram.sum(), histogram.sum_of_squares(), histogram.count(), {}};
    for (const ValueHistogram::Bucket& bucket : histogram.buckets())
        event.buckets.push_back({bucket.lowest, bucket.highest, bucket.count});
    event.min = event.buckets.front().lowest;
    event.max = event.buckets.back().highest;
    events.add_histogram(tag, 0, event);
}

INTQ_INLINE void add_statistics(EventFile& events, const std::string& tag, const TensorStatistics& numbers) {
    if (numbers.count() == 0) return;
    events.add_scalar(tag + "/min", 0, (numbers.min)());
    events.add_scalar(tag + "/max", 0, (numbers.max)());
    events.add_scalar(tag + "/mean", 0, numbers.mean());
    if (numbers.count() > 1) events.add_scalar(tag + "/var", 0, numbers.var());
}

}  // namespace detail

INTQ_INLINE void OpRunningInfoManager::tensorboard(const std::filesystem::path& out_dir,
                                                   const std::vector<std::string>& prefixes,
                                                   const std::vector<std::string>& types,
                                                   bool force_per_channel) const {
    check_ran();
    if (!kept_.histograms) throw Error("tensorboard: no histograms were kept; set KeptNumbers::histograms");
    if (force_per_channel && !kept_.channels)
        throw Error("tensorboard: no histograms of channels were kept; set KeptNumbers::channels");
    EventFile events;
    for (const std::size_t i : chosen(prefixes, types))
        for (const TensorInfo& tensor : infos_[i].tensors) {
            const TensorInfo& seen = numbers_of(tensor);
            const std::string tag = infos_[i].op.mod_name + "/" + tensor.attr;
            detail::add_statistics(events, tag, seen.statistics);
            detail::add_histogram(events, tag, seen.histogram);
            for (std::size_t c = 0; force_per_channel && c < seen.channels.size(); ++c)
                detail::add_histogram(events, tag + "/channel_" + std::to_string(c), seen.channels[c]);
        }
    const std::filesystem::path folder = (out_dir.empty() ? out_dir_ : out_dir) / "tensorboard";
    io::make_folder(folder);
    io::write_file(folder / "events.out.tfevents.intq", events.bytes());
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_compare)
#endif  // INTQ_ANALYSIS_COMPARE_OP_RUNNING_INFO_HPP
