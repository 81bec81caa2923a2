// SPDX-License-Identifier: MIT
//
// QConfigs by name: factories, presets, dictionaries, modules' own, rules, the default march.
#include <algorithm>
#include <filesystem>
#include <limits>

#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/io/file.hpp"
#include "intq/quantization/eager/prepare_eager.hpp"
#include "intq/quantization/eager/qconfig_dict.hpp"
#include "intq/quantization/modules/prepared_layers.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/quantization/prepare/qconfig_rules.hpp"
#include "intq/quantization/prepare/set_march.hpp"
#include "intq/quantization/qconfig/own_qconfig.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/quantization/qconfig/qconfig_presets.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::message_of;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string observer_of(const QuantizerConfig& config) {
    return config.make({}, Compatibility::horizon)->observer().type_name();
}
const ObserverOptions& options_of(const QuantizerConfig& config) { return config.options.observer_options; }

/// A kind that tests register.
class TestKind : public nn::Cloneable<TestKind, FakeQuantize> {
public:
    explicit TestKind(const FakeQuantizeOptions& options) : Cloneable(options) {}
    std::string type_name() const override { return "TestKind"; }
};

/// quant, block (conv, relu), head (conv), dequant.
std::shared_ptr<test::LambdaModel> make_network() {
    const auto block =
        test::make_model({{"conv", test::make_conv(2, 4, 3, 1)}, {"relu", std::make_shared<nn::ReLU>()}},
                         [](test::LambdaModel& m, nn::Arguments x) { return m.call("relu", m.call("conv", x[0])); });
    return test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                             {"block", block},
                             {"head", test::make_conv(4, 3, 1, 2)},
                             {"dequant", std::make_shared<nn::DeQuantStub>()}},
                            [](test::LambdaModel& m, nn::Arguments x) {
                                const nn::Value a = m.call("block", m.call("quant", x[0]));
                                return m.call("dequant", m.call("head", a));
                            });
}

/// Number of fallbacks to float, and the dtypes of the activations' quantizers in the order of the graph.
std::string summary(const PreparedModel& model) {
    std::string text;
    for (const auto& child : model.children())
        if (const auto* quantizer = dynamic_cast<const FakeQuantize*>(child.value.get()))
            text += std::string(text.empty() ? "" : " ") + name_of(quantizer->dtype());
    return text + " float:" + std::to_string(model.report().fallbacks.size());
}

QConfig activations(DType dtype) { return get_default_calib_qconfig(dtype, DType::int8); }

std::filesystem::path write_list(const std::string& text) {
    const auto path = std::filesystem::temp_directory_path() / "intq_sensitive_ops.txt";
    io::write_file(path, text);
    return path;
}

struct ResetMarch {
    ~ResetMarch() { quantization::detail::current_march() = 0; }
};

}  // namespace

TEST_CASE("Factories make quantizers from words and arguments") {
    const QConfig qat = get_default_qat_qconfig();
    CHECK(observer_of(*qat.output) == "MovingAverageMinMaxObserver");
    CHECK(options_of(*qat.output).averaging_constant == 0.01f);
    CHECK(observer_of(*qat.weight) == "MovingAveragePerChannelMinMaxObserver");
    CHECK((options_of(*qat.weight).averaging_constant == 1.0f && options_of(*qat.weight).ch_axis == 0));
    const QConfig out = get_default_qat_out_qconfig({.weight_dtype = DType::int16});
    CHECK((!out.output && out.weight->dtype() == DType::int16));
    const QConfig kl = get_default_calib_qconfig({.dtype = DType::int16, .activation_observer = "kl"});
    CHECK((observer_of(*kl.output) == "KLObserver" && kl.output->dtype() == DType::int16));
    CHECK(observer_of(*kl.weight) == "PerChannelMinMaxObserver");
    const QConfig changed = get_default_qat_qconfig(
        {.activation_qkwargs =
             [](FakeQuantizeOptions& o) { o.observer_options.quant_min = -8, o.observer_options.quant_max = 7; },
         .weight_qkwargs = [](FakeQuantizeOptions& o) { o.observer_options.ch_axis = 1; }});
    CHECK((options_of(*changed.output).lowest() == -8 && options_of(*changed.weight).ch_axis == 1));
    const QConfig per_tensor =
        get_default_calib_qconfig({.weight_qkwargs = [](FakeQuantizeOptions& o) { o.observer_options.ch_axis = -1; }});
    CHECK(observer_of(*per_tensor.weight) == "MinMaxObserver");
    CHECK(observer_of(*get_default_calib_qconfig({.weight_observer = "mse"}).weight) == "MSEObserver");
    CHECK(options_of(*get_default_calib_qconfig({.weight_observer = "kl"}).weight).ch_axis == -1);
    CHECK(has(message_of<Error>([] {
                  get_default_calib_qconfig(
                      {.weight_qkwargs = [](FakeQuantizeOptions& o) { o.observer_options.ch_axis = 0; },
                       .weight_observer = "kl"});
              }),
              "\"kl\" is per tensor"));
}

