// flight_dump: one rank's records as a file, in the format that PyTorch's flight-recorder tools
// read (version 2.10 of it), and theirs read back (any 2.x, pickle or JSON; see base/pickle.h:
// nothing in a pickle is executed). What we write has one entry for each operation, and under
// "shardproof" the records themselves, which know more (reduction, root, tags, splits) and are what
// is read back. For PyTorch's analyser, which pairs entries by group and number alone, messages
// between two ranks are a group of these two and are numbered by direction, tag and order; uneven
// all_gather and reduce_scatter have the names that PyTorch gives them ("..._coalesced"), for which
// it compares no sizes across ranks. Not known from PyTorch's own dumps: reduction, root, tags;
// splits of a rank; and from those of gloo (2.11) which ranks a group has, messages, and whether
// what has ended ended well. Thread rule: pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "comm/flight_records.h"

namespace shardproof {

struct FlightDump {
  std::string file;
  std::string version;
  RankRecords records;
  std::map<std::string, std::vector<int>> groups;  // world ranks, where they are known
  // Of records.operations: those that have ended, one way or another (gloo says no more).
  std::vector<std::size_t> ended_somehow;
};

// `wall_ns`: the time of the look, since 1970.
Json to_flight_dump(const RankRecords& records, std::int64_t wall_ns);
std::string flight_dump_file(const RankRecords& records, std::int64_t wall_ns);  // as a pickle
std::string flight_dump_name(int rank);  // "flight_rank_3": PyTorch takes the rank from the end

// The rank is that of the records, else the number at the end of the file's name. Error bad_input
// naming the file, the entry and what was expected.
FlightDump read_flight_dump(std::string_view bytes, const std::string& file);
// Files, or folders of files whose names end in a number (as PyTorch's tools take them), or in a
// number and .json or .pickle. Error bad_input also for a rank that comes twice and for nothing.
std::vector<FlightDump> read_flight_dumps(const std::vector<std::string>& paths);

}  // namespace shardproof
