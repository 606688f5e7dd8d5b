// A leg: its command, its environment, its end.
#include "harness/judge/subject_leg.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "harness/judge/leg_output.h"
#include "harness/judge/saved_checkpoint.h"
#include "harness/process_state.h"
#include "harness/sweep/command.h"
#include "trace/import/import_scalars.h"
#include "trace/writer.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

// Helpers that outlive the job by a moment (a resource tracker) are not left behind.
constexpr auto grace = std::chrono::seconds(2);

std::string quoted(const std::string& path) {
  const auto plain = [](char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (c >= '0' && c <= '9') ||
           std::string_view("_./+-").find(c) != std::string_view::npos;
  };
  if (std::all_of(path.begin(), path.end(), plain)) return path;
  std::string out = "'";
  for (const char c : path) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string fill(const std::string& text, const std::map<std::string, std::string>& values) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const bool opens = text[at] == '{' && (at == 0 || text[at - 1] != '$');
    const std::size_t end = opens ? text.find('}', at) : std::string::npos;
    if (end != std::string::npos) {
      const auto value = values.find(text.substr(at + 1, end - at - 1));
      if (value != values.end()) {
        out += value->second;
        at = end + 1;
        continue;
      }
    }
    out += text[at++];
  }
  return out;
}

// The initial values, and every step; a resumed run writes the values it begins with. The kernel
// takes no variable beyond 128 KiB.
std::string captured_steps(const Subject& subject) {
  constexpr std::int64_t most_listed = 10000;
  if (subject.steps > most_listed) return "all";
  std::string out = "-1";
  for (std::int64_t step = 0; step < subject.steps; ++step) out += "," + std::to_string(step);
  return out;
}

std::string place_of(const RankTrace& rank) {
  if (!rank.last_at) return fmt::format("rank {} traced no phase", rank.rank);
  return fmt::format("rank {} was in {} of step {}", rank.rank, rank.last_at->phase,
                     rank.last_at->step);
}

std::string scalars_of(const LegFolders& folders, const SubjectLeg& leg) {
  return folders.leg(leg.name) + "/scalars";
}

class LegRun {
 public:
  LegRun(const Subject& subject, const SubjectLeg& leg, const LegFolders& folders)
      : subject_(subject), layout_(subject.layout(leg.layout)), folders_(folders) {
    result_.leg = leg;
  }

