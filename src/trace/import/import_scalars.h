// import_scalars: a trace of scalars for a program that writes none, from what it logs of itself.
// Thread rule: pure but for the files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/import/scalar_log.h"

namespace shardproof {

enum class ScalarFormat { torchtitan, megatron, tensorboard };
std::string_view name(ScalarFormat format);
ScalarFormat scalar_format_from_name(std::string_view name);  // Error bad_input

struct ImportedScalars {
  std::int64_t steps = 0;
  std::vector<std::string> said;  // what a user should know of it, a line each
};

// Writes DIRECTORY/rank_00000.jsonl: step events with what the source has. What it lacks is listed
// in their "missing" (trace/missing.h), and the run event says
//   "imported": the format, "source": the file's name, "tensors": "not verified",
//   "scalars": {"loss": {"tag": "lm loss", "digits": "4 decimals"}, ...},
//   "first_step": 1 (the source's number of step 0; default 1, of TensorBoard and lists 0),
//   "end": "not known" where the source says nothing about its end; else there is an `end` event if
//   it ended.
// The same bits mean the same printed digits when both sides were imported by one rule.
// Error bad_input, corrupt or io of the source; conflict when the folder holds a trace. A trace
// appears whole or not at all.
ImportedScalars import_scalars(ScalarFormat format, const std::string& input,
                               const std::string& directory, const ScalarOptions& options = {});

}  // namespace shardproof
