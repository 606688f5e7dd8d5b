// wrong_call_row: see the header. Inputs are small whole numbers, so that sums are exact.
#include "harness/wrong_call_row.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "base/check.h"
#include "faults/inject/wrong_call.h"

namespace shardproof {
namespace {

using Calls = WrongCallRow::Calls;

constexpr std::array<std::string_view, 6> end_names{"right", "wrong", "error",
                                                    "hang",  "named", "crash"};

float input_at(int rank, std::size_t i) {
  return static_cast<float>(rank + 1) + static_cast<float>(i % 7);
}

// A call, the memory it works on, and what the right program finds there in the end.
struct Step {
  Call call;
  bool on_other_group = false;
  std::shared_ptr<std::vector<float>> send, recv;
  std::vector<float> before, expected;
};

constexpr float untouched = -77;

Step step_of(Calls calls, int rank, int size, std::size_t elements) {
  Step step;
  Call& call = step.call;
  std::vector<float> mine(elements);
  for (std::size_t i = 0; i < elements; ++i) mine[i] = input_at(rank, i);
  step.before.assign(elements, untouched);
  step.expected.assign(elements, untouched);
  call.count = elements;
  call.dtype = Dtype::f32;
  switch (calls) {
    case Calls::all_reduce:
      call.kind = CallKind::all_reduce;
      for (std::size_t i = 0; i < elements; ++i) {
        step.expected[i] = 0;
        for (int r = 0; r < size; ++r) step.expected[i] += input_at(r, i);
      }
      break;
    case Calls::broadcast:
      call.kind = CallKind::broadcast;
      call.peer = 0;
      if (rank == 0) step.before = mine;
      for (std::size_t i = 0; i < elements; ++i) step.expected[i] = input_at(0, i);
      break;
    case Calls::all_gather: {
      call.kind = CallKind::all_gather;
      const std::size_t share = elements / static_cast<std::size_t>(size);
      call.count = 0;
      call.recv_counts.assign(static_cast<std::size_t>(size), share);
      for (std::size_t i = 0; i < elements; ++i) {
        step.expected[i] = input_at(static_cast<int>(i / share), i % share);
      }
      break;
    }
    case Calls::message:
      SP_CHECK(rank == 0 || rank == wrong_rank, "a message of other ranks");
      call.kind = rank == 0 ? CallKind::send : CallKind::recv;
      call.peer = rank == 0 ? wrong_rank : 0;
      call.tag = 6;
      if (rank == wrong_rank) {
        for (std::size_t i = 0; i < elements; ++i) step.expected[i] = input_at(0, i);
      }
      break;
  }
  step.send = std::make_shared<std::vector<float>>(std::move(mine));
  step.recv = std::make_shared<std::vector<float>>(step.before);
  call.send =
      call.kind == CallKind::broadcast || call.kind == CallKind::recv ? nullptr : step.send->data();
  call.recv = call.kind == CallKind::send ? nullptr : step.recv->data();
  return step;
}

Step barrier_step() {
  Step step;
  step.recv = std::make_shared<std::vector<float>>();
  return step;
}

std::vector<Step> right_program(const WrongCallRow& row, int rank, int size, std::size_t elements) {
  std::vector<Step> steps;
  if (row.calls == Calls::message) {
    if (rank == 0 || rank == wrong_rank) {
      steps.push_back(step_of(Calls::message, rank, size, elements));
    }
    steps.push_back(barrier_step());
    return steps;
  }
  steps.push_back(step_of(row.calls, rank, size, elements));
  const bool broadcasts = row.calls == Calls::broadcast;
  steps.push_back(step_of(broadcasts ? Calls::all_reduce : Calls::broadcast, rank, size, elements));
  if (row.name == "group") steps[1].on_other_group = true;
  return steps;
}

void make_wrong(const WrongCallRow& row, int rank, int size, std::size_t elements,
                std::vector<Step>& steps) {
  if (row.name == "order" || row.name == "group") {
    std::swap(steps[0], steps[1]);
  } else if (row.name == "skip") {
    steps.erase(steps.begin());
  } else if (row.name == "extra") {
    steps.insert(steps.begin(), step_of(row.calls, rank, size, elements));
  } else {
    const auto wrong = wrong_call(parse_fault_kind(row.name, "a row"), steps[0].call, rank, size);
    SP_CHECK(wrong.has_value(), row.name);
    steps[0].call = *wrong;
  }
}

bool equal(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Guards name the sides of a mismatch, or give a verdict on a hang. A group is revoked under a rank
// that waits when another one gives up, by its deadline or an error: this rank would wait on.
WrongCallEnd end_of(const Error& error) {
  const bool sides =
      error.kind() == ErrorKind::mismatch && error.detail().find(" on rank") != std::string::npos;
  if (sides || error.detail().starts_with("hang (")) return WrongCallEnd::named;
  const bool waited = error.kind() == ErrorKind::timeout || error.kind() == ErrorKind::revoked;
  return waited ? WrongCallEnd::hang : WrongCallEnd::error;
}

}  // namespace

std::string_view name(WrongCallEnd end) {
  return end_names[static_cast<std::size_t>(end)];
}

WrongCallEnd wrong_call_end(std::string_view name, const std::string& place) {
  const auto found = std::find(end_names.begin(), end_names.end(), name);
  if (found == end_names.end()) {
    throw Error(ErrorKind::corrupt, place, "no such end: " + std::string(name));
  }
  return static_cast<WrongCallEnd>(found - end_names.begin());
}

Json to_json(const WrongCallOutcome& outcome) {
  return {{"end", name(outcome.end)}, {"written", outcome.written}, {"error", outcome.error}};
}

WrongCallOutcome outcome_from_json(const Json& json, const std::string& place) {
  return {wrong_call_end(string_member(json, "end", place), place),
          member(json, "written", place).get<bool>(), string_member(json, "error", place)};
}

const std::vector<WrongCallRow>& wrong_call_rows() {
  static const std::vector<WrongCallRow> rows{
      {"dtype", Calls::all_reduce, "names I32 instead of F32"},
      {"count", Calls::all_reduce, "has an element less"},
      {"op", Calls::all_reduce, "takes the maximum instead of the sum"},
      {"split", Calls::all_gather, "expects an element of rank 3's part from rank 0"},
      {"root", Calls::broadcast, "takes itself for the root"},
      {"order", Calls::all_reduce, "makes the broadcast that follows first"},
      {"group", Calls::all_reduce, "makes the call of another group of the same ranks first"},
      {"skip", Calls::all_reduce, "does not make the call"},
      {"extra", Calls::all_reduce, "makes the call twice"},
      {"dtype", Calls::message, "receives I32 where rank 0 sends F32"},
      {"count", Calls::message, "receives an element less than rank 0 sends"},
      {"tag", Calls::message, "receives tag 7 where rank 0 sends tag 6"},
  };
  return rows;
}

WrongCallOutcome run_wrong_call(const WrongCallRow& row, std::size_t elements, Communicator& comm,
                                Communicator& other, Duration deadline) {
  std::vector<Step> steps = right_program(row, comm.rank(), comm.size(), elements);
  if (comm.rank() == wrong_rank) {
    make_wrong(row, comm.rank(), comm.size(), elements, steps);
  }
  WrongCallOutcome outcome{WrongCallEnd::right, false, ""};
  std::size_t ended = 0;
  try {
    for (; ended < steps.size(); ++ended) {
      Communicator& group = steps[ended].on_other_group ? other : comm;
      group.run(steps[ended].call, Deadline::after(deadline));
    }
  } catch (const Error& error) {
    outcome.end = end_of(error);
    outcome.error = error.what();
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i < ended && outcome.end == WrongCallEnd::right &&
        !equal(*steps[i].recv, steps[i].expected)) {
      outcome.end = WrongCallEnd::wrong;
    }
    if (i >= ended && !equal(*steps[i].recv, steps[i].before)) outcome.written = true;
  }
  return outcome;
}

}  // namespace shardproof
