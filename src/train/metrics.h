// metrics: one JSON line a step: loss, grad_norm, lr, tokens/s, model-flops utilisation against a
// measured peak, achieved bytes/s, seconds of data / forward / backward / exposed communication /
// optimizer / checkpoint, memory per rank (maximum and mean). Times are wall seconds of this rank.
// Memory is the device's; offload says what moved between it and where state is offloaded to (time
// inside optimizer, forward and backward).
// pipeline_idle is the part of forward and backward in which this rank waited for other stages.
// Exposed communication is the time a rank does not compute its model because of others: waiting,
// transfers, and the additions of the canonical order. A checkpoint counts for the step after it.
// Thread rule: one Metrics per rank.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "parallel/offload_traffic.h"

namespace shardproof {

enum class Part { data, forward, backward, communication, optimizer, checkpoint };
inline constexpr int part_count = 6;
std::string_view name(Part part);

// What a step took of one source of a mixture, over all ranks.
struct SourceMetrics {
  std::string name;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;  // as StepMetrics::tokens
};

struct StepMetrics {
  std::int64_t step = 0;
  double loss = 0, grad_norm = 0, lr = 0;
  std::int64_t tokens = 0;             // of the world, padding and ignored included
  std::vector<SourceMetrics> sources;  // of a mixture, in its order; else empty
  double seconds = 0;
  std::array<double, part_count> parts{};
  double pipeline_idle = 0;                      // seconds, inside forward and backward
  double flops = 0;                              // of the world, by the model's formula
  double peak_flops = 0;                         // measured, of the world; 0: not measured
  std::uint64_t bytes_sent = 0;                  // by this rank, in this step
  std::int64_t memory_max = 0, memory_mean = 0;  // bytes over ranks
  OffloadLedger offload;                         // of this rank; views since the step before

  double tokens_per_second() const;
  double bytes_per_second() const;  // sent, over the time of exposed communication
  double utilisation() const;       // 0 when the peak was not measured
  Json to_json() const;
};

// For metrics and traces: bytes in and out, calls and seconds, of what is offloaded.
Json to_json(const OffloadLedger& ledger);

class Metrics {
 public:
  // An empty path writes nothing; times are kept all the same. A file that exists is never written
  // into, but to continue it: Error conflict (a pipe or a device is no file). Error io when it
  // cannot be written.
  explicit Metrics(const std::string& path, Clock& clock = Clock::real(), bool continued = false);
  ~Metrics();

  // Adds the time until the scope ends to a part. Scopes do not nest.
  class Scope {
   public:
    Scope(Metrics& metrics, Part part);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Metrics& metrics_;
    Part part_;
    Duration start_;
  };

  void begin_step(std::int64_t step);
  StepMetrics& current();
  void end_step();  // writes the line
  const StepMetrics& last() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardproof
