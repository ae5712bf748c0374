// Parameter counts of published configs, from models without memory.
#include <gtest/gtest.h>

#include "eigenformer/model/bert.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/paper.hpp"
#include "eigenformer/model/t5.hpp"

namespace eigenformer::test {

TEST(Families, ParameterCountsWithoutMemory) {
  EXPECT_EQ(parameter_count(Bert<NoValue>(bert_base())), 109'482'240);
  EXPECT_EQ(parameter_count(Roberta<NoValue>(roberta_base())), 124'645'632);
  EXPECT_EQ(parameter_count(Gpt2<NoValue>(gpt2_small())), 124'439'808);
  EXPECT_EQ(parameter_count(Llama<NoValue>(llama2_7b())), 6'738'415'616);
  EXPECT_EQ(parameter_count(Llama<NoValue>(llama3_8b())), 8'030'261'248);
  EXPECT_EQ(parameter_count(Mistral<NoValue>(mistral_7b())), 7'241'732'096);
  EXPECT_EQ(parameter_count(Qwen2<NoValue>(qwen2_small())), 494'032'768);
  EXPECT_EQ(parameter_count(Qwen3<NoValue>(qwen3_small())), 596'049'920);
  EXPECT_EQ(parameter_count(Gemma2<NoValue>(gemma2_2b())), 2'614'341'888);
  EXPECT_EQ(parameter_count(Phi2<NoValue>(phi2())), 2'779'683'840);
  EXPECT_EQ(parameter_count(T5<NoValue>(t5_base())), 222'903'552);
  EXPECT_EQ(parameter_count(T5<NoValue>(t5_small())), 60'506'624);
  EXPECT_EQ(parameter_count(T5v11<NoValue>(t5v11_base())), 247'577'856);
  EXPECT_EQ(parameter_count(Bart<NoValue>(bart_base())), 139'420'416);
  EXPECT_EQ(parameter_count(Bloom<NoValue>(bloom_560m())), 559'214'592);
}

}  // namespace eigenformer::test
