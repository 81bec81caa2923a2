// SPDX-License-Identifier: MIT
//
// A fresh folder for a test that writes files; removed with all that is in it.
#ifndef INTQ_TESTS_IO_TEMPORARY_FOLDER_HPP
#define INTQ_TESTS_IO_TEMPORARY_FOLDER_HPP

#include <stdlib.h>

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>

namespace intq::test {

class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "intq-test-XXXXXX").string();
        if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
        path_ = pattern;
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

    /// Number of entries in the folder.
    std::ptrdiff_t count() const {
        return std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator());
    }

private:
    std::filesystem::path path_;
};

}  // namespace intq::test

#endif  // INTQ_TESTS_IO_TEMPORARY_FOLDER_HPP
