// SPDX-License-Identifier: MIT
//
// A layer's record of the operators that were fused into it. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_FUSION_HPP
#define INTQ_NN_LAYERS_FUSION_HPP

#include <string>
#include <vector>

#include "intq/core/op_params.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

/// The operators after the product inside a fused layer: a batch norm that was not folded, the addition of a second
/// argument, then a clamp.
struct Fusion {
    bool add = false;
    Activation activation = Activation::none;
    bool norm = false;
};

/// "", "ReLU", "AddReLU6", "BnReLU", …: its part of a fused layer's name.
std::string name_of(const Fusion& fusion);

/// An operator that became part of a fused layer, as a qconfig mapping knows it.
struct FusedMember {
    std::string module;      // qualified name of the module; of a function: of the module whose forward calls it
    std::string type;        // type name of the module, or name of the function
    std::string scope_type;  // of a function: the type of the module whose forward calls it
    std::string node{};      // of a function: the name of its node, which tools print
};

/// A layer that others can be fused into.
class FusedFrom {
public:
    FusedFrom();
    FusedFrom(const FusedFrom& other);
    FusedFrom& operator=(const FusedFrom& other);
    virtual INTQ_INLINE ~FusedFrom();
    /// The operators that this layer was fused from, in order; empty when it was not fused.
    const std::vector<FusedMember>& members() const noexcept { return members_; }
    /// The same with their full names where this layer is in the slot `name`: a part that was fused before it joined
    /// the model has shorter names.
    std::vector<FusedMember> members_at(const std::string& name) const;
    void set_members(std::vector<FusedMember> members);

private:
    std::vector<FusedMember> members_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include <utility>

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string name_of(const Fusion& fusion) {
    const char* activation = fusion.activation == Activation::relu    ? "ReLU"
                             : fusion.activation == Activation::relu6 ? "ReLU6"
                                                                      : "";
    return (fusion.norm ? "Bn" : "") + std::string(fusion.add ? "Add" : "") + activation;
}

INTQ_INLINE FusedFrom::FusedFrom() = default;
INTQ_INLINE FusedFrom::FusedFrom(const FusedFrom& other) = default;
INTQ_INLINE FusedFrom& FusedFrom::operator=(const FusedFrom& other) = default;
INTQ_INLINE FusedFrom::~FusedFrom() = default;

INTQ_INLINE void FusedFrom::set_members(std::vector<FusedMember> members) { members_ = std::move(members); }

INTQ_INLINE std::vector<FusedMember> FusedFrom::members_at(const std::string& name) const {
    std::vector<FusedMember> members = members_;
    if (members.empty()) return members;
    const std::string& own = members.front().module;
    const bool is_below = name.size() > own.size() + 1 && name.ends_with("." + own);
    if (!is_below) return members;
    const std::string above = name.substr(0, name.size() - own.size() - 1);
    for (FusedMember& member : members) member.module = member.module.empty() ? above : above + "." + member.module;
    return members;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_FUSION_HPP