TEST_CASE("Kinds of fake-quantizers are an open table; an unknown name is refused with the nearest") {
    CHECK(message_of<Error>([] { get_default_qat_qconfig({.activation_fake_quant = "fake_quan"}); }) ==
          "there is no kind of fake-quantizer \"fake_quan\"; the nearest are \"fake_quant\", \"calib_fake_quant\", "
          "\"lsq\"");
    CHECK(has(message_of<Error>([] { get_default_qat_qconfig({.activation_observer = "percentil"}); }),
              "there is no observer \"percentil\"; the nearest are \"percentile\""));
    CHECK(has(message_of<Error>([] { get_default_qat_qconfig({.backend = "tpu"}); }), "\"tpu\""));
    fake_quantize_table().add({"test_kind", fake_quantize_factory<TestKind>()});
    const QConfig qconfig = get_default_qat_qconfig({.activation_fake_quant = "test_kind"});
    CHECK(qconfig.output->make({}, Compatibility::horizon)->type_name() == "TestKind");
    CHECK(qconfig.weight->make({}, Compatibility::horizon)->type_name() == "FakeQuantize");
}

TEST_CASE("Every preset of the documents is there under its name") {
    struct Expected {
        const char* name;
        const char* observer;  // of activations; empty: the accumulator is the output
        DType dtype;
        float averaging_constant;
    };
    const char* const average = "MovingAverageMinMaxObserver";
    const Expected expected[] = {
        {"default_qconfig", "MinMaxObserver", DType::int8, 0.01f},
        {"default_qat_8bit_fake_quant_qconfig", average, DType::int8, 0.01f},
        {"default_qat_8bit_fixed_act_fake_quant_qconfig", average, DType::int8, 0.0f},
        {"default_qat_8bit_weight_16bit_act_fake_quant_qconfig", average, DType::int16, 0.01f},
        {"default_qat_8bit_weight_16bit_fixed_act_fake_quant_qconfig", average, DType::int16, 0.0f},
        {"default_qat_8bit_weight_32bit_out_fake_quant_qconfig", "", DType::none, 0.0f},
        {"default_qat_out_8bit_fake_quant_qconfig", "", DType::none, 0.0f},
        {"default_qat_8bit_lsq_quant_qconfig", average, DType::int8, 0.01f},
        {"default_qat_8bit_weight_32bit_out_lsq_quant_qconfig", "", DType::none, 0.0f},
        {"default_qat_8bit_pact_quant_qconfig", average, DType::int8, 0.01f},
        {"default_calib_8bit_fake_quant_qconfig", "PercentileObserver", DType::int8, 0.01f},
        {"default_calib_8bit_weight_16bit_act_fake_quant_qconfig", "PercentileObserver", DType::int16, 0.01f},
        {"default_calib_8bit_weight_32bit_out_fake_quant_qconfig", "", DType::none, 0.0f},
        {"default_calib_out_8bit_fake_quant_qconfig", "", DType::none, 0.0f},
        {"default_symmetric_qnnpack_qconfig", "HistogramObserver", DType::int8, 0.01f},
        {"default_calib_8bit_min_max_qconfig", "MinMaxObserver", DType::int8, 0.01f},
        {"default_calib_8bit_moving_average_qconfig", average, DType::int8, 0.01f},
        {"default_calib_8bit_percentile_qconfig", "PercentileObserver", DType::int8, 0.01f},
        {"default_calib_8bit_histogram_qconfig", "HistogramObserver", DType::int8, 0.01f},
        {"default_calib_8bit_mse_qconfig", "MSEObserver", DType::int8, 0.01f},
        {"default_calib_8bit_kl_qconfig", "KLObserver", DType::int8, 0.01f},
        {"default_calib_8bit_mix_qconfig", "MixObserver", DType::int8, 0.01f},
        {"default_calib_8bit_clip_std_qconfig", "ClipStdObserver", DType::int8, 0.01f},
    };
    CHECK(qconfig_presets().rows().size() == std::size(expected));
    for (const Expected& row : expected) {
        INFO(row.name);
        const QConfig qconfig = qconfig_preset(row.name);
        CHECK(qconfig.weight->dtype() == DType::int8);
        REQUIRE(qconfig.output.has_value() == (row.dtype != DType::none));
        if (!qconfig.output) continue;
        CHECK(observer_of(*qconfig.output) == row.observer);
        CHECK(qconfig.output->dtype() == row.dtype);
        CHECK(options_of(*qconfig.output).averaging_constant == row.averaging_constant);
    }
    CHECK(has(message_of<Error>([] { qconfig_preset("default_qat_8bit_fake_qconfig"); }),
              "default_qat_8bit_fake_quant_qconfig"));
    const QConfig torch = default_symmetric_qnnpack_qconfig();
    CHECK(
        (options_of(*torch.output).scheme == arith::QuantScheme::affine && options_of(*torch.output).eps == 0x1p-12f));
    CHECK((options_of(*torch.weight).lowest() == -127 && options_of(*torch.weight).ch_axis == -1));
}

