// warm_start: a run that begins with the weights of a checkpoint and with nothing else of it: step
// 0, fresh moments, its own data. Asked for by name (training.warm_start), never taken for a
// resume. The weights may be cut otherwise than this run's. Collective. Thread rule: the rank's.
#pragma once

#include <string>

#include "base/json.h"
#include "parallel/plan.h"

namespace shardproof {

class Communicator;

// What the checkpoints of a run that begins with these weights say of their origin. `where`: DIR
// (its newest checkpoint) or DIR/ID; empty: from its seeds. Error bad_input | corrupt.
Json origin_of(const std::string& where);

// Returns the origin. Errors, on all ranks: bad_input: no such checkpoint; corrupt: damaged;
// refused: it lacks a parameter of this model, holds it in another shape, or holds more.
Json load_warm_start(const std::string& where, Plan& plan, Communicator& comm);

}  // namespace shardproof
