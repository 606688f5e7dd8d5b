// damage_sweep: see the header.
#include "harness/sweep/damage_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

class Sweep {
 public:
  Sweep(SweepSubject& subject, const LoadRun& expected, const DamageChoice& choice,
        const std::function<void(const DamagePoint&)>& seen)
      : subject_(subject), expected_(expected), choice_(choice), seen_(seen) {}

  DamageSweep run() {
    subject_.keep();
    for (const auto& entry : fs::recursive_directory_iterator(subject_.root())) {
      if (entry.is_regular_file() && !entry.is_symlink()) files_.push_back(entry.path());
    }
    std::sort(files_.begin(), files_.end());
    result_.files = files_.size();
    for (const fs::path& file : files_) sweep_file(file);
    subject_.restore();
    return std::move(result_);
  }

 private:
  void sweep_file(const fs::path& file) {
    const std::uint64_t bytes = fs::file_size(file);
    const std::size_t flips =
        std::min<std::uint64_t>(bytes, std::max<std::size_t>(choice_.flips, 2));
    result_.whole = result_.whole && flips == bytes;
    for (std::size_t i = 0; i < flips; ++i) {
      const std::uint64_t at =
          flips == 1 ? 0
                     : (bytes - 1) / (flips - 1) * i + (bytes - 1) % (flips - 1) * i / (flips - 1);
      const unsigned bit = static_cast<unsigned>(i % 8);
      judge(file, fmt::format("bit {} of byte {}", bit, at), [&] { flip(file, at, bit); });
    }
    std::vector<std::uint64_t> sizes{0, bytes / 2, bytes - 1};
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    for (const std::uint64_t size : bytes == 0 ? std::vector<std::uint64_t>{} : sizes) {
      judge(file, fmt::format("cut to {} of {} bytes", size, bytes),
            [&] { fs::resize_file(file, size); });
    }
    judge(file, "missing", [&] { fs::remove(file); });
  }

  static void flip(const fs::path& path, std::uint64_t at, unsigned bit) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ (1 << bit)));
    file.close();
    if (byte < 0 || !file) {
      throw Error(ErrorKind::environment, path.string(),
                  fmt::format("byte {} cannot be changed", at));
    }
  }

  template <typename Harm>
  void judge(const fs::path& file, const std::string& what, const Harm& harm) {
    subject_.restore();
    harm();
    const LoadRun load = subject_.load();
    DamagePoint point{fs::relative(file, subject_.root()).string(), what, Damaged::refused, ""};
    if (load.timed_out) {
      point.outcome = Damaged::hung;
    } else if (load.loaded()) {
      point.outcome = load == expected_ ? Damaged::same : Damaged::silent;
    } else {
      point.detail = fmt::format("exit code {}", load.exit_code);
    }
    if (point.outcome == Damaged::silent) point.detail = "printed: " + load.printed.substr(0, 200);
    if (seen_) seen_(point);
    result_.points.push_back(std::move(point));
  }

  SweepSubject& subject_;
  const LoadRun& expected_;
  const DamageChoice& choice_;
  const std::function<void(const DamagePoint&)>& seen_;
  std::vector<fs::path> files_;
  DamageSweep result_;
};

}  // namespace

std::string_view name(Damaged damaged) {
  switch (damaged) {
    case Damaged::refused:
      return "REFUSED";
    case Damaged::same:
      return "SAME";
    case Damaged::silent:
      return "SILENT";
    case Damaged::hung:
      return "HUNG";
  }
  return "?";
}

std::size_t DamageSweep::count(Damaged outcome) const {
  return static_cast<std::size_t>(std::count_if(
      points.begin(), points.end(), [&](const auto& point) { return point.outcome == outcome; }));
}

bool DamageSweep::good() const {
  return !points.empty() && count(Damaged::silent) == 0 && count(Damaged::hung) == 0;
}

DamageSweep sweep_damage(SweepSubject& subject, const LoadRun& expected, const DamageChoice& choice,
                         const std::function<void(const DamagePoint&)>& seen) {
  return Sweep(subject, expected, choice, seen).run();
}

}  // namespace shardproof