TEST_CASE("A qconfig_dict is a mapping: global below module type below module name; none switches off") {
    const auto network = make_network();
    const auto prepared = [&](const QConfigDict& dict) {
        return summary(*prepare_calibration_fx(*network, dict.mapping(), march::bayes::policy));
    };
    CHECK(prepared({.global = activations(DType::int8)}) == "int8 int8 float:0");
    CHECK(prepared({.global = activations(DType::int8), .module_type = {{"ReLU", activations(DType::int16)}}}) ==
          "int8 int16 float:0");
    // The name stands above the type, which then decides nothing in this network.
    CHECK(
        has(message_of<Error>([&] {
                prepared({.global = activations(DType::int8),
                          .module_type = {{"ReLU", activations(DType::int16)}},
                          .module_name = {{"block", activations(DType::int8)}}});
            }),
            "the object type \"ReLU\" changes nothing. It matches block.relu (ReLU), whose quantizers the module name "
            "\"block\" decides"));
    CHECK(prepared({.global = activations(DType::int8), .module_name = {{"head", std::nullopt}}}) ==
          "int8 int8 float:1");
    CHECK(has(message_of<Error>([&] {
                  prepared({.global = activations(DType::int8), .module_name = {{"blok", std::nullopt}}});
              }),
              "the module name \"blok\"; the nearest are \"block\""));
    CHECK(has(message_of<Error>([&] {
                  prepared({.global = activations(DType::int8), .module_type = {{"Conv3d", std::nullopt}}});
              }),
              "the object type \"Conv3d\""));
}

