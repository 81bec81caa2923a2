// SPDX-License-Identifier: MIT
//
// Every target on every backend that the compiled form holds and this CPU executes.
#include <string_view>

#include "conv_tables.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/program/float/best_backend.hpp"

namespace intq_bench {

namespace {

struct Floats {
    FloatKernel plain, reproducible;
};

Floats floats_of(std::string_view backend) {
    for (const intq::program::HeldBackend& held : intq::program::held_backends())
        if (held.name == backend) {
            const auto kernels = held.float_kernels();
            return {{kernels.packing, kernels.run}, {kernels.packing, kernels.run_reproducible}};
        }
    throw intq::Error(std::string("the program holds no float kernels of ") + std::string(backend));
}

}  // namespace

std::vector<ConvTable> all_tables() {
    std::vector<ConvTable> all;
    const std::vector<intq::program::BackendTables> backends = intq::program::runnable_tables();
    for (const intq::program::BackendTables& backend : backends)
        for (std::size_t target = 0; target < backend.tables.size(); ++target) {
            ConvTable one{backend.tables[target], backends.back().tables[target]};
            if (std::string_view(one.table->policy().name) == "fp32") {
                const auto [plain, reproducible] = floats_of(backend.name);
                one.floats = plain, one.reproducible_floats = reproducible;
                one.scalar_floats = floats_of(backends.back().name).plain;
            }
            all.push_back(one);
        }
    return all;
}

}  // namespace intq_bench
