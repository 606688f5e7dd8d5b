// From legs to verdicts.
#include "harness/judge/subject_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "harness/accept_run.h"
#include "invariants/subject_checks.h"

namespace shardproof {
namespace {

struct Judged {
  const PlannedCheck* planned;
  Verdict verdict;
  bool by_bits = false;  // fails for what its traces hold, not for how a leg ended
};

class Judge {
 public:
  Judge(const Subject& subject, const SubjectPlan& plan, SubjectRun& run,
        const JudgeOptions& options)
      : subject_(subject), plan_(plan), run_(run), options_(options) {}

  std::vector<SubjectVerdict> judge() {
    for (const PlannedCheck& planned : plan_.checks) {
      if (!is_optional(planned)) judged_.push_back(judge_one(planned));
    }
    check_that_checkpoint_matters();
    for (Judged& each : judged_) excuse_bits(each);
    for (const SubjectLayout& layout : subject_.layouts) {
      for (const auto& [check, why] : layout.expect) expect_failure(layout.name, check, why);
    }
    std::vector<SubjectVerdict> out;
    for (Judged& each : judged_) {
      if (each.verdict.outcome == Outcome::fail) each.verdict.replay = replay(*each.planned);
      out.push_back({each.planned->layout, std::move(each.verdict)});
    }
    return out;
  }

 private:
  const SubjectLegResult* result(const std::string& leg) const {
    const auto found = run_.results().find(leg);
    return found == run_.results().end() ? nullptr : &found->second;
  }

  // A program need not reduce or clip; every other phase it must come by.
  bool is_optional(const PlannedCheck& planned) const {
    const bool optional =
        planned.kill && (planned.kill->phase == "reduced" || planned.kill->phase == "clipped");
    return optional && std::any_of(planned.legs.begin(), planned.legs.end(), [&](const auto& leg) {
             return result(leg) != nullptr && result(leg)->no_place;
           });
  }

  Judged judge_one(const PlannedCheck& planned) const {
    Judged out{&planned, {}};
    if (!judge_ends(planned, out.verdict)) {
      out.verdict = judge_traces(planned);
      out.by_bits = true;
    }
    for (const std::string& leg : planned.legs) {
      if (result(leg) == nullptr || result(leg)->unclean.empty()) continue;
      out.verdict.notes.push_back(
          fmt::format("unclean exit: leg {} {} after all its ranks had "
                      "written their end",
                      leg, result(leg)->unclean));
    }
    const bool said = out.verdict.reason.starts_with("tensors: not verified");
    if (!subject_.traces() && !said && out.verdict.outcome == Outcome::inconclusive) {
      out.verdict.reason = fmt::format("tensors: not verified ({})", out.verdict.reason);
    }
    out.verdict.subject = planned.subject;
    for (const std::string& leg : planned.legs) {
      if (result(leg) == nullptr || !result(leg)->leg.kill) continue;
      out.verdict.subject = kill_subject(planned.layout, *result(leg)->leg.kill);
    }
    out.verdict.reason = reproducible(out.verdict.reason, options_.out);
    for (std::string& note : out.verdict.notes) note = reproducible(note, options_.out);
    return out;
  }

  // Whether the ends of legs decide.
  bool judge_ends(const PlannedCheck& planned, Verdict& verdict) const {
    for (const std::string& leg : planned.legs) {
      const SubjectLegResult* found = result(leg);
      if (found == nullptr || found->problem.empty()) continue;
      verdict = planned.judge({});
      verdict.outcome = Outcome::fail;
      verdict.reason = fmt::format("leg {} {}", leg, found->problem);
      return true;
    }
    for (const std::string& leg : planned.legs) {
      const SubjectLegResult* found = result(leg);
      if (found != nullptr && found->good()) continue;
      // What became of the kill is judged where only the restart is missing.
      const bool restart = planned.kill && leg == planned.legs.back();
      if (restart && found != nullptr && !found->interrupted) continue;
      verdict = planned.judge({});
      verdict.outcome = Outcome::inconclusive;
      if (found != nullptr && found->no_place) {
        verdict.reason = "not run: " + found->skipped;
        return true;
      }
      verdict.reason =
          fmt::format("leg {} was not run: {}", leg,
                      found == nullptr || found->interrupted ? "interrupted" : found->skipped);
      return true;
    }
    return false;
  }

