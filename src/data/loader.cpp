// loader: the prefetching queue around a Sequence and a Dataset. See loader.h for its promises.
#include "data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "data/sequence.h"

namespace shardproof {
namespace {

void check_config(const Dataset& dataset, const LoaderConfig& config,
                  const std::vector<int>& mine) {
  SP_CHECK(config.micro_batches > 0 && config.rows > 0 && config.length > 0 && config.workers >= 0,
           fmt::format("{} micro-batches of {} x {}, {} workers", config.micro_batches, config.rows,
                       config.length, config.workers));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    SP_CHECK(mine[i] >= 0 && mine[i] < config.micro_batches && (i == 0 || mine[i - 1] < mine[i]),
             fmt::format("micro-batch {} at {}", mine[i], i));
  }
  const std::int64_t step = std::int64_t{config.micro_batches} * config.rows;
  const bool has_epochs = dataset.sources().empty();
  SP_CHECK(has_epochs || config.last == LastBatch::drop, "a mixture has no short batches");
  if (has_epochs && config.last == LastBatch::drop && dataset.size() < step) {
    throw Error(ErrorKind::bad_input, "data",
                fmt::format("an epoch holds {} samples and a global batch takes {}; expected at "
                            "least that many, or data.last short",
                            dataset.size(), step));
  }
}

}  // namespace

// With workers: each takes the next step under the lock, makes its rows outside it, and puts them
// into `ready_`, at most `depth_` steps ahead of next(). A seek begins a new generation; what an
// older one still makes is thrown away.
struct Loader::Impl {
  struct Ready {
    std::vector<MicroBatch> batches;
    std::exception_ptr error;
    DataCursor after;
  };

  Impl(std::shared_ptr<const Dataset> dataset, const LoaderConfig& config, std::vector<int> mine)
      : dataset_(std::move(dataset)),
        config_(config),
        mine_(std::move(mine)),
        sequence_(make_sequence(*dataset_, config)),
        cursor_(sequence_->start()),
        ahead_(cursor_),
        depth_(2 * config.workers) {
    for (int i = 0; i < config_.workers; ++i) workers_.emplace_back([this] { work(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    room_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  std::vector<MicroBatch> next() {
    if (workers_.empty()) {
      StepPlan plan = sequence_->take(cursor_);
      std::vector<MicroBatch> batches = make(plan);
      cursor_ = plan.after;
      return batches;
    }
    std::unique_lock lock(mutex_);
    const auto arrived = [this] { return ready_.contains(returned_); };
    if (!filled_.wait_for(lock, config_.timeout, arrived)) {
      throw Error(
          ErrorKind::timeout, "data",
          fmt::format("a prefetch worker did not make the next batch (epoch {}, {} samples "
                      "taken) in {} s",
                      cursor_.epoch, cursor_.sources.empty() ? cursor_.taken : cursor_.samples,
                      std::chrono::duration<double>(config_.timeout).count()));
    }
    Ready& ready = ready_.at(returned_);
    if (ready.error) std::rethrow_exception(ready.error);
    std::vector<MicroBatch> batches = std::move(ready.batches);
    cursor_ = ready.after;
    ready_.erase(returned_++);
    lock.unlock();
    room_.notify_one();
    return batches;
  }

  DataCursor cursor() const {
    const std::lock_guard lock(mutex_);
    return cursor_;
  }

  void seek(const DataCursor& cursor, Remix remix) {
    {
      const std::lock_guard lock(mutex_);
      cursor_ = ahead_ = sequence_->adopt(cursor, remix);
      ++generation_;
      ready_.clear();
      returned_ = taken_ = 0;
    }
    room_.notify_all();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      room_.wait(lock, [this] { return stopped_ || taken_ < returned_ + depth_; });
      if (stopped_) return;
      const std::int64_t generation = generation_;
      const std::int64_t step = taken_++;
      const StepPlan plan = sequence_->take(ahead_);
      ahead_ = plan.after;
      lock.unlock();
      Ready ready{{}, nullptr, plan.after};
      try {
        ready.batches = make(plan);
      } catch (...) {
        ready.error = std::current_exception();
      }
      lock.lock();
      if (generation != generation_) continue;
      ready_[step] = std::move(ready);
      filled_.notify_one();
    }
  }

  std::vector<MicroBatch> make(const StepPlan& plan) const {
    std::vector<MicroBatch> batches;
    for (const int index : mine_) {
      const auto ids = plan.ids.begin() + std::ptrdiff_t{index} * config_.rows;
      MicroBatch& batch = batches.emplace_back();
      batch.index = index;
      batch.rows = config_.rows;
      batch.length = config_.length;
      batch.sample_ids.assign(ids, ids + config_.rows);
      const auto elements = static_cast<std::size_t>(config_.rows) * length();
      batch.tokens.assign(elements, 0);
      batch.targets.assign(elements, MicroBatch::ignored);
      batch.positions.resize(elements);
      if (dataset_->packed()) batch.documents.assign(elements, 0);
      for (int row = 0; row < config_.rows; ++row) fill_row(batch, static_cast<std::size_t>(row));
    }
    return batches;
  }

  void fill_row(MicroBatch& batch, std::size_t row) const {
    const auto part = [&](std::vector<std::int32_t>& values) {
      return values.empty() ? std::span<std::int32_t>()
                            : std::span(values).subspan(row * length(), length());
    };
    if (batch.sample_ids[row] == filled_row) {
      const auto positions = part(batch.positions);
      std::iota(positions.begin(), positions.end(), 0);
      return;
    }
    dataset_->sample(batch.sample_ids[row], {part(batch.tokens), part(batch.targets),
                                             part(batch.positions), part(batch.documents)});
  }

  std::size_t length() const { return static_cast<std::size_t>(config_.length); }

  const std::shared_ptr<const Dataset> dataset_;
  const LoaderConfig config_;
  const std::vector<int> mine_;

  mutable std::mutex mutex_;        // guards everything below
  std::condition_variable room_;    // a worker may take a step, or must stop
  std::condition_variable filled_;  // a step is ready
  const std::unique_ptr<Sequence> sequence_;
  DataCursor cursor_;  // after what next() returned
  DataCursor ahead_;   // after what workers took
  std::map<std::int64_t, Ready> ready_;
  std::int64_t returned_ = 0;  // steps, since the last seek
  std::int64_t taken_ = 0;
  std::int64_t generation_ = 0;
  const std::int64_t depth_;
  bool stopped_ = false;
  std::vector<std::thread> workers_;  // last: they use all of the above
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, LoaderConfig config, std::vector<int> mine) {
  check_config(*dataset, config, mine);
  impl_ = std::make_unique<Impl>(std::move(dataset), config, std::move(mine));
}

Loader::~Loader() = default;

std::vector<MicroBatch> Loader::next() {
  return impl_->next();
}
DataCursor Loader::cursor() const {
  return impl_->cursor();
}
void Loader::seek(const DataCursor& cursor, Remix remix) {
  impl_->seek(cursor, remix);
}

}  // namespace shardproof
