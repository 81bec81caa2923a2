// SPDX-License-Identifier: MIT
//
// oneDNN's primitives for streaming work: reorder with a scale, binary add, pooling; channels last, one thread.
#include <memory>

#include "onednn.hpp"
#include "peer.hpp"

namespace intq_bench {

namespace {

using namespace onednn;

Description images(const StreamingShape& shape, intq::Size2d size, Type type) {
    return {{shape.batch, shape.channels, size.height, size.width}, type, Tag::nhwc};
}

Layer reorder(const StreamingShape& shape, Type from, Type to, float scale) {
    dnnl::memory x = random_memory(images(shape, shape.in, from), from);
    dnnl::memory y(images(shape, shape.in, to), library().engine);
    Attributes attributes(library().engine);
    attributes.scale_reorder(scale);
    Layer layer;
    layer.primitive = dnnl::reorder(dnnl::reorder::primitive_desc(x, y, attributes.attr()));
    layer.arguments = attributes.arguments();
    layer.arguments.insert({{DNNL_ARG_FROM, x}, {DNNL_ARG_TO, y}});
    return layer;
}

Layer add(const StreamingShape& shape) {
    const Description codes = images(shape, shape.in, Type::s8);
    Attributes attributes(library().engine);
    attributes.scale_input(DNNL_ARG_SRC_0, 0.02f / 0.031f);
    attributes.scale_input(DNNL_ARG_SRC_1, 0.013f / 0.031f);
    Layer layer;
    layer.primitive =
        dnnl::binary(describe<dnnl::binary>(attributes, dnnl::algorithm::binary_add, codes, codes, codes));
    layer.arguments = attributes.arguments();
    layer.arguments.insert({{DNNL_ARG_SRC_0, random_memory(codes, Type::s8)},
                            {DNNL_ARG_SRC_1, random_memory(codes, Type::s8)},
                            {DNNL_ARG_DST, dnnl::memory(codes, library().engine)}});
    return layer;
}

Layer pool(const StreamingShape& shape, dnnl::algorithm algorithm) {
    const intq::Window2d& w = shape.window;
    const Description in = images(shape, shape.in, Type::s8);
    const Description out = images(shape, output_size(w, shape.in), Type::s8);
    Layer layer;
    layer.primitive = Pooling(describe_pooling(Attributes(library().engine), algorithm, in, out, w));
    layer.arguments = {{DNNL_ARG_SRC, random_memory(in, Type::s8)},
                       {DNNL_ARG_DST, dnnl::memory(out, library().engine)}};
    return layer;
}

Layer make_layer(StreamingOp op, const StreamingShape& shape) {
    switch (op) {
        case StreamingOp::quantize:
            return reorder(shape, Type::f32, Type::s8, 50.0f);
        case StreamingOp::dequantize:
            return reorder(shape, Type::s8, Type::f32, 0.02f);
        case StreamingOp::add:
            return add(shape);
        case StreamingOp::max_pool:
            return pool(shape, dnnl::algorithm::pooling_max);
        case StreamingOp::avg_pool:
            break;
    }
    return pool(shape, dnnl::algorithm::pooling_avg_include_padding);
}

}  // namespace

std::vector<PeerCase> onednn_streaming_cases(StreamingOp op, const StreamingShape& shape) {
    const auto layer = std::make_shared<Layer>(make_layer(op, shape));
    return {{"oneDNN", [layer] { layer->run(); }}};
}

}  // namespace intq_bench