  SubjectLegResult run(const std::atomic<bool>* stop) {
    const bool resumes = prepare();
    const CommandLine line = command(resumes);
    append_harness_event(trace_folder(), Json{{"kind", "start"},
                                              {"command", shown_},
                                              {"leg", leg().name},
                                              {"layout", leg().layout},
                                              {"ranks", layout_.ranks}});
    const Duration begun = Clock::real().now();
    const CommandResult done = run_command(
        line,
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(subject_.deadline)),
        [&] {
          look_for_stopped();
          return stop != nullptr && stop->load();
        });
    result_.seconds = std::chrono::duration<double>(Clock::real().now() - begun).count();
    result_.exit_code = done.exit_code;
    result_.interrupted = done.stopped;
    append_harness_event(trace_folder(), Json{{"kind", "exit"},
                                              {"exit_code", done.exit_code},
                                              {"seconds", result_.seconds},
                                              {"timed_out", done.timed_out},
                                              {"left", done.left}});
    if (!done.stopped) judge_end(done);
    return std::move(result_);
  }

 private:
  const SubjectLeg& leg() const { return result_.leg; }
  std::string trace_folder() const { return folders_.trace(leg().name); }
  std::string output() const { return folders_.leg(leg().name) + "/output.txt"; }
  std::string checkpoint() const {
    return folders_.checkpoint(leg().in_place ? leg().from : leg().name);
  }

  // Folders, and the checkpoint it begins with. Whether there is one.
  bool prepare() try {
    fs::create_directories(trace_folder());
    fs::create_directories(fs::path(checkpoint()).parent_path());
    if (leg().bare) fs::create_directories(checkpoint());
    if (leg().from.empty()) return leg().bare;
    if (leg().in_place && !has_saved(read_trace(folders_.trace(leg().from)))) return false;
    if (!leg().in_place) {
      if (const auto odd = special_entry(folders_.checkpoint(leg().from))) {
        throw Error(ErrorKind::bad_input, *odd,
                    fmt::format("leg {} left neither a file nor a folder there", leg().from));
      }
      fs::copy(folders_.checkpoint(leg().from), checkpoint(),
               fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    }
    result_.first = subject_.save;
    return true;
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorKind::io, error.path1().string(), error.code().message());
  }

  CommandLine command(bool resumes) {
    shown_ = command_of(subject_, leg(), folders_, resumes);
    CommandLine line;
    // The variables that the user's shell may have are not meant for this program.
    line.words = {"/bin/sh", "-c",
                  "exec >\"$0\" 2>&1 </dev/null; unset SHARDPROOF_DIGEST; "
                  "[ \"$SHARDPROOF_FAULT\" ] || unset SHARDPROOF_FAULT; cd \"$1\" || exit 127\n" +
                      shown_,
                  output(), subject_.folder};
    line.environment = {{"SHARDPROOF_TRACE", trace_folder()},
                        {"SHARDPROOF_TENSORS", captured_steps(subject_)},
                        {"SHARDPROOF_MATCH", subject_.match},
                        {"SHARDPROOF_FAULT", leg().kill ? leg().kill->fault() : ""},
                        {"OMP_NUM_THREADS", "1"}};
    line.grace = grace;
    return line;
  }

  // SIGSTOP is known to have been sent by what the kernel says of the rank.
  void look_for_stopped() {
    if (!leg().kill || !leg().kill->stop || result_.stopped) return;
    const Duration now = Clock::real().now();
    if (now < next_look_) return;
    next_look_ = now + std::chrono::milliseconds(50);
    if (victim_ <= 0) {
      std::ifstream file(fmt::format("{}/rank_{:05}.jsonl", trace_folder(), leg().kill->rank));
      std::string line;
      if (!std::getline(file, line) || file.eof()) return;  // not written whole
      const Json run = Json::parse(line, nullptr, false);
      const Json pid = run.is_object() ? run.value("pid", Json()) : Json();
      if (pid.is_number_integer()) victim_ = pid.get<pid_t>();
    }
    result_.stopped = victim_ > 0 && process_state(victim_) == 'T';
  }

  std::string end_of(const CommandResult& done) const {
    if (done.timed_out) return fmt::format("met its deadline of {:g} s", subject_.deadline);
    return fmt::format("ended with exit code {}", done.exit_code);
  }

  void judge_end(const CommandResult& done) {
    if (!subject_.traces()) return judge_import(done);
    try {
      result_.trace = read_trace(trace_folder());
      result_.traced = true;
    } catch (const Error& error) {
      result_.traced = error.kind() != ErrorKind::bad_input;  // a line that is no record
      result_.problem = result_.traced ? error.what()
                                       : fmt::format("{} and wrote no trace; {}", end_of(done),
                                                     last_words(output()));
      return;
    }
    const std::vector<RankTrace>& ranks = result_.trace.ranks;
    if (leg().kill) return;  // what became of it is the verdict's
    const auto open =
        std::find_if(ranks.begin(), ranks.end(), [](const RankTrace& rank) { return !rank.ended; });
    if (open != ranks.end()) {
      result_.problem = fmt::format("{} before rank {} wrote its end: {}; {}", end_of(done),
                                    open->rank, place_of(*open), last_words(output()));
    } else if (static_cast<int>(ranks.size()) != layout_.ranks) {
      result_.problem =
          fmt::format("wrote traces of {} ranks; expected {}, as layout.{}.ranks says",
                      ranks.size(), layout_.ranks, layout_.name);
    } else if (done.timed_out) {
      result_.problem =
          fmt::format("{} after all its ranks had written their end: it did not end by itself; {}",
                      end_of(done), last_words(output()));
    } else if (done.exit_code != 0) {
      result_.unclean = end_of(done);
    } else if (done.left > 0) {
      result_.unclean = fmt::format("left {} processes, which were killed", done.left);
    }
  }

  // A program that writes no trace: what it logged is all that is known of it.
  void judge_import(const CommandResult& done) {
    if (done.timed_out || done.exit_code != 0) {
      result_.problem = fmt::format("{}; {}", end_of(done), last_words(output()));
      return;
    }
    try {
      const std::string scalars = scalars_of(folders_, leg());
      import_scalars(scalar_format_from_name(subject_.scalars),
                     fs::exists(scalars) ? scalars : output(), trace_folder());
      result_.trace = read_trace(trace_folder());
      if (!result_.trace.ranks.front().ended) add_end();
      result_.traced = true;
    } catch (const Error& error) {
      result_.problem = fmt::format("left no scalars of {}: {}", subject_.scalars, error.what());
    }
  }

  // What it logged does not say whether it ended; its exit code does.
  void add_end() {
    const std::int64_t step = result_.trace.step_numbers().back() + 1;
    const std::string file = trace_folder() + "/rank_00000.jsonl";
    std::ofstream(file, std::ios::app)
        << Json{{"kind", "end"}, {"step", step}, {"known_by", "exit code 0"}}.dump() << '\n';
    result_.trace = read_trace(trace_folder());
  }

  const Subject& subject_;
  const SubjectLayout& layout_;
  const LegFolders& folders_;
  std::string shown_;
  SubjectLegResult result_;
  pid_t victim_ = 0;  // 0: not known
  Duration next_look_{};
};

}  // namespace

