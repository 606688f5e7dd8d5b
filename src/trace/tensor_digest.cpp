// tensor_digest: two passes over the bytes, one for the norm and one for the digests.
#include "trace/tensor_digest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/digest.h"
#include "trace/tensor_place.h"

namespace shardproof {
namespace {

template <typename T, typename ToDouble>
double square_sum(const void* data, std::int64_t elements, ToDouble to_double) {
  const char* at = static_cast<const char*>(data);
  double sum = 0;
  for (std::int64_t i = 0; i < elements; ++i, at += sizeof(T)) {
    T element;
    std::memcpy(&element, at, sizeof(T));
    const double value = to_double(element);
    sum += value * value;
  }
  return sum;
}

template <typename T>
double plain_square_sum(const void* data, std::int64_t elements) {
  return square_sum<T>(data, elements, [](T element) { return static_cast<double>(element); });
}

double norm_of(const TensorView& view) {
  const auto sum = [&] {
    const std::int64_t elements = view.elements();
    switch (view.dtype) {
      case Dtype::f32:
        return plain_square_sum<float>(view.data, elements);
      case Dtype::f64:
        return plain_square_sum<double>(view.data, elements);
      case Dtype::bf16:
        return square_sum<std::uint16_t>(view.data, elements, bf16_to_float);
      case Dtype::f16:
        return square_sum<std::uint16_t>(view.data, elements, f16_to_float);
      case Dtype::i32:
        return plain_square_sum<std::int32_t>(view.data, elements);
      case Dtype::i64:
        return plain_square_sum<std::int64_t>(view.data, elements);
      case Dtype::u8:
        return plain_square_sum<std::uint8_t>(view.data, elements);
    }
    check_failed("known Dtype", __FILE__, __LINE__, std::to_string(static_cast<int>(view.dtype)));
  }();
  return std::isnan(sum) ? std::numeric_limits<double>::quiet_NaN() : std::sqrt(sum);
}

}  // namespace

TensorRecord digest_tensor(std::int64_t step, const std::string& what, const TensorView& view) {
  TensorRecord record;
  record.step = step;
  record.what = what;
  record.place = view.place;
  record.dtype = view.dtype;
  record.norm = norm_of(view);
  const char* at = static_cast<const char*>(view.data);
  std::size_t left = static_cast<std::size_t>(view.elements()) * size_of(view.dtype);
  const std::int64_t blocks = digest_blocks(view.place);
  if (blocks == 0) {
    record.sha256 = sha256(at, left).hex();
    return record;
  }
  const std::size_t block_bytes = block_elements * size_of(view.dtype);
  Sha256 digest;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::size_t bytes = std::min(left, block_bytes);
    record.blocks.push_back(digest.update(at, bytes).finish().hex());
    at += bytes;
    left -= bytes;
  }
  return record;
}

}  // namespace shardproof
