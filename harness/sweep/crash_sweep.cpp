// crash_sweep: see the header.
#include "harness/sweep/crash_sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace shardproof {
namespace {

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \n\t\r");
  if (end == std::string::npos) return "";
  const std::size_t before = text.find_last_of('\n', end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, std::min<std::size_t>(end + 1 - begin, 200));
}

std::string how_it_ended(const LoadRun& load) {
  if (load.timed_out) return "the loader did not end in time";
  if (load.exit_code == 0) return "";
  const std::string line = last_line(load.errors.empty() ? load.printed : load.errors);
  return fmt::format("exit code {}{}{}", load.exit_code, line.empty() ? "" : ": ", line);
}

SaveRun save_uncut(SweepSubject& subject, int number) {
  SaveRun run = subject.save(number);
  if (run.command.timed_out || run.command.exit_code != 0) {
    throw Error(
        ErrorKind::bad_input, fmt::format("crash-sweep: save {}, uncut", number),
        fmt::format("{}; expected exit code 0. It printed:\n{}",
                    run.command.timed_out ? std::string("did not end in time")
                                          : fmt::format("exit code {}", run.command.exit_code),
                    run.command.output));
  }
  if (run.operations.empty()) {
    throw Error(ErrorKind::bad_input, fmt::format("crash-sweep: save {}", number),
                "no file operation under " + subject.root() +
                    " was seen; expected a saver that writes there with the C library "
                    "(dynamically linked, the environment passed on)");
  }
  return run;
}

LoadRun load_uncut(SweepSubject& subject, int number) {
  LoadRun load = subject.load();
  if (load.loaded()) return load;
  throw Error(ErrorKind::bad_input,
              fmt::format("crash-sweep: the load after save {}, uncut", number),
              how_it_ended(load) + "; expected exit code 0");
}

class Sweep {
 public:
  Sweep(SweepSubject& subject, const Baselines& baselines, const SweepChoice& choice,
        const std::function<void(const SweepPoint&)>& seen)
      : subject_(subject), baselines_(baselines), choice_(choice), seen_(seen) {}

  CrashSweep run() {
    result_.mapped = baselines_.mapped;
    for (int i = 0; i < 2; ++i) result_.operations[i] = baselines_.operations[i].size();
    if (choice_.first) sweep_save(1, [&] { subject_.clear(); });
    if (choice_.second) sweep_save(2, [&] { subject_.restore(); });
    return std::move(result_);
  }

 private:
  template <typename Prepare>
  void sweep_save(int save, const Prepare& prepare) {
    const auto& operations = baselines_.operations[save - 1];
    for (std::size_t i = 0; i < operations.size(); ++i) {
      for (const bool half : {false, true}) {
        if (half && (!choice_.torn || operations[i].torn == 0)) continue;
        prepare();
        judge({.save = save, .cut = {i + 1, half}, .operation = operations[i]});
      }
    }
  }

  void judge(SweepPoint point) {
    const SaveRun save = subject_.save(point.save, point.cut);
    // Which operation has a number may differ from run to run where processes race.
    if (save.operations.size() >= point.cut.at) {
      point.operation = save.operations[point.cut.at - 1];
    }
    const LoadRun load = subject_.load();
    const LoadRun& before = point.save == 1 ? baselines_.empty : baselines_.old_one;
    const LoadRun& after = point.save == 1 ? baselines_.old_one : baselines_.new_one;
    point.detail = how_it_ended(load);
    if (!save.fired) {
      point.found = Found::not_reached;
      point.detail =
          fmt::format("it ended after {} operations with exit code {}{}", save.operations.size(),
                      save.command.exit_code, save.command.timed_out ? ", at its deadline" : "");
    } else if (load.timed_out) {
      point.found = Found::hung;
    } else if (!load.loaded()) {
      point.found = Found::none;
    } else {
      point.found = load == before  ? Found::old_state
                    : load == after ? Found::new_state
                                    : Found::mixed;
      if (point.found == Found::mixed) point.detail = "printed: " + last_line(load.printed);
    }
    point.good = point.found == Found::old_state || point.found == Found::new_state ||
                 (point.found == Found::none && !before.loaded());
    if (seen_) seen_(point);
    result_.points.push_back(std::move(point));
  }

  SweepSubject& subject_;
  const Baselines& baselines_;
  const SweepChoice& choice_;
  const std::function<void(const SweepPoint&)>& seen_;
  CrashSweep result_;
};

}  // namespace

std::string_view name(Found found) {
  switch (found) {
    case Found::old_state:
      return "OLD";
    case Found::new_state:
      return "NEW";
    case Found::mixed:
      return "MIXED";
    case Found::none:
      return "NONE";
    case Found::hung:
      return "HUNG";
    case Found::not_reached:
      return "NOT REACHED";
  }
  return "?";
}

std::size_t CrashSweep::count(int save, Found found) const {
  return static_cast<std::size_t>(std::count_if(
      points.begin(), points.end(),
      [&](const SweepPoint& point) { return point.save == save && point.found == found; }));
}

bool CrashSweep::good() const {
  return !points.empty() && std::all_of(points.begin(), points.end(),
                                        [](const SweepPoint& point) { return point.good; });
}

Baselines run_uncut(SweepSubject& subject) {
  Baselines baselines;
  baselines.empty = subject.load();
  subject.clear();
  SaveRun first = save_uncut(subject, 1);
  subject.keep();
  baselines.old_one = load_uncut(subject, 1);
  subject.restore();  // a loader that changes something must not change the next save
  SaveRun second = save_uncut(subject, 2);
  baselines.new_one = load_uncut(subject, 2);
  if (baselines.old_one == baselines.new_one || baselines.empty == baselines.old_one) {
    throw Error(ErrorKind::bad_input, "crash-sweep: the loader",
                "prints the same after both saves, or before any; expected it to print what it "
                "loaded (a digest of the state, the step), on stdout");
  }
  baselines.operations[0] = std::move(first.operations);
  baselines.operations[1] = std::move(second.operations);
  baselines.mapped = first.mapped + second.mapped;
  return baselines;
}

CrashSweep sweep_crashes(SweepSubject& subject, const Baselines& baselines,
                         const SweepChoice& choice,
                         const std::function<void(const SweepPoint&)>& seen) {
  return Sweep(subject, baselines, choice, seen).run();
}

}  // namespace shardproof
