// sweep_subject: see the header.
#include "harness/sweep/sweep_subject.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

// The file that shim and sweep share, fresh for each run of the saver.
class Control {
 public:
  explicit Control(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    void* memory = MAP_FAILED;
    if (fd >= 0 && ::ftruncate(fd, sizeof(ControlPage)) == 0) {
      memory = ::mmap(nullptr, sizeof(ControlPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    const int reason = errno;
    if (fd >= 0) ::close(fd);
    if (memory == MAP_FAILED) throw Error(ErrorKind::environment, path, std::strerror(reason));
    page_ = static_cast<ControlPage*>(memory);
  }
  ~Control() { ::munmap(page_, sizeof(ControlPage)); }
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  ControlPage& page() { return *page_; }
  bool fired() const { return __atomic_load_n(&page_->fired, __ATOMIC_SEQ_CST) != 0; }

 private:
  ControlPage* page_ = nullptr;
};

void remove_contents(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    fs::remove_all(at->path(), error);
    if (error) break;
  }
  if (error) throw Error(ErrorKind::environment, folder, "cannot be emptied: " + error.message());
}

// cp keeps times, links and modes, which a loader may go by.
void copy_contents(const std::string& from, const std::string& to) {
  const CommandResult copied =
      run_command({{"cp", "-a", from + "/.", to + "/"}, {}}, std::chrono::minutes(10));
  if (copied.exit_code != 0) {
    throw Error(ErrorKind::environment, "cp -a " + from + " " + to, copied.output);
  }
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

std::string whole_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

std::string find_file_shim() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const char* place : {".", SHARDPROOF_LIBRARY_FOLDER, "../bin"}) {
    const fs::path path = here / place / "libshardproof_files.so";
    if (fs::exists(path)) return fs::canonical(path).string();
  }
  throw Error(ErrorKind::environment, (here / "libshardproof_files.so").string(),
              "is not there, nor in " SHARDPROOF_LIBRARY_FOLDER
              "; expected the library that counts file operations");
}

SweepSubject::SweepSubject(SweepCommands commands)
    : commands_(std::move(commands)), shim_(find_file_shim()) {
  if (commands_.saver.empty()) {
    throw Error(ErrorKind::bad_input, "crash-sweep", "expected the saver's command after --");
  }
  bool numbered = false;
  for (const std::string& word : commands_.saver) numbered |= word.find("{n}") != word.npos;
  if (!numbered) {
    throw Error(ErrorKind::bad_input, "crash-sweep: the saver's command",
                "has no {n}, which becomes 1 for the first save and 2 for the one that overwrites "
                "it; without it both would save the same state");
  }
  std::error_code error;
  const fs::path root = fs::weakly_canonical(fs::absolute(commands_.root), error);
  if (fs::exists(root) && (!fs::is_directory(root) || !fs::is_empty(root))) {
    throw Error(ErrorKind::refused, commands_.root,
                "exists and is no empty folder; a sweep removes what is in its root");
  }
  made_root_ = fs::create_directories(root, error);
  if (error) throw Error(ErrorKind::environment, commands_.root, error.message());
  commands_.root = fs::canonical(root).string();
}

SweepSubject::~SweepSubject() {
  std::error_code ignored;
  if (made_root_) {
    fs::remove_all(commands_.root, ignored);
    return;
  }
  for (const auto& entry : fs::directory_iterator(commands_.root, ignored)) {
    fs::remove_all(entry.path(), ignored);
  }
}

std::string SweepSubject::filled(std::string text, int number) const {
  return replaced(replaced(std::move(text), "{n}", std::to_string(number)), "{root}",
                  commands_.root);
}

SaveRun SweepSubject::save(int number, Cut cut) {
  const std::string path = folder_.file("control");
  Control control(path);
  ControlPage& page = control.page();
  page.kill_at = cut.at;
  page.half = cut.half ? 1 : 0;
  CommandLine line;
  for (const std::string& word : commands_.saver) line.words.push_back(filled(word, number));
  // Set by env, so that the shim is in the saver and in nothing before it.
  line.words.insert(
      line.words.begin(),
      {fmt::format("LD_PRELOAD={}", shim_), fmt::format("{}={}", sweep_control_variable, path),
       fmt::format("{}={}", sweep_root_variable, commands_.root)});
  SaveRun run;
  run.command = run_command(line, commands_.deadline, [&] { return control.fired(); });
  run.fired = control.fired();
  run.mapped = page.mapped;
  if (page.count > max_sweep_operations) {
    throw Error(ErrorKind::bad_input, "crash-sweep",
                fmt::format("a save of more than {} file operations; expected a smaller one",
                            max_sweep_operations));
  }
  run.operations.assign(page.operations, page.operations + page.count);
  return run;
}

LoadRun SweepSubject::load() {
  const std::string out = folder_.file("stdout"), errors = folder_.file("stderr");
  // Without its stdout and stderr in files the two would be mixed.
  const CommandResult result = run_command(
      {{"sh", "-c", "exec >\"$0\" 2>\"$1\"\n" + replaced(commands_.loader, "{root}", root()), out,
        errors},
       {}},
      commands_.deadline);
  return {result.exit_code, result.timed_out, whole_file(out), whole_file(errors)};
}

void SweepSubject::keep() {
  const std::string folder = folder_.file("kept");
  fs::remove_all(folder);
  fs::create_directories(folder);
  copy_contents(root(), folder);
  kept_ = true;
}

void SweepSubject::clear() {
  fs::create_directories(root());
  remove_contents(root());
}

void SweepSubject::restore() {
  clear();
  if (kept_) copy_contents(folder_.file("kept"), root());
}

}  // namespace shardproof
