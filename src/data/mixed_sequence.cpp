// mixed_sequence: draws, cursors of sources, and what a resume may change.
#include "data/mixed_sequence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "data/mixture.h"
#include "data/order.h"

namespace shardproof {
namespace {

constexpr std::int64_t most_epochs = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t most_samples = std::int64_t{1} << 62;

template <typename Sources>
Mixture mixture_of(const Sources& sources, std::uint64_t seed) {
  std::vector<double> weights;
  for (const auto& source : sources) weights.push_back(source.weight);
  return Mixture(weights, seed);
}

std::int64_t drawn(const SourceCursor& at) {
  return at.epoch * at.size + at.taken;
}

template <typename Sources>
std::string describe(const Sources& sources) {
  std::vector<std::string> words;
  for (const auto& each : sources) words.push_back(fmt::format("{} {}", each.name, each.weight));
  return fmt::format("{}", fmt::join(words, ", "));
}

[[noreturn]] void refuse(const std::string& what, const std::string& expected,
                         const std::string& found) {
  throw Error(ErrorKind::refused, "data cursor",
              fmt::format("{}: expected {}, found {}", what, expected, found));
}

// What a number of the cursor must be, whatever the mixture.
std::optional<CursorProblem> range_problem(const DataCursor& cursor) {
  std::optional<CursorProblem> problem;
  const auto want = [&](const std::string& field, bool holds, const std::string& expected,
                        const auto& found) {
    if (!holds && !problem) problem = CursorProblem{field, expected, fmt::format("{}", found)};
  };
  want("sources", !cursor.sources.empty(), "the sources of a mixture", "none");
  want("samples", cursor.samples >= 0 && cursor.samples < most_samples, "0 to 2^62",
       cursor.samples);
  want("since", cursor.since >= 0 && cursor.since <= cursor.samples,
       fmt::format("0 to {} samples", cursor.samples), cursor.since);
  double weights = 0;
  for (std::size_t i = 0; i < cursor.sources.size(); ++i) {
    const SourceCursor& at = cursor.sources[i];
    const auto named = [i](const char* key) { return fmt::format("sources[{}].{}", i, key); };
    want(named("weight"), std::isfinite(at.weight) && at.weight >= 0, ">= 0", at.weight);
    want(named("size"), at.size > 0 && at.size < most_samples, "> 0", at.size);
    want(named("taken"), at.taken >= 0 && at.taken < at.size, fmt::format("0 to {}", at.size - 1),
         at.taken);
    want(named("epoch"),
         at.epoch >= 0 && at.epoch < most_epochs &&
             (at.epoch == 0 || at.size <= most_samples / at.epoch),
         fmt::format(">= 0, and at most {} samples with size {}", most_samples, at.size), at.epoch);
    want(named("before"), at.before >= 0 && at.before <= cursor.since,
         fmt::format("0 to {}", cursor.since), at.before);
    weights += at.weight;
  }
  want("sources", weights > 0 && std::isfinite(weights), "weights above 0", weights);
  return problem;
}

class MixedSequence : public Sequence {
 public:
  MixedSequence(const std::vector<Source>& sources, const LoaderConfig& config)
      : sources_(sources),
        seed_(config.seed),
        step_(std::int64_t{config.micro_batches} * config.rows),
        mixture_(mixture_of(sources, config.seed)),
        orders_(sources.size()) {}

  DataCursor start() const override {
    DataCursor cursor;
    for (const Source& source : sources_) cursor.sources.push_back(begun(source));
    return cursor;
  }

  StepPlan take(const DataCursor& from) override {
    StepPlan plan;
    plan.after = from;
    for (std::int64_t i = 0; i < step_; ++i) {
      const auto draw = mixture_.at(from.samples - from.since + i);
      const auto source = static_cast<std::size_t>(draw.source);
      SourceCursor& at = plan.after.sources[source];
      plan.ids.push_back(sources_[source].first + order(source, at.epoch).at(at.taken));
      if (++at.taken == at.size) {
        ++at.epoch;
        at.taken = 0;
      }
    }
    plan.after.samples += step_;
    plan.after.ledger = chain(from.ledger, plan.ids);
    return plan;
  }

