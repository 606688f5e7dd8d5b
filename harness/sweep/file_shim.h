// file_shim: the core of libshardproof_files.so, which is preloaded into every process of a saver.
// Its wrappers (file_shim_calls.cpp, file_shim_stdio.cpp) say here what is about to happen under
// the root; here it is counted, and from the operation on that is to be cut every process that
// comes by kills itself, so that nothing later is ever done. Without its variables in the
// environment every call passes through. Thread rule: any thread, any process; no locks.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

#define SHIM_EXPORT extern "C" __attribute__((visibility("default")))
// The function that this library stands in front of.
#define SHIM_REAL(name) \
  (reinterpret_cast<decltype(&::name)>(::shardproof::shim::next_function(#name)))

namespace shardproof::shim {

struct Path {
  char text[PATH_MAX];
  bool under = false;  // the root
};

void* next_function(const char* name);

// Where a descriptor, or a name, points to; errno stays as it is.
Path path_of(int fd);
Path path_of(int directory, const char* name);  // the parent's links followed, not the last one

enum class Go { whole, half };
// Counts an operation on what is under the root (else: nothing). Does not return when it is cut.
Go before(const char* name, const Path& path, const Path* to = nullptr, std::uint64_t bytes = 0);
void saw_mapping();
[[noreturn]] void cut();  // after half of an operation

// A write through the counter, for streams.
long counted_write(int fd, const void* data, std::size_t bytes);

}  // namespace shardproof::shim