TEST_CASE("A module's own qconfig stands above the mapping, for it and all below; a longer name stands above it") {
    const auto network = make_network();
    const auto prepared = [&](const QConfigMapping& mapping) {
        return summary(*prepare_calibration_fx(*network, mapping, march::bayes::policy));
    };
    QConfigMapping mapping;
    mapping.set_global(activations(DType::int8));
    set_qconfig(network->find("block"), activations(DType::int16));
    CHECK(prepared(mapping) == "int8 int16 float:0");
    CHECK(has(
        message_of<Error>(
            [&] { prepared(QConfigMapping(mapping).set_module_name("block", activations(DType::int8))); }),
        "the module name \"block\" changes nothing. It matches block.conv (Conv2d), whose quantizers the module's own "
        "qconfig decides"));
    CHECK(prepared(QConfigMapping(mapping).set_module_name("block.relu", activations(DType::int8))) ==
          "int8 int8 float:0");
    set_qconfig(network->find("block.relu"), activations(DType::int16));
    CHECK(prepared(mapping) == "int8 int16 float:0");
    set_qconfig(network->find("head"), std::nullopt);
    CHECK(prepared(mapping) == "int8 int16 float:1");
    // The model's own is the global one; a clone carries what its modules carry.
    set_qconfig(*network, activations(DType::int16));
    const auto copy = nn::clone(network);
    CHECK(summary(*prepare_calibration_fx(*copy, QConfigMapping(), march::bayes::policy)) == "int16 int16 float:1");
    CHECK(own_qconfig(copy->find("head")) != nullptr);
    CHECK(own_qconfig(copy->find("dequant")) == nullptr);
    QConfigMapping direct;
    direct.set_module_name("a.b", activations(DType::int8)).set_own("a", activations(DType::int16));
    CHECK(direct.find({"a.c", "Conv2d", ""}).level == QConfigLevel::own);
    CHECK(direct.find({"a.b", "Conv2d", ""}).level == QConfigLevel::module_name);
    CHECK(direct.find({"ab", "Conv2d", ""}).level == QConfigLevel::none);
}

TEST_CASE("A high-precision output is asked for where a layer feeds DeQuantStubs only") {
    const auto network = make_network();
    QConfigMapping mapping;
    mapping.set_global(activations(DType::int8));
    CHECK(set_high_precision_output(mapping, *network, get_default_calib_out_qconfig()) ==
          std::vector<std::string>{"head"});
    PrepareOptions options;
    options.high_precision_output = false;
    const auto with = prepare_calibration_fx(*network, mapping, march::bayes::policy, options);
    const auto without = prepare_calibration_fx(*network, QConfigMapping().set_global(activations(DType::int8)),
                                                march::bayes::policy, options);
    CHECK(summary(*with) == "int8 int8 float:0");
    CHECK(summary(*without) == "int8 int8 int8 float:0");
    CHECK_THROWS_AS(set_high_precision_output(mapping, *network, activations(DType::int8)), Error);
}

TEST_CASE("Sensitive operators of a list get int16, by number or by ratio") {
    const auto list = read_sensitivity_list(
        write_list("op_name     sensitive_type  op_type  L1\n----------  --------------  -------  ----\n"
                   "block.conv  both            Conv2d   0.5\nhead        weight          Conv2d   2e-1\n\nquant "
                   "activation QuantStub 0.01\r\n"));
    REQUIRE(list.size() == 3);
    CHECK((list[1].op_name == "head" && list[1].sensitive_type == "weight" && list[1].metric == 0.2));
    const auto set = [&](const SensitiveRule& rule) {
        QConfigMapping mapping;
        mapping.set_global(activations(DType::int8));
        const auto names = set_sensitive_operators(mapping, list, rule);
        std::string text;
        for (const auto& name : names) {
            const QConfigChoice choice = mapping.find({name, "Conv2d", ""});
            text += name + ":" + name_of(choice.qconfig->output->dtype()) + "/" +
                    name_of(choice.qconfig->weight->dtype()) + " ";
        }
        return text;
    };
    CHECK(set({.top_k = 1}) == "block.conv:int16/int8 ");
    CHECK(set({.top_k = 2}) == "block.conv:int16/int8 ");  // head's weight is not to be changed
    CHECK(set({.top_k = 2, .int16_weights = true}) == "block.conv:int16/int16 head:int8/int16 ");
    CHECK(set({.ratio = 0.34}) == "block.conv:int16/int8 ");
    CHECK(set({.ratio = 1.0}) == "block.conv:int16/int8 quant:int16/int8 ");
    CHECK(set({.top_k = 99}) == "block.conv:int16/int8 quant:int16/int8 ");
    CHECK_THROWS_AS(set({}), Error);
    CHECK_THROWS_AS(set({.top_k = 1, .ratio = 0.5}), Error);
    CHECK_THROWS_AS(set({.ratio = 1.5}), Error);
    CHECK_THROWS_AS(set({.ratio = std::numeric_limits<double>::quiet_NaN()}), Error);
    const std::vector<SensitiveOperator> weird{{"conv", "weird", "Conv2d", 1.0}};
    QConfigMapping untouched;
    CHECK(message_of<Error>([&] { set_sensitive_operators(untouched, weird, {.top_k = 1}); }) ==
          "set_sensitive_operators: the sensitive_type of conv must be activation, weight or both, given \"weird\"");
    // What has no quantizer of its own is passed over, so that prepare takes the mapping.
    std::vector<SensitiveOperator> kept;
    for (const char* type : {"MaxPool2d", "max_pool2d", "Flatten", "permute", "Upsample", "Identity"})
        kept.push_back({std::string("has_none_") + type, "activation", type, 1.0});
    for (const char* type : {"ReLU", "AvgPool2d", "Conv2d", "add", "another"})
        kept.push_back({type, "activation", type, 1.0});
    CHECK(set_sensitive_operators(untouched, kept, {.ratio = 1.0}) ==
          std::vector<std::string>{"ReLU", "AvgPool2d", "Conv2d", "add", "another"});
    const auto refusal = [](const std::string& text) {
        return message_of<Error>([&] { read_sensitivity_list(write_list(text)); });
    };
    CHECK(has(refusal("a both Conv2d"), "intq_sensitive_ops.txt:1: expected op_name"));
    CHECK(has(refusal("\na neither Conv2d 1"), ":2: the sensitive_type"));
    CHECK(has(refusal("a both Conv2d 1x"), "must be a number"));
    CHECK(has(refusal("a both Conv2d nan"), "must be a number"));
    CHECK(has(refusal("a both Conv2d 1 2"), "expected op_name"));
}

