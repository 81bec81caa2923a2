// SPDX-License-Identifier: MIT
//
// Every float row of every backend against a loop in double: within the bound of a float sum, equal where all sums are
// exact, and NaN and infinities where arithmetic takes them.
#include "intq/kernels/conv/float_conv2d.hpp"
#include "intq/kernels/table/float_table.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/oracle_bridge.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/odd_width.hpp"
#include "support/tensors.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using kernels::FloatConv2dSpec;
using kernels::FloatTable;

struct FloatShape {
    index_t batch, channels, height, width, outputs, groups;
    Window2d window{};
};

/// Rows around every tile, channels around every vector and panel, and windows of all kinds.
std::vector<FloatShape> gemm_shapes() {
    std::vector<FloatShape> shapes;
    const index_t inputs[] = {1, 3, 4, 5, 7, 8, 16, 17, 63, 64, 65, 300};
    const index_t outputs[] = {66, 65, 64, 63, 49, 48, 33, 31, 17, 15, 5, 3};
    for (std::size_t i = 0; i < std::size(inputs); ++i)
        for (const index_t rows : {index_t{1} + static_cast<index_t>(i), index_t{29}})
            shapes.push_back({1, inputs[i], 1, rows, outputs[i], 1, {}});
    const std::vector<FloatShape> windows{
        {1, 3, 5, 7, 4, 1, {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}},
        {3, 3, 6, 5, 7, 1, {{3, 3}, {2, 2}, {0, 1, 1, 0}, {1, 1}}},   // asymmetric padding
        {1, 5, 7, 8, 16, 1, {{3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}}},  // dilation
        {2, 6, 5, 5, 10, 2, {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}},  // two groups
        {1, 34, 4, 3, 130, 2, {{2, 2}, {1, 1}, {}, {1, 1}}},          // groups of more than a panel
        {1, 3, 5, 5, 6, 3, {{3, 3}, {1, 1}, {}, {1, 1}}},             // one channel a group, not depthwise
        {1, 4, 9, 9, 8, 1, {{1, 1}, {2, 2}, {}, {1, 1}}},             // 1×1 that does not read in place
        {1, 8, 4, 4, 17, 1, {{5, 5}, {2, 1}, {2, 4, 3, 2}, {1, 1}}},  // more padding than half a kernel
        {1, 2, 3, 8, 5, 1, {{1, 3}, {1, 2}, {0, 2, 0, 1}, {1, 2}}},
        {2, 7, 3, 4, 5, 1, {{3, 4}, {1, 1}, {}, {1, 1}}},                // linear behind a Flatten
        {2, 40, 16, 16, 96, 1, {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}},  // several blocks of rows and panels
        {1, 16, 20, 20, 96, 1, {}},                                      // weights that stay in the L1 cache
    };
    shapes.insert(shapes.end(), windows.begin(), windows.end());
    return shapes;
}

std::vector<FloatShape> depthwise_shapes() {
    std::vector<FloatShape> shapes;
    const index_t channels[] = {2, 3, 5, 7, 8, 16, 17, 63, 64, 65, 66};
    for (std::size_t i = 0; i < std::size(channels); ++i) {
        const index_t c = channels[i], stride = 1 + static_cast<index_t>(i % 2);
        shapes.push_back(
            {1 + static_cast<index_t>(i % 3), c, 4, 3, c, c, {{3, 3}, {stride, stride}, {1, 0, 1, 1}, {1, 1}}});
    }
    shapes.push_back({1, 9, 1, 13, 9, 9, {}});
    shapes.push_back({1, 4, 7, 7, 4, 4, {{3, 2}, {1, 1}, {2, 2, 2, 0}, {2, 3}}});
    shapes.push_back({1, 20, 9, 8, 20, 20, {{5, 5}, {1, 1}, {2, 2, 2, 2}, {1, 1}}});
    return shapes;
}

enum class Numbers {
    real,      // in [-1, 1)
    integers,  // small: every product and sum is exact
    special,   // real, with a NaN and infinities among the inputs
    count_
};

// --- the definition --------------------------------------------------------------------------------------------------

