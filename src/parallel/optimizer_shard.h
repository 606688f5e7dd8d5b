// optimizer_shard: the optimizer state that one rank owns of a unit: fp32 masters and the two
// moments of AdamW over a contiguous run of whole blocks of the unit's arena. It stays on the
// device, or is offloaded: then an update brings in a window of it, steps it and puts it out,
// window by window, and between updates nothing of it is on the device.
// Thread rule: one rank's thread. Not checked here: that the gradient is reduced and finite.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/piece.h"
#include "optim/adamw.h"
#include "parallel/offload.h"

namespace shardproof {

struct OptimizerOffload {
  OffloadStore* store = nullptr;  // null: the state stays on the device
  std::int64_t window = 0;        // elements, whole blocks
};
// Of `options`: as many blocks as fit, one at least.
OptimizerOffload optimizer_offload(const OffloadOptions& options, OffloadStore* store);

class OptimizerShard {
 public:
  // `masters`: the values of `owned`, copied. `table` and the store must outlive this.
  OptimizerShard(const PieceTable& table, ElementRange owned, const float* masters,
                 const OptimizerOffload& offload = {});

  ElementRange owned() const { return owned_; }
  // Takes new masters from element `lo` of `owned` on.
  using Take = std::function<void(std::int64_t lo, std::span<const float> masters)>;
  // One step on every owned element. `gradient`: of `owned`, in its order, before clipping.
  void update(const AdamWConfig& config, const AdamWStep& at,
              const std::vector<std::string>& no_decay, const float* gradient, const Take& take);

  // "master" | "exp_avg" | "exp_avg_sq": the values of `owned` (maybe null when empty); of an
  // offloaded state a view (offload.h).
  float* data(const std::string& what);
  void keep_views();
  void drop_views();

  std::int64_t bytes() const;  // on the device
  std::int64_t offloaded_bytes() const;
  OffloadTraffic traffic() const;
  OffloadTraffic view_traffic() const;

 private:
  struct Kind {
    at::Tensor here;  // of `owned`, or of the window where offloaded
    std::unique_ptr<OffloadedShare> away;
  };
  enum { master, exp_avg, exp_avg_sq, kind_count };

  bool offloaded() const { return kinds_[master].away != nullptr; }
  void bring_in(ElementRange part);
  void put_out(ElementRange part);
  void step(const AdamWConfig& config, const AdamWStep& at,
            const std::vector<std::string>& no_decay, const float* gradient, ElementRange part);

  const PieceTable& table_;
  const ElementRange owned_;
  const std::int64_t window_;
  std::array<Kind, kind_count> kinds_;
};

}  // namespace shardproof
