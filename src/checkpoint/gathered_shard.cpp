// gathered_shard: see gathered_shard.h.
#include "checkpoint/gathered_shard.h"

#include <algorithm>
#include <exception>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"

namespace shardproof {
namespace {

std::string describe(std::span<const SaveItem> items) {
  Json json = Json::array();
  for (const SaveItem& item : items) {
    if (item.range.size() == 0) continue;
    json.push_back({item.what, item.piece.name, item.piece.piece, item.piece.pieces, item.piece.dim,
                    item.piece.global_shape, item.piece.box.offsets, item.piece.box.shape,
                    item.range.lo, item.range.hi, static_cast<int>(item.dtype)});
  }
  return json.dump();
}

SaveItem item_of(const Json& json) {
  SaveItem item;
  item.what = json.at(0).get<std::string>();
  item.piece.name = json.at(1).get<std::string>();
  item.piece.piece = json.at(2).get<int>();
  item.piece.pieces = json.at(3).get<int>();
  item.piece.dim = json.at(4).get<int>();
  item.piece.global_shape = json.at(5).get<Shape>();
  item.piece.box = {json.at(6).get<Shape>(), json.at(7).get<Shape>()};
  item.range = {json.at(8).get<std::int64_t>(), json.at(9).get<std::int64_t>()};
  item.dtype = static_cast<Dtype>(json.at(10).get<int>());
  return item;
}

std::size_t byte_count(const SaveItem& item) {
  return static_cast<std::size_t>(item.range.size()) * size_of(item.dtype);
}

// The chunks of all ranks' items, in order: those of rank 0 are there, the others' come in.
class Incoming {
 public:
  explicit Incoming(Communicator& comm) : comm_(comm) {}

  void add(SaveItem item, int rank) {
    items_.push_back(std::move(item));
    ranks_.push_back(rank);
  }
  const std::vector<SaveItem>& items() const { return items_; }

  // Called in order, each chunk once (shard_file.h).
  std::span<const std::byte> chunk(std::size_t item, std::size_t offset, std::size_t bytes) {
    SP_CHECK(item == item_ && offset == offset_, "chunks are taken in order");
    return take(bytes);
  }

  // What a failed writer left: the senders must not wait for it.
  void drain() {
    while (item_ < items_.size()) {
      take(std::min(chunk_bytes(items_[item_]), byte_count(items_[item_]) - offset_));
    }
  }

 private:
  std::span<const std::byte> take(std::size_t bytes) {
    const SaveItem& item = items_[item_];
    const int rank = ranks_[item_];
    std::span<const std::byte> out;
    if (rank == 0) {
      out = {static_cast<const std::byte*>(item.data) + offset_, bytes};
    } else {
      buffer_.resize(bytes);
      recv(comm_, buffer_.data(), bytes, Dtype::u8, rank, 0);
      out = buffer_;
    }
    offset_ += bytes;
    if (offset_ == byte_count(item)) {
      offset_ = 0;
      ++item_;
    }
    return out;
  }

  Communicator& comm_;
  std::vector<SaveItem> items_;
  std::vector<int> ranks_;
  std::vector<std::byte> buffer_;
  std::size_t item_ = 0, offset_ = 0;
};

void send_all(Communicator& comm, std::span<const SaveItem> mine) {
  for (const SaveItem& item : mine) {
    const auto* data = static_cast<const std::byte*>(item.data);
    const std::size_t chunk = chunk_bytes(item);
    for (std::size_t at = 0; at < byte_count(item); at += chunk) {
      send(comm, data + at, std::min(chunk, byte_count(item) - at), Dtype::u8, 0, 0);
    }
  }
}

}  // namespace

WrittenShard write_gathered(Storage* storage, Communicator& comm, const std::string& path,
                            const std::map<std::string, std::string>& metadata,
                            std::span<const SaveItem> mine) {
  const std::vector<std::string> texts = all_gather_text(comm, describe(mine));
  if (comm.rank() != 0) {
    send_all(comm, mine);
    return {};
  }
  Incoming incoming(comm);
  for (const SaveItem& item : mine) {
    if (item.range.size() > 0) incoming.add(item, 0);
  }
  for (int rank = 1; rank < comm.size(); ++rank) {
    const Json items = parse_json(texts[static_cast<std::size_t>(rank)], "a rank's items");
    for (const Json& item : items) incoming.add(item_of(item), rank);
  }
  try {
    return write_shard(storage, path, metadata, incoming.items(),
                       [&](std::size_t item, std::size_t offset, std::size_t bytes) {
                         return incoming.chunk(item, offset, bytes);
                       });
  } catch (...) {
    const std::exception_ptr first = std::current_exception();
    incoming.drain();
    std::rethrow_exception(first);
  }
}

}  // namespace shardproof
