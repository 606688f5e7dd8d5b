// Tables and series from traces.
#include "harness/accept_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "invariants/compare.h"
#include "invariants/tensor_grid.h"
#include "mesh/layout.h"

namespace shardproof {
namespace {

const StepRecord* first_record(const Trace& trace, std::int64_t step) {
  return trace.ranks.empty() ? nullptr : trace.ranks.front().find_step(step);
}

std::string number(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_number_integer()
             ? std::to_string(object[key].get<std::int64_t>())
             : "-";
}

// The last memory event of a rank; null when it wrote none.
Json last_memory(const RankTrace& rank) {
  for (auto event = rank.others.rbegin(); event != rank.others.rend(); ++event) {
    if (event->value("kind", "") == "memory") return *event;
  }
  return nullptr;
}

// Bytes that the last step moved for what is offloaded.
std::string moved(const Json& event, const char* key) {
  if (!event.is_object() || !event.contains("offload")) return "-";
  std::int64_t sum = 0;
  for (const char* what : {"optimizer", "parameters"}) {
    sum += event["offload"].value(what, Json::object()).value(key, std::int64_t{0});
  }
  return std::to_string(sum);
}

bool same_state(const Trace& a, const Trace& b, std::int64_t step) {
  std::int64_t compared = 0;
  for (const char* what : {"param", "moment"}) {
    const TensorComparison tensors = compare_tensors(a, b, step, what);
    if (tensors.first || !tensors.incomparable.empty()) return false;
    compared += tensors.compared;
  }
  return compared > 0;
}

const char* same(bool equal) {
  return equal ? "same bits" : "DIFFERS";
}

}  // namespace

ReportSection loss_table(const std::string& corpus, const Trace& trace) {
  ReportSection out{
      corpus + ": steps", {"step", "loss", "loss bits", "grad_norm", "lr", "tokens"}, {}, ""};
  for (const std::int64_t step : trace.step_numbers()) {
    const StepRecord* record = first_record(trace, step);
    if (record == nullptr) continue;
    std::int64_t tokens = 0;
    for (const RankTrace& rank : trace.ranks) {
      if (const StepRecord* mine = rank.find_step(step)) tokens += mine->tokens;
    }
    out.rows.push_back({std::to_string(step), fmt::format("{:.6f}", record->loss),
                        scalar_bits(record->loss), fmt::format("{:.6f}", record->grad_norm),
                        fmt::format("{:.6g}", record->lr), std::to_string(tokens)});
  }
  return out;
}

ReportSection memory_table(const std::string& corpus, const Trace& trace) {
  ReportSection out{corpus + ": memory of each rank in bytes",
                    {"rank", "parameters", "gathered", "gradients", "optimizer",
                     "exact share 12P/R", "above it", "activations (peak)", "communication"},
                    {},
                    "Live buffers at the end of the last step; activations at their peak."};
  const bool offloads = std::ranges::any_of(trace.ranks, [](const RankTrace& rank) {
    const Json event = last_memory(rank);
    return event.is_object() && event.contains("offload");
  });
  if (offloads) {
    out.columns.insert(out.columns.end(), {"optimizer offloaded", "its peak on the device",
                                           "parameters offloaded", "in a step", "out a step"});
    out.note +=
        " Optimizer is what of it is on the device; above it counts what is offloaded, too.";
  }
  for (const RankTrace& rank : trace.ranks) {
    const Json event = last_memory(rank);
    const Json bytes = event.is_object() ? event.value("bytes", Json::object()) : Json::object();
    const Json peak = event.is_object() ? event.value("peak", Json::object()) : Json::object();
    std::string above = "-";
    if (bytes.contains("optimizer") && bytes.contains("optimizer_exact")) {
      above = fmt::format("{:+}", bytes["optimizer"].get<std::int64_t>() +
                                      bytes.value("optimizer_offloaded", std::int64_t{0}) -
                                      bytes["optimizer_exact"].get<std::int64_t>());
    }
    out.rows.push_back({std::to_string(rank.rank), number(bytes, "parameters"),
                        number(bytes, "gathered"), number(bytes, "gradients"),
                        number(bytes, "optimizer"), number(bytes, "optimizer_exact"), above,
                        number(peak, "activations"), number(bytes, "communication")});
    if (!offloads) continue;
    auto& row = out.rows.back();
    row.insert(row.end(), {number(bytes, "optimizer_offloaded"), number(peak, "optimizer"),
                           number(bytes, "parameters_offloaded"), moved(event, "bytes_in"),
                           moved(event, "bytes_out")});
  }
  return out;
}

ReportSection manifest_table(const std::string& corpus, const Manifest& manifest) {
  ReportSection out{
      fmt::format("{}: manifest of {}", corpus, manifest.id),
      {"file", "bytes", "entries", "digest"},
      {},
      fmt::format("next step {}, layout {}, {} entries, state digest {}", manifest.facts.step,
                  manifest.facts.layout, manifest.entries.size(), manifest.state_digest().hex())};
  for (const ShardFileRef& file : manifest.files) {
    const auto entries =
        std::count_if(manifest.entries.begin(), manifest.entries.end(),
                      [&](const ManifestEntry& entry) { return entry.file == file.file; });
    // The folder's name holds a nonce; the file's own name does not.
    out.rows.push_back({file.file.substr(file.file.rfind('/') + 1), std::to_string(file.bytes),
                        std::to_string(entries), file.digest.hex()});
  }
  return out;
}

ReportSection resume_table(const std::string& title, const Trace& uncut, const Trace& resumed,
                           std::int64_t from) {
  ReportSection out{title,
                    {"step", "loss uncut", "loss resumed", "loss", "grad_norm", "lr", "samples",
                     "parameters, moments"},
                    {},
                    ""};
  for (const std::int64_t step : uncut.step_numbers()) {
    if (step < from) continue;
    const StepRecord* a = first_record(uncut, step);
    const StepRecord* b = first_record(resumed, step);
    if (a == nullptr || b == nullptr) {
      out.rows.push_back({std::to_string(step), a ? fmt::format("{:.6f}", a->loss) : "-",
                          b ? fmt::format("{:.6f}", b->loss) : "-", "-", "-", "-", "-", "-"});
      continue;
    }
    const auto bits = [](double x, double y) { return same(scalar_bits(x) == scalar_bits(y)); };
    out.rows.push_back({std::to_string(step), fmt::format("{:.6f}", a->loss),
                        fmt::format("{:.6f}", b->loss), bits(a->loss, b->loss),
                        bits(a->grad_norm, b->grad_norm), bits(a->lr, b->lr),
                        same(world_samples(uncut, step) == world_samples(resumed, step)),
                        same(same_state(uncut, resumed, step))});
  }
  return out;
}

ReportSection digest_table(const std::string& corpus, const std::vector<LegResult>& legs) {
  ReportSection out{corpus + ": trajectories",
                    {"leg", "layout", "backend", "steps", "trajectory digest"},
                    {},
                    "SHA-256 over all step records and state digests; legs that did the same steps "
                    "have the same digest: under canonical reduction on any layout, under native "
                    "on the same layout and backend."};
  for (const LegResult& leg : legs) {
    if (!leg.leg.weights_of.empty()) continue;  // no run
    const std::vector<std::int64_t> steps = leg.trace.step_numbers();
    out.rows.push_back(
        {leg.leg.name, leg.leg.config.run.layout, leg.leg.config.run.backend,
         steps.empty() ? "none" : fmt::format("{} to {}", steps.front(), steps.back()),
         leg.error ? std::string("ended by ") + std::string(name(leg.error->kind()))
                   : trajectory_digest(leg.trace)});
  }
  return out;
}

ReportSection time_table(const std::string& corpus, const std::vector<LegResult>& legs) {
  ReportSection out{corpus + ": seconds", {"leg", "whole leg"}, {}, "By part: rank 0, all steps."};
  for (int i = 0; i < part_count; ++i) {
    out.columns.push_back(std::string(name(static_cast<Part>(i))));
  }
  const bool offloads =
      std::ranges::any_of(legs, [](const LegResult& leg) { return leg.offload_seconds > 0; });
  if (offloads) out.columns.push_back("of these, offload");
  for (const LegResult& leg : legs) {
    std::vector<std::string> row{leg.leg.name, fmt::format("{:.2f}", leg.seconds)};
    for (const double seconds : leg.parts) row.push_back(fmt::format("{:.3f}", seconds));
    if (offloads) row.push_back(fmt::format("{:.3f}", leg.offload_seconds));
    out.rows.push_back(row);
  }
  return out;
}

std::vector<ReportSeries> loss_series(const std::string& corpus,
                                      const std::vector<LegResult>& legs) {
  std::vector<ReportSeries> out;
  for (const bool norm : {false, true}) {
    for (const LegResult& leg : legs) {
      const std::vector<std::int64_t> steps = leg.trace.step_numbers();
      if (steps.empty() || !leg.leg.weights_of.empty()) continue;
      ReportSeries series{corpus + (norm ? ": gradient norm" : ": loss"),
                          leg.leg.name,
                          {},
                          static_cast<int>(steps.front())};
      for (const std::int64_t step : steps) {
        const StepRecord* record = first_record(leg.trace, step);
        if (record != nullptr) series.values.push_back(norm ? record->grad_norm : record->loss);
      }
      out.push_back(series);
    }
  }
  return out;
}

std::string text_table(const ReportSection& section) {
  std::vector<std::size_t> widths;
  for (const std::string& column : section.columns) widths.push_back(column.size());
  for (const std::vector<std::string>& row : section.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out = " ";
    for (std::size_t i = 0; i < cells.size(); ++i)
      out += fmt::format(" {:>{}} ", cells[i], widths[i]);
    return out + "\n";
  };
  std::string out = section.title + "\n";
  if (!section.note.empty()) out += "  " + section.note + "\n";
  out += line(section.columns);
  for (const std::vector<std::string>& row : section.rows) out += line(row);
  return out;
}

}  // namespace shardproof
