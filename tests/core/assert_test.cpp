// SPDX-License-Identifier: MIT
//
// Preconditions at INTQ_ASSERT_LEVEL 2 with a handler that throws: a broken one is reported, a kept one is not.
#include "intq/core/assert.hpp"

#include <string>

#include "intq/arith/rounding.hpp"
#include "intq/core/channel_blocks.hpp"
#include "intq/core/qparams.hpp"
#include "intq/core/workspace.hpp"
#include "support/catch.hpp"

static_assert(INTQ_ASSERT_LEVEL == 2, "this test is built at assert level 2");

namespace {

using namespace intq;

struct Broken {
    std::string condition;
    std::string file;
    int line = 0;
};

[[noreturn]] void throw_broken(const char* condition, const char* file, int line) {
    throw Broken{condition, file, line};
}

/// Installs the throwing handler while it lives.
class ThrowingHandler {
public:
    ThrowingHandler() : former_(set_assert_handler(&throw_broken)) {}
    ~ThrowingHandler() { set_assert_handler(former_); }
    ThrowingHandler(const ThrowingHandler&) = delete;
    ThrowingHandler& operator=(const ThrowingHandler&) = delete;

private:
    AssertHandler former_;
};

int data[6]{0, 1, 2, 3, 4, 5};

}  // namespace

TEST_CASE("assert: the handler receives the condition and its place, and the former one comes back") {
    {
        const ThrowingHandler handler;
        try {
            const TensorView<int, 2> view(data, {2, 3});
            static_cast<void>(view(2, 0));
            FAIL("nothing was reported");
        } catch (const Broken& broken) {
            CHECK(broken.condition.find("index[axis] < extents_") != std::string::npos);
            CHECK(broken.file.find("tensor_view.hpp") != std::string::npos);
            CHECK(broken.line > 0);
        }
        CHECK(set_assert_handler(&throw_broken) == &throw_broken);
    }
    AssertHandler standard = set_assert_handler(nullptr);
    CHECK(standard != &throw_broken);
    CHECK(set_assert_handler(nullptr) == standard);  // null restores the standard one, which traps
}

TEST_CASE("assert: indices, parts and selections of a view outside its extents") {
    const ThrowingHandler handler;
    const TensorView<int, 2> view(data, {2, 3});
    CHECK(view(1, 2) == 5);
    CHECK_THROWS_AS(view(0, 3), Broken);
    CHECK_THROWS_AS(view(-1, 0), Broken);
    CHECK_THROWS_AS(view.extent(2), Broken);
    CHECK_NOTHROW(view.sub_view(1, 1, 2));
    CHECK_NOTHROW(view.sub_view(1, 3, 0));
    CHECK_THROWS_AS(view.sub_view(1, 1, 3), Broken);
    CHECK_THROWS_AS(view.sub_view(1, -1, 1), Broken);
    CHECK_THROWS_AS(view.sub_view(2, 0, 1), Broken);
    CHECK_NOTHROW(view.select(0, 1));
    CHECK_THROWS_AS(view.select(0, 2), Broken);
    CHECK_THROWS_AS(view.select(-1, 0), Broken);
}

TEST_CASE("assert: values that contradict static extents") {
    const ThrowingHandler handler;
    using Fixed = Extents<2, dynamic>;
    CHECK_NOTHROW(Fixed({2, 9}));
    CHECK_THROWS_AS(Fixed({3, 9}), Broken);
    const TensorView<int, 2> view(data, {3, 2});
    using FixedView = TensorView<int, 2, row_major, Extents<2, 3>>;
    CHECK_THROWS_AS(FixedView(view), Broken);
    CHECK_NOTHROW(FixedView(TensorView<int, 2>(data, {2, 3})));
}

TEST_CASE("assert: axes of a shape, the value of a refused result, a result of ok") {
    const ThrowingHandler handler;
    Shape shape{2, 3};
    CHECK(shape[1] == 3);
    CHECK_THROWS_AS(shape[2], Broken);
    CHECK_THROWS_AS(shape[-1], Broken);
    const Result<int> refused = Status{StatusCode::missing, OpKind::add, Field::bias, 0, 0};
    CHECK_THROWS_AS(*refused, Broken);
    CHECK_THROWS_AS(refused.value(), Broken);
    CHECK_THROWS_AS(Result<int>(Status{}), Broken);
}

TEST_CASE("assert: channels of qparams, unequal counts, blocks of what is not contiguous") {
    const ThrowingHandler handler;
    const float scales[]{1.0f, 2.0f};
    const std::int32_t zero_points[]{0, 0, 0};
    CHECK_THROWS_AS(QParams::per_channel(scales, zero_points, 0, -128, 127), Broken);
    const QParams qparams = QParams::per_channel(scales, {}, 0, -128, 127);
    CHECK(qparams.scale(1) == 2.0f);
    CHECK_THROWS_AS(qparams.scale(2), Broken);
    CHECK_THROWS_AS(qparams.zero_point(-1), Broken);
    const TensorView<int, 2> view(data, {2, 3});
    CHECK_THROWS_AS(channel_blocks(view.sub_view(1, 0, 2), 1), Broken);
    volatile int axis = 2;  // a constant, and g++ sees what would follow a handler that returned
    CHECK_THROWS_AS(channel_blocks(view, axis), Broken);
}

TEST_CASE("assert: a cursor beyond its buffer, and shifts as wide as their type") {
    const ThrowingHandler handler;
    alignas(buffer_alignment) std::byte storage[128];
    BufferCursor cursor(storage, 128);
    CHECK_NOTHROW(cursor.take<std::byte>(65));
    CHECK_THROWS_AS(cursor.take<std::byte>(1), Broken);
    CHECK(arith::shift_half_up(INT32_MAX, 31) == 1);
    CHECK_THROWS_AS(arith::shift_half_up(1, 32), Broken);
    CHECK_THROWS_AS(arith::shift_floor(1, -1), Broken);
}
