// saver: savers and a loader in the small, right and wrong ones, for the tests of crash sweeps.
// usage: saver HOW ROOT N | saver load|loose-load|hang-load ROOT
// A state is two files of which each holds N many times, and N alone when they are loaded.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace {

std::string content(int n, int part) {
  std::string text;
  for (int i = 0; i < 12; ++i) text += std::to_string(n) + "\n";
  return text + "part " + std::to_string(part) + "\n";
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "saver: %s\n", what.c_str());
  std::exit(1);
}

void write_file(const std::string& path, const std::string& text, bool sync) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    fail(path);
  }
  if (sync) ::fsync(fd);
  ::close(fd);
}

// Both parts in a folder of their own, which a link takes over in one step.
void save_by_rename(const std::string& root, int n) {
  const std::string folder = root + "/state-" + std::to_string(n);
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) fail(folder);
  for (const int part : {1, 2}) {
    write_file(folder + "/part" + std::to_string(part), content(n, part), true);
  }
  const std::string next = root + "/next";
  ::unlink(next.c_str());
  if (::symlink(("state-" + std::to_string(n)).c_str(), next.c_str()) != 0) fail(next);
  if (std::rename(next.c_str(), (root + "/current").c_str()) != 0) fail("rename");
}

void save_in_place(const std::string& root, int n) {
  ::mkdir((root + "/current").c_str(), 0755);
  for (const int part : {1, 2}) {
    write_file(root + "/current/part" + std::to_string(part), content(n, part), false);
  }
}

// As C programs write: streams, which a crash sweep sees only where it looks into them.
void save_by_streams(const std::string& root, int n) {
  ::mkdir((root + "/current").c_str(), 0755);
  for (const int part : {1, 2}) {
    const std::string path = root + "/current/part" + std::to_string(part);
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) fail(path);
    std::fputs(content(n, part).c_str(), file);
    if (std::fflush(file) != 0 || ::fsync(::fileno(file)) != 0) fail(path);
    std::fclose(file);
  }
}

void save_by_cpp_streams(const std::string& root, int n) {
  ::mkdir((root + "/current").c_str(), 0755);
  for (const int part : {1, 2}) {
    std::ofstream(root + "/current/part" + std::to_string(part)) << content(n, part);
  }
}

// Each part by a process of its own, in place, in a session of its own, as launchers start ranks;
// and as some do, this one hangs when it loses one of them.
void save_by_two(const std::string& root, int n) {
  ::mkdir((root + "/current").c_str(), 0755);
  int status = 0;
  for (const int part : {1, 2}) {
    if (::fork() != 0) continue;
    ::setsid();
    write_file(root + "/current/part" + std::to_string(part), content(n, part), false);
    std::_Exit(0);
  }
  bool lost = false;
  while (::wait(&status) > 0) lost = lost || WIFSIGNALED(status);
  if (lost) ::pause();
}

std::string read_part(const std::string& root, int part) {
  std::ifstream file(root + "/current/part" + std::to_string(part));
  if (!file) fail("there is no part " + std::to_string(part));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Refuses what is not whole; the two parts may be of different saves all the same.
int load(const std::string& root, bool strict) {
  for (const int part : {1, 2}) {
    const std::string text = read_part(root, part);
    const std::string number = text.substr(0, text.find('\n'));
    if (strict && text != content(std::atoi(number.c_str()), part)) fail("a part is damaged");
    std::printf("%s ", number.c_str());
  }
  std::printf("\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) fail("usage: saver HOW ROOT N");
  const std::string how = argv[1], root = argv[2];
  const int n = argc > 3 ? std::atoi(argv[3]) : 0;
  if (how == "load" || how == "loose-load") return load(root, how == "load");
  const bool half = ::access((root + "/current/part1").c_str(), F_OK) == 0 &&
                    ::access((root + "/current/part2").c_str(), F_OK) != 0;
  if (how == "hang-load" && half) ::pause();
  if (how == "hang-load") return load(root, true);
  if (how == "rename") save_by_rename(root, n);
  if (how == "in-place") save_in_place(root, n);
  if (how == "streams") save_by_streams(root, n);
  if (how == "cpp-streams") save_by_cpp_streams(root, n);
  if (how == "two") save_by_two(root, n);
  return 0;
}
