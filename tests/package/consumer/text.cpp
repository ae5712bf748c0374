// Any tokenizer, with every library that it needs.
#include <cstdio>
#include <eigenformer/text/load_tokenizer.hpp>
#include <eigenformer/version.hpp>

int main() {
  try {
    eigenformer::load_tokenizer("nowhere.json");
  } catch (const eigenformer::Error&) {
    std::printf("%d.%d.%d\n", eigenformer::version_major, eigenformer::version_minor, eigenformer::version_patch);
  }
}
