// event: the records of the public trace, one line of JSON each (schema 1). Floats carry their
// bits. Unknown keys and kinds are kept by the reader and ignored by the checks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/piece.h"

namespace shardproof {

enum class Phase { forward, backward, reduced, clipped, optimizer, save };
std::string_view name(Phase phase);
Phase phase_from_name(std::string_view name);  // Error bad_input

struct StepRecord {
  std::int64_t step = 0;
  double loss = 0;       // global, per valid token
  double grad_norm = 0;  // global, before clipping
  double lr = 0;
  std::int64_t tokens = 0;  // valid tokens of this rank
  // Ids of this rank, in order. A trace that gives {"digest", "count"} instead: extra["samples"].
  std::vector<std::int64_t> samples;
  bool skipped = false;
  Json extra = Json::object();  // further keys, kept as they are
};

// Where a tensor's bytes lie: a box of the global tensor, or a run of elements (range, row-major)
// inside a piece's box.
struct TensorPlace {
  std::string name;  // global name; moments NAME/exp_avg, NAME/exp_avg_sq, NAME/master
  Shape global_shape;
  int piece = 0;
  Box box;  // the tensor's box, or the piece's box for a run
  bool is_run = false;
  ElementRange range;  // of a run, inside the piece
};

struct TensorRecord {
  std::int64_t step = 0;
  std::string what;  // "param" | "grad" | "moment"
  TensorPlace place;
  Dtype dtype = Dtype::f32;
  std::string sha256;               // of the bytes, 64 hex digits; empty when `blocks` is given
  std::vector<std::string> blocks;  // one SHA-256 per 1,024-element block of the run, in order
  double norm = 0;                  // 2-norm, fp64 in element order
};

// Required of a line: all keys but `piece` (0), `skipped` (false), what its `missing` lists
// (missing.h) and, beside a float, its bits; where the bits are given they are the value, and the
// number may be absent (or null) or rounded: rounded to its digits, the bits' value must be it.
Json to_json(const StepRecord& record);
Json to_json(const TensorRecord& record);
StepRecord step_from_json(const Json& line, const std::string& place);      // Error corrupt
TensorRecord tensor_from_json(const Json& line, const std::string& place);  // Error corrupt

}  // namespace shardproof
