// SPDX-License-Identifier: MIT
//
// Compares the gradient of a row with central finite differences of an oracle in double.
#ifndef INTQ_TESTS_TRAINING_GRADIENT_CHECK_HPP
#define INTQ_TESTS_TRAINING_GRADIENT_CHECK_HPP

#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <vector>

#include "intq/training/gradients.hpp"
#include "support/catch.hpp"

namespace intq::test {

using Numbers = std::vector<double>;

/// A call of an operator whose gradient is checked. Its numbers are floats, so that float and double take the same.
struct GradientProblem {
    const char* op;
    std::vector<Shape> input_shapes;
    std::vector<std::string> parameters{};  // names in the module
    nn::ModulePtr module{};                 // null: a function
    std::vector<nn::Value> more_inputs{};   // constants after the tensors
    bool inputs_in_tuple = false;
    Shape output_shape{};
    /// The output from the numbers of all inputs, then of all parameters; of several tensors one behind the other.
    std::function<Numbers(const std::vector<Numbers>&)> oracle{};
    /// What computes the output in the library, where it is not the module's forward.
    const nn::Function* function = nullptr;
    const char* method = "forward";
    std::vector<Shape> more_outputs{};  // shapes of the tensors behind the first
    /// Where the tensors stand among the arguments, unless they come first or in one tuple; and the argument and item
    /// of each.
    std::function<std::vector<nn::Value>(const std::vector<nn::Value>&)> arrange{};
    std::vector<std::pair<std::size_t, std::size_t>> places{};
    double spread = 1.0;  // factor of the inputs
    bool positive = false;

    std::vector<nn::Value> arguments(const std::vector<nn::Value>& tensors) const {
        if (arrange) return arrange(tensors);
        std::vector<nn::Value> result = tensors;
        if (inputs_in_tuple) result = {nn::Value(tensors)};
        result.insert(result.end(), more_inputs.begin(), more_inputs.end());
        return result;
    }
    std::pair<std::size_t, std::size_t> place(std::size_t input) const {
        if (!places.empty()) return places.at(input);
        return inputs_in_tuple ? std::pair(std::size_t{0}, input) : std::pair(input, std::size_t{0});
    }
    std::vector<Shape> output_shapes() const {
        std::vector<Shape> result{output_shape};
        result.insert(result.end(), more_outputs.begin(), more_outputs.end());
        return result;
    }
};

/// The operators that check_gradient() has seen.
inline std::set<std::string>& checked_operators() {
    static std::set<std::string> names;
    return names;
}

inline Numbers numbers_of(const intq::Tensor& tensor) {
    Numbers result;
    if (tensor.dtype() == DType::float64) result.assign(tensor.flat<double>().begin(), tensor.flat<double>().end());
    if (tensor.dtype() == DType::float32) result.assign(tensor.flat<float>().begin(), tensor.flat<float>().end());
    return result;
}

template <class T> intq::Tensor tensor_of(const Shape& shape, const Numbers& numbers) {
    return intq::Tensor::from(shape, std::vector<T>(numbers.begin(), numbers.end()));
}

/// Random floats at least 2^-10 apart from 0, so that a clamp at 0 has no kink within the step.
inline Numbers random_numbers(index_t count, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    Numbers result;
    while (static_cast<index_t>(result.size()) < count)
        if (const float value = normal(generator); std::fabs(value) > 0x1p-10f)
            result.push_back(static_cast<double>(value));
    return result;
}

/// Largest |a - b| / max(|b|, largest |b| / 100).
inline double relative_error(const Numbers& a, const Numbers& b) {
    REQUIRE(a.size() == b.size());
    double largest = 0, error = 0;
    for (const double value : b) largest = std::max(largest, std::fabs(value));
    if (largest == 0) largest = 1;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (!std::isfinite(a[i])) return std::numeric_limits<double>::infinity();
        error = std::max(error, std::fabs(a[i] - b[i]) / std::max(std::fabs(b[i]), largest / 100));
    }
    return error;
}

/// d(sum_i direction[i] · f(leaves)[i]) / d(leaf) for all elements of one leaf.
inline Numbers differences(const std::function<Numbers(const std::vector<Numbers>&)>& f, std::vector<Numbers> leaves,
                           std::size_t leaf, const Numbers& direction) {
    const auto value = [&] {
        const Numbers y = f(leaves);
        double sum = 0;
        for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * direction[i];
        return sum;
    };
    constexpr double step = 1e-5;
    Numbers result;
    for (double& x : leaves[leaf]) {
        const double old = x;
        x = old + step;
        const double above = value();
        x = old - step;
        result.push_back((above - value()) / (2 * step));
        x = old;
    }
    return result;
}

/// Numbers as tensors of the shapes, one behind the other.
template <class T> std::vector<intq::Tensor> tensors_of(const std::vector<Shape>& shapes, const Numbers& numbers) {
    std::vector<intq::Tensor> result;
    auto next = numbers.begin();
    for (const Shape& shape : shapes) {
        result.push_back(tensor_of<T>(shape, Numbers(next, next + shape.size())));
        next += shape.size();
    }
    REQUIRE(next == numbers.end());
    return result;
}

