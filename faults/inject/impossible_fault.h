// impossible_fault: the error of a fault that was asked for where it cannot happen. It is a mistake
// of the script: such a fault counts as not fired, whatever was counted before it was found out.
// The mark is in the text because an error crosses processes as text. Thread rule: pure.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace shardproof {

Error impossible_fault(const std::string& place, const std::string& why,
                       int world_rank = Error::no_rank);
bool is_impossible_fault(std::string_view said);

}  // namespace shardproof
