// SPDX-License-Identifier: MIT
//
// Samples for each input, out of .npy files, an archive of arrays, or a folder of pictures.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "options.hpp"
#include "pictures.hpp"

namespace intq_tool {

using namespace intq;
using intq::Tensor;

namespace {

/// Whether samples fit to an input; extents of -1 are open, and so is the number of samples.
bool fits(const Shape& samples, const std::vector<index_t>& input) {
    if (input.empty()) return true;
    if (samples.rank != static_cast<int>(input.size())) return false;
    for (int axis = 1; axis < samples.rank; ++axis) {
        const index_t expected = input[static_cast<std::size_t>(axis)];
        if (expected >= 0 && samples[axis] != expected) return false;
    }
    return true;
}

std::string describe_input(std::vector<index_t> input) {
    input.front() = -1;
    std::string text = describe_shape(input);
    return text.replace(text.find('?'), 1, "N");
}

void check_normalization(const std::string& path, const Tensor& pixels, const char* option,
                         const std::vector<float>& numbers) {
    const auto channels = static_cast<std::size_t>(pixels.extent(1));
    if (numbers.size() != 1 && numbers.size() != channels)
        throw Error(path, (numbers.empty() ? "images are uint8: give " : "expected ") + std::string(option) +
                              " with one number, or " + std::to_string(channels) + ", one for each channel" +
                              (numbers.empty() ? "" : ", given " + std::to_string(numbers.size())));
    const bool is_deviation = std::string_view(option) == "--deviation";
    for (const float number : numbers)
        if (!std::isfinite(number) || (is_deviation && !(number > 0.0f)))
            throw Error(std::string(option) + " of " + std::to_string(number) + " has no meaning");
}

constexpr const char* no_samples = "it is empty; give at least one sample";

/// Where the samples of one input come from.
struct Source {
    std::string where;              // for messages: the path, and of an archive the array
    std::string path;               // a file or a folder
    std::optional<Tensor> array{};  // of an archive
};

/// Integers as real numbers, such as a mask of 0 and 1; other samples as they are.
Tensor real_integers(const Tensor& samples) {
    if (samples.dtype() != DType::int64 && samples.dtype() != DType::int32) return samples;
    Tensor reals = Tensor::zeros(samples.shape());
    const Tensor given = samples.contiguous();
    const auto values = reals.flat<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = given.dtype() == DType::int64 ? static_cast<float>(given.flat<std::int64_t>()[i])
                                                  : static_cast<float>(given.flat<std::int32_t>()[i]);
    return reals;
}

/// What a source holds: float32, integers, which become float32, or uint8 images.
///
/// @param codes  another type that is taken, that of a program's codes
Tensor read_stored(const Source& source, const std::vector<index_t>& input, index_t count,
                   DType codes = DType::float32) {
    std::error_code ignored;
    const bool is_folder = std::filesystem::is_directory(source.path, ignored);
    const Tensor samples = real_integers(source.array ? *source.array
                                         : is_folder  ? read_pictures(source.path, input, count)
                                                      : load_npy(source.path));
    if (samples.size() == 0) throw Error(source.where, no_samples);
    const bool is_uint8 = samples.dtype() == DType::uint8;
    if ((samples.dtype() != DType::float32 && samples.dtype() != codes && !is_uint8) || samples.rank() < 2)
        throw Error(source.where,
                    std::string("images must be float32 or uint8, (N, C, H, W), and other samples (N, ...)") +
                        (codes == DType::float32 ? "" : std::string(", or ") + name_of(codes)) + "; given " +
                        name_of(samples.dtype()) + " " + intq::to_string(samples.shape()));
    if (!fits(samples.shape(), input))
        throw Error(source.where, "the shape " + intq::to_string(samples.shape()) + " does not fit: the model takes " +
                                      describe_input(input));
    return count > 0 ? samples.batch(0, std::min(count, samples.extent(0))) : samples;
}

/// Integers of an input that takes them; (N) where it takes one of each sample.
Tensor read_ids(const Source& source, const InputInfo& input, index_t count) {
    Tensor ids = source.array ? *source.array : load_npy(source.path);
    if (ids.size() == 0) throw Error(source.where, no_samples);
    if ((ids.dtype() != DType::int64 && ids.dtype() != DType::int32) || ids.rank() < 1)
        throw Error(source.where, "the input " + in_quotes(input.name) +
                                      " takes integers, int64 or int32 (N, ...); given " + name_of(ids.dtype()) + " " +
                                      intq::to_string(ids.shape()));
    const bool is_one_each = ids.rank() == 1 && input.extents.size() == 2 && input.extents[1] == 1;
    if (is_one_each) ids = ids.contiguous().reshape(Shape(ids.size(), 1));
    if (!fits(ids.shape(), input.extents))
        throw Error(source.where, "the shape " + intq::to_string(ids.shape()) + " does not fit: the model takes " +
                                      describe_input(input.extents));
    return count > 0 ? ids.batch(0, std::min(count, ids.extent(0))) : ids;
}

/// Finite real numbers of what a source holds, normalized where they are images.
Tensor real_numbers(const Source& source, const NormalizeOptions& normalize, const Tensor& samples) {
    if (samples.dtype() == DType::uint8) {
        check_normalization(source.where, samples, "--mean", normalize.mean);
        check_normalization(source.where, samples, "--deviation", normalize.deviation);
        return normalize_images(samples, normalize.mean, normalize.deviation);
    }
    const Tensor row = samples.contiguous().reshape(Shape(samples.size()));
    const auto values = row.flat<float>();
    if (std::any_of(values.begin(), values.end(), [](float value) { return value < 0.0f && std::isinf(value); }))
        throw Error(source.where, "it holds -inf; for a mask give -1e9, which hides as much");
    throw_if_failed(kernels::check_finite(row.view<float, 1>(), OpKind::quantize), source.where);
    return samples;
}

/// Refuses numbers that a mask cannot have, because the model compares it.
void require_mask(const Source& source, const InputInfo& input, const Tensor& samples) {
    const Tensor row = samples.contiguous();
    for (const float value : row.flat<float>())
        if (value != 0.0f && value != 1.0f)
            throw Error(source.where, "the input " + in_quotes(input.name) +
                                          ", which the model compares, takes 0 and 1 alone; given " +
                                          digits("%.7g", static_cast<double>(value)));
}

void refuse_normalization_of(const std::string& where, const NormalizeOptions& normalize) {
    if (!normalize.mean.empty() || !normalize.deviation.empty())
        throw Error(where, "--mean and --deviation are for uint8 images, and these are float32");
}

std::vector<std::string> names_of(const std::vector<InputInfo>& inputs) {
    std::vector<std::string> names;
    for (const InputInfo& input : inputs) names.push_back(input.name);
    return names;
}

std::string list_of(const std::vector<InputInfo>& inputs) {
    std::string text;
    for (const InputInfo& input : inputs) text += (text.empty() ? "" : ", ") + in_quotes(input.name);
    return text;
}

/// The arrays of an archive, by the names of the inputs.
std::vector<Source> sources_of_archive(const std::string& path, const std::vector<InputInfo>& inputs) {
    const std::vector<io::NamedArray> arrays = io::read_npz(path);
    std::vector<Source> sources;
    for (const InputInfo& input : inputs) {
        const auto has_name = [&](const io::NamedArray& array) { return array.name == input.name; };
        const auto found = std::find_if(arrays.begin(), arrays.end(), has_name);
        if (found == arrays.end())
            throw Error(path, "it holds no array for the input " + in_quotes(input.name) + "; the inputs are " +
                                  list_of(inputs));
        const std::string where = path + ": " + in_quotes(found->name);
        sources.push_back({where, path, to_tensor(found->array, where)});
    }
    for (const io::NamedArray& array : arrays) {
        const auto has_name = [&](const InputInfo& input) { return input.name == array.name; };
        if (std::none_of(inputs.begin(), inputs.end(), has_name))
            throw Error(path,
                        "the model has no input " + in_quotes(array.name) + "; its inputs are " + list_of(inputs));
    }
    return sources;
}

/// NAME and FILE of a word; no NAME where the model has one input and the word does not begin with its name.
std::pair<std::string, std::string> name_and_file(const std::string& word, const std::vector<InputInfo>& inputs) {
    for (const InputInfo& input : inputs)  // a name may hold the sign, too
        if (word.rfind(input.name + "=", 0) == 0) return {input.name, word.substr(input.name.size() + 1)};
    if (inputs.size() == 1) return {"", word};
    const std::size_t sign = word.find('=');
    if (sign == word.npos)
        throw Error(word, "the model has " + std::to_string(inputs.size()) + " inputs, " + list_of(inputs) +
                              "; give --data NAME=FILE for each of them, or a .npz file with an array for each");
    const std::string name = word.substr(0, sign);
    throw Error("--data " + word,
                "the model has no input " + in_quotes(name) + "; nearest: " + nearest_names(name, names_of(inputs)));
}

/// A source for each input, in their order.
std::vector<Source> sources_of(const std::vector<std::string>& words, const std::vector<InputInfo>& inputs) {
    if (words.size() == 1 && std::filesystem::path(words[0]).extension() == ".npz" &&
        std::none_of(inputs.begin(), inputs.end(),
                     [&](const InputInfo& input) { return words[0].rfind(input.name + "=", 0) == 0; }))
        return sources_of_archive(words[0], inputs);
    std::map<std::string, Source> by_name;
    for (const std::string& word : words) {
        auto [name, file] = name_and_file(word, inputs);
        if (name.empty()) name = inputs.front().name;
        if (!by_name.emplace(name, Source{file, file}).second)
            throw Error("--data " + word, "the input " + in_quotes(name) + " has its samples already");
    }
    std::vector<Source> sources;
    for (const InputInfo& input : inputs) {
        const auto found = by_name.find(input.name);
        if (found == by_name.end())
            throw Error("--data names no file for the input " + in_quotes(input.name) + "; the inputs are " +
                        list_of(inputs));
        sources.push_back(found->second);
    }
    return sources;
}

/// Throws for inputs that have other numbers of samples.
void check_counts(const std::vector<Source>& sources, const Samples& samples) {
    for (std::size_t i = 1; i < samples.size(); ++i)
        if (samples[i].extent(0) != samples[0].extent(0))
            throw Error(sources[i].where, "it has " + std::to_string(samples[i].extent(0)) + " samples, and " +
                                              sources[0].where + " has " + std::to_string(samples[0].extent(0)) +
                                              "; each input takes as many");
}

/// Real numbers for each input.
Samples read_reals(const std::vector<Source>& sources, const std::vector<InputInfo>& inputs,
                   const NormalizeOptions& normalize, index_t count) {
    Samples samples;
    bool has_images = false;
    for (std::size_t i = 0; i < sources.size(); ++i) {
        if (inputs[i].takes_ids) {
            samples.push_back(read_ids(sources[i], inputs[i], count));
            continue;
        }
        const Tensor stored = read_stored(sources[i], inputs[i].extents, count);
        has_images |= stored.dtype() == DType::uint8;
        samples.push_back(real_numbers(sources[i], normalize, stored));
        if (inputs[i].is_mask) require_mask(sources[i], inputs[i], samples.back());
    }
    if (!has_images) refuse_normalization_of(sources.front().where, normalize);
    check_counts(sources, samples);
    return samples;
}

}  // namespace

void NormalizeOptions::add_to(CLI::App& command) {
    command
        .add_option("--mean", mean,
                    "of uint8 images: x = (pixel / 255 - MEAN) / DEVIATION; one number, or one a channel")
        ->check(a_number())
        ->option_text("NUMBER...");
    command.add_option("--deviation", deviation, "see --mean; above 0")->check(a_number())->option_text("NUMBER...");
    group_options(command, "Data", {"--mean", "--deviation"});
}

void DataOptions::add_to(CLI::App& command, const std::string& what, bool is_required) {
    auto* data = command
                     .add_option("--data", words,
                                 what +
                                     ": a .npy file, float32, or uint8 images with --mean and --deviation; or a "
                                     "folder of PNG and JPEG pictures, which are uint8 images. For several inputs: "
                                     "--data NAME=FILE for each, or a .npz file with an array for each")
                     ->allow_extra_args(false)
                     ->option_text("FILE|FOLDER");
    normalize.add_to(command);
    command.add_option("--count", count, "use only the first COUNT samples")->check(above_zero())->option_text("COUNT");
    if (is_required) data->required();
    for (const char* option : {"--mean", "--deviation", "--count"})
        if (!is_required) command.get_option(option)->needs(data);
    group_options(command, "Data", {"--data", "--count"});
}

std::vector<std::string> DataOptions::paths() const {
    std::vector<std::string> paths = words;
    for (const std::string& word : words)
        for (std::size_t sign = word.find('='); sign != word.npos; sign = word.find('=', sign + 1))
            paths.push_back(word.substr(sign + 1));
    return paths;
}

Samples DataOptions::read(const std::vector<InputInfo>& inputs) const {
    return read_reals(sources_of(words, inputs), inputs, normalize, count);
}

Samples DataOptions::read_pixels(const std::vector<InputInfo>& inputs) const {
    const std::vector<Source> sources = sources_of(words, inputs);
    const Tensor pixels = read_stored(sources.front(), inputs.front().extents, count);
    if (pixels.dtype() == DType::uint8) return {pixels};
    throw Error(sources.front().where, std::string("the program takes pixels, uint8 images (N, C, H, W); given ") +
                                           name_of(pixels.dtype()) + " " + intq::to_string(pixels.shape()));
}

Samples DataOptions::read_as(const std::vector<ProgramInput>& inputs) const {
    std::vector<InputInfo> infos;
    for (const ProgramInput& input : inputs) infos.push_back(input.info);
    const std::vector<Source> sources = sources_of(words, infos);
    // A program of pixels has no other input.
    if (inputs.front().dtype == DType::uint8) {
        if (!normalize.mean.empty() || !normalize.deviation.empty())
            throw Error(sources.front().where,
                        "the program takes pixels, and holds their mean and deviation itself; leave out --mean and "
                        "--deviation");
        return read_pixels(infos);
    }
    Samples samples;
    bool has_images = false, takes_reals = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (infos[i].takes_ids) {
            samples.push_back(read_ids(sources[i], infos[i], count));
            continue;
        }
        const bool takes_codes = static_cast<bool>(inputs[i].codes_of);
        const DType type = takes_codes ? inputs[i].dtype : DType::float32;
        Tensor stored = read_stored(sources[i], infos[i].extents, count, type);
        has_images |= stored.dtype() == DType::uint8;
        takes_reals |= stored.dtype() == DType::float32;
        if (takes_codes && stored.dtype() == type) {
            samples.push_back(std::move(stored));
            continue;
        }
        const Tensor reals = real_numbers(sources[i], normalize, stored);
        samples.push_back(takes_codes ? inputs[i].codes_of(reals) : reals);
    }
    if (takes_reals && !has_images) refuse_normalization_of(sources.front().where, normalize);
    check_counts(sources, samples);
    return samples;
}

Tensor read_samples(const std::string& path, const NormalizeOptions& normalize, const std::vector<index_t>& input,
                    index_t count) {
    return read_reals({{path, path}}, {{"", input}}, normalize, count).front();
}

}  // namespace intq_tool
