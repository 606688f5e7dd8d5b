// show: the verbs that explain: what collectives do, who owns which rank group, when each pipeline
// stage does what, which samples each rank takes. They train nothing and write nothing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "data/loader.h"
#include "harness/cli/cli.h"
#include "harness/cli/option_values.h"
#include "harness/cli/show_collectives.h"
#include "harness/cli/show_schedule.h"
#include "mesh/layout.h"
#include "parallel/legality.h"
#include "train/config.h"
#include "train/sections.h"

namespace shardproof {
namespace {

constexpr int most_ranks_shown = 65536;

struct ShowOptions {
  bool json = false;
  int ranks = 4;
  int micro_batches = 8;
  std::string layout;
  std::string config_file;
  std::vector<std::string> set;
  int steps = 3;
};

void print(const Json& json) {
  fmt::print("{}\n", json.dump(2));
}

void show_collectives(const ShowOptions& options) {
  const auto operations = run_collectives(options.ranks);
  Json report = Json::array();
  for (const ShownOperation& operation : operations) {
    Json ranks = Json::array();
    std::size_t width = 6;
    for (const ShownRank& rank : operation.ranks) {
      ranks.push_back(
          {{"before", rank.before}, {"after", rank.after}, {"bytes_sent", rank.bytes_sent}});
      width = std::max(width, fmt::format("{}", fmt::join(rank.before, " ")).size());
    }
    report.push_back(
        {{"operation", operation.name}, {"meaning", operation.sentence}, {"ranks", ranks}});
    if (options.json) continue;
    fmt::print("{}: {}\n  rank  {:<{}}  bytes sent  after\n", operation.name, operation.sentence,
               "before", width);
    for (std::size_t rank = 0; rank < operation.ranks.size(); ++rank) {
      const ShownRank& shown = operation.ranks[rank];
      fmt::print("  {:<4}  {:<{}}  {:>10}  {}\n", rank,
                 fmt::format("{}", fmt::join(shown.before, " ")), width, shown.bytes_sent,
                 fmt::join(shown.after, " "));
    }
    fmt::print("\n");
  }
  if (options.json) print(report);
}

// The config, of which nothing was checked, and where its keys came from.
struct Typed {
  Config config;
  Origins origins;
};

Typed read_unchecked(const ShowOptions& options) {
  Typed out;
  if (!options.config_file.empty()) out.config = load_config(options.config_file, &out.origins);
  for (const std::string& assignment : options.set) {
    set_key(out.config, assignment, &out.origins);
  }
  return out;
}

// Why the config cannot be trained on a layout, whatever its own one is; empty when it can.
std::string refusal_of(const Layout& layout, Typed typed) {
  Config& config = typed.config;
  config.run.layout = layout.print();
  const std::string text =
      problem(layout, shape_of(config), config.micro_batches(), 0, config.parallel.stage_layers);
  if (!text.empty()) return text;
  try {
    check(config, typed.origins);
    return "";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input) throw;
    return error.what();
  }
}

void show_layout(const ShowOptions& options) {
  const Layout layout = parse_layout(options.layout);
  if (layout.world() > most_ranks_shown) {
    throw Error(
        ErrorKind::bad_input, fmt::format("layout {}", layout.print()),
        fmt::format("has {} ranks; expected at most {} to show", layout.world(), most_ranks_shown));
  }
  const std::string refusal = refusal_of(layout, read_unchecked(options));
  if (!options.json) {
    fmt::print("{}", print_groups(layout));
    fmt::print("can be trained: {}\n", refusal.empty() ? "yes" : "no: " + refusal);
    return;
  }
  Json axes = Json::object();
  for (int i = 0; i < axis_count; ++i) {
    const auto axis = static_cast<Axis>(i);
    axes[std::string(short_name(axis))] = {{"degree", layout.degree(axis)},
                                           {"groups", groups(layout, axis)}};
  }
  print({{"layout", layout.print()},
         {"world", layout.world()},
         {"axes", axes},
         {"can_be_trained", refusal.empty()},
         {"refusal", refusal}});
}

Config read_config(const ShowOptions& options) {
  auto [config, origins] = read_unchecked(options);
  if (!options.layout.empty()) set_key(config, "run.layout=" + options.layout, &origins);
  check(config, origins);
  return config;
}

struct DataRank {
  std::vector<int> micro_batches;
  std::unique_ptr<Loader> loader;
};

// One step of one rank; also a row of the table.
Json take(DataRank& rank, std::size_t data_rank) {
  std::vector<std::int64_t> ids;
  std::int64_t valid = 0;
  for (const MicroBatch& batch : rank.loader->next()) {
    ids.insert(ids.end(), batch.sample_ids.begin(), batch.sample_ids.end());
    valid += batch.valid_tokens();
  }
  return {{"data_rank", data_rank},
          {"micro_batches", rank.micro_batches},
          {"samples", ids},
          {"valid_tokens", valid}};
}

void print_step(const Json& step) {
  for (const Json& rank : step["ranks"]) {
    const auto micro_batches = rank["micro_batches"].get<std::vector<int>>();
    const auto samples = rank["samples"].get<std::vector<std::int64_t>>();
    fmt::print("{:>4}  {:>5}  {:>4}  {:<13}  {:>12}  {}\n", step["step"].get<int>(),
               step["epoch"].get<std::int64_t>(), rank["data_rank"].get<int>(),
               fmt::format("{}", fmt::join(micro_batches, " ")),
               rank["valid_tokens"].get<std::int64_t>(), fmt::join(samples, " "));
  }
  fmt::print("      ledger {}\n", step["ledger"].get<std::string>());
  for (const Json& source : step.value("sources", Json::array())) {
    fmt::print("      {}: epoch {}, {} taken\n", source["name"].get<std::string>(),
               source["epoch"].get<std::int64_t>(), source["taken"].get<std::int64_t>());
  }
}

// A line a source: which ids are its own, and where it stands.
void print_sources(const std::vector<Source>& sources) {
  for (const Source& source : sources) {
    fmt::print("source {}: weight {}, {} samples from id {}, digest {}\n", source.name,
               source.weight, source.size, source.first, source.digest.hex());
  }
}

Json source_cursors(const DataCursor& cursor) {
  Json list = Json::array();
  for (const SourceCursor& source : cursor.sources) {
    list.push_back({{"name", source.name}, {"epoch", source.epoch}, {"taken", source.taken}});
  }
  return list;
}

void show_data(const ShowOptions& options) {
  const Config config = read_config(options);
  const Layout layout = parse_layout(config.run.layout);
  const std::shared_ptr<const Dataset> data =
      open_dataset(dataset_of(config), config.model.sequence, config.model.vocabulary,
                   static_cast<std::uint64_t>(config.training.seed));
  std::vector<DataRank> ranks;
  for (int rank = 0; rank < layout.dp; ++rank) {
    const auto mine = owned_micro_batches(layout, config.micro_batches(), rank);
    ranks.push_back({mine, std::make_unique<Loader>(data, loader_of(config), mine)});
  }
  if (!options.json) {
    const bool mixed = !data->sources().empty();
    fmt::print("{}: {} samples {} of {} tokens, digest {}\n",
               mixed ? fmt::format("mixture of {}", data->sources().size()) : config.data.kind,
               data->size(), mixed ? "in all" : "an epoch", config.model.sequence,
               data->digest().hex());
    print_sources(data->sources());
    fmt::print("{}: {} micro-batches of {} rows a step; the last batch of an epoch: {}\n",
               layout.print(), config.micro_batches(), config.training.micro_batch,
               config.data.last);
    fmt::print("step  epoch  rank  micro-batches  valid tokens  samples (-1: a filled row)\n");
  }
  Json steps = Json::array();
  for (int step = 0; step < options.steps; ++step) {
    Json taken = Json::array();
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      taken.push_back(take(ranks[rank], rank));
    const DataCursor cursor = ranks.front().loader->cursor();
    steps.push_back({{"step", step},
                     {"epoch", cursor.epoch},
                     {"ranks", taken},
                     {"ledger", cursor.ledger.hex()}});
    if (!cursor.sources.empty()) steps.back()["sources"] = source_cursors(cursor);
    if (!options.json) print_step(steps.back());
  }
  if (!options.json) return;
  print({{"dataset",
          {{"kind", config.data.kind},
           {"samples", data->size()},
           {"digest", data->digest().hex()},
           {"tokenizer", data->tokenizer()}}},
         {"layout", layout.print()},
         {"steps", steps}});
}

CLI::App* add_verb(CLI::App& group, const char* name, const char* description, ShowOptions& options,
                   const std::string& examples) {
  CLI::App* verb = group.add_subcommand(name, description);
  verb->add_flag("--json", options.json, "Print JSON for programs");
  verb->footer("Examples:\n" + examples);
  return verb;
}

void add_config(CLI::App& verb, ShowOptions& options) {
  verb.add_option("CONFIG", options.config_file, "TOML or JSON (default: the default Case)");
  verb.add_option("--set", options.set, "Set any key of the config: training.steps=10")
      ->type_name("KEY=VALUE");
}

}  // namespace

