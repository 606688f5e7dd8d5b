// agreement: see agreement.h. A rank's text is 'R' + result, or 'E' + the error as JSON.
#include "checkpoint/agreement.h"

#include <fmt/format.h>

#include "base/json.h"

namespace shardproof {
namespace {

std::string error_text(const Error& error, int world_rank) {
  const int rank = error.world_rank() == Error::no_rank ? world_rank : error.world_rank();
  const Json json{static_cast<int>(error.kind()), rank, error.place(), error.detail()};
  return "E" + json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string run_step(const std::function<std::string()>& step, int world_rank) {
  try {
    return "R" + step();
  } catch (const Error& error) {
    return error_text(error, world_rank);
  } catch (const std::exception& error) {
    return error_text(Error(ErrorKind::io, "checkpoint", error.what()), world_rank);
  }
}

}  // namespace

std::vector<std::string> agreed(Communicator& comm, const std::function<std::string()>& step) {
  const auto rank = static_cast<std::size_t>(comm.rank());
  const std::string mine = run_step(step, comm.group().world_ranks.at(rank));
  std::vector<std::string> texts = all_gather_text(comm, mine);
  std::string first;
  int failures = 0;
  for (const std::string& text : texts) {
    if (text.starts_with('E') && failures++ == 0) first = text.substr(1);
  }
  if (failures > 0) {
    const Json json = parse_json(first, "a rank's error");
    std::string detail = json.at(3).get<std::string>();
    if (failures > 1) detail += fmt::format(" (the first of {} ranks that failed)", failures);
    throw AgreedError(static_cast<ErrorKind>(json.at(0).get<int>()), json.at(2).get<std::string>(),
                      detail, json.at(1).get<int>());
  }
  for (std::string& text : texts) text.erase(0, 1);
  return texts;
}

}  // namespace shardproof
