// SPDX-License-Identifier: MIT
//
// A program over the compiled form: quantizes a linear layer and asks for the best backend.
#include <cstdio>
#include <memory>

#include "intq/intq.hpp"

namespace {

struct Model : intq::nn::Cloneable<Model> {
    Model() {
        add_child("quant", std::make_shared<intq::nn::QuantStub>());
        const auto linear = std::make_shared<intq::nn::Linear>(intq::nn::LinearOptions{2, 1});
        linear->set_weight(intq::Tensor::full(intq::Shape(1, 2), 1.0f));
        linear->set_bias(intq::Tensor::full(intq::Shape(1), 0.0f));
        add_child("linear", linear);
        add_child("dequant", std::make_shared<intq::nn::DeQuantStub>());
        eval();
    }
    std::string type_name() const override { return "Model"; }
    intq::nn::Value forward(intq::nn::Arguments x) override {
        return call("dequant", call("linear", call("quant", x[0])));
    }
};

}  // namespace

int main() {
    using namespace intq;
    using namespace intq::quantization;
    const Tensor x = Tensor::full(Shape(1, 2), 2.0f);
    const auto prepared = prepare_calibration_fx(Model(), get_default_qconfig_mapping(), target::fp32::policy);
    calibrate(*prepared, x, 1);
    const Tensor y = lower(convert_fx(*prepared), program::best_table<target::fp32>()).run(x);
    if (program::describe_backends().find("backend ") != 0) return 1;
    std::printf("intq %d.%d.%d: %.0f\n", INTQ_VERSION_MAJOR, INTQ_VERSION_MINOR, INTQ_VERSION_PATCH,
                static_cast<double>(y.flat<float>()[0]));
}
