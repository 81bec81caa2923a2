// SPDX-License-Identifier: MIT
//
// The packing of every backend by its name, on any machine. Layer: kernels.
//
// Packing is plain C++ over constants of a tag (docs/design.md section 5), so this table instantiates no kernel, and
// holds backends whose instructions the unit's flags do not have.
#ifndef INTQ_KERNELS_PACKING_PACKING_TABLE_HPP
#define INTQ_KERNELS_PACKING_PACKING_TABLE_HPP

#include <array>
#include <cstddef>

#include "intq/kernels/packing/packing_rules.hpp"
#include "intq/simd/base/backends.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// The packing of one backend, without a target.
struct BackendPacking {
    const char* backend = "";
    PackingRules rules{};
};

namespace detail {

template <class... Backend> constexpr auto packings_of(simd::BackendList<Backend...>) noexcept {
    return std::array<BackendPacking, sizeof...(Backend)>{
        BackendPacking{Backend::name, packing_rules_of<Backend>(nullptr)}...};
}

}  // namespace detail

/// One for each row of simd/base/backends.hpp, in its order.
inline constexpr auto backend_packings = detail::packings_of(simd::AllBackends{});

/// The packing of a backend; null for a name that the library does not have.
constexpr const BackendPacking* find_packing(const char* backend) noexcept {
    const simd::BackendRow* const row = simd::find_backend(backend);
    return row == nullptr ? nullptr : &backend_packings[static_cast<std::size_t>(row - simd::backend_rows)];
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_PACKING_TABLE_HPP
