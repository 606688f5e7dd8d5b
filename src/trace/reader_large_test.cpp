// ctest: unit timeout=120
// A trace of a million events is read in bounded memory.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "base/temp_folder.h"
#include "trace/reader.h"

namespace shardproof {
namespace {

constexpr int steps = 100000;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double most_megabytes = 4096;  // the sanitizer's own memory is not measured
#else
constexpr double most_megabytes = 300;
#endif
constexpr int events_of_a_step = 10;  // its record, six phases, three of kinds not known here

void write_events(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs(R"({"kind":"run","schema":1,"rank":0,"world":1,"pid":1})"
             "\n",
             file);
  for (int step = 0; step < steps; ++step) {
    for (const char* phase : {"forward", "backward", "reduced", "clipped", "optimizer", "save"}) {
      std::fprintf(file,
                   R"({"kind":"at","step":%d,"phase":"%s"})"
                   "\n",
                   step, phase);
    }
    for (int other = 0; other < 3; ++other) {
      std::fprintf(file,
                   R"({"kind":"timer","step":%d,"seconds":0.25})"
                   "\n",
                   step);
    }
    std::fprintf(file,
                 R"({"kind":"step","step":%d,"loss":4.5,"grad_norm":1,"lr":0.1,"tokens":4,)"
                 R"("samples":[1,2],"note":"kept"})"
                 "\n",
                 step);
  }
  std::fprintf(file,
               R"({"kind":"end","step":%d})"
               "\n",
               steps);
  ASSERT_EQ(std::fclose(file), 0);
}

// The peak of a process of its own, which reads; 0 when it read something else.
double peak_megabytes_of_reading(const std::string& directory) {
  int ends[2];
  if (::pipe(ends) != 0) return 0;
  const pid_t child = ::fork();
  if (child == 0) {
    const Trace trace = read_trace(directory);
    const RankTrace& rank = trace.ranks.front();
    const bool all = rank.steps.size() == steps && rank.others.size() == 3u * steps &&
                     rank.ended == steps && rank.steps.back().extra["note"] == "kept" &&
                     rank.find_step(steps / 2)->step == steps / 2;
    struct rusage usage {};
    ::getrusage(RUSAGE_SELF, &usage);
    const double peak = all ? static_cast<double>(usage.ru_maxrss) / 1024 : 0;
    const bool told = ::write(ends[1], &peak, sizeof peak) == sizeof peak;
    ::_exit(told ? 0 : 1);
  }
  ::close(ends[1]);
  double peak = 0;
  if (::read(ends[0], &peak, sizeof peak) != sizeof peak) peak = 0;
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? peak : 0;
}

TEST(ReadTrace, AMillionEventsAreReadInBoundedMemory) {
  static_assert(steps * events_of_a_step == 1000000);
  TempFolder folder;
  write_events(folder.file("rank_00000.jsonl"));
  const double peak = peak_megabytes_of_reading(folder.path());
  EXPECT_GT(peak, 0) << "something was lost";
  EXPECT_LT(peak, most_megabytes);
  RecordProperty("peak_megabytes", static_cast<int>(peak));
}

}  // namespace
}  // namespace shardproof
