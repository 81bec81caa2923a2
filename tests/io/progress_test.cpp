// SPDX-License-Identifier: MIT
#include "intq/io/progress.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "support/catch.hpp"

using namespace intq;

namespace {

// What `body` writes to a stream that is not a terminal.
template <class Body> std::string written_by(Body body) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
    REQUIRE(file != nullptr);
    body(file.get());
    std::string text(static_cast<std::size_t>(std::ftell(file.get())), '\0');
    std::rewind(file.get());
    REQUIRE(std::fread(text.data(), 1, text.size(), file.get()) == text.size());
    return text;
}

std::size_t count_of(const std::string& text, char c) {
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), c));
}

}  // namespace

TEST_CASE("A stream that is not a terminal gets nothing") {
    CHECK(written_by([](std::FILE* stream) {
              io::Progress progress("calibrate", 3, io::ShowProgress::on_terminal, stream);
              for (int i = 0; i <= 3; ++i) progress.update(i);
          }).empty());
}

TEST_CASE("The line is redrawn in place and removed at the end") {
    CHECK(written_by([](std::FILE* stream) {
              io::Progress progress("calibrate", 2, io::ShowProgress::always, stream);
              progress.update(2);
          }) == "\rcalibrate [####################] 100% 2/2\x1b[K\r\x1b[K");
}

TEST_CASE("Many updates draw few lines, among them the first and the last") {
    const std::string text = written_by([](std::FILE* stream) {
        io::Progress progress("x", 1000, io::ShowProgress::always, stream);
        for (int i = 0; i <= 1000; ++i) progress.update(i);
    });
    CHECK(text.find("0% 0/1000") != std::string::npos);
    CHECK(text.find("100% 1000/1000") != std::string::npos);
    CHECK(count_of(text, '\r') < 50);
}

TEST_CASE("The line shows the part that is done, also of nothing and beyond the total") {
    CHECK(io::Progress::line_of("a", 1, 4) == "a [#####---------------] 25% 1/4");
    CHECK(io::Progress::line_of("a", 0, 0) == "a [####################] 100% 0/0");
    CHECK(io::Progress::line_of("a", 9, 4) == "a [####################] 100% 9/4");
}
