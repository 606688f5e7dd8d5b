// ctest: unit
#include "data/token_stream.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/expect_error.h"
#include "data/data_testing.h"

namespace shardproof {
namespace {

std::string int32_bytes(const std::vector<std::uint32_t>& words) {
  std::string bytes;
  for (const std::uint32_t word : words) {
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(word >> shift);
  }
  return bytes;
}

// A file as llm.c writes it.
std::string with_header(std::uint32_t version, std::uint32_t count, const std::string& tokens,
                        std::uint32_t magic = 20240520) {
  std::vector<std::uint32_t> words(256, 0);
  words[0] = magic;
  words[1] = version;
  words[2] = count;
  return int32_bytes(words) + tokens;
}

void expect_refusal(const std::string& bytes, std::initializer_list<std::string_view> parts) {
  const TemporaryFile file(bytes);
  expect_error(ErrorKind::bad_input, parts, [&] { TokenStream::open_tokens(file.path(), 100); });
  expect_error(ErrorKind::bad_input, {file.path()},
               [&] { TokenStream::open_tokens(file.path(), 100); });
}

TEST(TokenStream, TextIsItsBytes) {
  const TemporaryFile file(std::string("a\xff\0z", 4));
  const TokenStream stream = TokenStream::open_text(file.path());
  ASSERT_EQ(stream.size(), 4);
  EXPECT_EQ(stream[0], 'a');
  EXPECT_EQ(stream[1], 255);
  EXPECT_EQ(stream[2], 0);
  EXPECT_EQ(stream[3], 'z');
  EXPECT_EQ(stream.digest(), sha256(std::string_view("a\xff\0z", 4)));
}

RC_GTEST_PROP(TokenStream, TokensComeBackWithAndWithoutAHeader, ()) {
  auto tokens = *rc::gen::nonEmpty<std::vector<int>>(
      rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 65536)));
  tokens[0] = 1;  // not the header's magic number
  for (const bool header : {false, true}) {
    const std::string body = uint16_bytes(tokens);
    const TemporaryFile file(
        header ? with_header(1, static_cast<std::uint32_t>(tokens.size()), body) : body);
    const TokenStream stream = TokenStream::open_tokens(file.path(), 65536);
    RC_ASSERT(stream.size() == static_cast<std::int64_t>(tokens.size()));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      RC_ASSERT(stream[static_cast<std::int64_t>(i)] == tokens[i]);
    }
  }
}

TEST(TokenStream, RefusesFilesThatCannotBeRead) {
  for (const bool text : {true, false}) {
    const auto open = [&](const std::string& path) {
      return text ? TokenStream::open_text(path) : TokenStream::open_tokens(path, 100);
    };
    expect_error(ErrorKind::bad_input, {"/nowhere/at/all", "cannot be opened", "No such file"},
                 [&] { open("/nowhere/at/all"); });
    expect_error(ErrorKind::bad_input, {testing::TempDir(), "is not a regular file"},
                 [&] { open(testing::TempDir()); });
    const std::string pipe = testing::TempDir() + "token_stream_pipe";
    ::unlink(pipe.c_str());
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    expect_error(ErrorKind::bad_input, {pipe, "is not a regular file"}, [&] { open(pipe); });
    ::unlink(pipe.c_str());
    const TemporaryFile empty("");
    expect_error(ErrorKind::bad_input, {empty.path(), "is empty"}, [&] { open(empty.path()); });
  }
}

TEST(TokenStream, RefusesBrokenTokenFiles) {
  const std::string three = uint16_bytes({1, 2, 3});
  expect_refusal("abc", {"holds 3 bytes", "expected an even number"});
  expect_refusal(uint16_bytes({1, 99, 100, 101}),
                 {"token 2: found 100", "below the vocabulary of 100"});
  expect_refusal(with_header(1, 3, uint16_bytes({1, 200, 3})), {"token 1: found 200"});
  expect_refusal(with_header(1, 3, three).substr(0, 500),
                 {"holds 500 bytes", "a header of 1024", "20240520"});
  expect_refusal(with_header(2, 3, three), {"byte 4: found version 2; expected 1"});
  expect_refusal(with_header(1, 4, three), {"says 4 tokens and 6 bytes follow"});
  expect_refusal(with_header(1, 3, three + "x"), {"says 3 tokens and 7 bytes follow"});
  expect_refusal(with_header(1, 0xffffffff, three), {"says -1 tokens"});
  expect_refusal(with_header(7, 3, three, 20240801), {"found magic 20240801", "uint32 tokens"});
}

}  // namespace
}  // namespace shardproof
