// loader: which samples a step takes, in an order that is a function of (seed, epoch) alone: each
// epoch covers every sample exactly once. A step takes the next M x rows samples of the order;
// micro-batch m has rows [m*rows, (m+1)*rows) of them, on every layout, so data ranks are disjoint
// by construction. At the end of an epoch fewer samples than a global batch may be left: `drop`
// leaves them out, `short` fills up with rows of ignored targets (sample id -1).
// A mixture has no epoch of its own: position by position a source is drawn (data/mixture.h), which
// gives the next sample of its own epoch order and begins the next epoch when it has given all. No
// sample is left out and no batch is short. (A small source may begin an epoch within a batch.)
// Prefetch workers change nothing but time: batches and cursor are the same with 0, 1 or 4.
// Thread rule: one loader per rank; its workers are its own.
#pragma once

#include <memory>
#include <vector>

#include "base/batch.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/json.h"
#include "data/dataset.h"

namespace shardproof {

enum class LastBatch { drop, fill };  // "drop" | "short" in the config

struct LoaderConfig {
  int micro_batches = 4;  // M: of the whole world
  int rows = 4;           // of a micro-batch
  int length = 16;
  std::uint64_t seed = 0;
  LastBatch last = LastBatch::drop;
  int workers = 0;  // prefetch threads; 0: samples are made inside next()
  Duration timeout = std::chrono::seconds(60);  // next() waiting for a worker
};

// Where a source of a mixture stands, and what it was mixed as.
struct SourceCursor {
  std::string name;
  double weight = 1;
  std::int64_t size = 0;    // samples of an epoch
  Digest digest;            // of its samples
  std::int64_t before = 0;  // samples taken from it before `since`
  std::int64_t epoch = 0;
  std::int64_t taken = 0;  // of this epoch's order, < size
  bool operator==(const SourceCursor&) const = default;
};

// A resumable position: everything before it was handed out.
struct DataCursor {
  std::int64_t epoch = 0;
  std::int64_t taken = 0;    // samples of this epoch's order already consumed
  std::int64_t samples = 0;  // real samples consumed since the start
  // Chained over the steps: SHA-256(previous, ids of the step), the ids of all ranks in order as
  // 64-bit little-endian integers, -1 for a filled row.
  Digest ledger;
  // Of a mixture, whose `epoch` and `taken` stay 0: of `samples`, where the weights in force began,
  // and each source. samples = the sum of epoch x size + taken over the sources.
  std::int64_t since = 0;
  std::vector<SourceCursor> sources{};

  Json to_json() const;
  static DataCursor from_json(const Json& json, const std::string& place);  // Error corrupt
  bool operator==(const DataCursor&) const = default;
};

// What a resume may change of a mixture: nothing, or the weights, and new sources behind the
// others. Sources keep their cursors either way.
enum class Remix { refuse, allow };

// The sample order of an epoch: a permutation of [0, size) (data/order.h).
std::vector<std::int64_t> epoch_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

class Loader {
 public:
  // `mine`: the micro-batches (0 <= m < M) this rank runs, ascending; may be empty. Error bad_input
  // when an epoch holds less than one global batch under `drop`.
  Loader(std::shared_ptr<const Dataset> dataset, LoaderConfig config, std::vector<int> mine);
  ~Loader();

  // This rank's micro-batches of the next step. An Error of a worker is thrown here, at its step;
  // Error timeout when a worker takes too long.
  std::vector<MicroBatch> next();
  DataCursor cursor() const;  // position after the batches that next() has returned
  // Drops what was prefetched. Error refused, naming what was expected and found, when the cursor
  // cannot be one of this data. After a remix cursor() has the new weights, in force from here on.
  void seek(const DataCursor& cursor, Remix remix = Remix::refuse);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardproof
