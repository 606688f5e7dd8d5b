// stage_link: activations and their gradients between neighbouring virtual stages of a pipeline.
// A send never blocks: it is started, and its tensor kept until it has arrived, so a schedule that
// the simulator accepts cannot hang on one. A receive blocks until its message is there, within the
// communicator's deadline; the time waited is the pipeline's idle time.
// Receives are not posted ahead of their action: a sender never waits for one, so all that could be
// hidden is the copy of a message that is there (between thread ranks 1.6 us for 64 KiB, 5.8 us for
// 256 KiB; a stage computes for milliseconds), at the price of one more activation on each stage.
// Tried, one action ahead, on a busy machine: CPU seconds of a run of pp2-1f1b and pp2-zb 2.47 and
// 2.55 without, 2.58 and 2.53 with, on threads; 3.48 and 3.41, 3.38 and 3.68 on MPI: no gain.
// Errors: Error of the communicator, unchanged; a send that failed is reported at the next send or
// at finish(). Thread rule: one rank's thread; one link serves all chunks of the rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "base/clock.h"
#include "comm/communicator.h"
#include "model/seams.h"
#include "parallel/stage_tags.h"

namespace shardproof {

class StageLink {
 public:
  // `pipeline`: the group of the pp axis; outlives the link. chunks: of each of its ranks.
  StageLink(Communicator& pipeline, int chunks, int sequence_pieces);
  // With sends under way (a step that failed) the communicator is aborted.
  ~StageLink();
  StageLink(const StageLink&) = delete;
  StageLink& operator=(const StageLink&) = delete;

  // From this rank's `chunk`: forward to the next stage, backward to the one before. fp32; nobody
  // writes to the tensor afterwards.
  void send(at::Tensor tensor, int chunk, const Site& site);
  // To this rank's `chunk`: forward from the stage before, backward from the next one.
  at::Tensor receive(at::IntArrayRef shape, int chunk, const Site& site);
  // Every send of the step has arrived. Once a step, after the last action.
  void finish();

  Duration waited() const { return waited_; }  // in receive, since the start
  std::uint64_t bytes_sent() const { return pipeline_.traffic().bytes_sent; }

 private:
  struct Way {
    int peer;
    int tag;
  };
  Way way(bool sends, int chunk, const Site& site) const;
  void reap();

  Communicator& pipeline_;
  const int stages_;  // virtual
  const StageTags tags_;
  std::vector<std::unique_ptr<Work>> under_way_;
  Duration waited_{};
};

}  // namespace shardproof
