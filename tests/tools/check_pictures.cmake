# SPDX-License-Identifier: MIT
#
# Folders of pictures as data of intq: they are the images that a .npy file of the same pixels holds, and a wrong one is
# named.
#
#   cmake -D INTQ=<program> -D DATA=<the shipped model> -D INPUTS=<of write_inputs> -D WORK=<scratch> -P check_pictures.cmake

include("${CMAKE_CURRENT_LIST_DIR}/expect.cmake")
set(model "${DATA}/digits_resnet.onnx")
set(normalize --mean 0.5 --deviation 0.5)

# The order of names, one channel, and three; a file that is no picture is passed over.
expect(0 "written: digits.intq" quantize "${model}" --data "${INPUTS}/pixels.npy" ${normalize} -o digits.intq)
expect(0 "written: grey.intq" quantize "${model}" --data "${INPUTS}/grey" ${normalize} -o grey.intq)
expect_same(grey.intq digits.intq)
expect(0 "shape: .4, 10." run digits.intq --data "${INPUTS}/pixels.npy" ${normalize} -o pixels.npy)
foreach(folder IN ITEMS grey grey_as_colour)
    expect(0 "shape: .4, 10." run digits.intq --data "${INPUTS}/${folder}" ${normalize} -o ${folder}.npy)
    expect_same(${folder}.npy pixels.npy)
endforeach()
expect(0 "shape: .2, 10." run digits.intq --data "${INPUTS}/grey" --count 2 ${normalize} -o two.npy)
expect(0 "written" quantize "${INPUTS}/colour.onnx" --data "${INPUTS}/colour.npy" --mean 0.4 0.5 0.6 --deviation 0.25 -o
       colour.intq)
foreach(data IN ITEMS colour.npy colour)
    expect(0 "shape: .4, 3." run colour.intq --data "${INPUTS}/${data}" --mean 0.4 0.5 0.6 --deviation 0.25 -o
           of_${data}.npy)
endforeach()
expect_same(of_colour.npy of_colour.npy.npy)
foreach(data IN ITEMS jpeg.npy jpeg)
    expect(0 "shape: .1, 10." run digits.intq --data "${INPUTS}/${data}" ${normalize} -o of_${data}.npy)
endforeach()
expect_same(of_jpeg.npy of_jpeg.npy.npy)

# --- wrong use --------------------------------------------------------------------------------------------------------
set(run run digits.intq -o none.npy)
expect(1 "wrong_size/2.png: the picture has 9 x 8 pixels, expected 8 x 8" ${run} --data "${INPUTS}/wrong_size" ${normalize})
expect(1 "unpacks/0.png: cannot be read as a picture: its data unpacks to more than the [0-9]+ bytes that a picture of its size" ${run}
       --data "${INPUTS}/unpacks" ${normalize})
expect(1 "damaged/1.png: is a damaged picture: its last chunk is cut off" ${run} --data "${INPUTS}/damaged" ${normalize})
expect(1 "changed/1.png: is a damaged picture: the checksum of its chunk .IDAT. does not match its data" ${run} --data
       "${INPUTS}/changed" ${normalize})
expect(1 "no_image/0.png: cannot be read as a picture: " ${run} --data "${INPUTS}/no_image" ${normalize})
expect(1 "no_pictures: the folder holds no picture" ${run} --data "${INPUTS}/no_pictures" ${normalize})
expect(1 "grey: images are uint8: give --mean" ${run} --data "${INPUTS}/grey")
expect(1 "colour/0.png: the picture has 7 x 5 pixels, expected 8 x 8" ${run} --data "${INPUTS}/colour" ${normalize})
expect(1 "grey: pictures have 1 or 3 channels, and the model takes" quantize "${INPUTS}/flat.onnx" --data
       "${INPUTS}/grey" ${normalize} -o none.intq)
file(GLOB left "${WORK}/none*")
if(left)
    message(SEND_ERROR "a failed command left ${left}")
endif()
