// ctest: unit
#include "base/memory_use.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>

namespace shardproof {
namespace {

TEST(MemoryUse, ScopesNestAndEnd) {
  EXPECT_EQ(current_memory_use(), MemoryUse::other);
  {
    const MemoryScope outer(MemoryUse::gradients);
    {
      const MemoryScope inner(MemoryUse::optimizer);
      EXPECT_EQ(current_memory_use(), MemoryUse::optimizer);
    }
    EXPECT_EQ(current_memory_use(), MemoryUse::gradients);
  }
  EXPECT_EQ(current_memory_use(), MemoryUse::other);
}

TEST(MemoryUse, AScopeBelongsToItsThread) {
  const MemoryScope scope(MemoryUse::parameters);
  MemoryUse seen = MemoryUse::parameters;
  std::thread([&] { seen = current_memory_use(); }).join();
  EXPECT_EQ(seen, MemoryUse::other);
}

TEST(MemoryUse, NamesDiffer) {
  std::set<std::string> names;
  for (int i = 0; i < memory_use_count; ++i) names.insert(name(static_cast<MemoryUse>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(memory_use_count));
  EXPECT_TRUE(names.contains("activations"));
}

}  // namespace
}  // namespace shardproof
