// SPDX-License-Identifier: MIT
//
// Operators without weights as functions on views: by logical index against the oracle and the formulas, in both orders
// of memory, and what their checks refuse.
#include "intq/kernels/views/views.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <type_traits>
#include <vector>

#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/tflite.hpp"
#include "kernels/oracle_bridge.hpp"
#include "reference/argmax.hpp"
#include "reference/layer_norm.hpp"
#include "reference/matmul.hpp"
#include "reference/softmax.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/tensors.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using Index = std::array<index_t, 4>;

template <class Code, class Order> using Images = TestTensor<Code, 4, Order>;
template <class View> using ConstOf = TensorView<const typename View::value_type, 4, typename View::layout_type>;

template <class View> ConstOf<View> reader(const View& view) { return view; }

std::int64_t code_at(const oracle::Tensor& t, const Index& i) { return oracle::at(t, i[0], i[1], i[2], i[3]); }
Index extents_of(const oracle::Tensor& t) { return {t.n, t.c, t.h, t.w}; }

template <class Code, class Order> Images<Code, Order> images_of(const oracle::Tensor& t) {
    Images<Code, Order> images(extents_of(t));
    images.fill([&](const Index& i) { return static_cast<Code>(code_at(t, i)); });
    return images;
}

/// Elements of a view that differ from expected(index).
template <class View, class Expected> int count_wrong(const View& view, Expected&& expected) {
    int wrong = 0;
    for_each_index(view.extents(), [&](const Index& i) { wrong += view[i] != expected(i); });
    return wrong;
}
template <class View> int count_other(const View& view, const oracle::Tensor& expected) {
    return count_wrong(view, [&](const Index& i) { return code_at(expected, i); });
}

template <class Target> oracle::Target oracle_of() {
    return std::is_same_v<Target, target::fp32> ? oracle::fp32()
           : Target::policy.zero_points         ? oracle::tflite_double()
                                                : oracle::bayes();
}

template <class Target, class Code> Codes draw_codes(Draw& draw, float scale) {
    constexpr DType dtype = dtype_of<Code>;
    const auto zero_point = static_cast<std::int32_t>(draw.between(-20, 20));
    return {scale * draw.real(0.7f, 1.4f), Target::policy.zero_points ? zero_point : 0, dtype};
}

template <class Code> constexpr float unit = std::is_same_v<Code, std::int8_t> ? 0.02f : 0.0001f;

/// Calls check with each order, type of codes and target.
template <class Visit> void for_each_kind(Visit&& visit) {
    const auto of_target = [&](auto target) {
        visit(target, std::int8_t{}, row_major{});
        visit(target, std::int8_t{}, channels_last{});
        visit(target, std::int16_t{}, row_major{});
        visit(target, std::int16_t{}, channels_last{});
    };
    of_target(target::fp32{});
    of_target(target::tflite<>{});
    of_target(target::bpu<march::bayes>{});
}

oracle::Pool2d pool_of(const Window2d& w) {
    oracle::Pool2d pool;
    pool.kernel_h = w.kernel.height, pool.kernel_w = w.kernel.width;
    pool.stride_h = w.stride.height, pool.stride_w = w.stride.width;
    pool.pad_top = w.padding.top, pool.pad_left = w.padding.left;
    pool.pad_bottom = w.padding.bottom, pool.pad_right = w.padding.right;
    pool.count_include_pad = true;
    return pool;
}

const Executor& backward() {
    static BackwardExecutor tasks;
    static const Executor executor = tasks.executor();
    return executor;
}

}  // namespace

TEST_CASE("requantize, add, sub, mul and relu on views give the oracle's codes in both orders") {
    for_each_kind([](auto target_tag, auto code, auto order) {
        using Target = decltype(target_tag);
        using Code = decltype(code);
        using Order = decltype(order);
        const oracle::Target target = oracle_of<Target>();
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
            INFO(Target::policy.name << " " << name_of(dtype_of<Code>) << " seed " << seed);
            Draw draw(seed);
            const auto in = draw_codes<Target, Code>(draw, unit<Code>),
                       other = draw_codes<Target, Code>(draw, unit<Code>),
                       out = draw_codes<Target, Code>(draw, 2 * unit<Code>);
            const Codes product =
                draw_codes<Target, Code>(draw, unit<Code> * (std::is_same_v<Code, std::int8_t> ? 1 : 3));
            const auto activation = static_cast<Activation>(seed % 3);
            const oracle::Tensor x = draw_tensor(draw, 2, 3, 4, 5, in), y = draw_tensor(draw, 2, 3, 4, 5, other);
            auto x_images = images_of<Code, Order>(x), y_images = images_of<Code, Order>(y);
            Images<Code, Order> result(extents_of(x));
            const auto a = reader(x_images.view()), b = reader(y_images.view());
            const auto to = result.view();

            const auto rescale = kernels::make_requantize<Target>(in.codes_of(), out.codes_of());
            REQUIRE(rescale.ok());
            CHECK(kernels::check_requantize<Target>(a, *rescale, to).ok());
            kernels::requantize<Target>(a, *rescale, to, backward());
            CHECK(count_other(to, oracle::requantize(target, x, in.for_oracle(), out.for_oracle())) == 0);

            const auto binary = [&](oracle::Binary op, const Codes& of) {
                return oracle::binary(target, op, x, in.for_oracle(), y, other.for_oracle(), of.for_oracle(),
                                      for_oracle(activation));
            };
            const auto sum = kernels::make_add<Target>(in.codes_of(), other.codes_of(), out.codes_of(), activation);
            const auto less = kernels::make_sub<Target>(in.codes_of(), other.codes_of(), out.codes_of(), activation);
            const auto times =
                kernels::make_mul<Target>(in.codes_of(), other.codes_of(), product.codes_of(), activation);
            REQUIRE((sum.ok() && less.ok() && times.ok()));
            CHECK(kernels::check_add<Target>(a, b, *sum, to).ok());
            CHECK(kernels::check_mul<Target>(a, b, *times, to).ok());
            kernels::add<Target>(a, b, *sum, to, backward());
            CHECK(count_other(to, binary(oracle::Binary::add, out)) == 0);
            kernels::add<Target>(a, b, *less, to);
            CHECK(count_other(to, binary(oracle::Binary::sub, out)) == 0);
            kernels::mul<Target>(a, b, *times, to, backward());
            CHECK(count_other(to, binary(oracle::Binary::mul, product)) == 0);

            const auto bounds = kernels::make_relu<Target>(in.codes_of(), Activation::relu6);
            REQUIRE(bounds.ok());
            CHECK(kernels::check_relu(a, *bounds, to).ok());
            kernels::relu(a, *bounds, to, backward());
            CHECK(count_other(to, oracle::activate(target, x, in.for_oracle(), oracle::Activation::relu6)) == 0);
            kernels::add<Target>(x_images.view(), b, *sum, x_images.view());  // in place
            CHECK(count_other(x_images.view(), binary(oracle::Binary::add, out)) == 0);
        }
    });
}

