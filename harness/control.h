// control: a rank's end of the control socket (TCP to the launcher; address and token from the
// environment variables SHARDPROOF_CONTROL and SHARDPROOF_CONTROL_TOKEN, which main passes in).
// Lines of JSON: hello, at, error, done. Losing the launcher ends the rank (no orphan): a thread
// watches for end of file. With an empty address every function is a no-op (ranks under the user's
// own mpirun: rank 0 then hosts the socket).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace shardproof {

class ControlClient {
 public:
  // Connects within 10 s or throws Error environment.
  ControlClient(const std::string& address, const std::string& token, int rank);
  ~ControlClient();
  void at(std::int64_t step, const std::string& phase);
  void error(const std::string& text);
  void done(int exit_code);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardproof
