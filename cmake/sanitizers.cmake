if(EIGENFORMER_SANITIZE)
  target_compile_options(eigenformer_portable INTERFACE
    -fsanitize=${EIGENFORMER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(eigenformer_portable INTERFACE -fsanitize=${EIGENFORMER_SANITIZE})
endif()
