// Verdicts first; the legs are those that they name, and what these begin with.
#include "harness/judge/subject_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "harness/judge/saved_checkpoint.h"
#include "invariants/subject_checks.h"

namespace shardproof {
namespace {

using Names = std::vector<std::string>;

const Trace& trace_of(const SubjectLegs& legs, const std::string& name) {
  static const Trace none;
  const auto found = legs.find(name);
  return found == legs.end() ? none : found->second.trace;
}

// Why the resumed leg began elsewhere than at the checkpoint that it was to read.
std::string wrong_start(const Trace& uncut, const Trace& resumed, std::int64_t save) {
  if (resumed.ranks.empty()) return "";
  const std::vector<std::int64_t> steps = resumed.step_numbers();
  const std::int64_t first =
      steps.empty() ? resumed.ranks.front().ended.value_or(save) : steps.front();
  if (first == save) return "";
  for (const RankTrace& rank : uncut.ranks) {
    for (const CheckpointRecord& each : rank.checkpoints) {
      if (!each.done || each.step != first) continue;
      return fmt::format(
          "resumed at step {}, not {}: the program saved again at step {}; save "
          "at {{save}} only, or set subject.save",
          first, save, first);
    }
  }
  return "";  // the check says where it began
}

Verdict judge_resume(const Trace& uncut, const Trace& resumed, std::int64_t save) {
  Verdict verdict = check_subject_resume(uncut, resumed, save);
  const std::string why = wrong_start(uncut, resumed, save);
  if (verdict.outcome == Outcome::pass || why.empty()) return verdict;
  verdict.outcome = Outcome::fail;
  verdict.reason = why;
  verdict.difference.reset();
  return verdict;
}

struct KillLegs {
  std::string uncut, killed, restarted;
  KillPlace planned;
  double deadline = 0;
};

void add_kill_notes(Verdict& verdict, const SubjectLegResult& killed, const KillLegs& names) {
  const bool ended = verdict.outcome == Outcome::pass;
  if (names.planned.stop && !killed.stopped) {
    verdict.notes.emplace_back("SIGSTOP is not confirmed: the rank was not seen stopped");
  }
  if (ended && killed.seconds > 0.8 * names.deadline) {
    verdict.notes.push_back(fmt::format("it ended after {:.0f} s, near its deadline of {:g} s",
                                        killed.seconds, names.deadline));
  }
  if (!ended && names.planned.stop && killed.seconds >= names.deadline) {
    verdict.reason +=
        "; collectives need a timeout below subject.deadline "
        "(init_process_group(timeout=...)); torchrun waits up to 30 s more";
  }
}

Verdict judge_kill(const SubjectLegs& legs, const KillLegs& names) {
  const auto killed = legs.find(names.killed), again = legs.find(names.restarted);
  const bool ran = killed != legs.end() && killed->second.leg.kill.has_value();
  const KillPlace place = ran ? *killed->second.leg.kill : names.planned;
  Verdict verdict =
      check_subject_kill(trace_of(legs, names.killed), place.rank, place.step, place.phase);
  verdict.sentence = fmt::format(
      "rank {} gets SIG{} on entering {} of step {}: the job ends by itself before its deadline, "
      "with an error, and leaves no process; restarted, it ends with the bits of the uncut run",
      place.rank, place.stop ? "STOP" : "KILL", place.phase, place.step);
  if (ran) add_kill_notes(verdict, killed->second, names);
  if (verdict.outcome != Outcome::pass) return verdict;
  if (again == legs.end() || !again->second.skipped.empty()) {
    verdict.outcome = Outcome::inconclusive;
    verdict.reason = fmt::format("leg {} was not run: {}", names.restarted,
                                 again == legs.end() ? "interrupted" : again->second.skipped);
    return verdict;
  }
  const std::int64_t first = again->second.first;
  const Verdict resumed =
      check_subject_resume(trace_of(legs, names.uncut), trace_of(legs, names.restarted), first);
  verdict.outcome = resumed.outcome;
  verdict.difference = resumed.difference;
  if (verdict.outcome != Outcome::pass) {
    verdict.reason = fmt::format("restarted from step {}: {}", first, resumed.reason);
  }
  return verdict;
}

// Every leg of a subject by its name; those that a verdict asks for are taken up, behind what they
// begin with.
class Planner {
 public:
  Planner(const Subject& subject, const LegFolders& folders)
      : subject_(subject), folders_(folders) {}

