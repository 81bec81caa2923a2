// SPDX-License-Identifier: MIT
//
// Every fused sequence behind every kind of layer, in every position, on every target: what prepare takes has a
// program, whose output is near its reference.
#include <array>
#include <cmath>

#include "intq/nn.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;

namespace {

constexpr index_t channels = 4;

/// A layer with weights that keeps the shape of its input, and the norm that fits it.
struct Layer {
    const char* name;
    std::shared_ptr<nn::Weighted> (*make)(unsigned seed);
    bool is_flat;  // BatchNorm1d
    Shape input;
};

template <class Made> std::shared_ptr<nn::Weighted> filled(std::shared_ptr<Made> layer, unsigned seed) {
    layer->set_weight(test::random_tensor(layer->weight().shape(), seed, 0.4f));
    layer->set_bias(test::random_tensor(Shape(channels), seed + 1000));
    return layer;
}

const Layer layers[] = {
    {"conv1d",
     [](unsigned seed) {
         return filled(std::make_shared<nn::Conv1d>(nn::Conv1dOptions{
                           .in_channels = channels, .out_channels = channels, .kernel = 3, .padding = 1}),
                       seed);
     },
     true, Shape(2, channels, 6)},
    {"conv2d",
     [](unsigned seed) { return std::shared_ptr<nn::Weighted>(test::make_conv(channels, channels, 3, seed)); }, false,
     Shape(2, channels, 4, 5)},
    {"conv_transpose2d",
     [](unsigned seed) {
         return filled(std::make_shared<nn::ConvTranspose2d>(nn::ConvTranspose2dOptions{
                           .in_channels = channels, .out_channels = channels, .window = nn::square_window(3, 1, 1)}),
                       seed);
     },
     false, Shape(2, channels, 4, 5)},
    {"conv_transpose1d",
     [](unsigned seed) {
         return filled(std::make_shared<nn::ConvTranspose1d>(nn::ConvTranspose1dOptions{channels, channels, 3, 1, 1}),
                       seed);
     },
     true, Shape(2, channels, 6)},
    {"depthwise",
     [](unsigned seed) {
         return std::shared_ptr<nn::Weighted>(test::make_conv(channels, channels, 3, seed, 1, channels));
     },
     false, Shape(2, channels, 4, 5)},
    {"linear", [](unsigned seed) { return std::shared_ptr<nn::Weighted>(test::make_linear(channels, channels, seed)); },
     true, Shape(2, channels)},
};

enum class Add { none, left, right, with_relu };
enum class Place { last, inner, read_twice };

struct Sequence {
    bool norm;
    Add add;
    Activation activation;
};

/// The seven sequences with relu and relu6, with the layer on either side of an add, and the layer alone.
std::vector<Sequence> sequences() {
    std::vector<Sequence> all;
    for (const bool norm : {false, true})
        for (const Add add : {Add::none, Add::left, Add::right, Add::with_relu})
            for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6})
                if (add != Add::with_relu || activation == Activation::relu) all.push_back({norm, add, activation});
    return all;
}

nn::ModulePtr model_of(const Layer& layer, const Sequence& sequence, Place place) {
    const nn::ModulePtr norm = layer.is_flat ? nn::ModulePtr(test::make_batch_norm<nn::BatchNorm1d>(channels, 31))
                                             : nn::ModulePtr(test::make_batch_norm<nn::BatchNorm2d>(channels, 31));
    return test::stubbed({{"layer", layer.make(3)},
                          {"norm", norm},
                          {"skip", std::make_shared<nn::FloatFunctional>()},
                          {"next", layer.make(4)}},
                         [sequence, place](test::LambdaModel& m, nn::Arguments x) {
                             nn::Value y = m.call("layer", x[0]);
                             if (sequence.norm) y = m.call("norm", y);
                             if (sequence.add == Add::left) y = nn::call_add(m, "skip", y, x[0]);
                             if (sequence.add == Add::right) y = x[0] + y;
                             if (sequence.add == Add::with_relu)
                                 y = nn::call_float(m, "skip", "add_relu", y, x[0]);
                             else if (sequence.activation == Activation::relu)
                                 y = nn::relu(y);
                             else if (sequence.activation == Activation::relu6)
                                 y = nn::relu6(y);
                             if (place == Place::last) return y;
                             const nn::Value next = m.call("next", y);
                             return place == Place::inner ? next : nn::relu(next) + y;
                         });
}

