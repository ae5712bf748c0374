// Checkpoints: everything that visit() lists (a model, or a Trainer with its moments and counters) as a safetensors
// file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/tensor.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/io/config.hpp"
#include "eigenformer/io/safetensors.hpp"
#include "eigenformer/io/slots.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {
template <class Model>
inline constexpr bool has_config = requires(const Model& model) {
  requires HasFields<std::remove_cvref_t<decltype(model.config)>>;
};

template <class Model>
inline constexpr bool is_described = has_config<Model> || requires(const Model& trainer) {
  requires has_config<std::remove_cvref_t<decltype(trainer.model)>>;
};
/// The model whose config a file has: this one, or a Trainer's.
template <class Model>
const auto& described(const Model& model) {
  if constexpr (has_config<Model>) return model;
  else return model.model;
}

/// The kinds of a model's parts; items of a list are one.
struct Kinds {
  std::map<std::string, std::string_view> found{};

  void operator()(const Leaf&, const auto&) const {}
  void part(const std::string& path, std::string_view kind) {
    std::string name;
    for (std::size_t begin = 0; begin <= path.size();) {
      const std::size_t end = (std::min)(path.find('.', begin), path.size());
      const std::string item = path.substr(begin, end - begin);
      if (item.find_first_not_of("0123456789") != std::string::npos) name.append(name.empty() ? "" : ".").append(item);
      begin = end + 1;
    }
    found.emplace(name, kind);
  }
};
template <class Model>
std::map<std::string, std::string_view> kinds_of(const Model& model) {
  Kinds kinds;
  walk(kinds, model);
  return kinds.found;
}

/// What a file's metadata say otherwise than the model.
template <class Model>
void compare_metadata(const Metadata& metadata, const std::string& name, const Model& model, Problems& problems) {
  if (const auto stored = metadata.find(std::string(config_key)); stored != metadata.end())
    each_difference(model.config, parse_config<std::remove_cvref_t<decltype(model.config)>>(stored->second, name),
                    [&](const std::string& field, const std::string& ours, const std::string& theirs) {
                      problems.add("config: ", field, " is ", theirs, " in the file, but ", ours, " in the model");
                    });
  if (const auto stored = metadata.find(std::string(kinds_key)); stored != metadata.end()) {
    const nlohmann::json kinds = nlohmann::json::parse(stored->second, nullptr, /*allow_exceptions=*/false);
    for (const auto& [part, kind] : kinds_of(model))
      if (kinds.contains(part) && kinds[part] != kind)
        problems.add("kind: ", part, " is ", shown_json(kinds[part]), " in the file, but \"", kind, "\" in the model");
  }
}

}  // namespace detail

struct LoadOptions {
  bool allow_extra = false;   ///< ignore tensors that the model does not have
  bool other_config = false;  ///< the model may have other numbers than the file's, or another activation

  /// What the file puts before every name: "model." reads the model alone out of a Trainer's checkpoint. Tensors
  /// without it are ignored.
  std::string prefix{};

  /// Other names under which a tensor of the model may be stored, e.g. {{"embedding.weight", {"head.weight"}}} for
  /// files in which a tied head is present, alone or as a copy. A name that the model has itself does not count as an
  /// alias, so that the same options serve the untied model.
  std::map<std::string, std::vector<std::string>> aliases{};
};

/// Writes every tensor under its dotted name, a tied tensor once, and the model's config and the kinds of its parts, or
/// those of a Trainer's model, into the metadata. A failure is an Error and leaves an existing file as it was.
template <class Model>
void save(const std::filesystem::path& path, const Model& model, const Metadata& metadata = {}) {
  SafetensorsWriter writer;
  writer.metadata = metadata;
  if constexpr (detail::is_described<Model>) {
    const auto& described = detail::described(model);
    writer.metadata.insert_or_assign(std::string(config_key), config_text(described.config));
    writer.metadata.insert_or_assign(std::string(kinds_key), nlohmann::json(detail::kinds_of(described)).dump());
  }
  walk([&](const std::string& name, const Leaf&, const auto& tensor) { writer.add(name, tensor.view()); }, model);
  writer.write(path);
}