TEST_CASE("set_march names the target where none is given, and a given one stands above it") {
    const ResetMarch reset;
    const auto network = make_network();
    const auto mapping = QConfigMapping().set_global(activations(DType::int8));
    CHECK(has(message_of<Error>([&] { prepare_calibration_fx(*network, mapping); }), "no march is set"));
    for (const auto& [march, name] :
         {std::pair{March::bernoulli2, "bernoulli2"}, {March::bayes, "bayes"}, {March::meta, "meta"}}) {
        set_march(march);
        CHECK(get_march() == march);
        CHECK(prepare_calibration_fx(*network, mapping)->target().name == std::string(name));
        CHECK(prepare_calibration_fx(*network, mapping, march::bayes::policy)->target().name == std::string("bayes"));
        set_march(name);
        CHECK(get_march() == march);
    }
    CHECK(has(message_of<Error>([] { set_march("baies"); }), "there is no march \"baies\"; the nearest are \"bayes\""));
    // bernoulli2 has no int16: what a march refuses is refused by default too.
    set_march(March::bernoulli2);
    CHECK_THROWS_AS(prepare_calibration_fx(*network, QConfigMapping().set_global(activations(DType::int16))), Error);
    set_qconfig(*network, activations(DType::int8));
    CHECK(summary(*prepare_calibration_fx(*network)) == "int8 int8 float:0");
}

namespace {

constexpr arith::PolicyRecord fp32 = target::fp32::policy, tflite = target::tflite<>::policy,
                              bayes = target::bpu<march::bayes>::policy;

/// The schemes of the quantizers of values, in the order of the graph.
std::string schemes_of(nn::Module& model) {
    std::string text;
    for (const auto& module : model.named_modules())
        if (const auto* quantizer = dynamic_cast<const FakeQuantize*>(module.value))
            if (module.name.find("weight_fake_quant") == std::string::npos)
                text += quantizer->options().observer_options.scheme == arith::QuantScheme::affine ? "a" : "s";
    return text;
}

const FakeQuantize& weight_quantizer(nn::Module& model, const std::string& layer) {
    return dynamic_cast<const PreparedWeight&>(model.find(layer)).weight_fake_quant();
}

OwnedQParams weight_qparams(nn::Module& model, const std::string& layer) {
    return dynamic_cast<const PreparedWeight&>(model.find(layer)).weight_qparams();
}

/// quant, a depthwise layer of one weight a channel, dequant.
nn::ModulePtr make_scaling() {
    auto scaling = std::make_shared<nn::Conv2d>(nn::Conv2dOptions{4, 4, nn::square_window(1), 4, false});
    scaling->set_weight(intq::Tensor::from<float>(Shape(4, 1, 1, 1), {0.7f, -1.3f, 2.9f, 0.011f}));
    return test::stubbed({{"scaling", scaling}},
                         [](test::LambdaModel& m, nn::Arguments x) { return m.call("scaling", x[0]); });
}

}  // namespace

