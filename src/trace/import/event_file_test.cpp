// ctest: unit
// Event files made here by hand; those of TensorBoard itself are in tensorboard_peer_test.
#include "trace/import/event_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "trace/import/protobuf.h"
#include "trace/import/record_file.h"

namespace shardproof {
namespace {

std::string float_bytes(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  std::string out;
  for (int i = 0; i < 4; ++i) out += static_cast<char>((bits >> (8 * i)) & 0xff);
  return out;
}

std::string version_record(const std::string& version = "brain.Event:2") {
  std::string event;
  put_double_field(event, 1, 1.7e9);
  put_bytes_field(event, 3, version);
  return framed_record(event);
}

// A Summary.Value with one more field, written by `put`.
template <typename Put>
std::string value_of(const std::string& tag, const Put& put) {
  std::string value;
  put_bytes_field(value, 7, "node");  // fields that nobody asks for
  put_bytes_field(value, 1, tag);
  put(value);
  return value;
}

std::string simple(const std::string& tag, float number) {
  return value_of(tag, [&](std::string& value) { put_float_field(value, 2, number); });
}

std::string event_record(std::int64_t step, const std::vector<std::string>& values) {
  std::string summary, event;
  for (const std::string& value : values) put_bytes_field(summary, 1, value);
  put_double_field(event, 1, 1.7e9);
  put_bytes_field(event, 5, summary);
  if (step != 0) put_varint_field(event, 2, static_cast<std::uint64_t>(step));  // behind it: legal
  return framed_record(event);
}

// A scalar tensor; field and bytes of its values as given.
std::string tensor(const std::string& tag, std::uint64_t dtype, std::uint32_t field,
                   const std::string& bytes, const std::string& shape = "") {
  return value_of(tag, [&](std::string& value) {
    std::string message;
    put_varint_field(message, 1, dtype);
    put_bytes_field(message, 2, shape);
    put_bytes_field(message, field, bytes);
    put_bytes_field(value, 8, message);
  });
}

class EventFile : public ::testing::Test {
 protected:
  ScalarLog read(const std::string& bytes) {
    std::filesystem::remove(folder_.file("tfevents"));  // a truncated file is flushed: 2 ms each
    folder_.write("tfevents", bytes);
    return read_event_files(folder_.file("tfevents"), options_);
  }
  void expect_damage(const std::string& bytes, std::initializer_list<std::string_view> parts) {
    expect_error(ErrorKind::corrupt, parts, [&] { read(bytes); });
  }

