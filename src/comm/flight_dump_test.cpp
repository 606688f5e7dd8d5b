// ctest: unit
// Dumps of ours as PyTorch's tools take them, dumps of PyTorch read back, and what is refused.
#include "comm/flight_dump.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "base/pickle.h"
#include "base/temp_folder.h"

namespace shardproof {
namespace {

using State = OperationRecord::State;

OperationRecord operation(const std::string& op, std::uint64_t sequence) {
  OperationRecord operation;
  operation.group = "world";
  operation.members = {0, 1, 2};
  operation.sequence = sequence;
  operation.op = op;
  operation.dtype = "F32";
  operation.send_counts = {6};
  operation.recv_counts = {6};
  operation.state = State::completed;
  operation.started_ago = 2;
  operation.ended_ago = 1;
  return operation;
}

OperationRecord message(const std::string& op, int peer, int tag, std::uint64_t sequence) {
  OperationRecord message = operation(op, sequence);
  (op == "send" ? message.recv_counts : message.send_counts).clear();
  message.peer = peer;
  message.tag = tag;
  return message;
}

Json entries_of(std::vector<OperationRecord> operations, int rank = 1) {
  RankRecords records;
  records.rank = rank;
  records.operations = std::move(operations);
  return to_flight_dump(records, 10'000'000'000)["entries"];
}

TEST(FlightDump, AnEntryHasWhatPyTorchsToolsLookAt) {
  OperationRecord under_way = operation("all_reduce", 7);
  under_way.state = State::started;
  const Json entries = entries_of({operation("all_reduce", 6), under_way});
  const Json expected = parse_json(
      R"({"record_id":0,"op_id":0,"frames":[],"pg_id":0,"process_group":["world","undefined"],
          "collective_seq_id":7,"p2p_seq_id":0,"profiling_name":"nccl:all_reduce",
          "time_created_ns":8000000000,"input_sizes":[[6]],"input_dtypes":["Float"],
          "output_sizes":[[6]],"output_dtypes":["Float"],"state":"completed",
          "time_discovered_started_ns":8000000000,"time_discovered_completed_ns":9000000000,
          "retired":true,"timeout_ms":0,"is_p2p":false,"duration_ms":1000.0})",
      "expected");
  EXPECT_EQ(entries[0], expected) << entries[0].dump();
  EXPECT_EQ(entries[1]["state"], "started");
  EXPECT_EQ(entries[1]["retired"], false);
  EXPECT_TRUE(entries[1]["time_discovered_completed_ns"].is_null());
}

TEST(FlightDump, NamesAndSizesAreThoseThatMatchAcrossRanks) {
  OperationRecord even = operation("all_gather", 0);
  even.recv_counts = {18};
  OperationRecord uneven = operation("all_gather", 1);
  uneven.recv_counts = {6, 7, 5};
  OperationRecord scattered = operation("reduce_scatter", 2);
  scattered.send_counts = {6, 7, 5};
  OperationRecord barrier = operation("barrier", 3);
  barrier.dtype.clear();
  const Json entries = entries_of({even, uneven, scattered, barrier, operation("split", 0)});
  const char* names[] = {"nccl:all_gather", "nccl:ALLGATHER_coalesced",
                         "nccl:REDUCE_SCATTER_coalesced", "nccl:all_reduce_barrier",
                         "nccl:coalesced"};
  for (std::size_t i = 0; i < std::size(names); ++i) {
    EXPECT_EQ(entries[i]["profiling_name"], names[i]);
  }
  EXPECT_EQ(entries[0]["input_sizes"].dump(), "[[6]]");
  EXPECT_EQ(entries[0]["output_sizes"].dump(), "[[18]]");
  EXPECT_EQ(entries[1]["input_sizes"].dump(), "[[18]]");
  EXPECT_EQ(entries[2]["output_sizes"].dump(), "[[18]]");
  EXPECT_EQ(entries[3]["input_sizes"].dump(), "[]");
  EXPECT_EQ(entries[4]["process_group"][0], "world split");
}

TEST(FlightDump, BothEndsOfAMessageHaveOneGroupAndNumber) {
  const Json sent = entries_of({message("send", 2, 5, 3), message("send", 0, 5, 3)}, 1);
  const Json received = entries_of({message("recv", 1, 5, 3), message("send", 1, 5, 3)}, 2);
  EXPECT_EQ(sent[0]["process_group"][0], "world messages 1-2");
  EXPECT_EQ(sent[1]["process_group"][0], "world messages 0-1");
  EXPECT_EQ(sent[0]["collective_seq_id"], received[0]["collective_seq_id"]);
  EXPECT_NE(received[0]["collective_seq_id"], received[1]["collective_seq_id"]);
  EXPECT_EQ(sent[0]["profiling_name"], "nccl:send 0->1");
  EXPECT_EQ(received[0]["profiling_name"], "nccl:recv 1<-0");
  EXPECT_EQ(received[0]["input_sizes"], sent[0]["output_sizes"]);
}

TEST(FlightDump, OursComesBackWhole) {
  RankRecords records;
  records.rank = 3;
  records.issued["world"] = 9;
  OperationRecord reduced = operation("reduce", 8);
  reduced.root = 2;
  reduced.reduce = "max";
  records.operations = {reduced};
  const FlightDump dump = read_flight_dump(flight_dump_file(records, 1), "flight_rank_3");
  EXPECT_EQ(to_json(dump.records).dump(), to_json(records).dump());
  EXPECT_EQ(dump.version, "2.10");
  EXPECT_EQ(dump.groups.at("world"), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(to_flight_dump(records, 1)["entries"][0]["record_id"], 8);
}

// As two gloo ranks of PyTorch 2.11 and an NCCL rank write it; texts of the test.
Json torch_dump(const std::string& name, const std::string& state, bool retired) {
  return {{"version", "2.10"},
          {"pg_config", {{"0", {{"name", "0"}, {"desc", "default_pg"}, {"ranks", "[0, 1]"}}}}},
          {"entries",
           {{{"record_id", 0},
             {"process_group", {"0", "default_pg"}},
             {"collective_seq_id", 1},
             {"profiling_name", name},
             {"input_sizes", {{3, 5}}},
             {"input_dtypes", {"BFloat16"}},
             {"output_sizes", {{3, 5}}},
             {"state", state},
             {"retired", retired},
             {"is_p2p", name.find(" ") != std::string::npos}}}}};
}

TEST(FlightDump, ReadsPyTorchsAsPickleAndJson) {
  for (const bool pickle : {true, false}) {
    const Json json = torch_dump("nccl:all_reduce", "started", false);
    const FlightDump dump =
        read_flight_dump(pickle ? to_pickle(json, "process_group") : json.dump(), "d/trace_12");
    EXPECT_EQ(dump.records.rank, 12);
    ASSERT_EQ(dump.records.operations.size(), 1u);
    const OperationRecord& one = dump.records.operations[0];
    EXPECT_EQ(describe(one), "0:default_pg all_reduce #1 (15 BFloat16)");
    EXPECT_EQ(one.members, (std::vector<int>{0, 1}));
    EXPECT_EQ(one.state, State::started);
    EXPECT_TRUE(dump.ended_somehow.empty());
  }
  const auto read = [](const Json& json) { return read_flight_dump(json.dump(), "trace_1"); };
  EXPECT_EQ(read(torch_dump("gloo:broadcast", "scheduled", true)).ended_somehow.size(), 1u);
  EXPECT_EQ(read(torch_dump("nccl:broadcast", "started", true)).records.operations[0].state,
            State::failed);
  const FlightDump sent = read(torch_dump("nccl:send 1->0", "completed", true));
  EXPECT_EQ(name_of(sent.records.operations.at(0)), "0:default_pg send to rank 0 tag 0 #0");
  EXPECT_TRUE(read(torch_dump("nccl:coalesced p", "completed", true)).records.operations.empty());
  Json empty = torch_dump("nccl:all_reduce", "started", false);
  empty.erase("entries");
  EXPECT_TRUE(read(empty).records.operations.empty());
}

TEST(FlightDump, BadInputIsNamedWithItsFileAndEntry) {
  const auto refused = [](const std::function<void(Json&)>& spoil,
                          std::initializer_list<std::string_view> parts,
                          const std::string& name = "d/trace_1") {
    Json json = torch_dump("nccl:all_reduce", "started", false);
    spoil(json);
    expect_error(ErrorKind::bad_input, parts, [&] { read_flight_dump(json.dump(), name); });
  };
  refused([](Json& j) { j["version"] = "1.5"; }, {"d/trace_1", "version 1.5", "2.x"});
  refused([](Json& j) { j.erase("version"); }, {"d/trace_1", "'version' is missing"});
  refused([](Json& j) { j["pg_config"]["0"]["ranks"] = "[0, x]"; }, {"pg_config '0'"});
  refused([](Json& j) { j["entries"][0].erase("state"); }, {"entry 0", "'state' is missing"});
  refused([](Json& j) { j["entries"][0]["state"] = "lost"; }, {"entry 0", "found 'lost'"});
  refused([](Json& j) { j["entries"][0]["input_sizes"] = {{-1}}; }, {"entry 0", "-1"});
  refused([](Json& j) { j["entries"][0]["profiling_name"] = "x"; }, {"nccl:all_reduce"});
  refused([](Json& j) { j["entries"][0]["process_group"] = {"0"}; }, {"process_group"});
  refused([](Json& j) { j["entries"][0] = 3; }, {"entry 0", "dictionary"});
  refused([](Json& j) { j["shardproof"] = {{"rank", 1}}; }, {"shardproof", "life"});
  refused([](Json&) {}, {"d/dump", "ends in the rank"}, "d/dump");
  expect_error(ErrorKind::bad_input, {"t_1, byte 0", "GLOBAL"},
               [] { read_flight_dump("cos\nsystem\n(S'x'\ntR.", "t_1"); });
}

TEST(FlightDump, AFolderIsReadAndARankComesOnce) {
  const TempFolder folder;
  const std::string bytes = torch_dump("nccl:all_reduce", "started", false).dump();
  for (const char* name : {"trace_1", "trace_0.json", "step_1.safetensors", "rank_0.jsonl", "x"}) {
    folder.write(name, bytes);
  }
  const auto dumps = read_flight_dumps({folder.path()});
  ASSERT_EQ(dumps.size(), 2u);
  EXPECT_EQ(dumps[0].records.rank, 0);
  EXPECT_EQ(dumps[1].records.rank, 1);
  expect_error(ErrorKind::bad_input, {"trace_1", "second dump of rank 1"}, [&] {
    read_flight_dumps({folder.file("trace_1"), folder.path()});
  });
  expect_error(ErrorKind::bad_input, {folder.file("none")},
               [&] { read_flight_dumps({folder.file("none")}); });
  const TempFolder empty;
  expect_error(ErrorKind::bad_input, {empty.path(), "no dumps"},
               [&] { read_flight_dumps({empty.path()}); });
}

}  // namespace
}  // namespace shardproof
