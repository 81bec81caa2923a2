// SPDX-License-Identifier: MIT
//
// oneDNN as its own guide says that it is fastest: layout `any`, weights reordered and scratchpad allocated
// beforehand, scales of output channels and bias fused, one thread.
#include <fmt/format.h>

#include <memory>

#include "intq/io/error.hpp"
#include "onednn.hpp"
#include "peer.hpp"
#include "support/clock.hpp"

namespace intq_bench {

namespace {

using namespace onednn;

/// @param weight_mask  the dimensions of the weights that count output channels
Attributes make_attributes(const PeerTypes& types, const LayerShape& shape, int weight_mask) {
    Attributes attributes(library().engine);
    attributes.take_scratchpad();
    if (!types.is_integer()) return attributes;
    std::vector<float> scales(static_cast<std::size_t>(shape.outputs));
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = 1e-4f * (1.0f + 0.001f * static_cast<float>(i % 100));
    attributes.scale_channels(scales, weight_mask);
    return attributes;
}

Layer convolution(const LayerShape& shape, const PeerTypes& types) {
    const intq::Window2d& w = shape.window;
    const bool grouped = shape.groups > 1;
    const Dims weight_dims = grouped ? Dims{shape.groups, shape.outputs / shape.groups, shape.channels / shape.groups,
                                            w.kernel.height, w.kernel.width}
                                     : Dims{shape.outputs, shape.channels, w.kernel.height, w.kernel.width};
    const Attributes attributes = make_attributes(types, shape, grouped ? 0b11 : 0b1);
    const auto chosen = describe<dnnl::convolution_forward>(
        attributes, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
        Description({shape.batch, shape.channels, shape.in.height, shape.in.width}, types.input, Tag::any),
        Description(weight_dims, types.weight, Tag::any), Description({shape.outputs}, Type::f32, Tag::x),
        Description({shape.batch, shape.outputs, shape.out().height, shape.out().width}, types.output, Tag::any),
        Dims{w.stride.height, w.stride.width}, Dims{w.padding.top, w.padding.left},
        Dims{w.padding.bottom, w.padding.right});
    return make_layer<dnnl::convolution_forward>(
        chosen, attributes, Description(weight_dims, types.weight, grouped ? Tag::goihw : Tag::oihw), types);
}

Layer matrix_product(const LayerShape& shape, const PeerTypes& types) {
    const Dims weight_dims{shape.channels, shape.outputs};
    const Attributes attributes = make_attributes(types, shape, 0b10);
    const auto chosen = describe<dnnl::matmul>(
        attributes, Description({shape.batch, shape.channels}, types.input, Tag::ab),
        Description(weight_dims, types.weight, Tag::any), Description({1, shape.outputs}, Type::f32, Tag::ab),
        Description({shape.batch, shape.outputs}, types.output, Tag::ab));
    return make_layer<dnnl::matmul>(chosen, attributes, Description(weight_dims, types.weight, Tag::ba), types);
}

Layer inner_product(const LayerShape& shape, const PeerTypes& types) {
    const Dims weight_dims{shape.outputs, shape.channels};
    const Attributes attributes = make_attributes(types, shape, 0b1);
    const auto chosen = describe<dnnl::inner_product_forward>(
        attributes, dnnl::prop_kind::forward_inference,
        Description({shape.batch, shape.channels}, types.input, Tag::any),
        Description(weight_dims, types.weight, Tag::any), Description({shape.outputs}, Type::f32, Tag::x),
        Description({shape.batch, shape.outputs}, types.output, Tag::any));
    return make_layer<dnnl::inner_product_forward>(chosen, attributes, Description(weight_dims, types.weight, Tag::ab),
                                                   types);
}

double trial(const Layer& layer) {
    layer.run();
    std::vector<double> times;
    for (const double end = now() + 0.05; times.size() < 2 || (times.size() < 9 && now() < end);) {
        const double start = now();
        layer.run();
        times.push_back(now() - start);
    }
    return median(times);
}

PeerCase make_case(const LayerShape& shape, const PeerTypes& types) {
    std::shared_ptr<Layer> layer;
    if (shape.op == intq::OpKind::linear && shape.taps() == 1) {
        // Two primitives do this; a user takes the faster.
        layer = std::make_shared<Layer>(inner_product(shape, types));
        const auto other = std::make_shared<Layer>(matrix_product(shape, types));
        if (trial(*other) < trial(*layer)) layer = other;
    } else {
        layer = std::make_shared<Layer>(convolution(shape, types));
    }
    return {types.name, [layer] { layer->run(); }};
}

const char* name_of_isa(dnnl::cpu_isa isa) {
    for (const Isa& known : isas)
        if (known.isa == isa) return known.name;
    return "another";
}

}  // namespace

void limit_onednn(const std::string& isa) {
    for (const Isa& known : isas)
        if (known.word == isa) {
            const dnnl::status status = dnnl::set_max_cpu_isa(known.isa);
            if (status != dnnl::status::success || dnnl::get_effective_cpu_isa() != known.isa)
                throw intq::Error(isa, "oneDNN cannot be limited to this instruction set here");
            return;
        }
    throw intq::Error(isa, "oneDNN has no instruction set of this name");
}

std::string describe_onednn() {
    const dnnl_version_t* const version = dnnl_version();
    return fmt::format("oneDNN {}.{}.{}, instruction set: {} (--peer-isa limits it)", version->major, version->minor,
                       version->patch, name_of_isa(dnnl::get_effective_cpu_isa()));
}

std::vector<PeerCase> onednn_cases(const LayerShape& shape, const ElementTypes& types) {
    if (types.input != intq::DType::int8) return {make_case(shape, float_types)};
    return {make_case(shape, signed_types), make_case(shape, unsigned_types)};
}

}  // namespace intq_bench
