// event_file: field numbers are those of TensorFlow's event.proto, summary.proto, tensor.proto.
#include "trace/import/event_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "trace/import/protobuf.h"
#include "trace/import/record_file.h"
#include "trace/mapped_file.h"

namespace shardproof {
namespace {

using Wire = ProtobufField::Wire;

constexpr std::uint32_t event_step = 2, event_version = 3, event_summary = 5;
constexpr std::uint32_t summary_value = 1;
constexpr std::uint32_t value_tag = 1, value_simple = 2, value_tensor = 8;
constexpr std::uint32_t tensor_dtype = 1, tensor_shape = 2, tensor_content = 4, tensor_floats = 5,
                        tensor_doubles = 6;
constexpr std::uint32_t shape_dim = 2, dim_size = 1;
constexpr std::uint64_t dt_float = 1, dt_double = 2;
constexpr std::string_view version_prefix = "brain.Event:";

[[noreturn]] void fail(const std::string& path, const ProtobufField& field,
                       const std::string& what) {
  throw Error(ErrorKind::corrupt, fmt::format("{}: byte {}", path, field.offset), what);
}

void expect_wire(const std::string& path, const ProtobufField& field, Wire wire, const char* name) {
  if (field.wire != wire) fail(path, field, fmt::format("{} has another wire type", name));
}

struct TensorScalar {
  double value = 0;
  int digits = 0;
};

// Bytes of one float or double, in a tensor's content or its packed list.
double element(const std::string& path, const ProtobufField& field, std::uint64_t dtype) {
  const std::size_t width = dtype == dt_float ? 4 : 8;
  std::uint64_t bits = field.bits;
  if (field.wire == Wire::bytes) {
    if (field.bytes.size() != width) {
      fail(
          path, field,
          fmt::format("{} bytes in a scalar of {}: expected one value", field.bytes.size(), width));
    }
    bits = 0;
    for (std::size_t i = 0; i < width; ++i) {
      bits |= static_cast<std::uint64_t>(field.bytes[i]) << (8 * i);
    }
  } else if (field.wire != (dtype == dt_float ? Wire::fixed32 : Wire::fixed64)) {
    fail(path, field, "a tensor's value has another wire type");
  }
  return dtype == dt_float
             ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))
             : std::bit_cast<double>(bits);
}

void expect_one_element(const std::string& path, const ProtobufField& shape) {
  ProtobufReader dims(shape, path);
  while (const auto dim = dims.next()) {
    if (dim->number != shape_dim) continue;
    ProtobufReader fields(*dim, path);
    while (const auto field = fields.next()) {
      if (field->number != dim_size || (field->wire == Wire::varint && field->bits == 1)) continue;
      fail(path, *field, "a tensor of more or fewer than one element; expected a scalar");
    }
  }
}

TensorScalar tensor_scalar(const std::string& path, const ProtobufField& tensor) {
  std::uint64_t dtype = 0;
  std::optional<ProtobufField> held;
  int lists = 0;
  ProtobufReader fields(tensor, path);
  while (const auto field = fields.next()) {
    if (field->number == tensor_dtype) dtype = field->bits;
    if (field->number == tensor_shape) expect_one_element(path, *field);
    if (field->number == tensor_content || field->number == tensor_floats ||
        field->number == tensor_doubles) {
      held = field;
      ++lists;
    }
  }
  if (dtype != dt_float && dtype != dt_double) {
    fail(path, tensor,
         fmt::format("a tensor of dtype {}; expected 1 (float) or 2 (double)", dtype));
  }
  const std::uint32_t list = dtype == dt_float ? tensor_floats : tensor_doubles;
  if (lists != 1 || (held->number != tensor_content && held->number != list)) {
    fail(path, tensor, "a tensor without exactly one value of its dtype");
  }
  return {element(path, *held, dtype), dtype == dt_float ? float32_digits : float64_digits};
}

class EventReader {
 public:
  explicit EventReader(const ScalarOptions& options) : collector_(options, ": byte ") {}

  void read(const std::string& path) {
    const MappedFile file(path);
    collector_.open(path);
    RecordReader records(file.bytes(), path);
    bool first = true;
    while (const auto record = records.next()) {
      take(path, *record, first);
      first = false;
    }
    torn_ += records.torn() ? 1 : 0;
  }

  ScalarLog finish() const {
    ScalarLog log = collector_.finish();
    log.torn = torn_ > 0;
    return log;
  }

 private:
  void take(const std::string& path, const FileRecord& record, bool first) {
    std::int64_t step = 0;
    std::string_view version;
    std::vector<ProtobufField> summaries;  // the step may come behind them
    ProtobufReader fields(record.data, path, record.offset);
    while (const auto field = fields.next()) {
      if (field->number == event_step) {
        expect_wire(path, *field, Wire::varint, "step");
        step = static_cast<std::int64_t>(field->bits);
      }
      if (field->number == event_version) version = field->text();
      if (field->number == event_summary) summaries.push_back(*field);
    }
    if (first && !version.starts_with(version_prefix)) {
      throw Error(ErrorKind::corrupt, fmt::format("{}: byte {}", path, record.offset),
                  "the first record is no event that says its version, \"brain.Event:2\"");
    }
    for (const ProtobufField& summary : summaries) {
      ProtobufReader values(summary, path);
      while (const auto value = values.next()) {
        if (value->number == summary_value) take_value(path, *value, step);
      }
    }
  }

  void take_value(const std::string& path, const ProtobufField& message, std::int64_t step) {
    std::string_view tag;
    std::optional<ProtobufField> held;
    ProtobufReader fields(message, path);
    while (const auto field = fields.next()) {
      if (field->number == value_tag) tag = field->text();
      if (field->number == value_simple || field->number == value_tensor) held = field;
    }
    if (!held || !collector_.wants(tag)) return;
    if (held->number == value_tensor) {
      const TensorScalar scalar = tensor_scalar(path, *held);
      collector_.add(tag, step, scalar.value, scalar.digits, message.offset);
      return;
    }
    expect_wire(path, *held, Wire::fixed32, "simple_value");
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(held->bits));
    collector_.add(tag, step, static_cast<double>(value), float32_digits, message.offset);
  }

  ScalarCollector collector_;
  int torn_ = 0;
};

std::vector<std::string> event_files(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::is_directory(path, code)) return {path};
  std::vector<std::string> files;
  std::filesystem::directory_iterator entries(path, code);
  for (; !code && entries != std::filesystem::directory_iterator(); entries.increment(code)) {
    const std::string name = entries->path().filename().string();
    if (name.find("tfevents") != name.npos) files.push_back(entries->path().string());
  }
  if (code || files.empty()) {
    throw Error(ErrorKind::bad_input, path,
                code ? code.message() : "no event file: expected names such as *tfevents*");
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

ScalarLog read_event_files(const std::string& path, const ScalarOptions& options) {
  EventReader reader(options);
  for (const std::string& file : event_files(path)) reader.read(file);
  return reader.finish();
}

}  // namespace shardproof
