// ctest: unit
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "base/expect_error.h"
#include "data/loader.h"
#include "data/loader_testing.h"

namespace shardproof {
namespace {

// A run that is cut anywhere, saved as text, and resumed with any workers, by a loader that has
// already gone somewhere else, is the run that was never cut.
RC_GTEST_PROP(DataCursor, ResumingEqualsNeverStopping, ()) {
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

TEST(DataCursor, OfOtherDataIsRefused) {
  Loader loader(std::make_shared<Numbered>(40), config_of(4, 4, LastBatch::drop), {0});
  loader.next();
  const DataCursor before = loader.cursor();
  // 40 samples are two steps of 16 an epoch.
  const DataCursor wrong[] = {
      {-1, 0, 0, {}},  {0, -16, -16, {}}, {0, 17, 17, {}},
      {0, 48, 48, {}}, {0, 40, 40, {}},   {0, 0, -1, {}},
      {0, 16, 32, {}}, {2, 16, 48, {}},   {std::int64_t{1} << 40, 0, std::int64_t{1} << 45, {}},
  };
  for (const DataCursor& each : wrong) {
    expect_error(ErrorKind::refused, {"data cursor", "whole steps of 16 samples in epochs of 32"},
                 [&] { loader.seek(each); });
  }
  loader.seek(before);
  loader.seek({2, 16, 80, {}});
  loader.seek(before);
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

}  // namespace
}  // namespace shardproof