TEST_CASE("cat on views goes along every axis, from int8 to int16 too") {
    for_each_kind([](auto target_tag, auto code, auto order) {
        using Target = decltype(target_tag);
        using Code = decltype(code);
        using Order = decltype(order);
        const oracle::Target target = oracle_of<Target>();
        Draw draw(7);
        const Codes out = draw_codes<Target, Code>(draw, unit<Code>);
        const Codes in[] = {draw_codes<Target, std::int8_t>(draw, 0.02f), draw_codes<Target, std::int8_t>(draw, 0.03f)};
        for (int axis = 0; axis < 4; ++axis) {
            INFO(Target::policy.name << " " << name_of(dtype_of<Code>) << " axis " << axis);
            Index extents{2, 3, 4, 5};
            std::vector<oracle::Tensor> x;
            std::vector<Images<std::int8_t, Order>> images;
            for (const index_t extent : {2, 3}) {
                extents[static_cast<std::size_t>(axis)] = extent;
                x.push_back(draw_tensor(draw, extents[0], extents[1], extents[2], extents[3], in[x.size()]));
                images.push_back(images_of<std::int8_t, Order>(x.back()));
            }
            extents[static_cast<std::size_t>(axis)] = 5;
            Images<Code, Order> result(extents);
            const ConstOf<decltype(images[0].view())> views[] = {images[0].view(), images[1].view()};
            std::vector<kernels::RequantizeParams> params;
            for (const Codes& codes : in) {
                const auto made = kernels::make_requantize<Target>(codes.codes_of(), out.codes_of());
                REQUIRE(made.ok());
                params.push_back(*made);
            }
            CHECK(kernels::check_cat<Target>(views, params, axis, result.view()).ok());
            kernels::cat<Target>(views, params, axis, result.view(), backward());
            CHECK(count_wrong(result.view(), [&](Index i) {
                      index_t& along = i[static_cast<std::size_t>(axis)];
                      const std::size_t from = along < 2 ? 0 : 1;
                      along -= from == 0 ? 0 : 2;
                      return oracle::requantize_code(target, code_at(x[from], i), in[from].for_oracle(),
                                                     out.for_oracle());
                  }) == 0);
        }
    });
}

TEST_CASE("Pools, interpolate and pad on images give the oracle's codes and those of the formulas") {
    for_each_kind([](auto target_tag, auto code, auto order) {
        using Target = decltype(target_tag);
        using Code = decltype(code);
        if constexpr (std::is_same_v<decltype(order), channels_last>) {
            const oracle::Target target = oracle_of<Target>();
            Draw draw(3);
            const auto in = draw_codes<Target, Code>(draw, unit<Code>),
                       out = draw_codes<Target, Code>(draw, unit<Code>);
            const oracle::Tensor x = draw_tensor(draw, 2, 19, 5, 6, in);
            auto images = images_of<Code, channels_last>(x);
            const auto a = reader(images.view());
            INFO(Target::policy.name << " " << name_of(dtype_of<Code>));

            const Window2d padded{.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1, 1, 0}};
            const Window2d inside{.kernel = {3, 2}, .stride = {2, 1}};
            const auto result_of = [](const Window2d& window) {
                const Size2d size = output_size(window, {5, 6});
                return Images<Code, channels_last>({2, 19, size.height, size.width});
            };
            Images<Code, channels_last> largest = result_of(padded), mean = result_of(inside);
            CHECK(kernels::check_max_pool2d(a, padded, largest.view()).ok());
            kernels::max_pool2d(a, padded, largest.view(), backward());
            CHECK(count_other(largest.view(), oracle::max_pool(target, x, in.for_oracle(), pool_of(padded))) == 0);
            for (const auto& to : {in, out}) {
                const auto average = kernels::make_avg_pool2d<Target>(inside, in.codes_of(), to.codes_of());
                REQUIRE(average.ok());
                CHECK(kernels::check_avg_pool2d<Target>(a, inside, *average, mean.view()).ok());
                kernels::avg_pool2d<Target>(a, inside, *average, mean.view(), backward());
                CHECK(count_other(mean.view(),
                                  oracle::avg_pool(target, x, in.for_oracle(), to.for_oracle(), pool_of(inside))) == 0);
            }

            std::vector<arith::ResizeTap> taps(static_cast<std::size_t>(kernels::resize_table_size({10, 18})));
            const auto table = kernels::make_resize_table(arith::Resize::nearest, {5, 6}, {10, 18}, taps);
            REQUIRE(table.ok());
            Images<Code, channels_last> larger({2, 19, 10, 18});
            CHECK(kernels::check_interpolate(a, *table, larger.view()).ok());
            kernels::interpolate(a, *table, larger.view(), backward());
            CHECK(count_wrong(larger.view(), [&](const Index& i) {
                      return code_at(x, {i[0], i[1], i[2] / 2, i[3] / 3});
                  }) == 0);

            const auto border = kernels::make_pad({2, -1, 0, 3}, in.codes_of());
            REQUIRE(border.ok());
            Images<Code, channels_last> field({2, 19, 7, 8});
            CHECK(kernels::check_pad(a, *border, field.view()).ok());
            kernels::pad(a, *border, field.view(), backward());
            CHECK(count_wrong(field.view(), [&](const Index& i) {
                      const bool is_pixel = i[2] >= 2 && i[3] < 5;
                      return is_pixel ? code_at(x, {i[0], i[1], i[2] - 2, i[3] + 1}) : std::int64_t{in.zero_point};
                  }) == 0);
        }
    });
}

