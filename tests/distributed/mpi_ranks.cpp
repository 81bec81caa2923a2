// SPDX-License-Identifier: MIT
//
// Calibration, training and sensitivity on ranks of MPI. Rank 0 writes what every rank must have.
//
//     mpirun -n 2 mpi_ranks <folder>             writes calibration, training and sensitivity into the folder
//     mpirun -n 2 mpi_ranks <folder> --fail <rank>   a rank whose batch cannot be read
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>

#include "distributed/tasks.hpp"
#include "intq/distributed/mpi/mpi_communicator.hpp"
#include "intq/io/error.hpp"
#include "intq/io/file.hpp"

namespace {

using namespace intq;

void write(const std::filesystem::path& path, distributed::Communicator& all, std::span<const std::byte> bytes) {
    all.check_equal(path.filename().string(), bytes);
    if (all.rank() == 0) io::write_file(path, bytes);
}

void run(distributed::Communicator& all, const std::filesystem::path& folder) {
    write(folder / "calibration", all, test::distributed::calibrate(all));
    write(folder / "training", all, test::distributed::train(all));
    const std::string list = test::distributed::find_sensitive_operators(all);
    write(folder / "sensitivity", all, std::as_bytes(std::span(list)));
    if (all.rank() == 0) std::printf("%d ranks wrote %s\n", all.size(), folder.c_str());
}

void fail(distributed::Communicator& all, int failing) {
    quantization::BatchSource source = test::distributed::batches();
    source.batch = [&, batch = source.batch](std::size_t i) {
        if (all.rank() == failing && i > 2) throw Error("batch " + std::to_string(i), "the file is cut off");
        return batch(i);
    };
    distributed::calibrate(*test::distributed::prepared_model(), source, all);
}

}  // namespace

int main(int argc, char** argv) {
    distributed::MpiSession mpi(argc, argv);
    int result = 0;
    try {
        if (argc != 2 && argc != 4) throw Error("usage: mpi_ranks <folder> [--fail <rank>]");
        distributed::MpiCommunicator all;
        try {
            all.together([&] { argc == 2 ? run(all, argv[1]) : fail(all, std::atoi(argv[3])); });
        } catch (const std::exception& error) {
            std::fprintf(stderr, "rank %d says: %s\n", all.rank(), error.what());
            result = 1;
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        result = 2;
    }
    return result;
}
