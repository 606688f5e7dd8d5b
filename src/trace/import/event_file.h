// event_file: TensorBoard event files, read and written without TensorBoard: records of Event
// messages, of which only scalars matter: a value's simple_value, or a float or double tensor of
// one element. Thread rule: pure functions of their arguments.
#pragma once

#include <cstdint>
#include <string>

#include "trace/import/scalar_log.h"
#include "trace/reader.h"

namespace shardproof {

// A file, or a folder whose files named *tfevents* are one run's, in the order of their names.
// A torn last record is legal. Error bad_input when there is no file or no loss, corrupt naming
// file and offset for anything else that is no event file.
ScalarLog read_event_files(const std::string& path, const ScalarOptions& options);

// Writes the trace's scalars: loss, grad_norm and lr as its first rank has them, tokens/rank_00000
// per rank, as float32, which TensorBoard's scalars are; all at time 0, a trace knows no time.
// What a step lacks is not written. The number of scalars. Error bad_input when the file's name
// has no "tfevents", by which alone TensorBoard knows its files; conflict when the file exists;
// io.
std::int64_t write_events(const Trace& trace, const std::string& path);

}  // namespace shardproof
