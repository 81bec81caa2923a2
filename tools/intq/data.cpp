// SPDX-License-Identifier: MIT
//
// Samples out of a .npy file or out of a folder of pictures.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>

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

/// What the file or folder holds: float32, or uint8 images.
///
/// @param codes  another type that is taken, that of a program's codes
Tensor read_stored(const std::string& path, const std::vector<index_t>& input, index_t count,
                   DType codes = DType::float32) {
    std::error_code ignored;
    const bool is_folder = std::filesystem::is_directory(path, ignored);
    const Tensor samples = is_folder ? read_pictures(path, input, count) : load_npy(path);
    const bool is_uint8 = samples.dtype() == DType::uint8;
    if ((samples.dtype() != DType::float32 && samples.dtype() != codes && !is_uint8) || samples.rank() < 2)
        throw Error(path, std::string("images must be float32 or uint8, (N, C, H, W), and other samples (N, ...)") +
                              (codes == DType::float32 ? "" : std::string(", or ") + name_of(codes)) + "; given " +
                              name_of(samples.dtype()) + " " + intq::to_string(samples.shape()));
    if (samples.size() == 0) throw Error(path, "it is empty; give at least one sample");
    if (!fits(samples.shape(), input))
        throw Error(path, "the shape " + intq::to_string(samples.shape()) + " does not fit: the model takes " +
                              describe_input(input));
    return count > 0 ? samples.batch(0, std::min(count, samples.extent(0))) : samples;
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
                     .add_option("--data", path,
                                 what +
                                     ": a .npy file, float32, or uint8 images with --mean and --deviation; or a "
                                     "folder of PNG and JPEG pictures, which are uint8 images")
                     ->option_text("FILE|FOLDER");
    normalize.add_to(command);
    command.add_option("--count", count, "use only the first COUNT samples")->check(above_zero())->option_text("COUNT");
    if (is_required) data->required();
    for (const char* option : {"--mean", "--deviation", "--count"})
        if (!is_required) command.get_option(option)->needs(data);
    group_options(command, "Data", {"--data", "--count"});
}

Tensor DataOptions::read(const std::vector<index_t>& input) const {
    return read_samples(path, normalize, input, count);
}

Tensor DataOptions::read_pixels(const std::vector<index_t>& input) const {
    const Tensor pixels = read_stored(path, input, count);
    if (pixels.dtype() == DType::uint8) return pixels;
    throw Error(path, std::string("the program takes pixels, uint8 images (N, C, H, W); given ") +
                          name_of(pixels.dtype()) + " " + intq::to_string(pixels.shape()));
}

Tensor DataOptions::read_for(const ProgramFile& program) const {
    if (program.takes_codes()) {
        const Tensor stored = read_stored(path, program.input(), count, program.input_type());
        return stored.dtype() == program.input_type() ? stored : program.codes_of(read(program.input()));
    }
    if (!program.takes_pixels()) return read(program.input());
    if (!normalize.mean.empty() || !normalize.deviation.empty())
        throw Error(path,
                    "the program takes pixels, and holds their mean and deviation itself; leave out --mean and "
                    "--deviation");
    return read_pixels(program.input());
}

Tensor read_samples(const std::string& path, const NormalizeOptions& normalize, const std::vector<index_t>& input,
                    index_t count) {
    const Tensor samples = read_stored(path, input, count);
    if (samples.dtype() == DType::uint8) {
        check_normalization(path, samples, "--mean", normalize.mean);
        check_normalization(path, samples, "--deviation", normalize.deviation);
        return normalize_images(samples, normalize.mean, normalize.deviation);
    }
    if (!normalize.mean.empty() || !normalize.deviation.empty())
        throw Error(path, "--mean and --deviation are for uint8 images, and these are float32");
    const Tensor row = samples.contiguous().reshape(Shape(samples.size()));
    throw_if_failed(kernels::check_finite(row.view<float, 1>(), OpKind::quantize), path);
    return samples;
}

}  // namespace intq_tool
