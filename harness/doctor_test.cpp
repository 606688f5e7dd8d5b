// ctest: unit timeout=120 lock=mpi
#include "harness/doctor.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "harness/child.h"

namespace shardproof {
namespace {

TEST(Doctor, TheSameShapeGivesTheSameBitsHere) {
  const Finding alignment = alignment_finding(), thread = thread_finding();
  EXPECT_TRUE(alignment.ok) << alignment.detail;
  EXPECT_NE(alignment.detail.find("0 of 642 products"), std::string::npos) << alignment.detail;
  EXPECT_TRUE(thread.ok) << thread.detail;
}

TEST(Doctor, AFolderThatCanHoldCheckpointsIsLeftAsItWas) {
  const TempFolder folder;
  const Finding finding = storage_finding(folder.path());
  EXPECT_TRUE(finding.ok) << finding.detail;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Doctor, AFolderThatCannotIsNamed) {
  const Finding finding = storage_finding("/proc");
  EXPECT_FALSE(finding.ok);
  EXPECT_FALSE(finding.detail.empty());
  EXPECT_FALSE(storage_finding("/nowhere/at/all").ok);
}

TEST(Doctor, AnAbsentFolderIsBadInput) {
  EXPECT_THROW(diagnose("/nowhere/at/all"), Error);
}

TEST(Doctor, TheExitCodeIsThreeWhenAnythingIsLacking) {
  EXPECT_EQ(exit_code({{"a", true, ""}, {"b", true, ""}}), 0);
  EXPECT_EQ(exit_code({{"a", true, ""}, {"b", false, ""}}), 3);
  EXPECT_EQ(exit_code(std::vector<Finding>{}), 3);
}

TEST(DoctorVerb, PrintsItsFindingsAsJson) {
  const TempFolder folder;
  const ChildResult child = run_child(
      {SHARDPROOF_COMMAND, "doctor", "--json", "--dir", folder.path()}, std::chrono::seconds(100));
  EXPECT_EQ(child.exit_code, 0) << child.output;
  const Json json = parse_json(child.output, "stdout");
  ASSERT_EQ(json.size(), 6u);
  for (const Json& finding : json) EXPECT_TRUE(finding.at("ok").get<bool>()) << finding.dump();
}

}  // namespace
}  // namespace shardproof
