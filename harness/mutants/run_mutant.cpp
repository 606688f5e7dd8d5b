// run_mutant: runs one program with shared objects preloaded in front of the libraries, and judges
// what came out. A mutant must be shown to be loaded and to be caught by the check that its patch
// names; the same files as they are, all of one run together, must be loaded and leave all green.
//   run_mutant mutant PATCH PROGRAM OBJECT     run_mutant control PATCH PROGRAM OBJECT...
//   run_mutant accept PATCH PROGRAM OBJECT     the mutant in the main acceptance run
//   run_mutant table FOLDER                    prints docs/mutants.md
// The program is shardproof where the patch names a Run (replay), else a test of GoogleTest.
// Exit 0 when it is as expected, else 1 with the reason.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/temp_folder.h"
#include "harness/child.h"
#include "harness/mutants/patch_header.h"

namespace shardproof {
namespace {

constexpr auto deadline = std::chrono::seconds(170);

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error(ErrorKind::io, "read " + path, "it is not there");
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Every process of the program must have been served by each object, and one at least there was.
void require_loaded(const std::string& proof, const std::string& object,
                    const std::string& program) {
  std::istringstream in(read_file(proof));
  int served = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string who, self, from;
    std::getline(fields, who, '\t');
    std::getline(fields, self, '\t');
    std::getline(fields, from, '\t');
    if (who != program || self != object) continue;  // mpirun, git, env call nothing of it
    if (from != object) {
      throw Error(ErrorKind::mismatch, object, fmt::format("a call is served by {}", from));
    }
    ++served;
  }
  if (served == 0) throw Error(ErrorKind::mismatch, object, "no process of ours loaded it");
  fmt::print("loaded and in force in {} processes\n", served);
}

[[noreturn]] void survived(const std::string& why) {
  throw Error(ErrorKind::mismatch, "mutant", why);
}

// The verdict named by the patch fails, with the words of the patch in its reason: a run that
// merely breaks down is no proof.
void judge_report(const Json& report, int exit_code, const PatchHeader& patch) {
  bool named = false;
  for (const Json& verdict : report.at("verdicts")) {
    if (verdict.at("outcome") == "pass") continue;
    const std::string reason = verdict.at("reason").get<std::string>();
    const std::string found =
        fmt::format("{} {}", reason, verdict.value("difference", Json{}).dump());
    fmt::print("{:<12} {:<16} {}\n", verdict.at("outcome").get<std::string>(),
               verdict.at("check").get<std::string>(), found);
    if (verdict.at("check") != patch.verdict || verdict.at("outcome") != "fail") continue;
    if (verdict.at("replay").get<std::string>().empty()) survived("a failed verdict has no replay");
    named = named || found.find(patch.says) != std::string::npos;
  }
  if (exit_code != 1) survived(fmt::format("exit code {}, not 1", exit_code));
  if (!named) survived(fmt::format("verdict {} did not fail with '{}'", patch.verdict, patch.says));
}

void judge_test(const ChildResult& child, const PatchHeader& patch) {
  fmt::print("{}", child.output);
  const bool named = child.output.find("[  FAILED  ] " + patch.test_case) != std::string::npos &&
                     child.output.find(patch.says) != std::string::npos;
  if (child.exit_code != 1 || !named) {
    survived(fmt::format("exit code {}; expected {} to fail with '{}'", child.exit_code,
                         patch.test_case, patch.says));
  }
}

enum class Kind { mutant, control, accept };

std::vector<std::string> command_of(const PatchHeader& patch, Kind kind, const std::string& program,
                                    const std::string& out) {
  if (kind == Kind::accept) return {program, "accept", "--out", out};
  if (patch.is_test()) return {program, "--gtest_filter=" + patch.test_case};
  return {program, "replay", patch.run_line, "--out", out};
}

void run(Kind kind, const std::string& patch_file, const std::string& program,
         const std::vector<std::string>& objects) {
  const PatchHeader patch = read_patch_header(patch_file);
  const TempFolder folder;
  const std::string proof = folder.file("loaded.txt"), out = folder.file("report");
  const ChildResult child = run_child(command_of(patch, kind, program, out),
                                      std::chrono::duration_cast<Duration>(deadline),
                                      {{"LD_PRELOAD", fmt::format("{}", fmt::join(objects, ":"))},
                                       {"SHARDPROOF_MUTANT_PROOF", proof}});
  if (child.timed_out) throw Error(ErrorKind::timeout, program, "did not end:\n" + child.output);
  for (const std::string& object : objects) require_loaded(proof, object, program);
  if (kind == Kind::control) {
    if (child.exit_code == 0) return;
    throw Error(ErrorKind::mismatch, "control",
                fmt::format("exit code {}, not 0:\n{}", child.exit_code, child.output));
  }
  if (patch.is_test() && kind == Kind::mutant) return judge_test(child, patch);
  if (!std::filesystem::exists(out + "/report.json")) survived("no report:\n" + child.output);
  judge_report(parse_json(read_file(out + "/report.json"), "report.json"), child.exit_code, patch);
}

int main_of(const std::vector<std::string>& arguments) {
  const auto real = [](const std::string& path) {
    return std::filesystem::canonical(path).string();
  };
  if (arguments.size() == 2 && arguments[0] == "table") {
    fmt::print("{}", mutant_table(arguments[1]));
    return 0;
  }
  const std::map<std::string, Kind> kinds{
      {"mutant", Kind::mutant}, {"control", Kind::control}, {"accept", Kind::accept}};
  if (arguments.size() < 4 || !kinds.contains(arguments[0])) {
    fmt::print(stderr,
               "usage: run_mutant mutant|control|accept PATCH PROGRAM OBJECT...\n"
               "       run_mutant table FOLDER\n");
    return 2;
  }
  std::vector<std::string> objects;
  for (std::size_t i = 3; i < arguments.size(); ++i) objects.push_back(real(arguments[i]));
  run(kinds.at(arguments[0]), arguments[1], real(arguments[2]), objects);
  return 0;
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) try {
  return shardproof::main_of({argv + 1, argv + argc});
} catch (const std::exception& error) {
  fmt::print(stderr, "run_mutant: {}\n", error.what());
  return 1;
}
