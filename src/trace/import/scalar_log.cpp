// scalar_log: see scalar_log.h.
#include "trace/import/scalar_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace shardproof {
namespace {

constexpr std::size_t names_shown = 20;

// Of our own export, Megatron-LM, the Hugging Face trainer, Lightning and torchtitan.
std::array<std::vector<std::string>, scalar_keys.size()> tags_of(const ScalarOptions& options) {
  const auto given = [](const std::vector<std::string>& tags, std::vector<std::string> defaults) {
    return tags.empty() ? std::move(defaults) : tags;
  };
  return {given(options.loss_tags,
                {"loss", "lm loss", "train/loss", "train_loss", "loss_metrics/global_avg_loss"}),
          given(options.grad_norm_tags, {"grad_norm", "grad-norm", "train/grad_norm"}),
          given(options.lr_tags, {"lr", "learning-rate", "learning_rate", "train/learning_rate"})};
}

bool same_value(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

std::string digits_text(int digits) {
  if (digits == float32_digits) return "float32";
  if (digits == float64_digits) return "float64";
  return fmt::format("{} decimals", digits);
}

}  // namespace

ScalarCollector::ScalarCollector(const ScalarOptions& options, std::string between)
    : tags_(tags_of(options)), between_(std::move(between)) {
  for (const std::vector<std::string>& tags : tags_) {
    for (const std::string& tag : tags) series_.try_emplace(tag);
  }
}

void ScalarCollector::open(const std::string& path) {
  files_.push_back(path);
}

bool ScalarCollector::wants(std::string_view tag) {
  if (seen_.size() < names_shown && !seen_.contains(tag)) seen_.emplace(tag);
  return series_.contains(tag);
}

std::string ScalarCollector::place(std::size_t file, std::uint64_t at) const {
  return fmt::format("{}{}{}", files_[file], between_, at);
}

std::string ScalarCollector::place(std::uint64_t at) const {
  return place(files_.size() - 1, at);
}

void ScalarCollector::add(std::string_view tag, std::int64_t step, double value, int digits,
                          std::uint64_t at) {
  Series& series = series_.find(tag)->second;
  const std::size_t file = files_.size() - 1;
  const auto [held, fresh] = series.values.try_emplace(step, Value{value, file, at});
  if (fresh) {
    const bool first = series.values.size() == 1;
    series.fewest = first ? digits : std::min(series.fewest, digits);
    series.most = first ? digits : std::max(series.most, digits);
    return;
  }
  ++series.again;
  if (same_value(held->second.value, value)) return;
  throw Error(
      ErrorKind::corrupt, place(file, at),
      fmt::format("{} of step {} is {}, but {} at {}: ranks that disagree, or more than one "
                  "run; expected the scalars of one run",
                  tag, step, value, held->second.value, place(held->second.file, held->second.at)));
}

const std::string* ScalarCollector::chosen(const std::vector<std::string>& tags) const {
  for (const std::string& tag : tags) {
    if (!series_.find(tag)->second.values.empty()) return &tag;
  }
  return nullptr;
}

std::string ScalarCollector::found_text() const {
  if (seen_.empty()) return "no scalar at all";
  return fmt::format("{}{}", fmt::join(seen_, ", "), seen_.size() < names_shown ? "" : ", ...");
}

ScalarLog ScalarCollector::finish() const {
  ScalarLog log;
  std::map<std::int64_t, ScalarLog::Step> steps;
  for (std::size_t key = 0; key < scalar_keys.size(); ++key) {
    const std::string* tag = chosen(tags_[key]);
    if (tag == nullptr) continue;
    const Series& series = series_.find(*tag)->second;
    for (const auto& [step, held] : series.values) {
      steps[step].step = step;
      steps[step].values[key] = held.value;
    }
    log.tags[key] = *tag;
    log.digits[key] = digits_text(series.most);
    if (series.fewest != series.most) {
      log.digits[key] = digits_text(series.fewest) + " to " + log.digits[key];
    }
    if (series.again > 0) {
      log.notes.push_back(
          fmt::format("{} values of {} were there before, and are the same", series.again, *tag));
    }
  }
  if (log.tags[0].empty()) {
    throw Error(ErrorKind::bad_input, fmt::format("{}", fmt::join(files_, ", ")),
                fmt::format("no loss: expected one of the tags {}; found {}",
                            fmt::join(tags_[0], ", "), found_text()));
  }
  for (const auto& [number, step] : steps) log.steps.push_back(step);
  return log;
}

}  // namespace shardproof
