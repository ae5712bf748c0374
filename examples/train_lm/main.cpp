// Learns to write like a text: a small decoder of LLaMA's kind on bytes; by default, on the headers of this library.
// What it has learned is a folder in the layout of Hugging Face, for examples/generate.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "../support/program.hpp"
#include "../support/progress.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/decode/generate.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/op/cross_entropy.hpp"
#include "eigenformer/pretrained/hugging_face.hpp"
#include "eigenformer/text/byte_alphabet.hpp"
#include "eigenformer/train/trainer.hpp"
#include "text.hpp"

namespace train_lm {
namespace {

using namespace eigenformer;

struct Options {
  std::string text;  // file, or the headers
  std::filesystem::path folder = "train_lm";
  Index steps = 600, batch = 8, context = 256, width = 128, hidden = 344, layers = 4, heads = 4;
  double rate = 2e-3;
  std::uint64_t seed = 1;
  int threads = 0;
};

Loss loss_of(Context& ctx, const Llama<float>& model, const Batch& batch) {
  return op::cross_entropy(ctx, model(ctx, {.ids = batch.ids}), batch.expected);
}

double validate(Context& ctx, const Llama<float>& model, const Batch& batch) {
  const auto scratch = ctx.scratch();
  const Loss loss = loss_of(ctx, model, batch);
  return loss.sum[0] / static_cast<double>(loss.tokens);
}

/// The vocabulary as files that GPT-2's tokenizers read: bytes without merges.
void save_vocabulary(const std::filesystem::path& folder) {
  nlohmann::json pieces;
  for (Id id = 0; id < 256; ++id)
    pieces[to_byte_characters(std::string(1, static_cast<char>(static_cast<unsigned char>(id))))] = id;
  pieces["<|endoftext|>"] = bos;
  replace_text_file("train_lm", folder / "vocab.json", pieces.dump() + "\n");
  replace_text_file("train_lm", folder / "merges.txt", "#version: 0.2\n");
  const nlohmann::json marks{
      {"bos_token", "<|endoftext|>"}, {"eos_token", "<|endoftext|>"}, {"tokenizer_class", "GPT2Tokenizer"}};
  replace_text_file("train_lm", folder / "tokenizer_config.json", marks.dump(2) + "\n");
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Learns to write like a text.", "train_lm");
  app.set_version_flag("--version", example::version());
  app.add_option("TEXT_FILE", options.text, "The text; default: the headers of eigenformer")->check(CLI::ExistingFile);
  app.add_option("--folder", options.folder, "What it learns is saved here")->capture_default_str();
  const auto option = [&](const char* name, auto& value, const char* what, const CLI::Validator& valid) {
    app.add_option(name, value, what)->check(valid)->capture_default_str();
  };
  const CLI::Range counts(Index{1}, Index{1'000'000'000}), sizes(Index{1}, Index{1} << 16);
  option("--steps", options.steps, "Steps of the optimizer", counts);
  option("--batch", options.batch, "Windows of text in a step", sizes);
  option("--context", options.context, "Bytes of a window", sizes);
  option("--width", options.width, "Width of the model", sizes);
  option("--hidden", options.hidden, "Hidden width of the feed-forward layers", sizes);
  option("--layers", options.layers, "Layers", CLI::Range(Index{1}, Index{1000}));
  option("--heads", options.heads, "Attention heads; they divide the width", sizes);
  option("--rate", options.rate, "The highest learning rate", CLI::Range(0.0, 1.0));
  option("--seed", options.seed, "Seed of weights and windows", CLI::NonNegativeNumber);
  option("--threads", options.threads, "Threads; 0: all", CLI::Range(0, 1024));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }

  example::require_writable_folder(options.folder);
  const std::string text = options.text.empty() ? read_files(EIGENFORMER_HEADERS, ".hpp") : read_file(options.text);
  const std::size_t held_out = text.size() / 20;  // the end is for validation
  const Windows training(std::string_view(text).substr(0, text.size() - held_out), options.context),
      rest(std::string_view(text).substr(text.size() - held_out), options.context);
  const Batch validation = rest.spread(16);
  Llama<float> initial({.vocabulary = vocabulary,
                        .layers = options.layers,
                        .block = {.width = options.width,
                                  .hidden = options.hidden,
                                  .heads = options.heads,
                                  .dropout = 0,
                                  .attention = {.bias = false},
                                  .residual = {.norm = {.epsilon = 1e-5}}}});
  initialize(initial, options.seed);
  std::printf("Learning to write like %s, %zu bytes.\n",
              options.text.empty() ? "eigenformer's headers" : options.text.c_str(), text.size());
  std::printf("%lld parameters: %td layers, width %td, hidden %td, %td heads, windows of %td bytes\n",
              static_cast<long long>(parameter_count(initial)), options.layers, options.width, options.hidden,
              options.heads, options.context);

  Trainer trainer(
      std::move(initial),
      {.optimiser = {.beta2 = 0.95, .epsilon = 1e-8, .decay = 0.1},
       .learning_rate =
           CosineDecay{
               .rate = options.rate, .steps = options.steps, .warm_up = options.steps / 10, .end = options.rate / 10},
       .clip = 1.0},
      Threads(options.threads));
  const PretrainedFacts facts{.bos = bos, .eos = {bos}, .max_positions = options.context};
  check_hugging_face(options.folder, trainer.model, facts);
  Context ctx{Threads(options.threads)};
  RandomSequence random(options.seed, 1);
  example::Progress progress(options.steps);
  const example::Interrupt interrupt;
  for (Index step = 1; step <= options.steps && !interrupt.asked(); ++step) {
    const Batch batch = training.random(random, options.batch);
    trainer.accumulate([&](Context& recording, const Llama<float>& model) { return loss_of(recording, model, batch); });
    progress.show(trainer.step(), options.batch * options.context);
    if (step * 5 / options.steps == (step - 1) * 5 / options.steps && step != options.steps) continue;
    const auto sample = generate(ctx, trainer.model, {{bos}},
                                 {.max_tokens = 120, .sampling = Sampling{.temperature = 0.7, .seed = options.seed}});
    std::string written;
    for (const Id id : sample[0].tokens) written += id < 256 ? static_cast<char>(static_cast<unsigned char>(id)) : '|';
    written += sample[0].failure;
    std::printf("\nvalidation loss %.3f per byte. It writes:\n%s\n\n", validate(ctx, trainer.model, validation),
                example::visible(written).c_str());
  }

  save_hugging_face(options.folder, trainer.model, facts);
  save_vocabulary(options.folder);
  if (interrupt.asked()) {
    std::printf("\nStopped after %td of %td steps; what it has learned is in %s\n", trainer.steps(), options.steps,
                options.folder.c_str());
    return example::Interrupt::exit_code;
  }
  const auto loaded = load_hugging_face<Llama<float>>(options.folder);
  std::printf(
      "Saved to %s; loaded again, its validation loss is %.3f. To let it write:\n  generate %s --prompt '// ' "
      "--temperature 0.7\n",
      options.folder.c_str(), validate(ctx, loaded.model, validation), options.folder.c_str());
  return 0;
}

}  // namespace
}  // namespace train_lm

int main(int argc, char** argv) {
  return example::guarded_main([&] { return train_lm::run(argc, argv); });
}
