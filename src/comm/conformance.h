// conformance: the test bodies that every backend must pass, as plain functions: every rank of a
// group calls the same body with its communicator. Thread tests call them on threads, MPI tests in
// each process. Worlds to run: 1, 2, 3, 4 and 6 ranks. Bodies report through GoogleTest and leave
// the communicator healthy. For tests (needs GoogleTest).
#pragma once

#include <vector>

#include "comm/conformance_canonical.h"
#include "comm/conformance_collectives.h"
#include "comm/conformance_semantics.h"

namespace shardproof::conformance {

struct Body {
  const char* name;
  void (*run)(Communicator& comm, const Backend& backend);
};

inline const std::vector<Body>& bodies() {
#define SP_BODY(function) \
  Body {                  \
#function, function   \
  }
  static const std::vector<Body> all = {
      SP_BODY(small_calls),
      SP_BODY(large_calls),
      SP_BODY(barriers_hold_back),
      SP_BODY(reduce_scatter_then_gather_is_all_reduce),
      SP_BODY(scatter_and_gather_are_transposes),
      SP_BODY(texts_of_any_length),
      SP_BODY(splits_by_color_and_key),
      SP_BODY(splits_without_some_ranks),
      SP_BODY(names_are_unique),
      SP_BODY(started_calls_interleave_with_run),
      SP_BODY(unfinished_work_keeps_its_buffers),
      SP_BODY(destroying_unfinished_work_waits),
      SP_BODY(messages_wait_for_nobody_else),
      SP_BODY(messages_of_one_tag_keep_their_order),
      SP_BODY(a_late_peer_is_a_timeout_and_poisons),
      SP_BODY(a_message_nobody_takes_is_a_timeout),
      SP_BODY(abort_ends_what_is_under_way),
      SP_BODY(revoking_the_parent_releases_the_child),
      SP_BODY(agreement_is_the_or_of_all),
      SP_BODY(shrink_makes_a_working_group),
      SP_BODY(canonical_sums_do_not_depend_on_ownership),
      SP_BODY(canonical_sums_of_contiguous_leaves),
  };
#undef SP_BODY
  return all;
}

}  // namespace shardproof::conformance
