// SPDX-License-Identifier: MIT
//
// The quick start of Horizon's accuracy tools, line by line: each comment is the line of Python that follows in C++.
//
//     horizon_quick_start [folder]
#include <array>
#include <cstdio>
#include <filesystem>

#include "intq/analysis/model_profiler.hpp"
#include "intq/analysis/quant_analysis.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/check/check_qat_model.hpp"
#include "intq/quantization/eager/qconfig_dict.hpp"
#include "intq/quantization/prepare/set_march.hpp"
#include "intq/quantization/qconfig/qconfig_presets.hpp"

namespace {

using namespace intq;
using namespace intq::quantization;
using namespace intq::analysis;

// Numbers without a generator, so that another language can make the same.
Tensor ramp(const Shape& shape, index_t step, index_t modulus, float divisor) {
    Tensor result = Tensor::empty(shape);
    index_t i = 0;
    for (float& value : result.flat<float>()) value = static_cast<float>(i++ * step % modulus - modulus / 2) / divisor;
    return result;
}

Tensor times(const Tensor& tensor, float factor) {
    Tensor result = tensor.clone();
    for (float& value : result.flat<float>()) value *= factor;
    return result;
}

// class Net(nn.Module):
class Net : public nn::Cloneable<Net> {
public:
    // def __init__(self):
    Net() {
        add_child("quantx", std::make_shared<nn::QuantStub>());     // self.quantx = QuantStub()
        add_child("quanty", std::make_shared<nn::QuantStub>());     // self.quanty = QuantStub()
        add_child("add", std::make_shared<nn::FloatFunctional>());  // self.add = FloatFunctional()
        const auto conv = std::make_shared<nn::Conv2d>(nn::Conv2dOptions{3, 3, nn::square_window(1, 1, 0), 1, true});
        conv->set_weight(ramp(Shape(3, 3, 1, 1), 29, 31, 16.0f));
        conv->set_bias(Tensor::from<float>(Shape(3), {0.125f, -0.25f, 0.0625f}));
        add_child("conv", conv);                                    // self.conv = nn.Conv2d(3, 3, 1)
        add_child("dequant", std::make_shared<nn::DeQuantStub>());  // self.dequant = DeQuantStub()
    }
    std::string type_name() const override { return "Net"; }
    std::vector<std::string> input_names() const override { return {"x", "y"}; }
    // def forward(self, x, y):
    nn::Value forward(nn::Arguments in) override {
        nn::Value x = call("quantx", in[0]);        // x = self.quantx(x)
        const nn::Value y = call("quanty", in[1]);  // y = self.quanty(y)
        x = nn::call_add(*this, "add", x, y);       // x = self.add.add(x, y)
        x = call("conv", x);                        // x = self.conv(x)
        // x = F.interpolate(x, scale_factor=1.3, mode="bilinear", align_corners=False)
        x = nn::interpolate(x, {}, 1.3, "bilinear", false);
        return call("dequant", x);  // return self.dequant(x)
    }
};

int run(const std::filesystem::path& folder) {
    // float_net = Net().eval()
    const auto float_net = std::make_shared<Net>();
    float_net->eval();
    // x, y = torch.rand(...), torch.rand(...)
    const Tensor x = ramp(Shape(2, 3, 4, 4), 37, 101, 50.0f), y = ramp(Shape(2, 3, 4, 4), 53, 97, 32.0f);

    // set_march(March.BAYES)
    set_march(March::bayes);
    // calib_net = prepare_calibration_fx(copy.deepcopy(float_net), {"": default_calib_8bit_fake_quant_qconfig})
    const QConfigDict qconfig{.global = default_calib_8bit_fake_quant_qconfig()};
    const auto calib_net = prepare_calibration_fx(*float_net, qconfig.mapping());
    // calib_net.eval(); set_fake_quantize(calib_net, FakeQuantState.CALIBRATION); calib_net(x, y)
    calib_net->eval();
    set_fake_quantize(*calib_net, FakeQuantState::calibration);
    (*calib_net)(x, y);

    // check_qat_model(calib_net, (x, y), save_results=True, out_dir=folder)
    check_qat_model(*calib_net, std::array{x, y}, true, folder);

    // qa = QuantAnalysis(float_net, calib_net, "fake_quant", folder)
    QuantAnalysis qa(float_net, calib_net, "fake_quant", folder);
    // qa.auto_find_bad_case([(k * x, k * y) for k in (1, 1.5, 2)])
    std::vector<CallInputs> cases;
    for (const float k : {1.0f, 1.5f, 2.0f}) cases.emplace_back(std::vector<nn::Value>{times(x, k), times(y, k)});
    const BadCase bad = qa.auto_find_bad_case(cases_of(cases));
    std::printf("bad case %zu: L1 %.7f\n", bad.index, bad.metric);
    // qa.save_bad_case()
    qa.save_bad_case();
    // qa.run()
    qa.run();
    // qa.compare_per_layer()
    qa.compare_per_layer();
    for (const LayerAdvice& row : qa.advice())
        std::printf("%s: %s; %s\n", row.mod_name.c_str(), row.abnormal_info.c_str(), row.advice.c_str());
    // qa.sensitivity()
    for (const SensitiveOperator& op : qa.sensitivity())
        std::printf("%-10s %-10s %.7f\n", op.op_name.c_str(), op.sensitive_type.c_str(), op.metric);

    // with ModelProfiler(calib_net, folder / "profile") as p:
    {
        ModelProfiler p(calib_net, folder / "profile");
        p(CallInputs(std::vector<nn::Value>{x, y}));  // calib_net(x, y)
        p.get_info_manager().table();                 // p.get_info_manager().table()
    }
    return 0;
}

}  // namespace

int main(int count, char** arguments) try {
    return run(count > 1 ? arguments[1] : "horizon_quant_analysis");
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
