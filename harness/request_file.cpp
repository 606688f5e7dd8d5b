// request_file: a run request as JSON.
#include "harness/request_file.h"

#include <fmt/format.h>

#include <array>

#include "base/json.h"

namespace shardproof {
namespace {

constexpr std::string_view step_prefix = "@step ";
constexpr std::string_view part_prefix = "@part ";

std::string fault_text(const TraceFault& fault) {
  std::string kind = fmt::format("delay={}", fault.seconds);
  if (fault.kind == TraceFault::Kind::kill) kind = "kill";
  if (fault.kind == TraceFault::Kind::stop) kind = "stop";
  return fmt::format("{}:{}:{}:{}", fault.rank, fault.step, name(fault.phase), kind);
}

Json trace_to_json(const TraceOptions& trace) {
  return Json{
      {"directory", trace.directory},     {"capture", trace.capture},
      {"capture_all", trace.capture_all}, {"match", trace.match},
      {"digest", trace.digest},           {"fault", trace.fault ? fault_text(*trace.fault) : ""}};
}

bool boolean_member(const Json& json, const char* key, const std::string& file) {
  const Json& value = member(json, key, file);
  if (!value.is_boolean())
    throw Error(ErrorKind::corrupt, file, std::string(key) + ": expected a boolean");
  return value.get<bool>();
}

TraceOptions trace_from_json(const Json& json, const std::string& file) {
  TraceOptions trace;
  trace.directory = string_member(json, "directory", file);
  for (const Json& step : member(json, "capture", file))
    trace.capture.insert(step.get<std::int64_t>());
  trace.capture_all = boolean_member(json, "capture_all", file);
  trace.match = string_member(json, "match", file);
  trace.digest = boolean_member(json, "digest", file);
  const std::string fault = string_member(json, "fault", file);
  if (!fault.empty()) trace.fault = parse_trace_fault(fault);
  return trace;
}

}  // namespace

Json request_to_json(const RunRequest& request) {
  return Json{{"config", to_json(request.config)},
              {"trace", trace_to_json(request.trace)},
              {"metrics_file", request.metrics_file},
              {"metrics_directory", request.metrics_directory},
              {"resume", request.resume ? Json(*request.resume) : Json(nullptr)},
              {"fallback", request.fallback},
              {"new_case_from", request.new_case_from},
              {"report_steps", request.on_step != nullptr},
              {"report_parts", request.on_part != nullptr}};
}

RunRequest request_from_json(const Json& json, const std::string& file) {
  RunRequest request;
  request.config = parse_config_json(member(json, "config", file).dump(), file);
  request.trace = trace_from_json(member(json, "trace", file), file);
  request.metrics_file = string_member(json, "metrics_file", file);
  request.metrics_directory = string_member(json, "metrics_directory", file);
  request.fallback = boolean_member(json, "fallback", file);
  request.new_case_from = string_member(json, "new_case_from", file);
  if (!member(json, "resume", file).is_null()) request.resume = string_member(json, "resume", file);
  if (boolean_member(json, "report_steps", file)) {
    request.on_step = [](const StepResult& result, const StepMetrics& metrics) {
      fmt::print("{}\n", step_line(result, metrics));
      std::fflush(stdout);
    };
  }
  if (boolean_member(json, "report_parts", file)) {
    request.on_part = [](const std::string& part, double seconds) {
      fmt::print("{}\n", part_line(part, seconds));
      std::fflush(stdout);
    };
  }
  return request;
}

Json to_json(const StepResult& result) {
  return Json{{"step", result.step},
              {"loss", bits_hex(result.loss)},
              {"grad_norm", bits_hex(result.grad_norm)},
              {"lr", bits_hex(result.lr)},
              {"tokens", result.tokens}};
}

StepResult step_result_from_json(const Json& json, const std::string& place) {
  StepResult result;
  result.step = integer_member(json, "step", place);
  result.loss = from_bits_hex(string_member(json, "loss", place));
  result.grad_norm = from_bits_hex(string_member(json, "grad_norm", place));
  result.lr = from_bits_hex(string_member(json, "lr", place));
  result.tokens = integer_member(json, "tokens", place);
  return result;
}

std::string step_line(const StepResult& result, const StepMetrics& metrics) {
  Json json = to_json(result);
  json["positions"] = metrics.tokens;
  json["seconds"] = bits_hex(metrics.seconds);
  return std::string(step_prefix) + json.dump();
}

std::optional<std::pair<StepResult, StepMetrics>> parse_step_line(const std::string& line) {
  if (!line.starts_with(step_prefix)) return std::nullopt;
  const std::string place = "output of rank 0";
  const Json json = parse_json(line.substr(step_prefix.size()), place);
  const StepResult result = step_result_from_json(json, place);
  StepMetrics metrics;
  metrics.step = result.step;
  metrics.loss = result.loss;
  metrics.grad_norm = result.grad_norm;
  metrics.lr = result.lr;
  metrics.tokens = integer_member(json, "positions", place);
  metrics.seconds = from_bits_hex(string_member(json, "seconds", place));
  return std::pair(result, metrics);
}

std::string part_line(const std::string& part, double seconds) {
  return std::string(part_prefix) + Json{{"part", part}, {"seconds", bits_hex(seconds)}}.dump();
}

std::optional<std::pair<std::string, double>> parse_part_line(const std::string& line) {
  if (!line.starts_with(part_prefix)) return std::nullopt;
  const std::string place = "output of rank 0";
  const Json json = parse_json(line.substr(part_prefix.size()), place);
  return std::pair(string_member(json, "part", place),
                   from_bits_hex(string_member(json, "seconds", place)));
}

std::string error_to_text(const Error& error) {
  return Json{{"kind", std::string(name(error.kind()))},
              {"place", error.place()},
              {"detail", error.detail()},
              {"rank", error.world_rank()}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Error error_from_text(const std::string& text) {
  constexpr std::array kinds{ErrorKind::bad_input, ErrorKind::environment, ErrorKind::timeout,
                             ErrorKind::peer_died, ErrorKind::revoked,     ErrorKind::mismatch,
                             ErrorKind::io,        ErrorKind::corrupt,     ErrorKind::refused,
                             ErrorKind::conflict,  ErrorKind::numeric};
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_object() && json.contains("kind")) {
    for (const ErrorKind kind : kinds) {
      if (json["kind"] != name(kind)) continue;
      return Error(kind, string_member(json, "place", "error of a rank"),
                   string_member(json, "detail", "error of a rank"),
                   static_cast<int>(integer_member(json, "rank", "error of a rank")));
    }
  }
  return Error(ErrorKind::environment, "a rank failed", text);
}

}  // namespace shardproof
