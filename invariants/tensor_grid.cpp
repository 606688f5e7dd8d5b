// Places checked before they are believed: a trace is somebody else's text.
#include "invariants/tensor_grid.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include <fmt/format.h>

namespace shardproof {
namespace {

// A trace is somebody else's text: a shape beyond this is refused before anything is allocated.
constexpr std::int64_t max_elements = std::int64_t{1} << 33;

std::int64_t checked_count(const Shape& shape, const std::string& where) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) {
    if (n < 0 || n > max_elements || (n > 0 && count > max_elements / n)) {
      throw Error(ErrorKind::corrupt, where, "a shape with a negative size or above 2^33 elements");
    }
    count *= n;
  }
  return count;
}

}  // namespace

ElementRange elements_of(const TensorPlace& place) {
  return place.is_run ? place.range : ElementRange{0, element_count(place.box.shape)};
}

void check_place(const TensorPlace& place, const std::string& where) {
  const std::string at = where + ", tensor " + place.name;
  const Shape& global = place.global_shape;
  if (place.box.offsets.size() != global.size() || place.box.shape.size() != global.size()) {
    throw Error(
        ErrorKind::corrupt, at,
        fmt::format("a box of {} dims in a tensor of {}", place.box.shape.size(), global.size()));
  }
  checked_count(global, at);
  const std::int64_t inside = checked_count(place.box.shape, at);
  for (std::size_t d = 0; d < global.size(); ++d) {
    if (place.box.offsets[d] < 0 || place.box.offsets[d] > global[d] - place.box.shape[d]) {
      throw Error(ErrorKind::corrupt, at, fmt::format("the box leaves the tensor on dim {}", d));
    }
  }
  if (place.is_run &&
      (place.range.lo < 0 || place.range.hi < place.range.lo || place.range.hi > inside)) {
    throw Error(ErrorKind::corrupt, at,
                fmt::format("the run [{}, {}) leaves a box of {} elements", place.range.lo,
                            place.range.hi, inside));
  }
}

StretchWalk::StretchWalk(const TensorPlace& place)
    : lo_(elements_of(place).lo), at_(lo_), hi_(elements_of(place).hi) {
  const Box& box = place.box;
  std::int64_t stride = 1;
  bool side_by_side = true;  // all dims behind this one are held whole
  for (std::size_t d = box.shape.size(); d-- > 0;) {
    if (side_by_side) {
      row_ *= box.shape[d];
      row_begin_ += box.offsets[d] * stride;
      side_by_side = box.shape[d] == place.global_shape[d];
    } else {
      outer_.push_back({box.offsets[d], box.shape[d], stride});
    }
    stride *= place.global_shape[d];
  }
}

std::optional<Stretch> StretchWalk::next(std::int64_t end) {
  if (at_ >= hi_) return std::nullopt;
  const std::int64_t column = at_ % row_;
  std::int64_t rest = at_ / row_, index = row_begin_ + column;
  for (const Dim& dim : outer_) {  // the innermost first
    index += (dim.offset + rest % dim.size) * dim.stride;
    rest /= dim.size;
  }
  if (index >= end) return std::nullopt;
  const Stretch out{index, at_ - lo_, std::min({row_ - column, hi_ - at_, end - index})};
  at_ += out.count;
  return out;
}

std::optional<std::int64_t> element_in(const TensorPlace& place, std::int64_t global_index) {
  std::int64_t number = 0, stride = 1;
  for (std::size_t d = place.global_shape.size(); d-- > 0;) {
    if (place.global_shape[d] == 0) return std::nullopt;
    const std::int64_t at = global_index % place.global_shape[d] - place.box.offsets[d];
    if (at < 0 || at >= place.box.shape[d]) return std::nullopt;
    global_index /= place.global_shape[d];
    number += at * stride;
    stride *= place.box.shape[d];
  }
  const ElementRange range = elements_of(place);
  if (global_index != 0 || number < range.lo || number >= range.hi) return std::nullopt;
  return number;
}

Shape index_of(const Shape& shape, std::int64_t global_index) {
  Shape out(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    out[d] = global_index % shape[d];
    global_index /= shape[d];
  }
  return out;
}

