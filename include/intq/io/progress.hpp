// SPDX-License-Identifier: MIT
//
// A line on the terminal that shows the progress of long work. Layer: io.
#ifndef INTQ_IO_PROGRESS_HPP
#define INTQ_IO_PROGRESS_HPP

#include <cstdint>
#include <cstdio>
#include <string>

#include "intq/core/abi.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

/// When progress is shown: where the stream is a terminal, or decided by the caller.
enum class ShowProgress { on_terminal, always, never };

/// Shows `label [#####-----] 50% 12/24` on one line of standard error while the object lives, and removes it after.
/// Nothing is written to a file or pipe. At most ten times a second, so update() may be called for every item.
class Progress {
public:
    /// @param total  number of items; 0 if there are none
    Progress(std::string label, std::int64_t total, ShowProgress show = ShowProgress::on_terminal,
             std::FILE* stream = stderr);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress();

    /// @param done  items that are finished
    void update(std::int64_t done);

    /// The line for one state.
    static std::string line_of(const std::string& label, std::int64_t done, std::int64_t total);

private:
    std::string label_;
    std::int64_t total_;
    std::FILE* stream_;
    bool shown_;
    bool drawn_ = false;
    std::int64_t next_ = 0;  // when a line is drawn again, in nanoseconds of the steady clock
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(io)

#    include <unistd.h>

#    include <algorithm>
#    include <chrono>
#    include <utility>

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Progress::Progress(std::string label, std::int64_t total, ShowProgress show, std::FILE* stream)
    : label_(std::move(label)),
      total_(total),
      stream_(stream),
      shown_(show == ShowProgress::always || (show == ShowProgress::on_terminal && isatty(fileno(stream)) == 1)) {}

INTQ_INLINE Progress::~Progress() {
    if (!drawn_) return;
    std::fputs("\r\x1b[K", stream_);
    std::fflush(stream_);
}

INTQ_INLINE void Progress::update(std::int64_t done) {
    const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
    const std::int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count();
    if (!shown_ || (drawn_ && done < total_ && now < next_)) return;
    next_ = now + 100'000'000;
    drawn_ = true;
    const std::string line = "\r" + line_of(label_, done, total_) + "\x1b[K";
    std::fputs(line.c_str(), stream_);
    std::fflush(stream_);
}

INTQ_INLINE std::string Progress::line_of(const std::string& label, std::int64_t done, std::int64_t total) {
    constexpr std::int64_t cells = 20;
    const double part = total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 1.0;
    const auto full = static_cast<std::size_t>(part * cells);
    return label + " [" + std::string(full, '#') + std::string(cells - full, '-') + "] " +
           std::to_string(static_cast<int>(part * 100)) + "% " + std::to_string(done) + "/" + std::to_string(total);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

#endif  // INTQ_DEFINES(io)
#endif  // INTQ_IO_PROGRESS_HPP
