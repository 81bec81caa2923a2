// SPDX-License-Identifier: MIT
//
// Models with caches, odd names and masks as files, for the tests of --state and of names.
#ifndef INTQ_TESTS_TOOLS_STATE_MODELS_HPP
#define INTQ_TESTS_TOOLS_STATE_MODELS_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "interop/onnx_builder.hpp"
#include "intq/io/file.hpp"
#include "intq/io/npy.hpp"
#include "intq/io/npz.hpp"

namespace intq::test {

inline constexpr std::int64_t cache_length = 6, cache_width = 4;

using Arrays = std::vector<io::NamedArray>;

/// Numbers between -1 and 1.
inline std::vector<float> spread(std::int64_t count, int factor) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>((i * factor) % 17 - 8) / 8.0f);
    return values;
}

/// Nodes of cache -> result, in which a row stands at the position, as PyTorch exports index_copy along axis 1.
inline void add_copy(ModelParts& parts, const std::string& cache, const std::string& row, const std::string& result) {
    const std::vector<Message> swap = {attribute("perm", std::vector<std::int64_t>{1, 0, 2})};
    parts.nodes.push_back(node("Transpose", {cache}, {result + "_a"}, swap, result + "/a"));
    parts.nodes.push_back(node("Transpose", {row}, {result + "_b"}, swap, result + "/b"));
    parts.nodes.push_back(
        node("ScatterND", {result + "_a", "at", result + "_b"}, {result + "_c"}, {}, result + "/copy"));
    parts.nodes.push_back(node("Transpose", {result + "_c"}, {result}, swap, result + "/d"));
}

/// One step of attention without a softmax over the cache "keys": (x, pos, keys) to (y, new_keys).
inline ModelParts cache_parts() {
    ModelParts parts;
    const std::vector<std::int64_t> square = {cache_width, cache_width};
    parts.initializers = {tensor("wq", square, spread(16, 5)), tensor("wk", square, spread(16, 7)),
                          tensor("wo", square, spread(16, 3)), int64_tensor("last", {-1})};
    parts.inputs = {value_info("x", {1, 1, cache_width}), value_info("pos", {1}, int64),
                    value_info("keys", {1, cache_length, cache_width})};
    parts.nodes = {node("MatMul", {"x", "wq"}, {"q"}, {}, "q"), node("MatMul", {"x", "wk"}, {"k"}, {}, "k"),
                   node("Unsqueeze", {"pos", "last"}, {"at"}, {}, "at")};
    add_copy(parts, "keys", "k", "new_keys");
    parts.nodes.push_back(
        node("Transpose", {"new_keys"}, {"t"}, {attribute("perm", std::vector<std::int64_t>{0, 2, 1})}, "turn"));
    parts.nodes.push_back(node("MatMul", {"q", "t"}, {"scores"}, {}, "scores"));
    parts.nodes.push_back(node("MatMul", {"scores", "new_keys"}, {"mixed"}, {}, "mix"));
    parts.nodes.push_back(node("MatMul", {"mixed", "wo"}, {"y"}, {}, "o"));
    parts.outputs = {value_info("y"), value_info("new_keys")};
    return parts;
}

/// The cache is the only output.
inline Message only_cache_model() {
    ModelParts parts = cache_parts();
    parts.outputs = {value_info("new_keys")};
    return model(parts);
}

/// The cache is read as it was too.
inline ModelParts old_read_parts() {
    ModelParts parts = cache_parts();
    parts.nodes.push_back(node("MatMul", {"keys", "wq"}, {"old"}, {}, "old"));
    parts.nodes.push_back(node("Add", {"y", "old"}, {"z"}, {}, "sum"));
    parts.outputs[0] = value_info("z");
    return parts;
}

inline Message old_output_model() {
    ModelParts parts = cache_parts();
    parts.outputs.push_back(value_info("keys"));
    return model(parts);
}

inline Message two_copies_model() {
    ModelParts parts = cache_parts();
    add_copy(parts, "keys", "q", "other_keys");
    parts.outputs.push_back(value_info("other_keys"));
    return model(parts);
}

inline Message no_output_model() {
    ModelParts parts = cache_parts();
    parts.outputs.pop_back();
    return model(parts);
}

/// A second cache, "values", which is state where the first is read as it was.
inline Message one_of_two_model() {
    ModelParts parts = old_read_parts();
    parts.inputs.push_back(value_info("values", {1, cache_length, cache_width}));
    add_copy(parts, "values", "q", "new_values");
    parts.outputs.push_back(value_info("new_values"));
    return model(parts);
}

