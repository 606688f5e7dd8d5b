// say: text for the user on stdout, at once. What cannot be written stops nothing, for a run is
// worth more than its screen: stdout keeps the error, and main tells of it at the end
// (see finish_output). Thread rule: any thread.
#pragma once

#include <string>

namespace shardproof {

void say(const std::string& text);  // as it is: a line brings its newline

// At the end of main: writes what is buffered. Where stdout has failed, says so on stderr and turns
// a good exit code into that of a failed environment.
int finish_output(int exit_code);

}  // namespace shardproof
