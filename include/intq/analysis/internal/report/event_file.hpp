// SPDX-License-Identifier: MIT
//
// Event files, which TensorBoard shows: numbers and histograms by name and step. Layer: analysis/report.
#ifndef INTQ_ANALYSIS_INTERNAL_REPORT_EVENT_FILE_HPP
#define INTQ_ANALYSIS_INTERNAL_REPORT_EVENT_FILE_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "intq/core/abi.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// A count of values between two ends; the buckets of an EventHistogram rise and do not overlap.
struct EventBucket {
    double lowest = 0.0, highest = 0.0;
    std::int64_t count = 0;
};

struct EventHistogram {
    double min = 0.0, max = 0.0, sum = 0.0, sum_of_squares = 0.0;
    std::int64_t count = 0;
    std::vector<EventBucket> buckets{};
};

/// Collects events. The bytes depend only on the events: every event has the wall time 0.
///
/// Source   TensorFlow: core/util/event.proto, core/framework/summary.proto, and TFRecord's frame of a record: its
///          length, the length's masked CRC-32C, the record, the record's
class EventFile {
public:
    EventFile();

    void add_scalar(std::string_view tag, std::int64_t step, double value);
    /// @pre  the histogram's count is above 0
    void add_histogram(std::string_view tag, std::int64_t step, const EventHistogram& histogram);

    /// The whole file so far. TensorBoard reads files whose name holds "tfevents".
    const std::string& bytes() const noexcept { return bytes_; }

private:
    void add_summary(std::string_view tag, std::int64_t step, std::string_view value);
    void add_record(std::string_view record);

    std::string bytes_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_report)

#    include <bit>

#    include "intq/core/assert.hpp"
#    include "intq/core/checksum.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

// The protocol buffer fields of events, with the numbers from their messages.
INTQ_INLINE void put_varint(std::string& to, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
    to += static_cast<char>(value);
}
template <class Bits> void put_bits(std::string& to, Bits bits) {
    for (std::size_t i = 0; i < sizeof bits; ++i) to += static_cast<char>(bits >> (8 * i));
}
INTQ_INLINE void put_integer_field(std::string& to, std::uint32_t number, std::int64_t value) {
    put_varint(to, number << 3);
    put_varint(to, static_cast<std::uint64_t>(value));
}
INTQ_INLINE void put_double_field(std::string& to, std::uint32_t number, double value) {
    put_varint(to, number << 3 | 1);
    put_bits(to, std::bit_cast<std::uint64_t>(value));
}
INTQ_INLINE void put_float_field(std::string& to, std::uint32_t number, float value) {
    put_varint(to, number << 3 | 5);
    put_bits(to, std::bit_cast<std::uint32_t>(value));
}
INTQ_INLINE void put_bytes_field(std::string& to, std::uint32_t number, std::string_view bytes) {
    put_varint(to, number << 3 | 2);
    put_varint(to, bytes.size());
    to += bytes;
}

/// A checksum as TFRecord stores it, masked because the data may itself hold checksums.
INTQ_INLINE std::uint32_t masked_crc32c(std::string_view bytes) {
    const std::uint32_t sum = crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
    return std::rotr(sum, 15) + 0xa282ead8u;
}

/// Limits and counts of buckets without gaps: the first begins at the least value, each other one where the one before
/// it ends.
INTQ_INLINE void put_buckets(std::string& to, const std::vector<EventBucket>& buckets) {
    std::string limits, counts;
    const auto put = [&](double limit, std::int64_t count) {
        put_bits(limits, std::bit_cast<std::uint64_t>(limit));
        put_bits(counts, std::bit_cast<std::uint64_t>(static_cast<double>(count)));
    };
    for (std::size_t i = 0; i < buckets.size(); ++i) {
        if (i > 0 && buckets[i].lowest > buckets[i - 1].highest) put(buckets[i].lowest, 0);
        put(buckets[i].highest, buckets[i].count);
    }
    put_bytes_field(to, 6, limits);
    put_bytes_field(to, 7, counts);
}

}  // namespace detail

INTQ_INLINE EventFile::EventFile() {
    std::string event;
    detail::put_double_field(event, 1, 0.0);
    detail::put_bytes_field(event, 3, "brain.Event:2");
    add_record(event);
}

INTQ_INLINE void EventFile::add_record(std::string_view record) {
    std::string length;
    detail::put_bits(length, static_cast<std::uint64_t>(record.size()));
    bytes_ += length;
    detail::put_bits(bytes_, detail::masked_crc32c(length));
    bytes_ += record;
    detail::put_bits(bytes_, detail::masked_crc32c(record));
}

INTQ_INLINE void EventFile::add_summary(std::string_view tag, std::int64_t step, std::string_view value) {
    std::string tagged, summary, event;
    detail::put_bytes_field(tagged, 1, tag);
    tagged += value;
    detail::put_bytes_field(summary, 1, tagged);
    detail::put_double_field(event, 1, 0.0);
    detail::put_integer_field(event, 2, step);
    detail::put_bytes_field(event, 5, summary);
    add_record(event);
}

INTQ_INLINE void EventFile::add_scalar(std::string_view tag, std::int64_t step, double value) {
    std::string field;
    detail::put_float_field(field, 2, static_cast<float>(value));
    add_summary(tag, step, field);
}

INTQ_INLINE void EventFile::add_histogram(std::string_view tag, std::int64_t step, const EventHistogram& histogram) {
    INTQ_ASSERT(histogram.count > 0);
    std::string message, field;
    detail::put_double_field(message, 1, histogram.min);
    detail::put_double_field(message, 2, histogram.max);
    detail::put_double_field(message, 3, static_cast<double>(histogram.count));
    detail::put_double_field(message, 4, histogram.sum);
    detail::put_double_field(message, 5, histogram.sum_of_squares);
    detail::put_buckets(message, histogram.buckets);
    detail::put_bytes_field(field, 5, message);
    add_summary(tag, step, field);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_report)
#endif  // INTQ_ANALYSIS_INTERNAL_REPORT_EVENT_FILE_HPP
