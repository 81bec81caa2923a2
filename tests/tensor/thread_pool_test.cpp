// SPDX-License-Identifier: MIT
//
// ThreadPool: every task once, whatever the number of threads, tasks and callers.
#include "intq/tensor/thread_pool.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>

#include "support/catch.hpp"
#include "support/sanitizer.hpp"

using namespace intq;

namespace {

/// How often each of `count` tasks ran.
std::vector<int> runs_of(const Executor& executor, index_t count) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
    executor(count, [&](index_t i) { ++runs[static_cast<std::size_t>(i)]; });
    return {runs.begin(), runs.end()};
}

std::vector<int> once(index_t count) { return std::vector<int>(static_cast<std::size_t>(count), 1); }

}  // namespace

TEST_CASE("Every task runs once, on any number of threads, more of them than tasks too") {
    for (const int threads : {1, 2, 3, 8}) {
        intq::ThreadPool pool(threads);
        CHECK(pool.threads() == threads);
        for (const index_t count : {0, 1, 2, 3, 7, 8, 100, 1001})
            if (runs_of(pool.executor(), count) != once(count))
                FAIL_CHECK(threads << " threads, " << count << " tasks");
    }
}

TEST_CASE("Thousands of short calls follow each other, with threads that sleep in between and without") {
    for (const int microseconds : {0, 200}) {
        intq::ThreadPool pool(3, std::chrono::microseconds(microseconds));
        std::atomic<index_t> sum{0};
        for (index_t call = 0; call < 3000; ++call) pool.executor()(5, [&](index_t i) { sum += i; });
        CHECK(sum == 3000 * 10);
    }
}

TEST_CASE("Two tasks that wait for each other show that two threads are there") {
    intq::ThreadPool pool(2);
    std::atomic<int> here{0};
    pool.executor()(2, [&](index_t) {
        ++here;
        while (here < 2) std::this_thread::yield();
    });
    CHECK(here == 2);
}

TEST_CASE("A thread without tasks takes those of another") {
    intq::ThreadPool pool(2);
    std::atomic<int> others{0};
    // The first task ends when all others have run: its thread's own share can only be done by the other thread.
    pool.executor()(20, [&](index_t i) {
        if (i != 0)
            ++others;
        else
            while (others < 19) std::this_thread::yield();
    });
    CHECK(others == 19);
}

TEST_CASE("Threads that take from one share take each task once") {
    intq::ThreadPool pool(2);
    int wrong = 0;
    for (int call = 0; call < 100; ++call) {
        std::vector<std::atomic<int>> runs(4000);
        std::atomic<int> here{0};
        pool.executor()(4000, [&](index_t i) {
            ++runs[static_cast<std::size_t>(i)];
            // Each thread begins with its share when the other does. The second share is done at once; then both work
            // on the first.
            if (i % 2000 == 0)
                for (++here; here < 2;) std::this_thread::yield();
            for (std::atomic<int> turns = 0; i < 2000 && turns < 20;) ++turns;
        });
        for (const std::atomic<int>& run : runs) wrong += run == 1 ? 0 : 1;
    }
    CHECK(wrong == 0);
}

TEST_CASE("A task may call the executor again, and several threads may share a pool") {
    intq::ThreadPool pool(2);
    std::atomic<int> inner{0};
    pool.executor()(4, [&](index_t) { pool.executor()(3, [&](index_t) { ++inner; }); });
    CHECK(inner == 12);

    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (int i = 0; i < 3; ++i)
        callers.emplace_back([&] {
            for (int call = 0; call < 200; ++call)
                if (runs_of(pool.executor(), 9) != once(9)) ++wrong;
        });
    for (std::thread& caller : callers) caller.join();
    CHECK(wrong == 0);
}

TEST_CASE("What a task throws reaches the caller, when no thread works any more, and the pool goes on") {
    for (const bool in_callers_thread : {true, false}) {
        ThreadPool pool(3);
        for (int call = 0; call < 20; ++call) {
            std::atomic<int> inside{0}, thrown{0};
            const auto caller = std::this_thread::get_id();
            const auto task = [&](index_t) {
                ++inside;
                std::this_thread::sleep_for(std::chrono::microseconds(100));
                --inside;
                if ((std::this_thread::get_id() == caller) != in_callers_thread) return;
                ++thrown;
                throw Error("task of call " + std::to_string(call));
            };
            std::string caught;
            while (caught.empty()) {  // until the other threads took one
                try {
                    pool.executor()(64, task);
                } catch (const Error& error) {
                    caught = error.what();
                }
                REQUIRE(inside == 0);
                REQUIRE(caught.empty() == (thrown == 0));
            }
            REQUIRE(caught == "task of call " + std::to_string(call));
        }
        CHECK(runs_of(pool.executor(), 100) == once(100));
        std::atomic<int> here{0};
        pool.executor()(3, [&](index_t) {
            for (++here; here < 3;) std::this_thread::yield();
        });
        CHECK(here == 3);  // all three threads still work
    }
}

TEST_CASE("When all tasks throw, one exception reaches the caller, and no task begins after it") {
    ThreadPool pool(4);
    std::atomic<int> runs{0};
    CHECK_THROWS_AS(pool.executor()(10000,
                                    [&](index_t) {
                                        ++runs;
                                        throw std::runtime_error("each");
                                    }),
                    std::runtime_error);
    CHECK(runs <= 4);
}

TEST_CASE("What a task of a task throws reaches the caller, too") {
    ThreadPool pool(2);
    const auto nested = [&] {
        pool.executor()(4, [&](index_t i) {
            pool.executor()(4, [&](index_t k) {
                if (i == 2 && k == 3) throw Error("nested");
            });
        });
    };
    CHECK_THROWS_WITH(nested(), "nested");
    CHECK(runs_of(pool.executor(), 9) == once(9));
}

TEST_CASE("A pool of more threads than it can have is refused") {
    CHECK_THROWS_WITH(intq::ThreadPool(200000), Catch::Contains("at most 4096 threads, given 200000"));
    CHECK_THROWS_WITH(intq::ThreadPool(std::numeric_limits<int>::max()), Catch::Contains("at most 4096 threads"));
}

#if !INTQ_TEST_ADDRESS_SANITIZER && !defined(__SANITIZE_THREAD__)
// Sanitizers reserve the memory of a thread themselves, and end the program where they get none.
TEST_CASE("When the system starts fewer threads than asked for, those end and the pool is refused") {
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
    std::ifstream statm("/proc/self/statm");
    std::size_t pages = 0;
    REQUIRE(statm >> pages);
    rlimit less = before;
    less.rlim_cur = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + (std::size_t{96} << 20);
    REQUIRE(setrlimit(RLIMIT_AS, &less) == 0);
    std::string message = "not refused";
    try {
        const intq::ThreadPool pool(1000);
    } catch (const Error& error) {
        message = error.what();
    }
    REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
    CHECK_THAT(message, Catch::Contains("of 1000 threads can be started"));
    CHECK_THAT(message, !Catch::Contains("only 1 of"));
    ThreadPool pool(2);
    CHECK(runs_of(pool.executor(), 9) == once(9));
}
#endif

TEST_CASE("A pool of no threads is refused") {
    CHECK_THROWS_WITH(intq::ThreadPool(0), Catch::Contains("at least 1 thread, given 0"));
    CHECK_THROWS_WITH(intq::ThreadPool(-3), Catch::Contains("given -3"));
}
