// SPDX-License-Identifier: MIT
//
// Average pools to a size that does not divide their input's, as PyTorch writes them: indices of the image, masked,
// added one by one, and divided. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_UNEVEN_AVERAGES_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_UNEVEN_AVERAGES_HPP

#include <optional>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The model with two products of matrices for each linear function of the pixels of an image that starts with a
/// GatherND of constant indices; none where it has no such.
///
///     y[n, c, i, j] = Σ_h Σ_w a[i, h] · b[j, w] · x[n, c, h, w]
///
/// The function is made of Transpose, Where with a constant condition and 0, Gather of one index, Add, ReduceMean, and
/// Div and Mul by constants. It stays as it is where it has other nodes, where the file does not say the shape of the
/// image, and where its weights are no products of one number for each row and one for each column.
///
/// Cost     the pixels that the function adds, once
std::optional<Model> with_uneven_averages(const Model& model);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <map>
#    include <numeric>
#    include <span>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/interop/onnx/internal/nodes/constants_of.hpp"
#    include "intq/interop/onnx/internal/nodes/graph_editor.hpp"
#    include "intq/interop/onnx/internal/read/limits.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Reads the nodes once, in their order.
class AverageSearch {
public:
    explicit AverageSearch(const Graph& graph) : graph_(graph), constants_(graph), editor_(graph) {}

    bool run() {
        for (const Node& node : graph_.nodes) {
            const bool is_read = is_of_onnx(node) && node.outputs.size() == 1 && !constants_.add(node);
            if (!is_read || !add(node)) editor_.keep(node);
        }
        return editor_.has_changed();
    }
    GraphEditor& editor() { return editor_; }

private:
    using Extents = std::vector<index_t>;
    // What a file may ask for: elements and terms of sums, and comparisons of weights of one function, and of all.
    static constexpr std::uint64_t most_terms = std::uint64_t{1} << 22, most_compared = std::uint64_t{1} << 24,
                                   most_compared_of_all = std::uint64_t{1} << 26;

    /// A pixel of the image times a number.
    struct Term {
        index_t pixel;
        double factor;
    };
    /// A value (N, C, dims) of which each element is a sum of terms, the same for each sample and channel.
    struct Sums {
        std::string x;
        index_t height = 0, width = 0;
        Extents dims{};
        std::vector<std::vector<Term>> elements{};
    };

    static index_t size_of(const Extents& dims) {
        return std::accumulate(dims.begin(), dims.end(), index_t{1}, [](index_t a, index_t b) { return a * b; });
    }
    /// Null for another value, and where a file wants too many sums.
    const Sums* sums_of(const std::string& value) const {
        const auto found = sums_.find(value);
        return found == sums_.end() || terms_ > most_terms ? nullptr : &found->second;
    }
    void keep(const std::string& value, Sums sums) {
        terms_ += sums.elements.size();
        for (const std::vector<Term>& element : sums.elements) terms_ += element.size();
        sums_[value] = std::move(sums);
    }

    /// @return whether the node is read as products of matrices, which are in the editor
    bool add(const Node& node) {
        const std::string& op = node.op_type;
        if (op == "Transpose") return add_transpose(node);
        if (op == "GatherND") return add_pixels(node);
        if (op == "Where" && node.inputs.size() == 3) return add_mask(node);
        if (op == "Gather") return add_choice(node);
        if (op == "Add") return add_sum(node);
        if (op == "ReduceMean") return add_mean(node) && end(node);
        return (op == "Div" || op == "Mul") && node.inputs.size() == 2 && add_factor(node, op == "Div") && end(node);
    }

    bool add_transpose(const Node& node) {
        const auto order = permutation_of(node);
        if (!order || node.inputs.size() != 1) return false;
        const std::string &in = node.inputs[0], &out = node.outputs[0];
        if (*order == std::vector<std::int64_t>{2, 3, 0, 1}) pixels_first_[out] = in;
        const auto picked = picked_.find(in);
        if (picked == picked_.end()) return false;
        std::vector<std::int64_t> back(picked->second.dims.size() + 2);  // samples and channels, which are the last
        std::iota(back.begin() + 2, back.end(), 0);
        back[0] = static_cast<std::int64_t>(back.size()) - 2, back[1] = back[0] + 1;
        if (*order == back) keep(out, picked->second);
        return false;
    }

