// run_mutant: runs `shardproof accept` with one shared object preloaded in front of the libraries,
// and judges what came out: a mutant must be shown to be loaded, exit with 1 and fail the verdict
// that its patch names; the same file unpatched must be loaded and leave everything green.
//   run_mutant PATCH OBJECT SHARDPROOF mutant|control
// A patch may name the run that shows it, after "Arguments: ", apart by spaces.
// Exit 0 when it is as expected, else 1 with the reason.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/temp_folder.h"
#include "harness/child.h"

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

// "Key: value" lines before the diff.
std::optional<std::string> find_header(const std::string& patch, const std::string& key) {
  std::istringstream in(read_file(patch));
  for (std::string line; std::getline(in, line) && !line.starts_with("--- ");) {
    if (line.starts_with(key + ": ")) return line.substr(key.size() + 2);
  }
  return std::nullopt;
}

std::string header_value(const std::string& patch, const std::string& key) {
  if (auto value = find_header(patch, key)) return *value;
  throw Error(ErrorKind::bad_input, patch, "expected a line '" + key + ": ...' above the diff");
}

// Every process of the program must have been served by the object, and one at least there was.
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
    if (who != program) continue;  // mpirun, git, env: they are loaded into, and call nothing of it
    if (self != object || from != object) {
      throw Error(ErrorKind::mismatch, object, fmt::format("a call is served by {}", from));
    }
    ++served;
  }
  if (served == 0) throw Error(ErrorKind::mismatch, object, "no process of ours loaded it");
  fmt::print("loaded and in force in {} processes\n", served);
}

void judge(const Json& report, int exit_code, const std::string& expected) {
  bool named = false;
  for (const Json& verdict : report.at("verdicts")) {
    if (verdict.at("outcome") == "pass") continue;
    fmt::print("{:<12} {:<16} {}\n", verdict.at("outcome").get<std::string>(),
               verdict.at("check").get<std::string>(), verdict.at("reason").get<std::string>());
    if (verdict.at("check") != expected || verdict.at("outcome") != "fail") continue;
    named = true;
    if (verdict.at("replay").get<std::string>().empty()) {
      throw Error(ErrorKind::mismatch, expected, "the failed verdict has no replay line");
    }
  }
  if (expected.empty() && exit_code != 0) {
    throw Error(ErrorKind::mismatch, "control", fmt::format("exit code {}, not 0", exit_code));
  }
  if (expected.empty()) return;
  if (exit_code != 1) {
    throw Error(ErrorKind::mismatch, "mutant", fmt::format("exit code {}, not 1", exit_code));
  }
  if (!named) throw Error(ErrorKind::mismatch, "mutant", "verdict " + expected + " did not fail");
}

int run(const std::string& patch, const std::string& object, const std::string& program,
        bool mutant) {
  const TempFolder folder;
  const std::string proof = folder.file("loaded.txt"), out = folder.file("report");
  std::vector<std::string> command{program, "accept", "--out", out};
  std::istringstream more(find_header(patch, "Arguments").value_or(""));
  for (std::string argument; more >> argument;) command.push_back(argument);
  const ChildResult child = run_child(command, std::chrono::duration_cast<Duration>(deadline),
                                      {{"LD_PRELOAD", object}, {"SHARDPROOF_MUTANT_PROOF", proof}});
  if (child.timed_out) throw Error(ErrorKind::timeout, program, "did not end:\n" + child.output);
  require_loaded(proof, object, program);
  if (!std::filesystem::exists(out + "/report.json")) {
    throw Error(ErrorKind::mismatch, program, "wrote no report:\n" + child.output);
  }
  judge(parse_json(read_file(out + "/report.json"), "report.json"), child.exit_code,
        mutant ? header_value(patch, "Verdict") : "");
  return 0;
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) try {
  const bool known =
      argc == 5 && (argv[4] == std::string("mutant") || argv[4] == std::string("control"));
  if (!known) {
    fmt::print(stderr, "usage: run_mutant PATCH OBJECT SHARDPROOF mutant|control\n");
    return 2;
  }
  const auto real = [](const char* path) { return std::filesystem::canonical(path).string(); };
  return shardproof::run(argv[1], real(argv[2]), real(argv[3]), argv[4] == std::string("mutant"));
} catch (const std::exception& error) {
  fmt::print(stderr, "run_mutant: {}\n", error.what());
  return 1;
}
