// signature: polynomial hashes over basic types, which join and repeat without a list.
#include "harness/interpose/signature.h"

#include <map>
#include <mutex>
#include <vector>

namespace shardproof::interpose {
namespace {

constexpr std::uint64_t base = 0x9e3779b97f4a7c15u;

std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  }
  return hash | 1;
}

Signature of_basic(const std::string& dtype) {
  const std::uint64_t hash = hash_of(dtype);
  return {hash, 1, base, hash, dtype};
}

// Kinds of basic types; what is not listed goes by its MPI name.
const std::map<std::string, char>& kinds() {
  static const std::map<std::string, char> all{
      {"MPI_CHAR", 'I'},
      {"MPI_SIGNED_CHAR", 'I'},
      {"MPI_SHORT", 'I'},
      {"MPI_INT", 'I'},
      {"MPI_LONG", 'I'},
      {"MPI_LONG_LONG", 'I'},
      {"MPI_LONG_LONG_INT", 'I'},
      {"MPI_INT8_T", 'I'},
      {"MPI_INT16_T", 'I'},
      {"MPI_INT32_T", 'I'},
      {"MPI_INT64_T", 'I'},
      {"MPI_INTEGER", 'I'},
      {"MPI_INTEGER1", 'I'},
      {"MPI_INTEGER2", 'I'},
      {"MPI_INTEGER4", 'I'},
      {"MPI_INTEGER8", 'I'},
      {"MPI_AINT", 'I'},
      {"MPI_OFFSET", 'I'},
      {"MPI_COUNT", 'I'},
      {"MPI_CHARACTER", 'I'},
      {"MPI_UNSIGNED_CHAR", 'U'},
      {"MPI_UNSIGNED_SHORT", 'U'},
      {"MPI_UNSIGNED", 'U'},
      {"MPI_UNSIGNED_LONG", 'U'},
      {"MPI_UINT8_T", 'U'},
      {"MPI_UINT16_T", 'U'},
      {"MPI_UINT32_T", 'U'},
      {"MPI_UINT64_T", 'U'},
      {"MPI_UNSIGNED_LONG_LONG", 'U'},
      {"MPI_FLOAT", 'F'},
      {"MPI_DOUBLE", 'F'},
      {"MPI_LONG_DOUBLE", 'F'},
      {"MPI_REAL", 'F'},
      {"MPI_REAL4", 'F'},
      {"MPI_REAL8", 'F'},
      {"MPI_DOUBLE_PRECISION", 'F'},
      {"MPI_C_COMPLEX", 'C'},
      {"MPI_C_FLOAT_COMPLEX", 'C'},
      {"MPI_C_DOUBLE_COMPLEX", 'C'},
      {"MPI_COMPLEX", 'C'},
      {"MPI_DOUBLE_COMPLEX", 'C'},
      {"MPI_CXX_FLOAT_COMPLEX", 'C'},
      {"MPI_CXX_DOUBLE_COMPLEX", 'C'},
      {"MPI_BYTE", 'B'},
      {"MPI_PACKED", 'B'},
  };
  return all;
}

Signature of_named(MPI_Datatype type) {
  char name[MPI_MAX_OBJECT_NAME] = {};
  int length = 0, size = 0;
  PMPI_Type_get_name(type, name, &length);
  PMPI_Type_size(type, &size);
  const auto kind = kinds().find(name);
  if (kind == kinds().end()) return of_basic(name);
  if (kind->second == 'B') return of_basic("bytes");
  return of_basic(kind->second + std::to_string(8 * size));
}

Signature of_one(MPI_Datatype type);

// The contents of a datatype; inner datatypes that were made for us are freed.
struct Contents {
  std::vector<int> integers;
  std::vector<MPI_Datatype> types;

