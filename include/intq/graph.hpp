// SPDX-License-Identifier: MIT
//
// Models as graphs: traced, printed, edited and run node by node, as FX does.
#ifndef INTQ_GRAPH_HPP
#define INTQ_GRAPH_HPP

// From a module to a graph, and the graph as text.
#include "intq/graph/graph_module.hpp"
#include "intq/graph/print.hpp"
#include "intq/graph/tracer.hpp"

// The graph and its nodes.
#include "intq/graph/graph.hpp"
#include "intq/graph/node.hpp"

// Running it.
#include "intq/graph/interpreter.hpp"

// Editing it.
#include "intq/graph/pattern.hpp"
#include "intq/graph/rewrite.hpp"
#include "intq/graph/shared_modules.hpp"

// The names of operators, and values derived from shapes.
#include "intq/graph/operator_rows.hpp"
#include "intq/graph/operators.hpp"
#include "intq/graph/shape_arithmetic.hpp"

#endif  // INTQ_GRAPH_HPP
