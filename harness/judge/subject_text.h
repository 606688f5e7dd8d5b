// subject_text: a TOML or JSON text, and KEY=VALUE, as one list of keys with the place of each;
// what the keys mean is subject_file's. Thread rule: pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace shardproof {

struct SubjectEntry {
  std::vector<std::string> path;  // {"layout", "ddp2", "ranks"}
  Json value;
  std::string place;  // "subject.toml:12", "--set subject.steps=8"

  std::string key() const;  // "layout.ddp2.ranks"
};

// Leaves alone, in the order of the text; an empty table is a leaf. Error bad_input.
std::vector<SubjectEntry> read_entries(std::string_view text, const std::string& file);
SubjectEntry read_assignment(std::string_view assignment);

}  // namespace shardproof
