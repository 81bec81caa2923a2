// SPDX-License-Identifier: MIT
#include "usage/misuse.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "intq/io/error.hpp"
#include "support/catch.hpp"

namespace intq::test {

namespace {

constexpr const char* nothing = "ACCEPTED: nothing was refused";

/// What no user of the library should have to understand.
const std::vector<std::string> foreign_words{
    "bad_function_call", "bad_alloc", "bad_any_cast", "bad_optional",     "bad_variant", "basic_string",
    "vector::",          "map::at",   "stoi",         "invalid argument", "shared_ptr",  "nullptr"};

bool prints_table() { return Catch::getCurrentContext().getConfig()->includeSuccessfulResults(); }

}  // namespace

std::string refusal(const std::function<void()>& act) {
    try {
        act();
    } catch (const Error& error) {
        return error.what();
    } catch (const std::exception& error) {
        return std::string("NOT AN intq::Error: ") + error.what();
    }
    return nothing;
}

std::string refusal(const Status& status) { return status.ok() ? nothing : describe(status); }

std::string last_words(const std::function<void()>& act) {
    int ends[2];
    if (pipe(ends) != 0) return "no pipe";
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        for (const int trap : {SIGILL, SIGTRAP, SIGABRT}) std::signal(trap, SIG_DFL);  // not Catch2's
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        act();
        _exit(0);
    }
    close(ends[1]);
    std::string text;
    char buffer[256];
    for (ssize_t count; (count = read(ends[0], buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(count));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFSIGNALED(status)) return nothing;
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
}

void check_misuses(const std::vector<Misuse>& table) {
    for (const Misuse& row : table) {
        const std::string message = row.message();
        if (prints_table()) std::printf("- %s\n    %s\n", row.what, message.c_str());
        for (const std::string& fragment : row.holds) {
            if (message.find(fragment) == std::string::npos)
                FAIL_CHECK(row.what << "\n  message: " << message << "\n  without: " << fragment);
            else
                CHECK(message.find(fragment) != std::string::npos);
        }
        for (const std::string& word : foreign_words)
            if (message.find(word) != std::string::npos)
                FAIL_CHECK(row.what << "\n  message: " << message << "\n  speaks of: " << word);
    }
    if (prints_table()) std::printf("%zu misuses\n", table.size());
    std::fflush(stdout);
}

}  // namespace intq::test