  TempFolder folder_;
  ScalarOptions options_;
};

TEST_F(EventFile, IsReadTagByTag) {
  const ScalarLog log =
      read(version_record() + event_record(0, {simple("loss", 4.25f), simple("grad_norm", 0.1f)}) +
           event_record(1, {simple("accuracy", 0.5f)}) + event_record(2, {simple("loss", 4.125f)}) +
           event_record(2, {simple("lr", 0.5f)}));
  ASSERT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(log.steps[0].step, 0);
  EXPECT_EQ(log.steps[0].values[0], 4.25);
  EXPECT_EQ(log.steps[0].values[1], static_cast<double>(0.1f)) << "the bits of a float32";
  EXPECT_EQ(log.steps[0].values[2], std::nullopt);
  EXPECT_EQ(log.steps[1].step, 2);
  EXPECT_EQ(log.steps[1].values[0], 4.125);
  EXPECT_EQ(log.steps[1].values[1], std::nullopt);
  EXPECT_EQ(log.steps[1].values[2], 0.5);
  EXPECT_EQ(log.digits[0], "float32");
  EXPECT_EQ(log.ended, std::nullopt);
  EXPECT_FALSE(log.torn);
}

TEST_F(EventFile, HoldsScalarsInTensorsToo) {
  const double third = 1.0 / 3;
  std::string eight;
  put_double_field(eight, 1, third);
  eight = eight.substr(1);
  std::string one;  // a dim of size 1
  put_varint_field(one, 1, 1);
  std::string shape;
  put_bytes_field(shape, 2, one);
  const std::string four = float_bytes(2.5f);
  const auto read_one = [&](const std::string& value) {
    return read(version_record() + event_record(1, {value}));
  };
  EXPECT_EQ(read_one(tensor("loss", 1, 4, four)).steps[0].values[0], 2.5);
  EXPECT_EQ(read_one(tensor("loss", 1, 5, four, shape)).steps[0].values[0], 2.5);
  const ScalarLog exact = read_one(tensor("loss", 2, 6, eight));
  EXPECT_EQ(exact.steps[0].values[0], third);
  EXPECT_EQ(exact.digits[0], "float64");
  EXPECT_EQ(read_one(tensor("loss", 2, 4, eight)).steps[0].values[0], third);
  expect_damage(version_record() + event_record(1, {tensor("loss", 3, 4, four)}), {"dtype 3"});
  expect_damage(version_record() + event_record(1, {tensor("loss", 1, 4, eight)}), {"8 bytes"});
  expect_damage(version_record() + event_record(1, {tensor("loss", 1, 5, "")}), {"0 bytes"});
  expect_damage(version_record() + event_record(1, {tensor("loss", 1, 6, eight)}), {"its dtype"});
  one.clear();
  put_varint_field(one, 1, 2);
  shape.clear();
  put_bytes_field(shape, 2, one);
  expect_damage(version_record() + event_record(1, {tensor("loss", 1, 4, four, shape)}),
                {"expected a scalar"});
  EXPECT_EQ(read(version_record() + event_record(1, {tensor("image", 3, 4, eight)}) +
                 event_record(1, {simple("loss", 1)}))
                .steps.size(),
            1u)
      << "what nobody asked for may be anything";
}

TEST_F(EventFile, NotANumberIsAValue) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const ScalarLog log = read(version_record() + event_record(1, {simple("loss", nan)}));
  ASSERT_TRUE(log.steps[0].values[0]);
  EXPECT_TRUE(std::isnan(*log.steps[0].values[0]));
}

TEST_F(EventFile, TellsTwoRunsByTheirValues) {
  const std::string begin = version_record() + event_record(3, {simple("loss", 4)});
  const ScalarLog again = read(begin + event_record(3, {simple("loss", 4)}));
  EXPECT_EQ(again.steps.size(), 1u);
  ASSERT_EQ(again.notes.size(), 1u);
  EXPECT_NE(again.notes[0].find("1 values of loss"), std::string::npos);
  expect_damage(begin + event_record(3, {simple("loss", 5)}),
                {"tfevents: byte", "loss of step 3 is 5, but 4 at", "more than one run"});
}

TEST_F(EventFile, AFolderIsOneRun) {
  folder_.write("events.out.tfevents.2.b", version_record() + event_record(2, {simple("loss", 2)}));
  folder_.write("events.out.tfevents.1.a", version_record() + event_record(1, {simple("loss", 1)}));
  folder_.write("other", "text");
  EXPECT_EQ(read_event_files(folder_.path(), {}).steps.size(), 2u);
  folder_.write("events.out.tfevents.3", version_record() + event_record(1, {simple("loss", 3)}));
  expect_error(ErrorKind::corrupt, {"tfevents.3: byte", "but 1 at", "tfevents.1.a: byte"},
               [&] { read_event_files(folder_.path(), {}); });
  const TempFolder empty;
  expect_error(ErrorKind::bad_input, {empty.path(), "tfevents"},
               [&] { read_event_files(empty.path(), {}); });
  expect_error(ErrorKind::io, {"none"}, [&] { read_event_files(empty.file("none"), {}); });
}

TEST_F(EventFile, WithoutALossSaysWhatIsThere) {
  const std::string bytes = version_record() + event_record(1, {simple("ce", 4)});
  expect_error(ErrorKind::bad_input, {"tfevents", "no loss", "lm loss", "found ce"},
               [&] { read(bytes); });
  expect_error(ErrorKind::bad_input, {"found no scalar"}, [&] { read(version_record()); });
  options_.loss_tags = {"ce"};
  EXPECT_EQ(read(bytes).tags[0], "ce");
}

TEST_F(EventFile, WhatIsNoneIsRefused) {
  expect_damage(version_record("other") + event_record(1, {simple("loss", 4)}),
                {"byte 12", "brain.Event:2"});
  expect_damage(event_record(1, {simple("loss", 4)}), {"byte 12", "brain.Event:2"});
  expect_damage("a text that somebody took for an event file\n", {"byte 0", "CRC", "length"});
  // Whole records whose messages lie about their lengths.
  std::string event;
  put_bytes_field(event, 5, "\x0a\x7f");
  expect_damage(version_record() + framed_record(event), {"byte", "a field of 127 bytes"});
  event.clear();
  put_varint_field(event, 5, 7);
  expect_damage(version_record() + framed_record(event), {"field 5 is a number"});
  event.clear();
  put_bytes_field(event, 2, "7");
  expect_damage(version_record() + framed_record(event), {"step has another wire type"});
  const std::string value = value_of("loss", [](std::string& v) { put_varint_field(v, 2, 7); });
  expect_damage(version_record() + event_record(1, {value}), {"simple_value"});
}

// A file of five records, and what each prefix of it must give.
struct Small {
  std::vector<std::string> records;
  std::string bytes;

