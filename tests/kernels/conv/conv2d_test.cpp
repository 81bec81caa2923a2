// SPDX-License-Identifier: MIT
//
// Every convolution row of the registry, on every backend and target, against the oracle, byte for byte.
#include <algorithm>
#include <map>
#include <optional>

#include "kernels/conv_problem.hpp"
#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using kernels::ConvRow;
using kernels::KernelTable;

// --- shapes ----------------------------------------------------------------------------------------------------------

Window2d window(Size2d kernel, Size2d stride = {}, Padding2d padding = {}, Size2d dilation = {}) {
    return {kernel, stride, padding, dilation};
}

/// 1 to 13 rows of a tile, and the channel counts around every vector and panel.
std::vector<ConvShape> gemm_shapes() {
    const index_t inputs[] = {1, 3, 4, 5, 7, 8, 16, 17, 63, 64, 65, 66, 2};
    const index_t outputs[] = {66, 65, 64, 63, 17, 16, 8, 7, 5, 4, 3, 1, 33};
    std::vector<ConvShape> shapes;
    for (std::size_t i = 0; i < std::size(inputs); ++i)
        shapes.push_back({1, inputs[i], 1, static_cast<index_t>(i) + 1, outputs[i], 1, {}});
    const std::vector<ConvShape> windows{
        {1, 3, 5, 7, 4, 1, window({3, 3}, {1, 1}, {1, 1, 1, 1})},
        {3, 3, 6, 5, 7, 1, window({3, 3}, {2, 2}, {0, 1, 1, 0})},           // asymmetric padding
        {1, 5, 7, 8, 16, 1, window({3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2})},  // dilation
        {2, 6, 5, 5, 10, 2, window({3, 3}, {1, 1}, {1, 1, 1, 1})},          // two groups
        {1, 34, 4, 3, 130, 2, window({2, 2})},                              // groups of more than a panel
        {1, 3, 5, 5, 6, 3, window({3, 3})},                                 // one channel a group, not depthwise
        {1, 4, 9, 9, 8, 1, window({1, 1}, {2, 2})},                         // 1x1 that does not read in place
        {1, 8, 4, 4, 17, 1, window({5, 5}, {2, 1}, {2, 4, 3, 2})},          // more padding than half a kernel
        {1, 2, 3, 8, 5, 1, window({1, 3}, {1, 2}, {0, 2, 0, 1}, {1, 2})},
        {3, 17, 1, 1, 66, 1, {}, true},            // linear on vectors
        {2, 7, 3, 4, 5, 1, window({3, 4}), true},  // linear behind a Flatten
        {2, 65, 2, 2, 9, 1, window({2, 2}), true},
    };
    shapes.insert(shapes.end(), windows.begin(), windows.end());
    return shapes;
}

