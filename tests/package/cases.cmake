# One case of the package tests: cmake -DCASE=... -P cases.cmake, with the variables that CMakeLists.txt passes.
cmake_minimum_required(VERSION 3.22)
include("${CMAKE_CURRENT_LIST_DIR}/stand_in.cmake")
file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${WORK_DIR}")
set(projects "${CMAKE_CURRENT_LIST_DIR}")
set(consumer "${projects}/consumer")

# The command must succeed; `output` is what it printed.
function(succeed)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(code)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

# The command must fail, and say what `expected` describes.
function(refuse expected)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  string(REGEX REPLACE "[ \n]+" " " text "${text}")
  if(NOT code OR NOT text MATCHES "${expected}")
    message(FATAL_ERROR "expected a failure that says \"${expected}\", got ${code}:\n${text}")
  endif()
endfunction()

function(install_to prefix)
  succeed(${CMAKE_COMMAND} --install "${BUILD_DIR}" --prefix "${prefix}")
endfunction()

function(configure_command result project)
  set(${result} ${CMAKE_COMMAND} -S "${project}" -B "${WORK_DIR}/build" -G "${GENERATOR}" "-DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCMAKE_BUILD_TYPE=Debug
    "-DEigen3_DIR=${EIGEN_PACKAGE}" "-Dnlohmann_json_DIR=${JSON_PACKAGE}"
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -DFETCHCONTENT_FULLY_DISCONNECTED=ON ${ARGN} PARENT_SCOPE)
endfunction()

# Configures, builds and runs the consumer with `program`, linked to `target`; the rest is the way it gets the library.
function(consume program target)
  configure_command(configure "${consumer}" "-DPROGRAM=${program}" -DTARGET=${target} ${ARGN})
  succeed(${configure})
  file(READ "${WORK_DIR}/build/flags" flags)
  if(flags MATCHES "[^;]")
    message(FATAL_ERROR "a consumer gets flags: ${flags}")
  endif()
  succeed(${CMAKE_COMMAND} --build "${WORK_DIR}/build")
  succeed("${WORK_DIR}/build/consumer")
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(consume_version program target)
  consume(${program} ${target} ${ARGN})
  if(NOT output STREQUAL "${VERSION}\n")
    message(FATAL_ERROR "the program printed \"${output}\", not ${VERSION}")
  endif()
endfunction()

function(refuse_consumer expected)
  configure_command(configure "${consumer}" -DPROGRAM=version.cpp -DTARGET=eigenformer::eigenformer ${ARGN})
  refuse("${expected}" ${configure})
endfunction()

set(prefix "${WORK_DIR}/prefix")
set(installed -DHOW=find_package -DPACKAGE=eigenformer "-DCMAKE_PREFIX_PATH=${prefix}")
set(build_tree -DHOW=find_package -DPACKAGE=eigenformer "-Deigenformer_DIR=${BUILD_DIR}")
set(directory -DHOW=add_subdirectory "-DDIRECTORY=${SOURCE_DIR}")

if(CASE STREQUAL "installed")
  install_to("${prefix}")
  consume_version(umbrella.cpp eigenformer::eigenformer ${installed} -DPACKAGE_VERSION=${VERSION})

elseif(CASE STREQUAL "text")
  install_to("${prefix}")
  consume_version(text.cpp eigenformer::text ${installed})

elseif(CASE STREQUAL "moved")
  install_to("${WORK_DIR}/first")
  file(RENAME "${WORK_DIR}/first" "${prefix}")
  consume_version(version.cpp eigenformer::io ${installed})

elseif(CASE STREQUAL "build_tree")
  consume_version(version.cpp eigenformer::io ${build_tree})

elseif(CASE STREQUAL "add_subdirectory")
  consume_version(version.cpp eigenformer::io ${directory})

elseif(CASE STREQUAL "fetch_content")
  consume_version(version.cpp eigenformer::io -DHOW=FetchContent "-DFETCHCONTENT_SOURCE_DIR_EIGENFORMER=${SOURCE_DIR}")

