// config_fuzz: configs as TOML, as JSON and as a Run line. What is parsed and checked prints and
// parses to the same.
#include "faults/fuzz/fuzz.h"
#include "train/config.h"

namespace {

using namespace shardproof;

template <typename Parse>
void try_parse(const Parse& parse) {
  Config config;
  const bool legal = fuzz::parsed([&] {
    config = parse();
    check(config);
  });
  if (legal) fuzz::require(parse_toml(to_toml(config), "printed") == config);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  try_parse([&] { return parse_toml(text, "fuzz"); });
  try_parse([&] { return parse_config_json(text, "fuzz"); });
  try_parse([&] { return parse_run_line(text); });
  return 0;
}
