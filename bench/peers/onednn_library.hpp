// SPDX-License-Identifier: MIT
//
// What the units that call oneDNN 2 share: the engine, memory of unpredictable bytes, a primitive ready to run.
#ifndef INTQ_BENCH_PEERS_ONEDNN_LIBRARY_HPP
#define INTQ_BENCH_PEERS_ONEDNN_LIBRARY_HPP

#include <omp.h>

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <unordered_map>

namespace intq_bench {

using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;
using Dims = dnnl::memory::dims;
using Description = dnnl::memory::desc;

struct Library {
    Library() : engine(dnnl::engine::kind::cpu, 0), stream(engine) { omp_set_num_threads(1); }
    dnnl::engine engine;
    dnnl::stream stream;
};
inline Library& library() {
    static Library once;
    return once;
}

/// Memory of unpredictable bytes; floats between -1 and 1.
inline dnnl::memory random_memory(const Description& description, Type type) {
    dnnl::memory memory(description, library().engine);
    std::mt19937 random(1);
    auto* const bytes = static_cast<unsigned char*>(memory.get_data_handle());
    const std::size_t size = description.get_size();
    if (type == Type::f32) {
        for (std::size_t i = 0; i + sizeof(float) <= size; i += sizeof(float)) {
            const float value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
            std::memcpy(bytes + i, &value, sizeof value);
        }
    } else {
        for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(random());
    }
    return memory;
}

/// A primitive with all that it reads and writes.
struct Layer {
    dnnl::primitive primitive;
    std::unordered_map<int, dnnl::memory> arguments;

    void run() const {
        primitive.execute(library().stream, arguments);
        library().stream.wait();
    }
};

}  // namespace intq_bench

#endif  // INTQ_BENCH_PEERS_ONEDNN_LIBRARY_HPP
