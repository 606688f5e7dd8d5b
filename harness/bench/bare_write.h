// bare_write: what a program does that only wants its bytes on the disk: write(2) and one fsync(2),
// with no hint to begin early, as our own files give. The side that saves are measured against.
// Thread rule: any thread.
#pragma once

#include <string>
#include <vector>

namespace shardproof::bench {

// One buffer after the other into a new file. Error io.
void write_and_sync(const std::string& path, const std::vector<std::vector<float>>& values);

}  // namespace shardproof::bench
