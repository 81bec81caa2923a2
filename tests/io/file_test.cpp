// SPDX-License-Identifier: MIT
#include "intq/io/file.hpp"
#include "intq/io/error.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include "io/temporary_folder.hpp"
#include "support/catch.hpp"

using namespace intq;
using Catch::Matchers::Contains;

namespace {

std::string text_of(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_CASE("What was written is read back, also when it is empty or longer than one chunk") {
    const test::TemporaryFolder folder;
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 20, (std::size_t{1} << 20) + 1}) {
        std::string text(size, 'x');
        if (size > 0) text.back() = '\0';
        io::write_file(folder / "a", text);
        CHECK(text_of(io::read_file(folder / "a")) == text);
    }
    CHECK(folder.count() == 1);
}

TEST_CASE("A missing file, a folder and a path without a folder are errors that name the path and the reason") {
    const test::TemporaryFolder folder;
    CHECK_THROWS_WITH(io::read_file(folder / "absent.npy"), Contains("absent.npy") && Contains("No such file"));
    CHECK_THROWS_WITH(io::read_file(folder / ""), Contains("Is a directory"));
    CHECK_THROWS_WITH(io::write_file(folder / "no/such/file", "x"),
                      Contains("no/such/file") && Contains("No such file"));
    CHECK_THROWS_WITH(io::write_file(folder / "", "x"), Contains("Is a directory"));
    CHECK(folder.count() == 0);
    for (const char* device : {"/dev/zero", "/dev/null", "/dev/full"})
        CHECK_THROWS_WITH(io::read_file(device), Contains(device) && Contains("it is a device and not a file"));
}

TEST_CASE("A pipe is read to its end") {
    const test::TemporaryFolder folder;
    const std::string path = folder / "pipe";
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    const std::string text((std::size_t{1} << 20) + 3, 'x');
    std::thread writer([&] {
        std::FILE* const file = std::fopen(path.c_str(), "wb");
        std::fwrite(text.data(), 1, text.size(), file);
        std::fclose(file);
    });
    CHECK(text_of(io::read_file(path)) == text);
    writer.join();
}

TEST_CASE("A failed write leaves the former file and no temporary one") {
    const test::TemporaryFolder folder;
    io::write_file(folder / "result.txt", "former");
    // A limit of the file size makes the write fail in the middle, as a full disk does.
    rlimit former{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &former) == 0);
    auto* const former_handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1000, former.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    std::string message;
    try {
        io::write_file(folder / "result.txt", std::string(100000, 'x'));
    } catch (const Error& error) {
        message = error.what();
    }
    REQUIRE(setrlimit(RLIMIT_FSIZE, &former) == 0);
    std::signal(SIGXFSZ, former_handler);
    CHECK_THAT(message, Contains("result.txt") && Contains("File too large"));
    CHECK(text_of(io::read_file(folder / "result.txt")) == "former");
    CHECK(folder.count() == 1);
}

TEST_CASE("Temporary files that somebody left are not touched and stop nothing") {
    const test::TemporaryFolder folder;
    for (int i = 0; i <= 1000; ++i) io::write_file(folder / ("a.tmp" + std::to_string(i)), "left");
    io::write_file(folder / "a", "new");
    CHECK(text_of(io::read_file(folder / "a")) == "new");
    CHECK(text_of(io::read_file(folder / "a.tmp0")) == "left");
    CHECK(folder.count() == 1002);
}

TEST_CASE("A file that is replaced keeps its permissions") {
    using std::filesystem::perms;
    const test::TemporaryFolder folder;
    io::write_file(folder / "a", "former");
    for (const perms mode : {perms::owner_read | perms::owner_write, perms::owner_all | perms::group_read}) {
        std::filesystem::permissions(folder / "a", mode);
        io::write_file(folder / "a", "new");
        CHECK(std::filesystem::status(folder / "a").permissions() == mode);
    }
}

TEST_CASE("A link stays a link, and a device is written rather than replaced") {
    const test::TemporaryFolder folder;
    io::write_file(folder / "target", "former");
    std::filesystem::create_symlink("target", folder / "link");
    io::write_file(folder / "link", "new");
    CHECK(std::filesystem::is_symlink(folder / "link"));
    CHECK(text_of(io::read_file(folder / "target")) == "new");

    std::filesystem::create_symlink("/dev/null", folder / "null");
    io::write_file(folder / "null", "gone");
    CHECK(std::filesystem::is_character_file(folder / "null"));
}
