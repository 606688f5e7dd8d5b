// failing_calls: makes a chosen system call of this program fail. The functions through which
// checkpoints touch a file system (open, openat, write, pread, fsync, close, linkat, mkdirat,
// unlinkat, fstat, fstatat) are defined in the .cpp, so whatever is linked with it calls these.
// Disarmed, and for files not below the folder they are armed for, they are the system's own.
// Thread rule: arm and disarm while nobody else is at work; calls come from any thread.
#pragma once

#include <string>
#include <vector>

namespace shardproof::damage {

enum class Fault {
  error,        // returns -1 with the errno; nothing is done
  short_count,  // write and pread: one byte is moved. Else: the system's own
};

// Arms: the `at`-th call from now on a file below `folder` fails.
void arm(const std::string& folder, int at, Fault fault, int error);
// Disarms. Returns the calls seen, as "write /tmp/x/step-1.manifest.json".
std::vector<std::string> disarm();
// The calls through which bytes and names can change or be read, as errno finds them plausible.
bool plausible(const std::string& call, int error);

}  // namespace shardproof::damage
