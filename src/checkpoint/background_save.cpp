// background_save: see background_save.h.
#include "checkpoint/background_save.h"

#include <cstring>
#include <utility>

#include "base/check.h"

namespace shardproof {

BackgroundSave::BackgroundSave(Storage& storage, std::unique_ptr<Communicator> comm, SaveAs as)
    : storage_(storage), comm_(std::move(comm)), as_(as) {}

BackgroundSave::~BackgroundSave() {
  if (thread_.joinable()) thread_.join();  // its waits have deadlines
}

void BackgroundSave::start(const std::string& id, const CheckpointFacts& facts,
                           std::span<const SaveItem> mine) {
  SP_CHECK(!under_way(), "a save is under way: finish it first");
  id_ = id;
  facts_ = facts;
  failure_ = nullptr;
  const std::span<const SaveItem> items = copy(mine);
  ended_ = false;
  thread_ = std::thread([this, items] {
    try {
      report_ = save_checkpoint(storage_, *comm_, id_, facts_, items, as_);
    } catch (...) {
      failure_ = std::current_exception();
    }
    ended_ = true;
  });
}

std::optional<SaveReport> BackgroundSave::finish() {
  if (!under_way()) return std::nullopt;
  thread_.join();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  return report_;
}

std::span<const SaveItem> BackgroundSave::copy(std::span<const SaveItem> mine) {
  std::size_t total = 0;
  const auto size = [](const SaveItem& item) {
    return static_cast<std::size_t>(item.range.size()) * size_of(item.dtype);
  };
  for (const SaveItem& item : mine) total += size(item);
  bytes_.resize(total);
  items_.assign(mine.begin(), mine.end());
  std::size_t at = 0;
  for (SaveItem& item : items_) {
    if (size(item) == 0) continue;
    std::memcpy(bytes_.data() + at, item.data, size(item));
    item.data = bytes_.data() + at;
    at += size(item);
  }
  return items_;
}

}  // namespace shardproof
