// A body that was loaded and a head that nobody initialised: no gradient reaches anything, and the loss is ln 4 for
// ever.
#include <gtest/gtest.h>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/layer/embedding.hpp"
#include "eigenformer/model/heads.hpp"
#include "eigenformer/train/trainer.hpp"
#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

template <class Head>
struct Classifier {
  Embedding<float> embedding{{.vocabulary = 9, .width = 8}};
  Head head;

  explicit Classifier(Head with) : head(std::move(with)) { initialize(embedding, 1); }
  static void visit(auto&& f, auto&... m) {
    f("embedding", m.embedding...);
    f("head", m.head...);
  }
};

template <class Head>
StepReport first_step(const Classifier<Head>& model) {
  const auto ids = random_ids(Shape{3, 2}, 0, 9, 1), targets = random_ids(Shape{3, 2}, 0, 4, 2);
  Trainer trainer(model, {.learning_rate = ConstantRate{0.1}});
  trainer.accumulate([&](Context& ctx, const Classifier<Head>& m) {
    const ConstView<Id, 2> all = targets;
    const auto logits = m.head(ctx, m.embedding(ctx, ids));
    return op::cross_entropy(ctx, logits, logits.extent(1) == 1 ? all.slice(1, 0, 1) : all);
  });
  return trainer.step();
}

TEST(ForgottenParts, AreErrorsThatNameThem) {
  EXPECT_EQ(error_of([] { first_step(Classifier(ClassificationHead<float>(8, 4))); }),
            "[trainer] all weights of the part \"head\" are zero: initialize(model.head, seed), or load them");
}

TEST(ForgottenParts, OneWeightOfZerosIsABeginning) {
  const StepReport report = first_step(Classifier(Linear<float>({8, 4})));
  EXPECT_NEAR(report.loss, 1.3862944, 1e-6);  // ln 4
  EXPECT_GT(report.gradient_norm, 0);
}

}  // namespace
}  // namespace eigenformer::test
