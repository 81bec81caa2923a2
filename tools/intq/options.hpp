// SPDX-License-Identifier: MIT
//
// What the commands of intq share: the model and its data, the kernels, and how results are printed.
#ifndef INTQ_TOOLS_INTQ_OPTIONS_HPP
#define INTQ_TOOLS_INTQ_OPTIONS_HPP

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "help.hpp"
#include "intq/intq.hpp"

namespace intq_tool {

using intq::Error;
using intq::Tensor;

/// What a model or a program takes as one of its inputs.
struct InputInfo {
    std::string name;
    std::vector<intq::index_t> extents{};  // -1 for an open one; empty: not said
    bool takes_ids = false;                // integers
    bool is_mask = false;                  // 0 and 1 alone
};

/// A tensor for each input of a model, with one number of samples.
using Samples = std::vector<Tensor>;

/// The first samples of each input.
Samples first_of(const Samples& samples, intq::index_t count);

/// How bytes become the values that a network was trained on.
struct NormalizeOptions {
    std::vector<float> mean, deviation;  // one number, or one a channel

    void add_to(CLI::App& command);
};

/// Finite float32 samples (N, ...) of a .npy file, or of a folder of pictures.
///
/// @param input  extents of the model's input, see InputInfo
/// @param count  the first samples that are read; 0: all
Tensor read_samples(const std::string& path, const NormalizeOptions& normalize, const std::vector<intq::index_t>& input,
                    intq::index_t count = 0);

struct ProgramFile;

/// What a program takes as one of its inputs: real numbers, pixels, or codes, which are made of real numbers.
struct ProgramInput {
    InputInfo info;
    intq::DType dtype;
    std::function<Tensor(const Tensor&)> codes_of;  // empty where the input is no codes
};

/// Images or other samples, as the options of a command name them.
struct DataOptions {
    std::vector<std::string> words;  // a file or folder, an archive, or NAME=FILE for each input
    NormalizeOptions normalize;
    int count = 0;  // 0: all

    void add_to(CLI::App& command, const std::string& what, bool is_required = true);
    bool is_given() const { return !words.empty(); }
    /// The files that the words name, whatever the inputs.
    std::vector<std::string> paths() const;
    Samples read(const std::vector<InputInfo>& inputs) const;
    /// Images as they are stored, of a model of one input.
    Samples read_pixels(const std::vector<InputInfo>& inputs) const;
    /// What a program takes; codes are taken as they are stored, or made of real numbers.
    Samples read_as(const std::vector<ProgramInput>& inputs) const;
    Samples read_for(const ProgramFile& program) const;
};

/// --weight-dtype
void add_weight_dtype(CLI::App& command, std::string& weight_dtype);

/// How a model is quantized.
struct QuantizeOptions {
    std::string target = "fp32", dtype = "int8", weight_dtype = "int8", scheme, observer, preset, sensitive_operators;
    std::string costs;
    std::optional<double> most_seconds, most_loss;
    std::vector<std::string> int16, in_float;
    int top_k = 0, adaround_iterations = intq::improve::AdaRoundOptions().iterations;
    bool equalize = false, correct_bias = false, adaround = false;

    void add_to(CLI::App& command);
    /// One type for all layers, and nothing that changes weights for long.
    void set_uniform(const std::string& type);
    const intq::kernels::KernelTable& table(const std::string& backend = {}) const;
    /// @param type  "int8" or "int16", whose weights are of `weight_dtype`
    intq::quantization::QConfig qconfig(const std::string& type) const;
    /// Adds the layers of the preset to those in int16.
    /// @param model  before it is fused
    /// @return them; none without a preset
    std::vector<intq::quantization::StreamLayer> apply_preset(const intq::nn::Module& model);
    intq::quantization::QConfigMapping mapping() const;
};

/// The names that --target takes.
std::vector<std::string> target_names();
/// The kernels of a target on a backend; on the best that this CPU runs for an empty name.
const intq::kernels::KernelTable& find_table(const std::string& target, const std::string& backend = {});

/// The machine that a program is packed for.
struct PackingOptions {
    std::string backend, cpu;
    std::string mode;         // --rows; empty: as the program runs already
    intq::index_t arena = 0;  // --arena
    intq::index_t cache = 0;  // --cache

