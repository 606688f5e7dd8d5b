// ctest: comm timeout=120
// checkpointer: what was saved comes back into a plan; every fact that determines the bits is
// compared, and each difference refused by name; nothing goes on with damage, and none is loaded.
#include "train/checkpointer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "train/manifest_testing.h"

namespace shardproof {
namespace {

using testing::contains;
using testing::error_of;
using testing::facts_of;
using testing::run_world;

// Holds state like ZeRO-1 does: all parameters everywhere, the rest in contiguous shares. No maths.
class StatePlan : public Plan {
 public:
  StatePlan(Communicator& comm, std::vector<PieceSpec> pieces, std::vector<std::string> kinds,
            float first)
      : comm_(comm), table_(std::move(pieces)), kinds_(std::move(kinds)) {
    for (const std::string& kind : kinds_) {
      std::vector<float>& values = state_[kind];
      for (std::int64_t i = 0; i < table_.elements(); ++i) {
        values.push_back(first == 0 ? 0 : first + static_cast<float>(values.size()));
      }
      first *= 2;
    }
  }

  const PieceTable& table() const override { return table_; }
  std::vector<StateShard> shards(const std::string& what, bool replicated) override {
    std::vector<StateShard> out;
    if (std::find(kinds_.begin(), kinds_.end(), what) == kinds_.end()) return out;
    const ElementRange mine = replicated && what == "param"
                                  ? ElementRange{0, table_.elements()}
                                  : table_.share(comm_.size(), comm_.rank());
    for (std::size_t i = 0; i < table_.pieces().size(); ++i) {
      const ElementRange piece = table_.range(static_cast<int>(i));
      const std::int64_t lo = std::max(piece.lo, mine.lo);
      const std::int64_t hi = std::min(piece.hi, mine.hi);
      if (lo >= hi) continue;
      out.push_back(
          {what, static_cast<int>(i), {lo - piece.lo, hi - piece.lo}, state_.at(what).data() + lo});
    }
    return out;
  }
  void loaded() override { ++loads; }

  // This rank's share of every kind.
  std::vector<float> held() {
    std::vector<float> out;
    for (const std::string& kind : kinds_) {
      for (const StateShard& shard : shards(kind, false)) {
        const auto* data = static_cast<const float*>(shard.data);
        out.insert(out.end(), data, data + shard.range.size());
      }
    }
    return out;
  }
  int loads = 0;

  Seams& seams(int) override { return unused<Seams>(); }
  std::vector<int> micro_batches() const override { return {}; }
  std::int64_t sum_tokens(std::int64_t) override { return 0; }
  void begin_step(std::int64_t) override {}
  void end_micro_batch(int, int) override {}
  StepTotals reduce(const StepShare&) override { return {}; }
  void update(const AdamWConfig&, const AdamWStep&, const std::vector<std::string>&) override {}
  void gather_parameters() override {}
  PlanBytes bytes() const override { return {}; }
  std::uint64_t bytes_sent() const override { return 0; }

 private:
  template <typename T>
  T& unused() const {
    check_failed("a checkpointer runs no model", __FILE__, __LINE__, "");
  }

