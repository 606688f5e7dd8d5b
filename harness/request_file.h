// request_file: a RunRequest as the JSON file that rank processes read, and what rank 0 reports of
// its steps on a line of output. What belongs to one process alone (storage, hooks, stop) does not
// travel. Thread rule: values.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "harness/world.h"

namespace shardproof {

Json request_to_json(const RunRequest& request);
RunRequest request_from_json(const Json& json, const std::string& file);  // Error corrupt

// What a step came to, bit for bit. Error corrupt naming `place`.
Json to_json(const StepResult& result);
StepResult step_result_from_json(const Json& json, const std::string& place);

// Rank 0 says each step on a line of its own; the launcher's side turns it into on_step again.
std::string step_line(const StepResult& result, const StepMetrics& metrics);
std::optional<std::pair<StepResult, StepMetrics>> parse_step_line(const std::string& line);

// And each part of its start: on_part.
std::string part_line(const std::string& part, double seconds);
std::optional<std::pair<std::string, double>> parse_part_line(const std::string& line);

// An Error as the text a rank sends before it ends, and back (Error environment for other text).
std::string error_to_text(const Error& error);
Error error_from_text(const std::string& text);

}  // namespace shardproof
