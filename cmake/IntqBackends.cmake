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

# --- the compiled form ------------------------------------------------------------------------------------------------
set(INTQ_BACKEND_FLAGS_scalar "")
set(INTQ_BACKEND_FLAGS_sse41 -msse4.1)
set(INTQ_BACKEND_FLAGS_avx2 -mavx2 -mfma)
set(INTQ_BACKEND_FLAGS_avxvnni -mavx2 -mfma -mavxvnni)
set(INTQ_BACKEND_FLAGS_avx512bw -mavx2 -mfma -mavx512f -mavx512cd -mavx512bw -mavx512dq -mavx512vl)
set(INTQ_BACKEND_FLAGS_avx512vnni ${INTQ_BACKEND_FLAGS_avx512bw} -mavx512vnni)

function(intq_backend_flags backend result)
    set(flags ${INTQ_BACKEND_FLAGS_${backend}})
    if(flags MATCHES "avx512" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
        list(APPEND flags -Wno-uninitialized -Wno-maybe-uninitialized)
    endif()
    set(${result} "${flags}" PARENT_SCOPE)
endfunction()

function(intq_compiled_backends include result)
    set(all scalar)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64|i.86")
        set(all avx512vnni avx512bw avxvnni avx2 sse41 scalar)
    endif()
    if(INTQ_COMPILED_BACKENDS STREQUAL "native")
        set(all avx512vnni)
    elseif(NOT INTQ_COMPILED_BACKENDS STREQUAL "all")
        set(all ${INTQ_COMPILED_BACKENDS})
    endif()
    set(${result} "${all}" PARENT_SCOPE)
endfunction()
