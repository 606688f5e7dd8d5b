// ctest: comm
// reshard: from any shares to any shares, exactly once and exactly what was asked for.
#include "checkpoint/reshard.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "checkpoint/checkpoint_testing.h"

namespace shardproof {
namespace {

using testing::State;

// A state of any shapes: scalars, pieces of one element, pieces that do not divide.
State any_state() {
  std::vector<PieceSpec> pieces;
  const int parameters = *rc::gen::inRange(1, 5);
  for (int p = 0; p < parameters; ++p) {
    Shape shape;
    for (int dims = *rc::gen::inRange(0, 3); dims > 0; --dims) {
      shape.push_back(*rc::gen::inRange<std::int64_t>(1, 90));
    }
    const int dim = shape.empty() ? -1 : *rc::gen::inRange(-1, static_cast<int>(shape.size()));
    const auto most = dim < 0 ? 1 : shape[static_cast<std::size_t>(dim)];
    const int count = *rc::gen::inRange(1, static_cast<int>(std::min<std::int64_t>(most, 4)) + 1);
    const auto more = cut("p" + std::to_string(p), shape, dim, dim < 0 ? 1 : count);
    pieces.insert(pieces.end(), more.begin(), more.end());
  }
  const auto kinds = *rc::gen::element(std::vector<std::string>{"param"},
                                       std::vector<std::string>{"param", "exp_avg", "master"});
  return State(pieces, kinds, 1);
}

// Ascending bounds of `ranks` shares of the blocks, some of them empty.
std::vector<std::int64_t> any_bounds(std::int64_t blocks, int ranks) {
  std::vector<std::int64_t> bounds{0, blocks};
  for (int r = 1; r < ranks; ++r) bounds.push_back(*rc::gen::inRange<std::int64_t>(0, blocks + 1));
  std::sort(bounds.begin(), bounds.end());
  return bounds;
}

void write(Storage& storage, State& state, const std::vector<std::int64_t>& bounds) {
  testing::run_world(static_cast<int>(bounds.size()) - 1, [&](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    save_checkpoint(storage, comm, "a", testing::small_facts(),
                    state.items<SaveItem>(bounds[rank], bounds[rank + 1]));
  });
}

// Counts what is read of shards.
class CountingStorage : public ForwardingStorage {
 public:
  using ForwardingStorage::ForwardingStorage;
  void read(const std::string& path, std::uint64_t offset, std::span<std::byte> out) override {
    bytes += out.size();
    inner().read(path, offset, out);
  }
  std::uint64_t bytes = 0;
};

RC_GTEST_PROP(Reshard, AnySharesBecomeAnyOthersAndEachRankReadsOnlyItsOwn, ()) {
  State state = any_state();
  const std::shared_ptr<Storage> storage = memory_storage();
  write(*storage, state, any_bounds(state.blocks(), *rc::gen::inRange(1, 9)));
  const Manifest manifest = read_manifest(*storage, "a");

  State loaded = state;
  loaded.clear();
  const auto bounds = any_bounds(state.blocks(), *rc::gen::inRange(1, 9));
  for (std::size_t rank = 0; rank + 1 < bounds.size(); ++rank) {
    const auto items = loaded.items<LoadItem>(bounds[rank], bounds[rank + 1]);
    std::uint64_t wanted = 0;
    for (const LoadItem& item : items) {
      wanted += static_cast<std::uint64_t>(item.range.size()) * size_of(item.dtype);
    }
    CountingStorage counting(storage);
    load_state(counting, manifest, items);
    RC_ASSERT(counting.bytes == wanted);
  }
  RC_ASSERT(loaded == state);
}

RC_GTEST_PROP(Reshard, ReadsCoverAnItemOnceAscendingInWholeBlocks, ()) {
  State state = any_state();
  const auto storage = memory_storage();
  write(*storage, state, any_bounds(state.blocks(), *rc::gen::inRange(1, 6)));
  const Manifest manifest = read_manifest(*storage, "a");
  const auto bounds = any_bounds(state.blocks(), 3);
  for (const LoadItem& item : state.items<LoadItem>(bounds[1], bounds[2])) {
    std::int64_t at = 0;
    for (const BlockRead& read : reads_of(manifest, item)) {
      const ManifestEntry& entry = manifest.entries.at(read.entry);
      RC_ASSERT(entry.name == item.piece.name && entry.what == item.what);
      RC_ASSERT(entry.piece == item.piece.piece);
      RC_ASSERT(read.at == at && read.blocks > 0);
      RC_ASSERT(entry.range.lo + read.first * block_elements == item.range.lo + at);
      at = std::min(at + read.blocks * block_elements, item.range.size());
    }
    RC_ASSERT(at == item.range.size());
  }
}

}  // namespace
}  // namespace shardproof
