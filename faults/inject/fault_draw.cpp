// fault_draw: the list of what can happen, and draws from it.
#include "faults/inject/fault_draw.h"

#include <algorithm>
#include <map>

#include "base/philox.h"

namespace shardproof {
namespace {

bool wanted(FaultKind kind, const std::vector<FaultKind>& kinds) {
  return kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

// Where a kind happens around what was passed: a point each.
std::vector<Moment> moments_of(FaultKind kind, const PassedPoint& passed) {
  const bool call = passed.point.kind == PointKind::call,
             file = passed.point.kind == PointKind::file;
  if (!call && !file) return {Moment::before};
  if (kind == FaultKind::flip_recv || damages_shard(kind)) return {Moment::after};
  if (!befalls_rank(kind)) return {Moment::before};
  if (call) return {Moment::before, Moment::inside, Moment::after};
  const bool writes = passed.what.starts_with("write ");
  return writes ? std::vector{Moment::before, Moment::torn, Moment::after}
                : std::vector{Moment::before, Moment::after};
}

}  // namespace

void shuffle(std::vector<Fault>& faults, std::uint64_t seed) {
  const Random random(seed, Purpose::test, stream_id("campaign"));
  for (std::size_t i = faults.size(); i > 1; --i) {
    std::swap(faults[i - 1], faults[static_cast<std::size_t>(random.below(i, i))]);
  }
}

std::vector<Fault> faults_at(const PassedPoint& passed, const std::vector<FaultKind>& kinds) {
  std::vector<FaultKind> here = passed.kinds;
  if (passed.point.kind != PointKind::start) {
    for (const FaultKind kind : {FaultKind::kill, FaultKind::stop, FaultKind::exception,
                                 FaultKind::delay, FaultKind::clock_jump}) {
      here.push_back(kind);
    }
  }
  std::vector<Fault> out;
  for (const FaultKind kind : here) {
    if (!wanted(kind, kinds)) continue;
    for (const Moment moment : moments_of(kind, passed)) {
      Fault fault{passed.point, kind, info(kind).usual};
      fault.point.moment = moment;
      out.push_back(fault);
    }
  }
  return out;
}

std::vector<Fault> campaign_faults(const std::vector<PassedPoint>& points,
                                   const std::vector<FaultKind>& kinds) {
  std::vector<Fault> out;
  for (const PassedPoint& point : points) {
    for (const Fault& fault : faults_at(point, kinds)) out.push_back(fault);
  }
  return out;
}

std::vector<Fault> draw_faults(const std::vector<PassedPoint>& points,
                               const std::vector<FaultKind>& kinds, std::uint64_t seed) {
  std::map<FaultKind, std::vector<Fault>> by_kind;
  for (const Fault& fault : campaign_faults(points, kinds)) by_kind[fault.kind].push_back(fault);
  std::vector<Fault> out;
  if (by_kind.empty()) return out;
  const Random random(seed, Purpose::test, stream_id("chaos"));
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t bound) {
    return static_cast<std::size_t>(random.below(bound, draw++));
  };
  const std::size_t count = 1 + below(3);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& faults =
        std::next(by_kind.begin(), static_cast<long>(below(by_kind.size())))->second;
    Fault fault = faults[below(faults.size())];
    fault.run = i == 0 ? 0 : static_cast<int>(below(2));
    out.push_back(fault);
  }
  return out;
}

}  // namespace shardproof
