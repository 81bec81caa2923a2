// SPDX-License-Identifier: MIT
//
// A decoder with a cache of fixed length, step by step, in float and as a program.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "intq/deploy/program_writer.hpp"
#include "intq/nn.hpp"
#include "intq/program/session.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "intq/runtime/check.hpp"
#include "intq/runtime/load_program.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/same_bytes.hpp"
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

namespace {

LoweredModel with_state(const kernels::KernelTable& table, DType dtype, index_t batch = 2) {
    LoweringOptions options{batch};
    options.keeps_state = true;
    return lower(convert_fx(*calibrated(table, dtype)), table, options);
}

}  // namespace

TEST_CASE("A session computes the bytes of a program whose caches are fed back, and copies a row at each step") {
    for (const kernels::KernelTable* table : test::scalar_tables().tables)
        for (const DType dtype : {DType::int8, DType::int16}) {
            const arith::OperatorUse product{OpKind::matmul, dtype, DType::none, dtype};
            const arith::OperatorUse use{OpKind::softmax, dtype, DType::none, dtype};
            if (!arith::check_constraints(table->policy().constraints, product).ok()) continue;
            if (dtype == DType::int16 && !arith::check_constraints(table->policy().constraints, use).ok()) continue;
            INFO(table->policy().name << " " << name_of(dtype));
            const LoweredModel plain = lower(convert_fx(*calibrated(*table, dtype)), *table, 2);
            const LoweredModel kept = with_state(*table, dtype);
            const runtime::Program& program = kept.program().program();
            REQUIRE(program.states.size() == 2);
            const index_t cache = 2 * heads * length * depth;
            for (const runtime::Instruction& instruction : program.instructions)
                CHECK((instruction.op == OpKind::index_copy) ==
                      (program.tensor(instruction.output).shape.size() == cache));
            program::Session session(kept.shared_program(), 2);
            const auto step = [&](const Tensors& inputs) {
                Tensors outputs = session.run(std::span(inputs).first(2));
                outputs.insert(outputs.end(), inputs.begin() + 2, inputs.end());  // not read
                return outputs;
            };
            const Tensors expected =
                run_steps(first_inputs(2, 50), [&](const Tensors& inputs) { return plain.run(inputs); });
            const Tensors given = run_steps(first_inputs(2, 50), step);
            session.reset();
            const Tensors again = run_steps(first_inputs(2, 50), step);
            for (std::size_t i = 0; i < expected.size(); ++i) {
                CHECK(test::same_bytes(given[i], expected[i]));
                CHECK(test::same_bytes(again[i], expected[i]));
            }
        }
}

TEST_CASE("The check of a program refuses state that is not one memory, or that is read after it is written over") {
    const kernels::KernelTable& table = *test::scalar_tables().tables.front();
    const LoweredModel kept = with_state(table, DType::int8);
    const runtime::Program& whole = kept.program().program();
    REQUIRE(runtime::check_program(whole, table).ok());
    const auto refused = [&](const auto& change) {
        runtime::Program program = whole;
        std::vector<runtime::ProgramTensor> tensors(whole.tensors.begin(), whole.tensors.end());
        std::vector<runtime::StatePair> states(whole.states.begin(), whole.states.end());
        std::vector<std::int32_t> operands(whole.operands.begin(), whole.operands.end());
        change(tensors, states, operands);
        program.tensors = tensors;
        program.states = states;
        program.operands = operands;
        return runtime::check_program(program, table);
    };
    const auto tensor_of = [](auto& tensors, std::int32_t index) -> runtime::ProgramTensor& {
        return tensors[static_cast<std::size_t>(index)];
    };
    const auto is_state = [](const Status& status) {
        return status.code == StatusCode::corrupt && status.field == Field::tensor;
    };
    // Pairs that are no input and output, or share one.
    CHECK(is_state(refused([&](auto&, auto& states, auto&) { std::swap(states[0].input, states[0].output); })));
    CHECK(is_state(refused([&](auto&, auto& states, auto&) { states[1].input = states[0].input; })));
    CHECK(is_state(refused([&](auto&, auto& states, auto&) { std::swap(states[0].output, states[1].output); })));
    // One place, one grid.
    CHECK(is_state(refused([&](auto& tensors, auto& states, auto&) {
        auto& x = tensor_of(tensors, states[0].input);
        x.qparams = QParams::per_tensor(2.0f * x.qparams.scale(), x.qparams.zero_point(), -128, 127);
    })));
    // Keys that the product of the scores reads from the old cache, behind the copy.
    const Status late = refused([&](auto&, auto& states, auto& operands) {
        bool is_behind = false;
        for (const runtime::Instruction& instruction : whole.instructions) {
            is_behind = is_behind || instruction.output == states[0].output;
            for (std::int32_t i = 0; i < instruction.operand_count; ++i) {
                auto& operand = operands[static_cast<std::size_t>(instruction.first_operand + i)];
                if (is_behind && operand == states[0].output) operand = states[0].input;
            }
        }
    });
    CHECK(late.code == StatusCode::corrupt);
    CHECK(late.field == Field::arena);
}

TEST_CASE("State is in the program's file, and a session says what it does not take") {
    const kernels::KernelTable& table = *test::scalar_tables().tables.front();
    const LoweredModel kept = with_state(table, DType::int8);
    const auto bytes = deploy::serialize_program(kept.program().program(), table);
    const program::AlignedBytes file(static_cast<index_t>(bytes.size()));
    std::copy(bytes.begin(), bytes.end(), file.data());
    const std::span<const std::byte> content(file.data(), bytes.size());
    const program::AlignedBytes tables(*runtime::program_tables_size(content, table));
    const auto loaded = runtime::load_program(content, table, tables.workspace());
    REQUIRE(loaded.ok());
    const auto states = loaded->program.states;
    CHECK(std::equal(states.begin(), states.end(), kept.program().program().states.begin(),
                     kept.program().program().states.end()));
    CHECK(message_of<Error>([&] { program::Session(kept.shared_program(), 3); }) ==
          "a session of this program has 1 to 2 sequences, given 3");
    program::Session session(kept.shared_program());
    Tensors inputs = first_inputs(1, 50);
    CHECK(message_of<Error>([&] { session.run(inputs); }) == "the program takes 2 inputs, given 4");
    inputs.resize(2);
    inputs[1].flat<std::int64_t>()[0] = length;
    CHECK(message_of<Error>([&] { session.run(inputs); }) == "the input \"p\" holds 6, expected 0 to 5");
    const LoweredModel plain = lower(convert_fx(*calibrated(table, DType::int8)), table, 2);
    CHECK(message_of<Error>([&] { program::Session{plain.shared_program()}; }) ==
          "the program has no state; run() of the program itself needs no session");
}
