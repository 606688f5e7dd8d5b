// file_error: the Error of a failed file operation: the file, the operation and the system's words.
#pragma once

#include <string>
#include <system_error>

#include "base/error.h"

namespace shardproof {

inline Error file_error(const std::string& path, const std::string& operation, int code) {
  return Error(ErrorKind::io, path, operation + ": " + std::system_category().message(code));
}

}  // namespace shardproof
