// Learns to translate with a small Transformer of the kind of "Attention is all you need", and translates: by default
// the names of numbers, from English to Korean.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../support/program.hpp"
#include "../support/progress.hpp"
#include "../support/terminal.hpp"
#include "corpus.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/train/trainer.hpp"
#include "text.hpp"
#include "translator.hpp"

namespace translate {
namespace {

struct Options {
  std::string program;  // how it was called
  std::string model;    // file
  int threads = 0;

  std::string data;  // file, or the numbers
  Sizes sizes;
  Index steps = 3000, batch = 1024, warm_up = 400;
  double rate = 0.6, smoothing = 0.1;
  Index seed = 1;
  std::optional<double> require{};  // percent

  Index beams = 1, n_best = 1;
};

/// As a shell would have to be given it.
std::string shell_word(const std::string& text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quotes = "'";
  for (const char c : text) quotes += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quotes + "'";
}

/// Trains and saves; false if Ctrl-C ended it.
bool learn(const Options& options, const Corpus& corpus) {
  const auto seed = static_cast<std::uint64_t>(options.seed);
  Translator translator(options.sizes, Vocabulary(corpus.text), corpus.longest_target);
  eigenformer::initialize(translator.model, seed);
  std::printf("Learning to translate %s.\n",
              options.data.empty() ? "the names of numbers, English to Korean" : options.data.c_str());
  std::printf("%lld parameters: %td + %td layers, width %td, hidden %td, %td heads, %td characters\n",
              static_cast<long long>(eigenformer::parameter_count(translator.model)), options.sizes.layers,
              options.sizes.layers, options.sizes.width, options.sizes.hidden, options.sizes.heads,
              translator.vocabulary.size() - 3);

  eigenformer::Trainer trainer(
      std::move(translator.model),
      {.learning_rate = eigenformer::WarmUp{options.sizes.width, options.warm_up, options.rate}, .seed = seed},
      eigenformer::Threads(options.threads));
  Batches batches(translator.vocabulary, corpus.draw, options.batch, seed);
  example::Progress progress(options.steps);
  const example::Interrupt interrupt;
  for (Index step = 0; step < options.steps && !interrupt.asked(); ++step) {
    const Batch batch = batches.next();
    trainer.accumulate([&](eigenformer::Context& ctx, const eigenformer::PaperTransformer& model) {
      const auto logits = model(ctx, {.source = batch.source.ids,
                                      .source_lengths = batch.source.lengths,
                                      .target = batch.target.ids,
                                      .target_lengths = batch.target.lengths});
      return eigenformer::op::cross_entropy(ctx, logits, batch.expected.ids,
                                            {.smoothing = options.smoothing, .ignore = Vocabulary::padding});
    });
    progress.show(trainer.step(), batch.tokens);
  }
  translator.model = std::move(trainer.model);
  translator.save(options.model);
  if (!interrupt.asked()) return true;
  std::printf("\nStopped after %td of %td steps; what it has learned is in %s\n", trainer.steps(), options.steps,
              options.model.c_str());
  return false;
}

/// The percentage of translations that are exactly right; shows some that are not.
double test(eigenformer::Context& ctx, const Translator& translator, const std::vector<Pair>& pairs) {
  std::vector<std::string> sources;
  for (const Pair& pair : pairs) sources.push_back(pair.source);
  const auto translations = translator(ctx, sources);
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (translations[i] != pairs[i].target) wrong.push_back(i);
  const double percent = 100 - 100 * static_cast<double>(wrong.size()) / static_cast<double>(pairs.size());
  std::printf("%zu of %zu held-out pairs translated exactly: %.1f %%\n", pairs.size() - wrong.size(), pairs.size(),
              percent);
  for (std::size_t i = 0; i < (std::min)(wrong.size(), std::size_t{3}); ++i)
    std::printf("  wrong: %s → %s, not %s\n", pairs[wrong[i]].source.c_str(), translations[wrong[i]].c_str(),
                pairs[wrong[i]].target.c_str());
  return percent;
}

/// Standard input to standard output, a line for a line; or the n best, each after its line's number, a tab, its score,
/// and a tab. Lines that have arrived already are translated together.
void translate_lines(eigenformer::Context& ctx, const Translator& translator, Index beams = 1, Index n_best = 1) {
  std::vector<std::string> lines;
  const bool terminal = example::writes_to_terminal();
  Index number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    if (line.ends_with('\r')) line.pop_back();
    ++number;
    Index unknown = 0;
    translator.vocabulary.encode(line, &unknown);
    if (unknown > 0)
      std::cerr << "line " << number << ": left out " << unknown << (unknown == 1 ? " character" : " characters")
                << " that the training data did not have\n";
    lines.push_back(line);
    if (lines.size() < 500 && std::cin.rdbuf()->in_avail() > 0) continue;
    Index line_number = number - static_cast<Index>(lines.size());
    for (const auto& translations : translator.n_best(ctx, lines, beams, n_best)) {
      ++line_number;
      for (const auto& [text, score] : translations) {
        if (n_best > 1) std::cout << line_number << '\t' << score << '\t';
        std::cout << (terminal ? example::visible(text) : text) << '\n';
      }
    }
    std::cout.flush();
    lines.clear();
  }
  eigenformer::ensure(std::cout.flush().good(), "translate", "cannot write the translations");
}

int train(const Options& options) {
  example::require_writable_file(options.model);
  const Corpus corpus = options.data.empty() ? number_corpus() : file_corpus(options.data);
  if (!learn(options, corpus)) return example::Interrupt::exit_code;

  const Translator translator = Translator::load(options.model);
  std::printf("Saved to %s and loaded again.\n", options.model.c_str());
  eigenformer::Context ctx{eigenformer::Threads(options.threads)};
  double percent = 100;
  if (corpus.tests.empty()) {
    std::printf("Too few lines to hold some out for a test.\n");
  } else {
    percent = test(ctx, translator, corpus.tests);
    std::vector<std::string> samples;
    for (std::size_t i = 0; i < (std::min)(corpus.tests.size(), std::size_t{5}); ++i)
      samples.push_back(corpus.tests[i].source);
    const auto translations = translator(ctx, samples);
    std::printf("Some of them:\n");
    for (std::size_t i = 0; i < samples.size(); ++i)
      std::printf("  %s → %s\n", samples[i].c_str(), translations[i].c_str());
  }
  std::printf("To translate what you type:\n  %s translate --model %s\n", shell_word(options.program).c_str(),
              shell_word(options.model).c_str());

  const double required = options.require.value_or(options.data.empty() ? 95 : 0);
  if (percent < required) eigenformer::fail("translate", percent, " % is less than the ", required, " % required");
  if (example::reads_from_terminal() && example::writes_to_terminal()) {
    std::printf("Or now, line by line; Ctrl-D ends:\n");
    std::fflush(stdout);
    translate_lines(ctx, translator);
  }
  return 0;
}

int translate(const Options& options) {
  const Translator translator = Translator::load(options.model);
  if (example::reads_from_terminal()) std::cerr << "Line by line; Ctrl-D ends:\n";
  eigenformer::Context ctx{eigenformer::Threads(options.threads)};
  translate_lines(ctx, translator, options.beams, options.n_best);
  return 0;
}

int run(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  Options options;
  options.program = argv[0];
  options.model = (std::filesystem::path(argv[0]).parent_path() / "translate.safetensors").string();
  const CLI::Range counts(1, 1'000'000'000), sizes(1, 1 << 20), probability(0.0, 0.99);
  const auto a_number = [](const std::string& text) {  // of which NaN is none, though it is in every range
    return text.find_first_of("nN") == std::string::npos ? std::string() : text + " is not a number";
  };

  CLI::App app("Learns to translate, or translates with what it has learned.", "translate");
  app.set_version_flag("--version", example::version());
  app.require_subcommand(0, 1);
  app.footer("Without a subcommand it is train, with the options of train.");
  const auto common = [&](CLI::App& command) {
    command.add_option("--model", options.model, "File of the trained model; with --data, its name here")
        ->capture_default_str();
    command.add_option("--threads", options.threads, "Threads; 0: all")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
  };

  CLI::App& training = *app.add_subcommand("train", "Train, test and save a model");
  common(training);
  const auto option = [&](const char* name, auto& value, const char* what, const CLI::Validator& valid) {
    return training.add_option(name, value, what)->check(valid)->check(a_number)->capture_default_str();
  };
  training
      .add_option("--data", options.data, "Learn from this file, lines of source, tab and target, not from numbers")
      ->check(CLI::ExistingFile);
  option("--steps", options.steps, "Steps of the optimizer", counts);
  option("--batch", options.batch, "Tokens of a batch, source and target together", counts);
  option("--layers", options.sizes.layers, "Layers of the encoder, and of the decoder", CLI::Range(1, 1000));
  option("--width", options.sizes.width, "Width of the model", sizes);
  option("--hidden", options.sizes.hidden, "Hidden width of the feed-forward layers", sizes);
  option("--heads", options.sizes.heads, "Attention heads; they divide the width", sizes);
  option("--dropout", options.sizes.dropout, "Probability of dropout", probability);
  option("--smoothing", options.smoothing, "Label smoothing", probability);
  option("--warm-up", options.warm_up, "Steps until the learning rate is at its highest", CLI::Range(0, 1'000'000'000));
  option("--rate", options.rate, "Factor of the learning rate", CLI::Range(0.0, 1e6));
  option("--seed", options.seed, "Seed of weights, batches and dropout", CLI::NonNegativeNumber);
  training
      .add_option("--require", options.require,
                  "Fail if a lower percentage of the tests is right [numbers: 95, file: 0]")
      ->check(CLI::Range(0.0, 100.0))
      ->check(a_number);

  CLI::App& translating = *app.add_subcommand("translate", "Translate standard input to standard output, line by line");
  common(translating);
  translating.add_option("--beams", options.beams, "Beams of the search; 1: always the most probable character")
      ->check(CLI::Range(Index{1}, Index{1000}))
      ->capture_default_str();
  translating
      .add_option("--n-best", options.n_best,
                  "So many translations of each line, the best first; from 2 on, each after the number of its line and "
                  "its mean log-probability, with tabs")
      ->check(CLI::Range(Index{1}, Index{1000}))
      ->capture_default_str();

  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty() || (arguments[0] != "train" && arguments[0] != "translate" && arguments[0] != "-h" &&
                            arguments[0] != "--help" && arguments[0] != "--version"))
    arguments.insert(arguments.begin(), "train");
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  eigenformer::ensure(options.n_best <= options.beams, "translate", "--n-best ", options.n_best, " needs --beams ",
                      options.n_best, " or more");
  if (!options.data.empty() && training.count("--model") == 0)  // not over the model of the numbers
    options.model = std::filesystem::path(options.data).filename().replace_extension("safetensors").string();
  return training.parsed() ? train(options) : translate(options);
}

}  // namespace
}  // namespace translate

int main(int argc, char** argv) {
  return example::guarded_main([&] { return translate::run(argc, argv); });
}
