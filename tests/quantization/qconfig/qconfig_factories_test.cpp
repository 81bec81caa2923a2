// SPDX-License-Identifier: MIT
//
// QConfigs by name: factories, presets, dictionaries, modules' own, rules, the default march.
#include <algorithm>
#include <filesystem>

#include "intq/io/file.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/qconfig_rules.hpp"
#include "intq/quantization/prepare/set_march.hpp"
#include "intq/quantization/qconfig/qconfig_dict.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/quantization/qconfig/qconfig_presets.hpp"
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
        {"default_qconfig", average, DType::int8, 0.01f},
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
