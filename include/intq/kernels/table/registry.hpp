// SPDX-License-Identifier: MIT
//
// The registry: every kernel that exists, as tables of function pointers by target and backend. Layer: kernels.
//
// Conformance tests, benches and the support matrix walk it: a kernel that is not in it does not exist. It is
// a template over the backend, so that a unit pays only for the backends that it names. Float convolutions, which no
// target changes, have their own table in float_table.hpp.
#ifndef INTQ_KERNELS_TABLE_REGISTRY_HPP
#define INTQ_KERNELS_TABLE_REGISTRY_HPP

#include <array>

#include "intq/arith/requantize.hpp"
#include "intq/kernels/table/kernel_table.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// The targets that the library ships.
template <class... TargetType> struct TargetList { static constexpr std::size_t size = sizeof...(TargetType); };
using AllTargets =
    TargetList<target::fp32, target::tflite<arith::double_rounding>, target::tflite<arith::single_rounding>,
               target::bpu<march::bernoulli2>, target::bpu<march::bayes>, target::bpu<march::meta>, target::litert>;

namespace detail {

template <class Backend, class... TargetType>
constexpr std::array<const KernelTable*, sizeof...(TargetType)> tables_of(TargetList<TargetType...>) noexcept {
    return {&kernel_table<TargetType, Backend>...};
}

}  // namespace detail

/// The kernel tables of all targets on one backend, in the order of AllTargets.
template <class Backend> inline constexpr auto registry = detail::tables_of<Backend>(AllTargets{});

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_TABLE_REGISTRY_HPP
