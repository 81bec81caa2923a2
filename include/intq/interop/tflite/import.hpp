// SPDX-License-Identifier: MIT
//
// From a TFLite model of codes to a program. Layer: interop (docs/design.md section 2).
#ifndef INTQ_INTEROP_TFLITE_IMPORT_HPP
#define INTQ_INTEROP_TFLITE_IMPORT_HPP

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/interop/tflite/internal/nodes/operator_import.hpp"
#include "intq/interop/tflite/internal/read/model.hpp"
#include "intq/interop/tflite/read/limits.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/program/constant_channels.hpp"
#include "intq/program/owned_program.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

/// An input or output of an imported program.
struct ProgramEnd {
    std::string name;
    std::vector<index_t> dims;  // in TFLite's order: NHWC
    OwnedQParams qparams{};     // of codes
    bool is_real = false;       // the model has float32 here: an input is quantized by quantize_input()
    bool is_uint8 = false;      // the model has uint8 codes here, which are those of the program plus 128
    bool is_ids = false;        // int32 ids of rows of a table: of the samples (N, T), in the order of the file
};

struct ImportedProgram {
    std::shared_ptr<program::OwnedProgram> program;
    /// With all channels and operators, for whoever looks at every layer: `program` where nothing was dropped from it.
    std::shared_ptr<program::OwnedProgram> whole;
    std::vector<ProgramEnd> inputs, outputs;
};

/// The options of an import.
struct ImportOptions {
    Limits limits{};
    /// Bounds of the codes of inputs, and of tensors that operators write, by name. A proof that sums stay in 32 bits
    /// then relies on them. Each run compares the codes, and ends in an Error that names the tensor where one is out of
    /// bounds. Bounds contain 0 and the zero point.
    StatedBounds bounds{};
    /// keep for a program whose tensors are compared with those of another one.
    program::ConstantChannels constant_channels = program::ConstantChannels::drop;
};

/// Makes a program of a model whose activations are int8, uint8 or int16 codes, with the multipliers that TFLite
/// derives.
///
/// Channels that no output depends on are left out, and so are operators that would copy their input
/// (drop_constant_channels()); program::dropped_work() says what that saved.
///
/// uint8 codes are read as int8 codes: inputs, outputs, zero points and stated bounds are 128 less than in the file.
///
/// Instructions are named after the tensors that they write. The batch of the program is the first extent of the
/// model's inputs. An input of real numbers must be read by one QUANTIZE; the program takes its codes.
///
/// @param table  kernels of target::litert, target::tflite or target::tflite_single_rounding; must outlive the program.
///               litert computes the bytes of LiteRT's reference kernels
/// @throws Error naming the operator by position, name and reason: one that is not in operators.hpp, a type, shape or
///         option that a program cannot compute with the same bytes, sums that could exceed their bits, bounds of a
///         tensor that does not exist, or numbers beyond the limits
ImportedProgram import_program(const Model& model, const kernels::KernelTable& table,
                               const ImportOptions& options = {});

/// Reads and imports a file; messages begin with the path.
ImportedProgram import_file(const std::filesystem::path& path, const kernels::KernelTable& table,
                            const ImportOptions& options = {});

/// Codes of real numbers for an input, as LiteRT's QUANTIZE computes them.
///
///     q = clamp(rhaz(fdiv(x, s)) + zp)
///
/// @param x  float32, (N, C, H, W) in any layout
/// @return codes of the same shape; images are channels last. NaN becomes the zero point
Tensor quantize_input(const Tensor& x, const ProgramEnd& input);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <iterator>
#    include <optional>
#    include <string_view>
#    include <utility>

#    include "intq/arith/ieee.hpp"
#    include "intq/arith/rounding.hpp"
#    include "intq/arith/target.hpp"
#    include "intq/interop/tflite/internal/nodes/signed_codes.hpp"
#    include "intq/interop/tflite/internal/operators.hpp"
#    include "intq/interop/tflite/internal/read/names.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/program/program_builder.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

inline constexpr std::int32_t custom_code = 32, quantize_code = 114;

INTQ_INLINE const TfliteOperator* find_operator(const FileOperator& op) {
    const auto* const row = std::find_if(std::begin(tflite_operators), std::end(tflite_operators),
                                         [&](const TfliteOperator& r) { return r.code == op.code; });
    return row == std::end(tflite_operators) ? nullptr : row;
}

/// "ADD, AVERAGE_POOL_2D, …": the operators that have a function, of codes or of real numbers.
template <class Function> std::string known_operators(Function TfliteOperator::*function) {
    std::string known;
    for (const TfliteOperator& row : tflite_operators)
        if (row.*function != nullptr) known += (known.empty() ? "" : ", ") + std::string(row.name);
    return known;
}

