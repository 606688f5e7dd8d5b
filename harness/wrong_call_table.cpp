// wrong_call_table: launches jobs, and writes what came of them.
#include "harness/wrong_call_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "comm/sides.h"
#include "harness/launcher.h"

namespace shardproof {
namespace {

struct Heard {
  std::string library;
  std::string other;  // what else was printed
  std::map<std::size_t, std::map<int, WrongCallOutcome>> rows;
};

void take_line(Heard& heard, int rank, const std::string& line) {
  if (!line.starts_with("{")) {
    heard.other += line + "\n";
    return;
  }
  const Json json = parse_json(line, "a rank's line", ErrorKind::corrupt);
  if (json.contains("library")) {
    heard.library = string_member(json, "library", "a rank's line");
    return;
  }
  const auto row = static_cast<std::size_t>(integer_member(json, "row", "a rank's line"));
  heard.rows[row][rank] = outcome_from_json(json, "a rank's line");
}

// Of a rank that said nothing of its last row.
std::string how_it_ended(const LaunchResult& result, int rank) {
  const RankEnd& end = result.ranks[static_cast<std::size_t>(rank)];
  return fmt::format("rank {} said nothing of the row: {}, {}; {}{}", rank,
                     end.finished ? "it finished" : "it did not finish",
                     end.exit_code ? fmt::format("exit code {}", *end.exit_code) : "no exit code",
                     end.error, result.hang);
}

// Rows from job.first on, as far as the job came: the first row that it did not do, and their
// outcomes. A rank that said nothing of a row in which the job ended has crashed.
std::size_t run_job(const WrongCallOptions& options, const WrongCallJob& job, Heard& heard) {
  LaunchRequest request;
  request.ranks = wrong_call_ranks;
  request.command = options.rank_command;
  for (const std::size_t number : {job.first, job.last, job.elements}) {
    request.command.push_back(std::to_string(number));
  }
  if (job.guarded) request.command.push_back("--guarded");
  request.grace = std::chrono::seconds(3);
  request.on_output = [&](int rank, const std::string& line) { take_line(heard, rank, line); };
  const std::size_t before = heard.rows.size();
  const LaunchResult result = launch(request);
  const auto missing = [&](std::size_t row) {
    return heard.rows[row].size() < static_cast<std::size_t>(wrong_call_ranks);
  };
  if (heard.rows.size() == before) {
    std::string errors;
    for (const RankEnd& end : result.ranks) errors += end.error + "\n";
    throw Error(ErrorKind::environment, "the table of wrong calls",
                "no rank came to row " + std::to_string(job.first) + ": " + errors + heard.other);
  }
  const std::size_t last = heard.rows.rbegin()->first;
  if (missing(last)) {
    for (int rank = 0; rank < wrong_call_ranks; ++rank) {
      const auto [outcome, silent] = heard.rows[last].try_emplace(rank);
      if (silent) outcome->second.error = how_it_ended(result, rank);
    }
  }
  return last + 1;
}

std::vector<WrongCallOutcome> outcomes_of(Heard& heard, std::size_t row) {
  std::vector<WrongCallOutcome> outcomes(wrong_call_ranks);
  for (const auto& [rank, outcome] : heard.rows[row]) {
    outcomes[static_cast<std::size_t>(rank)] = outcome;
  }
  return outcomes;
}

// "named on ranks 0-3", "hang on ranks 0,2-3, error on rank 1".
std::string ends_text(const std::vector<WrongCallOutcome>& outcomes) {
  static const std::map<WrongCallEnd, std::string> words{
      {WrongCallEnd::right, "right numbers"}, {WrongCallEnd::wrong, "wrong numbers, silent"},
      {WrongCallEnd::error, "an error"},      {WrongCallEnd::hang, "hang"},
      {WrongCallEnd::named, "named"},         {WrongCallEnd::crash, "crash"}};
  std::map<WrongCallEnd, std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    ranks[outcomes[rank].end].push_back(static_cast<int>(rank));
  }
  std::string text;
  for (const auto& [end, of] : ranks) {
    text += fmt::format("{}{} on {}", text.empty() ? "" : "; ", words.at(end), ranks_text(of));
  }
  return text;
}

std::string said_by(const std::vector<WrongCallOutcome>& outcomes) {
  const auto said = std::find_if(outcomes.begin(), outcomes.end(),
                                 [](const auto& outcome) { return !outcome.error.empty(); });
  return said == outcomes.end() ? "" : said->error;
}

bool nothing_written(const std::vector<WrongCallOutcome>& outcomes) {
  return std::none_of(outcomes.begin(), outcomes.end(),
                      [](const auto& outcome) { return outcome.written; });
}

bool named_everywhere(const WrongCallResult& result) {
  return nothing_written(result.with) &&
         std::all_of(result.with.begin(), result.with.end(),
                     [](const auto& outcome) { return outcome.end == WrongCallEnd::named; });
}

std::string_view call_of(const WrongCallRow& row) {
  switch (row.calls) {
    case WrongCallRow::Calls::all_reduce:
      return "all_reduce";
    case WrongCallRow::Calls::all_gather:
      return "all_gather";
    case WrongCallRow::Calls::broadcast:
      return "broadcast";
    default:
      return "message";
  }
}

std::string size_text(std::size_t elements) {
  const std::size_t bytes = elements * sizeof(float);
  return bytes < 1024 ? fmt::format("{} B", bytes) : fmt::format("{} KiB", bytes / 1024);
}

// A cell holds no bar and no line break.
std::string cell(std::string text) {
  std::replace(text.begin(), text.end(), '|', '/');
  return text.substr(0, text.find('\n'));
}

std::string with_text(const WrongCallResult& result) {
  return ends_text(result.with) +
         (nothing_written(result.with) ? ", nothing written" : ", A BUFFER WAS WRITTEN");
}

}  // namespace

