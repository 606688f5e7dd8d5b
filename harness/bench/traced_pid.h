// traced_pid: the process of a rank, as the first line of its trace says. Thread rule: any thread.
#pragma once

#include <sys/types.h>

#include <string>

namespace shardproof::bench {

pid_t traced_pid(const std::string& trace, int rank);  // Error corrupt

}  // namespace shardproof::bench
