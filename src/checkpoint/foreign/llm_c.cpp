// llm_c: see the header. The layout is that of train_gpt2.cu of karpathy/llm.c.
#include "checkpoint/foreign/llm_c.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace shardproof::foreign {
namespace {

constexpr std::uint64_t magic = 20240326;
constexpr std::uint64_t header_bytes = 1024;
constexpr std::int64_t most = 1 << 24;  // of any extent

}  // namespace

bool looks_like_llm_c(std::span<const std::byte> file) {
  return file.size() >= 8 && number_at(file, 0, 4) == magic;
}

void read_llm_c(Checkpoint& checkpoint, const std::string& file) {
  const auto map = checkpoint.open(file);
  if (!map) return;
  const auto bytes = map->bytes();
  if (bytes.size() < header_bytes) {
    throw Error(
        ErrorKind::corrupt, file,
        fmt::format("truncation: {} bytes, and a header has {}", bytes.size(), header_bytes));
  }
  const auto field = [&](std::uint64_t i) {
    return static_cast<std::int64_t>(number_at(bytes, 4 * i, 4));
  };
  if (field(1) != 3 && field(1) != 5) {
    throw Error(ErrorKind::corrupt, file,
                fmt::format("version {} of llm.c's model file; expected 3 (float32) or 5 "
                            "(bfloat16)",
                            field(1)));
  }
  const std::int64_t positions = field(2), words_used = field(3), layers = field(4),
                     heads = field(5), c = field(6), vocabulary = field(7);
  for (const std::int64_t extent : {positions, words_used, layers, heads, c, vocabulary}) {
    if (extent < 1 || extent > most) {
      throw Error(ErrorKind::corrupt, file, fmt::format("a header with an extent of {}", extent));
    }
  }
  if (words_used > vocabulary || c % heads != 0) {
    checkpoint.damage(
        file + ": header", "a vocabulary within the padded one, whole heads",
        fmt::format("{} of {} words, {} heads of {} channels", words_used, vocabulary, heads, c));
  }
  const std::pair<const char*, Shape> tensors[] = {{"wte", {vocabulary, c}},
                                                   {"wpe", {positions, c}},
                                                   {"ln1w", {layers, c}},
                                                   {"ln1b", {layers, c}},
                                                   {"qkvw", {layers, 3 * c, c}},
                                                   {"qkvb", {layers, 3 * c}},
                                                   {"attprojw", {layers, c, c}},
                                                   {"attprojb", {layers, c}},
                                                   {"ln2w", {layers, c}},
                                                   {"ln2b", {layers, c}},
                                                   {"fcw", {layers, 4 * c, c}},
                                                   {"fcb", {layers, 4 * c}},
                                                   {"fcprojw", {layers, c, 4 * c}},
                                                   {"fcprojb", {layers, c}},
                                                   {"lnfw", {c}},
                                                   {"lnfb", {c}}};
  const ElementType type = element_type(field(1) == 3 ? "F32" : "BF16");
  std::uint64_t at = header_bytes;
  for (const auto& [name, shape] : tensors) {
    const std::int64_t elements = checked_elements(shape);
    if (elements < 0) throw Error(ErrorKind::corrupt, file, "a header that overflows");
    const std::uint64_t end = at + static_cast<std::uint64_t>(elements) * type.bytes;
    if (end > bytes.size()) {
      checkpoint.damage(fmt::format("{}: {}", file, name), fmt::format("bytes [{}, {})", at, end),
                        fmt::format("truncation: the file has {} bytes", bytes.size()));
      return;
    }
    checkpoint.add({name,
                    type,
                    shape,
                    {{.box = {Shape(shape.size(), 0), shape},
                      .run = {},
                      .file = file,
                      .begin = at,
                      .end = end}}});
    at = end;
  }
  if (at < bytes.size()) {
    checkpoint.damage(file, fmt::format("{} bytes, as its header says", at),
                      fmt::format("{} bytes", bytes.size()));
  }
}

}  // namespace shardproof::foreign
