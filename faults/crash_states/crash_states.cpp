// crash_states: see crash_states.h.
#include "faults/crash_states/crash_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace shardproof::crash {
namespace {

using Kind = Operation::Kind;

// Which of n changes are kept: every combination that the bounds ask for.
std::vector<std::vector<bool>> name_choices(std::size_t n, const Bounds& bounds) {
  std::vector<std::vector<bool>> out;
  if (n <= bounds.all_names) {
    for (std::size_t mask = 0; mask < (std::size_t{1} << n); ++mask) {
      std::vector<bool> kept(n);
      for (std::size_t i = 0; i < n; ++i) kept[i] = (mask >> i & 1) != 0;
      out.push_back(std::move(kept));
    }
    return out;
  }
  for (std::size_t first = 0; first <= n; ++first) {
    std::vector<bool> kept(n);
    std::fill_n(kept.begin(), first, true);
    out.push_back(std::move(kept));
  }
  for (const bool others : {true, false}) {
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = a; b < n; ++b) {
        std::vector<bool> kept(n, others);
        kept[a] = kept[b] = !others;
        out.push_back(std::move(kept));
      }
    }
  }
  return out;
}

// Which variant each file has, given how many it has (0: all bytes kept, 1: all lost).
std::vector<std::vector<std::size_t>> byte_choices(const std::vector<std::size_t>& counts,
                                                   const Bounds& bounds) {
  std::vector<std::vector<std::size_t>> out{std::vector<std::size_t>(counts.size())};
  std::size_t product = 1;
  for (const std::size_t count : counts) product = std::min(product * count, bounds.all_bytes + 1);
  if (product <= bounds.all_bytes) {
    for (std::size_t file = 0; file < counts.size(); ++file) {
      for (std::size_t i = 0, have = out.size(); i < have; ++i) {
        for (std::size_t variant = 1; variant < counts[file]; ++variant) {
          out.push_back(out[i]);
          out.back()[file] = variant;
        }
      }
    }
    return out;
  }
  const std::size_t most = *std::max_element(counts.begin(), counts.end());
  for (std::size_t variant = 1; variant < most; ++variant) {
    out.emplace_back();
    for (const std::size_t count : counts) out.back().push_back(std::min(variant, count - 1));
  }
  for (const std::size_t others : {0, 1}) {
    for (std::size_t file = 0; file < counts.size(); ++file) {
      for (std::size_t variant = 0; variant < counts[file]; ++variant) {
        out.emplace_back();
        for (const std::size_t count : counts) out.back().push_back(std::min(others, count - 1));
        out.back()[file] = variant;
      }
    }
  }
  return out;
}

class Enumeration {
 public:
  Enumeration(const std::vector<Operation>& operations, const Bounds& bounds,
              const std::function<bool(const CrashState&)>& visit)
      : operations_(operations), bounds_(bounds), visit_(visit) {}

  Enumerated run() {
    const bool all = std::none_of(operations_.begin(), operations_.end(),
                                  [](const Operation& o) { return o.kind == Kind::crash_from; });
    bool asked = all;
    if (all) after_prefix(0);
    for (std::size_t i = 0; i < operations_.size() && !result_.stopped; ++i) {
      const Kind kind = operations_[i].kind;
      model_.apply(operations_[i]);
      if (kind == Kind::promise || kind == Kind::release) promises_ += 1;
      if (kind == Kind::crash_from) asked = true;
      if (asked && kind != Kind::close) after_prefix(i + 1);
    }
    return result_;
  }

 private:
  void after_prefix(std::size_t operations) {
    for (const auto& kept : name_choices(model_.changes().size(), bounds_)) {
      if (result_.stopped) return;
      DiskModel::Tree tree = model_.tree(kept);
      CrashState state;
      state.operations = operations;
      classify_names(kept, state);
      with_bytes(std::move(tree), kept, std::move(state));
    }
  }

  void classify_names(const std::vector<bool>& kept, CrashState& state) const {
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (kept[i] && !state.lost.empty()) state.names = Names::reordered;
      if (kept[i]) continue;
      state.lost.push_back(model_.changes()[i].operation);
      if (state.names == Names::kept) state.names = Names::lost;
    }
  }

  bool newly_linked(int node, const std::vector<bool>& kept) const {
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const DiskModel::Change& change = model_.changes()[i];
      if (kept[i] && change.link && change.node == node) return true;
    }
    return false;
  }

  void with_bytes(DiskModel::Tree tree, const std::vector<bool>& kept, CrashState state) {
    // One file may have several names: it has the same bytes under all of them.
    std::vector<int> files;
    std::vector<std::size_t> counts;
    for (const auto& [path, node] : tree.open) {
      if (std::find(files.begin(), files.end(), node) != files.end()) continue;
      files.push_back(node);
      counts.push_back(model_.variants(node).size());
    }
    state.disk = std::move(tree.disk);
    for (const auto& choice : byte_choices(counts, bounds_)) {
      state.bytes = Bytes::kept;
      state.link_before_bytes = false;
      state.damaged.clear();
      for (const auto& [path, node] : tree.open) {
        const auto file =
            static_cast<std::size_t>(std::find(files.begin(), files.end(), node) - files.begin());
        const DiskModel::Variant& variant = model_.variants(node)[choice[file]];
        state.disk[path] = variant.content;
        if (variant.bytes == Bytes::kept) continue;
        state.bytes = std::max(state.bytes, variant.bytes);
        state.damaged.push_back(path);
        if (newly_linked(node, kept)) state.link_before_bytes = true;
      }
      offer(state);
      if (result_.stopped) return;
    }
  }

  void offer(const CrashState& state) {
    ++result_.derived;
    std::string key = std::to_string(promises_);
    for (const auto& [path, content] : state.disk) {
      key += '\n' + path + '\0' + std::to_string(content.id);
    }
    if (!seen_.insert(std::move(key)).second) return;
    ++result_.different;
    if (!visit_(state)) result_.stopped = true;
  }

  const std::vector<Operation>& operations_;
  const Bounds& bounds_;
  const std::function<bool(const CrashState&)>& visit_;
  DiskModel model_;
  int promises_ = 0;
  std::unordered_set<std::string> seen_;
  Enumerated result_;
};

}  // namespace

std::string CrashState::kind() const {
  constexpr const char* name_words[] = {"kept", "lost", "reordered"};
  constexpr const char* byte_words[] = {"kept", "lost", "torn", "zeroed", "stale"};
  return fmt::format("names {}, bytes {}", name_words[static_cast<int>(names)],
                     byte_words[static_cast<int>(bytes)]);
}

std::string CrashState::explain(const std::vector<Operation>& all) const {
  std::string out = fmt::format("crash after {} operations ({})", operations, kind());
  constexpr std::size_t shown = 12;
  for (std::size_t i = operations > shown ? operations - shown : 0; i < operations; ++i) {
    const bool gone = std::find(lost.begin(), lost.end(), i) != lost.end();
    out += fmt::format("\n  rank {} {}{}", all[i].rank, all[i].label(), gone ? "   <- lost" : "");
  }
  for (const std::string& path : damaged) out += "\n  unsynced bytes damaged: " + path;
  return out;
}

Enumerated for_each_crash_state(const std::vector<Operation>& operations, const Bounds& bounds,
                                const std::function<bool(const CrashState&)>& visit) {
  return Enumeration(operations, bounds, visit).run();
}

}  // namespace shardproof::crash
