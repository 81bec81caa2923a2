// SPDX-License-Identifier: MIT
//
// Writes headers of programs that hold every operator between them, for several targets, and of programs of TFLite
// files, into a folder:
//
//     <name>.hpp            the generated header
//     operators.hpp         all of them, with what the program gives where it was made
//
// It fails where an operator is in none of them.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "intq/arith/litert.hpp"
#include "intq/deploy/generate_cpp.hpp"
#include "intq/interop/tflite/import.hpp"
#include "intq/io/error.hpp"
#include "intq/io/file.hpp"
#include "kernels/tables/tables.hpp"
#include "runtime/fill_ids.hpp"
#include "runtime/operator_program.hpp"
#include "runtime/small_program.hpp"

namespace {

using namespace intq;

/// A program of the tests with a batch of one, which a header is for; it points into `tensors`.
runtime::Program for_one_image(const runtime::Program& program, std::vector<runtime::ProgramTensor>& tensors) {
    tensors.assign(program.tensors.begin(), program.tensors.end());
    for (runtime::ProgramTensor& tensor : tensors) tensor.shape.extents[0] /= program.max_batch;
    runtime::Program one = program;
    one.tensors = tensors;
    one.max_batch = 1;
    return one;
}

Tensor draw_input(const runtime::ProgramTensor& tensor, test::Draw& draw) {
    Tensor input = Tensor::empty(tensor.shape, tensor.dtype, tensor.layout);
    if (test::fill_ids(tensor, input.data(), draw)) return input;
    if (tensor.dtype == DType::float32)
        for (index_t i = 0; i < tensor.shape.size(); ++i)
            reinterpret_cast<float*>(input.data())[i] = draw.real(-3.0f, 3.0f);
    else
        for (index_t i = 0; i < input.bytes(); ++i) input.data()[i] = static_cast<std::byte>(draw.bits());
    return input;
}

class Writer {
public:
    explicit Writer(const std::filesystem::path& folder) : folder_(folder) {}

    void write(const std::string& name, const runtime::Program& program, const kernels::KernelTable& table) {
        std::vector<runtime::ProgramTensor> tensors;
        const program::OwnedProgram owned(std::make_unique<program::ProgramStorage>(), for_one_image(program, tensors),
                                          table);
        for (const runtime::Instruction& step : program.instructions) seen_.insert(step.op);
        test::Draw draw(3);
        std::vector<Tensor> inputs;
        for (const std::int32_t input : program.inputs)
            inputs.push_back(draw_input(tensors[static_cast<std::size_t>(input)], draw));
        const deploy::GoldenRecord golden = deploy::record_golden_runs(owned, inputs);
        io::write_file(folder_ / (name + ".hpp"), deploy::generate_cpp(owned.program(), table, golden, {.name = name}));
        includes_ += "#include \"" + name + ".hpp\"\n";
        expected_ += "inline constexpr std::uint8_t " + name + "_outputs[] = {";
        for (const std::byte byte : golden.outputs) expected_ += std::to_string(static_cast<int>(byte)) + ",";
        expected_ += "};\n";
        models_ += " MODEL(" + name + ")";
    }
    /// @throws Error for an operator that no header has
    void finish() const {
        for (const kernels::ProgramOperator& row : kernels::program_operators)
            if (!seen_.contains(row.op)) throw Error("no header has the operator " + std::string(name_of(row.op)));
        io::write_file(folder_ / "operators.hpp", "// SPDX-License-Identifier: MIT\n" + includes_ + expected_ +
                                                      "#define INTQ_MODELS(MODEL)" + models_ + "\n");
    }

private:
    std::filesystem::path folder_;
    std::set<OpKind> seen_;
    std::string includes_, expected_, models_;
};

template <class TargetType>
void write_target(Writer& writer, const std::string& name, const test::oracle::Target& oracle) {
    const kernels::KernelTable& table = test::scalar_table<TargetType>();
    const test::OperatorProgram operators(table);
    writer.write("operators_" + name, operators.program(), table);
    const test::SmallProgram small(table, oracle);
    writer.write("small_" + name, small.program(), table);
}

/// What TFLite files alone bring: its curve, and its interpolation.
void write_imported(Writer& writer, const std::string& name) {
    const auto file = std::filesystem::path(INTQ_TESTS_DIR) / "golden" / "tflite" / (name + ".tflite");
    const kernels::KernelTable& table = test::scalar_table<target::litert>();
    const auto imported = interop::tflite::import_file(file, table);
    writer.write(name, imported.program->program(), table);
}

}  // namespace

int main(int count, char** arguments) try {
    if (count != 2) {
        std::fprintf(stderr, "usage: make_operators <folder>\n");
        return 2;
    }
    io::make_folder(arguments[1]);
    Writer writer(arguments[1]);
    namespace oracle = test::oracle;
    write_target<target::tflite<>>(writer, "tflite", oracle::tflite_double());
    write_target<target::bpu<march::bayes>>(writer, "bayes", oracle::bayes());
    write_target<target::fp32>(writer, "fp32", oracle::fp32());
    for (const char* const name : {"curves_int16", "wide_leaks_int16", "bilinear_int8"}) write_imported(writer, name);
    writer.finish();
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