    /// --backend and --cpu, which exclude each other.
    ///
    /// @param otherwise  says what holds without them; empty: one of both is needed
    void add_to(CLI::App& command, const std::string& otherwise);
    bool is_given() const { return !backend.empty() || !cpu.empty(); }
    /// The backend that the options name; `otherwise` where they name none.
    std::string backend_or(const std::string& otherwise) const;
    /// --rows, --arena, which asks for rows, and --cache, which those for speed need.
    void add_rows_to(CLI::App& command);
    /// @throws CLI::ParseError for an arena without rows for memory, and for a cache without rows for speed
    void check_rows() const;
    /// Whether the program is to run otherwise than it does.
    bool changes_rows() const { return !mode.empty() || arena > 0; }
    intq::program::RowOptions rows() const;
    /// @throws Error for a program whose arena is larger than --arena
    void require_arena(const std::string& path, const intq::runtime::Program& program) const;
};
/// Whether this program holds the kernels of a backend, and this CPU executes them.
bool runs_here(const std::string& backend);
/// A program packed for a backend, which runs by rows as options say: itself where it is that already.
///
/// @param backend  of simd/base/backends.hpp
std::shared_ptr<intq::program::OwnedProgram> packed_for(std::shared_ptr<intq::program::OwnedProgram> program,
                                                        const std::string& backend, const PackingOptions& options);

/// An ONNX model with stubs at its inputs and outputs, and what its file says of them.
struct FloatModel {
    std::shared_ptr<intq::graph::GraphModule> module;
    std::vector<InputInfo> inputs;
    std::vector<std::string> outputs;  // names
    bool is_quantized = false;         // it holds quantizers
    std::uintmax_t file_bytes = 0;     // without external data
};
FloatModel read_model(const std::string& path);
/// The file alone, which import_model() may refuse; throws for a file of another kind.
intq::interop::onnx::Model read_onnx(const std::string& path);
/// What a file says of its inputs.
std::vector<InputInfo> inputs_of(const intq::interop::onnx::Model& file);
/// Throws for a file that holds quantized operators, which are quantized already.
void require_unquantized(const std::string& path, const intq::interop::onnx::Model& file);
/// The same; throws for a model that holds quantized operators, which are quantized already.
FloatModel read_unquantized_model(const std::string& path);
/// Throws for a model of several inputs or outputs, where a command takes one.
void require_one_input_and_output(const std::string& path, const FloatModel& model);
/// The outputs of the model in float, some samples at a time.
std::vector<Tensor> run_float(intq::graph::GraphModule& model, const Samples& samples, intq::index_t batch = 16);
/// Throws for a model that takes memory or time out of all proportion to its file and a sample, before it takes them;
/// and for such a program, or one that shall be lowered for a batch.
void require_proportion(const std::string& path, const FloatModel& model, std::span<const Tensor> samples);
void require_proportion(const std::string& path, const intq::runtime::Program& program);
void require_proportion(const std::string& path, const intq::quantization::QuantizedGraph& model, intq::index_t batch);

/// A program with its golden runs, and the kernels that run it.
struct ProgramFile {
    intq::quantization::LoweredModel lowered;
    intq::runtime::GoldenRuns golden{};  // they live as long as the program
    const intq::kernels::KernelTable* table = nullptr;
    std::vector<std::string> names_of_outputs{};  // in the model that it was made of; empty: those of the program
    /// Of a file that is packed for kernels which do not run here: its program, of which `lowered` is a copy for
    /// kernels that do, and what it is packed for. Null for others.
    std::shared_ptr<intq::program::OwnedProgram> of_board{};
    std::shared_ptr<const intq::kernels::KernelTable> board{};
    std::string packed_for = table == nullptr ? "" : table->backend;  // what its file says

    /// The program as its file holds it.
    const intq::program::OwnedProgram& as_written() const { return of_board ? *of_board : lowered.program(); }

