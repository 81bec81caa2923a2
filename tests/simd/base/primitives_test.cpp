// SPDX-License-Identifier: MIT
//
// Conformance of the lanes of every usable backend with arith::scalar_lanes: bit for bit, in every lane. 8-bit
// operands are exhaustive; floats that are NaN are equal to every NaN.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "intq/kernels/streaming/channel_walk.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/odd_width.hpp"

namespace {

using intq::index_t;
using intq::test::all_backends;
using intq::test::for_each_backend;
using intq::test::GuardedBuffer;
using One = intq::arith::scalar_lanes;
constexpr std::uint32_t seed = 20240517;

// --- memory by element type ------------------------------------------------------------------------------------------
template <class L, class T> auto get(const T* from) {
    if constexpr (std::is_same_v<T, std::int64_t>) {
        return L::load_i64(from);
    } else {
        return L::load(from);
    }
}
template <class L, class T> auto get(const T* from, index_t count) {
    if constexpr (std::is_same_v<T, std::int64_t>) {
        return L::load_i64(from, count);
    } else {
        return L::load(from, count);
    }
}
template <class L, class T, class V> void put(T* to, V x) {
    if constexpr (std::is_same_v<T, std::int64_t>) {
        L::store_i64(to, x);
    } else {
        L::store(to, x);
    }
}
template <class L, class T, class V> void put(T* to, V x, index_t count) {
    if constexpr (std::is_same_v<T, std::int64_t>) {
        L::store_i64(to, x, count);
    } else {
        L::store(to, x, count);
    }
}

template <class T> bool same(T a, T b) {
    if constexpr (std::is_same_v<T, float>) {
        return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    } else {
        return a == b;
    }
}

// --- operands --------------------------------------------------------------------------------------------------------
template <class T> const std::vector<T>& specials();
template <> const std::vector<std::int32_t>& specials() {
    static const std::vector<std::int32_t> values{INT32_MIN,
                                                  INT32_MIN + 1,
                                                  -(1 << 30) - 1,
                                                  -(1 << 30),
                                                  -16777217,
                                                  -65537,
                                                  -65536,
                                                  -65535,
                                                  -32769,
                                                  -32768,
                                                  -32767,
                                                  -129,
                                                  -128,
                                                  -127,
                                                  -3,
                                                  -2,
                                                  -1,
                                                  0,
                                                  1,
                                                  2,
                                                  3,
                                                  127,
                                                  128,
                                                  129,
                                                  255,
                                                  256,
                                                  32767,
                                                  32768,
                                                  65535,
                                                  65536,
                                                  46341,
                                                  8388608,
                                                  16777215,
                                                  16777216,
                                                  16777217,
                                                  16777219,
                                                  33554434,
                                                  1 << 30,
                                                  (1 << 30) + 1,
                                                  2147483583,
                                                  2147483584,
                                                  INT32_MAX - 1,
                                                  INT32_MAX};
    return values;
}
template <> const std::vector<std::int64_t>& specials() {
    static const std::vector<std::int64_t> values = [] {
        std::vector<std::int64_t> v{INT64_MIN,           INT64_MIN + 1,
                                    INT64_MAX,           INT64_MAX - 1,
                                    0x00000000ffffffff,  0x0000000100000000,
                                    -0x0000000100000000, 0x7fffffff00000000,
                                    0x5555555555555555,  static_cast<std::int64_t>(0xaaaaaaaaaaaaaaaau)};
        for (const std::int64_t step : {-2, -1, 0, 1, 2})
            for (const std::int64_t near : {std::int64_t{INT32_MIN}, std::int64_t{INT32_MAX}, std::int64_t{0},
                                            std::int64_t{1} << 32, std::int64_t{1} << 47, -(std::int64_t{1} << 47)})
                v.push_back(near + step);
        return v;
    }();
    return values;
}
template <> const std::vector<float>& specials() {
    static const std::vector<float> values = [] {
        constexpr float inf = std::numeric_limits<float>::infinity();
        std::vector<float> v;
        for (const float x : {0.0f,          0x1p-149f,     0x1p-140f,      0x1p-126f,     0x1.fffffcp-127f,
                              1e-20f,        0.25f,         0.49999997f,    0.5f,          0.50000006f,
                              0.75f,         1.0f,          1.1754943e-38f, 1.4999999f,    1.5f,
                              2.5f,          3.5f,          126.5f,         127.5f,        128.5f,
                              32767.5f,      0.1f,          1.0f / 3.0f,    3.14159f,      4194303.5f,
                              4194304.5f,    8388607.5f,    8388608.0f,     8388609.0f,    16777216.0f,
                              2147483520.0f, 2147483648.0f, 1e20f,          3.4028235e38f, inf}) {
            v.push_back(x);
            v.push_back(-x);
        }
        v.push_back(std::numeric_limits<float>::quiet_NaN());
        return v;
    }();
    return values;
}

/// Random bits; floats half of the time near 1, so that sums and ties happen.
template <class T> std::vector<T> random_values(std::size_t count, std::uint32_t salt) {
    std::mt19937_64 bits(seed + salt);
    std::vector<T> values(count);
    for (auto& value : values) {
        const std::uint64_t word = bits();
        if constexpr (std::is_same_v<T, float>) {
            value = word % 2 == 0 ? std::bit_cast<float>(static_cast<std::uint32_t>(word >> 32))
                                  : static_cast<float>(static_cast<std::int32_t>(word >> 32)) * 0x1p-30f;
        } else {
            value = static_cast<T>(static_cast<std::int64_t>(word) >> (word % (8 * sizeof(T))));
        }
    }
    return values;
}

/// All pairs of specials, then random pairs.
template <class T> void pairs(std::vector<T>& a, std::vector<T>& b) {
    for (const T x : specials<T>())
        for (const T y : specials<T>()) {
            a.push_back(x);
            b.push_back(y);
        }
    const auto more_a = random_values<T>(4096, 1), more_b = random_values<T>(4096, 2);
    a.insert(a.end(), more_a.begin(), more_a.end());
    b.insert(b.end(), more_b.begin(), more_b.end());
}
template <class T> std::vector<T> singles() {
    std::vector<T> a = specials<T>(), more = random_values<T>(4096, 3);
    a.insert(a.end(), more.begin(), more.end());
    return a;
}
/// At most 2^53 in magnitude, with every tie of float32 beside its neighbours.
std::vector<std::int64_t> wide_sums() {
    std::vector<std::int64_t> sums;
    for (const std::int64_t x : singles<std::int64_t>())
        for (int shift = 10; shift < 64; shift += 9) sums.push_back(x >> shift);
    for (int power = 24; power <= 52; ++power)
        for (const std::int64_t odd : {0, 1, 2, 3})  // of the last bit of a float32 and the one below
            for (const std::int64_t beside : {-1, 0, 1})
                for (const std::int64_t sign : {-1, 1})
                    sums.push_back(sign * ((std::int64_t{1} << power) + (odd << (power - 24)) + beside));
    for (const std::int64_t sign : {-1, 1}) sums.push_back(sign * (std::int64_t{1} << 53));
    return sums;
}
void byte_pairs(std::vector<std::int32_t>& a, std::vector<std::int32_t>& b) {
    for (std::int32_t x = INT8_MIN; x <= INT8_MAX; ++x)
        for (std::int32_t y = INT8_MIN; y <= INT8_MAX; ++y) {
            a.push_back(x);
            b.push_back(y);
        }
}

// --- the comparison --------------------------------------------------------------------------------------------------
/// operation(lanes, operands...) equals itself on scalar_lanes, for the i-th elements of all operands. An operation is
/// a generic lambda that takes the lanes by value, so that the formula is typed once.
template <class L, class Out, class Operation, class... In>
void conforms(const char* what, Operation&& operation, std::vector<In>... operands) {
    const auto width = static_cast<std::size_t>(L::width());
    std::size_t count = 0;
    ((count = operands.size()), ...);
    const std::size_t padded = (count + width - 1) / width * width + width;
    ((operands.resize(padded, operands[0])), ...);
    std::size_t wrong = 0;
    std::string first;
    std::vector<Out> got(width);
    for (std::size_t at = 0; at < padded; at += width) {
        put<L>(got.data(), operation(L{}, get<L>(operands.data() + at)...));
        for (std::size_t i = 0; i < width; ++i) {
            const Out expected = operation(One{}, operands[at + i]...);
            if (same(got[i], expected) || wrong++ > 0) continue;
            std::ostringstream text;
            text.precision(9);
            text << "lane " << i << ":";
            ((text << ' ' << operands[at + i]), ...);
            text << " gives " << got[i] << ", expected " << expected;
            first = text.str();
        }
    }
    INFO(what << ": " << first);
    CHECK(wrong == 0);
}

// --- memory ----------------------------------------------------------------------------------------------------------
/// Every count, at both ends of a guarded buffer (which makes most addresses unaligned).
template <class L, class T> void memory_conforms(const char* type) {
    INFO("memory operations on " << type);
    const auto values = random_values<T>(256, 4);
    const auto width = static_cast<std::size_t>(L::width());
    using Wide = std::conditional_t<(std::is_integral_v<T> && sizeof(T) < 4), std::int32_t, T>;
    for (const auto against : {GuardedBuffer::Against::end, GuardedBuffer::Against::begin})
        for (std::size_t count = 0; count <= width; ++count) {
            GuardedBuffer source(count * sizeof(T), against), target(count * sizeof(T), against);
            std::memcpy(source.as<T>(), values.data() + count, count * sizeof(T));
            const auto loaded = get<L>(source.as<const T>(), static_cast<index_t>(count));
            std::vector<Wide> lanes(width);
            put<L>(lanes.data(), loaded);
            bool right = true;
            for (std::size_t i = 0; i < width; ++i)
                right &= same(lanes[i], i < count ? static_cast<Wide>(values[count + i]) : Wide{0});
            put<L>(target.as<T>(), loaded, static_cast<index_t>(count));
            right &= std::memcmp(target.as<T>(), source.as<T>(), count * sizeof(T)) == 0;
            INFO("count " << count);
            CHECK(right);
            CHECK(target.is_intact());
        }
    // Without a count, at every byte offset of the element type's alignment.
    GuardedBuffer source(2 * width * sizeof(T)), target(2 * width * sizeof(T));
    std::memcpy(source.as<T>(), values.data(), 2 * width * sizeof(T));
    for (std::size_t offset = 0; offset <= width; ++offset) {
        std::memset(target.as<T>(), GuardedBuffer::canary, target.size());
        put<L>(target.as<T>() + offset, get<L>(source.as<const T>() + offset));
        INFO("offset " << offset);
        CHECK(std::memcmp(target.as<T>() + offset, values.data() + offset, width * sizeof(T)) == 0);
        const auto* bytes = target.as<const unsigned char>();
        bool untouched = true;
        for (std::size_t i = 0; i < target.size(); ++i)
            if (i < offset * sizeof(T) || i >= (offset + width) * sizeof(T))
                untouched &= bytes[i] == GuardedBuffer::canary;
        CHECK(untouched);
    }
    CHECK(target.is_intact());
}

/// All codes through a load; every value near and beyond the type's ends through a saturating store.
template <class L, class T> void narrow_memory_conforms() {
    const auto width = static_cast<std::size_t>(L::width());
    std::vector<T> codes;
    for (int code = std::numeric_limits<T>::min(); code <= std::numeric_limits<T>::max(); ++code)
        codes.push_back(static_cast<T>(code));
    codes.resize(codes.size() + width);
    std::size_t wrong = 0;
    std::vector<std::int32_t> wide(width);
    for (std::size_t at = 0; at + width <= codes.size(); ++at) {
        put<L>(wide.data(), L::load(codes.data() + at));
        for (std::size_t i = 0; i < width; ++i) wrong += wide[i] != codes[at + i];
    }
    CHECK(wrong == 0);

    auto values = specials<std::int32_t>();
    for (int step = -300; step <= 300; ++step)
        for (const int near : {int{std::numeric_limits<T>::min()}, 0, int{std::numeric_limits<T>::max()}})
            values.push_back(near + step);
    values.resize(values.size() + width);
    std::vector<T> narrow(width), narrow_in_part(width);
    for (std::size_t at = 0; at + width <= values.size(); ++at) {
        put<L>(narrow.data(), L::load(values.data() + at));
        put<L>(narrow_in_part.data(), L::load(values.data() + at), L::width());
        for (std::size_t i = 0; i < width; ++i) {
            T expected{};
            One::store(&expected, values[at + i], 1);
            wrong += narrow[i] != expected;
            wrong += narrow_in_part[i] != expected;
        }
    }
    CHECK(wrong == 0);
}

/// Four vectors of every value near and beyond int8's ends; nothing is written behind them.
template <class L> void store_four_conforms() {
    const auto width = static_cast<std::size_t>(L::width());
    auto values = specials<std::int32_t>();
    for (int value = -300; value <= 300; ++value) values.push_back(value);
    values.resize(values.size() / (4 * width) * 4 * width);
    std::size_t wrong = 0;
    GuardedBuffer out(4 * width);
    for (std::size_t at = 0; at < values.size(); at += 4 * width) {
        const std::int32_t* const from = values.data() + at;
        L::store_four(out.as<std::int8_t>(), L::load(from), L::load(from + width), L::load(from + 2 * width),
                      L::load(from + 3 * width));
        for (std::size_t i = 0; i < 4 * width; ++i) {
            std::int8_t expected{};
            One::store(&expected, from[i], 1);
            wrong += out.as<std::int8_t>()[i] != expected;
        }
    }
    CHECK(wrong == 0);
    CHECK(out.is_intact());
}

/// Specials, random bits and codes around the range of a byte: whole vectors of ordinary values, and others.
template <class L> void store_rounded_conforms() {
    const auto width = static_cast<std::size_t>(L::width());
    std::vector<float> values = specials<float>(), wild = random_values<float>(2048, 11);
    values.insert(values.end(), wild.begin(), wild.end());
    for (int i = -1200; i <= 1200; ++i) values.push_back(static_cast<float>(i) * 0.25f);
    for (const float end : {32767.0f, -32768.0f})
        for (int i = -40; i <= 40; ++i) values.push_back(end + static_cast<float>(i) * 0.5f);
    values.resize(values.size() + 4 * width, 1.5f);
    std::size_t wrong = 0;
    for (const auto& [zero_point, lowest, highest] :
         {std::array{0, -128, 127}, {-128, -128, 127}, {127, -128, 127}, {-5, -5, 100}, {3, 3, 3}}) {
        const typename L::CodeQuad quad(zero_point, lowest, highest);
        for (std::size_t at = 0; at + 4 * width <= values.size(); at += 3) {
            GuardedBuffer out(4 * width);
            const float* const from = values.data() + at;
            quad.store_rounded(out.as<std::int8_t>(), L::load(from), L::load(from + width), L::load(from + 2 * width),
                               L::load(from + 3 * width));
            for (std::size_t i = 0; i < 4 * width; ++i) {
                const double real = std::isnan(from[i]) ? 0.0 : std::nearbyint(static_cast<double>(from[i]));
                const double code =
                    std::clamp(real + zero_point, static_cast<double>(lowest), static_cast<double>(highest));
                wrong += out.as<std::int8_t>()[i] != static_cast<std::int8_t>(code);
            }
            wrong += !out.is_intact();
        }
    }
    CHECK(wrong == 0);
}

/// 256 times the extremes, which fill 16 bits, and random bytes.
template <class L> void byte_sums_conform() {
    const auto width = static_cast<std::size_t>(L::width());
    std::mt19937 random(seed);
    for (const int kind : {-128, 127, 0}) {
        GuardedBuffer bytes(4 * width);
        std::vector<std::int32_t> expected(4 * width), got(4 * width);
        typename L::ByteSums sums;
        for (int turn = 0; turn < 256; ++turn) {
            for (std::size_t i = 0; i < 4 * width; ++i) {
                bytes.as<std::int8_t>()[i] = static_cast<std::int8_t>(kind != 0 ? kind : static_cast<int>(random()));
                expected[i] += bytes.as<std::int8_t>()[i];
            }
            sums.add(bytes.as<const std::int8_t>());
        }
        L::store(got.data(), sums.template vector<0>());
        L::store(got.data() + width, sums.template vector<1>());
        L::store(got.data() + 2 * width, sums.template vector<2>());
        L::store(got.data() + 3 * width, sums.template vector<3>());
        CHECK(got == expected);
    }
}

/// A table whose first and last entries end at pages without access, read at all places.
template <class L> void entry_sums_conform() {
    std::mt19937_64 random(seed);
    GuardedBuffer table(256 * sizeof(std::uint64_t));
    for (int i = 0; i < 256; ++i) table.as<std::uint64_t>()[i] = random();
    const std::uint64_t* const middle = table.as<const std::uint64_t>() + 128;
    typename L::EntrySums sums;
    std::uint64_t expected = 0;
    std::size_t wrong = 0;
    for (int first = -128; first < 128; ++first) {
        GuardedBuffer index(8), high(8 * sizeof(std::int16_t));
        for (int i = 0; i < 8; ++i) index.as<std::int8_t>()[i] = static_cast<std::int8_t>(first + 3 * i);
        sums.add(middle, index.as<const std::int8_t>(), high.as<std::int16_t>());
        for (int i = 0; i < 8; ++i) {
            const std::uint64_t entry = middle[index.as<const std::int8_t>()[i]];
            expected += entry;
            wrong += high.as<const std::int16_t>()[i] != static_cast<std::int16_t>(entry >> 48);
        }
        wrong += !high.is_intact();
    }
    CHECK(wrong == 0);
    CHECK(sums.total() == expected);
}

template <class L> void add_to_conforms() {
    const auto width = static_cast<std::size_t>(L::width());
    auto values = specials<float>(), more = random_values<float>(1024, 9);
    values.insert(values.end(), more.begin(), more.end());
    std::size_t wrong = 0;
    for (std::size_t at = 0; at + 4 * width <= values.size(); ++at) {
        GuardedBuffer sums(width * sizeof(double));
        const float* const from = values.data() + at;
        std::vector<double> expected(width);
        for (std::size_t i = 0; i < width; ++i) {
            expected[i] = sums.as<double>()[i] = 1.0 / 3.0 * static_cast<double>(i + at);
            One::add_to(&expected[i], from[i], from[width + i], from[2 * width + i], from[3 * width + i]);
        }
        L::add_to(sums.as<double>(), L::load(from), L::load(from + width), L::load(from + 2 * width),
                  L::load(from + 3 * width));
        for (std::size_t i = 0; i < width; ++i)
            wrong += !std::isnan(expected[i]) && sums.as<double>()[i] != expected[i];
        wrong += !sums.is_intact();
    }
    CHECK(wrong == 0);
}

/// Every count through guarded buffers; minimum, maximum and look-up over all pairs of bytes and many of int16.
template <class L, class T> void packed_conforms() {
    const auto width = static_cast<std::size_t>(L::template packed_width<T>());
    std::vector<T> a, b;
    for (int x = INT8_MIN; x <= INT8_MAX; ++x)
        for (int y = INT8_MIN; y <= INT8_MAX; ++y) {
            a.push_back(static_cast<T>(sizeof(T) == 1 ? x : 256 * x + y));
            b.push_back(static_cast<T>(sizeof(T) == 1 ? y : 256 * y - 77 * x));
        }
    a.resize(a.size() + width);
    b.resize(b.size() + width);
    std::size_t wrong = 0;
    std::vector<T> low(width), high(width), same_code(width);
    for (std::size_t at = 0; at + width <= a.size(); at += width) {
        const auto x = L::load_packed(a.data() + at), y = L::load_packed(b.data() + at);
        L::store_packed(low.data(), L::min_packed(x, y));
        L::store_packed(high.data(), L::max_packed(x, y));
        L::store_packed(same_code.data(), L::set_packed(a[at]));
        for (std::size_t i = 0; i < width; ++i)
            wrong += low[i] != std::min(a[at + i], b[at + i]) || high[i] != std::max(a[at + i], b[at + i]) ||
                     same_code[i] != a[at];
    }
    CHECK(wrong == 0);
    for (const auto against : {GuardedBuffer::Against::end, GuardedBuffer::Against::begin})
        for (std::size_t count = 0; count <= width; ++count) {
            GuardedBuffer from(count * sizeof(T), against), to(count * sizeof(T), against);
            std::memcpy(from.as<T>(), a.data() + 300, count * sizeof(T));
            const auto x = L::load_packed(from.as<const T>(), static_cast<index_t>(count));
            L::store_packed(same_code.data(), x);
            for (std::size_t i = 0; i < width; ++i) wrong += same_code[i] != (i < count ? a[300 + i] : T{0});
            L::store_packed(to.as<T>(), x, static_cast<index_t>(count));
            wrong += std::memcmp(to.as<T>(), from.as<T>(), count * sizeof(T)) != 0 || !to.is_intact();
        }
    CHECK(wrong == 0);
}

template <class L> void gather_conforms() {
    const auto width = static_cast<std::size_t>(L::width());
    const auto entries = random_values<std::int16_t>(513, 10);
    GuardedBuffer table(entries.size() * sizeof(std::int16_t));
    std::memcpy(table.as<std::int16_t>(), entries.data(), table.size());
    std::vector<std::int32_t> indices, got(width);
    for (std::int32_t i = 0; i < 512; ++i) indices.push_back(i * 37 % 512);
    indices.resize(indices.size() + width, 511);
    std::size_t wrong = 0;
    for (std::size_t at = 0; at + width <= indices.size(); ++at) {
        put<L>(got.data(), L::gather_pair(table.as<const std::int16_t>(), L::load(indices.data() + at)));
        for (std::size_t i = 0; i < width; ++i) {
            const auto index = static_cast<std::size_t>(indices[at + i]);
            wrong += static_cast<std::int16_t>(got[i]) != entries[index] || got[i] >> 16 != entries[index + 1];
            wrong += got[i] != One::gather_pair(entries.data(), indices[at + i]);
        }
    }
    CHECK(wrong == 0);
}

template <class L> void look_up_conforms() {
    const auto width = static_cast<std::size_t>(L::template packed_width<std::int8_t>());
    std::mt19937 random(seed);
    std::vector<std::int8_t> entries(256), codes;
    for (auto& entry : entries) entry = static_cast<std::int8_t>(random());
    for (int code = INT8_MIN; code <= INT8_MAX; ++code) codes.push_back(static_cast<std::int8_t>(code));
    codes.resize(256 + width, 3);
    const auto table = L::load_table(entries.data());
    std::vector<std::int8_t> got(width);
    std::size_t wrong = 0;
    for (std::size_t at = 0; at + width <= codes.size(); ++at) {
        L::store_packed(got.data(), L::look_up(table, L::load_packed(codes.data() + at)));
        for (std::size_t i = 0; i < width; ++i) {
            wrong += got[i] != entries[static_cast<std::size_t>(codes[at + i] + 128)];
            wrong += got[i] != One::look_up(One::load_table(entries.data()), codes[at + i]);
        }
    }
    CHECK(wrong == 0);
}

// --- arithmetic ------------------------------------------------------------------------------------------------------
template <class L> void int32_conforms() {
    for (const bool bytes : {true, false}) {
        std::vector<std::int32_t> a, b;
        bytes ? byte_pairs(a, b) : pairs(a, b);
        conforms<L, std::int32_t>(
            "add i32", [](auto l, auto x, auto y) { return l.add(x, y); }, a, b);
        conforms<L, std::int32_t>(
            "sub i32", [](auto l, auto x, auto y) { return l.sub(x, y); }, a, b);
        conforms<L, std::int32_t>(
            "mul i32", [](auto l, auto x, auto y) { return l.mul(x, y); }, a, b);
        conforms<L, std::int32_t>(
            "min i32", [](auto l, auto x, auto y) { return l.min(x, y); }, a, b);
        conforms<L, std::int32_t>(
            "max i32", [](auto l, auto x, auto y) { return l.max(x, y); }, a, b);
        conforms<L, std::int64_t>(
            "mul_wide", [](auto l, auto x, auto y) { return l.mul_wide(x, y); }, a, b);
    }
    std::vector<std::int32_t> a, n;
    for (const std::int32_t x : singles<std::int32_t>())
        for (std::int32_t shift = 0; shift < 32; ++shift) {
            a.push_back(x);
            n.push_back(shift);
        }
    conforms<L, std::int32_t>(
        "shift_left i32", [](auto l, auto x, auto y) { return l.shift_left(x, y); }, a, n);
    conforms<L, std::int32_t>(
        "shift_right i32", [](auto l, auto x, auto y) { return l.shift_right(x, y); }, a, n);
    conforms<L, std::int64_t>(
        "widen", [](auto l, auto x) { return l.widen(x); }, singles<std::int32_t>());
    conforms<L, float>(
        "to_f32", [](auto l, auto x) { return l.to_f32(x); }, singles<std::int32_t>());
    conforms<L, float>(
        "from_bits", [](auto l, auto x) { return l.from_bits(x); }, singles<std::int32_t>());
    for (const std::int32_t value : specials<std::int32_t>())
        conforms<L, std::int32_t>(
            "set i32", [=](auto l, auto) { return l.set(value); }, std::vector<std::int32_t>{0});
}

template <class L> void int64_conforms() {
    std::vector<std::int64_t> a, b, n;
    pairs(a, b);
    conforms<L, std::int64_t>(
        "add i64", [](auto l, auto x, auto y) { return l.add(x, y); }, a, b);
    conforms<L, std::int64_t>(
        "mul i64", [](auto l, auto x, auto y) { return l.mul(x, y); }, a, b);
    conforms<L, std::int32_t>(
        "narrow", [](auto l, auto x) { return l.narrow(x); }, singles<std::int64_t>());
    conforms<L, float>(
        "to_f32 i64", [](auto l, auto x) { return l.to_f32(x); }, wide_sums());
    a.clear();
    for (const std::int64_t x : singles<std::int64_t>())
        for (std::int64_t shift = 0; shift < 64; ++shift) {
            a.push_back(x);
            n.push_back(shift);
        }
    conforms<L, std::int64_t>(
        "shift_left i64", [](auto l, auto x, auto y) { return l.shift_left(x, y); }, a, n);
    conforms<L, std::int64_t>(
        "shift_right i64", [](auto l, auto x, auto y) { return l.shift_right(x, y); }, a, n);
    for (const std::int64_t value : specials<std::int64_t>())
        conforms<L, std::int64_t>(
            "set_i64", [=](auto l, auto) { return l.set_i64(value); }, std::vector<std::int64_t>{0});
}

template <class L> void float_conforms() {
    std::vector<float> a, b;
    pairs(a, b);
    conforms<L, float>(
        "add f32", [](auto l, auto x, auto y) { return l.add(x, y); }, a, b);
    conforms<L, float>(
        "sub f32", [](auto l, auto x, auto y) { return l.sub(x, y); }, a, b);
    conforms<L, float>(
        "mul f32", [](auto l, auto x, auto y) { return l.mul(x, y); }, a, b);
    conforms<L, float>(
        "div f32", [](auto l, auto x, auto y) { return l.div(x, y); }, a, b);
    const auto c = random_values<float>(a.size(), 7);
    conforms<L, float>(
        "fma", [](auto l, auto x, auto y, auto z) { return l.fma(x, y, z); }, a, b, c);
    conforms<L, float>(
        "fma of cancelling operands",
        [](auto l, auto x, auto y) { return l.fma(x, y, l.mul(l.mul(x, y), l.set(-1.0f))); }, a, b);
    conforms<L, float>(
        "min f32", [](auto l, auto x, auto y) { return l.min(x, y); }, a, b);
    conforms<L, float>(
        "max f32", [](auto l, auto x, auto y) { return l.max(x, y); }, a, b);
    conforms<L, float>(
        "replace_nan", [](auto l, auto x, auto y) { return l.replace_nan(x, y); }, a, b);
    conforms<L, float>(
        "keep_inside", [](auto l, auto x, auto y) { return l.keep_inside(x, l.set(-1.5f), l.set(127.5f), y); }, a, b);
    conforms<L, float>(
        "keep_inside, x as limits", [](auto l, auto x, auto y) { return l.keep_inside(y, x, l.set(3.5f), x); }, a, b);
    conforms<L, float>(
        "choose_inside", [](auto l, auto x, auto y) { return l.choose_inside(x, l.set(-1.5f), l.set(127.5f), y, x); },
        a, b);
    conforms<L, float>(
        "choose_inside, x as limits", [](auto l, auto x, auto y) { return l.choose_inside(y, x, l.set(3.5f), x, y); },
        a, b);
    for (const float value : specials<float>())
        conforms<L, float>(
            "set f32", [=](auto l, auto) { return l.set(value); }, std::vector<float>{0.0f});
}

/// A product or a quotient that meets a sum is rounded on its own, whatever the flags of this unit allow.
template <class L> void products_are_not_contracted() {
    std::vector<float> a, b;
    pairs(a, b);
    const auto c = random_values<float>(a.size(), 5);
    conforms<L, float>(
        "x · y + z", [](auto l, auto x, auto y, auto z) { return l.add(l.mul(x, y), z); }, a, b, c);
    conforms<L, float>(
        "z - x · y", [](auto l, auto x, auto y, auto z) { return l.sub(z, l.mul(x, y)); }, a, b, c);
    conforms<L, float>(
        "x / 1024 + z", [](auto l, auto x, auto z) { return l.add(l.div(x, l.set(1024.0f)), z); }, a, c);
    // (1 + 2^-12)² - (1 + 2^-11) is 0 where the square was rounded first, 2^-24 where it was not.
    conforms<L, float>(
        "exact residue", [](auto l, auto x) { return l.sub(l.mul(x, x), l.set(1.0f + 0x1p-11f)); },
        std::vector<float>{1.0f + 0x1p-12f});
    CHECK(One::sub(One::mul(1.0f + 0x1p-12f, 1.0f + 0x1p-12f), 1.0f + 0x1p-11f) == 0.0f);
}

template <class L> void roundings_conform() {
    auto values = singles<float>();
    for (int quarter = -2400; quarter <= 2400; ++quarter) values.push_back(static_cast<float>(quarter) * 0.25f);
    conforms<L, float>(
        "floor", [](auto l, auto x) { return l.floor(x); }, values);
    conforms<L, float>(
        "round_half_even", [](auto l, auto x) { return l.round_half_even(x); }, values);
    std::vector<float> integers;
    for (const float x : values)
        if (x >= -0x1p31f && x < 0x1p31f) integers.push_back(std::floor(x));
    conforms<L, std::int32_t>(
        "to_i32", [](auto l, auto x) { return l.to_i32(x); }, integers);
    std::vector<float> reals;
    for (const float x : values)
        if (x >= -0x1p31f && x < 0x1p31f) reals.push_back(x);
    conforms<L, std::int32_t>(
        "round_to_i32", [](auto l, auto x) { return l.round_to_i32(x); }, reals);
}

/// Under any rounding mode of the machine. The sign of a zero is left out: plain sums have the mode's.
template <class L> void roundings_ignore_the_mode() {
    const auto width = static_cast<std::size_t>(L::width());
    auto values = specials<float>();
    values.resize(values.size() + width, 1.5f);
    std::size_t wrong = 0;
    for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO})
        for (std::size_t at = 0; at + width <= values.size(); ++at) {
            std::vector<float> even(width), floor(width);
            std::vector<std::int32_t> integer(width);
            std::fesetround(mode);
            put<L>(integer.data(), L::round_to_i32(L::load(values.data() + at)));
            put<L>(even.data(), L::round_half_even(L::load(values.data() + at)));
            put<L>(floor.data(), L::floor(L::load(values.data() + at)));
            std::fesetround(FE_TONEAREST);
            for (std::size_t i = 0; i < width; ++i) {
                const float x = values[at + i];
                if (std::isnan(x)) continue;
                wrong += !(even[i] == One::round_half_even(x));
                wrong += !(floor[i] == One::floor(x));
                if (x >= -0x1p31f && x < 0x1p31f) wrong += integer[i] != One::round_to_i32(x);
            }
        }
    CHECK(wrong == 0);
}

