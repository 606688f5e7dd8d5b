// layout_table: which runs `shardproof layouts` makes, from what was typed, and how the outcome is
// printed. Thread rule: pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/layout_list.h"
#include "harness/layout_run.h"

namespace shardproof {

struct LayoutOptions {
  std::vector<std::string> layouts;  // typed; empty: the table
  bool all = false;                  // every legal layout instead of the table
  bool lengthy = false;              // the marked rows of the table alone
  std::optional<CaseKind> kind;  // of `all` and of typed layouts; else the table's, or the first
                                 // Case in which a typed layout is legal
  int max_ranks = 8;
  int steps = 10;
  std::vector<std::string> set;  // KEY=VALUE, for every Case
  std::string backend;           // threads | mpi | both; empty: both for the table, else threads
};

struct PlannedLayout {
  CaseKind kind = CaseKind::shallow;
  Config config;
  std::string shown;  // the layout, with what else is set for it
};
struct LayoutPlan {
  std::vector<PlannedLayout> rows;
  std::vector<std::string> left_out;  // rows of the table that `set` makes illegal, and why
};

// Error bad_input: a typed layout that is legal in no Case, keys that the rows themselves set,
// nothing left to run.
LayoutPlan plan_layouts(const LayoutOptions& options);

std::string layout_header();
std::string layout_line(const PlannedLayout& row, const LayoutProof& proof);
Json layout_json(const PlannedLayout& row, const LayoutProof& proof);
std::string layout_markdown(const std::vector<PlannedLayout>& rows,
                            const std::vector<LayoutProof>& proofs);

}  // namespace shardproof
