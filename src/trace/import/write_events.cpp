// write_events: the bytes of a whole event file, then the file; see event_file.h.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "trace/file_error.h"
#include "trace/import/event_file.h"
#include "trace/import/protobuf.h"
#include "trace/import/record_file.h"
#include "trace/missing.h"

namespace shardproof {
namespace {

// Field numbers of event.proto and summary.proto.
constexpr std::uint32_t event_time = 1, event_step = 2, event_version = 3, event_summary = 5;
constexpr std::uint32_t summary_value = 1, value_tag = 1, value_simple = 2;

struct Scalar {
  std::string tag;
  double value = 0;
};

std::vector<Scalar> scalars_of(const Trace& trace, std::int64_t step) {
  std::vector<Scalar> out;
  if (const StepRecord* record = trace.ranks.front().find_step(step)) {
    if (!is_missing(*record, "loss")) out.push_back({"loss", record->loss});
    if (!is_missing(*record, "grad_norm")) out.push_back({"grad_norm", record->grad_norm});
    if (!is_missing(*record, "lr")) out.push_back({"lr", record->lr});
  }
  for (const RankTrace& rank : trace.ranks) {
    const StepRecord* record = rank.find_step(step);
    if (record == nullptr || is_missing(*record, "tokens")) continue;
    out.push_back(
        {fmt::format("tokens/rank_{:05}", rank.rank), static_cast<double>(record->tokens)});
  }
  return out;
}

std::string event(std::int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes_field(value, value_tag, scalar.tag);
    put_float_field(value, value_simple, static_cast<float>(scalar.value));
    put_bytes_field(summary, summary_value, value);
  }
  std::string out;
  put_double_field(out, event_time, 0);
  put_varint_field(out, event_step, static_cast<std::uint64_t>(step));
  put_bytes_field(out, event_summary, summary);
  return out;
}

void write_new_file(const std::string& path, const std::string& bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0 && errno == EEXIST) throw Error(ErrorKind::conflict, path, "the file exists");
  if (fd < 0) throw file_error(path, "open", errno);
  int code = 0;
  for (std::size_t at = 0; at < bytes.size() && code == 0;) {
    const ssize_t count = ::write(fd, bytes.data() + at, bytes.size() - at);
    if (count > 0) at += static_cast<std::size_t>(count);
    if (count <= 0 && errno != EINTR) code = count < 0 ? errno : ENOSPC;
  }
  if (::close(fd) != 0 && code == 0) code = errno;
  if (code == 0) return;
  ::unlink(path.c_str());
  throw file_error(path, "write", code);
}

}  // namespace

std::int64_t write_events(const Trace& trace, const std::string& path) {
  if (std::filesystem::path(path).filename().string().find("tfevents") == std::string::npos) {
    throw Error(ErrorKind::bad_input, path,
                "TensorBoard reads files whose name has \"tfevents\" in it; expected such as "
                "events.out.tfevents.1");
  }
  std::string version;
  put_double_field(version, event_time, 0);
  put_bytes_field(version, event_version, "brain.Event:2");
  std::string bytes = framed_record(version);
  std::int64_t count = 0;
  for (const std::int64_t step : trace.step_numbers()) {
    const std::vector<Scalar> scalars = scalars_of(trace, step);
    count += static_cast<std::int64_t>(scalars.size());
    if (!scalars.empty()) bytes += framed_record(event(step, scalars));
  }
  write_new_file(path, bytes);
  return count;
}

}  // namespace shardproof
