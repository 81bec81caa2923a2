// SPDX-License-Identifier: MIT
//
// Models and programs that are damaged or made to harm: they grow, contradict themselves, or have names that a terminal
// would obey.
#ifndef INTQ_TESTS_TOOLS_HOSTILE_MODELS_HPP
#define INTQ_TESTS_TOOLS_HOSTILE_MODELS_HPP

#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "interop/onnx_builder.hpp"
#include "intq/core/checksum.hpp"

namespace intq::test {

/// Bytes of a file, by its name in the folder of the test.
struct HostileFile {
    std::string name;
    std::vector<std::byte> bytes;
    /// Whether a command that does not run it may take it: it harms nobody who only looks.
    bool may_be_described = false;
};

/// Clears the screen, sets the title, turns the direction of writing, and is no UTF-8 at its end.
inline const std::string escapes = "a\x1b[2J\x1b]0;owned\x07\nb\xe2\x80\xae\xc2\x9bz\xff";

inline std::vector<std::byte> bytes_of(const std::string& text) {
    const auto view = std::as_bytes(std::span(text.data(), text.size()));
    return {view.begin(), view.end()};
}

/// x (1, 4, 6, 6), or another input, through nodes to y.
inline HostileFile onnx_file(const std::string& name, ModelParts parts, bool may_be_described = false) {
    return {name + ".onnx", model(parts).bytes(), may_be_described};
}

/// A chain of nodes that each make more of what they read: node(input, output).
template <class Make> ModelParts chain(int length, const Make& make) {
    ModelParts parts;
    for (int i = 0; i < length; ++i)
        parts.nodes.push_back(make(i == 0 ? "x" : "v" + std::to_string(i - 1),
                                   i + 1 == length ? std::string("y") : "v" + std::to_string(i)));
    parts.inputs = {value_info("x", {1, 4, 6, 6})};
    return parts;
}

/// Few bytes that describe values of gigabytes.
inline std::vector<HostileFile> growing_models() {
    std::vector<HostileFile> files;
    const auto add = [&](const std::string& name, ModelParts parts) {
        files.push_back(onnx_file("grows_" + name, std::move(parts), true));
    };
    for (const int length : {16, 24})
        add("concat_" + std::to_string(length), chain(length, [](const std::string& x, const std::string& y) {
                return node("Concat", {x, x}, {y}, {attribute("axis", 1)});
            }));
    ModelParts transposed = chain(11, [](const std::string& x, const std::string& y) {
        return node("ConvTranspose", {x, "w"}, {y}, {attribute("strides", std::vector<std::int64_t>{2, 2})});
    });
    transposed.initializers = {filled("w", {4, 4, 2, 2}, 0.1f)};
    add("conv_transpose", transposed);
    ModelParts wide = chain(1, [](const std::string& x, const std::string& y) {
        return node("ConvTranspose", {x, "w"}, {y}, {attribute("strides", std::vector<std::int64_t>{4000, 4000})});
    });
    wide.initializers = {filled("w", {4, 1, 1, 1}, 0.1f)};
    add("stride", wide);
    ModelParts resized = chain(5, [](const std::string& x, const std::string& y) {
        return node("Resize", {x, "", "s"}, {y},
                    {attribute("mode", "nearest"), attribute("coordinate_transformation_mode", "asymmetric")});
    });
    resized.initializers = {tensor("s", {4}, {1, 1, 16, 16})};
    add("resize", resized);
    ModelParts padded = chain(2, [](const std::string& x, const std::string& y) { return node("Pad", {x, "p"}, {y}); });
    padded.initializers = {int64_tensor("p", {0, 0, 4000, 4000, 0, 0, 4000, 4000})};
    add("pad", padded);
    ModelParts products = chain(8, [](const std::string& x, const std::string& y) {
        return node("MatMul", {x, "w"}, {y});
    });
    products.inputs = {value_info("x", {1, 1, 2000, 1})};
    products.initializers = {filled("w", {1, 2000}, 0.1f)};
    products.nodes.resize(1);
    products.nodes[0] = node("MatMul", {"x", "w"}, {"y"});
    add("matmul", products);
    ModelParts outer = chain(2, [](const std::string& x, const std::string& y) { return node("Add", {x, "c"}, {y}); });
    outer.initializers = {filled("c", {2000, 1, 1, 1}, 1.0f)};
    add("broadcast", outer);
    ModelParts pooled = chain(2, [](const std::string& x, const std::string& y) {
        return node("Resize", {x, "", "s"}, {y},
                    {attribute("mode", "nearest"), attribute("coordinate_transformation_mode", "asymmetric")});
    });
    pooled.nodes[1] =
        node("AveragePool", {"v0"}, {"y"}, {attribute("kernel_shape", std::vector<std::int64_t>{300, 300})});
    pooled.initializers = {tensor("s", {4}, {1, 1, 100, 100})};
    add("average_of_many", pooled);
    // Two pixels of an uneven average, whose sum is added to itself until it has 2^40 terms.
    ModelParts summed;
    const std::vector<std::int64_t> back{2, 3, 0, 1};
    summed.nodes = {node("Transpose", {"x"}, {"t"}, {attribute("perm", back)}), node("GatherND", {"t", "i"}, {"g"}),
                    node("Transpose", {"g"}, {"v0"}, {attribute("perm", back)})};
    for (int i = 0; i < 40; ++i) {
        const std::string sum = "v" + std::to_string(i);
        summed.nodes.push_back(node("Add", {sum, sum}, {i == 39 ? "y" : "v" + std::to_string(i + 1)}));
    }
    summed.inputs = {value_info("x", {1, 4, 6, 6})};
    summed.initializers = {int64_tensor("i", std::vector<std::int64_t>{1, 2, 2}, {0, 0, 5, 5})};
    add("sums_of_pixels", summed);
    return files;
}

/// What a reader must stop.
inline std::vector<HostileFile> wrong_models() {
    std::vector<HostileFile> files;
    const auto add = [&](const std::string& name, ModelParts parts) {
        files.push_back(onnx_file(name, std::move(parts)));
    };
    const auto relu = node("Relu", {"x"}, {"y"});
    add("type_escapes", {.nodes = {node("Foo" + escapes, {"x"}, {"y"}, {}, "n")}});
    add("name_escapes", {.nodes = {node("Foo", {"x"}, {"y"}, {}, escapes)}});
    add("domain_escapes", {.nodes = {node("Relu", {"x"}, {"y"}).text(7, escapes)}});
    add("input_escapes", {.nodes = {node("Relu", {escapes}, {"y"})}});
    add("output_escapes", {.nodes = {relu}, .outputs = {value_info(escapes)}});
    add("attribute_escapes", {.nodes = {node("Relu", {"x"}, {"y"}, {attribute(escapes, 1)})}});
    add("text_escapes", {.nodes = {node("Pad", {"x"}, {"y"}, {attribute("mode", escapes)})}});
    add("initializer_escapes", {.nodes = {relu}, .initializers = {tensor(escapes, {2, 2}, {1.0f})}});
    add("two_names", {.nodes = {relu, node("Relu", {"x"}, {"y"})}});
    add("cycle", {.nodes = {node("Add", {"x", "b"}, {"a"}), node("Relu", {"a"}, {"b"}), node("Relu", {"b"}, {"y"})}});
    add("no_nodes", {});
    add("rank_7", {.nodes = {relu}, .inputs = {value_info("x", {1, 1, 1, 1, 1, 1, 1})}});
    add("negative_extent",
        {.nodes = {relu}, .inputs = {value_info("x", {1, 4, -7, 6})}, .outputs = {value_info("nowhere")}});
    add("huge_extent", {.nodes = {relu}, .inputs = {value_info("x", {1, std::int64_t{1} << 62, 6, 6})}});
    add("product_overflows", {.nodes = {relu}, .initializers = {tensor("w", {1ll << 31, 1ll << 31, 4}, {})}});
    add("missing_elements",
        {.nodes = {node("Conv", {"x", "w"}, {"y"})}, .initializers = {tensor("w", {8, 4, 3, 3}, {1})}});
    add("no_stride", {.nodes = {node("MaxPool", {"x"}, {"y"},
                                     {attribute("kernel_shape", std::vector<std::int64_t>{2, 2}),
                                      attribute("strides", std::vector<std::int64_t>{0, 0})})}});
    add("huge_kernel", {.nodes = {node("MaxPool", {"x"}, {"y"},
                                       {attribute("kernel_shape", std::vector<std::int64_t>{1 << 30, 1 << 30})})}});
    add("groups", {.nodes = {node("Conv", {"x", "w"}, {"y"}, {attribute("group", std::int64_t{1} << 40)})},
                   .initializers = {filled("w", {8, 4, 1, 1}, 1.0f)}});
    add("not_finite", {.nodes = {node("Conv", {"x", "w"}, {"y"})},
                       .initializers = {filled("w", {8, 4, 1, 1}, std::numeric_limits<float>::quiet_NaN())}});
    add("opset", {.nodes = {relu}, .opset = std::int64_t{1} << 62});
    add("range",
        {.nodes = {node("Range", {"a", "b", "c"}, {"r"}), node("Add", {"x", "r"}, {"y"})},
         .initializers = {int64_tensor("a", {0}), int64_tensor("b", {std::int64_t{1} << 60}), int64_tensor("c", {1})}});
    add("constant_of_shape", {.nodes = {node("ConstantOfShape", {"s"}, {"c"}), node("Add", {"x", "c"}, {"y"})},
                              .initializers = {int64_tensor("s", {1 << 20, 1 << 20})}});
    ModelParts constants;  // each of a megabyte of its own
    for (int i = 0; i < 200; ++i) {
        constants.nodes.push_back(node("ConstantOfShape", {"s"}, {"c" + std::to_string(i)}));
        constants.nodes.push_back(node("Add", {i == 0 ? "x" : "v" + std::to_string(i - 1), "c" + std::to_string(i)},
                                       {"v" + std::to_string(i)}));
    }
    constants.initializers = {int64_tensor("s", {1, 4, 256, 1024})};
    constants.outputs = {value_info("v199")};
    add("many_constants", constants);
    ModelParts outer;
    outer.nodes = {node("Mul", {"a", "b"}, {"c"}), node("Add", {"x", "c"}, {"y"})};
    outer.initializers = {filled("a", {4000, 1}, 1.0f), filled("b", {1, 4000}, 1.0f)};
    add("constant_product", outer);
    add("long_name", {.nodes = {node("Relu", {"x"}, {"y"}, {}, std::string(100'000, 'n'))}});
    Message external = Message().integers(1, {4}).integer(2, float32).text(8, "w").integer(14, 1);
    external.message(13, Message().text(1, "location").text(2, "../../../../etc/" + escapes));
    add("external_data", {.nodes = {node("Add", {"x", "w"}, {"y"})}, .initializers = {external}});
    Message nested = graph({.nodes = {relu}});
    for (int i = 0; i < 2000; ++i)
        nested = graph({.nodes = {node("If", {"x"}, {"y"},
                                       {Message().text(1, "then_branch").message(6, nested).integer(20, 5)})}});
    files.push_back({"nested_graphs.onnx", model(nested, 17).bytes()});
    ModelParts all;
    all.nodes = {node("Concat", std::vector<std::string>(200'000, "x"), {"y"}, {attribute("axis", 1)})};
    files.push_back(onnx_file("two_hundred_thousand_parts", all, true));
    return files;
}

/// A sound model, which commands take as the other one.
inline Message sound_model() {
    ModelParts parts;
    std::vector<float> w, v;
    for (int i = 0; i < 8 * 4 * 9; ++i) w.push_back(static_cast<float>(i * 7 % 11 - 5) / 16.0f);
    for (int i = 0; i < 8 * 3; ++i) v.push_back(static_cast<float>(i * 5 % 7 - 3) / 4.0f);
    parts.nodes = {node("Conv", {"x", "w"}, {"c"}, {attribute("pads", std::vector<std::int64_t>{1, 1, 1, 1})}, "conv"),
                   node("Relu", {"c"}, {"r"}, {}, "relu"), node("GlobalAveragePool", {"r"}, {"a"}, {}, "pool"),
                   node("Flatten", {"a"}, {"f"}), node("Gemm", {"f", "v"}, {"y"}, {}, "fc")};
    parts.initializers = {tensor("w", {8, 4, 3, 3}, w), tensor("v", {8, 3}, v)};
    parts.inputs = {value_info("x", {-1, 4, 6, 6})};
    return model(parts);
}

/// A file cut off, lengthened, and with bits changed.
inline std::vector<HostileFile> damaged(const std::string& stem, const std::string& extension,
                                        const std::vector<std::byte>& sound, int count) {
    std::vector<HostileFile> files;
    const auto add = [&](const std::string& what, std::vector<std::byte> bytes) {
        files.push_back({stem + "_" + what + extension, std::move(bytes)});
    };
    add("cut", {sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(sound.size() * 2 / 3)});
    std::mt19937 random(20240611);
    for (int i = 0; i < count; ++i) {
        std::vector<std::byte> bytes = sound;
        for (int k = 0; k < 64; ++k) bytes[random() % bytes.size()] ^= std::byte(1u << random() % 8);
        add("bits_" + std::to_string(i), std::move(bytes));
    }
    return files;
}

/// A program file with a weight changed and the checksum mended, so that its self test alone can tell.
/// Source   docs/program_format.md, Layout
inline HostileFile other_weights(std::vector<std::byte> program) {
    std::uint64_t constants_at = 0;
    std::memcpy(&constants_at, program.data() + 40, sizeof constants_at);
    program.at(constants_at + 5) ^= std::byte{0x10};
    const std::uint32_t sum = crc32(std::span<const std::byte>(program).subspan(16));
    std::memcpy(program.data() + 12, &sum, sizeof sum);
    return {"other_weights.intq", std::move(program)};
}

/// A program file whose arena is larger than any memory.
/// Source   docs/program_format.md, Layout and Numbers
inline HostileFile huge_arena(const std::vector<std::byte>& program) {
    constexpr std::size_t header = 64, numbers_bytes = 24, constants_at = 40;
    const auto number_at = [](const std::vector<std::byte>& bytes, std::size_t place) {
        std::uint64_t value = 0;
        std::memcpy(&value, bytes.data() + place, sizeof value);
        return value;
    };
    const auto end_of_number = [&](std::size_t at) {
        while ((program.at(at) & std::byte{0x80}) != std::byte{0}) ++at;
        return at + 1;
    };
    const std::size_t first = end_of_number(header), behind = end_of_number(first);  // the batch stands before it
    const std::size_t strings_end = header + number_at(program, numbers_bytes) + number_at(program, numbers_bytes + 8);
    std::vector<std::byte> bytes(program.begin(), program.begin() + static_cast<std::ptrdiff_t>(first));
    bytes.insert(bytes.end(), 8, std::byte{0x80});
    bytes.push_back(std::byte{0x40});  // 2^61, stored twice as large
    bytes.insert(bytes.end(), program.begin() + static_cast<std::ptrdiff_t>(behind),
                 program.begin() + static_cast<std::ptrdiff_t>(strings_end));
    const std::uint64_t numbers = number_at(program, numbers_bytes) + 9 - (behind - first);
    bytes.resize((bytes.size() + 63) / 64 * 64);
    const std::uint64_t constants = bytes.size();
    bytes.insert(bytes.end(), program.begin() + static_cast<std::ptrdiff_t>(number_at(program, constants_at)),
                 program.end());
    const std::uint64_t size = bytes.size();
    std::memcpy(bytes.data() + 16, &size, sizeof size);
    std::memcpy(bytes.data() + numbers_bytes, &numbers, sizeof numbers);
    std::memcpy(bytes.data() + constants_at, &constants, sizeof constants);
    const std::uint32_t sum = crc32(std::span<const std::byte>(bytes).subspan(16));
    std::memcpy(bytes.data() + 12, &sum, sizeof sum);
    return {"huge_arena.intq", std::move(bytes)};
}

}  // namespace intq::test

#endif  // INTQ_TESTS_TOOLS_HOSTILE_MODELS_HPP
