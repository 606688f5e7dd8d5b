// settings: read once, when the program initialises MPI.
#include "harness/interpose/settings.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace shardproof::interpose {
namespace {

void read(const char* variable, std::string& value) {
  const char* const text = std::getenv(variable);
  if (text != nullptr && *text != 0) value = text;
}

void read(const char* variable, bool& value) {
  std::string text = value ? "1" : "0";
  read(variable, text);
  if (text != "0" && text != "1") {
    throw Error(ErrorKind::bad_input, variable, "found '" + text + "'; expected 0 or 1");
  }
  value = text == "1";
}

void read(const char* variable, double& value, double least) {
  std::string text;
  read(variable, text);
  if (text.empty()) return;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = code == std::errc() && end == text.data() + text.size();
  if (!whole || !(value >= least) || value > 1e9) {
    throw Error(ErrorKind::bad_input, variable,
                "found '" + text + "'; expected seconds, at least " + std::to_string(least));
  }
}

}  // namespace

Settings read_settings() {
  Settings settings;
  if (::access("/dev/shm", W_OK) != 0) {
    settings.board = "/tmp";
    read("TMPDIR", settings.board);
  }
  read("SHARDPROOF_MPI_VERIFY", settings.verify);
  read("SHARDPROOF_MPI_MESSAGES", settings.messages);
  read("SHARDPROOF_MPI_LOOK", settings.look, 0.05);
  read("SHARDPROOF_MPI_DEADLINE", settings.deadline, 0);
  read("SHARDPROOF_MPI_DUMPS", settings.dumps);
  read("SHARDPROOF_MPI_BOARD", settings.board);
  return settings;
}

}  // namespace shardproof::interpose
