// ctest: unit timeout=60
// The table of layouts: large enough, legal, every axis, pair of axes, schedule and ZeRO stage; the
// enumeration: complete against the rules, each layout once.
#include "harness/layout_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "parallel/legality.h"
#include "train/sections.h"

namespace shardproof {
namespace {

Config config_of(const LayoutRow& row) {
  Config config = case_config(row.kind);
  config.run.layout = row.layout;
  for (const std::string& key : row.set) set_key(config, key);
  return config;
}

TEST(LayoutList, HasEnoughRowsAndEachOnce) {
  std::set<std::string> lines;
  for (const LayoutRow& row : layout_list()) lines.insert(run_line(config_of(row)));
  EXPECT_EQ(lines.size(), layout_list().size());
  EXPECT_GE(layout_list().size(), 60u);
  EXPECT_EQ(std::ranges::count_if(layout_list(), &LayoutRow::mpi), 14);
  EXPECT_EQ(std::ranges::count_if(layout_list(), &LayoutRow::lengthy), 8);
}

TEST(LayoutList, IsLegalAndSpelledAsPrinted) {
  for (const LayoutRow& row : layout_list()) {
    SCOPED_TRACE(row.layout);
    EXPECT_NO_THROW(check(config_of(row)));
    EXPECT_EQ(parse_layout(row.layout).print(), row.layout);
  }
}

TEST(LayoutList, HasEveryAxisPairScheduleAndStage) {
  std::set<int> worlds, mpi_worlds, zeros;
  std::set<std::string> schedules, contexts;
  std::set<std::pair<Axis, Axis>> pairs;
  bool hybrid[4] = {}, uneven_stages = false;
  for (const LayoutRow& row : layout_list()) {
    const Layout layout = parse_layout(row.layout);
    worlds.insert(layout.world());
    if (row.mpi) mpi_worlds.insert(layout.world());
    zeros.insert(layout.zero);
    if (layout.pp > 1) schedules.insert(layout.schedule);
    if (layout.cp > 1) contexts.insert(layout.context_kind + (layout.tp > 1 ? "+tp" : ""));
    if (layout.sequence_parallel) contexts.insert("sp");
    if (layout.shard_group > 0) hybrid[layout.zero] = true;
    uneven_stages = uneven_stages || !config_of(row).parallel.stage_layers.empty();
    for (const Axis a : {Axis::tensor, Axis::context, Axis::data, Axis::pipeline}) {
      for (const Axis b : {Axis::tensor, Axis::context, Axis::data, Axis::pipeline}) {
        if (layout.degree(a) > 1 && layout.degree(b) > 1) pairs.insert({a, b});
      }
    }
  }
  EXPECT_EQ(worlds, (std::set<int>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_TRUE(mpi_worlds.contains(8));
  EXPECT_EQ(zeros, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(schedules, (std::set<std::string>{"gpipe", "1f1b", "int2", "int4", "zb"}));
  EXPECT_EQ(contexts, (std::set<std::string>{"ring", "ring+tp", "sp", "ulysses", "ulysses+tp",
                                             "zigzag", "zigzag+tp"}));
  EXPECT_EQ(pairs.size(), 16u) << "with an axis beside itself";
  EXPECT_TRUE(hybrid[1] && hybrid[2] && hybrid[3] && uneven_stages);
}

TEST(LayoutList, HasNativeRowsOfEveryAxisStageAndBuckets) {
  std::set<std::string> parts;
  int buckets = 0, uneven = 0;
  for (const LayoutRow& row : layout_list()) {
    const Config config = config_of(row);
    if (config.numerics.reduction != "native") continue;
    const Layout layout = parse_layout(row.layout);
    for (const Axis axis : {Axis::tensor, Axis::context, Axis::data, Axis::pipeline}) {
      if (layout.degree(axis) > 1) parts.insert(std::string(short_name(axis)));
    }
    parts.insert("zero" + std::to_string(layout.zero));
    buckets += config.parallel.bucket_bytes != ParallelSection{}.bucket_bytes;
    uneven += config.micro_batches() % layout.dp != 0;
  }
  EXPECT_EQ(parts.size(), 8u) << "four axes and ZeRO 0 to 3";
  EXPECT_GT(buckets, 0);
  EXPECT_GT(uneven, 0);
}

// The Cases are ones in which mistakes would show.
TEST(LayoutList, RunsCasesThatHideNothing) {
  for (const CaseKind kind : case_kinds) {
    const Config config = case_config(kind);
    SCOPED_TRACE(name(kind));
    EXPECT_NO_THROW(check(config));
    EXPECT_GT(config.model.dropout, 0);
    EXPECT_GT(config.model.label_smoothing, 0);
    EXPECT_GT(config.data.ignored, 0);
    EXPECT_NE(config.model.vocabulary % config.numerics.tensor_pieces, 0);
  }
}

TEST(LegalLayouts, AreLegalAndEachOnce) {
  const GptShape shape = shape_of(case_config(CaseKind::deep));
  const std::vector<Layout> all = legal_layouts(shape, 8, 8);
  std::set<std::string> names;
  for (const Layout& layout : all) {
    names.insert(layout.print());
    EXPECT_EQ(problem(layout, shape, 8), "");
    EXPECT_LE(layout.world(), 8);
  }
  EXPECT_EQ(names.size(), all.size());
  for (const LayoutRow& row : layout_list()) {
    if (row.kind == CaseKind::deep) EXPECT_TRUE(names.contains(row.layout)) << row.layout;
  }
  RecordProperty("layouts", static_cast<int>(all.size()));
  EXPECT_FALSE(names.contains("pp2-int8")) << "16 stages and 8 blocks";
}

// By hand: two ranks, one block, one piece of everything, two micro-batches.
TEST(LegalLayouts, OfATinyCaseAreThoseCountedByHand) {
  GptShape shape;
  shape.layers = 1;
  shape.tensor_pieces = shape.sequence_pieces = 1;
  std::set<std::string> names;
  for (const Layout& layout : legal_layouts(shape, 2, 2)) names.insert(layout.print());
  EXPECT_EQ(names, (std::set<std::string>{"dp1", "dp1.zero1", "dp1.zero2", "dp1.zero3", "dp2",
                                          "dp2.zero1", "dp2.zero2", "dp2.zero3"}));
}

}  // namespace
}  // namespace shardproof