TEST_CASE("softmax on views sums along every axis of both orders") {
    const auto check = [](auto order) {
        using Order = decltype(order);
        Draw draw(5);
        const Codes in{0.07f, -9, DType::int8};
        const oracle::Tensor x = draw_tensor(draw, 3, 4, 5, 2, in);
        auto images = images_of<std::int8_t, Order>(x);
        const auto tables = kernels::make_softmax<target::fp32>(in.codes_of());
        REQUIRE(tables.ok());
        for (int axis = 0; axis < 4; ++axis) {
            Images<std::int16_t, Order> result(extents_of(x));
            CHECK(kernels::check_softmax<target::fp32>(reader(images.view()), *tables, axis, result.view()).ok());
            kernels::softmax<target::fp32>(reader(images.view()), *tables, axis, result.view(), backward());
            CHECK(count_wrong(result.view(), [&](const Index& i) {
                      std::vector<std::int64_t> line;
                      Index at = i;
                      index_t& along = at[static_cast<std::size_t>(axis)];
                      for (along = 0; along < extents_of(x)[static_cast<std::size_t>(axis)]; ++along)
                          line.push_back(code_at(x, at));
                      return oracle::softmax_probabilities(
                          line, in.scale)[static_cast<std::size_t>(i[static_cast<std::size_t>(axis)])];
                  }) == 0);
        }
    };
    check(row_major{});
    check(channels_last{});
}

TEST_CASE("log_softmax on views sums along every axis of both orders, also in place") {
    for_each_kind([](auto target_tag, auto code, auto order) {
        using Target = decltype(target_tag);
        using Code = decltype(code);
        using Order = decltype(order);
        INFO(Target::policy.name << " " << name_of(dtype_of<Code>));
        Draw draw(5);
        const auto in = draw_codes<Target, Code>(draw, unit<Code>), out = draw_codes<Target, Code>(draw, unit<Code>);
        const oracle::Tensor x = draw_tensor(draw, 3, 4, 5, 2, in);
        std::vector<std::uint32_t> entries(static_cast<std::size_t>(arith::log_softmax_entries(dtype_of<Code>)));
        const auto numbers = kernels::make_log_softmax<Target>(in.codes_of(), out.codes_of(), entries);
        REQUIRE(numbers.ok());
        CHECK(kernels::make_log_softmax<Target>(in.codes_of(), out.codes_of(), std::span(entries).first(9))
                  .status()
                  .field == Field::storage);
        for (int axis = 0; axis < 4; ++axis) {
            auto images = images_of<Code, Order>(x);
            CHECK(kernels::check_log_softmax(reader(images.view()), *numbers, axis, images.view()).ok());
            kernels::log_softmax<Target>(reader(images.view()), *numbers, axis, images.view(), backward());
            CHECK(count_wrong(images.view(), [&](const Index& i) {
                      std::vector<std::int64_t> line;
                      Index at = i;
                      index_t& along = at[static_cast<std::size_t>(axis)];
                      for (along = 0; along < extents_of(x)[static_cast<std::size_t>(axis)]; ++along)
                          line.push_back(code_at(x, at));
                      return oracle::log_softmax(
                          oracle_of<Target>(), line, in.scale, dtype_of<Code> == DType::int16,
                          out.for_oracle())[static_cast<std::size_t>(i[static_cast<std::size_t>(axis)])];
                  }) == 0);
        }
        auto images = images_of<Code, Order>(x);
        CHECK(kernels::check_log_softmax(reader(images.view()), *numbers, 4, images.view()).field == Field::axis);
        entries[0] = 0;
        CHECK(kernels::check_log_softmax(reader(images.view()), *numbers, 1, images.view()).code ==
              StatusCode::corrupt);
    });
}

TEST_CASE("layer_norm on views is over the last axes of row_major and the channels of channels_last, also in place") {
    for_each_kind([](auto target_tag, auto code, auto order) {
        using Target = decltype(target_tag);
        using Code = decltype(code);
        using Order = decltype(order);
        constexpr bool by_channels = std::is_same_v<Order, channels_last>;
        for (const bool is_centered : {true, false}) {
            INFO(Target::policy.name << " " << name_of(dtype_of<Code>) << " centered " << is_centered);
            Draw draw(7);
            const auto in = draw_codes<Target, Code>(draw, unit<Code>),
                       out = draw_codes<Target, Code>(draw, unit<Code>);
            const oracle::Tensor x = draw_tensor(draw, 3, 4, 5, 2, in);
            auto images = images_of<Code, Order>(x);
            oracle::LayerNorm layer;
            layer.epsilon = 1e-3, layer.is_centered = is_centered;
            const index_t features = by_channels ? 4 : 10;
            for (index_t i = 0; i < features; ++i) {
                layer.weight.push_back(draw.real(-1.0f, 1.0f));
                layer.bias.push_back(is_centered ? draw.real(-1.0f, 1.0f) : 0.0f);
            }
            std::vector<std::int32_t> memory(2 * layer.weight.size());
            const auto numbers =
                is_centered ? kernels::make_layer_norm<Target>(in.codes_of(), out.codes_of(), layer.weight, layer.bias,
                                                               1e-3, memory)
                            : kernels::make_rms_norm<Target>(in.codes_of(), out.codes_of(), layer.weight, 1e-3, memory);
            REQUIRE(numbers.ok());
            CHECK(kernels::check_layer_norm<Target>(reader(images.view()), *numbers, images.view()).ok());
            kernels::layer_norm<Target>(reader(images.view()), *numbers, images.view(), backward());
            CHECK(count_wrong(images.view(), [&](const Index& i) {
                      std::vector<std::int64_t> features_of_place;
                      for (index_t k = 0; k < features; ++k)
                          features_of_place.push_back(
                              code_at(x, by_channels ? Index{i[0], k, i[2], i[3]} : Index{i[0], i[1], k / 2, k % 2}));
                      const index_t place = by_channels ? i[1] : 2 * i[2] + i[3];
                      return oracle::layer_norm(oracle_of<Target>(), features_of_place, in.for_oracle(), layer,
                                                out.for_oracle())[static_cast<std::size_t>(place)];
                  }) == 0);
        }
    });
}

