# SentencePiece has no CMake package: a target for it, where it is. Included by the project and by its installed package.
if(NOT TARGET eigenformer::sentencepiece)
  find_path(eigenformer_sentencepiece_include sentencepiece_processor.h)
  find_library(eigenformer_sentencepiece_library sentencepiece)
  mark_as_advanced(eigenformer_sentencepiece_include eigenformer_sentencepiece_library)
  if(eigenformer_sentencepiece_include AND eigenformer_sentencepiece_library)
    add_library(eigenformer::sentencepiece UNKNOWN IMPORTED GLOBAL)
    set_target_properties(eigenformer::sentencepiece PROPERTIES
      IMPORTED_LOCATION "${eigenformer_sentencepiece_library}"
      INTERFACE_INCLUDE_DIRECTORIES "${eigenformer_sentencepiece_include}")
  endif()
endif()
