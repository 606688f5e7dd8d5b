// checkpoint: the verbs that look at checkpoints on disk: list, show, verify, diff. They read only.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/load.h"
#include "checkpoint/locate.h"
#include "harness/cli/cli.h"
#include "harness/cli/foreign.h"
#include "harness/continued.h"
#include "train/manifest_facts.h"

namespace shardproof {
namespace {

struct Arguments {
  std::string first;   // DIR, or DIR_A[/ID]
  std::string second;  // ID, or DIR_B[/ID]
  Continuation continuation;
  bool continues = false;
  bool json = false;
};

std::string newest(Storage& storage, const std::string& directory) {
  const std::vector<std::string> ids = list_checkpoints(storage);
  if (ids.empty()) throw Error(ErrorKind::bad_input, directory, "there is no checkpoint in it");
  return ids.back();
}

std::string shortened(const Digest& digest) {
  return digest.hex().substr(0, 12);
}

// Text from a file, harmless on a terminal: control characters are escaped, strings unquoted.
std::string plain(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return value.is_string() ? text.substr(1, text.size() - 2) : text;
}

void print(const Json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

std::string dims(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

std::uint64_t bytes_of(const Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const ShardFileRef& file : manifest.files) bytes += file.bytes;
  return bytes;
}

std::string keeps(const Manifest& manifest) {
  return manifest.seeds_alone ? "seeds" : "tensors";
}

int list(const Arguments& arguments) {
  const auto storage = posix_storage(arguments.first, false);
  Json rows = Json::array();
  for (const std::string& id : list_checkpoints(*storage)) {
    try {
      const Manifest manifest = read_manifest(*storage, id);
      rows.push_back({{"id", id},
                      {"step", manifest.facts.step},
                      {"layout", manifest.facts.layout},
                      {"files", manifest.files.size()},
                      {"bytes", bytes_of(manifest)},
                      {"keeps", keeps(manifest)},
                      {"state_digest", manifest.state_digest().hex()}});
    } catch (const Error& error) {
      rows.push_back({{"id", id}, {"error", error.what()}});
    }
  }
  if (arguments.json) {
    print(rows);
    return 0;
  }
  if (rows.empty()) fmt::print("no checkpoint in {}\n", arguments.first);
  for (const Json& row : rows) {
    if (row.contains("error")) {
      fmt::print("{:<20} unreadable: {}\n", plain(row["id"]), plain(row["error"]));
      continue;
    }
    const std::string what =
        row["keeps"] == "seeds"
            ? "seeds alone"
            : fmt::format("{:>4} files {:>14} bytes", row["files"].get<std::size_t>(),
                          row["bytes"].get<std::uint64_t>());
    fmt::print("{:<20} step {:<8} {:<16} {:>31}  state {}\n", plain(row["id"]),
               row["step"].get<std::int64_t>(), plain(row["layout"]), what,
               plain(row["state_digest"]).substr(0, 12));
  }
  return 0;
}

void show_table(const Manifest& manifest) {
  const CheckpointFacts& facts = manifest.facts;
  fmt::print("checkpoint {}\n", manifest.id);
  const auto line = [](const char* key, const Json& value) {
    fmt::print("  {:<18} {}\n", key, plain(value));
  };
  line("step", facts.step);
  line("keeps", keeps(manifest));
  line("state digest", manifest.state_digest().hex());
  line("run", facts.run_line);
  line("layout", facts.layout);
  line("schedule", facts.schedule);
  line("cursor", facts.cursor);
  line("data digest", facts.data_digest);
  line("tokenizer digest", facts.tokenizer_digest);
  line("template digest", facts.template_digest);
  line("packing", facts.packing);
  line("parameter groups", facts.parameter_groups);
  line("seeds", facts.seeds);
  line("versions", facts.versions);
  line("kernels", facts.kernel_fingerprint);
  if (!facts.origin.empty()) line("origin", facts.origin);
  line("config", facts.config);
  fmt::print("\n{:>14}  {:<12}  file\n", "bytes", "digest");
  for (const ShardFileRef& file : manifest.files) {
    fmt::print("{:>14}  {}  {}\n", file.bytes, shortened(file.digest), file.file);
  }
  std::size_t width = 5;
  for (const ManifestEntry& entry : manifest.entries) {
    width = std::max(width, entry.name.size() + 1 + entry.what.size());
  }
  fmt::print("\n{:<{}}  piece  {:<5} {:<14} {:<17} {:<21} {:<12}  file\n", "entry", width, "dtype",
             "box", "range", "bytes", "sha256");
  for (const ManifestEntry& entry : manifest.entries) {
    // Of the run: over its block digests, as the digest of a piece is.
    Sha256 run;
    for (const Digest& block : entry.blocks) run.update(block.bytes.data(), block.bytes.size());
    fmt::print("{:<{}}  {:>2}/{:<2}  {:<5} {:<14} {:<17} {:<21} {}  {}\n",
               entry.name + "/" + entry.what, width, entry.piece, entry.pieces, name(entry.dtype),
               dims(entry.box.shape), fmt::format("[{}:{})", entry.range.lo, entry.range.hi),
               fmt::format("[{}:{})", entry.begin, entry.end), shortened(run.finish()),
               std::filesystem::path(entry.file).filename().string());
  }
}

int show(const Arguments& arguments) {
  const auto storage = posix_storage(arguments.first, false);
  const std::string id =
      arguments.second.empty() ? newest(*storage, arguments.first) : arguments.second;
  const Manifest manifest = read_manifest(*storage, id);
  if (arguments.json) {
    print(parse_json(manifest.print(), id));
  } else {
    show_table(manifest);
  }
  return 0;
}

// Continues the checkpoint (the newest but for what the trace must still hold: the user names it).
int verify_deep(Arguments arguments) {
  if (arguments.continuation.trace.empty() || arguments.second.empty()) {
    throw Error(ErrorKind::bad_input, "--continue",
                "needs a checkpoint ID and the trace of the run that wrote it: --trace DIR");
  }
  arguments.continuation.directory = arguments.first;
  arguments.continuation.id = arguments.second;
  const Verdict verdict = continue_checkpoint(arguments.continuation);
  const std::string outcome(name(verdict.outcome));
  if (arguments.json) {
    print({{"id", arguments.second},
           {"continued", arguments.continuation.steps},
           {"outcome", outcome},
           {"reason", verdict.reason}});
  } else {
    fmt::print("{}: continued for {} steps: {}{}{}{}\n", arguments.second,
               arguments.continuation.steps, outcome, verdict.reason.empty() ? "" : ": ",
               verdict.reason, verdict.difference ? ": " + verdict.difference->print() : "");
  }
  return verdict.outcome == Outcome::pass ? 0 : verdict.outcome == Outcome::fail ? 1 : 3;
}

constexpr const char* seeds_alone_note =
    "; it keeps seeds alone: a resume trains again from the beginning, and compares the state "
    "digest";

// All checkpoints of the directory unless one is named. 1 when any is damaged.
int verify(const Arguments& arguments) {
  if (arguments.second.empty() && is_foreign(arguments.first)) {
    return verify_foreign(arguments.first, arguments.json);
  }
  const auto storage = posix_storage(arguments.first, false);
  std::vector<std::string> ids{arguments.second};
  if (arguments.second.empty()) {
    newest(*storage, arguments.first);  // nothing checked is never a success
    ids = list_checkpoints(*storage);
  }
  int status = 0;
  Json report = Json::array();
  for (const std::string& id : ids) {
    const std::vector<Damage> damages = damages_of(*storage, id);
    if (!damages.empty()) status = 1;
    Json list = Json::array();
    for (const Damage& damage : damages) {
      list.push_back(
          {{"where", damage.where}, {"expected", damage.expected}, {"found", damage.found}});
      if (!arguments.json) {
        fmt::print("{}: damaged: {}: expected {}, found {}\n", id, damage.where, damage.expected,
                   damage.found);
      }
    }
    Json row{{"id", id}, {"whole", damages.empty()}, {"damages", list}};
    if (damages.empty()) {
      const bool seeds = read_manifest(*storage, id).seeds_alone.has_value();
      row["keeps"] = seeds ? "seeds" : "tensors";
      if (!arguments.json) fmt::print("{}: whole{}\n", id, seeds ? seeds_alone_note : "");
    }
    report.push_back(row);
  }
  if (arguments.json) print(report);
  return status;
}

struct Side {
  std::string name;  // DIR/ID
  std::unique_ptr<Storage> storage;
  Manifest manifest;
};

// An Error of `body` names what it was about: paths in a storage begin at its folder.
template <typename Body>
auto naming(const std::string& name, const Body& body) try {
  return body();
} catch (const Error& error) {
  throw Error(error.kind(), name + ": " + error.place(), error.detail(), error.world_rank());
}

Side open_side(const std::string& text) {
  const Located located = locate_checkpoint(text);
  Side side;
  side.storage = posix_storage(located.directory, false);
  side.name = located.name();
  side.manifest =
      naming(located.directory, [&] { return read_manifest(*side.storage, located.id); });
  return side;
}

Json to_json(const StateDifference& difference) {
  return {{"entry", difference.entry},
          {"element", difference.element},
          {"left", difference.left},
          {"right", difference.right}};
}

// Both sides, then for each piece that differs the address of its first difference, and there the
// bit patterns of both.
void print_differences(const Side& left, const Side& right,
                       const std::vector<StateDifference>& differences) {
  if (differences.empty()) return;
  fmt::print("--- {}\n+++ {}\n", left.name, right.name);
  for (const StateDifference& each : differences) {
    const std::string element = each.element < 0 ? "" : fmt::format(" element {}", each.element);
    fmt::print("{}{}: {} | {}\n", each.entry, element, each.left, each.right);
  }
}

int diff(const Arguments& arguments) {
  if (is_foreign(arguments.first) || is_foreign(arguments.second)) {
    return diff_across(arguments.first, arguments.second, arguments.json);
  }
  const Side left = open_side(arguments.first);
  const Side right = open_side(arguments.second);
  const std::vector<StateDifference> differences =
      naming(left.name + " against " + right.name, [&] {
        return diff_checkpoints(*left.storage, left.manifest, *right.storage, right.manifest);
      });
  if (arguments.json) {
    Json report = Json::array();
    for (const StateDifference& each : differences) report.push_back(to_json(each));
    print(report);
  } else {
    print_differences(left, right, differences);
  }
  return differences.empty() ? 0 : 1;
}

CLI::App* add_verb(CLI::App& parent, const char* name, const char* description,
                   const std::shared_ptr<Arguments>& arguments, const std::string& examples) {
  CLI::App* verb = parent.add_subcommand(name, description);
  verb->add_flag("--json", arguments->json, "print JSON for programs");
  verb->footer("Examples:\n" + examples);
  return verb;
}

}  // namespace

void add_checkpoint(CLI::App& app, int& status) {
  CLI::App* group = app.add_subcommand(
      "checkpoint", "Look at checkpoints: list, show, verify, diff, export, import, prune");
  group->require_subcommand(1);
  group->footer(
      "Examples:\n"
      "  shardproof checkpoint list runs/a/checkpoints\n"
      "  shardproof checkpoint verify runs/a/checkpoints step-00000010\n"
      "  shardproof checkpoint diff runs/a/checkpoints runs/b/checkpoints/step-00000010");
  const auto arguments = std::make_shared<Arguments>();

  CLI::App* verb =
      add_verb(*group, "list", "The checkpoints of a directory, oldest step first", arguments,
               "  shardproof checkpoint list DIR\n"
               "  shardproof checkpoint list DIR --json");
  verb->add_option("DIR", arguments->first, "directory of checkpoints")->required();
  verb->callback([arguments, &status] { status = list(*arguments); });

  verb = add_verb(*group, "show", "Facts, files and entries of one checkpoint", arguments,
                  "  shardproof checkpoint show DIR                 the newest\n"
                  "  shardproof checkpoint show DIR step-00000010 --json");
  verb->add_option("DIR", arguments->first, "directory of checkpoints")->required();
  verb->add_option("ID", arguments->second, "checkpoint id (default: the newest)");
  verb->callback([arguments, &status] { status = show(*arguments); });

  verb =
      add_verb(*group, "verify",
               "Check every byte, and the facts of the manifest against each other; or another's "
               "checkpoint. Exit code 0: whole, 1: damaged (one line each), 2: bad usage",
               arguments,
               "  shardproof checkpoint verify DIR               all of them\n"
               "  shardproof checkpoint verify model.pt          torch.save; or a folder of\n"
               "      torch.distributed.checkpoint, safetensors (an index, too), llm.c: coverage,\n"
               "      sizes, ranges and CRCs, by tensor; nothing in a pickle is executed\n"
               "  shardproof checkpoint verify DIR step-00000010\n"
               "  shardproof checkpoint verify DIR step-00000010 --continue 3 --trace TRACE "
               "--layout tp2");
  verb->add_option_function<int>(
          "--continue",
          [arguments](int steps) {
            arguments->continues = true;
            arguments->continuation.steps = steps;
          },
          "Also continue it for so many steps, and compare each with the trace of its run")
      ->type_name("STEPS");
  verb->add_option("--trace", arguments->continuation.trace, "Trace of the run that wrote it");
  verb->add_option("--layout", arguments->continuation.layout,
                   "Continue on this layout (default: the checkpoint's)");
  verb->add_option("DIR", arguments->first, "directory of checkpoints")->required();
  verb->add_option("ID", arguments->second, "checkpoint id (default: all)");
  verb->callback([arguments, &status] {
    status = verify(*arguments);
    if (status == 0 && arguments->continues) status = verify_deep(*arguments);
  });

  verb = add_verb(*group, "diff",
                  "First difference of every piece. Exit code 0: same state, 1: differ, 2: trouble",
                  arguments,
                  "  shardproof checkpoint diff DIR_A DIR_B         the newest of each\n"
                  "  shardproof checkpoint diff DIR/step-00000010 DIR/step-00000020\n"
                  "  shardproof checkpoint diff DIR weights.safetensors   parameters, by name");
  verb->add_option("DIR_A", arguments->first, "DIR (its newest checkpoint) or DIR/ID")->required();
  verb->add_option("DIR_B", arguments->second, "DIR (its newest checkpoint) or DIR/ID")->required();
  verb->callback([arguments, &status] {
    try {
      status = diff(*arguments);
    } catch (const Error& error) {
      fmt::print(stderr, "shardproof: {}\n", error.what());
      status = 2;
    }
  });
  add_weights(*group, status);
  add_prune(*group, status);
}

}  // namespace shardproof
