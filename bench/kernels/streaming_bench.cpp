// SPDX-License-Identifier: MIT
//
// Kernels that stream memory: our kernels, oneDNN's and the two things that limit them, in alternating samples of one
// process, one thread.
//
// Labels: op/types/granularity/rule/backend/elements. Limits of a row, measured in the same rounds on other memory:
//
//     memory        a loop that reads and writes as many bytes in the same proportion, and computes nothing
//     instructions  the vector instructions of our loop at the rate at which the core completes the plainest ones
//
// A backend whose bytes differ from scalar's is not measured: the bench ends with an error.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "intq/io/text_table.hpp"
#include "peers/peer.hpp"
#include "streaming_cases.hpp"
#include "support/benchmarks.hpp"
#include "support/machine.hpp"

namespace {

using namespace intq_bench;
using intq::index_t;
using intq::Size2d;
using intq::Window2d;

// --- limits ----------------------------------------------------------------------------------------------------------
using Bytes = Buffer<std::int8_t>;
using WideLanes = intq::simd::lanes<intq::simd::default_backend>;
constexpr index_t width = WideLanes::packed_width<std::int8_t>();

/// Reads `Reads` vectors and writes `Writes`, again and again; returns what keeps the reads alive.
template <int Reads, int Writes> void move_bytes(const std::int8_t* from, std::int8_t* to, index_t blocks) {
    using L = WideLanes;
    auto kept = L::set_packed(std::int8_t{-128});
    for (index_t block = 0; block < blocks; ++block) {
        auto block_kept = L::load_packed(from);
        intq::simd::unroll<Reads - 1>(
            [&](auto i) { block_kept = L::max_packed(block_kept, L::load_packed(from + (i + 1) * width)); });
        intq::simd::unroll<Writes>([&](auto i) { L::store_packed(to + i * width, block_kept); });
        if constexpr (Writes == 0) kept = L::max_packed(kept, block_kept);
        from += Reads * width;
        to += Writes * width;
    }
    if constexpr (Writes == 0) L::store_packed(to, kept);
    asm volatile("" : : "r"(to) : "memory");
}

/// A proportion of bytes read to bytes written, as vectors of a block.
struct Mix {
    int reads, writes;
    void (*run)(const std::int8_t*, std::int8_t*, index_t blocks);
};
constexpr Mix mixes[] = {{4, 1, move_bytes<4, 1>}, {1, 4, move_bytes<1, 4>}, {1, 1, move_bytes<1, 1>},
                         {2, 1, move_bytes<2, 1>}, {1, 2, move_bytes<1, 2>}, {4, 0, move_bytes<4, 0>}};

const Mix& mix_of(const Case& kernel) {
    for (const Mix& mix : mixes)
        if (kernel.written_bytes * mix.reads == kernel.read_bytes * mix.writes) return mix;
    return mixes[std::size(mixes) - 1];  // what is written, is next to nothing
}

/// Vector instructions that a loop spends on 64 elements with AVX-512: those that compute, with an operand in memory or
/// without; not moves, loads and stores. Read from the disassembly of this file as g++ 12 compiles it.
struct InstructionCount {
    const char* label;
    double of_64;
};
constexpr InstructionCount instruction_counts[] = {
    {"quantize/", 18},
    {"dequantize/", 16},
    {"fake_quantize/", 28},
    {"fake_quantize_backward/", 28},
    {"lsq_backward/", 112},
    {"min_max/", 12},
    {"add/s8s8s8/per_tensor/fp32", 42},
    {"add/s8s8s8/per_tensor/tflite", 237},
    {"add/s8s8s8/per_tensor/bayes", 64},
    {"requantize/", 16},
    {"relu/", 2},
    {"lookup_table/s8s8/", 16},
    {"interpolate/s8/bilinear", 80},
    {"avg_pool2d/s8/2x2_s2/bayes", 16},
    {"avg_pool2d/s8/2x2_s2/fp32", 12},
    {"avg_pool2d/s8/global", 4},
};

double instructions_of_64(const std::string& label) {
    for (const InstructionCount& count : instruction_counts)
        if (label.starts_with(count.label)) return count.of_64;
    return 0.0;
}

// --- peers -----------------------------------------------------------------------------------------------------------
struct PeerOf {
    const char* label;
    StreamingOp op;
    Window2d window;
};
constexpr PeerOf peers_of[] = {
    {"quantize/f32s8/per_tensor", StreamingOp::quantize, {}},
    {"dequantize/s8f32/per_tensor", StreamingOp::dequantize, {}},
    {"add/s8s8s8/per_tensor/fp32", StreamingOp::add, {}},
    {"max_pool2d/s8/2x2_s2", StreamingOp::max_pool, {{2, 2}, {2, 2}, {}, {1, 1}}},
    {"max_pool2d/s8/3x3_s2", StreamingOp::max_pool, {{3, 3}, {2, 2}, {}, {1, 1}}},
    {"avg_pool2d/s8/2x2_s2/fp32", StreamingOp::avg_pool, {{2, 2}, {2, 2}, {}, {1, 1}}},
    {"avg_pool2d/s8/global/fp32", StreamingOp::avg_pool, {{32, 32}, {1, 1}, {}, {1, 1}}},
};

std::vector<PeerCase> peer_cases(const Case& kernel, index_t n) {
    for (const PeerOf& peer : peers_of)
        if (kernel.label == peer.label)
            return onednn_streaming_cases(peer.op,
                                          {n / (image.height * image.width * channels), channels, image, peer.window});
    return {};
}

// --- rows ------------------------------------------------------------------------------------------------------------
struct StreamingRow {
    std::string label, size;
    double elements = 0.0, bytes = 0.0;
    double seconds = 0.0, spread = 0.0;
    double memory_seconds = 0.0;  // of the loop that moves as many bytes
    double part_of_memory = 0.0;
    std::optional<double> part_of_instructions;
    std::optional<double> peer_seconds, peer_ratio;
};

/// Elements of a call, by name.
struct SizeOf {
    const char* name;
    index_t elements;
};
constexpr SizeOf sizes[] = {{"64Ki", 64 * 1024}, {"1Mi", 1024 * 1024}, {"16Mi", 16 * 1024 * 1024}};

/// What all kernels read and write, made when the first one runs.
struct Memory {
    Tensors tensors;
    Bytes from, to;

