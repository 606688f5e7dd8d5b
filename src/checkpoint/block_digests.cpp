// block_digests: see block_digests.h. The rounds are those of FIPS 180-4; the instructions hold the
// eight words of a state in two registers, (a b e f) and (c d g h), highest word first.
#include "checkpoint/block_digests.h"

#include <algorithm>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace shardproof {
namespace {

constexpr std::size_t unit = 64;  // bytes that one pass of the rounds takes in

#if defined(__x86_64__)

constexpr bool compiled = true;
constexpr int lanes = 2;  // four need more registers than there are, and gained nothing

#define SHARDPROOF_TARGET __attribute__((target("sha,sse4.1,ssse3")))

alignas(16) constexpr std::uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

struct States {
  __m128i abef[lanes], cdgh[lanes];
};

// Swaps the bytes of each word: messages and digests are big-endian.
SHARDPROOF_TARGET inline __m128i swapped(__m128i words) {
  const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  return _mm_shuffle_epi8(words, order);
}

// Takes in `units` units from each of the places.
SHARDPROOF_TARGET inline void take_in(States& states, const std::byte* const* from,
                                      std::size_t units) {
  for (std::size_t at = 0; at < units * unit; at += unit) {
    __m128i abef[lanes], cdgh[lanes], words[lanes][4];
    for (int lane = 0; lane < lanes; ++lane) {
      abef[lane] = states.abef[lane];
      cdgh[lane] = states.cdgh[lane];
      for (int i = 0; i < 4; ++i) {
        const auto* source = reinterpret_cast<const __m128i*>(from[lane] + at) + i;
        words[lane][i] = swapped(_mm_loadu_si128(source));
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {  // four rounds each
      const auto* constants = reinterpret_cast<const __m128i*>(round_constants) + i;
#pragma GCC unroll 2
      for (int lane = 0; lane < lanes; ++lane) {
        __m128i* const w = words[lane];
        const __m128i sum = _mm_add_epi32(w[i & 3], _mm_load_si128(constants));
        cdgh[lane] = _mm_sha256rnds2_epu32(cdgh[lane], abef[lane], sum);
        abef[lane] = _mm_sha256rnds2_epu32(abef[lane], cdgh[lane], _mm_shuffle_epi32(sum, 0x0e));
        if (i >= 12) continue;  // the words of the last rounds are there
        const __m128i seven_back = _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4);
        const __m128i begun = _mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]);
        w[i & 3] = _mm_sha256msg2_epu32(_mm_add_epi32(begun, seven_back), w[(i + 3) & 3]);
      }
    }
    for (int lane = 0; lane < lanes; ++lane) {
      states.abef[lane] = _mm_add_epi32(states.abef[lane], abef[lane]);
      states.cdgh[lane] = _mm_add_epi32(states.cdgh[lane], cdgh[lane]);
    }
  }
}

SHARDPROOF_TARGET inline Digest digest_of(__m128i abef, __m128i cdgh) {
  const __m128i abcd = _mm_shuffle_epi32(_mm_unpackhi_epi64(cdgh, abef), 0x1b);
  const __m128i efgh = _mm_shuffle_epi32(_mm_unpacklo_epi64(cdgh, abef), 0x1b);
  Digest digest;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(digest.bytes.data()), swapped(abcd));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(digest.bytes.data() + 16), swapped(efgh));
  return digest;
}

// The digests of two blocks, `block_bytes` each (a multiple of 64), one after the other.
SHARDPROOF_TARGET void add_pair(const std::byte* blocks, std::size_t block_bytes,
                                std::vector<Digest>& out) {
  States states;
  std::byte last[unit] = {std::byte{0x80}};  // the padding: a bit, zeros, the length in bits
  for (std::size_t i = 0; i < 8; ++i) {
    last[unit - 1 - i] = static_cast<std::byte>(std::uint64_t{block_bytes} * 8 >> 8 * i);
  }
  const std::byte* from[lanes];
  const std::byte* padding[lanes];
  for (int lane = 0; lane < lanes; ++lane) {
    from[lane] = blocks + static_cast<std::size_t>(lane) * block_bytes;
    padding[lane] = last;
    states.abef[lane] = _mm_set_epi32(0x6a09e667, static_cast<int>(0xbb67ae85), 0x510e527f,
                                      static_cast<int>(0x9b05688c));
    states.cdgh[lane] =
        _mm_set_epi32(0x3c6ef372, static_cast<int>(0xa54ff53a), 0x1f83d9ab, 0x5be0cd19);
  }
  take_in(states, from, block_bytes / unit);
  take_in(states, padding, 1);
  for (int lane = 0; lane < lanes; ++lane) {
    out.push_back(digest_of(states.abef[lane], states.cdgh[lane]));
  }
}

#undef SHARDPROOF_TARGET

bool has_instructions() {
  unsigned int a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned int ssse3 = 1u << 9, sse41 = 1u << 19, sha = 1u << 29;
  if ((c & ssse3) == 0 || (c & sse41) == 0) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & sha) != 0;
}

#else

constexpr bool compiled = false;
bool has_instructions() {
  return false;
}
void add_pair(const std::byte*, std::size_t, std::vector<Digest>&) {}

#endif

}  // namespace

std::vector<Digest> block_digests(std::span<const std::byte> bytes, std::size_t block_bytes) {
  static const bool in_pairs = compiled && has_instructions();
  std::vector<Digest> digests;
  digests.reserve(bytes.size() / block_bytes + 1);
  std::size_t at = 0;
  if (in_pairs && block_bytes % unit == 0) {
    for (; bytes.size() - at >= 2 * block_bytes; at += 2 * block_bytes) {
      add_pair(bytes.data() + at, block_bytes, digests);
    }
  }
  if (at == bytes.size()) return digests;
  Sha256 hash;
  for (; at < bytes.size(); at += block_bytes) {
    const std::size_t count = std::min(block_bytes, bytes.size() - at);
    digests.push_back(hash.update(bytes.data() + at, count).finish());
  }
  return digests;
}

}  // namespace shardproof
