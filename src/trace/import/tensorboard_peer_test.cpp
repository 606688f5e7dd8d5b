// ctest: peer timeout=120
// TensorBoard reads what is written here, and what it and PyTorch write is read here, bit for bit.
// Skipped (77) where no Python has TensorBoard (ci/install --peers).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "base/json.h"
#include "base/shell_testing.h"
#include "base/temp_folder.h"
#include "trace/import/event_file.h"

namespace shardproof {
namespace {

// Standard output of the script; `code` is its exit code.
std::string peer(const std::string& arguments, int& code) {
  const std::string command = "timeout 100 '" SHARDPROOF_PEERS_PYTHON "' '" SHARDPROOF_TESTDATA
                              "/events.py' " +
                              arguments + " 2>/dev/null";
  return testing::output_of(command, code);
}

double from_hex_float(const Json& text) {
  return std::strtod(text.get<std::string>().c_str(), nullptr);
}

TEST(TensorBoardPeer, ReadsWhatIsWrittenHere) {
  Trace trace;
  trace.ranks.resize(2);
  for (int rank = 0; rank < 2; ++rank) {
    trace.ranks[rank].rank = rank;
    for (int step = 0; step < 4; ++step) {
      StepRecord record;
      record.step = 1000 * step;
      record.loss = 4 - 0.1 * step;
      record.grad_norm = 1.0 / 3;
      record.lr = 1e-5;
      record.tokens = 128 + rank;
      if (step == 3) record.extra["missing"] = Json{"grad_norm"};
      trace.ranks[rank].steps.push_back(record);
    }
  }
  const TempFolder folder;
  const std::string path = folder.file("events.out.tfevents.1");
  ASSERT_EQ(write_events(trace, path), 4 * 5 - 1);
  int code = -1;
  const std::string text = peer("read '" + path + "'", code);
  ASSERT_EQ(code, 0) << text;
  const Json found = parse_json(text, "events.py");
  EXPECT_EQ(found["records"], 5);
  const Json& scalars = found["scalars"];
  ASSERT_EQ(scalars.size(), 5u) << text;
  EXPECT_EQ(scalars["loss"].size(), 4u);
  EXPECT_EQ(scalars["grad_norm"].size(), 3u);
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(scalars["loss"][step][0], 1000 * step);
    EXPECT_EQ(from_hex_float(scalars["loss"][step][1]), static_cast<float>(4 - 0.1 * step));
    EXPECT_EQ(from_hex_float(scalars["lr"][step][1]), 1e-5f);
    EXPECT_EQ(from_hex_float(scalars["tokens/rank_00001"][step][1]), 129);
  }
}

TEST(TensorBoardPeer, WritesWhatIsReadHere) {
  const TempFolder folder;
  int code = -1;
  const std::string text = peer("write '" + folder.path() + "'", code);
  ASSERT_EQ(code, 0) << text;
  const Json written = parse_json(text, "events.py");
  for (const std::string writer : {"simple", "tensors", "doubles", "torch"}) {
    const std::string digits = writer == "doubles" ? "float64" : "float32";
    const Json& values = written[digits];
    ASSERT_EQ(values.size(), 5u);
    const ScalarLog log = read_event_files(folder.file(writer), {});
    ASSERT_EQ(log.steps.size(), values.size()) << writer;
    EXPECT_FALSE(log.torn);
    EXPECT_EQ(log.digits[0], digits);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(log.steps[i].step, static_cast<std::int64_t>(i));
      EXPECT_EQ(log.steps[i].values[0], from_hex_float(values[i])) << writer << " step " << i;
    }
  }
  const ScalarLog torch = read_event_files(folder.file("torch"), {});
  EXPECT_EQ(torch.tags[0], "loss_metrics/global_avg_loss");
  EXPECT_EQ(torch.steps[1].values[1], 2 * from_hex_float(written["float32"][1]));
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  int code = -1;
  const std::string text = shardproof::peer("check", code);
  if (code == 77 || code == 127) {
    std::printf("skipped: no TensorBoard for Python: %s", text.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
