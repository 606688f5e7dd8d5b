// subject_plan: what the judgement of a subject will run and decide, as data, before anything runs:
// the legs, in the order in which they run, and the verdicts with the legs they judge. Only legs
// that a verdict needs are there. Thread rule: values; pure functions.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/judge/subject_leg.h"
#include "invariants/verdict.h"

namespace shardproof {

using SubjectLegs = std::map<std::string, SubjectLegResult>;  // by name

struct PlannedCheck {
  std::string layout;
  std::string check;
  std::string subject;            // "ddp2 against ref"
  std::vector<std::string> legs;  // without all of them there is no verdict
  bool bitwise = false;           // says nothing of a program that is not reproducible
  std::optional<KillPlace> kill{};
  // A leg that is not there: inconclusive, with its sentence.
  std::function<Verdict(const SubjectLegs&)> judge;
};

struct SubjectChoice {
  std::vector<std::string> checks;   // empty: all
  std::vector<std::string> layouts;  // empty: all
};
// Error bad_input for a check or a layout that is not there.
void check_choice(const Subject& subject, const SubjectChoice& choice);

struct SubjectPlan {
  std::vector<SubjectLeg> legs;
  std::vector<PlannedCheck> checks;
  std::vector<std::string> kills;  // layouts that are killed
};
// `folders` is where the legs of `checkpoint` will leave theirs.
SubjectPlan plan_subject(const Subject& subject, const SubjectChoice& choice,
                         const LegFolders& folders);

// A resume of the layout without the checkpoint: a program that ends with the same bits all the
// same trains again what it is thought to read.
SubjectLeg bare_resume(const std::string& layout);

std::string kill_subject(const std::string& layout, const KillPlace& place);

// The legs that show whether a layout is reproducible, and its verdict `repeat`.
SubjectPlan plan_repeat(const Subject& subject, const std::string& layout);

// The layout whose ranks are killed where none is asked for by its `checks`.
std::string killed_layout(const Subject& subject);

}  // namespace shardproof
