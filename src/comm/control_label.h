// control_label: the label of groups on which guards agree. Decorators leave such a child bare:
// what is agreed on neither passes nor feels the faults and delays of the program's own calls.
#pragma once

#include <string_view>

namespace shardproof {

inline constexpr std::string_view control_label = "guard";

}  // namespace shardproof