    /// As the file says it; empty where it does not.
    Extents shape_of(const std::string& value) const {
        for (const ValueInfo& input : graph_.inputs)
            if (input.name == value) return input.shape;
        const auto shape = graph_.shapes.find(value);
        return shape == graph_.shapes.end() ? Extents() : shape->second;
    }

    bool add_pixels(const Node& node) {
        const auto image = node.inputs.size() == 2 ? pixels_first_.find(node.inputs[0]) : pixels_first_.end();
        if (image == pixels_first_.end() ||
            integers_of_attribute(node, "batch_dims").value_or(std::vector{std::int64_t{0}}) !=
                std::vector<std::int64_t>{0})
            return false;
        const Extents shape = shape_of(image->second);
        const FileTensor* const at = constants_.tensor(node.inputs[1]);
        if (shape.size() != 4 || at == nullptr || at->dtype != DType::int64 || at->dims.empty() ||
            at->dims.back() != 2 || at->size() > max_folded)
            return false;
        Sums picked{image->second, shape[2], shape[3], {at->dims.begin(), at->dims.end() - 1}, {}};
        const auto indices = at->as<std::int64_t>();
        for (std::size_t i = 0; i < indices.size(); i += 2) {
            const auto inside = [](std::int64_t index, index_t extent) { return index < 0 ? index + extent : index; };
            const std::int64_t h = inside(indices[i], picked.height), w = inside(indices[i + 1], picked.width);
            if (h < 0 || w < 0 || h >= picked.height || w >= picked.width) return false;
            picked.elements.push_back({{h * picked.width + w, 1.0}});
        }
        if ((terms_ += picked.elements.size()) <= most_terms) picked_[node.outputs[0]] = std::move(picked);
        return false;
    }

    /// Calls use(element, i) for each element and the place in a constant that is broadcast with the value.
    /// @return false where it is not
    template <class Use> static bool with_constant(Sums& sums, const Extents& dims, const Use& use) {
        if (dims.size() > sums.dims.size()) return false;
        const std::size_t front = sums.dims.size() - dims.size();
        for (std::size_t axis = 0; axis < dims.size(); ++axis)
            if (dims[axis] != 1 && dims[axis] != sums.dims[front + axis]) return false;
        for (std::size_t i = 0; i < sums.elements.size(); ++i) {
            std::size_t rest = i, at = 0, step = 1;
            for (std::size_t axis = sums.dims.size(); axis-- > front;) {
                const auto extent = static_cast<std::size_t>(sums.dims[axis]);
                if (dims[axis - front] != 1) at += rest % extent * step;
                step *= static_cast<std::size_t>(dims[axis - front]);
                rest /= extent;
            }
            use(sums.elements[i], at);
        }
        return true;
    }

    bool add_mask(const Node& node) {
        const FileTensor* const condition = constants_.tensor(node.inputs[0]);
        const std::size_t kept = constants_.number(node.inputs[1]) == 0.0 ? 2 : 1;
        const Sums* const from = sums_of(node.inputs[kept]);
        if (from == nullptr || condition == nullptr || condition->dtype != DType::uint8 ||
            constants_.number(node.inputs[3 - kept]) != 0.0)
            return false;
        Sums masked = *from;
        const auto chosen = condition->as<std::uint8_t>();
        if (with_constant(masked, condition->dims, [&](std::vector<Term>& element, std::size_t i) {
                if ((chosen[i] != 0) != (kept == 1)) element.clear();
            }))
            keep(node.outputs[0], std::move(masked));
        return false;
    }

    bool add_choice(const Node& node) {
        const Sums* const from = node.inputs.size() == 2 ? sums_of(node.inputs[0]) : nullptr;
        const FileTensor* const index = from == nullptr ? nullptr : constants_.tensor(node.inputs[1]);
        const auto given = integers_of_attribute(node, "axis");
        if (index == nullptr || index->dtype != DType::int64 || index->size() != 1 || !index->dims.empty() || !given)
            return false;
        const std::int64_t axis = given->front() - 2;  // behind samples and channels
        if (axis < 0 || axis >= static_cast<std::int64_t>(from->dims.size())) return false;
        Sums chosen = *from;
        chosen.elements.clear();
        const auto place = chosen.dims.begin() + axis;
        const index_t extent = *place, behind = size_of({place + 1, chosen.dims.end()});
        std::int64_t at = index->as<std::int64_t>()[0];
        if (at < 0) at += extent;
        if (at < 0 || at >= extent) return false;
        for (std::size_t i = 0; i < from->elements.size(); ++i)
            if (static_cast<index_t>(i) / behind % extent == at) chosen.elements.push_back(from->elements[i]);
        chosen.dims.erase(place);
        keep(node.outputs[0], std::move(chosen));
        return false;
    }

