// SPDX-License-Identifier: MIT
//
// Single-bit faults in the constants of a program, and what a self test finds of them.
#ifndef INTQ_TESTS_DEPLOY_FAULTS_HPP
#define INTQ_TESTS_DEPLOY_FAULTS_HPP

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

#include "deploy/small_networks.hpp"
#include "intq/deploy/program_writer.hpp"
#include "intq/runtime/generated.hpp"
#include "support/catch.hpp"

namespace intq::test {

enum class FaultKind { weight, bias, multiplier, shift, table };
inline constexpr std::array<const char*, 5> fault_kinds{"weights", "biases", "multipliers", "shifts", "tables"};

/// Elements of one kind, of which the first `bits` bits count.
struct FaultSite {
    FaultKind kind = FaultKind::weight;
    std::byte* data = nullptr;
    index_t element = 1, elements = 0, bits = 8;
    std::vector<index_t> instructions{};  // that read it

    index_t faults() const { return elements * bits; }
    /// Changes a bit; the same again takes it back. Numbers are little-endian.
    void flip(index_t fault) const { data[at(fault)] ^= std::byte(1 << (fault % bits % 8)); }

private:
    index_t at(index_t fault) const { return fault / bits * element + fault % bits / 8; }
};

/// The constants of a program in the arithmetic of TFLite for scalar, in memory that may be written.
///
/// Left out is what no vector may run or see. A wrong place of a pixel reads outside of the arena. A shift has five
/// bits, because C++ has no meaning for a shift by 32. The channels that pad a depthwise layer are not read.
class FaultSites {
public:
    explicit FaultSites(const runtime::Program& program) {
        for (; instruction_ < static_cast<index_t>(program.instructions.size()); ++instruction_) {
            const runtime::Instruction& step = program.instructions[static_cast<std::size_t>(instruction_)];
            if (step.params.kind == kernels::ParamKind::conv) add_conv(step.params_as<kernels::ConvParams>().packed);
            if (step.params.kind == kernels::ParamKind::look_up) {
                const auto& table = step.params_as<kernels::LookUpParams>();
                add(FaultKind::table, table.entries, 1, table.size);
            }
            if (step.params.kind == kernels::ParamKind::quantize_image) {
                const auto& image = step.params_as<kernels::QuantizeImageParams>();
                add(FaultKind::table, image.codes, 1, image.tables * kernels::pixel_values);
            }
            if (step.params.kind == kernels::ParamKind::constant) {
                const auto& constant = step.params_as<kernels::ConstantParams>();
                add(FaultKind::table, constant.codes, size_of(constant.dtype), constant.size,
                    8 * size_of(constant.dtype));
            }
        }
    }
    index_t faults() const {
        index_t total = 0;
        for (const FaultSite& site : sites_) total += site.faults();
        return total;
    }
    /// The site of a fault, which becomes one of the site's own.
    const FaultSite& find(index_t& fault) const {
        std::size_t i = 0;
        for (; fault >= sites_[i].faults(); ++i) fault -= sites_[i].faults();
        return sites_[i];
    }
    /// What a generated header takes its checksum of.
    std::vector<runtime::ConstantArray> arrays() const {
        std::vector<runtime::ConstantArray> all;
        for (const FaultSite& site : sites_) all.push_back({site.data, site.element * site.elements});
        return all;
    }

private:
    void add_conv(const kernels::PackedConv2d& packed) {
        const index_t stride = packed.padded_outputs(), used = packed.is_depthwise ? packed.out_channels : stride;
        const auto rows = [&](FaultKind kind, const void* data, index_t element, index_t from, index_t to,
                              index_t bits) {
            for (index_t row = from; row < to && data != nullptr; ++row)
                add(kind, static_cast<const std::byte*>(data) + row * stride * element, element, used, bits);
        };
        if (packed.is_depthwise)
            rows(FaultKind::weight, packed.weights, 1, 0, packed.depthwise_weights(), 8);
        else
            add(FaultKind::weight, packed.weights, 1, packed.groups * packed.group_weights());
        rows(FaultKind::bias, packed.bias, 4, 0, 1, 32);
        rows(FaultKind::bias, packed.tap_bias, 4, 0, packed.taps(), 32);
        rows(FaultKind::multiplier, packed.words, 4, 0, 1, 32);
        rows(FaultKind::shift, packed.words, 4, 1, arith::words_of(packed.requantize), 5);
    }
    /// Equal arrays of a file are one, so several instructions may read a site.
    void add(FaultKind kind, const void* data, index_t element, index_t elements, index_t bits = 8) {
        auto* const to = static_cast<std::byte*>(const_cast<void*>(data));
        for (FaultSite& site : sites_)
            if (site.data == to) return site.instructions.push_back(instruction_);
        sites_.push_back({kind, to, element, elements, bits, {instruction_}});
    }

