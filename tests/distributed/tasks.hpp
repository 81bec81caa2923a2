// SPDX-License-Identifier: MIT
//
// Work that ranks share, each with what it leaves as bytes: for threads and for processes of MPI.
#ifndef INTQ_TESTS_DISTRIBUTED_TASKS_HPP
#define INTQ_TESTS_DISTRIBUTED_TASKS_HPP

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "intq/analysis/compare/sensitivity.hpp"
#include "intq/arith/bpu.hpp"
#include "intq/distributed/calibrate.hpp"
#include "intq/distributed/data_parallel.hpp"
#include "intq/distributed/sensitivity.hpp"
#include "intq/io/safetensors.hpp"
#include "intq/quantization/observers/observer_modules.hpp"
#include "intq/quantization/prepare/calibration_file.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "intq/tensor/npy.hpp"
#include "support/small_models.hpp"

namespace intq::test::distributed {

using Bytes = std::vector<std::byte>;

inline constexpr arith::PolicyRecord bayes = target::bpu<march::bayes>::policy;
inline const Shape image_shape(2, 3, 8, 8);

/// Nine batches; of the last, which is smaller, come the shapes that a calibration leaves. Batch 4 is empty.
inline quantization::BatchSource batches() {
    return {9,
            [](std::size_t i) {
                if (i == 4) return intq::Tensor::zeros(Shape(0, 3, 8, 8));
                return random_tensor(i == 8 ? Shape(1, 3, 8, 8) : image_shape, static_cast<unsigned>(i) + 40,
                                     1.0f + 0.3f * static_cast<float>(i % 4));
            },
            {}};
}

/// A small residual network whose activations an observer of this name sees.
inline std::shared_ptr<quantization::PreparedModel> prepared_model(const std::string& observer = "mse") {
    const ResidualNet net(4, 3);
    quantization::QConfig qconfig = quantization::get_default_calib_qconfig();
    qconfig.output->options.observer = quantization::observer_table().at(observer).per_tensor;
    return quantization::prepare_calibration_fx(net, quantization::QConfigMapping().set_global(qconfig), bayes);
}

/// Observers, shapes, and the scales that follow.
inline Bytes calibration_bytes(nn::Module& model) {
    io::Safetensors content = quantization::make_calibration(model, 0);
    for (const auto& buffer : model.named_buffers())
        if (buffer.value->defined() && buffer.name.find("scale") != std::string::npos)
            content.arrays.push_back({buffer.name, to_array(*buffer.value)});
    return io::serialize_safetensors(content);
}

/// What a calibration by these ranks leaves on this rank.
inline Bytes calibrate(intq::distributed::Communicator& all, const std::string& observer = "mse") {
    const auto model = prepared_model(observer);
    intq::distributed::calibrate(*model, batches(), all);
    return calibration_bytes(*model);
}

// --- training ---------------------------------------------------------------------------------------------------------

/// Images whose class is that of their number.
struct TrainingTask {
    intq::Tensor images = random_tensor(Shape(24, 3, 8, 8), 3);

    training::LossFunction loss() const {
        return [](const intq::Tensor& logits, std::span<const index_t> samples) {
            std::vector<index_t> labels;
            for (const index_t sample : samples) labels.push_back(sample % 3);
            return training::cross_entropy(logits, labels);
        };
    }
    static training::TrainerOptions options() {
        training::TrainerOptions options;
        options.epochs = 2;
        options.batch_size = 8;
        options.seed = 6;
        options.rate = training::constant_rate(0.01);
        options.progress = io::ShowProgress::never;
        return options;
    }
};

inline std::shared_ptr<quantization::PreparedModel> qat_model() {
    return quantization::prepare_qat_fx(ResidualNet(4, 3), quantization::get_default_qconfig_mapping(bayes), bayes);
}

/// Model, optimizer and position after quantization-aware training.
inline Bytes train(intq::distributed::Communicator& all) {
    const auto model = qat_model();
    const TrainingTask task;
    training::SGD sgd({0.9, 0.0, 0.0, true});
    Bytes bytes;
    all.together([&] {
        training::Trainer trainer(*model, sgd, intq::distributed::data_parallel(TrainingTask::options(), *model, all));
        trainer.fit(task.images, task.loss());
        bytes = io::serialize_safetensors(training::make_checkpoint(*model, sgd, trainer.position()));
    });
    return bytes;
}

// --- sensitivity ------------------------------------------------------------------------------------------------------

struct SensitivityTask {
    std::shared_ptr<ResidualNet> net = std::make_shared<ResidualNet>(4, 3);
    std::shared_ptr<quantization::PreparedModel> model = prepared_model("min_max");
    intq::Tensor x = random_tensor(image_shape, 5);
    nn::Value expected = (*net)(x);
    analysis::SensitivityOptions options{.show = io::ShowProgress::never};

    SensitivityTask() { quantization::calibrate(*model, batches()); }
};

/// A line an operator; the metric in hexadecimal, which keeps its bits.
inline std::string text_of(const std::vector<quantization::SensitiveOperator>& list) {
    std::string text;
    char metric[40];
    for (const quantization::SensitiveOperator& op : list) {
        std::snprintf(metric, sizeof metric, "%a", op.metric);
        text += op.op_name + " " + op.sensitive_type + " " + op.op_type + " " + metric + "\n";
    }
    return text;
}

inline std::string find_sensitive_operators(intq::distributed::Communicator& all) {
    const SensitivityTask task;
    return text_of(intq::distributed::find_sensitive_operators(task.model, task.x, task.expected, all, task.options));
}

}  // namespace intq::test::distributed

#endif  // INTQ_TESTS_DISTRIBUTED_TASKS_HPP
