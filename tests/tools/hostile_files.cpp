// SPDX-License-Identifier: MIT
//
// Damaged and hostile files through every command of intq: each ends with status 1 and one sentence on stderr, takes at
// most 256 MB, and prints nothing that a terminal obeys.
//
//     hostile_files <intq> <tests/golden/tflite> <scratch folder> [--times]
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <set>

#include "intq/io/describe.hpp"
#include "intq/io/file.hpp"
#include "intq/io/npy.hpp"
#include "tools/hostile_models.hpp"

namespace {

using namespace intq;
using test::HostileFile;
using Words = std::vector<std::string>;

constexpr long most_kilobytes = 256 * 1024;

/// What a process did.
struct Outcome {
    int status = 0;  // 128 and more: by a signal
    long kilobytes = 0;
    double seconds = 0;
    std::string output, error;
};

std::string text_of(const std::string& path) {
    const std::vector<std::byte> bytes = io::read_file(path);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Runs a program in a folder. What it takes beyond four times the memory that it may take is refused by the system.
Outcome run(const std::string& program, const Words& words, const std::string& folder) {
    const auto start = std::chrono::steady_clock::now();
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        const rlimit memory{rlim_t{4096} * most_kilobytes, rlim_t{4096} * most_kilobytes};
        if (::chdir(folder.c_str()) != 0 || ::setrlimit(RLIMIT_AS, &memory) != 0) ::_exit(126);
        ::dup2(::open("stdout.txt", O_CREAT | O_TRUNC | O_WRONLY, 0644), 1);
        ::dup2(::open("stderr.txt", O_CREAT | O_TRUNC | O_WRONLY, 0644), 2);
        std::vector<char*> arguments{const_cast<char*>(program.c_str())};
        for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
        arguments.push_back(nullptr);
        ::execv(program.c_str(), arguments.data());
        ::_exit(127);
    }
    int status = 0;
    rusage usage{};
    ::wait4(child, &status, 0, &usage);
    Outcome outcome;
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.kilobytes = usage.ru_maxrss;
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    outcome.output = text_of(folder + "/stdout.txt");
    outcome.error = text_of(folder + "/stderr.txt");
    return outcome;
}

/// Whether a text has lines of printable characters alone.
bool is_harmless(const std::string& text) {
    std::string line;
    for (const char c : text)
        if (c != '\n') line += c;
    return printable(line) == line;
}

class Checker {
public:
    Checker(std::string program, std::string folder, bool shows_times)
        : program_(std::move(program)), folder_(std::move(folder)), shows_times_(shows_times) {}