/// A sum of inputs whose names are none of Python's, or functions of it.
inline const std::vector<std::string> odd_names = {"input", "x:0", "input.1", "max"};
inline Message odd_names_model() {
    ModelParts parts;
    parts.inputs.clear();
    for (const std::string& name : odd_names) parts.inputs.push_back(value_info(name, {-1, 6}));
    parts.nodes = {node("Add", {odd_names[0], odd_names[1]}, {"a"}), node("Add", {"a", odd_names[2]}, {"b"}),
                   node("Add", {"b", odd_names[3]}, {"y"})};
    return model(parts);
}

/// softmax(x, where attention_mask == 0 hides).
inline Message compared_model() {
    ModelParts parts;
    parts.initializers = {int64_tensor("zero", {0}), int64_tensor("axes", {1}), filled("fill", {1}, -1e9f)};
    parts.inputs = {value_info("x", {-1, 3, 6}), value_info("attention_mask", {-1, 6}, int64)};
    parts.nodes = {node("Unsqueeze", {"attention_mask", "axes"}, {"m"}, {}, "apart"),
                   node("Equal", {"m", "zero"}, {"e"}, {}, "compare"),
                   node("Where", {"e", "fill", "x"}, {"s"}, {}, "hide"),
                   node("Softmax", {"s"}, {"y"}, {attribute("axis", -1)}, "softmax")};
    return model(parts);
}

/// 1/x, which is infinite at 0.
inline Message pole_model() {
    ModelParts parts;
    parts.inputs = {value_info("x", {-1, 6})};
    parts.nodes = {node("Reciprocal", {"x"}, {"r"}, {}, "pole"), node("Relu", {"r"}, {"y"}, {}, "relu")};
    return model(parts);
}

inline void write_compared(const std::string& folder) {
    io::write_file(folder + "compared.onnx", compared_model().bytes());
    std::vector<std::int64_t> mask;
    for (std::int64_t i = 0; i < 8 * 6; ++i) mask.push_back(i % 6 < 2 + i / 12 ? 1 : 0);
    const io::NamedArray x{"x", io::make_npy<float>({8, 3, 6}, spread(8 * 18, 11))};
    io::write_npz(folder + "compared.npz", Arrays{x, {"attention_mask", io::make_npy<std::int64_t>({8, 6}, mask)}});
    mask[3] = 2;
    io::write_npz(folder + "not_compared.npz", Arrays{x, {"attention_mask", io::make_npy<std::int64_t>({8, 6}, mask)}});
}

inline void write_odd_names(const std::string& folder) {
    io::write_file(folder + "odd_names.onnx", odd_names_model().bytes());
    Arrays arrays;
    for (const std::string& name : odd_names)
        arrays.push_back({name, io::make_npy<float>({8, 6}, spread(48, 3 + 2 * static_cast<int>(arrays.size())))});
    io::write_npz(folder + "odd_names.npz", arrays);
    arrays[0].name = "input_1";
    io::write_npz(folder + "renamed.npz", arrays);
}

/// Writes the models into a folder, and steps.npz with samples of "x", "pos" and "keys", two_steps.npz with "values"
/// too, tokens.npz with those that are no cache, and empty.npz without a sample.
inline void write_state_models(const std::string& folder) {
    io::write_file(folder + "pole.onnx", pole_model().bytes());
    io::write_file(folder + "cache.onnx", model(cache_parts()).bytes());
    io::write_file(folder + "only_cache.onnx", only_cache_model().bytes());
    io::write_file(folder + "old_read.onnx", model(old_read_parts()).bytes());
    io::write_file(folder + "old_output.onnx", old_output_model().bytes());
    io::write_file(folder + "two_copies.onnx", two_copies_model().bytes());
    io::write_file(folder + "no_output.onnx", no_output_model().bytes());
    io::write_file(folder + "one_of_two.onnx", one_of_two_model().bytes());
    std::vector<std::int64_t> positions;
    for (std::int64_t step = 0; step < cache_length; ++step) positions.push_back(step);
    const io::NamedArray x{"x",
                           io::make_npy<float>({cache_length, 1, cache_width}, spread(cache_length * cache_width, 11))};
    const io::NamedArray pos{"pos", io::make_npy<std::int64_t>({cache_length}, positions)};
    const std::vector<float> cache = spread(cache_length * cache_length * cache_width, 13);
    const auto caches = io::make_npy<float>({cache_length, cache_length, cache_width}, cache);
    io::write_npz(folder + "tokens.npz", Arrays{x, pos});
    io::write_npz(folder + "steps.npz", Arrays{x, pos, {"keys", caches}});
    io::write_npz(folder + "two_steps.npz", Arrays{x, pos, {"keys", caches}, {"values", caches}});
    io::write_npz(folder + "empty.npz", Arrays{x, {"pos", io::make_npy<std::int64_t>({0, 1}, {})}});
    write_odd_names(folder);
    write_compared(folder);
}

}  // namespace intq::test

#endif  // INTQ_TESTS_TOOLS_STATE_MODELS_HPP
