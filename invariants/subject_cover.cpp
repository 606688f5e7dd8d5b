// subject cover: at the captured steps alone, with whatever moments the optimizer keeps.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "invariants/cover_findings.h"
#include "invariants/ruling.h"
#include "invariants/run_facts.h"
#include "invariants/subject_checks.h"

namespace shardproof {
namespace {

using Names = std::set<std::string>;

Difference missing_address(std::int64_t step, const std::string& what, const std::string& tensor) {
  Difference out;
  out.step = step;
  out.phase = what;
  out.tensor = tensor;
  out.left = "every element on some rank";
  out.right = "nothing";
  return out;
}

class CoverJudge {
 public:
  CoverJudge(const Trace& trace, std::vector<std::int64_t> captured)
      : trace_(trace), captured_(std::move(captured)) {
    for (const std::int64_t step : tensor_steps(trace, "param")) {
      for (const auto& [name, places] : places_at(trace, step, "param")) names_.insert(name);
      break;
    }
  }

  // Everything wrong or open, in order.
  std::vector<Finding> findings() {
    add(find_renumbered(trace_));
    for (const char* what : {"param", "grad", "moment"}) {
      for (const std::int64_t step : tensor_steps(trace_, what)) {
        if (asked(step)) add(find_problem(trace_, step, what));
      }
    }
    for (const std::int64_t step : captured_) judge_step(step);
    judge_lapses("grad", gradients_);
    judge_lapses("moment", moments_);
    note_without_moments();
    find_silent_rank();
    return std::move(findings_);
  }

  bool any_moment() const { return any_moment_; }
  const std::vector<std::string>& notes() const { return notes_; }
  std::size_t parameters() const { return names_.size(); }

 private:
  void add(std::optional<Finding> found) {
    if (found) findings_.push_back(std::move(*found));
  }
  void add_open(std::string reason) { add(Finding{std::move(reason), std::nullopt, true}); }

  bool asked(std::int64_t step) const {
    return std::find(captured_.begin(), captured_.end(), step) != captured_.end();
  }

  void judge_step(std::int64_t step) {
    const PlaceMap params = places_at(trace_, step, "param");
    if (params.empty()) return add_open(fmt::format("no parameter of step {} was captured", step));
    for (const std::string& name : names_) {
      if (params.contains(name)) continue;
      add(Finding{fmt::format("the param {} is on no rank at step {}", name, step),
                  missing_address(step, "param", name)});
    }
    add(find_new(trace_, step, names_));
    if (step < trace_.step_numbers().front()) return;  // the start has no gradient yet
    const PlaceMap grads = places_at(trace_, step, "grad");
    if (grads.empty()) add_open(fmt::format("no gradient of step {} was captured", step));
    for (const auto& [name, places] : grads) {
      had_gradient_.insert(name);
      if (!skipped(step)) gradients_[step].insert(name);
      if (names_.contains(name)) continue;
      Difference at = missing_address(step, "param", name);
      add(Finding{fmt::format("{} has a gradient at step {} and is no parameter", name, step), at});
    }
    judge_moments(step);
  }

  bool skipped(std::int64_t step) const {
    const StepRecord* record = trace_.ranks.front().find_step(step);
    return record != nullptr && record->skipped;
  }

  // Two optimizers in one program may keep different moments, one of them none: each parameter is
  // compared with itself at other steps.
  void judge_moments(std::int64_t step) {
    Names found;
    for (const auto& [tensor, places] : places_at(trace_, step, "moment")) found.insert(tensor);
    if (found.empty() && any_moment_) {
      return add_open(fmt::format("no moment of step {} was captured", step));
    }
    any_moment_ = any_moment_ || !found.empty();
    if (!found.empty() && !skipped(step)) moments_[step] = std::move(found);
  }

  // What is there at one of the steps is there at all of them.
  void judge_lapses(const char* what, const std::map<std::int64_t, Names>& steps) {
    Names all;
    for (const auto& [step, names] : steps) all.insert(names.begin(), names.end());
    for (const auto& [step, names] : steps) {
      for (const std::string& name : all) {
        if (names.contains(name)) continue;
        add(Finding{
            fmt::format("the {} {} is on no rank at step {}, and is at another", what, name, step),
            missing_address(step, what, name)});
      }
    }
  }