// --- reductions ------------------------------------------------------------------------------------------------------
template <class L> void reductions_conform() {
    const auto width = static_cast<std::size_t>(L::width());
    std::size_t wrong = 0;
    const auto numbers = random_values<float>(width, 6);
    for (std::size_t lane = 0; lane < width; ++lane)
        for (const float special : specials<float>()) {
            std::vector<float> values(width, 0.25f);
            values[lane] = special;
            wrong += L::all_finite(L::load(values.data())) != std::isfinite(special);
            if (std::isnan(special)) continue;
            for (const float rest : {0.25f, 0.0f, -0.0f, -1.0f}) {
                values.assign(width, rest);
                values[lane] = special;
                const float expected_min = width > 1 && !(special < rest) ? rest : special;
                const float expected_max = width > 1 && !(special > rest) ? rest : special;
                wrong += !same(L::reduce_min(L::load(values.data())), expected_min + 0.0f);
                wrong += !same(L::reduce_max(L::load(values.data())), expected_max + 0.0f);
            }
        }
    CHECK(wrong == 0);
}

template <class Backend> void backend_conforms() {
    using L = intq::simd::lanes<Backend>;
    static_assert(intq::arith::Lanes<L>);
    SECTION("memory") {
        memory_conforms<L, std::int8_t>("int8");
        memory_conforms<L, std::int16_t>("int16");
        memory_conforms<L, std::int32_t>("int32");
        memory_conforms<L, float>("float");
        memory_conforms<L, std::int64_t>("int64");
        narrow_memory_conforms<L, std::int8_t>();
        narrow_memory_conforms<L, std::int16_t>();
        store_four_conforms<L>();
        add_to_conforms<L>();
        if constexpr (intq::kernels::detail::HasRoundingStore<L>) store_rounded_conforms<L>();
        if constexpr (requires { typename L::ByteSums; }) byte_sums_conform<L>();
    }
    SECTION("packed") {
        packed_conforms<L, std::int8_t>();
        packed_conforms<L, std::int16_t>();
        look_up_conforms<L>();
        gather_conforms<L>();
        if constexpr (requires { typename L::EntrySums; }) entry_sums_conform<L>();
    }
    SECTION("int32") { int32_conforms<L>(); }
    SECTION("int64") { int64_conforms<L>(); }
    SECTION("float") {
        float_conforms<L>();
        products_are_not_contracted<L>();
    }
    SECTION("rounding") {
        roundings_conform<L>();
        roundings_ignore_the_mode<L>();
    }
    SECTION("reductions") { reductions_conform<L>(); }
}

}  // namespace

