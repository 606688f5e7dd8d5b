// control: a rank's end of the control socket (TCP to the launcher; address and token from the
// environment variables SHARDPROOF_CONTROL and SHARDPROOF_CONTROL_TOKEN, which main passes in).
// Lines of JSON: hello, at, error, done, look, records, verdict. A thread answers the host when it
// asks for the rank's flight records, whatever the rank's other threads stand in. Losing the
// launcher ends the rank (no orphan): a thread watches for end of file and calls _exit. A second
// connection becomes the rank's stdout and stderr, so that what a rank printed before it died
// arrives whole (mpirun may drop the last lines). Where a rank hosts the socket (see
// hosted_control.h) there is neither: output stays, and losing the host is left to the
// communicators. With an empty address every function is a no-op. Thread rule: at, error, done and
// verdict may be called from any thread, look from one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "comm/flight_records.h"

namespace shardproof {

enum class ControlHost { launcher, rank };

class ControlClient {
 public:
  // `address`: "host:port", or several, of which the first that answers is taken. Error environment
  // when none does within `patience`; bad_input for another form.
  ControlClient(const std::string& address, const std::string& token, int rank,
                ControlHost host = ControlHost::launcher,
                Duration patience = std::chrono::seconds(10));
  // Without done() before it, the host takes this for a death.
  ~ControlClient();
  void at(std::int64_t step, const std::string& phase);
  void error(const std::string& text);
  void done(int exit_code);

  // What the host may ask of this rank. Called on a thread of the client's, until answer({}).
  struct Answers {
    std::function<RankRecords()> records = nullptr;
    std::function<void(const Error&)> verdict = nullptr;  // of some rank, for all
  };
  void answer(Answers answers);
  // The records of all ranks, as the host has gathered them; nothing when it does not answer.
  std::optional<FlightRecords> look(Deadline deadline);
  void verdict(const Error& error);  // to all ranks, this one included

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardproof
