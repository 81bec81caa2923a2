// SPDX-License-Identifier: MIT
//
// Models that golden/make_tflite_models.py wrote, as programs, against the bytes that LiteRT computed.
#ifndef INTQ_TESTS_INTEROP_TFLITE_LITERT_MODELS_HPP
#define INTQ_TESTS_INTEROP_TFLITE_LITERT_MODELS_HPP

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "intq/interop/tflite/float_model.hpp"
#include "intq/interop/tflite/import.hpp"
#include "intq/interop/tflite/internal/operators.hpp"

namespace intq::test {

using ByteList = std::vector<std::uint8_t>;

inline ByteList bytes_of_text(const std::string& digits) {
    ByteList bytes;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
        bytes.push_back(static_cast<std::uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    return bytes;
}

/// What an instruction of a name wrote last.
using WrittenBytes = std::map<std::string, ByteList>;

/// The bounds that an answer says, of a model whose sums need them; `less` narrows those of one tensor.
inline interop::tflite::ImportOptions options_of(const nlohmann::json& answer, const std::string& narrowed = "",
                                                 int less = 0) {
    interop::tflite::ImportOptions options;
    if (answer.contains("bounds"))
        for (const auto& [name, most] : answer.at("bounds").items()) {
            const std::int32_t bound = most.get<std::int32_t>() - (name == narrowed ? less : 0);
            options.bounds[name] = {-bound, bound};
        }
    return options;
}

/// A tensor with the bytes of a file, NHWC.
inline Tensor input_of_bytes(const interop::tflite::ProgramEnd& end, const ByteList& bytes) {
    const Shape shape = interop::tflite::program_shape(end.dims);
    Tensor x = Tensor::empty(end.is_ids && shape.rank == 1 ? Shape(1, shape[0]) : shape,
                             end.is_ids ? DType::int32 : end.qparams.dtype,
                             shape.rank > 2 ? Layout::channels_last : Layout::row_major);
    if (bytes.size() != static_cast<std::size_t>(x.bytes())) throw std::runtime_error("an input has other bytes");
    std::memcpy(x.data(), bytes.data(), bytes.size());
    return x;
}

inline WrittenBytes run_model(const interop::tflite::ImportedProgram& imported, const ByteList& input) {
    const Tensor x = input_of_bytes(imported.inputs.at(0), input);
    WrittenBytes written;
    const auto keep = [](void* context, const runtime::Program& p, index_t index, const void* output, index_t batch) {
        const runtime::Instruction& instruction = p.instructions[static_cast<std::size_t>(index)];
        const runtime::ProgramTensor& y = p.tensor(instruction.output);
        const auto* const from = static_cast<const std::uint8_t*>(output);
        (*static_cast<WrittenBytes*>(context))[instruction.name].assign(
            from, from + y.elements_per_image() * batch * size_of(y.dtype));
    };
    imported.whole->run(std::span<const Tensor>(&x, 1), serial, {keep, &written});
    return written;
}

/// Whether the program without channels that no output depends on has the outputs of the whole one.
inline bool dropped_nothing_needed(const interop::tflite::ImportedProgram& imported, const ByteList& input) {
    const Tensor x = input_of_bytes(imported.inputs.at(0), input);
    const auto given = imported.program->run(std::span<const Tensor>(&x, 1)),
               expected = imported.whole->run(std::span<const Tensor>(&x, 1));
    bool same = given.size() == expected.size();
    for (std::size_t i = 0; same && i < given.size(); ++i)
        same = given[i].bytes() == expected[i].bytes() &&
               std::memcmp(given[i].data(), expected[i].data(), static_cast<std::size_t>(given[i].bytes())) == 0;
    return same;
}

/// Operators that have no instruction, because they move nothing.
inline bool moves_nothing(std::int32_t code) { return code == 22 || code == 43 || code == 70; }

/// How the tensors of one model compare.
struct ModelCount {
    std::size_t tensors = 0, bytes = 0, differing = 0;
    std::vector<std::string> wrong;   // tensors with other bytes, or none
    std::set<std::string> operators;  // with the type of their output
};

inline ModelCount compare_model(const std::filesystem::path& folder, const nlohmann::json& answer,
                                const kernels::KernelTable& table) {
    namespace tflite = interop::tflite;
    const tflite::Model model = tflite::read_model(folder / (answer.at("name").get<std::string>() + ".tflite"));
    const tflite::ImportedProgram imported = tflite::import_program(model, table, options_of(answer));
    const WrittenBytes written = run_model(imported, bytes_of_text(answer.at("input").get<std::string>()));
    ModelCount count;
    if (!dropped_nothing_needed(imported, bytes_of_text(answer.at("input").get<std::string>())))
        count.wrong.emplace_back("without its constant channels the program has other outputs");
    std::set<std::string> names;
    for (const runtime::Instruction& instruction : imported.whole->program().instructions)
        if (!names.insert(instruction.name).second)
            count.wrong.push_back(std::string("two instructions have the name ") + instruction.name);
    for (const tflite::FileOperator& op : model.operators) {
        for (const std::int32_t output : op.outputs) {
            const tflite::FileTensor& y = model.tensors.at(static_cast<std::size_t>(output));
            const std::string name(y.name);
            if (moves_nothing(op.code) || y.dtype == DType::int32) continue;
            const ByteList expected = bytes_of_text(answer.at("tensors").at(name).get<std::string>());
            const auto found = written.find(name);
            const bool is_there = found != written.end() && found->second.size() == expected.size();
            std::size_t differing = is_there ? 0 : expected.size();
            for (std::size_t i = 0; is_there && i < expected.size(); ++i) differing += found->second[i] != expected[i];
            ++count.tensors;
            count.bytes += expected.size();
            count.differing += differing;
            const auto row = std::find_if(std::begin(tflite::tflite_operators), std::end(tflite::tflite_operators),
                                          [&](const tflite::TfliteOperator& r) { return r.code == op.code; });
            const std::string what =
                std::string(row != std::end(tflite::tflite_operators) ? row->name : "?") + " " + name_of(y.dtype);
            count.operators.insert(what);
            if (differing > 0)
                count.wrong.push_back(what + " " + name + ": " + std::to_string(differing) + " bytes differ");
        }
    }
    return count;
}

/// The largest difference of a model of real numbers from LiteRT's, as a part of the largest value of the output.
inline double compare_reals(const std::filesystem::path& folder, const nlohmann::json& answer) {
    namespace tflite = interop::tflite;
    const auto module = tflite::import_float_file(folder / (answer.at("name").get<std::string>() + ".tflite"));
    const auto tensor_of = [](const nlohmann::json& dims, const nlohmann::json& digits) {
        const Shape shape = tflite::program_shape(dims.get<std::vector<index_t>>());
        Tensor x = Tensor::empty(shape, DType::float32, shape.rank > 2 ? Layout::channels_last : Layout::row_major);
        const ByteList bytes = bytes_of_text(digits.get<std::string>());
        if (bytes.size() != static_cast<std::size_t>(x.bytes())) throw std::runtime_error("a tensor has other bytes");
        std::memcpy(x.data(), bytes.data(), bytes.size());
        return x.contiguous();
    };
    const nn::Value result = (*module)(nn::Value(tensor_of(answer.at("shape"), answer.at("input"))));
    double worst = 0.0;
    std::size_t i = 0;
    for (const auto& output : answer.at("outputs")) {
        const Tensor expected = tensor_of(output.at("shape"), output.at("values"));
        const Tensor given = result.is_tuple() ? result[static_cast<std::int64_t>(i)].tensor() : result.tensor();
        ++i;
        if (!(given.shape() == expected.shape()))
            throw std::runtime_error("shape " + to_string(given.shape()) + ", expected " + to_string(expected.shape()));
        const auto a = given.contiguous(), b = expected.contiguous();
        double largest = 1e-30, difference = 0.0;
        for (std::size_t k = 0; k < a.flat<float>().size(); ++k) {
            largest = std::max(largest, std::abs(static_cast<double>(b.flat<float>()[k])));
            difference = std::max(difference, std::abs(static_cast<double>(a.flat<float>()[k]) -
                                                       static_cast<double>(b.flat<float>()[k])));
        }
        worst = std::max(worst, difference / largest);
    }
    return worst;
}

inline nlohmann::json read_answers(const std::filesystem::path& folder) {
    std::ifstream file(folder / "answers.json");
    if (!file.good()) throw std::runtime_error("no answers in " + folder.string());
    return nlohmann::json::parse(file);
}

}  // namespace intq::test

#endif  // INTQ_TESTS_INTEROP_TFLITE_LITERT_MODELS_HPP