/// Reads every tensor of the model, which has its shape already, straight into place, and returns the metadata that
/// save() was given. One Error lists missing, extra and mis-shaped tensors (ten of each kind) and those of the wrong
/// kind of dtype; another one what the file, if it says, tells otherwise of numbers and kinds of parts, dropout aside;
/// another one aliases that contradict each other. Before the first weight changes, all of this, the whole header, the
/// length of the file and every number that its type might not hold have been looked at: after any such Error nothing
/// has changed. Only if the file can be opened but not read to its end, or is written to by somebody else meanwhile, an
/// Error says that the model is partly overwritten. The tensors stay where they are in memory, and nothing of the size
/// of one is allocated.
template <class Model>
Metadata load(Safetensors& file, Model& model, const LoadOptions& options = {}) {
  std::vector<detail::Request> requests;
  detail::Problems problems, contradictions;
  walk(
      [&](const std::string& name, const Leaf&, const auto& tensor) {
        using T = typename std::remove_cvref_t<decltype(tensor)>::Value;
        const auto slot = detail::slot_of(name, tensor);  // throws if there is no place for values
        requests.push_back({{options.prefix + name}, slot.shape, detail::readable<T>, detail::dtype_of<T>()});
        if (const auto found = options.aliases.find(name); found != options.aliases.end())
          for (const std::string& alias : found->second) requests.back().names.push_back(options.prefix + alias);
      },
      std::as_const(model));
  const auto each = [&](auto& of, auto&& f) {
    walk([&, i = std::size_t{0}](const std::string& name, const Leaf& leaf,
                                 auto& tensor) mutable { f(detail::slot_of(name, tensor), requests[i++].names, leaf); },
         of);
  };
  detail::match_names(requests, file.tensors(), problems, [&](const std::string& name) {
    return options.allow_extra || !name.starts_with(options.prefix);
  });
  bool in_trainer = false;  // what is missing is there as part of a Trainer
  each(std::as_const(model), [&](const auto& slot, const auto& names, const Leaf&) {
    in_trainer = in_trainer || (names.empty() && file.find("model." + slot.path));
  });
  if (in_trainer)
    problems.add("this looks like the checkpoint of a Trainer: its model alone is read with the prefix \"model.\"");
  problems.report("load", file.name() + " does not fit the model:");

  const bool of_model = options.prefix.empty() || (options.prefix == "model." && detail::has_config<Model>);
  if constexpr (detail::is_described<Model>)
    if (of_model && !options.other_config)
      detail::compare_metadata(file.metadata(), file.name(), detail::described(model), problems);
  problems.report("load", file.name() + " is of another model; if that is meant, say other_config:");

  each(std::as_const(model),
       [&]<class T>(const detail::Slot<const T>& slot, const std::vector<std::string>& names, const Leaf& leaf) {
         file.require_values<T>(names[0]);
         if constexpr (std::is_same_v<T, std::int64_t>)
           if (leaf.validate) {
             Tensor<T, 1> values(Shape{slot.size()});
             file.read_part(names[0], 0, values.view());
             try {
               leaf.validate({values.data(), static_cast<std::size_t>(values.size())});
             } catch (const Error& error) {
               contradictions.add("value: ", names[0], ": ", error.what());
             }
           }
         for (std::size_t i = 1; i < names.size(); ++i)
           if (!detail::same_values<T>(file, names[0], names[i], slot.size()))
             contradictions.add("contradiction: ", names[0], " and ", names[i], " are one tensor, but differ");
       });
  contradictions.report("load", file.name() + " does not fit the model:");
  try {
    each(model, [&]<class T>(const detail::Slot<T>& slot, const std::vector<std::string>& names, const Leaf&) {
      detail::read_slots<T>(file, {slot}, {{names}});
    });
  } catch (const Error& error) {
    fail("load", file.name(), ": the model is partly overwritten and must not be used: ", error.what());
  }
  Metadata metadata = file.metadata();
  for (const std::string_view key : {config_key, kinds_key}) metadata.erase(std::string(key));
  return metadata;
}
template <class Model>
Metadata load(const std::filesystem::path& path, Model& model, const LoadOptions& options = {}) {
  Safetensors file(path);
  return load(file, model, options);
}

/// Builds the model that the file's config describes, of the type that was saved (structure is the type's: a file of
/// Gpt2 is read as Gpt2), and reads its weights. A config of a model that is much larger than the file is an Error
/// before there is memory for it.
template <class Model>
Model load(Safetensors& file, const LoadOptions& options = {}) {
  const auto found = file.metadata().find(std::string(config_key));
  ensure(found != file.metadata().end(), "load", file.name(),
         ": there is no config in this file: construct the model, and use load(path, model)");
  const auto config = parse_config<typename Model::Config>(found->second, file.name());
  Model model = [&] {
    // An element of a file takes a byte or more, one of a model 8 at most; the rest is for what is not saved.
    const MemoryLimit limit(16 * file.bytes() + (std::uint64_t{1} << 24));
    try {
      return Model(config);
    } catch (const Error& error) {
      fail("load", file.name(), ": its config does not describe a model: ", error.what());
    }
  }();
  load(file, model, options);
  return model;
}
template <class Model>
Model load(const std::filesystem::path& path, const LoadOptions& options = {}) {
  Safetensors file(path);
  return load<Model>(file, options);
}

}  // namespace eigenformer
