// subject_testing: subject files of fake_subject, for tests.
#pragma once

#include <fstream>
#include <map>
#include <string>

#include "base/json.h"
#include "base/temp_folder.h"
#include "harness/judge/subject_file.h"

namespace shardproof::testing {

// A wrong of fake_subject and the checks of a layout dp2 that has it.
inline Json fake_layout(int ranks, const std::string& wrong = "") {
  return Json{{"ranks", ranks}, {"args", wrong.empty() ? "" : "--wrong " + wrong}};
}

inline Json fake_subject() {
  Json out;
  out["subject"] = Json{{"launch", std::string(SHARDPROOF_FAKE_SUBJECT) +
                                       " --ranks {ranks} {args} {dtype} --steps {steps} --save-at "
                                       "{save} --ckpt {ckpt} {resume}"},
                        {"resume", "--resume"},
                        {"float64", "--float64"},
                        {"checkpoint", "safetensors"},
                        {"reshard", true},
                        {"deadline", 20}};
  out["layout"]["ref"] = fake_layout(1);
  out["layout"]["dp2"] = fake_layout(2);
  return out;
}

inline std::string write_subject(const TempFolder& folder, const Json& subject) {
  folder.write("fake.json", subject.dump(1));
  return folder.file("fake.json");
}

}  // namespace shardproof::testing
