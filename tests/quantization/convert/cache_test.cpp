// SPDX-License-Identifier: MIT
//
// A decoder with a cache of fixed length, step by step, in float and as a program.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "intq/nn.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::message_of;
using test::sqnr;

namespace {

constexpr index_t heads = 2, length = 6, depth = 4, width = heads * depth;
using Tensors = std::vector<intq::Tensor>;

/// Attention of one token over a cache: (x, position, keys, values) to (y, keys, values).
std::shared_ptr<test::LambdaModel> make_decoder() {
    auto model = test::make_model(
        {{"q", test::make_linear(width, width, 1)},
         {"k", test::make_linear(width, width, 2)},
         {"v", test::make_linear(width, width, 3)}},
        [](test::LambdaModel& m, nn::Arguments a) {
            const auto heads_of = [&](const char* layer) {
                return nn::permute(nn::reshape(m.call(layer, a[0]), {-1, 1, heads, depth}), {0, 2, 1, 3});
            };
            const nn::Value keys = nn::index_copy(a[2], 2, a[1], heads_of("k"));
            const nn::Value values = nn::index_copy(a[3], 2, a[1], heads_of("v"));
            const nn::Value scores = nn::matmul(heads_of("q"), nn::transpose(keys, -1, -2)) * 0.5;
            const nn::Value masked = nn::causal_fill(scores, a[1], -std::numeric_limits<double>::infinity());
            const nn::Value mixed = nn::permute(nn::matmul(nn::softmax(masked, -1), values), {0, 2, 1, 3});
            return nn::Value(nn::Value::Tuple{nn::reshape(mixed, {-1, 1, width}), keys, values});
        },
        {"x", "p", "keys", "values"});
    model->eval();
    return model;
}

Tensors first_inputs(index_t samples, unsigned seed) {
    const Shape cache(samples, heads, length, depth);
    return {test::random_tensor(Shape(samples, index_t{1}, width), seed),
            intq::Tensor::zeros(Shape(samples, 1), DType::int64), intq::Tensor::zeros(cache),
            intq::Tensor::zeros(cache)};
}

std::vector<nn::Value> values_of(const Tensors& tensors) { return {tensors.begin(), tensors.end()}; }

/// Runs a whole sequence; returns y of each step. The caches are fed back.
template <class Run> Tensors run_steps(Tensors inputs, const Run& run) {
    Tensors results;
    for (index_t step = 0; step < length; ++step) {
        inputs[0] = test::random_tensor(inputs[0].shape(), 50 + static_cast<unsigned>(step));
        for (std::int64_t& at : inputs[1].flat<std::int64_t>()) at = step;
        const Tensors outputs = run(inputs);
        results.push_back(outputs.at(0));
        inputs[2] = outputs.at(1);
        inputs[3] = outputs.at(2);
    }
    return results;
}

Tensors call(nn::Module& model, const Tensors& inputs) {
    return nn::tensors_of(model.dispatch("forward", values_of(inputs)));
}

std::shared_ptr<PreparedModel> calibrated(const kernels::KernelTable& table, DType dtype, index_t steps = length) {
    const auto graph = std::static_pointer_cast<graph::GraphModule>(traced_clone(*make_decoder()));
    add_stubs(*graph);
    auto qconfig = get_default_qconfig(table.policy(), dtype, DType::int8);
    qconfig.output->options.observer = observer_factory<MinMaxObserver>();
    auto prepared = prepare_calibration_fx(*graph, QConfigMapping().set_global(qconfig), table.policy());
    index_t step = 0;
    run_steps(first_inputs(2, 50), [&](const Tensors& inputs) {
        return call(step++ < steps ? static_cast<nn::Module&>(*prepared) : *graph, inputs);
    });
    return prepared;
}

double number(const intq::Tensor& tensor, index_t i) {
    return static_cast<double>(tensor.contiguous().flat<float>()[static_cast<std::size_t>(i)]);
}

/// y of token `last` of a sequence, from all tokens up to it, by the definition of attention.
std::vector<double> attention(const nn::Module& model, const Tensors& tokens, index_t sample, std::size_t last) {
    const auto project = [&](const char* layer, std::size_t token) {
        const auto& linear = dynamic_cast<const nn::Linear&>(*model.child(layer));
        std::vector<double> y(static_cast<std::size_t>(width));
        for (index_t out = 0; out < width; ++out) {
            y[static_cast<std::size_t>(out)] = linear.has_bias() ? number(linear.tensor("bias"), out) : 0.0;
            for (index_t in = 0; in < width; ++in)
                y[static_cast<std::size_t>(out)] +=
                    number(linear.weight(), out * width + in) * number(tokens[token], sample * width + in);
        }
        return y;
    };
    std::vector<double> result(static_cast<std::size_t>(width), 0.0);
    const std::vector<double> query = project("q", last);
    for (std::size_t head = 0; head < heads; ++head) {
        std::vector<double> weights;
        double sum = 0.0;
        for (std::size_t token = 0; token <= last; ++token) {
            const std::vector<double> key = project("k", token);
            double score = 0.0;
            for (std::size_t d = 0; d < depth; ++d) score += query[head * depth + d] * key[head * depth + d];
            weights.push_back(std::exp(score * 0.5));
            sum += weights.back();
        }
        for (std::size_t token = 0; token <= last; ++token) {
            const std::vector<double> value = project("v", token);
            for (std::size_t d = 0; d < depth; ++d)
                result[head * depth + d] += weights[token] / sum * value[head * depth + d];
        }
    }
    return result;
}

}  // namespace

