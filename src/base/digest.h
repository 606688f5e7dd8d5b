// digest: SHA-256 (FIPS 180-4) through OpenSSL EVP. Thread rule: one Sha256 per thread.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace shardproof {

struct Digest {
  std::array<std::uint8_t, 32> bytes{};

  std::string hex() const;
  static Digest from_hex(std::string_view hex);  // Error bad_input unless 64 hex digits
  auto operator<=>(const Digest&) const = default;
};

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  Sha256& update(const void* data, std::size_t bytes);
  Sha256& update(std::string_view text) { return update(text.data(), text.size()); }
  Digest finish();  // resets: the object can be used again

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

Digest sha256(const void* data, std::size_t bytes);
Digest sha256(std::string_view text);

}  // namespace shardproof