    explicit Memory(index_t elements)
        : tensors(elements), from(8 * elements + 8 * width), to(4 * elements + 8 * width) {}
};

class Bench {
public:
    Bench(const Arguments& arguments, Benchmarks& benchmarks) : arguments_(&arguments), benchmarks_(&benchmarks) {}

    template <class Backend> void add_backend(Backend) {
        const std::vector<Case> scalar = cases_of<intq::simd::scalar>(), cases = cases_of<Backend>();
        for (std::size_t i = 0; i < cases.size(); ++i) {
            const auto kernel = std::make_shared<const Case>(cases[i]),
                       reference = std::make_shared<const Case>(scalar[i]);
            for (const SizeOf& size : sizes) {
                const std::string label = kernel->label + "/" + Backend::name;
                if (arguments_->matches(label + "/" + size.name)) add(kernel, reference, Backend::name, label, size);
            }
        }
    }
    const std::vector<StreamingRow>& rows() const { return rows_; }

private:
    using SharedCase = std::shared_ptr<const Case>;

    void add(const SharedCase& kernel, const SharedCase& scalar, const char* backend, const std::string& label,
             const SizeOf& size) {
        largest_ = std::max(largest_, size.elements);
        const auto row_of = [=](std::span<const Measurement> measured) {
            return row_from(*kernel, backend, label, size, measured);
        };
        benchmarks_->add(
            {{label + "/" + size.name},
             [=, this] { return prepare(kernel, *scalar, backend, size.elements); },
             [=](std::size_t, std::span<const Measurement> measured) { return counters_of(row_of(measured)); },
             [=, this](std::span<const Measurement> measured) { rows_.push_back(row_of(measured)); }});
    }

