// Values of JSON files that say where they stand: every Error names the file, the key and the value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/text/vocabulary.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

/// A value within a file, with the way to it for errors.
class JsonValue {
 public:
  JsonValue(const nlohmann::json& value, const std::string& file, std::string key)
      : value_(&value), file_(&file), key_(std::move(key)) {}

  /// Null if absent.
  JsonValue operator[](const std::string& key) const {
    static const nlohmann::json none;
    const auto found = value_->find(key);
    return {value_->is_object() && found != value_->end() ? *found : none, *file_, below(key)};
  }

  bool null() const { return value_->is_null(); }
  bool is_text() const { return value_->is_string(); }
  bool is_list() const { return value_->is_array(); }
  bool is_object() const { return value_->is_object(); }

  const std::string& text() const {
    validate(value_->is_string(), "it must be a string");
    return value_->get_ref<const std::string&>();
  }
  bool truth() const {
    validate(value_->is_boolean(), "it must be true or false");
    return value_->get<bool>();
  }
  bool truth(bool otherwise) const { return null() ? otherwise : truth(); }
  Id id() const {
    validate(value_->is_number_unsigned() && std::in_range<Id>(value_->get<std::uint64_t>()) &&
                 value_->get<Id>() < 0x7fffffff,
             "it must be a whole number from 0 to 2147483646");
    return value_->get<Id>();
  }
  double number() const {
    validate(value_->is_number(), "it must be a number");
    return value_->get<double>();
  }
  std::vector<JsonValue> list() const {
    validate(value_->is_array(), "it must be an array");
    std::vector<JsonValue> result;
    for (const nlohmann::json& element : *value_)
      result.push_back({element, *file_, below(std::to_string(result.size()))});
    return result;
  }
  template <class F>
  void each(F&& f) const {
    validate(value_->is_object(), "it must be an object");
    for (const auto& [key, value] : value_->items()) f(key, JsonValue(value, *file_, below(shown(key))));
  }

  /// Refuses other keys.
  void only(std::initializer_list<std::string_view> keys) const {
    each([&](const std::string& key, const JsonValue& value) {
      bool known = false;
      for (const std::string_view allowed : keys) known = known || key == allowed;
      value.validate(known, "this key is not understood");
    });
  }

  /// Fails unless `holds`, with the value and the reason.
  template <class... Parts>
  void validate(bool holds, const Parts&... parts) const {
    if (!holds) [[unlikely]]
      fail("tokenizer", *file_, ": ", key_.empty() ? "the file" : key_.c_str(), " is ", spelled(), ": ", parts...);
  }

 private:
  std::string below(const std::string& key) const { return key_.empty() ? key : key_ + "." + key; }

  std::string spelled() const {
    if (value_->is_string()) return shown(text());
    if (value_->is_array()) return "an array of " + std::to_string(value_->size());
    if (value_->is_object()) return "an object of " + std::to_string(value_->size());
    return value_->dump();
  }

  const nlohmann::json* value_;
  const std::string* file_;
  std::string key_;
};

inline nlohmann::json parse_json(const std::string& text, const std::string& file) {
  ensure(text.find('\0') == std::string::npos, "tokenizer", file,
         ": the file contains a NUL byte");  // where the parser would stop
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    fail("tokenizer", file, ": the file is not valid JSON at byte ", error.byte);
  } catch (const nlohmann::json::exception&) {
    fail("tokenizer", file, ": the file is not valid JSON");  // a number that is too large
  }
}

/// A whole file.
class JsonFile {
 public:
  explicit JsonFile(const std::filesystem::path& path)
      : name_(path.string()), json_(parse_json(read_whole_file(path), name_)) {}
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;

  JsonValue value() const { return {json_, name_, ""}; }

 private:
  std::string name_;
  nlohmann::json json_;
};

}  // namespace eigenformer::detail