    /// @param allowed  statuses
    void expect(const std::set<int>& allowed, const Words& words) {
        const Outcome outcome = run(program_, words, folder_);
        ++runs_;
        most_ = std::max(most_, outcome.kilobytes);
        slowest_ = std::max(slowest_, outcome.seconds);
        std::string fault;
        if (allowed.count(outcome.status) == 0) fault += " status " + std::to_string(outcome.status) + ";";
        if (outcome.kilobytes > most_kilobytes) fault += " " + std::to_string(outcome.kilobytes) + " kilobytes;";
        if (!is_harmless(outcome.output) || !is_harmless(outcome.error)) fault += " raw output;";
        const bool is_sentence = outcome.error.rfind("intq: ", 0) == 0 &&
                                 outcome.error.find('\n') + 1 == outcome.error.size() && outcome.error.size() > 20;
        if (outcome.status == 1 && !is_sentence && words[0] != "check") fault += " no sentence;";
        // Of one file; an error of the environment is of none.
        if (outcome.status == 1 && words[0] == "info" && outcome.error.find("INTQ_BACKEND") == std::string::npos &&
            outcome.error.find(printable(words[1])) == std::string::npos)
            fault += " no name of the file;";
        std::string line = "intq";
        for (const std::string& word : words) line += " " + printable(word);
        if (shows_times_ && outcome.seconds > 0.5)
            std::printf("%.1f s, %ld KB: %s\n", outcome.seconds, outcome.kilobytes, line.c_str());
        if (fault.empty()) return;
        ++faults_;
        std::printf("%s:%s\n    %s\n    %s\n", line.c_str(), fault.c_str(),
                    printable(outcome.output.substr(0, 300)).c_str(), printable(outcome.error.substr(0, 600)).c_str());
    }
    int finish(std::size_t files) const {
        std::printf("%zu files, %d commands: %d faults; at most %ld KB", files, runs_, faults_, most_);
        if (shows_times_) std::printf(" and %.1f s", slowest_);
        std::printf("\n");
        return faults_ == 0 && files >= 60 ? 0 : 1;
    }

private:
    std::string program_, folder_;
    bool shows_times_;
    int runs_ = 0, faults_ = 0;
    long most_ = 0;
    double slowest_ = 0;
};

const Words targets{"--target", "tflite"};

/// A model, or what says that it is one, through all commands that take one.
void check_model(Checker& checker, const HostileFile& file) {
    const std::string& name = file.name;
    const std::set<int> described = file.may_be_described ? std::set<int>{0, 1} : std::set<int>{1};
    checker.expect(described, {"info", name});
    checker.expect({1}, {"info", name, "--memory-svg", "out.svg"});
    checker.expect({1}, {"check", name, "--target", "tflite"});
    checker.expect({1}, {"check", name, "--json"});
    checker.expect({1}, {"quantize", name, "--data", "x.npy", "--target", "tflite", "-o", "out.intq"});
    checker.expect({1}, {"quantize", name, "--data", "x.npy", "-o", "out.onnx"});
    checker.expect({1}, {"profile", name, "--data", "x.npy", "-o", "folder"});
    checker.expect({1},
                   {"targets", "--model", name, "--calibration", "x.npy", "--images", "x.npy", "--labels", "none"});
    checker.expect({1}, {"compare", name, "sound.intq", "--data", "x.npy"});
    checker.expect({1}, {"compare", "sound.onnx", name, "--data", "x.npy"});
    checker.expect({1}, {"run", name, "--data", "x.npy", "-o", "out.npy"});
    checker.expect({1}, {"codegen", name, "-o", "out.hpp"});
    checker.expect({1}, {"pack", name, "--cpu", "cortex-m4", "-o", "out.intq"});
}

/// A program, or what says that it is one.
void check_program(Checker& checker, const HostileFile& file) {
    const std::string& name = file.name;
    checker.expect({1}, {"info", name});
    checker.expect({1}, {"info", name, "--json"});
    checker.expect({1}, {"check", name});
    checker.expect({1}, {"quantize", name, "--data", "x.npy", "-o", "out.intq"});
    checker.expect({1}, {"profile", name, "--data", "x.npy", "-o", "folder"});
    checker.expect({1},
                   {"targets", "--model", name, "--calibration", "x.npy", "--images", "x.npy", "--labels", "none"});
    checker.expect({1}, {"compare", "sound.onnx", name, "--data", "x.npy"});
    checker.expect({1}, {"run", name, "--data", "x.npy", "-o", "out.npy"});
    checker.expect({1}, {"codegen", name, "-o", "out.hpp"});
}

/// Samples, or what says that it is some.
void check_data(Checker& checker, const std::string& name) {
    const Words normalize{"--mean", "0.5", "--deviation", "0.5"};
    const auto with = [&](Words words) {
        if (name.find(".npy") == std::string::npos) words.insert(words.end(), normalize.begin(), normalize.end());
        return words;
    };
    checker.expect({1}, with({"quantize", "sound.onnx", "--data", name, "-o", "out.intq"}));
    checker.expect({1}, with({"profile", "sound.onnx", "--data", name, "-o", "folder"}));
    checker.expect(
        {1}, with({"targets", "--model", "sound.onnx", "--calibration", name, "--images", name, "--labels", "none"}));
    checker.expect({1}, with({"compare", "sound.onnx", "sound.intq", "--data", name}));
    checker.expect({1}, with({"run", "sound.intq", "--data", name, "-o", "out.npy"}));
    checker.expect({1}, with({"codegen", "sound.intq", "--data", name, "-o", "out.hpp"}));
}

/// A .npy file of any header.
std::vector<std::byte> npy(const std::string& header, std::size_t data = 0) {
    std::string text("\x93NUMPY\x01\x00", 8);
    text += {static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
    return test::bytes_of(text + header + std::string(data, '\0'));
}

std::vector<HostileFile> hostile_samples() {
    const auto with = [](const std::string& descr, const std::string& shape) {
        return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    };
    std::vector<HostileFile> files;
    const auto add = [&](const std::string& name, std::vector<std::byte> bytes) {
        files.push_back({name + ".npy", std::move(bytes)});
    };
    add("descr_escapes", npy(with(test::escapes, "(1, 4, 6, 6)"), 576));
    add("key_escapes", npy("{'" + test::escapes + "': 1}", 576));
    add("terabytes", npy(with("<f4", "(1000000, 4, 1000, 1000)"), 576));
    add("overflows", npy(with("<f4", "(4294967296, 4294967296, 6, 6)"), 576));
    add("negative", npy(with("<f4", "(-1, 4, 6, 6)"), 576));
    add("short", npy(with("<f4", "(4, 4, 6, 6)"), 576));
    add("no_samples", npy(with("<f4", "(0, 4, 6, 6)")));
    add("objects", npy(with("|O", "(1, 4, 6, 6)"), 576));
    add("header_cut", test::bytes_of(std::string("\x93NUMPY\x01\x00\xff\xff{", 11)));
    add("nothing", {});
    return files;
}

/// A chunk of a PNG, with the right checksum.
std::string chunk(const std::string& type, const std::string& data) {
    const auto number = [](std::uint32_t value) {
        return std::string{static_cast<char>(value >> 24), static_cast<char>(value >> 16),
                           static_cast<char>(value >> 8), static_cast<char>(value)};
    };
    const std::vector<std::byte> covered = test::bytes_of(type + data);
    return number(static_cast<std::uint32_t>(data.size())) + type + data + number(crc32(covered));
}

/// Folders of one picture each; a name of a folder to what is in it.
std::map<std::string, HostileFile> hostile_pictures() {
    const std::string signature("\x89PNG\r\n\x1a\n", 8);
    const auto size = [](std::uint8_t third) {  // 8-bit greyscale, 6 x 6, or as large as a PNG can be
        return std::string{
            '\0', '\0', static_cast<char>(third), '\6', '\0', '\0', static_cast<char>(third), '\6', '\10', 0, 0, 0, 0};
    };
    const std::string image = signature + chunk("IHDR", size(0));
    std::string changed = image + chunk("IDAT", "not deflate") + chunk("IEND", "");
    changed[changed.size() - 20] ^= 1;
    std::map<std::string, HostileFile> folders;
    folders["chunk_escapes"] = {"a.png", test::bytes_of(image + chunk("\x1b[2J", "") + chunk("IEND", ""))};
    folders["wrong_checksum"] = {"a.png", test::bytes_of(changed)};
    folders["checksum_escapes"] = {"a.png", test::bytes_of(image + std::string("\0\0\0\0\x1b[2J????", 12))};
    folders["huge_picture"] = {"a.png", test::bytes_of(signature + chunk("IHDR", size(0x7f)) + chunk("IEND", ""))};
    folders["cut_picture"] = {"a.png", test::bytes_of(image + std::string("\0\xff\xff\xffIDAT", 8))};
    folders["name_escapes"] = {"a\x1b[2J\nb.png", test::bytes_of("no picture")};
    folders["no_jpeg"] = {"a.jpg", test::bytes_of("\xff\xd8\xff" + test::escapes)};
    return folders;
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc < 4) return 2;
    const std::string program = argv[1], tflite = argv[2], folder = argv[3];
    std::filesystem::remove_all(folder);
    io::make_folder(folder);
    const auto write = [&](const HostileFile& file) { io::write_file(folder + "/" + file.name, file.bytes); };

    write({"sound.onnx", test::sound_model().bytes()});
    std::vector<float> samples;
    for (int i = 0; i < 2 * 4 * 36; ++i) samples.push_back(static_cast<float>(i * 13 % 17 - 8) / 4.0f);
    io::write_npy(folder + "/x.npy", io::make_npy<float>({2, 4, 6, 6}, samples));
    Checker checker(program, folder, argc > 4);
    checker.expect(
        {0}, {"quantize", "sound.onnx", "--data", "x.npy", "--target", "tflite", "--portable", "-o", "sound.intq"});
    checker.expect({0}, {"check", "sound.onnx"});
    checker.expect({0}, {"run", "sound.intq", "--data", "x.npy", "-o", "out.npy"});

    std::size_t files = 0;
    const auto check_all = [&](const std::vector<HostileFile>& list, const auto& check) {
        for (const HostileFile& file : list) {
            write(file);
            check(file);
            ++files;
        }
    };
    const auto as_model = [&](const HostileFile& file) { check_model(checker, file); };
    const auto as_program = [&](const HostileFile& file) { check_program(checker, file); };
    const auto as_data = [&](const HostileFile& file) { check_data(checker, file.name); };
    check_all(test::growing_models(), as_model);
    check_all(test::wrong_models(), as_model);
    check_all(test::damaged("model", ".onnx", test::sound_model().bytes(), 4), as_model);
    check_all({{"empty.onnx", {}}, {"text.onnx", test::bytes_of("no model\n")}}, as_model);
    const std::vector<std::byte> sound = io::read_file(folder + "/sound.intq");
    check_all(test::damaged("program", ".intq", sound, 3), as_program);
    check_all({test::other_weights(sound), test::huge_arena(sound), {"magic.intq", {sound.begin(), sound.begin() + 8}}},
              as_program);
    // Packed for a machine that this one is not.
    checker.expect({0}, {"pack", "sound.intq", "--cpu", "cortex-m4", "-o", "board.intq"});
    const std::vector<std::byte> board = io::read_file(folder + "/board.intq");
    check_all(test::damaged("board", ".intq", board, 3), as_program);
    check_all({test::other_weights(board), test::huge_arena(board)}, as_program);
    const std::vector<std::byte> codes = io::read_file(tflite + "/convolutions_int8.tflite");
    check_all(test::damaged("codes", ".tflite", codes, 4), as_program);
    check_all({{"empty.tflite", {}}}, as_program);
    check_all(hostile_samples(), as_data);
    for (const auto& [name, picture] : hostile_pictures()) {
        io::make_folder(folder + "/" + name);
        io::write_file(folder + "/" + name + "/" + picture.name, picture.bytes);
        check_data(checker, name);
        ++files;
    }
    for (const auto& [option, name] : {std::pair{"--sensitive-ops", "ops.txt"}, {"--costs", "costs.txt"}}) {
        write({name, test::bytes_of("L1 " + test::escapes + "\n" + test::escapes + "\n")});
        const bool is_list = std::string(name) == "ops.txt";
        checker.expect({1}, {"quantize", "sound.onnx", "--data", "x.npy", option, name,
                             is_list ? "--top-k" : "--max-loss", "1", "-o", "out.intq"});
        ++files;
    }
    checker.expect({2}, {"check", "sound.onnx", "--target", test::escapes});
    checker.expect({2}, {test::escapes});
    ::setenv("INTQ_BACKEND", test::escapes.c_str(), 1);
    checker.expect({1}, {"info", "sound.intq"});
    checker.expect({1}, {"quantize", "sound.onnx", "--data", "x.npy", "-o", "out.intq"});
    return checker.finish(files);
} catch (const std::exception& error) {
    std::fprintf(stderr, "hostile_files: %s\n", error.what());
    return 1;
}
