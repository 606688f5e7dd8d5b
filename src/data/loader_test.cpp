// ctest: unit
#include "data/loader.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <set>

#include "base/expect_error.h"
#include "base/piece.h"
#include "data/loader_testing.h"

namespace shardproof {
namespace {

// Contiguous, balanced shares, as data ranks have them.
std::vector<int> share_of(int micro_batches, int ranks, int rank) {
  const auto begin = share_bound(micro_batches, ranks, rank);
  std::vector<int> mine(
      static_cast<std::size_t>(share_bound(micro_batches, ranks, rank + 1) - begin));
  std::iota(mine.begin(), mine.end(), static_cast<int>(begin));
  return mine;
}

// The ids of a step over the data ranks of a world, each with a loader of its own.
class World {
 public:
  World(std::int64_t size, const LoaderConfig& config, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      loaders_.push_back(std::make_unique<Loader>(std::make_shared<Numbered>(size), config,
                                                  share_of(config.micro_batches, ranks, rank)));
    }
  }
  Ids next() {
    Ids ids;
    for (const auto& loader : loaders_) {
      const Ids mine = ids_of(loader->next());
      ids.insert(ids.end(), mine.begin(), mine.end());
    }
    return ids;
  }
  DataCursor cursor() const {
    for (const auto& loader : loaders_) EXPECT_EQ(loader->cursor(), loaders_[0]->cursor());
    return loaders_[0]->cursor();
  }

 private:
  std::vector<std::unique_ptr<Loader>> loaders_;
};

TEST(Loader, EveryEpochIsCoveredOnceWhateverTheDataRanks) {
  const LoaderConfig config = config_of(12, 2, LastBatch::drop);
  const std::int64_t size = 4 * 24;
  World one(size, config, 1);
  std::vector<Ids> steps;
  for (int step = 0; step < 8; ++step) steps.push_back(one.next());
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::set<std::int64_t> seen;
    for (int step = 0; step < 4; ++step) {
      for (const auto id : steps[static_cast<std::size_t>(4 * epoch + step)]) {
        EXPECT_TRUE(seen.insert(id).second) << "sample " << id << " twice";
        EXPECT_TRUE(id >= 0 && id < size);
      }
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(size));
  }
  for (const int ranks : {2, 3, 4, 6, 13}) {
    SCOPED_TRACE(ranks);
    World world(size, config, ranks);
    for (const Ids& step : steps) EXPECT_EQ(world.next(), step);
    EXPECT_EQ(world.cursor(), one.cursor());
  }
}

TEST(Loader, BatchesHoldTheRowsOfTheirSamples) {
  Loader loader(std::make_shared<Numbered>(40), config_of(5, 2, LastBatch::drop), {1, 4});
  const auto batches = loader.next();
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].index, 1);
  EXPECT_EQ(batches[1].index, 4);
  const auto order = epoch_order(40, 3, 0);
  EXPECT_EQ(batches[0].sample_ids, (Ids{order[2], order[3]}));
  EXPECT_EQ(batches[1].sample_ids, (Ids{order[8], order[9]}));
  const auto token = static_cast<std::int32_t>(order[3] * 100);
  EXPECT_EQ(std::vector<std::int32_t>(batches[0].tokens.begin() + 4, batches[0].tokens.end()),
            (std::vector<std::int32_t>{token, token + 1, token + 2, token + 3}));
  EXPECT_EQ(batches[0].targets[4], token + 1);
  EXPECT_EQ(batches[0].positions, (std::vector<std::int32_t>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_TRUE(batches[0].documents.empty());
}

// 4 ranks x 8 rows x 2 accumulation = 64 samples a step, of 150.
TEST(Loader, ShortFillsTheLastBatchOfAnEpoch) {
  World world(150, config_of(8, 8, LastBatch::fill), 4);
  std::set<std::int64_t> seen;
  for (int step = 0; step < 3; ++step) {
    const Ids ids = world.next();
    ASSERT_EQ(ids.size(), 64u);
    const auto real = static_cast<std::size_t>(step < 2 ? 64 : 22);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i < real) {
        EXPECT_TRUE(seen.insert(ids[i]).second);
      } else {
        EXPECT_EQ(ids[i], -1);
      }
    }
  }
  EXPECT_EQ(seen.size(), 150u);
  EXPECT_EQ(world.cursor().samples, 150);
  EXPECT_EQ(world.cursor().taken, 150);
  const auto order = epoch_order(150, 3, 1);
  EXPECT_EQ(world.next(), Ids(order.begin(), order.begin() + 64));
  EXPECT_EQ(world.cursor().epoch, 1);
  EXPECT_EQ(world.cursor().samples, 214);
}

TEST(Loader, DropLeavesTheLastSamplesOut) {
  World world(150, config_of(8, 8, LastBatch::drop), 4);
  world.next();
  world.next();
  EXPECT_EQ(world.cursor().taken, 128);
  const auto order = epoch_order(150, 3, 1);
  EXPECT_EQ(world.next(), Ids(order.begin(), order.begin() + 64));
  EXPECT_EQ(world.cursor().epoch, 1);
  EXPECT_EQ(world.cursor().samples, 192);
}

