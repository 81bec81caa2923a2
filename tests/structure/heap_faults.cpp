// SPDX-License-Identifier: MIT
//
// What check_no_heap.cmake must refuse, one fault a number; 0 is clean and must pass.
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

struct AtExit {
    char** word;
    ~AtExit() { word[0] = nullptr; }
};

int main(int argc, char** argv) {
    [[maybe_unused]] const auto size = static_cast<std::size_t>(argc);
#if INTQ_FAULT == 0
    return argv[0] == nullptr ? 1 : 0;
#elif INTQ_FAULT == 1
    int* on_heap = new int[size]{};
    return on_heap[0] + argv[0][0];
#elif INTQ_FAULT == 2
    return std::malloc(size) == nullptr ? argv[0][0] : 0;
#elif INTQ_FAULT == 3
    return static_cast<int>(std::string(argv[0]).append(size, 'x').size());
#elif INTQ_FAULT == 4
    return std::printf("%s", argv[0]);
#elif INTQ_FAULT == 5
    static const AtExit object{argv};
    return object.word[0] == nullptr ? 1 : 0;
#elif INTQ_FAULT == 6
    return static_cast<int>(std::tanh(static_cast<double>(argc)) + argv[0][0]);
#endif
}
