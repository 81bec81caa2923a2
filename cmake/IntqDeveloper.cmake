# SPDX-License-Identifier: MIT
#
# What our own tests, examples and benches are compiled with; nothing of it reaches a user of intq::intq.

add_library(intq_developer_warnings INTERFACE)
target_compile_options(intq_developer_warnings INTERFACE -Wall -Wextra -Wconversion)
if(INTQ_WERROR)
    target_compile_options(intq_developer_warnings INTERFACE -Werror)
endif()
# g++ 12 follows paths through std::string and std::vector that cannot be taken (an insert of more than half of the
# address space, a vector freed at an offset) and warns of them when it optimises. It may go with g++ 13.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(intq_developer_warnings INTERFACE -Wno-restrict -Wno-free-nonheap-object)
endif()

# Text output of the examples and benches.
if(INTQ_BUILD_EXAMPLES OR INTQ_BUILD_BENCH)
    find_path(INTQ_FMT_INCLUDE_DIR fmt/format.h)
    if(NOT INTQ_FMT_INCLUDE_DIR)
        message(FATAL_ERROR "intq's examples and benches need fmt (Debian: libfmt-dev); "
                            "the command ./dev installs what is missing")
    endif()
    add_library(intq_fmt INTERFACE)
    # Its library saves each unit a second of compiling; the headers alone serve as well.
    find_package(fmt QUIET)
    if(fmt_FOUND)
        target_link_libraries(intq_fmt INTERFACE fmt::fmt)
    else()
        target_include_directories(intq_fmt SYSTEM INTERFACE "${INTQ_FMT_INCLUDE_DIR}")
        target_compile_definitions(intq_fmt INTERFACE FMT_HEADER_ONLY=1)
    endif()
endif()

if(INTQ_SANITIZE)
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=address,undefined)
    # Kernels at -O0 compile in half the time; all units run on the machine that builds them.
    add_compile_definitions(INTQ_CALL_UNOPTIMISED=1)
endif()
