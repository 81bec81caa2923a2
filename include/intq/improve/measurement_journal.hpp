// SPDX-License-Identifier: MIT
//
// Measures layers in both types and keeps a journal, so that an interrupted search goes on. Layer: improve.
#ifndef INTQ_IMPROVE_MEASUREMENT_JOURNAL_HPP
#define INTQ_IMPROVE_MEASUREMENT_JOURNAL_HPP

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/improve/mixed_precision.hpp"

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

/// The measurements, one per line, in a file that only grows:
///
///     intq measurements 1 <checksum of the layers' names>
///     int8 <loss> <seconds> <checksum of the rest of the line> <layer>
///
/// A last line without its end is torn: the program stopped while writing it. It is cut off, its measurement is made
/// again, and torn() says so. Any other malformed line, a layer that is not in the list and a repeated measurement are
/// an Error that names file and line; the file is then left as it is. All data is checked whatever the checksums say:
/// they guard against accidents.
class MeasurementJournal {
public:
    /// Reads the file, or creates it if there is none.
    ///
    /// @param layers  qualified names; each once, not empty and without control characters
    MeasurementJournal(std::filesystem::path path, std::span<const std::string> layers);

    /// None if it is still to be measured.
    std::optional<TypeCost> find(const std::string& layer, DType dtype) const;
    /// Adds a measurement; it is in the file when this returns. Throws for a repeated or non-finite one, and if it
    /// cannot be written: the file is then as before.
    void add(const std::string& layer, DType dtype, const TypeCost& cost);
    std::size_t size() const noexcept { return known_.size(); }
    /// Whether the end of the file was cut off.
    bool torn() const noexcept { return torn_; }

private:
    using Key = std::pair<std::string, DType>;

    std::string header() const;
    void read(std::string_view text);
    void read_line(std::string_view line, std::size_t number);

    std::filesystem::path path_;
    std::set<std::string> layers_;
    std::map<Key, TypeCost> known_;
    bool torn_ = false;
};

/// Measures a layer in one type while the others stay as they are.
using MeasureLayer = std::function<TypeCost(const std::string& layer, DType dtype)>;

/// The costs of layers in int8 and int16, from the journal where it has them, and otherwise measured and written there.
/// After an exception from `measure`, the journal keeps all earlier measurements.
///
///     const auto costs = measure_layers(names, measure, "search.journal");   // interrupted: call it again
///     const MixedPrecision best = choose_within_seconds(costs, 0.004);
std::vector<LayerCosts> measure_layers(std::span<const std::string> layers, const MeasureLayer& measure,
                                       const std::filesystem::path& journal);

/// 16 hexadecimal digits that follow from a text.
///
/// Source   Fowler, Noll, Vo: FNV-1a, 64 bits
std::string text_checksum(std::string_view text);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(improve)

#    include <algorithm>
#    include <cerrno>
#    include <cstdint>
#    include <cstdio>
#    include <system_error>

#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/file.hpp"

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::string journal_line(const std::string& layer, DType dtype, const TypeCost& cost) {
    const std::string numbers =
        std::string(name_of(dtype)) + " " + shortest_text(cost.loss) + " " + shortest_text(cost.seconds);
    return numbers + " " + text_checksum(numbers + " " + layer) + " " + layer + "\n";
}

/// Adds text to the end of a file; 0, or the number of the system's error if not all of it could be written.
INTQ_INLINE int append_to_file(const std::filesystem::path& path, std::string_view text) {
    std::FILE* const file = std::fopen(path.c_str(), "ab");
    if (file == nullptr) return errno;
    errno = 0;
    int error = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0 ? 0 : errno;
    if (std::fclose(file) != 0 && error == 0) error = errno;
    return error;
}

/// Removes and returns the part of a text before the next space, or the whole if there is none.
INTQ_INLINE std::string_view take_word(std::string_view& text) {
    const std::size_t end = (std::min)(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix((std::min)(end + 1, text.size()));
    return word;
}

}  // namespace detail

INTQ_INLINE std::string text_checksum(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    std::string digits(16, '0');
    for (std::size_t i = 0; i < 16; ++i) digits[15 - i] = "0123456789abcdef"[hash >> (4 * i) & 15];
    return digits;
}

