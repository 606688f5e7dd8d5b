// ruling: how a check opens and closes its verdict. Internal to invariants. Thread rule: values.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "invariants/verdict.h"

namespace shardproof {

// A verdict before it has a sentence.
struct Ruling {
  Outcome outcome = Outcome::pass;
  std::string reason;
  std::optional<Difference> difference;
};

inline Ruling rule_open(std::string reason) {
  return {Outcome::inconclusive, std::move(reason), std::nullopt};
}

inline Ruling rule_fail(std::string reason, Difference difference) {
  return {Outcome::fail, std::move(reason), std::move(difference)};
}

inline Verdict open_verdict(std::string check, std::string sentence) {
  Verdict out;
  out.check = std::move(check);
  out.sentence = std::move(sentence);
  return out;
}

inline Verdict passes(Verdict verdict) {
  verdict.outcome = Outcome::pass;
  return verdict;
}

inline Verdict fails(Verdict verdict, std::string reason,
                     std::optional<Difference> difference = std::nullopt) {
  verdict.outcome = Outcome::fail;
  verdict.reason = std::move(reason);
  verdict.difference = std::move(difference);
  return verdict;
}

inline Verdict undecided(Verdict verdict, std::string reason) {
  verdict.outcome = Outcome::inconclusive;
  verdict.reason = std::move(reason);
  return verdict;
}

}  // namespace shardproof
