// SPDX-License-Identifier: MIT
//
// default_target: the target that a program means where it names none. Layer: arith (docs/design.md section 3).
#ifndef INTQ_ARITH_DEFAULT_TARGET_HPP
#define INTQ_ARITH_DEFAULT_TARGET_HPP

#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/march.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/core/abi.hpp"

// A type of namespace intq::target, such as fp32 or bpu<march::bayes>. It is only ever a default template argument, so
// units with other defaults link together.
#ifndef INTQ_DEFAULT_TARGET
#    define INTQ_DEFAULT_TARGET none
#endif

namespace intq::target {
inline namespace INTQ_CORE_ABI {

/// No target: code that needs one must be told.
struct none {};

/// The target that the macro INTQ_DEFAULT_TARGET names.
using default_target = INTQ_DEFAULT_TARGET;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::target

#endif  // INTQ_ARITH_DEFAULT_TARGET_HPP
