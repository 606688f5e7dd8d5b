// verdict: what a check concluded, as a value. pass, fail, inconclusive(reason), or
// expected-fail(reason; one that passes is a fail). Torch-free. Thread rule: values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace shardproof {

enum class Outcome { pass, fail, inconclusive, expected_fail };
std::string_view name(Outcome outcome);  // "pass", "fail", "inconclusive", "expected-fail"

// An address: where two things that should be equal first are not.
struct Difference {
  std::int64_t step = 0;
  std::string phase;   // "loss", "grad_norm", "grad", "param", "moment", "samples", ...
  std::string tensor;  // global name; empty for scalars
  int piece = -1;
  int rank = -1;              // world rank of the side that is judged
  std::int64_t element = -1;  // row-major in the piece; -1: only a block or digest is known
  std::string left;           // bit pattern expected
  std::string right;          // bit pattern found
  // What is printed only where it is known:
  std::vector<std::int64_t> index = {};  // of the element in the global tensor, such as [3,17]
  std::vector<int> left_ranks = {};      // the ranks that hold the element on the expected side
  std::vector<int> right_ranks = {};     // and on the side that is judged
  double times = 0;  // apart by how many times the rounding error: u x |value|, or what is allowed

  std::string print() const;  // one line
  Json to_json() const;
};

struct Verdict {
  std::string check;     // "layout", "resume", ...
  std::string subject;   // what was judged: "synthetic: dp4.zero1 against dp1"
  std::string sentence;  // what was expected, written before the first step
  Outcome outcome = Outcome::inconclusive;
  std::string reason;  // one sentence, always set unless pass
  std::optional<Difference> difference;
  std::vector<std::string> notes;
  std::string replay;  // a command line; set on fail

  Json to_json() const;
};

// 1 when any fails, else 3 when any is inconclusive or there are none, else 0.
int exit_code(const std::vector<Verdict>& verdicts);

}  // namespace shardproof
