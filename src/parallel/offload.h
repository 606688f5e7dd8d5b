// offload: shares of a rank's state, flat fp32, that live away from the device between their uses
// (Rajbhandari et al., "ZeRO-Infinity", 2021): in host memory or in a file of the rank. Whoever
// computes with a share brings a range of it in and puts it out again; the bits are those of the
// device. In this build device and host are both RAM: what moves is copied all the same, and the
// memory ledger keeps host memory on a line of its own (MemoryUse::offloaded).
// Guarantee: what was put out last is what is brought in and viewed, or an Error (offload_file.h).
// Thread rule: one rank's thread. Not done here: transfers beside computation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "parallel/offload_traffic.h"
#include "parallel/plan_options.h"

namespace shardproof {

class OffloadedShare {
 public:
  explicit OffloadedShare(std::int64_t elements) : elements_(elements) {}
  virtual ~OffloadedShare() = default;

  std::int64_t elements() const { return elements_; }
  std::int64_t bytes() const { return elements_ * static_cast<std::int64_t>(sizeof(float)); }

  // The values from element `lo` on: `lo` and the size are multiples of block_elements, but for a
  // range that ends the share.
  void bring_in(std::int64_t lo, std::span<float> to);
  void put_out(std::int64_t lo, std::span<const float> from);

  // For checkpoints and traces: all values in host memory, until drop_view() or a put_out(). What
  // is written there counts from keep_view() on. Null when empty.
  virtual float* view() = 0;
  virtual void keep_view() = 0;  // drops it, too
  virtual void drop_view() = 0;

  const OffloadTraffic& traffic() const { return traffic_; }
  const OffloadTraffic& view_traffic() const { return view_traffic_; }

 protected:
  virtual void get(std::int64_t lo, std::span<float> to) = 0;
  virtual void put(std::int64_t lo, std::span<const float> from) = 0;
  OffloadTraffic view_traffic_;  // none where a view is the values themselves

 private:
  const std::int64_t elements_;
  OffloadTraffic traffic_;
};

class OffloadStore {
 public:
  virtual ~OffloadStore() = default;
  // Zeros. The store outlives it. Error io when there is no room.
  virtual std::unique_ptr<OffloadedShare> make(std::int64_t elements) = 0;
};

// Of one rank; null for none. `directory` and `world_rank`: see OffloadFile.
std::unique_ptr<OffloadStore> make_offload_store(OffloadTo to, const std::string& directory,
                                                 int world_rank);

}  // namespace shardproof
