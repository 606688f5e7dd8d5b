// fake_trace: a tiny trainer for the tests of the checks: two parameters, made-up gradients, its
// own AdamW in fp32, ZeRO-1 shares. Every hook falsifies what one rank writes, never what it
// computes. Test support; not part of any library.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/philox.h"
#include "base/piece.h"
#include "base/temp_folder.h"
#include "trace/reader.h"
#include "trace/writer.h"

namespace shardproof {

struct FakeTrainer {
  int world = 2;
  bool share_state = true;  // ZeRO-1; else every rank holds everything
  std::int64_t first = 0;
  std::int64_t steps = 4;  // ends at first + steps
  bool digest = true;
  std::set<std::int64_t> capture = {-1, 0, 1, 2, 3};
  double clip = 1;
  int tensor_pieces = 2;
  std::int64_t samples_in_epoch = 64;

  // What is written for (rank, step, what) where what is param, grad, exp_avg, exp_avg_sq, master.
  std::function<void(int, std::int64_t, const std::string&, std::vector<float>&)> tensor;
  std::function<bool(int, std::int64_t, const std::string&, const PieceSpec&)> hide;
  std::function<void(int, StepRecord&)> step;
  std::function<void(int, Json&)> run;
  std::function<void(int, std::int64_t, Json&)> memory;
  std::function<bool(int, std::int64_t)> dies;  // before the step's record
  std::function<double(std::int64_t)> loss = [](std::int64_t s) { return 4.0 - 0.25 * s; };

  PieceTable table() const {
    std::vector<PieceSpec> pieces = cut("w.weight", {40, 60}, 0, tensor_pieces);
    const std::vector<PieceSpec> bias = cut("w.bias", {5}, 0, 1);
    pieces.insert(pieces.end(), bias.begin(), bias.end());
    return PieceTable(pieces);
  }

  Trace write(const std::string& directory) const {
    std::filesystem::create_directories(directory);
    const PieceTable table = this->table();
    std::vector<std::unique_ptr<TraceWriter>> ranks;
    for (int rank = 0; rank < world; ++rank) {
      TraceOptions options;
      options.directory = directory;
      options.capture = capture;
      options.digest = digest;
      ranks.push_back(std::make_unique<TraceWriter>(options, rank, world));
      ranks.back()->run(facts(rank));
    }
    State state(table, tensor_pieces);
    std::vector<bool> dead(ranks.size());
    if (first == 0) write_state(ranks, dead, table, state, -1, {"param"});
    for (std::int64_t s = 0; s < first + steps; ++s) {
      state.advance(s, clip);
      if (s == first - 1) write_state(ranks, dead, table, state, s, {"param", "moment"});
      if (s < first) continue;
      write_step(ranks, dead, table, state, s);
    }
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (!dead[rank]) ranks[rank]->end(first + steps);
    }
    ranks.clear();
    return read_trace(directory);
  }

 private:
  struct State {
    State(const PieceTable& table, int pieces) : pieces(pieces) {
      const auto count = static_cast<std::size_t>(table.elements());
      w.resize(count);
      g.resize(count);
      m.resize(count);
      v.resize(count);
      // Element i of the global parameter, wherever the table put it.
      for (std::size_t p = 0; p < table.pieces().size(); ++p) {
        const PieceSpec& spec = table.pieces()[p];
        const ElementRange range = table.range(static_cast<int>(p));
        const std::int64_t row = spec.box.shape.size() == 2 ? spec.box.shape[1] : 1;
        for (std::int64_t i = 0; i < range.size(); ++i) {
          global.push_back((spec.name == "w.bias" ? 100000 : 0) + spec.box.offsets[0] * row + i);
          decayed.push_back(spec.name != "w.bias");
        }
      }
      const Random random(7, Purpose::test);
      for (std::size_t i = 0; i < count; ++i) w[i] = 0.02f * random.normal(global[i]);
    }

    void advance(std::int64_t s, double clip) {
      const Random random(8, Purpose::test, 0, static_cast<std::uint32_t>(s));
      double squares = 0;
      std::vector<float> ordered;
      for (std::size_t i = 0; i < g.size(); ++i) g[i] = 0.5f * random.normal(global[i]);
      ordered = g;
      std::sort(ordered.begin(), ordered.end());  // the norm must not depend on the pieces
      for (const float each : ordered) squares += static_cast<double>(each) * each;
      norm = std::sqrt(squares);
      const auto factor = static_cast<float>(clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0);
      const float b1 = 0.9f, b2 = 0.95f, c1 = static_cast<float>(1 - std::pow(0.9, s + 1)),
                  c2 = static_cast<float>(1 - std::pow(0.95, s + 1));
      for (std::size_t i = 0; i < g.size(); ++i) {
        const float x = factor * g[i];
        m[i] = b1 * m[i] + static_cast<float>(1 - 0.9) * x;
        v[i] = b2 * v[i] + static_cast<float>(1 - 0.95) * x * x;
        const float update = (m[i] / c1) / (std::sqrt(v[i] / c2) + 1e-8f);
        w[i] -= 0.01f * (update + (decayed[i] ? 0.1f : 0.0f) * w[i]);
      }
    }

