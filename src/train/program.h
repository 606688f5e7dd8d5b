// program: which program and which kernels are in force: facts that a trace and a checkpoint carry.
// Also the one switch of numerics: portable (the same bits on every x86-64 machine) or fast.
// Thread rule: any thread; the numerics of a process are set once.
#pragma once

#include <string>

#include "base/json.h"

namespace shardproof {

struct Program {
  std::string code;  // SHA-256 over the executable, our libraries and whatever is preloaded
  Json versions = Json::object();
  std::string kernels;  // CPU capability, kernel switches and library versions, one line
};

// Numerics are a property of the process. The first call decides; a later call that asks for the
// other kind is Error refused, because kernels of the first have run. Portable must come before the
// first tensor operation (checked: Error refused when the kernels were chosen already).
void use_numerics(bool portable);

// After use_numerics. Computed once per process.
const Program& program();

// Rate of a small fp32 product on this thread, flop/s: the peak that utilisation is measured
// against. Takes about 0.05 s; when all ranks measure at once, their sum is the peak of the machine
// as they share it.
double measure_peak_flops();

}  // namespace shardproof