  Contents(MPI_Datatype type, int n_integers, int n_addresses, int n_types)
      : integers(static_cast<std::size_t>(n_integers) + 1),
        types(static_cast<std::size_t>(n_types)) {
    std::vector<MPI_Aint> addresses(static_cast<std::size_t>(n_addresses) + 1);
    PMPI_Type_get_contents(type, n_integers, n_addresses, n_types, integers.data(),
                           addresses.data(), types.data());
  }
  Contents(const Contents&) = delete;
  ~Contents() {
    for (MPI_Datatype& inner : types) {
      int i = 0, a = 0, t = 0, combiner = 0;
      PMPI_Type_get_envelope(inner, &i, &a, &t, &combiner);
      const bool made = combiner != MPI_COMBINER_NAMED && combiner != MPI_COMBINER_F90_REAL &&
                        combiner != MPI_COMBINER_F90_INTEGER &&
                        combiner != MPI_COMBINER_F90_COMPLEX;
      if (made) PMPI_Type_free(&inner);
    }
  }
};

// Of one inner type its sequence is the type's, again and again; a struct has several.
Signature of_derived(MPI_Datatype type, int integers, int addresses, int types, int combiner) {
  const Contents contents(type, integers, addresses, types);
  Signature whole;
  if (combiner == MPI_COMBINER_STRUCT) {
    for (std::size_t i = 0; i < contents.types.size(); ++i) {
      const auto times = static_cast<std::uint64_t>(contents.integers[i + 1]);
      whole = then(whole, repeated(of_one(contents.types[i]), times));
    }
    return whole;
  }
  MPI_Count size = 0, inner_size = 0;
  PMPI_Type_size_x(type, &size);
  PMPI_Type_size_x(contents.types[0], &inner_size);
  if (inner_size <= 0) return whole;
  return repeated(of_one(contents.types[0]), static_cast<std::uint64_t>(size / inner_size));
}

std::mutex known_mutex;
std::map<MPI_Datatype, Signature>& known() {
  static std::map<MPI_Datatype, Signature> all;
  return all;
}

Signature of_one(MPI_Datatype type) {
  {
    const std::lock_guard lock(known_mutex);
    if (const auto found = known().find(type); found != known().end()) return found->second;
  }
  int integers = 0, addresses = 0, types = 0, combiner = 0;
  PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  const bool named = combiner == MPI_COMBINER_NAMED || types == 0;
  Signature signature =
      named ? of_named(type) : of_derived(type, integers, addresses, types, combiner);
  const std::lock_guard lock(known_mutex);
  known()[type] = signature;
  return signature;
}

}  // namespace

Signature then(const Signature& first, const Signature& second) {
  if (first.length == 0) return second;
  if (second.length == 0) return first;
  const bool same = first.kind != 0 && first.kind == second.kind;
  return {first.hash * second.power + second.hash, first.length + second.length,
          first.power * second.power, same ? first.kind : 0, same ? first.dtype : "mixed"};
}

Signature repeated(const Signature& one, std::uint64_t times) {
  Signature whole, doubled = one;
  for (; times > 0; times /= 2) {
    if (times % 2 == 1) whole = then(whole, doubled);
    doubled = then(doubled, doubled);
  }
  return whole;
}

Signature signature_of(MPI_Datatype type, std::int64_t count) {
  if (type == MPI_DATATYPE_NULL || count <= 0) return {};
  return repeated(of_one(type), static_cast<std::uint64_t>(count));
}

void forget_type(MPI_Datatype type) {
  const std::lock_guard lock(known_mutex);
  known().erase(type);
}

bool fits(const Signature& sent, std::uint64_t sent_bytes, MPI_Datatype type, std::int64_t count) {
  MPI_Count size = 0;
  if (type != MPI_DATATYPE_NULL) PMPI_Type_size_x(type, &size);
  if (sent_bytes > static_cast<std::uint64_t>(size) * static_cast<std::uint64_t>(count)) {
    return false;
  }
  static const std::uint64_t bytes = of_basic("bytes").kind;
  const Signature one = signature_of(type, 1);
  if (sent.length == 0 || one.length == 0) return true;
  if (sent.kind == bytes || one.kind == bytes) return true;
  if (sent.kind != 0 && one.kind != 0) return sent.kind == one.kind;
  if (sent.length % one.length != 0) return true;
  return repeated(one, sent.length / one.length).hash == sent.hash;
}

}  // namespace shardproof::interpose
