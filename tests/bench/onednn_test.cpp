// SPDX-License-Identifier: MIT
//
// What oneDNN computes with the scales that the benches give it: our equations, with version 2 and with version 3.
#include "peers/onednn.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "support/catch.hpp"

namespace {

using namespace intq_bench::onednn;
using Codes = std::vector<std::int8_t>;
using Floats = std::vector<float>;

template <class T> dnnl::memory memory_of(const Description& description, const std::vector<T>& values) {
    REQUIRE(description.get_size() == values.size() * sizeof(T));
    dnnl::memory memory(description, library().engine);
    std::memcpy(memory.get_data_handle(), values.data(), description.get_size());
    return memory;
}

std::int8_t code_of(double value) {  // ties to even
    return static_cast<std::int8_t>(std::clamp(std::nearbyint(value), -128.0, 127.0));
}

/// Runs the primitive on its arguments, and returns the bytes of the output.
Codes result(const dnnl::primitive& primitive, const Attributes& attributes, std::unordered_map<int, dnnl::memory> args,
             const Description& output) {
    const dnnl::memory to(output, library().engine);
    Layer layer{primitive, std::move(args)};
    layer.arguments[DNNL_ARG_TO] = to;
    layer.arguments.insert(attributes.arguments().begin(), attributes.arguments().end());
    layer.run();
    const auto* const bytes = static_cast<const std::int8_t*>(to.get_data_handle());
    return Codes(bytes, bytes + output.get_size());
}

/// Even codes from -limit to limit: small enough that instructions which saturate sums of pairs, or which need the
/// weights halved, give the exact result too.
Codes even_codes(dnnl::memory::dim count, int step, int limit) {
    Codes codes;
    for (int i = 0; i < count; ++i) codes.push_back(static_cast<std::int8_t>(i * step % (limit + 1) * 2 - limit));
    return codes;
}

/// A square image, a square kernel, padding that keeps the size; one output channel has one scale and one bias.
struct Problem {
    dnnl::memory::dim groups, channels, outputs, size, kernel;
    Codes input, weights;  // n h w c and g o i h w
    Floats bias, scales;

    Problem(dnnl::memory::dim g, dnnl::memory::dim c, dnnl::memory::dim o, dnnl::memory::dim s, dnnl::memory::dim k)
        : groups(g),
          channels(c),
          outputs(o),
          size(s),
          kernel(k),
          input(even_codes(s * s * c, 7, 60)),
          weights(even_codes(o * (c / g) * k * k, 5, 16)) {
        for (int i = 0; i < o; ++i) {
            bias.push_back(static_cast<float>(100 * i - 500));
            scales.push_back(1.0f / static_cast<float>(16 << i % 4));  // exact in every order of operations
        }
    }

    /// clamp(round(scales[o] * (sum + bias[o])), lowest, highest)
    Codes expected(double lowest = -128.0, double highest = 127.0) const {
        Codes codes;
        for (int y = 0; y < size; ++y)
            for (int x = 0; x < size; ++x)
                for (int o = 0; o < outputs; ++o)
                    codes.push_back(
                        code_of(std::clamp(scales[index(o)] * (sum(y, x, o) + bias[index(o)]), lowest, highest)));
        return codes;
    }

private:
    static std::size_t index(dnnl::memory::dim i) { return static_cast<std::size_t>(i); }