  void add_layout(const SubjectLayout& layout,
                  const std::function<bool(const std::string&)>& asks) {
    const std::string& name = layout.name;
    if (asks("live")) add(live(name), {leg(name)});
    if (asks("cover")) add(cover(name), {leg(name)});
    if (asks("repeat")) add(repeat(name), {leg(name), leg(name, "repeat")});
    if (asks("layout") && name != "ref") add_layout_check(layout);
    if (asks("resume") && subject_.saves()) {
      add(resume(name), {leg(name), resumed(name, name)});
    }
    if (asks("data")) add_data(name);
    if (asks("checkpoint") && subject_.saves()) add(checkpoint(name), {leg(name)});
  }

  void add_kills(const SubjectLayout& layout) {
    plan_.kills.push_back(layout.name);
    const std::int64_t step = subject_.save + 1;
    const int last = layout.ranks - 1;
    add_kill(layout.name, {last, step, "backward", true});  // it waits the longest
    for (const char* phase : {"forward", "backward", "reduced", "clipped", "optimizer"}) {
      add_kill(layout.name, {last, step, phase, false});
    }
    if (subject_.saves()) add_kill(layout.name, {last, subject_.save - 1, "save", false});
  }

  void add(PlannedCheck check, Names legs) {
    check.legs = std::move(legs);
    plan_.checks.push_back(std::move(check));
  }
  PlannedCheck repeat(const std::string& name) {
    return check(name, "repeat", name + ", the same run twice", [name](const SubjectLegs& legs) {
      return check_repeat(trace_of(legs, name), trace_of(legs, name + ".repeat"));
    });
  }
  // The names of legs.
  std::string leg(const std::string& layout, const std::string& suffix = "",
                  const std::string& args = "") {
    SubjectLeg made{.name = suffix.empty() ? layout : layout + "." + suffix, .layout = layout};
    made.args = args;
    return take(made);
  }
  SubjectPlan plan() { return std::move(plan_); }

 private:
  std::string take(const SubjectLeg& leg) {
    const auto same = [&](const SubjectLeg& each) { return each.name == leg.name; };
    if (std::none_of(plan_.legs.begin(), plan_.legs.end(), same)) plan_.legs.push_back(leg);
    return leg.name;
  }

  // `layout` begins with the checkpoint of a leg of `source`.
  std::string resumed(const std::string& layout, const std::string& source) {
    SubjectLeg made{.name = layout == source ? layout + ".resume" : layout + ".from_" + source,
                    .layout = layout};
    made.from = leg(source);
    return take(made);
  }
  std::string float64(bool from_reference) {
    SubjectLeg made{.name = from_reference ? "float64.from_ref" : "float64", .layout = "ref"};
    made.float64 = true;
    if (from_reference) made.from = leg("ref");
    return take(made);
  }

  PlannedCheck check(const std::string& layout, const std::string& name, std::string subject,
                     std::function<Verdict(const SubjectLegs&)> judge) const {
    PlannedCheck out;
    out.layout = layout;
    out.check = name;
    out.subject = std::move(subject);
    out.judge = std::move(judge);
    return out;
  }

  PlannedCheck live(const std::string& name) const {
    const std::int64_t steps = subject_.steps;
    return check(name, "live", name, [name, steps](const SubjectLegs& legs) {
      std::vector<const Trace*> others;  // whose `code` must be the same
      for (const auto& [other, result] : legs) {
        const bool near = result.leg.layout == name || other == "ref";
        if (near && other != name && !result.trace.ranks.empty()) others.push_back(&result.trace);
      }
      return check_subject_live(trace_of(legs, name), steps, others);
    });
  }

