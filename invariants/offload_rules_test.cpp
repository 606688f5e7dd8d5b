// ctest: unit timeout=60
// Memory events of a run that offloads, true and falsified one number at a time.
#include "invariants/offload_rules.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

constexpr std::int64_t state = 24000, shares = 8000;

Json event_of(const OffloadClaim& claim) {
  Json event{{"kind", "memory"}, {"step", 4}};
  const bool optimizer = claim.optimizer != "none", parameters = claim.parameters != "none";
  event["bytes"] = Json{{"optimizer", optimizer ? 0 : state},
                        {"optimizer_offloaded", optimizer ? state : 0},
                        {"parameters", parameters ? 0 : shares},
                        {"parameters_offloaded", parameters ? shares : 0}};
  const std::int64_t host =
      (claim.optimizer == "host" ? state : 0) + (claim.parameters == "host" ? shares : 0);
  event["live"] = Json{{"optimizer", optimizer ? 0 : state},
                       {"parameters", parameters ? 0 : shares},
                       {"offloaded", host}};
  event["peak"] = Json{{"optimizer", optimizer ? claim.window : state}};
  event["offload"]["optimizer"] =
      Json{{"bytes_in", optimizer ? state : 0}, {"bytes_out", optimizer ? state : 0}};
  event["offload"]["parameters"] =
      Json{{"bytes_in", parameters ? 2 * shares : 0}, {"bytes_out", parameters ? shares : 0}};
  return event;
}

std::string judge(const Json& event, const OffloadClaim& claim) {
  RankTrace rank;
  rank.rank = 2;
  rank.others = {event};
  return offload_problem(rank, claim);
}

void expect_found(const OffloadClaim& claim, const char* pointer, std::int64_t value,
                  const std::string& words) {
  Json event = event_of(claim);
  event[Json::json_pointer(pointer)] = value;
  const std::string text = judge(event, claim);
  EXPECT_NE(text.find("rank 2, step 4: "), std::string::npos) << pointer;
  EXPECT_NE(text.find(words), std::string::npos) << pointer << ": " << text;
}

const OffloadClaim claims[] = {{"none", "none", 12288}, {"host", "none", 12288},
                               {"file", "none", 12288}, {"none", "host", 12288},
                               {"none", "file", 12288}, {"host", "file", 12288},
                               {"file", "host", 12288}, {"host", "host", 12288}};

TEST(OffloadRules, ATrueRunPasses) {
  for (const OffloadClaim& claim : claims) EXPECT_EQ(judge(event_of(claim), claim), "");
}

TEST(OffloadRules, EachFalseNumberIsFound) {
  for (const OffloadClaim& claim : claims) {
    SCOPED_TRACE(claim.optimizer + ", " + claim.parameters);
    expect_found(claim, "/live/offloaded", 5, "host memory holds 5 offloaded bytes");
    if (claim.optimizer == "none") {
      expect_found(claim, "/bytes/optimizer_offloaded", 12, "and none should");
    } else {
      expect_found(claim, "/bytes/optimizer", 12, "12 optimizer bytes stay on the device");
      expect_found(claim, "/live/optimizer", 12, "the allocator holds 12 optimizer bytes");
      expect_found(claim, "/peak/optimizer", 12289, "with a window of 12288");
      expect_found(claim, "/offload/optimizer/bytes_in", state - 4, "brings in 23996");
      expect_found(claim, "/offload/optimizer/bytes_out", state + 4, "puts out 24004");
    }
    if (claim.parameters == "none") {
      expect_found(claim, "/bytes/parameters_offloaded", 12, "and none should");
    } else {
      expect_found(claim, "/bytes/parameters", 4, "4 parameter bytes stay on the device");
      expect_found(claim, "/live/parameters", 4, "4 parameter bytes stay on the device");
      expect_found(claim, "/offload/parameters/bytes_in", shares - 4, "brings in 7996");
      expect_found(claim, "/offload/parameters/bytes_out", 0, "puts out 0");
    }
  }
}

TEST(OffloadRules, WhatIsNotTracedIsNotJudged) {
  const OffloadClaim claim{"host", "host", 12288};
  Json event = event_of(claim);
  event.erase("live");
  event.erase("peak");
  EXPECT_EQ(judge(event, claim), "");
  EXPECT_EQ(judge(Json{{"kind", "comm"}}, claim), "");
}

}  // namespace
}  // namespace shardproof
