# SPDX-License-Identifier: MIT
#
# Opens a report in headless Chromium, does what a person does with it, and demands what must be there then.
#
#   cmake -D CHROMIUM=<program> -D PAGE=<profiler.html> -D WORK=<scratch> [-D REPLACE=<text> -D BY=<text>]
#         -P check_page.cmake
# REPLACE plants a fault in the page.

cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
file(READ "${PAGE}" page)
if(REPLACE)
    string(FIND "${page}" "${REPLACE}" at)
    if(at EQUAL -1)
        message(FATAL_ERROR "the page has no text ${REPLACE}")
    endif()
    string(REPLACE "${REPLACE}" "${BY}" page "${page}")
endif()
file(COPY "${CMAKE_CURRENT_LIST_DIR}/page_checks.js" DESTINATION "${WORK}")
# Errors are seen from the beginning on; what hangs or stops leaves no verdict.
set(watch "window.faults = []; window.onerror = (what) => { faults.push('error: ' + what); }; ")
string(APPEND watch "for (const kind of ['error', 'warn']) console[kind] = (what) => faults.push('console: ' + what);")
string(REPLACE "<html lang=\"en\"><head>" "<html lang=\"en\"><head><script>${watch}</script>" page "${page}")
string(REPLACE "</body></html>" "<script src=\"page_checks.js\"></script></body></html>" page "${page}")
file(WRITE "${WORK}/page.html" "${page}")
execute_process(
    COMMAND "${CHROMIUM}" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --window-size=1280,900
            --virtual-time-budget=10000 "--user-data-dir=${WORK}/profile" --dump-dom "file://${WORK}/page.html"
    OUTPUT_VARIABLE dom ERROR_VARIABLE errors RESULT_VARIABLE status TIMEOUT 120)
if(NOT dom MATCHES "<pre id=\"verdict\">([^<]*)</pre>")
    message(FATAL_ERROR "the page gave no verdict (exit code ${status}):\n${errors}")
endif()
set(verdict "${CMAKE_MATCH_1}")
if(NOT verdict STREQUAL "the page is sound")
    message(FATAL_ERROR "${verdict}")
endif()
message("${verdict}")
