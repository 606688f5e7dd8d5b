// manifest_fuzz: manifests as they come, and with the closing digest that fits, which no fuzzer
// would find. What is parsed prints and parses to the same.
#include "base/digest.h"
#include "checkpoint/manifest.h"
#include "faults/fuzz/fuzz.h"

namespace {

using namespace shardproof;

void try_parse(const std::string& text) {
  Manifest manifest;
  if (!fuzz::parsed([&] { manifest = Manifest::parse(text, "fuzz"); })) return;
  const std::string printed = manifest.print();
  fuzz::require(Manifest::parse(printed, "printed").print() == printed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string body(fuzz::text_of(data, size));
  try_parse(body);
  try_parse(body + ",\n\"manifest_sha256\":\"" + sha256(body).hex() + "\"}\n");
  return 0;
}
