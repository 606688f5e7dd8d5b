// survey: see survey.h.
#include "faults/crash_states/survey.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardproof::crash {
namespace {

constexpr std::size_t broken_shown = 5;

// What must be there after the first n operations.
class Promises {
 public:
  explicit Promises(const std::vector<Operation>& operations) {
    std::set<std::string> now;
    after_.push_back(now);
    for (const Operation& operation : operations) {
      if (operation.kind == Operation::Kind::promise) now.insert(operation.path);
      if (operation.kind == Operation::Kind::release) now.erase(operation.path);
      after_.push_back(now);
    }
  }
  const std::set<std::string>& after(std::size_t operations) const { return after_[operations]; }

 private:
  std::vector<std::set<std::string>> after_;
};

bool has_new_manifest(const Disk& disk, const std::set<std::string>& given) {
  for (const auto& [path, content] : disk) {
    if (!path.ends_with(".manifest.json")) continue;
    if (!given.contains(path.substr(0, path.find(".manifest.json")))) return true;
  }
  return false;
}

void judge_states(const Scenario& scenario, const SurveyOptions& options, CrashWorld& world,
                  RankOrder order, Tally& tally) {
  const auto operations = ordered(world.journal().operations(), order);
  const Promises promises(operations);
  Judge judge(world.expected(), world.given());
  std::size_t at = 0;
  const Enumerated found =
      for_each_crash_state(operations, options.bounds, [&](const CrashState& state) {
        if (at++ % options.stride != 0 && !has_new_manifest(state.disk, world.given())) return true;
        const Finding finding = judge.judge(*mount(state.disk), promises.after(state.operations));
        ++tally.judged;
        ++tally.by_kind[state.kind()][finding.verdict];
        tally.linked_early += state.link_before_bytes ? 1 : 0;
        if (finding.verdict == Verdict::broken && tally.broken.size() < broken_shown) {
          tally.broken.push_back(
              fmt::format("{}: {}\n{}", scenario.name, finding.why, state.explain(operations)));
        }
        return finding.verdict != Verdict::broken || !options.stop_at_first;
      });
  tally.derived += found.derived;
  tally.different += found.different;
}

// Whether a lone writer asked for all that happened after what is given.
bool one_order(const std::vector<Operation>& operations) {
  return std::none_of(
      std::find_if(
          operations.begin(), operations.end(),
          [](const Operation& operation) { return operation.kind == Operation::Kind::settle; }),
      operations.end(), [](const Operation& operation) { return operation.rank != 0; });
}

// Runs the turn in a new world. True: there is another.
bool run_turn(const Scenario& scenario, const Journal::Hook& hook, int turn, CrashWorld& world) {
  if (scenario.given) scenario.given(world);
  world.settle();
  if (hook) world.journal().set_hook(hook);
  const bool more = scenario.happens(world, turn);
  world.journal().set_hook({});
  return more;
}

}  // namespace

Tally survey(const Scenario& scenario, const SurveyOptions& options) {
  Tally tally;
  bool more = true;
  for (int turn = 0; more; ++turn) {
    CrashWorld world;
    more = run_turn(scenario, options.hook, turn, world);
    const bool one = one_order(world.journal().operations());
    for (const RankOrder order : options.orders) {
      if (one && order != options.orders.front()) continue;
      judge_states(scenario, options, world, order, tally);
      if (options.stop_at_first && !tally.broken.empty()) return tally;
    }
  }
  return tally;
}

std::vector<Disk> disks_after(const Scenario& scenario,
                              const std::function<bool(std::size_t)>& keep) {
  std::vector<Disk> disks;
  std::size_t count = 0;
  bool more = true;
  for (int turn = 0; more; ++turn) {
    CrashWorld world;
    more = run_turn(scenario, {}, turn, world);
    const auto operations = ordered(world.journal().operations(), RankOrder::ascending);
    for_each_crash_state(operations, {}, [&](const CrashState& state) {
      if (keep(count++)) disks.push_back(state.disk);
      return true;
    });
  }
  return disks;
}

std::size_t Tally::count(Verdict verdict) const {
  std::size_t sum = 0;
  for (const auto& [kind, verdicts] : by_kind) {
    const auto found = verdicts.find(verdict);
    sum += found == verdicts.end() ? 0 : found->second;
  }
  return sum;
}

void Tally::add(const Tally& other) {
  for (const auto& [kind, verdicts] : other.by_kind) {
    for (const auto& [verdict, count] : verdicts) by_kind[kind][verdict] += count;
  }
  derived += other.derived;
  different += other.different;
  judged += other.judged;
  linked_early += other.linked_early;
  broken.insert(broken.end(), other.broken.begin(), other.broken.end());
}

std::string Tally::print() const {
  const auto row = [](const std::string& name, const std::map<Verdict, std::size_t>& counts) {
    const auto of = [&](Verdict verdict) {
      const auto found = counts.find(verdict);
      return found == counts.end() ? std::size_t{0} : found->second;
    };
    return fmt::format("{:<32}{:>8}{:>8}{:>10}{:>8}\n", name, of(Verdict::old_one),
                       of(Verdict::new_one), of(Verdict::none_yet), of(Verdict::broken));
  };
  std::string out = fmt::format("{:<32}{:>8}{:>8}{:>10}{:>8}\n", "what the crash left", "old",
                                "new", "none yet", "broken");
  std::map<Verdict, std::size_t> total;
  for (const auto& [kind, verdicts] : by_kind) {
    out += row(kind, verdicts);
    for (const auto& [verdict, count] : verdicts) total[verdict] += count;
  }
  out += row("all", total);
  return out + fmt::format(
                   "{} states derived, {} different, {} judged; a link before its file's "
                   "bytes in {}\n",
                   derived, different, judged, linked_early);
}

}  // namespace shardproof::crash
