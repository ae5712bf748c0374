// Text from a model that someone has trained: a folder in the layout of Hugging Face, a packed file, a GGUF file, or a
// llama2.c file.
#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "../support/memory.hpp"
#include "../support/program.hpp"
#include "../support/table.hpp"
#include "../support/terminal.hpp"
#include "eigenformer/decode/beam.hpp"
#include "eigenformer/decode/generate.hpp"
#include "eigenformer/op/weight.hpp"
#include "eigenformer/pretrained/hugging_face.hpp"
#include "eigenformer/text/load_tokenizer.hpp"
#include "options.hpp"
#include "speed.hpp"

namespace generating {
namespace {

using namespace eigenformer;

bool is_packed(const std::filesystem::path& path) { return path.extension() == ".safetensors"; }

/// The one that is asked for; or that of the model's folder or GGUF file; or beside a packed file; or for a llama2.c
/// file, tokenizer.bin or the only tok….bin beside it.
std::unique_ptr<Tokenizer> find_tokenizer(const Options& options) {
  if (!options.tokenizer.empty()) return load_tokenizer(options.tokenizer);
  const std::filesystem::path model = options.model;
  const std::filesystem::path beside = model.has_parent_path() ? model.parent_path() : ".";
  if (std::filesystem::is_directory(model) || model.extension() == ".gguf" || is_packed(model)) try {
      return load_tokenizer(is_packed(model) ? beside : model);
    } catch (const Error& error) {
      fail("generate", "say which tokenizer with --tokenizer: ", error.what());
    }
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(beside))
    if (entry.path().filename() == "tokenizer.bin" ||
        (entry.path().filename().string().starts_with("tok") && entry.path().extension() == ".bin"))
      found.push_back(entry.path());
  ensure(!found.empty(), "generate", "there is no vocabulary (tok….bin) beside ", options.model,
         ": say where with --tokenizer");
  ensure(found.size() == 1, "generate", found.size(), " vocabularies (tok….bin) beside ", options.model,
         ": say which with --tokenizer");
  return load_tokenizer(found[0]);
}

void print(const std::string& text) {
  const std::string& shown = example::writes_to_terminal() ? example::visible(text) : text;
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  example::flush_output();
}

/// In the format that is asked for, unless its file says which.
AnyPretrained<float> load(const Options& options, const std::string& path) {
  PretrainedOptions how{.threads = Threads(options.threads)};
  if (!is_packed(path)) how.format = options.format;
  return load_pretrained(path, how);
}

/// What proposes tokens, if anything is asked to; `loaded` keeps it.
std::optional<Draft> find_draft(const Options& options, Context& ctx, std::optional<AnyPretrained<float>>& loaded) {
  if (options.look_up) return LookUp{};
  if (options.draft.empty()) return {};
  loaded = load(options, options.draft);
  return std::visit(
      [&](auto& model) -> Draft {
        if constexpr (requires { model.start(); }) {
          pack(ctx, model);
          return &model;
        } else {
          fail("generate", options.draft, " does not continue texts: it cannot be a draft");
        }
      },
      loaded->model);
}

/// To standard error: what weights and caches take.
template <class Model>
void report_memory(const Model& model, const Options& options, Index tokens) {
  const auto shown = [](std::int64_t size) { return example::bytes(static_cast<double>(size)); };
  std::fprintf(stderr, "memory: weights in %s %s", example::formats_of(model).c_str(),
               shown(example::weight_bytes(model).kept).c_str());
  if constexpr (requires { model.start(); }) {
    std::int64_t cache = 0;
    for (const auto& layer : model.start().layers)
      cache += options.beams * layer.bytes_for(tokens, layer.kv_heads(), layer.head_width(), options.cache);
    std::fprintf(stderr, ", keys and values of %td tokens in %s %s", tokens,
                 options.cache == Format::scalar ? "float" : std::string(format_name(options.cache)).c_str(),
                 shown(cache).c_str());
  }
  std::fprintf(stderr, "\n");
}

/// The text as it comes, and its speed.
template <class Model>
void run(const Options& options, Model& model, const PretrainedFacts& facts, const Tokenizer& tokenizer) {
  constexpr bool decodes_only = requires { model.start(); };
  Context ctx{Threads(options.threads)};
  pack(ctx, model);

  std::vector<Id> prompt = tokenizer.encode(options.prompt);
  std::optional<Id> bos;
  if constexpr (decodes_only) {
    if (const auto first = facts.bos ? facts.bos : tokenizer.bos(); prompt.empty() && first) prompt.push_back(*first);
    ensure(!prompt.empty(), "generate", "this model needs a prompt");
  } else {
    if (const auto last = tokenizer.eos(); last && (prompt.empty() || prompt.back() != *last)) prompt.push_back(*last);
    ensure(!prompt.empty(), "generate", "this model needs a source");
    bos = facts.decoder_start ? facts.decoder_start : facts.bos;
    ensure(bos.has_value(), "generate", options.model,
           " does not say which token the decoder begins with (decoder_start_token_id)");
  }
  for (const Id id : prompt)
    ensure(id < static_cast<Id>(model.embedding.weight.extent(0)), "generate", "token ", id,
           " of this tokenizer is not in the model's vocabulary of ", model.embedding.weight.extent(0));
  std::vector<Id> eos = facts.eos;
  if (eos.empty() && tokenizer.eos()) eos.push_back(*tokenizer.eos());
  Index most = options.tokens;
  if (const Index room = facts.max_positions - (decodes_only ? static_cast<Index>(prompt.size()) : 1);
      facts.max_positions > 0 && most > room) {
    ensure(room > 0, "generate", "a prompt of ", prompt.size(), " tokens leaves no room: the model is made for ",
           facts.max_positions);
    std::fprintf(stderr, "%td tokens at most: the model is made for %td\n", room, facts.max_positions);
    most = room;
  }

  std::optional<AnyPretrained<float>> loaded;
  const std::optional<Draft> draft = find_draft(options, ctx, loaded);

  TextStream stream(tokenizer);
  std::string failure;
  Generated result;  // not of beams
  if constexpr (decodes_only)
    for (const Id id : prompt) print(stream.next(id));
  const example::Interrupt interrupt;  // ends the text, not the report
  const Clock clock;
  double first = 0;
  Index count = 0;
  const auto on_token = [&](Index, Id id) {
    if (count++ == 0) first = clock.seconds();
    print(stream.next(id));
    return !interrupt.asked();
  };
  const auto with = [&](auto&& decode, const auto& config) {
    if constexpr (decodes_only) return decode(ctx, std::as_const(model), std::vector<std::vector<Id>>{prompt}, config);
    else
      return decode(ctx, std::as_const(model),
                    ConstView<Id, 2>(prompt.data(), Shape{Index{1}, static_cast<Index>(prompt.size())}),
                    ConstView<Index, 1>(), config);
  };
  if (options.beams == 1) {
    GenerateConfig config{.max_tokens = most,
                          .eos = eos,
                          .bos = bos,
                          .on_token = on_token,
                          .cache = options.cache,
                          .draft = draft,
                          .draft_tokens = options.draft_tokens};
    if (options.temperature > 0)
      config.sampling = Sampling{.temperature = options.temperature, .top_p = options.top_p, .seed = options.seed};
    result = with([](auto&&... arguments) { return generate(arguments...); }, config)[0];
    failure = result.failure;
  } else {
    const BeamConfig config{.max_tokens = most,
                            .eos = eos,
                            .bos = bos,
                            .beams = options.beams,
                            .penalty = LengthPenalty::power,
                            .cache = options.cache};
    const auto texts = with([](auto&&... arguments) { return beam_search(arguments...); }, config);
    for (const Id id : texts[0][0].tokens) print(stream.next(id));
    count = static_cast<Index>(texts[0][0].tokens.size());
    failure = texts[0][0].failure;
  }
  const double seconds = clock.seconds();
  print(stream.flush() + "\n");
  ensure(failure.empty(), "generate", "the text could not go on: ", failure);
  if (options.beams > 1) {
    std::fprintf(stderr, "%td tokens of the best of %td beams, %.0f tokens/s with the prompt\n", count, options.beams,
                 static_cast<double>(count) / seconds);
  } else if (count > 0) {
    double bytes = 0;  // that a step reads; with a draft, it brings several tokens
    if constexpr (decodes_only)
      if (!draft) {
        example::WeightBytes table;  // of which a step looks up a row, unless it is the head too
        if (model.head) table.add(model.embedding.weight);
        bytes = static_cast<double>(example::weight_bytes(model).read - table.read);
      }
    report(static_cast<Index>(prompt.size()), first, count - 1, seconds - first, bytes,
           bytes > 0 ? read_bandwidth(ctx.threads, bytes) : 0);
    if (draft) std::fprintf(stderr, "draft: %td tokens proposed, %td accepted\n", result.proposed, result.accepted);
  }
  report_memory(model, options, static_cast<Index>(prompt.size()) + count);
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Continues a text with a model that someone has trained; or says what an encoder-decoder makes of it.",
               "generate");
  app.set_version_flag("--version", example::version());
  app.add_option(
         "MODEL", options.model,
         "A folder with config.json and model.safetensors, a packed file (.safetensors) of examples/quantize, a "
         ".gguf file, or one of llama2.c (.bin)")
      ->required()
      ->check(CLI::ExistingPath);
  app.add_option("--prompt", options.prompt,
                 "The text to continue, or the source; default: none, a text from its start");
  app.add_option("--tokens", options.tokens, "At most so many new tokens")
      ->check(CLI::Range(Index{0}, Index{1} << 30))
      ->capture_default_str();
  const auto* const temperature =
      app.add_option("--temperature", options.temperature,
                     "Tokens are drawn, the flatter the higher; 0: always the most probable one")
          ->check(CLI::Range(0.0, 100.0))
          ->capture_default_str();
  const auto* const top_p =
      app.add_option("--top-p", options.top_p,
                     "Draw from the most probable tokens of this mass; temperature is 1 then, if not given")
          ->check(CLI::Range(0.0, 1.0))
          ->capture_default_str();
  app.add_option("--beams", options.beams, "Beam search with so many beams: the text comes at the end")
      ->check(CLI::Range(Index{1}, Index{1000}))
      ->capture_default_str();
  auto* const small = app.add_option("--draft", options.draft,
                                     "A smaller model of the same vocabulary that proposes tokens: the same text, "
                                     "sooner where it is often right")
                          ->check(CLI::ExistingPath);
  app.add_flag("--look-up", options.look_up,
               "Propose what the text said when it last ended like this: sooner where it repeats itself")
      ->excludes(small);
  app.add_option("--draft-tokens", options.draft_tokens, "Propose at most so many tokens at once")
      ->check(CLI::Range(Index{0}, Index{1000}))
      ->capture_default_str();
  std::string format = "float", cache = "float";
  const auto* const asked_format =
      app.add_option("--format", format, "The weights are packed in it as they are read: less memory, more speed")
          ->check(CLI::IsMember({"float", "f16", "bf16", "int8", "int4"}))
          ->capture_default_str();
  app.add_option("--kv-format", cache, "Keys and values are kept in it")
      ->check(CLI::IsMember({"float", "bf16", "int8"}))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Threads; 0: all")->check(CLI::Range(0, 1024))->capture_default_str();
  app.add_option("--seed", options.seed, "Another seed draws another text")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--tokenizer", options.tokenizer,
                 "A folder, or a .json, .model, .gguf or .bin file; default: the one in or beside the model")
      ->check(CLI::ExistingPath);
  try {
    app.parse(argc, argv);
    options.format = format_of(format).value_or(Format::scalar);
    options.cache = format_of(cache).value_or(Format::scalar);
    if (asked_format->count() > 0 && is_packed(options.model))
      throw CLI::ValidationError("--format", options.model + " is packed: its weights have their formats");
    if (top_p->count() > 0 && temperature->count() == 0) options.temperature = 1;
    if (options.beams > 1 && options.temperature > 0)
      throw CLI::ValidationError("--beams", "beams are not drawn: leave out --temperature and --top-p");
    if (options.beams > 1 && (options.look_up || !options.draft.empty()))
      throw CLI::ValidationError("--beams", "beams have no draft: leave out --draft and --look-up");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  auto loaded = load(options, options.model);
  for (const std::string& warning : loaded.facts.warnings) std::fprintf(stderr, "not followed: %s\n", warning.c_str());
  const auto tokenizer = find_tokenizer(options);
  std::visit(
      [&](auto& model) {
        if constexpr (requires { typename std::remove_reference_t<decltype(model)>::State; })
          run(options, model, loaded.facts, *tokenizer);
        else fail("generate", options.model, " is an encoder: it does not generate text");
      },
      loaded.model);
  return 0;
}

}  // namespace
}  // namespace generating

int main(int argc, char** argv) {
  return example::guarded_main([&] { return generating::run(argc, argv); });
}
