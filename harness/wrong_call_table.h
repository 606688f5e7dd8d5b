// wrong_call_table: what wrong calls come to on our MPI communicator, as real processes: small and
// large, without the guards and with them. Each group of rows is a job under the launcher; where a
// row ends the job (a crash, a verdict on a hang), another one goes on behind it.
// Thread rule: see launcher.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/wrong_call_row.h"

namespace shardproof {

class ControlClient;

constexpr std::size_t small_wrong_call = 4, large_wrong_call = std::size_t{1} << 18;  // F32

struct WrongCallResult {
  const WrongCallRow* row = nullptr;
  std::size_t elements = 0;
  std::vector<WrongCallOutcome> without, with;  // by rank
};
struct WrongCallTable {
  std::string library;  // "Open MPI v5.0.11"
  std::vector<WrongCallResult> results;
};

struct WrongCallOptions {
  std::vector<std::string> rank_command;  // to which the arguments below are added
  std::vector<std::size_t> sizes{small_wrong_call, large_wrong_call};
  std::size_t first = 0;  // of wrong_call_rows()
  std::size_t rows = wrong_call_rows().size();
  bool guarded_only = false;  // `without` stays empty
};
// Error environment when the ranks cannot be started.
WrongCallTable run_wrong_call_table(const WrongCallOptions& options);
// With the guards every rank of every row says what is wrong, and no buffer of a call that failed
// was written.
bool all_named(const WrongCallTable& table);
std::string text_of(const WrongCallTable& table);
std::string markdown_of(const WrongCallTable& table);  // the page docs/wrong_calls.md

// A rank of it: rows [first, last) with `elements` each. Prints a line of JSON a row.
struct WrongCallJob {
  std::size_t first = 0, last = 0, elements = 0;
  bool guarded = false;
};
void run_wrong_call_rank(const WrongCallJob& job, ControlClient& control);

}  // namespace shardproof
