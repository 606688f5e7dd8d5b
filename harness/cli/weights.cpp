// weights: the verbs `checkpoint export` and `checkpoint import`: weights as one plain file.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "checkpoint/locate.h"
#include "checkpoint/weights_file.h"
#include "comm/thread_communicator.h"
#include "harness/cli/cli.h"

namespace shardproof {
namespace {

// The folder and the name of a file.
std::pair<std::unique_ptr<Storage>, std::string> storage_of_file(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string folder = whole.has_parent_path() ? whole.parent_path().string() : ".";
  return {posix_storage(folder, false), whole.filename().string()};
}

struct Export {
  std::string from;  // DIR or DIR/ID
  std::string file;
  bool json = false;
};

int export_file(const Export& asked) {
  const Located located = locate_checkpoint(asked.from);
  const auto storage = posix_storage(located.directory, false);
  const auto [out, name] = storage_of_file(asked.file);
  const WeightsFile file =
      export_weights(*storage, read_manifest(*storage, located.id), *out, name);
  const Json json{{"file", asked.file},
                  {"tensors", file.tensors},
                  {"bytes", file.bytes},
                  {"sha256", file.sha256.hex()}};
  if (asked.json) {
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}: {} tensors, {} bytes, sha256 {}\n", asked.file, file.tensors, file.bytes,
               file.sha256.hex());
  }
  return 0;
}

struct Import {
  std::string file;
  std::string directory;
  std::string id;
  bool json = false;
};

int import_file(const Import& asked) {
  const auto [in, name] = storage_of_file(asked.file);
  const auto storage = posix_storage(asked.directory, true);
  ThreadWorld world(1);
  const SaveReport report = import_weights(*in, name, *storage, *world.communicator(0), asked.id);
  const Json json{
      {"id", report.id}, {"bytes", report.bytes}, {"state_digest", report.state_digest.hex()}};
  if (asked.json) {
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{0}/{1}: weights alone, {2} bytes; shardproof train --warm-start {0}/{1}\n",
               asked.directory, report.id, report.bytes);
  }
  return 0;
}

}  // namespace

void add_weights(CLI::App& checkpoint, int& status) {
  const auto out = std::make_shared<Export>();
  CLI::App* verb =
      checkpoint.add_subcommand("export", "Write the weights as one plain safetensors file");
  verb->add_option("DIR", out->from, "DIR (its newest checkpoint) or DIR/ID")->required();
  verb->add_option("FILE", out->file, "must not exist")->required();
  verb->add_flag("--json", out->json, "print JSON for programs");
  verb->footer(
      "Examples:\n"
      "  shardproof checkpoint export DIR weights.safetensors\n"
      "  shardproof checkpoint export DIR/step-00000010 weights.safetensors");
  verb->callback([out, &status] { status = export_file(*out); });

  const auto in = std::make_shared<Import>();
  verb = checkpoint.add_subcommand(
      "import", "Make a checkpoint of weights alone from a safetensors file of F32 tensors");
  verb->add_option("FILE", in->file, "safetensors, F32")->required();
  verb->add_option("DIR", in->directory, "directory of checkpoints")->required();
  verb->add_option("ID", in->id, "of the checkpoint")->required();
  verb->add_flag("--json", in->json, "print JSON for programs");
  verb->footer("Examples:\n  shardproof checkpoint import weights.safetensors DIR weights");
  verb->callback([in, &status] { status = import_file(*in); });
}

}  // namespace shardproof
