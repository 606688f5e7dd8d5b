// damage_sweep: the finished checkpoint is damaged in one place at a time and loaded by a fresh
// process: every bit flipped in turn (or a sample of them), every file cut short, or taken away.
// The loader must refuse it or print the same as without the damage; one that goes on with
// something else is SILENT. Thread rule: one thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/sweep/crash_sweep.h"

namespace shardproof {

enum class Damaged { refused, same, silent, hung };
std::string_view name(Damaged damaged);  // "REFUSED", "SAME", "SILENT", "HUNG"

struct DamagePoint {
  std::string file;  // within the root
  std::string what;  // "bit 3 of byte 17", "cut to 100 of 200 bytes", "missing"
  Damaged outcome = Damaged::refused;
  std::string detail;
};

struct DamageSweep {
  std::vector<DamagePoint> points;
  std::size_t files = 0;
  bool whole = true;  // every byte of every file was flipped; else a sample

  std::size_t count(Damaged outcome) const;
  bool good() const;  // none SILENT or HUNG, and there is a point
};

struct DamageChoice {
  // Flips a file: one bit of each byte where it has no more bytes, else so many bytes evenly over
  // it, first and last included.
  std::size_t flips = 32;
};

// The root holds both uncut saves (`expected` is what is loaded then), and holds them again after.
DamageSweep sweep_damage(SweepSubject& subject, const LoadRun& expected, const DamageChoice& choice,
                         const std::function<void(const DamagePoint&)>& seen = {});

}  // namespace shardproof
