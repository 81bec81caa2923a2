// SPDX-License-Identifier: MIT
//
// The mixed choice of int8 and int16 against all assignments, and its journal against interruptions and enemies.
#include "intq/improve/mixed_precision.hpp"
#include "intq/improve/internal/knapsack.hpp"
#include "intq/io/file.hpp"

#include <sys/resource.h>

#include <csignal>
#include <random>

#include "intq/graph/operators.hpp"
#include "intq/improve/measurement_journal.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::improve;
using Catch::Matchers::Contains;
using test::message_of;

namespace {

/// A whole number from `low` to `high`.
double whole(std::mt19937& random, int low, int high) {
    return static_cast<double>(low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1)));
}

std::vector<KnapsackItem> draw_items(std::mt19937& random, std::size_t count, int kind) {
    std::vector<KnapsackItem> items;
    for (std::size_t i = 0; i < count; ++i) {
        const double weight = whole(random, 1, kind == 0 ? 9 : 1000);
        const double value = kind == 1 ? weight + 10.0 : kind == 2 ? weight : whole(random, 1, kind == 0 ? 9 : 1000);
        items.push_back({weight, value});
    }
    return items;
}

double sum_of(std::span<const KnapsackItem> items, const std::vector<bool>& chosen, double KnapsackItem::*part) {
    double sum = 0;
    for (std::size_t i = 0; i < items.size(); ++i)
        if (chosen[i]) sum += items[i].*part;
    return sum;
}

/// The largest value by trying every choice.
double best_by_trial(std::span<const KnapsackItem> items, double capacity) {
    double best = 0;
    for (std::uint32_t bits = 0; bits < (1u << items.size()); ++bits) {
        double weight = 0, value = 0;
        for (std::size_t i = 0; i < items.size(); ++i)
            if ((bits >> i & 1) != 0) weight += items[i].weight, value += items[i].value;
        if (weight <= capacity) best = std::max(best, value);
    }
    return best;
}

/// The largest value for whole weights, by a table over the capacities.
double best_by_table(std::span<const KnapsackItem> items, std::size_t capacity) {
    std::vector<double> best(capacity + 1);
    for (const KnapsackItem& item : items)
        for (std::size_t c = capacity; c >= static_cast<std::size_t>(item.weight); --c)
            best[c] = std::max(best[c], best[c - static_cast<std::size_t>(item.weight)] + item.value);
    return best[capacity];
}

const std::vector<std::string> three_layers{"stem", "layer1.0.conv1", "a name with spaces"};

TypeCost cost_of(const std::string& layer, DType dtype) {
    const double at = static_cast<double>(layer.size());
    return dtype == DType::int8 ? TypeCost{0.1 * at, 1e-3 / at} : TypeCost{1e-3 * at, 2.7e-3 / at};
}