std::vector<ConvShape> depthwise_shapes() {
    std::vector<ConvShape> shapes;
    const index_t channels[] = {2, 3, 5, 7, 8, 16, 17, 63, 64, 65, 66};
    for (std::size_t i = 0; i < std::size(channels); ++i) {
        const index_t c = channels[i], stride = 1 + static_cast<index_t>(i % 2);
        shapes.push_back(
            {1 + static_cast<index_t>(i % 3), c, 4, 3, c, c, window({3, 3}, {stride, stride}, {1, 0, 1, 1})});
    }
    const std::vector<ConvShape> windows{
        {1, 9, 1, 13, 9, 9, {}},
        {1, 4, 7, 7, 4, 4, window({3, 2}, {1, 1}, {2, 2, 2, 0}, {2, 3})},
        {3, 48, 5, 1, 48, 48, window({3, 3}, {1, 1}, {1, 1, 1, 1})},     // more than half a block; width 1
        {1, 80, 4, 5, 80, 80, window({3, 3}, {1, 1}, {1, 1, 1, 1})},     // a block and a narrow one
        {1, 144, 5, 4, 144, 144, window({3, 3}, {2, 2}, {1, 1, 1, 1})},  // two blocks and a narrow one
        {1, 80, 6, 7, 80, 80, window({5, 5}, {1, 1}, {2, 2, 2, 2})},     // two groups of rows
        {2, 66, 7, 8, 66, 66, window({5, 5}, {2, 2}, {1, 2, 2, 2})},     //
        {1, 17, 6, 3, 17, 17, window({5, 5}, {3, 1}, {4, 6, 4, 5})},     // pixels that see padding alone
        {1, 48, 3, 70, 48, 48, window({3, 3}, {1, 1}, {0, 1, 0, 1})},    // lines of three chunks
        {1, 80, 9, 7, 80, 80, window({3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2})},
        {1, 40, 5, 9, 40, 40, window({3, 3}, {1, 3}, {1, 1, 1, 1})},  // a stride that skips nothing
        {1, 66, 9, 4, 66, 66, window({7, 1}, {1, 1}, {3, 0, 3, 0})},  // two groups, one column
        {1, 33, 2, 9, 33, 33, window({1, 5}, {1, 4})},
        {1, 64, 4, 9, 64, 64, window({3, 3}, {2, 2})},                  // an even number of pixels, none on padding
        {1, 64, 5, 12, 64, 64, window({3, 3}, {2, 2})},                 // an odd one
        {1, 32, 5, 7, 32, 32, window({3, 3}, {1, 1}, {1, 1, 1, 1})},    // half a block; the last pixel is alone
        {2, 96, 6, 9, 96, 96, window({3, 3}, {2, 2}, {1, 1, 1, 1})},    // a block and half of one
        {1, 24, 3, 133, 24, 24, window({3, 3}, {2, 2}, {0, 0, 1, 1})},  // less than half, in two chunks
    };
    shapes.insert(shapes.end(), windows.begin(), windows.end());
    return shapes;
}

// --- one problem on one backend --------------------------------------------------------------------------------------

/// A packed layer with everything a run needs, each in a buffer of exactly the announced size.
struct Prepared {
    std::optional<GuardedBuffer> storage, workspace;
    kernels::PackedConv2d packed;
    kernels::ConvGeometry geometry;
    const ConvRow* row = nullptr;
    Status status;
};

std::byte* bytes_of(std::optional<GuardedBuffer>& buffer) { return buffer->as<std::byte>(); }
index_t size_of_buffer(const std::optional<GuardedBuffer>& buffer) { return static_cast<index_t>(buffer->size()); }

void prepare(Prepared& made, const KernelTable& table, const kernels::Conv2dSpec& spec, const ConvShape& shape) {
    made.storage.emplace(static_cast<std::size_t>(kernels::packed_conv2d_size(table.packing, spec)));
    const auto packed =
        kernels::pack_conv2d(table.packing, spec, {bytes_of(made.storage), size_of_buffer(made.storage)});
    made.status = packed.status();
    if (!packed) return;
    made.packed = *packed;
    const auto geometry = kernels::make_conv2d_geometry(spec.window, shape.batch, {shape.height, shape.width});
    made.status = geometry.status();
    if (!geometry) return;
    made.geometry = *geometry;
    made.workspace.emplace(static_cast<std::size_t>(kernels::conv2d_workspace_size(made.packed, made.geometry)));
    made.row = kernels::find_conv(table, made.packed);
}

/// Empty where the run gives the expected bytes and touches nothing else.
std::string run_and_compare(Prepared& made, const KernelTable& table, const ConvProblem& problem,
                            const std::vector<unsigned char>& expected, const Executor& executor) {
    InputBytes x(channels_last_bytes(problem.x, problem.input.dtype));
    InputBytes e(problem.sumin ? channels_last_bytes(problem.e, problem.input.dtype) : std::vector<unsigned char>{});
    GuardedBuffer y(expected.size());
    const Workspace workspace{bytes_of(made.workspace), size_of_buffer(made.workspace)};
    const void* const staged = table.stage(made.packed, made.geometry, x.data(), workspace, executor);
    made.row->run({&made.packed, &made.geometry, staged, problem.sumin ? e.data() : nullptr, y.as<std::byte>(),
                   &executor, workspace.data});
    if (!holds(y, expected)) return first_difference(y, expected, problem.output.dtype);
    if (!y.is_intact()) return "wrote around the output";
    if (!made.workspace->is_intact() || !made.storage->is_intact())
        return "wrote around the workspace or the packed weights";
    return {};
}

