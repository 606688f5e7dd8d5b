// fuzz: what the fuzz targets share. A parser may refuse with an Error, and nothing else: any other
// exception, signal, sanitizer report, slow or large parse is a finding.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"

namespace shardproof::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// True when it was parsed, false when it was refused.
template <typename Parse>
bool parsed(const Parse& parse) {
  try {
    parse();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What must hold of anything that was parsed.
inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace shardproof::fuzz
