// SPDX-License-Identifier: MIT
#include "intq/tensor/tensor.hpp"

#include <cstdint>

#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using intq::Tensor;
using test::message_of;

TEST_CASE("A new tensor is aligned, row_major and of the shape that was asked") {
    for (const index_t size : {0, 1, 3, 64, 1000}) {
        const Tensor tensor = Tensor::zeros(Shape(size), DType::int8);
        CHECK(reinterpret_cast<std::uintptr_t>(tensor.data()) % Tensor::alignment == 0);
        CHECK(tensor.size() == size);
    }
    const Tensor image = Tensor::empty(Shape(2, 3, 4, 5));
    CHECK(image.dtype() == DType::float32);
    CHECK(image.layout() == Layout::row_major);
    CHECK(image.bytes() == 2 * 3 * 4 * 5 * 4);
    CHECK(image.extent(-1) == 5);
    CHECK_FALSE(Tensor().defined());
    CHECK(Tensor().size() == 0);
}

TEST_CASE("Shapes that are negative or do not fit in memory are refused") {
    CHECK(message_of<Error>([] { Tensor::empty(Shape(2, -1)); }).find("negative") != std::string::npos);
    const index_t huge = index_t{1} << 40;
    CHECK(message_of<Error>([&] { Tensor::empty(Shape(huge, huge)); }).find("does not fit in memory") !=
          std::string::npos);
    // Its strides would not fit.
    CHECK(message_of<Error>([&] { Tensor::empty(Shape(0, huge, huge)); }).find("does not fit in memory") !=
          std::string::npos);
    CHECK(message_of<Error>([] { Tensor::from(Shape(2), {1.0f}); }).find("has 2 elements, given 1") !=
          std::string::npos);
}

TEST_CASE("view checks dtype, rank and layout, and its message names both sides") {
    Tensor image = Tensor::zeros(Shape(1, 2, 3, 4), DType::int8, Layout::channels_last);
    image.view<std::int8_t, 4, channels_last>()(0, 1, 2, 3) = 7;
    CHECK(image.view<const std::int8_t, 4, strided>()(0, 1, 2, 3) == 7);
    CHECK(image.flat<std::int8_t>()[(2 * 4 + 3) * 2 + 1] == 7);

    CHECK(message_of<Error>([&] {
              image.view<float, 4, channels_last>();
          }).find("int8 of shape (1, 2, 3, 4), channels_last, asked for float32") != std::string::npos);
    CHECK(message_of<Error>([&] { image.view<std::int8_t, 4>(); }).find("asked for rank 4, row_major") !=
          std::string::npos);
    CHECK(message_of<Error>([&] { image.view<std::int8_t, 3, strided>(); }).find("asked for rank 3") !=
          std::string::npos);
    CHECK(message_of<Error>([] { Tensor().flat<float>(); }).find("undefined") != std::string::npos);
}

TEST_CASE("A tensor whose bytes lie in both layouts gives both views without a copy") {
    Tensor pooled = Tensor::zeros(Shape(2, 5, 1, 1));
    CHECK(pooled.view<float, 4, channels_last>().data() == pooled.view<float, 4>().data());
    CHECK(pooled.to_layout(Layout::channels_last).shares_buffer_with(pooled));
}

TEST_CASE("A tensor without elements is moved in no time, however large its other extents are") {
    const index_t large = index_t{1} << 37;
    for (const Shape& shape : {Shape(200, 8, large, 8, 0), Shape(0, 8, large), Shape(8, large, 0)}) {
        const Tensor empty = Tensor::empty(shape, DType::int16).to_layout(Layout::channels_last);
        CHECK(empty.shape() == shape);
        CHECK(empty.reshape(Shape(index_t{0})).size() == 0);
    }
}

TEST_CASE("to_layout moves each element to its place and back, for every element size") {
    const auto check = [](auto zero) {
        using T = decltype(zero);
        Tensor tensor = Tensor::empty(Shape(2, 3, 4, 5), dtype_of<T>);
        T next = 0;
        for (T& value : tensor.flat<T>()) value = next++;
        const Tensor last = tensor.to_layout(Layout::channels_last);
        const auto from = tensor.view<const T, 4>();
        const auto to = last.view<const T, 4, channels_last>();
        for (index_t n = 0; n < 2; ++n)
            for (index_t c = 0; c < 3; ++c)
                for (index_t h = 0; h < 4; ++h)
                    for (index_t w = 0; w < 5; ++w) REQUIRE(from(n, c, h, w) == to(n, c, h, w));
        const Tensor back = last.contiguous();
        CHECK(std::equal(tensor.flat<T>().begin(), tensor.flat<T>().end(), back.flat<T>().begin()));
        CHECK_FALSE(last.shares_buffer_with(tensor));
    };
    check(std::int8_t{});
    check(std::int16_t{});
    check(float{});
    check(std::int64_t{});
}

TEST_CASE("Copies share elements, clone does not, and reshape shares those of a row_major tensor") {
    Tensor tensor = Tensor::from(Shape(2, 3), {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f});
    Tensor handle = tensor, copy = tensor.clone(), column = tensor.reshape(Shape(6, 1));
    tensor.flat<float>()[0] = 9.0f;
    CHECK(handle.flat<float>()[0] == 9.0f);
    CHECK(copy.flat<float>()[0] == 1.0f);
    CHECK(column.view<float, 2>()(0, 0) == 9.0f);
    CHECK_THROWS_AS(tensor.reshape(Shape(4)), Error);

    const Tensor second = tensor.batch(1, 1);
    CHECK(second.shape() == Shape(1, 3));
    CHECK(second.flat<float>()[0] == 4.0f);
    CHECK_THROWS_AS(tensor.batch(1, 2), Error);
}

TEST_CASE("qparams belong to the handle, and a reshape drops the axis of per-channel ones") {
    Tensor weight = Tensor::zeros(Shape(2, 3), DType::int8);
    weight.set_qparams(intq::OwnedQParams::per_channel({0.5f, 0.25f}, 0, DType::int8));
    CHECK(weight.clone().qparams() == weight.qparams());
    CHECK_FALSE(weight.reshape(Shape(6)).qparams().has_value());
    weight.set_qparams(intq::OwnedQParams::per_tensor(0.5f, DType::int8));
    CHECK(weight.reshape(Shape(6)).qparams()->scale() == 0.5f);
    CHECK(weight.qparams()->view().quant_max() == 127);
}
