// SPDX-License-Identifier: MIT
//
// Compares the gradient of a row with central finite differences of an oracle in double.
#ifndef INTQ_TESTS_TRAINING_GRADIENT_CHECK_HPP
#define INTQ_TESTS_TRAINING_GRADIENT_CHECK_HPP

#include <cmath>
#include <functional>
#include <random>
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
    /// The output from the numbers of all inputs, then of all parameters.
    std::function<Numbers(const std::vector<Numbers>&)> oracle{};
};

inline Numbers numbers_of(const nn::Tensor& tensor) {
    Numbers result;
    if (tensor.dtype() == DType::float64) result.assign(tensor.flat<double>().begin(), tensor.flat<double>().end());
    if (tensor.dtype() == DType::float32) result.assign(tensor.flat<float>().begin(), tensor.flat<float>().end());
    return result;
}

template <class T> nn::Tensor tensor_of(const Shape& shape, const Numbers& numbers) {
    return nn::Tensor::from(shape, std::vector<T>(numbers.begin(), numbers.end()));
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

/// The gradients of all leaves by the row of gradient_rows<T>.
template <class T>
std::vector<Numbers> row_gradients(const GradientProblem& problem, const std::vector<Numbers>& leaves,
                                   const Numbers& direction) {
    std::vector<nn::Value> inputs;
    std::vector<nn::Tensor> parameters;
    for (std::size_t i = 0; i < problem.input_shapes.size(); ++i)
        inputs.emplace_back(tensor_of<T>(problem.input_shapes[i], leaves[i]));
    for (std::size_t i = 0; i < problem.parameters.size(); ++i) {
        nn::Tensor& parameter = problem.module->tensor(problem.parameters[i]);
        parameter = tensor_of<T>(parameter.shape(), leaves[inputs.size() + i]);
        parameters.push_back(parameter);
    }
    if (problem.inputs_in_tuple) inputs = {nn::Value(inputs)};
    inputs.insert(inputs.end(), problem.more_inputs.begin(), problem.more_inputs.end());
    const nn::Value output(tensor_of<T>(problem.output_shape, problem.oracle(leaves)));
    const nn::Tensor gradient = tensor_of<T>(problem.output_shape, direction);

    const std::span<const training::GradientRow> rows(training::gradient_rows<T>);
    const training::GradientRow* row = training::find_gradient(rows, problem.op, problem.module.get());
    REQUIRE(row != nullptr);
    const training::OperatorCall call{problem.module.get(), nn::Arguments(inputs), &output, {}};
    training::GradientContext context(call, std::span(&gradient, 1), rows);
    row->backward(context);

    std::vector<Numbers> result;
    for (std::size_t i = 0; i < problem.input_shapes.size(); ++i) {
        const nn::Tensor& found =
            problem.inputs_in_tuple ? context.input_gradients().at(0).at(i) : context.input_gradients().at(i).at(0);
        CHECK(found.shape() == problem.input_shapes[i]);
        result.push_back(numbers_of(found));
    }
    for (const nn::Tensor& parameter : parameters)
        for (const auto& [owner, found] : context.parameter_gradients())
            if (owner.shares_buffer_with(parameter)) {
                CHECK(found.shape() == parameter.shape());
                result.push_back(numbers_of(found));
            }
    return result;
}

/// Both types against finite differences of the oracle: below 1e-5 in double, 1e-3 in float.
inline void check_gradient(const GradientProblem& problem, unsigned seed = 7) {
    INFO(problem.op);
    std::vector<Numbers> leaves;
    for (const Shape& shape : problem.input_shapes) leaves.push_back(random_numbers(shape.size(), ++seed));
    for (const std::string& name : problem.parameters)
        leaves.push_back(random_numbers(problem.module->tensor(name).size(), ++seed));
    const Numbers direction = random_numbers(problem.output_shape.size(), ++seed);
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
}

}  // namespace intq::test

#endif  // INTQ_TESTS_TRAINING_GRADIENT_CHECK_HPP