void add_show(CLI::App& app, int& status) {
  CLI::App* group = app.add_subcommand(
      "show", "Explain: collectives, layouts, pipeline schedules, who takes which samples");
  group->require_subcommand(1);
  group->footer(
      "Examples:\n"
      "  shardproof show collectives\n"
      "  shardproof show layout dp2.tp2.pp2\n"
      "  shardproof show schedule --layout pp4-zb\n"
      "  shardproof show data --layout dp3.zero1 --steps 2");
  const auto options = std::make_shared<ShowOptions>();

  CLI::App* verb = add_verb(*group, "collectives",
                            "What each rank holds before and after each operation", *options,
                            "  shardproof show collectives\n"
                            "  shardproof show collectives --ranks 3 --json");
  verb->add_option("--ranks", options->ranks, "Thread ranks (default 4)")
      ->check(integer_range(1, 16));
  verb->callback([options, &status] {
    show_collectives(*options);
    status = 0;
  });

  verb = add_verb(*group, "layout", "The rank groups of every axis of a layout", *options,
                  "  shardproof show layout dp2.tp2.pp2\n"
                  "  shardproof show layout dp=4,zero=1 --json\n"
                  "  shardproof show layout tp4 run.toml --set numerics.tensor_pieces=4");
  verb->add_option("LAYOUT", options->layout, "such as dp2.tp2.zero1 or dp=2,tp=2")->required();
  add_config(*verb, *options);
  verb->callback([options, &status] {
    show_layout(*options);
    status = 0;
  });

  verb = add_verb(*group, "schedule", "When each stage of a pipeline does what, and its bubble",
                  *options,
                  "  shardproof show schedule --layout pp4-zb --micro-batches 8\n"
                  "  shardproof show schedule --layout pp2-int2 --json");
  verb->add_option("--layout", options->layout, "with ppD-gpipe, -1f1b, -intV or -zb")->required();
  verb->add_option("--micro-batches", options->micro_batches, "Of one data rank (default 8)")
      ->check(CLI::Range(1, 1000000));
  verb->callback([options, &status] {
    const ShownSchedule shown =
        show_schedule(parse_layout(options->layout), options->micro_batches);
    if (options->json) {
      print(shown.json);
    } else {
      fmt::print("{}", shown.text);
    }
    status = 0;
  });

  verb = add_verb(*group, "data", "The sample ids that each rank takes, step by step", *options,
                  "  shardproof show data\n"
                  "  shardproof show data run.toml --steps 5\n"
                  "  shardproof show data --set data.samples=24 --set data.last=short --json");
  add_config(*verb, *options);
  verb->add_option("--layout", options->layout, "Instead of the config's run.layout");
  verb->add_option("--steps", options->steps, "Steps to show (default 3)")
      ->check(integer_range(1, 1000000));
  verb->callback([options, &status] {
    show_data(*options);
    status = 0;
  });
}

}  // namespace shardproof
