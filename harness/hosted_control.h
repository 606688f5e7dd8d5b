// hosted_control: the control socket of a run without a launcher (ranks under the user's own mpirun
// or srun): rank 0 hosts the server on a thread, and every rank is a client. The first rank that
// ends without done() is named once, on rank 0's stderr and in the trace's harness.jsonl; what the
// survivors do about it is the communicators' matter. Not promised: naming the death of rank 0, or
// one after rank 0 has left for longer than it lingers. Output is not redirected.
// Thread rule: the rank's thread; at and done of the client from any thread.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "harness/control.h"

namespace shardproof {

class HostedControl {
 public:
  // Collective over the ranks of the run. `trace_directory` empty: no harness.jsonl. Error
  // environment on a rank that cannot reach rank 0.
  HostedControl(Communicator& world, const std::string& trace_directory);
  // On rank 0: waits for the others to leave, a moment at most.
  ~HostedControl();
  HostedControl(const HostedControl&) = delete;
  HostedControl& operator=(const HostedControl&) = delete;

  ControlClient& client() { return *client_; }

 private:
  class Server;
  std::unique_ptr<Server> server_;  // rank 0's; outlives its client
  std::unique_ptr<ControlClient> client_;
};

}  // namespace shardproof
