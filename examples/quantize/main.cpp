// Makes a packed file of a model that someone has trained, and measures what the formats cost on a text.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <ios>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "../support/memory.hpp"
#include "../support/program.hpp"
#include "../support/table.hpp"
#include "eigenformer/core/open_file.hpp"
#include "eigenformer/pretrained/hugging_face.hpp"
#include "eigenformer/text/load_tokenizer.hpp"
#include "options.hpp"
#include "quality.hpp"

namespace quantizing {
namespace {

using namespace eigenformer;

AnyPretrained<float> load(const Options& options, const Recipe& recipe) {
  return load_pretrained(options.model, {.format = recipe.format,
                                         .group = recipe.group,
                                         .format_of = recipe.format_of(),
                                         .threads = Threads(options.threads)});
}

/// The beginning of the text as windows of tokens.
std::vector<std::vector<Id>> read_windows(const Options& options, const PretrainedFacts& facts, Index vocabulary) {
  std::ifstream file = open_file("quantize", options.text);
  std::string text(static_cast<std::size_t>(16 * options.tokens), '\0');  // more than so many tokens need
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const auto tokenizer = load_tokenizer(options.tokenizer.empty() ? options.model : options.tokenizer);
  std::vector<Id> ids = tokenizer->encode(text);
  const std::optional<Id> bos = facts.bos ? facts.bos : tokenizer->bos();
  if (bos && !ids.empty() && ids.front() == *bos) ids.erase(ids.begin());
  ids.resize((std::min)(ids.size(), static_cast<std::size_t>(options.tokens)));
  for (const Id id : ids)
    ensure(id < static_cast<Id>(vocabulary), "quantize", "token ", id,
           " of this tokenizer is not in the model's vocabulary of ", vocabulary);
  const Index window = facts.max_positions > 0 ? (std::min)(options.window, facts.max_positions) : options.window;
  const auto windows = windows_of(ids, bos, window);
  ensure(!windows.empty(), "quantize", options.text, " is too short: there is nothing to predict");
  return windows;
}

/// What each format, and the one that is asked for, makes of the text.
void print_quality(const Options& options) {
  const AnyPretrained<float> exact = load(options, {.format = Format::scalar});
  std::visit(
      [&]<class Model>(const Model& model) {
        if constexpr (requires { model.start(); }) {
          const auto windows = read_windows(options, exact.facts, model.embedding.weight.extent(0));
          Context ctx{Threads(options.threads)};
          std::vector<Recipe> recipes{
              {Format::f16}, {Format::bf16}, {Format::int8}, {Format::int8, 32}, {Format::int4}};
          Recipe asked = options.recipe;
          if (asked.format == Format::int4 && asked.group == 32) asked.group = 0;  // the same
          if (std::find(recipes.begin(), recipes.end(), asked) == recipes.end()) recipes.push_back(asked);
          const Quality best = quality_of(ctx, model, model, windows);
          example::Table table;
          table.row({"format", "memory", "perplexity", "", "nats from float"});
          const auto shown = [](const Model& of) {
            return example::bytes(static_cast<double>(example::weight_bytes(of).kept));
          };
          table.row({"float", shown(model), example::fixed(best.perplexity, 4)});
          for (const Recipe& recipe : recipes) {
            const auto loaded = load(options, recipe);
            const Model& packed = std::get<Model>(loaded.model);
            const Quality quality = quality_of(ctx, packed, model, windows);
            const double change = 100 * (quality.perplexity / best.perplexity - 1);
            table.row({recipe.name(), shown(packed), example::fixed(quality.perplexity, 4),
                       (change < 0 ? "" : "+") + example::fixed(change, 2) + " %",
                       example::fixed(quality.divergence, 6)});
          }
          table.print();
        } else {
          fail("quantize", options.model, " does not continue texts: it has no perplexity; leave out --text");
        }
      },
      exact.model);
}

void write(const Options& options) {
  const auto loaded = load(options, options.recipe);
  PretrainedSaveOptions with;
  if (!detail::names_in(options.model, detail::is_of_tokenizer).empty()) with.tokenizer = options.model;
  std::visit(
      [&](const auto& model) {
        save_packed(options.output, model, loaded.facts, with);
        std::printf("%s: %s in %s\n", options.output.c_str(),
                    example::bytes(static_cast<double>(std::filesystem::file_size(options.output))).c_str(),
                    options.recipe.name().c_str());
      },
      loaded.model);
  for (const std::string& warning : loaded.facts.warnings) std::fprintf(stderr, "not followed: %s\n", warning.c_str());
}

/// Fails early if the output may not be written: nothing but a packed file is replaced.
void check_output(const std::filesystem::path& output) {
  ensure(output.extension() == ".safetensors", "quantize", output.string(), ": packed files are called ….safetensors");
  example::require_writable_file(output);
  if (detail::is_missing(output)) return;
  bool packed = false;
  try {
    packed = is_packed_file(output);
  } catch (const Error&) {  // then it is none
  }
  ensure(packed, "quantize", output.string(), ": is there, and is no packed file: choose another name");
}

int run(int argc, char** argv) {
  Options options;
  std::string format, head;
  CLI::App app("Makes a packed file of a model, and measures on a text what the formats cost.", "quantize");
  app.set_version_flag("--version", example::version());
  const CLI::IsMember formats({"f16", "bf16", "int8", "int4"}), head_formats({"float", "f16", "bf16", "int8", "int4"});
  app.add_option("MODEL", options.model,
                 "A folder with config.json and model.safetensors, a .gguf file, or one of llama2.c (.bin)")
      ->required()
      ->check(CLI::ExistingPath);
  app.add_option("--format", format, "Of the weights")->required()->check(formats);
  app.add_option(
         "--group", options.recipe.group,
         "Inputs that share a scale: 32, 64 or 128; of int8 0, all of an output, too; default: 0 of int8, 32 of "
         "int4")
      ->check(CLI::IsMember({0, 32, 64, 128}));
  app.add_option("--head-format", head, "Of the embedding and the head; default: that of the others")
      ->check(head_formats);
  app.add_option("--text", options.text, "A text on which to compare perplexities in all formats")
      ->check(CLI::ExistingFile);
  app.add_option("--output", options.output,
                 "The packed file, ….safetensors; a folder's tokenizer is copied beside it");
  app.add_option("--tokens", options.tokens, "At most so many tokens of the text")
      ->check(CLI::Range(Index{2}, Index{1} << 30))
      ->capture_default_str();
  app.add_option("--window", options.window, "Read in windows of so many tokens, or as many as the model is made for")
      ->check(CLI::Range(Index{2}, Index{1} << 20))
      ->capture_default_str();
  app.add_option("--tokenizer", options.tokenizer,
                 "A folder, or a .json, .model, .gguf or .bin file; default: the model's")
      ->check(CLI::ExistingPath);
  app.add_option("--threads", options.threads, "Threads; 0: all")->check(CLI::Range(0, 1024))->capture_default_str();
  try {
    app.parse(argc, argv);
    options.recipe.format = *format_of(format);
    if (!head.empty()) options.recipe.head = format_of(head).value_or(Format::scalar);
    const bool whole = format == "int8" || format == "int4" || head == "int8" || head == "int4";
    if (options.recipe.group > 0 && !whole)
      throw CLI::ValidationError("--group", format + " has no scales: leave it out");
    if (options.text.empty() && options.output.empty())
      throw CLI::ValidationError("--output", "there is nothing to do: say it, or --text, or both");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  if (!options.output.empty()) check_output(options.output);
  if (!options.text.empty()) print_quality(options);
  if (!options.output.empty()) write(options);
  return 0;
}

}  // namespace
}  // namespace quantizing

int main(int argc, char** argv) {
  return example::guarded_main([&] { return quantizing::run(argc, argv); });
}
