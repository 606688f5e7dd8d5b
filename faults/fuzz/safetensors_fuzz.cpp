// safetensors_fuzz: headers as they come, and as JSON with the length that fits, in a file whose
// size the first three bytes say. The tensors of a header that is parsed tile the file's data.
#include <cstring>

#include "base/safetensors.h"
#include "faults/fuzz/fuzz.h"

namespace {

using namespace shardproof;

void try_parse(std::string_view head, std::uint64_t file_bytes) {
  SafetensorsHeader header;
  const auto bytes = std::as_bytes(std::span(head));
  if (!fuzz::parsed([&] { header = parse_safetensors(bytes, file_bytes, "fuzz"); })) return;
  std::uint64_t at = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    fuzz::require(entry.begin == at && entry.end >= entry.begin);
    at = entry.end;
  }
  fuzz::require(header.data_begin + at == file_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try_parse(fuzz::text_of(data, size), size);
  if (size < 3) return 0;
  const std::uint64_t more = data[0] | std::uint64_t{data[1]} << 8 | std::uint64_t{data[2]} << 16;
  const std::uint64_t length = size - 3;
  std::string head(sizeof length, '\0');
  std::memcpy(head.data(), &length, sizeof length);
  head += fuzz::text_of(data + 3, length);
  try_parse(head, head.size() + more);
  return 0;
}
