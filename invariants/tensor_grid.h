// tensor_grid: the tensors of a trace at one (step, what), laid on the global grid of elements, so
// that runs cut differently can be compared. Two views: digests (one per block or entry, comparable
// where the cuts are the same) and bytes (comparable always). Torch-free. Thread rule: pure.
// Not checked here: that places tile their tensors (check_cover), that replicas agree
// (check_replicas).
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "invariants/verdict.h"
#include "trace/reader.h"

namespace shardproof {

// Which elements a digest stands for: a range, row-major, inside a box of a named tensor.
struct DigestKey {
  std::string name;
  Shape offsets;
  Shape shape;
  std::int64_t lo = 0;
  std::int64_t hi = 0;
  auto operator<=>(const DigestKey&) const = default;
};

struct HeldDigest {
  int rank = 0;
  int piece = 0;
  Dtype dtype = Dtype::f32;
  std::string digest;
};

// Holders in ascending order of rank.
using DigestMap = std::map<DigestKey, std::vector<HeldDigest>>;
DigestMap digests_at(const Trace& trace, std::int64_t step, const std::string& what);

// Whether any rank has a digest or a file at (step, what).
bool holds_tensors(const Trace& trace, std::int64_t step, const std::string& what);
// The steps at which any rank has a digest or a file of `what`, ascending.
std::vector<std::int64_t> tensor_steps(const Trace& trace, const std::string& what);

// The elements of a place, in its own order: [lo, hi) of its box.
ElementRange elements_of(const TensorPlace& place);
void check_place(const TensorPlace& place, const std::string& where);  // Error corrupt

// Calls f(global_index, local_index, count) for each contiguous stretch of a place, in order.
// `local_index` counts from the first element of the place.
template <typename F>
void for_each_stretch(const TensorPlace& place, const F& f) {
  const Shape& global = place.global_shape;
  const std::int64_t row = global.empty() ? 1 : place.box.shape.back();
  const ElementRange range = elements_of(place);
  for (std::int64_t i = range.lo; i < range.hi;) {
    std::int64_t rest = i / row, stride = 1, index = 0;
    const std::int64_t column = i % row;
    for (std::size_t d = global.size(); d-- > 0;) {
      const bool last = d + 1 == global.size();
      const std::int64_t at = last ? column : rest % place.box.shape[d];
      if (!last) rest /= place.box.shape[d];
      index += (place.box.offsets[d] + at) * stride;
      stride *= global[d];
    }
    const std::int64_t count = std::min(row - column, range.hi - i);
    f(index, i - range.lo, count);
    i += count;
  }
}

// One captured entry of one rank; `file` keeps the bytes mapped.
struct HeldBytes {
  int rank = 0;
  TensorFile file;
  TensorFile::Entry entry;
};

// All captured entries at (step, what) by tensor name, ranks ascending.
using BytesMap = std::map<std::string, std::vector<HeldBytes>>;
BytesMap bytes_at(const Trace& trace, std::int64_t step, const std::string& what);

// The first entry that holds a global element, and the element's number in its box.
struct Located {
  int rank = -1;
  int piece = -1;
  std::int64_t element = -1;
};
Located locate(const std::vector<HeldBytes>& entries, std::int64_t global_index);

// A tensor put together from entries. The first holder of an element counts.
struct GlobalTensor {
  Shape shape;
  Dtype dtype = Dtype::f32;
  std::vector<std::byte> bytes;
  std::vector<bool> present;

  std::int64_t elements() const { return static_cast<std::int64_t>(present.size()); }
  std::vector<float> floats() const;  // of an F32 tensor without holes; Error corrupt otherwise
};
GlobalTensor assemble(const std::vector<HeldBytes>& entries);

// The bits of an element with every NaN made the same NaN, big-endian hex.
std::string element_hex(Dtype dtype, const std::byte* data);
bool same_element(Dtype dtype, const std::byte* a, const std::byte* b);
double element_value(Dtype dtype, const std::byte* data);

}  // namespace shardproof
