// offload: a tensor of host memory, or a run of blocks in a file.
#include "parallel/offload.h"

#include <algorithm>

#include "base/check.h"
#include "parallel/flat.h"
#include "parallel/offload_file.h"

namespace shardproof {
namespace {

class Timed {
 public:
  explicit Timed(OffloadTraffic& traffic) : traffic_(traffic), begun_(Clock::real().now()) {
    ++traffic_.calls;
  }
  ~Timed() { traffic_.time += Clock::real().now() - begun_; }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  OffloadTraffic& traffic_;
  const Duration begun_;
};

std::span<float> values_of(at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

class HostShare : public OffloadedShare {
 public:
  explicit HostShare(std::int64_t elements)
      : OffloadedShare(elements), values_(flat_zeros(elements, MemoryUse::offloaded)) {}

  float* view() override { return values_.data_ptr<float>(); }
  void keep_view() override {}
  void drop_view() override {}

 private:
  void get(std::int64_t lo, std::span<float> to) override {
    std::copy_n(values_.const_data_ptr<float>() + lo, to.size(), to.data());
  }
  void put(std::int64_t lo, std::span<const float> from) override {
    std::ranges::copy(from, values_.data_ptr<float>() + lo);
  }

  at::Tensor values_;
};

class FileShare : public OffloadedShare {
 public:
  FileShare(OffloadFile& file, std::int64_t elements)
      : OffloadedShare(elements), file_(file), block_(file.reserve(elements)) {}

  float* view() override {
    if (!view_.defined()) {
      view_ = flat_empty(elements(), MemoryUse::offloaded);
      const Timed timed(view_traffic_);
      file_.read(block_, values_of(view_));
      view_traffic_.bytes_in += bytes();
    }
    return view_.data_ptr<float>();
  }
  void keep_view() override {
    if (!view_.defined()) return;
    const Timed timed(view_traffic_);
    file_.write(block_, values_of(view_));
    view_traffic_.bytes_out += bytes();
    drop_view();
  }
  void drop_view() override { view_ = at::Tensor(); }

 private:
  void get(std::int64_t lo, std::span<float> to) override {
    file_.read(block_ + lo / block_elements, to);
  }
  void put(std::int64_t lo, std::span<const float> from) override {
    drop_view();
    file_.write(block_ + lo / block_elements, from);
  }

  OffloadFile& file_;
  const std::int64_t block_;
  at::Tensor view_;
};

class HostStore : public OffloadStore {
 public:
  std::unique_ptr<OffloadedShare> make(std::int64_t elements) override {
    return std::make_unique<HostShare>(elements);
  }
};

class FileStore : public OffloadStore {
 public:
  FileStore(const std::string& directory, int rank) : file_(directory, rank) {}
  std::unique_ptr<OffloadedShare> make(std::int64_t elements) override {
    return std::make_unique<FileShare>(file_, elements);
  }

 private:
  OffloadFile file_;
};

void check_range(std::int64_t lo, std::size_t count, std::int64_t elements) {
  const std::int64_t hi = lo + static_cast<std::int64_t>(count);
  SP_CHECK(0 <= lo && hi <= elements, "a range outside the share");
  SP_CHECK(lo % block_elements == 0 && (hi % block_elements == 0 || hi == elements),
           "a range that cuts a block");
}

}  // namespace

void OffloadedShare::bring_in(std::int64_t lo, std::span<float> to) {
  check_range(lo, to.size(), elements_);
  if (to.empty()) return;
  const Timed timed(traffic_);
  get(lo, to);
  traffic_.bytes_in += static_cast<std::int64_t>(to.size_bytes());
}

void OffloadedShare::put_out(std::int64_t lo, std::span<const float> from) {
  check_range(lo, from.size(), elements_);
  if (from.empty()) return;
  const Timed timed(traffic_);
  put(lo, from);
  traffic_.bytes_out += static_cast<std::int64_t>(from.size_bytes());
}

std::unique_ptr<OffloadStore> make_offload_store(OffloadTo to, const std::string& directory,
                                                 int world_rank) {
  switch (to) {
    case OffloadTo::none:
      return nullptr;
    case OffloadTo::host:
      return std::make_unique<HostStore>();
    case OffloadTo::file:
      return std::make_unique<FileStore>(directory, world_rank);
  }
  SP_CHECK(false, "no such store");
}

}  // namespace shardproof