struct FloatProblem {
    FloatShape shape;
    Activation activation = Activation::none;
    Numbers numbers = Numbers::real;
    bool adds = false;
    Size2d out{};
    std::vector<float> x, weight, bias, sumin;  // x and sumin channels last; bias may be empty
    std::string label;
};

FloatProblem draw_problem(const FloatShape& shape, bool adds, Numbers numbers, std::uint64_t seed) {
    FloatProblem p;
    p.shape = shape;
    p.adds = adds;
    p.numbers = numbers;
    p.activation = static_cast<Activation>((seed + seed / 3) % 3);
    p.out = output_size(shape.window, {shape.height, shape.width});
    Draw draw(seed);
    const auto fill = [&](std::vector<float>& values, index_t size) {
        values.resize(static_cast<std::size_t>(size));
        for (float& value : values)
            value = numbers == Numbers::integers ? static_cast<float>(draw.between(-9, 9)) : draw.real(-1.0f, 1.0f);
    };
    fill(p.x, shape.batch * shape.height * shape.width * shape.channels);
    fill(p.weight,
         shape.outputs * shape.channels / shape.groups * shape.window.kernel.height * shape.window.kernel.width);
    if (seed % 4 != 0) fill(p.bias, shape.outputs);
    if (adds) fill(p.sumin, shape.batch * p.out.height * p.out.width * shape.outputs);
    if (numbers == Numbers::special) {
        constexpr float infinity = std::numeric_limits<float>::infinity();
        for (const float value : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity})
            p.x[static_cast<std::size_t>(draw.between(0, static_cast<std::int64_t>(p.x.size()) - 1))] = value;
    }
    p.label = "n" + std::to_string(shape.batch) + " c" + std::to_string(shape.channels) + " " +
              std::to_string(shape.height) + "x" + std::to_string(shape.width) + " o" + std::to_string(shape.outputs) +
              " g" + std::to_string(shape.groups) + " numbers " + std::to_string(static_cast<int>(numbers)) + " " +
              name_of(p.activation) + (adds ? " +sumin" : "") + " seed " + std::to_string(seed);
    return p;
}

/// An output before the clamp, and what bounds the error of a float sum of the same products.
struct Exact {
    double sum = 0.0;
    double magnitude = 0.0;  // |bias| + |sumin| + sum of |x·w|
    int products = 0;

    void add(double term) {
        sum += term;
        magnitude += std::fabs(term);
    }
    /// Each term passes at most n + 2 roundings: its product, n sums and the add (Higham, Accuracy and Stability of
    /// Numerical Algorithms, lemma 3.1): gamma_(n+2) times the sum of magnitudes. The last term covers this loop's own.
    double bound() const {
        const double k = (products + 2) * 0x1p-24;
        return (k / (1.0 - k) + (products + 2) * 0x1p-52) * magnitude;
    }
};

Exact define(const FloatProblem& p, index_t n, index_t oy, index_t ox, index_t o) {
    const FloatShape& s = p.shape;
    const index_t inputs = s.channels / s.groups, first = o / (s.outputs / s.groups) * inputs;
    Exact exact;
    if (!p.bias.empty()) exact.add(double{p.bias[static_cast<std::size_t>(o)]});
    for (index_t u = 0; u < s.window.kernel.height; ++u)
        for (index_t v = 0; v < s.window.kernel.width; ++v) {
            const index_t y = oy * s.window.stride.height + u * s.window.dilation.height - s.window.padding.top;
            const index_t x = ox * s.window.stride.width + v * s.window.dilation.width - s.window.padding.left;
            if (y < 0 || y >= s.height || x < 0 || x >= s.width) continue;
            for (index_t c = 0; c < inputs; ++c, ++exact.products) {
                const index_t at = ((n * s.height + y) * s.width + x) * s.channels + first + c;
                const index_t w = ((o * inputs + c) * s.window.kernel.height + u) * s.window.kernel.width + v;
                exact.add(double{p.x[static_cast<std::size_t>(at)]} * double{p.weight[static_cast<std::size_t>(w)]});
            }
        }
    if (p.adds)
        exact.add(
            double{p.sumin[static_cast<std::size_t>(((n * p.out.height + oy) * p.out.width + ox) * s.outputs + o)]});
    return exact;
}

