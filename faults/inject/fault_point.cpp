// fault_point: printing and parsing.
#include "faults/inject/fault_point.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "base/error.h"

namespace shardproof {
namespace {

constexpr std::array moments{Moment::before, Moment::inside, Moment::torn, Moment::after};

[[noreturn]] void refuse(std::string_view text, const std::string& place) {
  throw Error(
      ErrorKind::bad_input, place,
      fmt::format("found \"{}\"; expected call:RANK:GROUP:NUMBER:before|inside|after, "
                  "file:RANK:NUMBER:before|torn|after, step:RANK:STEP:PHASE or start:RANK, such as "
                  "call:1:world:12:before, file:0:7:torn or step:2:13:backward",
                  text.substr(0, 120)));
}

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t colon = text.find(':');
    parts.push_back(text.substr(0, colon));
    if (colon == text.npos) return parts;
    text.remove_prefix(colon + 1);
  }
}

template <typename Number>
bool read_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() && out >= 0;
}

std::optional<Moment> moment_of(std::string_view text, PointKind kind) {
  const Moment odd = kind == PointKind::call ? Moment::torn : Moment::inside;
  for (const Moment moment : moments) {
    if (moment != odd && name(moment) == text) return moment;
  }
  return std::nullopt;
}

}  // namespace

std::string_view name(PointKind kind) {
  switch (kind) {
    case PointKind::call:
      return "call";
    case PointKind::file:
      return "file";
    case PointKind::step:
      return "step";
    default:
      return "start";
  }
}

std::string_view name(Moment moment) {
  switch (moment) {
    case Moment::before:
      return "before";
    case Moment::inside:
      return "inside";
    case Moment::torn:
      return "torn";
    default:
      return "after";
  }
}

std::string FaultPoint::text() const {
  const std::string which =
      operation.empty() ? std::to_string(number) : fmt::format("{}.{}", operation, number);
  switch (kind) {
    case PointKind::call:
      return fmt::format("call:{}:{}:{}:{}", rank, group, which, name(moment));
    case PointKind::file:
      return fmt::format("file:{}:{}:{}", rank, which, name(moment));
    case PointKind::step:
      return fmt::format("step:{}:{}:{}", rank, step, name(phase));
    default:
      return fmt::format("start:{}", rank);
  }
}

FaultPoint parse_fault_point(std::string_view text, const std::string& place) {
  const auto parts = parts_of(text);
  FaultPoint point;
  const std::string_view kind = parts.front();
  if (kind == "start" && parts.size() == 2) {
    point.kind = PointKind::start;
    if (!read_number(parts[1], point.rank)) refuse(text, place);
    return point;
  }
  if (kind == "step" && parts.size() == 4) {
    point.kind = PointKind::step;
    if (!read_number(parts[1], point.rank) || !read_number(parts[2], point.step)) {
      refuse(text, place);
    }
    point.phase = phase_from_name(parts[3]);
    return point;
  }
  const bool call = kind == "call" && parts.size() == 5;
  if (!call && !(kind == "file" && parts.size() == 4)) refuse(text, place);
  point.kind = call ? PointKind::call : PointKind::file;
  const std::size_t at = call ? 3 : 2;
  const auto moment = moment_of(parts[at + 1], point.kind);
  std::string_view which = parts[at];
  if (const std::size_t dot = which.rfind('.'); dot != which.npos) {
    point.operation = which.substr(0, dot);
    which.remove_prefix(dot + 1);
    if (point.operation.empty()) refuse(text, place);
  }
  if (!read_number(parts[1], point.rank) || !read_number(which, point.number) || !moment) {
    refuse(text, place);
  }
  point.moment = *moment;
  if (call) {
    point.group = parts[2];
    if (point.group.empty()) refuse(text, place);
  }
  return point;
}

}  // namespace shardproof
