// main: the command line. Reads the environment once, prints every Error once, returns its exit
// code.
#include <cstdio>
#include <exception>
#include <new>

#include "base/error.h"
#include "harness/cli/cli.h"
#include "harness/cli/process_start.h"
#include "harness/say.h"

namespace shardproof {
namespace {

int run_command(int argc, char** argv) {
  CLI::App app("Shardproof: evidence that a distributed training stack computes the right thing.",
               "shardproof");
  app.require_subcommand(1);
  app.set_version_flag("--version", SHARDPROOF_VERSION);
  int status = 0;
  try {
    add_verbs(app, status);
    check_verbs(app, {argv + 1, argv + argc});
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const Error& error) {
    std::fprintf(stderr, "shardproof: %s\n", error.what());
    return exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "shardproof: environment: out of memory\n");
    return 3;
  } catch (const std::exception& error) {  // what the system refused: a folder, a thread
    std::fprintf(stderr, "shardproof: environment: %s\n", error.what());
    return 3;
  }
  return status;
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  shardproof::take_signals_back();
  return shardproof::finish_output(shardproof::run_command(argc, argv));
}