/// `operator 3 of 12 (CONV_2D "conv1")`, named after the tensor that it writes.
INTQ_INLINE std::string describe_operator(const Model& model, const FileOperator& op) {
    const bool is_custom = op.code == custom_code && !op.custom.empty();
    std::string name = is_custom ? "custom operator " + in_quotes(op.custom) : operator_name(op.code);
    if (!op.outputs.empty() && op.outputs[0] >= 0)
        name += " " + in_quotes(model.tensors[static_cast<std::size_t>(op.outputs[0])].name);
    return "operator " + std::to_string(op.position + 1) + " of " + std::to_string(model.operators.size()) + " (" +
           name + ")";
}

class ProgramImporter {
public:
    ProgramImporter(const Model& model, const kernels::KernelTable& table, const ImportOptions& options)
        : model_(with_signed_codes(model, options.limits, signed_)),
          state_(model_, options.limits, options.bounds, table, batch_of(model)),
          constant_channels_(options.constant_channels) {
        state_.copied = signed_;
        if (!arith::takes_multipliers(table.policy().requantize))
            throw Error(std::string("a TFLite model needs kernels of the tflite family, given kernels for ") +
                        table.policy().name);
    }

    ImportedProgram run() {
        check_sizes();
        // Before any operator, because a wrong name leaves one without its bounds.
        check_bounds([&](std::string_view name) { return is_written(name); });
        for (const std::int32_t index : model_.inputs) add_input(index);
        for (const FileOperator& op : model_.operators) {
            try {
                add_operator(op);
            } catch (const Error& error) {
                throw Error(describe_operator(model_, op), error.what());
            }
        }
        check_bounds([&](std::string_view name) { return state_.stated.count(name) != 0; });
        std::vector<std::int32_t> outputs;
        for (const std::int32_t index : model_.outputs) outputs.push_back(add_output(index));
        result_.program = result_.whole = state_.builder.finish(std::move(outputs));
        if (constant_channels_ == program::ConstantChannels::drop)
            result_.program = program::drop_constant_channels(result_.whole).program;
        return std::move(result_);
    }

private:
    const FileTensor& tensor(std::int32_t index) const { return model_.tensors.at(static_cast<std::size_t>(index)); }

    static index_t batch_of(const Model& model) {
        if (model.inputs.empty() || model.inputs[0] < 0) throw Error("the model has no input");
        const FileTensor& first = model.tensors[static_cast<std::size_t>(model.inputs[0])];
        if (first.dims.empty() || first.dims[0] < 1)
            throw Error("the input " + in_quotes(first.name) + " has the shape " + describe_dims(first.dims) +
                        ", expected one whose first axis is the samples");
        return first.dtype == DType::int32 && first.dims.size() == 1 ? 1 : first.dims[0];
    }

    /// Checks the sizes of tensors that inputs and operators write: the file holds their shapes, but not their data.
    void check_sizes() const {
        index_t total = 0;
        const auto check_tensor = [&](std::int32_t index) {
            if (index < 0) return;
            const FileTensor& each = tensor(index);
            const index_t bytes = each.size() * std::max<index_t>(size_of(each.dtype), 1);
            total += bytes;
            if (each.size() < 1 || bytes > state_.limits.tensor_bytes || total > state_.limits.total_bytes)
                throw Error("the tensor " + in_quotes(each.name) + " of shape " + describe_dims(each.dims) +
                            (each.size() < 1 ? " has no elements" : " has more bytes than the limits of the import"));
        };
        for (const std::int32_t index : model_.inputs) check_tensor(index);
        for (const FileOperator& op : model_.operators)
            for (const std::int32_t index : op.outputs) check_tensor(index);
    }

    /// Whether an input, or a tensor that an operator writes, has a name.
    bool is_written(std::string_view name) const {
        const auto has_name = [&](std::int32_t index) { return index >= 0 && tensor(index).name == name; };
        return std::any_of(model_.inputs.begin(), model_.inputs.end(), has_name) ||
               std::any_of(model_.operators.begin(), model_.operators.end(), [&](const FileOperator& op) {
                   return std::any_of(op.outputs.begin(), op.outputs.end(), has_name);
               });
    }

    /// Bounds that find no tensor do not belong to the model.
    template <class Finds> void check_bounds(Finds finds) const {
        for (const auto& [name, bounds] : state_.bounds)
            if (!finds(name))
                throw Error("bounds are stated for the codes of " + in_quotes(name) +
                            ", which is no input of the model and no tensor of codes that an operator writes");
    }

