// layouts_testing: the verb `layouts` run as a command, its rows judged.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "harness/child.h"
#include "harness/layout_list.h"

namespace shardproof::testing_support {

// The rows of `shardproof layouts ARGUMENTS --json`, all of which must be equal.
inline Json expect_equal_rows(std::vector<std::string> arguments, Duration deadline) {
  arguments.insert(arguments.begin(), {SHARDPROOF_COMMAND, "layouts", "--json"});
  const ChildResult child = run_child(arguments, deadline);
  EXPECT_FALSE(child.timed_out);
  EXPECT_EQ(child.exit_code, 0) << child.output.substr(0, 4000);
  const std::size_t begin = child.output.find("[\n");
  if (begin == std::string::npos) return Json::array();
  const Json rows = parse_json(child.output.substr(begin), "shardproof layouts --json");
  for (const Json& row : rows) {
    EXPECT_EQ(row.at("verdict").at("outcome"), "pass")
        << row.at("run") << " on " << row.at("backend") << ": " << row.at("verdict").dump(1);
    EXPECT_EQ(row.at("bytes_sent").get<double>() > 0, row.at("ranks").get<int>() > 1)
        << row.at("run");
  }
  return rows;
}

}  // namespace shardproof::testing_support
