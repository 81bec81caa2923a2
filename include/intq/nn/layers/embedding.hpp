// SPDX-License-Identifier: MIT
//
// Embedding as a function on Values and as a layer. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_EMBEDDING_HPP
#define INTQ_NN_LAYERS_EMBEDDING_HPP

#include <span>
#include <string>

#include "intq/nn/model/call.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

Value evaluate_embedding(std::span<const Value> values);

}  // namespace detail

inline constexpr Function embedding_function{"embedding", &detail::evaluate_embedding};

/// Rows of weight (rows, D) by int32 or int64 ids.
Value embedding(const Value& ids, const Value& weight);

struct EmbeddingOptions {
    index_t num_embeddings = 1;
    index_t embedding_dim = 1;
};

/// Rows of a table by int32 or int64 ids. Parameter: weight (num_embeddings, embedding_dim), initialized with normal
/// numbers (initial_normal()).
class Embedding : public Cloneable<Embedding> {
public:
    explicit Embedding(const EmbeddingOptions& options);

    std::string type_name() const override { return "Embedding"; }
    bool is_leaf() const override { return true; }
    const EmbeddingOptions& options() const noexcept { return options_; }
    const Tensor& weight() const { return tensor("weight"); }
    INTQ_INLINE Value forward(Arguments arguments) override;

private:
    EmbeddingOptions options_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/embedding.hpp"
#    include "intq/nn/layers/initial_weights.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE Value evaluate_embedding(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::embedding(arguments.tensor(0), arguments.tensor(1));
}

}  // namespace detail

INTQ_INLINE Value embedding(const Value& ids, const Value& weight) { return call(embedding_function, ids, weight); }

INTQ_INLINE Embedding::Embedding(const EmbeddingOptions& options) : options_(options) {
    if (options.num_embeddings < 1 || options.embedding_dim < 1)
        throw Error("Embedding: extents must be at least 1, given " + std::to_string(options.num_embeddings) + " and " +
                    std::to_string(options.embedding_dim));
    add_parameter("weight", initial_normal(Shape(options.num_embeddings, options.embedding_dim)));
}

INTQ_INLINE Value Embedding::forward(Arguments arguments) {
    return float_operators::embedding(arguments.tensor(0), weight());
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_EMBEDDING_HPP
