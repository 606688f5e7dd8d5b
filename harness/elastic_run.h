// elastic_run: one rank of a run that outlives the death of ranks (run.elastic), in place: no
// process is started again. The run is a row of goes. In each the workers build everything anew
// over a world of their own and train; when one dies the others revoke that world, and all who are
// left meet (pool.h): they agree, shrink, take their seats (seating.h), load the newest checkpoint
// that is whole, or begin anew where there is none, and go on. That the end has the bits of the run
// that nobody died in follows from two laws: any layout continues any checkpoint with the same
// bits, and so does any rank. A state that a survivor still holds is never used.
//
// Spares (run.spares, and ranks that the layout of a go has no place for) stand in the meeting
// while the others train. They are processes of the job from its start, not spawned when one dies:
// a spawn needs the launcher, resources and a library that spawns beside dead ranks, all in the
// moment in which something has broken; a waiting process needs none of it. A spare opens its data
// only when a regroup has called it. It joins behind the next save, when the workers leave their
// go: a step boundary that is on disk, so nothing is done twice (4 ranks, then 3, then 4).
//
// Only deaths are outlived: an Error of another kind (input, numbers, disagreement, a disk), and a
// wait that ended though nobody died, end the run on all ranks. No legal layout left: Error
// peer_died. A death while ranks regroup, or load, begins the regroup again with those left. Every
// wait of a worker has run.deadline; a spare waits for as long as a worker lives.
//
// In go N > 0 the world is called "world~N" and what all do before it "regroup~N": faults can be
// aimed at both. World ranks stay those that the job began with; files (trace, metrics) go
// by the rank in the layout of the go and are continued. The trace holds another run from the
// checkpoint on, after an event `recovery`; harness.jsonl gets `recovery` with its seconds by part,
// and stderr a line. The parts begin when the rank that tells could not go on: regroup (meeting,
// seats, a world), start (guards, groups, plan), data (the loader), load (the state), step (the
// first). How long a death took to be noticed no survivor knows.
// Thread rule: the rank's thread.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "data/dataset.h"
#include "harness/rank_faults.h"
#include "harness/world.h"

namespace shardproof {

class Watchdog;

struct ElasticRank {
  const RunRequest& request;
  std::unique_ptr<Communicator> all;  // workers of the layout first, then spares
  std::function<std::shared_ptr<const Dataset>()> dataset;  // asked for when the rank works
  Hooks& hooks;
  RankFaults* faults = nullptr;  // of this rank; null: none
  Watchdog* watchdog = nullptr;
};

// Ranks that such a run is started with.
int rank_count(const Config& config);

// Returns when the run is complete, on every rank that is alive.
void run_elastic_rank(ElasticRank parts);

}  // namespace shardproof
