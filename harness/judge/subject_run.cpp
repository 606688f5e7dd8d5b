// Legs side by side: a thread each, woken when a leg has ended.
#include "harness/judge/subject_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <list>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "invariants/subject_checks.h"

namespace shardproof {

SubjectRun::SubjectRun(const Subject& subject, SubjectRunOptions options)
    : subject_(subject), options_(std::move(options)) {}

SubjectLeg SubjectRun::placed(SubjectLeg leg) const {
  if (!leg.kill) return leg;
  const Trace& trace = results_.at(leg.after).trace;
  if (passes_place(trace, *leg.kill)) return leg;
  for (const RankTrace& rank : trace.ranks) {
    KillPlace place = *leg.kill;
    place.rank = rank.rank;
    if (passes_place(trace, place)) leg.kill = place;  // the last of them
  }
  return leg;
}

bool SubjectRun::fails_to_resume(const std::string& layout) const {
  const auto uncut = results_.find(layout), resumed = results_.find(layout + ".resume");
  if (uncut == results_.end() || resumed == results_.end()) return false;
  if (!resumed->second.problem.empty()) return true;
  if (!uncut->second.good() || !resumed->second.good()) return false;
  const Verdict verdict =
      check_subject_resume(uncut->second.trace, resumed->second.trace, subject_.save);
  return verdict.outcome == Outcome::fail;
}

bool SubjectRun::lacks_place(const SubjectLeg& leg) const {
  if (leg.kill) return !passes_place(results_.at(leg.after).trace, *leg.kill);
  return leg.in_place && results_.at(leg.from).no_place;
}

std::string SubjectRun::reason_to_skip(const SubjectLeg& leg) const {
  const auto reference = results_.find("ref");
  if (reference != results_.end() && !reference->second.good()) {
    return "the reference did not end well";
  }
  for (const std::string& needed : {leg.from, leg.after}) {
    if (needed.empty()) continue;
    const SubjectLegResult& before = results_.at(needed);
    const bool restart_waits = leg.in_place && needed == leg.after;
    if (restart_waits) continue;  // what it says of the restart is asked below
    if (!before.skipped.empty()) return before.skipped;
    if (needed == leg.after && !before.good()) {
      return fmt::format("leg {} did not end well", needed);
    }
  }
  if (!leg.from.empty() && !leg.in_place) {
    if (subject_.traces() && !has_saved(results_.at(leg.from).trace)) {
      return fmt::format("leg {} wrote no checkpoint event that says done", leg.from);
    }
    std::error_code ignored;
    if (!std::filesystem::exists(options_.folders.checkpoint(leg.from), ignored)) {
      return fmt::format("leg {} left nothing at {{ckpt}}", leg.from);
    }
  }
  if (lacks_place(leg)) {
    const KillPlace& place = leg.kill ? *leg.kill : *results_.at(leg.from).leg.kill;
    return fmt::format("no rank enters phase {} in step {}", place.phase, place.step);
  }
  if (leg.in_place && fails_to_resume(leg.layout)) return "its resume fails already";
  return "";
}

SubjectLegResult SubjectRun::run_one(const SubjectLeg& leg) {
  try {
    return run_subject_leg(subject_, leg, options_.folders, options_.stop);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::environment || error.kind() == ErrorKind::io) throw;
    SubjectLegResult result;  // what it restarts from cannot be read
    result.leg = leg;
    result.problem = error.what();
    return result;
  }
}

void SubjectRun::check_first(const SubjectLegResult& result) const {
  if (result.traced || result.interrupted) return;
  constexpr int no_command = 127;
  const std::string place = subject_.file + ": subject.launch";
  if (result.exit_code == no_command) {
    throw Error(ErrorKind::environment, place,
                fmt::format("the command is not there: {}", result.problem));
  }
  if (!subject_.traces()) {
    throw Error(ErrorKind::bad_input, place,
                fmt::format("leg {} {}. Expected the scalars of {} in its output, or "
                            "in what it writes at {{scalars}}",
                            result.leg.name, result.problem, subject_.scalars));
  }
  throw Error(ErrorKind::bad_input, place,
              fmt::format("leg {} {}. Expected rank_00000.jsonl in the folder that "
                          "SHARDPROOF_TRACE names: let the program write it with "
                          "shardproof_trace.py or shardproof_trace.h, and let the launch pass its "
                          "environment on to every rank",
                          result.leg.name, result.problem));
}

void SubjectRun::tell(const SubjectLegResult& result) const {
  std::string line = fmt::format("  leg {:<28} ", result.leg.name);
  if (!result.skipped.empty()) {
    line += fmt::format("not run: {}", result.skipped);
  } else {
    line += fmt::format("{:6.1f} s", result.seconds);
    if (result.interrupted) line += "  interrupted";
    if (result.leg.bare) line += "  without the checkpoint:";
    if (!result.problem.empty()) line += "  " + result.problem;
    if (!result.unclean.empty()) line += "  unclean exit: " + result.unclean;
  }
  options_.say(line);
}

bool SubjectRun::run(const std::vector<SubjectLeg>& legs) {
  std::mutex mutex;
  std::condition_variable ended;
  std::list<SubjectLeg> waiting;
  for (const SubjectLeg& leg : legs) {
    if (!results_.contains(leg.name)) waiting.push_back(leg);
  }
  int running = 0;
  std::exception_ptr failure;
  std::vector<std::jthread> threads;                // joined before what they use goes
  const auto keep = [&](SubjectLegResult result) {  // under the lock
    tell(result);
    const std::string name = result.leg.name;
    results_[name] = std::move(result);
  };
  const auto work = [&](const SubjectLeg& leg) {
    SubjectLegResult result;
    std::exception_ptr thrown;
    try {
      result = run_one(leg);
    } catch (const std::exception&) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    if (thrown) failure = thrown;
    if (!thrown) keep(std::move(result));
    --running;
    ended.notify_all();
  };
  const auto ready = [&](const SubjectLeg& leg) {
    return (leg.from.empty() || results_.contains(leg.from)) &&
           (leg.after.empty() || results_.contains(leg.after));
  };
  std::unique_lock lock(mutex);
  while (!failure && !stopped()) {
    const int room = results_.empty() ? 1 : options_.at_once;
    const auto next =
        running < room ? std::find_if(waiting.begin(), waiting.end(), ready) : waiting.end();
    if (next == waiting.end()) {
      if (running == 0) break;
      ended.wait(lock);
      continue;
    }
    const SubjectLeg leg = placed(*next);
    waiting.erase(next);
    SubjectLegResult skipped;
    skipped.leg = leg;
    skipped.skipped = reason_to_skip(leg);
    skipped.no_place = lacks_place(leg);
    if (!skipped.skipped.empty()) {
      keep(std::move(skipped));
      continue;
    }
    ++running;
    threads.emplace_back(work, leg);
    if (!results_.empty()) continue;
    ended.wait(lock, [&] { return running == 0; });
    if (results_.contains(leg.name)) check_first(results_.at(leg.name));
  }
  ended.wait(lock, [&] { return running == 0; });
  if (failure) std::rethrow_exception(failure);
  return !stopped();
}

}  // namespace shardproof