elseif(CASE STREQUAL "parent_export")
  configure_command(configure "${projects}/parent" "-DDIRECTORY=${SOURCE_DIR}")
  succeed(${configure})
  succeed(${CMAKE_COMMAND} --install "${WORK_DIR}/build" --prefix "${prefix}")
  file(REMOVE_RECURSE "${WORK_DIR}/build")
  consume_version(version.cpp parent::parent -DHOW=find_package -DPACKAGE=parent "-DCMAKE_PREFIX_PATH=${prefix}")

elseif(CASE STREQUAL "subproject")
  configure_command(configure "${projects}/subproject" "-DDIRECTORY=${SOURCE_DIR}")
  succeed(${configure})
  succeed(${configure})  # what a first run leaves in the cache shows in a second
  succeed(${CMAKE_COMMAND} --install "${WORK_DIR}/build" --prefix "${prefix}")
  if(EXISTS "${prefix}")
    message(FATAL_ERROR "a subproject that was not asked installed something")
  endif()

elseif(CASE STREQUAL "installed_paths")
  install_to("${prefix}")
  file(GLOB_RECURSE files "${prefix}/*")
  foreach(file ${files})
    file(READ "${file}" text)
    foreach(path "${SOURCE_DIR}" "${BUILD_DIR}" "${prefix}" "${EIGEN_INCLUDE}")
      string(FIND "${text}" "${path}" at)
      if(NOT at EQUAL -1)
        message(FATAL_ERROR "${file} names ${path}")
      endif()
    endforeach()
    if(file MATCHES "\\.cmake$" AND text MATCHES "[\"; ]/[A-Za-z][^\n]*")
      message(FATAL_ERROR "${file} has an absolute path: ${CMAKE_MATCH_0}")
    endif()
  endforeach()

elseif(CASE STREQUAL "wrong_version")
  install_to("${prefix}")
  foreach(version 0.0 0.99 1.0)
    refuse_consumer("compatible with requested version \"${version}\"" ${installed} -DPACKAGE_VERSION=${version})
  endforeach()

elseif(CASE STREQUAL "missing_eigen")
  install_to("${prefix}")
  set(nowhere -DEigen3_DIR=nowhere -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF -DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF
    -DCMAKE_FIND_USE_CMAKE_ENVIRONMENT_PATH=OFF)
  refuse_consumer("Could not find a package configuration file provided by \"Eigen3\"" ${installed} ${nowhere})
  refuse_consumer("eigenformer needs Eigen 3.4 or later: install it" ${directory} ${nowhere})

elseif(CASE STREQUAL "eigen_versions")
  foreach(version 3.3.9 3.4.0 5.0.1)
    write_stand_in("${WORK_DIR}/${version}" Eigen3 ${version} Eigen3::Eigen "${EIGEN_INCLUDE}")
    foreach(way build_tree directory)
      if(version VERSION_LESS 3.4)
        refuse_consumer("needs Eigen 3.4 or later, found ${version}" ${${way}} "-DEigen3_DIR=${WORK_DIR}/${version}")
      else()
        consume_version(version.cpp eigenformer::io ${${way}} "-DEigen3_DIR=${WORK_DIR}/${version}")
      endif()
      file(REMOVE_RECURSE "${WORK_DIR}/build")
    endforeach()
  endforeach()

elseif(CASE STREQUAL "warnings")
  succeed("${COMPILER}" -std=c++20 -O2 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror
    ${INCLUDE_FLAGS} -c "${consumer}/umbrella.cpp" -o "${WORK_DIR}/umbrella.o")

elseif(CASE STREQUAL "readme")
  file(READ "${SOURCE_DIR}/README.md" text)
  if(NOT text MATCHES "\n```cpp\n(.*)")
    message(FATAL_ERROR "README.md has no cpp block")
  endif()
  set(program "${CMAKE_MATCH_1}")
  string(FIND "${program}" "\n```" end)
  string(SUBSTRING "${program}" 0 ${end} program)
  file(WRITE "${WORK_DIR}/readme.cpp" "${program}\n")
  consume("${WORK_DIR}/readme.cpp" eigenformer::eigenformer ${build_tree})
  message("${output}")
endif()
