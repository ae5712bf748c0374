// The config of a model as JSON, by its list of fields: in the metadata of its checkpoint, from which it is built
// again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "eigenformer/core/config.hpp"
#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Under which the config stands in a file's metadata.
inline constexpr std::string_view config_key = "eigenformer.config";
/// And the kinds of the model's parts, by their dotted names.
inline constexpr std::string_view kinds_key = "eigenformer.kinds";

namespace detail {

/// A value for a message: however deep it nests, only what is no object or list, or has nothing in it, is written out.
inline std::string shown_json(const nlohmann::json& value) {
  if (value.is_structured() && !value.empty()) return value.is_object() ? "an object" : "a list";
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

template <class Value>
struct ConfigJson {
  static_assert(HasFields<Value> || std::is_arithmetic_v<Value> || std::is_enum_v<Value>,
                "a config, and what it contains, lists its fields: static void fields(auto&& f, auto&... c)");

  static nlohmann::json write(const Value& value) {
    if constexpr (HasFields<Value>) {
      nlohmann::json object = nlohmann::json::object();
      Value::fields(
          [&](std::string_view name, const auto& field) {
            object[std::string(name)] = ConfigJson<std::remove_cvref_t<decltype(field)>>::write(field);
          },
          value);
      return object;
    } else if constexpr (std::is_enum_v<Value>) {
      return names_of(value)[static_cast<std::size_t>(value)];
    } else {
      return value;
    }
  }

  /// `place` is the dotted path of the value, after the name of the file.
  static void read(Value& value, const nlohmann::json& from, const std::string& place) {
    const auto refuse = [&](const char* what) {
      fail("config", place, " is ", shown_json(from), ", but must be ", what);
    };
    if constexpr (HasFields<Value>) {
      if (!from.is_object()) refuse("an object");
      std::vector<std::string> known;
      Value::fields(
          [&](std::string_view name, auto& field) {
            known.emplace_back(name);
            const auto found = from.find(known.back());
            ensure(found != from.end(), "config", place, ".", name, " is missing");
            ConfigJson<std::remove_cvref_t<decltype(field)>>::read(field, *found, place + "." + known.back());
          },
          value);
      for (const auto& item : from.items())
        ensure(std::find(known.begin(), known.end(), item.key()) != known.end(), "config", place, ".", item.key(),
               " is unknown");
    } else if constexpr (std::is_same_v<Value, bool>) {
      if (!from.is_boolean()) refuse("true or false");
      value = from.get<bool>();
    } else if constexpr (std::is_floating_point_v<Value>) {
      if (!from.is_number()) refuse("a number");
      value = from.get<Value>();
    } else if constexpr (std::is_enum_v<Value>) {
      const auto& names = names_of(value);
      const auto found =
          from.is_string() ? std::find(names.begin(), names.end(), from.get<std::string>()) : names.end();
      std::string list;
      for (const std::string_view name : names) list.append(list.empty() ? "" : ", ").append(name);
      if (found == names.end()) refuse(("one of " + list).c_str());
      value = static_cast<Value>(found - names.begin());
    } else {
      constexpr auto most = static_cast<std::uint64_t>((std::numeric_limits<Value>::max)());
      const bool fits = from.is_number_unsigned() ? from.get<std::uint64_t>() <= most
                                                  : from.is_number_integer() &&
                                                        from.get<std::int64_t>() >= (std::numeric_limits<Value>::min)();
      if (!fits) refuse("a whole number");
      value = from.get<Value>();
    }
  }
};

template <>
struct ConfigJson<std::string> {
  static nlohmann::json write(const std::string& text) { return text; }
  static void read(std::string& text, const nlohmann::json& from, const std::string& place) {
    ensure(from.is_string(), "config", place, " is ", shown_json(from), ", but must be a text");
    text = from.get<std::string>();
  }
};

template <class Value>
struct ConfigJson<std::optional<Value>> {
  static nlohmann::json write(const std::optional<Value>& value) {
    return value ? ConfigJson<Value>::write(*value) : nlohmann::json();
  }
  static void read(std::optional<Value>& value, const nlohmann::json& from, const std::string& place) {
    value.reset();
    if (!from.is_null()) ConfigJson<Value>::read(value.emplace(), from, place);
  }
};

template <class Item>
struct ConfigJson<std::vector<Item>> {
  static nlohmann::json write(const std::vector<Item>& items) {
    nlohmann::json list = nlohmann::json::array();
    for (const Item& item : items) list.push_back(ConfigJson<Item>::write(item));
    return list;
  }
  static void read(std::vector<Item>& items, const nlohmann::json& from, const std::string& place) {
    ensure(from.is_array(), "config", place, " is not a list");
    items.clear();
    for (std::size_t i = 0; i < from.size(); ++i)
      ConfigJson<Item>::read(items.emplace_back(), from[i], place + "." + std::to_string(i));
  }
};

/// One of several kinds, each with a name, or none.
template <class... Kinds>
struct ConfigJson<std::variant<std::monostate, Kinds...>> {
  using Choice = std::variant<std::monostate, Kinds...>;

  static nlohmann::json write(const Choice& choice) {
    return std::visit(
        []<class Kind>(const Kind& kind) {
          nlohmann::json json;
          if constexpr (HasFields<Kind>) json = {{Kind::name, ConfigJson<Kind>::write(kind)}};
          return json;
        },
        choice);
  }
  static void read(Choice& choice, const nlohmann::json& from, const std::string& place) {
    choice = std::monostate();
    if (from.is_null()) return;
    ensure(from.is_object() && from.size() == 1, "config", place, " is not an object with one kind");
    const std::string kind = from.begin().key();
    const auto attempt = [&]<class Kind>(std::type_identity<Kind>) {
      if (kind == Kind::name)
        ConfigJson<Kind>::read(choice.template emplace<Kind>(), from.begin().value(), place + "." + kind);
    };
    (attempt(std::type_identity<Kinds>{}), ...);
    ensure(!std::holds_alternative<std::monostate>(choice), "config", place, ".", kind, " is unknown");
  }
};

}  // namespace detail

template <class Config>
std::string config_text(const Config& config) {
  return detail::ConfigJson<Config>::write(config).dump();
}

namespace detail {

template <HasFields Config>
void clear_dropout(Config& config) {
  Config::fields(
      [](std::string_view name, auto& value) {
        using Value = std::remove_reference_t<decltype(value)>;
        if constexpr (HasFields<Value>) clear_dropout(value);
        else if constexpr (requires { value.emplace_back(); }) {
          if constexpr (HasFields<typename Value::value_type>)
            for (auto& each : value) clear_dropout(each);
        } else if constexpr (requires { clear_dropout(*value); }) {
          if (value) clear_dropout(*value);
        } else if constexpr (std::is_same_v<Value, double> || std::is_same_v<Value, std::optional<double>>) {
          if (name == "dropout") value = {};
        }
      },
      config);
}

/// What a model's outputs depend on besides its weights: neither on dropout nor on how it was said that layers differ
/// or are the same.
template <class Config>
Config numbers_of(Config config) {
  if constexpr (requires { config.each_layer.assign(std::size_t{}, config.block); }) {
    if (config.each_layer.empty()) config.each_layer.assign(static_cast<std::size_t>(config.layers), config.block);
    if constexpr (requires { config.block.attention; })
      if (!config.each_layer.empty()) config.block.attention = config.each_layer.front().attention;
  }
  if constexpr (requires { config.max_positions; }) config.max_positions = 0;  // what depends on it, the position says
  clear_dropout(config);
  return config;
}

/// f(field, what it is, what it is in the other), texts, for every number that tensors do not tell.
template <class Config>
void each_difference(const Config& config, const Config& other, auto&& f) {
  const auto flat = [](const Config& of) { return ConfigJson<Config>::write(numbers_of(of)).flatten(); };
  const nlohmann::json ours = flat(config), theirs = flat(other);
  for (const auto& [pointer, value] : ours.items()) {
    std::string field = pointer.substr(1);
    std::replace(field.begin(), field.end(), '/', '.');
    const auto found = theirs.find(pointer);
    if (found != theirs.end() && *found == value) continue;
    if (field != "tied" && field != "sharing" && !field.ends_with("layers"))
      f(field, value.dump(), found == theirs.end() ? "something else" : found->dump());
  }
}

}  // namespace detail

namespace detail {

/// Throws, naming `name`, unless the text is JSON in which no object has a key twice.
inline nlohmann::json parse_json(std::string_view text, const std::string& name) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects that have begun
  const auto check_key = [&](int, Event event, nlohmann::json& parsed) {
    if (event == Event::object_start) keys.emplace_back();
    else if (event == Event::object_end) keys.pop_back();
    else if (event == Event::key)
      ensure(keys.back().insert(parsed.get<std::string>()).second, "config", name, ": the config says ",
             parsed.get<std::string>(), " twice");
    return true;
  };
  nlohmann::json json = nlohmann::json::parse(text, check_key, /*allow_exceptions=*/false);
  ensure(!json.is_discarded(), "config", name, ": the config is no JSON");
  return json;
}

}  // namespace detail

/// Throws, naming `name` and the field, unless the text has exactly the fields of the config, each once.
template <class Config>
Config parse_config(std::string_view text, const std::string& name) {
  Config config;
  detail::ConfigJson<Config>::read(config, detail::parse_json(text, name), name + ": config");
  return config;
}

}  // namespace eigenformer
