// SPDX-License-Identifier: MIT
//
// Runs the layer with a scalable backend's tile, in the library's own skeleton, on weights that another machine packed.
//
// Status 0: equal to plain loops; 1: different; 3: refused, because the machine has vectors of another length.
#ifndef INTQ_TESTS_STRUCTURE_SCALABLE_RUN_HPP
#define INTQ_TESTS_STRUCTURE_SCALABLE_RUN_HPP

#include <cstdio>

#include "structure/scalable/layer.hpp"

namespace intq::test {

/// Whether the machine has the vectors that a unit was compiled for.
///
/// @return ok; unsupported with the bits of the machine's vectors and of the unit's
constexpr Status check_vector_length(index_t machine_bits, index_t unit_bits) {
    if (machine_bits == unit_bits) return {};
    return {StatusCode::unsupported, OpKind::none, Field::none, machine_bits, unit_bits};
}

inline bool read_file(const char* name, std::byte* to, index_t bytes) {
    std::FILE* const file = std::fopen(name, "rb");
    if (file == nullptr) return false;
    const std::size_t size = std::fread(to, 1, static_cast<std::size_t>(bytes), file);
    const bool at_end = std::fgetc(file) == EOF;
    return std::fclose(file) == 0 && at_end && size == static_cast<std::size_t>(bytes);
}

/// Compares all sums with plain loops. They are computed as kernels::Gemm does it, without an epilogue. Not inlined,
/// so that nothing of it runs before the length was checked.
template <class Backend> INTQ_NEVER_INLINE int run_layer(const char* packed_file) {
    using Tile = simd::Tile<Backend, std::int8_t, std::int8_t, std::int32_t>;
    using Inner = kernels::GemmTile<Backend, typename Tile::shared, std::int32_t>;
    static_assert(Tile::columns == Backend::int8_packing.columns && Tile::depth == Backend::int8_packing.depth);

    const Layer layer;
    PackedLayer<Backend> own(layer);
    if (!own.result) return std::puts("packing failed"), 1;
    const kernels::PackedConv2d& packed = *own.result;
    // The machine that packed the file may have any vectors, or none.
    std::vector<std::byte> given(static_cast<std::size_t>(own.bytes));
    if (!read_file(packed_file, given.data(), own.bytes)) return std::puts("the packed file cannot be read"), 1;
    if (std::memcmp(given.data(), own.data(), given.size()) != 0) return std::puts("DIFFERENT packed bytes"), 1;

    const auto geometry = kernels::make_conv2d_geometry(Layer::window, 1, Layer::in);
    if (!geometry) return std::puts("no geometry"), 1;
    typename Inner::Source source(packed, *geometry, layer.x.data());
    std::int32_t sums[24 * 16];  // of the largest tile
    index_t wrong = 0, compared = 0;
    std::uint32_t hash = 2166136261u;
    for (index_t index = 0; index < packed.panels(); ++index) {
        const typename Inner::Panel panel(packed, source, 0, index);
        for (index_t slot = 0; slot < geometry->out_pixels();) {
            const index_t left = source.enter(slot, geometry->out_pixels()) - slot;
            const index_t rows = Inner::tile_rows(panel.vectors, left, true);
            Inner::template run<true>(panel, rows, sums);
            index_t pixels[24];
            source.pixels(rows, pixels);
            for (index_t r = 0; r < rows; ++r) {
                const index_t pixel = pixels[r], y = pixel / Layer::in.width, x = pixel % Layer::in.width;
                for (index_t c = 0; c < panel.count; ++c, ++compared) {
                    const std::int32_t sum = sums[r * Tile::columns + c];
                    wrong += sum != layer.expected(y, x, panel.channel + c);
                    hash += static_cast<std::uint32_t>(sum) * 16777619u * static_cast<std::uint32_t>(pixel + 1);
                }
            }
            slot += rows;
        }
    }
    std::printf("%s, %td sums, %td of them different, hash %08x\n", wrong == 0 ? "equal" : "DIFFERENT", compared, wrong,
                static_cast<unsigned>(hash));
    return wrong == 0 && compared == Layer::in.height * Layer::in.width * Layer::outputs ? 0 : 1;
}

/// @param status  of a check that asked the machine, not the compiler
template <class Backend> int check_and_run(const Status& status, const char* packed_file) {
    if (!status) {
        std::printf("refused, %s: vectors of %lld bits given, %lld expected\n", name_of(status.code),
                    static_cast<long long>(status.given), static_cast<long long>(status.expected));
        return 3;
    }
    return run_layer<Backend>(packed_file);
}

}  // namespace intq::test

#endif  // INTQ_TESTS_STRUCTURE_SCALABLE_RUN_HPP