    std::vector<Contender> prepare(const SharedCase& kernel, const Case& scalar, const char* backend, index_t n) {
        require_conformance(*kernel, scalar, backend);
        if (!memory_) memory_.emplace(largest_);
        const Mix& mix = mix_of(*kernel);
        const auto blocks = static_cast<index_t>(bytes_of(*kernel, n)) / ((mix.reads + mix.writes) * width);
        Memory& m = *memory_;
        std::vector<Contender> contenders{{[&m, kernel, n] { kernel->run(m.tensors, n); }, instructions_of(backend)},
                                          {[&m, &mix, blocks] { mix.run(m.from.data(), m.to.data(), blocks); }}};
        for (PeerCase& peer : peer_cases(*kernel, n)) contenders.push_back({std::move(peer.run)});
        return contenders;
    }

    static double bytes_of(const Case& kernel, index_t n) {
        return (kernel.read_bytes + kernel.written_bytes) * static_cast<double>(n);
    }

    static StreamingRow row_from(const Case& kernel, const char* backend, const std::string& label, const SizeOf& size,
                                 std::span<const Measurement> measured) {
        StreamingRow row;
        row.label = label;
        row.size = size.name;
        row.elements = static_cast<double>(size.elements);
        row.bytes = bytes_of(kernel, size.elements);
        row.seconds = measured[0].median_seconds();
        row.spread = measured[0].spread();
        row.memory_seconds = measured[1].median_seconds();
        row.part_of_memory = median_ratio(measured[1], measured[0]);
        const double count = std::string_view(backend).starts_with("avx512") ? instructions_of_64(kernel.label) : 0.0;
        if (count > 0.0 && instructions_of(backend) != nullptr)
            row.part_of_instructions = measured[0].part_of_peak(2.0 * count * row.elements / 64.0);
        if (measured.size() > 2) {
            row.peer_seconds = measured[2].median_seconds();
            row.peer_ratio = median_ratio(measured[2], measured[0]);
        }
        return row;
    }

    static Counters counters_of(const StreamingRow& row) {
        Counters counters{{"Gelem/s", row.elements / row.seconds * 1e-9},
                          {"GB/s", row.bytes / row.seconds * 1e-9},
                          {"spread", row.spread},
                          {"part of memory", row.part_of_memory}};
        if (row.part_of_instructions) counters.emplace_back("part of instructions", *row.part_of_instructions);
        if (row.peer_ratio) counters.emplace_back("oneDNN / ours", *row.peer_ratio);
        return counters;
    }

    static void require_conformance(const Case& kernel, const Case& scalar, const char* backend) {
        constexpr index_t n = 2 * 32 * 32 * channels;
        Tensors actual(n), expected(n);
        for (Tensors* tensors : {&actual, &expected}) {
            std::memset(tensors->y.data(), 0, n * sizeof(float));
            std::memset(tensors->out.data(), 0, n);
        }
        kernel.run(actual, n);
        scalar.run(expected, n);
        if (actual.written() != expected.written())
            throw intq::Error(kernel.label, std::string("the bytes of ") + backend + " differ from scalar's");
    }