/// Puts the leaves into the module's parameters and makes the arguments of the call.
template <class T>
std::vector<nn::Value> call_arguments(const GradientProblem& problem, const std::vector<Numbers>& leaves) {
    std::vector<nn::Value> tensors;
    for (std::size_t i = 0; i < problem.input_shapes.size(); ++i)
        tensors.emplace_back(tensor_of<T>(problem.input_shapes[i], leaves[i]));
    for (std::size_t i = 0; i < problem.parameters.size(); ++i) {
        intq::Tensor& parameter = problem.module->tensor(problem.parameters[i]);
        parameter = tensor_of<T>(parameter.shape(), leaves[tensors.size() + i]);
    }
    return problem.arguments(tensors);
}

/// The gradients of all leaves by the row of gradient_rows<T>.
template <class T>
std::vector<Numbers> row_gradients(const GradientProblem& problem, const std::vector<Numbers>& leaves,
                                   const Numbers& direction) {
    const std::vector<nn::Value> inputs = call_arguments<T>(problem, leaves);
    const auto outputs = tensors_of<T>(problem.output_shapes(), problem.oracle(leaves));
    const auto gradients = tensors_of<T>(problem.output_shapes(), direction);
    const nn::Value output =
        outputs.size() == 1 ? nn::Value(outputs[0]) : nn::Value(nn::Value::Tuple(outputs.begin(), outputs.end()));

    const std::span<const training::GradientRow> rows(training::gradient_rows<T>);
    const training::GradientRow* row = training::find_gradient(rows, problem.op, problem.module.get());
    REQUIRE(row != nullptr);
    const training::FinishedCall call{problem.module.get(), nn::Arguments(inputs), &output, {}};
    training::GradientContext context(call, gradients, rows);
    row->backward(context);

    std::vector<Numbers> result;
    for (std::size_t i = 0; i < problem.input_shapes.size(); ++i) {
        const auto [argument, item] = problem.place(i);
        const auto& found = context.input_gradients().at(argument);
        if (item >= found.size() || !found[item].defined()) {  // nothing depends on it
            result.emplace_back(static_cast<std::size_t>(problem.input_shapes[i].size()), 0.0);
            continue;
        }
        CHECK(found[item].shape() == problem.input_shapes[i]);
        result.push_back(numbers_of(found[item]));
    }
    for (const std::string& name : problem.parameters) {
        const intq::Tensor& parameter = problem.module->tensor(name);
        for (const auto& [owner, found] : context.parameter_gradients())
            if (owner.shares_buffer_with(parameter)) {
                CHECK(found.shape() == parameter.shape());
                result.push_back(numbers_of(found));
            }
    }
    return result;
}

inline void append_numbers(const nn::Value& value, Numbers& numbers) {
    if (value.is_tensor()) {
        const Numbers more = numbers_of(value.tensor().contiguous());
        numbers.insert(numbers.end(), more.begin(), more.end());
    } else {
        for (const nn::Value& item : value.tuple()) append_numbers(item, numbers);
    }
}

/// The oracle is that of the operator: the library's forward pass in float gives its numbers.
inline void check_forward(const GradientProblem& problem, const std::vector<Numbers>& leaves) {
    const std::vector<nn::Value> arguments = call_arguments<float>(problem, leaves);
    REQUIRE((problem.module != nullptr || problem.function != nullptr));
    Numbers found;
    append_numbers(problem.function != nullptr ? problem.function->evaluate(arguments)
                                               : problem.module->dispatch(problem.method, arguments),
                   found);
    CHECK(relative_error(found, problem.oracle(leaves)) < 1e-3);
}

/// Both types against finite differences of the oracle: below 1e-5 in double, 1e-3 in float.
inline void check_gradient(const GradientProblem& problem, unsigned seed = 7) {
    INFO(problem.op);
    checked_operators().insert(problem.op);
    std::vector<Numbers> leaves;
    for (const Shape& shape : problem.input_shapes) {
        leaves.push_back(random_numbers(shape.size(), ++seed));
        for (double& x : leaves.back())
            x = static_cast<double>(static_cast<float>(problem.positive ? std::fabs(x) + 0.25 : x * problem.spread));
    }
    for (const std::string& name : problem.parameters)
        leaves.push_back(random_numbers(problem.module->tensor(name).size(), ++seed));
    Numbers direction;
    for (const Shape& shape : problem.output_shapes()) {
        const Numbers more = random_numbers(shape.size(), ++seed);
        direction.insert(direction.end(), more.begin(), more.end());
    }
    REQUIRE(problem.oracle(leaves).size() == direction.size());
    const auto in_double = row_gradients<double>(problem, leaves, direction);
    const auto in_float = row_gradients<float>(problem, leaves, direction);
    REQUIRE(in_double.size() == leaves.size());
    REQUIRE(in_float.size() == leaves.size());
    for (std::size_t i = 0; i < leaves.size(); ++i) {
        INFO("leaf " << i);
        const Numbers expected = differences(problem.oracle, leaves, i, direction);
        CHECK(relative_error(in_double[i], expected) < 1e-5);
        CHECK(relative_error(in_float[i], expected) < 1e-3);
    }
    check_forward(problem, leaves);
}

}  // namespace intq::test

#endif  // INTQ_TESTS_TRAINING_GRADIENT_CHECK_HPP