WrongCallTable run_wrong_call_table(const WrongCallOptions& options) {
  WrongCallTable table;
  const std::size_t end = std::min(options.first + options.rows, wrong_call_rows().size());
  for (const std::size_t elements : options.sizes) {
    Heard without, with;
    for (std::size_t at = options.first; at < end && !options.guarded_only;) {
      at = run_job(options, {at, end, elements, false}, without);
    }
    for (std::size_t at = options.first; at < end;) {
      at = run_job(options, {at, end, elements, true}, with);
    }
    table.library = with.library;
    for (std::size_t row = options.first; row < end; ++row) {
      WrongCallResult result{&wrong_call_rows()[row], elements, {}, outcomes_of(with, row)};
      if (!options.guarded_only) result.without = outcomes_of(without, row);
      table.results.push_back(std::move(result));
    }
  }
  return table;
}

bool all_named(const WrongCallTable& table) {
  return !table.results.empty() &&
         std::all_of(table.results.begin(), table.results.end(), named_everywhere);
}

std::string text_of(const WrongCallTable& table) {
  std::string out = fmt::format("{} ranks, {}; rank {} is wrong\n\n", wrong_call_ranks,
                                table.library, wrong_rank);
  for (const WrongCallResult& result : table.results) {
    out +=
        fmt::format("{} of {} of {}: {}\n  without  {}\n", result.row->name, call_of(*result.row),
                    size_text(result.elements), result.row->what, ends_text(result.without));
    out += fmt::format("  with     {}\n           {}\n", with_text(result),
                       cell(said_by(result.with)));
  }
  return out;
}

std::string markdown_of(const WrongCallTable& table) {
  std::string out = fmt::format(
      "# Wrong calls\n\nWritten by `shardproof faults table --markdown`: {} MPI processes, of "
      "which "
      "rank {} is wrong, on {}. Collectives are those of `comm/mpi_communicator.h`, over MPI's "
      "messages. What happens without the guards depends on the version of MPI and on the size; "
      "a hang is a wait that lasted 1.5 s. A broadcast follows the call, a barrier the message. "
      "With the guards (`guard.verify`, `guard.watch`): the end on each rank, whether a buffer of "
      "a call that failed was written, and what the first rank says.\n\n"
      "| mistake | call | size | rank {} | without the guards | with them | said |\n"
      "|---|---|---|---|---|---|---|\n",
      wrong_call_ranks, wrong_rank, table.library, wrong_rank);
  for (const WrongCallResult& result : table.results) {
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", result.row->name,
                       call_of(*result.row), size_text(result.elements), result.row->what,
                       ends_text(result.without), with_text(result), cell(said_by(result.with)));
  }
  return out;
}

}  // namespace shardproof
