// own_saver: a small checkpoint of our own, for the tests of crash sweeps.
// usage: own_saver save ROOT N | own_saver load ROOT
#include <cstdio>
#include <cstdlib>
#include <string>

#include "checkpoint/small_state_testing.h"

namespace shardproof {
namespace {

int save(const std::string& root, int n) {
  const auto storage = posix_storage(root, true);
  testing::State state = testing::small_state(static_cast<std::uint64_t>(n));
  testing::write_small(*storage, 3, "step-" + std::to_string(n), state, testing::small_facts(n));
  return 0;
}

// The newest, every byte of it verified.
int load(const std::string& root) {
  const auto storage = posix_storage(root, false);
  const std::vector<std::string> ids = list_checkpoints(*storage);
  if (ids.empty()) throw Error(ErrorKind::bad_input, root, "there is no checkpoint in it");
  const std::vector<Damage> damages = verify_checkpoint(*storage, ids.back());
  if (!damages.empty()) throw Error(ErrorKind::corrupt, damages[0].where, damages[0].found);
  const Manifest manifest = read_manifest(*storage, ids.back());
  std::printf("%s %s\n", manifest.id.c_str(), manifest.state_digest().hex().c_str());
  return 0;
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) try {
  if (argc < 3) return 2;
  const std::string verb = argv[1];
  if (verb == "save" && argc > 3) return shardproof::save(argv[2], std::atoi(argv[3]));
  return shardproof::load(argv[2]);
} catch (const shardproof::Error& error) {
  std::fprintf(stderr, "own_saver: %s\n", error.what());
  return shardproof::exit_code(error.kind());
}
