// foreign_trace: a program that keeps to the public format alone, for the tests of the checks over
// anybody's traces: three parameters, cut by rows or columns or on every rank, in any precision,
// with rounding errors of a given size. It has no config, its optimizer may keep nothing. Hooks
// falsify what a rank writes. Test support; not part of any library.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/philox.h"
#include "base/temp_folder.h"
#include "trace/reader.h"
#include "trace/writer.h"

namespace shardproof {

struct ForeignProgram {
  enum class Cut { whole, rows, columns };
  int world = 2;
  std::int64_t first = 0;
  std::int64_t steps = 3;
  Cut cut = Cut::whole;
  Dtype dtype = Dtype::f32;
  double noise = 0;  // of each gradient's element, in units of 2^-24
  std::uint32_t seed = 1;
  std::vector<std::string> moments = {"exp_avg", "exp_avg_sq"};
  std::set<std::int64_t> capture = {-1, 0, 1, 2};
  bool reversed = false;  // the samples of a rank
  std::int64_t batch = 4;
  std::int64_t epoch = 40;

  // What is written of the global tensor by (rank, step, what, name), and whether it is.
  std::function<void(int, std::int64_t, const std::string&, const std::string&,
                     std::vector<double>&)>
      tensor;
  std::function<bool(int, std::int64_t, const std::string&, const std::string&)> hide;
  std::function<Dtype(const std::string&)> dtype_of;  // where not all are of `dtype`
  std::function<void(int, StepRecord&)> step;
  std::function<void(int, Json&)> run;
  std::function<bool(int)> dies;  // in the last step, before its record

  Trace write(const std::string& directory) const {
    std::filesystem::create_directories(directory);
    for (int rank = 0; rank < world; ++rank) write_rank(directory, rank);
    return read_trace(directory);
  }

 private:
  static std::map<std::string, Shape> shapes() {
    return {{"a.weight", {6, 8}}, {"b.bias", {5}}, {"scale", {}}};
  }

  void write_rank(const std::string& directory, int rank) const {
    TraceOptions options;
    options.directory = directory;
    options.capture = capture;
    TraceWriter writer(options, rank, world);
    Json facts{{"coords", {{"dp", cut == Cut::columns ? 0 : rank}}},
               {"code", "abc"},
               {"data", {{"size", epoch}}}};
    if (cut == Cut::columns) facts["coords"]["tp"] = rank;
    if (run) run(rank, facts);
    writer.run(facts);
    write_tensors(writer, rank, first - 1, "param");
    for (std::int64_t s = first; s < first + steps; ++s) {
      writer.at(s, Phase::forward);
      writer.at(s, Phase::backward);
      if (s == first + steps - 1 && dies && dies(rank)) return;
      for (const char* what : {"grad", "param", "moment"}) write_tensors(writer, rank, s, what);
      write_step(writer, rank, s);
    }
    writer.end(first + steps);
  }

  // The global values of one tensor: those of step s are the same for every layout and precision.
  std::vector<double> values(std::int64_t s, const std::string& what, const std::string& name,
                             std::size_t count) const {
    const bool grad = what == "grad";
    const auto at = static_cast<std::uint32_t>(s + 1);
    const Random random(grad ? 5 : 6, Purpose::test, stream_id(name.c_str()), at);
    const Random errors(seed + 100, Purpose::test, stream_id(name.c_str()), at);
    std::vector<double> out(count);
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = bf16_to_float(float_to_bf16(random.normal(i)));  // a value of every precision
      if (grad) out[i] = (1 + noise * 0x1p-24 * errors.normal(i)) * random.normal(i);
    }
    return out;
  }

  Box box_of(const Shape& shape, int rank) const {
    Box box{Shape(shape.size(), 0), shape};
    const std::size_t dim = cut == Cut::columns && shape.size() == 2 ? 1 : 0;
    if (cut == Cut::whole || shape.empty()) return box;
    box.offsets[dim] = share_bound(shape[dim], world, rank);
    box.shape[dim] = share_bound(shape[dim], world, rank + 1) - box.offsets[dim];
    return box;
  }

