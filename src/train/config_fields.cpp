// config_fields: the list of keys, and how one value is checked and set.
#include "train/config_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/edit_distance.h"
#include "base/error.h"
#include "base/piece.h"
#include "train/config_sources.h"

namespace shardproof {
namespace {

constexpr double none = std::numeric_limits<double>::max();

Range at_least(double lo) {
  return {lo, none, false, false, {}};
}
Range above(double lo) {
  return {lo, none, true, false, {}};
}
Range between(double lo, double hi) {
  return {lo, hi, false, false, {}};
}
Range below(double lo, double hi) {
  return {lo, hi, false, true, {}};
}
Range one_of(std::vector<std::string_view> choices) {
  return {-none, none, false, false, std::move(choices)};
}

std::string in_range(const Range& range) {
  if (range.lo == -none && range.hi == none) return "";
  std::string text = fmt::format(" {} {}", range.open_lo ? ">" : ">=", range.lo);
  if (range.hi != none) text += fmt::format(" and {} {}", range.open_hi ? "<" : "<=", range.hi);
  return text;
}

// What an int holds is a bound as well.
Range of_int(Range range) {
  constexpr std::numeric_limits<int> limits;
  range.lo = std::max<double>(range.lo, limits.min());
  range.hi = std::min<double>(range.hi, limits.max());
  return range;
}

bool contains(const Range& range, double value) {
  if (!std::isfinite(value)) return false;
  return (range.open_lo ? value > range.lo : value >= range.lo) &&
         (range.open_hi ? value < range.hi : value <= range.hi);
}

[[noreturn]] void wrong(const Field& field, const Json& found, const std::string& place) {
  if (found.is_object()) refuse_value(field, "a section", place);
  if (found.is_number_float() && !std::isfinite(found.get<double>())) {  // JSON would say null
    refuse_value(field, fmt::format("{}", found.get<double>()), place);
  }
  refuse_value(field, spell(found), place);
}

}  // namespace

std::vector<Field> fields(Config& c) {
  using enum KeyUse;
  auto& [model, data, training, optimizer, numerics, checkpoint, parallel, guard, run_] = c;
  return {
      {"model", "layers", &model.layers, between(1, 1024), bits, "transformer blocks"},
      {"model", "width", &model.width, between(1, 65536), bits,
       "d, the size of the residual stream"},
      {"model", "heads", &model.heads, between(1, 1024), bits, "attention heads; divides width"},
      {"model", "vocabulary", &model.vocabulary, between(2, 1 << 20), bits,
       "tokens; text needs 256"},
      {"model", "sequence", &model.sequence, between(1, 1 << 20), bits, "tokens of a row"},
      {"model", "dropout", &model.dropout, below(0, 1), bits, "on embeddings and branch outputs"},
      {"model", "label_smoothing", &model.label_smoothing, between(0, 1), bits,
       "of the loss, over the whole vocabulary"},
      {"model", "tied", &model.tied, {}, bits, "the head's weight is the embedding's"},

      {"data", "kind", &data.kind, one_of({"synthetic", "text", "tokens"}), bits,
       "seeded corpus, bytes of a text file, or a token file"},
      {"data", "path", &data.path, {}, line, "the text or token file"},
      {"data", "samples", &data.samples, between(1, 1 << 28), bits,
       "samples of the synthetic corpus"},
      {"data", "ignored", &data.ignored, below(0, 1), bits,
       "synthetic: share of targets that are ignored"},
      {"data", "packed", &data.packed, {}, bits, "documents packed into rows, block mask"},
      {"data", "end_token", &data.end_token, between(0, 65535), bits,
       "packed token files: ends a document"},
      {"data", "last", &data.last, one_of({"drop", "short"}), bits,
       "the last, short global batch of an epoch"},
      {"data", "workers", &data.workers, between(0, 64), line, "prefetch threads"},
      {"data",
       "sources",
       &data.sources,
       {},
       bits,
       "a mixture: name, weight, kind, path, samples of each; empty: one source, the keys above"},
      {"data", "remix", &data.remix, {}, run, "a resume may change weights and add sources"},

      {"training", "steps", &training.steps, at_least(1), line, "optimizer steps"},
      {"training", "global_batch", &training.global_batch, between(1, 1 << 20), bits,
       "samples a step"},
      {"training", "micro_batch", &training.micro_batch, between(1, 1 << 20), bits,
       "rows of a micro-batch; divides global_batch"},
      {"training", "accumulation", &training.accumulation, at_least(0), line,
       "micro-batches a rank; 0 follows from the layout"},
      {"training", "clip", &training.clip, at_least(0), bits, "global gradient norm; 0 is off"},
      {"training", "seed", &training.seed, at_least(0), bits, "of weights, order, corpus, dropout"},
      {"training",
       "warm_start",
       &training.warm_start,
       {},
       line,
       "begin with the weights of this checkpoint: DIR (its newest) or DIR/ID"},

      {"optimizer", "lr", &optimizer.lr, at_least(0), bits, "peak learning rate"},
      {"optimizer", "beta1", &optimizer.beta1, below(0, 1), bits, "AdamW"},
      {"optimizer", "beta2", &optimizer.beta2, below(0, 1), bits, "AdamW"},
      {"optimizer", "epsilon", &optimizer.epsilon, above(0), bits, "AdamW"},
      {"optimizer", "weight_decay", &optimizer.weight_decay, at_least(0), bits, "decoupled"},
      {"optimizer",
       "no_decay",
       &optimizer.no_decay,
       {},
       bits,
       "parameter names (* matches any text) that do not decay"},
      {"optimizer", "warmup", &optimizer.warmup, at_least(0), bits, "steps of linear warm-up"},
      {"optimizer", "decay_steps", &optimizer.decay_steps, at_least(0), bits,
       "the cosine ends here; 0 keeps the rate constant"},
      {"optimizer", "final_ratio", &optimizer.final_ratio, between(0, 1), bits,
       "of lr, at the end of the cosine"},

      {"numerics", "reduction", &numerics.reduction, one_of({"canonical", "native"}), bits,
       "order of sums; canonical is the same on every layout, native the backend's own"},
      {"numerics", "tensor_pieces", &numerics.tensor_pieces, between(1, 1024), bits,
       "V; divides heads"},
      {"numerics", "sequence_pieces", &numerics.sequence_pieces, between(1, 1024), bits,
       "S; divides sequence"},
      {"numerics",
       "portable",
       &numerics.portable,
       {},
       bits,
       "the same bits on every x86-64 machine; slow"},

      {"checkpoint", "directory", &checkpoint.directory, {}, run, "empty: no checkpoints"},
      {"checkpoint", "every", &checkpoint.every, at_least(0), run, "steps; 0: only where asked"},
      {"checkpoint", "last", &checkpoint.last, {}, run, "also after the last step"},
      {"checkpoint", "every_minutes", &checkpoint.every_minutes, at_least(0), run,
       "by time; 0: not by time"},
      {"checkpoint", "mtbf_minutes", &checkpoint.mtbf_minutes, at_least(0), run,
       "mean time between failures: saves every sqrt(2 x cost of a save x this); 0: off"},
      {"checkpoint", "strategy", &checkpoint.strategy, one_of({"sharded", "full", "seed"}), run,
       "each rank writes what it holds, rank 0 gathers all, or nothing but the place is kept"},
      {"checkpoint",
       "background",
       &checkpoint.background,
       {},
       run,
       "written while training goes on"},
      {"checkpoint", "synchronous_every", &checkpoint.synchronous_every, at_least(0), run,
       "in the background: every n-th save is waited for; 0: none"},
      {"checkpoint", "keep_last", &checkpoint.keep_last, at_least(0), run,
       "the newest so many stay; 0: all"},
      {"checkpoint", "keep_every", &checkpoint.keep_every, at_least(0), run,
       "those at a multiple of so many steps stay too; 0: none"},
      {"checkpoint", "drill_every", &checkpoint.drill_every, at_least(0), run,
       "every n-th is verified and continued on another layout by another process; 0: none"},

      {"parallel", "stage_layers", &parallel.stage_layers, between(1, 1024), run,
       "layers of each pipeline stage, such as [3,5]; empty: balanced"},
      {"parallel", "unit_layers", &parallel.unit_layers, between(1, 1024), run,
       "ZeRO 2 and 3: blocks that are reduced and gathered as one"},
      {"parallel", "prefetch_forward", &parallel.prefetch_forward, between(0, 64), run,
       "ZeRO 3: units gathered ahead"},
      {"parallel", "prefetch_backward", &parallel.prefetch_backward, between(0, 64), run,
       "ZeRO 3: units gathered ahead in backward"},
      {"parallel",
       "reshard_after_forward",
       &parallel.reshard_after_forward,
       {},
       run,
       "ZeRO 3: off keeps a unit whole until its backward"},
      {"parallel", "bucket_bytes", &parallel.bucket_bytes, at_least(1), run,
       "native data parallelism: gradients that travel as one"},
      {"parallel",
       "overlap",
       &parallel.overlap,
       {},
       run,
       "native data parallelism: buckets travel while the backward goes on"},
      {"parallel", "offload_optimizer", &parallel.offload_optimizer,
       one_of({"none", "host", "file"}), run, "where masters and moments live between updates"},
      {"parallel", "offload_parameters", &parallel.offload_parameters,
       one_of({"none", "host", "file"}), run,
       "ZeRO 3: where shares of parameters live between gathers"},
      {"parallel",
       "offload_directory",
       &parallel.offload_directory,
       {},
       run,
       "of offload files, which have no name; empty: the system's temporary folder"},
      {"parallel", "offload_window", &parallel.offload_window, at_least(12 * block_elements), run,
       "bytes of offloaded optimizer state on the device at once"},

      {"guard", "verify", &guard.verify, {}, run, "ranks agree on every call before data moves"},
      {"guard", "watch", &guard.watch, {}, run, "waits are looked into and hangs are named"},
      {"guard", "look_seconds", &guard.look_seconds, above(0), run,
       "a wait of so long is looked into"},
      {"guard", "stall_seconds", &guard.stall_seconds, above(0), run,
       "a rank without a sign of progress for so long is hung"},
      {"guard",
       "dumps",
       &guard.dumps,
       {},
       run,
       "a folder for flight recordings of failed runs; empty: none"},
      {"guard", "loss_max", &guard.loss_max, at_least(0), run, "0: no limit"},
      {"guard", "grad_norm_min", &guard.grad_norm_min, at_least(0), run, "0: no limit"},
      {"guard", "grad_norm_max", &guard.grad_norm_max, at_least(0), run, "0: no limit"},
      {"guard", "spike_factor", &guard.spike_factor, at_least(0), run,
       "a loss over so many times the median of the window rolls back; 0: off"},
      {"guard", "spike_window", &guard.spike_window, between(1, 4096), run, "steps"},
      {"guard", "audit_every", &guard.audit_every, at_least(0), run,
       "steps between audits of what replicas hold; 0: none"},

      {"run", "layout", &run_.layout, {}, run, "who owns which piece, such as dp4.zero1"},
      {"run", "backend", &run_.backend, one_of({"threads", "mpi"}), run, "what ranks are"},
      {"run", "fault", &run_.fault, {}, run, "rank:step:phase:kill|stop|delay=S"},
      {"run",
       "deadline",
       &run_.deadline,
       {0, 86400, true, false, {}},
       run,
       "seconds for any wait of a rank"},
      {"run", "restarts", &run_.restarts, between(0, 1000), run,
       "from the newest whole checkpoint, at most so often"},
      {"run", "restart_seconds", &run_.restart_seconds, between(0, 3600), run,
       "before the first restart; doubles with each"},
      {"run",
       "elastic",
       &run_.elastic,
       {},
       run,
       "when a rank dies, the others go on without a restart"},
      {"run", "spares", &run_.spares, between(0, 64), run,
       "ranks beside those of the layout, which take the places of dead ones"},
  };
}

std::string Field::name() const {
  return fmt::format("{}.{}", section, key);
}

std::string Field::expected() const {
  struct Describe {
    const Range& range;
    std::string operator()(const int*) const { return "an integer" + in_range(of_int(range)); }
    std::string operator()(const double*) const { return "a number" + in_range(range); }
    std::string operator()(const bool*) const { return "true or false"; }
    std::string operator()(const std::string*) const {
      if (range.choices.empty()) return "a text";
      return fmt::format("one of {}", fmt::join(range.choices, ", "));
    }
    std::string operator()(const std::vector<int>*) const {
      return "a list of integers" + in_range(range);
    }
    std::string operator()(const std::vector<std::string>*) const { return "a list of texts"; }
    std::string operator()(const std::vector<SourceSection>*) const {
      return "a list of sources, such as {\"name\":\"books\",\"weight\":0.7}";
    }
  };
  return std::visit(Describe{range}, member);
}

Json Field::value() const {
  const auto read = [](const auto* value) {
    if constexpr (std::is_same_v<decltype(value), const std::vector<SourceSection>*>) {
      return sources_json(*value);
    } else {
      return Json(*value);
    }
  };
  return std::visit(read, member);
}

void refuse_value(const Field& field, const std::string& found, const std::string& place) {
  throw Error(ErrorKind::bad_input, place,
              fmt::format("{}: found {}; expected {}", field.name(), found, field.expected()));
}

const Field* find_field(const std::vector<Field>& all, std::string_view section,
                        std::string_view key) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Field& field) {
    return field.section == section && field.key == key;
  });
  return found == all.end() ? nullptr : &*found;
}

