// wall_clock: three functions of the C library with an offset.
#include "harness/wall_clock.h"

#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include <atomic>
#include <cstdint>

namespace {

std::atomic<std::int64_t> offset_ns{0};

// The library's own, which needs no system call.
int library_clock(clockid_t clock, timespec* time) noexcept {
  using Function = int (*)(clockid_t, timespec*);
  static const auto function = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "clock_gettime"));
  return function(clock, time);
}

timespec moved(const timespec& time) {
  constexpr std::int64_t second = 1'000'000'000;
  const std::int64_t offset = offset_ns.load(std::memory_order_relaxed);
  const std::int64_t all = time.tv_sec * second + time.tv_nsec + offset;
  return {.tv_sec = all / second, .tv_nsec = all % second};
}

timespec wall_time() {
  timespec time{};
  library_clock(CLOCK_REALTIME, &time);
  return moved(time);
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = library_clock(clock, time);
  const bool of_day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (result == 0 && of_day) *time = moved(*time);
  return result;
}

int gettimeofday(timeval* time, void*) noexcept {
  const timespec now = wall_time();
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* out) noexcept {
  const time_t now = wall_time().tv_sec;
  if (out != nullptr) *out = now;
  return now;
}

}  // extern "C"

namespace shardproof {

void move_wall_clock(Duration by) {
  offset_ns += by.count();
}

}  // namespace shardproof
