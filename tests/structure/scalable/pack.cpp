// SPDX-License-Identifier: MIT
//
// Packs the layer for a scalable backend on this machine, whatever it is: scalable_pack <sve|rvv> <file>
#include <cstdio>
#include <cstring>

#include "structure/scalable/layer.hpp"

namespace {

template <class Backend> int write(const char* name) {
    const intq::test::Layer layer;
    intq::test::PackedLayer<Backend> packed(layer);
    if (!packed.result) return 1;
    std::FILE* const file = std::fopen(name, "wb");
    if (file == nullptr) return 1;
    const auto size = static_cast<std::size_t>(packed.bytes);
    const bool written = std::fwrite(packed.data(), 1, size, file) == size;
    return std::fclose(file) == 0 && written ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    if (std::strcmp(argv[1], "sve") == 0) return write<intq::test::sve>(argv[2]);
    if (std::strcmp(argv[1], "rvv") == 0) return write<intq::simd::rvv128>(argv[2]);
    return 2;
}