TEST_CASE("A decoder with a cache computes in float what attention over all its tokens is") {
    const auto model = make_decoder();
    Tensors tokens;
    const Tensors results = run_steps(first_inputs(2, 50), [&](const Tensors& inputs) {
        tokens.push_back(inputs[0].clone());
        return call(*model, inputs);
    });
    for (std::size_t step = 0; step < results.size(); ++step)
        for (index_t sample = 0; sample < 2; ++sample) {
            const std::vector<double> expected = attention(*model, tokens, sample, step);
            for (index_t i = 0; i < width; ++i)
                CHECK(std::abs(number(results[step], sample * width + i) - expected[static_cast<std::size_t>(i)]) <
                      1e-5);
        }
}

TEST_CASE("A decoder with a cache runs whole as a program, and its caches are fed back") {
    for (const kernels::KernelTable* table : test::scalar_tables().tables)
        for (const DType dtype : {DType::int8, DType::int16}) {
            const arith::OperatorUse use{OpKind::softmax, dtype, DType::none, dtype};
            const arith::OperatorUse product{OpKind::matmul, dtype, DType::none, dtype};
            if (!arith::check_constraints(table->policy().constraints, product).ok()) continue;
            INFO(table->policy().name << " " << name_of(dtype));
            if (dtype == DType::int16 && !arith::check_constraints(table->policy().constraints, use).ok()) continue;
            const auto prepared = calibrated(*table, dtype);
            CHECK(prepared->report().fallbacks.empty());
            const LoweredModel lowered = lower(convert_fx(*prepared), *table, 2);
            const auto float_model = make_decoder();
            const Tensors expected =
                run_steps(first_inputs(2, 50), [&](const Tensors& inputs) { return call(*float_model, inputs); });
            const Tensors given =
                run_steps(first_inputs(2, 50), [&](const Tensors& inputs) { return lowered.run(inputs); });
            for (std::size_t step = 0; step < expected.size(); ++step) {
                INFO("step " << step);
                CHECK(sqnr(expected[step], given[step]) > (dtype == DType::int8 ? 20.0 : 35.0));
            }
        }
}

TEST_CASE("A cache, its rows and its output have the grid of the rows, also where the data of the cache was 0") {
    const kernels::KernelTable& table = *test::scalar_tables().tables.front();
    // The first step alone: both caches are 0.
    const QuantizedGraph quantized = convert_fx(*calibrated(table, DType::int8, 1));
    int copies = 0;
    for (const QuantizedNode& node : quantized.nodes) {
        if (node.step->kind() != OpKind::index_copy) continue;
        ++copies;
        CHECK(quantized.input(node, 0).qparams == quantized.input(node, 2).qparams);
        CHECK(quantized.output(node).qparams == quantized.input(node, 2).qparams);
        CHECK(quantized.output(node).qparams.scale() > 1e-3f);
        CHECK(quantized.input(node, 1).is_ids);
    }
    CHECK(copies == 2);
    const LoweredModel lowered = lower(quantized, table, 2);
    const runtime::Program& program = lowered.program().program();
    for (const runtime::Instruction& instruction : program.instructions) {
        CHECK(instruction.op != OpKind::requantize);
        if (instruction.op != OpKind::index_copy) continue;
        // Nothing reads the old cache any more, so the new one has its place.
        CHECK(program.tensor(program.operands_of(instruction)[0]).offset == program.tensor(instruction.output).offset);
    }
}

TEST_CASE("A run refuses a position behind the cache by name") {
    const kernels::KernelTable& table = *test::scalar_tables().tables.front();
    const LoweredModel lowered = lower(convert_fx(*calibrated(table, DType::int8)), table, 2);
    Tensors inputs = first_inputs(2, 50);
    inputs[1].flat<std::int64_t>()[1] = length;
    CHECK(message_of<Error>([&] { lowered.run(inputs); }) == "the input \"p\" holds 6, expected 0 to 5");
}

TEST_CASE("Rows that are copied by what is no input of positions have no integer form") {
    const kernels::KernelTable& table = *test::scalar_tables().tables.front();
    const auto shared = test::make_model(
        {}, [](test::LambdaModel&, nn::Arguments a) { return nn::index_copy(a[0], 2, a[2], a[1]); }, {"x", "row", "p"});
    const auto graph = std::static_pointer_cast<graph::GraphModule>(traced_clone(*shared));
    add_stubs(*graph);
    const auto prepared = prepare_calibration_fx(*graph, table.policy());
    const Tensors inputs{test::random_tensor(Shape(2, 3, 4, 5), 1), test::random_tensor(Shape(2, 3, 1, 5), 2),
                         intq::Tensor::zeros(Shape(1), DType::int64)};
    CHECK(message_of<Error>([&] {
              call(*prepared, inputs);
              convert_fx(*prepared);
          }).find("an index_copy by an input of int32 indices (N, T) has an integer form, given (1)") !=
          std::string::npos);
}
