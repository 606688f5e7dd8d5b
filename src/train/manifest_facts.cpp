// manifest_facts: see manifest_facts.h.
#include "train/manifest_facts.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "data/mixed_dataset.h"
#include "data/mixed_sequence.h"
#include "mesh/layout.h"
#include "train/config.h"
#include "train/recomputation.h"
#include "train/sections.h"

namespace shardproof {
namespace {

constexpr const char* kinds[] = {"param", "exp_avg", "exp_avg_sq", "master"};

// The number of a text that is `prefix`, digits, `suffix`; nothing for any other.
std::optional<std::int64_t> number_in(std::string_view text, std::string_view prefix,
                                      std::string_view suffix) {
  if (!text.starts_with(prefix) || !text.ends_with(suffix) ||
      text.size() < prefix.size() + suffix.size()) {
    return std::nullopt;
  }
  text = text.substr(prefix.size(), text.size() - prefix.size() - suffix.size());
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// A saver of another program may say neither.
bool says_a_run(const CheckpointFacts& facts) {
  return !facts.config.empty() || !facts.run_line.empty();
}

class FactCheck {
 public:
  explicit FactCheck(const CheckpointFacts& facts) : facts_(facts) {}

  std::vector<Damage> run() {
    if (!says_a_run(facts_)) return {};
    try {
      config_ = parse_config_json(facts_.config.dump(), "facts.config");
      check(config_);
    } catch (const Error& error) {
      add("facts.config", "a legal config", error.what());
      return std::move(out_);
    }
    check_run_line();
    compare("facts.layout", "facts.config.run.layout", config_.run.layout, facts_.layout);
    check_step();
    compare("facts.packing", "facts.config.data.packed", packing_of(config_), facts_.packing);
    compare("facts.seeds", "facts.config.training.seed",
            Json{{"training", config_.training.seed}}.dump(), facts_.seeds.dump());
    return std::move(out_);
  }

 private:
  void add(std::string where, std::string expected, std::string found) {
    out_.push_back({std::move(where), std::move(expected), std::move(found)});
  }

  void compare(const std::string& field, const std::string& other, const std::string& expected,
               const std::string& found) {
    if (expected != found) add(field + " against " + other, expected, found);
  }

  void check_run_line() {
    Config said;
    try {
      said = parse_run_line(facts_.run_line);
    } catch (const Error& error) {
      add("facts.run_line against facts.config", run_line(config_), error.what());
      return;
    }
    const Json ours = to_json(config_), theirs = to_json(said);
    for (const auto& section : ours.items()) {
      for (const auto& key : section.value().items()) {
        const std::string name = section.key() + "." + key.key();
        compare("facts.run_line: " + name, "facts.config." + name, key.value().dump(),
                theirs.at(section.key()).at(key.key()).dump());
      }
    }
  }

  void check_step() {
    if (facts_.step < 0 || facts_.step > config_.training.steps) {
      add("facts.step against facts.config.training.steps",
          fmt::format("0 to {}", config_.training.steps), std::to_string(facts_.step));
      return;
    }
    const Json step = facts_.schedule.value("step", Json()),
               lr = facts_.schedule.value("lr", Json());
    compare("facts.schedule.step", "facts.step", std::to_string(facts_.step), step.dump());
    // As floats: a cosine may differ in the last bit of a double on another machine.
    const double expected = learning_rate(schedule_of(config_), facts_.step);
    if (!lr.is_number() || static_cast<float>(lr.get<double>()) != static_cast<float>(expected)) {
      add("facts.schedule.lr against facts.config.optimizer", Json(expected).dump(), lr.dump());
    }
    check_cursor();
  }

  void check_cursor() {
    DataCursor cursor;
    try {
      cursor = DataCursor::from_json(facts_.cursor, "facts.cursor");
    } catch (const Error& error) {
      add("facts.cursor", "a data cursor", error.what());
      return;
    }
    // A step takes a global batch; one that ends an epoch may be short, never empty.
    const std::int64_t most = facts_.step * config_.training.global_batch;
    const std::int64_t least = config_.data.last == "short" ? facts_.step : most;
    if (cursor.samples < least || cursor.samples > most) {
      add("facts.cursor.samples against facts.step x facts.config.training.global_batch",
          least == most ? std::to_string(most) : fmt::format("{} to {}", least, most),
          std::to_string(cursor.samples));
      return;
    }
    if (config_.data.sources.empty() && cursor.sources.empty()) {
      check_epoch(cursor);
    } else {
      check_mixture(cursor);
    }
  }

  void check_mixture(const DataCursor& cursor) {
    const auto said = [](const auto& sources) {
      Json out = Json::array();
      for (const auto& each : sources) out.push_back({each.name, each.weight});
      return out.dump();
    };
    const std::string against = " against facts.config.data.sources";
    compare("facts.cursor.sources", "facts.config.data.sources", said(config_.data.sources),
            said(cursor.sources));
    const auto problem =
        mixed_cursor_problem(cursor, static_cast<std::uint64_t>(config_.training.seed));
    if (problem) add("facts.cursor." + problem->field, problem->expected, problem->found);
    if (!out_.empty()) return;
    if (cursor.since % config_.training.global_batch != 0) {
      add("facts.cursor.since against facts.config.training.global_batch",
          fmt::format("a multiple of {}", config_.training.global_batch),
          std::to_string(cursor.since));
    }
    std::vector<Source> sources;
    for (std::size_t i = 0; i < cursor.sources.size(); ++i) {
      const SourceCursor& at = cursor.sources[i];
      const SourceSection& source = config_.data.sources[i];
      if (source.kind == "synthetic" && at.size != source.samples) {
        add(fmt::format("facts.cursor.sources[{}].size{}", i, against),
            std::to_string(source.samples), std::to_string(at.size));
      }
      sources.push_back({at.name, at.weight, 0, at.size, 0, at.digest});
    }
    compare("facts.data_digest", "facts.cursor.sources", mixture_digest(sources).hex(),
            facts_.data_digest);
  }

  // Whole epochs lie before this one. How long one is, only synthetic data says.
  void check_epoch(const DataCursor& cursor) {
    const bool inside = cursor.epoch >= 0 && cursor.taken >= 0 && cursor.taken <= cursor.samples;
    const std::int64_t before = inside ? cursor.samples - cursor.taken : 0;
    bool whole = inside && (cursor.epoch == 0 ? before == 0 : before % cursor.epoch == 0);
    if (inside && config_.data.kind == "synthetic") {
      const std::int64_t size = config_.data.samples, batch = config_.training.global_batch;
      const std::int64_t epoch = config_.data.last == "short" ? size : size - size % batch;
      whole = epoch == 0 ? before == 0 : before % epoch == 0 && before / epoch == cursor.epoch;
    }
    if (whole) return;
    add("facts.cursor.taken against facts.cursor.samples and epoch",
        fmt::format("{} samples less those of {} epochs", cursor.samples, cursor.epoch),
        std::to_string(cursor.taken));
  }

  const CheckpointFacts& facts_;
  Config config_;
  std::vector<Damage> out_;
};

std::string describe(int pieces, const Shape& global, const Box& box, Dtype dtype) {
  return Json{{"dtype", name(dtype)},
              {"pieces", pieces},
              {"shape", global},
              {"box", {box.offsets, box.shape}}}
      .dump();
}

// The first piece that the model demands and the entries lack, hold otherwise, or have besides.
std::optional<Damage> wrong_piece(const Manifest& manifest, const GptShape& shape) {
  const std::string where = "entries against facts.config.model and numerics.tensor_pieces";
  double parameters = 0;
  std::map<std::tuple<std::string, std::string, int>, const ManifestEntry*> held;
  for (const ManifestEntry& entry : manifest.entries) {
    if (entry.what == "param") parameters += static_cast<double>(entry.range.size());
    held.try_emplace({entry.name, entry.what, entry.piece}, &entry);
  }
  // Before anything as large as the config claims is laid out.
  if (const double expected = parameter_count(shape); expected != parameters) {
    return Damage{where, fmt::format("{} parameters", expected),
                  fmt::format("{} parameters", parameters)};
  }
  for (const PieceSpec& piece : gpt_pieces(shape)) {
    for (const char* kind : kinds) {
      const std::string at =
          fmt::format("{}: {}/{} piece {}", where, piece.name, kind, piece.piece);
      const std::string expected =
          describe(piece.pieces, piece.global_shape, piece.box, Dtype::f32);
      const auto found = held.find({piece.name, kind, piece.piece});
      if (found == held.end()) return Damage{at, expected, "nothing"};
      const ManifestEntry& entry = *found->second;
      const std::string there = describe(entry.pieces, entry.global_shape, entry.box, entry.dtype);
      if (there != expected) return Damage{at, expected, there};
      held.erase(found);
    }
  }
  if (held.empty()) return std::nullopt;
  return Damage{where, "only what this model has", held.begin()->second->label()};
}

void check_files(const Manifest& manifest, int world, std::vector<Damage>& out) {
  for (const ShardFileRef& file : manifest.files) {
    const std::string stem = std::filesystem::path(file.file).filename().string();
    const auto rank = number_in(stem, "rank_", ".safetensors");
    if (rank && *rank < world) continue;
    out.push_back({"files against facts.layout",
                   fmt::format("rank_00000.safetensors to rank_{:05}.safetensors", world - 1),
                   file.file});
  }
}

}  // namespace

std::vector<Damage> damages_of(Storage& storage, const std::string& id) {
  std::vector<Damage> damages = verify_checkpoint(storage, id);
  if (!damages.empty()) return damages;
  damages = contradictions(read_manifest(storage, id));
  for (Damage& damage : damages) damage.where = manifest_path(id) + ": " + damage.where;
  return damages;
}

std::vector<Damage> contradictions(const CheckpointFacts& facts) {
  return FactCheck(facts).run();
}

std::vector<Damage> contradictions(const Manifest& manifest) {
  const CheckpointFacts& facts = manifest.facts;
  std::vector<Damage> out = contradictions(facts);
  const auto step = number_in(manifest.id, "step-", "");
  if (step && *step != facts.step) {
    out.push_back({"facts.step against id", std::to_string(*step), std::to_string(facts.step)});
  }
  if (manifest.seeds_alone && !says_a_run(facts)) {
    out.push_back({"facts.config", "the run that is to be computed again", "nothing"});
  }
  if (!out.empty() || !says_a_run(facts)) return out;  // what follows needs a config that holds
  const Config config = parse_config_json(facts.config.dump(), "facts.config");
  if (const auto why = manifest.seeds_alone ? cannot_recompute(facts) : std::nullopt) {
    out.push_back({"seeds_alone", "a run that its seeds give", *why});
  }
  auto wrong = manifest.seeds_alone ? std::nullopt : wrong_piece(manifest, shape_of(config));
  if (wrong) {
    out.push_back(std::move(*wrong));
  } else if (const Json groups = parameter_groups_of(config); groups != facts.parameter_groups) {
    out.push_back({"facts.parameter_groups against facts.config.optimizer.no_decay", groups.dump(),
                   facts.parameter_groups.dump()});
  }
  check_files(manifest, parse_layout(facts.layout).world(), out);
  return out;
}

void require_consistent(const std::vector<Damage>& contradictions, const std::string& place) {
  if (contradictions.empty()) return;
  const Damage& first = contradictions.front();
  throw Error(ErrorKind::refused, place,
              fmt::format("{}: expected {}, found {}{}", first.where, first.expected, first.found,
                          contradictions.size() == 1 ? ""
                                                     : fmt::format(" ({} more contradictions)",
                                                                   contradictions.size() - 1)));
}

}  // namespace shardproof
