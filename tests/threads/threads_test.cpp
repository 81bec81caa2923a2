// SPDX-License-Identifier: MIT
//
// What several threads may do at once, built with ThreadSanitizer: run one program, share a pool of threads.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "intq/kernels/table/kernel_table.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/tensor/random.hpp"
#include "intq/tensor/thread_pool.hpp"
#include "support/catch.hpp"
#include "support/same_bytes.hpp"

namespace {

using namespace intq;
using program::OwnedProgram;
using program::ProgramBuilder;
using test::same_bytes;

constexpr index_t channels = 3, side = 6;

/// Images of (3, 6, 6): quantize, relu, max pool, requantize, dequantize.
std::shared_ptr<OwnedProgram> small_program() {
    static constexpr const kernels::KernelTable& table = kernels::kernel_table<target::fp32, simd::scalar>;
    ProgramBuilder builder(table, 2);
    const program::LayerName layer{"layer", "Layer"};
    const Shape image(2, channels, side, side), half(2, channels, side / 2, side / 2);
    const QParams fine = QParams::per_tensor(0.02f, 3, DType::int8),
                  coarse = QParams::per_tensor(0.05f, -5, DType::int8);
    const arith::CodesOf from{0.02f, 3, DType::int8}, to{0.05f, -5, DType::int8};
    const std::int32_t x = builder.input(Shape(channels, side, side), "x");
    const std::int32_t q =
        builder.push(OpKind::quantize, {x}, builder.tensor(DType::int8, image, fine, layer), nullptr, layer);
    const std::int32_t r = builder.push(OpKind::relu, {q}, builder.tensor(DType::int8, image, fine, layer),
                                        builder.keep_params(arith::OutputCodes{3, 3, 127}), layer);
    const kernels::PoolParams pool{{{2, 2}, {2, 2}, {}, {1, 1}}, {}};
    const std::int32_t p = builder.push(OpKind::max_pool2d, {r}, builder.tensor(DType::int8, half, fine, layer),
                                        builder.keep_params(pool), layer);
    const std::int32_t s =
        builder.push(OpKind::requantize, {p}, builder.tensor(DType::int8, half, coarse, layer),
                     builder.keep_params(*kernels::make_requantize(table.policy(), from, to, {-5, -128, 127})), layer);
    return builder.finish(
        {builder.push(OpKind::dequantize, {s}, builder.tensor(DType::float32, half, {}, layer), nullptr, layer)});
}

/// Images whose pixels tell the samples apart: every result differs.
Tensor images_of(int which) {
    Tensor images = Tensor::empty(Shape(index_t{5}, channels, side, side), DType::float32);
    auto* const pixels = reinterpret_cast<float*>(images.data());
    for (index_t i = 0; i < images.size(); ++i)
        pixels[i] = 0.01f * static_cast<float>((i * 7 + which * 131) % 257) - 1.0f;
    return images;
}

/// body(thread) on `threads` threads that start together.
void run_together(int threads, const std::function<void(int)>& body) {
    std::atomic<int> waiting{threads};
    std::vector<std::thread> all;
    for (int thread = 0; thread < threads; ++thread)
        all.emplace_back([&, thread] {
            --waiting;
            while (waiting > 0) std::this_thread::yield();
            body(thread);
        });
    for (std::thread& thread : all) thread.join();
}

constexpr int threads = 4, runs = 150;

}  // namespace

TEST_CASE("one program runs from several threads at once, and each gets its own result") {
    const auto program = small_program();
    std::vector<Tensor> images, expected;
    for (int i = 0; i < threads; ++i) {
        images.push_back(images_of(i));
        expected.push_back(program->run(images.back()));
    }
    CHECK_FALSE(same_bytes(expected[0], expected[1]));
    std::atomic<int> wrong{0}, hooks{0};
    run_together(threads, [&](int thread) {
        const auto i = static_cast<std::size_t>(thread);
        int calls = 0;
        const auto count = [](void* context, const runtime::Program&, index_t, const void*, index_t) {
            ++*static_cast<int*>(context);
        };
        for (int k = 0; k < runs; ++k)
            wrong += !same_bytes(program->run(images[i], serial, {count, &calls}), expected[i]);
        hooks += calls;
    });
    CHECK(wrong == 0);
    CHECK(hooks == threads * runs * 3 * 5);  // 5 samples are three batches; five instructions
}

