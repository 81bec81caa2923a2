// SPDX-License-Identifier: MIT
//
// What the units that speak to oneDNN share: engine and stream of one thread, types, memory, a primitive ready to run.
#ifndef INTQ_BENCH_PEERS_ONEDNN_HPP
#define INTQ_BENCH_PEERS_ONEDNN_HPP

#include <omp.h>

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <unordered_map>

#include "onednn_version.hpp"
#include "support/shapes.hpp"

namespace intq_bench::onednn {

using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;
using Dims = dnnl::memory::dims;
using Description = dnnl::memory::desc;

/// Types of one peer: activations, weights and output.
struct PeerTypes {
    const char* name;
    Type input, weight, output;
    bool is_integer() const { return input != Type::f32; }
};
inline constexpr PeerTypes signed_types{"oneDNN s8", Type::s8, Type::s8, Type::s8};
inline constexpr PeerTypes unsigned_types{"oneDNN u8", Type::u8, Type::s8, Type::u8};
inline constexpr PeerTypes float_types{"oneDNN f32", Type::f32, Type::f32, Type::f32};

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

inline Pooling::primitive_desc describe_pooling(const Attributes& attributes, dnnl::algorithm algorithm,
                                                const Description& in, const Description& out,
                                                const intq::Window2d& window) {
    return describe<Pooling>(
        attributes, dnnl::prop_kind::forward_inference, algorithm, in, out,
        Dims{window.stride.height, window.stride.width}, Dims{window.kernel.height, window.kernel.width}, Dims{0, 0},
        Dims{window.padding.top, window.padding.left}, Dims{window.padding.bottom, window.padding.right});
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

/// @param attributes  what `description` was made with
/// @param plain       the weights as a model has them, before the reorder
template <class Primitive, class PrimitiveDescription>
Layer make_layer(const PrimitiveDescription& description, const Attributes& attributes, const Description& plain,
                 const PeerTypes& types) {
    dnnl::memory given = random_memory(plain, types.weight);
    dnnl::memory weights(description.weights_desc(), library().engine);
    dnnl::reorder(given, weights).execute(library().stream, given, weights);
    library().stream.wait();
    const dnnl::memory bias = random_memory(description.query_md(dnnl::query::weights_md, 1), Type::f32);
    Layer layer;
    layer.primitive = Primitive(description);
    layer.arguments = {{DNNL_ARG_SRC, random_memory(description.src_desc(), types.input)},
                       {DNNL_ARG_WEIGHTS, weights},
                       {DNNL_ARG_BIAS, attributes.bias_to_read(bias)},
                       {DNNL_ARG_DST, dnnl::memory(description.dst_desc(), library().engine)},
                       {DNNL_ARG_SCRATCHPAD, dnnl::memory(description.scratchpad_desc(), library().engine)}};
    layer.arguments.insert(attributes.arguments().begin(), attributes.arguments().end());
    return layer;
}

}  // namespace intq_bench::onednn

#endif  // INTQ_BENCH_PEERS_ONEDNN_HPP
