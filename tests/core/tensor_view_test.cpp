// SPDX-License-Identifier: MIT
//
// Views: extents that are static or dynamic, layouts, sub-views, and the shapes and channel blocks of views.
#include "intq/core/tensor_view.hpp"

#include <numeric>
#include <vector>

#include "intq/core/channel_blocks.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;

using Four = std::array<index_t, 4>;
constexpr Four nchw{2, 3, 4, 5};

std::vector<int> counted() {
    std::vector<int> values(120);
    std::iota(values.begin(), values.end(), 0);
    return values;
}

}  // namespace

TEST_CASE("view: row_major and channels_last place the same logical index by their own strides") {
    auto data = counted();
    const TensorView<int, 4> rows(data.data(), nchw);
    const TensorView<int, 4, channels_last> pixels(data.data(), nchw);
    CHECK(rows.strides() == Four{60, 20, 5, 1});
    CHECK(pixels.strides() == Four{60, 1, 15, 3});
    for (index_t n = 0; n < 2; ++n)
        for (index_t c = 0; c < 3; ++c)
            for (index_t h = 0; h < 4; ++h)
                for (index_t w = 0; w < 5; ++w) {
                    REQUIRE(rows(n, c, h, w) == ((n * 3 + c) * 4 + h) * 5 + w);
                    REQUIRE(pixels(n, c, h, w) == ((n * 4 + h) * 5 + w) * 3 + c);
                    REQUIRE(&rows[{n, c, h, w}] == &rows(n, c, h, w));
                }
    CHECK(rows.size() == 120);
    CHECK(rows.shape() == Shape{2, 3, 4, 5});
    CHECK_FALSE(rows.empty());
    CHECK(TensorView<int, 4>(data.data(), {2, 0, 4, 5}).empty());
}

TEST_CASE("view: channels_last is row_major below rank 3 and has axis 1 contiguous at every rank above") {
    CHECK(channels_last::strides(std::array<index_t, 2>{3, 4}) == std::array<index_t, 2>{4, 1});
    CHECK(channels_last::strides(std::array<index_t, 3>{2, 3, 4}) == std::array<index_t, 3>{12, 1, 3});
    CHECK(channels_last::strides(std::array<index_t, 5>{2, 3, 4, 5, 6}) == std::array<index_t, 5>{360, 1, 90, 18, 3});
}

TEST_CASE("view: static extents cost no memory and equal dynamic ones") {
    using Static = TensorView<int, 4, row_major, Extents<2, 3, 4, 5>>;
    static_assert(sizeof(Static) == sizeof(void*));
    static_assert(sizeof(TensorView<int, 1>) == 2 * sizeof(void*));
    auto data = counted();
    const Static fixed(data.data());
    const TensorView<int, 4> dynamic_view = fixed;
    CHECK(fixed.extents() == nchw);
    CHECK(dynamic_view.extents() == nchw);
    CHECK(&fixed(1, 2, 3, 4) == &dynamic_view(1, 2, 3, 4));
    const TensorView<int, 4, row_major, Extents<2, 3, dynamic, dynamic>> mixed(data.data(), nchw);
    CHECK(mixed.extent(0) == 2);
    CHECK(mixed.extent(3) == 5);
    CHECK(&mixed(1, 2, 3, 4) == data.data() + 119);
    static_assert(Extents<1, 2>::all_static && !Extents<1, dynamic>::all_static && DynamicExtents<3>::rank == 3);
}

TEST_CASE("view: a mutable view becomes a const one, and any layout a strided one, of the same elements") {
    auto data = counted();
    const TensorView<int, 4, channels_last> pixels(data.data(), nchw);
    const TensorView<const int, 4, channels_last> reader = pixels;
    const TensorView<const int, 4, strided> any = pixels;
    CHECK(&reader(1, 2, 3, 4) == &pixels(1, 2, 3, 4));
    CHECK(&any(1, 2, 3, 4) == &pixels(1, 2, 3, 4));
    CHECK(any.strides() == pixels.strides());
    static_assert(!std::is_constructible_v<TensorView<int, 4>, TensorView<const int, 4>>);
    static_assert(!std::is_constructible_v<TensorView<int, 4>, TensorView<int, 4, channels_last>>);
    static_assert(!std::is_constructible_v<TensorView<int, 4>, TensorView<int, 4, strided>>);
}

