// config: checks of a whole config, and its forms as JSON. config_text.cpp and config_line.cpp
// parse and print, config_fields.cpp lists the keys.
#include "train/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "mesh/layout.h"
#include "parallel/legality.h"
#include "trace/writer.h"
#include "train/config_fields.h"
#include "train/config_sources.h"
#include "train/sections.h"

namespace shardproof {
namespace {

class Checker {
 public:
  Checker(const Config& config, const Origins& origins) : config_(config), origins_(origins) {}

  void run() {
    Config copy = config_;
    for (const Field& field : fields(copy)) check_range(field, where({field.name()}));
    for (std::size_t i = 0; i < copy.data.sources.size(); ++i) {
      for (const Field& field : source_fields(copy.data.sources[i], i)) {
        check_range(field, where({field.name(), "data.sources"}));
      }
    }
    check_batch();
    check_data();
    check_optimizer();
    check_checkpoint();
    check_layout();
    check_offload();
    check_fault();
    check_elastic();
  }

 private:
  // The origin of the first of these keys that was given.
  std::string where(const std::vector<std::string>& keys) const {
    for (const std::string& key : keys) {
      if (const auto found = origins_.find(key); found != origins_.end()) return found->second;
    }
    return "config";
  }

  [[noreturn]] void fail(const std::vector<std::string>& keys, const std::string& detail) const {
    throw Error(ErrorKind::bad_input, where(keys), fmt::format("{}: {}", keys.front(), detail));
  }

  void check_batch() const {
    const TrainingSection& t = config_.training;
    if (t.global_batch % t.micro_batch == 0) return;
    std::vector<int> legal;
    for (int rows = 1; rows <= t.global_batch; ++rows) {
      if (t.global_batch % rows == 0) legal.push_back(rows);
    }
    fail(
        {"training.global_batch", "training.micro_batch"},
        fmt::format("found global_batch {} with micro_batch {}; expected a multiple of {}, such as "
                    "{}, or a micro_batch of {}",
                    t.global_batch, t.micro_batch, t.micro_batch,
                    (t.global_batch / t.micro_batch + 1) * t.micro_batch, fmt::join(legal, ", ")));
  }

  void check_accumulation(const Layout& layout) const {
    const TrainingSection& t = config_.training;
    const int ranks = layout.dp * layout.ep;
    const std::int64_t product = std::int64_t{t.micro_batch} * t.accumulation * ranks;
    if (t.accumulation == 0 || product == t.global_batch) return;
    const std::string legal =
        config_.micro_batches() % ranks == 0
            ? fmt::format("accumulation {}", config_.micro_batches() / ranks)
            : fmt::format("accumulation 0 (uneven shares of {} micro-batches)",
                          config_.micro_batches());
    fail(
        {"training.accumulation", "training.global_batch", "training.micro_batch", "run.layout"},
        fmt::format("found global_batch {} and micro_batch {} x accumulation {} x dp {} = {}; "
                    "expected {} or global_batch {}",
                    t.global_batch, t.micro_batch, t.accumulation, ranks, product, legal, product));
  }

  void check_data() const {
    if (const auto problem = sources_problem(config_)) {
      fail({problem->key, "data.sources"}, problem->detail);
    }
    const DataSection& d = config_.data;
    if (d.sources.empty()) check_single_source();
    const std::string& kind = d.sources.empty() ? d.kind : d.sources.front().kind;
    if (kind == "text" && config_.model.vocabulary < 256) {
      fail({"model.vocabulary", "data.kind", "data.sources"},
           fmt::format("found {}; data.kind text needs at least 256 (one token a byte)",
                       config_.model.vocabulary));
    }
    if (kind == "tokens" && d.packed && d.end_token >= config_.model.vocabulary) {
      fail({"data.end_token", "model.vocabulary"},
           fmt::format("found {}; expected a token below model.vocabulary {}", d.end_token,
                       config_.model.vocabulary));
    }
  }

  void check_single_source() const {
    const DataSection& d = config_.data;
    if (d.kind == "synthetic") {
      if (!d.path.empty()) {
        fail({"data.path", "data.kind"},
             fmt::format("found \"{}\" with data.kind synthetic, which reads no file; expected "
                         "data.kind text or tokens",
                         d.path));
      }
      if (d.packed) fail({"data.packed"}, "found true; expected data.kind text or tokens with it");
    } else if (d.path.empty()) {
      fail({"data.path", "data.kind"}, fmt::format("not given; data.kind {} needs it", d.kind));
    }
  }

  void check_optimizer() const {
    const OptimizerSection& o = config_.optimizer;
    if (o.decay_steps != 0 && o.decay_steps <= o.warmup) {
      fail({"optimizer.decay_steps", "optimizer.warmup"},
           fmt::format("found {} with warmup {}; expected 0 or more than warmup", o.decay_steps,
                       o.warmup));
    }
  }

