// layout_table: rows from options, text from proofs.
#include "harness/layout_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "parallel/legality.h"
#include "train/sections.h"

namespace shardproof {
namespace {

Config case_of(CaseKind kind, const LayoutOptions& options) {
  Config config = case_config(kind);
  const RunSection rows = config.run;
  const int steps = config.training.steps;
  for (const std::string& assignment : options.set) set_key(config, assignment);
  if (!(config.run == rows) || !(config.checkpoint == CheckpointSection{}) ||
      config.training.steps != steps) {
    throw Error(ErrorKind::bad_input, fmt::format("--set {}", fmt::join(options.set, " ")),
                "run, checkpoint and training.steps are set for every row; expected keys of the "
                "Case or of parallel, and --steps, --backend or layouts as arguments");
  }
  config.training.steps = options.steps;
  return config;
}

std::string refusal(const Config& config) {
  try {
    check(config);
    return "";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input) throw;
    return error.what();
  }
}

class Planner {
 public:
  explicit Planner(const LayoutOptions& options) : options_(options) {}

  LayoutPlan plan() {
    for (const CaseKind kind : case_kinds) {
      // What is wrong with a Case itself is no matter of its layouts.
      Config config = case_of(kind, options_);
      if (wanted(kind)) check(config);
    }
    if (!options_.layouts.empty()) {
      for (const std::string& layout : options_.layouts) add_typed(parse_layout(layout).print());
    } else if (options_.all) {
      for (const CaseKind kind : case_kinds) {
        if (wanted(kind)) add_all(kind);
      }
    } else {
      for (const LayoutRow& row : layout_list()) add_listed(row);
    }
    if (plan_.rows.empty()) {
      throw Error(ErrorKind::bad_input, "layouts",
                  plan_.left_out.empty() ? "no row to run; expected fewer restrictions"
                                         : "no row is legal: " + plan_.left_out.front());
    }
    return std::move(plan_);
  }

 private:
  bool wanted(CaseKind kind) const { return !options_.kind || *options_.kind == kind; }

  void add(CaseKind kind, const Config& config, const std::string& backend,
           const std::string& shown) {
    plan_.rows.push_back({kind, config, shown});
    plan_.rows.back().config.run.backend = backend;
  }

  void add_on(CaseKind kind, const Config& config, const std::string& shown) {
    if (options_.backend != "mpi") add(kind, config, "threads", shown);
    if (options_.backend == "mpi" || options_.backend == "both") add(kind, config, "mpi", shown);
  }

  void add_typed(const std::string& layout) {
    std::string first;
    for (const CaseKind kind : case_kinds) {
      if (!wanted(kind)) continue;
      Config config = case_of(kind, options_);
      config.run.layout = layout;
      const std::string text = refusal(config);
      if (text.empty()) return add_on(kind, config, layout);
      if (first.empty()) first = text;
    }
    throw Error(ErrorKind::bad_input, "layout " + layout, first);
  }

  void add_all(CaseKind kind) {
    Config config = case_of(kind, options_);
    for (const Layout& layout :
         legal_layouts(shape_of(config), config.micro_batches(), options_.max_ranks)) {
      config.run.layout = layout.print();
      if (refusal(config).empty()) add_on(kind, config, layout.print());
    }
  }

  void add_listed(const LayoutRow& row) {
    if (!wanted(row.kind) || (options_.lengthy && !row.lengthy)) return;
    Config config = case_of(row.kind, options_);
    config.run.layout = row.layout;
    std::string shown = row.layout;
    for (const std::string& key : row.set) {
      set_key(config, key);
      shown += " " + key.substr(key.find('.') + 1);
    }
    if (parse_layout(row.layout).world() > options_.max_ranks) return;
    if (const std::string text = refusal(config); !text.empty()) {
      plan_.left_out.push_back(text);
      return;
    }
    if (options_.backend != "mpi") add(row.kind, config, "threads", shown);
    if (options_.backend != "threads" && row.mpi) add(row.kind, config, "mpi", shown);
  }

  const LayoutOptions& options_;
  LayoutPlan plan_;
};

std::string bytes_text(const LayoutProof& proof) {
  return proof.bytes_sent ? fmt::format("{:.0f}", *proof.bytes_sent) : "-";
}

constexpr const char* columns = "{:<8} {:<44} {:>5}  {:<8} {:>5}  {:<16} {:<12} {:>12} {:>8}";

}  // namespace

LayoutPlan plan_layouts(const LayoutOptions& options) {
  return Planner(options).plan();
}

std::string layout_header() {
  return fmt::format(columns, "case", "layout", "ranks", "backend", "steps", "judged by", "verdict",
                     "bytes sent", "seconds");
}

std::string layout_line(const PlannedLayout& row, const LayoutProof& proof) {
  return fmt::format(columns, name(row.kind), row.shown, proof.ranks, proof.config.run.backend,
                     proof.config.training.steps, rule_of(proof.config),
                     name(proof.verdict.outcome), bytes_text(proof),
                     fmt::format("{:.2f}", proof.seconds));
}

Json layout_json(const PlannedLayout& row, const LayoutProof& proof) {
  return Json{{"case", name(row.kind)},
              {"layout", proof.config.run.layout},
              {"run", run_line(proof.config)},
              {"ranks", proof.ranks},
              {"backend", proof.config.run.backend},
              {"steps", proof.config.training.steps},
              {"rule", rule_of(proof.config)},
              {"bytes_sent", proof.bytes_sent ? Json(*proof.bytes_sent) : Json(nullptr)},
              {"seconds", proof.seconds},
              {"verdict", proof.verdict.to_json()}};
}

std::string layout_markdown(const std::vector<PlannedLayout>& rows,
                            const std::vector<LayoutProof>& proofs) {
  std::string out =
      "# Layouts\n\nWritten by `shardproof layouts --markdown FILE`. Judged by *bits of one rank*: "
      "loss, gradient norm, gradients,\nparameters and moments of every step against one rank, bit "
      "for bit. By *native layout* (`reduction=native`): the run twice,\nbit for bit, and its "
      "gradients at up to four steps against float64 on one rank from the same weights, by the\n"
      "declared error model. Bytes are those of the rank that sends most, a step.\n";
  for (const CaseKind kind : case_kinds) {
    bool begun = false;
    for (std::size_t i = 0; i < proofs.size(); ++i) {
      if (rows[i].kind != kind) continue;
      if (!begun) {
        out += fmt::format(
            "\n## {}\n\n`{}`\n\n| layout | ranks | backend | steps | judged by | "
            "verdict | bytes sent |\n|---|---:|---|---:|---|---|---:|\n",
            name(kind), case_line(proofs[i].config));
        begun = true;
      }
      out += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", rows[i].shown, proofs[i].ranks,
                         proofs[i].config.run.backend, proofs[i].config.training.steps,
                         rule_of(proofs[i].config), name(proofs[i].verdict.outcome),
                         bytes_text(proofs[i]));
    }
  }
  return out;
}

}  // namespace shardproof
