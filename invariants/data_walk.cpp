// data_walk: see data_walk.h.
#include "invariants/data_walk.h"

#include <fmt/format.h>

#include <map>

namespace shardproof {
namespace {

constexpr std::int64_t filler = -1;  // fills a short batch

// The ranks that must see the same samples have the same data coordinates: those of all axes but
// the ones along which a model copy is split.
std::string data_coordinates(const RankTrace& rank) {
  if (rank.run.is_object() && rank.run.contains("coords")) {
    std::string out;
    for (const auto& [axis, at] : rank.run["coords"].items()) {
      const bool splits = axis == "tp" || axis == "pp" || axis == "cp" || axis == "sp";
      if (!splits) out += fmt::format("{}={} ", axis, at.dump());
    }
    return out;
  }
  return std::to_string(rank.rank);
}

}  // namespace

StepSamples samples_of(const Trace& trace, std::int64_t step) {
  std::map<std::string, const StepRecord*> shares;
  StepSamples out;
  for (const RankTrace& rank : trace.ranks) {
    const StepRecord* record = rank.find_step(step);
    if (record == nullptr) {
      out.problem = DataProblem{step, rank.rank, "has no record of this step"};
      return out;
    }
    const auto [at, fresh] = shares.try_emplace(data_coordinates(rank), record);
    if (!fresh && at->second->samples != record->samples) {
      out.problem =
          DataProblem{step, rank.rank, "sees other samples than its model-parallel peers"};
      return out;
    }
    if (!fresh) continue;
    for (const std::int64_t id : record->samples) {
      if (id != filler) out.ids.push_back(id);
    }
  }
  return out;
}

std::optional<DataProblem> DataWalk::take(std::int64_t step, const std::vector<std::int64_t>& ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  const DataProblem wrong_count{
      step, -1, fmt::format("took {} samples, {} {}", count, batch_.said_by, batch_.size)};
  if (count == 0) return DataProblem{step, -1, "took no sample"};
  if (count > batch_.size) return wrong_count;
  if (ends_by_its_place()) {
    if (auto problem = end_epoch(step)) return problem;
  }
  std::set<std::int64_t> now;
  bool repeats = false;
  for (const std::int64_t id : ids) {
    if (id < 0 || (size_ > 0 && id >= size_)) {
      return DataProblem{step, -1,
                         fmt::format("sample {} does not exist (epoch of {})", id, size_)};
    }
    if (!now.insert(id).second) {
      return DataProblem{step, -1,
                         fmt::format("sample {} is on two data ranks or taken twice", id)};
    }
    repeats = repeats || seen_.count(id) != 0;
  }
  if (repeats) {
    if (auto problem = end_epoch(step)) return problem;
  }
  seen_.insert(now.begin(), now.end());
  if (size_ > 0 && taken() > size_) {
    return DataProblem{
        step, -1, fmt::format("takes sample {} of an epoch of {}, by its step", taken(), size_)};
  }
  if (count == batch_.size) return std::nullopt;
  if (!batch_.may_be_short) return wrong_count;
  if (size_ == 0 || midway_) {
    leave_open(
        fmt::format("step {} took {} samples, {} {}: whether it ends an epoch is not "
                    "known",
                    step, count, batch_.said_by, batch_.size));
  } else if (taken() != size_) {
    return wrong_count;
  }
  return std::nullopt;
}

std::optional<DataWalk> DataWalk::across(const std::vector<std::int64_t>& ids) const {
  const auto count = static_cast<std::int64_t>(ids.size());
  const std::int64_t left = size_ - taken();
  const bool may = !batch_.declared && size_ > 0 && !midway_ && before_ == 0;
  if (!may || count != batch_.size || left < 1 || left >= count) return {};
  DataWalk after = *this;
  after.seen_.clear();
  std::set<std::int64_t> ending;
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= size_) return {};
    const bool ends = seen_.count(id) == 0 && ending.insert(id).second;
    if (!ends && !after.seen_.insert(id).second) return {};
  }
  if (static_cast<std::int64_t>(ending.size()) != left) return {};
  ++after.epochs_;
  return after;
}

// Where samples were taken elsewhere, those of the next epoch need not repeat any that was seen.
bool DataWalk::ends_by_its_place() const {
  return before_ > 0 && size_ - taken() < (batch_.must_finish ? 1 : batch_.size);
}

std::optional<DataProblem> DataWalk::end_epoch(std::int64_t step) {
  const std::int64_t left = size_ - taken();
  if (size_ == 0) {
    leave_open("samples repeat and the trace does not say how many an epoch has");
  } else if (midway_) {
    leave_open(
        "the trace begins inside an epoch, which ends in it: what was taken before is not "
        "known");
  } else if (left >= (batch_.must_finish ? 1 : batch_.size)) {
    return DataProblem{
        step, -1, fmt::format("repeats a sample while {} of {} were not yet taken", left, size_)};
  }
  midway_ = false;
  before_ = 0;
  seen_.clear();
  ++epochs_;
  return std::nullopt;
}

void DataWalk::leave_open(const std::string& reason) {
  if (open_.empty()) open_ = reason;
}

std::optional<DataProblem> DataWalks::step(const Trace& trace, std::int64_t step) {
  constexpr std::size_t most = 64;
  const StepSamples samples = samples_of(trace, step);
  if (samples.problem) return samples.problem;
  std::vector<DataWalk> next;
  std::optional<DataProblem> first;
  for (const DataWalk& walk : alive_) {
    DataWalk stays = walk;
    if (auto problem = stays.take(step, samples.ids)) {
      if (!first) first = std::move(problem);
    } else if (next.size() < most) {
      next.push_back(std::move(stays));
    }
    auto across = walk.across(samples.ids);
    if (across && next.size() < most) next.push_back(std::move(*across));
  }
  if (next.empty()) return first;
  alive_.swap(next);
  return std::nullopt;
}

}  // namespace shardproof
