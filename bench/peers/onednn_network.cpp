// SPDX-License-Identifier: MIT
//
// A network as a chain of oneDNN's primitives, as a framework builds it: layout `any` wherever a primitive may choose,
// a reorder where two neighbours chose differently, the add into the memory of its operand.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "intq/io/error.hpp"
#include "onednn.hpp"
#include "peer.hpp"

namespace intq_bench {

namespace {

using namespace onednn;

class ChainBuilder {
public:
    ChainBuilder(const Network& network, const PeerTypes& types) : network_(&network), types_(types) {}

    std::vector<Layer> run() {
        for (std::size_t i = 0; i < network_->steps.size(); ++i) add(i);
        return std::move(layers_);
    }

private:
    void add(std::size_t index) {
        const NetworkStep& step = network_->steps[index];
        switch (step.shape.op) {
            case intq::OpKind::quantize:
                return add_quantize(step);
            case intq::OpKind::conv2d:
                return add_convolution(index);
            case intq::OpKind::linear:
                return add_inner_product(step);
            case intq::OpKind::max_pool2d:
                return add_pooling(step, dnnl::algorithm::pooling_max);
            case intq::OpKind::avg_pool2d:
                return add_pooling(step, dnnl::algorithm::pooling_avg_include_padding);
            case intq::OpKind::dequantize:  // the inner product gives floats already
                tensors_[step.output] = tensors_.at(step.input);
                return;
            default:
                throw intq::Error(step.name, std::string("oneDNN's chain has no ") + name_of(step.shape.op));
        }
    }

    static Dims input_dims(const LayerShape& shape) {
        return {shape.batch, shape.channels, shape.in.height, shape.in.width};
    }
    static Dims output_dims(const LayerShape& shape) {
        return {shape.batch, shape.outputs, shape.out().height, shape.out().width};
    }

    void add_quantize(const NetworkStep& step) {
        const Dims dims = input_dims(step.shape);
        const dnnl::memory image = random_memory(Description(dims, Type::f32, Tag::nchw), Type::f32);
        const dnnl::memory codes(Description(dims, types_.input, Tag::nhwc), library().engine);
        Attributes attributes(library().engine);
        attributes.scale_reorder(127.0f);
        tensors_[step.input] = image;
        tensors_[step.output] = codes;
        add_reorder(image, codes, attributes);
    }

