// SPDX-License-Identifier: MIT
//
// The FX workflow of Horizon's documents, line by line: each comment is the line of Python that follows in C++.
#include <cstdio>

#include "../train_digits/digits.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/eager/qconfig_dict.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/set_march.hpp"
#include "intq/quantization/qconfig/qconfig_presets.hpp"

namespace {

using namespace intq;
using namespace intq::quantization;

// class FxReadyNet(torch.nn.Module): the stubs around a model that was not written for quantization.
class FxReadyNet : public nn::Cloneable<FxReadyNet> {
public:
    explicit FxReadyNet(nn::ModulePtr net) {
        add_child("quant", std::make_shared<nn::QuantStub>());      // self.quant = QuantStub()
        add_child("net", std::move(net));                           // self.net = net
        add_child("dequant", std::make_shared<nn::DeQuantStub>());  // self.dequant = DeQuantStub()
    }
    std::string type_name() const override { return "FxReadyNet"; }
    nn::Value forward(nn::Arguments x) override {
        return call("dequant", call("net", call("quant", x[0])));  // return self.dequant(self.net(self.quant(x)))
    }
};

double show(const char* stage, double percent) {
    std::printf("%-12s %6.2f %%\n", stage, percent);
    return percent;
}

int run() {
    const auto digits = train_digits::load_digits();
    const auto evaluate = [&](nn::Module& model) { return train_digits::accuracy(model, digits); };

    // float_model = FxReadyNet(load(…)).eval()
    const std::string file = INTQ_EXAMPLES_DIR "/digits/data/digits_resnet.onnx";
    const auto float_model = std::make_shared<FxReadyNet>(interop::onnx::import_file(file));
    float_model->eval();
    const double float_accuracy = show("float", evaluate(*float_model));

    // set_march(March.BAYES)
    set_march(March::bayes);

    // calib_model = prepare_calibration_fx(copy.deepcopy(float_model), {"": default_calib_8bit_fake_quant_qconfig,
    //                                      "module_name": {"net.fc": default_calib_out_8bit_fake_quant_qconfig}})
    const QConfigDict calib_qconfig{.global = default_calib_8bit_fake_quant_qconfig(),
                                    .module_name = {{"net.fc", default_calib_out_8bit_fake_quant_qconfig()}}};
    const auto calib_model = prepare_calibration_fx(*float_model, calib_qconfig.mapping());
    // calib_model.eval(); set_fake_quantize(calib_model, FakeQuantState.CALIBRATION)
    calib_model->eval();
    set_fake_quantize(*calib_model, FakeQuantState::calibration);
    // for image in calib_data_loader: calib_model(image)
    for (index_t first = 0; first < 200; first += 20) (*calib_model)(digits.train_images.batch(first, 20));
    // set_fake_quantize(calib_model, FakeQuantState.VALIDATION); evaluate(calib_model)
    set_fake_quantize(*calib_model, FakeQuantState::validation);
    show("calibrated", evaluate(*calib_model));

    // qat_model = prepare_qat_fx(copy.deepcopy(float_model), {"": default_qat_8bit_fake_quant_qconfig,
    //                            "module_name": {"net.fc": default_qat_out_8bit_fake_quant_qconfig}})
    const QConfigDict qat_qconfig{.global = default_qat_8bit_fake_quant_qconfig(),
                                  .module_name = {{"net.fc", default_qat_out_8bit_fake_quant_qconfig()}}};
    const auto qat_model = prepare_qat_fx(*float_model, qat_qconfig.mapping(), default_target());
    // qat_model.load_state_dict(calib_model.state_dict())
    load_calibration(*qat_model, *calib_model);
    // qat_model.train(); set_fake_quantize(qat_model, FakeQuantState.QAT); train_one_epoch(qat_model, …)
    set_fake_quantize(*qat_model, FakeQuantState::qat);
    training::SGD sgd({.momentum = 0.9});
    training::TrainerOptions one_epoch;
    one_epoch.rate = training::constant_rate(1e-4);
    training::Trainer(*qat_model, sgd, one_epoch).fit(digits.train_images, [&](const auto& logits, auto samples) {
        return training::cross_entropy(logits, train_digits::pick(digits.train_labels, samples));
    });
    // qat_model.eval(); set_fake_quantize(qat_model, FakeQuantState.VALIDATION); evaluate(qat_model)
    set_fake_quantize(*qat_model, FakeQuantState::validation);
    show("trained", evaluate(*qat_model));

    // quantized_model = convert_fx(qat_model); evaluate(quantized_model)
    const auto reference = make_reference(convert_fx(*qat_model));
    show("converted", evaluate(*reference));
    // compile_model(quantized_model, …): the program, and its integers
    const auto& kernels = program::best_table<target::bpu<march::bayes>>();
    const LoweredModel program = lower(convert_fx(*qat_model), kernels, 50);
    const double integer = show("program", train_digits::accuracy(program.run(digits.test_images), digits));
    return integer > float_accuracy - 1 ? 0 : 1;
}

}  // namespace

int main() try { return run(); } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
