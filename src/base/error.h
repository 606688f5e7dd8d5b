// Error: a failure of the world (bad input, a missing file, a dead peer, damage), thrown at a
// module's boundary. It says what kind, on which rank, at which place, and what was expected.
// The kind decides the exit code (see exit_code); a verdict is never an exception.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace shardproof {

enum class ErrorKind {
  bad_input,    // config, command line, token file, text: the user can mend it            exit 2
  environment,  // something the machine lacks (MPI, link(2), a library)                   exit 3
  timeout,      // a deadline expired                                                      exit 1
  peer_died,    // another rank is gone; `rank` is the dead one                            exit 1
  revoked,      // the communicator was revoked or poisoned by an earlier failure          exit 1
  mismatch,     // ranks disagree on what they must agree on                               exit 1
  io,           // a file operation failed; `place` is the file and the operation          exit 3
  corrupt,      // stored data is damaged: digest, range, header                           exit 1
  refused,      // a well-formed input that must not be used here (other data, other dp)   exit 2
  conflict,     // an immutable id exists with other contents; an --out folder exists      exit 2
  numeric,      // training cannot go on: no valid token, a NaN                            exit 1
};

std::string_view name(ErrorKind kind);
int exit_code(ErrorKind kind);

class Error : public std::exception {
 public:
  static constexpr int no_rank = -1;

  // `place` names the thing (a file and line, a manifest entry, a collective and its sequence
  // number); `detail` says what was found and what was expected.
  Error(ErrorKind kind, std::string place, std::string detail, int world_rank = no_rank);

  ErrorKind kind() const { return kind_; }
  int world_rank() const { return world_rank_; }
  const std::string& place() const { return place_; }
  const std::string& detail() const { return detail_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  ErrorKind kind_;
  int world_rank_;
  std::string place_;
  std::string detail_;
  std::string text_;
};

}  // namespace shardproof
