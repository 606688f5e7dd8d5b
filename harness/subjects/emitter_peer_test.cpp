// ctest: peer timeout=300 processors=2
// shardproof_trace.py in real PyTorch programs: what it writes, and that it does nothing unasked.
// Skipped (77) where no Python has PyTorch (ci/install --peers).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/temp_folder.h"
#include "harness/sweep/command.h"
#include "invariants/trace_checks.h"
#include "trace/reader.h"

namespace shardproof {
namespace {

const std::string python = SHARDPROOF_PEERS_PYTHON;
const std::string subjects = SHARDPROOF_SUBJECTS;

using Words = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

CommandResult run_python(Words words, Environment environment = {}) {
  words.insert(words.begin(), python);
  environment["OMP_NUM_THREADS"] = "1";
  environment["PYTHONPATH"] = subjects;
  environment.try_emplace("SHARDPROOF_TRACE", "");
  return run_command({words, environment}, std::chrono::seconds(100));
}

// lm.py on two ranks, traced with all its tensors.
Trace train(const TempFolder& folder, const std::string& mode, const std::string& steps) {
  const CommandResult done =
      run_python({subjects + "/lm.py", "--ranks", "2", "--mode", mode, "--steps", steps},
                 {{"SHARDPROOF_TRACE", folder.path()}, {"SHARDPROOF_TENSORS", "all"}});
  EXPECT_EQ(done.exit_code, 0) << done.output;
  return read_trace(folder.path());
}

Words lines_of(const std::string& path) {
  std::ifstream file(path);
  Words lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// "0 forward", "0 backward", ... of a rank, with its checkpoints.
Words places_of(const std::string& path) {
  Words places;
  for (const std::string& text : lines_of(path)) {
    const Json line = Json::parse(text);
    const std::string kind = line.at("kind");
    if (kind == "at")
      places.push_back(fmt::format("{} {}", line["step"].dump(), line["phase"].get<std::string>()));
    if (kind == "checkpoint") places.push_back(line.at("state"));
  }
  return places;
}

TEST(PythonEmitter, SaysWhichPartOfATensorARankHas) {
  const TempFolder folder;
  const Trace trace = train(folder, "fsdp2", "2");
  EXPECT_EQ(trace.world(), 2);
  ASSERT_EQ(trace.files.size(), 2u * (3 * 2 + 1)) << "param, grad and moment, and the start";
  EXPECT_EQ(trace.files[0].step, -1);
  const TensorFile second = TensorFile::open(trace.files[1].path);
  std::set<std::string> names;
  for (const auto& entry : second.entries()) {
    names.insert(entry.place.name);
    if (entry.place.name != "embedding") continue;
    EXPECT_EQ(entry.place.global_shape, (Shape{64, 32}));
    EXPECT_EQ(entry.place.box.offsets, (Shape{32, 0}));
    EXPECT_EQ(entry.place.box.shape, (Shape{32, 32}));
  }
  EXPECT_TRUE(names.contains("embedding"));
  EXPECT_TRUE(names.contains("blocks.1.attention.k.weight"));
  const Verdict cover = check_cover(trace);
  EXPECT_EQ(cover.outcome, Outcome::pass) << cover.reason;
  const Verdict live = check_live(trace, 2);
  EXPECT_EQ(live.outcome, Outcome::pass) << live.reason;
  const Verdict data = check_data(trace);
  EXPECT_EQ(data.outcome, Outcome::pass) << data.reason;
}

TEST(PythonEmitter, TellsCutFromReplicatedTensors) {
  const TempFolder folder;
  const Trace trace = train(folder, "tp", "1");
  const Verdict cover = check_cover(trace);
  EXPECT_EQ(cover.outcome, Outcome::pass) << cover.reason;
  std::map<std::string, Shape> shapes;  // of the second rank's parts
  const TensorFile second = TensorFile::open(trace.files[1].path);
  for (const auto& entry : second.entries()) {
    shapes[entry.place.name] = entry.place.box.shape;
  }
  EXPECT_EQ(shapes["blocks.0.up.weight"], (Shape{64, 32}));
  EXPECT_EQ(shapes["blocks.0.down.weight"], (Shape{32, 64}));
  EXPECT_EQ(shapes["embedding"], (Shape{64, 32}));
}

TEST(PythonEmitter, PlacesShardsThatAreCutTwice) {
  const TempFolder folder;
  const CommandResult done =
      run_python({subjects + "/testing/two_axes.py"},
                 {{"SHARDPROOF_TRACE", folder.path()}, {"SHARDPROOF_TENSORS", "all"}});
  ASSERT_EQ(done.exit_code, 0) << done.output;
  const Trace trace = read_trace(folder.path());
  EXPECT_EQ(trace.ranks.size(), 4u);
  const Verdict cover = check_cover(trace);
  EXPECT_EQ(cover.outcome, Outcome::pass) << cover.reason;
}

TEST(PythonEmitter, SeesEveryPhaseAndDiesWhereItIsTold) {
  const TempFolder folder;
  const CommandResult done = run_python(
      {subjects + "/lm.py", "--ranks", "2", "--mode", "ddp", "--steps", "3", "--save-at", "1",
       "--ckpt", folder.file("saved")},
      {{"SHARDPROOF_TRACE", folder.file("trace")}, {"SHARDPROOF_FAULT", "1:1:clipped:kill"}});
  EXPECT_EQ(done.exit_code, 9) << done.output;
  EXPECT_EQ(places_of(folder.file("trace") + "/rank_00001.jsonl"),
            (Words{"0 forward", "0 backward", "0 reduced", "0 clipped", "0 optimizer", "0 save",
                   "begun", "done", "1 forward", "1 backward", "1 reduced", "1 clipped"}));
}

TEST(PythonEmitter, NamesParametersAsTheyWereBeforeWrapping) {
  const TempFolder folder;
  const CommandResult done =
      run_python({"-c", R"(
import shardproof_trace, torch
class Wrap(torch.nn.Module):
    def __init__(self, inner, name):
        super().__init__()
        self.name = name
        setattr(self, name, inner)
    def forward(self, x): return {"out": getattr(self, self.name)(x)}
inner = torch.nn.Sequential(Wrap(torch.nn.Linear(3, 2), "_checkpoint_wrapped_module"))
inner[0].forward = lambda x: inner[0]._checkpoint_wrapped_module(x)
model = Wrap(Wrap(inner, "_orig_mod"), "module")
inner[0]._checkpoint_wrapped_module.bias.requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
trace = shardproof_trace.Trace(model, optimizer, first=4, name=lambda name: "net." + name)
model.eval(); model(torch.ones(1, 3)); model.train()
model(torch.ones(1, 3))["out"]["out"].sum().backward()
optimizer.step()
trace.step(4, float("nan"), samples=torch.tensor([3]))
trace.end()
)"},
                 {{"SHARDPROOF_TRACE", folder.path()}, {"SHARDPROOF_TENSORS", "3,4"}});
  ASSERT_EQ(done.exit_code, 0) << done.output;
  const Trace trace = read_trace(folder.path());
  ASSERT_EQ(trace.ranks.size(), 1u);
  EXPECT_EQ(trace.ranks[0].run["frozen"], Json::array({"net.0.bias"}));
  ASSERT_EQ(trace.ranks[0].steps.size(), 1u);
  EXPECT_TRUE(std::isnan(trace.ranks[0].steps[0].loss));
  EXPECT_NEAR(trace.ranks[0].steps[0].grad_norm, std::sqrt(6.0), 1e-6) << "its own: none was given";
  EXPECT_EQ(trace.ranks[0].steps[0].lr, 0.5);
  std::set<std::string> found;
  for (const TensorFileRef& each : trace.files) {
    const TensorFile file = TensorFile::open(each.path);
    for (const auto& entry : file.entries()) {
      found.insert(fmt::format("{} {} {}", each.step, each.what, entry.place.name));
    }
  }
  EXPECT_EQ(found, (std::set<std::string>{"3 param net.0.bias", "3 param net.0.weight",
                                          "4 grad net.0.weight", "4 param net.0.bias",
                                          "4 param net.0.weight",
                                          "4 moment net.0.weight/momentum_buffer"}));
}

TEST(PythonEmitter, DoesNothingUnasked) {
  const TempFolder folder;
  const CommandResult done = run_python({"-c", R"(
import os, shardproof_trace, sys, torch
os.chdir(sys.argv[1])
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1)
trace = shardproof_trace.Trace(model, optimizer, data={"size": 1})
hooks = (model._forward_pre_hooks, model._forward_hooks, optimizer._optimizer_step_pre_hooks)
assert not any(hooks), hooks
trace.reduced(); trace.step(3, trace.mean(1.0), None)
with trace.checkpoint("x"): pass
trace.end()
assert not os.listdir("."), os.listdir(".")
)",
                                         folder.path()});
  EXPECT_EQ(done.exit_code, 0) << done.output;
}

TEST(PythonEmitter, TakesSixLinesInAScriptOfSomebodyElse) {
  const Words plain = lines_of(subjects + "/plain.py");
  const Words traced = lines_of(subjects + "/plain_traced.py");
  ASSERT_GT(plain.size(), 50u);
  std::multiset<std::string> before(plain.begin(), plain.end());
  Words added;
  for (const std::string& line : traced) {
    if (const auto found = before.find(line); found != before.end()) {
      before.erase(found);
    } else {
      added.push_back(line);
    }
  }
  EXPECT_EQ(added.size(), 6u) << fmt::format("{}", fmt::join(added, "\n"));
  EXPECT_EQ(before.size(), 1u) << "the save, which is now in a block";
  for (const std::string& line : added) EXPECT_NE(line.find("trace"), line.npos) << line;
  const TempFolder folder;
  const CommandResult done =
      run_python({"-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                  subjects + "/plain_traced.py", "--save-at", "3", "--ckpt", folder.file("saved")},
                 {{"SHARDPROOF_TRACE", folder.file("trace")}, {"SHARDPROOF_TENSORS", "all"}});
  ASSERT_EQ(done.exit_code, 0) << done.output;
  const Trace trace = read_trace(folder.file("trace"));
  for (const Verdict& verdict : {check_live(trace, 6), check_cover(trace), check_data(trace)}) {
    EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.check << ": " << verdict.reason;
  }
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto has_torch = shardproof::run_python({"-c", "import torch.distributed.fsdp"});
  if (has_torch.exit_code != 0) {
    fmt::print("skipped: {} has no torch.distributed\n", shardproof::python);
    return 77;
  }
  return RUN_ALL_TESTS();
}