std::string text_of(const std::filesystem::path& path) {
    const auto bytes = io::read_file(path);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_CASE("solve_knapsack finds what trying every choice finds") {
    std::mt19937 random(1);
    int full = 0;
    for (int i = 0; i < 400; ++i) {
        const auto items = draw_items(random, random() % 13, i % 4);
        double all = 0;
        for (const KnapsackItem& item : items) all += item.weight;
        const double capacity = std::floor(all * whole(random, 0, 110) / 100.0);
        const auto chosen = solve_knapsack(items, capacity);
        REQUIRE(chosen.size() == items.size());
        INFO("instance " << i);
        CHECK(sum_of(items, chosen, &KnapsackItem::weight) <= capacity);
        CHECK(sum_of(items, chosen, &KnapsackItem::value) == best_by_trial(items, capacity));
        full += capacity < all;
    }
    CHECK(full > 200);
}

TEST_CASE("solve_knapsack is exact for as many layers as networks have") {
    std::mt19937 random(2);
    for (int kind = 0; kind < 4; ++kind)
        for (const std::size_t count : {60u, 200u}) {
            const auto items = draw_items(random, count, kind);
            double all = 0;
            for (const KnapsackItem& item : items) all += item.weight;
            const auto capacity = static_cast<std::size_t>(all * 0.4);
            const auto chosen = solve_knapsack(items, static_cast<double>(capacity));
            INFO("kind " << kind << ", " << count << " items");
            CHECK(sum_of(items, chosen, &KnapsackItem::weight) <= static_cast<double>(capacity));
            CHECK(sum_of(items, chosen, &KnapsackItem::value) == best_by_table(items, capacity));
        }
    CHECK_THROWS_AS(solve_knapsack(std::vector<KnapsackItem>{{0.0, 1.0}}, 1.0), Error);
    CHECK_THROWS_AS(solve_knapsack(std::vector<KnapsackItem>{{1.0, -1.0}}, 1.0), Error);
    CHECK_THROWS_AS(solve_knapsack({}, std::nan("")), Error);
}

TEST_CASE("The assignment is the best of all, within a time and within a loss; a budget that none meets is an error") {
    std::mt19937 random(3);
    int refused = 0, mixed = 0;
    for (int i = 0; i < 300; ++i) {
        std::vector<LayerCosts> costs;
        for (std::size_t k = 0, count = 1 + random() % 8; k < count; ++k)
            costs.push_back({"layer" + std::to_string(k),
                             {whole(random, 0, 40), whole(random, 1, 20)},
                             {whole(random, -2, 12), whole(random, 1, 40)}});
        const bool by_time = i % 2 == 0;
        const auto limited = by_time ? &TypeCost::seconds : &TypeCost::loss;
        const auto wanted = by_time ? &TypeCost::loss : &TypeCost::seconds;
        const double budget = whole(random, 0, static_cast<int>(costs.size()) * 25);
        std::optional<double> best;
        for (std::uint32_t bits = 0; bits < (1u << costs.size()); ++bits) {
            double spent = 0, left = 0;
            for (std::size_t k = 0; k < costs.size(); ++k) {
                const TypeCost& cost = (bits >> k & 1) != 0 ? costs[k].int16 : costs[k].int8;
                spent += cost.*limited, left += cost.*wanted;
            }
            if (spent <= budget && (!best || left < *best)) best = left;
        }
        INFO("instance " << i);
        const auto choose = [&] {
            return by_time ? choose_within_seconds(costs, budget) : choose_within_loss(costs, budget);
        };
        if (!best) {
            ++refused;
            CHECK_THAT(message_of<Error>(choose), Contains("no assignment") && Contains("the least is"));
            continue;
        }
        const MixedPrecision found = choose();
        CHECK((by_time ? found.seconds : found.loss) <= budget);
        CHECK((by_time ? found.loss : found.seconds) == *best);
        double loss = 0;
        for (const LayerCosts& layer : costs)
            loss +=
                (std::count(found.int16.begin(), found.int16.end(), layer.layer) == 1 ? layer.int16 : layer.int8).loss;
        CHECK(loss == found.loss);
        mixed += !found.int16.empty() && found.int16.size() < costs.size();
    }
    CHECK(refused > 20);
    CHECK(mixed > 100);
}

TEST_CASE("A budget that is the sum of the costs is met though sums of decimals round") {
    const std::vector<LayerCosts> costs{{"a", {1.0, 0.1}, {0.0, 0.4}}, {"b", {1.0, 0.2}, {0.0, 0.5}}};
    CHECK(choose_within_seconds(costs, 0.3).int16.empty());  // 0.1 + 0.2 > 0.3
    CHECK(choose_within_seconds(costs, 0.6).int16.size() == 1);
    CHECK(choose_within_seconds(costs, 0.9).int16 == std::vector<std::string>{"a", "b"});
    CHECK_THROWS_AS(choose_within_seconds(costs, 0.2999), Error);
    CHECK_THAT(message_of<Error>([&] { choose_within_loss(costs, -0.5); }), Contains("the least is 0"));
    CHECK_THROWS_AS(choose_within_loss(costs, std::nan("")), Error);
    CHECK_THAT(message_of<Error>([&] { choose_within_loss(std::vector{costs[0], costs[0]}, 9.0); }), Contains("twice"));
    CHECK_THROWS_AS(choose_within_loss(std::vector<LayerCosts>{{"a", {1.0, -0.1}, {}}}, 9.0), Error);
}

TEST_CASE("Costs come from a sensitivity list and times, or from a file") {
    const std::vector<quantization::SensitiveOperator> list{
        {"b", "activation", "Conv2d", 0.5}, {"a", "weight", "Conv2d", 0.25}, {"a", "both", "Conv2d", 0.75}};
    const std::vector<LayerTimes> times{{"a", 0.1, 0.2}, {"b", 0.3, 0.4}};
    const auto costs = layer_costs(list, times);
    REQUIRE(costs.size() == 2);
    CHECK(costs[0].int8 == TypeCost{0.75, 0.1});
    CHECK(costs[1].int8 == TypeCost{0.5, 0.3});
    CHECK(costs[1].int16 == TypeCost{0.0, 0.4});
    CHECK_THAT(message_of<Error>([&] { layer_costs(std::span(list).first(1), times); }), Contains("a: "));
    CHECK_THAT(message_of<Error>([&] { layer_costs(list, std::span(times).first(1)); }), Contains("b: "));

    const test::TemporaryFolder folder;
    io::write_file(folder / "costs", "# layer\n\na 0.75 0 0.1 0.2\r\nlayer1.b\t0.5 0 3e-1 0.4");
    const auto read = read_layer_costs(folder / "costs");
    REQUIRE(read.size() == 2);
    CHECK(read[0].int8 == costs[0].int8);
    CHECK(read[1].layer == "layer1.b");
    CHECK(read[1].int16 == costs[1].int16);
    // What is written is read to the bit.
    const std::vector<LayerCosts> exact{{"x", {1.0 / 3.0, 1e-9}, {0.0, 2e-9}}, {"y.z", {-0.1, 5.0}, {1e300, 7.0}}};
    write_layer_costs(folder / "written", exact);
    const auto again = read_layer_costs(folder / "written");
    REQUIRE(again.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
        CHECK(again[i].layer == exact[i].layer);
        CHECK(again[i].int8 == exact[i].int8);
        CHECK(again[i].int16 == exact[i].int16);
    }
    for (const char* name : {"", "a b", "#a"})
        CHECK_THAT(message_of<Error>([&] {
                       write_layer_costs(folder / "none", std::vector<LayerCosts>{{name, {}, {}}});
                   }),
                   Contains("is no name"));
    for (const char* line : {"a 1 2 3", "a 1 2 3 4 5", "a 1 2 3 four", "a 1 2 3 nan", "a 1 2 3 1e999", "a 1 2 3 4x"}) {
        io::write_file(folder / "bad", std::string("b 1 2 3 4\n") + line + "\n");
        CHECK_THAT(message_of<Error>([&] { read_layer_costs(folder / "bad"); }), Contains("bad:2: expected"));
    }
}

TEST_CASE("The chosen layers are prepared in int16, fused ones too") {
    const auto model = test::stubbed(
        {{"a", test::make_conv(3, 4, 3, 1)}, {"b", test::make_conv(4, 4, 3, 2)}, {"c", test::make_conv(4, 4, 1, 3)}},
        [](test::LambdaModel& m, nn::Arguments x) {
            return m.call("c", nn::relu(m.call("b", nn::relu(m.call("a", x[0])))));
        });
    quantization::QConfigMapping mapping = quantization::get_default_qconfig_mapping();
    set_mixed_precision(
        mapping, choose_within_seconds(
                     std::vector<LayerCosts>{{"a", {1.0, 1.0}, {0.0, 2.0}}, {"b", {5.0, 1.0}, {0.0, 2.0}}}, 3.0));
    const auto prepared = quantization::prepare_calibration_fx(*model, mapping, march::bayes::policy);
    std::map<std::string, DType> types;
    for (const graph::Node* node : prepared->graph().nodes())
        if (const auto* quantizer = dynamic_cast<quantization::Quantizer*>(graph::module_of(*node, *prepared)))
            types[node->inputs()[0]->name()] = quantizer->dtype();
    CHECK(types.at("a") == DType::int8);
    CHECK(types.at("b") == DType::int16);
}

TEST_CASE("An interrupted search goes on: nothing is measured twice, and the costs are those of one run") {
    const test::TemporaryFolder folder;
    std::vector<LayerCosts> whole_run = measure_layers(three_layers, cost_of, folder / "whole");
    for (int stop = 0; stop <= 6; ++stop) {
        const auto path = folder / ("journal" + std::to_string(stop));
        int calls = 0;
        const auto measure = [&](const std::string& layer, DType dtype) {
            if (calls++ == stop) throw std::runtime_error("the power went");
            return cost_of(layer, dtype);
        };
        if (stop < 6)
            CHECK_THROWS_AS(measure_layers(three_layers, measure, path), std::runtime_error);
        else
            measure_layers(three_layers, measure, path);
        calls = 100;
        const auto costs = measure_layers(three_layers, measure, path);
        CHECK(calls == 100 + 6 - stop);
        for (std::size_t i = 0; i < 3; ++i) {
            CHECK(costs[i].int8 == whole_run[i].int8);
            CHECK(costs[i].int16 == whole_run[i].int16);
        }
        CHECK(text_of(path) == text_of(folder / "whole"));
    }
}

TEST_CASE("A journal that was cut anywhere says so, and ends as if it had not been") {
    const test::TemporaryFolder folder;
    measure_layers(three_layers, cost_of, folder / "whole");
    const std::string whole_text = text_of(folder / "whole");
    int torn = 0;
    for (std::size_t length = 0; length <= whole_text.size(); ++length) {
        io::write_file(folder / "cut", whole_text.substr(0, length));
        const MeasurementJournal journal(folder / "cut", three_layers);
        const bool is_whole_line = length > 0 && whole_text[length - 1] == '\n';
        const auto lines =
            std::count(whole_text.begin(), whole_text.begin() + static_cast<std::ptrdiff_t>(length), '\n');
        INFO("cut at " << length);
        CHECK(journal.torn() != is_whole_line);
        CHECK(static_cast<std::ptrdiff_t>(journal.size()) == std::max<std::ptrdiff_t>(lines - 1, 0));
        torn += journal.torn();
        measure_layers(three_layers, cost_of, folder / "cut");
        CHECK(text_of(folder / "cut") == whole_text);
    }
    CHECK(torn > 200);
}

TEST_CASE("A measurement that could not be written whole leaves the journal as it was, and can be added again") {
    const test::TemporaryFolder folder;
    MeasurementJournal journal(folder / "journal", three_layers);
    journal.add(three_layers[0], DType::int8, cost_of(three_layers[0], DType::int8));
    const std::string before = text_of(folder / "journal");
    const auto add_next = [&] { journal.add(three_layers[1], DType::int8, cost_of(three_layers[1], DType::int8)); };
    // A limit of the file size makes the write fail in the middle, as a full disk does.
    rlimit former{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &former) == 0);
    auto* const former_handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{static_cast<rlim_t>(before.size() + 5), former.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    const std::string message = message_of<Error>(add_next);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &former) == 0);
    std::signal(SIGXFSZ, former_handler);
    CHECK_THAT(message, Contains("journal") && Contains("cannot be written"));
    CHECK(text_of(folder / "journal") == before);
    CHECK_FALSE(journal.find(three_layers[1], DType::int8).has_value());
    add_next();
    const MeasurementJournal again(folder / "journal", three_layers);
    CHECK(again.size() == 2);
    CHECK_FALSE(again.torn());
}

