# SPDX-License-Identifier: MIT
#
# The small networks, lowered for scalar and packed for a CPU, are those that were lowered for its backend: file and
# header, byte for byte.
#
#   cmake -D INTQ=<program> -D NETWORKS=<folder, for scalar> -D LOWERED=<folder, for the CPU> -D CPU=<name>
#         -D WORK=<scratch> -P check_packed_networks.cmake

include("${CMAKE_CURRENT_LIST_DIR}/expect.cmake")
foreach(network IN ITEMS ds_cnn resnet_8 mobilenet_v1 autoencoder small_image small_rows)
    expect(0 "golden runs: 1" pack "${NETWORKS}/${network}.intq" --cpu ${CPU} -o ${network}.intq)
    expect(0 "golden runs: 1" codegen "${NETWORKS}/${network}.intq" --cpu ${CPU} --name ${network} -o ${network}.hpp)
    foreach(ending IN ITEMS intq hpp)
        file(SHA256 "${WORK}/${network}.${ending}" packed)
        file(SHA256 "${LOWERED}/${network}.${ending}" lowered)
        if(NOT packed STREQUAL lowered)
            message(SEND_ERROR "${network}.${ending} differs from the one that was lowered for the CPU")
        endif()
    endforeach()
endforeach()