  PlannedCheck cover(const std::string& name) const {
    std::vector<std::int64_t> captured = {-1};
    for (std::int64_t step = 0; step < subject_.steps; ++step) captured.push_back(step);
    return check(name, "cover", name, [name, captured](const SubjectLegs& legs) {
      return check_subject_cover(trace_of(legs, name), captured);
    });
  }

  PlannedCheck resume(const std::string& name) const {
    const std::int64_t save = subject_.save;
    PlannedCheck out =
        check(name, "resume", fmt::format("{} cut at step {}", name, save),
              [name, save](const SubjectLegs& legs) {
                return judge_resume(trace_of(legs, name), trace_of(legs, name + ".resume"), save);
              });
    out.bitwise = true;
    return out;
  }

  void add_data(const std::string& name) {
    const bool cut = subject_.saves();
    PlannedCheck out = check(name, "data", cut ? name + ", uncut and resumed" : name,
                             [name, cut](const SubjectLegs& legs) {
                               const Trace& whole = trace_of(legs, name);
                               Verdict uncut = check_subject_data(whole, nullptr);
                               if (!cut || uncut.outcome != Outcome::pass) return uncut;
                               Verdict resumed =
                                   check_subject_data(trace_of(legs, name + ".resume"), &whole);
                               if (resumed.outcome != Outcome::pass)
                                 resumed.reason = "resumed: " + resumed.reason;
                               return resumed;
                             });
    Names legs = {leg(name)};
    if (cut) legs.push_back(resumed(name, name));
    add(std::move(out), std::move(legs));
  }

  PlannedCheck checkpoint(const std::string& name) const {
    return check(name, "checkpoint", fmt::format("{}: {}", name, subject_.checkpoint),
                 [name, format = subject_.checkpoint, folder = folders_.checkpoint(name),
                  base = subject_.folder, step = subject_.save,
                  silent = !subject_.traces()](const SubjectLegs& legs) {
                   return check_saved(trace_of(legs, name), {format, folder, base, step, silent});
                 });
  }

  void add_layout_check(const SubjectLayout& layout) {
    const std::string name = layout.name;
    if (layout.bitwise) {
      PlannedCheck out = check(
          name, "layout", name + " against ref, bit for bit", [name](const SubjectLegs& legs) {
            return check_subject_bitwise(trace_of(legs, "ref"), trace_of(legs, name));
          });
      out.bitwise = true;
      return add(std::move(out), {leg("ref"), leg(name)});
    }
    struct Start {
      std::string truth;
      Names references;
      std::string found;
    };
    std::vector<Start> starts;
    if (subject_.float64.empty()) {
      Names benign = {leg("ref", "repeat")};
      const auto variant = [&](const char* suffix, const std::string& args) {
        if (!args.empty()) benign.push_back(leg("ref", suffix, args));
      };
      variant("reversed", subject_.reversed);
      variant("accumulate", subject_.accumulate);
      starts.push_back({leg("ref"), benign, leg(name)});
    } else {
      starts.push_back({float64(false), {leg("ref")}, leg(name)});
      if (layout.reshard.value_or(subject_.reshard)) {
        starts.push_back({float64(true), {resumed("ref", "ref")}, resumed(name, "ref")});
      }
    }
    Names legs;
    for (const Start& start : starts) {
      legs.insert(legs.end(), {start.truth, start.found});
      legs.insert(legs.end(), start.references.begin(), start.references.end());
    }
    add(check(name, "layout", fmt::format("{} against {}", name, starts.front().truth),
              [starts](const SubjectLegs& legs) {
                std::vector<SameStart> given;
                for (const Start& start : starts) {
                  SameStart& each = given.emplace_back();
                  each.truth = &trace_of(legs, start.truth);
                  for (const std::string& reference : start.references) {
                    each.references.push_back(&trace_of(legs, reference));
                  }
                  each.found = &trace_of(legs, start.found);
                }
                return check_subject_layout(given);
              }),
        legs);
  }