TEST_CASE("A byte that was changed anywhere in a journal is an error, which names the line, and never another cost") {
    const test::TemporaryFolder folder;
    measure_layers(three_layers, cost_of, folder / "whole");
    const std::string whole_text = text_of(folder / "whole");
    int refused = 0;
    for (std::size_t at = 0; at < whole_text.size(); ++at)
        for (const char byte : {'\0', '\n', ' ', '0', '9', '-', 'n', '\x7f', '\xff'}) {
            std::string text = whole_text;
            if (text[at] == byte) continue;
            text[at] = byte;
            io::write_file(folder / "changed", text);
            try {
                const MeasurementJournal journal(folder / "changed", three_layers);
                INFO("byte " << at << " is " << static_cast<int>(byte));
                CHECK(at + 1 == text.size());  // the end of the last line: it is torn
                CHECK(journal.torn());
                for (const std::string& layer : three_layers)
                    for (const DType dtype : {DType::int8, DType::int16})
                        if (const auto cost = journal.find(layer, dtype)) CHECK(*cost == cost_of(layer, dtype));
            } catch (const Error& error) {
                ++refused;
                REQUIRE_THAT(error.what(), Contains("changed:"));
                REQUIRE(text_of(folder / "changed") == text);
            }
        }
    CHECK(refused > 2000);
}

