// What a transformer consists of and what it costs, for published models and for any other size: parts and shapes,
// parameters and operations, the memory of attention, the key-value cache. Weights are of NoValue, so no model is too
// large.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "../support/program.hpp"
#include "../support/table.hpp"
#include "eigenformer/kernel/attention.hpp"
#include "models.hpp"
#include "parts.hpp"

namespace anatomy {
namespace {

using eigenformer::Arena;
using eigenformer::Shape;
using eigenformer::Tensor;
using example::bytes;
using example::fixed;
using example::percent;
namespace kernel = eigenformer::kernel;

void print_parts(const Model& model) {
  std::printf("%s\n\nParts\n", model.name.c_str());
  Table table(2);
  table.row({"part", "shape", "parameters", "all copies"});
  for (const Part& part : model.root.parts) list(table, part);
  table.row({"total", "", grouped(model.root.count())});
  table.print();
  if (model.tied) std::printf("  The output projection is the embedding, which counts once.\n");
}

/// What a forward pass computes on the way, for one sequence.
void print_shapes(const Model& model, Index length) {
  std::printf("\nShapes on the way, for a sequence of %td tokens (a batch has them as often as it has sequences)\n",
              length);
  const Attention& attention = model.attentions.front();
  Table table(2);
  table.row({"embedded, and after every layer", to_string(Shape{length, model.width})});
  table.row({"queries, by head", to_string(Shape{length, attention.heads, attention.head_width})});
  table.row({"keys, and values, by head", to_string(Shape{length, attention.kv_heads, attention.head_width})});
  table.row(
      {"scores, and attention weights", to_string(Shape{attention.heads, length, length}), "never held all at once"});
  table.row({"values mixed, by head", to_string(Shape{length, attention.heads, attention.head_width})});
  table.row({"hidden, in the feed-forward network", to_string(Shape{length, model.hidden})});
  if (model.logits) table.row({"logits", to_string(Shape{length, model.vocabulary})});
  table.print();
}

/// The share of the feed-forward network, in every kind of layer.
void print_layers(const Part& part, const std::string& path = {}) {
  if (const Part* const network = part.find("feed_forward"))
    std::printf("  Feed-forward has %s of the weights of a layer in %s.\n",
                percent(static_cast<double>(network->count()), static_cast<double>(part.count())).c_str(),
                path.c_str());
  else
    for (const Part& inner : part.parts) print_layers(inner, path + (path.empty() ? "" : ".") + inner.name);
}

void print_costs(const Model& model, Index length) {
  std::printf("\nParameters, and operations of a forward pass per %s, at length %td\n",
              model.two_sided ? "pair of a source and a target token" : "token", length);
  auto flops = model.per_token;
  flops[static_cast<std::size_t>(Kind::scores)] = model.scores(length);
  flops[static_cast<std::size_t>(Kind::head)] += model.per_sequence / static_cast<double>(length);
  const double parameters = static_cast<double>(model.root.count()),
               all = std::accumulate(flops.begin(), flops.end(), 0.0);
  Table table;
  table.row({"part", "parameters", "share", "MFLOP", "share"});
  for (std::size_t i = 0; i < kind_names.size(); ++i)
    table.row({kind_names[i], grouped(model.parameters[i]),
               percent(static_cast<double>(model.parameters[i]), parameters), fixed(flops[i] * 1e-6, 3),
               percent(flops[i], all)});
  table.row({"total", grouped(model.root.count()), "", fixed(all * 1e-6, 3)});
  table.print();
  print_layers(model.root);
  std::printf(
      "  A multiply-add is two operations; a norm has 4 per element, 7 with mean and bias. Not counted: biases, "
      "activations,\n"
      "  softmax, positions.\n");
}

/// What pack() and save_packed() make of the matrices; norms and biases stay floats.
void print_formats(const Model& model) {
  std::printf("\nMemory of the weights in each format\n");
  Table table;
  table.row({"format", "memory", "bytes per parameter"});
  for (const auto& [name, size] : model.formats)
    table.row({name, bytes(static_cast<double>(size)),
               fixed(static_cast<double>(size) / static_cast<double>(model.root.count()), 3)});
  table.print();
}

/// Bytes that the kernel asks for to attend in one layer, besides queries, keys, values and output.
std::size_t measured(const Attention& attention, Index length) {
  const Tensor<float, 4> query(Shape{Index{1}, length, attention.heads, attention.head_width}),
      key(Shape{Index{1}, length, attention.kv_heads, attention.head_width});
  Tensor<float, 4> output(query.shape());
  Tensor<kernel::AttentionRow<float>, 3> rows(Shape{Index{1}, attention.heads, length});
  Arena arena;
  const kernel::AttentionInputs<float> in{query, key, key, 1, {.causal = attention.causal, .window = attention.window}};
  kernel::attention_forward<float>(eigenformer::Threads(), arena, in, output, rows);
  return arena.capacity();
}

void print_attention_memory(const Model& model) {
  const Attention& attention = model.attentions.front();
  const std::string heads = std::to_string(attention.heads) + " heads";
  std::printf(
      "\nMemory of the attention weights of one layer and sequence: all of them in 16 bits, and what our kernel asks "
      "for (measured,\n"
      "32 bits, one thread) and keeps for the backward pass\n");
  constexpr double longest_run = 6e11;  // operations: some seconds
  Table table;
  table.row({"tokens", "8 heads", heads + ", this model", "kernel", "kept"});
  for (const Index length : {512, 2048, 8192}) {
    const double plain = 2 * static_cast<double>(length) * static_cast<double>(length);
    const double work = 4 * static_cast<double>(attention.heads * attention.head_width) * attention.keys(length) *
                        static_cast<double>(length);
    table.row({grouped(length), bytes(8 * plain), bytes(static_cast<double>(attention.heads) * plain),
               work > longest_run ? "not run" : bytes(static_cast<double>(measured(attention, length))),
               bytes(static_cast<double>(attention.heads * length) * sizeof(kernel::AttentionRow<float>))});
  }
  table.print();
}

void print_cache(const Model& model) {
  std::vector<Attention> cached;
  std::copy_if(model.attentions.begin(), model.attentions.end(), std::back_inserter(cached),
               [](const Attention& each) { return each.cached; });
  if (cached.empty()) {
    std::printf("\nKey-value cache: none, an encoder sees all tokens at once.\n");
    return;
  }
  constexpr Index tokens = 4096;
  const Attention& first = cached.front();
  std::printf("\nKey-value cache of %zu layers%s\n", cached.size(),
              model.two_sided ? ", of the target; the source's keys and values are as large again, once" : "");
  Table table;
  table.row(
      {"heads of keys and values", "per token, 16 bits", "32 bits", grouped(tokens) + " tokens, 16 bits", "32 bits"});
  std::vector<Index> choices{first.heads, first.kv_heads, 1};
  choices.erase(std::unique(choices.begin(), choices.end()), choices.end());
  for (const Index kv_heads : choices) {
    const std::string what = kv_heads == first.heads ? "MHA" : kv_heads > 1 ? "GQA" : "MQA";
    const double numbers = 2 * static_cast<double>(static_cast<Index>(cached.size()) * kv_heads * first.head_width),
                 all = numbers * static_cast<double>(tokens);
    table.row({what + ", " + std::to_string(kv_heads) + (kv_heads == first.kv_heads ? ", this model" : ""),
               bytes(2 * numbers), bytes(4 * numbers), bytes(2 * all), bytes(4 * all)});
  }
  table.print();
}

int run(int argc, char** argv) {
  std::vector<std::string> words;
  Index length = 512;
  CLI::App app("Parts, shapes, parameters, operations and memory of a transformer.", "anatomy");
  app.set_version_flag("--version", example::version());
  app.add_option("model", words, "NAME of a published model, or family=NAME; then any key=value that differs")
      ->required();
  app.add_option("--length", length, "Tokens of the sequences")->check(CLI::Range(1, 1 << 24))->capture_default_str();
  app.footer(
      "Names: " + known_list(&Known::name) + "\nFamilies: " + known_list(&Known::family) +
      "\nKeys: width, layers, heads, kv_heads, head_width, hidden, vocabulary, max_positions, window; 0 or 1: bias, "
      "tied\n"
      "For example: anatomy llama3-8b\n"
      "             anatomy family=llama width=512 layers=8 heads=8 kv_heads=4 hidden=1376 vocabulary=8192 tied=0\n"
      "Sizes that are not given are those of the family's first model above.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Model model = parse(words);
  print_parts(model);
  print_shapes(model, length);
  print_costs(model, length);
  print_formats(model);
  print_attention_memory(model);
  print_cache(model);
  return 0;
}

}  // namespace
}  // namespace anatomy

int main(int argc, char** argv) {
  return example::guarded_main([&] { return anatomy::run(argc, argv); }, 2);
}