using test::sqnr;

/// The type that the DeQuantStub reads.
DType type_of_output(const QuantizedGraph& quantized) {
    for (const QuantizedNode& node : quantized.nodes)
        if (node.type == "DeQuantStub") return quantized.input(node, 0).dtype;
    return DType::none;
}

/// Whether the accumulator is the output: of a layer without activation, whose add is part of the accumulator. Behind
/// int16 codes tflite has none, and fp32, whose sums may take 64 bits, gives none.
bool gives_accumulator(const Sequence& sequence, Place place, const arith::PolicyRecord& target, DType dtype) {
    if (place == Place::read_twice) return false;
    if (dtype == DType::int16 && (!target.fused_add || target.widens_int16)) return false;
    if (place == Place::inner) return true;
    return sequence.activation == Activation::none && (sequence.add == Add::none || target.adds_in_accumulator());
}

std::string convert_and_run(const nn::Module& model, const kernels::KernelTable& table, const intq::Tensor& x,
                            DType dtype, DType& output) {
    const auto prepared = prepare_calibration_fx(model, get_default_qconfig_mapping(dtype), table.policy());
    if (!prepared->report().fallbacks.empty()) return "in float: " + prepared->report().fallbacks[0].node;
    calibrate(*prepared, x, 2);
    const QuantizedGraph quantized = convert_fx(*prepared);
    output = type_of_output(quantized);
    const intq::Tensor expected = (*make_reference(quantized))(x).tensor(), given = lower(quantized, table, 2).run(x);
    if (!(given.shape() == expected.shape())) return "the shape " + to_string(given.shape());
    const double db = sqnr(expected, given);
    return db > (dtype == DType::int16 ? 60.0 : 25.0) ? "" : std::to_string(db) + " dB";
}

}  // namespace

TEST_CASE("Every fused sequence of every layer has a program in every position on every target") {
    int models = 0, accumulators_with_add = 0;
    for (const Layer& layer : layers) {
        const intq::Tensor x = test::random_tensor(layer.input, 7);
        for (const Sequence& sequence : sequences())
            for (const Place place : {Place::last, Place::inner, Place::read_twice}) {
                const nn::ModulePtr model = model_of(layer, sequence, place);
                for (const kernels::KernelTable* table : test::scalar_tables().tables)
                    for (const DType dtype : {DType::int8, DType::int16}) {
                        const arith::PolicyRecord& target = table->policy();
                        if (dtype == DType::int16 && std::string(target.name) == "bernoulli2") continue;
                        INFO(layer.name << (sequence.norm ? " norm" : "") << " add " << static_cast<int>(sequence.add)
                                        << " " << name_of(sequence.activation) << ", place " << static_cast<int>(place)
                                        << ", " << target.name << " " << name_of(dtype));
                        DType output = DType::none;
                        std::string wrong;
                        try {
                            wrong = convert_and_run(*model, *table, x, dtype, output);
                        } catch (const Error& error) {
                            wrong = error.what();
                        }
                        CHECK(wrong == "");
                        const bool is_accumulator = gives_accumulator(sequence, place, target, dtype);
                        CHECK(output == (is_accumulator ? DType::int32 : dtype));
                        accumulators_with_add += is_accumulator && place == Place::last && sequence.add != Add::none;
                        ++models;
                    }
            }
    }
    CHECK(models == 6 * 20 * 3 * 13);
    CHECK(accumulators_with_add == 6 * 4 * 5);  // left and right, with and without norm, on three marches of six types
}
