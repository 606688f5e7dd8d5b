// fault_kind: the table.
#include "faults/inject/fault_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/edit_distance.h"
#include "base/error.h"

namespace shardproof {
namespace {

constexpr bool yes = true, no = false;
using enum FaultKind;
using Use = ArgumentUse;

constexpr std::array kinds{
    KindInfo{exit, "exit", yes, yes, yes, no, yes, Use::none, 0, "the rank ends with exit code 7"},
    KindInfo{kill, "kill", yes, yes, yes, no, yes, Use::none, 0, "SIGKILL"},
    KindInfo{stop, "stop", yes, yes, yes, no, yes, Use::none, 0,
             "SIGSTOP; a thread rank stands still until its group is revoked"},
    KindInfo{exception, "exception", yes, yes, yes, no, yes, Use::none, 0,
             "the rank's code throws an exception of its own"},
    KindInfo{delay, "delay", yes, yes, yes, no, yes, Use::seconds, 0.01,
             "the rank sleeps for so many seconds"},
    KindInfo{clock_jump, "clock_jump", yes, yes, yes, no, yes, Use::jump, 7200,
             "the time of day jumps by so many seconds, for all thread ranks of the process"},
    KindInfo{dtype, "dtype", yes, no, no, no, no, Use::none, 0,
             "the call names another dtype of the same size"},
    KindInfo{count, "count", yes, no, no, no, no, Use::none, 0, "the call has one element less"},
    KindInfo{split, "split", yes, no, no, no, no, Use::none, 0,
             "one element moves from one rank's part of a call to another's"},
    KindInfo{op, "op", yes, no, no, no, no, Use::none, 0, "the reduction takes the maximum"},
    KindInfo{root, "root", yes, no, no, no, no, Use::none, 0,
             "the call names the next rank as root"},
    KindInfo{tag, "tag", yes, no, no, no, no, Use::none, 0, "the message has another tag"},
    KindInfo{group, "group", yes, no, no, no, no, Use::none, 0,
             "the call goes to another group of the rank"},
    KindInfo{order, "order", yes, no, no, no, no, Use::none, 0,
             "another call of the group is made before this one"},
    KindInfo{skip, "skip", yes, no, no, no, no, Use::none, 0, "the call is not made"},
    KindInfo{extra, "extra", yes, no, no, no, no, Use::none, 0, "the call is made twice"},
    KindInfo{flip_send, "flip_send", yes, no, no, no, no, Use::bit, 20,
             "a bit of what is sent flips below the guards"},
    KindInfo{flip_recv, "flip_recv", yes, no, no, no, no, Use::bit, 20,
             "a bit of what was received flips below the guards"},
    KindInfo{flip_parameter, "flip_parameter", no, no, yes, no, no, Use::bit, 20,
             "a bit of a parameter flips"},
    KindInfo{flip_moment, "flip_moment", no, no, yes, no, no, Use::bit, 20,
             "a bit of an optimizer moment flips"},
    KindInfo{flip_gradient, "flip_gradient", no, no, yes, no, no, Use::bit, 20,
             "a bit of a reduced gradient flips"},
    KindInfo{nan, "nan", no, no, yes, no, no, Use::none, 0,
             "an element of a parameter becomes NaN"},
    KindInfo{random_key, "random_key", no, no, yes, no, no, Use::none, 0,
             "the rank draws dropout with another step's key"},
    KindInfo{learning_rate, "learning_rate", no, no, yes, no, no, Use::factor, 1000,
             "the learning rate of one step is multiplied"},
    KindInfo{disk_full, "disk_full", no, yes, no, no, no, Use::none, 0,
             "the operation fails: ENOSPC"},
    KindInfo{io_error, "io_error", no, yes, no, no, no, Use::none, 0, "the operation fails: EIO"},
    KindInfo{corrupt_shard, "corrupt_shard", no, yes, no, no, no, Use::none, 0,
             "a byte of the shard flips on the disk"},
    KindInfo{truncate_shard, "truncate_shard", no, yes, no, no, no, Use::none, 0,
             "the shard loses its second half"},
    KindInfo{swap_shards, "swap_shards", no, yes, no, no, no, Use::none, 0,
             "two shards of the checkpoint change places"},
    KindInfo{missing_shard, "missing_shard", no, yes, no, no, no, Use::none, 0,
             "the shard is gone"},
    KindInfo{other_parameters, "other_parameters", no, no, no, yes, yes, Use::none, 0,
             "the rank begins with another parameter"},
    KindInfo{other_config, "other_config", no, no, no, yes, yes, Use::none, 0,
             "the rank has another learning rate in its config"},
    KindInfo{other_data, "other_data", no, no, no, yes, yes, Use::none, 0,
             "the rank reads other data"},
    KindInfo{other_world, "other_world", no, no, no, yes, yes, Use::none, 0,
             "the rank believes in another layout"},
    KindInfo{other_cursor, "other_cursor", no, no, no, yes, yes, Use::none, 0,
             "the checkpoint's data cursor is at another place"},
    KindInfo{other_mixture, "other_mixture", no, no, no, yes, yes, Use::none, 0,
             "the sources are mixed otherwise than in the checkpoint"},
    KindInfo{other_tokenizer, "other_tokenizer", no, no, no, yes, yes, Use::none, 0,
             "the checkpoint was made with another tokenizer"},
};

bool stored_bytes(FaultKind kind) {
  return kind == corrupt_shard || kind == truncate_shard || kind == swap_shards ||
         kind == missing_shard;
}

bool fits(const KindInfo& of, PointKind point) {
  switch (point) {
    case PointKind::call:
      return of.at_call;
    case PointKind::file:
      return of.at_file;
    case PointKind::step:
      return of.at_step;
    default:
      return of.at_start;
  }
}

std::string points_of(const KindInfo& of) {
  std::string out;
  for (const PointKind point :
       {PointKind::call, PointKind::file, PointKind::step, PointKind::start}) {
    if (fits(of, point)) out += fmt::format("{}{}", out.empty() ? "" : ", ", name(point));
  }
  return out;
}

}  // namespace

std::span<const KindInfo> fault_kinds() {
  return kinds;
}

const KindInfo& info(FaultKind kind) {
  const KindInfo& found = kinds.at(static_cast<std::size_t>(kind));
  SP_CHECK(found.kind == kind, "the table is in the order of the enum");
  return found;
}

FaultKind parse_fault_kind(std::string_view text, const std::string& place) {
  for (const KindInfo& one : kinds) {
    if (one.name == text) return one.kind;
  }
  text = text.substr(0, 60);
  const auto& near =
      *std::min_element(kinds.begin(), kinds.end(), [&](const auto& a, const auto& b) {
        return edit_distance(text, a.name) < edit_distance(text, b.name);
      });
  throw Error(ErrorKind::bad_input, place,
              fmt::format("found fault \"{}\"; the nearest kind is {} (`shardproof faults list` "
                          "names all)",
                          text, near.name));
}

std::string misfit(FaultKind kind, const FaultPoint& point) {
  const KindInfo& of = info(kind);
  if (!fits(of, point.kind)) {
    return fmt::format("{} cannot happen at {}; expected a point of kind {}", of.name, point.text(),
                       points_of(of));
  }
  if (of.any_moment || point.kind == PointKind::step) return "";
  const Moment wanted = stored_bytes(kind) || kind == flip_recv ? Moment::after : Moment::before;
  if (point.moment == wanted) return "";
  return fmt::format("{} happens {} an operation; found {}", of.name, name(wanted), point.text());
}

}  // namespace shardproof