    std::vector<FaultSite> sites_;
    index_t instruction_ = 0;
};

/// What became of faults.
struct FaultCounts {
    std::array<int, 5> drawn{}, found{};  // by the vectors alone, of each kind
    int by_checksum = 0, by_vectors = 0, wrong_layers = 0;
};

/// Draws faults over the bits of a network's program file, each as likely as another.
inline FaultCounts count_faults(const NamedNetwork& network, int faults) {
    const auto owned = lowered(network);
    const kernels::KernelTable& table = owned->table();
    const Tensor image = images_of(network, 1, 5);
    const std::vector<std::byte> bytes = deploy::serialize_program(
        owned->program(), table, deploy::record_golden_runs(*owned, std::span<const Tensor>(&image, 1)));
    const program::AlignedBytes memory(static_cast<index_t>(bytes.size()));
    std::memcpy(memory.data(), bytes.data(), bytes.size());
    const std::span<const std::byte> file(memory.data(), bytes.size());
    const program::AlignedBytes tables(*runtime::program_tables_size(file, table)), arena(owned->arena_bytes());
    const program::AlignedBytes unused(tables.size());
    const runtime::LoadedProgram loaded = *runtime::load_program(file, table, tables.workspace());
    const auto vectors = [&] { return runtime::self_test(loaded.program, loaded.golden, table, arena.data()); };
    REQUIRE(vectors().is_none());

    const FaultSites sites(loaded.program);
    const std::vector<runtime::ConstantArray> arrays = sites.arrays();
    const std::uint32_t sum = runtime::generated::checksum_of(arrays);
    FaultCounts counts;
    Draw draw(11);
    for (int i = 0; i < faults; ++i) {
        index_t fault = draw.between(0, sites.faults() - 1);
        const FaultSite& site = sites.find(fault);
        const auto kind = static_cast<std::size_t>(site.kind);
        site.flip(fault);
        counts.by_checksum +=
            runtime::generated::checksum_of(arrays) != sum &&
            runtime::load_program(file, table, unused.workspace()).status().code == StatusCode::corrupt;
        const runtime::Difference difference = vectors();
        site.flip(fault);
        ++counts.drawn[kind];
        if (difference.is_none()) continue;
        ++counts.found[kind];
        ++counts.by_vectors;
        counts.wrong_layers +=
            std::count(site.instructions.begin(), site.instructions.end(), difference.instruction) == 0;
    }
    CHECK(vectors().is_none());
    return counts;
}

/// The checksum finds every fault; without it the vectors find at least 85 %, and name the layer that has it.
inline void check_faults(const NamedNetwork& network, int faults) {
    const FaultCounts counts = count_faults(network, faults);
    std::printf("%s: of %d faults, the checksum finds %d, the vectors %d;", network.name.c_str(), faults,
                counts.by_checksum, counts.by_vectors);
    for (std::size_t kind = 0; kind < fault_kinds.size(); ++kind)
        std::printf(" %s %d of %d%s", fault_kinds[kind], counts.found[kind], counts.drawn[kind],
                    kind + 1 < fault_kinds.size() ? "," : "\n");
    INFO(network.name);
    CHECK(counts.by_checksum == faults);
    CHECK(counts.by_vectors * 100 >= faults * 85);
    CHECK(counts.wrong_layers == 0);
}

}  // namespace intq::test

#endif  // INTQ_TESTS_DEPLOY_FAULTS_HPP
