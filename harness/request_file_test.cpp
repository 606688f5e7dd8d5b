// ctest: unit
#include "harness/request_file.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/error.h"

namespace shardproof {
namespace {

TEST(RequestFile, ARequestComesBackAsItWas) {
  RunRequest request;
  request.config.training.steps = 7;
  request.config.run.layout = "dp2.zero1";
  request.trace.directory = "/tmp/trace with \"quotes\"";
  request.trace.capture = {-1, 3};
  request.trace.match = "attn|mlp";
  request.trace.digest = true;
  request.metrics_directory = "m";
  request.resume = "";
  request.on_step = [](const StepResult&, const StepMetrics&) {};
  request.on_part = [](const std::string&, double) {};
  for (const char* fault : {"1:2:clipped:kill", "0:5:forward:stop", "1:0:save:delay=0.25"}) {
    request.trace.fault = parse_trace_fault(fault);
    const Json json = request_to_json(request);
    const RunRequest back = request_from_json(json, "file");
    EXPECT_EQ(back.config, request.config);
    EXPECT_EQ(back.trace.directory, request.trace.directory);
    EXPECT_EQ(back.trace.capture, request.trace.capture);
    EXPECT_EQ(back.trace.match, request.trace.match);
    EXPECT_TRUE(back.trace.digest);
    EXPECT_FALSE(back.trace.capture_all);
    EXPECT_EQ(back.trace.fault->kind, request.trace.fault->kind);
    EXPECT_EQ(back.trace.fault->seconds, request.trace.fault->seconds);
    EXPECT_EQ(back.trace.fault->phase, request.trace.fault->phase);
    EXPECT_EQ(back.resume, std::optional<std::string>(""));
    EXPECT_TRUE(back.on_step != nullptr);
    EXPECT_TRUE(back.on_part != nullptr);
    EXPECT_EQ(request_to_json(back).dump(), json.dump());
  }
  request.resume.reset();
  request.on_step = nullptr;
  request.on_part = nullptr;
  const RunRequest back = request_from_json(request_to_json(request), "file");
  EXPECT_FALSE(back.resume.has_value());
  EXPECT_FALSE(back.on_step);
  EXPECT_FALSE(back.on_part);
}

TEST(RequestFile, ABrokenRequestIsRefusedByName) {
  Json json = request_to_json(RunRequest());
  json.erase("trace");
  try {
    request_from_json(json, "request.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    EXPECT_NE(std::string(error.what()).find("trace"), std::string::npos);
  }
}

TEST(RequestFile, APartLineComesBack) {
  const auto part = parse_part_line(part_line("load", 0.1));
  ASSERT_TRUE(part);
  EXPECT_EQ(*part, std::pair(std::string("load"), 0.1));
  EXPECT_FALSE(parse_part_line("a line of the program"));
}

TEST(RequestFile, AStepLineKeepsItsBits) {
  StepResult result;
  result.step = 12;
  result.loss = 0.1 + 0.2;
  result.grad_norm = 1e-300;
  result.lr = 1.0 / 3;
  result.tokens = 41;
  StepMetrics metrics;
  metrics.tokens = 64;
  metrics.seconds = 0.5;
  const std::string line = step_line(result, metrics);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto back = parse_step_line(line);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(std::bit_cast<std::uint64_t>(back->first.loss),
            std::bit_cast<std::uint64_t>(0.1 + 0.2));
  EXPECT_EQ(back->first.grad_norm, 1e-300);
  EXPECT_EQ(back->first.step, 12);
  EXPECT_EQ(back->second.tokens_per_second(), 128);
  EXPECT_FALSE(parse_step_line("step 3 of something else").has_value());
}

TEST(RequestFile, AnErrorTravelsWithItsKind) {
  const Error error(ErrorKind::mismatch, "agreement on data", "rank 1 has a", 1);
  const Error back = error_from_text(error_to_text(error));
  EXPECT_EQ(back.kind(), ErrorKind::mismatch);
  EXPECT_EQ(back.place(), error.place());
  EXPECT_EQ(back.detail(), error.detail());
  EXPECT_EQ(back.world_rank(), 1);
  EXPECT_EQ(error_from_text("Segmentation fault").kind(), ErrorKind::environment);
  EXPECT_EQ(error_from_text("Segmentation fault").detail(), "Segmentation fault");
}

}  // namespace
}  // namespace shardproof
