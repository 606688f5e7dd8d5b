// c99_program: uses all of shardproof_trace.h from C99, for c_emitter_test.
#include "trace/emit/shardproof_trace.h"

#include <math.h>

int main(void) {
  static const char* const phases[] = {"forward", "backward", "reduced", "clipped", "optimizer"};
  const float whole[2] = {1, -2};
  const double part[3] = {3, 4, 5};
  const int64_t two[1] = {2}, shape[2] = {1, 3}, offsets[2] = {1, 0}, global[2] = {2, 3};
  const int64_t none[2] = {0, 3}, samples[2] = {7, 3};
  const shardproof_tensor tensors[3] = {
      {"bias", "F32", whole, 1, two, NULL, NULL},
      {"odd \"name\"", "F64", part, 2, shape, offsets, global},
      {"elsewhere", "F64", NULL, 2, none, offsets, global},
  };
  shardproof_trace trace;
  int phase, failed = shardproof_trace_open(&trace, -1, -1);
  failed |= shardproof_trace_run(&trace, "\"data\":{\"size\":8}");
  failed |= shardproof_trace_tensors(&trace, -1, "param", tensors, 3);
  for (phase = 0; phase < 5; ++phase) failed |= shardproof_trace_at(&trace, 0, phases[phase]);
  failed |= shardproof_trace_tensors(&trace, 0, "grad", tensors, 3);
  failed |= shardproof_trace_step(&trace, 0, 0.1, NAN, 1e-3, 5, samples, 2);
  failed |= shardproof_trace_at(&trace, 0, "save");
  failed |= shardproof_trace_checkpoint(&trace, 1, "a\\b\t", 0);
  failed |= shardproof_trace_checkpoint(&trace, 1, "a\\b\t", 1);
  failed |= shardproof_trace_end(&trace, 1);
  return failed ? 1 : 0;
}
