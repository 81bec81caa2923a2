// SPDX-License-Identifier: MIT
//
// Refusal: an operator of a model that a target does not take, and why. Layer: quantization (docs/workflow.md
// section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_REFUSAL_HPP
#define INTQ_QUANTIZATION_PREPARE_REFUSAL_HPP

#include <string>
#include <vector>

#include "intq/graph/node.hpp"
#include "intq/io/error.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// An operator that a target does not take, and why.
struct Refusal {
    std::string layer;  // the qualified name of its module, or the name of its node
    std::string type;   // "ConvReLU2d"
    std::string reason;

    bool operator==(const Refusal&) const = default;
};

namespace detail {

/// The Error of one node of a graph. The node must outlive it.
class NodeError : public Error {
public:
    NodeError(const graph::Node& node, const std::string& where, const std::string& sentence)
        : Error(where, sentence), node_(&node), sentence_(sentence) {}

    const graph::Node& node() const noexcept { return *node_; }
    const std::string& sentence() const noexcept { return sentence_; }

private:
    const graph::Node* node_;
    std::string sentence_;
};

/// Appends a refusal, unless the list has it. A quantizer is identified by the operator whose value it reads.
void add_refusal(std::vector<Refusal>& list, const graph::Node& node, nn::Module& root, const std::string& reason);

/// Calls `act`. An exception is appended to the list, if there is one, as the refusal of the node; without a list it is
/// thrown. Returns whether there was none.
template <class Act>
bool note_refusals(std::vector<Refusal>* list, const graph::Node& node, nn::Module& root, const Act& act) {
    if (list == nullptr) return act(), true;
    try {
        act();
        return true;
    } catch (const NodeError& error) {
        add_refusal(*list, node, root, error.sentence());
    } catch (const Error& error) {
        if (error.is_of_environment()) throw;
        add_refusal(*list, node, root, error.what());
    }
    return false;
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <algorithm>
#    include <utility>

#    include "intq/graph/operators.hpp"
#    include "intq/quantization/modules/quantizer_of.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void add_refusal(std::vector<Refusal>& list, const graph::Node& node, nn::Module& root,
                             const std::string& reason) {
    const graph::Node* known = &node;
    while (quantizer_of(*known, root) != nullptr && !known->inputs().empty()) known = known->inputs()[0];
    std::string type = graph::type_of(*known, root);
    if (type.rfind("qat.", 0) == 0) type.erase(0, 4);  // a layer that already has its weight quantizer
    const std::string place = "prepare: " + graph::place_of(node, root) + ": ";
    Refusal refusal{graph::layer_name(*known), std::move(type),
                    reason.rfind(place, 0) == 0 ? reason.substr(place.size()) : reason};
    if (std::find(list.begin(), list.end(), refusal) == list.end()) list.push_back(std::move(refusal));
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_REFUSAL_HPP