    bool add_sum(const Node& node) {
        if (node.inputs.size() != 2) return false;
        const Sums *const a = sums_of(node.inputs[0]), *const b = sums_of(node.inputs[1]);
        if (a == nullptr || b == nullptr || a->x != b->x || a->dims != b->dims) return false;
        Sums both = *a;
        for (std::size_t i = 0; i < both.elements.size(); ++i)
            both.elements[i].insert(both.elements[i].end(), b->elements[i].begin(), b->elements[i].end());
        keep(node.outputs[0], std::move(both));
        return false;
    }

    bool add_mean(const Node& node) {
        const Sums* const from = sums_of(node.inputs[0]);
        const auto axes = from == nullptr ? std::nullopt : constants_.integers(node, 1, "axes");
        if (!axes || integers_of_attribute(node, "keepdims") != std::vector<std::int64_t>{0}) return false;
        const auto rank = static_cast<std::int64_t>(from->dims.size());
        std::vector<bool> is_joined(from->dims.size());
        for (const std::int64_t given : *axes) {
            const std::int64_t axis = given < 0 ? given + rank : given - 2;
            if (axis < 0 || axis >= rank) return false;
            is_joined[static_cast<std::size_t>(axis)] = true;
        }
        Sums means = *from;
        means.dims.clear(), means.elements.clear();
        index_t count = 1;
        for (std::size_t axis = 0; axis < from->dims.size(); ++axis)
            is_joined[axis] ? static_cast<void>(count *= from->dims[axis]) : means.dims.push_back(from->dims[axis]);
        means.elements.resize(static_cast<std::size_t>(size_of(means.dims)));
        for (std::size_t i = 0; i < from->elements.size(); ++i) {
            std::size_t rest = i, at = 0, step = 1;
            for (std::size_t axis = from->dims.size(); axis-- > 0;) {
                const auto extent = static_cast<std::size_t>(from->dims[axis]);
                if (!is_joined[axis]) at += rest % extent * step, step *= extent;
                rest /= extent;
            }
            for (const Term& term : from->elements[i])
                means.elements[at].push_back({term.pixel, term.factor / static_cast<double>(count)});
        }
        keep(node.outputs[0], std::move(means));
        return true;
    }

    bool add_factor(const Node& node, bool divides) {
        const std::size_t c = sums_of(node.inputs[0]) != nullptr ? 1 : 0;
        const Sums* const from = sums_of(node.inputs[1 - c]);
        const FileTensor* const factor = constants_.tensor(node.inputs[c]);
        if (from == nullptr || factor == nullptr || factor->dtype != DType::float32 || (divides && c == 0))
            return false;
        Sums scaled = *from;
        const auto numbers = factor->as<float>();
        const bool fits = with_constant(scaled, factor->dims, [&](std::vector<Term>& element, std::size_t i) {
            const auto number = static_cast<double>(numbers[i]);
            for (Term& term : element) term.factor *= divides ? 1.0 / number : number;
        });
        if (fits) keep(node.outputs[0], std::move(scaled));
        return fits;
    }

    // --- products of matrices ---------------------------------------------------------------------------------------

