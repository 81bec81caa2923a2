// SPDX-License-Identifier: MIT
//
// The calls of a run in a folder, one file per operator, and a model that plays them back. Layer: analysis.
#ifndef INTQ_ANALYSIS_MODELS_SAVED_ACTIVATIONS_HPP
#define INTQ_ANALYSIS_MODELS_SAVED_ACTIVATIONS_HPP

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "intq/analysis/models/analysed_model.hpp"
#include "intq/nn/model/value.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// Removes the files of a former run from `folder/op_infos`.
void remove_activations(const std::filesystem::path& folder);

/// Writes each call of a run into `folder/op_infos`: `<number>.safetensors` in the order of the run, with the
/// operator's names, its inputs (except other operators' outputs), parameters and outputs, the number of operators and
/// the inputs of the run. A file appears complete or not at all.
class ActivationWriter {
public:
    /// Removes the files of a former run.
    ///
    /// @param inputs  the model's inputs
    ActivationWriter(const std::vector<AnalysedOperator>& operators, std::filesystem::path folder,
                     const std::vector<nn::Value>& inputs);

    void add(const AnalysedCall& call);

private:
    const std::vector<AnalysedOperator>& operators_;
    std::filesystem::path folder_;
    std::string case_;
};

/// The model whose activations are in a folder. Its runs read one file after the other, whatever their inputs, and
/// return nothing.
///
/// @throws Error naming the folder if it has no such files or the run did not finish, and any foreign file
AnalysedModel saved_model(const std::filesystem::path& folder);

/// @throws Error where the two folders hold runs on other inputs
void check_same_case(const std::filesystem::path& one, const std::filesystem::path& other);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_models)

#    include <algorithm>
#    include <charconv>
#    include <cstdint>
#    include <span>
#    include <system_error>
#    include <utility>

#    include "intq/analysis/models/call_inputs.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/file.hpp"
#    include "intq/io/safetensors.hpp"
#    include "intq/tensor/npy.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

inline constexpr const char* activation_format = "intq activations 2";

INTQ_INLINE std::string file_number(std::size_t index) {
    const std::string digits = std::to_string(index);
    return std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
}

/// A tensor with its grid: "<name>", "<name>.scales", "<name>.zero_points", and the rest as text.
INTQ_INLINE void save_tensor(const std::string& name, const Tensor& tensor, io::Safetensors& content) {
    content.arrays.push_back({name, to_array(tensor)});
    if (!tensor.qparams()) return;
    const OwnedQParams& grid = *tensor.qparams();
    const auto add = [&](const char* what, const auto& values) {
        using Element = typename std::decay_t<decltype(values)>::value_type;
        content.arrays.push_back(
            {name + what, to_array(Tensor::from<Element>(Shape(static_cast<index_t>(values.size())), values))});
    };
    add(".scales", grid.scales);
    if (!grid.zero_points.empty()) add(".zero_points", grid.zero_points);
    content.metadata[name + ".grid"] = std::string(name_of(grid.dtype)) + " " + std::to_string(grid.axis) + " " +
                                       std::to_string(grid.quant_min) + " " + std::to_string(grid.quant_max);
}

INTQ_INLINE std::int64_t whole_number(const std::string& text, const std::string& where) {
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || stop != text.data() + text.size()) throw Error(where, "\"" + text + "\" is no number");
    return value;
}

INTQ_INLINE Tensor load_tensor(const std::string& name, const io::Safetensors& content, const std::string& where) {
    Tensor tensor = to_tensor(content.at(name), where);
    const auto grid = content.metadata.find(name + ".grid");
    if (grid == content.metadata.end()) return tensor;
    const std::vector<std::string> words = io::words_of(grid->second);
    OwnedQParams qparams;
    for (const DType dtype : {DType::int8, DType::int16, DType::int32, DType::uint8})
        if (!words.empty() && words[0] == name_of(dtype)) qparams.dtype = dtype;
    if (words.size() != 4) throw Error(where, "the grid of " + name + " is not one");
    qparams.axis = static_cast<int>(whole_number(words[1], where));
    qparams.quant_min = whole_number(words[2], where);
    qparams.quant_max = whole_number(words[3], where);
    const auto scales = content.at(name + ".scales").as<float>();
    qparams.scales.assign(scales.begin(), scales.end());
    for (const io::NamedArray& array : content.arrays)
        if (array.name == name + ".zero_points") {
            const auto zero_points = array.array.as<std::int32_t>();
            qparams.zero_points.assign(zero_points.begin(), zero_points.end());
        }
    tensor.set_qparams(std::move(qparams));
    return tensor;
}

