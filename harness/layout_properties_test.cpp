// ctest: invariant timeout=120 processors=2
// Properties of random Cases on random layouts, on thread ranks and in memory: the bits of one
// rank; contents of positions that no loss sees change nothing; how micro-batches are split over
// ranks changes nothing. A counter-example is shrunk and printed as a line for `shardproof replay`.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/philox.h"
#include "harness/accept.h"
#include "harness/layout_list.h"
#include "harness/layout_run.h"
#include "invariants/trace_checks.h"
#include "train/sections.h"

namespace shardproof {
namespace {

constexpr int steps = 2;
constexpr int most_ranks = 6;

template <typename T>
T one_of(const std::vector<T>& choices) {
  return choices[static_cast<std::size_t>(
      *rc::gen::inRange<int>(0, static_cast<int>(choices.size())))];
}

// Every draw shrinks towards the smallest Case.
Config draw_case() {
  Config config;
  config.training.steps = steps;
  config.model.layers = *rc::gen::inRange(1, 5);
  config.model.heads = one_of<int>({1, 2, 3, 4, 6});
  config.model.width = config.model.heads * *rc::gen::inRange(1, 5);
  std::vector<int> pieces;
  for (int v = 1; v <= config.model.heads; ++v) {
    if (config.model.heads % v == 0) pieces.push_back(v);
  }
  config.numerics.tensor_pieces = one_of(pieces);
  config.numerics.sequence_pieces = *rc::gen::inRange(1, 6);
  config.model.sequence = config.numerics.sequence_pieces * *rc::gen::inRange(1, 4);
  config.model.vocabulary = config.numerics.tensor_pieces + *rc::gen::inRange(1, 20);
  config.model.dropout = one_of<double>({0, 0.1});
  config.model.label_smoothing = one_of<double>({0, 0.1});
  config.model.tied = *rc::gen::arbitrary<bool>();
  config.data.samples = 64;
  config.data.ignored = one_of<double>({0, 0.3});
  config.training.micro_batch = *rc::gen::inRange(1, 4);
  config.training.global_batch = config.training.micro_batch * *rc::gen::inRange(1, 8);
  config.training.clip = one_of<double>({0, 0.3});
  config.training.seed = *rc::gen::inRange(1, 1000);
  const int data = *rc::gen::inRange(0, 4);
  if (data == 2) {  // a mixture, of which one source is worn out in a step or two
    config.data.samples = DataSection().samples;
    config.data.sources = {{"a", 1.0 * *rc::gen::inRange(1, 9), "synthetic", "", 40},
                           {"b", 3.0, "synthetic", "", *rc::gen::inRange(1, 9)}};
  }
  if (data == 3) {  // documents packed into rows
    config.data.kind = "text";
    config.data.path = default_text();
    config.data.packed = true;
    config.model.vocabulary = 256;
  }
  return config;
}

void draw_layout(Config& config, const std::function<bool(const Layout&)>& wanted) {
  std::vector<std::string> legal;
  for (const Layout& layout : legal_layouts(shape_of(config), config.micro_batches(), most_ranks)) {
    if (wanted(layout)) legal.push_back(layout.print());
  }
  RC_PRE(!legal.empty());
  config.run.layout = one_of(legal);
  config.parallel.unit_layers = *rc::gen::inRange(1, 3);
  config.parallel.prefetch_forward = *rc::gen::inRange(0, 3);
  config.parallel.prefetch_backward = *rc::gen::inRange(0, 3);
  config.parallel.reshard_after_forward = *rc::gen::arbitrary<bool>();
  const std::vector<std::string> places{"none", "none", "host", "file"};
  config.parallel.offload_optimizer = one_of(places);
  config.parallel.offload_window = 12288 * *rc::gen::inRange(1, 3);
  if (parse_layout(config.run.layout).zero == 3)
    config.parallel.offload_parameters = one_of(places);
}

Trace one_rank(Config config) {
  config.run.layout = "dp1";
  config.parallel = {};
  try {
    return traced_in_memory(config);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::numeric) throw;
    RC_DISCARD("no valid token in a whole step");
    return {};
  }
}

void expect_equal(const Config& config, const Trace& reference, const Trace& trace) {
  const Verdict verdict = judge_layout(reference, trace, steps);
  // One position a step with the same target again and again: the loss need not move.
  if (verdict.check == "live" && verdict.outcome != Outcome::pass) {
    if (check_layout(reference, trace).outcome == Outcome::pass) return;
  }
  if (verdict.outcome == Outcome::pass) return;
  RC_FAIL(verdict.check + ": " + verdict.reason +
          (verdict.difference ? ", " + verdict.difference->print() : "") + "\n" +
          replay_line(config));
}

TEST(LayoutProperties, AnyLayoutHasTheBitsOfOneRank) {
  EXPECT_TRUE(rc::check("any legal layout of any Case", [] {
    Config config = draw_case();
    draw_layout(config, [](const Layout& layout) { return layout.world() > 1; });
    const Trace alone = one_rank(config);
    expect_equal(config, alone, traced_in_memory(config));
  }));
}

TEST(LayoutProperties, ASplitOfMicroBatchesOverRanksChangesNothing) {
  EXPECT_TRUE(rc::check("data ranks, ZeRO stages and shard groups", [] {
    Config config = draw_case();
    draw_layout(config,
                [](const Layout& layout) { return layout.dp > 1 && layout.world() == layout.dp; });
    const Trace alone = one_rank(config);
    expect_equal(config, alone, traced_in_memory(config));
  }));
}

// Positions behind the last target of a row that counts: no loss sees them.
class OtherPadding : public Dataset {
 public:
  OtherPadding(std::shared_ptr<const Dataset> from, std::uint64_t seed)
      : from_(std::move(from)), seed_(seed) {}
  std::int64_t size() const override { return from_->size(); }
  int vocabulary() const override { return from_->vocabulary(); }
  bool packed() const override { return from_->packed(); }
  Digest digest() const override { return from_->digest(); }
  std::string tokenizer() const override { return from_->tokenizer(); }
  const std::vector<Source>& sources() const override { return from_->sources(); }