struct Outcome {
    std::optional<std::vector<unsigned char>> bytes;  // none where the oracle refuses
    std::string refusal;
    std::optional<oracle::MadeWeights> made;
};

Outcome ask_oracle(const oracle::Target& target, const ConvProblem& problem) {
    Outcome outcome;
    try {
        const oracle::WeightedLayer layer = problem.for_oracle();
        outcome.made = oracle::make_weights(target, layer);
        const oracle::Tensor* const e = problem.sumin ? &problem.e : nullptr;
        const bool vectors = problem.shape.is_linear && problem.shape.height * problem.shape.width == 1;
        const oracle::Tensor y =
            vectors ? oracle::linear(target, layer, problem.x, e) : oracle::conv2d(target, layer, problem.x, e);
        outcome.bytes = channels_last_bytes(y, problem.output.dtype);
    } catch (const oracle::Refused& refused) {
        outcome.refusal = refused.what();
    }
    return outcome;
}

struct Counts {
    std::map<const ConvRow*, int> runs;
    int problems = 0, refused = 0;
    int unconverted = 0;  // layers that read their input as it is, for a tile that reads other inputs converted
};

std::string where(const KernelTable& table, const ConvProblem& problem) {
    return std::string(table.policy().name) + "/" + table.backend + " " + problem.label;
}

/// The library's own raising and rounding of real weights equals the oracle's.
void check_weights(const LibraryLayer& layer, const oracle::MadeWeights& made, const std::string& label) {
    if (layer.codes() != made.codes) FAIL_CHECK(label << ": weight codes differ from the oracle's");
    for (std::size_t c = 0; c < made.scale.size(); ++c)
        if (layer.scale(c) != made.scale[c])
            FAIL_CHECK(label << ": raised scale of channel " << c << " differs from the oracle's");
}

void check_problem(std::size_t target, const std::vector<BackendTables>& backends, const ConvProblem& problem,
                   Counts& counts) {
    const Outcome expected = ask_oracle(oracle_targets()[target], problem);
    ++counts.problems;
    if (!expected.bytes) ++counts.refused;
    const KernelTable& any = *backends[0].tables[target];  // the layer follows from the target
    const LibraryLayer layer(problem, any.policy());
    if (expected.made) check_weights(layer, *expected.made, where(any, problem));
    for (const BackendTables& backend : backends) {
        const KernelTable& table = *backend.tables[target];
        Prepared made;
        prepare(made, table, layer.spec(), problem.shape);
        if (made.status.ok() != expected.bytes.has_value()) {
            FAIL_CHECK(where(table, problem)
                       << ": the library says " << name_of(made.status.code) << " " << name_of(made.status.field)
                       << ", the oracle '" << expected.refusal << "'");
            continue;
        }
        if (!expected.bytes) continue;
        if (made.row == nullptr) {
            FAIL_CHECK(where(table, problem) << ": no row");
            continue;
        }
        BackwardExecutor backward;
        // In one of the two orders of tasks: a shape has problems in both, as its numbers differ.
        const Executor executor = counts.problems % 2 == 0 ? serial : backward.executor();
        const std::string wrong = run_and_compare(made, table, problem, *expected.bytes, executor);
        if (!wrong.empty()) FAIL_CHECK(where(table, problem) << ": " << wrong);
        ++counts.runs[made.row];
        counts.unconverted += kernels::needs_nonnegative_input(table.packing, made.packed) ? 1 : 0;
    }
}