namespace {

/// a times b, whose matrices are the last two axes, of an operand in any order of memory and one that is transposed and
/// the same for all matrices.
template <class Target, class Code, class Order> void check_matmul_on_views() {
    Draw draw(9);
    const auto of_a = draw_codes<Target, Code>(draw, unit<Code>), of_b = draw_codes<Target, Code>(draw, unit<Code>),
               of_y = draw_codes<Target, Code>(draw, 60 * unit<Code>);
    const oracle::Tensor a = draw_tensor(draw, 2, 3, 5, 7, of_a), b = draw_tensor(draw, 2, 1, 6, 7, of_b);
    auto left = images_of<Code, Order>(a), right = images_of<Code, Order>(b);
    const auto turned = kernels::make_permuted(reader(right.view()), {0, 1, 3, 2});
    REQUIRE(turned.ok());
    Images<Code, row_major> result(Index{2, 3, 5, 6});
    const auto params = kernels::make_matmul<Target>(of_a.codes_of(), of_b.codes_of(), of_y.codes_of(), 7);
    REQUIRE(params.ok());
    REQUIRE(kernels::check_matmul<Target>(reader(left.view()), *turned, *params, result.view()).ok());
    const index_t bytes = kernels::matmul_workspace_size(left.view(), *turned);
    GuardedBuffer workspace(static_cast<std::size_t>(bytes));
    kernels::matmul<Target>(reader(left.view()), *turned, *params, result.view(),
                            {workspace.template as<std::byte>(), bytes}, backward());
    CHECK(workspace.is_intact());
    oracle::Matmul layer;
    layer.rows = layer.columns = 1, layer.inner = 7;
    layer.a = of_a.for_oracle(), layer.b = of_b.for_oracle(), layer.out = of_y.for_oracle();
    CHECK(count_wrong(result.view(), [&](const Index& i) {
              std::vector<std::int64_t> row, column;
              for (index_t k = 0; k < 7; ++k) {
                  row.push_back(code_at(a, {i[0], i[1], i[2], k}));
                  column.push_back(code_at(b, {i[0], 0, i[3], k}));
              }
              return oracle::matmul(oracle_of<Target>(), layer, row, column)[0];
          }) == 0);
}

}  // namespace

TEST_CASE("matmul on views reads operands by their strides and repeats an extent of 1") {
    for_each_kind([](auto target_tag, auto code, auto order) {
        using Target = decltype(target_tag);
        using Code = decltype(code);
        INFO(Target::policy.name << " " << name_of(dtype_of<Code>));
        constexpr arith::OperatorUse use{.op = OpKind::matmul, .input = dtype_of<Code>, .output = dtype_of<Code>};
        if constexpr (arith::check_constraints(Target::policy.constraints, use).ok())
            check_matmul_on_views<Target, Code, decltype(order)>();
    });
}

TEST_CASE("embedding on views copies the rows of its ids, and names the first id without a row") {
    const auto check = []<class Code>(Code) {
        std::vector<Code> table(5 * 3), y(4 * 3, Code{77});
        for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<Code>(i * 7 % 100);
        std::vector<std::int32_t> ids{4, 0, 4, 2};
        const TensorView<const std::int32_t, 1> of_ids(ids.data(), {4});
        const TensorView<const Code, 2> of_table(table.data(), {5, 3});
        const TensorView<Code, 2> of_y(y.data(), {4, 3});
        REQUIRE(kernels::check_embedding(of_ids, of_table, of_y).ok());
        kernels::embedding(of_ids, of_table, of_y, backward());
        for (std::size_t i = 0; i < y.size(); ++i)
            CHECK(y[i] == table[static_cast<std::size_t>(ids[i / 3]) * 3 + i % 3]);
        for (const std::int32_t id : {-1, 5}) {
            ids[2] = id;
            const Status refused = kernels::check_embedding(of_ids, of_table, of_y);
            CHECK(refused.code == StatusCode::value_out_of_range);
            CHECK(refused.field == Field::input);
            CHECK(refused.given == id);
        }
        const TensorView<Code, 2> too_wide(y.data(), {3, 4});
        CHECK(kernels::check_embedding(of_ids, of_table, too_wide).code == StatusCode::shape_mismatch);
        const TensorView<const Code, 2> empty(table.data(), {0, 3});
        CHECK(kernels::check_embedding(of_ids, empty, of_y).field == Field::storage);
    };
    check(std::int8_t{});
    check(std::int16_t{});
}

