// SPDX-License-Identifier: MIT
//
// PyTorch's FX numeric suite, by its documentation: each comment is the line of Python that follows in C++. The network
// is the one that the repository ships with, a small ResNet for digits.
#include <cstdio>

#include "../train_digits/digits.hpp"
#include "intq/arith/bpu.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/numeric_suite/fx/add_loggers.hpp"
#include "intq/numeric_suite/fx/converted_model.hpp"
#include "intq/numeric_suite/fx/extract_weights.hpp"
#include "intq/numeric_suite/fx/n_shadows.hpp"
#include "intq/numeric_suite/fx/n_shadows_comparison.hpp"
#include "intq/numeric_suite/fx/shadow_loggers.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"

namespace {

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;
// import torch.ao.ns._numeric_suite_fx as ns
namespace ns = intq::numeric_suite::fx;
using Target = target::bpu<march::bayes>;

// for layer in results: print(layer, results[layer][kind]['int8'][0]['sqnr'])
bool print_sqnr(const char* title, const ns::NSResults& results, const char* kind, double least) {
    std::printf("%s, dB\n", title);
    bool ok = !results.empty();
    for (const auto& [layer, kinds] : results) {
        const double sqnr = kinds.at(kind).at("int8")[0].at("sqnr")[0].number();
        std::printf("  %-28s %8.2f\n", layer.c_str(), sqnr);
        ok = ok && sqnr > least;
    }
    return ok;
}

bool compare_two_models(graph::GraphModule& mp, graph::GraphModule& mq, const Tensor& datum) {
    // weight_comparison = extract_weights('fp32', mp, 'int8', mq)
    ns::NSResults weight_comparison = ns::extract_weights("fp32", mp, "int8", mq);
    // extend_logger_results_with_comparison(weight_comparison, 'fp32', 'int8', compute_sqnr, 'sqnr')
    ns::extend_logger_results_with_comparison(weight_comparison, "fp32", "int8", ns::compute_sqnr, "sqnr");
    bool ok = print_sqnr("weights", weight_comparison, "weight", 30.0);

    // mp_ns, mq_ns = add_loggers('fp32', copy.deepcopy(mp), 'int8', copy.deepcopy(mq), OutputLogger)
    const auto [mp_ns, mq_ns] = ns::add_loggers("fp32", mp, "int8", mq);
    // mp_ns(datum); mq_ns(datum)
    (*mp_ns)(datum), (*mq_ns)(datum);
    // act_comparison = extract_logger_info(mp_ns, mq_ns, OutputLogger, 'int8')
    ns::NSResults act_comparison = ns::extract_logger_info(*mp_ns, *mq_ns, "int8");
    ns::extend_logger_results_with_comparison(act_comparison, "fp32", "int8", ns::compute_sqnr, "sqnr");
    ok = print_sqnr("outputs", act_comparison, "node_output", 10.0) && ok;

    // mp_shadows_mq = add_shadow_loggers('fp32', copy.deepcopy(mp), 'int8', copy.deepcopy(mq), OutputLogger)
    const auto mp_shadows_mq = ns::add_shadow_loggers("fp32", mp, "int8", mq);
    (*mp_shadows_mq)(datum);
    // shadow_act_comparison = extract_shadow_logger_info(mp_shadows_mq, OutputLogger, 'int8')
    ns::NSResults shadow_act_comparison = ns::extract_shadow_logger_info(*mp_shadows_mq, "int8");
    ns::extend_logger_results_with_comparison(shadow_act_comparison, "fp32", "int8", ns::compute_sqnr, "sqnr");
    return print_sqnr("outputs on the same input", shadow_act_comparison, "node_output", 15.0) && ok;
}

bool compare_qconfigs(nn::Module& model, const Tensor& datum) {
    // qconfig_multi_mapping = QConfigMultiMapping().set_global([int8, int16])
    const auto& table = program::best_table<Target>();
    const auto qconfig_multi_mapping =
        ns::QConfigMultiMapping().set_global({get_default_calib_qconfig(), get_default_calib_qconfig(DType::int16)});
    // model = prepare_n_shadows_model(model, example_inputs, qconfig_multi_mapping, backend_config); model(datum)
    const auto prepared = ns::prepare_n_shadows_model(model, {datum}, qconfig_multi_mapping, table.policy());
    (*prepared)(datum);
    // model = convert_n_shadows_model(model); loggers_set_enabled(model, True); model(datum)
    const auto converted = ns::convert_n_shadows_model(prepared, table);
    ns::loggers_set_enabled(*converted, true);
    (*converted)(datum);
    // print_comparisons_n_shadows_model(extract_results_n_shadows_model(model))
    const ns::NSResults results = ns::extract_results_n_shadows_model(*converted);
    ns::print_comparisons_n_shadows_model(results);
    bool ok = true;
    for (const auto& [layer, comparison] : ns::create_results_comparison(results))
        if (const auto* int16 = comparison.candidates.find("2"))
            ok = ok && int16->cmp_mean >= comparison.candidates.at("1").cmp_mean;
    return ok;
}

int run() {
    const auto digits = train_digits::load_digits();
    const Tensor datum = digits.test_images.batch(0, 16);
    const auto model = interop::onnx::import_file(INTQ_EXAMPLES_DIR "/digits/data/digits_resnet.onnx");
    model->eval();

    // mp = prepare_fx(m, qconfig_mapping, example_inputs); mp(data)
    const auto& table = program::best_table<Target>();
    PrepareOptions options;
    options.compatibility = Compatibility::torch;
    const auto mp =
        prepare_calibration_fx(*model, get_default_qconfig_mapping(table.policy()), table.policy(), options);
    calibrate(*mp, digits.train_images.batch(0, 200), 20);
    set_fake_quantize(*mp, FakeQuantState::float_);  // PyTorch's prepared model observes, and rounds nothing
    // mq = convert_fx(copy.deepcopy(mp))
    const QuantizedGraph quantized = convert_fx(*mp);
    ns::ConvertedModel mq(quantized, lower(quantized, table, 16));

    const bool ok = compare_two_models(*mp, mq, datum);
    return compare_qconfigs(*model, datum) && ok ? 0 : 1;
}

}  // namespace

int main() try { return run(); } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
