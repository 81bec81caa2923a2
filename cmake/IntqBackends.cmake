# SPDX-License-Identifier: MIT
#
# The backends of the library, read from the one list that names them, AllBackends in include/intq/simd/base/tags.hpp.
#
#   intq_all_backends(<result>)   their tags as C++ spells them inside namespace intq, such as simd::avx2

include_guard(GLOBAL)

function(intq_all_backends result)
    set(tags "${PROJECT_SOURCE_DIR}/include/intq/simd/base/tags.hpp")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${tags}")
    file(READ "${tags}" text)
    string(REGEX MATCH "AllBackends = BackendList<([^;]+)>;" found "${text}")
    if(NOT found)
        message(FATAL_ERROR "${tags} has no line 'using AllBackends = BackendList<…>;'")
    endif()
    set(list "${CMAKE_MATCH_1}")
    string(REGEX REPLACE "//[^\n]*|[ \n]" "" list "${list}")
    string(REPLACE "," ";" list "${list}")
    list(TRANSFORM list PREPEND "simd::")
    set(${result} "${list}" PARENT_SCOPE)
endfunction()