    /// The QUANTIZE that reads an input of real numbers.
    const FileOperator& quantizer_of(std::int32_t index) const {
        const FileOperator* found = nullptr;
        for (const FileOperator& op : model_.operators) {
            if (std::find(op.inputs.begin(), op.inputs.end(), index) == op.inputs.end()) continue;
            if (op.code != quantize_code || found != nullptr || op.outputs.size() != 1 || op.outputs[0] < 0)
                throw Error("the input " + in_quotes(tensor(index).name) +
                            " of real numbers must be read by one QUANTIZE, and is read by " +
                            describe_operator(model_, op));
            found = &op;
        }
        if (found == nullptr) throw Error("no operator reads the input " + in_quotes(tensor(index).name));
        return *found;
    }

    void add_input(std::int32_t index) {
        if (index < 0) throw Error("an input of the model is missing");
        const FileTensor& given = tensor(index);
        if (std::find(model_.inputs.begin(), model_.inputs.end(), index) !=
            model_.inputs.begin() + static_cast<std::ptrdiff_t>(result_.inputs.size()))
            throw Error("the model has the input " + in_quotes(given.name) + " twice");
        if (given.dtype == DType::int32) return add_ids(index);
        const bool is_real = given.dtype == DType::float32;
        std::int32_t written = index;
        if (is_real) {
            const FileOperator& quantizer = quantizer_of(index);
            quantizers_.push_back(&quantizer);
            written = quantizer.outputs[0];
        }
        const FileTensor& codes = tensor(written);
        // A node that writes the codes supplies their qparams and shape, as for any operator.
        FileOperator writes;
        writes.outputs = {written};
        const OperatorImport node(state_, writes, "input");
        const OwnedQParams qparams = node.output_qparams();
        const Dims dims = node.output_dims();
        if (given.dims != codes.dims) throw Error("the QUANTIZE of an input changes its shape");
        const Shape shape = program_shape(dims);
        Shape per_sample;
        per_sample.rank = shape.rank - 1;
        for (int axis = 1; axis < shape.rank; ++axis) per_sample[axis - 1] = shape[axis];
        state_.tensors[static_cast<std::size_t>(written)] =
            state_.builder.code_input(per_sample, codes.dtype, qparams, std::string(given.name));
        state_.state_bounds(given.name, state_.tensors[static_cast<std::size_t>(written)]);
        if (is_real) state_.state_bounds(codes.name, state_.tensors[static_cast<std::size_t>(written)]);
        result_.inputs.push_back({std::string(given.name), given.dims, qparams, is_real, given.offset != 0});
    }

    /// Ids of one axis are those of one sample.
    void add_ids(std::int32_t index) {
        const FileTensor& given = tensor(index);
        const index_t samples = state_.batch;
        if (given.size() % samples != 0 || (samples > 1 && given.dims[0] != samples))
            throw Error("the input " + in_quotes(given.name) + " of shape " + describe_dims(given.dims) +
                        " does not keep axis 0, the " + std::to_string(samples) + " samples, as a program does");
        Shape per_sample;
        per_sample.rank = 1;
        per_sample[0] = given.size() / samples;
        state_.tensors[static_cast<std::size_t>(index)] = state_.builder.id_input(per_sample, std::string(given.name));
        result_.inputs.push_back({.name = std::string(given.name), .dims = given.dims, .is_ids = true});
    }

    void add_operator(const FileOperator& op) {
        if (std::find(quantizers_.begin(), quantizers_.end(), &op) != quantizers_.end()) return;
        if (computes_shapes(op)) return;
        const TfliteOperator* const row = find_operator(op);
        if (row == nullptr)
            throw Error("it is not supported; supported are " + known_operators(&TfliteOperator::import));
        if (row->options >= 0 && op.options_type != 0 && op.options_type != row->options)
            throw Error("it has the options of another operator (" + std::to_string(op.options_type) + ", expected " +
                        std::to_string(row->options) + ")");
        OperatorImport node(state_, op, row->name);
        if (row->code != quantize_code && node.has(0) && node.input().dtype == DType::float32)
            throw Error("it reads real numbers; a program of codes has no operators on them");
        check_uint8(op, *row);
        row->import(node);
    }

