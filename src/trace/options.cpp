// options: what the environment asks of a trace, parsed strictly.
#include <fmt/format.h>

#include <charconv>

#include "base/error.h"
#include "trace/writer.h"

namespace shardproof {
namespace {

constexpr double max_delay_seconds = 86400;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; end <= text.size(); ++end) {
    if (end < text.size() && text[end] != separator) continue;
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

template <typename T>
bool parse_number(std::string_view text, T& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

bool parse_kind(std::string_view text, TraceFault& fault) {
  constexpr std::string_view delay = "delay=";
  if (text == "kill") {
    fault.kind = TraceFault::Kind::kill;
  } else if (text == "stop") {
    fault.kind = TraceFault::Kind::stop;
  } else if (text.starts_with(delay) && parse_number(text.substr(delay.size()), fault.seconds)) {
    fault.kind = TraceFault::Kind::delay;
    return fault.seconds >= 0 && fault.seconds <= max_delay_seconds;
  } else {
    return false;
  }
  return true;
}

bool parse_switch(const std::string& text, const char* variable) {
  if (text == "1") return true;
  if (text == "0") return false;
  throw Error(ErrorKind::bad_input, variable, fmt::format("\"{}\": expected 0 or 1", text));
}

}  // namespace

TraceFault parse_trace_fault(std::string_view text) {
  const std::vector<std::string> parts = split(text, ':');
  TraceFault fault;
  bool good = parts.size() == 4 && parse_number(parts[0], fault.rank) && fault.rank >= 0 &&
              parse_number(parts[1], fault.step) && fault.step >= 0 && parse_kind(parts[3], fault);
  try {
    if (good) fault.phase = phase_from_name(parts[2]);
  } catch (const Error&) {
    good = false;
  }
  if (!good) {
    throw Error(ErrorKind::bad_input, fmt::format("fault \"{}\"", text.substr(0, 80)),
                "expected rank:step:phase:kill|stop|delay=SECONDS, such as 2:13:backward:kill; "
                "phases: forward, backward, reduced, clipped, optimizer, save");
  }
  return fault;
}

void TraceOptions::set_capture(const std::string& text, const std::string& place) {
  capture.clear();
  capture_all = text == "all";
  if (capture_all) return;
  for (const std::string& part : split(text, ',')) {
    std::int64_t step = 0;
    if (!parse_number(part, step) || step < -1) {
      throw Error(ErrorKind::bad_input, place,
                  fmt::format("\"{}\": expected steps such as 0,1,4 (-1: the initial values), or "
                              "all",
                              text));
    }
    capture.insert(step);
  }
}

void TraceOptions::set_match(const std::string& text, const std::string& place) {
  try {
    const std::regex compiled(text);
  } catch (const std::regex_error& error) {
    throw Error(ErrorKind::bad_input, place,
                fmt::format("\"{}\": not a regular expression: {}", text, error.what()));
  }
  match = text;
}

TraceOptions TraceOptions::from_environment(const std::map<std::string, std::string>& environment) {
  const auto value = [&](const char* variable) {
    const auto found = environment.find(variable);
    return found == environment.end() ? std::string() : found->second;
  };
  TraceOptions options;
  options.directory = value("SHARDPROOF_TRACE");
  options.set_match(value("SHARDPROOF_MATCH"), "SHARDPROOF_MATCH");
  if (const auto text = value("SHARDPROOF_TENSORS"); !text.empty()) {
    options.set_capture(text, "SHARDPROOF_TENSORS");
  }
  if (const auto text = value("SHARDPROOF_DIGEST"); !text.empty()) {
    options.digest = parse_switch(text, "SHARDPROOF_DIGEST");
  }
  if (const auto text = value("SHARDPROOF_FAULT"); !text.empty()) {
    try {
      options.fault = parse_trace_fault(text);
    } catch (const Error& error) {
      throw Error(ErrorKind::bad_input, "SHARDPROOF_FAULT", error.place() + ": " + error.detail());
    }
    if (options.directory.empty()) {  // it would never fire, and look survived
      throw Error(ErrorKind::bad_input, "SHARDPROOF_FAULT", "needs SHARDPROOF_TRACE to be set");
    }
  }
  return options;
}

}  // namespace shardproof
