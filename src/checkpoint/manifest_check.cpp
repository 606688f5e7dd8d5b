// manifest_check: whether a list of entries describes whole tensors. Nothing here multiplies or
// adds what a file claims without looking for overflow first.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "checkpoint/manifest.h"

namespace shardproof {
namespace {

constexpr std::size_t max_dims = 8;
constexpr int max_pieces = 4096;

auto piece_key(const ManifestEntry& entry) {
  return std::tie(entry.name, entry.what, entry.piece);
}

class EntryCheck {
 public:
  EntryCheck(const std::vector<ManifestEntry>& entries, const std::string& file)
      : entries_(entries), file_(file) {}

  void run() {
    for (at_ = 0; at_ < entries_.size(); ++at_) check_one();
    for (std::size_t begin = 0; begin < entries_.size();) begin = check_parameter(begin);
    check_file_ranges();
  }

 private:
  [[noreturn]] void refuse(const std::string& detail) const {
    throw Error(ErrorKind::corrupt, fmt::format("{}: {}", file_, entries_[at_].label()), detail);
  }

  std::int64_t elements(const Shape& shape, const char* what) const {
    if (shape.size() > max_dims) {
      refuse(fmt::format("{} has {} dims; expected at most {}", what, shape.size(), max_dims));
    }
    // Eight bytes an element must still be a 63-bit number.
    std::int64_t count = 8;
    for (const std::int64_t extent : shape) {
      if (extent < 0) refuse(fmt::format("{} has the extent {}", what, extent));
      if (__builtin_mul_overflow(count, extent, &count)) {
        refuse(fmt::format("{} overflows 63 bits", what));
      }
    }
    return count / 8;
  }

  void check_names(const ManifestEntry& entry) const {
    constexpr std::size_t longest = 256;
    constexpr const char* legal =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    for (const std::string* name : {&entry.name, &entry.what}) {
      if (name->empty() || name->size() > longest ||
          name->find_first_not_of(legal) != std::string::npos) {
        throw Error(ErrorKind::corrupt, fmt::format("{}: entry {}", file_, at_),
                    fmt::format("name and what: expected 1 to {} of A-Z a-z 0-9 . _ -", longest));
      }
    }
  }

  void check_box(const ManifestEntry& entry) const {
    elements(entry.global_shape, "the global shape");
    const std::size_t dims = entry.global_shape.size();
    if (entry.box.offsets.size() != dims || entry.box.shape.size() != dims) {
      refuse(fmt::format("the box has other dims than the global shape ({})", dims));
    }
    for (std::size_t i = 0; i < dims; ++i) {
      const std::int64_t offset = entry.box.offsets[i];
      const std::int64_t extent = entry.box.shape[i];
      const std::int64_t global = entry.global_shape[i];
      if (offset < 0 || extent < 0 || offset > global || extent > global - offset) {
        refuse(fmt::format("the box leaves the global shape in dim {}", i));
      }
    }
  }

  void check_one() const {
    const ManifestEntry& entry = entries_[at_];
    check_names(entry);
    check_box(entry);
    if (entry.pieces < 1 || entry.pieces > max_pieces || entry.piece >= entry.pieces) {
      refuse(fmt::format("piece {} of {}; expected at most {} pieces", entry.piece, entry.pieces,
                         max_pieces));
    }
    const std::int64_t count = elements(entry.box.shape, "the box");
    const ElementRange range = entry.range;
    const bool aligned =
        range.lo % block_elements == 0 && (range.hi % block_elements == 0 || range.hi == count);
    if (range.lo < 0 || range.lo >= range.hi || range.hi > count || !aligned) {
      refuse(fmt::format("expected a run of whole blocks of {} within the {} elements of the piece",
                         block_elements, count));
    }
    const auto bytes = static_cast<std::uint64_t>(range.size()) * size_of(entry.dtype);
    if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
      refuse(fmt::format("bytes [{}, {}) do not hold its {} bytes", entry.begin, entry.end, bytes));
    }
    const std::int64_t blocks = (range.size() + block_elements - 1) / block_elements;
    if (static_cast<std::int64_t>(entry.blocks.size()) != blocks) {
      refuse(fmt::format("{} block digests; expected {}", entry.blocks.size(), blocks));
    }
    if (entry.tensor != entry.key()) {
      refuse(fmt::format("its tensor key is not '{}'", entry.key()));
    }
    if (at_ > 0) check_order(entries_[at_ - 1], entry);
  }

