# SPDX-License-Identifier: MIT
#
# A board's program made on a host: packed for kernels that do not run there, by each way the same bytes, and run with
# these kernels' instructions in C++.
#
#   cmake -D INTQ=<program> -D DATA=<the shipped model> -D MODELS=<golden models> -D WORK=<scratch> -D CXX=<compiler>
#         -P check_pack.cmake

include("${CMAKE_CURRENT_LIST_DIR}/expect.cmake")
set(model "${DATA}/digits_resnet.onnx")
set(images "${DATA}/test_images.npy")
cmake_path(SET repository NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../..")
set(quantize quantize "${model}" --data "${DATA}/calibration_images.npy")
set(tflite ${quantize} --target tflite)

# --- by each way the same bytes ---------------------------------------------------------------------------------------
expect(0 "packed for: scalar" ${tflite} --portable -o portable.intq)
expect(0 "packed for: dsp\n.*arena: [0-9]+ bytes\ngolden runs: 1\n$" pack portable.intq --cpu cortex-m4 -o packed.intq)
expect(0 "packed for: dsp" ${tflite} --cpu cortex-m4 -o direct.intq)
expect_same(direct.intq packed.intq)
expect(0 "written" ${tflite} -o best.intq)
expect(0 "packed for: dsp" pack best.intq --backend dsp -o of_best.intq)
expect_same(of_best.intq packed.intq)
expect(0 "packed for: scalar" pack packed.intq --backend scalar -o back.intq)
expect_same(back.intq portable.intq)
# Row by row, and back to whole tensors.
expect(0 "rows: [0-9]+ of [0-9]+ instructions run row by row" ${tflite} --portable --rows memory -o rows.intq)
expect(0 "packed for: dsp\n.*rows: " pack rows.intq --cpu cortex-m4 -o rows_m4.intq)
expect(0 "rows: " pack portable.intq --cpu cortex-m4 --rows memory -o rows_direct.intq)
expect_same(rows_direct.intq rows_m4.intq)
expect(0 "packed for: scalar" pack rows_m4.intq --backend scalar --rows off -o without_rows.intq)
expect_same(without_rows.intq portable.intq)
# A step costs more than tensors as small as these, whatever the cache.
expect(0 "written: speed.intq" ${tflite} --portable --rows speed --cache 20000 -o speed.intq)
expect_same(speed.intq portable.intq)
foreach(cpu IN ITEMS cortex-m7 cortex-m33)
    expect(0 "packed for: dsp" pack portable.intq --cpu ${cpu} -o other.intq)
    expect_same(other.intq packed.intq)
endforeach()
foreach(cpu IN ITEMS cortex-m0plus cortex-m3)
    expect(0 "packed for: scalar" pack packed.intq --cpu ${cpu} -o other.intq)
    expect_same(other.intq portable.intq)
endforeach()
expect(0 "\"packed for\": \"[a-z0-9]+\"" pack portable.intq --cpu cortex-m55 --json -o other.intq)
expect(0 "written" pack portable.intq --cpu cortex-m85 -o other.intq)
foreach(options IN ITEMS "--target;fp32" "--target;litert" "--target;bayes" "--target;meta;--dtype;int16")
    expect(0 "packed for: dsp" ${quantize} ${options} --cpu cortex-m4 -o other.intq)
    expect(0 "packed for: dsp\nruns on: .*self test: passed" info other.intq)
endforeach()

# --- and the same results ---------------------------------------------------------------------------------------------
expect(0 "written" run portable.intq --data "${images}" -o of_portable.npy)
expect(0 "written" run packed.intq --data "${images}" -o of_packed.npy)
expect_same(of_packed.npy of_portable.npy)
expect(0 "same class" compare "${model}" packed.intq --data "${images}")

expect(0 "packed for: dsp" codegen portable.intq --cpu cortex-m4 -o m4.hpp)
expect(0 "packed for: dsp" codegen packed.intq --cpu cortex-m4 -o of_packed.hpp)
expect_same(of_packed.hpp m4.hpp)
expect(0 "packed for: dsp" ${tflite} --cpu cortex-m4 -o direct.hpp)
expect_same(direct.hpp m4.hpp)
expect(0 "form: program.*packed for: dsp" codegen portable.intq --backend dsp -o of_codegen.intq)
expect_same(of_codegen.intq packed.intq)
expect(0 "packed for: dsp" codegen "${MODELS}/../tflite/mobilenet3_int8.tflite" --target tflite --cpu cortex-m4 --name codes
       -o codes.hpp)

# The instructions of dsp are C++ here. The kernels of another packing say so.
file(WRITE "${WORK}/board.cpp" "#include \"codes.hpp\"
#include \"m4.hpp\"
#include <cstdio>
#include <vector>
using namespace intq;
alignas(buffer_alignment) std::byte file[1 << 20], tables[1 << 16], arena[1 << 20];
template <class Backend> Result<runtime::LoadedProgram> load(std::size_t bytes) {
    return runtime::load_program({file, bytes}, kernels::kernel_table<target::tflite<>, Backend>, {tables, sizeof tables});
}
int main() {
    if (!model::self_test() || !codes::self_test()) return 1;
    std::FILE* const from = std::fopen(\"packed.intq\", \"rb\");
    const std::size_t bytes = std::fread(file, 1, sizeof file, from);
    const Status refused = load<simd::scalar>(bytes).status();
    std::printf(\"scalar: %s of %s\\n\", name_of(refused.code), name_of(refused.field));
    const auto loaded = load<simd::dsp>(bytes);
    if (!loaded || loaded->program.arena_size > index_t{sizeof arena}) return 2;
    const auto& table = kernels::kernel_table<target::tflite<>, simd::dsp>;
    return runtime::self_test(loaded->program, loaded->golden, table, arena).is_none() ? 0 : 3;
}
")
execute_process(COMMAND "${CXX}" -std=c++20 -Wall -Wextra -Werror -O1 -DINTQ_EMULATES_DSP=1 -I. "-I${repository}/include"
                        -o board board.cpp WORKING_DIRECTORY "${WORK}" RESULT_VARIABLE status ERROR_VARIABLE output)
if(NOT status EQUAL 0)
    message(SEND_ERROR "the program of the board: ${output}")
endif()
# Without them the compiler says so once, and nothing else.
file(WRITE "${WORK}/refused.cpp" "#include \"m4.hpp\"\nint main() { return model::self_test() ? 0 : 1; }\n")
execute_process(COMMAND "${CXX}" -std=c++20 -Wall -Wextra -fsyntax-only -I. "-I${repository}/include" refused.cpp
                WORKING_DIRECTORY "${WORK}" RESULT_VARIABLE status ERROR_VARIABLE output)
string(REGEX MATCHALL "error:" errors "${output}")
if(status EQUAL 0 OR NOT errors STREQUAL "error:" OR NOT output MATCHES "packed for the kernels of dsp.*-mcpu=cortex-m4")
    message(SEND_ERROR "a header of dsp for a compiler without it: ${status}, ${output}")
endif()
execute_process(COMMAND "${WORK}/board" WORKING_DIRECTORY "${WORK}" RESULT_VARIABLE status OUTPUT_VARIABLE output)
if(NOT status EQUAL 0 OR NOT output STREQUAL "scalar: unsupported of layout\n")
    message(SEND_ERROR "the program of the board: ${status}, ${output}")
endif()

# --- which kernels run it -----------------------------------------------------------------------------------------------
# Those of --backend, or else of INTQ_BACKEND: a copy is packed for them where they do not read the file.
set(ENV{INTQ_BACKEND} scalar)
foreach(file IN ITEMS portable best packed)
    expect(0 "runs on: scalar\n.*self test: passed" info ${file}.intq)
    expect(0 "runs on: scalar\n" run ${file}.intq --data "${images}" -o of_scalar.npy)
    expect_same(of_scalar.npy of_portable.npy)
endforeach()
unset(ENV{INTQ_BACKEND})
expect(0 "packed for: scalar\nruns on: " info portable.intq)

# --- refusals ---------------------------------------------------------------------------------------------------------
expect(2 "--cpu.*--portable|--portable.*--cpu" ${tflite} --portable --cpu cortex-m4 -o none.intq)
expect(2 "--cpu.*--backend|--backend.*--cpu" pack portable.intq --cpu cortex-m4 --backend dsp -o none.intq)
expect(2 "--cpu or --backend: one of them is needed, and says what to pack for" pack portable.intq -o none.intq)
expect(2 "--output: `intq pack` writes a program file, .intq; `intq codegen` writes .hpp" pack portable.intq --cpu
       cortex-m4 -o none.hpp)
expect(2 "--output: .*; `intq quantize` writes .onnx" codegen portable.intq -o none.onnx)
expect(2 "--cpu: cortex-m1 not in .*cortex-m33" pack portable.intq --cpu cortex-m1 -o none.intq)
expect(2 "--cpu: an ONNX model holds no program" ${tflite} --cpu cortex-m4 -o none.onnx)
expect(2 "--backend: there is no backend \"altivec\"; the backends: .*dsp.*scalar" pack portable.intq --backend altivec -o none.intq)
expect(2 "--backend: there is no backend \"altivec\"" ${tflite} --backend altivec -o none.intq)
expect(2 "--arena: asks for rows" pack portable.intq --cpu cortex-m4 --rows off --arena 4096 -o none.intq)
expect(2 "--arena: belongs to --rows memory" pack portable.intq --backend scalar --rows speed --cache 9 --arena 4096 -o
       none.intq)
expect(2 "--rows: speed needs --cache" pack portable.intq --backend scalar --rows speed -o none.intq)
expect(2 "--cache: belongs to --rows speed" pack portable.intq --backend scalar --rows memory --cache 9 -o none.intq)
expect(1 "digits_resnet.onnx: is no program file; `intq quantize`" pack "${model}" --cpu cortex-m4 -o none.intq)
expect(1 "it is a file that this command reads" pack portable.intq --cpu cortex-m4 -o portable.intq)
expect(1 "no_such.intq" pack no_such.intq --cpu cortex-m4 -o none.intq)
foreach(file IN ITEMS portable packed)
    file(COPY_FILE "${WORK}/${file}.intq" "${WORK}/damaged.intq")
    execute_process(COMMAND sh -c "printf damage | dd of=damaged.intq bs=1 seek=3000 conv=notrunc; head -c 5000 ${file}.intq > cut.intq"
                    WORKING_DIRECTORY "${WORK}" COMMAND_ERROR_IS_FATAL ANY ERROR_QUIET)
    expect(1 "damaged.intq .*checksum" pack damaged.intq --cpu cortex-m4 -o none.intq)
    expect(1 "cut.intq" pack cut.intq --cpu cortex-m4 -o none.intq)
endforeach()
file(GLOB left "${WORK}/none*")
if(left)
    message(SEND_ERROR "a failed command left ${left}")
endif()
