// recovery: sums and texts.
#include "harness/recovery.h"

#include <fmt/format.h>

namespace shardproof {

double Recovery::seconds() const {
  double sum = 0;
  for (const Part& each : parts) sum += each.seconds;
  return sum;
}

double Recovery::part(const std::string& name) const {
  double sum = 0;
  for (const Part& each : parts) sum += each.name == name ? each.seconds : 0;
  return sum;
}

std::string text(const Recovery& recovery) {
  std::string out = fmt::format(
      "{} {} on {} from {}: {} {:.2f} s after the failure:", recovery.way, recovery.number,
      recovery.layout, recovery.checkpoint.empty() ? "the beginning" : recovery.checkpoint,
      recovery.step < 0 ? "no step was left, ended" : fmt::format("step {} done", recovery.step),
      recovery.seconds());
  const char* between = " ";
  for (const Recovery::Part& part : recovery.parts) {
    out += fmt::format("{}{} {:.2f}", between, part.name, part.seconds);
    between = ", ";
  }
  return out;
}

Json to_json(const Recovery& recovery) {
  Json parts = Json::object();
  for (const Recovery::Part& part : recovery.parts) parts[part.name] = part.seconds;
  return {{"way", recovery.way},
          {"number", recovery.number},
          {"checkpoint", recovery.checkpoint},
          {"layout", recovery.layout},
          {"step", recovery.step},
          {"seconds", recovery.seconds()},
          {"parts", parts}};
}

}  // namespace shardproof