TEST(Loader, FilledRowsHaveNoTargets) {
  Loader loader(std::make_shared<Numbered>(3, true), config_of(2, 2, LastBatch::fill), {1});
  const auto batches = loader.next();
  ASSERT_EQ(batches[0].sample_ids[1], -1);
  EXPECT_EQ(batches[0].valid_tokens(), 4);
  EXPECT_EQ(batches[0].tokens[4], 0);
  EXPECT_EQ(
      std::count(batches[0].targets.begin() + 4, batches[0].targets.end(), MicroBatch::ignored), 4);
  EXPECT_EQ(batches[0].positions, (std::vector<std::int32_t>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(batches[0].documents, (std::vector<std::int32_t>{1, 1, 1, 1, 0, 0, 0, 0}));
}

TEST(Loader, TheLedgerIsTheChainOfTheWorldsIds) {
  const LoaderConfig config = config_of(4, 4, LastBatch::fill);
  World world(20, config, 3);
  Digest ledger;
  for (int step = 0; step < 5; ++step) {
    Sha256 hash;
    hash.update(ledger.bytes.data(), ledger.bytes.size());
    const Ids ids = world.next();
    hash.update(ids.data(), ids.size() * sizeof(std::int64_t));  // on a little-endian machine
    ledger = hash.finish();
    EXPECT_EQ(world.cursor().ledger, ledger);
  }
}

TEST(Loader, ARankWithoutMicroBatchesWalksAlong) {
  const LoaderConfig config = config_of(2, 4, LastBatch::drop);
  Loader idle(std::make_shared<Numbered>(40), config, {});
  Loader busy(std::make_shared<Numbered>(40), config, {0, 1});
  EXPECT_TRUE(idle.next().empty());
  EXPECT_EQ(busy.next().size(), 2u);
  EXPECT_EQ(idle.cursor(), busy.cursor());
}

RC_GTEST_PROP(Loader, WorkersChangeNothing, ()) {
  const auto last = *rc::gen::element(LastBatch::drop, LastBatch::fill);
  const auto size = *rc::gen::inRange<std::int64_t>(12, 60);
  const int steps = *rc::gen::inRange(1, 20);
  Loader plain(std::make_shared<Numbered>(size), config_of(3, 4, last, 0), {0, 2});
  Loader one(std::make_shared<Numbered>(size), config_of(3, 4, last, 1), {0, 2});
  Loader four(std::make_shared<Numbered>(size), config_of(3, 4, last, 4), {0, 2});
  for (int step = 0; step < steps; ++step) {
    const auto batches = plain.next();
    RC_ASSERT(same(batches, one.next()));
    RC_ASSERT(same(batches, four.next()));
    RC_ASSERT(plain.cursor() == one.cursor());
    RC_ASSERT(plain.cursor() == four.cursor());
  }
}

TEST(Loader, AnErrorOfASampleIsThrownAtItsStep) {
  for (const int workers : {0, 1, 4}) {
    SCOPED_TRACE(workers);
    const auto data = std::make_shared<Numbered>(64);
    data->broken = epoch_order(64, 3, 0)[40];  // of the third step
    Loader loader(data, config_of(4, 4, LastBatch::drop, workers), all_of(4));
    loader.next();
    loader.next();
    const DataCursor before = loader.cursor();
    for (int attempt = 0; attempt < 2; ++attempt) {  // it does not go away
      expect_error(ErrorKind::io, {std::to_string(data->broken)}, [&] { loader.next(); });
    }
    EXPECT_EQ(loader.cursor(), before);
    loader.seek(DataCursor{});
    EXPECT_EQ(ids_of(loader.next()).size(), 16u);
  }
}

TEST(Loader, AWorkerThatTakesTooLongIsATimeout) {
  std::promise<void> release;
  const auto data = std::make_shared<Numbered>(64);
  data->slow = epoch_order(64, 3, 0)[0];
  data->released = release.get_future().share();
  LoaderConfig config = config_of(4, 4, LastBatch::drop, 1);
  config.timeout = std::chrono::milliseconds(20);
  Loader loader(data, config, all_of(4));
  expect_error(ErrorKind::timeout, {"prefetch worker", "epoch 0", "0.02 s"},
               [&] { loader.next(); });
  release.set_value();
}

TEST(Loader, RefusesAnEpochShorterThanABatch) {
  expect_error(
      ErrorKind::bad_input, {"an epoch holds 15 samples", "takes 16", "data.last short"},
      [] { Loader(std::make_shared<Numbered>(15), config_of(4, 4, LastBatch::drop), {0}); });
  EXPECT_NO_THROW(
      Loader(std::make_shared<Numbered>(15), config_of(4, 4, LastBatch::fill), {0}).next());
}

TEST(LoaderDeath, MicroBatchesOutsideOrOutOfOrderAreBugs) {
  const LoaderConfig config = config_of(4, 4, LastBatch::drop);
  const auto data = std::make_shared<Numbered>(40);
  EXPECT_DEATH(Loader(data, config, {4}), "micro-batch 4 at 0");
  EXPECT_DEATH(Loader(data, config, {1, 1}), "micro-batch 1 at 1");
  EXPECT_DEATH(Loader(data, config_of(0, 4, LastBatch::drop), {}), "0 micro-batches");
}

}  // namespace
}  // namespace shardproof
