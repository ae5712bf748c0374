
####### Expanded from @PACKAGE_INIT@ by configure_package_config_file() #######
####### Any changes to this file will be overwritten by the next CMake run ####
####### The input file was eigenformer-config.cmake.in                            ########

get_filename_component(PACKAGE_PREFIX_DIR "${CMAKE_CURRENT_LIST_DIR}/../../../" ABSOLUTE)

macro(check_required_components _NAME)
  foreach(comp ${${_NAME}_FIND_COMPONENTS})
    if(NOT ${_NAME}_${comp}_FOUND)
      if(${_NAME}_FIND_REQUIRED_${comp})
        set(${_NAME}_FOUND FALSE)
      endif()
    endif()
  endforeach()
endmacro()

####################################################################################

include(CMakeFindDependencyMacro)
find_dependency(Threads)

# 3.4 or later, 5 included: Eigen 5 refuses a request for 3.4, so the version found is compared here.
if(NOT TARGET Eigen3::Eigen)
  find_dependency(Eigen3 CONFIG)
  if(Eigen3_VERSION AND Eigen3_VERSION VERSION_LESS 3.4)
    set(eigenformer_FOUND FALSE)
    set(eigenformer_NOT_FOUND_MESSAGE "eigenformer needs Eigen 3.4 or later, found ${Eigen3_VERSION} in ${Eigen3_DIR}")
    return()
  endif()
endif()

include("${CMAKE_CURRENT_LIST_DIR}/eigenformer-targets.cmake")

# eigenformer::io (component "io") exists where nlohmann/json does.
if(NOT TARGET nlohmann_json::nlohmann_json)
  find_package(nlohmann_json 3.9 QUIET CONFIG)
endif()
if(TARGET nlohmann_json::nlohmann_json)
  include("${CMAKE_CURRENT_LIST_DIR}/eigenformer-io-targets.cmake" OPTIONAL)
endif()
if(TARGET eigenformer::io)
  set(eigenformer_io_FOUND TRUE)
else()
  set(eigenformer_NOT_FOUND_MESSAGE "component io needs nlohmann/json 3.9 or later")
endif()

# eigenformer::text (component "text") exists where ICU does, too.
if(TARGET eigenformer::io AND NOT TARGET ICU::i18n)
  find_package(ICU 60 QUIET COMPONENTS i18n uc)
endif()
if(TARGET eigenformer::io AND TARGET ICU::i18n)
  include("${CMAKE_CURRENT_LIST_DIR}/sentencepiece.cmake")
  include("${CMAKE_CURRENT_LIST_DIR}/eigenformer-text-targets.cmake" OPTIONAL)
endif()
if(TARGET eigenformer::text)
  set(eigenformer_text_FOUND TRUE)
elseif(eigenformer_FIND_REQUIRED_text)
  set(eigenformer_NOT_FOUND_MESSAGE "component text needs nlohmann/json 3.9 and ICU 60, or later")
endif()
check_required_components(eigenformer)
