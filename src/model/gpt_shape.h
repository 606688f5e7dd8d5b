// gpt_shape: the numbers that fix a GPT, and its parameters cut into logical pieces. Torch-free.
// Parameters (V tensor pieces where a dim is named):
//   embed.weight [vocab,d] dim 0; pos.weight [T,d] whole
//   blocks.L.{ln1,ln2}.{weight,bias} [d] whole
//   blocks.L.attn.{q,k,v}.weight [d,d] dim 0, .bias [d] dim 0       (pieces are whole heads)
//   blocks.L.attn.proj.weight [d,d] dim 1, .bias [d] whole          (row-parallel: bias once)
//   blocks.L.mlp.up.weight [4d,d] dim 0, .bias [4d] dim 0
//   blocks.L.mlp.down.weight [d,4d] dim 1, .bias [d] whole
//   ln_f.{weight,bias} [d] whole; head.weight [vocab,d] dim 0       (tied: embed.weight instead)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/piece.h"

namespace shardproof {

struct GptShape {
  int layers = 2;
  int width = 32;
  int heads = 4;
  int vocabulary = 64;
  int sequence = 16;
  int tensor_pieces = 2;       // V: divides heads; every other cut may be uneven
  int sequence_pieces = 2;     // S: divides sequence
  double dropout = 0;          // on embeddings and on both residual branches' outputs
  bool packed = false;         // attention stays inside a document
  double label_smoothing = 0;  // of the loss, over the whole vocabulary
  bool tied = false;           // the head's weight is embed.weight
};

// Empty when the shape is legal, else what is wrong and what was expected.
std::string problem(const GptShape& shape);
std::vector<PieceSpec> gpt_pieces(const GptShape& shape);
// The block of a parameter, by its name ("blocks.3.ln1.weight": 3); nothing for the model's ends.
std::optional<int> block_of(std::string_view parameter);
inline constexpr std::string_view tied_weight = "embed.weight";  // the head's too, where tied
// Weights: normal(0, 0.02), residual projections scaled by 1/sqrt(2 layers), LayerNorm weights 1;
// biases normal(0, 0.02) as well, so that a bias added twice shows at step 0. Element i of the
// GLOBAL parameter is a function of (seed, name, i).
float initial_value(const GptShape& shape, const PieceSpec& piece, std::int64_t element_in_piece,
                    std::uint64_t seed);
// The same for a range of elements of the piece, at a fraction of the cost per element.
void initial_values(const GptShape& shape, const PieceSpec& piece, ElementRange range,
                    std::uint64_t seed, float* out);
double parameter_count(const GptShape& shape);  // P, from the formula: nothing is laid out
// Multiply-adds x 2 of one forward and backward over one token: 6 x (parameters of products, the
// head's product among them, tied or not) + attention 12 x layers x width x sequence (Chowdhery et
// al., PaLM, 2022, appendix B).
double flops_per_token(const GptShape& shape);

}  // namespace shardproof