    bool keeps_state() const { return !lowered.program().program().states.empty(); }
    /// Inputs and outputs count those that are no state, which stays in the program.
    std::vector<InputInfo> inputs() const;
    /// Names of its outputs; of several with one name, the later ones get a number.
    std::vector<std::string> outputs() const;
    intq::DType input_type(std::size_t input) const;
    /// Whether an input is pixels; a program of pixels has no other input.
    bool takes_pixels() const { return input_type(0) == intq::DType::uint8; }
    /// Whether an input is int8 or int16 codes, as those of most TFLite models are.
    bool takes_codes(std::size_t input) const;
    /// Codes of real samples, as LiteRT quantizes them.
    Tensor codes_of(std::size_t input, const Tensor& samples) const;
    /// Its outputs on samples; of a program that keeps state, the samples are the steps of one sequence.
    std::vector<Tensor> run(const Samples& samples) const;
    /// Its outputs as real numbers.
    ///
    /// @pre  it keeps no state
    /// @param samples  what the program takes, or real numbers for inputs that are codes
    std::vector<Tensor> run_real(const Samples& samples) const;
};

/// How a model becomes a program.
struct ProgramChoice {
    std::string backend{};              // empty: the best of this CPU
    std::string target{};               // of a TFLite model; empty: litert
    intq::index_t batch = 1;            // of an ONNX model
    std::vector<std::string> bounds{};  // of codes of a TFLite model: NAME=LOWEST:HIGHEST
    intq::program::ConstantChannels constant_channels = intq::program::ConstantChannels::drop;
};
/// Throws for a program whose self test fails: it computes something else than where it was made.
void require_self_test(const std::string& path, const ProgramFile& file);
/// What a self test says: "passed", or where it fails.
std::string self_test(const ProgramFile& file);
bool passes_self_test(const ProgramFile& file);
/// A program file with the best kernels of this CPU that read it, or those of one backend: the argument, or else
/// INTQ_BACKEND, names it. Where they do not read it, a copy of its program is packed for them.
ProgramFile read_program_file(const std::string& path, const std::string& backend = {});
/// A program file, a quantized ONNX model, which is lowered for fp32, or a TFLite model.
ProgramFile read_runnable(const std::string& path, const ProgramChoice& choice);

/// What read_runnable() takes, for a help text.
inline constexpr const char* runnable_help =
    "program file (.intq), quantized ONNX model (.onnx), or TFLite model of codes (.tflite)";
/// Adds --target, which chooses the arithmetic of a TFLite model.
void add_tflite_options(CLI::App& command, std::string& target, std::vector<std::string>& bounds);

/// Whether a file begins as a program file does.
bool is_program_file(const std::string& path);

/// Whether two paths are or will be one file.
bool is_same_file(const std::string& a, const std::string& b);

/// Throws before a long work for an output that could not be written behind it, or that is one of the inputs.
void require_writable(const std::string& path, const std::vector<std::string>& inputs);

/// A whole number above 0, as large as an int is.
CLI::Validator above_zero();
/// A finite number: an empty word is none.
CLI::Validator a_number();
/// The name of a backend of the library, whether or not this program holds its kernels.
CLI::Validator a_backend();

/// An option that promises accuracy, and what became of it.
struct Improvement {
    std::string name, choice;
};

/// What prepare() has to say of its model.
struct PrepareNotes {
    std::vector<Improvement> improvements;
    std::vector<intq::quantization::StreamLayer> stream;  // that the preset keeps in int16
    std::vector<intq::quantization::StreamLayer> left;    // norms that it leaves in int8
    intq::quantization::CalibrationReport calibration;
};

/// Fused, calibrated on the samples, and improved as the options say where that is better on some of the samples that
/// are held back for it.
///
/// @param notes  null, or where it says what became of each option, and what the calibration found
std::shared_ptr<intq::quantization::PreparedModel> prepare(const intq::graph::GraphModule& model,
                                                           const Samples& calibration, const QuantizeOptions& options,
                                                           PrepareNotes* notes = nullptr);

/// A result as lines for people, or as one JSON object.
class Report {
public:
    explicit Report(bool is_json) : is_json_(is_json) {}
    void text(const std::string& name, const std::string& value);
    void number(const std::string& name, double value, const std::string& unit = {});
    void count(const std::string& name, long long value, const std::string& unit = {});
    using Columns = std::vector<intq::io::TextTable::Column>;
    /// A list of rows with the same columns. In JSON, cells of columns that are aligned to the right are numbers.
    ///
    /// @param title  the line above, for people
    void table(const std::string& name, const Columns& columns, const std::vector<std::vector<std::string>>& rows,
               const std::string& title = {});
    /// What a program leaves out; nothing where it leaves out nothing.
    void dropped(const intq::program::DroppedWork& work);
    /// The constants of a program by kind, and their sum.
    void flash(const intq::runtime::Program& program, const intq::kernels::KernelTable& table);
    /// The layers of a program with int16 weights, and what their weights take; nothing where it has none.
    void int16_weights(const intq::runtime::Program& program);
    /// What became of the improvements.
    void improvements(const PrepareNotes& notes);
    /// A table of what the calibration warns of, where it does.
    void warnings(const PrepareNotes& notes);
    void print() const;
    bool is_json() const { return is_json_; }

private:
    bool is_json_;
    std::string lines_;
    intq::io::JsonObject members_{intq::io::JsonStyle::spaced};
};

/// A number with a format of printf.
std::string digits(const char* format, double value);

/// What a command does once its options are read; gives the exit code.
using Action = std::function<int()>;

void add_quantize(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_profile(CLI::App& app, Action& action);
void add_codegen(CLI::App& app, Action& action);
void add_pack(CLI::App& app, Action& action);
void add_info(CLI::App& app, Action& action);
void add_targets(CLI::App& app, Action& action);
/// All that the program has.
void add_commands(CLI::App& app, Action& action);

}  // namespace intq_tool

#endif  // INTQ_TOOLS_INTQ_OPTIONS_HPP
