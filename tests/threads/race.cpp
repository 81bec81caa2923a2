// SPDX-License-Identifier: MIT
//
// A data race, which ThreadSanitizer must report: proof that its runs can fail.
#include <thread>

int main() {
    int shared = 0;
    std::thread other([&] { ++shared; });
    ++shared;
    other.join();
    return shared == 2 ? 0 : 1;
}