double clamped(double value, Activation activation) {
    if (activation != Activation::none && value < 0.0) return 0.0;
    return activation == Activation::relu6 && value > 6.0 ? 6.0 : value;
}

/// What a result may be; the clamp brings no two values further apart.
std::string judge(float given, const Exact& exact, const FloatProblem& p) {
    const double expected = clamped(exact.sum, p.activation), result = double{given};
    const bool is_exact = p.numbers == Numbers::integers;
    bool right = std::fabs(result - expected) <= (is_exact ? 0.0 : exact.bound());
    if (std::isnan(expected)) right = std::isnan(result);
    if (std::isinf(expected)) right = result == expected;
    // An infinite sum that the clamp hides.
    if (std::isinf(exact.sum) && !std::isinf(expected)) right = result == expected;
    if (right) return {};
    return "is " + std::to_string(given) + ", the definition says " + std::to_string(expected) + " within " +
           std::to_string(exact.bound());
}

std::vector<Exact> define_all(const FloatProblem& p) {
    std::vector<Exact> all;
    for_each_index(std::array<index_t, 4>{p.shape.batch, p.out.height, p.out.width, p.shape.outputs},
                   [&](const auto& index) { all.push_back(define(p, index[0], index[1], index[2], index[3])); });
    return all;
}

// --- one problem on one backend --------------------------------------------------------------------------------------

FloatConv2dSpec spec_of(const FloatProblem& p) {
    FloatConv2dSpec spec;
    spec.window = p.shape.window;
    spec.in_channels = p.shape.channels;
    spec.out_channels = p.shape.outputs;
    spec.groups = p.shape.groups;
    spec.weight = p.weight.data();
    spec.bias = p.bias.empty() ? nullptr : p.bias.data();
    spec.activation = p.activation;
    spec.has_sumin = p.adds;
    return spec;
}

Workspace all_of(GuardedBuffer& buffer) { return {buffer.as<std::byte>(), static_cast<index_t>(buffer.size())}; }

void copy(const std::vector<float>& from, GuardedBuffer& to) {
    if (!from.empty()) std::memcpy(to.as<float>(), from.data(), to.size());
}

/// A packed layer and its tensors, each in a buffer of exactly its size.
struct Prepared {
    Prepared(const FloatTable& table, const FloatProblem& p)
        : storage(static_cast<std::size_t>(kernels::packed_float_conv2d_size(table.packing, spec_of(p)))),
          x(p.x.size() * sizeof(float)),
          sumin(p.sumin.size() * sizeof(float)) {
        const auto made = kernels::pack_float_conv2d(table.packing, spec_of(p), all_of(storage));
        const auto shape =
            kernels::make_conv2d_geometry(p.shape.window, p.shape.batch, {p.shape.height, p.shape.width});
        if (!made.ok() || !shape.ok()) return;
        packed = *made;
        geometry = *shape;
        row = kernels::find_conv(table.conv, packed);
        copy(p.x, x);
        copy(p.sumin, sumin);
    }
    void run(void* y, const Executor& executor) {
        row->run({&packed, &geometry, x.as<float>(), packed.has_sumin ? sumin.as<float>() : nullptr, y, &executor});
    }

    GuardedBuffer storage, x, sumin;
    kernels::PackedConv2d packed;
    kernels::ConvGeometry geometry;
    const kernels::ConvRow* row = nullptr;
};

/// Empty, or what is wrong.
std::string check(const FloatTable& table, const FloatProblem& p, const std::vector<Exact>& expected,
                  std::vector<const kernels::ConvRow*>& ran) {
    Prepared made(table, p);
    if (made.row == nullptr) return "not packed, or no row";
    ran.push_back(made.row);
    BackwardExecutor backward;
    for (const Executor& executor : {serial, two_threads(), backward.executor()}) {
        GuardedBuffer y(expected.size() * sizeof(float));
        made.run(y.as<float>(), executor);
        for (std::size_t i = 0; i < expected.size(); ++i)
            if (const std::string wrong = judge(y.as<float>()[i], expected[i], p); !wrong.empty())
                return "element " + std::to_string(i) + " " + wrong;
        if (!y.is_intact() || !made.storage.is_intact()) return "wrote around the output or the packed weights";
    }
    return {};
}

