// ctest: unit timeout=60
#include "faults/inject/fault_script.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>

#include "base/expect_error.h"

namespace shardproof {
namespace {

FaultPoint any_point() {
  FaultPoint point;
  point.kind =
      *rc::gen::element(PointKind::call, PointKind::file, PointKind::step, PointKind::start);
  point.rank = *rc::gen::inRange(0, 512);
  const bool call = point.kind == PointKind::call;
  if (call) point.group = *rc::gen::element<std::string>("world", "world/dp.0", "world/a~1.12");
  if (call || point.kind == PointKind::file) {
    point.number = *rc::gen::inRange<std::uint64_t>(0, 1 << 30);
    point.operation = *rc::gen::element<std::string>("", "all_to_all", "link");
    point.moment = call ? *rc::gen::element(Moment::before, Moment::inside, Moment::after)
                        : *rc::gen::element(Moment::before, Moment::torn, Moment::after);
  }
  if (point.kind == PointKind::step) {
    point.step = *rc::gen::inRange<std::int64_t>(0, 1 << 30);
    point.phase = *rc::gen::element(Phase::forward, Phase::reduced, Phase::save);
  }
  return point;
}

Fault any_fault() {
  Fault fault;
  do {
    fault.point = any_point();
    const auto kinds = fault_kinds();
    fault.kind = kinds[*rc::gen::inRange<std::size_t>(0, kinds.size())].kind;
  } while (!misfit(fault.kind, fault.point).empty());
  fault.argument = info(fault.kind).usual;
  if (info(fault.kind).argument == ArgumentUse::bit) fault.argument = *rc::gen::inRange(0, 32);
  fault.times = *rc::gen::inRange(0, 5);
  fault.run = *rc::gen::inRange(0, 4);
  return fault;
}

RC_GTEST_PROP(FaultScript, ALineParsesBack, ()) {
  std::vector<Fault> faults(*rc::gen::inRange<std::size_t>(1, 4));
  for (Fault& fault : faults) fault = any_fault();
  RC_ASSERT(parse_faults(text(faults), "here") == faults);
}

TEST(FaultScript, EachMistakeIsNamed) {
  const std::array<std::pair<const char*, const char*>, 15> mistakes{{
      {"", "POINT!KIND"},
      {"step:0:1:backward", "POINT!KIND"},
      {"step:0:1:backward!kil", "nearest kind is kill"},
      {"step:0:1:sideways!kill", "expected forward"},
      {"step:0:1!kill", "call:RANK:GROUP:NUMBER"},
      {"step:-1:1:forward!kill", "call:RANK:GROUP:NUMBER"},
      {"call:0:world:1:torn!kill", "call:RANK:GROUP:NUMBER"},
      {"file:0:1:inside!kill", "call:RANK:GROUP:NUMBER"},
      {"call:0:world:.1:before!kill", "call:RANK:GROUP:NUMBER"},
      {"step:0:1:forward!dtype", "expected a point of kind call"},
      {"call:0:world:1:after!dtype", "happens before"},
      {"step:0:1:forward!kill=3", "takes no argument"},
      {"step:0:1:forward!delay=-1", "expected seconds"},
      {"step:0:1:forward!clock_jump=1e10", "expected seconds"},
      {"call:0:world:1:before!flip_send=32", "expected a bit"},
  }};
  for (const auto& [line, says] : mistakes) {
    expect_error(ErrorKind::bad_input, {says},
                 [&, &line = line] { parse_faults(line, "run.fault"); });
  }
  expect_error(ErrorKind::bad_input, {"times"}, [] { parse_faults("start:0!other_data*-1", "x"); });
  expect_error(ErrorKind::bad_input, {"run"}, [] { parse_faults("101/start:0!other_data", "x"); });
}

constexpr const char* whole = R"(title = "a title"
run = "training.steps=6"
recover = "dp1"
expect = "detected"

[[fault]]
point = "call:1:world/dp.0:all_to_all.3:before"
kind = "dtype"

[[fault]]
point = "step:0:2:save"
kind = "delay"
argument = 0.5
times = 2
run = 1
)";

TEST(FaultScript, AFileIsReadWhole) {
  const FaultScript script = parse_fault_script(whole, "s.toml");
  EXPECT_EQ(script.title, "a title");
  EXPECT_EQ(script.run_line, "training.steps=6");
  EXPECT_EQ(script.recover, "dp1");
  EXPECT_EQ(script.expect, "detected");
  EXPECT_EQ(text(script.faults),
            "call:1:world/dp.0:all_to_all.3:before!dtype;1/step:0:2:save!delay=0.5*2");
}

TEST(FaultScript, AFileWithAMistakeIsRefusedWithItsLine) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string out = whole;
    out.replace(out.find(from), from.size(), to);
    return out;
  };
  const std::array<std::pair<std::string, const char*>, 9> mistakes{{
      {with("title = ", "titel = "), "s.toml:1: a fault script has no key \"titel\""},
      {with("\"detected\"", "\"found\""), "s.toml:4: expect: found \"found\""},
      {with("times = 2", "times = -2"), "s.toml:14: times: found -2"},
      {with("argument = 0.5", "argument = \"0.5\""), "s.toml:13: argument: expected a number"},
      {with("kind = \"dtype\"", "kind = \"dtyp\""), "s.toml:8: found fault \"dtyp\""},
      {with("kind = \"dtype\"", "knd = \"dtype\""), "s.toml:8: a fault has no key \"knd\""},
      {with("kind = \"dtype\"\n", "kind = \"dtype\"\nargument = 1\n"), "s.toml:9: dtype takes no"},
      {"title = \"x\"\n", "at least one [[fault]]"},
      {"title = ", "s.toml:1"},
  }};
  for (const auto& [text, says] : mistakes) {
    expect_error(ErrorKind::bad_input, {says},
                 [&, &text = text] { parse_fault_script(text, "s.toml"); });
  }
  expect_error(ErrorKind::bad_input, {"/no/such/file.toml"},
               [] { load_fault_script("/no/such/file.toml"); });
}

}  // namespace
}  // namespace shardproof