INTQ_INLINE MeasurementJournal::MeasurementJournal(std::filesystem::path path, std::span<const std::string> layers)
    : path_(std::move(path)) {
    for (const std::string& layer : layers) {
        const bool is_plain = std::none_of(layer.begin(), layer.end(), [](char c) {
            return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
        });
        if (layer.empty() || !is_plain) throw Error("measurements: " + in_quotes(layer) + " cannot name a layer");
        if (!layers_.insert(layer).second) throw Error(layer, "measurements: the layer comes twice");
    }
    std::error_code ignored;
    if (!std::filesystem::exists(path_, ignored)) io::write_file(path_, header());
    const std::vector<std::byte> bytes = io::read_file(path_);
    read({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

INTQ_INLINE std::string MeasurementJournal::header() const {
    std::string names;
    for (const std::string& layer : layers_) names += layer + "\n";
    return "intq measurements 1 " + text_checksum(names) + "\n";
}

INTQ_INLINE void MeasurementJournal::read(std::string_view text) {
    const std::string first = header();
    if (text.size() < first.size() && first.substr(0, text.size()) == text) {
        torn_ = true;
        return io::write_file(path_, first);
    }
    if (text.substr(0, first.size()) != first)
        throw Error(path_.string() + ":1",
                    "this is not a journal of these layers, which begins with " + in_quotes(first) + ", given " +
                        in_quotes(text.substr(0, text.find('\n'))) + "; give another file name to begin anew");
    std::size_t number = 1, start = first.size();
    for (std::size_t end; (end = text.find('\n', start)) != std::string_view::npos; start = end + 1)
        read_line(text.substr(start, end - start), ++number);
    if (start == text.size()) return;
    torn_ = true;
    io::write_file(path_, text.substr(0, start));
}

INTQ_INLINE void MeasurementJournal::read_line(std::string_view line, std::size_t number) {
    const auto fail = [&](const std::string& sentence) {
        throw Error(path_.string() + ":" + std::to_string(number), sentence + ", given " + in_quotes(line) +
                                                                       "; the line can be taken out, and is then "
                                                                       "measured again");
    };
    std::string_view rest = line;
    const std::string_view type = detail::take_word(rest);
    const auto loss = detail::finite_number(detail::take_word(rest));
    const auto seconds = detail::finite_number(detail::take_word(rest));
    const std::string_view sum = detail::take_word(rest);
    const std::string layer(rest);
    if ((type != "int8" && type != "int16") || !loss || !seconds || *seconds < 0.0)
        fail("expected int8 or int16, a loss, seconds, a checksum and a layer");
    const DType dtype = type == "int8" ? DType::int8 : DType::int16;
    const std::size_t numbers = line.size() - rest.size() - sum.size() - 1;
    if (sum != text_checksum(std::string(line.substr(0, numbers)) + layer)) fail("the line is damaged");
    if (layers_.count(layer) == 0) fail("the layer is not in the list");
    if (!known_.emplace(Key{layer, dtype}, TypeCost{*loss, *seconds}).second) fail("this was measured before");
}

INTQ_INLINE std::optional<TypeCost> MeasurementJournal::find(const std::string& layer, DType dtype) const {
    const auto known = known_.find({layer, dtype});
    return known == known_.end() ? std::nullopt : std::optional(known->second);
}

INTQ_INLINE void MeasurementJournal::add(const std::string& layer, DType dtype, const TypeCost& cost) {
    if (layers_.count(layer) == 0) throw Error(layer, "measurements: the layer is not in the list");
    if (dtype != DType::int8 && dtype != DType::int16)
        throw Error(layer, std::string("measurements: a layer is in int8 or int16, given ") + name_of(dtype));
    if (!detail::is_cost(cost))
        throw Error(layer, "measurements: a loss of " + std::to_string(cost.loss) + " and " +
                               std::to_string(cost.seconds) +
                               " s were measured; both must be finite, the time not "
                               "below 0");
    if (find(layer, dtype)) throw Error(layer, "measurements: it was measured before");
    const std::string line = detail::journal_line(layer, dtype, cost);
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path_, error);
    if (error) io::throw_system_error(path_, "cannot be opened", error.value());
    if (const int number = detail::append_to_file(path_, line)) {
        // Otherwise the next line would continue this torn one.
        std::filesystem::resize_file(path_, size, error);
        io::throw_system_error(path_, error ? "cannot be written, nor cut back" : "cannot be written", number);
    }
    known_[{layer, dtype}] = cost;
}

INTQ_INLINE std::vector<LayerCosts> measure_layers(std::span<const std::string> layers, const MeasureLayer& measure,
                                                   const std::filesystem::path& journal) {
    MeasurementJournal known(journal, layers);
    std::vector<LayerCosts> costs;
    for (const std::string& layer : layers) {
        LayerCosts both{layer};
        for (const DType dtype : {DType::int8, DType::int16}) {
            if (!known.find(layer, dtype)) known.add(layer, dtype, measure(layer, dtype));
            (dtype == DType::int8 ? both.int8 : both.int16) = *known.find(layer, dtype);
        }
        costs.push_back(std::move(both));
    }
    return costs;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

#endif  // INTQ_DEFINES(improve)
#endif  // INTQ_IMPROVE_MEASUREMENT_JOURNAL_HPP