  void check_checkpoint() const {
    const CheckpointSection& c = config_.checkpoint;
    const auto needs = [&](const char* key, bool set, double found, const char* other, bool there) {
      if (!set || there) return;
      fail({key}, fmt::format("found {} without {}; expected both or neither", found, other));
    };
    const bool directory = !c.directory.empty();
    needs("checkpoint.every", c.every > 0, c.every, "checkpoint.directory", directory);
    needs("checkpoint.every_minutes", c.every_minutes > 0, c.every_minutes, "checkpoint.directory",
          directory);
    needs("checkpoint.mtbf_minutes", c.mtbf_minutes > 0, c.mtbf_minutes, "checkpoint.directory",
          directory);
    needs("checkpoint.drill_every", c.drill_every > 0, c.drill_every, "checkpoint.directory",
          directory);
    needs("checkpoint.keep_last", c.keep_last > 0, c.keep_last, "checkpoint.directory", directory);
    needs("checkpoint.keep_every", c.keep_every > 0, c.keep_every, "checkpoint.keep_last",
          c.keep_last > 0);
    needs("checkpoint.synchronous_every", c.synchronous_every > 0, c.synchronous_every,
          "checkpoint.background", c.background);
  }

  void check_layout() const {
    if (const std::string text = problem(shape_of(config_)); !text.empty()) {
      fail({"model", "model.width", "model.heads", "model.sequence", "model.vocabulary",
            "numerics.tensor_pieces", "numerics.sequence_pieces"},
           text);
    }
    const Layout layout = read_layout();
    check_accumulation(layout);
    const std::string text = problem(layout, shape_of(config_), config_.micro_batches(), 0,
                                     config_.parallel.stage_layers);
    if (!text.empty()) fail({"run.layout", "parallel.stage_layers"}, text);
  }

  Layout read_layout() const {
    try {
      return parse_layout(config_.run.layout);
    } catch (const Error& error) {
      fail({"run.layout"}, fmt::format("{}: {}", error.place(), error.detail()));
    }
  }

  void check_offload() const {
    const ParallelSection& p = config_.parallel;
    const Layout layout = parse_layout(config_.run.layout);
    if (p.offload_parameters != "none" && layout.zero != 3) {
      Layout sharded = layout;
      sharded.zero = 3;
      fail({"parallel.offload_parameters", "run.layout"},
           fmt::format("found {} with layout {}: only ZeRO 3 shards parameters, elsewhere every "
                       "rank uses them whole; expected none, or a layout such as {}",
                       p.offload_parameters, layout.print(), sharded.print()));
    }
    if (!p.offload_directory.empty() && p.offload_optimizer != "file" &&
        p.offload_parameters != "file") {
      fail({"parallel.offload_directory"},
           fmt::format("found \"{}\" and nothing is offloaded to a file; expected "
                       "parallel.offload_optimizer=file with it",
                       p.offload_directory));
    }
  }

  // A key that did nothing would be a promise broken in the night of a failure.
  void check_elastic() const {
    const RunSection& r = config_.run;
    if (r.spares > 0 && !r.elastic) {
      fail({"run.spares", "run.elastic"},
           fmt::format("found {} with run.elastic=false: nobody would call them; expected 0, or "
                       "run.elastic=true",
                       r.spares));
    }
    if (!r.elastic) return;
    if (config_.numerics.reduction == "native") {
      fail({"run.elastic", "numerics.reduction"},
           "found true with native reduction, whose bits depend on the layout: what is left of the "
           "ranks would end with others; expected numerics.reduction=canonical, or false");
    }
    if (config_.data.remix) {
      fail({"run.elastic", "data.remix"},
           "found true with data.remix=true, which is for one resume and not for those after it; "
           "expected one of them");
    }
  }

  // A fault that could never fire would make a green run worthless.
  void check_fault() const {
    // Those of the fault injector are read where ranks are made.
    if (config_.run.fault.find('!') != std::string::npos || config_.run.fault.empty()) return;
    TraceFault fault;
    try {
      fault = parse_trace_fault(config_.run.fault);
    } catch (const Error& error) {
      fail({"run.fault"}, fmt::format("{}: {}", error.place(), error.detail()));
    }
    const int world = parse_layout(config_.run.layout).world();
    if (fault.rank < 0 || fault.rank >= world) {
      fail({"run.fault", "run.layout"},
           fmt::format("found rank {}; expected one of {} ranks, from 0", fault.rank, world));
    }
    if (fault.step < 0 || fault.step >= config_.training.steps) {
      fail({"run.fault", "training.steps"},
           fmt::format("found step {}; expected one of {} steps, from 0", fault.step,
                       config_.training.steps));
    }
  }

  const Config& config_;
  const Origins& origins_;
};

Json to_json_if(Config config, bool (*wanted)(const Field&)) {
  Json json = Json::object();
  for (const Field& field : fields(config)) {
    if (wanted(field)) json[std::string(field.section)][std::string(field.key)] = field.value();
  }
  return json;
}

}  // namespace

void check(const Config& config, const Origins& origins) {
  Checker(config, origins).run();
}

Json to_json(const Config& config) {
  return to_json_if(config, [](const Field&) { return true; });
}

Json case_json(const Config& config) {
  Config without_paths = config;
  for (SourceSection& source : without_paths.data.sources) source.path.clear();
  return to_json_if(without_paths, [](const Field& field) { return field.use == KeyUse::bits; });
}

std::string config_digest(const Config& config) {
  Json json = case_json(config);
  if (config.data.sources.empty()) json["data"].erase("sources");  // as before there were any
  return sha256(json.dump()).hex();
}

}  // namespace shardproof
