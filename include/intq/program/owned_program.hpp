// SPDX-License-Identifier: MIT
//
// OwnedProgram: a runtime program together with the memory that it points into. Layer: program.
#ifndef INTQ_PROGRAM_OWNED_PROGRAM_HPP
#define INTQ_PROGRAM_OWNED_PROGRAM_HPP

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "intq/kernels/table/rows.hpp"
#include "intq/program/given_inputs.hpp"
#include "intq/runtime/execute.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

/// Bytes at buffer_alignment. Copies share them; threads may copy one object, and write the bytes one at a time.
class AlignedBytes {
public:
    AlignedBytes() = default;
    explicit AlignedBytes(index_t size);

    std::byte* data() const noexcept { return storage_.get(); }
    index_t size() const noexcept { return size_; }
    Workspace workspace() const noexcept { return {storage_.get(), size_}; }

private:
    std::shared_ptr<std::byte> storage_;
    index_t size_ = 0;
};

/// Everything a Program points at, at addresses that do not move. Built by ProgramBuilder in one thread, and immutable
/// once the program is made; not copied.
struct ProgramStorage {
    ProgramStorage();
    ~ProgramStorage();
    ProgramStorage(const ProgramStorage&) = delete;
    ProgramStorage& operator=(const ProgramStorage&) = delete;

    std::vector<runtime::Instruction> instructions;
    std::vector<runtime::ProgramTensor> tensors;
    std::vector<std::int32_t> operands, inputs, outputs;
    std::vector<runtime::DroppedChannel> dropped;
    std::vector<runtime::RowGroup> groups;
    std::vector<runtime::StatePair> states;
    std::deque<std::string> names;
    std::deque<std::vector<float>> scales;
    std::deque<std::vector<std::int32_t>> zero_points;
    std::deque<AlignedBytes> buffers;  // packed weights, geometries, tables
    std::deque<std::shared_ptr<const void>> params;
};

/// The arenas of a program: as many as there were runs at once, which later runs use again.
///
/// Any number of threads may use one pool.
class ArenaPool {
public:
    explicit ArenaPool(index_t arena_size);
    ArenaPool(const ArenaPool&) = delete;
    ArenaPool& operator=(const ArenaPool&) = delete;

    /// An arena of the pool, for the use of one run in one thread.
    class Lease {
    public:
        explicit Lease(ArenaPool& pool);
        ~Lease();
        Lease(const Lease&) = delete;
        Lease& operator=(const Lease&) = delete;
        std::byte* data() const noexcept { return arena_.data(); }

    private:
        ArenaPool& pool_;
        AlignedBytes arena_;
    };

    /// Arenas that exist and that no run has.
    std::size_t idle() const;

private:
    index_t arena_size_;
    mutable std::mutex mutex_;
    std::vector<AlignedBytes> idle_;
    std::size_t arenas_ = 1;  // that exist
};

/// A program, its storage, the kernels that it was packed for, and arenas to run in.
///
/// Immutable, so any number of threads may run one object; runs at the same time take an arena each.
class OwnedProgram {
public:
    OwnedProgram(std::unique_ptr<ProgramStorage> storage, const runtime::Program& program,
                 const kernels::KernelTable& table);

    const runtime::Program& program() const noexcept { return program_; }
    const kernels::KernelTable& table() const noexcept { return *table_; }
    index_t max_batch() const noexcept { return program_.max_batch; }

    /// Bytes of packed weights, bias and requantize words.
    index_t packed_bytes() const noexcept;
    /// Bytes of an arena; runs at the same time have one each.
    index_t arena_bytes() const noexcept { return program_.arena_size; }

    /// Runs samples in batches of at most max_batch. An input that only quantize reads is not copied into the arena.
    ///
    /// @param inputs  one for each input of the program, (N, …) with the same N, in any layout
    /// @param hook    called after every instruction of every batch, by the thread that runs; it must not throw
    /// @return one tensor of N samples for each output, logical order, row_major
    /// @throws Error for other inputs, for a program that is packed for another machine, and for codes outside bounds
    /// that
    ///         were stated for a tensor, which it names
    std::vector<Tensor> run(std::span<const Tensor> inputs, const Executor& executor = serial,
                            runtime::InstructionHook hook = {}) const;
    /// The same for one input and one output.
    ///
    /// @throws Error for a program with another number of them
    Tensor run(const Tensor& input, const Executor& executor = serial, runtime::InstructionHook hook = {}) const;

private:
    std::unique_ptr<ProgramStorage> storage_;
    runtime::Program program_;
    std::vector<runtime::ProgramTensor> tensors_;  // of runs_
    runtime::Program runs_;                        // program_, with inputs that are read where their tensors have them
    const kernels::KernelTable* table_;
    mutable ArenaPool arenas_;
};

