// sweep_report: see the header.
#include "harness/sweep/sweep_report.h"

#include <fmt/format.h>

#include <vector>

namespace shardproof {
namespace {

// Text of others, harmless on a terminal.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return out;
}

std::string paths(const SweepOperation& operation) {
  std::string text = plain(operation.path);
  if (operation.to[0] != '\0') text += " -> " + plain(operation.to);
  if (operation.bytes > 0) text += fmt::format(" ({} bytes)", operation.bytes);
  return text;
}

constexpr Found all_found[] = {Found::old_state, Found::new_state, Found::mixed,
                               Found::none,      Found::hung,      Found::not_reached};
constexpr Damaged all_damaged[] = {Damaged::refused, Damaged::same, Damaged::silent, Damaged::hung};

}  // namespace

std::string line_of(const SweepPoint& point) {
  return fmt::format("{}{} {:>4}{} {:<11}  {:<15} {}{}", point.good ? " " : "!", point.save,
                     point.cut.at, point.cut.half ? "½" : " ", name(point.found),
                     point.operation.name, paths(point.operation),
                     point.detail.empty() ? "" : "  [" + plain(point.detail) + "]");
}

std::string line_of(const DamagePoint& point) {
  return fmt::format("{} {:<8} {}: {}{}", point.outcome >= Damaged::silent ? "!" : " ",
                     name(point.outcome), plain(point.file), point.what,
                     point.detail.empty() ? "" : "  [" + plain(point.detail) + "]");
}

std::string summary(const CrashSweep& sweep) {
  std::string text;
  for (const int save : {1, 2}) {
    std::string counts;
    for (const Found found : all_found) {
      const std::size_t count = sweep.count(save, found);
      if (count > 0) counts += fmt::format(", {} {}", count, name(found));
    }
    if (counts.empty()) continue;
    text += fmt::format("save {} ({}): {} file operations{}\n", save,
                        save == 1 ? "the first" : "overwriting",
                        sweep.operations[static_cast<std::size_t>(save - 1)], counts);
  }
  if (sweep.mapped > 0) {
    text += fmt::format("{} shared writable mappings: what is written through them is not seen\n",
                        sweep.mapped);
  }
  return text +
         (sweep.good()
              ? "every kill leaves the old state or the new one (or none, before the first)\n"
              : "FAIL: kills leave what is neither state\n");
}

std::string summary(const DamageSweep& sweep) {
  std::string counts;
  for (const Damaged outcome : all_damaged) {
    const std::size_t count = sweep.count(outcome);
    if (count > 0) counts += fmt::format(", {} {}", count, name(outcome));
  }
  return fmt::format("damage: {} files, {}{}\n{}", sweep.files,
                     sweep.whole ? "a bit of every byte" : "a sample of bits", counts,
                     sweep.good() ? "no damage is loaded as if it were none\n"
                                  : "FAIL: damage is loaded silently\n");
}

Json to_json(const CrashSweep& sweep) {
  Json points = Json::array();
  for (const SweepPoint& point : sweep.points) {
    Json row{{"save", point.save},
             {"operation", point.cut.at},
             {"half", point.cut.half},
             {"call", point.operation.name},
             {"path", point.operation.path}};
    if (point.operation.to[0] != '\0') row["to"] = point.operation.to;
    if (point.operation.bytes > 0) row["bytes"] = point.operation.bytes;
    row["found"] = name(point.found);
    row["good"] = point.good;
    row["detail"] = point.detail;
    points.push_back(std::move(row));
  }
  return {{"operations", {sweep.operations[0], sweep.operations[1]}},
          {"mapped", sweep.mapped},
          {"good", sweep.good()},
          {"points", points}};
}

Json to_json(const DamageSweep& sweep) {
  Json points = Json::array();
  for (const DamagePoint& point : sweep.points) {
    points.push_back({{"file", point.file},
                      {"what", point.what},
                      {"outcome", name(point.outcome)},
                      {"detail", point.detail}});
  }
  return {{"files", sweep.files},
          {"every_byte", sweep.whole},
          {"good", sweep.good()},
          {"points", points}};
}

}  // namespace shardproof
