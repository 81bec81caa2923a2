// SPDX-License-Identifier: MIT
//
// The sweep: small float ONNX graphs quantized here, beside what ONNX Runtime makes of the same graphs and samples, and
// the files and fragments that its tool wrote, imported. make_sweep.py makes the folder, this program writes outputs
// and results.json into it, and judge.py judges them; interop/check_sweep.cmake runs the three. INTQ_SWEEP names the
// folder.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "interop/sweep/agreement.hpp"
#include "intq/arith/target.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/interop/quantized_onnx/import_quantized.hpp"
#include "intq/io/npy.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/hybrid.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/operators/internal/lowering.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "intq/tensor/npy.hpp"
#include "support/catch.hpp"
#include "support/kept_tensors.hpp"
#include "support/same_bytes.hpp"

using namespace intq;
using namespace intq::quantization;
namespace onnx = interop::onnx;
namespace fs = std::filesystem;
using nlohmann::json;
using test::same_bytes;

namespace {

struct Target {
    const char* name;
    const kernels::KernelTable& (*table)();
};
constexpr Target targets[] = {{"fp32", program::best_table<target::fp32>},
                              {"tflite", program::best_table<target::tflite<>>},
                              {"litert", program::best_table<target::litert>},
                              {"bayes", program::best_table<target::bpu<march::bayes>>}};

void save(const fs::path& path, const intq::Tensor& tensor) {
    io::write_npy(path, intq::to_array(tensor.contiguous()));
}

/// What is put into a result where something throws: an Error refuses, anything else is a fault.
template <class Body> json guarded(json result, const Body& body) {
    try {
        body(result);
    } catch (const Error& error) {
        result["refused"] = error.what();
    } catch (const std::exception& error) {
        result["fault"] = error.what();
    }
    return result;
}

/// Elements that differ; all of them where the types or shapes do.
index_t count_different(const intq::Tensor& a, const intq::Tensor& b) {
    if (same_bytes(a, b)) return 0;
    if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return std::max(a.size(), b.size());
    const auto* x = static_cast<const unsigned char*>(static_cast<const void*>(a.data()));
    const auto* y = static_cast<const unsigned char*>(static_cast<const void*>(b.data()));
    const auto width = static_cast<std::size_t>(a.bytes() / a.size());
    index_t count = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(a.size()); ++i)
        count += std::memcmp(x + i * width, y + i * width, width) != 0;
    return count;
}

/// Every layer's values in exact simulation beside those of the program, and the outputs.
void compare_simulation(json& result, const ExactSimulation& simulation, const intq::Tensor& simulated,
                        const LoweredModel& lowered, const intq::Tensor& x) {
    const auto executed = test::run_and_keep(lowered, x);
    index_t values = simulated.size(), differ = count_different(simulated.contiguous(), lowered.run(x).contiguous());
    std::map<std::string, intq::Tensor> by_layer;  // of steps that share a name, the last; so has `executed`
    for (const QuantizedNode& node : simulation.quantized().nodes)
        if (simulation.quantized().output(node).dtype != DType::float32)
            by_layer[Lowering::layer(node).name] = simulation.tensor(node.output).contiguous();
    for (const auto& [name, codes] : by_layer) {
        const auto found = executed.find(name);
        if (found == executed.end()) continue;
        const index_t wrong = count_different(codes, found->second);
        values += codes.size();
        differ += wrong;
        if (wrong != 0) result["differs_in"].push_back(name);
    }
    result["values"] = values;
    result["differ"] = differ;
}

/// Where what is said of a graph before any data is not what was said on data.
void note_disagreement(json& result, const std::optional<LoweringReport>& report) {
    if (!report || result.contains("fault")) return;
    const std::string tail = result.value("tail", ""), on_data = result.value("refused", tail);
    if (const std::string text = test::disagreement(*report, on_data); !text.empty()) result["disagreement"] = text;
}

