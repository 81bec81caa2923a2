// SPDX-License-Identifier: MIT
//
// oneDNN 2 as its own guide says that it is fastest: layout `any`, weights reordered and scratchpad allocated
// beforehand, scales of output channels and bias fused, one thread.
#include <fmt/format.h>

#include <memory>
#include <string_view>

#include "intq/io/error.hpp"
#include "onednn.hpp"
#include "peer.hpp"
#include "support/clock.hpp"

namespace intq_bench {

namespace {

using namespace onednn;

dnnl::primitive_attr attributes(const PeerTypes& types, const LayerShape& shape) {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (!types.is_integer()) return attr;
    std::vector<float> scales(static_cast<std::size_t>(shape.outputs));
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = 1e-4f * (1.0f + 0.001f * static_cast<float>(i % 100));
    attr.set_output_scales(1 << 1, scales);
    return attr;
}

Layer convolution(const LayerShape& shape, const PeerTypes& types) {
    const intq::Window2d& w = shape.window;
    const bool grouped = shape.groups > 1;
    const Dims weight_dims = grouped ? Dims{shape.groups, shape.outputs / shape.groups, shape.channels / shape.groups,
                                            w.kernel.height, w.kernel.width}
                                     : Dims{shape.outputs, shape.channels, w.kernel.height, w.kernel.width};
    const dnnl::convolution_forward::desc description(
        dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
        Description({shape.batch, shape.channels, shape.in.height, shape.in.width}, types.input, Tag::any),
        Description(weight_dims, types.weight, Tag::any), Description({shape.outputs}, Type::f32, Tag::x),
        Description({shape.batch, shape.outputs, shape.out().height, shape.out().width}, types.output, Tag::any),
        {w.stride.height, w.stride.width}, {w.padding.top, w.padding.left}, {w.padding.bottom, w.padding.right});
    const dnnl::convolution_forward::primitive_desc chosen(description, attributes(types, shape), library().engine);
    return make_layer<dnnl::convolution_forward>(
        chosen, Description(weight_dims, types.weight, grouped ? Tag::goihw : Tag::oihw), types);
}

Layer matrix_product(const LayerShape& shape, const PeerTypes& types) {
    const Dims weight_dims{shape.channels, shape.outputs};
    const dnnl::matmul::desc description(Description({shape.batch, shape.channels}, types.input, Tag::ab),
                                         Description(weight_dims, types.weight, Tag::any),
                                         Description({1, shape.outputs}, Type::f32, Tag::ab),
                                         Description({shape.batch, shape.outputs}, types.output, Tag::ab));
    const dnnl::matmul::primitive_desc chosen(description, attributes(types, shape), library().engine);
    return make_layer<dnnl::matmul>(chosen, Description(weight_dims, types.weight, Tag::ba), types);
}

Layer inner_product(const LayerShape& shape, const PeerTypes& types) {
    const Dims weight_dims{shape.outputs, shape.channels};
    const dnnl::inner_product_forward::desc description(
        dnnl::prop_kind::forward_inference, Description({shape.batch, shape.channels}, types.input, Tag::any),
        Description(weight_dims, types.weight, Tag::any), Description({shape.outputs}, Type::f32, Tag::x),
        Description({shape.batch, shape.outputs}, types.output, Tag::any));
    const dnnl::inner_product_forward::primitive_desc chosen(description, attributes(types, shape), library().engine);
    return make_layer<dnnl::inner_product_forward>(chosen, Description(weight_dims, types.weight, Tag::ab), types);
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

struct Isa {
    std::string_view word;  // of --peer-isa
    dnnl::cpu_isa isa;
    const char* name;
};
constexpr Isa isas[] = {
    {"sse41", dnnl::cpu_isa::sse41, "SSE4.1"},
    {"avx", dnnl::cpu_isa::avx, "AVX"},
    {"avx2", dnnl::cpu_isa::avx2, "AVX2"},
    {"avx2_vnni", dnnl::cpu_isa::avx2_vnni, "AVX2 with AVX-VNNI"},
    {"avx512_core", dnnl::cpu_isa::avx512_core, "AVX-512 BW"},
    {"avx512_core_vnni", dnnl::cpu_isa::avx512_core_vnni, "AVX-512 VNNI"},
    {"avx512_core_bf16", dnnl::cpu_isa::avx512_core_bf16, "AVX-512 VNNI and BF16"},
    {"avx512_core_amx", dnnl::cpu_isa::avx512_core_amx, "AMX"},
};

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
    throw intq::Error(isa, "oneDNN 2 has no instruction set of this name");
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
