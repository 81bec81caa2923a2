// SPDX-License-Identifier: MIT
//
// Oracle: float operators in double, written from their definitions and apart from the library: every output gathers
// its inputs one by one through functions of logical indices. Layer: tests/reference (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_FLOAT_LAYERS_HPP
#define INTQ_TESTS_REFERENCE_FLOAT_LAYERS_HPP

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace intq_reference {

/// (N, C, H, W) numbers.
struct Image {
    long n = 1, c = 1, h = 1, w = 1;
    std::vector<double> values{};

    Image(long samples, long channels, long height, long width)
        : n(samples), c(channels), h(height), w(width), values(static_cast<std::size_t>(n * c * h * w)) {}
    double& at(long i, long j, long k, long l) {
        return values[static_cast<std::size_t>(((i * c + j) * h + k) * w + l)];
    }
    double at(long i, long j, long k, long l) const {
        return values[static_cast<std::size_t>(((i * c + j) * h + k) * w + l)];
    }
    /// 0 outside.
    double padded(long i, long j, long k, long l) const {
        return k < 0 || k >= h || l < 0 || l >= w ? 0.0 : at(i, j, k, l);
    }
    bool contains(long k, long l) const { return k >= 0 && k < h && l >= 0 && l < w; }
};

struct Window {
    long kh = 1, kw = 1, sh = 1, sw = 1, top = 0, left = 0, bottom = 0, right = 0, dh = 1, dw = 1;
    long rows(long h) const { return (h + top + bottom - dh * (kh - 1) - 1) / sh + 1; }
    long columns(long w) const { return (w + left + right - dw * (kw - 1) - 1) / sw + 1; }
};

template <class F> Image each_output(Image y, const F& value) {
    for (long i = 0; i < y.n; ++i)
        for (long j = 0; j < y.c; ++j)
            for (long k = 0; k < y.h; ++k)
                for (long l = 0; l < y.w; ++l) y.at(i, j, k, l) = value(i, j, k, l);
    return y;
}

inline Image float_conv2d(const Image& x, const Image& weight, const std::vector<double>& bias, const Window& w,
                          long groups) {
    return each_output({x.n, weight.n, w.rows(x.h), w.columns(x.w)}, [&](long n, long o, long i, long j) {
        double sum = bias.empty() ? 0.0 : bias[static_cast<std::size_t>(o)];
        const long group = o / (weight.n / groups);
        for (long c = 0; c < weight.c; ++c)
            for (long u = 0; u < w.kh; ++u)
                for (long v = 0; v < w.kw; ++v)
                    sum += weight.at(o, c, u, v) *
                           x.padded(n, group * weight.c + c, i * w.sh + u * w.dh - w.top, j * w.sw + v * w.dw - w.left);
        return sum;
    });
}

inline Image float_max_pool2d(const Image& x, const Window& w) {
    return each_output({x.n, x.c, w.rows(x.h), w.columns(x.w)}, [&](long n, long c, long i, long j) {
        double best = -std::numeric_limits<double>::infinity();
        for (long u = 0; u < w.kh; ++u)
            for (long v = 0; v < w.kw; ++v) {
                const long k = i * w.sh + u * w.dh - w.top, l = j * w.sw + v * w.dw - w.left;
                if (x.contains(k, l)) best = std::max(best, x.at(n, c, k, l));
            }
        return best;
    });
}

inline Image float_avg_pool2d(const Image& x, const Window& w, bool count_padding) {
    return each_output({x.n, x.c, w.rows(x.h), w.columns(x.w)}, [&](long n, long c, long i, long j) {
        double sum = 0;
        long count = 0;
        for (long u = 0; u < w.kh; ++u)
            for (long v = 0; v < w.kw; ++v) {
                const long k = i * w.sh + u * w.dh - w.top, l = j * w.sw + v * w.dw - w.left;
                sum += x.padded(n, c, k, l);
                count += count_padding || x.contains(k, l) ? 1 : 0;
            }
        return sum / static_cast<double>(count);
    });
}

inline Image float_adaptive_avg_pool2d(const Image& x, long rows, long columns) {
    return each_output({x.n, x.c, rows, columns}, [&](long n, long c, long i, long j) {
        double sum = 0, count = 0;
        for (long k = 0; k < x.h; ++k)
            for (long l = 0; l < x.w; ++l) {
                // Cell k belongs to row i where [k, k + 1) meets [i·h/rows, (i + 1)·h/rows).
                const bool row = k * rows < (i + 1) * x.h && (k + 1) * rows > i * x.h;
                const bool column = l * columns < (j + 1) * x.w && (l + 1) * columns > j * x.w;
                if (!row || !column) continue;
                sum += x.at(n, c, k, l);
                count += 1;
            }
        return sum / count;
    });
}

/// Statistics of the batch, as in training.
inline Image float_batch_norm(const Image& x, const std::vector<double>& weight, const std::vector<double>& bias,
                              double eps) {
    return each_output({x.n, x.c, x.h, x.w}, [&](long n, long c, long i, long j) {
        double sum = 0, squares = 0;
        const auto count = static_cast<double>(x.n * x.h * x.w);
        for (long m = 0; m < x.n; ++m)
            for (long k = 0; k < x.h; ++k)
                for (long l = 0; l < x.w; ++l) sum += x.at(m, c, k, l);
        for (long m = 0; m < x.n; ++m)
            for (long k = 0; k < x.h; ++k)
                for (long l = 0; l < x.w; ++l) squares += std::pow(x.at(m, c, k, l) - sum / count, 2);
        const auto channel = static_cast<std::size_t>(c);
        return (x.at(n, c, i, j) - sum / count) / std::sqrt(squares / count + eps) * weight[channel] + bias[channel];
    });
}

/// Over the channels of each pixel.
inline Image float_softmax(const Image& x) {
    return each_output({x.n, x.c, x.h, x.w}, [&](long n, long c, long i, long j) {
        double sum = 0;
        for (long k = 0; k < x.c; ++k) sum += std::exp(x.at(n, k, i, j) - x.at(n, c, i, j));
        return 1.0 / sum;
    });
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_FLOAT_LAYERS_HPP
