// SPDX-License-Identifier: MIT
//
// Words of the command line: outputs that must be writable, and numbers.
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <limits>
#include <system_error>

#include "options.hpp"

namespace intq_tool {

using namespace intq;

bool is_same_file(const std::string& a, const std::string& b) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(a, ignored) == std::filesystem::weakly_canonical(b, ignored);
}

void require_writable(const std::string& path, const std::vector<std::string>& inputs) {
    std::error_code ignored;
    if (path.empty()) throw Error("an output has no name");
    for (const std::string& input : inputs)
        if (!input.empty() && std::filesystem::equivalent(path, input, ignored) &&
            !std::filesystem::is_character_file(path, ignored))
            throw Error(path, "cannot be written: it is a file that this command reads");
    if (std::filesystem::is_directory(path, ignored)) throw Error(path, "cannot be written: it is a folder");
    if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) return;
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    // The file is replaced by a new one, so the folder decides.
    if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0)
        throw Error(path, "cannot be created: " + std::generic_category().message(errno));
}

CLI::Validator above_zero() {
    const auto check = [](const std::string& word) -> std::string {
        int value = 0;
        const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        const bool is_number = error == std::errc() && stop == word.data() + word.size();
        if (error == std::errc::result_out_of_range)
            return "expected a whole number up to " + std::to_string(std::numeric_limits<int>::max()) + ", given " +
                   in_quotes(word);
        return is_number && value > 0 ? "" : "expected a whole number above 0, given " + in_quotes(word);
    };
    return CLI::Validator(check, "");
}

CLI::Validator a_number() {
    const auto check = [](const std::string& word) -> std::string {
        float value = 0.0f;
        const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        const bool is_number = error == std::errc() && stop == word.data() + word.size() && value - value == 0.0f;
        return is_number ? "" : "expected a number, given " + in_quotes(word);
    };
    return CLI::Validator(check, "");
}

CLI::Validator a_backend() {
    const auto check = [](const std::string& word) -> std::string {
        if (kernels::find_packing(word.c_str()) != nullptr) return "";
        std::string names;
        for (const kernels::BackendPacking& row : kernels::backend_packings)
            names += (names.empty() ? "" : ", ") + std::string(row.backend);
        return "there is no backend " + in_quotes(word) + "; the backends: " + names;
    };
    return CLI::Validator(check, "");
}

}  // namespace intq_tool
