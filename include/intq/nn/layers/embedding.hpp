// SPDX-License-Identifier: MIT
//
// Embedding. Layer: nn (DESIGN section 6).
#ifndef INTQ_NN_LAYERS_EMBEDDING_HPP
#define INTQ_NN_LAYERS_EMBEDDING_HPP

#include "intq/nn/functional/functional.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

struct EmbeddingOptions {
    index_t num_embeddings = 1;
    index_t embedding_dim = 1;
};

/// Rows of a table by int32 or int64 ids. Parameter: weight (num_embeddings, embedding_dim), which starts as 0.
class Embedding : public Cloneable<Embedding> {
public:
    explicit Embedding(const EmbeddingOptions& options) : options_(options) {
        if (options.num_embeddings < 1 || options.embedding_dim < 1)
            throw Error("Embedding: extents must be at least 1, given " + std::to_string(options.num_embeddings) +
                        " and " + std::to_string(options.embedding_dim));
        add_parameter("weight", Tensor::zeros(Shape(options.num_embeddings, options.embedding_dim)));
    }

    std::string type_name() const override { return "Embedding"; }
    bool is_leaf() const override { return true; }
    const EmbeddingOptions& options() const noexcept { return options_; }
    const Tensor& weight() const { return tensor("weight"); }
    Value forward(Arguments arguments) override { return functional::embedding(arguments.tensor(0), weight()); }

private:
    EmbeddingOptions options_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_NN_LAYERS_EMBEDDING_HPP
