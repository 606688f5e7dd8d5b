// ctest: fault timeout=240 lock=mpi
// libshardproof_mpi.so in front of programs that include nothing of ours: every mistake is named
// where plain MPI gives wrong numbers, an error or a hang, and a clean program runs as without it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <future>
#include <iostream>
#include <map>
#include <set>

#include "base/temp_folder.h"
#include "comm/dump_report.h"
#include "harness/child.h"

namespace shardproof {
namespace {

using Variables = std::map<std::string, std::string>;

// Programs end themselves (SIGALRM) long before.
ChildResult mpirun(int ranks, const std::vector<std::string>& program,
                   const Variables& variables = {}) {
  std::vector<std::string> command{SHARDPROOF_MPIEXEC,
                                   "-n",
                                   std::to_string(ranks),
                                   "--map-by",
                                   ":OVERSUBSCRIBE",
                                   "--bind-to",
                                   "none",
                                   "--mca",
                                   "mpi_yield_when_idle",
                                   "1"};
  for (const auto& [name, value] : variables) {
    command.insert(command.end(), {"-x", name + "=" + value});  // of the ranks, not of mpirun
  }
  command.insert(command.end(), program.begin(), program.end());
  return run_child(command, std::chrono::seconds(60),
                   {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
}

// With the preload, and a board of its own, which must be gone in the end.
ChildResult guarded(int ranks, const std::vector<std::string>& program, Variables variables = {}) {
  const TempFolder board;
  variables["SHARDPROOF_MPI_BOARD"] = board.path();
  variables["LD_PRELOAD"] = SHARDPROOF_PRELOAD;
  variables.emplace("SHARDPROOF_MPI_LOOK", "0.3");
  ChildResult result = mpirun(ranks, program, variables);
  EXPECT_TRUE(std::filesystem::is_empty(board.path())) << program[1] << result.output;
  EXPECT_FALSE(result.timed_out) << result.output;
  return result;
}

int count_of(const std::string& text, const std::string& word) {
  int count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

enum class PlainEnd { right, wrong, error, hang };

// What MPI alone makes of a mistake.
PlainEnd plain_end(const char* mistake, const char* elements) {
  const ChildResult result = mpirun(3, {SHARDPROOF_MISTAKES, mistake, elements, "1"});
  EXPECT_FALSE(result.timed_out) << result.output;
  EXPECT_EQ(count_of(result.output, "shardproof"), 0) << result.output;
  if (result.output.find("signal 14") != std::string::npos) return PlainEnd::hang;
  if (result.exit_code != 0) return PlainEnd::error;
  return count_of(result.output, "wrong numbers") > 0 ? PlainEnd::wrong : PlainEnd::right;
}

const char* text(PlainEnd end) {
  constexpr std::array names{"right numbers", "wrong numbers", "an error", "a hang"};
  return names[static_cast<std::size_t>(end)];
}

constexpr int mismatch_code = 86, hang_code = 87, refused_code = 88;
const char *const small = "6", *const large = "150000";

struct Mistake {
  const char* name;
  const char* says;  // all ranks where it is a mismatch of a collective, else one
  int code;
  int ranks;  // that say so
};

const std::vector<Mistake> mistakes{
    {"dtype", "world all_reduce #0: dtype: F32 on ranks 0,2; I32 on rank 1", mismatch_code, 3},
    {"op", "world all_reduce #0: reduce op: sum on ranks 0,2; max on rank 1", mismatch_code, 3},
    {"root", "world broadcast #1: root: 0 on ranks 0,2; 1 on rank 1", mismatch_code, 3},
    {"order", "#0: operation: all_reduce on ranks 0,2; broadcast on rank 1", mismatch_code, 3},
    {"skip", "#0: operation: all_reduce on ranks 0,2; broadcast on rank 1", mismatch_code, 3},
    {"nonblocking", "world all_reduce #2: dtype: F32 on ranks 0,2; I32 on rank 1", mismatch_code,
     3},
    {"pairs", "world all_to_all #4: dtype expected: F32 on ranks 0,2; I32 on rank 1", mismatch_code,
     3},
    {"type", "world recv from rank 0 tag 6 #0: dtype: F32 on rank 0; I32 on rank 1", mismatch_code,
     1},
    {"tag", "rank 1 waits in world recv from rank 0 tag 7 #0 for rank 0", hang_code, 1},
    {"circle",
     "hang (deadlock): deadlock: rank 0 waits in world send to rank 1 tag 3 #0 for rank 1, rank 1 "
     "waits in world send to rank 2 tag 3 #0 for rank 2, rank 2 waits in world send to rank 0",
     hang_code, 1},
    {"exit", "hang (ended): rank 1 is gone: missing from world barrier #5", hang_code, 1},
    {"stop", "hang (stopped): rank 1 is stopped", hang_code, 1},
};

TEST(Preload, MistakesAreNamedWherePlainMpiIsSilentOrHangs) {
  std::set<PlainEnd> plain;
  for (const Mistake& mistake : mistakes) {
    const std::string name = mistake.name;
    auto alone = std::async(std::launch::async, plain_end, mistake.name, small);
    const ChildResult with = guarded(3, {SHARDPROOF_MISTAKES, mistake.name, small, "20"});
    const PlainEnd without = alone.get();
    plain.insert(without);
    std::cout << "plain MPI, " << name << ": " << text(without) << "\n";
    EXPECT_EQ(with.exit_code, mistake.code) << name << ": " << with.output;
    EXPECT_EQ(count_of(with.output, mistake.says), mistake.ranks) << name << ": " << with.output;
    if (mistake.code == mismatch_code) {
      EXPECT_EQ(count_of(with.output, "nothing was written"), mistake.ranks) << with.output;
      EXPECT_EQ(count_of(with.output, "numbers"), 0) << name << ": " << with.output;
    }
  }
  EXPECT_TRUE(plain.contains(PlainEnd::wrong));
  EXPECT_TRUE(plain.contains(PlainEnd::hang));
}

TEST(Preload, CountsAndSplitsSmallAndLarge) {
  const std::vector<std::pair<const char*, std::pair<const char*, const char*>>> rows{
      {"count", {"count: 6 on ranks 0,2; 5 on rank 1", "count: 150000 on ranks 0,2; 149999"}},
      {"split",
       {"split: rank 2 sends 2 to rank 1, which expects 1",
        "split: rank 2 sends 50000 to rank 1, which expects 49999"}},
      {"length", {"count: 6 on rank 0; 5 on rank 1", "count: 150000 on rank 0; 149999 on rank 1"}},
  };
  for (const auto& [name, says] : rows) {
    for (const char* elements : {small, large}) {
      auto alone = std::async(std::launch::async, plain_end, name, elements);
      const ChildResult with = guarded(3, {SHARDPROOF_MISTAKES, name, elements, "20"});
      std::cout << "plain MPI, " << name << " of " << elements << ": " << text(alone.get()) << "\n";
      EXPECT_EQ(with.exit_code, mismatch_code) << name << ": " << with.output;
      EXPECT_GE(count_of(with.output, elements == small ? says.first : says.second), 1)
          << name << ": " << with.output;
    }
  }
}

std::vector<std::string> sums(const ChildResult& result) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < result.output.size();) {
    const std::size_t end = std::min(result.output.find('\n', at), result.output.size());
    const std::string line = result.output.substr(at, end - at);
    if (line.starts_with("rank ")) lines.push_back(line);
    at = end + 1;
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(Preload, ACleanProgramRunsAsWithout) {
  for (const int ranks : {2, 3, 4}) {
    const ChildResult without = mpirun(ranks, {SHARDPROOF_CLEAN, ""});
    const ChildResult with = guarded(ranks, {SHARDPROOF_CLEAN, ""}, {{"SHARDPROOF_MPI_LOOK", "1"}});
    EXPECT_EQ(without.exit_code, 0) << without.output;
    EXPECT_EQ(with.exit_code, 0) << with.output;
    ASSERT_EQ(sums(without).size(), static_cast<std::size_t>(ranks)) << without.output;
    EXPECT_EQ(sums(with), sums(without));
    EXPECT_EQ(count_of(with.output, "mismatch") + count_of(with.output, "hang ("), 0)
        << with.output;
  }
}

TEST(Preload, ASlowRankIsToldAndWaitedFor) {
  const ChildResult result = guarded(3, {SHARDPROOF_MISTAKES, "late", small, "20"});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(count_of(result.output, "rank 1 is slow"), 1) << result.output;
  EXPECT_EQ(count_of(result.output, "right numbers"), 3) << result.output;
}

TEST(Preload, ARankThatComputesForeverIsNamedAtTheDeadline) {
  const ChildResult result =
      guarded(3, {SHARDPROOF_MISTAKES, "loop", small, "20"}, {{"SHARDPROOF_MPI_DEADLINE", "1"}});
  EXPECT_EQ(result.exit_code, hang_code) << result.output;
  EXPECT_EQ(count_of(result.output, "hang (stalled): rank 1 is hung outside communication"), 1)
      << result.output;
}

TEST(Preload, DumpsSayTheSameAfterwards) {
  const TempFolder folder;
  const std::string dumps = folder.path() + "/dumps";
  guarded(3, {SHARDPROOF_MISTAKES, "circle", small, "20"}, {{"SHARDPROOF_MPI_DUMPS", dumps}});
  const DumpReport circle = report_on(read_flight_dumps({dumps}));
  EXPECT_EQ(circle.hang.kind, HangKind::deadlock) << circle.text();
  EXPECT_EQ(circle.hang.cycle, (std::vector<int>{0, 1, 2})) << circle.text();
  std::filesystem::remove_all(dumps);
  guarded(3, {SHARDPROOF_MISTAKES, "dtype", small, "20"}, {{"SHARDPROOF_MPI_DUMPS", dumps}});
  const DumpReport mismatch = report_on(read_flight_dumps({dumps}));
  ASSERT_FALSE(mismatch.mismatches.empty()) << mismatch.text();
  EXPECT_NE(mismatch.mismatches[0].find("I32 on rank 1"), std::string::npos) << mismatch.text();
}

TEST(Preload, SwitchedOffItNamesNothing) {
  const ChildResult off =
      guarded(3, {SHARDPROOF_MISTAKES, "dtype", small, "20"}, {{"SHARDPROOF_MPI_VERIFY", "0"}});
  EXPECT_EQ(off.exit_code, 0) << off.output;
  EXPECT_GT(count_of(off.output, "wrong numbers"), 0) << off.output;
  const ChildResult messages_off =
      guarded(3, {SHARDPROOF_MISTAKES, "type", small, "20"}, {{"SHARDPROOF_MPI_MESSAGES", "0"}});
  EXPECT_EQ(messages_off.exit_code, 0) << messages_off.output;
}

TEST(Preload, AFortranProgramThatCallsMpisFunctionsIsGuardedToo) {
#ifdef SHARDPROOF_FORTRAN
  EXPECT_EQ(count_of(mpirun(2, {SHARDPROOF_FORTRAN, "dtype"}).output, "wrong numbers"), 1);
  const ChildResult clean = guarded(2, {SHARDPROOF_FORTRAN, "none"});
  EXPECT_EQ(count_of(clean.output, "right numbers"), 2) << clean.output;
  const ChildResult wrong = guarded(2, {SHARDPROOF_FORTRAN, "dtype"});
  EXPECT_EQ(wrong.exit_code, mismatch_code) << wrong.output;
  EXPECT_EQ(count_of(wrong.output, "dtype: F32 on rank 0; I32 on rank 1"), 2) << wrong.output;
#else
  GTEST_SKIP() << "no gfortran";
#endif
}

TEST(Preload, WhatIsNotCoveredIsRefusedByName) {
  const std::vector<std::string> program{SHARDPROOF_MISTAKES, "persistent", small, "20"};
  const ChildResult refused = guarded(2, program);
  EXPECT_EQ(refused.exit_code, refused_code) << refused.output;
  EXPECT_GE(count_of(refused.output, "MPI_Recv_init is not covered by envelopes"), 1);
  const ChildResult setting = guarded(2, program, {{"SHARDPROOF_MPI_VERIFY", "yes"}});
  EXPECT_EQ(setting.exit_code, 2) << setting.output;
  EXPECT_GE(count_of(setting.output, "SHARDPROOF_MPI_VERIFY: found 'yes'; expected 0 or 1"), 1)
      << setting.output;
}

}  // namespace
}  // namespace shardproof