INTQ_INLINE std::string text_of(const std::vector<std::size_t>& numbers) {
    std::string text;
    for (const std::size_t number : numbers)
        text += (text.empty() ? "" : " ") + (number == OperatorInput::none ? std::string("-") : std::to_string(number));
    return text;
}

/// Fields between line breaks; names contain none.
INTQ_INLINE std::string text_of(const std::vector<nn::FusedMember>& members) {
    std::string text;
    for (const nn::FusedMember& member : members)
        text += member.module + "\n" + member.type + "\n" + member.scope_type + "\n" + member.node + "\n";
    return text;
}

INTQ_INLINE std::vector<nn::FusedMember> members_of(const std::string& text) {
    std::vector<std::string> fields;
    for (std::size_t start = 0, end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
        fields.push_back(text.substr(start, end - start));
    std::vector<nn::FusedMember> members;
    for (std::size_t i = 0; i + 3 < fields.size(); i += 4)
        members.push_back({fields[i], fields[i + 1], fields[i + 2], fields[i + 3]});
    return members;
}

/// Every file names its operator, and the files are numbered like the operators.
class SavedSource : public ModelSource {
public:
    explicit SavedSource(const std::filesystem::path& folder);

    INTQ_INLINE std::unique_ptr<ModelRun> run(std::vector<nn::Value> inputs) override;
    INTQ_INLINE std::vector<std::string> input_names() const override { return {}; }
    const std::vector<std::filesystem::path>& files() const noexcept { return files_; }
    const std::string& case_of_run() const noexcept { return case_; }

private:
    std::vector<std::filesystem::path> files_;
    std::string case_;
};

class SavedRun : public ModelRun {
public:
    explicit SavedRun(const SavedSource& source) : source_(source) {}

    bool next(AnalysedCall& call) override {
        call = AnalysedCall();
        if (next_ == source_.files().size()) return false;
        const std::filesystem::path& file = source_.files()[next_];
        const io::Safetensors content = io::read_safetensors(file);
        call.index = next_++;
        const auto has = [&](const std::string& name) {
            return std::any_of(content.arrays.begin(), content.arrays.end(),
                               [&](const io::NamedArray& array) { return array.name == name; });
        };
        const std::vector<std::size_t>& inputs = source_.operators()[call.index].inputs;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            const std::string name = "input_" + std::to_string(i);
            if (has(name))
                call.inputs.push_back({load_tensor(name, content, file.string()), OperatorInput::none});
            else if (inputs[i] != OperatorInput::none)
                call.inputs.push_back({Tensor(), inputs[i]});
        }
        for (const char* name : {"weight", "bias"})
            if (has(name)) call.parameters.push_back({name, load_tensor(name, content, file.string())});
        for (std::size_t i = 0; has("output_" + std::to_string(i)); ++i)
            call.outputs.push_back(load_tensor("output_" + std::to_string(i), content, file.string()));
        return true;
    }
    nn::Value output() override { return {}; }

private:
    const SavedSource& source_;
    std::size_t next_ = 0;
};