TEST_CASE("A target's default activations are affine where it has zero points, and int16 and bpu stay symmetric") {
    const auto scheme = [](const arith::PolicyRecord& target, DType dtype) {
        return options_of(*get_default_qconfig(target, dtype).output).scheme;
    };
    for (const arith::PolicyRecord* target : {&fp32, &tflite, &target::tflite<arith::single_rounding>::policy}) {
        CHECK(scheme(*target, DType::int8) == arith::QuantScheme::affine);
        CHECK(scheme(*target, DType::int16) == arith::QuantScheme::symmetric);
        CHECK(options_of(*get_default_qat_qconfig(*target).output).scheme == arith::QuantScheme::affine);
    }
    CHECK(scheme(bayes, DType::int8) == arith::QuantScheme::symmetric);
    for (const arith::PolicyRecord* target : {&fp32, &bayes}) {
        const QConfig calibrated = get_default_qconfig(*target, DType::int8, DType::int16);
        CHECK(options_of(*calibrated.weight).dtype == DType::int16);
        CHECK(observer_of(*calibrated.output) == "MovingAverageMinMaxObserver");
        CHECK(observer_of(*calibrated.weight) == "PerChannelMinMaxObserver");
        CHECK(observer_of(*get_default_qat_qconfig(*target).weight) == "MovingAveragePerChannelMinMaxObserver");
    }
    // The documents' factories and presets are symmetric, whatever the target.
    for (const auto& row : qconfig_presets().rows()) {
        const QConfig preset = row.make();
        if (row.name == "default_symmetric_qnnpack_qconfig" || !preset.output) continue;
        INFO(row.name);
        CHECK(options_of(*preset.output).scheme == arith::QuantScheme::symmetric);
    }
    CHECK(options_of(*get_default_calib_qconfig().output).scheme == arith::QuantScheme::symmetric);
}

TEST_CASE("Prepare without a mapping takes the target's, unless modules carry their own qconfigs") {
    const auto network = make_network();
    const auto eager = [&](const arith::PolicyRecord& target) { return prepare_calibration(network, target); };
    CHECK(schemes_of(*prepare_calibration_fx(*network, fp32)) == "aa");
    CHECK(schemes_of(*prepare_calibration_fx(*network, tflite)) == "aa");
    CHECK(schemes_of(*prepare_calibration_fx(*network, bayes)) == "ss");
    CHECK(schemes_of(*prepare_qat_fx(*network, fp32)) == "aa");
    CHECK(schemes_of(*eager(fp32)) ==
          schemes_of(*prepare_calibration(network, get_default_qconfig_mapping(fp32), fp32)));
    CHECK(has(schemes_of(*eager(fp32)), "a"));
    CHECK(has(schemes_of(*prepare_qat(network, fp32)), "a"));
    CHECK(observer_of(*get_default_qat_qconfig(fp32).weight) ==
          weight_quantizer(*prepare_qat_fx(*network, fp32), "block.conv").observer().type_name());
    const ResetMarch reset;
    set_march(March::bayes);
    CHECK(schemes_of(*prepare_calibration_fx(*network)) == "ss");
    set_qconfig(*network->child("quant"), get_default_calib_qconfig());
    set_qconfig(*network->child("block"), get_default_calib_qconfig());
    const auto own = prepare_calibration_fx(*network, fp32);
    CHECK(schemes_of(*own) == "ss");
    REQUIRE(own->report().fallbacks.size() == 1);
    CHECK(own->report().fallbacks[0].node == "head");
}