bool is_section(const std::vector<Field>& all, std::string_view section) {
  return std::any_of(all.begin(), all.end(),
                     [&](const Field& field) { return field.section == section; });
}

void check_range(const Field& field, const std::string& place) {
  struct Legal {
    const Range& range;
    bool operator()(const int* value) const { return contains(range, *value); }
    bool operator()(const double* value) const { return contains(range, *value); }
    bool operator()(const bool*) const { return true; }
    bool operator()(const std::string* value) const {
      return range.choices.empty() ||
             std::find(range.choices.begin(), range.choices.end(), *value) != range.choices.end();
    }
    bool operator()(const std::vector<int>* value) const {
      return std::all_of(value->begin(), value->end(),
                         [&](int item) { return contains(range, item); });
    }
    bool operator()(const std::vector<std::string>*) const { return true; }
    bool operator()(const std::vector<SourceSection>*) const { return true; }  // key by key
  };
  if (!std::visit(Legal{field.range}, field.member)) wrong(field, field.value(), place);
}

void assign(const Field& field, const Json& value, const std::string& place) {
  struct Store {
    const Field& field;
    const Json& value;
    const std::string& place;
    // A JSON integer above 2^63 - 1 is unsigned; compare as double before narrowing.
    static bool is_int(const Json& value) {
      return value.is_number_integer() &&
             std::abs(value.get<double>()) <= std::numeric_limits<int>::max();
    }
    void operator()(int* out) const {
      if (!is_int(value)) wrong(field, value, place);
      *out = value.get<int>();
    }
    void operator()(double* out) const {
      if (!value.is_number()) wrong(field, value, place);
      *out = value.get<double>();
    }
    void operator()(bool* out) const {
      if (!value.is_boolean()) wrong(field, value, place);
      *out = value.get<bool>();
    }
    void operator()(std::string* out) const {
      if (!value.is_string()) wrong(field, value, place);
      *out = value.get<std::string>();
    }
    void operator()(std::vector<int>* out) const {
      if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_int)) {
        wrong(field, value, place);
      }
      *out = value.get<std::vector<int>>();
    }
    void operator()(std::vector<std::string>* out) const {
      const auto is_text = [](const Json& item) { return item.is_string(); };
      if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_text)) {
        wrong(field, value, place);
      }
      *out = value.get<std::vector<std::string>>();
    }
    void operator()(std::vector<SourceSection>* out) const {
      *out = read_sources(field, value, [this](const std::string&) { return place; });
    }
  };
  std::visit(Store{field, value, place}, field.member);
  check_range(field, place);
}

void unknown_section(const std::vector<Field>& all, std::string_view section,
                     const std::string& place) {
  const auto nearest = std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return edit_distance(section, a.section) < edit_distance(section, b.section);
  });
  throw Error(ErrorKind::bad_input, place,
              fmt::format("unknown section [{}]; the nearest known one is [{}]", section,
                          nearest->section));
}

void unknown_key(const std::vector<Field>& all, std::string_view section, std::string_view key,
                 const std::string& place) {
  // A right key under the wrong section is nearer than any misspelt one.
  const auto far = [&](const Field& field) {
    return 2 * edit_distance(key, field.key) + (field.section == section ? 0 : 1);
  };
  const auto nearest = std::min_element(
      all.begin(), all.end(), [&](const auto& a, const auto& b) { return far(a) < far(b); });
  throw Error(ErrorKind::bad_input, place,
              fmt::format("unknown key {}{}{}; the nearest known one is {}", section,
                          section.empty() ? "" : ".", key, nearest->name()));
}

}  // namespace shardproof