  Small() {
    records.push_back(version_record());
    for (int step = 1; step < 5; ++step) {
      records.push_back(event_record(
          step, {simple("loss", 4.0f - 0.1f * static_cast<float>(step)), simple("grad_norm", 1)}));
    }
    for (const std::string& record : records) bytes += record;
  }
};

TEST_F(EventFile, EveryTruncationGivesTheWholeRecords) {
  const Small small;
  const ScalarLog whole = read(small.bytes);
  for (std::size_t size = 0; size < small.bytes.size(); ++size) {
    std::size_t kept = 0, end = 0;
    while (end + small.records[kept].size() <= size) end += small.records[kept++].size();
    const std::string cut = small.bytes.substr(0, size);
    if (kept < 2) {
      expect_error(ErrorKind::bad_input, {"no loss"}, [&] { read(cut); });
      continue;
    }
    const ScalarLog log = read(cut);
    ASSERT_EQ(log.steps.size(), kept - 1) << size;
    EXPECT_EQ(log.torn, size != end) << size;
    for (std::size_t i = 0; i < log.steps.size(); ++i) {
      EXPECT_EQ(log.steps[i].step, whole.steps[i].step);
      EXPECT_EQ(log.steps[i].values, whole.steps[i].values);
    }
  }
}

TEST_F(EventFile, EveryFlippedBitIsFound) {
  const Small small;
  for (std::size_t bit = 0; bit < 8 * small.bytes.size(); ++bit) {
    std::string bytes = small.bytes;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    expect_damage(bytes, {"tfevents: byte", "CRC of a record's"});
    if (HasFailure()) FAIL() << "bit " << bit;
  }
}

// The framing cannot help where a writer is hostile: a record of any bytes with right CRCs.
TEST_F(EventFile, NoMessageCrashes) {
  const Small small;
  const std::size_t head = 12, foot = 4;
  int refused = 0, read_all = 0;
  for (const std::string& record : {small.records[0], small.records[1]}) {
    const std::string data = record.substr(head, record.size() - head - foot);
    const auto attempt = [&](const std::string& changed) {
      try {
        read(version_record() + framed_record(changed) + small.records[2]);
        ++read_all;
      } catch (const Error&) {
        ++refused;
      }
    };
    for (std::size_t bit = 0; bit < 8 * data.size(); ++bit) {
      std::string changed = data;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
      attempt(changed);
    }
    for (std::size_t size = 0; size < data.size(); ++size) attempt(data.substr(0, size));
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(read_all, 100) << "most bits are those of values, and of fields that nobody asks for";
}

TEST_F(EventFile, WritesWhatItReads) {
  Trace trace;
  trace.ranks.resize(2);
  for (int rank = 0; rank < 2; ++rank) {
    trace.ranks[rank].rank = rank;
    for (int step = 0; step < 3; ++step) {
      StepRecord record;
      record.step = step;
      record.loss = 4 - 0.1 * step;
      record.grad_norm = 1.5;
      record.lr = 0.01;
      record.tokens = 100 + rank;
      if (step == 2) record.extra["missing"] = Json{"grad_norm", "tokens"};
      trace.ranks[rank].steps.push_back(record);
    }
  }
  const std::string path = folder_.file("events.out.tfevents.1");
  EXPECT_EQ(write_events(trace, path), 3 * 3 - 1 + 2 * 2);
  const ScalarLog log = read_event_files(path, {});
  ASSERT_EQ(log.steps.size(), 3u);
  EXPECT_EQ(log.steps[1].values[0], static_cast<double>(static_cast<float>(4 - 0.1)));
  EXPECT_EQ(log.steps[1].values[1], 1.5);
  EXPECT_EQ(log.steps[2].values[1], std::nullopt) << "what a step lacks is not made up";
  options_.loss_tags = {"tokens/rank_00001"};
  EXPECT_EQ(read_event_files(path, options_).steps[1].values[0], 101);
  expect_error(ErrorKind::conflict, {path}, [&] { write_events(trace, path); });
  expect_error(ErrorKind::bad_input, {"events.out", "tfevents"},
               [&] { write_events(trace, folder_.file("events.out")); });
  expect_error(ErrorKind::io, {"none"},
               [&] { write_events(trace, folder_.file("none/tfevents")); });
}

}  // namespace
}  // namespace shardproof
