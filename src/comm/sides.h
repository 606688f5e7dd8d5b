// sides: which ranks hold which value of a field, as the texts of mismatches say it.
// Thread rule: pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace shardproof {

// "2", "0-3", "0-2,5": runs of three and more are joined. Any order, no duplicates.
std::string rank_list(std::vector<int> ranks);
// "rank 2", "ranks 0-3".
std::string ranks_text(const std::vector<int>& ranks);

// "dtype: f32 on ranks 0-1,3; f64 on rank 2", the value that most ranks hold first; "" when all
// hold the same.
std::string sides(const std::string& field,
                  const std::vector<std::pair<int, std::string>>& value_of_rank);

}  // namespace shardproof