    void add_reorder(const dnnl::memory& from, const dnnl::memory& to, const Attributes& attributes) {
        const dnnl::reorder::primitive_desc description(from, to, attributes.attr());
        layers_.push_back({dnnl::reorder(description), attributes.arguments()});
        layers_.back().arguments.insert({{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    }

    /// The tensor in the layout that a primitive wants.
    dnnl::memory input_as(int tensor, const Description& wanted) {
        const dnnl::memory& given = tensors_.at(tensor);
        if (given.get_desc() == wanted) return given;
        const dnnl::memory other(wanted, library().engine);
        add_reorder(given, other, Attributes(library().engine));
        return other;
    }

    /// @param weight_mask  the dimensions of the weights that count output channels
    static Attributes make_attributes(const NetworkStep& step, int weight_mask) {
        // Sums of `depth` products of codes that deviate by about 74 each, brought back to codes of that size.
        const auto depth = static_cast<float>(step.shape.depth());
        std::vector<float> scales(static_cast<std::size_t>(step.shape.outputs));
        for (std::size_t i = 0; i < scales.size(); ++i)
            scales[i] = (1.0f + 0.001f * static_cast<float>(i % 100)) / (74.0f * std::sqrt(depth));
        Attributes attributes(library().engine);
        attributes.take_scratchpad();
        attributes.scale_channels(scales, weight_mask);
        dnnl::post_ops after;
        if (step.sumin >= 0) after.append_sum(0.5f);
        if (step.activation == intq::Activation::relu) append_eltwise(after, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
        if (step.activation == intq::Activation::relu6)
            append_eltwise(after, dnnl::algorithm::eltwise_clip, 0.0f, 120.0f);
        attributes.set_post_ops(after);
        return attributes;
    }

    template <class Primitive, class PrimitiveDescription>
    void add_weighted(const NetworkStep& step, const PrimitiveDescription& chosen, const Attributes& attributes,
                      const Description& plain) {
        dnnl::memory source = input_as(step.input, chosen.src_desc());
        Layer layer = make_layer<Primitive>(chosen, attributes, plain, types_);
        layer.arguments[DNNL_ARG_SRC] = source;
        if (step.sumin >= 0) layer.arguments[DNNL_ARG_DST] = tensors_.at(step.sumin);
        tensors_[step.output] = layer.arguments.at(DNNL_ARG_DST);
        layers_.push_back(std::move(layer));
    }

    void add_convolution(std::size_t index) {
        const NetworkStep& step = network_->steps[index];
        const LayerShape& shape = step.shape;
        require_last_use(step.sumin, index);
        const intq::Window2d& w = shape.window;
        const bool grouped = shape.groups > 1;
        const Dims weights = grouped ? Dims{shape.groups, shape.outputs / shape.groups, shape.channels / shape.groups,
                                            w.kernel.height, w.kernel.width}
                                     : Dims{shape.outputs, shape.channels, w.kernel.height, w.kernel.width};
        const Description output = step.sumin >= 0 ? tensors_.at(step.sumin).get_desc()
                                                   : Description(output_dims(shape), types_.output, Tag::any);
        const Attributes attributes = make_attributes(step, grouped ? 0b11 : 0b1);
        const auto chosen = describe<dnnl::convolution_forward>(
            attributes, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
            Description(input_dims(shape), types_.input, Tag::any), Description(weights, types_.weight, Tag::any),
            Description({shape.outputs}, Type::f32, Tag::x), output, Dims{w.stride.height, w.stride.width},
            Dims{w.padding.top, w.padding.left}, Dims{w.padding.bottom, w.padding.right});
        add_weighted<dnnl::convolution_forward>(step, chosen, attributes,
                                                Description(weights, types_.weight, grouped ? Tag::goihw : Tag::oihw));
    }

    void add_inner_product(const NetworkStep& step) {
        const LayerShape& shape = step.shape;
        const Dims weights{shape.outputs, shape.channels, shape.in.height, shape.in.width};
        const Attributes attributes = make_attributes(step, 0b1);
        const auto chosen = describe<dnnl::inner_product_forward>(
            attributes, dnnl::prop_kind::forward_inference, Description(input_dims(shape), types_.input, Tag::any),
            Description(weights, types_.weight, Tag::any), Description({shape.outputs}, Type::f32, Tag::x),
            Description({shape.batch, shape.outputs}, Type::f32, Tag::nc));
        add_weighted<dnnl::inner_product_forward>(step, chosen, attributes,
                                                  Description(weights, types_.weight, Tag::oihw));
    }

    void add_pooling(const NetworkStep& step, dnnl::algorithm algorithm) {
        const LayerShape& shape = step.shape;
        const dnnl::memory source = tensors_.at(step.input);
        const auto chosen = describe_pooling(Attributes(library().engine), algorithm, source.get_desc(),
                                             Description(output_dims(shape), types_.output, Tag::any), shape.window);
        const dnnl::memory output(chosen.dst_desc(), library().engine);
        tensors_[step.output] = output;
        layers_.push_back({Pooling(chosen), {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, output}}});
    }

    /// oneDNN adds into its output: the operand is gone afterwards.
    void require_last_use(int tensor, std::size_t index) const {
        for (std::size_t later = index + 1; tensor >= 0 && later < network_->steps.size(); ++later)
            if (network_->steps[later].input == tensor || network_->steps[later].sumin == tensor)
                throw intq::Error(network_->steps[later].name, "it reads a tensor that an add has overwritten");
    }

    const Network* network_;
    PeerTypes types_;
    std::map<int, dnnl::memory> tensors_;
    std::vector<Layer> layers_;
};

PeerCase make_chain(const Network& network, const PeerTypes& types) {
    const auto layers = std::make_shared<std::vector<Layer>>(ChainBuilder(network, types).run());
    return {types.name, [layers] {
                for (const Layer& layer : *layers) layer.primitive.execute(library().stream, layer.arguments);
                library().stream.wait();
            }};
}

}  // namespace

std::vector<PeerCase> onednn_networks(const Network& network) {
    return {make_chain(network, unsigned_types), make_chain(network, signed_types)};
}

}  // namespace intq_bench