/// The shape as a linear layer's, which takes the whole image at once.
ConvShape as_linear(ConvShape shape) {
    shape.is_linear = true;
    shape.groups = 1;
    shape.window = window({shape.height, shape.width}, {1, 1}, {});
    return shape;
}

/// Calls visit(shape, key, seed) with the data of every problem of a row.
template <class Visit> void for_each_problem(const KernelTable& table, const ConvRow& row, Visit&& visit) {
    std::vector<ConvShape> shapes = row.is_depthwise ? depthwise_shapes() : gemm_shapes();
    const bool is_linear = row.requantize != table.policy().requantize;  // a rule of linear layers alone
    if (is_linear) std::transform(shapes.begin(), shapes.end(), shapes.begin(), as_linear);
    std::uint64_t seed = 0;
    for (const ConvShape& shape : shapes)
        for (int numbers = 0; numbers < static_cast<int>(Numbers::count_); ++numbers, ++seed) {
            // All combinations appear: the periods 3, 3 and 2 of bias, activation and zero points are shifted by the
            // shape.
            ConvKey key{row.input,
                        row.weight,
                        row.output,
                        row.has_sumin,
                        row.accumulator_bits,
                        static_cast<Numbers>(numbers),
                        static_cast<BiasKind>((seed + seed / 3) % 3),
                        static_cast<Activation>((seed / 3 + seed / 9) % 3),
                        table.policy().zero_points && row.input == DType::int8 && seed % 4 != 0};
            if (row.output == DType::int32 && key.activation == Activation::relu6) key.activation = Activation::relu;
            visit(shape, with_given(key, table.policy(), seed + seed / 5), seed);
        }
}

}  // namespace

TEST_CASE("every convolution row of every backend and target gives the oracle's bytes") {
    const std::vector<BackendTables> backends = usable_backend_tables();
    for (const BackendTables& backend : all_backend_tables())
        if (backend.tables.empty()) skip_item(std::string("backend ") + backend.name + " is not usable in this build");
    std::string names;
    for (const BackendTables& backend : backends) names += std::string(names.empty() ? "" : ", ") + backend.name;
    WARN("backends: " << names);
    REQUIRE(static_cast<int>(backends.size()) >= least_backends());

    Counts counts;
    std::size_t rows = 0;
    for (std::size_t target = 0; target < backends[0].tables.size(); ++target) {
        // All backends have the rows of the target's constraint table.
        const KernelTable& table = *backends[0].tables[target];
        for (const BackendTables& backend : backends) {
            rows += backend.tables[target]->conv.size();
            REQUIRE(backend.tables[target]->conv.size() == table.conv.size());
        }
        for (const ConvRow& row : table.conv)
            for_each_problem(table, row, [&](const ConvShape& shape, const ConvKey& key, std::uint64_t seed) {
                check_problem(target, backends, draw_conv(shape, key, seed), counts);
            });
    }
    WARN(counts.problems << " layers, of which the oracle refuses " << counts.refused << "; " << rows << " rows");
    CHECK(counts.runs.size() == rows);
    for (const auto& [row, runs] : counts.runs) CHECK(runs >= 25);
    CHECK(counts.refused > 0);
    CHECK(counts.refused * 10 < counts.problems);
}

