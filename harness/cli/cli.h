// cli: the verbs of the command. Each add_ function adds one subcommand (with examples in its
// footer) whose callback sets `status`; an Error thrown by a callback is printed once by main and
// becomes its exit code. Exit codes: 0 all verdicts pass, 1 a verdict failed, 2 bad usage or input,
// 3 the environment lacks something or nothing could be decided, 130 stopped by Ctrl-C, SIGTERM or
// a closed terminal (SIGHUP).
#pragma once

#include <CLI/CLI.hpp>

namespace shardproof {

void add_verbs(CLI::App& app, int& status);  // all of them, in the order of --help
// The leading words must be verbs, so that `foo --help` is no success, and what begins with -- an
// option of the verb: Error bad_input, with those that are near.
void check_verbs(const CLI::App& app, const std::vector<std::string>& words);
void add_accept(CLI::App& app, int& status);
void add_layouts(CLI::App& app, int& status);
void add_train(CLI::App& app, int& status);
void add_resume(CLI::App& app, int& status);
void add_weights(CLI::App& checkpoint, int& status);  // checkpoint export, import
void add_prune(CLI::App& checkpoint, int& status);    // checkpoint prune
void add_checkpoint(CLI::App& app, int& status);
void add_crash_sweep(CLI::App& app, int& status);
void add_faults(CLI::App& app, int& status);
void add_faults_table(CLI::App& faults, int& status);  // faults table
// A scenario, by a Run line with its faults or a script; says its verdict. The exit code.
int run_faults(const std::string& run, bool json);
void add_replay(CLI::App& app, int& status);
void add_trace(CLI::App& app, int& status);
void add_trace_import(CLI::App& trace, int& status);  // trace import, export, scalars
void add_hang(CLI::App& app, int& status);
void add_show(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);
void add_doctor(CLI::App& app, int& status);
void add_rank(CLI::App& app, int& status);   // hidden: a rank that the launcher started
void add_drill(CLI::App& app, int& status);  // hidden: the other process of a drill

}  // namespace shardproof
