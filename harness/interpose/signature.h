// signature: the sequence of basic types that a count of a datatype stands for, which is what MPI
// wants to be equal on both sides, however the datatypes are built. Basic types of one kind and
// size count as one (MPI_INT, MPI_INT32_T and MPI_INTEGER of 4 bytes). A sequence is known by its
// length and a hash of its order. Thread rule: any thread.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>

namespace shardproof::interpose {

struct Signature {
  std::uint64_t hash = 0;
  std::uint64_t length = 0;  // basic elements
  std::uint64_t power = 1;   // of the hash's base, to the length
  std::uint64_t kind = 0;    // the hash of the one basic type; 0: none, or several
  std::string dtype;         // "F32", "I32", "mixed"; "" without elements
};

Signature signature_of(MPI_Datatype type, std::int64_t count);
Signature then(const Signature& first, const Signature& second);
Signature repeated(const Signature& one, std::uint64_t times);
void forget_type(MPI_Datatype type);  // its handle may come to mean another one

// Bytes are bytes: MPI_BYTE and MPI_PACKED take any type. Mixed types are compared only
// where a whole number of the receiver's datatypes was sent.
bool fits(const Signature& sent, std::uint64_t sent_bytes, MPI_Datatype type, std::int64_t count);

}  // namespace shardproof::interpose
