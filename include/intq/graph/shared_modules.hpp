// SPDX-License-Identifier: MIT
//
// Which modules a graph calls more than once. Layer: graph (docs/design.md section 6).
#ifndef INTQ_GRAPH_SHARED_MODULES_HPP
#define INTQ_GRAPH_SHARED_MODULES_HPP

#include <string>
#include <vector>

#include "intq/graph/graph_module.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

/// A module that several nodes call: one node per call, all with its first name as target. With parameters it cannot be
/// fused; once prepared, it has the same quantizer at each call.
struct SharedModule {
    std::string name;                // the target of its nodes
    std::string type;                // type name
    std::vector<std::string> nodes;  // in the order of the graph
};

/// The modules that more than one node calls, in the order of their first call.
std::vector<SharedModule> shared_modules(GraphModule& model);

/// A row for each shared module: name, type, number of calls, the nodes.
std::string to_table(const std::vector<SharedModule>& modules);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(graph)

#    include <algorithm>
#    include <cstddef>

#    include "intq/graph/operators.hpp"
#    include "intq/io/text_table.hpp"
#    include "intq/nn/model/module.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::vector<SharedModule> shared_modules(GraphModule& model) {
    std::vector<SharedModule> all;
    std::vector<const nn::Module*> known;
    for (const Node* node : model.graph().nodes()) {
        const nn::Module* module = module_of(*node, model);
        if (module == nullptr) continue;
        const auto at = static_cast<std::size_t>(std::find(known.begin(), known.end(), module) - known.begin());
        if (at == known.size()) {
            known.push_back(module);
            all.push_back({node->target(), module->type_name(), {}});
        }
        all[at].nodes.push_back(node->name());
    }
    std::erase_if(all, [](const SharedModule& module) { return module.nodes.size() < 2; });
    return all;
}

INTQ_INLINE std::string to_table(const std::vector<SharedModule>& modules) {
    io::TextTable table({{"module"}, {"type"}, {"calls"}, {"nodes"}});
    for (const SharedModule& module : modules) {
        std::string nodes;
        for (const std::string& node : module.nodes) nodes += (nodes.empty() ? "%" : ", %") + node;
        table.add_row({module.name, module.type, std::to_string(module.nodes.size()), nodes});
    }
    return table.str(io::TableStyle::simple);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_DEFINES(graph)
#endif  // INTQ_GRAPH_SHARED_MODULES_HPP