  DataCursor adopt(const DataCursor& cursor, Remix remix) const override {
    if (const auto problem = mixed_cursor_problem(cursor, seed_)) {
      refuse(problem->field, problem->expected, problem->found);
    }
    for (const std::int64_t samples : {cursor.samples, cursor.since}) {
      if (samples % step_ != 0) {
        refuse("samples and since", fmt::format("whole steps of {}", step_),
               fmt::format("{} and {}", cursor.samples, cursor.since));
      }
    }
    const bool same = is_same(cursor);
    if (!same && remix == Remix::refuse) {
      refuse("data.sources",
             fmt::format("{} (or data.remix=true, which goes on with these)", describe(sources_)),
             describe(cursor.sources));
    }
    check_kept(cursor);
    return same ? cursor : remixed(cursor);
  }

 private:
  struct EpochOf {
    std::int64_t epoch = 0;
    EpochOrder order;
  };

  static SourceCursor begun(const Source& source) {
    return {source.name, source.weight, source.size, source.digest, 0, 0, 0};
  }

  const EpochOrder& order(std::size_t source, std::int64_t epoch) {
    std::optional<EpochOf>& known = orders_[source];
    if (!known || known->epoch != epoch) {
      known.emplace(EpochOf{epoch, {sources_[source].size, sources_[source].seed, epoch}});
    }
    return known->order;
  }

  // Names and weights; what is behind the names is checked apart.
  bool is_same(const DataCursor& cursor) const {
    if (cursor.sources.size() != sources_.size()) return false;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const SourceCursor& there = cursor.sources[i];
      if (there.name != sources_[i].name || there.weight != sources_[i].weight) return false;
    }
    return true;
  }

  // A sample keeps its id, so the sources that were there stay what they were, in their places.
  void check_kept(const DataCursor& cursor) const {
    for (std::size_t i = 0; i < cursor.sources.size(); ++i) {
      const SourceCursor& there = cursor.sources[i];
      if (i >= sources_.size() || sources_[i].name != there.name) {
        refuse(fmt::format("source {} of data.sources", i),
               fmt::format("{} to stay where it was (with weight 0, where it is not wanted)",
                           there.name),
               i < sources_.size() ? sources_[i].name : "none");
      }
      const Source& here = sources_[i];
      if (there.size != here.size) {
        refuse(fmt::format("samples of source {}", here.name), std::to_string(here.size),
               std::to_string(there.size));
      }
      if (there.digest != here.digest) {
        refuse(fmt::format("digest of source {}", here.name), here.digest.hex(),
               there.digest.hex());
      }
    }
  }

  DataCursor remixed(const DataCursor& cursor) const {
    DataCursor out = cursor;
    out.since = cursor.samples;
    out.sources.clear();
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      SourceCursor at = i < cursor.sources.size() ? cursor.sources[i] : begun(sources_[i]);
      at.weight = sources_[i].weight;
      at.before = drawn(at);
      out.sources.push_back(at);
    }
    return out;
  }

  const std::vector<Source> sources_;
  const std::uint64_t seed_;
  const std::int64_t step_;  // samples of a global batch
  const Mixture mixture_;
  std::vector<std::optional<EpochOf>> orders_;  // of the epoch that each source is in
};

}  // namespace

std::optional<CursorProblem> mixed_cursor_problem(const DataCursor& cursor, std::uint64_t seed) {
  if (auto problem = range_problem(cursor)) return problem;
  const Mixture mixture = mixture_of(cursor.sources, seed);
  std::int64_t before = 0;
  for (std::size_t i = 0; i < cursor.sources.size(); ++i) {
    const SourceCursor& at = cursor.sources[i];
    before += at.before;
    const std::int64_t expected =
        at.before + mixture.count(static_cast<int>(i), cursor.samples - cursor.since);
    if (drawn(at) == expected) continue;
    return CursorProblem{
        fmt::format("sources[{}].taken", i),
        fmt::format("{} samples of {} in all ({} before sample {} of the run, the rest by weight)",
                    expected, at.name, at.before, cursor.since),
        fmt::format("{} epochs of {} and {} taken", at.epoch, at.size, at.taken)};
  }
  if (before == cursor.since) return std::nullopt;
  return CursorProblem{"sources[].before", fmt::format("{} in all (since)", cursor.since),
                       std::to_string(before)};
}

std::unique_ptr<Sequence> make_mixed_sequence(const std::vector<Source>& sources,
                                              const LoaderConfig& config) {
  return std::make_unique<MixedSequence>(sources, config);
}

}  // namespace shardproof