  void sample(std::int64_t id, const SampleView& out) const override {
    from_->sample(id, out);
    const Random random(seed_, Purpose::test, static_cast<std::uint32_t>(id));
    for (std::size_t i = out.targets.size(); i-- > 0;) {
      if (out.targets[i] != MicroBatch::ignored) return;
      out.tokens[i] = static_cast<std::int32_t>(
          random.below(static_cast<std::uint64_t>(vocabulary()), static_cast<std::uint64_t>(i)));
      ++changed;
    }
  }

  static inline std::atomic<std::int64_t> changed = 0;

 private:
  const std::shared_ptr<const Dataset> from_;
  const std::uint64_t seed_;
};

TEST(LayoutProperties, ContentsOfPaddedPositionsChangeNothing) {
  EXPECT_TRUE(rc::check("other tokens where no target counts", [] {
    Config config = draw_case();
    // Enough targets that no gradient is a sum of zeros alone: its sign would be the contents'.
    config.data.ignored = 0.3;
    config.model.sequence = std::max(config.model.sequence, 3 * config.numerics.sequence_pieces);
    config.training.global_batch += 4 * config.training.micro_batch;
    draw_layout(config, [](const Layout&) { return true; });
    const Trace plain = one_rank(config);
    const auto dataset =
        open_dataset(dataset_of(config), config.model.sequence, config.model.vocabulary,
                     static_cast<std::uint64_t>(config.training.seed));
    const auto other = std::make_shared<OtherPadding>(dataset, *rc::gen::inRange(1, 1000));
    expect_equal(config, plain, traced_in_memory(config, other));
  }));
  EXPECT_GT(OtherPadding::changed.load(), 1000);
}

// The counterproof: contents that a loss does see change the bits.
TEST(LayoutProperties, ContentsThatCountAreSeen) {
  class OtherTokens : public OtherPadding {
   public:
    using OtherPadding::OtherPadding;
    void sample(std::int64_t id, const SampleView& out) const override {
      OtherPadding::sample(id, out);
      out.tokens[0] = (out.tokens[0] + 1) % vocabulary();
    }
  };
  Config config = case_config(CaseKind::shallow);
  config.training.steps = steps;
  const auto dataset =
      open_dataset(dataset_of(config), config.model.sequence, config.model.vocabulary, 1);
  const Verdict verdict =
      check_layout(traced_in_memory(config),
                   traced_in_memory(config, std::make_shared<OtherTokens>(dataset, 1)));
  EXPECT_EQ(verdict.outcome, Outcome::fail);
}

}  // namespace
}  // namespace shardproof
