// SPDX-License-Identifier: MIT
//
// Regions of output pixels: each pixel in one of them, with the taps that are inside its image.
#include "intq/kernels/window/regions.hpp"

#include <vector>

#include "support/catch.hpp"

using namespace intq;

namespace {

/// Whether a tap of an output pixel is inside the image, by the definition of a window.
bool is_inside(const Window2d& window, Size2d in, index_t oy, index_t ox, index_t ky, index_t kx) {
    const index_t y = oy * window.stride.height + ky * window.dilation.height - window.padding.top;
    const index_t x = ox * window.stride.width + kx * window.dilation.width - window.padding.left;
    return y >= 0 && y < in.height && x >= 0 && x < in.width;
}

bool is_among(const kernels::ValidTaps& taps, index_t tap) { return tap >= taps.first && tap < taps.last; }

/// Taps that a region states wrongly, and pixels that are not in exactly one region.
struct Verdict {
    index_t wrong_taps = 0, wrong_pixels = 0, regions = 0;
};
Verdict judge(const Window2d& window, Size2d in) {
    const auto geometry = kernels::make_conv2d_geometry(window, 1, in);
    if (!geometry) return {};
    Verdict verdict;
    std::vector<int> covered(static_cast<std::size_t>(geometry->out_pixels()));
    auto region = kernels::detail::first_region(window, *geometry);
    for (; region.rows.first < geometry->out.height;
         region = kernels::detail::next_region(window, *geometry, region), ++verdict.regions)
        for (index_t oy = region.rows.first; oy < region.rows.last; ++oy)
            for (index_t ox = region.columns.first; ox < region.columns.last; ++ox) {
                ++covered.at(static_cast<std::size_t>(oy * geometry->out.width + ox));
                for (index_t ky = 0; ky < window.kernel.height; ++ky)
                    for (index_t kx = 0; kx < window.kernel.width; ++kx)
                        verdict.wrong_taps += (is_among(region.rows.taps, ky) && is_among(region.columns.taps, kx)) !=
                                              is_inside(window, in, oy, ox, ky, kx);
            }
    for (const int count : covered) verdict.wrong_pixels += count != 1;
    return verdict;
}

}  // namespace

TEST_CASE("Each output pixel is in one region, whose taps are those inside the image") {
    index_t wrong = 0, windows = 0, most_regions = 0;
    for (index_t kernel = 1; kernel <= 5; ++kernel)
        for (index_t stride = 1; stride <= 3; ++stride)
            for (index_t dilation = 1; dilation <= 4; ++dilation)
                for (index_t before = 0; before <= 9; ++before)
                    for (index_t after = 0; after <= 9; after += 3)
                        for (index_t extent = 1; extent <= 12; ++extent) {
                            const Window2d window{{kernel, 2}, {stride, 1}, {before, 1, after, 0}, {dilation, 1}};
                            const Verdict verdict = judge(window, {extent, 3});
                            const Window2d turned{{2, kernel}, {1, stride}, {1, before, 0, after}, {1, dilation}};
                            const Verdict other = judge(turned, {3, extent});
                            wrong += verdict.wrong_taps + verdict.wrong_pixels + other.wrong_taps + other.wrong_pixels;
                            windows += verdict.regions > 0;
                            if (verdict.regions > most_regions) most_regions = verdict.regions;
                        }
    CHECK(wrong == 0);
    CHECK(windows > 10000);
    CHECK(most_regions > 9);
}

TEST_CASE("Neighbouring regions of an axis have other taps, so that they are as large as they can be") {
    index_t alike = 0;
    for (index_t kernel = 1; kernel <= 4; ++kernel)
        for (index_t stride = 1; stride <= 3; ++stride)
            for (index_t dilation = 1; dilation <= 6; ++dilation)
                for (index_t padding = 0; padding <= 12; ++padding)
                    for (index_t in = 1; in <= 14; ++in) {
                        const kernels::detail::WindowAxis axis{stride, padding, dilation, kernel, in, 20};
                        auto region = kernels::detail::axis_region(axis, 0);
                        while (region.last < axis.out) {
                            const auto next = kernels::detail::axis_region(axis, region.last);
                            alike += next.taps == region.taps;
                            region = next;
                        }
                    }
    CHECK(alike == 0);
}

TEST_CASE("Windows that lie in padding as a whole make three regions an axis, however large the padding is") {
    CHECK(judge({{1, 1}, {1, 1}, {40, 40, 40, 40}, {1, 1}}, {8, 8}).regions == 9);
}