TEST_CASE("index_copy on views replaces the rows of its indices along any axis, and names the first without a row") {
    const auto check = []<class Code>(Code) {
        // (2, 3, 4, 5) channels last: the bytes are (2, 4, 5, 3), so that each axis lies elsewhere than row by row.
        std::vector<Code> memory(2 * 3 * 4 * 5), rows(2 * 3 * 4 * 5);
        for (int axis = 0; axis < 4; ++axis) {
            const index_t extents[] = {2, 3, 4, 5};
            Shape of_source(2, 3, 4, 5);
            of_source[axis] = 2;
            for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<Code>(i % 100);
            for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<Code>(-1 - static_cast<int>(i % 100));
            const std::vector<Code> before = memory;
            const TensorView<Code, 4, channels_last> cache(memory.data(), {2, 3, 4, 5});
            const TensorView<const Code, 4, channels_last> old(before.data(), {2, 3, 4, 5});
            const TensorView<const Code, 4, channels_last> source(
                rows.data(), {of_source[0], of_source[1], of_source[2], of_source[3]});
            std::vector<std::int32_t> index{static_cast<std::int32_t>(extents[axis] - 1), 0};
            const TensorView<const std::int32_t, 1> at(index.data(), {2});
            REQUIRE(kernels::check_index_copy(at, source, cache, axis).ok());
            kernels::index_copy(at, source, cache, axis, backward());
            CHECK(count_wrong(cache, [&](const Index& i) -> std::int64_t {
                      Index from = i;
                      const bool is_replaced = i[static_cast<std::size_t>(axis)] == index[0] ||
                                               i[static_cast<std::size_t>(axis)] == index[1];
                      from[static_cast<std::size_t>(axis)] = i[static_cast<std::size_t>(axis)] == index[0] ? 0 : 1;
                      return is_replaced ? source(from[0], from[1], from[2], from[3]) : old(i[0], i[1], i[2], i[3]);
                  }) == 0);
            for (const std::int32_t row : {-1, static_cast<int>(extents[axis])}) {
                index[1] = row;
                const Status refused = kernels::check_index_copy(at, source, cache, axis);
                CHECK(refused.code == StatusCode::value_out_of_range);
                CHECK(refused.field == Field::input);
                CHECK(refused.given == row);
            }
            const TensorView<const std::int32_t, 1> one(index.data(), {1});
            CHECK(kernels::check_index_copy(one, source, cache, axis).code == StatusCode::shape_mismatch);
            CHECK(kernels::check_index_copy(at, source, cache, 4).field == Field::axis);
        }
    };
    check(std::int8_t{});
    check(std::int16_t{});
}

TEST_CASE("argmax on views is the first of the largest along every axis of both orders, and names what does not fit") {
    for_each_kind([](auto target_tag, auto code, auto order) {
        using Target = decltype(target_tag);
        using Code = decltype(code);
        using Order = decltype(order);
        Draw draw(6);
        const oracle::Tensor x = draw_tensor(draw, 3, 4, 5, 2, draw_codes<Target, Code>(draw, unit<Code>));
        auto images = images_of<Code, Order>(x);
        const auto view = reader(images.view());
        for (int axis = 0; axis < 4; ++axis) {
            const index_t count = extents_of(x)[static_cast<std::size_t>(axis)];
            std::vector<std::int32_t> places(static_cast<std::size_t>(3 * 4 * 5 * 2 / count));
            REQUIRE(kernels::check_argmax(view, axis, places).ok());
            kernels::argmax(view, axis, places, backward());
            // In the order of memory, which is that of the outputs' indices.
            const std::vector<int> order_of_axes =
                std::is_same_v<Order, channels_last> ? std::vector<int>{0, 2, 3, 1} : std::vector<int>{0, 1, 2, 3};
            int wrong = 0;
            for (std::size_t at = 0; at < places.size(); ++at) {
                Index index{};
                auto rest = static_cast<index_t>(at);
                for (auto other = order_of_axes.rbegin(); other != order_of_axes.rend(); ++other) {
                    if (*other == axis) continue;
                    const index_t extent = extents_of(x)[static_cast<std::size_t>(*other)];
                    index[static_cast<std::size_t>(*other)] = rest % extent;
                    rest /= extent;
                }
                std::vector<std::int64_t> line;
                for (index_t k = 0; k < count; ++k) {
                    index[static_cast<std::size_t>(axis)] = k;
                    line.push_back(code_at(x, index));
                }
                wrong += places[at] != oracle::argmax(line);
            }
            CHECK(wrong == 0);
            CHECK(kernels::check_argmax(view, axis, std::span(places).first(1)).field == Field::output);
        }
        CHECK(kernels::check_argmax(view, 4, {}).field == Field::axis);
    });
}

TEST_CASE("matmul on views names what does not fit") {
    using Target = target::fp32;
    std::int8_t memory[512] = {};
    const auto view = [&](index_t n, index_t rows, index_t columns) {
        return TensorView<std::int8_t, 3>(memory, {n, rows, columns});
    };
    const arith::CodesOf codes{0.1f, 0, DType::int8};
    const auto params = *kernels::make_matmul<Target>(codes, codes, codes, 4);
    const auto check = [&](const auto& a, const auto& b, const auto& out, const arith::MatmulParams& given) {
        return kernels::check_matmul<Target>(a, b, given, out);
    };
    constexpr auto shape = StatusCode::shape_mismatch;
    constexpr OpKind op = OpKind::matmul;
    CHECK(check(view(2, 3, 4), view(2, 4, 5), view(2, 3, 5), params).ok());
    CHECK(check(view(1, 3, 4), view(2, 4, 5), view(2, 3, 5), params).ok());
    CHECK(check(view(2, 3, 4), view(2, 5, 4), view(2, 3, 5), params) == Status{shape, op, Field::second_input, 5, 4});
    CHECK(check(view(2, 3, 4), view(3, 4, 5), view(2, 3, 5), params) == Status{shape, op, Field::second_input, 3, 2});
    CHECK(check(view(2, 3, 4), view(2, 4, 5), view(2, 3, 6), params) == Status{shape, op, Field::output, 6, 5});
    CHECK(check(view(2, 3, 0), view(2, 0, 5), view(2, 3, 5), params).field == Field::kernel);
    CHECK(check(view(2, 0, 4), view(2, 4, 5), view(2, 0, 5), params).field == Field::kernel);
    arith::MatmulParams broken = params;
    broken.zero_point[1] = 200;
    CHECK(check(view(2, 3, 4), view(2, 4, 5), view(2, 3, 5), broken).field == Field::zero_point);
    CHECK(kernels::check_matmul<target::bpu<march::bernoulli2>>(view(2, 3, 4), view(2, 4, 5), params, view(2, 3, 5))
              .code == StatusCode::unsupported);
    CHECK(kernels::make_matmul<Target>(codes, codes, codes, 131072).status().code == StatusCode::accumulator_overflow);
}

