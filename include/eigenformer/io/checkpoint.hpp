// Checkpoints: everything that visit() lists (a model, or a Trainer with its moments and counters) as a safetensors
// file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/visit.hpp"
#include "eigenformer/io/safetensors.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct LoadOptions {
  bool allow_extra = false;  ///< ignore tensors that the model does not have

  /// What the file puts before every name: "model." reads the model alone out of a Trainer's checkpoint. Tensors
  /// without it are ignored.
  std::string prefix{};

  /// Other names under which a tensor of the model may be stored, e.g. {{"embedding.weight", {"head.weight"}}} for
  /// files in which a tied head is present, alone or as a copy. A name that the model has itself does not count as an
  /// alias, so that the same options serve the untied model.
  std::map<std::string, std::vector<std::string>> aliases{};
};

/// Writes every tensor under its dotted name; a tied tensor once. A failure is an Error and leaves an existing file as
/// it was.
template <class Model>
void save(const std::filesystem::path& path, const Model& model, const Metadata& metadata = {}) {
  SafetensorsWriter writer;
  writer.metadata = metadata;
  walk([&](const std::string& name, const Leaf&, const auto& tensor) { writer.add(name, tensor.view()); }, model);
  writer.write(path);
}

/// Reads every tensor of the model, which has its shape already, and returns the metadata. One Error lists missing,
/// extra and mis-shaped tensors (ten of each kind), those of the wrong kind of dtype, and aliases that contradict each
/// other; then, as after any other Error, nothing has changed. The tensors stay where they are in memory.
template <class Model>
Metadata load(const std::filesystem::path& path, Model& model, const LoadOptions& options = {}) {
  constexpr Index most_told = 10;
  Safetensors file(path);
  std::set<std::string> own, used;
  walk(
      [&](const std::string& name, const Leaf&, const auto& tensor) {
        static_cast<void>(tensor.data());  // throws if there is no place for values
        own.insert(name);
      },
      std::as_const(model));

  std::string problems;
  bool in_trainer = false;              // what is missing is there as part of a Trainer
  std::map<std::string, Index> counts;  // by kind, of which a few are told
  const auto problem = [&](const std::string& kind, const auto&... parts) {
    if (++counts[kind] <= most_told) problems.append("\n  ").append(detail::concatenate(kind, parts...));
  };
  std::vector<std::function<void()>> commits;  // what to do once nothing can fail any more
  walk(
      [&](const std::string& name, const Leaf&, auto& tensor) {
        using T = typename std::remove_reference_t<decltype(tensor)>::Value;
        constexpr int rank = std::remove_reference_t<decltype(tensor)>::rank;
        std::vector<std::string> names{name};
        if (const auto found = options.aliases.find(name); found != options.aliases.end())
          for (const std::string& alias : found->second)
            if (!own.contains(alias)) names.push_back(alias);
        for (std::string& candidate : names) candidate = options.prefix + candidate;
        std::erase_if(names, [&](const std::string& candidate) { return !file.find(candidate); });
        if (names.empty()) {
          problem("missing: ", options.prefix, name, " ", tensor.shape());
          in_trainer = in_trainer || file.find("model." + name);
        }
        Tensor<T, rank> values;
        std::string first;
        for (const std::string& stored_name : names) {
          used.insert(stored_name);
          const StoredTensor& stored = *file.find(stored_name);
          if (!detail::same_shape(stored.shape, tensor.shape())) {
            problem("shape: ", stored_name, " is ", detail::shape_text(stored.shape), ", not ", tensor.shape());
          } else if (!detail::readable<T>(stored.dtype)) {
            problem("dtype: ", stored_name, " is ", stored.dtype, ", which cannot be read as ", detail::dtype_of<T>());
          } else {
            auto read = file.read<T, rank>(stored_name);
            if (!values.data()) values = std::move(read), first = stored_name;
            else if (std::memcmp(read.data(), values.data(), static_cast<std::size_t>(read.size()) * sizeof(T)) != 0)
              problem("contradiction: ", first, " and ", stored_name, " are one tensor, but differ");
          }
        }
        commits.emplace_back(
            [&tensor, values = std::move(values)] { std::copy_n(values.data(), values.size(), tensor.data()); });
      },
      model);
  if (!options.allow_extra)
    for (const auto& [name, stored] : file.tensors())
      if (!used.contains(name) && name.starts_with(options.prefix))
        problem("extra: ", name, " ", detail::shape_text(stored.shape));
  if (in_trainer)
    problem("this looks like the checkpoint of a Trainer: its model alone is read with the prefix \"model.\"");
  for (const auto& [kind, count] : counts)
    if (count > most_told)
      problems.append("\n  ").append(detail::concatenate(kind, "… and ", count - most_told, " more"));
  if (!problems.empty()) fail("load", path.string(), " does not fit the model:", problems);
  Metadata metadata = file.metadata();
  for (const auto& commit : commits) commit();
  return metadata;
}

}  // namespace eigenformer