    /// Writes the value of a node that ends a function, where it has two axes again.
    bool end(const Node& node) {
        const Sums& sums = sums_.at(node.outputs[0]);
        if (sums.dims.size() != 2) return false;
        const index_t rows = sums.dims[0], columns = sums.dims[1];
        const auto cells = static_cast<std::uint64_t>(sums.elements.size());
        const auto limit = static_cast<index_t>(cells < 1 ? 0 : most_compared / cells);  // of the image's pixels
        if (sums.height < 1 || sums.width < 1 || sums.height > limit / sums.width) return false;
        compared_ += cells * static_cast<std::uint64_t>(sums.height * sums.width);
        if (compared_ > most_compared_of_all) return false;
        std::vector<float> of_rows(static_cast<std::size_t>(rows * sums.height)),
            of_columns(static_cast<std::size_t>(columns * sums.width));
        if (!split(sums, of_rows, of_columns)) return false;
        const std::vector<std::int64_t> turned{0, 1, 3, 2};
        std::string y =
            editor_.add(node, "MatMul", {sums.x, matrix(of_columns, sums.width, columns, node)}, {}, ".columns");
        y = editor_.add(node, "Transpose", {y}, {{"perm", turned}});
        y = editor_.add(node, "MatMul", {y, matrix(of_rows, sums.height, rows, node)}, {}, ".rows");
        Node last = GraphEditor::in_place_of(node, "Transpose", {y}, {{"perm", turned}});
        last.outputs = node.outputs;
        editor_.push(std::move(last));
        return true;
    }

    std::string matrix(const std::vector<float>& values, index_t from, index_t to, const Node& node) {
        const auto bytes = std::as_bytes(std::span<const float>(values));
        return editor_.constant(
            FileTensor{.name = {}, .dtype = DType::float32, .dims = {from, to}, .data = {bytes.begin(), bytes.end()}},
            node);
    }

    /// The weights as a[i, h] · b[j, w], of which the b of a column add up to 1.
    /// @return false where they are no such products
    static bool split(const Sums& sums, std::vector<float>& of_rows, std::vector<float>& of_columns) {
        const index_t rows = sums.dims[0], columns = sums.dims[1];
        std::vector<double> a(of_rows.size()), b(of_columns.size());
        const auto weight_of = [&](index_t i, index_t j, const auto& use) {
            for (const Term& term : sums.elements[static_cast<std::size_t>(i * columns + j)])
                use(term.pixel / sums.width, term.pixel % sums.width, term.factor);
        };
        for (index_t i = 0; i < rows; ++i)
            weight_of(i, 0,
                      [&](index_t h, index_t, double factor) { a[static_cast<std::size_t>(h * rows + i)] += factor; });
        for (index_t j = 0; j < columns; ++j) {
            double whole = 0.0;
            weight_of(0, j, [&](index_t, index_t w, double factor) {
                b[static_cast<std::size_t>(w * columns + j)] += factor;
                whole += factor;
            });
            if (!(std::fabs(whole) > 0.0)) return false;
            for (index_t w = 0; w < sums.width; ++w) b[static_cast<std::size_t>(w * columns + j)] /= whole;
        }
        std::vector<double> whole(static_cast<std::size_t>(sums.height * sums.width));
        for (index_t i = 0; i < rows; ++i)
            for (index_t j = 0; j < columns; ++j) {
                std::fill(whole.begin(), whole.end(), 0.0);
                weight_of(i, j, [&](index_t h, index_t w, double factor) {
                    whole[static_cast<std::size_t>(h * sums.width + w)] += factor;
                });
                for (index_t h = 0; h < sums.height; ++h)
                    for (index_t w = 0; w < sums.width; ++w)
                        if (!(std::fabs(whole[static_cast<std::size_t>(h * sums.width + w)] -
                                        a[static_cast<std::size_t>(h * rows + i)] *
                                            b[static_cast<std::size_t>(w * columns + j)]) <= 1e-6))
                            return false;
            }
        std::transform(a.begin(), a.end(), of_rows.begin(), [](double x) { return static_cast<float>(x); });
        std::transform(b.begin(), b.end(), of_columns.begin(), [](double x) { return static_cast<float>(x); });
        return true;
    }

    const Graph& graph_;
    ConstantsOf constants_;
    GraphEditor editor_;
    std::map<std::string, std::string> pixels_first_;  // (H, W, N, C) of an image
    std::map<std::string, Sums> picked_;               // (dims, N, C)
    std::map<std::string, Sums> sums_;
    std::uint64_t terms_ = 0;     // and elements, of all sums
    std::uint64_t compared_ = 0;  // weights
};

INTQ_INLINE std::optional<Model> with_uneven_averages(const Model& model) {
    AverageSearch search(model.graph);
    if (!search.run()) return std::nullopt;
    return search.editor().apply_to(model);
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_UNEVEN_AVERAGES_HPP