TEST_CASE("every primitive of every backend equals its scalar meaning in every lane") {
    static bool printed = false;
    if (!printed) std::cout << "backends:";
    for_each_backend(all_backends{}, [](auto backend) {
        using Backend = decltype(backend);
        if (!printed) std::cout << ' ' << Backend::name;
    });
    if (!printed) std::cout << std::endl;
    printed = true;
    INFO("seed " << seed);
    for_each_backend(all_backends{}, [](auto backend) {
        using Backend = decltype(backend);
        SECTION(Backend::name) { backend_conforms<Backend>(); }
    });
}

TEST_CASE("The specification's fma rounds once, as the C library's does") {
    std::vector<float> a, b;
    pairs(a, b);
    auto c = random_values<float>(a.size(), 8);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        for (const float z : {c[i], -(a[i] * b[i]), std::nextafter(a[i] * b[i], 1e30f), 0x1p-149f, -0x1p-149f, -0.0f})
            wrong += !same(intq::arith::ffma(a[i], b[i], z), std::fma(a[i], b[i], z));
    CHECK(wrong == 0);
    // Just above the tie of two floats: rounding to binary64 first would lose what breaks it.
    CHECK(intq::arith::ffma(1.0f + 0x1p-23f, 0x1p-24f, 1.0f) == 1.0f + 0x1p-23f);
    CHECK(intq::arith::ffma(0x1p-40f, 0x1p-40f, 1.0f + 0x1p-23f) == 1.0f + 0x1p-23f);
    CHECK(intq::arith::ffma(0x1.000002p0f, 0x1.fffffep-25f, 1.0f) == std::fma(0x1.000002p0f, 0x1.fffffep-25f, 1.0f));
}
