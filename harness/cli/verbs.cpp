// verbs: the list of verbs, in the order of --help.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/edit_distance.h"
#include "base/error.h"
#include "harness/cli/cli.h"

namespace shardproof {
namespace {

// The verbs that --help shows.
std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (!verb->get_group().empty()) names.push_back(verb->get_name());
  }
  return names;
}

const CLI::App* find_verb(const CLI::App& app, const std::string& word) {
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_name() == word) return verb;
  }
  return nullptr;
}

std::vector<std::string> near(const std::vector<std::string>& names, const std::string& word) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    const bool begins = word.size() > 1 && name.starts_with(word);
    if (begins || edit_distance(name, word) <= 2) found.push_back(name);
  }
  return found;
}

std::vector<std::string> options_of(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// `word` is --NAME or --NAME=VALUE.
void check_option(const CLI::App& verb, const std::string& path, const std::string& word) {
  const std::vector<std::string> names = options_of(verb);
  const std::string name = word.substr(0, word.find('='));
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  const std::vector<std::string> close = near(names, name);
  throw Error(ErrorKind::bad_input, path + " " + name,
              close.empty()
                  ? fmt::format("no such option; expected one of {}", fmt::join(names, ", "))
                  : fmt::format("no such option; did you mean {}?", fmt::join(close, " or ")));
}

}  // namespace

void add_verbs(CLI::App& app, int& status) {
  add_accept(app, status);
  add_layouts(app, status);
  add_train(app, status);
  add_resume(app, status);
  add_checkpoint(app, status);
  add_crash_sweep(app, status);
  add_faults(app, status);
  add_replay(app, status);
  add_trace(app, status);
  add_hang(app, status);
  add_show(app, status);
  add_bench(app, status);
  add_doctor(app, status);
  add_rank(app, status);
  add_drill(app, status);
  app.footer(
      "Examples:\n"
      "  shardproof accept                          prove the layout, resume and kill laws here\n"
      "  shardproof train --layout dp2.zero1        train the default model\n"
      "  shardproof show layout dp2.tp2             what a layout means\n"
      "  shardproof doctor                          what this machine can promise\n"
      "  shardproof VERB --help                     options and examples of a verb\n"
      "Exit codes: 0 all is well, 1 a verdict fails, 2 bad usage or input, 3 the environment "
      "lacks\n"
      "something or nothing could be decided, 130 stopped by Ctrl-C, SIGTERM or a closed "
      "terminal.");
}

void check_verbs(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  std::string path = app.get_name();
  bool verbs_end = false;  // what follows is an argument, or the value of an option
  for (const std::string& word : words) {
    if (word == "--") return;
    if (word.starts_with("--")) check_option(*at, path, word);
    const std::vector<std::string> names = names_of(*at);
    verbs_end = verbs_end || names.empty() || word.starts_with('-');
    if (verbs_end) continue;
    const CLI::App* verb = find_verb(*at, word);
    if (verb == nullptr) {
      const std::vector<std::string> close = near(names, word);
      throw Error(ErrorKind::bad_input, path + " " + word,
                  close.empty()
                      ? fmt::format("no such verb; expected one of {}", fmt::join(names, ", "))
                      : fmt::format("no such verb; did you mean {}?", fmt::join(close, " or ")));
    }
    at = verb;
    path += " " + word;
  }
}

}  // namespace shardproof
