// spike: whether a step's loss leaps out of those before it: over `factor` times the median of the
// last `window` losses. What is to be done about it is the trainer's; here is the arithmetic, on
// values that are the same bits on every rank, so that all ranks decide alike.
// A spike that comes again with the same bits after its step was rolled back is the data's own.
// Thread rule: values.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>

namespace shardproof {

enum class SpikeRuling {
  none,
  roll_back,  // seen for the first time, or with another loss than before
  accept,     // the same once more: go on with it
  give_up     // other losses at the same step, too often
};

class SpikeWatch {
 public:
  static constexpr int rollbacks = 3;  // of one step, with other losses each time

  // factor 0: nothing is a spike.
  SpikeWatch(double factor, int window) : factor_(factor), window_(window) {}

  SpikeRuling look(std::int64_t step, double loss);  // remembers what it said of a step
  void add(std::int64_t step, double loss);          // the loss of a step that is gone on with
  void forget_from(std::int64_t step);               // losses of steps that are done anew
  double median() const;                             // of the window; 0: empty
  int seen() const { return static_cast<int>(losses_.size()); }

 private:
  double factor_;
  int window_;
  std::deque<std::pair<std::int64_t, double>> losses_;
  struct Seen {
    double loss = 0;
    int times = 0;
  };
  // Steps that were rolled back. All of them: two that spike after one another would else send each
  // other back for ever.
  std::map<std::int64_t, Seen> seen_;
};

}  // namespace shardproof