TEST_CASE("threads that share a pool of threads get their own results, too") {
    const auto program = small_program();
    ThreadPool pool(3);
    std::vector<Tensor> images, expected;
    for (int i = 0; i < threads; ++i) {
        images.push_back(images_of(i));
        expected.push_back(program->run(images.back()));
    }
    std::atomic<int> wrong{0};
    run_together(threads, [&](int thread) {
        const auto i = static_cast<std::size_t>(thread);
        for (int k = 0; k < runs / 3; ++k) wrong += !same_bytes(program->run(images[i], pool.executor()), expected[i]);
    });
    CHECK(wrong == 0);
}

TEST_CASE("what tasks throw reaches the caller, while other threads share the pool") {
    ThreadPool pool(3);
    std::atomic<int> caught{0}, wrong{0};
    run_together(threads, [&](int thread) {
        for (int k = 0; k < runs; ++k) {
            std::vector<int> written(16, 0);  // gone when the call ends: no thread may be in a task then
            try {
                pool.executor()(16, [&](index_t i) {
                    written[static_cast<std::size_t>(i)] = 1;
                    if ((i + k) % 5 == thread) throw Error(std::to_string(thread));
                });
                ++wrong;
            } catch (const Error& error) {
                ++caught;
                wrong += error.what() != std::to_string(thread);
            }
        }
    });
    CHECK(caught == threads * runs);
    CHECK(wrong == 0);
}

TEST_CASE("threads execute one program in arenas of their own") {
    const auto program = small_program();
    const runtime::Program& p = program->program();
    std::atomic<int> wrong{0};
    run_together(threads, [&](int thread) {
        const program::AlignedBytes arena(p.arena_size);
        const Tensor images = images_of(thread), expected = program->run(images);
        for (int k = 0; k < runs; ++k) {
            const index_t bytes = p.tensor(p.inputs[0]).bytes(), out = p.tensor(p.outputs[0]).bytes();
            std::copy(images.data(), images.data() + bytes,
                      static_cast<std::byte*>(runtime::tensor_data(p, arena.data(), p.inputs[0])));
            runtime::execute(p, program->table(), arena.data(), p.max_batch);
            // The first batch, channels last as the arena holds it.
            Tensor got = Tensor::empty(p.tensor(p.outputs[0]).shape, DType::float32, Layout::channels_last);
            const auto* const y = static_cast<const std::byte*>(runtime::tensor_data(p, arena.data(), p.outputs[0]));
            std::copy(y, y + out, got.data());
            got = got.contiguous();
            wrong += !std::equal(got.data(), got.data() + out, expected.data());
        }
    });
    CHECK(wrong == 0);
}

TEST_CASE("threads that take numbers of the one generator get other ones each, and all that one thread would get") {
    const auto streams_of = [](int threads) {
        constexpr std::size_t count = 1200;
        std::vector<std::uint64_t> streams(count);
        std::vector<std::thread> workers;
        manual_seed(5);
        for (int t = 0; t < threads; ++t)
            workers.emplace_back([&, t] {
                for (std::size_t i = static_cast<std::size_t>(t); i < count; i += static_cast<std::size_t>(threads))
                    streams[i] = next_random_stream();
            });
        for (std::thread& worker : workers) worker.join();
        std::sort(streams.begin(), streams.end());
        CHECK(std::adjacent_find(streams.begin(), streams.end()) == streams.end());
        return streams;
    };
    CHECK(streams_of(4) == streams_of(1));
}

TEST_CASE("runs one after another use one arena; runs at once have an arena each, which later ones use again") {
    program::ArenaPool pool(256);
    CHECK(pool.idle() == 1);
    const std::byte* first = nullptr;
    {
        const program::ArenaPool::Lease one(pool);
        first = one.data();
        const program::ArenaPool::Lease other(pool);
        CHECK(other.data() != first);
        CHECK(is_aligned(other.data()));
        CHECK(pool.idle() == 0);
    }
    CHECK(pool.idle() == 2);
    const program::ArenaPool::Lease again(pool);
    CHECK(again.data() == first);
    CHECK(pool.idle() == 1);
}
