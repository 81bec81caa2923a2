// SPDX-License-Identifier: MIT
//
// Runs a command and prints the seconds of user time and the megabytes of memory that it took at most, with all that
// it started and waited for. Compiled and called by bench/build_cost.
//
//     measure_command <program> <argument>...
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    const pid_t child = fork();
    if (child == 0) {
        execvp(argv[1], argv + 1);
        std::perror(argv[1]);
        _exit(127);
    }
    int status = 0;
    rusage used{};
    if (child < 0 || wait4(child, &status, 0, &used) < 0) {
        std::perror("measure_command");
        return 1;
    }
    const double seconds =
        static_cast<double>(used.ru_utime.tv_sec) + 1e-6 * static_cast<double>(used.ru_utime.tv_usec);
    std::printf("%.2f %ld\n", seconds, used.ru_maxrss / 1024);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