/// Throws for a table that describes the kernels of another machine.
void require_kernels(const kernels::KernelTable& table);

/// An input as a program reads it, in the layout and the type of its tensor.
///
/// @pre  check_inputs()
Tensor as_read(const runtime::ProgramTensor& x, const Tensor& input);

/// Throws for a tensor that left bounds that were stated for it.
[[noreturn]] void throw_broken_bounds(const runtime::Program& program, const runtime::RunResult& result);

/// The number of samples N of inputs (N, …), one for each input of a program.
///
/// @throws Error where their number, a shape or a dtype is not the program's
index_t check_inputs(const runtime::Program& program, std::span<const Tensor> inputs);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program)

#    include <algorithm>
#    include <cstring>
#    include <utility>

#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE Shape with_batch(Shape shape, index_t batch) {
    shape[0] = batch;
    return shape;
}

[[noreturn]] INTQ_INLINE void throw_wrong_id(const runtime::ProgramTensor& ids, std::int64_t given) {
    throw Error("the input " + in_quotes(ids.name) + " holds " + std::to_string(given) + ", expected " +
                std::to_string(ids.qparams.quant_min()) + " to " + std::to_string(ids.qparams.quant_max()));
}

}  // namespace detail

INTQ_INLINE void throw_broken_bounds(const runtime::Program& program, const runtime::RunResult& result) {
    const runtime::ProgramTensor& tensor = program.tensor(result.tensor);
    if (tensor.dtype == DType::int32) detail::throw_wrong_id(tensor, result.code);
    throw Error("the tensor " + in_quotes(tensor.name) + " holds the code " + std::to_string(result.code) +
                ", and the bounds that were stated for its codes are " + std::to_string(tensor.qparams.quant_min()) +
                " and " + std::to_string(tensor.qparams.quant_max()) +
                ": the sums of a layer that reads it could overflow");
}

INTQ_INLINE void require_kernels(const kernels::KernelTable& table) {
    if (!table.runs())
        throw Error(std::string("the program is packed for ") + table.backend +
                    ", whose kernels do not run here; deploy::pack_program() packs it for others");
}

namespace detail {

/// Integers of 64 bits as the program reads them.
INTQ_INLINE Tensor ids_of(const runtime::ProgramTensor& x, const Tensor& given) {
    const Tensor from = given.contiguous();
    Tensor ids = Tensor::empty(given.shape(), DType::int32);
    for (std::size_t i = 0; i < ids.flat<std::int32_t>().size(); ++i) {
        const std::int64_t id = from.flat<std::int64_t>()[i];
        if (id < x.qparams.quant_min() || id > x.qparams.quant_max()) throw_wrong_id(x, id);
        ids.flat<std::int32_t>()[i] = static_cast<std::int32_t>(id);
    }
    return ids;
}

}  // namespace detail

INTQ_INLINE Tensor as_read(const runtime::ProgramTensor& x, const Tensor& input) {
    if (input.dtype() == DType::int64) return detail::ids_of(x, input);
    return input.to_layout(input.dtype() == DType::float32 ? Layout::row_major : x.layout);
}

INTQ_INLINE index_t check_inputs(const runtime::Program& program, std::span<const Tensor> inputs) {
    if (inputs.size() != program.inputs.size())
        throw Error("the program takes " + std::to_string(program.inputs.size()) + " inputs, given " +
                    std::to_string(inputs.size()));
    const index_t total = inputs[0].rank() > 0 ? inputs[0].shape()[0] : 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const runtime::ProgramTensor& x = program.tensor(program.inputs[i]);
        if (!inputs[i].defined())
            throw Error("input " + std::to_string(i) + " of the program is an undefined tensor; expected " +
                        name_of(x.dtype) + " of shape " + to_string(detail::with_batch(x.shape, -1)));
        const bool is_type =
            inputs[i].dtype() == x.dtype || (x.dtype == DType::int32 && inputs[i].dtype() == DType::int64);
        if (i > 0 && is_type && inputs[i].rank() == x.shape.rank && total >= 0 &&
            inputs[i].shape() == detail::with_batch(x.shape, inputs[i].extent(0)) && inputs[i].extent(0) != total)
            throw Error("input " + std::to_string(i) + " of the program, " + in_quotes(x.name) + ", has " +
                        std::to_string(inputs[i].extent(0)) + " samples, and input 0 has " + std::to_string(total) +
                        "; all take the same number");
        if (!is_type || inputs[i].rank() != x.shape.rank || !(inputs[i].shape() == detail::with_batch(x.shape, total)))
            throw Error("the program takes " + std::string(name_of(x.dtype)) + " of shape " +
                        to_string(detail::with_batch(x.shape, -1)) + ", given " + name_of(inputs[i].dtype()) +
                        " of shape " + to_string(inputs[i].shape()));
    }
    return total;
}

