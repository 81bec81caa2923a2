# SPDX-License-Identifier: MIT
#
# Reads the blocks of code of a page: ```<language>, lines, ```.

# What programs of pages are compiled with: all warnings that a user may have on, as errors.
set(page_warnings -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wundef -Wold-style-cast -Wcast-align -Werror)

# Takes the next block of a language from `text`; `found` says whether there was one.
macro(take_block language result)
    set(found FALSE)
    string(FIND "${text}" "```${language}\n" at)
    if(NOT at EQUAL -1)
        set(found TRUE)
        string(LENGTH "```${language}\n" length)
        math(EXPR at "${at} + ${length}")
        string(SUBSTRING "${text}" ${at} -1 text)
        string(FIND "${text}" "```" end)
        string(SUBSTRING "${text}" 0 ${end} ${result})
        math(EXPR end "${end} + 3")
        string(SUBSTRING "${text}" ${end} -1 text)
    endif()
endmacro()
