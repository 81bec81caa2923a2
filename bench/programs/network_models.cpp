// SPDX-License-Identifier: MIT
#include "network_models.hpp"

#include "deploy/small_networks.hpp"
#include "models/mobilenet_v1.hpp"
#include "models/mobilenet_v2.hpp"
#include "models/resnet.hpp"

namespace intq_bench {

namespace {

/// On the images of ImageNet.
template <class Model> FloatNetwork on_imagenet() { return {std::make_shared<Model>(), intq::Shape(1, 3, 224, 224)}; }

/// As the tests deploy it.
template <intq::test::NamedNetwork (*make)()> FloatNetwork of_mlperf_tiny() {
    const intq::test::NamedNetwork network = make();
    const intq::Shape& image = network.image;
    return {network.model, intq::Shape(1, image[0], image[1], image[2])};
}

}  // namespace

std::vector<NetworkModel> network_models() {
    return {{"resnet18", on_imagenet<ResNet18>},
            {"resnet50", on_imagenet<ResNet50>},
            {"mobilenet_v1", on_imagenet<MobileNetV1>},
            {"mobilenet_v2", on_imagenet<MobileNetV2>},
            {"ds_cnn", of_mlperf_tiny<intq::test::ds_cnn>, false},
            {"resnet_8", of_mlperf_tiny<intq::test::resnet_8>, false}};
}

}  // namespace intq_bench