/// One graph, target and type from float to integers. The program's output on the other samples goes into a file.
json quantize_graph(const fs::path& folder, const std::string& name, const Target& target, DType dtype) {
    const std::string type = name_of(dtype), stem = name + "_" + target.name + "_" + type;
    std::optional<LoweringReport> report;
    json whole = guarded({{"name", name}, {"target", target.name}, {"dtype", type}}, [&](json& result) {
        const kernels::KernelTable& table = target.table();
        const intq::Tensor samples = intq::load_npy(folder / (name + "_samples.npy")),
                           other = intq::load_npy(folder / (name + "_other.npy"));
        const auto model = onnx::import_file(folder / (name + ".onnx"));
        save(folder / (name + "_imported.npy"), (*model)(other).tensor());
        add_stubs(*model);
        report = test::report_without_data(*model, table, dtype, {samples});
        const auto prepared =
            prepare_calibration_fx(*model, get_default_qconfig_mapping(table.policy(), dtype), table.policy());
        // One batch, so that a moving average is the extremes of all samples.
        for (const KeptGrid& kept : calibrate(*prepared, samples, samples.extent(0)).kept)
            result["kept"].push_back(to_string(kept));
        result["in_float"] = json::array();
        for (const FloatFallback& one : prepared->report().fallbacks)
            result["in_float"].push_back(one.node + " (" + one.type + "): " + one.reason);
        ExactSimulation simulation(*prepared, table, other.extent(0));
        const intq::Tensor simulated = simulation.run({&other, 1}).at(0);
        const LoweredModel lowered = lower(simulation.quantized(), table, other.extent(0));
        if (lowered.tail() != nullptr) result["tail"] = "its last operators stay in float";
        save(folder / (stem + ".npy"), lowered.run(other));
        compare_simulation(result, simulation, simulated, lowered, other);
    });
    note_disagreement(whole, report);
    return whole;
}

/// A quantized file of ONNX Runtime's tool: its outputs go into a file. Where operators of it are not between codes, a
/// HybridModel runs it.
json run_quantized(const fs::path& folder, const std::string& name, const Target& target,
                   const std::vector<intq::Tensor>& inputs) {
    return guarded({{"name", name}, {"target", target.name}}, [&](json& result) {
        onnx::QuantizedImportOptions options;
        options.target = target.table().policy();
        const QuantizedGraph quantized = onnx::import_quantized_file(folder / (name + ".onnx"), options);
        const index_t batch = inputs.at(0).extent(0);
        std::vector<intq::Tensor> outputs;
        try {
            const LoweredModel lowered = lower(quantized, target.table(), batch);
            outputs = lowered.run(inputs);
            ExactSimulation simulation(quantized, target.table(), batch);
            const intq::Tensor simulated = simulation.run(inputs).at(0);
            if (inputs.size() == 1) compare_simulation(result, simulation, simulated, lowered, inputs.at(0));
        } catch (const Error& error) {
            result["no_program"] = error.what();
            outputs = HybridModel(quantized, target.table(), batch).run(inputs);
        }
        save(folder / (name + "_" + target.name + ".npy"), outputs.at(0));
    });
}

}  // namespace

TEST_CASE("The graphs of a sweep and the files of ONNX Runtime's tool become programs") {
    const char* const path = std::getenv("INTQ_SWEEP");
    if (path == nullptr) SUCCEED("interop/sweep names the folder");
    if (path == nullptr) return;
    const fs::path folder = path;
    std::ifstream file(folder / "manifest.json");
    const json manifest = json::parse(file);
    json graphs = json::array(), peers = json::array(), fragments = json::array();
    for (const json& one : manifest.at("cases")) {
        const std::string name = one.at("name");
        for (const Target& target : targets)
            for (const DType dtype : {DType::int8, DType::int16})
                graphs.push_back(quantize_graph(folder, name, target, dtype));
        const intq::Tensor other = intq::load_npy(folder / (name + "_other.npy"));
        for (const json& peer : one.at("peers"))
            if (!peer.contains("failed")) peers.push_back(run_quantized(folder, peer.at("name"), targets[0], {other}));
        for (const json& fragment : one.at("fragments")) {
            std::vector<intq::Tensor> inputs;
            for (const json& input : fragment.at("inputs")) inputs.push_back(intq::load_npy(folder / input));
            for (const Target& target : targets)
                if (std::ranges::count(fragment.at("targets"), target.name) > 0)
                    fragments.push_back(run_quantized(folder, fragment.at("name"), target, inputs));
        }
    }
    CHECK(!graphs.empty());
    const json results{{"graphs", graphs}, {"peers", peers}, {"fragments", fragments}};
    std::ofstream(folder / "results.json") << results.dump(1, ' ', false, json::error_handler_t::replace) << '\n';
}
