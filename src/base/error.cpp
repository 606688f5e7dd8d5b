// error: one table of kinds, names and exit codes.
#include "base/error.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace shardproof {
namespace {

struct KindRow {
  ErrorKind kind;
  std::string_view name;
  int exit_code;
};

constexpr KindRow kind_rows[] = {
    {ErrorKind::bad_input, "bad_input", 2},
    {ErrorKind::environment, "environment", 3},
    {ErrorKind::timeout, "timeout", 1},
    {ErrorKind::peer_died, "peer_died", 1},
    {ErrorKind::revoked, "revoked", 1},
    {ErrorKind::mismatch, "mismatch", 1},
    {ErrorKind::io, "io", 3},
    {ErrorKind::corrupt, "corrupt", 1},
    {ErrorKind::refused, "refused", 2},
    {ErrorKind::conflict, "conflict", 2},
    {ErrorKind::numeric, "numeric", 1},
};

const KindRow& row(ErrorKind kind) {
  for (const KindRow& candidate : kind_rows) {
    if (candidate.kind == kind) return candidate;
  }
  check_failed("known ErrorKind", __FILE__, __LINE__, std::to_string(static_cast<int>(kind)));
}

}  // namespace

std::string_view name(ErrorKind kind) {
  return row(kind).name;
}

int exit_code(ErrorKind kind) {
  return row(kind).exit_code;
}

Error::Error(ErrorKind kind, std::string place, std::string detail, int world_rank)
    : kind_(kind),
      world_rank_(world_rank),
      place_(std::move(place)),
      detail_(std::move(detail)),
      text_(fmt::format("{}: {}: {}", name(kind), place_, detail_)) {
  if (world_rank != no_rank) text_ += fmt::format(" (rank {})", world_rank);
}

}  // namespace shardproof
