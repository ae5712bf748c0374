# Each function takes the installed package, else downloads the release named here, checked by its SHA-256:
#   Eigen 3.4.0, nlohmann/json 3.11.3, GoogleTest 1.14.0, Google Benchmark 1.8.3, CLI11 2.1.2.
# Nothing is downloaded with EIGENFORMER_FETCH off. Header-only packages become imported targets, hence SYSTEM.

macro(eigenformer_fetch name url sha256)
  message(STATUS "${name} is not installed: taking ${url}")
  include(FetchContent)
  FetchContent_Declare(${name} URL ${url} URL_HASH SHA256=${sha256} DOWNLOAD_EXTRACT_TIMESTAMP TRUE ${ARGN})
  FetchContent_MakeAvailable(${name})
endmacro()

# 3.4 or later, 5 included. Eigen 5 refuses a request for 3.4, so none is made: the version found is compared here.
function(eigenformer_find_eigen)
  if(NOT TARGET Eigen3::Eigen)
    find_package(Eigen3 QUIET CONFIG)
  endif()
  if(TARGET Eigen3::Eigen)
    if(Eigen3_VERSION AND Eigen3_VERSION VERSION_LESS 3.4)
      message(FATAL_ERROR "eigenformer needs Eigen 3.4 or later, found ${Eigen3_VERSION} in ${Eigen3_DIR}")
    endif()
    return()
  endif()
  if(NOT EIGENFORMER_FETCH)
    message(FATAL_ERROR
      "eigenformer needs Eigen 3.4 or later: install it, say where it is with Eigen3_DIR or CMAKE_PREFIX_PATH, "
      "or allow its download with EIGENFORMER_FETCH=ON")
  endif()
  eigenformer_fetch(eigen https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.gz
    8586084f71f9bde545ee7fa6d00288b264a2b7ac3607b974e54d13e7162c1c72 SOURCE_SUBDIR headers-only)
  add_library(Eigen3::Eigen INTERFACE IMPORTED GLOBAL)
  target_include_directories(Eigen3::Eigen INTERFACE "${eigen_SOURCE_DIR}")
endfunction()

# Optional for a consumer, needed by our own programs.
function(eigenformer_find_json)
  if(NOT TARGET nlohmann_json::nlohmann_json)
    find_package(nlohmann_json 3.9 QUIET CONFIG)
  endif()
  if(TARGET nlohmann_json::nlohmann_json OR NOT PROJECT_IS_TOP_LEVEL OR NOT EIGENFORMER_FETCH)
    return()
  endif()
  eigenformer_fetch(nlohmann_json https://github.com/nlohmann/json/releases/download/v3.11.3/json.tar.xz
    d6c65aca6b1ed68e7a182f4757257b107ae403032760ed6ef121c9d55e81757d SOURCE_SUBDIR headers-only)
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED GLOBAL)
  target_include_directories(nlohmann_json::nlohmann_json INTERFACE "${nlohmann_json_SOURCE_DIR}/include")
endfunction()

# Optional for everybody: byte-pair tokenizers need ICU. It is not downloaded.
function(eigenformer_find_icu)
  find_package(ICU 60 QUIET COMPONENTS i18n uc)
endfunction()

function(eigenformer_find_googletest)
  find_package(GTest QUIET CONFIG)
  if(TARGET GTest::gtest_main)
    return()
  endif()
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
  set(BUILD_GMOCK OFF)
  set(INSTALL_GTEST OFF)
  eigenformer_fetch(googletest https://github.com/google/googletest/archive/refs/tags/v1.14.0.tar.gz
    8ad598c73ad796e0d8280b082cebd82a630d73e73cd3c70057938a6501bba5d7)
endfunction()

function(eigenformer_find_benchmark)
  find_package(benchmark QUIET CONFIG)
  if(TARGET benchmark::benchmark_main)
    return()
  endif()
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
  set(BENCHMARK_ENABLE_TESTING OFF)
  set(BENCHMARK_ENABLE_INSTALL OFF)
  eigenformer_fetch(benchmark https://github.com/google/benchmark/archive/refs/tags/v1.8.3.tar.gz
    6bc180a57d23d4d9515519f92b0c83d61b05b5bab188961f36ac7b06b0d9e9ce)
  get_target_property(include benchmark INTERFACE_INCLUDE_DIRECTORIES)
  set_target_properties(benchmark PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${include}")
endfunction()

function(eigenformer_find_cli11)
  find_package(CLI11 2.1 QUIET CONFIG)
  if(TARGET CLI11::CLI11)
    return()
  endif()
  eigenformer_fetch(cli11 https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.1.2.tar.gz
    26291377e892ba0e5b4972cdfd4a2ab3bf53af8dac1f4ea8fe0d1376b625c8cb SOURCE_SUBDIR headers-only)
  add_library(CLI11::CLI11 INTERFACE IMPORTED GLOBAL)
  target_include_directories(CLI11::CLI11 INTERFACE "${cli11_SOURCE_DIR}/include")
endfunction()