DigestMap digests_at(const Trace& trace, std::int64_t step, const std::string& what) {
  DigestMap out;
  for (const RankTrace& rank : trace.ranks) {
    for (const TensorRecord& record : rank.tensors) {
      if (record.step != step || record.what != what) continue;
      const TensorPlace& place = record.place;
      check_place(place, fmt::format("rank {} step {} {}", rank.rank, step, what));
      const ElementRange all = elements_of(place);
      const auto add = [&](std::int64_t lo, std::int64_t hi, const std::string& digest) {
        out[{place.name, place.box.offsets, place.box.shape, lo, hi}].push_back(
            {rank.rank, place.piece, record.dtype, digest});
      };
      if (record.blocks.empty()) {
        if (!record.sha256.empty()) add(all.lo, all.hi, record.sha256);
        continue;
      }
      std::int64_t lo = all.lo;
      for (const std::string& digest : record.blocks) {
        const std::int64_t hi = std::min(lo + block_elements, all.hi);
        add(lo, hi, digest);
        lo = hi;
      }
    }
  }
  return out;
}

std::vector<std::int64_t> tensor_steps(const Trace& trace, const std::string& what) {
  std::set<std::int64_t> out;
  for (const RankTrace& rank : trace.ranks) {
    for (const TensorRecord& record : rank.tensors) {
      if (record.what == what) out.insert(record.step);
    }
  }
  for (const TensorFileRef& file : trace.files) {
    if (file.what == what) out.insert(file.step);
  }
  return {out.begin(), out.end()};
}

bool holds_tensors(const Trace& trace, std::int64_t step, const std::string& what) {
  const std::vector<std::int64_t> steps = tensor_steps(trace, what);
  return std::binary_search(steps.begin(), steps.end(), step);
}

BytesMap bytes_at(const Trace& trace, std::int64_t step, const std::string& what) {
  BytesMap out;
  for (const TensorFileRef& ref : trace.files) {
    if (ref.step != step || ref.what != what) continue;
    const TensorFile file = TensorFile::open(ref.path);
    for (const TensorFile::Entry& entry : file.entries()) {
      check_place(entry.place, ref.path);
      const ElementRange range = elements_of(entry.place);
      const auto expected = static_cast<std::size_t>(range.size()) * size_of(entry.dtype);
      if (entry.bytes.size() != expected) {
        throw Error(ErrorKind::corrupt, ref.path + ", tensor " + entry.place.name,
                    fmt::format("{} bytes where the place needs {}", entry.bytes.size(), expected));
      }
      out[entry.place.name].push_back({ref.rank, file, entry});
    }
  }
  return out;
}

Located locate(const std::vector<HeldBytes>& entries, std::int64_t global_index) {
  for (const HeldBytes& each : entries) {
    const auto number = element_in(each.entry.place, global_index);
    if (number) return {each.rank, each.entry.place.piece, *number};
  }
  return {};
}

std::vector<int> holders(const std::vector<HeldBytes>& entries, std::int64_t global_index) {
  std::set<int> out;
  for (const HeldBytes& each : entries) {
    if (element_in(each.entry.place, global_index)) out.insert(each.rank);
  }
  return {out.begin(), out.end()};
}

void check_alike(const std::vector<HeldBytes>& entries) {
  const TensorFile::Entry& first = entries.front().entry;
  std::int64_t held = 0;
  for (const HeldBytes& each : entries) {
    held += elements_of(each.entry.place).size();
    if (each.entry.place.global_shape == first.place.global_shape &&
        each.entry.dtype == first.dtype) {
      continue;
    }
    throw Error(ErrorKind::corrupt, "tensor " + each.entry.place.name,
                fmt::format("rank {} has another shape or dtype than rank {}", each.rank,
                            entries.front().rank));
  }
  const std::int64_t count = element_count(first.place.global_shape);
  if (held < count) {  // bounds what is walked or allocated by the bytes that are really there
    throw Error(ErrorKind::corrupt, "tensor " + first.place.name,
                fmt::format("{} captured elements of {}", held, count));
  }
}

