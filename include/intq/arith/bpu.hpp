// SPDX-License-Identifier: MIT
//
// target::bpu<March>: an emulated accelerator with a two-stage shift around a 16-bit multiplication. Layer:
// arith (docs/arithmetic.md section 2.3).
//
// Our own definition of a machine of that kind: the integer datapath of real chips is not public, and nothing
// here promises equality with silicon.
#ifndef INTQ_ARITH_BPU_HPP
#define INTQ_ARITH_BPU_HPP

#include "intq/arith/march.hpp"

namespace intq::target {
inline namespace INTQ_CORE_ABI {

/// a = clamp_16(PRE(acc, pre));  y = clamp_out(POST(a·M, post))
///
/// @tparam March  march::bernoulli2, march::bayes, march::meta, or a user's struct with a policy record
template <class March> struct bpu {
    static_assert(arith::Target<March>,
                  "target::bpu<March>: March must be march::bernoulli2, march::bayes, march::meta or a struct with "
                  "`static constexpr intq::arith::PolicyRecord policy`");
    static constexpr arith::PolicyRecord policy = March::policy;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::target

#endif  // INTQ_ARITH_BPU_HPP