TEST_CASE("softmax on views is TFLite's where the target has that") {
    const auto check = [](auto target, auto in_code, auto out_code) {
        using Target = decltype(target);
        using In = decltype(in_code);
        using Out = decltype(out_code);
        constexpr bool is_single = Target::policy.requantize == arith::RequantizeRule::single_rounding;
        Draw draw(7);
        const float scale = sizeof(In) == 1 ? 0.07f : 0.0003f;
        const oracle::Tensor x = draw_tensor(draw, 3, 4, 5, 2, {scale, 0, dtype_of<In>});
        auto images = images_of<In, channels_last>(x);
        const auto numbers = kernels::make_softmax<Target, In>({scale, 0, dtype_of<In>});
        REQUIRE(numbers.ok());
        Images<Out, channels_last> result(extents_of(x));
        CHECK(kernels::check_softmax<Target>(reader(images.view()), *numbers, 1, result.view()).ok());
        kernels::softmax<Target>(reader(images.view()), *numbers, 1, result.view(), backward());
        CHECK(count_wrong(result.view(), [&](const Index& i) {
                  std::vector<std::int64_t> line;
                  for (index_t c = 0; c < x.c; ++c) line.push_back(code_at(x, {i[0], c, i[2], i[3]}));
                  if constexpr (sizeof(In) == 1) {
                      const int bits = static_cast<int>(8 * sizeof(Out));
                      return oracle::tflite_softmax(line, scale, bits, is_single)[static_cast<std::size_t>(i[1])];
                  } else {  // near the real value: 2^-15 for each of the terms, and more for the two curves
                      double sum = 0.0;
                      for (const std::int64_t code : line) sum += std::exp(static_cast<double>(code) * double{scale});
                      const double real =
                          std::exp(static_cast<double>(line[static_cast<std::size_t>(i[1])]) * double{scale}) / sum *
                          32768.0;
                      const std::int64_t found = result.view()[i];
                      return std::fabs(static_cast<double>(found) - real) <= 16.0 ? found : std::int64_t{-1};
                  }
              }) == 0);
    };
    check(target::tflite<>{}, std::int8_t{}, std::int8_t{});
    check(target::tflite<>{}, std::int8_t{}, std::int16_t{});
    check(target::tflite<arith::single_rounding>{}, std::int8_t{}, std::int8_t{});
    check(target::tflite<>{}, std::int16_t{}, std::int16_t{});
}

TEST_CASE("lookup_table on views computes any function of a code") {
    const auto check = [](auto code) {
        using Code = decltype(code);
        Draw draw(6);
        const Codes in{unit<Code>, 0, dtype_of<Code>}, out{unit<Code>, 0, dtype_of<Code>};
        const oracle::Tensor x = draw_tensor(draw, 1, 7, 3, 30, in);
        auto images = images_of<Code, channels_last>(x);
        std::vector<Code> entries(kernels::lookup_table_size<Code>);
        const auto half = [](double real) { return real / 2; };
        REQUIRE(kernels::make_lookup_table<Code>(half, in.codes_of(), out.codes_of(), entries).ok());
        Images<Code, channels_last> result(extents_of(x));
        CHECK(kernels::check_lookup_table(reader(images.view()), entries, result.view()).ok());
        kernels::lookup_table(reader(images.view()), entries, result.view(), backward());
        // Half of a code, and half of an odd one up.
        CHECK(count_wrong(result.view(), [&](const Index& i) { return (code_at(x, i) + 1) >> 1; }) == 0);
        REQUIRE(kernels::make_lookup_table<Code>(TableFunction::hard_tanh, {1.0f / 64, 0, dtype_of<Code>},
                                                 {1.0f / 64, 0, dtype_of<Code>}, entries)
                    .ok());
        kernels::lookup_table(images.view(), entries, images.view());  // in place
        if constexpr (std::is_same_v<Code, std::int8_t>)
            CHECK(count_wrong(images.view(),
                              [&](const Index& i) { return std::clamp<std::int64_t>(code_at(x, i), -64, 64); }) == 0);
    };
    check(std::int8_t{});
    check(std::int16_t{});
}

TEST_CASE("lookup_table on views takes tables that stay within a code, and refuses blocks without their knots") {
    Draw draw(16);
    const Codes in{1.0f / 4096, 0, DType::int16}, out{1.0f / 16384, 0, DType::int16};
    const oracle::Tensor x = draw_tensor(draw, 1, 7, 3, 30, in);
    auto images = images_of<std::int16_t, channels_last>(x);
    std::vector<std::int16_t> words(arith::largest_block_table_size);
    const auto size = kernels::make_table_within_a_code(TableFunction::sqrt, in.codes_of(), out.codes_of(), words);
    REQUIRE((size.ok() && arith::is_block_table_size(static_cast<index_t>(*size))));
    const std::span<const std::int16_t> table = std::span(words).first(*size);
    Images<std::int16_t, channels_last> result(extents_of(x));
    REQUIRE(kernels::check_lookup_table(reader(images.view()), table, result.view()).ok());
    kernels::lookup_table(reader(images.view()), table, result.view(), backward());
    CHECK(count_wrong(result.view(), [&](const Index& i) {
              // sqrt(q/4096)·16384 = 256·sqrt(q)
              const double root = code_at(x, i) > 0 ? 256.0 * std::sqrt(static_cast<double>(code_at(x, i))) : 0.0;
              const auto nearest = std::min<std::int64_t>(static_cast<std::int64_t>(root + 0.5), 32767);
              const std::int64_t given = result.view()[i];
              return std::abs(given - nearest) <= 1 ? given : nearest;
          }) == 0);
    words[511] = -1;  // the last block names knots beyond the last
    CHECK(kernels::check_lookup_table(reader(images.view()), table, result.view()) ==
          Status{StatusCode::corrupt, OpKind::lookup_table, Field::storage, 0, 0});
    const auto halved =
        kernels::make_table_within_a_code([](double real) { return real / 2; }, in.codes_of(), in.codes_of(), words);
    CHECK((halved.ok() && *halved == arith::int16_table_size));  // a line needs no more
}

