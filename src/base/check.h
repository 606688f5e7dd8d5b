// check: the program's own bugs. A failed SP_CHECK prints the expression, both values and the
// place, and aborts the process (thread ranks included: a bug is never a verdict). Failures of the
// world (a file, a peer, an input) are Error (error.h), never SP_CHECK.
#pragma once

#include <sstream>
#include <string>

namespace shardproof {

[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const std::string& values);

namespace internal {
template <typename A, typename B>
std::string both_values(const A& a, const B& b) {
  std::ostringstream out;
  out << a << " vs " << b;
  return out.str();
}
}  // namespace internal

}  // namespace shardproof

#define SP_CHECK(condition, message)                                                       \
  do {                                                                                     \
    if (!(condition)) ::shardproof::check_failed(#condition, __FILE__, __LINE__, message); \
  } while (false)

#define SP_CHECK_OP(a, op, b)                                                      \
  do {                                                                             \
    const auto& sp_a = (a);                                                        \
    const auto& sp_b = (b);                                                        \
    if (!(sp_a op sp_b))                                                           \
      ::shardproof::check_failed(#a " " #op " " #b, __FILE__, __LINE__,            \
                                 ::shardproof::internal::both_values(sp_a, sp_b)); \
  } while (false)

#define SP_CHECK_EQ(a, b) SP_CHECK_OP(a, ==, b)
#define SP_CHECK_LT(a, b) SP_CHECK_OP(a, <, b)
#define SP_CHECK_LE(a, b) SP_CHECK_OP(a, <=, b)
