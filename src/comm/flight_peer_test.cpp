// ctest: peer timeout=120
// PyTorch's own analyser reads our dumps and names the same rank; what real PyTorch ranks dump is
// read here. Skipped (77) where no Python has PyTorch (ci/install --peers).
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "base/shell_testing.h"
#include "base/temp_folder.h"
#include "comm/dump_report.h"

namespace shardproof {
namespace {

using Finding = DumpReport::Finding;
using State = OperationRecord::State;

constexpr int ranks = 4;

const TempFolder& work() {
  static const TempFolder folder;
  return folder;
}

OperationRecord collective(const std::string& op, std::uint64_t sequence) {
  OperationRecord operation;
  operation.group = "world";
  operation.members = {0, 1, 2, 3};
  operation.sequence = sequence;
  operation.op = op;
  operation.dtype = op == "barrier" ? "" : "F32";
  if (op != "barrier") operation.send_counts = operation.recv_counts = {8};
  operation.state = State::completed;
  return operation;
}

// Four ranks that did the same, in every way that our own code communicates.
std::vector<RankRecords> clean_job() {
  std::vector<RankRecords> job(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    auto& operations = job[static_cast<std::size_t>(rank)].operations;
    job[static_cast<std::size_t>(rank)].rank = rank;
    operations = {collective("all_reduce", 0), collective("all_gather", 1),
                  collective("all_gather", 2), collective("reduce_scatter", 3),
                  collective("all_to_all", 4), collective("barrier", 5)};
    operations[1].recv_counts = {32};
    operations[2].send_counts = {static_cast<std::uint64_t>(rank + 1)};
    operations[2].recv_counts = {1, 2, 3, 4};
    operations[3].send_counts = {32};
    operations[4].send_counts = {static_cast<std::uint64_t>(10 + rank)};
    operations[4].recv_counts = {static_cast<std::uint64_t>(13 - rank)};
    OperationRecord message = collective(rank % 2 == 0 ? "send" : "recv", 0);
    (rank % 2 == 0 ? message.recv_counts : message.send_counts).clear();
    message.peer = rank ^ 1;
    message.tag = 3;
    operations.push_back(message);
    operations.push_back(collective("broadcast", 6));
  }
  return job;
}

void write(const std::string& name, const std::vector<RankRecords>& job) {
  const std::string folder = work().file("ours/" + name);
  std::filesystem::create_directories(folder);
  for (const RankRecords& records : job) {
    std::ofstream(folder + "/" + flight_dump_name(records.rank), std::ios::binary)
        << flight_dump_file(records, 1'700'000'000'000'000'000);
  }
}

void write_ours() {
  std::vector<RankRecords> job = clean_job();
  write("clean", job);
  for (RankRecords& records : job) {
    if (records.rank != 2) records.operations.push_back(collective("all_reduce", 7));
    if (records.rank != 2) records.operations.back().state = State::failed;
  }
  write("missing", job);
  job = clean_job();
  job[1].operations.back().dtype = "F64";
  write("dtype", job);
  job = clean_job();
  job[3].operations.back().op = "reduce";
  write("operation", job);
}

int run_peer(std::string& output) {
  const std::string command = "OMP_NUM_THREADS=1 '" SHARDPROOF_PEERS_PYTHON
                              "' '" SHARDPROOF_TESTDATA "/flight_peer.py' '" +
                              work().path() + "' 2>&1";
  int code = -1;
  output = testing::output_of(command, code);
  return code;
}

// What PyTorch's analyser says of a folder.
std::string words_of(const char* kind, const char* name) {
  const std::string file = std::string(kind) + ".json";
  return parse_json(work().read(file), file).at(name).get<std::string>();
}

DumpReport report(const std::string& folder) {
  return report_on(read_flight_dumps({work().file(folder)}));
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "lacks \"" << part << "\":\n" << text;
}

void expect_quiet(const std::string& words) {
  for (const char* bad : {"Not all ranks", "errors", "mismatch", "MISMATCH", "Error", "cannot"}) {
    EXPECT_EQ(words.find(bad), std::string::npos) << words;
  }
}

TEST(FlightPeer, PyTorchFindsNothingInACleanJobOfOurs) {
  expect_quiet(words_of("ours", "clean"));
  EXPECT_EQ(report("ours/clean").finding, Finding::nothing) << report("ours/clean").text();
}

TEST(FlightPeer, PyTorchNamesTheSameMissingRank) {
  const std::string words = words_of("ours", "missing");
  expect_part(words, "Not all ranks joining collective, sequence number: 8");
  expect_part(words, "missing ranks: {2}");
  const DumpReport ours = report("ours/missing");
  EXPECT_EQ(ours.hang.culprits, std::vector<int>{2}) << ours.text();
  EXPECT_EQ(ours.hang.operation, "world all_reduce #7");
}

// Its culprits are those that differ from the first file it came upon.
TEST(FlightPeer, PyTorchNamesTheSameMismatch) {
  const std::string dtype = words_of("ours", "dtype");
  expect_part(dtype, "COLLECTIVE_DTYPE_MISMATCH");
  expect_part(report("ours/dtype").summary, "dtype: F32 on ranks 0,2,3; F64 on rank 1");
  const std::string operation = words_of("ours", "operation");
  expect_part(operation, "COLLECTIVE_TYPE_MISMATCH");
  expect_part(report("ours/operation").summary, "broadcast on ranks 0-2; reduce on rank 3");
}

TEST(FlightPeer, DumpsOfRealRanksAreRead) {
  for (const std::string kind : {"gloo", "gloo_json", "nccl"}) {
    EXPECT_EQ(report(kind + "/clean").finding, Finding::nothing) << report(kind + "/clean").text();
    const DumpReport missing = report(kind + "/missing");
    EXPECT_EQ(missing.finding, Finding::named) << kind << missing.text();
    EXPECT_EQ(missing.hang.culprits, std::vector<int>{1}) << kind << missing.text();
    const DumpReport mismatch = report(kind + "/mismatch");
    expect_part(mismatch.summary, "operation: all_reduce on rank 0; broadcast on rank 1");
  }
  expect_quiet(words_of("nccl", "clean"));
  expect_part(words_of("nccl", "missing"), "missing ranks: {1}");
  expect_part(words_of("nccl", "mismatch"), "COLLECTIVE_TYPE_MISMATCH");
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  shardproof::write_ours();
  std::string output;
  const int code = shardproof::run_peer(output);
  if (code == 77 || code == 127) {
    std::printf("skipped: %s", output.c_str());
    return 77;
  }
  if (code != 0) {
    std::printf("%s\nflight_peer.py ended with %d\n", output.c_str(), code);
    return 1;
  }
  return RUN_ALL_TESTS();
}
