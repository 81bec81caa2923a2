// SPDX-License-Identifier: MIT
//
// GemmTasks: how the work of a layer is cut into tasks for an executor. Layer: kernels.
#ifndef INTQ_KERNELS_CONV_GEMM_TASKS_HPP
#define INTQ_KERNELS_CONV_GEMM_TASKS_HPP

#include "intq/core/dtype.hpp"
#include "intq/core/quotient.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Bytes of activations that a block of rows should keep inside the L2 cache.
inline constexpr index_t row_block_bytes = 256 * 1024;
/// Tasks that a layer should have, so that a few threads end at nearly the same time.
inline constexpr index_t wanted_tasks = 8;
/// Rows that such a task should have at least: a block reads each panel anew, at half the rate at which a row uses it,
/// so that reading costs less than a twentieth.
inline constexpr index_t least_block_rows = 48;

/// Bytes of weights times rows below which a layer is one task: it is done before another thread has begun.
inline constexpr index_t least_task_work = 64 * 1024;

/// Extents of one group of a layer, as the skeleton sees them.
struct GemmWork {
    index_t rows = 0;
    index_t panels = 0;
    index_t row_bytes = 0;    // of activations, over all taps
    index_t panel_bytes = 0;  // of weights
    bool converts = false;    // each task converts its own rows
    bool is_serial = false;   // one thread runs all tasks
};

/// A grid of blocks of rows by chunks of panels; among several threads it follows only from the shape
/// (core/executor.hpp).
struct GemmTasks {
    index_t block_rows = 0, blocks = 1;
    index_t chunk_panels = 0, chunks = 1;

    constexpr explicit GemmTasks(const GemmWork& work) noexcept {
        if (work.rows * work.panels * work.panel_bytes < least_task_work) {  // without the divisions below
            block_rows = work.rows;
            chunk_panels = work.panels;
            return;
        }
        // Each block reads a panel anew: the rows it serves are then twice the panel, though they leave the L2 cache.
        const index_t bytes = larger(2 * work.panel_bytes, row_block_bytes);
        const index_t fitting = work.rows * work.row_bytes <= bytes ? work.rows : quotient(bytes, work.row_bytes);
        const index_t wanted = work.is_serial ? 1 : quotient_up(wanted_tasks, work.converts ? 1 : work.panels);
        blocks =
            larger(quotient_up(work.rows, larger(fitting, 1)), smaller(wanted, quotient(work.rows, least_block_rows)));
        block_rows = larger(quotient_up(work.rows, larger(blocks, 1)), 1);
        blocks = larger(quotient_up(work.rows, block_rows), 1);
        // A chunk converts its own rows: only where there are few rows, and threads to share them.
        const index_t converting = work.is_serial ? 1 : quotient_up(wanted_tasks / 2, blocks);
        chunks = work.converts ? smaller(converting, work.panels) : work.panels;
        chunk_panels = quotient_up(work.panels, chunks);
        chunks = quotient_up(work.panels, chunk_panels);
    }

    constexpr index_t count() const noexcept { return blocks * chunks; }

    struct Task {
        index_t first_row, last_row, first_panel, last_panel;
    };
    /// Panel after panel of one block, then the next block.
    constexpr Task task(const GemmWork& work, index_t index) const noexcept {
        if (count() == 1) return {0, work.rows, 0, work.panels};
        const index_t block = quotient(index, chunks), row = block * block_rows;
        const index_t panel = (index - block * chunks) * chunk_panels;
        return {row, smaller(row + block_rows, work.rows), panel, smaller(panel + chunk_panels, work.panels)};
    }

private:
    static constexpr index_t larger(index_t a, index_t b) noexcept { return a > b ? a : b; }
    static constexpr index_t smaller(index_t a, index_t b) noexcept { return a < b ? a : b; }
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_GEMM_TASKS_HPP
