// initial_parameters: a line of text for each run of blocks: piece, range, digest.
#include "harness/initial_parameters.h"

#include <fmt/format.h>

#include <sstream>
#include <vector>

#include "base/digest.h"
#include "base/error.h"

namespace shardproof {
namespace {

std::string held_by(Plan& plan, bool all_copies) {
  std::string out;
  for (const StateShard& shard : plan.shards("param", all_copies)) {
    const std::size_t size = static_cast<std::size_t>(shard.range.size()) * sizeof(float);
    out += fmt::format("{} {} {} {}\n", shard.piece_index, shard.range.lo, shard.range.hi,
                       sha256(shard.data, size).hex());
  }
  return out;
}

// What is wrong with what `rank` says it holds; empty: nothing.
std::string share_problem(const std::string& held, int rank, const Plan& plan,
                          const GptShape& shape, std::uint64_t seed) {
  std::istringstream lines(held);
  std::size_t index = 0;
  ElementRange range;
  std::string found;
  while (lines >> index >> range.lo >> range.hi >> found) {
    const PieceSpec& piece = plan.table().pieces().at(index);
    std::vector<float> values(static_cast<std::size_t>(range.size()));
    initial_values(shape, piece, range, seed, values.data());
    const std::string expected = sha256(values.data(), values.size() * sizeof(float)).hex();
    if (found == expected) continue;
    return fmt::format("{} {} piece {} [{}:{}]: rank {} has {}; the seed gives {}", rank,
                       piece.name, piece.piece, range.lo, range.hi, rank, found, expected);
  }
  return "";
}

}  // namespace

void check_initial_parameters(Communicator& comm, Plan& plan, const GptShape& shape,
                              std::uint64_t seed, bool agreed) {
  const auto held = all_gather_text(comm, held_by(plan, !agreed));
  const int next = (comm.rank() + 1) % comm.size();
  const auto problems = all_gather_text(
      comm, share_problem(held[static_cast<std::size_t>(next)], next, plan, shape, seed));
  for (const std::string& text : problems) {
    if (text.empty()) continue;
    const std::size_t blank = text.find(' ');
    throw Error(ErrorKind::mismatch, "initial parameters", text.substr(blank + 1),
                std::stoi(text.substr(0, blank)));
  }
}

}  // namespace shardproof
