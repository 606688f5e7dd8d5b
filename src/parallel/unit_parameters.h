// unit_parameters: the parameter values of one unit on one rank. Resident: whole all the time (ZeRO
// 0 to 2). Sharded: the rank's share stays, the whole is gathered into a buffer of a pool for as
// long as the model uses it (ZeRO 3); the share may be offloaded, and then passes through the
// device only within that buffer. Collective over the gather group: gather, start_gather,
// spread, in the same order on all its ranks. Thread rule: one rank's thread; the backend's
// communication thread fills a gather under way.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/piece.h"
#include "comm/communicator.h"
#include "parallel/flat.h"
#include "parallel/offload.h"

namespace shardproof {

// Flat fp32 buffers of one size, kept for reuse.
class BufferPool {
 public:
  explicit BufferPool(std::int64_t elements) : elements_(elements) {}
  at::Tensor take();
  void give_back(at::Tensor buffer);
  std::int64_t bytes() const;  // of all buffers ever made

 private:
  const std::int64_t elements_;
  std::int64_t made_ = 0;
  std::vector<at::Tensor> free_;
};

class UnitParameters {
 public:
  // `shares`: elements of the share of every rank of `group`. `pool` null: resident. All referred
  // to must outlive this. `store` not null, with a pool only: the share is offloaded.
  UnitParameters(const PieceTable& table, Shares shares, Communicator& group, BufferPool* pool,
                 OffloadStore* store = nullptr);

  bool sharded() const { return pool_ != nullptr; }
  ElementRange share() const { return share_; }
  // This rank's share; of one that is offloaded a view (offload.h).
  float* share_data();
  void keep_view();
  void drop_view();
  // The share on the device: itself, or a copy where it is offloaded.
  at::Tensor share_values();
  void set_share(std::int64_t lo, std::span<const float> values);  // from element `lo` of it on
  // The whole arena. Precondition: whole().
  float* data() { return whole_.data_ptr<float>(); }
  bool whole() const { return whole_.defined() && work_ == nullptr; }
  // By piece of the table, in the piece's shape; valid until release(). Precondition: whole().
  const at::Tensor& view(int piece_index) const;

  // Resident: every rank's share reaches all ranks, after an update.
  void spread();
  // Sharded: starts a gather (nothing where it is whole or under way); ends it; frees the buffer.
  void start_gather();
  void gather();
  void release();

  std::int64_t resident_bytes() const;  // on the device, without gathered buffers
  std::int64_t offloaded_bytes() const { return away_ ? away_->bytes() : 0; }
  OffloadTraffic traffic() const { return away_ ? away_->traffic() : OffloadTraffic(); }
  OffloadTraffic view_traffic() const { return away_ ? away_->view_traffic() : OffloadTraffic(); }

 private:
  std::span<float> place_in(at::Tensor& whole) const;  // of the share
  void make_views();
  void take_buffer();
  Call gather_call();

  const PieceTable& table_;
  const Shares shares_;
  Communicator& group_;
  BufferPool* const pool_;
  const ElementRange share_;
  at::Tensor kept_;  // the share, where sharded and not offloaded
  std::unique_ptr<OffloadedShare> away_;
  at::Tensor whole_;  // the arena, or a buffer of the pool
  std::vector<at::Tensor> views_;
  std::unique_ptr<Work> work_;  // a gather under way
};

}  // namespace shardproof