TEST_CASE("codes that are never negative are read as they are, with the oracle's bytes") {
    const std::vector<BackendTables> backends = usable_backend_tables();
    std::vector<ConvShape> shapes = gemm_shapes();
    for (const index_t channels : {4, 20, 64, 100}) {
        shapes.push_back({2, channels, 5, 3, 34, 1, window({1, 1})});
        shapes.push_back({1, channels, 6, 7, 17, 1, window({3, 3}, {2, 1}, {1, 1, 0, 1})});
        shapes.push_back({1, 2 * channels, 5, 5, 70, 2, window({3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 2})});
        shapes.push_back({2, channels, 5, 5, 9, 1, window({1, 1}, {2, 2})});
        shapes.push_back({3, channels, 1, 1, 66, 1, {}, true});
    }
    const std::vector<ConvShape> lines = depthwise_shapes();
    Counts counts;
    for (std::size_t target = 0; target < backends[0].tables.size(); ++target) {
        const KernelTable& table = *backends[0].tables[target];
        for (const ConvRow& row : table.conv) {
            if (row.input != DType::int8) continue;
            std::uint64_t seed = 0;
            for (const ConvShape& drawn : row.is_depthwise ? lines : shapes) {
                const bool is_linear = row.requantize != table.policy().requantize;
                const ConvShape shape = is_linear ? as_linear(drawn) : drawn;
                const ConvKey key{row.input,
                                  row.weight,
                                  row.output,
                                  row.has_sumin,
                                  row.accumulator_bits,
                                  static_cast<Numbers>(seed % static_cast<std::uint64_t>(Numbers::count_)),
                                  BiasKind::real,
                                  Activation::none,
                                  table.policy().zero_points && seed % 2 != 0};
                ConvProblem problem = draw_conv(shape, key, seed++);
                for (auto& code : problem.x.codes) code = code < 0 ? -(code + 1) : code;
                problem.is_nonnegative = true;
                problem.label += " of codes that are not negative";
                check_problem(target, backends, problem, counts);
            }
        }
    }
    const bool has_unsigned_tiles = std::any_of(backends.begin(), backends.end(), [](const BackendTables& backend) {
        return backend.tables[0]->packing.int8_packing.staging == simd::Staging::offset_binary;
    });
    WARN(counts.problems << " layers, " << counts.unconverted << " of them read without a conversion");
    CHECK(counts.refused * 10 < counts.problems);
    CHECK((counts.unconverted > 300) == has_unsigned_tiles);
}

TEST_CASE("two threads give the bytes of one") {
    const std::vector<BackendTables> backends = usable_backend_tables();
    const ConvShape big{3, 66, 13, 13, 5, 1, window({3, 3}, {1, 1}, {1, 1, 1, 1})};
    const ConvShape depthwise{3, 66, 13, 13, 66, 66, window({3, 3}, {1, 1}, {1, 1, 1, 1})};
    for (const BackendTables& backend : backends)
        for (const KernelTable* table : backend.tables)
            for (const ConvRow& row : table->conv) {
                const bool is_linear = row.requantize != table->policy().requantize;
                const ConvShape shape = is_linear ? as_linear(big) : row.is_depthwise ? depthwise : big;
                const ConvKey key = with_given({row.input, row.weight, row.output, row.has_sumin, row.accumulator_bits,
                                                Numbers::codes, BiasKind::none, Activation::none, false},
                                               table->policy(), 2);
                const ConvProblem problem = draw_conv(shape, key, 7);
                const LibraryLayer layer(problem, table->policy());
                Prepared made;
                prepare(made, *table, layer.spec(), shape);
                REQUIRE(made.status.ok());
                InputBytes x(channels_last_bytes(problem.x, row.input));
                InputBytes e(row.has_sumin ? channels_last_bytes(problem.e, row.input) : std::vector<unsigned char>{});
                const auto size = static_cast<std::size_t>(shape.batch * shape.outputs * (is_linear ? 1 : 13 * 13) *
                                                           size_of(row.output));
                std::vector<unsigned char> alone(size), together(size);
                for (auto* y : {&alone, &together}) {
                    const Executor executor = y == &alone ? serial : two_threads();
                    const Workspace workspace{bytes_of(made.workspace), size_of_buffer(made.workspace)};
                    const void* const staged = table->stage(made.packed, made.geometry, x.data(), workspace, executor);
                    row.run({&made.packed, &made.geometry, staged, row.has_sumin ? e.data() : nullptr, y->data(),
                             &executor, workspace.data});
                }
                if (alone != together) FAIL_CHECK(where(*table, problem) << ": two threads give other bytes");
            }
    SUCCEED();
}
