// layout_list: the table, and the enumeration of what the rules of legality allow.
#include "harness/layout_list.h"

#include <fmt/format.h>

#include <functional>

#include "base/check.h"
#include "parallel/legality.h"

namespace shardproof {
namespace {

constexpr bool mpi = true, lengthy = true;

std::vector<LayoutRow> make_list() {
  std::vector<LayoutRow> out;
  CaseKind kind = CaseKind::shallow;
  const auto add = [&](const char* layout, bool on_mpi = false, bool is_lengthy = false,
                       std::vector<std::string> set = {}) {
    out.push_back({kind, layout, std::move(set), on_mpi, is_lengthy});
  };
  const auto with = [&](const char* layout, std::vector<std::string> set) {
    add(layout, false, false, std::move(set));
  };
  const auto native = [&](const char* layout, bool on_mpi = false,
                          std::vector<std::string> set = {}) {
    set.insert(set.begin(), "numerics.reduction=native");
    add(layout, on_mpi, false, std::move(set));
  };
  // One axis at a time.
  for (const char* layout : {"dp2", "dp3", "dp5", "dp7", "dp1.zero1", "dp1.zero3", "dp2.zero1",
                             "dp3.zero1", "dp2.zero2", "dp4.zero2", "dp2.zero3", "dp8.zero3"}) {
    add(layout);
  }
  add("dp8.zero1", mpi);
  add("dp4.zero3", !mpi, lengthy);
  for (const char* layout : {"dp4.zero1-shard2", "dp6.zero1-shard3", "dp8.zero2-shard2",
                             "dp4.zero2-shard1", "dp8.zero3-shard4"}) {
    add(layout);
  }
  add("dp4.zero3-shard2", mpi, lengthy);
  for (const char* layout :
       {"tp2", "tp3", "tp4", "tp2.sp", "tp3.sp", "tp2.sp.zero3", "tp4.zero1"}) {
    add(layout);
  }
  add("tp4.sp", mpi);
  for (const char* layout : {"cp2", "cp3", "cp4", "cp2-zigzag", "cp2-ulysses", "cp3-ulysses",
                             "cp4-ulysses.zero1", "cp4.zero3", "cp2-zigzag.zero2"}) {
    add(layout);
  }
  // Two axes and three.
  add("dp2.tp2.zero1", mpi, lengthy);
  for (const char* layout : {"dp2.tp4.sp.zero2", "dp3.tp2.sp", "dp2.tp2.sp.zero3",
                             "dp4.tp2.zero3-shard2", "dp2.cp2.zero1", "dp2.cp4.zero3",
                             "dp2.cp2-ulysses.zero3", "dp4.cp2-ulysses.zero1-shard2"}) {
    add(layout);
  }
  add("dp4.cp2-zigzag.zero2", mpi);
  for (const char* layout : {"tp2.cp2", "tp4.cp2.zero3", "tp2.cp2-ulysses", "tp3.cp2",
                             "dp2.tp2.cp2", "dp2.tp2.sp.cp2-ulysses.zero2"}) {
    add(layout);
  }
  add("tp2.sp.cp2-zigzag.zero1", mpi);
  add("dp2.tp2.sp.cp2-zigzag.zero3", mpi, lengthy);
  with("dp4.zero3",
       {"parallel.unit_layers=2", "parallel.prefetch_forward=0", "parallel.prefetch_backward=0"});
  with("dp2.tp2.zero3", {"parallel.reshard_after_forward=false", "parallel.prefetch_backward=2"});
  with("dp2.tp2.zero1", {"parallel.offload_optimizer=host", "parallel.offload_window=12288"});
  add("dp4.zero3", mpi, !lengthy,
      {"parallel.offload_optimizer=file", "parallel.offload_parameters=file"});
  for (const char* layout : {"dp4", "dp4.zero1", "dp2.zero2", "dp2.zero3", "tp2.sp", "cp2-zigzag",
                             "cp2-ulysses", "dp2.tp2.cp2"}) {
    native(layout);
  }
  native("dp2", mpi, {"parallel.bucket_bytes=4096"});
  native("dp3", !mpi, {"parallel.overlap=false"});  // an uneven share of micro-batches

  kind = CaseKind::deep;
  for (const char* layout : {"pp2", "pp2-gpipe", "pp3", "pp5-gpipe", "pp7-zb", "pp2-int2",
                             "pp4-int2", "pp2-int4", "pp4-zb"}) {
    add(layout);
  }
  add("pp8", mpi);
  with("pp2", {"parallel.stage_layers=[3,5]"});
  with("pp2-int2", {"parallel.stage_layers=[1,3,2,2]"});
  with("dp2.pp2.zero3", {"parallel.offload_optimizer=file", "parallel.offload_parameters=host"});
  for (const char* layout :
       {"dp3.pp2.zero1", "dp2.pp4.zero3", "dp4.pp2-int2.zero3-shard2", "dp2.pp3-gpipe.zero2"}) {
    add(layout);
  }
  add("dp2.pp2-int2.zero1", !mpi, lengthy);
  add("dp2.pp2-zb.zero2", mpi, lengthy);
  for (const char* layout :
       {"tp2.pp2", "tp2.sp.pp4-zb", "tp2.pp2-int4", "cp2.pp2", "cp2-ulysses.pp2-zb",
        "cp2.pp4-int2.zero1", "tp2.cp2.pp2-gpipe", "tp2.pp3.zero3", "dp2.cp2.pp2-int2.zero2"}) {
    add(layout);
  }
  add("dp2.tp2.pp2.zero1", mpi, lengthy);
  add("dp2.tp2.sp.pp2-zb.zero3", mpi);
  native("pp2");

  kind = CaseKind::odd;
  for (const char* layout :
       {"dp2", "dp4.zero1", "dp6.zero1", "dp3.zero2", "dp6.zero3-shard3", "tp3.sp", "cp3-zigzag",
        "cp3-ulysses", "cp5", "tp2.cp3-zigzag", "dp2.tp3.zero3", "dp3.cp2-zigzag.zero3", "pp3",
        "cp2-zigzag.pp3-zb", "tp3.pp2-gpipe"}) {
    add(layout);
  }
  add("dp2.cp3-zigzag.zero1", !mpi, lengthy);
  add("dp3.pp2.zero3", mpi);
  native("tp3.sp");
  return out;
}

// The ways in which `layout`'s data axis can hold its state.
void add_zero_stages(Layout layout, const std::function<void(const Layout&)>& use) {
  for (layout.zero = 0; layout.zero <= 3; ++layout.zero) {
    layout.shard_group = 0;
    use(layout);
    for (int group = 2; layout.zero > 0 && group < layout.dp; ++group) {
      layout.shard_group = group;
      use(layout);
    }
  }
}

void add_schedules(Layout layout, int layers, const std::function<void(const Layout&)>& use) {
  if (layout.pp == 1) return use(layout);
  for (const char* schedule : {"gpipe", "1f1b", "zb"}) {
    layout.schedule = schedule;
    use(layout);
  }
  for (int chunks = 2; chunks * layout.pp <= layers; ++chunks) {
    layout.schedule = fmt::format("int{}", chunks);
    use(layout);
  }
}

void add_sequences(Layout layout, const std::function<void(const Layout&)>& use) {
  for (const bool sp : {false, true}) {
    layout.sequence_parallel = sp;
    if (sp && layout.tp == 1) break;
    for (const char* kind : {"ring", "zigzag", "ulysses"}) {
      layout.context_kind = kind;
      use(layout);
      if (layout.cp == 1) break;
    }
  }
}

}  // namespace

std::string_view name(CaseKind kind) {
  switch (kind) {
    case CaseKind::shallow:
      return "shallow";
    case CaseKind::deep:
      return "deep";
    case CaseKind::odd:
      return "odd";
  }
  SP_CHECK(false, "no such Case");
}

Config case_config(CaseKind kind) {
  const bool odd = kind == CaseKind::odd, deep = kind == CaseKind::deep;
  Config config;
  config.model.layers = odd ? 3 : deep ? 8 : 2;
  config.model.heads = odd ? 6 : 4;
  config.model.width = odd ? 24 : 16;
  config.model.vocabulary = odd ? 53 : 61;
  config.model.sequence = odd ? 12 : 8;
  config.model.dropout = 0.1;
  config.model.label_smoothing = 0.1;
  config.model.tied = !odd;
  config.data.samples = 512;
  config.data.ignored = 0.2;
  config.training.steps = 10;
  config.training.micro_batch = 2;
  config.training.global_batch = (odd ? 6 : 8) * config.training.micro_batch;
  config.training.clip = 0.5;
  config.numerics.tensor_pieces = odd ? 3 : deep ? 2 : 4;
  config.numerics.sequence_pieces = odd ? 6 : deep ? 2 : 4;
  config.run.layout = "dp1";
  return config;
}

const std::vector<LayoutRow>& layout_list() {
  static const std::vector<LayoutRow> list = make_list();
  return list;
}

std::vector<Layout> legal_layouts(const GptShape& shape, int micro_batches, int max_ranks) {
  std::vector<Layout> out;
  const auto keep = [&](const Layout& layout) {
    if (problem(layout, shape, micro_batches).empty()) out.push_back(layout);
  };
  Layout layout;
  for (layout.pp = 1; layout.pp <= max_ranks; ++layout.pp) {
    for (layout.cp = 1; layout.cp * layout.pp <= max_ranks; ++layout.cp) {
      for (layout.tp = 1; layout.tp * layout.cp * layout.pp <= max_ranks; ++layout.tp) {
        for (layout.dp = 1; layout.world() <= max_ranks; ++layout.dp) {
          add_sequences(layout, [&](const Layout& with_sequence) {
            add_schedules(with_sequence, shape.layers, [&](const Layout& with_schedule) {
              add_zero_stages(with_schedule, keep);
            });
          });
        }
        layout.dp = 1;
      }
    }
  }
  return out;
}

}  // namespace shardproof
