// Packed models as files: safetensors in which a weight in a format is a tensor of its words, (panels, rows, 64), and
// one of its scales, (panels, groups, 64); all others are numbers as ever. The metadata say what the words mean, the
// model's config and its facts. A packed file is mapped, not read: it is there at once, and in memory once for all.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/format.hpp"
#include "eigenformer/core/half.hpp"
#include "eigenformer/core/tensor.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/io/checkpoint.hpp"
#include "eigenformer/io/config.hpp"
#include "eigenformer/io/mapped_file.hpp"
#include "eigenformer/io/safetensors.hpp"
#include "eigenformer/io/slots.hpp"
#include "eigenformer/kernel/quantize.hpp"
#include "eigenformer/op/weight.hpp"
#include "eigenformer/pretrained/families.hpp"
#include "eigenformer/pretrained/family_list.hpp"
#include "eigenformer/pretrained/pretrained.hpp"
#include "eigenformer/pretrained/saved_folder.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

// Keys of the metadata, besides config_key.
inline constexpr std::string_view packed_key = "eigenformer.packed", facts_key = "eigenformer.facts",
                                  family_key = "eigenformer.family";

/// What the words of a weight mean.
struct PackedEntry {
  Format format = Format::scalar;
  Index group = 0;          // inputs that share a scale; 0: all
  Index unit_exponent = 0;  // the scales are times 2 to this power

  static void fields(auto&& f, auto&... c) {
    f("format", c.format...);
    f("group", c.group...);
    f("unit_exponent", c.unit_exponent...);
  }
  void validate(const std::string& place) const {
    const bool whole = format == Format::int8 || format == Format::int4;
    ensure(format != Format::scalar, "packed", place, ".format is scalar, which has no words");
    const bool fits = group == 0 ? format != Format::int4 : whole && (group == 32 || group == 64 || group == 128);
    ensure(fits, "packed", place, ".group is ", group, ", which ", format_name(format), " cannot have");
    ensure(unit_exponent >= -126 && unit_exponent <= 127 && (whole || unit_exponent == 0), "packed", place,
           ".unit_exponent is ", unit_exponent, ", which ", format_name(format), " cannot have");
  }
};

inline std::string scales_name(const std::string& weight) { return weight + ".scales"; }

/// A packed file whose metadata have been read.
class PackedFile {
 public:
  explicit PackedFile(const std::filesystem::path& path)
      : memory_(std::make_shared<const MappedFile>("packed", path)),
        file_(std::make_unique<MemoryStream>(memory_->data(), memory_->size()), path.string()) {
    const nlohmann::json entries = parse_json(text(packed_key), name());
    ensure(entries.is_object(), "packed", name(), ": ", packed_key, " is no object");
    for (const auto& item : entries.items()) {
      const std::string place = name() + ": " + item.key();
      PackedEntry& entry = entries_[item.key()];
      ConfigJson<PackedEntry>::read(entry, item.value(), place);
      entry.validate(place);
    }
  }

  const std::string& name() const { return file_.name(); }
  Safetensors& tensors() { return file_; }
  const std::map<std::string, PackedEntry>& entries() const { return entries_; }
  const std::string& text(std::string_view key) const {
    const auto found = file_.metadata().find(std::string(key));
    ensure(found != file_.metadata().end(), "packed", name(),
           ": was not written by save_packed(): its metadata have no ", key);
    return found->second;
  }
  PretrainedFacts facts() const {
    auto facts = parse_config<PretrainedFacts>(text(facts_key), name());
    const auto check_id = [&](std::optional<Id> id) {
      ensure(id.value_or(0) >= 0, "packed", name(), ": ", facts_key, " has a token ", *id);
    };
    for (const auto& id : {facts.bos, facts.pad, facts.decoder_start}) check_id(id);
    for (const Id id : facts.eos) check_id(id);
    ensure(facts.max_positions >= 0, "packed", name(), ": ", facts_key, " says max_positions ", facts.max_positions);
    return facts;
  }

