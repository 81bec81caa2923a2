// SPDX-License-Identifier: MIT
//
// Writes the library as single files; `./dev amalgamate` calls it.
#include <exception>
#include <iostream>
#include <span>
#include <string>

#include "intq/deploy/amalgamate.hpp"
#include "intq/io/file.hpp"

int main(int count, char** arguments) {
    if (count != 5) {
        std::cerr << "usage: amalgamate HEADER FOLDER NOTICE OUTPUT\n"
                     "  HEADER   as it is included, such as intq/embedded.hpp\n"
                     "  FOLDER   that holds intq/\n"
                     "  NOTICE   a file whose lines go at the top as a comment\n";
        return 2;
    }
    try {
        const auto notice = intq::io::read_file(arguments[3]);
        const std::string text = intq::deploy::amalgamate(
            arguments[1], arguments[2], {reinterpret_cast<const char*>(notice.data()), notice.size()});
        intq::io::write_file(arguments[4], std::as_bytes(std::span(text)));
        std::cout << arguments[4] << ": " << text.size() << " bytes\n";
    } catch (const std::exception& error) {
        std::cerr << "amalgamate: " << error.what() << "\n";
        return 1;
    }
    return 0;
}
