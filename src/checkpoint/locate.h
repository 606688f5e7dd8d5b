// locate: the one way in which a user names a checkpoint: DIR (its newest) or DIR/ID.
// Thread rule: any thread.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/load.h"

namespace shardproof {

struct Located {
  std::string directory;
  std::string id;
  std::string name() const;  // DIR/ID
};

// Error bad_input naming the folder: none there, or no checkpoint in it.
Located locate_checkpoint(const std::string& text);

}  // namespace shardproof
