// token_stream: a file as one long run of tokens, mapped and not copied: the bytes of a text, or
// uint16 tokens (nanoGPT: no header; llm.c: 256 int32 with magic 20240520, version 1, token count).
// Opening reads the file once: for its digest, and to check every token against the vocabulary.
// Thread rule: immutable. Not checked: that the file stays as it is while it is mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/digest.h"

namespace shardproof {

class TokenStream {
 public:
  // Error bad_input naming the file, the place in it and what was expected.
  static TokenStream open_text(const std::string& path);
  static TokenStream open_tokens(const std::string& path, int vocabulary);

  std::int64_t size() const { return size_; }
  std::int32_t operator[](std::int64_t index) const {
    const auto i = static_cast<std::size_t>(index);
    return width_ == 1 ? std::to_integer<std::int32_t>(tokens_[i])
                       : std::to_integer<std::int32_t>(tokens_[2 * i]) |
                             std::to_integer<std::int32_t>(tokens_[2 * i + 1]) << 8;
  }
  const Digest& digest() const { return digest_; }  // of the whole file
  const std::string& path() const { return path_; }

 private:
  TokenStream(const std::string& path);  // maps it
  void find_tokens();                    // reads the header, if there is one
  void check_tokens(int vocabulary) const;

  std::string path_;
  std::shared_ptr<const void> mapping_;
  std::span<const std::byte> bytes_;  // the whole file
  const std::byte* tokens_ = nullptr;
  std::int64_t size_ = 0;
  int width_ = 1;
  Digest digest_;
};

}  // namespace shardproof
