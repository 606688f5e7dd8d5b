// ctest: unit
// The words of the command line that name verbs.
#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "harness/cli/cli.h"

namespace shardproof {
namespace {

class Verbs : public testing::Test {
 protected:
  Verbs() { add_verbs(app_, status_); }
  void expect_refused(const std::vector<std::string>& words,
                      std::initializer_list<std::string_view> parts) {
    expect_error(ErrorKind::bad_input, parts, [&] { check_verbs(app_, words); });
  }
  int status_ = 0;
  CLI::App app_{"", "shardproof"};
};

TEST_F(Verbs, ThoseThatExistAndTheirArgumentsPass) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"--help"},
                                             {"accept", "--help"},
                                             {"train", "accpt.toml"},
                                             {"checkpoint", "verify", "DIR", "ID"},
                                             {"checkpoint", "--help"},
                                             {"rank", "file"},
                                             {"bench", "comm", "--ranks", "2"}}) {
    EXPECT_NO_THROW(check_verbs(app_, words));
  }
}

TEST_F(Verbs, AnUnknownOneIsNoSuccessAndNearOnesAreNamed) {
  expect_refused({"foo", "--help"},
                 {"shardproof foo", "expected one of accept, layouts, train, resume"});
  expect_refused({"acept", "--help"}, {"shardproof acept", "did you mean accept?"});
  expect_refused({"re"}, {"did you mean resume or replay?"});
  expect_refused({"checkpoint", "vrify", "DIR"}, {"shardproof checkpoint vrify", "verify?"});
  expect_refused({"trace", "frobnicate", "--help"}, {"expected one of check, diff"});
}

TEST_F(Verbs, AnUnknownOptionNamesThoseThatAreNear) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--help"},
                                             {"train", "--steps=3", "--set", "a=b"},
                                             {"train", "--no-trace-digest"},
                                             {"accept", "--", "--what"},
                                             {"checkpoint", "verify", "DIR", "--help"}}) {
    EXPECT_NO_THROW(check_verbs(app_, words));
  }
  expect_refused({"train", "my.toml", "--step", "3"},
                 {"shardproof train --step", "did you mean", "--steps?"});
  expect_refused({"train", "--tracetensors=all"}, {"did you mean --trace-tensors?"});
  expect_refused({"trace", "diff", "a", "b", "--jsn"}, {"trace diff --jsn", "--json?"});
  expect_refused({"layouts", "--frobnicate"}, {"expected one of --help, --all"});
  expect_refused({"--hepl"}, {"shardproof --hepl", "--help?"});
}

TEST_F(Verbs, HiddenOnesAreNotNamed) {
  const Error error = error_of([&] { check_verbs(app_, {"ranks"}); });
  EXPECT_EQ(error.detail().find("rank"), std::string::npos) << error.what();
}

TEST_F(Verbs, EachHasExamples) {
  EXPECT_NE(app_.help().find("Examples:"), std::string::npos);
  for (const CLI::App* verb : app_.get_subcommands({})) {
    if (verb->get_group().empty()) continue;
    EXPECT_NE(verb->help().find("Examples:"), std::string::npos) << verb->get_name();
    for (const CLI::App* inner : verb->get_subcommands({})) {
      if (inner->get_group().empty()) continue;
      EXPECT_NE(inner->help().find("Examples:"), std::string::npos) << inner->get_name();
    }
  }
}

}  // namespace
}  // namespace shardproof
