// A trained model with its vocabulary: translates, and is saved and loaded as one file.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/decode/beam.hpp"
#include "eigenformer/io/checkpoint.hpp"
#include "eigenformer/model/paper.hpp"
#include "text.hpp"

namespace translate {

struct Sizes {
  Index layers = 2;  ///< of the encoder, and of the decoder
  Index width = 64, hidden = 256, heads = 4;
  double dropout = 0.1;

  eigenformer::PaperTransformer::Config config(Index vocabulary) const {
    return {.source_vocabulary = vocabulary,
            .target_vocabulary = vocabulary,
            .encoder_layers = layers,
            .decoder_layers = layers,
            .block = {.width = width, .hidden = hidden, .heads = heads, .dropout = dropout}};
  }
};

struct Translator {
  Sizes sizes;
  Vocabulary vocabulary;
  Index longest;  ///< translation, in characters: what is longer is cut there
  eigenformer::PaperTransformer model;

  Translator(const Sizes& of, Vocabulary characters, Index longest_translation)
      : sizes(of), vocabulary(std::move(characters)), longest(longest_translation),
        model(sizes.config(vocabulary.size())) {}

  /// The best translation of each text.
  std::vector<std::string> operator()(eigenformer::Context& ctx, const std::vector<std::string>& texts,
                                      Index beams = 1) const {
    std::vector<std::string> best;
    for (auto& translations : n_best(ctx, texts, beams, 1)) best.push_back(std::move(translations[0].text));
    return best;
  }

  struct Translation {
    std::string text;
    double score = 0;  ///< mean log-probability of its characters and eos
  };
  /// The best translations of each text, by beam search; one beam is greedy. Unknown characters are left out; if
  /// nothing is left, the translation is empty.
  std::vector<std::vector<Translation>> n_best(eigenformer::Context& ctx, const std::vector<std::string>& texts,
                                               Index beams, Index count) const {
    std::vector<std::vector<Id>> sources;
    std::vector<std::size_t> order;  // of those with a source, the shorter first
    for (std::size_t i = 0; i < texts.size(); ++i) {
      sources.push_back(source_ids(vocabulary, texts[i]));
      if (sources[i].size() > 1) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return sources[a].size() < sources[b].size(); });

    constexpr std::size_t batch = 50;
    std::vector<std::vector<Translation>> translations(texts.size(), std::vector<Translation>(1));
    for (std::size_t begin = 0; begin < order.size(); begin += batch) {
      std::vector<std::vector<Id>> rows;
      for (std::size_t i = begin; i < (std::min)(begin + batch, order.size()); ++i) rows.push_back(sources[order[i]]);
      const Padded source(rows);
      const auto results = eigenformer::beam_search(ctx, model, source.ids, source.lengths,
                                                    {.max_tokens = longest + 1,
                                                     .eos = {Vocabulary::eos},
                                                     .bos = Vocabulary::bos,
                                                     .beams = beams,
                                                     .n_best = count,
                                                     .penalty = eigenformer::LengthPenalty::power});
      for (std::size_t i = 0; i < results.size(); ++i) {
        auto& found = translations[order[begin + i]];
        found.clear();
        for (const auto& hypothesis : results[i])
          if (hypothesis.failure.empty())
            found.push_back({vocabulary.decode(hypothesis.tokens), hypothesis.normalized});
        eigenformer::ensure(!found.empty(), "translate", "text ", order[begin + i], ": ", results[i][0].failure);
      }
    }
    return translations;
  }

  void save(const std::filesystem::path& path) const {
    eigenformer::save(path, model,
                      {{"characters", vocabulary.text()},
                       {"longest", std::to_string(longest)},
                       {"layers", std::to_string(sizes.layers)},
                       {"width", std::to_string(sizes.width)},
                       {"hidden", std::to_string(sizes.hidden)},
                       {"heads", std::to_string(sizes.heads)}});
  }

  static Translator load(const std::filesystem::path& path) {
    const eigenformer::Metadata metadata = eigenformer::Safetensors(path).metadata();
    const auto text = [&](const char* name) {
      const auto found = metadata.find(name);
      eigenformer::ensure(found != metadata.end(), "translate", path.string(),
                          " is no model of this program: its metadata has no ", name);
      return found->second;
    };
    const auto number = [&](const char* name) {
      const std::string digits = text(name);
      Index value = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      eigenformer::ensure(
          error == std::errc() && end == digits.data() + digits.size() && value > 0 && value <= 1'000'000, "translate",
          path.string(), " has the metadata ", name, " = \"", digits, "\", which is no size");
      return value;
    };
    Translator translator({number("layers"), number("width"), number("hidden"), number("heads"), 0},
                          Vocabulary(text("characters")), number("longest"));
    eigenformer::load(path, translator.model);
    return translator;
  }
};

}  // namespace translate