std::vector<const FloatTable*> all_float_tables() {
    std::vector<const FloatTable*> tables;
    for_each_backend(all_backends{}, [&](auto backend) { tables.push_back(&kernels::float_table<decltype(backend)>); });
    return tables;
}

// --- reproducible sums -----------------------------------------------------------------------------------------------

template <class Backend>
inline constexpr kernels::ConvRow reproducible_rows[] = {
    kernels::detail::gemm_row<simd::reproducible<Backend>, arith::keep_real, float, float, float, float,
                              kernels::no_sumin>(),
    kernels::detail::depthwise_row<simd::reproducible<Backend>, arith::keep_real, float, float, float, float,
                                   kernels::no_sumin>()};

/// The sums as docs/design.md section 8 orders them, each operation rounded by itself.
std::vector<std::uint32_t> ordered_sums(const FloatProblem& p) {
    const FloatShape& shape = p.shape;
    const Window2d& window = shape.window;
    const index_t inputs = shape.channels / shape.groups, outputs = shape.outputs / shape.groups;
    const bool is_depthwise = shape.groups > 1 && inputs == 1 && outputs == 1;
    std::vector<std::uint32_t> bits;
    for (index_t n = 0; n < shape.batch; ++n)
        for (index_t i = 0; i < p.out.height; ++i)
            for (index_t j = 0; j < p.out.width; ++j)
                for (index_t o = 0; o < shape.outputs; ++o) {
                    float sum = p.bias.empty() ? 0.0f : p.bias[static_cast<std::size_t>(o)];
                    const auto add_tap = [&](index_t ky, index_t kx) {
                        const index_t h = i * window.stride.height - window.padding.top + ky * window.dilation.height;
                        const index_t w = j * window.stride.width - window.padding.left + kx * window.dilation.width;
                        const bool is_inside = h >= 0 && h < shape.height && w >= 0 && w < shape.width;
                        for (index_t c = 0; c < inputs && (is_inside || is_depthwise); ++c) {
                            const index_t channel = o / outputs * inputs + c;
                            const index_t at = ((n * shape.height + h) * shape.width + w) * shape.channels + channel;
                            const index_t k = ((o * inputs + c) * window.kernel.height + ky) * window.kernel.width + kx;
                            const float x = is_inside ? p.x[static_cast<std::size_t>(at)] : 0.0f;
                            sum = arith::fadd(sum, arith::fmul(x, p.weight[static_cast<std::size_t>(k)]));
                        }
                    };
                    const index_t height = window.kernel.height, width = window.kernel.width;
                    for (index_t tap = 0; tap < height * width; ++tap)
                        is_depthwise ? add_tap(tap % height, tap / height) : add_tap(tap / width, tap % width);
                    if (p.activation != Activation::none && !(sum > 0.0f)) sum = 0.0f;
                    if (p.activation == Activation::relu6 && sum > 6.0f) sum = 6.0f;
                    bits.push_back(std::bit_cast<std::uint32_t>(sum));
                }
    return bits;
}

/// How many sums differ in their bits.
std::size_t different_sums(const FloatTable& table, const FloatProblem& p, const std::vector<std::uint32_t>& expected) {
    Prepared made(table, p);
    if (made.row == nullptr) return expected.size();
    std::vector<std::uint32_t> bits(expected.size());
    made.run(bits.data(), serial);
    std::size_t different = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) different += bits[i] != expected[i];
    return different;
}

}  // namespace