std::string KillPlace::fault() const {
  return fmt::format("{}:{}:{}:{}", rank, step, phase, stop ? "stop" : "kill");
}

std::string command_of(const Subject& subject, const SubjectLeg& leg, const LegFolders& folders,
                       bool resumes) {
  const SubjectLayout& layout = subject.layout(leg.layout);
  const std::map<std::string, std::string> simple = {
      {"ranks", std::to_string(layout.ranks)},
      {"steps", std::to_string(subject.steps)},
      {"save", std::to_string(subject.save)},
      {"ckpt", quoted(folders.checkpoint(leg.in_place ? leg.from : leg.name))}};
  std::map<std::string, std::string> all = simple;
  all["args"] = fill(layout.args + (leg.args.empty() ? "" : " " + leg.args), simple);
  all["dtype"] = leg.float64 ? fill(subject.float64, simple) : "";
  all["scalars"] = quoted(scalars_of(folders, leg));
  all["resume"] = resumes ? fill(subject.resume, simple) : "";
  return fill(subject.launch, all);
}

SubjectLegResult run_subject_leg(const Subject& subject, const SubjectLeg& leg,
                                 const LegFolders& folders, const std::atomic<bool>* stop) {
  return LegRun(subject, leg, folders).run(stop);
}

bool has_saved(const Trace& trace) {
  for (const RankTrace& rank : trace.ranks) {
    for (const CheckpointRecord& each : rank.checkpoints) {
      if (each.done) return true;
    }
  }
  return false;
}

bool passes_place(const Trace& trace, const KillPlace& place) {
  std::ifstream file(fmt::format("{}/rank_{:05}.jsonl", trace.directory, place.rank));
  for (std::string line; std::getline(file, line);) {
    const Json event = Json::parse(line, nullptr, false);
    if (event.is_object() && event.value("kind", "") == "at" &&
        event.value("step", std::int64_t{-1}) == place.step &&
        event.value("phase", "") == place.phase) {
      return true;
    }
  }
  return false;
}

}  // namespace shardproof
