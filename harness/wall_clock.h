// wall_clock: the time of day as this process sees it, which a fault may move. The functions of the
// C library that tell it (clock_gettime of CLOCK_REALTIME, gettimeofday, time) are defined here, in
// front of the library's: everything in the process sees the jump, standard library, LibTorch and
// MPI as well. The kernel's clock, and so a wait until a time of day that it has been handed,
// stays: as with a real jump, such a wait ends at another moment than was meant. Thread ranks share
// a process and so a clock. Thread rule: any thread.
#pragma once

#include "base/clock.h"

namespace shardproof {

// Forward, or backward where it is negative; adds to what was before.
void move_wall_clock(Duration by);

}  // namespace shardproof
