// SPDX-License-Identifier: MIT
//
// Runs a fuzz target without libFuzzer: on every file of the folders that it is given, and then, for some seconds, on
// those files with random changes. For MemorySanitizer, which libFuzzer's own runtime was not compiled with.
//
//     readers_replay <seconds> <target> <folder>…
//
// What libstdc++ does inside its shared object is not seen by MemorySanitizer, so the program is compiled with
// -D_GLIBCXX_EXTERN_TEMPLATE=0, and the functions that tie nodes of trees and lists
// say what they wrote.
#include <dirent.h>
#include <dlfcn.h>
#include <sanitizer/msan_interface.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);

// The last byte of an exception's text is written by libstdc++.
extern "C" const char* __msan_default_options() { return "intercept_strlen=0"; }

// std::_Rb_tree_insert_and_rebalance(bool, _Rb_tree_node_base*, _Rb_tree_node_base*, _Rb_tree_node_base&)
#define INTQ_INSERT_INTO_TREE "_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_"
using TreeNode = std::_Rb_tree_node_base;
extern "C" void insert_into_tree(bool left, TreeNode* node, TreeNode* parent,
                                 TreeNode& header) __asm__(INTQ_INSERT_INTO_TREE);
extern "C" void insert_into_tree(bool left, TreeNode* node, TreeNode* parent, TreeNode& header) {
    using Insert = void (*)(bool, TreeNode*, TreeNode*, TreeNode&);
    static const auto insert = reinterpret_cast<Insert>(dlsym(RTLD_NEXT, INTQ_INSERT_INTO_TREE));
    __msan_unpoison(node, sizeof *node);
    insert(left, node, parent, header);
}

// std::__detail::_List_node_base::_M_hook(_List_node_base*)
#define INTQ_HOOK_INTO_LIST "_ZNSt8__detail15_List_node_base7_M_hookEPS0_"
using ListNode = std::__detail::_List_node_base;
extern "C" void hook_into_list(ListNode* node, ListNode* next) __asm__(INTQ_HOOK_INTO_LIST);
extern "C" void hook_into_list(ListNode* node, ListNode* next) {
    static const auto hook = reinterpret_cast<void (*)(ListNode*, ListNode*)>(dlsym(RTLD_NEXT, INTQ_HOOK_INTO_LIST));
    __msan_unpoison(node, sizeof *node);
    hook(node, next);
}

namespace {

using Bytes = std::vector<std::uint8_t>;

void add_file(const std::string& path, std::vector<Bytes>& inputs) {
    std::FILE* file = std::fopen(path.c_str(), "rb");
    if (file == nullptr) return;
    Bytes bytes(std::size_t{1} << 20);
    bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file));
    std::fclose(file);
    inputs.push_back(bytes);
}

void add_folder(const std::string& path, std::vector<Bytes>& inputs) {
    DIR* folder = opendir(path.c_str());
    if (folder == nullptr) return;
    while (const dirent* entry = readdir(folder))
        if (entry->d_name[0] != '.') add_file(path + "/" + entry->d_name, inputs);
    closedir(folder);
}

Bytes changed(Bytes bytes, std::mt19937_64& random) {
    for (std::uint64_t changes = random() % 8 + 1; changes-- > 0;) {
        const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
        const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
        switch (random() % 5) {
            case 0:
                bytes.insert(place, static_cast<std::uint8_t>(random()));
                break;
            case 1:
                if (!bytes.empty()) bytes.erase(place);
                break;
            case 2:
                if (random() % 8 == 0) bytes.resize(at);
                break;
            case 3:
                if (!bytes.empty()) *place = static_cast<std::uint8_t>(random());
                break;
            default:
                if (!bytes.empty()) *place = static_cast<std::uint8_t>(*place ^ (1u << random() % 8));
        }
    }
    return bytes;
}

// A copy of its own size, so that a byte beyond the end is not one of a larger buffer.
void run(const Bytes& bytes) {
    const Bytes exact(bytes.begin(), bytes.end());
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) return std::fprintf(stderr, "usage: %s <seconds> [target] <folder>...\n", argv[0]), 2;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[1]));
    std::vector<Bytes> inputs{{}};
    for (int i = 2; i < argc; ++i) add_folder(argv[i], inputs);
    argv[1] = argv[0];
    char** rest = argv + 1;
    int count = argc - 1;
    if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&count, &rest);
    for (const Bytes& input : inputs) run(input);
    std::mt19937_64 random(1);
    std::uint64_t runs = inputs.size();
    for (; std::chrono::steady_clock::now() < end; ++runs) run(changed(inputs[random() % inputs.size()], random));
    std::printf("%llu runs, %zu of them of kept files\n", static_cast<unsigned long long>(runs), inputs.size());
    return 0;
}
