// audit: what is taken when, and compared with what.
#include "train/audit.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "mesh/layout.h"

namespace shardproof {
namespace {

std::vector<std::string> carried_kinds(const Config& config) {
  std::vector<std::string> kinds;
  if (config.parallel.offload_parameters == "none") kinds.emplace_back("param");
  if (config.parallel.offload_optimizer == "none") {
    kinds.insert(kinds.end(), {"master", "exp_avg", "exp_avg_sq"});
  }
  return kinds;
}

std::string place_of(std::int64_t step) {
  return fmt::format("step {}", step);
}

std::string word(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

}  // namespace

// What `body` calls is the audit's. (A body that throws ends the run: nobody counts any more.)
void Audit::apart(std::int64_t step, const char* part, const std::function<void()>& body) {
  if (parts_.around) parts_.around(step, part);
  body();
  if (parts_.around) parts_.around(step, "audit");
}

Audit::Audit(AuditParts parts)
    : parts_(std::move(parts)),
      every_(parts_.config.guard.audit_every),
      comm_(parts_.mesh.world().split(0, parts_.mesh.world().rank(), "audit",
                                      default_deadline(parts_.mesh.world()))),
      kinds_(carried_kinds(parts_.config)),
      recompute_(parts_.config, parts_.mesh, parts_.plan, parts_.dataset) {}

std::vector<std::string> Audit::gather(const std::string& mine) {
  return all_gather_text(*comm_, mine);
}

void Audit::carry() {
  carried_ = state_sums(parts_.plan, kinds_);
}

void Audit::begin_step(std::int64_t step) {
  gradients_.reset();
  if (due(step) && recompute_.possible()) recompute_.watch(step / every_);
}

void Audit::reduced(std::int64_t step) {
  if (due(step)) gradients_ = state_sums(parts_.plan, {"grad"});
}

// Of what was carried to here; empty: nothing.
std::string Audit::what_changed() {
  if (carried_) {
    const auto text =
        first_difference(*carried_, state_sums(parts_.plan, kinds_), parts_.plan.table());
    if (!text.empty()) return text + " is not what it was at the end of the update before";
  }
  if (gradients_) {
    const auto text =
        first_difference(*gradients_, state_sums(parts_.plan, {"grad"}), parts_.plan.table());
    if (!text.empty()) return text + " is not what the reduction gave";
  }
  return "";
}

void Audit::before_save(std::int64_t step) {
  gradients_.reset();
  if (!carried_) return;
  std::vector<std::string> all;
  apart(step, "save", [&] { all = gather(what_changed()); });
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    throw Error(ErrorKind::corrupt, place_of(step) + ", before a save",
                fmt::format("on rank {}, {}", rank, all[rank]), static_cast<int>(rank));
  }
}

bool Audit::before_update(std::int64_t step, const AuditedScalars& scalars) {
  if (!due(step) && !carried_) return true;
  const Json mine{what_changed(),
                  fmt::format("loss {:a}, gradient norm {:a}, learning rate {:a}, "
                              "clip factor {:a}",
                              scalars.loss, scalars.grad_norm, scalars.lr, scalars.clip_factor)};
  std::vector<std::string> texts;
  apart(step, "step", [&] { texts = gather(mine.dump()); });
  std::vector<Ballot> all;
  for (const std::string& text : texts) {
    const int rank = static_cast<int>(all.size());
    const Json json = parse_json(text, "an audit");
    const std::string changed = json.at(0).get<std::string>();
    if (!changed.empty()) {
      throw Error(ErrorKind::corrupt, place_of(step) + ", before the update",
                  fmt::format("on rank {}, {}", rank, changed), rank);
    }
    all.push_back({rank, json.at(1).get<std::string>()});
  }
  const Vote found = vote(all);
  if (!found.unanimous && repeated_ != step) {
    repeated_ = step;
    return false;
  }
  if (!found.unanimous) {
    throw Error(ErrorKind::mismatch, place_of(step) + ", before the update",
                "ranks have other numbers of the step, twice: " + found.sentence,
                found.odd.front());
  }
  carried_.reset();
  return true;
}

void Audit::updated(std::int64_t step) {
  gradients_.reset();
  if (!due(step)) return;
  carry();
  apart(step, "step", [&] { compare_replicas(step); });
}

Json Audit::copies(const StateSums& sums) const {
  const Layout& layout = parts_.mesh.layout();
  const Coordinates& at = parts_.mesh.at();
  StateSums parameters, rest;
  for (const ShardSum& sum : sums) (sum.what == "param" ? parameters : rest).push_back(sum);
  const PieceTable& table = parts_.plan.table();
  const std::string part = fmt::format("pp {} tp {}", at.pp, at.tp);
  // A share of the state belongs to one rank of a shard group: its copies are in the other groups.
  const std::string share =
      fmt::format("{} cp {} share {}", part, at.cp, at.dp % layout.shard_size());
  Json out = Json::object();
  out["parameters of " + (layout.zero == 3 ? share : part)] = word(digest_of(parameters, table));
  if (layout.zero != 3) {
    out[fmt::format("parameters that are not cut of pp {}", at.pp)] =
        word(digest_of(parameters, table, true));
  }
  out["optimizer state of " + (layout.zero == 0 ? part : share)] = word(digest_of(rest, table));
  return out;
}

void Audit::compare_replicas(std::int64_t step) {
  std::map<std::string, std::vector<Ballot>> groups;
  int rank = 0;
  for (const std::string& text : gather(copies(*carried_).dump())) {
    const Json theirs = parse_json(text, "an audit");
    for (const auto& [key, value] : theirs.items()) {
      groups[key].push_back({rank, value.get<std::string>()});
    }
    ++rank;
  }
  for (const auto& [key, copies] : groups) {
    const Vote found = vote(copies);
    if (!found.unanimous) name_replica(step, key, found);
  }
}

// Which piece it is: the sums of all pieces, from everybody, now that it matters.
void Audit::name_replica(std::int64_t step, const std::string& key, const Vote& found) {
  Json mine = Json::array();
  const bool of_parameters = key.starts_with("parameters");
  for (const ShardSum& sum : *carried_) {
    if (!copies(*carried_).contains(key) || (sum.what == "param") != of_parameters) continue;
    const PieceSpec& piece =
        parts_.plan.table().pieces()[static_cast<std::size_t>(sum.piece_index)];
    mine.push_back(
        {fmt::format("{} {}, piece {}", sum.what, piece.name, piece.piece), word(sum.sum)});
  }
  std::map<std::string, std::vector<Ballot>> pieces;
  int rank = 0;
  for (const std::string& text : gather(mine.dump())) {
    for (const Json& each : parse_json(text, "an audit")) {
      pieces[each.at(0).get<std::string>()].push_back({rank, each.at(1).get<std::string>()});
    }
    ++rank;
  }
  std::string first;
  for (const auto& [piece, sums] : pieces) {
    if (first.empty() && !vote(sums).unanimous) first = piece;
  }
  throw Error(ErrorKind::mismatch, place_of(step) + ", after the update",
              fmt::format("copies of the {} differ, first in {}: {}", key, first, found.sentence),
              found.odd.front());
}

void Audit::after_backward(std::int64_t step, Executor& executor, const DataCursor& cursor,
                           double seed, std::span<const LossLeaf> losses) {
  if (!due(step) || !recompute_.possible()) return;
  apart(step, "step", [&] {
    const std::vector<std::string> own = gather(recompute_.own(losses));
    std::vector<std::vector<std::string>> again;
    const auto compute = [&](int shift) {
      again.push_back(gather(recompute_.again(shift, executor, cursor, seed)));
    };
    compute(1);
    const auto differs = [&] {
      for (int rank = 0; rank < comm_->size(); ++rank) {
        if (!vote(ballots(own, again, rank)).unanimous) return rank;
      }
      return -1;
    };
    const int rank = differs();
    if (rank < 0) return;
    if (parts_.mesh.layout().dp > 2) compute(2);
    const Vote found = vote(ballots(own, again, rank));
    const int owner = coordinates(parts_.mesh.layout(), rank).dp;
    throw Error(ErrorKind::corrupt, place_of(step) + ", after the backward",
                fmt::format("micro-batch {} of data rank {}, computed again, has other gradients: "
                            "{}",
                            recompute_.sampled(owner), owner, found.sentence),
                found.odd.front());
  });
  recompute_.end();
}

// What `rank` computed and what others did of the same piece: ranks at its place of other replicas.
std::vector<Ballot> Audit::ballots(const std::vector<std::string>& own,
                                   const std::vector<std::vector<std::string>>& again,
                                   int rank) const {
  const Layout& layout = parts_.mesh.layout();
  std::vector<Ballot> out{{rank, own[static_cast<std::size_t>(rank)]}};
  for (std::size_t i = 0; i < again.size(); ++i) {
    Coordinates at = coordinates(layout, rank);
    const int shift = static_cast<int>(i) + 1;
    at.dp = (at.dp - shift % layout.dp + layout.dp) % layout.dp;
    const int other = world_rank(layout, at);
    out.push_back({other, again[i][static_cast<std::size_t>(other)]});
  }
  return out;
}

}  // namespace shardproof
