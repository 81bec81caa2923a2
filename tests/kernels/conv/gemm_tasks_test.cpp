// SPDX-License-Identifier: MIT
//
// GemmTasks: a grid of tasks that covers a layer once, with enough of them where there is enough work.
#include "intq/kernels/conv/gemm_tasks.hpp"

#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace intq;
using kernels::detail::GemmTasks;
using kernels::detail::GemmWork;

TEST_CASE("The tasks of a layer cover each row of each panel once") {
    for (const int kind : {0, 1, 2, 3})
        for (const index_t rows : {0, 1, 2, 47, 48, 49, 95, 96, 196, 784, 3136, 12544})
            for (const index_t panels : {1, 2, 3, 5, 15, 16, 20})
                for (const index_t row_bytes : {1, 64, 576, 4608, 600000})
                    for (const index_t panel_bytes : {64, 36864, 294912}) {
                        const bool converts = kind % 2 == 1, is_serial = kind / 2 == 1;
                        const GemmWork work{rows, panels, row_bytes, panel_bytes, converts, is_serial};
                        const GemmTasks tasks(work);
                        std::vector<int> covered(static_cast<std::size_t>(rows * panels));
                        for (index_t i = 0; i < tasks.count(); ++i) {
                            const GemmTasks::Task task = tasks.task(work, i);
                            for (index_t row = task.first_row; row < task.last_row; ++row)
                                for (index_t panel = task.first_panel; panel < task.last_panel; ++panel)
                                    ++covered.at(static_cast<std::size_t>(row * panels + panel));
                        }
                        if (covered != std::vector<int>(covered.size(), 1))
                            FAIL_CHECK(rows << " rows, " << panels << " panels of " << panel_bytes << ", rows of "
                                            << row_bytes << (converts ? ", converted" : "")
                                            << (is_serial ? ", serial" : ""));
                    }
    SUCCEED();
}

TEST_CASE("The layers of ResNet-18 have tasks of nearly one size, at least eight of them") {
    struct Layer {
        index_t side, depth, outputs;
    };
    for (const Layer& layer : {Layer{112, 168, 64}, {56, 576, 64}, {28, 1152, 128}, {14, 2304, 256}, {7, 4608, 512}}) {
        const GemmWork work{layer.side * layer.side, layer.outputs / 64, layer.depth, layer.depth * 64, false};
        const GemmTasks tasks(work);
        INFO(layer.side << " x " << layer.side);
        CHECK(tasks.count() >= 8);
        const GemmTasks::Task last = tasks.task(work, tasks.count() - 1);
        CHECK((last.last_row - last.first_row) * 10 >= tasks.block_rows * 7);
    }
}

TEST_CASE("Rows that are converted are converted once, unless there are too few of them for several tasks") {
    const GemmTasks many({196, 9, 96, 6144, true});
    CHECK(many.chunks == 1);
    CHECK(many.blocks == 4);
    const GemmTasks few({49, 15, 160, 10240, true});
    CHECK(few.blocks == 1);
    CHECK(few.chunks == 4);
    const GemmTasks alone({49, 15, 160, 10240, true, true});
    CHECK(alone.count() == 1);
}
