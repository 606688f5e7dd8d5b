// drill: see drill.h.
#include "harness/drill.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/agreement.h"
#include "checkpoint/manifest.h"
#include "harness/continued.h"
#include "harness/request_file.h"
#include "mesh/layout.h"

namespace shardproof {
namespace {

constexpr std::string_view line_prefix = "@drill ";

std::string last_line(const std::string& output) {
  std::istringstream lines(output);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) last = line;
  }
  return last.empty() ? "it said nothing" : last;
}

// The first thing in which a step differs; empty: none.
std::string difference(const StepResult& ours, const StepResult& theirs) {
  const Json one = to_json(ours), two = to_json(theirs);
  for (const auto& item : one.items()) {
    if (item.value() == two.at(item.key())) continue;
    return fmt::format("step {}, {}: the run has {}, the checkpoint gives {}", ours.step,
                       item.key(), item.value().dump(), two.at(item.key()).dump());
  }
  return "";
}

}  // namespace

std::vector<std::string> drill_layouts(const Config& config) {
  const Layout own = parse_layout(config.run.layout);
  if (config.numerics.reduction == "native") return {own.print()};
  std::vector<std::string> legal;
  for (const char* name : {"dp2.zero1", "tp2", "dp2.zero3", "cp2", "dp1"}) {
    if (parse_layout(name) == own) continue;
    try {
      check(on_layout(config, name));
      legal.emplace_back(name);
    } catch (const Error&) {  // not one for this Case
    }
  }
  if (legal.empty()) legal.push_back(own.print());
  return legal;
}

std::string print_drill(const DrillResult& result) {
  Json json{{"steps", Json::array()}, {"state_digest", result.state.hex()}};
  for (const StepResult& step : result.steps) json["steps"].push_back(to_json(step));
  return std::string(line_prefix) + json.dump();
}

std::optional<DrillResult> find_drill(const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(line_prefix)) continue;
    const std::string place = "output of a drill";
    const Json json = parse_json(line.substr(line_prefix.size()), place, ErrorKind::corrupt);
    DrillResult result;
    for (const Json& step : member(json, "steps", place)) {
      result.steps.push_back(step_result_from_json(step, place));
    }
    result.state = Digest::from_hex(string_member(json, "state_digest", place));
    return result;
  }
  return std::nullopt;
}

std::string Drill::Record::name() const {
  return fmt::format("drill of checkpoint {} on {}", step_id(from), layout);
}

Drill::Drill(const Config& config, const DrillOptions& options, Communicator& comm,
             std::function<void(const std::string&)> say)
    : config_(config),
      options_(options),
      layouts_(drill_layouts(config)),
      comm_(comm),
      say_(std::move(say)) {
  if (config.numerics.reduction == "native" && config.run.backend == "mpi") {
    throw Error(ErrorKind::refused, "checkpoint.drill_every",
                "native reduction on MPI processes has bits of its own, which a drill's threads do "
                "not have; expected canonical reduction, run.backend threads, or 0");
  }
}

void Drill::begun(std::int64_t step) {
  if (++saves_ % static_cast<std::size_t>(options_.every) != 0) return;
  records_.push_back({step, layouts_[drills_++ % layouts_.size()]});
}

void Drill::saved(std::int64_t step) {
  const auto found = std::ranges::find(records_, step, &Record::from);
  if (found == records_.end()) return;
  found->saved = true;
  while (!child_ended(true)) {
  }
  start(*found);
}

std::set<std::string> Drill::in_use() const {
  std::set<std::string> ids;
  for (const Record& record : records_) {
    if (!record.ended) ids.insert(step_id(record.from));
  }
  return ids;
}

void Drill::start(Record& record) {
  running_ = record.from;
  agreed(comm_, [&] {
    if (comm_.rank() == 0) {
      child_ = std::make_unique<Child>(
          std::vector<std::string>{options_.program, "drill", config_.checkpoint.directory,
                                   step_id(record.from), "--layout", record.layout, "--steps",
                                   std::to_string(options_.steps)},
          options_.deadline);
    }
    return std::string();
  });
}