INTQ_INLINE std::vector<Tensor> OwnedProgram::run(std::span<const Tensor> inputs, const Executor& executor,
                                                  runtime::InstructionHook hook) const {
    require_kernels(*table_);
    if (hook.function != nullptr && !runtime::check_observable(program_))
        throw Error(
            "a program that runs by rows has no whole tensors to look at; look at one that was lowered without");
    const index_t total = check_inputs(program_, inputs);
    std::vector<Tensor> rows, results;
    for (const Tensor& input : inputs) {
        rows.push_back(as_read(program_.tensor(program_.inputs[rows.size()]), input));
    }
    for (const std::int32_t out : program_.outputs) {
        const runtime::ProgramTensor& y = program_.tensor(out);
        results.push_back(Tensor::empty(detail::with_batch(y.shape, total), y.dtype, y.layout));
    }
    const auto bytes_per_sample = [&](std::int32_t tensor) {
        return program_.tensor(tensor).bytes() / program_.max_batch;
    };
    const ArenaPool::Lease arena(arenas_);
    std::vector<const void*> given(rows.size());
    for (index_t first = 0; first < total; first += program_.max_batch) {
        const index_t batch = (std::min)(program_.max_batch, total - first);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const std::int32_t in = program_.inputs[i];
            given[i] = rows[i].data() + first * bytes_per_sample(in);
            if (!runs_.tensor(in).is_given())
                std::memcpy(runtime::tensor_data(runs_, arena.data(), in), given[i],
                            static_cast<std::size_t>(batch * bytes_per_sample(in)));
        }
        const auto result = runtime::execute(runs_, *table_, arena.data(), batch, executor, hook, given.data());
        if (!result) throw_broken_bounds(program_, result);
        for (std::size_t i = 0; i < results.size(); ++i) {
            const std::int32_t out = program_.outputs[i];
            std::memcpy(results[i].data() + first * bytes_per_sample(out),
                        runtime::tensor_data(runs_, arena.data(), out),
                        static_cast<std::size_t>(batch * bytes_per_sample(out)));
        }
    }
    for (Tensor& result : results) result = result.contiguous();
    return results;
}

INTQ_INLINE AlignedBytes::AlignedBytes(index_t size)
    : storage_(tensor_detail::allocate_aligned(static_cast<std::size_t>(size))), size_(size) {}

INTQ_INLINE ArenaPool::ArenaPool(index_t arena_size) : arena_size_(arena_size) { idle_.emplace_back(arena_size); }

INTQ_INLINE std::size_t ArenaPool::idle() const {
    const std::lock_guard lock(mutex_);
    return idle_.size();
}

INTQ_INLINE ArenaPool::Lease::Lease(ArenaPool& pool) : pool_(pool) {
    {
        const std::lock_guard lock(pool.mutex_);
        if (!pool.idle_.empty()) {
            arena_ = std::move(pool.idle_.back());
            pool.idle_.pop_back();
            return;
        }
    }
    arena_ = AlignedBytes(pool.arena_size_);
    // Room for its return, which may not fail.
    const std::lock_guard lock(pool.mutex_);
    pool.idle_.reserve(++pool.arenas_);
}

INTQ_INLINE ArenaPool::Lease::~Lease() {
    const std::lock_guard lock(pool_.mutex_);
    pool_.idle_.push_back(std::move(arena_));
}

INTQ_INLINE ProgramStorage::ProgramStorage() = default;
INTQ_INLINE ProgramStorage::~ProgramStorage() = default;

INTQ_INLINE OwnedProgram::OwnedProgram(std::unique_ptr<ProgramStorage> storage, const runtime::Program& program,
                                       const kernels::KernelTable& table)
    : storage_(std::move(storage)),
      program_(program),
      tensors_(give_inputs(program)),
      runs_(program),
      table_(&table),
      arenas_(program.arena_size) {
    runs_.tensors = tensors_;
}

INTQ_INLINE index_t OwnedProgram::packed_bytes() const noexcept {
    index_t total = 0;
    for (const AlignedBytes& buffer : storage_->buffers) total += buffer.size();
    return total;
}

INTQ_INLINE Tensor OwnedProgram::run(const Tensor& input, const Executor& executor,
                                     runtime::InstructionHook hook) const {
    if (program_.outputs.size() != 1)
        throw Error("the program has " + std::to_string(program_.outputs.size()) +
                    " outputs; run it on a span of inputs, which returns all of them");
    return run(std::span<const Tensor>(&input, 1), executor, hook).front();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_OWNED_PROGRAM_HPP