  void write_tensors(TraceWriter& writer, int rank, std::int64_t s, const std::string& what) const {
    std::vector<TensorView> views;
    std::vector<std::vector<std::byte>> kept;
    const std::vector<std::string> whole = {""};
    for (const auto& [name, shape] : shapes()) {
      for (const std::string& suffix : what == "moment" ? moments : whole) {
        const std::string full = suffix.empty() ? name : name + "/" + suffix;
        if (hide && hide(rank, s, what, full)) continue;
        std::vector<double> global =
            values(s, what, full, static_cast<std::size_t>(element_count(shape)));
        if (tensor) tensor(rank, s, what, full, global);
        TensorView view;
        view.place = {full, shape, 0, box_of(shape, rank), false, {}};
        view.dtype = dtype_of ? dtype_of(full) : dtype;
        kept.push_back(part(global, shape, view.place.box, view.dtype));
        views.push_back(view);
      }
    }
    for (std::size_t i = 0; i < views.size(); ++i) views[i].data = kept[i].data();
    if (!views.empty()) writer.tensors(s, what, views);
  }

  std::vector<std::byte> part(const std::vector<double>& global, const Shape& shape, const Box& box,
                              Dtype dtype) const {
    std::vector<std::byte> out;
    const std::int64_t columns = shape.empty() ? 1 : shape.back();
    for (std::size_t i = 0; i < global.size(); ++i) {
      const std::int64_t at = static_cast<std::int64_t>(i);
      const Shape index = shape.size() == 2   ? Shape{at / columns, at % columns}
                          : shape.size() == 1 ? Shape{at}
                                              : Shape{};
      bool inside = true;
      for (std::size_t d = 0; d < index.size(); ++d) {
        inside = inside && index[d] >= box.offsets[d] && index[d] < box.offsets[d] + box.shape[d];
      }
      if (inside) append(global[i], dtype, out);
    }
    return out;
  }

  static void append(double value, Dtype dtype, std::vector<std::byte>& out) {
    const auto add = [&](auto raw) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&raw);
      out.insert(out.end(), bytes, bytes + sizeof raw);
    };
    if (dtype == Dtype::f64) return add(value);
    const auto single = static_cast<float>(value);
    if (dtype == Dtype::f32) return add(single);
    add(float_to_bf16(single));
  }

  void write_step(TraceWriter& writer, int rank, std::int64_t s) const {
    double squares = 0;
    for (const auto& [name, shape] : shapes()) {
      const auto count = static_cast<std::size_t>(element_count(shape));
      for (const double each : values(s, "grad", name, count)) squares += each * each;
    }
    StepRecord record;
    record.step = s;
    record.loss = 4 - 0.25 * static_cast<double>(s) + 0x1p-24 * noise;
    record.grad_norm = std::sqrt(squares);
    record.lr = 0.01;
    record.tokens = 10;
    const bool split = cut != Cut::columns;  // over data ranks
    for (std::int64_t i = 0; i < batch; ++i) {
      if (split && (i < batch * rank / world || i >= batch * (rank + 1) / world)) continue;
      record.samples.push_back((s * batch + i) % epoch);
    }
    if (reversed) std::reverse(record.samples.begin(), record.samples.end());
    if (step) step(rank, record);
    writer.step(record);
  }
};

// Of a world, in a precision, with the rounding errors of a seed.
inline ForeignProgram foreign_program(Dtype dtype, double noise, std::uint32_t seed,
                                      int world = 1) {
  ForeignProgram out;
  out.dtype = dtype;
  out.noise = noise;
  out.seed = seed;
  out.world = world;
  return out;
}

// One that writes other values of `what` of the first parameter: change(rank, step, values).
inline ForeignProgram foreign_changing(
    const std::function<void(int, std::int64_t, std::vector<double>&)>& change,
    const std::string& what = "param") {
  ForeignProgram out;
  out.tensor = [=](int rank, std::int64_t s, const std::string& kind, const std::string& name,
                   std::vector<double>& values) {
    if (kind == what && name.starts_with("a.weight")) change(rank, s, values);
  };
  return out;
}

}  // namespace shardproof
