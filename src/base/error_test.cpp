// ctest: unit
#include "base/error.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace shardproof {
namespace {

// What error.h documents; written out a second time on purpose.
const std::map<ErrorKind, int> documented_exit_codes = {
    {ErrorKind::bad_input, 2}, {ErrorKind::environment, 3}, {ErrorKind::timeout, 1},
    {ErrorKind::peer_died, 1}, {ErrorKind::revoked, 1},     {ErrorKind::mismatch, 1},
    {ErrorKind::io, 3},        {ErrorKind::corrupt, 1},     {ErrorKind::refused, 2},
    {ErrorKind::conflict, 2},  {ErrorKind::numeric, 1},
};

TEST(Error, EveryKindHasItsOwnNameAndTheDocumentedExitCode) {
  std::set<std::string_view> names;
  for (const auto& [kind, code] : documented_exit_codes) {
    EXPECT_EQ(exit_code(kind), code) << name(kind);
    EXPECT_FALSE(name(kind).empty());
    names.insert(name(kind));
  }
  EXPECT_EQ(names.size(), documented_exit_codes.size());
}

TEST(Error, SaysKindPlaceAndDetail) {
  const Error error(ErrorKind::bad_input, "run.toml:3", "unknown key \"stepz\"");
  EXPECT_STREQ(error.what(), "bad_input: run.toml:3: unknown key \"stepz\"");
  EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  EXPECT_EQ(error.place(), "run.toml:3");
  EXPECT_EQ(error.detail(), "unknown key \"stepz\"");
  EXPECT_EQ(error.world_rank(), Error::no_rank);
}

TEST(Error, NamesTheRankWhenThereIsOne) {
  const Error error(ErrorKind::peer_died, "all_reduce 7 of dp", "no answer", 0);
  EXPECT_STREQ(error.what(), "peer_died: all_reduce 7 of dp: no answer (rank 0)");
  EXPECT_EQ(error.world_rank(), 0);
}

TEST(ErrorDeathTest, AKindOutOfRangeIsABug) {
  EXPECT_EXIT(name(static_cast<ErrorKind>(99)), testing::KilledBySignal(SIGABRT), "ErrorKind");
}

}  // namespace
}  // namespace shardproof