  void add_kill(const std::string& name, const KillPlace& place) {
    const std::string what =
        fmt::format("{}.{}.{}", name, place.stop ? "stop" : "kill", place.phase);
    SubjectLeg killed{.name = what, .layout = name};
    killed.after = leg(name);
    killed.kill = place;
    SubjectLeg restarted{.name = what + ".restart", .layout = name};
    restarted.from = take(killed);
    restarted.in_place = true;
    const auto resumes = [&](const SubjectLeg& each) { return each.name == name + ".resume"; };
    // Where it is known whether a resume goes well, that is known first.
    if (std::any_of(plan_.legs.begin(), plan_.legs.end(), resumes)) {
      restarted.after = name + ".resume";
    }
    const std::string again = take(restarted);
    PlannedCheck out =
        check(name, "kill", kill_subject(name, place),
              [name, what, again, place, limit = subject_.deadline](const SubjectLegs& legs) {
                return judge_kill(legs, {name, what, again, place, limit});
              });
    out.bitwise = true;
    out.kill = place;
    add(std::move(out), {killed.after, what, again});
  }

  const Subject& subject_;
  const LegFolders& folders_;
  SubjectPlan plan_;
};

template <typename Known>
void check_known(const char* option, const Names& asked, const Known& known) {
  for (const std::string& name : asked) {
    if (std::find(std::begin(known), std::end(known), name) != std::end(known)) continue;
    throw Error(ErrorKind::bad_input, fmt::format("{} {}", option, name),
                fmt::format("expected names of {}", fmt::join(known, ", ")));
  }
}

bool chosen(const Names& choice, const std::string& name) {
  return choice.empty() || std::find(choice.begin(), choice.end(), name) != choice.end();
}

}  // namespace

void check_choice(const Subject& subject, const SubjectChoice& choice) {
  check_known("--only", choice.checks, subject_checks);
  Names layouts;
  for (const SubjectLayout& layout : subject.layouts) layouts.push_back(layout.name);
  check_known("--layout", choice.layouts, layouts);
}

SubjectLeg bare_resume(const std::string& layout) {
  SubjectLeg leg{.name = layout + ".bare_resume", .layout = layout};
  leg.bare = true;
  return leg;
}

std::string kill_subject(const std::string& layout, const KillPlace& place) {
  return fmt::format("{}: SIG{} for rank {} in {} of step {}", layout, place.stop ? "STOP" : "KILL",
                     place.rank, place.phase, place.step);
}

std::string killed_layout(const Subject& subject) {
  if (!subject.kill.empty()) return subject.kill;
  const SubjectLayout* largest = nullptr;
  for (const SubjectLayout& each : subject.layouts) {
    if (each.checks || !each.expect.empty()) continue;
    if (largest == nullptr || each.ranks > largest->ranks) largest = &each;
  }
  return largest == nullptr ? "" : largest->name;
}

SubjectPlan plan_subject(const Subject& subject, const SubjectChoice& choice,
                         const LegFolders& folders) {
  Planner planner(subject, folders);
  planner.leg("ref");  // it is the first to run, whatever is asked
  for (const SubjectLayout& layout : subject.layouts) {
    if (!chosen(choice.layouts, layout.name)) continue;
    const auto asks = [&](const std::string& check) {
      return chosen(choice.checks, check) && layout.asks(check);
    };
    planner.add_layout(layout, asks);
    // A layout that says which checks it wants is killed where that is one.
    const bool killed = layout.checks ? true : layout.name == killed_layout(subject);
    if (asks("kill") && killed && subject.traces()) planner.add_kills(layout);
  }
  return planner.plan();
}

SubjectPlan plan_repeat(const Subject& subject, const std::string& layout) {
  static const LegFolders nowhere;
  Planner planner(subject, nowhere);
  const Names legs = {planner.leg(layout), planner.leg(layout, "repeat")};
  planner.add(planner.repeat(layout), legs);
  return planner.plan();
}

}  // namespace shardproof
