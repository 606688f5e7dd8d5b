// Storage, MPI and machine; see doctor_kernels.cpp for the numerics.
#include "harness/doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "checkpoint/storage.h"
#include "comm/mpi_communicator.h"
#include "harness/launcher.h"
#include "harness/world.h"
#include "train/program.h"

namespace shardproof {
namespace {

constexpr const char* install_hint = "ci/install installs Open MPI 5 with ULFM";

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// A file of this process's own in the storage, gone with this object.
class Scratch {
 public:
  Scratch(Storage& storage, std::string path) : storage_(storage), path_(std::move(path)) {}
  ~Scratch() {
    try {
      storage_.remove(path_);
    } catch (const Error&) {  // nothing more can be done about it
    }
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  Storage& storage_;
  std::string path_;
};

bool refuses_second_link(Storage& storage, const std::string& from, const std::string& to) {
  try {
    storage.link(from, to);
    return false;
  } catch (const Error& error) {
    return error.kind() == ErrorKind::conflict;
  }
}

}  // namespace

Json Finding::to_json() const {
  return Json{{"name", name}, {"ok", ok}, {"detail", detail}};
}

Finding storage_finding(const std::string& directory) {
  Finding out{"link(2) and fsync", false, ""};
  try {
    const auto storage = posix_storage(directory, false);
    const std::string stem = fmt::format("shardproof-doctor-{}", ::getpid());
    const Scratch draft(*storage, stem + ".draft"), final_name(*storage, stem + ".final");
    const std::string text = "what a checkpoint needs of a file system";
    const auto file = storage->create(draft.path());
    file->write(bytes_of(text));
    file->sync();
    file->close();
    storage->link(draft.path(), final_name.path());
    storage->sync_directory("");
    if (!refuses_second_link(*storage, draft.path(), final_name.path())) {
      out.detail = directory + ": a second link(2) to an existing name was not refused";
    } else if (read_text(*storage, final_name.path(), 1024) != text) {
      out.detail = directory + ": the linked file holds other bytes";
    } else {
      out.ok = true;
      out.detail = directory + ": a link never overwrites; file and directory can be synced";
    }
  } catch (const Error& error) {
    out.detail = error.what();
  }
  return out;
}

Finding mpi_finding() {
  Finding out{"MPI", false, ""};
  const std::string mpirun = find_mpirun();
  if (mpirun.empty()) {
    out.detail = fmt::format("no mpirun; {}", install_hint);
    return out;
  }
  RunRequest request;
  request.config.training.steps = 1;
  request.config.run.layout = "dp2.zero1";
  request.config.run.backend = "mpi";
  request.config.run.deadline = 30;
  request.launch_deadline = std::chrono::seconds(60);
  try {
    run_on_mpi(request);
    out.ok = true;
    out.detail =
        fmt::format("2 ranks trained one step under {}; {}", mpirun,
                    MpiWorld::has_ulfm()
                        ? "ULFM is there: survivors of a killed rank can go on"
                        : fmt::format("no ULFM: a killed rank ends its job; {}", install_hint));
  } catch (const Error& error) {
    out.detail = error.what();
  }
  return out;
}

Finding machine_finding() {
  const Program& mine = program();
  std::string detail =
      fmt::format("{} cores; {}", std::thread::hardware_concurrency(), mine.kernels);
  for (const auto& [name, version] : mine.versions.items()) {
    detail += fmt::format("; {} {}", name, version.get<std::string>());
  }
  return {"machine", true, detail};
}

std::vector<Finding> diagnose(const std::string& directory) {
  if (!std::filesystem::is_directory(directory)) {
    throw Error(ErrorKind::bad_input, "--dir", directory + " is no folder");
  }
  use_numerics(false);
  return {machine_finding(),  alignment_finding(),        thread_finding(),
          portable_finding(), storage_finding(directory), mpi_finding()};
}

int exit_code(const std::vector<Finding>& findings) {
  const bool all = std::all_of(findings.begin(), findings.end(),
                               [](const Finding& finding) { return finding.ok; });
  return all && !findings.empty() ? 0 : exit_code(ErrorKind::environment);
}

}  // namespace shardproof
