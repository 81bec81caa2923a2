// SPDX-License-Identifier: MIT
//
// What differs between oneDNN 2 and oneDNN 3, under names that hold for both: how a primitive is described, how its
// results are scaled, the instruction sets. No other file asks for the version.
#ifndef INTQ_BENCH_PEERS_ONEDNN_VERSION_HPP
#define INTQ_BENCH_PEERS_ONEDNN_VERSION_HPP

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace intq_bench::onednn {

/// An instruction set that oneDNN may be limited to.
struct Isa {
    std::string_view word;  // of --peer-isa
    dnnl::cpu_isa isa;
    const char* name;
};
inline constexpr Isa isas[] = {
    {"sse41", dnnl::cpu_isa::sse41, "SSE4.1"},
    {"avx", dnnl::cpu_isa::avx, "AVX"},
    {"avx2", dnnl::cpu_isa::avx2, "AVX2"},
    {"avx2_vnni", dnnl::cpu_isa::avx2_vnni, "AVX2 with AVX-VNNI"},
    {"avx512_core", dnnl::cpu_isa::avx512_core, "AVX-512 BW"},
    {"avx512_core_vnni", dnnl::cpu_isa::avx512_core_vnni, "AVX-512 VNNI"},
    {"avx512_core_bf16", dnnl::cpu_isa::avx512_core_bf16, "AVX-512 VNNI and BF16"},
    {"avx512_core_amx", dnnl::cpu_isa::avx512_core_amx, "AMX"},
#if DNNL_VERSION_MAJOR >= 3
    {"avx2_vnni_2", dnnl::cpu_isa::avx2_vnni_2, "AVX2 with AVX-VNNI, conversions of BF16 and FP16"},
    {"avx512_core_fp16", dnnl::cpu_isa::avx512_core_fp16, "AVX-512 VNNI, BF16 and FP16"},
    {"avx512_core_amx_fp16", dnnl::cpu_isa::avx512_core_amx_fp16, "AMX with FP16"},
#endif
};

/// What a primitive does beside its own operation. Every scale multiplies.
class Attributes {
public:
    explicit Attributes(dnnl::engine engine) : engine_(std::move(engine)) {}

    /// For a reorder: out = scale * in.
    void scale_reorder(float scale);

    /// For a binary primitive: `scale` times the input that `argument` names, such as DNNL_ARG_SRC_0.
    void scale_input(int argument, float scale);

    /// For a primitive with weights: out[channel] = scales[channel] * (sum of products + bias[channel]).
    ///
    /// @param weight_mask  bit i is set where dimension i of the weights counts output channels; groups count them too
    void scale_channels(const std::vector<float>& scales, int weight_mask);

    /// The bias that the primitive must read so that the equation of scale_channels() holds for `bias`: float32, one
    /// value a channel. oneDNN 3 adds it behind the scales. Without scales it is `bias`.
    dnnl::memory bias_to_read(const dnnl::memory& bias) const;

    void set_post_ops(const dnnl::post_ops& post_ops) { attr_.set_post_ops(post_ops); }

    /// The caller gives the scratchpad, as DNNL_ARG_SCRATCHPAD.
    void take_scratchpad() { attr_.set_scratchpad_mode(dnnl::scratchpad_mode::user); }

    const dnnl::engine& engine() const { return engine_; }
    const dnnl::primitive_attr& attr() const { return attr_; }

    /// What the primitive reads at each run for the scales, beside its own arguments. oneDNN 2 has them in `attr`.
    const std::unordered_map<int, dnnl::memory>& arguments() const { return arguments_; }

private:
    dnnl::engine engine_;
    dnnl::primitive_attr attr_;
    std::unordered_map<int, dnnl::memory> arguments_;
    std::vector<float> bias_scales_;  // empty: the bias stays as it is
};

#if DNNL_VERSION_MAJOR == 2

/// The pooling whose description takes a dilation, as the only one of oneDNN 3 does.
using Pooling = dnnl::pooling_v2_forward;

/// Describes a primitive by what oneDNN's reference lists for it between the engine and the attributes.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const Attributes& attributes, const Arguments&... arguments) {
    return {typename Primitive::desc(arguments...), attributes.attr(), attributes.engine()};
}

inline void append_eltwise(dnnl::post_ops& post_ops, dnnl::algorithm algorithm, float alpha, float beta) {
    post_ops.append_eltwise(1.0f, algorithm, alpha, beta);
}

inline void Attributes::scale_reorder(float scale) { attr_.set_output_scales(0, {scale}); }

inline void Attributes::scale_input(int argument, float scale) { attr_.set_scales(argument, 0, {scale}); }

inline void Attributes::scale_channels(const std::vector<float>& scales, int) {
    attr_.set_output_scales(1 << 1, scales);  // dimension 1 of every output that has channels
}

#else

using Pooling = dnnl::pooling_forward;

template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const Attributes& attributes, const Arguments&... arguments) {
    return {attributes.engine(), arguments..., attributes.attr()};
}

inline void append_eltwise(dnnl::post_ops& post_ops, dnnl::algorithm algorithm, float alpha, float beta) {
    post_ops.append_eltwise(algorithm, alpha, beta);
}

inline dnnl::memory memory_of_scales(const dnnl::engine& engine, const std::vector<float>& scales) {
    const dnnl::memory::dims dims{static_cast<dnnl::memory::dim>(scales.size())};
    const dnnl::memory memory({dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::x}, engine);
    std::memcpy(memory.get_data_handle(), scales.data(), scales.size() * sizeof(float));
    return memory;
}

// Scales of inputs and weights multiply; that of the output divides, and is left out.
inline void Attributes::scale_input(int argument, float scale) {
    attr_.set_scales_mask(argument, 0);
    arguments_[DNNL_ARG_ATTR_SCALES | argument] = memory_of_scales(engine_, {scale});
}

inline void Attributes::scale_reorder(float scale) { scale_input(DNNL_ARG_FROM, scale); }

inline void Attributes::scale_channels(const std::vector<float>& scales, int weight_mask) {
    attr_.set_scales_mask(DNNL_ARG_WEIGHTS, weight_mask);
    arguments_[DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS] = memory_of_scales(engine_, scales);
    bias_scales_ = scales;
}

#endif

inline dnnl::memory Attributes::bias_to_read(const dnnl::memory& bias) const {
    if (bias_scales_.empty()) return bias;
    const dnnl::memory scaled(bias.get_desc(), engine_);
    const auto* const from = static_cast<const float*>(bias.get_data_handle());
    auto* const to = static_cast<float*>(scaled.get_data_handle());
    for (std::size_t i = 0; i < bias_scales_.size(); ++i) to[i] = bias_scales_[i] * from[i];
    return scaled;
}

}  // namespace intq_bench::onednn

#endif  // INTQ_BENCH_PEERS_ONEDNN_VERSION_HPP