  /// How the words of a weight of this shape lie; null pointers.
  static kernel::PackedWords layout(const PackedEntry& entry, const Shape<2>& shape) {
    return {.format = entry.format,
            .depth = shape[1],
            .width = shape[0],
            .group = entry.group,
            .unit = std::ldexp(1.0F, static_cast<int>(entry.unit_exponent))};
  }
  /// Where a tensor lies, whose shape and dtype have been looked at.
  template <class T>
  const T* at(const std::string& tensor) const {
    const std::byte* const first = memory_->data() + file_.data_begin() + file_.find(tensor)->begin;
    ensure(reinterpret_cast<std::uintptr_t>(first) % sizeof(T) == 0, "packed", name(), ": ", tensor_text(tensor),
           " begins at byte ", file_.data_begin() + file_.find(tensor)->begin, ", no multiple of ", sizeof(T));
    return reinterpret_cast<const T*>(first);
  }
  const std::shared_ptr<const MappedFile>& memory() const { return memory_; }

 private:
  std::shared_ptr<const MappedFile> memory_;
  Safetensors file_;
  std::map<std::string, PackedEntry> entries_;
};

template <class T>
Request packed_request(const std::string& name, std::string_view dtype, std::vector<Index> shape) {
  return {{name}, std::move(shape), [](std::string_view found) { return found == dtype_of<T>(); }, dtype};
}

/// Throws, with a list of all that is wrong, unless the file has the tensors of this model and nothing else.
template <class Model>
void require_tensors(PackedFile& file, const Model& model) {
  std::vector<Request> requests;
  Problems problems;
  std::set<std::string> in_words;
  const auto request = [&]<class T>(T, const std::string& name, std::vector<Index> shape) {
    requests.push_back(packed_request<T>(name, dtype_of<T>(), std::move(shape)));
  };
  walk(
      [&](const std::string& name, const Leaf&, const auto& tensor) {
        using T = typename std::remove_cvref_t<decltype(tensor)>::Value;
        const auto entry = file.entries().find(name);
        if constexpr (requires { tensor.packed_bytes({}); } && std::is_same_v<T, float>)
          if (entry != file.entries().end()) {
            in_words.insert(name);
            const auto words = PackedFile::layout(entry->second, tensor.shape());
            request(std::uint32_t{}, name, {words.panels(), words.rows(), kernel::word_columns});
            if (words.groups() > 0)
              request(Half{}, scales_name(name), {words.panels(), words.groups(), kernel::word_columns});
            return;
          }
        request(T{}, name, slot_of(name, tensor).shape);
      },
      model);
  for (const auto& [name, entry] : file.entries())
    if (!in_words.contains(name)) problems.add("packed: ", name, " is no matrix of float of this model");
  match_names(requests, file.tensors().tensors(), problems, [](const std::string&) { return false; });
  compare_metadata(file.tensors().metadata(), file.name(), model, problems);
  problems.report("packed", file.name() + " does not fit the model:");
}

template <class Model>
Pretrained<Model> load_packed(PackedFile& file) {
  const auto config = parse_config<typename Model::Config>(file.text(config_key), file.name());
  Pretrained<Model> loaded{[&] {
                             // Of what is not in words, elements take as much in the file; large tensors take no memory
                             // until they are written to.
                             const MemoryLimit limit(16 * file.tensors().bytes() + (std::uint64_t{1} << 24));
                             try {
                               return Model(config);
                             } catch (const Error& error) {
                               fail("packed", file.name(), ": its config does not describe a model: ", error.what());
                             }
                           }(),
                           file.facts()};
  require_tensors(file, std::as_const(loaded.model));
  walk(
      [&](const std::string& name, const Leaf&, auto& tensor) {
        using T = typename std::remove_cvref_t<decltype(tensor)>::Value;
        const auto entry = file.entries().find(name);
        if constexpr (requires { tensor.packed_bytes({}); })
          if (entry != file.entries().end()) {
            auto words = PackedFile::layout(entry->second, tensor.shape());
            words.words = file.at<std::uint32_t>(name);
            if (words.groups() > 0) words.scales = file.at<Half>(scales_name(name));
            return tensor.adopt(words, file.memory());
          }
        file.tensors().read_part(name, 0, View<T, 1>(tensor.data(), Shape{tensor.size()}));
      },
      loaded.model);
  return loaded;
}

