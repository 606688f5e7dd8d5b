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
#include "data/data_testing.h"
#include "mesh/layout.h"

namespace shardproof {
namespace {

using Ids = std::vector<std::int64_t>;

// Tokens tell the sample and the position; sample `broken` throws, sample `slow` waits.
class Numbered : public Dataset {
 public:
  explicit Numbered(std::int64_t size, bool packed = false) : size_(size), packed_(packed) {}
  std::int64_t size() const override { return size_; }
  int vocabulary() const override { return 1 << 20; }
  bool packed() const override { return packed_; }
  Digest digest() const override { return sha256("numbered"); }
  std::string tokenizer() const override { return "numbered"; }
  void sample(std::int64_t id, const SampleView& out) const override {
    if (id == broken) throw Error(ErrorKind::io, "sample", std::to_string(id));
    if (id == slow) released.wait();
    for (std::size_t i = 0; i < out.tokens.size(); ++i) {
      out.tokens[i] = static_cast<std::int32_t>(id * 100 + static_cast<std::int64_t>(i));
      out.targets[i] = out.tokens[i] + 1;
      out.positions[i] = static_cast<std::int32_t>(i);
      if (packed_) out.documents[i] = 1;
    }
  }

  std::int64_t broken = -1;
  std::int64_t slow = -1;
  std::shared_future<void> released;

 private:
  std::int64_t size_;
  bool packed_;
};

LoaderConfig config_of(int micro_batches, int rows, LastBatch last, int workers = 0) {
  LoaderConfig config;
  config.micro_batches = micro_batches;
  config.rows = rows;
  config.length = 4;
  config.seed = 3;
  config.last = last;
  config.workers = workers;
  return config;
}

std::vector<int> all_of(int micro_batches) {
  std::vector<int> all(static_cast<std::size_t>(micro_batches));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Ids ids_of(const std::vector<MicroBatch>& batches) {
  Ids ids;
  for (const MicroBatch& batch : batches) {
    ids.insert(ids.end(), batch.sample_ids.begin(), batch.sample_ids.end());
  }
  return ids;
}

bool same(const std::vector<MicroBatch>& a, const std::vector<MicroBatch>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const MicroBatch& x, const MicroBatch& y) {
        return x.index == y.index && x.rows == y.rows && x.length == y.length &&
               x.tokens == y.tokens && x.targets == y.targets && x.positions == y.positions &&
               x.documents == y.documents && x.sample_ids == y.sample_ids;
      });
}

// The ids of a step over the data ranks of a world, each with a loader of its own.
class World {
 public:
  World(std::int64_t size, const LoaderConfig& config, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      loaders_.push_back(
          std::make_unique<Loader>(std::make_shared<Numbered>(size), config,
                                   owned_micro_batches(config.micro_batches, ranks, rank)));
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

// A run that is cut anywhere, saved as text, and resumed with any workers, by a loader that has
// already gone somewhere else, is the run that was never cut.
RC_GTEST_PROP(Loader, ResumingEqualsNeverStopping, ()) {
  const auto last = *rc::gen::element(LastBatch::drop, LastBatch::fill);
  const auto size = *rc::gen::inRange<std::int64_t>(12, 60);
  const int before = *rc::gen::inRange(0, 15);
  const int elsewhere = *rc::gen::inRange(0, 5);
  const int workers = *rc::gen::element(0, 1, 4);
  const LoaderConfig config = config_of(3, 4, last);
  Loader whole(std::make_shared<Numbered>(size), config, all_of(3));
  for (int step = 0; step < before; ++step) whole.next();
  const std::string saved = whole.cursor().to_json().dump();

  Loader resumed(std::make_shared<Numbered>(size), config_of(3, 4, last, workers), all_of(3));
  for (int step = 0; step < elsewhere; ++step) resumed.next();
  resumed.seek(DataCursor::from_json(parse_json(saved, "cursor"), "cursor"));
  RC_ASSERT(resumed.cursor() == whole.cursor());
  for (int step = 0; step < 10; ++step) {
    RC_ASSERT(same(whole.next(), resumed.next()));
    RC_ASSERT(resumed.cursor() == whole.cursor());
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

TEST(Loader, RefusesCursorsOfOtherData) {
  Loader loader(std::make_shared<Numbered>(40), config_of(4, 4, LastBatch::drop), {0});
  loader.next();
  const DataCursor before = loader.cursor();
  for (const DataCursor& wrong :
       {DataCursor{-1, 0, 0, {}}, DataCursor{0, -16, 0, {}}, DataCursor{0, 17, 0, {}},
        DataCursor{0, 48, 0, {}}, DataCursor{0, 0, -1, {}}}) {
    expect_error(ErrorKind::refused, {"data cursor", "multiple of 16 and at most 40"},
                 [&] { loader.seek(wrong); });
  }
  EXPECT_EQ(loader.cursor(), before);
}

TEST(DataCursor, GoesThroughJson) {
  const DataCursor cursor{2, 48, 1000, sha256("x")};
  EXPECT_EQ(DataCursor::from_json(cursor.to_json(), "m"), cursor);
  for (const char* key : {"epoch", "taken", "samples", "ledger"}) {
    Json json = cursor.to_json();
    json.erase(key);
    expect_error(ErrorKind::corrupt, {"manifest", key},
                 [&] { DataCursor::from_json(json, "manifest"); });
    json[key] = true;
    expect_error(ErrorKind::corrupt, {"manifest", key},
                 [&] { DataCursor::from_json(json, "manifest"); });
  }
  Json json = cursor.to_json();
  json["ledger"] = "abc";
  expect_error(ErrorKind::corrupt, {"manifest", "ledger"},
               [&] { DataCursor::from_json(json, "manifest"); });
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
