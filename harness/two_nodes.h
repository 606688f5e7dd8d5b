// two_nodes: two nodes of a cluster on this machine: a network namespace and a host name each,
// joined by a virtual cable, and what an mpirun on the first needs to start ranks on both: a
// hostfile with one slot each, and a launch agent that stands for ssh. They share kernel,
// processes, files and clock; only the network is apart, so ranks of different nodes reach each
// other, and the launcher, over TCP alone. Needs root, iproute2 and util-linux. Guarantee: the
// namespaces live as long as two processes of this object, which end with it, and with the thread
// that made it however that ends: nothing is left. Thread rule: that thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/child.h"
#include "harness/run_folder.h"

namespace shardproof {

class TwoNodes {
 public:
  TwoNodes();  // Error environment says what is missing: a program, a right
  TwoNodes(const TwoNodes&) = delete;
  TwoNodes& operator=(const TwoNodes&) = delete;

  // The command as it runs on node 0 or 1, in folder().
  std::vector<std::string> on(int node, const std::vector<std::string>& command) const;
  // Of an mpirun on node 0: how it reaches node 1, and TCP over the cable as the only way between
  // ranks. Ranks of one machine would find each other's shared memory otherwise.
  std::map<std::string, std::string> environment() const;
  std::string hostfile() const { return folder_.file("hosts"); }
  std::string folder() const { return folder_.path(); }
  std::string name(int node) const;                        // of the host
  std::uint64_t bytes_sent(int node) const;                // over the cable, so far
  pid_t holder(int node) const { return at(node).pid(); }  // the namespaces are this process's

 private:
  const Child& at(int node) const { return *nodes_[static_cast<std::size_t>(node)]; }
  void set_up(int node) const;
  void write_files() const;

  RunFolder folder_;
  std::array<std::unique_ptr<Child>, 2> nodes_;
};

}  // namespace shardproof
