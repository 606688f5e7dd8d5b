// faults_table: the verb that shows what wrong calls come to without the guards and with them.
#include <memory>

#include "base/error.h"
#include "harness/child.h"
#include "harness/cli/cli.h"
#include "harness/cli/environment.h"
#include "harness/control.h"
#include "harness/say.h"
#include "harness/wrong_call_table.h"

namespace shardproof {
namespace {

int show_table(bool markdown) {
  WrongCallOptions options;
  options.rank_command = {own_executable(), "faults", "table-rank"};
  const WrongCallTable table = run_wrong_call_table(options);
  say(markdown ? markdown_of(table) : text_of(table));
  return all_named(table) ? 0 : 1;
}

int table_rank(const WrongCallJob& job) {
  const Environment environment = read_environment();
  const auto value = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  const auto started = started_as(environment);
  ControlClient client(value("SHARDPROOF_CONTROL"), value("SHARDPROOF_CONTROL_TOKEN"),
                       started ? started->rank : 0);
  int code = 0;
  try {
    run_wrong_call_rank(job, client);
  } catch (const Error& error) {
    client.error(error.what());
    code = exit_code(error.kind());
  }
  client.done(code);
  return code;
}

}  // namespace

void add_faults_table(CLI::App& faults, int& status) {
  auto markdown = std::make_shared<bool>(false);
  CLI::App* table = faults.add_subcommand(
      "table", "What wrong calls come to on MPI processes, without the guards and with them");
  table->add_flag("--markdown", *markdown, "As the page docs/wrong_calls.md");
  table->footer(
      "Examples:\n"
      "  shardproof faults table\n"
      "  shardproof faults table --markdown > docs/wrong_calls.md\n"
      "Exit codes: 0 with the guards every rank names every mistake, 1 one does not.");
  table->callback([markdown, &status] { status = show_table(*markdown); });
  auto job = std::make_shared<WrongCallJob>();
  CLI::App* rank = faults.add_subcommand("table-rank", "A rank that faults table started");
  rank->group("");  // hidden
  rank->add_option("FIRST", job->first)->required();
  rank->add_option("LAST", job->last)->required();
  rank->add_option("ELEMENTS", job->elements)->required();
  rank->add_flag("--guarded", job->guarded);
  rank->callback([job, &status] { status = table_rank(*job); });
}

}  // namespace shardproof
