// offload_rules: one memory event after the other.
#include "invariants/offload_rules.h"

#include <fmt/format.h>

#include "invariants/run_facts.h"

namespace shardproof {
namespace {

std::int64_t number(const Json& event, const char* pointer) {
  const Json::json_pointer at(pointer);
  return event.contains(at) && event[at].is_number_integer() ? event[at].get<std::int64_t>() : 0;
}

bool has(const Json& event, const char* key) {
  return event.contains(key) && event[key].is_object();
}

std::string optimizer_problem(const Json& event, const OffloadClaim& claim) {
  const std::int64_t away = number(event, "/bytes/optimizer_offloaded");
  if (claim.optimizer == "none") {
    return away == 0 ? "" : fmt::format("{} optimizer bytes are offloaded, and none should", away);
  }
  if (const std::int64_t here = number(event, "/bytes/optimizer"); here != 0) {
    return fmt::format("{} optimizer bytes stay on the device, offloaded to {}", here,
                       claim.optimizer);
  }
  if (const std::int64_t live = number(event, "/live/optimizer"); live != 0) {
    return fmt::format("the allocator holds {} optimizer bytes after a step, offloaded to {}", live,
                       claim.optimizer);
  }
  if (const std::int64_t peak = number(event, "/peak/optimizer");
      claim.window > 0 && peak > claim.window) {
    return fmt::format("{} optimizer bytes were on the device at once, with a window of {}", peak,
                       claim.window);
  }
  const std::int64_t in = number(event, "/offload/optimizer/bytes_in");
  const std::int64_t out = number(event, "/offload/optimizer/bytes_out");
  if (in == away && out == away) return "";
  return fmt::format("a step brings in {} and puts out {} optimizer bytes of {}", in, out, away);
}

std::string parameter_problem(const Json& event, const OffloadClaim& claim) {
  const std::int64_t away = number(event, "/bytes/parameters_offloaded");
  if (claim.parameters == "none") {
    return away == 0 ? "" : fmt::format("{} parameter bytes are offloaded, and none should", away);
  }
  for (const char* pointer : {"/bytes/parameters", "/live/parameters"}) {
    if (const std::int64_t here = number(event, pointer); here != 0) {
      return fmt::format("{} parameter bytes stay on the device, offloaded to {}", here,
                         claim.parameters);
    }
  }
  const std::int64_t in = number(event, "/offload/parameters/bytes_in");
  const std::int64_t out = number(event, "/offload/parameters/bytes_out");
  if (in >= away && out == away) return "";  // in for every gather, out once
  return fmt::format("a step brings in {} and puts out {} parameter bytes of {}", in, out, away);
}

std::string host_problem(const Json& event, const OffloadClaim& claim) {
  if (!has(event, "live")) return "";
  std::int64_t expected = 0;
  if (claim.optimizer == "host") expected += number(event, "/bytes/optimizer_offloaded");
  if (claim.parameters == "host") expected += number(event, "/bytes/parameters_offloaded");
  const std::int64_t found = number(event, "/live/offloaded");
  if (found == expected) return "";
  return fmt::format("host memory holds {} offloaded bytes after a step, where it should be {}",
                     found, expected);
}

}  // namespace

OffloadClaim offload_claim(const Trace& trace) {
  OffloadClaim claim;
  claim.optimizer = text_fact(trace, "/config/parallel/offload_optimizer").value_or("none");
  claim.parameters = text_fact(trace, "/config/parallel/offload_parameters").value_or("none");
  claim.window = integer_fact(trace, "/config/parallel/offload_window").value_or(0);
  return claim;
}

std::string offload_problem(const RankTrace& rank, const OffloadClaim& claim) {
  for (const Json& event : rank.others) {
    if (event.value("kind", "") != "memory" || !has(event, "bytes")) continue;
    for (const auto rule : {optimizer_problem, parameter_problem, host_problem}) {
      if (const std::string text = rule(event, claim); !text.empty()) {
        return fmt::format("rank {}, step {}: {}", rank.rank, number(event, "/step"), text);
      }
    }
  }
  return "";
}

}  // namespace shardproof