// True when no process is at work. Rank 0 waits in short spells, so that no rank waits long for it.
bool Drill::child_ended(bool wait) {
  if (running_ < 0) return true;
  constexpr auto spell = std::chrono::milliseconds(200);
  std::int64_t going_on = 0;
  if (comm_.rank() == 0) going_on = child_->ended(wait ? Duration(spell) : Duration()) ? 0 : 1;
  broadcast(comm_, &going_on, 1, Dtype::i64, 0);
  if (going_on != 0) return false;
  Record& record = *std::ranges::find(records_, running_, &Record::from);
  record.ended = true;
  if (comm_.rank() == 0) record.theirs = child_->result();
  child_.reset();
  running_ = -1;
  return true;
}

void Drill::after_step(const StepResult& result, const std::function<Digest()>& state) {
  const bool back = result.step <= last_step_;
  last_step_ = result.step;
  for (Record& record : records_) {
    record.went_back = record.went_back || (back && result.step < record.from + options_.steps);
    if (result.step < record.from || complete(record)) continue;
    record.ours.push_back(result);
    if (complete(record)) record.state = state();
  }
  child_ended(false);
  while (!records_.empty() && records_.front().ended && complete(records_.front())) judge_front();
}

bool Drill::complete(const Record& record) const {
  return record.ours.size() == static_cast<std::size_t>(options_.steps);
}

void Drill::finish(bool stopped) {
  while (!stopped && !child_ended(true)) {
  }
  child_.reset();
  running_ = -1;
  for (; !records_.empty(); stopped ? records_.pop_front() : judge_front()) {
    const Record& record = records_.front();
    if (stopped && comm_.rank() == 0) say_(record.name() + ": not finished, the run was stopped");
  }
}

void Drill::judge_front() {
  const Record record = std::move(records_.front());
  records_.pop_front();
  agreed(comm_, [&] {
    if (comm_.rank() == 0) say_(record.name() + ": " + verdict(record));
    return std::string();
  });
}

std::string Drill::verdict(const Record& record) const {
  const auto fail = [&](ErrorKind kind, const std::string& why) {
    throw Error(kind, record.name(), why);
  };
  const ChildResult& child = *record.theirs;
  if (child.timed_out) {
    fail(ErrorKind::timeout,
         fmt::format("its process had not ended after {} s",
                     std::chrono::duration_cast<std::chrono::seconds>(options_.deadline).count()));
  }
  const std::optional<DrillResult> theirs =
      child.exit_code == 0 ? find_drill(child.output) : std::nullopt;
  if (!theirs) {
    fail(ErrorKind::corrupt, fmt::format("its process ended with exit code {}: {}", child.exit_code,
                                         last_line(child.output)));
  }
  if (record.went_back) return "verified and continued; nothing compared, for the run went back";
  if (theirs->steps.size() != static_cast<std::size_t>(options_.steps)) {
    fail(ErrorKind::corrupt, fmt::format("its process did {} steps; expected {}",
                                         theirs->steps.size(), options_.steps));
  }
  for (std::size_t i = 0; i < record.ours.size(); ++i) {
    const std::string text = difference(record.ours[i], theirs->steps[i]);
    if (!text.empty()) fail(ErrorKind::mismatch, text);
  }
  if (record.state && *record.state != theirs->state) {
    fail(ErrorKind::mismatch,
         fmt::format("state digest before step {}: the run has {}, the checkpoint gives {}",
                     record.from + options_.steps, record.state->hex(), theirs->state.hex()));
  }
  return record.state
             ? fmt::format("verified; {} steps on, it has the bits of the run", options_.steps)
             : fmt::format(
                   "verified and continued for {} steps; the run ended after {} of "
                   "them, which have its bits",
                   options_.steps, record.ours.size());
}

}  // namespace shardproof
