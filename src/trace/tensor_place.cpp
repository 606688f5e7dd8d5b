// tensor_place: bounds without overflow, for numbers that come from outside.
#include "trace/tensor_place.h"

#include <fmt/format.h>

#include <limits>

#include "base/error.h"

namespace shardproof {
namespace {

bool is_int64(const Json& value) {
  if (!value.is_number_unsigned()) return value.is_number_integer();
  return value.get<std::uint64_t>() <=
         static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
}

}  // namespace

void check_place(const TensorPlace& place, const std::string& where) {
  const auto refuse = [&](const std::string& detail) {
    throw Error(ErrorKind::corrupt, where, fmt::format("tensor \"{}\": {}", place.name, detail));
  };
  const Box& box = place.box;
  const std::size_t dims = place.global_shape.size();
  if (box.offsets.size() != dims || box.shape.size() != dims) {
    refuse(fmt::format("{} offsets and a shape of {} dims in a tensor of {}", box.offsets.size(),
                       box.shape.size(), dims));
  }
  std::int64_t total = 1;
  std::int64_t inside = 1;
  for (std::size_t i = 0; i < dims; ++i) {
    const std::int64_t extent = place.global_shape[i];
    const std::int64_t lo = box.offsets[i];
    const std::int64_t size = box.shape[i];
    if (extent < 0 || lo < 0 || size < 0 || lo > extent || size > extent - lo) {
      refuse(fmt::format("dim {}: offset {}, size {} leave [0, {})", i, lo, size, extent));
    }
    if (__builtin_mul_overflow(total, extent, &total) ||
        __builtin_mul_overflow(inside, size, &inside)) {
      refuse("the shape overflows 63 bits");
    }
  }
  const ElementRange& range = place.range;
  if (place.is_run && (range.lo < 0 || range.hi < range.lo || range.hi > inside)) {
    refuse(fmt::format("the range [{}, {}) leaves the piece's {} elements", range.lo, range.hi,
                       inside));
  }
}

std::int64_t element_count(const TensorPlace& place) {
  return place.is_run ? place.range.size() : element_count(place.box.shape);
}

std::int64_t digest_blocks(const TensorPlace& place) {
  if (!place.is_run || place.range.lo % block_elements != 0) return 0;
  return (place.range.size() + block_elements - 1) / block_elements;
}

std::vector<std::int64_t> integers_member(const Json& object, const char* key,
                                          const std::string& where) {
  const Json& values = member(object, key, where);
  bool good = values.is_array();
  for (std::size_t i = 0; good && i < values.size(); ++i) good = is_int64(values[i]);
  if (!good) {
    throw Error(ErrorKind::corrupt, where,
                fmt::format("\"{}\": expected an array of 64-bit integers", key));
  }
  return values.get<std::vector<std::int64_t>>();
}

ElementRange range_member(const Json& object, const char* key, const std::string& where) {
  const std::vector<std::int64_t> bounds = integers_member(object, key, where);
  if (bounds.size() != 2) {
    throw Error(ErrorKind::corrupt, where,
                fmt::format("\"{}\": expected [lo, hi], found {} integers", key, bounds.size()));
  }
  return {bounds[0], bounds[1]};
}

int piece_member(const Json& object, const std::string& where) {
  if (!object.contains("piece")) return 0;
  const std::int64_t piece = integer_member(object, "piece", where);
  if (piece < 0 || piece > std::numeric_limits<int>::max()) {
    throw Error(ErrorKind::corrupt, where,
                fmt::format("\"piece\": expected an int >= 0, found {}", piece));
  }
  return static_cast<int>(piece);
}

}  // namespace shardproof