TEST_CASE("view: a sub-view and a selection share the elements of their part, in both layouts and again") {
    auto data = counted();
    const TensorView<int, 4> rows(data.data(), nchw);
    const TensorView<int, 4, channels_last> pixels(data.data(), nchw);
    const auto check = [](const auto& view) {
        const auto part = view.sub_view(3, 1, 3).sub_view(1, 2, 1);
        REQUIRE(part.extents() == Four{2, 1, 4, 3});
        for (index_t h = 0; h < 4; ++h)
            for (index_t w = 0; w < 3; ++w) REQUIRE(&part(1, 0, h, w) == &view(1, 2, h, w + 1));
        const auto plane = view.select(1, 2);
        REQUIRE(plane.extents() == std::array<index_t, 3>{2, 4, 5});
        REQUIRE(&plane(1, 3, 4) == &view(1, 2, 3, 4));
        const auto row = plane.select(0, 1).select(0, 3);
        REQUIRE(row.extents() == std::array<index_t, 1>{5});
        REQUIRE(&row(4) == &view(1, 2, 3, 4));
        row(4) = -7;
        REQUIRE(view(1, 2, 3, 4) == -7);
        REQUIRE(view.sub_view(0, 2, 0).empty());
    };
    check(rows);
    check(pixels);
}

TEST_CASE("view: strides may be negative or zero") {
    auto data = counted();
    const TensorView<int, 1, strided> backward(data.data() + 9, {10}, {-1});
    CHECK(backward(0) == 9);
    CHECK(backward(9) == 0);
    const TensorView<int, 2, strided> repeated(data.data() + 5, {3, 4}, {0, 0});
    CHECK(repeated(2, 3) == 5);
    CHECK(repeated.size() == 12);
    CHECK_FALSE(backward.is_contiguous());
    CHECK_FALSE(repeated.is_contiguous());
}

TEST_CASE("view: contiguous is what fills one run of addresses") {
    auto data = counted();
    const TensorView<int, 4> rows(data.data(), nchw);
    CHECK(rows.is_contiguous());
    CHECK(TensorView<int, 4, strided>(rows).is_contiguous());
    CHECK(TensorView<int, 4, strided>(TensorView<int, 4, channels_last>(data.data(), nchw)).is_contiguous());
    CHECK(rows.sub_view(0, 1, 1).strides() == rows.strides());
    CHECK_FALSE(rows.sub_view(3, 0, 4).is_contiguous());
    CHECK(rows.select(0, 1).is_contiguous());
    CHECK_FALSE(rows.select(3, 1).is_contiguous());
}

TEST_CASE("view: works in a constant expression") {
    constexpr int result = [] {
        int data[6]{1, 2, 3, 4, 5, 6};
        const TensorView<int, 2> view(data, {2, 3});
        view(1, 0) = 40;
        return view.select(0, 1)(0) + view.sub_view(1, 2, 1)(0, 0);
    }();
    static_assert(result == 43);
    CHECK(result == 43);
}

TEST_CASE("shape: rank, size and equality of the extents that count") {
    Shape shape{2, 3};
    CHECK(shape.rank == 2);
    CHECK(shape.size() == 6);
    CHECK(Shape{}.size() == 1);
    CHECK(Shape{4, 0}.size() == 0);
    CHECK(shape != Shape{2, 3, 1});
    CHECK(shape != Shape{3, 2});
    Shape other{2, 3, 9};
    other.rank = 2;  // an extent beyond the rank does not count
    CHECK(shape == other);
    shape[1] = 5;
    CHECK(shape == Shape{2, 5});
}

TEST_CASE("channel blocks: the channel of every element in memory, for both layouts and every axis") {
    auto data = counted();
    const auto check = [](const auto& view) {
        for (int axis = -1; axis < 4; ++axis) {
            const ChannelBlocks blocks = channel_blocks(view, axis);
            REQUIRE(blocks.size() == view.size());
            if (axis < 0) REQUIRE(blocks.channels == 1);
            for (index_t n = 0; n < 2; ++n)
                for (index_t c = 0; c < 3; ++c)
                    for (index_t h = 0; h < 4; ++h)
                        for (index_t w = 0; w < 5; ++w) {
                            const index_t memory = &view(n, c, h, w) - view.data();
                            const index_t expected = axis < 0 ? 0 : Four{n, c, h, w}[static_cast<std::size_t>(axis)];
                            REQUIRE(memory / blocks.inner % blocks.channels == expected);
                        }
        }
    };
    check(TensorView<int, 4>(data.data(), nchw));
    check(TensorView<int, 4, channels_last>(data.data(), nchw));
    const ChannelBlocks none = channel_blocks(TensorView<int, 4>(data.data(), {2, 0, 4, 5}), 1);
    CHECK(none.size() == 0);
}
