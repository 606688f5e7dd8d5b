// dump_fuzz: flight dumps as they come, pickle or JSON. What is read can be reported on; what a
// pickle holds prints as JSON, and as a pickle reads back the same.
#include "base/pickle.h"
#include "comm/dump_report.h"
#include "faults/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardproof;
  const std::string_view bytes = fuzz::text_of(data, size);
  Json json;
  if (fuzz::parsed([&] { json = parse_pickle(bytes, "fuzz"); })) {
    fuzz::require(parse_pickle(to_pickle(json), "printed").dump() == json.dump());
  }
  FlightDump dump;
  if (fuzz::parsed([&] { dump = read_flight_dump(bytes, "fuzz_0"); })) {
    fuzz::require(!report_on({dump}).text().empty());
  }
  return 0;
}
