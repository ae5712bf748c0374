// GGUF files, written as their description says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/core/scalar.hpp"
#include "support/files.hpp"

namespace eigenformer::test {

inline std::string gguf_text(const std::string& text) { return bytes_of(std::uint64_t{text.size()}) + text; }

/// Keys and tensors, in the order in which they are added.
struct GgufBytes {
  std::uint32_t version = 3;
  std::size_t alignment = 32;
  std::string keys, infos, data;
  std::uint64_t key_count = 0, tensor_count = 0;

  GgufBytes& key(const std::string& name, std::uint32_t type, const std::string& value) {
    ++key_count;
    keys += gguf_text(name) + bytes_of(type) + value;
    return *this;
  }
  GgufBytes& key(const std::string& name, const std::string& value) { return key(name, 8, gguf_text(value)); }
  GgufBytes& key(const std::string& name, const char* value) { return key(name, std::string(value)); }
  GgufBytes& key(const std::string& name, std::uint32_t value) { return key(name, 4, bytes_of(value)); }
  GgufBytes& key(const std::string& name, float value) { return key(name, 6, bytes_of(value)); }
  GgufBytes& key(const std::string& name, bool value) { return key(name, 7, std::string(1, value ? '\1' : '\0')); }
  GgufBytes& list(const std::string& name, std::uint32_t type, std::uint64_t count, const std::string& values) {
    return key(name, 9, bytes_of(type) + bytes_of(count) + values);
  }
  GgufBytes& list(const std::string& name, const std::vector<std::string>& values) {
    std::string all;
    for (const std::string& value : values) all += gguf_text(value);
    return list(name, 8, values.size(), all);
  }
  template <class T>
  GgufBytes& list(const std::string& name, std::uint32_t type, const std::vector<T>& values) {
    std::string all;
    for (const T& value : values) all += bytes_of(value);
    return list(name, type, values.size(), all);
  }

  /// `extents` in the file's order, the last axis first.
  GgufBytes& tensor(const std::string& name, const std::vector<std::uint64_t>& extents, std::uint32_t type,
                    const std::string& bytes) {
    ++tensor_count;
    data.resize((data.size() + alignment - 1) / alignment * alignment);
    infos += gguf_text(name) + bytes_of(static_cast<std::uint32_t>(extents.size()));
    for (const std::uint64_t extent : extents) infos += bytes_of(extent);
    infos += bytes_of(type) + bytes_of(std::uint64_t{data.size()});
    data += bytes;
    return *this;
  }
  /// The same in our order, of float32.
  GgufBytes& tensor(const std::string& name, const std::vector<Index>& shape, const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) bytes += bytes_of(value);
    return tensor(name, std::vector<std::uint64_t>(shape.rbegin(), shape.rend()), 0, bytes);
  }

  std::string bytes() const {
    std::string all = "GGUF" + bytes_of(version) + bytes_of(tensor_count) + bytes_of(key_count) + keys + infos;
    if (tensor_count > 0) all.resize((all.size() + alignment - 1) / alignment * alignment);
    return all + data;
  }
};

}  // namespace eigenformer::test
