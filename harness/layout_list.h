// layout_list: which layouts `shardproof layouts` proves, as data: the table of the default run
// with the three Cases it runs on, and every legal layout of any Case. The Cases are ones in which
// mistakes show: dropout, label smoothing, ignored targets, non-zero biases, a clip below the norm,
// a vocabulary that does not divide, tied weights. Rows that set numerics.reduction=native are
// judged by the error model (layout_run.h), on the same Cases.
// Torch-free. Thread rule: pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mesh/layout.h"
#include "model/gpt_shape.h"
#include "train/config.h"

namespace shardproof {

// shallow: 2 blocks, 4 tensor and 4 sequence pieces, 8 micro-batches, tied weights.
// deep: 8 blocks for stages, 2 tensor and 2 sequence pieces, 8 micro-batches, tied weights.
// odd: 3 blocks, 3 tensor and 6 sequence pieces, 6 micro-batches: no power of two; not tied.
enum class CaseKind { shallow, deep, odd };
inline constexpr CaseKind case_kinds[] = {CaseKind::shallow, CaseKind::deep, CaseKind::odd};
std::string_view name(CaseKind kind);
Config case_config(CaseKind kind);  // of one rank, on threads

struct LayoutRow {
  CaseKind kind = CaseKind::shallow;
  std::string layout;
  std::vector<std::string> set;  // further keys: of section `parallel`, or the reduction
  bool mpi = false;              // also on MPI processes
  bool lengthy = false;          // also over 100 steps
};

// Ascending by Case, then by what is divided.
const std::vector<LayoutRow>& layout_list();

// Every legal layout of up to `max_ranks` ranks, each once: shard groups of 1 < F < dp, schedules
// with up to layers / pp chunks a rank.
std::vector<Layout> legal_layouts(const GptShape& shape, int micro_batches, int max_ranks);

}  // namespace shardproof