INTQ_INLINE SavedSource::SavedSource(const std::filesystem::path& folder) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "op_infos", error))
        if (entry.path().extension() == ".safetensors") files_.push_back(entry.path());
    if (files_.empty())
        throw Error(folder.string(),
                    "no activations were saved here; run a ModelProfiler or QuantAnalysis::run() with "
                    "save_activations");
    std::sort(files_.begin(), files_.end());
    std::string count;
    for (const std::filesystem::path& file : files_) {
        if (file.stem().string() != detail::file_number(operators_.size()))
            throw Error(file.string(), "an operator's file before this one is missing");
        const io::Safetensors content = io::read_safetensors(file);
        const auto field = [&](const char* name) {
            const auto found = content.metadata.find(name);
            if (found == content.metadata.end()) throw Error(file.string(), "this is no file of saved activations");
            return found->second;
        };
        if (field("format") != activation_format) throw Error(file.string(), "this is no file of saved activations");
        count = field("operators");
        case_ = field("case");
        AnalysedOperator op{field("mod_name"), field("op_type"), field("node"), field("call"),
                            members_of(field("members"))};
        op.has_weight = field("has_weight") == "yes";
        for (const std::string& word : io::words_of(field("inputs")))
            op.inputs.push_back(word == "-" ? OperatorInput::none
                                            : static_cast<std::size_t>(whole_number(word, file.string())));
        operators_.push_back(std::move(op));
    }
    if (count != std::to_string(files_.size()))
        throw Error(folder.string(), "it holds the activations of " + std::to_string(files_.size()) + " of " + count +
                                         " operators; the run did not come to its end");
    for (const AnalysedOperator& op : operators_)
        for (const std::size_t input : op.inputs)
            if (input != OperatorInput::none && input >= operators_.size())
                throw Error(folder.string(), "files of saved activations are missing");
}

INTQ_INLINE std::unique_ptr<ModelRun> SavedSource::run(std::vector<nn::Value>) {
    return std::make_unique<SavedRun>(*this);
}

}  // namespace detail

INTQ_INLINE void remove_activations(const std::filesystem::path& folder) {
    std::error_code ignored;
    std::filesystem::remove_all(folder / "op_infos", ignored);
}

INTQ_INLINE ActivationWriter::ActivationWriter(const std::vector<AnalysedOperator>& operators,
                                               std::filesystem::path folder, const std::vector<nn::Value>& inputs)
    : operators_(operators), folder_(folder / "op_infos"), case_(fingerprint_of(inputs)) {
    remove_activations(folder);
    io::make_folder(folder_);
}

INTQ_INLINE void ActivationWriter::add(const AnalysedCall& call) {
    const AnalysedOperator& op = operators_.at(call.index);
    io::Safetensors content;
    content.metadata = {{"format", detail::activation_format},
                        {"mod_name", op.mod_name},
                        {"op_type", op.op_type},
                        {"node", op.node},
                        {"call", op.call},
                        {"members", detail::text_of(op.members)},
                        {"inputs", detail::text_of(op.inputs)},
                        {"has_weight", op.has_weight ? "yes" : "no"},
                        {"operators", std::to_string(operators_.size())},
                        {"case", case_}};
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
        if (call.inputs[i].producer == OperatorInput::none)
            detail::save_tensor("input_" + std::to_string(i), call.inputs[i].tensor, content);
    for (const auto& parameter : call.parameters) detail::save_tensor(parameter.name, parameter.value, content);
    for (std::size_t i = 0; i < call.outputs.size(); ++i)
        detail::save_tensor("output_" + std::to_string(i), call.outputs[i], content);
    io::write_safetensors(folder_ / (detail::file_number(call.index) + ".safetensors"), content);
}

INTQ_INLINE AnalysedModel saved_model(const std::filesystem::path& folder) {
    return AnalysedModel(std::make_shared<detail::SavedSource>(folder));
}

INTQ_INLINE void check_same_case(const std::filesystem::path& one, const std::filesystem::path& other) {
    const std::string x = detail::SavedSource(one).case_of_run(), y = detail::SavedSource(other).case_of_run();
    if (x != y)
        throw Error(other.string(), "its run had other inputs than that in " + one.string() + ": " + y + " and " + x);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_models)
#endif  // INTQ_ANALYSIS_MODELS_SAVED_ACTIVATIONS_HPP
