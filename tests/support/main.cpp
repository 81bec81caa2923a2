// SPDX-License-Identifier: MIT
//
// The main function of every test program, compiled once. Ends with the line `N passed, N failed, N skipped`, which
// ./dev test adds up over all programs.
#define CATCH_CONFIG_RUNNER
#include "support/catch.hpp"

#include <cstdio>
#include <set>
#include <string>
#include <utility>

namespace {

struct Skips {
    std::string running_case;
    std::set<std::pair<std::string, std::string>> items;  // case, reason
    std::set<std::string> cases;
};

Skips& skips() {
    static Skips instance;
    return instance;
}

void print_skip(const std::string& reason) {
    std::printf("SKIPPED: %s: %s\n", skips().running_case.c_str(), reason.c_str());
    std::fflush(stdout);
}

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

struct CountingListener : ListenerBase {
    using ListenerBase::ListenerBase;

    void testCaseStarting(const Catch::TestCaseInfo& info) override { skips().running_case = info.name; }

    // A case that failed before it was left counts as failed, not as skipped.
    void testCaseEnded(const Catch::TestCaseStats& stats) override {
        if (stats.totals.assertions.failed > 0) skips().cases.erase(skips().running_case);
    }

    void testRunEnded(const Catch::TestRunStats& stats) override {
        const auto& cases = stats.totals.testCases;
        const auto skipped_cases = skips().cases.size();
        std::printf("%zu passed, %zu failed, %zu skipped\n",
                    static_cast<std::size_t>(cases.passed + cases.failedButOk) - skipped_cases,
                    static_cast<std::size_t>(cases.failed), skipped_cases + skips().items.size());
    }
};

CATCH_REGISTER_LISTENER(CountingListener)

}  // namespace

namespace intq::test {

void skip_item(const std::string& reason) {
    if (skips().items.emplace(skips().running_case, reason).second) print_skip(reason);
}

void skip_case(const std::string& reason) {
    if (skips().cases.insert(skips().running_case).second) print_skip(reason);
}

}  // namespace intq::test

int main(int argc, char** argv) {
    Catch::Session session;
#if __has_include(<catch2/catch_all.hpp>)
    session.configData().warnings =
        static_cast<Catch::WarnAbout::What>(Catch::WarnAbout::NoAssertions | Catch::WarnAbout::UnmatchedTestSpec);
#else
    session.configData().warnings =
        static_cast<Catch::WarnAbout::What>(Catch::WarnAbout::NoAssertions | Catch::WarnAbout::NoTests);
#endif
    return session.run(argc, argv);
}