  Verdict judge_traces(const PlannedCheck& planned) const {
    try {
      return planned.judge(run_.results());
    } catch (const Error& error) {  // a trace that contradicts itself
      Verdict verdict = planned.judge({});
      verdict.outcome = Outcome::fail;
      verdict.reason = error.what();
      return verdict;
    }
  }

  // Of the first layout whose resume passes. One that starts afresh without a checkpoint, at step
  // 0, is right to do so.
  void check_that_checkpoint_matters() {
    const auto first = std::find_if(judged_.begin(), judged_.end(), [](const Judged& each) {
      return each.verdict.check == "resume" && each.verdict.outcome == Outcome::pass;
    });
    if (first == judged_.end() || !subject_.traces()) return;
    const SubjectLeg leg = bare_resume(first->planned->layout);
    if (!run_.run({leg}) || result(leg.name) == nullptr || !result(leg.name)->good()) return;
    const Trace& bare = result(leg.name)->trace;
    const Verdict same = check_subject_resume(result(leg.layout)->trace, bare, subject_.save);
    const std::vector<std::int64_t> steps = bare.step_numbers();
    if (same.outcome != Outcome::pass || steps.front() != subject_.save) return;
    first->verdict.outcome = Outcome::fail;
    first->verdict.reason = fmt::format(
        "leg {} resumes without its checkpoint, from an empty folder, and ends with the same bits: "
        "it trains again",
        leg.name);
  }

  // Nothing when it repeats; else what differed.
  std::string lack_of_repeat(const std::string& layout) {
    const auto known = repeats_.find(layout);
    if (known != repeats_.end()) return known->second;
    const SubjectPlan plan = plan_repeat(subject_, layout);
    if (!run_.run(plan.legs)) return "";
    const Verdict verdict = judge_one(plan.checks.front()).verdict;
    return repeats_[layout] = verdict.outcome == Outcome::fail ? verdict.reason : "";
  }

  void excuse_bits(Judged& judged) {
    Verdict& verdict = judged.verdict;
    if (!judged.planned->bitwise || !judged.by_bits || verdict.outcome != Outcome::fail) return;
    std::vector<std::string> layouts = {judged.planned->layout};
    if (verdict.check == "layout") layouts.push_back("ref");
    for (const std::string& layout : layouts) {
      const std::string why = lack_of_repeat(layout);
      if (why.empty()) continue;
      verdict.outcome = Outcome::inconclusive;
      verdict.reason = fmt::format(
          "not reproducible: the same run of {} twice differs ({}); "
          "found here: {}",
          layout, why, verdict.reason);
      return;
    }
  }

  void expect_failure(const std::string& layout, const std::string& check, const std::string& why) {
    std::vector<Judged*> rows;
    for (Judged& each : judged_) {
      if (each.planned->layout == layout && each.planned->check == check) rows.push_back(&each);
    }
    const auto is = [](Outcome outcome) {
      return [outcome](const Judged* each) { return each->verdict.outcome == outcome; };
    };
    if (std::any_of(rows.begin(), rows.end(), is(Outcome::fail))) {
      for (Judged* each : rows) {
        if (each->verdict.outcome != Outcome::fail) continue;
        // A leg that crashed says nothing of what the file expects.
        if (!each->by_bits && check != "live" && check != "kill") continue;
        each->verdict.outcome = Outcome::expected_fail;
        each->verdict.reason = fmt::format("{} (found: {})", why, each->verdict.reason);
      }
      return;
    }
    if (std::any_of(rows.begin(), rows.end(), is(Outcome::inconclusive))) return;
    for (Judged* each : rows) {
      each->verdict.outcome = Outcome::fail;
      each->verdict.reason = fmt::format("expected to fail: {}; it passes", why);
      each->verdict.difference.reset();
      return;
    }
  }

  std::string replay(const PlannedCheck& planned) const {
    std::string out = fmt::format("shardproof accept --subject {} --only {} --layout {}",
                                  subject_.file, planned.check, planned.layout);
    for (const std::string& each : options_.set) out += fmt::format(" --set '{}'", each);
    return out;
  }

  const Subject& subject_;
  const SubjectPlan& plan_;
  SubjectRun& run_;
  const JudgeOptions& options_;
  std::vector<Judged> judged_;
  std::map<std::string, std::string> repeats_;  // by layout
};

}  // namespace

std::vector<SubjectVerdict> judge_subject(const Subject& subject, const SubjectPlan& plan,
                                          SubjectRun& run, const JudgeOptions& options) {
  return Judge(subject, plan, run, options).judge();
}

}  // namespace shardproof
