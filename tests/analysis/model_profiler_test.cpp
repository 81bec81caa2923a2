// SPDX-License-Identifier: MIT
//
// ModelProfiler: its table against numbers by hand, its streams, its histograms and its refusals.
#include "intq/analysis/model_profiler.hpp"

#include <cmath>
#include <limits>

#include "analysis/models.hpp"
#include "intq/nn.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"
#include "support/csv.hpp"

using namespace intq;
using namespace intq::analysis;
using namespace intq::quantization;
using Catch::Matchers::Contains;
using test::message_of;
using test::text_of_file;

namespace {

/// y = [1 2; -3 0.5] x + (0.25, 0), then a relu.
nn::ModulePtr linear_relu() {
    const auto linear = std::make_shared<nn::Linear>(nn::LinearOptions{2, 2});
    linear->set_weight(Tensor::from<float>(Shape(2, 2), {1, 2, -3, 0.5f}));
    linear->set_bias(Tensor::from<float>(Shape(2), {0.25f, 0}));
    return test::make_model({{"fc", linear}},
                            [](test::LambdaModel& m, nn::Arguments x) { return nn::relu(m.call("fc", x[0])); });
}

const TensorInfo& tensor_of(const OpRunningInfoManager& infos, const std::string& mod_name, const std::string& attr) {
    for (const OpRunningInfo& info : infos.infos())
        for (const TensorInfo& tensor : info.tensors)
            if (info.op.mod_name == mod_name && tensor.attr == attr) return infos.numbers_of(tensor);
    throw Error(mod_name + " has no " + attr);
}

}  // namespace

TEST_CASE("statistic.txt has the documents' columns, and the numbers of each tensor") {
    const test::TemporaryFolder folder;
    ModelProfiler profiler(linear_relu(), folder / "profile");
    CHECK_FALSE(std::filesystem::exists(folder / "profile"));
    const nn::Value y = profiler(Tensor::from<float>(Shape(1, 2), {1, -1}));
    CHECK(y.tensor().flat<float>()[0] == 0.0f);
    // fc: 1 - 2 + 0.25 = -0.75 and -3 - 0.5 = -3.5.
    const std::string text = profiler.get_info_manager().table();
    CHECK(text ==
          "+-------+---------+----------+--------+---------+-------+------------+------------+------------+----"
          "-------+--------+\n"
          "| Index | Op Name | Mod Name | Attr   | Dtype   | Scale |        Min |        Max |       Mean |    "
          "   Var | Shape  |\n"
          "|-------+---------+----------+--------+---------+-------+------------+------------+------------+----"
          "-------+--------|\n"
          "| 0     | Linear  | fc       | input  | float32 |       | -1.0000000 |  1.0000000 |  0.0000000 | 2.0"
          "000000 | (1, 2) |\n"
          "| 0     | Linear  | fc       | weight | float32 |       | -3.0000000 |  2.0000000 |  0.1250000 | 4.7"
          "291667 | (2, 2) |\n"
          "| 0     | Linear  | fc       | bias   | float32 |       |  0.0000000 |  0.2500000 |  0.1250000 | 0.0"
          "312500 | (2)    |\n"
          "| 0     | Linear  | fc       | output | float32 |       | -3.5000000 | -0.7500000 | -2.1250000 | 3.7"
          "812500 | (1, 2) |\n"
          "| 1     | relu    | relu     | input  | float32 |       | -3.5000000 | -0.7500000 | -2.1250000 | 3.7"
          "812500 | (1, 2) |\n"
          "| 1     | relu    | relu     | output | float32 |       |  0.0000000 |  0.0000000 |  0.0000000 | 0.0"
          "000000 | (1, 2) |\n"
          "+-------+---------+----------+--------+---------+-------+------------+------------+------------+----"
          "-------+--------+\n");
    CHECK(text_of_file(folder / "profile" / "statistic.txt") == text);
    const test::CsvRows csv = test::read_csv(text_of_file(folder / "profile" / "statistic.csv"));
    REQUIRE(csv.size() == 7);
    CHECK(csv[0] == std::vector<std::string>{"Index", "Op Name", "Mod Name", "Attr", "Dtype", "Scale", "Min", "Max",
                                             "Mean", "Var", "Shape"});
    CHECK(csv[3] ==
          std::vector<std::string>{"0", "Linear", "fc", "bias", "float32", "", "0", "0.25", "0.125", "0.03125", "(2)"});
    CHECK(csv[4][10] == "(1, 2)");
    const std::string part = profiler.get_info_manager().table(folder / "other", {"fc"}, {"Linear"}, true);
    CHECK_THAT(part, Contains("| Stack") && Contains("%fc = call_module[fc] (%x)") && !Contains("relu"));
    CHECK(text_of_file(folder / "other" / "statistic.txt") == part);
}

