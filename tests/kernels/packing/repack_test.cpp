// SPDX-License-Identifier: MIT
//
// A layer that was packed for one backend and is packed again for another is the layer that was packed for that one.
#include "intq/kernels/packing/repack.hpp"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "intq/kernels/packing/packing_table.hpp"
#include "kernels/conv_problem.hpp"
#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using kernels::PackedConv2d;
using kernels::PackingRules;

/// Tails of panels and of groups, groups, rows of a window that merge, padding; depthwise blocks and pairs of rows.
std::vector<ConvShape> shapes_of(bool is_depthwise) {
    const Padding2d around{1, 1, 1, 1};
    if (is_depthwise)
        return {{1, 5, 4, 3, 5, 5, {{3, 3}, {1, 1}, around, {1, 1}}},
                {1, 80, 4, 5, 80, 80, {{5, 2}, {2, 1}, around, {1, 1}}},
                {1, 66, 9, 4, 66, 66, {{7, 1}, {1, 1}, {3, 0, 3, 0}, {1, 1}}}};
    return {{1, 17, 1, 3, 66, 1, {}},
            {1, 3, 5, 7, 5, 1, {{3, 3}, {1, 1}, around, {1, 1}}},
            {1, 6, 5, 5, 10, 2, {{3, 3}, {2, 2}, around, {1, 1}}},
            {1, 34, 4, 3, 130, 2, {{2, 2}, {1, 1}, {}, {1, 1}}}};
}

/// A packed layer and its memory.
struct Packed {
    std::unique_ptr<GuardedBuffer> storage;
    index_t size;
    PackedConv2d layer{};

    explicit Packed(index_t bytes)
        : storage(std::make_unique<GuardedBuffer>(static_cast<std::size_t>(bytes))), size(bytes) {}
    Workspace workspace() const { return {storage->as<std::byte>(), size}; }
    std::vector<unsigned char> bytes() const {
        const auto* const first = storage->as<unsigned char>();
        return {first, first + size};
    }
    /// The place of a part; -1 for none.
    index_t place(const void* part) const {
        return part == nullptr ? -1 : static_cast<const std::byte*>(part) - storage->as<std::byte>();
    }
};

Packed packed_for(const PackingRules& rules, const kernels::Conv2dSpec& spec, Status& status) {
    Packed made(kernels::packed_conv2d_size(rules, spec));
    const auto packed = kernels::pack_conv2d(rules, spec, made.workspace());
    status = packed.status();
    if (packed) made.layer = *packed;
    return made;
}

std::vector<std::int16_t> unpacked(const PackedConv2d& layer) {
    std::vector<std::int16_t> codes(static_cast<std::size_t>(layer.out_channels * layer.group_inputs() * layer.taps()));
    kernels::unpack_weights(layer, codes.data());
    return codes;
}

Packed repacked(const PackingRules& rules, const PackedConv2d& layer, const std::vector<std::int16_t>& codes) {
    Packed made(kernels::repacked_conv2d_size(rules, layer));
    const auto packed = kernels::repack_conv2d(rules, layer, codes.data(), made.workspace());
    REQUIRE(packed.status().ok());
    made.layer = *packed;
    return made;
}

/// Empty where two layers are the same.
std::string difference(const Packed& a, const Packed& b) {
    if (a.bytes() != b.bytes()) return "other bytes";
    if (!b.storage->is_intact()) return "wrote around its storage";
    const auto places = [](const Packed& p) {
        return std::vector<index_t>{p.place(p.layer.weights),  p.place(p.layer.bias),
                                    p.place(p.layer.words),    p.place(p.layer.sumin_words),
                                    p.place(p.layer.tap_bias), p.place(p.layer.padding_row)};
    };
    if (places(a) != places(b)) return "other parts";
    const PackedConv2d &x = a.layer, &y = b.layer;
    const bool same = x.packing == y.packing && x.depthwise == y.depthwise && x.group_stride == y.group_stride &&
                      x.merges_row == y.merges_row && x.scaled_is_small == y.scaled_is_small &&
                      x.has_sumin == y.has_sumin && x.requantize == y.requantize &&
                      x.accumulator_bits == y.accumulator_bits && x.input_zero_point == y.input_zero_point &&
                      std::memcmp(&x.codes, &y.codes, sizeof x.codes) == 0;
    return same ? "" : "other numbers";
}

}  // namespace

TEST_CASE("a layer that is packed again for any backend is the layer that was packed for it") {
    int pairs = 0;
    for (const kernels::KernelTable* table : scalar_tables().tables)
        for (const kernels::ConvRow& row : table->conv) {
            if (row.requantize != table->policy().requantize) continue;  // of linear layers, packed as others
            std::uint64_t seed = 0;
            for (const ConvShape& shape : shapes_of(row.is_depthwise)) {
                const ConvKey key =
                    with_given({row.input, row.weight, row.output, row.has_sumin, row.accumulator_bits, Numbers::codes,
                                seed % 2 == 0 ? BiasKind::real : BiasKind::codes, Activation::none,
                                table->policy().zero_points && row.input == DType::int8},
                               table->policy(), seed);
                const ConvProblem problem = draw_conv(shape, key, ++seed);
                const LibraryLayer layer(problem, table->policy());
                const auto rules_of = [&](const kernels::BackendPacking& backend) {
                    PackingRules rules = backend.rules;
                    rules.policy = &table->policy();
                    return rules;
                };
                std::vector<Packed> packed;
                bool is_taken = true;
                for (const kernels::BackendPacking& backend : kernels::backend_packings) {
                    Status status;
                    packed.push_back(packed_for(rules_of(backend), layer.spec(), status));
                    is_taken = is_taken && status.ok();
                }
                if (!is_taken) continue;
                for (std::size_t from = 0; from < packed.size(); ++from) {
                    const std::vector<std::int16_t> codes = unpacked(packed[from].layer);
                    for (std::size_t to = 0; to < packed.size(); ++to) {
                        const kernels::BackendPacking& other = kernels::backend_packings[to];
                        const std::string wrong =
                            difference(packed[to], repacked(rules_of(other), packed[from].layer, codes));
                        if (!wrong.empty())
                            FAIL_CHECK(table->policy().name << " " << kernels::backend_packings[from].backend << " to "
                                                            << other.backend << ", shape " << seed << ": " << wrong);
                        ++pairs;
                    }
                }
            }
        }
    WARN(pairs << " pairs");
    CHECK(pairs > 5000);
}

TEST_CASE("the packing of every backend is found by its name, and that of no other") {
    for (const simd::BackendRow& row : simd::backend_rows) CHECK(kernels::find_packing(row.name) != nullptr);
    CHECK(kernels::find_packing("avx") == nullptr);
    CHECK(kernels::find_packing("dsp")->rules.int8_packing == simd::dsp::int8_packing);
}
