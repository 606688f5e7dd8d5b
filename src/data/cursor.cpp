// cursor: the data cursor as JSON, for checkpoints.
#include <fmt/format.h>

#include "base/error.h"
#include "data/loader.h"

namespace shardproof {

Json DataCursor::to_json() const {
  return {{"epoch", epoch}, {"taken", taken}, {"samples", samples}, {"ledger", ledger.hex()}};
}

DataCursor DataCursor::from_json(const Json& json, const std::string& place) {
  DataCursor cursor;
  cursor.epoch = integer_member(json, "epoch", place);
  cursor.taken = integer_member(json, "taken", place);
  cursor.samples = integer_member(json, "samples", place);
  const std::string ledger = string_member(json, "ledger", place);
  try {
    cursor.ledger = Digest::from_hex(ledger);
  } catch (const Error& error) {
    throw Error(ErrorKind::corrupt, place, fmt::format("ledger: {}", error.detail()));
  }
  return cursor;
}

}  // namespace shardproof