TEST_CASE("A profile of several runs is that of all their values, and its histograms count each once") {
    const test::TemporaryFolder folder;
    ModelProfiler whole(linear_relu(), folder / "a"), parts(linear_relu(), folder / "b");
    const Tensor all = test::random_tensor(Shape(6, 2), 4);
    whole(all);
    parts(all.batch(0, 2));
    parts(all.batch(2, 4));
    for (const char* attr : {"input", "output", "weight"}) {
        INFO(attr);
        const TensorInfo &a = tensor_of(whole.get_info_manager(), "fc", attr),
                         &b = tensor_of(parts.get_info_manager(), "fc", attr);
        CHECK(a.statistics.count() == b.statistics.count());
        CHECK(a.statistics.min() == b.statistics.min());
        CHECK(std::abs(a.statistics.var() - b.statistics.var()) < 1e-12);
        CHECK(a.histogram.count() == a.statistics.count());
        const auto x = a.histogram.buckets(), y = b.histogram.buckets();
        REQUIRE(x.size() == y.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
            CHECK(x[i].count == y[i].count);
            CHECK(x[i].lowest < x[i].highest);
            if (i > 0) CHECK(x[i - 1].highest <= x[i].lowest);
        }
    }
}

TEST_CASE("A histogram's buckets hold their values") {
    ValueHistogram histogram;
    histogram.add(std::vector<float>{1.0f, 1.1f, 1.125f, -1.0f, 0.0f, 3e38f, -2e-40f,
                                     std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()});
    const auto buckets = histogram.buckets();
    REQUIRE(buckets.size() == 6);
    CHECK(histogram.count() == 7);
    CHECK(buckets[0].highest == -1.0);  // of -1.0: above -1.125
    CHECK(buckets[0].lowest == -1.125);
    CHECK(buckets[1].lowest < -2e-40);
    CHECK(buckets[2].lowest == 0.0);
    CHECK(buckets[3].lowest == 1.0);
    CHECK(buckets[3].count == 2);
    CHECK(buckets[4].lowest == 1.125);
    CHECK(buckets[5].lowest <= 3e38);
}

TEST_CASE("Prepared models, simulations and programs are profiled, with types and scales") {
    const test::TemporaryFolder folder;
    const test::ResidualNet net;
    const auto prepared = test::calibrated(net, test::residual_shape);
    const auto& table = program::best_table<target::bpu<march::bayes>>();
    const Tensor x = test::random_tensor(test::residual_shape, 5);
    ModelProfiler fake(prepared, folder / "fake"), exact(exactly_simulated(*prepared, table, 2), folder / "exact"),
        lowered(lower(convert_fx(*prepared), table, 1), folder / "program");
    for (ModelProfiler* profiler : {&fake, &exact, &lowered}) (*profiler)(x);
    for (ModelProfiler* profiler : {&fake, &exact, &lowered}) {
        const TensorInfo& output = tensor_of(profiler->get_info_manager(), "layer1.0.conv1", "output");
        CHECK(output.dtype == DType::int8);
        CHECK(output.scales == tensor_of(fake.get_info_manager(), "layer1.0.conv1", "output").scales);
        CHECK(output.statistics.count() == 2 * 8 * 12 * 12);
        CHECK(output.statistics.max() / static_cast<double>(output.scales[0]) <= 127.001);
    }
    const TensorInfo &simulated = tensor_of(exact.get_info_manager(), "layer1.1.conv2", "output"),
                     &run = tensor_of(lowered.get_info_manager(), "layer1.1.conv2", "output");
    CHECK(simulated.statistics.mean() == run.statistics.mean());
    CHECK(simulated.statistics.max() == run.statistics.max());
    const TensorInfo& weight = tensor_of(fake.get_info_manager(), "layer1.0.conv1", "weight");
    CHECK(weight.dtype == DType::int8);
    CHECK(weight.scales.size() == 8);
    CHECK_THAT(fake.get_info_manager().table(), Contains("| qint8   |") && Contains(" ... "));
}

TEST_CASE("The profiler refuses a table before a run, and names that no operator has") {
    const test::TemporaryFolder folder;
    ModelProfiler profiler(linear_relu(), folder / "profile");
    CHECK_THAT(message_of<Error>([&] { profiler.get_info_manager().table(); }), Contains("was not run"));
    profiler(Tensor::from<float>(Shape(1, 2), {1, -1}));
    CHECK_THAT(message_of<Error>([&] { profiler.get_info_manager().table({}, {"fd"}); }),
               Contains("\"fd\"") && Contains("\"fc\""));
    CHECK_THAT(message_of<Error>([&] { profiler.get_info_manager().table({}, {}, {"Conv2d"}); }), Contains("Conv2d"));
    io::write_file(folder / "file", "text");
    CHECK_THAT(message_of<Error>([&] { profiler.get_info_manager().table(folder / "file"); }), Contains("file"));
    CHECK_FALSE(std::filesystem::exists(folder / "profile"));
}
