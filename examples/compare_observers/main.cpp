// SPDX-License-Identifier: MIT
//
// Calibrates the shipped network with every observer and prints what each costs, simulated, for activations of 8 and of
// 4 bits: accuracy on the test images and SQNR of the logits. Then all range methods after one pass over the data.
#include <algorithm>
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "intq/arith/bpu.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/io/text_table.hpp"
#include "intq/numeric_suite/metrics/metrics.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/observers/observer_modules.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/tensor/npy.hpp"

namespace {
using namespace intq;
using namespace intq::quantization;

const std::string data = INTQ_EXAMPLES_DIR "/digits/data/";
intq::Tensor load(const std::string& name) { return intq::load_npy(data + name + ".npy"); }

/// Share of rows of logits whose largest element is that of the label.
double accuracy(const intq::Tensor& logits, const intq::Tensor& labels) {
    const auto values = logits.flat<float>();
    const auto classes = static_cast<std::ptrdiff_t>(logits.extent(1));
    double right = 0.0;
    for (index_t row = 0; row < logits.extent(0); ++row) {
        const auto first = values.begin() + row * classes;
        const auto best = std::max_element(first, first + classes) - first;
        right += best == labels.flat<std::int64_t>()[static_cast<std::size_t>(row)] ? 1.0 : 0.0;
    }
    return right / static_cast<double>(logits.extent(0));
}

class Comparison {
public:
    Comparison() { add_stubs(*model_); }
    /// One row: what a model that `prepare` makes for a number of bits computes.
    template <class Prepare> void add(io::TextTable& table, const std::string& name, const Prepare& prepare) {
        std::vector<std::string> row{name};
        for (const int bits : {8, 4}) {
            const intq::Tensor logits = (*prepare(bits))(images_).tensor();
            row.push_back(fmt::format("{:.2f} %", 100.0 * accuracy(logits, labels_)));
            const float sqnr = numeric_suite::compute_sqnr(expected_.flat<float>(), logits.flat<float>());
            row.push_back(fmt::format("{:.2f}", sqnr));
        }
        table.add_row(row);
    }

    /// The model for the bayes march, calibrated with an observer on every activation; cliffs go to standard output.
    std::shared_ptr<PreparedModel> calibrated(const ObserverFactory& observer, int bits) const {
        QConfig qconfig = get_default_calib_qconfig();
        qconfig.output->options.observer = observer;
        ObserverOptions& options = qconfig.output->options.observer_options;
        options.quant_min = -(1 << (bits - 1));
        options.quant_max = -options.quant_min - 1;
        options.xmax = -(options.xmin = -4.0f);  // of the clip observer, and the scale of the fixed one
        options.scale = options.xmax / static_cast<float>(options.quant_max);
        auto prepared = prepare_calibration_fx(*model_, QConfigMapping().set_global(qconfig), march::bayes::policy);
        std::fputs(to_string(calibrate(*prepared, load("calibration_images"), 20)).c_str(), stdout);
        return prepared;
    }

private:
    std::shared_ptr<graph::GraphModule> model_ = interop::onnx::import_file(data + "digits_resnet.onnx");
    intq::Tensor images_ = load("test_images"), labels_ = load("test_labels");
    intq::Tensor expected_ = (*model_)(images_).tensor();
};

void run() {
    constexpr auto right = io::Align::right;
    io::TextTable each({{"observer"}, {"8 bits", right}, {"SQNR dB", right}, {"4 bits", right}, {"SQNR dB", right}});
    io::TextTable one_pass = each;
    Comparison comparison;
    for (const NamedObserver& row : observer_table().rows())
        comparison.add(each, row.name, [&](int bits) { return comparison.calibrated(row.per_tensor, bits); });
    const auto all = observer_factory<StatisticsObserver>();
    const std::shared_ptr<PreparedModel> passes[] = {comparison.calibrated(all, 4), comparison.calibrated(all, 8)};
    for (const RangeMethod method : all_range_methods)
        comparison.add(one_pass, name_of(method), [&](int bits) {
            set_range_method(*passes[bits / 8], method);
            return passes[bits / 8];
        });
    std::printf("\n%s\nThe same from one pass\n%s", each.str().c_str(), one_pass.str().c_str());
}

}  // namespace

int main() {
    try {
        run();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "compare_observers: %s\n", error.what());
        return 1;
    }
}