  void note_without_moments() {
    Names with;
    for (const auto& [step, names] : moments_) {
      for (const std::string& each : names) with.insert(each.substr(0, each.rfind('/')));
    }
    if (with.empty()) return;
    for (const std::string& name : had_gradient_) {
      if (frozen_.contains(name) || with.contains(name)) continue;
      notes_.push_back(fmt::format("{} has a gradient and no moment, others have one", name));
    }
  }

  // A rank that captured nothing at all beside others that did: its part is not known.
  void find_silent_rank() {
    for (const RankTrace& rank : trace_.ranks) {
      const bool wrote = !rank.tensors.empty() ||
                         std::any_of(trace_.files.begin(), trace_.files.end(),
                                     [&](const auto& file) { return file.rank == rank.rank; });
      if (!wrote) {
        add_open(fmt::format("rank {} captured nothing, and others did: what it holds is not known",
                             rank.rank));
      }
    }
  }

  const Trace& trace_;
  const std::vector<std::int64_t> captured_;
  const Names frozen_ = frozen_names(trace_);
  Names names_;
  Names had_gradient_;
  std::map<std::int64_t, Names> gradients_, moments_;  // at the steps that were not skipped
  std::vector<std::string> notes_;
  bool any_moment_ = false;
  std::vector<Finding> findings_;
};

// The steps to judge: of those asked for, the ones that this run could capture; or all it has.
std::vector<std::int64_t> steps_to_judge(const Trace& trace,
                                         const std::vector<std::int64_t>& captured) {
  const std::vector<std::int64_t> done = trace.step_numbers();
  std::set<std::int64_t> out;
  if (captured.empty()) {
    for (const char* what : {"param", "grad", "moment"}) {
      for (const std::int64_t step : tensor_steps(trace, what)) out.insert(step);
    }
  } else {
    out.insert(done.front() - 1);
    for (const std::int64_t step : captured) {
      if (step >= done.front() - 1 && step <= done.back()) out.insert(step);
    }
  }
  return {out.begin(), out.end()};
}

std::string obstacle(const Trace& trace) {
  if (trace.ranks.empty() || trace.step_numbers().empty()) return "no step was traced";
  if (static_cast<int>(trace.ranks.size()) != trace.world()) {
    return fmt::format("{} of {} ranks wrote a trace", trace.ranks.size(), trace.world());
  }
  for (const RankTrace& rank : trace.ranks) {
    if (!rank.ended) return fmt::format("rank {} never ended", rank.rank);
  }
  return tensor_steps(trace, "param").empty() ? "no parameter was captured" : "";
}

}  // namespace

Verdict check_subject_cover(const Trace& trace, const std::vector<std::int64_t>& captured) {
  Verdict verdict =
      open_verdict("cover",
                   "at the start and every captured step the boxes of all ranks tile each "
                   "parameter, gradient and moment without a hole, what several ranks hold is "
                   "bit-equal, and no parameter is lost or new");
  const std::string why = obstacle(trace);
  if (!why.empty()) return undecided(verdict, why);
  const std::vector<std::int64_t> steps = steps_to_judge(trace, captured);
  CoverJudge judge(trace, steps);
  std::string open;
  for (const Finding& found : judge.findings()) {
    if (!found.undecided) return fails(verdict, found.reason, found.difference);
    if (open.empty()) open = found.reason;
  }
  verdict.notes.push_back(
      fmt::format("{} parameters at steps {}", judge.parameters(), fmt::join(steps, ",")));
  for (const std::string& note : judge.notes()) verdict.notes.push_back(note);
  if (!judge.any_moment()) {
    verdict.notes.push_back("no moment was captured: the optimizer keeps none, or none was traced");
  }
  return open.empty() ? passes(verdict) : undecided(verdict, open);
}

}  // namespace shardproof
