// ctest: unit
#include "base/digest.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <utility>

#include "base/error.h"

namespace shardproof {
namespace {

// FIPS 180-4 examples (NIST).
TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(sha256("").hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc").hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").hex(),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')).hex(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

RC_GTEST_PROP(Sha256, SplittingTheInputChangesNothing, (const std::string& text)) {
  const auto cut = *rc::gen::inRange<std::size_t>(0, text.size() + 1);
  Sha256 digest;
  digest.update(text.substr(0, cut)).update(text.substr(cut));
  RC_ASSERT(digest.finish() == sha256(text));
}

TEST(Sha256, FinishResetsAndMovesKeepTheState) {
  Sha256 first;
  first.update("abc");
  Sha256 second = std::move(first);
  EXPECT_EQ(second.finish(), sha256("abc"));
  EXPECT_EQ(second.finish(), sha256(""));
  first = std::move(second);
  EXPECT_EQ(first.update("abc").finish(), sha256("abc"));
}

RC_GTEST_PROP(Digest, HexRoundTrip, (const std::string& text)) {
  const Digest digest = sha256(text);
  RC_ASSERT(Digest::from_hex(digest.hex()) == digest);
  std::string upper = digest.hex();
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  RC_ASSERT(Digest::from_hex(upper) == digest);
}

TEST(Digest, RefusesWhatIsNotADigest) {
  const std::string good = sha256("x").hex();
  for (const std::string& bad : {std::string(), good.substr(1), good + "0", "g" + good.substr(1),
                                 good.substr(1) + " ", "-" + good.substr(1)}) {
    try {
      Digest::from_hex(bad);
      ADD_FAILURE() << "accepted " << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_NE(std::string(error.what()).find("64 hex digits"), std::string::npos);
    }
  }
}

TEST(Digest, OrdersByBytes) {
  Digest low;
  Digest high;
  high.bytes[0] = 1;
  low.bytes[31] = 255;
  EXPECT_LT(low, high);
}

}  // namespace
}  // namespace shardproof