TEST_CASE("A journal of right checksums and wrong content is refused too") {
    const test::TemporaryFolder folder;
    const auto journal_with = [&](const std::vector<std::pair<std::string, std::string>>& lines) {
        measure_layers({}, cost_of, folder / "none");
        { const MeasurementJournal begun(folder / "enemy", three_layers); }
        std::string text = text_of(folder / "enemy");
        std::filesystem::remove(folder / "enemy");
        for (const auto& [numbers, layer] : lines)
            text += numbers + " " + improve::text_checksum(numbers + " " + layer) + " " + layer + "\n";
        io::write_file(folder / "enemy", text);
        const std::string message = message_of<Error>([&] { MeasurementJournal(folder / "enemy", three_layers); });
        std::filesystem::remove(folder / "enemy");
        return message;
    };
    CHECK(journal_with({{"int8 1 2", "stem"}, {"int16 -1 0", "stem"}}) == "nothing was thrown");
    CHECK_THAT(journal_with({{"int8 1 2", "stem"}, {"int8 1 2", "stem"}}), Contains("enemy:3") && Contains("before"));
    CHECK_THAT(journal_with({{"int8 1 2", "stern"}}), Contains("enemy:2") && Contains("not in the list"));
    for (const char* numbers : {"int4 1 2", "int8 inf 2", "int8 1 nan", "int8 1 -2", "int8 1e999 2", "int8 0x1 2",
                                "int8 1", "int8 1 2 3", "", "int8  1 2", "int32 1 2"})
        CHECK_THAT(journal_with({{numbers, "stem"}}), Contains("enemy:2"));
    CHECK_THAT(journal_with({{std::string(100000, '9'), "stem"}}), Contains("enemy:2"));

    measure_layers(three_layers, cost_of, folder / "journal");
    const std::vector<std::string> others{"stem", "head"}, twice{"a", "a"}, control{"a\nint8 1 2"};
    CHECK_THAT(message_of<Error>([&] { measure_layers(others, cost_of, folder / "journal"); }),
               Contains("not a journal of these layers"));
    CHECK_THROWS_AS(measure_layers(twice, cost_of, folder / "new"), Error);
    CHECK_THROWS_AS(measure_layers(control, cost_of, folder / "new"), Error);
    const auto infinite = [](const std::string&, DType) { return TypeCost{HUGE_VAL, 1.0}; };
    CHECK_THAT(message_of<Error>([&] { measure_layers(others, infinite, folder / "new"); }), Contains("finite"));
}