    int pieces;
    std::vector<float> w, g, m, v;
    std::vector<std::int64_t> global;
    std::vector<bool> decayed;
    double norm = 0;
  };
  using Writers = std::vector<std::unique_ptr<TraceWriter>>;

  Json facts(int rank) const {
    Json out;
    out["coords"] = Json{{"dp", rank}};
    out["layout"] = world == 1    ? std::string("dp1")
                    : share_state ? "dp" + std::to_string(world) + ".zero1"
                                  : "dp" + std::to_string(world);
    out["code"] = "abc";
    out["data"] = Json{{"size", samples_in_epoch}};
    out["config"]["training"] = Json{{"clip", clip}, {"global_batch", 12}};
    out["tensors"] = digest ? "all" : "some";
    out["config"]["optimizer"] =
        Json{{"lr", 0.01},       {"beta1", 0.9},        {"beta2", 0.95},
             {"epsilon", 1e-8},  {"weight_decay", 0.1}, {"warmup", 0},
             {"decay_steps", 0}, {"final_ratio", 0.1},  {"no_decay", Json{"*.bias"}}};
    if (run) run(rank, out);
    return out;
  }

  void write_step(Writers& ranks, std::vector<bool>& dead, const PieceTable& table,
                  const State& state, std::int64_t s) const {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (dead[rank]) continue;
      ranks[rank]->at(s, Phase::forward);
      ranks[rank]->at(s, Phase::backward);
      dead[rank] = dies && dies(static_cast<int>(rank), s);
    }
    write_state(ranks, dead, table, state, s, {"grad", "param", "moment"});
    for (int rank = 0; rank < world; ++rank) {
      if (dead[static_cast<std::size_t>(rank)]) continue;
      TraceWriter& writer = *ranks[static_cast<std::size_t>(rank)];
      const std::int64_t held = share_state ? table.share(world, rank).size() : table.elements();
      Json bytes{{"kind", "memory"}, {"step", s}, {"phase", "optimizer"}};
      bytes["bytes"]["optimizer"] = 12 * held;
      if (memory) memory(rank, s, bytes);
      writer.event(bytes);
      StepRecord record;
      record.step = s;
      record.loss = loss(s);
      record.grad_norm = state.norm;
      record.lr = 0.01;
      record.tokens = 10;
      for (std::int64_t i = 0; i < 12 / world; ++i) {
        record.samples.push_back((s * 12 + rank * (12 / world) + i) % (samples_in_epoch / 12 * 12));
      }
      if (step) step(rank, record);
      writer.step(record);
    }
  }

  void write_state(Writers& ranks, const std::vector<bool>& dead, const PieceTable& table,
                   const State& state, std::int64_t s,
                   const std::vector<std::string>& whats) const {
    for (int rank = 0; rank < world; ++rank) {
      if (dead[static_cast<std::size_t>(rank)]) continue;
      for (const std::string& what : whats) {
        std::vector<TensorView> views;
        std::vector<std::vector<float>> kept;
        const std::vector<std::string> parts =
            what == "moment" ? std::vector<std::string>{"exp_avg", "exp_avg_sq", "master"}
                             : std::vector<std::string>{what};
        for (const std::string& part : parts) {
          kept.push_back(part == "grad"         ? state.g
                         : part == "exp_avg"    ? state.m
                         : part == "exp_avg_sq" ? state.v
                                                : state.w);
          if (tensor) tensor(rank, s, part, kept.back());
        }
        for (std::size_t i = 0; i < parts.size(); ++i) {
          add_views(table, rank, s, parts[i], kept[i], views);
        }
        ranks[static_cast<std::size_t>(rank)]->tensors(s, what, views);
      }
    }
  }

  void add_views(const PieceTable& table, int rank, std::int64_t s, const std::string& part,
                 const std::vector<float>& values, std::vector<TensorView>& views) const {
    const bool whole = part == "param" || !share_state;
    const ElementRange share = whole ? ElementRange{0, table.elements()} : table.share(world, rank);
    for (std::size_t p = 0; p < table.pieces().size(); ++p) {
      const PieceSpec& spec = table.pieces()[p];
      const ElementRange range = table.range(static_cast<int>(p));
      const std::int64_t lo = std::max(range.lo, share.lo), hi = std::min(range.hi, share.hi);
      if (lo >= hi || (hide && hide(rank, s, part, spec))) continue;
      TensorView view;
      const bool moment = part != "param" && part != "grad";
      view.place = {
          spec.name + (moment ? "/" + part : ""), spec.global_shape, spec.piece, spec.box, true,
          {lo - range.lo, hi - range.lo}};
      view.data = values.data() + lo;
      views.push_back(view);
    }
  }
};

}  // namespace shardproof