TEST_CASE("reproducible float sums have the same bits on every backend, those of plain loops") {
    std::vector<FloatShape> shapes = gemm_shapes();
    for (const FloatShape& shape : depthwise_shapes()) shapes.push_back(shape);
    std::size_t contracted = 0, sums = 0;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        const FloatProblem p = draw_problem(shapes[i], false, Numbers::real, 77 + i);
        const std::vector<std::uint32_t> expected = ordered_sums(p);
        sums += expected.size();
        for_each_backend(all_backends{}, [&](auto backend) {
            using Backend = decltype(backend);
            const FloatTable reproducible{Backend::name, kernels::float_packing<Backend>(), reproducible_rows<Backend>};
            INFO(Backend::name << ", shape " << i);
            CHECK(different_sums(reproducible, p, expected) == 0);
            contracted += different_sums(kernels::float_table<Backend>, p, expected);
        });
    }
    INFO(sums << " sums");
    // Numbers on which contraction cannot be seen would prove nothing.
    if constexpr (!std::is_same_v<simd::reproducible<simd::default_backend>, simd::default_backend>)
        CHECK(contracted > sums / 10);
}

TEST_CASE("every float row of every backend sums within its bound, and exactly where it can") {
    const std::vector<const FloatTable*> tables = all_float_tables();
    std::string names;
    for (const FloatTable* table : tables) names += std::string(names.empty() ? "" : ", ") + table->backend;
    WARN("backends: " << names);
    REQUIRE(tables.size() >= 3);

    std::vector<std::vector<const kernels::ConvRow*>> ran(tables.size());
    std::uint64_t seed = 0;
    for (const bool depthwise : {false, true})
        for (const FloatShape& shape : depthwise ? depthwise_shapes() : gemm_shapes())
            for (const bool adds : {false, true})
                for (int numbers = 0; numbers < static_cast<int>(Numbers::count_); ++numbers, ++seed) {
                    const FloatProblem p = draw_problem(shape, adds, static_cast<Numbers>(numbers), seed);
                    const std::vector<Exact> expected = define_all(p);
                    for (std::size_t i = 0; i < tables.size(); ++i)
                        if (const std::string wrong = check(*tables[i], p, expected, ran[i]); !wrong.empty())
                            FAIL_CHECK(tables[i]->backend << " " << p.label << ": " << wrong);
                }
    for (std::size_t i = 0; i < tables.size(); ++i)
        for (const kernels::ConvRow& row : tables[i]->conv) {
            INFO(tables[i]->backend);
            CHECK(std::count(ran[i].begin(), ran[i].end(), &row) >= 42);
        }
}

TEST_CASE("the bound of a float sum bites: one product more or less is out of it") {
    FloatProblem p = draw_problem({1, 8, 3, 3, 4, 1, {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}}, false, Numbers::real, 2);
    p.activation = Activation::none;
    const std::vector<Exact> expected = define_all(p);
    p.weight[0] += 0.001f;
    const std::vector<Exact> spoilt = define_all(p);
    std::size_t outside = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
        outside += judge(static_cast<float>(spoilt[i].sum), expected[i], p).empty() ? 0 : 1;
    CHECK(outside > 0);
}

TEST_CASE("two threads and one give the same bits of a float sum") {
    const FloatProblem p =
        draw_problem({3, 66, 13, 13, 70, 1, {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}}, false, Numbers::real, 1);
    for (const FloatTable* table : all_float_tables()) {
        Prepared made(*table, p);
        REQUIRE(made.row != nullptr);
        const std::size_t size = define_all(p).size();
        std::vector<std::uint32_t> alone(size), together(size);
        made.run(alone.data(), serial);
        made.run(together.data(), two_threads());
        INFO(table->backend);
        CHECK(alone == together);
        BackwardExecutor backward;
        made.run(together.data(), backward.executor());
        CHECK(alone == together);
        CHECK(backward.tasks > 1);
    }
}

