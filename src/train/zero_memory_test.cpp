// ctest: invariant timeout=120
// What ZeRO promises (Rajbhandari et al., "ZeRO", 2020), counted by the memory ledger from live
// buffers: P parameters of 4 + 4 + 12 bytes on R ranks, shares exact but for whole blocks. Native
// reduction keeps the formulas; canonical adds the stack of tree partials. What passes by is
// bounded on lines of its own: gathered units, the unsharded gradient of a unit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "base/memory_use.h"
#include "base/temp_folder.h"
#include "parallel/make_plan.h"
#include "parallel/plan_testing.h"
#include "parallel/thread_ranks.h"
#include "parallel/units.h"
#include "train/memory_ledger.h"

namespace shardproof {
namespace {

constexpr int micro_batches = 8;

PlanOptions options_of(bool native) {
  PlanOptions options;
  options.shape.layers = 6;
  options.shape.tensor_pieces = 1;
  options.shape.sequence_pieces = 1;
  options.micro_batches = micro_batches;
  options.seed = 3;
  options.native = native;
  return options;
}

struct Seen {
  MemoryLedger::ByUse live, peak;
  PlanBytes plan;
  std::int64_t live_of(MemoryUse use) const { return live[static_cast<std::size_t>(use)]; }
  std::int64_t peak_of(MemoryUse use) const { return peak[static_cast<std::size_t>(use)]; }
};

// After two steps, on the rank with the largest share.
template <typename Check>
void measure(const std::string& text, const PlanOptions& options, const Check& check) {
  SCOPED_TRACE(text);
  const Layout layout = parse_layout(text);
  on_thread_ranks(layout.world(), [&](Communicator& comm) {
    MemoryLedger ledger;
    const MemoryLedger::Install installed(ledger);
    Mesh mesh(comm, layout);
    const auto plan = make_plan(mesh, options);
    play_step(*plan, options.shape, {.rows = 1, .one_in = 0});
    ledger.reset_peak();
    play_step(*plan, options.shape, {.rows = 1, .one_in = 0});
    check(Seen{ledger.live(), ledger.peak(), plan->bytes()});
  });
}

std::int64_t elements(const PlanOptions& options) {
  return PieceTable(gpt_pieces(options.shape)).elements();
}

std::int64_t largest_unit(const PlanOptions& options) {
  std::int64_t most = 0;
  for (const UnitSpec& unit :
       units_of(options.shape, {0}, {{0, options.shape.layers}}, options.unit_layers)) {
    most = std::max(most, unit.table.elements());
  }
  return most;
}

void expect_share(std::int64_t bytes, std::int64_t of, std::int64_t width, int ranks,
                  std::int64_t units, const char* what) {
  EXPECT_LT(std::abs(bytes - of * width / ranks), width * block_elements * units) << what;
}

TEST(ZeroMemory, NativeHoldsWhatTheFormulasSay) {
  const PlanOptions options = options_of(true);
  const std::int64_t all = elements(options);
  for (const int ranks : {2, 4}) {
    for (const int stage : {1, 2, 3}) {
      measure(fmt::format("dp{}.zero{}", ranks, stage), options, [&](const Seen& seen) {
        const std::int64_t units = seen.plan.units;
        const auto parameters = seen.live_of(MemoryUse::parameters);
        const auto gradients = seen.live_of(MemoryUse::gradients);
        EXPECT_EQ(parameters, seen.plan.parameters);
        EXPECT_EQ(seen.live_of(MemoryUse::optimizer), seen.plan.optimizer);
        EXPECT_EQ(gradients, seen.plan.gradients);
        expect_share(seen.plan.optimizer, all, 12, ranks, units, "optimizer");
        if (stage < 3) EXPECT_EQ(parameters, 4 * all);
        if (stage == 3) expect_share(parameters, all, 4, ranks, units, "parameters");
        if (stage == 1) EXPECT_EQ(gradients, 4 * all);
        if (stage > 1) expect_share(gradients, all, 4, ranks, units, "gradients");
        // The unsharded gradient of one unit, and its share before it is added.
        EXPECT_LE(seen.peak_of(MemoryUse::gradients), gradients + 4 * 2 * largest_unit(options));
      });
    }
  }
}

TEST(ZeroMemory, CanonicalAddsTheStackOfTreePartials) {
  const PlanOptions options = options_of(false);
  const std::int64_t all = elements(options);
  const std::int64_t partials = 2 + std::bit_width(unsigned{micro_batches});
  for (const char* layout : {"dp2.zero2", "dp2.zero3", "dp4.zero3", "dp8.zero3"}) {
    measure(layout, options, [&](const Seen& seen) {
      const int ranks = parse_layout(layout).dp;
      const std::int64_t share = 4 * (all / ranks + block_elements * seen.plan.units);
      EXPECT_EQ(seen.live_of(MemoryUse::gradients), seen.plan.gradients);
      EXPECT_LE(seen.live_of(MemoryUse::gradients), partials * share);
      EXPECT_LE(seen.peak_of(MemoryUse::gradients),
                seen.live_of(MemoryUse::gradients) + 4 * largest_unit(options));
    });
  }
}

TEST(ZeroMemory, GatheredUnitsAreBoundedByThePrefetch) {
  for (const int prefetch : {0, 1, 3}) {
    PlanOptions options = options_of(true);
    options.flow.prefetch_forward = options.flow.prefetch_backward = prefetch;
    measure("dp2.zero3", options, [&](const Seen& seen) {
      const std::int64_t bound = 4 * (prefetch + 1) * largest_unit(options);
      EXPECT_LE(seen.peak_of(MemoryUse::gathered), bound);
      EXPECT_GT(seen.peak_of(MemoryUse::gathered), bound - 4 * largest_unit(options));
      EXPECT_EQ(seen.live_of(MemoryUse::gathered), seen.plan.gathered);
    });
  }
}

TEST(ZeroMemory, OffloadedStateLeavesTheDevice) {
  const TempFolder folder;
  for (const OffloadTo to : {OffloadTo::host, OffloadTo::file}) {
    for (const char* layout : {"dp2", "dp2.zero1", "dp2.zero2", "dp2.zero3"}) {
      PlanOptions options = options_of(true);
      const bool sharded = parse_layout(layout).zero == 3;
      std::atomic<std::int64_t> optimizer = 0;  // without, of any rank: shares differ by a block
      measure(layout, options, [&](const Seen& seen) { optimizer = seen.plan.optimizer; });
      options.offload = {to, sharded ? to : OffloadTo::none, folder.path(), 4 * 12288};
      measure(layout, options, [&](const Seen& seen) {
        EXPECT_EQ(seen.live_of(MemoryUse::optimizer), 0);
        EXPECT_EQ(seen.plan.optimizer, 0);
        EXPECT_LE(seen.peak_of(MemoryUse::optimizer), 4 * 12288) << "one window of one unit";
        EXPECT_GT(seen.peak_of(MemoryUse::optimizer), 0);
        EXPECT_LT(seen.peak_of(MemoryUse::optimizer), optimizer);
        EXPECT_LE(std::abs(seen.plan.optimizer_offloaded - optimizer),
                  12 * block_elements * seen.plan.units);
        EXPECT_EQ(seen.plan.parameters, seen.live_of(MemoryUse::parameters));
        if (sharded) {
          EXPECT_EQ(seen.peak_of(MemoryUse::parameters), 0)
              << "shares are in gathered buffers alone";
          EXPECT_EQ(3 * seen.plan.parameters_offloaded, seen.plan.optimizer_offloaded);
        }
        const bool host = to == OffloadTo::host;
        EXPECT_EQ(seen.live_of(MemoryUse::offloaded),
                  host ? seen.plan.optimizer_offloaded + seen.plan.parameters_offloaded : 0);
      });
    }
  }
}

TEST(ZeroMemory, KeptUnitsCostAWholeModel) {
  PlanOptions options = options_of(true);
  options.flow.reshard_after_forward = false;
  measure("dp2.zero3", options, [&](const Seen& seen) {
    EXPECT_GE(seen.peak_of(MemoryUse::gathered), 4 * elements(options) / 2);
  });
}

}  // namespace
}  // namespace shardproof
