// process_state: one line of /proc a process.
#include "harness/process_state.h"

#include <fstream>
#include <string>

namespace shardproof {
std::optional<char> process_state(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  const std::size_t name_end = line.rfind(')');  // a name may hold anything
  if (name_end == std::string::npos || name_end + 2 >= line.size()) return std::nullopt;
  return line[name_end + 2];
}

void StoppedRanks::watch(int rank, pid_t pid) {
  if (pid > 0) ranks_[rank] = {pid, false};
}

void StoppedRanks::forget(int rank) {
  ranks_.erase(rank);
}

std::vector<int> StoppedRanks::look() {
  std::vector<int> out;
  const Duration now = Clock::real().now();
  if (now - looked_ < between_looks_) return out;
  looked_ = now;
  for (auto& [rank, watched] : ranks_) {
    const auto state = process_state(watched.pid);
    if (!state || *state == 'Z') continue;
    const bool stopped = *state == 'T' || *state == 't';
    if (stopped && !watched.stopped) out.push_back(rank);
    watched.stopped = stopped;
  }
  return out;
}

bool StoppedRanks::is_stopped(int rank) const {
  const auto found = ranks_.find(rank);
  return found != ranks_.end() && found->second.stopped;
}

bool StoppedRanks::is_stopped_now(int rank) const {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return false;
  const auto state = process_state(found->second.pid);
  return state && (*state == 'T' || *state == 't');
}

std::optional<int> StoppedRanks::first() const {
  for (const auto& [rank, watched] : ranks_) {
    if (watched.stopped) return rank;
  }
  return std::nullopt;
}

}  // namespace shardproof