TEST_CASE("move takes slices, permutations and other orders of memory, of every rank") {
    Draw draw(8);
    int moves = 0;
    const auto check = [&](auto in_order, auto out_order) {
        TestTensor<std::int16_t, 4, decltype(in_order)> x({3, 4, 5, 6});
        x.fill([&](const Index& i) { return static_cast<std::int16_t>(i[0] * 1000 + i[1] * 100 + i[2] * 10 + i[3]); });
        const auto value = [](index_t n, index_t c, index_t h, index_t w) { return n * 1000 + c * 100 + h * 10 + w; };
        for (int i = 0; i < 60; ++i) {
            std::array<int, 4> axes{0, 1, 2, 3};
            for (std::size_t k = 3; k > 0; --k)
                std::swap(axes[k], axes[static_cast<std::size_t>(draw.between(0, 3)) % (k + 1)]);
            const int axis = static_cast<int>(draw.between(0, 3));
            const index_t extent = 3 + axis, count = draw.between(1, extent);
            const index_t most = count > 1 ? (extent - 1) / (count - 1) : extent, step = draw.between(1, most);
            const index_t first = draw.between(0, extent - 1 - (count - 1) * step);
            const bool back = draw.one_in(2);
            const auto slice = kernels::make_slice(x.view(), axis, back ? first + (count - 1) * step : first, count,
                                                   back ? -step : step);
            REQUIRE(slice.ok());
            const auto turned = kernels::make_permuted(*slice, axes);
            REQUIRE(turned.ok());
            TestTensor<std::int16_t, 4, decltype(out_order)> y(turned->extents());
            CHECK(kernels::check_move(*turned, y.view()).ok());
            kernels::move(*turned, y.view(), backward());
            CHECK(count_wrong(y.view(), [&](const Index& to) {
                      Index from{};
                      for (std::size_t k = 0; k < 4; ++k) from[static_cast<std::size_t>(axes[k])] = to[k];
                      index_t& along = from[static_cast<std::size_t>(axis)];
                      along = first + (back ? count - 1 - along : along) * step;
                      return value(from[0], from[1], from[2], from[3]);
                  }) == 0);
            ++moves;
        }
    };
    check(row_major{}, row_major{});
    check(row_major{}, channels_last{});
    check(channels_last{}, row_major{});
    check(strided{}, channels_last{});
    CHECK(moves == 240);
    std::int8_t numbers[6] = {1, 2, 3, 4, 5, 6}, turned[6] = {};
    const TensorView<const std::int8_t, 2> matrix(numbers, {2, 3});
    kernels::move(*kernels::make_permuted(matrix, {1, 0}), TensorView<std::int8_t, 2>(turned, {3, 2}));
    CHECK(std::vector<int>(turned, turned + 6) == std::vector<int>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("The checks of operators on views say what does not fit") {
    using Target = target::tflite<>;
    static std::int8_t memory[4096];
    const auto images = [](index_t n, index_t c, index_t h, index_t w) {
        return ImageView<std::int8_t>(memory, {n, c, h, w});
    };
    const auto x = images(1, 2, 4, 4);
    constexpr arith::CodesOf codes{0.5f, 1};
    const auto is = [](const Status& status, StatusCode code, OpKind op, Field field, std::int64_t given,
                       std::int64_t expected) {
        return status == Status{code, op, field, given, expected};
    };
    constexpr auto shape = StatusCode::shape_mismatch, range = StatusCode::value_out_of_range;

    const auto sum = *kernels::make_add<Target>(codes, codes, codes);
    CHECK(is(kernels::check_add<Target>(x, images(1, 3, 4, 4), sum, x), shape, OpKind::add, Field::second_input, 3, 2));
    CHECK(is(kernels::check_add<Target>(images(1, 2, 4, 5), x, sum, x), shape, OpKind::add, Field::input, 5, 4));
    arith::AddParams broken = sum;
    broken.coefficient[1] = 7;
    CHECK(is(kernels::check_add<Target>(x, x, broken, x), StatusCode::corrupt, OpKind::add, Field::scale, 0, 0));
    const auto times = *kernels::make_mul<Target>(codes, codes, codes);
    CHECK(
        is(kernels::check_mul<Target>(x, images(2, 2, 4, 4), times, x), shape, OpKind::mul, Field::second_input, 2, 1));
    const auto pass = *kernels::make_requantize<Target>(codes, codes);
    CHECK(is(kernels::check_requantize<Target>(x, pass, images(1, 2, 4, 3)), shape, OpKind::requantize, Field::output,
             3, 4));
    CHECK_FALSE(kernels::make_requantize<target::bpu<march::bayes>>(codes, codes).ok());  // no zero points
    CHECK(is(kernels::check_relu(x, {.lowest = 5, .highest = 4}, x), range, OpKind::relu, Field::quant_range, 5, -128));

    const ImageView<std::int8_t> views[] = {x, images(1, 1, 4, 4)};
    const kernels::RequantizeParams two[] = {pass, pass};
    const auto cat = [&](int axis, const auto& out, std::size_t params = 2) {
        return kernels::check_cat<Target>(views, std::span(two).first(params), axis, out);
    };
    CHECK(cat(1, images(1, 3, 4, 4)).ok());
    CHECK(is(cat(1, images(1, 4, 4, 4)), shape, OpKind::cat, Field::axis, 3, 4));
    CHECK(is(cat(4, images(1, 3, 4, 4)), range, OpKind::cat, Field::axis, 4, 3));
    CHECK(is(cat(2, images(1, 2, 8, 4)), shape, OpKind::cat, Field::input, 1, 2));
    CHECK(is(cat(1, images(1, 3, 4, 4), 1), StatusCode::missing, OpKind::cat, Field::scale, 1, 2));

    const Window2d window{.kernel = {2, 2}, .stride = {2, 2}};
    CHECK(is(kernels::check_max_pool2d(x, window, images(1, 2, 2, 3)), shape, OpKind::max_pool2d, Field::output, 3, 2));
    const auto average = *kernels::make_avg_pool2d<Target>({.kernel = {3, 2}}, codes, codes);
    CHECK(is(kernels::check_avg_pool2d<Target>(x, window, average, images(1, 2, 2, 2)), shape, OpKind::avg_pool2d,
             Field::kernel, 6, 4));
    CHECK(is(kernels::make_avg_pool2d<Target>({.kernel = {0, 2}}, codes, codes).status(), range, OpKind::avg_pool2d,
             Field::kernel, 0, 1));

    arith::ResizeTap taps[12];
    const auto table = *kernels::make_resize_table(arith::Resize::half_pixel, {4, 4}, {6, 6}, taps);
    CHECK(is(kernels::check_interpolate(images(1, 2, 5, 4), table, x), shape, OpKind::interpolate, Field::input, 5, 4));
    CHECK(
        is(kernels::check_interpolate(x, table, images(1, 2, 6, 5)), shape, OpKind::interpolate, Field::output, 5, 6));
    const auto border = *kernels::make_pad({1, 1, 1, 1}, codes);
    CHECK(is(kernels::check_pad(x, border, images(1, 2, 6, 5)), shape, OpKind::pad, Field::output, 5, 6));
    CHECK(is(kernels::make_pad({}, {1.0f, 300}).status(), range, OpKind::pad, Field::zero_point, 300, 127));

    const std::vector<float> weight(4, 1.0f), bias(4), wrong_bias(3);
    std::vector<std::int32_t> of_norm(8), too_few(7);
    const auto norm = [&](std::span<const float> biases, double eps, std::span<std::int32_t> storage) {
        return kernels::make_layer_norm<Target>(codes, codes, weight, biases, eps, storage);
    };
    CHECK(is(norm(wrong_bias, 1e-5, of_norm).status(), shape, OpKind::layer_norm, Field::bias, 3, 4));
    CHECK(is(norm(bias, 1e-5, too_few).status(), shape, OpKind::layer_norm, Field::storage, 7, 8));
    CHECK(is(norm(bias, -1.0, of_norm).status(), range, OpKind::layer_norm, Field::storage, 0, 0));
    CHECK(is(kernels::check_layer_norm<Target>(x, *norm(bias, 1e-5, of_norm), x), range, OpKind::layer_norm,
             Field::axis, 4, 4));
    const auto of_elements = [](std::int32_t zero_point, index_t count, bool is_centered) {
        return arith::make_layer_norm(Target::policy, {1e-4f, zero_point, DType::int16}, {1e-4f, 0, DType::int16},
                                      {0, INT16_MIN, INT16_MAX}, count, 1e-5, {0}, is_centered)
            .status();
    };
    CHECK(of_elements(0, 65536, false).ok());
    CHECK(of_elements(INT16_MIN, 65536, true).ok());
    CHECK(of_elements(INT16_MIN, 32768, false).ok());
    CHECK(is(of_elements(INT16_MIN, 32769, false), range, OpKind::layer_norm, Field::kernel, 32769, 65536));
    CHECK(is(of_elements(0, 65537, true), range, OpKind::layer_norm, Field::kernel, 65537, 65536));
    const auto tables = *kernels::make_softmax<Target>(codes);
    static std::int16_t wide[4096];
    const ImageView<std::int16_t> shares(wide, {1, 2, 4, 4}), fewer(wide, {1, 2, 4, 3});
    CHECK(is(kernels::check_softmax<Target>(x, tables, -1, shares), range, OpKind::softmax, Field::axis, -1, 0));
    CHECK(is(kernels::check_softmax<Target>(x, tables, 1, fewer), shape, OpKind::softmax, Field::output, 3, 4));
    CHECK(is(kernels::check_lookup_table(x, std::span<const std::int8_t>(memory, 255), x), shape, OpKind::lookup_table,
             Field::storage, 255, 256));
    CHECK(is(kernels::check_move(x, images(1, 2, 4, 3)), shape, OpKind::layout_change, Field::output, 3, 4));
    CHECK(is(kernels::make_permuted(x, {0, 1, 2, 4}).status(), range, OpKind::permute, Field::axis, 4, 3));
    CHECK(
        is(kernels::make_permuted(x, {0, 1, 2, 1}).status(), StatusCode::corrupt, OpKind::permute, Field::axis, 1, 1));
    CHECK(is(kernels::make_slice(x, 2, 4, 1).status(), range, OpKind::slice, Field::input, 4, 3));
    CHECK(is(kernels::make_slice(x, 2, 1, 3, 2).status(), range, OpKind::slice, Field::stride, 2, 2));
    CHECK(is(kernels::make_slice(x, 2, 0, 2, INT64_MIN).status(), range, OpKind::slice, Field::stride, INT64_MIN, 0));
    CHECK(is(kernels::make_slice(x, 2, 0, 5).status(), range, OpKind::slice, Field::output, 5, 4));
    CHECK(is(kernels::make_slice(x, 2, 0, 2, 0).status(), range, OpKind::slice, Field::stride, 0, 1));
}
