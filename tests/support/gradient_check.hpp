// The derivative against differences, for any part with weights.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {

/// Two estimates of dL/dw for one weight or input w: (f(−2h) − 8 f(−h) + 8 f(h) − f(2h)) / 12h for two steps h. For
/// values around 1 the longer step is right to some 1e-12; across a kink of ReLU it is wrong, and the shorter one right
/// to 1e-11.
inline std::array<double, 2> five_point_slopes(double& w, const std::function<double()>& f) {
  const double centre = w;
  const auto slope = [&](double step) {
    const auto at = [&](double steps) { return w = centre + steps * step, f(); };
    return (at(-2) - 8 * at(-1) + 8 * at(1) - at(2)) / (12 * step);
  };
  const std::array<double, 2> slopes{slope(2e-4), slope(2e-5)};
  w = centre;
  return slopes;
}

/// Relative error ≤ 1e-6 for every element, where elements below a thousandth of their tensor's largest count as that.
inline void expect_slope(const auto& gradient, auto& values, const std::function<double()>& f,
                         const std::string& name) {
  const double floor = 1e-3 * magnitude(gradient);
  for (Index i = 0; i < values.size(); ++i) {
    const auto expected = five_point_slopes(values.data()[i], f);
    const double actual = gradient.data()[i];
    const auto agrees = [&](double slope) {
      return std::abs(actual - slope) <= 1e-6 * (std::max)(std::abs(slope), floor);
    };
    ASSERT_TRUE(agrees(expected[0]) || agrees(expected[1]))
        << name << '[' << i << "] = " << actual << ", not " << expected[0] << " or " << expected[1];
  }
}

using Inputs = std::vector<ConstView<double, 3>>;

/// Checks dL/dw of all weights and inputs of f(ctx, model, inputs) → y, for L = Σ y∘seed with a random seed. Weights
/// whose path ends in one of `constant` have no influence and must have a gradient of zero, all others a different one.
template <class Model, class F>
void check_gradients(Model model, std::vector<Tensor<double, 3>> values, F f,
                     const std::vector<std::string>& constant) {
  Inputs inputs;
  for (const auto& value : values) inputs.push_back(value);

  const auto run = [&](Tape* tape, const auto& use) {
    Context ctx;
    Random random{.seed = 5};  // the same dropout every time
    ctx.random = &random;
    ctx.tape = tape;
    const auto y = f(ctx, std::as_const(model), std::as_const(inputs));
    const auto seed = random_tensor<double>(y.shape(), 4);
    return use(ctx, y, seed);
  };
  const auto loss = [&] {
    return run(nullptr, [](Context&, const auto& y, const auto& seed) {
      double sum = 0;
      for (Index i = 0; i < y.size(); ++i) sum += y.data()[i] * seed.data()[i];
      return sum;
    });
  };

  Model gradient = zeros_like(model);
  std::vector<Tensor<double, 3>> input_gradients;
  for (const auto& value : values) input_gradients.emplace_back(value.shape());
  Tape tape;
  tape.watch(model, gradient);
  for (std::size_t i = 0; i < inputs.size(); ++i) tape.watch(inputs[i], input_gradients[i].view());
  run(&tape, [](Context& ctx, const auto& y, const auto& seed) { backward(ctx, y, seed); });

  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_GT(magnitude(input_gradients[i]), 0) << "input " << i;
    expect_slope(input_gradients[i], values[i], loss, "input " + std::to_string(i));
  }
  walk(
      [&](const std::string& path, const Leaf&, auto& weight, const auto& slope) {
        if (std::any_of(constant.begin(), constant.end(),
                        [&](const std::string& name) { return path.ends_with(name); })) {
          EXPECT_LE(magnitude(slope), 1e-13) << path;
          for (Index i = 0; i < weight.size(); ++i)
            EXPECT_NEAR(five_point_slopes(weight.data()[i], loss)[0], 0, 1e-10) << path;
        } else {
          EXPECT_GT(magnitude(slope), 1e-9) << path;
          expect_slope(slope, weight, loss, path);
        }
      },
      model, gradient);
}

/// A part to check; see gradient_of.
struct GradientCase {
  std::string name;
  std::function<void()> check;

  friend void PrintTo(const GradientCase& part, std::ostream* out) { *out << part.name; }
};

/// A Model made from `config` with random weights, on random inputs of these shapes.
template <class Model, class Config, class F>
GradientCase gradient_of(std::string name, Config config, std::vector<Shape<3>> shapes, F f,
                         std::vector<std::string> constant = {}) {
  return {std::move(name), [=] {
            Model model(config);
            randomize(model, 1);
            std::vector<Tensor<double, 3>> values;
            for (const auto& shape : shapes) values.push_back(random_tensor<double>(shape, 2 + values.size()));
            check_gradients(std::move(model), std::move(values), f, constant);
          }};
}

/// For INSTANTIATE_TEST_SUITE_P.
inline std::string gradient_case_name(const testing::TestParamInfo<GradientCase>& info) { return info.param.name; }

}  // namespace eigenformer::test
