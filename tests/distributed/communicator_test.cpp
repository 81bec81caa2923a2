// SPDX-License-Identifier: MIT
//
// What ranks say to each other, and that no error of one leaves the others waiting.
#include "intq/distributed/ranks/communicator.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "intq/distributed/ranks/thread_ranks.hpp"
#include "intq/io/error.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::distributed;
using Catch::Matchers::Contains;
using test::message_of;

namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("Blocks come in the order of the ranks, whatever their lengths, and a broadcast is those of its rank") {
    for (const int ranks : {1, 2, 5}) {
        std::atomic<int> right = 0;
        run_thread_ranks(ranks, [&](Communicator& all) {
            const auto mine = static_cast<std::size_t>(all.rank());
            const Blocks blocks = all.gather(bytes_of(std::string(mine, 'x')));
            bool is_right = all.size() == ranks && blocks.size() == static_cast<std::size_t>(ranks);
            for (std::size_t r = 0; is_right && r < blocks.size(); ++r)
                is_right = blocks[r] == bytes_of(std::string(r, 'x'));
            std::vector<std::byte> bytes = bytes_of(std::to_string(all.rank()));
            all.broadcast(bytes, ranks - 1);
            right += is_right && bytes == bytes_of(std::to_string(ranks - 1)) ? 1 : 0;
        });
        CHECK(right == ranks);
    }
    SingleRank alone;
    alone.together([&] { CHECK(alone.gather(bytes_of("a")) == Blocks{bytes_of("a")}); });
    CHECK_THROWS_AS(run_thread_ranks(0, [](Communicator&) {}), Error);
}

TEST_CASE("Float sums are those in the order of the ranks in double, rounded once, in long spans as well") {
    // In float, or in another order, 1e8 + 1 - 1e8 + 1e-8 is another number.
    const std::array<float, 4> parts{1e8f, 1.0f, -1e8f, 1e-8f};
    double expected = 0.0;
    for (const float part : parts) expected += static_cast<double>(part);
    std::atomic<int> right = 0;
    run_thread_ranks(4, [&](Communicator& all) {
        const float own = parts[static_cast<std::size_t>(all.rank())];
        std::vector<float> sums(200'000, own), means(3, own), least(2, own), most(2, own);
        sums.back() = 2.0f;
        std::vector<std::int64_t> counts{all.rank(), std::numeric_limits<std::int64_t>::max() / 4};
        all.sum(sums);
        all.mean(means);
        all.minimum(least);
        all.maximum(most);
        all.sum(counts);
        const float total = static_cast<float>(expected);
        const bool is_right = std::count(sums.begin(), sums.end(), total) == 199'999 && sums.back() == 8.0f &&
                              means == std::vector<float>(3, static_cast<float>(expected / 4)) &&
                              least == std::vector<float>(2, -1e8f) && most == std::vector<float>(2, 1e8f) &&
                              counts == std::vector<std::int64_t>{6, std::numeric_limits<std::int64_t>::max() / 4 * 4};
        right += is_right ? 1 : 0;
    });
    CHECK(right == 4);
}

TEST_CASE("A rank that throws ends the work of all, wherever the others are") {
    for (const int failing : {0, 1, 2})
        for (const int calls : {0, 1, 2}) {
            INFO("rank " << failing << " after " << calls << " calls");
            std::array<std::string, 3> messages;
            std::atomic<int> went_on = 0;
            CHECK_THROWS(run_thread_ranks(3, [&](Communicator& all) {
                std::string& message = messages[static_cast<std::size_t>(all.rank())];
                try {
                    all.together([] {});
                    for (int call = 0; call < 2; ++call) {
                        if (all.rank() == failing && call == calls) throw std::runtime_error("disk full");
                        all.synchronize();
                    }
                    if (all.rank() == failing && calls == 2) throw std::runtime_error("disk full");
                } catch (const std::exception& error) {
                    message = error.what();
                    throw;
                }
                ++went_on;
            }));
            for (int rank = 0; rank < 3; ++rank) {
                const std::string& message = messages[static_cast<std::size_t>(rank)];
                if (rank == failing)
                    CHECK(message == "disk full");
                else if (calls < 2)
                    CHECK(message == "rank " + std::to_string(failing) + ": disk full");
            }
            // Those that had done their work hear of it at its end.
            CHECK(went_on == (calls < 2 ? 0 : 2));
        }
}

TEST_CASE("An error at the end of the work, or one that the work swallowed, still leaves together() on every rank") {
    CHECK(message_of<std::runtime_error>([&] {
              run_thread_ranks(2, [&](Communicator& all) {
                  if (all.rank() == 1) throw 7;
              });
          }) == "rank 1: an exception of an unknown type");
    CHECK(message_of<Error>([&] {
              run_thread_ranks(2, [&](Communicator& all) {
                  if (all.rank() == 1) throw Error("bad batch");
                  try {
                      all.together([&] { all.synchronize(); });
                  } catch (const Error&) {  // and goes on as if nothing had been
                  }
              });
          }) == "rank 1: bad batch");
}

TEST_CASE("A group can work again after an error") {
    int right = 0;
    SingleRank alone;
    CHECK_THROWS_AS(alone.together([] { throw Error("once"); }), Error);
    alone.together([&] {
        alone.synchronize();
        ++right;
    });
    CHECK(right == 1);
}

TEST_CASE("Calls that do not match are an error that names both") {
    CHECK_THAT(message_of<Error>([] {
                   run_thread_ranks(2, [](Communicator& all) {
                       std::vector<float> values(all.rank() == 0 ? 3 : 4);
                       all.sum(values);
                   });
               }),
               Contains("rank 0 is at sum of float32 of 3 values") && Contains("rank 1 at sum of float32 of 4 values"));
    CHECK_THAT(message_of<Error>([] {
                   run_thread_ranks(2, [](Communicator& all) {
                       if (all.rank() == 0) all.synchronize();
                   });
               }),
               Contains("rank 0 is at synchronize, rank 1 at the end of its work"));
    CHECK_THAT(message_of<Error>([] {
                   run_thread_ranks(
                       3, [](Communicator& all) { all.check_equal("the seed", all.rank() == 2 ? "a" : "b"); });
               }),
               Contains("the seed of rank 2 differs from that of rank 0"));
    CHECK_THAT(message_of<Error>([] {
                   run_thread_ranks(2, [](Communicator& all) {
                       std::vector<std::byte> bytes;
                       all.broadcast(bytes, 2);
                   });
               }),
               Contains("rank 2 of 2"));
}

TEST_CASE("The end of an inner call of together() does not pass for that of an outer one") {
    CHECK_THAT(message_of<Error>([] {
                   run_thread_ranks(2, [](Communicator& all) {
                       if (all.rank() == 0) all.together([] {});
                   });
               }),
               Contains("rank 0 is at the end of its work (level 2), rank 1 at the end of its work (level 1)"));
}

TEST_CASE("A call outside of together() is refused, because nobody would hear of an error") {
    SingleRank alone;
    CHECK_THAT(message_of<Error>([&] { alone.synchronize(); }), Contains("outside of together()"));
}
