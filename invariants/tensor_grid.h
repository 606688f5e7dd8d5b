// tensor_grid: the tensors of a trace at one (step, what), laid on the global grid of elements, so
// that runs cut differently can be compared. Two views: digests (one per block or entry, comparable
// where the cuts are the same) and bytes (comparable always). Torch-free. Thread rule: pure.
// Not checked here: that places tile their tensors (check_cover), that replicas agree
// (check_replicas).
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>
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

// Elements of a place that lie side by side in the global tensor too. `local` counts from the first
// element of the place.
struct Stretch {
  std::int64_t global = 0;
  std::int64_t local = 0;
  std::int64_t count = 0;
};

// The stretches of a place, in order; both numbers ascend. Precondition: check_place passed.
class StretchWalk {
 public:
  explicit StretchWalk(const TensorPlace& place);
  // The next one in front of the global element `end`, cut there where it goes on behind it.
  std::optional<Stretch> next(std::int64_t end = std::numeric_limits<std::int64_t>::max());

 private:
  struct Dim {
    std::int64_t offset, size, stride;
  };
  std::vector<Dim> outer_;      // dims of which a stretch has one index
  std::int64_t row_ = 1;        // elements of the box that lie side by side
  std::int64_t row_begin_ = 0;  // where a row begins behind its outer indices
  std::int64_t lo_, at_, hi_;   // elements of the box
};

// Calls f(global_index, local_index, count) for each stretch of a place.
template <typename F>
void for_each_stretch(const TensorPlace& place, const F& f) {
  StretchWalk walk(place);
  while (const auto each = walk.next()) f(each->global, each->local, each->count);
}

// The number of a global element in a place's box; nothing where the place does not hold it.
std::optional<std::int64_t> element_in(const TensorPlace& place, std::int64_t global_index);
// [3,17]
Shape index_of(const Shape& shape, std::int64_t global_index);

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
// The ranks that hold it, ascending, each once.
std::vector<int> holders(const std::vector<HeldBytes>& entries, std::int64_t global_index);
// Error corrupt unless all entries claim one shape and dtype and hold as many elements as it has.
void check_alike(const std::vector<HeldBytes>& entries);

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
void element_values(Dtype dtype, const std::byte* data, std::span<double> out);
// How many roundings of its dtype two values are apart: |a - b| / (u x the larger); 0 where that
// is no number, or the dtype does not round.
double roundings_apart(Dtype dtype, double a, double b);

}  // namespace shardproof
