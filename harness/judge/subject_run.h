// subject_run: runs the legs of a plan, each once, several at a time where that is allowed, and
// keeps what came of them. The reference runs first and alone: where it writes no trace, nothing
// else would. Thread rule: one thread calls; `say` is called by one thread at a time.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/judge/subject_plan.h"

namespace shardproof {

struct SubjectRunOptions {
  LegFolders folders;
  int at_once = 1;
  std::function<void(const std::string&)> say;  // a line of progress
  const std::atomic<bool>* stop = nullptr;
};

class SubjectRun {
 public:
  SubjectRun(const Subject& subject, SubjectRunOptions options);

  // Those of `legs` that have not run. A leg stands behind what it begins with. Error bad_input or
  // environment, saying what to add, where the first leg leaves no trace; what any other leg comes
  // to is a result. False when interrupted.
  bool run(const std::vector<SubjectLeg>& legs);
  const SubjectLegs& results() const { return results_; }

 private:
  SubjectLegResult run_one(const SubjectLeg& leg);
  std::string reason_to_skip(const SubjectLeg& leg) const;
  // The leg with a rank that comes by the place of its kill, where there is one.
  SubjectLeg placed(SubjectLeg leg) const;
  bool lacks_place(const SubjectLeg& leg) const;
  bool fails_to_resume(const std::string& layout) const;
  void check_first(const SubjectLegResult& result) const;
  void tell(const SubjectLegResult& result) const;
  bool stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  const Subject& subject_;
  const SubjectRunOptions options_;
  SubjectLegs results_;
};

}  // namespace shardproof
