# 32-bit x86 on a 64-bit system, to see that no count needs 64 bits to be right:
#   cmake --toolchain cmake/toolchain-m32.cmake -DEIGENFORMER_NATIVE=OFF ...
# Debian's packages g++-multilib and googletest are enough: there are no 32-bit libraries of ICU and SentencePiece beside the 64-bit
# ones, so tokenizers are left out, and GoogleTest is built from its source.
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_INIT "-m32 -msse2 -mfpmath=sse")
endforeach()
foreach(package GTest benchmark ICU)
  set(CMAKE_DISABLE_FIND_PACKAGE_${package} TRUE)
endforeach()
set(eigenformer_sentencepiece_library eigenformer_sentencepiece_library-NOTFOUND)
set(sentencepiece_train_library sentencepiece_train_library-NOTFOUND)
if(EXISTS /usr/src/googletest/CMakeLists.txt)
  set(FETCHCONTENT_SOURCE_DIR_GOOGLETEST /usr/src/googletest CACHE PATH "GoogleTest's source")
endif()