    const Arguments* arguments_;
    Benchmarks* benchmarks_;
    index_t largest_ = 0;
    std::optional<Memory> memory_;
    std::vector<StreamingRow> rows_;
};

// --- output ----------------------------------------------------------------------------------------------------------
std::string percent(const std::optional<double>& part) { return part ? fmt::format("{:.0f}", *part * 100.0) : "-"; }

void print_rows(const std::vector<StreamingRow>& rows) {
    using intq::io::Align;
    for (const SizeOf& size : sizes) {
        intq::io::TextTable table({{"kernel"},
                                   {"us", Align::right},
                                   {"+-%", Align::right},
                                   {"Gelem/s", Align::right},
                                   {"GB/s", Align::right},
                                   {"% memory", Align::right},
                                   {"% instructions", Align::right},
                                   {"oneDNN us", Align::right},
                                   {"ratio", Align::right}});
        for (const StreamingRow& row : rows)
            if (row.size == size.name)
                table.add_row({row.label, fmt::format("{:.2f}", row.seconds * 1e6), percent(row.spread),
                               fmt::format("{:.2f}", row.elements / row.seconds * 1e-9),
                               fmt::format("{:.1f}", row.bytes / row.seconds * 1e-9), percent(row.part_of_memory),
                               percent(row.part_of_instructions),
                               row.peer_seconds ? fmt::format("{:.2f}", *row.peer_seconds * 1e6) : "-",
                               row.peer_ratio ? fmt::format("{:.2f}", *row.peer_ratio) : "-"});
        if (table.row_count() > 0)
            fmt::print("\n{} elements\n\n{}", size.name, table.str(intq::io::TableStyle::simple));
    }
    fmt::print(
        "\n"
        "us              median time of one call\n"
        "% memory        time of a loop that reads and writes as many bytes, of ours, in the same rounds\n"
        "% instructions  time of our loop's vector instructions at the rate of vpaddd, which no loop can pass, of "
        "ours\n"
        "ratio           oneDNN's time / ours, median over rounds in which both ran\n");
}

void write_rows(const std::vector<StreamingRow>& rows, const std::string& path) {
    const auto number = [](const std::optional<double>& value) {
        return value ? fmt::format("{:.6g}", *value) : std::string("null");
    };
    std::vector<std::string> lines;
    for (const StreamingRow& row : rows)
        lines.push_back(
            fmt::format(R"({{"label": "{}/{}", "elements": {}, "bytes": {}, "us": {}, "part_of_memory": {}, )"
                        R"("part_of_instructions": {}, "onednn_us": {}, "onednn_ratio": {}}})",
                        row.label, row.size, number(row.elements), number(row.bytes), number(row.seconds * 1e6),
                        number(row.part_of_memory), number(row.part_of_instructions),
                        row.peer_seconds ? number(*row.peer_seconds * 1e6) : "null", number(row.peer_ratio)));
    std::ofstream file(path);
    file << fmt::format("{{\n  \"rows\": [\n    {}\n  ]\n}}\n", fmt::join(lines, ",\n    "));
    if (!file.flush()) throw intq::Error(path, "cannot be written");
}

/// The best backend, and AVX2: not others, because each backend compiles every case.
template <class First, class... Rest>
std::vector<std::string> add_backends(intq::simd::BackendList<First, Rest...>, const Arguments& arguments,
                                      Bench& bench) {
    std::vector<std::string> names;
    const auto add = [&]<class Backend>(Backend backend) {
        if constexpr (std::is_same_v<Backend, First> || std::is_same_v<Backend, intq::simd::avx2>) {
            names.push_back(Backend::name);
            if (is_chosen(arguments.backends, {First::name}, Backend::name)) bench.add_backend(backend);
        }
    };
    add(First{});
    (add(Rest{}), ...);
    return names;
}

int run(const Arguments& arguments) {
    if (arguments.check || arguments.record) return nothing_chosen;  // it has no recorded ratios
    if (!arguments.peer_isa.empty()) limit_onednn(arguments.peer_isa);
    Benchmarks benchmarks(arguments);
    Bench bench(arguments, benchmarks);
    const std::vector<std::string> names = add_backends(intq::simd::usable_backends{}, arguments, bench);
    if (benchmarks.size() == 0) return report_nothing_chosen(arguments, names);
    if (arguments.only_lists()) return benchmarks.run(), 0;
    pin_to_one_processor();
    Benchmarks::describe("oneDNN", describe_onednn());
    if (arguments.prints_tables()) fmt::print("{}\n", describe_onednn());
    benchmarks.run();
    if (arguments.prints_tables()) print_rows(bench.rows());
    write_rows(bench.rows(), arguments.output + "/streaming.json");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return intq_bench::run_bench(
        argc, argv, "Measures the kernels that go over elements, the pooling windows and the observers.", run);
}
