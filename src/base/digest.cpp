// digest: OpenSSL EVP behind a value type; a failure inside OpenSSL is a bug, not an Error.
#include "base/digest.h"

#include <openssl/evp.h>

#include "base/check.h"
#include "base/error.h"

namespace shardproof {
namespace {

// Fetched once: an implicit fetch at every init costs more than hashing a small block.
const EVP_MD* sha256_method() {
  static const EVP_MD* method = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  SP_CHECK(method != nullptr, "OpenSSL has no SHA256");
  return method;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string Digest::hex() const {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

Digest Digest::from_hex(std::string_view hex) {
  Digest digest;
  bool good = hex.size() == 2 * digest.bytes.size();
  for (std::size_t i = 0; good && i < digest.bytes.size(); ++i) {
    const int high = hex_value(hex[2 * i]);
    const int low = hex_value(hex[2 * i + 1]);
    good = high >= 0 && low >= 0;
    digest.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  if (!good) {
    throw Error(ErrorKind::bad_input, "SHA-256 \"" + std::string(hex.substr(0, 80)) + "\"",
                "expected 64 hex digits");
  }
  return digest;
}

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  Impl() {
    SP_CHECK(context != nullptr, "EVP_MD_CTX_new");
    start();
  }
  ~Impl() { EVP_MD_CTX_free(context); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void start() {
    SP_CHECK(EVP_DigestInit_ex2(context, sha256_method(), nullptr) == 1, "EVP_DigestInit_ex2");
  }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::update(const void* data, std::size_t bytes) {
  SP_CHECK(EVP_DigestUpdate(impl_->context, data, bytes) == 1, "EVP_DigestUpdate");
  return *this;
}

Digest Sha256::finish() {
  Digest digest;
  unsigned int size = 0;
  SP_CHECK(EVP_DigestFinal_ex(impl_->context, digest.bytes.data(), &size) == 1,
           "EVP_DigestFinal_ex");
  SP_CHECK_EQ(size, digest.bytes.size());
  impl_->start();
  return digest;
}

Digest sha256(const void* data, std::size_t bytes) {
  return Sha256().update(data, bytes).finish();
}

Digest sha256(std::string_view text) {
  return sha256(text.data(), text.size());
}

}  // namespace shardproof
