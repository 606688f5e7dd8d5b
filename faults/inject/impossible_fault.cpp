// impossible_fault: a mark in front of the reason.
#include "faults/inject/impossible_fault.h"

namespace shardproof {
namespace {

constexpr std::string_view mark = "a fault that cannot happen here: ";

}  // namespace

Error impossible_fault(const std::string& place, const std::string& why, int world_rank) {
  return Error(ErrorKind::bad_input, place, std::string(mark) + why, world_rank);
}

bool is_impossible_fault(std::string_view said) {
  return said.find(mark) != std::string_view::npos;
}

}  // namespace shardproof