GlobalTensor assemble(const std::vector<HeldBytes>& entries) {
  check_alike(entries);
  GlobalTensor out;
  out.shape = entries.front().entry.place.global_shape;
  out.dtype = entries.front().entry.dtype;
  const std::size_t width = size_of(out.dtype);
  const std::int64_t count = element_count(out.shape);
  out.bytes.resize(static_cast<std::size_t>(count) * width);
  out.present.resize(static_cast<std::size_t>(count));
  for (const HeldBytes& each : entries) {
    for_each_stretch(
        each.entry.place, [&](std::int64_t global, std::int64_t local, std::int64_t n) {
          for (std::int64_t i = 0; i < n; ++i) {
            const auto to = static_cast<std::size_t>(global + i);
            if (out.present[to]) continue;
            out.present[to] = true;
            std::memcpy(&out.bytes[to * width], &each.entry.bytes[(local + i) * width], width);
          }
        });
  }
  return out;
}

std::vector<float> GlobalTensor::floats() const {
  if (dtype != Dtype::f32) throw Error(ErrorKind::corrupt, "tensor", "expected dtype F32");
  if (std::find(present.begin(), present.end(), false) != present.end()) {
    throw Error(ErrorKind::corrupt, "tensor", "elements that no rank holds");
  }
  std::vector<float> out(present.size());
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

double element_value(Dtype dtype, const std::byte* data) {
  const auto load = [&]<typename T>(T value) {
    std::memcpy(&value, data, sizeof(T));
    return value;
  };
  switch (dtype) {
    case Dtype::f32:
      return load(float{});
    case Dtype::f64:
      return load(double{});
    case Dtype::bf16:
      return bf16_to_float(load(std::uint16_t{}));
    case Dtype::f16:
      return f16_to_float(load(std::uint16_t{}));
    case Dtype::i32:
      return load(std::int32_t{});
    case Dtype::i64:
      return static_cast<double>(load(std::int64_t{}));
    case Dtype::u8:
      return load(std::uint8_t{});
  }
  return 0;
}

namespace {

template <typename T, typename Convert>
void convert(const std::byte* data, std::span<double> out, const Convert& value_of) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T raw;
    std::memcpy(&raw, data + i * sizeof(T), sizeof(T));
    out[i] = value_of(raw);
  }
}

}  // namespace

void element_values(Dtype dtype, const std::byte* data, std::span<double> out) {
  const auto same = [](auto value) { return static_cast<double>(value); };
  switch (dtype) {
    case Dtype::f32:
      return convert<float>(data, out, same);
    case Dtype::f64:
      return convert<double>(data, out, same);
    case Dtype::bf16:
      return convert<std::uint16_t>(data, out, bf16_to_float);
    case Dtype::f16:
      return convert<std::uint16_t>(data, out, f16_to_float);
    case Dtype::i32:
      return convert<std::int32_t>(data, out, same);
    case Dtype::i64:
      return convert<std::int64_t>(data, out, same);
    case Dtype::u8:
      return convert<std::uint8_t>(data, out, same);
  }
}

double roundings_apart(Dtype dtype, double a, double b) {
  const double u = dtype == Dtype::f64    ? 0x1p-53
                   : dtype == Dtype::f32  ? 0x1p-24
                   : dtype == Dtype::f16  ? 0x1p-11
                   : dtype == Dtype::bf16 ? 0x1p-9
                                          : 0;
  const double times = std::abs(a - b) / (u * std::max(std::abs(a), std::abs(b)));
  return u > 0 && std::isfinite(times) ? times : 0;
}

bool same_element(Dtype dtype, const std::byte* a, const std::byte* b) {
  if (std::memcmp(a, b, size_of(dtype)) == 0) return true;
  return std::isnan(element_value(dtype, a)) && std::isnan(element_value(dtype, b));
}

std::string element_hex(Dtype dtype, const std::byte* data) {
  if (std::isnan(element_value(dtype, data))) return "nan";
  std::string out;
  for (std::size_t i = size_of(dtype); i-- > 0;) {
    out += fmt::format("{:02x}", std::to_integer<unsigned>(data[i]));
  }
  return out;
}

}  // namespace shardproof