TEST_CASE("run_float_conv2d and its add run what make_float_conv2d made, and the sum may be the output's memory") {
    for_each_backend(all_backends{}, [](auto backend) {
        using Backend = decltype(backend);
        for (const bool adds : {false, true})
            for (const index_t groups : {1, 6}) {
                const FloatProblem p = draw_problem({2, 6, 5, 4, 6, groups, {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}},
                                                    adds, Numbers::integers, 3);
                GuardedBuffer storage(
                    static_cast<std::size_t>(kernels::float_conv2d_storage_size<Backend>(spec_of(p))));
                const auto packed = kernels::make_float_conv2d<Backend>(spec_of(p), all_of(storage));
                const auto geometry = kernels::make_conv2d_geometry(p.shape.window, 2, {5, 4});
                REQUIRE(packed.ok());
                REQUIRE(geometry.ok());
                std::vector<float> result = p.sumin;
                result.resize(240);
                const ImageView<const float> x(p.x.data(), {2, 6, 5, 4}), sumin(result.data(), {2, 6, 5, 4});
                const ImageView<float> y(result.data(), {2, 6, 5, 4});
                REQUIRE((adds ? kernels::check_conv2d_add(*packed, *geometry, x, sumin, y, {})
                              : kernels::check_conv2d(*packed, *geometry, x, y, {}))
                            .ok());
                if (adds)
                    kernels::run_float_conv2d_add<Backend>(*packed, *geometry, x, sumin, y);
                else
                    kernels::run_float_conv2d<Backend>(*packed, *geometry, x, y);
                const std::vector<Exact> expected = define_all(p);
                INFO(Backend::name << " " << p.label);
                for (std::size_t i = 0; i < expected.size(); ++i) CHECK(judge(result[i], expected[i], p) == "");
            }
    });
}

TEST_CASE("a float layer is refused with the field that is wrong, and nothing is written") {
    const FloatProblem p = draw_problem({1, 4, 5, 5, 6, 1, {{3, 3}, {1, 1}, {}, {1, 1}}}, false, Numbers::real, 1);
    struct Refusal {
        StatusCode code;
        Field field;
        std::int64_t given, expected;
        void (*spoil)(FloatConv2dSpec&);
    };
    const Refusal refusals[] = {
        {StatusCode::missing, Field::weight, 0, 0, [](FloatConv2dSpec& s) { s.weight = nullptr; }},
        {StatusCode::value_out_of_range, Field::groups, 0, 1, [](FloatConv2dSpec& s) { s.groups = 0; }},
        {StatusCode::shape_mismatch, Field::groups, 4, 3, [](FloatConv2dSpec& s) { s.groups = 3; }},
        {StatusCode::shape_mismatch, Field::groups, 6, 4, [](FloatConv2dSpec& s) { s.groups = 4; }},
        {StatusCode::value_out_of_range, Field::channels, 0, 1, [](FloatConv2dSpec& s) { s.out_channels = 0; }},
    };
    for (const FloatTable* table : all_float_tables()) {
        const auto bytes = kernels::packed_float_conv2d_size(table->packing, spec_of(p));
        GuardedBuffer storage(static_cast<std::size_t>(bytes));
        const auto is_untouched = [&] {
            for (std::size_t i = 0; i < storage.size(); ++i)
                if (storage.as<unsigned char>()[i] != GuardedBuffer::canary) return false;
            return true;
        };
        for (const Refusal& refusal : refusals) {
            FloatConv2dSpec spec = spec_of(p);
            refusal.spoil(spec);
            const Status status = kernels::pack_float_conv2d(table->packing, spec, all_of(storage)).status();
            INFO(name_of(status.code) << " " << name_of(status.field));
            CHECK(status.code == refusal.code);
            CHECK(status.field == refusal.field);
            CHECK(status.given == refusal.given);
            CHECK(status.expected == refusal.expected);
        }
        const auto packed_into = [&](const Workspace& memory) {
            return kernels::pack_float_conv2d(table->packing, spec_of(p), memory).status();
        };
        const Status small = packed_into({storage.as<std::byte>(), bytes - 1});
        CHECK(small.code == StatusCode::buffer_too_small);
        CHECK(small.given == bytes - 1);
        CHECK(small.expected == bytes);
        CHECK(packed_into({nullptr, bytes}).code == StatusCode::missing);
        std::vector<std::byte> loose(static_cast<std::size_t>(bytes) + 128);
        const auto address = reinterpret_cast<std::uintptr_t>(loose.data());
        CHECK(packed_into({loose.data() + (64 - address % 64) + 4, bytes}).code == StatusCode::misaligned);
        CHECK(is_untouched());
        CHECK(packed_into(all_of(storage)).ok());
        CHECK(!is_untouched());
    }
}