    double sum(int y, int x, int o) const {
        const dnnl::memory::dim depth = channels / groups, first = o / (outputs / groups) * depth;
        int sum = 0;
        for (int i = 0; i < depth; ++i)
            for (int h = 0; h < kernel; ++h)
                for (int w = 0; w < kernel; ++w) {
                    const dnnl::memory::dim row = y + h - kernel / 2, column = x + w - kernel / 2;
                    if (row < 0 || row >= size || column < 0 || column >= size) continue;
                    sum += input[index((row * size + column) * channels + first + i)] *
                           weights[index(((o * depth + i) * kernel + h) * kernel + w)];
                }
        return sum;
    }
};

template <class Primitive>
Codes run(const Problem& problem, const typename Primitive::primitive_desc& chosen, const Attributes& attributes,
          const Description& plain_weights) {
    dnnl::memory given = memory_of(plain_weights, problem.weights);
    dnnl::memory weights(chosen.weights_desc(), library().engine);
    dnnl::reorder(given, weights).execute(library().stream, given, weights);
    const dnnl::memory bias = memory_of(chosen.query_md(dnnl::query::weights_md, 1), problem.bias);
    return result(Primitive(chosen), attributes,
                  {{DNNL_ARG_SRC, memory_of(chosen.src_desc(), problem.input)},
                   {DNNL_ARG_WEIGHTS, weights},
                   {DNNL_ARG_BIAS, attributes.bias_to_read(bias)}},
                  chosen.dst_desc());
}

Codes convolution(const Problem& problem, const dnnl::post_ops& post_ops = {}) {
    const bool grouped = problem.groups > 1;
    const Dims weights = grouped ? Dims{problem.groups, problem.outputs / problem.groups,
                                        problem.channels / problem.groups, problem.kernel, problem.kernel}
                                 : Dims{problem.outputs, problem.channels, problem.kernel, problem.kernel};
    const Dims padding{problem.kernel / 2, problem.kernel / 2};
    Attributes attributes(library().engine);
    attributes.scale_channels(problem.scales, grouped ? 0b11 : 0b1);
    attributes.set_post_ops(post_ops);
    const auto chosen = describe<dnnl::convolution_forward>(
        attributes, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
        Description({1, problem.channels, problem.size, problem.size}, Type::s8, Tag::nhwc),
        Description(weights, Type::s8, Tag::any), Description({problem.outputs}, Type::f32, Tag::x),
        Description({1, problem.outputs, problem.size, problem.size}, Type::s8, Tag::nhwc), Dims{1, 1}, padding,
        padding);
    return run<dnnl::convolution_forward>(problem, chosen, attributes,
                                          Description(weights, Type::s8, grouped ? Tag::goihw : Tag::oihw));
}

TEST_CASE("A convolution adds the bias and multiplies each channel by its scale") {
    const Problem plain(1, 24, 40, 5, 3), grouped(2, 32, 32, 5, 3), depthwise(16, 16, 16, 5, 3);
    CHECK(convolution(plain) == plain.expected());
    CHECK(convolution(grouped) == grouped.expected());
    CHECK(convolution(depthwise) == depthwise.expected());
}

TEST_CASE("An activation follows the scales") {
    const Problem problem(1, 24, 40, 5, 3);
    dnnl::post_ops relu, clip;
    append_eltwise(relu, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    append_eltwise(clip, dnnl::algorithm::eltwise_clip, -3.0f, 20.0f);
    CHECK(convolution(problem, relu) == problem.expected(0.0));
    CHECK(convolution(problem, clip) == problem.expected(-3.0, 20.0));
}

TEST_CASE("Both primitives for a fully connected layer do the same") {
    const Problem problem(1, 48, 40, 1, 1);
    Attributes attributes(library().engine);
    attributes.scale_channels(problem.scales, 0b1);
    const Description input({1, 48}, Type::s8, Tag::ab), output({1, 40}, Type::s8, Tag::ab);
    const auto inner_product = describe<dnnl::inner_product_forward>(attributes, dnnl::prop_kind::forward_inference,
                                                                     input, Description({40, 48}, Type::s8, Tag::any),
                                                                     Description({40}, Type::f32, Tag::x), output);
    CHECK(run<dnnl::inner_product_forward>(problem, inner_product, attributes,
                                           Description({40, 48}, Type::s8, Tag::ab)) == problem.expected());

    Attributes of_columns(library().engine);
    of_columns.scale_channels(problem.scales, 0b10);
    const auto product = describe<dnnl::matmul>(of_columns, input, Description({48, 40}, Type::s8, Tag::any),
                                                Description({1, 40}, Type::f32, Tag::ab), output);
    CHECK(run<dnnl::matmul>(problem, product, of_columns, Description({48, 40}, Type::s8, Tag::ba)) ==
          problem.expected());
}

TEST_CASE("A reorder multiplies by its scale") {
    const Floats values{-3.0f, -0.51f, -0.01f, 0.0f, 0.01f, 0.03f, 0.25f, 1.27f, 2.0f, 5.0f};
    const Description floats({10}, Type::f32, Tag::x), codes({10}, Type::s8, Tag::x);
    Attributes attributes(library().engine);
    attributes.scale_reorder(50.0f);
    const dnnl::memory from = memory_of(floats, values);
    const dnnl::reorder reorder(
        dnnl::reorder::primitive_desc(library().engine, floats, library().engine, codes, attributes.attr()));
    Codes expected;
    for (const float value : values) expected.push_back(code_of(50.0f * value));
    CHECK(result(reorder, attributes, {{DNNL_ARG_FROM, from}}, codes) == expected);
}

TEST_CASE("An add multiplies each input by its own scale") {
    const Codes a = even_codes(32, 7, 120), b = even_codes(32, 11, 120);
    const Description codes({1, 32, 1, 1}, Type::s8, Tag::nhwc);
    Attributes attributes(library().engine);
    attributes.scale_input(DNNL_ARG_SRC_0, 0.5f);
    attributes.scale_input(DNNL_ARG_SRC_1, 1.25f);
    const auto chosen = describe<dnnl::binary>(attributes, dnnl::algorithm::binary_add, codes, codes, codes);
    Codes expected;
    for (std::size_t i = 0; i < a.size(); ++i) expected.push_back(code_of(0.5 * a[i] + 1.25 * b[i]));
    CHECK(result(dnnl::binary(chosen), attributes,
                 {{DNNL_ARG_SRC_0, memory_of(codes, a)}, {DNNL_ARG_SRC_1, memory_of(codes, b)}}, codes) == expected);
}

TEST_CASE("A pooling takes its window") {
    Codes input = even_codes(16, 7, 60), expected;
    for (int y = 0; y < 4; y += 2)
        for (int x = 0; x < 4; x += 2) {
            const auto* const at = input.data() + y * 4 + x;
            expected.push_back(std::max({at[0], at[1], at[4], at[5]}));
        }
    const Description in({1, 1, 4, 4}, Type::s8, Tag::nhwc), out({1, 1, 2, 2}, Type::s8, Tag::nhwc);
    const Attributes attributes(library().engine);
    const intq::Window2d window{.kernel = {2, 2}, .stride = {2, 2}};
    CHECK(result(Pooling(describe_pooling(attributes, dnnl::algorithm::pooling_max, in, out, window)), attributes,
                 {{DNNL_ARG_SRC, memory_of(in, input)}}, out) == expected);
}

}  // namespace
