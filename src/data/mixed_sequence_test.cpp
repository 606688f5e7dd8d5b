// ctest: unit
#include "data/mixed_sequence.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "base/expect_error.h"
#include "base/piece.h"
#include "data/loader_testing.h"
#include "data/mixed_dataset.h"
#include "data/mixture.h"

namespace shardproof {
namespace {

struct NamedSize {
  std::string name;
  double weight;
  std::int64_t size;
};

std::shared_ptr<const Dataset> mixed(const std::vector<NamedSize>& sources) {
  std::vector<NamedDataset> datasets;
  for (const NamedSize& each : sources) {
    datasets.push_back({each.name, each.weight, std::make_shared<Numbered>(each.size)});
  }
  return make_mixed(std::move(datasets), 3);
}

std::vector<NamedSize> any_sources() {
  std::vector<NamedSize> out(*rc::gen::inRange<std::size_t>(1, 5));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = {std::string(1, "abcd"[i]), *rc::gen::inRange(i == 0 ? 1 : 0, 20) * 0.1,
              *rc::gen::inRange<std::int64_t>(1, 40)};
  }
  return out;
}

// The ranks of a data degree, each with a loader of its own.
class World {
 public:
  World(std::shared_ptr<const Dataset> dataset, int micro_batches, int rows, int ranks,
        int workers = 0) {
    const LoaderConfig config = config_of(micro_batches, rows, LastBatch::drop, workers);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<int> mine;
      for (auto m = share_bound(micro_batches, ranks, rank);
           m < share_bound(micro_batches, ranks, rank + 1); ++m) {
        mine.push_back(static_cast<int>(m));
      }
      loaders_.push_back(std::make_unique<Loader>(dataset, config, mine));
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
  Ids next(int steps) {
    Ids ids;
    for (int step = 0; step < steps; ++step) {
      const Ids more = next();
      ids.insert(ids.end(), more.begin(), more.end());
    }
    return ids;
  }
  // Through the text of a checkpoint.
  std::string save() const { return cursor().to_json().dump(); }
  void resume(const std::string& saved, Remix remix = Remix::refuse) {
    for (const auto& loader : loaders_) {
      loader->seek(DataCursor::from_json(parse_json(saved, "cursor"), "cursor"), remix);
    }
  }
  DataCursor cursor() const {
    for (const auto& loader : loaders_) EXPECT_EQ(loader->cursor(), loaders_[0]->cursor());
    return loaders_[0]->cursor();
  }

 private:
  std::vector<std::unique_ptr<Loader>> loaders_;
};

RC_GTEST_PROP(MixedSequence, AResumeOnAnyDataDegreeGoesOnAsIfNeverCut, ()) {
  const auto data = mixed(any_sources());
  const int micro_batches = *rc::gen::inRange(1, 7), rows = *rc::gen::inRange(1, 4);
  const int before = *rc::gen::inRange(0, 12), after = 6;
  World whole(data, micro_batches, rows, 1);
  whole.next(before);
  const std::string saved = whole.save();
  const Ids rest = whole.next(after);
  for (const int ranks : {1, 2, 3, 4}) {
    World first(data, micro_batches, rows, ranks);
    first.next(before);
    RC_ASSERT(first.save() == saved);
    World resumed(data, micro_batches, rows, ranks, *rc::gen::element(0, 1, 3));
    resumed.next(*rc::gen::inRange(0, 3));  // it was somewhere else
    resumed.resume(saved);
    RC_ASSERT(resumed.next(after) == rest);
    RC_ASSERT(resumed.cursor() == whole.cursor());
  }
}

// Counted from the ids alone: a source's draws, cut into runs of its size, are its epochs.
RC_GTEST_PROP(MixedSequence, EachEpochOfASourceHasEverySampleOnceAndSharesHold, ()) {
  const auto sources = any_sources();
  const auto data = mixed(sources);
  World world(data, 3, 2, *rc::gen::inRange(1, 4));
  const int steps = *rc::gen::inRange(1, 40);
  const Ids ids = world.next(steps);
  std::vector<Ids> drawn(sources.size());
  for (const std::int64_t id : ids) {
    std::size_t source = 0;
    while (id >= data->sources()[source].first + data->sources()[source].size) ++source;
    drawn[source].push_back(id);
  }
  std::vector<double> weights;
  for (const NamedSize& each : sources) weights.push_back(each.weight);
  const Mixture mixture(weights, 3);
  const DataCursor cursor = world.cursor();
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const auto count = static_cast<std::int64_t>(drawn[s].size());
    RC_ASSERT(count == mixture.count(static_cast<int>(s), static_cast<std::int64_t>(ids.size())));
    RC_ASSERT(cursor.sources[s].epoch == count / sources[s].size);
    RC_ASSERT(cursor.sources[s].taken == count % sources[s].size);
    for (std::int64_t begin = 0; begin < count; begin += sources[s].size) {
      const std::int64_t end = std::min(count, begin + sources[s].size);
      const std::set<std::int64_t> epoch(drawn[s].begin() + begin, drawn[s].begin() + end);
      RC_ASSERT(static_cast<std::int64_t>(epoch.size()) == end - begin);
    }
  }
}

// Weights change at a cut; a later cut resumes that run exactly. No source loses its place.
RC_GTEST_PROP(MixedSequence, ARemixKeepsEverySourceAndCanBeResumedItself, ()) {
  auto sources = any_sources();
  const auto first = mixed(sources);
  for (NamedSize& each : sources) each.weight = *rc::gen::inRange(0, 5);
  sources.push_back({"new", 2, *rc::gen::inRange<std::int64_t>(1, 30)});
  const auto second = mixed(sources);
  const int before = *rc::gen::inRange(0, 9), between = *rc::gen::inRange(0, 9);
  World whole(first, 2, 3, 2);
  Ids ids = whole.next(before);
  World remixed(second, 2, 3, 3);
  remixed.resume(whole.save(), Remix::allow);
  RC_ASSERT(remixed.cursor().since == 6 * before);
  const Ids more = remixed.next(between);
  ids.insert(ids.end(), more.begin(), more.end());

  World again(second, 2, 3, 4, *rc::gen::element(0, 2));
  again.resume(remixed.save());
  const Ids rest = again.next(8);
  RC_ASSERT(remixed.next(8) == rest);
  ids.insert(ids.end(), rest.begin(), rest.end());
  std::map<std::int64_t, int> times;
  for (const std::int64_t id : ids) ++times[id];
  for (const Source& source : second->sources()) {
    const SourceCursor at =
        again.cursor().sources[static_cast<std::size_t>(&source - second->sources().data())];
    for (std::int64_t id = source.first; id < source.first + source.size; ++id) {
      RC_ASSERT(times[id] == at.epoch || times[id] == at.epoch + 1);
    }
  }
}

TEST(MixedSequence, AChangedMixtureIsRefusedUnlessTold) {
  const std::vector<NamedSize> sources{{"books", 7, 20}, {"code", 3, 10}};
  World world(mixed(sources), 2, 4, 1);
  world.next(3);
  const std::string saved = world.save();
  const auto expect = [&](const std::vector<NamedSize>& changed, Remix remix,
                          std::initializer_list<std::string_view> parts) {
    World other(mixed(changed), 2, 4, 1);
    const DataCursor before = other.cursor();
    expect_error(ErrorKind::refused, parts, [&] { other.resume(saved, remix); });
    EXPECT_EQ(other.cursor(), before);
  };
  expect({{"books", 5, 20}, {"code", 5, 10}}, Remix::refuse,
         {"data.sources", "expected books 5, code 5", "data.remix=true", "found books 7, code 3"});
  expect({{"books", 7, 20}, {"code", 3, 10}, {"web", 1, 5}}, Remix::refuse,
         {"expected books 7, code 3, web 1", "found books 7, code 3"});
  expect({{"books", 7, 20}}, Remix::allow, {"source 1", "expected code to stay", "found none"});
  expect({{"code", 3, 10}, {"books", 7, 20}}, Remix::allow,
         {"source 0", "expected books to stay where it was", "found code"});
  for (const Remix remix : {Remix::refuse, Remix::allow}) {
    expect({{"books", 7, 20}, {"code", 3, 11}}, remix,
           {"samples of source code", "expected 11", "found 10"});
  }
}

TEST(MixedSequence, ARemixThatChangesNothingIsNoSwitch) {
  World world(mixed({{"a", 7, 20}, {"b", 3, 10}}), 2, 4, 1);
  world.next(3);
  const DataCursor before = world.cursor();
  world.resume(world.save(), Remix::allow);
  EXPECT_EQ(world.cursor(), before);
}

TEST(MixedSequence, AnotherContentOfASourceIsRefused) {
  const std::vector<NamedSize> sources{{"a", 1, 20}};
  World world(mixed(sources), 2, 4, 1);
  Json json = world.cursor().to_json();
  json["sources"][0]["digest"] = sha256("other").hex();
  expect_error(ErrorKind::refused,
               {"digest of source a", sha256("numbered").hex(), sha256("other").hex()},
               [&] { world.resume(json.dump(), Remix::allow); });
}

TEST(MixedSequence, PlainAndMixedCursorsAreNotTakenForEachOther) {
  const auto plain = std::make_shared<Numbered>(64);
  World one(plain, 2, 4, 1), mixture(mixed({{"a", 1, 64}}), 2, 4, 1);
  one.next(1);
  mixture.next(1);
  for (const Remix remix : {Remix::refuse, Remix::allow}) {
    expect_error(ErrorKind::refused, {"mixture of 1 sources", "expected one source"},
                 [&] { one.resume(mixture.save(), remix); });
    expect_error(ErrorKind::refused, {"sources: expected the sources of a mixture, found none"},
                 [&] { mixture.resume(one.save(), remix); });
  }
}

// A member that is missing or of another type is named; another number contradicts the others.
RC_GTEST_PROP(MixedSequence, ADamagedCursorIsRefusedByName, ()) {
  World world(mixed({{"a", 7, 20}, {"b", 3, 10}, {"c", 2, 5}}), 2, 4, 1);
  world.next(*rc::gen::inRange(1, 20));
  Json json = parse_json(world.save(), "cursor");
  std::vector<std::string> pointers;
  const Json flat = json.flatten();
  for (const auto& item : flat.items()) pointers.push_back(item.key());
  const std::string pointer = *rc::gen::elementOf(pointers);
  if (pointer == "/ledger") return;  // nothing else says it
  const std::string key = pointer.substr(pointer.rfind('/') + 1);
  Json& value = json[Json::json_pointer(pointer)];
  const bool other_type = *rc::gen::arbitrary<bool>();
  if (other_type) {
    value = nullptr;
  } else if (value.is_string()) {
    value = key == "digest" ? sha256("x").hex() : "x";
  } else {
    const auto most = std::numeric_limits<std::int64_t>::max();
    value = value.get<double>() + 1 < 1e9 && *rc::gen::arbitrary<bool>()
                ? Json(value.get<std::int64_t>() + *rc::gen::element(-1, 1, 8))
                : Json(*rc::gen::element(most, -most - 1, most / 2));
  }
  const DataCursor before = world.cursor();
  try {
    world.resume(json.dump());
    RC_FAIL(pointer + " " + value.dump() + " was taken");
  } catch (const Error& error) {
    RC_ASSERT(error.kind() == (other_type ? ErrorKind::corrupt : ErrorKind::refused));
    if (other_type) RC_ASSERT(std::string(error.what()).find(key) != std::string::npos);
  }
  RC_ASSERT(world.cursor() == before);
}

TEST(MixedSequence, TheCursorGoesThroughJson) {
  World world(mixed({{"a", 0.7, 20}, {"b", 0.3, 10}}), 2, 4, 1);
  world.next(5);
  const Json json = world.cursor().to_json();
  EXPECT_EQ(DataCursor::from_json(json, "m"), world.cursor());
  EXPECT_FALSE(json.contains("epoch"));
  for (const char* key : {"since", "samples", "ledger"}) {
    Json less = json;
    less.erase(key);
    expect_error(ErrorKind::corrupt, {"m", key}, [&] { DataCursor::from_json(less, "m"); });
  }
  Json none = json;
  none["sources"] = Json::array();
  expect_error(ErrorKind::corrupt, {"m", "sources"}, [&] { DataCursor::from_json(none, "m"); });
}

}  // namespace
}  // namespace shardproof