  // Runs of a piece must follow each other; everything else must ascend.
  void check_order(const ManifestEntry& before, const ManifestEntry& entry) const {
    if (piece_key(before) == piece_key(entry)) {
      if (before.range == entry.range) refuse("a duplicate entry");
      if (entry.range.lo != before.range.hi) {
        refuse(fmt::format("{} after [{}:{}]",
                           entry.range.lo < before.range.hi ? "an overlap" : "a hole",
                           before.range.lo, before.range.hi));
      }
      if (before.dtype != entry.dtype || before.box != entry.box) {
        refuse("another dtype or box than the run before it");
      }
    } else if (piece_key(before) > piece_key(entry)) {
      refuse("out of order; expected entries sorted by name, what, piece and range");
    }
    if (before.name == entry.name && before.what == entry.what &&
        (before.pieces != entry.pieces || before.global_shape != entry.global_shape ||
         before.dtype != entry.dtype)) {
      refuse("another shape, dtype or number of pieces than the piece before it");
    }
  }

  // Every piece from its first element to its last, and the pieces tile the parameter. Returns the
  // first entry of the next parameter.
  std::size_t check_parameter(std::size_t begin) {
    std::vector<const Box*> boxes;
    std::size_t end = begin;
    for (; end < entries_.size() && entries_[end].name == entries_[begin].name &&
           entries_[end].what == entries_[begin].what;
         ++end) {
      at_ = end;
      const ManifestEntry& entry = entries_[end];
      const bool first = end == begin || piece_key(entries_[end - 1]) != piece_key(entry);
      const bool last =
          end + 1 == entries_.size() || piece_key(entries_[end + 1]) != piece_key(entry);
      const std::int64_t count = elements(entry.box.shape, "the box");
      if (first && entry.range.lo != 0) refuse("a hole before it");
      if (last && entry.range.hi != count) {
        refuse(fmt::format("a hole after it: the piece has {} elements", count));
      }
      if (first) boxes.push_back(&entry.box);
    }
    check_disjoint(boxes);
    // Disjoint boxes within the global shape: their sum cannot overflow.
    std::int64_t covered = 0;
    for (const Box* box : boxes) covered += elements(box->shape, "the box");
    const std::int64_t global = elements(entries_[begin].global_shape, "the global shape");
    if (covered != global) {
      refuse(fmt::format("the pieces hold {} elements of the parameter's {}", covered, global));
    }
    return end;
  }

  void check_disjoint(const std::vector<const Box*>& boxes) const {
    for (std::size_t a = 0; a < boxes.size(); ++a) {
      for (std::size_t b = a + 1; b < boxes.size(); ++b) {
        bool meet = true;
        for (std::size_t i = 0; i < boxes[a]->shape.size() && meet; ++i) {
          meet = boxes[a]->offsets[i] < boxes[b]->offsets[i] + boxes[b]->shape[i] &&
                 boxes[b]->offsets[i] < boxes[a]->offsets[i] + boxes[a]->shape[i];
        }
        if (meet) refuse("the boxes of two pieces overlap");
      }
    }
  }

  void check_file_ranges() {
    std::vector<std::size_t> order(entries_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::tie(entries_[a].file, entries_[a].begin) <
             std::tie(entries_[b].file, entries_[b].begin);
    });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const ManifestEntry& before = entries_[order[i - 1]];
      at_ = order[i];
      if (before.file == entries_[at_].file && entries_[at_].begin < before.end) {
        refuse(fmt::format("bytes [{}, {}) overlap those of {}", entries_[at_].begin,
                           entries_[at_].end, before.label()));
      }
    }
  }

  const std::vector<ManifestEntry>& entries_;
  const std::string& file_;
  std::size_t at_ = 0;
};

}  // namespace

void check_entries(const std::vector<ManifestEntry>& entries, const std::string& file) {
  EntryCheck(entries, file).run();
}

}  // namespace shardproof
