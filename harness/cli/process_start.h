// process_start: what this process was given, looked at before any library starts: UCX, which comes
// with Open MPI, takes SIGHUP for itself when it is loaded, and a file that a library opens would
// take the place of a closed stdout. Only for main: it is linked into the command alone.
#pragma once

namespace shardproof {

// First in main. SIGHUP does again what it did when the process was started: it ends the process,
// or nothing (nohup). A write beyond the size limit of files fails instead of killing.
void take_signals_back();

}  // namespace shardproof
