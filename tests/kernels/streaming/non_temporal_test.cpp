// SPDX-License-Identifier: MIT
//
// Results so large that they are written past the caches: the same bytes as in small pieces, wherever they begin, and
// nothing beside them.
#include "intq/kernels/streaming/non_temporal.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "intq/arith/fp32.hpp"
#include "intq/kernels/streaming/dequantize.hpp"
#include "intq/kernels/streaming/elementwise.hpp"
#include "intq/kernels/streaming/fake_quantize.hpp"
#include "support/catch.hpp"

using namespace intq;

namespace {

constexpr index_t margin = 64;
constexpr index_t piece = 100000;  // results that stay in the caches

/// `size` elements that begin `offset` elements behind a line of memory, with a margin on either side.
template <class T> struct Result {
    explicit Result(index_t size, index_t offset) : memory(static_cast<std::size_t>(size + 2 * margin + 64), T{77}) {
        const auto address = reinterpret_cast<std::uintptr_t>(memory.data() + margin);
        const auto to_line = static_cast<index_t>((64 - address % 64) % 64 / sizeof(T));
        data = memory.data() + margin + to_line + offset;
    }
    std::vector<T> memory;
    T* data;
};

/// Runs `run(first, count, to)` on all elements at once and in pieces.
template <class T, class Run> void check_like_pieces(index_t size, index_t offset, Run&& run) {
    REQUIRE(kernels::detail::is_non_temporal(size * static_cast<index_t>(sizeof(T))) == simd::has_non_temporal_store);
    REQUIRE_FALSE(kernels::detail::is_non_temporal(piece * static_cast<index_t>(sizeof(T))));
    Result<T> whole(size, offset), pieces(size, offset);
    run(0, size, whole.data);
    for (index_t first = 0; first < size; first += piece)
        run(first, size - first < piece ? size - first : piece, pieces.data + first);
    const auto of = [&](const Result<T>& result) {
        return std::vector<T>(result.data - margin, result.data + size + margin);
    };
    CHECK((of(whole) == of(pieces)));  // in brackets: Catch would print millions of elements
}

template <class T> TensorView<T, 1> view(T* data, index_t count) { return {data, {count}}; }

const QParams qparams = QParams::per_tensor(0.02f, 3, DType::int8);

}  // namespace

TEST_CASE("Large results are the same bytes as small ones") {
    const index_t offset = GENERATE(0, 1, 13);
    const index_t bytes = kernels::detail::min_non_temporal + 37, floats = bytes / 4 + 5;
    std::mt19937 random(static_cast<unsigned>(offset));
    std::vector<float> x(static_cast<std::size_t>(bytes));
    for (float& value : x) value = static_cast<float>(random() % 8000) * 0.001f - 4.0f;
    std::vector<std::int8_t> codes(static_cast<std::size_t>(bytes));
    for (std::int8_t& code : codes) code = static_cast<std::int8_t>(random());

    SECTION("quantize")
    check_like_pieces<std::int8_t>(bytes, offset, [&](index_t first, index_t count, std::int8_t* to) {
        kernels::quantize(view(x.data() + first, count), qparams, {}, view(to, count));
    });
    SECTION("dequantize")
    check_like_pieces<float>(floats, offset, [&](index_t first, index_t count, float* to) {
        kernels::dequantize(view(codes.data() + first, count), qparams, view(to, count));
    });
    SECTION("fake-quantize")
    check_like_pieces<float>(floats, offset, [&](index_t first, index_t count, float* to) {
        kernels::fake_quantize(view(x.data() + first, count), qparams, {}, view(to, count));
    });
    SECTION("add, in place")
    check_like_pieces<std::int8_t>(bytes, offset, [&](index_t first, index_t count, std::int8_t* to) {
        const arith::CodesOf in{0.02f, 0, DType::int8}, out{0.031f, 0, DType::int8};
        const auto params = arith::make_add(target::fp32::policy, in, in, out, {0, -128, 127});
        REQUIRE(params);
        std::copy_n(codes.data() + first, count, to);
        kernels::add_codes<simd::default_backend, arith::float_scale, std::int8_t>(
            {&*params, to, codes.data() + first, to, count, &serial});
    });
}
