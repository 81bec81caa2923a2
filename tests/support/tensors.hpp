// SPDX-License-Identifier: MIT
//
// Tensors in every layout, values that hurt, and executors, for tests of element-wise kernels and observers.
#ifndef INTQ_TESTS_SUPPORT_TENSORS_HPP
#define INTQ_TESTS_SUPPORT_TENSORS_HPP

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "intq/core/executor.hpp"
#include "intq/core/tensor_view.hpp"

namespace intq::test {

/// visit(index) for every logical index, row-major.
template <std::size_t Rank, class Visit> void for_each_index(const std::array<index_t, Rank>& extents, Visit&& visit) {
    index_t size = 1;
    for (const index_t extent : extents) size *= extent;
    for (index_t element = 0; element < size; ++element) {
        std::array<index_t, Rank> index{};
        index_t rest = element;
        for (std::size_t axis = Rank; axis-- > 0;) {
            index[axis] = rest % extents[axis];
            rest /= extents[axis];
        }
        visit(index);
    }
}

/// A tensor that owns its elements. In the strided layout they lie in a larger row-major tensor, every other one of
/// the last axis, and the gaps hold a canary.
template <class T, int Rank, class LayoutTag> class TestTensor {
public:
    using Index = std::array<index_t, static_cast<std::size_t>(Rank)>;
    static constexpr T canary = static_cast<T>(91);

    explicit TestTensor(const Index& extents) : extents_(extents) {
        Index outer = extents;
        if constexpr (is_strided) {
            for (index_t& extent : outer) extent += 1;
            outer.back() *= 2;
        }
        strides_ = first_layout::strides(outer);
        index_t size = 1;
        for (const index_t extent : outer) size *= extent;
        elements_.assign(static_cast<std::size_t>(size), canary);
        if constexpr (is_strided) strides_.back() = 2;
    }

    TensorView<T, Rank, LayoutTag> view() {
        if constexpr (is_strided) {
            return {elements_.data(), extents_, strides_};
        } else {
            return {elements_.data(), extents_};
        }
    }
    template <class Value> void fill(Value&& value) {
        for_each_index(extents_, [&](const Index& index) { view()[index] = value(index); });
    }
    /// Whether the elements of no index still hold the canary.
    bool is_intact() {
        std::size_t canaries = 0, inside = 0;
        for (const T& element : elements_) canaries += element == canary ? 1 : 0;
        for_each_index(extents_, [&](const Index& index) { inside += view()[index] == canary ? 1 : 0; });
        return canaries - inside == elements_.size() - static_cast<std::size_t>(view().size());
    }

private:
    static constexpr bool is_strided = std::is_same_v<LayoutTag, strided>;
    using first_layout = std::conditional_t<is_strided, row_major, LayoutTag>;
    Index extents_, strides_{};
    std::vector<T> elements_;
};

/// Floats around every kind of edge of a quantizer of this scale: ties, their neighbours, ends of ranges, NaN,
/// infinities, zeros of both signs, subnormals, and random values.
class EdgeValues {
public:
    EdgeValues(float scale, std::uint32_t seed) : scale_(scale), random_(seed) {}

    float operator()() {
        constexpr float infinity = std::numeric_limits<float>::infinity();
        constexpr std::array<float, 12> special{
            0.0f,    -0.0f, infinity, -infinity,  std::numeric_limits<float>::quiet_NaN(), 1e30f, -1e30f, 1e-40f,
            -1e-40f, 3e9f,  -3e9f,    0.49999997f};
        constexpr std::array<float, 10> ends{127, -128, 32767, -32768, 255, 0, 8388607, -8388608, 65535, 1};
        const auto pick = random_();
        const float sign = (pick >> 20 & 1) != 0 ? 1.0f : -1.0f;
        switch (pick % 8) {
            case 0:
                return special[pick / 8 % special.size()];
            case 1:
                return (ends[pick / 8 % ends.size()] + 0.5f * static_cast<float>(pick >> 16 & 3) - 0.5f) * scale_;
            case 2:
            case 3:
                return sign * (static_cast<float>(pick / 8 % 200) + 0.5f) * scale_;
            case 4:
                return std::nextafter(sign * (static_cast<float>(pick / 8 % 200) + 0.5f) * scale_,
                                      2 * sign * scale_ * 200);
            case 5:
                return normal_(random_) * scale_ * 30000;
            default:
                return normal_(random_) * scale_ * 70;
        }
    }

private:
    float scale_;
    std::mt19937 random_;
    std::normal_distribution<float> normal_{};
};

/// Runs the tasks from the last to the first, and counts them.
struct BackwardExecutor {
    index_t tasks = 0;
    Executor executor() {
        return Executor(
            [](void* state, index_t count, Executor::Task task, void* context) {
                static_cast<BackwardExecutor*>(state)->tasks += count;
                for (index_t i = count; i-- > 0;) task(context, i);
            },
            this);
    }
};

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_TENSORS_HPP
