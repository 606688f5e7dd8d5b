// The shape: legality, pieces, initial values.
#include "model/gpt_shape.h"

#include <fmt/format.h>
#include <charconv>

#include <cmath>

#include "base/check.h"
#include "base/philox.h"

namespace shardproof {
namespace {

bool ends_with(const std::string& text, std::string_view ending) {
  return text.size() >= ending.size() &&
         text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

std::string divisors(int n) {
  std::string text;
  for (int i = 1; i <= n; ++i) {
    if (n % i == 0) text += (text.empty() ? "" : ", ") + std::to_string(i);
  }
  return text;
}

// The standard deviation of a parameter's initial values; 0 for LayerNorm weights, which are 1.
double deviation(const GptShape& shape, const std::string& name) {
  if (name.find("ln") != std::string::npos && ends_with(name, ".weight")) return 0;
  if (ends_with(name, ".proj.weight") || ends_with(name, ".down.weight")) {
    return 0.02 / std::sqrt(2.0 * shape.layers);
  }
  return 0.02;
}

std::int64_t global_index(const PieceSpec& piece, std::int64_t element) {
  std::int64_t index = 0;
  std::int64_t stride = 1;
  for (std::size_t d = piece.box.shape.size(); d-- > 0;) {
    index += (piece.box.offsets[d] + element % piece.box.shape[d]) * stride;
    element /= piece.box.shape[d];
    stride *= piece.global_shape[d];
  }
  return index;
}

}  // namespace

std::string problem(const GptShape& shape) {
  const struct {
    const char* name;
    int value;
  } positive[] = {{"layers", shape.layers},
                  {"width", shape.width},
                  {"heads", shape.heads},
                  {"vocabulary", shape.vocabulary},
                  {"sequence", shape.sequence},
                  {"tensor pieces", shape.tensor_pieces},
                  {"sequence pieces", shape.sequence_pieces}};
  for (const auto& field : positive) {
    if (field.value < 1) {
      return fmt::format("{} is {}; expected at least 1", field.name, field.value);
    }
  }
  if (shape.width % shape.heads != 0) {
    return fmt::format("width {} is not divisible by heads {}; expected heads to be one of {}",
                       shape.width, shape.heads, divisors(shape.width));
  }
  if (shape.heads % shape.tensor_pieces != 0) {
    return fmt::format("tensor pieces {} do not divide heads {}; expected one of {}",
                       shape.tensor_pieces, shape.heads, divisors(shape.heads));
  }
  if (shape.vocabulary < shape.tensor_pieces) {
    return fmt::format("vocabulary {} is smaller than tensor pieces {}", shape.vocabulary,
                       shape.tensor_pieces);
  }
  if (shape.sequence % shape.sequence_pieces != 0) {
    return fmt::format("sequence pieces {} do not divide sequence {}; expected one of {}",
                       shape.sequence_pieces, shape.sequence, divisors(shape.sequence));
  }
  if (!(shape.dropout >= 0 && shape.dropout < 1)) {
    return fmt::format("dropout is {}; expected 0 <= dropout < 1", shape.dropout);
  }
  if (!(shape.label_smoothing >= 0 && shape.label_smoothing <= 1)) {
    return fmt::format("label smoothing is {}; expected 0 <= label smoothing <= 1",
                       shape.label_smoothing);
  }
  return "";
}

std::optional<int> block_of(std::string_view parameter) {
  constexpr std::string_view blocks = "blocks.";
  if (!parameter.starts_with(blocks)) return std::nullopt;
  int block = -1;
  const char* end = parameter.data() + parameter.size();
  const auto [rest, error] = std::from_chars(parameter.data() + blocks.size(), end, block);
  SP_CHECK(error == std::errc() && rest != end && *rest == '.', std::string(parameter));
  return block;
}

std::vector<PieceSpec> gpt_pieces(const GptShape& shape) {
  const std::int64_t d = shape.width;
  std::vector<PieceSpec> pieces;
  const auto add = [&](const std::string& name, const Shape& global, int dim) {
    const auto cuts = cut(name, global, dim, dim < 0 ? 1 : shape.tensor_pieces);
    pieces.insert(pieces.end(), cuts.begin(), cuts.end());
  };
  add("embed.weight", {shape.vocabulary, d}, 0);
  add("pos.weight", {shape.sequence, d}, -1);
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string block = fmt::format("blocks.{}.", layer);
    for (const char* norm : {"ln1", "ln2"}) {
      add(block + norm + ".weight", {d}, -1);
      add(block + norm + ".bias", {d}, -1);
    }
    for (const char* use : {"q", "k", "v"}) {
      add(block + "attn." + use + ".weight", {d, d}, 0);
      add(block + "attn." + use + ".bias", {d}, 0);
    }
    add(block + "attn.proj.weight", {d, d}, 1);
    add(block + "attn.proj.bias", {d}, -1);
    add(block + "mlp.up.weight", {4 * d, d}, 0);
    add(block + "mlp.up.bias", {4 * d}, 0);
    add(block + "mlp.down.weight", {d, 4 * d}, 1);
    add(block + "mlp.down.bias", {d}, -1);
  }
  add("ln_f.weight", {d}, -1);
  add("ln_f.bias", {d}, -1);
  if (!shape.tied) add("head.weight", {shape.vocabulary, d}, 0);
  return pieces;
}

void initial_values(const GptShape& shape, const PieceSpec& piece, ElementRange range,
                    std::uint64_t seed, float* out) {
  SP_CHECK(0 <= range.lo && range.lo <= range.hi && range.hi <= piece.elements(), piece.name);
  const double scale = deviation(shape, piece.name);
  const Random random(seed, Purpose::initial_weight, stream_id(piece.name.c_str()));
  for (std::int64_t i = range.lo; i < range.hi; ++i) {
    const auto index = static_cast<std::uint64_t>(global_index(piece, i));
    *out++ = scale == 0 ? 1.0f : static_cast<float>(scale * double{random.normal(index)});
  }
}

float initial_value(const GptShape& shape, const PieceSpec& piece, std::int64_t element_in_piece,
                    std::uint64_t seed) {
  float value = 0;
  initial_values(shape, piece, {element_in_piece, element_in_piece + 1}, seed, &value);
  return value;
}

double parameter_count(const GptShape& shape) {
  const double d = shape.width;
  const double tables = (shape.tied ? 1 : 2) * d * shape.vocabulary + d * shape.sequence;
  return tables + (12 * d + 13) * d * shape.layers + 2 * d;
}

double flops_per_token(const GptShape& shape) {
  const double d = shape.width;
  const double matmul = 12 * d * d * shape.layers + d * shape.vocabulary;
  return 6 * matmul + 12 * d * shape.layers * shape.sequence;
}

}  // namespace shardproof