  Communicator& comm_;
  PieceTable table_;
  std::vector<std::string> kinds_;
  std::map<std::string, std::vector<float>> state_;
};

const std::vector<std::string> all_kinds = {"param", "exp_avg", "exp_avg_sq", "master"};

Config two_ranks() {
  Config config;
  config.run.layout = "dp2.zero1";
  return config;
}

void write(Storage& storage, const CheckpointFacts& facts, float first = 1, int ranks = 2) {
  run_world(ranks, [&](Communicator& comm) {
    StatePlan plan(comm, testing::small_pieces(), all_kinds, first);
    const std::string id = make_checkpointer(storage, comm)->save(plan, facts);
    EXPECT_EQ(id, step_id(facts.step));
  });
}

TEST(Checkpointer, WhatWasSavedComesBack) {
  const auto storage = memory_storage();
  write(*storage, facts_of(two_ranks()));
  EXPECT_TRUE(verify_checkpoint(*storage, "step-00000010").empty());
  run_world(2, [&](Communicator& comm) {
    StatePlan saved(comm, testing::small_pieces(), all_kinds, 1);
    StatePlan plan(comm, testing::small_pieces(), all_kinds, 0);
    const CheckpointFacts facts = make_checkpointer(*storage, comm)
                                      ->load(plan, "step-00000010", facts_of(two_ranks(), 0))
                                      .facts;
    EXPECT_EQ(facts.step, 10);
    EXPECT_EQ(facts.cursor, facts_of(two_ranks()).cursor);
    EXPECT_EQ(plan.held(), saved.held());
    EXPECT_EQ(plan.loads, 1);
  });
}

TEST(Checkpointer, AnEmptyIdIsTheNewest) {
  const auto storage = memory_storage();
  run_world(2, [&](Communicator& comm) {
    StatePlan plan(comm, testing::small_pieces(), all_kinds, 0);
    const Error error =
        error_of([&] { make_checkpointer(*storage, comm)->load(plan, "", facts_of(two_ranks())); });
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_TRUE(contains(error.what(), "no checkpoint")) << error.what();
  });
  write(*storage, facts_of(two_ranks(), 20), 3);
  write(*storage, facts_of(two_ranks(), 4), 4);
  run_world(2, [&](Communicator& comm) {
    StatePlan plan(comm, testing::small_pieces(), all_kinds, 0);
    EXPECT_EQ(make_checkpointer(*storage, comm)->load(plan, "", facts_of(two_ranks())).facts.step,
              20);
    EXPECT_EQ(plan.held(), StatePlan(comm, testing::small_pieces(), all_kinds, 3).held());
    const Error error = error_of(
        [&] { make_checkpointer(*storage, comm)->load(plan, "none", facts_of(two_ranks())); });
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  });
}

// The refusal on all ranks when `expected` meets the checkpoint of two_ranks(); nothing is loaded.
Error refusal(Storage& storage, const CheckpointFacts& expected, int ranks = 2) {
  std::optional<Error> first;
  run_world(ranks, [&](Communicator& comm) {
    StatePlan plan(comm, testing::small_pieces(), all_kinds, 0);
    const auto before = plan.held();
    const Error error =
        error_of([&] { make_checkpointer(storage, comm)->load(plan, "step-00000010", expected); });
    EXPECT_EQ(plan.held(), before);
    EXPECT_EQ(plan.loads, 0);
    if (comm.rank() == 0) first = error;
  });
  EXPECT_EQ(name(first->kind()), name(ErrorKind::refused)) << first->what();
  return *first;
}

TEST(Checkpointer, EachFactThatDeterminesTheBitsIsComparedAndNamed) {
  const auto storage = memory_storage();
  write(*storage, facts_of(two_ranks()));
  const auto expect_named = [&](const std::string& words,
                                const std::function<void(CheckpointFacts&)>& edit) {
    CheckpointFacts facts = facts_of(two_ranks());
    edit(facts);
    const Error error = refusal(*storage, facts);
    EXPECT_TRUE(contains(error.what(), words)) << error.what() << "\nexpected " << words;
  };
  expect_named("data digest: expected d2, found d1",
               [](CheckpointFacts& facts) { facts.data_digest = "d2"; });
  expect_named("tokenizer digest: expected t2, found t1",
               [](CheckpointFacts& facts) { facts.tokenizer_digest = "t2"; });
  expect_named("seeds: expected {\"training\":2}, found {\"training\":1}",
               [](CheckpointFacts& facts) {
                 facts.seeds = Json{{"training", 2}};
               });
  expect_named("template digest: expected chat, found none",
               [](CheckpointFacts& facts) { facts.template_digest = "chat"; });
  expect_named("packing: expected documents, found none",
               [](CheckpointFacts& facts) { facts.packing = "documents"; });
  expect_named("parameter groups: expected {}, found {\"decay\":{",
               [](CheckpointFacts& facts) { facts.parameter_groups = Json::object(); });
  expect_named("kernel fingerprint: expected avx2, found avx512",
               [](CheckpointFacts& facts) { facts.kernel_fingerprint = "avx2"; });
  expect_named("kernel fingerprint: expected nothing, found avx512",
               [](CheckpointFacts& facts) { facts.kernel_fingerprint = ""; });
}

TEST(Checkpointer, EveryCaseKeyThatDeterminesTheBitsIsComparedAndNamed) {
  const auto storage = memory_storage();
  write(*storage, facts_of(two_ranks()));
  for (const std::string assignment :
       {"model.layers=3", "model.width=64", "model.dropout=0.5", "model.label_smoothing=0.1",
        "model.tied=true", "data.ignored=0.25", "data.samples=512", "training.clip=0.5",
        "training.seed=2", "training.global_batch=32", "optimizer.lr=0.02",
        "optimizer.no_decay=[\"*\"]", "optimizer.warmup=3", "numerics.tensor_pieces=1",
        "numerics.portable=true"}) {
    Config config = two_ranks();
    set_key(config, assignment);
    const Error error = refusal(*storage, facts_of(config));
    const std::string key = assignment.substr(0, assignment.find('='));
    EXPECT_TRUE(contains(error.what(), key + ": expected ")) << error.what();
  }
  // Two at once are both named.
  Config config = two_ranks();
  config.training.clip = 0.5;
  config.model.layers = 3;
  const Error error = refusal(*storage, facts_of(config));
  EXPECT_TRUE(contains(error.what(), "model.layers: expected 3, found 2")) << error.what();
  EXPECT_TRUE(contains(error.what(), "training.clip: expected 0.5, found 1.0")) << error.what();
}

TEST(Checkpointer, AManifestThatContradictsItselfIsRefused) {
  const auto storage = memory_storage();
  CheckpointFacts facts = facts_of(two_ranks());
  facts.run_line = "run.layout=dp4";
  write(*storage, facts);
  const Error error = refusal(*storage, facts_of(two_ranks()));
  EXPECT_TRUE(contains(error.what(),
                       "facts.run_line: run.layout against facts.config.run.layout: expected "
                       "\"dp2.zero1\", found \"dp4\""))
      << error.what();
}

TEST(Checkpointer, HowFarWhereAndHowARunGoesMayDiffer) {
  const auto storage = memory_storage();
  write(*storage, facts_of(two_ranks()));
  Config config = two_ranks();
  config.training.steps = 100;
  config.data.workers = 4;
  config.run.backend = "mpi";
  config.run.deadline = 5;
  config.checkpoint.every = 7;
  run_world(2, [&](Communicator& comm) {
    StatePlan plan(comm, testing::small_pieces(), all_kinds, 0);
    CheckpointFacts facts = facts_of(config);
    facts.versions["shardproof"] = "9.9";
    EXPECT_EQ(make_checkpointer(*storage, comm)->load(plan, "step-00000010", facts).facts.step, 10);
  });
}

TEST(Checkpointer, AnyNumberOfRanksReadsWhatAnyOtherWrote) {
  for (const int writers : {1, 2, 3, 4, 6, 8}) {
    const auto storage = memory_storage();
    Config config = two_ranks();
    config.training.micro_batch = 2;  // eight of them
    config.run.layout = fmt::format("dp{}.zero1", writers);
    write(*storage, facts_of(config), 3, writers);
    for (const int readers : {1, 2, 3, 4, 6, 8}) {
      config.run.layout = fmt::format("dp{}.zero1", readers);
      run_world(readers, [&](Communicator& comm) {
        StatePlan plan(comm, testing::small_pieces(), all_kinds, 0);
        make_checkpointer(*storage, comm)->load(plan, "step-00000010", facts_of(config));
        EXPECT_EQ(plan.held(), StatePlan(comm, testing::small_pieces(), all_kinds, 3).held());
      });
    }
  }
}

TEST(Checkpointer, UnderNativeReductionAnotherLayoutIsRefused) {
  const auto storage = memory_storage();
  Config config = two_ranks();
  config.numerics.reduction = "native";
  write(*storage, facts_of(config));
  config.run.layout = "dp3.zero1";
  const Error error = refusal(*storage, facts_of(config), 3);
  EXPECT_TRUE(contains(error.what(),
                       "layout: expected dp3.zero1, found dp2.zero1 (native reduction adds in an "
                       "order of the layout's own)"))
      << error.what();
}

TEST(Checkpointer, PiecesThatThePlanDoesNotHoldOrLacksAreRefused) {
  const auto storage = memory_storage();
  write(*storage, facts_of(two_ranks()));
  const auto refused = [&](std::vector<PieceSpec> pieces, const std::vector<std::string>& kinds) {
    std::string words;
    run_world(2, [&](Communicator& comm) {
      StatePlan plan(comm, pieces, kinds, 0);
      const Error error = error_of([&] {
        make_checkpointer(*storage, comm)->load(plan, "step-00000010", facts_of(two_ranks()));
      });
      EXPECT_EQ(name(error.kind()), name(ErrorKind::refused)) << error.what();
      EXPECT_EQ(plan.loads, 0);
      if (comm.rank() == 0) words = error.what();
    });
    return words;
  };
  auto pieces = testing::small_pieces();
  EXPECT_TRUE(contains(refused(pieces, {"param", "exp_avg", "exp_avg_sq"}), "/master"));
  auto more = pieces;
  more.push_back(cut("z", {4}, -1, 1)[0]);
  EXPECT_TRUE(contains(refused(more, all_kinds), "z/"));
  auto fewer = pieces;
  fewer.erase(fewer.begin() + 2);
  EXPECT_TRUE(contains(refused(fewer, all_kinds), "b.bias"));
  auto other = pieces;
  other[2] = cut("b.bias", {6}, -1, 1)[0];
  EXPECT_TRUE(contains(refused(other, all_kinds), "[6]"));
}

// A byte of the head, of a block in the middle and of the last one; one byte more, one fewer.
std::vector<std::vector<std::byte>> damaged(const std::vector<std::byte>& whole) {
  std::vector<std::vector<std::byte>> out(5, whole);
  out[0][20] ^= std::byte{1};
  out[1][whole.size() / 2] ^= std::byte{1};
  out[2].back() ^= std::byte{1};
  out[3].push_back({});
  out[4].pop_back();
  return out;
}

TEST(Checkpointer, DamageIsAnErrorOnAllRanksAndNoneOfItIsLoaded) {
  const auto storage = memory_storage();
  write(*storage, facts_of(two_ranks()));
  const Manifest manifest = read_manifest(*storage, "step-00000010");
  ASSERT_EQ(manifest.files.size(), 2u);
  for (const ShardFileRef& file : manifest.files) {
    const auto whole = testing::read_file(*storage, file.file);
    for (const auto& bytes : damaged(whole)) {
      testing::replace_file(*storage, file.file, bytes);
      run_world(2, [&](Communicator& comm) {
        StatePlan saved(comm, testing::small_pieces(), all_kinds, 1);
        StatePlan plan(comm, testing::small_pieces(), all_kinds, 0);
        const auto before = plan.held();
        const Error error = error_of(
            [&] { make_checkpointer(*storage, comm)->load(plan, "", facts_of(two_ranks())); });
        EXPECT_EQ(error.kind(), ErrorKind::corrupt);
        EXPECT_TRUE(contains(error.what(), file.file)) << error.what();
        EXPECT_EQ(plan.loads, 0);
        const auto after = plan.held(), good = saved.held();
        for (std::size_t i = 0; i < after.size(); ++i) {
          EXPECT_TRUE(after[i] == before[i] || after[i] == good[i]) << "element " << i;
        }
      });
    }
    testing::replace_file(*storage, file.file, whole);
  }
}

TEST(Checkpointer, AFailedSaveIsAnErrorOnAllRanks) {
  const std::shared_ptr<Storage> shared = memory_storage();
  std::atomic<int> threw{0};
  run_world(2, [&](Communicator& comm) {
    testing::FailingStorage storage(shared, comm.rank() == 1 ? 1 : -1,
                                    testing::FailingStorage::When::torn, false);
    StatePlan plan(comm, testing::small_pieces(), all_kinds, 1);
    try {
      make_checkpointer(storage, comm)->save(plan, facts_of(two_ranks()));
    } catch (const Error& error) {
      ++threw;
      EXPECT_EQ(error.world_rank(), 1);
    }
  });
  EXPECT_EQ(threw, 2);
  EXPECT_TRUE(list_checkpoints(*shared).empty());
}

}  // namespace
}  // namespace shardproof
