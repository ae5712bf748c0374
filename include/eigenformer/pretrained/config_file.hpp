// A checkpoint's config.json. Every key is used, known not to change the mathematics, or an Error: nothing is guessed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/io/safetensors_header.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

class ConfigFile {
 public:
  /// Of a JSON text; `name` stands for the file in errors.
  ConfigFile(const std::string& text, std::string name) : name_(std::move(name)) {
    constexpr int deepest = 16;  // what is below is never looked at, and some of the parser's functions recurse
    ensure(text.find('\0') == std::string::npos, "pretrained", name_, ": contains a NUL byte");
    std::map<int, std::set<std::string>> keys;  // of the object that is being read at each depth
    const auto inspect = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
      ensure(depth <= deepest, "pretrained", name_, ": is nested more than ", deepest, " deep");
      if (event == nlohmann::json::parse_event_t::object_start) keys[depth + 1].clear();
      if (event == nlohmann::json::parse_event_t::key &&
          !keys[depth].insert(parsed.get_ref<const std::string&>()).second)
        fail("pretrained", name_, ": has the key ", in_quotes(parsed.get_ref<const std::string&>()), " twice");
      return true;
    };
    object_ = nlohmann::json::parse(text, inspect, /*allow_exceptions=*/false);
    ensure(object_.is_object(), "pretrained", name_,
           object_.is_discarded() ? ": is not valid JSON" : ": is not a JSON object");
  }

  /// Of an object that something else was read into.
  static ConfigFile of(nlohmann::json object, std::string name) { return {std::move(object), std::move(name), {}}; }

  const std::string& name() const { return name_; }

  /// Throws "[pretrained] file: key "…" …".
  template <class... Parts>
  [[noreturn]] void refuse(std::string_view key, const Parts&... parts) const {
    fail("pretrained", name_, ": key ", in_quotes(key), " ", parts...);
  }

  /// Whether the key is there, if only with null.
  bool mentions(std::string_view key) const { return object_.contains(key); }
  /// Whether it is there with a value.
  bool has(std::string_view key) const { return find(key) != nullptr; }

  /// An integer from `least` to `most`; an Error if it is missing and there is nothing to take otherwise.
  Index integer(std::string_view key, Index least, Index most, std::optional<Index> otherwise = {}) {
    const nlohmann::json* const value = use(key);
    if (!value) return or_missing(key, otherwise);
    return integer_of(key, *value, least, most);
  }

  double real(std::string_view key, std::optional<double> otherwise = {}) {
    const nlohmann::json* const value = use(key);
    return value ? real_of(key, *value) : or_missing(key, otherwise);
  }
  double positive(std::string_view key, std::optional<double> otherwise = {}) {
    const double value = real(key, otherwise);
    if (!(value > 0)) refuse(key, "is ", value, ", which is not positive");
    return value;
  }
  double probability(std::string_view key, double otherwise) {
    const double value = real(key, otherwise);
    if (!(value >= 0 && value < 1)) refuse(key, "is ", value, ", which is not in [0, 1)");
    return value;
  }

  bool flag(std::string_view key, bool otherwise) {
    const nlohmann::json* const value = use(key);
    if (!value) return otherwise;
    if (!value->is_boolean()) refuse(key, "is ", text_of(*value), ", not true or false");
    return value->get<bool>();
  }

  std::string text(std::string_view key, const std::optional<std::string>& otherwise = {}) {
    const nlohmann::json* const value = use(key);
    if (!value) return or_missing(key, otherwise);
    if (!value->is_string()) refuse(key, "is ", text_of(*value), ", not a text");
    return value->get<std::string>();
  }

  /// f(item) for every item of a list.
  template <class F>
  void for_each(std::string_view key, F&& f) {
    const nlohmann::json* const value = use(key);
    if (!value) refuse(key, "is missing");
    if (!value->is_array()) refuse(key, "is ", text_of(*value), ", not a list");
    for (const nlohmann::json& item : *value) f(item);
  }
  std::vector<double> reals(std::string_view key) {
    std::vector<double> values;
    for_each(key, [&](const nlohmann::json& item) { values.push_back(real_of(key, item)); });
    return values;
  }
  std::vector<std::string> texts(std::string_view key) {
    std::vector<std::string> values;
    for_each(key, [&](const nlohmann::json& item) {
      if (!item.is_string()) refuse(key, "contains ", text_of(item), ", which is not a text");
      values.push_back(item.get<std::string>());
    });
    return values;
  }

  /// One token's id, and −1 for none, as older checkpoints have it.
  std::optional<Id> id(std::string_view key) {
    const Index value = integer(key, -1, (std::numeric_limits<Id>::max)(), -1);
    return value < 0 ? std::nullopt : std::optional(static_cast<Id>(value));
  }
  /// One id, or a list of them.
  std::vector<Id> ids(std::string_view key) {
    std::vector<Id> values;
    if (const nlohmann::json* const value = find(key); value && value->is_array())
      for_each(key, [&](const nlohmann::json& item) {
        values.push_back(static_cast<Id>(integer_of(key, item, 0, (std::numeric_limits<Id>::max)())));
      });
    else if (const std::optional<Id> one = id(key)) values.push_back(*one);
    return values;
  }

  /// The only values that are understood, if the key is there, and unless it is trusted.
  void only(std::string_view key, std::initializer_list<nlohmann::json> values) {
    const nlohmann::json* const value = use(key);
    if (!value || trusts(key)) return;
    for (const nlohmann::json& allowed : values)
      if (*value == allowed) return;
    refuse(key, "is ", text_of(*value), ", but only ", text_of(*values.begin()), " is supported");
  }

  /// An object within the object: finish() it too.
  ConfigFile part(std::string_view key) {
    const nlohmann::json* const value = use(key);
    if (!value) refuse(key, "is missing");
    if (!value->is_object()) refuse(key, "is ", text_of(*value), ", not an object");
    return {*value, concatenate(name_, ": ", key), trusted_};
  }

  std::vector<std::string> keys() const {
    std::vector<std::string> all;
    for (const auto& item : object_.items()) all.push_back(item.key());
    return all;
  }

  void ignore(std::string_view key) { used_.emplace(key); }
  template <class Keys>
  void ignore_all(const Keys& keys) {
    for (const auto& key : keys) ignore(key);
  }
  /// Keys of which the user says that they change nothing, here and in the objects within.
  void trust(const std::vector<std::string>& keys) {
    trusted_.insert(keys.begin(), keys.end());
    ignore_all(keys);
  }
  bool trusts(std::string_view key) const { return trusted_.contains(key); }
  /// Whether anybody has asked for it.
  bool used(std::string_view key) const { return used_.contains(key); }

  /// Throws if there is a key that nobody has asked for. Null is as good as no key.
  void finish() const {
    for_each_key([&](const std::string& key, const nlohmann::json& value) {
      if (!used(key))
        refuse(key, "is unknown, with the value ", text_of(value),
               ": if it does not change the mathematics, list it in options.ignored_keys");
    });
  }

  /// f(key, value) for every key with a value.
  template <class F>
  void for_each_key(F&& f) const {
    for (const auto& [key, value] : object_.items())
      if (!value.is_null()) f(key, value);
  }

  /// How a value is quoted in errors.
  static std::string text_of(const nlohmann::json& value) {
    if (value.is_object()) return "an object";
    if (value.is_array()) return "a list";
    if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
    return value.dump();
  }

 private:
  ConfigFile(nlohmann::json object, std::string name, std::set<std::string, std::less<>> trusted)
      : name_(std::move(name)), object_(std::move(object)), used_(trusted), trusted_(std::move(trusted)) {}

  const nlohmann::json* find(std::string_view key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  const nlohmann::json* use(std::string_view key) {
    ignore(key);
    return find(key);
  }
  template <class Value>
  Value or_missing(std::string_view key, const std::optional<Value>& otherwise) const {
    if (!otherwise) refuse(key, "is missing");
    return *otherwise;
  }
  double real_of(std::string_view key, const nlohmann::json& value) const {
    if (!value.is_number()) refuse(key, "is or contains ", text_of(value), ", which is not a number");
    return value.get<double>();
  }
  Index integer_of(std::string_view key, const nlohmann::json& value, Index least, Index most) const {
    if (!value.is_number_integer()) refuse(key, "is or contains ", text_of(value), ", which is not an integer");
    const bool huge = value.is_number_unsigned() &&
                      value.get<std::uint64_t>() > static_cast<std::uint64_t>((std::numeric_limits<Index>::max)());
    if (huge || value.get<Index>() < least || value.get<Index>() > most)
      refuse(key, "is ", text_of(value), ", which is not between ", least, " and ", most);
    return value.get<Index>();
  }

  std::string name_;
  nlohmann::json object_;
  std::set<std::string, std::less<>> used_, trusted_;
};

}  // namespace eigenformer::detail