    /// LiteRT's kernels of uint8 codes are not those of int8 codes, and take uint8 codes alone; QUANTIZE takes both.
    void check_uint8(const FileOperator& op, const TfliteOperator& row) const {
        bool has_uint8 = false, has_others = false, has_int16 = false;
        for (const auto* const list : {&op.inputs, &op.outputs})
            for (const std::int32_t index : *list) {
                if (index < 0 || tensor(index).scales.size() == 0) continue;
                has_uint8 = has_uint8 || tensor(index).offset != 0;
                has_int16 = has_int16 || tensor(index).dtype == DType::int16;
                has_others = has_others || (tensor(index).dtype == DType::int8 && tensor(index).offset == 0);
            }
        if (has_uint8 && (!row.takes_uint8 || has_int16))
            throw Error("it has codes of uint8, for which LiteRT has no kernel, or one with other arithmetic");
        if (has_uint8 && has_others && row.code != quantize_code)
            throw Error("it has codes of uint8 and of int8, which LiteRT does not take together");
    }

    /// Whole numbers that a model computes are shapes for a RESHAPE, whose output has its own shape.
    bool computes_shapes(const FileOperator& op) const {
        return !op.outputs.empty() && std::all_of(op.outputs.begin(), op.outputs.end(), [&](std::int32_t index) {
            return index >= 0 && (tensor(index).dtype == DType::int32 || tensor(index).dtype == DType::int64);
        });
    }

    std::int32_t add_output(std::int32_t index) {
        const std::int32_t made = index < 0 ? -1 : state_.tensors[static_cast<std::size_t>(index)];
        if (made < 0) throw Error("an output of the model is made by no operator");
        const FileTensor& file = tensor(index);
        FileOperator reads;
        reads.inputs = reads.outputs = {index};
        OperatorImport node(state_, reads, "output");
        OwnedQParams qparams;
        if (file.dtype != DType::float32) qparams = node.output_qparams();
        result_.outputs.push_back(
            {std::string(file.name), file.dims, qparams, file.dtype == DType::float32, file.offset != 0});
        // A real number stays where dequantize wrote it, whatever shape a reshape chooses.
        return file.dtype == DType::float32 ? made : node.reshaped(made, node.dims(), "output");
    }

    std::uint64_t signed_ = 0;  // bytes of constants that were uint8
    Model model_;
    ProgramState state_;
    program::ConstantChannels constant_channels_;
    ImportedProgram result_;
    std::vector<const FileOperator*> quantizers_;
};

}  // namespace detail

INTQ_INLINE ImportedProgram import_program(const Model& model, const kernels::KernelTable& table,
                                           const ImportOptions& options) {
    return detail::ProgramImporter(model, table, options).run();
}

INTQ_INLINE ImportedProgram import_file(const std::filesystem::path& path, const kernels::KernelTable& table,
                                        const ImportOptions& options) {
    const Model model = read_model(path);
    try {
        return import_program(model, table, options);
    } catch (const Error& error) {
        throw Error(path.string(), error.what());
    }
}

INTQ_INLINE Tensor quantize_input(const Tensor& x, const ProgramEnd& input) {
    if (!x.defined() || x.dtype() != DType::float32)
        throw Error(input.name, "quantize_input() takes float32, given " + std::string(name_of(x.dtype())));
    if (input.is_ids) throw Error(input.name, "it takes int32 ids, which quantize_input() does not make");
    Shape expected;  // in logical order
    for (const index_t extent : input.dims) expected.extents[static_cast<std::size_t>(expected.rank++)] = extent;
    if (expected.rank > 2)
        std::rotate(expected.extents.begin() + 1, expected.extents.begin() + expected.rank - 1,
                    expected.extents.begin() + expected.rank);
    if (x.rank() == expected.rank && x.rank() > 0) expected[0] = x.extent(0);  // any number of samples
    if (!(x.shape() == expected))
        throw Error(input.name, "quantize_input() takes " + to_string(expected) + ", given " + to_string(x.shape()));
    const OwnedQParams& q = input.qparams;
    const Tensor values = x.rank() > 2 ? x.to_layout(Layout::channels_last) : x.contiguous();
    Tensor codes = Tensor::empty(x.shape(), q.dtype, values.layout());
    const auto* const from = reinterpret_cast<const float*>(values.data());
    const double zero_point = q.zero_points.empty() ? 0.0 : static_cast<double>(q.zero_points[0]);
    for (index_t i = 0; i < values.size(); ++i) {
        const double steps = static_cast<double>(arith::fdiv(from[i], q.scale()));
        const double code = steps == steps ? arith::round_half_away(steps) + zero_point : zero_point;
        const double kept = std::clamp(code, static_cast<double>(q.quant_min), static_cast<double>(q.quant_max));
        if (q.dtype == DType::int8)
            reinterpret_cast<std::int8_t*>(codes.data())[i] = static_cast<std::int8_t>(kept);
        else
            reinterpret_cast<std::int16_t*>(codes.data())[i] = static_cast<std::int16_t>(kept);
    }
    return codes;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite)
#endif  // INTQ_INTEROP_TFLITE_IMPORT_HPP
