// block_text: block digests as a manifest spells them: 64 lower-case hex digits each, one after the
// other. They are nearly all of its text (8 MB of that of a checkpoint of 512 MB), so they are read
// and written past the JSON library, which would take most of the time of a load.
// Torch-free. Thread rule: pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"

namespace shardproof {

std::string blocks_text(std::span<const Digest> blocks);
// Error corrupt naming `place`: no whole number of digests, or another spelling.
std::vector<Digest> blocks_from_text(std::string_view text, const std::string& place);

// A JSON text without what stands between the quotes of its "blocks":"", and that, in order. Only
// the spelling without spaces is found; what was cut out is not looked at.
struct BlocksApart {
  std::string json;
  std::vector<std::string_view> blocks;  // into the text given
};
BlocksApart take_blocks_apart(std::string_view text);

}  // namespace shardproof