TEST_CASE("Weight codes that a qconfig leaves open are those of the target's scheme") {
    const auto network = make_network();
    const auto largest = [&](std::size_t channel) {
        const auto weights = std::as_const(*network->child("head")).tensor("weight").flat<float>();
        float result = 0.0f;
        for (const float w : weights.subspan(channel * 4, 4)) result = std::max(result, std::abs(w));
        return result;
    };
    const auto check = [&](const OwnedQParams& found, std::int64_t lowest, float divisor) {
        CHECK(found.quant_min == lowest);
        CHECK(found.quant_max == 127);
        for (std::size_t c = 0; c < 3; ++c) CHECK(found.scales[c] == largest(c) / divisor);
    };
    PrepareOptions torch;
    torch.compatibility = Compatibility::torch;
    for (const auto& mapping : {get_default_qconfig_mapping(), get_default_qconfig_mapping(fp32)}) {
        check(weight_qparams(*prepare_calibration_fx(*network, mapping, fp32), "head"), -127, 127.0f);
        check(weight_qparams(*prepare_calibration_fx(*network, mapping, tflite), "head"), -127, 127.0f);
        check(weight_qparams(*prepare_qat_fx(*network, mapping, tflite), "head"), -127, 127.0f);
        check(weight_qparams(*prepare_calibration_fx(*network, mapping, fp32, torch), "head"), -128, 127.5f);
        check(weight_qparams(*prepare_calibration(network, mapping, fp32), "head"), -127, 127.0f);
    }
    check(weight_qparams(*prepare_calibration_fx(*network, bayes), "head"), -128, 127.5f);
    // What a qconfig gives stays.
    QConfig given = get_default_calib_qconfig();
    given.weight->options.observer_options.quant_min = -128;
    given.weight->options.observer_options.quant_max = 127;
    check(weight_qparams(*prepare_calibration_fx(*network, QConfigMapping().set_global(given), fp32), "head"), -128,
          127.5f);
}

TEST_CASE("A channel of one weight keeps it where the codes are narrow") {
    const auto scaling = make_scaling();
    const auto weights = std::as_const(*scaling->child("scaling")).tensor("weight").flat<float>();
    for (const arith::PolicyRecord* target : {&fp32, &tflite, &bayes}) {
        INFO(target->name);
        const auto prepared = prepare_calibration_fx(*scaling, *target);
        const OwnedQParams grid = weight_qparams(*prepared, "scaling");
        const intq::Tensor rounded =
            fake_quantize(std::as_const(*scaling->child("scaling")).tensor("weight"), grid, target->quantize);
        double worst = 0.0;
        for (std::size_t c = 0; c < 4; ++c)
            worst = std::max(worst, std::abs(static_cast<double>(std::as_const(rounded).flat<float>()[c]) /
                                                 static_cast<double>(weights[c]) -
                                             1.0));
        if (target == &bayes)
            CHECK((worst > 0.003 && worst < 0.004));
        else
            CHECK(worst < 1.5e-7);  // an ULP of the scale
    }
}

TEST_CASE("Symmetric int16 activations of fp32 and tflite have 32767 steps to a side, those of bpu 32767.5") {
    const auto network = make_network();
    for (const auto& [target, divisor] : {std::pair{&fp32, 32767.0f}, {&tflite, 32767.0f}, {&bayes, 32767.5f}}) {
        INFO(target->name);
        const auto prepared =
            prepare_calibration_fx(*network, get_default_qconfig_mapping(*target, DType::int16), *target);
        (*prepared)(intq::Tensor::full(Shape(1, 2, 3, 3), 1.7f));
        const auto& quantizer = dynamic_cast<const FakeQuantize&>(*prepared->child("activation_post_process_0"));
        CHECK(quantizer.qparams().scale() == 1.7f / divisor);
        CHECK(quantizer.qparams().quant_min == -32768);
        CHECK(quantizer.qparams().quant_max == 32767);
        CHECK(quantizer.qparams().zero_points.empty());
    }
    QConfig affine = get_default_calib_qconfig(DType::int16);
    affine.output->options.observer_options.scheme = arith::QuantScheme::affine;
    CHECK(has(message_of<Error>([&] { prepare_calibration_fx(*network, QConfigMapping().set_global(affine), fp32); }),
              "int16 codes have no zero point; use a symmetric scheme"));
}
