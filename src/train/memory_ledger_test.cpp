// ctest: unit
#include "train/memory_ledger.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace shardproof {
namespace {

std::int64_t of(const MemoryLedger::ByUse& bytes, MemoryUse use) {
  return bytes[static_cast<std::size_t>(use)];
}

at::Tensor floats(std::int64_t count) {
  return at::empty({count}, at::kFloat);
}

TEST(MemoryLedger, ChargesTheUseOfTheMomentAndDischargesTheSame) {
  MemoryLedger ledger;
  const MemoryLedger::Install installed(ledger);
  std::optional<at::Tensor> weights, activations;
  {
    const MemoryScope scope(MemoryUse::parameters);
    weights = floats(100);
    {
      const MemoryScope inner(MemoryUse::activations);
      activations = floats(50);
    }
    weights = floats(200);  // the scope around is back; the first 100 are freed
  }
  const at::Tensor other = floats(1);
  EXPECT_EQ(of(ledger.live(), MemoryUse::parameters), 800);
  EXPECT_EQ(of(ledger.live(), MemoryUse::activations), 200);
  EXPECT_EQ(of(ledger.live(), MemoryUse::other), 4);
  EXPECT_EQ(ledger.live_total(), 1004);
  EXPECT_EQ(of(ledger.peak(), MemoryUse::parameters), 1200) << "old and new at once";
  {
    const MemoryScope scope(MemoryUse::communication);
    activations.reset();  // freed under another use
  }
  EXPECT_EQ(of(ledger.live(), MemoryUse::activations), 0);
  EXPECT_EQ(of(ledger.live(), MemoryUse::communication), 0);
}

TEST(MemoryLedger, OffloadedMemoryIsOfNoTotal) {
  MemoryLedger ledger;
  const MemoryLedger::Install installed(ledger);
  std::optional<at::Tensor> host;
  {
    const MemoryScope scope(MemoryUse::offloaded);
    host = floats(100);
  }
  EXPECT_EQ(of(ledger.live(), MemoryUse::offloaded), 400);
  EXPECT_EQ(of(ledger.peak(), MemoryUse::offloaded), 400);
  EXPECT_EQ(ledger.live_total(), 0);
  EXPECT_EQ(ledger.peak_total(), 0);
  host.reset();
  EXPECT_EQ(of(ledger.live(), MemoryUse::offloaded), 0);
}

TEST(MemoryLedger, PeakIsOfTheSumAndStartsAgain) {
  MemoryLedger ledger;
  const MemoryLedger::Install installed(ledger);
  { const at::Tensor big = floats(1000); }
  const at::Tensor small = floats(10);
  EXPECT_EQ(ledger.peak_total(), 4000);
  EXPECT_EQ(ledger.live_total(), 40);
  ledger.reset_peak();
  EXPECT_EQ(ledger.peak_total(), 40);
  { const at::Tensor more = floats(5); }
  EXPECT_EQ(ledger.peak_total(), 60);
}

TEST(MemoryLedger, SeesItsOwnThreadAloneAndOnlyWhileInstalled) {
  MemoryLedger ledger;
  std::optional<at::Tensor> before = floats(7);
  {
    const MemoryLedger::Install installed(ledger);
    std::thread([] { const at::Tensor elsewhere = floats(1 << 20); }).join();
    EXPECT_EQ(ledger.peak_total(), 0);
    before.reset();  // never charged, so not discharged
    EXPECT_EQ(ledger.live_total(), 0);
    const at::Tensor seen = floats(3);
    EXPECT_EQ(ledger.live_total(), 12);
  }
  const at::Tensor after = floats(9);
  EXPECT_EQ(ledger.peak_total(), 12);
}

TEST(MemoryLedger, InstallsNest) {
  MemoryLedger outer, inner;
  const MemoryLedger::Install first(outer);
  {
    const MemoryLedger::Install second(inner);
    const at::Tensor seen = floats(4);
    EXPECT_EQ(inner.live_total(), 16);
  }
  const at::Tensor seen = floats(2);
  EXPECT_EQ(outer.live_total(), 8);
}

}  // namespace
}  // namespace shardproof
