// mixture: which source of a weighted mixture each sample position draws from: a pure function of
// (weights, seed, position), computed for any position by itself.
// The sources are the leaves of a binary tree, halved by number. A node whose leaves weigh T in all
// and whose left child weighs L sends floor((L n + phase) / T) of its first n positions left: the
// staircase of a line of slope L / T (Bresenham, "Algorithm for computer control of a digital
// plotter", 1965), which takes the left child at each position in turn or the right one. `phase`,
// in [0, T), is drawn from the seed. A child's own positions are counted from 0, so its place in
// them follows from the same floor.
// Guarantee: after n positions a source has been drawn within ceil(log2(sources)) of its exact
// share of n: each level is off by less than one, times a share below one for what is above it.
// Weights are rounded to multiples of 2^-32 of their sum, not to zero, so a share is exact to one
// in 2^32. Integer arithmetic: the same on every machine.
// The draws are regular, not random: of two equal sources they alternate. Thread rule: immutable.
#pragma once

#include <cstdint>
#include <vector>

namespace shardproof {

class Mixture {
 public:
  struct Draw {
    int source = 0;
    std::int64_t index = 0;  // earlier draws of this source
  };

  // Preconditions: 1 to 2^16 weights, finite and >= 0, one above 0.
  Mixture(const std::vector<double>& weights, std::uint64_t seed);

  Draw at(std::int64_t position) const;  // position >= 0
  // Draws of the source among the first `positions`.
  std::int64_t count(int source, std::int64_t positions) const;

  int sources() const { return static_cast<int>(upto_.size()) - 1; }
  // Of the source and of all: the share is exactly share(s) / total().
  std::uint64_t share(int source) const;
  std::uint64_t total() const { return upto_.back(); }

 private:
  struct Node {
    int begin, middle, end;  // children [begin, middle) and [middle, end)
  };
  static Node node(int begin, int end);
  std::int64_t left(const Node& node, std::int64_t positions) const;

  std::vector<std::uint64_t> upto_;    // shares of the sources before
  std::vector<std::uint64_t> phases_;  // of the node that splits at `middle`
};

}  // namespace shardproof