/// As the family that the file names.
template <Real T>
auto load_any_packed(const std::filesystem::path& path) {
  using Any = Pretrained<decltype(variant_of<T>(AllFamilies{}))>;
  PackedFile file(path);
  const std::string& name = file.text(family_key);
  std::optional<Any> loaded;
  each_family(AllFamilies{}, [&]<class Family>(std::type_identity<Family>) {
    if (loaded || family_name<Family>() != name) return;
    auto one = load_packed<typename Family::template Model<T>>(file);
    loaded.emplace(Any{std::move(one.model), std::move(one.facts)});
  });
  ensure(loaded.has_value(), "packed", path.string(), ": is of the family ", in_quotes(name),
         ", which is unknown: load_packed<Model>() reads it");
  return std::move(*loaded);
}

}  // namespace detail

/// Writes a model as it is packed: weights in a format as their words and scales, all others, and what does not keep
/// its values, as numbers; with its config and what generating needs to know. The file is replaced in one step. Another
/// tokenizer than that of the options beside it is an Error, before anything is written.
template <class Model>
void save_packed(const std::filesystem::path& path, const Model& model, const PretrainedFacts& facts = {},
                 const PretrainedSaveOptions& options = {}) {
  const auto tokenizer = [&](bool write) {
    if (!options.tokenizer.empty()) detail::copy_tokenizer(options.tokenizer, detail::folder_of(path), write);
  };
  tokenizer(false);
  SafetensorsWriter writer;
  writer.alignment = alignment;
  nlohmann::json entries = nlohmann::json::object();
  walk(
      [&](const std::string& name, const Leaf&, const auto& tensor) {
        using T = typename std::remove_cvref_t<decltype(tensor)>::Value;
        if constexpr (requires { tensor.packed_bytes({}); }) {
          const kernel::Operand<T> operand = tensor.operand();
          if (const kernel::PackedWords& words = operand.words; words.words) {
            writer.add(name, ConstView<std::uint32_t, 3>(words.words,
                                                         Shape{words.panels(), words.rows(), kernel::word_columns}));
            if (words.scales)
              writer.add(detail::scales_name(name),
                         ConstView<Half, 3>(words.scales, Shape{words.panels(), words.groups(), kernel::word_columns}));
            entries[name] = detail::ConfigJson<detail::PackedEntry>::write(
                {.format = words.format, .group = words.group, .unit_exponent = std::ilogb(words.unit)});
            return;
          }
          if (!tensor.keeps_values())
            return writer.add_rows<T>(name, tensor.shape(), [=](Index n, T* to) { operand.column(n, to); });
        }
        writer.add(name, tensor.view());
      },
      model);
  const auto say = [&](std::string_view key, const auto& text) { writer.metadata[std::string(key)] = text; };
  say(config_key, config_text(model.config));
  say(kinds_key, nlohmann::json(detail::kinds_of(model)).dump());
  say(detail::facts_key, config_text(facts));
  say(detail::family_key, detail::family_of<Model>());
  say(detail::packed_key, entries.dump());
  writer.write(path);
  tokenizer(true);
}

/// Whether save_packed() wrote this file. Error if it is no file of safetensors.
inline bool is_packed_file(const std::filesystem::path& path) {
  return Safetensors(path).metadata().contains(std::string(detail::packed_key));
}

/// The model and the facts that save_packed() was given, with the same bits. Weights in a format stay in the file,
/// which is mapped: it must not be written into while the model, or a copy of it, is there; it may be replaced or
/// removed. They serve inference alone, as after pack() with keep_values = false. Everything that the file says is
/// looked at before it is used: an Error says what is wrong.
template <class Model>
Pretrained<Model> load_packed(const std::filesystem::path& path) {
  detail::PackedFile file(path);
  const std::string &found = file.text(detail::family_key), wanted(detail::family_of<Model>());
  ensure(found == wanted, "packed", path.string(), ": is of the family ", detail::in_quotes(found), ", not ",
         detail::in_quotes(wanted));
  return detail::load_packed<Model>(file);
}

}  // namespace eigenformer
