// small_state_testing: a small state cut into pieces, its shares, and saves of it by ranks on
// threads. No test framework: tests, crash states and benchmarks share it.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "comm/thread_communicator.h"

namespace shardproof::testing {

// Runs `body` on thread ranks; the first failure releases the others and is thrown here.
inline void run_world(int ranks, const std::function<void(Communicator&)>& body) {
  ThreadWorld world(ranks, std::chrono::seconds(20));
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto comm = world.communicator(rank);
        body(*comm);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!first) first = std::current_exception();
        world.revoke_all();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

// A whole state in memory: the bytes of every (kind, piece), random but a function of the seed.
class State {
 public:
  struct Tensor {
    std::string what;
    PieceSpec piece;
    Dtype dtype = Dtype::f32;
    std::vector<std::byte> bytes;
  };

  State(const std::vector<PieceSpec>& pieces, const std::vector<std::string>& kinds,
        std::uint64_t seed, Dtype dtype = Dtype::f32) {
    for (const std::string& kind : kinds) {
      for (const PieceSpec& piece : pieces) {
        Tensor tensor{kind, piece, dtype, {}};
        tensor.bytes.resize(static_cast<std::size_t>(piece.elements()) * size_of(dtype));
        const Random random(seed, Purpose::test, static_cast<std::uint32_t>(tensors_.size()));
        for (std::size_t i = 0; i < tensor.bytes.size(); ++i) {
          tensor.bytes[i] = static_cast<std::byte>(random.bits(i));
        }
        tensors_.push_back(std::move(tensor));
      }
    }
  }

  std::vector<Tensor>& tensors() { return tensors_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  bool operator==(const State& other) const {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].bytes != other.tensors_.at(i).bytes) return false;
    }
    return tensors_.size() == other.tensors_.size();
  }
  void clear() {
    for (Tensor& tensor : tensors_)
      std::fill(tensor.bytes.begin(), tensor.bytes.end(), std::byte{});
  }

  std::int64_t blocks() const {
    std::int64_t count = 0;
    for (const Tensor& tensor : tensors_) count += tensor.piece.blocks();
    return count;
  }

  // The runs of the blocks [begin, end) of the whole state, as SaveItem or LoadItem.
  template <typename Item>
  std::vector<Item> items(std::int64_t begin, std::int64_t end) {
    std::vector<Item> out;
    std::int64_t first = 0;  // block number of the tensor's first block
    for (Tensor& tensor : tensors_) {
      const std::int64_t lo = std::max(begin, first) - first;
      const std::int64_t hi = std::min(end - first, tensor.piece.blocks());
      first += tensor.piece.blocks();
      if (lo >= hi) continue;
      const ElementRange range{lo * block_elements,
                               std::min(hi * block_elements, tensor.piece.elements())};
      void* data = tensor.bytes.data() + static_cast<std::size_t>(range.lo) * size_of(tensor.dtype);
      out.push_back({tensor.what, tensor.piece, range, tensor.dtype, data});
    }
    return out;
  }
  std::vector<LoadItem> all() { return items<LoadItem>(0, blocks()); }

 private:
  std::vector<Tensor> tensors_;
};

// Ten blocks a kind: pieces of two blocks, a short one, a lone element, a whole parameter of three.
inline std::vector<PieceSpec> small_pieces() {
  std::vector<PieceSpec> pieces = cut("a.weight", {40, 70}, 0, 2);
  for (const auto& more : {cut("b.bias", {5}, -1, 1), cut("c.scale", {}, -1, 1),
                           cut("d.weight", {50, 60}, -1, 1), cut("e.weight", {3, 9}, 1, 2)}) {
    pieces.insert(pieces.end(), more.begin(), more.end());
  }
  return pieces;
}

inline State small_state(std::uint64_t seed) {
  return State(small_pieces(), {"param", "exp_avg"}, seed);
}

inline CheckpointFacts small_facts(std::int64_t step = 10) {
  CheckpointFacts facts;
  facts.step = step;
  facts.run_line = "training.steps=20";
  facts.config = Json{{"training", {{"steps", 20}, {"clip", 0.1}}}};
  facts.layout = "dp2.zero1";
  facts.schedule = Json{{"lr", 0.01}};
  facts.cursor = Json{{"epoch", 0}, {"taken", 160}};
  facts.data_digest = "d1";
  facts.tokenizer_digest = "t1";
  facts.template_digest = "none";
  facts.packing = "none";
  facts.parameter_groups = Json{{"decay", {{"parameters", 5}}}, {"no_decay", {{"parameters", 0}}}};
  facts.seeds = Json{{"training", 1}};
  facts.versions = Json{{"shardproof", "0.1.0"}};
  facts.kernel_fingerprint = "avx512";
  return facts;
}

// Contiguous, equal shares of the blocks.
inline SaveReport save_small(Storage& storage, Communicator& comm, const std::string& id,
                             State& state, const CheckpointFacts& facts = small_facts()) {
  const auto items =
      state.items<SaveItem>(share_bound(state.blocks(), comm.size(), comm.rank()),
                            share_bound(state.blocks(), comm.size(), comm.rank() + 1));
  return save_checkpoint(storage, comm, id, facts, items);
}

// A committed checkpoint written by `ranks` ranks.
inline void write_small(Storage& storage, int ranks, const std::string& id, State& state,
                        const CheckpointFacts& facts = small_facts()) {
  run_world(ranks, [&](Communicator& comm) { save_small(storage, comm, id, state, facts); });
}

inline std::vector<std::byte> read_file(Storage& storage, const std::string& path) {
  std::vector<std::byte> bytes(storage.size(path));
  storage.read(path, 0, bytes);
  return bytes;
}

inline void replace_file(Storage& storage, const std::string& path,
                         std::span<const std::byte> bytes) {
  storage.remove(path);
  const auto file = storage.create(path);
  file->write(bytes);
  file->close();
}

// The text of a manifest after an edit of its JSON, with a closing digest that fits.
inline std::string sealed(Json json) {
  json.erase("manifest_sha256");
  std::string body = json.dump();
  body.pop_back();
  return body + ",\n\"manifest_sha256\":\"" + sha256(body).hex() + "\"}\n";
}

}  // namespace shardproof::testing
