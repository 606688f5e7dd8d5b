// ctest: invariant
// A byte of a trace that was changed never crashes a reader or a check, and never passes silently:
// it is an Error at its line, or a verdict that is not pass, or nothing that is judged changed.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"
#include "invariants/fake_trace.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

// What the checks judge of a rank, as text: scalars, samples and digests of every record.
std::string judged(const Trace& trace) {
  std::string out;
  for (const RankTrace& rank : trace.ranks) {
    for (StepRecord record : rank.steps) {
      record.tokens = 0;  // of the rank, in no law
      record.extra.clear();
      out += to_json(record).dump() + "\n";
    }
    for (TensorRecord record : rank.tensors) {
      record.norm = 0;  // told beside the digest
      out += to_json(record).dump() + "\n";
    }
    out += rank.ended ? std::to_string(*rank.ended) : "never ended";
  }
  return out;
}

class TraceDamage : public ::testing::Test {
 protected:
  static FakeTrainer trainer() {
    FakeTrainer fake;
    fake.steps = 2;
    fake.capture = {};
    return fake;
  }
  TraceDamage()
      : whole_(trainer().write(folder_.file("whole"))),
        text_((trainer().write(folder_.file("damaged")), folder_.read(rank_file_))) {}

  const std::string rank_file_ = "damaged/rank_00001.jsonl";
  TempFolder folder_;
  const Trace whole_;
  const std::string text_;
};

RC_GTEST_FIXTURE_PROP(TraceDamage, NoChangedByteIsSilent, ()) {
  std::string text = text_;
  const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
  // Mostly what keeps a line well-formed: a digit becomes another.
  const bool digit = *rc::gen::inRange(0, 4) > 0;
  text[at] =
      digit ? *rc::gen::inRange('0', static_cast<char>('9' + 1)) : *rc::gen::arbitrary<char>();
  folder_.write(rank_file_, text);
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  const std::size_t from = at - std::min<std::size_t>(at, 40);
  RC_LOG() << "line " << line << ", byte " << at << ":\n  " << text_.substr(from, 80) << "\n  "
           << text.substr(from, 80) << "\n";
  try {
    const Trace damaged = read_trace(folder_.file("damaged"));
    std::vector<Verdict> verdicts = {check_repeat(whole_, damaged), check_live(damaged, 2),
                                     check_cover(damaged),          check_replicas(damaged),
                                     check_data(damaged),           check_optimizer_bytes(damaged)};
    bool all_pass = true;
    for (const Verdict& verdict : verdicts) all_pass &= verdict.outcome == Outcome::pass;
    RC_ASSERT(!all_pass || judged(damaged) == judged(whole_));
  } catch (const Error& error) {
    RC_ASSERT(error.kind() == ErrorKind::corrupt);
    RC_ASSERT(error.place().find("rank_00001.jsonl:" + std::to_string(line)) != std::string::npos);
  }
}

}  // namespace
}  // namespace shardproof
